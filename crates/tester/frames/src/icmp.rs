//! ICMP for IPv4 (RFC 792): echo, and errors that quote a packet.

use crate::{Error, checksum, field, ipv4};
use core::net::Ipv4Addr;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;
/// Where a message's checksum is, in bytes from its start.
pub const CHECKSUM: usize = 2;
/// Where the identifier of echo and timestamp messages is.
pub const IDENTIFIER: usize = 4;

/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type of an echo request.
pub const ECHO: u8 = 8;
/// The type of an echo request in ICMPv6 (RFC 4443, 4.1).
pub const ECHO_V6: u8 = 128;
/// The type of the reply in ICMPv6 (RFC 4443, 4.2).
pub const ECHO_REPLY_V6: u8 = 129;
/// Types of a timestamp request and its reply.
pub const TIMESTAMP: [u8; 2] = [13, 14];

/// Internetwork control (RFC 1812, 4.3.2.5).
const PRECEDENCE: u8 = 0xc0;

/// An error about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is no route to its destination.
    NetUnreachable,
    /// Its destination, or the next hop, does not answer.
    HostUnreachable,
    /// Its destination does not know its protocol.
    ProtocolUnreachable,
    /// Nothing listens at its port.
    PortUnreachable,
    /// It must not be fragmented, and is longer than this many bytes, which would fit.
    TooBig(u16),
    /// It passed too many routers.
    TimeExceeded,
}

impl Problem {
    /// Type, code, and the second word.
    const fn fields(self) -> (u8, u8, u32) {
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

/// Writes a packet with an error into `bytes`, from its IPv4 header on. It quotes as much of the packet
/// `about` as fits. Returns the length of the packet.
///
/// # Errors
/// [`Error::Size`] if `bytes` is too short for the headers, or longer than an IPv4 packet.
pub fn write_error(
    bytes: &mut [u8],
    (from, to): (Ipv4Addr, Ipv4Addr),
    problem: Problem,
    about: &[u8],
) -> Result<usize, Error> {
    let headers = ipv4::HEADER_BYTES + HEADER_BYTES;
    let room = bytes.len().checked_sub(headers).ok_or(Error::Size)?;
    let quoted = &about[..about.len().min(room)];
    let total = headers + quoted.len();
    let total_bytes = u16::try_from(total).map_err(|_| Error::Size)?;
    let (ip, icmp) = bytes[..total].split_at_mut(ipv4::HEADER_BYTES);
    ipv4::write_header(ip, PRECEDENCE, from, to, ipv4::PROTOCOL_ICMP, total_bytes);
    let (kind, code, word) = problem.fields();
    icmp[..4].copy_from_slice(&[kind, code, 0, 0]);
    icmp[4..HEADER_BYTES].copy_from_slice(&word.to_be_bytes());
    icmp[HEADER_BYTES..].copy_from_slice(quoted);
    put_checksum(icmp);
    Ok(total)
}

/// Computes the checksum of a message anew.
///
/// # Panics
/// If it is shorter than a header.
pub fn put_checksum(message: &mut [u8]) {
    field::put_u16(message, CHECKSUM, 0);
    let sum = checksum::checksum(message);
    field::put_u16(message, CHECKSUM, sum);
}

/// Turns an echo request into the reply to it. The checksum is updated.
///
/// # Errors
/// [`Error::Truncated`]; [`Error::Protocol`] if it is another message.
pub fn reply_to_echo(message: &mut [u8]) -> Result<(), Error> {
    if message.len() < HEADER_BYTES {
        return Err(Error::Truncated);
    }
    if message[..2] != [ECHO, 0] {
        return Err(Error::Protocol);
    }
    message[0] = ECHO_REPLY;
    update(message, ECHO, ECHO_REPLY);
    Ok(())
}

/// As [`reply_to_echo`], for ICMPv6.
///
/// # Errors
/// As [`reply_to_echo`].
pub fn reply_to_echo_v6(message: &mut [u8]) -> Result<(), Error> {
    if message.len() < HEADER_BYTES {
        return Err(Error::Truncated);
    }
    if message[..2] != [ECHO_V6, 0] {
        return Err(Error::Protocol);
    }
    // The sum of both addresses in its pseudo-header is the same in the reply.
    message[0] = ECHO_REPLY_V6;
    update(message, ECHO_V6, ECHO_REPLY_V6);
    Ok(())
}

/// Updates the checksum of a message whose type has changed.
fn update(message: &mut [u8], from: u8, to: u8) {
    let sum = field::u16(message, CHECKSUM);
    let sum = checksum::updated(sum, u16::from(from) << 8, u16::from(to) << 8);
    field::put_u16(message, CHECKSUM, sum);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_echo_is_answered_with_a_good_checksum() {
        let mut message = [8, 0, 0, 0, 1, 2, 3, 4, 5, 6];
        put_checksum(&mut message);
        reply_to_echo(&mut message).unwrap();
        assert_eq!((message[0], checksum::checksum(&message)), (ECHO_REPLY, 0));
        assert_eq!(reply_to_echo(&mut message), Err(Error::Protocol), "a reply is not answered");
        assert_eq!(reply_to_echo(&mut [8; 7]), Err(Error::Truncated));
        let mut message = [128, 0, 0, 0, 1, 2, 3, 4, 5, 6];
        put_checksum(&mut message);
        reply_to_echo_v6(&mut message).unwrap();
        assert_eq!((message[0], checksum::checksum(&message)), (ECHO_REPLY_V6, 0));
        assert_eq!(reply_to_echo_v6(&mut message), Err(Error::Protocol));
        assert_eq!(reply_to_echo_v6(&mut [128; 7]), Err(Error::Truncated));
    }

    #[test]
    fn an_error_quotes_what_fits() {
        let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut bytes = [0; 100];
        let length = write_error(&mut bytes, ends, Problem::TooBig(1400), &[7; 200]).unwrap();
        assert_eq!(length, 100);
        let packet = ipv4::Packet::new_checked(&bytes[..]).unwrap();
        assert!(packet.checksum_ok() && packet.protocol() == ipv4::PROTOCOL_ICMP);
        assert_eq!(checksum::checksum(packet.payload()), 0);
        assert_eq!(packet.payload()[..2], [3, 4]);
        assert_eq!(packet.payload()[6..8], 1400_u16.to_be_bytes());
        assert_eq!(write_error(&mut bytes, ends, Problem::TimeExceeded, &[7; 8]), Ok(36));
        assert_eq!(write_error(&mut bytes[..27], ends, Problem::TimeExceeded, &[]), Err(Error::Size));
    }
}
