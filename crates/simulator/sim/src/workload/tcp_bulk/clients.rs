//! The hosts behind a switch, on one gigabit wire: some always have more to send, others receive.
//!
//! Each needs some time for a segment, and some more from a received segment to the segment that it sends in
//! response. The switch's queue is unbounded: windows bound it. Hosts that receive have the kernel's TCP,
//! with processes that read at once.

use super::{LATER_PS, Parsed, parsed};
use crate::source::slot_ps;
use kpps_frames::build::{self, Flow};
use kpps_frames::checksum::{Sum, updated};
use kpps_frames::{Error, Size, ethernet, ipv4, tcp};
use kpps_host::stack::tcp::{Ack, Connection, Sending, Sent};
use kpps_host::wire::{FrameSource, Receiver};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The first port of the hosts that send; each connection has the next.
pub(super) const FIRST_PORT: u16 = 40_000;
/// The first port of the hosts that receive.
pub(super) const FIRST_SINK: u16 = 50_000;
/// The first sequence number of every connection, in both directions.
pub(super) const FIRST_BYTE: u32 = 1;
/// The share of a host's buffer in its socket's memory: 2 KiB with its structures.
const BUFFER_BYTES: u32 = 2304;
/// The memory of a host's socket for received segments: the document's clients have 2.4.20 (its `tcp_rmem`).
pub(super) const HOST_MEMORY: u32 = 87_380;
/// The offsets of fields in a frame.
const TCP_AT: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;
const LENGTH_AT: usize = ethernet::HEADER_BYTES + 2;
const IP_CHECKSUM_AT: usize = ethernet::HEADER_BYTES + 10;
const SEQUENCE_AT: usize = TCP_AT + 4;
const CHECKSUM_AT: usize = TCP_AT + 16;

/// The hosts' times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hosts {
    /// The least time from one segment of a connection to its next.
    pub segment_ps: u64,
    /// From a frame's last bit to the first bit of a host's response.
    pub delay_ps: u64,
    /// A slot on the wire for a data frame.
    pub slot_ps: u64,
    /// Payload of a segment, in bytes.
    pub segment_bytes: u64,
}

/// The counts of the hosts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Segments and acknowledgements that they have put on the wire.
    pub frames: u64,
    /// The segments of the sending hosts.
    pub sent: Sent,
    /// Acknowledgements that these got.
    pub acks: u64,
    /// Bytes that the hosts that receive got, in order.
    pub got_bytes: u64,
}

/// A segment of data, or a superpacket. Only its sequence number changes.
pub(super) struct Template {
    frame: Vec<u8>,
    /// The checksum with sequence number 0; `None` if the card computes it.
    checksum: Option<u16>,
}

impl Template {
    /// Data of `bytes` in `flow`.
    ///
    /// # Errors
    /// There is no such segment.
    pub fn new(flow: &Flow, bytes: u64) -> Result<Self, Error> {
        let fields =
            tcp::Fields { sequence: 0, acknowledgement: FIRST_BYTE, flags: tcp::ACK, window: 65_535 };
        let frame = build::tcp(flow, fields, &vec![0; bytes as usize])?;
        let checksum = u16::from_be_bytes([frame[CHECKSUM_AT], frame[CHECKSUM_AT + 1]]);
        Ok(Self { frame, checksum: Some(checksum) })
    }

    /// A superpacket: data of `bytes` in `flow` that the card cuts. Lengths and sums are as the card wants
    /// them (SDM 3.5): 0, but for the sum over the pseudo-header without a length.
    ///
    /// # Errors
    /// There is no such packet.
    pub fn superpacket(flow: &Flow, bytes: u64) -> Result<Self, Error> {
        let Self { mut frame, .. } = Self::new(flow, bytes)?;
        let pseudo = Sum::pseudo_header(flow.from.0, flow.to.0, ipv4::PROTOCOL_TCP, 0).folded();
        frame[LENGTH_AT..LENGTH_AT + 2].fill(0);
        frame[IP_CHECKSUM_AT..IP_CHECKSUM_AT + 2].fill(0);
        frame[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&pseudo.to_be_bytes());
        Ok(Self { frame, checksum: None })
    }

    /// The frame with that sequence number.
    pub fn with(&mut self, number: u32) -> &[u8] {
        self.frame[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&number.to_be_bytes());
        if let Some(checksum) = self.checksum {
            let checksum = updated(updated(checksum, 0, (number >> 16) as u16), 0, number as u16);
            self.frame[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        &self.frame
    }
}

/// A host that sends.
struct Source {
    segment: Template,
    connection: Sending,
    /// When each segment that may be sent has been ready for the switch, or will be.
    ready_ps: VecDeque<u64>,
    /// Its next one is not ready before this time.
    free_ps: u64,
}

impl Source {
    /// When its next segment is ready for the switch.
    fn wants_ps(&self) -> Option<u64> {
        self.ready_ps.front().copied().or(self.connection.expires_ps())
    }

    /// Makes the segments ready that may be sent since `now_ps`.
    fn release(&mut self, now_ps: u64, hosts: &Hosts) {
        let may_send = self.connection.may_send() as usize;
        self.ready_ps.truncate(may_send);
        while self.ready_ps.len() < may_send {
            self.free_ps = self.free_ps.max(now_ps);
            self.ready_ps.push_back(self.free_ps);
            self.free_ps += hosts.segment_ps;
        }
        self.connection.wait_below(may_send as u64);
    }

    /// The segment that leaves at `at_ps`: its first byte.
    fn send(&mut self, at_ps: u64, hosts: &Hosts) -> u64 {
        if self.ready_ps.pop_front().is_none() {
            self.connection.expire();
        }
        let first = self.connection.send(at_ps);
        self.release(at_ps, hosts);
        first
    }

    fn acknowledged(&mut self, now_ps: u64, fields: tcp::Fields, hosts: &Hosts) {
        self.connection.acknowledged(now_ps, fields.acknowledgement, fields.window);
        self.release(now_ps, hosts);
    }
}

/// A host that receives.
struct Sink {
    flow: Flow,
    connection: Connection<()>,
    /// When the segment that came alone is acknowledged.
    due_ps: Option<u64>,
}

/// An acknowledgement on its way out of a host.
struct Leaving {
    /// When it is ready for the switch.
    ready_ps: u64,
    sink: usize,
    number: u32,
    window: u16,
}

/// The next frame on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// A source's segment.
    Segment(usize),
    /// The acknowledgement that is ready first.
    Acknowledgement,
    /// That of a segment that stayed alone.
    Delayed(usize),
}

/// All of them, and the wire.
pub(super) struct Clients {
    hosts: Hosts,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    wire_free_ps: u64,
    /// Acknowledgements on their way into the hosts, in order: time of arrival, connection, contents.
    coming: VecDeque<(u64, usize, tcp::Fields)>,
    /// Acknowledgements on their way out of the hosts, in order.
    leaving: VecDeque<Leaving>,
    /// When the next frame starts on the wire, and its kind.
    chosen: Option<(u64, Next)>,
    seen: Seen,
}

impl Clients {
    /// Connections of `flow`, which differ in the host's port: `sources` that send and `sinks` that receive.
    /// The sources begin at `begin_ps`, one `hosts.delay_ps` after the other; each has been offered a window
    /// of `offered`.
    pub fn new(
        flow: &Flow,
        hosts: Hosts,
        (sources, sinks): (u16, u16),
        offered: u32,
        begin_ps: u64,
    ) -> Result<Self, Error> {
        let source = |index: u16| {
            let flow = Flow { from: (flow.from.0, FIRST_PORT + index), ..*flow };
            let mut source = Source {
                segment: Template::new(&flow, hosts.segment_bytes)?,
                connection: Sending::endless(FIRST_BYTE, hosts.segment_bytes, offered),
                ready_ps: VecDeque::new(),
                free_ps: 0,
            };
            source.release(begin_ps + u64::from(index) * hosts.delay_ps, &hosts);
            Ok(source)
        };
        let sink = |index: u16| {
            let flow = Flow { from: (flow.from.0, FIRST_SINK + index), ..*flow };
            Sink { flow, connection: Connection::new(FIRST_BYTE, HOST_MEMORY), due_ps: None }
        };
        let mut clients = Self {
            hosts,
            sources: (0..sources).map(source).collect::<Result<_, Error>>()?,
            sinks: (0..sinks).map(sink).collect(),
            wire_free_ps: begin_ps,
            coming: VecDeque::new(),
            leaving: VecDeque::new(),
            chosen: None,
            seen: Seen::default(),
        };
        clients.choose();
        Ok(clients)
    }

    /// Their counts.
    pub fn seen(&self) -> Seen {
        let sent = self.sources.iter().map(|source| source.connection.sent());
        Seen { sent: sent.fold(Sent::default(), Sent::plus), ..self.seen }
    }

    /// Chooses the next frame: first come, first served. An expired timer counts as a segment of its time.
    fn choose(&mut self) {
        loop {
            let wants = self.sources.iter().enumerate();
            let segments = wants.filter_map(|(index, c)| Some((c.wants_ps()?, Next::Segment(index))));
            let ack = self.leaving.front().map(|first| (first.ready_ps, Next::Acknowledgement));
            let alone = self.sinks.iter().enumerate();
            let alone = alone.filter_map(|(index, sink)| Some((sink.due_ps?, Next::Delayed(index))));
            let first = segments.chain(ack).chain(alone).min();
            self.chosen = first.map(|(ready, next)| (ready.max(self.wire_free_ps), next));
            // An acknowledgement that arrives before may change it.
            let until_ps = self.chosen.map_or(u64::MAX, |(starts, _)| starts);
            let Some((now_ps, index, fields)) = self.coming.pop_front_if(|(heard, ..)| *heard <= until_ps)
            else {
                return;
            };
            self.sources[index].acknowledged(now_ps, fields, &self.hosts);
        }
    }

    /// How long the next frame occupies the wire.
    fn slot_ps(&self, next: Next) -> u64 {
        match next {
            Next::Segment(_) => self.hosts.slot_ps,
            Next::Acknowledgement | Next::Delayed(_) => slot_ps(Size::MIN),
        }
    }

    fn next_ps(&self) -> u64 {
        self.chosen.map_or(u64::MAX, |(starts, next)| starts + self.slot_ps(next))
    }

    /// The next frame.
    fn frame(&mut self, into: &mut Vec<u8>) {
        let Some((starts, next)) = self.chosen else { return };
        into.clear();
        match next {
            Next::Segment(index) => {
                let source = &mut self.sources[index];
                let first = source.send(starts, &self.hosts);
                into.extend_from_slice(source.segment.with(first as u32));
            }
            Next::Acknowledgement | Next::Delayed(_) => {
                let leaving = match next {
                    Next::Delayed(sink) => Some(self.answer(starts, sink)),
                    _ => self.leaving.pop_front(),
                };
                let Some(Leaving { sink, number, window, .. }) = leaving else { return };
                let fields =
                    tcp::Fields { sequence: FIRST_BYTE, acknowledgement: number, flags: tcp::ACK, window };
                let frame = build::tcp(&self.sinks[sink].flow, fields, &[]);
                into.extend(frame.unwrap_or_default());
            }
        }
        self.seen.frames += 1;
        self.wire_free_ps = starts + self.slot_ps(next);
        self.choose();
    }

    /// A frame has reached the switch.
    fn receive(&mut self, now_ps: u64, frame: &[u8]) {
        let Some(Parsed { to_port: port, fields, bytes, .. }) = parsed(frame) else { return };
        let then_ps = now_ps + self.hosts.delay_ps;
        if let Some(index) = port.checked_sub(FIRST_SINK).map(usize::from).filter(|i| *i < self.sinks.len()) {
            self.data(then_ps, index, fields.sequence, bytes);
        } else if let Some(index) =
            port.checked_sub(FIRST_PORT).map(usize::from).filter(|i| *i < self.sources.len())
        {
            self.seen.acks += 1;
            self.coming.push_back((then_ps, index, fields));
        }
        self.choose();
    }

    /// Data for a host that receives, whose answer is ready at `then_ps`.
    fn data(&mut self, then_ps: u64, index: usize, sequence: u32, bytes: u32) {
        let sink = &mut self.sinks[index];
        let (ack, _) = sink.connection.segment(sequence, bytes, BUFFER_BYTES, ());
        while let Some((read, ())) = sink.connection.read() {
            self.seen.got_bytes += u64::from(read);
        }
        if ack == Ack::Now || sink.connection.read_calls_for_ack() {
            let answer = self.answer(then_ps, index);
            self.leaving.push_back(answer);
        } else if ack == Ack::Later {
            sink.due_ps = sink.due_ps.or(Some(then_ps + LATER_PS));
        }
    }

    /// A host's acknowledgement of everything that it has.
    fn answer(&mut self, ready_ps: u64, sink: usize) -> Leaving {
        let of = &mut self.sinks[sink];
        of.due_ps = None;
        let (number, window) = of.connection.acknowledge();
        Leaving { ready_ps, sink, number, window }
    }
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

impl FrameSource for Segments {
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
    use kpps_host::{MS, S, US};

    const MSS: u64 = 1000;
    const DELAY: u64 = 50 * US;

    fn clients(connections: u16) -> Clients {
        both(connections, 0)
    }

    fn both(sources: u16, sinks: u16) -> Clients {
        let hosts = Hosts { segment_ps: US, delay_ps: DELAY, slot_ps: 8 * US, segment_bytes: MSS };
        Clients::new(&Flow::default(), hosts, (sources, sinks), 60_000, 0).unwrap()
    }

    /// A segment of the machine's reaches the switch.
    fn data(clients: &mut Clients, now_ps: u64, sink: u16, segment: u32) {
        let default = Flow::default();
        let flow = Flow { from: default.to, to: (default.from.0, FIRST_SINK + sink), ..default };
        let fields = tcp::Fields {
            sequence: FIRST_BYTE + segment * MSS as u32,
            acknowledgement: 1,
            flags: tcp::ACK,
            window: 60_000,
        };
        clients.receive(now_ps, &build::tcp(&flow, fields, &[0; MSS as usize]).unwrap());
    }

    /// The next frame, an acknowledgement of a host that receives: when it starts, the number of the host,
    /// and how many segments it has.
    fn answer(clients: &mut Clients) -> (u64, u16, u32) {
        let (end_ps, mut frame) = (clients.next_ps(), Vec::new());
        clients.frame(&mut frame);
        let Parsed { from_port, fields, .. } = parsed(&frame).unwrap();
        let acknowledged = (fields.acknowledgement - FIRST_BYTE) / MSS as u32;
        (end_ps - slot_ps(Size::MIN), from_port - FIRST_SINK, acknowledged)
    }

    /// Sends `sink` its first segments, which it acknowledges at once. Returns how many.
    fn warm(clients: &mut Clients, sink: u16) -> u32 {
        let segments = 8;
        for segment in 0..segments {
            data(clients, 0, sink, segment);
        }
        let mut got = 0;
        while got < segments {
            got = answer(clients).2;
        }
        segments
    }

    #[test]
    fn a_host_acknowledges_every_second_segment_and_one_alone_after_40_ms() {
        let mut c = both(0, 2);
        let first = warm(&mut c, 0);
        data(&mut c, S, 0, first);
        assert_eq!(c.next_ps(), S + DELAY + LATER_PS + slot_ps(Size::MIN), "one alone waits");
        data(&mut c, S + 10 * US, 0, first + 1);
        assert_eq!(answer(&mut c), (S + 10 * US + DELAY, 0, first + 2));
        data(&mut c, 2 * S, 0, first + 2);
        assert_eq!(answer(&mut c), (2 * S + DELAY + LATER_PS, 0, first + 3));
        assert_eq!(c.next_ps(), u64::MAX);
    }

    #[test]
    fn a_host_that_waits_holds_no_other_up() {
        let mut c = both(0, 2);
        let (first, other) = (warm(&mut c, 0), warm(&mut c, 1));
        data(&mut c, S, 0, first);
        data(&mut c, S, 1, other);
        data(&mut c, S + 10 * US, 1, other + 1);
        assert_eq!(answer(&mut c), (S + 10 * US + DELAY, 1, other + 2));
        assert_eq!(answer(&mut c), (S + DELAY + LATER_PS, 0, first + 1));
    }

    /// Sends the next frame: when, the number of its connection, and its first byte in the stream.
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
        assert_eq!([next(&mut c), next(&mut c)], [(24 * US, 0, 2001), (32 * US, 0, 3001)]);
        // The window is full: only the timer is left.
        assert_eq!(c.next_ps(), 8 * US - 8 * US + S + 8 * US);
        ack(&mut c, 100 * US, 0, 2001);
        // A segment's worth more for one acknowledgement, and the delay before they leave.
        let sent: Vec<_> = (0..3).map(|_| next(&mut c)).collect();
        assert_eq!(sent, [(158 * US, 0, 4001), (166 * US, 0, 5001), (174 * US, 0, 6001)]);
        assert!(c.next_ps() > 200 * MS);
    }

    #[test]
    fn hosts_share_the_wire_in_turn() {
        let mut c = clients(3);
        let sent: Vec<_> = (0..12).map(|_| next(&mut c)).map(|(_, connection, _)| connection).collect();
        let of = |connection| sent.iter().filter(|c| **c == connection).count();
        assert_eq!((of(0), of(1), of(2)), (4, 4, 4));
    }
}
