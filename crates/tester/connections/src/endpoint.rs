//! One end of many connections: their table, their timers, and which connection a segment belongs to.

use crate::connection::{Connection, Context, Fate, Output, Role, Rules, State};
use crate::counts::{Counts, Times};
use crate::segment::{Segment, Sending, Socket, Tuple};
use crate::sequence::Sequence;
use crate::timers::Timers;
use foldhash::fast::RandomState;
use kpps_frames::Mac;
use kpps_frames::flows::Addresses;
use kpps_frames::tcp::{ACK, RST, SYN};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// The ports from which a client opens connections: all that need no privilege.
pub const FIRST_PORT: u16 = 1024;
/// Ports of one address of a client.
pub const PORTS: u32 = u16::MAX as u32 - FIRST_PORT as u32 + 1;
/// Used ports that a client skips at most, to find a free one.
const MOST_SKIPPED: u32 = 256;

/// The sockets of an end.
#[derive(Clone, Copy, Debug)]
pub enum Sockets {
    /// A client opens connections from these addresses, and ports from [`FIRST_PORT`] on, to a server.
    From {
        /// Its IPv4 addresses.
        addresses: Addresses,
        /// The server.
        to: Socket,
        /// The next hop to the server.
        station: Mac,
    },
    /// A server takes connections to this port.
    At(u16),
}

/// Why no connection was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFreePort;

/// One end.
pub struct Endpoint {
    rules: Rules,
    sockets: Sockets,
    /// Sequence numbers count up from here.
    first_sequence: u32,
    connections: Vec<Connection>,
    free: Vec<u32>,
    most: usize,
    by_tuple: HashMap<Tuple, u32, RandomState>,
    timers: Timers,
    /// The next combination of address and port, and the next connections to release and
    /// to reset.
    cursor: u32,
    release_cursor: usize,
    abort_cursor: usize,
    counts: Counts,
    times: Times,
}

impl Endpoint {
    /// An end with space for `most` connections, those in TIME-WAIT included. Sequence numbers begin with
    /// `first_sequence`, and count up by one each 64 ns, as those of Linux do: a connection that uses the
    /// ports of an earlier one has higher numbers, by which a peer in TIME-WAIT accepts it (RFC 9293,
    /// 3.10.7.4). To be higher than those of an earlier run, `first_sequence` follows the time, too.
    pub fn new(rules: Rules, sockets: Sockets, most: usize, first_sequence: u32) -> Self {
        let most = most.clamp(1, 1 << 30);
        Self {
            rules,
            sockets,
            first_sequence,
            connections: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            most,
            // Twice the space, so that removed entries never make the map grow.
            by_tuple: HashMap::with_capacity_and_hasher(2 * most, RandomState::default()),
            timers: Timers::new(most),
            cursor: 0,
            release_cursor: 0,
            abort_cursor: 0,
            counts: Counts::default(),
            times: Times::default(),
        }
    }

    /// Its counters.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The times of its connections.
    pub const fn times(&self) -> &Times {
        &self.times
    }

    /// Connections in TIME-WAIT.
    pub fn waiting(&self) -> usize {
        self.by_tuple.len() - self.counts.open as usize
    }

    fn sequence(&self, now_ns: u64) -> Sequence {
        Sequence(self.first_sequence) + (now_ns >> 6) as u32
    }

    /// Splits into a connection's context and the connections.
    fn context<'c, O>(
        (rules, counts, times): (&'c Rules, &'c mut Counts, &'c mut Times),
        out: &'c mut O,
        now_ns: u64,
    ) -> Context<'c, O> {
        Context { rules, counts, times, out, now_ns }
    }

    /// A free place for a connection. Without one, the connection that has been in TIME-WAIT for the longest
    /// time gives its place.
    fn place(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.connections.len() < self.most {
            return Some(self.connections.len() as u32);
        }
        let slot = self.timers.longest_waiting()?;
        self.counts.recycled += 1;
        self.forget(slot);
        self.free.pop()
    }

    fn forget(&mut self, slot: u32) {
        self.timers.clear(slot);
        if let Some(connection) = self.connections.get(slot as usize) {
            self.by_tuple.remove(&connection.tuple);
        }
        self.free.push(slot);
    }

    /// Puts a new connection in its place.
    fn put(&mut self, slot: u32, mut connection: Connection) {
        if let Some(after_ns) = connection.timer(&self.rules) {
            self.timers.set(slot, after_ns);
        }
        self.by_tuple.insert(connection.tuple, slot);
        match self.connections.get_mut(slot as usize) {
            Some(place) => *place = connection,
            None => self.connections.push(connection),
        }
    }

    fn settle(&mut self, slot: u32, fate: Fate) {
        match fate {
            Fate::Open => {
                if let Some(connection) = self.connections.get_mut(slot as usize)
                    && let Some(after_ns) = connection.timer(&self.rules)
                    && connection.state != State::TimeWait
                {
                    self.timers.set(slot, after_ns);
                }
            }
            Fate::TimeWait => self.timers.wait(slot, self.rules.time_wait_ns),
            Fate::Ended => self.forget(slot),
        }
    }

    /// Opens the next connection of a client: sends its SYN.
    ///
    /// # Errors
    /// [`NoFreePort`]: the next ports are all in use, or there is no place; or this is no client.
    #[inline]
    pub fn open(&mut self, now_ns: u64, out: &mut impl Output) -> Result<(), NoFreePort> {
        let Sockets::From { addresses, to, station } = self.sockets else { return Err(NoFreePort) };
        let all = addresses.count().saturating_mul(PORTS);
        for _ in 0..MOST_SKIPPED.min(all) {
            let at = self.cursor;
            self.cursor = (at + 1) % all;
            let IpAddr::V4(address) = addresses.nth(at / PORTS) else { return Err(NoFreePort) };
            let tuple = Tuple { own: (address, FIRST_PORT + (at % PORTS) as u16), peer: to };
            let mut first = self.sequence(now_ns);
            let slot = match self.by_tuple.get(&tuple) {
                None => self.place().ok_or(NoFreePort)?,
                Some(slot) => match self.connections.get(*slot as usize) {
                    Some(old) if old.state == State::TimeWait => {
                        first = first.max(old.highest() + 1);
                        *slot
                    }
                    _ => continue,
                },
            };
            let state = (&self.rules, &mut self.counts, &mut self.times);
            let new = Connection::open(tuple, station, first, &mut Self::context(state, out, now_ns));
            self.put(slot, new);
            return Ok(());
        }
        Err(NoFreePort)
    }

    /// Takes a segment for an address of this end.
    #[inline]
    pub fn receive(&mut self, segment: &Segment<'_>, now_ns: u64, out: &mut impl Output) {
        self.counts.received += 1;
        let mut first = self.sequence(now_ns);
        let mut place = None;
        if let Some(&slot) = self.by_tuple.get(&segment.tuple)
            && let Some(connection) = self.connections.get_mut(slot as usize)
        {
            if self.rules.role == Role::Client || !connection.may_be_replaced(segment) {
                let state = (&self.rules, &mut self.counts, &mut self.times);
                let fate = connection.receive(segment, &mut Self::context(state, out, now_ns));
                return self.settle(slot, fate);
            }
            first = first.max(connection.highest() + 1);
            place = Some(slot);
        }
        if segment.has(RST) {
            return;
        }
        let listens = matches!(self.sockets, Sockets::At(port) if port == segment.tuple.own.1);
        if !listens || !segment.has(SYN) || segment.has(ACK) {
            self.counts.unexpected += 1;
            return self.refuse(segment, out);
        }
        let Some(slot) = place.or_else(|| self.place()) else {
            self.counts.refused += 1;
            return;
        };
        let state = (&self.rules, &mut self.counts, &mut self.times);
        let new = Connection::accept(segment, first, &mut Self::context(state, out, now_ns));
        self.put(slot, new);
    }

    /// Answers a segment of no connection with a reset (RFC 9293, 3.10.7.1).
    fn refuse(&mut self, segment: &Segment<'_>, out: &mut impl Output) {
        let (sequence, flags) = match segment.acknowledgement {
            Some(acknowledgement) => (acknowledgement, RST),
            None => (Sequence(0), RST | ACK),
        };
        self.counts.sent += 1;
        self.counts.resets_sent += 1;
        out.send(&Sending {
            tuple: segment.tuple,
            station: segment.station,
            sequence,
            acknowledgement: segment.sequence + segment.length(),
            flags,
            window: 0,
            mss: None,
            data: None,
        });
    }

    /// Time passes. For a program that had no CPU for more than 20 ms, only 20 ms pass.
    #[inline]
    pub fn pass(&mut self, now_ns: u64) {
        self.timers.advance(now_ns);
    }

    /// Sends again what has not been answered in time, gives up what was never answered, and ends TIME-WAIT.
    /// To be called when all received segments were taken, and after [`pass`](Self::pass).
    #[inline]
    pub fn expire(&mut self, now_ns: u64, out: &mut impl Output) {
        while let Some(slot) = self.timers.expired() {
            let Some(connection) = self.connections.get_mut(slot as usize) else { continue };
            if connection.state == State::TimeWait {
                self.forget(slot);
                continue;
            }
            let state = (&self.rules, &mut self.counts, &mut self.times);
            let fate = connection.expire(&mut Self::context(state, out, now_ns));
            self.settle(slot, fate);
        }
    }

    /// Lets one more held connection send its request. Returns whether there was one. Connections that are
    /// established from now on are not held.
    pub fn release(&mut self, now_ns: u64, out: &mut impl Output) -> bool {
        self.rules.holds = false;
        while let Some(connection) = self.connections.get_mut(self.release_cursor) {
            let slot = self.release_cursor as u32;
            self.release_cursor += 1;
            let state = (&self.rules, &mut self.counts, &mut self.times);
            if connection.release(&mut Self::context(state, out, now_ns)) {
                self.settle(slot, Fate::Open);
                return true;
            }
        }
        false
    }

    /// Resets one more connection that is open, at the end of a run. Returns whether there was one. It
    /// forgets connections in TIME-WAIT.
    pub fn abort(&mut self, now_ns: u64, out: &mut impl Output) -> bool {
        while let Some(connection) = self.connections.get_mut(self.abort_cursor) {
            let slot = self.abort_cursor as u32;
            self.abort_cursor += 1;
            if self.by_tuple.get(&connection.tuple) != Some(&slot) {
                continue;
            }
            let is_open = connection.state != State::TimeWait;
            if is_open {
                let state = (&self.rules, &mut self.counts, &mut self.times);
                connection.abort(&mut Self::context(state, out, now_ns));
            }
            self.forget(slot);
            if is_open {
                return true;
            }
        }
        false
    }

    /// Whether this address is one of this end's, if it has a list of them.
    pub fn has(&self, address: Ipv4Addr) -> bool {
        match self.sockets {
            Sockets::From { addresses, .. } => addresses.contains(address.into()),
            Sockets::At(_) => true,
        }
    }

    /// The next connection begins with the first port again.
    #[cfg(test)]
    pub(crate) fn rewind(&mut self) {
        self.cursor = 0;
    }
}
