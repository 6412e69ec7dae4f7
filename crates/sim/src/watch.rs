//! A machine under watch: what crosses its bus, its wires and its registers, and when.
//!
//! One or several ports are loaded at once, their interrupts spread over the machine's CPUs, and served by a kernel that
//! receives frames nobody wants: the path of raw frames through Linux 2.6, up to the protocol demultiplexer, which frees
//! them. That is the setting
//! in which a bus analyser shows what driver and card do to each other, undisturbed by an application.

mod kernel;
mod plot;
mod regime;
mod table;
mod traffic;
mod values;

pub use kpps_machine::bus::Background;
pub use plot::plot;
pub use regime::{Regimes, regimes};
pub use table::{csv, summary, timeline};
pub use traffic::Groups;
pub use values::{crossed, values};

use crate::netdev::Bound;
use crate::setup::{Setup, StackParams};
use crate::simulated::CARD;
use kernel::Nobody;
use kpps_datasheet::{reg, stat};
use kpps_frames::Size;
use kpps_frames::build::{Flow, udp_test};
use kpps_machine::bus::{BackgroundTally, Log};
use kpps_machine::cpu::{Counters, Profile, Usage};
use kpps_machine::memory::Memory;
use kpps_machine::platform::{Allocator, Card, memory_bytes};
use kpps_machine::stack::linux24::{Attach, Stack};
use kpps_machine::wire::{Count, Silence};
use kpps_machine::{MS, Machine, US, World};
use kpps_measure::TrialError;
use kpps_model::{Nic, Tally};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use traffic::Wire;

/// What is to be watched.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Frame size.
    pub size: Size,
    /// Frames offered to each port, per second.
    pub offered_pps: f64,
    /// How the source of each port spaces them.
    pub groups: Groups,
    /// Ports, each loaded; each interrupts one CPU, in turn.
    pub ports: usize,
    /// Load before the log and all counts begin, in microseconds.
    pub warmup_us: u64,
    /// How long is watched, in microseconds.
    pub duration_us: u64,
    /// Transactions and events that are kept, the latest; 0: none.
    pub log: usize,
    /// Frames that are kept of each wire, the first.
    pub capture: usize,
    /// Another master on the bus.
    pub background: Option<Background>,
}

impl Watch {
    /// One port, evenly loaded from the first frame on, with a log that keeps a few milliseconds.
    pub fn new(size: Size, offered_pps: f64, duration_us: u64) -> Self {
        Self {
            size,
            offered_pps,
            groups: Groups::EVEN,
            ports: 1,
            warmup_us: 0,
            duration_us,
            log: 1 << 17,
            capture: 0,
            background: None,
        }
    }
}

/// What became of a port's frames while it was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Port {
    /// Frames sent to it.
    pub sent: u64,
    /// Frames that reached the kernel's demultiplexer.
    pub delivered: u64,
    /// The card's register of missed packets.
    pub missed: u64,
    /// The card's tally over the whole run, warm-up included, and that before the watch began.
    pub card: Tally,
    /// As `card`, when the watch began.
    pub card_before: Tally,
    /// Frames delivered before the watch began.
    pub delivered_before: u64,
}

/// What was seen.
pub struct Watched {
    /// One bus clock, in picoseconds.
    pub clock_ps: u64,
    /// When the watch began and ended.
    pub began_ps: u64,
    /// See `began_ps`.
    pub ended_ps: u64,
    /// The ports.
    pub ports: Vec<Port>,
    /// Transactions and events.
    pub log: Log,
    /// Where receive tails are, for reading the log.
    pub tail_offset: u32,
    /// Each wire's first frames: when the last bit arrived, and the frame without FCS.
    pub wires: Vec<Vec<(u64, Vec<u8>)>>,
    /// How the CPUs' time went, by function.
    pub profile: Profile,
    /// And by level.
    pub usage: Usage,
    /// What was counted.
    pub counters: Counters,
    /// Time for which the bus was occupied.
    pub bus_busy_ps: u64,
    /// What became of the background device's bursts.
    pub background: BackgroundTally,
}

impl Watched {
    /// How long was watched, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.ended_ps - self.began_ps) as f64 / 1e12
    }

    /// Frames per second that reached the kernel, of one port.
    pub fn delivered_pps(&self, port: usize) -> f64 {
        self.ports.get(port).map_or(0.0, |p| p.delivered as f64 / self.seconds())
    }

    /// Share of the time for which the bus was occupied.
    pub fn bus_busy(&self) -> f64 {
        self.bus_busy_ps as f64 / (self.ended_ps - self.began_ps) as f64
    }

    /// Megabytes (10⁶ bytes) per second that crossed the bus, of those in the log.
    pub fn bus_mb_per_s(&self) -> f64 {
        let bytes: u64 = self.log.transactions().map(|t| u64::from(t.bytes)).sum();
        bytes as f64 / self.seconds() / 1e6
    }
}

fn counters_since(now: Counters, before: Counters) -> Counters {
    Counters {
        interrupts: now.interrupts - before.interrupts,
        register_reads: now.register_reads - before.register_reads,
        register_writes: now.register_writes - before.register_writes,
        mask_writes: now.mask_writes - before.mask_writes,
        cache_misses: now.cache_misses - before.cache_misses,
        line_transfers: now.line_transfers - before.line_transfers,
        allocations: now.allocations - before.allocations,
        allocated_bytes: now.allocated_bytes - before.allocated_bytes,
    }
}

fn usage_since(now: Usage, before: Usage) -> Usage {
    Usage {
        hardirq_ps: now.hardirq_ps - before.hardirq_ps,
        softirq_ps: now.softirq_ps - before.softirq_ps,
        thread_ps: now.thread_ps - before.thread_ps,
        empty_poll_ps: now.empty_poll_ps - before.empty_poll_ps,
        process_ps: now.process_ps - before.process_ps,
    }
}

/// A machine that is taken apart when it goes out of scope.
struct Room(Machine);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.halt();
    }
}

/// Sets the machine up, loads its ports and watches them.
pub fn watch(setup: &Setup, what: &Watch, go_on: &dyn Fn() -> bool) -> Result<Watched, TrialError> {
    let line_pps = kpps_frames::rate::line_rate_pps(kpps_frames::rate::GIGABIT, what.size);
    if !(what.offered_pps > 0.0 && what.offered_pps <= line_pps * 1.000_001) {
        return Err(TrialError::Load(format!(
            "a load of {:.0} pps cannot be offered: above 0 and at most line rate, {line_pps:.0} pps",
            what.offered_pps
        )));
    }
    if !(1..=8).contains(&what.ports) {
        return Err(TrialError::Load(format!("{} ports: 1 to 8 can be watched", what.ports)));
    }
    let flow = Flow { to_mac: CARD, ..Flow::default() };
    let frame = udp_test(&flow, what.size).map_err(|e| TrialError::Load(e.to_string()))?;
    let setup = setup.clone().for_frames(what.size);
    let config = &setup.config;
    let buffers = 2 * usize::from(config.rx_ring.max(config.tx_ring)) + 512;
    let buffer_bytes = usize::from(config.rx_buffer_bytes).max(2048);
    let memory = Memory::new(
        memory_bytes(2 * what.ports, buffers * what.ports, buffer_bytes),
        setup.host_params.cache_line_bytes,
    );
    let mut world = World::new(memory, setup.bus_params.clone());
    for _ in 0..what.ports {
        world.plug(Nic::new(setup.card.clone(), CARD.0), Box::new(Silence), Box::new(Count::default()));
    }
    let room = Room(Machine::with_cpus(setup.host_params.clone(), world, setup.cpus));
    let machine = &room.0;
    let StackParams::Linux24(stack_params) = setup.stack_params.clone() else {
        return Err(TrialError::Testbed(format!(
            "only machines with Linux 2.4 or 2.6 can be watched, not with {}",
            setup.stack
        )));
    };
    let mut devices = Vec::with_capacity(what.ports);
    for slot in 0..what.ports {
        let allocator = Allocator::new(machine, buffers, buffer_bytes);
        let bound = Bound::probe(Card::new(machine, slot), setup.card.chip, config, allocator);
        let bound = bound.map_err(|e| {
            TrialError::Testbed(format!("the driver does not start on the {}: {e}", setup.chip))
        })?;
        devices.push(Attach { service: bound.service(), device: bound, slot, cpu: slot % setup.cpus });
    }
    let stack = Stack::start(machine, stack_params, devices, Nobody);
    let delivered = |port: usize| stack.tally(port).ended;

    let begin = machine.now_ps() + 10 * US;
    let measure = begin + what.warmup_us * US;
    let end = measure + what.duration_us * US;
    let captures: Vec<_> = (0..what.ports).map(|_| Rc::new(RefCell::new(Vec::new()))).collect();
    let sent: Vec<_> = (0..what.ports).map(|_| Rc::new(Cell::new(0))).collect();
    for port in 0..what.ports {
        // The watch sees the first frame, too; and ports that are loaded alike do not ask for the bus at the same instant.
        let first = begin + US + port as u64 * 100_000;
        let wire = Wire::new(
            frame.clone(),
            what.offered_pps,
            what.groups,
            (first, end),
            Rc::clone(&sent[port]),
            (what.capture, Rc::clone(&captures[port])),
        );
        machine.with_world(|world| world.set_traffic(port, Box::new(wire)));
    }
    if let Some(background) = what.background {
        machine.with_world(|world| world.bus_mut().set_background(begin, background));
    }

    run(machine, measure, go_on)?;
    let (usage, counters, profile) = (machine.usage(), machine.counters(), machine.profile());
    let bus_busy_ps = machine.with_world(|world| {
        if what.log > 0 {
            world.bus_mut().start_log(what.log);
        }
        world.bus().busy_ps()
    });
    let missed = setup.card.chip.offset(stat::MPC);
    let mut ports: Vec<Port> = (0..what.ports)
        .map(|port| {
            machine.with_world(|world| {
                world.register_read(machine.now_ps(), port, missed);
                Port {
                    sent: sent[port].get(),
                    delivered_before: delivered(port),
                    card_before: *world.nic(port).tally(),
                    ..Port::default()
                }
            })
        })
        .collect();
    run(machine, end, go_on)?;
    for (index, port) in ports.iter_mut().enumerate() {
        port.sent = sent[index].get() - port.sent;
        port.delivered = delivered(index) - port.delivered_before;
        machine.with_world(|world| {
            port.missed = world.register_read(machine.now_ps(), index, missed).into();
            port.card = *world.nic(index).tally();
        });
        if !port.card.closes() {
            return Err(TrialError::Testbed(format!("the card's ledger does not close: {:?}", port.card)));
        }
    }
    let (log, busy, background) = machine.with_world(|world| {
        let background = world.bus_mut().background_tally(end);
        (world.bus_mut().take_log().unwrap_or_default(), world.bus().busy_ps(), background)
    });
    Ok(Watched {
        clock_ps: setup.bus_params.clock_ps,
        began_ps: measure,
        ended_ps: end,
        ports,
        log,
        tail_offset: setup.card.chip.offset(reg::RDT),
        wires: captures.iter().map(|capture| std::mem::take(&mut *capture.borrow_mut())).collect(),
        profile: machine.profile().since(&profile),
        usage: usage_since(machine.usage(), usage),
        counters: counters_since(machine.counters(), counters),
        bus_busy_ps: busy - bus_busy_ps,
        background,
    })
}

/// Runs until `until_ps`, asking now and then whether to go on.
fn run(machine: &Machine, until_ps: u64, go_on: &dyn Fn() -> bool) -> Result<(), TrialError> {
    while machine.now_ps() < until_ps {
        if !go_on() {
            return Err(TrialError::Interrupted);
        }
        machine.run(until_ps.min(machine.now_ps() + 100 * MS));
    }
    Ok(())
}
