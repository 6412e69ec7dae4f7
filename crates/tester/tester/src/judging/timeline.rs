//! The work of the ports of a trial in each of its intervals.
//!
//! A frame belongs to the interval in which it was sent, at the receiver too, which reads that time from its
//! tag. So the losses of an interval are exact, however long frames are on their way. Counters of ports
//! belong to the interval in which they were read, some moments after they counted; `series` allows for
//! that.
//!
//! Memory is limited however long a trial is: where there would be more than [`MOST_INTERVALS`], each two
//! neighbours become one, and intervals are twice as long from then on.

use kpps_documents::Latency;
use kpps_documents::detail::Interval;
use kpps_ports::port::run::{bucket, longest};
use std::time::Duration;

/// The most intervals of a timeline.
pub const MOST_INTERVALS: usize = 3600;
/// The longest latency that is distinguished from longer ones, in ns.
const LONGEST_NS: u64 = 100_000_000_000;

/// The work of a port in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Frames that were due.
    pub due: u64,
    /// Frames that were given to the port.
    pub given: u64,
    /// Frames of these that it could not send after all.
    pub refused: u64,
    /// Frames of the interval that arrived.
    pub received: u64,
    /// Receive overflow that the port counted.
    pub missed: u64,
    /// Latencies of the frames that arrived.
    pub latency: Latencies,
}

impl Point {
    fn add(&mut self, other: Self) {
        self.due += other.due;
        self.given += other.given;
        self.refused += other.refused;
        self.received += other.received;
        self.missed += other.missed;
        self.latency.merge(other.latency);
    }
}

/// A distribution of latencies in little memory: a word for each bucket with frames in it, the shortest times
/// first. The bucket's number is in the upper bits, its frames in the lower `FRAMES_BITS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(Vec<u64>);

/// Bits of a number of frames: enough for 2 months at 14.88 million frames a second.
const FRAMES_BITS: u32 = 46;

/// The bucket and the frames of a word.
const fn parts(word: u64) -> (usize, u64) {
    ((word >> FRAMES_BITS) as usize, word & ((1 << FRAMES_BITS) - 1))
}

impl Latencies {
    /// Of frames with their latencies in ns.
    pub fn of(frames: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all = Self::default();
        for (ns, frames) in frames {
            all.add(bucket(ns.min(LONGEST_NS)), frames);
        }
        all
    }

    /// The digest of the frames in each bucket.
    fn counted(buckets: &[u64]) -> Self {
        let mut words = Vec::with_capacity(buckets.iter().filter(|frames| **frames > 0).count());
        let counted = buckets.iter().enumerate().filter(|(_, frames)| **frames > 0);
        words.extend(counted.map(|(bucket, frames)| (bucket as u64) << FRAMES_BITS | frames));
        Self(words)
    }

    /// Latencies in ns, at most 1.6 % too long, with the number of frames of each.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets().map(|(bucket, frames)| (longest(bucket), frames))
    }

    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().map(parts)
    }

    fn add(&mut self, bucket: usize, frames: u64) {
        match self.0.binary_search_by_key(&bucket, |word| parts(*word).0) {
            Ok(at) => self.0[at] += frames,
            Err(at) => self.0.insert(at, (bucket as u64) << FRAMES_BITS | frames),
        }
    }

    fn merge(&mut self, other: Self) {
        if self.0.is_empty() {
            return *self = other;
        }
        for (bucket, frames) in other.buckets() {
            self.add(bucket, frames);
        }
    }

    /// The time that a share of all frames did not exceed, in ns; `None` without frames.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let all: u64 = self.buckets().map(|it| it.1).sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.buckets().find(|(_, frames)| {
            below += frames;
            below >= rank
        });
        found.map(|(bucket, _)| longest(bucket))
    }

    /// The percentiles that documents have.
    fn quantiles(&self) -> Latency {
        let [min, p50, p99, p999, max] = [0.0, 0.5, 0.99, 0.999, 1.0].map(|share| self.quantile_ns(share));
        let (sum, frames) = self.recorded().fold((0, 0), |(sum, all), (ns, frames)| {
            (sum + u128::from(ns) * u128::from(frames), all + u128::from(frames))
        });
        let mean = sum.checked_div(frames).map(|ns| ns as u64);
        Latency { min, mean, p50, p99, p999, max, jitter: None, error_ns: None }
    }
}

/// The work of a port in each interval since the epoch of the trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    interval_ns: u64,
    points: Vec<Point>,
}

impl Timeline {
    /// With intervals of this length, or longer.
    pub fn new(interval: Duration) -> Self {
        Self::of(interval.as_nanos() as u64, Vec::new())
    }

    /// Of intervals that were kept elsewhere, with their length in ns.
    pub fn of(interval_ns: u64, points: Vec<Point>) -> Self {
        let mut line = Self { interval_ns: interval_ns.max(1), points };
        while line.points.len() > MOST_INTERVALS {
            line.fold();
        }
        line
    }

    /// The length of an interval now, in ns.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// The intervals in turn.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The interval at a time, in ns since the epoch.
    pub fn at(&mut self, ns: u64) -> &mut Point {
        while ns / self.interval_ns >= MOST_INTERVALS as u64 {
            self.fold();
        }
        let index = (ns / self.interval_ns) as usize;
        if index >= self.points.len() {
            self.points.resize_with(index + 1, Point::default);
        }
        &mut self.points[index]
    }

    /// The end of the interval at a time, in ns.
    pub(crate) fn end_ns(&self, ns: u64) -> u64 {
        self.bounds(ns).1
    }

    /// The begin and the end of the interval at a time, in ns.
    fn bounds(&self, ns: u64) -> (u64, u64) {
        let from = ns - ns % self.interval_ns;
        (from, from.saturating_add(self.interval_ns))
    }

    /// Makes one interval of each two.
    fn fold(&mut self) {
        let mut points = std::mem::take(&mut self.points).into_iter();
        while let Some(mut point) = points.next() {
            point.add(points.next().unwrap_or_default());
            self.points.push(point);
        }
        self.interval_ns = self.interval_ns.saturating_mul(2);
    }

    /// Forgets all latencies.
    pub(crate) fn forget_latencies(&mut self) {
        self.points.iter_mut().for_each(|point| point.latency = Latencies::default());
    }

    /// Adds what another one has of the same time. Both began with intervals of the same length.
    pub fn merge(&mut self, mut other: Self) {
        while self.interval_ns < other.interval_ns {
            self.fold();
        }
        while other.interval_ns < self.interval_ns {
            other.fold();
        }
        if self.points.len() < other.points.len() {
            self.points.resize_with(other.points.len(), Point::default);
        }
        for (point, other) in self.points.iter_mut().zip(other.points) {
            point.add(other);
        }
    }
}

/// The timeline of frames that arrive, one by one.
pub(crate) struct ArrivalLine {
    line: Timeline,
    /// The interval under way, in ns, and its arrivals: frames, and their number in each bucket.
    from_ns: u64,
    to_ns: u64,
    received: u64,
    buckets: Vec<u64>,
    /// The interval before it: its end, p50 and p99.
    before: Option<(u64, u64, u64)>,
}

impl ArrivalLine {
    pub fn new(interval: Duration) -> Self {
        let line = Timeline::new(interval);
        let (from_ns, to_ns) = line.bounds(0);
        let buckets = vec![0; bucket(LONGEST_NS) + 1];
        Self { line, from_ns, to_ns, received: 0, buckets, before: None }
    }

    /// Counts a frame with the time when it was sent, in ns since the epoch, and its latency, if it is known.
    #[inline]
    pub fn take(&mut self, sent_ns: u64, latency_ns: Option<u64>) {
        if sent_ns < self.from_ns || sent_ns >= self.to_ns {
            return self.take_elsewhere(sent_ns, latency_ns);
        }
        self.received += 1;
        if let Some(ns) = latency_ns {
            self.buckets[bucket(ns.min(LONGEST_NS))] += 1;
        }
    }

    /// A frame of another interval: an earlier one, or the next one begins.
    #[cold]
    fn take_elsewhere(&mut self, sent_ns: u64, latency_ns: Option<u64>) {
        if sent_ns < self.from_ns {
            let point = self.line.at(sent_ns);
            point.received += 1;
            if let Some(ns) = latency_ns {
                point.latency.add(bucket(ns.min(LONGEST_NS)), 1);
            }
            return;
        }
        self.close();
        self.line.at(sent_ns);
        (self.from_ns, self.to_ns) = self.line.bounds(sent_ns);
        self.take(sent_ns, latency_ns);
    }

    /// Ends the interval under way.
    fn close(&mut self) {
        let latency = Latencies::counted(&self.buckets);
        let quantiles = latency.quantile_ns(0.5).zip(latency.quantile_ns(0.99));
        self.before = quantiles.map(|(p50, p99)| (self.to_ns, p50, p99));
        let received = std::mem::take(&mut self.received);
        self.buckets.fill(0);
        self.line.at(self.from_ns).add(Point { received, latency, ..Point::default() });
    }

    /// p50 and p99 of the last whole interval before this time, in ns, if frames came in it.
    pub fn last(&self, now_ns: u64) -> Option<(u64, u64)> {
        let (end_ns, p50, p99) = self.before?;
        (now_ns < end_ns + self.line.interval_ns).then_some((p50, p99))
    }

    /// The whole timeline.
    pub fn finish(mut self) -> Timeline {
        self.close();
        self.line
    }
}

/// The totals of a direction, for its series.
pub(crate) struct DirectionTotals {
    /// When sending began, since the epoch, and how long it lasted.
    pub begun: Duration,
    pub elapsed: Duration,
    /// Frames that were due, and frames that were sent.
    pub intended: u64,
    pub sent: u64,
    /// The receive overflow in frames of this direction, if the port counts it.
    pub overflow: Option<u64>,
}

/// The length of intervals in s, and the series of a direction, from what its two ports did.
pub(crate) fn series(
    sender: &Timeline,
    receiver: &Timeline,
    totals: &DirectionTotals,
) -> (f64, Vec<Interval>) {
    let only = |line: &Timeline, of: fn(&Point) -> Point| {
        Timeline::of(line.interval_ns, line.points.iter().map(of).collect())
    };
    // In a trial of both directions each port does both.
    let mut line =
        only(sender, |it| Point { received: 0, missed: 0, latency: Latencies::default(), ..it.clone() });
    line.merge(only(receiver, |it| Point { due: 0, given: 0, refused: 0, ..it.clone() }));
    let (begin, end) = (totals.begun.as_nanos() as u64, (totals.begun + totals.elapsed).as_nanos() as u64);
    // Sending may have lasted longer than frames were sent.
    line.at(end.saturating_sub(1).max(begin));
    let interval_ns = line.interval_ns;
    let first = (begin / interval_ns) as usize;
    let mut last = (end.saturating_sub(1).max(begin) / interval_ns) as usize;
    // A short rest belongs to the interval before it.
    if last > first && end - last as u64 * interval_ns < interval_ns / 2 {
        last -= 1;
    }
    let mut points = vec![Point::default(); last - first + 1];
    for (index, point) in line.points.into_iter().enumerate() {
        points[index.clamp(first, last) - first].add(point);
    }
    let count = |of: fn(&Point) -> u64| running(points.iter().map(of));
    let (given, refused) = (count(|it| it.given), count(|it| it.refused));
    let received = count(|it| it.received);
    let missed = of_these(&count(|it| it.missed), totals.overflow.unwrap_or(0));
    let mut due = count(|it| it.due);
    due.last_mut().into_iter().for_each(|all| *all = totals.intended as i64);
    let less = |from: &[i64], what: &[i64]| from.iter().zip(what).map(|(a, b)| a - b).collect::<Vec<_>>();
    // Frames that waited in the port's queue at the end were given to it, but not sent.
    let taken = less(&given, &refused).into_iter().map(|frames| frames.min(totals.sent as i64));
    let sent = each(&taken.collect::<Vec<_>>());
    let sent_so_far = running(sent.iter().copied());
    let shortfall = each(&less(&due, &sent_so_far));
    let overflow = each(&missed);
    let lost = each(&less(&less(&sent_so_far, &received), &missed));
    let intended = each(&due);
    let intervals = points.iter().enumerate().map(|(index, point)| {
        let from = ((first + index) as u64 * interval_ns).max(begin);
        let to = if first + index == last { end } else { (first + index + 1) as u64 * interval_ns };
        let seconds = to.saturating_sub(from).max(1) as f64 / 1e9;
        Interval {
            from_s: (from - begin) as f64 / 1e9,
            seconds,
            offered_pps: intended[index] as f64 / seconds,
            received_pps: point.received as f64 / seconds,
            intended: intended[index],
            sent: sent[index],
            shortfall: shortfall[index],
            received: point.received,
            overflow: totals.overflow.map(|_| overflow[index]),
            lost: lost[index],
            latency_ns: point.latency.quantiles(),
        }
    });
    (interval_ns as f64 / 1e9, intervals.collect())
}

/// Sums up to each interval.
fn running(counts: impl Iterator<Item = u64>) -> Vec<i64> {
    counts
        .scan(0, |sum, count| {
            *sum += count as i64;
            Some(*sum)
        })
        .collect()
}

/// Sums of a port's misses, scaled to the frames of one direction that it missed in all. A port also misses
/// frames of others, and counts a message of several frames once.
fn of_these(missed: &[i64], overflow: u64) -> Vec<i64> {
    let all = missed.last().copied().unwrap_or(0);
    match all {
        0 => missed
            .iter()
            .enumerate()
            .map(|(n, _)| if n + 1 == missed.len() { overflow as i64 } else { 0 })
            .collect(),
        _ => missed
            .iter()
            .map(|so_far| (i128::from(*so_far) * i128::from(overflow) / i128::from(all)) as i64)
            .collect(),
    }
}

/// The increase in each interval of a sum that is not below 0 and does not decrease. If a sum exceeds a later
/// one, the difference was only delayed: sent a moment after it was due, or counted a moment after it was
/// lost.
fn each(sums: &[i64]) -> Vec<u64> {
    let mut least = i64::MAX;
    let mut rising: Vec<i64> = sums
        .iter()
        .rev()
        .map(|sum| {
            least = least.min(*sum);
            least.max(0)
        })
        .collect();
    rising.reverse();
    let before = std::iter::once(0).chain(rising.iter().copied());
    rising.iter().zip(before).map(|(sum, before)| (sum - before) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NS: u64 = 1_000_000_000;

    /// Three days of seconds are less than 3,600 intervals, and nothing is lost by that.
    #[test]
    fn days_take_as_much_memory_as_an_hour() {
        let (mut sender, mut receiver) = (Timeline::new(SECOND), ArrivalLine::new(SECOND));
        let all = 72 * 3600;
        for second in 0..all {
            sender.at(second * NS).given += 3;
            sender.at(second * NS).due += 3;
            for frame in 0..3 {
                // Each thousandth second loses one.
                if frame > 0 || second % 1000 > 0 {
                    receiver.take(second * NS + frame, Some(1000 + frame * 1000));
                }
            }
        }
        let receiver = receiver.finish();
        assert!(sender.points().len() <= MOST_INTERVALS && receiver.points().len() <= MOST_INTERVALS);
        let elapsed = Duration::from_secs(all);
        let totals = DirectionTotals {
            begun: Duration::ZERO,
            elapsed,
            intended: 3 * all,
            sent: 3 * all,
            overflow: None,
        };
        let (interval_s, series) = series(&sender, &receiver, &totals);
        assert_eq!((interval_s, series.len()), (128.0, all as usize / 128));
        let sum = |of: fn(&Interval) -> u64| series.iter().map(of).sum::<u64>();
        assert_eq!((sum(|it| it.sent), sum(|it| it.lost), sum(|it| it.shortfall)), (3 * all, 260, 0));
        assert_eq!((series[0].lost, series[1].lost, series[7].lost), (1, 0, 1), "second 0, and second 1000");
        assert!(series.iter().all(|it| it.offered_pps == 3.0 && it.overflow.is_none()));
        let p99 = series[3].latency_ns.p99.unwrap_or_default();
        assert!((3000..3050).contains(&p99), "{p99}");
    }

    /// A link goes down for good in the second of three seconds. Six frames stay in the port's queue.
    #[test]
    fn frames_that_stay_in_a_queue_are_not_sent() {
        let (mut sender, mut receiver) = (Timeline::new(SECOND), Timeline::new(SECOND));
        for (second, given, received) in [(0, 10, 10), (1, 8, 4), (2, 2, 0)] {
            let point = sender.at(second * NS);
            (point.due, point.given) = (10, given);
            receiver.at(second * NS).received = received;
        }
        let begun = Duration::ZERO;
        let totals = DirectionTotals { begun, elapsed: 3 * SECOND, intended: 30, sent: 14, overflow: None };
        let (_, series) = series(&sender, &receiver, &totals);
        let of = |of: fn(&Interval) -> u64| series.iter().map(of).collect::<Vec<_>>();
        assert_eq!((of(|it| it.sent), of(|it| it.shortfall)), (vec![10, 4, 0], vec![0, 6, 10]));
        assert_eq!(of(|it| it.lost), [0, 0, 0]);
    }

    #[test]
    fn a_frame_belongs_to_the_interval_in_which_it_was_sent() {
        let mut line = ArrivalLine::new(SECOND);
        for sent_ns in [0, 10, NS + 5, 20, 3 * NS, NS + 6] {
            line.take(sent_ns, Some(50_000));
        }
        assert_eq!(line.last(3 * NS + 1), None, "nothing was sent in the third second");
        line.take(4 * NS, None);
        let (p50, _) = line.last(4 * NS).unwrap_or_default();
        assert!((50_000..51_000).contains(&p50) && line.last(6 * NS).is_none(), "{p50}");
        let received: Vec<_> = line.finish().points().iter().map(|point| point.received).collect();
        assert_eq!(received, [3, 2, 0, 1, 1]);
    }

    /// Ten frames a second for 4 s, from 0.25 s after the epoch. The sender stalls for the whole second
    /// interval, and at its end gives up the frames that were due in it. In the third one the device loses
    /// four frames and the tester one, which its port has counted in the fourth.
    #[test]
    fn what_is_late_is_neither_lost_nor_a_shortfall() {
        let (mut sender, mut receiver) = (Timeline::new(SECOND), Timeline::new(SECOND));
        // One frame is due at the end of an interval and sent at the begin of the next.
        for (second, due, given, received) in
            [(0, 8, 7, 7), (1, 10, 1, 1), (2, 10, 10, 5), (3, 10, 10, 10), (4, 2, 3, 3)]
        {
            let point = sender.at(second * NS);
            (point.due, point.given) = (due, given);
            receiver.at(second * NS).received = received;
        }
        // Nine more of the missed frames were frames of others.
        receiver.at(3 * NS).missed = 10;
        let begun = Duration::from_millis(250);
        let totals =
            DirectionTotals { begun, elapsed: 4 * SECOND, intended: 40, sent: 31, overflow: Some(1) };
        let (_, series) = series(&sender, &receiver, &totals);
        let of = |of: fn(&Interval) -> u64| series.iter().map(of).collect::<Vec<_>>();
        assert_eq!(of(|it| it.intended), [8, 10, 10, 12], "the rest of 0.25 s belongs to the fourth");
        assert_eq!(of(|it| it.shortfall), [1, 8, 0, 0]);
        assert_eq!(of(|it| it.lost), [0, 0, 4, 0]);
        assert_eq!(series[3].overflow, Some(1));
        assert_eq!((series[0].seconds, series[0].from_s), (0.75, 0.0));
        assert_eq!((series[3].seconds, series[3].from_s), (1.25, 2.75));
        // A message of several frames counts once.
        assert_eq!(of_these(&[0, 2, 4], 7), [0, 3, 7]);
        assert_eq!((of_these(&[0, 0], 5), of_these(&[], 0)), (vec![0, 5], vec![]));
    }
}
