//! ICMP (RFC 792): Click's `ICMPError` and `ICMPPingResponder`.

use super::{ETHERNET, check::Destination, class_of};
use crate::Reason;
use kpps_frames::{checksum, ethernet, ipv4};
use std::net::Ipv4Addr;

/// The protocol number.
pub(super) const PROTOCOL: u8 = 1;
const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;
/// Types that are no errors (RFC 1122 3.2.2): an error is never answered with another.
const QUERIES: [u8; 10] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18];
/// Bytes of an ICMP header.
const HEADER: usize = 8;
/// The longest error, in bytes from its IP header on (RFC 1812 4.3.2.3).
const MOST: usize = 576;
/// Internetwork control (RFC 1812 4.3.2.5).
const PRECEDENCE: u8 = 0xc0;

/// Errors a second, and how many of them at once.
const RATE: u64 = 1000;
const BURST: u64 = 50;

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    NetUnreachable,
    HostUnreachable,
    ProtocolUnreachable,
    PortUnreachable,
    /// The longest packet that fits.
    TooBig(u16),
    TimeExceeded,
}

impl Trouble {
    /// Type, code, and the second word.
    const fn code(self) -> (u8, u8, u32) {
        match self {
            Self::NetUnreachable => (3, 0, 0),
            Self::HostUnreachable => (3, 1, 0),
            Self::ProtocolUnreachable => (3, 2, 0),
            Self::PortUnreachable => (3, 3, 0),
            Self::TooBig(mtu) => (3, 4, mtu as u32),
            Self::TimeExceeded => (11, 0, 0),
        }
    }
}

/// How many errors there were, and may be.
#[derive(Debug, Default)]
pub(super) struct Icmp {
    pub(super) sent: u64,
    pub(super) limited: u64,
    /// When all errors sent so far would have been allowed at the steady rate.
    paid_until_ns: u64,
}

impl Icmp {
    /// Whether another error may be sent now; counts it if not.
    pub(super) fn allows(&mut self, now_ns: u64) -> bool {
        const EACH_NS: u64 = 1_000_000_000 / RATE;
        let paid = self.paid_until_ns.max(now_ns);
        if paid - now_ns > (BURST - 1) * EACH_NS {
            self.limited += 1;
            return false;
        }
        self.paid_until_ns = paid + EACH_NS;
        true
    }
}

/// A frame with an error, but for its station addresses.
pub(super) struct ErrorFrame {
    bytes: [u8; ETHERNET + MOST],
    length: usize,
}

impl ErrorFrame {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The error about the packet in `frame`, and to whom it goes; `None` if there must be none (RFC 1812
/// 4.3.2.7).
pub(super) fn error(from: Ipv4Addr, trouble: Trouble, frame: &[u8]) -> Option<(ErrorFrame, Ipv4Addr)> {
    let eth = ethernet::Frame::new_checked(frame).ok()?;
    let packet = ipv4::Packet::new_checked(eth.payload()).ok()?;
    let to = packet.source();
    let later_piece = u16::from_be_bytes([eth.payload()[6], eth.payload()[7]]) & 0x1fff != 0;
    let about_error =
        packet.protocol() == PROTOCOL && !packet.payload().first().is_some_and(|kind| QUERIES.contains(kind));
    let group = eth.destination().is_multicast() || class_of(packet.destination()) == Destination::Never;
    if later_piece || about_error || group || class_of(to) == Destination::Never {
        return None;
    }
    let quoted = &eth.payload()[..packet.total_bytes().min(MOST - ipv4::HEADER_BYTES - HEADER)];
    let total = ipv4::HEADER_BYTES + HEADER + quoted.len();
    let mut error = ErrorFrame { bytes: [0; ETHERNET + MOST], length: ETHERNET + total };
    error.bytes[12..14].copy_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
    let (ip, icmp) = error.bytes[ETHERNET..ETHERNET + total].split_at_mut(ipv4::HEADER_BYTES);
    ip[0] = 0x45;
    ip[1] = PRECEDENCE;
    ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    ip[8] = 64;
    ip[9] = PROTOCOL;
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&to.octets());
    let sum = checksum::checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let (kind, code, word) = trouble.code();
    (icmp[0], icmp[1]) = (kind, code);
    icmp[4..8].copy_from_slice(&word.to_be_bytes());
    icmp[HEADER..].copy_from_slice(quoted);
    let sum = checksum::checksum(icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    Some((error, to))
}

/// Turns an echo request, given from its IP header on, into its answer.
///
/// # Errors
/// Why it is none: another message or a piece of one ([`Reason::Local`]), or a broken one.
pub(super) fn answer_echo(bytes: &mut [u8]) -> Result<(), Reason> {
    let mut packet = ipv4::Packet::new_checked(&mut *bytes).map_err(|_| Reason::Malformed)?;
    if packet.is_fragment() {
        return Err(Reason::Local);
    }
    let payload = packet.payload_mut();
    if payload.len() < HEADER {
        return Err(Reason::Malformed);
    }
    if payload[0] != ECHO || payload[1] != 0 {
        return Err(Reason::Local);
    }
    if checksum::checksum(payload) != 0 {
        return Err(Reason::BadChecksum);
    }
    payload[0] = ECHO_REPLY;
    let sum = checksum::updated(
        u16::from_be_bytes([payload[2], payload[3]]),
        u16::from(ECHO) << 8,
        u16::from(ECHO_REPLY) << 8,
    );
    payload[2..4].copy_from_slice(&sum.to_be_bytes());
    let (source, destination) = (packet.source(), packet.destination());
    packet.set_source(destination);
    packet.set_destination(source);
    // The answer has a whole way before it.
    let (old, sum) = (u16::from_be_bytes([bytes[8], bytes[9]]), u16::from_be_bytes([bytes[10], bytes[11]]));
    bytes[8] = 64;
    let new = u16::from_be_bytes([bytes[8], bytes[9]]);
    bytes[10..12].copy_from_slice(&checksum::updated(sum, old, new).to_be_bytes());
    Ok(())
}
