//! Registers that the 82576 has in place of those of earlier chips: its rings, its interrupt.

use crate::{
    Control,
    config::{RxLow, Thresholds},
};
use kpps_datasheet::{
    bit::rah,
    eeprom as words,
    igb::{self, dctl, eitr, ivar, srrctl},
    reg,
};
use kpps_platform::Platform;

/// Bytes of a VLAN tag.
const TAG_BYTES: u32 = 4;

impl<P: Platform> Control<P> {
    /// Writes the registers that only this chip has, except those of the rings.
    pub(crate) fn start_igb(&self) {
        self.regs.write(igb::IVAR, ivar::ALL_TO_0);
        self.regs.write(reg::IAM, 0);
        self.regs.write(reg::MRQC, 0);
        // A tag counts; the driver checks the length without it.
        self.regs.write(igb::RLPML, u32::from(self.config.max_frame_bytes) + TAG_BYTES);
    }

    /// Sizes of the buffers, the format of the descriptors, and the threshold of RXDMT0.
    pub(crate) fn write_srrctl(&self) {
        let ring = u32::from(self.config.rx_ring);
        let low = match self.config.rx_low {
            RxLow::Half => ring / 2,
            RxLow::Quarter => ring / 4,
            RxLow::Eighth => ring / 8,
        };
        self.regs.write(igb::SRRCTL, srrctl::one_buffer(self.config.rx_buffer_bytes.into(), low));
    }

    /// Enables a ring: `control` is its RXDCTL or TXDCTL. Without thresholds these keep their values.
    pub(crate) fn enable_ring(&self, control: u32, thresholds: Option<Thresholds>) {
        let value = match thresholds {
            Some(t) => dctl::descriptors(t.pthresh, t.hthresh, t.wthresh),
            None => self.regs.read(control) | dctl::ENABLE,
        };
        self.regs.write(control, value);
    }

    /// Writes the least gap between interrupts, in units of ITR.
    pub(crate) fn write_eitr(&self, units: u32) {
        self.regs.write(igb::EITR, eitr::of_itr(units));
    }

    /// The station address that the device has read from its EEPROM in the reset, if there is one. Each port
    /// finds its own address there.
    pub(crate) fn loaded_address(&self) -> Option<[u8; 6]> {
        let (low, high) = (self.regs.read(reg::RAL0), self.regs.read(reg::RAH0));
        let address = words::address([low as u16, (low >> 16) as u16, high as u16]);
        (high & rah::AV != 0 && address[0] & 1 == 0 && address != [0; 6]).then_some(address)
    }
}
