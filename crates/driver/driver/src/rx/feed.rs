//! The buffer policy: which buffer the consumer gets, and which one replaces it in the ring.

use super::{
    Received, RxCounters,
    check::Checker,
    format::{SingleBufferLength, Written},
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
    /// Bytes that a buffer must hold.
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

    /// Passes a frame, or a part of one, to `sink`. Returns a buffer for its slot, if there is one.
    #[inline]
    fn pass(
        &mut self,
        received: Received<S::Buf>,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Option<S::Buf> {
        if self.recycle {
            return sink(received).or_else(|| self.replace_kept());
        }
        // The new buffer is taken before the old one is passed on.
        let fresh = self.replace_kept();
        if let Some(back) = sink(received) {
            self.source.give(back);
        }
        fresh
    }

    /// Replaces a buffer that the consumer kept, if slots are refilled with each frame.
    #[inline]
    pub(super) fn replace_kept(&mut self) -> Option<S::Buf> {
        if self.each_frame { self.take() } else { None }
    }

    /// [`pass`](Self::pass) for a good frame in one buffer.
    #[inline]
    pub(super) fn pass_single_buffer(
        &mut self,
        written: Written,
        length: SingleBufferLength,
        buffer: S::Buf,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Option<S::Buf> {
        self.counters.frames += 1;
        self.counters.bytes += u64::from(length.without_fcs);
        self.pass(Received::single_buffer(written, length, buffer), sink)
    }

    /// Passes a copy of a frame to `sink`. Returns the original buffer for its slot, or the frame if there is
    /// no small buffer.
    fn pass_copy(
        &mut self,
        received: Received<S::Buf>,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Result<S::Buf, Received<S::Buf>> {
        let bytes = usize::from(received.bytes);
        let Some(mut small) = self.source.take_small(bytes) else { return Err(received) };
        if !small.copy_from(&received.buffer, bytes) {
            self.source.give(small);
            return Err(received);
        }
        self.counters.copied += 1;
        if let Some(back) = sink(Received { buffer: small, ..received }) {
            self.source.give(back);
        }
        Ok(received.buffer)
    }

    /// [`pass`](Self::pass) for everything else: parts, errors, and frames short enough to be copied.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_unusual(
        &mut self,
        checker: &mut Checker,
        written: Written,
        buffer: S::Buf,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Option<S::Buf> {
        let received = match checker.unusual(&mut self.counters, written, buffer) {
            Ok(received) => received,
            Err(buffer) => return Some(buffer),
        };
        if !checker.is_small(&received) {
            return self.pass(received, sink);
        }
        match self.pass_copy(received, sink) {
            Ok(buffer) => Some(buffer),
            Err(received) => self.pass(received, sink),
        }
    }
}
