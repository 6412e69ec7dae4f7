//! The I/O bus. A bus of PCI or PCI-X is one resource that all masters share, first come first served. A bus
//! of PCI Express has one such resource for each direction.
//!
//! A burst takes an overhead in clocks plus one clock for every bus width of data; a read also waits for the
//! target. Except on PCI Express, a card needs a gap before its next burst, and other masters may use the bus
//! in the gap. The target may disconnect a burst; the rest of the data then follows as another burst. The
//! model has the level of detail of a bus trace ([`Bus::start_log`]).

mod log;

pub use log::{Event, EventKind, Log, Master, Transaction, What};

use crate::limits::{STEP_PS, check};
use serde::Deserialize;
use std::collections::VecDeque;

/// One bus. All times in picoseconds, all overheads in bus clocks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// One clock.
    pub clock_ps: u64,
    /// Bytes that cross the bus in one clock, a power of two.
    pub width_bytes: u32,
    /// The overhead of a burst, in clocks: address, turnaround and the target's first wait. If `gap_clocks`
    /// is 0, it includes arbitration.
    pub overhead_clocks: u32,
    /// Clocks from the end of a card's burst to the start of its next: turnaround, request and grant. Other
    /// masters may use the bus meanwhile. `duplex` buses have no gap.
    #[serde(default)]
    pub gap_clocks: u32,
    /// How long a memory read by a card waits for its first word, besides the overhead.
    pub read_latency_ps: u64,
    /// Whether the bus is free for others during `read_latency_ps` (PCI-X split transactions). Request and
    /// completion are then one burst each, the request without data. On a `duplex` bus this is always so.
    pub split_reads: bool,
    /// Whether the bus has two directions that do not wait for each other (PCI Express): to memory and CPUs,
    /// and from them.
    #[serde(default)]
    pub duplex: bool,
    /// The target disconnects a card's write at multiples of this number of bytes; 0: never.
    #[serde(default)]
    pub write_disconnect_bytes: u32,
    /// The target disconnects a card's read at multiples of this number of bytes, and the rest waits for its
    /// first word again. 0: never.
    #[serde(default)]
    pub read_disconnect_bytes: u32,
    /// The time that a register read by the CPU takes besides its burst, for the bridge and the card's
    /// answer.
    pub register_read_ps: u64,
    /// The cost of a register write for the CPU: a posted write leaves through the bridge's buffer.
    pub register_write_ps: u64,
    /// The number of writes that the bridge's buffer holds. If it is full, the CPU waits until the oldest
    /// write has crossed the bus. 0: the CPU never waits.
    #[serde(default)]
    pub posted_writes: u32,
}

impl Params {
    /// Checks the constants; the error names the constant that is out of range.
    #[inline]
    pub fn check(&self) -> Result<(), String> {
        for (name, bytes) in [
            ("width_bytes", self.width_bytes),
            ("write_disconnect_bytes", self.write_disconnect_bytes.max(1)),
            ("read_disconnect_bytes", self.read_disconnect_bytes.max(1)),
        ] {
            if !bytes.is_power_of_two() {
                return Err(format!("{name} = {bytes} is not a power of two"));
            }
        }
        for (name, bytes) in [
            ("write_disconnect_bytes", self.write_disconnect_bytes),
            ("read_disconnect_bytes", self.read_disconnect_bytes),
        ] {
            if bytes != 0 {
                check(&[(name, bytes, 16..=4096)])?;
            }
        }
        check(&[
            ("clock_ps", self.clock_ps, 100..=1_000_000),
            ("width_bytes", self.width_bytes.into(), 1..=64),
            ("overhead_clocks", self.overhead_clocks.into(), 0..=1000),
            ("gap_clocks", self.gap_clocks.into(), 0..=1000),
            ("read_latency_ps", self.read_latency_ps, STEP_PS),
            ("register_read_ps", self.register_read_ps, STEP_PS),
            ("register_write_ps", self.register_write_ps, STEP_PS),
            ("posted_writes", self.posted_writes.into(), 0..=1024),
        ])
    }
}

/// A transfer that a master requests.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The master.
    pub master: Master,
    /// The purpose.
    pub what: What,
    /// The address.
    pub address: u64,
    /// The length.
    pub bytes: u32,
}

/// Another master on the bus: a device that requests a burst of `bytes` in every `period_ps`, whatever the
/// load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// The time from one burst's request to the next.
    pub period_ps: u64,
    /// Bytes in a burst.
    pub bytes: u32,
}

/// The fate of a [`Background`] device's bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundTally {
    /// Bursts requested.
    pub bursts: u64,
    /// The sum of the times from a burst's request to its last byte.
    pub latency_ps: u64,
    /// The longest of these times.
    pub latency_max_ps: u64,
}

/// The number of cards with a gap of their own. Cards in higher slots share the gap of the last one.
const CARDS: usize = 8;
/// The two directions of a `duplex` bus.
const TO_MEMORY: usize = 0;
const TO_CARDS: usize = 1;

/// The state of a bus.
#[derive(Debug)]
pub struct Bus {
    params: Params,
    width_shift: u32,
    gap_ps: u64,
    /// When each direction is free: to memory and to the cards. Without [`Params::duplex`] only the first is
    /// used.
    free_at_ps: [u64; 2],
    /// The earliest time at which each card's next burst can start.
    ready_ps: [u64; CARDS],
    busy_ps: [u64; 2],
    transactions: u64,
    /// The times at which the writes in the bridge's buffer will have crossed the bus, the oldest write
    /// first.
    posted: VecDeque<u64>,
    background: Option<Background>,
    background_next_ps: u64,
    background_tally: BackgroundTally,
    log: Option<Box<Log>>,
}

impl Bus {
    /// An idle bus.
    #[inline]
    pub fn new(params: Params) -> Self {
        let width_shift = params.width_bytes.next_power_of_two().trailing_zeros();
        let gap_ps = u64::from(params.gap_clocks) * params.clock_ps;
        Self {
            params,
            width_shift,
            gap_ps,
            free_at_ps: [0; 2],
            ready_ps: [0; CARDS],
            busy_ps: [0; 2],
            transactions: 0,
            posted: VecDeque::new(),
            background: None,
            background_next_ps: u64::MAX,
            background_tally: BackgroundTally::default(),
            log: None,
        }
    }

    /// The constants.
    #[inline]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Time for which a burst of `bytes` occupies the bus, not counting a read's wait.
    #[inline]
    pub fn burst_ps(&self, bytes: u32) -> u64 {
        let data_clocks = u64::from(bytes).next_multiple_of(1 << self.width_shift) >> self.width_shift;
        (u64::from(self.params.overhead_clocks) + data_clocks) * self.params.clock_ps
    }

    /// Reserves the bus for `request` at or after `now_ps`. Returns when its last byte has crossed, or, for a
    /// read, has arrived.
    #[inline]
    pub fn transfer(&mut self, now_ps: u64, request: Request) -> u64 {
        if now_ps >= self.background_next_ps {
            self.run_background(now_ps);
        }
        let limit = if request.what.reads_memory() {
            self.params.read_disconnect_bytes
        } else {
            self.params.write_disconnect_bytes
        };
        if limit == 0 { self.burst(now_ps, request, false) } else { self.in_pieces(now_ps, request, limit) }
    }

    /// A transfer that the target disconnects at multiples of `limit` bytes.
    #[cold]
    fn in_pieces(&mut self, now_ps: u64, request: Request, limit: u32) -> u64 {
        let (mut at, mut left, mut end) = (request.address, request.bytes, now_ps);
        loop {
            let piece = left.min(limit - (at % u64::from(limit)) as u32);
            left -= piece;
            end = self.burst(end, Request { address: at, bytes: piece, ..request }, left > 0);
            if left == 0 {
                return end;
            }
            at += u64::from(piece);
        }
    }

    /// One burst.
    #[inline]
    fn burst(&mut self, now_ps: u64, request: Request, cut: bool) -> u64 {
        let card = match request.master {
            Master::Card(slot) => Some(usize::from(slot).min(CARDS - 1)),
            Master::Bridge | Master::Background => None,
        };
        let requested_ps = card.map_or(now_ps, |card| now_ps.max(self.ready_ps[card]));
        if self.params.duplex {
            return self.packets(requested_ps, request, cut);
        }
        let start = requested_ps.max(self.free_at_ps[0]);
        let burst = self.burst_ps(request.bytes);
        let (busy, after) = match (request.what.reads_memory(), self.params.split_reads) {
            (false, _) => (burst, 0),
            (true, false) => (burst + self.params.read_latency_ps, 0),
            (true, true) => (self.burst_ps(0) + burst, self.params.read_latency_ps),
        };
        let end = start + busy;
        self.free_at_ps[0] = end;
        if let Some(card) = card {
            self.ready_ps[card] = end + self.gap_ps;
        }
        self.busy_ps[0] += busy;
        self.transactions += 1;
        if self.log.is_some() {
            self.note_burst(start, end, request, cut);
        }
        end + after
    }

    /// A burst on a bus with two directions: a read is a request in one and a completion in the other.
    #[inline]
    fn packets(&mut self, requested_ps: u64, request: Request, cut: bool) -> u64 {
        let bytes = request.bytes;
        let directions: [Option<(usize, u32)>; 2] = match request.what {
            What::TailWrite | What::RegisterWrite => [Some((TO_CARDS, bytes)), None],
            What::RegisterRead => [Some((TO_CARDS, 0)), Some((TO_MEMORY, bytes))],
            what if what.reads_memory() => [Some((TO_MEMORY, 0)), Some((TO_CARDS, bytes))],
            _ => [Some((TO_MEMORY, bytes)), None],
        };
        let (mut start, mut end) = (None, requested_ps);
        for (direction, bytes) in directions.into_iter().flatten() {
            let busy = self.burst_ps(bytes);
            let from = end.max(self.free_at_ps[direction]);
            start = start.or(Some(from));
            // The completion crosses after the target's wait, but its time is reserved directly behind the
            // request: a later reservation would delay transfers that are due before it.
            self.free_at_ps[direction] = from + busy;
            self.busy_ps[direction] += busy;
            end = from + busy;
        }
        let after = if request.what.reads_memory() { self.params.read_latency_ps } else { 0 };
        self.transactions += 1;
        if self.log.is_some() {
            self.note_burst(start.unwrap_or(requested_ps), end, request, cut);
        }
        end + after
    }

    #[cold]
    fn note_burst(&mut self, start_ps: u64, end_ps: u64, request: Request, cut: bool) {
        if let Some(log) = &mut self.log {
            let Request { master, what, address, bytes } = request;
            log.add(Transaction { start_ps, end_ps, what, master, address, bytes, cut });
        }
    }

    /// A register read by the CPU, begun at `now_ps`: returns when the answer has arrived.
    #[inline]
    pub fn register_read(&mut self, now_ps: u64, offset: u32) -> u64 {
        self.register(now_ps, What::RegisterRead, offset) + self.params.register_read_ps
    }

    /// A register write by the CPU, begun at `now_ps`: returns when the CPU goes on. The write itself crosses
    /// the bus after the transfers that were requested before. `tail`: the register is a ring's tail.
    #[inline]
    pub fn register_write(&mut self, now_ps: u64, offset: u32, tail: bool) -> u64 {
        let crossed_ps =
            self.register(now_ps, if tail { What::TailWrite } else { What::RegisterWrite }, offset);
        let waited_ps = if self.params.posted_writes == 0 { now_ps } else { self.post(now_ps, crossed_ps) };
        waited_ps + self.params.register_write_ps
    }

    /// Puts a write into the bridge's buffer. Returns when there is space for it.
    #[inline]
    fn post(&mut self, now_ps: u64, crossed_ps: u64) -> u64 {
        while self.posted.front().is_some_and(|&oldest_ps| oldest_ps <= now_ps) {
            self.posted.pop_front();
        }
        let full = self.posted.len() >= self.params.posted_writes as usize;
        let space_ps = if full { self.posted.pop_front().unwrap_or(now_ps) } else { now_ps };
        self.posted.push_back(crossed_ps);
        space_ps
    }

    #[inline]
    fn register(&mut self, now_ps: u64, what: What, offset: u32) -> u64 {
        if now_ps >= self.background_next_ps {
            self.run_background(now_ps);
        }
        let request = Request { master: Master::Bridge, what, address: offset.into(), bytes: 4 };
        self.burst(now_ps, request, false)
    }

    /// Time for which the bus has been occupied; with two directions, the time of the busier one.
    #[inline]
    pub fn busy_ps(&self) -> u64 {
        self.busy_ps[0].max(self.busy_ps[1])
    }

    /// The number of bursts so far; register accesses are included.
    #[inline]
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    // ---- Another master ----

    /// Adds a background device to the bus. Its first burst is due at `first_ps`.
    #[inline]
    pub fn set_background(&mut self, first_ps: u64, background: Background) {
        self.background = Some(Background { period_ps: background.period_ps.max(1), ..background });
        self.background_next_ps = first_ps;
    }

    /// The fate of the background device's bursts that were due by `now_ps`, which must not be earlier than
    /// any [`Bus::transfer`] so far.
    #[inline]
    pub fn background_tally(&mut self, now_ps: u64) -> BackgroundTally {
        self.run_background(now_ps);
        self.background_tally
    }

    #[cold]
    fn run_background(&mut self, now_ps: u64) {
        let Some(background) = self.background else { return };
        while self.background_next_ps <= now_ps {
            let requested_ps = self.background_next_ps;
            let request = Request {
                master: Master::Background,
                what: What::Background,
                address: 0,
                bytes: background.bytes,
            };
            let latency = self.burst(requested_ps, request, false) - requested_ps;
            let tally = &mut self.background_tally;
            tally.bursts += 1;
            tally.latency_ps += latency;
            tally.latency_max_ps = tally.latency_max_ps.max(latency);
            self.background_next_ps = requested_ps + background.period_ps;
        }
    }

    // ---- The log ----

    /// Keeps the latest `capacity` transactions and events from now on.
    #[inline]
    pub fn start_log(&mut self, capacity: usize) {
        self.log = Some(Box::new(Log::new(capacity)));
    }

    /// Ends the log and returns it.
    #[inline]
    pub fn take_log(&mut self) -> Option<Log> {
        self.log.take().map(|log| *log)
    }

    /// Adds an event to the log, if there is one.
    #[inline]
    pub fn note(&mut self, at_ps: u64, slot: usize, kind: EventKind) {
        if let Some(log) = &mut self.log {
            log.add_event(Event { at_ps, slot: slot.try_into().unwrap_or(u8::MAX), kind });
        }
    }
}

#[cfg(test)]
impl Params {
    /// A bus of 64 bits with a clock of 15 ns, without latencies, gaps and limits.
    pub(crate) fn plain() -> Self {
        Self {
            clock_ps: 15_000,
            width_bytes: 8,
            overhead_clocks: 4,
            gap_clocks: 0,
            write_disconnect_bytes: 0,
            read_disconnect_bytes: 0,
            read_latency_ps: 0,
            split_reads: false,
            duplex: false,
            register_read_ps: 0,
            register_write_ps: 0,
            posted_writes: 0,
        }
    }
}

#[cfg(test)]
mod tests;
