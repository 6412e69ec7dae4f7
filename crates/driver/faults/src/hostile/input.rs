//! The bytes from which all choices are drawn: from a fuzzer or from a random generator.

use std::cell::Cell;

/// A string of bytes, read from the front. At its end all numbers are 0.
pub(super) struct Input {
    bytes: Box<[u8]>,
    at: Cell<usize>,
}

impl Input {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), at: Cell::new(0) }
    }

    /// Whether all bytes were read.
    pub(super) fn is_over(&self) -> bool {
        self.at.get() >= self.bytes.len()
    }

    pub(super) fn u8(&self) -> u8 {
        let at = self.at.get();
        self.at.set(at + 1);
        self.bytes.get(at).copied().unwrap_or(0)
    }

    pub(super) fn u16(&self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    pub(super) fn u32(&self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    pub(super) fn u64(&self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    pub(super) fn bool(&self) -> bool {
        self.u8() & 1 != 0
    }

    /// A number below `end`, which is at most 65,536 and not 0.
    pub(super) fn below(&self, end: usize) -> usize {
        let number = if end <= 256 { self.u8().into() } else { usize::from(self.u16()) };
        number % end.max(1)
    }

    /// One of `all`, which has at least one and at most 256.
    pub(super) fn of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
