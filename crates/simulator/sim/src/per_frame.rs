//! The cost of a frame, counted.

use serde::{Deserialize, Serialize};

/// Expensive operations of the machine for a frame, on average over the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerFrame {
    /// Interrupt handlers entered.
    pub interrupts: f64,
    /// Device registers read by the CPU.
    pub register_reads: f64,
    /// Device registers written by the CPU.
    pub register_writes: f64,
    /// Of these, interrupt masks.
    pub mask_writes: f64,
    /// Bursts on the bus, register accesses among them.
    pub bus_transactions: f64,
    /// Packet buffers taken from the allocator.
    pub allocations: f64,
    /// Their bytes.
    pub allocated_bytes: f64,
    /// Cache lines fetched from memory, because a card had written them or by the allocator.
    pub cache_misses: f64,
    /// Cache lines fetched from another CPU's cache.
    pub line_transfers: f64,
}
