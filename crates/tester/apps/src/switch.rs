//! The learning bridge (IEEE 802.1D, without spanning tree and VLANs: tagged frames pass unchanged).

use crate::{App, Ledger, Outputs, Reason};
use foldhash::fast::RandomState;
use kpps_frames::Mac;
use std::collections::HashMap;

/// How long a station is kept after its last frame, in ns (IEEE 802.1D, 7.9.2).
pub const AGE_NS: u64 = 300_000_000_000;
/// The most stations in the table.
pub const STATIONS: usize = 4096;

/// The port of a station, and the time of its last frame.
#[derive(Clone, Copy, Debug)]
struct Seen {
    port: usize,
    at_ns: u64,
}

impl Seen {
    fn is_recent(&self, now_ns: u64, age_ns: u64) -> bool {
        now_ns.saturating_sub(self.at_ns) < age_ns
    }
}

/// Click's `EtherSwitch`: learns the port of each station and sends frames there; floods frames to groups and
/// unknown stations.
///
/// A frame never leaves by the port that it came from. Frames to the sixteen reserved addresses
/// 01:80:C2:00:00:0x are dropped (IEEE 802.1D, 7.12.6). The table is bounded: when it is full of recent
/// stations, new ones are not learned, and frames to them are flooded.
#[derive(Debug)]
pub struct EtherSwitch {
    ports: usize,
    age_ns: u64,
    most: usize,
    table: HashMap<[u8; 6], Seen, RandomState>,
    /// The next search for aged stations, in ns.
    sweep_ns: u64,
    flooded: u64,
    unlearned: u64,
    ledger: Ledger,
}

impl EtherSwitch {
    /// A bridge of `ports` ports with an empty table.
    pub fn new(ports: usize) -> Self {
        Self::with_table(ports, STATIONS, AGE_NS)
    }

    /// A bridge with a table of at most `most` stations, which age after `age_ns`.
    pub fn with_table(ports: usize, most: usize, age_ns: u64) -> Self {
        Self {
            ports,
            age_ns,
            most,
            table: HashMap::with_capacity_and_hasher(most, RandomState::default()),
            sweep_ns: 0,
            flooded: 0,
            unlearned: 0,
            ledger: Ledger::default(),
        }
    }

    /// Stations in the table.
    pub fn stations(&self) -> usize {
        self.table.len()
    }
    /// Frames that went to all other ports.
    pub fn flooded(&self) -> u64 {
        self.flooded
    }
    /// Frames whose source was not learned because the table was full.
    pub fn unlearned(&self) -> u64 {
        self.unlearned
    }

    fn learn(&mut self, source: [u8; 6], port: usize, now_ns: u64) {
        let seen = Seen { port, at_ns: now_ns };
        if let Some(known) = self.table.get_mut(&source) {
            *known = seen;
            return;
        }
        if self.table.len() >= self.most && now_ns >= self.sweep_ns {
            let age_ns = self.age_ns;
            self.table.retain(|_, seen| seen.is_recent(now_ns, age_ns));
            // A full table is not searched for every frame.
            self.sweep_ns = now_ns.saturating_add(age_ns / 64);
        }
        if self.table.len() < self.most {
            self.table.insert(source, seen);
        } else {
            self.unlearned += 1;
        }
    }

    /// The port of a station, if it is known.
    fn find(&self, destination: &[u8; 6], now_ns: u64) -> Option<usize> {
        let seen = self.table.get(destination)?;
        seen.is_recent(now_ns, self.age_ns).then_some(seen.port)
    }

    /// Learns, and decides: one port, or all others (`None`).
    fn decide(&mut self, from: usize, frame: &[u8], now_ns: u64) -> Result<Option<usize>, Reason> {
        let Some(([destination, source], _)) = frame.get(..14).map(|header| header.as_chunks::<6>()) else {
            return Err(Reason::Malformed);
        };
        if Mac(*source).is_multicast() {
            return Err(Reason::BadSource);
        }
        self.learn(*source, from, now_ns);
        if let [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00..=0x0f] = destination {
            return Err(Reason::NotForwarded);
        }
        if Mac(*destination).is_multicast() {
            return Ok(None);
        }
        match self.find(destination, now_ns) {
            Some(port) if port == from => Err(Reason::SamePort),
            known => Ok(known),
        }
    }

    /// Sends copies to all other ports; the last one gets the frame itself.
    fn flood<F: AsRef<[u8]>>(&mut self, from: usize, frame: F, out: &mut impl Outputs<F>) -> Result<(), F> {
        let mut others = (0..self.ports).filter(|&port| port != from).peekable();
        while let Some(port) = others.next() {
            if others.peek().is_none() {
                self.flooded += 1;
                self.ledger.sent += 1;
                out.send(port, frame);
                return Ok(());
            }
            self.ledger.made += 1;
            match out.make(frame.as_ref()) {
                Some(copy) => {
                    self.ledger.sent += 1;
                    out.send(port, copy);
                }
                None => self.ledger.end(Reason::NoBuffer),
            }
        }
        Err(frame)
    }
}

impl<F: AsRef<[u8]>> App<F> for EtherSwitch {
    #[inline]
    fn push(&mut self, from: usize, frame: F, now_ns: u64, out: &mut impl Outputs<F>) -> Option<F> {
        self.ledger.received += 1;
        let (reason, frame) = match self.decide(from, frame.as_ref(), now_ns) {
            Ok(Some(port)) => {
                self.ledger.sent += 1;
                out.send(port, frame);
                return None;
            }
            Ok(None) => match self.flood(from, frame, out) {
                Ok(()) => return None,
                Err(frame) => (Reason::NoPort, frame),
            },
            Err(reason) => (reason, frame),
        };
        self.ledger.end(reason);
        Some(frame)
    }

    fn tick(&mut self, _: u64, _: &mut impl Outputs<F>) {}

    fn ledger(&self) -> Ledger {
        self.ledger
    }
}
