//! The simulated host's memory, shared by the CPU and the cards.
//!
//! It also keeps the state of a snooping cache: which cache lines a card has written since the CPU last
//! touched them. So touching a received descriptor costs a miss.
//!
//! This is one of the two files of this crate with `unsafe`: the driver must see ring words as atomics and
//! packet buffers as bytes, while cards read and write the same bytes by address. Everything is confined to
//! one allocation that lives as long as any handle to it. Every access is bounds-checked, and all of it
//! happens in one thread ([`Memory`] is neither `Send` nor `Sync`).

mod channel;

pub use channel::Channel;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

/// Where simulated memory begins: not at zero, so that a NULL address in a descriptor is caught.
pub const BASE: u64 = 0x10_0000;

/// The memory of one simulated host.
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    used: Cell<usize>,
    line_shift: u32,
    /// One bit a cache line: a card has written it since the CPU last touched it.
    stale: Box<[Cell<u64>]>,
    channel: Channel,
}

impl Memory {
    /// `bytes` of zeroed memory with cache lines of `line_bytes` (a power of two).
    #[inline]
    pub fn new(bytes: usize, line_bytes: usize) -> Rc<Self> {
        let bytes = bytes.max(4096).next_multiple_of(4096);
        // Aligned to words only: then the allocator can use fresh pages, which are zero already.
        let Ok(layout) = Layout::from_size_align(bytes, align_of::<AtomicU64>()) else {
            panic!("a simulated memory of {bytes} bytes does not fit this machine")
        };
        // SAFETY: the layout has a non-zero size.
        let Some(start) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let line_shift = line_bytes.next_power_of_two().trailing_zeros();
        let stale = vec![Cell::new(0); (bytes >> line_shift) / 64 + 1].into_boxed_slice();
        Rc::new(Self { start, layout, used: Cell::new(0), line_shift, stale, channel: Channel::default() })
    }

    /// Allocates `bytes` aligned to `align` (a power of two) that do not cross a multiple of `boundary`;
    /// returns the bus address. Nothing is ever freed: a simulated machine lives for one trial.
    #[inline]
    pub fn allocate(&self, bytes: usize, align: usize, boundary: Option<u64>) -> Option<u64> {
        let mut at = BASE + self.used.get() as u64;
        at = at.next_multiple_of(align.max(1) as u64);
        if let Some(boundary) = boundary {
            if bytes as u64 > boundary {
                return None;
            }
            if at / boundary != (at + bytes as u64 - 1) / boundary {
                at = at.next_multiple_of(boundary.max(align as u64));
            }
        }
        // No sum may wrap: allocated memory is exclusive.
        let end = usize::try_from(at - BASE).ok()?.checked_add(bytes)?;
        if end > self.layout.size() {
            return None;
        }
        self.used.set(end);
        Some(at)
    }

    #[inline]
    fn offset(&self, address: u64, bytes: usize) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(BASE)?).ok()?;
        (offset.checked_add(bytes)? <= self.layout.size()).then_some(offset)
    }

    /// Whether this slice is a part of the memory: of a packet buffer.
    #[inline]
    fn holds(&self, slice: &[u8]) -> bool {
        let (start, at) = (self.start.addr().get(), slice.as_ptr().addr());
        !slice.is_empty() && at < start + self.layout.size() && start < at + slice.len()
    }

    /// A card reads. `false` if there is no memory at `address` (a master abort), and if `into` is a packet
    /// buffer of this memory: a card has memory of its own.
    #[inline]
    pub fn load(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(offset) = self.offset(address, into.len()).filter(|_| !self.holds(into)) else {
            return false;
        };
        // SAFETY: the range is inside the allocation; `into` is outside of it.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), into.as_mut_ptr(), into.len());
        }
        true
    }

    /// A card writes, and the CPU's copies of these lines become stale. `false` as in [`Self::load`].
    #[inline]
    pub fn store(&self, address: u64, from: &[u8]) -> bool {
        let Some(offset) = self.offset(address, from.len()).filter(|_| !self.holds(from)) else {
            return false;
        };
        // SAFETY: as in `load`.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(offset), from.len());
        }
        self.for_lines(offset, from.len(), |word, lines| word.set(word.get() | lines));
        true
    }

    /// The CPU touches `bytes` at `address`: returns how many cache lines it had to fetch because a card
    /// has written them.
    #[inline]
    pub fn touch(&self, address: u64, bytes: usize) -> u32 {
        let Some(offset) = self.offset(address, bytes) else { return 0 };
        // Descriptors and headers lie in one line.
        let line = offset >> self.line_shift;
        if bytes > 0 && (offset + bytes - 1) >> self.line_shift == line {
            let (word, bit) = (&self.stale[line / 64], 1 << (line % 64));
            let stale = word.get() & bit != 0;
            if stale {
                word.set(word.get() & !bit);
            }
            return stale.into();
        }
        let mut misses = 0;
        self.for_lines(offset, bytes, |word, lines| {
            let stale = word.get() & lines;
            if stale != 0 {
                word.set(word.get() & !lines);
                misses += stale.count_ones();
            }
        });
        misses
    }

    /// Calls `each` with the words of `stale` that hold the cache lines of `bytes` at `offset`, and with
    /// their bits.
    #[inline]
    fn for_lines(&self, offset: usize, bytes: usize, mut each: impl FnMut(&Cell<u64>, u64)) {
        let Some(last) = bytes.checked_sub(1) else { return };
        let (mut line, last) = (offset >> self.line_shift, (offset + last) >> self.line_shift);
        while line <= last {
            let bit = line % 64;
            let more = (last - line).min(63 - bit);
            each(&self.stale[line / 64], (u64::MAX >> (63 - more)) << bit);
            line += more + 1;
        }
    }

    /// Its throughput.
    #[inline]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Size of a cache line in bytes.
    #[inline]
    pub fn line_bytes(&self) -> usize {
        1 << self.line_shift
    }
}

impl Drop for Memory {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; every handle holds an `Rc`, so none is left.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// An allocated range of words: a descriptor ring.
pub struct Words {
    memory: Rc<Memory>,
    address: u64,
    words: usize,
}

impl Words {
    /// Allocates `bytes` (a multiple of 8).
    #[inline]
    pub fn allocate(memory: &Rc<Memory>, bytes: usize, align: usize, boundary: Option<u64>) -> Option<Self> {
        let address = memory.allocate(bytes, align.max(8), boundary)?;
        Some(Self { memory: Rc::clone(memory), address, words: bytes / 8 })
    }
    /// The same without the first `bytes` (a multiple of 8).
    #[must_use]
    #[inline]
    pub fn skip(self, bytes: usize) -> Self {
        let words = (bytes / 8).min(self.words);
        Self { address: self.address + 8 * words as u64, words: self.words - words, ..self }
    }
    /// The bus address.
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }
    /// The words.
    #[inline]
    pub fn as_slice(&self) -> &[AtomicU64] {
        let offset = (self.address - BASE) as usize;
        // SAFETY: `allocate` gave this range to us alone, aligned to 8 and inside the allocation, which lives
        // as long as `self.memory`. Cards change the words only through `Memory::store` on this same thread,
        // and atomics allow change behind a shared reference.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr().add(offset).cast(), self.words) }
    }
}

/// An allocated range of bytes: one packet buffer. Not `Clone`: its holder owns the bytes.
pub struct Bytes {
    memory: Rc<Memory>,
    address: u64,
    len: usize,
}

impl Bytes {
    /// Allocates `len` bytes.
    #[inline]
    pub fn allocate(memory: &Rc<Memory>, len: usize, align: usize) -> Option<Self> {
        let address = memory.allocate(len, align, None)?;
        Some(Self { memory: Rc::clone(memory), address, len })
    }
    /// The bus address.
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        let offset = (self.address - BASE) as usize;
        // SAFETY: `allocate` gave this range to this value alone, inside an allocation that lives as long as
        // `self.memory`. A card writes it only while the card is advanced, which no holder of
        // this slice does: a driver lends a buffer out only while the card does not have it.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr().add(offset), self.len) }
    }
    /// The bytes, to write.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let offset = (self.address - BASE) as usize;
        // SAFETY: as in `as_slice`, and `&mut self` is the only handle.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.as_ptr().add(offset), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_card_and_the_cpu_see_the_same_bytes() {
        let memory = Memory::new(8192, 32);
        let ring = Words::allocate(&memory, 64, 16, None).expect("fits");
        ring.as_slice()[1].store(0x0102_0304_0506_0708, Ordering::Relaxed);
        let mut seen = [0; 8];
        assert!(memory.load(ring.address() + 8, &mut seen));
        assert_eq!(seen, 0x0102_0304_0506_0708u64.to_le_bytes());
        assert!(memory.store(ring.address(), &[9; 8]));
        assert_eq!(ring.as_slice()[0].load(Ordering::Relaxed), 0x0909_0909_0909_0909);
        let mut buffer = Bytes::allocate(&memory, 100, 16).expect("fits");
        buffer.as_mut_slice()[99] = 7;
        assert!(memory.store(buffer.address(), &[1, 2]));
        assert_eq!(buffer.as_slice()[..2], [1, 2]);
        assert_eq!(buffer.as_slice()[99], 7);
    }

    /// A card that copied from a packet buffer to the memory, or back, would change what a slice borrows.
    #[test]
    fn a_cards_own_bytes_are_not_a_part_of_the_memory() {
        let memory = Memory::new(4096, 32);
        let mut buffer = Bytes::allocate(&memory, 64, 16).expect("fits");
        let other = Bytes::allocate(&memory, 64, 16).expect("fits");
        buffer.as_mut_slice().fill(7);
        let at = buffer.address();
        for address in [at, at + 8, other.address()] {
            assert!(!memory.load(address, &mut buffer.as_mut_slice()[..48]));
            assert!(!memory.store(address, &buffer.as_slice()[16..]));
        }
        assert_eq!((buffer.as_slice(), other.as_slice()), (&[7; 64][..], &[0; 64][..]));
        assert!(memory.store(other.address(), &[]) && memory.store(other.address(), &[7; 64]));
        assert_eq!(other.as_slice(), [7; 64]);
    }

    /// A size that wraps must not lead to memory that is in use.
    #[test]
    fn allocations_never_overlap() {
        let memory = Memory::new(8192, 32);
        let mut first = Bytes::allocate(&memory, 4096, 16).expect("fits");
        for bytes in [usize::MAX, usize::MAX - 4095, usize::MAX - 4096 + 64, isize::MAX as usize] {
            assert!(Bytes::allocate(&memory, bytes, 16).is_none(), "{bytes}");
            assert!(Words::allocate(&memory, bytes & !7, 16, None).is_none(), "{bytes}");
        }
        let mut second = Bytes::allocate(&memory, 64, 16).expect("fits");
        let (one, other) = (first.as_mut_slice(), second.as_mut_slice());
        (one[0], other[0]) = (1, 2);
        assert_eq!((one[0], other[0]), (1, 2));
    }

    #[test]
    fn addresses_outside_abort() {
        let memory = Memory::new(4096, 32);
        for address in [0, BASE - 1, BASE + 4096, BASE + 4089, u64::MAX, u64::MAX - 3] {
            assert!(!memory.load(address, &mut [0; 8]), "{address:#x}");
            assert!(!memory.store(address, &[0; 8]), "{address:#x}");
        }
        assert!(memory.store(BASE + 4088, &[0; 8]));
    }

    #[test]
    fn a_line_misses_once_after_a_card_wrote_it() {
        let memory = Memory::new(4096, 32);
        assert_eq!(memory.touch(BASE, 64), 0);
        memory.store(BASE + 16, &[0; 20]);
        assert_eq!(memory.touch(BASE, 16), 1);
        assert_eq!(memory.touch(BASE, 64), 1);
        assert_eq!(memory.touch(BASE, 64), 0);
    }

    #[test]
    fn every_line_of_a_long_write_misses_once() {
        let memory = Memory::new(1 << 16, 32);
        // From the middle of a line, over more than one word of flags.
        memory.store(BASE + 63 * 32 + 16, &[0; 100 * 32]);
        assert_eq!(memory.touch(BASE, 63 * 32), 0);
        assert_eq!(memory.touch(BASE + 64 * 32, 32), 1);
        assert_eq!(memory.touch(BASE, 1 << 16), 100);
        assert_eq!(memory.touch(BASE, 1 << 16), 0);
    }

    #[test]
    fn boundaries_and_alignment_hold() {
        let memory = Memory::new(1 << 20, 64);
        let first = memory.allocate(60_000, 128, Some(65_536)).expect("fits");
        let second = memory.allocate(60_000, 128, Some(65_536)).expect("fits");
        for at in [first, second] {
            assert_eq!(at % 128, 0);
            assert_eq!(at / 65_536, (at + 59_999) / 65_536);
        }
        assert_eq!(memory.allocate(70_000, 1, Some(65_536)), None);
        assert_eq!(memory.allocate(2 << 20, 1, None), None);
    }
}
