//! The receive queue.
//!
//! The queue never reads a register. It writes the tail as [`Refill`](crate::config::Refill) says. Each slot
//! of the ring has a private shadow that holds its buffer. Of what the device writes, only length, status and
//! errors are used; [`check`] checks them.

mod check;
mod feed;
mod format;

mod received;
mod split;

pub use received::{Checksum, Hash, Received};

use crate::{
    config::{Config, RxFormat},
    regs::ALL_ONES,
    ring::Ring,
};
use alloc::boxed::Box;
use check::Checker;
use core::sync::atomic::{Ordering, fence};
use feed::Feed;
use format::{Extended, Format, Legacy, Written};
use kpps_datasheet::{Chip, desc, reg};
use kpps_platform::{Buffer, BufferSource, Platform, Registers};
use split::Headers;

/// The counters of a receive queue since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Good frames given to the consumer.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames dropped or marked bad because the device reported an error.
    pub frame_errors: u64,
    /// Frames dropped because the descriptor made no sense: length 0, a length beyond the buffer, a frame
    /// without an end.
    pub nonsense: u64,
    /// Frames that were copied into a small buffer.
    pub copied: u64,
    /// Times that a slot stayed empty because the source had no buffer.
    pub no_buffer: u64,
    /// Buffers of the source that the device cannot use: too small, or across a 64 KiB boundary on chips with
    /// that erratum.
    pub unfit_buffers: u64,
    /// Tail writes.
    pub doorbells: u64,
}

/// Examinations of a queue while frames arrive, before the queue counts as in step with the device. With a
/// single examination, frames that arrive in step with the watchdog would excuse the queue each time.
const LOOKS: usize = 3;

/// A group that is never complete: one tail write at the end of each burst.
const ONE_A_BURST: usize = usize::MAX;

/// The queue's position in the ring. Slots `next .. next + filled` (modulo the ring) have a buffer.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// The slot to examine next.
    next: usize,
    /// The slot to fill next.
    fill: usize,
    /// Slots that have a buffer.
    filled: usize,
    /// Slots to fill before the next tail write.
    until_bell: usize,
}

impl Cursor {
    /// The tail value in a ring of `size` slots. A full ring holds its last slot back, because head = tail
    /// means empty (SDM 3.2.6).
    #[inline]
    fn tail(&self, size: usize) -> usize {
        match (self.filled == size, self.fill) {
            (false, fill) => fill,
            (true, 0) => size - 1,
            (true, fill) => fill - 1,
        }
    }
}

/// The tail register, and those of head and length.
struct Doorbell<R> {
    regs: R,
    offset: u32,
    head: u32,
    length: u32,
    /// Register units for each descriptor: 2 for descriptors of 32 bytes, otherwise 1.
    unit: usize,
    /// The tail as last written, in descriptors.
    written: usize,
    /// Tail writes.
    count: u64,
}

impl<R: Registers> Doorbell<R> {
    #[inline]
    fn ring(&mut self, tail: usize) {
        self.written = tail;
        self.count += 1;
        // The descriptors are in memory before the device sees the new tail.
        fence(Ordering::Release);
        self.regs.write(self.offset, (tail * self.unit) as u32);
    }
}

/// The receive queue of a device.
pub struct RxQueue<P: Platform, S: BufferSource> {
    bell: Doorbell<P::Regs>,
    ring: Ring<P::Mem>,
    /// The shadow: slot `i`'s buffer.
    buffers: Box<[Option<S::Buf>]>,
    cursor: Cursor,
    checker: Checker,
    feed: Feed<S>,
    /// Slots filled for each tail write, or [`ONE_A_BURST`].
    group: usize,
    /// The tail is a multiple of `group`, and the slot of that number was filled.
    aligned: bool,
    /// Descriptors have the extended format.
    extended: bool,
    /// The header buffers, with header split.
    headers: Option<Headers<S>>,
    /// Whether the last examination found the device lost, and the count of frames by then.
    doubted: bool,
    got_seen: u64,
}

/// How many descriptors the longest frame takes, in buffers of the configured size.
fn longest_frame(config: &Config) -> usize {
    usize::from(config.max_frame_bytes).div_ceil(usize::from(config.rx_buffer_bytes).max(1))
}

impl<P: Platform, S: BufferSource> RxQueue<P, S> {
    /// `headers` makes the source of header buffers; called only if the configuration splits headers.
    pub(crate) fn new(
        regs: P::Regs,
        (chip, queue): (Chip, u8),
        config: &Config,
        ring: Ring<P::Mem>,
        source: S,
        headers: impl FnOnce() -> S,
    ) -> Self {
        let format = config.rx_format.on(chip);
        let ring_size = ring.size();
        Self {
            bell: Doorbell {
                regs,
                offset: chip.offset(reg::of_queue(reg::RDT, queue)),
                head: chip.offset(reg::of_queue(reg::RDH, queue)),
                length: chip.offset(reg::of_queue(reg::RDLEN, queue)),
                unit: ring.stride(),
                written: 0,
                count: 0,
            },
            extended: format == RxFormat::Extended,
            headers: match format {
                RxFormat::Split { header_bytes } => Some(Headers::new(ring.size(), header_bytes, headers())),
                _ => None,
            },
            buffers: (0..ring.size()).map(|_| None).collect(),
            ring,
            cursor: Cursor::default(),
            checker: Checker::new(chip, config),
            feed: Feed::new(chip, config, source),
            doubted: false,
            got_seen: 0,
            aligned: config.refill.aligned,
            group: match config.refill.group {
                0 => ONE_A_BURST,
                // With more held back, the longest frame would wait for slots that only the next frame frees.
                group => usize::from(group)
                    .min(ring_size / 2)
                    .min((ring_size - 1).saturating_sub(longest_frame(config)))
                    .max(1),
            },
        }
    }

    /// The most filled descriptors that may be held back from the device between bursts.
    pub fn held_back(&self) -> usize {
        match (self.group, self.aligned) {
            (ONE_A_BURST, _) => 0,
            (group, true) => group,
            (group, false) => group - 1,
        }
    }

    pub(crate) fn ring(&self) -> &Ring<P::Mem> {
        &self.ring
    }

    /// Puts the queue into its state after a device reset. Its buffers go to the slots from 0 on; the source
    /// fills the others. The tail is not written.
    pub(crate) fn restart(&mut self) {
        self.ring.clear();
        let mut kept = 0;
        for slot in 0..self.buffers.len() {
            if self.buffers[slot].is_some() {
                self.buffers.swap(kept, slot);
                kept += 1;
            }
        }
        if let Some(headers) = &mut self.headers {
            headers.restart();
        }
        for slot in 0..kept {
            if let Some(buffer) = &self.buffers[slot] {
                buffer.sync_for_device(self.feed.bytes());
                match &self.headers {
                    Some(headers) => headers.store(&self.ring, slot, buffer.bus()),
                    None => self.ring.store(slot, desc::rx_read(buffer.bus())),
                }
            }
        }
        let fill = if kept == self.ring.size() { 0 } else { kept };
        // No tail write here: the receiver is off.
        self.cursor = Cursor { next: 0, fill, filled: kept, until_bell: ONE_A_BURST };
        self.bell.written = 0;
        self.checker.restart();
        self.doubted = false;
        self.fill_from_source();
        self.next_tail();
    }

    /// Takes received frames out of the ring and returns how many descriptors were taken, at most `budget`. A
    /// frame has one descriptor unless it is longer than a buffer.
    ///
    /// `sink` gets each frame with its buffer. It returns the buffer when it is done with it, or `None` to
    /// keep it; a kept buffer goes back to the source later. Slots are refilled, and the tail is written, as
    /// the configuration says. When nothing was received and no slot is empty, the device is not touched.
    #[inline]
    pub fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> usize {
        if self.extended {
            self.receive_as::<Extended>(budget, &mut sink)
        } else if self.headers.is_none() {
            self.receive_as::<Legacy>(budget, &mut sink)
        } else {
            self.receive_split(budget, &mut sink)
        }
    }

    /// [`receive`](Self::receive) for descriptors of one buffer.
    #[inline]
    fn receive_as<F: Format>(
        &mut self,
        budget: usize,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> usize {
        let size = self.ring.size();
        let mut taken = 0;
        while taken < budget {
            let next = if self.feed.recycle && self.cursor.filled == size {
                self.recycle::<F>(budget, &mut taken, sink)
            } else {
                self.next_written::<F>()
            };
            let Some(written) = next else { break };
            taken += 1;
            self.take::<F>(written, sink);
        }
        if taken > 0 || self.cursor.filled < size {
            self.end_of_burst();
        }
        taken
    }

    /// The next descriptor, if the device has written it back. A call for each descriptor costs more than the
    /// few instructions of this.
    #[inline(always)]
    fn next_written<F: Format>(&self) -> Option<Written> {
        if self.cursor.filled == 0 {
            return None;
        }
        self.written::<F>(self.cursor.next)
    }

    /// The descriptor of `slot`, if the device has written it back.
    #[inline(always)]
    fn written<F: Format>(&self, slot: usize) -> Option<Written> {
        self.ring.sync_for_cpu(slot);
        F::written(self.ring.pairs().get(slot)?)
    }

    /// Takes the next descriptor.
    fn take<F: Format>(
        &mut self,
        written: Written,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) {
        let slot = self.cursor.next;
        self.cursor.next = self.ring.after(slot);
        self.cursor.filled -= 1;
        let Some(buffer) = self.buffers.get_mut(slot).and_then(Option::take) else {
            return; // Not reached: `filled` counts it.
        };
        let refill = match F::single_buffer_length(written.second, self.checker.single_buffer_limits()) {
            Some(length) => self.feed.pass_single_buffer(written, length, buffer, sink),
            None => self.feed.pass_unusual(&mut self.checker, written, buffer, sink),
        };
        if let Some(buffer) = refill {
            self.put(buffer);
        }
    }

    /// The fast path: no slot is empty, each frame is good and lies in one buffer, and the consumer returns
    /// the buffers, which go back into their slots.
    ///
    /// Ends at `budget`, at the last received frame, or before a descriptor of another kind, which is
    /// returned.
    #[inline]
    fn recycle<F: Format>(
        &mut self,
        budget: usize,
        taken: &mut usize,
        sink: &mut impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Option<Written> {
        loop {
            let Self { ring, buffers, cursor, checker, feed, .. } = self;
            let size = ring.size();
            // A run does not wrap around the ring.
            let most = (budget - *taken).min(cursor.until_bell);
            let run = cursor.next..size.min(cursor.next.saturating_add(most));
            let limit = run.len();
            let (mut count, mut bytes, mut kept, mut unusual) = (0, 0, false, None);
            let pairs = ring.pairs().get(run.clone()).unwrap_or_default();
            let shadows = buffers.get_mut(run.clone()).unwrap_or_default();
            let limits = checker.single_buffer_limits();
            for (pair, shadow) in pairs.iter().zip(shadows) {
                let slot = run.start + count;
                ring.sync_for_cpu(slot);
                let Some((written, length)) = F::single_buffer(pair, limits) else {
                    unusual = F::written(pair);
                    break;
                };
                let Some(buffer) = shadow.take() else { break };
                bytes += u64::from(length.without_fcs);
                let Some(buffer) = sink(Received::single_buffer(written, length, buffer)) else {
                    kept = true;
                    break;
                };
                buffer.sync_for_device(feed.bytes());
                ring.store_in(pair, slot, desc::rx_read(buffer.bus()));
                *shadow = Some(buffer);
                count += 1;
            }
            let ended = count < limit;
            let slot = if run.start + count == size { 0 } else { run.start + count };
            feed.counters.frames += count as u64 + u64::from(kept);
            feed.counters.bytes += bytes;
            *taken += count + usize::from(kept);
            (cursor.next, cursor.fill) = (slot, slot);
            self.filled_slots(count);
            if kept {
                self.cursor.next = self.ring.after(slot);
                self.cursor.filled -= 1;
                if let Some(buffer) = self.feed.replace_kept() {
                    self.put(buffer);
                }
            }
            match (kept, ended) {
                (false, true) => return unusual,
                _ if *taken == budget => return None,
                (true, _) if self.cursor.filled < self.ring.size() => return self.next_written::<F>(),
                _ => {}
            }
        }
    }

    /// Counts `count` filled slots; writes the tail when they complete a group.
    #[inline]
    fn filled_slots(&mut self, count: usize) {
        self.cursor.until_bell -= count;
        if self.cursor.until_bell == 0 {
            let tail = self.next_tail();
            self.bell.ring(tail);
        }
    }

    /// The tail that gives the filled slots to the device, and the count of slots until the next doorbell.
    #[inline]
    fn next_tail(&mut self) -> usize {
        let size = self.ring.size();
        if !self.aligned {
            self.cursor.until_bell = self.group;
            return self.cursor.tail(size);
        }
        let last = if self.cursor.fill == 0 { size - 1 } else { self.cursor.fill - 1 };
        let tail = last - last % self.group;
        self.cursor.until_bell = (tail + self.group).min(size) - last;
        if self.cursor.filled == 0 { self.bell.written } else { tail }
    }

    #[inline]
    fn end_of_burst(&mut self) {
        if self.cursor.filled < self.ring.size() {
            self.fill_from_source();
        }
        // A device without descriptors receives no frame that would complete a group.
        if self.group == ONE_A_BURST || self.bell.written == self.cursor.next {
            self.flush();
        }
    }

    /// Fills empty slots from the source, and writes the tail as the configuration says. Returns how many
    /// slots are still empty.
    pub fn refill(&mut self) -> usize {
        self.end_of_burst();
        self.empty_slots()
    }

    /// Puts a buffer into the first empty slot; returns it if there is none or the device cannot use it. For
    /// consumers that bring their own buffers. The tail is written by [`flush`](Self::flush), or when a group
    /// is complete.
    pub fn provide(&mut self, buffer: S::Buf) -> Option<S::Buf> {
        if self.empty_slots() == 0 || !self.feed.accepts(&buffer) {
            return Some(buffer);
        }
        if self.headers.is_some() {
            return self.put_split(buffer);
        }
        self.put(buffer);
        None
    }

    /// Hands every filled slot to the device with one tail write; without a new slot, nothing is written.
    #[inline]
    pub fn flush(&mut self) {
        let until_bell = self.cursor.until_bell;
        let tail = self.next_tail();
        if tail != self.bell.written {
            self.bell.ring(tail);
        } else {
            self.cursor.until_bell = until_bell;
        }
    }

    /// Slots without a buffer.
    pub fn empty_slots(&self) -> usize {
        self.ring.size() - self.cursor.filled
    }

    /// Whether the device continues at another descriptor than the first unwritten one, or has written a
    /// later one (a write-back that was lost, repeated or misplaced), or has another ring than this one
    /// (something else reset it). The queue would wait for ever, or take descriptors that the device still
    /// owns.
    ///
    /// Two to four register reads, and one to three reads of each descriptor. A write-back under way may look
    /// the same; see [`Control::has_lost_receiver`](crate::Control::has_lost_receiver).
    pub fn is_out_of_step(&self) -> bool {
        let regs = &self.bell.regs;
        let length = regs.read(self.bell.length);
        if length != self.ring.bytes() && length != ALL_ONES {
            return true;
        }
        let slot = |ahead| (self.cursor.next + ahead) % self.ring.size();
        let filled = self.cursor.filled;
        for _ in 0..LOOKS {
            let Some(first) = (0..filled).find(|ahead| !self.is_written(slot(*ahead))) else { return false };
            let astray = (first + 1..filled).any(|ahead| self.is_written(slot(ahead)));
            let head = regs.read(self.bell.head);
            let elsewhere = head as usize != slot(first) * self.bell.unit && head != ALL_ONES;
            if !astray && !elsewhere {
                return false;
            }
            // The read has pushed the device's earlier writes to memory (PCI 2.3, 3.2.5), which it made in
            // order. If a frame came meanwhile, another look decides.
            if !self.is_written(slot(first)) {
                return true;
            }
        }
        false
    }

    /// True if two calls in a row found either the device out of step, or frames `received` by the device but
    /// none in this queue.
    pub(crate) fn is_lost(&mut self, received: bool) -> bool {
        let RxCounters { frames, frame_errors, nonsense, .. } = self.feed.counters;
        let got = frames + frame_errors + nonsense;
        let stuck = received && self.is_waiting() && got == self.got_seen;
        self.got_seen = got;
        let doubts = self.is_out_of_step() || stuck;
        core::mem::replace(&mut self.doubted, doubts) && doubts
    }

    /// Whether the device has a descriptor, and has not written the next one back.
    fn is_waiting(&self) -> bool {
        self.cursor.filled > 0 && !self.is_written(self.cursor.next)
    }

    /// Whether the device has written the descriptor of `slot` back.
    fn is_written(&self, slot: usize) -> bool {
        match (&self.headers, self.extended) {
            (Some(_), _) => self.look_split(slot).is_some(),
            (None, true) => self.written::<Extended>(slot).is_some(),
            (None, false) => self.written::<Legacy>(slot).is_some(),
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> RxCounters {
        RxCounters { doorbells: self.bell.count, ..self.feed.counters }
    }

    /// The queue's buffer source.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.feed.source
    }

    fn fill_from_source(&mut self) {
        if self.headers.is_some() {
            return self.fill_split();
        }
        while self.empty_slots() > 0 {
            let Some(buffer) = self.feed.take() else { break };
            self.put(buffer);
        }
    }

    /// Puts a usable buffer into the next slot; writes the tail when a group is complete.
    fn put(&mut self, buffer: S::Buf) {
        let slot = self.cursor.fill;
        buffer.sync_for_device(self.feed.bytes());
        self.ring.store(slot, desc::rx_read(buffer.bus()));
        if let Some(shadow) = self.buffers.get_mut(slot) {
            *shadow = Some(buffer);
        }
        self.cursor.fill = self.ring.after(slot);
        self.cursor.filled += 1;
        self.filled_slots(1);
    }
}

impl<P: Platform, S: BufferSource> Drop for RxQueue<P, S> {
    /// Gives the buffers back to the source. The caller has stopped the device
    /// ([`Control::stop`](crate::Control::stop)).
    fn drop(&mut self) {
        for shadow in &mut self.buffers {
            if let Some(buffer) = shadow.take() {
                self.feed.source.give(buffer);
            }
        }
        if let Some(headers) = &mut self.headers {
            headers.give_back();
        }
    }
}
