//! A stimulus: numbered echo requests over ICMP or UDP, each of which the guest should return unchanged.

use super::path::{Answer, Path, SECOND_PS, pattern};
use super::wire::MOST_DATA_BYTES;
use std::collections::BTreeMap;

/// The most requests that may be outstanding.
pub const MOST_OUTSTANDING: usize = 1024;
/// Round trips of which the median is computed: the first ones.
const MOST_TRIPS: usize = 1 << 16;
/// The port of the guest's echo service (RFC 862).
const ECHO_PORT: u16 = 7;
/// The least data of a datagram: its number.
const NUMBER_BYTES: usize = 4;

/// The protocol of echo requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// ICMP, with this identifier.
    Icmp(u16),
    /// UDP, from this port to the guest's port 7.
    Udp(u16),
}

/// A number of echo requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EchoPlan {
    /// The number of requests.
    pub count: u32,
    /// Data of a request in bytes, in turns, at most 1472; over UDP at least 4. If there is none: 56.
    pub sizes: Vec<u16>,
    /// The least time from one request to the next, in ps.
    pub every_ps: u64,
    /// The most requests that may be outstanding: 1 to 1024.
    pub outstanding: usize,
    /// The time after which a request counts as lost, in ps.
    pub timeout_ps: u64,
}

impl EchoPlan {
    /// Requests of these sizes in turns, one every 100 ms.
    pub fn ping(count: u32, sizes: &[u16]) -> Self {
        Self { every_ps: SECOND_PS / 10, ..Self::flood(count, MOST_OUTSTANDING, sizes) }
    }

    /// Requests of these sizes in turns, as fast as the wire and the guest take them.
    pub fn flood(count: u32, outstanding: usize, sizes: &[u16]) -> Self {
        Self { count, sizes: sizes.to_vec(), every_ps: 0, outstanding, timeout_ps: SECOND_PS }
    }
}

/// Times from a request to its answer, both on the wire at the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// The shortest, in ps.
    pub least_ps: u64,
    /// The median of the first 65,536, in ps.
    pub median_ps: u64,
    /// The longest, in ps.
    pub most_ps: u64,
}

/// The result of echo requests. `sent` is the sum of `answered`, `changed`, `lost` and `outstanding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echoed {
    /// When the stimulus began, in ps.
    pub started_ps: u64,
    /// When the last request was answered or lost, in ps; `None` before.
    pub ended_ps: Option<u64>,
    /// ARP requests that were necessary because the guest's station address was unknown.
    pub asked: u64,
    /// Requests so far.
    pub sent: u64,
    /// Requests that were answered with their data.
    pub answered: u64,
    /// Requests that were answered with other data.
    pub changed: u64,
    /// Requests that were not answered in time.
    pub lost: u64,
    /// Requests that may still be answered.
    pub outstanding: u64,
    /// Answers to no outstanding request: late ones, and repeated ones.
    pub stray: u64,
    /// The round trips of answered requests; `None` if there were none.
    pub round_trips: Option<RoundTrips>,
}

/// The requests.
#[derive(Debug)]
pub struct Echo {
    over: Over,
    plan: EchoPlan,
    result: Echoed,
    next_ps: u64,
    /// Outstanding requests by number: when they were sent, and their data in bytes.
    outstanding: BTreeMap<u32, (u64, usize)>,
    trips: Vec<u64>,
    least_ps: u64,
    most_ps: u64,
}

impl Echo {
    /// Requests from `now_ps` on.
    pub fn new(now_ps: u64, over: Over, mut plan: EchoPlan) -> Self {
        plan.outstanding = plan.outstanding.clamp(1, MOST_OUTSTANDING);
        if plan.sizes.is_empty() {
            plan.sizes.push(56);
        }
        let ended_ps = (plan.count == 0).then_some(now_ps);
        Self {
            over,
            plan,
            result: Echoed { started_ps: now_ps, ended_ps, ..Echoed::default() },
            next_ps: now_ps,
            outstanding: BTreeMap::new(),
            trips: Vec::new(),
            least_ps: u64::MAX,
            most_ps: 0,
        }
    }

    /// The result so far.
    pub fn result(&self) -> Echoed {
        let mut trips = self.trips.clone();
        let round_trips = (!trips.is_empty()).then(|| {
            let middle = trips.len() / 2;
            let (_, median_ps, _) = trips.select_nth_unstable(middle);
            RoundTrips { least_ps: self.least_ps, median_ps: *median_ps, most_ps: self.most_ps }
        });
        Echoed { outstanding: self.outstanding.len() as u64, round_trips, ..self.result }
    }

    /// The number of the next request, if one may be sent now or later without an answer or a loss before.
    fn next_number(&self) -> Option<u32> {
        let number = u32::try_from(self.result.sent).ok().filter(|number| *number < self.plan.count)?;
        // Sequence numbers have 16 bits: those of outstanding requests must differ.
        let is_free = self.outstanding.first_key_value().is_none_or(|(first, _)| number - first < 1 << 16);
        (is_free && self.outstanding.len() < self.plan.outstanding).then_some(number)
    }

    /// When the next request is due, or lost, in ps.
    pub fn due_ps(&self) -> u64 {
        let oldest = self.outstanding.first_key_value();
        let lost_ps =
            oldest.map_or(u64::MAX, |(_, (sent_ps, _))| sent_ps.saturating_add(self.plan.timeout_ps));
        self.next_number().map_or(lost_ps, |_| self.next_ps.min(lost_ps))
    }

    /// The next request, if one is due.
    pub fn next(&mut self, now_ps: u64, path: &Path) -> Option<Vec<u8>> {
        while let Some(oldest) = self.outstanding.first_entry()
            && oldest.get().0.saturating_add(self.plan.timeout_ps) <= now_ps
        {
            oldest.remove();
            self.result.lost += 1;
        }
        self.note_end(now_ps);
        if self.next_ps > now_ps {
            return None;
        }
        let number = self.next_number()?;
        if path.mac.is_none() {
            self.next_ps = now_ps.saturating_add(SECOND_PS);
            self.result.asked += 1;
            return path.arp_request(path.guest);
        }
        let size = self.plan.sizes.get(number as usize % self.plan.sizes.len()).copied().unwrap_or_default();
        let most = usize::from(size).min(MOST_DATA_BYTES);
        let (bytes, frame) = match self.over {
            Over::Icmp(id) => (most, path.echo_request([id, number as u16], &pattern(number, most))),
            Over::Udp(port) => {
                let bytes = most.max(NUMBER_BYTES);
                (bytes, path.udp([port, ECHO_PORT], pattern(number, bytes)))
            }
        };
        self.next_ps = now_ps.saturating_add(self.plan.every_ps);
        self.result.sent += 1;
        self.outstanding.insert(number, (now_ps, bytes));
        frame
    }

    /// Takes an answer of the guest.
    pub fn take(&mut self, now_ps: u64, answer: &Answer<'_>) {
        let (number, data) = match (self.over, *answer) {
            (Over::Icmp(own), Answer::Echo { id: [id, sequence], data }) if id == own => {
                let first = self.outstanding.first_key_value().map_or(0, |(first, _)| *first);
                (first.checked_add(sequence.wrapping_sub(first as u16).into()), data)
            }
            (Over::Udp(port), Answer::Udp { ports, data }) if ports == [ECHO_PORT, port] => {
                (data.first_chunk().map(|number| u32::from_be_bytes(*number)), data)
            }
            // The station address is known now.
            (_, Answer::Arp(_)) if self.result.sent == 0 => {
                self.next_ps = self.next_ps.min(now_ps);
                return;
            }
            _ => return,
        };
        let Some((sent_ps, bytes)) = number.and_then(|number| self.outstanding.remove(&number)) else {
            self.result.stray += 1;
            return;
        };
        if now_ps >= sent_ps.saturating_add(self.plan.timeout_ps) {
            self.result.lost += 1;
            self.result.stray += 1;
        } else if number.is_some_and(|number| pattern(number, bytes) == data) {
            let trip_ps = now_ps.saturating_sub(sent_ps);
            self.result.answered += 1;
            self.least_ps = self.least_ps.min(trip_ps);
            self.most_ps = self.most_ps.max(trip_ps);
            if self.trips.len() < MOST_TRIPS {
                self.trips.push(trip_ps);
            }
        } else {
            self.result.changed += 1;
        }
        self.note_end(now_ps);
    }

    fn note_end(&mut self, now_ps: u64) {
        if self.outstanding.is_empty() && self.result.sent >= self.plan.count.into() {
            self.result.ended_ps.get_or_insert(now_ps);
        }
    }
}
