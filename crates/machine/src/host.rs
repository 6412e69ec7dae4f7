//! What the simulated host costs: the CPU, its caches and its memory allocator.

use serde::Deserialize;

/// The costs of one host, in picoseconds of its CPU.
///
/// A driver has no cost constant; these are charged where its platform interface is used.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Size of a cache line in bytes.
    pub cache_line_bytes: usize,
    /// Fetching one line that a card has written.
    pub cache_miss_ps: u64,
    /// The driver's instructions around one descriptor that it examines.
    pub examine_ps: u64,
    /// The driver's and the kernel's instructions to hand up one received frame: reading its header, setting up its
    /// packet structure.
    pub frame_ps: u64,
    /// The driver's instructions around one descriptor that it fills.
    pub fill_ps: u64,
    /// Entering an interrupt handler: vector, registers, interrupt controller.
    pub interrupt_entry_ps: u64,
    /// Leaving it, with what it pushed out of the caches.
    pub interrupt_exit_ps: u64,
    /// Allocating a packet buffer from the kernel's allocator.
    pub allocate_ps: u64,
    /// Freeing one.
    pub free_ps: u64,
    /// Taking one from, or giving one to, a list of recycled buffers.
    pub recycle_ps: u64,
}
