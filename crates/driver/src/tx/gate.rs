//! How long a transmit queue is, and when who waits for it is told: what a sender in front of [`TxQueue`](crate::TxQueue) asks.
//!
//! A queue must hold what the device sends between the moment at which a waiting sender is told of room and the moment at which it is
//! back: otherwise the device waits. And it should hold several times that, for each such event costs CPU time. More is only delay.
//! Nobody knows that time beforehand, so it is found, in frames: of half a queue, at which a sender is told, so many are gone
//! when it is back. If that is more than a [`SHORT`]th the queue becomes twice as long; if it is less than a quarter of that, an
//! eighth shorter. An empty queue tells that the sender was told too late, too.

/// The shortest queue: frames are reported as done in batches of this order.
const LEAST: usize = 64;
/// A sender should be away for at most this part of the time that half a queue lasts.
const SHORT: usize = 16;

/// The length of a transmit queue, found on line, and its event: there is room again.
#[derive(Clone, Debug)]
pub struct TxGate {
    /// Descriptors that may be in use.
    limit: usize,
    most: usize,
    /// A sender waits.
    shut: bool,
    /// It was told, and has not filled the queue since.
    told: bool,
    /// Descriptors that were in use then, and the fewest since.
    opened: usize,
    least: usize,
}

impl TxGate {
    /// For a ring of `ring` descriptors. It starts short.
    pub fn new(ring: u16) -> Self {
        let most = usize::from(ring).saturating_sub(1).max(1);
        Self { limit: LEAST.min(most), most, shut: false, told: false, opened: 0, least: 0 }
    }

    /// Descriptors that may be in use, as found so far.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether a frame may be sent with `pending` descriptors in use. If not, [`opens`](Self::opens) will tell.
    #[inline]
    pub fn admits(&mut self, pending: usize) -> bool {
        if self.shut {
            return false;
        }
        self.least = self.least.min(pending);
        if pending >= self.limit {
            self.fill_up(pending);
        }
        !self.shut
    }

    /// The queue is full: was it long enough while its sender was away?
    fn fill_up(&mut self, pending: usize) {
        if core::mem::take(&mut self.told) {
            let half = self.limit / 2;
            let gone = self.opened.saturating_sub(self.least);
            if self.least == 0 || gone * SHORT > half {
                self.limit = (self.limit * 2).min(self.most);
            } else if gone * SHORT * 4 < half {
                self.limit = (self.limit - self.limit / 8).max(LEAST.min(self.most));
            }
        }
        self.shut = pending >= self.limit;
    }

    /// To be called after [`reclaim`](crate::TxQueue::reclaim), with what is still in use: whether senders that wait are to be told.
    #[inline]
    pub fn opens(&mut self, pending: usize) -> bool {
        let opens = self.shut && pending <= self.limit / 2;
        if opens {
            (self.shut, self.told, self.opened, self.least) = (false, true, pending, pending);
        }
        opens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends through a gate: the device sends a frame in each unit of time, a sender that is told is back after `delay` of them.
    /// Units in which the device had nothing, of the last half, and the limit found.
    fn idle(ring: u16, delay: u32) -> (u32, usize) {
        const UNITS: u32 = 100_000;
        let mut gate = TxGate::new(ring);
        let (mut pending, mut back_at, mut idle) = (0usize, Some(0), 0);
        for now in 0..UNITS {
            if back_at.is_some_and(|at| at <= now) {
                while gate.admits(pending) {
                    pending += 1;
                }
                back_at = None;
            }
            if pending == 0 {
                idle += u32::from(now > UNITS / 2);
            } else {
                pending -= 1;
            }
            if gate.opens(pending) {
                back_at = Some(now + delay);
            }
        }
        (idle, gate.limit())
    }

    #[test]
    fn a_queue_is_as_long_as_its_senders_take_to_come_back() {
        for delay in [1, 10, 100, 1000] {
            let (idle, limit) = idle(4096, delay);
            assert!(idle < 500, "a delay of {delay}: idle {idle} of 50000, limit {limit}");
            let needed = 2 * SHORT * delay as usize;
            assert!(limit <= 4 * needed.max(LEAST), "a delay of {delay}: a limit of {limit}");
        }
    }

    #[test]
    fn a_ring_that_is_too_short_is_used_whole() {
        let (idle, limit) = idle(64, 100);
        assert!(idle > 0 && limit == 63);
    }

    #[test]
    fn who_waits_is_told_once() {
        let mut gate = TxGate::new(256);
        assert!(gate.admits(63) && !gate.opens(0), "nobody waits");
        assert!(!gate.admits(64) && !gate.admits(3), "shut until it opens");
        assert!(!gate.opens(33) && gate.opens(32) && !gate.opens(0));
        assert!(gate.admits(1));
    }
}
