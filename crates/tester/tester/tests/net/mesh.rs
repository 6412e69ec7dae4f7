//! Trials of more than two ports, through the kernel's bridge.

use super::streams::{Ends, until};
use kpps_documents::detail::{DetailedTrial, Direction};
use kpps_frames::{Encap, Mix, Size};
use kpps_namespaces::{Net, skip};
use kpps_ports::Spec;
use kpps_ports::port::run::Late;
use kpps_ports::port::{Options, open};
use kpps_tester::{
    Address, Offer, RingForm, Stream, StreamControl, StreamNow, Tester, document, full_mesh, parse_streams,
    received_of, streams_pps,
};
use std::sync::Arc;
use std::time::Duration;

/// A bridge between the ports `a`, `b` and so on, in a namespace that this thread works in from now on, and a
/// tester of these ports.
fn with_bridge(ports: u8) -> Option<(Net, Tester)> {
    let net = Net::with_bridge_of_ports(ports)?;
    net.enter();
    let names = ["a", "b", "c", "d"].into_iter().take(ports.into());
    let specs: Vec<Spec> = names.map(|name| format!("packet:{name}").parse().unwrap()).collect();
    let open = open(&specs, &Options::default()).unwrap();
    let address = |port: u8| Address {
        ips: format!("198.18.{port}.2").parse().unwrap(),
        gateway: None,
        to: None,
        encap: Encap::default(),
    };
    let addresses: Vec<_> = (1..=ports).map(address).collect();
    let tester = Tester::new(specs, open, addresses, &[]).unwrap();
    Some((net, tester))
}

/// A load of these streams.
fn offer_of(tester: &mut Tester, streams: Vec<Stream>, pps: Option<f64>) -> Offer {
    let pps = pps.unwrap_or_else(|| streams_pps(&streams));
    tester.streams = streams.into();
    Offer { streams: tester.streams.clone(), ..super::offer(pps, 64, false) }
}

/// The direction between two ports.
fn direction<'t>(trial: &'t DetailedTrial, from: &str, to: &str) -> &'t Direction {
    let is_it = |it: &&Direction| it.from == format!("packet:{from}") && it.to == format!("packet:{to}");
    trial.directions.iter().find(is_it).unwrap()
}

/// The trial's count of an interface.
fn count(trial: &DetailedTrial, interface: &str, counter: &str) -> u64 {
    trial.interfaces[interface].get(counter).copied().unwrap_or(0)
}

/// The sums of the directions are those of the trial, and frames of a direction are those of its streams.
fn adds_up(trial: &DetailedTrial) {
    let sum = |of: fn(&Direction) -> u64| trial.directions.iter().map(of).sum::<u64>();
    let whole = &trial.result;
    assert_eq!((sum(|it| it.sent), sum(|it| it.shortfall)), (whole.sent, whole.shortfall), "{trial:?}");
    assert_eq!(sum(|it| it.fate.intended), trial.fate.intended);
    assert_eq!(sum(|it| it.fate.received), trial.fate.received);
    assert_eq!(sum(|it| it.fate.lost), trial.fate.lost + whole.overflow.unwrap(), "{trial:?}");
    for it in &trial.directions {
        assert_eq!(it.streams.iter().map(|stream| stream.frames.sent).sum::<u64>(), it.sent, "{it:?}");
        assert_eq!(it.streams.iter().map(|stream| stream.frames.received).sum::<u64>(), it.fate.received);
    }
}

/// Each port sends to all others, each direction has its frames, and the interfaces count the same.
#[test]
fn a_full_mesh_is_counted_in_each_direction() {
    for (ports, sizes) in [(3, "64"), (4, "64:3,200:1")] {
        let Some((_net, mut tester)) = with_bridge(ports) else { return };
        let streams = full_mesh(ports.into(), &sizes.parse::<Mix>().unwrap(), true);
        let offer = offer_of(&mut tester, streams, Some(3000.0));
        let trial = super::trial(&mut tester, &offer);
        super::is_clean(&trial);
        adds_up(&trial);
        super::came_through(&trial);
        let others = u64::from(ports) - 1;
        assert_eq!(trial.directions.len() as u64, u64::from(ports) * others);
        // 3000 frames a second for a quarter of a second, in turn to each of the others.
        let due = trial.directions.iter().map(|it| it.fate.intended).collect::<Vec<_>>();
        assert!(trial.result.shortfall > 0 || due.iter().all(|due| *due == 750 / others), "{due:?}");
        assert_eq!(trial.fate.intended, 750 * u64::from(ports));
        for name in ["a", "b", "c", "d"].into_iter().take(ports.into()) {
            let port = format!("packet:{name}");
            let of = |is_it: fn(&Direction) -> &String, frames: fn(&Direction) -> u64| -> u64 {
                trial.directions.iter().filter(|it| *is_it(it) == port).map(frames).sum()
            };
            assert_eq!(count(&trial, name, "tx_packets"), of(|it| &it.from, |it| it.sent), "{trial:?}");
            let arrived = of(|it| &it.to, |it| it.fate.received);
            let came = count(&trial, name, "rx_packets");
            assert!(came == arrived || came > arrived && trial.result.overflow != Some(0), "{trial:?}");
        }
        // The gaps are those between all frames of a port.
        let gaps = trial.directions.iter().filter_map(|it| it.gaps).map(|gaps| gaps.count);
        assert_eq!(gaps.count(), usize::from(ports));
    }
}

/// A narrow exit of the bridge: its drops are attributed to it, and only directions to its port lose frames.
#[test]
fn a_narrow_exit_takes_frames_of_the_directions_to_it_only() {
    let Some((net, mut tester)) = with_bridge(3) else { return };
    // 64 B are 60 B for tbf: about 500 frames a second.
    net.run("tc qdisc add dev pc root tbf rate 240kbit burst 2000 limit 3000");
    let streams = full_mesh(3, &Mix::fixed(Size::MIN), true);
    let offer = offer_of(&mut tester, streams, Some(2000.0));
    let trial = super::trial(&mut tester, &offer);
    super::is_clean(&trial);
    adds_up(&trial);
    let dropped = trial.result.ledger.dropped.get("pc tbf").copied().unwrap_or(0);
    assert!(dropped > 50 && dropped == count(&trial, "pc", "tbf drops"), "{trial:?}");
    let backlog = super::places::backlog_of(&trial, "");
    assert_eq!(trial.fate.lost, dropped + backlog, "{trial:?}");
    let lost = |to: &str| -> u64 {
        trial.directions.iter().filter(|it| it.to == format!("packet:{to}")).map(|it| it.fate.lost).sum()
    };
    assert!(lost("a") + lost("b") <= backlog && lost("c") >= dropped, "{trial:?}");
    assert!(direction(&trial, "a", "c").fate.lost > 0 && direction(&trial, "b", "c").fate.lost > 0);
}

/// Two streams to one port are too much for its exit; a third one to another port is not.
#[test]
fn two_senders_overload_one_receiver() {
    let Some((net, mut tester)) = with_bridge(3) else { return };
    net.run("tc qdisc add dev pc root tbf rate 480kbit burst 2000 limit 3000");
    let text = r#"
        [[stream]]
        load = "900pps"
        to = 3
        [[stream]]
        load = "600pps"
        from = 2
        to = 3
        copies = 2
        each = { "udp.sport" = "1000-1001" }
        [[stream]]
        load = "1kpps"
        from = 3
        to = 1
    "#;
    let streams = parse_streams(text, 3).unwrap();
    let offer = offer_of(&mut tester, streams, None);
    let trial = super::trial(&mut tester, &offer);
    super::is_clean(&trial);
    adds_up(&trial);
    let (one, two) = (direction(&trial, "a", "c"), direction(&trial, "b", "c"));
    assert_eq!((trial.directions.len(), one.fate.intended, two.fate.intended), (3, 225, 300));
    let dropped = trial.result.ledger.dropped.get("pc tbf").copied().unwrap_or(0);
    assert_eq!(dropped, count(&trial, "pc", "tbf drops"));
    assert!(one.fate.lost > 0 && two.fate.lost > 0 && dropped > 50, "{trial:?}");
    let backlog = super::places::backlog_of(&trial, "");
    assert_eq!(one.fate.lost + two.fate.lost + direction(&trial, "c", "a").fate.lost, dropped + backlog);
}

/// A rule that drops the frames from one port to another one takes those of that direction only.
#[test]
fn a_rule_for_one_direction_takes_its_frames_only() {
    let Some((net, mut tester)) = with_bridge(4) else { return };
    let rule = "nft 'add table bridge f; add chain bridge f c { type filter hook forward priority 0; }; \
        add rule bridge f c ip saddr 198.18.2.2 ip daddr 198.18.4.2 drop'";
    if !net.can(rule) {
        return skip::lacks("the kernel's packet filter, or nft");
    }
    let offer = offer_of(&mut tester, full_mesh(4, &Mix::fixed(Size::MIN), true), Some(2000.0));
    let outcome = tester.trial(&offer, &|| true).unwrap();
    let trial = document(&tester, &offer, &outcome).unwrap();
    assert_eq!(trial.learned, Some(false), "learning frames do not pass, either");
    adds_up(&trial);
    let gone = direction(&trial, "b", "d");
    assert!(gone.sent > 0 && gone.fate.received == 0, "{gone:?}");
    let backlog = super::places::backlog_of(&trial, "");
    assert_eq!(trial.fate.lost - gone.fate.lost, backlog, "{trial:?}");
    // A kernel that does not report its drops has no counter of such a rule.
    if !trial.environment.system.contains_key("drop reasons") {
        assert_eq!(trial.result.ledger.unexplained, 0, "{trial:?}");
    }
}

/// Streams of a mesh are started and stopped one by one. Others are added while they are sent, from a port
/// and in a direction without any before. Each has its own counts, and the interfaces count the same.
#[test]
fn streams_of_a_mesh_are_controlled_one_by_one() {
    let Some((_net, mut tester)) = with_bridge(3) else { return };
    let text = r#"
        [[stream]]
        load = "1kpps"
        to = 2
        [[stream]]
        load = "500pps"
        to = 3
        [[stream]]
        load = "2kpps"
        count = 70
        from = 2
        to = 3
    "#;
    let streams = parse_streams(text, 3).unwrap();
    let added = [(2, 0), (0, 1), (2, 1)].map(|(from, to)| Stream {
        name: format!("from {from} to {to}"),
        from,
        to,
        ..streams[2].clone()
    });
    let offer = offer_of(&mut tester, streams, None).lasting(Duration::from_secs(600));
    let control = Arc::new(StreamControl::new(3, &offer.streams, true));
    let offer = Offer { late: Late::Send, control: Some(control.clone()), ..offer };
    let (outcome, halted) = std::thread::scope(|scope| {
        let trial = scope.spawn(|| tester.trial(&offer, &|| true).unwrap());
        // Whatever this thread finds, the trial ends.
        let end = Ends(&control);
        let quiet = control.snapshot();
        assert!(quiet.iter().all(|stream| stream.sent == 0 && !stream.is_sending), "{quiet:?}");
        control.start(&[0, 1]);
        until(&control, "sending", &|now| now[0].received > 50 && now[1].received > 50);
        control.start(&[2]);
        until(&control, "through", &|now| now[2].received == 70 && !now[2].is_sending);
        let places = added.each_ref().map(|stream| control.add(stream).unwrap());
        assert_eq!(places, [3, 4, 5]);
        let now = control.snapshot();
        assert!(now.len() == 6 && now[3..].iter().all(|stream| stream.sent == 0), "{now:?}");
        control.start(&places[..2]);
        let is_through = |of: &StreamNow, frames| of.received == frames && !of.is_sending;
        until(&control, "added", &|now| now[3..5].iter().all(|it| is_through(it, 70)));
        control.stop(&[1]);
        let halted = until(&control, "stopped", &|now| is_through(&now[1], now[1].sent));
        until(&control, "going on", &|now| now[0].received > halted[0].received + 100);
        control.start(&[2, 5]);
        until(&control, "through again", &|now| is_through(&now[2], 140) && is_through(&now[5], 70));
        drop(end);
        (trial.join().unwrap(), halted)
    });
    let offer = offer.with_added();
    let trial = document(&tester, &offer, &outcome).unwrap();
    assert!(trial.complete && trial.result.seconds < 600.0, "{trial:#?}");
    adds_up(&trial);
    assert_eq!(trial.fate.lost, 0, "{trial:?}");
    let ways: Vec<_> =
        trial.directions.iter().map(|it| (&it.from[7..], &it.to[7..], it.streams.len())).collect();
    let expected = [("a", "b", 2), ("a", "c", 1), ("b", "c", 1), ("c", "a", 1), ("c", "b", 1)];
    assert_eq!(ways, expected);
    let sent = |from, to| direction(&trial, from, to).sent;
    assert_eq!(sent("a", "c"), halted[1].sent, "{trial:#?}");
    assert_eq!([sent("b", "c"), sent("c", "a"), sent("c", "b")], [140, 70, 70]);
    for port in ["a", "b", "c"] {
        let of_port = trial.directions.iter().filter(|it| it.from.ends_with(port));
        assert_eq!(count(&trial, port, "tx_packets"), of_port.map(|it| it.sent).sum::<u64>(), "{trial:?}");
    }
    // Frames that a sender left out are those of their own streams.
    for it in &trial.directions {
        let due = it.fate.intended;
        assert!(due >= it.sent && (it.from.ends_with('a') || due == it.sent), "{it:?}");
    }
}

/// A port of a mesh keeps all frames that it receives and sends.
#[test]
fn a_port_of_a_mesh_is_captured() {
    let Some((_net, mut tester)) = with_bridge(3) else { return };
    let streams = full_mesh(3, &Mix::fixed(Size::MIN), true);
    let offer = offer_of(&mut tester, streams, Some(400.0));
    let form = RingForm { ring_bytes: 1 << 20, frame_bytes: None };
    tester.captures = [(2, form)].into();
    let outcome = tester.trial(&offer, &|| true).unwrap();
    let trial = document(&tester, &offer, &outcome).unwrap();
    super::came_through(&trial);
    assert_eq!(outcome.captured.keys().collect::<Vec<_>>(), [&2]);
    let file = received_of("c", &outcome.captured[&2], false).unwrap();
    let mut senders = [0, 0];
    for frame in kpps_frames::capture::Capture::new(&file[..]).unwrap() {
        let frame = frame.unwrap().bytes;
        // From port 1 or 2, to port 3.
        if let [198, 18, from @ 1..=2, 2, 198, 18, 3, 2] = frame[26..34] {
            assert_eq!(frame.len(), 60);
            senders[usize::from(from) - 1] += 1;
        }
    }
    let received = |from| direction(&trial, from, "c").fate.received;
    assert_eq!(senders, [received("a"), received("b")], "{trial:?}");
}

/// Results that only two ports have, and streams between ports that do not exist, are refused before a frame
/// is sent.
#[test]
fn more_ports_refuse_what_two_do() {
    let Some((_net, mut tester)) = with_bridge(3) else { return };
    let mesh = full_mesh(3, &Mix::fixed(Size::MIN), true);
    let good = offer_of(&mut tester, mesh.clone(), Some(1000.0));
    let mut says = |offer: Offer| tester.trial(&offer, &|| true).err().unwrap().to_string();
    let every = Some(std::time::Duration::from_millis(100));
    for (offer, said) in [
        (Offer { every, ..good.clone() }, "a result of each interval is not possible between more than two"),
        (Offer { keep: true, ..good.clone() }, "a file of frames with anomalies is not"),
        (Offer { streams: [].into(), ..good.clone() }, "a load without streams is not"),
    ] {
        let why = says(offer);
        assert!(why.starts_with(said) && !why.contains('\n'), "{why}");
    }
    for (from, to) in [(0, 3), (1, 1)] {
        let stream = Stream { from, to, ..mesh[0].clone() };
        let why = says(Offer { streams: [stream].into(), ..good.clone() });
        assert!(
            why.contains(&format!("from port {} to port {}, and there are 3 ports", from + 1, to + 1)),
            "{why}"
        );
    }
}
