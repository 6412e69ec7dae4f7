//! UDP (RFC 768).

use crate::checksum::{Sum, updated};
use crate::{Error, field, ipv4};
use core::net::Ipv4Addr;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;

const SOURCE: usize = 0;
const DESTINATION: usize = 2;
pub(crate) const LENGTH: usize = 4;
const CHECKSUM: usize = 6;

/// A view of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// Checks the length.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Malformed`].
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let b = bytes.as_ref();
        if b.len() < HEADER_BYTES {
            return Err(Error::Truncated);
        }
        let length = usize::from(field::u16(b, LENGTH));
        if length < HEADER_BYTES {
            return Err(Error::Malformed);
        }
        if length > b.len() { Err(Error::Truncated) } else { Ok(Self { bytes }) }
    }

    fn b(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The source port.
    pub fn source(&self) -> u16 {
        field::u16(self.b(), SOURCE)
    }

    /// The destination port.
    pub fn destination(&self) -> u16 {
        field::u16(self.b(), DESTINATION)
    }

    /// Bytes of header and payload.
    pub fn length(&self) -> usize {
        usize::from(field::u16(self.b(), LENGTH))
    }

    /// The checksum field; 0: none was computed.
    pub fn checksum(&self) -> u16 {
        field::u16(self.b(), CHECKSUM)
    }

    /// Whether the checksum, if there is one, is right.
    pub fn checksum_ok(&self, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        let length = self.length();
        let seed = Sum::pseudo_header(source, destination, ipv4::PROTOCOL_UDP, length as u16);
        self.checksum() == 0 || seed.with(&self.b()[..length]).checksum() == 0
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.b()[HEADER_BYTES..self.length()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    fn set_port(&mut self, at: usize, port: u16) {
        let old = field::u16(self.b(), at);
        self.update_checksum(old, port);
        field::put_u16(self.bytes.as_mut(), at, port);
    }

    /// Sets the source port and updates the checksum if there is one.
    pub fn set_source(&mut self, port: u16) {
        self.set_port(SOURCE, port);
    }

    /// Sets the destination port and updates the checksum if there is one.
    pub fn set_destination(&mut self, port: u16) {
        self.set_port(DESTINATION, port);
    }

    /// Updates the checksum, if there is one, after a word of its data changed, addresses of the
    /// pseudo-header included.
    pub fn update_checksum(&mut self, old: u16, new: u16) {
        if self.checksum() != 0 {
            let sum = updated(self.checksum(), old, new);
            put_checksum(self.bytes.as_mut(), sum);
        }
    }
}

/// Puts a checksum into a header at the start of `bytes`.
pub(crate) fn put_checksum(bytes: &mut [u8], sum: u16) {
    // 0 is sent as 0xffff, because 0 means "none" (RFC 768).
    field::put_u16(bytes, CHECKSUM, if sum == 0 { 0xffff } else { sum });
}

/// Writes a header without checksum at the start of `bytes`, which must have room for it.
pub(crate) fn write_header(bytes: &mut [u8], from: u16, to: u16, length: u16) {
    field::put_u16(bytes, SOURCE, from);
    field::put_u16(bytes, DESTINATION, to);
    field::put_u16(bytes, LENGTH, length);
    field::put_u16(bytes, CHECKSUM, 0);
}
