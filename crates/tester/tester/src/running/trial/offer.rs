//! The load of a trial.

use super::Tester;
use crate::judging::recognised::Classes;
use crate::running::learn::Direction;
use crate::running::streams::{Stream, at_load, streams_pps};
use crate::watching::control::StreamControl;
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Templates, rate, tag};
use kpps_methods::Load;
use kpps_methods::units::RateSpec;
use kpps_ports::port::run::{Late, Shape, Times, Timetable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A load and its duration.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The load in each direction; its warm-up and seed are not used.
    pub load: Load,
    /// The distribution of the gaps.
    pub shape: Shape,
    /// The most frames that are sent in each direction.
    pub count: Option<u64>,
    /// How long frames may still arrive after the last one was sent.
    pub drain: Duration,
    /// Whether frames go from the second port to the first, too.
    pub bidirectional: bool,
    /// Whether frames with anomalies are kept.
    pub keep: bool,
    /// Frames of a capture, in place of test frames.
    pub replay: Option<Replay>,
    /// Streams in place of the flows of the tester, if there are any. The load is that of the streams from
    /// the first port that sends any; all keep their proportions. The shape is not used.
    pub streams: Arc<[Stream]>,
    /// The length of the intervals of the series, if the result shall have a series.
    pub every: Option<Duration>,
    /// The fate of frames that are late. Ports of agents only skip them; so do streams without a number of
    /// frames where streams are controlled.
    pub late: Late,
    /// The control of the streams, if single ones are to be started, stopped or changed meanwhile. Then the
    /// trial lasts until the control ends it, or for the duration of its load, and the load is a rate.
    pub control: Option<Arc<StreamControl>>,
}

/// Frames of a capture, sent without tags.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The frames.
    pub frames: Arc<Templates>,
    /// The time of each frame. It replaces load and shape.
    pub times: Option<Arc<Times>>,
    /// The classes by which they are recognised.
    pub classes: Arc<Classes>,
}

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

    /// The same offer with the streams that were added meanwhile.
    #[must_use]
    pub fn with_added(&self) -> Self {
        let added = self.control.as_ref().map_or_else(Vec::new, |control| control.added());
        let mut all = self.clone();
        if !added.is_empty() {
            all.streams = self.streams.iter().cloned().chain(added).collect();
            // Each keeps its rate.
            all.load.rate = match self.load.rate {
                Rate::Pps(pps) => Rate::Pps(pps * streams_pps(&all.streams) / streams_pps(&self.streams)),
                rate => rate,
            };
        }
        all
    }

    /// The directions in which frames go, in the order of their sending ports.
    pub(crate) fn directions(&self) -> Vec<Direction> {
        let of_streams: BTreeSet<_> = self.streams.iter().map(|stream| (stream.from, stream.to)).collect();
        match (of_streams.is_empty(), self.bidirectional) {
            (false, _) => of_streams.into_iter().collect(),
            (true, true) => vec![(0, 1), (1, 0)],
            (true, false) => vec![(0, 1)],
        }
    }

    /// The directions whose paths are learned: of two ports always that from the first, too.
    pub(super) fn learned(&self) -> Vec<Direction> {
        let all = self.directions();
        if all == [(1, 0)] { vec![(0, 1), (1, 0)] } else { all }
    }

    /// The number in the tags of the first stream of each direction. Numbers are unique in a trial: those
    /// from the second of two ports have the bit [`BACK`](tag::BACK), unless the streams are controlled.
    /// Streams that are added have the numbers behind all of these.
    pub(crate) fn first_numbers(&self) -> BTreeMap<Direction, u16> {
        let mut counts: BTreeMap<Direction, u16> =
            self.directions().into_iter().map(|direction| (direction, 0)).collect();
        if self.control.is_none() && counts.keys().all(|(from, to)| from.max(to) <= &1) {
            counts.iter_mut().for_each(|((from, _), first)| *first = if *from == 0 { 0 } else { tag::BACK });
            return counts;
        }
        for stream in self.streams.iter() {
            *counts.entry((stream.from, stream.to)).or_default() += 1;
        }
        let mut next = 0_u16;
        for first in counts.values_mut() {
            next = next.wrapping_add(std::mem::replace(first, next));
        }
        counts
    }

    /// The ports that send, in order.
    pub(crate) fn senders(&self) -> Vec<usize> {
        let mut senders: Vec<_> = self.directions().iter().map(|direction| direction.0).collect();
        senders.dedup();
        senders
    }

    /// Whether frames go from the second port.
    pub fn goes_back(&self) -> bool {
        self.directions().iter().any(|(from, _)| *from == 1)
    }

    /// The streams of a direction, with their rates in frames per second.
    pub(crate) fn streams_of(&self, (from, to): Direction) -> impl Iterator<Item = (&Stream, f64)> {
        self.streams_from(from).filter(move |(stream, _)| stream.to == to)
    }

    /// The streams that a port sends, with their rates in frames per second.
    pub(crate) fn streams_from(&self, from: usize) -> impl Iterator<Item = (&Stream, f64)> {
        at_load(&self.streams, self.load.rate).filter(move |(stream, _)| stream.from == from)
    }

    /// The time in which frames are sent, and in which they may arrive.
    pub(super) fn length(&self) -> Duration {
        self.load.duration + self.drain
    }

    /// The time of each frame, if the frames have times of their own.
    pub(super) fn times(&self) -> Option<Arc<Times>> {
        self.replay.as_ref()?.times.clone()
    }

    /// The number of frames that are due in each direction, if it is known before the trial and the same in
    /// both. It is not known if the times of the frames are random, or if there are several streams.
    pub(super) fn due(&self) -> Option<u64> {
        if !self.streams.is_empty() {
            return None;
        }
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
    /// An offer in one direction, with the usual drain. If the rate is a share of line rate, the line rate is
    /// that of the slower link, or of a gigabit link if its speed is unknown.
    pub fn offer(&self, rate: RateSpec, shape: Shape, sizes: Mix, duration: Duration) -> Offer {
        let line_pps = self.line_rate_pps(&sizes).unwrap_or_else(|| self.line_rate_at(&sizes, rate::GIGABIT));
        let rate = rate.rate(line_pps, sizes.mean_bytes_with_fcs());
        Offer {
            load: Load { rate, duration, ..Load::of(0.0, sizes) },
            shape,
            count: None,
            drain: Duration::from_secs(1),
            bidirectional: false,
            keep: false,
            replay: None,
            streams: self.streams.clone(),
            every: None,
            late: Late::Skip,
            control: None,
        }
    }
}
