//! Faults of the host and acts of its operator that a port's driver and an end station's have in common.

use crate::card::Slot;
use crate::fault::{Dice, Fault};
use kpps_driver::Control;
use kpps_driver::config::Itr;
use kpps_host::MS;

/// Disturbances of a driver other than its card. Times in ps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disturbed {
    /// The driver gets no processor until then.
    pub(crate) starved_until: u64,
    /// Another device holds the interrupt line until then.
    pub(crate) neighbour_until: u64,
}

impl Disturbed {
    /// An opportunity for these, and for a step of the host's clock. `level`: interrupts are a line.
    pub(crate) fn tick(&mut self, dice: &Dice, now_ps: u64, level: bool, slot: &Slot) {
        if dice.throws(Fault::Starved) {
            self.starved_until = now_ps + dice.below(Fault::Starved, 20 * MS);
        }
        if level && dice.throws(Fault::LineShared) {
            self.neighbour_until = now_ps + dice.below(Fault::LineShared, MS);
        }
        if dice.throws(Fault::ClockStep) {
            slot.ahead_ps.set(slot.ahead_ps.get() + dice.below(Fault::ClockStep, 3000 * MS));
        }
    }
}

/// An opportunity for the operator to change the moderation.
pub(crate) fn change_moderation(dice: &Dice, control: &mut Control<Slot>) {
    if dice.throws(Fault::OtherModeration) {
        let rate = dice.below(Fault::OtherModeration, 100_000) as u32;
        // Chips without ITR refuse.
        let _ = control.set_itr(if rate < 60 { Itr::Off } else { Itr::Fixed(rate.max(4_000)) });
    }
}
