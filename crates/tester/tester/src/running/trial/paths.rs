//! The paths of a trial, which are learned before it.

use super::Tester;
use super::frames::reply;
use super::offer::{BOTH, Offer};
use crate::accounting::provenance;
use crate::error::Error;
use crate::running::learn;
use kpps_frames::build::Flow;
use kpps_frames::{Mac, Tag, tag};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// The paths that are learned before a trial.
pub(super) struct Paths {
    /// The next hop of each end; `None` for a router that did not answer.
    to: [Option<Mac>; 2],
    /// Whether frames arrive in all directions; `None` if that was not tried.
    pub open: Option<bool>,
    /// The flows from the first end, as they leave and as they arrive; only if the second end replies to
    /// them.
    pub flows: Option<[Vec<Flow<IpAddr>>; 2]>,
}

/// The number of a new trial. Because of it, late frames of one trial count as other traffic in the next.
pub(super) fn new_trial() -> u32 {
    tag::trial(RandomState::new().hash_one(()))
}

impl Tester {
    /// Opens the paths of an offer, and notes the routers on them.
    pub(super) fn open_paths(&mut self, offer: &Offer, go_on: &dyn Fn() -> bool) -> Result<Paths, Error> {
        let paths = match self.learning {
            true => self.learn(offer.goes_back(), go_on)?,
            false => self.resolve_only(go_on)?,
        };
        let is_silent = |(from, _): &&(usize, usize)| paths.to[*from].is_none() && go_on();
        if let Some(&(from, _)) = offer.directions().iter().find(is_silent)
            && let Some(gateway) = self.ends[from].gateway
        {
            return Err(Error::Silent { port: self.ports[from].name().to_owned(), gateway });
        }
        self.routers = paths.to;
        for (at, mac) in self.routers.iter().enumerate() {
            if let Some(gateway) = self.ends[at].gateway {
                let mac = mac.map(|mac| mac.to_string());
                provenance::note_gateway(self.ports[at].name(), gateway.to_string(), mac);
            }
        }
        Ok(paths)
    }

    /// The station address to which the frames of an end go: the address of its next hop, or of the other end
    /// if the router did not answer.
    pub(super) fn next_hop(&self, from: usize, paths: &Paths) -> Mac {
        paths.to[from].unwrap_or(self.ends[1 - from].station.mac)
    }

    /// The next hops without learning frames: only routers are asked for theirs.
    fn resolve_only(&mut self, go_on: &dyn Fn() -> bool) -> Result<Paths, Error> {
        let routers = learn::resolve(&mut self.ports, &self.ends, go_on)?;
        let known = learn::known_hops(&self.ends);
        let to = [0, 1].map(|at: usize| known[at].or(routers[at]));
        Ok(Paths { to, open: None, flows: None })
    }

    /// Learns the next hops before a trial, and whether the paths are open. If the second end replies, it
    /// also learns the addresses with which flows arrive.
    fn learn(&mut self, bidirectional: bool, go_on: &dyn Fn() -> bool) -> Result<Paths, Error> {
        let replies = bidirectional && self.flows.replies;
        let directions = if bidirectional && !replies { &BOTH[..] } else { &BOTH[..1] };
        let (mut ends, plan, mut formats) = (self.ends.clone(), self.flows.clone(), self.formats()?);
        // Learning frames have a trial number of their own, so that late ones count as other traffic in the
        // trial.
        let trial = new_trial();
        formats.iter_mut().for_each(|(format, _)| *format = format.of_trial(trial));
        let packet = plan.packet.as_deref();
        let options = [0, 1].map(|from| self.template_options_at(from, from, packet));
        let probe = |from: usize, to_mac: Mac, destination: u32, tag: (u32, Tag)| {
            let macs = [ends[from].station.mac, to_mac];
            let mut flow = plan.between(&ends[from], &ends[1 - from])?.nth(0, macs, None);
            flow.to.0 = ends[1 - from].ips.nth(destination);
            options[from].frame(&flow, 0, tag)
        };
        let known = (&ends, &formats);
        let (mut to, open) = learn::learn(&mut self.ports, known, (directions, &probe), trial, go_on)?;
        let Some(mac) = to[0].filter(|_| replies && open) else {
            return Ok(Paths { to, open: Some(open && !replies), flows: None });
        };
        let sent = self.flows_from(0, mac)?;
        let learned =
            learn::learn_flows(&mut self.ports, &ends, (&sent, &options[0], &formats), trial, go_on)?;
        let arrived: Vec<_> = learned.iter().flatten().copied().collect();
        let missing = sent.len() - arrived.len();
        if let (Some(first), 0) = (arrived.first(), missing) {
            // If the second end has no router, it sends its replies to the station from which the frames
            // came.
            if ends[1].gateway.is_none() {
                ends[1].to.get_or_insert(first.from_mac);
            }
        } else if go_on() {
            return Err(Error::Unanswerable { missing, flows: sent.len() });
        } else {
            return Ok(Paths { to, open: Some(false), flows: None });
        }
        // A reply goes to each address, so that the device under test resolves all of them.
        let mut known = BTreeSet::new();
        let firsts: Vec<_> =
            sent.iter().zip(&arrived).filter(|(sent, _)| known.insert(sent.from.0)).collect();
        let probe = |from: usize, to_mac: Mac, destination: u32, tag: (u32, Tag)| {
            let (_, arrived) = firsts.get(destination as usize)?;
            let from_mac = ends[from].station.mac;
            options[from].frame(&Flow { from_mac, to_mac, ..reply(arrived) }, 0, tag)
        };
        let known = (&ends, &formats);
        let (back, open) = learn::learn(&mut self.ports, known, (&BOTH[1..], &probe), trial, go_on)?;
        to[1] = back[1];
        Ok(Paths { to, open: Some(open), flows: Some([sent, arrived]) })
    }

    /// The flows of one direction as they leave their port, and as they arrive.
    pub(super) fn flows_of(&self, from: usize, paths: &Paths) -> Result<[Vec<Flow<IpAddr>>; 2], Error> {
        let to_mac = self.next_hop(from, paths);
        let Some([sent, arrived]) = &paths.flows else {
            let flows = self.flows_from(from, to_mac)?;
            return Ok([flows.clone(), flows]);
        };
        if from == 0 {
            return Ok([sent.clone(), arrived.clone()]);
        }
        let from_mac = self.ends[1].station.mac;
        let answer = |flow: &Flow<IpAddr>| Flow { from_mac, to_mac, ..reply(flow) };
        Ok([arrived.iter().map(answer).collect(), sent.iter().map(reply).collect()])
    }

    /// Whether frames arrive now, in all directions of an offer. It sends learning frames.
    ///
    /// # Errors
    /// [`Error::Trouble`].
    pub fn is_open(&mut self, bidirectional: bool, go_on: &dyn Fn() -> bool) -> Result<bool, Error> {
        let paths = self.learn(bidirectional, go_on);
        self.attend();
        match paths {
            Err(Error::Unanswerable { .. }) => Ok(false),
            paths => Ok(paths?.open == Some(true)),
        }
    }
}
