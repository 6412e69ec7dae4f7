//! The receive queues of a port: the flows that each should receive, and the frames that came to it.
//!
//! The queue of each flow is known before a trial: a card with RSS chooses it by a hash, or a rule does. Each
//! core of the port reads a queue, and counts the frames of each flow that it finds there.

use kpps_documents::queues::{ElsewhereReason, QueueChoice, QueueCount, QueueFrames};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The expected queue of each flow of each stream; `None` where it is unknown.
pub type QueuesOfFlows = Vec<Vec<Option<u32>>>;
/// The frames of each flow of each stream.
pub type FramesOfFlows = Vec<Vec<u64>>;

/// The expected queues of all flows that a port receives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectedQueues {
    /// The number of receive queues.
    pub count: u32,
    /// The queue that each core reads.
    pub read: Vec<u32>,
    /// How the queues are chosen.
    pub by: QueueChoice,
    /// Whether the key of the hash is the kernel's, because the driver does not report its own.
    pub system_key: bool,
    /// Whether the interface has rules of others.
    pub has_other_rules: bool,
    /// The queues of the flows of each sender, by its index.
    pub of_senders: BTreeMap<usize, QueuesOfFlows>,
    /// Why queues are unknown, if some are.
    pub unknown: Option<String>,
}

/// The frames of a sender in the queues of a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfQueues {
    /// How the queues are chosen.
    pub by: QueueChoice,
    /// Whether the key of the hash is the kernel's.
    pub system_key: bool,
    /// All queues.
    pub each: Vec<QueueCount>,
    /// Flows whose queue is unknown.
    pub unknown_flows: u32,
    /// Why.
    pub unknown: Option<String>,
    /// Flows with frames in other queues than the expected one, those with most such frames first.
    pub elsewhere: Vec<Elsewhere>,
    /// Why there are such flows, if that is known.
    pub reason: Option<ElsewhereReason>,
}

/// A flow with frames in other queues than the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The index of its stream.
    pub stream: usize,
    /// Its number in the stream.
    pub flow: u32,
    /// The expected queue.
    pub queue: u32,
    /// The frames in each queue.
    pub came: Vec<QueueFrames>,
    /// Frames in other queues than the expected one.
    frames: u64,
}

/// The sum of the frames of a flow in the queues that match.
fn sum(came: &[QueueFrames], is_wanted: impl Fn(u32) -> bool) -> u64 {
    came.iter().filter(|it| is_wanted(it.queue)).map(|it| it.frames).sum()
}

impl ExpectedQueues {
    /// Compares the queues of a sender's flows with the frames that came to each core, of those that were
    /// sent. `overflows`: the receive overflow of each core. `None` if nothing is known of this sender.
    pub fn settle(
        &self,
        from: usize,
        sent: &FramesOfFlows,
        came_to: &[FramesOfFlows],
        overflows: &[Option<u64>],
    ) -> Option<OfQueues> {
        let of_flows = self.of_senders.get(&from)?;
        let count = self.read.iter().map(|queue| queue + 1).fold(self.count, u32::max);
        let mut each: Vec<_> =
            (0..count).map(|queue| QueueCount { queue, ..QueueCount::default() }).collect();
        for (queue, overflow) in self.read.iter().zip(overflows) {
            if let Some(row) = each.get_mut(*queue as usize) {
                (row.read, row.overflow) = (true, *overflow);
            }
        }
        let (mut elsewhere, mut unknown_flows) = (Vec::new(), 0);
        for (stream, flows) in of_flows.iter().enumerate() {
            for (flow, expected) in flows.iter().enumerate() {
                let of = |frames: &FramesOfFlows| -> u64 {
                    frames.get(stream).and_then(|flows| flows.get(flow)).copied().unwrap_or(0)
                };
                let came = self.read.iter().zip(came_to).map(|(&queue, frames)| (queue, of(frames)));
                let came: Vec<_> = came
                    .filter(|(_, frames)| *frames > 0)
                    .map(|(queue, frames)| QueueFrames { queue, frames })
                    .collect();
                for QueueFrames { queue, frames } in &came {
                    let Some(row) = each.get_mut(*queue as usize) else { continue };
                    match expected {
                        None => row.of_unknown += frames,
                        Some(other) if other != queue => row.of_others += frames,
                        Some(_) => {}
                    }
                }
                let Some(queue) = *expected else {
                    unknown_flows += 1;
                    continue;
                };
                let (here, frames) = (sum(&came, |it| it == queue), sum(&came, |it| it != queue));
                if let Some(row) = each.get_mut(queue as usize) {
                    let sent = of(sent);
                    row.flows += 1;
                    row.sent += sent;
                    row.received += here;
                    row.elsewhere += frames;
                    row.lost += sent.saturating_sub(here + frames);
                }
                if frames > 0 {
                    elsewhere.push(Elsewhere { stream, flow: flow as u32, queue, came, frames });
                }
            }
        }
        // Streams that were added during the trial.
        let added = came_to.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(of_flows.len());
        unknown_flows += added as u32;
        for (queue, frames) in self.read.iter().zip(came_to) {
            let Some(row) = each.get_mut(*queue as usize) else { continue };
            row.of_unknown += frames.iter().skip(of_flows.len()).flatten().sum::<u64>();
        }
        let unknown =
            self.unknown.clone().or_else(|| (added > 0).then(|| "streams were added meanwhile".into()));
        elsewhere.sort_by_key(|flow| (Reverse(flow.frames), flow.stream, flow.flow));
        let reason = (!elsewhere.is_empty() && self.by == QueueChoice::Hash && self.has_other_rules)
            .then_some(ElsewhereReason::OtherRules);
        Some(OfQueues {
            by: self.by,
            system_key: self.system_key,
            each,
            unknown_flows,
            unknown: unknown.filter(|_| unknown_flows > 0),
            elsewhere,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Four queues, of which two cores read 1 and 2. Five flows of one stream.
    fn expected() -> ExpectedQueues {
        let queues = vec![vec![Some(1), Some(2), Some(1), Some(3), None]];
        ExpectedQueues {
            count: 4,
            read: vec![1, 2],
            of_senders: [(0, queues)].into(),
            unknown: Some("its driver".into()),
            ..ExpectedQueues::default()
        }
    }

    #[test]
    fn frames_are_counted_by_the_queue_of_their_flow() {
        let came = [vec![vec![10, 0, 4, 0, 3]], vec![vec![0, 9, 5, 0, 0]]];
        let all = expected().settle(0, &vec![vec![10; 5]], &came, &[Some(7), None]).unwrap();
        let row = |queue: u32| all.each[queue as usize];
        assert_eq!(row(0), QueueCount { queue: 0, ..QueueCount::default() });
        let first = QueueCount {
            queue: 1,
            read: true,
            flows: 2,
            sent: 20,
            received: 14,
            elsewhere: 5,
            lost: 1,
            of_others: 0,
            of_unknown: 3,
            overflow: Some(7),
        };
        assert_eq!(row(1), first);
        assert_eq!((row(2).received, row(2).lost, row(2).of_others, row(2).overflow), (9, 1, 5, None));
        // No core reads the last one.
        assert_eq!((row(3).read, row(3).flows, row(3).sent, row(3).lost), (false, 1, 10, 10));
        assert_eq!((all.unknown_flows, all.unknown.as_deref()), (1, Some("its driver")));
        let came = vec![QueueFrames { queue: 1, frames: 4 }, QueueFrames { queue: 2, frames: 5 }];
        assert_eq!(all.elsewhere, [Elsewhere { stream: 0, flow: 2, queue: 1, came, frames: 5 }]);
        assert_eq!(all.reason, None);
        // Each frame is in one row.
        let rows: u64 = all.each.iter().map(|row| row.received + row.elsewhere + row.lost).sum();
        assert_eq!(rows, all.each.iter().map(|row| row.sent).sum::<u64>());
    }

    #[test]
    fn frames_of_added_streams_are_of_unknown_flows() {
        let came = [vec![vec![10, 0, 10, 0, 0], vec![4]], vec![vec![0, 10, 0, 0, 0], vec![2]]];
        let all = expected().settle(0, &vec![vec![10; 5], vec![6]], &came, &[None, None]).unwrap();
        assert_eq!((all.each[1].of_unknown, all.each[2].of_unknown, all.unknown_flows), (4, 2, 2));
    }

    #[test]
    fn rules_of_others_are_a_reason_for_hashed_flows() {
        let came = [vec![vec![0]], vec![vec![1]]];
        let one = ExpectedQueues { of_senders: [(0, vec![vec![Some(1)]])].into(), ..expected() };
        let with = ExpectedQueues { has_other_rules: true, ..one.clone() };
        let reason = |it: &ExpectedQueues| it.settle(0, &vec![vec![1]], &came, &[None, None]).unwrap().reason;
        assert_eq!((reason(&one), reason(&with)), (None, Some(ElsewhereReason::OtherRules)));
        let steered = ExpectedQueues { by: QueueChoice::Rules, ..with };
        assert_eq!(reason(&steered), None);
        assert_eq!(one.settle(1, &Vec::new(), &came, &[]), None, "no such sender");
    }
}
