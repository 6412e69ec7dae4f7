//! Additions of the 82574 to its predecessors (82574 data sheet, chapter 10): the registers by which a driver
//! brings it up, and extended receive descriptors.
//!
//! The model has one queue in each direction, as after reset. RSS and header split are not modelled: their
//! registers have no effect, and some read as 0. [`vector`](crate::vector) has MSI-X.

use crate::receiver::Receive;
use kpps_datasheet::Chip;
use kpps_datasheet::desc::extended::{self, Writeback};
use kpps_datasheet::desc::{RX_DD, RxWriteback, rx_status};
use kpps_datasheet::express::{cause, ctrl, rxcsum, status, swsm};
use kpps_datasheet::reg;

/// The causes beyond those of the 8254x.
pub(crate) const CAUSES: u32 =
    cause::ACK | cause::MNG | cause::RXQ0 | cause::RXQ1 | cause::TXQ0 | cause::TXQ1 | cause::OTHER;

/// Registers that only keep their value.
pub(crate) const PLAIN: [u32; 9] = [
    reg::EXTCNF_CTRL,
    reg::GCR,
    reg::GCR2,
    reg::IVAR,
    reg::EIAC,
    reg::IAM,
    reg::PSRCTL,
    reg::MRQC,
    reg::TARC0,
];

/// The bits of RXCSUM that `chip` has.
pub(crate) const fn checksum_bits(chip: Chip) -> u32 {
    0x7FF | if chip.has_extended_rx() { rxcsum::PCSD } else { 0 }
}

/// STATUS, as far as it concerns the bus: it says at once that there are no more requests when they are
/// disabled. They do go on until the reset that follows.
pub(crate) const fn bus_status(control: u32) -> u32 {
    if control & ctrl::MASTER_DISABLE == 0 { status::MASTER_ENABLE } else { 0 }
}

/// SWSM, the software semaphore. The model has no firmware: software that asks for a semaphore gets it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Semaphore(u32);

impl Semaphore {
    /// Reads the register. A read takes the semaphore of the drivers.
    pub(crate) fn read(&mut self) -> u32 {
        let before = self.0;
        self.0 |= swsm::SMBI;
        before
    }

    /// Writes the register: 0 releases a semaphore.
    pub(crate) fn write(&mut self, value: u32) {
        self.0 = value & (swsm::SMBI | swsm::SWESMBI);
    }
}

impl Receive {
    /// The second word of a null descriptor that is done.
    pub(crate) fn null_done(&self, second: u64) -> u64 {
        second | if self.extended { extended::DD } else { RX_DD }
    }

    /// A descriptor that is done: its second word, and its first if the format has results there, too.
    pub(crate) fn done(&self, d: RxWriteback) -> (Option<u64>, u64) {
        if !self.extended {
            return (None, d.pack());
        }
        // In place of the hash: no IP identification, and the packet checksum, which PCSD takes away.
        let sum = if self.checksum & rxcsum::PCSD == 0 { d.checksum } else { 0 };
        let [first, second] = Writeback {
            mrq: 0,
            rss: u32::from(sum) << 16,
            status: d.status.into(),
            errors: u16::from(d.errors) << 4,
            length: d.length,
            vlan: d.special,
        }
        .pack();
        (Some(first), second)
    }

    /// The bit of a second word that ends a frame.
    pub(crate) fn end_of_frame(&self) -> u64 {
        if self.extended { extended::EOP } else { u64::from(rx_status::EOP) << 32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_takes_the_semaphore_of_the_drivers() {
        let mut semaphore = Semaphore::default();
        assert_eq!((semaphore.read(), semaphore.read()), (0, swsm::SMBI));
        semaphore.write(swsm::SWESMBI | 1 << 31);
        assert_eq!(semaphore.read(), swsm::SWESMBI);
        semaphore.write(0);
        assert_eq!(semaphore.read(), 0);
    }
}
