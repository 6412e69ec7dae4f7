//! The card on the PCI bus.

use crate::arch::{self, Line};
use kpps_datasheet::Chip;

const COMMAND: u32 = 0x04;
const MEMORY: u32 = 1 << 1;
const BUS_MASTER: u32 = 1 << 2;
const BAR0: u32 = 0x10;
const INTERRUPT: u32 = 0x3C;
const INTEL: u32 = 0x8086;
/// Buses that are searched. The firmware of a PC numbers them; without firmware there is only bus 0.
const BUSES: u32 = 8;

/// A card, before it is used.
pub struct Card {
    /// Bus, device and function.
    pub function: u32,
    /// Its chip.
    pub chip: Chip,
    /// The address of its registers.
    pub registers: usize,
    /// Its interrupt line.
    pub line: Line,
}

/// The first card that the driver knows, with the address of its registers assigned.
pub fn find() -> Option<Card> {
    (0..BUSES << 8).step_by(8).find_map(|function| {
        let id = arch::config_read(function, 0);
        if id & 0xFFFF != INTEL {
            return None;
        }
        let chip = Chip::from_device_id((id >> 16) as u16)?;
        let slot = (function >> 3 & 0x1F) as u8;
        let number = arch::config_read(function, INTERRUPT) as u8;
        Some(Card { function, chip, registers: assigned(function), line: Line::new(slot, number) })
    })
}

/// The address of the function's registers: that of the firmware, or the machine's window, if there is none.
fn assigned(function: u32) -> usize {
    let is_64_bit = arch::config_read(function, BAR0) & 6 == 4;
    let low = arch::config_read(function, BAR0) & !0xF;
    let high = if is_64_bit { arch::config_read(function, BAR0 + 4) } else { 0 };
    if low != 0 || high != 0 {
        return (u64::from(high) << 32 | u64::from(low)) as usize;
    }
    // The window begins at a multiple of any register window's size, and nothing else uses it.
    arch::config_write(function, BAR0, arch::MMIO_WINDOW);
    if is_64_bit {
        arch::config_write(function, BAR0 + 4, 0);
    }
    arch::MMIO_WINDOW as usize
}

impl Card {
    /// Lets the card answer, and access memory if it is to be a `master` of the bus. The firmware may have
    /// enabled either.
    pub fn enable(&self, master: bool) {
        // The status half is cleared by ones.
        let command = arch::config_read(self.function, COMMAND) & 0xFFFF & !BUS_MASTER;
        let master = if master { BUS_MASTER } else { 0 };
        arch::config_write(self.function, COMMAND, command | MEMORY | master);
    }
}
