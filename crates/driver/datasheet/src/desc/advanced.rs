//! Advanced transmit descriptors of the 82576 (public driver igb, `e1000_82575.h`; QEMU's igb,
//! `igb_regs.h`): 16 bytes, as the others.
//!
//! Advanced receive descriptors are written and written back as [extended](super::extended) ones.
//!
//! EOP, RS and DD are where other descriptors have them ([`TX_EOP`](super::TX_EOP), [`TX_RS`](super::TX_RS),
//! [`TX_DD`](super::TX_DD)). There is no bit that delays a report.

use super::{popts, tx_cmd};

/// DTYP of a context, in the second word.
const CONTEXT: u64 = 2 << 20;
/// DTYP of data, in the second word.
const DATA: u64 = 3 << 20;
/// DEXT, which all advanced descriptors have, in the second word.
const DEXT: u64 = (tx_cmd::DEXT as u64) << 24;
/// Segment: bit 7 of the command, where other descriptors have IDE.
const TSE: u64 = 1 << 31;
/// Shift of the packet options, in the second word.
const POPTS_SHIFT: u32 = 40;
/// Shift of the length of the frame, or of its payload with TSE, in the second word: 18 bits.
const PAYLEN_SHIFT: u32 = 46;
/// The greatest such length, bytes.
pub const PAYLEN_MOST: u32 = (1 << 18) - 1;

/// A data descriptor with `bytes` bytes, the FCS to be inserted.
#[inline]
pub const fn data(bytes: u16) -> u64 {
    bytes as u64 | DATA | DEXT | (tx_cmd::IFCS as u64) << 24
}

/// The descriptor of a frame of `bytes` bytes in one buffer that ends with an FCS from software, without EOP
/// and the length of the buffer.
#[inline]
pub const fn filler(bytes: u16) -> u64 {
    DATA | DEXT | length(bytes as u32)
}

/// The bits of a frame's first data descriptor with the length of the whole frame, without FCS; with TSE that
/// of its payload.
#[inline]
pub const fn length(bytes: u32) -> u64 {
    (bytes as u64) << PAYLEN_SHIFT
}

/// The offloads of a frame, in each of its data descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Insert the IP checksum.
    pub ip: bool,
    /// Insert the TCP or UDP checksum.
    pub transport: bool,
    /// Insert the VLAN tag of the context.
    pub vlan: bool,
    /// Segment.
    pub segment: bool,
}

impl Offloads {
    /// Their bits in the second word.
    pub const fn pack(self) -> u64 {
        const fn select(on: bool, bits: u64) -> u64 {
            if on { bits } else { 0 }
        }
        select(self.ip, (popts::IXSM as u64) << POPTS_SHIFT)
            | select(self.transport, (popts::TXSM as u64) << POPTS_SHIFT)
            | select(self.vlan, (tx_cmd::VLE as u64) << 24)
            | select(self.segment, TSE)
    }
}

/// A context: the lengths of a frame's headers, from which the chip computes where its checksums are, and the
/// tag to insert. It stays in force until the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The VLAN tag.
    pub vlan: u16,
    /// Bytes before the IP header, 7 bits.
    pub mac_bytes: u8,
    /// Bytes of the IP header, 9 bits.
    pub ip_bytes: u16,
    /// IPv4, else IPv6.
    pub is_ipv4: bool,
    /// TCP, else UDP.
    pub is_tcp: bool,
    /// Bytes of the TCP or UDP header; for segmentation.
    pub transport_bytes: u8,
    /// Payload bytes of each segment; for segmentation.
    pub mss: u16,
}

impl Context {
    /// The descriptor's words.
    pub const fn pack(self) -> [u64; 2] {
        let ipv4 = if self.is_ipv4 { 1 << 10 } else { 0 };
        let tcp = if self.is_tcp { 1 << 11 } else { 0 };
        [
            (self.ip_bytes & 0x1FF) as u64 | ((self.mac_bytes & 0x7F) as u64) << 9 | (self.vlan as u64) << 16,
            ipv4 | tcp | CONTEXT | DEXT | (self.transport_bytes as u64) << 40 | (self.mss as u64) << 48,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::{TX_EOP, TX_RS};

    #[test]
    fn words_of_the_public_driver() {
        // cmd_type_len 2b30_003c: DEXT, IFCS, RS, EOP, DTYP 3; olinfo_status: PAYLEN 60 from bit 14 on.
        assert_eq!(data(60) | length(60) | TX_EOP | TX_RS, 0x000F_0000_2B30_003C);
        assert_eq!(filler(64) | 64 | TX_EOP, 0x0010_0000_2130_0040);
        let all = Offloads { ip: true, transport: true, vlan: true, segment: true };
        assert_eq!(all.pack(), 0x0000_0300_C000_0000);
        let context = Context {
            vlan: 0x6064,
            mac_bytes: 14,
            ip_bytes: 20,
            is_ipv4: true,
            is_tcp: true,
            transport_bytes: 20,
            mss: 1460,
        };
        // vlan_macip_lens; mss_l4len_idx and type_tucmd_mlhl.
        assert_eq!(context.pack(), [0x6064_1C14, 0x05B4_1400_2020_0C00]);
    }
}
