//! Clocks: that of this process, and the offsets of other hosts' clocks.
//!
//! A trial between two hosts begins at the same moment on both clocks, within the error of the measured
//! offset, and times since then are compared. The offset is read before and after the trial. Between these
//! readings it is assumed to change linearly, because clocks drift with temperature, which changes within
//! minutes.
//!
//! In a longer trial the offset is read each second, too ([`Follower`]), and the receiver corrects latencies
//! by a prediction from the last readings ([`Gain`]). The next reading shows the error of that prediction.

use kpps_documents::detail::Clocks as Document;
use kpps_methods::Latency;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// The highest drift of a clock, disciplined or not: 200 ppm.
const DRIFT: f64 = 200e-6;
/// Readings of the system's clock and of the standard library's. The closest pair counts.
#[cfg(target_os = "linux")]
const PAIRS: usize = 64;
/// The largest margin with which latencies are reported, in ns: that of almost three days.
const MOST_MARGIN_NS: u64 = 50_000_000_000;
/// Parts of a trial with separate latencies, if a clock may drift.
const SLICES: usize = 16;
/// The clocks are followed in a trial that is longer than this.
const SHORT: Duration = Duration::from_secs(5);
/// The time between two readings of a clock that is followed: at first half of the time that it has been
/// followed for, then this.
const READ_NS: f64 = 1e9;
/// The time over which its drift is measured.
const BASE_NS: f64 = 32e9;
/// A reading whose error is this multiple of the usual error is left out for a while.
const WORSE: f64 = 3.0;

/// The clock of this process, in ns.
#[derive(Clone, Debug)]
pub struct Clock {
    id: String,
    origin: Instant,
    /// Copies are one clock.
    origin_ns: Arc<AtomicU64>,
}

impl Clock {
    /// The clock of all ports of this process. Processes of one Linux system have the same.
    pub fn here() -> &'static Self {
        static HERE: OnceLock<Clock> = OnceLock::new();
        HERE.get_or_init(|| {
            let (id, origin, origin_ns) = system().unwrap_or_else(|| (unique(), Instant::now(), 0));
            Self::of(id, origin, origin_ns)
        })
    }

    /// A clock of its own, which shows this time now.
    pub fn showing(now_ns: u64) -> Self {
        Self::of(unique(), Instant::now(), now_ns)
    }

    fn of(id: String, origin: Instant, origin_ns: u64) -> Self {
        Self { id, origin, origin_ns: Arc::new(AtomicU64::new(origin_ns)) }
    }

    /// Sets it forward, or back. Nobody can set the clock of a system that this is; but a machine may sleep,
    /// or go on elsewhere.
    pub fn set_forward(&self, by_ns: i64) {
        self.origin_ns.fetch_add(by_ns as u64, Ordering::Relaxed);
    }

    fn origin_ns(&self) -> u64 {
        self.origin_ns.load(Ordering::Relaxed)
    }

    /// The identity of the clock.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Now.
    pub fn now_ns(&self) -> u64 {
        self.origin_ns() + self.origin.elapsed().as_nanos() as u64
    }

    /// The moment when it shows this time, as far as it can be expressed.
    pub fn when(&self, ns: u64) -> Instant {
        let origin_ns = self.origin_ns();
        let since = Duration::from_nanos(ns.abs_diff(origin_ns));
        let when = match ns >= origin_ns {
            true => self.origin.checked_add(since),
            false => self.origin.checked_sub(since),
        };
        when.unwrap_or(self.origin)
    }
}

/// The time of day, with which kernels stamp frames. It may be set at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeOfDay {
    /// Its time at some moment, in ns since 1970.
    pub ns: u64,
    /// The error of that, up or down.
    error_ns: u64,
}

impl TimeOfDay {
    /// Readings of both clocks. The shortest one counts.
    const READINGS: usize = 16;
    /// A change that does not matter.
    const SLACK_NS: u64 = 1000;

    /// Its time at a moment, computed from its time now.
    pub fn at(moment: Instant) -> Self {
        let read = |_| {
            let before = Instant::now();
            let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
            (before.elapsed(), before, now)
        };
        let (took, before, now) = (1..Self::READINGS).map(read).fold(read(0), |best, it| best.min(it));
        let middle = before + took / 2;
        let ns = match middle.checked_duration_since(moment) {
            Some(since) => now.saturating_sub(since.as_nanos() as u64),
            None => now + (moment - middle).as_nanos() as u64,
        };
        Self { ns, error_ns: (took.as_nanos() as u64).div_ceil(2) }
    }

    /// How much the clock was set forward between two readings of the same moment, if it was. The monotonic
    /// clock runs at the same pace, however the time of day is corrected.
    pub fn set_since(&self, before: &Self) -> Option<i64> {
        let set = self.ns.abs_diff(before.ns) > self.error_ns + before.error_ns + Self::SLACK_NS;
        set.then(|| self.ns.wrapping_sub(before.ns) as i64)
    }
}

/// The identity of the system's monotonic clock, which all its processes share, and one moment with the time
/// that it showed.
#[cfg(target_os = "linux")]
fn system() -> Option<(String, Instant, u64)> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // Containers may have a clock of their own.
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    let id = format!("{} {}", boot.trim(), namespace.display());
    // Any time between the two readings goes into all latencies of this process: the shortest counts.
    let readings = (0..PAIRS).filter_map(|_| {
        let before = Instant::now();
        let ns = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let took = before.elapsed();
        Some((took, before + took / 2, Duration::try_from(ns).ok()?.as_nanos() as u64))
    });
    let (_, moment, ns) = readings.min()?;
    Some((id, moment, ns))
}

/// The standard library's clock has no fixed origin.
#[cfg(not(target_os = "linux"))]
fn system() -> Option<(String, Instant, u64)> {
    None
}

/// A unique identity.
fn unique() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{} {:016x}", std::process::id(), RandomState::new().hash_one(Instant::now()))
}

/// The offset of another clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The clock's identity: [`Clock::id`].
    pub id: String,
    /// When it was read, by the clock of this process.
    pub at_ns: u64,
    /// Its offset: how far it was ahead.
    pub ahead_ns: i64,
    /// The error of the offset, up or down.
    pub error_ns: u64,
    /// The number of questions.
    pub pings: u64,
    /// The protocol: `udp` or `grpc`.
    pub over: String,
}

impl Reading {
    /// The clock of this process.
    pub fn here() -> Self {
        let clock = Clock::here();
        Self {
            id: clock.id.clone(),
            at_ns: clock.now_ns(),
            ahead_ns: 0,
            error_ns: 0,
            pings: 0,
            over: String::new(),
        }
    }

    /// The best of some pings: that with the shortest round trip, because delays are seldom the same in both
    /// directions. The answer was given within that time, so the error is half of it. `None` without a ping.
    pub fn best_of(id: &str, over: &str, pings: &[Ping]) -> Option<Self> {
        let best = pings.iter().min_by_key(|ping| ping.away_ns())?;
        // In the middle of both times.
        let [sent, came, left, back] =
            [best.sent_ns, best.came_ns, best.left_ns, best.back_ns].map(i128::from);
        let ahead = ((came - sent) + (left - back)) / 2;
        Some(Self {
            id: id.into(),
            at_ns: best.sent_ns + (best.back_ns - best.sent_ns) / 2,
            ahead_ns: i64::try_from(ahead).unwrap_or(0),
            error_ns: best.away_ns().div_ceil(2),
            pings: pings.len() as u64,
            over: over.into(),
        })
    }
}

/// A question to another clock, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// When it was sent and when the answer arrived, by the clock of this process.
    pub sent_ns: u64,
    /// See `sent_ns`.
    pub back_ns: u64,
    /// When it arrived and when the answer was sent, by the other clock.
    pub came_ns: u64,
    /// See `came_ns`.
    pub left_ns: u64,
}

impl Ping {
    /// The round trip, without the time at the other host.
    fn away_ns(&self) -> u64 {
        (self.back_ns.saturating_sub(self.sent_ns)).saturating_sub(self.left_ns.saturating_sub(self.came_ns))
    }
}

/// The gain of a clock on another one: a line through time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// A moment, in ns since the epoch of a trial.
    pub at_ns: f64,
    /// The gain at that time since the epoch, in ns.
    pub gained_ns: f64,
    /// The gain in each ns, in ns.
    pub pace: f64,
}

impl Gain {
    /// The gain at a moment, in ns.
    #[inline]
    pub fn at(&self, ns: f64) -> f64 {
        self.gained_ns + (ns - self.at_ns) * self.pace
    }

    /// The gain of one clock on another, in its own time, from the gains of both on a third clock in the
    /// third's time.
    pub(crate) fn between(own: Self, other: Self) -> Self {
        let at_ns = own.at_ns.max(other.at_ns);
        let gained_ns = own.at(at_ns);
        Self { at_ns: at_ns + gained_ns, gained_ns: gained_ns - other.at(at_ns), pace: own.pace - other.pace }
    }
}

/// Follows another host's clock during a trial.
#[derive(Clone, Debug)]
pub struct Follower {
    before: Reading,
    /// The origin of times, by the clock of this process.
    epoch_ns: u64,
    /// The times of its last readings, in ns since the epoch, and its gains then.
    read: VecDeque<(f64, f64)>,
    gain: Gain,
    next_ns: f64,
    /// The usual error of a reading.
    usual_ns: f64,
    /// The highest error so far.
    error_ns: u64,
    pings: u64,
}

impl Follower {
    fn new(before: Reading, epoch_ns: u64) -> Self {
        let at_ns = before.at_ns as f64 - epoch_ns as f64;
        let gain = Gain { at_ns, ..Gain::default() };
        let (read, error_ns, usual_ns) =
            ([(at_ns, 0.0)].into(), before.error_ns, (before.error_ns as f64).max(1e3));
        Self { before, epoch_ns, read, gain, next_ns: 0.0, usual_ns, error_ns, pings: 0 }
    }

    /// Whether it is time to read the clock.
    pub fn is_due(&self) -> bool {
        Clock::here().now_ns() as f64 - self.epoch_ns as f64 >= self.next_ns
    }

    /// Adds a reading, if there is one. Returns the clock's gain from now on.
    pub fn read(&mut self, reading: Option<&Reading>) -> Gain {
        self.next_ns = match reading {
            Some(reading) => self.add(reading),
            None => Clock::here().now_ns() as f64 - self.epoch_ns as f64 + READ_NS,
        };
        self.gain
    }

    /// Adds a reading. Returns when the next one is due.
    fn add(&mut self, reading: &Reading) -> f64 {
        let at_ns = reading.at_ns as f64 - self.epoch_ns as f64;
        self.pings += reading.pings;
        let first_ns = self.read[0].0;
        let next_ns = at_ns + ((at_ns - first_ns) / 2.0).clamp(READ_NS / 50.0, READ_NS);
        // The fit is used for at most the time span that it was made from.
        let (base_ns, since_ns) = (self.gain.at_ns - first_ns, at_ns - self.gain.at_ns);
        let error_ns = reading.error_ns as f64;
        let is_bad = error_ns > WORSE * self.usual_ns;
        self.usual_ns += (error_ns.min(2.0 * self.usual_ns) - self.usual_ns) / 8.0;
        if is_bad && since_ns < base_ns {
            return next_ns;
        }
        let off_ns = self.check(reading);
        if is_bad && off_ns <= reading.error_ns && base_ns >= BASE_NS / 2.0 {
            // The line may be right, and is the better guess.
            return next_ns;
        }
        let gained_ns = reading.ahead_ns.saturating_sub(self.before.ahead_ns) as f64;
        self.read.push_back((at_ns, gained_ns));
        while self.read.len() > 2 && at_ns - self.read[1].0 >= BASE_NS {
            self.read.pop_front();
        }
        let (first_ns, first_gained_ns) = self.read[0];
        let pace = if at_ns > first_ns { (gained_ns - first_gained_ns) / (at_ns - first_ns) } else { 0.0 };
        self.gain = Gain { at_ns, gained_ns, pace };
        next_ns
    }

    /// How far off the line is by a reading, in ns. Until then it was not further off, except for the error
    /// of the reading.
    fn check(&mut self, reading: &Reading) -> u64 {
        let at_ns = reading.at_ns as f64 - self.epoch_ns as f64;
        let gained_ns = reading.ahead_ns.saturating_sub(self.before.ahead_ns) as f64;
        let off_ns = (self.gain.at(at_ns) - gained_ns).abs().ceil() as u64;
        self.error_ns = self.error_ns.max(off_ns.saturating_add(reading.error_ns));
        off_ns
    }
}

/// The clocks of both ends of a trial. More ends have one clock.
pub(crate) struct Clocks {
    before: [Reading; 2],
    after: Option<[Reading; 2]>,
    /// The clocks that were followed.
    followed: [Option<Follower>; 2],
    /// The origin of times, by the clock of this process.
    epoch_ns: u64,
}

impl Clocks {
    /// Begins with the readings before a trial.
    pub fn before(before: [Reading; 2]) -> Self {
        Self { before, after: None, followed: [None, None], epoch_ns: Clock::here().now_ns() }
    }

    /// Sets the origin of times: the trial begins after `wait`.
    pub fn begin(&mut self, wait: Duration) {
        self.epoch_ns = Clock::here().now_ns() + wait.as_nanos() as u64;
    }

    /// Adds the readings after it.
    pub fn after(&mut self, after: [Reading; 2]) {
        for (follower, reading) in self.followed.iter_mut().zip(&after) {
            follower.iter_mut().for_each(|follower| _ = follower.check(reading));
        }
        self.after = Some(after);
    }

    /// Whether the clock is followed during a trial of this length. Not on a busy connection: the time of a
    /// request that waits behind others says nothing about the offset.
    fn follows(&self, length: Duration) -> bool {
        !self.is_one() && length > SHORT && self.before.iter().all(|it| ["", "udp"].contains(&&*it.over))
    }

    /// A follower of the clock of an end in a trial of this length, which has begun; `None` if that clock is
    /// not followed.
    pub fn follower(&self, at: usize, length: Duration) -> Option<Follower> {
        let follows = self.follows(length) && !self.before[at].over.is_empty();
        follows.then(|| Follower::new(self.before[at].clone(), self.epoch_ns))
    }

    /// Adds the follower of the clock of an end.
    pub fn followed(&mut self, at: usize, follower: Option<Follower>) {
        if let Some(place) = self.followed.get_mut(at) {
            *place = follower;
        }
    }

    /// Both ends have the same clock.
    fn is_one(&self) -> bool {
        self.before[0].id == self.before[1].id
    }

    /// The origin of times, by the clock of an end.
    pub fn epoch_ns(&self, at: usize) -> u64 {
        // One clock is read once.
        let ahead = self.before[if self.is_one() { 0 } else { at }].ahead_ns;
        self.epoch_ns.saturating_add_signed(ahead)
    }

    fn error_ns(&self) -> u64 {
        let of = |both: &[Reading; 2]| both[0].error_ns + both[1].error_ns;
        of(&self.before).max(self.after.as_ref().map_or(0, of))
    }

    /// The margin that a receiver adds to its times, so that none is negative in a trial of this length, and
    /// the number of parts that it separates.
    pub fn margin(&self, length: Duration) -> (u64, usize) {
        if self.is_one() {
            return (0, 1);
        }
        let (alone, parts) = if self.follows(length) { (SHORT, 1) } else { (length, SLICES) };
        (2 * self.error_ns() + (alone.as_nanos() as f64 * DRIFT) as u64, parts)
    }

    /// The error of latencies in ns, up or down: that of the offset, and that of times which are kept to
    /// three digits with the margin.
    pub fn latency_error_ns(&self, margin_ns: u64) -> u64 {
        let errors = self.followed.iter().flatten().map(|follower| follower.error_ns);
        self.error_ns().max(errors.fold(0, u64::saturating_add)).saturating_add(margin_ns.div_ceil(1024))
    }

    /// Whether a clock was set between the readings before and after the trial: it has gained or lost more
    /// than clocks drift.
    pub fn is_set(&self) -> bool {
        let Some(after) = &self.after else { return false };
        self.before.iter().zip(after).any(|(before, after)| {
            let drift_ns = after.at_ns.saturating_sub(before.at_ns) as f64 * 2.0 * DRIFT;
            let slack_ns = before.error_ns.saturating_add(after.error_ns).saturating_add(drift_ns as u64);
            before.ahead_ns.abs_diff(after.ahead_ns) > slack_ns
        })
    }

    /// How much the second clock gains on the first, in s per s.
    fn drift(&self) -> f64 {
        let Some(after) = &self.after else { return 0.0 };
        let ahead = |both: &[Reading; 2]| both[1].ahead_ns as f64 - both[0].ahead_ns as f64;
        let at = |both: &[Reading; 2]| (both[0].at_ns as f64 + both[1].at_ns as f64) / 2.0;
        let over = at(after) - at(&self.before);
        if over > 0.0 { (ahead(after) - ahead(&self.before)) / over } else { 0.0 }
    }

    /// The corrected latencies, from the latencies that the receiver `to` has measured in parts of `length`,
    /// with `margin`. None if a clock was set meanwhile: the time of that is unknown.
    pub fn correct(&self, to: usize, parts: Vec<Latency>, length: Duration, margin_ns: u64) -> Latency {
        // After days the margin is as long as the longest time that is kept.
        if margin_ns >= MOST_MARGIN_NS || self.is_set() {
            return Latency::default();
        }
        let [one] = &parts[..] else {
            // No jitter: between two frames of one of many flows, the clocks may drift farther apart.
            let mut all = Latency::default();
            let each = length.as_nanos() as f64 / parts.len().max(1) as f64;
            let read_ns = (self.before[0].at_ns as f64 + self.before[1].at_ns as f64) / 2.0;
            for (number, part) in parts.iter().enumerate() {
                let since = self.epoch_ns as f64 - read_ns + (number as f64 + 0.5) * each;
                let gained = self.drift() * since * if to == 1 { 1.0 } else { -1.0 };
                let wrong = margin_ns as f64 + gained;
                for (ns, frames) in part.recorded() {
                    all.record_times((ns as f64 - wrong).max(0.0).round() as u64, frames);
                }
            }
            return all;
        };
        let mut all = Latency::default();
        match margin_ns {
            0 => all.add(one),
            // The gain is subtracted already.
            _ => {
                one.recorded()
                    .for_each(|(ns, frames)| all.record_times(ns.saturating_sub(margin_ns), frames));
                all.variation.add(&one.variation);
            }
        }
        all
    }

    /// The clocks as they are published: `None` if there is only one.
    pub fn document(&self) -> Option<Document> {
        if self.is_one() {
            return None;
        }
        let pings = |both: &[Reading; 2]| both[0].pings + both[1].pings;
        let mut over: Vec<_> =
            self.before.iter().map(|it| it.over.clone()).filter(|it| !it.is_empty()).collect();
        over.dedup();
        Some(Document {
            offset_ns: self.before[1].ahead_ns.saturating_sub(self.before[0].ahead_ns),
            error_ns: self.error_ns(),
            drift_ns_per_s: self.after.is_some().then(|| (self.drift() * 1e10).round() / 10.0),
            pings: pings(&self.before)
                + self.after.as_ref().map_or(0, pings)
                + self.followed.iter().flatten().map(|follower| follower.pings).sum::<u64>(),
            over: over.join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn reading(id: &str, at_ns: u64, ahead_ns: i64, error_ns: u64) -> Reading {
        Reading { id: id.into(), at_ns, ahead_ns, error_ns, pings: 8, over: "udp".into() }
    }

    #[test]
    fn the_shortest_ping_tells_and_the_truth_is_within_its_error() {
        // The other clock is 1 s ahead; both directions take different times, and the answer takes some.
        for (there, back) in [(10, 10), (0, 40), (33, 1)] {
            let ping = |there: u64, back: u64| {
                let came_ns = 5_000 + there + 1_000_000_000;
                Ping { sent_ns: 5_000, came_ns, left_ns: came_ns + 700, back_ns: 5_000 + there + 700 + back }
            };
            let pings = [ping(500, 3), ping(there, back), ping(90, 90)];
            let reading = Reading::best_of("x", "udp", &pings).unwrap();
            assert!(reading.ahead_ns.abs_diff(1_000_000_000) <= reading.error_ns, "{reading:?}");
            assert_eq!((reading.error_ns, reading.pings), ((there + back).div_ceil(2), 3));
        }
        assert_eq!(Reading::best_of("x", "udp", &[]), None);
    }

    /// Between two clocks that are not followed a long trial has coarse latencies, and says so; after days it
    /// has none.
    #[test]
    fn the_margin_of_a_long_trial_is_part_of_the_error() {
        let by_grpc = |it: Reading| Reading { over: "grpc".into(), ..it };
        let clocks = Clocks::before([by_grpc(reading("a", 0, 0, 0)), by_grpc(reading("b", 0, 0, 100))]);
        for (hours, known) in [(1, true), (48, true), (240, false)] {
            let length = Duration::from_secs(hours * 3600);
            let (margin_ns, parts) = clocks.margin(length);
            let mut each: Vec<_> = (0..parts).map(|_| Latency::default()).collect();
            each.iter_mut().for_each(|part| part.record(margin_ns + 70_000));
            let latency = clocks.correct(1, each, length, margin_ns).quantiles();
            assert_eq!(latency.p50.is_some(), known, "{hours} h");
            let (wrong, error) =
                (latency.p50.map(|ns| ns.abs_diff(70_000)), clocks.latency_error_ns(margin_ns));
            assert!(wrong.is_none_or(|wrong| wrong > 100 && wrong <= error), "{hours} h: {wrong:?}, {error}");
        }
    }

    /// A trial of this length between this host and one whose clock gains 30 µs a second, and a little more
    /// or less from minute to minute. Readings in it have this error, some a larger one, and are off by half
    /// of it at most. Returns the stated error, which covers each latency.
    fn followed(seconds: f64, usual_ns: u64) -> u64 {
        let length = Duration::from_secs_f64(seconds);
        let gained_ns = |s: f64| 30_000.0 * s + 500.0 * 100.0 * (1.0 - (s / 100.0).cos());
        let here = Clock::here().now_ns();
        let mut noise = 1_u64;
        let mut read = |s: f64| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Each hundredth reading is delayed.
            let error_ns = match noise >> 57 {
                _ if s < 0.0 => 20_000,
                0 => 900_000,
                _ => usual_ns,
            };
            let off = ((noise >> 33) as f64 / 2_f64.powi(31) - 0.5) * error_ns as f64;
            let at_ns = here + 1_000_000_000 + (s * 1e9) as u64;
            [reading("a", at_ns, 0, 0), reading("b", at_ns, (7e6 + gained_ns(s) + off) as i64, error_ns)]
        };
        let mut clocks = Clocks::before(
            read(-0.3).map(|it| Reading { over: if it.id == "a" { String::new() } else { it.over }, ..it }),
        );
        clocks.epoch_ns = here + 1_000_000_000;
        let (margin_ns, parts) = clocks.margin(length);
        assert!(parts == 1 && margin_ns < 2_000_000);
        assert!(clocks.follower(0, length).is_none(), "this host's clock needs none");
        let mut follower = clocks.follower(1, length).unwrap();
        let state = crate::TrialState::new(2);
        let mut latency = [Latency::default(), Latency::default()];
        let mut s = 0.0;
        while s < seconds {
            state.reads_clock(1, follower.read(Some(&read(s)[1])));
            let next = (follower.next_ns / 1e9).min(seconds);
            for frame in 0..4 {
                let s = s + (next - s) * f64::from(frame) / 4.0;
                for (to, all) in latency.iter_mut().enumerate() {
                    // By the receiver's clock.
                    let gained = gained_ns(s) - gained_ns(0.0);
                    let (own, more) = if to == 1 { (gained, gained) } else { (0.0, -gained) };
                    let gain = state.gain(to, &mut 0).unwrap().at(s * 1e9 + own);
                    all.record((margin_ns as f64 + 70_000.0 + more - gain).max(0.0) as u64);
                }
            }
            s = next;
        }
        clocks.followed(1, Some(follower));
        clocks.after(read(seconds + 0.1));
        let error_ns = clocks.latency_error_ns(margin_ns);
        for (to, all) in latency.into_iter().enumerate() {
            let all = clocks.correct(to, vec![all], length, margin_ns);
            for share in [0.000_001, 0.5, 1.0] {
                let ns = all.quantile_ns(share);
                assert!(ns.abs_diff(70_000) <= error_ns, "{seconds} s: {ns} is off by more than {error_ns}");
            }
        }
        let document = clocks.document().unwrap();
        assert!((document.drift_ns_per_s.unwrap() - 30_000.0).abs() < 3000.0, "{document:?}");
        error_ns
    }

    /// The error of latencies between two clocks that are followed covers the truth, and is about as small
    /// after three days as after ten seconds.
    #[test]
    fn the_error_does_not_grow_with_the_trial() {
        let errors = [10.0, 600.0, 72.0 * 3600.0].map(|seconds| followed(seconds, 20_000));
        assert!(errors.iter().all(|&ns| (20_000..70_000).contains(&ns)), "{errors:?}");
        assert!(errors[2] <= errors[0] * 3 / 2, "{errors:?}");
        // A busy network answers later while frames are sent.
        let errors = [10.0, 600.0, 72.0 * 3600.0].map(|seconds| followed(seconds, 100_000));
        assert!(errors.iter().all(|&ns| (100_000..350_000).contains(&ns)), "{errors:?}");
    }

    #[test]
    fn drift_is_taken_out_of_latencies() {
        let here = Clock::here().now_ns();
        // The second clock is 5 ms ahead, and gains 50 µs a second; the truth is 100 µs in each direction.
        let mut clocks = Clocks::before([reading("a", here, 0, 0), reading("b", here, 5_000_000, 1000)]);
        let length = Duration::from_secs(1);
        let (margin_ns, parts) = clocks.margin(length);
        assert!(parts > 1 && margin_ns >= 200_000);
        assert_eq!(clocks.epoch_ns(1) - clocks.epoch_ns(0), 5_000_000);
        clocks.after([
            reading("a", here + 1_000_000_000, 0, 0),
            reading("b", here + 1_000_000_000, 5_050_000, 1000),
        ]);
        for to in [0, 1] {
            let sign = if to == 1 { 1.0 } else { -1.0 };
            let mut measured: Vec<Latency> = (0..parts).map(|_| Latency::default()).collect();
            for frame in 0..1000 {
                let gained = sign * 50_000.0 * f64::from(frame) / 1000.0;
                let part = frame as usize * parts / 1000;
                measured[part].record((100_000.0 + margin_ns as f64 + gained) as u64);
            }
            let latency = clocks.correct(to, measured, length, margin_ns);
            assert_eq!(latency.frames(), 1000);
            for share in [0.001, 0.5, 1.0] {
                // Half of a part's drift, and the histogram's three digits.
                let ns = latency.quantile_ns(share);
                assert!(ns.abs_diff(100_000) < 2500, "{to} {share} {ns}");
            }
        }
        let document = clocks.document().unwrap();
        assert_eq!((document.offset_ns, document.error_ns, document.pings), (5_000_000, 1000, 32));
        assert!((document.drift_ns_per_s.unwrap() - 50_000.0).abs() < 1.0);
    }

    #[test]
    fn one_clock_has_no_offset() {
        let clocks = Clocks::before([Reading::here(), Reading::here()]);
        assert_eq!(clocks.document(), None);
        assert_eq!(clocks.margin(Duration::from_secs(60)), (0, 1));
        assert_eq!(clocks.epoch_ns(0), clocks.epoch_ns(1));
        // Two readings through two connections to one agent are of one clock.
        let elsewhere = Clocks::before([reading("x", 1, 700, 30), reading("x", 2, 720, 30)]);
        assert_eq!(elsewhere.epoch_ns(0), elsewhere.epoch_ns(1));
        assert_eq!(elsewhere.document(), None);
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_and_one_that_is_not_is_not() {
        let moment = Instant::now();
        let read = || {
            let before = TimeOfDay::at(moment);
            std::thread::sleep(Duration::from_millis(20));
            let after = TimeOfDay::at(moment);
            assert_eq!(after.set_since(&before), None, "{before:?} {after:?}");
            (before, after)
        };
        // A busy machine may interrupt all readings of one.
        let mut last = None;
        kpps_namespaces::until_undisturbed("two readings are not interrupted", || {
            let (before, after) = last.insert(read());
            before.error_ns.max(after.error_ns) < 40_000
        });
        let (before, after) = last.unwrap();
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        assert!(TimeOfDay::at(Instant::now() + Duration::from_secs(1)).ns > now + 999_000_000);
        for set in [5_000_000, -5_000_000] {
            let then = TimeOfDay { ns: after.ns.wrapping_add_signed(set), ..after };
            let noticed = then.set_since(&before).unwrap();
            assert!(noticed.abs_diff(set) < 100_000, "{noticed}");
        }
    }

    /// Processes of one system share its clock, so each must read it right: an error of one is in all
    /// latencies between the two.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_systems_clock_is_read_to_less_than_a_microsecond() {
        for _ in 0..10 {
            let (id, origin, origin_ns) = system().unwrap();
            let clock = Clock::of(id, origin, origin_ns);
            let bracket = |_| {
                let before = clock.now_ns();
                let truth = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
                let after = clock.now_ns();
                (after - before, before, Duration::try_from(truth).unwrap().as_nanos() as u64, after)
            };
            let (_, before, truth, after) = (0..100).map(bracket).min().unwrap();
            assert!(before < truth + 1000 && truth < after + 1000, "{before} {truth} {after}");
        }
    }

    /// However far an agent's clock jumps: latencies are unknown then, and nothing overflows.
    #[test]
    fn there_are_no_latencies_by_a_clock_that_was_set() {
        let trial = |ahead_ns: [i64; 2]| {
            let at = |at_ns, ahead_ns| [reading("a", at_ns, 0, 100), reading("b", at_ns, ahead_ns, 100)];
            let mut clocks = Clocks::before(at(1_000_000_000, ahead_ns[0]));
            clocks.after(at(2_000_000_000, ahead_ns[1]));
            let latency = || {
                let mut latency = Latency::default();
                latency.record_times(10_000, 5);
                latency
            };
            let document = clocks.document().unwrap();
            (clocks.correct(1, vec![latency(), latency()], Duration::from_secs(1), 1000).frames(), document)
        };
        assert_eq!(trial([7, 200_007]).0, 10, "200 ppm");
        for set in [[0, 3_600_000_000_000], [3_600_000_000_000, 0], [0, 500_000], [i64::MIN, i64::MAX]] {
            assert_eq!(trial(set).0, 0, "{set:?}");
        }
    }

    #[test]
    fn a_clock_tells_when_it_shows_a_time() {
        let clock = Clock::showing(1_000_000_000);
        for ns in [0, 999_000_000, 1_000_000_000, 2_000_000_000] {
            let behind = clock.when(2_000_000_000).duration_since(clock.when(ns));
            assert_eq!(behind.as_nanos() as u64, 2_000_000_000 - ns);
        }
        assert!(clock.now_ns() >= 1_000_000_000 && clock.id() != Clock::showing(0).id());
        assert_eq!(Clock::here().id(), Clock::here().id());
    }
}
