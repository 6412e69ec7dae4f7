//! One card with several receive queues, each served by a CPU of its own: how packets scale with CPUs, and
//! what stops them.
//!
//! The card is a rate-limited NIC that spreads flows over its queues (receive side scaling). The system is
//! Linux, whose frames end in a counter. The limit is found, not set: every part reports the share of time in
//! which it was busy.

use crate::device::e1000::Frame;
use crate::device::rate_limited_queue::{self, QueueDevice};
use crate::experiment::{Phases, offered_pps};
use crate::ledger::Places;
use crate::per_frame::PerFrame;
use crate::setup::RateLimitedSetup;
use crate::simulation::{CARD, Simulation, check_one_buffer};
use crate::sink::Measured;
use crate::source::{ConstantRate, phase_ps};
use crate::stack_params::StackParams;
use kpps_card::rate_limited::Tally;
use kpps_documents::{Cpu, Latency, Ledger};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, rate};
use kpps_host::Machine;
use kpps_host::cpu::{Function, Lock};
use kpps_host::platform::Buf;
use kpps_host::stack::linux24::{self, Attach, Stack};
use kpps_host::stack::{Handler, Interface, IntoBuffer, Work};
use kpps_host::wire::Count;
use kpps_methods::{Load, TrialError};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// How long frames may still arrive after the measured time. No ring holds a frame for that long.
const DRAIN_MS: u32 = 5;
/// The share of its time from which a part counts as full: the rest are gaps between pieces of work.
const FULL: f64 = 0.95;
/// The share of a load that counts as all of it.
const ALL: f64 = 0.999;

/// The load, and the number of CPUs.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// The load, all flows together.
    pub load: Load,
    /// UDP flows that it consists of, one frame of each in turn. Each has its own host and ports.
    pub flows: u16,
    /// CPUs, and as many receive queues, as far as the card has them.
    pub cpus: usize,
    /// Cache lines that every frame changes under one lock, on whichever CPU: those of one socket for all
    /// flows, for example. 0: CPUs share nothing.
    pub shared_lines: u32,
}

/// How much of its time each part was in use: 1 is all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// The wire.
    pub wire: f64,
    /// The card's receiver, its waiting for the bus included.
    pub card: f64,
    /// Of that, the card's own work.
    pub engine: f64,
    /// The bus; with two directions the busier one.
    pub bus: f64,
    /// Memory; `None` on a host whose memory has no limit.
    pub memory: Option<f64>,
    /// Each CPU.
    pub cpus: Vec<f64>,
    /// The share of the CPUs' time that went into waiting for locks and for lines of other CPUs.
    pub shared: f64,
}

/// Why there are not more packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// All that was offered was delivered.
    Load,
    /// The same, and the wire carries no more.
    Wire,
    /// The bus is full, or the card waits for it most of the time, and does nothing else.
    Bus,
    /// Memory is full.
    Memory,
    /// The card is busy all the time, mostly with its own work.
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

    /// Checks the parts from the outside in: a CPU that waits for memory is busy, too.
    fn of(busy: &Busy, delivered: f64) -> Self {
        let full = |share: f64| share >= FULL;
        match () {
            () if delivered >= ALL && busy.wire >= ALL => Self::Wire,
            () if delivered >= ALL => Self::Load,
            () if full(busy.bus) => Self::Bus,
            () if busy.memory.is_some_and(full) => Self::Memory,
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

/// The result of a number of CPUs at a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// CPUs.
    pub cpus: usize,
    /// Frames offered in a second.
    pub offered_pps: f64,
    /// Of these, frames that reached their end.
    pub delivered_pps: f64,
    /// Their latency.
    pub latency_ns: Latency,
    /// Counts for each frame that the driver took; `None` if it took none.
    pub per_frame: Option<PerFrame>,
    /// Cache lines fetched to read headers, for each of these frames.
    pub header_misses: Option<f64>,
    /// How each CPU's time went.
    pub cpu_time: Vec<Cpu>,
    /// How much of its time each part was in use.
    pub busy: Busy,
    /// Why there are not more.
    pub limit: Limit,
    /// Where every frame of the trial ended.
    pub ledger: Ledger,
}

/// The number of CPUs from which more bring no more packets (less than a hundredth), and what stops the last
/// of `rows`, which are in the order of their CPUs. `None` if the last still gains.
pub fn stop(rows: &[Scaled]) -> Option<(usize, Limit)> {
    let most = rows.iter().map(|row| row.delivered_pps).fold(0.0, f64::max);
    let first = rows.iter().find(|row| row.delivered_pps >= 0.99 * most)?;
    let last = rows.last()?;
    let goes_on = first.cpus == last.cpus && last.limit.is_cpus();
    (!goes_on).then_some((first.cpus, last.limit))
}

/// A frame of each flow: from hosts of the network for benchmarks, each with its own ports.
fn frames(what: &Scaling, size: Size) -> Result<Vec<Vec<u8>>, TrialError> {
    let frame = |number: u16| {
        let Flow { mut from, mut to, .. } = Flow::default();
        from.0 = u32::from(from.0).wrapping_add(u32::from(number)).into();
        (from.1, to.1) = (from.1 ^ number.wrapping_mul(7), to.1.wrapping_add(number % 5));
        let flow = Flow { to_mac: CARD, from, to, ..Flow::default() };
        udp_test(&flow, size).map_err(|e| TrialError::Load(e.to_string()))
    };
    (0..what.flows).map(frame).collect()
}

/// `Counter -> Discard` on every CPU, after the shared part.
struct End {
    elements_ps: u64,
    shared: Option<Lock<u64>>,
    measured: Rc<RefCell<Measured>>,
}

impl Handler<QueueDevice> for End {
    fn work(&self) -> Work {
        Work::Protocol
    }
    fn receive(&self, machine: &Machine, _: &Interface<QueueDevice>, frame: Frame) -> Option<Buf> {
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

/// The readings besides the machine's counters.
struct Reading {
    sent: u64,
    card: Tally,
    /// Frames that the drivers have handed up.
    taken: u64,
    /// Frames that have reached their end, whenever they were sent: with a long queue that is long after.
    ended: u64,
    header_misses: u64,
}

/// The machine and its stack.
struct Rig {
    simulation: Simulation,
    stack: Stack<QueueDevice, End>,
    header_misses: Vec<Rc<Cell<u64>>>,
    sent: Rc<Cell<u64>>,
}

impl Rig {
    fn build(
        setup: &RateLimitedSetup,
        what: &Scaling,
        measured: &Rc<RefCell<Measured>>,
    ) -> Result<Self, TrialError> {
        let StackParams::Linux24(params) = &setup.stack_params else {
            let stack = &setup.stack;
            return Err(TrialError::Load(format!(
                "'{stack}' has no receive queue for each CPU: choose a machine with Linux 2.4 or 2.6"
            )));
        };
        if !(1..=setup.cpus).contains(&what.cpus) {
            let (machine, cpus) = (&setup.machine, setup.cpus);
            return Err(TrialError::Load(format!("{} CPUs: {machine} has 1 to {cpus}", what.cpus)));
        }
        let queues = what.cpus.min(setup.card.rx_queues as usize);
        let receiver = Box::new(Count::default());
        let (simulation, card, allocator) =
            Simulation::with_rate_limited_nic(setup, what.cpus, (queues, 0), receiver);
        rate_limited_queue::spread(&card, queues);
        let attach = |cpu: usize| {
            let device = QueueDevice::attach(card.clone(), cpu, &setup.config, allocator.clone())
                .map_err(|_| TrialError::Testbed("no memory for the rings".into()))?;
            Ok(Attach { service: device.service(), device, slot: card.slot(), cpu })
        };
        let devices = (0..queues).map(attach).collect::<Result<Vec<_>, TrialError>>()?;
        let header_misses = devices.iter().map(|attach| attach.device.header_misses()).collect();
        let end = End {
            elements_ps: setup.host_params.pentium_iii_ps(2 * params.element_cycles),
            shared: (what.shared_lines > 0).then(|| Lock::new(0, what.shared_lines)),
            measured: Rc::clone(measured),
        };
        let stack = Stack::start(simulation.machine(), params.clone(), devices, end);
        Ok(Self { simulation, stack, header_misses, sent: Rc::default() })
    }

    /// Adds up a count of all queues.
    fn queues(&self, count: impl Fn(&linux24::Tally) -> u64) -> u64 {
        (0..self.header_misses.len()).map(|queue| count(&self.stack.tally(queue))).sum()
    }

    fn read(&self) -> Reading {
        Reading {
            sent: self.sent.get(),
            card: self.simulation.machine().with_world(|world| *world.rate_limited_nic(0).tally()),
            taken: self.queues(|tally| tally.from_driver),
            ended: self.queues(|tally| tally.ended),
            header_misses: self.header_misses.iter().map(|misses| misses.get()).sum(),
        }
    }

    /// Where every frame is or ended.
    fn ledger(&self) -> Result<Ledger, TrialError> {
        let Reading { sent, card, taken, .. } = self.read();
        let mut places = Places::default();
        places.rate_limited_nic(&card, taken)?;
        places.in_flight("app", self.queues(|tally| tally.in_hand));
        places.close(sent, self.queues(|tally| tally.ended))
    }
}

/// Frames that are sent and reach their end while a trial is measured are its rate. If they are less than
/// this share of all that reach their end meanwhile, a queue takes a good part of the trial or more: then all
/// those are.
const STEADY: f64 = 0.97;

/// Offers a load to a number of CPUs.
pub fn scale(
    setup: &RateLimitedSetup,
    what: &Scaling,
    go_on: &dyn Fn() -> bool,
) -> Result<Scaled, TrialError> {
    let load = &what.load;
    let size = load.size()?;
    let line_pps = rate::line_rate_pps(setup.link_bits_per_s(), size);
    let offered_pps = offered_pps(load.rate, line_pps, "line rate")?;
    if offered_pps * load.seconds() < 1.0 {
        return Err(TrialError::nothing_due(load));
    }
    if what.flows == 0 {
        return Err(TrialError::Load("a load needs at least one flow".into()));
    }
    check_one_buffer(size)?;
    let frames = frames(what, size)?;
    let measured = Rc::new(RefCell::new(Measured::default()));
    let rig = Rig::build(setup, what, &measured)?;
    let machine = rig.simulation.machine();
    let begin_ps = machine.now_ps() + rate::slot_ps(setup.link_bits_per_s(), size);
    let phases = Phases::of(begin_ps, load)?.draining(DRAIN_MS);
    measured.replace(Measured::between(phases.measure_ps, phases.end_ps).of_flows(frames.len()));
    let first_ps = begin_ps + phase_ps(load.seed, (1e12 / offered_pps) as u64);
    let sent = Rc::clone(&rig.sent);
    let source = ConstantRate::of_flows(frames, offered_pps, first_ps, phases.drained_ps, sent);
    machine.with_world(|world| world.set_traffic(0, Box::new(source)));

    let interval = rig.simulation.measure(&phases, go_on, |_| rig.read())?;
    let ledger = rig.ledger()?;
    let Measured { delivered, latency, .. } = measured.take();
    let ended = interval.count(|s| s.own.ended);
    let delivered = if (delivered as f64) < STEADY * ended as f64 { ended } else { delivered };
    let (elapsed_ps, seconds) = (interval.elapsed_ps(), interval.seconds());
    let cpu_time = interval.cpus();
    let sent = interval.count(|s| s.own.sent);
    let profile = interval.profile();
    let waited = profile.of(Function::Spin) + profile.of(Function::Transfer);
    let busy_ps = interval.count(|s| s.usage.busy_ps());
    let memory_ps = match setup.host_params.memory_mb_per_s {
        0 => None,
        rate => Some(interval.count(|s| s.memory_bytes) as f64 * 1e6 / rate as f64),
    };
    let busy = Busy {
        wire: sent as f64 / seconds / line_pps,
        card: interval.share(|s| s.own.card.rx_busy_ps),
        engine: interval.count(|s| s.own.card.to_host) as f64 * setup.card.rx_engine_ps as f64
            / elapsed_ps as f64,
        bus: interval.share(|s| s.bus_busy_ps),
        memory: memory_ps.map(|ps| ps / elapsed_ps as f64),
        cpus: cpu_time.iter().map(Cpu::busy).collect(),
        shared: waited as f64 / busy_ps.max(1) as f64,
    };
    let taken = interval.count(|s| s.own.taken);
    Ok(Scaled {
        cpus: what.cpus,
        offered_pps,
        delivered_pps: delivered as f64 / seconds,
        latency_ns: latency.quantiles(),
        per_frame: interval.per_frame(taken),
        header_misses: interval.per(taken, |s| s.own.header_misses),
        cpu_time,
        limit: Limit::of(&busy, delivered as f64 / sent.max(1) as f64),
        busy,
        ledger,
    })
}
