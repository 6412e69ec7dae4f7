//! Superpackets: frames of one flow that a kernel or a card has merged into one (GRO, LRO), or that are not
//! cut yet (TSO, UDP's segmentation offload). Their payloads follow the headers of the first one.

use crate::headers::{Headers, NO_FRAGMENTS};
use crate::{field, ipv4, tcp, udp};

/// Where TCP has its sequence number and its flags.
const SEQUENCE: usize = 4;
const FLAGS: usize = 13;
/// Flags that only the last segment has, and the flag that only the first has (RFC 3168, 6.1.2).
const LAST_ONLY: u8 = tcp::FIN | tcp::PSH;
const CWR: u8 = 0x80;

/// The shape of a superpacket: where it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superpacket {
    headers: Headers,
    /// Where the payload begins.
    payload: usize,
    /// Payload of each frame in bytes; the last one may have less.
    each: usize,
}

impl Superpacket {
    /// The segments of a packet of `bytes` bytes, with `each` bytes of payload in a frame; `beginning` holds
    /// at least the headers. `None` if the packet cannot be cut: it is not TCP or UDP, or it is a fragment.
    pub fn of(beginning: &[u8], bytes: usize, each: usize) -> Option<Self> {
        let headers = Headers::of_part(beginning, bytes)?;
        let is_known = matches!(headers.protocol, ipv4::PROTOCOL_TCP | ipv4::PROTOCOL_UDP);
        let payload = headers.payload(beginning);
        (is_known && headers.whole && each > 0).then_some(Self { headers, payload, each })
    }

    /// Where its transport header begins.
    pub fn transport(&self) -> usize {
        self.headers.transport
    }

    /// The number of its frames, at least 1.
    pub fn frames(&self) -> usize {
        (self.headers.end - self.payload).div_ceil(self.each).max(1)
    }

    /// Writes the frame with this number, counted from 0, in its form on the wire, but without padding.
    /// Returns its bytes; `None` if there is no such frame, or it does not fit.
    pub fn write(&self, packet: &[u8], number: usize, into: &mut [u8]) -> Option<usize> {
        let Self { headers, payload, each } = *self;
        let count = self.frames();
        let first = payload + number.checked_mul(each).filter(|_| number < count)?;
        let last = (first + each).min(headers.end);
        let bytes = payload + (last - first);
        let frame = into.get_mut(..bytes)?;
        let (head, rest) = frame.split_at_mut(payload);
        head.copy_from_slice(packet.get(..payload)?);
        rest.copy_from_slice(packet.get(first..last)?);
        let (ip, transport) = head.split_at_mut(headers.transport);
        let length = (bytes - headers.transport) as u16;
        let ip = &mut ip[headers.ip..];
        if headers.is_ipv6 {
            // Extension headers count as payload.
            let extensions = ip.len() - crate::ipv6::HEADER_BYTES;
            field::put_u16(ip, 4, extensions as u16 + length);
        } else {
            field::put_u16(ip, 2, ip.len() as u16 + length);
            let identification = field::u16(ip, 4);
            // A packet that may not be cut into fragments needs no identification, and often has none (RFC
            // 6864, 4.1).
            if identification != 0 || field::u16(ip, 6) & NO_FRAGMENTS == 0 {
                field::put_u16(ip, 4, identification.wrapping_add(number as u16));
            }
        }
        if headers.protocol == ipv4::PROTOCOL_UDP {
            field::put_u16(transport, udp::LENGTH, length);
        } else {
            let sequence = field::u32(transport, SEQUENCE).wrapping_add((first - payload) as u32);
            field::put_u32(transport, SEQUENCE, sequence);
            if number + 1 < count {
                transport[FLAGS] &= !LAST_ONLY;
            }
            if number > 0 {
                transport[FLAGS] &= !CWR;
            }
        }
        Headers { end: bytes, ..headers }.put_checksums(frame);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::build::{Flow, tcp as tcp_frame, udp_test};
    use crate::checksum::checksum;
    use crate::{Size, ethernet};
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::Ipv6Addr;
    use proptest::prelude::*;

    /// The frames of a superpacket, as the wire had them: each made by itself.
    fn on_the_wire(kind: usize, payload: &[u8], each: usize) -> Vec<Vec<u8>> {
        let flow = Flow { vlan: (kind % 2 == 1).then_some(5), ..Flow::default() };
        let chunks: Vec<&[u8]> = payload.chunks(each).collect();
        let frame = |number: usize, chunk: &[u8]| {
            let mut frame = if kind < 2 {
                let flags = tcp::ACK | if number + 1 == chunks.len() { tcp::PSH } else { 0 };
                let sequence = (u32::MAX - 99).wrapping_add((number * each) as u32);
                let fields = tcp::Fields { sequence, acknowledgement: 2, flags, window: 3 };
                tcp_frame(&flow, fields, chunk).unwrap()
            } else {
                let v6 = |last| Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last);
                let Flow { from_mac, to_mac, vlan, .. } = flow;
                let ipv6 = Flow { from_mac, to_mac, vlan, from: (v6(1), 7), to: (v6(2), 8) };
                let headers = if kind < 4 { 62 } else { 42 } + if vlan.is_some() { 4 } else { 0 };
                let size = Size::without_fcs((headers + chunk.len()).max(headers + 18) as u16);
                let mut frame = match kind {
                    2 | 3 => udp_test(&ipv6, size).unwrap(),
                    // With a checksum, which is right below.
                    _ => udp_test(&flow, size).unwrap(),
                };
                frame.truncate(headers);
                frame.extend_from_slice(chunk);
                let ip = if vlan.is_some() { 18 } else { 14 };
                let udp_bytes = (8 + chunk.len()) as u16;
                if kind < 4 {
                    field::put_u16(&mut frame, ip + 4, udp_bytes);
                    field::put_u16(&mut frame, ip + 44, udp_bytes);
                } else {
                    field::put_u16(&mut frame, ip + 2, 20 + udp_bytes);
                    field::put_u16(&mut frame, ip + 24, udp_bytes);
                    field::put_u16(&mut frame, ip + 26, 1);
                }
                frame
            };
            let headers = Headers::of(&frame).unwrap();
            frame.truncate(headers.end);
            if !headers.is_ipv6 {
                field::put_u16(&mut frame, headers.ip + 4, 0xfff0_u16.wrapping_add(number as u16));
            }
            headers.put_checksums(&mut frame);
            frame
        };
        chunks.iter().enumerate().map(|(number, chunk)| frame(number, chunk)).collect()
    }

    /// The superpacket that a kernel makes of these frames.
    fn merged(frames: &[Vec<u8>]) -> Vec<u8> {
        let headers = Headers::of(&frames[0]).unwrap();
        let start = headers.payload(&frames[0]);
        let mut all = frames[0][..start].to_vec();
        frames.iter().for_each(|frame| all.extend_from_slice(&frame[start..]));
        let length = all.len() - headers.ip;
        match headers.is_ipv6 {
            true => field::put_u16(&mut all, headers.ip + 4, (length - 40) as u16),
            false => field::put_u16(&mut all, headers.ip + 2, length as u16),
        }
        if headers.protocol == ipv4::PROTOCOL_TCP {
            all[headers.transport + FLAGS] |= frames.last().unwrap()[headers.transport + FLAGS];
        }
        all
    }

    proptest! {
        /// A superpacket is cut into the frames that were on the wire, byte for byte.
        #[test]
        fn frames_come_apart_as_they_were(
            kind in 0usize..6,
            each in 18usize..200,
            payload in proptest::collection::vec(any::<u8>(), 18..4000),
        ) {
            let wire = on_the_wire(kind, &payload, each);
            let packet = merged(&wire);
            let shape = Superpacket::of(&packet, packet.len(), each).unwrap();
            prop_assert_eq!(shape.frames(), wire.len());
            // The shape is in the headers.
            prop_assert_eq!(Superpacket::of(&packet[..90.min(packet.len())], packet.len(), each), Some(shape));
            for (number, expected) in wire.iter().enumerate() {
                let mut frame = vec![0; expected.len()];
                prop_assert_eq!(shape.write(&packet, number, &mut frame), Some(expected.len()));
                prop_assert_eq!(&frame, expected, "{}", number);
                prop_assert_eq!(shape.write(&packet, number, &mut frame[1..]), None, "too long");
            }
            prop_assert_eq!(shape.write(&packet, wire.len(), &mut [0; 9000]), None);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>, kind in 0..3_usize, more in 0..9_usize, each in 0..99_usize) {
            let mut bytes = bytes;
            let kinds = [ethernet::TYPE_IPV4, ethernet::TYPE_IPV6, ethernet::TYPE_VLAN];
            if let Some(place) = bytes.get_mut(12..14) {
                place.copy_from_slice(&kinds[kind].to_be_bytes());
            }
            if let Some(shape) = Superpacket::of(&bytes, bytes.len() + more, each) {
                for number in 0..=shape.frames() {
                    let _ = shape.write(&bytes, number, &mut [0; 2048]);
                }
            }
        }
    }

    #[test]
    fn a_packet_without_identification_stays_without() {
        let mut packet = merged(&on_the_wire(0, &[7; 100], 50));
        field::put_u16(&mut packet, 14 + 4, 0);
        field::put_u16(&mut packet, 14 + 6, NO_FRAGMENTS);
        let shape = Superpacket::of(&packet, packet.len(), 50).unwrap();
        let mut frame = [0; 2048];
        assert_eq!(shape.write(&packet, 1, &mut frame), Some(14 + 40 + 50));
        assert_eq!((field::u16(&frame, 18), checksum(&frame[14..34])), (0, 0));
        // The numbers of a packet that may be cut count up.
        field::put_u16(&mut packet, 14 + 6, 0);
        shape.write(&packet, 1, &mut frame).unwrap();
        assert_eq!(field::u16(&frame, 18), 1);
    }

    #[test]
    fn what_has_no_payload_to_cut_is_refused() {
        let packet = merged(&on_the_wire(4, &[7; 100], 50));
        let of = |packet: &[u8], each| Superpacket::of(packet, packet.len(), each);
        assert!(of(&packet, 50).is_some() && of(&packet, 0).is_none());
        let with = |at: usize, value: u8| {
            let mut other = packet.clone();
            other[at] = value;
            other
        };
        assert_eq!(of(&with(14 + 9, 47), 50), None, "a tunnel");
        assert_eq!(of(&with(14 + 6, 0x20), 50), None, "a fragment");
        assert_eq!(of(&with(12, 0), 50), None, "not IP");
    }
}
