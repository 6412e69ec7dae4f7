//! A card in a host with a simple bus, and the first steps of a driver.

use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::bit::{ctrl, rctl, tctl, txcw};
use kpps_datasheet::desc::{self, RxWriteback, TxLegacy, tx_cmd};
use kpps_datasheet::{Chip, Media, reg};

pub const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
pub const NS: u64 = 1_000;
pub const US: u64 = 1_000_000;
pub const RX_RING: u64 = 0x1000;
pub const TX_RING: u64 = 0x1_1000;
pub const RX_BUFFERS: u64 = 0x10_0000;
pub const TX_BUFFERS: u64 = 0x40_0000;
pub const BUFFER: u64 = 2048;
const MEMORY: usize = 0x80_0000;

/// One burst that the card made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    pub requested: u64,
    pub end: u64,
    pub kind: BurstKind,
    pub purpose: Purpose,
    pub addr: u64,
    pub bytes: u32,
}

/// 8 MB of memory at address 0, and a bus with a fixed time for each burst and byte.
pub struct Machine {
    pub memory: Vec<u8>,
    pub burst_ps: u64,
    pub byte_ps: u64,
    pub free: u64,
    pub log: Vec<Burst>,
    pub stores: Vec<(u64, usize)>,
    pub sent: Vec<(u64, Vec<u8>)>,
    pub sent_bad: usize,
}

impl Machine {
    pub fn new(burst_ps: u64, byte_ps: u64) -> Self {
        Self {
            memory: vec![0; MEMORY],
            burst_ps,
            byte_ps,
            free: 0,
            log: vec![],
            stores: vec![],
            sent: vec![],
            sent_bad: 0,
        }
    }
    pub fn word(&self, addr: u64) -> u64 {
        u64::from_le_bytes(self.memory[addr as usize..][..8].try_into().unwrap())
    }
    pub fn set_words(&mut self, addr: u64, words: [u64; 2]) {
        self.memory[addr as usize..][..8].copy_from_slice(&words[0].to_le_bytes());
        self.memory[addr as usize + 8..][..8].copy_from_slice(&words[1].to_le_bytes());
    }
    pub fn bursts(&self, purpose: Purpose) -> Vec<Burst> {
        self.log.iter().filter(|b| b.purpose == purpose).copied().collect()
    }
}

impl Host for Machine {
    fn burst(&mut self, now: u64, kind: BurstKind, purpose: Purpose, addr: u64, bytes: u32) -> u64 {
        let end = self.free.max(now) + self.burst_ps + self.byte_ps * u64::from(bytes);
        self.free = end;
        self.log.push(Burst { requested: now, end, kind, purpose, addr, bytes });
        end
    }
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool {
        let Some(end) = addr.checked_add(into.len() as u64).filter(|&e| e <= MEMORY as u64) else {
            return false;
        };
        into.copy_from_slice(&self.memory[addr as usize..end as usize]);
        true
    }
    fn store(&mut self, addr: u64, from: &[u8]) -> bool {
        let Some(end) = addr.checked_add(from.len() as u64).filter(|&e| e <= MEMORY as u64) else {
            return false;
        };
        self.memory[addr as usize..end as usize].copy_from_slice(from);
        self.stores.push((addr, from.len()));
        true
    }
    fn transmitted(&mut self, now: u64, frame: &[u8]) {
        self.sent.push((now, frame.to_vec()));
    }
    fn transmitted_bad(&mut self, _: u64, _: &[u8]) {
        self.sent_bad += 1;
    }
}

/// Card and machine.
pub struct Bench {
    pub nic: Nic,
    pub m: Machine,
    pub now: u64,
    /// The next transmit descriptor.
    pub tx: u64,
    pub ring: u64,
}

impl Bench {
    pub fn params(chip: Chip) -> Params {
        Params { link_ps: 0, ..Params::of(chip) }
    }

    /// A card with its link up, otherwise in its reset state.
    pub fn new(params: Params) -> Self {
        let fibre = params.media == Media::Fibre;
        let nic = Nic::new(params, MAC);
        let mut b = Self { nic, m: Machine::new(100 * NS, NS), now: 0, tx: 0, ring: 0 };
        if fibre {
            b.set(reg::TXCW, txcw::ANE | txcw::FD);
        }
        b.set(reg::CTRL, ctrl::SLU | ctrl::FD);
        b.run(0);
        assert_ne!(b.get(reg::STATUS) & 2, 0, "link is up");
        b.get(reg::ICR);
        b
    }

    /// A card with rings of `n` descriptors, all receive buffers in the ring, both directions enabled.
    pub fn ready(params: Params, n: u64) -> Self {
        let mut b = Self::new(params);
        b.ring = n;
        for i in 0..n {
            b.m.set_words(RX_RING + 16 * i, [RX_BUFFERS + BUFFER * i, 0]);
        }
        b.set(reg::RDBAL, RX_RING as u32);
        b.set(reg::RDLEN, 16 * n as u32);
        b.set(reg::RDT, n as u32 - 1);
        b.set(reg::TDBAL, TX_RING as u32);
        b.set(reg::TDLEN, 16 * n as u32);
        b.set(reg::RCTL, rctl::EN | rctl::BAM | rctl::SECRC);
        b.set(reg::TCTL, tctl::EN | tctl::PSP);
        b.pass(100 * US);
        b.m.log.clear();
        b
    }

    pub fn get(&mut self, offset: u32) -> u32 {
        let offset = self.nic.params().chip.offset(offset);
        self.nic.read(self.now, offset, &mut self.m)
    }
    pub fn set(&mut self, offset: u32, value: u32) {
        let offset = self.nic.params().chip.offset(offset);
        self.nic.write(self.now, offset, value, &mut self.m);
    }
    pub fn run(&mut self, until: u64) {
        self.nic.run(until, &mut self.m);
        self.now = until;
    }
    pub fn pass(&mut self, ps: u64) {
        self.run(self.now + ps);
    }
    pub fn arrive(&mut self, frame: &[u8]) {
        self.nic.frame_arrives(self.now, frame, &mut self.m);
        assert!(self.nic.tally().closes());
    }
    pub fn rx(&self, i: u64) -> RxWriteback {
        RxWriteback::unpack(self.m.word(RX_RING + 16 * i + 8))
    }
    pub fn rx_bytes(&self, i: u64, len: usize) -> &[u8] {
        &self.m.memory[(RX_BUFFERS + BUFFER * i) as usize..][..len]
    }
    /// Frames that the driver can see in the ring.
    pub fn visible(&self) -> u64 {
        (0..self.ring).filter(|&i| self.rx(i).status & desc::rx_status::DD != 0).count() as u64
    }

    /// Writes a raw transmit descriptor; the tail is not moved.
    pub fn put(&mut self, words: [u64; 2]) {
        self.m.set_words(TX_RING + 16 * self.tx, words);
        self.tx = (self.tx + 1) % self.ring;
    }
    /// Puts `data` into a new buffer and returns its address.
    pub fn buffer(&mut self, data: &[u8]) -> u64 {
        let at = TX_BUFFERS + 0x1_0000 * self.tx;
        self.m.memory[at as usize..][..data.len()].copy_from_slice(data);
        at
    }
    /// A frame in one legacy descriptor with these commands besides EOP and IFCS.
    pub fn put_frame(&mut self, data: &[u8], cmd: u8) {
        let buffer = self.buffer(data);
        let d = TxLegacy {
            buffer,
            length: data.len() as u16,
            cmd: cmd | tx_cmd::EOP | tx_cmd::IFCS,
            ..TxLegacy::default()
        };
        self.put(d.pack());
    }
    pub fn ring_doorbell(&mut self) {
        self.set(reg::TDT, self.tx as u32);
    }
    pub fn tx_done(&self, i: u64) -> bool {
        self.m.word(TX_RING + 16 * i + 8) & desc::TX_DD != 0
    }
}

/// A frame to the station, numbered, `len` bytes without FCS.
pub fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut f: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(7) ^ number).collect();
    let head: Vec<u8> = [&MAC[..], &[2, 0, 0, 0, 0, 9, 0x88, 0xB5]].concat();
    let n = head.len().min(len);
    f[..n].copy_from_slice(&head[..n]);
    f
}
