#![allow(clippy::unwrap_used)]

use super::*;
use alloc::{vec, vec::Vec};
use etherparse::PacketBuilder;
use proptest::prelude::*;

/// A frame of `etherparse` with right checksums: UDP or TCP over IPv4 or IPv6.
fn frame(v4: bool, tcp: bool, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = if v4 {
        ethernet.ipv4([10, 1, 2, 3], [192, 168, 255, 254], 64)
    } else {
        ethernet.ipv6([0x20; 16], [0xfe; 16], 64)
    };
    let mut frame = Vec::new();
    if tcp {
        ip.tcp(80, 12345, 99, 1000).ack(7).write(&mut frame, payload).unwrap();
    } else {
        ip.udp(53, 12345).write(&mut frame, payload).unwrap();
    }
    frame
}

/// Where the transport header of such a frame starts.
fn transport_start(v4: bool) -> usize {
    if v4 { 34 } else { 54 }
}

/// The card's work: the sum of bytes `start..=end` at `field`, never 0 for the transport checksum.
fn insert_as_the_card(frame: &mut [u8], sum: Field, never_zero: bool) {
    let end = if sum.end == 0 { frame.len() } else { usize::from(sum.end) + 1 };
    let value = match checksum(&frame[sum.start.into()..end]) {
        0 if never_zero => 0xffff,
        value => value,
    };
    put(frame, sum.field.into(), value);
}

proptest! {
    #[test]
    fn right_checksums_are_good_and_any_flipped_bit_is_bad(
        v4: bool,
        tcp: bool,
        payload in prop::collection::vec(any::<u8>(), 0..200),
        at: prop::sample::Index,
        bit in 0u8..8,
        padding in 0usize..20,
    ) {
        let mut frame = frame(v4, tcp, &payload);
        let bytes = frame.len();
        frame.resize(bytes + padding, 0xa5);
        prop_assert_eq!(check(&frame), Verdict::Good);
        // Only the addresses of an IPv6 header are covered; other lengths make other frames.
        let start = transport_start(v4);
        let from = if v4 { start } else { 22 };
        let at = from + at.index(bytes - from);
        let in_length = !tcp && (start + 4..start + 6).contains(&at);
        let in_offset = tcp && at == start + 12;
        let mut wrong = frame.clone();
        wrong[at] ^= 1u8 << bit;
        // Flipping the only bit of a UDP checksum makes it 0, which means none.
        let no_sum = v4 && !tcp && wrong[start + 6..start + 8] == [0, 0];
        if !in_length && !in_offset && !no_sum {
            prop_assert_eq!(check(&wrong), Verdict::Bad, "byte {}", at);
        }
    }

    #[test]
    fn inserted_checksums_equal_those_of_etherparse(
        v4: bool, tcp: bool, payload in prop::collection::vec(any::<u8>(), 0..200), padding in 0usize..4,
    ) {
        let mut whole = frame(v4, tcp, &payload);
        whole.resize(whole.len() + padding, 0);
        let start = transport_start(v4);
        let field_at = start + if tcp { 16 } else { 6 };
        let mut prepared = whole.clone();
        if v4 {
            prepared[24..26].fill(0x5a);
        }
        prepared[field_at..field_at + 2].fill(0x5a);
        let Offload::Checksum(sums) = prepare(&mut prepared, None) else { panic!("nothing to insert") };
        prop_assert_eq!(sums.ip.is_some(), v4);
        if let Some(ip) = sums.ip {
            insert_as_the_card(&mut prepared, ip, false);
        }
        insert_as_the_card(&mut prepared, sums.transport.unwrap(), true);
        prop_assert_eq!(&prepared, &whole);
        // The same in software.
        if v4 {
            prepared[24..26].fill(0x5a);
        }
        prepared[field_at..field_at + 2].fill(0x5a);
        fill(&mut prepared);
        prop_assert_eq!(prepared, whole);
    }

    #[test]
    fn no_frame_makes_it_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..100),
        ethertype in prop::sample::select(vec![0x0800u16, 0x86dd]),
        mss: Option<u16>,
    ) {
        if bytes.len() > 14 {
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            bytes[14] = if ethertype == 0x0800 { 0x45 } else { 0x60 };
            if bytes.len() > 24 {
                bytes[20] &= 0x1f;
                bytes[23] = 6 + 11 * (bytes[23] & 1);
            }
        }
        check(&bytes);
        prepare(&mut bytes, mss);
        fill(&mut bytes);
    }
}

#[test]
fn fragments_are_detected() {
    let mut first = frame(true, false, &[1; 100]);
    first[20] |= 0x20;
    put(&mut first, 24, 0);
    let sum = checksum(&first[14..34]);
    put(&mut first, 24, sum);
    assert_eq!(check(&first), Verdict::Fragment);
    // Only the header's checksum can be inserted.
    let Offload::Checksum(sums) = prepare(&mut first, None) else { panic!("nothing to insert") };
    assert!(sums.ip.is_some() && sums.transport.is_none());
}

#[test]
fn udp_without_checksum_is_good_over_ipv4_only() {
    for v4 in [true, false] {
        let mut frame = frame(v4, false, b"payload");
        put(&mut frame, transport_start(v4) + 6, 0);
        assert_eq!(check(&frame), if v4 { Verdict::Good } else { Verdict::Bad });
    }
}

#[test]
fn ipv6_extension_headers_are_walked() {
    let plain = frame(false, true, b"payload");
    let mut extended = plain[..54].to_vec();
    extended[20] = 0; // hop-by-hop
    put(&mut extended, 18, (plain.len() - 54 + 16) as u16);
    extended.extend([6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    extended.extend(&plain[54..]);
    assert_eq!(check(&extended), Verdict::Good);
    *extended.last_mut().unwrap() ^= 1;
    assert_eq!(check(&extended), Verdict::Bad);
}

#[test]
fn headers_too_long_for_a_context_are_summed_in_software() {
    let plain = frame(false, true, b"payload");
    let mut extended = plain[..54].to_vec();
    extended[20] = 60; // destination options of 256 bytes
    put(&mut extended, 18, (plain.len() - 54 + 256) as u16);
    extended.extend([6, 31].into_iter().chain([0; 254]));
    extended.extend(&plain[54..]);
    put(&mut extended, 54 + 256 + 16, 0x1234);
    assert_eq!(prepare(&mut extended, None), Offload::None);
    assert_eq!(check(&extended), Verdict::Good);
}

#[test]
fn a_large_segment_is_prepared_as_the_manual_says() {
    for v4 in [true, false] {
        let mut large = frame(v4, true, &[7; 5000]);
        let start = transport_start(v4);
        let Offload::Segment(segmentation) = prepare(&mut large, Some(1460)) else { panic!("not cut") };
        assert_eq!(usize::from(segmentation.header_bytes), start + 20);
        assert_eq!((segmentation.payload_bytes, segmentation.mss), (5000, 1460));
        assert_eq!((segmentation.is_ipv4, segmentation.is_tcp), (v4, true));
        assert_eq!(segmentation.transport, field(start, start + 16, 0).unwrap());
        // SDM 3.5.7: the length is 0, and not in the pseudo-header's sum.
        let length = if v4 { 16 } else { 18 };
        assert_eq!(large[length..length + 2], [0, 0]);
        let addresses = if v4 { &large[26..34] } else { &large[22..54] };
        let seed = kpps_frames::checksum::Sum::new().with(addresses).with(&[0, 6]).folded();
        assert_eq!(large[start + 16..start + 18], seed.to_be_bytes());
        // A payload that fits into one frame is not segmented.
        let mut small = frame(v4, true, &[7; 1460]);
        assert!(matches!(prepare(&mut small, Some(1460)), Offload::Checksum(_)));
    }
}
