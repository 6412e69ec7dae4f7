//! Frames to send: written into driver buffers, handed to the device in bursts.

use crate::checksum;
use kpps_driver::{Fragment, Offload, Refusal, TxMeta, TxQueue};
use kpps_platform::{Buffer, BufferSource, Platform};

/// The most descriptors of a frame in one buffer: a context, and twice the pieces that errata require.
const DESCRIPTORS: usize = 7;

/// Frames shorter than this are padded, and their checksums are computed in software. That is faster than an
/// offload, and QEMU's 82574 counts the padding as part of the IP packet.
const PADDED_BYTES: usize = 60;

/// Counts of frames that the stack wrote and that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmitCounters {
    /// Frames of 0 bytes, or longer than a buffer (the stack ignores the MTU).
    pub invalid: u64,
    /// Large segments for which the ring had no room.
    pub full: u64,
}

/// The transmit queue, and the buffer for the next frame.
pub(crate) struct Sender<P: Platform, S: BufferSource> {
    pub(crate) queue: TxQueue<P, S>,
    spare: Option<S::Buf>,
    /// Bytes that the spare buffer must hold.
    frame_bytes: usize,
    /// Sent frames are reclaimed when fewer descriptors than this are free.
    low: usize,
    insert: bool,
    pub(crate) counters: TransmitCounters,
}

impl<P: Platform, S: BufferSource> Sender<P, S> {
    pub(crate) fn new(queue: TxQueue<P, S>, frame_bytes: u16, insert: bool) -> Self {
        let low = (queue.free() / 2).max(DESCRIPTORS);
        let counters = TransmitCounters::default();
        Self { queue, spare: None, frame_bytes: frame_bytes.into(), low, insert, counters }
    }

    /// Makes sure that there are a buffer and descriptors for one frame; false if not.
    pub(crate) fn make_room(&mut self) -> bool {
        if self.queue.free() < self.low {
            self.queue.reclaim(usize::MAX);
        }
        if self.queue.free() >= DESCRIPTORS && self.fill_spare() {
            return true;
        }
        // Only flushed frames are sent and reclaimed.
        self.queue.flush();
        self.queue.reclaim(usize::MAX);
        self.queue.free() >= DESCRIPTORS && self.fill_spare()
    }

    fn fill_spare(&mut self) -> bool {
        if self.spare.is_none() {
            let source = self.queue.source_mut();
            match source.take() {
                Some(buffer) if buffer.capacity() >= self.frame_bytes => self.spare = Some(buffer),
                Some(unfit) => source.give(unfit),
                None => {}
            }
        }
        self.spare.is_some()
    }

    /// The capacity of a buffer, in bytes.
    pub(crate) fn buffer_bytes(&mut self) -> usize {
        self.fill_spare();
        self.spare.as_ref().map_or(0, Buffer::capacity)
    }
}

impl<P: Platform, S: BufferSource> Drop for Sender<P, S> {
    fn drop(&mut self) {
        if let Some(buffer) = self.spare.take() {
            self.queue.source_mut().give(buffer);
        }
    }
}

/// Space for a frame. If dropped without [`consume`](Self::consume), nothing is sent.
pub struct Slot<'a, P: Platform, S: BufferSource>(pub(crate) &'a mut Sender<P, S>);

impl<P: Platform, S: BufferSource> Slot<'_, P, S> {
    /// Queues a frame of `bytes` bytes (without FCS) that `write` writes into a buffer of the driver. The
    /// device gets it at the next [`flush`](crate::Endpoint::flush).
    ///
    /// The buffer holds arbitrary bytes at first.
    pub fn consume<R>(self, bytes: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
        self.send(bytes, None, write)
    }

    /// As [`consume`](Self::consume), for a large TCP segment that the device cuts into segments of `mss`
    /// payload bytes. The length in its IP header is ignored.
    pub fn consume_large<R>(self, bytes: usize, mss: u16, write: impl FnOnce(&mut [u8]) -> R) -> R {
        self.send(bytes, Some(mss), write)
    }

    fn send<R>(self, bytes: usize, mss: Option<u16>, write: impl FnOnce(&mut [u8]) -> R) -> R {
        let sender = self.0;
        let mut spare = sender.spare.take();
        let frame = spare.as_mut().and_then(|buffer| buffer.bytes_mut().get_mut(..bytes));
        let (Some(frame), Ok(length)) = (frame, u16::try_from(bytes)) else {
            sender.spare = spare;
            sender.counters.invalid += 1;
            return refuse(bytes, write);
        };
        let result = write(frame);
        let offload = match sender.insert {
            true if bytes < PADDED_BYTES => {
                checksum::fill(frame);
                Offload::None
            }
            true => checksum::prepare(frame, mss),
            false => Offload::None,
        };
        if let Some(buffer) = spare {
            sender.hand_over(Fragment { buffer, bytes: length }, offload);
        }
        result
    }
}

impl<P: Platform, S: BufferSource> Sender<P, S> {
    fn hand_over(&mut self, fragment: Fragment<S::Buf>, offload: Offload) {
        let refused = if offload == Offload::None {
            self.queue.send(fragment.buffer, fragment.bytes).map_err(|r| (r.reason, Some(r.frame)))
        } else {
            let meta = TxMeta { vlan: None, offload };
            self.queue.enqueue(core::iter::once(fragment), &meta).map_err(|mut r| (r.reason, r.frame.next()))
        };
        if let Err((reason, fragment)) = refused {
            self.spare = fragment.map(|fragment| fragment.buffer);
            match reason {
                Refusal::Full => self.counters.full += 1,
                Refusal::Invalid | Refusal::Unsupported => self.counters.invalid += 1,
            }
        }
    }
}

/// Lets a stack that ignores the MTU write its frame into scratch memory, which is dropped.
#[cold]
fn refuse<R>(bytes: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut nowhere = alloc::vec![0; bytes];
    write(&mut nowhere)
}
