//! A queue of a device in each direction: frames are received and sent here.

use crate::adapter::{Adapter, Burst, RawQueue};
use crate::device::Device;
use crate::error::Error;
use crate::start;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// This thread among those that DPDK knows, until it ends: so it has caches of buffers.
struct Entered(&'static Adapter);

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: DPDK has started, and this thread has entered it.
        unsafe { (self.0.leave)() };
    }
}

thread_local! {
    static ENTERED: Option<Entered> = {
        let adapter = start::started().ok();
        // SAFETY: DPDK has started. The call changes nothing if DPDK knows no more threads.
        adapter.filter(|adapter| unsafe { (adapter.enter)() } == 0).map(Entered)
    };
}

/// A number of frames in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Sent(AtomicU64);

/// A queue in each direction, of an open device. The device closes with its last queue.
pub struct Queue {
    adapter: &'static Adapter,
    queue: NonNull<RawQueue>,
    received: NonNull<Burst>,
    sending: NonNull<Burst>,
    /// Bytes of a buffer.
    room: usize,
    number: usize,
    /// Frames that the device has taken from this queue, and from each one.
    sent: u64,
    all_sent: Arc<[Sent]>,
    device: Arc<Device>,
}

// SAFETY: a queue may be used by any thread, one at a time; what it shares with others is `Sync`.
unsafe impl Send for Queue {}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("device", &self.device)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// Opens a device by the name that DPDK's arguments `-a` or `--vdev` take: `0000:3b:00.0`,
/// `net_af_packet0,iface=eth1`, with this number of queues, at least one, in each direction. Returns the
/// queues. Where the device can, it gives all frames of a flow to the same queue. With `promiscuous` it
/// receives frames for any station. Starts DPDK if it does not run.
///
/// # Errors
/// [`Error`]: DPDK is missing or does not start, the device cannot be used, or it has fewer queues.
pub fn open(device: &str, queues: usize, promiscuous: bool) -> Result<Vec<Queue>, Error> {
    let refused = |why: &str| Error::Device { device: device.to_owned(), why: why.into() };
    let count = u16::try_from(queues).ok().filter(|&count| count > 0);
    let count = count.ok_or_else(|| refused("a device has 1 to 65535 queues"))?;
    let opened = Arc::new(Device::open(device, count.into(), promiscuous)?);
    let (adapter, port) = opened.raw();
    let all_sent: Arc<[Sent]> = (0..count).map(|_| Sent::default()).collect();
    let queue = |number: u16| {
        // SAFETY: an open port with more queues than `number`. A queue and its bursts live as long as it is
        // open, and `device` keeps it open.
        let queue = NonNull::new(unsafe { (adapter.queue)(port.as_ptr(), number.into()) })?;
        // SAFETY: a queue of an open port.
        let bursts = unsafe { [(adapter.received)(queue.as_ptr()), (adapter.sending)(queue.as_ptr())] };
        let [received, sending] = bursts.map(NonNull::new);
        Some(Queue {
            adapter,
            queue,
            received: received?,
            sending: sending?,
            room: opened.info().room,
            number: number.into(),
            sent: 0,
            all_sent: all_sent.clone(),
            device: opened.clone(),
        })
    };
    (0..count).map(|number| queue(number).ok_or_else(|| refused("the adapter has no buffers"))).collect()
}

impl Queue {
    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its number; the first has 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Frames that the device has taken from all its queues.
    pub fn sent_by_all(&self) -> u64 {
        self.all_sent.iter().map(|sent| sent.0.load(Ordering::Relaxed)).sum()
    }

    #[inline]
    fn sending(&mut self) -> &mut Burst {
        // SAFETY: the burst lives as long as the device. The adapter uses it only while one of its functions
        // runs, which takes `&mut self`.
        unsafe { self.sending.as_mut() }
    }

    #[inline]
    fn received(&mut self) -> &mut Burst {
        // SAFETY: as in `sending`.
        unsafe { self.received.as_mut() }
    }

    /// Frames that were received and not taken yet.
    #[inline]
    pub fn waiting(&self) -> usize {
        // SAFETY: as in `received`; nobody changes the burst while it is borrowed.
        let burst = unsafe { self.received.as_ref() };
        (burst.filled - burst.first) as usize
    }

    /// Receives a burst, if all earlier frames were taken, and frees the taken ones.
    #[inline]
    pub fn receive(&mut self) {
        ENTERED.with(|_| ());
        // SAFETY: a queue of an open port, whose frames nobody has: `take` lends them to the holder of
        // `&mut self`.
        unsafe { (self.adapter.receive)(self.queue.as_ptr()) };
    }

    /// The next received frame, without FCS; an empty one for a frame that was longer than a buffer.
    #[inline]
    pub fn take(&mut self) -> Option<&[u8]> {
        let burst = self.received();
        if burst.first >= burst.filled {
            return None;
        }
        let slot = burst.slots.get(burst.first as usize)?;
        burst.first += 1;
        // SAFETY: a frame in a buffer that the adapter does not free before the next `receive`, which takes
        // `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(slot.data, slot.bytes as usize) })
    }

    /// Frames that can be queued now.
    #[inline]
    pub fn space(&self) -> usize {
        // SAFETY: as in `sending`; nobody changes the burst while it is borrowed.
        let burst = unsafe { self.sending.as_ref() };
        (burst.end - burst.filled) as usize
    }

    /// Queued frames that the device has not taken.
    #[inline]
    pub fn queued(&self) -> usize {
        // SAFETY: as in `sending`; nobody changes the burst while it is borrowed.
        let burst = unsafe { self.sending.as_ref() };
        (burst.filled - burst.first) as usize
    }

    /// The bytes of these frames, without FCS.
    pub fn queued_bytes(&self) -> u64 {
        // SAFETY: as in `queued`.
        let burst = unsafe { self.sending.as_ref() };
        let slots = burst.slots.get(burst.first as usize..burst.filled as usize).unwrap_or_default();
        slots.iter().map(|slot| u64::from(slot.bytes)).sum()
    }

    /// Queues a copy of a frame without FCS. Returns whether there was space for it.
    #[inline]
    pub fn put(&mut self, frame: &[u8]) -> bool {
        self.put_like(frame, |_| frame.len() as u16, |_| true).is_some()
    }

    /// Queues a frame like this one: `write` changes its copy in the device's buffer, and returns its length
    /// in bytes without FCS. Returns this length; `None` if there was no space for it, or if it does not
    /// `fit`.
    #[inline]
    pub fn put_like(
        &mut self,
        frame: &[u8],
        write: impl FnOnce(&mut [u8]) -> u16,
        fits: impl FnOnce(&[u8]) -> bool,
    ) -> Option<usize> {
        let room = self.room;
        let burst = self.sending();
        if burst.filled >= burst.end || frame.len() > room {
            return None;
        }
        let slot = burst.slots.get_mut(burst.filled as usize)?;
        // SAFETY: the slot's buffer is ours until the adapter has sent it, has `room` bytes, and is no
        // memory of Rust.
        let buffer = unsafe { std::slice::from_raw_parts_mut(slot.data, room) };
        copy(frame, buffer.get_mut(..frame.len())?);
        let bytes = usize::from(write(buffer));
        if !fits(buffer.get(..bytes)?) {
            return None;
        }
        slot.bytes = bytes as u32;
        burst.filled += 1;
        Some(bytes)
    }

    /// Sends the queued frames. Frames that the device does not take stay queued.
    #[inline]
    pub fn send(&mut self) {
        ENTERED.with(|_| ());
        // SAFETY: a queue of an open port; each queued frame was written by `put_like`.
        let sent = unsafe { (self.adapter.send)(self.queue.as_ptr()) };
        self.sent += u64::from(sent);
        if let Some(all) = self.all_sent.get(self.number) {
            all.0.store(self.sent, Ordering::Relaxed);
        }
    }
}

/// Copies a frame into a buffer of the same length. The smallest frames need no call of a function: their
/// halves overlap.
#[inline]
fn copy(frame: &[u8], buffer: &mut [u8]) {
    const HALF: usize = 32;
    match (frame.first_chunk::<HALF>(), frame.last_chunk::<HALF>()) {
        (Some(first), Some(last)) if frame.len() <= 2 * HALF => {
            buffer.first_chunk_mut().into_iter().for_each(|half| *half = *first);
            buffer.last_chunk_mut().into_iter().for_each(|half| *half = *last);
        }
        _ => buffer.copy_from_slice(frame),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_whole() {
        for length in 0..200 {
            let frame: Vec<u8> = (0..length).collect();
            let mut buffer = vec![255; frame.len()];
            copy(&frame, &mut buffer);
            assert_eq!(buffer, frame);
        }
    }
}
