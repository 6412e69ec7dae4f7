//! Which frames the device accepts.

use crate::{Control, Error, Invalid};
use kpps_datasheet::{
    Erratum,
    bit::{rah, rctl},
    express, igb, reg,
};
use kpps_platform::Platform;

impl<P: Platform> Control<P> {
    /// The station address.
    pub fn address(&self) -> [u8; 6] {
        self.address
    }

    /// Changes the station address. A [`reset`](crate::Device::reset) keeps it.
    ///
    /// # Errors
    /// [`Error::Config`] if it is no station address.
    pub fn set_address(&mut self, address: [u8; 6]) -> Result<(), Error> {
        if address[0] & 1 != 0 || address == [0; 6] {
            return Err(Error::Config(Invalid::Rule("address: not a station address")));
        }
        self.address = address;
        self.write_address(0, Some(address));
        Ok(())
    }

    /// Accepts one more unicast address, in receive address entry 1 to 15; `None` frees the entry.
    pub fn set_unicast(&mut self, entry: u32, address: Option<[u8; 6]>) -> Result<(), Error> {
        if !(1..reg::RAR_ENTRIES).contains(&entry) {
            return Err(Error::Config(Invalid::Rule("unicast entry: not within 1 to 15")));
        }
        self.unicast[entry as usize - 1] = address;
        self.write_address(entry, address);
        Ok(())
    }

    /// Accepts frames to these multicast addresses. Other addresses with the same hash pass too
    /// ([`Received::is_inexact`](crate::Received::is_inexact)).
    pub fn set_multicast(&mut self, addresses: &[[u8; 6]]) {
        self.multicast = [0; reg::MTA_WORDS as usize];
        for &address in addresses {
            let (row, bit) = reg::mta_position(address, 0);
            self.multicast[row as usize] |= 1 << bit;
        }
        self.write_multicast();
    }

    /// Accepts all unicast and multicast frames, or only those to configured addresses.
    pub fn set_promiscuous(&mut self, on: bool) {
        self.config.promiscuous = on;
        self.write_rctl();
    }

    /// Accepts all multicast frames, or only those to configured addresses.
    pub fn set_all_multicast(&mut self, on: bool) {
        self.all_multicast = on;
        self.write_rctl();
    }

    /// Accepts tagged frames of these VLANs only; `None` accepts all.
    pub fn set_vlans(&mut self, vlans: Option<&[u16]>) -> Result<(), Error> {
        if !self.chip.has_vlan() {
            return if vlans.is_none() { Ok(()) } else { Err(Error::Unsupported) };
        }
        self.vlan_filter = vlans.is_some();
        self.vlans = [0; reg::VFTA_WORDS as usize];
        for &vlan in vlans.unwrap_or_default() {
            let (row, bit) = reg::vfta_position(vlan);
            self.vlans[row as usize] |= 1 << bit;
        }
        self.write_vlans();
        self.write_rctl();
        Ok(())
    }

    /// Writes all filters, after a reset.
    pub(crate) fn write_filters(&mut self) {
        self.write_address(0, Some(self.address));
        for (entry, address) in (1..).zip(self.unicast) {
            self.write_address(entry, address);
        }
        self.write_multicast();
        if self.chip.has_vlan() {
            self.write_vlans();
        }
    }

    fn write_address(&self, entry: u32, address: Option<[u8; 6]>) {
        match address {
            // The high half last: it makes the entry valid (SDM 13.5.3).
            Some([a, b, c, d, e, f]) => {
                self.regs.write(reg::ral(entry), u32::from_le_bytes([a, b, c, d]));
                self.regs.write(reg::rah(entry), u32::from_le_bytes([e, f, 0, 0]) | rah::AV);
            }
            None => {
                self.regs.write(reg::rah(entry), 0);
                self.regs.write(reg::ral(entry), 0);
            }
        }
    }

    fn write_multicast(&self) {
        // The 82544 may disturb the register before the one written (erratum). From the top down, the next
        // write corrects it.
        let backwards = self.chip.has(Erratum::MulticastWrite);
        for n in 0..reg::MTA_WORDS {
            let row = if backwards { reg::MTA_WORDS - 1 - n } else { n };
            self.regs.write(reg::mta(row), self.multicast[row as usize]);
        }
    }

    fn write_vlans(&self) {
        for (row, &word) in (0..).zip(&self.vlans) {
            self.regs.write(reg::vfta(row), word);
        }
    }

    /// Writes RCTL as configured.
    pub(crate) fn write_rctl(&self) {
        use crate::config::{RxFormat, RxLow};
        let c = &self.config;
        let select = |on: bool, bits: u32| if on { bits } else { 0 };
        let low = match c.rx_low {
            RxLow::Half => rctl::RDMTS_HALF,
            RxLow::Quarter => rctl::RDMTS_QUARTER,
            RxLow::Eighth => rctl::RDMTS_EIGHTH,
        };
        let split = matches!(c.rx_format.on(self.chip), RxFormat::Split { .. });
        // On the 82576 they are in SRRCTL, except sizes of buffers below its unit.
        let in_srrctl = self.chip.has_advanced();
        let size_in_srrctl = in_srrctl && u32::from(c.rx_buffer_bytes) >= igb::srrctl::BUFFER_UNIT;
        let value = select(self.receiving, rctl::EN)
            | rctl::BAM
            | select(!in_srrctl, low)
            | self.loopback_mode
            // `Config::validate` checked it.
            | select(!size_in_srrctl, rctl::buffer_size(c.rx_buffer_bytes.into()).unwrap_or(0))
            | select(c.promiscuous, rctl::UPE)
            | select(c.promiscuous || self.all_multicast, rctl::MPE)
            | select(c.max_frame_bytes > 1522, rctl::LPE)
            | select(split, express::rctl::DTYP_SPLIT)
            | select((c.strip_fcs || split) && self.chip.has_fcs_strip(), rctl::SECRC)
            | select(self.vlan_filter, rctl::VFE);
        self.regs.write(reg::RCTL, value);
    }
}
