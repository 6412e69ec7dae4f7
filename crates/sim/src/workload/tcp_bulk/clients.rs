//! The sending hosts: TCP connections with always more to send, behind a switch, on one gigabit wire.
//!
//! They implement slow start, congestion avoidance and fast retransmit of RFC 5681, recovery of RFC 6582
//! (NewReno, without SACK), and the timer of RFC 6298 with Linux's minimum of 200 ms. Each host needs some
//! time for a segment, and some more from an acknowledgement to the segments that it releases. The switch's
//! queue is unbounded: windows bound it.

use kpps_frames::build::{self, Flow};
use kpps_frames::checksum::updated;
use kpps_frames::{Error, ethernet, ipv4, tcp};
use kpps_machine::wire::{Receiver, Traffic};
use kpps_machine::{MS, S};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The first port of the clients; each connection has the next.
pub(super) const FIRST_PORT: u16 = 40_000;
/// The first sequence number of every connection.
pub(super) const FIRST_BYTE: u32 = 1;
/// The least retransmission timeout.
const LEAST_TIMEOUT_PS: u64 = 200 * MS;
/// The timeout before any round trip was measured (RFC 6298, 2.1), and the longest.
const FIRST_TIMEOUT_PS: u64 = S;
const MOST_TIMEOUT_PS: u64 = 60 * S;
/// Duplicate acknowledgements that mean a loss.
const DUPLICATES: u32 = 3;
/// The offsets of sequence number and checksum in a frame.
const TCP_AT: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;
const SEQUENCE_AT: usize = TCP_AT + 4;
const CHECKSUM_AT: usize = TCP_AT + 16;

/// The hosts' times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hosts {
    /// The least time from one segment of a connection to its next.
    pub segment_ps: u64,
    /// From an acknowledgement's last bit to the first bit of the segment that it releases.
    pub delay_ps: u64,
    /// A slot on the wire for a data frame.
    pub slot_ps: u64,
    /// Payload of a segment, in bytes.
    pub segment_bytes: u64,
}

/// What the senders have counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub segments: u64,
    pub again: u64,
    pub timeouts: u64,
    pub acks: u64,
    pub round_trips: u64,
    pub round_trips_ps: u64,
}

/// A sending connection.
struct Connection {
    frame: Vec<u8>,
    /// The checksum for sequence number 0.
    checksum: u16,
    acked: u64,
    next: u64,
    /// The end of everything that was ever sent.
    high: u64,
    /// The end of the peer's window.
    edge: u64,
    window: u64,
    threshold: u64,
    duplicates: u32,
    /// In recovery until this is acknowledged.
    recover: Option<u64>,
    /// Losses below this have been handled.
    answered: u64,
    /// The first unacknowledged segment is to be sent again.
    again: bool,
    /// It may not send before this time.
    ready_ps: u64,
    /// A segment whose round trip is measured: its end, and when it left.
    timed: Option<(u64, u64)>,
    smoothed_ps: u64,
    variation_ps: u64,
    timeout_ps: u64,
    /// When the timer expires.
    expires_ps: Option<u64>,
}

impl Connection {
    fn new(frame: Vec<u8>, segment_bytes: u64, offered: u32, ready_ps: u64) -> Self {
        let checksum = u16::from_be_bytes([frame[CHECKSUM_AT], frame[CHECKSUM_AT + 1]]);
        let first = u64::from(FIRST_BYTE);
        Self {
            frame,
            checksum,
            acked: first,
            next: first,
            high: first,
            edge: first + u64::from(offered),
            // Two segments (RFC 2581, in force then).
            window: 2 * segment_bytes,
            threshold: u64::MAX,
            duplicates: 0,
            recover: None,
            answered: first,
            again: false,
            ready_ps,
            timed: None,
            smoothed_ps: 0,
            variation_ps: 0,
            timeout_ps: FIRST_TIMEOUT_PS,
            expires_ps: None,
        }
    }

    /// Whether it may send now.
    fn may_send(&self, segment_bytes: u64) -> bool {
        let end = self.next + segment_bytes;
        self.again || end <= self.edge && end - self.acked <= self.window
    }

    /// When its next segment is ready for the switch.
    fn wants_ps(&self, segment_bytes: u64) -> Option<u64> {
        if self.may_send(segment_bytes) { Some(self.ready_ps) } else { self.expires_ps }
    }

    /// The segment that leaves at `at_ps`: its first byte.
    fn send(&mut self, at_ps: u64, hosts: &Hosts, seen: &mut Seen) -> u64 {
        let mss = hosts.segment_bytes;
        if !self.may_send(mss) {
            self.expire(mss);
            self.ready_ps = at_ps;
            seen.timeouts += 1;
        }
        let first = if std::mem::take(&mut self.again) {
            self.acked
        } else {
            self.next += mss;
            self.next - mss
        };
        seen.segments += 1;
        if first < self.high {
            seen.again += 1;
        } else {
            self.high = first + mss;
            self.timed = self.timed.or(Some((first + mss, at_ps)));
        }
        self.expires_ps = self.expires_ps.or(Some(at_ps + self.timeout_ps));
        first
    }

    /// The timer has expired: back to the first byte that is not acknowledged, in slow start.
    fn expire(&mut self, mss: u64) {
        self.threshold = ((self.high - self.acked) / 2).max(2 * mss);
        self.window = mss;
        self.next = self.acked;
        (self.recover, self.duplicates, self.timed) = (None, 0, None);
        self.answered = self.high;
        self.timeout_ps = (2 * self.timeout_ps).min(MOST_TIMEOUT_PS);
        self.expires_ps = None;
    }

    /// An acknowledgement has arrived at the host.
    fn acknowledged(&mut self, now_ps: u64, number: u32, window: u16, mss: u64, seen: &mut Seen) {
        let waited = !self.may_send(mss);
        let ack = self.acked.wrapping_add_signed((number.wrapping_sub(self.acked as u32) as i32).into());
        let edge = ack + u64::from(window);
        if ack > self.acked && ack <= self.high {
            self.advance(now_ps, ack, mss, seen);
        } else if ack == self.acked && edge == self.edge && self.acked < self.high {
            self.duplicate(mss);
        }
        self.edge = self.edge.max(edge);
        if waited {
            self.ready_ps = self.ready_ps.max(now_ps);
        }
    }

    fn advance(&mut self, now_ps: u64, ack: u64, mss: u64, seen: &mut Seen) {
        let newly = ack - self.acked;
        self.acked = ack;
        self.next = self.next.max(ack);
        self.again = false;
        if let Some((_, left_ps)) = self.timed.take_if(|(end, _)| *end <= ack) {
            self.round_trip(now_ps - left_ps);
            seen.round_trips += 1;
            seen.round_trips_ps += now_ps - left_ps;
        }
        match self.recover {
            Some(recover) if ack < recover => {
                // RFC 6582: a partial acknowledgement shows the next hole.
                self.again = true;
                self.window = self.window.saturating_sub(newly).max(mss) + mss;
            }
            Some(_) => {
                self.window = self.threshold;
                (self.recover, self.duplicates) = (None, 0);
            }
            None => {
                self.duplicates = 0;
                self.window += if self.window < self.threshold {
                    newly.min(mss)
                } else {
                    (mss * mss / self.window).max(1)
                };
            }
        }
        self.expires_ps = (self.acked < self.high).then(|| now_ps + self.timeout_ps);
    }

    fn duplicate(&mut self, mss: u64) {
        self.duplicates += 1;
        if self.recover.is_some() {
            self.window += mss;
        } else if self.duplicates == DUPLICATES && self.acked >= self.answered {
            self.threshold = ((self.high - self.acked) / 2).max(2 * mss);
            self.window = self.threshold + u64::from(DUPLICATES) * mss;
            (self.recover, self.answered) = (Some(self.high), self.high);
            (self.again, self.timed) = (true, None);
        }
    }

    /// RFC 6298, section 2.
    fn round_trip(&mut self, ps: u64) {
        if self.smoothed_ps == 0 {
            (self.smoothed_ps, self.variation_ps) = (ps, ps / 2);
        } else {
            self.variation_ps = (3 * self.variation_ps + self.smoothed_ps.abs_diff(ps)) / 4;
            self.smoothed_ps = (7 * self.smoothed_ps + ps) / 8;
        }
        self.timeout_ps = (self.smoothed_ps + 4 * self.variation_ps).clamp(LEAST_TIMEOUT_PS, MOST_TIMEOUT_PS);
    }
}

/// All of them, and the wire.
pub(super) struct Clients {
    hosts: Hosts,
    connections: Vec<Connection>,
    wire_free_ps: u64,
    /// Acknowledgements on their way into the hosts, in order: time of arrival, connection, contents.
    coming: VecDeque<(u64, usize, tcp::Fields)>,
    /// When the next segment starts on the wire, and its connection.
    chosen: Option<(u64, usize)>,
    seen: Seen,
}

impl Clients {
    /// `connections` of `flow`, which differ in the client's port. They begin to send at `begin_ps`, one
    /// `hosts.delay_ps` after the other; each has been offered a window of `offered`.
    pub fn new(
        flow: &Flow,
        hosts: Hosts,
        connections: u16,
        offered: u32,
        begin_ps: u64,
    ) -> Result<Self, Error> {
        let payload = vec![0; hosts.segment_bytes as usize];
        let connection = |index: u16| {
            let flow = Flow { from: (flow.from.0, FIRST_PORT + index), ..*flow };
            let fields = tcp::Fields { sequence: 0, acknowledgement: 1, flags: tcp::ACK, window: 65_535 };
            let ready_ps = begin_ps + u64::from(index) * hosts.delay_ps;
            Ok(Connection::new(build::tcp(&flow, fields, &payload)?, hosts.segment_bytes, offered, ready_ps))
        };
        let connections = (0..connections).map(connection).collect::<Result<_, Error>>()?;
        let mut clients = Self {
            hosts,
            connections,
            wire_free_ps: begin_ps,
            coming: VecDeque::new(),
            chosen: None,
            seen: Seen::default(),
        };
        clients.choose();
        Ok(clients)
    }

    /// What they have counted.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Chooses the next segment: first come, first served. An expired timer counts as a segment of its time.
    fn choose(&mut self) {
        let mss = self.hosts.segment_bytes;
        loop {
            let wants = self.connections.iter().enumerate();
            let first = wants.filter_map(|(index, c)| Some((c.wants_ps(mss)?, index))).min();
            self.chosen = first.map(|(ready, index)| (ready.max(self.wire_free_ps), index));
            // An acknowledgement that arrives before may change it.
            let until_ps = self.chosen.map_or(u64::MAX, |(starts, _)| starts);
            let Some((now_ps, index, fields)) = self.coming.pop_front_if(|(heard, ..)| *heard <= until_ps)
            else {
                return;
            };
            let seen = &mut self.seen;
            self.connections[index].acknowledged(now_ps, fields.acknowledgement, fields.window, mss, seen);
        }
    }

    fn next_ps(&self) -> u64 {
        self.chosen.map_or(u64::MAX, |(starts, _)| starts + self.hosts.slot_ps)
    }

    /// The next frame.
    fn frame(&mut self, into: &mut Vec<u8>) {
        let Some((starts, index)) = self.chosen else { return };
        let connection = &mut self.connections[index];
        let first = connection.send(starts, &self.hosts, &mut self.seen);
        connection.ready_ps += self.hosts.segment_ps;
        let sequence = first as u32;
        connection.frame[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_be_bytes());
        let checksum = updated(updated(connection.checksum, 0, (sequence >> 16) as u16), 0, sequence as u16);
        connection.frame[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
        into.clear();
        into.extend_from_slice(&connection.frame);
        self.wire_free_ps = starts + self.hosts.slot_ps;
        self.choose();
    }

    fn receive(&mut self, now_ps: u64, frame: &[u8]) {
        let Some((index, fields)) = acknowledgement(frame) else { return };
        if usize::from(index) < self.connections.len() {
            self.seen.acks += 1;
            self.coming.push_back((now_ps + self.hosts.delay_ps, index.into(), fields));
        }
        self.choose();
    }
}

/// The connection of an acknowledgement, and its contents.
fn acknowledgement(frame: &[u8]) -> Option<(u16, tcp::Fields)> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let packet = ipv4::Packet::new_checked(frame.payload()).ok()?;
    let segment = tcp::Segment::new_checked(packet.payload()).ok()?;
    Some((segment.destination().checked_sub(FIRST_PORT)?, segment.fields()))
}

/// The segments that arrive at the card.
pub(super) struct Segments {
    clients: Rc<RefCell<Clients>>,
    frame: Vec<u8>,
}

impl Segments {
    pub fn of(clients: &Rc<RefCell<Clients>>) -> Self {
        Self { clients: Rc::clone(clients), frame: Vec::new() }
    }
}

impl Traffic for Segments {
    fn next_ps(&self) -> u64 {
        self.clients.borrow().next_ps()
    }
    fn answers(&self) -> bool {
        true
    }
    fn frame(&mut self) -> &[u8] {
        self.clients.borrow_mut().frame(&mut self.frame);
        &self.frame
    }
}

/// The far end of the card's wire: passes acknowledgements on to the clients, once there are any.
#[derive(Clone, Default)]
pub(super) struct AckReceiver(Rc<RefCell<Option<Rc<RefCell<Clients>>>>>);

impl AckReceiver {
    /// From now on acknowledgements go to `clients`.
    pub fn connect(&self, clients: &Rc<RefCell<Clients>>) {
        self.0.replace(Some(Rc::clone(clients)));
    }
}

impl Receiver for AckReceiver {
    fn receive(&mut self, now_ps: u64, frame: &[u8]) {
        if let Some(clients) = &*self.0.borrow() {
            clients.borrow_mut().receive(now_ps, frame);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_machine::US;

    const MSS: u64 = 1000;
    const DELAY: u64 = 50 * US;

    fn clients(connections: u16) -> Clients {
        let hosts = Hosts { segment_ps: US, delay_ps: DELAY, slot_ps: 8 * US, segment_bytes: MSS };
        Clients::new(&Flow::default(), hosts, connections, 60_000, 0).unwrap()
    }

    /// Lets the next frame go: when, of which connection, from which byte on.
    fn next(clients: &mut Clients) -> (u64, u16, u32) {
        let (at, mut frame) = (clients.next_ps(), Vec::new());
        clients.frame(&mut frame);
        let ethernet = ethernet::Frame::new_checked(&frame[..]).unwrap();
        let packet = ipv4::Packet::new_checked(ethernet.payload()).unwrap();
        let segment = tcp::Segment::new_checked(packet.payload()).unwrap();
        assert!(segment.checksum_ok(packet.source(), packet.destination()));
        assert_eq!(segment.payload().len() as u64, MSS);
        (at, segment.source() - FIRST_PORT, segment.fields().sequence)
    }

    fn ack(clients: &mut Clients, now_ps: u64, connection: u16, number: u64) {
        let default = Flow::default();
        let to = (default.from.0, FIRST_PORT + connection);
        let flow = Flow { from: default.to, to, ..default };
        let fields =
            tcp::Fields { sequence: 1, acknowledgement: number as u32, flags: tcp::ACK, window: 60_000 };
        clients.receive(now_ps, &build::tcp(&flow, fields, &[]).unwrap());
    }

    #[test]
    fn slow_start_opens_by_what_is_acknowledged() {
        let mut c = clients(1);
        assert_eq!([next(&mut c), next(&mut c)], [(8 * US, 0, 1), (16 * US, 0, 1001)]);
        // The window is full: only the timer is left.
        assert_eq!(c.next_ps(), 8 * US - 8 * US + S + 8 * US);
        ack(&mut c, 100 * US, 0, 2001);
        // A segment's worth more for one acknowledgement, and the delay before they leave.
        let sent: Vec<_> = (0..3).map(|_| next(&mut c)).collect();
        assert_eq!(sent, [(158 * US, 0, 2001), (166 * US, 0, 3001), (174 * US, 0, 4001)]);
        assert!(c.next_ps() > 200 * MS);
    }

    #[test]
    fn three_duplicates_bring_the_missing_segment_and_halve_the_window() {
        let mut c = clients(1);
        let mut now = 0;
        for round in 0..4 {
            while c.next_ps() < now + 10 * MS {
                now = next(&mut c).0;
            }
            let upto = c.connections[0].next;
            if round < 3 {
                ack(&mut c, now + DELAY, 0, upto);
            }
        }
        let (lost, flight) = (c.connections[0].acked, c.connections[0].next - c.connections[0].acked);
        for _ in 0..3 {
            assert!(c.next_ps() > now + 100 * MS, "one more segment would tell of no loss");
            ack(&mut c, now + DELAY, 0, lost);
        }
        assert_eq!(next(&mut c).2, lost as u32);
        assert_eq!(c.connections[0].threshold, (flight / 2).max(2 * MSS));
        let end = c.connections[0].high;
        ack(&mut c, now + 3 * DELAY, 0, end);
        while c.connections[0].recover.is_some() {
            next(&mut c);
        }
        assert_eq!(c.connections[0].window, c.connections[0].threshold);
        assert_eq!((c.seen().again, c.seen().timeouts), (1, 0));
    }

    #[test]
    fn silence_is_answered_by_the_timer_which_doubles() {
        let mut c = clients(1);
        let (first, _) = (next(&mut c), next(&mut c));
        let again = next(&mut c);
        assert_eq!(again, (S + first.0, 0, 1));
        let third = next(&mut c);
        assert_eq!((third.0 - again.0, third.2), (2 * S, 1));
        assert_eq!((c.seen().again, c.seen().timeouts), (2, 2));
    }

    #[test]
    fn hosts_share_the_wire_in_turn() {
        let mut c = clients(3);
        let sent: Vec<_> = (0..6).map(|_| next(&mut c)).map(|(_, connection, _)| connection).collect();
        let of = |connection| sent.iter().filter(|c| **c == connection).count();
        assert_eq!((of(0), of(1), of(2)), (2, 2, 2));
    }
}
