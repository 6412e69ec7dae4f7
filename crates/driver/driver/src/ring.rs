//! A descriptor ring in memory shared with the device.
//!
//! It stores and loads descriptors, and knows nothing of buffers, registers or policies. Descriptors are
//! stored and loaded `Relaxed`; the queues have the fences. They issue a `Release` fence before they write
//! the tail, so the descriptors are in memory before the device sees it, and an `Acquire` fence after they
//! saw DD, so no byte of the frame is read before.

use crate::Error;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kpps_datasheet::{Chip, Erratum, desc};
use kpps_platform::{DmaMemory, DmaSpec, Platform};

/// A descriptor ring. Indices are in units of 16 bytes: one descriptor, or half of one with
/// [`stride`](Ring::stride) 2.
pub(crate) struct Ring<M> {
    memory: M,
    size: usize,
    stride: usize,
}

impl<M: DmaMemory> Ring<M> {
    /// A ring of `size` descriptors of `stride` times 16 bytes.
    pub(crate) fn allocate<P: Platform<Mem = M>>(
        platform: &P,
        chip: Chip,
        size: u16,
        stride: usize,
    ) -> Result<Self, Error> {
        let size = usize::from(size);
        let bytes = size * desc::BYTES * stride;
        let spec = DmaSpec {
            bytes,
            // The chip needs 16 bytes (SDM 13.4.25). This keeps the four descriptors of a cache line
            // together.
            align: 128,
            boundary: chip.has(Erratum::No64KCrossing).then_some(0x1_0000),
            max_address: chip.max_address(),
        };
        let memory = platform.allocate(spec).map_err(|_| Error::OutOfMemory)?;
        if memory.words().len() < bytes / 8 || !memory.bus().is_multiple_of(16) {
            return Err(Error::OutOfMemory);
        }
        Ok(Self { memory, size, stride })
    }

    /// Units of 16 bytes in a descriptor. Heads and tails count these units.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of all descriptors.
    pub(crate) fn bytes(&self) -> u32 {
        (self.size * self.stride * desc::BYTES) as u32
    }

    pub(crate) fn bus(&self) -> u64 {
        self.memory.bus()
    }

    /// The number of descriptors.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The index after `index`.
    #[inline]
    pub(crate) fn after(&self, index: usize) -> usize {
        let next = index + 1;
        if next == self.size { 0 } else { next }
    }

    /// The index before `index`.
    #[inline]
    pub(crate) fn before(&self, index: usize) -> usize {
        if index == 0 { self.size - 1 } else { index - 1 }
    }

    /// Steps from `from` forward to `to`.
    #[inline]
    pub(crate) fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.size - from }
    }

    /// The descriptors, as pairs of words.
    #[inline]
    pub(crate) fn pairs(&self) -> &[[AtomicU64; 2]] {
        self.memory.words().as_chunks().0
    }

    /// Makes descriptor `index` visible to the CPU before it is examined.
    #[inline]
    pub(crate) fn sync_for_cpu(&self, index: usize) {
        let at = index * desc::BYTES;
        self.memory.sync_for_cpu(at..at + desc::BYTES);
    }

    /// The second word of a descriptor that the device may have written: status, length.
    #[inline]
    pub(crate) fn status(&self, index: usize) -> u64 {
        self.sync_for_cpu(index);
        // `index` is below `size`, so the pair exists.
        self.pairs().get(index).map_or(0, |pair| u64::from_le(pair[1].load(Relaxed)))
    }

    /// Writes a descriptor.
    #[inline]
    pub(crate) fn store(&self, index: usize, words: [u64; 2]) {
        if let Some(pair) = self.pairs().get(index) {
            self.store_in(pair, index, words);
        }
    }

    /// Writes descriptor `index`, which is `pair`.
    #[inline]
    pub(crate) fn store_in(&self, pair: &[AtomicU64; 2], index: usize, words: [u64; 2]) {
        pair[0].store(words[0].to_le(), Relaxed);
        pair[1].store(words[1].to_le(), Relaxed);
        let at = index * desc::BYTES;
        self.memory.sync_for_device(at..at + desc::BYTES);
    }

    /// Writes the second word of a descriptor again.
    #[inline]
    pub(crate) fn store_second(&self, index: usize, word: u64) {
        if let Some(pair) = self.pairs().get(index) {
            pair[1].store(word.to_le(), Relaxed);
        }
        let at = index * desc::BYTES;
        self.memory.sync_for_device(at..at + desc::BYTES);
    }

    /// Clears all descriptors.
    pub(crate) fn clear(&self) {
        for index in 0..self.size * self.stride {
            self.store(index, [0, 0]);
        }
    }
}
