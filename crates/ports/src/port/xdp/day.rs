//! The time of day at moments of the monotonic clock, with which XDP programs stamp frames.

use rustix::time::{ClockId, clock_gettime};

/// How long the difference of the two clocks is used, in ns. The time of day may be set at any time.
const USED_NS: u64 = 1_000_000_000;
/// Readings of both clocks. The shortest one counts: the others may have been interrupted.
const READINGS: usize = 4;

/// What the time of day is ahead of the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Day {
    ahead_ns: u64,
    /// The moment until which this is used, in ns of the monotonic clock.
    until_ns: u64,
}

fn now_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both clocks are after 1970 and before 2554.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

impl Day {
    /// The time of day at a moment of the monotonic clock that has just passed, in ns since 1970.
    #[inline]
    pub(super) fn of(&mut self, monotonic_ns: u64) -> u64 {
        if monotonic_ns >= self.until_ns {
            *self = Self::read();
        }
        monotonic_ns.wrapping_add(self.ahead_ns)
    }

    #[cold]
    fn read() -> Self {
        let reading = |_| {
            let before = now_ns(ClockId::Monotonic);
            let day = now_ns(ClockId::Realtime);
            let after = now_ns(ClockId::Monotonic);
            (after - before, day.wrapping_sub(before + (after - before) / 2), after)
        };
        let best = (0..READINGS).map(reading).min().unwrap_or_default();
        Self { ahead_ns: best.1, until_ns: best.2.saturating_add(USED_NS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_the_time_of_day_that_it_had() {
        let mut day = Day::default();
        // A busy machine may interrupt all readings of a try.
        let near = (0..6).any(|_| {
            day = Day::default();
            let before = now_ns(ClockId::Realtime);
            let moment = day.of(now_ns(ClockId::Monotonic));
            (before - 20_000..now_ns(ClockId::Realtime) + 20_000).contains(&moment)
        });
        assert!(near);
        let then = day.until_ns - 1;
        assert_eq!(day.of(then), day.of(then - 5) + 5, "the same difference");
        let until = day.until_ns;
        day.of(until);
        assert!(day.until_ns > until, "read anew");
    }
}
