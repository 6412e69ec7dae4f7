//! The machine as a driver sees it: the [`kpps_platform`] traits, with the costs of this host. A driver's
//! register accesses, cache misses, copies and allocations are charged here.

use crate::cpu::{Function, Machine};
use crate::memory::{BASE, Bytes, Words};
use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

/// A card's slot, seen from the CPU.
#[derive(Clone)]
pub struct Card {
    machine: Machine,
    slot: usize,
}

impl Card {
    /// The card in `slot`.
    #[inline]
    pub fn new(machine: &Machine, slot: usize) -> Self {
        Self { machine: machine.clone(), slot }
    }

    /// The machine that the slot is in.
    #[inline]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The slot.
    #[inline]
    pub fn slot(&self) -> usize {
        self.slot
    }
}

impl Registers for Card {
    #[inline]
    fn read(&self, offset: u32) -> u32 {
        self.machine.register_read(self.slot, offset)
    }
    #[inline]
    fn write(&self, offset: u32, value: u32) {
        self.machine.register_write(self.slot, offset, value);
    }
}

impl Platform for Card {
    type Regs = Card;
    type Mem = Ring;

    #[inline]
    fn registers(&self) -> Card {
        self.clone()
    }
    #[inline]
    fn allocate(&self, spec: DmaSpec) -> Result<Ring, OutOfMemory> {
        let offset = self.machine.host().ring_offset_bytes;
        let words = Words::allocate(self.machine.memory(), spec.bytes + offset, spec.align, spec.boundary);
        let words = words.map(|words| words.skip(offset));
        let words = words.filter(|w| w.address() + spec.bytes as u64 - 1 <= spec.max_address);
        Ok(Ring { words: words.ok_or(OutOfMemory)?, machine: self.machine.clone() })
    }
    #[inline]
    fn now_ns(&self) -> u64 {
        self.machine.now_ps() / crate::NS
    }
    #[inline]
    fn wait_ns(&self, ns: u64) {
        self.machine.spend(ns * crate::NS);
    }
}

/// Ring memory; touching a descriptor costs what it costs on this host.
pub struct Ring {
    words: Words,
    machine: Machine,
}

impl DmaMemory for Ring {
    #[inline]
    fn bus(&self) -> u64 {
        self.words.address()
    }
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.words.as_slice()
    }
    #[inline]
    fn sync_for_cpu(&self, bytes: Range<usize>) {
        self.machine.spend_on(Function::Examine, self.machine.host().examine_ps);
        self.machine.catch_up();
        self.machine.touch(Function::Examine, self.words.address() + bytes.start as u64, bytes.len());
    }
    #[inline]
    fn sync_for_device(&self, _bytes: Range<usize>) {
        self.machine.spend_on(Function::Fill, self.machine.host().fill_ps);
    }
}

/// A packet buffer of a simulated host.
pub struct Buf {
    bytes: Bytes,
    machine: Machine,
    /// The CPU that set up its packet structure.
    cpu: usize,
}

impl Buffer for Buf {
    #[inline]
    fn bus(&self) -> u64 {
        self.bytes.address()
    }
    #[inline]
    fn capacity(&self) -> usize {
        self.bytes.as_slice().len()
    }
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_mut_slice()
    }
    #[inline]
    fn copy_from(&mut self, other: &Self, len: usize) -> bool {
        match (self.bytes.as_mut_slice().get_mut(..len), other.bytes.as_slice().get(..len)) {
            (Some(to), Some(from)) => to.copy_from_slice(from),
            _ => return false,
        }
        self.machine.spend_on(Function::Copy, len as u64 * self.machine.host().copy_byte_ps);
        true
    }
    /// The driver and its stack read the headers, and pay for the frame's first cache line. Cards need not
    /// catch up first: a buffer belongs either to a card or to the driver, as the descriptor has shown.
    #[inline]
    fn sync_for_cpu(&self, len: usize) {
        self.machine.spend_on(Function::Frame, self.machine.host().frame_ps);
        self.machine.touch(
            Function::Frame,
            self.bytes.address(),
            len.min(self.machine.memory().line_bytes()),
        );
    }
}

/// Where packet buffers come from. A handle: clones share the free buffers.
///
/// It is the kernel's allocator, with its costs. [`Allocator::recycling`] is a list in front of it, as
/// drivers and routers have that recycle their buffers.
#[derive(Clone)]
pub struct Allocator {
    machine: Machine,
    free: Rc<RefCell<Vec<Buf>>>,
    small: Rc<RefCell<Vec<Buf>>>,
    recycling: bool,
}

/// Bytes of a small buffer.
pub const SMALL_BYTES: usize = 256;

impl Allocator {
    /// An allocator of `buffers` buffers of `bytes` each, aligned to their size if that is a power of two, so
    /// that none crosses 64 KiB; fewer if memory does not suffice.
    #[inline]
    pub fn new(machine: &Machine, buffers: usize, bytes: usize) -> Self {
        let free = made(machine, buffers, bytes);
        Self { machine: machine.clone(), free, small: Rc::default(), recycling: false }
    }

    /// The same, and `buffers` buffers of [`SMALL_BYTES`]. Both cost the same: most of the allocator's work
    /// is the packet structure.
    #[inline]
    pub fn with_small(self, buffers: usize) -> Self {
        Self { small: made(&self.machine, buffers, SMALL_BYTES), ..self }
    }

    /// Takes buffers out for good, at no cost: before the machine is started.
    #[inline]
    pub fn set_aside(&self, buffers: usize) -> Vec<Buf> {
        let mut free = self.free.borrow_mut();
        // The ones that would be taken last.
        let most = buffers.min(free.len());
        free.drain(..most).collect()
    }

    /// The same buffers without the allocator's work: taking and giving is a list operation.
    #[inline]
    pub fn recycling(&self) -> Self {
        Self { recycling: true, ..self.clone() }
    }
}

#[inline]
fn made(machine: &Machine, buffers: usize, bytes: usize) -> Rc<RefCell<Vec<Buf>>> {
    let align = if bytes.is_power_of_two() { bytes } else { 16 };
    let bytes = (0..buffers).map_while(|_| Bytes::allocate(machine.memory(), bytes, align));
    Rc::new(RefCell::new(bytes.map(|bytes| Buf { bytes, machine: machine.clone(), cpu: 0 }).collect()))
}

impl Allocator {
    #[inline]
    fn take_from(&self, free: &RefCell<Vec<Buf>>) -> Option<Buf> {
        let host = self.machine.host();
        if self.recycling {
            self.machine.spend_on(Function::Recycle, host.recycle_ps);
        } else {
            self.machine.spend_on(Function::Allocate, host.allocate_ps);
            if host.allocate_lines > 0 {
                self.machine.fetch_lines(Function::Allocate, host.allocate_lines);
            }
            self.machine.count(|c| c.allocations += 1);
        }
        let mut buffer = free.borrow_mut().pop()?;
        if !self.recycling {
            self.machine.count(|c| c.allocated_bytes += buffer.capacity() as u64);
        }
        buffer.cpu = self.machine.cpu();
        Some(buffer)
    }
}

impl BufferSource for Allocator {
    type Buf = Buf;
    #[inline]
    fn take(&mut self) -> Option<Buf> {
        self.take_from(&self.free)
    }
    #[inline]
    fn take_small(&mut self, bytes: usize) -> Option<Buf> {
        self.take_from(if bytes <= SMALL_BYTES { &self.small } else { &self.free })
    }
    #[inline]
    fn give(&mut self, buffer: Buf) {
        let (machine, host) = (&self.machine, self.machine.host());
        if self.recycling {
            machine.spend_on(Function::Recycle, host.recycle_ps);
        } else {
            machine.spend_on(Function::Free, host.free_ps);
            if host.free_lines > 0 {
                machine.fetch_lines(Function::Free, host.free_lines);
            }
        }
        if buffer.cpu != machine.cpu() {
            machine.move_lines(host.buffer_lines);
        }
        let pool = if buffer.capacity() == SMALL_BYTES { &self.small } else { &self.free };
        pool.borrow_mut().push(buffer);
    }
}

/// The memory that a machine with `rings` and `buffers` needs, in bytes.
#[inline]
pub fn memory_bytes(rings: usize, buffers: usize, buffer_bytes: usize) -> usize {
    BASE as usize + rings * 2 * 65_536 + buffers * buffer_bytes.next_multiple_of(16)
}
