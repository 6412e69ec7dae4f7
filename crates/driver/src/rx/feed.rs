//! Between the consumer and the source: who gets a received buffer, and which one replaces it.

use super::{
    Received, RxCounters,
    format::Written,
    judge::{Judge, Whole},
};
use crate::config::{Buffers, Config, RefillWhen};
use kpps_datasheet::{Chip, Erratum};
use kpps_platform::{Buffer, BufferSource};

/// The buffer policy, and the source.
pub(super) struct Feed<S> {
    pub(super) source: S,
    pub(super) counters: RxCounters,
    pub(super) recycle: bool,
    each_frame: bool,
    /// Bytes that a buffer must have.
    bytes: u64,
    no_64k_crossing: bool,
}

impl<S: BufferSource> Feed<S> {
    pub(super) fn new(chip: Chip, config: &Config, source: S) -> Self {
        Self {
            source,
            counters: RxCounters::default(),
            recycle: config.buffers == Buffers::Recycled,
            each_frame: config.refill.when == RefillWhen::EachFrame,
            bytes: config.rx_buffer_bytes.into(),
            no_64k_crossing: chip.has(Erratum::No64KCrossing),
        }
    }

    /// Bytes of a buffer that the device may write.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Whether the device may be given this buffer.
    #[inline]
    pub(super) fn accepts(&self, buffer: &S::Buf) -> bool {
        let crosses = (buffer.bus() ^ buffer.bus().wrapping_add(self.bytes - 1)) >> 16 != 0;
        buffer.capacity() as u64 >= self.bytes && !(self.no_64k_crossing && crosses)
    }

    /// Takes a buffer that the device can use from the source.
    #[inline]
    pub(super) fn take(&mut self) -> Option<S::Buf> {
        let Some(buffer) = self.source.take() else {
            self.counters.no_buffer += 1;
            return None;
        };
        if self.accepts(&buffer) {
            return Some(buffer);
        }
        self.counters.unfit_buffers += 1;
        self.source.give(buffer);
        None
    }

    /// Passes a frame, or a part of one, on. Returns the buffer for its slot, if there is one now.
    #[inline]
    fn pass(
        &mut self,
        received: Received<S::Buf>,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Option<S::Buf> {
        if self.recycle {
            return sink(received).or_else(|| self.replace_kept());
        }
        // The new buffer is taken before the old one is given away.
        let fresh = self.replace_kept();
        if let Some(back) = sink(received) {
            self.source.give(back);
        }
        fresh
    }

    /// A buffer for the slot of one that the consumer kept, if slots are filled at once.
    #[inline]
    pub(super) fn replace_kept(&mut self) -> Option<S::Buf> {
        if self.each_frame { self.take() } else { None }
    }

    /// [`pass`](Self::pass) for a good frame in one buffer.
    #[inline]
    pub(super) fn pass_whole(
        &mut self,
        written: Written,
        length: Whole,
        buffer: S::Buf,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Option<S::Buf> {
        self.counters.frames += 1;
        self.counters.bytes += u64::from(length.without_fcs);
        self.pass(Received::whole(written, length, buffer), sink)
    }

    /// [`pass`](Self::pass) for what is not a good frame in one buffer.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_unusual(
        &mut self,
        judge: &mut Judge,
        written: Written,
        buffer: S::Buf,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Option<S::Buf> {
        match judge.unusual(&mut self.counters, written, buffer) {
            Ok(received) => self.pass(received, sink),
            Err(buffer) => Some(buffer),
        }
    }
}
