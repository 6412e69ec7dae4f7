//! The gaps between frames as they were sent.

use super::send_log::SendLog;
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
    /// If other cores send frames of the same schedule.
    log: Option<SendLog>,
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
    /// The gaps between the frames of several cores, in the order in which they were due; `None` without a
    /// gap. If a frame was sent before the one that was due before it, their gap is 0.
    pub fn of_cores(logs: Vec<SendLog>) -> Option<Self> {
        let mut recorder = Recorder::new(logs.first()?.intended_ns());
        for [last, next] in SendLog::neighbours(logs) {
            recorder.record_between(last, next);
        }
        recorder.gaps()
    }
}

/// How frames were sent with fillers between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Fillers that were queued.
    pub fillers: u64,
    /// Frames that no filler could bring to their exact time.
    pub rounded: u64,
    /// The longest distance of a frame's place on the wire from its time.
    pub most_rounded: Duration,
    /// How often this program came too late with more frames: the card had sent all, by the time that they
    /// take on the wire.
    pub underruns: u64,
    /// The longest time that the card had nothing to send.
    pub longest_underrun: Duration,
    /// Whether the card sent as slowly as its link; `None` if sending took too short a time to tell.
    pub keeps_speed: Option<bool>,
    /// How long all frames and fillers take on the wire.
    pub planned: Duration,
    /// How long sending took, until the port's queue was empty. If it is longer, the card was idle meanwhile,
    /// and gaps were not exact.
    pub took: Duration,
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
            log: None,
        }
    }

    /// As one of several cores, which send the frames of this schedule.
    #[must_use]
    pub fn beside_others(self, log: SendLog) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Notes a frame beside those of other cores, if there are some.
    #[inline]
    pub fn note(&mut self, now_ns: u64, due_ns: u64) {
        if let Some(log) = &mut self.log {
            log.note(due_ns, now_ns);
        }
    }

    /// The notes for the gaps of all cores.
    pub fn take_log(&mut self) -> Option<SendLog> {
        self.log.take()
    }

    /// From now on gaps are to differ from those before.
    pub fn change(&mut self) {
        (self.intended_ns, self.is_known) = (None, false);
        self.log.iter_mut().for_each(SendLog::change);
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
        self.note(now_ns, due_ns);
        if let (Some(last), Some(last_due)) = (self.last_ns, self.last_due_ns) {
            self.record_between((last_due, last), (due_ns, now_ns));
        }
        (self.last_ns, self.last_due_ns, self.is_known) = (Some(now_ns), Some(due_ns), true);
    }

    /// Adds the gap between two frames, each with the time when it was due and when it was sent. The intended
    /// gap is that between the due times.
    #[inline]
    pub fn record_between(&mut self, last: (u64, u64), next: (u64, u64)) {
        let [intended_ns, gap_ns] = [next.0 as i64 - last.0 as i64, next.1 as i64 - last.1 as i64];
        self.count_gap(gap_ns.max(0) as u64, 1);
        self.within += u64::from(gap_ns.abs_diff(intended_ns) <= TOLERANCE.as_nanos() as u64);
        self.is_known = true;
    }

    fn count_gap(&mut self, gap_ns: u64, times: u64) {
        self.count += times;
        self.buckets[bucket(gap_ns)] += times;
        if times > 0 {
            self.max_ns = self.max_ns.max(gap_ns);
        }
    }

    fn add(&mut self, gap_ns: u64, times: u64) {
        self.count_gap(gap_ns, times);
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

    /// Frames are due every 10 us, in turn on three cores; one is 15 us late.
    #[test]
    fn the_gaps_of_all_cores_are_those_of_the_whole_schedule() {
        let logs = (0..3).map(|core| {
            let mut log = SendLog::new(Some(10_000.0));
            for frame in (core..30).step_by(3) {
                log.note(frame * 10_000, frame * 10_000 + if frame == 7 { 15_000 } else { 100 });
            }
            log
        });
        let gaps = Gaps::of_cores(logs.collect()).unwrap();
        // The late frame comes after the next one, whose gap is 0 then.
        assert_eq!((gaps.count, gaps.within, gaps.max_ns), (29, Some(27), 24_900));
        assert_eq!(gaps.intended_ns, Some(10_000.0));
        assert!((10_000..10_200).contains(&gaps.p50_ns), "{gaps:?}");
        assert_eq!(Gaps::of_cores(vec![SendLog::new(None)]), None);
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
