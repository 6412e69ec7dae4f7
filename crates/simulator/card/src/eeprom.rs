//! The serial EEPROM, through EERD and through its pins (SDM 5.3, 13.4.3, 13.4.4).

use crate::{Nic, Params};
use kpps_datasheet::Media;
use kpps_datasheet::bit::{eecd, eerd};
use kpps_datasheet::chip::VENDOR_INTEL;
use kpps_datasheet::eeprom::{self, SUMMED_WORDS};
use kpps_datasheet::express;

/// Initialisation control word 1 with its signature, full duplex, power management and
/// subsystem identifiers (SDM 5.6.7).
const INIT_CONTROL_1: u16 = 0x440A;

/// Bits of a Microwire command: a start bit, two of opcode, six of address (NM93C46).
const COMMAND_BITS: u32 = eeprom::OPCODE_BITS + ADDRESS_BITS;
const ADDRESS_BITS: u32 = 6;
const DATA_BITS: u32 = 16;
/// Opcodes besides [`eeprom::OPCODE_READ`], each with its start bit.
const OPCODE_WRITE: u32 = 0b101;
const OPCODE_ERASE: u32 = 0b111;
const OPCODE_CONTROL: u32 = 0b100;
/// The two highest address bits of [`OPCODE_CONTROL`]: writes enabled, disabled.
const CONTROL_ENABLE: u32 = 0b11;
const CONTROL_DISABLE: u32 = 0b00;

/// The state of the serial protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serial {
    /// Collecting a command: bits so far and how many.
    Command(u32, u32),
    /// Shifting out: the word, the bits left, and the address.
    Read(u16, u32, u32),
    /// Shifting in: the word, the bits so far, and the address.
    Write(u16, u32, u32),
    /// Done until chip select falls; the data pin signals ready.
    Done,
}

/// The EEPROM and its registers.
#[derive(Clone, Debug)]
pub(crate) struct Eeprom {
    words: [u16; SUMMED_WORDS],
    /// The bits of EECD that software sets.
    pins: u32,
    /// The data pin.
    out: bool,
    serial: Serial,
    writable: bool,
    /// EERD: the requested word, and the time at which it is ready, in ps.
    address: u32,
    ready_ps: u64,
    requested: bool,
}

impl Eeprom {
    pub(crate) fn new(params: &Params, mac: [u8; 6]) -> Self {
        let mut words = eeprom::image(mac);
        let ids = params.chip.device_ids();
        // If a chip has several, the copper one comes first and the fibre one second.
        let fibre = params.media == Media::Fibre && params.chip.media() == Media::Copper;
        let id = ids.get(usize::from(fibre)).or(ids.first()).copied().unwrap_or(0);
        words[usize::from(eeprom::INIT_CONTROL_1)] = INIT_CONTROL_1;
        words[usize::from(eeprom::SUBSYSTEM_ID)] = id;
        words[usize::from(eeprom::SUBSYSTEM_VENDOR)] = VENDOR_INTEL;
        words[usize::from(eeprom::DEVICE_ID)] = id;
        words[usize::from(eeprom::VENDOR_ID)] = VENDOR_INTEL;
        words[usize::from(eeprom::CHECKSUM)] = eeprom::checksum(&words);
        Self {
            words,
            pins: eecd::FWE_DIS,
            out: false,
            serial: Serial::Command(0, 0),
            writable: false,
            address: 0,
            ready_ps: 0,
            requested: false,
        }
    }

    /// The station address in it.
    pub(crate) fn station(&self) -> [u8; 6] {
        eeprom::address([self.words[0], self.words[1], self.words[2]])
    }

    fn word(&self, address: u32) -> u16 {
        self.words.get(address as usize).copied().unwrap_or(0xFFFF)
    }

    /// A rising clock edge with `bit` on the data pin.
    fn clock(&mut self, bit: bool) {
        self.serial = match self.serial {
            // A command begins with a start bit: zeros before it are skipped.
            Serial::Command(0, _) if !bit => Serial::Command(0, 0),
            Serial::Command(bits, n) => {
                let bits = bits << 1 | u32::from(bit);
                if n + 1 < COMMAND_BITS { Serial::Command(bits, n + 1) } else { self.command(bits) }
            }
            Serial::Read(word, left, address) => {
                // After the last bit the next word follows.
                let (word, left, address) = if left == 0 {
                    let next = (address + 1) % SUMMED_WORDS as u32;
                    (self.word(next), DATA_BITS, next)
                } else {
                    (word, left, address)
                };
                self.out = word >> (left - 1) & 1 != 0;
                Serial::Read(word, left - 1, address)
            }
            Serial::Write(word, n, address) => {
                let word = word << 1 | u16::from(bit);
                if n + 1 < DATA_BITS {
                    Serial::Write(word, n + 1, address)
                } else {
                    self.store(address, word);
                    Serial::Done
                }
            }
            Serial::Done => Serial::Done,
        };
    }

    fn command(&mut self, bits: u32) -> Serial {
        let address = bits & ((1 << ADDRESS_BITS) - 1);
        self.out = false; // The dummy zero before the data, or busy.
        match bits >> ADDRESS_BITS {
            eeprom::OPCODE_READ => Serial::Read(self.word(address), DATA_BITS, address),
            OPCODE_WRITE => Serial::Write(0, 0, address),
            OPCODE_ERASE => {
                self.store(address, 0xFFFF);
                Serial::Done
            }
            OPCODE_CONTROL => {
                match address >> (ADDRESS_BITS - 2) {
                    CONTROL_ENABLE => self.writable = true,
                    CONTROL_DISABLE => self.writable = false,
                    _ => {}
                }
                Serial::Done
            }
            _ => Serial::Done,
        }
    }

    fn store(&mut self, address: u32, word: u16) {
        if self.writable
            && let Some(slot) = self.words.get_mut(address as usize)
        {
            *slot = word;
        }
        self.out = true;
    }
}

impl Nic {
    /// Reads EECD.
    pub(crate) fn read_eecd(&self) -> u32 {
        let e = &self.eeprom;
        let mut value = e.pins;
        if e.out {
            value |= eecd::DO;
        }
        if self.params.chip.has_eeprom_request() {
            value |= eecd::PRES;
            if value & eecd::REQ != 0 {
                value |= eecd::GNT;
            }
        }
        if self.params.chip.is_pci_express() {
            // The settings are loaded as soon as a reset is over.
            value |= express::eecd::AUTO_RD;
        }
        value
    }

    /// Writes EECD: moves the pins.
    pub(crate) fn write_eecd(&mut self, value: u32) {
        let kept = eecd::SK | eecd::CS | eecd::DI | 3 << 4 | eecd::REQ;
        let granted = !self.params.chip.has_eeprom_request() || value & eecd::REQ != 0;
        let e = &mut self.eeprom;
        let before = core::mem::replace(&mut e.pins, value & kept);
        if value & eecd::CS == 0 {
            e.serial = Serial::Command(0, 0);
        } else {
            if before & eecd::CS == 0 {
                // Ready, which a write waits for.
                e.out = true;
            }
            if granted && before & eecd::SK == 0 && value & eecd::SK != 0 {
                e.clock(value & eecd::DI != 0);
            }
        }
    }

    /// Reads EERD.
    pub(crate) fn read_eerd(&self, now: u64) -> u32 {
        let e = &self.eeprom;
        let (done, shift) = self.eerd_layout();
        let mut value = e.address << shift;
        if e.requested && now >= e.ready_ps {
            value |= done | u32::from(e.word(e.address)) << eerd::DATA_SHIFT;
        }
        value
    }

    /// The bit of EERD that says that a read is done, and where the address begins.
    fn eerd_layout(&self) -> (u32, u32) {
        match self.params.chip.has_late_eerd() {
            true => (express::eerd::DONE, express::eerd::ADDR_SHIFT),
            false => (eerd::DONE, eerd::ADDR_SHIFT),
        }
    }

    /// Writes EERD: starts a read.
    pub(crate) fn write_eerd(&mut self, now: u64, value: u32) {
        if self.params.chip.has_eerd() && value & eerd::START != 0 {
            let (_, shift) = self.eerd_layout();
            self.eeprom.address = (value & 0xFFFF) >> shift;
            self.eeprom.ready_ps = now + self.params.eeprom_ps;
            self.eeprom.requested = true;
        }
    }
}
