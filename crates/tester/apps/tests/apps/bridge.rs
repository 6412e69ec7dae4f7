use crate::wires::{Frame, Wires, push};
use kpps_apps::{App, EtherSwitch, Ledger, Reason};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn ledger(bridge: &EtherSwitch) -> Ledger {
    App::<Frame>::ledger(bridge)
}

/// A frame of 60 bytes whose payload names its sender.
fn frame(to: [u8; 6], from: [u8; 6]) -> Frame {
    let mut frame = [&to[..], &from, &[0x08, 0x00]].concat();
    frame.resize(60, from[5]);
    frame
}
fn station(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

#[test]
fn unknown_stations_are_flooded_and_known_ones_are_not() {
    let mut bridge = EtherSwitch::new(3);
    let first = frame(station(2), station(1));
    assert_eq!(push(&mut bridge, 0, first.clone(), 0), [(1, first.clone()), (2, first)]);
    let answer = frame(station(1), station(2));
    assert_eq!(push(&mut bridge, 2, answer.clone(), 0), [(0, answer)]);
    let second = frame(station(2), station(1));
    assert_eq!(push(&mut bridge, 0, second.clone(), 0), [(2, second)]);
    let everybody = frame([0xff; 6], station(2));
    assert_eq!(push(&mut bridge, 2, everybody.clone(), 0), [(0, everybody.clone()), (1, everybody)]);
    assert_eq!((bridge.stations(), bridge.flooded(), ledger(&bridge).sent), (2, 2, 6));
}

#[test]
fn no_frame_leaves_by_its_own_port() {
    let mut bridge = EtherSwitch::new(2);
    push(&mut bridge, 0, frame(station(9), station(1)), 0);
    push(&mut bridge, 0, frame(station(9), station(2)), 0);
    assert_eq!(push(&mut bridge, 0, frame(station(1), station(2)), 0), []);
    assert_eq!(ledger(&bridge).ended(Reason::SamePort), 1);
    let mut lonely = EtherSwitch::new(1);
    assert_eq!(push(&mut lonely, 0, frame([0xff; 6], station(1)), 0), []);
    assert_eq!(ledger(&lonely).ended(Reason::NoPort), 1);
}

#[test]
fn a_station_that_moves_is_followed() {
    let mut bridge = EtherSwitch::new(3);
    push(&mut bridge, 0, frame(station(9), station(1)), 0);
    push(&mut bridge, 1, frame(station(9), station(1)), 1);
    let to_it = frame(station(1), station(3));
    assert_eq!(push(&mut bridge, 2, to_it.clone(), 2), [(1, to_it)]);
}

#[test]
fn reserved_groups_and_invalid_sources_are_dropped() {
    let mut bridge = EtherSwitch::new(2);
    for last in 0..=0x0f {
        assert_eq!(push(&mut bridge, 0, frame([1, 0x80, 0xc2, 0, 0, last], station(1)), 0), []);
    }
    assert_eq!(ledger(&bridge).ended(Reason::NotForwarded), 16);
    let beyond = frame([1, 0x80, 0xc2, 0, 0, 0x10], station(1));
    assert_eq!(push(&mut bridge, 0, beyond.clone(), 0), [(1, beyond)]);
    assert_eq!(push(&mut bridge, 0, frame(station(2), [3, 0, 0, 0, 0, 1]), 0), []);
    assert_eq!(ledger(&bridge).ended(Reason::BadSource), 1);
    assert_eq!(push(&mut bridge, 0, vec![0; 13], 0), []);
    assert_eq!(ledger(&bridge).ended(Reason::Malformed), 1);
    assert_eq!(bridge.stations(), 1);
}

#[test]
fn stations_age_and_the_table_is_bounded() {
    let mut bridge = EtherSwitch::with_table(2, 4, 300 * S);
    for n in 0..4 {
        push(&mut bridge, 0, frame(station(99), station(n)), u64::from(n) * S);
    }
    push(&mut bridge, 0, frame(station(99), station(4)), 10 * S);
    assert_eq!((bridge.stations(), bridge.unlearned()), (4, 1));
    // Stations 0 and 1 are old by now; 0 is flooded, and both make room.
    let to_old = frame(station(0), station(7));
    assert_eq!(push(&mut bridge, 0, to_old.clone(), 301 * S + 1), [(1, to_old)]);
    assert_eq!(bridge.stations(), 3);
    assert_eq!(push(&mut bridge, 0, frame(station(3), station(7)), 302 * S), []);
}

#[test]
fn a_station_is_known_until_it_has_aged() {
    let to_it = frame(station(1), station(2));
    let heard = || {
        let mut bridge = EtherSwitch::with_table(3, 1, 300 * S);
        push(&mut bridge, 0, frame(station(99), station(1)), 0);
        bridge
    };
    let mut bridge = heard();
    assert_eq!(push(&mut bridge, 1, to_it.clone(), 300 * S - 1), [(0, to_it.clone())]);
    assert_eq!(push(&mut bridge, 1, to_it.clone(), 300 * S), [(0, to_it.clone()), (2, to_it.clone())]);
    // Then another may have its place in the table, not before.
    for (now_ns, unlearned) in [(300 * S - 1, 1), (300 * S, 0)] {
        let mut bridge = heard();
        push(&mut bridge, 1, to_it.clone(), now_ns);
        assert_eq!(bridge.unlearned(), unlearned);
    }
}

#[test]
fn a_full_table_is_searched_only_now_and_then() {
    let mut bridge = EtherSwitch::with_table(2, 2, 64 * S);
    let mut unlearned_after = |n, now_ns| {
        push(&mut bridge, 0, frame(station(99), station(n)), now_ns);
        bridge.unlearned()
    };
    assert_eq!(unlearned_after(0, 0), 0);
    assert_eq!(unlearned_after(1, S), 0);
    assert_eq!(unlearned_after(2, 63 * S + S / 2), 1, "both are recent");
    assert_eq!(unlearned_after(2, 64 * S), 2, "one has aged since, but nobody has looked");
    assert_eq!(unlearned_after(2, 64 * S + S / 2), 2, "after a 64th of the age there is another search");
}

#[test]
fn a_copy_that_cannot_be_made_is_counted() {
    let mut bridge = EtherSwitch::new(3);
    let mut wires = Wires { no_buffers: true, ..Wires::default() };
    let all = frame([0xff; 6], station(1));
    assert_eq!(App::push(&mut bridge, 0, all.clone(), 0, &mut wires), None);
    assert_eq!(wires.sent, [(2, all)]);
    assert_eq!(ledger(&bridge).ended(Reason::NoBuffer), 1);
    assert!(ledger(&bridge).closes());
}

proptest! {
    /// For any frames: they leave unchanged, never by the port they came from, never twice by one port, and
    /// all are accounted for.
    #[test]
    fn frames_are_conserved(
        ports in 1usize..5,
        frames in prop::collection::vec(
            (0usize..5, 0u8..8, 0u8..8, any::<bool>(), 0usize..80, 0u64..400),
            1..200,
        ),
    ) {
        let mut bridge = EtherSwitch::with_table(ports, 5, 300 * S);
        let mut now = 0;
        let mut left = 0;
        for (from, to, source, group, bytes, later) in frames {
            let from = from % ports;
            now += later * S;
            let mut to = station(to);
            to[0] |= u8::from(group);
            let mut frame = frame(to, station(source));
            frame.truncate(bytes);
            let out = push(&mut bridge, from, frame.clone(), now);
            let mut by: Vec<_> = out.iter().map(|(port, _)| *port).collect();
            left += out.len() as u64;
            by.dedup();
            prop_assert_eq!(by.len(), out.len());
            prop_assert!(out.iter().all(|(port, f)| *port != from && *port < ports && *f == frame));
            prop_assert!(bridge.stations() <= 5);
        }
        prop_assert_eq!(ledger(&bridge).sent, left);
    }
}
