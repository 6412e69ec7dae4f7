//! The load of a trial.

use super::Tester;
use crate::judging::recognised::Classes;
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Templates, rate};
use kpps_methods::Load;
use kpps_methods::units::RateSpec;
use kpps_ports::port::run::{Shape, Times, Timetable};
use std::sync::Arc;
use std::time::Duration;

/// A load and its duration.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The load in each direction; its warm-up and seed are not used.
    pub load: Load,
    /// The distribution of the gaps.
    pub shape: Shape,
    /// A limit of the frames in each direction.
    pub count: Option<u64>,
    /// How long frames may still arrive after the last one was sent.
    pub drain: Duration,
    /// Whether frames go from the second port to the first, too.
    pub bidirectional: bool,
    /// Whether frames with anomalies are kept.
    pub keep: bool,
    /// Frames of a capture, in place of test frames.
    pub replay: Option<Replay>,
    /// The length of the intervals that are counted by themselves, if any are.
    pub every: Option<Duration>,
}

/// Frames of a capture, sent without tags.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The frames.
    pub frames: Arc<Templates>,
    /// The time of each, in place of load and shape.
    pub times: Option<Arc<Times>>,
    /// The classes by which they are recognised.
    pub classes: Arc<Classes>,
}

/// Both directions: the ports that send and receive.
pub(super) const BOTH: [(usize, usize); 2] = [(0, 1), (1, 0)];

impl Offer {
    /// The same offer at this rate.
    #[must_use]
    pub fn at(mut self, rate: Rate) -> Self {
        self.load.rate = rate;
        self
    }

    /// The same offer of frames of these sizes.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Mix) -> Self {
        self.load.sizes = sizes;
        self
    }

    /// The same offer for this time.
    #[must_use]
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.load.duration = duration;
        self
    }

    /// The directions in which frames go.
    pub(super) fn directions(&self) -> &'static [(usize, usize)] {
        if self.bidirectional { &BOTH } else { &BOTH[..1] }
    }

    /// How long frames are sent and may arrive.
    pub(super) fn length(&self) -> Duration {
        self.load.duration + self.drain
    }

    /// The time of each frame, if they have their own.
    pub(super) fn times(&self) -> Option<Arc<Times>> {
        self.replay.as_ref()?.times.clone()
    }

    /// Frames that are due in each direction, if that is known beforehand. If chance decides, only the sender
    /// knows.
    pub(super) fn due(&self) -> Option<u64> {
        let Rate::Pps(pps) = self.load.rate else { return self.count };
        let timetable = match self.times() {
            Some(times) => Timetable::of(times),
            None => Timetable::new(pps, self.shape),
        };
        let due = timetable.until(self.load.seconds());
        due.map(|due| due.min(self.count.unwrap_or(u64::MAX)))
    }
}

impl Tester {
    /// An offer in one direction, with the usual drain. A share of line rate is one of the slower link's, or
    /// of a gigabit if that is unknown.
    pub fn offer(&self, rate: RateSpec, shape: Shape, sizes: Mix, duration: Duration) -> Offer {
        let line_pps = self.line_rate_pps(&sizes).unwrap_or_else(|| sizes.line_rate_pps(rate::GIGABIT));
        let rate = rate.rate(line_pps, sizes.mean_bytes_with_fcs());
        Offer {
            load: Load { rate, duration, ..Load::of(0.0, sizes) },
            shape,
            count: None,
            drain: Duration::from_secs(1),
            bidirectional: false,
            keep: false,
            replay: None,
            every: None,
        }
    }
}
