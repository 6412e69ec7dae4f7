//! Agents in network namespaces, with a bridge between their ports, and the command as their tester. That takes root;
//! without, these tests say so and pass. They send little, and do not judge what a busy machine does in time.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A network namespace; gone when dropped.
struct Net(String);

impl Net {
    fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("kpps-a{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).stderr(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no right to make a network namespace");
            return None;
        }
        let net = Self(name);
        // Or the kernel's neighbour discovery would send frames that nobody asked for.
        net.run(
            "for all in all default; do echo 1 > /proc/sys/net/ipv6/conf/$all/disable_ipv6; done; ip link set dev lo up",
        );
        Some(net)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }

    fn run(&self, line: &str) {
        assert!(self.command("sh").args(["-c", line]).status().unwrap().success(), "{line}");
    }

    fn kpps(&self, words: &[&str]) -> Command {
        let mut command = self.command(assert_cmd::cargo::cargo_bin("kpps").to_str().unwrap());
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// The tester's namespace, with the device under test, a bridge, and another network to reach the agents by; and the
/// namespaces of two agents, 10.9.0.1 with port `pa` and 10.9.0.2 with port `pb`.
struct Lab {
    tester: Net,
    agents: [Net; 2],
    files: tempfile::TempDir,
}

impl Lab {
    fn new() -> Option<Self> {
        let tester = Net::new()?;
        let agents = [Net::new()?, Net::new()?];
        for bridge in ["dut", "mgmt"] {
            tester.run(&format!(
                "ip link add name {bridge} type bridge mcast_snooping 0 && ip link set dev {bridge} up"
            ));
        }
        tester.run("ip address add 10.9.0.254/24 dev mgmt");
        for (agent, (port, number)) in agents.iter().zip([("pa", 1), ("pb", 2)]) {
            for (end, bridge) in [(port, "dut"), ("m", "mgmt")] {
                let here = format!("{bridge}{number}");
                tester.run(&format!(
                    "ip link add name {here} type veth peer name {end} netns {} &&
                     ip link set dev {here} master {bridge} && ip link set dev {here} up",
                    agent.0
                ));
                agent.run(&format!("ip link set dev {end} up"));
            }
            agent.run(&format!("ip address add 10.9.0.{number}/24 dev m"));
        }
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("token"), "0123456789abcdef0123").unwrap();
        std::fs::write(files.path().join("other"), "another-token-012345").unwrap();
        Some(Self { tester, agents, files })
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).to_str().unwrap().to_owned()
    }

    fn agent(&self, at: usize, credentials: &[&str], more: &[&str]) -> Agent {
        let ports = ["packet:pa", "packet:pb"][at];
        let words = [&["agent", "--allow-ports", ports][..], credentials, more].concat();
        Agent::start(self.agents[at].kpps(&words))
    }

    /// `kpps trial` from the first port to the second.
    fn trial(&self, load: &str, duration: &str, credentials: &[&str]) -> Command {
        let words = [
            "trial",
            "--testbed",
            "packet:pa,packet:pb",
            "--from",
            "10.9.0.1",
            "--to",
            "10.9.0.2",
            "--watch",
            "dut1,dut2",
            "--load",
            load,
            "--duration",
            duration,
            "--json",
        ];
        self.tester.kpps(&[&words[..], credentials].concat())
    }
}

/// An agent, and what it says.
struct Agent {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Agent {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let to = said.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *to.lock().unwrap() += &format!("{line}\n");
            }
        });
        let agent = Self { child, said };
        agent.says("listening on");
        agent
    }

    /// Waits until it has said this.
    fn says(&self, what: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.said.lock().unwrap().contains(what) {
            assert!(Instant::now() < end, "'{what}' is not in: {}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: &str) {
        kill(signal, self.child.id());
    }
}

fn kill(signal: &str, id: u32) {
    assert!(Command::new("kill").args([signal, &id.to_string()]).status().unwrap().success());
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// What it says in its one line, and how it ends.
fn line(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
    said
}

/// All frames are accounted for: nothing but what a busy machine did not send in time is missing.
fn closes(trial: &Value, intended: u64) {
    assert_eq!(
        (&trial["kind"], &trial["complete"], &trial["learned"]),
        (&"trial".into(), &true.into(), &true.into())
    );
    let count = |name: &str| trial[name].as_u64().unwrap();
    assert_eq!((count("intended"), count("sent") + count("unsent")), (intended, intended), "{trial}");
    assert_eq!(count("sent"), count("received") + count("lost"), "{trial}");
    assert_eq!((count("duplicated"), count("corrupted")), (0, 0), "{trial}");
    assert_eq!(
        (&trial["ledger"]["unexplained"], trial["received"].as_u64() > Some(0)),
        (&0.into(), true),
        "{trial}"
    );
}

#[test]
fn a_trial_across_two_agents_closes_with_a_token_and_with_certificates() {
    let Some(lab) = Lab::new() else { return };
    let schema: Value =
        serde_json::from_slice(&lab.tester.kpps(&["schema"]).output().unwrap().stdout).unwrap();
    let token = lab.file("token");
    let token = ["--token-file", &token];
    let keys = lab.file("keys");
    let made = lab.tester.kpps(&["agent", "keys", &keys, "10.9.0.1", "10.9.0.2"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&made.stdout).lines().count(), 8);
    let files = |name: &str| {
        ["ca.pem", &format!("{name}.pem"), &format!("{name}.key")]
            .map(|file| Path::new(&keys).join(file).to_str().unwrap().to_owned())
    };
    let all = ["10.9.0.1", "10.9.0.2", "tester"].map(files);
    let tls = all.each_ref().map(|[ca, cert, key]| ["--tls-ca", ca, "--tls-cert", cert, "--tls-key", key]);
    for [a, b, tester] in [[&token[..], &token, &token], tls.each_ref().map(|words| &words[..])] {
        let _agents = [lab.agent(0, a, &[]), lab.agent(1, b, &[])];
        let output = lab.trial("4kpps", "250ms", tester).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let trial = document(&output);
        jsonschema::validate(&schema, &trial).unwrap();
        closes(&trial, 1000);
        assert_eq!(trial["testbed"], serde_json::json!(["10.9.0.1/packet:pa", "10.9.0.2/packet:pb"]));
        // Three systems were looked at: what the bridge is part of, and both agents'.
        for interface in ["dut1", "10.9.0.1/pa", "10.9.0.2/pb"] {
            assert!(trial["interfaces"][interface].is_object(), "{trial}");
        }
        assert_eq!(trial["hosts"].as_array().unwrap().len(), 3);
        // One machine has one clock, whatever its namespaces.
        assert!(trial["clocks"].is_null() && trial["latency_ns"]["p50"].as_u64().is_some(), "{trial}");
    }
    // One port here, the other behind an agent; both ways.
    let _agent = lab.agent(1, &token, &[]);
    lab.tester.run("ip link add name h type veth peer name dut3 && ip link set dev dut3 master dut && ip link set dev h up && ip link set dev dut3 up");
    let words = [
        "trial",
        "--testbed",
        "packet:h,packet:pb",
        "--to",
        "10.9.0.2",
        "--load",
        "2kpps",
        "--duration",
        "250ms",
    ];
    let output = lab.tester.kpps(&[&words[..], &token, &["--both", "--json"]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    closes(&document(&output), 1000);
}

#[test]
fn who_is_not_known_or_asks_too_much_is_told_so_in_one_line() {
    let Some(lab) = Lab::new() else { return };
    let (token, other) = (lab.file("token"), lab.file("other"));
    let (token, other) = (["--token-file", &token], ["--token-file", &other]);
    let limits = ["--max-load", "5kpps", "--max-duration", "2s"];
    let agents = [lab.agent(0, &token, &limits), lab.agent(1, &token, &[])];
    let fails = |load: &str, duration: &str, credentials: &[&str]| {
        line(&lab.trial(load, duration, credentials).output().unwrap(), 2)
    };
    let said = fails("4kpps", "1s", &other);
    assert!(said.contains("agent 10.9.0.1: it does not know this token"), "{said}");
    agents[0].says("refused");
    assert!(fails("4kpps", "1s", &[]).contains("--token-file"));
    let said = fails("6kpps", "1s", &token);
    assert!(said.contains("10.9.0.1/packet:pa") && said.contains("at most 5.0 kpps are allowed"), "{said}");
    let said = fails("4kpps", "3s", &token);
    assert!(said.contains("10.9.0.1/packet:pa") && said.contains("at most 2 s are allowed"), "{said}");
    let words = [
        "trial",
        "--testbed",
        "packet:m,packet:pb",
        "--from",
        "10.9.0.1",
        "--to",
        "10.9.0.2",
        "--load",
        "1kpps",
    ];
    let said = line(&lab.tester.kpps(&[&words[..], &token].concat()).output().unwrap(), 2);
    assert!(said.contains("agent 10.9.0.1: packet:m is not among the allowed ports: packet:pa"), "{said}");
    // Within what is allowed it goes.
    let output = lab.trial("4kpps", "250ms", &token).output().unwrap();
    closes(&document(&output), 1000);
    // Who has a token meets who wants certificates, and the other way round.
    let folders = ["lab", "stranger"].map(|name| lab.file(name));
    for folder in &folders {
        assert!(lab.tester.kpps(&["agent", "keys", folder, "10.9.0.1"]).output().unwrap().status.success());
    }
    let files = |folder: &str, name: &str| {
        ["ca.pem".to_owned(), format!("{name}.pem"), format!("{name}.key")]
            .map(|file| format!("{folder}/{file}"))
    };
    let mine = files(&folders[0], "10.9.0.1");
    let theirs = files(&folders[1], "tester");
    let certificates = ["--tls-ca", &theirs[0], "--tls-cert", &theirs[1], "--tls-key", &theirs[2]];
    let said = fails("4kpps", "1s", &certificates);
    assert!(said.contains("agent 10.9.0.1: it wants a token (--token-file)"), "{said}");
    drop(agents);
    let _agent = lab.agent(0, &["--tls-ca", &mine[0], "--tls-cert", &mine[1], "--tls-key", &mine[2]], &[]);
    let said = fails("4kpps", "1s", &token);
    assert!(said.contains("agent 10.9.0.1: it wants certificates (--tls-ca"), "{said}");
    // A certificate of another authority.
    let said = fails("4kpps", "1s", &certificates);
    assert!(said.contains("agent 10.9.0.1") && said.contains("certificate"), "{said}");
}

/// How many frames an interface has sent.
fn sent(net: &Net, interface: &str) -> u64 {
    let path = format!("/sys/class/net/{interface}/statistics/tx_packets");
    // A namespace that is entered has its own view of sysfs.
    let output = net.command("cat").arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

#[test]
fn an_agent_that_is_lost_ends_the_trial_and_a_lost_tester_the_sending() {
    let Some(lab) = Lab::new() else { return };
    let token = lab.file("token");
    let token = ["--token-file", &token];
    // Killed; stopped, as one that the network no longer reaches.
    for (lost, signal) in [(1, "-KILL"), (0, "-STOP")] {
        let agents = [lab.agent(0, &token, &[]), lab.agent(1, &token, &[])];
        let begun = sent(&lab.agents[0], "pa");
        let trial = lab.trial("2kpps", "60s", &token).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        // Well beyond learning and what the sender can send, which is measured first.
        while trial_is_young(&lab.agents[0], begun) {
            assert!(Instant::now() < end, "nothing is sent");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(4));
        agents[lost].signal(signal);
        let output = trial.wait_with_output().unwrap();
        agents[lost].signal("-KILL");
        let said = line(&output, 1);
        let name = format!("10.9.0.{}", lost + 1);
        assert!(said.contains(&name) && said.contains("lost"), "{said}");
        let trial = document(&output);
        assert_eq!(trial["complete"], false);
        assert!(trial["trouble"].as_str().unwrap().contains(&name), "{trial}");
        assert!(trial["sent"].as_u64() > Some(0) && trial["received"].as_u64() > Some(0), "{trial}");
        assert!(trial["seconds"].as_f64() < Some(50.0), "{trial}");
    }
    // A tester that no longer answers: the sender must not go on.
    let agents = [lab.agent(0, &token, &[]), lab.agent(1, &token, &[])];
    let begun = sent(&lab.agents[0], "pa");
    let mut trial =
        lab.trial("2kpps", "60s", &token).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while trial_is_young(&lab.agents[0], begun) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(3));
    kill("-STOP", trial.id());
    for agent in &agents {
        agent.says("the tester is gone in the middle of a trial");
    }
    let then = sent(&lab.agents[0], "pa");
    std::thread::sleep(Duration::from_millis(500));
    assert!(sent(&lab.agents[0], "pa") - then <= 2, "nothing is sent any longer");
    trial.kill().unwrap();
    trial.wait().unwrap();
}

/// Whether no load has begun since so many frames were sent.
fn trial_is_young(net: &Net, begun: u64) -> bool {
    sent(net, "pa") < begun + 50
}

#[test]
fn a_search_across_two_agents_is_as_at_home() {
    let Some(lab) = Lab::new() else { return };
    let token = lab.file("token");
    let token = ["--token-file", &token];
    let _agents = [lab.agent(0, &token, &[]), lab.agent(1, &token, &[])];
    let hosts = ["--testbed", "packet:pa,packet:pb", "--from", "10.9.0.1", "--to", "10.9.0.2", "--json"];
    let run = |words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        let output = lab.tester.kpps(&[&words[..], &hosts, &token].concat()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        document(&output)
    };
    let found = run("ndr --min 1kpps --max 2kpps --width 30% --duration 100ms --loss 90%");
    assert!(found["goals"][1]["lower_pps"].as_f64() > Some(900.0), "{found}");
    assert!(found["environment"]["10.9.0.1: packet:pa"].as_str().unwrap().contains("driver veth"), "{found}");
    let curve = run("curve --load 1kpps,2kpps --duration 100ms");
    let points = curve["series"][0]["points"].as_array().unwrap();
    assert!(points.len() == 2 && points[1]["delivered_pps"].as_f64() > Some(0.0), "{curve}");
    assert_eq!(curve["environment"]["machine"], "10.9.0.1/packet:pa and 10.9.0.2/packet:pb");
    // What is between the ports is no agent's: it is looked at from where the tester is.
    let words = ["trial", "--load", "1kpps", "--duration", "100ms", "--watch", "dut1,no-such"];
    let output = lab.tester.kpps(&[&words[..], &hosts, &token].concat()).output().unwrap();
    assert!(line(&output, 2).contains("no-such: no such interface"));
}
