//! Received frames: taken in bursts, handed out one by one.

use crate::checksum::{self, Verdict};
use core::array;
use kpps_driver::{Checksum, Received as Part, RxQueue};
use kpps_platform::{Buffer, BufferSource, Platform};

/// Frames taken out of the ring at once. Their descriptors are returned with one tail write.
pub(crate) const BURST: usize = 32;

/// Counts of received frames that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounters {
    /// Frames with a wrong IPv4, TCP or UDP checksum.
    pub bad_checksums: u64,
    /// Fragments of TCP and UDP, whose checksums cannot be checked.
    pub fragments: u64,
    /// Frames longer than a buffer.
    pub too_long: u64,
    /// Frames whose VLAN tag the device has stripped.
    pub tagged: u64,
}

/// A frame whose bytes are in its buffer.
struct Waiting<B> {
    buffer: B,
    bytes: u16,
}

/// The receive queue, and frames that were taken out of it.
pub(crate) struct Receiver<P: Platform, S: BufferSource> {
    pub(crate) queue: RxQueue<P, S>,
    /// Frames `first..count` are waiting.
    waiting: [Option<Waiting<S::Buf>>; BURST],
    first: usize,
    count: usize,
    /// Drop frames with unchecked or wrong checksums.
    check: bool,
    pub(crate) counters: ReceiveCounters,
}

impl<P: Platform, S: BufferSource> Receiver<P, S> {
    pub(crate) fn new(queue: RxQueue<P, S>, check: bool) -> Self {
        let counters = ReceiveCounters::default();
        Self { queue, waiting: array::from_fn(|_| None), first: 0, count: 0, check, counters }
    }

    /// No frame is waiting: the next [`fetch`](Self::fetch) has room for a burst.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.count
    }

    /// Takes a burst out of the ring and refills it.
    pub(crate) fn fetch(&mut self) {
        if !self.is_empty() {
            return;
        }
        (self.first, self.count) = (0, 0);
        let Self { queue, waiting, count, check, counters, .. } = self;
        queue.receive(BURST, |part| {
            if !is_wanted(&part, *check, counters) {
                return Some(part.buffer);
            }
            // Not reached: there is a place for each frame of a burst.
            let Some(place) = waiting.get_mut(*count) else { return Some(part.buffer) };
            *place = Some(Waiting { buffer: part.buffer, bytes: part.bytes });
            *count += 1;
            None
        });
    }
}

impl<P: Platform, S: BufferSource> Drop for Receiver<P, S> {
    fn drop(&mut self) {
        for frame in self.waiting.iter_mut().filter_map(Option::take) {
            self.queue.source_mut().give(frame.buffer);
        }
    }
}

/// Whether the stack gets this frame; if not, `counters` has the reason.
fn is_wanted<B: Buffer>(part: &Part<B>, check: bool, counters: &mut ReceiveCounters) -> bool {
    if !part.first || !part.last || part.error {
        counters.too_long += u64::from(part.last);
        return false;
    }
    if part.vlan().is_some() {
        counters.tagged += 1;
        return false;
    }
    // A card that says "bad" may have misparsed the frame, so software checks it.
    let checked = part.ip_checksum() == Checksum::Good && part.transport_checksum() == Checksum::Good;
    if !check || checked {
        return true;
    }
    let Some(bytes) = part.buffer.bytes().get(..part.bytes.into()) else { return false };
    let counter = match checksum::check(bytes) {
        Verdict::Good => return true,
        Verdict::Bad => &mut counters.bad_checksums,
        Verdict::Fragment => &mut counters.fragments,
    };
    *counter += 1;
    false
}

/// A received frame, to be read with [`consume`](Self::consume). If dropped without that, it is the next one
/// again.
pub struct Received<'a, P: Platform, S: BufferSource>(pub(crate) &'a mut Receiver<P, S>);

impl<P: Platform, S: BufferSource> Received<'_, P, S> {
    /// Calls `look` with the frame, without FCS, in the buffer that the card filled; then frees the buffer.
    pub fn consume<R>(self, look: impl FnOnce(&mut [u8]) -> R) -> R {
        let receiver = self.0;
        let frame = receiver.waiting.get_mut(receiver.first).and_then(Option::take);
        // A `Received` exists only while a frame is waiting.
        let Some(mut frame) = frame else { return look(&mut []) };
        receiver.first += 1;
        let bytes = usize::from(frame.bytes).min(frame.buffer.capacity());
        let result = look(frame.buffer.bytes_mut().get_mut(..bytes).unwrap_or_default());
        receiver.queue.source_mut().give(frame.buffer);
        result
    }
}
