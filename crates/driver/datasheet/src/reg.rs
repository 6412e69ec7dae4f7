//! Register offsets in BAR 0, in bytes (SDM table 13-2). All registers are 32 bits wide.
//!
//! These are the *canonical* offsets, those of the 82543 and later. The 82542 keeps its
//! descriptor rings and filter tables elsewhere: [`Chip::offset`](crate::Chip::offset)
//! translates.

/// Size of the register window in bytes (SDM 13.1).
pub const WINDOW_BYTES: u32 = 0x2_0000;

/// Device Control (SDM 13.4.1); bits in [`ctrl`](crate::bit::ctrl).
pub const CTRL: u32 = 0x0000;
/// A second offset of [`CTRL`] (public drivers: the 82545 and 82546 revision 3 are reset through it).
pub const CTRL_COPY: u32 = 0x0004;
/// Device Status, read only (SDM 13.4.2); bits in [`status`](crate::bit::status).
pub const STATUS: u32 = 0x0008;
/// EEPROM/Flash Control and Data: the serial pins (SDM 13.4.3); bits in [`eecd`](crate::bit::eecd).
pub const EECD: u32 = 0x0010;
/// EEPROM Read, not on the 82542, 82543 and 82544 (SDM 13.4.4); bits in [`eerd`](crate::bit::eerd).
pub const EERD: u32 = 0x0014;
/// Extended Device Control (SDM 13.4.6); bits in [`ctrl_ext`](crate::bit::ctrl_ext).
pub const CTRL_EXT: u32 = 0x0018;
/// MDI Control: access to the PHY's registers (SDM 13.4.7); bits in [`mdic`](crate::bit::mdic).
pub const MDIC: u32 = 0x0020;
/// Flow Control Address Low (SDM 13.4.8).
pub const FCAL: u32 = 0x0028;
/// Flow Control Address High (SDM 13.4.9).
pub const FCAH: u32 = 0x002C;
/// Flow Control Type (SDM 13.4.10).
pub const FCT: u32 = 0x0030;
/// VLAN EtherType (SDM 13.4.11).
pub const VET: u32 = 0x0038;
/// Interrupt Cause Read: reading clears it (SDM 13.4.17); bits in [`cause`](crate::bit::cause).
pub const ICR: u32 = 0x00C0;
/// Interrupt Throttling, 82540 and later (SDM 13.4.18): least gap between interrupts in 256 ns, 0 = off.
pub const ITR: u32 = 0x00C4;
/// Interrupt Cause Set, write only (SDM 13.4.19); bits in [`cause`](crate::bit::cause).
pub const ICS: u32 = 0x00C8;
/// Interrupt Mask Set/Read (SDM 13.4.20); bits in [`cause`](crate::bit::cause).
pub const IMS: u32 = 0x00D0;
/// Interrupt Mask Clear, write only (SDM 13.4.21); bits in [`cause`](crate::bit::cause).
pub const IMC: u32 = 0x00D8;
/// Receive Control (SDM 13.4.22); bits in [`rctl`](crate::bit::rctl).
pub const RCTL: u32 = 0x0100;
/// Flow Control Transmit Timer Value, in slots of 64 byte times (SDM 13.4.12).
pub const FCTTV: u32 = 0x0170;
/// Transmit Configuration Word, fibre (SDM 13.4.13); bits in [`txcw`](crate::bit::txcw).
pub const TXCW: u32 = 0x0178;
/// Receive Configuration Word, fibre, read only (SDM 13.4.14); bits in [`rxcw`](crate::bit::rxcw).
pub const RXCW: u32 = 0x0180;
/// Transmit Control (SDM 13.4.33); bits in [`tctl`](crate::bit::tctl).
pub const TCTL: u32 = 0x0400;
/// Transmit Inter Packet Gap (SDM 13.4.34); see [`Chip::tipg`](crate::Chip::tipg).
pub const TIPG: u32 = 0x0410;
/// Adaptive IFS Throttle, which the manual also calls AIT (SDM 13.4.35).
pub const AIFS: u32 = 0x0458;
/// LED Control, not on the 82544 and before (SDM 13.4.15).
pub const LEDCTL: u32 = 0x0E00;
/// Packet Buffer Allocation: low half receive, high half transmit, in KB (SDM 13.4.16).
pub const PBA: u32 = 0x1000;
/// Flow Control Receive Threshold Low, in bytes, a multiple of 8 (SDM 13.4.23).
pub const FCRTL: u32 = 0x2160;
/// Flow Control Receive Threshold High, in bytes, a multiple of 8 (SDM 13.4.24).
pub const FCRTH: u32 = 0x2168;
/// Receive Data FIFO Head (SDM 13.8.1).
pub const RDFH: u32 = 0x2410;
/// Receive Data FIFO Tail (SDM 13.8.2).
pub const RDFT: u32 = 0x2418;
/// Receive Data FIFO Head Saved (SDM 13.8.3).
pub const RDFHS: u32 = 0x2420;
/// Receive Data FIFO Tail Saved (SDM 13.8.4).
pub const RDFTS: u32 = 0x2428;
/// Receive Data FIFO Packet Count (SDM 13.8.5).
pub const RDFPC: u32 = 0x2430;
/// Receive Descriptor Base Address Low, 16-byte aligned (SDM 13.4.25).
pub const RDBAL: u32 = 0x2800;
/// Receive Descriptor Base Address High (SDM 13.4.26).
pub const RDBAH: u32 = 0x2804;
/// Receive Descriptor Length: bytes in the ring, a multiple of 128 (SDM 13.4.27).
pub const RDLEN: u32 = 0x2808;
/// Receive Descriptor Head, an index (SDM 13.4.28).
pub const RDH: u32 = 0x2810;
/// Receive Descriptor Tail, an index: the doorbell (SDM 13.4.29).
pub const RDT: u32 = 0x2818;
/// Receive Delay Timer, in 1.024 µs (SDM 13.4.30); bits in [`rdtr`](crate::bit::rdtr).
pub const RDTR: u32 = 0x2820;
/// Receive Descriptor Control, not on the 82542 (SDM 13.4.46); bits in [`dctl`](crate::bit::dctl).
pub const RXDCTL: u32 = 0x2828;
/// Receive Interrupt Absolute Delay, in 1.024 µs, 82540 and later (SDM 13.4.31).
pub const RADV: u32 = 0x282C;
/// Receive Small Packet Detect: greatest size in bytes, 0 = off, 82540 and later (SDM 13.4.32).
pub const RSRPD: u32 = 0x2C00;
/// TX DMA Control, 82544 only (SDM 13.4.42): bit 0 disables packet prefetch.
pub const TXDMAC: u32 = 0x3000;
/// Transmit Data FIFO Head (SDM 13.8.6).
pub const TDFH: u32 = 0x3410;
/// Transmit Data FIFO Tail (SDM 13.8.7).
pub const TDFT: u32 = 0x3418;
/// Transmit Data FIFO Head Saved (SDM 13.8.8).
pub const TDFHS: u32 = 0x3420;
/// Transmit Data FIFO Tail Saved (SDM 13.8.9).
pub const TDFTS: u32 = 0x3428;
/// Transmit Data FIFO Packet Count (SDM 13.8.10).
pub const TDFPC: u32 = 0x3430;
/// Transmit Descriptor Base Address Low, 16-byte aligned (SDM 13.4.36).
pub const TDBAL: u32 = 0x3800;
/// Transmit Descriptor Base Address High (SDM 13.4.37).
pub const TDBAH: u32 = 0x3804;
/// Transmit Descriptor Length: bytes in the ring, a multiple of 128 (SDM 13.4.38).
pub const TDLEN: u32 = 0x3808;
/// Transmit Descriptor Head, an index (SDM 13.4.39).
pub const TDH: u32 = 0x3810;
/// Transmit Descriptor Tail, an index: the doorbell (SDM 13.4.40).
pub const TDT: u32 = 0x3818;
/// Transmit Interrupt Delay Value, in 1.024 µs, 0 not allowed (SDM 13.4.41).
pub const TIDV: u32 = 0x3820;
/// Transmit Descriptor Control, not on the 82542 (SDM 13.4.43); bits in [`dctl`](crate::bit::dctl).
pub const TXDCTL: u32 = 0x3828;
/// Transmit Absolute Interrupt Delay, in 1.024 µs, 82540 and later (SDM 13.4.44, where the
/// offset stands; table 13-2 repeats RADV's by mistake).
pub const TADV: u32 = 0x382C;
/// TCP Segmentation Pad and Minimum Threshold (SDM 13.4.45): low half TSMT, high half TSPBP, in bytes.
pub const TSPMT: u32 = 0x3830;
/// Receive Checksum Control, 82543 and later (SDM 13.4.47); bits in [`rxcsum`](crate::bit::rxcsum).
pub const RXCSUM: u32 = 0x5000;
/// Multicast Table Array, [`MTA_WORDS`] registers (SDM 13.5.1).
pub const MTA: u32 = 0x5200;
/// Receive Address Low of entry 0; entries are 8 bytes apart (SDM 13.5.2).
pub const RAL0: u32 = 0x5400;
/// Receive Address High of entry 0 (SDM 13.5.3); bits in [`rah`](crate::bit::rah).
pub const RAH0: u32 = 0x5404;
/// VLAN Filter Table Array, [`VFTA_WORDS`] registers (SDM 13.5.4).
pub const VFTA: u32 = 0x5600;
/// Wakeup Control (SDM 13.6.1).
pub const WUC: u32 = 0x5800;
/// Wakeup Filter Control (SDM 13.6.2).
pub const WUFC: u32 = 0x5808;
/// Wakeup Status (SDM 13.6.3).
pub const WUS: u32 = 0x5810;
/// Management Control, 82540 and later. The manual names it and three of its bits (SDM 5.4, 5.6.24), but has
/// neither its offset, which is that of the public drivers, nor a section of it.
pub const MANC: u32 = 0x5820;
/// IP Address Valid (SDM 13.6.4).
pub const IPAV: u32 = 0x5838;
/// IPv4 Address Table, four registers 8 bytes apart (SDM 13.6.5).
pub const IP4AT: u32 = 0x5840;
/// IPv6 Address Table, four registers, not on the 82544 (SDM 13.6.6).
pub const IP6AT: u32 = 0x5880;
/// Wakeup Packet Length (SDM 13.6.7).
pub const WUPL: u32 = 0x5900;
/// Wakeup Packet Memory, 32 registers (SDM 13.6.8).
pub const WUPM: u32 = 0x5A00;
/// Flexible Filter Length Table, four registers 8 bytes apart (SDM 13.6.9).
pub const FFLT: u32 = 0x5F00;
/// Flexible Filter Mask Table, 128 registers 8 bytes apart (SDM 13.6.10).
pub const FFMT: u32 = 0x9000;
/// Flexible Filter Value Table, 128 registers 8 bytes apart (SDM 13.6.11).
pub const FFVT: u32 = 0x9800;
/// Management Packets Received Count, not on the 82544 (SDM 13.7.38).
pub const MGTPRC: u32 = 0x40B4;
/// Management Packets Dropped Count, not on the 82544 (SDM 13.7.39).
pub const MGTPDC: u32 = 0x40B8;
/// Management Packets Transmitted Count, not on the 82544 (SDM 13.7.40).
pub const MGTPTC: u32 = 0x40BC;
/// Extended Interrupt Throttling of vector 0, 82574; the others follow ([`eitr`]). Unit as [`ITR`].
pub const EITR0: u32 = 0x00E8;
/// Extended Interrupt Auto Clear, 82574: causes that clear when their vector fires.
pub const EIAC: u32 = 0x00DC;
/// Interrupt Acknowledge Auto Mask, 82574.
pub const IAM: u32 = 0x00E0;
/// Interrupt Vector Allocation, 82574; bits in [`ivar`](crate::express::ivar).
pub const IVAR: u32 = 0x00E4;
/// Extended Configuration Control, 82574; bits in [`extcnf`](crate::express::extcnf).
pub const EXTCNF_CTRL: u32 = 0x0F00;
/// Packet Split Receive Control, 82574; fields in [`psrctl`](crate::express::psrctl).
pub const PSRCTL: u32 = 0x2170;
/// Distance in bytes of one queue's ring registers from the next's, 82574.
pub const QUEUE_STRIDE: u32 = 0x100;
/// Transmit Arbitration Count of queue 0, 82574; the other's is [`QUEUE_STRIDE`] on. Bits in
/// [`tarc`](crate::express::tarc).
pub const TARC0: u32 = 0x3840;
/// Receive Filter Control, 82574; bits in [`rfctl`](crate::express::rfctl).
pub const RFCTL: u32 = 0x5008;
/// Multiple Receive Queues Command, 82574; bits in [`mrqc`](crate::express::mrqc).
pub const MRQC: u32 = 0x5818;
/// PCI Express Control, 82574; bits in [`gcr`](crate::express::gcr).
pub const GCR: u32 = 0x5B00;
/// Software Semaphore, 82574: bit 0 is taken by reading it as 0, bit 1 by writing 1 and reading it back.
pub const SWSM: u32 = 0x5B50;
/// PCI Express Control 2, 82574.
pub const GCR2: u32 = 0x5B64;
/// RSS redirection table, [`RETA_ENTRIES`] bytes, four a register, 82574.
pub const RETA: u32 = 0x5C00;
/// RSS random key, [`RSSRK_BYTES`] bytes, four a register, 82574.
pub const RSSRK: u32 = 0x5C80;
/// Packet Buffer Memory, 64 KB (SDM 13.8.11).
pub const PBM: u32 = 0x1_0000;

/// Registers in the multicast table.
pub const MTA_WORDS: u32 = 128;
/// Registers in the VLAN filter table.
pub const VFTA_WORDS: u32 = 128;
/// Entries in the receive address table (SDM 13.5.2).
pub const RAR_ENTRIES: u32 = 16;
/// The end of the receive addresses.
const RA_END: u32 = ral(RAR_ENTRIES);

/// Entries in the RSS redirection table; bit 7 of each is the queue.
pub const RETA_ENTRIES: usize = 128;
/// Bytes of the RSS random key.
pub const RSSRK_BYTES: usize = 40;

/// The ring register `canonical` (RDBAL … RXDCTL, TDBAL … TARC0) of `queue`.
pub const fn of_queue(canonical: u32, queue: u8) -> u32 {
    canonical + QUEUE_STRIDE * queue as u32
}
/// Extended Interrupt Throttling of MSI-X vector `n` (below [`Chip::vectors`](crate::Chip::vectors)).
pub const fn eitr(n: u8) -> u32 {
    EITR0 + 4 * n as u32
}

/// Receive Address Low of entry `n` (below [`RAR_ENTRIES`]).
pub const fn ral(n: u32) -> u32 {
    RAL0 + 8 * n
}
/// Receive Address High of entry `n` (below [`RAR_ENTRIES`]).
pub const fn rah(n: u32) -> u32 {
    RAH0 + 8 * n
}
/// Multicast table register `n` (below [`MTA_WORDS`]).
pub const fn mta(n: u32) -> u32 {
    MTA + 4 * n
}
/// VLAN filter table register `n` (below [`VFTA_WORDS`]).
pub const fn vfta(n: u32) -> u32 {
    VFTA + 4 * n
}

/// The multicast table row and bit that a destination address selects with RCTL.MO = `offset`
/// 0–3 (SDM 13.5.1). The address is in wire order.
pub const fn mta_position(address: [u8; 6], offset: u32) -> (u32, u32) {
    let high = (address[5] as u32) << 8 | address[4] as u32;
    let hash = match offset {
        0 => high >> 4,
        1 => high >> 3,
        2 => high >> 2,
        _ => high,
    } & 0xFFF;
    (hash >> 5, hash & 31)
}

/// The VLAN filter table row and bit of a VLAN identifier (SDM 13.5.4).
pub const fn vfta_position(vlan: u16) -> (u32, u32) {
    let id = vlan as u32 & 0xFFF;
    (id >> 5, id & 31)
}

/// The 82542's offset for a canonical one (82542 layout as in Intel's public drivers).
pub(crate) const fn on_82542(canonical: u32) -> u32 {
    match canonical {
        RDTR => 0x108,
        RDBAL => 0x110,
        RDBAH => 0x114,
        RDLEN => 0x118,
        RDH => 0x120,
        RDT => 0x128,
        FCRTL => 0x160,
        FCRTH => 0x168,
        TDBAL => 0x420,
        TDBAH => 0x424,
        TDLEN => 0x428,
        TDH => 0x430,
        TDT => 0x438,
        TIDV => 0x440,
        RAL0..RA_END => canonical - RAL0 + 0x40,
        MTA..RAL0 => canonical - MTA + 0x200,
        VFTA..WUC => canonical - VFTA + 0x600,
        other => other,
    }
}

/// The manual's name of the register of an 8254x at the canonical `offset`: "RDT"; of a table, the table's
/// name: "MTA". `None` if there is none (SDM table 13-2). [`MANC`] counts as a register, though only the text
/// of the manual names it.
pub fn name(offset: u32) -> Option<&'static str> {
    Some(match offset {
        CTRL => "CTRL",
        STATUS => "STATUS",
        EECD => "EECD",
        EERD => "EERD",
        CTRL_EXT => "CTRL_EXT",
        MDIC => "MDIC",
        FCAL => "FCAL",
        FCAH => "FCAH",
        FCT => "FCT",
        VET => "VET",
        ICR => "ICR",
        ITR => "ITR",
        ICS => "ICS",
        IMS => "IMS",
        IMC => "IMC",
        RCTL => "RCTL",
        FCTTV => "FCTTV",
        TXCW => "TXCW",
        RXCW => "RXCW",
        TCTL => "TCTL",
        TIPG => "TIPG",
        AIFS => "AIFS",
        LEDCTL => "LEDCTL",
        PBA => "PBA",
        FCRTL => "FCRTL",
        FCRTH => "FCRTH",
        RDFH => "RDFH",
        RDFT => "RDFT",
        RDFHS => "RDFHS",
        RDFTS => "RDFTS",
        RDFPC => "RDFPC",
        RDBAL => "RDBAL",
        RDBAH => "RDBAH",
        RDLEN => "RDLEN",
        RDH => "RDH",
        RDT => "RDT",
        RDTR => "RDTR",
        RXDCTL => "RXDCTL",
        RADV => "RADV",
        RSRPD => "RSRPD",
        TXDMAC => "TXDMAC",
        TDFH => "TDFH",
        TDFT => "TDFT",
        TDFHS => "TDFHS",
        TDFTS => "TDFTS",
        TDFPC => "TDFPC",
        TDBAL => "TDBAL",
        TDBAH => "TDBAH",
        TDLEN => "TDLEN",
        TDH => "TDH",
        TDT => "TDT",
        TIDV => "TIDV",
        TXDCTL => "TXDCTL",
        TADV => "TADV",
        TSPMT => "TSPMT",
        RXCSUM => "RXCSUM",
        WUC => "WUC",
        WUFC => "WUFC",
        WUS => "WUS",
        MANC => "MANC",
        IPAV => "IPAV",
        IP4AT..=0x5858 if offset.is_multiple_of(8) => "IP4AT",
        IP6AT..=0x588C => "IP6AT",
        WUPL => "WUPL",
        WUPM..=0x5A7C => "WUPM",
        FFLT..=0x5F18 if offset.is_multiple_of(8) => "FFLT",
        FFMT..=0x93F8 if offset.is_multiple_of(8) => "FFMT",
        FFVT..=0x9BF8 if offset.is_multiple_of(8) => "FFVT",
        MGTPRC => "MGTPRC",
        MGTPDC => "MGTPDC",
        MGTPTC => "MGTPTC",
        MTA..RAL0 => "MTA",
        RAL0..RA_END if offset.is_multiple_of(8) => "RAL",
        RAL0..RA_END => "RAH",
        VFTA..WUC => "VFTA",
        PBM..WINDOW_BYTES => "PBM",
        _ => {
            return crate::stat::at(offset).map(|it| it.name);
        }
    })
}

/// The name of a register of the 82574 at `offset` that the 8254x do not have (public drivers): "IVAR".
/// `None` if this crate has none there; the chip has more.
pub const fn express_name(offset: u32) -> Option<&'static str> {
    Some(match offset {
        EIAC => "EIAC",
        IAM => "IAM",
        IVAR => "IVAR",
        EITR0..=0x00F8 => "EITR",
        EXTCNF_CTRL => "EXTCNF_CTRL",
        PSRCTL => "PSRCTL",
        0x3840 | 0x3940 => "TARC",
        RFCTL => "RFCTL",
        MRQC => "MRQC",
        GCR => "GCR",
        SWSM => "SWSM",
        GCR2 => "GCR2",
        RETA..0x5C80 => "RETA",
        RSSRK..0x5CA8 => "RSSRK",
        _ => return None,
    })
}

/// The bits of the register at the canonical `offset` that software must write as 0 on every 8254x but the
/// 82542, and the section of the manual that says so. The low bits of addresses and lengths, which must be
/// aligned, count as such.
pub const fn reserved(offset: u32) -> (u32, &'static str) {
    match offset {
        CTRL => (0x2003_E416, "13.4.1"),
        FCAH => (0xFFFF_0000, "13.4.9"),
        FCT => (0xFFFF_0000, "13.4.10"),
        VET => (0xFFFF_0000, "13.4.11"),
        FCTTV => (0xFFFF_0000, "13.4.12"),
        ITR => (0xFFFF_0000, "13.4.18"),
        ICS => (0xFFFE_0120, "13.4.19"),
        IMS => (0xFFFE_0120, "13.4.20"),
        RCTL => (0xF920_4C01, "13.4.22"),
        FCRTL => (0x7FFF_0007, "13.4.23"),
        FCRTH => (0xFFFF_0007, "13.4.24"),
        RDBAL => (0xF, "13.4.25"),
        RDLEN => (0xFFF0_007F, "13.4.27"),
        RDH => (0xFFFF_0000, "13.4.28"),
        RDT => (0xFFFF_0000, "13.4.29"),
        RDTR => (0x7FFF_0000, "13.4.30"),
        RADV => (0xFFFF_0000, "13.4.31"),
        TCTL => (0xFC80_0005, "13.4.33"),
        TIPG => (0xC000_0000, "13.4.34"),
        AIFS => (0xFFFF_0000, "13.4.35"),
        TDBAL => (0xF, "13.4.36"),
        TDLEN => (0xFFF0_007F, "13.4.38"),
        TDH => (0xFFFF_0000, "13.4.39"),
        TDT => (0xFFFF_0000, "13.4.40"),
        TIDV => (0xFFFF_0000, "13.4.41"),
        TXDCTL => (0x00C0_C0C0, "13.4.43"),
        TADV => (0xFFFF_0000, "13.4.44"),
        RXDCTL => (0xFEC0_C0C0, "13.4.46"),
        RXCSUM => (0xFFFF_F800, "13.4.47"),
        RAL0..RA_END if !offset.is_multiple_of(8) => (0x7FFC_0000, "13.5.3"),
        _ => (0, "13.2"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multicast_example_of_the_manual() {
        // SDM 13.5.1: 12:34:56:78:9A:BC, row 94, bit 9.
        assert_eq!(mta_position([0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC], 0), (94, 9));
    }

    #[test]
    fn old_layout() {
        assert_eq!(on_82542(ral(15)), 0x40 + 8 * 15);
        assert_eq!(on_82542(rah(0)), 0x44);
        assert_eq!(on_82542(mta(127)), 0x3FC);
        assert_eq!(on_82542(vfta(127)), 0x7FC);
        assert_eq!(on_82542(TDT), 0x438);
        assert_eq!(on_82542(CTRL), CTRL);
    }

    #[test]
    fn registers_have_the_manual_s_names() {
        let names = [(RDT, "RDT"), (mta(127), "MTA"), (ral(15), "RAL"), (rah(15), "RAH"), (vfta(0), "VFTA")];
        for (offset, expected) in names.into_iter().chain([
            (0x5838, "IPAV"),
            (0x40B4, "MGTPRC"),
            (0x9BF8, "FFVT"),
            (0x4010, "MPC"),
            (0x4090, "GOTC"),
            (0x4094, "GOTC"),
        ]) {
            assert_eq!(name(offset), Some(expected), "{offset:#x}");
        }
        let wakeup = [(0x5838, "IPAV"), (0x5858, "IP4AT"), (0x588C, "IP6AT"), (0x5A7C, "WUPM")];
        let filters = [(0x5F18, "FFLT"), (0x93F8, "FFMT"), (0x9BF8, "FFVT"), (0x40BC, "MGTPTC")];
        for (offset, expected) in wakeup.into_iter().chain(filters).chain([(0x5820, "MANC")]) {
            assert_eq!(name(offset), Some(expected), "{offset:#x}");
        }
        let express = [(eitr(4), "EITR"), (of_queue(TARC0, 1), "TARC"), (0x5CA4, "RSSRK"), (SWSM, "SWSM")];
        for (offset, expected) in express {
            assert_eq!((name(offset), express_name(offset)), (None, Some(expected)), "{offset:#x}");
        }
        assert_eq!([express_name(0xFC), express_name(CTRL)], [None; 2]);
        assert_eq!([name(4), name(0x0F00), name(RETA), name(SWSM)], [None; 4]);
        assert_eq!([name(0x585C), name(0x5890), name(0x5A80), name(0x5F04), name(0x9C00)], [None; 5]);
    }

    #[test]
    fn no_bit_with_a_name_is_reserved() {
        use crate::bit::{cause, ctrl, dctl, rctl, rdtr, rxcsum, tctl};
        let all = rctl::EN | rctl::SBP | rctl::LPE | rctl::BAM | rctl::BSIZE_MASK | rctl::BSEX | rctl::SECRC;
        assert_eq!(reserved(RCTL).0 & (all | rctl::DPF | rctl::PMCF | rctl::RDMTS_MASK), 0);
        assert_eq!(
            reserved(TCTL).0 & (tctl::EN | tctl::PSP | tctl::COLD_MASK | tctl::SWXOFF | tctl::RTLC),
            0
        );
        assert_eq!(reserved(CTRL).0 & (ctrl::RST | ctrl::SLU | ctrl::ASDE | ctrl::FD | ctrl::VME), 0);
        assert_eq!(reserved(IMS).0 & (cause::RXT0 | cause::TXDW | cause::SRPD | cause::PHYINT), 0);
        assert_eq!(reserved(RXDCTL).0 & dctl::descriptors(63, 63, 63), 0);
        assert_eq!(reserved(RDTR).0 & (rdtr::FPD | rdtr::DELAY_MASK), 0);
        assert_eq!(reserved(RXCSUM).0 & rxcsum::IPV6OFL, 0);
    }
}
