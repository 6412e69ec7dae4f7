//! Header split: packet split descriptors (82574 data sheet 7.1.5). The first buffer takes the headers of a
//! frame, the second the rest.
//!
//! The consumer gets a frame in parts, as it does a long one: headers first. Buffers that it returns go back
//! into the ring, whatever [`Buffers`](crate::config::Buffers) says. The third and fourth buffer of such a
//! descriptor are not used.

use super::{
    Received, RxQueue,
    check::Part,
    format::{Extended, Format, Written},
};
use crate::ring::Ring;
use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;
use kpps_datasheet::desc::{
    RxWriteback,
    extended::{self, SplitStatus},
};
use kpps_platform::{Buffer, BufferSource, DmaMemory, Platform};

/// The header buffers of a ring.
pub(super) struct Headers<S: BufferSource> {
    /// Slot `i`'s header buffer. A slot that has a data buffer has one of these, too.
    slots: Box<[Option<S::Buf>]>,
    /// Bytes of a header buffer that the device may fill.
    bytes: u16,
    source: S,
}

impl<S: BufferSource> Headers<S> {
    pub(super) fn new(size: usize, bytes: u16, source: S) -> Self {
        Self { slots: (0..size).map(|_| None).collect(), bytes, source }
    }

    /// Moves all header buffers to the first slots, as `RxQueue::restart` does with data buffers.
    pub(super) fn restart(&mut self) {
        let mut kept = 0;
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some() {
                self.slots.swap(kept, slot);
                kept += 1;
            }
        }
    }

    /// Makes sure that `slot` has a header buffer; false if the source has none.
    fn provide(&mut self, slot: usize) -> bool {
        let Some(place) = self.slots.get_mut(slot) else { return false };
        if place.is_none() {
            *place = self.source.take();
        }
        if place.as_ref().is_some_and(|buffer| buffer.capacity() < self.bytes.into())
            && let Some(unfit) = place.take()
        {
            self.source.give(unfit);
        }
        place.is_some()
    }

    /// Writes the descriptor of `slot`; `data` is the bus address of its data buffer.
    pub(super) fn store<M: DmaMemory>(&self, ring: &Ring<M>, slot: usize, data: u64) {
        if let Some(Some(header)) = self.slots.get(slot) {
            header.sync_for_device(self.bytes.into());
            // The second pair first: it has no flag that the device sets.
            ring.store(slot * 2 + 1, [0, 0]);
            ring.store(slot * 2, [header.bus(), data]);
        }
    }

    /// Takes a header buffer back: into `slot` if it has none, otherwise to the source.
    fn recycle(&mut self, slot: usize, buffer: S::Buf) {
        match self.slots.get_mut(slot) {
            Some(place @ None) => *place = Some(buffer),
            _ => self.source.give(buffer),
        }
    }

    /// Gives all buffers back to the source.
    pub(super) fn give_back(&mut self) {
        for place in &mut self.slots {
            if let Some(buffer) = place.take() {
                self.source.give(buffer);
            }
        }
    }
}

/// A buffer that the consumer returned; `None` if it kept it.
type Kept<B> = Option<B>;

impl<P: Platform, S: BufferSource> RxQueue<P, S> {
    /// [`receive`](Self::receive) with header split.
    #[inline(never)]
    pub(super) fn receive_split(
        &mut self,
        budget: usize,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> usize {
        let mut taken = 0;
        while taken < budget && self.cursor.filled > 0 {
            let slot = self.cursor.next;
            let Some((written, split)) = self.look_split(slot) else { break };
            taken += 1;
            self.cursor.next = self.ring.after(slot);
            self.cursor.filled -= 1;
            let header = self.headers.as_mut().and_then(|headers| headers.slots.get_mut(slot)?.take());
            let data = self.buffers.get_mut(slot).and_then(Option::take);
            let (Some(header), Some(data)) = (header, data) else { continue };
            let (header, data) = self.pass_split((written, split), header, data, sink);
            if let (Some(header), Some(headers)) = (header, &mut self.headers) {
                headers.recycle(self.cursor.fill, header);
            }
            if let Some(refused) = data.and_then(|data| self.put_split(data)) {
                self.feed.source.give(refused);
            }
        }
        if taken > 0 || self.cursor.filled < self.ring.size() {
            self.end_of_burst();
        }
        taken
    }

    /// The descriptor of `slot`, if the device has written it back.
    pub(super) fn look_split(&self, slot: usize) -> Option<(Written, SplitStatus)> {
        self.ring.sync_for_cpu(slot * 2);
        let written = Extended::written(self.ring.pairs().get(slot * 2)?)?;
        self.ring.sync_for_cpu(slot * 2 + 1);
        let third = u64::from_le(self.ring.pairs().get(slot * 2 + 1)?[0].load(Relaxed));
        Some((written, SplitStatus::unpack(third)))
    }

    /// Passes the parts in a slot to the consumer; returns the buffers that it did not keep.
    fn pass_split(
        &mut self,
        (written, split): (Written, SplitStatus),
        header: S::Buf,
        data: S::Buf,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> (Kept<S::Buf>, Kept<S::Buf>) {
        let wb = RxWriteback::unpack(written.word());
        let [data_bytes, rest @ ..] = split.lengths;
        let header_most = self.headers.as_ref().map_or(0, |headers| headers.bytes);
        let fits = wb.length <= header_most && usize::from(data_bytes) <= self.feed.bytes() && rest == [0, 0];
        let bytes = u32::from(wb.length) + u32::from(data_bytes);
        match self.checker.part(&mut self.feed.counters, wb, bytes, fits) {
            Part::Skipped => (Some(header), Some(data)),
            Part::Aborted => {
                let ruined = Received { error: true, ..Received::part(written, data, 0, (false, true)) };
                (Some(header), sink(ruined))
            }
            Part::Good { first, last } => {
                let header = match wb.length {
                    0 => Some(header),
                    length => {
                        header.sync_for_cpu(length.into());
                        let ends = last && data_bytes == 0;
                        let part = Received::part(written, header, length, (first, ends));
                        sink(Received { header: true, ..part })
                    }
                };
                let data = match data_bytes {
                    0 => Some(data),
                    length => {
                        data.sync_for_cpu(length.into());
                        sink(Received::part(written, data, length, (first && wb.length == 0, last)))
                    }
                };
                (header, data)
            }
        }
    }

    /// Puts a data buffer into the next slot, which must be empty; returns it if its address is odd or there
    /// is no header buffer.
    pub(super) fn put_split(&mut self, buffer: S::Buf) -> Option<S::Buf> {
        let slot = self.cursor.fill;
        let Some(headers) = &mut self.headers else { return Some(buffer) };
        // DD is bit 0 of the word that holds this address until the device writes it back.
        if buffer.bus() & extended::DD != 0 {
            self.feed.counters.unfit_buffers += 1;
            return Some(buffer);
        }
        if !headers.provide(slot) {
            self.feed.counters.no_buffer += 1;
            return Some(buffer);
        }
        buffer.sync_for_device(self.feed.bytes());
        headers.store(&self.ring, slot, buffer.bus());
        if let Some(shadow) = self.buffers.get_mut(slot) {
            *shadow = Some(buffer);
        }
        self.cursor.fill = self.ring.after(slot);
        self.cursor.filled += 1;
        self.filled_slots(1);
        None
    }

    /// Fills empty slots while both sources have buffers.
    pub(super) fn fill_split(&mut self) {
        while self.empty_slots() > 0 {
            let Some(buffer) = self.feed.take() else { break };
            if let Some(refused) = self.put_split(buffer) {
                self.feed.source.give(refused);
                break;
            }
        }
    }
}
