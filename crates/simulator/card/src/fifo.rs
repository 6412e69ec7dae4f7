//! The receive or transmit part of the packet buffer: whole frames, first in, first out.
//!
//! The bytes lie in a ring that is allocated once; a frame is always contiguous. The *cost* of a frame
//! (rounded, with overhead) counts against the capacity of the modelled FIFO. The ring is larger than any
//! packet buffer, so a frame that fits by cost has space here.

use std::ops::Range;

/// The whole packet buffer, receive and transmit, in bytes (SDM 13.4.16).
pub(crate) const PACKET_BUFFER_BYTES: u32 = 64 * 1024;
/// Twice the packet buffer. The space lost at the end of the ring is less than one frame, so there is always
/// enough.
const RING_BYTES: usize = 2 * PACKET_BUFFER_BYTES as usize;
/// The lowest cost of a frame in bytes, which bounds the number of frames.
const LEAST_COST_BYTES: u32 = 8;
const MAX_FRAMES: usize = (PACKET_BUFFER_BYTES / LEAST_COST_BYTES) as usize;
/// The largest frame in bytes, with FCS and everything that the card adds.
pub(crate) const MAX_FRAME_BYTES: usize = 16 * 1024 + 16;
/// Bytes after each frame for its FCS.
const TRAILER_BYTES: usize = 4;

/// A frame in the FIFO.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    start: u32,
    /// Length in bytes without FCS.
    pub(crate) len: u32,
    cost: u32,
    /// Flags of the owner.
    pub(crate) tag: u32,
}

impl Entry {
    /// The position of the bytes, without FCS.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// Frames, first in first out.
#[derive(Clone, Debug)]
pub(crate) struct FrameFifo {
    bytes: Box<[u8]>,
    entries: Box<[Entry]>,
    first: usize,
    count: usize,
    /// The position of the next frame.
    write: usize,
    used: u32,
}

impl FrameFifo {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; RING_BYTES].into_boxed_slice(),
            entries: vec![Entry::default(); MAX_FRAMES].into_boxed_slice(),
            first: 0,
            count: 0,
            write: 0,
            used: 0,
        }
    }

    /// A FIFO without memory: a placeholder while the real one is moved out.
    pub(crate) fn empty() -> Self {
        Self { bytes: Box::default(), entries: Box::default(), first: 0, count: 0, write: 0, used: 0 }
    }

    /// The number of frames.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The cost of all frames, in bytes.
    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// The cost of a frame of `len` bytes: rounded up to a multiple of 8, plus the overhead.
    #[inline]
    pub(crate) fn cost(len: usize, overhead_bytes: u32) -> u32 {
        ((len as u32).next_multiple_of(8)).saturating_add(overhead_bytes).max(LEAST_COST_BYTES)
    }

    /// Appends a frame with this cost; `false` if the total would exceed `capacity` bytes.
    #[inline]
    pub(crate) fn push(&mut self, frame: &[u8], tag: u32, cost: u32, capacity: u32) -> bool {
        let capacity = capacity.min(PACKET_BUFFER_BYTES);
        let room = frame.len() + TRAILER_BYTES;
        if cost > capacity.saturating_sub(self.used) || frame.len() > MAX_FRAME_BYTES {
            return false;
        }
        if self.count == 0 {
            // Start again where the CPU cache is warm.
            self.write = 0;
        } else if self.write + room > RING_BYTES {
            self.write = 0;
        }
        let start = self.write;
        self.bytes[start..start + frame.len()].copy_from_slice(frame);
        self.write = start + room;
        let slot = (self.first + self.count) % MAX_FRAMES;
        self.entries[slot] = Entry { start: start as u32, len: frame.len() as u32, cost, tag };
        self.count += 1;
        self.used += cost;
        true
    }

    /// The oldest frame.
    #[inline]
    pub(crate) fn front(&self) -> Option<&Entry> {
        if self.count == 0 { None } else { Some(&self.entries[self.first]) }
    }

    /// Bytes of a frame, by its [`Entry::range`].
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The bytes of the oldest frame, and space for its FCS.
    #[inline]
    pub(crate) fn front_bytes_mut(&mut self) -> &mut [u8] {
        match self.front() {
            None => &mut [],
            Some(e) => {
                let r = e.range();
                &mut self.bytes[r.start..r.end + TRAILER_BYTES]
            }
        }
    }

    /// Removes the oldest frame.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        if self.count == 0 {
            return None;
        }
        let e = self.entries[self.first];
        self.first = (self.first + 1) % MAX_FRAMES;
        self.count -= 1;
        self.used -= e.cost;
        if self.count == 0 {
            self.first = 0;
        }
        Some(e)
    }

    /// Removes all frames; returns how many there were.
    pub(crate) fn clear(&mut self) -> u64 {
        let n = self.count as u64;
        (self.first, self.count, self.write, self.used) = (0, 0, 0, 0);
        n
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn a_frame_that_does_not_fit_is_refused() {
        let mut f = FrameFifo::new();
        let cost = FrameFifo::cost(64, 16);
        assert_eq!(cost, 80);
        for i in 0..10 {
            assert_eq!(f.push(&[i; 64], 0, cost, 799), i < 9);
        }
        assert_eq!((f.len(), f.used()), (9, 720));
        assert!(f.pop().is_some());
        assert!(f.push(&[7; 64], 0, cost, 799));
    }

    proptest! {
        /// Compares the FIFO with a queue of vectors: same frames, same order, same cost.
        #[test]
        fn frames_come_out_as_they_went_in(
            ops in prop::collection::vec((0usize..16384, any::<u8>(), 0u8..4), 1..300),
        ) {
            let mut f = FrameFifo::new();
            let mut model: VecDeque<Vec<u8>> = VecDeque::new();
            let mut used = 0;
            for (len, fill, op) in ops {
                if op < 3 {
                    let frame = vec![fill; len];
                    let cost = FrameFifo::cost(len, 16);
                    let fits = used + cost <= PACKET_BUFFER_BYTES;
                    prop_assert_eq!(f.push(&frame, len as u32, cost, PACKET_BUFFER_BYTES), fits);
                    if fits {
                        used += cost;
                        model.push_back(frame);
                    }
                } else if let Some(frame) = model.pop_front() {
                    let e = *f.front().unwrap();
                    prop_assert_eq!(f.bytes(e.range()), &frame[..]);
                    prop_assert_eq!(f.front_bytes_mut().len(), frame.len() + TRAILER_BYTES);
                    f.pop();
                    used -= FrameFifo::cost(frame.len(), 16);
                }
                prop_assert_eq!(f.used(), used);
                prop_assert_eq!(f.len(), model.len());
            }
        }
    }
}
