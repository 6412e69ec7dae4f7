//! The costs of a simulated host: its CPU, its caches and its memory allocator.
//!
//! The work of a driver and a kernel on a packet buffer, a descriptor or an interrupt is the same on every
//! host: a number of cycles and a number of cache lines ([`Work`]). A host says how long its cycles are, what
//! a line costs from memory and from its cache, and how much its cache holds ([`Host`]). [`Params::new`]
//! makes times of both.

use crate::limits::{STEP_PS, check};
use serde::Deserialize;

/// A host: clock, caches and memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Size of a cache line in bytes.
    pub cache_line_bytes: usize,
    /// Fetching one line from memory: a card has written the line, or it was evicted.
    pub cache_miss_ps: u64,
    /// Fetching one line that a card has written, if cards write into the largest cache, as with Intel's Data
    /// Direct I/O; `None`: they write into memory, and it takes `cache_miss_ps`.
    #[serde(default)]
    pub dma_line_ps: Option<u64>,
    /// Bytes that one fetch of a packet structure brings, where a line and its neighbour are fetched
    /// together; 0: one line.
    #[serde(default)]
    pub fetch_bytes: usize,
    /// Bytes of the largest cache.
    pub cache_bytes: usize,
    /// Fetching one line from that cache.
    pub cached_line_ps: u64,
    /// One clock cycle.
    pub cycle_ps: u64,
    /// Cycles that this CPU takes for what takes a Pentium III one.
    pub cycles_ratio: f64,
    /// Cycles of its own that this CPU takes into an interrupt handler and out of it: vector, privilege,
    /// pipeline, interrupt controller.
    pub interrupt_cycles: u64,
    /// The CPU's own cycles for an instruction that waits until all others are done: a locked instruction, or
    /// an instruction that turns interrupts off or on.
    pub lock_cycles: u64,
    /// Fetching one line that another CPU has written.
    pub line_transfer_ps: u64,
    /// Copying or summing a byte that is in no cache; 0: unknown, and workloads that copy are refused.
    #[serde(default)]
    pub copy_byte_ps: u64,
    /// The same of a byte that is in the cache.
    #[serde(default)]
    pub copy_cached_byte_ps: u64,
    /// Starting the chipset's copy engine for one piece, and checking that it has finished; 0: it has no
    /// engine.
    #[serde(default)]
    pub dma_copy_ps: u64,
    /// The engine's time for a byte.
    #[serde(default)]
    pub dma_copy_byte_ps: u64,
    /// The offset of a descriptor ring from the beginning of a cache line, in bytes: 0 if the allocator
    /// aligns rings to lines; otherwise a multiple of 16, the alignment that cards need.
    #[serde(default)]
    pub ring_offset_bytes: usize,
    /// Whether descriptor rings are in memory of type UC: not cached, not read ahead, each access a
    /// transaction of its own, in the order of the program (Intel 64 and IA-32 Architectures Software
    /// Developer's Manual, volume 3A, Memory Cache Control: Strong Uncacheable).
    #[serde(default)]
    pub ring_uncached: bool,
    /// The CPU's wait for a write of at most 8 bytes to such memory; `None`: as long as for a read, as
    /// neither may pass the other. A read takes `cache_miss_ps`: the CPU waits for the same memory.
    #[serde(default)]
    pub uncached_write_ps: Option<u64>,
    /// The throughput of memory, for CPUs and cards together, in megabytes a second; 0: no limit.
    #[serde(default)]
    pub memory_mb_per_s: u64,
    /// A time that was measured on this host, in place of what [`Work`] gives: see [`Params::examine_ps`].
    pub examine_ps: Option<u64>,
    /// A time that was measured on this host, in place of what [`Work`] gives: see [`Params::frame_ps`].
    pub frame_ps: Option<u64>,
    /// A time that was measured on this host, in place of what [`Work`] gives: see [`Params::fill_ps`].
    pub fill_ps: Option<u64>,
    /// A time that was measured on this host, in place of what [`Work`] gives: see
    /// [`Params::interrupt_entry_ps`].
    pub interrupt_entry_ps: Option<u64>,
    /// A time that was measured on this host, in place of what [`Work`] gives: see
    /// [`Params::interrupt_exit_ps`].
    pub interrupt_exit_ps: Option<u64>,
    /// A time that was measured on this host, in place of what [`Work`] gives: see [`Params::allocate_ps`].
    pub allocate_ps: Option<u64>,
    /// A time that was measured on this host, in place of what [`Work`] gives: see [`Params::free_ps`].
    pub free_ps: Option<u64>,
    /// A time that was measured on this host, in place of what [`Work`] gives: see [`Params::recycle_ps`].
    pub recycle_ps: Option<u64>,
    /// A time that was measured on this host, in place of what [`Work`] gives: see [`Params::checksum_ps`].
    pub checksum_ps: Option<u64>,
}

/// The work of drivers and kernels that is the same on every host, in cycles of a Pentium III and in cache
/// lines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The driver's instructions around one descriptor that it examines.
    pub examine_cycles: u64,
    /// The driver's and the kernel's instructions to hand up one received frame: reading its header, setting
    /// up its packet structure.
    pub frame_cycles: u64,
    /// The driver's instructions around one descriptor that it fills.
    pub fill_cycles: u64,
    /// The kernel's instructions to enter an interrupt handler and to leave it, beside the CPU's own.
    pub interrupt_cycles: u64,
    /// Cache lines of code and data that an interrupt touches, and that were evicted if the last interrupt is
    /// long ago.
    pub interrupt_lines: u32,
    /// Taking a packet buffer and its structure from the CPU's array, and setting the structure up.
    pub allocate_cycles: u64,
    /// Instructions beside these that wait for all others.
    pub allocate_locks: u64,
    /// Taking a packet structure apart, and giving both back to the array.
    pub free_cycles: u64,
    /// Instructions beside these that wait for all others.
    pub free_locks: u64,
    /// Moving a batch of buffers between a CPU's array and the array that CPUs share, under a lock.
    pub batch_cycles: u64,
    /// Moving one buffer between an array and the allocator's lists.
    pub list_cycles: u64,
    /// Cache lines of the lists that this touches, which are in the cache if the buffer is.
    pub list_lines: u32,
    /// Making the buffers of a fresh page: the page allocator, a slab with its objects.
    pub grow_cycles: u64,
    /// Cache lines that this fetches from memory.
    pub grow_lines: u32,
    /// Giving the page of a buffer back to the page allocator.
    pub shrink_cycles: u64,
    /// Bytes of a packet structure.
    pub structure_bytes: u32,
    /// Cache lines beside the structure that allocating and freeing touches: the reference count behind the
    /// data.
    pub buffer_lines: u32,
    /// Cache lines of the structure that handing up a received frame touches.
    pub frame_lines: u32,
    /// Cache lines of a transmit ring's lock and state, of 64 bytes.
    pub ring_lines: u32,
    /// Taking one from, or giving one to, a list of recycled buffers.
    pub recycle_cycles: u64,
    /// The driver's instructions to work out the checksum status of one frame.
    pub checksum_cycles: u64,
}

impl Work {
    /// Checks the constants; the error names the one out of range.
    pub fn check(&self) -> Result<(), String> {
        const CYCLES: std::ops::RangeInclusive<u64> = 0..=1_000_000;
        check(&[
            ("examine_cycles", self.examine_cycles, CYCLES),
            ("frame_cycles", self.frame_cycles, CYCLES),
            ("fill_cycles", self.fill_cycles, CYCLES),
            ("interrupt_cycles", self.interrupt_cycles, CYCLES),
            ("interrupt_lines", self.interrupt_lines.into(), 0..=1024),
            ("allocate_cycles", self.allocate_cycles, CYCLES),
            ("allocate_locks", self.allocate_locks, 0..=100),
            ("free_cycles", self.free_cycles, CYCLES),
            ("free_locks", self.free_locks, 0..=100),
            ("batch_cycles", self.batch_cycles, CYCLES),
            ("list_cycles", self.list_cycles, CYCLES),
            ("list_lines", self.list_lines.into(), 0..=256),
            ("grow_cycles", self.grow_cycles, CYCLES),
            ("grow_lines", self.grow_lines.into(), 0..=1024),
            ("shrink_cycles", self.shrink_cycles, CYCLES),
            ("structure_bytes", self.structure_bytes.into(), 16..=4096),
            ("buffer_lines", self.buffer_lines.into(), 0..=256),
            ("frame_lines", self.frame_lines.into(), 0..=256),
            ("ring_lines", self.ring_lines.into(), 0..=256),
            ("recycle_cycles", self.recycle_cycles, CYCLES),
            ("checksum_cycles", self.checksum_cycles, CYCLES),
        ])
    }
}

/// The costs of one host, in picoseconds of its CPU and in its cache lines.
///
/// A driver has no cost constants. These are charged where it uses its platform interface
/// ([`crate::platform`]).
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// See [`Host`].
    pub cache_line_bytes: usize,
    /// See [`Host`].
    pub cache_miss_ps: u64,
    /// See [`Host`].
    pub dma_line_ps: u64,
    /// Lines of the largest cache.
    pub cache_lines: u64,
    /// See [`Host`].
    pub cached_line_ps: u64,
    /// The driver's instructions around one descriptor that it examines.
    pub examine_ps: u64,
    /// The driver's and the kernel's instructions to hand up one received frame.
    pub frame_ps: u64,
    /// Cache lines of its packet structure that this touches.
    pub frame_lines: u32,
    /// The driver's instructions around one descriptor that it fills.
    pub fill_ps: u64,
    /// Entering an interrupt handler: vector, registers, interrupt controller.
    pub interrupt_entry_ps: u64,
    /// Leaving it.
    pub interrupt_exit_ps: u64,
    /// Cache lines that an interrupt touches.
    pub interrupt_lines: u32,
    /// Allocating a packet buffer from the CPU's array.
    pub allocate_ps: u64,
    /// Freeing one into it.
    pub free_ps: u64,
    /// Moving a batch between that array and the shared one.
    pub batch_ps: u64,
    /// Moving one buffer between an array and the allocator's lists.
    pub list_ps: u64,
    /// Cache lines that this touches.
    pub list_lines: u32,
    /// Making buffers of a fresh page.
    pub grow_ps: u64,
    /// Giving such a page back.
    pub shrink_ps: u64,
    /// Cache lines that this fetches from memory.
    pub grow_lines: u32,
    /// Taking one from, or giving one to, a list of recycled buffers.
    pub recycle_ps: u64,
    /// The driver's instructions to work out the checksum status of one frame.
    pub checksum_ps: u64,
    /// The time of what takes a Pentium III one clock cycle, in ps: for costs that are known in its cycles.
    pub pentium_iii_cycle_ps: f64,
    /// One locked operation.
    pub lock_ps: u64,
    /// Fetching one line that another CPU has written.
    pub line_transfer_ps: u64,
    /// Cache lines of a packet structure and of what belongs to it, which allocating touches.
    pub structure_lines: u32,
    /// The same with the ring's entry, which freeing touches: what moves if another CPU frees.
    pub buffer_lines: u32,
    /// Cache lines of a transmit ring's lock and state.
    pub ring_lines: u32,
    /// See [`Host`].
    pub copy_byte_ps: u64,
    /// See [`Host`].
    pub copy_cached_byte_ps: u64,
    /// See [`Host`].
    pub dma_copy_ps: u64,
    /// See [`Host`].
    pub dma_copy_byte_ps: u64,
    /// See [`Host`].
    pub ring_offset_bytes: usize,
    /// See [`Host`].
    pub ring_uncached: bool,
    /// See [`Host`].
    pub uncached_write_ps: u64,
    /// See [`Host`].
    pub memory_mb_per_s: u64,
}

impl Params {
    /// The cost of `work` on `host`.
    pub fn new(host: &Host, work: &Work) -> Self {
        let own = |cycles: u64| cycles * host.cycle_ps;
        let pentium_iii_cycle_ps = host.cycles_ratio * host.cycle_ps as f64;
        let ps = |cycles| pentium_iii_ps(cycles, pentium_iii_cycle_ps);
        let locks = |locks: u64| own(locks * host.lock_cycles);
        let line = host.cache_line_bytes.max(1) as u32;
        let fetch = host.fetch_bytes as u32;
        let structure_lines = work.structure_bytes.div_ceil(fetch.max(line)) + work.buffer_lines;
        let interrupt_ps = own(host.interrupt_cycles) + ps(work.interrupt_cycles);
        Self {
            cache_line_bytes: host.cache_line_bytes,
            cache_miss_ps: host.cache_miss_ps,
            dma_line_ps: host.dma_line_ps.unwrap_or(host.cache_miss_ps),
            cache_lines: (host.cache_bytes / host.cache_line_bytes.max(1)) as u64,
            cached_line_ps: host.cached_line_ps,
            examine_ps: host.examine_ps.unwrap_or(ps(work.examine_cycles)),
            frame_ps: host.frame_ps.unwrap_or(ps(work.frame_cycles)),
            frame_lines: work.frame_lines,
            fill_ps: host.fill_ps.unwrap_or(ps(work.fill_cycles)),
            interrupt_entry_ps: host.interrupt_entry_ps.unwrap_or(interrupt_ps.div_ceil(2)),
            interrupt_exit_ps: host.interrupt_exit_ps.unwrap_or(interrupt_ps / 2),
            interrupt_lines: work.interrupt_lines,
            allocate_ps: host.allocate_ps.unwrap_or(ps(work.allocate_cycles) + locks(work.allocate_locks)),
            free_ps: host.free_ps.unwrap_or(ps(work.free_cycles) + locks(work.free_locks)),
            batch_ps: ps(work.batch_cycles),
            list_ps: ps(work.list_cycles),
            list_lines: work.list_lines,
            grow_ps: ps(work.grow_cycles),
            shrink_ps: ps(work.shrink_cycles),
            grow_lines: work.grow_lines,
            recycle_ps: host.recycle_ps.unwrap_or(ps(work.recycle_cycles)),
            checksum_ps: host.checksum_ps.unwrap_or(ps(work.checksum_cycles)),
            pentium_iii_cycle_ps,
            lock_ps: locks(1),
            line_transfer_ps: host.line_transfer_ps,
            structure_lines,
            buffer_lines: structure_lines + 1,
            ring_lines: (work.ring_lines * 64).div_ceil(line),
            copy_byte_ps: host.copy_byte_ps,
            copy_cached_byte_ps: host.copy_cached_byte_ps,
            dma_copy_ps: host.dma_copy_ps,
            dma_copy_byte_ps: host.dma_copy_byte_ps,
            ring_offset_bytes: host.ring_offset_bytes,
            ring_uncached: host.ring_uncached,
            uncached_write_ps: host.uncached_write_ps.unwrap_or(host.cache_miss_ps),
            memory_mb_per_s: host.memory_mb_per_s,
        }
    }

    /// The time of these steps.
    #[inline]
    pub fn steps_ps(&self, steps: Steps) -> u64 {
        self.pentium_iii_ps(steps.cycles) + steps.locks * self.lock_ps
    }

    /// The time of `cycles` cycles of a Pentium III.
    #[inline]
    pub fn pentium_iii_ps(&self, cycles: u64) -> u64 {
        pentium_iii_ps(cycles, self.pentium_iii_cycle_ps)
    }
}

/// Work of a kernel on its way: the unit of stacks' tables. Cache lines are counted where they are touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Instructions, in cycles of a Pentium III, without locked operations.
    pub cycles: u64,
    /// Locked operations, or pairs of turning interrupts off and on where one CPU needs no lock.
    pub locks: u64,
}

impl Steps {
    /// These cycles and locked operations.
    pub const fn new(cycles: u64, locks: u16) -> Self {
        Self { cycles, locks: locks as u64 }
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { cycles: self.cycles + other.cycles, locks: self.locks + other.locks }
    }

    /// The rest of these steps after a part of them.
    #[must_use]
    pub const fn without(self, part: Self) -> Self {
        Self { cycles: self.cycles.saturating_sub(part.cycles), locks: self.locks.saturating_sub(part.locks) }
    }
}

impl From<u64> for Steps {
    fn from(cycles: u64) -> Self {
        Self { cycles, locks: 0 }
    }
}

/// The time of `cycles` cycles of a Pentium III, each of which takes `cycle_ps`, rounded to the nearest.
#[inline]
fn pentium_iii_ps(cycles: u64, cycle_ps: f64) -> u64 {
    // Every step of a stack comes here. Signed numbers convert in one instruction, unsigned ones in several,
    // and `round` is a call without SSE 4.1.
    (cycles as i64 as f64 * cycle_ps + 0.5) as i64 as u64
}

impl Host {
    /// Checks the constants; the error names the one out of range.
    pub fn check(&self) -> Result<(), String> {
        if !(16..=128).contains(&self.cache_line_bytes) || !self.cache_line_bytes.is_power_of_two() {
            return Err(format!("cache_line_bytes = {} is not 16, 32, 64 or 128", self.cache_line_bytes));
        }
        if !self.ring_offset_bytes.is_multiple_of(16) || self.ring_offset_bytes >= self.cache_line_bytes {
            let most = self.cache_line_bytes - 16;
            return Err(format!(
                "ring_offset_bytes = {} is no multiple of 16 up to {most}",
                self.ring_offset_bytes
            ));
        }
        if !(0.1..=10.0).contains(&self.cycles_ratio) {
            return Err(format!("cycles_ratio = {} is not within 0.1 to 10", self.cycles_ratio));
        }
        let measured = [
            ("uncached_write_ps", self.uncached_write_ps),
            ("examine_ps", self.examine_ps),
            ("frame_ps", self.frame_ps),
            ("fill_ps", self.fill_ps),
            ("interrupt_entry_ps", self.interrupt_entry_ps),
            ("interrupt_exit_ps", self.interrupt_exit_ps),
            ("allocate_ps", self.allocate_ps),
            ("free_ps", self.free_ps),
            ("recycle_ps", self.recycle_ps),
            ("checksum_ps", self.checksum_ps),
        ];
        for (name, time_ps) in measured {
            check(&[(name, time_ps.unwrap_or(0), STEP_PS)])?;
        }
        check(&[
            ("cache_miss_ps", self.cache_miss_ps, STEP_PS),
            ("dma_line_ps", self.dma_line_ps.unwrap_or(0), STEP_PS),
            ("fetch_bytes", self.fetch_bytes as u64, 0..=256),
            ("cache_bytes", self.cache_bytes as u64, 1024..=1 << 30),
            ("cached_line_ps", self.cached_line_ps, STEP_PS),
            ("cycle_ps", self.cycle_ps, 50..=1_000_000),
            ("interrupt_cycles", self.interrupt_cycles, 0..=1_000_000),
            ("lock_cycles", self.lock_cycles, 0..=10_000),
            ("line_transfer_ps", self.line_transfer_ps, STEP_PS),
            ("copy_byte_ps", self.copy_byte_ps, 0..=1_000_000),
            ("copy_cached_byte_ps", self.copy_cached_byte_ps, 0..=1_000_000),
            ("dma_copy_ps", self.dma_copy_ps, STEP_PS),
            ("dma_copy_byte_ps", self.dma_copy_byte_ps, 0..=1_000_000),
            // Below this a card's own bursts would queue without end.
            (
                "memory_mb_per_s",
                if self.memory_mb_per_s == 0 { 1_000 } else { self.memory_mb_per_s },
                10..=1_000_000,
            ),
        ])
    }
}
