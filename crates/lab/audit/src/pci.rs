//! The configuration space of an 8254x (SDM 4.1), as far as drivers use it: identifiers, command and status,
//! the base addresses of registers and of the I/O window, the interrupt pin, and the capabilities power
//! management (SDM 6.3.3), PCI-X (SDM 4.1.1) and message signaled interrupts (SDM 4.1.3).
//!
//! The interrupt's bits of command and status are those of PCI 2.3. SDM tables 4-3 and 4-4 have them for the
//! 82541 and 82547 only, but Linux's `uio_pci_generic`, through which drivers in user space get their
//! interrupts, needs them, and QEMU's card has them, too.

use kpps_datasheet::chip::VENDOR_INTEL;
use kpps_datasheet::{Chip, reg};

/// Its size in bytes.
pub(crate) const BYTES: usize = 256;
/// The I/O window in bytes (SDM 13.2.2; 4.1 has 8).
pub(crate) const IO_BYTES: u32 = 32;

/// Offsets (PCI 2.2, 6.1).
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const BAR0: usize = 0x10;
const BAR2: usize = 0x18;
const CAPABILITIES: usize = 0x34;
/// Offsets of the capabilities (SDM table 4-1).
const POWER: usize = 0xDC;
const PCI_X: usize = 0xE4;
const MSI: usize = 0xF0;
/// The power management control and status register (SDM 6.3.3.4).
const PMCSR: usize = POWER + 4;

/// Bits of the command register.
const IO: u16 = 1 << 0;
const MEMORY: u16 = 1 << 1;
const MASTER: u16 = 1 << 2;
const INTX_DISABLE: u16 = 1 << 10;
/// The bit of the status register that shows the interrupt line (PCI 2.3, 6.2.3).
const INTERRUPT: u16 = 1 << 3;
/// There is a list of capabilities.
const HAS_CAPABILITIES: u16 = 1 << 4;
/// 66 MHz capable, and medium DEVSEL timing (SDM table 4-4).
const BUS: u16 = 1 << 5 | 1 << 9;
/// The field of PMCSR that is 0 in D0 and 3 in D3.
const POWER_STATE: u8 = 3;
/// MSI enable, in the message control register.
const MSI_ENABLE: u8 = 1;

/// The capabilities of `chip`, in the order of their list. The manual covers neither the 82542 nor the 82543:
/// the first has none here, and of the second only power management is known.
const fn capabilities(chip: Chip) -> &'static [usize] {
    match chip {
        Chip::I82542 => &[],
        Chip::I82543gc => &[POWER],
        // SDM 4.1.1: no PCI-X.
        Chip::I82540em => &[POWER, MSI],
        _ => &[POWER, PCI_X, MSI],
    }
}

/// The configuration space.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    chip: Chip,
    bytes: [u8; BYTES],
    /// The bits that software may change.
    writable: [u8; BYTES],
}

impl Config {
    /// That of `chip` at power-up.
    pub(crate) fn new(chip: Chip) -> Self {
        let mut it = Self { chip, bytes: [0; BYTES], writable: [0; BYTES] };
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
        let mut link = CAPABILITIES;
        for &at in capabilities(chip) {
            it.set(link, &[at as u8]);
            link = at + 1;
            it.add_capability(at);
        }
        it
    }

    /// The registers of the capability at `at`, except for the pointer to the next one.
    fn add_capability(&mut self, at: usize) {
        match at {
            POWER => {
                self.set(POWER, &[0x01]);
                // Version 2, DSI, PME# from D0 and D3hot: there is no auxiliary power (SDM 6.3.3.3).
                self.set(POWER + 2, &0x4822u16.to_le_bytes());
                // The state, PME_En and Data_Select.
                self.allow(PMCSR, &0x1F03u16.to_le_bytes());
            }
            PCI_X => {
                // Relaxed ordering is enabled (SDM 4.1.1.3).
                self.set(PCI_X, &[0x07]);
                self.set(PCI_X + 2, &0x0002u16.to_le_bytes());
                self.allow(PCI_X + 2, &0x007Fu16.to_le_bytes());
                // No bus or device number yet; 64 bits, 133 MHz, reads of up to 2 KB (SDM 4.1.1.4).
                self.set(PCI_X + 4, &0x0043_FFF8u32.to_le_bytes());
            }
            _ => {
                self.set(MSI, &[0x05]);
                // 64-bit addresses, one message. The table of SDM 4.1.3.1.3 has the enable bit as read only;
                // 4.1.3 says that system software writes it.
                self.set(MSI + 2, &[0x80]);
                self.allow(MSI + 2, &[0x70 | MSI_ENABLE]);
                // Message address, upper address, data.
                self.allow(MSI + 4, &[0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
            }
        }
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
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        let status = bit(line, INTERRUPT) | bit(self.bytes[CAPABILITIES] != 0, HAS_CAPABILITIES) | BUS;
        self.set(STATUS, &status.to_le_bytes());
        for (byte, at) in into.iter_mut().zip(offset..) {
            *byte = usize::try_from(at).ok().and_then(|at| self.bytes.get(at)).copied().unwrap_or(0);
        }
    }

    /// Writes at `offset` what software may change there. Returns whether the card left D3: card and
    /// configuration space are in the state of power-up then (SDM 6.3.1.2).
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) -> bool {
        let before = self.bytes[PMCSR] & POWER_STATE;
        for (byte, at) in from.iter().zip(offset..) {
            let Ok(at) = usize::try_from(at) else { break };
            let (Some(old), Some(may)) = (self.bytes.get_mut(at), self.writable.get(at)) else { break };
            *old = *old & !may | byte & may;
        }
        match self.bytes[PMCSR] & POWER_STATE {
            0 if before != 0 => {
                *self = Self::new(self.chip);
                return true;
            }
            POWER_STATE if before == 0 => {
                // SDM 6.3.1.4: the card decodes no addresses then.
                let command = self.word(COMMAND) & !(IO | MEMORY);
                self.set(COMMAND, &command.to_le_bytes());
            }
            // D1 and D2 are ignored (SDM 6.3.3.4).
            1 | 2 => self.bytes[PMCSR] = self.bytes[PMCSR] & !POWER_STATE | before,
            _ => {}
        }
        false
    }

    /// Whether the card is in D0. In D3 it answers only here, and neither uses the bus nor interrupts (SDM
    /// 6.3.1.4).
    pub(crate) fn is_awake(&self) -> bool {
        self.bytes[PMCSR] & POWER_STATE == 0
    }

    /// Whether the card may use the bus.
    pub(crate) fn is_master(&self) -> bool {
        self.word(COMMAND) & MASTER != 0 && self.is_awake()
    }

    /// Whether the card may assert its interrupt line: not while it sends messages (SDM 4.1.3).
    pub(crate) fn interrupts(&self) -> bool {
        self.word(COMMAND) & INTX_DISABLE == 0 && self.is_awake() && !self.has_messages()
    }

    /// Whether the card may interrupt by a message, which is a write to memory.
    pub(crate) fn sends_messages(&self) -> bool {
        self.has_messages() && self.is_master()
    }

    fn has_messages(&self) -> bool {
        self.bytes[MSI + 2] & MSI_ENABLE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chip, its device identifier, and the offsets and identifiers of its capabilities.
    type Listed = (Chip, u16, &'static [(u8, u8)]);

    fn read<const N: usize>(config: &mut Config, at: u64, line: bool) -> [u8; N] {
        let mut bytes = [0; N];
        config.read(at, line, &mut bytes);
        bytes
    }

    /// The bytes at `at` after a write of ones.
    fn all_ones<const N: usize>(config: &mut Config, at: u64) -> [u8; N] {
        config.write(at, &[0xFF; N]);
        read(config, at, false)
    }

    #[test]
    fn base_addresses_are_sized_as_pci_says() {
        let mut config = Config::new(Chip::I82540em);
        assert_eq!(read(&mut config, 0, false), [0x86, 0x80, 0x0E, 0x10]);
        assert_eq!(u32::from_le_bytes(all_ones(&mut config, BAR0 as u64)), 0xFFFE_0000);
        assert_eq!(u32::from_le_bytes(all_ones(&mut config, BAR2 as u64)), 0xFFFF_FFE1);
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
        assert_eq!(read(&mut config, STATUS as u64, true), 0x0238u16.to_le_bytes());
        assert_eq!(read(&mut config, STATUS as u64, false), 0x0230u16.to_le_bytes());
        assert_eq!(read(&mut Config::new(Chip::I82542), STATUS as u64, false), 0x0220u16.to_le_bytes());
    }

    #[test]
    fn each_chip_has_its_identifier_and_its_list_of_capabilities() {
        let chips: [Listed; 6] = [
            (Chip::I82542, 0x1000, &[]),
            (Chip::I82543gc, 0x1001, &[(0xDC, 1)]),
            (Chip::I82544, 0x1008, &[(0xDC, 1), (0xE4, 7), (0xF0, 5)]),
            (Chip::I82540em, 0x100E, &[(0xDC, 1), (0xF0, 5)]),
            (Chip::I82545em, 0x100F, &[(0xDC, 1), (0xE4, 7), (0xF0, 5)]),
            (Chip::I82546eb, 0x1010, &[(0xDC, 1), (0xE4, 7), (0xF0, 5)]),
        ];
        for (chip, device, expected) in chips {
            let mut config = Config::new(chip);
            assert_eq!(u16::from_le_bytes(read(&mut config, 2, false)), device, "{chip}");
            assert_eq!(u16::from_le_bytes(read(&mut config, 0x2E, false)), device, "{chip}");
            let [mut at] = read(&mut config, CAPABILITIES as u64, false);
            let mut found = Vec::new();
            while at != 0 {
                let [id, next] = read(&mut config, at.into(), false);
                found.push((at, id));
                at = next;
            }
            assert_eq!(found, expected, "{chip}");
        }
    }

    #[test]
    fn d3_stops_the_card_and_d0_is_a_power_up() {
        let mut config = Config::new(Chip::I82540em);
        assert_eq!(u16::from_le_bytes(read(&mut config, POWER as u64 + 2, false)), 0x4822);
        config.write(COMMAND as u64, &(IO | MEMORY | MASTER).to_le_bytes());
        config.write(BAR0 as u64, &0xFEB0_0000u32.to_le_bytes());
        for ignored in [1, 2] {
            assert!(!config.write(PMCSR as u64, &[ignored, 0]));
            assert_eq!(read(&mut config, PMCSR as u64, false), [0, 0]);
        }
        assert!(!config.write(PMCSR as u64, &[0, 1]));
        assert_eq!(read(&mut config, PMCSR as u64, false), [0, 1], "PME_En");
        assert!(!config.write(PMCSR as u64, &[3, 1]));
        assert_eq!(read(&mut config, COMMAND as u64, false), MASTER.to_le_bytes());
        assert!(!config.is_awake() && !config.is_master() && !config.interrupts());
        assert!(config.write(PMCSR as u64, &[0, 0]));
        assert_eq!(read(&mut config, COMMAND as u64, false), [0; 2]);
        assert_eq!(read(&mut config, BAR0 as u64, false), [0; 4]);
        assert!(config.is_awake() && config.interrupts());
    }

    #[test]
    fn messages_take_the_place_of_the_line() {
        let mut config = Config::new(Chip::I82540em);
        assert_eq!(read(&mut config, MSI as u64, false), [5, 0, 0x80, 0]);
        assert_eq!(u32::from_le_bytes(all_ones(&mut config, MSI as u64 + 4)), 0xFFFF_FFFC);
        assert_eq!(u32::from_le_bytes(all_ones(&mut config, MSI as u64 + 8)), 0xFFFF_FFFF);
        assert_eq!(u32::from_le_bytes(all_ones(&mut config, MSI as u64 + 12)), 0x0000_FFFF);
        assert_eq!(all_ones(&mut config, MSI as u64 + 2), [0xF1, 0]);
        assert!(!config.interrupts());
        assert!(!config.sends_messages(), "a message is a write by a bus master");
        config.write(COMMAND as u64, &MASTER.to_le_bytes());
        assert!(config.sends_messages());
        config.write(MSI as u64 + 2, &[0, 0]);
        assert!(config.interrupts() && !config.sends_messages());
    }

    #[test]
    fn pci_x_of_the_chips_that_know_it() {
        let mut config = Config::new(Chip::I82545em);
        assert_eq!(read(&mut config, PCI_X as u64, false), [7, 0xF0, 2, 0]);
        assert_eq!(u16::from_le_bytes(all_ones(&mut config, PCI_X as u64 + 2)), 0x007F);
        assert_eq!(u32::from_le_bytes(all_ones(&mut config, PCI_X as u64 + 4)), 0x0043_FFF8);
    }
}
