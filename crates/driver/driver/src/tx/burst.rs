//! Sending many frames in one call.

use super::{Advanced, Fragment, Layout, Legacy, MAX_FRAME_BYTES, MIN_FRAME_BYTES, Refused, TxQueue};
use core::cell::Cell;
use kpps_platform::{Buffer, BufferSource, Platform};

impl<P: Platform, S: BufferSource> TxQueue<P, S> {
    /// Queues frames of one buffer each until the ring or the iterator is exhausted, and returns how many.
    /// Does the same as [`send`](Self::send) for each frame, at half the cost. A frame is drawn from the
    /// iterator only when there is room for it.
    ///
    /// # Errors
    /// The refused frame and the reason; the frames before it are queued.
    #[inline]
    pub fn send_burst(
        &mut self,
        frames: &mut impl Iterator<Item = Fragment<S::Buf>>,
    ) -> Result<usize, Refused<Fragment<S::Buf>>> {
        if self.abilities.advanced {
            self.send_burst_as::<Advanced>(frames)
        } else {
            self.send_burst_as::<Legacy>(frames)
        }
    }

    /// [`send_burst`](Self::send_burst) in this layout.
    #[inline]
    fn send_burst_as<L: Layout>(
        &mut self,
        frames: &mut impl Iterator<Item = Fragment<S::Buf>>,
    ) -> Result<usize, Refused<Fragment<S::Buf>>> {
        let before = self.counters.frames;
        while self.free > 0 {
            // A run has no frame that asks for a report, and does not wrap around the ring.
            let reportless = if self.quirks.split() { 0 } else { self.report_every - self.unreported - 1 };
            let limit = self.free.min(reportless).min(self.ring.size() - self.next);
            let (mut count, mut sum, mut last) = (0, 0, self.last);
            let (mut unusual, mut over) = (None, false);
            let run = self.next..self.next + limit;
            let pairs = self.ring.pairs().get(run.clone()).unwrap_or_default();
            let shadows = self.buffers.get_mut(run.clone()).unwrap_or_default();
            for (pair, shadow) in pairs.iter().zip(shadows) {
                let Some(Fragment { buffer, bytes }) = frames.next() else {
                    over = true;
                    break;
                };
                if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&bytes) || buffer.capacity() < bytes.into() {
                    unusual = Some(Fragment { buffer, bytes });
                    break;
                }
                buffer.sync_for_device(bytes.into());
                last = L::whole(bytes);
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
            // The next frame asks for a report or needs a check; or there is none.
            if over || self.free == 0 && unusual.is_none() {
                break;
            }
            let Some(Fragment { buffer, bytes }) = unusual.or_else(|| frames.next()) else { break };
            self.send_one(buffer, bytes)?;
        }
        Ok((self.counters.frames - before) as usize)
    }

    /// Queues at most `most` frames in buffers of sent frames, oldest first. `write` puts the next frame into
    /// such a buffer and returns its length in bytes without FCS. Returns how many frames were queued. There
    /// are fewer when the device has not reported enough, or when a frame cannot be sent (shorter than 60
    /// bytes or longer than its buffer); the buffer of such a frame goes to the source.
    ///
    /// Buffers bypass the source: they go straight from the slot that was sent to the next slot to send. This
    /// is for traffic generators.
    #[inline]
    pub fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut S::Buf) -> u16) -> usize {
        if self.abilities.advanced {
            self.send_again_as::<Advanced>(most, &mut write)
        } else {
            self.send_again_as::<Legacy>(most, &mut write)
        }
    }

    /// [`send_again`](Self::send_again) in this layout.
    #[inline]
    fn send_again_as<L: Layout>(&mut self, most: usize, write: &mut impl FnMut(&mut S::Buf) -> u16) -> usize {
        let mut sent = 0;
        // Chips whose errata split frames get no path of their own.
        while sent < most && !self.quirks.split() {
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
                // A descriptor without a buffer was a context, or not the last of its frame.
                let Some(mut buffer) = slot.take() else { break };
                let bytes = write(&mut buffer);
                if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&bytes) || buffer.capacity() < bytes.into() {
                    unfit = Some(buffer);
                    break;
                }
                buffer.sync_for_device(bytes.into());
                last = L::whole(bytes);
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

    /// [`send`](Self::send), out of line.
    #[inline(never)]
    fn send_one(&mut self, buffer: S::Buf, bytes: u16) -> Result<(), Refused<Fragment<S::Buf>>> {
        self.send(buffer, bytes)
    }
}
