//! The IPv4 router (RFC 1812, without options, fragmentation, redirects and routing protocols).
//!
//! Composed as Click's router is: `Classifier` → `CheckIPHeader` → `RadixIPLookup` → `DecIPTTL` → `ARPQuerier`, with
//! `ARPResponder`, `ICMPPingResponder` and `ICMPError` beside them. IP options are passed on unread. A packet that is
//! longer than the way on allows is not cut up: it ends here, with an ICMP error.

mod arp;
mod check;
mod icmp;
mod lookup;

use crate::{App, Ledger, Outputs, Reason};
use arp::{Arp, Held, Neighbour};
use check::{Destination, class_of};
use icmp::{Icmp, Trouble};
use ipnet::Ipv4Net;
use kpps_frames::{Mac, ethernet, ipv4};
use lookup::{Hop, RadixIpLookup};
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes of an Ethernet header.
const ETHERNET: usize = ethernet::HEADER_BYTES;

/// One of the router's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its station address.
    pub mac: Mac,
    /// Its address, and how many bits of it are the network's.
    pub net: Ipv4Net,
    /// The longest packet that it sends, in bytes from the IP header on.
    pub mtu: u16,
}

/// A way to a network that no interface is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub to: Ipv4Net,
    /// The next router, in the network of an interface.
    pub via: Ipv4Addr,
}

/// Why there is no such router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misconfigured {
    /// An address that no interface can have.
    Address(Ipv4Net),
    /// Two interfaces are in one network.
    Overlap(Ipv4Net, Ipv4Net),
    /// Two routes lead to one network.
    Twice(Ipv4Net),
    /// No interface is in the network of a next router.
    Unreachable(Ipv4Addr),
}

impl fmt::Display for Misconfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(net) => write!(f, "{net} is no address that a router can have"),
            Self::Overlap(a, b) => write!(f, "the networks of {a} and {b} overlap: each port needs its own"),
            Self::Twice(net) => write!(f, "there are two routes to {net}"),
            Self::Unreachable(via) => write!(f, "the next router {via} is in no port's network"),
        }
    }
}

impl std::error::Error for Misconfigured {}

/// Where a packet came from: who is to be told when something is wrong with it.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A port.
    Port(usize),
    /// The router itself, which tells nobody.
    Here,
}

/// How a frame's way goes on.
enum Verdict {
    /// It ends.
    End(Reason),
    /// It ends, and its sender is told.
    Tell(Reason, Trouble),
    /// It leaves by this port as it is.
    Reply(usize),
    /// It leaves by the hop's port, once the next station's address is known.
    Forward(Hop),
}

/// A router for IPv4.
#[derive(Debug)]
pub struct Router<F> {
    interfaces: Vec<Interface>,
    routes: RadixIpLookup,
    arp: Arp<F>,
    icmp: Icmp,
    ledger: Ledger,
}

impl<F: AsRef<[u8]> + AsMut<[u8]>> Router<F> {
    /// A router with these interfaces, port 0 first, and routes beside those to the interfaces' networks.
    ///
    /// # Errors
    /// [`Misconfigured`].
    pub fn new(interfaces: Vec<Interface>, routes: &[Route]) -> Result<Self, Misconfigured> {
        let table = RadixIpLookup::new(&interfaces, routes)?;
        Ok(Self {
            interfaces,
            routes: table,
            arp: Arp::default(),
            icmp: Icmp::default(),
            ledger: Ledger::default(),
        })
    }

    /// ICMP errors sent, and those not sent because there were too many.
    pub fn icmp_errors(&self) -> (u64, u64) {
        (self.icmp.sent, self.icmp.limited)
    }

    /// Next hops whose station address is known.
    pub fn neighbours(&self) -> usize {
        self.arp.known()
    }

    /// Click's `Classifier`, and what stands behind each of its outputs.
    fn decide(
        &mut self,
        from: usize,
        frame: &mut [u8],
        now_ns: u64,
        out: &mut impl Outputs<F>,
    ) -> Result<Verdict, Reason> {
        let interface = *self.interfaces.get(from).ok_or(Reason::NoPort)?;
        let view = ethernet::Frame::new_checked(&*frame).map_err(|_| Reason::Malformed)?;
        let to = view.destination();
        if to != interface.mac && !to.is_multicast() {
            return Err(Reason::OtherStation);
        }
        if view.source().is_multicast() {
            return Err(Reason::BadSource);
        }
        match (view.vlan(), view.ethertype()) {
            (None, ethernet::TYPE_IPV4) => self.decide_ip(from, interface, frame, to.is_multicast()),
            (None, ethernet::TYPE_ARP) => self.take_arp(from, interface, frame, now_ns, out),
            _ => Err(Reason::OtherProtocol),
        }
    }

    fn decide_ip(
        &mut self,
        from: usize,
        interface: Interface,
        frame: &mut [u8],
        to_group: bool,
    ) -> Result<Verdict, Reason> {
        let header = check::ip_header(frame.get(ETHERNET..).ok_or(Reason::Malformed)?)?;
        if self.is_broadcast(header.source) || self.is_here(header.source) {
            return Err(Reason::BadSource);
        }
        let here = self.is_here(header.destination);
        if to_group || class_of(header.destination) == Destination::Never {
            return Err(Reason::NotForwarded);
        }
        if here {
            return self.take_local(from, frame);
        }
        if self.is_broadcast(header.destination) {
            return Err(Reason::NotForwarded);
        }
        let Some(hop) = self.routes.find(header.destination) else {
            return Ok(Verdict::Tell(Reason::NoRoute, Trouble::NetUnreachable));
        };
        if header.ttl <= 1 {
            return Ok(Verdict::Tell(Reason::Expired, Trouble::TimeExceeded));
        }
        let mtu = self.interfaces.get(hop.port).unwrap_or(&interface).mtu;
        if header.total_bytes > mtu {
            return Ok(if header.dont_fragment {
                Verdict::Tell(Reason::TooBig, Trouble::TooBig(mtu))
            } else {
                Verdict::End(Reason::TooBig)
            });
        }
        // Checked above: both cannot fail.
        if let Some(Ok(mut packet)) = frame.get_mut(ETHERNET..).map(ipv4::Packet::new_checked) {
            packet.decrement_ttl();
        }
        Ok(Verdict::Forward(hop))
    }

    /// A packet for the router itself: an echo is answered, anything else refused.
    fn take_local(&mut self, from: usize, frame: &mut [u8]) -> Result<Verdict, Reason> {
        let bytes = frame.get_mut(ETHERNET..).ok_or(Reason::Malformed)?;
        let protocol = ipv4::Packet::new_checked(&*bytes).map_err(|_| Reason::Malformed)?.protocol();
        match protocol {
            icmp::PROTOCOL => {
                icmp::answer_echo(bytes)?;
                let mut view = ethernet::Frame::new_checked(frame).map_err(|_| Reason::Malformed)?;
                let (ours, theirs) = (view.destination(), view.source());
                view.set_destination(theirs);
                view.set_source(ours);
                Ok(Verdict::Reply(from))
            }
            ipv4::PROTOCOL_UDP => Ok(Verdict::Tell(Reason::Local, Trouble::PortUnreachable)),
            _ => Ok(Verdict::Tell(Reason::Local, Trouble::ProtocolUnreachable)),
        }
    }

    fn take_arp(
        &mut self,
        from: usize,
        interface: Interface,
        frame: &mut [u8],
        now_ns: u64,
        out: &mut impl Outputs<F>,
    ) -> Result<Verdict, Reason> {
        let message = arp::parse(frame).ok_or(Reason::Malformed)?;
        let on_link = interface.net.contains(&message.sender) && !self.is_broadcast(message.sender);
        if !on_link || message.sender_mac.is_multicast() || self.is_here(message.sender) {
            return Err(Reason::BadSource);
        }
        let for_us = message.target == interface.net.addr();
        for held in self.arp.learn(message.sender, from, message.sender_mac, for_us, now_ns) {
            self.emit(from, message.sender_mac, held.frame, out);
        }
        if for_us && message.is_request {
            arp::respond(frame, interface.mac, interface.net.addr(), &message);
            return Ok(Verdict::Reply(from));
        }
        Err(Reason::Local)
    }

    fn is_here(&self, address: Ipv4Addr) -> bool {
        self.interfaces.iter().any(|interface| interface.net.addr() == address)
    }

    /// Whether this is the broadcast address, or the address, of a network that an interface is in.
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.interfaces.iter().any(|interface| {
            let net = interface.net;
            net.prefix_len() < 31 && (net.broadcast() == address || net.network() == address)
        })
    }

    /// Gives a frame to a port, addressed to the next station.
    fn emit(&mut self, port: usize, to: Mac, mut frame: F, out: &mut impl Outputs<F>) {
        if let (Some(interface), Ok(mut view)) =
            (self.interfaces.get(port), ethernet::Frame::new_checked(frame.as_mut()))
        {
            view.set_destination(to);
            view.set_source(interface.mac);
        }
        self.ledger.sent += 1;
        out.send(port, frame);
    }

    /// Sends a packet to its next hop: at once if the station is known, otherwise it waits for it.
    fn forward(
        &mut self,
        origin: Origin,
        hop: Hop,
        frame: F,
        now_ns: u64,
        out: &mut impl Outputs<F>,
    ) -> Result<(), (Reason, F)> {
        match self.arp.find(hop.next, now_ns) {
            Neighbour::Known(mac) => self.emit(hop.port, mac, frame, out),
            Neighbour::Stale(mac) => {
                self.ask(hop, out);
                self.emit(hop.port, mac, frame, out);
            }
            Neighbour::Unknown => {
                let (must_ask, displaced) =
                    self.arp.hold(hop, Held { frame, origin }, now_ns).map_err(|f| (Reason::QueueFull, f))?;
                if let Some(old) = displaced {
                    self.ledger.end(Reason::QueueFull);
                    out.discard(old.frame);
                }
                if must_ask {
                    self.ask(hop, out);
                }
            }
        }
        Ok(())
    }

    /// Asks who has the next hop's address.
    fn ask(&mut self, hop: Hop, out: &mut impl Outputs<F>) {
        let Some(interface) = self.interfaces.get(hop.port) else { return };
        let question = arp::question(interface.mac, interface.net.addr(), hop.next);
        self.ledger.made += 1;
        match out.make(&question) {
            Some(frame) => {
                self.ledger.sent += 1;
                out.send(hop.port, frame);
            }
            None => self.ledger.end(Reason::NoBuffer),
        }
    }

    /// Click's `ICMPError`: tells the sender of `frame`, unless that must not be.
    fn tell(&mut self, from: usize, trouble: Trouble, frame: &[u8], now_ns: u64, out: &mut impl Outputs<F>) {
        let Some(interface) = self.interfaces.get(from) else { return };
        let Some((error, to)) = icmp::error(interface.net.addr(), trouble, frame) else { return };
        let Some(hop) = self.routes.find(to) else { return };
        if self.is_here(to) || !self.icmp.allows(now_ns) {
            return;
        }
        self.ledger.made += 1;
        let Some(answer) = out.make(error.bytes()) else {
            self.ledger.end(Reason::NoBuffer);
            return;
        };
        self.icmp.sent += 1;
        if let Err((reason, answer)) = self.forward(Origin::Here, hop, answer, now_ns, out) {
            self.ledger.end(reason);
            out.discard(answer);
        }
    }
}

impl<F: AsRef<[u8]> + AsMut<[u8]>> App<F> for Router<F> {
    #[inline]
    fn push(&mut self, from: usize, mut frame: F, now_ns: u64, out: &mut impl Outputs<F>) -> Option<F> {
        self.ledger.received += 1;
        let verdict = self.decide(from, frame.as_mut(), now_ns, out).unwrap_or_else(Verdict::End);
        let (reason, frame) = match verdict {
            Verdict::Forward(hop) => match self.forward(Origin::Port(from), hop, frame, now_ns, out) {
                Ok(()) => return None,
                Err(refused) => refused,
            },
            Verdict::Reply(port) => {
                self.ledger.sent += 1;
                out.send(port, frame);
                return None;
            }
            Verdict::Tell(reason, trouble) => {
                self.tell(from, trouble, frame.as_ref(), now_ns, out);
                (reason, frame)
            }
            Verdict::End(reason) => (reason, frame),
        };
        self.ledger.end(reason);
        Some(frame)
    }

    fn tick(&mut self, now_ns: u64, out: &mut impl Outputs<F>) {
        let due = self.arp.due(now_ns);
        for hop in due.ask {
            self.ask(hop, out);
        }
        for held in due.failed {
            self.ledger.end(Reason::NoNeighbour);
            if let Origin::Port(from) = held.origin {
                self.tell(from, Trouble::HostUnreachable, held.frame.as_ref(), now_ns, out);
            }
            out.discard(held.frame);
        }
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger;
        ledger.held = self.arp.held();
        ledger
    }
}
