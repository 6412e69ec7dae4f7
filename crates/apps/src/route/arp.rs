//! ARP (RFC 826): Click's `ARPResponder` and `ARPQuerier`.
//!
//! A neighbour can be configured. Otherwise it is *known* after it has spoken, *stale* some time later, when
//! it is used on but asked for, and forgotten when it does not answer. Packets to one that is not known wait;
//! both the number of neighbours and of packets that wait are bounded, so that a scan of a network cannot
//! take all buffers.

use super::{ETHERNET, Origin, lookup::Hop};
use foldhash::fast::RandomState;
use kpps_frames::arp::Message;
use kpps_frames::{Mac, ethernet};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

/// Bytes of a frame with a message.
const FRAME: usize = 60;

/// A neighbour that has spoken is used without asking for this long.
const FRESH_NS: u64 = 30_000_000_000;
/// A neighbour that does not answer is forgotten after this long.
const FORGET_NS: u64 = 60_000_000_000;
/// Questions are at least this far apart (RFC 1122 2.3.2.1).
const ASK_NS: u64 = 1_000_000_000;
/// Questions before an unknown neighbour is given up.
const QUESTIONS: u8 = 3;
/// The most neighbours.
const NEIGHBOURS: usize = 1024;
/// The most of them that are waited for at a time: a scan leaves room for those that answer.
const WANTED: usize = 256;
/// The most packets that wait for one neighbour.
const QUEUE: usize = 4;

/// Turns a request, given as a frame's payload, into the answer to it.
pub(super) fn respond(payload: &mut [u8], mac: Mac, request: &Message) {
    if let Some(message) = payload.first_chunk_mut() {
        *message = request.reply(mac).to_bytes();
    }
}

/// The frame that asks everybody who has `wanted`, but for its station addresses.
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
    /// As it was configured.
    Fixed(Mac),
    /// Since when it is known, and when it was last asked for.
    Known { mac: Mac, heard_ns: u64, asked_ns: u64 },
    /// What waits for it, when it is to be asked for again, and how often it was.
    Wanted { queue: VecDeque<Held<F>>, next_ns: u64, asked: u8 },
}

#[derive(Debug)]
struct Entry<F> {
    interface: usize,
    state: State<F>,
}

/// What is known of a neighbour.
pub(super) enum Neighbour {
    /// Send to this address.
    Known(Mac),
    /// Send to this address, and ask whether it is still right.
    Stale(Mac),
    /// Not known: hold what is for it.
    Unknown,
}

/// What has become due.
pub(super) struct Due<F> {
    /// To be asked for again.
    pub(super) ask: Vec<Hop>,
    /// Given up.
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

    /// Configures a neighbour: it is not asked for, does not age, and what it says of itself changes nothing.
    pub(super) fn fix(&mut self, address: Ipv4Addr, interface: usize, mac: Mac) {
        self.entries.insert(address, Entry { interface, state: State::Fixed(mac) });
    }

    /// Looks a neighbour up.
    #[inline]
    pub(super) fn find(&mut self, address: Ipv4Addr, now_ns: u64) -> Neighbour {
        match self.entries.get_mut(&address).map(|entry| &mut entry.state) {
            Some(State::Fixed(mac)) => Neighbour::Known(*mac),
            Some(State::Known { mac, heard_ns, asked_ns }) => {
                let since_ns = now_ns.saturating_sub(*heard_ns);
                if since_ns < FRESH_NS {
                    return Neighbour::Known(*mac);
                }
                if since_ns >= FORGET_NS {
                    self.entries.remove(&address);
                    return Neighbour::Unknown;
                }
                if now_ns.saturating_sub(*asked_ns) < ASK_NS {
                    return Neighbour::Known(*mac);
                }
                *asked_ns = now_ns;
                Neighbour::Stale(*mac)
            }
            Some(State::Wanted { .. }) | None => Neighbour::Unknown,
        }
    }

    /// Lets a packet wait for a neighbour that is not known. Says whether to ask for it, and which packet has
    /// to go for this one. The packet comes back if too many neighbours are waited for.
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
        let state = State::Wanted { queue: VecDeque::from([held]), next_ns: now_ns + ASK_NS, asked: 1 };
        self.entries.insert(hop.next, Entry { interface: hop.interface, state });
        Ok((true, None))
    }

    fn has_room(&mut self, now_ns: u64) -> bool {
        if self.entries.len() < NEIGHBOURS {
            return true;
        }
        self.entries.retain(|_, entry| match entry.state {
            State::Known { heard_ns, .. } => now_ns.saturating_sub(heard_ns) < FORGET_NS,
            State::Fixed(_) | State::Wanted { .. } => true,
        });
        self.entries.len() < NEIGHBOURS
    }

    /// Learns who a neighbour is and returns what waited for it. One that nobody wanted is remembered only if
    /// it spoke to us (RFC 826).
    pub(super) fn learn(
        &mut self,
        address: Ipv4Addr,
        interface: usize,
        mac: Mac,
        for_us: bool,
        now_ns: u64,
    ) -> VecDeque<Held<F>> {
        let known = State::Known { mac, heard_ns: now_ns, asked_ns: now_ns };
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

    /// Who is to be asked for again, and what was waited for in vain.
    pub(super) fn due(&mut self, now_ns: u64) -> Due<F> {
        let mut due = Due { ask: Vec::new(), failed: Vec::new() };
        if self.wanted == 0 {
            return due;
        }
        self.entries.retain(|&next, entry| {
            let State::Wanted { queue, next_ns, asked } = &mut entry.state else { return true };
            if now_ns < *next_ns {
                return true;
            }
            if *asked >= QUESTIONS {
                due.failed.extend(queue.drain(..));
                self.wanted -= 1;
                return false;
            }
            *asked += 1;
            *next_ns = now_ns + ASK_NS;
            due.ask.push(Hop { interface: entry.interface, next });
            true
        });
        due
    }
}
