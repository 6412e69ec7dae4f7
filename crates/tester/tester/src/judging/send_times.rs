//! When frames around gaps were sent, where each of several cores judges a part of a stream.
//!
//! A core sees the frames of its flows only: the frames of the others are gaps to it. Which frames were lost
//! is known when all cores have ended, and so is around which frames. By then each core has noted when the
//! frames before and after its gaps were sent. Of a stream with up to [`CELLS`] frames each time is known;
//! of a longer one, that of every 2nd, 4th, … frame.

use crate::judging::losses::SequenceGap;

/// Times that are kept of all streams of a core.
pub const CELLS: usize = 1 << 18;
/// Times that are kept of a stream at least.
const LEAST: usize = 16;
/// The number of no frame.
const NONE: u64 = u64::MAX;

/// The times at which frames were sent, in ps of the tags.
#[derive(Debug)]
pub struct SendTimes {
    /// Numbers, each with its time: of each `2^shift` numbers one at most.
    cells: Vec<(u64, u64)>,
    shift: u32,
}

impl SendTimes {
    /// With room for this number of times, or a few.
    pub fn new(cells: usize) -> Self {
        Self { cells: vec![(NONE, 0); cells.max(LEAST)], shift: 0 }
    }

    /// Notes when a frame was sent.
    #[cold]
    pub fn note(&mut self, number: u64, sent_ps: u64) {
        while (number >> self.shift) as usize >= self.cells.len() {
            self.fold();
        }
        if let Some(cell) = self.cells.get_mut((number >> self.shift) as usize) {
            *cell = (number, sent_ps);
        }
    }

    /// Notes when the frames before and after a gap were sent.
    pub fn note_around(&mut self, gap: &SequenceGap) {
        let before = gap.first.checked_sub(1).zip(gap.before_ps);
        for (number, sent_ps) in before.into_iter().chain(gap.behind_ps.map(|ps| (gap.end, ps))) {
            self.note(number, sent_ps);
        }
    }

    /// Keeps one of each two times.
    fn fold(&mut self) {
        for at in 0..self.cells.len() {
            let pair = self.cells.get(2 * at).into_iter().chain(self.cells.get(2 * at + 1));
            let kept = pair.filter(|(number, _)| *number != NONE).max().copied();
            self.cells[at] = kept.unwrap_or((NONE, 0));
        }
        self.shift += 1;
    }

    /// Adds the times of another record with the same room.
    pub fn add(&mut self, mut other: Self) {
        while self.shift < other.shift {
            self.fold();
        }
        while other.shift < self.shift {
            other.fold();
        }
        for (cell, more) in self.cells.iter_mut().zip(other.cells) {
            if cell.0 == NONE || more.0 != NONE && more.0 > cell.0 {
                *cell = more;
            }
        }
    }

    /// When the frame with this number was sent, or the latest frame before it whose time is known.
    pub fn until(&self, number: u64) -> Option<u64> {
        let end = ((number >> self.shift) as usize).saturating_add(1).min(self.cells.len());
        let known = self.cells.get(..end)?.iter().rev().find(|(noted, _)| *noted <= number)?;
        Some(known.1)
    }

    /// When the frame with this number was sent, or the first frame after it whose time is known.
    pub fn from(&self, number: u64) -> Option<u64> {
        let later = self.cells.get((number >> self.shift) as usize..)?;
        let known = later.iter().find(|(noted, _)| *noted != NONE && *noted >= number)?;
        Some(known.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_of_fewer_frames_if_there_are_many() {
        let mut few = SendTimes::new(16);
        for number in [0, 3, 9] {
            few.note(number, number * 10);
        }
        assert_eq!([0, 2, 3, 9, 15, 99].map(|number| few.until(number)), [0, 0, 30, 90, 90, 90].map(Some));
        assert_eq!(
            [0, 1, 4, 9, 10, 99].map(|number| few.from(number)),
            [Some(0), Some(30), Some(90), Some(90), None, None]
        );
        let mut many = SendTimes::new(16);
        (0..64).step_by(2).for_each(|number| many.note(number, number * 10));
        assert_eq!((many.shift, many.until(63), many.from(1)), (2, Some(620), Some(20)));
        // The record with fewer times has the coarse places of the other one, too.
        few.add(many);
        assert_eq!((few.shift, few.until(9), few.from(33)), (2, Some(60), Some(340)));
        assert_eq!(SendTimes::new(16).until(5), None);
    }
}
