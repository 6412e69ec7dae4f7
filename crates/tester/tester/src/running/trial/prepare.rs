//! A trial that is prepared: the frames of both ports, and the clocks.

use super::Tester;
use super::offer::Offer;
use super::paths::{Paths, new_trial};
use crate::clock::{Clocks, Reading};
use crate::error::Error;
use crate::running::learn::End;
use crate::running::test_port::Expect;
use kpps_frames::{Templates, tag};
use kpps_ports::port::Trouble;
use kpps_ports::port::run::{Late, SendPlan};
use std::sync::Arc;

/// A trial that can be started.
pub(super) struct Prepared {
    /// The part that each port has in the trial.
    pub parts: [Part; 2],
    /// The facts by which its results are judged.
    pub basis: Basis,
}

/// The part of a port in a trial.
#[derive(Default)]
pub(super) struct Part {
    /// The frames that it sends.
    pub plan: Option<SendPlan>,
    /// The frames that it receives.
    pub expect: Option<Expect>,
}

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

/// The number of frames that a receiver has room for, if the number of due frames is unknown.
const ROOM: u64 = 1 << 20;

impl Tester {
    /// Builds the frames of a trial over these paths, and reads the clocks.
    pub(super) fn prepare(&mut self, offer: &Offer, paths: &Paths) -> Result<Prepared, Error> {
        let (trial, due) = (new_trial(), offer.due());
        let clocks = Clocks::before(self.read_clocks()?);
        let (margin_ns, slices) = clocks.margin(offer.length());
        let mut parts = [Part::default(), Part::default()];
        for &(from, to) in offer.directions() {
            let [leaving, arriving] = self.frames_of((from, to), offer, paths, trial)?;
            let stream = if from == 0 { 0 } else { tag::BACK };
            parts[from].plan = Some(SendPlan {
                rate: offer.load.rate,
                shape: offer.shape,
                times: offer.times(),
                as_they_are: offer.replay.is_some(),
                frames: leaving,
                // Both ports share one pool of buffers, so a buffer may hold a frame of the other port.
                rewrite: true,
                count: due.or(offer.count),
                late: Late::Skip,
                stream,
                epoch: None,
            });
            parts[to].expect = Some(Expect {
                stream,
                frames: arriving,
                count: due.unwrap_or(ROOM),
                margin_ns,
                parts: slices,
                keep: offer.keep,
                recognise: offer.replay.as_ref().map(|replay| replay.classes.clone()),
            });
        }
        Ok(Prepared { parts, basis: Basis { trial, learned: paths.open, due, clocks, margin_ns } })
    }

    /// The frames of a direction as they leave their port, and as they arrive.
    fn frames_of(
        &self,
        (from, to): (usize, usize),
        offer: &Offer,
        paths: &Paths,
        trial: u32,
    ) -> Result<[Arc<Templates>; 2], Error> {
        if let Some(replay) = &offer.replay {
            let End { gateway, to, station, .. } = &self.ends[from];
            // If the end has a next hop, the frames get the addresses of this station and of the next hop.
            let leaving = match gateway.is_some() || to.is_some() {
                true => {
                    let macs = [station.mac, self.next_hop(from, paths)];
                    Arc::new((*replay.frames).clone().between(macs))
                }
                false => replay.frames.clone(),
            };
            return Ok([leaving, replay.frames.clone()]);
        }
        let [leave, arrive] = self.flows_of(from, paths)?;
        let leaving = Arc::new(self.frames(&leave, from, from, &offer.load.sizes)?.of_trial(trial));
        let are_unchanged = self.ends[from].encap == self.ends[to].encap.reversed() && paths.flows.is_none();
        let arriving = match are_unchanged {
            true => leaving.clone(),
            // The device under test adds layers to each frame, removes some, or translates addresses.
            false => Arc::new(self.frames(&arrive, from, to, &offer.load.sizes)?.of_trial(trial)),
        };
        Ok([leaving, arriving])
    }

    /// Reads the clocks of both ports.
    pub(super) fn read_clocks(&mut self) -> Result<[Reading; 2], Trouble> {
        let [a, b] = &mut self.ports;
        Ok([a.read_clock()?, b.read_clock()?])
    }
}
