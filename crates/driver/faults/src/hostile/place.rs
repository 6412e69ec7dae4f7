//! The driver's environment: registers, rings, buffers and time of a [`World`].

use super::device::{BUFFER_BYTES, Holder, Ring, World};
use kpps_host::memory::Bytes;
use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

/// The slot that the device is in.
#[derive(Clone)]
pub(super) struct Slot {
    pub(super) world: Rc<World>,
    /// MSI-X vectors that the host enabled.
    pub(super) vectors: u8,
}

/// The registers.
#[derive(Clone)]
pub(super) struct Window(Rc<World>);

impl Registers for Window {
    fn read(&self, offset: u32) -> u32 {
        self.0.read(offset)
    }
    fn write(&self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

/// A ring's memory.
pub(super) struct RingMemory {
    ring: Option<Rc<Ring>>,
    world: Rc<World>,
}

impl DmaMemory for RingMemory {
    fn bus(&self) -> u64 {
        self.ring.as_ref().map_or(0, |ring| ring.range.start)
    }
    fn words(&self) -> &[AtomicU64] {
        self.ring.as_ref().map_or(&[], |ring| ring.words.as_slice())
    }
    fn sync_for_cpu(&self, bytes: Range<usize>) {
        if let Some(ring) = &self.ring {
            self.world.look(ring, bytes);
        }
    }
    fn sync_for_device(&self, bytes: Range<usize>) {
        if let Some(ring) = &self.ring {
            self.world.show(ring, bytes);
        }
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.take().filter(|_| !std::thread::panicking()) {
            self.world.free(ring);
        }
    }
}

impl Platform for Slot {
    type Regs = Window;
    type Mem = RingMemory;

    fn registers(&self) -> Window {
        Window(self.world.clone())
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        let ring = self.world.allocate(spec.bytes, spec.align, spec.boundary).ok_or(OutOfMemory)?;
        Ok(RingMemory { ring: Some(ring), world: self.world.clone() })
    }
    fn now_ns(&self) -> u64 {
        self.world.now_ns()
    }
    fn vectors(&self) -> u8 {
        self.vectors
    }
    fn wait_ns(&self, ns: u64) {
        self.world.wait_ns(ns);
    }
}

/// A packet buffer.
pub(super) struct Buf {
    bytes: Bytes,
    pub(super) number: usize,
    world: Rc<World>,
}

impl Buffer for Buf {
    fn bus(&self) -> u64 {
        self.bytes.address()
    }
    fn capacity(&self) -> usize {
        BUFFER_BYTES
    }
    fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_mut_slice()
    }
    fn sync_for_cpu(&self, len: usize) {
        self.world.buffer(self.number, len, false);
    }
    fn sync_for_device(&self, len: usize) {
        self.world.buffer(self.number, len, true);
    }
}

/// The pool of all buffers. Clones are the same pool.
#[derive(Clone)]
pub(super) struct Pool {
    free: Rc<RefCell<Vec<Buf>>>,
    world: Rc<World>,
}

impl Pool {
    /// A pool of these buffers.
    pub(super) fn new(world: &Rc<World>, buffers: Vec<Bytes>) -> Self {
        let with = |(number, bytes)| Buf { bytes, number, world: world.clone() };
        let free = buffers.into_iter().enumerate().map(with).collect();
        Self { free: Rc::new(RefCell::new(free)), world: world.clone() }
    }

    /// Buffers in the pool.
    pub(super) fn available(&self) -> usize {
        self.free.borrow().len()
    }
}

impl BufferSource for Pool {
    type Buf = Buf;

    fn take(&mut self) -> Option<Buf> {
        let buffer = self.free.borrow_mut().pop()?;
        let before = self.world.holders[buffer.number].replace(Holder::Host);
        assert_eq!(before, Holder::Pool, "buffer {} is there twice", buffer.number);
        Some(buffer)
    }

    fn give(&mut self, buffer: Buf) {
        let before = self.world.holders[buffer.number].replace(Holder::Pool);
        assert_ne!(before, Holder::Pool, "buffer {} came back twice", buffer.number);
        self.free.borrow_mut().push(buffer);
    }
}
