//! The receive queue.
//!
//! No register is read here, ever; the tail is written as [`Refill`](crate::config::Refill) says.
//! Each slot of the ring has a private shadow that holds its buffer: of what the device writes
//! only length, status and errors are used, and those are checked.

use crate::{
    config::{Buffers, Config, RefillWhen},
    ring::Ring,
};
use alloc::boxed::Box;
use core::sync::atomic::{Ordering, fence};
use kpps_datasheet::{
    Chip, Erratum,
    desc::{self, RxWriteback, rx_error, rx_status},
    reg,
};
use kpps_platform::{Buffer, BufferSource, Platform, Registers};

/// Bytes of the frame check sequence.
const FCS_BYTES: u16 = 4;

/// A received frame, or a part of one that is longer than a buffer.
#[derive(Debug)]
pub struct Received<B> {
    /// The buffer that holds the bytes.
    pub buffer: B,
    /// Bytes in the buffer, without FCS. When the driver has to cut the FCS of a frame in several
    /// buffers and less than four bytes of it lie in the last, this is 0 and the rest stays in the last but one.
    pub bytes: u16,
    /// The frame starts here.
    pub first: bool,
    /// The frame ends here.
    pub last: bool,
    /// With [`last`](Self::last): the frame is bad, forget its earlier parts. Bad frames of one
    /// buffer are dropped by the driver and never get here.
    pub error: bool,
    word: u64,
}

/// What the device says about a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It did not look.
    Unknown,
    /// Right.
    Good,
    /// Wrong.
    Bad,
}

impl<B> Received<B> {
    fn verdict(&self, calculated: u8, error: u8) -> Checksum {
        let wb = RxWriteback::unpack(self.word);
        if !self.last || wb.status & rx_status::IXSM != 0 || wb.status & calculated == 0 {
            Checksum::Unknown
        } else if wb.errors & error != 0 {
            Checksum::Bad
        } else {
            Checksum::Good
        }
    }
    /// The device's verdict on the IP header checksum; known at the end of a frame.
    pub fn ip_checksum(&self) -> Checksum {
        self.verdict(rx_status::IPCS, rx_error::IPE)
    }
    /// The device's verdict on the TCP or UDP checksum; known at the end of a frame.
    pub fn transport_checksum(&self) -> Checksum {
        self.verdict(rx_status::TCPCS, rx_error::TCPE)
    }
    /// The VLAN tag that the device stripped; known at the end of a frame.
    pub fn vlan(&self) -> Option<u16> {
        let wb = RxWriteback::unpack(self.word);
        (self.last && wb.status & rx_status::VP != 0).then_some(wb.special)
    }
    /// The frame passed only an inexact (multicast hash) filter; known at the end of a frame.
    pub fn is_inexact(&self) -> bool {
        self.last && RxWriteback::unpack(self.word).status & rx_status::PIF != 0
    }
}

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

/// The receive queue of a device.
pub struct RxQueue<P: Platform, S: BufferSource> {
    regs: P::Regs,
    tail: u32,
    ring: Ring<P::Mem>,
    /// The shadow: slot `i`'s buffer. Slots `next .. next + filled` (around the ring) have one.
    buffers: Box<[Option<S::Buf>]>,
    source: S,
    /// The slot to look at next.
    next: u16,
    /// The slot to fill next.
    fill: u16,
    /// Slots that have a buffer.
    filled: u16,
    /// Slots filled since the tail was last written.
    untold: u16,
    /// The tail as last written.
    told: u16,
    group: u16,
    each_frame: bool,
    recycle: bool,
    buffer_bytes: u16,
    max_frame_bytes: u32,
    /// Bytes of FCS that the device leaves in the buffer.
    fcs: u16,
    split_at_64k: bool,
    /// Bytes of the frame so far, when the last descriptor did not end one.
    partial: u32,
    /// The rest of the present frame is to be skipped.
    skipping: bool,
    counters: RxCounters,
}

impl<P: Platform, S: BufferSource> RxQueue<P, S> {
    pub(crate) fn new(regs: P::Regs, chip: Chip, config: &Config, ring: Ring<P::Mem>, source: S) -> Self {
        let mut queue = Self {
            regs,
            tail: chip.offset(reg::RDT),
            buffers: (0..ring.size()).map(|_| None).collect(),
            ring,
            source,
            next: 0,
            fill: 0,
            filled: 0,
            untold: 0,
            told: 0,
            group: 0,
            each_frame: false,
            recycle: false,
            buffer_bytes: 0,
            max_frame_bytes: 0,
            fcs: 0,
            split_at_64k: chip.has(Erratum::No64KCrossing),
            partial: 0,
            skipping: false,
            counters: RxCounters::default(),
        };
        queue.configure(chip, config);
        queue
    }

    fn configure(&mut self, chip: Chip, config: &Config) {
        self.group = config.refill.group;
        self.each_frame = config.refill.when == RefillWhen::EachFrame;
        self.recycle = config.buffers == Buffers::Recycled;
        self.buffer_bytes = config.rx_buffer_bytes;
        self.max_frame_bytes = config.max_frame_bytes.into();
        self.fcs = if config.strip_fcs && chip.has_fcs_strip() { 0 } else { FCS_BYTES };
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
                self.ring.store(slot as u16, desc::rx_read(buffer.bus()));
            }
        }
        self.next = 0;
        self.filled = kept as u16;
        self.fill = if self.filled == self.ring.size() { 0 } else { self.filled };
        self.untold = 0;
        self.told = 0;
        self.partial = 0;
        self.skipping = false;
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
        let mut taken = 0;
        while taken < budget && self.filled > 0 {
            let slot = self.next;
            let word = self.ring.status(slot);
            if word & desc::RX_DD == 0 {
                break;
            }
            // Pairs with the device's order of writes: data, then descriptor.
            fence(Ordering::Acquire);
            taken += 1;
            self.next = self.ring.after(slot);
            self.filled -= 1;
            let Some(buffer) = self.buffers.get_mut(usize::from(slot)).and_then(Option::take) else {
                continue; // `filled` says that there is one
            };
            match self.judge(word, buffer) {
                Ok(received) => self.deliver(received, &mut sink),
                Err(buffer) => self.put(buffer),
            }
        }
        if taken > 0 || self.filled < self.ring.size() {
            self.end_of_burst();
        }
        taken
    }

    /// Hands one descriptor's worth to the consumer and refills its slot if that is the policy.
    #[inline]
    fn deliver(
        &mut self,
        received: Received<S::Buf>,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) {
        if self.recycle {
            match sink(received) {
                Some(buffer) => self.put(buffer),
                None if self.each_frame => self.fill_one(),
                None => {}
            }
        } else if self.each_frame {
            // The new buffer is taken before the old one is given away.
            let fresh = self.source.take();
            if let Some(buffer) = sink(received) {
                self.source.give(buffer);
            }
            match fresh {
                Some(buffer) => self.put_new(buffer),
                None => self.counters.no_buffer += 1,
            }
        } else if let Some(buffer) = sink(received) {
            self.source.give(buffer);
        }
    }

    #[inline]
    fn end_of_burst(&mut self) {
        if self.filled < self.ring.size() {
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

    /// Gives a buffer to the first empty slot; gives it back when there is none. For consumers that
    /// bring buffers themselves; the device is told by [`flush`](Self::flush) or in groups.
    pub fn provide(&mut self, buffer: S::Buf) -> Option<S::Buf> {
        if self.filled == self.ring.size() || !self.is_fit(&buffer) {
            return Some(buffer);
        }
        self.put(buffer);
        None
    }

    /// Tells the device about every filled slot, with one tail write; none if there is no news.
    #[inline]
    pub fn flush(&mut self) {
        let tail = self.tail_index();
        if tail != self.told {
            self.ring_doorbell(tail);
        }
    }

    /// Slots without a buffer.
    pub fn empty_slots(&self) -> usize {
        usize::from(self.ring.size() - self.filled)
    }

    /// What was counted so far.
    pub fn counters(&self) -> RxCounters {
        self.counters
    }

    /// The queue's buffer source.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    fn fill_from_source(&mut self) {
        while self.filled < self.ring.size() {
            let before = self.filled;
            self.fill_one();
            if self.filled == before {
                break;
            }
        }
    }

    fn fill_one(&mut self) {
        match self.source.take() {
            Some(buffer) => self.put_new(buffer),
            None => self.counters.no_buffer += 1,
        }
    }

    /// Whether the device may be given this buffer.
    #[inline]
    fn is_fit(&self, buffer: &S::Buf) -> bool {
        let bytes = u64::from(self.buffer_bytes);
        let fits = buffer.capacity() as u64 >= bytes;
        let crosses = (buffer.bus() ^ buffer.bus().wrapping_add(bytes - 1)) >> 16 != 0;
        fits && !(self.split_at_64k && crosses)
    }

    /// Puts a buffer of the source into the next slot, if the device can use it.
    #[inline]
    fn put_new(&mut self, buffer: S::Buf) {
        if self.is_fit(&buffer) {
            self.put(buffer);
        } else {
            self.counters.unfit_buffers += 1;
            self.source.give(buffer);
        }
    }

    /// Puts a fit buffer into the next slot and tells the device if a group is complete.
    #[inline]
    fn put(&mut self, buffer: S::Buf) {
        let slot = self.fill;
        self.ring.store(slot, desc::rx_read(buffer.bus()));
        if let Some(shadow) = self.buffers.get_mut(usize::from(slot)) {
            *shadow = Some(buffer);
        }
        self.fill = self.ring.after(slot);
        self.filled += 1;
        self.untold += 1;
        if self.untold == self.group {
            self.ring_doorbell(self.tail_index());
        }
    }

    /// Where the tail belongs: a full ring keeps its last filled slot back, since head = tail would
    /// mean empty (SDM 3.2.6).
    #[inline]
    fn tail_index(&self) -> u16 {
        if self.filled == self.ring.size() { self.ring.before(self.fill) } else { self.fill }
    }

    #[inline]
    fn ring_doorbell(&mut self, tail: u16) {
        self.untold = 0;
        self.told = tail;
        self.counters.doorbells += 1;
        // The descriptors are in memory before the device hears of them.
        fence(Ordering::Release);
        self.regs.write(self.tail, tail.into());
    }

    /// Checks what the device wrote. `Err` holds the buffer of a frame, or part of one, that the
    /// consumer shall not see.
    #[inline]
    fn judge(&mut self, word: u64, buffer: S::Buf) -> Result<Received<S::Buf>, S::Buf> {
        let wb = RxWriteback::unpack(word);
        let ends = wb.status & rx_status::EOP != 0;
        let usual = ends && wb.errors & rx_error::FRAME == 0 && self.partial == 0 && !self.skipping;
        if usual
            && wb.length > self.fcs
            && wb.length <= self.buffer_bytes
            && u32::from(wb.length) <= self.max_frame_bytes
        {
            let bytes = wb.length - self.fcs;
            buffer.sync_for_cpu(wb.length.into());
            self.counters.frames += 1;
            self.counters.bytes += u64::from(bytes);
            return Ok(Received { buffer, bytes, first: true, last: true, error: false, word });
        }
        self.judge_unusual(word, buffer)
    }

    /// Parts of long frames, errors, and nonsense.
    #[cold]
    fn judge_unusual(&mut self, word: u64, buffer: S::Buf) -> Result<Received<S::Buf>, S::Buf> {
        let wb = RxWriteback::unpack(word);
        let ends = wb.status & rx_status::EOP != 0;
        if self.skipping {
            self.skipping = !ends;
            return Err(buffer);
        }
        let first = self.partial == 0;
        let total = self.partial + u32::from(wb.length);
        let nonsense = wb.length == 0
            || wb.length > self.buffer_bytes
            || total > self.max_frame_bytes
            || ends && total <= self.fcs.into();
        let bad = nonsense || ends && wb.errors & rx_error::FRAME != 0;
        self.partial = if ends || bad { 0 } else { total };
        if bad {
            self.skipping = !ends;
            if nonsense {
                self.counters.nonsense += 1;
            } else {
                self.counters.frame_errors += 1;
            }
            if first {
                return Err(buffer);
            }
            // The consumer has the beginning already: tell it that the frame came to nothing.
            return Ok(Received { buffer, bytes: 0, first, last: true, error: true, word });
        }
        let bytes = if ends { wb.length.saturating_sub(self.fcs) } else { wb.length };
        buffer.sync_for_cpu(wb.length.into());
        if ends {
            self.counters.frames += 1;
            self.counters.bytes += u64::from(total - u32::from(self.fcs));
        }
        Ok(Received { buffer, bytes, first, last: ends, error: false, word })
    }
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
