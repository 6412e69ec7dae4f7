//! The basic elements: a source, a counter, a sink.

use crate::{Pull, Push};

/// Counts frames and bytes, and passes them on.
#[derive(Debug, Default)]
pub struct Counter<N> {
    frames: u64,
    bytes: u64,
    next: N,
}

impl<N> Counter<N> {
    /// Counts the frames that go to `next`.
    pub fn new(next: N) -> Self {
        Self { frames: 0, bytes: 0, next }
    }
    /// Frames so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }
    /// Their bytes, without FCS.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<F: AsRef<[u8]>, N: Push<F>> Push<F> for Counter<N> {
    #[inline]
    fn push(&mut self, frame: F) -> Option<F> {
        self.frames += 1;
        self.bytes += frame.as_ref().len() as u64;
        self.next.push(frame)
    }
    fn elements(&self) -> u32 {
        1 + self.next.elements()
    }
}

/// A sink that drops frames.
#[derive(Debug, Default)]
pub struct Discard;

impl<F> Push<F> for Discard {
    #[inline]
    fn push(&mut self, frame: F) -> Option<F> {
        Some(frame)
    }
    fn elements(&self) -> u32 {
        1
    }
}

/// A source of endless copies of one frame.
#[derive(Clone, Debug)]
pub struct InfiniteSource {
    frame: Vec<u8>,
    frames: u64,
}

impl InfiniteSource {
    /// Repeats `frame` (without FCS).
    pub fn new(frame: Vec<u8>) -> Self {
        Self { frame, frames: 0 }
    }
    /// Frames pulled so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

impl Pull for InfiniteSource {
    fn pull(&mut self, buffer: &mut [u8]) -> Option<usize> {
        buffer.get_mut(..self.frame.len())?.copy_from_slice(&self.frame);
        self.frames += 1;
        Some(self.frame.len())
    }
    fn elements(&self) -> u32 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_counts_and_a_discard_gives_the_frame_back() {
        let mut chain = Counter::new(Counter::new(Discard));
        assert_eq!(chain.push(vec![0; 60]), Some(vec![0; 60]));
        chain.push(vec![0; 100]);
        assert_eq!((chain.frames(), chain.bytes()), (2, 160));
        assert_eq!(Push::<Vec<u8>>::elements(&chain), 3);
    }

    #[test]
    fn a_source_repeats_its_frame_but_not_into_too_small_a_buffer() {
        let mut source = InfiniteSource::new(vec![7; 60]);
        let mut buffer = [0; 64];
        for frames in 1..=3 {
            buffer.fill(0);
            assert_eq!(source.pull(&mut buffer), Some(60));
            assert_eq!(buffer[..60], [7; 60]);
            assert_eq!(source.frames(), frames);
        }
        assert_eq!(source.pull(&mut buffer[..59]), None);
        assert_eq!((source.frames(), source.elements()), (3, 1));
    }
}
