//! IPv6 (RFC 8200) for test frames and neighbour discovery: a header without extensions.

use crate::checksum::Sum;
use crate::field;
use core::net::Ipv6Addr;
use core::ops::Range;

/// Bytes of a header without extensions.
pub const HEADER_BYTES: usize = 40;

const PAYLOAD_BYTES: usize = 4;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SOURCE: Range<usize> = 8..24;
const DESTINATION: Range<usize> = 24..40;

/// The sum over the pseudo-header of a payload (RFC 8200, 8.1) of `length` bytes.
pub fn pseudo_header(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, length: u16) -> Sum {
    Sum::new()
        .with(&source.octets())
        .with(&destination.octets())
        .with(&u32::from(length).to_be_bytes())
        .with(&[0, 0, 0, next_header])
}

/// Writes a header at the start of `bytes`, which must have room for it.
///
/// # Panics
/// If it has none.
pub fn write_header(bytes: &mut [u8], from: Ipv6Addr, to: Ipv6Addr, next_header: u8, hops: u8, payload: u16) {
    let b = &mut bytes[..HEADER_BYTES];
    b.fill(0);
    b[0] = 0x60;
    field::put_u16(b, PAYLOAD_BYTES, payload);
    b[NEXT_HEADER] = next_header;
    b[HOP_LIMIT] = hops;
    b[SOURCE].copy_from_slice(&from.octets());
    b[DESTINATION].copy_from_slice(&to.octets());
}
