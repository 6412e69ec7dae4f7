//! Reading the EEPROM: through EERD on chips that have it, otherwise over the serial pins.

use crate::{Error, regs::Regs};
use kpps_datasheet::{
    Chip,
    bit::{eecd, eerd},
    eeprom, express, reg,
};
use kpps_platform::Platform;

/// Half a clock period of the serial EEPROM in ns: 250 kHz, well below its 1 MHz.
const HALF_CLOCK_NS: u64 = 2_000;
/// The time limit for a word in ns: fifty times the 40 clocks of 1 MHz that it takes.
const LIMIT_NS: u64 = 2_000_000;

/// Reads words 00h–3Fh.
pub(crate) fn read<P: Platform>(
    platform: &P,
    regs: &Regs<P::Regs>,
    chip: Chip,
) -> Result<[u16; eeprom::SUMMED_WORDS], Error> {
    let mut words = [0; eeprom::SUMMED_WORDS];
    if chip.has_eerd() {
        for (address, word) in (0u32..).zip(&mut words) {
            *word = read_register(platform, regs, chip, address)?;
        }
    } else {
        let pins = Pins { platform, regs };
        for (address, word) in (0u32..).zip(&mut words) {
            *word = pins.read(address)?;
        }
    }
    Ok(words)
}

fn read_register<P: Platform>(
    platform: &P,
    regs: &Regs<P::Regs>,
    chip: Chip,
    address: u32,
) -> Result<u16, Error> {
    let (done, shift) = match chip.has_late_eerd() {
        true => (express::eerd::DONE, express::eerd::ADDR_SHIFT),
        false => (eerd::DONE, eerd::ADDR_SHIFT),
    };
    regs.write(reg::EERD, address << shift | eerd::START);
    let value = regs.wait(platform, reg::EERD, (done, done), (5_000, LIMIT_NS), "EEPROM read (EERD)")?;
    Ok((value >> eerd::DATA_SHIFT) as u16)
}

/// The four wires of a Microwire EEPROM with 6 address bits (SDM 5.3: the only kind on these chips).
struct Pins<'a, P: Platform> {
    platform: &'a P,
    regs: &'a Regs<P::Regs>,
}

impl<P: Platform> Pins<'_, P> {
    fn read(&self, address: u32) -> Result<u16, Error> {
        let idle = self.regs.get(reg::EECD)? & !(eecd::SK | eecd::CS | eecd::DI);
        self.set(idle)?;
        let selected = idle | eecd::CS;
        self.set(selected)?;
        let command = eeprom::OPCODE_READ << 6 | address & 0x3F;
        for bit in (0..eeprom::OPCODE_BITS + 6).rev() {
            let data = if command >> bit & 1 != 0 { eecd::DI } else { 0 };
            self.set(selected | data)?;
            self.set(selected | data | eecd::SK)?;
        }
        let mut word = 0;
        for _ in 0..16 {
            self.set(selected)?;
            // The EEPROM shifts out on the rising edge.
            self.set(selected | eecd::SK)?;
            let out = self.regs.get(reg::EECD)? & eecd::DO != 0;
            word = word << 1 | u16::from(out);
        }
        self.set(idle)?;
        Ok(word)
    }

    /// Sets the pins and waits half a clock. The read flushes the posted write.
    fn set(&self, value: u32) -> Result<(), Error> {
        self.regs.write(reg::EECD, value);
        self.regs.get(reg::STATUS)?;
        self.platform.wait_ns(HALF_CLOCK_NS);
        Ok(())
    }
}
