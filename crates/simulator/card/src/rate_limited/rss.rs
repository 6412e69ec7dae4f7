//! Receive side scaling: the hash of a flow chooses the receive queue, so the frames of a flow stay in order
//! on one CPU. Also the length of headers, for cards that split them off.
//!
//! The hash is the Toeplitz hash (Microsoft, "RSS Hashing Functions") over both addresses, and both ports of
//! TCP and UDP if the frame has them.

use super::reg;
pub use kpps_frames::rss::KEY_BYTES;
use kpps_frames::rss::toeplitz;

/// Entries of the table, one for each value of the hash's low seven bits.
pub const ENTRIES: usize = 128;

/// The parts of an IP frame that the card parses.
struct Ip {
    /// The position of the two addresses, and their length together.
    addresses: (usize, usize),
    /// The position of the transport header, if it is TCP or UDP and not a fragment.
    transport: Option<usize>,
    tcp: bool,
}

/// Parses a frame of IPv4, or of IPv6 without extension headers, with or without a VLAN tag.
fn ip(frame: &[u8]) -> Option<Ip> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (kind, at) = match word(12)? {
        0x8100 => (word(16)?, 18),
        kind => (kind, 14),
    };
    let (protocol, addresses, end, whole) = match kind {
        0x0800 => {
            let header = usize::from(frame.get(at)? & 15) * 4;
            (*frame.get(at + 9)?, (at + 12, 8), at + header.max(20), word(at + 6)? & 0x3fff == 0)
        }
        0x86dd => (*frame.get(at + 6)?, (at + 8, 32), at + 40, true),
        _ => return None,
    };
    let known = whole && matches!(protocol, 6 | 17) && frame.len() >= end + 8;
    (frame.len() >= addresses.0 + addresses.1).then_some(Ip {
        addresses,
        transport: known.then_some(end),
        tcp: protocol == 6,
    })
}

/// The hash of a frame's flow; `None` if it is not IP.
pub fn hash(key: &[u8; KEY_BYTES], frame: &[u8]) -> Option<u32> {
    let Ip { addresses: (at, bytes), transport, .. } = ip(frame)?;
    let mut input = [0; 36];
    input[..bytes].copy_from_slice(frame.get(at..at + bytes)?);
    let Some(ports) = transport else { return Some(toeplitz(key, &input[..bytes])) };
    input[bytes..bytes + 4].copy_from_slice(frame.get(ports..ports + 4)?);
    Some(toeplitz(key, &input[..bytes + 4]))
}

/// The length of a frame's headers up to TCP or UDP, in bytes; `None` for other frames.
pub fn header_bytes(frame: &[u8]) -> Option<usize> {
    let Ip { transport, tcp, .. } = ip(frame)?;
    let at = transport?;
    let header = if tcp { usize::from(frame.get(at + 12)? >> 4).max(5) * 4 } else { 8 };
    Some(at + header).filter(|end| *end <= frame.len())
}

/// The key and table that the driver set.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    on: bool,
    key: [u8; KEY_BYTES],
    table: [u8; ENTRIES],
}

impl Default for Spread {
    fn default() -> Self {
        Self { on: false, key: [0; KEY_BYTES], table: [0; ENTRIES] }
    }
}

impl Spread {
    pub(super) fn set(&mut self, on: bool) {
        self.on = on;
    }

    /// Writes the register at `offset`; `false` if it is none of these.
    pub(super) fn write(&mut self, offset: u32, value: u32) -> bool {
        let within = |first: u32, bytes: usize| {
            let at = offset.checked_sub(first)? as usize;
            (at.is_multiple_of(4) && at < bytes).then_some(at)
        };
        if let Some(at) = within(reg::RSS_KEY, KEY_BYTES) {
            self.key[at..at + 4].copy_from_slice(&value.to_le_bytes());
        } else if let Some(at) = within(reg::RSS_TABLE, ENTRIES) {
            self.table[at..at + 4].copy_from_slice(&value.to_le_bytes());
        } else {
            return false;
        }
        true
    }

    /// The queue of a frame; frames without a hash go to the first.
    #[inline]
    pub(super) fn queue(&self, frame: &[u8]) -> usize {
        if !self.on {
            return 0;
        }
        hash(&self.key, frame).map_or(0, |hash| self.table[hash as usize % ENTRIES].into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::rss::{VERIFICATION_FLOWS, VERIFICATION_KEY as KEY};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn frame(kind: u16, vlan: bool, ip: &[u8], protocol: u8, ports: (u16, u16)) -> Vec<u8> {
        let mut frame = vec![0; 12];
        if vlan {
            frame.extend([0x81, 0, 0, 7]);
        }
        frame.extend(kind.to_be_bytes());
        frame.extend(ip);
        frame.extend(ports.0.to_be_bytes());
        frame.extend(ports.1.to_be_bytes());
        frame.extend([0; 8]);
        frame.extend(if protocol == 6 { [0x80, 0x10] } else { [0, 0] });
        frame.extend([0; 40]);
        frame
    }

    fn ipv4(from: &str, to: &str, protocol: u8, fragment: u16) -> Vec<u8> {
        let mut header = vec![0x45, 0, 0, 0, 0, 0];
        header.extend(fragment.to_be_bytes());
        header.extend([64, protocol, 0, 0]);
        header.extend(from.parse::<Ipv4Addr>().unwrap().octets());
        header.extend(to.parse::<Ipv4Addr>().unwrap().octets());
        header
    }

    fn ipv6(from: &str, to: &str, protocol: u8) -> Vec<u8> {
        let mut header = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        header.extend(from.parse::<Ipv6Addr>().unwrap().octets());
        header.extend(to.parse::<Ipv6Addr>().unwrap().octets());
        header
    }

    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        for vlan in [false, true] {
            for (from, from_port, to, to_port, addresses, ports) in VERIFICATION_FLOWS {
                let of = |protocol, fragment| {
                    let (kind, ip) = match from.contains(':') {
                        true => (0x86dd, ipv6(from, to, protocol)),
                        false => (0x0800, ipv4(from, to, protocol, fragment)),
                    };
                    hash(&KEY, &frame(kind, vlan, &ip, protocol, (from_port, to_port)))
                };
                assert_eq!(of(6, 0), Some(ports), "{from}");
                if from.contains(':') {
                    assert_eq!(of(58, 0), Some(addresses), "{from}");
                    continue;
                }
                assert_eq!(of(17, 0x4000), Some(ports), "{from}, not to be fragmented");
                assert_eq!(of(17, 0x2000), Some(addresses), "{from}, a fragment");
                assert_eq!(of(1, 0), Some(addresses), "{from}, neither TCP nor UDP");
            }
        }
        assert_eq!(hash(&KEY, &frame(0x0806, false, &[0; 28], 0, (0, 0))), None, "ARP");
    }

    #[test]
    fn headers_end_where_data_begins() {
        let udp = ipv4("10.0.0.1", "10.0.0.2", 17, 0);
        let tcp = ipv6("::1", "::2", 6);
        assert_eq!(header_bytes(&frame(0x0800, false, &udp, 17, (1, 2))), Some(14 + 20 + 8));
        // A TCP header of eight words.
        assert_eq!(header_bytes(&frame(0x86dd, true, &tcp, 6, (1, 2))), Some(18 + 40 + 32));
        let fragment = ipv4("10.0.0.1", "10.0.0.2", 17, 100);
        assert_eq!(header_bytes(&frame(0x0800, false, &fragment, 17, (1, 2))), None);
        assert_eq!(header_bytes(&frame(0x0800, false, &udp, 17, (1, 2))[..41]), None, "cut off");
    }

    proptest! {
        #[test]
        fn no_frame_makes_the_parser_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kind in 0..4usize,
        ) {
            let mut frame = bytes;
            if let Some(place) = frame.get_mut(12..14) {
                place.copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x81, 0], [0x12, 0x34]][kind]);
            }
            let _ = hash(&KEY, &frame);
            prop_assert!(header_bytes(&frame).is_none_or(|bytes| (22..=frame.len()).contains(&bytes)));
        }
    }
}
