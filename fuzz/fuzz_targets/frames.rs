//! The parsers of frames and captures against arbitrary bytes.
#![no_main]

use kpps_frames::{ethernet, ipv4, pcap, tag, tcp, udp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = tag::read(bytes);
    if let Ok(frame) = ethernet::Frame::new_checked(bytes)
        && let Ok(packet) = ipv4::Packet::new_checked(frame.payload())
    {
        let _ = packet.checksum_ok();
        let _ = udp::Datagram::new_checked(packet.payload());
        let _ = tcp::Segment::new_checked(packet.payload());
    }
    if let Ok(frames) = pcap::capture(bytes) {
        assert!(frames.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    }
});
