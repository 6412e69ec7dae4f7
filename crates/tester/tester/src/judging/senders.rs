//! The frames that arrive at a port from several others: each sender's frames have a judge of their own.
//!
//! The number of its stream tells the sender of a frame, because numbers are unique in a trial. A frame
//! without a readable tag goes to the sender whose frames it resembles most, and a frame of others to the
//! first judge, so that it counts once.

use crate::judging::arrivals::Arrivals;
use crate::judging::kept::Noted;

/// The judges of a port with several senders.
pub(crate) struct Judges {
    /// Each with the index of its sender.
    all: Vec<(usize, Arrivals)>,
    /// The judge of the last frame.
    last: usize,
}

impl Judges {
    /// For the frames of these senders.
    pub fn new(all: Vec<(usize, Arrivals)>) -> Self {
        Self { all, last: 0 }
    }

    /// Adds the judge of another sender's frames.
    pub fn add(&mut self, from: usize, judge: Arrivals) {
        self.all.push((from, judge));
    }

    /// The judges, with their senders.
    pub fn all(&self) -> &[(usize, Arrivals)] {
        &self.all
    }

    /// The judge of a sender's frames.
    pub fn of(&mut self, from: usize) -> Option<&mut Arrivals> {
        self.all.iter_mut().find(|(sender, _)| *sender == from).map(|(_, judge)| judge)
    }

    /// Begins a new burst ([`Arrivals::burst`]).
    pub fn burst(&mut self) {
        self.all.iter_mut().for_each(|(_, judge)| judge.burst());
    }

    /// Notes how each frame is judged ([`Arrivals::noting`]).
    pub fn noting(self) -> Self {
        let all = self.all.into_iter().map(|(from, judge)| (from, judge.noting()));
        Self { all: all.collect(), ..self }
    }

    /// How the last frame was judged, which is this one.
    pub fn judged(&mut self, frame: &[u8]) -> Noted {
        self.all.get_mut(self.last).map(|(_, judge)| judge.judged(frame)).unwrap_or_default()
    }

    /// Counts a frame ([`Arrivals::take`]). Returns false if it is of no stream.
    pub fn take(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        self.last = self.judge_of(frame);
        self.all.get_mut(self.last).is_some_and(|(_, judge)| judge.take(frame, stamp))
    }

    /// The index of the judge of a frame.
    fn judge_of(&mut self, frame: &[u8]) -> usize {
        // As a rule all frames have their tags at one place.
        if let Some(number) = self.all.get_mut(self.last).and_then(|(_, judge)| judge.stream_in(frame)) {
            return self.all.iter().position(|(_, judge)| judge.has_stream(number)).unwrap_or(0);
        }
        let of_tag =
            |judge: &mut Arrivals| judge.stream_in(frame).is_some_and(|number| judge.has_stream(number));
        if let Some(index) = self.all.iter_mut().position(|(_, judge)| of_tag(judge)) {
            return index;
        }
        let all = self.all.iter().enumerate();
        all.filter_map(|(at, (_, judge))| Some((judge.claim(frame)?, at))).min().map_or(0, |(_, at)| at)
    }

    /// Frames of all senders so far ([`Arrivals::received`]).
    pub fn received(&self) -> u64 {
        self.all.iter().map(|(_, judge)| judge.received()).sum()
    }

    /// The judges, in the order of the senders.
    pub fn into_all(self) -> Vec<(usize, Arrivals)> {
        self.all
    }
}
