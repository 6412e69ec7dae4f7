//! The transmit queue.
//!
//! The queue never reads a register. [`TxQueue::flush`] writes the tail once for all queued frames. This file
//! turns frames into descriptors, `filler.rs` makes those that keep the wire busy between two frames, and
//! `report.rs` handles their completion.

use crate::{
    config::{Config, Delay},
    offload::{Offload, TxMeta},
    ring::Ring,
};
use alloc::boxed::Box;
use kpps_datasheet::{
    Chip,
    desc::{self, advanced},
    reg,
};
use kpps_platform::{Buffer, BufferSource, Platform};
use layout::{Advanced, Layout, Legacy, Pattern};

mod burst;
mod filler;
mod layout;
mod queue_limit;
mod quirks;
mod report;

pub use filler::MIN_FILLER_BYTES;
pub use queue_limit::TxQueueLimit;
pub(crate) use quirks::Quirks;

/// The shortest frame that is sent without padding, in bytes without FCS.
const MIN_FRAME_BYTES: u16 = 60;
/// The longest frame, in bytes without FCS (SDM 3.3.3).
const MAX_FRAME_BYTES: u16 = desc::LEGACY_MAX_BYTES as u16;
/// Bytes of the transmit FIFO that must stay free beside a frame (SDM 3.3.6, note 2).
const FIFO_SPARE_BYTES: u32 = 80;

/// A part of a frame to send.
#[derive(Debug)]
pub struct Fragment<B> {
    /// The buffer that holds it.
    pub buffer: B,
    /// Its bytes, from the buffer's start.
    pub bytes: u16,
}

/// Why a frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The ring has no room now.
    Full,
    /// The chip lacks an offload that the [`TxMeta`] requests.
    Unsupported,
    /// The frame is invalid: no bytes, too many, more than the buffer has, or sizes that contradict the
    /// segmentation.
    Invalid,
}

/// A refused frame, and the reason.
#[derive(Debug)]
pub struct Refused<F> {
    /// The reason.
    pub reason: Refusal,
    /// The frame. After [`Refusal::Invalid`], buffers that [`TxQueue::enqueue`] had already drawn from the
    /// iterator are back in the source.
    pub frame: F,
}

/// Counters of a transmit queue since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCounters {
    /// Frames queued.
    pub frames: u64,
    /// Frames refused because the ring was full.
    pub full: u64,
    /// Bytes of the queued frames, without FCS.
    pub bytes: u64,
    /// Fillers queued; they are no frames.
    pub fillers: u64,
    /// Context descriptors written.
    pub contexts: u64,
    /// Descriptors written only to get a report.
    pub report_requests: u64,
    /// Tail writes.
    pub doorbells: u64,
    /// Buffers of unsent frames that a reset dropped.
    pub abandoned: u64,
}

/// The progress of a queue, for [`Control::watchdog`](crate::Control::watchdog).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Descriptors that the device has reported since the queue was made, or that a reset has dropped, modulo
    /// 2³².
    pub reported: u32,
    /// The device owes a report of a frame that it has.
    pub waiting: bool,
}

/// The transmit offloads of a chip.
#[derive(Clone, Copy, Debug)]
struct Abilities {
    checksum: bool,
    segment: bool,
    vlan: bool,
    /// All descriptors are advanced ones.
    advanced: bool,
    fifo_bytes: u32,
}

/// The queue's state before a frame, to undo it.
struct Mark {
    next: usize,
    free: usize,
    last: u64,
    context: Option<[u64; 2]>,
}

/// The transmit queue of a device.
pub struct TxQueue<P: Platform, S: BufferSource> {
    regs: P::Regs,
    tail: u32,
    ring: Ring<P::Mem>,
    /// The shadow: the buffer whose last byte descriptor `i` sends.
    buffers: Box<[Option<S::Buf>]>,
    source: S,
    /// The descriptor to write next.
    next: usize,
    /// The oldest descriptor not yet reclaimed.
    clean: usize,
    /// Descriptors that may still be written: one less than there are from `next` to `clean`.
    free: usize,
    /// Descriptors from `clean` on that are known to be done.
    done: usize,
    /// Descriptors that ask for a report, oldest first, in a ring of the ring's size.
    reports: Box<[usize]>,
    report_first: usize,
    report_count: usize,
    /// Descriptors written since the last that asks for a report.
    unreported: usize,
    /// Reports since the last that was not delayed.
    reports_delayed: u16,
    /// The second word of the descriptor written last.
    last: u64,
    /// The tail as last written.
    tail_written: usize,
    /// The queue is polled, so the last frame of a flush need not ask for a report.
    polled: bool,
    report_every: usize,
    delay: Delay,
    quirks: Quirks,
    abilities: Abilities,
    /// The checksum context that the device holds.
    context: Option<[u64; 2]>,
    /// The bytes of all fillers, from the first filler on.
    filler: Option<S::Buf>,
    reclaimed: u32,
    /// Frames queued at the last call of `request_report_if_idle`.
    seen_frames: u64,
    counters: TxCounters,
}

impl<P: Platform, S: BufferSource> TxQueue<P, S> {
    pub(crate) fn new(
        regs: P::Regs,
        (chip, queue): (Chip, u8),
        config: &Config,
        quirks: Quirks,
        ring: Ring<P::Mem>,
        source: S,
    ) -> Self {
        let rx_fifo = match config.rx_fifo_kb {
            Some(kb) => u32::from(kb) * 1024,
            None => chip.default_rx_buffer_bytes(),
        };
        Self {
            regs,
            tail: chip.offset(reg::of_queue(reg::TDT, queue)),
            buffers: (0..ring.size()).map(|_| None).collect(),
            reports: (0..ring.size()).collect(),
            ring,
            source,
            next: 0,
            clean: 0,
            free: config.tx_ring as usize - 1,
            done: 0,
            report_first: 0,
            report_count: 0,
            unreported: 0,
            reports_delayed: 0,
            last: 0,
            tail_written: 0,
            polled: false,
            report_every: config.completion.report_every.into(),
            delay: if chip.has_delays() { config.completion.delay } else { Delay::Never },
            quirks,
            abilities: Abilities {
                checksum: chip.has_checksum_offload(),
                segment: chip.has_tso(),
                vlan: chip.has_vlan() && config.vlan,
                advanced: chip.has_advanced(),
                // The 82576's transmit buffer is no part of the receive buffer's.
                fifo_bytes: chip.packet_buffer_bytes()
                    - if chip.has_advanced() { chip.max_rx_buffer_bytes() } else { rx_fifo },
            },
            context: None,
            filler: None,
            reclaimed: 0,
            seen_frames: 0,
            counters: TxCounters::default(),
        }
    }

    pub(crate) fn ring(&self) -> &Ring<P::Mem> {
        &self.ring
    }

    /// Puts the queue into its state after a device reset: empty. Buffers go to the source.
    pub(crate) fn restart(&mut self) {
        for shadow in &mut self.buffers {
            if let Some(buffer) = shadow.take() {
                self.counters.abandoned += 1;
                self.source.give(buffer);
            }
        }
        self.ring.clear();
        self.reclaimed = self.reclaimed.wrapping_add(self.pending() as u32);
        (self.next, self.clean, self.free, self.done) = (0, 0, self.ring.size() - 1, 0);
        (self.report_first, self.report_count, self.unreported) = (0, 0, 0);
        (self.tail_written, self.reports_delayed, self.context) = (0, 0, None);
    }

    /// Free descriptors. A ring is never filled completely, because tail = head means empty (SDM 3.4).
    #[inline]
    pub fn free(&self) -> usize {
        self.free
    }

    /// Descriptors in use: queued, and not yet reclaimed.
    #[inline]
    pub fn pending(&self) -> usize {
        self.ring.size() - 1 - self.free
    }

    /// The counters so far.
    pub fn counters(&self) -> TxCounters {
        self.counters
    }

    /// The queue's buffer source.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Queues a frame in one buffer, `bytes` long without FCS. A short frame is padded. The device gets it at
    /// the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// The refused frame and the reason.
    // Inlined even where the compiler finds it too large: the callers are loops over frames.
    #[inline(always)]
    pub fn send(&mut self, buffer: S::Buf, bytes: u16) -> Result<(), Refused<Fragment<S::Buf>>> {
        if self.free == 0 {
            self.counters.full += 1;
            return Err(Refused { reason: Refusal::Full, frame: Fragment { buffer, bytes } });
        }
        if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&bytes) || buffer.capacity() < bytes.into() {
            return self.send_padded(buffer, bytes);
        }
        let bus = buffer.bus();
        if self.quirks.differs(bus, bytes.into()) {
            return self.send_by_quirks(buffer, bytes);
        }
        self.send_whole::<Legacy>(buffer, bus, bytes);
        Ok(())
    }

    /// Writes the descriptor of a valid frame, whose buffer is at `bus`.
    #[inline(always)]
    fn send_whole<L: Layout>(&mut self, buffer: S::Buf, bus: u64, bytes: u16) {
        buffer.sync_for_device(bytes.into());
        let word = L::whole(bytes) | self.report(self.next, 1);
        self.write(bus, word, Some(buffer));
        self.counters.frames += 1;
        self.counters.bytes += u64::from(bytes);
    }

    /// The end of [`send`](Self::send) for a frame that is not one legacy descriptor. The other chips pay a
    /// test for it, because it is marked cold; with advanced descriptors it is not.
    #[cold]
    #[inline(never)]
    fn send_by_quirks(&mut self, buffer: S::Buf, bytes: u16) -> Result<(), Refused<Fragment<S::Buf>>> {
        if !self.abilities.advanced {
            return self.send_in_pieces(buffer, bytes);
        }
        let bus = buffer.bus();
        self.send_whole::<Advanced>(buffer, bus, bytes);
        Ok(())
    }

    /// Pads a short frame; refuses an impossible one.
    #[cold]
    fn send_padded(&mut self, mut buffer: S::Buf, bytes: u16) -> Result<(), Refused<Fragment<S::Buf>>> {
        let fits = buffer.capacity() >= MIN_FRAME_BYTES.into() && (1..MIN_FRAME_BYTES).contains(&bytes);
        let padding = buffer.bytes_mut().get_mut(bytes.into()..MIN_FRAME_BYTES.into());
        match padding.filter(|_| fits) {
            Some(padding) => {
                padding.fill(0);
                self.send(buffer, MIN_FRAME_BYTES)
            }
            None => Err(Refused { reason: Refusal::Invalid, frame: Fragment { buffer, bytes } }),
        }
    }

    #[cold]
    fn send_in_pieces(&mut self, buffer: S::Buf, bytes: u16) -> Result<(), Refused<Fragment<S::Buf>>> {
        match self.enqueue(core::iter::once(Fragment { buffer, bytes }), &TxMeta::default()) {
            Ok(()) => Ok(()),
            Err(mut refused) => match refused.frame.next() {
                Some(frame) => Err(Refused { reason: refused.reason, frame }),
                // Not reached: `Full` draws nothing, and this frame is valid.
                None => Ok(()),
            },
        }
    }

    /// Queues a frame of several buffers in order, or one with offloads. The device gets it at the next
    /// [`flush`](Self::flush).
    ///
    /// Without segmentation, a frame below 60 bytes is padded if its last buffer has room for that.
    ///
    /// If the iterator yields fewer fragments than its `len`, the frame is shorter. Fragments beyond `len`
    /// are not drawn.
    ///
    /// # Errors
    /// The rest of the frame and the reason.
    pub fn enqueue<I>(&mut self, mut fragments: I, meta: &TxMeta) -> Result<(), Refused<I>>
    where
        I: ExactSizeIterator<Item = Fragment<S::Buf>>,
    {
        let count = fragments.len();
        let pattern = match Pattern::new(meta, self.abilities) {
            Ok(pattern) if count > 0 => pattern,
            Ok(_) => return Err(Refused { reason: Refusal::Invalid, frame: fragments }),
            Err(reason) => return Err(Refused { reason, frame: fragments }),
        };
        let (want, segments) = match meta.offload {
            Offload::Segment(s) => (Some(s.payload_bytes + u32::from(s.header_bytes)), true),
            _ => (None, false),
        };
        let sentinel = segments && self.quirks.sentinel;
        let need = self.quirks.need(count, want.unwrap_or(0), pattern.limit)
            + usize::from(pattern.context.is_some())
            + usize::from(sentinel);
        if self.free() < need {
            self.counters.full += 1;
            return Err(Refused { reason: Refusal::Full, frame: fragments });
        }
        let mark = Mark { next: self.next, free: self.free, last: self.last, context: self.context };
        self.write_context(&pattern);
        let first = self.next;
        let mut total = 0;
        let mut valid = true;
        for index in 0..count {
            let Some(Fragment { mut buffer, mut bytes }) = fragments.next() else { break };
            total += u32::from(bytes);
            valid = bytes > 0
                && usize::from(bytes) <= buffer.capacity()
                && total <= want.unwrap_or(desc::LEGACY_MAX_BYTES);
            if !valid {
                self.source.give(buffer);
                break;
            }
            let missing = u32::from(MIN_FRAME_BYTES).saturating_sub(total) as u16;
            if !segments && index + 1 == count && missing > 0 {
                // Without room in the last buffer, the chip pads (TCTL.PSP).
                let end = usize::from(bytes) + usize::from(missing);
                if let Some(padding) = buffer.bytes_mut().get_mut(bytes.into()..end) {
                    padding.fill(0);
                    bytes += missing;
                    total += u32::from(missing);
                }
            }
            self.write_fragment(buffer, bytes, index == 0, &pattern, sentinel && index + 1 == count);
        }
        if !valid || total == 0 || want.is_some_and(|bytes| bytes != total) {
            self.take_back(mark);
            return Err(Refused { reason: Refusal::Invalid, frame: fragments });
        }
        // The frame's last descriptor, known only now.
        let written = self.ring.distance(mark.next, self.next);
        let index = self.ring.before(self.next);
        let report = self.report(index, written);
        if self.abilities.advanced {
            let payload = if let Offload::Segment(s) = meta.offload { s.payload_bytes } else { total };
            self.add_length(first, index, payload);
        }
        self.patch(index, self.last | desc::TX_EOP | report);
        self.counters.frames += 1;
        self.counters.bytes += u64::from(total);
        Ok(())
    }

    /// Writes the context descriptor of a frame, unless the device holds that context.
    fn write_context(&mut self, pattern: &Pattern) {
        let Some(words) = pattern.context else { return };
        if pattern.keeps {
            if self.context == Some(words) {
                return;
            }
            self.context = Some(words);
        }
        self.counters.contexts += 1;
        self.write(words[0], words[1], None);
    }

    /// Puts the length of a frame, which is known at its end, into its first descriptor, an advanced one.
    fn add_length(&mut self, first: usize, last: usize, bytes: u32) {
        if first == last {
            self.last |= advanced::length(bytes);
        } else {
            self.ring.store_second(first, self.ring.status(first) | advanced::length(bytes));
        }
    }

    fn write_fragment(
        &mut self,
        buffer: S::Buf,
        bytes: u16,
        mut first: bool,
        pattern: &Pattern,
        sentinel: bool,
    ) {
        buffer.sync_for_device(bytes.into());
        let mut bus = buffer.bus();
        let mut left = u32::from(bytes);
        loop {
            let mut piece = self.quirks.piece(bus, left, first, pattern.limit);
            if sentinel && piece == left && left > 8 {
                // Checked again: an erratum of PCI-X may forbid an end at this address.
                piece = self.quirks.piece(bus, left - 4, first, pattern.limit);
            }
            let word = pattern.bits | u64::from(piece);
            if piece == left {
                return self.write(bus, word, Some(buffer));
            }
            self.write(bus, word, None);
            bus = bus.wrapping_add(piece.into());
            left -= piece;
            first = false;
        }
    }

    /// Writes the next descriptor.
    #[inline(always)]
    fn write(&mut self, first: u64, second: u64, buffer: Option<S::Buf>) {
        let index = self.next;
        self.ring.store(index, [first, second]);
        if let Some(shadow) = self.buffers.get_mut(index) {
            *shadow = buffer;
        }
        self.last = second;
        self.next = self.ring.after(index);
        self.free -= 1;
    }

    /// Changes the second word of the descriptor written last.
    fn patch(&mut self, index: usize, word: u64) {
        self.last = word;
        self.ring.store_second(index, word);
    }

    /// Undoes the descriptors written since `mark`; their buffers go to the source.
    fn take_back(&mut self, mark: Mark) {
        let mut index = mark.next;
        while index != self.next {
            if let Some(buffer) = self.buffers.get_mut(index).and_then(Option::take) {
                self.source.give(buffer);
            }
            index = self.ring.after(index);
        }
        (self.next, self.free) = (mark.next, mark.free);
        (self.last, self.context) = (mark.last, mark.context);
    }
}

impl<P: Platform, S: BufferSource> Drop for TxQueue<P, S> {
    /// Gives the buffers back to the source. The caller has stopped the device
    /// ([`Control::stop`](crate::Control::stop)).
    fn drop(&mut self) {
        for shadow in self.buffers.iter_mut().chain([&mut self.filler]) {
            if let Some(buffer) = shadow.take() {
                self.source.give(buffer);
            }
        }
    }
}
