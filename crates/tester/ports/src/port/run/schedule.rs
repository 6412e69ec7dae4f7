//! Which frame of a plan comes next, and when it is due.

use super::gaps::Recorder;
use super::plan::{Change, Late, SendPlan, StreamPlan, Timetables};
use super::shape::Timetable;
use super::waiting::{DueFrame, PRIORITIES, Waiting};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// The longest delay of a frame that cannot be sent at its time. With [`Late::Skip`](super::Late::Skip) a
/// later frame is not sent and counts as shortfall. So the load is never stretched over a longer time, and no
/// long burst follows a pause.
pub const LATE: Duration = Duration::from_millis(1);

/// The most frames that may be later than [`LATE`] at low rates, in one burst: the number that is sent at
/// once at high rates. Otherwise each moment in which a virtual machine does not run would make a trial
/// invalid.
pub const FEW: u64 = super::BURST as u64;

/// How late the frames of a paced load were sent, where none was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Frames that were given to the port more than a millisecond after they were due.
    pub frames: u64,
    /// The longest time from when a frame was due until it was given to the port.
    pub longest: Duration,
}

impl Lateness {
    /// That of two cores.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self { frames: self.frames + other.frames, longest: self.longest.max(other.longest) }
    }

    /// A frame that was due at `due_s` was given to the port now.
    pub(super) fn note(&mut self, due_s: f64, now: Duration) {
        let due = Duration::try_from_secs_f64(due_s).unwrap_or(now);
        let delay = now.saturating_sub(due);
        self.frames += u64::from(delay > LATE);
        self.longest = self.longest.max(delay);
    }
}

/// The frames of a plan in the order of sending. Times are in s since the start.
pub(super) trait Schedule {
    /// Frames that are due now and were neither sent nor given up, and how many frames became due in the last
    /// millisecond. Times must not decrease.
    fn waiting(&mut self, now: Duration) -> (u64, u64);
    /// Leaves out this number of the late ones of these: of the lowest priority first, and of these the
    /// oldest.
    fn give_up(&mut self, frames: u64);
    /// The frames that it left out by itself since the last question.
    fn left_out(&mut self) -> u64 {
        0
    }
    /// The stream of the next frame: its index in the plan. Not behind the last frame.
    fn next(&mut self) -> usize;
    /// The number of a stream's frame in its tag, by its number among the frames that are sent here.
    #[inline]
    fn number(&self, sequence: u64) -> u64 {
        sequence
    }
    /// This number of the next frames was given to the port, in a turn that began at `began`. Records gaps
    /// and delays, if they are wanted.
    fn sent(&mut self, frames: usize, began: Duration, now: Duration, gaps: Option<&mut Recorder>);
    /// The number of frames that are left, waiting or not; as many as it is if there is no end.
    fn left(&self) -> u64;
    /// When the next frame is due that does not wait now; infinite if there is none.
    fn next_s(&self) -> f64;
    /// All frames that are due before a time, sent or not.
    fn due_before(&mut self, s: f64) -> u64;
    /// The same for each stream, at the time of the last question; empty where all frames are of the first.
    fn due_of_streams(&self, _s: f64) -> Vec<u64> {
        Vec::new()
    }
    /// Changes the load from now on, of a plan that ends after this time.
    fn change(&mut self, now: Duration, changes: &[Change], length: Option<Duration>);
    /// Whether each stream of the plan has frames that were not sent.
    fn are_sending(&self) -> Vec<bool> {
        vec![self.left() > 0]
    }
    /// The gap of equally spaced frames in ns; `None` if gaps differ.
    fn gap_ns(&self) -> Option<f64> {
        None
    }
    /// The gap in ns of equally spaced frames that are divided among cores.
    fn shared_gap_ns(&self) -> Option<f64> {
        None
    }
    /// How late frames were.
    fn lateness(&self) -> Lateness;
    /// Whether all frames are of the first stream, and [`next`](Self::next) need not be asked.
    fn is_one(&self) -> bool {
        false
    }
}

/// The schedule of one stream that begins at once.
pub(super) struct One {
    table: Timetable,
    /// The same table, read a little later.
    behind: Timetable,
    /// When the frames that were sent were due, if their times or delays are wanted; and their delays.
    due: Option<Timetable>,
    lateness: Lateness,
    most: u64,
    /// Frames that became due, as the last question found.
    known: u64,
    sent: u64,
    given_up: u64,
    /// Whether frames that were given up count towards `most`: they do not come again.
    skips: bool,
}

impl One {
    /// For a plan with one stream. `with_times`: whether late frames are sent, or other cores send other
    /// streams, so that it matters when each frame was due.
    pub(super) fn of(plan: &SendPlan, with_times: bool) -> Option<Self> {
        let [stream] = &plan.streams[..] else { return None };
        let table = stream.timetable();
        (stream.start.is_zero() && stream.duration.is_none() && !plan.live).then(|| Self {
            behind: table.clone(),
            due: with_times.then(|| table.clone()),
            table,
            lateness: Lateness::default(),
            most: stream.count.unwrap_or(u64::MAX),
            known: 0,
            sent: 0,
            given_up: 0,
            skips: plan.as_they_are,
        })
    }

    /// The frames that count towards `most`.
    fn done(&self) -> u64 {
        self.sent + if self.skips { self.given_up } else { 0 }
    }
}

impl Schedule for One {
    fn waiting(&mut self, now: Duration) -> (u64, u64) {
        let due = self.table.due(now.as_secs_f64());
        let lately = now.checked_sub(LATE).map_or(due, |then| due - self.behind.due(then.as_secs_f64()));
        self.known = due;
        ((due - self.sent - self.given_up).min(self.left()), lately)
    }
    fn give_up(&mut self, frames: u64) {
        self.given_up += frames;
    }
    #[inline]
    fn next(&mut self) -> usize {
        0
    }
    fn sent(&mut self, frames: usize, began: Duration, now: Duration, gaps: Option<&mut Recorder>) {
        let first = self.sent + self.given_up;
        self.sent += frames as u64;
        let Some(gaps) = gaps else { return };
        let now_ns = now.as_nanos() as u64;
        gaps.record(now_ns, frames);
        if let Some(due) = &mut self.due {
            for frame in first..first + frames as u64 {
                let due_s = due.time_of(frame);
                self.lateness.note(due_s, began);
                gaps.note(now_ns, (due_s * 1e9) as u64);
            }
        }
    }
    fn left(&self) -> u64 {
        self.most - self.done()
    }
    fn next_s(&self) -> f64 {
        self.table.next_s(self.known)
    }
    fn due_before(&mut self, s: f64) -> u64 {
        (self.table.before(s).ceil() as u64).min(self.most)
    }
    fn change(&mut self, now: Duration, changes: &[Change], length: Option<Duration>) {
        for change in changes {
            // The streams of a plan change by themselves only if it is live.
            let Change::Load(pps) = *change else { continue };
            for table in [&mut self.table, &mut self.behind].into_iter().chain(&mut self.due) {
                table.change(now.as_secs_f64(), pps);
            }
            let most = length.and_then(|length| self.table.until(length.as_secs_f64()));
            self.most = most.unwrap_or(u64::MAX).max(self.done());
        }
    }
    fn gap_ns(&self) -> Option<f64> {
        self.table.gap_ns()
    }
    fn lateness(&self) -> Lateness {
        self.lateness
    }
    fn is_one(&self) -> bool {
        true
    }
}

/// The rate of the fastest stream where frames are not paced: its times in ps are exact, and last for years.
const UNPACED_PPS: f64 = 1e9;

/// The most due frames that are listed where late frames are sent. The times of later ones are found when
/// these are sent: however far a port falls behind, memory stays constant.
const MOST_LISTED: usize = 4096;

/// A time in ps, which has an order.
fn ps(s: f64) -> u64 {
    (s * 1e12) as u64
}

/// The schedule of several streams.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Many {
    tables: Timetables,
    /// Whether streams may be started again.
    live: bool,
    is_paced: bool,
    /// Whether late frames are sent: of a live plan only those of streams with a number of frames. Others may
    /// have no end.
    sends_late: bool,
    is_counted: Vec<bool>,
    /// Frames that were left out since the last question.
    left_out: u64,
    /// Of each priority, the time in ps of each stream's next frame that did not become due yet, and the
    /// stream.
    next: [BinaryHeap<Reverse<DueFrame>>; PRIORITIES as usize],
    /// The number of priorities that streams have: the highest one and 1.
    classes: usize,
    /// How many frames of each stream became due.
    due: Vec<u64>,
    /// Frames that are due.
    waiting: Waiting,
    /// Frames that were due by this time in ps are late.
    late_ps: Option<u64>,
    /// The priority of each stream.
    priorities: Vec<u8>,
    /// The times of frames that were taken and not yet reported as sent.
    taken: VecDeque<u64>,
    /// Frames that became due.
    all: u64,
    lateness: Lateness,
}

impl Many {
    pub(super) fn of(plan: &SendPlan) -> Self {
        // Frames that are not paced have times only for their order.
        let fastest_pps = plan.streams.iter().map(|stream| stream.pps).fold(f64::MIN_POSITIVE, f64::max);
        let at_once = |stream: &StreamPlan| StreamPlan {
            start: Duration::ZERO,
            duration: None,
            pps: stream.pps / fastest_pps * UNPACED_PPS,
            ..stream.clone()
        };
        let tables = match plan.is_paced {
            true => Timetables::of(&plan.streams),
            false => Timetables::of(&plan.streams.iter().map(at_once).collect::<Vec<_>>()),
        };
        let mut many = Self {
            tables,
            live: plan.live,
            is_paced: plan.is_paced,
            sends_late: plan.late == Late::Send,
            is_counted: plan.streams.iter().map(|stream| stream.count.is_some()).collect(),
            left_out: 0,
            next: Default::default(),
            classes: 1,
            due: vec![0; plan.streams.len()],
            waiting: Waiting::default(),
            late_ps: None,
            priorities: plan.streams.iter().map(|stream| stream.priority).collect(),
            taken: VecDeque::new(),
            all: 0,
            lateness: Lateness::default(),
        };
        (0..plan.streams.len()).for_each(|stream| many.push(stream));
        many
    }

    /// Notes when the next frame of a stream is due.
    #[inline]
    fn push(&mut self, stream: usize) {
        if let Some(due) = self.due.get(stream)
            && let Some(s) = self.tables.time_of(stream, *due)
        {
            let class = self.class(stream);
            self.classes = self.classes.max(class + 1);
            self.next[class].push(Reverse((ps(s), stream as u32)));
        }
    }

    /// The priority of a stream.
    #[inline]
    fn class(&self, stream: usize) -> usize {
        self.priorities.get(stream).map_or(0, |priority| usize::from((*priority).min(PRIORITIES - 1)))
    }

    /// The next frame of a priority that did not become due yet, due by `until_ps`, becomes due.
    #[inline]
    fn becomes_due(&mut self, class: usize, until_ps: u64) -> Option<DueFrame> {
        let next = self.next.get_mut(class)?;
        let Reverse((at_ps, stream)) = *next.peek()?;
        if at_ps > until_ps {
            return None;
        }
        next.pop();
        *self.due.get_mut(stream as usize)? += 1;
        self.all += 1;
        self.push(stream as usize);
        Some((at_ps, stream))
    }

    /// The priority whose next frame is due first.
    fn earliest(&self) -> Option<usize> {
        let next = self.next[..self.classes].iter().enumerate();
        next.filter_map(|(class, next)| Some((next.peek()?.0.0, class))).min().map(|(_, class)| class)
    }

    /// All frames that are due by a time wait; where late ones are sent, up to [`MOST_LISTED`] of each
    /// priority.
    #[inline]
    fn collect(&mut self, until_ps: u64) {
        for class in 0..self.classes {
            if self.sends_late {
                self.collect_late(class, until_ps);
                continue;
            }
            while let Some(due) = self.becomes_due(class, until_ps) {
                self.waiting.push(due, class as u8);
            }
        }
    }

    fn collect_late(&mut self, class: usize, until_ps: u64) {
        let in_time_ps = until_ps.saturating_sub(LATE.as_nanos() as u64 * 1000);
        let mut few = FEW;
        while self.waiting.of(class as u8) < MOST_LISTED
            && let Some((at_ps, stream)) = self.becomes_due(class, until_ps)
        {
            let is_kept = !self.live || self.is_counted.get(stream as usize) == Some(&true);
            if is_kept || at_ps >= in_time_ps || few > 0 {
                few -= u64::from(!is_kept && at_ps < in_time_ps);
                self.waiting.push((at_ps, stream), class as u8);
            } else {
                self.left_out += 1;
            }
        }
    }

    /// Leaves out the late frames of a stream that ends at a time.
    fn leave_out(&mut self, stream: usize, s: f64) {
        let unlisted = self.unlisted(stream, s);
        let listed = self.waiting.len();
        let in_time_ps = ps(s).saturating_sub(LATE.as_nanos() as u64 * 1000);
        self.waiting.retain(|(at_ps, of)| *of as usize != stream || *at_ps >= in_time_ps);
        if let Some(due) = self.due.get_mut(stream) {
            *due += unlisted;
            self.all += unlisted;
        }
        self.left_out += unlisted + (listed - self.waiting.len()) as u64;
    }

    /// Frames of a stream that are due before a time and did not become due yet: too many others wait.
    fn unlisted(&self, stream: usize, s: f64) -> u64 {
        match self.due.get(stream) {
            Some(due) if self.waiting.of(self.class(stream) as u8) >= MOST_LISTED => {
                self.tables.due_before(stream, s).saturating_sub(*due)
            }
            _ => 0,
        }
    }
}

impl Schedule for Many {
    fn waiting(&mut self, now: Duration) -> (u64, u64) {
        let now_ps = ps(now.as_secs_f64());
        self.collect(now_ps);
        let all = self.waiting.len();
        self.late_ps = now.checked_sub(LATE).map(|then| ps(then.as_secs_f64()));
        let lately = self.late_ps.map_or(all, |then_ps| self.waiting.after(then_ps));
        (all as u64, lately as u64)
    }
    fn give_up(&mut self, frames: u64) {
        if let Some(late_ps) = self.late_ps {
            self.waiting.leave_out(usize::try_from(frames).unwrap_or(usize::MAX), late_ps);
        }
    }
    fn left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
    #[inline]
    fn next(&mut self) -> usize {
        if let Some((at_ps, stream)) = self.waiting.pop() {
            self.taken.push_back(at_ps);
            return stream as usize;
        }
        // Frames that are not paced come in the order of their times, however late it is. So do those that
        // were not listed.
        let due = self.earliest().and_then(|class| self.becomes_due(class, u64::MAX));
        let Some((at_ps, stream)) = due else { return 0 };
        if self.is_paced {
            self.taken.push_back(at_ps);
        }
        stream as usize
    }
    fn sent(&mut self, frames: usize, began: Duration, now: Duration, gaps: Option<&mut Recorder>) {
        let Some(gaps) = gaps else { return };
        for at_ps in self.taken.drain(..frames.min(self.taken.len())) {
            self.lateness.note(at_ps as f64 / 1e12, began);
            gaps.record_due(now.as_nanos() as u64, at_ps / 1000);
        }
    }
    fn left(&self) -> u64 {
        // A stream has frames that are not due yet, or may have more.
        let is_over = self.next[..self.classes].iter().all(BinaryHeap::is_empty) && !self.live;
        if is_over { self.waiting.len() as u64 } else { u64::MAX }
    }
    fn next_s(&self) -> f64 {
        let next = self.next[..self.classes].iter().filter_map(|next| Some(next.peek()?.0.0));
        next.min().map_or(f64::INFINITY, |at_ps| at_ps as f64 / 1e12)
    }
    fn due_before(&mut self, s: f64) -> u64 {
        if let Some(end_ps) = ps(s).checked_sub(1) {
            self.collect(end_ps);
        }
        self.all + (0..self.due.len()).map(|stream| self.unlisted(stream, s)).sum::<u64>()
    }
    fn due_of_streams(&self, s: f64) -> Vec<u64> {
        self.due.iter().enumerate().map(|(stream, due)| due + self.unlisted(stream, s)).collect()
    }
    fn change(&mut self, now: Duration, changes: &[Change], _: Option<Duration>) {
        // Frames that are due by now stay due.
        self.collect(ps(now.as_secs_f64()));
        let mut has_changed = vec![false; self.due.len()];
        for change in changes {
            if let Change::Stop(stream) = *change {
                self.leave_out(stream, now.as_secs_f64());
            }
            let stream = match change {
                Change::Load(_) => None,
                Change::Start(stream)
                | Change::Stop(stream)
                | Change::Rate(stream, _)
                | Change::Pause(stream)
                | Change::Resume(stream) => Some(*stream),
                Change::Add(plan) => {
                    self.due.push(0);
                    self.is_counted.push(plan.count.is_some());
                    self.priorities.push(plan.priority);
                    has_changed.push(false);
                    Some(has_changed.len() - 1)
                }
            };
            match stream {
                None => has_changed.fill(true),
                Some(stream) => has_changed.get_mut(stream).into_iter().for_each(|it| *it = true),
            }
            let due = stream.and_then(|stream| self.due.get(stream)).copied().unwrap_or(0);
            self.tables.change_after(now.as_secs_f64(), change.clone(), |_| due);
        }
        // The others keep their times.
        for next in &mut self.next {
            next.retain(|Reverse((_, stream))| !has_changed.get(*stream as usize).is_some_and(|it| *it));
        }
        let changed = has_changed.iter().enumerate().filter(|(_, has_changed)| **has_changed);
        changed.for_each(|(stream, _)| self.push(stream));
    }
    fn are_sending(&self) -> Vec<bool> {
        let mut sending = vec![false; self.due.len()];
        let streams = self.next.iter().flatten().map(|Reverse((_, stream))| stream);
        for stream in streams.chain(self.waiting.iter().map(|(_, stream)| stream)) {
            sending.get_mut(*stream as usize).into_iter().for_each(|it| *it = true);
        }
        sending
    }
    fn lateness(&self) -> Lateness {
        self.lateness
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::plan::TimedStream;
    use super::super::shape::Shape;
    use super::*;
    use kpps_frames::Templates;
    use kpps_frames::rate::Rate;
    use proptest::prelude::*;
    use std::sync::Arc;

    const MS: Duration = Duration::from_millis(1);

    /// A port that is behind sends the frames of higher priorities first. Late frames are left out, those of
    /// lower priorities first, and no others.
    #[test]
    fn a_stream_of_higher_priority_has_its_frames() {
        let frames = Arc::new(Templates::one(&[0; 60]));
        let stream = |priority| StreamPlan { priority, pps: 10_000.0, ..StreamPlan::of(frames.clone()) };
        let plan = SendPlan { streams: vec![stream(0), stream(5), stream(0)], ..SendPlan::nothing() };
        let plan = SendPlan { is_paced: true, ..plan };
        let mut many = Many::of(&plan);
        // Each stream has 20 late frames and 10 others.
        let (waiting, lately) = many.waiting(MS * 3 - MS / 20);
        assert_eq!((waiting, lately), (90, 30));
        many.give_up(50);
        let order: Vec<usize> = (0..40).map(|_| many.next()).collect();
        let of = |all: &[usize], stream| all.iter().filter(|it| **it == stream).count();
        // Ten late frames were left, all of the second stream.
        assert_eq!((order[..20].to_vec(), of(&order[20..], 0), of(&order[20..], 2)), (vec![1; 20], 10, 10));
        // Where late frames are sent, a long queue of others does not hide them.
        let all = SendPlan { late: Late::Send, ..plan };
        let mut many = Many::of(&all);
        many.waiting(Duration::from_secs(1));
        assert_eq!((0..MOST_LISTED).map(|_| many.next()).collect::<Vec<_>>(), vec![1; MOST_LISTED]);
        many.waiting(Duration::from_secs(1));
        assert_eq!(many.next(), 1);
    }

    #[test]
    fn one_stream_is_late_by_what_it_waited() {
        let frames = Arc::new(Templates::one(&[0; 60]));
        let plan = SendPlan::one(Rate::Pps(1000.0), StreamPlan::of(frames));
        let mut one = One::of(&plan, true).unwrap();
        let mut gaps = Recorder::new(one.gap_ns());
        for (frames, ms) in [(1, 0), (3, 3), (0, 4), (1, 5)] {
            one.waiting(MS * ms);
            one.sent(frames, MS * ms, MS * ms, Some(&mut gaps));
        }
        // Due at 0 to 4 ms, sent at 0, 3, 3, 3 and 5 ms.
        assert_eq!(one.lateness(), Lateness { frames: 1, longest: 2 * MS });
    }

    /// Streams are started, stopped and changed, each by itself, and each frame of the others has its time
    /// still.
    #[test]
    fn streams_are_controlled_while_others_run() {
        let frames = Arc::new(Templates::one(&[0; 60]));
        let stream = |count, waits| StreamPlan {
            pps: 1000.0,
            count,
            waits,
            start: MS / 2,
            ..StreamPlan::of(frames.clone())
        };
        let streams = vec![stream(None, false), stream(Some(10), true), stream(None, false)];
        let plan = SendPlan { live: true, streams, ..SendPlan::one(Rate::Pps(1.0), stream(None, false)) };
        let mut many = Many::of(&plan);
        let mut watched = plan.timetables().unwrap();
        let mut times = vec![Vec::new(); 3];
        for ms in 0..100 {
            let changes = match ms {
                20 => vec![Change::Start(1), Change::Stop(2)],
                // Whoever sends goes on.
                25 => vec![Change::Start(0), Change::Start(1), Change::Start(9), Change::Stop(1000)],
                50 => vec![Change::Start(1), Change::Start(2), Change::Rate(2, 500.0)],
                70 => vec![Change::Stop(2), Change::Start(2)],
                _ => Vec::new(),
            };
            many.change(MS * ms, &changes, None);
            let s = f64::from(ms) / 1e3;
            changes.iter().for_each(|change| watched.change(s, change.clone()));
            let sending = match ms {
                0..20 => [true, false, true],
                20..30 => [true, true, false],
                30..50 => [true, false, false],
                50..60 => [true, true, true],
                _ => [true, false, true],
            };
            for _ in 0..many.waiting(MS * ms).0 {
                let stream = many.next();
                times[stream].push(many.taken.pop_back().unwrap() / 1_000_000);
            }
            assert_eq!(many.are_sending(), sending, "at {ms} ms");
            assert_eq!(watched.before(s + 1e-9), many.all as f64, "at {ms} ms");
            assert_eq!(many.left(), u64::MAX, "streams may be started again");
        }
        let from = |us: u64, count: u64, gap_us: u64| (0..count).map(move |n| us + n * gap_us);
        assert_eq!(times[0], from(500, 99, 1000).collect::<Vec<_>>());
        assert_eq!(times[1], from(20_500, 10, 1000).chain(from(50_500, 10, 1000)).collect::<Vec<_>>());
        let third = from(500, 20, 1000).chain(from(50_500, 10, 2000)).chain(from(70_500, 15, 2000));
        assert_eq!(times[2], third.collect::<Vec<_>>());
    }

    /// A stream that rests goes on with its next frame, and one that is added begins when it is started. The
    /// other streams keep their times.
    #[test]
    fn streams_rest_and_are_added() {
        let frames = Arc::new(Templates::one(&[0; 60]));
        let stream = |count, waits| StreamPlan {
            pps: 1000.0,
            count,
            waits,
            start: MS / 4,
            ..StreamPlan::of(frames.clone())
        };
        let streams = vec![stream(None, false), stream(Some(30), false)];
        let plan = SendPlan { live: true, streams, ..SendPlan::one(Rate::Pps(1.0), stream(None, false)) };
        let (mut many, mut watched) = (Many::of(&plan), plan.timetables().unwrap());
        let mut times = vec![Vec::new(); 3];
        for ms in 0..80 {
            let changes = match ms {
                10 => vec![Change::Pause(1), Change::Pause(7)],
                // Whoever rests goes on resting, and has its new rate later.
                20 => {
                    vec![Change::Pause(1), Change::Rate(1, 500.0), Change::Add(stream(Some(5), true).into())]
                }
                25 => vec![Change::Start(2), Change::Resume(0)],
                40 => vec![Change::Resume(1), Change::Resume(7)],
                // A new beginning ends a rest.
                70 => vec![Change::Start(2), Change::Pause(2), Change::Stop(2), Change::Start(2)],
                _ => Vec::new(),
            };
            many.change(MS * ms, &changes, None);
            let s = f64::from(ms) / 1e3;
            changes.iter().for_each(|change| watched.change(s, change.clone()));
            for _ in 0..many.waiting(MS * ms).0 {
                let stream = many.next();
                times[stream].push((many.taken.pop_back().unwrap() + 500_000) / 1_000_000);
            }
            assert_eq!(watched.before(s + 1e-9), many.all as f64, "at {ms} ms");
            let is_second_due = ms < 10 || (40..79).contains(&ms);
            let added = (25..30).contains(&ms) || (70..75).contains(&ms);
            let sending = [vec![true, is_second_due], vec![added; usize::from(ms >= 20)]].concat();
            assert_eq!(many.are_sending(), sending, "at {ms} ms");
        }
        let from = |us: u64, count: u64, gap_us: u64| (0..count).map(move |n| us + n * gap_us);
        assert_eq!(times[0], from(250, 79, 1000).collect::<Vec<_>>());
        // A quarter of a gap was left.
        assert_eq!(times[1], from(250, 10, 1000).chain(from(40_500, 20, 2000)).collect::<Vec<_>>());
        assert_eq!(times[2], from(25_250, 5, 1000).chain(from(70_250, 5, 1000)).collect::<Vec<_>>());
    }

    /// However far a port falls behind, few frames are listed, and none is forgotten: those of a stream with
    /// a number of frames are sent late, and those of a stream without one are left out.
    #[test]
    fn a_load_that_no_port_sends_takes_no_memory() {
        let frames = Arc::new(Templates::one(&[0; 60]));
        let stream = |pps, count| StreamPlan { pps, count, ..StreamPlan::of(frames.clone()) };
        for live in [true, false] {
            let streams = vec![stream(1e7, Some(1_000_000)), stream(1e6, None)];
            let plan = SendPlan {
                live,
                late: Late::Send,
                streams,
                ..SendPlan::one(Rate::Pps(1.0), stream(1.0, None))
            };
            let mut many = Many::of(&plan);
            let mut gaps = Recorder::new(None);
            let (mut sent, mut left_out) = ([0; 2], 0);
            let mut send = |many: &mut Many, now: Duration, most: u64| {
                for _ in 0..many.waiting(now).0.min(most) {
                    sent[many.next()] += 1;
                    many.sent(1, now, now, Some(&mut gaps));
                }
                left_out += many.left_out();
                (sent, left_out)
            };
            for ms in 0..50 {
                send(&mut many, MS * ms, 1000);
                assert!(many.waiting.len() <= MOST_LISTED && many.taken.is_empty());
            }
            // Within 50 ms 500,000 and 50,000 frames became due.
            let (sent, left_out) = send(&mut many, MS * 50, 1000);
            assert_eq!(many.clone().due_before(0.05), 550_000);
            // One of each stream at first, then a thousand in each ms.
            let all = sent.iter().sum::<u64>();
            assert_eq!(all, 2 + 50 * 1000);
            assert_eq!(left_out > 0, live, "{sent:?}");
            if live {
                many.change(MS * 50, &[Change::Stop(0)], None);
                assert_eq!(many.waiting.iter().filter(|(_, stream)| *stream == 0).count(), 0);
                let waiting = many.waiting(MS * 50).0;
                assert_eq!(all + left_out + many.left_out() + waiting, many.all);
                assert!(many.all.abs_diff(550_000) <= 2);
            } else {
                // After the end the others are sent.
                let due = many.due_before(0.05);
                for _ in all..due {
                    many.next();
                    many.sent(1, MS * 60, MS * 60, Some(&mut gaps));
                }
                assert!(many.lateness().frames > 400_000);
                assert_eq!(many.all, due);
            }
        }
    }

    proptest! {
        /// Frames of streams of one priority come in the order of their times, each stream's at its own
        /// times, and whatever late frames are given up, every due frame is sent, given up or waits.
        #[test]
        fn streams_keep_their_own_times(
            rates in prop::collection::vec((10.0..5000.0_f64, 0u64..30, 1u64..80, 0..3_usize), 2..8),
            steps in prop::collection::vec((1u64..20_000, 0u64..4, 0usize..40), 1..60),
        ) {
            let frames = Arc::new(Templates::one(&[0; 60]));
            let stream = |(n, &(pps, start, count, kind)): (usize, &(f64, u64, u64, usize))| StreamPlan {
                stream: n as u16,
                pps,
                start: Duration::from_millis(start),
                count: (count < 70).then_some(count),
                shape: [Shape::Constant, Shape::Poisson { seed: n as u64 }, Shape::Bursts(3)][kind],
                priority: (n % 3) as u8,
                ..StreamPlan::of(frames.clone())
            };
            let streams: Vec<_> = rates.iter().enumerate().map(stream).collect();
            let plan = SendPlan { streams, ..SendPlan::one(Rate::Pps(1.0), StreamPlan::of(frames.clone())) };
            let mut many = Many::of(&plan);
            let mut alone: Vec<_> = plan.streams.iter().map(TimedStream::of).collect();
            let mut gaps = Recorder::new(None);
            let (mut now, mut sent, mut given_up, mut last_ps) = (Duration::ZERO, 0, 0, [0; 3]);
            let mut of_streams = vec![0; plan.streams.len()];
            for (us, up, most) in steps {
                now += Duration::from_micros(us);
                let (waiting, lately) = many.waiting(now);
                prop_assert!(lately <= waiting && (now >= LATE || lately == waiting));
                prop_assert_eq!(waiting + sent + given_up, many.all);
                let due = alone.iter_mut().map(|it| it.before(now.as_secs_f64() + 1e-9)).sum::<f64>();
                prop_assert!((due - many.all as f64).abs() <= plan.streams.len() as f64, "{due} {}", many.all);
                let up = up.min(waiting - lately);
                many.give_up(up);
                given_up += up;
                let mut before = 2;
                let count = most.min((waiting - up) as usize);
                for _ in 0..count {
                    let stream = many.next();
                    of_streams[stream] += 1;
                    let at_ps = *many.taken.back().unwrap();
                    let priority = stream % 3;
                    prop_assert!(priority <= before, "the highest priority comes first");
                    before = priority;
                    prop_assert!(at_ps >= last_ps[priority] && at_ps <= ps(now.as_secs_f64()));
                    last_ps[priority] = at_ps;
                }
                many.sent(count, now, now, Some(&mut gaps));
                sent += count as u64;
            }
            prop_assert_eq!(of_streams.iter().sum::<u64>(), sent);
            let due = many.due_of_streams(now.as_secs_f64());
            prop_assert_eq!(due.iter().sum::<u64>(), many.all);
            prop_assert!(due.iter().zip(&of_streams).all(|(due, sent)| due >= sent));
            for (stream, sent) in plan.streams.iter().zip(of_streams) {
                prop_assert!(stream.count.is_none_or(|count| sent <= count));
            }
        }

        /// Without pacing, streams share the frames in the proportion of their rates, up to their counts.
        #[test]
        fn a_flood_keeps_the_proportions(rates in prop::collection::vec(1u32..50, 2..6)) {
            let frames = Arc::new(Templates::one(&[0; 60]));
            let stream = |pps: &u32| StreamPlan { pps: f64::from(*pps), ..StreamPlan::of(frames.clone()) };
            let plan = SendPlan {
                streams: rates.iter().map(stream).collect(),
                ..SendPlan::one(Rate::Max, StreamPlan::of(frames.clone()))
            };
            let all: u32 = rates.iter().sum();
            let mut many = Many::of(&plan);
            let mut counts = vec![0_u32; rates.len()];
            for _ in 0..all * 10 {
                prop_assert!(many.left() > 0);
                counts[many.next()] += 1;
            }
            for (count, rate) in counts.iter().zip(&rates) {
                prop_assert!(count.abs_diff(rate * 10) <= rates.len() as u32, "{counts:?} for {rates:?}");
            }
        }
    }
}
