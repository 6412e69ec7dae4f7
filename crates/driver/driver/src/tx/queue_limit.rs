//! The length limit of a transmit queue, and when waiting senders are woken.
//!
//! The queue is every frame that waits to be sent: in the ring, and in a queue of the system before it. It
//! must last from the moment at which a waiting sender is woken until that sender is back; otherwise the
//! device runs dry. It should last several times that, because a wake-up costs a sender about the time until
//! it is back. Any more is only delay.
//!
//! That time is measured. If a sender was away for more than a [`SHORT`]th of the time between two wake-ups,
//! the limit grows by a quarter. If it was away for less than a quarter of that, the limit shrinks slowly: a
//! limit that is too low costs throughput at once, one that is too high only adds delay. If the device owes
//! no report when the sender is back, it may have run dry: the limit grows too. The clock is read twice for
//! each wake-up, not for each frame.

/// Sent frames are reported in batches of about this many.
const BATCH: usize = 32;
/// The lowest limit: three batches (being sent, waiting, being filled).
const LEAST: usize = 3 * BATCH;
/// A sender should be away for at most this fraction of the time. With its last call, which is refused, it
/// then loses less than a twentieth of its time.
const SHORT: u64 = 32;

/// The length limit of a transmit queue, measured while it runs. It also says when to wake waiting senders.
#[derive(Clone, Debug)]
pub struct TxQueueLimit {
    /// The limit in frames.
    limit: usize,
    most: usize,
    /// The queue is full, and a sender waits.
    stopped: bool,
    /// When senders were last woken.
    woken_ns: Option<u64>,
    /// Once a sender is back: how long it was away in ns, and whether the device certainly had work all that
    /// time.
    away: Option<(u64, bool)>,
}

impl TxQueueLimit {
    /// The limit of a queue of at most `most` frames. It starts low.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { limit: LEAST.min(most), most, stopped: false, woken_ns: None, away: None }
    }

    /// The limit in frames, as measured so far.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether senders have to wait.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether another frame may be queued behind `pending` unsent ones. If not, the sender waits until
    /// [`wakes`](Self::wakes). For the first frame after a wake-up, `back` gives the time in ns and whether
    /// the device still owes a report.
    #[inline]
    pub fn admits(&mut self, pending: usize, back: impl FnOnce() -> (u64, bool)) -> bool {
        if self.stopped {
            return false;
        }
        if self.away.is_none() {
            let (now_ns, busy) = back();
            self.away = Some((now_ns.saturating_sub(self.woken_ns.unwrap_or(now_ns)), busy));
        }
        self.stopped = pending >= self.limit;
        !self.stopped
    }

    /// Whether to wake waiting senders. To be called when frames were sent, with the number still unsent. The
    /// clock is read only for a wake-up.
    #[inline]
    pub fn wakes(&mut self, pending: usize, now_ns: impl FnOnce() -> u64) -> bool {
        // At half the limit, to within half a batch.
        let wakes = self.stopped && pending <= self.limit / 2 + BATCH / 2;
        if wakes {
            let now_ns = now_ns();
            if let (Some(woken_ns), Some((away_ns, busy))) = (self.woken_ns, self.away) {
                self.adapt(away_ns, busy, now_ns.saturating_sub(woken_ns));
            }
            (self.stopped, self.woken_ns, self.away) = (false, Some(now_ns), None);
        }
        wakes
    }

    /// Adapts the limit at a wake-up: `cycle_ns` after the last one, with the sender away for `away_ns` in
    /// between.
    fn adapt(&mut self, away_ns: u64, busy: bool, cycle_ns: u64) {
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

    /// Simulates a queue: the device sends one frame in each unit of time; a woken sender is back after
    /// `delay` units and then takes `pace` units for a frame. Returns, for the last half, the share of units
    /// with an idle device, the share with the sender away, and the limit.
    fn found(most: usize, delay: u64, pace: f64) -> (f64, f64, usize) {
        const UNITS: u64 = 200_000;
        let mut queue = TxQueueLimit::new(most);
        let (mut pending, mut back_at, mut idle, mut away) = (0usize, Some(0), 0, 0);
        let mut credit = 0.0;
        for now in 0..UNITS {
            let late = now > UNITS / 2;
            credit += 1.0 / pace;
            while credit >= 1.0 {
                credit -= 1.0;
                if back_at.is_some_and(|at| at <= now) {
                    match queue.admits(pending, || (now, pending > 0)) {
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
            if queue.wakes(pending, || now) {
                back_at = Some(now + delay);
                away += u64::from(late) * delay;
            }
        }
        let share = |units: u64| units as f64 * 2.0 / UNITS as f64;
        (share(idle), share(away), queue.limit())
    }

    #[test]
    fn the_limit_follows_the_time_that_senders_are_away() {
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
    fn a_slow_sender_gets_a_lower_limit() {
        let [(_, _, quick), (_, _, slow)] = [0.1, 0.9].map(|pace| found(16384, 50, pace));
        assert!(slow * 4 <= quick, "{slow} against {quick}");
    }

    #[test]
    fn a_short_queue_is_used_up_to_its_end() {
        let (idle, _, limit) = found(63, 100, 0.1);
        assert!(idle > 0.0 && limit == 63);
    }

    /// A sender that is away for a 32nd to a 128th of the time is neither away too long nor queues too much.
    #[test]
    fn the_limit_rises_fast_and_falls_slowly() {
        const CYCLE_NS: u64 = 128_000;
        let [grown, same, shrunk] = [800, 640, 630];
        for (away_ns, busy, expected) in [
            (4_001, true, grown),
            (4_000, true, same),
            (1_000, true, same),
            (999, true, shrunk),
            (0, true, shrunk),
            (0, false, grown),
            (2_000, false, grown),
        ] {
            let mut queue = TxQueueLimit { limit: 640, ..TxQueueLimit::new(1_000) };
            queue.adapt(away_ns, busy, CYCLE_NS);
            assert_eq!(queue.limit(), expected, "away for {away_ns} ns, busy: {busy}");
        }
    }

    #[test]
    fn waiting_senders_are_woken_once() {
        let mut queue = TxQueueLimit::new(256);
        let (now, back) = (|| 0, || (0, true));
        assert!(queue.admits(95, back) && !queue.wakes(0, now) && !queue.is_stopped(), "nobody waits");
        assert!(!queue.admits(96, back) && !queue.admits(3, back), "stopped until senders are woken");
        assert!(queue.is_stopped() && !queue.wakes(65, now));
        assert!(queue.wakes(64, now) && !queue.is_stopped() && !queue.wakes(0, now));
        assert!(queue.admits(1, back));
    }
}
