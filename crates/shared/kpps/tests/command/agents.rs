//! Agents in network namespaces, with a bridge between their ports, and the command as their tester. That
//! takes root; without, these tests say so and pass. They send little, and do not depend on the speed of a
//! busy machine.

use crate::net::is_short_of_cpu;
use kpps_namespaces::{Agents, Net, Process, signal, until_undisturbed};
use serde_json::Value;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Namespaces of a tester and of two agents with ports `pa` and `pb`, and their credentials.
struct Lab {
    nets: Agents,
    files: tempfile::TempDir,
}

fn kpps(net: &Net, words: &[&str]) -> Command {
    let mut command = net.command(assert_cmd::cargo::cargo_bin("kpps"));
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Writes a file that these may read.
fn secret(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Lab {
    fn new() -> Option<Self> {
        let nets = Agents::new(["pa", "pb"])?;
        let files = tempfile::tempdir().unwrap();
        secret(&files.path().join("token"), "0123456789abcdef0123", 0o600);
        secret(&files.path().join("other"), "another-token-012345", 0o600);
        Some(Self { nets, files })
    }

    /// The command, where the tester is.
    fn kpps(&self, words: &[&str]) -> Command {
        kpps(&self.nets.tester, words)
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).to_str().unwrap().to_owned()
    }

    fn agent(&self, at: usize, credentials: &[&str], more: &[&str]) -> Process {
        let ports = ["packet:pa", "packet:pb"][at];
        let listen = ["agent", "--listen", "0.0.0.0:5777", "--allow-ports", ports];
        let words = [&listen[..], credentials, more].concat();
        Process::start(kpps(&self.nets.agents[at], &words), "listening on", Duration::from_secs(60))
    }

    /// `kpps trial` from the first port to the second.
    fn trial(&self, load: &str, duration: &str, credentials: &[&str]) -> Command {
        let words = [
            "trial",
            "--ports",
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
        self.kpps(&[&words[..], credentials].concat())
    }
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Its one line of output, after it ended with `code`.
fn line(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
    said
}

/// All frames are accounted for: only frames that a busy machine did not send in time are missing.
fn closes(trial: &Value, intended: u64) {
    assert_eq!(
        (&trial["kind"], &trial["complete"], &trial["learned"]),
        (&"trial".into(), &true.into(), &true.into())
    );
    let count = |name: &str| trial[name].as_u64().unwrap();
    assert_eq!((count("intended"), count("sent") + count("shortfall")), (intended, intended), "{trial}");
    assert_eq!(count("sent"), count("received") + count("lost") + count("overflow"), "{trial}");
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
    let schema: Value = serde_json::from_slice(&lab.kpps(&["schema"]).output().unwrap().stdout).unwrap();
    let token = lab.file("token");
    let token = ["--token-file", &token];
    let keys = lab.file("keys");
    let made = lab.kpps(&["agent", "keys", &keys, "10.9.0.1", "10.9.0.2"]).output().unwrap();
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
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || is_short_of_cpu(&output), "{said}");
        let trial = document(&output);
        jsonschema::validate(&schema, &trial).unwrap();
        closes(&trial, 1000);
        assert_eq!(
            trial["environment"]["testbed"],
            serde_json::json!(["10.9.0.1/packet:pa", "10.9.0.2/packet:pb"])
        );
        // Three systems were observed: the bridge's, and both agents'.
        for interface in ["dut1", "10.9.0.1/pa", "10.9.0.2/pb"] {
            assert!(trial["interfaces"][interface].is_object(), "{trial}");
        }
        assert_eq!(trial["hosts"].as_array().unwrap().len(), 3);
        // One machine has one clock, whatever its namespaces.
        assert!(trial["clocks"].is_null() && trial["latency_ns"]["p50"].as_u64().is_some(), "{trial}");
    }
    // One port here, the other behind an agent; both ways.
    let _agent = lab.agent(1, &token, &[]);
    lab.nets.tester.run("ip link add name h type veth peer name dut3 && ip link set dev dut3 master dut && ip link set dev h up && ip link set dev dut3 up");
    let words = [
        "trial",
        "--ports",
        "packet:h,packet:pb",
        "--to",
        "10.9.0.2",
        "--load",
        "2kpps",
        "--duration",
        "250ms",
    ];
    let output = lab.kpps(&[&words[..], &token, &["--bidirectional", "--json"]].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || is_short_of_cpu(&output), "{said}");
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
    assert!(said.contains("agent 10.9.0.1: wrong token"), "{said}");
    agents[0].says("refused");
    assert!(fails("4kpps", "1s", &[]).contains("--token-file"));
    let said = fails("6kpps", "1s", &token);
    assert!(said.contains("10.9.0.1/packet:pa") && said.contains("at most 5.0 kpps are allowed"), "{said}");
    let said = fails("4kpps", "3s", &token);
    assert!(said.contains("10.9.0.1/packet:pa") && said.contains("at most 2 s are allowed"), "{said}");
    let words = [
        "trial",
        "--ports",
        "packet:m,packet:pb",
        "--from",
        "10.9.0.1",
        "--to",
        "10.9.0.2",
        "--load",
        "1kpps",
    ];
    let said = line(&lab.kpps(&[&words[..], &token].concat()).output().unwrap(), 2);
    assert!(said.contains("agent 10.9.0.1: packet:m is not among the allowed ports: packet:pa"), "{said}");
    // Within the limits it works.
    let output = lab.trial("4kpps", "250ms", &token).output().unwrap();
    closes(&document(&output), 1000);
    // A tester with a token meets an agent that wants certificates, and the other way round.
    let folders = ["lab", "stranger"].map(|name| lab.file(name));
    for folder in &folders {
        assert!(lab.kpps(&["agent", "keys", folder, "10.9.0.1"]).output().unwrap().status.success());
    }
    let files = |folder: &str, name: &str| {
        ["ca.pem".to_owned(), format!("{name}.pem"), format!("{name}.key")]
            .map(|file| format!("{folder}/{file}"))
    };
    let mine = files(&folders[0], "10.9.0.1");
    let theirs = files(&folders[1], "tester");
    let certificates = ["--tls-ca", &theirs[0], "--tls-cert", &theirs[1], "--tls-key", &theirs[2]];
    let said = fails("4kpps", "1s", &certificates);
    assert!(said.contains("agent 10.9.0.1: it requires a token"), "{said}");
    drop(agents);
    let _agent = lab.agent(0, &["--tls-ca", &mine[0], "--tls-cert", &mine[1], "--tls-key", &mine[2]], &[]);
    let said = fails("4kpps", "1s", &token);
    assert!(said.contains("agent 10.9.0.1: it requires certificates, not a token"), "{said}");
    // A certificate of another authority.
    let said = fails("4kpps", "1s", &certificates);
    assert!(said.contains("agent 10.9.0.1") && said.contains("certificate"), "{said}");
}

#[test]
fn an_agent_that_is_lost_ends_the_trial_and_a_lost_tester_the_sending() {
    let Some(lab) = Lab::new() else { return };
    let token = lab.file("token");
    let token = ["--token-file", &token];
    // One agent is killed. The other is stopped, like an agent that the network no longer reaches.
    for (lost, signal) in [(1, "-KILL"), (0, "-STOP")] {
        let (agents, trial) = under_load(&lab, &token);
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
        // Frames that a lost receiver no longer reported are not claimed to be the device's loss.
        assert_eq!(trial["ledger"]["unexplained"], 0, "{trial}");
        assert_eq!(trial["overflow_unknown"] == true, lost == 1, "{trial}");
        assert_eq!(trial["ledger"]["dropped"].as_object().unwrap().len(), lost, "{trial}");
    }
    // A tester that no longer answers: the sender must not go on.
    let (agents, mut trial) = under_load(&lab, &token);
    signal(&trial, "-STOP");
    for agent in &agents {
        agent.says("the tester disconnected during a trial");
    }
    // Its thread may have had to wait for a CPU to notice.
    until_undisturbed("nothing is sent any longer", || {
        let then = lab.nets.agents[0].sent("pa");
        std::thread::sleep(Duration::from_secs(1));
        lab.nets.agents[0].sent("pa") - then <= 2
    });
    trial.kill().unwrap();
    trial.wait().unwrap();
}

/// Two agents, and a trial of 60 s whose load is being sent.
fn under_load(lab: &Lab, token: &[&str]) -> ([Process; 2], Child) {
    let mut begun = None;
    until_undisturbed("no agent is without a CPU for so long that it seems lost", || {
        let agents = [lab.agent(0, token, &[]), lab.agent(1, token, &[])];
        let mut trial = lab.trial("2kpps", "60s", token).spawn().unwrap();
        let is_loaded = wait_for_load(&lab.nets.agents[0], &mut trial);
        if is_loaded {
            begun = Some((agents, trial));
        } else {
            println!("{}", String::from_utf8_lossy(&trial.wait_with_output().unwrap().stderr));
        }
        is_loaded
    });
    begun.unwrap()
}

/// Waits until a load of 2 kpps is sent. Frames before it, to learn the way and to measure the sender's
/// limit, are much fewer or many more. False: the trial has ended before.
fn wait_for_load(net: &Net, trial: &mut Child) -> bool {
    let (begun, mut steady, mut rates) = (Instant::now(), 0, Vec::new());
    let mut last = (Instant::now(), net.sent("pa"));
    while steady < 5 {
        if trial.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "2 kpps are not sent, but, in pps: {rates:.0?}");
        std::thread::sleep(Duration::from_millis(200));
        let now = (Instant::now(), net.sent("pa"));
        // A busy machine wakes this thread late.
        let pps = (now.1 - last.1) as f64 / (now.0 - last.0).as_secs_f64();
        steady = if (1000.0..4000.0).contains(&pps) { steady + 1 } else { 0 };
        rates.push(pps);
        last = now;
    }
    true
}

#[test]
fn a_search_across_two_agents_is_as_at_home() {
    let Some(lab) = Lab::new() else { return };
    let token = lab.file("token");
    let token = ["--token-file", &token];
    let _agents = [lab.agent(0, &token, &[]), lab.agent(1, &token, &[])];
    let hosts = ["--ports", "packet:pa,packet:pb", "--from", "10.9.0.1", "--to", "10.9.0.2", "--json"];
    let run = |words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        let output = lab.kpps(&[&words[..], &hosts, &token].concat()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        document(&output)
    };
    let found = run("ndr --min 1kpps --max 2kpps --precision 30% --duration 100ms --pdr-loss 90%");
    assert!(found["goals"][1]["lower_pps"].as_f64() > Some(900.0), "{found}");
    assert!(
        found["environment"]["system"]["10.9.0.1: packet:pa"].as_str().unwrap().contains("driver veth"),
        "{found}"
    );
    let curve = run("curve --load 1kpps,2kpps --duration 100ms");
    let points = curve["series"][0]["points"].as_array().unwrap();
    assert!(points.len() == 2 && points[1]["delivered_pps"].as_f64() > Some(0.0), "{curve}");
    assert_eq!(
        curve["environment"]["testbed"],
        serde_json::json!(["10.9.0.1/packet:pa", "10.9.0.2/packet:pb"])
    );
    // The path between the ports belongs to no agent: the tester's host observes it.
    let words = ["trial", "--load", "1kpps", "--duration", "100ms", "--watch", "dut1,no-such"];
    let output = lab.kpps(&[&words[..], &hosts, &token].concat()).output().unwrap();
    assert!(line(&output, 2).contains("no-such: no such interface"));
}

/// An agent on the loopback interface, for which no privilege is needed, and the address at which it listens.
fn agent_here(folder: &Path, before: &str, more: &[&str]) -> (Process, String) {
    let token = folder.join("token");
    secret(&token, "0123456789abcdef0123", 0o600);
    let mut command = Command::new("sh");
    // The shell's number is that of the agent afterwards.
    command.args(["-c", &format!("{before}; echo number $$ >&2; exec \"$@\""), "sh"]);
    command.arg(assert_cmd::cargo::cargo_bin("kpps")).args(["agent", "--listen", "127.0.0.1:0"]);
    command.args(["--allow-ports", "udp:", "--token-file", token.to_str().unwrap()]).args(more);
    command.stdout(Stdio::null());
    let agent = Process::start(command, ", for testers on this host", Duration::from_secs(60));
    let said = agent.said();
    let address = said.split("listening on ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let address = address.to_owned();
    (agent, address)
}

/// The answer to a tester of one port of that agent.
fn told(folder: &Path, address: &str, port: &str) -> String {
    let token = folder.join("token");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("kpps"));
    command.args(["trial", "--ports", &format!("{port},udp::9"), "--from", address, "--load", "1kpps"]);
    command.args(["--token-file", token.to_str().unwrap(), "--duration", "100ms"]);
    line(&command.output().unwrap(), 2)
}

#[test]
fn sockets_send_only_where_the_operator_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_agent, address) = agent_here(folder.path(), ":", &[]);
    let said = told(folder.path(), &address, "udp:203.0.113.9:9");
    assert!(said.contains("203.0.113.9, which is in none of the allowed networks: 127.0.0.0/8"), "{said}");
    assert!(said.contains("in none of the allowed networks"), "{said}");
    let (_agent, address) = agent_here(folder.path(), ":", &["--allow-to", "10.0.0.0/8,192.0.2.7"]);
    let said = told(folder.path(), &address, "udp:127.0.0.1:9");
    assert!(said.contains("allowed networks: 10.0.0.0/8, 192.0.2.7/32"), "{said}");
}

#[test]
fn secrets_that_others_can_read_and_names_that_are_taken_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let token = file("token");
    secret(Path::new(&token), "0123456789abcdef0123", 0o644);
    let kpps = || Command::new(assert_cmd::cargo::cargo_bin("kpps"));
    let words = ["agent", "--listen", "127.0.0.1:0", "--allow-ports", "udp:", "--token-file", &token];
    let mut command = kpps();
    command.args(words).stdout(Stdio::null());
    let agent = Process::start(command, "listening on", Duration::from_secs(60));
    let warning = format!("warning: other users may read {token}: `chmod 600 {token}` ends that");
    assert_eq!(agent.said().matches(&warning).count(), 1, "{}", agent.said());
    for name in ["tester", "ca"] {
        let made = kpps().args(["agent", "keys", &file("keys"), "h1", name]).output().unwrap();
        let said = line(&made, 2);
        assert!(said.contains(&format!("an agent cannot be called '{name}'")), "{said}");
    }
}

#[test]
fn an_agent_is_for_its_own_host_unless_it_is_told_otherwise() {
    let Some(lab) = Lab::new() else { return };
    let token = lab.file("token");
    let words = ["agent", "--allow-ports", "packet:pa", "--token-file", &token];
    let command = kpps(&lab.nets.agents[0], &words);
    let agent = Process::start(command, "listening on", Duration::from_secs(60));
    agent.says(
        "listening on 127.0.0.1:5777, for testers on this host only (--listen 0.0.0.0:5777 is for others",
    );
    let said = line(&lab.trial("1kpps", "100ms", &["--token-file", &token]).output().unwrap(), 2);
    assert!(said.contains("agent 10.9.0.1") && said.contains("refused"), "{said}");
}

/// The time that a program has had a CPU, in ticks of 10 ms.
fn ticks(number: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let numbers: Vec<_> = rest.split_whitespace().collect();
    numbers[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// More connections than the agent may have open files: it waits for one to end without spinning, and serves
/// testers again afterwards.
#[test]
fn an_agent_without_free_descriptors_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (agent, address) = agent_here(folder.path(), "ulimit -n 32", &[]);
    let said = agent.said();
    let number = said.split("number ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let crowd: Vec<_> = (0..64).map(|_| TcpStream::connect(&address).unwrap()).collect();
    agent.says("cannot accept connections");
    let (begun, before) = (Instant::now(), ticks(number));
    std::thread::sleep(Duration::from_secs(2));
    let share = (ticks(number) - before) as f64 / 100.0 / begun.elapsed().as_secs_f64();
    assert!(share < 0.2, "it takes {share} of a CPU while it waits");
    drop(crowd);
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let said = told(folder.path(), &address, "packet:lo");
        if said.contains("packet:lo is not among the allowed ports: udp:") {
            break;
        }
        assert!(Instant::now() < end, "{said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}
