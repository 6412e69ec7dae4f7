//! The frames that a port has received in a trial, and their fate.

use crate::judging::kept::Kept;
use crate::judging::losses::Losses;
use kpps_documents::detail::Arrival;
use kpps_documents::{Doubt, FlowLatency};
use kpps_methods::Latency;
use std::time::Duration;

/// The frames that a port has received in a trial.
#[derive(Default)]
pub struct Received {
    /// Counts of frames.
    pub arrived: Arrived,
    /// When frames were lost last ([`Arrivals::last_gap`](crate::Arrivals::last_gap)).
    pub last_gap: Option<Duration>,
    /// The frames that were lost first, and the most in a row; `None` if none were, or if this is unknown.
    pub losses: Option<Losses>,
    /// By how many frames queues grew while they were sent, if that is known.
    pub queue_growth: Option<u64>,
    /// The clock of the arrivals.
    pub arrival: Arrival,
    /// The fate of each flow, if there is one stream with several flows.
    pub flows: Vec<OfFlow>,
    /// The fate of each stream, if there are several.
    pub streams: Vec<OfStream>,
    /// For each size of a mix, frames sent and frames that arrived.
    pub sizes: Vec<(u64, u64)>,
    /// Frames with anomalies, if they were kept.
    pub kept: Kept,
    /// Why frames arrive in another way than they should ([`Arrivals::findings`](crate::Arrivals::findings)).
    pub findings: Findings,
}

impl Received {
    /// Decides about the arrived frames of each stream, or of all if the fate of streams is not reported.
    /// `settle` gets the number of missing frames, of `missing` in all. Returns the sum of its results.
    pub fn settle(&mut self, missing: u64, mut settle: impl FnMut(u64, &mut Arrived) -> u64) -> u64 {
        if self.streams.is_empty() {
            return settle(missing, &mut self.arrived);
        }
        let others: u64 = self.streams.iter().map(|stream| stream.arrived.other_traffic).sum();
        let other_traffic = self.arrived.other_traffic - others;
        self.arrived = Arrived { other_traffic, ..Arrived::default() };
        let mut sum = 0;
        for stream in &mut self.streams {
            sum += settle(stream.missing(), &mut stream.arrived);
            self.arrived += stream.arrived;
        }
        sum
    }

    /// Removes the values that depend on the times of arrival: a clock was set.
    pub fn forget_latencies(&mut self) {
        self.queue_growth = None;
        self.flows.iter_mut().for_each(|flow| flow.latency = None);
        for stream in &mut self.streams {
            (stream.latency, stream.times) = (None, None);
        }
    }
}

/// The fate of a stream.
#[derive(Default)]
pub struct OfStream {
    /// Its number in the tags.
    pub stream: u16,
    /// Frames that were given to the sending port.
    pub sent: u64,
    /// The frames that arrived.
    pub arrived: Arrived,
    /// For each size of its mix, frames sent and frames with whole tags that arrived, without duplicates; if
    /// there are several sizes.
    pub sizes: Vec<(u64, u64)>,
    /// The frames that were lost first, and the most in a row; `None` if none were, or if this is unknown.
    pub losses: Option<Losses>,
    /// Times from sending to receiving, if they are known.
    pub latency: Option<FlowLatency>,
    /// Their distribution, if there are few streams.
    pub times: Option<Box<Latency>>,
}

impl OfStream {
    /// Frames that were sent and did not arrive.
    pub fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.arrived.received)
    }
}

/// The fate of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfFlow {
    /// Its number.
    pub flow: u32,
    /// Frames that were sent.
    pub sent: u64,
    /// Frames with a whole tag that arrived, without duplicates.
    pub received: u64,
    /// Frames that arrived after one of the flow that was sent later.
    pub reordered: u64,
    /// Times from sending to receiving, if they are known.
    pub latency: Option<FlowLatency>,
}

/// Why frames arrive in another way than they should.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Frames with other VLAN tags than they should have.
    pub retagged: u64,
    /// The numbers in the tags of these, from outside in.
    pub came: Vec<u16>,
    /// The VLAN tags that they should have.
    pub expected: Vec<u16>,
    /// First fragments of packets.
    pub fragments: u64,
}

impl Findings {
    /// These and those of another stream. VLAN tags are those of the first stream that has wrong ones.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (retagged, fragments) = (self.retagged + other.retagged, self.fragments + other.fragments);
        let named = if self.retagged > 0 || other.retagged == 0 { self } else { other };
        Self { retagged, fragments, ..named }
    }

    /// The doubts for a document.
    pub fn doubts(&self) -> impl Iterator<Item = Doubt> {
        let Self { retagged, came, expected, fragments } = self.clone();
        let retagged = (retagged > 0).then_some(Doubt::Retagged { frames: retagged, came, expected });
        let fragments = (fragments > 0).then_some(Doubt::Fragments { frames: fragments });
        retagged.into_iter().chain(fragments)
    }
}

/// The frames that have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Frames of the stream without duplicates, damaged ones included.
    pub received: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames that arrived after one of their flow sent later.
    pub reordered: u64,
    /// Frames that arrived only as damaged copies.
    pub corrupted: u64,
    /// Other traffic: frames that are not of this stream.
    pub other_traffic: u64,
    /// Frames with headers of this stream and a damaged tag, until they are [settled](Self::settle). They are
    /// not in the other counts.
    pub nameless: u64,
    /// Frames with headers of this stream and nothing like its tag, until they are
    /// [settled](Self::settle_tagless). They are not in the other counts.
    pub tagless: u64,
}

impl std::ops::AddAssign for Arrived {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.other_traffic += other.other_traffic;
        self.nameless += other.nameless;
        self.tagless += other.tagless;
    }
}

impl Arrived {
    /// Decides what frames with a damaged tag are: frames of the stream, as long as `room` of these are
    /// missing and nothing else explains where they are; other traffic beyond that.
    pub fn settle(&mut self, room: u64) {
        let ours = self.nameless.min(room);
        self.received += ours;
        self.corrupted += ours;
        self.other_traffic += self.nameless - ours;
        self.nameless = 0;
    }

    /// Decides what frames without anything like a tag are, if `room` of the stream's are missing and nothing
    /// else explains where they are. If more came than that, others send such frames, and all are other
    /// traffic; if not, they are damaged frames of the stream. Returns how many may be the one or the other.
    pub fn settle_tagless(&mut self, room: u64) -> u64 {
        let all = std::mem::take(&mut self.tagless);
        if all > room {
            self.other_traffic += all;
        } else {
            self.received += all;
            self.corrupted += all;
        }
        all.min(room)
    }
}
