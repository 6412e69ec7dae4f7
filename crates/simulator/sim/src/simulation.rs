//! One simulated machine with its cards: built from a set-up, run in steps, taken apart at the end.

use crate::any_setup::AnySetup;
use crate::device::any::AnyDevice;
use crate::device::e1000::{DriverState, E1000};
use crate::device::rate_limited::RateLimitedDevice;
use crate::setup::{RateLimitedSetup, Setup};
use kpps_card::Nic;
use kpps_card::rate_limited::RateLimitedNic;
use kpps_frames::{Mac, Size};
use kpps_host::memory::Memory;
use kpps_host::platform::{Allocator, Card, SMALL_BYTES, memory_bytes};
use kpps_host::wire::{Receiver, Silence};
use kpps_host::{MS, Machine, World};
use kpps_methods::TrialError;
use std::rc::Rc;

/// The station address of the card in slot 0.
pub(crate) const CARD: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// The smallest packet buffer, in bytes: any frame of at most 1518 bytes can be sent from one.
pub(crate) const BUFFER_BYTES: usize = 2048;
/// Buffers in excess of the capacity of rings, queues and workload: the allocator never runs dry.
const EXTRA_BUFFERS: usize = 512;
/// Virtual time between two calls of `go_on`.
const GO_ON_EVERY_PS: u64 = 100 * MS;

/// The station address of the card in `slot`.
pub(crate) fn station(slot: usize) -> Mac {
    let mut station = CARD;
    station.0[5] += slot as u8;
    station
}

/// A machine with its cards and their drivers.
pub(crate) struct Simulation {
    machine: Machine,
    /// The states of the drivers of its e1000 cards, by slot.
    drivers: Vec<Rc<DriverState>>,
}

impl Drop for Simulation {
    /// Contexts hold handles to their machine: without this both would live for ever.
    fn drop(&mut self) {
        self.machine.halt();
    }
}

/// Refuses frames that do not fit into one buffer: a rate-limited NIC puts each into one.
pub(crate) fn check_one_buffer(size: Size) -> Result<(), TrialError> {
    match usize::from(size.bytes_without_fcs()) > BUFFER_BYTES {
        true => Err(TrialError::Load(format!(
            "a frame must fit into one buffer of {BUFFER_BYTES} bytes: give a smaller frame size"
        ))),
        false => Ok(()),
    }
}

/// A card to plug in, and the far end of its wire.
pub(crate) type PluggedCard = (kpps_card::Params, Box<dyn Receiver>);

impl Simulation {
    /// Builds a machine with `cpus` CPUs and these e1000 cards in slots 0, 1, …, probes the drivers and waits
    /// for their links. `held` is the number of frames that the workload itself may hold.
    pub fn build(
        setup: &Setup,
        cpus: usize,
        held: usize,
        cards: Vec<PluggedCard>,
    ) -> Result<(Self, Vec<E1000>), TrialError> {
        let config = &setup.config;
        let rings = usize::from(config.rx_ring.max(config.tx_ring));
        let buffers = cards.len() * (2 * rings + setup.stack_params.most_frames() + EXTRA_BUFFERS) + held;
        let buffer_bytes = usize::from(config.rx_buffer_bytes).max(BUFFER_BYTES);
        let small = if config.rx_copybreak_bytes > 0 { buffers } else { 0 };
        let bytes =
            memory_bytes(2 * cards.len(), buffers, buffer_bytes) + memory_bytes(0, small, SMALL_BYTES);
        let memory = Memory::new(bytes, setup.host_params.cache_line_bytes);
        let mut world = World::new(memory, setup.bus_params.clone());
        let mut slots = Vec::with_capacity(cards.len());
        for (index, (card, receiver)) in cards.into_iter().enumerate() {
            let mut address = station(index).0;
            // The EEPROM of a card with two ports holds the first port's address; drivers derive the other's.
            address[5] ^= card.port;
            let chip = card.chip;
            slots.push((world.plug(Nic::new(card, address), Box::new(Silence), receiver), chip));
        }
        let machine = Machine::with_cpus(setup.host_params.clone(), world, cpus);
        let mut simulation = Self { machine, drivers: Vec::with_capacity(slots.len()) };
        let rules = setup.stack_params.buffers();
        let allocator = Allocator::new(&simulation.machine, buffers, buffer_bytes, rules, setup.cpus);
        let allocator = allocator.with_small(small);
        let mut devices = Vec::with_capacity(slots.len());
        for (slot, chip) in slots {
            let card = Card::new(&simulation.machine, slot);
            let device = E1000::probe(card, chip, config, setup.driver_model.clone(), allocator.clone());
            let device = device.map_err(|e| {
                TrialError::Testbed(format!("the driver does not start on the {}: {e}", setup.chip))
            })?;
            let device = match &setup.policy {
                Some(policy) => device.served_by((policy.make)()),
                None => device,
            };
            simulation.drivers.push(device.state());
            devices.push(device);
        }
        Ok((simulation, devices))
    }

    /// Builds a machine with one e1000 card.
    pub fn with_one_card(
        setup: &Setup,
        cpus: usize,
        held: usize,
        receiver: Box<dyn Receiver>,
    ) -> Result<(Self, E1000), TrialError> {
        let (simulation, devices) = Self::build(setup, cpus, held, vec![(setup.card.clone(), receiver)])?;
        let device = devices.into_iter().next();
        Ok((simulation, device.ok_or_else(|| TrialError::Testbed("a machine without a card".into()))?))
    }

    /// Builds a machine with `cpus` CPUs and a rate-limited NIC with `queues` receive queues in use. Its
    /// driver is still to be attached. `held` is the number of frames that the workload itself may hold.
    pub fn with_rate_limited_nic(
        setup: &RateLimitedSetup,
        cpus: usize,
        (queues, held): (usize, usize),
        receiver: Box<dyn Receiver>,
    ) -> (Self, Card, Allocator) {
        let config = &setup.config;
        let queue = (config.rx_ring + config.weight) as usize;
        let rings = config.tx_ring as usize + queues * queue;
        let buffers = rings + setup.stack_params.most_frames() + EXTRA_BUFFERS + held;
        let memory = Memory::new(
            memory_bytes(2 * queues.max(1), buffers, BUFFER_BYTES),
            setup.host_params.cache_line_bytes,
        );
        let mut world = World::new(memory, setup.bus_params.clone());
        let slot =
            world.plug_rate_limited(RateLimitedNic::new(setup.card.clone()), Box::new(Silence), receiver);
        let machine = Machine::with_cpus(setup.host_params.clone(), world, cpus);
        let rules = setup.stack_params.buffers();
        let allocator = Allocator::new(&machine, buffers, BUFFER_BYTES, rules, setup.cpus);
        let card = Card::new(&machine, slot);
        (Self { machine, drivers: Vec::new() }, card, allocator)
    }

    /// Builds a machine with `cpus` CPUs and one card of either kind, whose driver accepts frames of `size`.
    pub fn with_any_card(
        setup: &AnySetup,
        size: Size,
        (cpus, held): (usize, usize),
        receiver: Box<dyn Receiver>,
    ) -> Result<(Self, AnyDevice), TrialError> {
        match setup {
            AnySetup::E1000(setup) => {
                setup.check_size(size)?;
                let setup = (**setup).clone().for_frames(size);
                let (simulation, device) = Self::with_one_card(&setup, cpus, held, receiver)?;
                Ok((simulation, AnyDevice::E1000(Box::new(device))))
            }
            AnySetup::RateLimited(setup) => {
                check_one_buffer(size)?;
                let (simulation, card, allocator) =
                    Self::with_rate_limited_nic(setup, cpus, (1, held), receiver);
                let device = RateLimitedDevice::attach(card, &setup.config, allocator)
                    .map_err(|_| TrialError::Testbed("no memory for the rings".into()))?;
                Ok((simulation, AnyDevice::RateLimited(Box::new(device))))
            }
        }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The states of the drivers of its e1000 cards, by slot.
    pub fn drivers(&self) -> &[Rc<DriverState>] {
        &self.drivers
    }

    /// Runs until `until_ps`, and asks every [`GO_ON_EVERY_PS`] of virtual time whether to go on. Fails if a
    /// driver gave up.
    pub fn run(&self, until_ps: u64, go_on: &dyn Fn() -> bool) -> Result<(), TrialError> {
        while self.machine.now_ps() < until_ps {
            if !go_on() {
                return Err(TrialError::Interrupted);
            }
            self.machine.run(until_ps.min(self.machine.now_ps() + GO_ON_EVERY_PS));
            self.check_drivers()?;
        }
        Ok(())
    }

    /// Fails if a driver gave up, or the policy of one.
    fn check_drivers(&self) -> Result<(), TrialError> {
        for driver in &self.drivers {
            if let Some(error) = driver.error.take() {
                return Err(TrialError::Testbed(format!("the driver gave up: {error}")));
            }
            if let Some(error) = driver.policy_error.take() {
                return Err(TrialError::Testbed(error));
            }
        }
        Ok(())
    }

    /// Fails if a driver gave up or a card lost track of a frame.
    pub fn check(&self) -> Result<(), TrialError> {
        self.check_drivers()?;
        for slot in 0..self.drivers.len() {
            let card = self.machine.with_world(|world| *world.nic(slot).tally());
            if !card.closes() {
                return Err(TrialError::Testbed(format!("the card's ledger does not close: {card:?}")));
            }
        }
        Ok(())
    }
}
