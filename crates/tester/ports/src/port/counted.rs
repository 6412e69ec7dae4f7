//! A platform that counts register accesses.

use kpps_platform::{DmaSpec, OutOfMemory, Platform, Registers};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Accesses so far.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    pub(super) reads: AtomicU64,
    pub(super) writes: AtomicU64,
}

/// `P`, with its register accesses counted.
#[derive(Clone, Debug)]
pub struct Counted<P> {
    inner: P,
    pub(super) accesses: Arc<Accesses>,
}

impl<P> Counted<P> {
    pub(super) fn new(inner: P) -> Self {
        Self { inner, accesses: Arc::default() }
    }
}

/// Registers whose accesses are counted.
#[derive(Clone, Debug)]
pub struct CountedRegisters<R> {
    inner: R,
    accesses: Arc<Accesses>,
}

impl<R: Registers> Registers for CountedRegisters<R> {
    #[inline]
    fn read(&self, offset: u32) -> u32 {
        self.accesses.reads.fetch_add(1, Relaxed);
        self.inner.read(offset)
    }
    #[inline]
    fn write(&self, offset: u32, value: u32) {
        self.accesses.writes.fetch_add(1, Relaxed);
        self.inner.write(offset, value);
    }
}

impl<P: Platform> Platform for Counted<P> {
    type Regs = CountedRegisters<P::Regs>;
    type Mem = P::Mem;

    fn registers(&self) -> Self::Regs {
        CountedRegisters { inner: self.inner.registers(), accesses: self.accesses.clone() }
    }
    fn allocate(&self, spec: DmaSpec) -> Result<P::Mem, OutOfMemory> {
        self.inner.allocate(spec)
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
    fn wait_ns(&self, ns: u64) {
        self.inner.wait_ns(ns);
    }
}
