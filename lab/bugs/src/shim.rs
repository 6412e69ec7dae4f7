//! The card's registers, with the bugs that are planted between the driver of kpps and the card.

use crate::arch;
use crate::bugs::{Mode, Place, Plant};
use alloc::rc::Rc;
use core::cell::Cell;
use core::ptr::with_exposed_provenance_mut as address;
use kpps_datasheet::{
    bit::{ctrl, rah, rctl, tctl},
    reg,
};
use kpps_platform::Registers;

/// A size of access to registers.
trait Width: Copy {}
impl Width for u8 {}
impl Width for u16 {}
impl Width for u32 {}

/// The window of registers in the memory of the machine.
#[derive(Clone, Copy)]
struct Window(usize);

impl Window {
    fn at<T: Width>(self, offset: u32) -> *mut T {
        assert!(offset < reg::WINDOW_BYTES, "no register is at {offset:#x}");
        address(self.0 + offset as usize)
    }

    fn read<T: Width>(self, offset: u32) -> T {
        arch::order();
        // SAFETY: the window is the card's, of this size, and aligned; `offset` is a multiple of the access.
        let value = unsafe { self.at::<T>(offset).read_volatile() };
        arch::order();
        value
    }

    fn write<T: Width>(self, offset: u32, value: T) {
        arch::order();
        // SAFETY: as in `read`. The driver answers for the consequences.
        unsafe { self.at::<T>(offset).write_volatile(value) }
        arch::order();
    }
}

/// The state that all handles share.
#[derive(Default)]
struct State {
    /// Writes of ring registers by the driver of kpps have no effect: this guest's queues will make them.
    held: Cell<bool>,
    /// The last write reset the card.
    reset: Cell<bool>,
    /// RXDCTL was written.
    dctl: Cell<bool>,
}

/// The registers, with a planted bug.
#[derive(Clone)]
pub struct Shim {
    window: Window,
    mode: Mode,
    state: Rc<State>,
}

impl Shim {
    /// The registers at `at`.
    pub fn new(at: usize, mode: Mode) -> Self {
        let state = State { held: Cell::new(mode.place == Place::Queues), ..State::default() };
        Self { window: Window(at), mode, state: Rc::new(state) }
    }

    /// From now on they have no effect, until the next [`release`](Self::release).
    pub fn hold(&self) {
        self.state.held.set(true);
    }

    /// From now on writes of ring registers, and of the bits that enable the two units, reach the card.
    pub fn release(&self) {
        self.state.held.set(false);
    }

    /// Whether the driver is to go on at once, because the card was just reset and the bug of that name is
    /// planted.
    pub fn is_hasty(&self) -> bool {
        self.mode.has(Plant::ResetNotAwaited) && self.state.reset.get()
    }

    /// Changes bits of a register.
    pub fn modify(&self, offset: u32, clear: u32, set: u32) {
        self.write(offset, self.read(offset) & !clear | set);
    }
}

impl Registers for Shim {
    fn read(&self, offset: u32) -> u32 {
        if offset == reg::STATUS && self.mode.has(Plant::ByteRead) {
            return self.window.read::<u8>(offset).into();
        }
        self.window.read(offset)
    }

    fn write(&self, offset: u32, value: u32) {
        let Self { window, mode, state } = self;
        state.reset.set(offset == reg::CTRL && value & ctrl::RST != 0);
        let held = state.held.get();
        let value = match (offset, mode.plant) {
            (reg::RDBAL..=reg::RDT | reg::TDBAL..=reg::TDT, _) if held => return,
            (reg::RCTL, plant) => {
                let value = if held { value & !rctl::EN } else { value };
                match plant {
                    Some(Plant::BamMissing) => value & !rctl::BAM,
                    Some(Plant::MpeForBam) => value & !rctl::BAM | rctl::MPE,
                    Some(Plant::FcsCounted) => value & !rctl::SECRC,
                    Some(Plant::BadFramesTaken) => value | rctl::SBP,
                    Some(Plant::EopIgnored) => value | rctl::buffer_size(256).unwrap_or(0),
                    Some(Plant::ReservedBits) => value | 1,
                    _ => value,
                }
            }
            (reg::TCTL, plant) => {
                let value = if held { value & !tctl::EN } else { value };
                match plant {
                    Some(Plant::PspMissing) => value & !tctl::PSP,
                    Some(Plant::CollisionsMissing) => value & !(0xFF << tctl::CT_SHIFT),
                    _ => value,
                }
            }
            (reg::CTRL, Some(Plant::SluMissing)) => value & !ctrl::SLU,
            (reg::CTRL, Some(Plant::SpeedForced)) if value & ctrl::SLU != 0 => {
                let forced = ctrl::FRCSPD | ctrl::SPEED_1000 | ctrl::FRCDPLX | ctrl::FD;
                value & !(ctrl::ASDE | ctrl::SPEED_MASK) | forced
            }
            (reg::RAH0, Some(Plant::RahAvMissing)) => value & !rah::AV,
            (reg::MTA..reg::RAL0, Some(Plant::MtaNotCleared)) => return,
            (reg::TIPG, Some(Plant::TipgMissing)) => return,
            (reg::TIPG, Some(Plant::GapOfFullDuplex)) => value & 0x3FF,
            (reg::RDBAH | reg::TDBAH, Some(Plant::BaseHighMissing)) => return,
            (reg::RDT | reg::TDT, Some(Plant::WordWrite)) => return window.write(offset, value as u16),
            _ => value,
        };
        match (offset, mode.plant) {
            (reg::RDBAL, Some(Plant::ReceiverFirst)) => {
                window.write(reg::RCTL, rctl::EN | rctl::BAM | rctl::SECRC);
            }
            (reg::TDBAL, Some(Plant::TransmitterFirst)) => {
                let collisions = tctl::CT_DEFAULT << tctl::CT_SHIFT | tctl::COLD_FULL << tctl::COLD_SHIFT;
                window.write(reg::TCTL, tctl::EN | tctl::PSP | collisions);
            }
            (reg::RDLEN, Some(Plant::ReservedBits)) if !state.dctl.replace(true) => {
                window.write(reg::RXDCTL, 1_u32 << 25);
            }
            _ => {}
        }
        window.write(offset, value);
    }
}
