//! The frames that arrive at a port from several others: each sender's frames have a judge of their own.
//!
//! The number of its stream tells the sender of a frame, because numbers are unique in a trial. A frame
//! without a readable tag goes to the sender whose frames it resembles most, and a frame of others to the
//! first judge, so that it counts once.

use crate::judging::arrivals::Arrivals;

/// The judges of a port with several senders.
pub(crate) struct Judges {
    all: Vec<Arrivals>,
    /// The judge of the last frame.
    last: usize,
}

impl Judges {
    /// For these senders' frames.
    pub fn new(all: Vec<Arrivals>) -> Self {
        Self { all, last: 0 }
    }

    /// Begins a new burst ([`Arrivals::burst`]).
    pub fn burst(&mut self) {
        self.all.iter_mut().for_each(Arrivals::burst);
    }

    /// Counts a frame ([`Arrivals::take`]). Returns false if it is of no stream.
    pub fn take(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        self.last = self.judge_of(frame);
        self.all.get_mut(self.last).is_some_and(|judge| judge.take(frame, stamp))
    }

    /// The index of the judge of a frame.
    fn judge_of(&mut self, frame: &[u8]) -> usize {
        // As a rule all frames have their tags at one place.
        if let Some(number) = self.all.get_mut(self.last).and_then(|judge| judge.stream_in(frame)) {
            return self.all.iter().position(|judge| judge.has_stream(number)).unwrap_or(0);
        }
        let of_tag =
            |judge: &mut Arrivals| judge.stream_in(frame).is_some_and(|number| judge.has_stream(number));
        if let Some(index) = self.all.iter_mut().position(of_tag) {
            return index;
        }
        let all = self.all.iter().enumerate();
        all.filter_map(|(at, judge)| Some((judge.claim(frame)?, at))).min().map_or(0, |(_, at)| at)
    }

    /// Frames of all senders so far ([`Arrivals::received`]).
    pub fn received(&self) -> u64 {
        self.all.iter().map(Arrivals::received).sum()
    }

    /// The judges, in the order of the senders.
    pub fn into_all(self) -> Vec<Arrivals> {
        self.all
    }
}
