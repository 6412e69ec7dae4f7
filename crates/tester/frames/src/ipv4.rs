//! IPv4 (RFC 791).

use crate::{Error, checksum, field};
use core::net::Ipv4Addr;
use core::ops::Range;

/// Bytes of a header without options.
pub const HEADER_BYTES: usize = 20;
/// The protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// The protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

const VERSION_AND_LENGTH: usize = 0;
const SERVICE: usize = 1;
const TOTAL_BYTES: usize = 2;
const IDENTIFICATION: usize = 4;
const FRAGMENT: usize = 6;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
const SOURCE: Range<usize> = 12..16;
const DESTINATION: Range<usize> = 16..20;

/// A view of a packet. It may be followed by padding, which is not part of it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks version, header length and total length. [`checksum_ok`](Self::checksum_ok) checks the
    /// checksum.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Malformed`], or [`Error::Protocol`] for another IP version.
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let b = bytes.as_ref();
        if b.len() < HEADER_BYTES {
            return Err(Error::Truncated);
        }
        if b[VERSION_AND_LENGTH] >> 4 != 4 {
            return Err(Error::Protocol);
        }
        let header = usize::from(b[VERSION_AND_LENGTH] & 15) * 4;
        let total = usize::from(field::u16(b, TOTAL_BYTES));
        if header < HEADER_BYTES || total < header {
            return Err(Error::Malformed);
        }
        if total > b.len() { Err(Error::Truncated) } else { Ok(Self { bytes }) }
    }

    fn b(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Bytes of the header with its options.
    pub fn header_bytes(&self) -> usize {
        usize::from(self.b()[VERSION_AND_LENGTH] & 15) * 4
    }

    /// Bytes of header and payload, without padding.
    pub fn total_bytes(&self) -> usize {
        usize::from(field::u16(self.b(), TOTAL_BYTES))
    }

    /// The identification field.
    pub fn identification(&self) -> u16 {
        field::u16(self.b(), IDENTIFICATION)
    }

    /// Whether this is a fragment: more follow, or its offset is not 0.
    pub fn is_fragment(&self) -> bool {
        field::u16(self.b(), FRAGMENT) & 0x3fff != 0
    }

    /// The TTL.
    pub fn ttl(&self) -> u8 {
        self.b()[TTL]
    }

    /// The protocol of the payload.
    pub fn protocol(&self) -> u8 {
        self.b()[PROTOCOL]
    }

    /// The header checksum field.
    pub fn checksum(&self) -> u16 {
        field::u16(self.b(), CHECKSUM)
    }

    /// Whether the header checksum is right.
    pub fn checksum_ok(&self) -> bool {
        checksum::checksum(&self.b()[..self.header_bytes()]) == 0
    }

    /// The source address.
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::u32(self.b(), SOURCE.start))
    }

    /// The destination address.
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::u32(self.b(), DESTINATION.start))
    }

    /// The payload, without padding.
    pub fn payload(&self) -> &[u8] {
        &self.b()[self.header_bytes()..self.total_bytes()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    fn replace(&mut self, at: usize, new: u16) {
        let old = field::u16(self.b(), at);
        let sum = checksum::updated(self.checksum(), old, new);
        let b = self.bytes.as_mut();
        field::put_u16(b, at, new);
        field::put_u16(b, CHECKSUM, sum);
    }

    /// Decrements the TTL and updates the checksum. `false`, with no change, if the TTL is 0 or 1.
    pub fn decrement_ttl(&mut self) -> bool {
        if self.ttl() <= 1 {
            return false;
        }
        let word = field::u16(self.b(), TTL);
        self.replace(TTL, word - 0x100);
        true
    }

    /// Sets the time to live and updates the checksum.
    pub fn set_ttl(&mut self, ttl: u8) {
        let word = field::u16(self.b(), TTL);
        self.replace(TTL, u16::from(ttl) << 8 | word & 0xff);
    }

    /// Sets the source address and updates the header checksum (not that of the payload).
    pub fn set_source(&mut self, address: Ipv4Addr) {
        self.set_address(SOURCE, address);
    }

    /// Sets the destination address and updates the header checksum (not that of the payload).
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        self.set_address(DESTINATION, address);
    }

    fn set_address(&mut self, at: Range<usize>, address: Ipv4Addr) {
        let [a, b, c, d] = address.octets();
        self.replace(at.start, u16::from_be_bytes([a, b]));
        self.replace(at.start + 2, u16::from_be_bytes([c, d]));
    }

    /// The payload, without padding.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_bytes()..self.total_bytes();
        &mut self.bytes.as_mut()[range]
    }
}

/// Writes a header without options at the start of `bytes`, which must have room for it.
pub(crate) fn write_header(
    bytes: &mut [u8],
    service: u8,
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    total_bytes: u16,
) {
    let b = &mut bytes[..HEADER_BYTES];
    b.fill(0);
    b[VERSION_AND_LENGTH] = 0x45;
    b[SERVICE] = service;
    field::put_u16(b, TOTAL_BYTES, total_bytes);
    b[TTL] = 64;
    b[PROTOCOL] = protocol;
    b[SOURCE].copy_from_slice(&from.octets());
    b[DESTINATION].copy_from_slice(&to.octets());
    let sum = checksum::checksum(b);
    field::put_u16(b, CHECKSUM, sum);
}
