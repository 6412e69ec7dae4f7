//! A leg of a flow of the configuration, with the stream by which it is sent.

use super::flow_state::FlowState;
use super::planned::Planned;
use kpps_tester::{Stream, StreamNow};
use std::time::{Duration, Instant};

/// A leg of a flow.
#[derive(Clone, Debug)]
pub struct Member {
    /// The index of the flow in the configuration.
    pub flow: usize,
    /// The index of the leg.
    pub leg: usize,
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
    /// A leg that was never sent.
    pub fn new(Planned { flow, leg, stream }: Planned, place: usize) -> Self {
        Self { flow, leg, stream, state: FlowState::default(), place, rest: None }
    }

    /// The configuration has this stream for it now.
    pub fn become_planned(&mut self, Planned { flow, leg, stream }: Planned) {
        (self.flow, self.leg, self.stream) = (flow, leg, stream);
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
