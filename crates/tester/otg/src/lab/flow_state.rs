//! The counts of a flow since it was started.

use crate::translation::{bytes_of, seconds};
use kpps_documents::FlowLatency;
use kpps_tester::{Stream, StreamNow};
use std::time::{Duration, Instant};

/// The time over which rates are measured.
const RATE_TIME: Duration = Duration::from_millis(500);
/// How long a stream without a due frame is waited for.
const SLACK: Duration = Duration::from_secs(2);

/// Frames and their bytes with FCS: the sent and the received ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Frames.
    pub frames: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
}

impl Totals {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let sum = |a: [u64; 2], b: [u64; 2]| [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])];
        Self { frames: sum(self.frames, other.frames), bytes: sum(self.bytes, other.bytes) }
    }
}

/// A flow since it was started.
#[derive(Clone, Debug, Default)]
pub struct FlowState {
    /// Whether it was started in the transmission.
    is_started: bool,
    /// Whether it was stopped since.
    pub is_stopped: bool,
    /// Of a stream that is gone: whether its counts are those of a flow.
    pub is_counted: bool,
    /// Whether it waits between two of its frames until it is resumed.
    pub is_paused: bool,
    begun: Option<Instant>,
    is_sending: bool,
    /// Whether a frame was sent, or is certain not to come.
    has_begun: bool,
    /// The counts of its stream when it was started.
    base: StreamNow,
    /// Its own counts at that time, if they go on.
    kept: Totals,
    /// Its counts.
    pub totals: Totals,
    /// The mean size of its frames, with FCS.
    pub mean_bytes: f64,
    /// The rate at which its frames were due, in frames per second.
    pub offered_pps: f64,
    /// Frames per second, sent and received.
    pub rates_pps: [f64; 2],
    /// Times from sending to receiving.
    pub latency: Option<FlowLatency>,
    /// When the first and the last frame arrived, in ns since 1970. The first one is unknown if the flow was
    /// started before in the same transmission.
    pub arrivals_ns: Option<(Option<u64>, u64)>,
    /// The counts from which the next rates are measured.
    sampled: Option<(Instant, [u64; 2])>,
}

impl FlowState {
    /// The flow is started, while its stream has these counts. Its own counts go on if it `keeps` them.
    pub fn start(&mut self, base: &StreamNow, keeps: bool) {
        let kept = if keeps { self.totals } else { Totals::default() };
        let (begun, base) = (Some(Instant::now()), base.clone());
        *self = Self { is_started: true, begun, base, kept, totals: kept, ..Self::default() };
    }

    /// The flow goes on with a new stream.
    pub fn begin(&mut self) {
        self.start(&StreamNow::default(), false);
    }

    /// Frames that it has sent since it was started, and the time since then.
    pub fn progress(&self, at: Instant) -> (u64, Duration) {
        let sent = self.totals.frames[0].saturating_sub(self.kept.frames[0]);
        (sent, self.begun.map_or(Duration::ZERO, |begun| at.saturating_duration_since(begun)))
    }

    /// Adds earlier frames of the flow.
    pub fn add(&mut self, earlier: &Totals) {
        (self.kept, self.totals) = (self.kept.and(earlier), self.totals.and(earlier));
    }

    /// A new transmission begins, in which the flow is not started yet. Its counts stay.
    pub fn rest(&mut self) {
        (self.is_started, self.is_sending) = (false, false);
    }

    /// Whether it sends, or will.
    pub const fn is_active(&self) -> bool {
        self.is_started && (self.is_sending || self.is_paused || !self.is_stopped && !self.has_begun)
    }

    /// Whether it has begun to send.
    pub const fn has_begun(&self) -> bool {
        self.is_sending || self.has_begun
    }

    /// Whether it has frames left at this time: it was started and not stopped, and neither its frames nor
    /// its time are through.
    pub fn is_due(&self, at: Instant, stream: &Stream) -> bool {
        let (sent, sends) = self.progress(at);
        let is_through = stream.count.is_some_and(|count| sent >= count)
            || stream.duration.is_some_and(|time| sends >= stream.start.saturating_add(time));
        self.is_started && !self.is_stopped && !is_through
    }

    /// Takes the counts of its stream.
    pub fn sample(&mut self, now: &StreamNow, at: Instant, stream: &Stream) {
        if !self.is_started {
            return;
        }
        let since = |now: u64, base: u64| now.saturating_sub(base);
        let frames = [since(now.sent, self.base.sent), since(now.received, self.base.received)];
        // A stream may have no frame that is due.
        let longest = seconds(stream).and_then(|s| Duration::try_from_secs_f64(s).ok());
        let is_late =
            longest.is_some_and(|longest| self.begun.is_some_and(|begun| begun.elapsed() > longest + SLACK));
        self.is_sending = now.is_sending;
        self.has_begun |= now.is_sending || frames[0] > 0 || is_late;
        (self.mean_bytes, self.offered_pps) = (stream.sizes.mean_bytes_with_fcs(), stream.pps());
        // A stream that is started again goes on with the next of its sizes.
        let before = if self.base.sent > 0 { bytes_of(&stream.sizes, self.base.sent) } else { 0 };
        let bytes_sent = bytes_of(&stream.sizes, now.sent).saturating_sub(before);
        let base = self.base.received_sizes.iter().copied().chain(std::iter::repeat(0));
        let by_size: Vec<u64> =
            now.received_sizes.iter().zip(base).map(|(now, base)| since(*now, base)).collect();
        let sizes = stream.sizes.parts().iter().map(|part| u64::from(part.0.bytes_with_fcs()));
        let bytes_received = match by_size.iter().sum::<u64>() == frames[1] {
            true => sizes.zip(&by_size).map(|(bytes, frames)| bytes * frames).sum(),
            false if frames[0] == frames[1] => bytes_sent,
            false => (frames[1] as f64 * self.mean_bytes).round() as u64,
        };
        self.totals = self.kept.and(&Totals { frames, bytes: [bytes_sent, bytes_received] });
        self.latency = now.latency;
        let is_first = self.base.arrivals_ns.is_none();
        let arrivals = now.arrivals_ns.filter(|_| frames[1] > 0);
        self.arrivals_ns = arrivals.map(|[first, last]| (Some(first).filter(|_| is_first), last));
        match self.sampled {
            None => self.sampled = Some((at, frames)),
            Some((before, counts)) if at.duration_since(before) >= RATE_TIME => {
                let s = at.duration_since(before).as_secs_f64();
                self.rates_pps = [0, 1].map(|way| since(frames[way], counts[way]) as f64 / s);
                self.sampled = Some((at, frames));
            }
            Some(_) => {}
        }
    }

    /// The transmission has ended: its counts are final.
    pub fn end(&mut self) {
        (self.is_sending, self.has_begun, self.is_stopped) = (false, true, true);
        (self.is_paused, self.rates_pps) = (false, [0.0; 2]);
    }
}
