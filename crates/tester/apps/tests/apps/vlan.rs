//! The router between VLANs: three of them on a trunk, and a port without tags.

use crate::network::{HERE, HOST, OURS, S, THERE, interface};
use crate::router::{arp, icmp, udp};
use crate::wires::{Frame, push};
use etherparse::{Icmpv4Type, LinkExtSlice, NetSlice, SlicedPacket, TransportSlice, icmpv4};
use kpps_apps::{App, Reason, Router};
use kpps_frames::Mac;
use proptest::prelude::*;
use std::net::Ipv4Addr;

/// Interface 0 is VLAN 10 of the trunk, 1 the other port, 2 VLAN 20 and 3 untagged frames of the trunk.
const VLANS: [(usize, Option<u16>); 4] = [(0, Some(10)), (1, None), (0, Some(20)), (0, None)];

fn address(interface: usize, host: u8) -> Ipv4Addr {
    [10, 0, interface as u8, host].into()
}

fn mac(interface: usize) -> Mac {
    Mac([2, 0, 0, 0, 9, interface as u8])
}

/// A router that knows host 2 behind each interface.
fn router() -> Router<Frame> {
    let interfaces = (0..4).map(|index| interface(VLANS[index].0, VLANS[index].1, address(index, 1)));
    let mut router = Router::new(interfaces.collect(), &[]).unwrap();
    for (index, (port, vlan)) in VLANS.into_iter().enumerate() {
        let (from, to) = ((mac(index), address(index, 2)), (Mac::BROADCAST, address(index, 1)));
        let reply = arp(2, (OURS[port], address(index, 1)), from);
        assert_eq!(push(&mut router, port, tagged(arp(1, from, to), vlan), 0), [(port, tagged(reply, vlan))]);
    }
    router
}

/// The frame in a VLAN.
fn tagged(frame: Frame, control: Option<u16>) -> Frame {
    let tag = control.map_or(vec![], |control| [&[0x81, 0][..], &control.to_be_bytes()].concat());
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// A datagram from host 2 behind one interface to host 2 behind another.
fn between(from: usize, to: usize, payload: &[u8]) -> Frame {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2(mac(from).0, OURS[VLANS[from].0].0)
        .ipv4(address(from, 2).octets(), address(to, 2).octets(), 9)
        .udp(4000, 9)
        .write(&mut frame, payload)
        .unwrap();
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn a_packet_leaves_with_the_tag_of_its_vlan() {
    let mut router = router();
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
        if from == to {
            continue;
        }
        for bytes in [0, 18, 700, 1472] {
            let payload: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
            // The priority of a tag is ignored, and not forwarded.
            let came = tagged(between(from, to, &payload), VLANS[from].1.map(|id| id | 0x6000));
            let out = push(&mut router, VLANS[from].0, came, S);
            let [(port, frame)] = &out[..] else { panic!("{from} to {to}: {out:?}") };
            assert_eq!(*port, VLANS[to].0);
            assert!((60..=1518).contains(&frame.len()));
            let packet = SlicedPacket::from_ethernet(frame).unwrap();
            let vlan = packet.link_exts.iter().map(|ext| match ext {
                LinkExtSlice::Vlan(vlan) => {
                    (vlan.vlan_identifier().value(), vlan.priority_code_point().value())
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(
                vlan.collect::<Vec<_>>(),
                VLANS[to].1.map(|id| (id, 0)).into_iter().collect::<Vec<_>>()
            );
            let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4") };
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!((header.time_to_live, header.destination), (8, address(to, 2).octets()));
            let Some(TransportSlice::Udp(datagram)) = packet.transport else { panic!("no UDP") };
            assert_eq!(datagram.payload(), payload);
            assert_eq!((&frame[..6], &frame[6..12]), (&mac(to).0[..], &OURS[*port].0[..]));
        }
    }
}

#[test]
fn a_priority_alone_is_no_vlan() {
    let mut router = router();
    let out = push(&mut router, 0, tagged(between(3, 1, b"urgent"), Some(0xe000)), S);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].1[12..14], [8, 0]);
}

#[test]
fn frames_of_a_vlan_without_interface_are_dropped() {
    let mut router = router();
    for (port, vlan) in [(0, Some(30)), (0, Some(4095)), (1, Some(10)), (2, None)] {
        let before = router.ledger().ended(Reason::OtherVlan);
        assert_eq!(push(&mut router, port, tagged(between(0, 1, b"?"), vlan), S), []);
        assert_eq!(router.ledger().ended(Reason::OtherVlan), before + 1);
    }
    let twice = tagged(tagged(between(0, 1, b"?"), Some(10)), Some(10));
    assert_eq!(push(&mut router, 0, twice, S), []);
    assert_eq!(router.ledger().ended(Reason::OtherProtocol), 1);
}

#[test]
fn errors_go_back_in_the_vlan_of_the_sender() {
    let mut router = router();
    let mut last = udp(THERE[1], 1, &[1; 18]);
    last[..6].copy_from_slice(&OURS[0].0);
    last[6..12].copy_from_slice(&HOST[0].0);
    let out = push(&mut router, 0, tagged(last.clone(), Some(10)), S);
    assert_eq!((out.len(), &out[0].1[12..16]), (1, &[0x81, 0, 0, 10][..]));
    let plain = [&out[0].1[..12], &out[0].1[16..]].concat();
    let (kind, quoted) = icmp(&plain, HERE[0], THERE[0]);
    assert_eq!(kind, Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit));
    assert_eq!(quoted, last[14..]);
}

proptest! {
    /// For any tags and bytes: every frame is accounted for, and frames leave a port only in one of its
    /// VLANs.
    #[test]
    fn frames_are_conserved(
        events in prop::collection::vec(
            (
                0usize..3,
                0usize..4,
                0usize..4,
                prop::option::of(prop::sample::select(vec![0u16, 10, 20, 30, 0x600a, 4095])),
                0usize..80,
                any::<Option<(prop::sample::Index, u8)>>(),
            ),
            1..60,
        ),
    ) {
        let mut router = router();
        let before = router.ledger();
        let (mut came, mut left) = (0, 0);
        for (port, from, to, vlan, bytes, spoilt) in events {
            let mut frame = tagged(between(from, to, &vec![7; bytes]), vlan);
            if let Some((at, byte)) = spoilt {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            came += 1;
            let out = push(&mut router, port, frame, S);
            left += out.len() as u64;
            for (port, frame) in out {
                let vlan = (frame[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([frame[14], frame[15]]));
                prop_assert!(VLANS.contains(&(port, vlan)), "{} {:?}", port, vlan);
            }
        }
        let after = router.ledger();
        prop_assert_eq!(after.received - before.received, came);
        prop_assert_eq!(after.sent - before.sent, left);
    }
}
