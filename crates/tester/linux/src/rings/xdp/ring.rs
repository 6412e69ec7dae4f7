//! Rings that the kernel and an `AF_XDP` socket share (af_xdp.rst): one side produces, the other consumes.
//!
//! All `unsafe` of the rings is here. It rests on one rule: an entry is the producer's until the producer's
//! index has passed it, and the consumer's from then on until the consumer's index has.

use memmap2::{MmapOptions, MmapRaw};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use std::borrow::Borrow;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// The common part of producer and consumer rings. Tests play the kernel, over memory that both sides have.
#[derive(Debug)]
struct Ring<T, M = MmapRaw> {
    map: M,
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
    /// A ring of a socket.
    fn new(socket: BorrowedFd<'_>, at: u64, offsets: &XdpRingOffset, size: u32) -> io::Result<Self> {
        let map = |length| MmapOptions::new().offset(at).len(length).populate().map_raw(&socket);
        Self::over(map, offsets, size)
    }
}

impl<T: Copy, M: Borrow<MmapRaw>> Ring<T, M> {
    /// A ring in the memory that `map` maps. `map` gets the number of bytes.
    fn over(
        map: impl FnOnce(usize) -> io::Result<M>,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
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
        let map = map(length)?;
        if map.borrow().len() < length {
            return Err(bad());
        }
        Ok(Self { map, producer, consumer, flags, entries, size, ours: 0, theirs: 0, kind: PhantomData })
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: within the mapping and aligned (`new`), and accessed by both sides as one word.
        unsafe { &*self.map.borrow().as_mut_ptr().add(at).cast::<AtomicU32>() }
    }

    #[inline]
    fn entry(&self, index: u32) -> *mut T {
        let at = self.entries + (index & (self.size - 1)) as usize * size_of::<T>();
        // SAFETY: within the mapping, as the index is below `size`.
        unsafe { self.map.borrow().as_mut_ptr().add(at).cast::<T>() }
    }
}

/// A ring that we fill: the fill ring with receive buffers, the transmit ring with frames.
#[derive(Debug)]
pub struct Producer<T, M = MmapRaw>(Ring<T, M>);

impl<T: Copy> Producer<T> {
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        at: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        Ring::new(socket, at, offsets, size).map(Self)
    }
}

impl<T: Copy, M: Borrow<MmapRaw>> Producer<T, M> {
    /// Free entries.
    #[inline]
    pub fn free(&mut self) -> u32 {
        self.0.theirs = self.0.word(self.0.consumer).load(Ordering::Acquire);
        self.0.size - self.0.ours.wrapping_sub(self.0.theirs)
    }

    /// Adds an entry. Returns false if the ring is full. The kernel sees it after [`publish`](Self::publish).
    #[inline]
    pub fn put(&mut self, entry: T) -> bool {
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
    pub fn publish(&self) {
        self.0.word(self.0.producer).store(self.0.ours, Ordering::Release);
    }

    /// Whether the kernel has taken all that was published.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.word(self.0.consumer).load(Ordering::Acquire) == self.0.ours
    }

    /// Whether the kernel processes the ring only after a system call.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.0.word(self.0.flags).load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

/// A ring that the kernel fills: the receive ring with frames, the completion ring with sent frames' buffers.
#[derive(Debug)]
pub struct Consumer<T, M = MmapRaw>(Ring<T, M>);

impl<T: Copy> Consumer<T> {
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        at: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        Ring::new(socket, at, offsets, size).map(Self)
    }
}

impl<T: Copy, M: Borrow<MmapRaw>> Consumer<T, M> {
    /// The next entry, if there is one. [`release`](Self::release) gives its place back.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
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
    pub fn release(&self) {
        self.0.word(self.0.consumer).store(self.0.ours, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use std::thread::{spawn, yield_now};

    /// The kernel writes all of an entry before the index: words of one entry that differ would show it.
    type Entry = [u64; 3];
    const SIZE: u32 = 8;
    const ENTRIES: u64 = if cfg!(miri) { 60 } else { 100_000 };

    fn offsets(at: [u64; 3]) -> XdpRingOffset {
        let [producer, consumer, desc] = at;
        XdpRingOffset { producer, consumer, desc, flags: Some(8) }
    }

    fn ring(map: &Arc<MmapRaw>, index: u32) -> Ring<Entry, Arc<MmapRaw>> {
        let mut ring = Ring::over(|_| Ok(map.clone()), &offsets([0, 4, 16]), SIZE).unwrap();
        (ring.ours, ring.theirs) = (index, index);
        [0, 4].iter().for_each(|&at| ring.word(at).store(index, Ordering::Relaxed));
        ring
    }

    /// Both ends of a ring in the same memory, whose indices begin here: one is ours, one is the kernel's.
    fn ends(index: u32) -> (Producer<Entry, Arc<MmapRaw>>, Consumer<Entry, Arc<MmapRaw>>) {
        let bytes = 16 + SIZE as usize * size_of::<Entry>();
        let map = Arc::new(MmapRaw::from(MmapOptions::new().len(bytes).map_anon().unwrap()));
        (Producer(ring(&map, index)), Consumer(ring(&map, index)))
    }

    /// The indices wrap around in the first entries. Miri sees a race if one side does not wait for the
    /// other.
    #[test]
    fn entries_come_over_whole_and_in_order() {
        let (mut from, mut to) = ends(u32::MAX - 5);
        let producer = spawn(move || {
            for number in 0..ENTRIES {
                while !from.put([number; 3]) {
                    from.publish();
                    yield_now();
                }
                // Several at once, and one by one.
                if number % 7 < 4 {
                    from.publish();
                }
            }
            from.publish();
            while !from.is_empty() {
                yield_now();
            }
            from.free()
        });
        for number in 0..ENTRIES {
            let entry = loop {
                match to.take() {
                    Some(entry) => break entry,
                    None => yield_now(),
                }
            };
            assert_eq!(entry, [number; 3]);
            if number % 3 == 0 || number + 1 == ENTRIES {
                to.release();
            }
        }
        assert_eq!(producer.join().unwrap(), SIZE);
        assert_eq!(to.take(), None);
    }

    #[test]
    fn a_full_ring_takes_no_more_until_entries_are_given_back() {
        let (mut from, mut to) = ends(0);
        assert!((0..SIZE).all(|number| from.put([number.into(); 3])) && !from.put([9; 3]));
        assert_eq!((to.take(), from.free(), from.is_empty()), (None, 0, false), "nothing is published yet");
        from.publish();
        assert_eq!((to.take(), to.take(), from.free()), (Some([0; 3]), Some([1; 3]), 0));
        to.release();
        assert_eq!(
            (from.free(), from.put([8; 3]), from.put([9; 3]), from.put([10; 3])),
            (2, true, true, false)
        );
        from.0.word(8).store(XdpRingFlags::XDP_RING_NEED_WAKEUP.bits(), Ordering::Relaxed);
        assert!(from.needs_wakeup());
    }

    #[test]
    fn a_ring_that_is_not_within_its_memory_is_refused() {
        let map = || MmapOptions::new().len(16 + SIZE as usize * size_of::<Entry>()).map_anon();
        let over = |at, size| {
            Ring::<Entry>::over(|_| map().map(MmapRaw::from), &offsets(at), size)
                .map(|_| ())
                .map_err(|e| e.kind())
        };
        assert_eq!(over([0, 4, 16], SIZE), Ok(()));
        let bad = Err(io::ErrorKind::InvalidData);
        assert_eq!(over([0, 4, 16], 2 * SIZE), bad);
        assert_eq!(over([0, 4, 24], SIZE), bad);
        assert_eq!(over([0, 4, 12], SIZE), bad, "entries that are not aligned");
        assert_eq!(over([2, 4, 16], SIZE), bad);
        assert_eq!(over([0, 4096, 16], SIZE), bad);
        assert_eq!(over([0, 4, 16], 7), bad);
        let old = XdpRingOffset { flags: None, ..offsets([0, 4, 16]) };
        let refused = Ring::<Entry>::over(|_| map().map(MmapRaw::from), &old, SIZE).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }
}
