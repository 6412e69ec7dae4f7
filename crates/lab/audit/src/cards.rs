//! Models of cards on their cables, with everything counted that a driver does to them. A state machine: it
//! has no clock, no thread and no QEMU.

use crate::memory::Memory;
use crate::msix::{self, Table};
use crate::pci::Config;
use crate::rules::{Abort, Breach, Rules, name_on};
use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::bit::{ctrl, rctl, status};
use kpps_datasheet::{Chip, Media, reg};
use kpps_frames::{Mac, rate};
use kpps_host::bus::{self, Bus, Master, Request, What};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::ops::Range;

/// Frames that may wait in a card before its source offers another one.
const ROOM: u64 = 4;
/// How soon a source that waits looks again, in ps.
const AGAIN_PS: u64 = 20_000_000;
/// The speed of the wire in Mb/s while the link is down.
const DOWN_MBPS: u16 = 1000;

/// The space of a card that is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The configuration space.
    Configuration,
    /// The registers (BAR 0).
    Registers,
    /// The I/O window (BAR 2).
    Window,
    /// The MSI-X table and the pending bits (BAR 3), if the chip has MSI-X.
    Table,
}

/// The other end of a card's cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cable {
    /// Nothing: sent frames are counted and dropped.
    Open,
    /// Another card.
    To(usize),
}

/// The next frame of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame, which is in the buffer.
    Frame,
    /// No frame for now.
    Later,
    /// No frame follows.
    End,
}

/// A frame on its way to a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coming {
    /// The frame without FCS.
    pub frame: Vec<u8>,
    /// Whether its FCS is right.
    pub good_fcs: bool,
}

/// The other end of a card's cable, in the cards' time. All times are in ps and never decrease.
pub trait Partner: Send {
    /// Takes a frame that the card sent, without FCS.
    fn take(&mut self, now_ps: u64, frame: &[u8], good_fcs: bool);
    /// The next frame to the card, if one is due at `now_ps`. If there is none, the next due time is later.
    fn next(&mut self, now_ps: u64) -> Option<Coming>;
    /// When the next frame is due; `u64::MAX` if none is.
    fn due_ps(&self) -> u64;
}

/// Gives the next frame into an empty buffer.
pub type Offer = Box<dyn FnMut(&mut Vec<u8>) -> Next + Send>;
/// Takes each frame that a card sent.
pub type Sink = Box<dyn FnMut(&[u8]) + Send>;

/// Counts of accesses to cards, and of the cards' actions, since their creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of registers, by name.
    pub reads: BTreeMap<String, u64>,
    /// Writes of registers, by name.
    pub writes: BTreeMap<String, u64>,
    /// How often the interrupt line rose.
    pub interrupts: u64,
    /// Bursts by [`What`], as its numbers: of the cards.
    pub bursts: [u64; What::ALL.len()],
    /// Time in ps for which the buses were occupied, register accesses included.
    pub bus_ps: u64,
    /// Frames that left.
    pub sent: u64,
    /// Of these, frames whose FCS came from software and was wrong.
    pub sent_bad_fcs: u64,
    /// Frames that were stored in the guest's memory.
    pub stored: u64,
    /// Frames that arrived.
    pub arrived: u64,
    /// Frames that cards dropped: filtered, damaged, without room.
    pub dropped: u64,
}

impl Counts {
    /// `count` for each frame that was sent or stored; `None` without a frame.
    pub fn per_frame(&self, count: u64) -> Option<f64> {
        let frames = self.sent + self.stored;
        (frames > 0).then(|| count as f64 / frames as f64)
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            let rest = now.iter().map(|(name, count)| {
                (name.clone(), count - before.get(name).copied().unwrap_or(0).min(*count))
            });
            rest.filter(|(_, count)| *count > 0).collect()
        };
        let mut bursts = self.bursts;
        bursts.iter_mut().zip(before.bursts).for_each(|(now, before)| *now -= before);
        Self {
            reads: less(&self.reads, &before.reads),
            writes: less(&self.writes, &before.writes),
            interrupts: self.interrupts - before.interrupts,
            bursts,
            bus_ps: self.bus_ps - before.bus_ps,
            sent: self.sent - before.sent,
            sent_bad_fcs: self.sent_bad_fcs - before.sent_bad_fcs,
            stored: self.stored - before.stored,
            arrived: self.arrived - before.arrived,
            dropped: self.dropped - before.dropped,
        }
    }
}

/// The environment of a model: bus, memory and wire.
struct Around {
    memory: Memory,
    bus: Bus,
    is_master: bool,
    bursts: [u64; What::ALL.len()],
    rules: Rules,
    /// Frames that have left, each with its time.
    sent: VecDeque<(u64, Coming)>,
    sent_bad_fcs: u64,
    /// The next report of sent frames is to end with a master abort.
    aborts_report: bool,
    /// The rest of the memory of the one that does.
    aborted: Range<u64>,
    /// A read, or a write, ended with a master abort.
    has_aborted_read: bool,
    has_aborted_write: bool,
}

impl Around {
    /// Why an access to memory fails, unless it was there.
    fn master_abort(&self, there: bool) -> Option<Abort> {
        match (there, self.is_master) {
            (true, _) => None,
            (false, true) => Some(Abort::NoMemory),
            (false, false) => Some(Abort::NotMaster),
        }
    }

    fn leaves(&mut self, now_ps: u64, frame: &[u8], good_fcs: bool) {
        self.rules.sent(frame, good_fcs);
        self.sent_bad_fcs += u64::from(!good_fcs);
        self.sent.push_back((now_ps, Coming { frame: frame.to_vec(), good_fcs }));
    }
}

impl Host for Around {
    fn burst(&mut self, now_ps: u64, _: BurstKind, purpose: Purpose, address: u64, bytes: u32) -> u64 {
        let what = What::from(purpose);
        self.bursts[what as usize] += 1;
        if purpose == Purpose::TxWriteBack {
            let is_aborted = std::mem::take(&mut self.aborts_report);
            let lost = if is_aborted { u64::from(bytes) } else { 0 };
            self.aborted = address..address.saturating_add(lost);
        }
        self.bus.transfer(now_ps, Request { master: Master::Card(0), what, address, bytes })
    }

    fn load(&mut self, address: u64, into: &mut [u8]) -> bool {
        let there = self.is_master && self.memory.load(address, into);
        self.rules.loaded(address, into, self.master_abort(there));
        // A card that is no master does not begin an access.
        self.has_aborted_read |= self.is_master && !there;
        there
    }

    fn store(&mut self, address: u64, from: &[u8]) -> bool {
        if self.aborted.contains(&address) {
            // No fault of the driver. A write of the status byte alone is shorter than its burst.
            let end = address.saturating_add(from.len() as u64);
            self.aborted.start = if from.len() > 1 { end } else { self.aborted.end };
            self.has_aborted_write |= self.is_master;
            return false;
        }
        if self.is_master && self.rules.is_write_back(address, from.len()) {
            let mut old = [0; 64];
            let old = &mut old[..from.len().clamp(16, 64)];
            if self.memory.load(address & !0xF, old) {
                self.rules.write_back(address, old);
            }
        }
        let there = self.is_master && self.memory.store(address, from);
        self.rules.stored(address, from, self.master_abort(there));
        self.has_aborted_write |= self.is_master && !there;
        there
    }

    fn transmitted(&mut self, now_ps: u64, frame: &[u8]) {
        self.leaves(now_ps, frame, true);
    }

    fn transmitted_bad(&mut self, now_ps: u64, frame: &[u8]) {
        self.leaves(now_ps, frame, false);
    }
}

/// Where frames for a card come from.
struct Source {
    offer: Offer,
    period_ps: u64,
    due_ps: u64,
    frame: Vec<u8>,
}

/// A card.
struct Card {
    nic: Nic,
    around: Around,
    config: Config,
    /// Accesses by offset.
    reads: BTreeMap<u32, u64>,
    writes: BTreeMap<u32, u64>,
    /// IOADDR (SDM 13.2.2.1).
    io_address: u32,
    cable: Cable,
    partner: Option<Box<dyn Partner>>,
    source: Option<Source>,
    sink: Option<Sink>,
    /// Frames on the cable to this card.
    coming: VecDeque<(u64, Coming)>,
    /// Before this no other frame can arrive.
    wire_free_ps: u64,
    /// QEMU's end of the interrupt line.
    trigger: Option<File>,
    /// The line's level that QEMU was sent last.
    line: bool,
    /// QEMU's end of the message signaled interrupt.
    message: Option<File>,
    /// The message of the present interrupt condition was sent.
    is_sent: bool,
    /// QEMU's ends of the MSI-X vectors, their table, and the vectors whose message could not be sent yet.
    vectors: [Option<File>; msix::MOST],
    table: Table,
    pending: u8,
    /// How long the card does not respond after CTRL.RST, and until when it does not.
    reset_ps: u64,
    responds_ps: u64,
    spurious: Option<Spurious>,
    /// How late interrupts are, in ps, and whether the present one may be signalled.
    late_ps: u64,
    gate: Gate,
}

/// Whether an interrupt may be signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// There is none.
    Idle,
    /// At this time in ps.
    Due(u64),
    /// Until its condition ends.
    Open,
}

/// Interrupts without a cause.
struct Spurious {
    every_ps: u64,
    due_ps: u64,
}

impl Card {
    fn read(&mut self, now_ps: u64, offset: u32) -> u32 {
        *self.reads.entry(offset).or_insert(0) += 1;
        self.around.bus.register_read(now_ps, offset);
        if now_ps < self.responds_ps {
            return u32::MAX;
        }
        let value = self.nic.read(now_ps, offset, &mut self.around);
        // Reads for interrupts without a cause are not the driver's fault.
        if self.spurious.is_none() || offset != reg::ICR {
            self.around.rules.read(now_ps, offset, value);
        }
        self.is_sent &= self.nic.interrupt_line();
        value
    }

    fn write(&mut self, now_ps: u64, offset: u32, value: u32) {
        *self.writes.entry(offset).or_insert(0) += 1;
        self.around.bus.register_write(now_ps, offset, self.nic.is_tail(offset));
        if now_ps < self.responds_ps {
            self.around.rules.write_in_reset(now_ps, offset, value);
            return;
        }
        self.around.rules.write(now_ps, offset, value);
        self.nic.write(now_ps, offset, value, &mut self.around);
        if matches!(offset, reg::CTRL | reg::CTRL_COPY) && value & ctrl::RST != 0 {
            self.responds_ps = now_ps.saturating_add(self.reset_ps);
        }
        self.is_sent &= self.nic.interrupt_line();
    }

    /// Signals a risen line to QEMU, or sends the message that takes its place. The card sends one when its
    /// interrupt condition begins, and the next one after that condition has ended and begun again. SDM 4.1.3
    /// ends it by a read of ICR only; here a write of ICR or IMC ends it, too, as it does with the line.
    fn tell(&mut self, now_ps: u64) {
        self.pending |= self.nic.take_vectors();
        let asserted = self.nic.interrupt_line();
        if !self.opens(now_ps, asserted || self.pending != 0) {
            return;
        }
        let line = asserted && self.config.interrupts();
        if line && !self.line {
            signal(&mut self.trigger);
        }
        if line != self.line {
            self.around.rules.interrupt(line);
        }
        self.line = line;
        let message = asserted && self.config.sends_messages();
        if message && !self.is_sent {
            signal(&mut self.message);
            self.around.rules.message();
        }
        self.is_sent = message;
        self.tell_vectors();
    }

    /// Whether the interrupt that there is, if `wants`, may be signalled now. Without one the line may fall.
    fn opens(&mut self, now_ps: u64, wants: bool) -> bool {
        self.gate = match self.gate {
            _ if !wants => Gate::Idle,
            Gate::Idle => Gate::Due(now_ps.saturating_add(self.late_ps)),
            gate => gate,
        };
        if let Gate::Due(due_ps) = self.gate
            && due_ps <= now_ps
        {
            self.gate = Gate::Open;
        }
        !matches!(self.gate, Gate::Due(_))
    }

    /// When a late interrupt is due, in ps.
    const fn late_due_ps(&self) -> Option<u64> {
        match self.gate {
            Gate::Due(due_ps) => Some(due_ps),
            Gate::Idle | Gate::Open => None,
        }
    }

    /// Sends the messages of the MSI-X vectors that have fired. One that cannot be sent is pending.
    fn tell_vectors(&mut self) {
        if self.pending == 0 || !self.config.sends_vectors() {
            return;
        }
        for (vector, event) in self.vectors.iter_mut().enumerate() {
            let bit = 1 << vector;
            if self.pending & bit != 0 && event.is_some() {
                signal(event);
                self.pending &= !bit;
                self.around.rules.message();
            }
        }
    }

    /// The configuration space was written.
    fn configured(&mut self, now_ps: u64) {
        self.around.is_master = self.config.is_master();
        self.nic.set_vectors(now_ps, self.config.has_vectors());
        if !self.config.has_vectors() {
            self.pending = 0;
        }
    }

    /// Interrupts without a cause if that is due. The line is signalled also while the card's interrupts are
    /// masked, as by another device on the same line. QEMU takes it back when the guest accesses the card.
    fn disturb(&mut self, now_ps: u64) {
        let Some(spurious) = self.spurious.as_mut().filter(|it| it.due_ps <= now_ps) else { return };
        spurious.due_ps = now_ps.saturating_add(spurious.every_ps);
        if self.config.sends_messages() {
            if self.nic.interrupts_enabled() {
                signal(&mut self.message);
            }
        } else if self.config.sends_vectors() {
            if self.nic.interrupts_enabled() {
                self.vectors.iter_mut().for_each(signal);
            }
        } else if self.config.interrupts() {
            signal(&mut self.trigger);
        }
    }

    /// Notes what the model has done: for the configuration space, and for the rules.
    fn look(&mut self, now_ps: u64) {
        let read = std::mem::take(&mut self.around.has_aborted_read);
        let write = std::mem::take(&mut self.around.has_aborted_write);
        // On PCI Express nothing tells the card that a write failed.
        if read || write && !self.nic.params().chip.is_pci_express() {
            self.config.note_master_abort();
        }
        self.around.rules.set_half_duplex(now_ps, self.nic.is_half_duplex());
        self.around.rules.tick(now_ps);
    }

    /// Resets the model.
    fn power_up(&mut self, now_ps: u64) {
        self.responds_ps = 0;
        self.table = Table::new();
        self.nic.write(now_ps, reg::CTRL, ctrl::RST, &mut self.around);
        self.around.rules.reset();
    }

    /// When the next frame arrives, if one is to: not while the card has no room for the source's.
    fn arrival_ps(&self) -> Option<u64> {
        let coming = self.coming.front().map(|(at, _)| *at);
        let offered = self.source.as_ref().map(|source| source.due_ps);
        let partner = self.partner.as_ref().map(|partner| partner.due_ps()).filter(|due| *due < u64::MAX);
        let next = coming.into_iter().chain(offered).chain(partner).min()?;
        Some(next.max(self.wire_free_ps))
    }

    /// Lets the next frame arrive at `at_ps`.
    fn arrive(&mut self, at_ps: u64) {
        let coming = match self.coming.pop_front() {
            Some((_, coming)) => Some(coming),
            None => {
                self.partner.as_mut().and_then(|partner| partner.next(at_ps)).or_else(|| self.offered(at_ps))
            }
        };
        let Some(Coming { frame, good_fcs }) = coming else { return };
        let bits_per_s = u64::from(self.nic.link_mbps().unwrap_or(DOWN_MBPS)) * 1_000_000;
        self.wire_free_ps = at_ps + rate::unpadded_slot_ps(bits_per_s, frame.len());
        let before = *self.nic.tally();
        match good_fcs {
            true => self.nic.frame_arrives(at_ps, &frame, &mut self.around),
            false => self.nic.bad_frame_arrives(at_ps, &frame, &mut self.around),
        }
        self.around.rules.arrived(at_ps, &frame, &before.dropped, &self.nic.tally().dropped);
    }

    /// The next frame of the source, unless the source has to wait.
    fn offered(&mut self, at_ps: u64) -> Option<Coming> {
        let source = self.source.as_mut()?;
        if source.due_ps > at_ps {
            return None;
        }
        if self.nic.tally().in_fifo >= ROOM {
            source.due_ps = at_ps + AGAIN_PS;
            return None;
        }
        source.due_ps = at_ps + source.period_ps;
        source.frame.clear();
        match (source.offer)(&mut source.frame) {
            Next::Frame => Some(Coming { frame: source.frame.clone(), good_fcs: true }),
            Next::Later => {
                source.due_ps = at_ps + AGAIN_PS;
                None
            }
            Next::End => {
                self.source = None;
                None
            }
        }
    }
}

/// Cards, numbered from 0.
pub struct Cards {
    cards: Vec<Card>,
}

impl Cards {
    /// Cards with these cables and station addresses, at time 0.
    pub fn new(params: &Params, bus: &bus::Params, cards: &[(Cable, [u8; 6])]) -> Self {
        let card = |&(cable, mac): &(Cable, [u8; 6])| Card {
            nic: Nic::new(params.clone(), mac),
            around: Around {
                memory: Memory::default(),
                bus: Bus::new(bus.clone()),
                is_master: false,
                bursts: [0; What::ALL.len()],
                rules: Rules::new(params, Some(Mac(mac))),
                sent: VecDeque::new(),
                sent_bad_fcs: 0,
                aborts_report: false,
                aborted: 0..0,
                has_aborted_read: false,
                has_aborted_write: false,
            },
            config: Config::new(params.chip),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            io_address: 0,
            cable,
            partner: None,
            source: None,
            sink: None,
            coming: VecDeque::new(),
            wire_free_ps: 0,
            trigger: None,
            line: false,
            message: None,
            is_sent: false,
            vectors: [const { None }; msix::MOST],
            table: Table::new(),
            pending: 0,
            reset_ps: 0,
            responds_ps: 0,
            spurious: None,
            late_ps: 0,
            gate: Gate::Idle,
        };
        Self { cards: cards.iter().map(card).collect() }
    }

    /// The chip of all of them; `None` if there are none.
    pub fn chip(&self) -> Option<Chip> {
        self.cards.first().map(|card| card.nic.params().chip)
    }

    /// Whether the cable of a card is copper.
    pub fn is_copper(&self, index: usize) -> bool {
        self.cards.get(index).is_some_and(|card| card.nic.params().media == Media::Copper)
    }

    /// The number of cards.
    pub fn len(&self) -> usize {
        self.cards.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// Runs everything up to `now_ps`, in order of time.
    pub fn advance(&mut self, now_ps: u64) {
        loop {
            let arrival =
                self.cards.iter().enumerate().filter_map(|(i, card)| Some((card.arrival_ps()?, i))).min();
            let event = self.cards.iter().map(|card| card.nic.next_event_ps()).min().unwrap_or(u64::MAX);
            let until = arrival.map_or(event, |(at, _)| at.min(event));
            if until > now_ps {
                break;
            }
            for card in &mut self.cards {
                card.nic.run(until, &mut card.around);
            }
            if let Some((at, index)) = arrival.filter(|(at, _)| *at == until) {
                self.cards[index].arrive(at);
            }
            self.route();
        }
        for card in &mut self.cards {
            card.nic.run(now_ps, &mut card.around);
            card.tell(now_ps);
            card.disturb(now_ps);
            card.look(now_ps);
        }
    }

    /// Takes sent frames to the other ends of their cables.
    fn route(&mut self) {
        for index in 0..self.cards.len() {
            while let Some((at, coming)) = self.cards[index].around.sent.pop_front() {
                let card = &mut self.cards[index];
                if let Some(sink) = card.sink.as_mut().filter(|_| coming.good_fcs) {
                    sink(&coming.frame);
                }
                if let Some(partner) = &mut card.partner {
                    partner.take(at, &coming.frame, coming.good_fcs);
                }
                if let Cable::To(other) = card.cable
                    && let Some(other) = self.cards.get_mut(other)
                {
                    other.coming.push_back((at, coming));
                }
            }
        }
    }

    /// When something happens by itself next, in ps; `u64::MAX` if nothing does.
    pub fn next_ps(&self) -> u64 {
        let own = self.cards.iter().map(|card| card.nic.next_event_ps());
        let spurious = self.cards.iter().filter_map(|card| Some(card.spurious.as_ref()?.due_ps));
        let late = self.cards.iter().filter_map(Card::late_due_ps);
        let arrivals = self.cards.iter().filter_map(Card::arrival_ps);
        own.chain(arrivals).chain(spurious).chain(late).min().unwrap_or(u64::MAX)
    }

    /// Offers frames to a card from `now_ps` on, `pps` in a second; `None`: as many as the wire and the guest
    /// take. The source waits while frames wait in the card, so that none is lost for want of room, and does
    /// not catch up.
    pub fn offer(&mut self, index: usize, now_ps: u64, pps: Option<f64>, offer: Offer) {
        let period_ps = pps.map_or(0, |pps| (1e12 / pps) as u64);
        if let Some(card) = self.cards.get_mut(index) {
            card.source = Some(Source { offer, period_ps, due_ps: now_ps, frame: Vec::new() });
        }
    }

    /// Ends the frames of a source to a card.
    pub fn end_offer(&mut self, index: usize) {
        if let Some(card) = self.cards.get_mut(index) {
            card.source = None;
        }
    }

    /// Whether a source still has frames for a card.
    pub fn is_offered(&self, index: usize) -> bool {
        self.cards.get(index).is_some_and(|card| card.source.is_some())
    }

    /// Sets what is at the other end of a card's cable.
    pub fn attach(&mut self, index: usize, partner: Box<dyn Partner>) {
        if let Some(card) = self.cards.get_mut(index) {
            card.partner = Some(partner);
        }
    }

    /// Plugs a card's cable in or out.
    pub fn set_link(&mut self, index: usize, now_ps: u64, up: bool) {
        self.advance(now_ps);
        if let Some(card) = self.cards.get_mut(index) {
            card.nic.set_link(now_ps, up);
            card.tell(now_ps);
        }
    }

    /// Gives a card another link partner, with speeds up to `mbps`, in both duplexes or in half duplex only.
    /// The link is negotiated again. In half duplex there are no collisions.
    pub fn set_partner(&mut self, index: usize, now_ps: u64, mbps: u16, full_duplex: bool) {
        self.advance(now_ps);
        if let Some(card) = self.cards.get_mut(index) {
            card.nic.set_partner(now_ps, mbps, full_duplex);
            card.tell(now_ps);
        }
    }

    // ---- Faults of a card ----

    /// Lets a card not respond for `ps` after CTRL.RST: registers read as all ones, and writes have no
    /// effect. SDM 13.4.1 demands a wait of about 1 µs before any access.
    pub fn set_slow_reset(&mut self, index: usize, ps: u64) {
        if let Some(card) = self.cards.get_mut(index) {
            card.reset_ps = ps;
        }
    }

    /// Lets write-backs of descriptors reach memory `ps` late, after heads have moved (SDM 3.4); 0: no
    /// longer.
    pub fn set_write_back_delay(&mut self, index: usize, now_ps: u64, ps: u64) {
        self.advance(now_ps);
        if let Some(card) = self.cards.get_mut(index) {
            card.nic.set_write_back_delay(ps);
        }
    }

    /// Lets a card report no sent frame for `ps`, as one whose FIFO is full because the network has paused
    /// it.
    pub fn hold_transmit_reports(&mut self, index: usize, now_ps: u64, ps: u64) {
        self.advance(now_ps);
        if let Some(card) = self.cards.get_mut(index) {
            card.nic.hold_transmit_reports(now_ps.saturating_add(ps));
        }
    }

    /// Lets a card's next report of sent frames end with a master abort: memory keeps the descriptors as they
    /// were, and bit 13 of the PCI status register is set. The manual does not say what else the chip does
    /// (SDM 4.1 has the bit only), so the model goes on as after any write: the head and the interrupt do not
    /// know of the loss.
    pub fn abort_report(&mut self, index: usize, now_ps: u64) {
        self.advance(now_ps);
        if let Some(card) = self.cards.get_mut(index) {
            card.around.aborts_report = true;
        }
    }

    /// Lets a card interrupt each `every_ps` without a cause; `None`: no longer.
    pub fn set_spurious_interrupts(&mut self, index: usize, now_ps: u64, every_ps: Option<u64>) {
        self.advance(now_ps);
        if let Some(card) = self.cards.get_mut(index) {
            card.spurious = every_ps.map(|every_ps| Spurious { every_ps, due_ps: now_ps });
        }
    }

    /// Lets a card's interrupts be `ps` late, as on a machine whose CPU is busy with something else: the line
    /// rises late, and messages are sent late. None is lost; a condition that ends before is not signalled.
    pub fn set_interrupt_delay(&mut self, index: usize, now_ps: u64, ps: u64) {
        self.advance(now_ps);
        if let Some(card) = self.cards.get_mut(index) {
            card.late_ps = ps;
        }
    }

    /// Gives every frame that a card sends to `sink`, or drops it.
    pub fn watch(&mut self, index: usize, sink: Option<Sink>) {
        if let Some(card) = self.cards.get_mut(index) {
            card.sink = sink;
        }
    }

    // ---- What a guest does ----

    /// Reads a card's space at `offset`. Bytes that do not exist are 0.
    pub fn read(&mut self, index: usize, now_ps: u64, space: Access, offset: u64, into: &mut [u8]) {
        self.advance(now_ps);
        into.fill(0);
        let Some(card) = self.cards.get_mut(index) else { return };
        match space {
            Access::Configuration => {
                let line = card.nic.interrupt_line();
                card.config.read(offset, line, into);
            }
            // Nothing answers: a master abort.
            Access::Registers | Access::Window | Access::Table if !card.config.is_awake() => into.fill(0xFF),
            Access::Table if card.nic.params().chip.vectors() == 0 => {}
            Access::Table => card.table.read(offset, card.pending, into),
            Access::Registers => {
                let Some(offset) = register(offset) else { return };
                card.around.rules.access(offset, into.len());
                for (part, at) in into.chunks_mut(4).zip((offset & !3..).step_by(4)) {
                    let value = card.read(now_ps, at).to_le_bytes();
                    let from = if at < offset { (offset - at) as usize } else { 0 };
                    part.iter_mut().zip(&value[from..]).for_each(|(to, from)| *to = *from);
                }
            }
            Access::Window => {
                let value = match offset {
                    0 => card.io_address,
                    4 => register(card.io_address.into()).map_or(0, |at| card.read(now_ps, at & !3)),
                    _ => 0,
                };
                into.iter_mut().zip(value.to_le_bytes()).for_each(|(to, from)| *to = from);
            }
        }
        self.advance(now_ps);
    }

    /// Writes to a card's space at `offset`. Writes of registers that are not of 32 bits do nothing (SDM
    /// 13.2), except for writes of 64 bits, which are two.
    pub fn write(&mut self, index: usize, now_ps: u64, space: Access, offset: u64, from: &[u8]) {
        self.advance(now_ps);
        let Some(card) = self.cards.get_mut(index) else { return };
        match space {
            Access::Configuration => {
                if card.config.write(offset, from) {
                    card.power_up(now_ps);
                }
                card.configured(now_ps);
            }
            Access::Registers | Access::Window | Access::Table if !card.config.is_awake() => {}
            Access::Table => card.table.write(offset, from),
            Access::Registers => {
                let Some(offset) = register(offset) else { return };
                card.around.rules.access(offset, from.len());
                if offset.is_multiple_of(4) {
                    for (value, at) in from.chunks_exact(4).zip((offset..).step_by(4)) {
                        card.write(now_ps, at, u32::from_le_bytes([value[0], value[1], value[2], value[3]]));
                    }
                }
            }
            Access::Window => {
                let Ok(bytes) = <[u8; 4]>::try_from(from) else { return };
                let value = u32::from_le_bytes(bytes);
                match offset {
                    0 => card.io_address = value,
                    4 => {
                        if let Some(at) = register(card.io_address.into()) {
                            card.write(now_ps, at & !3, value);
                        }
                    }
                    _ => {}
                }
            }
        }
        self.advance(now_ps);
    }

    /// Gives a card memory of the guest.
    pub fn map(&mut self, index: usize, address: u64, bytes: u64, file: File, offset: u64) {
        if let Some(card) = self.cards.get_mut(index) {
            card.around.memory.map(address, bytes, file, offset);
        }
    }

    /// Takes memory away from a card; all of it if `range` is `None`.
    pub fn unmap(&mut self, index: usize, range: Option<(u64, u64)>) {
        let Some(card) = self.cards.get_mut(index) else { return };
        match range {
            Some((address, bytes)) => card.around.memory.unmap(address, bytes),
            None => card.around.memory.clear(),
        }
    }

    /// Sets where the interrupt line of a card ends.
    pub fn connect_interrupt(&mut self, index: usize, now_ps: u64, trigger: Option<File>) {
        if let Some(card) = self.cards.get_mut(index) {
            card.trigger = trigger;
            card.line = false;
            card.tell(now_ps);
        }
    }

    /// Sets where the message signaled interrupt of a card ends. A message that was due before is sent then.
    pub fn connect_message(&mut self, index: usize, now_ps: u64, message: Option<File>) {
        if let Some(card) = self.cards.get_mut(index) {
            card.message = message;
            card.is_sent = false;
            card.tell(now_ps);
        }
    }

    /// Sets where a vector of a card ends. A message that is pending is sent then. If the chip does not have
    /// that vector, nothing happens.
    pub fn connect_vector(&mut self, index: usize, now_ps: u64, vector: u32, event: Option<File>) {
        let Some(card) = self.cards.get_mut(index) else { return };
        let count = usize::from(card.nic.params().chip.vectors());
        let place = usize::try_from(vector).ok().and_then(|vector| card.vectors[..count].get_mut(vector));
        if let Some(place) = place {
            *place = event;
            card.tell(now_ps);
        }
    }

    /// The guest has seen the interrupt. If the line is still asserted, the guest gets the interrupt again.
    pub fn unmask_interrupt(&mut self, index: usize, now_ps: u64) {
        self.advance(now_ps);
        if let Some(card) = self.cards.get_mut(index)
            && card.line
        {
            signal(&mut card.trigger);
        }
    }

    /// Resets a card as at power-up. Its memory and its cable stay.
    pub fn reset(&mut self, index: usize, now_ps: u64) {
        self.advance(now_ps);
        let Some(card) = self.cards.get_mut(index) else { return };
        card.power_up(now_ps);
        card.config = Config::new(card.nic.params().chip);
        card.configured(now_ps);
        card.tell(now_ps);
    }

    // ---- What is known of it ----

    /// Whether a card's link is up and its receiver enabled, at `now_ps`. Nothing is counted.
    pub fn link_and_receiver(&mut self, index: usize, now_ps: u64) -> (bool, bool) {
        let Some(card) = self.cards.get_mut(index) else { return (false, false) };
        let mut bits = |register, bit| card.nic.read(now_ps, register, &mut card.around) & bit != 0;
        (bits(reg::STATUS, status::LU), bits(reg::RCTL, rctl::EN))
    }

    /// Whether a card asserts its interrupt: the line, or the condition for which it sends a message.
    pub fn interrupt_is_asserted(&self, index: usize) -> bool {
        self.cards.get(index).is_some_and(|card| {
            card.nic.interrupt_line() && (card.config.interrupts() || card.config.sends_messages())
        })
    }

    /// The counts of all cards together up to `now_ps`.
    pub fn counts(&mut self, now_ps: u64) -> Counts {
        self.advance(now_ps);
        let mut all = Counts::default();
        for card in &self.cards {
            let name = |offset: u32| name_on(card.nic.params().chip, offset);
            for (offset, count) in &card.reads {
                *all.reads.entry(name(*offset)).or_insert(0) += count;
            }
            for (offset, count) in &card.writes {
                *all.writes.entry(name(*offset)).or_insert(0) += count;
            }
            let tally = card.nic.tally();
            all.interrupts += tally.interrupts;
            all.bursts.iter_mut().zip(card.around.bursts).for_each(|(sum, of)| *sum += of);
            all.bus_ps += card.around.bus.busy_ps();
            all.sent += tally.transmitted;
            all.sent_bad_fcs += card.around.sent_bad_fcs;
            all.stored += tally.to_host;
            all.arrived += tally.arrived;
            all.dropped += tally.dropped.total();
        }
        all
    }

    /// Whether the link of a card is down because the driver has not set CTRL.SLU in time.
    pub fn lacks_link(&self, index: usize) -> bool {
        self.cards.get(index).is_some_and(|card| card.around.rules.has_no_link())
    }

    /// Whether a rule that allows some seconds is still to be judged.
    pub fn is_judging(&self) -> bool {
        self.cards.iter().any(|card| card.around.rules.is_pending())
    }

    /// The rules that were broken so far, on all cards together.
    pub fn breaches(&self) -> Vec<Breach> {
        let mut all: Vec<Breach> = Vec::new();
        for breach in self.cards.iter().flat_map(|card| card.around.rules.broken()) {
            let same = all.iter_mut().find(|it| (it.rule, &it.register) == (breach.rule, &breach.register));
            match same {
                Some(same) => {
                    let count = same.count.saturating_add(breach.count);
                    // The first occurrence of all cards.
                    if breach.at_ps < same.at_ps {
                        *same = breach;
                    }
                    same.count = count;
                }
                None => all.push(breach),
            }
        }
        all
    }
}

/// Signals an event of a card to QEMU, if that is connected.
fn signal(event: &mut Option<File>) {
    if let Some(event) = event {
        // The counter of an event file overflows after 2^64 signals.
        let _ = event.write_all(&1u64.to_ne_bytes());
    }
}

/// The offset of a register, if there can be one.
fn register(offset: u64) -> Option<u32> {
    u32::try_from(offset).ok().filter(|offset| *offset < reg::WINDOW_BYTES)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_datasheet::Chip;
    use kpps_datasheet::bit::{cause, tctl};
    use std::io::Read;
    use std::os::unix::fs::FileExt;
    use std::sync::{Arc, Mutex};

    const MS: u64 = 1_000_000_000;
    const BUS: &str = "pci-32-33";

    fn two(cables: [Cable; 2]) -> (Cards, File) {
        let bus: bus::Params =
            kpps_profiles::Profile::named(kpps_profiles::Kind::Bus, BUS).unwrap().get().unwrap();
        let params = Params { link_ps: MS, ..Params::of(Chip::I82540em) };
        let cards = [(cables[0], [2, 0, 0, 0, 0, 0]), (cables[1], [2, 0, 0, 0, 0, 1])];
        let mut cards = Cards::new(&params, &bus, &cards);
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(1 << 20).unwrap();
        for index in 0..2 {
            cards.map(index, 0, 1 << 20, memory.try_clone().unwrap(), 0);
        }
        (cards, memory)
    }

    fn set(cards: &mut Cards, index: usize, now_ps: u64, offset: u32, value: u32) {
        cards.write(index, now_ps, Access::Registers, offset.into(), &value.to_le_bytes());
    }

    fn get(cards: &mut Cards, index: usize, now_ps: u64, offset: u32) -> u32 {
        let mut value = [0; 4];
        cards.read(index, now_ps, Access::Registers, offset.into(), &mut value);
        u32::from_le_bytes(value)
    }

    /// Two cards on one cable, with rings of 8 at 0x1000 (sender) and 0x2000 (receiver).
    fn ready() -> (Cards, File) {
        let (mut cards, memory) = two([Cable::To(1), Cable::To(0)]);
        for index in 0..2 {
            cards.write(index, 0, Access::Configuration, 4, &[0x06, 0]);
            set(&mut cards, index, 0, reg::CTRL, ctrl::RST);
            set(&mut cards, index, 0, reg::CTRL, ctrl::SLU | ctrl::FD);
            (0..reg::MTA_WORDS).for_each(|n| set(&mut cards, index, 0, reg::mta(n), 0));
        }
        set(&mut cards, 0, 0, reg::TIPG, 10);
        set(&mut cards, 0, 0, reg::TDBAL, 0x1000);
        set(&mut cards, 0, 0, reg::TDLEN, 128);
        set(&mut cards, 0, 0, reg::TCTL, tctl::EN | 0x40 << tctl::COLD_SHIFT);
        set(&mut cards, 1, 0, reg::RDBAL, 0x2000);
        set(&mut cards, 1, 0, reg::RDLEN, 128);
        for place in 0..8u64 {
            memory.write_all_at(&(0x8000 + place * 2048).to_le_bytes(), 0x2000 + place * 16).unwrap();
        }
        set(&mut cards, 1, 0, reg::RCTL, rctl::EN | rctl::BAM | rctl::UPE);
        set(&mut cards, 1, 0, reg::RDT, 7);
        set(&mut cards, 1, 0, reg::IMS, cause::RXT0);
        (cards, memory)
    }

    /// How often an event was signalled.
    fn signals(event: &tempfile::NamedTempFile) -> usize {
        let mut bytes = Vec::new();
        event.reopen().unwrap().read_to_end(&mut bytes).unwrap();
        bytes.len() / 8
    }

    #[test]
    fn a_frame_goes_from_memory_to_memory_and_is_accounted() {
        let (mut cards, memory) = ready();
        let line = tempfile::NamedTempFile::new().unwrap();
        cards.connect_interrupt(1, 0, Some(line.reopen().unwrap()));
        let frame: Vec<u8> = (0..60).collect();
        memory.write_all_at(&frame, 0x4000).unwrap();
        memory.write_all_at(&0x4000u64.to_le_bytes(), 0x1000).unwrap();
        // 60 bytes; end of packet, insert FCS, report status.
        memory.write_all_at(&[60, 0, 0, 0b1011, 0, 0, 0, 0], 0x1008).unwrap();
        let before = cards.counts(100 * MS);
        set(&mut cards, 0, 100 * MS, reg::TDT, 1);
        cards.advance(101 * MS);
        let counts = cards.counts(101 * MS).since(&before);
        assert_eq!((counts.sent, counts.arrived, counts.stored, counts.dropped), (1, 1, 1, 0));
        assert_eq!(counts.writes, [("TDT".to_owned(), 1)].into());
        assert_eq!((counts.interrupts, counts.reads.len()), (1, 0));
        assert_eq!(counts.bursts[What::TxDescriptorFetch as usize], 1);
        assert_eq!(counts.bursts[What::RxWriteBack as usize], 1);
        assert!(counts.bus_ps > 0);
        let mut stored = [0; 60];
        memory.read_exact_at(&mut stored, 0x8000).unwrap();
        assert_eq!(stored[..], frame[..]);
        let signals = || signals(&line);
        assert_eq!(signals(), 1);
        cards.unmask_interrupt(1, 101 * MS);
        assert_eq!(signals(), 2, "the line is still up");
        assert_ne!(get(&mut cards, 1, 101 * MS, reg::ICR) & cause::RXT0, 0);
        cards.unmask_interrupt(1, 101 * MS);
        assert_eq!(signals(), 2);
        assert_eq!(cards.breaches(), []);
    }

    #[test]
    fn one_message_for_each_condition_and_none_for_the_line() {
        let (mut cards, _memory) = ready();
        let [line, message] = [0; 2].map(|_| tempfile::NamedTempFile::new().unwrap());
        cards.connect_interrupt(1, 0, Some(line.reopen().unwrap()));
        let control = |cards: &mut Cards, enable: u8| {
            cards.write(1, 100 * MS, Access::Configuration, 0xF2, &[0x80 | enable, 0]);
        };
        let seen = || (signals(&line), signals(&message));
        let raise = |cards: &mut Cards| set(cards, 1, 100 * MS, reg::ICS, cause::RXT0);
        // QEMU connects the message after the guest has enabled it.
        control(&mut cards, 1);
        raise(&mut cards);
        assert_eq!(seen(), (0, 0));
        cards.connect_message(1, 0, Some(message.reopen().unwrap()));
        assert_eq!(seen(), (0, 1));
        // More causes are the same condition, until ICR is read.
        raise(&mut cards);
        set(&mut cards, 1, 100 * MS, reg::ICS, cause::LSC);
        assert_eq!(seen(), (0, 1));
        get(&mut cards, 1, 100 * MS, reg::ICR);
        assert_eq!(seen(), (0, 1));
        raise(&mut cards);
        assert_eq!(seen(), (0, 2));
        // A masked cause sends nothing before it is unmasked.
        set(&mut cards, 1, 100 * MS, reg::IMC, cause::RXT0);
        get(&mut cards, 1, 100 * MS, reg::ICR);
        raise(&mut cards);
        assert_eq!(seen(), (0, 2));
        set(&mut cards, 1, 100 * MS, reg::IMS, cause::RXT0);
        assert_eq!(seen(), (0, 3));
        // Not by a card that is no bus master.
        get(&mut cards, 1, 100 * MS, reg::ICR);
        cards.write(1, 100 * MS, Access::Configuration, 4, &[0x02, 0]);
        raise(&mut cards);
        assert_eq!(seen(), (0, 3));
        cards.write(1, 100 * MS, Access::Configuration, 4, &[0x06, 0]);
        assert_eq!(seen(), (0, 4));
        // Without messages the line is asserted again.
        control(&mut cards, 0);
        assert_eq!(seen(), (1, 4));
        cards.unmask_interrupt(1, 100 * MS);
        assert_eq!(seen(), (2, 4));
    }

    #[test]
    fn a_sleeping_card_answers_in_its_configuration_space_only() {
        let (mut cards, _memory) = ready();
        let power = |cards: &mut Cards, state| {
            cards.write(1, 100 * MS, Access::Configuration, 0xE0, &[state, 0]);
        };
        power(&mut cards, 3);
        assert_eq!(get(&mut cards, 1, 100 * MS, reg::RCTL), u32::MAX);
        set(&mut cards, 1, 100 * MS, reg::RCTL, 0);
        let mut window = [0; 4];
        cards.read(1, 100 * MS, Access::Window, 4, &mut window);
        assert_eq!(window, [0xFF; 4]);
        power(&mut cards, 0);
        assert_eq!(get(&mut cards, 1, 100 * MS, reg::RCTL), 0, "the card was reset");
        let mut command = [9; 2];
        cards.read(1, 100 * MS, Access::Configuration, 4, &mut command);
        assert_eq!(command, [0, 0]);
    }

    #[test]
    fn frames_with_a_bad_fcs_reach_another_card_and_no_sink() {
        let (mut cards, memory) = ready();
        let seen = Arc::new(Mutex::new(0));
        let count = seen.clone();
        cards.watch(0, Some(Box::new(move |_| *count.lock().unwrap() += 1)));
        memory.write_all_at(&0x4000u64.to_le_bytes(), 0x1000).unwrap();
        // 64 bytes, end of packet, report status: the last four, which are 0, are the FCS.
        memory.write_all_at(&[64, 0, 0, 0b1001, 0, 0, 0, 0], 0x1008).unwrap();
        set(&mut cards, 0, 100 * MS, reg::TDT, 1);
        cards.advance(101 * MS);
        let counts = cards.counts(101 * MS);
        assert_eq!((counts.sent, counts.sent_bad_fcs, *seen.lock().unwrap()), (1, 1, 0));
        assert_eq!((counts.arrived, counts.stored, counts.dropped), (1, 0, 1));
        assert_eq!(get(&mut cards, 1, 101 * MS, kpps_datasheet::stat::CRCERRS), 1);
    }

    #[test]
    fn a_source_waits_for_room_and_loses_nothing() {
        let (mut cards, _memory) = ready();
        let mut left = 20;
        let offer = move |frame: &mut Vec<u8>| {
            frame.resize(60, 2);
            left -= 1;
            if left >= 0 { Next::Frame } else { Next::End }
        };
        cards.offer(1, 100 * MS, None, Box::new(offer));
        cards.advance(200 * MS);
        let counts = cards.counts(200 * MS);
        assert_eq!(
            (counts.stored, counts.arrived, counts.dropped),
            (7, 7 + ROOM, 0),
            "the ring has 7 places"
        );
        assert!(cards.is_offered(1));
        set(&mut cards, 1, 200 * MS, reg::RDT, 6);
        cards.advance(300 * MS);
        assert_eq!(cards.counts(300 * MS).stored, 14);
        set(&mut cards, 1, 300 * MS, reg::RDT, 5);
        cards.advance(400 * MS);
        let counts = cards.counts(400 * MS);
        assert_eq!((counts.stored, counts.dropped, cards.is_offered(1)), (20, 0, false));
    }

    #[test]
    fn the_i_o_window_and_odd_accesses() {
        let (mut cards, _memory) = two([Cable::Open; 2]);
        cards.write(0, 0, Access::Window, 0, &reg::RDTR.to_le_bytes());
        cards.write(0, 0, Access::Window, 4, &30u32.to_le_bytes());
        assert_eq!(get(&mut cards, 0, 0, reg::RDTR), 30);
        let mut value = [9; 4];
        cards.read(0, 0, Access::Window, 4, &mut value);
        assert_eq!(value, [30, 0, 0, 0]);
        let mut byte = [9];
        cards.read(0, 0, Access::Registers, u64::from(reg::RDTR) + 1, &mut byte);
        cards.write(0, 0, Access::Registers, reg::RDTR.into(), &[1, 2]);
        assert_eq!((byte, get(&mut cards, 0, 0, reg::RDTR)), ([0], 30));
        cards.write(0, 0, Access::Registers, u64::MAX, &[0; 4]);
        cards.write(7, 0, Access::Registers, 0, &[0; 4]);
        let breaches = cards.breaches();
        assert_eq!((breaches.len(), breaches[0].count), (1, 2), "{breaches:?}");
    }

    #[test]
    fn a_slow_reset_loses_what_is_written_too_early() {
        let (mut cards, _memory) = two([Cable::Open; 2]);
        cards.set_slow_reset(0, MS);
        for index in 0..2 {
            set(&mut cards, index, 10 * MS, reg::CTRL, ctrl::RST);
            set(&mut cards, index, 10 * MS, reg::RDTR, 30);
        }
        assert_eq!([0, 1].map(|index| get(&mut cards, index, 10 * MS, reg::RDTR)), [u32::MAX, 30]);
        assert_eq!(get(&mut cards, 0, 11 * MS, reg::RDTR), 0);
        set(&mut cards, 0, 11 * MS, reg::RDTR, 30);
        assert_eq!(get(&mut cards, 0, 11 * MS, reg::RDTR), 30);
        // A reset by the bus ends it.
        set(&mut cards, 0, 12 * MS, reg::CTRL, ctrl::RST);
        cards.reset(0, 12 * MS);
        assert_eq!(get(&mut cards, 0, 12 * MS, reg::RDTR), 0);
    }

    #[test]
    fn the_head_moves_before_a_late_write_back() {
        let (mut cards, memory) = ready();
        let frame = |cards: &mut Cards, now_ps| {
            let mut left = 1;
            let offer = move |frame: &mut Vec<u8>| {
                frame.resize(60, 2);
                left -= 1;
                if left >= 0 { Next::Frame } else { Next::End }
            };
            cards.offer(1, now_ps, Some(1e6), Box::new(offer));
        };
        let done = |place: u64| {
            let mut status = [0];
            memory.read_exact_at(&mut status, 0x2000 + place * 16 + 12).unwrap();
            status[0] & 1
        };
        cards.set_write_back_delay(1, 100 * MS, 5 * MS);
        frame(&mut cards, 100 * MS);
        cards.advance(101 * MS);
        assert_eq!((get(&mut cards, 1, 101 * MS, reg::RDH), done(0)), (1, 0));
        assert_eq!(get(&mut cards, 1, 101 * MS, reg::ICR) & cause::RXT0, 0, "the interrupt waits");
        cards.advance(106 * MS);
        assert_eq!((get(&mut cards, 1, 106 * MS, reg::RDH), done(0)), (1, 1));
        assert_ne!(get(&mut cards, 1, 106 * MS, reg::ICR) & cause::RXT0, 0);
        cards.set_write_back_delay(1, 106 * MS, 0);
        frame(&mut cards, 107 * MS);
        cards.advance(108 * MS);
        assert_eq!((get(&mut cards, 1, 108 * MS, reg::RDH), done(1)), (2, 1));
    }

    /// Writes this number of descriptors of frames to send, each of which asks for a report.
    fn frames_to_send(memory: &File, frames: u64) {
        for place in 0..frames {
            memory.write_all_at(&0x4000u64.to_le_bytes(), 0x1000 + place * 16).unwrap();
            memory.write_all_at(&[60, 0, 0, 0b1011, 0, 0, 0, 0], 0x1008 + place * 16).unwrap();
        }
    }

    /// Whether the card has reported the frame of this descriptor: 0 or 1.
    fn reported(memory: &File, place: u64) -> u8 {
        let mut status = [0];
        memory.read_exact_at(&mut status, 0x1000 + place * 16 + 12).unwrap();
        status[0] & 1
    }

    #[test]
    fn frames_leave_while_their_reports_are_held() {
        let (mut cards, memory) = ready();
        frames_to_send(&memory, 2);
        let reported = |place| reported(&memory, place);
        cards.hold_transmit_reports(0, 100 * MS, 900 * MS);
        for sent in [1, 2] {
            set(&mut cards, 0, 100 * MS, reg::TDT, sent);
        }
        cards.advance(999 * MS);
        assert_eq!((cards.counts(999 * MS).sent, [0, 1].map(reported)), (2, [0, 0]));
        cards.advance(1001 * MS);
        assert_eq!([0, 1].map(reported), [1, 1]);
    }

    #[test]
    fn a_report_that_is_aborted_never_reaches_memory() {
        let (mut cards, memory) = ready();
        frames_to_send(&memory, 3);
        let reported = |place| reported(&memory, place);
        let aborted = |cards: &mut Cards| {
            let mut status = [0; 2];
            cards.read(0, 200 * MS, Access::Configuration, 6, &mut status);
            status[1] >> 5 & 1
        };
        set(&mut cards, 0, 100 * MS, reg::TDT, 1);
        cards.abort_report(0, 110 * MS);
        assert_eq!(aborted(&mut cards), 0);
        set(&mut cards, 0, 200 * MS, reg::TDT, 2);
        set(&mut cards, 0, 210 * MS, reg::TDT, 3);
        cards.advance(300 * MS);
        assert_eq!((cards.counts(300 * MS).sent, [0, 1, 2].map(reported)), (3, [1, 0, 1]));
        assert_eq!(aborted(&mut cards), 1);
        assert_eq!(get(&mut cards, 0, 300 * MS, reg::TDH), 3);
        let broken = cards.breaches();
        assert!(broken.iter().all(|it| it.rule != crate::rules::Rule::NoMemory), "{broken:?}");
    }

    #[test]
    fn frames_arrive_at_the_speed_of_the_partner() {
        let (mut cards, _memory) = ready();
        for (mbps, at_ps) in [(100, 100 * MS), (10, 200 * MS), (1000, 300 * MS)] {
            cards.set_partner(1, at_ps, mbps, true);
            // Autonegotiation takes a millisecond here.
            let begin_ps = at_ps + 2 * MS;
            let before = cards.counts(begin_ps).arrived;
            let mut left = 3;
            let offer = move |frame: &mut Vec<u8>| {
                frame.resize(60, 2);
                left -= 1;
                if left >= 0 { Next::Frame } else { Next::End }
            };
            cards.offer(1, begin_ps, None, Box::new(offer));
            // A shortest frame takes 84 bytes of the wire.
            let last_ps = begin_ps + 2 * 84 * 8_000_000 / u64::from(mbps);
            let arrived = [last_ps - 1, last_ps].map(|at_ps| cards.counts(at_ps).arrived - before);
            assert_eq!(arrived, [2, 3], "{mbps} Mb/s");
        }
    }

    /// Two cards as of [`ready`], and what the second one signals by its line and by messages.
    fn ready_with_signals() -> (Cards, [tempfile::NamedTempFile; 2]) {
        let (mut cards, _) = ready();
        let [line, message] = [0; 2].map(|_| tempfile::NamedTempFile::new().unwrap());
        cards.connect_interrupt(1, 0, Some(line.reopen().unwrap()));
        cards.connect_message(1, 0, Some(message.reopen().unwrap()));
        get(&mut cards, 1, 99 * MS, reg::ICR);
        (cards, [line, message])
    }

    #[test]
    fn late_interrupts_are_signalled_once_and_none_is_lost() {
        let (mut cards, [line, message]) = ready_with_signals();
        let before = signals(&line);
        cards.set_interrupt_delay(1, 100 * MS, 50 * MS);
        set(&mut cards, 1, 100 * MS, reg::ICS, cause::RXT0);
        assert_eq!(cards.next_ps(), 150 * MS);
        // Another cause of the same condition.
        set(&mut cards, 1, 120 * MS, reg::ICS, cause::LSC);
        cards.advance(150 * MS - 1);
        assert_eq!(signals(&line) - before, 0);
        cards.advance(150 * MS);
        assert_eq!(signals(&line) - before, 1);
        assert!(cards.next_ps() > 150 * MS);
        assert_eq!(
            get(&mut cards, 1, 160 * MS, reg::ICR) & (cause::RXT0 | cause::LSC),
            cause::RXT0 | cause::LSC
        );
        // A driver that polls ends a condition before it is signalled. The next one has its own time.
        set(&mut cards, 1, 170 * MS, reg::ICS, cause::RXT0);
        get(&mut cards, 1, 200 * MS, reg::ICR);
        set(&mut cards, 1, 210 * MS, reg::ICS, cause::RXT0);
        cards.advance(259 * MS);
        assert_eq!(signals(&line) - before, 1);
        cards.advance(260 * MS);
        assert_eq!(signals(&line) - before, 2);
        get(&mut cards, 1, 261 * MS, reg::ICR);
        cards.write(1, 262 * MS, Access::Configuration, 0xF2, &[0x81, 0]);
        set(&mut cards, 1, 270 * MS, reg::ICS, cause::RXT0);
        let sent = [319, 320, 330].map(|ms| {
            cards.advance(ms * MS);
            signals(&message)
        });
        assert_eq!(sent, [0, 1, 1]);
        get(&mut cards, 1, 331 * MS, reg::ICR);
        cards.set_interrupt_delay(1, 340 * MS, 0);
        set(&mut cards, 1, 340 * MS, reg::ICS, cause::RXT0);
        assert_eq!((signals(&message), signals(&line) - before), (2, 2));
    }

    #[test]
    fn interrupts_without_a_cause_take_the_way_that_is_enabled() {
        let (mut cards, [line, message]) = ready_with_signals();
        let before = signals(&line);
        cards.set_spurious_interrupts(1, 100 * MS, Some(5 * MS));
        (100..200).for_each(|ms| cards.advance(ms * MS));
        assert_eq!((signals(&line) - before, signals(&message)), (20, 0));
        assert!(cards.next_ps() <= 200 * MS);
        assert_eq!(get(&mut cards, 1, 199 * MS, reg::ICR), 0);
        cards.write(1, 199 * MS, Access::Configuration, 0xF2, &[0x81, 0]);
        (200..300).for_each(|ms| cards.advance(ms * MS));
        assert_eq!((signals(&line) - before, signals(&message)), (20, 20));
        // A card whose interrupts are masked sends no message.
        set(&mut cards, 1, 300 * MS, reg::IMC, u32::MAX);
        let masked = signals(&message);
        (301..400).for_each(|ms| cards.advance(ms * MS));
        assert_eq!(signals(&message), masked);
        cards.set_spurious_interrupts(1, 400 * MS, None);
        set(&mut cards, 1, 400 * MS, reg::IMS, cause::RXT0);
        (401..500).for_each(|ms| cards.advance(ms * MS));
        assert_eq!(signals(&message), masked);
    }

    #[test]
    fn without_being_a_bus_master_a_card_moves_nothing() {
        let (mut cards, _memory) = two([Cable::Open; 2]);
        let seen = Arc::new(Mutex::new(0));
        let count = seen.clone();
        cards.watch(0, Some(Box::new(move |_| *count.lock().unwrap() += 1)));
        set(&mut cards, 0, 0, reg::CTRL, ctrl::SLU | ctrl::FD);
        set(&mut cards, 0, 0, reg::TDBAL, 0x1000);
        set(&mut cards, 0, 0, reg::TDLEN, 128);
        set(&mut cards, 0, 0, reg::TCTL, tctl::EN);
        set(&mut cards, 0, 100 * MS, reg::TDT, 1);
        cards.advance(200 * MS);
        assert_eq!((cards.counts(200 * MS).sent, *seen.lock().unwrap()), (0, 0));
        let breaches = cards.breaches();
        assert!(breaches.iter().any(|it| it.rule == crate::rules::Rule::NotMaster), "{breaches:?}");
    }

    /// An 82574L that is a bus master, with MSI-X enabled, and its vectors' events.
    fn with_vectors() -> (Cards, Vec<tempfile::NamedTempFile>) {
        let bus = kpps_profiles::Profile::named(kpps_profiles::Kind::Bus, "pcie-x1").unwrap().get().unwrap();
        let params = Params { link_ps: MS, ..Params::of(Chip::I82574l) };
        let mut cards = Cards::new(&params, &bus, &[(Cable::Open, [2, 0, 0, 0, 0, 0])]);
        cards.write(0, 0, Access::Configuration, 4, &[0x06, 0]);
        cards.write(0, 0, Access::Configuration, 0xA2, &[0, 0x80]);
        let events: Vec<_> = (0..5).map(|_| tempfile::NamedTempFile::new().unwrap()).collect();
        for (vector, event) in (0..).zip(&events) {
            cards.connect_vector(0, 0, vector, Some(event.reopen().unwrap()));
        }
        // Receive, transmit and other causes have the vectors 0 to 2, as Linux sets them up.
        set(&mut cards, 0, 0, reg::IVAR, 0x800A_0908);
        (cards, events)
    }

    #[test]
    fn each_group_of_causes_has_its_vector() {
        use kpps_datasheet::express::cause::{ASSERTED, OTHER, RXQ0, TXQ0};
        use kpps_datasheet::express::ctrl_ext::EIAME;
        let (mut cards, events) = with_vectors();
        let seen = || [0, 1, 2].map(|vector| signals(&events[vector]));
        set(&mut cards, 0, MS, reg::EIAC, RXQ0 | TXQ0);
        set(&mut cards, 0, MS, reg::CTRL_EXT, EIAME);
        set(&mut cards, 0, MS, reg::IMS, RXQ0 | TXQ0 | OTHER | cause::MDAC);
        let before = seen();
        set(&mut cards, 0, MS, reg::ICS, cause::RXT0);
        assert_eq!(seen(), [before[0] + 1, before[1], before[2]]);
        // The message cleared and masked its cause: the next one waits for IMS.
        set(&mut cards, 0, MS, reg::ICS, RXQ0);
        assert_eq!(seen()[0], before[0] + 1);
        set(&mut cards, 0, MS, reg::IMS, RXQ0);
        assert_eq!(seen()[0], before[0] + 2);
        set(&mut cards, 0, MS, reg::ICS, cause::TXDW);
        set(&mut cards, 0, MS, reg::ICS, cause::MDAC);
        assert_eq!(seen(), [before[0] + 2, before[1] + 1, before[2] + 1]);
        // Other causes are cleared by a read of ICR.
        set(&mut cards, 0, MS, reg::ICS, cause::MDAC);
        assert_eq!(seen()[2], before[2] + 1);
        assert_eq!(get(&mut cards, 0, MS, reg::ICR), cause::MDAC | OTHER | ASSERTED);
        set(&mut cards, 0, MS, reg::ICS, cause::MDAC);
        assert_eq!(seen()[2], before[2] + 2);
        // A read changes nothing while all causes that are set are masked, and others are not.
        set(&mut cards, 0, MS, reg::IMS, RXQ0);
        set(&mut cards, 0, MS, reg::IMC, cause::MDAC | OTHER);
        assert_eq!(get(&mut cards, 0, MS, reg::ICR), cause::MDAC | OTHER);
        assert_eq!(get(&mut cards, 0, MS, reg::ICR), cause::MDAC | OTHER);
    }

    #[test]
    fn a_vector_waits_while_it_is_throttled_masked_or_not_connected() {
        use kpps_datasheet::express::cause::RXQ0;
        let (mut cards, events) = with_vectors();
        let raise = |cards: &mut Cards, now_ps| {
            get(cards, 0, now_ps, reg::ICR);
            set(cards, 0, now_ps, reg::ICS, RXQ0);
        };
        set(&mut cards, 0, MS, reg::EITR0, 1000);
        set(&mut cards, 0, MS, reg::IMS, RXQ0);
        raise(&mut cards, MS);
        raise(&mut cards, MS);
        assert_eq!(signals(&events[0]), 1);
        // 1000 times 256 ns later.
        assert_eq!(cards.next_ps(), MS + 256_000_000);
        cards.advance(2 * MS);
        assert_eq!(signals(&events[0]), 2);
        // The mask of all vectors, then a vector without an event: the message is pending.
        let pending = |cards: &mut Cards| {
            let mut bits = [0; 8];
            cards.read(0, 3 * MS, Access::Table, msix::PENDING.into(), &mut bits);
            bits[0]
        };
        cards.write(0, 3 * MS, Access::Configuration, 0xA2, &[0, 0xC0]);
        raise(&mut cards, 3 * MS);
        assert_eq!((signals(&events[0]), pending(&mut cards)), (2, 1));
        cards.connect_vector(0, 0, 0, None);
        cards.write(0, 3 * MS, Access::Configuration, 0xA2, &[0, 0x80]);
        assert_eq!((signals(&events[0]), pending(&mut cards)), (2, 1));
        cards.connect_vector(0, 0, 0, Some(events[3].reopen().unwrap()));
        assert_eq!((signals(&events[3]), pending(&mut cards)), (1, 0));
        // A reset of the card leaves MSI-X enabled, one of the bus does not.
        set(&mut cards, 0, 4 * MS, reg::CTRL, ctrl::RST);
        assert!(cards.cards[0].config.sends_vectors());
        cards.reset(0, 4 * MS);
        assert!(!cards.cards[0].config.has_vectors());
        set(&mut cards, 0, 5 * MS, reg::IMS, cause::LSC);
        set(&mut cards, 0, 5 * MS, reg::ICS, cause::LSC);
        assert!(cards.cards[0].nic.interrupt_line());
    }

    #[test]
    fn vectors_that_do_not_exist_are_ignored() {
        let (mut cards, _events) = with_vectors();
        let file = tempfile::NamedTempFile::new().unwrap();
        for vector in [5, 6, 255, u32::MAX] {
            cards.connect_vector(0, 0, vector, Some(file.reopen().unwrap()));
        }
        cards.connect_vector(9, 0, 0, None);
        for offset in [0, 1, 79, 80, 0x2000, 0x3FFF, 0x4000, u64::MAX] {
            for bytes in 0..9 {
                cards.write(0, 0, Access::Table, offset, &vec![0xFF; bytes]);
                cards.read(0, 0, Access::Table, offset, &mut vec![0; bytes]);
            }
        }
        set(&mut cards, 0, 0, reg::IMS, u32::MAX);
        set(&mut cards, 0, 0, reg::ICS, u32::MAX);
        assert_eq!(signals(&file), 0);
        // The 8254x have none, and no table.
        let (mut cards, _memory) = two([Cable::Open; 2]);
        cards.connect_vector(0, 0, 0, Some(file.reopen().unwrap()));
        cards.write(0, 0, Access::Configuration, 4, &[0x06, 0]);
        cards.write(0, 0, Access::Configuration, 0xA0, &[0xFF; 16]);
        set(&mut cards, 0, 0, reg::IVAR, u32::MAX);
        set(&mut cards, 0, 0, reg::IMS, u32::MAX);
        set(&mut cards, 0, 0, reg::ICS, u32::MAX);
        let mut entry = [9; 4];
        cards.read(0, 0, Access::Table, 12, &mut entry);
        assert_eq!((signals(&file), entry), (0, [0; 4]));
    }
}
