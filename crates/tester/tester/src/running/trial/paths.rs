//! The paths of a trial, which are learned before it.

use super::Tester;
use super::frames::reply;
use super::offer::Offer;
use crate::accounting::provenance;
use crate::error::Error;
use crate::running::learn::{self, Direction};
use kpps_frames::build::Flow;
use kpps_frames::{Mac, Tag, tag};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// The paths that are learned before a trial.
pub(super) struct Paths {
    /// The next hop that each end has for all directions; `None` for a router that did not answer.
    pub to: Vec<Option<Mac>>,
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
            true => self.learn(&offer.learned(), go_on)?,
            false => self.resolve_only(go_on)?,
        };
        let silent = |&(from, _): &Direction| {
            let gateway = self.ends[from].gateway.filter(|_| paths.to[from].is_none() && go_on())?;
            Some(Error::Silent { port: self.ports[from].name().to_owned(), gateway })
        };
        if let Some(silent) = offer.directions().iter().find_map(silent) {
            return Err(silent);
        }
        self.routers.clone_from(&paths.to);
        for (at, mac) in self.routers.iter().enumerate() {
            if let Some(gateway) = self.ends[at].gateway {
                let mac = mac.map(|mac| mac.to_string());
                provenance::note_gateway(self.ports[at].name(), gateway.to_string(), mac);
            }
        }
        Ok(paths)
    }

    /// The station address to which the frames of a direction go: the address of the next hop, or of the
    /// other end if the router did not answer.
    pub(super) fn next_hop(&self, direction: Direction, paths: &Paths) -> Mac {
        let hop = learn::next_hop(&self.ends, &paths.to, direction);
        hop.unwrap_or(self.ends[direction.1].station.mac)
    }

    /// The next hops without learning frames: only routers are asked for theirs.
    fn resolve_only(&mut self, go_on: &dyn Fn() -> bool) -> Result<Paths, Error> {
        let routers = learn::resolve(&mut self.ports, &self.ends, go_on)?;
        let to = self.ends.iter().zip(routers).map(|(end, router)| end.to.or(router)).collect();
        Ok(Paths { to, open: None, flows: None })
    }

    /// Learns the next hops before a trial, and whether the paths are open in these directions. If the second
    /// end replies, it also learns the addresses with which flows arrive.
    fn learn(&mut self, directions: &[Direction], go_on: &dyn Fn() -> bool) -> Result<Paths, Error> {
        const BACK: Direction = (1, 0);
        let replies = directions.contains(&BACK) && self.flows.replies;
        let directions = if replies { &[(0, 1)] } else { directions };
        let (mut ends, plan, mut formats) = (self.ends.clone(), self.flows.clone(), self.formats()?);
        // Learning frames have a trial number of their own, so that late ones count as other traffic in the
        // trial.
        let trial = new_trial();
        formats.iter_mut().for_each(|(format, _)| *format = format.of_trial(trial));
        let packet = plan.packet.as_deref();
        let options = |direction: Direction| self.template_options_at(direction, direction.0, packet);
        let leaving: Vec<_> = directions.iter().map(|direction| (*direction, options(*direction))).collect();
        let [there, back] = [(0, 1), BACK].map(options);
        let probe = |direction: Direction, to_mac: Mac, destination: u32, tag: (u32, Tag)| {
            let [from, to] = [&ends[direction.0], &ends[direction.1]];
            let mut flow = plan.between(from, to)?.nth(0, [from.station.mac, to_mac], None);
            flow.to.0 = to.ips.nth(destination);
            leaving.iter().find(|(it, _)| *it == direction)?.1.frame(&flow, 0, tag)
        };
        let known = (&ends[..], &formats[..]);
        let (mut to, open) = learn::learn(&mut self.ports, known, (directions, &probe), trial, go_on)?;
        let hop = learn::next_hop(&ends, &to, (0, 1));
        let Some(mac) = hop.filter(|_| replies && open) else {
            return Ok(Paths { to, open: Some(open && !replies), flows: None });
        };
        let sent = self.flows_from((0, 1), mac)?;
        let learned = learn::learn_flows(&mut self.ports, &ends, (&sent, &there, &formats), trial, go_on)?;
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
        let probe = |_: Direction, to_mac: Mac, destination: u32, tag: (u32, Tag)| {
            let (_, arrived) = firsts.get(destination as usize)?;
            let from_mac = ends[1].station.mac;
            back.frame(&Flow { from_mac, to_mac, ..reply(arrived) }, 0, tag)
        };
        let known = (&ends[..], &formats[..]);
        let (hops, open) = learn::learn(&mut self.ports, known, (&[BACK], &probe), trial, go_on)?;
        to[1] = hops[1];
        Ok(Paths { to, open: Some(open), flows: Some([sent, arrived]) })
    }

    /// The flows of one direction as they leave their port, and as they arrive.
    pub(super) fn flows_of(
        &self,
        direction: Direction,
        paths: &Paths,
    ) -> Result<[Vec<Flow<IpAddr>>; 2], Error> {
        let to_mac = self.next_hop(direction, paths);
        let Some([sent, arrived]) = &paths.flows else {
            let flows = self.flows_from(direction, to_mac)?;
            return Ok([flows.clone(), flows]);
        };
        if direction.0 == 0 {
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
    pub fn is_open(&mut self, offer: &Offer, go_on: &dyn Fn() -> bool) -> Result<bool, Error> {
        let paths = self.learn(&offer.learned(), go_on);
        self.attend();
        match paths {
            Err(Error::Unanswerable { .. }) => Ok(false),
            paths => Ok(paths?.open == Some(true)),
        }
    }
}
