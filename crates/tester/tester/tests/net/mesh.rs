//! Trials of more than two ports, through the kernel's bridge.

use kpps_documents::detail::{DetailedTrial, Direction};
use kpps_frames::{Encap, Mix, Size};
use kpps_namespaces::{Net, skip};
use kpps_ports::Spec;
use kpps_ports::port::{Options, open};
use kpps_tester::{Address, Offer, Stream, Tester, document, full_mesh, parse_streams, streams_pps};

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
