//! ARP as RFC 826 and RFC 5227 have it. All messages are etherparse's.

use crate::network::{HERE, HOST, OURS, S, THERE, interface, interfaces};
use crate::router::{arp, udp};
use crate::wires::{Frame, Wires, push, tick};
use kpps_apps::{App, Conflicts, Nat, Reason, Router};
use kpps_frames::Mac;
use std::net::Ipv4Addr;

const NOBODY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const STRANGER: Mac = Mac([2, 0, 0, 0, 7, 7]);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 9);

/// The announcement of the address of an interface (RFC 5227, 1.1): a broadcast request for its own address.
fn announcement(port: usize) -> (usize, Frame) {
    (port, arp(1, (OURS[port], HERE[port]), (Mac::BROADCAST, HERE[port])))
}

/// A router, and the same with address translation.
fn routers() -> [Router<Frame>; 2] {
    let router = || Router::new(interfaces(), &[]).unwrap();
    [router(), router().with_nat(Nat::new(1)).unwrap()]
}

/// The station to which the router sends packets for host 1; `None` if it asks for it.
fn next_station(router: &mut Router<Frame>, now_ns: u64) -> Option<Mac> {
    let from_host = arp(1, (HOST[0], THERE[0]), (Mac::BROADCAST, HERE[0]));
    push(router, 0, from_host, now_ns);
    let out = push(router, 0, udp(THERE[1], 64, &[0; 18]), now_ns);
    let [(1, frame)] = &out[..] else { panic!("{out:?}") };
    (frame[12..14] == [8, 0]).then(|| Mac(frame[..6].try_into().unwrap()))
}

/// The algorithm at the end of RFC 826. Any message updates an existing entry, whatever its operation and
/// target (the merge flag). Only a message to the router creates an entry. The operation is examined last,
/// and only a request is answered.
#[test]
fn rfc_826_decides_what_is_learned_and_what_is_answered() {
    let (request, reply) = (1, 2);
    let to = |target| (Mac::BROADCAST, target);
    // Known before, operation, target: learned, answered.
    for (known, operation, target, learned, answered) in [
        (false, request, HERE[1], true, true),
        (false, reply, HERE[1], true, false),
        (false, request, OTHER, false, false),
        (false, reply, OTHER, false, false),
        // An announcement of a stranger.
        (false, request, THERE[1], false, false),
        (false, reply, THERE[1], false, false),
        (true, request, HERE[1], true, true),
        (true, reply, HERE[1], true, false),
        (true, request, OTHER, true, false),
        (true, reply, OTHER, true, false),
        (true, request, THERE[1], true, false),
        (true, reply, THERE[1], true, false),
        // The router's address in another network is not one of this link.
        (false, request, HERE[0], false, false),
        (true, request, HERE[0], true, false),
        // Neither request nor reply: RARP's, and none at all.
        (true, 3, HERE[1], false, false),
        (true, 0, HERE[1], false, false),
    ] {
        for mut router in routers() {
            let case = format!("known: {known}, operation {operation}, target {target}");
            if known {
                push(&mut router, 1, arp(2, (HOST[1], THERE[1]), (OURS[1], HERE[1])), 0);
            }
            let out = push(&mut router, 1, arp(operation, (STRANGER, THERE[1]), to(target)), 1);
            let expected = arp(2, (OURS[1], HERE[1]), (STRANGER, THERE[1]));
            assert_eq!(out, if answered { vec![(1, expected)] } else { vec![] }, "{case}");
            let station = if learned { Some(STRANGER) } else { known.then_some(HOST[1]) };
            assert_eq!(next_station(&mut router, 2), station, "{case}");
        }
    }
}

/// Packets that wait go to whoever answers, also in a message to another host.
#[test]
fn a_neighbour_that_is_waited_for_is_learned_from_any_message() {
    for (operation, target) in [(2, HERE[1]), (1, HERE[1]), (1, OTHER), (1, THERE[1])] {
        let [mut router, _] = routers();
        assert_eq!(next_station(&mut router, 0), None);
        let out = push(&mut router, 1, arp(operation, (HOST[1], THERE[1]), (Mac::BROADCAST, target)), 1);
        assert!(out.iter().any(|(_, frame)| frame[12..14] == [8, 0] && frame[..6] == HOST[1].0), "{out:?}");
        assert_eq!(router.ledger().held, 0);
    }
}

/// RFC 5227, 2.1.1: a probe has no sender address. It is answered, or another host would take the router's.
#[test]
fn probes_for_its_own_addresses_are_answered_and_not_learned() {
    for mut router in routers() {
        let probe = |target| arp(1, (STRANGER, NOBODY), (Mac::BROADCAST, target));
        for port in [0, 1] {
            let answer = arp(2, (OURS[port], HERE[port]), (STRANGER, NOBODY));
            assert_eq!(push(&mut router, port, probe(HERE[port]), 0), [(port, answer)]);
            // For an address of another host, or of the router on another link.
            for target in [THERE[port], HERE[1 - port], NOBODY] {
                assert_eq!(push(&mut router, port, probe(target), 0), [], "{target}");
            }
        }
        assert_eq!((router.neighbours(), router.conflicts()), (0, Conflicts::default()));
        // A probe for a neighbour's address changes nothing: the host may have to choose another.
        push(&mut router, 1, arp(2, (HOST[1], THERE[1]), (OURS[1], HERE[1])), 0);
        push(&mut router, 1, probe(THERE[1]), 0);
        assert_eq!(next_station(&mut router, 0), Some(HOST[1]));
        // Neither an answer without a sender nor a station that is a group is a probe.
        let before = router.ledger().ended(Reason::BadSource);
        for bad in [
            arp(2, (STRANGER, NOBODY), (OURS[0], HERE[0])),
            arp(1, (Mac([3, 0, 0, 0, 7, 7]), NOBODY), (Mac::BROADCAST, HERE[0])),
        ] {
            assert_eq!(push(&mut router, 0, bad, 0), []);
        }
        assert_eq!(router.ledger().ended(Reason::BadSource), before + 2);
    }
}

#[test]
fn a_probe_in_a_vlan_is_answered_there() {
    let address = Ipv4Addr::new(10, 0, 10, 1);
    let interfaces = [interfaces(), vec![interface(0, Some(10), address)]].concat();
    let mut router: Router<Frame> = Router::new(interfaces, &[]).unwrap();
    let tagged = |mut frame: Frame| {
        frame.splice(12..12, [0x81, 0, 0, 10]);
        frame
    };
    let probe = arp(1, (STRANGER, NOBODY), (Mac::BROADCAST, address));
    assert_eq!(push(&mut router, 0, probe.clone(), 0), [], "the address of another VLAN");
    let out = push(&mut router, 0, tagged(probe), 0);
    let answer = tagged(arp(2, (OURS[0], address), (STRANGER, NOBODY)));
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].0, &out[0].1[..46]), (0, &answer[..46]));
}

/// RFC 5227, 2.3: ANNOUNCE_NUM is 2, ANNOUNCE_INTERVAL is 2 s.
#[test]
fn it_announces_its_addresses_twice_at_the_start() {
    for mut router in routers() {
        assert_eq!(tick(&mut router, 0), [], "nothing before the ports can send");
        let mut wires = Wires::default();
        router.start(S, &mut wires);
        let both = [announcement(0), announcement(1)];
        assert_eq!(wires.sent, both);
        assert_eq!(tick(&mut router, 3 * S - 1), []);
        assert_eq!(tick(&mut router, 3 * S), both);
        assert_eq!(tick(&mut router, 100 * S), []);
        let ledger = router.ledger();
        assert_eq!((ledger.made, ledger.sent), (4, 4));
        assert!(ledger.closes());
    }
}

/// RFC 5227, 2.4 (c): a router keeps its address. It answers a conflict by one announcement, and no other
/// within 10 s (DEFEND_INTERVAL) of the one before.
#[test]
fn it_defends_its_address_and_not_for_ever() {
    for mut router in routers() {
        // Requests, replies, announcements, to anybody.
        let claims = [(1, HERE[0]), (2, HERE[0]), (1, THERE[0]), (2, THERE[0])];
        let mut now = 0;
        for (nth, (operation, target)) in (1..).zip(claims) {
            let claim = arp(operation, (STRANGER, HERE[0]), (Mac::BROADCAST, target));
            assert_eq!(push(&mut router, 0, claim.clone(), now), [announcement(0)]);
            assert_eq!(push(&mut router, 0, claim.clone(), now + 10 * S - 1), [], "too soon");
            // The time counts from the last conflict, answered or not.
            assert_eq!(push(&mut router, 0, claim, now + 15 * S), [], "too soon");
            now += 25 * S;
            assert_eq!(router.conflicts(), Conflicts { messages: 3 * nth, last: Some((HERE[0], STRANGER)) });
        }
        assert_eq!(router.neighbours(), 0);
        let words = router.in_words();
        assert!(
            words.ends_with(
                "; address conflicts: 12 ARP messages, the last from 02:00:00:00:07:07 as 10.0.0.1"
            ),
            "{words}"
        );
        // Each interface has its own conflicts.
        let other = arp(2, (STRANGER, HERE[1]), (Mac::BROADCAST, THERE[1]));
        assert_eq!(push(&mut router, 1, other, now), [announcement(1)]);
    }
}

/// Its own messages that come back, and its address of another link, are no conflict.
#[test]
fn its_own_announcements_are_no_conflict() {
    for mut router in routers() {
        for port in [0, 1] {
            assert_eq!(push(&mut router, port, announcement(0).1, 0), []);
            let elsewhere = arp(1, (STRANGER, HERE[1 - port]), (Mac::BROADCAST, HERE[port]));
            assert_eq!(push(&mut router, port, elsewhere, 0), []);
        }
        assert_eq!((router.conflicts().messages, router.ledger().ended(Reason::BadSource)), (0, 4));
    }
}
