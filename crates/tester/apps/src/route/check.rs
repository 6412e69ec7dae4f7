//! Click's `CheckIPHeader`: checks the header before anything else.

use crate::Reason;
use kpps_frames::ipv4;
use std::net::Ipv4Addr;

/// The fields of a good header that the router needs.
pub(super) struct Header {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) ttl: u8,
    pub(super) total_bytes: u16,
    pub(super) dont_fragment: bool,
}

/// How an address may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// One host.
    Host,
    /// Packets to it are never forwarded: multicast, broadcast, loopback, "this network", reserved.
    Never,
}

/// The use of an address by itself (RFC 1122 3.2.1.3, RFC 6890).
pub(super) fn class_of(address: Ipv4Addr) -> Destination {
    match address.octets()[0] {
        0 | 127 | 224..=255 => Destination::Never,
        _ => Destination::Host,
    }
}

/// Checks the header at the start of `bytes`, which may have padding at the end.
pub(super) fn ip_header(bytes: &[u8]) -> Result<Header, Reason> {
    let packet = ipv4::Packet::new_checked(bytes).map_err(|_| Reason::Malformed)?;
    if !packet.checksum_ok() {
        return Err(Reason::BadChecksum);
    }
    let source = packet.source();
    if class_of(source) == Destination::Never {
        return Err(Reason::BadSource);
    }
    Ok(Header {
        source,
        destination: packet.destination(),
        ttl: packet.ttl(),
        total_bytes: packet.total_bytes() as u16,
        dont_fragment: bytes[6] & 0x40 != 0,
    })
}
