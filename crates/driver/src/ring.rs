//! A descriptor ring in memory that the device shares.
//!
//! Knows nothing of buffers, registers or policies: it stores and loads descriptors. Orderings:
//! descriptors are stored and loaded `Relaxed`. What makes them safe stands where it belongs: the
//! queue issues a `Release` fence before it writes the tail (the descriptors are in memory before
//! the device is told), and an `Acquire` fence after it saw DD (nothing of the frame is read
//! before the device said that it was there).

use crate::Error;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kpps_datasheet::{Chip, Erratum, desc};
use kpps_platform::{DmaMemory, DmaSpec, Platform};

pub(crate) struct Ring<M> {
    memory: M,
    size: u16,
}

impl<M: DmaMemory> Ring<M> {
    pub(crate) fn allocate<P: Platform<Mem = M>>(platform: &P, chip: Chip, size: u16) -> Result<Self, Error> {
        let bytes = usize::from(size) * desc::BYTES;
        let spec = DmaSpec {
            bytes,
            // Rings are 16-byte aligned (SDM 13.4.25); a cache line keeps four descriptors together.
            align: 128,
            boundary: chip.has(Erratum::No64KCrossing).then_some(0x1_0000),
            max_address: chip.max_address(),
        };
        let memory = platform.allocate(spec).map_err(|_| Error::OutOfMemory)?;
        if memory.words().len() < bytes / 8 || !memory.bus().is_multiple_of(16) {
            return Err(Error::OutOfMemory);
        }
        Ok(Self { memory, size })
    }

    pub(crate) fn bus(&self) -> u64 {
        self.memory.bus()
    }

    #[inline]
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// The index after `index`.
    #[inline]
    pub(crate) fn after(&self, index: u16) -> u16 {
        let next = index + 1;
        if next == self.size { 0 } else { next }
    }

    /// The index before `index`.
    #[inline]
    pub(crate) fn before(&self, index: u16) -> u16 {
        if index == 0 { self.size - 1 } else { index - 1 }
    }

    /// Steps from `from` forward to `to`.
    #[inline]
    pub(crate) fn distance(&self, from: u16, to: u16) -> u16 {
        if to >= from { to - from } else { to + self.size - from }
    }

    #[inline]
    fn pair(&self, index: u16) -> Option<&[AtomicU64; 2]> {
        let at = usize::from(index) * 2;
        self.memory.words().get(at..at + 2)?.try_into().ok()
    }

    /// The second word of a descriptor that the device may have written: status, length.
    #[inline]
    pub(crate) fn status(&self, index: u16) -> u64 {
        let at = usize::from(index) * desc::BYTES;
        self.memory.sync_for_cpu(at..at + desc::BYTES);
        // The ring has `size` descriptors, so the pair is there.
        self.pair(index).map_or(0, |pair| u64::from_le(pair[1].load(Relaxed)))
    }

    /// Writes a descriptor.
    #[inline]
    pub(crate) fn store(&self, index: u16, words: [u64; 2]) {
        if let Some(pair) = self.pair(index) {
            pair[0].store(words[0].to_le(), Relaxed);
            pair[1].store(words[1].to_le(), Relaxed);
        }
        let at = usize::from(index) * desc::BYTES;
        self.memory.sync_for_device(at..at + desc::BYTES);
    }

    /// Writes the second word of a descriptor again.
    #[inline]
    pub(crate) fn store_second(&self, index: u16, word: u64) {
        if let Some(pair) = self.pair(index) {
            pair[1].store(word.to_le(), Relaxed);
        }
        let at = usize::from(index) * desc::BYTES;
        self.memory.sync_for_device(at..at + desc::BYTES);
    }

    /// Clears all descriptors.
    pub(crate) fn clear(&self) {
        for index in 0..self.size {
            self.store(index, [0, 0]);
        }
    }
}
