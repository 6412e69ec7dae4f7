//! Frames that are due and not sent yet, by the priorities of their streams.

use std::collections::VecDeque;

/// The number of priorities, from 0 on. Of the frames that are due, those of a higher priority are sent
/// first, and left out last.
pub const PRIORITIES: u8 = 8;

/// A frame that is due: its time in ps, and the index of its stream in the plan.
pub(super) type DueFrame = (u64, u32);

/// Frames that are due.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// The frames of each priority in the order of their times.
    of: [VecDeque<DueFrame>; PRIORITIES as usize],
    /// The highest priority of a frame so far.
    highest: usize,
    /// Their number.
    count: usize,
}

impl Waiting {
    /// The number of frames.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds a frame that is due later than the others.
    #[inline]
    pub fn push(&mut self, frame: DueFrame, priority: u8) {
        let priority = usize::from(priority.min(PRIORITIES - 1));
        self.highest = self.highest.max(priority);
        self.of[priority].push_back(frame);
        self.count += 1;
    }

    /// Takes the frame that is sent next: the oldest one of the highest priority.
    #[inline]
    pub fn pop(&mut self) -> Option<DueFrame> {
        let frame = self.of[..=self.highest].iter_mut().rev().find_map(VecDeque::pop_front)?;
        self.count -= 1;
        Some(frame)
    }

    /// Leaves out this number of the frames that were due by a time: of the lowest priority first, and of
    /// these the oldest ones.
    pub fn leave_out(&mut self, frames: usize, until_ps: u64) {
        let mut left = frames;
        for of in &mut self.of[..=self.highest] {
            let some = left.min(of.partition_point(|(at_ps, _)| *at_ps <= until_ps));
            of.drain(..some);
            left -= some;
            self.count -= some;
        }
    }

    /// The number of frames of a priority.
    pub fn of(&self, priority: u8) -> usize {
        self.of.get(usize::from(priority)).map_or(0, VecDeque::len)
    }

    /// The number of frames that were due after a time.
    #[inline]
    pub fn after(&self, ps: u64) -> usize {
        let of = |of: &VecDeque<DueFrame>| of.len() - of.partition_point(|(at_ps, _)| *at_ps <= ps);
        self.of[..=self.highest].iter().map(of).sum()
    }

    /// Keeps the frames for which this holds.
    pub fn retain(&mut self, mut keeps: impl FnMut(&DueFrame) -> bool) {
        self.of.iter_mut().for_each(|of| of.retain(&mut keeps));
        self.count = self.of.iter().map(VecDeque::len).sum();
    }

    /// All frames.
    pub fn iter(&self) -> impl Iterator<Item = &DueFrame> {
        self.of.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_priorities_are_sent_first_and_left_out_last() {
        let mut waiting = Waiting::default();
        for (ps, priority) in [(1, 0), (2, 7), (3, 0), (4, 2), (5, 7), (6, 200)] {
            waiting.push((ps, 0), priority);
        }
        assert_eq!((waiting.len(), waiting.after(3), waiting.after(0)), (6, 3, 6));
        assert_eq!((waiting.of(0), waiting.of(7)), (2, 3));
        waiting.leave_out(3, 4);
        let left: Vec<u64> = std::iter::from_fn(|| waiting.pop()).map(|frame| frame.0).collect();
        assert_eq!((left, waiting.len()), (vec![2, 5, 6], 0));
        // A frame that was due later is not left out.
        waiting.push((7, 1), 3);
        waiting.leave_out(9, 6);
        assert_eq!((waiting.len(), waiting.pop()), (1, Some((7, 1))));
        waiting.leave_out(9, 9);
        assert_eq!((waiting.pop(), waiting.len(), waiting.iter().count()), (None, 0, 0));
    }
}
