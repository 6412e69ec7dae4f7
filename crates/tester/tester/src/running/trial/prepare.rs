//! A trial that is prepared: the frames of both ports, and the clocks.

use super::Tester;
use super::offer::Offer;
use super::paths::{Paths, new_trial};
use crate::clock::{Clocks, Reading};
use crate::error::Error;
use crate::running::building::{BuiltStream, ROOM, StreamBuilder};
use crate::running::learn::{Direction, End};
use crate::running::test_port::{Expect, ExpectedStream};
use kpps_frames::Templates;
use kpps_frames::flows::MOST_FLOWS;
use kpps_frames::rate::Rate;
use kpps_frames::stack::Between;
use kpps_ports::port::Trouble;
use kpps_ports::port::run::{Late, SendPlan, StreamPlan};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A trial that can be started.
pub(super) struct Prepared {
    /// The part that each port has in the trial.
    pub parts: Vec<Part>,
    /// The facts by which its results are judged.
    pub basis: Basis,
}

/// The part of a port in a trial.
#[derive(Default)]
pub(super) struct Part {
    /// The frames that it sends.
    pub plan: Option<SendPlan>,
    /// The frames that it receives from each sender.
    pub expect: Vec<Expect>,
}

/// The streams that each other port expects from a port.
type ExpectedStreams = BTreeMap<usize, Vec<ExpectedStream>>;

/// The facts of a trial that are known before it, and by which its results are judged.
pub(super) struct Basis {
    /// Its number, which the tags of its frames have.
    pub trial: u32,
    /// Whether the path was open before the trial; `None` if that was not tried.
    pub learned: Option<bool>,
    /// Frames that are due in each direction, if that is known beforehand.
    pub due: Option<u64>,
    /// The clocks of both ends.
    pub clocks: Clocks,
    /// The margin that receivers add to each latency.
    pub margin_ns: u64,
}

impl Tester {
    /// Builds the frames of a trial over these paths, and reads the clocks.
    pub(super) fn prepare(&mut self, offer: &Offer, paths: &Paths) -> Result<Prepared, Error> {
        let (trial, due) = (new_trial(), offer.due());
        let clocks = Clocks::before(self.read_clocks()?);
        let (margin_ns, slices) = clocks.margin(offer.length());
        let mut parts: Vec<_> = self.ports.iter().map(|_| Part::default()).collect();
        for from in offer.senders() {
            let (plan, expected) = match offer.streams.is_empty() {
                true => self.one_stream((from, 1 - from), offer, paths, (trial, due))?,
                false => self.many_streams(from, offer, paths, trial)?,
            };
            // All ports share one pool of buffers, so a buffer may hold a frame of another port.
            let as_they_are = offer.replay.is_some();
            parts[from].plan = Some(SendPlan { rewrite: true, as_they_are, late: offer.late, ..plan });
            for (to, streams) in expected {
                parts[to].expect.push(Expect {
                    from,
                    streams,
                    by_stream: !offer.streams.is_empty(),
                    margin_ns,
                    parts: slices,
                    keep: offer.keep,
                    recognise: offer.replay.as_ref().map(|replay| replay.classes.clone()),
                });
            }
        }
        Ok(Prepared { parts, basis: Basis { trial, learned: paths.open, due, clocks, margin_ns } })
    }

    /// The frames of a direction as one stream, as they are sent, and as they are expected.
    fn one_stream(
        &self,
        (from, to): Direction,
        offer: &Offer,
        paths: &Paths,
        (trial, due): (u32, Option<u64>),
    ) -> Result<(SendPlan, ExpectedStreams), Error> {
        let [leaving, arriving] = self.frames_of((from, to), offer, paths, trial)?;
        let stream = offer.first_numbers().get(&(from, to)).copied().unwrap_or_default();
        let planned = StreamPlan {
            stream,
            shape: offer.shape,
            times: offer.times(),
            count: due.or(offer.count),
            ..StreamPlan::of(leaving)
        };
        let expected = ExpectedStream { stream, frames: arriving, count: due.unwrap_or(ROOM) };
        Ok((SendPlan::one(offer.load.rate, planned), [(to, vec![expected])].into()))
    }

    /// The streams from a port, as they are sent, and as they are expected.
    fn many_streams(
        &self,
        from: usize,
        offer: &Offer,
        paths: &Paths,
        trial: u32,
    ) -> Result<(SendPlan, ExpectedStreams), Error> {
        let firsts = offer.first_numbers();
        let builder = |to: usize| StreamBuilder {
            between: Between {
                macs: [self.ends[from].station.mac, self.next_hop((from, to), paths)],
                ips: [from, to].map(|end| self.ends[end].ips.first()),
            },
            from,
            first: firsts.get(&(from, to)).copied().unwrap_or_default(),
            trial,
            length: offer.load.duration,
            is_controlled: offer.control.is_some(),
            waits: offer.control.as_ref().is_some_and(|control| control.waits()),
        };
        let frames = offer.streams_from(from).map(|(stream, _)| builder(stream.to).frames(stream));
        let mut frames: Vec<Templates> = frames.collect::<Result<_, _>>()?;
        if frames.iter().map(|frames| u64::from(frames.flows())).sum::<u64>() > MOST_FLOWS.into() {
            frames = frames.into_iter().map(Templates::in_one_flow).collect();
        }
        let (mut streams, mut expected) = (Vec::new(), ExpectedStreams::new());
        for ((stream, pps), frames) in offer.streams_from(from).zip(frames) {
            let there = expected.entry(stream.to).or_default();
            let BuiltStream { plan, room } = builder(stream.to).build(there.len(), stream, pps, frames);
            there.push(ExpectedStream { stream: plan.stream, frames: plan.frames.clone(), count: room });
            streams.push(plan);
        }
        let first = offer.streams_from(from).next();
        if let (Some(control), Some((stream, _))) = (&offer.control, first) {
            control.begin(builder(stream.to));
        }
        let plan = SendPlan {
            streams,
            is_paced: offer.load.rate != Rate::Max,
            as_they_are: false,
            rewrite: true,
            late: Late::Skip,
            fillers: false,
            live: offer.control.is_some(),
            epoch: None,
        };
        Ok((plan, expected))
    }

    /// The frames of a direction as they leave their port, and as they arrive.
    fn frames_of(
        &self,
        (from, to): Direction,
        offer: &Offer,
        paths: &Paths,
        trial: u32,
    ) -> Result<[Arc<Templates>; 2], Error> {
        if let Some(replay) = &offer.replay {
            let End { gateway, to: hop, station, .. } = &self.ends[from];
            // If the end has a next hop, the frames get the addresses of this station and of the next hop.
            let leaving = match gateway.is_some() || hop.is_some() {
                true => {
                    let macs = [station.mac, self.next_hop((from, to), paths)];
                    Arc::new((*replay.frames).clone().between(macs))
                }
                false => replay.frames.clone(),
            };
            return Ok([leaving, replay.frames.clone()]);
        }
        let [leave, arrive] = self.flows_of((from, to), paths)?;
        let leaving = Arc::new(self.frames(&leave, (from, to), from, &offer.load.sizes)?.of_trial(trial));
        let are_unchanged = self.ends[from].encap == self.ends[to].encap.reversed() && paths.flows.is_none();
        let arriving = match are_unchanged {
            true => leaving.clone(),
            // The device under test adds layers to each frame, removes some, or translates addresses.
            false => Arc::new(self.frames(&arrive, (from, to), to, &offer.load.sizes)?.of_trial(trial)),
        };
        Ok([leaving, arriving])
    }

    /// Reads the clocks of two ports. More ports belong to this process, as these do.
    pub(super) fn read_clocks(&mut self) -> Result<[Reading; 2], Trouble> {
        let mut ports = self.ports.iter_mut();
        let mut read = || ports.next().map_or_else(|| Ok(Reading::here()), |port| port.read_clock());
        Ok([read()?, read()?])
    }
}
