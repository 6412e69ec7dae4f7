//! Packet buffers for several threads, without a lock or an atomic operation per frame.
//!
//! A pool has a fixed number of *slots*. A [`PoolBuffer`] is only a pointer to its slot, so the shadow of a
//! ring is small. A [`BufferPool`] is a handle with its own stack of buffers, which trades with the shared
//! stack in batches.
//!
//! Soundness: a slot lives as long as its pool's [`Shared`], which owns a reference to itself while there is
//! a handle or a buffer outside ([`Home::leave`]).

use super::regions::{Memory, Span};
use super::sync::Mutex;
use crate::{Buffer, BufferSource, DmaSpec, OutOfMemory};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, Weak};

/// A cache line: packet buffers start on one.
const CACHE_LINE: usize = 64;

/// The number of buffers that a handle trades at once with the pool. Its own stack holds twice as many: a
/// burst of 64 frames can come back to a stack of 64 without a trade.
const BATCH: usize = if cfg!(all(test, kpps_loom)) {
    1
} else if cfg!(miri) {
    2
} else {
    64
};

/// In pools with fewer buffers than this, handles have no stacks, because buffers in a stack are missing
/// elsewhere.
const SMALL: usize = if cfg!(any(miri, all(test, kpps_loom))) { 16 * BATCH } else { 512 };

impl Memory {
    /// A pool of `count` buffers of `bytes` each. With `boundary`, none crosses a multiple of it (errata of
    /// the 82545 and 82546, revision 1: 64 KiB).
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is not enough.
    pub fn pool(&self, count: usize, bytes: usize, boundary: Option<u64>) -> Result<BufferPool, OutOfMemory> {
        let spec = DmaSpec { bytes, align: CACHE_LINE, boundary, max_address: u64::MAX };
        let spans = (0..count).map(|_| self.span(spec)).collect::<Result<Vec<_>, _>>()?;
        Ok(BufferPool::new(spans))
    }

    /// A pool of `count` buffers, each the end of a chunk of `chunk` bytes (a power of two) that is aligned
    /// to its own size. The first `headroom` bytes of a chunk, a multiple of a cache line, are the device's
    /// alone (`AF_XDP`).
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is not enough, or a chunk cannot be so.
    pub fn chunks(&self, count: usize, chunk: usize, headroom: usize) -> Result<BufferPool, OutOfMemory> {
        if !chunk.is_power_of_two() || headroom >= chunk || !headroom.is_multiple_of(CACHE_LINE) {
            return Err(OutOfMemory);
        }
        let spec = DmaSpec { bytes: chunk, align: chunk, boundary: None, max_address: u64::MAX };
        let spans =
            (0..count).map(|_| Ok(self.span(spec)?.behind(headroom))).collect::<Result<Vec<_>, _>>()?;
        Ok(BufferPool::new(spans))
    }
}

/// One packet buffer: its memory and its pool.
#[derive(Debug)]
struct Slot {
    span: Span,
    pool: Weak<Shared>,
}

/// The shared part of a pool.
#[derive(Debug)]
struct Shared {
    slots: Box<[Slot]>,
    home: Mutex<Home>,
}

#[derive(Debug)]
struct Home {
    /// Buffers that are neither in a handle's stack nor in use.
    free: Vec<ManuallyDrop<PoolBuffer>>,
    /// The number of handles.
    handles: usize,
    /// Keeps the pool alive while there is a handle or a buffer outside.
    alive: Option<Arc<Shared>>,
}

impl Home {
    /// Call this when a handle or buffer has returned, and drop its result *after* unlocking.
    #[must_use]
    fn leave(&mut self) -> Option<Arc<Shared>> {
        let slots = self.alive.as_ref()?.slots.len();
        if self.handles == 0 && self.free.len() == slots { self.alive.take() } else { None }
    }
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Home) -> T) -> T {
        // A panic leaves nothing half done: pushes and pops change nothing then.
        act(&mut self.home.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A packet buffer of a pool, aligned to a cache line. Dropping it returns it to the pool, more slowly than
/// [`BufferSource::give`].
#[derive(Debug)]
pub struct PoolBuffer(NonNull<Slot>);

// SAFETY: the buffer is the only way to its bytes, and a `Slot` may be shared and sent.
unsafe impl Send for PoolBuffer {}
// SAFETY: as for `Send`; through `&PoolBuffer` bytes can only be read.
unsafe impl Sync for PoolBuffer {}

impl PoolBuffer {
    #[inline]
    fn slot(&self) -> &Slot {
        // SAFETY: the slot lives, and is never written, as long as any buffer of its pool is
        // outside (`Home::leave`), and this one is.
        unsafe { self.0.as_ref() }
    }

    /// Takes the eight bytes before the buffer, and leaves 0 there: what a device or a kernel has written
    /// into the headroom, about the frame. 0 if there is no headroom ([`Memory::chunks`]).
    #[inline]
    pub fn take_word_before(&mut self) -> u64 {
        let span = &self.slot().span;
        if span.hidden() < size_of::<u64>() {
            return 0;
        }
        // SAFETY: the headroom is part of the span, eight bytes at least, and aligned to a cache line, as the
        // buffer is. The device does not write it while it is lent out (contract of `Buffer::bytes`), and
        // `self` is borrowed exclusively.
        unsafe { span.start().cast::<u64>().sub(1).replace(0) }
    }
}

impl Drop for PoolBuffer {
    fn drop(&mut self) {
        let Some(pool) = self.slot().pool.upgrade() else { return };
        let _last = pool.with(|home| {
            home.free.push(ManuallyDrop::new(Self(self.0)));
            home.leave()
        });
    }
}

impl Buffer for PoolBuffer {
    #[inline]
    fn bus(&self) -> u64 {
        self.slot().span.bus()
    }
    #[inline]
    fn capacity(&self) -> usize {
        self.slot().span.bytes()
    }
    #[inline]
    fn bytes(&self) -> &[u8] {
        let span = &self.slot().span;
        // SAFETY: within the mapping and owned by `self`; the device does not write it while
        // it is lent out (contract of `Buffer::bytes`).
        unsafe { std::slice::from_raw_parts(span.start().as_ptr(), span.bytes()) }
    }
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let span = &self.slot().span;
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(span.start().as_ptr(), span.bytes()) }
    }
}

/// A handle to a pool of [`PoolBuffer`]s: last in, first out.
///
/// Each handle may hold up to 128 buffers in its stack (none if the pool has fewer than 512). So a pool
/// should have 128 more buffers for each handle after the first.
#[derive(Debug)]
pub struct BufferPool {
    /// This handle's stack, which never grows beyond its capacity.
    own: Vec<PoolBuffer>,
    shared: Arc<Shared>,
}

impl BufferPool {
    fn new(spans: Vec<Span>) -> Self {
        let shared = Arc::new_cyclic(|pool| Shared {
            slots: spans.into_iter().map(|span| Slot { span, pool: pool.clone() }).collect(),
            home: Mutex::new(Home { free: Vec::new(), handles: 0, alive: None }),
        });
        shared.with(|home| {
            // The lowest address on top, so that neighbours in a ring are neighbours in memory.
            let slots = shared.slots.iter().rev();
            home.free = slots.map(|slot| ManuallyDrop::new(PoolBuffer(NonNull::from(slot)))).collect();
            home.alive = Some(shared.clone());
        });
        Self::handle(shared)
    }

    fn handle(shared: Arc<Shared>) -> Self {
        shared.with(|home| home.handles += 1);
        let own = if shared.slots.len() < SMALL { 0 } else { 2 * BATCH };
        Self { own: Vec::with_capacity(own), shared }
    }

    /// The number of buffers that this handle can take now: its own and the shared ones.
    pub fn available(&self) -> usize {
        self.own.len() + self.shared.with(|home| home.free.len())
    }

    /// The number of buffers of the pool.
    pub fn count(&self) -> usize {
        self.shared.slots.len()
    }

    /// Takes a buffer from the shared stack, and a batch for this handle's stack.
    #[cold]
    #[inline(never)]
    fn fetch(&mut self) -> Option<PoolBuffer> {
        let more = self.own.capacity() / 2;
        self.shared.with(|home| {
            let first = home.free.pop().map(ManuallyDrop::into_inner)?;
            let rest = home.free.len() - more.min(home.free.len());
            self.own.extend(home.free.drain(rest..).map(ManuallyDrop::into_inner));
            Some(first)
        })
    }

    /// Gives `buffer` and all but `keep` of this handle's buffers to the shared stack; those of other pools
    /// go home.
    #[cold]
    #[inline(never)]
    fn spill(&mut self, buffer: Option<PoolBuffer>, keep: usize) {
        let keep = keep.min(self.own.len());
        let ours = Arc::as_ptr(&self.shared);
        let is_ours = |buffer: &PoolBuffer| buffer.slot().pool.as_ptr() == ours;
        // Buffers of other pools are dropped first, so their pool's lock is not taken inside ours.
        let buffer = buffer.filter(is_ours);
        let mut at = keep;
        while let Some(buffer) = self.own.get(at) {
            if is_ours(buffer) {
                at += 1;
            } else {
                drop(self.own.swap_remove(at));
            }
        }
        // There is space for every slot, so nothing is allocated.
        let leaving = self.own.drain(keep..).chain(buffer).map(ManuallyDrop::new);
        self.shared.with(|home| home.free.extend(leaving));
    }
}

impl Clone for BufferPool {
    fn clone(&self) -> Self {
        Self::handle(self.shared.clone())
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        self.spill(None, 0);
        let _last = self.shared.with(|home| {
            home.handles -= 1;
            home.leave()
        });
    }
}

impl BufferSource for BufferPool {
    type Buf = PoolBuffer;

    #[inline]
    fn take(&mut self) -> Option<PoolBuffer> {
        match self.own.pop() {
            Some(buffer) => Some(buffer),
            None => self.fetch(),
        }
    }

    #[inline]
    fn give(&mut self, buffer: PoolBuffer) {
        if self.own.len() == self.own.capacity() {
            self.spill(Some(buffer), BATCH);
        } else {
            self.own.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Buffers of a pool whose handles have stacks. Miri takes a while for each.
    const MANY: usize = if cfg!(miri) { 40 } else { 600 };

    fn memory() -> Memory {
        Memory::private(8 << 20).unwrap()
    }

    /// Whether the whole memory is free again.
    fn whole(memory: &Memory) -> bool {
        memory.pool(1, 7 << 20, None).is_ok()
    }

    #[test]
    fn a_buffer_is_one_pointer() {
        assert_eq!(size_of::<Option<PoolBuffer>>(), size_of::<usize>());
    }

    #[test]
    fn dropped_and_foreign_buffers_return_to_their_pool() {
        let memory = memory();
        let mut pool = memory.pool(MANY, 256, None).unwrap();
        let mut other = memory.pool(MANY, 256, None).unwrap();
        drop(pool.take());
        assert_eq!(pool.available(), MANY);
        for _ in 0..MANY / 6 {
            other.give(pool.take().unwrap());
        }
        drop(other.clone());
        drop(other);
        assert_eq!((pool.available(), pool.count()), (MANY, MANY));
        drop(pool);
        assert!(whole(&memory));
    }

    #[test]
    fn a_chunk_is_aligned_and_comes_back_whole() {
        const CHUNKS: usize = if cfg!(miri) { 40 } else { 512 };
        let memory = Memory::private((1 << 20) + CHUNKS * 2048).unwrap();
        for _ in 0..2 {
            // The whole memory: none is lost when the first pool is dropped.
            let mut pool = memory.chunks(CHUNKS, 2048, 256).unwrap();
            assert!(memory.chunks(1, 2048, 256).is_err());
            let mut all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!(all.len(), CHUNKS);
            for (index, buffer) in all.iter_mut().enumerate() {
                assert_eq!((buffer.capacity(), buffer.bus() % 2048), (2048 - 256, 256));
                buffer.bytes_mut().fill(index as u8);
                let word = 0x0102_0304_0506_0708_u64 + index as u64;
                assert!(memory.device_write(buffer.bus() - 8, &word.to_ne_bytes()));
                assert_eq!([(); 2].map(|()| buffer.take_word_before()), [word, 0]);
            }
            // Miri takes a microsecond for each byte.
            let each = if cfg!(miri) { 500 } else { 1 };
            let whole = |bytes: &[u8], index| bytes.iter().step_by(each).all(|&byte| byte == index as u8);
            assert!(all.iter().enumerate().all(|(index, buffer)| whole(buffer.bytes(), index)));
        }
        for (chunk, headroom) in [(2047, 0), (2048, 2048), (2048, 100)] {
            assert!(memory.chunks(1, chunk, headroom).is_err());
        }
    }

    #[test]
    fn a_buffer_may_outlive_all_handles() {
        let memory = memory();
        for count in [3, MANY] {
            let mut pool = memory.pool(count, 2048, None).unwrap();
            let mut buffer = pool.take().unwrap();
            drop(pool);
            assert!(!whole(&memory));
            buffer.bytes_mut()[2047] = 1;
            let elsewhere = std::thread::spawn(move || buffer.bytes()[2047]);
            assert_eq!(elsewhere.join().unwrap(), 1);
            assert!(whole(&memory));
        }
    }

    /// One handle can take all buffers of a small pool, whatever other handles there are.
    #[test]
    fn small_pools_have_no_stacks() {
        let mut pool = memory().pool(8, 256, None).unwrap();
        let mut other = pool.clone();
        other.give(pool.take().unwrap());
        let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 8);
        assert!(other.take().is_none());
    }

    #[test]
    fn buffers_travel_between_threads() {
        let memory = memory();
        let mut pool = memory.pool(2 * MANY, 256, None).unwrap();
        let mut far = pool.clone();
        let (to, from) = std::sync::mpsc::sync_channel(64);
        let thread = std::thread::spawn(move || {
            let mut sum = 0;
            for buffer in from {
                let buffer: PoolBuffer = buffer;
                sum += u64::from(buffer.bytes()[0]);
                far.give(buffer);
            }
            sum
        });
        let mut sum = 0;
        for value in 0..if cfg!(miri) { 200 } else { 20_000_u32 } {
            let mut buffer = std::iter::repeat_with(|| pool.take()).flatten().next().unwrap();
            buffer.bytes_mut()[0] = value as u8;
            sum += u64::from(value as u8);
            to.send(buffer).unwrap();
        }
        drop(to);
        assert_eq!(thread.join().unwrap(), sum);
        assert_eq!(pool.available(), 2 * MANY);
        drop(pool);
        assert!(whole(&memory));
    }

    proptest! {
        /// For any use of handles: no buffer is out twice, none is lost, and all memory is freed.
        #[test]
        fn none_twice_none_lost(
            count in 1_usize..MANY + 100, acts in prop::collection::vec((0_usize..3, 0_u8..4, 1_usize..80), 0..60),
        ) {
            let memory = memory();
            let first = memory.pool(count, 512, None).unwrap();
            let mut handles = vec![first.clone(), first.clone(), first];
            let mut out: Vec<PoolBuffer> = Vec::new();
            for (handle, act, times) in acts {
                match act {
                    0 | 1 => out.extend((0..times).map_while(|_| handles[handle].take())),
                    2 => for _ in 0..times.min(out.len()) {
                        let at = times % out.len();
                        handles[handle].give(out.swap_remove(at));
                    },
                    _ => {
                        handles[handle] = handles[(handle + 1) % 3].clone();
                        out.truncate(out.len().saturating_sub(times));
                    }
                }
                let different: HashSet<_> = out.iter().map(Buffer::bus).collect();
                prop_assert_eq!(different.len(), out.len());
                prop_assert!(handles.iter().all(|h| h.available() + out.len() <= count));
            }
            out.extend(handles.iter_mut().flat_map(|h| std::iter::from_fn(|| h.take()).collect::<Vec<_>>()));
            prop_assert_eq!(out.len(), count);
            drop(handles);
            drop(out);
            prop_assert!(whole(&memory));
        }
    }
}

/// All orders in which threads may see each other's writes: `make loom`.
#[cfg(all(test, kpps_loom))]
mod orders {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    /// A pool in which handles have stacks.
    const BUFFERS: usize = SMALL;
    const BYTES: usize = 64;

    fn pool() -> (Memory, BufferPool) {
        let memory = Memory::private((1 << 20) + BUFFERS * BYTES).unwrap();
        let pool = memory.pool(BUFFERS, BYTES, None).unwrap();
        (memory, pool)
    }

    /// Takes some buffers at once, and counts each: a lost count was of a buffer that two had at once, or
    /// whose former owner's writes the next one does not see.
    fn use_some(pool: &mut BufferPool, uses: &[AtomicUsize]) {
        let buffers: Vec<_> = (0..3).filter_map(|_| pool.take()).collect();
        for buffer in &buffers {
            let place = &uses[buffer.bus() as usize / BYTES % BUFFERS];
            place.store(place.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let mut buffers = buffers.into_iter();
        drop(buffers.next());
        buffers.for_each(|buffer| pool.give(buffer));
    }

    #[test]
    fn no_buffer_has_two_owners_and_none_is_lost() {
        loom::model(|| {
            let (_memory, mut pool) = pool();
            let uses: Arc<Vec<_>> = Arc::new((0..BUFFERS).map(|_| AtomicUsize::new(0)).collect());
            let (mut far, far_uses) = (pool.clone(), uses.clone());
            let thread = thread::spawn(move || use_some(&mut far, &far_uses));
            use_some(&mut pool, &uses);
            thread.join().unwrap();
            assert_eq!(uses.iter().map(|uses| uses.load(Ordering::Relaxed)).sum::<usize>(), 6);
            assert_eq!(pool.available(), BUFFERS);
        });
    }

    /// Handle or buffer: whoever is last frees the memory, once.
    #[test]
    fn the_last_one_frees_the_memory() {
        loom::model(|| {
            let (memory, mut pool) = pool();
            let [kept, other] = [(); 2].map(|()| pool.take().unwrap());
            let mut far = pool.clone();
            let thread = thread::spawn(move || {
                far.give(other);
                drop(far);
            });
            drop(pool);
            drop(kept);
            thread.join().unwrap();
            assert!(memory.pool(BUFFERS, BYTES, None).is_ok());
        });
    }
}
