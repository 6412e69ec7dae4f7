//! The throughput of memory, for CPUs and cards together, first come first served.
//!
//! It adds only the time that a transfer waits for others. Latency is [`crate::host::Params::cache_miss_ps`].

use std::cell::Cell;

/// The memory channels of a host, as one.
#[derive(Debug, Default)]
pub struct Channel {
    /// Megabytes a second; 0: any amount at once.
    mb_per_s: Cell<u64>,
    free_at_ps: Cell<u64>,
    bytes: Cell<u64>,
}

impl Channel {
    /// Sets the throughput in megabytes (10⁶ bytes) a second; 0 for no limit.
    pub fn set_rate(&self, mb_per_s: u64) {
        self.mb_per_s.set(mb_per_s);
    }

    /// Moves `bytes` at or after `now_ps`; returns how long after that the last is moved, in picoseconds.
    #[inline]
    pub fn transfer(&self, now_ps: u64, bytes: u64) -> u64 {
        self.bytes.set(self.bytes.get() + bytes);
        match self.mb_per_s.get() {
            0 => 0,
            rate => {
                let end = self.free_at_ps.get().max(now_ps) + bytes * 1_000_000 / rate;
                self.free_at_ps.set(end);
                end - now_ps
            }
        }
    }

    /// Bytes moved so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_queue() {
        let channel = Channel::default();
        assert_eq!(channel.transfer(0, 1 << 40), 0, "without a limit nothing waits");
        channel.set_rate(1_000);
        // A byte a nanosecond.
        assert_eq!(channel.transfer(0, 64), 64_000);
        assert_eq!(channel.transfer(10_000, 64), 118_000);
        assert_eq!(channel.transfer(1_000_000, 64), 64_000);
        assert_eq!(channel.bytes(), (1 << 40) + 192);
    }
}
