//! The parsers of frames and captures, and what an end station checks and sends, against arbitrary bytes.

use kpps_frames::capture::Capture;
use kpps_frames::flows::{Addresses, Mapping, PortNumbers};
use kpps_frames::headers::{self, Fields, Headers};
use kpps_frames::raw::from_hex;
use kpps_frames::{Encap, RawPacket, Tag, ethernet, ipv4, tag, tcp, udp};

/// Reads bytes as a frame, as text of one, and as a capture.
pub fn run(bytes: &[u8]) {
    let _ = tag::read(bytes);
    let _ = (headers::flow(bytes), headers::addresses(bytes));
    let mut changed = bytes.to_vec();
    let address = Some([198, 18, 0, 1].into());
    Fields { from: address, to: address, sport: Some(1), dscp: Some(46), hops: Some(1), ..Fields::default() }
        .write(&mut changed);
    if let Some(headers) = Headers::of(bytes) {
        headers.put_checksums(&mut changed);
    }
    if let Ok(packet) = RawPacket::of(bytes) {
        let tag = Tag { stream: 1, sequence: 2, sent_ps: 3 };
        let mut frame = packet.bytes.clone();
        tag::TagFormat::balanced(packet.tag).write(&mut frame, tag).expect("room for the tag");
        assert_eq!(tag::TagFormat::balanced(packet.tag).read(&frame), Some((tag, packet.tag.into())));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = from_hex(text);
        if let Ok(encap) = text.parse::<Encap>() {
            assert_eq!(encap.to_string().parse(), Ok(encap));
        }
        let _ = (text.parse::<Addresses>(), text.parse::<PortNumbers>(), text.parse::<Mapping>());
    }
    if let Ok(frame) = ethernet::Frame::new_checked(bytes)
        && let Ok(packet) = ipv4::Packet::new_checked(frame.payload())
    {
        let _ = packet.checksum_ok();
        let _ = udp::Datagram::new_checked(packet.payload());
        let _ = tcp::Segment::new_checked(packet.payload());
    }
    kpps_netstack::fuzzing::read(bytes);
    for frame in Capture::new(bytes).into_iter().flatten().flatten() {
        assert!(frame.bytes.len() <= frame.length);
    }
}
