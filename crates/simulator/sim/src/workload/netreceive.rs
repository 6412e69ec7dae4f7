//! A process that reads a UDP socket under Linux 2.4 or 2.6, as netreceive does.
//!
//! The first CPU takes the card's interrupts and runs the softirqs. The process runs on the last CPU, which
//! may be the same.

use crate::any_setup::AnySetup;
use crate::device::any::AnyDevice;
use crate::device::e1000::Frame;
use crate::experiment::{Phases, check_load};
use crate::ledger::check_socket;
use crate::setup::{Setup, cannot_copy};
use crate::simulation::{BUFFER_BYTES, Simulation};
use crate::source::{ConstantRate, frame_to_card};
use crate::stack_params::StackParams;
use kpps_documents::Cpu;
use kpps_frames::{Size, rate};
use kpps_host::stack::linux24::{Attach, Stack, Tally};
use kpps_host::stack::udp::{self, Socket};
use kpps_host::stack::{IntoBuffer, Netdev};
use kpps_host::wire::Count;
use kpps_host::{MS, Machine};
use kpps_methods::TrialError;
use std::rc::Rc;

/// The result of the receiving process. All but the last two are per second.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Offered.
    pub offered_pps: f64,
    /// Of these, frames that the driver handed to the kernel.
    pub taken_pps: f64,
    /// Of these, frames dropped because the backlog was full.
    pub dropped_backlog_pps: f64,
    /// Of these, datagrams dropped because the socket was full.
    pub dropped_socket_pps: f64,
    /// Of these, datagrams that the process read.
    pub pps: f64,
    /// Interrupts of the card.
    pub interrupts_per_s: f64,
    /// How the time went of the CPU that serves the card.
    pub cpu: Cpu,
    /// The same for the CPU that runs the process: the last, which may be the same.
    pub cpu_last: Cpu,
}

/// The readings besides the machine's counters.
struct Reading {
    stack: Tally,
    socket: udp::Tally,
}

/// A running machine whose process reads. The first CPU serves the card.
pub(super) struct Reads {
    pub simulation: Simulation,
    pub stack: Rc<Stack<AnyDevice, Socket<Frame>>>,
    pub socket: Socket<Frame>,
}

impl Reads {
    /// Builds a machine for frames of `size`, and starts the process. `read` gets each frame that the process
    /// has read.
    pub fn build(
        setup: &AnySetup,
        size: Size,
        read: impl Fn(&Machine, &Frame) + 'static,
    ) -> Result<Self, TrialError> {
        let StackParams::Linux24(params) = setup.stack_params().clone() else {
            return Err(TrialError::Testbed(format!("{} is no Linux 2.4 or 2.6", setup.stack())));
        };
        let buffer_bytes = match setup.clone() {
            AnySetup::E1000(setup) => setup.for_frames(size).config.rx_buffer_bytes.into(),
            AnySetup::RateLimited(_) => BUFFER_BYTES as u32,
        };
        let socket: Socket<Frame> = params.udp_socket(buffer_bytes);
        let (simulation, device) = Simulation::with_any_card(
            setup,
            size,
            (setup.cpus(), socket.capacity()),
            Box::<Count>::default(),
        )?;
        let machine = simulation.machine();
        if machine.host().copy_byte_ps == 0 {
            return Err(TrialError::Testbed(cannot_copy(setup.host())));
        }
        let attach = Attach { service: device.service(), device, slot: 0, cpu: 0 };
        let stack = Rc::new(Stack::start(machine, params, vec![attach], socket.clone()));
        let device = Rc::clone(&stack);
        socket.read_from_process(machine, machine.cpus() - 1, move |machine, frame| {
            read(machine, &frame);
            device.device(0).free(frame.into_buffer());
        });
        Ok(Self { simulation, stack, socket })
    }
}

/// Frames of `size` arrive at a constant rate, and the process reads them. An error if the machine has no
/// Linux 2.4 or 2.6, its host no cost of copying, or a frame is unaccounted for.
pub fn netreceive(
    setup: &Setup,
    size: Size,
    offered_pps: f64,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Received, TrialError> {
    check_load(offered_pps, rate::line_rate_pps(rate::GIGABIT, size), "line rate")?;
    let Reads { simulation, stack, socket } = Reads::build(&setup.clone().into(), size, |_, _| ())?;
    let machine = simulation.machine();
    let phases = Phases::of_ms(machine.now_ps() + MS, times_ms)?;
    let frame = frame_to_card(size, 0)?;
    let source = ConstantRate::new(frame, offered_pps, phases.begin_ps, u64::MAX - 1, Rc::default());
    machine.with_world(|world| world.set_traffic(0, Box::new(source)));

    let read = || Reading { stack: stack.tally(0), socket: socket.tally() };
    let interval = simulation.measure(&phases, go_on, |_| read())?;
    let Reading { stack: tally, socket: of_socket } = &interval.to.own;
    let accounted = tally.dropped_backlog + tally.in_backlog + tally.in_hand + tally.ended;
    check_socket(tally.from_driver == accounted, (tally.ended, tally.in_hand), of_socket)?;
    let cpus = interval.cpus();
    Ok(Received {
        offered_pps,
        taken_pps: interval.per_second(|s| s.own.stack.from_driver),
        dropped_backlog_pps: interval.per_second(|s| s.own.stack.dropped_backlog),
        dropped_socket_pps: interval.per_second(|s| s.own.socket.dropped),
        pps: interval.per_second(|s| s.own.socket.read),
        interrupts_per_s: interval.per_second(|s| s.counters.interrupts),
        cpu: cpus[0],
        cpu_last: cpus[cpus.len() - 1],
    })
}
