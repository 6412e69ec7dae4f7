//! Trials over veths, through the kernel's bridge and its router. That takes root; without, these tests say
//! so and pass. They send little, and do not depend on the speed of a busy machine: the counts must agree in
//! any case.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod cores;
mod mesh;
mod places;
mod rates;
mod stations;
mod strangers;
mod streams;

use kpps_documents::Doubt;
use kpps_documents::detail::{Arrival, ArrivalBy, DetailedTrial, FlowCount, Interval, SizeCount};
use kpps_frames::build::{self, Flow};
use kpps_frames::flows::PortNumbers;
use kpps_frames::rate::Rate;
use kpps_frames::{Encap, Mix, Size, tcp};
use kpps_methods::Testbed;
use kpps_methods::units::RateSpec;
use kpps_namespaces::{Net, skip, until_undisturbed};
use kpps_ports::Spec;
use kpps_ports::port::run::{BURST, Late, Shape};
use kpps_ports::port::{Options, Port, open};
use kpps_tester::observe::Scope;
use kpps_tester::{Address, FlowPlan, Metrics, NewRate, Offer, Playback, PortsTestbed, Tester, document};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A bridge between `a` and `b`, in a namespace that this thread works in from now on.
fn with_bridge() -> Option<Net> {
    let net = Net::with_bridge()?;
    net.enter();
    Some(net)
}

/// Addresses of both ends in the benchmark networks of IPv6 (RFC 5180).
const IPV6: [&str; 2] = ["2001:2:0:1::1", "2001:2:0:2::2"];

/// Ports `a` and `b`, with these routers and places.
fn tester(gateway: [Option<&str>; 2], places: &[&str]) -> Tester {
    tester_of(["198.18.0.1", "198.19.0.2"], [None, None], gateway, places)
}

/// The same with these addresses and VLANs.
fn tester_of(ips: [&str; 2], vlans: [Option<u16>; 2], gateway: [Option<&str>; 2], places: &[&str]) -> Tester {
    tester_on(["packet:a", "packet:b"], 1, (ips, vlans), gateway, places)
}

/// The same with these ports on this number of cores.
fn tester_on(
    ports: [&str; 2],
    cores: usize,
    (ips, vlans): ([&str; 2], [Option<u16>; 2]),
    gateway: [Option<&str>; 2],
    places: &[&str],
) -> Tester {
    let specs = ports.map(|name| name.parse::<Spec>().unwrap());
    let ports = open(&specs, &Options { cores, ..Options::default() }).unwrap();
    let addresses = [0, 1].map(|at| Address {
        ips: ips[at].parse().unwrap(),
        gateway: gateway[at].map(|text| text.parse().unwrap()),
        to: None,
        encap: Encap::vlan(vlans[at].unwrap_or(0)),
    });
    let places: Vec<Scope> = places.iter().map(|place| place.parse().unwrap()).collect();
    Tester::new(specs, ports, addresses, &places).unwrap()
}

/// Waits until the routers answer. Beside two busy loops one with IPv6 was once silent for the two seconds
/// that a trial allows.
fn await_routers(tester: &mut Tester) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        tester.resolve_gateways(&|| true).unwrap();
        let system = tester.environment().system;
        if !system.values().any(|what| what.ends_with("(no answer)")) {
            return;
        }
        assert!(std::time::Instant::now() < until, "a router does not answer: {system:?}");
    }
}

fn offer(pps: f64, bytes: u16, bidirectional: bool) -> Offer {
    Offer {
        load: kpps_methods::Load::of(pps, Size::with_fcs(bytes)).lasting_ms(0, 250),
        shape: Shape::Constant,
        count: None,
        drain: Duration::from_secs(3),
        bidirectional,
        keep: false,
        replay: None,
        streams: [].into(),
        every: None,
        late: Late::Skip,
        control: None,
    }
}

fn trial(tester: &mut Tester, offer: &Offer) -> DetailedTrial {
    let outcome = tester.trial(offer, &|| true).unwrap();
    let trial = document(tester, offer, &outcome).unwrap();
    assert!(trial.complete && trial.learned == Some(true), "{trial:?}");
    assert_eq!(trial.fate.intended, trial.result.sent + trial.result.shortfall);
    let overflow = trial.result.overflow.unwrap();
    assert_eq!(trial.result.sent, trial.fate.received + trial.fate.lost + overflow, "{trial:?}");
    trial
}

/// Nothing but the shortfall is missing, and nothing is unexplained; drops that a busy machine makes are
/// explained.
fn is_clean(trial: &DetailedTrial) {
    assert_eq!(
        (trial.fate.duplicated, trial.fate.reordered, trial.fate.corrupted),
        (Some(0), Some(0), Some(0)),
        "{trial:?}"
    );
    assert_eq!(trial.result.ledger.unexplained, 0, "{trial:?}");
    assert!(trial.fate.received > 0 && trial.result.latency_ns.p50.is_some(), "{trial:?}");
    // Packet sockets have the kernel's times; the clock is not set here.
    let arrival = Arrival { by: ArrivalBy::Kernel, clock_set_ns: None };
    assert!(trial.directions.iter().all(|direction| direction.arrival == arrival), "{trial:?}");
}

/// All frames came through, except for frames that this machine's own queues had no room for while it was
/// busy.
fn came_through(trial: &DetailedTrial) {
    assert_eq!(trial.fate.lost, places::backlog_of(trial, ""), "{trial:?}");
}

#[test]
fn a_bridge_passes_all_sizes_and_the_ledger_closes() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    for bytes in [64, 65, 128, 256, 512, 1024, 1280, 1518] {
        for both in [false, true] {
            let trial = trial(&mut tester, &offer(4000.0, bytes, both));
            assert_eq!(trial.fate.intended, if both { 2000 } else { 1000 });
            is_clean(&trial);
        }
    }
}

/// The intervals of a series have all frames of the trial, those of a rate that changes, and those of a trial
/// of three days that is interrupted.
#[test]
fn a_series_has_every_frame_in_its_interval() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let every = Some(Duration::from_millis(200));
    let shape = Shape::Then(Duration::from_millis(500), 4000.0);
    let offer = Offer { every, shape, ..offer(2000.0, 64, true) }.lasting(Duration::from_secs(1));
    let whole = trial(&mut tester, &offer);
    let begun = std::time::Instant::now();
    let days = offer.clone().lasting(Duration::from_secs(72 * 3600));
    let outcome = tester.trial(&days, &|| begun.elapsed() < Duration::from_millis(900)).unwrap();
    let interrupted = document(&tester, &days, &outcome).unwrap();
    assert!(!interrupted.complete);
    for trial in [whole, interrupted] {
        assert_eq!(trial.interval_s, Some(0.2));
        for way in &trial.directions {
            let sum = |of: fn(&Interval) -> u64| way.series.iter().map(of).sum::<u64>();
            assert_eq!((sum(|it| it.intended), sum(|it| it.sent)), (way.fate.intended, way.sent));
            assert_eq!((sum(|it| it.shortfall), sum(|it| it.received)), (way.shortfall, way.fate.received));
            assert_eq!(sum(|it| it.lost), way.fate.lost);
            let last = way.series.last().unwrap();
            let seconds: f64 = way.series.iter().map(|it| it.seconds).sum();
            assert!((last.from_s + last.seconds - seconds).abs() < 1e-5, "{way:?}");
            if trial.complete {
                // Five, except for a sender that begins or ends late.
                assert!(way.series.len() >= 5 && seconds > 0.99, "{way:?}");
                // Frames that are due until then, in s from the sender's beginning.
                let due = |at_s: f64| 2000.0 * at_s.min(1.0) + 2000.0 * (at_s.min(1.0) - 0.5).max(0.0);
                for interval in &way.series {
                    let due = due(interval.from_s + interval.seconds) - due(interval.from_s);
                    assert!((interval.intended as f64 - due).abs() <= 2.0, "{due}: {way:?}");
                    assert!(
                        interval.received == 0 || interval.latency_ns.p50 <= interval.latency_ns.p99,
                        "{way:?}"
                    );
                    assert_eq!(interval.received > 0, interval.latency_ns.p50.is_some(), "{way:?}");
                }
            }
        }
    }
}

/// A rate that is changed in the middle: the due frames fit both rates, and the change loses no frame,
/// whatever the shape of the load.
#[test]
fn a_rate_may_change_while_frames_are_sent() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let gauges = tester.gauges();
    let (half, second) = (Duration::from_millis(500), Duration::from_secs(1));
    for shape in
        [Shape::Constant, Shape::Bursts(4), Shape::Poisson { seed: 1 }, Shape::Ramp(1000.0, second / 4)]
    {
        let every = Some(second / 4);
        let offer = Offer { shape, every, ..offer(2000.0, 64, true) }.lasting(2 * second);
        let changed = RefCell::new(None);
        let go_on = || {
            let mut changed = changed.borrow_mut();
            if changed.is_none() && gauges.can_change_rate() && gauges.so_far().unwrap().0 >= half {
                *changed = Some(gauges.change_rate(RateSpec::Pps(6000.0)).unwrap());
            }
            true
        };
        let mut outcome = None;
        until_undisturbed("both senders take notice of the change", || {
            let it = outcome.insert(tester.trial(&offer, &go_on).unwrap());
            let noticed = it.directions.iter().all(|way| !way.sent.rate_changes.is_empty());
            let said = changed.take().map(|new: NewRate| new.to_string());
            assert!(said.as_ref().is_none_or(|said| said == "6.0 kpps in each direction from now on"));
            noticed && said.is_some()
        });
        let outcome = outcome.unwrap();
        assert!(!gauges.can_change_rate() && gauges.change_rate(RateSpec::Pps(1.0)).is_err(), "it is over");
        assert_eq!(gauges.offered_pps(), Some(12_000.0), "both directions");
        let trial = document(&tester, &offer, &outcome).unwrap();
        is_clean(&trial);
        let dropped: u64 = trial.result.ledger.dropped.values().sum();
        let lost = trial.fate.lost + trial.result.overflow.unwrap();
        assert_eq!((trial.complete, trial.load_pps, lost), (true, Some(2000.0), dropped));
        for way in &trial.directions {
            let [change] = way.rate_changes[..] else { panic!("{way:?}") };
            assert!(change.at_s < 2.0 && change.offered_pps == 6000.0, "{way:?}");
            // A quarter of a second at 500 less in the mean.
            let ramp = if matches!(shape, Shape::Ramp(..)) { 125.0 } else { 0.0 };
            let due = 2000.0 * change.at_s + 6000.0 * (2.0 - change.at_s) - ramp;
            // Chance: five standard deviations.
            let off = if matches!(shape, Shape::Poisson { .. }) { 5.0 * due.sqrt() } else { 0.02 * due };
            assert!((way.fate.intended as f64 - due).abs() <= off, "{due}: {way:?}");
            assert_eq!(way.fate.intended, way.sent + way.shortfall);
            let sum = |of: fn(&Interval) -> u64| way.series.iter().map(of).sum::<u64>();
            assert_eq!((sum(|it| it.intended), sum(|it| it.sent)), (way.fate.intended, way.sent));
            // The last interval is longer if the sender could not end in time.
            for it in &way.series[..way.series.len() - 1] {
                let pps = if it.from_s > change.at_s { 6000.0 } else { 2000.0 };
                let is_whole = it.from_s > change.at_s || it.from_s + it.seconds < change.at_s;
                let is_even = is_whole && !matches!(shape, Shape::Poisson { .. } | Shape::Ramp(..));
                // Frames are due four at a time in bursts.
                assert!(!is_even || (it.intended as f64 - pps * it.seconds).abs() <= 5.0, "{way:?}");
            }
            assert!(way.gaps.is_some_and(|gaps| gaps.intended_ns.is_none()), "{way:?}");
        }
        // The mean.
        assert!((trial.result.offered_pps - trial.fate.intended as f64 / 2.0).abs() < 1.0, "{trial:?}");
    }
}

/// The offered load of a ramp is its mean, not its end.
#[test]
fn a_ramp_offers_its_mean() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let half = Duration::from_millis(500);
    let offer = Offer { shape: Shape::Ramp(2000.0, half), ..offer(4000.0, 64, false) }.lasting(half);
    let trial = trial(&mut tester, &offer);
    assert_eq!(trial.load_pps, Some(4000.0));
    assert!((trial.result.offered_pps - 3000.0).abs() < 10.0, "{trial:?}");
}

/// Three days of a load that is drawn by chance begin at once, and are accounted for as far as they come.
#[test]
fn a_drawn_load_of_days_begins_at_once() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let gauges = tester.gauges();
    let (shape, duration) = (Shape::Poisson { seed: 5 }, Duration::from_secs(72 * 3600));
    let every = Some(Duration::from_millis(100));
    let offer = Offer { shape, every, ..offer(50_000.0, 64, false) }.lasting(duration);
    let begun = std::time::Instant::now();
    let goes_on = || !gauges.can_change_rate() || gauges.so_far().unwrap().1 < 5000;
    let outcome = tester.trial(&offer, &goes_on).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let [way] = &outcome.directions[..] else { panic!("one direction") };
    let (mean, all) = (50_000.0 * way.sent.elapsed.as_secs_f64(), way.sent.intended as f64);
    assert!(way.sent.frames >= 5000 && (all - mean).abs() < 6.0 * mean.sqrt(), "{mean}, {all}");
    assert_eq!(way.sent.intended, way.sent.frames + way.sent.shortfall());
    let (_, series) = way.series.as_ref().unwrap();
    assert_eq!(series.iter().map(|it| it.intended).sum::<u64>(), way.sent.intended);
    // The sender reports a whole trial, too.
    let offer = offer.lasting(Duration::from_millis(500));
    let whole = tester.trial(&offer, &|| true).unwrap();
    let [way] = &whole.directions[..] else { panic!("one direction") };
    assert!((way.sent.intended as f64 - 25_000.0).abs() < 1000.0 && whole.complete, "{}", way.sent.intended);
    assert_eq!(way.sent.intended, way.sent.frames + way.sent.shortfall());
}

/// A rate goes up to the limit, and a load without a rate, or with a number of frames, stays.
#[test]
fn a_rate_changes_only_as_far_as_is_possible() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    tester.ceiling_pps = Some(3000.0);
    let gauges = tester.gauges();
    let (said, enough) = (RefCell::new(Vec::new()), RefCell::new(None));
    let go_on = || {
        if said.borrow().is_empty() && gauges.can_change_rate() {
            let rates = [
                RateSpec::Pps(2999.0),
                RateSpec::Pps(1e5),
                RateSpec::Percent(99.0),
                RateSpec::L1(672.0 * 100.0),
            ];
            let all =
                rates.map(|rate| gauges.change_rate(rate).map_or_else(|why| why, |new| new.to_string()));
            said.borrow_mut().extend(all);
            let scaled = [1.1, f64::NAN].map(|factor| gauges.scale_rate(factor).map(|new| new.pps));
            said.borrow_mut().extend(scaled.map(|new| format!("{new:?}")));
        }
        // Frames that are sent after two turns of the sender are sent after it took notice.
        let sent = gauges.so_far().map_or(0, |(_, sent, _)| sent);
        let mut enough = enough.borrow_mut();
        said.borrow().is_empty() || sent < *enough.get_or_insert(sent + 2 * BURST as u64)
    };
    let endless = offer(2000.0, 64, false).lasting(Duration::from_secs(600));
    let outcome = tester.trial(&endless, &go_on).unwrap();
    let limit = "the ceiling of the sender";
    let expected = [
        "3.0 kpps from now on".to_owned(),
        format!("3.0 kpps from now on: {limit}"),
        format!("the load is already at its limit of 3.0 kpps ({limit})"),
        "0.1 kpps from now on".to_owned(),
    ];
    assert_eq!(said.borrow()[..4], expected);
    assert_eq!(said.borrow()[4..], ["Ok(110.00000000000001)", "Err(\"NaN is no load\")"]);
    // The last one took effect; one before it only if this thread was held up between them.
    let changes = &outcome.directions[0].sent.rate_changes;
    assert!((1..=4).contains(&changes.len()), "{changes:?}");
    assert!(changes.last().is_some_and(|change| (change.offered_pps - 110.0).abs() < 1e-9), "{changes:?}");
    let can = RefCell::new(false);
    for fixed in [
        Offer { count: Some(100), ..offer(2000.0, 64, false) },
        Offer { count: Some(2000), ..offer(1.0, 64, false) }.at(Rate::Max),
    ] {
        let look = || {
            *can.borrow_mut() |= gauges.can_change_rate();
            true
        };
        tester.trial(&fixed, &look).unwrap();
        assert!(!*can.borrow(), "{fixed:?}");
    }
}

/// The metrics of a trial, read while it runs, never go back and end below its result.
#[test]
fn a_running_trial_tells_its_counters_over_http() {
    let Some(net) = with_bridge() else { return };
    net.run("ip link set dev lo up; ip link set dev pb nomaster");
    let mut tester = tester([None, None], &[]);
    let metrics = Metrics::serve("127.0.0.1:0", tester.gauges()).unwrap();
    let address = metrics.address();
    let every = Some(Duration::from_millis(100));
    let offer = Offer { every, ..offer(2000.0, 64, true) }.lasting(Duration::from_secs(60));
    let value = |text: &str, name: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let labels = "{from=\"packet:a\",to=\"packet:b\"";
    // A trial that goes on until enough was reported, and the reports.
    let told = |tester: &mut Tester, is_enough: &(dyn Fn(&str) -> bool + Sync)| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let scraper = scope.spawn(|| {
                let (mut all, begun) = (Vec::new(), std::time::Instant::now());
                while !over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(120) {
                    let mut stream = TcpStream::connect(address).unwrap();
                    let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: kpps\r\n\r\n");
                    let mut said = String::new();
                    let heard = asked.and_then(|()| stream.read_to_string(&mut said));
                    // A client that asks too slowly, for want of a CPU, gets no answer.
                    if let (Ok(_), Some((_, text))) = (heard, said.split_once("\r\n\r\n")) {
                        over.fetch_or(is_enough(text), Ordering::Relaxed);
                        all.push(text.to_owned());
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                all
            });
            let outcome = tester.trial(&offer, &|| !over.load(Ordering::Relaxed)).unwrap();
            over.store(true, Ordering::Relaxed);
            (document(tester, &offer, &outcome).unwrap(), scraper.join().unwrap())
        })
    };
    let count = |text: &str, name: &str| value(text, &format!("kpps_{name}_frames_total{labels}}}"));
    let (trial, scrapes) =
        told(&mut tester, &|text| count(text, "sent") > Some(1000.0) && count(text, "lost") > Some(500.0));
    let way = &trial.directions[0];
    for (name, at_the_end) in [
        ("sent", way.sent),
        ("received", way.fate.received),
        ("lost", way.fate.lost),
        ("shortfall", way.shortfall),
        ("overflow", trial.result.overflow.unwrap()),
    ] {
        let values: Vec<_> = scrapes.iter().filter_map(|text| count(text, name)).collect();
        assert!(values.is_sorted() && !values.is_empty(), "{name}: {values:?}");
        assert!(*values.last().unwrap() <= at_the_end as f64, "{name}: {values:?}, {at_the_end}");
    }
    let seen =
        |name: &str| scrapes.iter().rev().find_map(|text| value(text, &format!("kpps_{name}{labels}")));
    assert_eq!(seen("offered_frames_per_second"), Some(2000.0));
    let (sent, lost) = (seen("sent_frames_total").unwrap(), seen("lost_frames_total").unwrap());
    assert!(sent > 1000.0 && lost > 500.0 && way.fate.received == 0, "{sent} {lost} {way:?}");
    assert_eq!(seen("latency_seconds"), None, "nothing arrived");
    assert!(scrapes.iter().all(|text| text.ends_with("\n# EOF\n")));
    // With the cable in place there are latencies.
    net.run("ip link set dev pb master br");
    let p99 = format!("kpps_latency_seconds{labels},quantile=\"0.99\"}}");
    let (_, scrapes) = told(&mut tester, &|text| value(text, &p99).is_some());
    let last = scrapes.last().unwrap();
    assert!(value(last, &p99).is_some_and(|seconds| (1e-7..60.0).contains(&seconds)), "{last}");
}

/// Frames up to 9018 B pass where all interfaces let them. Elsewhere nothing is sent, and the message says
/// what to do.
#[test]
fn jumbo_frames_pass_a_bridge_and_are_refused_where_they_do_not_fit() {
    let Some(net) = with_bridge() else { return };
    let refused = |tester: &mut Tester, bytes| {
        tester.trial(&offer(500.0, bytes, false), &|| true).err().unwrap().to_string()
    };
    let sent = net.sent("a");
    let error = refused(&mut tester([None, None], &[]), 1519);
    assert!(error.contains("1519 B with FCS do not fit packet:a, which sends at most 1518 B"), "{error}");
    for line in ["ip link set dev a mtu 9000", "ip link set dev b mtu 9000"] {
        net.run(line);
    }
    let mut tester = tester([None, None], &[]);
    let error = refused(&mut tester, 9019);
    assert!(error.contains("9018 B"), "{error}");
    assert_eq!(net.sent("a"), sent, "nothing was sent");
    net.run("for link in $(ls /sys/class/net); do ip link set dev $link mtu 9000; done");
    for sizes in ["1519", "9018", "64:3,1518:1,9018:1"] {
        for both in [false, true] {
            let trial = trial(&mut tester, &offer(500.0, 64, both).with_sizes(sizes.parse().unwrap()));
            came_through(&trial);
            is_clean(&trial);
        }
    }
    // Small frames pass the same ports, and a flood of long ones is counted frame by frame.
    is_clean(&trial(&mut tester, &offer(4000.0, 64, true)));
    net.run("ethtool -K a tx off > /dev/null");
    let mut tester = self::tester([None, None], &[]);
    is_clean(&trial(&mut tester, &Offer { count: Some(3000), ..offer(0.0, 9018, false) }.at(Rate::Max)));
    // AF_XDP holds a frame in one chunk of memory.
    let specs = ["xdp:a", "packet:b"].map(|name| name.parse::<Spec>().unwrap());
    let xdp = open(&specs[..1], &Options::default()).map(|ports| ports[0].check(&specs[0], 9014));
    match xdp {
        Ok(checked) => {
            let error = checked.unwrap_err().to_string();
            assert!(error.contains("packet:a takes 9018 B"), "{error}");
        }
        Err(error) => skip::lacks(&format!("AF_XDP ({error})")),
    }
}

/// The ports `a` and `b`, whose frames are in these layers.
fn tester_in(encaps: [&str; 2], ips: [&str; 2]) -> Tester {
    let specs = ["packet:a", "packet:b"].map(|name| name.parse::<Spec>().unwrap());
    let ports = open(&specs, &Options::default()).unwrap();
    let addresses = [0, 1].map(|at| Address {
        ips: ips[at].parse().unwrap(),
        gateway: None,
        to: None,
        encap: encaps[at].parse().unwrap(),
    });
    Tester::new(specs, ports, addresses, &[]).unwrap()
}

/// A UDP socket has the system's headers: nothing is sent that would not be as it was asked for.
#[test]
fn sockets_refuse_headers_that_they_cannot_send() {
    let specs = ["udp:127.0.0.1:47123", "udp::47123"].map(|name| name.parse::<Spec>().unwrap());
    let ports = open(&specs, &Options::default()).unwrap();
    let ips = ["198.18.0.1", "198.19.0.2"];
    let address = |at: usize| Address {
        ips: ips[at].parse().unwrap(),
        gateway: None,
        to: None,
        encap: Encap::default(),
    };
    let mut tester = Tester::new(specs, ports, [address(0), address(1)], &[]).unwrap();
    let plain = FlowPlan::default();
    let dscp = FlowPlan { dscp: Some("46".parse().unwrap()), ..plain.clone() };
    for (flows, refused) in
        [(dscp, true), (FlowPlan { replies: true, ..plain.clone() }, true), (plain, false)]
    {
        tester.flows = flows;
        let error = tester.trial(&offer(100.0, 64, false), &|| true).err().map(|error| error.to_string());
        assert_eq!(
            error.is_some_and(|error| error.contains("headers of frames that udp:127.0.0.1:47123 sends")),
            refused
        );
    }
}

#[test]
fn tags_and_labels_pass_a_bridge() {
    let Some(net) = with_bridge() else { return };
    net.run("for link in a pa pb b br; do ip link set dev $link mtu 1600; done");
    for layers in
        ["qinq:100+vlan:7", "vlan:1-100", "mpls:16+mpls:17-20", "vlan:random:1-4094+mpls:random:16-99"]
    {
        for ips in [["198.18.0.1", "198.19.0.2"], IPV6] {
            let mut tester = tester_in([layers; 2], ips);
            tester.flows = FlowPlan { turn: 100, dscp: Some("0-63".parse().unwrap()), ..FlowPlan::default() };
            for bytes in [100, 1518] {
                let trial = trial(&mut tester, &offer(2000.0, bytes, true));
                came_through(&trial);
                assert_eq!(trial.directions[0].flows.as_ref().unwrap().count, 100);
                is_clean(&trial);
            }
        }
    }
}

/// The kernel's tunnel takes frames out of VXLAN for one port, and puts those of the other in.
#[test]
fn a_tunnel_ends_between_the_ports() {
    let Some(net) = with_bridge() else { return };
    let made = net.can(
        "for link in a pa; do ip link set dev $link mtu 1600; done
         ip link set dev pa nomaster && ip address add 192.0.2.2/24 dev pa &&
         ip link add name vx type vxlan id 5 local 192.0.2.2 remote 192.0.2.1 dstport 4789 dev pa &&
         ip link set dev vx master br && ip link set dev vx up",
    );
    if !made {
        return skip::lacks("VXLAN");
    }
    let layers = ["vxlan:5/192.0.2.1/192.0.2.2", "none"];
    for (ips, least) in [(["198.18.0.1-198.18.0.5", "198.19.0.2"], 116), (IPV6, 136)] {
        let mut tester = tester_in(layers, ips);
        tester.flows = FlowPlan { sports: PortNumbers::from(2000, 10), ..FlowPlan::default() };
        for bytes in [least, 300, 1518] {
            let trial = trial(&mut tester, &offer(2000.0, bytes, true));
            came_through(&trial);
            is_clean(&trial);
        }
    }
}

/// A router of IPv6: each flow has other ports, hop limits and code points, the far end replies, and the
/// router gives all frames one code point.
#[test]
fn replies_come_back_through_a_router_of_ipv6() {
    let Some((ends, router)) = Net::with_router() else { return };
    router.run(
        "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
         for at in 1/ra 2/rb; do
             echo 0 > /proc/sys/net/ipv6/conf/${at#*/}/disable_ipv6
             ip address add 2001:2:0:${at%/*}::fe/64 dev ${at#*/} nodad
         done",
    );
    let marks = "nft 'add table ip6 m; add chain ip6 m f { type filter hook forward priority 0; }; \
                 add rule ip6 m f ip6 dscp set cs1'";
    if !router.can(marks) {
        return skip::lacks("the kernel's packet filter, or nft");
    }
    ends.enter();
    let mut tester = tester_of(IPV6, [None, None], ["2001:2:0:1::fe", "2001:2:0:2::fe"].map(Some), &[]);
    await_routers(&mut tester);
    tester.flows = FlowPlan {
        count: Some(200),
        sports: "random:1024-65535".parse().unwrap(),
        turn: 64,
        replies: true,
        dscp: Some("0-63".parse().unwrap()),
        hops: Some("2-64".parse().unwrap()),
        ..FlowPlan::default()
    };
    let forwarded = || -> u64 {
        let said = router.output("grep Ip6OutForwDatagrams /proc/net/snmp6");
        said.split_whitespace()
            .last()
            .and_then(|count| count.parse().ok())
            .unwrap_or_else(|| panic!("{said}"))
    };
    for bytes in [84, 512] {
        let before = forwarded();
        let trial = trial(&mut tester, &offer(2000.0, bytes, true));
        came_through(&trial);
        is_clean(&trial);
        // Frames to learn the way are forwarded, too.
        let seen = forwarded() - before;
        assert!(seen >= trial.fate.received && seen <= trial.fate.received + 1000, "{seen}: {trial:?}");
    }
}

/// A user's packet passes a router in many flows, and its checksums are right: a filter drops others.
#[test]
fn a_packet_of_ones_own_passes_a_router() {
    let Some((ends, router)) = Net::with_router() else { return };
    ends.enter();
    let fields = tcp::Fields { sequence: 1, acknowledgement: 2, flags: tcp::SYN, window: 3 };
    let ipv4 = build::tcp(&Flow::default(), fields, &[]).unwrap();
    for payload in ["", "GET / HTTP/1.0 and so on, and on"] {
        let mut frame = ipv4.clone();
        frame.truncate(54);
        frame.extend(payload.as_bytes());
        frame[16..18].copy_from_slice(&(40 + payload.len() as u16).to_be_bytes());
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let traffic = kpps_tester::Traffic {
            template: Some(kpps_tester::template(&hex).unwrap()),
            src: Some("198.18.0.1-198.18.0.3".parse().unwrap()),
            sport: Some("random:1024-65535".parse().unwrap()),
            flows: Some(50),
            dscp: Some("46".parse().unwrap()),
            ..kpps_tester::Traffic::default()
        };
        let [from, to] = traffic.addresses();
        let gateways = [Some("198.18.0.254"), Some("198.19.0.254")];
        let mut tester = tester_of([&from.to_string(), &to.to_string()], [None, None], gateways, &[]);
        tester.flows = traffic.plan();
        let sizes = Mix::fixed(traffic.size().unwrap());
        let before = router.output("cat /proc/net/snmp | grep ^Ip: | tail -1 | cut -d' ' -f5");
        let trial = trial(&mut tester, &offer(2000.0, 64, true).with_sizes(sizes));
        came_through(&trial);
        is_clean(&trial);
        let after = router.output("cat /proc/net/snmp | grep ^Ip: | tail -1 | cut -d' ' -f5");
        assert_eq!(before, after, "no header was wrong");
    }
}

/// A capture from another network passes a router: from the port's station to the router's, with addresses
/// that are routed here.
#[test]
fn a_capture_is_replayed_through_a_router() {
    let Some((ends, router)) = Net::with_router() else { return };
    ends.enter();
    let mut writer = kpps_frames::pcap::Writer::new(Vec::new()).unwrap();
    let fields = tcp::Fields { sequence: 1, acknowledgement: 2, flags: tcp::ACK, window: 3 };
    for n in 0..100_u16 {
        let from = ([192, 168, 7, (n % 20) as u8].into(), 1000 + n);
        let flow = Flow { from, to: ([192, 168, 9, 9].into(), 80), ..Flow::default() };
        let frame = match n % 2 {
            0 => build::tcp(&flow, fields, &[7; 100]).unwrap(),
            _ => build::udp_test(&flow, Size::with_fcs(100)).unwrap(),
        };
        writer.write(u64::from(n) * 1_000_000, &frame).unwrap();
    }
    let file = std::env::temp_dir().join(format!("kpps-replay-{}.pcap", std::process::id()));
    std::fs::write(&file, writer.into_inner()).unwrap();
    let mappings = ["192.168.7.0-192.168.7.99=198.18.0.100-198.18.0.199", "192.168.9.9=198.19.0.2"]
        .map(|it| it.parse().unwrap());
    let playback = Playback::read(&file, Some(1.0), None, &mappings).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(playback.departures[0].contains("100 frames have other addresses"), "{:?}", playback.departures);
    let place = format!("{}/", router.name());
    let mut tester = tester([Some("198.18.0.254"), None], &[&place]);
    let offer = playback.offer(offer(1.0, 64, false), None).unwrap();
    let trial = trial(&mut tester, &offer);
    assert_eq!((trial.fate.intended, trial.fate.received), (100, trial.result.sent), "{trial:?}");
    assert!(trial.fate.received > 0 && trial.result.ledger.unexplained == 0, "{trial:?}");
}

/// The tester's own interface vanishes: the frames until then are no measurement, and a doubt says so.
#[test]
fn an_interface_that_vanishes_is_a_doubt() {
    let Some(net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let offer = offer(4000.0, 64, false).lasting(Duration::from_secs(60));
    let (begun, deleted) = (net.sent("a"), AtomicBool::new(false));
    let go_on = || {
        if !deleted.load(Ordering::Relaxed) && net.sent("a") > begun + 500 {
            net.run("ip link del dev b");
            deleted.store(true, Ordering::Relaxed);
        }
        true
    };
    let outcome = tester.trial(&offer, &go_on).unwrap();
    let trial = document(&tester, &offer, &outcome).unwrap();
    assert!(!trial.complete && trial.result.sent > 400, "{trial:#?}");
    let down = |doubt: &Doubt| matches!(doubt, Doubt::LinkChanged { interface, .. } if interface == "b");
    assert!(trial.doubts.iter().any(down), "{trial:#?}");
}

/// Where the kernel cuts messages a flood may be made of them: frames are as they were meant, and each of
/// them is accounted for.
#[test]
fn a_flood_where_the_kernel_cuts_is_one_of_frames() {
    let Some(net) = with_bridge() else { return };
    net.run("ethtool -K a tx off > /dev/null");
    let mut tester = tester([None, None], &[]);
    for bytes in [64, 300] {
        let flood = Offer { count: Some(30_000), ..offer(0.0, bytes, false) }.at(Rate::Max);
        let before = net.sent("a");
        let trial = trial(&mut tester, &flood);
        is_clean(&trial);
        // Frames by which bridges learn are sent, too.
        let frames = net.sent("a") - before;
        assert!((trial.result.sent..trial.result.sent + 100).contains(&frames), "{frames} {trial:?}");
    }
}

/// A port that is not read holds the frames that its ring has room for, and counts the rest in frames.
#[test]
fn a_port_that_overflows_counts_frames_where_the_kernel_cuts() {
    let Some(net) = with_bridge() else { return };
    net.run("ethtool -K a tx off > /dev/null");
    let mut tester = tester([None, None], &[]);
    let came = || -> u64 { net.output("cat /sys/class/net/b/statistics/rx_packets").trim().parse().unwrap() };
    let spec: Spec = "packet:b".parse().unwrap();
    let mut idle = open(&[spec], &Options::default()).unwrap().pop().unwrap();
    let before = came();
    // All are sent, however long that takes: more than the ring has room for.
    let duration = Duration::from_secs(60);
    let flood = Offer { count: Some(30_000), ..offer(0.0, 300, false) }.at(Rate::Max).lasting(duration);
    trial(&mut tester, &flood);
    let came = came() - before;
    let mut held = 0;
    loop {
        match idle.receive(256, |frame| Some(frame.buffer)).unwrap() {
            0 => break,
            more => held += more as u64,
        }
    }
    let missed = idle.counters().unwrap().missed.unwrap();
    assert!(missed > 0 && held + missed == came, "{held} held, {missed} missed of {came}");
}

#[test]
fn a_router_in_another_namespace() {
    let Some((net, router)) = Net::with_router() else { return };
    let name = router.name();
    net.enter();
    let places = format!("{name}/");
    let mut tester = tester([Some("198.18.0.254"), Some("198.19.0.254")], &[&places]);
    for (bytes, both) in [(64, false), (64, true), (512, true), (1518, false)] {
        let trial = trial(&mut tester, &offer(4000.0, bytes, both));
        is_clean(&trial);
        assert!(trial.interfaces.contains_key(&format!("{name}/rb")));
    }
    // A router without a route drops all frames.
    router.run("ip route add blackhole 198.19.0.2/32");
    let offer = offer(4000.0, 64, false);
    let outcome = tester.trial(&offer, &|| true).unwrap();
    let trial = document(&tester, &offer, &outcome).unwrap();
    assert_eq!(trial.learned, Some(false));
    assert_eq!((trial.fate.received, trial.fate.lost), (0, trial.result.sent));
    // The error names a next hop that does not exist, and no frame is sent.
    drop(tester);
    let mut tester = self::tester([Some("198.18.0.77"), Some("198.19.0.254")], &[]);
    let Err(silent) = tester.trial(&offer, &|| true) else { panic!("a trial with nobody") };
    assert!(silent.to_string().contains("packet:a: the router 198.18.0.77 does not answer"), "{silent}");
}

#[test]
fn a_mix_of_sizes_and_flows_through_a_bridge_with_vlans() {
    let Some(net) = with_bridge() else { return };
    // Tagged on one side; on the other side the bridge takes the tag out.
    let vlans = "ip link set dev br type bridge vlan_filtering 1 &&
         bridge vlan add dev pa vid 7 && bridge vlan add dev pb vid 7 pvid untagged && bridge vlan del dev pb vid 1";
    let ends = if net.can(vlans) { [Some(7), None] } else { [Some(7), Some(7)] };
    let mut tester = tester_of(["10.0.0.1-10.0.0.10", "10.1.0.1-10.1.0.5"], ends, [None, None], &[]);
    tester.flows = FlowPlan { sports: PortNumbers::from(49152, 2), ..FlowPlan::default() };
    let mix: Mix = "68:2,570:1,1518:1".parse().unwrap();
    for both in [false, true] {
        let trial = trial(&mut tester, &offer(4000.0, 68, both).with_sizes(mix.clone()));
        is_clean(&trial);
        assert_eq!(trial.environment.mix.as_ref().unwrap().name, "68:2,570:1,1518:1");
        for direction in &trial.directions {
            let flows = direction.flows.as_ref().unwrap();
            let few = direction.sent - direction.fate.received;
            assert!(flows.count == 100 && flows.silent <= flows.lossy, "{flows:?}");
            assert!(u64::from(flows.lossy) <= few && flows.worst.len() == 16, "{flows:?}");
            let bad = |flow: &&FlowCount| flow.frames.lost + flow.reordered > 0;
            assert!(flows.worst.iter().skip_while(bad).all(|flow| !bad(&flow)), "{flows:?}");
            let sizes: Vec<_> = direction.sizes.iter().map(|size| size.frame_bytes_with_fcs).collect();
            assert_eq!(sizes, [68, 570, 1518]);
            let sum = |of: fn(&SizeCount) -> u64| direction.sizes.iter().map(of).sum::<u64>();
            assert_eq!(
                (sum(|size| size.frames.sent), sum(|size| size.frames.received)),
                (direction.sent, direction.fate.received)
            );
            assert!(
                direction.sizes[0].frames.sent.abs_diff(2 * direction.sizes[1].frames.sent) <= 4,
                "{direction:?}"
            );
        }
        // 556 bytes and the gaps between frames, except for whole frames that were not sent.
        let (sent, frames) = (trial.sent_bps, trial.result.sent_pps);
        assert!((sent.l2 - frames * 556.0 * 8.0).abs() < 50.0, "{sent:?}");
        assert!((sent.l1 - sent.l2 - frames * 160.0).abs() < 50.0, "{sent:?}");
    }
    // A bridge that does not know the VLAN passes nothing.
    if ends[1].is_none() {
        net.run("bridge vlan del dev pa vid 7");
        let offer = offer(4000.0, 68, false);
        let outcome = tester.trial(&offer, &|| true).unwrap();
        assert!(outcome.learned == Some(false) && outcome.directions[0].received.arrived.received == 0);
        let trial = document(&tester, &offer, &outcome).unwrap();
        assert_eq!(trial.directions[0].flows.as_ref().unwrap().silent, 100);
    }
}

#[test]
fn ipv6_flows_through_a_router() {
    let Some((net, router)) = Net::with_router() else { return };
    let name = router.name();
    let set = "for all in all ra rb; do echo 0 > /proc/sys/net/ipv6/conf/$all/disable_ipv6; done &&
         echo 0 > /proc/sys/net/ipv6/conf/ra/accept_dad && echo 0 > /proc/sys/net/ipv6/conf/rb/accept_dad &&
         ip address add 2001:2:0:1::fe/64 dev ra nodad && ip address add 2001:2:0:2::fe/64 dev rb nodad &&
         echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
    if !router.can(set) {
        return skip::lacks("IPv6");
    }
    net.enter();
    let places = format!("{name}/");
    let ips = ["2001:2:0:1::1-2001:2:0:1::8", "2001:2:0:2::1-2001:2:0:2::8"];
    let gateways = [Some("2001:2:0:1::fe"), Some("2001:2:0:2::fe")];
    let mut tester = tester_of(ips, [None, None], gateways, &[&places]);
    await_routers(&mut tester);
    for (bytes, both) in [(84, false), (84, true), (1518, true)] {
        let trial = trial(&mut tester, &offer(4000.0, bytes, both));
        assert_eq!(
            (trial.fate.duplicated, trial.fate.reordered, trial.fate.corrupted),
            (Some(0), Some(0), Some(0)),
            "{trial:?}"
        );
        assert_eq!(trial.directions[0].flows.as_ref().unwrap().count, 64);
        assert!(trial.fate.received > 0 && trial.result.latency_ns.p50.is_some(), "{trial:?}");
        assert_eq!(trial.result.ledger.unexplained, 0, "{trial:?}");
    }
    let error = tester.trial(&offer(4000.0, 64, false), &|| true).err().unwrap();
    assert!(error.to_string().contains("84 B with IPv6"), "{error}");
    tester.flows.count = Some(65);
    let error = tester.trial(&offer(4000.0, 84, false), &|| true).err().unwrap();
    assert!(error.to_string().contains("65 flows"), "{error}");
}

/// Frames dropped by the root discipline of an interface, as `tc` shows them.
fn dropped_by_qdisc(net: &Net, interface: &str) -> u64 {
    let text = net.output(&format!("tc -s qdisc show dev {interface} root"));
    let (_, rest) = text.split_once("dropped ").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_queue_that_overflows_says_how_much() {
    let Some(net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    // 1 Mb/s carries 2000 frames of 60 B a second; 4 frames' worth of room.
    if !net.can("tc qdisc add dev pb root tbf rate 1mbit burst 1600 limit 300") {
        return skip::lacks("the queueing discipline tbf");
    }
    // A busy machine may send too few to fill it.
    until_undisturbed("the queue is full", || {
        let before = dropped_by_qdisc(&net, "pb");
        let trial = trial(&mut tester, &offer(8000.0, 64, false));
        assert_eq!(trial.result.ledger.unexplained, 0, "{trial:?}");
        // The learning frames went through, too, but met no full queue.
        let dropped = trial.result.ledger.dropped.get("pb tbf").copied().unwrap_or(0);
        assert_eq!(dropped, dropped_by_qdisc(&net, "pb") - before, "{trial:?}");
        assert_eq!(trial.fate.lost, dropped + places::backlog_of(&trial, ""), "{trial:?}");
        dropped > 0
    });
}

#[test]
fn a_short_burst_fits_a_queue_and_an_overload_is_over_when_it_ends() {
    let Some(net) = with_bridge() else { return };
    let tester = tester([None, None], &[]);
    // 10 Mb/s carry 20,000 frames of 60 B a second; there is room for 100 of them, and 26 more may go at
    // once.
    if !net.can("tc qdisc add dev pb root tbf rate 10mbit burst 1600 limit 6000") {
        return skip::lacks("the queueing discipline tbf");
    }
    let mut testbed =
        PortsTestbed { tester, drain: Duration::from_secs(3), bidirectional: false, mesh: None };
    let load = kpps_methods::Load::of(40_000.0, Size::MIN).lasting_ms(0, 250).with_seed(0);
    let mut burst = |frames| {
        let trial = testbed.burst_while(&load, frames, &|| true).unwrap();
        assert_eq!(trial.sent + trial.shortfall, frames, "no more, no less");
        assert_eq!(trial.ledger.unexplained, 0, "{trial:?}");
        (trial.sent, trial.ledger.dropped.get("pb tbf").copied().unwrap_or(0))
    };
    assert_eq!(burst(50).1, 0);
    // Of the frames sent in 100 ms, 2000 can go on, 126 more at most; another 400 if others have the CPUs for
    // 20 ms.
    let (sent, lost) = burst(4000);
    assert!(sent <= 2600 || lost >= sent - 2526, "{lost} of {sent}");
    until_undisturbed("the queue is emptied in time, and loses nothing after the overload", || {
        let (trial, recovery_s) = testbed.recovery_while(&load, 2000.0, &|| true).unwrap();
        assert_eq!(trial.sent + trial.shortfall, 10_500);
        assert!(trial.sent < 8000 || trial.sent > trial.delivered, "{} of {}", trial.delivered, trial.sent);
        // That of 250 ms at most.
        assert!((0.0..=0.25).contains(&recovery_s), "{recovery_s}");
        // A queue that is emptied ten times as fast as it is filled loses nothing more.
        trial.sent > trial.delivered && recovery_s < 0.1
    });
}

#[test]
fn an_end_in_the_middle_keeps_what_was_measured() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let gauges = tester.gauges();
    let offer = offer(2000.0, 64, false).lasting(Duration::from_secs(60));
    let too_little = || gauges.so_far().is_none_or(|(_, _, received)| received < 500);
    let outcome = tester.trial(&offer, &too_little).unwrap();
    let trial = document(&tester, &offer, &outcome).unwrap();
    assert!(!trial.complete && trial.result.seconds < 60.0, "{trial:?}");
    assert!(trial.fate.received >= 500 && trial.result.ledger.unexplained == 0, "{trial:?}");
    let due = 2000.0 * trial.result.seconds;
    assert!((trial.fate.intended as f64 - due).abs() <= 2.0, "only what was due until then: {due} {trial:?}");
}

#[test]
fn gaps_are_measured() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let offer = offer(4000.0, 64, true);
    let trial = trial(&mut tester, &offer);
    for direction in &trial.directions {
        let gaps = direction.gaps.unwrap();
        // A gap between every two that were sent.
        assert_eq!((gaps.count, gaps.intended_ns), (direction.sent - 1, Some(250_000.0)));
        assert!(gaps.within_10us.unwrap() <= gaps.count && gaps.p50_ns <= gaps.max_ns, "{gaps:?}");
    }
}

#[test]
fn a_trial_can_be_seen_while_it_goes_on() {
    let Some(net) = with_bridge() else { return };
    // A queue that holds nothing for long, and drops the rest.
    if !net.can("tc qdisc add dev pb root tbf rate 1mbit burst 1600 limit 300") {
        return skip::lacks("the queueing discipline tbf");
    }
    let mut tester = tester([None, None], &[]);
    let gauges = tester.gauges();
    let offer = offer(8000.0, 64, false).lasting(Duration::from_millis(500));
    until_undisturbed("sending, receiving and losing are seen under way", || {
        let seen = RefCell::new(Vec::new());
        let look = || {
            // Before the trial, while directions are learned, there is nothing to see.
            if gauges.can_change_rate() {
                seen.borrow_mut().push((gauges.so_far().unwrap(), gauges.dropped()));
            }
            true
        };
        let outcome = tester.trial(&offer, &look).unwrap();
        let way = &outcome.directions[0];
        let (sent, received) = (way.sent.frames, way.received.arrived.received);
        let lost = |dropped: &BTreeMap<String, u64>| dropped.get("pb tbf").copied().unwrap_or(0);
        let all = lost(&outcome.counted.accounts.explaining(u64::MAX).0);
        // At the end it equals the trial's value.
        let (elapsed, at_last, came) = gauges.so_far().unwrap();
        assert_eq!((at_last, came), (sent, received));
        assert!(elapsed >= offer.load.duration, "{elapsed:?}");
        let seen = seen.into_inner();
        for ((_, so_far, came), dropped) in &seen {
            assert!(*so_far <= sent && *came <= received && lost(dropped) <= all, "{seen:?}");
        }
        let part = |count: u64, of: u64| count > of / 10 && count < of * 9 / 10;
        seen.iter().any(|((_, count, _), _)| part(*count, sent))
            && seen.iter().any(|((_, _, count), _)| part(*count, received))
            && seen.iter().any(|(_, dropped)| part(lost(dropped), all))
            && all > sent / 2
    });
}

#[test]
fn a_load_above_line_rate_is_refused() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    // The kernel says that veths have 10 Gb/s.
    assert_eq!(tester.speed_mbps(), Some(10_000));
    let error = tester.trial(&offer(15e6, 64, false), &|| true).err().unwrap();
    assert!(error.to_string().contains("14880952"), "{error}");
}
