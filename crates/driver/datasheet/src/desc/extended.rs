//! Receive descriptors of the 82574 (its data sheet, 7.1.4 and 7.1.5), used when RFCTL.EXSTEN is set.
//!
//! *Extended* ones have 16 bytes: the driver writes them like legacy ones (buffer, 0); the device writes them
//! back in another format. *Packet split* ones (RCTL.DTYP = 1) have 32 bytes: four buffers, the first for the
//! headers. Heads and tails count units of 16 bytes in both.

use super::RxWriteback;

/// DD of an extended or packet split descriptor, in its second word.
pub const DD: u64 = 1;
/// EOP of an extended or packet split descriptor, in its second word.
pub const EOP: u64 = 1 << 1;

/// The fields that an RSS hash covers (82574 data sheet 7.1.8.1): the low four bits of the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RssType {
    /// No hash: the frame has none of the configured fields.
    None,
    /// IPv4 addresses and TCP ports.
    TcpIpv4,
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses and TCP ports.
    TcpIpv6,
    /// IPv6 addresses, those of extension headers included.
    Ipv6Extended,
    /// IPv6 addresses.
    Ipv6,
    /// A reserved code.
    Reserved,
}

impl RssType {
    /// The type in a descriptor's first word.
    pub const fn of(first: u64) -> Self {
        match first & 0xF {
            0 => Self::None,
            1 => Self::TcpIpv4,
            2 => Self::Ipv4,
            3 => Self::TcpIpv6,
            4 => Self::Ipv6Extended,
            5 => Self::Ipv6,
            _ => Self::Reserved,
        }
    }
}

/// The RSS hash in a descriptor's first word.
pub const fn rss_hash(first: u64) -> u32 {
    (first >> 32) as u32
}

/// Converts the second word of an extended write-back into that of a legacy one: length, status, errors and
/// tag are the same, in other positions. The checksum field is 0.
#[inline]
pub const fn to_legacy(second: u64) -> u64 {
    second >> 32 & 0xFFFF | (second & 0xFF) << 32 | (second & 0xFF00_0000) << 16 | second & 0xFFFF << 48
}

/// An extended write-back, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writeback {
    /// [`RssType`] in the low four bits; the queue in bits 8 to 12.
    pub mrq: u32,
    /// The RSS hash, with RXCSUM.PCSD set; else the IP identification and the packet checksum.
    pub rss: u32,
    /// 20 status bits. The low eight are [`rx_status`](super::rx_status).
    pub status: u32,
    /// Error bits. The upper eight are [`rx_error`](super::rx_error).
    pub errors: u16,
    /// Bytes written to this buffer.
    pub length: u16,
    /// The VLAN tag, with VP.
    pub vlan: u16,
}

impl Writeback {
    /// The descriptor's words.
    pub const fn pack(self) -> [u64; 2] {
        [
            self.mrq as u64 | (self.rss as u64) << 32,
            (self.status & 0xF_FFFF) as u64
                | ((self.errors & 0xFFF) as u64) << 20
                | (self.length as u64) << 32
                | (self.vlan as u64) << 48,
        ]
    }
    /// Takes the words apart.
    pub const fn unpack(words: [u64; 2]) -> Self {
        let [a, b] = words;
        Self {
            mrq: a as u32,
            rss: (a >> 32) as u32,
            status: b as u32 & 0xF_FFFF,
            errors: (b >> 20) as u16 & 0xFFF,
            length: (b >> 32) as u16,
            vlan: (b >> 48) as u16,
        }
    }
    /// The same write-back in legacy format.
    pub const fn legacy(self) -> RxWriteback {
        RxWriteback::unpack(to_legacy(self.pack()[1]))
    }
}

/// Bytes in a packet split descriptor.
pub const SPLIT_BYTES: usize = 32;

/// The third word of a packet split write-back: the result of the header parser, and the lengths of buffers 1
/// to 3. The first two words are as in an extended one, whose length is that of buffer 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitStatus {
    /// The length of the headers in bytes, if the parser found their end.
    pub header: Option<u16>,
    /// Bytes in buffers 1 to 3.
    pub lengths: [u16; 3],
}

impl SplitStatus {
    /// The word.
    pub const fn pack(self) -> u64 {
        let header = match self.header {
            Some(bytes) => 0x8000 | (bytes & 0x3FF) as u64,
            None => 0,
        };
        let [a, b, c] = self.lengths;
        header | (a as u64) << 16 | (b as u64) << 32 | (c as u64) << 48
    }
    /// Takes the word apart.
    pub const fn unpack(word: u64) -> Self {
        Self {
            header: if word & 0x8000 != 0 { Some(word as u16 & 0x3FF) } else { None },
            lengths: [(word >> 16) as u16, (word >> 32) as u16, (word >> 48) as u16],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::{rx_error, rx_status};

    #[test]
    fn round_trips() {
        let wb = Writeback {
            mrq: 0x101,
            rss: 0xDEAD_BEEF,
            status: 0x8_0023,
            errors: 0x601,
            length: 60,
            vlan: 0xE064,
        };
        assert_eq!(Writeback::unpack(wb.pack()), wb);
        let split = SplitStatus { header: Some(54), lengths: [1460, 2, 3] };
        assert_eq!(SplitStatus::unpack(split.pack()), split);
        assert_eq!(SplitStatus::unpack(0x1234), SplitStatus { header: None, lengths: [0; 3] });
    }

    #[test]
    fn every_field_has_its_place_in_the_legacy_format() {
        let wb = Writeback {
            status: u32::from(rx_status::DD | rx_status::EOP | rx_status::PIF),
            errors: u16::from(rx_error::TCPE | rx_error::CE) << 4,
            length: 0x1234,
            vlan: 0x5678,
            ..Writeback::default()
        };
        let legacy = RxWriteback {
            status: rx_status::DD | rx_status::EOP | rx_status::PIF,
            errors: rx_error::TCPE | rx_error::CE,
            length: 0x1234,
            special: 0x5678,
            checksum: 0,
        };
        assert_eq!(wb.legacy(), legacy);
        assert_eq!(wb.pack()[1] & (DD | EOP), DD | EOP);
    }
}
