//! The machine as a driver sees it: the [`kpps_platform`] traits, with the costs of this host. A driver's
//! register accesses, cache misses, copies and allocations are charged here.

use crate::cpu::{Function, Machine, Seen};
use crate::limits::check;
use crate::memory::{BASE, Bytes, Words};
use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use serde::Deserialize;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
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

/// Ring memory; touching a descriptor has its cost on this host.
///
/// In memory that is not cached, an examination of a descriptor is one read: status, errors, length and
/// checksum are in one word of 8 bytes, which is all that the driver loads. A driver that loads each of them
/// reads more often. Filling a descriptor is two writes.
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
        if self.machine.host().ring_uncached {
            return self.machine.read_uncached(Function::Examine);
        }
        self.machine.touch(Function::Examine, self.words.address() + bytes.start as u64, bytes.len());
    }
    #[inline]
    fn sync_for_device(&self, bytes: Range<usize>) {
        self.machine.spend_on(Function::Fill, self.machine.host().fill_ps);
        if self.machine.host().ring_uncached {
            self.machine.write_uncached(Function::Fill, bytes.len());
        }
    }
}

/// A packet buffer of a simulated host.
pub struct Buf {
    bytes: Bytes,
    machine: Machine,
    /// The CPU that touched its packet structure last, and when.
    cpu: Cell<usize>,
    /// Whether it stands for a clone: its data are another packet's.
    clone: Cell<bool>,
    seen: Seen,
}

impl Buf {
    /// The CPU, in `function`, touches `lines` lines of the packet structure.
    #[inline]
    fn touch_structure(&self, function: Function, lines: u32) {
        let cpu = self.machine.cpu();
        if self.cpu.replace(cpu) == cpu {
            self.machine.touch_again(function, lines, &self.seen);
        } else {
            self.machine.move_lines(function, lines);
            self.seen.now(&self.machine);
        }
    }

    /// The CPU, in `function`, gives the buffer's page back, or takes it: what describes the page comes from
    /// memory, or is in the cache if the buffer was in use a short time ago.
    #[inline]
    fn touch_page(&self, function: Function) {
        let (machine, lines) = (&self.machine, self.machine.host().grow_lines);
        if self.seen.never() {
            self.cpu.set(machine.cpu());
            machine.fetch_lines(function, lines);
        } else {
            self.touch_structure(function, lines);
        }
    }
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
        self.touch_structure(Function::Frame, self.machine.host().frame_lines);
        self.machine.touch(
            Function::Frame,
            self.bytes.address(),
            len.min(self.machine.memory().line_bytes()),
        );
    }
}

/// How a kernel's allocator keeps free buffers: arrays of each CPU, which return the buffer that was freed
/// last, an array that the CPUs share, and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrays {
    /// Buffers in a CPU's array; 0: there are none, and each buffer goes to the lists.
    pub array: usize,
    /// Buffers that are moved at once when an array is empty or full.
    pub batch: usize,
    /// Buffers in the shared array; 0: there is none.
    pub shared: usize,
    /// Buffers in a slab, if the kernel gives pages back ([`Arrays::listed`]). `None`: pages stay.
    #[serde(default)]
    pub slab: Option<usize>,
}

impl Arrays {
    /// An allocator that never moves a buffer.
    pub const ENDLESS: Self = Self { array: 1 << 20, batch: 1, shared: 0, slab: None };

    /// Checks the constants; the error names the one out of range.
    pub fn check(&self) -> Result<(), String> {
        check(&[
            ("buffers.array", self.array, 0..=1 << 20),
            ("buffers.batch", self.batch, 1..=self.array.max(1)),
            ("buffers.shared", self.shared, 0..=1 << 20),
            ("buffers.slab", self.slab.unwrap_or(0), 0..=1 << 20),
        ])
    }

    /// The most buffers in the lists of a kernel that runs on `cpus` CPUs; the page of one more goes back to
    /// the page allocator. `free_limit` of Linux 2.6's mm/slab.c: a batch for each CPU, one more, and a slab.
    pub fn listed(&self, cpus: usize) -> Option<usize> {
        self.slab.map(|slab| (1 + cpus) * self.batch + slab)
    }
}

/// Where packet buffers come from. A handle: clones share the free buffers.
///
/// It is the kernel's allocator, with its costs. The cost of a buffer depends on where it was: in the array
/// of the CPU, in the lists, or in a page that was never used; and on how many lines the CPU has fetched
/// since it last touched the buffer's structure. [`Allocator::recycling`] is a list in front of it, as
/// drivers and routers have that recycle their buffers.
#[derive(Clone)]
pub struct Allocator {
    machine: Machine,
    large: Rc<Pool>,
    small: Rc<Pool>,
    recycling: bool,
}

/// Free buffers of one size.
struct Pool {
    rules: Arrays,
    /// The most buffers in `lists`.
    listed: Option<usize>,
    /// By CPU.
    arrays: Box<[RefCell<Stack>]>,
    shared: RefCell<Stack>,
    lists: RefCell<Stack>,
    /// Of pages that the page allocator has: never used, or given back, the last of these first.
    fresh: RefCell<Stack>,
}

/// Buffers, those freed last at the back.
type Stack = VecDeque<Buf>;

impl Pool {
    fn new(
        machine: &Machine,
        buffers: usize,
        bytes: usize,
        rules: Arrays,
        listed: Option<usize>,
    ) -> Rc<Self> {
        let align = if bytes.is_power_of_two() { bytes } else { 16 };
        let bytes = (0..buffers).map_while(|_| Bytes::allocate(machine.memory(), bytes, align));
        let buffer = |bytes| Buf {
            bytes,
            machine: machine.clone(),
            cpu: Cell::new(0),
            clone: Cell::new(false),
            seen: Seen::default(),
        };
        let empty = |most: usize| RefCell::new(Stack::with_capacity(most.min(buffers)));
        Rc::new(Self {
            rules,
            listed,
            arrays: (0..machine.cpus()).map(|_| empty(rules.array.max(rules.batch) + 1)).collect(),
            shared: empty(rules.shared),
            lists: empty(buffers),
            fresh: RefCell::new(bytes.map(buffer).collect()),
        })
    }

    /// The CPU's array.
    #[inline]
    fn array(&self, cpu: usize) -> &RefCell<Stack> {
        self.arrays.get(cpu).unwrap_or(&self.lists)
    }

    /// The free buffer that is found first, at no cost.
    #[inline]
    fn first(&self, cpu: usize) -> Option<Buf> {
        let kept = self.array(cpu).borrow_mut().pop_back();
        kept.or_else(|| self.others(cpu))
    }

    #[cold]
    fn others(&self, cpu: usize) -> Option<Buf> {
        let mut places = [&self.shared, &self.lists, &self.fresh].into_iter().chain(&self.arrays);
        places.find_map(|of| of.borrow_mut().pop_back()).inspect(|buffer| buffer.cpu.set(cpu))
    }

    /// A free buffer, when the CPU's array has none: from a batch of the shared array, from the lists, or
    /// from a fresh page.
    #[cold]
    fn refill(&self, machine: &Machine) -> Option<Buf> {
        let (host, cpu) = (machine.host(), machine.cpu());
        if !self.shared.borrow().is_empty() {
            machine.spend_on(Function::Allocate, host.batch_ps);
            let mut shared = self.shared.borrow_mut();
            let from = shared.len().saturating_sub(self.rules.batch);
            self.array(cpu).borrow_mut().extend(shared.drain(from..));
        } else {
            // One after the other, as the cost of each depends on where it was.
            for _ in 0..self.rules.batch {
                let Some(buffer) = self.take_listed(machine) else { break };
                self.array(cpu).borrow_mut().push_back(buffer);
            }
        }
        self.first(cpu)
    }

    fn take_listed(&self, machine: &Machine) -> Option<Buf> {
        let host = machine.host();
        machine.spend_on(Function::Allocate, host.list_ps);
        let listed = self.lists.borrow_mut().pop_back();
        if let Some(buffer) = listed {
            buffer.touch_structure(Function::Allocate, host.list_lines);
            return Some(buffer);
        }
        let fresh = self.fresh.borrow_mut().pop_back()?;
        machine.spend_on(Function::Allocate, host.grow_ps);
        fresh.touch_page(Function::Allocate);
        Some(fresh)
    }

    /// Makes room in the CPU's array: a batch goes to the shared array, or to the lists.
    #[cold]
    fn spill(&self, machine: &Machine) {
        let array = self.array(machine.cpu());
        if self.shared.borrow().len() + self.rules.batch <= self.rules.shared {
            machine.spend_on(Function::Free, machine.host().batch_ps);
            let mut array = array.borrow_mut();
            let batch = self.rules.batch.min(array.len());
            self.shared.borrow_mut().extend(array.drain(..batch));
            return;
        }
        for _ in 0..self.rules.batch {
            let Some(buffer) = array.borrow_mut().pop_front() else { break };
            self.list(machine, buffer);
        }
    }

    /// Puts a buffer back into the lists.
    fn list(&self, machine: &Machine, buffer: Buf) {
        machine.spend_on(Function::Free, machine.host().list_ps);
        buffer.touch_structure(Function::Free, machine.host().list_lines);
        if self.listed.is_some_and(|most| self.lists.borrow().len() >= most) {
            machine.spend_on(Function::Free, machine.host().shrink_ps);
            buffer.touch_page(Function::Free);
            self.fresh.borrow_mut().push_back(buffer);
        } else {
            self.lists.borrow_mut().push_back(buffer);
        }
    }
}

/// Bytes of a small buffer.
pub const SMALL_BYTES: usize = 256;

impl Allocator {
    /// An allocator of `buffers` buffers of `bytes` each, aligned to their size if that is a power of two, so
    /// that none crosses 64 KiB; fewer if memory does not suffice. The kernel runs on `cpus` CPUs, of which
    /// the machine may simulate fewer.
    #[inline]
    pub fn new(machine: &Machine, buffers: usize, bytes: usize, rules: Arrays, cpus: usize) -> Self {
        let listed = rules.listed(cpus);
        let large = Pool::new(machine, buffers, bytes, rules, listed);
        let small = Pool::new(machine, 0, SMALL_BYTES, rules, listed);
        Self { machine: machine.clone(), large, small, recycling: false }
    }

    /// The same, and `buffers` buffers of [`SMALL_BYTES`]. Both cost the same: most of the allocator's work
    /// is the packet structure.
    #[inline]
    pub fn with_small(self, buffers: usize) -> Self {
        let Pool { rules, listed, .. } = *self.large;
        Self { small: Pool::new(&self.machine, buffers, SMALL_BYTES, rules, listed), ..self }
    }

    /// Takes buffers out for good, at no cost: before the machine is started.
    #[inline]
    pub fn set_aside(&self, buffers: usize) -> Vec<Buf> {
        let mut fresh = self.large.fresh.borrow_mut();
        // The ones that would be taken last.
        let most = buffers.min(fresh.len());
        fresh.drain(..most).collect()
    }

    /// The same buffers without the allocator's work: taking and giving is a list operation.
    #[inline]
    pub fn recycling(&self) -> Self {
        Self { recycling: true, ..self.clone() }
    }

    /// A clone of a packet that exists: the kernel allocates a structure and no data, which is one object
    /// instead of two.
    #[inline]
    pub fn take_clone(&self) -> Option<Buf> {
        let (machine, host) = (&self.machine, self.machine.host());
        if self.recycling {
            return self.take_from(&self.large);
        }
        machine.spend_on(Function::Allocate, host.allocate_ps / 2);
        let buffer = self.kept(&self.large)?;
        buffer.clone.set(true);
        Some(buffer)
    }

    #[inline]
    fn take_from(&self, pool: &Pool) -> Option<Buf> {
        let (machine, host) = (&self.machine, self.machine.host());
        if self.recycling {
            machine.spend_on(Function::Recycle, host.recycle_ps);
            return pool.first(machine.cpu());
        }
        machine.spend_on(Function::Allocate, host.allocate_ps);
        let buffer = self.kept(pool)?;
        machine.count(|c| c.allocated_bytes += buffer.capacity() as u64);
        Some(buffer)
    }

    /// The buffer that the allocator finds first.
    #[inline]
    fn kept(&self, pool: &Pool) -> Option<Buf> {
        let machine = &self.machine;
        machine.count(|c| c.allocations += 1);
        let kept = pool.array(machine.cpu()).borrow_mut().pop_back();
        let buffer = match kept {
            Some(buffer) => buffer,
            None => pool.refill(machine)?,
        };
        buffer.touch_structure(Function::Allocate, machine.host().structure_lines);
        Some(buffer)
    }
}

impl BufferSource for Allocator {
    type Buf = Buf;
    #[inline]
    fn take(&mut self) -> Option<Buf> {
        self.take_from(&self.large)
    }
    #[inline]
    fn take_small(&mut self, bytes: usize) -> Option<Buf> {
        self.take_from(if bytes <= SMALL_BYTES { &self.small } else { &self.large })
    }
    #[inline]
    fn give(&mut self, buffer: Buf) {
        let (machine, host) = (&self.machine, self.machine.host());
        let pool = if buffer.capacity() == SMALL_BYTES { &self.small } else { &self.large };
        if self.recycling {
            machine.spend_on(Function::Recycle, host.recycle_ps);
            if buffer.cpu.get() != machine.cpu() {
                buffer.touch_structure(Function::Recycle, host.buffer_lines);
            }
            pool.array(machine.cpu()).borrow_mut().push_back(buffer);
            return;
        }
        let share = if buffer.clone.replace(false) { 2 } else { 1 };
        machine.spend_on(Function::Free, host.free_ps / share);
        buffer.touch_structure(Function::Free, host.buffer_lines);
        if pool.rules.array == 0 {
            return pool.list(machine, buffer);
        }
        if pool.array(machine.cpu()).borrow().len() >= pool.rules.array {
            pool.spill(machine);
        }
        pool.array(machine.cpu()).borrow_mut().push_back(buffer);
    }
}

/// The memory that a machine with `rings` and `buffers` needs, in bytes.
#[inline]
pub fn memory_bytes(rings: usize, buffers: usize, buffer_bytes: usize) -> usize {
    BASE as usize + rings * 2 * 65_536 + buffers * buffer_bytes.next_multiple_of(16)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::{Host, Params, Work};
    use crate::memory::Memory;
    use crate::{World, bus};

    const LINE: usize = 32;

    fn machine() -> Machine {
        let bus: bus::Params = bus::Params::plain();
        let host = Params {
            cache_line_bytes: LINE,
            cache_miss_ps: 100_000,
            dma_line_ps: 100_000,
            cache_lines: 1000,
            cached_line_ps: 10,
            allocate_ps: 1,
            free_ps: 2,
            batch_ps: 3_000,
            list_ps: 5_000,
            list_lines: 0,
            grow_ps: 7_000_000,
            shrink_ps: 3_000_000,
            grow_lines: 4,
            structure_lines: 6,
            buffer_lines: 0,
            pentium_iii_cycle_ps: 1000.0,
            ..Params::default()
        };
        Machine::new(host, World::new(Memory::new(1 << 20, LINE), bus))
    }

    /// The cost of some work.
    fn cost(machine: &Machine, work: impl FnOnce()) -> u64 {
        let began = machine.now_ps();
        work();
        machine.now_ps() - began
    }

    const ARRAYS: Arrays = Arrays { array: 4, batch: 2, shared: 2, slab: None };

    #[test]
    fn a_fresh_page_is_dear_and_what_was_just_freed_is_cheap() {
        let machine = machine();
        let mut source = Allocator::new(&machine, 8, 2048, ARRAYS, 1);
        let mut held = None;
        // Two buffers of fresh pages. One is taken, with its structure cold.
        let first = cost(&machine, || held = source.take());
        assert_eq!(first, 1 + 2 * (5_000 + 7_000_000 + 4 * 100_000) + 6 * 100_000);
        assert_eq!(cost(&machine, || source.give(held.take().unwrap())), 2);
        assert_eq!(cost(&machine, || held = source.take()), 1 + 6 * 10);
        // A cache of other lines later it is cold again.
        source.give(held.take().unwrap());
        machine.fetch_lines(Function::Other, 1000);
        assert_eq!(cost(&machine, || held = source.take()), 1 + 6 * 100_000);
    }

    #[test]
    fn a_full_array_spills_to_the_shared_one_and_then_to_the_lists() {
        let machine = machine();
        let mut source = Allocator::new(&machine, 8, 2048, ARRAYS, 1);
        let held: Vec<_> = (0..8).map(|_| source.take().unwrap()).collect();
        assert!(source.take().is_none());
        let costs: Vec<_> = held.into_iter().map(|buf| cost(&machine, || source.give(buf))).collect();
        assert_eq!(costs, [2, 2, 2, 2, 3_002, 2, 2 * 5_000 + 2, 2]);
        // The way back: the array, a batch of the shared one, then the lists.
        let mut held = Vec::new();
        let costs: Vec<_> =
            (0..8).map(|_| cost(&machine, || held.push(source.take().unwrap())) - 61).collect();
        assert_eq!(costs, [0, 0, 0, 0, 3_000, 0, 2 * 5_000, 0]);
        assert!(source.take().is_none());
    }

    #[test]
    fn pages_of_more_free_buffers_than_are_listed_go_back() {
        let machine = machine();
        // A batch of one for each of two CPUs, one more, and a slab of one.
        let rules = Arrays { array: 0, batch: 1, shared: 0, slab: Some(1) };
        let mut source = Allocator::new(&machine, 5, 2048, rules, 2);
        let held: Vec<_> = (0..5).map(|_| source.take().unwrap()).collect();
        let costs: Vec<_> = held.into_iter().map(|buf| cost(&machine, || source.give(buf))).collect();
        assert_eq!(costs[3], costs[0]);
        assert_eq!(costs[4] - costs[3], 3_000_000 + 4 * 10);
        // Buffers in the lists are taken first. The page of the other is made anew, with lines that are in
        // the cache.
        let mut held = Vec::new();
        let costs: Vec<_> = (0..5).map(|_| cost(&machine, || held.push(source.take().unwrap()))).collect();
        assert_eq!(costs[4] - costs[3], 7_000_000 + 4 * 10);
        assert!(source.take().is_none());
    }

    #[test]
    fn a_clone_costs_half() {
        let machine = machine();
        let mut source = Allocator::new(&machine, 2, 2048, ARRAYS, 1);
        let buffer = source.take().unwrap();
        source.give(buffer);
        let mut held = None;
        assert_eq!(cost(&machine, || held = source.take_clone()), 6 * 10);
        assert_eq!(cost(&machine, || source.give(held.take().unwrap())), 1);
        assert_eq!(cost(&machine, || held = source.take()), 1 + 6 * 10);
        assert_eq!(cost(&machine, || source.give(held.take().unwrap())), 2);
    }

    #[test]
    fn recycling_costs_no_allocator() {
        let machine = machine();
        let mut source =
            Allocator::new(&machine, 2, 2048, Arrays { array: 0, batch: 1, shared: 0, slab: None }, 1)
                .recycling();
        let mut held = None;
        assert_eq!(cost(&machine, || held = source.take()), 0);
        assert_eq!(cost(&machine, || source.give(held.take().unwrap())), 0);
        assert_eq!(machine.counters().allocations, 0);
    }

    /// A line of two descriptors: cached, it is fetched once after a card has written it; uncached, each look
    /// and each write of 8 bytes waits, whoever wrote last, and nothing is fetched.
    #[test]
    fn an_uncached_ring_costs_each_look_and_each_write() {
        let ring = |ring_uncached, uncached_write_ps| {
            let (examine_ps, fill_ps) = (7, 9);
            let own =
                Params { ring_uncached, uncached_write_ps, examine_ps, fill_ps, ..machine().host().clone() };
            let machine = Machine::new(own, World::new(Memory::new(1 << 20, LINE), bus::Params::plain()));
            let spec = DmaSpec { bytes: 64, align: 64, boundary: None, max_address: u64::MAX };
            let ring = Card::new(&machine, 0).allocate(spec).unwrap();
            assert!(machine.memory().store(ring.bus(), &[1; LINE]));
            (machine, ring)
        };
        for (uncached, write_ps, costs, counts) in [
            (false, 0, [100_007, 7, 7, 9], (1, 0)),
            (true, 0, [100_007, 100_007, 100_007, 9], (0, 5)),
            (true, 30_000, [100_007, 100_007, 100_007, 60_009], (0, 5)),
        ] {
            let (machine, ring) = ring(uncached, write_ps);
            let looks = [0, 16, 16].map(|at| cost(&machine, || ring.sync_for_cpu(at..at + 16)));
            let write = cost(&machine, || ring.sync_for_device(0..16));
            assert_eq!([looks[0], looks[1], looks[2], write], costs);
            let counted = machine.counters();
            assert_eq!((counted.cache_misses, counted.uncached), counts);
        }
    }

    #[test]
    fn an_interrupt_long_ago_finds_its_lines_gone() {
        let mut host = machine().host().clone();
        (host.interrupt_entry_ps, host.interrupt_exit_ps, host.interrupt_lines) = (50, 30, 3);
        let machine = Machine::new(host, World::new(Memory::new(1 << 20, LINE), bus::Params::plain()));
        let interrupt = || {
            machine.enter_interrupt();
            machine.leave_interrupt();
        };
        assert_eq!(cost(&machine, interrupt), 80 + 3 * 100_000);
        assert_eq!(cost(&machine, interrupt), 80);
        machine.fetch_lines(Function::Other, 1000);
        assert_eq!(cost(&machine, interrupt), 80 + 3 * 100_000);
    }

    #[test]
    fn the_same_work_takes_longer_where_cycles_are_longer_and_lines_shorter() {
        let work: Work = Work {
            examine_cycles: 64,
            frame_cycles: 174,
            fill_cycles: 63,
            interrupt_cycles: 100,
            interrupt_lines: 18,
            allocate_cycles: 400,
            allocate_locks: 2,
            free_cycles: 200,
            free_locks: 5,
            batch_cycles: 150,
            list_cycles: 60,
            list_lines: 2,
            grow_cycles: 2000,
            shrink_cycles: 1000,
            grow_lines: 8,
            structure_bytes: 160,
            buffer_lines: 1,
            frame_lines: 2,
            ring_lines: 2,
            recycle_cycles: 32,
            checksum_cycles: 20,
        };
        let host = |cycle_ps, cycles_ratio, cache_line_bytes, allocate_ps| Host {
            cache_line_bytes,
            cache_miss_ps: 100_000,
            dma_line_ps: None,
            fetch_bytes: 0,
            cache_bytes: 262_144,
            cached_line_ps: 10_000,
            cycle_ps,
            cycles_ratio,
            interrupt_cycles: 50,
            lock_cycles: if cycles_ratio > 1.0 { 100 } else { 0 },
            line_transfer_ps: 0,
            copy_byte_ps: 0,
            copy_cached_byte_ps: 0,
            dma_copy_ps: 0,
            dma_copy_byte_ps: 0,
            ring_offset_bytes: 0,
            ring_uncached: false,
            uncached_write_ps: None,
            memory_mb_per_s: 0,
            examine_ps: None,
            frame_ps: None,
            fill_ps: None,
            interrupt_entry_ps: None,
            interrupt_exit_ps: None,
            allocate_ps,
            free_ps: None,
            recycle_ps: None,
            checksum_ps: None,
        };
        let slow = Params::new(&host(1250, 1.0, 32, None), &work);
        assert_eq!((slow.allocate_ps, slow.structure_lines, slow.cache_lines), (500_000, 6, 8192));
        assert_eq!(slow.interrupt_entry_ps + slow.interrupt_exit_ps, 150 * 1250);
        let quick = Params::new(&host(400, 1.5, 64, None), &work);
        assert_eq!((quick.allocate_ps, quick.structure_lines, quick.ring_lines), (320_000, 4, 2));
        assert_eq!(quick.free_ps, 120_000 + 5 * 100 * 400);
        // The CPU's own cycles are its own.
        assert_eq!(quick.interrupt_entry_ps + quick.interrupt_exit_ps, 50 * 400 + 100 * 600);
        let measured = Params::new(&host(400, 1.5, 64, Some(123)), &work);
        assert_eq!((measured.allocate_ps, measured.free_ps), (123, quick.free_ps));
        // An uncached write takes as long as a read, unless it is known.
        assert_eq!(quick.uncached_write_ps, 100_000);
        let known = Host { uncached_write_ps: Some(7), ..host(400, 1.5, 64, None) };
        assert_eq!(Params::new(&known, &work).uncached_write_ps, 7);
    }
}
