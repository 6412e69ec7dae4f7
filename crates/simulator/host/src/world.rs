//! Everything outside the CPU: bus, memory, cards and their wires, advanced in time order.

use crate::bus::{self, Bus, EventKind, Master, Request};
use crate::memory::Memory;
use crate::wire::{FrameSource, Receiver};
use kpps_card::rate_limited::RateLimitedNic;
use kpps_card::{BurstKind, Host, Nic, Purpose};
use std::rc::Rc;

/// One of a card's interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The card's slot.
    pub slot: usize,
    /// Its number on that card: 0 unless the card has several.
    pub number: usize,
}

impl From<usize> for Vector {
    #[inline]
    fn from(slot: usize) -> Self {
        Self { slot, number: 0 }
    }
}

/// A card.
// There are few, and each is used in place.
#[allow(clippy::large_enum_variant)]
enum Plugged {
    E1000(Nic),
    RateLimited(RateLimitedNic),
}

/// Does the same with either kind of card.
macro_rules! either {
    ($plugged:expr, $nic:ident => $what:expr) => {
        match $plugged {
            Plugged::E1000($nic) => $what,
            Plugged::RateLimited($nic) => $what,
        }
    };
}

impl Plugged {
    #[inline]
    fn next_event_ps(&self) -> u64 {
        either!(self, nic => nic.next_event_ps())
    }

    #[inline]
    fn frame_arrives(&mut self, now_ps: u64, frame: &[u8], side: &mut Side) {
        match self {
            Self::E1000(nic) => nic.frame_arrives(now_ps, frame, side),
            Self::RateLimited(nic) => {
                nic.run(now_ps, side);
                nic.frame_arrives(now_ps, frame);
            }
        }
    }

    #[inline]
    fn run(&mut self, until_ps: u64, side: &mut Side) {
        either!(self, nic => nic.run(until_ps, side));
    }
}

/// A card in a slot, with the far end of its wire.
struct Slot {
    nic: Plugged,
    master: Master,
    traffic: Box<dyn FrameSource>,
    /// When its next frame arrives: [`FrameSource::next_ps`], remembered.
    arrival_ps: u64,
    /// The traffic depends on the card's frames.
    answers: bool,
    receiver: Box<dyn Receiver>,
}

impl Slot {
    #[inline]
    fn next_ps(&self) -> u64 {
        self.nic.next_event_ps().min(self.arrival_ps)
    }

    /// Lets everything happen here that happens until `until_ps`.
    #[inline(always)]
    fn run(&mut self, until_ps: u64, memory: &Memory, bus: &mut Bus) {
        if self.answers {
            return self.run_in_order(until_ps, memory, bus);
        }
        let mut side = Side { memory, bus, master: self.master, receiver: self.receiver.as_mut() };
        while self.arrival_ps <= until_ps {
            self.nic.frame_arrives(self.arrival_ps, self.traffic.frame(), &mut side);
            self.arrival_ps = self.traffic.next_ps();
        }
        self.nic.run(until_ps, &mut side);
    }

    /// The same, event by event: an answer may come sooner than the next frame was expected.
    #[inline]
    fn run_in_order(&mut self, until_ps: u64, memory: &Memory, bus: &mut Bus) {
        let mut side = Side { memory, bus, master: self.master, receiver: self.receiver.as_mut() };
        loop {
            let at = self.nic.next_event_ps().min(self.arrival_ps);
            if at > until_ps {
                break;
            }
            if self.arrival_ps <= at {
                self.nic.frame_arrives(self.arrival_ps, self.traffic.frame(), &mut side);
            } else {
                self.nic.run(at, &mut side);
            }
            self.arrival_ps = self.traffic.next_ps();
        }
        self.nic.run(until_ps, &mut side);
    }
}

/// The machine without its CPU.
pub struct World {
    memory: Rc<Memory>,
    bus: Bus,
    slots: Vec<Slot>,
    next_ps: u64,
    /// How far it has run: CPUs that share it need not run in the order of time.
    now_ps: u64,
}

/// The machine as a card sees it.
struct Side<'a> {
    memory: &'a Memory,
    bus: &'a mut Bus,
    master: Master,
    receiver: &'a mut dyn Receiver,
}

impl Host for Side<'_> {
    #[inline]
    fn burst(&mut self, now_ps: u64, _kind: BurstKind, purpose: Purpose, address: u64, bytes: u32) -> u64 {
        self.memory.channel().transfer(now_ps, bytes.into());
        self.bus.transfer(now_ps, Request { master: self.master, what: purpose.into(), address, bytes })
    }
    #[inline]
    fn load(&mut self, address: u64, into: &mut [u8]) -> bool {
        self.memory.load(address, into)
    }
    #[inline]
    fn store(&mut self, address: u64, from: &[u8]) -> bool {
        self.memory.store(address, from)
    }
    #[inline]
    fn transmitted(&mut self, now_ps: u64, frame: &[u8]) {
        self.receiver.receive(now_ps, frame);
    }
    #[inline]
    fn transmitted_bad(&mut self, now_ps: u64, frame: &[u8]) {
        self.receiver.receive_bad(now_ps, frame);
    }
}

impl World {
    /// A machine without cards.
    #[inline]
    pub fn new(memory: Rc<Memory>, bus: bus::Params) -> Self {
        Self { memory, bus: Bus::new(bus), slots: Vec::new(), next_ps: u64::MAX, now_ps: 0 }
    }

    /// Puts a card into the next free slot and returns the slot's number.
    #[inline]
    pub fn plug(&mut self, nic: Nic, traffic: Box<dyn FrameSource>, receiver: Box<dyn Receiver>) -> usize {
        self.plug_either(Plugged::E1000(nic), traffic, receiver)
    }

    /// The same with a rate-limited NIC.
    #[inline]
    pub fn plug_rate_limited(
        &mut self,
        nic: RateLimitedNic,
        traffic: Box<dyn FrameSource>,
        receiver: Box<dyn Receiver>,
    ) -> usize {
        self.plug_either(Plugged::RateLimited(nic), traffic, receiver)
    }

    #[inline]
    fn plug_either(
        &mut self,
        nic: Plugged,
        traffic: Box<dyn FrameSource>,
        receiver: Box<dyn Receiver>,
    ) -> usize {
        let arrival_ps = traffic.next_ps();
        let master = Master::Card(self.slots.len().try_into().unwrap_or(u8::MAX));
        self.slots.push(Slot { nic, master, answers: traffic.answers(), traffic, arrival_ps, receiver });
        self.update_next();
        self.slots.len() - 1
    }

    /// Replaces the traffic of the card in `slot`.
    #[inline]
    pub fn set_traffic(&mut self, slot: usize, traffic: Box<dyn FrameSource>) {
        self.slots[slot].arrival_ps = traffic.next_ps();
        self.slots[slot].answers = traffic.answers();
        self.slots[slot].traffic = traffic;
        self.update_next();
    }

    #[inline]
    fn update_next(&mut self) {
        self.next_ps = match &self.slots[..] {
            [slot] => slot.next_ps(),
            slots => slots.iter().map(Slot::next_ps).min().unwrap_or(u64::MAX),
        };
    }

    /// The time of the next event that no CPU causes.
    #[inline]
    pub fn next_ps(&self) -> u64 {
        self.next_ps
    }

    /// Lets everything happen that no CPU could see by reading a ring, at most until `limit_ps`. Returns the
    /// time of the first event that could be seen, or the limit.
    #[inline]
    pub fn run_unseen(&mut self, limit_ps: u64) -> u64 {
        while self.next_ps < limit_ps {
            let next = self.next_ps;
            let seen = self.slots.iter().any(|slot| {
                either!(&slot.nic, nic => nic.next_write_back_ps() <= next || nic.interrupts_enabled())
            });
            if seen {
                return next;
            }
            self.run_events(next);
        }
        limit_ps
    }

    /// Lets everything happen that happens until `until_ps`, in time order across all cards.
    #[inline]
    pub fn run(&mut self, until_ps: u64) {
        if self.next_ps <= until_ps {
            self.run_events(until_ps);
        }
    }

    #[inline]
    fn run_events(&mut self, until_ps: u64) {
        self.now_ps = self.now_ps.max(until_ps);
        if let [slot] = &mut self.slots[..] {
            slot.run(until_ps, &self.memory, &mut self.bus);
        } else {
            self.run_in_turn(until_ps);
        }
        self.update_next();
    }

    #[inline]
    fn run_in_turn(&mut self, until_ps: u64) {
        loop {
            // The card with the earliest event may run on until another card's first event.
            let (mut first, mut at, mut others) = (0, u64::MAX, u64::MAX);
            for (index, slot) in self.slots.iter().enumerate() {
                let next = slot.next_ps();
                if next < at {
                    (first, others, at) = (index, at, next);
                } else {
                    others = others.min(next);
                }
            }
            if at > until_ps {
                return;
            }
            self.slots[first].run(until_ps.min(others), &self.memory, &mut self.bus);
        }
    }

    /// The CPU begins to read a register of the card in `slot`: returns when the answer will be there.
    #[inline]
    pub fn begin_register_read(&mut self, now_ps: u64, _slot: usize, offset: u32) -> u64 {
        self.bus.register_read(now_ps, offset)
    }

    /// The CPU begins to write a register of the card in `slot`: returns when it goes on.
    #[inline]
    pub fn begin_register_write(&mut self, now_ps: u64, slot: usize, offset: u32) -> u64 {
        let tail = either!(&self.slots[slot].nic, nic => nic.is_tail(offset));
        self.bus.register_write(now_ps, offset, tail)
    }

    /// The CPU enters an interrupt's handler.
    #[inline]
    pub fn interrupt_taken(&mut self, now_ps: u64, Vector { slot, number }: Vector) {
        if let Plugged::RateLimited(nic) = &mut self.slots[slot].nic {
            nic.interrupt_taken(number);
        }
        self.bus.note(now_ps, slot, EventKind::Interrupt);
    }

    /// The CPU reads a register of the card in `slot`; [`World::run`] has been called for `now_ps`.
    #[inline]
    pub fn register_read(&mut self, now_ps: u64, slot: usize, offset: u32) -> u32 {
        let now_ps = now_ps.max(self.now_ps);
        let Slot { nic, master, receiver, .. } = &mut self.slots[slot];
        let mut side =
            Side { memory: &self.memory, bus: &mut self.bus, master: *master, receiver: receiver.as_mut() };
        let value = match nic {
            Plugged::E1000(nic) => nic.read(now_ps, offset, &mut side),
            Plugged::RateLimited(nic) => nic.read(offset),
        };
        self.bus.note(now_ps, slot, EventKind::Read { offset, value });
        self.update_next();
        value
    }

    /// The CPU writes a register of the card in `slot`; [`World::run`] has been called for `now_ps`.
    #[inline]
    pub fn register_write(&mut self, now_ps: u64, slot: usize, offset: u32, value: u32) {
        let now_ps = now_ps.max(self.now_ps);
        let Slot { nic, master, receiver, .. } = &mut self.slots[slot];
        self.bus.note(now_ps, slot, EventKind::Write { offset, value });
        let mut side =
            Side { memory: &self.memory, bus: &mut self.bus, master: *master, receiver: receiver.as_mut() };
        match nic {
            Plugged::E1000(nic) => nic.write(now_ps, offset, value, &mut side),
            Plugged::RateLimited(nic) => nic.write(now_ps, offset, value),
        }
        self.update_next();
    }

    /// Whether an interrupt is asserted.
    #[inline]
    pub fn interrupt_line(&self, Vector { slot, number }: Vector) -> bool {
        match &self.slots[slot].nic {
            Plugged::E1000(nic) => nic.interrupt_line(),
            Plugged::RateLimited(nic) => nic.interrupt_line(number),
        }
    }

    /// Whether an interrupt could be asserted without another register write.
    #[inline]
    pub fn interrupts_enabled(&self, Vector { slot, number }: Vector) -> bool {
        match &self.slots[slot].nic {
            Plugged::E1000(nic) => nic.interrupts_enabled(),
            Plugged::RateLimited(nic) => nic.interrupt_enabled(number),
        }
    }

    /// The bus.
    #[inline]
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The bus, to reserve time on it.
    #[inline]
    pub fn bus_mut(&mut self) -> &mut Bus {
        &mut self.bus
    }

    /// The e1000 card in `slot`. Panics if it is another.
    #[inline]
    pub fn nic(&self, slot: usize) -> &Nic {
        match &self.slots[slot].nic {
            Plugged::E1000(nic) => nic,
            Plugged::RateLimited(_) => panic!("the card in slot {slot} is a rate-limited NIC"),
        }
    }

    /// The e1000 card in `slot`, to change it. Panics if it is another.
    #[inline]
    pub fn nic_mut(&mut self, slot: usize) -> &mut Nic {
        match &mut self.slots[slot].nic {
            Plugged::E1000(nic) => nic,
            Plugged::RateLimited(_) => panic!("the card in slot {slot} is a rate-limited NIC"),
        }
    }

    /// The rate-limited NIC in `slot`. Panics if it is another card.
    #[inline]
    pub fn rate_limited_nic(&self, slot: usize) -> &RateLimitedNic {
        match &self.slots[slot].nic {
            Plugged::RateLimited(nic) => nic,
            Plugged::E1000(_) => panic!("the card in slot {slot} is not a rate-limited NIC"),
        }
    }

    /// The memory.
    #[inline]
    pub fn memory(&self) -> &Rc<Memory> {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Count;
    use kpps_card::Params;
    use kpps_datasheet::Chip;
    use std::cell::RefCell;

    /// Frames at given times, which a log shared with other wires takes down.
    struct Timed {
        times_ps: Vec<u64>,
        log: Rc<RefCell<Vec<u64>>>,
    }

    impl FrameSource for Timed {
        fn next_ps(&self) -> u64 {
            self.times_ps.first().copied().unwrap_or(u64::MAX)
        }
        fn frame(&mut self) -> &[u8] {
            self.log.borrow_mut().push(self.times_ps.remove(0));
            &[0; 60]
        }
    }

    #[test]
    fn cards_take_turns_in_the_order_of_time() {
        let mut world = World::new(Memory::new(4096, 32), bus::Params::plain());
        let log = Rc::default();
        for times_ps in [vec![10, 40, 50], vec![20, 30, 60], vec![35]] {
            let traffic = Timed { times_ps, log: Rc::clone(&log) };
            let nic = Nic::new(Params::of(Chip::I82540em), [2, 0, 0, 0, 0, 1]);
            world.plug(nic, Box::new(traffic), Box::new(Count::default()));
        }
        assert_eq!(world.next_ps(), 10);
        world.run(45);
        assert_eq!((&log.borrow()[..], world.next_ps()), (&[10, 20, 30, 35, 40][..], 50));
        world.run(1000);
        assert_eq!(log.borrow()[5..], [50, 60]);
        assert_eq!(world.nic(1).tally().arrived, 3);
    }
}
