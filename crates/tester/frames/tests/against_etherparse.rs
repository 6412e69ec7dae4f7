//! An independent parser must read the frames built here, and its frames must be readable here.
#![allow(clippy::unwrap_used)]

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use kpps_frames::build::{Flow, tcp as build_tcp, udp_test};
use kpps_frames::checksum::Sum;
use kpps_frames::{Error, Mac, Size, ethernet, ipv4, tcp, udp};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn flows() -> impl Strategy<Value = Flow> {
    (any::<([u8; 6], [u8; 6])>(), any::<Option<u16>>(), any::<((u32, u16), (u32, u16))>()).prop_map(
        |((from_mac, to_mac), vlan, ((from, from_port), (to, to_port)))| Flow {
            from_mac: Mac(from_mac),
            to_mac: Mac(to_mac),
            vlan,
            from: (from.into(), from_port),
            to: (to.into(), to_port),
        },
    )
}

/// Both parsers' Ethernet and IPv4 headers match `flow`.
fn check_headers(frame: &[u8], flow: &Flow) {
    let theirs = SlicedPacket::from_ethernet(frame).unwrap();
    let ours = ethernet::Frame::new_checked(frame).unwrap();
    assert_eq!((ours.source(), ours.destination()), (flow.from_mac, flow.to_mac));
    assert_eq!(ours.vlan(), flow.vlan);
    assert_eq!(theirs.vlan_ids().first().map(|id| id.value()), flow.vlan.map(|v| v & 0xfff));
    let Some(NetSlice::Ipv4(their_ip)) = theirs.net else { panic!("no IPv4") };
    let header = their_ip.header();
    assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
    assert_eq!((header.source_addr(), header.destination_addr()), (flow.from.0, flow.to.0));
    let ip = ipv4::Packet::new_checked(ours.payload()).unwrap();
    assert_eq!((ip.source(), ip.destination()), (flow.from.0, flow.to.0));
    assert_eq!(ip.total_bytes(), usize::from(header.total_len()));
    assert!(ip.checksum_ok() && !ip.is_fragment());
}

proptest! {
    #[test]
    fn udp_frames(flow in flows(), bytes in 64u16..=9014) {
        let frame = udp_test(&flow, Size::without_fcs(bytes)).unwrap();
        prop_assert_eq!(frame.len(), usize::from(bytes));
        check_headers(&frame, &flow);
        let theirs = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(TransportSlice::Udp(theirs)) = theirs.transport else { panic!("no UDP") };
        prop_assert_eq!((theirs.source_port(), theirs.destination_port()), (flow.from.1, flow.to.1));
        prop_assert_eq!(theirs.checksum(), 0);
        let eth = ethernet::Frame::new_checked(&frame).unwrap();
        let ip = ipv4::Packet::new_checked(eth.payload()).unwrap();
        let ours = udp::Datagram::new_checked(ip.payload()).unwrap();
        prop_assert_eq!(ours.payload(), theirs.payload());
        prop_assert!(ours.checksum_ok(flow.from.0, flow.to.0));
    }

    #[test]
    fn tcp_frames(
        flow in flows(),
        payload in proptest::collection::vec(any::<u8>(), 0..3000),
        seq: u32,
        ack: u32,
        window: u16,
    ) {
        let fields = tcp::Fields { sequence: seq, acknowledgement: ack, flags: tcp::ACK | tcp::PSH, window };
        let frame = build_tcp(&flow, fields, &payload).unwrap();
        prop_assert!(frame.len() >= 60);
        check_headers(&frame, &flow);
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(TransportSlice::Tcp(theirs)) = sliced.transport else { panic!("no TCP") };
        let (from, to) = (flow.from.0.octets(), flow.to.0.octets());
        let expected = theirs.to_header().calc_checksum_ipv4_raw(from, to, &payload);
        prop_assert_eq!(theirs.checksum(), expected.unwrap());
        prop_assert_eq!((theirs.sequence_number(), theirs.acknowledgment_number()), (seq, ack));
        prop_assert!(theirs.ack() && theirs.psh() && !theirs.syn() && !theirs.fin());
        let eth = ethernet::Frame::new_checked(&frame).unwrap();
        let ip = ipv4::Packet::new_checked(eth.payload()).unwrap();
        let ours = tcp::Segment::new_checked(ip.payload()).unwrap();
        prop_assert_eq!(ours.fields(), fields);
        prop_assert_eq!(ours.payload(), &payload[..]);
        prop_assert!(ours.checksum_ok(flow.from.0, flow.to.0));
    }

    /// Changes of headers in place, as by router and NAT, keep every checksum right.
    #[test]
    fn rewriting_keeps_checksums(flow in flows(), payload: Vec<u8>, to: (u32, u16), tcp_not_udp: bool) {
        let address = Ipv4Addr::from(to.0);
        let (from, there) = (flow.from.0.octets(), flow.to.0.octets());
        let builder = PacketBuilder::ethernet2(flow.from_mac.0, flow.to_mac.0).ipv4(from, there, 9);
        let mut frame = vec![];
        if tcp_not_udp {
            builder.tcp(flow.from.1, flow.to.1, 7, 8).write(&mut frame, &payload).unwrap();
        } else {
            builder.udp(flow.from.1, flow.to.1).write(&mut frame, &payload).unwrap();
        }
        let mut eth = ethernet::Frame::new_checked(&mut frame[..]).unwrap();
        eth.set_source(Mac([2; 6]));
        let mut ip = ipv4::Packet::new_checked(eth.payload_mut()).unwrap();
        prop_assert!(ip.decrement_ttl());
        let old = ip.destination().octets();
        ip.set_destination(address);
        prop_assert_eq!((ip.ttl(), ip.destination()), (8, address));
        prop_assert!(ip.checksum_ok());
        let new = address.octets();
        let word = |bytes: &[u8], a: usize| u16::from_be_bytes([bytes[a], bytes[a + 1]]);
            let words = [0, 2].map(|a| (word(&old, a), word(&new, a)));
        let source = ip.source();
        if tcp_not_udp {
            let mut segment = tcp::Segment::new_checked(ip.payload_mut()).unwrap();
            words.iter().for_each(|&(old, new)| segment.update_checksum(old, new));
            segment.set_destination(to.1);
            prop_assert!(segment.checksum_ok(source, address));
        } else {
            let mut datagram = udp::Datagram::new_checked(ip.payload_mut()).unwrap();
            words.iter().for_each(|&(old, new)| datagram.update_checksum(old, new));
            datagram.set_destination(to.1);
            prop_assert!(datagram.checksum() != 0);
            prop_assert!(datagram.checksum_ok(source, address));
        }
    }

    /// No bytes make a view panic, and accepted bytes can be read to the end.
    #[test]
    fn wild_bytes(bytes: Vec<u8>, version in proptest::option::of(0u8..=15)) {
        let mut bytes = bytes;
        if let (Some(length), Some(first)) = (version, bytes.get_mut(14)) {
            *first = 0x40 | length;
        }
        let Ok(eth) = ethernet::Frame::new_checked(&bytes) else { return Ok(()) };
        let _ = (eth.source(), eth.destination(), eth.vlan(), eth.ethertype(), eth.payload());
        let Ok(ip) = ipv4::Packet::new_checked(eth.payload()) else { return Ok(()) };
        let _ = (ip.checksum_ok(), ip.is_fragment(), ip.source(), ip.destination());
                let _ = (ip.ttl(), ip.identification());
        if let Ok(udp) = udp::Datagram::new_checked(ip.payload()) {
            let _ = (udp.payload(), udp.checksum_ok(ip.source(), ip.destination()));
        }
        if let Ok(tcp) = tcp::Segment::new_checked(ip.payload()) {
            let _ = (tcp.payload(), tcp.fields(), tcp.checksum_ok(ip.source(), ip.destination()));
        }
    }
}

#[test]
fn limits_of_size() {
    let plain = Flow::default();
    let tagged = Flow { vlan: Some(1), ..plain };
    let build = |flow: &Flow, bytes| udp_test(flow, Size::without_fcs(bytes)).map(|f| f.len());
    assert_eq!(build(&plain, 59), Err(Error::Size));
    assert_eq!(build(&plain, 60), Ok(60));
    assert_eq!(build(&plain, 9014), Ok(9014));
    assert_eq!(build(&plain, 9015), Err(Error::Size));
    assert_eq!(build(&tagged, 63), Err(Error::Size));
    assert_eq!(build(&tagged, 64), Ok(64));
    assert_eq!(build(&tagged, 9018), Ok(9018));
    assert_eq!(build(&tagged, 9019), Err(Error::Size));
    assert_eq!(tagged.least_test_size(), Size::without_fcs(64));
    let fields = tcp::Fields { sequence: 0, acknowledgement: 0, flags: tcp::ACK, window: 1 };
    assert_eq!(build_tcp(&plain, fields, &vec![0; 65_495]).map(|f| f.len()), Ok(65_549));
    assert_eq!(build_tcp(&plain, fields, &vec![0; 65_496]), Err(Error::Size));
}

#[test]
fn views_refuse_truncated_bytes() {
    let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
    for len in 0..14 {
        assert_eq!(ethernet::Frame::new_checked(&frame[..len]).err(), Some(Error::Truncated));
    }
    for len in 14..60 {
        assert_eq!(ipv4::Packet::new_checked(&frame[14..len]).err(), Some(Error::Truncated));
    }
    let mut ip = frame[14..].to_vec();
    ip[0] = 0x65;
    assert_eq!(ipv4::Packet::new_checked(&ip).err(), Some(Error::Protocol));
    ip[0] = 0x44;
    assert_eq!(ipv4::Packet::new_checked(&ip).err(), Some(Error::Malformed));
    assert_eq!(udp::Datagram::new_checked([0; 8]).err(), Some(Error::Malformed));
    assert_eq!(udp::Datagram::new_checked([0, 0, 0, 0, 0, 9, 0, 0]).err(), Some(Error::Truncated));
    assert_eq!(tcp::Segment::new_checked([0; 20]).err(), Some(Error::Malformed));
    let mut dying = frame.clone();
    dying[22] = 1;
    let mut packet = ipv4::Packet::new_checked(&mut dying[14..]).unwrap();
    assert!(!packet.decrement_ttl());
    assert_eq!(packet.ttl(), 1);
}

/// The seed for segmentation hardware plus the length is the whole sum.
#[test]
fn segmentation_seed() {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let seed = Sum::pseudo_header(a, b, 6, 0).folded();
    let whole = Sum::pseudo_header(a, b, 6, 1480).folded();
    assert_eq!(Sum::new().with(&seed.to_be_bytes()).with(&1480u16.to_be_bytes()).folded(), whole);
}
