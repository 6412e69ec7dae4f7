//! A device for tests: registers that behave as during a start, rings that are served on request, and a pool
//! that tracks each buffer.
#![allow(dead_code)]
// The package has no tests, so they may use newer Rust than its `rust-version`.
#![allow(clippy::incompatible_msrv)]

use kpps_datasheet::{Chip, Media, bit, desc, eeprom, express, igb, mii, reg, stat};
use kpps_driver::{Config, Device, Error, config::*, probe};
use kpps_platform::{
    Buffer, BufferSource, DmaMemory, DmaSpec, OutOfMemory, Platform, Registers,
    wrap::{Counting, Counts},
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

pub const MAC: [u8; 6] = [0x00, 0x07, 0xE9, 0x12, 0x34, 0x56];

/// Ring memory.
#[derive(Clone, Debug)]
pub struct Memory {
    bus: u64,
    words: Arc<[AtomicU64]>,
    /// Words that the device has written and the CPU does not see yet.
    unseen: Rc<RefCell<BTreeMap<usize, u64>>>,
    examined: Rc<Cell<u64>>,
}

impl Memory {
    /// The device writes a word. The CPU sees it once the driver has synchronised it.
    pub fn write_back(&self, word: usize, value: u64) {
        self.unseen.borrow_mut().insert(word, value);
    }
}

impl DmaMemory for Memory {
    fn bus(&self) -> u64 {
        self.bus
    }
    fn words(&self) -> &[AtomicU64] {
        &self.words
    }
    fn sync_for_cpu(&self, bytes: Range<usize>) {
        assert_eq!(bytes.len(), desc::BYTES);
        self.examined.set(self.examined.get() + 1);
        for word in bytes.start / 8..bytes.end / 8 {
            if let Some(value) = self.unseen.borrow_mut().remove(&word) {
                self.words[word].store(value, Relaxed);
            }
        }
    }
    fn sync_for_device(&self, bytes: Range<usize>) {
        self.unseen.borrow_mut().retain(|word, _| !bytes.contains(&(word * 8)));
    }
}

/// The state of the bit-banged EEPROM.
#[derive(Default)]
struct Microwire {
    shifted: u32,
    bits: u32,
    out: u32,
}

/// The state of the bit-banged management interface.
#[derive(Default)]
struct Mdio {
    ones: u32,
    frame: u32,
    bits: u32,
    out: u32,
    /// The time of the last edge of the clock, in ns.
    edge_ns: u64,
}

pub struct Nic {
    pub chip: Chip,
    pub regs: RefCell<BTreeMap<u32, u32>>,
    pub phy: RefCell<[u16; 32]>,
    pub eeprom: RefCell<[u16; eeprom::SUMMED_WORDS]>,
    pub gone: Cell<bool>,
    /// The number of next reads that return all ones.
    pub ones: Cell<u32>,
    pub stuck_in_reset: Cell<bool>,
    /// The 82574's settings are never loaded after a reset.
    pub stuck_in_load: Cell<bool>,
    /// Until then the 82574's firmware keeps MDIO, in ns.
    pub firmware_until_ns: Cell<u64>,
    pub now_ns: Cell<u64>,
    /// The time of a register read, in ns.
    pub read_ns: Cell<u64>,
    /// During the next register read the device sends all that it has.
    pub sends_while_read: Cell<bool>,
    /// Future arrival times of frames, in ns.
    pub due_ns: RefCell<VecDeque<u64>>,
    /// Arrival times of received frames, in ns.
    pub waiting_ns: RefCell<VecDeque<u64>>,
    pub memories: RefCell<Vec<Memory>>,
    pub examined: Rc<Cell<u64>>,
    pub specs: RefCell<Vec<DmaSpec>>,
    pub rx_head: Cell<u32>,
    pub tx_head: Cell<u32>,
    /// Type and value of the RSS hash of the next frame.
    pub hash: Cell<(u32, u32)>,
    /// All descriptors that the device has sent, except advanced ones.
    pub sent: RefCell<Vec<desc::Tx>>,
    /// All advanced descriptors that the device has sent.
    pub sent_advanced: RefCell<Vec<[u64; 2]>>,
    wire: RefCell<Microwire>,
    mdio: RefCell<Mdio>,
}

impl Nic {
    pub fn new(chip: Chip) -> Rc<Self> {
        let mut phy = [0; 32];
        phy[mii::ID1 as usize] = 0x0141;
        phy[mii::ID2 as usize] = 0x0C20;
        let status = bit::status::FD | bit::status::LU | bit::status::SPEED_1000;
        let nic = Rc::new(Self {
            chip,
            regs: RefCell::new(BTreeMap::from([(reg::STATUS, status)])),
            phy: RefCell::new(phy),
            eeprom: RefCell::new(eeprom::image(MAC)),
            gone: Cell::new(false),
            ones: Cell::new(0),
            stuck_in_reset: Cell::new(false),
            stuck_in_load: Cell::new(false),
            firmware_until_ns: Cell::new(0),
            now_ns: Cell::new(0),
            read_ns: Cell::new(0),
            sends_while_read: Cell::new(false),
            due_ns: RefCell::default(),
            waiting_ns: RefCell::default(),
            memories: RefCell::default(),
            examined: Rc::default(),
            specs: RefCell::default(),
            rx_head: Cell::new(0),
            tx_head: Cell::new(0),
            hash: Cell::default(),
            sent: RefCell::default(),
            sent_advanced: RefCell::default(),
            wire: RefCell::default(),
            mdio: RefCell::default(),
        });
        nic.set_media(chip.media());
        nic
    }

    /// The chip on a card with this medium, on which STATUS.TBIMODE shows it, except on the 82542.
    pub fn with(chip: Chip, media: Media) -> Rc<Self> {
        let nic = Self::new(chip);
        nic.set_media(media);
        nic
    }
    fn set_media(&self, media: Media) {
        let tbi = if media == Media::Fibre && self.chip != Chip::I82542 { bit::status::TBIMODE } else { 0 };
        self.set(reg::STATUS, self.get(reg::STATUS) & !bit::status::TBIMODE | tbi);
    }
    fn is_fibre(&self) -> bool {
        self.chip == Chip::I82542 || self.get(reg::STATUS) & bit::status::TBIMODE != 0
    }

    pub fn get(&self, canonical: u32) -> u32 {
        self.regs.borrow().get(&self.chip.offset(canonical)).copied().unwrap_or(0)
    }
    pub fn set(&self, canonical: u32, value: u32) {
        self.regs.borrow_mut().insert(self.chip.offset(canonical), value);
    }

    fn read(&self, offset: u32) -> u32 {
        self.now_ns.set(self.now_ns.get() + self.read_ns.get());
        self.arrive();
        if self.sends_while_read.take() {
            self.transmit(u32::MAX);
        }
        let ones = self.ones.replace(self.ones.get().saturating_sub(1));
        if self.gone.get() || ones > 0 {
            return u32::MAX;
        }
        let mut regs = self.regs.borrow_mut();
        let is_low = |it: &stat::Statistic| it.is_64_bit && it.offset == offset;
        let is_high = |it: &stat::Statistic| it.is_64_bit && it.offset + 4 == offset;
        match offset {
            reg::ICR => regs.remove(&offset).unwrap_or(0),
            0x4000..0x4100 if stat::ALL.iter().any(is_low) => regs.get(&offset).copied().unwrap_or(0),
            0x4000..0x4100 => {
                // The high half clears both (SDM 13.7).
                if stat::ALL.iter().any(is_high) {
                    regs.remove(&(offset - 4));
                }
                regs.remove(&offset).unwrap_or(0)
            }
            reg::CTRL if self.chip == Chip::I82543gc => {
                let value = regs.get(&offset).copied().unwrap_or(0);
                let reading = value & bit::ctrl::SWDPIO2 == 0;
                let pin = if reading && self.mdio.borrow().out >> 31 != 0 { bit::ctrl::SWDPIN2 } else { 0 };
                if reading { value & !bit::ctrl::SWDPIN2 | pin } else { value }
            }
            reg::EECD => {
                let out = if self.wire.borrow().out >> 16 & 1 != 0 { bit::eecd::DO } else { 0 };
                let loaded = self.chip.is_pci_express() && !self.stuck_in_load.get();
                let loaded = if loaded { express::eecd::AUTO_RD } else { 0 };
                regs.get(&offset).copied().unwrap_or(0) & !bit::eecd::DO | out | loaded
            }
            _ => regs.get(&offset).copied().unwrap_or(0),
        }
    }

    fn write(&self, offset: u32, value: u32) {
        let old = self.regs.borrow().get(&offset).copied().unwrap_or(0);
        let value = match offset {
            reg::CTRL if value & bit::ctrl::RST != 0 => {
                self.rx_head.set(0);
                self.tx_head.set(0);
                let express = self.chip.is_pci_express();
                let quiet = old & express::ctrl::MASTER_DISABLE != 0;
                assert_eq!(quiet, express, "{}: bus requests are ended before a reset", self.chip);
                if self.chip.has_advanced() {
                    self.load_address();
                } else {
                    assert_eq!(self.owns_mdio(), express, "{}: MDIO is owned during a reset", self.chip);
                }
                match () {
                    () if self.stuck_in_reset.get() => value,
                    // Its value after a reset (SDM 13.4.1); it means nothing on copper.
                    () if self.is_fibre() => bit::ctrl::LRST,
                    () => 0,
                }
            }
            reg::CTRL => {
                if self.chip == Chip::I82543gc && (value ^ old) & bit::ctrl::SWDPIN3 != 0 {
                    self.mdio_clock(value);
                }
                value
            }
            reg::EXTCNF_CTRL if self.now_ns.get() < self.firmware_until_ns.get() => {
                value & !express::extcnf::MDIO_SW_OWNERSHIP
            }
            reg::EERD if self.chip.has_late_eerd() => {
                let word = self.eeprom.borrow()[(value >> express::eerd::ADDR_SHIFT) as usize & 0x3F];
                u32::from(word) << bit::eerd::DATA_SHIFT | value & 0xFFFC | express::eerd::DONE
            }
            reg::EERD => {
                let word = self.eeprom.borrow()[(value >> bit::eerd::ADDR_SHIFT) as usize & 0x3F];
                u32::from(word) << bit::eerd::DATA_SHIFT | value & 0xFF00 | bit::eerd::DONE
            }
            reg::EECD => {
                self.eeprom_pins(old, value);
                value
            }
            reg::MDIC => {
                let register = (value >> bit::mdic::REG_SHIFT & 31) as usize;
                assert_eq!(value >> bit::mdic::PHY_SHIFT & 31, 1, "PHY address (SDM 13.4.7)");
                assert_eq!(self.owns_mdio(), self.chip.shares_mdio(), "MDIO is owned during an access");
                if value & bit::mdic::OP_WRITE != 0 {
                    self.phy.borrow_mut()[register] = value as u16;
                }
                value & 0xFFFF_0000 | u32::from(self.phy.borrow()[register]) | bit::mdic::READY
            }
            reg::ICS => {
                let pending = self.get(reg::ICR);
                self.set(reg::ICR, pending | value);
                value
            }
            // Waiting descriptors are written back, which is a cause.
            reg::RDTR if value & bit::rdtr::FPD != 0 => {
                self.set(reg::ICR, self.get(reg::ICR) | bit::cause::RXT0);
                value
            }
            reg::IMS => old | value,
            reg::IMC => {
                let mask = self.get(reg::IMS);
                self.set(reg::IMS, mask & !value);
                value
            }
            _ => value,
        };
        self.regs.borrow_mut().insert(offset, value);
    }

    fn eeprom_pins(&self, old: u32, new: u32) {
        use bit::eecd::*;
        let mut wire = self.wire.borrow_mut();
        if new & CS == 0 {
            *wire = Microwire::default();
        } else if new & SK != 0 && old & SK == 0 {
            if wire.bits == 9 {
                wire.out <<= 1;
            } else {
                wire.shifted = wire.shifted << 1 | u32::from(new & DI != 0);
                wire.bits += 1;
                if wire.bits == 9 {
                    assert_eq!(wire.shifted >> 6, eeprom::OPCODE_READ);
                    wire.out = self.eeprom.borrow()[wire.shifted as usize & 0x3F].into();
                }
            }
        }
    }

    /// The address of the EEPROM, as an 82576 loads it in a reset.
    fn load_address(&self) {
        let [a, b, c] = *self.eeprom.borrow().first_chunk().unwrap();
        self.set(reg::RAL0, u32::from(a) | u32::from(b) << 16);
        self.set(reg::RAH0, u32::from(c) | bit::rah::AV);
    }

    fn owns_mdio(&self) -> bool {
        if self.chip.has_advanced() {
            return self.get(igb::SW_FW_SYNC) & igb::sync::PHY != 0;
        }
        self.get(reg::EXTCNF_CTRL) & express::extcnf::MDIO_SW_OWNERSHIP != 0
    }

    /// An edge of the management clock. A frame's bits count at the rising one.
    fn mdio_clock(&self, value: u32) {
        let mut m = self.mdio.borrow_mut();
        let half_ns = self.now_ns.get() - m.edge_ns;
        assert!(half_ns >= 200, "half a management clock in {half_ns} ns (IEEE 802.3, 22.2.2.11)");
        m.edge_ns = self.now_ns.get();
        if value & bit::ctrl::SWDPIN3 == 0 {
            return;
        }
        assert_ne!(value & bit::ctrl::SWDPIO3, 0, "the clock is an output");
        if value & bit::ctrl::SWDPIO2 == 0 {
            // A read: the first clock is the turnaround.
            m.out <<= 1;
            return;
        }
        let data = value & bit::ctrl::SWDPIN2 != 0;
        if m.bits == 0 && data {
            m.ones += 1;
            return;
        }
        assert!(m.ones >= 32, "preamble");
        m.frame = m.frame << 1 | u32::from(data);
        m.bits += 1;
        if m.bits == 14 && m.frame >> 10 == 0b0110 {
            assert_eq!(m.frame >> 5 & 31, 1, "PHY address");
            // One clock of turnaround, then one bit with each rising edge, highest first.
            m.out = u32::from(self.phy.borrow()[m.frame as usize & 31]) << 14;
            (m.ones, m.frame, m.bits) = (0, 0, 0);
        } else if m.bits == 32 {
            assert_eq!(m.frame >> 28, 0b0101);
            assert_eq!(m.frame >> 23 & 31, 1, "PHY address");
            assert_eq!(m.frame >> 16 & 3, 0b10, "turnaround");
            self.phy.borrow_mut()[(m.frame >> 18 & 31) as usize] = m.frame as u16;
            (m.ones, m.frame, m.bits) = (0, 0, 0);
        }
    }

    fn ring(&self, base: u32, length: u32) -> (Memory, u32) {
        let memories = self.memories.borrow();
        let bus = u64::from(self.get(base + 4)) << 32 | u64::from(self.get(base));
        let memory = memories.iter().find(|m| m.bus == bus).unwrap().clone();
        (memory, self.get(length) / 16)
    }

    /// Receive descriptors that the device owns.
    pub fn rx_owned(&self) -> u32 {
        let (_, size) = self.ring(reg::RDBAL, reg::RDLEN);
        (self.get(reg::RDT) + size - self.rx_head.get()) % size
    }

    /// The receive descriptors that the device owns.
    pub fn rx_descriptors(&self) -> Vec<[u64; 2]> {
        let (memory, size) = self.ring(reg::RDBAL, reg::RDLEN);
        let slots = (0..self.rx_owned()).map(|ahead| (self.rx_head.get() + ahead) % size);
        let word = |at: u32| memory.words[at as usize].load(Relaxed);
        slots.map(|slot| [word(2 * slot), word(2 * slot + 1)]).collect()
    }

    /// Writes one received descriptor back; false if the device owns none.
    pub fn receive(&self, wb: desc::RxWriteback) -> bool {
        if self.rx_owned() == 0 {
            return false;
        }
        let (memory, size) = self.ring(reg::RDBAL, reg::RDLEN);
        let head = self.rx_head.get();
        let at = head as usize * 2;
        assert_ne!(memory.words[at].load(Relaxed), 0, "a descriptor without buffer");
        assert_eq!(memory.words[at + 1].load(Relaxed), 0, "a descriptor not cleared");
        if self.get(reg::RFCTL) & express::rfctl::EXSTEN != 0 || self.chip.has_advanced() {
            let wb = desc::extended::Writeback {
                mrq: self.hash.get().0,
                rss: self.hash.get().1,
                status: wb.status.into(),
                errors: u16::from(wb.errors) << 4,
                length: wb.length,
                vlan: wb.special,
            };
            let [first, second] = wb.pack();
            memory.write_back(at, first);
            memory.write_back(at + 1, second);
        } else {
            memory.write_back(at + 1, wb.pack());
        }
        self.rx_head.set((head + 1) % size);
        true
    }

    /// Receives a good frame of `bytes` without FCS in one descriptor.
    pub fn receive_frame(&self, bytes: u16) -> bool {
        let fcs = if self.get(reg::RCTL) & bit::rctl::SECRC != 0 { 0 } else { 4 };
        let status = desc::rx_status::DD | desc::rx_status::EOP;
        self.receive(desc::RxWriteback { length: bytes + fcs, status, ..Default::default() })
    }

    /// Receives due frames and raises their cause. Register reads take time and call this, too.
    pub fn arrive(&self) {
        while let Some(at) = self.due_ns.borrow_mut().pop_front_if(|at| *at <= self.now_ns.get()) {
            if self.receive_frame(60) {
                self.waiting_ns.borrow_mut().push_back(at);
            }
            self.set(reg::ICR, self.get(reg::ICR) | bit::cause::RXT0);
        }
    }

    /// Sends up to `count` descriptors and reports those that request it. Returns how many.
    pub fn transmit(&self, count: u32) -> u32 {
        let (memory, size) = self.ring(reg::TDBAL, reg::TDLEN);
        let tail = self.get(reg::TDT);
        let mut done = 0;
        while done < count && self.tx_head.get() != tail {
            let head = self.tx_head.get();
            let at = head as usize * 2;
            let words = [memory.words[at].load(Relaxed), memory.words[at + 1].load(Relaxed)];
            assert_eq!(words[1] & desc::TX_DD, 0, "a descriptor not cleared");
            if self.chip.has_advanced() {
                self.sent_advanced.borrow_mut().push(words);
            } else {
                self.sent.borrow_mut().push(desc::Tx::unpack(words).unwrap());
            }
            if words[1] & desc::TX_RS != 0 {
                memory.write_back(at + 1, words[1] | desc::TX_DD);
            }
            self.tx_head.set((head + 1) % size);
            done += 1;
        }
        done
    }

    /// Overwrites a word of a ring, as a faulty device may.
    pub fn scribble(&self, ring: usize, word: usize, value: u64) {
        let memories = self.memories.borrow();
        let memory = &memories[ring % memories.len()];
        memory.words[word % memory.words.len()].store(value, Relaxed);
    }

    pub fn take_sent(&self) -> Vec<desc::Tx> {
        core::mem::take(&mut self.sent.borrow_mut())
    }
}

#[derive(Clone)]
pub struct NicRegs(Rc<Nic>);

impl Registers for NicRegs {
    fn read(&self, offset: u32) -> u32 {
        self.0.read(offset)
    }
    fn write(&self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

#[derive(Clone)]
pub struct NicPlatform<'a> {
    pub nic: Rc<Nic>,
    pub counts: &'a Counts,
}

impl<'a> Platform for NicPlatform<'a> {
    type Regs = Counting<'a, NicRegs>;
    type Mem = Memory;
    fn registers(&self) -> Self::Regs {
        Counting::new(NicRegs(self.nic.clone()), self.counts)
    }
    fn allocate(&self, spec: DmaSpec) -> Result<Memory, OutOfMemory> {
        let mut memories = self.nic.memories.borrow_mut();
        self.nic.specs.borrow_mut().push(spec);
        let memory = Memory {
            // Above 4 GiB, so that it takes both halves of a base address.
            bus: 0x6_0000_0000 + 0x10_0000 * (memories.len() as u64 + 1),
            words: (0..spec.bytes / 8).map(|_| AtomicU64::new(0)).collect(),
            unseen: Rc::default(),
            examined: self.nic.examined.clone(),
        };
        memories.push(memory.clone());
        Ok(memory)
    }
    fn now_ns(&self) -> u64 {
        self.nic.now_ns.get()
    }
    fn wait_ns(&self, ns: u64) {
        self.nic.now_ns.set(self.nic.now_ns.get() + ns);
    }
}

/// A buffer with a number.
#[derive(Debug)]
pub struct Buf {
    pub id: u32,
    /// Bytes synchronised for the device since the CPU could last write them.
    pub shown: Cell<usize>,
    bus: u64,
    data: Vec<u8>,
}

impl Buffer for Buf {
    fn bus(&self) -> u64 {
        self.bus
    }
    fn capacity(&self) -> usize {
        self.data.len()
    }
    fn bytes(&self) -> &[u8] {
        &self.data
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }
    fn sync_for_cpu(&self, len: usize) {
        assert!(len <= self.data.len());
    }
    fn sync_for_device(&self, len: usize) {
        assert!(len <= self.data.len());
        self.shown.set(len);
    }
}

/// A pool of numbered buffers that counts, and panics when a buffer is returned twice.
#[derive(Clone, Default)]
pub struct Pool {
    free: Rc<RefCell<Vec<Buf>>>,
    free_ids: Rc<RefCell<BTreeSet<u32>>>,
    pub takes: Rc<Cell<u64>>,
    pub total: Rc<Cell<usize>>,
}

impl Pool {
    pub fn new(count: u32, bytes: usize) -> Self {
        Self::at(0x1000_0000, 4096, count, bytes)
    }
    /// Buffers from address `bus` on, `step` apart.
    pub fn at(bus: u64, step: u64, count: u32, bytes: usize) -> Self {
        let pool = Self::default();
        for id in 0..count {
            pool.clone().give(Buf {
                id,
                shown: Cell::new(0),
                bus: bus + u64::from(id) * step,
                data: vec![0xAA; bytes],
            });
        }
        pool.total.set(count as usize);
        pool
    }
    pub fn available(&self) -> usize {
        self.free.borrow().len()
    }
}

impl BufferSource for Pool {
    type Buf = Buf;
    fn take(&mut self) -> Option<Buf> {
        self.takes.set(self.takes.get() + 1);
        let buffer = self.free.borrow_mut().pop()?;
        assert!(self.free_ids.borrow_mut().remove(&buffer.id));
        Some(buffer)
    }
    fn give(&mut self, buffer: Buf) {
        assert!(self.free_ids.borrow_mut().insert(buffer.id), "buffer {} came back twice", buffer.id);
        self.free.borrow_mut().push(buffer);
    }
}

pub type Dev<'a> = Device<NicPlatform<'a>, Pool>;

pub fn try_start<'a>(
    nic: &Rc<Nic>,
    counts: &'a Counts,
    config: Config,
    pool: &Pool,
) -> Result<Dev<'a>, Error> {
    probe(NicPlatform { nic: nic.clone(), counts }, nic.chip, config, pool.clone())
}

pub fn start<'a>(nic: &Rc<Nic>, counts: &'a Counts, config: Config, pool: &Pool) -> Dev<'a> {
    try_start(nic, counts, config, pool).unwrap()
}

/// Small rings with the driver's own policy.
pub fn small() -> Config {
    Config {
        rx_ring: 16,
        tx_ring: 16,
        refill: Refill { when: RefillWhen::EachFrame, group: 0, aligned: false },
        completion: Completion { report_every: 4, delay: Delay::Never },
        ..Config::kpps()
    }
}
