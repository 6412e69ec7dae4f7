//! Everything outside the CPU: bus, memory, cards and their wires, advanced in time order.

use crate::bus::{self, Bus};
use crate::memory::Memory;
use crate::wire::{Receiver, Traffic};
use kpps_device::{BurstKind, Host, Nic, Purpose};
use std::rc::Rc;

/// A card in a slot, with what hangs on its wire.
struct Slot {
    nic: Nic,
    traffic: Box<dyn Traffic>,
    receiver: Box<dyn Receiver>,
}

impl Slot {
    #[inline]
    fn next_ps(&self) -> u64 {
        self.nic.next_event_ps().min(self.traffic.next_ps())
    }
}

/// The machine without its CPU.
pub struct World {
    memory: Rc<Memory>,
    bus: Bus,
    slots: Vec<Slot>,
    next_ps: u64,
}

/// What a card sees of the machine while it acts.
struct Side<'a> {
    memory: &'a Memory,
    bus: &'a mut Bus,
    receiver: &'a mut dyn Receiver,
}

impl Host for Side<'_> {
    #[inline]
    fn burst(&mut self, now_ps: u64, kind: BurstKind, _purpose: Purpose, _address: u64, bytes: u32) -> u64 {
        match kind {
            BurstKind::Read => self.bus.read(now_ps, bytes),
            BurstKind::Write => self.bus.write(now_ps, bytes),
        }
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
}

impl World {
    /// A machine without cards.
    pub fn new(memory: Rc<Memory>, bus: bus::Params) -> Self {
        Self { memory, bus: Bus::new(bus), slots: Vec::new(), next_ps: u64::MAX }
    }

    /// Puts a card into the next free slot and returns the slot's number.
    pub fn plug(&mut self, nic: Nic, traffic: Box<dyn Traffic>, receiver: Box<dyn Receiver>) -> usize {
        self.slots.push(Slot { nic, traffic, receiver });
        self.update_next();
        self.slots.len() - 1
    }

    /// Replaces what arrives at the card in `slot`.
    pub fn set_traffic(&mut self, slot: usize, traffic: Box<dyn Traffic>) {
        self.slots[slot].traffic = traffic;
        self.update_next();
    }

    fn update_next(&mut self) {
        self.next_ps = self.slots.iter().map(Slot::next_ps).min().unwrap_or(u64::MAX);
    }

    /// When the next thing happens that no CPU causes.
    #[inline]
    pub fn next_ps(&self) -> u64 {
        self.next_ps
    }

    /// Lets everything happen that no CPU could see by looking at a ring, at most until `limit_ps`; returns the time of
    /// the first thing that could be seen, or the limit.
    pub fn run_unseen(&mut self, limit_ps: u64) -> u64 {
        while self.next_ps < limit_ps {
            let next = self.next_ps;
            let seen =
                self.slots.iter().any(|s| s.nic.next_write_back_ps() <= next || s.nic.interrupts_enabled());
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

    fn run_events(&mut self, until_ps: u64) {
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
                self.next_ps = at;
                return;
            }
            let Slot { nic, traffic, receiver } = &mut self.slots[first];
            let mut side = Side { memory: &self.memory, bus: &mut self.bus, receiver: receiver.as_mut() };
            let limit = until_ps.min(others);
            loop {
                let arrival = traffic.next_ps();
                if arrival > limit {
                    break;
                }
                nic.run(arrival, &mut side);
                nic.frame_arrives(arrival, traffic.frame(), &mut side);
            }
            nic.run(limit, &mut side);
        }
    }

    /// The CPU reads a register of the card in `slot`; [`World::run`] has been called for `now_ps`.
    pub fn register_read(&mut self, now_ps: u64, slot: usize, offset: u32) -> u32 {
        let Slot { nic, receiver, .. } = &mut self.slots[slot];
        let mut side = Side { memory: &self.memory, bus: &mut self.bus, receiver: receiver.as_mut() };
        let value = nic.read(now_ps, offset, &mut side);
        self.update_next();
        value
    }

    /// The CPU writes a register of the card in `slot`; [`World::run`] has been called for `now_ps`.
    pub fn register_write(&mut self, now_ps: u64, slot: usize, offset: u32, value: u32) {
        let Slot { nic, receiver, .. } = &mut self.slots[slot];
        let mut side = Side { memory: &self.memory, bus: &mut self.bus, receiver: receiver.as_mut() };
        nic.write(now_ps, offset, value, &mut side);
        self.update_next();
    }

    /// Whether the card in `slot` asserts its interrupt line.
    #[inline]
    pub fn interrupt_line(&self, slot: usize) -> bool {
        self.slots[slot].nic.interrupt_line()
    }

    /// Whether the card in `slot` could assert its interrupt line without another register write.
    #[inline]
    pub fn interrupts_enabled(&self, slot: usize) -> bool {
        self.slots[slot].nic.interrupts_enabled()
    }

    /// The bus.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The bus, to reserve time on it.
    pub fn bus_mut(&mut self) -> &mut Bus {
        &mut self.bus
    }

    /// The card in `slot`.
    pub fn nic(&self, slot: usize) -> &Nic {
        &self.slots[slot].nic
    }

    /// The card in `slot`, to pull its cable and the like.
    pub fn nic_mut(&mut self, slot: usize) -> &mut Nic {
        &mut self.slots[slot].nic
    }

    /// The memory.
    pub fn memory(&self) -> &Rc<Memory> {
        &self.memory
    }
}
