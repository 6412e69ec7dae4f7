//! The rules on the model of the card: a driver by the manual breaks none, whatever its rings and frames, and
//! one with a defect breaks the rule of this defect.
#![allow(clippy::unwrap_used)]

use kpps_audit::{Access, Cable, Cards, Rule, Severity};
use kpps_card::Params;
use kpps_datasheet::bit::{cause, ctrl, rctl, tctl};
use kpps_datasheet::desc::{RxWriteback, TX_DD, TxContext, TxData, TxLegacy, rx_status, tx_cmd};
use kpps_datasheet::{Chip, reg};
use kpps_profiles::{Kind, Profile};
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;

const US: u64 = 1_000_000;
const MS: u64 = 1000 * US;
const TX_RING: u64 = 0x1000;
const RX_RING: u64 = 0x4000;
const TX_BUFFERS: u64 = 0x4_0000;
const RX_BUFFERS: u64 = 0x8_0000;
const MEMORY: u64 = 1 << 20;

/// A defect of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// It does not wait for DD of transmit descriptors.
    NoWait,
    /// It hands every receive descriptor over, also the last one.
    AllReceive,
    /// It does not clear the status of receive descriptors.
    KeepStatus,
    /// It sets no IFCS.
    NoIfcs,
    /// It writes descriptors after the tail: the card finds zeros.
    TailFirst,
    /// Its receive buffers are 1024 bytes apart.
    SmallBuffers,
    /// CTRL.SLU is not set.
    NoLink,
    /// It never reads ICR.
    NoIcr,
    /// Its ring is beyond memory.
    Nowhere,
}

/// A random sequence (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A driver for both cards: 0 sends, 1 receives.
struct Driver {
    cards: Cards,
    memory: File,
    now_ps: u64,
    defect: Option<Defect>,
    random: Random,
    count: u32,
    /// RS is in every one of this number of frames.
    report_each: u32,
    tail: u32,
    /// Descriptors that may not be used, the oldest first; whether it has RS.
    pending: VecDeque<(u32, bool)>,
    since_report: u32,
    receive_next: u32,
    received: u64,
}

impl Driver {
    fn new(chip: Chip, seed: u64, defect: Option<Defect>) -> Self {
        let bus = Profile::named(Kind::Bus, "pci-32-33").unwrap().get().unwrap();
        let params = Params { link_ps: MS, ..Params::of(chip) };
        let cables = [(Cable::To(1), [2, 0, 0, 0, 0, 0]), (Cable::To(0), [2, 0, 0, 0, 0, 1])];
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let count = [8, 16, 64, 128][random.below(4) as usize];
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(MEMORY).unwrap();
        let report_each = 1 + random.below(3) as u32;
        let mut it = Self {
            cards: Cards::new(&params, &bus, &cables),
            memory,
            now_ps: 0,
            defect,
            random,
            count,
            report_each,
            tail: 0,
            pending: VecDeque::new(),
            since_report: 0,
            receive_next: 0,
            received: 0,
        };
        it.start();
        it
    }

    fn set(&mut self, card: usize, offset: u32, value: u32) {
        self.now_ps += US / 5;
        self.cards.write(card, self.now_ps, Access::Registers, offset.into(), &value.to_le_bytes());
    }

    fn get(&mut self, card: usize, offset: u32) -> u32 {
        self.now_ps += US;
        let mut value = [0; 4];
        self.cards.read(card, self.now_ps, Access::Registers, offset.into(), &mut value);
        u32::from_le_bytes(value)
    }

    fn store(&self, address: u64, words: [u64; 2]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.memory.write_all_at(&bytes, address).unwrap();
    }

    fn load(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.memory.read_exact_at(&mut word, address).unwrap();
        u64::from_le_bytes(word)
    }

    fn wait(&mut self, time_ps: u64) {
        self.now_ps += time_ps;
        self.cards.advance(self.now_ps);
    }

    fn start(&mut self) {
        let link = if self.defect == Some(Defect::NoLink) { 0 } else { ctrl::SLU };
        for card in 0..2 {
            self.cards.map(card, 0, MEMORY, self.memory.try_clone().unwrap(), 0);
            self.cards.write(card, 0, Access::Configuration, 4, &[0x06, 0]);
            self.set(card, reg::CTRL, ctrl::RST);
            self.wait(US);
            self.set(card, reg::CTRL, ctrl::FD | link);
            (0..reg::MTA_WORDS).for_each(|n| self.set(card, reg::mta(n), 0));
            for register in [reg::FCAL, reg::FCAH, reg::FCT, reg::FCTTV] {
                self.set(card, register, 0);
            }
        }
        let length = self.count * 16;
        let ring = if self.defect == Some(Defect::Nowhere) { MEMORY as u32 } else { TX_RING as u32 };
        let write_back = if self.random.below(2) == 0 { 0 } else { 1 << 24 | 4 << 16 };
        for (offset, value) in [
            (reg::TDBAL, ring),
            (reg::TDBAH, 0),
            (reg::TDLEN, length),
            (reg::TDH, 0),
            (reg::TDT, 0),
            (reg::TIDV, 10),
            (reg::TXDCTL, write_back),
            (reg::TIPG, 10 | 8 << 10 | 6 << 20),
            (reg::TCTL, tctl::EN | tctl::PSP | 0x40 << tctl::COLD_SHIFT),
        ] {
            self.set(0, offset, value);
        }
        for (offset, value) in [
            (reg::RDBAL, RX_RING as u32),
            (reg::RDBAH, 0),
            (reg::RDLEN, length),
            (reg::RDH, 0),
            (reg::RDT, 0),
            (reg::RXDCTL, if write_back == 0 { 0 } else { 8 | 4 << 8 | 1 << 16 | 1 << 24 }),
            (reg::RDTR, self.random.below(2) as u32 * 20),
            (reg::RCTL, rctl::EN | rctl::BAM | rctl::SECRC),
            (reg::IMS, cause::RXT0),
        ] {
            self.set(1, offset, value);
        }
        (0..self.count).for_each(|index| self.fill(index));
        self.set(1, reg::RDT, self.count - 1);
        self.wait(5 * MS);
    }

    fn fill(&self, index: u32) {
        let apart = if self.defect == Some(Defect::SmallBuffers) { 1024 } else { 2048 };
        self.store(RX_RING + u64::from(index) * 16, [RX_BUFFERS + u64::from(index) * apart, 0]);
    }

    /// Descriptors that may be used.
    fn free(&mut self) -> u32 {
        let done = |it: &Self, index: u32| it.load(TX_RING + u64::from(index) * 16 + 8) & TX_DD != 0;
        while let Some(last) = self.pending.iter().position(|it| it.1)
            && done(self, self.pending[last].0)
        {
            self.pending.drain(..=last);
        }
        if self.defect == Some(Defect::NoWait) {
            self.pending.clear();
        }
        self.count - 1 - self.pending.len() as u32
    }

    /// Sends some frames, of one to three descriptors, some with a context.
    fn send(&mut self) -> u64 {
        let mut sent = 0;
        let mut later = Vec::new();
        for _ in 0..=self.random.below(6) {
            let parts = 1 + self.random.below(3) as u32;
            let context = self.random.below(4) == 0;
            if self.free() < parts + u32::from(context) {
                break;
            }
            self.since_report += 1;
            // A report is due, or the ring is nearly full.
            let due = self.since_report >= self.report_each || self.free() < 8;
            let mut place = |it: &mut Self, words: [u64; 2], reports: bool| {
                let index = it.tail;
                it.tail = (index + 1) % it.count;
                it.pending.push_back((index, reports));
                match it.defect {
                    Some(Defect::TailFirst) => later.push((index, words)),
                    _ => it.store(TX_RING + u64::from(index) * 16, words),
                }
            };
            if context {
                place(
                    self,
                    TxContext { ipcss: 14, ipcso: 24, ipcse: 33, ..TxContext::default() }.pack(),
                    false,
                );
            }
            for part in 0..parts {
                let last = part + 1 == parts;
                let buffer = TX_BUFFERS + u64::from(self.tail) * 1024;
                self.memory.write_all_at(&[0xFF; 12], buffer).unwrap();
                let mut cmd = if last { tx_cmd::EOP | tx_cmd::IFCS } else { 0 };
                if self.defect == Some(Defect::NoIfcs) {
                    cmd &= !tx_cmd::IFCS;
                }
                if last && due {
                    cmd |= tx_cmd::RS | tx_cmd::IDE;
                    self.since_report = 0;
                }
                let length = 60 + self.random.below(400) as u32;
                let words = match context {
                    true => TxData { buffer, length, cmd, ..TxData::default() }.pack(),
                    false => TxLegacy { buffer, length: length as u16, cmd, ..TxLegacy::default() }.pack(),
                };
                place(self, words, last && due);
            }
            sent += 1;
        }
        self.set(0, reg::TDT, self.tail);
        for (index, words) in later {
            self.wait(2 * US);
            self.store(TX_RING + u64::from(index) * 16, words);
        }
        sent
    }

    /// Takes received frames, and hands their descriptors over.
    fn receive(&mut self) {
        if self.defect != Some(Defect::NoIcr) && self.random.below(2) == 0 {
            self.get(1, reg::ICR);
        }
        let mut tail = None;
        for _ in 0..self.random.below(32) {
            let index = self.receive_next;
            let report = RxWriteback::unpack(self.load(RX_RING + u64::from(index) * 16 + 8));
            if report.status & rx_status::DD == 0 {
                break;
            }
            self.received += 1;
            if self.defect != Some(Defect::KeepStatus) {
                self.fill(index);
            }
            tail = Some(index);
            self.receive_next = (index + 1) % self.count;
        }
        if let Some(index) = tail {
            let all = self.defect == Some(Defect::AllReceive);
            self.set(1, reg::RDT, if all { self.receive_next } else { index });
        }
    }

    /// The names of the broken rules.
    fn run(mut self, steps: u32) -> (BTreeSet<&'static str>, u64, u64) {
        let mut sent = 0;
        for _ in 0..steps {
            sent += self.send();
            let time = [1, 10, 40, 200][self.random.below(4) as usize];
            self.wait(time * US);
            self.receive();
        }
        for _ in 0..300 {
            self.wait(20 * MS);
            self.receive();
        }
        let breaches = self.cards.breaches();
        for breach in &breaches {
            println!("{}: {} × {} ({})", breach.rule.name(), breach.count, breach.sentence, breach.access);
        }
        (breaches.iter().map(|it| it.rule.name()).collect(), sent, self.received)
    }
}

#[test]
fn a_driver_by_the_manual_breaks_no_rule() {
    for chip in [Chip::I82540em, Chip::I82545em] {
        for seed in 1..=24 {
            println!("{chip}, seed {seed}");
            let (found, sent, received) = Driver::new(chip, seed, None).run(1200);
            assert_eq!(found, BTreeSet::new(), "{chip}, seed {seed}");
            assert!(sent > 500 && received > 500, "{chip}, seed {seed}: {sent} sent, {received} received");
        }
    }
}

#[test]
fn each_defect_breaks_its_rule() {
    for (defect, rule) in [
        (Defect::NoWait, Rule::TailPassesHead),
        (Defect::AllReceive, Rule::RingLooksEmpty),
        (Defect::KeepStatus, Rule::StatusSet),
        (Defect::NoIfcs, Rule::IfcsMissing),
        (Defect::TailFirst, Rule::TransmitEmpty),
        (Defect::SmallBuffers, Rule::BuffersOverlap),
        (Defect::NoLink, Rule::SluMissing),
        (Defect::NoIcr, Rule::InterruptHeld),
        (Defect::Nowhere, Rule::NoMemory),
    ] {
        let mut all = BTreeSet::new();
        for seed in 1..=6 {
            all.extend(Driver::new(Chip::I82540em, seed, Some(defect)).run(600).0);
        }
        assert!(all.contains(rule.name()), "{defect:?}: {all:?}");
        let must = Rule::ALL.iter().filter(|it| it.severity() == Severity::Must && all.contains(it.name()));
        println!("{defect:?}: {all:?}, {:?}", must.collect::<Vec<_>>());
    }
}
