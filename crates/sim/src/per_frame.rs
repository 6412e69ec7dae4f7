//! What a frame costs, counted.

use kpps_machine::cpu::Counters;

/// How often what costs much was done in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// Cache lines fetched from memory: because a card had written them, or by the allocator.
    pub cache_misses: f64,
    /// Cache lines fetched from another CPU's cache.
    pub line_transfers: f64,
}

impl PerFrame {
    /// Counts from one reading to a later one, each the counters and the bus's transactions, for each of `frames`.
    pub(crate) fn between(from: (Counters, u64), to: (Counters, u64), frames: u64) -> Self {
        let ((before, transactions_before), (after, transactions)) = (from, to);
        let per = |after: u64, before: u64| (after - before) as f64 / frames.max(1) as f64;
        Self {
            interrupts: per(after.interrupts, before.interrupts),
            register_reads: per(after.register_reads, before.register_reads),
            register_writes: per(after.register_writes, before.register_writes),
            mask_writes: per(after.mask_writes, before.mask_writes),
            bus_transactions: per(transactions, transactions_before),
            allocations: per(after.allocations, before.allocations),
            allocated_bytes: per(after.allocated_bytes, before.allocated_bytes),
            cache_misses: per(after.cache_misses, before.cache_misses),
            line_transfers: per(after.line_transfers, before.line_transfers),
        }
    }
}
