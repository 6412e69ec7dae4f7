//! One card with several receive queues, each served by a CPU of its own: what more CPUs bring, and what stops them.
//!
//! The card is a ring NIC that spreads flows over its queues (receive side scaling); the system is Linux, whose frames end in a
//! counter. Nothing is written down about where it stops: every part says how much of its time it was in use.

mod queue;

use crate::netdev::Frame;
use crate::per_frame::PerFrame;
use crate::setup::{RingSetup, StackParams};
use crate::simulated::{CARD, Measured, Room, cpu_time, phase_ps, share};
use crate::traffic::ConstantRate;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::rate;
use kpps_machine::cpu::{Counters, Function, Lock, Profile, Usage};
use kpps_machine::memory::Memory;
use kpps_machine::platform::{Allocator, Buf, Card, memory_bytes};
use kpps_machine::stack::IntoBuffer;
use kpps_machine::stack::linux24::{Attach, Handler, Stack, Work};
use kpps_machine::wire::{Count, Silence};
use kpps_machine::{MS, Machine, World};
use kpps_measure::{Latency, Load, TrialError};
use kpps_model::ring::{RingNic, Tally};
use kpps_results::{Cpu, Ledger};
use queue::QueueDevice;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Bytes of a packet buffer. With header split it begins where a page does, or in its middle.
const BUFFER_BYTES: usize = 2048;
/// After the measured time, for frames on their way: no ring holds one so long.
const AFTERWARDS_MS: u32 = 5;
/// From here on a part counts as full. What is missing are the moments between one piece of work and the next.
const FULL: f64 = 0.95;
/// Of a load, what counts as all.
const ALL: f64 = 0.999;

/// What is offered, and to how many CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    /// The load, all flows together.
    pub load: Load,
    /// UDP flows that it consists of, one frame of each in turn: hosts and ports of their own.
    pub flows: u16,
    /// CPUs, and as many receive queues as far as the card has them.
    pub cpus: usize,
    /// Cache lines that every frame changes under one lock, whichever CPU it is on, as those of one socket that all flows end in;
    /// 0: CPUs share nothing.
    pub shared_lines: u32,
}

/// How much of its time each part was in use: 1 is all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// The wire.
    pub wire: f64,
    /// The card's receiver, waiting for the bus among it.
    pub card: f64,
    /// Of that, the card's own work.
    pub engine: f64,
    /// The bus; of two ways the busier one.
    pub bus: f64,
    /// The way to memory; 0 on a host where it has no limit.
    pub memory: f64,
    /// Each CPU.
    pub cpus: Vec<f64>,
    /// Of the CPUs' time, what they waited for locks and for lines that another had.
    pub shared: f64,
}

/// Why there are not more packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// All that was offered was delivered.
    Load,
    /// The same, and the wire carries no more.
    Wire,
    /// The bus is full, or the card waits for it most of the time, and does nothing else.
    Bus,
    /// The way to memory is full.
    Memory,
    /// The card is at work all the time, most of it its own.
    Card,
    /// All CPUs are busy, most of their time with waiting for each other.
    Shared,
    /// All CPUs are busy.
    Cpus,
    /// Some CPUs are busy and some are not: flows are not spread evenly.
    SomeCpus,
    /// Nothing is busy all the time.
    None,
}

impl Limit {
    /// Whether another CPU could help.
    pub fn is_cpus(self) -> bool {
        matches!(self, Self::Cpus | Self::SomeCpus)
    }

    /// What is to be looked at from the outside in: a CPU that waits for memory is busy, too.
    fn of(busy: &Busy, delivered: f64) -> Self {
        let full = |share: f64| share >= FULL;
        match () {
            () if delivered >= ALL && busy.wire >= ALL => Self::Wire,
            () if delivered >= ALL => Self::Load,
            () if full(busy.bus) => Self::Bus,
            () if full(busy.memory) => Self::Memory,
            () if full(busy.card) && busy.engine > 0.5 * busy.card => Self::Card,
            () if full(busy.card) => Self::Bus,
            () if busy.cpus.iter().all(|&cpu| full(cpu)) && busy.shared > 0.5 => Self::Shared,
            () if busy.cpus.iter().all(|&cpu| full(cpu)) => Self::Cpus,
            () if busy.cpus.iter().any(|&cpu| full(cpu)) => Self::SomeCpus,
            () => Self::None,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "nothing: all that was offered",
            Self::Wire => "the wire",
            Self::Bus => "the bus",
            Self::Memory => "memory",
            Self::Card => "the card",
            Self::Shared => "what CPUs share",
            Self::Cpus => "the CPUs",
            Self::SomeCpus => "some CPUs, as flows are uneven",
            Self::None => "nothing all the time: bursts",
        })
    }
}

/// What so many CPUs did with a load.
pub struct Scaled {
    /// CPUs.
    pub cpus: usize,
    /// Frames offered in a second.
    pub offered_pps: f64,
    /// Of these, that reached their end.
    pub delivered_pps: f64,
    /// Their latency.
    pub latency: Latency,
    /// Counts for each frame that the driver took.
    pub per_frame: PerFrame,
    /// Cache lines fetched to read headers, for each of these frames.
    pub header_misses: f64,
    /// How each CPU's time went.
    pub cpu_time: Vec<Cpu>,
    /// How much of its time each part was in use.
    pub busy: Busy,
    /// Why there are not more.
    pub limit: Limit,
    /// Where every frame of the trial ended.
    pub ledger: Ledger,
}

/// Where more CPUs bring no more packets, and what stops the last of `rows`, which are in the order of their CPUs: the first from
/// which none gains a hundredth; `None` if the last still gains.
pub fn stop(rows: &[Scaled]) -> Option<(usize, Limit)> {
    let most = rows.iter().map(|row| row.delivered_pps).fold(0.0, f64::max);
    let first = rows.iter().find(|row| row.delivered_pps >= 0.99 * most)?;
    let last = rows.last()?;
    let goes_on = first.cpus == last.cpus && last.limit.is_cpus();
    (!goes_on).then_some((first.cpus, last.limit))
}

/// A frame of each flow: from hosts of the network for benchmarks, each by ports of its own.
fn frames(what: &Scaling) -> Result<Vec<Vec<u8>>, TrialError> {
    let frame = |number: u16| {
        let Flow { mut from, mut to, .. } = Flow::default();
        from.0 = u32::from(from.0).wrapping_add(u32::from(number)).into();
        (from.1, to.1) = (from.1 ^ number.wrapping_mul(7), to.1.wrapping_add(number % 5));
        let flow = Flow { to_mac: CARD, from, to, ..Flow::default() };
        udp_test(&flow, what.load.size).map_err(|e| TrialError::Load(e.to_string()))
    };
    (0..what.flows).map(frame).collect()
}

/// `Counter -> Discard` on every CPU, behind what they share.
struct End {
    elements_ps: u64,
    shared: Option<Lock<u64>>,
    measured: Rc<RefCell<Measured>>,
}

impl Handler<QueueDevice> for End {
    fn work(&self) -> Work {
        Work::Protocol
    }
    fn receive(&self, machine: &Machine, _: &QueueDevice, frame: Frame) -> Option<Buf> {
        machine.spend_on(Function::Element, self.elements_ps);
        if let Some(shared) = &self.shared {
            shared.with(machine, |frames| *frames += 1);
        }
        self.measured.borrow_mut().note(machine.now_ps(), frame.as_ref());
        Some(frame.into_buffer())
    }
    fn handle(&mut self, _: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        Some(frame.into_buffer())
    }
}

/// All counters at one instant.
struct Reading {
    sent: u64,
    card: Tally,
    taken: u64,
    usage: Vec<Usage>,
    profile: Profile,
    counters: Counters,
    header_misses: u64,
    bus_busy_ps: u64,
    transactions: u64,
    memory_bytes: u64,
}

/// The machine, its stack and what counts.
struct Rig {
    room: Room,
    stack: Stack<QueueDevice, End>,
    header_misses: Vec<Rc<Cell<u64>>>,
    sent: Rc<Cell<u64>>,
}

impl Rig {
    fn build(
        setup: &RingSetup,
        what: &Scaling,
        measured: &Rc<RefCell<Measured>>,
    ) -> Result<Self, TrialError> {
        let StackParams::Linux24(params) = &setup.stack_params else {
            let stack = &setup.stack;
            return Err(TrialError::Load(format!("'{stack}' has no receive queues: Linux 2.4 and 2.6 have")));
        };
        if !(1..=setup.cpus).contains(&what.cpus) {
            let (machine, cpus) = (&setup.machine, setup.cpus);
            return Err(TrialError::Load(format!("{} CPUs: {machine} has 1 to {cpus}", what.cpus)));
        }
        let (host, config) = (&setup.host_params, &setup.config);
        let queues = what.cpus.min(setup.card.rx_queues as usize);
        let buffers = queues * (config.rx_ring as usize + config.weight as usize + 64);
        let bytes = memory_bytes(2 * queues, buffers, BUFFER_BYTES);
        let memory = Memory::new(bytes, host.cache_line_bytes);
        let mut world = World::new(memory, setup.bus_params.clone());
        let card = RingNic::new(setup.card.clone());
        let slot = world.plug_ring(card, Box::new(Silence), Box::new(Count::default()));
        let room = Room(Machine::with_cpus(host.clone(), world, what.cpus));
        let machine = &room.0;
        let allocator = Allocator::new(machine, buffers, BUFFER_BYTES);
        let card = Card::new(machine, slot);
        queue::spread(&card, queues);
        let attach = |cpu: usize| {
            let device = QueueDevice::attach(card.clone(), cpu, config, allocator.clone())
                .map_err(|_| TrialError::Testbed("no memory for the rings".into()))?;
            Ok(Attach { service: device.service(), device, slot, cpu })
        };
        let devices = (0..queues).map(attach).collect::<Result<Vec<_>, TrialError>>()?;
        let header_misses = devices.iter().map(|attach| attach.device.header_misses()).collect();
        let end = End {
            elements_ps: 2 * params.element_cycles * host.cycle_ps,
            shared: (what.shared_lines > 0).then(|| Lock::new(0, what.shared_lines)),
            measured: Rc::clone(measured),
        };
        let stack = Stack::start(machine, params.clone(), devices, end);
        Ok(Self { room, stack, header_misses, sent: Rc::default() })
    }

    fn stack_tally(&self, count: impl Fn(&kpps_machine::stack::linux24::Tally) -> u64) -> u64 {
        (0..self.header_misses.len()).map(|queue| count(&self.stack.tally(queue))).sum()
    }

    fn read(&self) -> Reading {
        let machine = &self.room.0;
        let (card, bus_busy_ps, transactions) = machine.with_world(|world| {
            (*world.ring_nic(0).tally(), world.bus().busy_ps(), world.bus().transactions())
        });
        Reading {
            sent: self.sent.get(),
            card,
            taken: self.stack_tally(|tally| tally.from_driver),
            usage: (0..machine.cpus()).map(|cpu| machine.usage_of(cpu)).collect(),
            profile: machine.profile(),
            counters: machine.counters(),
            header_misses: self.header_misses.iter().map(|misses| misses.get()).sum(),
            bus_busy_ps,
            transactions,
            memory_bytes: machine.memory().channel().bytes(),
        }
    }

    /// Where every frame is or ended.
    fn ledger(&self) -> Result<Ledger, TrialError> {
        let Reading { sent, card, taken, .. } = self.read();
        let delivered = self.stack_tally(|tally| tally.ended);
        let place = |name: &str, frames: u64| (name.to_owned(), frames);
        let ring = card.to_host.checked_sub(taken).ok_or_else(|| {
            TrialError::Testbed(format!(
                "the driver took {taken} frames, the card stored only {}",
                card.to_host
            ))
        })?;
        let in_hand = self.stack_tally(|tally| tally.in_hand);
        let in_flight_at =
            BTreeMap::from([place("fifo", card.in_fifo), place("ring", ring), place("app", in_hand)]);
        let ledger = Ledger {
            sent,
            unsent: 0,
            delivered,
            dropped: BTreeMap::from([
                place("fifo", card.dropped_engine),
                place("ring", card.dropped_no_descriptor),
                place("card_other", card.dropped_other),
            ]),
            in_flight: in_flight_at.values().sum(),
            in_flight_at,
        };
        if !ledger.closes() {
            return Err(TrialError::Testbed(format!("the ledger does not close: {ledger:?}")));
        }
        Ok(ledger)
    }
}

/// Offers a load to so many CPUs.
pub fn scale(setup: &RingSetup, what: &Scaling, go_on: &dyn Fn() -> bool) -> Result<Scaled, TrialError> {
    let load = &what.load;
    let line_pps = rate::line_rate_pps(setup.link_bits_per_s(), load.size);
    if !(load.offered_pps > 0.0 && load.offered_pps <= line_pps) || what.flows == 0 || load.duration_ms == 0 {
        return Err(TrialError::Load(format!(
            "a load of {:.0} pps in {} flows for {} ms cannot be offered: above 0 and at most line rate, {line_pps:.0} pps, in one flow or more",
            load.offered_pps, what.flows, load.duration_ms
        )));
    }
    if usize::from(load.size.bytes_without_fcs()) > BUFFER_BYTES {
        return Err(TrialError::Load(format!("frames fit a buffer of {BUFFER_BYTES} bytes here")));
    }
    let frames = frames(what)?;
    let measured = Rc::new(RefCell::new(Measured::between(0, 0)));
    let rig = Rig::build(setup, what, &measured)?;
    let (room, machine) = (&rig.room, &rig.room.0);
    let begin = machine.now_ps() + rate::slot_ps(setup.link_bits_per_s(), load.size);
    let measure = begin + u64::from(load.warmup_ms) * MS;
    let end = measure + u64::from(load.duration_ms) * MS;
    let afterwards = end + u64::from(AFTERWARDS_MS) * MS;
    *measured.borrow_mut() = Measured::between(measure, end);
    let first = begin + phase_ps(load.seed, (1e12 / load.offered_pps) as u64);
    let traffic = ConstantRate::of_flows(frames, load.offered_pps, first, afterwards, Rc::clone(&rig.sent));
    machine.with_world(|world| world.set_traffic(0, Box::new(traffic)));

    room.run(measure, go_on)?;
    let from = rig.read();
    room.run(end, go_on)?;
    let to = rig.read();
    room.run(afterwards, go_on)?;
    let ledger = rig.ledger()?;

    let elapsed_ps = end - measure;
    let seconds = elapsed_ps as f64 / 1e12;
    let cpu_time: Vec<Cpu> =
        from.usage.iter().zip(&to.usage).map(|(from, to)| cpu_time(from, to, elapsed_ps)).collect();
    let sent = to.sent - from.sent;
    let delivered = measured.borrow().delivered;
    let profile = to.profile.since(&from.profile);
    let waited = profile.of(Function::Spin) + profile.of(Function::Transfer);
    let busy_ps: u64 = from.usage.iter().zip(&to.usage).map(|(from, to)| to.busy_ps() - from.busy_ps()).sum();
    let memory_ps = match setup.host_params.memory_mb_per_s {
        0 => 0.0,
        rate => (to.memory_bytes - from.memory_bytes) as f64 * 1e6 / rate as f64,
    };
    let busy = Busy {
        wire: sent as f64 / seconds / line_pps,
        card: share(from.card.rx_busy_ps, to.card.rx_busy_ps, elapsed_ps),
        engine: (to.card.to_host - from.card.to_host) as f64 * setup.card.rx_engine_ps as f64
            / elapsed_ps as f64,
        bus: share(from.bus_busy_ps, to.bus_busy_ps, elapsed_ps),
        memory: memory_ps / elapsed_ps as f64,
        cpus: cpu_time.iter().map(Cpu::busy).collect(),
        shared: waited as f64 / busy_ps.max(1) as f64,
    };
    let taken = to.taken - from.taken;
    let limit = Limit::of(&busy, delivered as f64 / sent.max(1) as f64);
    Ok(Scaled {
        cpus: what.cpus,
        offered_pps: sent as f64 / seconds,
        delivered_pps: delivered as f64 / seconds,
        latency: std::mem::take(&mut measured.borrow_mut().latency),
        per_frame: PerFrame::between(
            (from.counters, from.transactions),
            (to.counters, to.transactions),
            taken,
        ),
        header_misses: (to.header_misses - from.header_misses) as f64 / taken.max(1) as f64,
        cpu_time,
        busy,
        limit,
        ledger,
    })
}
