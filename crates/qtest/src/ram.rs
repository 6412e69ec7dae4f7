//! The guest's memory, mapped here: rings and buffers are plain memory for both sides.
//!
//! All `unsafe` of this crate is in this file. [`Ram`] hands out disjoint spans; a span is
//! reachable from Rust only through the one object that owns it, a [`RingMemory`] (whose words
//! are atomics, because the device writes them at any time) or a [`RamBuffer`] (whose bytes are
//! looked at only while the device does not own them: [`kpps_platform::Buffer::bytes`]).

use crate::span::Spans;
use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, OutOfMemory};
use memmap2::{MmapMut, MmapRaw};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Below this address a PC has holes (VGA, ROMs); nothing is allocated there.
pub const LOWEST: u64 = 1 << 20;

/// A cache line: packet buffers start on one.
const CACHE_LINE: u64 = 64;

/// Memory that a device sees from bus address 0 on.
#[derive(Clone, Debug)]
pub struct Ram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    map: MmapRaw,
    spans: Mutex<Spans>,
}

impl Ram {
    /// Maps `file`, whose length is the memory's size, shared with whoever else maps it.
    pub fn shared(file: &File) -> io::Result<Self> {
        Ok(Self::new(MmapRaw::map_raw(file)?))
    }

    /// Fresh memory of this process alone, for a device that is modelled in it.
    pub fn private(bytes: usize) -> io::Result<Self> {
        Ok(Self::new(MmapMut::map_anon(bytes)?.into()))
    }

    fn new(map: MmapRaw) -> Self {
        let spans = Spans::new(LOWEST..map.len() as u64);
        Self(Arc::new(Inner { map, spans: Mutex::new(spans) }))
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.0.map.len() as u64
    }

    /// Whether there is no memory at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Allocates zeroed ring memory.
    pub fn ring(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        if !spec.bytes.is_multiple_of(8) {
            return Err(OutOfMemory);
        }
        // The words are atomics of 8 bytes.
        let spec = DmaSpec { align: spec.align.max(8), ..spec };
        let memory = RingMemory(self.span(spec)?);
        for word in memory.words() {
            word.store(0, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// A pool of `count` buffers of `bytes` each, none of which crosses a multiple of
    /// `boundary`, if given (errata of the 82545 and 82546, revision 1: 64 KiB).
    pub fn pool(&self, count: usize, bytes: usize, boundary: Option<u64>) -> Result<BufferPool, OutOfMemory> {
        let spec = DmaSpec { bytes, align: CACHE_LINE as usize, boundary, max_address: u64::MAX };
        let free = (0..count).map(|_| self.span(spec).map(RamBuffer)).collect::<Result<Vec<_>, _>>()?;
        Ok(BufferPool { free: Arc::new(Mutex::new(free)) })
    }

    fn span(&self, spec: DmaSpec) -> Result<Span, OutOfMemory> {
        let range = self.lock().take(spec).ok_or(OutOfMemory)?;
        Ok(Span { ram: self.clone(), range })
    }

    fn lock(&self) -> MutexGuard<'_, Spans> {
        // Nothing in there can be left half done: every method completes or changes nothing.
        self.0.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first byte of `len` bytes at `address`, if they lie within the memory.
    fn at(&self, address: u64, len: usize) -> Option<*mut u8> {
        let start = usize::try_from(address).ok()?;
        let end = start.checked_add(len)?;
        if end > self.0.map.len() {
            return None;
        }
        // SAFETY: start..end lies within the mapping, which lives as long as `self.0`.
        Some(unsafe { self.0.map.as_mut_ptr().add(start) })
    }

    /// A device's read of `into.len()` bytes at `address`; `false` if there is no such memory.
    pub fn device_read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.at(address, into.len()) else { return false };
        // SAFETY: source and length are within the mapping; `into` is somebody's exclusive
        // slice, so they overlap only if that somebody breaks the rule that a buffer given
        // to the device is not looked at. No reference into the mapping is formed.
        unsafe { into.as_mut_ptr().copy_from(from, into.len()) };
        true
    }

    /// A device's write of `bytes` at `address`; `false` if there is no such memory.
    pub fn device_write(&self, address: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.at(address, bytes.len()) else { return false };
        // SAFETY: destination and length are within the mapping. The span belongs to a ring
        // (read through atomics only) or to a buffer that was given to the device, into
        // which the driver does not look; no reference into the mapping is formed.
        unsafe { to.copy_from(bytes.as_ptr(), bytes.len()) };
        true
    }
}

/// A piece of [`Ram`] with one owner; free again when dropped.
#[derive(Debug)]
struct Span {
    ram: Ram,
    range: Range<u64>,
}

impl Span {
    fn bytes(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: spans are handed out from within the mapping.
        unsafe { self.ram.0.map.as_mut_ptr().add(self.range.start as usize) }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.ram.lock().give(self.range.clone());
    }
}

/// A descriptor ring in [`Ram`].
#[derive(Debug)]
pub struct RingMemory(Span);

impl DmaMemory for RingMemory {
    fn bus(&self) -> u64 {
        self.0.range.start
    }
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the span is aligned to 8 bytes (`Ram::ring`), lies within the mapping and
        // stays ours while `self` lives; atomics may be changed by others at any time.
        unsafe { std::slice::from_raw_parts(self.0.start().cast(), self.0.bytes() / 8) }
    }
}

/// A packet buffer in [`Ram`], aligned to a cache line.
#[derive(Debug)]
pub struct RamBuffer(Span);

impl Buffer for RamBuffer {
    fn bus(&self) -> u64 {
        self.0.range.start
    }
    fn capacity(&self) -> usize {
        self.0.bytes()
    }
    fn bytes(&self) -> &[u8] {
        // SAFETY: within the mapping and owned by `self`; the device does not write it while
        // it is lent out (contract of `Buffer::bytes`).
        unsafe { std::slice::from_raw_parts(self.0.start(), self.0.bytes()) }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.start(), self.0.bytes()) }
    }
}

/// A handle to a fixed number of [`RamBuffer`]s, last given first taken.
#[derive(Clone, Debug)]
pub struct BufferPool {
    free: Arc<Mutex<Vec<RamBuffer>>>,
}

impl BufferPool {
    fn lock(&self) -> MutexGuard<'_, Vec<RamBuffer>> {
        // A push or pop that panics changes nothing.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many buffers are in the pool just now.
    pub fn available(&self) -> usize {
        self.lock().len()
    }
}

impl BufferSource for BufferPool {
    type Buf = RamBuffer;
    fn take(&mut self) -> Option<RamBuffer> {
        self.lock().pop()
    }
    fn give(&mut self, buffer: RamBuffer) {
        self.lock().push(buffer);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let ram = Ram::private(2 << 20).unwrap();
        let spec = DmaSpec { bytes: 128, align: 16, boundary: None, max_address: u32::MAX.into() };
        let ring = ram.ring(spec).unwrap();
        ring.words()[1].store(0x0807_0605_0403_0201_u64.to_le(), Ordering::Relaxed);
        let mut seen = [0; 8];
        assert!(ram.device_read(ring.bus() + 8, &mut seen));
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);

        let mut pool = ram.pool(2, 2048, Some(65536)).unwrap();
        let buffer = pool.take().unwrap();
        assert!(ram.device_write(buffer.bus(), b"frame"));
        assert_eq!(&buffer.bytes()[..5], b"frame");
        assert_eq!((buffer.capacity(), buffer.bus() % 64), (2048, 0));
    }

    #[test]
    fn there_is_nothing_outside() {
        let ram = Ram::private(2 << 20).unwrap();
        let mut seen = [0; 4];
        assert!(!ram.device_read(ram.len() - 2, &mut seen));
        assert!(!ram.device_write(u64::MAX, &[1]));
    }
}
