//! The IPv4 router between ports and their VLANs (RFC 1812, without options, fragmentation, redirects and
//! routing protocols).
//!
//! It is composed like Click's router: `Classifier` → `CheckIPHeader` → `RadixIPLookup` → `DecIPTTL` →
//! `ARPQuerier`, with `ARPResponder`, `ICMPPingResponder` and `ICMPError`. IP options pass unread. A packet
//! longer than the MTU of the next link is dropped with an ICMP error, not fragmented. With [`Nat`],
//! addresses are translated between `RadixIPLookup` and `DecIPTTL`.

mod arp;
mod check;
mod icmp;
mod links;
mod lookup;
mod nat;

pub use nat::{Nat, Timeouts};

use crate::{App, Ledger, Outputs, Reason, Resize};
use arp::{Arp, Claim, Held, Neighbour};
use check::{Destination, class_of};
use icmp::{Icmp, Trouble};
use ipnet::Ipv4Net;
use kpps_frames::arp::Message;
use kpps_frames::{Mac, ethernet, ipv4};
use links::Links;
use lookup::{Hop, RadixIpLookup};
use nat::{Inward, Side, Translator};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Bytes of an Ethernet header without VLAN tag.
const ETHERNET: usize = ethernet::HEADER_BYTES;

/// One of the router's interfaces: a port, or a VLAN on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The port.
    pub port: usize,
    /// Its VLAN, 1 to 4094; `None`: untagged and priority-tagged frames.
    pub vlan: Option<u16>,
    /// Its station address.
    pub mac: Mac,
    /// Its address and prefix length.
    pub net: Ipv4Net,
    /// The longest packet that it sends, in bytes from the IP header on.
    pub mtu: u16,
}

/// A route to a network that no interface is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub to: Ipv4Net,
    /// The next router, in the network of an interface.
    pub via: Ipv4Addr,
}

impl FromStr for Route {
    type Err = String;

    /// `10.9.0.0/16=10.0.1.2`: network and next router.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('=')
            .and_then(|(to, via)| Some(Self { to: to.parse().ok()?, via: via.parse().ok()? }));
        parsed.ok_or_else(|| format!("'{text}' is not a route like 10.9.0.0/16=10.0.1.2"))
    }
}

/// Why a router's configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misconfigured {
    /// An address that no interface can have.
    Address(Ipv4Net),
    /// No VLAN has this number.
    Vlan(u16),
    /// Two interfaces have the same port and VLAN.
    Shared(Ipv4Net, Ipv4Net),
    /// Two interfaces are in one network.
    Overlap(Ipv4Net, Ipv4Net),
    /// Two routes lead to one network.
    Twice(Ipv4Net),
    /// No interface is in the network of a next router, or of a neighbour.
    Unreachable(Ipv4Addr),
    /// The outside of a NAT is no interface.
    Outside(usize),
    /// A NAT without mappings translates nothing.
    NoMappings,
}

impl fmt::Display for Misconfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(net) => write!(f, "{net} is no address that a router can have"),
            Self::Vlan(id) => write!(f, "{id} is no VLAN: 1 to 4094"),
            Self::Shared(a, b) => write!(f, "{a} and {b} have the same port and VLAN"),
            Self::Overlap(a, b) => {
                write!(f, "the networks of {a} and {b} overlap: each interface needs its own")
            }
            Self::Twice(net) => write!(f, "there are two routes to {net}"),
            Self::Unreachable(via) => write!(f, "no interface is in the network of {via}"),
            Self::Outside(index) => write!(f, "there is no interface {index} to be the outside"),
            Self::NoMappings => f.write_str("a NAT with 0 mappings translates nothing: give 1 or more"),
        }
    }
}

impl std::error::Error for Misconfigured {}

/// The origin of a packet, which gets its ICMP errors.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// An interface.
    Interface(usize),
    /// The router itself, which gets none.
    Here,
}

/// The decision about a frame.
enum Verdict {
    /// Drop it.
    End(Reason),
    /// Drop it with an ICMP error to its sender.
    Tell(Reason, Trouble),
    /// It has become a reply: send it by its own interface to this station.
    Reply(Mac),
    /// Send it by the hop's interface, once the next station's address is known.
    Forward(Hop),
    /// Hold it until the first fragment of its packet arrives.
    Wait(nat::Key),
}

/// ARP messages of other stations that claim an address of the router (RFC 5227, 2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// How many came.
    pub messages: u64,
    /// The address and the station of the last one.
    pub last: Option<(Ipv4Addr, Mac)>,
}

/// A router for IPv4, optionally with address translation.
#[derive(Debug)]
pub struct Router<F> {
    interfaces: Vec<Interface>,
    links: Links,
    routes: RadixIpLookup,
    arp: Arp<F>,
    /// The claims of each interface.
    claims: Vec<Claim>,
    conflicts: Conflicts,
    icmp: Icmp,
    nat: Option<Translator<F>>,
    ledger: Ledger,
}

impl<F: Resize> Router<F> {
    /// A router with these interfaces, and with routes beyond the interfaces' own networks.
    ///
    /// # Errors
    /// [`Misconfigured`].
    pub fn new(interfaces: Vec<Interface>, routes: &[Route]) -> Result<Self, Misconfigured> {
        let table = RadixIpLookup::new(&interfaces, routes)?;
        let links = Links::new(&interfaces)?;
        Ok(Self {
            claims: interfaces.iter().map(|_| Claim::default()).collect(),
            conflicts: Conflicts::default(),
            interfaces,
            links,
            routes: table,
            arp: Arp::default(),
            icmp: Icmp::default(),
            nat: None,
            ledger: Ledger::default(),
        })
    }

    /// Adds network address and port translation.
    ///
    /// # Errors
    /// [`Misconfigured::Outside`].
    pub fn with_nat(mut self, plan: Nat) -> Result<Self, Misconfigured> {
        let outside = self.interfaces.get(plan.outside).ok_or(Misconfigured::Outside(plan.outside))?;
        if plan.mappings.min(plan.per_host) == 0 {
            return Err(Misconfigured::NoMappings);
        }
        self.nat = Some(Translator::new(plan, outside.net.addr()));
        Ok(self)
    }

    /// Adds a neighbour with a configured station address, which is never requested and never dropped.
    ///
    /// # Errors
    /// [`Misconfigured::Unreachable`].
    pub fn with_neighbour(mut self, address: Ipv4Addr, mac: Mac) -> Result<Self, Misconfigured> {
        let hop = self.routes.find(address).filter(|hop| hop.next == address && !self.is_here(address));
        let hop = hop.ok_or(Misconfigured::Unreachable(address))?;
        self.arp.fix(address, hop.interface, mac);
        Ok(self)
    }

    /// The number of the NAT's mappings, including some that have just expired.
    pub fn mappings(&self) -> usize {
        self.nat.as_ref().map_or(0, Translator::mappings)
    }

    /// ICMP errors (sent, suppressed by the rate limit).
    pub fn icmp_errors(&self) -> (u64, u64) {
        (self.icmp.sent, self.icmp.limited)
    }

    /// Next hops whose station address is known.
    pub fn neighbours(&self) -> usize {
        self.arp.known()
    }

    /// The claims of other stations to its addresses.
    pub fn conflicts(&self) -> Conflicts {
        self.conflicts
    }

    /// The router's state and the messages that it has sent, in one line.
    pub fn in_words(&self) -> String {
        let mappings =
            if self.nat.is_some() { format!("{} mappings; ", self.mappings()) } else { String::new() };
        let (known, (sent, limited)) = (self.neighbours(), self.icmp_errors());
        let conflicts = match self.conflicts {
            Conflicts { messages, last: Some((address, mac)) } => {
                format!("; address conflicts: {messages} ARP messages, the last from {mac} as {address}")
            }
            _ => String::new(),
        };
        format!(
            "{mappings}{known} neighbours known; ICMP errors: {sent} sent, {limited} suppressed by the rate limit{conflicts}"
        )
    }

    /// Click's `Classifier`, and the elements behind each of its outputs.
    fn decide(
        &mut self,
        port: usize,
        frame: &mut [u8],
        now_ns: u64,
        out: &mut impl Outputs<F>,
    ) -> Result<(usize, Verdict), Reason> {
        let mut view = ethernet::Frame::new_checked(frame).map_err(|_| Reason::Malformed)?;
        let from = self.links.find(port, view.vlan())?;
        let interface = *self.interfaces.get(from).ok_or(Reason::NoPort)?;
        let (to, sender) = (view.destination(), view.source());
        if to != interface.mac && !to.is_multicast() {
            return Err(Reason::OtherStation);
        }
        if sender.is_multicast() {
            return Err(Reason::BadSource);
        }
        let kind = view.ethertype();
        let payload = view.payload_mut();
        let verdict = match kind {
            ethernet::TYPE_IPV4 => self.decide_ip(from, payload, (sender, to.is_multicast()), now_ns)?,
            ethernet::TYPE_ARP => self.take_arp(from, interface, payload, now_ns, out)?,
            _ => return Err(Reason::OtherProtocol),
        };
        Ok((from, verdict))
    }

    fn decide_ip(
        &mut self,
        from: usize,
        bytes: &mut [u8],
        (sender, to_group): (Mac, bool),
        now_ns: u64,
    ) -> Result<Verdict, Reason> {
        let header = check::ip_header(bytes)?;
        if self.is_broadcast(header.source) || self.is_here(header.source) {
            return Err(Reason::BadSource);
        }
        if to_group || class_of(header.destination) == Destination::Never {
            return Err(Reason::NotForwarded);
        }
        let inside =
            match self.nat.as_mut().map(|nat| nat.inward(from, &header, bytes, now_ns)).transpose()? {
                None | Some(Inward::Here) => None,
                Some(Inward::To(inside)) => Some(inside),
                Some(Inward::Wait(key)) => return Ok(Verdict::Wait(key)),
            };
        // Each side of a NAT has its own addresses. A reply to an address of the other side would go there.
        if let Some(nat) = &self.nat
            && let Some(back) = self.routes.find(header.source)
            && nat.is_between(back.interface, from)
        {
            return Err(Reason::BadSource);
        }
        let destination = inside.map_or(header.destination, |(address, _)| address);
        if self.is_here(destination) {
            return take_local(sender, bytes);
        }
        if self.is_broadcast(destination) {
            return Err(Reason::NotForwarded);
        }
        let Some(hop) = self.routes.find(destination) else {
            return Ok(Verdict::Tell(Reason::NoRoute, Trouble::NetUnreachable));
        };
        if header.ttl <= 1 {
            return Ok(Verdict::Tell(Reason::Expired, Trouble::TimeExceeded));
        }
        let mtu = self.interfaces.get(hop.interface).map_or(u16::MAX, |interface| interface.mtu);
        if header.total_bytes > mtu {
            return Ok(if header.dont_fragment {
                Verdict::Tell(Reason::TooBig, Trouble::TooBig(mtu))
            } else {
                Verdict::End(Reason::TooBig)
            });
        }
        if let Some(nat) = &mut self.nat
            && nat.hides(from, hop.interface, inside.is_some())
        {
            match nat.outward(bytes, now_ns) {
                Ok(outside) => nat::set(bytes, Side::Source, outside),
                Err(full @ (Reason::TableFull | Reason::HostFull)) => {
                    return Ok(Verdict::Tell(full, Trouble::HostUnreachable));
                }
                Err(reason) => return Err(reason),
            }
        }
        if let Some(inside) = inside {
            nat::set(bytes, Side::Destination, inside);
        }
        // Checked above: it cannot fail.
        if let Ok(mut packet) = ipv4::Packet::new_checked(bytes) {
            packet.decrement_ttl();
        }
        Ok(Verdict::Forward(hop))
    }

    fn take_arp(
        &mut self,
        from: usize,
        interface: Interface,
        bytes: &mut [u8],
        now_ns: u64,
        out: &mut impl Outputs<F>,
    ) -> Result<Verdict, Reason> {
        let message = Message::parse(bytes).map_err(|_| Reason::Malformed)?;
        if message.sender_mac.is_multicast() {
            return Err(Reason::BadSource);
        }
        let for_us = message.target == interface.net.addr();
        // A probe has no sender that could be learned (RFC 5227, 1.1).
        if !(message.is_request() && message.sender.is_unspecified()) {
            self.take_sender(from, interface, &message, now_ns, out)?;
            for held in self.arp.learn(message.sender, from, message.sender_mac, for_us, now_ns) {
                self.emit(from, message.sender_mac, held.frame, out);
            }
        }
        if for_us && message.is_request() {
            arp::respond(bytes, interface.mac, &message);
            return Ok(Verdict::Reply(message.sender_mac));
        }
        Err(Reason::Local)
    }

    /// Whether the sender of an ARP message can be a neighbour. A station that claims an address of the
    /// router cannot: the router defends its address.
    fn take_sender(
        &mut self,
        from: usize,
        interface: Interface,
        message: &Message,
        now_ns: u64,
        out: &mut impl Outputs<F>,
    ) -> Result<(), Reason> {
        let Message { sender, sender_mac, .. } = *message;
        let on_link = interface.net.contains(&sender) && !self.is_broadcast(sender);
        if on_link && !self.is_here(sender) {
            return Ok(());
        }
        let is_ours = self.interfaces.iter().any(|interface| interface.mac == sender_mac);
        if sender == interface.net.addr() && !is_ours {
            self.conflicts =
                Conflicts { messages: self.conflicts.messages + 1, last: Some((sender, sender_mac)) };
            if self.claims.get_mut(from).is_some_and(|claim| claim.defends(now_ns)) {
                self.ask(Hop { interface: from, next: sender }, out);
            }
        }
        Err(Reason::BadSource)
    }

    /// Sends the announcements of its addresses that are due.
    fn announce(&mut self, now_ns: u64, out: &mut impl Outputs<F>) {
        for index in 0..self.interfaces.len() {
            if self.claims.get_mut(index).is_some_and(|claim| claim.is_due(now_ns))
                && let Some(interface) = self.interfaces.get(index)
            {
                self.ask(Hop { interface: index, next: interface.net.addr() }, out);
            }
        }
    }

    /// Takes a frame that arrived at a port. Returns it if it ends here.
    #[inline]
    fn route(&mut self, port: usize, mut frame: F, now_ns: u64, out: &mut impl Outputs<F>) -> Option<F> {
        let (reason, frame) = match self.decide(port, frame.as_mut(), now_ns, out) {
            Ok((from, Verdict::Forward(hop))) => {
                match self.forward(Origin::Interface(from), hop, frame, now_ns, out) {
                    Ok(()) => return None,
                    Err(refused) => refused,
                }
            }
            Ok((from, Verdict::Reply(to))) => {
                self.emit(from, to, frame, out);
                return None;
            }
            Ok((_, Verdict::Wait(key))) => {
                let nat = self.nat.as_mut().map(|nat| &mut nat.fragments);
                match nat.map(|fragments| fragments.hold(key, port, frame, now_ns)) {
                    Some(Err(frame)) => (Reason::QueueFull, frame),
                    _ => return None,
                }
            }
            Ok((from, Verdict::Tell(reason, trouble))) => {
                self.tell(from, trouble, frame.as_ref(), now_ns, out);
                (reason, frame)
            }
            Ok((_, Verdict::End(reason))) | Err(reason) => (reason, frame),
        };
        self.ledger.end(reason);
        Some(frame)
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

    /// Sends a frame by an interface to the next station.
    fn emit(&mut self, by: usize, to: Mac, mut frame: F, out: &mut impl Outputs<F>) {
        let Some(interface) = self.interfaces.get(by) else { return out.discard(frame) };
        if !links::tag(&mut frame, interface.vlan) {
            self.ledger.end(Reason::TooBig);
            return out.discard(frame);
        }
        if let Ok(mut view) = ethernet::Frame::new_checked(frame.as_mut()) {
            view.set_destination(to);
            view.set_source(interface.mac);
        }
        self.ledger.sent += 1;
        out.send(interface.port, frame);
    }

    /// Sends a packet to its next hop, or queues it until the station's address is known.
    fn forward(
        &mut self,
        origin: Origin,
        hop: Hop,
        frame: F,
        now_ns: u64,
        out: &mut impl Outputs<F>,
    ) -> Result<(), (Reason, F)> {
        match self.arp.find(hop.next, now_ns) {
            Neighbour::Known(mac) => self.emit(hop.interface, mac, frame, out),
            Neighbour::Stale(mac) => {
                self.ask(hop, out);
                self.emit(hop.interface, mac, frame, out);
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

    /// Sends an ARP request for the next hop; for the interface's own address that is an announcement.
    fn ask(&mut self, hop: Hop, out: &mut impl Outputs<F>) {
        let Some(interface) = self.interfaces.get(hop.interface) else { return };
        let question = arp::question(interface.mac, interface.net.addr(), hop.next);
        self.ledger.made += 1;
        match out.make(&question) {
            Some(frame) => self.emit(hop.interface, Mac::BROADCAST, frame, out),
            None => self.ledger.end(Reason::NoBuffer),
        }
    }

    /// Click's `ICMPError`: sends an error to the sender of `frame`, if one is allowed.
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

/// A packet for the router itself: an echo is answered, anything else refused.
fn take_local(sender: Mac, bytes: &mut [u8]) -> Result<Verdict, Reason> {
    let protocol = ipv4::Packet::new_checked(&*bytes).map_err(|_| Reason::Malformed)?.protocol();
    match protocol {
        ipv4::PROTOCOL_ICMP => {
            icmp::answer_echo(bytes)?;
            Ok(Verdict::Reply(sender))
        }
        ipv4::PROTOCOL_UDP => Ok(Verdict::Tell(Reason::Local, Trouble::PortUnreachable)),
        _ => Ok(Verdict::Tell(Reason::Local, Trouble::ProtocolUnreachable)),
    }
}

impl<F: Resize> App<F> for Router<F> {
    #[inline]
    fn push(&mut self, from: usize, frame: F, now_ns: u64, out: &mut impl Outputs<F>) -> Option<F> {
        self.ledger.received += 1;
        let ended = self.route(from, frame, now_ns, out);
        // Fragments that waited for this one.
        while let Some((port, frame)) = self.nat.as_mut().and_then(|nat| nat.fragments.next_ready()) {
            if let Some(frame) = self.route(port, frame, now_ns, out) {
                out.discard(frame);
            }
        }
        ended
    }

    fn start(&mut self, now_ns: u64, out: &mut impl Outputs<F>) {
        self.claims.iter_mut().for_each(|claim| claim.begin(now_ns));
        self.announce(now_ns, out);
    }

    fn tick(&mut self, now_ns: u64, out: &mut impl Outputs<F>) {
        self.announce(now_ns, out);
        let due = self.arp.due(now_ns);
        for hop in due.ask {
            self.ask(hop, out);
        }
        for mut held in due.failed {
            self.ledger.end(Reason::NoNeighbour);
            if let Origin::Interface(from) = held.origin {
                if let (Some(nat), Ok(mut view)) =
                    (&mut self.nat, ethernet::Frame::new_checked(held.frame.as_mut()))
                {
                    // The error quotes the packet as its sender sent it.
                    nat.restore(from, view.payload_mut(), now_ns);
                }
                self.tell(from, Trouble::HostUnreachable, held.frame.as_ref(), now_ns, out);
            }
            out.discard(held.frame);
        }
        for frame in self.nat.as_mut().map(|nat| nat.due(now_ns)).unwrap_or_default() {
            self.ledger.end(Reason::NoFirstFragment);
            out.discard(frame);
        }
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger;
        ledger.held = self.arp.held() + self.nat.as_ref().map_or(0, |nat| nat.fragments.held());
        ledger
    }
}
