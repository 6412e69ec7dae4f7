//! Taking many frames at once.

use super::{Fragment, MAX_FRAME_BYTES, MIN_FRAME_BYTES, Refused, TxQueue, WHOLE};
use core::cell::Cell;
use kpps_platform::{Buffer, BufferSource, Platform};

impl<P: Platform, S: BufferSource> TxQueue<P, S> {
    /// Takes frames of one buffer each, until there is no more room or no more frame, and returns
    /// how many it took: as [`send`](Self::send) one by one, but at half the cost. A frame is drawn
    /// from the iterator only when there is room for it.
    ///
    /// # Errors
    /// The frame that was refused, and why; those before it are taken.
    #[inline]
    pub fn send_burst(
        &mut self,
        frames: &mut impl Iterator<Item = Fragment<S::Buf>>,
    ) -> Result<usize, Refused<Fragment<S::Buf>>> {
        let before = self.counters.frames;
        while self.free > 0 {
            // As far as no frame asks for a report and the ring goes straight on.
            let reportless = if self.quirks.any() { 0 } else { self.report_every - self.unreported - 1 };
            let limit = self.free.min(reportless).min(self.ring.size() - self.next);
            let (mut count, mut sum, mut last, mut odd) = (0, 0, self.last, None);
            let run = self.next..self.next + limit;
            let pairs = self.ring.pairs().get(run.clone()).unwrap_or_default();
            let shadows = self.buffers.get_mut(run.clone()).unwrap_or_default();
            for (pair, shadow) in pairs.iter().zip(shadows) {
                odd = frames.next();
                let Some(Fragment { buffer, bytes }) = odd.take_if(|frame| {
                    (MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&frame.bytes)
                        && frame.buffer.capacity() >= frame.bytes.into()
                }) else {
                    break;
                };
                buffer.sync_for_device(bytes.into());
                last = u64::from(bytes) | WHOLE;
                self.ring.store_in(pair, run.start + count, [buffer.bus(), last]);
                *shadow = Some(buffer);
                sum += u64::from(bytes);
                count += 1;
            }
            self.next = if run.start + count == self.ring.size() { 0 } else { run.start + count };
            self.free -= count;
            self.unreported += count;
            self.last = last;
            self.counters.frames += count as u64;
            self.counters.bytes += sum;
            // One that asks for a report, or is not as most are; or there is none.
            if self.free == 0 && odd.is_none() {
                break;
            }
            let next = if odd.is_some() || count < limit { odd } else { frames.next() };
            let Some(Fragment { buffer, bytes }) = next else { break };
            self.send_one(buffer, bytes)?;
        }
        Ok((self.counters.frames - before) as usize)
    }

    /// Sends at most `most` frames in the buffers of frames that are sent, oldest first: `write` puts the next one into
    /// such a buffer and returns its length in bytes without FCS. Returns how many it took; fewer when the device has
    /// not reported enough, or at a buffer whose frame cannot be sent (a length below 60 or beyond the buffer), which goes to the
    /// source.
    ///
    /// A buffer goes straight from the slot that it was sent from to the one that it is sent from next, past
    /// the source: what a generator of frames wants.
    #[inline]
    pub fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut S::Buf) -> u16) -> usize {
        let mut sent = 0;
        // Where frames may have to be split this is not worth another path.
        while sent < most && !self.quirks.any() {
            if self.done == 0 && self.look_for_report().is_none() {
                break;
            }
            let size = self.ring.size();
            let (from, to) = (self.clean, self.next);
            let run = self.done.min(most - sent).min(self.report_every - self.unreported);
            let run = run.min(size - from).min(size - to);
            let shadows = Cell::from_mut(&mut self.buffers[..]).as_slice_of_cells();
            let (mut taken, mut count, mut sum, mut last, mut unfit) = (0, 0, 0, self.last, None);
            let slots = shadows.get(from..from + run).unwrap_or_default();
            let places = shadows.get(to..to + run).unwrap_or_default();
            let pairs = self.ring.pairs().get(to..to + run).unwrap_or_default();
            for ((slot, place), pair) in slots.iter().zip(places).zip(pairs) {
                taken += 1;
                // A descriptor without a buffer was a context, or a part of a frame.
                let Some(mut buffer) = slot.take() else { break };
                let bytes = write(&mut buffer);
                if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&bytes) || buffer.capacity() < bytes.into() {
                    unfit = Some(buffer);
                    break;
                }
                buffer.sync_for_device(bytes.into());
                last = u64::from(bytes) | WHOLE;
                self.ring.store_in(pair, to + count, [buffer.bus(), last]);
                place.set(Some(buffer));
                sum += u64::from(bytes);
                count += 1;
            }
            self.clean = if from + taken == size { 0 } else { from + taken };
            self.done -= taken;
            self.reclaimed = self.reclaimed.wrapping_add(taken as u32);
            self.next = if to + count == size { 0 } else { to + count };
            self.free += taken - count;
            self.last = last;
            self.counters.frames += count as u64;
            self.counters.bytes += sum;
            if count > 0 {
                let index = self.ring.before(self.next);
                let report = self.report(index, count);
                if report != 0 {
                    self.patch(index, self.last | report);
                }
            }
            sent += count;
            if let Some(buffer) = unfit {
                self.source.give(buffer);
                break;
            }
        }
        sent
    }

    /// [`send`](Self::send) where it is not the usual thing to do.
    #[inline(never)]
    fn send_one(&mut self, buffer: S::Buf, bytes: u16) -> Result<(), Refused<Fragment<S::Buf>>> {
        self.send(buffer, bytes)
    }
}
