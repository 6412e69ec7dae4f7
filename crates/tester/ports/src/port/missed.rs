//! A statistics register that may or may not be cleared by reading it.
//!
//! The manual's registers are (SDM 13.7); QEMU's MPC and RNBC are not. A second read at once decides: a
//! register that was cleared reads as 0, or as the little that was counted in between.

/// A lower count does not decide: as much may be counted between two reads.
const CERTAIN: u32 = 16;

/// The total of a register.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    total: u64,
    /// The last value of a register that keeps its count.
    last: u32,
    /// Known to keep its count.
    keeps: bool,
}

impl Tally {
    /// Reads the register and adds up what is new.
    pub(super) fn update(&mut self, mut read: impl FnMut() -> u32) {
        let first = read();
        if first == 0 || first == u32::MAX {
            // Nothing counted, or saturated, or the device is gone.
            return;
        }
        if self.keeps {
            self.total += u64::from(first.wrapping_sub(self.last));
            self.last = first;
            return;
        }
        let second = read();
        if second < first {
            self.total += u64::from(first) + u64::from(second);
        } else if first >= CERTAIN {
            self.keeps = true;
            self.total += u64::from(second.wrapping_sub(self.last));
            self.last = second;
        } else {
            // The register seems to keep its count. If it was cleared, the total is wrong by less than
            // `CERTAIN` frames.
            self.total += u64::from(second.saturating_sub(self.last));
            self.last = second;
        }
    }

    /// Sets the total to 0: earlier counts of the register are not ours.
    pub(super) fn start(&mut self, read: impl FnMut() -> u32) {
        *self = Self::default();
        self.update(read);
        self.total = 0;
    }

    /// The total since the start.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts `events` in a register that is cleared by reading it or keeps its count, and holds `past`.
    fn counted(keeps: bool, past: u32, events: &[u32]) -> u64 {
        let register = std::cell::Cell::new(past);
        let read = || {
            let value = register.get();
            if !keeps {
                register.set(0);
            }
            value
        };
        let mut tally = Tally::default();
        tally.start(read);
        for event in events {
            register.set(register.get().wrapping_add(*event));
            tally.update(read);
        }
        tally.total()
    }

    #[test]
    fn both_kinds_of_registers_are_added_up() {
        for past in [0, 5, 1000] {
            for events in [&[0, 0, 0][..], &[1], &[3, 0, 0, 4], &[100, 2, 0, 5000], &[1, 1, 1, 1]] {
                let sum = events.iter().map(|&n| u64::from(n)).sum::<u64>();
                assert_eq!(counted(false, past, events), sum, "cleared, {past}, {events:?}");
                assert_eq!(counted(true, past, events), sum, "kept, {past}, {events:?}");
            }
        }
        assert_eq!(counted(true, u32::MAX - 10, &[5, 100]), 105, "around its end");
    }
}
