//! MSI-X vectors of the 82574 (its data sheet, 7.4): a message for each group of causes.
//!
//! IVAR assigns the causes of queue 0 and all other causes to vectors. A vector fires when one of its causes
//! gets set and unmasked, but not within EITR after it fired. Firing clears the causes in EIAC, and with
//! CTRL_EXT.EIAME masks those of them that are not in IAM. The source is the public Linux driver (commit
//! 0a8047ac68e5), which describes the silicon.

use kpps_datasheet::Chip;
use kpps_datasheet::bit::cause;
use kpps_datasheet::express::cause::{OTHER, RXQ0, RXQ1, TXQ0, TXQ1};
use kpps_datasheet::express::ivar;

/// The vectors of a chip that has them ([`vectors`](kpps_datasheet::Chip::vectors)).
pub(crate) const COUNT: usize = Chip::I82574l.vectors() as usize;
/// Unit of EITR in ps, as of ITR (SDM 13.4.18).
const TICK_PS: u64 = 256_000;
/// Causes of receive queue 0, and of transmit queue 0.
const RECEIVE: u32 = cause::RXT0 | cause::RXDMT0;
const TRANSMIT: u32 = cause::TXDW;
/// Causes that have no vector of their own: OTHER stands for them.
const OTHERS: u32 = cause::LSC | cause::RXO | cause::MDAC | cause::SRPD;

/// The registers that say what a message does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// IVAR.
    pub(crate) allocation: u32,
    /// Causes that a message clears (EIAC).
    pub(crate) clears: u32,
    /// Causes that a message masks, if it clears them.
    pub(crate) masks: u32,
}

/// The vectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vectors {
    /// MSI-X is enabled.
    pub(crate) on: bool,
    /// EITR.
    throttle: [u32; COUNT],
    /// When each fired, in ps.
    fired_ps: [Option<u64>; COUNT],
    /// The causes that were set and unmasked at the last look.
    seen: u32,
    /// The causes among `seen` of which no message has told.
    due: u32,
    /// Vectors that have fired and were not taken yet, a bit each.
    fired: u8,
}

impl Vectors {
    /// None has fired, and EITR is 0, as after a reset of the card. MSI-X is enabled by the configuration
    /// space, so it stays as it is through a reset.
    pub(crate) fn new(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    /// The causes as MSI-X has them: those of queues in place of the legacy ones.
    pub(crate) fn causes(causes: u32) -> u32 {
        let bit = |any: u32, bit: u32| if causes & any != 0 { bit } else { 0 };
        causes & !(RECEIVE | TRANSMIT) | bit(RECEIVE, RXQ0) | bit(TRANSMIT, TXQ0) | bit(OTHERS, OTHER)
    }

    /// EITR of a vector.
    pub(crate) fn throttle(&self, vector: usize) -> u32 {
        self.throttle.get(vector).copied().unwrap_or(0)
    }

    /// Sets EITR of a vector.
    pub(crate) fn set_throttle(&mut self, vector: usize, value: u32) {
        if let Some(throttle) = self.throttle.get_mut(vector) {
            *throttle = value & 0xFFFF;
        }
    }

    /// Takes the vectors that have fired.
    pub(crate) fn take(&mut self) -> u8 {
        core::mem::take(&mut self.fired)
    }

    /// When a vector may fire again, in ps.
    fn quiet_until_ps(&self, vector: usize) -> u64 {
        self.fired_ps[vector].map_or(0, |at| at.saturating_add(u64::from(self.throttle[vector]) * TICK_PS))
    }

    /// Fires what is due with these causes and this mask, which it changes. Returns the number of messages,
    /// and when the next vector may fire, if one waits.
    pub(crate) fn update(
        &mut self,
        now: u64,
        (causes, mask): (&mut u32, &mut u32),
        rules: Rules,
    ) -> (u64, Option<u64>) {
        let raised = *causes & *mask;
        self.due = (self.due | raised & !self.seen) & raised;
        let (mut count, mut waits) = (0, None::<u64>);
        for vector in 0..COUNT {
            let of_vector = self.due & Self::assigned(rules.allocation, vector);
            if of_vector == 0 {
                continue;
            }
            let quiet_until_ps = self.quiet_until_ps(vector);
            if now < quiet_until_ps {
                waits = Some(waits.map_or(quiet_until_ps, |at| at.min(quiet_until_ps)));
                continue;
            }
            self.fired |= 1 << vector;
            self.fired_ps[vector] = Some(now);
            self.due &= !of_vector;
            *causes &= !(of_vector & rules.clears);
            *mask &= !(of_vector & rules.clears & rules.masks);
            count += 1;
        }
        self.seen = *causes & *mask;
        (count, waits)
    }

    /// The causes that IVAR assigns to `vector`.
    fn assigned(allocation: u32, vector: usize) -> u32 {
        let fields = [
            (RXQ0, ivar::RX_SHIFT),
            (RXQ1, ivar::RX_SHIFT + 4),
            (TXQ0, ivar::TX_SHIFT),
            (TXQ1, ivar::TX_SHIFT + 4),
            (OTHER, ivar::OTHER_SHIFT),
        ];
        let is_assigned = |shift: u32| allocation >> shift & 0xF == vector as u32 | ivar::VALID;
        fields.iter().filter(|(_, shift)| is_assigned(*shift)).fold(0, |all, (cause, _)| all | cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOCATION: u32 = 0xA_0908;

    #[test]
    fn causes_of_queues_take_the_place_of_the_legacy_ones() {
        assert_eq!(Vectors::causes(cause::RXT0 | cause::RXDMT0), RXQ0);
        assert_eq!(Vectors::causes(cause::TXDW | cause::LSC), TXQ0 | cause::LSC | OTHER);
        assert_eq!(Vectors::causes(cause::TXQE), cause::TXQE);
    }

    #[test]
    fn a_vector_tells_once_and_waits_for_its_throttle() {
        let rules = Rules { allocation: ALLOCATION, clears: RXQ0, masks: RXQ0 };
        let mut it = Vectors { on: true, ..Vectors::default() };
        it.set_throttle(0, 1000);
        it.set_throttle(99, 1);
        let (mut causes, mut mask) = (RXQ0 | OTHER, RXQ0 | OTHER);
        assert_eq!(it.update(0, (&mut causes, &mut mask), rules), (2, None));
        assert_eq!((it.take(), it.take(), causes, mask), (0b101, 0, OTHER, OTHER));
        // The same cause is no news until it was cleared.
        assert_eq!(it.update(1, (&mut causes, &mut mask), rules), (0, None));
        (causes, mask) = (RXQ0 | OTHER, RXQ0 | OTHER);
        assert_eq!(it.update(2, (&mut causes, &mut mask), rules), (0, Some(256_000_000)));
        assert_eq!((it.take(), mask), (0, RXQ0 | OTHER), "it is masked only when it fires");
        assert_eq!(it.update(256_000_000, (&mut causes, &mut mask), rules), (1, None));
        assert_eq!((it.take(), causes), (1, OTHER));
        // A cause that is masked meanwhile does not fire.
        (causes, mask) = (RXQ0, RXQ0);
        it.update(256_000_001, (&mut causes, &mut mask), rules);
        mask = 0;
        assert_eq!(it.update(u64::MAX, (&mut causes, &mut mask), rules), (0, None));
    }

    #[test]
    fn a_cause_without_a_valid_field_has_no_vector() {
        let mut it = Vectors { on: true, ..Vectors::default() };
        for allocation in [0, 0x7_7777, 0xF_FFFF] {
            let rules = Rules { allocation, clears: u32::MAX, masks: u32::MAX };
            let (mut causes, mut mask) = (u32::MAX, u32::MAX);
            assert_eq!(it.update(0, (&mut causes, &mut mask), rules), (0, None), "{allocation:#x}");
            assert_eq!((it.take(), causes), (0, u32::MAX));
        }
    }
}
