//! A port of a card, with the bus, the memory and the cable around it, and the faults of all of them.

use crate::audit::Audit;
use crate::buffers::Rights;
use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use crate::host::Costs;
use crate::plan::WorldPlan;
use crate::traffic::{self, Arrival, Cable, Looks};
use fastrand::Rng;
use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::bit::{ctrl, eerd, mdic, rctl, tctl};
use kpps_datasheet::desc::{rx_error, rx_status};
use kpps_datasheet::{Chip, Erratum, Media, desc, reg};
use kpps_frames::Size;
use kpps_host::{MS, US};
use kpps_platform::memory::{self, Memory};
use kpps_platform::{DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where frames are that leave the card.
#[derive(Clone)]
pub(crate) enum Leaving {
    /// They have arrived, and look like this: they are checked.
    Arrives(Looks),
    /// At a stack, which takes them from here.
    Stack(Rc<RefCell<VecDeque<Vec<u8>>>>),
    /// Nothing is expected to leave.
    Nothing,
}

/// Something that is written to memory later.
struct Later {
    at_ps: u64,
    address: u64,
    bytes: Vec<u8>,
}

/// Lengths in receive descriptors that no frame has.
#[derive(Clone, Copy)]
struct Lengths {
    /// Up to this one there is nothing but an FCS.
    shortest: u16,
    /// This one and above are longer than a frame may be, or a buffer.
    longest: u16,
}

impl Lengths {
    fn of(plan: &WorldPlan) -> Self {
        let config = &plan.config;
        let strips = config.strip_fcs && plan.chip.has_fcs_strip();
        // A frame in several buffers may end with a part of its FCS.
        let whole = config.rx_buffer_bytes > config.max_frame_bytes;
        Self {
            shortest: if strips || !whole { 0 } else { Size::FCS_BYTES },
            longest: config.rx_buffer_bytes.min(config.max_frame_bytes) + 1,
        }
    }
}

/// Bus and memory, as the card sees them.
struct Bus {
    memory: Memory,
    rights: Rc<Rights>,
    costs: Costs,
    free_ps: u64,
    lengths: Lengths,
    /// Descriptors with errors so far, and receive descriptors written back.
    errors: usize,
    written: u64,
    /// Receive descriptors without the end of a frame that were written since the ring was set up.
    unended: u64,
    /// Ring memory that the driver has now: of the receive ring, then of the transmit ring.
    rings: Rc<RefCell<Vec<Range<u64>>>>,
    later: Vec<Later>,
    leaving: Leaving,
    /// The time of the events in the card, in ps. The host looks later.
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

    /// Performs the delayed writes that are due.
    fn catch_up(&mut self) {
        while let Some(at) = self.later.iter().position(|later| later.at_ps <= self.at_ps) {
            let Later { address, bytes, .. } = self.later.swap_remove(at);
            self.write(address, &bytes);
        }
    }

    /// Writes, if the card may write there.
    fn write(&mut self, address: u64, bytes: &[u8]) -> bool {
        match self.ring_at(address) {
            Some((0, _)) => {
                let is_last = bytes.get(12).is_some_and(|status| status & rx_status::EOP != 0);
                self.unended += u64::from(!is_last);
            }
            None if !self.rights.may_write(address, bytes.len()) => {
                self.check.harm(Breach::WroteElsewhere(address));
                // The world stays as the driver knows it: only the card is wrong.
                return false;
            }
            _ => {}
        }
        self.memory.device_write(address, bytes)
    }

    /// Writes a receive descriptor back.
    fn write_back(&mut self, ring: Range<u64>, address: u64, from: &[u8]) -> bool {
        use Fault::*;
        let mut bytes = [0; desc::BYTES];
        let Some(part) = bytes.get_mut(..from.len()) else { return self.write(address, from) };
        part.copy_from_slice(from);
        let is_last = bytes[12] & rx_status::EOP != 0;
        let mut put_length = |length: u16| bytes[8..10].copy_from_slice(&length.to_le_bytes());
        if self.throws(LengthZero) {
            let length = self.dice.below(LengthZero, u64::from(self.lengths.shortest) + 1) as u16;
            // A short part before the last is no nonsense: QEMU's 82574L has them.
            put_length(if is_last { length } else { 0 });
        } else if self.throws(LengthHuge) {
            put_length([u16::MAX, self.lengths.longest][self.dice.below(LengthHuge, 2) as usize]);
        } else if self.throws(ReservedBits) {
            // Bit 3 of the errors (SDM 3.2.3.2), and the packet checksum, which is not used.
            bytes[13] |= 1 << 3;
            bytes[10..12].fill(0xFF);
        }
        if !is_last {
            // Only the end of a frame has errors, a tag, and most bits of the status (SDM 3.2.3.1 to
            // 3.2.3.3).
            bytes[12] |= !(rx_status::DD | rx_status::EOP | rx_status::IXSM);
            bytes[13..16].fill(0xFF);
        } else if bytes[13] & rx_error::CE != 0 {
            use rx_error::{CE, CXE, RXE, SE, SEQ};
            self.errors += 1;
            bytes[13] = bytes[13] & !CE | [CE, SE, SEQ, CXE, RXE][self.errors % 5];
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
        self.written += 1;
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
        match &self.leaving {
            // The card's own.
            _ if frame.get(12..14) == Some(&traffic::PAUSE_TYPE) => {}
            Leaving::Arrives(looks) => traffic::arrived(&self.check, frame, *looks),
            Leaving::Stack(letters) => letters.borrow_mut().push_back(frame.to_vec()),
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
    stores_bad: bool,
    /// The highest speed that the link partner offers.
    partner_mbps: u16,
    /// The register that was read last, if nothing was written since, and its value.
    last_read: Option<(u32, u32)>,
    /// Writes of registers so far.
    pub(crate) writes: u64,
    /// How often the driver has set up the receive ring.
    pub(crate) set_up: u64,
    random: Rng,
    address: [u8; 6],
    /// When a removed card comes back; all reads return ones until then.
    back_ps: Option<u64>,
    /// All reads return ones until this time, or until the world ends that state earlier.
    ones_until_ps: u64,
    gone: bool,
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

/// The parts of a card.
pub(crate) struct Parts<'p> {
    pub(crate) plan: &'p WorldPlan,
    pub(crate) audit: Audit,
    pub(crate) address: [u8; 6],
    pub(crate) memory: Memory,
    pub(crate) rights: Rc<Rights>,
    pub(crate) cable: Cable,
    pub(crate) leaving: Leaving,
    pub(crate) dice: Rc<Dice>,
    pub(crate) check: Rc<Check>,
    pub(crate) now_ps: Rc<Cell<u64>>,
}

impl Card {
    pub(crate) fn new(parts: Parts<'_>) -> Self {
        let Parts { plan, audit, address, memory, rights, cable, leaving, dice, check, now_ps } = parts;
        let params = Params { bus_pcix: plan.pcix, link_ps: plan.link_ps, ..Params::of(plan.chip) };
        let mut card = Self {
            nic: Nic::new(params.clone(), address),
            partner_mbps: plan.speed_mbps,
            last_read: None,
            writes: 0,
            set_up: 0,
            random: Rng::with_seed(plan.seed),
            bus: Bus {
                memory,
                rights,
                costs: plan.costs,
                free_ps: 0,
                lengths: Lengths::of(plan),
                errors: 0,
                written: 0,
                unended: 0,
                rings: Rc::default(),
                later: Vec::new(),
                leaving,
                at_ps: 0,
                dice: dice.clone(),
                check: check.clone(),
            },
            cable,
            chip: plan.chip,
            stores_bad: plan.stores_bad,
            address,
            back_ps: None,
            ones_until_ps: 0,
            gone: false,
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
        };
        card.set_partner_speed(0, plan.speed_mbps);
        card
    }

    /// The link partner offers at most this speed from now on.
    fn set_partner_speed(&mut self, now_ps: u64, mbps: u16) {
        self.partner_mbps = mbps;
        self.nic.set_partner(now_ps, mbps, true);
    }

    /// The speed of the link in Mb/s; while the link is down, the speed that it will have.
    pub(crate) fn mbps(&self) -> u16 {
        match self.params.media {
            Media::Copper => self.nic.link_mbps().unwrap_or(self.partner_mbps),
            Media::Fibre => 1000,
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

    /// Performs the events of this time, which is the time of [`next_ps`](Self::next_ps).
    fn happen(&mut self, at_ps: u64) {
        self.bus.at_ps = at_ps;
        self.bus.catch_up();
        if self.back_ps.is_some_and(|back_ps| back_ps <= at_ps) {
            self.back_ps = None;
            self.check.note(|| "the card is back".to_owned());
            self.nic.run(at_ps, &mut self.bus);
            // Its life begins now.
            self.nic.set_partner(at_ps, self.partner_mbps, true);
            self.nic.set_link(at_ps, false);
            self.nic.set_link(at_ps, true);
        }
        if self.back_ps.is_none() {
            self.nic.run(at_ps, &mut self.bus);
        }
        if self.cable.next_ps() > at_ps {
            return;
        }
        let arrival = self.cable.happen(at_ps, self.mbps());
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

    /// The address in its EEPROM.
    pub(crate) fn address(&self) -> [u8; 6] {
        self.address
    }

    /// Receive descriptors that were written back so far.
    pub(crate) fn written(&self) -> u64 {
        self.bus.written
    }

    /// Receive descriptors without the end of a frame that were written since the driver set up the ring.
    pub(crate) fn unended(&self) -> u64 {
        self.bus.unended
    }

    /// Writes a register behind the driver's back.
    pub(crate) fn poke(&mut self, register: u32, value: u32) {
        self.nic.write(self.now_ps.get(), self.chip.offset(register), value, &mut self.bus);
    }

    /// Writes to the ring behind the driver's back: to byte `at`.
    pub(crate) fn scribble(&mut self, which: usize, at: u64, bytes: &[u8]) {
        if let Some(ring) = self.bus.rings.borrow().get(which) {
            self.bus.memory.device_write(ring.start + at, bytes);
        }
    }

    /// Frames that leave the card go there from now on.
    pub(crate) fn set_leaving(&mut self, leaving: Leaving) {
        self.bus.leaving = leaving;
    }

    /// Whether all registers read as all ones from now on.
    pub(crate) fn set_gone(&mut self, gone: bool) {
        self.gone = gone;
    }

    /// The frames that the card did not hand over, in words.
    pub(crate) fn dropped(&self) -> String {
        format!("{:?}, link {} Mb/s", self.nic.tally().dropped, self.mbps())
    }

    /// Frames for which its receive FIFO had no room, because the bus was too slow.
    pub(crate) fn overruns(&self) -> u64 {
        self.nic.tally().dropped.fifo_engine
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
        if dice.throws(SpeedChange) {
            let mbps = [10, 100, 100, 1000, 1000, 1000][dice.below(SpeedChange, 6) as usize];
            self.set_partner_speed(now, mbps);
        }
        if self.cable.is_going() && dice.throws(FifoOverrun) {
            self.bus.free_ps = self.bus.free_ps.max(now + MS);
            self.cable.rush(now);
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
        let value = self.read_value(offset);
        self.last_read = Some((offset, value));
        value
    }

    fn read_value(&mut self, offset: u32) -> u32 {
        let Costs { mut read_ps, uneven, .. } = self.bus.costs;
        if uneven {
            read_ps += self.random.u64(..=read_ps);
        }
        let now = self.now_ps.get() + read_ps;
        self.now_ps.set(now);
        self.advance(now);
        let faulty = self.dice.is_active();
        if self.back_ps.is_some() || self.gone || faulty && now < self.ones_until_ps {
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
            Some((register, old, until)) if register == offset && now < until => {
                // Software that changes CTRL then writes it back with the wrong bit. Tags are wrong until the
                // link is up and the driver sets the bit again.
                if register == self.chip.offset(reg::CTRL) && (old ^ value) & ctrl::VME != 0 {
                    self.check.set_lied(true);
                }
                return old;
            }
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

    fn write(&mut self, offset: u32, mut value: u32) {
        self.writes += 1;
        let last = self.last_read.take();
        let ring = |which: usize| self.bus.rings.borrow().get(which).cloned();
        if offset == self.chip.offset(reg::RDT) {
            self.doorbells[0] += 1;
            self.tail = value;
            if let Some(ring) = ring(0) {
                self.audit.refilled(&self.bus.memory, ring, value);
            }
        } else if offset == self.chip.offset(reg::TDT) {
            self.doorbells[1] += 1;
            if let Some(ring) = ring(1) {
                self.audit.handed_over(&self.bus.memory, ring, value);
            }
        } else if offset == self.chip.offset(reg::TDH) {
            // Only to set the ring up.
            self.audit.restart(&self.bus.memory, ring(1));
        } else if offset == self.chip.offset(reg::RDH) {
            self.audit.restart_receiver(&self.bus.memory, ring(0));
            (self.set_up, self.bus.unended) = (self.set_up + 1, 0);
        } else if offset == self.chip.offset(reg::RCTL) && self.stores_bad {
            value |= rctl::SBP;
        }
        let now = self.now_ps.get() + self.bus.costs.write_ps;
        self.now_ps.set(now);
        self.advance(now);
        if self.back_ps.is_none() {
            if let Some((_, value)) = last.filter(|(register, _)| *register == offset) {
                self.change(now, offset, value);
            }
            self.nic.write(now, offset, value, &mut self.bus);
        }
    }

    /// The driver has read a register and is about to write it again: another agent may change it in between.
    fn change(&mut self, now: u64, offset: u32, value: u32) {
        let bits: &[u32] = if offset == self.chip.offset(reg::CTRL) {
            &[ctrl::SLU, ctrl::LRST, ctrl::RFCE, ctrl::VME, ctrl::FD, ctrl::SLU | ctrl::LRST]
        } else if offset == self.chip.offset(reg::TCTL) {
            &[tctl::EN, tctl::PSP]
        } else {
            return;
        };
        if self.dice.throws(Fault::RegisterChanges) {
            let which = self.dice.below(Fault::RegisterChanges, bits.len() as u64);
            let changed = (value & !ctrl::RST) ^ bits[which as usize];
            self.nic.write(now, offset, changed, &mut self.bus);
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

/// The mistake in a ring's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Misfit {
    Nothing,
    /// It is a word too short.
    Short,
    /// It does not begin where a descriptor may.
    Askew,
}

/// A ring's memory.
pub(crate) struct RingMemory {
    words: memory::RingMemory,
    misfit: Misfit,
    /// The CPU's cached copy of the memory, where caches are not coherent with the card.
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
        self.words.bus() + if self.misfit == Misfit::Askew { 8 } else { 0 }
    }
    fn words(&self) -> &[AtomicU64] {
        let words = self.cache.as_deref().unwrap_or(self.words.words());
        &words[usize::from(self.misfit == Misfit::Short)..]
    }
    fn sync_for_cpu(&self, bytes: Range<usize>) {
        self.slot.now_ps.set(self.slot.now_ps.get() + self.slot.miss_ps);
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

/// A driver's environment: the slot of a card.
#[derive(Clone)]
pub(crate) struct Slot {
    card: Rc<RefCell<Card>>,
    memory: Memory,
    rings: Rc<RefCell<Vec<Range<u64>>>>,
    /// Caches are coherent with the card's writes.
    coherent: bool,
    /// The time of a read of a descriptor.
    miss_ps: u64,
    dice: Rc<Dice>,
    pub(crate) now_ps: Rc<Cell<u64>>,
    /// How far the driver's clock is ahead, in ps.
    pub(crate) ahead_ps: Rc<Cell<u64>>,
    /// Ring memory was given out that no driver can use.
    pub(crate) misfits: Rc<Cell<bool>>,
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
            miss_ps: card.borrow().bus.costs.miss_ps,
            dice: dice.clone(),
            now_ps: now.clone(),
            ahead_ps: Rc::default(),
            misfits: Rc::default(),
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
        let no_crossing = self.card.borrow().chip.has(Erratum::No64KCrossing);
        if spec.align < desc::BYTES || no_crossing && spec.boundary != Some(BOUNDARY) {
            self.card.borrow().check.breach(Breach::Descriptor("a ring where the chip cannot have one"));
        }
        let misfit = if self.dice.throws(Fault::NoRingMemory) {
            match self.dice.below(Fault::NoRingMemory, 3) {
                0 => return Err(OutOfMemory),
                1 => Misfit::Short,
                _ => Misfit::Askew,
            }
        } else {
            Misfit::Nothing
        };
        self.misfits.set(self.misfits.get() || misfit != Misfit::Nothing);
        let words = self.memory.ring(DmaSpec { boundary: Some(BOUNDARY), ..spec })?;
        let cache = (!self.coherent).then(|| words.words().iter().map(|_| AtomicU64::new(0)).collect());
        let memory = RingMemory { words, misfit, cache, slot: self.clone() };
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
