//! A fixture with a modelled card: one thread, flat memory, a bus with fixed costs that does one transfer at
//! a time, and a virtual clock that moves only on request.
//!
//! The simulator has an accurate version of all this. This fixture is about function, not timing.

use crate::{Departure, Failure, Fixture};
use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::Chip;
use kpps_platform::{DmaSpec, OutOfMemory, Platform, Registers};
use kpps_qemu::qtest::{BufferPool, Memory, RingMemory};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The host's memory in bytes.
const RAM_BYTES: usize = 64 << 20;
/// A bus of 64 bits at 66 MHz: one clock in ps, clocks before the first byte of a burst.
const BUS_CLOCK_PS: u64 = 15_152;
const BURST_OVERHEAD_CLOCKS: u64 = 4;
const BUS_BYTES: u64 = 8;
/// The CPU time of a register access, in ps.
const READ_PS: u64 = 700_000;
const WRITE_PS: u64 = 150_000;
/// A byte at 1 Gb/s in ps; bytes around a frame: preamble, FCS, gap.
const BYTE_PS: u64 = 8_000;
const PREAMBLE_BYTES: u64 = 8;
const FCS_BYTES: u64 = 4;
const GAP_BYTES: u64 = 12;

const ADDRESS: [u8; 6] = [0x02, 0x00, 0x00, 0x82, 0x54, 0x01];

/// The host around the card.
#[derive(Debug)]
struct Flat {
    ram: Memory,
    bus_free_ps: u64,
    /// With the times of their last bits, in ps.
    sent: VecDeque<(u64, Vec<u8>)>,
    /// Frames that left with a wrong FCS.
    spoiled: u64,
}

impl Host for Flat {
    fn burst(&mut self, now_ps: u64, _: BurstKind, _: Purpose, _: u64, bytes: u32) -> u64 {
        let clocks = BURST_OVERHEAD_CLOCKS + u64::from(bytes).div_ceil(BUS_BYTES);
        self.bus_free_ps = now_ps.max(self.bus_free_ps) + clocks * BUS_CLOCK_PS;
        self.bus_free_ps
    }
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool {
        self.ram.device_read(addr, into)
    }
    fn store(&mut self, addr: u64, from: &[u8]) -> bool {
        self.ram.device_write(addr, from)
    }
    fn transmitted(&mut self, now_ps: u64, frame: &[u8]) {
        self.sent.push_back((now_ps, frame.to_vec()));
    }
    fn transmitted_bad(&mut self, _: u64, _: &[u8]) {
        self.spoiled += 1;
    }
}

/// A frame on its way to the card.
#[derive(Debug)]
struct Incoming {
    /// The time of its last bit.
    at_ps: u64,
    frame: Vec<u8>,
    good_fcs: bool,
}

#[derive(Debug)]
struct World {
    nic: Nic,
    host: Flat,
    now_ps: u64,
    incoming: VecDeque<Incoming>,
    wire_free_ps: u64,
}

impl World {
    /// Advances the clock to `until_ps` and runs all events until then in order.
    fn advance(&mut self, until_ps: u64) {
        while let Some(next) = self.incoming.pop_front_if(|next| next.at_ps <= until_ps) {
            self.nic.run(next.at_ps, &mut self.host);
            if next.good_fcs {
                self.nic.frame_arrives(next.at_ps, &next.frame, &mut self.host);
            } else {
                self.nic.bad_frame_arrives(next.at_ps, &next.frame, &mut self.host);
            }
        }
        self.nic.run(until_ps, &mut self.host);
        self.now_ps = until_ps;
    }

    /// Puts a frame on the wire, behind those already on it.
    fn send(&mut self, frame: &[u8], good_fcs: bool) {
        let start = self.now_ps.max(self.wire_free_ps);
        let at_ps = start + (PREAMBLE_BYTES + frame.len() as u64 + FCS_BYTES) * BYTE_PS;
        self.wire_free_ps = at_ps + GAP_BYTES * BYTE_PS;
        self.incoming.push_back(Incoming { at_ps, frame: frame.to_vec(), good_fcs });
    }

    fn pass(&mut self, ps: u64) {
        self.advance(self.now_ps + ps);
    }
}

/// The platform of the driver of a modelled card.
#[derive(Clone, Debug)]
pub struct ModelPlace {
    world: Rc<RefCell<World>>,
    ram: Memory,
}

impl Platform for ModelPlace {
    type Regs = ModelRegisters;
    type Mem = RingMemory;

    fn registers(&self) -> ModelRegisters {
        ModelRegisters(self.world.clone())
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.ram.ring(spec)
    }
    fn now_ns(&self) -> u64 {
        self.world.borrow().now_ps / 1000
    }
    fn wait_ns(&self, ns: u64) {
        self.world.borrow_mut().pass(ns * 1000);
    }
}

/// The registers of a modelled card.
#[derive(Clone, Debug)]
pub struct ModelRegisters(Rc<RefCell<World>>);

impl Registers for ModelRegisters {
    fn read(&self, offset: u32) -> u32 {
        let world = &mut *self.0.borrow_mut();
        world.pass(READ_PS);
        world.nic.read(world.now_ps, offset, &mut world.host)
    }
    fn write(&self, offset: u32, value: u32) {
        let world = &mut *self.0.borrow_mut();
        world.pass(WRITE_PS);
        world.nic.write(world.now_ps, offset, value, &mut world.host);
    }
}

/// A fixture with a modelled card.
#[derive(Debug)]
pub struct ModelFixture {
    place: ModelPlace,
    chip: Chip,
}

impl ModelFixture {
    /// A card of this chip with its default parameters.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub fn new(chip: Chip) -> std::io::Result<Self> {
        let ram = Memory::private(RAM_BYTES)?;
        let host = Flat { ram: ram.clone(), bus_free_ps: 0, sent: VecDeque::new(), spoiled: 0 };
        let world = World {
            nic: Nic::new(Params::of(chip), ADDRESS),
            host,
            now_ps: 0,
            incoming: VecDeque::new(),
            wire_free_ps: 0,
        };
        Ok(Self { place: ModelPlace { world: Rc::new(RefCell::new(world)), ram }, chip })
    }

    /// The next good frame that left the card, without FCS, and the time of its last bit in ps.
    pub fn collect_timed(&mut self) -> Option<(u64, Vec<u8>)> {
        self.place.world.borrow_mut().host.sent.pop_front()
    }
}

impl Fixture for ModelFixture {
    type Platform = ModelPlace;
    type Source = BufferPool;

    fn device(&self) -> String {
        "model".to_owned()
    }
    fn chip(&self) -> Chip {
        self.chip
    }
    fn address(&self) -> [u8; 6] {
        ADDRESS
    }
    fn departures(&self) -> &'static [&'static Departure] {
        &[]
    }
    fn queues(&self) -> u8 {
        1
    }
    fn splits_headers(&self) -> bool {
        false
    }
    fn platform(&self) -> ModelPlace {
        self.place.clone()
    }
    fn buffers(&mut self, count: usize, bytes: usize) -> Result<BufferPool, Failure> {
        Ok(self.place.ram.pool(count, bytes, Some(1 << 16))?)
    }
    fn inject(&mut self, frame: &[u8]) -> Result<(), Failure> {
        self.place.world.borrow_mut().send(frame, true);
        Ok(())
    }
    fn inject_bad_fcs(&mut self, frame: &[u8]) -> Result<bool, Failure> {
        self.place.world.borrow_mut().send(frame, false);
        Ok(true)
    }
    fn take_spoiled(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.place.world.borrow_mut().host.spoiled))
    }
    fn collect(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let world = &mut *self.place.world.borrow_mut();
        if world.host.spoiled > 0 {
            return Err("a frame left the card with a wrong FCS".into());
        }
        Ok(world.host.sent.pop_front().map(|(_, frame)| frame))
    }
    fn advance(&mut self, ns: u64) -> Result<(), Failure> {
        self.place.wait_ns(ns);
        Ok(())
    }
    fn set_link(&mut self, up: bool) -> Result<(), Failure> {
        let world = &mut *self.place.world.borrow_mut();
        world.nic.set_link(world.now_ps, up);
        Ok(())
    }
    fn interrupt_line(&mut self) -> Result<bool, Failure> {
        Ok(self.place.world.borrow().nic.interrupt_line())
    }
    fn interrupts(&mut self) -> Result<u64, Failure> {
        Ok(self.place.world.borrow().nic.tally().interrupts)
    }
}
