//! The positions of the checksums in a frame.

use core::ops::Range;
use kpps_frames::checksum::Sum;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: usize = 14;
/// EtherTypes (IANA).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Protocol numbers (IANA).
const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// The part of IPv4's third word that makes a fragment: more fragments, offset.
const FRAGMENT_MASK: u16 = 0x3fff;

/// An IP packet in a frame.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The IPv4 header; `None`: IPv6.
    pub(crate) ipv4: Option<Range<usize>>,
    /// The contents of the packet.
    pub(crate) content: Content,
}

/// The contents of an IP packet.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A complete TCP segment or UDP datagram.
    Transport(Transport),
    /// A fragment of a TCP segment or UDP datagram, or of what may be one.
    Fragment,
    /// An invalid TCP or UDP header.
    Broken,
    /// Another protocol.
    Other,
}

/// A TCP segment or UDP datagram.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    pub(crate) protocol: u8,
    /// Its bytes in the frame.
    pub(crate) bytes: Range<usize>,
    /// The position of its checksum in the frame.
    pub(crate) field: usize,
    /// The sum of both addresses.
    addresses: Sum,
}

impl Transport {
    pub(crate) const fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }

    /// The sum of the pseudo-header for `bytes` bytes of header and payload.
    pub(crate) fn pseudo_header(&self, bytes: usize) -> Sum {
        self.addresses.with(&[0, 0, 0, self.protocol]).with(&(bytes as u32).to_be_bytes())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

impl Layout {
    /// The layout of `frame` (without FCS); `None` if it holds no valid IP packet.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        match word(frame, 12)? {
            IPV4 => Self::of_ipv4(frame),
            IPV6 => Self::of_ipv6(frame),
            _ => None,
        }
    }

    fn of_ipv4(frame: &[u8]) -> Option<Self> {
        let version = *frame.get(ETHERNET_BYTES)?;
        let header = ETHERNET_BYTES..ETHERNET_BYTES + 4 * usize::from(version & 15);
        let fields = frame.get(header.clone()).filter(|_| version >> 4 == 4 && header.len() >= 20)?;
        let end = match word(fields, 2)? {
            // Longer than the field allows: a packet to be segmented.
            0 => frame.len(),
            total => ETHERNET_BYTES + usize::from(total),
        };
        let packet = frame.get(..end).filter(|_| end >= header.end)?;
        let protocol = fields[9];
        let content = if !matches!(protocol, TCP | UDP) {
            Content::Other
        } else if word(fields, 6)? & FRAGMENT_MASK != 0 {
            Content::Fragment
        } else {
            content(packet, header.end, protocol, Sum::new().with(&fields[12..20]))
        };
        Some(Self { ipv4: Some(header), content })
    }

    fn of_ipv6(frame: &[u8]) -> Option<Self> {
        let mut at = ETHERNET_BYTES + 40;
        let fields = frame.get(ETHERNET_BYTES..at).filter(|fields| fields[0] >> 4 == 6)?;
        let end = match word(fields, 4)? {
            0 => frame.len(),
            payload => at + usize::from(payload),
        };
        let packet = frame.get(..end)?;
        let mut protocol = fields[6];
        while matches!(protocol, HOP_BY_HOP | ROUTING | DESTINATION) {
            let extension = packet.get(at..)?.first_chunk::<2>()?;
            protocol = extension[0];
            at += 8 + 8 * usize::from(extension[1]);
        }
        let content = match protocol {
            TCP | UDP => content(packet, at, protocol, Sum::new().with(&fields[8..40])),
            FRAGMENT => Content::Fragment,
            _ => Content::Other,
        };
        Some(Self { ipv4: None, content })
    }
}

/// The contents of a packet from byte `start` on.
fn content(packet: &[u8], start: usize, protocol: u8, addresses: Sum) -> Content {
    let (header, offset) = if protocol == TCP { (20, 16) } else { (8, 6) };
    let Some(available) = packet.len().checked_sub(start).filter(|&bytes| bytes >= header) else {
        return Content::Broken;
    };
    let bytes = match (protocol, word(packet, start + 4)) {
        // A datagram may be shorter than its packet.
        (UDP, Some(length)) if length != 0 => usize::from(length),
        _ => available,
    };
    if !(header..=available).contains(&bytes) {
        return Content::Broken;
    }
    let bytes = start..start + bytes;
    Content::Transport(Transport { protocol, bytes, field: start + offset, addresses })
}
