//! A port of a card, with the bus, the memory and the cable around it, and the faults of all of them.

use crate::audit::Audit;
use crate::buffers::Rights;
use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use crate::traffic::{self, Arrival, Cable};
use kpps_datasheet::bit::{ctrl, eerd, mdic, rctl, tctl};
use kpps_datasheet::{Chip, desc, reg};
use kpps_machine::{MS, US};
use kpps_model::{BurstKind, Host, Nic, Params, Purpose};
use kpps_platform::memory::{self, Memory};
use kpps_platform::{DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the parts of a host cost, in ps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// A register read, and a write.
    pub(crate) read_ps: u64,
    pub(crate) write_ps: u64,
    /// A burst on the bus, without and per byte.
    pub(crate) burst_ps: u64,
    pub(crate) byte_ps: u64,
}

/// Where frames are that leave the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// They have arrived: they are checked.
    Arrives {
        /// Their IPv4 header must be good.
        routed: bool,
    },
    /// Nothing is expected to leave.
    Nothing,
}

/// Something that is written to memory later.
struct Later {
    at_ps: u64,
    address: u64,
    bytes: Vec<u8>,
}

/// Bus and memory, as the card sees them.
struct Bus {
    memory: Memory,
    rights: Rc<Rights>,
    costs: Costs,
    free_ps: u64,
    /// Ring memory that the driver has now: of the receive ring, then of the transmit ring.
    rings: Rc<RefCell<Vec<Range<u64>>>>,
    later: Vec<Later>,
    leaving: Leaving,
    /// The time of what happens in the card, in ps. The host looks later.
    at_ps: u64,
    dice: Rc<Dice>,
    check: Rc<Check>,
}

impl Bus {
    /// An opportunity for a fault.
    #[inline]
    fn throws(&self, fault: Fault) -> bool {
        self.dice.throws(fault)
    }

    fn ring_at(&self, address: u64) -> Option<(usize, Range<u64>)> {
        let rings = self.rings.borrow();
        let found = rings.iter().enumerate().find(|(_, ring)| ring.contains(&address));
        found.map(|(index, ring)| (index, ring.clone()))
    }

    fn later(&mut self, fault: Fault, most_ps: u64, address: u64, bytes: &[u8]) {
        let at_ps = self.at_ps + 1 + self.dice.below(fault, most_ps);
        self.later.push(Later { at_ps, address, bytes: bytes.to_vec() });
    }

    /// When something that was delayed is written, in ps; `u64::MAX` if nothing is.
    #[inline]
    fn later_ps(&self) -> u64 {
        self.later.iter().map(|later| later.at_ps).min().unwrap_or(u64::MAX)
    }

    /// Writes what was delayed until now.
    fn catch_up(&mut self) {
        while let Some(at) = self.later.iter().position(|later| later.at_ps <= self.at_ps) {
            let Later { address, bytes, .. } = self.later.swap_remove(at);
            self.write(address, &bytes);
        }
    }

    /// Writes, if the card may write there.
    fn write(&self, address: u64, bytes: &[u8]) -> bool {
        if self.ring_at(address).is_none() && !self.rights.may_write(address, bytes.len()) {
            self.check.harm(Breach::WroteElsewhere(address));
            // The world stays as the driver knows it: only the card is wrong.
            return false;
        }
        self.memory.device_write(address, bytes)
    }

    /// Writes a receive descriptor back.
    fn write_back(&mut self, ring: Range<u64>, address: u64, from: &[u8]) -> bool {
        use Fault::*;
        let mut bytes = [0; desc::BYTES];
        let Some(part) = bytes.get_mut(..from.len()) else { return self.write(address, from) };
        part.copy_from_slice(from);
        if self.throws(LengthZero) {
            bytes[8..10].fill(0);
        } else if self.throws(LengthHuge) {
            bytes[8..10].fill(0xFF);
        } else if self.throws(ReservedBits) {
            // Bit 3 of the errors (SDM 3.2.3.2), and the packet checksum, which is not used.
            bytes[13] |= 1 << 3;
            bytes[10..12].fill(0xFF);
        }
        let bytes = &bytes[..from.len()];
        if self.throws(WriteBackLost) {
            return true;
        }
        if self.throws(WriteBackLate) {
            self.later(WriteBackLate, 200 * US, address, bytes);
            return true;
        }
        if self.throws(WriteBackTwice) {
            self.later(WriteBackTwice, 200 * US, address, bytes);
        }
        if self.throws(WrongSlot) {
            let slots = (ring.end - ring.start) / desc::BYTES as u64;
            let slot = self.dice.below(WrongSlot, slots);
            return self.write(ring.start + slot * desc::BYTES as u64, bytes);
        }
        self.write(address, bytes)
    }
}

impl Host for Bus {
    fn burst(&mut self, now_ps: u64, _: BurstKind, _: Purpose, _: u64, bytes: u32) -> u64 {
        let begin = now_ps.max(self.free_ps);
        let retry_ps =
            if self.throws(Fault::TargetRetry) { self.dice.below(Fault::TargetRetry, 5 * MS) } else { 0 };
        self.free_ps = begin + retry_ps + self.costs.burst_ps + u64::from(bytes) * self.costs.byte_ps;
        self.free_ps
    }

    fn load(&mut self, address: u64, into: &mut [u8]) -> bool {
        if self.throws(Fault::MasterAbort) {
            return false;
        }
        if self.ring_at(address).is_none() && !self.rights.may_read(address, into.len()) {
            self.check.harm(Breach::ReadElsewhere(address));
        }
        self.memory.device_read(address, into)
    }

    fn store(&mut self, address: u64, from: &[u8]) -> bool {
        if self.throws(Fault::MasterAbort) {
            return false;
        }
        match self.ring_at(address) {
            Some((0, ring)) => {
                let pieces = from.chunks(desc::BYTES);
                (address..)
                    .step_by(desc::BYTES)
                    .zip(pieces)
                    .all(|(at, piece)| self.write_back(ring.clone(), at, piece))
            }
            Some(_) if self.throws(Fault::ReportLost) => true,
            Some(_) if self.throws(Fault::ReportLate) => {
                self.later(Fault::ReportLate, 200 * US, address, from);
                true
            }
            Some(_) => self.write(address, from),
            None if self.rights.holds(address) && self.throws(Fault::DoneBeforeData) => {
                self.later(Fault::DoneBeforeData, 50 * US, address, from);
                true
            }
            None => self.write(address, from),
        }
    }

    fn transmitted(&mut self, _: u64, frame: &[u8]) {
        match self.leaving {
            // The card's own.
            _ if frame.get(12..14) == Some(&traffic::PAUSE_TYPE) => {}
            Leaving::Arrives { routed } => traffic::arrived(&self.check, frame, routed),
            Leaving::Nothing => self.check.harm(Breach::NotSent),
        }
    }
}

/// A port of a card in its slot.
pub(crate) struct Card {
    nic: Nic,
    bus: Bus,
    pub(crate) cable: Cable,
    chip: Chip,
    address: [u8; 6],
    /// When a removed card comes back; all reads return ones until then.
    back_ps: Option<u64>,
    /// All reads return ones until then.
    ones_until_ps: u64,
    /// A register that returns the same value until then.
    stuck: Option<(u32, u32, u64)>,
    phy_silent_until_ps: u64,
    eeprom_silent_until_ps: u64,
    /// Frames that cards handed over which were removed since.
    handed_over_before: u64,
    interrupts_before: u64,
    /// Writes of the receive tail and of the transmit tail so far.
    pub(crate) doorbells: [u64; 2],
    pub(crate) audit: Audit,
    params: Params,
    /// The receive tail as last written.
    pub(crate) tail: u32,
    dice: Rc<Dice>,
    check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
}

/// What a card is made of.
pub(crate) struct Parts {
    pub(crate) chip: Chip,
    /// The bus is PCI-X.
    pub(crate) pcix: bool,
    pub(crate) audit: Audit,
    pub(crate) address: [u8; 6],
    pub(crate) memory: Memory,
    pub(crate) rights: Rc<Rights>,
    pub(crate) costs: Costs,
    pub(crate) cable: Cable,
    pub(crate) leaving: Leaving,
    pub(crate) dice: Rc<Dice>,
    pub(crate) check: Rc<Check>,
    pub(crate) now_ps: Rc<Cell<u64>>,
}

impl Card {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { chip, pcix, audit, address, memory, rights, costs, cable, leaving, dice, check, now_ps } =
            parts;
        let params = Params { bus_pcix: pcix, ..Params::of(chip) };
        Self {
            nic: Nic::new(params.clone(), address),
            bus: Bus {
                memory,
                rights,
                costs,
                free_ps: 0,
                rings: Rc::default(),
                later: Vec::new(),
                leaving,
                at_ps: 0,
                dice: dice.clone(),
                check: check.clone(),
            },
            cable,
            chip,
            address,
            back_ps: None,
            ones_until_ps: 0,
            stuck: None,
            phy_silent_until_ps: 0,
            eeprom_silent_until_ps: 0,
            handed_over_before: 0,
            interrupts_before: 0,
            doorbells: [0; 2],
            audit,
            params,
            tail: 0,
            dice,
            check,
            now_ps,
        }
    }

    /// When something happens in the card or on its cable, in ps.
    #[inline]
    pub(crate) fn next_ps(&self) -> u64 {
        let own = self.back_ps.unwrap_or(self.nic.next_event_ps());
        own.min(self.cable.next_ps()).min(self.bus.later_ps())
    }

    /// Runs everything up to `until_ps`, in order of time.
    pub(crate) fn advance(&mut self, until_ps: u64) {
        while self.next_ps() <= until_ps {
            self.happen(self.next_ps());
        }
        self.bus.at_ps = until_ps;
        if self.back_ps.is_none() {
            self.nic.run(until_ps, &mut self.bus);
        }
    }

    /// What happens at this time, which is that of [`next_ps`](Self::next_ps).
    fn happen(&mut self, at_ps: u64) {
        self.bus.at_ps = at_ps;
        self.bus.catch_up();
        if self.back_ps.is_some_and(|back_ps| back_ps <= at_ps) {
            self.back_ps = None;
            self.check.note(|| "the card is back".to_owned());
            self.nic.run(at_ps, &mut self.bus);
            // Its life begins now.
            self.nic.set_link(at_ps, false);
            self.nic.set_link(at_ps, true);
        }
        if self.back_ps.is_none() {
            self.nic.run(at_ps, &mut self.bus);
        }
        if self.cable.next_ps() > at_ps {
            return;
        }
        let arrival = self.cable.happen(at_ps);
        if self.back_ps.is_some() {
            return;
        }
        match arrival {
            Arrival::Good => self.nic.frame_arrives(at_ps, self.cable.bytes(), &mut self.bus),
            Arrival::Bad => self.nic.bad_frame_arrives(at_ps, self.cable.bytes(), &mut self.bus),
            Arrival::Plugged => self.nic.set_link(at_ps, true),
            Arrival::Nothing => {}
        }
    }

    /// The level of the interrupt line, and how often it rose.
    #[inline]
    pub(crate) fn interrupts(&self) -> (bool, u64) {
        let line = self.back_ps.is_none() && self.nic.interrupt_line();
        (line, self.interrupts_before + self.nic.tally().interrupts)
    }

    /// Frames that were handed over to the driver so far.
    pub(crate) fn handed_over(&self) -> u64 {
        self.handed_over_before + self.nic.tally().to_host
    }

    /// Whether the card's account of its frames closes.
    pub(crate) fn closes(&self) -> bool {
        self.nic.tally().closes()
    }

    /// The memory of the driver's rings.
    pub(crate) fn rings(&self) -> Rc<RefCell<Vec<Range<u64>>>> {
        self.bus.rings.clone()
    }

    /// Opportunities for faults that take time.
    pub(crate) fn tick(&mut self) {
        use Fault::*;
        let now = self.now_ps.get();
        if self.back_ps.is_some() {
            return;
        }
        let until = |dice: &Dice, fault, most_ps| now + dice.below(fault, most_ps);
        let dice = self.dice.clone();
        if dice.throws(AllOnes) {
            self.ones_until_ps = until(&dice, AllOnes, 20 * MS);
        }
        if dice.throws(RegisterStuck) {
            const REGISTERS: [u32; 8] =
                [reg::CTRL, reg::STATUS, reg::ICR, reg::RCTL, reg::TCTL, reg::RDH, reg::IMS, reg::MDIC];
            let offset = self.chip.offset(REGISTERS[dice.below(RegisterStuck, 8) as usize]);
            let value = self.nic.read(now, offset, &mut self.bus);
            self.stuck = Some((offset, value, until(&dice, RegisterStuck, 20 * MS)));
        }
        if dice.throws(PhySilent) {
            self.phy_silent_until_ps = until(&dice, PhySilent, 20 * MS);
        }
        if dice.throws(EepromSilent) {
            self.eeprom_silent_until_ps = until(&dice, EepromSilent, 20 * MS);
        }
        if dice.throws(LinkFlap) {
            self.nic.set_link(now, false);
            self.cable.unplug(until(&dice, LinkFlap, 50 * MS));
        }
        if dice.throws(PauseStorm) {
            self.cable.pause(now);
        }
        let mut write =
            |register, value| self.nic.write(now, self.chip.offset(register), value, &mut self.bus);
        if dice.throws(ReceiveHeadJumps) {
            write(reg::RDH, dice.below(ReceiveHeadJumps, 64) as u32);
        }
        if dice.throws(TransmitHeadJumps) {
            write(reg::TDH, dice.below(TransmitHeadJumps, 64) as u32);
        }
        if dice.throws(SwitchedOff) {
            match dice.below(SwitchedOff, 2) {
                0 => write(reg::RCTL, rctl::BAM),
                _ => write(reg::TCTL, tctl::PSP),
            }
        }
        if dice.throws(HotReset) {
            write(reg::CTRL, ctrl::RST);
        }
        if dice.throws(Removal) {
            self.back_ps = Some(until(&dice, Removal, 100 * MS));
            self.handed_over_before += self.nic.tally().to_host;
            self.interrupts_before += self.nic.tally().interrupts;
            self.nic = Nic::new(self.params.clone(), self.address);
            self.bus.later.clear();
        }
    }

    fn read(&mut self, offset: u32) -> u32 {
        let now = self.now_ps.get() + self.bus.costs.read_ps;
        self.now_ps.set(now);
        self.advance(now);
        let faulty = self.dice.is_active();
        if self.back_ps.is_some() || faulty && now < self.ones_until_ps {
            return u32::MAX;
        }
        let value = self.nic.read(now, offset, &mut self.bus);
        if !faulty {
            return value;
        }
        if self.dice.throws(Fault::OneRead) {
            return u32::MAX;
        }
        match self.stuck {
            Some((register, old, until)) if register == offset && now < until => return old,
            _ => {}
        }
        let is = |register| offset == self.chip.offset(register);
        if is(reg::MDIC) && now < self.phy_silent_until_ps {
            return value & !mdic::READY;
        }
        if is(reg::EERD) && now < self.eeprom_silent_until_ps {
            return value & !eerd::DONE;
        }
        value
    }

    fn write(&mut self, offset: u32, value: u32) {
        if offset == self.chip.offset(reg::RDT) {
            self.doorbells[0] += 1;
            self.tail = value;
        } else if offset == self.chip.offset(reg::TDT) {
            self.doorbells[1] += 1;
            let ring = self.bus.rings.borrow().get(1).cloned();
            if let Some(ring) = ring {
                self.audit.handed_over(&self.bus.memory, ring, value);
            }
        } else if offset == self.chip.offset(reg::TDH) {
            // Only to set the ring up.
            self.audit.restart();
        }
        let now = self.now_ps.get() + self.bus.costs.write_ps;
        self.now_ps.set(now);
        self.advance(now);
        if self.back_ps.is_none() {
            self.nic.write(now, offset, value, &mut self.bus);
        }
    }
}

/// The registers of a card.
#[derive(Clone)]
pub(crate) struct Window(pub(crate) Rc<RefCell<Card>>);

impl Registers for Window {
    fn read(&self, offset: u32) -> u32 {
        self.0.borrow_mut().read(offset)
    }
    fn write(&self, offset: u32, value: u32) {
        self.0.borrow_mut().write(offset, value);
    }
}

/// A ring's memory.
pub(crate) struct RingMemory {
    words: memory::RingMemory,
    /// What the CPU has of it in its cache, where caches do not follow the card by themselves.
    cache: Option<Box<[AtomicU64]>>,
    slot: Slot,
}

impl RingMemory {
    fn range(&self) -> Range<u64> {
        self.words.bus()..self.words.bus() + 8 * self.words.words().len() as u64
    }
}

impl DmaMemory for RingMemory {
    fn bus(&self) -> u64 {
        self.words.bus()
    }
    fn words(&self) -> &[AtomicU64] {
        self.cache.as_deref().unwrap_or(self.words.words())
    }
    fn sync_for_cpu(&self, bytes: Range<usize>) {
        if let Some(cache) = &self.cache {
            copy(self.words.words(), cache, bytes);
        }
    }
    fn sync_for_device(&self, bytes: Range<usize>) {
        if let Some(cache) = &self.cache {
            copy(cache, self.words.words(), bytes);
        }
    }
}

/// Copies a range of bytes, a multiple of words.
fn copy(from: &[AtomicU64], to: &[AtomicU64], bytes: Range<usize>) {
    let words = bytes.start / 8..bytes.end / 8;
    for (from, to) in from[words.clone()].iter().zip(&to[words]) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        let range = self.range();
        self.slot.rings.borrow_mut().retain(|ring| *ring != range);
    }
}

/// What a driver needs of its environment: the slot of a card.
#[derive(Clone)]
pub(crate) struct Slot {
    card: Rc<RefCell<Card>>,
    memory: Memory,
    rings: Rc<RefCell<Vec<Range<u64>>>>,
    /// Caches follow what the card writes by themselves.
    coherent: bool,
    dice: Rc<Dice>,
    now_ps: Rc<Cell<u64>>,
    /// How far the driver's clock is ahead, in ps.
    pub(crate) ahead_ps: Rc<Cell<u64>>,
}

impl Slot {
    pub(crate) fn new(
        card: &Rc<RefCell<Card>>,
        (memory, coherent): (&Memory, bool),
        dice: &Rc<Dice>,
        now: &Rc<Cell<u64>>,
    ) -> Self {
        Self {
            card: card.clone(),
            memory: memory.clone(),
            rings: card.borrow().rings(),
            coherent,
            dice: dice.clone(),
            now_ps: now.clone(),
            ahead_ps: Rc::default(),
        }
    }
}

/// Rings do not cross 64 KiB, so that any chip takes any of them.
const BOUNDARY: u64 = 1 << 16;

impl Platform for Slot {
    type Regs = Window;
    type Mem = RingMemory;

    fn registers(&self) -> Window {
        Window(self.card.clone())
    }

    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        if self.dice.throws(Fault::NoRingMemory) {
            return Err(OutOfMemory);
        }
        let words = self.memory.ring(DmaSpec { boundary: Some(BOUNDARY), ..spec })?;
        let cache = (!self.coherent).then(|| words.words().iter().map(|_| AtomicU64::new(0)).collect());
        let memory = RingMemory { words, cache, slot: self.clone() };
        self.rings.borrow_mut().push(memory.range());
        Ok(memory)
    }

    fn now_ns(&self) -> u64 {
        (self.now_ps.get() + self.ahead_ps.get()) / 1000
    }

    fn wait_ns(&self, ns: u64) {
        let until = self.now_ps.get() + ns * 1000;
        self.now_ps.set(until);
        self.card.borrow_mut().advance(until);
    }
}
