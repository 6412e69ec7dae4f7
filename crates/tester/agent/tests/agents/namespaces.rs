//! Agents in network namespaces, each a process of its own, with a bridge between their ports. That takes
//! root; without, these tests say so and pass. They send little, and do not depend on the speed of a busy
//! machine.

use kpps_agent::{Agent, Host, Rules, Security, Token, connect, keys};
use kpps_documents::detail::{ArrivalBy, DetailedTrial};
use kpps_frames::build::{self, Flow};
use kpps_frames::flows::Addresses;
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size, tcp};
use kpps_methods::Load;
use kpps_namespaces::{Agents, Net, Process, until_undisturbed};
use kpps_ports::Spec;
use kpps_ports::port::run::{Late, Shape};
use kpps_ports::port::{Options, open};
use kpps_tester::clock::Clock;
use kpps_tester::observe::Scope;
use kpps_tester::{
    Address, Allowed, LocalHost, LocalPort, Offer, Site, TestPort, Tester, Traffic, document, template,
};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The largest difference of median latencies between two processes on a quiet machine.
const NOISE_NS: u64 = 1000;

/// Namespaces of a tester and of two agents with ports `a` and `b`, and their credentials.
pub struct Lab {
    pub nets: Agents,
    files: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Option<Self> {
        let nets = Agents::new(["a", "b"])?;
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("token"), "0123456789abcdef0123").unwrap();
        keys::make(&files.path().join("keys"), &["10.9.0.1".into(), "10.9.0.2".into()]).unwrap();
        Some(Self { nets, files })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// By the token, or by the certificate of this name.
    pub fn security(&self, with: &str) -> Security {
        security(self.files.path(), with)
    }

    fn agent(&self, at: usize, with: &str) -> Process {
        let says = [("PORT", ["packet:a", "packet:b"][at]), ("SECURITY", with)];
        start(&self.nets.agents[at], "namespaces::an_agent", self.files.path(), &says)
    }

    pub fn agents(&self, with: [&str; 2]) -> [Process; 2] {
        [0, 1].map(|at| self.agent(at, with[at]))
    }
}

fn security(folder: &Path, with: &str) -> Security {
    match with {
        "token" => Security::Token(Token::read(&folder.join("token")).unwrap()),
        name => {
            let file = |name: &str, end: &str| folder.join("keys").join(format!("{name}.{end}"));
            Security::tls(&file("ca", "pem"), &file(name, "pem"), &file(name, "key")).unwrap()
        }
    }
}

/// A tester for both agents. It observes the bridge between them, too.
fn tester(security: &Security) -> Tester {
    tester_of(security, addresses())
}

/// The same between these addresses.
fn tester_of(security: &Security, addresses: [Address; 2]) -> Tester {
    tester_at(security, ["10.9.0.1", "10.9.0.2"], addresses)
}

/// The same over agents that are reached there.
pub fn tester_at(security: &Security, hosts: [&str; 2], addresses: [Address; 2]) -> Tester {
    let scopes: Vec<Scope> = ["dut1", "dut2"].map(|scope| scope.parse().unwrap()).to_vec();
    let here = LocalHost::around(&[], &scopes).unwrap();
    let mut sites = vec![Site { name: None, host: Box::new(here), ports: Vec::new() }];
    let mut ports: Vec<Box<dyn TestPort>> = Vec::new();
    for (at, (host, port)) in hosts.into_iter().zip(["packet:a", "packet:b"]).enumerate() {
        let there: Host = host.parse().unwrap();
        let connected = || connect(&there, &port.parse().unwrap(), &Options::default(), &[], security);
        // The tester before may have gone a moment ago: its agent then still has the port.
        let until = Instant::now() + Duration::from_secs(10);
        let (port, there) = loop {
            match connected() {
                Err(busy) if busy.to_string().contains("in use by another") && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                other => break other.unwrap(),
            }
        };
        ports.push(Box::new(port));
        sites.push(Site { name: Some(host.into()), host: Box::new(there), ports: vec![at] });
    }
    Tester::with(ports, addresses, sites)
}

pub fn addresses() -> [Address; 2] {
    [[198, 18, 0, 1], [198, 19, 0, 2]].map(|ip: [u8; 4]| Address {
        ips: Addresses::from(ip.into(), 1),
        gateway: None,
        to: None,
        encap: Default::default(),
    })
}

pub fn offer(pps: f64, duration: Duration) -> Offer {
    Offer {
        load: Load { duration, ..Load::of(pps, Size::MIN) },
        shape: Shape::Constant,
        count: None,
        drain: Duration::from_secs(3),
        bidirectional: false,
        keep: false,
        replay: None,
        streams: [].into(),
        every: None,
        late: Late::Skip,
        control: None,
    }
}

/// This test program in a namespace, as an agent or as a tester.
fn start(net: &Net, role: &str, folder: &Path, environment: &[(&str, &str)]) -> Process {
    let mut command = net.command(std::env::current_exe().unwrap());
    command.args(["--exact", role, "--ignored", "--nocapture"]).env("FOLDER", folder);
    command.envs(environment.iter().copied()).stdout(Stdio::null());
    Process::start(command, "ready", Duration::from_secs(60))
}

fn said(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// The code of the agents' processes; it does nothing without its environment.
#[test]
#[ignore = "the other tests start it"]
fn an_agent() {
    let folder = PathBuf::from(said("FOLDER"));
    if folder.as_os_str().is_empty() {
        return;
    }
    let ports = vec![said("PORT").parse().unwrap()];
    let rules = Rules { ports, allowed: Allowed::ALL, destinations: Vec::new() };
    let listen = "0.0.0.0:5777".parse().unwrap();
    let log = |line: &str| eprintln!("{line}");
    let security = security(&folder, &said("SECURITY"));
    let _agent = Agent::start(listen, rules, security, Clock::here().clone(), log).unwrap();
    eprintln!("ready");
    std::thread::sleep(Duration::from_secs(300));
}

/// A tester's process, which offers a load for a minute.
#[test]
#[ignore = "the other tests start it"]
fn a_tester() {
    let folder = PathBuf::from(said("FOLDER"));
    if folder.as_os_str().is_empty() {
        return;
    }
    let mut tester = tester(&security(&folder, "token"));
    eprintln!("ready");
    let _ = tester.trial(&offer(2000.0, Duration::from_secs(60)), &|| true);
}

/// All frames are accounted for: only frames that a busy machine did not send in time are missing.
fn closes(trial: &DetailedTrial, intended: u64) {
    assert!(trial.complete && trial.learned == Some(true), "{trial:?}");
    assert_eq!(
        (trial.fate.intended, trial.result.sent + trial.result.shortfall),
        (intended, intended),
        "{trial:?}"
    );
    let overflow = trial.result.overflow.unwrap();
    assert_eq!(trial.result.sent, trial.fate.received + trial.fate.lost + overflow, "{trial:?}");
    assert_eq!(
        (trial.fate.duplicated, trial.fate.corrupted, trial.result.ledger.unexplained),
        (Some(0), Some(0), 0),
        "{trial:?}"
    );
    assert!(trial.fate.received > 0 && trial.result.latency_ns.p50.is_some(), "{trial:?}");
}

/// Frames that this machine's own queues had no room for while it was busy.
fn backlog(trial: &DetailedTrial) -> u64 {
    let dropped = trial.result.ledger.dropped.iter();
    dropped.filter(|(place, _)| place.ends_with("backlog")).map(|(_, frames)| frames).sum()
}

#[test]
fn a_trial_across_two_hosts_closes_with_a_token_and_with_certificates() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    for (agents, own) in [(["token"; 2], "token"), (["10.9.0.1", "10.9.0.2"], "tester")] {
        let _agents = lab.agents(agents);
        let mut tester = tester(&lab.security(own));
        for bidirectional in [false, true] {
            let offer = Offer { bidirectional, ..offer(4000.0, Duration::from_millis(250)) };
            let outcome = tester.trial(&offer, &|| true).unwrap();
            let trial = document(&tester, &offer, &outcome).unwrap();
            closes(&trial, if bidirectional { 2000 } else { 1000 });
            assert_eq!(trial.environment.testbed, ["10.9.0.1/packet:a", "10.9.0.2/packet:b"]);
            for interface in ["dut1", "10.9.0.1/a", "10.9.0.2/b"] {
                assert!(trial.interfaces.contains_key(interface), "{trial:?}");
            }
            assert_eq!((trial.hosts.len(), trial.cpu_names().len()), (3, trial.cpus.len()));
            // Whatever its namespaces, one machine has one clock.
            assert_eq!(trial.clocks, None);
        }
    }
    assert!(lab.file("keys").join("ca.pem").exists());
}

/// Between two trials nobody asks the agents for anything, and their ports answer by themselves.
#[test]
fn between_trials_agents_keep_their_neighbours() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    let _agents = lab.agents(["token"; 2]);
    let mut tester = tester(&lab.security("token"));
    let offer = offer(4000.0, Duration::from_millis(250));
    lab.nets.tester.run("ip address add 198.18.0.250/15 dev dut");
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    for _ in 0..2 {
        let outcome = tester.trial(&offer, &|| true).unwrap();
        closes(&document(&tester, &offer, &outcome).unwrap(), 1000);
        lab.nets.tester.run("ip neigh flush all");
        for station in ["198.18.0.1", "198.19.0.2"] {
            let end = Instant::now() + Duration::from_secs(60);
            while !lab.nets.tester.output(&format!("ip neigh show to {station}")).contains("lladdr") {
                let _ = socket.send_to(b"?", (station, 9));
                assert!(Instant::now() < end, "{station} does not answer");
            }
        }
    }
}

/// Whatever the frames are made of, agents send them and know them again.
#[test]
fn all_kinds_of_traffic_pass_between_agents() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    let _agents = lab.agents(["token"; 2]);
    let syn = tcp::Fields { sequence: 1, acknowledgement: 0, flags: tcp::SYN, window: 3 };
    let packet = build::tcp(&Flow::default(), syn, &[]).unwrap();
    let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
    let plain = || Traffic { flows: Some(50), ..Traffic::default() };
    let kinds = [
        Traffic { ipv6: true, ..plain() },
        Traffic { encap: ["qinq:100+vlan:1-50+mpls:17"; 2].map(|it| it.parse().unwrap()), ..plain() },
        Traffic {
            dscp: Some("0-63".parse().unwrap()),
            hops: Some("random:2-64".parse().unwrap()),
            sport: Some("random:1024-65535".parse().unwrap()),
            ..plain()
        },
        Traffic {
            template: Some(template(&hex).unwrap()),
            sport: Some("2000-2049".parse().unwrap()),
            ..plain()
        },
        Traffic { replies: true, ..plain() },
    ];
    for traffic in kinds {
        let ips = traffic.addresses();
        let at = |at: usize| Address { ips: ips[at], gateway: None, to: None, encap: traffic.encap[at] };
        let mut tester = tester_of(&lab.security("token"), [at(0), at(1)]);
        tester.flows = traffic.plan();
        let sizes = Mix::fixed(traffic.size().unwrap_or(Size::with_fcs(128)));
        let offer =
            Offer { bidirectional: true, ..offer(2000.0, Duration::from_millis(250)) }.with_sizes(sizes);
        let outcome = tester.trial(&offer, &|| true);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}: {:?}", tester.flows));
        let trial = document(&tester, &offer, &outcome).unwrap();
        closes(&trial, 1000);
        assert_eq!(trial.fate.lost, backlog(&trial), "{trial:?}");
        assert_eq!(trial.directions[0].flows.as_ref().map(|it| it.count), Some(50));
    }
}

/// A tester for the same ports without agents: this process opens them in their namespaces.
pub fn tester_of_one_process(lab: &Lab) -> Tester {
    let names: [Spec; 2] = ["packet:a", "packet:b"].map(|name| name.parse().unwrap());
    let ports = [0, 1].map(|at| -> Box<dyn TestPort> {
        lab.nets.agents[at].enter();
        let port = open(&names[at..=at], &Options::default()).unwrap().pop().unwrap();
        Box::new(LocalPort::new(&names[at], port).unwrap())
    });
    lab.nets.tester.enter();
    let here = LocalHost::around(&[], &[]).unwrap();
    let sites = vec![Site { name: None, host: Box::new(here), ports: vec![0, 1] }];
    Tester::with(ports.into(), addresses(), sites)
}

/// The median latency of a short trial, and its stated error, in ns; the better of two trials, for other
/// programs only make it longer. `None` if an agent seemed lost.
fn median_ns(tester: &mut Tester) -> Option<(u64, u64)> {
    let offer = offer(5000.0, Duration::from_millis(60));
    let mut each = [(); 2].into_iter().map(|()| {
        let outcome = match tester.trial(&offer, &|| true) {
            Err(error) if error.to_string().contains("is lost") => return None,
            outcome => outcome.unwrap(),
        };
        let trial = document(tester, &offer, &outcome).unwrap();
        assert_eq!(trial.directions[0].arrival.by, ArrivalBy::Kernel, "{trial:?}");
        let error_ns = trial.clocks.map_or(0, |clocks| clocks.error_ns);
        Some((trial.result.latency_ns.p50.unwrap(), error_ns))
    });
    Some(each.next()??.min(each.next()??))
}

/// An agent's clock was off by another constant after each start, by microseconds. The truth is the
/// measurement of one process right after. Other work of the machine makes each of the two longer now and
/// then. So it is enough that two in a row agree once, or the shortest of each; a constant stays.
#[test]
fn latency_with_agents_is_that_without() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    let mut alone = tester_of_one_process(&lab);
    let mut agree = || {
        let _agents = lab.agents(["token"; 2]);
        let mut tester = tester(&lab.security("token"));
        let mut told = Vec::new();
        for _ in 0..20 {
            let both = median_ns(&mut tester).zip(median_ns(&mut alone));
            let Some(((p50, error_ns), (truth, _))) = both else { return false };
            told.push((p50, error_ns, truth));
            let (shortest, ..) = *told.iter().min().unwrap();
            let shortest_truth = told.iter().map(|(.., truth)| *truth).min().unwrap();
            let near = |p50: u64, truth| p50.abs_diff(truth) <= NOISE_NS + error_ns;
            if near(p50, truth) || near(shortest, shortest_truth) {
                return true;
            }
        }
        panic!("{told:?}: with agents, its error, without");
    };
    for _ in 0..10 {
        until_undisturbed("no agent is without a CPU for so long that it seems lost", &mut agree);
    }
}

#[test]
fn an_agent_that_is_lost_ends_the_trial_with_what_was_measured() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    // Killed; and stopped, which is as if the network no longer reached it.
    for (lost, signal) in [(1, "-KILL"), (0, "-STOP")] {
        until_undisturbed("no agent is without a CPU for so long that it seems lost", || {
            ends_with_what_was_measured(&lab, lost, signal)
        });
    }
}

/// A trial in which an agent gets a signal and is lost. Returns false if the trial ended before.
fn ends_with_what_was_measured(lab: &Lab, lost: usize, signal: &str) -> bool {
    let agents = lab.agents(["token"; 2]);
    let mut tester = tester(&lab.security("token"));
    let (gauges, signalled) = (tester.gauges(), std::cell::Cell::new(None));
    let offer = offer(2000.0, Duration::from_secs(60));
    let outcome = tester.trial(&offer, &|| {
        // Learning is over, and both agents have reported many frames.
        let many = gauges.so_far().is_some_and(|(_, sent, received)| sent > 1000 && received > 1000);
        if many && signalled.get().is_none() {
            signalled.set(Some(Instant::now()));
            agents[lost].signal(signal);
        }
        true
    });
    let Some(since) = signalled.get() else { return false };
    let trial = document(&tester, &offer, &outcome.unwrap()).unwrap();
    let trouble = trial.trouble.clone().unwrap();
    let name = format!("10.9.0.{}", lost + 1);
    assert!(trouble.contains(&name) && trouble.contains("lost") && !trouble.contains('\n'), "{trouble}");
    assert!(!trial.complete && since.elapsed() < Duration::from_secs(40), "{:?}", since.elapsed());
    assert!(
        trial.result.sent > 1000 && trial.fate.received > 1000 && trial.fate.intended < 120_000,
        "{trial:?}"
    );
    // Frames that the lost agent no longer reported are neither invented nor unexplained.
    assert_eq!(trial.result.ledger.unexplained, 0, "{trial:?}");
    let not_reported = trial.result.ledger.dropped.get("10.9.0.2/packet:b not reported");
    assert!(trial.fate.received <= trial.result.sent && (lost == 1) == not_reported.is_some(), "{trial:?}");
    true
}

#[test]
fn who_no_longer_hears_from_the_tester_stops_sending() {
    let Some(lab) = Lab::new() else { return };
    let agents = lab.agents(["token"; 2]);
    let tester = start(&lab.nets.tester, "namespaces::a_tester", lab.files.path(), &[]);
    let end = Instant::now() + Duration::from_secs(60);
    while lab.nets.agents[0].sent("a") < 1000 {
        assert!(Instant::now() < end, "nothing is sent: {}", tester.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    tester.signal("-STOP");
    for agent in &agents {
        agent.says("the tester disconnected during a trial");
    }
    // Its thread may have had to wait for a CPU to notice.
    until_undisturbed("nothing is sent any longer", || {
        let then = lab.nets.agents[0].sent("a");
        std::thread::sleep(Duration::from_secs(1));
        lab.nets.agents[0].sent("a") - then <= 2
    });
}

/// Frames that came while the receiver did not run wait for it, or are its own overflow: no loss of the
/// device.
#[test]
fn a_receiver_that_stalls_loses_nothing_of_the_devices() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    lab.nets.agents[0].run("ethtool -K a tx off > /dev/null");
    let agents = lab.agents(["token"; 2]);
    let connected = || tester(&lab.security("token"));
    let mut tester = connected();
    let paced = |pps| Offer { drain: Duration::from_millis(100), ..offer(pps, Duration::from_secs(3)) };
    // Messages of many frames, which the kernel cuts before the sender's interface. There are enough of them
    // that some are still to come when a busy machine has stopped the receiver.
    let flood = Offer { count: Some(300_000), ..paced(0.0) }.at(Rate::Max);
    let receiver = &agents[1];
    let mut stalled = |offer: &Offer| {
        let before = lab.nets.agents[0].sent("a");
        std::thread::scope(|scope| {
            let stall = scope.spawn(|| {
                while lab.nets.agents[0].sent("a") < before + 200 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let begin = Instant::now();
                receiver.signal("-STOP");
                std::thread::sleep(Duration::from_millis(900));
                receiver.signal("-CONT");
                begin.elapsed()
            });
            let outcome = match tester.trial(offer, &|| true) {
                Ok(outcome) => outcome,
                // The tester abandons an agent that does not answer for 3 s. The agent may have been stopped
                // for nearly as long, and nothing else explains a longer silence.
                Err(error) => {
                    let stopped = stall.join().unwrap();
                    assert!(stopped > Duration::from_secs(2), "{error}, and was stopped for {stopped:?}");
                    tester = connected();
                    return None;
                }
            };
            let trial = document(&tester, offer, &outcome).unwrap();
            let ledger = &trial.result.ledger;
            assert!(trial.complete && ledger.unexplained == 0, "{trial:#?}");
            let missed = ledger.dropped.get("10.9.0.2/packet:b missed").copied().unwrap_or(0);
            let backlog = backlog(&trial);
            // The tester's own overflow is no loss of the device.
            assert_eq!((trial.fate.lost, trial.result.overflow), (backlog, Some(missed)), "{trial:#?}");
            assert!(trial.result.loss_ratio <= backlog as f64 / trial.result.sent as f64, "{trial:#?}");
            Some((trial.result.sent, missed))
        })
    };
    // 0.9 s at 2000 a second fit into its queue, and at 20,000 do not.
    for (offer, overflows) in [(paced(2000.0), false), (paced(20_000.0), true), (flood, true)] {
        let is_as_meant =
            |(sent, missed): &(u64, u64)| (*missed > 0) == overflows || overflows && *sent < 8000;
        // A busy machine may send too few, or all of them before it stops the receiver, or stop it for
        // longer.
        let mut seen: Vec<(u64, u64)> = Vec::new();
        for _ in 0..6 {
            seen.extend(stalled(&offer));
            if seen.last().is_some_and(|(_, missed)| (*missed > 0) == overflows) {
                break;
            }
        }
        assert!(seen.last().is_some_and(is_as_meant), "{offer:?}: {seen:?}");
    }
}
