//! The configuration space of an 8254x (SDM 4.1), as far as drivers use it: identifiers, command and status,
//! the base addresses of registers and of the I/O window, the interrupt pin. There are no capabilities.

use kpps_datasheet::chip::VENDOR_INTEL;
use kpps_datasheet::{Chip, reg};

/// Its size in bytes.
pub(crate) const BYTES: usize = 256;
/// The I/O window in bytes (SDM 13.2.2).
pub(crate) const IO_BYTES: u32 = 32;

/// Offsets (PCI 2.2, 6.1).
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const BAR0: usize = 0x10;
const BAR2: usize = 0x18;

/// Bits of the command register.
const MASTER: u16 = 1 << 2;
const INTX_DISABLE: u16 = 1 << 10;
/// The bit of the status register that shows the interrupt line (PCI 2.3, 6.2.3).
const INTERRUPT: u16 = 1 << 3;

/// The configuration space.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    bytes: [u8; BYTES],
    /// The bits that software may change.
    writable: [u8; BYTES],
}

impl Config {
    /// That of `chip` at power-up.
    pub(crate) fn new(chip: Chip) -> Self {
        let mut it = Self { bytes: [0; BYTES], writable: [0; BYTES] };
        let device = chip.device_ids().first().copied().unwrap_or_default();
        it.set(0x00, &VENDOR_INTEL.to_le_bytes());
        it.set(0x02, &device.to_le_bytes());
        // Class 02 00 00: an Ethernet controller.
        it.set(0x0B, &[0x02]);
        it.set(0x2C, &VENDOR_INTEL.to_le_bytes());
        it.set(0x2E, &device.to_le_bytes());
        // I/O space.
        it.set(BAR2, &1u32.to_le_bytes());
        // INTA#, minimum grant and maximum latency.
        it.set(0x3D, &[1, 0xFF, 0]);
        // I/O, memory, master, write and invalidate, parity, SERR#, interrupt disable.
        it.allow(COMMAND, &0x0557u16.to_le_bytes());
        // Cache line and latency timer.
        it.allow(0x0C, &[0xFF, 0xFF]);
        it.allow(BAR0, &(!(reg::WINDOW_BYTES - 1)).to_le_bytes());
        it.allow(BAR2, &(!(IO_BYTES - 1)).to_le_bytes());
        it.allow(0x3C, &[0xFF]);
        it
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: usize, bits: &[u8]) {
        self.writable[at..at + bits.len()].copy_from_slice(bits);
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Reads from `offset` while the interrupt line has this level. Beyond the space there is 0.
    pub(crate) fn read(&mut self, offset: u64, line: bool, into: &mut [u8]) {
        let status = if line { INTERRUPT } else { 0 };
        self.set(STATUS, &status.to_le_bytes());
        for (byte, at) in into.iter_mut().zip(offset..) {
            *byte = usize::try_from(at).ok().and_then(|at| self.bytes.get(at)).copied().unwrap_or(0);
        }
    }

    /// Writes at `offset` what software may change there.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        for (byte, at) in from.iter().zip(offset..) {
            let Ok(at) = usize::try_from(at) else { return };
            let (Some(old), Some(may)) = (self.bytes.get_mut(at), self.writable.get(at)) else { return };
            *old = *old & !may | byte & may;
        }
    }

    /// Whether the card may use the bus.
    pub(crate) fn is_master(&self) -> bool {
        self.word(COMMAND) & MASTER != 0
    }

    /// Whether the card may interrupt.
    pub(crate) fn interrupts(&self) -> bool {
        self.word(COMMAND) & INTX_DISABLE == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<const N: usize>(config: &mut Config, at: u64, line: bool) -> [u8; N] {
        let mut bytes = [0; N];
        config.read(at, line, &mut bytes);
        bytes
    }

    #[test]
    fn base_addresses_are_sized_as_pci_says() {
        let mut config = Config::new(Chip::I82540em);
        assert_eq!(read(&mut config, 0, false), [0x86, 0x80, 0x0E, 0x10]);
        config.write(BAR0 as u64, &[0xFF; 4]);
        assert_eq!(u32::from_le_bytes(read(&mut config, BAR0 as u64, false)), 0xFFFE_0000);
        config.write(BAR2 as u64, &[0xFF; 4]);
        assert_eq!(u32::from_le_bytes(read(&mut config, BAR2 as u64, false)), 0xFFFF_FFE1);
        config.write(0, &[0; 4]);
        assert_eq!(read(&mut config, 0, false), [0x86, 0x80], "identifiers stay");
        config.write(0xFE, &[1; 8]);
        assert_eq!(read(&mut config, 0xFC, false), [0; 8], "beyond the end there is nothing");
    }

    #[test]
    fn command_and_status() {
        let mut config = Config::new(Chip::I82543gc);
        assert!(!config.is_master() && config.interrupts());
        config.write(COMMAND as u64, &(MASTER | INTX_DISABLE).to_le_bytes());
        assert!(config.is_master() && !config.interrupts());
        assert_eq!(read(&mut config, STATUS as u64, true), INTERRUPT.to_le_bytes());
        assert_eq!(read(&mut config, STATUS as u64, false), [0, 0]);
    }
}
