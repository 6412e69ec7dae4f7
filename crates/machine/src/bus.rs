//! The I/O bus: PCI and PCI-X as bursts on one shared, first-come-first-served resource.
//!
//! A burst takes an overhead in clocks plus one clock for every bus-width of data; a read also waits
//! for the target. That is what a bus trace shows at the level that matters for packets.

use crate::limits::{STEP_PS, check};
use serde::Deserialize;

/// One bus. All times in picoseconds, all overheads in bus clocks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// One clock.
    pub clock_ps: u64,
    /// Bytes that cross in one clock, a power of two.
    pub width_bytes: u32,
    /// Arbitration, address and turnaround of a burst, in clocks.
    pub overhead_clocks: u32,
    /// What a memory read by a card waits for its first word, beside the overhead.
    pub read_latency_ps: u64,
    /// Whether the bus is free for others during that wait (PCI-X split transactions).
    pub split_reads: bool,
    /// What a register read by the CPU takes beside its burst: bridge, and the card's own answer.
    pub register_read_ps: u64,
    /// What a register write costs the CPU: a posted write leaves through the bridge's buffer.
    pub register_write_ps: u64,
}

impl Params {
    /// Whether a bus can be like this; the error names what is out of range.
    pub fn check(&self) -> Result<(), String> {
        if !self.width_bytes.is_power_of_two() {
            return Err(format!("width_bytes = {} is not a power of two", self.width_bytes));
        }
        check(&[
            ("clock_ps", self.clock_ps, 100..=1_000_000),
            ("width_bytes", self.width_bytes.into(), 1..=64),
            ("overhead_clocks", self.overhead_clocks.into(), 0..=1000),
            ("read_latency_ps", self.read_latency_ps, STEP_PS),
            ("register_read_ps", self.register_read_ps, STEP_PS),
            ("register_write_ps", self.register_write_ps, STEP_PS),
        ])
    }
}

/// The state of a bus.
#[derive(Debug)]
pub struct Bus {
    params: Params,
    width_shift: u32,
    free_at_ps: u64,
    busy_ps: u64,
    transactions: u64,
}

impl Bus {
    /// An idle bus.
    pub fn new(params: Params) -> Self {
        let width_shift = params.width_bytes.next_power_of_two().trailing_zeros();
        Self { params, width_shift, free_at_ps: 0, busy_ps: 0, transactions: 0 }
    }

    /// The constants.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Time for which a burst of `bytes` occupies the bus, not counting a read's wait.
    #[inline]
    pub fn burst_ps(&self, bytes: u32) -> u64 {
        let data_clocks = u64::from(bytes).next_multiple_of(1 << self.width_shift) >> self.width_shift;
        (u64::from(self.params.overhead_clocks) + data_clocks) * self.params.clock_ps
    }

    /// Reserves the bus for a write burst at or after `now_ps`; returns when its last byte has crossed.
    #[inline]
    pub fn write(&mut self, now_ps: u64, bytes: u32) -> u64 {
        let start = now_ps.max(self.free_at_ps);
        let busy = self.burst_ps(bytes);
        self.occupy(start, busy)
    }

    /// Reserves the bus for a read burst at or after `now_ps`; returns when its last byte has arrived.
    #[inline]
    pub fn read(&mut self, now_ps: u64, bytes: u32) -> u64 {
        let start = now_ps.max(self.free_at_ps);
        let burst = self.burst_ps(bytes);
        if self.params.split_reads {
            self.occupy(start, burst) + self.params.read_latency_ps
        } else {
            self.occupy(start, burst + self.params.read_latency_ps)
        }
    }

    fn occupy(&mut self, start_ps: u64, busy_ps: u64) -> u64 {
        self.free_at_ps = start_ps + busy_ps;
        self.busy_ps += busy_ps;
        self.transactions += 1;
        self.free_at_ps
    }

    /// A register read by the CPU, begun at `now_ps`: returns when the answer is there.
    pub fn register_read(&mut self, now_ps: u64) -> u64 {
        self.write(now_ps, 4) + self.params.register_read_ps
    }

    /// A register write by the CPU, begun at `now_ps`: returns when the CPU goes on. The
    /// write itself crosses the bus behind what is already there.
    pub fn register_write(&mut self, now_ps: u64) -> u64 {
        self.write(now_ps, 4);
        now_ps + self.params.register_write_ps
    }

    /// Time for which the bus has been occupied.
    pub fn busy_ps(&self) -> u64 {
        self.busy_ps
    }

    /// Bursts so far, register accesses among them.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pci_64_66() -> Bus {
        Bus::new(Params {
            clock_ps: 15_000,
            width_bytes: 8,
            overhead_clocks: 4,
            read_latency_ps: 100_000,
            split_reads: false,
            register_read_ps: 400_000,
            register_write_ps: 100_000,
        })
    }

    #[test]
    fn bursts_queue_in_order() {
        let mut bus = pci_64_66();
        assert_eq!(bus.write(0, 64), 12 * 15_000);
        // Asked for while the first is under way: starts behind it.
        assert_eq!(bus.write(15_000, 1), (12 + 5) * 15_000);
        // Asked for later: starts at once.
        assert_eq!(bus.read(1_000_000, 16), 1_000_000 + 6 * 15_000 + 100_000);
        assert_eq!(bus.busy_ps(), (12 + 5 + 6) * 15_000 + 100_000);
        assert_eq!(bus.transactions(), 3);
    }

    #[test]
    fn a_split_read_leaves_the_bus_to_others() {
        let mut bus = pci_64_66();
        bus.params.split_reads = true;
        let answer = bus.read(0, 64);
        assert_eq!(answer, 12 * 15_000 + 100_000);
        assert!(bus.write(0, 8) < answer);
    }

    #[test]
    fn a_posted_write_does_not_wait_but_a_read_does() {
        let mut bus = pci_64_66();
        let busy_until = bus.write(0, 1024);
        assert_eq!(bus.register_write(0), 100_000);
        assert!(bus.register_read(0) > busy_until + 400_000);
    }
}
