//! Equal frames, given to the kernel as one message.
//!
//! The kernel cuts it into frames before their interface: generic segmentation offload of UDP, in software.
//! So all frames together pay for one pass through the kernel. Only IPv4 datagrams without a UDP checksum are
//! joined. The frames cut apart differ in two fields from the original: identifications count up, and there
//! is a UDP checksum, as in the kernel's own frames.

use kpps_frames::checksum::{Sum, updated};
use kpps_frames::{ethernet, ipv4, tag, udp};
use kpps_linux::rings::packet::{Cut, Taken};
use std::ops::Range;

/// Where the headers of a frame without VLAN tag begin.
const IP: usize = ethernet::HEADER_BYTES;
const UDP: usize = IP + ipv4::HEADER_BYTES;
const PAYLOAD: usize = tag::OFFSET;
const IP_LENGTH: Range<usize> = IP + 2..IP + 4;
const IP_CHECKSUM: Range<usize> = IP + 10..IP + 12;
const UDP_LENGTH: Range<usize> = UDP + 4..UDP + 6;
const UDP_CHECKSUM: Range<usize> = UDP + 6..UDP + 8;

/// A message: the headers of its first frame, and the payloads of all.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
    /// Its largest size in bytes.
    most: usize,
    frames: usize,
    /// Bytes of each frame.
    each: usize,
    /// Whether frames may be joined to the first one.
    open: bool,
}

impl Message {
    /// An empty one of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: Vec::with_capacity(most), most, frames: 0, each: 0, open: false }
    }

    /// Adds a frame if it has the length and the headers of the first one.
    #[inline]
    pub(super) fn add(&mut self, frame: &[u8]) -> bool {
        if self.frames == 0 {
            self.bytes.extend_from_slice(frame);
            (self.frames, self.each, self.open) = (1, frame.len(), can_be_joined(frame));
            return true;
        }
        let fits =
            self.open && frame.len() == self.each && self.bytes.len() + self.each - PAYLOAD <= self.most;
        if !fits || frame[..PAYLOAD] != self.bytes[..PAYLOAD] {
            return false;
        }
        self.bytes.extend_from_slice(&frame[PAYLOAD..]);
        self.frames += 1;
        true
    }

    /// Completes the headers, and returns how the kernel must cut the message. No frame may be added
    /// afterwards.
    pub(super) fn close(&mut self) -> Cut {
        let length_from = |at: usize| (self.bytes.len() - at) as u16;
        let packet = match ipv4::Packet::new_checked(self.bytes.get(IP..).unwrap_or_default()) {
            Ok(packet) if self.frames > 1 => packet,
            _ => return Cut::none(self.bytes.len()),
        };
        let (ip_length, udp_length) = (length_from(IP), length_from(UDP));
        let ip_sum = updated(packet.checksum(), packet.total_bytes() as u16, ip_length);
        let (from, to) = (packet.source(), packet.destination());
        let pseudo_header = Sum::pseudo_header(from, to, ipv4::PROTOCOL_UDP, udp_length).folded();
        for (place, value) in [
            (IP_LENGTH, ip_length),
            (IP_CHECKSUM, ip_sum),
            (UDP_LENGTH, udp_length),
            (UDP_CHECKSUM, pseudo_header),
        ] {
            self.bytes[place].copy_from_slice(&value.to_be_bytes());
        }
        Cut::datagrams(self.bytes.len(), self.each - PAYLOAD, UDP, UDP_CHECKSUM.start - UDP)
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.frames = 0;
    }

    /// Its frames, and their bytes once it is cut.
    pub(super) fn contents(&self) -> Taken {
        Taken { frames: self.frames as u64, bytes: (self.frames * self.each) as u64 }
    }

    /// Its bytes, as one frame.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether a frame is a whole IPv4 datagram without options, padding, VLAN tag or UDP checksum.
fn can_be_joined(frame: &[u8]) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else { return false };
    let Ok(packet) = ipv4::Packet::new_checked(frame.payload()) else { return false };
    let Ok(datagram) = udp::Datagram::new_checked(packet.payload()) else { return false };
    frame.header_bytes() == IP
        && frame.ethertype() == ethernet::TYPE_IPV4
        && packet.header_bytes() == ipv4::HEADER_BYTES
        && packet.total_bytes() == frame.payload().len()
        && packet.protocol() == ipv4::PROTOCOL_UDP
        && !packet.is_fragment()
        && datagram.length() == packet.payload().len()
        && !datagram.payload().is_empty()
        && datagram.checksum() == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::{Size, Tag};
    use proptest::prelude::*;

    fn frame(bytes: u16, sequence: u64) -> Vec<u8> {
        let mut frame = udp_test(&Flow::default(), Size::without_fcs(bytes)).unwrap();
        tag::write(&mut frame, Tag { stream: 1, sequence, sent_ps: 7 }).unwrap();
        frame
    }

    proptest! {
        /// A message has the headers of one packet and the payloads of the frames in order, and is never
        /// longer than its limit.
        #[test]
        fn a_message_is_a_packet_with_all_payloads(bytes in 60u16..1515, count in 1u32..200, most in 1600usize..4000) {
            let mut message = Message::new(most);
            let added = (0..count).take_while(|sequence| message.add(&frame(bytes, (*sequence).into()))).count();
            message.close();
            let contents = message.contents();
            prop_assert!(added as u64 == contents.frames && message.bytes().len() <= most);
            prop_assert!(added == count as usize || message.bytes().len() + usize::from(bytes) - PAYLOAD > most);
            prop_assert_eq!(contents.bytes, added as u64 * u64::from(bytes));
            let packet = ipv4::Packet::new_checked(&message.bytes()[IP..]).unwrap();
            prop_assert!(packet.checksum_ok());
            prop_assert_eq!(packet.total_bytes(), message.bytes().len() - IP);
            let datagram = udp::Datagram::new_checked(packet.payload()).unwrap();
            let payloads: Vec<u8> = (0..added as u64).flat_map(|it| frame(bytes, it)[PAYLOAD..].to_vec()).collect();
            prop_assert_eq!(datagram.payload(), &payloads[..]);
            if added > 1 {
                // The place of the checksum holds the sum of the pseudo-header; with it, the rest sums up to
                // the checksum.
                let rest = Sum::new().with(&packet.payload()[..6]).with(datagram.payload());
                let whole = Sum::pseudo_header(packet.source(), packet.destination(), 17, datagram.length() as u16)
                    .with(&packet.payload()[..6]).with(datagram.payload());
                let kept = rest.with(&datagram.checksum().to_be_bytes());
                prop_assert_eq!(kept.checksum(), whole.checksum());
            }
            message.clear();
            prop_assert!(message.add(&frame(60, 1)) && message.contents().frames == 1);
        }
    }

    #[test]
    fn only_frames_alike_are_joined() {
        let joins = |one: &[u8], other: &[u8]| {
            let mut message = Message::new(2000);
            assert!(message.add(one));
            message.add(other)
        };
        let first = frame(100, 1);
        assert!(joins(&first, &frame(100, 2)));
        assert!(!joins(&first, &frame(101, 2)), "another length");
        let other = Flow { to: ([198, 18, 1, 9].into(), 9), ..Flow::default() };
        assert!(!joins(&first, &udp_test(&other, Size::without_fcs(100)).unwrap()), "another flow");
        let with = |at: usize, byte: u8| {
            let mut frame = first.clone();
            frame[at] = byte;
            frame
        };
        for (place, why) in [
            (12, "not IPv4"),
            (IP, "options"),
            (IP_LENGTH.start + 1, "padding"),
            (IP + 6, "a fragment"),
            (IP + 7, "a later fragment"),
            (IP + 9, "not UDP"),
            (UDP_LENGTH.start, "another length"),
            (UDP_CHECKSUM.start, "a checksum"),
        ] {
            let odd = with(place, 0x27);
            assert!(!joins(&odd, &odd), "{why}");
        }
        let tagged = udp_test(&Flow { vlan: Some(5), ..Flow::default() }, Size::without_fcs(100)).unwrap();
        assert!(!joins(&tagged, &tagged));
        assert!(!joins(&first[..20], &first[..20]) && !joins(&[], &[]));
    }

    #[test]
    fn the_kernel_is_told_where_to_cut() {
        let mut message = Message::new(2000);
        message.add(&frame(60, 1));
        assert_eq!(message.close().to_bytes(), Cut::none(60).to_bytes());
        message.add(&frame(60, 2));
        let ([a, b], [c, d]) = (78_u16.to_ne_bytes(), 18_u16.to_ne_bytes());
        let ([e, f], [g, h]) = (34_u16.to_ne_bytes(), 6_u16.to_ne_bytes());
        assert_eq!(message.close().to_bytes(), [1, 5, a, b, c, d, e, f, g, h]);
    }
}
