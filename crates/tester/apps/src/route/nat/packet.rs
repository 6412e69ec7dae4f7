//! Reading and rewriting of packets by a NAT. Checksums are updated, not recomputed (RFC 1624), so a wrong
//! one stays wrong. Only the checksum of an ICMP error, which was verified, is recomputed.

use crate::Reason;
use kpps_frames::{checksum, icmp, ipv4, tcp, udp};
use std::net::Ipv4Addr;

/// An address, and a port or the identifier of ICMP queries.
pub(in crate::route) type Endpoint = (Ipv4Addr, u16);

/// The protocol of ports or identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Transport {
    Udp,
    Tcp,
    /// ICMP echo and timestamp.
    Query,
}

/// The endpoints of a packet. Both endpoints of a query have its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) transport: Transport,
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    /// TCP flags.
    pub(super) flags: u8,
    /// Whether it is the reply to a query.
    pub(super) answers: bool,
}

impl Flow {
    /// Whether it begins a TCP connection.
    pub(super) fn opens(&self) -> bool {
        self.flags & tcp::SYN != 0
    }
    /// Whether it ends a TCP connection, at least in one direction.
    pub(super) fn closes(&self) -> bool {
        self.flags & tcp::FIN != 0 || self.flags & tcp::RST != 0
    }
}

/// A packet, as a NAT distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is part of a flow.
    Flow(Flow),
    /// An ICMP error about a packet of this flow.
    Error(Flow),
    /// A later fragment, which has no ports.
    LaterFragment,
    /// It has no port or identifier.
    Other,
}

/// One endpoint of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::route) enum Side {
    Source,
    Destination,
}

const FRAGMENT: usize = 6;
const PROTOCOL: usize = 9;
const HEADER_SUM: usize = 10;
const UDP_SUM: usize = 6;
const TCP_SUM: usize = 16;

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The offset of a fragment, in units of 8 bytes.
fn offset(bytes: &[u8]) -> u16 {
    word(bytes, FRAGMENT).unwrap_or(0) & 0x1fff
}

/// Whether a packet is the first of several fragments.
pub(super) fn is_first_fragment(bytes: &[u8]) -> bool {
    word(bytes, FRAGMENT).is_some_and(|word| word & 0x3fff == 0x2000)
}

const fn is_error(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 11 | 12)
}

/// The flow of a packet with this payload, or its beginning; `None` if it has no ports.
fn flow(bytes: &[u8], payload: &[u8]) -> Option<Flow> {
    let address = |at: usize| Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?));
    let (source, destination) = (address(12)?, address(16)?);
    let (transport, from, to, flags, answers) = match *bytes.get(PROTOCOL)? {
        ipv4::PROTOCOL_UDP => (Transport::Udp, word(payload, 0)?, word(payload, 2)?, 0, false),
        ipv4::PROTOCOL_TCP => (
            Transport::Tcp,
            word(payload, 0)?,
            word(payload, 2)?,
            payload.get(13).copied().unwrap_or(0),
            false,
        ),
        ipv4::PROTOCOL_ICMP => {
            let kind = *payload.first()?;
            if !matches!(kind, 0 | 8 | 13 | 14) {
                return None;
            }
            let id = word(payload, icmp::IDENTIFIER)?;
            (Transport::Query, id, id, 0, matches!(kind, 0 | 14))
        }
        _ => return None,
    };
    Some(Flow { transport, source: (source, from), destination: (destination, to), flags, answers })
}

/// The flow of the packet that an ICMP error quotes: a valid header, and at least 8 bytes more (RFC 792).
fn quoted(bytes: &[u8]) -> Option<Flow> {
    let header = usize::from(bytes.first()? & 15) * 4;
    let good = bytes[0] >> 4 == 4
        && header >= ipv4::HEADER_BYTES
        && bytes.len() >= header + 8
        && checksum::checksum(&bytes[..header]) == 0
        && offset(bytes) == 0;
    good.then(|| flow(bytes, &bytes[header..])).flatten()
}

/// Reads a packet with a valid header.
pub(super) fn read(bytes: &[u8]) -> Result<Kind, Reason> {
    let packet = ipv4::Packet::new_checked(bytes).map_err(|_| Reason::Malformed)?;
    if offset(bytes) != 0 {
        return Ok(Kind::LaterFragment);
    }
    let (payload, whole) = (packet.payload(), !packet.is_fragment());
    let good = match packet.protocol() {
        ipv4::PROTOCOL_UDP if whole => udp::Datagram::new_checked(payload).is_ok(),
        ipv4::PROTOCOL_UDP => payload.len() >= udp::HEADER_BYTES,
        ipv4::PROTOCOL_TCP => tcp::Segment::new_checked(payload).is_ok(),
        ipv4::PROTOCOL_ICMP => payload.len() >= icmp::HEADER_BYTES,
        _ => return Ok(Kind::Other),
    };
    if !good {
        return Err(Reason::Malformed);
    }
    if packet.protocol() == ipv4::PROTOCOL_ICMP && is_error(payload[0]) {
        // RFC 5508, REQ-3.
        return match quoted(&payload[icmp::HEADER_BYTES..]) {
            _ if !whole => Err(Reason::Malformed),
            _ if checksum::checksum(payload) != 0 => Err(Reason::BadChecksum),
            Some(flow) => Ok(Kind::Error(flow)),
            None => Err(Reason::Malformed),
        };
    }
    Ok(flow(bytes, payload).map_or(Kind::Other, Kind::Flow))
}

/// Replaces a word of a packet, and updates the checksums at `sums` that lie within the packet.
fn replace(bytes: &mut [u8], at: usize, new: u16, sums: &[usize]) {
    let Some(old) = word(bytes, at) else { return };
    bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
    for &at in sums {
        if let Some(sum) = word(bytes, at) {
            bytes[at..at + 2].copy_from_slice(&checksum::updated(sum, old, new).to_be_bytes());
        }
    }
}

/// Changes one endpoint of a packet, or of the quote in an error.
fn set_end(bytes: &mut [u8], side: Side, (address, port): Endpoint) {
    let Some(&first) = bytes.first() else { return };
    let header = usize::from(first & 15) * 4;
    let later = offset(bytes) != 0;
    let source = side == Side::Source;
    let port_at = header + if source { 0 } else { 2 };
    // The position of the port, of the checksum over it, and whether that covers the addresses.
    let (port_at, sum_at, over_addresses) = match bytes.get(PROTOCOL) {
        _ if later => (None, 0, false),
        Some(&ipv4::PROTOCOL_UDP) => (Some(port_at), header + UDP_SUM, true),
        Some(&ipv4::PROTOCOL_TCP) => (Some(port_at), header + TCP_SUM, true),
        Some(&ipv4::PROTOCOL_ICMP) => (Some(header + icmp::IDENTIFIER), header + icmp::CHECKSUM, false),
        _ => (None, 0, false),
    };
    let is_udp = bytes.get(PROTOCOL) == Some(&ipv4::PROTOCOL_UDP);
    let summed = !(is_udp && word(bytes, sum_at) == Some(0));
    let both = [HEADER_SUM, sum_at];
    let over = if port_at.is_some() && over_addresses && summed { &both[..] } else { &both[..1] };
    let address_at = if source { 12 } else { 16 };
    let [a, b, c, d] = address.octets();
    replace(bytes, address_at, u16::from_be_bytes([a, b]), over);
    replace(bytes, address_at + 2, u16::from_be_bytes([c, d]), over);
    if let Some(port_at) = port_at {
        replace(bytes, port_at, port, if summed { &both[1..] } else { &[] });
        // 0 means that there is none (RFC 768).
        if is_udp && summed && word(bytes, sum_at) == Some(0) {
            bytes[sum_at..sum_at + 2].fill(0xff);
        }
    }
}

/// Changes source or destination of a packet that [`read`] accepted. In an ICMP error, the quoted packet of
/// the opposite direction changes, too.
pub(in crate::route) fn set(bytes: &mut [u8], side: Side, to: Endpoint) {
    let Ok(mut packet) = ipv4::Packet::new_checked(&mut *bytes) else { return };
    let error = packet.protocol() == ipv4::PROTOCOL_ICMP
        && !packet.is_fragment()
        && packet.payload().len() >= icmp::HEADER_BYTES
        && is_error(packet.payload()[0]);
    if !error {
        // The bytes after the packet are padding.
        let total = packet.total_bytes();
        return set_end(&mut bytes[..total], side, to);
    }
    match side {
        Side::Source => packet.set_source(to.0),
        Side::Destination => packet.set_destination(to.0),
    }
    let other = if side == Side::Source { Side::Destination } else { Side::Source };
    let message = packet.payload_mut();
    set_end(&mut message[icmp::HEADER_BYTES..], other, to);
    icmp::put_checksum(message);
}
