//! The cost of the model itself: wall time per frame received and sent.

use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::bit::{ctrl, rctl, tctl, txcw};
use kpps_datasheet::{Chip, reg};
use std::hint::black_box;
use std::time::Instant;

const NS: u64 = 1_000;
const RING: u64 = 256;
const RX_RING: u64 = 0x1000;
const TX_RING: u64 = 0x3000;
const BUFFERS: u64 = 0x1_0000;
const MEMORY: usize = 0x10_0000;

struct Machine {
    memory: Vec<u8>,
    free: u64,
    sent: u64,
}

impl Host for Machine {
    fn burst(&mut self, now: u64, _: BurstKind, _: Purpose, _: u64, bytes: u32) -> u64 {
        self.free = self.free.max(now) + 60 * NS + u64::from(bytes.div_ceil(8)) * 15 * NS;
        self.free
    }
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool {
        let at = addr as usize;
        let Some(from) = self.memory.get(at..at + into.len()) else { return false };
        into.copy_from_slice(from);
        true
    }
    fn store(&mut self, addr: u64, from: &[u8]) -> bool {
        let at = addr as usize;
        let Some(to) = self.memory.get_mut(at..at + from.len()) else { return false };
        to.copy_from_slice(from);
        true
    }
    fn transmitted(&mut self, _: u64, frame: &[u8]) {
        self.sent += black_box(frame.len() as u64);
    }
}

fn card(chip: Chip) -> (Nic, Machine) {
    let mut nic = Nic::new(Params { link_ps: 0, ..Params::of(chip) }, [2, 0, 0, 0, 0, 1]);
    let mut m = Machine { memory: vec![0; MEMORY], free: 0, sent: 0 };
    for i in 0..RING {
        let at = (RX_RING + 16 * i) as usize;
        m.memory[at..at + 8].copy_from_slice(&(BUFFERS + 2048 * i).to_le_bytes());
        let at = (TX_RING + 16 * i) as usize;
        m.memory[at..at + 8].copy_from_slice(&(BUFFERS + 2048 * i).to_le_bytes());
        // 60 bytes, EOP, IFCS, and RS on every 16th.
        let rs = if i % 16 == 15 { 8 } else { 0 };
        m.memory[at + 8..at + 16].copy_from_slice(&(60u64 | (3 | rs) << 24).to_le_bytes());
    }
    for (offset, value) in [
        (reg::TXCW, txcw::ANE),
        (reg::CTRL, ctrl::SLU),
        (reg::RDBAL, RX_RING as u32),
        (reg::RDLEN, 16 * RING as u32),
        (reg::RDT, RING as u32 - 1),
        (reg::TDBAL, TX_RING as u32),
        (reg::TDLEN, 16 * RING as u32),
        (reg::RCTL, rctl::EN | rctl::UPE),
        (reg::TCTL, tctl::EN),
    ] {
        nic.write(0, chip.offset(offset), value, &mut m);
    }
    (nic, m)
}

fn receive(chip: Chip, gap_ns: u64, frames: u64) {
    let (mut nic, mut m) = card(chip);
    let frame = [6u8; 60];
    let begin = Instant::now();
    let mut now = 1_000_000 * NS;
    for i in 0..frames {
        now += gap_ns * NS;
        nic.frame_arrives(now, &frame, &mut m);
        if i % 32 == 0 {
            let tail = (nic.read(now, chip.offset(reg::RDH), &mut m) + RING as u32 - 1) % RING as u32;
            nic.write(now, chip.offset(reg::RDT), tail, &mut m);
        }
    }
    let spent = begin.elapsed().as_nanos() as f64;
    let t = nic.tally();
    assert!(t.closes());
    println!(
        "receive {chip:8} one frame in {gap_ns:4} ns: {:5.1} ns each ({} to host, {} missed)",
        spent / frames as f64,
        t.to_host,
        t.dropped.total()
    );
}

fn transmit(chip: Chip, frames: u64) {
    let (mut nic, mut m) = card(chip);
    let begin = Instant::now();
    let mut now = 1_000_000 * NS;
    let mut tail = 0;
    let mut given = 0;
    while nic.tally().transmitted < frames {
        let head = u64::from(nic.read(now, chip.offset(reg::TDH), &mut m));
        let free = (head + RING - tail - 1) % RING;
        tail = (tail + free) % RING;
        given += free;
        nic.write(now, chip.offset(reg::TDT), tail as u32, &mut m);
        now += 50_000 * NS;
        nic.run(now, &mut m);
    }
    let spent = begin.elapsed().as_nanos() as f64;
    println!("transmit {chip:8}: {:5.1} ns each ({given} given)", spent / nic.tally().transmitted as f64);
}

fn main() {
    for chip in [Chip::I82542, Chip::I82543gc, Chip::I82546eb] {
        receive(chip, 672, 3_000_000);
        receive(chip, 3_000, 1_000_000);
        transmit(chip, 1_000_000);
    }
}
