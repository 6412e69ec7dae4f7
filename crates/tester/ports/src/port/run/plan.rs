//! The frames that a port is to send: streams, their rates and their times.

use super::shape::{Shape, Times, Timetable};
use kpps_frames::Templates;
use kpps_frames::rate::Rate;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The fate of frames of a paced load that cannot be sent within a millisecond of their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// They are not sent, and count as shortfall: the load is never stretched over a longer time.
    #[default]
    Skip,
    /// They are sent late, as soon as the port takes them: exactly the frames of the plan are sent.
    Send,
}

/// The frames to send.
#[derive(Clone, Debug)]
pub struct SendPlan {
    /// The streams. Their frames are sent in the order of their times.
    pub streams: Vec<StreamPlan>,
    /// Whether each frame is sent at its time. Otherwise frames are sent as fast as the port takes them.
    pub is_paced: bool,
    /// Whether frames are sent as they are, without tags. Only for a single stream.
    pub as_they_are: bool,
    /// Whether the complete frame is written each time. Otherwise a plan with one frame writes only its tag.
    pub rewrite: bool,
    /// The fate of frames that are late.
    pub late: Late,
    /// Whether the gaps between frames are exact to a byte time of the wire, because fillers keep it busy
    /// ([`kpps_frames::fillers`]). Only for a single stream with times that begins at once, and for a port
    /// that [sends fillers](crate::port::Port::sends_fillers).
    pub fillers: bool,
    /// Whether streams can be started, stopped and changed meanwhile ([`Change`]). Then sending does not end
    /// with the last frame, and streams without a number of frames leave out late frames in any case. Only
    /// where frames are paced.
    pub live: bool,
    /// The origin of the times in tags, if it is not the start: sender and receiver then share a clock. If it
    /// is in the future, sending begins at that time.
    pub epoch: Option<Instant>,
}

/// A change of a paced load while it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// All streams together have this rate in frames per second from now on; each has its part of it.
    Load(f64),
    /// The stream with this index in the plan begins anew, with its delay, duration and count, unless it
    /// sends already. Its frames go on with the next sequence number.
    Start(usize),
    /// The stream with this index ends. Its frames that are due and not late are still sent.
    Stop(usize),
    /// The stream with this index has this rate in frames per second from now on.
    Rate(usize, f64),
    /// The stream with this index rests from now on, if it sends. Its frames that are due are still sent.
    Pause(usize),
    /// The stream with this index goes on where it was paused: all of its later times are later by the pause.
    Resume(usize),
    /// Another stream follows the streams of the plan.
    Add(Arc<StreamPlan>),
}

/// The frames of a stream and their times.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPlan {
    /// The number of the stream.
    pub stream: u16,
    /// The frames, without tags.
    pub frames: Arc<Templates>,
    /// The rate in frames per second. Where frames are not paced, streams have shares of all frames in the
    /// proportion of their rates.
    pub pps: f64,
    /// The distribution of the gaps.
    pub shape: Shape,
    /// The time of each frame. It replaces rate and shape.
    pub times: Option<Arc<Times>>,
    /// When the stream begins, since the start. Only where frames are paced.
    pub start: Duration,
    /// How long it sends, from its beginning on. Only where frames are paced.
    pub duration: Option<Duration>,
    /// The most frames. Of a single stream those that are sent count, and frames without tags that were
    /// skipped; of several streams all that are due.
    pub count: Option<u64>,
    /// Whether it waits until it is [started](Change::Start). Only in a live plan.
    pub waits: bool,
    /// Of the frames that are due at the same time, those of streams with a higher priority are sent first,
    /// and left out last; below [`PRIORITIES`](super::PRIORITIES). Only where frames are paced.
    pub priority: u8,
}

impl StreamPlan {
    /// A stream of these frames with the number 0, one frame per second, without an end.
    pub fn of(frames: Arc<Templates>) -> Self {
        Self {
            stream: 0,
            frames,
            pps: 1.0,
            shape: Shape::Constant,
            times: None,
            start: Duration::ZERO,
            duration: None,
            count: None,
            waits: false,
            priority: 0,
        }
    }

    /// When its frames are due, from its beginning on.
    pub(super) fn timetable(&self) -> Timetable {
        match &self.times {
            Some(times) => Timetable::of(times.clone()),
            None => Timetable::new(self.pps, self.shape),
        }
    }
}

impl SendPlan {
    /// A plan without streams.
    pub fn nothing() -> Self {
        Self {
            streams: Vec::new(),
            is_paced: true,
            as_they_are: false,
            rewrite: false,
            late: Late::Skip,
            fillers: false,
            live: false,
            epoch: None,
        }
    }

    /// A plan with one stream at this rate, in place of the stream's own.
    pub fn one(rate: Rate, stream: StreamPlan) -> Self {
        let is_paced = rate != Rate::Max || stream.times.is_some();
        let stream = StreamPlan { pps: rate.pps().unwrap_or(1.0), ..stream };
        Self { streams: vec![stream], is_paced, ..Self::nothing() }
    }

    /// The rate of all streams together.
    pub fn rate(&self) -> Rate {
        let pps = |stream: &StreamPlan| stream.times.as_ref().map_or(stream.pps, |times| times.mean_pps());
        match self.is_paced {
            true => Rate::Pps(self.streams.iter().map(pps).sum()),
            false => Rate::Max,
        }
    }

    /// The distribution of the gaps, if there is one stream.
    pub fn shape(&self) -> Shape {
        if let [only] = &self.streams[..] { only.shape } else { Shape::Constant }
    }

    /// The most frames of all streams; `None` if a stream has no limit, or can be started again.
    pub fn most(&self) -> Option<u64> {
        if self.live { None } else { self.streams.iter().map(|stream| stream.count).sum() }
    }

    /// When frames are due; `None` if they are not paced.
    pub fn timetables(&self) -> Option<Timetables> {
        self.is_paced.then(|| Timetables::of(&self.streams))
    }
}

/// When the frames of a stream are due, in s since the start of all streams.
#[derive(Clone, Debug)]
pub(super) struct TimedStream {
    plan: StreamPlan,
    /// When the frames of the run under way are due, since its beginning.
    table: Timetable,
    /// The beginning of the run.
    start_s: f64,
    /// How long it lasts.
    duration_s: f64,
    count: u64,
    /// The number of its frames; more than there are, if chance decides.
    most: u64,
    /// Frames of the runs before it.
    before: u64,
    is_running: bool,
    /// Since when it rests.
    paused_s: Option<f64>,
}

impl TimedStream {
    pub(super) fn of(plan: &StreamPlan) -> Self {
        let mut timed = Self {
            table: plan.timetable(),
            start_s: plan.start.as_secs_f64(),
            duration_s: plan.duration.map_or(f64::INFINITY, |it| it.as_secs_f64()),
            count: plan.count.unwrap_or(u64::MAX),
            most: 0,
            before: 0,
            is_running: !plan.waits,
            paused_s: None,
            plan: plan.clone(),
        };
        timed.limit();
        timed
    }

    /// Finds how many frames there are.
    fn limit(&mut self) {
        // Chance decides how many frames of a Poisson process there are.
        let is_known = self.duration_s.is_finite() && self.table.until(self.duration_s).is_some();
        let within = is_known.then(|| whole(self.table.clone().before(self.duration_s)) as u64);
        self.most = self.count.min(within.unwrap_or(u64::MAX));
    }

    /// When this frame is due; `None` behind the last one. Frames must be asked for in their order.
    pub(super) fn time_of(&mut self, frame: u64) -> Option<f64> {
        let frame = frame.checked_sub(self.before).filter(|frame| self.is_running && *frame < self.most)?;
        let since_s = self.table.time_of(frame);
        let is_due = self.paused_s.is_none_or(|paused_s| self.start_s + since_s < paused_s);
        (since_s < self.duration_s && since_s.is_finite() && is_due).then_some(self.start_s + since_s)
    }

    /// A time since the beginning of the run, as its frames have them.
    fn since_s(&self, s: f64) -> f64 {
        self.paused_s.map_or(s, |paused_s| s.min(paused_s)) - self.start_s
    }

    /// Frames that are due before a time. Times must not decrease.
    pub(super) fn before(&mut self, s: f64) -> f64 {
        let since_s = self.since_s(s).min(self.duration_s);
        let of_run = match self.is_running && since_s > 0.0 {
            true => self.table.before(since_s).min(self.most as f64),
            false => 0.0,
        };
        self.before as f64 + of_run
    }

    /// The frames of the whole load if it ends at this time; `None` if chance decides.
    fn until(&self, s: f64) -> Option<u64> {
        let since_s = self.since_s(s).min(self.duration_s);
        match self.is_running && since_s > 0.0 {
            true => Some(self.before + self.table.until(since_s)?.min(self.most)),
            false => Some(self.before),
        }
    }

    /// Changes the rate from a time on.
    fn change(&mut self, s: f64, pps: f64) {
        self.table.change(self.since_s(s).max(0.0), pps);
        self.limit();
    }

    /// Rests from a time on.
    fn pause(&mut self, s: f64) {
        if self.is_running {
            self.paused_s.get_or_insert(s);
        }
    }

    /// Goes on at a time.
    fn resume(&mut self, s: f64) {
        self.start_s += self.paused_s.take().map_or(0.0, |paused_s| s - paused_s);
    }

    /// Begins anew at a time, with this rate, after this number of frames.
    fn start(&mut self, s: f64, pps: f64, due: u64) {
        let plan = StreamPlan { pps, waits: false, start: Duration::ZERO, ..self.plan.clone() };
        let start_s = s + self.plan.start.as_secs_f64();
        *self = Self { start_s, before: due, plan: self.plan.clone(), ..Self::of(&plan) };
    }

    /// Ends after this number of frames.
    fn stop(&mut self, due: u64) {
        (self.before, self.is_running, self.paused_s) = (due, false, None);
    }
}

/// Whole frames: the first one is due at once. Sums are not exact.
fn whole(frames: f64) -> f64 {
    (frames - 1e-6).ceil().max(0.0)
}

/// When the frames of all streams of a plan are due, in s since the start.
#[derive(Clone, Debug)]
pub struct Timetables {
    streams: Vec<TimedStream>,
    /// The rate of all streams at first.
    pps: f64,
    /// The part of its own rate that each stream has.
    factor: f64,
}

impl Timetables {
    pub(super) fn of(plans: &[StreamPlan]) -> Self {
        let streams: Vec<_> = plans.iter().map(TimedStream::of).collect();
        Self { pps: streams.iter().map(|stream| stream.plan.pps).sum(), streams, factor: 1.0 }
    }

    /// When a frame of a stream is due; `None` behind the last one. Its frames must be asked for in their
    /// order.
    #[inline]
    pub(super) fn time_of(&mut self, stream: usize, frame: u64) -> Option<f64> {
        self.streams.get_mut(stream)?.time_of(frame)
    }

    /// Frames of a stream that are due before a time, which is not earlier than those of earlier questions.
    pub(super) fn due_before(&self, stream: usize, s: f64) -> u64 {
        self.streams.get(stream).map_or(0, |stream| whole(stream.clone().before(s)) as u64)
    }

    /// Frames that are due before a time. Times must not decrease.
    pub fn before(&mut self, s: f64) -> f64 {
        match &mut self.streams[..] {
            [only] => only.before(s),
            all => all.iter_mut().map(|stream| whole(stream.before(s))).sum(),
        }
    }

    /// Draws what is due until a time that does not decrease, if chance decides.
    #[inline]
    pub fn draw_until(&mut self, s: f64) {
        for stream in &mut self.streams {
            let since_s = stream.since_s(s).max(0.0);
            stream.table.draw_until(since_s);
        }
    }

    /// Changes the load from a time on.
    pub fn change(&mut self, s: f64, change: Change) {
        let due = |stream: &mut TimedStream| whole(stream.before(s)) as u64;
        self.change_after(s, change, due);
    }

    /// Changes the load from a time on, at which this many frames of the stream were due.
    pub(super) fn change_after(
        &mut self,
        s: f64,
        change: Change,
        mut due: impl FnMut(&mut TimedStream) -> u64,
    ) {
        match change {
            Change::Load(pps) => {
                self.factor = pps / self.pps;
                for stream in &mut self.streams {
                    // With the rate the number of frames changes: it has no limit then but the duration.
                    stream.count = u64::MAX;
                    stream.change(s, stream.plan.pps * self.factor);
                }
            }
            Change::Start(at) => {
                let Some(stream) = self.streams.get_mut(at) else { return };
                let due = due(stream);
                if stream.time_of(due).is_none() {
                    stream.start(s, stream.plan.pps * self.factor, due);
                }
            }
            Change::Stop(at) => {
                let Some(stream) = self.streams.get_mut(at) else { return };
                let due = due(stream);
                stream.stop(due);
            }
            Change::Rate(at, pps) => {
                let Some(stream) = self.streams.get_mut(at) else { return };
                stream.plan.pps = pps;
                stream.change(s, pps * self.factor);
            }
            Change::Pause(at) => self.streams.get_mut(at).into_iter().for_each(|stream| stream.pause(s)),
            Change::Resume(at) => self.streams.get_mut(at).into_iter().for_each(|stream| stream.resume(s)),
            Change::Add(plan) => self.streams.push(TimedStream::of(&plan)),
        }
    }

    /// The frames of the whole load if it ends at this time; `None` if chance decides.
    pub fn until(&self, s: f64) -> Option<u64> {
        self.streams.iter().map(|stream| stream.until(s)).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn stream(pps: f64, start_ms: u64, duration_ms: Option<u64>, count: Option<u64>) -> StreamPlan {
        let ms = Duration::from_millis;
        let frames = Arc::new(Templates::one(&[0; 60]));
        StreamPlan {
            pps,
            start: ms(start_ms),
            duration: duration_ms.map(ms),
            count,
            ..StreamPlan::of(frames)
        }
    }

    #[test]
    fn streams_add_up() {
        let streams = [
            stream(1000.0, 0, None, None),
            stream(500.0, 100, Some(200), None),
            stream(2000.0, 0, None, Some(50)),
        ];
        let plan =
            SendPlan { streams: streams.to_vec(), ..SendPlan::one(Rate::Pps(1.0), streams[0].clone()) };
        assert_eq!(plan.rate(), Rate::Pps(3500.0));
        let mut tables = plan.timetables().unwrap();
        assert_eq!(tables.until(1.0), Some(1000 + 100 + 50));
        assert_eq!(tables.until(0.2), Some(200 + 50 + 50));
        assert_eq!([0.01, 0.1, 0.2, 1.0].map(|s| tables.before(s).round()), [30.0, 150.0, 300.0, 1150.0]);
        let mut changed = plan.timetables().unwrap();
        changed.change(0.5, Change::Load(7000.0));
        // The first has 2000 a second now, and the third 4000 without a limit. The second has ended by then.
        assert_eq!(changed.until(1.0), Some(1500 + 100 + 3000));
        let mut second = TimedStream::of(&streams[1]);
        let times = [0, 99, 100].map(|frame| second.time_of(frame).map(|s| (s * 1e6).round()));
        assert_eq!(times, [Some(100_000.0), Some(298_000.0), None]);
    }
}
