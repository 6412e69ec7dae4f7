//! Memory: the heap, packet buffers, and memory that the guest shares with the card. Addresses are physical,
//! and the card sees the same ones.

use alloc::alloc::{alloc_zeroed, handle_alloc_error};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::RefCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use kpps_platform::{Buffer, BufferSource, DmaMemory};

unsafe extern "C" {
    static heap_start: AtomicU8;
    static heap_end: AtomicU8;
}

/// The heap: the memory after the image, taken from its beginning on. Nothing is given back, because a guest
/// runs once, and its packet paths do not allocate.
struct Heap(AtomicUsize);

#[global_allocator]
static HEAP: Heap = Heap(AtomicUsize::new(0));

// SAFETY: each allocation is aligned, lies between the two symbols of the linker script, where nothing else
// is, and behind all earlier ones.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = (&raw const heap_start).cast_mut().cast::<u8>();
        let size = (&raw const heap_end).addr() - start.addr();
        let at = (start.addr() + self.0.load(Relaxed)).next_multiple_of(layout.align()) - start.addr();
        if layout.size() > size - at.min(size) {
            return null_mut();
        }
        // There is one processor, and no interrupt handler allocates.
        self.0.store(at + layout.size(), Relaxed);
        // SAFETY: `at` is within the heap.
        unsafe { start.add(at) }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Memory of `bytes` bytes at a multiple of `align`, cleared.
fn cleared(bytes: usize, align: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(bytes.max(8), align.max(8)) else {
        panic!("no memory can have that size")
    };
    // SAFETY: the size is not 0.
    let at = unsafe { alloc_zeroed(layout) };
    if at.is_null() {
        handle_alloc_error(layout)
    }
    at
}

/// Memory that the card writes at any time: words, by their offset in bytes.
#[derive(Clone, Copy)]
pub struct Shared(&'static [AtomicU64]);

impl Shared {
    /// `bytes` bytes of it, a multiple of 8, at a multiple of `align`.
    pub fn allocate(bytes: usize, align: usize) -> Self {
        // SAFETY: the memory is this long and aligned, cleared words are valid, and it is never given back.
        Self(unsafe { core::slice::from_raw_parts(cleared(bytes, align).cast(), bytes / 8) })
    }

    /// The word at `offset`.
    pub fn load(self, offset: usize) -> u64 {
        u64::from_le(self.0[offset / 8].load(Relaxed))
    }

    /// Changes the word at `offset`.
    pub fn store(self, offset: usize, value: u64) {
        self.0[offset / 8].store(value.to_le(), Relaxed);
    }

    /// Copies from `offset`, a multiple of 8, on.
    pub fn read(self, offset: usize, into: &mut [u8]) {
        for (bytes, word) in into.chunks_mut(8).zip(&self.0[offset / 8..]) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..bytes.len()]);
        }
    }

    /// Copies to `offset`, a multiple of 8, on; fills the last word with zeros.
    pub fn write(self, offset: usize, from: &[u8]) {
        for (bytes, word) in from.chunks(8).zip(&self.0[offset / 8..]) {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(all), Relaxed);
        }
    }
}

impl DmaMemory for Shared {
    fn bus(&self) -> u64 {
        self.0.as_ptr().addr() as u64
    }
    fn words(&self) -> &[AtomicU64] {
        self.0
    }
}

/// A packet buffer.
pub struct Packet(&'static mut [u8]);

impl Buffer for Packet {
    fn bus(&self) -> u64 {
        self.0.as_ptr().addr() as u64
    }
    fn capacity(&self) -> usize {
        self.0.len()
    }
    fn bytes(&self) -> &[u8] {
        self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

/// The packet buffers that nothing uses now.
#[derive(Clone)]
pub struct Pool(Rc<RefCell<Vec<Packet>>>);

impl Pool {
    /// `count` buffers of `bytes` bytes, a power of two.
    pub fn new(count: usize, bytes: usize) -> Self {
        // SAFETY: each memory is this long, nothing else uses it, and it is never given back.
        let packet = |_| Packet(unsafe { core::slice::from_raw_parts_mut(cleared(bytes, bytes), bytes) });
        Self(Rc::new(RefCell::new((0..count).map(packet).collect())))
    }
}

impl BufferSource for Pool {
    type Buf = Packet;
    fn take(&mut self) -> Option<Packet> {
        self.0.borrow_mut().pop()
    }
    fn give(&mut self, buffer: Packet) {
        self.0.borrow_mut().push(buffer);
    }
}
