//! Registers and bits that differ on the 82576, as in the public drivers (Linux's igb: `e1000_regs.h`,
//! `e1000_defines.h`, `e1000_82575.h`) and QEMU's igb (`igb_regs.h`, `igb_core.c`). Values are masks unless
//! they say *shift*. Offsets are in BAR 0, in bytes.
//!
//! Other registers are where the 82574 has them ([`reg`](crate::reg)), those of the first four rings too.

/// Receive packet buffer in KB, the 82576's part of [`PBA`](reg::PBA).
pub const RXPBS: u32 = 0x2404;
/// Split and Replication Receive Control of ring 0: its buffers and descriptors; bits in [`srrctl`].
pub const SRRCTL: u32 = 0x280C;
/// Receive Long Packet Maximum Length, in bytes with FCS; in force with RCTL.LPE.
pub const RLPML: u32 = 0x5004;
/// Extended Interrupt Throttling of vector 0, which is the only interrupt without MSI-X; values by [`eitr`].
pub const EITR: u32 = 0x1680;
/// Interrupt Vector Allocation of ring 0; values in [`ivar`].
pub const IVAR: u32 = 0x1700;
/// Software-firmware synchronisation; bits in [`sync`].
pub const SW_FW_SYNC: u32 = 0x5B5C;

/// Descriptor control: RXDCTL and TXDCTL.
pub mod dctl {
    /// The greatest threshold: five bits, in descriptors.
    pub const MOST: u8 = 31;
    /// The ring works.
    pub const ENABLE: u32 = 1 << 25;

    /// A register value of a working ring with thresholds in descriptors.
    pub const fn descriptors(pthresh: u8, hthresh: u8, wthresh: u8) -> u32 {
        (pthresh & MOST) as u32 | ((hthresh & MOST) as u32) << 8 | ((wthresh & MOST) as u32) << 16 | ENABLE
    }
}

/// Buffers and descriptors of a receive ring ([`SRRCTL`]).
pub mod srrctl {
    /// Unit of the buffer size, in bytes. With size 0, RCTL.BSIZE is in force (82575 manual 5.3.2).
    pub const BUFFER_UNIT: u32 = 1024;
    /// Unit of the threshold of RXDMT0, in descriptors.
    pub const LOW_UNIT: u32 = 16;
    /// Shift of that threshold, five bits.
    pub const LOW_SHIFT: u32 = 20;
    /// Advanced descriptors with one buffer.
    pub const ONE_BUFFER: u32 = 1 << 25;

    /// The register for buffers of `buffer_bytes` bytes, and RXDMT0 at `low` descriptors, rounded down to
    /// units but at least one.
    pub const fn one_buffer(buffer_bytes: u32, low: u32) -> u32 {
        let units = low / LOW_UNIT;
        let units = if units < 1 {
            1
        } else if units > 31 {
            31
        } else {
            units
        };
        (buffer_bytes / BUFFER_UNIT) & 0x7F | units << LOW_SHIFT | ONE_BUFFER
    }
}

/// Interrupt throttling (EITR).
pub mod eitr {
    /// The greatest gap: 13 bits, in microseconds.
    const MOST_US: u32 = (1 << 13) - 1;

    /// The value for a least gap of `units` times 256 ns, the unit of [`ITR`](crate::reg::ITR), or for the
    /// greatest gap there is. EITR counts microseconds, from bit 2 on.
    pub const fn of_itr(units: u32) -> u32 {
        let us = units * 256 / 1000;
        let us = if units > 0 && us == 0 { 1 } else { us };
        (if us > MOST_US { MOST_US } else { us }) << 2
    }
}

/// Interrupt vector allocation of ring 0 (IVAR): a byte for each direction.
pub mod ivar {
    /// A byte is valid; the bits below are the vector.
    const VALID: u32 = 0x80;
    /// Both directions raise vector 0. Without MSI-X this raises TXDW and RXT0 (QEMU's igb).
    pub const ALL_TO_0: u32 = VALID | VALID << 8;
}

/// Locks between driver and firmware ([`SW_FW_SYNC`]).
pub mod sync {
    /// The PHY of port 0 is a driver's; the next bit is that of port 1.
    pub const PHY: u32 = 1 << 1;
    /// Distance of the firmware's bit from the driver's.
    pub const FIRMWARE_SHIFT: u32 = 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_public_driver() {
        assert_eq!(dctl::descriptors(8, 8, 4), 0x0204_0808);
        assert_eq!(srrctl::one_buffer(2048, 0), 0x0210_0002);
        assert_eq!(srrctl::one_buffer(256, 128), 0x0280_0000);
        // 8000 interrupts a second: 125 µs.
        assert_eq!((eitr::of_itr(488), eitr::of_itr(1), eitr::of_itr(0)), (124 << 2, 1 << 2, 0));
        // 60 interrupts a second are more than it can count.
        assert_eq!(eitr::of_itr(65_104), 0x7FFC);
    }
}
