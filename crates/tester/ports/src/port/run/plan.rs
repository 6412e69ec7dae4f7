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
    /// The origin of the times in tags, if it is not the start: sender and receiver then share a clock. If it
    /// is in the future, sending begins at that time.
    pub epoch: Option<Instant>,
}

/// The frames of a stream and their times.
#[derive(Clone, Debug)]
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
    /// A plan with one stream at this rate, in place of the stream's own.
    pub fn one(rate: Rate, stream: StreamPlan) -> Self {
        let is_paced = rate != Rate::Max || stream.times.is_some();
        let stream = StreamPlan { pps: rate.pps().unwrap_or(1.0), ..stream };
        Self {
            streams: vec![stream],
            is_paced,
            as_they_are: false,
            rewrite: false,
            late: Late::Skip,
            epoch: None,
        }
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

    /// The most frames of all streams; `None` if a stream has no limit.
    pub fn most(&self) -> Option<u64> {
        self.streams.iter().map(|stream| stream.count).sum()
    }

    /// When frames are due; `None` if they are not paced.
    pub fn timetables(&self) -> Option<Timetables> {
        self.is_paced.then(|| Timetables(self.streams.iter().map(TimedStream::of).collect()))
    }
}

/// When the frames of a stream are due, in s since the start of all streams.
#[derive(Clone, Debug)]
pub(super) struct TimedStream {
    table: Timetable,
    /// The stream's part of the rate of all, as it was at first.
    pub pps: f64,
    start_s: f64,
    /// How long it sends.
    duration_s: f64,
    count: u64,
    /// The number of its frames; more than there are, if chance decides.
    pub most: u64,
}

impl TimedStream {
    pub(super) fn of(plan: &StreamPlan) -> Self {
        let mut timed = Self {
            table: plan.timetable(),
            pps: plan.pps,
            start_s: plan.start.as_secs_f64(),
            duration_s: plan.duration.map_or(f64::INFINITY, |it| it.as_secs_f64()),
            count: plan.count.unwrap_or(u64::MAX),
            most: 0,
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
        let since_s = (frame < self.most).then(|| self.table.time_of(frame))?;
        (since_s < self.duration_s && since_s.is_finite()).then_some(self.start_s + since_s)
    }

    /// Frames that are due before a time. Times must not decrease.
    pub(super) fn before(&mut self, s: f64) -> f64 {
        let since_s = (s - self.start_s).min(self.duration_s);
        if since_s > 0.0 { self.table.before(since_s).min(self.most as f64) } else { 0.0 }
    }

    /// Changes the rate from a time on. With the rate the number of frames changes: it has no limit then but
    /// the stream's duration.
    pub(super) fn change(&mut self, s: f64, factor: f64) {
        self.count = u64::MAX;
        self.table.change((s - self.start_s).max(0.0), self.pps * factor);
        self.limit();
    }
}

/// Whole frames: the first one is due at once. Sums are not exact.
fn whole(frames: f64) -> f64 {
    (frames - 1e-6).ceil().max(0.0)
}

/// When the frames of all streams of a plan are due, in s since the start.
#[derive(Clone, Debug)]
pub struct Timetables(Vec<TimedStream>);

impl Timetables {
    /// Frames that are due before a time. Times must not decrease.
    pub fn before(&mut self, s: f64) -> f64 {
        match &mut self.0[..] {
            [only] => only.before(s),
            all => all.iter_mut().map(|stream| whole(stream.before(s))).sum(),
        }
    }

    /// Draws what is due until a time that does not decrease, if chance decides.
    #[inline]
    pub fn draw_until(&mut self, s: f64) {
        for stream in &mut self.0 {
            stream.table.draw_until((s - stream.start_s).max(0.0));
        }
    }

    /// Changes the rate of all streams together from a time on; each has its part of it.
    pub fn change(&mut self, s: f64, pps: f64) {
        let factor = pps / self.0.iter().map(|stream| stream.pps).sum::<f64>();
        self.0.iter_mut().for_each(|stream| stream.change(s, factor));
    }

    /// The frames of the whole load if it ends at this time; `None` if chance decides.
    pub fn until(&self, s: f64) -> Option<u64> {
        let of = |stream: &TimedStream| {
            let since_s = (s - stream.start_s).min(stream.duration_s);
            if since_s <= 0.0 { Some(0) } else { Some(stream.table.until(since_s)?.min(stream.most)) }
        };
        self.0.iter().map(of).sum()
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
        changed.change(0.5, 7000.0);
        // The first has 2000 a second now, and the third 4000 without a limit. The second has ended by then.
        assert_eq!(changed.until(1.0), Some(1500 + 100 + 3000));
        let mut second = TimedStream::of(&streams[1]);
        let times = [0, 99, 100].map(|frame| second.time_of(frame).map(|s| (s * 1e6).round()));
        assert_eq!(times, [Some(100_000.0), Some(298_000.0), None]);
    }
}
