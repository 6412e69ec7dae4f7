//! Counts allocations and register accesses, except the allocations of the modelled device.

use kpps_platform::wrap::{Counting, Counts};
use kpps_platform::{DmaSpec, OutOfMemory, Platform, Registers};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a counter that can be turned off.
pub struct Allocator;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.get() {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

thread_local! {
    /// Whether allocations of this thread count now, and their number.
    pub static COUNTS: Cell<bool> = const { Cell::new(false) };
    pub static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// A bench's platform whose device may allocate: the model keeps sent frames in vectors.
#[derive(Clone)]
pub struct AllocatingPlatform<P: Platform> {
    inner: P,
    counts: &'static Counts,
}

impl<P: Platform> AllocatingPlatform<P> {
    pub fn new(inner: P, counts: &'static Counts) -> Self {
        Self { inner, counts }
    }
}

#[derive(Clone)]
pub struct Window<R>(Counting<'static, R>);

fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = COUNTS.replace(false);
    let result = work();
    COUNTS.set(before);
    result
}

impl<R: Registers> Registers for Window<R> {
    fn read(&self, offset: u32) -> u32 {
        uncounted(|| self.0.read(offset))
    }
    fn write(&self, offset: u32, value: u32) {
        uncounted(|| self.0.write(offset, value));
    }
}

impl<P: Platform> Platform for AllocatingPlatform<P> {
    type Regs = Window<P::Regs>;
    type Mem = P::Mem;
    fn registers(&self) -> Self::Regs {
        Window(Counting::new(self.inner.registers(), self.counts))
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
