//! Taking many frames at once.

use super::{Fragment, MAX_FRAME_BYTES, MIN_FRAME_BYTES, Refused, TxQueue, WHOLE};
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

    /// [`send`](Self::send) where it is not the usual thing to do.
    #[inline(never)]
    fn send_one(&mut self, buffer: S::Buf, bytes: u16) -> Result<(), Refused<Fragment<S::Buf>>> {
        self.send(buffer, bytes)
    }
}
