//! Network address and port translation (RFC 4787 for UDP, 5382 for TCP, 5508 for ICMP): Click's
//! `IPRewriter`, within the router.
//!
//! All hosts behind the other interfaces share the address of the *outside* interface. A host's address and
//! port are *mapped* to a port of that address, the same for all destinations (endpoint-independent mapping).
//! Any outside host may send to it (endpoint-independent filtering). Inside hosts reach each other by their
//! mappings, too (hairpinning). Packets from outside without a mapping, or to another address, are dropped.
//!
//! Packets from inside renew a mapping; otherwise it expires. If the table or the ports are exhausted, no
//! mapping is removed: the packet is dropped with an ICMP error (RFC 6888, REQ-8). The same happens if its
//! host has reached the limit of mappings for a host (REQ-3), so that one host alone cannot take all
//! mappings. A host that forges the addresses of others is not stopped by that.

mod fragments;
mod packet;
mod ports;

pub(super) use fragments::{Fragments, Key};
pub(super) use packet::{Endpoint, Side, set};

use super::check::Header;
use crate::Reason;
use foldhash::fast::RandomState;
use kpps_frames::ipv4;
use packet::{Flow, Kind, Transport};
use ports::PortPool;
use std::collections::HashMap;
use std::net::Ipv4Addr;

const SECOND_NS: u64 = 1_000_000_000;

/// How long a mapping lasts after the last packet from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// UDP, in ns.
    pub udp_ns: u64,
    /// TCP while established: after packets in both directions, until FIN or RST; in ns.
    pub established_ns: u64,
    /// TCP before and after that, in ns.
    pub transitory_ns: u64,
    /// ICMP queries, in ns.
    pub query_ns: u64,
}

impl Default for Timeouts {
    /// 5 minutes (RFC 4787, REQ-5), 2 hours 4 minutes and 4 minutes (RFC 5382, REQ-5), 60 seconds (RFC 5508,
    /// REQ-2).
    fn default() -> Self {
        Self {
            udp_ns: 300 * SECOND_NS,
            established_ns: 7440 * SECOND_NS,
            transitory_ns: 240 * SECOND_NS,
            query_ns: 60 * SECOND_NS,
        }
    }
}

/// The configuration of address translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// The index of the outside interface.
    pub outside: usize,
    /// The most mappings.
    pub mappings: usize,
    /// The most mappings of one inside host.
    pub per_host: usize,
    /// How long mappings last.
    pub timeouts: Timeouts,
}

impl Nat {
    /// 65,536 mappings, an eighth of them for a single host, with the timeouts of the RFCs.
    pub fn new(outside: usize) -> Self {
        Self { outside, mappings: 65536, per_host: 8192, timeouts: Timeouts::default() }
    }
}

#[derive(Debug)]
struct Mapping {
    inside: Endpoint,
    until_ns: u64,
    /// TCP: the other side has replied; one side has finished.
    answered: bool,
    closing: bool,
}

impl Mapping {
    fn lasts_ns(&self, transport: Transport, timeouts: &Timeouts) -> u64 {
        match transport {
            Transport::Udp => timeouts.udp_ns,
            Transport::Query => timeouts.query_ns,
            Transport::Tcp if self.answered && !self.closing => timeouts.established_ns,
            Transport::Tcp => timeouts.transitory_ns,
        }
    }
}

/// The destination of a packet to the outside address.
pub(super) enum Inward {
    /// The router itself, or the packet is for another address.
    Here,
    /// This inside host.
    To(Endpoint),
    /// Not known before the first fragment of its packet.
    Wait(Key),
}

/// The mappings.
#[derive(Debug)]
pub(super) struct Translator<F> {
    plan: Nat,
    address: Ipv4Addr,
    by_inside: HashMap<(Transport, Endpoint), u16, RandomState>,
    by_outside: HashMap<(Transport, u16), Mapping, RandomState>,
    /// The mappings of each inside host that has some.
    of_host: HashMap<Ipv4Addr, usize, RandomState>,
    /// The ports of UDP and TCP, and the identifiers of ICMP queries.
    ports: [PortPool; 3],
    pub(super) fragments: Fragments<F>,
    sweep_ns: u64,
}

impl<F> Translator<F> {
    pub(super) fn new(plan: Nat, address: Ipv4Addr) -> Self {
        Self {
            plan,
            address,
            by_inside: HashMap::default(),
            by_outside: HashMap::default(),
            of_host: HashMap::default(),
            ports: [PortPool::new(true), PortPool::new(true), PortPool::new(false)],
            fragments: Fragments::default(),
            sweep_ns: 0,
        }
    }

    pub(super) fn mappings(&self) -> usize {
        self.by_outside.len()
    }

    /// Whether one of two interfaces is the outside, and the other is not.
    pub(super) fn is_between(&self, one: usize, other: usize) -> bool {
        (one == self.plan.outside) != (other == self.plan.outside)
    }

    /// Whether the source of a packet is translated: it leaves the inside, or returns there through the
    /// outside address.
    pub(super) fn hides(&self, from: usize, to: usize, inward: bool) -> bool {
        from != self.plan.outside && (to == self.plan.outside || inward)
    }

    /// The destination of a packet that arrived at interface `from`.
    pub(super) fn inward(
        &mut self,
        from: usize,
        header: &Header,
        bytes: &[u8],
        now_ns: u64,
    ) -> Result<Inward, Reason> {
        if header.destination != self.address {
            return if from == self.plan.outside { Err(Reason::NoMapping) } else { Ok(Inward::Here) };
        }
        let packet = ipv4::Packet::new_checked(bytes).map_err(|_| Reason::Malformed)?;
        let key = (header.source, header.destination, packet.protocol(), packet.identification());
        let found = match packet::read(bytes)? {
            Kind::Flow(flow) if flow.transport == Transport::Query && !flow.answers => {
                return Ok(Inward::Here);
            }
            Kind::Flow(flow) => self.answer(&flow, now_ns),
            // The error is about a packet from the outside address.
            Kind::Error(flow) if flow.source.0 == self.address => {
                self.mapping(flow.transport, flow.source.1, now_ns).map(|mapping| mapping.inside)
            }
            Kind::Error(_) => None,
            Kind::LaterFragment => match self.fragments.find(&key) {
                Some(inside) => Some(inside),
                None => return Ok(Inward::Wait(key)),
            },
            Kind::Other if packet.protocol() == ipv4::PROTOCOL_ICMP => return Ok(Inward::Here),
            Kind::Other => None,
        };
        let inside = found.ok_or(Reason::NoMapping)?;
        if packet::is_first_fragment(bytes) {
            self.fragments.know(key, inside, now_ns);
        }
        Ok(Inward::To(inside))
    }

    /// The translated source of a packet from inside; makes a mapping if there is none.
    pub(super) fn outward(&mut self, bytes: &[u8], now_ns: u64) -> Result<Endpoint, Reason> {
        let port = match packet::read(bytes)? {
            Kind::Flow(flow) => self.ask(&flow, now_ns)?,
            // The error is about a packet to an inside host.
            Kind::Error(flow) => {
                *self.by_inside.get(&(flow.transport, flow.destination)).ok_or(Reason::NoMapping)?
            }
            // Only the address changes, and there is only one.
            Kind::LaterFragment => 0,
            Kind::Other => return Err(Reason::NoMapping),
        };
        Ok((self.address, port))
    }

    /// Undoes the translation of a packet.
    pub(super) fn restore(&mut self, from: usize, bytes: &mut [u8], now_ns: u64) {
        let Ok(Kind::Flow(flow)) = packet::read(bytes) else { return };
        let hidden = flow.source.0 == self.address;
        if hidden && let Some(mapping) = self.mapping(flow.transport, flow.source.1, now_ns) {
            set(bytes, Side::Source, mapping.inside);
        }
        // Also from inside, if an inside host reached another by the outside address.
        if (hidden || from == self.plan.outside)
            && let Some(&port) = self.by_inside.get(&(flow.transport, flow.destination))
        {
            set(bytes, Side::Destination, (self.address, port));
        }
    }

    /// A mapping that has not expired.
    fn mapping(&mut self, transport: Transport, port: u16, now_ns: u64) -> Option<&mut Mapping> {
        self.by_outside.get_mut(&(transport, port)).filter(|mapping| now_ns < mapping.until_ns)
    }

    /// The inside host of a packet from outside.
    fn answer(&mut self, flow: &Flow, now_ns: u64) -> Option<Endpoint> {
        let timeouts = self.plan.timeouts;
        let mapping = self.mapping(flow.transport, flow.destination.1, now_ns)?;
        mapping.answered = true;
        if flow.closes() {
            mapping.closing = true;
            // A connection that the inside does not answer expires soon.
            mapping.until_ns = mapping.until_ns.min(now_ns + mapping.lasts_ns(flow.transport, &timeouts));
        }
        Some(mapping.inside)
    }

    /// The outside port of a packet from inside.
    fn ask(&mut self, flow: &Flow, now_ns: u64) -> Result<u16, Reason> {
        let (transport, timeouts) = (flow.transport, self.plan.timeouts);
        let known = self.by_inside.get(&(transport, flow.source)).copied();
        if let Some(port) = known
            && let Some(mapping) = self.mapping(transport, port, now_ns)
        {
            if flow.opens() {
                (mapping.answered, mapping.closing) = (false, false);
            }
            mapping.closing |= flow.closes();
            mapping.until_ns = now_ns.saturating_add(mapping.lasts_ns(transport, &timeouts));
            return Ok(port);
        }
        if let Some(port) = known {
            self.forget(transport, port);
        }
        if flow.answers {
            // There was no query.
            return Err(Reason::NoMapping);
        }
        if self.by_outside.len() >= self.plan.mappings {
            return Err(Reason::TableFull);
        }
        let of_host = self.of_host.get(&flow.source.0).copied().unwrap_or(0);
        if of_host >= self.plan.per_host {
            return Err(Reason::HostFull);
        }
        let port = self.ports[transport as usize].take(flow.source.1).ok_or(Reason::TableFull)?;
        let mut mapping =
            Mapping { inside: flow.source, until_ns: 0, answered: false, closing: flow.closes() };
        mapping.until_ns = now_ns.saturating_add(mapping.lasts_ns(transport, &timeouts));
        self.of_host.insert(flow.source.0, of_host + 1);
        self.by_inside.insert((transport, flow.source), port);
        self.by_outside.insert((transport, port), mapping);
        Ok(port)
    }

    fn forget(&mut self, transport: Transport, port: u16) {
        if let Some(mapping) = self.by_outside.remove(&(transport, port)) {
            self.by_inside.remove(&(transport, mapping.inside));
            self.ports[transport as usize].give(port);
            let host = mapping.inside.0;
            match self.of_host.get_mut(&host) {
                Some(mappings) if *mappings > 1 => *mappings -= 1,
                _ => _ = self.of_host.remove(&host),
            }
        }
    }

    /// Drops expired mappings and packets, once a second; returns fragments whose first one never arrived.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<F> {
        if now_ns < self.sweep_ns {
            return Vec::new();
        }
        self.sweep_ns = now_ns.saturating_add(SECOND_NS);
        let old: Vec<_> = self
            .by_outside
            .iter()
            .filter(|(_, mapping)| now_ns >= mapping.until_ns)
            .map(|(&key, _)| key)
            .collect();
        for (transport, port) in old {
            self.forget(transport, port);
        }
        self.fragments.due(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_expires_leaves_nothing_behind() {
        let mut nat = Translator::<Vec<u8>>::new(Nat::new(1), Ipv4Addr::new(192, 0, 2, 1));
        for (host, port) in [(2, 1), (2, 2), (3, 1)] {
            let source = (Ipv4Addr::new(10, 0, 0, host), port);
            let destination = (Ipv4Addr::new(192, 0, 2, 9), 53);
            let flow = Flow { transport: Transport::Udp, source, destination, flags: 0, answers: false };
            assert!(nat.ask(&flow, 0).is_ok());
        }
        assert_eq!((nat.by_inside.len(), nat.by_outside.len(), nat.of_host.len()), (3, 3, 2));
        nat.due(Timeouts::default().udp_ns);
        assert_eq!((nat.by_inside.len(), nat.by_outside.len(), nat.of_host.len()), (0, 0, 0));
    }
}
