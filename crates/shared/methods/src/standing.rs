//! Detects whether queues grew while a stream was measured.
//!
//! A load above the capacity of a path fills a queue before a frame is lost. Such a queue never becomes
//! empty, so while it grows, even the fastest frame of an interval takes longer than the fastest frame of the
//! interval before. The least delay within an interval is that of the standing queue (Nichols and Jacobson,
//! "Controlling Queue Delay", 2012; RFC 8289, 3). Bursts, polls, timers and pauses of another program do not
//! raise the least delay, because some frames between them are fast.

/// The number of parts of the measured time.
const PARTS: usize = 4;
/// The least growth that can be distinguished from none, as a share of the arrived frames.
const LEAST_SHARE: f64 = 0.0002;
/// The least growth that can be distinguished from none, in frames.
const LEAST_FRAMES: f64 = 8.0;

/// The least time that a frame took in each part of the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandingQueue {
    least_ns: [u64; PARTS],
    part_ns: u64,
}

impl StandingQueue {
    /// A record without frames, for a measured time of `length_ns`.
    pub fn over(length_ns: u64) -> Self {
        Self { least_ns: [u64::MAX; PARTS], part_ns: (length_ns / PARTS as u64).max(1) }
    }

    /// Records that a frame, sent `since_begin_ns` after the begin of the measured time, took `took_ns`.
    #[inline]
    pub fn record(&mut self, since_begin_ns: u64, took_ns: u64) {
        let part = ((since_begin_ns / self.part_ns) as usize).min(PARTS - 1);
        self.least_ns[part] = self.least_ns[part].min(took_ns);
    }

    /// Adds the frames of another record of the same time.
    pub fn add(&mut self, other: &Self) {
        for (least_ns, other_ns) in self.least_ns.iter_mut().zip(other.least_ns) {
            *least_ns = (*least_ns).min(other_ns);
        }
    }

    /// The number of frames by which queues grew in the measured time. `arrived` is the number of arrived
    /// frames that were sent in this time. The result is `None` if a part of the time has no arrived frame.
    ///
    /// If the delay grows by `r` s in each second, the share `r / (1 + r)` of the frames stays in a queue.
    pub fn growth(&self, arrived: u64) -> Option<u64> {
        let [first, .., before, last] = self.least_ns;
        if self.least_ns.contains(&u64::MAX) {
            return None;
        }
        // The difference of `last` and `first` lacks the increase within the last part. That is assumed to
        // equal the increase from the part before to the last part.
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
    /// frame that comes at the time `now_ns` is not served before `open_ns(now_ns)`.
    struct Server {
        serves_pps: f64,
        room: u64,
        open_ns: fn(u64) -> u64,
    }

    impl Server {
        /// Offers a load for `length_ns`, after a warm-up of the same length. Returns the arrived frames, the
        /// growth that is found, and the true one: the frames in the queue at the end minus the frames in it
        /// at the begin.
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
        /// With any load, room and rate, the growth that is found equals the growth of the queue, except for
        /// a small error.
        #[test]
        fn the_growth_is_that_of_the_queue(
            serves_pps in 50e3..900e3,
            load in 0.5..1.5,
            room in 16_u64..5000,
        ) {
            let server = Server { serves_pps, room, open_ns: |now_ns| now_ns };
            let (arrived, found, grew) = server.offered(serves_pps * load, 50 * MS);
            let found = found.unwrap() as i64;
            // A queue that becomes full in the middle of a part seems to grow until the end of the part,
            // which is up to a quarter of the measured time too long.
            let error = (LEAST_SHARE * arrived as f64).max(LEAST_FRAMES) as i64 + 4 + grew.max(0) / 3;
            prop_assert!((found - grew).abs() <= error, "{found} found, {grew} are in the queue");
            if load < 0.999 {
                prop_assert_eq!(found, 0);
            }
        }
    }

    /// A server that polls once a millisecond, a server that stops for 4 ms now and then, and a server that
    /// stops at the end: their queues become empty again and again.
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
