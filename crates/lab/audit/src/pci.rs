//! The configuration space of an 8254x (SDM 4.1), as far as drivers use it: identifiers, command and status,
//! the base addresses of registers and of the I/O window, the interrupt pin, and the capabilities power
//! management (SDM 6.3.3), PCI-X (SDM 4.1.1) and message signaled interrupts (SDM 4.1.3). The 82574L also has
//! PCI Express and MSI-X; its capabilities are where QEMU's e1000e has them.
//!
//! The interrupt's bits of command and status are those of PCI 2.3. SDM tables 4-3 and 4-4 have them for the
//! 82541 and 82547 only, but Linux's `uio_pci_generic`, through which drivers in user space get their
//! interrupts, needs them, and QEMU's card has them, too.

use crate::msix;
use kpps_datasheet::chip::VENDOR_INTEL;
use kpps_datasheet::{Chip, reg};

/// Its size in bytes, and that of PCI Express, where nothing more is.
const BYTES: usize = 256;
const EXPRESS_BYTES: usize = 4096;
/// The I/O window in bytes (SDM 13.2.2; 4.1 has 8).
pub(crate) const IO_BYTES: u32 = 32;

/// Offsets (PCI 2.2, 6.1).
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const BAR0: usize = 0x10;
const BAR2: usize = 0x18;
const BAR3: usize = 0x1C;
const CAPABILITIES: usize = 0x34;

/// Bits of the command register.
const IO: u16 = 1 << 0;
const MEMORY: u16 = 1 << 1;
const MASTER: u16 = 1 << 2;
const INTX_DISABLE: u16 = 1 << 10;
/// The bit of the status register that shows the interrupt line (PCI 2.3, 6.2.3).
const INTERRUPT: u16 = 1 << 3;
/// There is a list of capabilities.
const HAS_CAPABILITIES: u16 = 1 << 4;
/// An access of the card ended with a master abort; a write of 1 clears the bit (SDM table 4-4, PCI 2.2,
/// 6.2.3).
const MASTER_ABORT: u16 = 1 << 13;
/// 66 MHz capable, and medium DEVSEL timing (SDM table 4-4).
const BUS: u16 = 1 << 5 | 1 << 9;
/// The control and status register in the capability of power management (SDM 6.3.3.4).
const PMCSR: usize = 4;
/// The field of it that is 0 in D0 and 3 in D3.
const POWER_STATE: u8 = 3;
/// MSI enable, in the message control register.
const MSI_ENABLE: u8 = 1;
/// MSI-X enable and function mask, in the upper byte of its message control register (PCI 3.0, 6.8.2.3).
const MSIX_ENABLE: u8 = 1 << 7;
const MSIX_MASK: u8 = 1 << 6;

/// A capability. Its number is its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capability {
    Power = 0x01,
    Msi = 0x05,
    PciX = 0x07,
    Express = 0x10,
    MsiX = 0x11,
}
use Capability::{Express, Msi, MsiX, PciX, Power};

/// The capabilities of `chip`, in the order of their list, with their offsets (SDM table 4-1; of the 82574L
/// those of QEMU's e1000e). The manual covers neither the 82542 nor the 82543: the first has none here, and
/// of the second only power management is known.
const fn capabilities(chip: Chip) -> &'static [(usize, Capability)] {
    match chip {
        Chip::I82542 => &[],
        Chip::I82543gc => &[(0xDC, Power)],
        // SDM 4.1.1: no PCI-X.
        Chip::I82540em => &[(0xDC, Power), (0xF0, Msi)],
        Chip::I82574l => &[(0xC8, Power), (0xD0, Msi), (0xE0, Express), (0xA0, MsiX)],
        _ => &[(0xDC, Power), (0xE4, PciX), (0xF0, Msi)],
    }
}

/// The size in bytes of the configuration space of `chip`.
pub(crate) const fn bytes(chip: Chip) -> usize {
    if chip.is_pci_express() { EXPRESS_BYTES } else { BYTES }
}

/// The configuration space.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    chip: Chip,
    bytes: [u8; BYTES],
    /// The bits that software may change.
    writable: [u8; BYTES],
    /// An access of the card ended with a master abort.
    has_aborted: bool,
}

impl Config {
    /// That of `chip` at power-up.
    pub(crate) fn new(chip: Chip) -> Self {
        let mut it = Self { chip, bytes: [0; BYTES], writable: [0; BYTES], has_aborted: false };
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
        it.set(0x3D, if chip.is_pci_express() { &[1, 0, 0] } else { &[1, 0xFF, 0] });
        // I/O, memory, master, write and invalidate, parity, SERR#, interrupt disable.
        it.allow(COMMAND, &0x0557u16.to_le_bytes());
        // Cache line and latency timer.
        it.allow(0x0C, &[0xFF, 0xFF]);
        it.allow(BAR0, &(!(reg::WINDOW_BYTES - 1)).to_le_bytes());
        it.allow(BAR2, &(!(IO_BYTES - 1)).to_le_bytes());
        if chip.vectors() > 0 {
            it.allow(BAR3, &(!(msix::BYTES - 1)).to_le_bytes());
        }
        it.allow(0x3C, &[0xFF]);
        let mut link = CAPABILITIES;
        for &(at, capability) in capabilities(chip) {
            it.set(link, &[at as u8]);
            link = at + 1;
            it.set(at, &[capability as u8]);
            it.add_capability(at, capability);
        }
        it
    }

    /// The offset of a capability.
    fn at(&self, wanted: Capability) -> Option<usize> {
        capabilities(self.chip).iter().find(|(_, it)| *it == wanted).map(|(at, _)| *at)
    }

    /// A byte of a capability; 0 if there is none.
    fn byte(&self, capability: Capability, offset: usize) -> u8 {
        self.at(capability).and_then(|at| self.bytes.get(at + offset)).copied().unwrap_or(0)
    }

    /// The registers of the capability at `at`, except for its identifier and the pointer to the next one.
    fn add_capability(&mut self, at: usize, capability: Capability) {
        match capability {
            Power => {
                // Version 2, DSI, PME# from D0 and D3hot: there is no auxiliary power (SDM 6.3.3.3).
                self.set(at + 2, &0x4822u16.to_le_bytes());
                // The control and status register (SDM 6.3.3.4): the state, PME_En and Data_Select.
                self.allow(at + PMCSR, &0x1F03u16.to_le_bytes());
            }
            PciX => {
                // Relaxed ordering is enabled (SDM 4.1.1.3).
                self.set(at + 2, &0x0002u16.to_le_bytes());
                self.allow(at + 2, &0x007Fu16.to_le_bytes());
                // No bus or device number yet; 64 bits, 133 MHz, reads of up to 2 KB (SDM 4.1.1.4).
                self.set(at + 4, &0x0043_FFF8u32.to_le_bytes());
            }
            Express => {
                // Version 1, an endpoint (PCI Express 1.1, 7.8).
                self.set(at + 2, &0x0001u16.to_le_bytes());
                // Role-based errors, payloads of up to 256 bytes.
                self.set(at + 4, &0x0000_8001u32.to_le_bytes());
                // Relaxed ordering, no snoop, reads of up to 512 bytes.
                self.set(at + 8, &0x2810u16.to_le_bytes());
                self.allow(at + 8, &0x78FFu16.to_le_bytes());
                // One lane of 2.5 GT/s, with L0s; it is in use.
                self.set(at + 12, &0x0000_0411u32.to_le_bytes());
                self.allow(at + 16, &0x01CBu16.to_le_bytes());
                self.set(at + 18, &0x1011u16.to_le_bytes());
            }
            MsiX => {
                // The number of vectors, less 1; enable and function mask (PCI 3.0, 6.8.2).
                self.set(at + 2, &u16::from(self.chip.vectors().saturating_sub(1)).to_le_bytes());
                self.allow(at + 3, &[MSIX_ENABLE | MSIX_MASK]);
                // Table and pending bits are in BAR 3.
                self.set(at + 4, &3u32.to_le_bytes());
                self.set(at + 8, &(msix::PENDING | 3).to_le_bytes());
            }
            Msi => {
                // 64-bit addresses, one message. The table of SDM 4.1.3.1.3 has the enable bit as read only;
                // 4.1.3 says that system software writes it.
                self.set(at + 2, &[0x80]);
                self.allow(at + 2, &[0x70 | MSI_ENABLE]);
                // Message address, upper address, data.
                self.allow(at + 4, &[0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
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
        let bus = if self.chip.is_pci_express() { 0 } else { BUS };
        let status = bit(line, INTERRUPT)
            | bit(self.bytes[CAPABILITIES] != 0, HAS_CAPABILITIES)
            | bit(self.has_aborted, MASTER_ABORT)
            | bus;
        self.set(STATUS, &status.to_le_bytes());
        into.fill(0);
        let bytes = usize::try_from(offset).ok().and_then(|start| self.bytes.get(start..));
        into.iter_mut().zip(bytes.unwrap_or_default()).for_each(|(to, from)| *to = *from);
    }

    /// Writes at `offset` what software may change there. Returns whether the card left D3: card and
    /// configuration space are in the state of power-up then (SDM 6.3.1.2).
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) -> bool {
        let before = self.byte(Power, PMCSR) & POWER_STATE;
        let start = usize::try_from(offset).unwrap_or(BYTES).min(BYTES);
        let places = self.bytes[start..].iter_mut().zip(&self.writable[start..]);
        for (byte, (old, may)) in from.iter().zip(places) {
            *old = *old & !may | byte & may;
        }
        let upper = (STATUS + 1).checked_sub(start).and_then(|at| from.get(at));
        self.has_aborted &= upper.is_none_or(|byte| byte & (MASTER_ABORT >> 8) as u8 == 0);
        match self.byte(Power, PMCSR) & POWER_STATE {
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
            1 | 2 => {
                let control = self.at(Power).and_then(|at| self.bytes.get_mut(at + PMCSR));
                control.into_iter().for_each(|control| *control = *control & !POWER_STATE | before);
            }
            _ => {}
        }
        false
    }

    /// An access of the card to memory ended with a master abort.
    pub(crate) fn note_master_abort(&mut self) {
        self.has_aborted = true;
    }

    /// Whether the card is in D0. In D3 it answers only here, and neither uses the bus nor interrupts (SDM
    /// 6.3.1.4).
    pub(crate) fn is_awake(&self) -> bool {
        self.byte(Power, PMCSR) & POWER_STATE == 0
    }

    /// Whether the card may use the bus.
    pub(crate) fn is_master(&self) -> bool {
        self.word(COMMAND) & MASTER != 0 && self.is_awake()
    }

    /// Whether the card may assert its interrupt line: not while it sends messages (SDM 4.1.3).
    pub(crate) fn interrupts(&self) -> bool {
        self.word(COMMAND) & INTX_DISABLE == 0
            && self.is_awake()
            && !self.has_messages()
            && !self.has_vectors()
    }

    /// Whether the card may interrupt by a message, which is a write to memory.
    pub(crate) fn sends_messages(&self) -> bool {
        self.has_messages() && self.is_master()
    }

    /// Whether MSI-X is enabled.
    pub(crate) fn has_vectors(&self) -> bool {
        self.byte(MsiX, 3) & MSIX_ENABLE != 0
    }

    /// Whether the card may send the messages of its vectors.
    pub(crate) fn sends_vectors(&self) -> bool {
        self.byte(MsiX, 3) & (MSIX_ENABLE | MSIX_MASK) == MSIX_ENABLE && self.is_master()
    }

    fn has_messages(&self) -> bool {
        self.byte(Msi, 2) & MSI_ENABLE != 0 && !self.has_vectors()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The capabilities of an 82540EM.
    const POWER: usize = 0xDC;
    const MSI: usize = 0xF0;

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
        for offset in [0x100, 0xFFF, u64::MAX - 3, u64::MAX] {
            config.write(offset, &[1; 8]);
            assert_eq!(read(&mut config, offset, false), [0; 8], "{offset:#x}");
        }
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
    fn a_master_abort_is_shown_until_it_is_cleared() {
        let mut config = Config::new(Chip::I82540em);
        config.note_master_abort();
        for (at, bytes) in [(COMMAND, [0x06, 0, 0, 0]), (STATUS, [0xFF, 0, 0, 0x20]), (0x0A, [0xFF; 4])] {
            config.write(at as u64, &bytes);
            assert_eq!(read(&mut config, STATUS as u64, false), 0x2230u16.to_le_bytes());
        }
        config.write(COMMAND as u64, &[0x06, 0, 0, 0x20]);
        assert_eq!(read(&mut config, STATUS as u64, false), 0x0230u16.to_le_bytes());
    }

    #[test]
    fn each_chip_has_its_identifier_and_its_list_of_capabilities() {
        let chips: [Listed; 7] = [
            (Chip::I82542, 0x1000, &[]),
            (Chip::I82543gc, 0x1001, &[(0xDC, 1)]),
            (Chip::I82544, 0x1008, &[(0xDC, 1), (0xE4, 7), (0xF0, 5)]),
            (Chip::I82540em, 0x100E, &[(0xDC, 1), (0xF0, 5)]),
            (Chip::I82545em, 0x100F, &[(0xDC, 1), (0xE4, 7), (0xF0, 5)]),
            (Chip::I82546eb, 0x1010, &[(0xDC, 1), (0xE4, 7), (0xF0, 5)]),
            (Chip::I82574l, 0x10D3, &[(0xC8, 1), (0xD0, 5), (0xE0, 0x10), (0xA0, 0x11)]),
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
            assert!(!config.write((POWER + PMCSR) as u64, &[ignored, 0]));
            assert_eq!(read(&mut config, (POWER + PMCSR) as u64, false), [0, 0]);
        }
        assert!(!config.write((POWER + PMCSR) as u64, &[0, 1]));
        assert_eq!(read(&mut config, (POWER + PMCSR) as u64, false), [0, 1], "PME_En");
        assert!(!config.write((POWER + PMCSR) as u64, &[3, 1]));
        assert_eq!(read(&mut config, COMMAND as u64, false), MASTER.to_le_bytes());
        assert!(!config.is_awake() && !config.is_master() && !config.interrupts());
        assert!(config.write((POWER + PMCSR) as u64, &[0, 0]));
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
        assert_eq!(read(&mut config, 0xE4, false), [7, 0xF0, 2, 0]);
        assert_eq!(u16::from_le_bytes(all_ones(&mut config, 0xE4 + 2)), 0x007F);
        assert_eq!(u32::from_le_bytes(all_ones(&mut config, 0xE4 + 4)), 0x0043_FFF8);
    }

    #[test]
    fn vectors_take_the_place_of_message_and_line() {
        let mut config = Config::new(Chip::I82574l);
        assert_eq!(read(&mut config, 0xA0, false), [0x11, 0, 4, 0, 3, 0, 0, 0, 3, 0x20, 0, 0]);
        assert_eq!(u32::from_le_bytes(all_ones(&mut config, BAR3 as u64)), 0xFFFF_C000);
        assert_eq!(read(&mut config, STATUS as u64, false), 0x0010u16.to_le_bytes());
        config.write(COMMAND as u64, &MASTER.to_le_bytes());
        config.write(0xD2, &[0x81, 0]);
        assert!(config.sends_messages() && !config.has_vectors());
        assert_eq!(all_ones(&mut config, 0xA2), [4, 0xC0]);
        assert!(config.has_vectors() && !config.sends_vectors(), "all vectors are masked");
        config.write(0xA2, &[0, 0x80]);
        assert!(config.sends_vectors() && !config.sends_messages() && !config.interrupts());
        config.write(COMMAND as u64, &[0, 0]);
        assert!(!config.sends_vectors());
        // No other chip has them, whatever is written.
        let mut config = Config::new(Chip::I82540em);
        assert_eq!(all_ones(&mut config, BAR3 as u64), [0; 4]);
        for word in 0..64 {
            config.write(word * 4, &[0xFC; 4]);
        }
        assert!(!config.has_vectors());
    }

    #[test]
    fn an_express_card_has_a_link() {
        let mut config = Config::new(Chip::I82574l);
        let [_, next, flags, _] = read(&mut config, 0xE0, false);
        assert_eq!((next, flags, bytes(Chip::I82574l), bytes(Chip::I82546eb)), (0xA0, 1, 4096, 256));
        assert_eq!(u16::from_le_bytes(read(&mut config, 0xF2, false)), 0x1011);
        assert_eq!(read(&mut config, 0x100, false), [0; 8], "no extended capability");
        assert!(!config.write(0xCC, &[3, 0]) && !config.is_awake());
        assert!(config.write(0xCC, &[0, 0]) && config.is_awake());
    }
}
