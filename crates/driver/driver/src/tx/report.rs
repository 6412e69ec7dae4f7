//! Tail writes, reports of sent frames, and reclaiming their buffers.
//!
//! A buffer can be reclaimed when the device has reported (DD) its frame or a later one. The device reports
//! only descriptors that ask for it (RS). `reports` holds their indices in order, so one descriptor is
//! examined for each batch.

use super::{Progress, TxQueue};
use crate::{config::Delay, offload::Checksums};
use core::{
    ops::Range,
    sync::atomic::{Ordering, fence},
};
use kpps_datasheet::desc;
use kpps_platform::{BufferSource, Platform, Registers};

impl<P: Platform, S: BufferSource> TxQueue<P, S> {
    /// The report bits for a frame of `descriptors` descriptors; `index` is the last.
    #[inline]
    pub(super) fn report(&mut self, index: usize, descriptors: usize) -> u64 {
        self.unreported += descriptors;
        if self.unreported < self.report_every {
            return 0;
        }
        self.ask_for_report(index)
    }

    /// The bits with which descriptor `index` asks for a report of itself and all before it.
    #[inline]
    fn ask_for_report(&mut self, index: usize) -> u64 {
        let end = self.report_first + self.report_count;
        let size = self.ring.size();
        if let Some(slot) = self.reports.get_mut(if end >= size { end - size } else { end }) {
            *slot = index;
        }
        self.report_count += 1;
        self.unreported = 0;
        let delayed = match self.delay {
            Delay::Never => false,
            Delay::Always => true,
            Delay::ExceptEvery(n) => {
                self.reports_delayed += 1;
                if self.reports_delayed >= n {
                    self.reports_delayed = 0;
                }
                self.reports_delayed != 0
            }
        };
        if delayed { desc::TX_RS | desc::TX_IDE } else { desc::TX_RS }
    }

    /// Hands every queued frame to the device with one tail write; without a new frame, nothing is written.
    ///
    /// The last frame asks for a report, unless the queue is [polled](Self::set_polled).
    #[inline]
    pub fn flush(&mut self) {
        if self.tail_written == self.next {
            return;
        }
        if !self.polled && self.unreported > 0 {
            self.report_last();
        }
        self.ring_doorbell();
    }

    #[inline]
    fn ring_doorbell(&mut self) {
        self.tail_written = self.next;
        self.counters.doorbells += 1;
        // The descriptors are in memory before the device sees the new tail.
        fence(Ordering::Release);
        self.regs.write(self.tail, self.next as u32);
    }

    fn report_last(&mut self) {
        let index = self.ring.before(self.next);
        let report = self.ask_for_report(index);
        self.patch(index, self.last | report);
    }

    /// Says whether the queue is polled without interrupts. If so, [`flush`](Self::flush) adds no request for
    /// a report; only [`report_every`](crate::config::Completion::report_every) does. The caller must then
    /// call [`request_report`](Self::request_report) or
    /// [`request_report_if_idle`](Self::request_report_if_idle) in time.
    ///
    /// No effect on the 82542 and the 82576, which have no descriptor that asks for a report and sends
    /// nothing.
    #[inline]
    pub fn set_polled(&mut self, polled: bool) {
        self.polled = polled && self.abilities.checksum && !self.abilities.advanced;
    }

    /// Makes sure that the device will report every queued frame. If the device already has the last frame
    /// without a request, a context descriptor that repeats the present context asks instead, which costs one
    /// tail write. Returns false if the ring has no room for that: reclaim first.
    pub fn request_report(&mut self) -> bool {
        if self.unreported > 0 {
            if self.tail_written != self.next {
                self.report_last();
            } else if self.free() > 0 && !self.abilities.advanced {
                let words = self.context.unwrap_or_else(|| Checksums::default().context().pack());
                self.context = Some(words);
                self.counters.report_requests += 1;
                let report = self.ask_for_report(self.next);
                self.write(words[0], words[1] | report, None);
            } else {
                return false;
            }
        }
        self.flush();
        true
    }

    /// [`request_report`](Self::request_report) if no frame was queued since the last call and no report is
    /// outstanding. Called in each poll, it bounds the wait of a sent frame by one poll.
    #[inline]
    pub fn request_report_if_idle(&mut self) {
        let idle = self.seen_frames == self.counters.frames && self.report_count == 0;
        if self.unreported > 0 && idle {
            self.request_report();
        }
        self.seen_frames = self.counters.frames;
    }

    /// Examines the oldest report.
    #[inline]
    pub(super) fn look_for_report(&mut self) -> Option<()> {
        if self.report_count == 0 {
            return None;
        }
        let index = *self.reports.get(self.report_first)?;
        if self.ring.status(index) & desc::TX_DD == 0 {
            return None;
        }
        // Pairs with the device's write of DD: from then on the device does not use the buffers.
        fence(Ordering::Acquire);
        self.report_first = self.ring.after(self.report_first);
        self.report_count -= 1;
        self.done = self.ring.distance(self.clean, index) + 1;
        Some(())
    }

    /// Gives at most `max` buffers of sent frames back to the source; returns how many.
    #[inline]
    pub fn reclaim(&mut self, max: usize) -> usize {
        let mut count = 0;
        while let Some(batch) = self.next_batch(max - count) {
            for slot in self.buffers.get_mut(batch).unwrap_or_default() {
                if let Some(buffer) = slot.take() {
                    self.source.give(buffer);
                    count += 1;
                }
            }
        }
        count
    }

    /// Gives at most `max` buffers of sent frames to `keep`; returns how many.
    #[inline]
    pub fn reclaim_with(&mut self, max: usize, mut keep: impl FnMut(S::Buf)) -> usize {
        let mut count = 0;
        while let Some(batch) = self.next_batch(max - count) {
            for slot in self.buffers.get_mut(batch).unwrap_or_default() {
                if let Some(buffer) = slot.take() {
                    keep(buffer);
                    count += 1;
                }
            }
        }
        count
    }

    /// Reclaims a run of at most `max` reported descriptors that does not wrap around the ring. The caller
    /// takes their buffers.
    #[inline]
    fn next_batch(&mut self, max: usize) -> Option<Range<usize>> {
        if max == 0 {
            return None;
        }
        if self.done == 0 {
            self.look_for_report()?;
        }
        let start = self.clean;
        let count = self.done.min(max).min(self.ring.size() - start);
        let end = start + count;
        self.clean = if end == self.ring.size() { 0 } else { end };
        self.done -= count;
        self.free += count;
        self.reclaimed = self.reclaimed.wrapping_add(count as u32);
        Some(start..end)
    }

    /// The [`progress`](Self::progress), for the [watchdog](crate::Control::watchdog). The next frame whose
    /// checksums the device computes brings its context again: a device whose head has jumped may have missed
    /// it. All such frames would leave with wrong checksums, and be reported as sent.
    pub fn look_after(&mut self) -> Progress {
        self.context = None;
        self.progress()
    }

    /// The progress of the queue. It reads each report that was not reclaimed yet: a user may reclaim late.
    pub fn progress(&self) -> Progress {
        let known = self.ring.distance(self.clean, self.tail_written);
        let (mut done, mut waiting) = (self.done, false);
        for nth in 0..self.report_count {
            let Some(&index) = self.reports.get((self.report_first + nth) % self.ring.size()) else { break };
            let ahead = self.ring.distance(self.clean, index);
            if ahead >= known {
                break;
            }
            if self.ring.status(index) & desc::TX_DD == 0 {
                waiting = true;
                break;
            }
            done = ahead + 1;
        }
        Progress { reported: self.reclaimed.wrapping_add(done as u32), waiting }
    }
}
