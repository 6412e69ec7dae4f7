//! ARP (RFC 826): Click's `ARPResponder` and `ARPQuerier`.
//!
//! A neighbour can be configured. Otherwise it becomes *known* by an ARP message, later *stale*, when it is
//! still used but requested again, and it is dropped when it does not reply. Packets to an unknown neighbour
//! wait. The numbers of neighbours and of waiting packets are bounded, so a network scan cannot take all
//! buffers.
//!
//! The router's own addresses are configured, and others rely on them. So it uses them from the first frame
//! on and keeps them (RFC 5227, 2.4 (c)): it announces them at its start, answers probes for them, and
//! defends them. It sends no probes before: these take up to 7 s, in which a router must not forward.

use super::{ETHERNET, Origin, lookup::Hop};
use foldhash::fast::RandomState;
use kpps_frames::arp::Message;
use kpps_frames::{Mac, ethernet};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

/// Bytes of a frame with a message.
const FRAME: usize = 60;

/// How long a neighbour is used without another request, in ns.
const FRESH_NS: u64 = 30_000_000_000;
/// When a neighbour that does not reply is dropped, in ns.
const FORGET_NS: u64 = 60_000_000_000;
/// The least time between requests for one neighbour, in ns (RFC 1122 2.3.2.1).
const ASK_NS: u64 = 1_000_000_000;
/// Requests before an unknown neighbour counts as unreachable.
const QUESTIONS: u8 = 3;
/// The most neighbours.
const NEIGHBOURS: usize = 1024;
/// The most unknown neighbours at a time, so that a scan leaves room for those that reply.
const WANTED: usize = 256;
/// The most packets that wait for one neighbour.
const QUEUE: usize = 4;

/// How often an address is announced at the start, and the time between two announcements in ns (RFC 5227,
/// 1.1: `ANNOUNCE_NUM`, `ANNOUNCE_INTERVAL`).
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_NS: u64 = 2_000_000_000;
/// A conflict within this time after another one is not answered, in ns (`DEFEND_INTERVAL`): two routers with
/// one address would answer each other for ever.
const DEFEND_NS: u64 = 10_000_000_000;

/// An interface's claim to its address (RFC 5227).
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// Announcements still to send, and when the next one is due.
    left: u8,
    next_ns: u64,
    /// The time of the last conflict.
    conflict_ns: Option<u64>,
}

impl Claim {
    /// The announcements begin now.
    pub(super) fn begin(&mut self, now_ns: u64) {
        (self.left, self.next_ns) = (ANNOUNCEMENTS, now_ns);
    }

    /// Whether to announce the address now.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.left > 0 && now_ns >= self.next_ns;
        if is_due {
            (self.left, self.next_ns) = (self.left - 1, now_ns + ANNOUNCE_NS);
        }
        is_due
    }

    /// Another station has used the address. Returns whether to defend it by an announcement.
    pub(super) fn defends(&mut self, now_ns: u64) -> bool {
        let last = self.conflict_ns.replace(now_ns);
        last.is_none_or(|last| now_ns.saturating_sub(last) >= DEFEND_NS)
    }
}

/// Turns a request, given as a frame's payload, into its reply.
pub(super) fn respond(payload: &mut [u8], mac: Mac, request: &Message) {
    if let Some(message) = payload.first_chunk_mut() {
        *message = request.reply(mac).to_bytes();
    }
}

/// The broadcast request for `wanted`, without its station addresses. A request for the own address announces
/// it (RFC 5227, 2.3).
pub(super) fn question(mac: Mac, address: Ipv4Addr, wanted: Ipv4Addr) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[12..ETHERNET].copy_from_slice(&ethernet::TYPE_ARP.to_be_bytes());
    if let Some(message) = frame[ETHERNET..].first_chunk_mut() {
        *message = Message::request(mac, address, wanted).to_bytes();
    }
    frame
}

/// A packet that waits for its neighbour.
#[derive(Debug)]
pub(super) struct Held<F> {
    pub(super) frame: F,
    pub(super) origin: Origin,
}

#[derive(Debug)]
enum State<F> {
    /// Configured.
    Fixed(Mac),
    /// Known: the times of its last message and of the last request for it.
    Known { mac: Mac, heard_ns: u64, requested_ns: u64 },
    /// Unknown: waiting packets, the time of the next request, and the number of requests so far.
    Wanted { queue: VecDeque<Held<F>>, next_ns: u64, requests: u8 },
}

#[derive(Debug)]
struct Entry<F> {
    interface: usize,
    state: State<F>,
}

/// The state of a neighbour.
pub(super) enum Neighbour {
    /// Send to this address.
    Known(Mac),
    /// Send to this address, and request it again.
    Stale(Mac),
    /// Unknown: hold packets for it.
    Unknown,
}

/// Expired timeouts.
pub(super) struct Due<F> {
    /// Neighbours to request again.
    pub(super) ask: Vec<Hop>,
    /// Packets to unreachable neighbours.
    pub(super) failed: Vec<Held<F>>,
}

/// The neighbours.
#[derive(Debug)]
pub(super) struct Arp<F> {
    entries: HashMap<Ipv4Addr, Entry<F>, RandomState>,
    wanted: usize,
}

impl<F> Default for Arp<F> {
    fn default() -> Self {
        Self { entries: HashMap::default(), wanted: 0 }
    }
}

impl<F> Arp<F> {
    /// Neighbours whose station address is known.
    pub(super) fn known(&self) -> usize {
        self.entries.len() - self.wanted
    }

    /// Packets that wait.
    pub(super) fn held(&self) -> u64 {
        let waiting = |entry: &Entry<F>| match &entry.state {
            State::Fixed(_) | State::Known { .. } => 0,
            State::Wanted { queue, .. } => queue.len() as u64,
        };
        self.entries.values().map(waiting).sum()
    }

    /// Configures a neighbour: it is never requested, does not age, and ignores ARP messages.
    pub(super) fn fix(&mut self, address: Ipv4Addr, interface: usize, mac: Mac) {
        self.entries.insert(address, Entry { interface, state: State::Fixed(mac) });
    }

    /// Looks a neighbour up.
    #[inline]
    pub(super) fn find(&mut self, address: Ipv4Addr, now_ns: u64) -> Neighbour {
        match self.entries.get_mut(&address).map(|entry| &mut entry.state) {
            Some(State::Fixed(mac)) => Neighbour::Known(*mac),
            Some(State::Known { mac, heard_ns, requested_ns }) => {
                let since_ns = now_ns.saturating_sub(*heard_ns);
                if since_ns < FRESH_NS {
                    return Neighbour::Known(*mac);
                }
                if since_ns >= FORGET_NS {
                    self.entries.remove(&address);
                    return Neighbour::Unknown;
                }
                if now_ns.saturating_sub(*requested_ns) < ASK_NS {
                    return Neighbour::Known(*mac);
                }
                *requested_ns = now_ns;
                Neighbour::Stale(*mac)
            }
            Some(State::Wanted { .. }) | None => Neighbour::Unknown,
        }
    }

    /// Queues a packet for an unknown neighbour. Returns whether to send a request, and the packet that this
    /// one displaces. Returns the packet itself if too many neighbours are unknown.
    pub(super) fn hold(
        &mut self,
        hop: Hop,
        held: Held<F>,
        now_ns: u64,
    ) -> Result<(bool, Option<Held<F>>), F> {
        if let Some(Entry { state: State::Wanted { queue, .. }, .. }) = self.entries.get_mut(&hop.next) {
            let displaced = if queue.len() >= QUEUE { queue.pop_front() } else { None };
            queue.push_back(held);
            return Ok((false, displaced));
        }
        if self.wanted >= WANTED || !self.has_room(now_ns) {
            return Err(held.frame);
        }
        self.wanted += 1;
        let state = State::Wanted { queue: VecDeque::from([held]), next_ns: now_ns + ASK_NS, requests: 1 };
        self.entries.insert(hop.next, Entry { interface: hop.interface, state });
        Ok((true, None))
    }

    fn has_room(&mut self, now_ns: u64) -> bool {
        if self.entries.len() >= NEIGHBOURS {
            self.entries.retain(|_, entry| match entry.state {
                State::Known { heard_ns, .. } => now_ns.saturating_sub(heard_ns) < FORGET_NS,
                State::Fixed(_) | State::Wanted { .. } => true,
            });
        }
        self.entries.len() < NEIGHBOURS
    }

    /// Learns a neighbour's address and returns the packets that waited for it. A neighbour without waiting
    /// packets is learned only from a message to this router (RFC 826).
    pub(super) fn learn(
        &mut self,
        address: Ipv4Addr,
        interface: usize,
        mac: Mac,
        for_us: bool,
        now_ns: u64,
    ) -> VecDeque<Held<F>> {
        let known = State::Known { mac, heard_ns: now_ns, requested_ns: now_ns };
        if let Some(entry) = self.entries.get_mut(&address) {
            if let State::Fixed(_) = entry.state {
                return VecDeque::new();
            }
            entry.interface = interface;
            if let State::Wanted { queue, .. } = std::mem::replace(&mut entry.state, known) {
                self.wanted -= 1;
                return queue;
            }
        } else if for_us && self.has_room(now_ns) {
            self.entries.insert(address, Entry { interface, state: known });
        }
        VecDeque::new()
    }

    /// Neighbours to request again, and packets whose neighbour is unreachable.
    pub(super) fn due(&mut self, now_ns: u64) -> Due<F> {
        let mut due = Due { ask: Vec::new(), failed: Vec::new() };
        if self.wanted == 0 {
            return due;
        }
        self.entries.retain(|&next, entry| {
            let State::Wanted { queue, next_ns, requests } = &mut entry.state else { return true };
            if now_ns < *next_ns {
                return true;
            }
            if *requests >= QUESTIONS {
                due.failed.extend(queue.drain(..));
                self.wanted -= 1;
                return false;
            }
            *requests += 1;
            *next_ns = now_ns + ASK_NS;
            due.ask.push(Hop { interface: entry.interface, next });
            true
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: usize) -> Ipv4Addr {
        Ipv4Addr::from(0x0a00_0000 + n as u32)
    }

    /// Whether a packet to an unknown neighbour may wait for it.
    fn holds(arp: &mut Arp<usize>, n: usize, now_ns: u64) -> bool {
        let held = Held { frame: n, origin: Origin::Here };
        arp.hold(Hop { interface: 0, next: address(n) }, held, now_ns).is_ok()
    }

    fn learn(arp: &mut Arp<usize>, n: usize, now_ns: u64) -> usize {
        arp.learn(address(n), 0, Mac::default(), true, now_ns).len()
    }

    fn knows(arp: &mut Arp<usize>, n: usize, now_ns: u64) -> bool {
        !matches!(arp.find(address(n), now_ns), Neighbour::Unknown)
    }

    #[test]
    fn a_scan_leaves_room_for_those_that_reply() {
        let mut arp = Arp::default();
        assert!((0..WANTED).all(|n| holds(&mut arp, n, 0)));
        assert!(!holds(&mut arp, WANTED, 0));
        assert!(holds(&mut arp, 0, 0), "another packet to one of them");
        assert_eq!((arp.known(), arp.held()), (0, WANTED as u64 + 1));
        // A station that speaks to the router is learned at once. A reply makes room for another question.
        assert_eq!((learn(&mut arp, WANTED, 0), learn(&mut arp, 0, 0)), (0, 2));
        assert!(holds(&mut arp, WANTED + 1, 0) && !holds(&mut arp, WANTED + 2, 0));
        assert_eq!(arp.known(), 2);
    }

    #[test]
    fn neighbours_are_bounded_and_silent_ones_make_room() {
        let mut arp = Arp::default();
        for n in 0..NEIGHBOURS {
            learn(&mut arp, n, n as u64);
        }
        // All entries are too recent.
        learn(&mut arp, NEIGHBOURS, FORGET_NS - 1);
        assert!(!knows(&mut arp, NEIGHBOURS, FORGET_NS - 1));
        assert!(!holds(&mut arp, NEIGHBOURS, FORGET_NS - 1));
        // The first has been silent for long enough. The others stay.
        learn(&mut arp, NEIGHBOURS, FORGET_NS);
        assert_eq!(arp.known(), NEIGHBOURS);
        let known = [0, 1, NEIGHBOURS].map(|n| knows(&mut arp, n, FORGET_NS));
        assert_eq!(known, [false, true, true]);
    }
}
