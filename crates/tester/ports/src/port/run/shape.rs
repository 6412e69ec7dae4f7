//! When the frames of a paced load are due.

use kpps_frames::rate::Rate;
use std::sync::Arc;
use std::time::Duration;

/// The distribution of a paced load's frames over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Shape {
    /// All gaps are equal.
    #[default]
    Constant,
    /// Gaps are exponentially distributed, as those of many independent senders: a Poisson process.
    Poisson {
        /// The seed.
        seed: u64,
    },
    /// This many frames at once, then a pause. The load is the mean rate.
    Bursts(u64),
    /// This many frames with this time from one to the next, then a pause. The load is the mean rate.
    SpacedBursts(u64, Duration),
    /// The rate changes linearly from this one, in frames per second, over a time.
    Ramp(f64, Duration),
    /// Another rate, in frames per second, after a time.
    Then(Duration, f64),
}

impl Shape {
    /// The highest rate in frames per second that a load of this rate reaches with these gaps between bursts;
    /// infinite if it is not paced.
    pub fn peak_pps(self, rate: Rate) -> f64 {
        match (rate, self) {
            (Rate::Max, _) => f64::INFINITY,
            // A NaN must not be ignored here.
            (Rate::Pps(pps), Self::Ramp(other, _) | Self::Then(_, other)) if other > pps => other,
            (Rate::Pps(pps), _) => pps,
        }
    }

    /// Its name on the command line, if it is not the default.
    pub fn name_unless_default(self) -> Option<String> {
        match self {
            Self::Constant => None,
            Self::Poisson { seed } => Some(format!("poisson:{seed}")),
            Self::Bursts(frames) => Some(format!("bursts:{frames}")),
            Self::SpacedBursts(frames, gap) => Some(format!("bursts:{frames}/{}s", gap.as_secs_f64())),
            Self::Ramp(from, over) => Some(format!("ramp:{from}/{}s", over.as_secs_f64())),
            Self::Then(after, pps) => Some(format!("then:{}s/{pps}", after.as_secs_f64())),
        }
    }
}

/// Times of captured frames, to be sent with the same gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// When each frame is due, in s from the start, in order.
    at_s: Vec<f64>,
    /// When the table repeats, in s.
    period_s: f64,
}

impl Times {
    /// From times in ns, `speed` times as fast. The gap before the table repeats is the mean gap. `None`
    /// without frames or if no time passes.
    pub fn new(at_ns: &[u64], speed: f64) -> Option<Self> {
        let (first, last) = (*at_ns.first()?, *at_ns.last()?);
        let at_s: Vec<_> = at_ns.iter().map(|at| at.saturating_sub(first) as f64 / 1e9 / speed).collect();
        let whole = last.saturating_sub(first) as f64 / 1e9 / speed;
        let period_s = whole * at_ns.len() as f64 / (at_ns.len() as f64 - 1.0);
        (period_s > 0.0 && period_s.is_finite() && at_ns.is_sorted()).then_some(Self { at_s, period_s })
    }

    /// The mean rate in frames per second.
    pub fn mean_pps(&self) -> f64 {
        self.at_s.len() as f64 / self.period_s
    }

    /// When a frame is due, in s; the first frame is 0.
    fn at(&self, frame: u64) -> f64 {
        let all = self.at_s.len() as u64;
        (frame / all) as f64 * self.period_s + self.at_s[(frame % all) as usize]
    }

    /// The number of frames that are due before a time; with `or_at`, also those at that time.
    fn before(&self, s: f64, or_at: bool) -> u64 {
        let periods = (s / self.period_s).floor().max(0.0);
        let rest = s - periods * self.period_s;
        let due = self.at_s.partition_point(|at| if or_at { *at <= rest } else { *at < rest });
        periods as u64 * self.at_s.len() as u64 + due as u64
    }
}

/// Sums of times are not exact: the part of a gap that is no gap.
const EXACT: f64 = 1e-6;

/// A part of a load's time in which its rate changes linearly, or not at all.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Its beginning, in s from the start of the load.
    from_s: f64,
    /// Frames that are due before it.
    before: f64,
    /// The rate at its beginning, in frames per second, and what that gains in a second.
    pps: f64,
    gain: f64,
}

impl Piece {
    /// Frames that are due before a time of this piece.
    #[inline]
    fn before(&self, s: f64) -> f64 {
        let since = s - self.from_s;
        self.before + (self.pps + self.gain / 2.0 * since) * since
    }

    /// The time at which `frames` frames are due.
    fn at(&self, frames: f64) -> f64 {
        let frames = frames - self.before;
        // The root of pps t + gain t² / 2 = frames, in a form without cancellation.
        let end_pps = (self.pps * self.pps + 2.0 * self.gain * frames).max(0.0).sqrt();
        self.from_s + 2.0 * frames / (self.pps + end_pps)
    }
}

/// When each frame of a load is due, in s from its start.
#[derive(Clone, Debug)]
pub struct Timetable {
    shape: Shape,
    times: Option<Arc<Times>>,
    /// The rate over time, and the piece of the last time that was asked for.
    pieces: Vec<Piece>,
    piece: usize,
    /// A Poisson process: frames so far, how many would be due at the mean rate when the next is due, and the
    /// generator's state.
    drawn: (u64, f64, u64),
}

impl Timetable {
    /// For a load of this many frames per second.
    pub fn new(pps: f64, shape: Shape) -> Self {
        let first = Piece { from_s: 0.0, before: 0.0, pps, gain: 0.0 };
        let mut pieces = vec![first];
        match shape {
            Shape::Ramp(from, over) if !over.is_zero() => {
                let over = over.as_secs_f64();
                let rising = Piece { pps: from, gain: (pps - from) / over, ..first };
                pieces = vec![rising, Piece { from_s: over, before: rising.before(over), ..first }];
            }
            Shape::Then(after, pps) => {
                let from_s = after.as_secs_f64();
                pieces.push(Piece { from_s, before: first.before(from_s), pps, gain: 0.0 });
            }
            Shape::Constant
            | Shape::Poisson { .. }
            | Shape::Bursts(_)
            | Shape::SpacedBursts(..)
            | Shape::Ramp(..) => {}
        }
        let seed = if let Shape::Poisson { seed } = shape { seed } else { 0 };
        let mut table = Self { shape, times: None, pieces, piece: 0, drawn: (0, 0.0, seed) };
        table.drawn.1 = table.draw();
        table
    }

    /// For frames at these times.
    pub fn of(times: Arc<Times>) -> Self {
        let pps = times.mean_pps();
        Self { times: Some(times), ..Self::new(pps, Shape::Constant) }
    }

    /// Changes the rate to this one, in frames per second, from a time on. Frames that were due before that
    /// time stay as they were, and so do frames at times of their own. No later time may have been asked for.
    pub fn change(&mut self, s: f64, pps: f64) {
        let last = self.pieces.partition_point(|piece| piece.from_s <= s).max(1);
        let before = self.pieces[last - 1].before(s);
        // A rate that was to rise until later does not.
        self.pieces.truncate(last);
        self.pieces.push(Piece { from_s: s, before, pps, gain: 0.0 });
    }

    /// The frames of the whole load if it ends at this time; `None` if chance decides.
    pub fn until(&self, s: f64) -> Option<u64> {
        let is_drawn = matches!(self.shape, Shape::Poisson { .. });
        (!is_drawn).then(|| self.clone().before(s).round() as u64)
    }

    /// The gap of equally spaced frames, in ns; `None` for other shapes.
    pub fn gap_ns(&self) -> Option<f64> {
        let [only] = &self.pieces[..] else { return None };
        (self.shape == Shape::Constant && self.times.is_none()).then(|| 1e9 / only.pps)
    }

    /// The next gap of a Poisson process with a mean gap of 1.
    fn draw(&mut self) -> f64 {
        // SplitMix64 (Steele et al., OOPSLA 2014).
        let state = &mut self.drawn.2;
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - unit).ln()
    }

    /// The number of frames due before a time: the integral of the rate.
    #[inline]
    fn mean(&mut self, s: f64) -> f64 {
        while self.pieces.get(self.piece + 1).is_some_and(|next| next.from_s <= s) {
            self.piece += 1;
        }
        self.pieces[self.piece].before(s)
    }

    /// Frames that are due before a time. Times must not decrease.
    #[inline]
    pub fn before(&mut self, s: f64) -> f64 {
        if let Some(times) = &self.times {
            return times.before(s, false) as f64;
        }
        let mean = self.mean(s);
        match self.shape {
            Shape::Bursts(frames) => (mean / frames as f64).ceil() * frames as f64,
            Shape::SpacedBursts(frames, gap) => {
                let (first, gaps) = self.within_burst(s, mean, (frames, gap));
                (first + (gaps - EXACT).ceil().clamp(0.0, frames as f64) as u64) as f64
            }
            Shape::Poisson { .. } => self.drawn(mean) as f64,
            _ => mean,
        }
    }

    /// Frames that are due at a time or before.
    #[inline]
    pub fn due(&mut self, s: f64) -> u64 {
        if let Some(times) = &self.times {
            return times.before(s, true);
        }
        let mean = self.mean(s);
        match self.shape {
            Shape::Bursts(frames) => ((mean / frames as f64) as u64 + 1) * frames,
            Shape::SpacedBursts(frames, gap) => {
                let (first, gaps) = self.within_burst(s, mean, (frames, gap));
                first + ((gaps + EXACT) as u64 + 1).min(frames)
            }
            Shape::Poisson { .. } => self.drawn(mean),
            // The first frame is due at the start.
            _ => mean as u64 + 1,
        }
    }

    /// Draws what is due until a time that does not decrease, if chance decides: it takes a while for many
    /// frames at once.
    #[inline]
    pub fn draw_until(&mut self, s: f64) {
        if matches!(self.shape, Shape::Poisson { .. }) {
            self.before(s);
        }
    }

    /// The frames of a Poisson process at the time at which `mean` frames would be due at its mean rate.
    fn drawn(&mut self, mean: f64) -> u64 {
        while self.drawn.1 <= mean {
            self.drawn.0 += 1;
            self.drawn.1 += self.draw();
        }
        self.drawn.0
    }

    /// When a frame is due, in s; the first frame is 0. Use a clone for this method alone, and ask for frames
    /// in their order.
    pub fn time_of(&mut self, frame: u64) -> f64 {
        let first_of = |burst: u64| frame / burst * burst;
        match self.shape {
            Shape::Poisson { .. } if self.times.is_none() => {
                while self.drawn.0 < frame {
                    self.drawn.0 += 1;
                    self.drawn.1 += self.draw();
                }
                self.next_s(frame)
            }
            Shape::Bursts(frames) => self.next_s(first_of(frames)),
            _ => self.next_s(frame),
        }
    }

    /// When this number of frames is due at the mean rate.
    fn at_mean(&self, frames: u64) -> f64 {
        let before = self.pieces.partition_point(|piece| piece.before <= frames as f64);
        self.pieces[before.max(1) - 1].at(frames as f64)
    }

    /// When a burst begins, and the time from one of its frames to the next, in s. Bursts do not overlap.
    fn burst(&self, burst: u64, (frames, gap): (u64, Duration)) -> (f64, f64) {
        let [begin_s, end_s] = [burst, burst + 1].map(|burst| self.at_mean(burst * frames));
        (begin_s, gap.as_secs_f64().min((end_s - begin_s) / frames as f64).max(f64::MIN_POSITIVE))
    }

    /// The first frame of the burst of a time at which `mean` frames are due at the mean rate, and the gaps
    /// since then.
    fn within_burst(&self, s: f64, mean: f64, bursts: (u64, Duration)) -> (u64, f64) {
        let burst = ((mean + EXACT) / bursts.0 as f64) as u64;
        let (begin_s, gap_s) = self.burst(burst, bursts);
        (burst * bursts.0, ((s - begin_s) / gap_s).max(0.0))
    }

    /// When the next frame is due.
    pub fn next_s(&self, due: u64) -> f64 {
        if let Some(times) = &self.times {
            return times.at(due);
        }
        if let Shape::SpacedBursts(frames, gap) = self.shape {
            let (begin_s, gap_s) = self.burst(due / frames, (frames, gap));
            return begin_s + (due % frames) as f64 * gap_s;
        }
        let mean = if matches!(self.shape, Shape::Poisson { .. }) { self.drawn.1 } else { due as f64 };
        let later = &self.pieces[self.piece..];
        later[later.partition_point(|piece| piece.before <= mean).max(1) - 1].at(mean)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Steps through a timetable as a sender does, from each frame to the next.
    fn times(pps: f64, shape: Shape, until_s: f64) -> Vec<f64> {
        let mut table = Timetable::new(pps, shape);
        let (mut now, mut times) = (0.0, Vec::new());
        while now < until_s {
            let due = table.due(now + 1e-12) as usize;
            assert!(due <= 1_000_000);
            times.resize(due.max(times.len()), now);
            let next = table.next_s(due as u64);
            assert!(next > now, "{shape:?}: {next} after {now}");
            now = next;
        }
        times
    }

    #[test]
    fn a_load_has_as_many_frames_as_its_rate_and_time_say() {
        for (shape, frames) in [
            (Shape::Constant, 1000),
            (Shape::Bursts(50), 1000),
            (Shape::SpacedBursts(50, SECOND / 5000), 1000),
            (Shape::SpacedBursts(50, SECOND), 1000),
            (Shape::Ramp(0.0, SECOND), 500),
            (Shape::Ramp(2000.0, SECOND), 1500),
            (Shape::Ramp(500.0, SECOND / 2), 875),
            (Shape::Then(SECOND / 4, 100.0), 325),
        ] {
            let times = times(1000.0, shape, 0.999_999);
            assert_eq!(times.len(), frames, "{shape:?}");
            let before = Timetable::new(1000.0, shape).before(0.999_999_999);
            assert!((before - frames as f64).abs() < 0.01, "{shape:?} {before}");
        }
        let bursts = times(1000.0, Shape::Bursts(50), 0.2);
        assert_eq!((bursts[49], bursts[50], bursts[99]), (0.0, 0.05, 0.05));
        let spaced = times(1000.0, Shape::SpacedBursts(50, SECOND / 5000), 0.2);
        for (frame, at_s) in [(0, 0.0), (1, 0.0002), (49, 0.0098), (50, 0.05), (99, 0.0598)] {
            assert!((spaced[frame] - at_s).abs() < 1e-9, "{frame}: {}", spaced[frame]);
        }
        // A rate that falls, at half of the time.
        let then = times(1000.0, Shape::Then(SECOND / 2, 10.0), 1.0);
        assert!((then[501] - then[500] - 0.1).abs() < 1e-9 && (then[499] - 0.499).abs() < 1e-9);
    }

    #[test]
    fn frames_are_sent_as_they_were_seen_and_begin_anew() {
        // Three at once, one a millisecond later: the mean gap is 1/3 ms.
        let seen = [5, 5, 5, 1_000_005];
        for speed in [1.0, 2.0, 0.5] {
            let times = Arc::new(Times::new(&seen, speed).unwrap());
            let mut table = Timetable::of(times.clone());
            let period = 4.0 / 3e3 / speed;
            assert!((times.mean_pps() * period - 4.0).abs() < 1e-9);
            for turn in 0..3 {
                let begin = f64::from(turn) * period + 1e-9;
                let first = turn as u64 * 4;
                assert_eq!((table.before(begin - 2e-9).round() as u64, table.due(begin)), (first, first + 3));
                assert!((table.next_s(first + 3) - begin - 1e-3 / speed).abs() < 1e-8);
                assert_eq!(table.due(begin + 1e-3 / speed), first + 4);
                assert!((table.next_s(first + 4) - begin - period).abs() < 1e-8);
            }
            assert_eq!(table.gap_ns(), None);
        }
        for bad in [&[][..], &[7], &[7, 7]] {
            assert_eq!(Times::new(bad, 1.0), None);
        }
    }

    #[test]
    fn a_poisson_process_has_the_mean_and_the_variance_of_one() {
        let times = times(10_000.0, Shape::Poisson { seed: 7 }, 10.0);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        // Three standard deviations of a sample of 100,000.
        assert!((mean * 1e4 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
        let within = gaps.iter().filter(|gap| **gap <= mean).count() as f64 / count;
        assert!((within - (1.0 - (-1.0_f64).exp())).abs() < 0.005, "{within}");
        let again = self::times(10_000.0, Shape::Poisson { seed: 7 }, 10.0);
        assert!(again == times && self::times(10_000.0, Shape::Poisson { seed: 8 }, 10.0) != times);
    }

    proptest! {
        /// Whatever its shape, a load whose rate is changed has the frames that its rates add up to, each
        /// once and in turn, and a second table that is read later says the same of every moment.
        #[test]
        fn a_changed_load_adds_up_to_its_rates(
            first in 1.0..1e4_f64,
            changes in proptest::collection::vec((0.001..2.0_f64, 1.0..1e4_f64), 0..6),
            kind in 0..5_usize,
        ) {
            let shape = [
                Shape::Constant,
                Shape::Bursts(7),
                Shape::Poisson { seed: 3 },
                Shape::Ramp(0.0, SECOND / 2),
                Shape::Then(SECOND / 2, 5.0),
            ][kind];
            let mut table = Timetable::new(first, shape);
            let mut behind = table.clone();
            let (mut now, mut due, mut said) = (0.0, 0, Vec::new());
            // The rates of the first piece come from a table that is not changed.
            let mut all = changes.first().map_or(0.0, |(s, _)| {
                let even = if kind < 3 { Shape::Constant } else { shape };
                Timetable::new(first, even).before(*s)
            });
            for (index, &(length, pps)) in changes.iter().enumerate() {
                for step in 0..=10 {
                    let s = (now + length * f64::from(step) / 10.0).min(now + length);
                    let then = table.due(s);
                    prop_assert!(then >= due, "{then} after {due}");
                    due = then;
                    said.push((s, due));
                }
                now += length;
                table.change(now, pps);
                behind.change(now, pps);
                prop_assert_eq!(table.due(now), due, "a change makes no frame");
                prop_assert_eq!(table.gap_ns(), None);
                let next = table.next_s(due);
                prop_assert!(next >= now, "{next} before {now}");
                if kind != 2 {
                    // The next frame is due where the table says.
                    prop_assert!(table.clone().due(next + 1e-9 * next.max(1.0)) > due);
                }
                all += changes.get(index + 1).map_or(0.0, |(next, _)| next * pps);
            }
            prop_assert!(said.iter().all(|&(s, due)| behind.due(s) == due), "{:?}", said);
            let frames = table.before(now);
            // Chance: six standard deviations.
            let allowed = [1e-6 * all, 7.0, 6.0 * all.sqrt() + 1.0, 1e-6 * all, 1e-6 * all][kind];
            prop_assert!((frames - all).abs() <= allowed + 1e-3, "{frames}, not {all}");
            let whole = behind.until(now);
            prop_assert_eq!(whole, (kind != 2).then(|| frames.round() as u64));
        }
    }
}
