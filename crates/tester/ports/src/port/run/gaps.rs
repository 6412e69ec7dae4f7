//! The gaps between frames as they were sent.

use std::time::Duration;

/// A gap is exact if it differs from the intended one by no more than this, in ns.
pub const TOLERANCE: Duration = Duration::from_micros(10);
/// Buckets for each power of two: a gap is known to 1.6 %.
const PARTS: u64 = 64;
const PART_BITS: u32 = PARTS.trailing_zeros();

/// The distribution of gaps, by the times at which the device or the kernel was given the frames.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// The intended gap; `None` if gaps are to differ.
    intended_ns: Option<f64>,
    /// Whether the intended gap of each frame is known.
    is_known: bool,
    last_ns: Option<u64>,
    /// When the last frame was due, if frames have times of their own.
    last_due_ns: Option<u64>,
    within: u64,
    count: u64,
    max_ns: u64,
    buckets: Vec<u64>,
}

/// The gaps between frames of a paced load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaps {
    /// The intended gap in ns; `None` if gaps are to differ.
    pub intended_ns: Option<f64>,
    /// Gaps.
    pub count: u64,
    /// Gaps that differ from the intended one by [`TOLERANCE`] at most; `None` if the intended ones are
    /// unknown.
    pub within: Option<u64>,
    /// The median, in ns, at most 1.6 % too long.
    pub p50_ns: u64,
    /// 99 % of the gaps are no longer, in ns.
    pub p99_ns: u64,
    /// 99.9 % of the gaps are no longer, in ns.
    pub p999_ns: u64,
    /// The longest, in ns.
    pub max_ns: u64,
    /// How long the sender was ready to run without a CPU, in ns, if the system reports it. Other programs
    /// cause that.
    pub waited_ns: Option<u64>,
    /// The CPU and priority that the system gave the sending thread.
    pub got: Option<Got>,
}

impl Gaps {
    /// The gaps of two cores of a sender. Each core's gaps are between its own frames, so the intended ones
    /// differ. Percentiles are those of the worse core.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Self {
            intended_ns: None,
            count: self.count + other.count,
            within: sum(self.within, other.within),
            p50_ns: self.p50_ns.max(other.p50_ns),
            p99_ns: self.p99_ns.max(other.p99_ns),
            p999_ns: self.p999_ns.max(other.p999_ns),
            max_ns: self.max_ns.max(other.max_ns),
            waited_ns: sum(self.waited_ns, other.waited_ns),
            got: self.got,
        }
    }
}

/// The CPU and priority that the system gave a sending thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// The CPU on which it runs alone of this program; `None` if it shares one.
    pub cpu: Option<u32>,
    /// Whether it runs before all ordinary programs of its session.
    pub first: bool,
    /// Whether its session runs before other sessions.
    pub session_first: bool,
}

/// The bucket of a time in ns.
#[inline]
pub fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(PART_BITS + 1);
    // The upper bits. The first of them is 1 above the first bucket.
    (u64::from(shift) * PARTS + (ns >> shift)) as usize
}

/// The longest time of a bucket in ns: at most 1.6 % more than the shortest.
pub fn longest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / PARTS).saturating_sub(1);
    let start = bucket - shift * PARTS;
    // The last bucket ends with the largest number.
    (u128::from(start + 1) << shift).saturating_sub(1).min(u64::MAX.into()) as u64
}

impl Recorder {
    /// For an intended gap in ns; `None` if gaps are to differ.
    pub fn new(intended_ns: Option<f64>) -> Self {
        let buckets = vec![0; bucket(u64::MAX) + 1];
        let is_known = intended_ns.is_some();
        Self {
            intended_ns,
            is_known,
            last_ns: None,
            last_due_ns: None,
            within: 0,
            count: 0,
            max_ns: 0,
            buckets,
        }
    }

    /// From now on gaps are to differ from those before.
    pub fn change(&mut self) {
        (self.intended_ns, self.is_known) = (None, false);
    }

    /// Adds frames that were sent together.
    #[inline]
    pub fn record(&mut self, now_ns: u64, frames: usize) {
        if frames == 0 {
            return;
        }
        if let Some(last) = self.last_ns {
            self.add(now_ns.saturating_sub(last), 1);
        }
        self.add(0, frames as u64 - 1);
        self.last_ns = Some(now_ns);
    }

    /// Adds a frame with its time. Its intended gap is that between its time and the one before.
    #[inline]
    pub fn record_due(&mut self, now_ns: u64, due_ns: u64) {
        if let (Some(last), Some(last_due)) = (self.last_ns, self.last_due_ns) {
            let (gap_ns, intended_ns) = (now_ns.saturating_sub(last), due_ns.saturating_sub(last_due));
            self.add(gap_ns, 1);
            self.within += u64::from(gap_ns.abs_diff(intended_ns) <= TOLERANCE.as_nanos() as u64);
        }
        (self.last_ns, self.last_due_ns, self.is_known) = (Some(now_ns), Some(due_ns), true);
    }

    fn add(&mut self, gap_ns: u64, times: u64) {
        self.count += times;
        self.buckets[bucket(gap_ns)] += times;
        if times > 0 {
            self.max_ns = self.max_ns.max(gap_ns);
        }
        let tolerance = TOLERANCE.as_nanos() as f64;
        if self.intended_ns.is_some_and(|intended_ns| (gap_ns as f64 - intended_ns).abs() <= tolerance) {
            self.within += times;
        }
    }

    /// The distribution; `None` without a gap.
    pub fn gaps(&self) -> Option<Gaps> {
        let quantile = |share: f64| {
            let rank = (self.count as f64 * share).ceil() as u64;
            let mut below = 0;
            let found = self.buckets.iter().position(|count| {
                below += count;
                below >= rank
            });
            found.map_or(0, longest).min(self.max_ns)
        };
        (self.count > 0).then(|| Gaps {
            intended_ns: self.intended_ns,
            count: self.count,
            within: self.is_known.then_some(self.within),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: self.max_ns,
            waited_ns: None,
            got: None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_on_time_is_within() {
        let mut recorder = Recorder::new(Some(10_000.0));
        assert_eq!(recorder.gaps(), None);
        // 10 µs intended: 10, 19, 2 at once, 21 late, and 400.
        for (now, frames) in [(0, 1), (10_000, 1), (29_000, 2), (50_001, 1), (450_001, 1)] {
            recorder.record(now, frames);
        }
        recorder.record(1_000_000, 0);
        let gaps = recorder.gaps().unwrap();
        assert_eq!(
            (gaps.count, gaps.within, gaps.max_ns, gaps.intended_ns),
            (5, Some(3), 400_000, Some(1e4))
        );
        assert!((19_000..19_300).contains(&gaps.p50_ns), "{gaps:?}");
        assert_eq!((gaps.p99_ns, gaps.p999_ns), (400_000, 400_000));
    }

    /// Frames of several streams: due at 0, 5, 7 and 100 µs.
    #[test]
    fn frames_with_times_of_their_own_have_their_own_gaps() {
        let mut recorder = Recorder::new(None);
        for (now_us, due_us) in [(0, 0), (9, 5), (9, 7), (130, 100)] {
            recorder.record_due(now_us * 1000, due_us * 1000);
        }
        let gaps = recorder.gaps().unwrap();
        assert_eq!((gaps.count, gaps.within, gaps.max_ns, gaps.intended_ns), (3, Some(2), 121_000, None));
    }

    proptest! {
        /// Each gap is in its bucket, whose end is at most 1.6 % longer, and buckets are adjacent.
        #[test]
        fn buckets_are_fine_enough(ns: u64, shift in 0..64) {
            let ns = ns >> shift;
            let most = longest(bucket(ns));
            prop_assert!(most >= ns && (most - ns) as f64 <= ns as f64 / PARTS as f64);
            prop_assert!(most == u64::MAX || bucket(most + 1) == bucket(ns) + 1);
        }
    }
}
