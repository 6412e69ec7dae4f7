//! Counters of drops, compared with the kernel's own record of the frames that it dropped.
//!
//! A counter also counts other traffic, and some places have none: a rule of a firewall, a blackhole route.
//! The kernel's record is of the trial's frames only, with reason and function. So of a counter, only as many
//! drops are certain as the record has for its place. Drops in the record that no counter has are places of
//! their own.
//!
//! Behind a packet socket, which got the frame before, a drop may be one of a copy: neither counter nor
//! record is certain there.
//!
//! Two losses are possible, but not certain: frames that a counter has beyond the record (an old kernel does
//! not record each drop), and frames that the record has beyond the counters (the dropped packet may be a
//! copy of a frame that arrives).

use super::{Accounts, Counter, Known, MISSED, PortCount, Read, missed};
use crate::accounting::observe::{Interface, KernelDrop, KernelDrops, Observation};
use std::collections::BTreeMap;

/// Reasons that disciplines give, or beginnings of them.
const DISCIPLINES: [&str; 4] = ["QDISC", "CAKE", "FQ_", "DUALPI2"];
/// Functions, or parts of their names, that drop for disciplines where a kernel gives no reason.
const QUEUEING: [&str; 4] = ["__dev_xmit_skb", "__dev_queue_xmit", "codel", "qdisc"];

/// Which reason each counter of IP has.
const IP: [(&str, &str); 10] = [
    ("conntrack table full", "NETFILTER_DROP"),
    ("conntrack insert failed", "NETFILTER_DROP"),
    ("InHdrErrors", "IP_INHDR"),
    ("InHdrErrors", "IP_CSUM"),
    ("InAddrErrors", "IP_INADDRERRORS"),
    ("InNoRoutes", "IP_INNOROUTES"),
    ("OutNoRoutes", "IP_OUTNOROUTES"),
    ("InUnknownProtos", "IP_NOPROTO"),
    ("FragFails", "PKT_TOO_BIG"),
    ("IPReversePathFilter", "IP_RPFILTER"),
];

/// Whether the counter counts the kernel's drops there. `ports` are those of the tester by interface.
fn counts(known: &Known, drop: &KernelDrop, ports: &BTreeMap<&str, &str>) -> bool {
    let reason = drop.reason.as_str();
    let function = drop.function.as_deref().unwrap_or_default();
    let here = known.at == drop.at;
    match &known.counter {
        Counter::Discipline(_) => {
            here && (DISCIPLINES.iter().any(|it| reason.starts_with(it))
                || reason == "NOT_SPECIFIED" && QUEUEING.iter().any(|it| function.contains(it)))
        }
        Counter::Ingress(_) => here && reason == "TC_INGRESS",
        Counter::Backlog => here && reason == "CPU_BACKLOG",
        Counter::Interface("rx_otherhost_dropped") => here && reason == "OTHERHOST",
        Counter::Interface(counter) | Counter::Software(counter) if counter.starts_with("rx_") => {
            here && (reason == "UNHANDLED_PROTO" || reason == "XDP" || reason == "CPU_BACKLOG")
        }
        Counter::Interface(_) | Counter::Software(_) => here && function.contains("xmit"),
        Counter::Ip(counter) => {
            known.at == drop.namespace().unwrap_or_default() && IP.contains(&(&**counter, reason))
        }
        // The app's sockets got them; the kernel's record has none of these.
        Counter::App(_) => false,
        Counter::Port(name) => {
            *name == MISSED && drop.at_packet_socket && ports.get(&*drop.at).copied() == Some(&known.at)
        }
    }
}

/// Puts what counters say into the accounts.
pub(super) fn compare(
    read: Read,
    drops: Option<&KernelDrops>,
    ports: &[PortCount],
    after: &Observation,
    accounts: &mut Accounts,
) {
    let Read { known, mut left, .. } = read;
    let put = |to: &mut BTreeMap<String, u64>, place: &Known, frames: u64| {
        if frames > 0 {
            *to.entry(place.to_string()).or_insert(0) += frames;
        }
    };
    let Some(drops) = drops else {
        for known in known {
            match known.counts_others() {
                _ if known.copied => put(&mut accounts.copies, &known, known.frames),
                true => accounts.possible.push((known.to_string(), known.frames)),
                false => put(&mut accounts.dropped, &known, known.frames),
            }
        }
        return;
    };
    let by_interface: BTreeMap<&str, &str> =
        ports.iter().filter_map(|port| Some((port.interface.as_deref()?, &*port.port))).collect();
    let mut drops: Vec<(&KernelDrop, u64)> = drops.iter().collect();
    for known in known {
        let mut unseen = known.frames;
        for (drop, frames) in &mut drops {
            if counts(&known, drop, &by_interface) {
                let seen = unseen.min(*frames);
                unseen -= seen;
                *frames -= seen;
            }
        }
        match &known.counter {
            // It may have lost frames of others.
            Counter::App(_) => {
                accounts.possible.push((known.to_string(), known.frames));
                continue;
            }
            _ if known.copied => {
                put(&mut accounts.copies, &known, known.frames - unseen);
                continue;
            }
            _ => {}
        }
        let sure = if known.counts_others() { known.frames - unseen } else { known.frames };
        put(&mut accounts.dropped, &known, sure);
        put(&mut accounts.excess, &known, known.frames - sure);
    }
    let mut more = Vec::new();
    for (drop, frames) in drops {
        // A frame that the sender was refused and has sent again is not lost; backlogs are all counted.
        let most = left.get_mut(&drop.at);
        let counted = drop.reason == "CPU_BACKLOG" && is_observed(after, drop);
        let frames = if counted { 0 } else { frames.min(most.as_deref().copied().unwrap_or(frames)) };
        if let Some(most) = most {
            *most -= frames;
        }
        let place = match by_interface.get(&*drop.at).filter(|_| drop.at_packet_socket) {
            Some(port) => missed(port),
            None => drop.to_string(),
        };
        if is_behind_socket(after, drop) {
            *accounts.copies.entry(place).or_insert(0) += frames;
        } else {
            more.push((place, frames));
        }
    }
    // The largest first: a copy is dropped here and there, a loss is where most end.
    more.sort_by(|(one, few), (other, many)| many.cmp(few).then_with(|| one.cmp(other)));
    accounts.possible.extend(more.into_iter().filter(|(_, frames)| *frames > 0));
}

fn is_observed(observation: &Observation, drop: &KernelDrop) -> bool {
    interface(observation, drop).is_some()
}

/// The interface of a drop, if it is observed.
fn interface<'o>(observation: &'o Observation, drop: &KernelDrop) -> Option<&'o Interface> {
    let (namespace, interface) = match drop.at.split_once('/') {
        Some((namespace, interface)) => (Some(namespace.to_owned()), interface),
        None => (None, &*drop.at),
    };
    observation.namespaces.get(&namespace)?.interfaces.iter().find(|it| it.name == interface)
}

/// Whether a packet socket of others got the frame before it was dropped: not if a queue had no room for it.
fn is_behind_socket(observation: &Observation, drop: &KernelDrop) -> bool {
    let queued = DISCIPLINES.iter().any(|it| drop.reason.starts_with(it)) || drop.reason == "CPU_BACKLOG";
    !queued && drop.namespace().is_some() && interface(observation, drop).is_some_and(|it| it.has_socket)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::account;
    use super::*;
    use crate::accounting::observe::{Namespace, Qdisc};

    fn drop(at: &str, reason: &str, function: &str) -> KernelDrop {
        let at_packet_socket = function == "tpacket_rcv";
        let (at, reason, function) = (at.to_owned(), reason.to_owned(), Some(function.to_owned()));
        KernelDrop { at, reason, function, at_packet_socket }
    }

    /// An interface `x` whose discipline has dropped `dropped` frames and holds `queued`, in a namespace `r`
    /// whose IP found no route for `no_route` packets; and a receiving port `b`.
    fn accounts(counted: [u64; 4], drops: Option<&[(KernelDrop, u64)]>) -> Accounts {
        let [dropped, queued, no_route, missed] = counted;
        let observation = |dropped, queued, no_route| {
            let qdiscs = vec![Qdisc { kind: "tbf".into(), drops: dropped, queued, ..Qdisc::default() }];
            let x = Interface { name: "x".into(), index: 1, qdiscs, ..Interface::default() };
            let ip = [("InNoRoutes".to_owned(), no_route)].into();
            let namespace = Namespace { interfaces: vec![x], ip, ..Namespace::default() };
            Observation { namespaces: [(Some("r".into()), namespace)].into(), ..Observation::default() }
        };
        let port = PortCount {
            port: "packet:b".into(),
            interface: Some("b".into()),
            receives: true,
            missed: Some(missed),
            ..PortCount::default()
        };
        let drops = drops.map(|drops| drops.iter().cloned().collect::<KernelDrops>());
        let after = Observation { kernel_drops: drops, ..observation(dropped, queued, no_route) };
        account(&observation(0, 0, 0), &after, &[port])
    }

    type Places = Vec<(String, u64)>;

    fn explaining(accounts: &Accounts, missing: u64) -> (Places, Places) {
        let (dropped, in_flight) = accounts.explaining(missing);
        (dropped.into_iter().collect(), in_flight.into_iter().collect())
    }

    fn place(name: &str, frames: u64) -> (String, u64) {
        (name.to_owned(), frames)
    }

    #[test]
    fn a_queue_that_also_dropped_frames_of_others_explains_no_more_than_the_trials() {
        let queue = [(drop("r/x", "QDISC_OVERLIMIT", "__dev_queue_xmit"), 100)];
        let losses = accounts([101, 0, 0, 0], Some(&queue));
        assert_eq!(explaining(&losses, 100).0, [place("r/x tbf", 100)]);
        // If one more is missing, the counter may have it.
        for missing in [101, 500] {
            assert_eq!(explaining(&losses, missing).0, [place("r/x tbf", 101)]);
        }
        // Where the kernel does not report drops, counters are all there is.
        let untold = accounts([101, 0, 0, 5], None);
        assert_eq!(explaining(&untold, 100).0, [place("r/x tbf", 100)]);
        assert_eq!(explaining(&untold, 200).0, [place("packet:b missed", 5), place("r/x tbf", 101)]);
    }

    /// A port whose ring overflows with frames of others has not lost those of the trial.
    #[test]
    fn what_others_overflowed_with_is_not_the_trials() {
        let queue = [(drop("r/x", "QDISC_OVERLIMIT", "__dev_queue_xmit"), 6185)];
        let losses = accounts([19_569, 0, 0, 4828], Some(&queue));
        assert_eq!(explaining(&losses, 6185).0, [place("r/x tbf", 6185)]);
        assert_eq!(losses.at("packet:b missed", 6185), 0);
        // As many as nothing else explains, before what counters of others' frames say.
        assert_eq!(losses.at("packet:b missed", 6200), 15);
        let losses = accounts([0, 0, 1, 9], Some(&[]));
        assert_eq!(explaining(&losses, 1).0, [place("packet:b missed", 1)]);
        // Where the kernel does not report drops, they may be any.
        assert_eq!(accounts([19_569, 0, 0, 4828], None).at("packet:b missed", 6185), 4828);
    }

    #[test]
    fn drops_without_a_counter_are_places_of_their_own() {
        let drops = [
            (drop("r/x", "QDISC_OVERLIMIT", "__dev_queue_xmit"), 7),
            (drop("r/y", "NETFILTER_DROP", "nf_hook_slow"), 10),
            (drop("r/y", "IP_INNOROUTES", "ip_rcv_finish_core"), 3),
            (drop("z", "OTHERHOST", "ip_rcv_core"), 2),
        ];
        let losses = accounts([7, 0, 3, 0], Some(&drops));
        let expected = [
            place("r IP InNoRoutes", 3),
            place("r/x tbf", 7),
            place("r/y netfilter drop (nf_hook_slow)", 10),
        ];
        assert_eq!(explaining(&losses, 20).0, expected);
        // Copies that a bridge sent elsewhere are no loss.
        assert_eq!(explaining(&losses, 21).0.len(), 4);
        assert_eq!(explaining(&losses, 10).0.len(), 2);
    }

    #[test]
    fn a_message_that_a_full_ring_refused_is_as_many_frames_as_it_had() {
        let drops = [(drop("b", "PACKET_SOCK_ERROR", "tpacket_rcv"), 640)];
        let losses = accounts([0, 0, 0, 10], Some(&drops));
        assert_eq!(explaining(&losses, 640).0, [place("packet:b missed", 640)]);
        assert_eq!(losses.at("packet:b missed", 640), 640);
        // A frame of others found it full, too.
        let drops = [(drop("b", "PACKET_SOCK_ERROR", "tpacket_rcv"), 9)];
        assert_eq!(explaining(&accounts([0, 0, 0, 10], Some(&drops)), 9).0, [place("packet:b missed", 9)]);
    }

    /// Each counter has its reasons, or its functions where a kernel gives no reason.
    #[test]
    fn a_counter_counts_what_was_dropped_there_for_its_reasons() {
        let discipline = || Counter::Discipline("fq_codel".into());
        let ip = |counter: &str| Counter::Ip(counter.into());
        let ports = BTreeMap::from([("b", "packet:b"), ("c", "packet:c")]);
        for (at, counter, reason, function, expected) in [
            ("r/x", discipline(), "QDISC_OVERLIMIT", "f", true),
            ("r/x", discipline(), "CAKE_FLOOD", "f", true),
            ("r/x", discipline(), "NOT_SPECIFIED", "fq_codel_enqueue", true),
            ("r/x", discipline(), "NOT_SPECIFIED", "ip_rcv", false),
            ("r/x", discipline(), "NETFILTER_DROP", "__dev_queue_xmit", false),
            ("r/x", Counter::Ingress("clsact".into()), "TC_INGRESS", "f", true),
            ("r/x", Counter::Ingress("clsact".into()), "QDISC_OVERLIMIT", "f", false),
            ("r/x", Counter::Backlog, "CPU_BACKLOG", "f", true),
            ("r/x", Counter::Backlog, "XDP", "f", false),
            ("r/x", Counter::Interface("rx_otherhost_dropped"), "OTHERHOST", "f", true),
            ("r/x", Counter::Interface("rx_otherhost_dropped"), "XDP", "f", false),
            ("r/x", Counter::Interface("rx_dropped"), "UNHANDLED_PROTO", "f", true),
            ("r/x", Counter::Interface("rx_dropped"), "XDP", "f", true),
            ("r/x", Counter::Software("rx_dropped"), "CPU_BACKLOG", "f", true),
            ("r/x", Counter::Software("rx_dropped"), "OTHERHOST", "veth_xmit", false),
            ("r/x", Counter::Interface("tx_dropped"), "NOT_SPECIFIED", "dev_hard_start_xmit", true),
            ("r/x", Counter::Software("tx_dropped"), "NOT_SPECIFIED", "veth_xmit", true),
            ("r/x", Counter::Software("tx_dropped"), "XDP", "veth_xdp_rcv", false),
            ("r", ip("InNoRoutes"), "IP_INNOROUTES", "f", true),
            ("r", ip("InNoRoutes"), "IP_CSUM", "f", false),
            ("r", ip("InHdrErrors"), "IP_CSUM", "f", true),
            ("r", ip("conntrack table full"), "NETFILTER_DROP", "nf_hook_slow", true),
            ("r", ip("conntrack table full"), "IP_CSUM", "nf_hook_slow", false),
            ("packet:b", Counter::Port(MISSED), "PACKET_SOCK_ERROR", "tpacket_rcv", true),
            ("packet:b", Counter::Port(MISSED), "PACKET_SOCK_ERROR", "packet_rcv", false),
            ("packet:b", Counter::Port("errors"), "PACKET_SOCK_ERROR", "tpacket_rcv", false),
        ] {
            let (here, elsewhere) = if at == "packet:b" { ("b", "c") } else { ("r/x", "q/x") };
            let known = Known { at: at.to_owned(), counter, frames: 1, copied: false };
            let counts = |at| counts(&known, &drop(at, reason, function), &ports);
            assert_eq!((counts(here), counts(elsewhere)), (expected, false), "{known} {reason} {function}");
        }
    }

    /// Backlogs of interfaces that are not observed have no counter.
    #[test]
    fn a_backlog_is_a_place_of_its_own_where_nobody_counts_it() {
        let here = drop("r/x", "CPU_BACKLOG", "enqueue_to_backlog");
        let there = [
            drop("r/y", "CPU_BACKLOG", "enqueue_to_backlog"),
            drop("q/x", "CPU_BACKLOG", "enqueue_to_backlog"),
            drop("r/x", "NETFILTER_DROP", "nf_hook_slow"),
        ];
        let drops: Vec<_> = std::iter::once(here).chain(there.clone()).zip([9, 8, 7, 6]).collect();
        let losses = accounts([0, 0, 0, 0], Some(&drops));
        let expected: Vec<_> = there.iter().map(KernelDrop::to_string).zip([8, 7, 6]).collect();
        assert_eq!(losses.possible, expected);
    }

    /// Frames that the sending port's interface was refused and has sent again are in the kernel's record,
    /// too.
    #[test]
    fn drops_at_the_sender_are_no_more_than_it_lacks() {
        let observation = |sent| {
            let counters = [("tx_packets".to_owned(), sent)].into();
            let a = Interface { name: "a".into(), index: 1, counters, ..Interface::default() };
            let own = Namespace { interfaces: vec![a], ..Namespace::default() };
            Observation { namespaces: [(None, own)].into(), ..Observation::default() }
        };
        let a = |reason| drop("a", reason, "f");
        let drops = [(a("ONE"), 3), (a("OTHER"), 8), (a("THIRD"), 9)];
        let after = Observation { kernel_drops: Some(drops.into_iter().collect()), ..observation(95) };
        let (port, interface) = ("packet:a".to_owned(), Some("a".to_owned()));
        let port = PortCount { port, interface, sent: Some(100), ..PortCount::default() };
        let losses = account(&observation(0), &after, &[port]);
        assert_eq!(losses.possible, [place("a one (f)", 3), place("a other (f)", 2)]);
    }

    #[test]
    fn in_flight_is_at_most_what_is_missing() {
        let losses = accounts([5, 3, 0, 0], Some(&[(drop("r/x", "QDISC_DROP", "f"), 5)]));
        assert_eq!(explaining(&losses, 8), (vec![place("r/x tbf", 5)], vec![place("r/x", 3)]));
        assert_eq!(explaining(&losses, 7), (vec![place("r/x tbf", 5)], vec![place("r/x", 2)]));
        assert_eq!(explaining(&losses, 5), (vec![place("r/x tbf", 5)], vec![]));
    }
}
