//! TCP headers (RFC 9293) over IPv4: builds segments, and reads those that segmentation hardware made.

use crate::checksum::{Sum, updated};
use crate::{Error, field, ipv4};
use core::net::Ipv4Addr;

/// Bytes of a header without options.
pub const HEADER_BYTES: usize = 20;

/// The sender has no more data.
pub const FIN: u8 = 1;
/// First segment of a connection.
pub const SYN: u8 = 2;
/// The connection is refused or reset.
pub const RST: u8 = 4;
/// Pass the data to the application now.
pub const PSH: u8 = 8;
/// The acknowledgement number is valid.
pub const ACK: u8 = 16;

const SOURCE: usize = 0;
const DESTINATION: usize = 2;
const SEQUENCE: usize = 4;
const ACKNOWLEDGEMENT: usize = 8;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;

/// The fields of a header that are not ports or checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Sequence number of the first payload byte.
    pub sequence: u32,
    /// The next sequence number expected from the other side.
    pub acknowledgement: u32,
    /// [`SYN`], [`ACK`] and so on.
    pub flags: u8,
    /// The receive window in bytes, unscaled.
    pub window: u16,
}

/// A view of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Segment<T> {
    /// Checks the header length. `bytes` must end where the segment ends: TCP has no length of
    /// its own.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Malformed`].
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let b = bytes.as_ref();
        if b.len() < HEADER_BYTES {
            return Err(Error::Truncated);
        }
        let header = usize::from(b[DATA_OFFSET] >> 4) * 4;
        if header < HEADER_BYTES {
            return Err(Error::Malformed);
        }
        if header > b.len() { Err(Error::Truncated) } else { Ok(Self { bytes }) }
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

    /// Sequence and acknowledgement numbers, flags and window.
    pub fn fields(&self) -> Fields {
        let b = self.b();
        Fields {
            sequence: field::u32(b, SEQUENCE),
            acknowledgement: field::u32(b, ACKNOWLEDGEMENT),
            flags: b[FLAGS],
            window: field::u16(b, WINDOW),
        }
    }

    /// Bytes of the header with its options.
    pub fn header_bytes(&self) -> usize {
        usize::from(self.b()[DATA_OFFSET] >> 4) * 4
    }

    /// The checksum field.
    pub fn checksum(&self) -> u16 {
        field::u16(self.b(), CHECKSUM)
    }

    /// Whether the checksum is right.
    pub fn checksum_ok(&self, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        let b = self.b();
        let seed = Sum::pseudo_header(source, destination, ipv4::PROTOCOL_TCP, b.len() as u16);
        seed.with(b).checksum() == 0
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.b()[self.header_bytes()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Segment<T> {
    fn set_port(&mut self, at: usize, port: u16) {
        let old = field::u16(self.b(), at);
        self.update_checksum(old, port);
        field::put_u16(self.bytes.as_mut(), at, port);
    }

    /// Sets the source port and updates the checksum.
    pub fn set_source(&mut self, port: u16) {
        self.set_port(SOURCE, port);
    }

    /// Sets the destination port and updates the checksum.
    pub fn set_destination(&mut self, port: u16) {
        self.set_port(DESTINATION, port);
    }

    /// Updates the checksum after a word of its data changed, addresses of the pseudo-header included.
    pub fn update_checksum(&mut self, old: u16, new: u16) {
        let sum = updated(self.checksum(), old, new);
        self.set_checksum(sum);
    }

    /// Sets the checksum field. Hardware that inserts the checksum needs the folded pseudo-header sum here
    /// ([`Sum::folded`]).
    pub fn set_checksum(&mut self, checksum: u16) {
        field::put_u16(self.bytes.as_mut(), CHECKSUM, checksum);
    }
}

/// Writes a header without options at the start of `bytes`, which must hold the payload after it; then its
/// checksum over all of `bytes`.
pub(crate) fn write_header(bytes: &mut [u8], from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), fields: Fields) {
    bytes[..HEADER_BYTES].fill(0);
    field::put_u16(bytes, SOURCE, from.1);
    field::put_u16(bytes, DESTINATION, to.1);
    field::put_u32(bytes, SEQUENCE, fields.sequence);
    field::put_u32(bytes, ACKNOWLEDGEMENT, fields.acknowledgement);
    bytes[DATA_OFFSET] = ((HEADER_BYTES / 4) as u8) << 4;
    bytes[FLAGS] = fields.flags;
    field::put_u16(bytes, WINDOW, fields.window);
    let seed = Sum::pseudo_header(from.0, to.0, ipv4::PROTOCOL_TCP, bytes.len() as u16);
    let sum = seed.with(bytes).checksum();
    field::put_u16(bytes, CHECKSUM, sum);
}
