//! The counts of a flow since it was started.

use kpps_documents::FlowLatency;
use kpps_tester::StreamNow;
use std::time::{Duration, Instant};

/// The time over which rates are measured.
const RATE_TIME: Duration = Duration::from_millis(500);

/// The counts of a flow since it was started.
#[derive(Clone, Debug, Default)]
pub struct FlowState {
    /// Whether it was started in the transmission.
    pub is_started: bool,
    /// Whether it was stopped since.
    pub is_stopped: bool,
    begun: Option<Instant>,
    is_sending: bool,
    /// Whether a frame was sent, or is certain not to come.
    has_begun: bool,
    /// The counts of its stream when it was started.
    base: StreamNow,
    /// Frames sent and received since then.
    pub frames: [u64; 2],
    /// Received frames of each size, if these are known.
    pub received_sizes: Vec<u64>,
    /// Times from sending to receiving.
    pub latency: Option<FlowLatency>,
    /// Frames per second, sent and received.
    pub rates_pps: [f64; 2],
    /// The counts from which the next rates are measured.
    sampled: Option<(Instant, [u64; 2])>,
}

impl FlowState {
    /// The flow is started, while its stream has these counts.
    pub fn start(&mut self, base: &StreamNow) {
        let begun = Some(Instant::now());
        *self = Self { is_started: true, begun, base: base.clone(), ..Self::default() };
    }

    /// A new transmission begins, in which the flow is not started yet. Its counts stay.
    pub fn rest(&mut self) {
        (self.is_started, self.is_sending) = (false, false);
    }

    /// Whether it sends, or will.
    pub const fn is_active(&self) -> bool {
        self.is_started && (self.is_sending || !self.is_stopped && !self.has_begun)
    }

    /// Whether it has begun to send.
    pub const fn has_begun(&self) -> bool {
        self.is_sending || self.has_begun
    }

    /// Takes the counts of its stream. `longest`: the time after which it is over in any case.
    pub fn sample(&mut self, now: &StreamNow, at: Instant, longest: Option<Duration>) {
        if !self.is_started {
            return;
        }
        let since = |now: u64, base: u64| now.saturating_sub(base);
        let frames = [since(now.sent, self.base.sent), since(now.received, self.base.received)];
        let is_late =
            longest.is_some_and(|longest| self.begun.is_some_and(|begun| begun.elapsed() > longest));
        self.is_sending = now.is_sending;
        self.has_begun |= now.is_sending || frames[0] > 0 || is_late;
        self.frames = frames;
        let base = self.base.received_sizes.iter().copied().chain(std::iter::repeat(0));
        self.received_sizes =
            now.received_sizes.iter().zip(base).map(|(now, base)| since(*now, base)).collect();
        self.latency = now.latency;
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
        self.rates_pps = [0.0; 2];
    }
}
