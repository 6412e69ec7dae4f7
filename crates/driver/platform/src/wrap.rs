//! Wrappers around [`Registers`]. They compose, and the driver does not notice them.

use crate::Registers;
use core::sync::atomic::{AtomicU64, Ordering};

/// The numbers of register reads and writes.
#[derive(Debug, Default)]
pub struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Counts {
    /// Counts that start at zero.
    pub const fn new() -> Self {
        Self { reads: AtomicU64::new(0), writes: AtomicU64::new(0) }
    }
    /// Register reads so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
    /// Register writes so far.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

/// Counts accesses.
#[derive(Clone, Debug)]
pub struct Counting<'a, R> {
    inner: R,
    counts: &'a Counts,
}

impl<'a, R> Counting<'a, R> {
    /// Counts the accesses to `inner` in `counts`.
    pub fn new(inner: R, counts: &'a Counts) -> Self {
        Self { inner, counts }
    }
}

impl<R: Registers> Registers for Counting<'_, R> {
    fn read(&self, offset: u32) -> u32 {
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read(offset)
    }
    fn write(&self, offset: u32, value: u32) {
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.write(offset, value);
    }
}

/// A register access, as [`Tracing`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read of `offset` that returned `value`.
    Read {
        /// Byte offset.
        offset: u32,
        /// The device's answer.
        value: u32,
    },
    /// A write of `value` to `offset`.
    Write {
        /// Byte offset.
        offset: u32,
        /// The value.
        value: u32,
    },
}

/// Reports every access to `observer` afterwards.
#[derive(Clone, Debug)]
pub struct Tracing<R, F> {
    inner: R,
    observer: F,
}

impl<R, F: Fn(Access)> Tracing<R, F> {
    /// Reports the accesses to `inner` to `observer`.
    pub fn new(inner: R, observer: F) -> Self {
        Self { inner, observer }
    }
}

impl<R: Registers, F: Fn(Access)> Registers for Tracing<R, F> {
    fn read(&self, offset: u32) -> u32 {
        let value = self.inner.read(offset);
        (self.observer)(Access::Read { offset, value });
        value
    }
    fn write(&self, offset: u32, value: u32) {
        self.inner.write(offset, value);
        (self.observer)(Access::Write { offset, value });
    }
}

/// Lets `fault` change the answer of a read or the value of a write. `None`: a write is lost, a read is all
/// ones.
#[derive(Clone, Debug)]
pub struct Faulty<R, F> {
    inner: R,
    fault: F,
}

impl<R, F: Fn(Access) -> Option<u32>> Faulty<R, F> {
    /// Passes the accesses to `inner` through `fault`.
    pub fn new(inner: R, fault: F) -> Self {
        Self { inner, fault }
    }
}

impl<R: Registers, F: Fn(Access) -> Option<u32>> Registers for Faulty<R, F> {
    fn read(&self, offset: u32) -> u32 {
        let value = self.inner.read(offset);
        (self.fault)(Access::Read { offset, value }).unwrap_or(u32::MAX)
    }
    fn write(&self, offset: u32, value: u32) {
        if let Some(value) = (self.fault)(Access::Write { offset, value }) {
            self.inner.write(offset, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// One register that keeps its value.
    #[derive(Clone)]
    struct One<'a>(&'a Cell<u32>);
    impl Registers for One<'_> {
        fn read(&self, _: u32) -> u32 {
            self.0.get()
        }
        fn write(&self, _: u32, value: u32) {
            self.0.set(value);
        }
    }

    #[test]
    fn wrappers_compose() {
        let cell = Cell::new(0);
        let counts = Counts::new();
        let last = Cell::new(None);
        let lossy = Faulty::new(One(&cell), |a| match a {
            Access::Write { offset: 8, .. } => None,
            Access::Write { value, .. } | Access::Read { value, .. } => Some(value),
        });
        let regs = Tracing::new(Counting::new(lossy, &counts), |a| last.set(Some(a)));
        assert_eq!((counts.reads(), counts.writes()), (0, 0));
        regs.write(0, 7);
        regs.write(8, 9);
        assert_eq!(regs.read(0), 7);
        assert_eq!((counts.reads(), counts.writes()), (1, 2));
        assert_eq!(last.get(), Some(Access::Read { offset: 0, value: 7 }));
    }
}
