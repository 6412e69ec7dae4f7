//! One connection: the state machine of TCP (RFC 9293, 3.10), without input and output.
//!
//! It does what the standards demand of an end, and little more:
//!
//! - Segments out of order are dropped and answered with an acknowledgement.
//! - Lost segments are sent again from the first unacknowledged one on, after a timeout (RFC 6298) or three
//!   repeated acknowledgements, with slow start and congestion avoidance (RFC 5681, RFC 6928).
//! - Each segment with data is acknowledged at once. No option but the MSS is used.
//! - Resets and SYNs in a connection are treated as RFC 5961 demands; a reset does not end TIME-WAIT (RFC
//!   1337).

use crate::content::{Content, HeadEnd};
use crate::counts::{Counts, Phase, Times};
use crate::segment::{Segment, Sending, Tuple};
use crate::sequence::Sequence;
use kpps_frames::Mac;
use kpps_frames::tcp::{ACK, FIN, PSH, RST, SYN};

/// Our receive window in bytes, without scaling. Data is consumed at once.
const WINDOW: u16 = u16::MAX;
/// The timeout before a round trip was measured, that after a SYN was lost, and the limits of the timeout in
/// ns (RFC 6298, 2.1, 5.7, 2.4, 2.5).
const FIRST_TIMEOUT_NS: u64 = 1_000_000_000;
const TIMEOUT_AFTER_LOST_SYN_NS: u64 = 3_000_000_000;
const LEAST_TIMEOUT_NS: u64 = 1_000_000_000;
const LONGEST_TIMEOUT_NS: u64 = 60_000_000_000;
/// The granularity of our timers in ns.
const GRANULARITY_NS: u64 = 4_000_000;
/// Segments of the first window (RFC 6928).
const FIRST_SEGMENTS: u32 = 10;
/// Repeated acknowledgements that mean a loss (RFC 5681, 3.2).
const REPEATED: u8 = 3;
/// The least time in ns between two acknowledgements that no data asks for. RFC 5961, 7 demands a limit;
/// Linux has this one (`tcp_invalid_ratelimit`).
const CHALLENGE_NS: u64 = 500_000_000;

/// Which end opens connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It opens them, and sends the request.
    Client,
    /// It takes them, and sends the answer to a complete request.
    Server,
}

/// When the peer's message is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// After as many bytes as this message has. `is_known`: its bytes are compared.
    Message {
        /// The message.
        content: Content,
        /// Whether the peer sends these bytes.
        is_known: bool,
    },
    /// After the empty line that ends the head of a request of HTTP. Then this end closes first.
    HeadEnd,
    /// When the peer closes.
    Close,
}

/// The rules for all connections of an end.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether it opens connections.
    pub role: Role,
    /// Its message.
    pub sends: Content,
    /// The peer's message.
    pub receives: Until,
    /// The MSS in bytes.
    pub mss: u16,
    /// How often an unanswered segment is sent again. Then the connection is given up.
    pub tries: u8,
    /// A connection without outstanding segments is given up after this time without any from the peer, in
    /// ns.
    pub idle_ns: u64,
    /// How long TIME-WAIT lasts, in ns: twice the longest life of a segment.
    pub time_wait_ns: u64,
    /// Whether a client's connections wait for [`Connection::release`] before they send their request.
    pub holds: bool,
}

/// Where segments go.
pub trait Output {
    /// Sends a segment.
    fn send(&mut self, segment: &Sending<'_>);
}

/// The surroundings of a connection.
pub(crate) struct Context<'c, O> {
    pub rules: &'c Rules,
    pub counts: &'c mut Counts,
    pub times: &'c mut Times,
    pub out: &'c mut O,
    pub now_ns: u64,
}

/// The fate of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on.
    Open,
    /// It is closed and in TIME-WAIT, which begins now.
    TimeWait,
    /// It has ended.
    Ended,
}

/// The states of RFC 9293, 3.3.2. The states between ESTABLISHED and TIME-WAIT follow from two facts: whether
/// the peer has closed, and whether our FIN was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    SynSent,
    SynReceived,
    Established,
    TimeWait,
}

/// The smallest MSS of a peer that is believed, in bytes; it is that of Linux (`TCP_MIN_SND_MSS`).
const LEAST_MSS: u16 = 48;

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub tuple: Tuple,
    pub state: State,
    /// The next hop.
    station: Mac,
    mss: u16,
    /// Our first sequence number, the first that is not acknowledged, the next to send, and the one after
    /// the last that was ever sent.
    first: Sequence,
    unacknowledged: Sequence,
    next: Sequence,
    highest: Sequence,
    /// Bytes of our message that are acknowledged; with our FIN one more.
    acknowledged: u64,
    /// The peer's window and its largest one so far, in bytes.
    window: u32,
    largest_window: u32,
    /// The peer's next sequence number, and bytes of its message so far.
    expected: Sequence,
    received: u64,
    head: HeadEnd,
    /// Congestion window and slow start threshold in bytes (RFC 5681), repeated acknowledgements, and where
    /// sending was when a loss was noticed: what is sent before that is acknowledged is no new sign of loss.
    congestion: u32,
    threshold: u32,
    repeated: u8,
    recovery: Sequence,
    /// Smoothed round-trip time and its variation in ns (RFC 6298); 0 before the first measurement.
    smoothed_ns: u64,
    variation_ns: u64,
    /// The round trip that is measured: from when, and up to which acknowledgement.
    timed: Option<(Sequence, u64)>,
    syn_was_lost: bool,
    /// How often the oldest segment was sent again.
    tries: u8,
    /// Our message may be sent; after it a FIN, which was sent.
    released: bool,
    closes: bool,
    fin_sent: bool,
    /// The peer's FIN has arrived; ours was sent before.
    peer_closed: bool,
    closed_first: bool,
    /// When the current phase began; the first SYN, the request, the first FIN.
    since_ns: u64,
    challenged_ns: Option<u64>,
    restarts_timer: bool,
}

impl Connection {
    fn new(tuple: Tuple, station: Mac, first: Sequence, state: State, now_ns: u64) -> Self {
        Self {
            tuple,
            state,
            station,
            mss: 0,
            first,
            unacknowledged: first,
            next: first,
            highest: first,
            acknowledged: 0,
            window: 0,
            largest_window: 0,
            expected: Sequence::default(),
            received: 0,
            head: HeadEnd::default(),
            congestion: 0,
            threshold: u32::MAX,
            repeated: 0,
            recovery: first,
            smoothed_ns: 0,
            variation_ns: 0,
            timed: None,
            syn_was_lost: false,
            tries: 0,
            released: false,
            closes: false,
            fin_sent: false,
            peer_closed: false,
            closed_first: false,
            since_ns: now_ns,
            challenged_ns: None,
            restarts_timer: true,
        }
    }

    /// Opens a connection, whose sequence numbers begin with `first`: sends a SYN.
    #[inline]
    pub fn open<O: Output>(
        tuple: Tuple,
        station: Mac,
        first: Sequence,
        context: &mut Context<'_, O>,
    ) -> Self {
        let mut new = Self::new(tuple, station, first, State::SynSent, context.now_ns);
        context.counts.opened += 1;
        context.counts.open += 1;
        new.send_syn(context);
        new
    }

    /// Takes a connection: answers this SYN.
    #[inline]
    pub fn accept<O: Output>(syn: &Segment<'_>, first: Sequence, context: &mut Context<'_, O>) -> Self {
        let mut new = Self::new(syn.tuple, syn.station, first, State::SynReceived, context.now_ns);
        context.counts.opened += 1;
        context.counts.open += 1;
        new.meet(syn, context.rules);
        new.send_syn(context);
        new
    }

    /// The sequence number after all of this connection.
    pub const fn highest(&self) -> Sequence {
        self.highest
    }

    /// Whether a SYN in TIME-WAIT begins a new connection: its number is after all of this one (RFC 9293,
    /// 3.10.7.4).
    pub fn may_be_replaced(&self, syn: &Segment<'_>) -> bool {
        self.state == State::TimeWait
            && syn.flags & (SYN | ACK | RST) == SYN
            && syn.sequence.is_after(self.expected)
    }

    /// Whether its timer is to be started anew, and then its time in ns.
    #[inline]
    pub fn timer(&mut self, rules: &Rules) -> Option<u64> {
        if !std::mem::take(&mut self.restarts_timer) {
            return None;
        }
        Some(if self.is_owed(rules) { self.timeout_ns() } else { rules.idle_ns })
    }

    /// Whether something is to be sent or to be acknowledged.
    fn is_owed(&self, rules: &Rules) -> bool {
        self.next != self.unacknowledged || self.place() < self.end(rules)
    }

    /// RFC 6298, 2 and 5.5.
    fn timeout_ns(&self) -> u64 {
        let timeout_ns = match self.smoothed_ns {
            0 if self.syn_was_lost && self.state != State::SynSent => TIMEOUT_AFTER_LOST_SYN_NS,
            0 => FIRST_TIMEOUT_NS,
            smoothed_ns => smoothed_ns + (4 * self.variation_ns).max(GRANULARITY_NS),
        };
        (timeout_ns.max(LEAST_TIMEOUT_NS) << self.tries.min(6)).min(LONGEST_TIMEOUT_NS)
    }

    /// RFC 6298, 2.2 and 2.3.
    fn measured(&mut self, ns: u64) {
        let ns = ns.max(1);
        if self.smoothed_ns == 0 {
            (self.smoothed_ns, self.variation_ns) = (ns, ns / 2);
        } else {
            self.variation_ns = (3 * self.variation_ns + self.smoothed_ns.abs_diff(ns)) / 4;
            self.smoothed_ns = (7 * self.smoothed_ns + ns) / 8;
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::SynSent | State::SynReceived => Phase::Connect,
            State::Established if !self.closes => Phase::Use,
            State::Established | State::TimeWait => Phase::Close,
        }
    }

    fn emit<O: Output>(
        &self,
        (sequence, flags): (Sequence, u8),
        mss: Option<u16>,
        data: Option<(u64, usize)>,
        context: &mut Context<'_, O>,
    ) {
        let data = data.map(|(place, bytes)| (&context.rules.sends, place, bytes));
        let bytes = data.map_or(0, |(_, _, bytes)| bytes);
        context.counts.sent += 1;
        context.counts.sent_bytes += bytes as u64;
        context.counts.resets_sent += u64::from(flags & RST != 0);
        let window = if flags & RST == 0 { WINDOW } else { 0 };
        context.out.send(&Sending {
            tuple: self.tuple,
            station: self.station,
            sequence,
            acknowledgement: self.expected,
            flags,
            window,
            mss,
            data,
        });
    }

    fn send_syn<O: Output>(&mut self, context: &mut Context<'_, O>) {
        let flags = if self.state == State::SynSent { SYN } else { SYN | ACK };
        if self.highest == self.first {
            self.timed = Some((self.first + 1, context.now_ns));
        } else {
            // An answer may be that to either SYN (Karn's algorithm).
            (self.timed, self.syn_was_lost) = (None, true);
            context.counts.retransmitted.syn += 1;
        }
        self.next = self.first + 1;
        self.highest = self.next;
        self.restarts_timer = true;
        self.emit((self.first, flags), Some(context.rules.mss), None, context);
    }

    fn acknowledge<O: Output>(&self, context: &mut Context<'_, O>) {
        self.emit((self.next, ACK), None, None, context);
    }

    /// Acknowledges a segment that is not acceptable, but not often.
    fn challenge<O: Output>(&mut self, context: &mut Context<'_, O>) {
        let is_soon = |then: u64| context.now_ns.saturating_sub(then) < CHALLENGE_NS;
        if !self.challenged_ns.is_some_and(is_soon) {
            self.challenged_ns = Some(context.now_ns);
            context.counts.challenges += 1;
            self.acknowledge(context);
        }
    }

    /// Reads the peer's SYN.
    fn meet(&mut self, syn: &Segment<'_>, rules: &Rules) {
        self.expected = syn.sequence + 1;
        self.mss = syn.mss.max(LEAST_MSS).min(rules.mss);
        self.window = syn.window.into();
        self.largest_window = self.window;
    }

    /// Both SYNs are acknowledged.
    fn establish<O: Output>(&mut self, context: &mut Context<'_, O>) {
        let counts = &mut *context.counts;
        counts.established += 1;
        counts.established_now += 1;
        counts.most_established = counts.most_established.max(counts.established_now);
        if let Some((_, since_ns)) = self.timed.take() {
            self.measured(context.now_ns - since_ns);
        }
        let segments = if self.syn_was_lost { 1 } else { FIRST_SEGMENTS };
        self.congestion = segments * u32::from(self.mss);
        self.unacknowledged = self.first + 1;
        (self.state, self.tries, self.restarts_timer) = (State::Established, 0, true);
        if context.rules.role == Role::Client {
            context.times.connect.record(context.now_ns - self.since_ns);
            self.released = !context.rules.holds;
        }
        self.since_ns = context.now_ns;
    }

    /// Lets a held connection send its request. Returns whether it was held.
    pub fn release<O: Output>(&mut self, context: &mut Context<'_, O>) -> bool {
        let is_held = self.state == State::Established && !self.released && !self.closes;
        if is_held {
            (self.released, self.since_ns) = (true, context.now_ns);
            self.decide(context);
            self.restarts_timer = true;
            self.send_more(false, context);
        }
        is_held
    }

    /// Bytes of our message that may be sent now, and one more for a FIN.
    fn end(&self, rules: &Rules) -> u64 {
        self.message_end(rules) + u64::from(self.closes)
    }

    fn message_end(&self, rules: &Rules) -> u64 {
        if self.released { rules.sends.bytes() } else { 0 }
    }

    /// Where in our message `next` is.
    fn place(&self) -> u64 {
        self.acknowledged + u64::from(self.next.since(self.unacknowledged))
    }

    /// Sends what the windows allow, and the FIN after it; with `probes` at least one byte. Returns whether
    /// it has sent something.
    fn send_more<O: Output>(&mut self, probes: bool, context: &mut Context<'_, O>) -> bool {
        let message_end = self.message_end(context.rules);
        let mut has_sent = false;
        while self.place() < self.end(context.rules) {
            let place = self.place();
            let left = message_end.saturating_sub(place);
            let in_flight = self.next.since(self.unacknowledged);
            let least = u32::from(probes && !has_sent);
            let allowed = self.window.min(self.congestion).saturating_sub(in_flight).max(least);
            let wanted = left.min(self.mss.into()) as u32;
            let bytes = wanted.min(allowed);
            // A small segment only at the end of the message, or if nothing is in flight (RFC 9293,
            // 3.8.6.2.1).
            if allowed == 0 || bytes < wanted && in_flight > 0 {
                break;
            }
            let is_last = u64::from(bytes) == left;
            let fin = is_last && self.closes && (bytes < allowed || bytes == 0);
            let is_again = self.highest.is_after(self.next);
            if is_again {
                *if bytes > 0 {
                    &mut context.counts.retransmitted.data
                } else {
                    &mut context.counts.retransmitted.fin
                } += 1;
            } else if self.timed.is_none() {
                self.timed = Some((self.next + bytes + u32::from(fin), context.now_ns));
            }
            let flags = ACK | if is_last && bytes > 0 { PSH } else { 0 } | if fin { FIN } else { 0 };
            let data = (bytes > 0).then_some((place, bytes as usize));
            self.emit((self.next, flags), None, data, context);
            self.next = self.next + bytes + u32::from(fin);
            self.highest = self.highest.max(self.next);
            has_sent = true;
            if fin && !self.fin_sent {
                (self.fin_sent, self.closed_first) = (true, !self.peer_closed);
            }
        }
        has_sent
    }

    /// Decides what this end does next: whether it sends its message, and whether it closes.
    fn decide<O: Output>(&mut self, context: &mut Context<'_, O>) {
        let is_complete = match &context.rules.receives {
            Until::Message { content, .. } => self.received >= content.bytes(),
            Until::HeadEnd => self.head.read(&[]),
            Until::Close => false,
        };
        let closes = match context.rules.role {
            Role::Client => self.released && is_complete,
            Role::Server => {
                self.released |= is_complete && !self.fin_sent;
                is_complete && context.rules.receives == Until::HeadEnd
            }
        };
        if (closes || self.peer_closed) && !self.closes {
            self.closes = true;
            if context.rules.role == Role::Client && self.received > 0 {
                context.times.last_byte.record(context.now_ns - self.since_ns);
            }
            self.since_ns = context.now_ns;
        }
    }

    /// It is closed by both ends.
    fn finish<O: Output>(&mut self, fate: Fate, context: &mut Context<'_, O>) -> Fate {
        let is_complete = match &context.rules.receives {
            Until::Message { content, .. } => self.received >= content.bytes(),
            Until::HeadEnd => self.head.read(&[]),
            Until::Close => self.received > 0,
        };
        context.counts.established_now -= 1;
        context.counts.open -= 1;
        *if is_complete { &mut context.counts.closed } else { &mut context.counts.incomplete } += 1;
        if context.rules.role == Role::Client {
            context.times.close.record(context.now_ns - self.since_ns);
        }
        if fate == Fate::TimeWait {
            self.state = State::TimeWait;
        }
        fate
    }

    /// It has failed.
    fn fail<O: Output>(&mut self, context: &mut Context<'_, O>) -> Fate {
        context.counts.open -= 1;
        context.counts.established_now -= u64::from(self.phase() != Phase::Connect);
        Fate::Ended
    }

    /// Ends it with a reset, at the end of a run.
    pub fn abort<O: Output>(&mut self, context: &mut Context<'_, O>) {
        context.counts.aborted += 1;
        self.fail(context);
        if self.state != State::SynSent {
            self.emit((self.next, RST | ACK), None, None, context);
        }
    }

    /// The timer has expired.
    pub fn expire<O: Output>(&mut self, context: &mut Context<'_, O>) -> Fate {
        if self.tries >= context.rules.tries || !self.is_owed(context.rules) {
            context.counts.timeouts.count(self.phase());
            if self.state != State::SynSent {
                self.emit((self.next, RST | ACK), None, None, context);
            }
            return self.fail(context);
        }
        self.tries += 1;
        self.restarts_timer = true;
        if self.phase() == Phase::Connect {
            self.send_syn(context);
        } else {
            // RFC 5681, 3.1: after a timeout the window is one segment.
            self.go_back(self.mss.into());
            self.send_more(true, context);
        }
        Fate::Open
    }

    /// Goes back to the first segment that is not acknowledged.
    fn go_back(&mut self, congestion: u32) {
        let in_flight = self.highest.since(self.unacknowledged);
        self.threshold = (in_flight / 2).max(2 * u32::from(self.mss));
        self.congestion = congestion.min(self.threshold);
        self.recovery = self.highest;
        (self.next, self.timed, self.repeated) = (self.unacknowledged, None, 0);
    }

    /// Takes a segment of this connection.
    #[inline]
    pub fn receive<O: Output>(&mut self, segment: &Segment<'_>, context: &mut Context<'_, O>) -> Fate {
        match self.state {
            State::SynSent => self.receive_in_syn_sent(segment, context),
            State::TimeWait => self.receive_in_time_wait(segment, context),
            _ => self.receive_synchronised(segment, context),
        }
    }

    /// RFC 9293, 3.10.7.3.
    fn receive_in_syn_sent<O: Output>(
        &mut self,
        segment: &Segment<'_>,
        context: &mut Context<'_, O>,
    ) -> Fate {
        let is_ours = segment.acknowledgement == Some(self.next);
        if let (Some(acknowledgement), false) = (segment.acknowledgement, is_ours) {
            // Of an earlier connection, which this reset ends.
            context.counts.unexpected += 1;
            if !segment.has(RST) {
                self.emit((acknowledgement, RST), None, None, context);
            }
            return Fate::Open;
        }
        if segment.has(RST) {
            if !is_ours {
                context.counts.unexpected += 1;
                return Fate::Open;
            }
            context.counts.resets.count(Phase::Connect);
            return self.fail(context);
        }
        // A SYN without ACK would be a simultaneous opening: no server does that.
        if !segment.has(SYN) || !is_ours {
            context.counts.unexpected += 1;
            return Fate::Open;
        }
        self.meet(segment, context.rules);
        self.establish(context);
        self.decide(context);
        if !self.send_more(false, context) {
            self.acknowledge(context);
        }
        Fate::Open
    }

    /// RFC 9293, 3.10.7.4, and RFC 1337.
    fn receive_in_time_wait<O: Output>(
        &mut self,
        segment: &Segment<'_>,
        context: &mut Context<'_, O>,
    ) -> Fate {
        if segment.has(RST) {
            return Fate::Open;
        }
        if segment.has(FIN) {
            // Our last acknowledgement was lost.
            context.counts.repeated += 1;
            self.acknowledge(context);
            return Fate::TimeWait;
        }
        self.challenge(context);
        Fate::Open
    }

    /// RFC 9293, 3.10.7.4.
    fn receive_synchronised<O: Output>(
        &mut self,
        segment: &Segment<'_>,
        context: &mut Context<'_, O>,
    ) -> Fate {
        // How far the segment begins after the byte that is expected, or before it.
        let ahead = segment.sequence.since(self.expected) as i32;
        let is_in_window = (0..i32::from(WINDOW)).contains(&ahead);
        if segment.has(RST) {
            let only_fin_is_left = self.fin_sent && self.acknowledged >= self.message_end(context.rules);
            if ahead == 0 && self.peer_closed && only_fin_is_left {
                // In LAST-ACK or CLOSING: the peer has forgotten the connection after its end.
                return self.finish(Fate::Ended, context);
            }
            if ahead == 0 {
                context.counts.resets.count(self.phase());
                return self.fail(context);
            }
            if is_in_window {
                self.challenge(context);
            } else {
                context.counts.unexpected += 1;
            }
            return Fate::Open;
        }
        if segment.has(SYN) {
            if self.state == State::SynReceived && ahead == -1 {
                // Our answer was lost.
                self.send_syn(context);
            } else {
                context.counts.unexpected += 1;
                self.challenge(context);
            }
            return Fate::Open;
        }
        let Some(acknowledgement) = segment.acknowledgement else {
            context.counts.unexpected += 1;
            return Fate::Open;
        };
        if self.state == State::SynReceived {
            if acknowledgement != self.next {
                context.counts.unexpected += 1;
                self.emit((acknowledgement, RST), None, None, context);
                return Fate::Open;
            }
            if !is_in_window {
                self.challenge(context);
                return Fate::Open;
            }
            self.establish(context);
        } else if acknowledgement.is_after(self.highest)
            || self.unacknowledged.since(acknowledgement) as i32 > self.largest_window as i32
        {
            // RFC 5961, 5.2.
            context.counts.unexpected += 1;
            self.challenge(context);
            return Fate::Open;
        }
        let was_owed = self.is_owed(context.rules);
        let length = i64::from(segment.length());
        let is_old = ahead < 0 && i64::from(ahead) + length <= 0;
        if is_old && length == 0 && !is_in_window {
            // A keep-alive probe, or an acknowledgement that others have overtaken.
            self.challenge(context);
        }
        self.read_acknowledgement(segment, acknowledgement, context);
        let mut owes_acknowledgement = false;
        if length > 0 {
            owes_acknowledgement = true;
            if is_old {
                context.counts.repeated += 1;
            } else if ahead > 0 {
                context.counts.out_of_order += 1;
            } else if self.peer_closed {
                // Nothing comes after a FIN.
                context.counts.unexpected += 1;
            } else {
                self.read_data(segment, ahead.unsigned_abs() as usize, context);
            }
        }
        self.decide(context);
        if let Some(fate) = self.closed(context.rules) {
            if owes_acknowledgement {
                self.acknowledge(context);
            }
            return self.finish(fate, context);
        }
        if !was_owed {
            self.restarts_timer = true;
        }
        let has_sent = self.send_more(false, context);
        if owes_acknowledgement && !has_sent {
            self.acknowledge(context);
        }
        Fate::Open
    }

    fn read_acknowledgement<O: Output>(
        &mut self,
        segment: &Segment<'_>,
        acknowledgement: Sequence,
        context: &mut Context<'_, O>,
    ) {
        let window = u32::from(segment.window);
        if acknowledgement.is_after(self.unacknowledged) {
            let by = acknowledgement.since(self.unacknowledged);
            self.acknowledged += u64::from(by);
            self.unacknowledged = acknowledgement;
            self.next = self.next.max(acknowledgement);
            if let Some((_, since_ns)) = self.timed.take_if(|(until, _)| !until.is_after(acknowledgement)) {
                self.measured(context.now_ns - since_ns);
            }
            let mss = u32::from(self.mss);
            let growth = if self.congestion < self.threshold {
                by.min(mss)
            } else {
                (mss * mss / self.congestion).max(1)
            };
            self.congestion = self.congestion.saturating_add(growth).min(1 << 30);
            (self.repeated, self.tries, self.restarts_timer) = (0, 0, true);
        } else if window == 0 && acknowledgement == self.unacknowledged {
            // The peer is there, and takes nothing (RFC 9293, 3.8.6.1).
            self.tries = 0;
        } else if acknowledgement == self.unacknowledged
            && segment.length() == 0
            && window == self.window
            && self.highest != self.unacknowledged
        {
            self.repeated = self.repeated.saturating_add(1);
            if self.repeated == REPEATED && !self.recovery.is_after(self.unacknowledged) {
                // RFC 5681, 3.2: half the window. All is sent again, because the peer may drop what came
                // after the loss.
                self.go_back(u32::MAX);
                self.restarts_timer = true;
                self.send_more(true, context);
            }
        }
        if !self.unacknowledged.is_after(acknowledgement) {
            self.window = window;
            self.largest_window = self.largest_window.max(window);
        }
    }

    /// Reads new data, of which the first `skip` bytes are known, and the FIN.
    fn read_data<O: Output>(&mut self, segment: &Segment<'_>, skip: usize, context: &mut Context<'_, O>) {
        let data = segment.payload.get(skip..).unwrap_or_default();
        if !data.is_empty() {
            match &context.rules.receives {
                Until::Message { content, is_known } => {
                    let is_wrong = *is_known && !content.is_at(self.received, data);
                    context.counts.wrong_data += u64::from(is_wrong);
                }
                Until::HeadEnd => drop(self.head.read(data)),
                Until::Close => {}
            }
            if self.received == 0 && context.rules.role == Role::Client {
                context.times.first_byte.record(context.now_ns - self.since_ns);
            }
            self.received += data.len() as u64;
            context.counts.received_bytes += data.len() as u64;
            self.expected = self.expected + data.len() as u32;
        }
        if segment.has(FIN) {
            self.expected = self.expected + 1;
            self.peer_closed = true;
        }
    }

    /// Its fate, if both ends have closed, and ours is acknowledged.
    fn closed(&self, rules: &Rules) -> Option<Fate> {
        let is_closed = self.peer_closed && self.fin_sent && self.acknowledged == self.end(rules);
        is_closed.then_some(if self.closed_first { Fate::TimeWait } else { Fate::Ended })
    }
}
