//! The result of a trial.

use crate::accounting::counted::{Counted, Counts};
use crate::capturing::ring::Captured;
use crate::judging::queues::OfQueues;
use crate::judging::received::Received;
use crate::running::test_port::{OfCore, SentFrames};
use kpps_documents::detail::{Clocks, Interval};
use kpps_documents::{Disturbance, LINK_CHANGES};
use kpps_methods::Latency;
use kpps_ports::port::Trouble;
use std::collections::BTreeMap;

/// Raw counts of a trial's threads. The [document](crate::document()) is made of them, without the values
/// that only the testbed needs ([`Received::last_gap`], a [`Trouble`] as an error), captured frames, and full
/// histograms.
pub struct Outcome {
    /// The directions in which frames went.
    pub directions: Vec<DirectionOutcome>,
    /// Frames that came through, but that the receiving ports could not take in. `None` if a port does not
    /// count them.
    pub overflow: Option<u64>,
    /// Whether the trial ran to its end.
    pub complete: bool,
    /// The failure, if any.
    pub trouble: Option<Trouble>,
    /// Whether the path was open before the trial began.
    pub learned: Option<bool>,
    /// The counters of the systems around the ports. They explain frames that did not arrive.
    pub counted: Counted,
    /// The clocks of latencies, if there is more than one.
    pub clocks: Option<Clocks>,
    /// The largest permitted share of the tester's own losses in the due frames; `None`: the usual one.
    pub max_shortfall: Option<f64>,
    /// The number of repetitions of the trial, because each trial before was disturbed.
    pub retries: u32,
    /// All frames of the ports whose frames were captured, by their indices.
    pub captured: BTreeMap<usize, Captured>,
}

impl Outcome {
    /// The interfaces whose links went down or up during the trial, and how often.
    pub fn link_changes(&self) -> impl Iterator<Item = (String, u64)> {
        let changes = |(name, counts): (&String, &Counts)| Some((name.clone(), *counts.get(LINK_CHANGES)?));
        self.counted.interfaces.iter().filter_map(changes)
    }

    /// The reasons that kept the senders from their CPUs, all together; `None` if they were not observed for
    /// each sender.
    pub fn disturbance(&self) -> Option<Disturbance> {
        let senders = self.directions.chunk_by(|one, next| one.from == next.from);
        let each = senders.filter_map(|all| Some(all.first()?.sent.disturbance.clone()));
        each.reduce(|all, next| Some(all?.and(next?))).flatten()
    }
}

/// The result of one direction.
pub struct DirectionOutcome {
    /// The index of the port that sends.
    pub from: usize,
    /// The index of the port that receives.
    pub to: usize,
    /// The frames that were sent.
    pub sent: SentFrames,
    /// The frames that arrived.
    pub received: Received,
    /// Times from sending to receiving.
    pub latency: Latency,
    /// Arrived frames that may be damaged frames of this direction, or other traffic. Each was counted as one
    /// of the two: the count of corrupted frames, or the count of other traffic, may be too high by up to
    /// this number.
    pub either: u64,
    /// Frames that came through, but that the receiving port could not take in: its receive overflow. `None`
    /// if the port does not count it, or if it has an overflow and several senders: it is unknown whose
    /// frames these were.
    pub overflow: Option<u64>,
    /// The work of each core of the sending port and of the receiving port, if there are several.
    pub cores: [Vec<OfCore>; 2],
    /// The frames in the receive queues of the receiving port, if each of its cores reads one.
    pub queues: Option<OfQueues>,
    /// The length of intervals in s, and their results, if they were asked for.
    pub series: Option<(f64, Vec<Interval>)>,
}

impl DirectionOutcome {
    /// The indices of the ports that send and receive.
    pub(crate) fn ends(&self) -> (usize, usize) {
        (self.from, self.to)
    }

    /// Frames that were sent and did not come through. If the overflow is unknown, these frames are included.
    pub fn lost(&self) -> u64 {
        let came = self.received.arrived.received.saturating_add(self.overflow.unwrap_or(0));
        self.sent.frames.saturating_sub(came)
    }
}
