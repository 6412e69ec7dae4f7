//! Ports on two cores: each frame is sent by one core and received by one, and the results are those of one.

use super::{IPV6, Tester, is_clean, offer, places, tester_on, trial, with_bridge};
use kpps_documents::detail::DetailedTrial;
use kpps_documents::queues::QueueChoice;
use kpps_frames::flows::PortNumbers;
use kpps_frames::rate::Rate;
use kpps_namespaces::Net;
use kpps_tester::{FlowPlan, Offer, parse_streams, streams_pps};

const IPS: [&str; 2] = ["198.18.0.1", "198.19.0.2"];

/// Ports of this kind on two cores, with eight flows.
fn tester(kind: &str, ips: [&str; 2]) -> Tester {
    let ports = ["a", "b"].map(|end| format!("{kind}:{end}"));
    let ports = [ports[0].as_str(), ports[1].as_str()];
    let mut tester = tester_on(ports, 2, (ips, [None, None]), [None, None], &[]);
    tester.flows = FlowPlan { sports: PortNumbers::from(49152, 8), ..FlowPlan::default() };
    tester
}

/// The counts of the cores add up to those of the direction.
fn cores_add_up(trial: &DetailedTrial) {
    for way in &trial.directions {
        assert_eq!(way.cores.len(), 2, "{way:#?}");
        assert_eq!(way.cores.iter().map(|core| core.sent).sum::<u64>(), way.sent, "{way:#?}");
        assert_eq!(way.cores.iter().map(|core| core.shortfall).sum::<u64>(), way.shortfall, "{way:#?}");
        assert_eq!(way.cores.iter().map(|core| core.received).sum::<u64>(), way.fate.received, "{way:#?}");
        assert!(way.cores.iter().all(|core| core.sent > 0), "{way:#?}");
    }
}

/// Frames that an interface has sent and received.
fn counters(net: &Net, interface: &str) -> [u64; 2] {
    ["tx", "rx"].map(|way| {
        let file = format!("cat /sys/class/net/{interface}/statistics/{way}_packets");
        net.output(&file).trim().parse().unwrap()
    })
}

#[test]
fn two_cores_send_and_receive_each_frame_once() {
    let Some(net) = with_bridge() else { return };
    for ips in [IPS, IPV6] {
        let mut tester = tester("packet", ips);
        for both in [false, true] {
            let before = ["a", "b"].map(|end| counters(&net, end));
            let trial = trial(&mut tester, &offer(8000.0, 128, both));
            let after = ["a", "b"].map(|end| counters(&net, end));
            assert_eq!(trial.fate.intended, if both { 4000 } else { 2000 }, "{trial:#?}");
            is_clean(&trial);
            cores_add_up(&trial);
            assert_eq!(trial.fate.lost, places::backlog_of(&trial, ""), "{trial:#?}");
            // Learning frames and questions come on top.
            let sent = after[0][0] - before[0][0];
            assert!(
                (trial.directions[0].sent..trial.directions[0].sent + 100).contains(&sent),
                "{sent} {trial:#?}"
            );
            let flows = trial.directions[0].flows.as_ref().unwrap();
            assert_eq!((flows.count, flows.silent), (8, 0), "{trial:#?}");
        }
    }
}

/// All cores have one beginning: the intervals have as many due frames as those of one core, and the gaps are
/// those of the whole schedule.
#[test]
fn two_cores_have_the_times_of_one() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester("packet", IPS);
    let every = Some(std::time::Duration::from_millis(50));
    let trial = trial(&mut tester, &Offer { every, ..offer(8000.0, 128, false) });
    let intervals = &trial.directions[0].series;
    let whole = intervals.iter().filter(|it| (it.seconds - 0.05).abs() < 1e-6);
    assert!(whole.clone().count() >= 3, "{trial:#?}");
    assert!(whole.clone().all(|it| it.intended.abs_diff(400) <= 1), "{intervals:#?}");
    let way = &trial.directions[0];
    let gaps = way.gaps.unwrap();
    assert_eq!((gaps.count, gaps.intended_ns), (way.sent - 1, Some(125_000.0)), "{trial:#?}");
    let of_cores = way.cores.iter().map(|core| core.gaps.unwrap());
    assert!(of_cores.clone().all(|gaps| gaps.p50_ns > 200_000), "{trial:#?}");
    assert_eq!(of_cores.map(|gaps| gaps.count).sum::<u64>(), way.sent - 2, "{trial:#?}");
}

/// As many frames as the ports take.
#[test]
fn a_flood_on_two_cores_is_accounted_for() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester("packet", IPS);
    let offer = offer(1.0, 64, false).at(Rate::Max);
    let trial = trial(&mut tester, &offer);
    cores_add_up(&trial);
    assert_eq!(trial.fate.reordered, Some(0), "{trial:#?}");
    assert_eq!((trial.fate.duplicated, trial.fate.corrupted), (Some(0), Some(0)), "{trial:#?}");
    assert_eq!(trial.result.ledger.unexplained, 0, "{trial:#?}");
}

/// A count of frames is exact in sum.
#[test]
fn a_count_on_two_cores_is_exact() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester("packet", IPS);
    let offer = Offer { count: Some(1001), ..offer(20_000.0, 64, false) };
    let trial = trial(&mut tester, &offer);
    assert_eq!(trial.fate.intended, 1001, "{trial:#?}");
    cores_add_up(&trial);
}

/// The kernel's filter drops one flow of eight: that flow has lost all of its frames, and the others none.
#[test]
fn a_filter_that_drops_one_flow_is_seen_in_that_flow_only() {
    let Some(net) = with_bridge() else { return };
    let mut tester = tester("packet", IPS);
    net.run(
        "nft 'add table bridge f; add chain bridge f c { type filter hook forward priority 0; }; \
         add rule bridge f c udp sport 49155 counter drop'",
    );
    let mut offer = offer(8000.0, 64, false);
    offer.drain = std::time::Duration::from_secs(1);
    // Learning frames of this flow do not come through.
    let outcome = tester.trial(&offer, &|| true).unwrap();
    let trial = kpps_tester::document(&tester, &offer, &outcome).unwrap();
    let flows = trial.directions[0].flows.as_ref().unwrap();
    let dropped = &flows.worst[0];
    assert!(dropped.flow.contains("49155"), "{trial:#?}");
    assert!(dropped.frames.sent >= 200 && dropped.frames.received == 0, "{trial:#?}");
    let elsewhere = trial.fate.lost - dropped.frames.lost;
    assert_eq!(elsewhere, places::backlog_of(&trial, ""), "{trial:#?}");
    assert_eq!(trial.result.ledger.unexplained, 0, "{trial:#?}");
    assert_eq!(trial.fate.reordered, Some(0), "{trial:#?}");
    cores_add_up(&trial);
}

/// Streams take turns.
#[test]
fn streams_are_sent_by_the_cores_in_turn() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester("packet", IPS);
    tester.streams = parse_streams(
        r#"
        [[stream]]
        load = "4kpps"
        fields = { "udp.sport" = "1000-1009" }
        [[stream]]
        load = "2kpps"
        size = "imix-csit"
        [[stream]]
        load = "1kpps"
        start = "50ms"
        duration = "100ms"
        [[stream]]
        load = "1kpps"
        from = 2
        [[stream]]
        load = "1kpps"
        from = 2
        "#,
        2,
    )
    .unwrap()
    .into();
    let pps = streams_pps(&tester.streams);
    let offer = Offer { streams: tester.streams.clone(), ..offer(pps, 64, false) };
    let trial = trial(&mut tester, &offer);
    cores_add_up(&trial);
    is_clean(&trial);
    assert_eq!(trial.fate.intended, 1000 + 500 + 100 + 250 + 250, "{trial:#?}");
    for way in &trial.directions {
        let sum =
            |of: fn(&kpps_documents::detail::StreamCount) -> u64| way.streams.iter().map(of).sum::<u64>();
        assert_eq!(sum(|it| it.frames.sent), way.sent, "{way:#?}");
        assert_eq!(sum(|it| it.frames.received), way.fate.received, "{way:#?}");
        let turns = way.streams.iter().step_by(2).map(|it| it.frames.sent).sum::<u64>();
        assert_eq!(way.cores[0].sent, turns, "{way:#?}");
    }
}

/// Each core has a queue, through which it also sends.
#[test]
fn two_cores_have_a_queue_each() {
    let Some(net) = Net::with_bridge_of_queues(2) else { return };
    net.enter();
    let mut tester = tester("xdp", IPS);
    let trial = trial(&mut tester, &offer(8000.0, 128, true));
    cores_add_up(&trial);
    assert_eq!(trial.fate.intended, 4000, "{trial:#?}");
    assert_eq!(trial.result.ledger.unexplained, 0, "{trial:#?}");
    assert_eq!((trial.fate.duplicated, trial.fate.corrupted), (Some(0), Some(0)), "{trial:#?}");
}

/// Ports on several cores refuse offers that they cannot do.
#[test]
fn what_several_cores_cannot_do_is_refused() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester("packet", IPS);
    let keep = Offer { keep: true, ..offer(1000.0, 64, false) };
    let said = tester.trial(&keep, &|| true).err().unwrap().to_string();
    assert!(said.contains("not possible on several cores"), "{said}");
    drop(tester);
    for (spec, why) in
        [("udp:127.0.0.1:9", "has one core"), ("xdp:a:0", "has one core"), ("xdp:a", "receive queues")]
    {
        let specs = [spec.parse().unwrap()];
        let options = kpps_ports::port::Options { cores: 2, ..Default::default() };
        let said = kpps_ports::port::open(&specs, &options).err().unwrap().to_string();
        assert!(said.contains(why) && !said.contains('\n'), "{said}");
    }
}

/// Two interfaces with two queues each, and nothing that spreads flows over them by a hash that they report.
fn with_queues() -> Option<Net> {
    let net = Net::new()?;
    net.run(
        "ip link add name a numtxqueues 2 numrxqueues 2 type veth peer name b numtxqueues 2 numrxqueues 2",
    );
    for end in ["a", "b"] {
        net.run(&format!("ethtool -L {end} rx 2 tx 2"));
        net.run(&format!("ip link set dev {end} arp off up"));
    }
    net.enter();
    Some(net)
}

/// The frames of each queue are counted, and the queues that its driver does not report are not guessed.
#[test]
fn a_queue_that_the_driver_does_not_report_is_unknown() {
    let Some(_net) = with_queues() else { return };
    let mut tester = tester("xdp", IPS);
    let trial = trial(&mut tester, &offer(4000.0, 64, false));
    let way = &trial.directions[0];
    let queues = way.queues.as_ref().unwrap();
    assert_eq!((queues.by, queues.unknown_flows, queues.flows_elsewhere), (QueueChoice::Hash, 8, 0));
    assert!(queues.unknown.as_ref().unwrap().contains("no table of queues"), "{queues:#?}");
    for (core, row) in way.cores.iter().zip(&queues.each) {
        assert_eq!((row.flows, row.sent, row.lost, row.of_others), (0, 0, 0, 0), "{queues:#?}");
        assert_eq!((row.read, row.of_unknown), (true, core.received), "{queues:#?}");
    }
    assert!(trial.fate.received > 0, "{trial:#?}");
}

#[test]
fn flows_are_not_steered_where_the_interface_has_no_rules() {
    let Some(_net) = with_queues() else { return };
    for (kind, why) in [("xdp", "its driver has no rules"), ("packet", "only AF_XDP ports of this host")] {
        let mut tester = tester(kind, IPS);
        tester.steer = true;
        let Err(error) = tester.trial(&offer(4000.0, 64, false), &|| true) else { panic!("{kind}") };
        let line = error.to_string();
        assert!(line.contains(&format!("{kind}:b: flows cannot be steered")) && line.contains(why), "{line}");
    }
}
