use crate::network::{HERE, HOST, OURS, S, THERE, interfaces};
use crate::wires::{Frame, push, tick};
use etherparse::{Icmpv4Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, icmpv4};
use kpps_apps::{App, Misconfigured, Nat, Reason, Route, Router};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size, Tag, tag};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn router() -> Router<Frame> {
    let routes = [Route { to: "10.9.0.0/16".parse().unwrap(), via: THERE[1] }];
    Router::new(interfaces(), &routes).unwrap()
}

/// A router that knows both hosts.
fn acquainted() -> Router<Frame> {
    let mut router = router();
    for port in [0, 1] {
        push(&mut router, port, arp(1, (HOST[port], THERE[port]), (Mac::BROADCAST, HERE[port])), 0);
    }
    assert_eq!(router.neighbours(), 2);
    router
}

/// An ARP message in a frame, built by etherparse.
pub fn arp(operation: u16, from: (Mac, Ipv4Addr), to: (Mac, Ipv4Addr)) -> Frame {
    let asked = if to.0 == Mac::BROADCAST { Mac::default() } else { to.0 };
    let message = etherparse::ArpPacket::new(
        etherparse::ArpHardwareId::ETHERNET,
        etherparse::EtherType::IPV4,
        etherparse::ArpOperation(operation),
        &from.0.0,
        &from.1.octets(),
        &asked.0,
        &to.1.octets(),
    )
    .unwrap();
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(from.0.0, to.0.0).arp(message).write(&mut frame).unwrap();
    frame.resize(60, 0);
    frame
}

pub fn udp(to: Ipv4Addr, ttl: u8, payload: &[u8]) -> Frame {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST[0].0, OURS[0].0)
        .ipv4(THERE[0].octets(), to.octets(), ttl)
        .udp(4000, 9)
        .write(&mut frame, payload)
        .unwrap();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn echo(to: Ipv4Addr, payload: &[u8]) -> Frame {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST[0].0, OURS[0].0)
        .ipv4(THERE[0].octets(), to.octets(), 1)
        .icmpv4_echo_request(7, 8)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

/// The expected forwarded frame: new station addresses, TTL one less, otherwise unchanged.
fn forwarded(mut frame: Frame, from: Mac, to: Mac) -> Frame {
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
    frame[22] -= 1;
    let header = etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0;
    let sum = header.calc_header_checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The ICMP message in a frame and its quote; checks all checksums.
pub fn icmp(frame: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> (Icmpv4Type, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    assert_eq!((header.source, header.destination), (from.octets(), to.octets()));
    let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { panic!("no ICMP") };
    let sum = icmp.icmp_type().calc_checksum(icmp.payload());
    assert_eq!(icmp.checksum(), sum);
    (icmp.icmp_type(), icmp.payload().to_vec())
}

#[test]
fn a_packet_goes_on_with_new_stations_and_one_hop_less() {
    let mut router = acquainted();
    for (to, bytes) in [(THERE[1], 0), (Ipv4Addr::new(10, 9, 200, 1), 18), (THERE[1], 1472)] {
        let frame = udp(to, 64, &vec![0xa5; bytes]);
        let expected = forwarded(frame.clone(), OURS[1], HOST[1]);
        assert_eq!(push(&mut router, 0, frame, S), [(1, expected)]);
    }
}

#[test]
fn a_test_frame_keeps_its_tag_and_its_padding() {
    let mut router = acquainted();
    let flow =
        Flow { from_mac: HOST[0], to_mac: OURS[0], from: (THERE[0], 1), to: (THERE[1], 2), vlan: None };
    let mut frame = udp_test(&flow, Size::MIN).unwrap();
    let written = Tag { stream: 3, sequence: 4, sent_ps: 5 };
    tag::write(&mut frame, written).unwrap();
    frame.resize(64, 0x77);
    let out = push(&mut router, 0, frame, S);
    assert_eq!(tag::read(&out[0].1), Some(written));
    assert_eq!(out[0].1[60..], [0x77; 4]);
}

#[test]
fn arp_is_answered_and_only_for_us() {
    let mut router = router();
    let request = arp(1, (HOST[0], THERE[0]), (Mac::BROADCAST, HERE[0]));
    let reply = arp(2, (OURS[0], HERE[0]), (HOST[0], THERE[0]));
    assert_eq!(push(&mut router, 0, request, 0), [(0, reply)]);
    for (nobody, reason) in [
        // Of a stranger to another host: not learned (RFC 826).
        (arp(1, (HOST[0], [10, 0, 0, 9].into()), (Mac::BROADCAST, THERE[0])), Reason::Local),
        (arp(1, (HOST[0], THERE[1]), (Mac::BROADCAST, HERE[0])), Reason::BadSource),
        (arp(3, (HOST[0], THERE[0]), (Mac::BROADCAST, HERE[0])), Reason::Malformed),
        (arp(1, (HOST[0], THERE[0]), (Mac::BROADCAST, HERE[0]))[..41].to_vec(), Reason::Malformed),
    ] {
        let before = router.ledger().ended(reason);
        assert_eq!(push(&mut router, 0, nobody, 0), []);
        assert_eq!(router.ledger().ended(reason), before + 1, "{reason:?}");
    }
    assert_eq!(router.neighbours(), 1);
}

#[test]
fn packets_wait_for_their_neighbour_in_a_bounded_queue() {
    let mut router = router();
    let question = arp(1, (OURS[1], HERE[1]), (Mac::BROADCAST, THERE[1]));
    let frames: Vec<_> = (0..6u8).map(|n| udp(THERE[1], 64, &[n; 18])).collect();
    assert_eq!(push(&mut router, 0, frames[0].clone(), 0), [(1, question)]);
    for frame in &frames[1..] {
        assert_eq!(push(&mut router, 0, frame.clone(), 0), []);
    }
    assert_eq!((router.ledger().held, router.ledger().ended(Reason::QueueFull)), (4, 2));
    assert_eq!(router.neighbours(), 0);
    let out = push(&mut router, 1, arp(2, (HOST[1], THERE[1]), (OURS[1], HERE[1])), 1);
    let expected: Vec<_> = frames[2..].iter().map(|f| (1, forwarded(f.clone(), OURS[1], HOST[1]))).collect();
    assert_eq!(out, expected);
    assert_eq!((router.ledger().held, router.neighbours()), (0, 1));
}

#[test]
fn a_neighbour_that_does_not_reply_is_unreachable() {
    let mut router = acquainted();
    let nobody = Ipv4Addr::new(10, 0, 1, 77);
    let frame = udp(nobody, 64, &[1; 18]);
    let question = arp(1, (OURS[1], HERE[1]), (Mac::BROADCAST, nobody));
    assert_eq!(push(&mut router, 0, frame.clone(), 0), [(1, question.clone())]);
    assert_eq!(tick(&mut router, S / 2), []);
    assert_eq!(tick(&mut router, S), [(1, question.clone())]);
    assert_eq!(tick(&mut router, S + S / 2), []);
    assert_eq!(tick(&mut router, 2 * S), [(1, question.clone())]);
    let out = tick(&mut router, 3 * S);
    let (kind, quoted) = icmp(&out[0].1, HERE[0], THERE[0]);
    assert_eq!((out.len(), out[0].0), (1, 0));
    assert_eq!(kind, Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Host));
    assert_eq!(quoted[12..], frame[26..60], "addresses on and payload");
    assert_eq!((router.ledger().ended(Reason::NoNeighbour), router.neighbours()), (1, 2));
    assert_eq!(push(&mut router, 0, frame, 4 * S), [(1, question)], "the next packet asks again");
}

#[test]
fn a_silent_neighbour_is_requested_again_and_dropped() {
    let mut router = acquainted();
    let frame = udp(THERE[1], 64, &[1; 18]);
    let question = arp(1, (OURS[1], HERE[1]), (Mac::BROADCAST, THERE[1]));
    let on = (1, forwarded(frame.clone(), OURS[1], HOST[1]));
    // From 30 s on it is requested, at most once a second (RFC 1122 2.3.2.1); from 60 s on it is not used.
    for (now_ns, asks) in
        [(30 * S - 1, false), (30 * S, true), (31 * S - 1, false), (31 * S, true), (60 * S - 1, true)]
    {
        let out = push(&mut router, 0, frame.clone(), now_ns);
        assert_eq!(out[..out.len() - 1], [(1, question.clone())][..usize::from(asks)], "{now_ns}");
        assert_eq!(out.last(), Some(&on));
    }
    assert_eq!(push(&mut router, 0, frame.clone(), 60 * S), [(1, question)]);
    let out = push(&mut router, 1, arp(2, (HOST[1], THERE[1]), (OURS[1], HERE[1])), 60 * S);
    assert_eq!(out, [on]);
}

#[test]
fn a_configured_neighbour_is_never_requested_or_dropped() {
    let mut router = router().with_neighbour(THERE[1], HOST[1]).unwrap();
    let frame = udp(THERE[1], 64, &[1; 18]);
    let on = (1, forwarded(frame.clone(), OURS[1], HOST[1]));
    push(&mut router, 1, arp(2, (HOST[0], THERE[1]), (OURS[1], HERE[1])), 0);
    for at in [0, 31 * S, 3600 * S] {
        tick(&mut router, at);
        assert_eq!(push(&mut router, 0, frame.clone(), at), std::slice::from_ref(&on));
    }
    for nowhere in [HERE[1], [10, 9, 0, 1].into(), [192, 168, 0, 1].into()] {
        let refused = crate::router::router().with_neighbour(nowhere, HOST[1]);
        assert_eq!(refused.err(), Some(Misconfigured::Unreachable(nowhere)));
    }
}

/// Both addresses of such a network are hosts (RFC 3021).
#[test]
fn a_link_of_two_hosts_has_no_broadcast_address() {
    let mut interfaces = interfaces();
    let (ours, theirs) = (Ipv4Addr::new(10, 0, 1, 0), Ipv4Addr::new(10, 0, 1, 1));
    interfaces[1].net = format!("{ours}/31").parse().unwrap();
    let mut router = Router::new(interfaces, &[]).unwrap().with_neighbour(theirs, HOST[1]).unwrap();
    let frame = udp(theirs, 64, &[1; 18]);
    let on = forwarded(frame.clone(), OURS[1], HOST[1]);
    assert_eq!(push(&mut router, 0, frame, S), [(1, on)]);
}

#[test]
fn an_invalid_configuration_says_what_is_wrong_with_it() {
    let net = |text: &str| text.parse().unwrap();
    let (one, other) = (net("10.0.0.1/24"), net("10.0.0.200/25"));
    for (error, named) in [
        (Misconfigured::Address(one), &["10.0.0.1/24", "no address"][..]),
        (Misconfigured::Vlan(4095), &["4095", "VLAN"]),
        (Misconfigured::Shared(one, other), &["10.0.0.1/24", "10.0.0.200/25", "same port and VLAN"]),
        (Misconfigured::Overlap(one, other), &["10.0.0.1/24", "10.0.0.200/25", "overlap"]),
        (Misconfigured::Twice(one), &["two routes", "10.0.0.1/24"]),
        (Misconfigured::Unreachable(THERE[1]), &["no interface", "10.0.1.2"]),
        (Misconfigured::Outside(7), &["no interface 7", "outside"]),
        (Misconfigured::NoMappings, &["0 mappings"]),
    ] {
        let said = error.to_string();
        assert!(named.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn it_tells_what_it_knows_in_one_line() {
    let mut router = acquainted();
    push(&mut router, 0, udp(THERE[1], 1, &[1; 18]), S);
    let known = "2 neighbours known; ICMP errors: 1 sent, 0 suppressed by the rate limit";
    assert_eq!(router.in_words(), known);
    let mut router = router.with_nat(Nat::new(1)).unwrap();
    push(&mut router, 0, udp(THERE[1], 64, &[1; 18]), S);
    assert_eq!(router.in_words(), format!("1 mappings; {known}"));
}

#[test]
fn errors_go_to_the_sender() {
    for (frame, reason, kind) in [
        (
            udp(THERE[1], 1, &[1; 18]),
            Reason::Expired,
            Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit),
        ),
        (
            udp(Ipv4Addr::new(192, 168, 0, 1), 9, &[1; 18]),
            Reason::NoRoute,
            Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Network),
        ),
        (
            udp(HERE[1], 9, &[1; 18]),
            Reason::Local,
            Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port),
        ),
    ] {
        let mut router = acquainted();
        let out = push(&mut router, 0, frame.clone(), S);
        assert_eq!((out.len(), out[0].0), (1, 0));
        assert_eq!((&out[0].1[..6], &out[0].1[6..12]), (&HOST[0].0[..], &OURS[0].0[..]));
        let (told, quoted) = icmp(&out[0].1, HERE[0], THERE[0]);
        assert_eq!(told, kind);
        assert_eq!(quoted, frame[14..], "the packet as it arrived");
        assert_eq!(router.ledger().ended(reason), 1);
    }
}

#[test]
fn a_packet_longer_than_the_mtu_is_refused() {
    let mut router = acquainted();
    let mut frame = udp(THERE[1], 9, &[7; 1500]);
    let out = push(&mut router, 0, frame.clone(), S);
    // etherparse sets "don't fragment".
    let (kind, quoted) = icmp(&out[0].1, HERE[0], THERE[0]);
    assert_eq!(
        kind,
        Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::FragmentationNeeded {
            next_hop_mtu: 1500
        })
    );
    assert_eq!(quoted.len(), 576 - 28);
    frame[20] = 0;
    let sum = etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0.calc_header_checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(push(&mut router, 0, frame, S), []);
    assert_eq!(router.ledger().ended(Reason::TooBig), 2);
}

#[test]
fn there_are_no_errors_about_errors_fragments_or_groups() {
    let mut router = acquainted();
    let mut error = Vec::new();
    PacketBuilder::ethernet2(HOST[0].0, OURS[0].0)
        .ipv4(THERE[0].octets(), THERE[1].octets(), 1)
        .icmpv4(Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit))
        .write(&mut error, &[0; 28])
        .unwrap();
    assert_eq!(push(&mut router, 0, error, S), []);
    let mut piece = udp(THERE[1], 1, &[1; 18]);
    piece[20..22].copy_from_slice(&5u16.to_be_bytes());
    let sum = etherparse::Ipv4Header::from_slice(&piece[14..]).unwrap().0.calc_header_checksum();
    piece[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(push(&mut router, 0, piece, S), []);
    assert_eq!(router.ledger().ended(Reason::Expired), 2);
    assert_eq!(push(&mut router, 0, udp(Ipv4Addr::new(224, 0, 0, 5), 1, &[1; 18]), S), []);
    assert_eq!(push(&mut router, 0, udp(Ipv4Addr::new(10, 0, 1, 255), 9, &[1; 18]), S), []);
    let mut to_all = udp(THERE[1], 9, &[1; 18]);
    to_all[..6].fill(0xff);
    assert_eq!(push(&mut router, 0, to_all, S), []);
    assert_eq!(router.ledger().ended(Reason::NotForwarded), 3);
}

#[test]
fn errors_are_limited_to_a_thousand_a_second() {
    let mut router = acquainted();
    let mut told = 0;
    // 10,000 packets a second for a second.
    for n in 0..10_000u64 {
        told += push(&mut router, 0, udp(THERE[1], 1, &[1; 18]), S + n * S / 10_000).len();
    }
    assert!((1000..=1050).contains(&told), "{told}");
    let (sent, limited) = router.icmp_errors();
    assert_eq!((sent, sent + limited), (told as u64, 10_000));
    assert_eq!(router.ledger().ended(Reason::Expired), 10_000);
}

#[test]
fn pings_are_answered() {
    let mut router = acquainted();
    for (to, payload) in [(HERE[0], &b"hello"[..]), (HERE[1], b""), (HERE[0], &[0xff; 1400])] {
        let out = push(&mut router, 0, echo(to, payload), S);
        assert_eq!((out.len(), out[0].0), (1, 0));
        let (kind, data) = icmp(&out[0].1, to, THERE[0]);
        assert_eq!(kind, Icmpv4Type::EchoReply(etherparse::IcmpEchoHeader { id: 7, seq: 8 }));
        assert_eq!(data, payload);
        assert_eq!(out[0].1[22], 64, "a new TTL");
    }
}

#[test]
fn dropped_packets_are_counted_by_reason() {
    let good = udp(THERE[1], 64, &[1; 18]);
    let with = |change: fn(&mut Frame)| {
        let mut frame = good.clone();
        change(&mut frame);
        frame
    };
    let resummed = |change: fn(&mut Frame)| {
        let mut frame = with(change);
        let sum = etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0.calc_header_checksum();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    for (frame, reason) in [
        (with(|f| f.truncate(13)), Reason::Malformed),
        (with(|f| f.truncate(33)), Reason::Malformed),
        (with(|f| f[14] = 0x65), Reason::Malformed),
        (with(|f| f[14] = 0x44), Reason::Malformed),
        (with(|f| f[16] = 0x20), Reason::Malformed),
        (with(|f| f[25] ^= 1), Reason::BadChecksum),
        (resummed(|f| f[26] = 127), Reason::BadSource),
        (resummed(|f| f[26] = 240), Reason::BadSource),
        (resummed(|f| f[26..30].copy_from_slice(&[10, 0, 0, 255])), Reason::BadSource),
        (resummed(|f| f[26..30].copy_from_slice(&[10, 0, 1, 1])), Reason::BadSource),
        (with(|f| f[6] = 3), Reason::BadSource),
        (resummed(|f| f[30] = 0), Reason::NotForwarded),
        (with(|f| f[5] ^= 0x80), Reason::OtherStation),
        (with(|f| f[12..14].copy_from_slice(&[0x86, 0xdd])), Reason::OtherProtocol),
        (with(|f| f[12..14].copy_from_slice(&[0x81, 0x00])), Reason::OtherVlan),
    ] {
        let mut router = acquainted();
        let before = router.ledger().ended(reason);
        assert_eq!(push(&mut router, 0, frame.clone(), S), [], "{reason:?}");
        assert_eq!(router.ledger().ended(reason), before + 1, "{reason:?} {frame:02x?}");
    }
}

/// Mostly valid frames.
fn frames() -> impl Strategy<Value = Frame> {
    let hosts = prop::sample::select(vec![
        HERE[0],
        HERE[1],
        THERE[0],
        THERE[1],
        [10, 0, 1, 9].into(),
        [10, 9, 1, 1].into(),
        [8, 8, 8, 8].into(),
    ]);
    let good = prop_oneof![
        (hosts.clone(), 0u8..4, 0usize..100).prop_map(|(to, ttl, bytes)| udp(to, ttl, &vec![9; bytes])),
        (hosts.clone(), 0usize..100).prop_map(|(to, bytes)| echo(to, &vec![9; bytes])),
        (1u16..4, hosts.clone(), hosts).prop_map(|(op, from, to)| arp(
            op,
            (HOST[0], from),
            (Mac::BROADCAST, to)
        )),
        prop::collection::vec(any::<u8>(), 0..100),
    ];
    (good, any::<bool>(), any::<(prop::sample::Index, u8)>(), 0usize..400).prop_map(
        |(mut frame, spoil, (at, byte), cut)| {
            if spoil && !frame.is_empty() {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            if cut < 100 {
                frame.truncate(cut);
            }
            frame
        },
    )
}

proptest! {
    /// For any frames at any time: no panic, every frame is accounted for, and every sent packet has a good
    /// header.
    #[test]
    fn frames_are_conserved(events in prop::collection::vec((0usize..2, frames(), 0u64..3), 1..100)) {
        let mut router = router();
        let (mut now, mut left) = (0, 0);
        for (from, frame, later) in events {
            now += later * S / 2;
            let mut out = push(&mut router, from, frame, now);
            out.extend(tick(&mut router, now));
            left += out.len() as u64;
            for (port, frame) in out {
                prop_assert_eq!(&frame[6..12], &OURS[port].0[..]);
                if frame[12..14] == [8, 0] {
                    let (header, _) = etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap();
                    prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
                    prop_assert!(header.time_to_live > 0);
                }
            }
        }
        prop_assert_eq!(router.ledger().sent, left);
    }
}
