//! Ethernet II, with at most one VLAN tag (IEEE 802.1Q).

use crate::{Error, field};
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// A station's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it is a multicast address. The broadcast address is one of them.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The error for a text that is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadMac(String);

impl fmt::Display for BadMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a MAC address like 02:00:00:00:00:02", self.0)
    }
}

impl core::error::Error for BadMac {}

impl FromStr for Mac {
    type Err = BadMac;

    /// Six bytes in hexadecimal with colons between them.
    fn from_str(text: &str) -> Result<Self, BadMac> {
        let bad = || BadMac(text.to_string());
        let mut mac = Self::default();
        let mut parts = text.split(':');
        for byte in &mut mac.0 {
            let part = parts.next().ok_or_else(bad)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_none() { Ok(mac) } else { Err(bad()) }
    }
}

/// Bytes of an Ethernet header without VLAN tag.
pub const HEADER_BYTES: usize = 14;
/// Bytes that a VLAN tag adds.
pub const VLAN_BYTES: usize = 4;
/// The type of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// The type of ARP.
pub const TYPE_ARP: u16 = 0x0806;
/// The type of a VLAN tag.
pub const TYPE_VLAN: u16 = 0x8100;
/// The type of IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;

const DESTINATION: core::ops::Range<usize> = 0..6;
const SOURCE: core::ops::Range<usize> = 6..12;
const TYPE: usize = 12;
const VLAN_CONTROL: usize = 14;
const INNER_TYPE: usize = 16;

/// A view of a frame: addresses, VLAN tag, type, payload.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Checks that the header is complete, with its VLAN tag if it has one.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let b = bytes.as_ref();
        let tagged = b.len() >= HEADER_BYTES && field::u16(b, TYPE) == TYPE_VLAN;
        let header = if tagged { HEADER_BYTES + VLAN_BYTES } else { HEADER_BYTES };
        if b.len() < header { Err(Error::Truncated) } else { Ok(Self { bytes }) }
    }

    fn b(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The destination address.
    pub fn destination(&self) -> Mac {
        let b = self.b();
        Mac([b[0], b[1], b[2], b[3], b[4], b[5]])
    }

    /// The source address.
    pub fn source(&self) -> Mac {
        let b = self.b();
        Mac([b[6], b[7], b[8], b[9], b[10], b[11]])
    }

    fn is_tagged(&self) -> bool {
        field::u16(self.b(), TYPE) == TYPE_VLAN
    }

    /// The VLAN tag's control field (priority, drop eligible, 12 bits of identifier), if tagged.
    pub fn vlan(&self) -> Option<u16> {
        self.is_tagged().then(|| field::u16(self.b(), VLAN_CONTROL))
    }

    /// The type of the payload; in a tagged frame it is the type after the VLAN tag.
    pub fn ethertype(&self) -> u16 {
        field::u16(self.b(), if self.is_tagged() { INNER_TYPE } else { TYPE })
    }

    /// Bytes before the payload: 14, or 18 with a VLAN tag.
    pub fn header_bytes(&self) -> usize {
        if self.is_tagged() { HEADER_BYTES + VLAN_BYTES } else { HEADER_BYTES }
    }

    /// The payload with its padding.
    pub fn payload(&self) -> &[u8] {
        &self.b()[self.header_bytes()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the destination address.
    pub fn set_destination(&mut self, mac: Mac) {
        self.bytes.as_mut()[DESTINATION].copy_from_slice(&mac.0);
    }

    /// Sets the source address.
    pub fn set_source(&mut self, mac: Mac) {
        self.bytes.as_mut()[SOURCE].copy_from_slice(&mac.0);
    }

    /// The payload with its padding.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let at = self.header_bytes();
        &mut self.bytes.as_mut()[at..]
    }
}

/// Writes a header at the start of `bytes`, which must have room for it, and returns its length.
pub(crate) fn write_header(bytes: &mut [u8], to: Mac, from: Mac, vlan: Option<u16>, kind: u16) -> usize {
    bytes[DESTINATION].copy_from_slice(&to.0);
    bytes[SOURCE].copy_from_slice(&from.0);
    match vlan {
        None => {
            field::put_u16(bytes, TYPE, kind);
            HEADER_BYTES
        }
        Some(control) => {
            field::put_u16(bytes, TYPE, TYPE_VLAN);
            field::put_u16(bytes, VLAN_CONTROL, control);
            field::put_u16(bytes, INNER_TYPE, kind);
            HEADER_BYTES + VLAN_BYTES
        }
    }
}
