//! The receive queue.
//!
//! No register is read here, ever; the tail is written as [`Refill`](crate::config::Refill) says.
//! Each slot of the ring has a private shadow that holds its buffer: of what the device writes
//! only length, status and errors are used, and [`judge`] checks those.

mod judge;
mod received;

pub use received::{Checksum, Received};

use crate::{
    config::{Buffers, Config, RefillWhen},
    ring::Ring,
};
use alloc::boxed::Box;
use core::sync::atomic::{
    Ordering::{self, Relaxed},
    fence,
};
use judge::Judge;
use kpps_datasheet::{Chip, Erratum, desc, reg};
use kpps_platform::{Buffer, BufferSource, Platform, Registers};

/// What a receive queue has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Frames given to the consumer whole and good.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames dropped or marked bad because the device reported an error.
    pub frame_errors: u64,
    /// Frames dropped because what the device wrote made no sense: a length of nothing or beyond
    /// the buffer, a frame that does not end.
    pub nonsense: u64,
    /// Times that a slot could not be filled because the source had no buffer.
    pub no_buffer: u64,
    /// Buffers of the source that the device cannot use: too small, or across 64 KiB where that is an erratum.
    pub unfit_buffers: u64,
    /// Tail writes.
    pub doorbells: u64,
}

/// Where the queue stands in the ring. Slots `next .. next + filled` (around the ring) have a buffer.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// The slot to look at next.
    next: usize,
    /// The slot to fill next.
    fill: usize,
    /// Slots that have a buffer.
    filled: usize,
    /// Slots filled since the tail was last written.
    untold: usize,
}

impl Cursor {
    /// Where the tail belongs in a ring of `size`: a full ring keeps its last filled slot back,
    /// since head = tail would mean empty (SDM 3.2.6).
    #[inline]
    fn tail(&self, size: usize) -> usize {
        match (self.filled == size, self.fill) {
            (false, fill) => fill,
            (true, 0) => size - 1,
            (true, fill) => fill - 1,
        }
    }
}

/// The tail register.
struct Doorbell<R> {
    regs: R,
    offset: u32,
    /// What was written last.
    told: usize,
    /// How often.
    count: u64,
}

impl<R: Registers> Doorbell<R> {
    #[inline]
    fn ring(&mut self, tail: usize) {
        self.told = tail;
        self.count += 1;
        // The descriptors are in memory before the device hears of them.
        fence(Ordering::Release);
        self.regs.write(self.offset, tail as u32);
    }
}

/// The receive queue of a device.
pub struct RxQueue<P: Platform, S: BufferSource> {
    bell: Doorbell<P::Regs>,
    ring: Ring<P::Mem>,
    /// The shadow: slot `i`'s buffer.
    buffers: Box<[Option<S::Buf>]>,
    source: S,
    cursor: Cursor,
    judge: Judge,
    group: usize,
    each_frame: bool,
    recycle: bool,
    fitness: Fitness,
    counters: RxCounters,
}

/// Which buffers the device may be given.
#[derive(Clone, Copy)]
struct Fitness {
    bytes: u64,
    no_64k_crossing: bool,
}

impl Fitness {
    #[inline]
    fn accepts(&self, buffer: &impl Buffer) -> bool {
        let crosses = (buffer.bus() ^ buffer.bus().wrapping_add(self.bytes - 1)) >> 16 != 0;
        buffer.capacity() as u64 >= self.bytes && !(self.no_64k_crossing && crosses)
    }
}

impl<P: Platform, S: BufferSource> RxQueue<P, S> {
    pub(crate) fn new(regs: P::Regs, chip: Chip, config: &Config, ring: Ring<P::Mem>, source: S) -> Self {
        Self {
            bell: Doorbell { regs, offset: chip.offset(reg::RDT), told: 0, count: 0 },
            buffers: (0..ring.size()).map(|_| None).collect(),
            ring,
            source,
            cursor: Cursor::default(),
            judge: Judge::new(chip, config),
            group: config.refill.group.into(),
            each_frame: config.refill.when == RefillWhen::EachFrame,
            recycle: config.buffers == Buffers::Recycled,
            fitness: Fitness {
                bytes: config.rx_buffer_bytes.into(),
                no_64k_crossing: chip.has(Erratum::No64KCrossing),
            },
            counters: RxCounters::default(),
        }
    }

    pub(crate) fn ring(&self) -> &Ring<P::Mem> {
        &self.ring
    }

    /// Puts the queue in the state after a reset of the device: all buffers that it holds are in
    /// slots from 0 on, and the rest is filled from the source. The tail is not written.
    pub(crate) fn restart(&mut self) {
        self.ring.clear();
        let mut kept = 0;
        for slot in 0..self.buffers.len() {
            if self.buffers[slot].is_some() {
                self.buffers.swap(kept, slot);
                kept += 1;
            }
        }
        for slot in 0..kept {
            if let Some(buffer) = &self.buffers[slot] {
                self.ring.store(slot, desc::rx_read(buffer.bus()));
            }
        }
        let fill = if kept == self.ring.size() { 0 } else { kept };
        self.cursor = Cursor { next: 0, fill, filled: kept, untold: 0 };
        self.bell.told = 0;
        self.judge.restart();
        // Nothing may be told yet: the receiver is off.
        let group = core::mem::replace(&mut self.group, 0);
        self.fill_from_source();
        self.group = group;
    }

    /// Takes received frames out of the ring, at most `budget` descriptors (one a frame unless it
    /// is longer than a buffer), and returns how many were taken.
    ///
    /// `sink` gets each with its buffer and returns the buffer if it is done with it, `None` if it
    /// keeps it (it will give it back to the source some day). Slots are refilled and the device
    /// is told as the configuration says; when nothing was received and nothing was short, the
    /// device is not touched at all.
    #[inline]
    pub fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> usize {
        let Self { bell, ring, buffers, source, judge, counters, .. } = self;
        let (pairs, size) = (ring.pairs(), ring.size());
        // A copy, which the compiler keeps in registers over the fences below.
        let mut at = self.cursor;
        let (mut taken, mut frames, mut bytes) = (0, 0, 0);
        while taken < budget && at.filled > 0 {
            let slot = at.next;
            let (Some(pair), Some(shadow)) = (pairs.get(slot), buffers.get_mut(slot)) else { break };
            ring.sync_for_cpu(slot);
            let word = u64::from_le(pair[1].load(Relaxed));
            if word & desc::RX_DD == 0 {
                break;
            }
            // Pairs with the device's order of writes: data, then descriptor.
            fence(Ordering::Acquire);
            taken += 1;
            at.next = if slot + 1 == size { 0 } else { slot + 1 };
            at.filled -= 1;
            let Some(buffer) = shadow.take() else { continue }; // `filled` says that there is one
            let received = if let Some((with_fcs, without)) = judge.whole(word) {
                buffer.sync_for_cpu(with_fcs.into());
                frames += 1;
                bytes += u64::from(without);
                Ok(Received { buffer, bytes: without, first: true, last: true, error: false, word })
            } else {
                judge.unusual(counters, word, buffer)
            };
            let refill = match received {
                Err(buffer) => Some(buffer),
                Ok(received) if self.recycle => match sink(received) {
                    None if self.each_frame => take_fit(source, self.fitness, counters),
                    back => back,
                },
                Ok(received) => {
                    // The new buffer is taken before the old one is given away.
                    let fresh = if self.each_frame { take_fit(source, self.fitness, counters) } else { None };
                    if let Some(back) = sink(received) {
                        source.give(back);
                    }
                    fresh
                }
            };
            let Some(buffer) = refill else { continue };
            // Usually the slot just emptied.
            let fill = at.fill;
            let (Some(pair), Some(shadow)) = (match fill == slot {
                true => (Some(pair), Some(shadow)),
                false => (pairs.get(fill), buffers.get_mut(fill)),
            }) else {
                source.give(buffer);
                break;
            };
            ring.store_in(pair, fill, desc::rx_read(buffer.bus()));
            *shadow = Some(buffer);
            at.fill = if fill + 1 == size { 0 } else { fill + 1 };
            at.filled += 1;
            at.untold += 1;
            if at.untold == self.group {
                at.untold = 0;
                bell.ring(at.tail(size));
            }
        }
        counters.frames += frames;
        counters.bytes += bytes;
        self.cursor = at;
        if taken > 0 || at.filled < size {
            self.end_of_burst();
        }
        taken
    }

    #[inline]
    fn end_of_burst(&mut self) {
        if self.cursor.filled < self.ring.size() {
            self.fill_from_source();
        }
        if self.group == 0 {
            self.flush();
        }
    }

    /// Fills empty slots from the source as far as it goes; the device is told as the configuration
    /// says. Returns how many slots are still empty.
    pub fn refill(&mut self) -> usize {
        self.end_of_burst();
        self.empty_slots()
    }

    /// Gives a buffer to the first empty slot; gives it back when there is none or the device
    /// cannot use it. For consumers that bring buffers themselves; the device is told by
    /// [`flush`](Self::flush) or in groups.
    pub fn provide(&mut self, buffer: S::Buf) -> Option<S::Buf> {
        if self.empty_slots() == 0 || !self.fitness.accepts(&buffer) {
            return Some(buffer);
        }
        self.put(buffer);
        None
    }

    /// Tells the device about every filled slot, with one tail write; none if there is no news.
    #[inline]
    pub fn flush(&mut self) {
        let tail = self.cursor.tail(self.ring.size());
        if tail != self.bell.told {
            self.cursor.untold = 0;
            self.bell.ring(tail);
        }
    }

    /// Slots without a buffer.
    pub fn empty_slots(&self) -> usize {
        self.ring.size() - self.cursor.filled
    }

    /// What was counted so far.
    pub fn counters(&self) -> RxCounters {
        RxCounters { doorbells: self.bell.count, ..self.counters }
    }

    /// The queue's buffer source.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    fn fill_from_source(&mut self) {
        while self.empty_slots() > 0 {
            let Some(buffer) = take_fit(&mut self.source, self.fitness, &mut self.counters) else { break };
            self.put(buffer);
        }
    }

    /// Puts a fit buffer into the next slot and tells the device if a group is complete.
    fn put(&mut self, buffer: S::Buf) {
        let slot = self.cursor.fill;
        self.ring.store(slot, desc::rx_read(buffer.bus()));
        if let Some(shadow) = self.buffers.get_mut(slot) {
            *shadow = Some(buffer);
        }
        self.cursor.fill = self.ring.after(slot);
        self.cursor.filled += 1;
        self.cursor.untold += 1;
        if self.cursor.untold == self.group {
            self.cursor.untold = 0;
            self.bell.ring(self.cursor.tail(self.ring.size()));
        }
    }
}

/// Takes a buffer that the device can use from the source.
#[inline]
fn take_fit<S: BufferSource>(source: &mut S, fitness: Fitness, counters: &mut RxCounters) -> Option<S::Buf> {
    let Some(buffer) = source.take() else {
        counters.no_buffer += 1;
        return None;
    };
    if fitness.accepts(&buffer) {
        return Some(buffer);
    }
    counters.unfit_buffers += 1;
    source.give(buffer);
    None
}

impl<P: Platform, S: BufferSource> Drop for RxQueue<P, S> {
    /// Gives the buffers back. The caller has stopped the device ([`Control::stop`](crate::Control::stop)).
    fn drop(&mut self) {
        for shadow in &mut self.buffers {
            if let Some(buffer) = shadow.take() {
                self.source.give(buffer);
            }
        }
    }
}
