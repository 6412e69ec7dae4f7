//! When frames of a stream were lost: the first ones, and the longest run.
//!
//! Frames that are missing when a later one arrives are a [`SequenceGap`]. Late frames and other queues may
//! fill it, so it is judged at the end, by the sequence numbers that have arrived until then. The last
//! [`GAPS`] gaps are remembered. Of earlier ones, only the first run of lost frames and the longest run are
//! kept.

use crate::judging::seen::Seen;
use std::collections::VecDeque;

/// Gaps that are remembered. Gaps that other queues fill are closed a few bursts later.
const GAPS: usize = 4096;

/// Frames that had not arrived when a later one did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceGap {
    /// The number of the first of them.
    pub first: u64,
    /// The number after the last of them.
    pub end: u64,
    /// When the frame before them was sent, in ps of the tags; `None` if they are the first of the stream.
    pub before_ps: Option<u64>,
    /// When the frame after them was sent; `None` if they are the last of the stream.
    pub behind_ps: Option<u64>,
}

/// Frames in a row that were lost, and the gap in which they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The number of the first frame.
    pub first: u64,
    /// The number of frames.
    pub frames: u64,
    /// The gap.
    pub gap: SequenceGap,
}

impl Lost {
    /// When the first of these frames was sent, and for how long all sent frames were lost, in ps, if the
    /// first and the last frame of the stream were sent at `begun_ps` and `ended_ps`. The frames of a gap are
    /// taken to be sent at equal distances.
    pub fn times_ps(&self, begun_ps: u64, ended_ps: u64) -> (u64, u64) {
        let SequenceGap { first, end, before_ps, behind_ps } = self.gap;
        // The number and the time of the last frame before, or of the first one of the stream.
        let (from, from_ps) = match before_ps {
            Some(ps) => (first.saturating_sub(1), ps),
            None => (first, begun_ps),
        };
        // The number and the time of the first frame after them, or of the last one of the stream.
        let (to, to_ps) = match behind_ps {
            Some(ps) => (end, ps),
            None => (end.saturating_sub(1), ended_ps),
        };
        let each_ps = to_ps.saturating_sub(from_ps) as f64 / to.saturating_sub(from).max(1) as f64;
        let at = from_ps as f64 + self.first.saturating_sub(from) as f64 * each_ps;
        (at as u64, (self.frames as f64 * each_ps) as u64)
    }
}

/// The lost frames of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The first run of lost frames.
    pub first: Lost,
    /// The longest run.
    pub longest: Lost,
    /// All lost frames.
    pub frames: u64,
}

impl Losses {
    /// These and later ones.
    pub fn and(self, later: Lost) -> Self {
        let is_longer = later.frames > self.longest.frames;
        let longest = if is_longer { later } else { self.longest };
        Self { longest, frames: self.frames.saturating_add(later.frames), ..self }
    }
}

/// The gaps of a stream.
#[derive(Default)]
pub struct SequenceGaps {
    /// Gaps that may be filled since. The latest are last.
    open: VecDeque<SequenceGap>,
    /// The losses in earlier gaps, the last of these gaps with a loss, and the end of the last of them.
    closed: Option<Losses>,
    last_closed: Option<SequenceGap>,
    closed_end: u64,
    /// Whether a frame has arrived after the gap in which it was missing was closed: the losses are unknown.
    came_too_late: bool,
}

impl SequenceGaps {
    /// Remembers a gap. Which of the earlier ones stays open is not known yet.
    #[cold]
    pub fn open(&mut self, gap: SequenceGap, seen: &Seen) {
        while self.open.back().is_some_and(|gap| is_filled(gap, seen)) {
            self.open.pop_back();
        }
        if self.open.len() == GAPS {
            self.close_first(seen);
        }
        self.open.push_back(gap);
    }

    /// Judges the gaps before `number`: their bits are about to be used again.
    pub fn close_before(&mut self, number: u64, seen: &Seen) {
        while self.open.front().is_some_and(|gap| gap.first < number) {
            self.close_first(seen);
        }
    }

    #[cold]
    fn close_first(&mut self, seen: &Seen) {
        if let Some(gap) = self.open.pop_front() {
            if !is_filled(&gap, seen) {
                self.last_closed = Some(gap);
            }
            self.closed = with_lost_in(self.closed, gap, seen);
            self.closed_end = gap.end;
        }
    }

    /// Notes a frame that arrived after a later one.
    #[inline]
    pub fn take_late(&mut self, number: u64) {
        self.came_too_late |= number < self.closed_end;
    }

    /// The last gap that is not filled.
    pub fn last(&self, seen: &Seen) -> Option<&SequenceGap> {
        self.open.iter().rev().find(|gap| !is_filled(gap, seen)).or(self.last_closed.as_ref())
    }

    /// The lost frames of a stream of `sent` frames; `None` if all arrived, or if they are unknown.
    /// `highest_ps`: when the frame with the highest number that arrived was sent.
    pub fn losses(&self, seen: &Seen, sent: u64, highest_ps: u64) -> Option<Losses> {
        let end = seen.end();
        let before_ps = seen.highest().map(|_| highest_ps);
        let tail = SequenceGap { first: end, end: sent.max(end), before_ps, behind_ps: None };
        let gaps = self.open.iter().copied().chain([tail]);
        let losses = gaps.fold(self.closed, |losses, gap| with_lost_in(losses, gap, seen));
        losses.filter(|_| !self.came_too_late)
    }
}

fn is_filled(gap: &SequenceGap, seen: &Seen) -> bool {
    seen.next(gap.first, gap.end, false) == gap.end
}

/// These losses, and those of a later gap.
fn with_lost_in(mut losses: Option<Losses>, gap: SequenceGap, seen: &Seen) -> Option<Losses> {
    let mut end = gap.first;
    loop {
        let first = seen.next(end, gap.end, false);
        if first >= gap.end {
            return losses;
        }
        end = seen.next(first, gap.end, true);
        let lost = Lost { first, frames: end - first, gap };
        let only = Losses { first: lost, longest: lost, frames: lost.frames };
        losses = Some(losses.map_or(only, |losses| losses.and(lost)));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// A frame each µs, in the order of `arrive`, as a receiver takes them.
    fn gaps_of(arrive: &[u64], mut seen: Seen) -> (SequenceGaps, Seen, u64) {
        let (mut gaps, mut highest_ps) = (SequenceGaps::default(), 0);
        for &number in arrive {
            if seen.needs_room(number) {
                gaps.close_before(seen.first_kept(number), &seen);
                seen.make_room(number);
            }
            let end = seen.end();
            let before_ps = seen.highest().map(|_| highest_ps);
            if !seen.mark(number) || number < end {
                continue;
            }
            if number > end {
                let gap =
                    SequenceGap { first: end, end: number, before_ps, behind_ps: Some(number * 1_000_000) };
                gaps.open(gap, &seen);
            }
            highest_ps = number * 1_000_000;
        }
        (gaps, seen, highest_ps)
    }

    /// A first frame and a number of frames, or the times of these in µs.
    type Run = (u64, u64);

    /// The first run and the longest run; and their times.
    fn found(losses: Losses, sent: u64) -> [[Run; 2]; 2] {
        let runs = [losses.first, losses.longest];
        let us = |(at, lasted): (u64, u64)| (at.div_ceil(1_000_000), lasted.div_ceil(1_000_000));
        let times = runs.map(|lost| us(lost.times_ps(0, sent.saturating_sub(1) * 1_000_000)));
        [runs.map(|lost| (lost.first, lost.frames)), times]
    }

    proptest! {
        /// The runs are those of the frames that never arrived, however the others were reordered, and a
        /// frame's number is its time.
        #[test]
        fn losses_are_the_frames_that_never_arrived(
            lost in prop::collection::btree_set(0_u64..200, 0..60),
            swaps in prop::collection::vec((0_usize..200, 0_usize..20), 0..30),
            window in prop::sample::select(&[1_u64 << 30, 256]),
        ) {
            let mut arrive: Vec<u64> = (0..200).filter(|number| !lost.contains(number)).collect();
            for (at, by) in swaps {
                if at + by < arrive.len() {
                    arrive.swap(at, at + by);
                }
            }
            let seen = if window == 256 { Seen::remembering(window) } else { Seen::new(3) };
            let (gaps, seen, highest_ps) = gaps_of(&arrive, seen);
            let found = gaps.losses(&seen, 200, highest_ps).map(|losses| found(losses, 200));
            let mut runs: Vec<(u64, u64)> = Vec::new();
            for number in lost {
                match runs.last_mut().filter(|(first, frames)| first + frames == number) {
                    Some((_, frames)) => *frames += 1,
                    None => runs.push((number, 1)),
                }
            }
            let first = runs.first().copied();
            let longest = runs.iter().rev().max_by_key(|(_, frames)| *frames).copied();
            let expected = first.zip(longest).map(|(first, longest)| [[first, longest]; 2]);
            prop_assert_eq!(found, expected);
        }
    }

    /// Bits are used again after 256 frames, and more gaps than are remembered.
    #[test]
    fn early_losses_stay_known() {
        let is_lost = |n: u64| (50..53).contains(&n) || n > 100 && n % 2 == 1;
        let arrive: Vec<u64> = (0..20_000).filter(|n| !is_lost(*n)).collect();
        for seen in [Seen::remembering(256), Seen::new(20_000)] {
            let (gaps, seen, highest_ps) = gaps_of(&arrive, seen);
            let losses = gaps.losses(&seen, 20_000, highest_ps).unwrap();
            assert_eq!(found(losses, 20_000), [[(50, 3); 2]; 2]);
        }
        // All gaps are closed again: 300 frames that arrive are more than have a bit.
        let arrive: Vec<u64> = (0..500).filter(|n| *n != 50).collect();
        let (mut gaps, seen, highest_ps) = gaps_of(&arrive, Seen::remembering(256));
        assert_eq!((gaps.open.len(), gaps.last(&seen).map(|gap| gap.first)), (0, Some(50)));
        assert_eq!(found(gaps.losses(&seen, 500, highest_ps).unwrap(), 500), [[(50, 1); 2]; 2]);
        // A frame whose gap was closed as a loss comes after all.
        gaps.take_late(50);
        assert_eq!(gaps.losses(&seen, 500, highest_ps), None);
        let (gaps, seen, highest_ps) = gaps_of(&[], Seen::new(0));
        assert_eq!(found(gaps.losses(&seen, 7, highest_ps).unwrap(), 7), [[(0, 7); 2]; 2]);
        assert_eq!(gaps.losses(&seen, 0, highest_ps), None);
    }
}
