//! How long a transmit queue is, and when who waits for it is told: what a sender in front of [`TxQueue`](crate::TxQueue) asks.
//!
//! The queue is all that waits to be sent: frames in the ring, and before it where a system has a queue of its own. It must
//! hold what the device sends between the moment at which a waiting sender is told of room and the moment at which it is
//! back: otherwise the device waits. And it should last several times that, for being told costs a sender about the time
//! until it is back. More is only delay. Nobody knows that time beforehand, so it is measured: if a sender was away for more
//! than a [`SHORT`]th of the time from one telling to the next the queue becomes a quarter longer; if for less than a quarter of
//! that, shorter, but slowly: too short a queue costs at once, too long a one only delays. A device that owes no report when the sender is back may have waited for it: told too late, too. The
//! clock is read twice for each telling, not for each frame.

/// Frames are reported as done in batches of this order.
const BATCH: usize = 32;
/// The shortest queue: a batch is being sent, another one waits, and a third is being made.
const LEAST: usize = 3 * BATCH;
/// A sender should be away for at most this part of the time: with what its last call costs, which is refused, that leaves it less
/// than a twentieth.
const SHORT: u64 = 32;

/// The length of a transmit queue, found on line, and its event: there is room again.
#[derive(Clone, Debug)]
pub struct TxGate {
    /// Frames that may wait.
    limit: usize,
    most: usize,
    /// A sender waits.
    shut: bool,
    /// When it was told last.
    told_ns: Option<u64>,
    /// How long it was away then, if it is back, and whether the device was sure to have work all the time.
    away: Option<(u64, bool)>,
}

impl TxGate {
    /// For a queue of at most `most` frames. It starts short.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { limit: LEAST.min(most), most, shut: false, told_ns: None, away: None }
    }

    /// Frames that may wait, as found so far.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether nobody has to wait.
    pub fn is_open(&self) -> bool {
        !self.shut
    }

    /// Whether another frame may be sent behind `pending` that wait, or are being sent. If not, [`opens`](Self::opens) will tell.
    /// Of a sender that was told `back` is asked: the time, in nanoseconds, and whether the device still has to report something.
    #[inline]
    pub fn admits(&mut self, pending: usize, back: impl FnOnce() -> (u64, bool)) -> bool {
        if self.shut {
            return false;
        }
        if self.away.is_none() {
            let (now_ns, busy) = back();
            self.away = Some((now_ns.saturating_sub(self.told_ns.unwrap_or(now_ns)), busy));
        }
        self.shut = pending >= self.limit;
        !self.shut
    }

    /// To be called when frames were sent, with those that still wait or may: whether senders that wait are to be told. The
    /// clock is read if so.
    #[inline]
    pub fn opens(&mut self, pending: usize, now_ns: impl FnOnce() -> u64) -> bool {
        // Half of the queue, give or take half a batch.
        let opens = self.shut && pending <= self.limit / 2 + BATCH / 2;
        if opens {
            let now_ns = now_ns();
            if let (Some(told_ns), Some((away_ns, busy))) = (self.told_ns, self.away) {
                self.fit(away_ns, busy, now_ns.saturating_sub(told_ns));
            }
            (self.shut, self.told_ns, self.away) = (false, Some(now_ns), None);
        }
        opens
    }

    /// The queue was full, and is half empty again `cycle_ns` after the last time: was it long enough while its sender was
    /// away?
    fn fit(&mut self, away_ns: u64, busy: bool, cycle_ns: u64) {
        if !busy || away_ns * SHORT > cycle_ns {
            self.limit = (self.limit + self.limit / 4).min(self.most);
        } else if away_ns * SHORT * 4 < cycle_ns {
            self.limit = (self.limit - self.limit / 64).max(LEAST.min(self.most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends through a gate: the device sends a frame in each unit of time, a sender that is told is back after `delay` of them and
    /// then sends one in `pace` of a unit. Of the last half: units in which the device had nothing, and those that the sender
    /// was away, both as shares; and the limit found.
    fn found(most: usize, delay: u64, pace: f64) -> (f64, f64, usize) {
        const UNITS: u64 = 200_000;
        let mut gate = TxGate::new(most);
        let (mut pending, mut back_at, mut idle, mut away) = (0usize, Some(0), 0, 0);
        let mut credit = 0.0;
        for now in 0..UNITS {
            let late = now > UNITS / 2;
            credit += 1.0 / pace;
            while credit >= 1.0 {
                credit -= 1.0;
                if back_at.is_some_and(|at| at <= now) {
                    match gate.admits(pending, || (now, pending > 0)) {
                        true => pending += 1,
                        false => back_at = None,
                    }
                }
            }
            if pending == 0 {
                idle += u64::from(late);
            } else {
                pending -= 1;
            }
            if gate.opens(pending, || now) {
                back_at = Some(now + delay);
                away += u64::from(late) * delay;
            }
        }
        let share = |units: u64| units as f64 * 2.0 / UNITS as f64;
        (share(idle), share(away), gate.limit())
    }

    #[test]
    fn a_queue_is_as_long_as_its_senders_take_to_come_back() {
        for delay in [1, 10, 100] {
            for pace in [0.1, 0.8] {
                let (idle, away, limit) = found(16384, delay, pace);
                assert!(idle == 0.0, "a delay of {delay}: idle {idle}, limit {limit}");
                assert!(away <= 1.0 / SHORT as f64, "a delay of {delay}: away {away}, limit {limit}");
                let needed = 2 * SHORT as usize * delay as usize;
                assert!(limit <= (2 * needed).max(LEAST), "a delay of {delay}: a limit of {limit}");
            }
        }
    }

    #[test]
    fn a_sender_that_hardly_keeps_up_needs_a_shorter_queue() {
        let [(_, _, quick), (_, _, slow)] = [0.1, 0.9].map(|pace| found(16384, 50, pace));
        assert!(slow * 4 <= quick, "{slow} against {quick}");
    }

    #[test]
    fn a_queue_that_is_too_short_is_used_whole() {
        let (idle, _, limit) = found(63, 100, 0.1);
        assert!(idle > 0.0 && limit == 63);
    }

    #[test]
    fn who_waits_is_told_once() {
        let mut gate = TxGate::new(256);
        let (now, back) = (|| 0, || (0, true));
        assert!(gate.admits(95, back) && !gate.opens(0, now), "nobody waits");
        assert!(!gate.admits(96, back) && !gate.admits(3, back), "shut until it opens");
        assert!(!gate.opens(65, now) && gate.opens(64, now) && !gate.opens(0, now));
        assert!(gate.admits(1, back));
    }
}
