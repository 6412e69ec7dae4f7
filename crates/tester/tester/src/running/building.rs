//! The frames and plans of streams.

use crate::error::Error;
use crate::running::streams::Stream;
use kpps_frames::flows::MOST_FLOWS;
use kpps_frames::stack::Between;
use kpps_frames::{Mac, Templates};
use kpps_ports::port::run::{Shape, StreamPlan};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The number of frames that a receiver has room for at first, of a stream whose number of frames is unknown.
/// Receivers make more room by themselves.
pub(crate) const ROOM: u64 = 1 << 20;
/// The same for each stream that is controlled.
const ROOM_OF_CONTROLLED: u64 = 1 << 13;

/// The addresses of a port for the frames of streams that have none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamEnd {
    /// The station.
    pub mac: Mac,
    /// The next hop of all frames from there; `None`: they go to the station of each receiver.
    pub hop: Option<Mac>,
    pub ip: IpAddr,
}

/// All that the streams of a trial have in common.
#[derive(Clone, Debug)]
pub(crate) struct StreamBuilder {
    /// The ports.
    pub ends: Vec<StreamEnd>,
    /// The number of the trial.
    pub trial: u32,
    /// How long the trial sends.
    pub length: Duration,
    /// Whether streams are controlled.
    pub is_controlled: bool,
    /// Whether they wait to be started.
    pub waits: bool,
}

/// A stream as it is sent, and as it is expected.
#[derive(Clone, Debug)]
pub(crate) struct BuiltStream {
    pub plan: StreamPlan,
    /// Frames for which the receiver has room at first.
    pub room: u64,
}

/// The frames of a stream between these addresses, without their trial.
///
/// # Errors
/// They are too small for their headers.
pub(crate) fn frames_between(between: &Between, stream: &Stream) -> Result<Templates, Error> {
    let frames = stream.stack.templates(between, &stream.sizes);
    frames.map_err(|why| Error::Stream { name: stream.name.clone(), why })
}

impl StreamBuilder {
    /// The frames of a stream, without their trial.
    ///
    /// # Errors
    /// It goes between ports that do not exist, or is too small for its headers.
    pub fn frames(&self, stream: &Stream) -> Result<Templates, Error> {
        stream.check_ports(self.ends.len())?;
        let [from, to] = [self.ends[stream.from], self.ends[stream.to]];
        let between = Between { macs: [from.mac, from.hop.unwrap_or(to.mac)], ips: [from.ip, to.ip] };
        frames_between(&between, stream)
    }

    /// A stream that is added with this number while others are sent, and waits to be started.
    ///
    /// # Errors
    /// [`frames`](Self::frames).
    pub fn another(&self, number: u16, stream: &Stream) -> Result<BuiltStream, Error> {
        let frames = self.frames(stream)?;
        let is_whole = u64::from(frames.flows()) <= u64::from(MOST_FLOWS) / 16;
        let frames = if is_whole { frames } else { frames.in_one_flow() };
        let BuiltStream { plan, room } = self.build(number, stream, stream.pps(), frames);
        Ok(BuiltStream { plan: StreamPlan { waits: true, ..plan }, room })
    }

    /// A stream with this number, at this rate in frames per second, with its frames.
    pub fn build(&self, number: u16, stream: &Stream, pps: f64, frames: Templates) -> BuiltStream {
        let frames = Arc::new(frames.of_trial(self.trial));
        let later = Duration::try_from_secs_f64(stream.phase / pps).unwrap_or(self.length);
        let start = stream.start.saturating_add(later);
        let left = self.length.saturating_sub(start);
        let duration = stream.duration.map_or(left, |duration| duration.min(left));
        let due = (pps * duration.as_secs_f64()).ceil() as u64;
        let room = if self.is_controlled { ROOM_OF_CONTROLLED } else { ROOM };
        let room = stream.count.unwrap_or(u64::MAX).min(due).min(room);
        let plan = StreamPlan {
            stream: number,
            pps,
            // A ramp begins at its part of the load, too.
            shape: match stream.shape {
                Shape::Ramp(from_pps, over) => Shape::Ramp(from_pps * pps / stream.pps(), over),
                shape => shape,
            },
            start,
            duration: Some(duration),
            // Beside probes the load may be 0.
            count: if pps > 0.0 { stream.count } else { Some(0) },
            waits: self.waits,
            priority: stream.priority,
            ..StreamPlan::of(frames)
        };
        BuiltStream { plan, room }
    }
}
