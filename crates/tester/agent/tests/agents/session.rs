//! A tester and agents in one process, over the loopback interface. They send little, and do not depend on
//! the speed of a busy machine.

use kpps_agent::{Agent, Host, Network, Rules, Security, TEST_NETWORKS, Token, connect, keys};
use kpps_documents::Environment;
use kpps_documents::Limit;
use kpps_documents::detail::{Arrival, ArrivalBy};
use kpps_frames::encap::Tags;
use kpps_frames::flows::Addresses;
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size, Templates};
use kpps_methods::Load;
use kpps_methods::ndr::{Range, search};
use kpps_methods::units::RateSpec;
use kpps_methods::{Runner, Testbed};
use kpps_namespaces::until_undisturbed;
use kpps_ports::Spec;
use kpps_ports::port::Options;
use kpps_ports::port::run::{Late, SendPlan, Shape, StreamPlan};
use kpps_tester::clock::Clock;
use kpps_tester::{
    Address, Allowed, Classes, Error, Offer, Outcome, PortsTestbed, Replay, Site, TestPort, Tester,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn token(text: &str) -> Security {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Security::Token(Token::read(file.path()).unwrap())
}

fn good() -> Security {
    token("0123456789abcdef")
}

fn start(security: Security, allowed: Allowed, clock: Clock) -> Agent {
    let destinations = Network::list(TEST_NETWORKS).unwrap();
    let rules = Rules { ports: vec!["udp:".parse().unwrap()], allowed, destinations };
    Agent::start("127.0.0.1:0".parse().unwrap(), rules, security, clock, |line| eprintln!("{line}")).unwrap()
}

fn host(agent: &Agent) -> Host {
    agent.address().to_string().parse().unwrap()
}

/// A port that sends to a listening port.
fn specs() -> [Spec; 2] {
    let free = kpps_namespaces::own_port();
    [format!("udp:127.0.0.1:{free}"), format!("udp::{free}")].map(|text| text.parse().unwrap())
}

fn tester(agents: [&Agent; 2]) -> Tester {
    let mut sites = Vec::new();
    let mut ports: Vec<Box<dyn TestPort>> = Vec::new();
    for (at, spec) in specs().iter().enumerate() {
        let host = host(agents[at]);
        let (port, there) = connect(&host, spec, &Options::default(), &[], &good()).unwrap();
        ports.push(Box::new(port));
        sites.push(Site { name: Some(host.to_string()), host: Box::new(there), ports: vec![at] });
    }
    let address = |ip: [u8; 4]| Address {
        ips: Addresses::from(ip.into(), 1),
        gateway: None,
        to: None,
        encap: Default::default(),
    };
    Tester::with(ports, [address([198, 18, 0, 1]), address([198, 19, 0, 2])], sites)
}

fn offer(rate: Rate, duration: Duration) -> Offer {
    Offer {
        load: Load { rate, duration, ..Load::of(0.0, Size::MIN) },
        shape: Shape::Constant,
        count: None,
        drain: Duration::from_secs(2),
        bidirectional: false,
        keep: false,
        replay: None,
        streams: [].into(),
        every: None,
        late: Late::Skip,
        control: None,
    }
}

const SHORT: Duration = Duration::from_millis(300);

fn refused(error: Result<Outcome, Error>) -> String {
    let said = error.err().unwrap().to_string();
    assert!(!said.contains('\n'), "{said}");
    said
}

#[test]
fn a_trial_across_two_agents_is_as_one_at_home() {
    let there = Clock::showing(77_000_000_000_000);
    let agents =
        [start(good(), Allowed::ALL, Clock::here().clone()), start(good(), Allowed::ALL, there.clone())];
    let mut tester = tester([&agents[0], &agents[1]]);
    for bidirectional in [false, true] {
        let offer = Offer { bidirectional, ..offer(Rate::Pps(2000.0), SHORT) };
        let outcome = tester.trial(&offer, &|| true).unwrap();
        assert!(outcome.complete && outcome.learned == Some(true), "{:?}", outcome.trouble);
        assert_eq!(outcome.directions.len(), if bidirectional { 2 } else { 1 });
        for way in &outcome.directions {
            assert_eq!((way.sent.intended, way.sent.frames + way.sent.shortfall()), (600, 600));
            assert_eq!(
                (way.lost(), way.received.arrived.duplicated, way.received.arrived.corrupted),
                (0, 0, 0)
            );
            assert_eq!(way.latency.frames(), way.received.arrived.received);
            // One way over a loopback interface, however busy the machine is; without correction it would be
            // 77,000 s.
            let half_ns = way.latency.quantile_ns(0.5);
            assert!(half_ns < 500_000_000, "{half_ns}");
            let by = if cfg!(target_os = "linux") { ArrivalBy::Kernel } else { ArrivalBy::Program };
            assert_eq!(way.received.arrival, Arrival { by, clock_set_ns: None });
            assert!(way.sent.gaps.is_some_and(|gaps| gaps.count == way.sent.frames - 1));
        }
        // Both are this machine's clocks, so the truth is known.
        let clocks = outcome.clocks.unwrap();
        let (before, now, after) = (Clock::here().now_ns(), there.now_ns(), Clock::here().now_ns());
        let truth = now as i64 - before as i64;
        let wrong = clocks.offset_ns.abs_diff(truth);
        assert!(wrong <= clocks.error_ns + 100_000 + (after - before), "{wrong} ns off: {clocks:?}");
        assert_eq!((&*clocks.over, clocks.drift_ns_per_s.is_some()), ("udp", true));
        assert!(!outcome.counted.cpus.is_empty() && outcome.counted.hosts.len() == 2);
    }
}

/// The tester changes the load while the agents send: both ways have the frames of both rates, and none is
/// lost.
#[test]
fn a_rate_changes_at_both_agents() {
    let here = || Clock::here().clone();
    let allowed = Allowed { load_pps: 4000.0, duration: Duration::from_secs(9) };
    let agents = [start(good(), Allowed::ALL, here()), start(good(), allowed, here())];
    let mut tester = tester([&agents[0], &agents[1]]);
    let gauges = tester.gauges();
    let offer = Offer { bidirectional: true, ..offer(Rate::Pps(1000.0), Duration::from_secs(2)) };
    let changed = std::cell::RefCell::new(None);
    let mut last = None;
    // A busy machine may let this thread look, or the senders take notice, too late.
    let notice = || {
        let outcome = tester.trial(&offer, &|| {
            let mut changed = changed.borrow_mut();
            if changed.is_none() && gauges.can_change_rate() && gauges.so_far().unwrap().0 >= SHORT {
                *changed = Some(gauges.change_rate(RateSpec::Pps(9000.0)).unwrap().to_string());
            }
            true
        });
        let outcome = last.insert((outcome.unwrap(), changed.take()));
        assert!(outcome.0.complete, "{:?}", outcome.0.trouble);
        outcome.1.is_some() && outcome.0.directions.iter().all(|way| !way.sent.rate_changes.is_empty())
    };
    until_undisturbed("the rate changes", notice);
    let (outcome, said) = last.unwrap();
    let said = said.unwrap();
    let operator =
        format!("4.0 kpps in each direction from now on: the limit of the operator of {}", host(&agents[1]));
    assert!(said.starts_with(&operator), "{said}");
    for way in &outcome.directions {
        let [change] = way.sent.rate_changes[..] else { panic!("{:?}", way.sent.rate_changes) };
        assert!(change.at_s < 2.0 && change.offered_pps == 4000.0, "{change:?}");
        let due = 1000.0 * change.at_s + 4000.0 * (2.0 - change.at_s);
        assert!(
            (way.sent.intended as f64 - due).abs() <= 0.02 * due,
            "{due}, {change:?}: {}",
            way.sent.intended
        );
        assert_eq!(way.sent.intended, way.sent.frames + way.sent.shortfall());
        assert_eq!(
            (way.received.arrived.received + way.overflow.unwrap_or(0), way.lost()),
            (way.sent.frames, 0)
        );
    }
}

/// In a longer trial the agents' clocks are followed, so that intervals have latencies, too.
#[test]
fn two_clocks_are_followed() {
    let clocks = [Clock::showing(77_000_000_000_000), Clock::showing(5)];
    let agents = clocks.map(|clock| start(good(), Allowed::ALL, clock));
    let mut tester = tester([&agents[0], &agents[1]]);
    let every = Some(Duration::from_secs(1));
    let length = Duration::from_secs(5);
    let offer = Offer { bidirectional: true, every, ..offer(Rate::Pps(500.0), length) };
    // A busy machine asks and answers late now and then.
    let mut told = Vec::new();
    let is_followed = || {
        let outcome = tester.trial(&offer, &|| true).unwrap();
        let clocks = outcome.clocks.unwrap();
        // Two agents, 40 questions before and 40 after; ten each second at least.
        let mut is_close = clocks.pings >= 2 * (80 + 4 * 10);
        for way in &outcome.directions {
            let error_ns = way.latency.error_ns.unwrap();
            let half_ns = way.latency.quantile_ns(0.5);
            // Both are this machine's clocks: no drift, whose measured one may be as wrong as the readings.
            is_close &= half_ns < 500_000_000 && error_ns < 100_000_000;
            let (_, series) = way.series.as_ref().unwrap();
            let known: Vec<u64> = series.iter().filter_map(|it| it.latency_ns.p50).collect();
            is_close &= known.len() >= 4 && known.iter().all(|&ns| ns < 500_000_000);
            told.push((clocks.pings, half_ns, error_ns, known));
        }
        eprintln!("{told:?}");
        is_close
    };
    until_undisturbed("the clocks are followed", is_followed);
}

/// A clock jumps while a trial runs. It ends in its time, each frame counts, and latencies are unknown.
/// Between two trials a jump makes nothing wrong.
#[test]
fn a_clock_that_jumps_changes_no_count_and_no_time() {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let there = Clock::showing(77_000_000_000_000);
    let agents =
        [start(good(), Allowed::ALL, Clock::here().clone()), start(good(), Allowed::ALL, there.clone())];
    let mut tester = tester([&agents[0], &agents[1]]);
    let length = Duration::from_secs(1);
    for by_ns in [HOUR_NS, -2 * HOUR_NS, 1_000_000_000] {
        let (begun, jumped) = (Instant::now(), std::cell::Cell::new(false));
        let gauges = tester.gauges();
        let every = Some(length / 4);
        let outcome = tester.trial(&Offer { every, ..offer(Rate::Pps(1000.0), length) }, &|| {
            let is_under_way = gauges.can_change_rate() && gauges.so_far().is_some_and(|it| it.1 > 0);
            if is_under_way && !jumped.replace(true) {
                there.set_forward(by_ns);
            }
            true
        });
        let outcome = outcome.unwrap();
        assert!(jumped.get() && outcome.complete, "{:?}", outcome.trouble);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        let way = &outcome.directions[0];
        assert_eq!((way.sent.intended, way.sent.frames + way.sent.shortfall(), way.lost()), (1000, 1000, 0));
        assert_eq!((way.received.arrived.duplicated, way.received.arrived.corrupted), (0, 0));
        assert_eq!(way.latency.frames(), 0, "{by_ns}");
        let (_, series) = way.series.as_ref().unwrap();
        assert!(series.iter().all(|interval| interval.latency_ns.p50.is_none()), "{series:?}");

        let outcome = tester.trial(&offer(Rate::Pps(1000.0), SHORT), &|| true).unwrap();
        let way = &outcome.directions[0];
        assert_eq!((way.lost(), way.latency.frames()), (0, way.received.arrived.received), "{by_ns}");
        assert!(way.latency.quantile_ns(0.5) < 500_000_000, "{by_ns}");
    }
}

#[test]
fn agents_with_one_clock_have_no_offset() {
    let here = || Clock::here().clone();
    let agents = [start(good(), Allowed::ALL, here()), start(good(), Allowed::ALL, here())];
    let mut tester = tester([&agents[0], &agents[1]]);
    let outcome = tester.trial(&offer(Rate::Pps(1000.0), SHORT), &|| true).unwrap();
    assert!(outcome.complete && outcome.clocks.is_none());
    assert_eq!(outcome.directions[0].latency.frames(), outcome.directions[0].received.arrived.received);

    let frames = Arc::new(Templates::one(&[7; 60]));
    let classes = Arc::new(Classes::new(&frames, 1));
    let replay = Some(Replay { frames, times: None, classes });
    let said = refused(tester.trial(&Offer { replay, ..offer(Rate::Pps(1000.0), SHORT) }, &|| true));
    assert!(said.contains("only ports of this host"), "{said}");
}

#[test]
fn what_the_operator_does_not_allow_is_refused_by_both_sides() {
    let allowed = Allowed { load_pps: 5000.0, duration: Duration::from_secs(1) };
    let here = || Clock::here().clone();
    let agents = [start(good(), allowed, here()), start(good(), Allowed::ALL, here())];
    let mut tester = tester([&agents[0], &agents[1]]);
    for (load, shape, duration, what) in [
        (Rate::Pps(5001.0), Shape::Constant, SHORT, "at most 5.0 kpps"),
        (Rate::Max, Shape::Constant, SHORT, "at most 5.0 kpps"),
        (Rate::Pps(100.0), Shape::Ramp(6000.0, SHORT), SHORT, "at most 5.0 kpps"),
        (Rate::Pps(100.0), Shape::Constant, Duration::from_secs(2), "at most 1 s"),
    ] {
        let said = refused(tester.trial(&Offer { shape, ..offer(load, duration) }, &|| true));
        assert!(said.contains(what) && said.contains(&host(&agents[0]).to_string()), "{said}");
    }
    // A tester that does not keep the rules by itself.
    let [spec, _] = specs();
    let (mut port, _) = connect(&host(&agents[0]), &spec, &Options::default(), &[], &good()).unwrap();
    let task = kpps_tester::Task {
        at: 0,
        station: kpps_tester::neighbours::Station {
            mac: port.mac(),
            tags: Tags::default(),
            ips: Addresses::from([198, 18, 0, 1].into(), 1),
        },
        others: Arc::default(),
        plan: Some(SendPlan {
            rewrite: true,
            ..SendPlan::one(Rate::Pps(50_000.0), StreamPlan::of(Arc::new(Templates::one(&[1; 60]))))
        }),
        expect: Vec::new(),
        duration: SHORT,
        drain: SHORT,
        epoch_ns: Clock::here().now_ns(),
        every: None,
        follower: None,
    };
    let done = port.work(&task, &kpps_tester::TrialState::new(1));
    let said = done.trouble.unwrap().to_string();
    assert!(
        done.sent.frames == 0 && said.contains("does not allow 50.0 kpps: at most 5.0 kpps are allowed"),
        "{said}"
    );
    // Nor by a change.
    let mut task = task;
    task.plan.iter_mut().flat_map(|plan| &mut plan.streams).for_each(|stream| stream.pps = 100.0);
    let state = kpps_tester::TrialState::new(1);
    state.change_rate(50_000.0);
    let said = port.work(&task, &state).trouble.unwrap().to_string();
    assert!(said.contains("does not allow 50.0 kpps: at most 5.0 kpps are allowed"), "{said}");
    // Ports that are not allowed, or that another has.
    let connect =
        |port: &str| connect(&host(&agents[0]), &port.parse().unwrap(), &Options::default(), &[], &good());
    let said = |port: &str| connect(port).err().unwrap().to_string();
    assert!(said("packet:lo").contains("packet:lo is not among the allowed ports: udp:"));
    assert!(said(&spec.to_string()).contains("is in use by another tester"));
    drop(port);
    let begin = Instant::now();
    while connect(&spec.to_string()).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "a port is given back when its session ends");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_agent_that_is_lost_ends_the_trial_with_what_was_measured() {
    let here = || Clock::here().clone();
    for lost in [0, 1] {
        let mut agents = [0, 1].map(|_| Some(start(good(), Allowed::ALL, here())));
        let mut tester = tester([agents[0].as_ref().unwrap(), agents[1].as_ref().unwrap()]);
        let name = host(agents[lost].as_ref().unwrap()).to_string();
        let agents = std::cell::RefCell::new(&mut agents);
        let (gauges, ended) = (tester.gauges(), std::cell::Cell::new(None));
        let outcome = tester.trial(&offer(Rate::Pps(2000.0), Duration::from_secs(60)), &|| {
            // Both agents have reported frames.
            let goes_well = gauges.so_far().is_some_and(|(_, sent, received)| sent > 0 && received > 0);
            if goes_well && ended.get().is_none() {
                agents.borrow_mut()[lost].take();
                ended.set(Some(Instant::now()));
            }
            true
        });
        let outcome = outcome.unwrap();
        let trouble = outcome.trouble.unwrap().to_string();
        assert!(trouble.contains(&name) && trouble.contains("lost") && !trouble.contains('\n'), "{trouble}");
        let way = &outcome.directions[0];
        assert!(!outcome.complete && ended.get().unwrap().elapsed() < Duration::from_secs(30));
        assert!(
            way.sent.frames > 0 && way.received.arrived.received > 0 && way.sent.intended < 60_000,
            "{} {:?}",
            way.sent.frames,
            way.received.arrived
        );
        // The lost agent gives no more results.
        refused(tester.trial(&offer(Rate::Pps(2000.0), SHORT), &|| true));
    }
}

fn by_certificate(folder: &Path, name: &str) -> Security {
    let file = |name: &str, end: &str| folder.join(format!("{name}.{end}"));
    Security::tls(&file("ca", "pem"), &file(name, "pem"), &file(name, "key")).unwrap()
}

#[test]
fn only_who_has_a_certificate_of_the_same_authority_is_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, other) = (folder.path().join("lab"), folder.path().join("other"));
    for folder in [&lab, &other] {
        keys::make(folder, &["127.0.0.1".into(), "h9".into()]).unwrap();
    }
    let agent = start(by_certificate(&lab, "127.0.0.1"), Allowed::ALL, Clock::here().clone());
    let stranger = start(by_certificate(&lab, "h9"), Allowed::ALL, Clock::here().clone());
    let connect = |agent: &Agent, security: &Security| {
        let [spec, _] = specs();
        let result = connect(&host(agent), &spec, &Options::default(), &[], security);
        result.map(|(port, _)| port).map_err(|error| error.to_string())
    };
    let mut port = connect(&agent, &by_certificate(&lab, "tester")).unwrap();
    assert_eq!(port.read_clock().unwrap().id, Clock::here().id());
    for (agent, security, what) in [
        (&agent, by_certificate(&other, "tester"), "another authority"),
        (&agent, by_certificate(&lab, "127.0.0.1"), "an agent's certificate"),
        (&stranger, by_certificate(&lab, "tester"), "an agent by another name"),
        (&agent, good(), "a token"),
    ] {
        let said = connect(agent, &security).err().unwrap();
        eprintln!("{what}: {said}");
        assert!(
            said.starts_with(&format!("agent {}", host(agent))) && !said.contains('\n'),
            "{what}: {said}"
        );
    }
    let by_token = start(good(), Allowed::ALL, Clock::here().clone());
    for (security, what) in
        [(token("another-token-0123"), "wrong token"), (by_certificate(&lab, "tester"), "agent 127.0.0.1")]
    {
        let said = connect(&by_token, &security).err().unwrap();
        assert!(said.contains(what) && !said.contains('\n'), "{said}");
    }
    drop(by_token);
}

/// A search across agents goes up to the limit of the first operator: half of it for each direction, if both
/// ports are one agent's.
#[test]
fn a_search_goes_up_to_what_an_operator_allows() {
    let allowed = Allowed { load_pps: 3000.0, duration: Duration::from_secs(9) };
    let here = || Clock::here().clone();
    let agents = [start(good(), allowed, here()), start(good(), Allowed::ALL, here())];
    for (of, bidirectional, pps) in [([0, 1], false, 3000.0), ([0, 0], true, 1500.0)] {
        let tester = tester(of.map(|at| &agents[at]));
        let drain = Duration::from_millis(200);
        let testbed = Box::new(PortsTestbed { tester, drain, bidirectional, mesh: None });
        assert_eq!(testbed.allowed().map(|allowed| allowed.pps), Some(pps));
        let environment = Environment { bidirectional, ..Environment::default() };
        let mut runner = Runner::new(testbed, environment, None, &|| true, &());
        let (min, max) = (RateSpec::Pps(100.0), "100%".parse().unwrap());
        let range = Range { min, max, precision: 0.2, max_time: Duration::from_secs(30) };
        let goals = range.goals(Duration::from_millis(50), 0.005);
        let (found, end) = search(&mut runner, &Mix::fixed(Size::MIN), &goals, &range).unwrap();
        // A busy machine may be the limit, or not come to an end; nothing above the limit is tried.
        assert!(
            !found.trials.is_empty() && found.trials.iter().all(|it| found.load_pps(it) <= pps),
            "{found:?}"
        );
        assert_eq!(found.max_pps, pps);
        let by = found.max_allowed_by.clone().unwrap();
        assert!(by.starts_with(&format!("{}/udp:", host(&agents[0]))), "{by}");
        if end.is_ok()
            && found.ceiling_pps.is_none()
            && found.goals.iter().all(|goal| goal.upper_pps.is_none())
        {
            assert!(found.goals.iter().all(|goal| goal.limited_by == Some(Limit::Operator)), "{found:?}");
        }
    }
}
