//! Whether queues grew while a stream was measured.
//!
//! A load above what a path carries fills a queue before it loses a frame. While a queue grows that never
//! empties, also the fastest frame of each moment takes longer: it waits behind the standing queue, whose
//! delay is the least one within an interval (Nichols and Jacobson, "Controlling Queue Delay", 2012; RFC
//! 8289, 3). Bursts, polls, timers and pauses of another program do not raise that: between them some frame
//! is fast.

/// The parts of the measured time.
const PARTS: usize = 4;
/// The least share of a load by which queues have grown: a smaller share cannot be distinguished from none.
const LEAST_SHARE: f64 = 0.0002;
/// The least growth that is distinguished from none, in frames.
const LEAST_FRAMES: f64 = 8.0;

/// The least time that a frame took in each part of the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandingQueue {
    least_ns: [u64; PARTS],
    part_ns: u64,
}

impl StandingQueue {
    /// Of frames that are sent within a time of this length, in ns.
    pub fn over(length_ns: u64) -> Self {
        Self { least_ns: [u64::MAX; PARTS], part_ns: (length_ns / PARTS as u64).max(1) }
    }

    /// Records that a frame, sent `since_begin_ns` after the begin of the measured time, took `took_ns`.
    #[inline]
    pub fn record(&mut self, since_begin_ns: u64, took_ns: u64) {
        let part = ((since_begin_ns / self.part_ns) as usize).min(PARTS - 1);
        self.least_ns[part] = self.least_ns[part].min(took_ns);
    }

    /// By how many frames queues grew in the measured time, given how many arrived of those sent in it.
    /// `None` if in a part none arrived.
    ///
    /// Of frames that take `r` s longer for each second, `r` over `1 + r` stay in a queue.
    pub fn growth(&self, arrived: u64) -> Option<u64> {
        let [first, .., before, last] = self.least_ns;
        if self.least_ns.contains(&u64::MAX) {
            return None;
        }
        // The increase within the last part is taken from the increase between the part before and this one.
        let longer_ns = last.saturating_sub(first) + last.saturating_sub(before);
        let ratio = longer_ns as f64 / (self.part_ns * PARTS as u64) as f64;
        let frames = arrived as f64 * ratio / (1.0 + ratio);
        let is_growth = frames >= LEAST_FRAMES && frames >= LEAST_SHARE * arrived as f64;
        Some(if is_growth { frames.round() as u64 } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// A server with a queue before it: frames come evenly, and leave in their order, one after the other. A
    /// frame that comes at some time, in ns, is not served before `open_ns` of it.
    struct Server {
        serves_pps: f64,
        room: u64,
        open_ns: fn(u64) -> u64,
    }

    impl Server {
        /// Offers a load for a time, after a warm-up as long. Returns the arrived frames, the growth that is
        /// found, and the true one: frames in the queue at the end, less those at the begin.
        fn offered(&self, pps: f64, length_ns: u64) -> (u64, Option<u64>, i64) {
            let mut queue = StandingQueue::over(length_ns);
            let service_ns = (1e9 / self.serves_pps) as u64;
            let (mut free_ns, mut arrived) = (0, 0);
            let mut leaves = std::collections::VecDeque::new();
            let mut held = [0; 2];
            for number in 0.. {
                let now_ns = (f64::from(number) * 1e9 / pps) as u64;
                while leaves.front().is_some_and(|leaves_ns| *leaves_ns <= now_ns) {
                    leaves.pop_front();
                }
                held[usize::from(now_ns >= length_ns)] = leaves.len() as i64;
                if now_ns >= 2 * length_ns {
                    break;
                }
                if leaves.len() as u64 >= self.room {
                    continue;
                }
                free_ns = (self.open_ns)(now_ns).max(free_ns) + service_ns;
                leaves.push_back(free_ns);
                if let Some(since_ns) = now_ns.checked_sub(length_ns) {
                    arrived += 1;
                    queue.record(since_ns, free_ns - now_ns);
                }
            }
            (arrived, queue.growth(arrived), held[1] - held[0])
        }
    }

    const MS: u64 = 1_000_000;

    proptest! {
        /// With any load, room and rate, the growth that is found equals the length of the queue.
        #[test]
        fn the_growth_is_that_of_the_queue(
            serves_pps in 50e3..900e3,
            load in 0.5..1.5,
            room in 16_u64..5000,
        ) {
            let server = Server { serves_pps, room, open_ns: |now_ns| now_ns };
            let (arrived, found, grew) = server.offered(serves_pps * load, 50 * MS);
            let found = found.unwrap() as i64;
            // A queue that is full in the middle of a part is found to grow for longer, by a quarter at most.
            let error = (LEAST_SHARE * arrived as f64).max(LEAST_FRAMES) as i64 + 4 + grew.max(0) / 3;
            prop_assert!((found - grew).abs() <= error, "{found} found, {grew} are in the queue");
            if load < 0.999 {
                prop_assert_eq!(found, 0);
            }
        }
    }

    /// A server that polls once a millisecond, a server that stops for 4 ms now and then, and a server that
    /// stops at the end: their queues are empty again and again.
    #[test]
    fn polls_and_pauses_are_no_growth() {
        let rules: [fn(u64) -> u64; 3] = [
            |now_ns| now_ns.next_multiple_of(MS),
            |now_ns| if now_ns % (30 * MS) < 4 * MS { now_ns - now_ns % (30 * MS) + 4 * MS } else { now_ns },
            |now_ns| if now_ns > 97 * MS { now_ns.max(102 * MS) } else { now_ns },
        ];
        for (rule, open_ns) in rules.into_iter().enumerate() {
            // A poll serves the arrived frames, at 10 Mpps.
            let server = Server { serves_pps: 10e6, room: 1 << 20, open_ns };
            assert_eq!(server.offered(600e3, 50 * MS).1, Some(0), "rule {rule}");
        }
    }

    #[test]
    fn what_did_not_arrive_tells_nothing() {
        let mut queue = StandingQueue::over(4000);
        assert_eq!(queue.growth(0), None);
        for part in 0..3 {
            queue.record(part * 1000, 7);
        }
        assert_eq!(queue.growth(3), None, "nothing came in the last part");
        queue.record(9999, 7);
        assert_eq!(queue.growth(4), Some(0));
    }
}
