//! Interrupt throttling (ITR): the register value for a rate, and rates that follow the traffic.
//!
//! The timers RDTR, RADV, TIDV and TADV are plain settings: [`Moderation`](crate::config::Moderation).

use crate::config::Itr;

/// The register value for at most `rate` interrupts a second (SDM 13.4.18); at least 1.
pub(crate) fn interval(rate: u32) -> u32 {
    (1_000_000_000 / 256 / rate.max(1)).clamp(1, 0xFFFF)
}

/// A class of traffic, which sets the rate of interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Lowest,
    Low,
    Bulk,
}

impl Class {
    const fn rate(self) -> u32 {
        match self {
            Self::Lowest => 70_000,
            Self::Low => 20_000,
            Self::Bulk => 4_000,
        }
    }

    /// The class after an interrupt that found this traffic in one direction. Small transfers of few frames
    /// need low latency, many or large frames need few interrupts (as in the public Linux driver).
    const fn follow(self, frames: u32, bytes: u32) -> Self {
        if frames == 0 {
            return self;
        }
        let mean = bytes / frames;
        match self {
            Self::Lowest if mean > 8_000 => Self::Bulk,
            Self::Lowest if frames < 5 && bytes > 512 => Self::Low,
            Self::Low if bytes > 10_000 && (mean > 1_200 || frames < 10) => Self::Bulk,
            Self::Low if bytes > 10_000 && frames > 35 => Self::Lowest,
            Self::Low if bytes <= 10_000 && mean > 2_000 => Self::Bulk,
            Self::Low if frames <= 2 && bytes < 512 => Self::Lowest,
            Self::Bulk if bytes > 25_000 && frames > 35 => Self::Low,
            Self::Bulk if bytes < 6_000 => Self::Low,
            same => same,
        }
    }
}

/// The state of throttling.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    policy: Itr,
    rx: Class,
    tx: Class,
    rate: u32,
    /// Frames since the last ratio: (received, sent).
    sums: (u64, u64),
}

impl Throttle {
    pub(crate) fn new(policy: Itr) -> Self {
        let rate = match policy {
            Itr::Off => 0,
            Itr::Fixed(rate) => rate,
            Itr::Dynamic | Itr::Conservative => Class::Low.rate(),
            Itr::Ratio => 8_000,
        };
        Self { policy, rx: Class::Low, tx: Class::Low, rate, sums: (0, 0) }
    }

    /// The register value.
    pub(crate) fn register(&self) -> u32 {
        if self.rate == 0 { 0 } else { interval(self.rate) }
    }

    /// Notes the traffic of one interrupt, (frames, bytes) in each direction. Returns the new register value
    /// if it changes.
    pub(crate) fn note(&mut self, rx: (u32, u32), tx: (u32, u32)) -> Option<u32> {
        self.sums.0 += u64::from(rx.0);
        self.sums.1 += u64::from(tx.0);
        let least = match self.policy {
            Itr::Dynamic => Class::Lowest,
            Itr::Conservative => Class::Low,
            Itr::Off | Itr::Fixed(_) | Itr::Ratio => return None,
        };
        self.rx = self.rx.follow(rx.0, rx.1).max(least);
        self.tx = self.tx.follow(tx.0, tx.1).max(least);
        let want = self.rx.max(self.tx).rate();
        // The rate rises in steps of a quarter, and falls at once.
        let rate = if want > self.rate { want.min(self.rate + want / 4) } else { want };
        self.change(rate)
    }

    /// Recomputes the ratio. Returns the new register value if it changes.
    pub(crate) fn tick(&mut self) -> Option<u32> {
        let (rx, tx) = core::mem::take(&mut self.sums);
        if self.policy != Itr::Ratio || rx + tx == 0 {
            return None;
        }
        self.change(2_000 + (6_000 * rx.abs_diff(tx) / (rx + tx)) as u32)
    }

    fn change(&mut self, rate: u32) -> Option<u32> {
        if rate == self.rate {
            return None;
        }
        self.rate = rate;
        Some(self.register())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_of_the_manual() {
        assert_eq!(interval(7_812), 500); // SDM 13.4.18
        assert_eq!(Throttle::new(Itr::Fixed(8_000)).register(), 488);
        assert_eq!(Throttle::new(Itr::Off).register(), 0);
    }

    #[test]
    fn bulk_slows_down_at_once_and_small_speeds_up_in_steps() {
        let mut t = Throttle::new(Itr::Dynamic);
        assert_eq!(t.note((20, 30_000), (0, 0)), Some(interval(4_000)));
        assert_eq!(t.note((20, 30_000), (0, 0)), None);
        let mut rates = [0; 8];
        for slot in &mut rates {
            t.note((1, 60), (1, 60));
            *slot = t.rate;
        }
        assert_eq!(rates, [9_000, 26_500, 44_000, 61_500, 70_000, 70_000, 70_000, 70_000]);
    }

    #[test]
    fn conservative_rates_stay_at_most_at_20_000() {
        let mut t = Throttle::new(Itr::Conservative);
        assert_eq!(t.note((1, 60), (1, 60)), None);
        assert_eq!(t.note((20, 30_000), (0, 0)), Some(interval(4_000)));
        for rate in [9_000, 14_000, 19_000, 20_000, 20_000] {
            t.note((1, 60), (1, 60));
            assert_eq!(t.rate, rate);
        }
    }

    #[test]
    fn ratio() {
        let mut t = Throttle::new(Itr::Ratio);
        assert_eq!(t.tick(), None);
        t.note((300, 0), (100, 0));
        assert_eq!(t.tick(), Some(interval(5_000)));
        t.note((100, 0), (100, 0));
        assert_eq!(t.tick(), Some(interval(2_000)));
        t.note((100, 0), (0, 0));
        assert_eq!(t.tick(), Some(interval(8_000)), "one direction only");
    }
}
