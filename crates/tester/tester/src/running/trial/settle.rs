//! The fate of every frame of a trial that has ended.

use super::Tester;
use super::offer::Offer;
use super::outcome::{DirectionOutcome, Outcome};
use super::run::Ended;
use crate::accounting::ledger::{Accounts, missed};
use crate::judging::queues::OfQueues;
use crate::judging::received::Received;
use crate::judging::timeline::{self, DirectionTotals, Timeline};
use crate::running::learn::Direction;
use crate::running::test_port::{OfSender, SentFrames};
use kpps_frames::rate::Rate;
use kpps_methods::Latency;
use std::collections::BTreeMap;
use std::mem::take;

/// The frames of one direction, some of which may be missing.
struct Crossing {
    from: usize,
    to: usize,
    sent: SentFrames,
    received: Received,
    /// Times from sending to receiving, in parts, as they were measured.
    latency: Vec<Latency>,
    queues: Option<OfQueues>,
}

impl Crossing {
    fn missing(&self) -> u64 {
        self.sent.frames.saturating_sub(self.received.arrived.received)
    }
}

/// Missing frames of all directions.
fn missing(crossings: &[Crossing]) -> u64 {
    crossings.iter().map(Crossing::missing).sum()
}

impl Tester {
    /// Settles the fate of all frames.
    pub(super) fn settle(&self, offer: &Offer, mut ended: Ended) -> Outcome {
        let names = self.names();
        if ended.basis.clocks.is_set() {
            for done in &mut ended.done {
                done.line.iter_mut().for_each(Timeline::forget_latencies);
                done.of_senders.iter_mut().for_each(|of| of.received.forget_latencies());
            }
        }
        let directions = offer.directions();
        let sent: Vec<_> = directions.iter().map(|direction| ended.sent(offer, *direction)).collect();
        let of =
            |(direction, sent): (&Direction, SentFrames)| ended.crossing(offer, *direction, sent, &names);
        let mut crossings: Vec<_> = directions.iter().zip(sent).map(of).collect();
        settle_nameless(&mut crossings, &ended.counted.accounts);
        let either = settle_tagless(&mut crossings, &ended.counted.accounts);
        let all = missing(&crossings);
        let overflow = |to: usize| {
            // The accounts count frames; the port itself counts a message of several frames once.
            let dropped = ended.counted.accounts.at(&missed(names[to]), all);
            let missing = crossings.iter().filter(|it| it.to == to).map(Crossing::missing).sum();
            ended.done[to].missed.map(|_| dropped.min(missing))
        };
        let overflows: BTreeMap<_, _> = directions.iter().map(|&(_, to)| (to, overflow(to))).collect();
        let settled = |(crossing, either): (Crossing, u64)| {
            let overflow = overflows.get(&crossing.to).copied().flatten();
            // If a port has several senders, it is unknown whose frames it could not take in.
            let is_only = directions.iter().filter(|it| it.1 == crossing.to).count() == 1;
            let overflow = overflow.filter(|frames| *frames == 0 || is_only);
            ended.direction(offer, crossing, either, overflow)
        };
        let directions = crossings.into_iter().zip(either).map(settled).collect();
        let captured = ended.done.iter_mut().enumerate();
        let captured = captured.filter_map(|(at, done)| Some((at, done.captured.take()?))).collect();
        Outcome {
            directions,
            overflow: overflows.into_values().sum(),
            captured,
            complete: ended.complete,
            trouble: ended.trouble,
            learned: ended.basis.learned,
            counted: ended.counted,
            clocks: ended.basis.clocks.document(),
            max_shortfall: self.max_shortfall,
            retries: 0,
        }
    }
}

impl Ended {
    /// The frames of a direction, as its two ports have counted them.
    fn crossing(
        &mut self,
        offer: &Offer,
        (from, to): Direction,
        sent: SentFrames,
        names: &[&str],
    ) -> Crossing {
        let came = self.done[to].of_senders.iter_mut().find(|of| of.from == from);
        let OfSender { mut received, latency, queues, .. } = came.map(take).unwrap_or_default();
        if self.lost[from] || self.lost[to] || !self.counted.unbelievable.is_empty() {
            // Times and numbers of frames may be old, or invented.
            received.losses = None;
        }
        let (mut frames, reached) = (sent.frames, received.arrived.received);
        if self.lost[from] {
            // The sender's last report is old: frames that were received or dropped since then were sent,
            // too.
            let is_only = offer.directions().len() == 1 && !offer.goes_back();
            let dropped = if is_only { self.counted.accounts.total() } else { 0 };
            frames = frames.max(reached + dropped);
        }
        if self.lost[to] {
            // The receiver's last report is old: it is unknown whether later frames arrived.
            let place = format!("{} not reported", names[to]);
            self.counted.accounts.possible.push((place, frames.saturating_sub(reached)));
        }
        let intended = self.intended(offer, &sent, frames);
        let sent = SentFrames { intended, frames, ..sent };
        if let Some(replay) = &offer.replay {
            let arrived = &mut received.arrived;
            (arrived.received, arrived.duplicated) =
                replay.classes.tally(&self.done[to].classes, sent.given, &sent.skipped);
        }
        Crossing { from, to, sent, received, latency, queues }
    }

    /// The number of frames that were due. `frames` of them were sent.
    fn intended(&self, offer: &Offer, sent: &SentFrames, frames: u64) -> u64 {
        match self.basis.due {
            // The rate has changed, so only the sender knows the number of due frames.
            _ if !sent.rate_changes.is_empty() => sent.intended.max(frames),
            Some(all) if self.complete => all,
            Some(all) => sent.intended.min(all).max(frames),
            None if offer.load.rate != Rate::Max => sent.intended.max(frames),
            None => frames,
        }
    }

    /// The result of a direction. `either` of its frames may be damaged frames or other traffic. Its
    /// receiving port could not take in `overflow` frames, if that is known.
    fn direction(
        &self,
        offer: &Offer,
        crossing: Crossing,
        either: u64,
        overflow: Option<u64>,
    ) -> DirectionOutcome {
        let Crossing { from, to, sent, received, latency, queues } = crossing;
        let totals = DirectionTotals {
            begun: sent.begun,
            elapsed: sent.elapsed,
            intended: sent.intended,
            sent: sent.frames,
            overflow,
        };
        let lines = self.done[from].line.as_ref().zip(self.done[to].line.as_ref());
        let series = lines.map(|(sender, receiver)| timeline::series(sender, receiver, &totals));
        let latency = self.latency(offer, to, latency);
        let cores = [from, to].map(|at| self.done[at].cores.clone());
        DirectionOutcome { from, to, sent, received, latency, either, overflow, cores, queues, series }
    }

    /// The latencies of the frames that a port received, corrected by the clocks.
    fn latency(&self, offer: &Offer, to: usize, parts: Vec<Latency>) -> Latency {
        let (clocks, margin_ns) = (&self.basis.clocks, self.basis.margin_ns);
        let mut latency = clocks.correct(to, parts, offer.load.duration, margin_ns);
        latency.error_ns = clocks.document().map(|_| clocks.latency_error_ns(margin_ns));
        latency
    }
}

/// Decides for frames with a damaged tag whether they belong to a direction: as many of them as are missing
/// and were not dropped elsewhere.
fn settle_nameless(crossings: &mut [Crossing], accounts: &Accounts) {
    let mut room = missing(crossings).saturating_sub(accounts.total());
    for crossing in crossings {
        let nameless = crossing.received.arrived.nameless;
        let missing = crossing.missing();
        let own = crossing.received.settle(missing, |missing, arrived| {
            let own = room.min(missing).min(arrived.nameless);
            arrived.settle(own);
            room -= own;
            own
        });
        crossing.received.kept.settle(own, nameless);
    }
}

/// Decides for frames without anything like a tag whether they belong to a direction. Other stations may have
/// sent them, so all counters explain missing frames before these frames do. Returns for each direction the
/// number of frames that may belong to it or be other traffic.
fn settle_tagless(crossings: &mut [Crossing], accounts: &Accounts) -> Vec<u64> {
    let all = missing(crossings);
    let (dropped, in_flight) = accounts.explaining(all);
    let explained: u64 = dropped.values().chain(in_flight.values()).sum();
    let mut room = all.saturating_sub(explained);
    let settled = crossings.iter_mut().map(|crossing| {
        let missing = crossing.missing();
        let either = crossing.received.settle(missing, |missing, arrived| {
            let either = arrived.settle_tagless(room.min(missing));
            room -= either;
            either
        });
        crossing.received.kept.settle_tagless(either);
        either
    });
    settled.collect()
}
