//! The costs of a simulated host: its CPU, its caches and its memory allocator.

use crate::limits::{STEP_PS, check};
use serde::Deserialize;

/// The costs of one host, in picoseconds of its CPU.
///
/// A driver has no cost constants. These are charged where it uses its platform interface
/// ([`crate::platform`]).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Size of a cache line in bytes.
    pub cache_line_bytes: usize,
    /// Fetching one line that a card has written.
    pub cache_miss_ps: u64,
    /// The driver's instructions around one descriptor that it examines.
    pub examine_ps: u64,
    /// The driver's and the kernel's instructions to hand up one received frame: reading its header, setting
    /// up its packet structure.
    pub frame_ps: u64,
    /// The driver's instructions around one descriptor that it fills.
    pub fill_ps: u64,
    /// Entering an interrupt handler: vector, registers, interrupt controller.
    pub interrupt_entry_ps: u64,
    /// Leaving it, and refilling the caches afterwards.
    pub interrupt_exit_ps: u64,
    /// Allocating a packet buffer from the kernel's allocator.
    pub allocate_ps: u64,
    /// Freeing one.
    pub free_ps: u64,
    /// Taking one from, or giving one to, a list of recycled buffers.
    pub recycle_ps: u64,
    /// The driver's instructions to work out the checksum status of one frame.
    pub checksum_ps: u64,
    /// One clock cycle: for costs that are known in cycles of any such CPU.
    pub cycle_ps: u64,
    /// Fetching one line that another CPU has written.
    pub line_transfer_ps: u64,
    /// Cache lines of a packet buffer and its structure that freeing it touches.
    pub buffer_lines: u32,
    /// Cache lines of a transmit ring's lock and state.
    pub ring_lines: u32,
    /// Cache lines that allocating a packet buffer fetches from memory, beside its instructions.
    #[serde(default)]
    pub allocate_lines: u32,
    /// Cache lines that freeing one fetches from memory.
    #[serde(default)]
    pub free_lines: u32,
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
    /// The throughput of memory, for CPUs and cards together, in megabytes a second; 0: no limit.
    #[serde(default)]
    pub memory_mb_per_s: u64,
}

impl Params {
    /// Whether a host can be like this; the error names what is out of range.
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
        check(&[
            ("cache_miss_ps", self.cache_miss_ps, STEP_PS),
            ("examine_ps", self.examine_ps, STEP_PS),
            ("frame_ps", self.frame_ps, STEP_PS),
            ("fill_ps", self.fill_ps, STEP_PS),
            ("interrupt_entry_ps", self.interrupt_entry_ps, STEP_PS),
            ("interrupt_exit_ps", self.interrupt_exit_ps, STEP_PS),
            ("allocate_ps", self.allocate_ps, STEP_PS),
            ("free_ps", self.free_ps, STEP_PS),
            ("recycle_ps", self.recycle_ps, STEP_PS),
            ("checksum_ps", self.checksum_ps, STEP_PS),
            ("cycle_ps", self.cycle_ps, 50..=1_000_000),
            ("line_transfer_ps", self.line_transfer_ps, STEP_PS),
            ("buffer_lines", self.buffer_lines.into(), 0..=256),
            ("ring_lines", self.ring_lines.into(), 0..=256),
            ("allocate_lines", self.allocate_lines.into(), 0..=256),
            ("free_lines", self.free_lines.into(), 0..=256),
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
