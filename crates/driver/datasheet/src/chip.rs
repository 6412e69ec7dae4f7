//! The chips and their features.

use crate::{Erratum, desc, igb, reg};
use core::{fmt, str::FromStr};

/// A controller of the family, in order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Chip {
    /// 82542: the first, fibre, its own register layout, no offloads (card PWLA8490).
    I82542,
    /// 82543GC: checksum offload, VLAN, 66 MHz (card PWLA8490SX, "PRO/1000 F Server").
    I82543gc,
    /// 82544EI/GC: internal PHY or TBI, PCI-X, TCP segmentation.
    I82544,
    /// 82540EM: conventional PCI, copper; the first with interrupt throttling.
    I82540em,
    /// 82545EM: PCI-X, copper or SerDes.
    I82545em,
    /// 82546EB: two (or, on a card with a bridge, four) 82545s (PRO/1000 MT dual and quad).
    I82546eb,
    /// 82574L: PCI Express, copper; two queues in each direction with RSS, MSI-X, extended receive
    /// descriptors, header split (Gigabit CT Desktop; QEMU's `e1000e`).
    I82574l,
    /// 82576: PCI Express, copper; advanced descriptors only ([`desc::advanced`](crate::desc::advanced)),
    /// registers of its own ([`igb`](crate::igb)) (Gigabit ET; QEMU's `igb`, Linux's driver igb). The
    /// driver uses one of its 16 queues in each direction, and one interrupt.
    I82576,
}

/// The physical medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Media {
    /// Twisted pair through a PHY with MII registers.
    Copper,
    /// Optical, through TBI or the internal SerDes; autonegotiation in the MAC.
    Fibre,
}

/// When the receive delay timer (RDTR) starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DelayTimer {
    /// Each packet restarts it (SDM 13.4.30).
    EachPacket,
    /// The first packet after expiry starts it; later ones do not (SDM 3.2.8).
    FirstPacket,
}

/// Values for TIPG, in MAC clocks (SDM 13.4.34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tipg {
    /// Gap between packets sent back to back, less the MAC's own overhead.
    pub ipgt: u16,
    /// First part of the gap otherwise.
    pub ipgr1: u16,
    /// The whole gap otherwise.
    pub ipgr2: u16,
}

impl Tipg {
    /// The register value.
    pub const fn pack(self) -> u32 {
        self.ipgt as u32 | (self.ipgr1 as u32) << 10 | (self.ipgr2 as u32) << 20
    }
}

/// The PCI vendor of all of them.
pub const VENDOR_INTEL: u16 = 0x8086;

use Chip::*;

impl Chip {
    /// All chips.
    pub const ALL: [Self; 8] = [I82542, I82543gc, I82544, I82540em, I82545em, I82546eb, I82574l, I82576];
    /// The chips whose descriptors are those of the 8254x, or have that format, too: all but the 82576.
    pub const E1000: [Self; 7] = [I82542, I82543gc, I82544, I82540em, I82545em, I82546eb, I82574l];
    /// The chips on PCI and PCI-X: the 8254x.
    pub const PCI: [Self; 6] = [I82542, I82543gc, I82544, I82540em, I82545em, I82546eb];

    /// The name used in profiles and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            I82542 => "82542",
            I82543gc => "82543gc",
            I82544 => "82544",
            I82540em => "82540em",
            I82545em => "82545em",
            I82546eb => "82546eb",
            I82574l => "82574l",
            I82576 => "82576",
        }
    }

    /// PCI device identifiers, the commonest first (SDM table 5-1; 82542, 82543 and 82544 from the
    /// public drivers: the table's 1107h and 1112h for the 82544 are known to none of them; 82574 from
    /// the public drivers; 82576: those of the public drivers with a copper PHY).
    pub const fn device_ids(self) -> &'static [u16] {
        match self {
            I82542 => &[0x1000],
            I82543gc => &[0x1001, 0x1004],
            I82544 => &[0x1008, 0x1009, 0x100C, 0x100D],
            I82540em => &[0x100E, 0x1015],
            I82545em => &[0x100F, 0x1011],
            I82546eb => &[0x1010, 0x1012, 0x101D],
            I82574l => &[0x10D3, 0x10F6],
            I82576 => &[0x10C9, 0x10E8, 0x1526, 0x150A],
        }
    }

    /// The chip with this PCI device identifier.
    pub fn from_device_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|chip| chip.device_ids().contains(&id))
    }

    /// The medium of the chip's most common card; on a real one STATUS.TBIMODE shows it.
    pub const fn media(self) -> Media {
        match self {
            I82542 | I82543gc => Media::Fibre,
            _ => Media::Copper,
        }
    }

    /// The chip's offset of the register with canonical offset `canonical` ([`reg`]).
    #[inline]
    pub const fn offset(self, canonical: u32) -> u32 {
        match self {
            I82542 => reg::on_82542(canonical),
            _ => canonical,
        }
    }

    /// Has RADV, TADV and ITR (SDM 13.4.18, .31, .44: not on the 82544 and before).
    pub const fn has_radv_tadv_itr(self) -> bool {
        matches!(self, I82540em | I82545em | I82546eb | I82574l)
    }
    /// Has an interval between interrupts: ITR, or EITR of vector 0 on the 82576 ([`igb::eitr`]).
    pub const fn has_throttle(self) -> bool {
        self.has_radv_tadv_itr() || self.has_advanced()
    }
    /// Has RDTR and TIDV, and descriptors that ask for a delay (public driver igb: not on the 82576).
    pub const fn has_delays(self) -> bool {
        !self.has_advanced()
    }
    /// Sits on PCI Express.
    pub const fn is_pci_express(self) -> bool {
        matches!(self, I82574l | I82576)
    }
    /// Has advanced descriptors ([`desc::advanced`](crate::desc::advanced)) and the registers in [`igb`].
    pub const fn has_advanced(self) -> bool {
        matches!(self, I82576)
    }
    /// Receive queues that a driver can use, and as many transmit queues (82574 data sheet 7.1.1, 7.2.1:
    /// two). The 82576 has 16; this description has the registers of one.
    pub const fn queues(self) -> u8 {
        if self.has_extended_rx() { 2 } else { 1 }
    }
    /// MSI-X vectors (82574 data sheet 7.4: five); 0 without MSI-X. The 82576 has 25; this description has
    /// no registers of them.
    pub const fn vectors(self) -> u8 {
        if self.has_extended_rx() { 5 } else { 0 }
    }
    /// Has extended receive descriptors and, with them, RSS and header split (82574 data sheet
    /// 7.1.4 to 7.1.8).
    pub const fn has_extended_rx(self) -> bool {
        matches!(self, I82574l)
    }
    /// EERD and EEWR have DONE in bit 1 and the address from bit 2 on (82571 and later).
    pub const fn has_late_eerd(self) -> bool {
        self.is_pci_express()
    }
    /// EECD's serial pins are those of a Microwire EEPROM (SDM 5.3). Later chips have SPI, or a flash.
    pub const fn has_microwire(self) -> bool {
        !self.is_pci_express()
    }
    /// Firmware may use the PHY, too: MDIO must be owned while it is accessed, by EXTCNF_CTRL or, on the
    /// 82576, by SW_FW_SYNC.
    pub const fn shares_mdio(self) -> bool {
        self.is_pci_express()
    }
    /// Has EERD (SDM 13.4.4: not on the 82544 and before); others bit-bang EECD.
    pub const fn has_eerd(self) -> bool {
        self.has_radv_tadv_itr() || self.is_pci_express()
    }
    /// EECD access must be requested and granted first (SDM 13.4.3).
    pub const fn has_eeprom_request(self) -> bool {
        self.has_radv_tadv_itr()
    }
    /// Has RXDCTL and TXDCTL (SDM 3.4.2: the 82542 writes every descriptor back at once).
    pub const fn has_descriptor_control(self) -> bool {
        !matches!(self, I82542)
    }
    /// Has context descriptors and RXCSUM (public drivers: 82543 and later).
    pub const fn has_checksum_offload(self) -> bool {
        !matches!(self, I82542)
    }
    /// Has usable TCP segmentation (public drivers: 82544 and later).
    pub const fn has_tso(self) -> bool {
        !matches!(self, I82542 | I82543gc)
    }
    /// Has VLAN stripping, insertion and filtering (public drivers: 82543 and later).
    pub const fn has_vlan(self) -> bool {
        !matches!(self, I82542)
    }
    /// Can strip the FCS (RCTL.SECRC, SDM 13.4.22); assumed not on the 82542.
    pub const fn has_fcs_strip(self) -> bool {
        !matches!(self, I82542)
    }
    /// Reaches its PHY through MDIC (SDM 13.4.7; public drivers: not the 82543).
    pub const fn has_mdic(self) -> bool {
        !matches!(self, I82542 | I82543gc)
    }
    /// Sends XON only when FCRTL.XONE is set (SDM 13.4.23 note 1; public driver igb).
    pub const fn has_xone(self) -> bool {
        matches!(self, I82542 | I82543gc | I82544 | I82576)
    }
    /// Has transmit thresholds with LWTHRESH and the cause TXD_LOW (SDM 13.4.43).
    pub const fn has_txd_low(self) -> bool {
        self.has_radv_tadv_itr()
    }
    /// Knows PCI-X.
    pub const fn has_pcix(self) -> bool {
        matches!(self, I82544 | I82545em | I82546eb)
    }

    /// The most descriptors a ring may have (public drivers: 256 on the 82542 and 82543).
    pub const fn max_ring(self) -> u16 {
        match self {
            I82542 | I82543gc => 256,
            _ => 4096,
        }
    }
    /// The longest frame that the chip can receive, in bytes with FCS: that of a legacy descriptor, or the
    /// reset value of RLPML on the 82576.
    pub const fn max_frame_bytes(self) -> u32 {
        match self {
            I82576 => 0x2600,
            _ => desc::LEGACY_MAX_BYTES,
        }
    }
    /// The greatest threshold of a ring (RXDCTL, TXDCTL), in descriptors: six bits, five on the 82576.
    pub const fn max_threshold(self) -> u8 {
        if self.has_advanced() { igb::dctl::MOST } else { 63 }
    }
    /// The fewest descriptors a ring may have (RDLEN counts blocks of 8, SDM 13.4.27).
    pub const fn min_ring(self) -> u16 {
        8
    }
    /// Packet buffer, receive and transmit together, in bytes (SDM 13.4.16; 82574 data sheet 7.1.2; the
    /// 82576 has two buffers, of 64 and 40 KB after reset, by the reset values in QEMU's igb).
    pub const fn packet_buffer_bytes(self) -> u32 {
        match self {
            I82576 => (64 + 40) * 1024,
            I82574l => 40 * 1024,
            _ => 64 * 1024,
        }
    }
    /// The receive part of the packet buffer after reset, in bytes (SDM 13.4.16; on the 82574
    /// PBA's reset value 0014_0014h).
    pub const fn default_rx_buffer_bytes(self) -> u32 {
        match self {
            I82576 => 64 * 1024,
            I82574l => 20 * 1024,
            _ => 48 * 1024,
        }
    }
    /// The largest receive part of the packet buffer, in bytes. Elsewhere than on the 82576, the rest is for
    /// transmission, at least 8 KB.
    pub const fn max_rx_buffer_bytes(self) -> u32 {
        match self {
            I82576 => 64 * 1024,
            _ => self.packet_buffer_bytes() - 8 * 1024,
        }
    }
    /// Descriptors cached on chip, for each direction (SDM 3.2.4, 3.4.1).
    pub const fn descriptor_cache(self) -> u16 {
        64
    }
    /// The highest address that the device can reach.
    pub const fn max_address(self) -> u64 {
        u64::MAX
    }
    /// When RDTR starts.
    pub const fn delay_timer(self) -> DelayTimer {
        match self {
            I82542 | I82544 => DelayTimer::FirstPacket,
            _ => DelayTimer::EachPacket,
        }
    }
    /// TIPG for the smallest legal gap, as in the public drivers. The manual agrees for the 82544 on copper;
    /// it has 6 for its IPGT on fibre, and 10, 10, 10 for later chips (SDM 14.5).
    pub const fn tipg(self, media: Media) -> Tipg {
        match (self, media) {
            (I82542, _) => Tipg { ipgt: 10, ipgr1: 2, ipgr2: 10 },
            // As after its reset (QEMU's igb; the public driver igb leaves it).
            (I82576, _) => Tipg { ipgt: 8, ipgr1: 4, ipgr2: 6 },
            (_, Media::Fibre) => Tipg { ipgt: 9, ipgr1: 8, ipgr2: 6 },
            (_, Media::Copper) => Tipg { ipgt: 8, ipgr1: 8, ipgr2: 6 },
        }
    }
    /// The gap between packets sent back to back at 1 Gb/s with this `ipgt`, in byte times, assuming that the
    /// value of [`Chip::tipg`] gives the 12 of IEEE 802.3.
    pub const fn gap_bytes(self, media: Media, ipgt: u16) -> u32 {
        (12 + ipgt as u32).saturating_sub(self.tipg(media).ipgt as u32)
    }

    /// The chip's errata.
    pub const fn errata(self) -> &'static [Erratum] {
        use Erratum::*;
        match self {
            I82542 => &[ReceiverResetForFilters, NoSegmentation, PadInSoftware],
            I82543gc => &[
                TransmitWriteBackThreshold,
                ReceiveDelayLockUp,
                NoSegmentation,
                BitBangedMdio,
                TbiAccept,
                PadInSoftware,
            ],
            I82544 => &[
                DwordEndPcix,
                MulticastWrite,
                ResetThroughIo,
                SegmentationSentinel,
                FirstDescriptor2015,
                PadInSoftware,
            ],
            I82540em => &[ResetThroughIo, SegmentationSentinel, PadInSoftware],
            I82545em | I82546eb => {
                &[No64KCrossing, ResetThroughIo, FirstDescriptor2015, SegmentationSentinel, PadInSoftware]
            }
            I82574l => &[CompletionTimeout, NoLinkPowerStates, ReceiverStaysEnabled, PhyStall, PadInSoftware],
            I82576 => &[],
        }
    }

    /// Whether the chip has this erratum.
    pub const fn has(self, erratum: Erratum) -> bool {
        let list = self.errata();
        let mut i = 0;
        while i < list.len() {
            if list[i] as u8 == erratum as u8 {
                return true;
            }
            i += 1;
        }
        false
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no chip of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownChip;

impl fmt::Display for UnknownChip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown chip; known are")?;
        Chip::ALL.iter().try_for_each(|chip| write!(f, " {chip}"))
    }
}

impl core::error::Error for UnknownChip {}

impl FromStr for Chip {
    type Err = UnknownChip;
    fn from_str(name: &str) -> Result<Self, UnknownChip> {
        Self::ALL.into_iter().find(|chip| chip.name().eq_ignore_ascii_case(name)).ok_or(UnknownChip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_identifiers_are_unique() {
        for chip in Chip::ALL {
            assert_eq!(chip.name().parse(), Ok(chip));
            for &id in chip.device_ids() {
                assert_eq!(Chip::from_device_id(id), Some(chip));
            }
        }
        assert_eq!(Chip::from_device_id(0x10D3), Some(I82574l));
        assert_eq!(Chip::from_device_id(0x10C9), Some(I82576));
        assert_eq!("82599".parse::<Chip>(), Err(UnknownChip));
    }

    #[test]
    fn segmentation_and_its_erratum_agree() {
        for chip in Chip::ALL {
            assert_eq!(chip.has_tso(), !chip.has(Erratum::NoSegmentation));
        }
    }

    #[test]
    fn gaps() {
        assert_eq!(I82544.tipg(Media::Copper).pack(), 8 | 8 << 10 | 6 << 20);
        assert_eq!(I82543gc.gap_bytes(Media::Fibre, 9), 12);
        assert_eq!(I82543gc.gap_bytes(Media::Fibre, 11), 14);
    }
}
