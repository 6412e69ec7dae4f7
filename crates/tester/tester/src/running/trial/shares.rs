//! The share of each direction in the frames that a port has sent.

use super::offer::Offer;
use super::run::Ended;
use crate::running::learn::Direction;
use crate::running::streams::Stream;
use crate::running::test_port::SentFrames;
use kpps_ports::port::run::{PlanPart, SendPlan, StreamPlan};
use std::mem::take;
use std::time::Duration;

impl Ended {
    /// The frames that a port has sent in one of its directions.
    pub(super) fn sent(&mut self, offer: &Offer, (from, to): Direction) -> SentFrames {
        let receivers: Vec<usize> =
            offer.directions().iter().filter(|it| it.0 == from).map(|it| it.1).collect();
        if receivers.len() < 2 {
            return take(&mut self.done[from].sent);
        }
        let Some(at) = receivers.iter().position(|it| *it == to) else { return SentFrames::default() };
        let all = &self.done[from].sent;
        let receiver = |(stream, _): (&Stream, f64)| stream.to;
        let own = |of_streams: &[u64], to: usize| -> Vec<u64> {
            let streams = offer.streams_from(from).map(receiver).zip(of_streams);
            streams.filter(|(it, _)| *it == to).map(|(_, frames)| *frames).collect()
        };
        let arrived = |to: usize| {
            let of = self.done[to].of_senders.iter().find(|of| of.from == from);
            of.map_or(0, |of| of.received.arrived.received)
        };
        // Of a port that failed only the sum is known, beside what arrived.
        let mut given: Vec<u64> = match all.of_streams.is_empty() {
            true => receivers.iter().map(|to| arrived(*to)).collect(),
            false => receivers.iter().map(|to| own(&all.of_streams, *to).iter().sum()).collect(),
        };
        spread(all.given.saturating_sub(given.iter().sum()), &[], &mut given);
        // Which frames the kernel refused is unknown: some that are missing.
        let missing: Vec<_> =
            receivers.iter().zip(&given).map(|(to, given)| given.saturating_sub(arrived(*to))).collect();
        let mut refused = vec![0; receivers.len()];
        spread(all.given.saturating_sub(all.frames), &missing, &mut refused);
        let due = |to: &usize| match all.due_of_streams.is_empty() {
            true => self.due(offer, (from, *to), all.elapsed),
            false => own(&all.due_of_streams, *to).iter().sum(),
        };
        let due: Vec<u64> = receivers.iter().map(due).collect();
        let late: Vec<_> = due.iter().zip(&given).map(|(due, given)| due.saturating_sub(*given)).collect();
        let mut left_out = vec![0; receivers.len()];
        spread(all.intended.saturating_sub(all.given), &late, &mut left_out);
        let of = |counts: &[u64]| counts.get(at).copied().unwrap_or_default();
        let is_first = at == 0;
        SentFrames {
            intended: of(&given) + of(&left_out),
            frames: of(&given).saturating_sub(of(&refused)),
            given: of(&given),
            of_streams: own(&all.of_streams, to),
            due_of_streams: own(&all.due_of_streams, to),
            // The port's gaps are those between the frames of all directions.
            gaps: all.gaps.filter(|_| is_first),
            lateness: all.lateness.filter(|_| is_first),
            ..all.clone()
        }
    }

    /// The frames of a direction that are due in this time by the plan, if they are paced.
    fn due(&self, offer: &Offer, (from, to): Direction, elapsed: Duration) -> u64 {
        let Some(plan) = &self.plans[from] else { return 0 };
        let of_direction = |((stream, _), planned): ((&Stream, f64), &StreamPlan)| {
            (stream.to == to).then(|| planned.clone())
        };
        let streams = offer.streams_from(from).zip(&plan.streams).filter_map(of_direction).collect();
        let part = PlanPart::whole(SendPlan { streams, ..plan.clone() });
        part.timetables().map_or(0, |mut tables| tables.before(elapsed.as_secs_f64()).round() as u64)
    }
}

/// Adds `frames` to counts, to each up to its limit, in order; and the rest to the first.
fn spread(mut frames: u64, limits: &[u64], counts: &mut [u64]) {
    for (count, limit) in counts.iter_mut().zip(limits) {
        let own = frames.min(*limit);
        *count += own;
        frames -= own;
    }
    counts.iter_mut().take(1).for_each(|first| *first += frames);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_spread_up_to_limits_and_the_sum_holds() {
        let spread = |frames, limits: &[u64]| {
            let mut counts = [1, 0, 2];
            spread(frames, limits, &mut counts);
            counts
        };
        assert_eq!(spread(0, &[5, 5, 5]), [1, 0, 2]);
        assert_eq!(spread(7, &[0, 5, 5]), [1, 5, 4]);
        assert_eq!(spread(9, &[1, 1, 1]), [8, 1, 3]);
        assert_eq!(spread(4, &[]), [5, 0, 2]);
    }
}
