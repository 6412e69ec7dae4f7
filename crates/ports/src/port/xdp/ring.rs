//! Rings that the kernel and an `AF_XDP` socket share (af_xdp.rst): one side produces, the other consumes.
//!
//! All `unsafe` of the rings is here. It rests on one rule: an entry is the producer's until the producer's
//! index has passed it, and the consumer's from then on until the consumer's index has.

use memmap2::{MmapOptions, MmapRaw};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// The common part of producer and consumer rings.
#[derive(Debug)]
struct Ring<T> {
    map: MmapRaw,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    /// Their number, a power of two.
    size: u32,
    /// Our index. The kernel may not know it yet.
    ours: u32,
    /// The kernel's index when it was last read.
    theirs: u32,
    kind: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn new(socket: BorrowedFd<'_>, at: u64, offsets: &XdpRingOffset, size: u32) -> io::Result<Self> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        // A kernel before 5.4 has no flags.
        let flags = offsets.flags.ok_or(io::ErrorKind::Unsupported)?;
        let [producer, consumer, flags, entries] =
            [offsets.producer, offsets.consumer, flags, offsets.desc].map(|offset| offset as usize);
        let length = entries + size as usize * size_of::<T>();
        let words_fit = [producer, consumer, flags].iter().all(|at| at % 4 == 0 && at + 4 <= length);
        if !words_fit || entries % align_of::<T>() != 0 || !size.is_power_of_two() {
            return Err(bad());
        }
        let map = MmapOptions::new().offset(at).len(length).populate().map_raw(&socket)?;
        Ok(Self { map, producer, consumer, flags, entries, size, ours: 0, theirs: 0, kind: PhantomData })
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: within the mapping and aligned (`new`), and accessed by both sides as one word.
        unsafe { &*self.map.as_mut_ptr().add(at).cast::<AtomicU32>() }
    }

    #[inline]
    fn entry(&self, index: u32) -> *mut T {
        let at = self.entries + (index & (self.size - 1)) as usize * size_of::<T>();
        // SAFETY: within the mapping, as the index is below `size`.
        unsafe { self.map.as_mut_ptr().add(at).cast::<T>() }
    }
}

/// A ring that we fill: the fill ring with receive buffers, the transmit ring with frames.
#[derive(Debug)]
pub(super) struct Producer<T>(Ring<T>);

impl<T: Copy> Producer<T> {
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        at: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        Ring::new(socket, at, offsets, size).map(Self)
    }

    /// Free entries.
    #[inline]
    pub(super) fn free(&mut self) -> u32 {
        self.0.theirs = self.0.word(self.0.consumer).load(Ordering::Acquire);
        self.0.size - self.0.ours.wrapping_sub(self.0.theirs)
    }

    /// Adds an entry. Returns false if the ring is full. The kernel sees it after [`publish`](Self::publish).
    #[inline]
    pub(super) fn put(&mut self, entry: T) -> bool {
        let ring = &mut self.0;
        if ring.ours.wrapping_sub(ring.theirs) >= ring.size && self.free() == 0 {
            return false;
        }
        let ring = &mut self.0;
        // SAFETY: the entry is ours, and aligned (`new`).
        unsafe { ring.entry(ring.ours).write(entry) };
        ring.ours = ring.ours.wrapping_add(1);
        true
    }

    /// Shows the added entries to the kernel.
    #[inline]
    pub(super) fn publish(&self) {
        self.0.word(self.0.producer).store(self.0.ours, Ordering::Release);
    }

    /// Whether the kernel has taken all that was published.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.word(self.0.consumer).load(Ordering::Acquire) == self.0.ours
    }

    /// Whether the kernel processes the ring only after a system call.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.0.word(self.0.flags).load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

/// A ring that the kernel fills: the receive ring with frames, the completion ring with sent frames' buffers.
#[derive(Debug)]
pub(super) struct Consumer<T>(Ring<T>);

impl<T: Copy> Consumer<T> {
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        at: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        Ring::new(socket, at, offsets, size).map(Self)
    }

    /// The next entry, if there is one. [`release`](Self::release) gives its place back.
    #[inline]
    pub(super) fn take(&mut self) -> Option<T> {
        let ring = &mut self.0;
        if ring.ours == ring.theirs {
            ring.theirs = ring.word(ring.producer).load(Ordering::Acquire);
            if ring.ours == ring.theirs {
                return None;
            }
        }
        // SAFETY: the entry is ours, written by the kernel, and aligned (`new`).
        let entry = unsafe { ring.entry(ring.ours).read() };
        ring.ours = ring.ours.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of taken entries back to the kernel.
    #[inline]
    pub(super) fn release(&self) {
        self.0.word(self.0.consumer).store(self.0.ours, Ordering::Release);
    }
}
