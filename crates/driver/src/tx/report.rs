//! Reports: telling the device, asking it what is done, and taking sent frames back.
//!
//! A frame can only be given back when the device says that it, or a later one, is done (DD), and
//! it says so only of descriptors that ask (RS). `reports` remembers those in order, so that one
//! descriptor is examined for each batch.

use super::{Progress, TxQueue};
use crate::{config::Delay, offload::Checksums};
use core::{
    ops::Range,
    sync::atomic::{Ordering, fence},
};
use kpps_datasheet::desc;
use kpps_platform::{BufferSource, Platform, Registers};

impl<P: Platform, S: BufferSource> TxQueue<P, S> {
    /// The report bits for a frame of `descriptors` whose last one is `index`.
    #[inline]
    pub(super) fn report(&mut self, index: usize, descriptors: usize) -> u64 {
        self.unreported += descriptors;
        if self.unreported < self.report_every {
            return 0;
        }
        self.ask_for_report(index)
    }

    /// The bits that make descriptor `index` report itself and all before it.
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

    /// Tells the device about every frame taken, with one tail write; none if there is no news.
    ///
    /// Unless [attended](Self::attend), the last of them is made to report.
    #[inline]
    pub fn flush(&mut self) {
        if self.told == self.next {
            return;
        }
        if !self.attended && self.unreported > 0 {
            self.report_last();
        }
        self.ring_doorbell();
    }

    #[inline]
    fn ring_doorbell(&mut self) {
        self.told = self.next;
        self.counters.doorbells += 1;
        // The descriptors are in memory before the device hears of them.
        fence(Ordering::Release);
        self.regs.write(self.tail, self.next as u32);
    }

    fn report_last(&mut self) {
        let index = self.ring.before(self.next);
        let report = self.ask_for_report(index);
        self.patch(index, self.last | report);
    }

    /// Promises (or takes the promise back) that the queue will be looked at again without an
    /// interrupt: [`flush`](Self::flush) then leaves the asking to
    /// [`report_every`](crate::config::Completion::report_every), and the promiser calls
    /// [`settle`](Self::settle) or [`settle_if_idle`](Self::settle_if_idle) in time.
    ///
    /// Without effect on the 82542, which has no descriptor that asks and sends nothing.
    #[inline]
    pub fn attend(&mut self, attended: bool) {
        self.attended = attended && self.abilities.checksum;
    }

    /// Makes sure that the device will report everything sent. If frames that it knows have not
    /// asked, a context descriptor that repeats the present one does, at the cost of one tail
    /// write. Returns false if there is no room for that: reclaim first.
    pub fn settle(&mut self) -> bool {
        if self.unreported > 0 {
            if self.told != self.next {
                self.report_last();
            } else if self.free() > 0 {
                let words = self.context.unwrap_or_else(|| Checksums::default().context().pack());
                self.context = Some(words);
                self.counters.nudges += 1;
                let report = self.ask_for_report(self.next);
                self.write(words[0], words[1] | report, None);
            } else {
                return false;
            }
        }
        self.flush();
        true
    }

    /// [`settle`](Self::settle)s if no frame was taken since the last call, unless an earlier report is still to come, which
    /// will be looked for anyway. Called once a poll, it bounds the wait of a frame by one poll.
    #[inline]
    pub fn settle_if_idle(&mut self) {
        let idle = self.seen_frames == self.counters.frames && self.report_count == 0;
        if self.unreported > 0 && idle {
            self.settle();
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
        // Pairs with the device's write of DD; after it the device has finished with the buffers.
        fence(Ordering::Acquire);
        self.report_first = self.ring.after(self.report_first);
        self.report_count -= 1;
        self.done = self.ring.distance(self.clean, index) + 1;
        Some(())
    }

    /// Gives the buffers of sent frames, at most `max`, back to the source; returns how many.
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

    /// Hands the buffers of sent frames, at most `max`, to `keep`; returns how many.
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

    /// Reclaims at most `max` descriptors that are done and stand beside each other; the caller
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

    /// How far the queue has come.
    pub fn progress(&self) -> Progress {
        let waiting = self.done == 0
            && self.report_count > 0
            && self.reports.get(self.report_first).is_some_and(|&index| {
                let told = self.ring.distance(self.clean, self.told);
                self.ring.distance(self.clean, index) < told && self.ring.status(index) & desc::TX_DD == 0
            });
        Progress { reclaimed: self.reclaimed, waiting }
    }
}
