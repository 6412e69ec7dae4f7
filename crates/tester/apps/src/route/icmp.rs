//! ICMP (RFC 792): Click's `ICMPError` and `ICMPPingResponder`.

use super::ETHERNET;
use crate::Reason;
pub(super) use kpps_frames::icmp::Problem as Trouble;
use kpps_frames::icmp::{reply_to_echo, write_error};
use kpps_frames::{Error, checksum, ethernet, ipv4};
use std::net::Ipv4Addr;

/// Types that are no errors (RFC 1122 3.2.2): there is never an error about an error.
const QUERIES: [u8; 10] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18];
/// The longest error, in bytes from its IP header on (RFC 1812 4.3.2.3).
const MOST_ERROR_BYTES: usize = 576;

/// The most errors a second, and the most in a burst.
const RATE: u64 = 1000;
const BURST: u64 = 50;

/// Counts and limits errors.
#[derive(Debug, Default)]
pub(super) struct Icmp {
    pub(super) sent: u64,
    pub(super) limited: u64,
    /// The time at which the errors so far would be allowed at the steady rate, in ns.
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

/// A frame with an error, without its station addresses.
pub(super) struct ErrorFrame {
    bytes: [u8; ETHERNET + MOST_ERROR_BYTES],
    length: usize,
}

impl ErrorFrame {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The error about the packet in `frame`, and its destination; `None` if there must be none (RFC 1812
/// 4.3.2.7). Packets to a group, or from an address that no host has, do not come here: the router refuses
/// them first.
pub(super) fn error(from: Ipv4Addr, trouble: Trouble, frame: &[u8]) -> Option<(ErrorFrame, Ipv4Addr)> {
    let eth = ethernet::Frame::new_checked(frame).ok()?;
    let packet = ipv4::Packet::new_checked(eth.payload()).ok()?;
    let to = packet.source();
    let later_piece = u16::from_be_bytes([eth.payload()[6], eth.payload()[7]]) & 0x1fff != 0;
    let about_error = packet.protocol() == ipv4::PROTOCOL_ICMP
        && !packet.payload().first().is_some_and(|kind| QUERIES.contains(kind));
    if later_piece || about_error {
        return None;
    }
    let mut error = ErrorFrame { bytes: [0; ETHERNET + MOST_ERROR_BYTES], length: ETHERNET };
    error.bytes[12..ETHERNET].copy_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
    let about = &eth.payload()[..packet.total_bytes()];
    error.length += write_error(&mut error.bytes[ETHERNET..], (from, to), trouble, about).ok()?;
    Some((error, to))
}

/// Turns an echo request, given from its IP header on, into its reply.
///
/// # Errors
/// [`Reason::Local`] for another message or a fragment; other reasons for an invalid one.
pub(super) fn answer_echo(bytes: &mut [u8]) -> Result<(), Reason> {
    let mut packet = ipv4::Packet::new_checked(&mut *bytes).map_err(|_| Reason::Malformed)?;
    if packet.is_fragment() {
        return Err(Reason::Local);
    }
    let message = packet.payload_mut();
    let sum = checksum::checksum(message);
    // Answered only if it was good.
    reply_to_echo(message).map_err(|error| match error {
        Error::Truncated => Reason::Malformed,
        _ => Reason::Local,
    })?;
    if sum != 0 {
        return Err(Reason::BadChecksum);
    }
    let (source, destination) = (packet.source(), packet.destination());
    packet.set_source(destination);
    packet.set_destination(source);
    // The reply starts with a new TTL.
    packet.set_ttl(64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_errors_is_allowed_and_then_the_steady_rate() {
        const SECOND_NS: u64 = 1_000_000_000;
        let mut icmp = Icmp::default();
        let mut allowed = |now_ns| (0..2 * BURST).filter(|_| icmp.allows(now_ns)).count() as u64;
        assert_eq!(allowed(SECOND_NS), BURST);
        for n in 1..5 {
            assert_eq!(allowed(SECOND_NS + n * SECOND_NS / RATE), 1);
        }
        assert_eq!(allowed(3 * SECOND_NS), BURST, "after a pause");
    }
}
