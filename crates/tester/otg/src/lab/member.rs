//! A flow of the configuration, with the stream by which it is sent.

use super::flow_state::FlowState;
use kpps_tester::{Stream, StreamNow};
use std::time::{Duration, Instant};

/// A flow of the configuration.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its index in the configuration.
    pub flow: usize,
    /// Its stream, as it is planned.
    pub stream: Stream,
    /// Its counts.
    pub state: FlowState,
    /// The index of its stream in the transmission.
    pub place: usize,
    /// If the stream of the transmission is only the rest of the planned one, because its frames have changed
    /// while it was sent: that stream.
    pub rest: Option<Stream>,
}

impl Member {
    /// A flow that was never sent.
    pub fn new(flow: usize, stream: Stream, place: usize) -> Self {
        Self { flow, stream, state: FlowState::default(), place, rest: None }
    }

    /// Takes the counts of its stream.
    pub fn sample(&mut self, counts: &[StreamNow], now: Instant) {
        if let Some(count) = counts.get(self.place) {
            self.state.sample(count, now, &self.stream);
        }
    }

    /// A new stream of the flow without the frames and the time that are through.
    pub fn rest_of(&self, new: &Stream) -> Stream {
        let Stream { start, duration, count, .. } = *self.rest.as_ref().unwrap_or(&self.stream);
        let (sent, time) = self.state.progress(Instant::now());
        let through = time.saturating_sub(start);
        Stream {
            start: start.saturating_sub(time),
            duration: duration.map(|duration| duration.saturating_sub(through).max(Duration::from_nanos(1))),
            count: count.map(|count| count.saturating_sub(sent)),
            ..new.clone()
        }
    }
}
