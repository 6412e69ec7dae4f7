//! Records a bus trace: what crosses a machine's bus, its wires and its registers, and when.
//!
//! One or several ports are loaded at once, and their interrupts are spread over the machine's CPUs. The
//! kernel takes raw frames up to its protocol demultiplexer. There no protocol wants them, and it frees
//! them; or a packet socket of each port takes them ([`Consumer`]), from which a process reads.

use crate::device::e1000::{E1000, Frame};
use crate::experiment::{Phases, check_load};
use crate::setup::Setup;
use crate::simulation::Simulation;
use crate::source::{PacedGroups, frame_to_card};
use crate::stack::Discard;
use crate::stack_params::StackParams;
use crate::trace::{Port, Trace};
use kpps_datasheet::{reg, stat};
use kpps_frames::{Size, rate};
use kpps_host::platform::Buf;
use kpps_host::stack::linux24::{Attach, Params, Stack};
use kpps_host::stack::udp::Socket;
use kpps_host::stack::{Handler, Interface, IntoBuffer, Netdev, Work};
use kpps_host::wire::{Count, Receiver};
use kpps_host::{Machine, US};
use kpps_methods::TrialError;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub use crate::source::Groups;
pub use kpps_host::bus::Background;

/// The machine and the load to record.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// Frame size.
    pub size: Size,
    /// Frames offered to each port, per second.
    pub offered_pps: f64,
    /// How the source of each port spaces them.
    pub groups: Groups,
    /// Ports under load; each interrupts one CPU, in turn.
    pub ports: usize,
    /// Load before the log and all counts begin, in microseconds.
    pub warmup_us: u64,
    /// How long is recorded, in microseconds.
    pub duration_us: u64,
    /// How many transactions and events are kept, the latest; 0: none.
    pub log: usize,
    /// How many frames are kept of each wire, the first.
    pub capture: usize,
    /// Another master on the bus.
    pub background: Option<Background>,
    /// The consumer of the frames.
    pub consumer: Consumer,
}

/// The consumer of raw frames in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consumer {
    /// Nobody: the demultiplexer frees them.
    #[default]
    Nobody,
    /// A packet socket, and a process on another CPU that reads it: frames that it has read are delivered.
    PacketSocket,
}

impl Tracing {
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
            consumer: Consumer::Nobody,
        }
    }
}

/// The handler of a port's frames.
enum Takes {
    Nobody(Discard),
    PacketSockets(Vec<Socket<Frame>>),
}

impl Handler<E1000> for Takes {
    fn work(&self) -> Work {
        match self {
            Self::Nobody(discard) => Handler::<E1000>::work(discard),
            Self::PacketSockets(_) => Work::Protocol,
        }
    }
    fn receive(&self, machine: &Machine, port: &Interface<E1000>, frame: Frame) -> Option<Buf> {
        match self {
            Self::PacketSockets(sockets) => match sockets.get(port.device.slot()) {
                Some(socket) => socket.receive(machine, port, frame),
                None => Some(frame.into_buffer()),
            },
            Self::Nobody(_) => Some(frame.into_buffer()),
        }
    }
    fn handle(&mut self, _: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        Some(frame.into_buffer())
    }
}

/// The readings of a port besides the machine's counters.
struct Reading {
    sent: u64,
    delivered: u64,
    /// The card's register of missed packets, which reading clears.
    missed: u64,
}

/// The longest trace in µs: its log would be full long before.
const MOST_US: u64 = 10_000_000;

/// Refuses a load or a machine that cannot be traced. Returns the machine's stack.
fn check(setup: &Setup, what: &Tracing) -> Result<Params, TrialError> {
    check_load(what.offered_pps, rate::line_rate_pps(rate::GIGABIT, what.size), "line rate")?;
    if !(1..=8).contains(&what.ports) {
        return Err(TrialError::Load(format!("{} ports: 1 to 8 can be traced", what.ports)));
    }
    if what.duration_us > MOST_US {
        return Err(TrialError::Load(format!("at most {} s can be traced", MOST_US / 1_000_000)));
    }
    match setup.stack_params.clone() {
        StackParams::Linux24(params) => Ok(params),
        _ => Err(TrialError::Load(format!(
            "only machines with Linux 2.4 or 2.6 can be traced, not with {}",
            setup.stack
        ))),
    }
}

/// Frames, each with the time of its last bit.
type Captured = Vec<(u64, Vec<u8>)>;

/// A wire into a port, as its source reports it.
#[derive(Default)]
struct Wire {
    sent: Rc<Cell<u64>>,
    /// The first frames.
    capture: Rc<RefCell<Captured>>,
}

impl Wire {
    /// Loads a port.
    fn load(machine: &Machine, port: usize, what: &Tracing, phases: &Phases) -> Result<Self, TrialError> {
        let wire = Self::default();
        // The trace shows the first frame, too. Ports that are loaded alike do not ask for the bus at the
        // same instant.
        let first_ps = phases.begin_ps + US + port as u64 * 100_000;
        let source = PacedGroups::new(
            frame_to_card(what.size, port)?,
            what.offered_pps,
            what.groups,
            (first_ps, phases.end_ps),
            Rc::clone(&wire.sent),
            (what.capture, Rc::clone(&wire.capture)),
        );
        machine.with_world(|world| world.set_traffic(port, Box::new(source)));
        Ok(wire)
    }
}

/// Sets the machine up, loads its ports and records the events.
pub fn trace(setup: &Setup, what: &Tracing, go_on: &dyn Fn() -> bool) -> Result<Trace, TrialError> {
    let params = check(setup, what)?;
    let setup = setup.clone().for_frames(what.size);
    let card = |_| (setup.card.clone(), Box::<Count>::default() as Box<dyn Receiver>);
    let cards = (0..what.ports).map(card).collect();
    let socket = |_| params.packet_socket::<Frame>(setup.config.rx_buffer_bytes.into());
    let sockets: Vec<_> = match what.consumer {
        Consumer::Nobody => Vec::new(),
        Consumer::PacketSocket => (0..what.ports).map(socket).collect(),
    };
    let held = sockets.iter().map(Socket::capacity).sum();
    let (simulation, devices) = Simulation::build(&setup, setup.cpus, held, cards)?;
    let machine = simulation.machine();
    let attach = devices.into_iter().enumerate().map(|(slot, device)| {
        let service = device.service();
        Attach { device, slot, service, cpu: slot % setup.cpus }
    });
    let takes = match what.consumer {
        Consumer::Nobody => Takes::Nobody(Discard),
        Consumer::PacketSocket => Takes::PacketSockets(sockets.clone()),
    };
    let stack = Rc::new(Stack::start(machine, params, attach.collect(), takes));
    for (slot, socket) in sockets.iter().enumerate() {
        let device = Rc::clone(&stack);
        // On a CPU that serves no card, as far as there are any.
        socket.read_from_process(machine, (slot + what.ports) % setup.cpus, move |machine, frame| {
            machine.without_interrupts(|| device.device(slot).free(frame.into_buffer()));
        });
    }

    // The start's own interrupt is long ago by then: ITR no longer delays the first one of a frame.
    let phases = Phases::new(machine.now_ps() + 1000 * US, what.warmup_us * US, what.duration_us * US)?;
    let wires = (0..what.ports).map(|port| Wire::load(machine, port, what, &phases));
    let wires = wires.collect::<Result<Vec<_>, _>>()?;
    if let Some(background) = what.background {
        machine.with_world(|world| world.bus_mut().set_background(phases.begin_ps, background));
    }

    let missed = setup.card.chip.offset(stat::MPC);
    let began = Cell::new(false);
    let interval = simulation.measure(&phases, go_on, |machine| {
        let now_ps = machine.now_ps();
        machine.with_world(|world| {
            if began.replace(true) {
                // The background device's bursts that are due by now have taken their time of the bus.
                world.bus_mut().background_tally(now_ps);
            } else if what.log > 0 {
                world.bus_mut().start_log(what.log);
            }
            let port = |port: usize| Reading {
                sent: wires[port].sent.get(),
                delivered: sockets.get(port).map_or(stack.tally(port).ended, |socket| socket.tally().read),
                missed: world.register_read(now_ps, port, missed).into(),
            };
            (0..what.ports).map(port).collect::<Vec<_>>()
        })
    })?;
    let port = |port: usize| Port {
        sent: interval.count(|s| s.own[port].sent),
        delivered: interval.count(|s| s.own[port].delivered),
        delivered_before: interval.from.own[port].delivered,
        missed: interval.to.own[port].missed,
        card: interval.to.cards[port],
        card_before: interval.from.cards[port],
    };
    let (log, background) = machine.with_world(|world| {
        let background = world.bus_mut().background_tally(phases.end_ps);
        (world.bus_mut().take_log().unwrap_or_default(), background)
    });
    Ok(Trace {
        clock_ps: setup.bus_params.clock_ps,
        began_ps: phases.measure_ps,
        ended_ps: phases.end_ps,
        ports: (0..what.ports).map(port).collect(),
        log,
        tail_offset: setup.card.chip.offset(reg::RDT),
        wires: wires.iter().map(|wire| wire.capture.take()).collect(),
        profile: interval.profile(),
        usage: interval.to.usage.since(&interval.from.usage),
        counters: interval.to.counters.since(&interval.from.counters),
        bus_busy_ps: interval.count(|s| s.bus_busy_ps),
        background,
    })
}
