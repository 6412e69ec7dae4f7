//! The sending half of a TCP connection: which segment may leave, and what acknowledgements and silence mean.
//!
//! Slow start, congestion avoidance and fast retransmit are those of RFC 5681, recovery that of RFC 6582
//! (NewReno, without SACK), and the timer that of RFC 6298 with Linux's minimum of 200 ms. All segments have
//! the same size. The congestion window grows only while it is in use, as Linux's does. Several segments may
//! leave as one superpacket, which the card cuts (TSO). Left out: a timer that probes a window of less than a
//! segment when nothing is under way; the peers here open such a window again. The caller charges all costs.

use crate::{MS, S};

/// The least retransmission timeout (Linux 2.6 TCP_RTO_MIN).
const LEAST_TIMEOUT_PS: u64 = 200 * MS;
/// The timeout before any round trip was measured (RFC 6298, 2.1), and the longest.
const FIRST_TIMEOUT_PS: u64 = S;
const MOST_TIMEOUT_PS: u64 = 60 * S;
/// Duplicate acknowledgements that mean a loss.
const DUPLICATES: u32 = 3;
/// A superpacket is at most the congestion window divided by this (Linux 2.6.11 `tcp_output.c`, public
/// source: `sysctl_tcp_tso_win_divisor`).
const WINDOW_DIVISOR: u64 = 8;

/// The segments that a connection has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Segments, those sent again included.
    pub segments: u64,
    /// Segments sent again.
    pub again: u64,
    /// Packets that were handed down: segments, and superpackets of several.
    pub packets: u64,
    /// Segments that left in superpackets.
    pub together: u64,
    /// Timers that expired.
    pub timeouts: u64,
    /// Segments whose time until they were acknowledged was measured.
    pub round_trips: u64,
    /// The sum of these times, in picoseconds.
    pub round_trips_ps: u64,
}

impl Sent {
    /// Of two connections together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            segments: self.segments + other.segments,
            again: self.again + other.again,
            packets: self.packets + other.packets,
            together: self.together + other.together,
            timeouts: self.timeouts + other.timeouts,
            round_trips: self.round_trips + other.round_trips,
            round_trips_ps: self.round_trips_ps + other.round_trips_ps,
        }
    }
}

/// The sending half of a connection.
pub struct Sending {
    /// Payload of a segment, in bytes.
    segment: u64,
    /// The end of the bytes that the process has written.
    written: u64,
    acked: u64,
    next: u64,
    /// The end of everything that was ever sent.
    high: u64,
    /// The end of the peer's window.
    edge: u64,
    /// The largest window that the peer has offered.
    offered: u64,
    window: u64,
    threshold: u64,
    duplicates: u32,
    /// In recovery until this is acknowledged.
    recover: Option<u64>,
    /// Losses below this have been handled.
    answered: u64,
    /// The first unacknowledged segment is to be sent again.
    again: bool,
    /// A segment whose round trip is measured: its end, and when it left.
    timed: Option<(u64, u64)>,
    smoothed_ps: u64,
    variation_ps: u64,
    timeout_ps: u64,
    /// When the timer expires.
    expires_ps: Option<u64>,
    /// Segments that may be sent and wait below TCP, which takes them for sent.
    below: u64,
    sent: Sent,
}

impl Sending {
    /// A connection whose first byte has the sequence number `first`, with segments of `segment_bytes` of
    /// payload, to a peer that has offered a window of `offered` bytes. Nothing is written yet.
    pub fn new(first: u32, segment_bytes: u64, offered: u32) -> Self {
        let first = u64::from(first);
        Self {
            segment: segment_bytes,
            written: first,
            acked: first,
            next: first,
            high: first,
            edge: first + u64::from(offered),
            offered: offered.into(),
            // `tcp_init_cwnd` of Linux 2.4 and 2.6: as RFC 2414.
            window: segment_bytes
                * if segment_bytes > 1460 {
                    2
                } else if segment_bytes > 1095 {
                    3
                } else {
                    4
                },
            threshold: u64::MAX,
            duplicates: 0,
            recover: None,
            answered: first,
            again: false,
            timed: None,
            smoothed_ps: 0,
            variation_ps: 0,
            timeout_ps: FIRST_TIMEOUT_PS,
            expires_ps: None,
            below: 0,
            sent: Sent::default(),
        }
    }

    /// The same of a process that always has more to send.
    pub fn endless(first: u32, segment_bytes: u64, offered: u32) -> Self {
        Self { written: u64::MAX, ..Self::new(first, segment_bytes, offered) }
    }

    /// The process has written one more segment.
    pub fn write(&mut self) {
        self.written = self.written.saturating_add(self.segment);
    }

    /// How many segments may be sent now.
    pub fn may_send(&self) -> u64 {
        let end = self.written.min(self.edge).min(self.acked.saturating_add(self.window));
        u64::from(self.again) + end.saturating_sub(self.next) / self.segment
    }

    /// How many new segments may leave as one superpacket: as many as half the largest window of the peer
    /// has, an eighth of the congestion window, or one (Linux 2.6.11 `tcp_current_mss`, public source).
    pub fn most_together(&self) -> u64 {
        (self.offered / 2).min(self.window / WINDOW_DIVISOR).max(self.segment) / self.segment
    }

    /// Whether the next segment was sent before.
    pub fn repeats(&self) -> bool {
        self.first() < self.high
    }

    /// Whether everything that was sent is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.acked == self.high
    }

    /// When the timer expires, if it runs.
    pub fn expires_ps(&self) -> Option<u64> {
        self.expires_ps
    }

    /// Of the segments that may be sent, this number wait below TCP: to a sender they are under way.
    pub fn wait_below(&mut self, segments: u64) {
        self.below = segments;
    }

    /// Everything before this byte is acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The segments that were sent.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// The first byte of the segment that is to leave next. Only if there [is one](Self::may_send).
    pub fn first(&self) -> u64 {
        if self.again { self.acked } else { self.next }
    }

    /// That segment leaves at `at_ps`: its first byte.
    pub fn send(&mut self, at_ps: u64) -> u64 {
        self.send_together(at_ps, 1)
    }

    /// This number of segments leave at `at_ps` as one packet: the first byte. Segments that are sent again
    /// leave one by one.
    pub fn send_together(&mut self, at_ps: u64, segments: u64) -> u64 {
        let (first, bytes) = (self.first(), segments * self.segment);
        if !std::mem::take(&mut self.again) {
            self.next += bytes;
        }
        self.sent.segments += segments;
        self.sent.packets += 1;
        self.sent.together += if segments > 1 { segments } else { 0 };
        if first < self.high {
            self.sent.again += segments;
        } else {
            self.high = first + bytes;
            self.timed = self.timed.or(Some((self.high, at_ps)));
        }
        self.expires_ps = self.expires_ps.or(Some(at_ps + self.timeout_ps));
        first
    }

    /// That segment could not leave at `now_ps` and stays the next: the transmit queue was full
    /// (`is_congested`), which halves the window (`tcp_enter_cwr`), or there was no buffer. If nothing is
    /// under way, the timer tries again.
    pub fn stay(&mut self, now_ps: u64, is_congested: bool) {
        if is_congested && self.recover.is_none() && self.acked >= self.answered {
            self.threshold = (self.window / 2).max(2 * self.segment);
            self.window = self.threshold;
            self.answered = self.high;
        }
        self.expires_ps = self.expires_ps.or(Some(now_ps + self.timeout_ps));
    }

    /// The timer has expired: back to the first byte that is not acknowledged, in slow start.
    pub fn expire(&mut self) {
        if self.acked == self.high {
            // Nothing was lost: a segment could not leave.
            self.timeout_ps = (2 * self.timeout_ps).min(MOST_TIMEOUT_PS);
            self.expires_ps = None;
            return;
        }
        self.threshold = ((self.high - self.acked) / 2).max(2 * self.segment);
        self.window = self.segment;
        self.next = self.acked;
        (self.recover, self.duplicates, self.timed) = (None, 0, None);
        self.answered = self.high;
        self.timeout_ps = (2 * self.timeout_ps).min(MOST_TIMEOUT_PS);
        self.expires_ps = None;
        self.sent.timeouts += 1;
    }

    /// An acknowledgement has arrived: the number that it acknowledges, and the window that it offers.
    pub fn acknowledged(&mut self, now_ps: u64, number: u32, window: u16) {
        let ack = self.acked.wrapping_add_signed((number.wrapping_sub(self.acked as u32) as i32).into());
        let edge = ack + u64::from(window);
        if ack > self.acked && ack <= self.high {
            self.advance(now_ps, ack);
        } else if ack == self.acked && edge == self.edge && self.acked < self.high {
            self.duplicate();
        }
        self.edge = self.edge.max(edge);
        self.offered = self.offered.max(window.into());
    }

    fn advance(&mut self, now_ps: u64, ack: u64) {
        let (mss, newly) = (self.segment, ack - self.acked);
        // `tcp_ack`: a window grows only if what was under way filled it.
        let filled = self.next - self.acked + (self.below + 1) * mss > self.window;
        self.acked = ack;
        self.next = self.next.max(ack);
        self.again = false;
        if let Some((_, left_ps)) = self.timed.take_if(|(end, _)| *end <= ack) {
            self.round_trip(now_ps - left_ps);
            self.sent.round_trips += 1;
            self.sent.round_trips_ps += now_ps - left_ps;
        }
        match self.recover {
            Some(recover) if ack < recover => {
                // RFC 6582: a partial acknowledgement shows the next hole.
                (self.again, self.timed) = (true, None);
                self.window = self.window.saturating_sub(newly).max(mss) + mss;
            }
            Some(_) => {
                self.window = self.threshold;
                (self.recover, self.duplicates) = (None, 0);
            }
            None => {
                self.duplicates = 0;
                self.window += if !filled {
                    0
                } else if self.window < self.threshold {
                    newly.min(mss)
                } else {
                    (mss * mss / self.window).max(1)
                };
            }
        }
        self.expires_ps = (self.acked < self.high).then(|| now_ps + self.timeout_ps);
    }

    fn duplicate(&mut self) {
        self.duplicates += 1;
        if self.recover.is_some() {
            self.window += self.segment;
        } else if self.duplicates == DUPLICATES && self.acked >= self.answered {
            self.threshold = ((self.high - self.acked) / 2).max(2 * self.segment);
            self.window = self.threshold + u64::from(DUPLICATES) * self.segment;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::US;

    const MSS: u64 = 1000;

    /// Sends whatever may leave: how many segments.
    fn send_all(c: &mut Sending, now_ps: u64) -> usize {
        std::iter::from_fn(|| (c.may_send() > 0).then(|| c.send(now_ps))).count()
    }

    #[test]
    fn slow_start_opens_by_what_is_acknowledged() {
        let mut c = Sending::endless(1, MSS, 60_000);
        assert_eq!(send_all(&mut c, 0), 4);
        c.acknowledged(50 * US, 2001, 60_000);
        // Two left the network, and the window opened by one.
        assert_eq!(send_all(&mut c, 50 * US), 3);
        assert_eq!(c.sent().round_trips_ps, 50 * US);
    }

    #[test]
    fn a_process_that_has_written_nothing_sends_nothing() {
        let mut c = Sending::new(1, MSS, 60_000);
        assert_eq!(c.may_send(), 0);
        c.write();
        assert_eq!(send_all(&mut c, 0), 1);
    }

    #[test]
    fn what_the_transmit_queue_refuses_stays_and_halves_the_window_once() {
        let mut c = Sending::endless(1, MSS, 60_000);
        send_all(&mut c, 0);
        c.acknowledged(50 * US, 4001, 60_000);
        assert_eq!((c.send(60 * US), c.send(60 * US), c.first()), (4001, 5001, 6001));
        c.stay(60 * US, true);
        assert_eq!((c.first(), c.threshold, c.window, c.may_send()), (6001, 2500, 2500, 0));
        c.stay(60 * US, true);
        assert_eq!(c.threshold, 2500, "once for what is under way");
        c.acknowledged(70 * US, 6001, 60_000);
        assert_eq!((c.send(70 * US), c.sent().segments, c.sent().again), (6001, 7, 0));
        // Nothing is under way: the timer tries again.
        let mut c = Sending::endless(1, MSS, 60_000);
        c.stay(0, false);
        assert_eq!((c.expires_ps(), c.window), (Some(S), 4 * MSS));
        c.expire();
        assert_eq!((c.window, c.may_send(), c.sent().timeouts), (4 * MSS, 4, 0));
    }

    #[test]
    fn a_window_that_is_not_in_use_does_not_grow() {
        let mut c = Sending::new(1, MSS, 60_000);
        for turn in 1..=20_u64 {
            c.write();
            assert_eq!(send_all(&mut c, turn * US), 1);
            c.acknowledged(turn * US, c.next as u32, 60_000);
        }
        assert_eq!(c.window, 4 * MSS);
    }

    #[test]
    fn a_superpacket_is_an_eighth_of_the_congestion_window_and_half_of_the_peers() {
        let mut c = Sending::endless(1, MSS, 20_000);
        for (window, most) in [(4, 1), (15, 1), (16, 2), (23, 2), (24, 3), (200, 10)] {
            c.window = window * MSS;
            assert_eq!(c.most_together(), most, "{window}");
        }
        assert_eq!((c.send_together(0, 3), c.first()), (1, 1 + 3 * MSS));
        c.send(US);
        let sent = c.sent();
        assert_eq!((sent.segments, sent.packets, sent.together), (4, 2, 3));
        // The first three are timed together.
        c.acknowledged(50 * US, 1 + 3 * MSS as u32, 20_000);
        assert_eq!((c.sent().round_trips, c.sent().round_trips_ps), (1, 50 * US));
        assert!(!c.is_idle() && !c.repeats());
        c.expire();
        assert!(c.repeats());
    }

    #[test]
    fn three_duplicates_bring_the_missing_segment_and_halve_the_window() {
        let mut c = Sending::endless(1, MSS, 60_000);
        let mut now = 0;
        for _ in 0..3 {
            send_all(&mut c, now);
            now += 50 * US;
            c.acknowledged(now, c.next as u32, 60_000);
        }
        let sent = send_all(&mut c, now) as u64;
        let (lost, flight) = (c.acked, c.next - c.acked);
        assert_eq!((sent, flight), (7, 7 * MSS));
        for _ in 0..2 {
            c.acknowledged(now, lost as u32, 60_000);
            assert_eq!(c.may_send(), 0, "one or two tell of no loss");
        }
        c.acknowledged(now, lost as u32, 60_000);
        assert_eq!((c.send(now), c.threshold), (lost, (flight / 2).max(2 * MSS)));
        c.acknowledged(now + 50 * US, c.high as u32, 60_000);
        assert_eq!((c.window, c.recover), (c.threshold, None));
        assert_eq!((c.sent().again, c.sent().timeouts), (1, 0));
    }

    #[test]
    fn silence_is_answered_by_the_timer_which_doubles() {
        let mut c = Sending::endless(1, MSS, 60_000);
        assert_eq!(send_all(&mut c, 0), 4);
        assert_eq!(c.expires_ps(), Some(S));
        c.expire();
        assert_eq!((send_all(&mut c, S), c.next), (1, 1 + MSS));
        assert_eq!(c.expires_ps(), Some(3 * S));
        c.expire();
        send_all(&mut c, 3 * S);
        assert_eq!((c.sent().again, c.sent().timeouts), (2, 2));
    }
}
