//! Memory with bus addresses: rings and buffers that CPU and device access directly.
//!
//! [`Memory`] allocates disjoint spans. Rust reaches a span only through the one object that owns it: a
//! [`RingMemory`], whose words are atomics because the device writes them at any time, or a buffer of a
//! [`BufferPool`], whose bytes are accessed only while the device does not own it ([`Buffer::bytes`]).
//!
//! [`BufferPool`]: super::BufferPool
//! [`Buffer::bytes`]: crate::Buffer::bytes

use super::free_ranges::FreeRanges;
use super::mapping::Mapping;
use super::sync::{Mutex, MutexGuard};
use crate::{DmaMemory, DmaSpec, OutOfMemory};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

/// Nothing is allocated below this address, where a PC has holes (VGA, ROMs).
const LOWEST: u64 = 1 << 20;
/// Bytes that a device accesses at once, as those of a ring.
const WORD: usize = size_of::<u64>();

/// A part of a [`Mapping`] with contiguous bus addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its offset in the mapping in bytes, a multiple of 8.
    pub offset: usize,
    /// Its size in bytes, a multiple of 8.
    pub bytes: usize,
    /// The address at which the device sees its first byte, a multiple of 8.
    pub bus: u64,
}

impl Piece {
    fn range(&self) -> Range<u64> {
        self.bus..self.bus + self.bytes as u64
    }
}

/// Memory at known bus addresses. A handle: clones are the same memory.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    mapping: Mapping,
    regions: Vec<Region>,
}

#[derive(Debug)]
struct Region {
    piece: Piece,
    free: Mutex<FreeRanges>,
}

impl Region {
    fn lock(&self) -> MutexGuard<'_, FreeRanges> {
        // A panic leaves nothing half done: every method completes or changes nothing.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// The memory of a guest, shared through `file`: the device sees its first byte at 0.
    ///
    /// # Errors
    /// Errors of `mmap`.
    pub fn shared(file: &File) -> io::Result<Self> {
        Self::whole(Mapping::file(file)?)
    }

    /// New memory of this process, for a device modelled in it, which sees its first byte at 0.
    ///
    /// # Errors
    /// Errors of `mmap`.
    pub fn private(bytes: usize) -> io::Result<Self> {
        Self::whole(Mapping::ordinary(bytes)?)
    }

    fn whole(mapping: Mapping) -> io::Result<Self> {
        let piece = Piece { offset: 0, bytes: mapping.bytes() / WORD * WORD, bus: 0 };
        let free = LOWEST..piece.range().end;
        Ok(Self::with(mapping, vec![Region { piece, free: Mutex::new(FreeRanges::new(free)) }]))
    }

    /// Memory in pieces. No ring or buffer crosses from one piece into another, even if their bus addresses
    /// are adjacent.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if a piece is not within the mapping or not aligned to 8
    /// bytes, or if two overlap.
    pub fn new(mapping: Mapping, pieces: &[Piece]) -> io::Result<Self> {
        let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let mut pieces = pieces.to_vec();
        for piece in &pieces {
            if piece.offset.checked_add(piece.bytes).is_none_or(|end| end > mapping.bytes())
                || piece.bus.checked_add(piece.bytes as u64).is_none()
            {
                return refuse("a piece of memory outside the mapping");
            }
            if [piece.offset as u64, piece.bytes as u64, piece.bus].iter().any(|at| !at.is_multiple_of(8)) {
                return refuse("a piece of memory that is not aligned to 8 bytes");
            }
        }
        pieces.sort_unstable_by_key(|piece| piece.offset);
        if pieces.windows(2).any(|two| two[0].offset + two[0].bytes > two[1].offset) {
            return refuse("pieces of memory that overlap in the mapping");
        }
        pieces.sort_unstable_by_key(|piece| piece.bus);
        if pieces.windows(2).any(|two| two[0].range().end > two[1].bus) {
            return refuse("pieces of memory that overlap on the bus");
        }
        let region = |piece: Piece| Region { piece, free: Mutex::new(FreeRanges::new(piece.range())) };
        Ok(Self::with(mapping, pieces.into_iter().map(region).collect()))
    }

    fn with(mapping: Mapping, regions: Vec<Region>) -> Self {
        Self(Arc::new(Inner { mapping, regions }))
    }

    /// Size of all pieces in bytes.
    pub fn bytes(&self) -> u64 {
        self.pieces().map(|piece| piece.bytes as u64).sum()
    }

    /// The pieces, in order of bus address.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.0.regions.iter().map(|region| region.piece)
    }

    /// The mapping of the pieces.
    pub fn mapping(&self) -> &Mapping {
        &self.0.mapping
    }

    /// Allocates zeroed ring memory.
    ///
    /// # Errors
    /// [`OutOfMemory`] if no memory meets `spec`, or its size is not a multiple of 8.
    pub fn ring(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        if !spec.bytes.is_multiple_of(8) {
            return Err(OutOfMemory);
        }
        // The words are atomics of 8 bytes.
        let memory = RingMemory(self.span(DmaSpec { align: spec.align.max(8), ..spec })?);
        for word in memory.words() {
            word.store(0, Ordering::Relaxed);
        }
        Ok(memory)
    }

    pub(super) fn span(&self, spec: DmaSpec) -> Result<Span, OutOfMemory> {
        let mut regions = self.0.regions.iter().enumerate();
        let (region, bus) = regions
            .find_map(|(index, region)| Some((index, region.lock().take(spec)?.start)))
            .ok_or(OutOfMemory)?;
        let piece = self.0.regions[region].piece;
        let offset = piece.offset + (bus - piece.bus) as usize;
        // SAFETY: the span was taken from within the piece, and that lies within the mapping.
        let start = unsafe { self.0.mapping.0.as_mut_ptr().add(offset) };
        let start = NonNull::new(start).ok_or(OutOfMemory)?;
        Ok(Span { start, bus, bytes: spec.bytes, before: 0, region, memory: self.clone() })
    }

    /// The words that have `len` bytes at `bus`, if these lie within one piece: each with the place of the
    /// bytes in it, and their place among all.
    fn at(
        &self,
        bus: u64,
        len: usize,
    ) -> Option<impl Iterator<Item = (&AtomicU64, Range<usize>, Range<usize>)>> {
        let after = self.0.regions.partition_point(|region| region.piece.bus <= bus);
        let piece = self.0.regions.get(after.checked_sub(1)?)?.piece;
        let start = usize::try_from(bus - piece.bus).ok()?;
        let end = start.checked_add(len).filter(|end| *end <= piece.bytes)?;
        let first = start - start % WORD;
        Some((first..end).step_by(WORD).map(move |word| {
            // SAFETY: a piece begins and ends with a word of the mapping, which lives as long as `self.0`.
            // All but owners of buffers use these atomics, or those of the rings, which are the same. Nobody
            // looks into a buffer while the device has it, and no two buffers share a word.
            let atomic =
                unsafe { AtomicU64::from_ptr(self.0.mapping.0.as_mut_ptr().add(piece.offset + word).cast()) };
            let (from, to) = (start.max(word), end.min(word + WORD));
            (atomic, from - word..to - word, from - start..to - start)
        }))
    }

    /// Whether this slice is a part of the memory: of a buffer.
    fn holds(&self, slice: &[u8]) -> bool {
        let mapping = &self.0.mapping;
        let (start, at) = (mapping.address(), slice.as_ptr().addr());
        !slice.is_empty() && at < start + mapping.bytes() && start < at + slice.len()
    }

    /// A device's read of `into.len()` bytes at `bus`; `false` if there is no such memory, and if `into` is a
    /// part of a buffer of this memory: a device has memory of its own.
    pub fn device_read(&self, bus: u64, into: &mut [u8]) -> bool {
        let Some(words) = self.at(bus, into.len()).filter(|_| !self.holds(into)) else { return false };
        for (word, part, whole) in words {
            into[whole].copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[part]);
        }
        true
    }

    /// A device's write of `bytes` at `bus`; `false` as in [`device_read`](Self::device_read).
    pub fn device_write(&self, bus: u64, bytes: &[u8]) -> bool {
        let Some(words) = self.at(bus, bytes.len()).filter(|_| !self.holds(bytes)) else { return false };
        for (word, part, whole) in words {
            let bytes = &bytes[whole];
            match <[u8; WORD]>::try_from(bytes) {
                Ok(bytes) => word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed),
                Err(_) => {
                    let changed = |old: u64| {
                        let mut word = old.to_ne_bytes();
                        word[part.clone()].copy_from_slice(bytes);
                        Some(u64::from_ne_bytes(word))
                    };
                    // It always changes something to something.
                    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
                }
            }
        }
        true
    }
}

/// A part of [`Memory`] with one owner; dropping it frees it.
#[derive(Debug)]
pub(super) struct Span {
    start: NonNull<u8>,
    bus: u64,
    bytes: usize,
    /// Bytes before the start that belong to the span.
    before: usize,
    region: usize,
    memory: Memory,
}

// SAFETY: a span is the only way to its bytes, wherever it goes; all else in it is `Send`.
unsafe impl Send for Span {}
// SAFETY: through `&Span` come atomics or a pointer, whose use is justified where it is used.
unsafe impl Sync for Span {}

impl Span {
    /// Hides the first `bytes` of the span, which must have more.
    pub(super) fn behind(mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        // SAFETY: within the span, or right behind it.
        self.start = unsafe { self.start.add(bytes) };
        self.bus += bytes as u64;
        self.bytes -= bytes;
        self.before += bytes;
        self
    }
    #[inline]
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
    #[inline]
    pub(super) fn bus(&self) -> u64 {
        self.bus
    }
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
    /// How many bytes before the start are hidden.
    #[inline]
    pub(super) fn hidden(&self) -> usize {
        self.before
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.memory.0.regions[self.region]
            .lock()
            .give(self.bus - self.before as u64..self.bus + self.bytes as u64);
    }
}

/// A descriptor ring in [`Memory`].
#[derive(Debug)]
pub struct RingMemory(Span);

impl DmaMemory for RingMemory {
    #[inline]
    fn bus(&self) -> u64 {
        self.0.bus
    }
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the span is aligned to 8 bytes (`Memory::ring`), lies within the mapping and
        // stays ours while `self` lives; atomics may be changed by others at any time.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().cast(), self.0.bytes / 8) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Buffer, BufferSource};

    const RING: DmaSpec = DmaSpec { bytes: 128, align: 16, boundary: None, max_address: u64::MAX };

    #[test]
    fn both_sides_see_the_same_bytes() {
        let memory = Memory::private(2 << 20).unwrap();
        let ring = memory.ring(DmaSpec { max_address: u32::MAX.into(), ..RING }).unwrap();
        assert!(ring.bus() >= LOWEST);
        ring.words()[1].store(0x0807_0605_0403_0201_u64.to_le(), Ordering::Relaxed);
        let mut seen = [0; 8];
        assert!(memory.device_read(ring.bus() + 8, &mut seen));
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);

        let mut pool = memory.pool(2, 2048, Some(65536)).unwrap();
        let buffer = pool.take().unwrap();
        assert!(memory.device_write(buffer.bus(), b"frame"));
        assert_eq!(&buffer.bytes()[..5], b"frame");
        assert_eq!((buffer.capacity(), buffer.bus() % 64), (2048, 0));
    }

    /// A device that copied from a buffer to the memory, or back, would change what a slice borrows.
    #[test]
    fn a_devices_own_bytes_are_not_a_part_of_the_memory() {
        let memory = Memory::private(2 << 20).unwrap();
        let mut pool = memory.pool(2, 2048, None).unwrap();
        let (mut buffer, other) = (pool.take().unwrap(), pool.take().unwrap());
        buffer.bytes_mut().fill(7);
        for bus in [buffer.bus(), buffer.bus() + 8, other.bus()] {
            assert!(!memory.device_read(bus, &mut buffer.bytes_mut()[..48]));
            assert!(!memory.device_write(bus, &buffer.bytes()[16..64]));
        }
        assert!(buffer.bytes().iter().all(|byte| *byte == 7));
        assert!(memory.device_write(other.bus(), &[]) && memory.device_write(other.bus(), &[7; 2048]));
        assert_eq!(buffer.bytes(), other.bytes());
    }

    /// The driver reads a ring while the device writes it, on another thread. Miri finds a data race.
    #[test]
    fn a_device_writes_a_ring_while_the_driver_reads_it() {
        let memory = Memory::private(2 << 20).unwrap();
        let ring = memory.ring(RING).unwrap();
        let (device, bus) = (memory.clone(), ring.bus());
        let thread = std::thread::spawn(move || {
            for value in 1..=100_u64 {
                assert!(device.device_write(bus, &value.to_ne_bytes()));
                let mut seen = [0; 16];
                assert!(device.device_read(bus, &mut seen));
            }
        });
        let mut last = 0;
        while last < 100 {
            let seen = ring.words()[0].load(Ordering::Relaxed);
            assert!(seen >= last);
            ring.words()[1].store(seen, Ordering::Relaxed);
            last = seen;
            std::thread::yield_now();
        }
        thread.join().unwrap();
    }

    #[test]
    fn accesses_outside_fail() {
        let memory = Memory::private(2 << 20).unwrap();
        let mut seen = [0; 4];
        assert!(!memory.device_read(memory.bytes() - 2, &mut seen));
        assert!(memory.device_write(memory.bytes() - 4, &[1, 2, 3, 4]), "the last bytes are inside");
        assert!(memory.device_read(memory.bytes() - 4, &mut seen));
        assert_eq!(seen, [1, 2, 3, 4]);
        assert!(!memory.device_write(u64::MAX, &[1]));
    }

    /// A ring's words are aligned, whatever was taken before it, and lie in the mapping.
    #[test]
    fn rings_are_words_of_the_mapping() {
        let memory = Memory::private(2 << 20).unwrap();
        let odd = memory.span(DmaSpec { bytes: 4, align: 1, ..RING }).unwrap();
        let ring = memory.ring(DmaSpec { align: 1, ..RING }).unwrap();
        assert_eq!((odd.bus(), ring.bus()), (LOWEST, LOWEST + 8));
        let start = ring.words().as_ptr().addr();
        assert_eq!(start, memory.mapping().address() + ring.bus() as usize);
    }

    /// Pages in any order on the bus, two of them adjacent: each address leads to the right byte, and nothing
    /// spans two pages.
    #[test]
    fn bus_addresses_lead_to_the_right_pieces() {
        let page = 4096;
        let bus = [0x9000, 0x3000, 0x4000];
        let pieces: Vec<_> = bus
            .iter()
            .enumerate()
            .map(|(index, &bus)| Piece { offset: index * page, bytes: page, bus })
            .collect();
        let memory = Memory::new(Mapping::ordinary(3 * page).unwrap(), &pieces).unwrap();
        assert_eq!(memory.bytes(), 3 * 4096);
        assert!(memory.device_write(0x9008, &[7]));
        assert!(!memory.device_write(0x3fff, &[1, 2]), "crosses two pages");
        assert!(!memory.device_write(0x2fff, &[1]) && !memory.device_write(0xa000, &[1]));

        let rings: Vec<_> = (0..3).map(|_| memory.ring(DmaSpec { bytes: 3000, ..RING }).unwrap()).collect();
        let starts: Vec<_> = rings.iter().map(DmaMemory::bus).collect();
        assert_eq!(starts, [0x3000, 0x4000, 0x9000]);
        assert!(memory.ring(DmaSpec { bytes: 3000, ..RING }).is_err());
        rings[2].words()[0].store(u64::from_le_bytes(*b"ninepage"), Ordering::Relaxed);
        let mut seen = [0; 8];
        assert!(memory.device_read(0x9000, &mut seen));
        assert_eq!(seen, u64::from_le_bytes(*b"ninepage").to_ne_bytes());
        drop(rings);
        let low = DmaSpec { bytes: 4096, max_address: 0x8fff, ..RING };
        let two = [memory.ring(low).unwrap(), memory.ring(low).unwrap()];
        assert!(memory.ring(low).is_err(), "the third is above the highest address: {two:?}");
    }

    #[test]
    fn invalid_pieces_are_refused() {
        let piece = |offset, bytes, bus| Piece { offset, bytes, bus };
        for wrong in [
            &[piece(0, 8192, 0)][..],
            &[piece(4, 8, 0)],
            &[piece(8, 8, 4)],
            &[piece(usize::MAX - 7, 16, 0)],
            &[piece(0, 16, u64::MAX - 7)],
            &[piece(0, 16, 0), piece(8, 16, 64)],
            &[piece(0, 16, 0), piece(16, 16, 8)],
        ] {
            let mapping = Mapping::ordinary(4096).unwrap();
            assert!(Memory::new(mapping, wrong).is_err(), "{wrong:?}");
        }
    }
}
