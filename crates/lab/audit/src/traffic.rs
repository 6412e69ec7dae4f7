//! Numbered frames of all sizes, and whether they come back whole and in order.

use crate::cards::Next;
use kpps_frames::Mac;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The shortest and the longest frame in bytes, without FCS.
const SHORTEST_BYTES: u64 = 60;
const LONGEST_BYTES: u64 = 1514;
/// The most frames under way. More would be a test of how much a driver queues.
const UNDER_WAY: u64 = 128;
/// Source and destination address, and an unused type (local experimental, IEEE 802).
const HEADER_BYTES: usize = 14;
const TYPE: [u8; 2] = [0x88, 0xB5];

/// The fate of numbered frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    offered: u64,
    /// The numbers of frames that have not come back.
    missing: BTreeSet<u64>,
    /// The number after the greatest that has come back, changed or not: later frames are under way.
    seen: u64,
    /// The number after the greatest that has come back whole.
    next: u64,
    changed: u64,
    out_of_order: u64,
}

/// Numbered frames from one station to another, of all sizes in turns.
#[derive(Clone, Debug)]
pub struct Numbered {
    to: Mac,
    from: Mac,
    /// How many there are.
    count: u64,
    state: Arc<Mutex<State>>,
}

/// The bytes of a frame after its number: they differ from one frame to the next.
fn filling(number: u64) -> impl Iterator<Item = u8> {
    let seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0u64..).map(move |at| (seed.wrapping_add(at.wrapping_mul(0xD134_2543_DE82_EF95)) >> 56) as u8)
}

impl Numbered {
    /// `count` frames.
    pub fn new(to: Mac, from: Mac, count: u64) -> Self {
        Self { to, from, count, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, number: u64, frame: &mut Vec<u8>) {
        let bytes = SHORTEST_BYTES + number % (LONGEST_BYTES - SHORTEST_BYTES + 1);
        frame.clear();
        frame.extend(self.to.0.into_iter().chain(self.from.0).chain(TYPE));
        frame.extend(number.to_le_bytes());
        frame.extend(filling(number).take(bytes as usize - frame.len()));
    }

    /// Builds the next frame, unless too many are under way: those after the last that came back.
    pub fn next(&self, frame: &mut Vec<u8>) -> Next {
        let mut state = self.state();
        if state.offered >= self.count {
            return Next::End;
        }
        if state.offered.saturating_sub(state.seen) >= UNDER_WAY {
            return Next::Later;
        }
        let number = state.offered;
        self.build(number, frame);
        state.missing.insert(number);
        state.offered += 1;
        Next::Frame
    }

    /// Takes a frame that came back. Others' frames are left out.
    pub fn returned(&self, frame: &[u8]) {
        let number = frame.get(HEADER_BYTES..HEADER_BYTES + 8).and_then(|bytes| bytes.try_into().ok());
        let (Some(number), Some(kind)) = (number, frame.get(HEADER_BYTES - 2..HEADER_BYTES)) else { return };
        if kind != TYPE {
            return;
        }
        let number = u64::from_le_bytes(number);
        let mut expected = Vec::new();
        self.build(number, &mut expected);
        let mut state = self.state();
        // The place of a frame whose number was damaged is not known.
        if number >= state.offered {
            state.changed += 1;
            return;
        }
        state.missing.remove(&number);
        state.seen = state.seen.max(number + 1);
        if expected != frame {
            state.changed += 1;
            return;
        }
        state.out_of_order += u64::from(number < state.next);
        state.next = state.next.max(number + 1);
    }

    /// Frames so far: offered, and those of them that came back, changed or not.
    pub fn so_far(&self) -> (u64, u64) {
        let state = self.state();
        (state.offered, state.offered - state.missing.len() as u64)
    }

    /// Frames that came back with other contents, and those that came after a later one, or twice.
    pub fn damage(&self) -> (u64, u64) {
        let state = self.state();
        (state.changed, state.out_of_order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: u64) -> (Numbered, Vec<Vec<u8>>) {
        let numbered = Numbered::new(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), count);
        let mut frames = Vec::new();
        let mut frame = Vec::new();
        while numbered.next(&mut frame) == Next::Frame {
            frames.push(frame.clone());
        }
        (numbered, frames)
    }

    #[test]
    fn all_sizes_come_in_turns_and_few_are_under_way() {
        let (numbered, frames) = some(1456);
        assert_eq!(frames.len() as u64, UNDER_WAY);
        let (mut frame, mut sizes) = (Vec::new(), std::collections::BTreeSet::new());
        frames.iter().for_each(|frame| numbered.returned(frame));
        while numbered.next(&mut frame) == Next::Frame {
            sizes.insert(frame.len());
            numbered.returned(&frame);
        }
        assert_eq!((sizes.len(), sizes.last()), (1455 - UNDER_WAY as usize + 1, Some(&1514)));
        assert_eq!((numbered.so_far(), numbered.damage()), ((1456, 1456), (0, 0)));
        assert_eq!(numbered.next(&mut frame), Next::End);
    }

    #[test]
    fn a_changed_a_missing_and_an_early_frame_are_seen() {
        let (numbered, mut frames) = some(4);
        frames[1][59] ^= 1;
        frames.swap(2, 3);
        frames.iter().for_each(|frame| numbered.returned(frame));
        assert_eq!(numbered.damage(), (1, 1));
        // A damaged number is no later frame's.
        assert_eq!(numbered.so_far(), (4, 4), "a changed frame is not lost");
        let (numbered, mut frames) = some(4);
        frames[1][HEADER_BYTES + 7] ^= 0x80;
        frames.iter().for_each(|frame| numbered.returned(frame));
        assert_eq!((numbered.so_far(), numbered.damage()), ((4, 3), (1, 0)), "nobody knows which it was");
        let (numbered, frames) = some(3);
        numbered.returned(&frames[0]);
        numbered.returned(&frames[2]);
        assert_eq!((numbered.so_far(), numbered.damage()), ((3, 2), (0, 0)));
        numbered.returned(&frames[2]);
        assert_eq!((numbered.so_far(), numbered.damage()), ((3, 2), (0, 1)), "twice is not for a lost one");
        numbered.returned(&[0; 60]);
        numbered.returned(&[0; 5]);
        assert_eq!(numbered.so_far(), (3, 2), "frames of others");
    }

    #[test]
    fn lost_and_changed_frames_do_not_stop_the_source() {
        let (numbered, _) = some(1000);
        let mut frame = Vec::new();
        while numbered.so_far().1 < 1000 {
            let number = numbered.so_far().1;
            numbered.build(number, &mut frame);
            frame[59] ^= 1;
            numbered.returned(&frame);
            while numbered.next(&mut frame) == Next::Frame {}
        }
        assert_eq!((numbered.so_far(), numbered.damage()), ((1000, 1000), (1000, 0)));
        let (numbered, frames) = some(1000);
        frames.iter().skip(1).step_by(2).for_each(|frame| numbered.returned(frame));
        let mut frame = Vec::new();
        while numbered.next(&mut frame) == Next::Frame {
            let number = numbered.so_far().0;
            if number.is_multiple_of(2) {
                numbered.returned(&frame);
            }
        }
        assert_eq!((numbered.so_far(), numbered.damage()), ((1000, 500), (0, 0)));
    }
}
