//! A process that reads a UDP socket under Linux 2.4 or 2.6, as netreceive does.
//!
//! The first CPU takes the card's interrupts and does what softirqs do; the process runs on the last, which may be the same.

use crate::netdev::Frame;
use crate::setup::{Setup, StackParams};
use crate::simulated::{CARD, Room, cpu_time};
use crate::traffic::ConstantRate;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, rate};
use kpps_machine::MS;
use kpps_machine::cpu::{Counters, Usage};
use kpps_machine::stack::linux24::{Attach, Stack, Tally};
use kpps_machine::stack::udp::{self, Socket};
use kpps_machine::stack::{IntoBuffer, Netdev};
use kpps_machine::wire::Count;
use kpps_measure::TrialError;
use kpps_results::Cpu;
use std::rc::Rc;

/// What the process got, each second but for the last two.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Offered.
    pub offered_pps: f64,
    /// Of these, that the driver handed to the kernel.
    pub taken_pps: f64,
    /// Of these, that the backlog had no room for.
    pub dropped_backlog_pps: f64,
    /// Of these, that the socket had no room for.
    pub dropped_socket_pps: f64,
    /// Of these, that the process read.
    pub pps: f64,
    /// Interrupts of the card.
    pub interrupts_per_s: f64,
    /// How the time went of the CPU that serves the card.
    pub cpu: Cpu,
    /// And of the one that runs the process: the last, which may be the same.
    pub cpu_last: Cpu,
}

/// All counters at one instant.
struct Reading {
    stack: Tally,
    socket: udp::Tally,
    counters: Counters,
    usage: Usage,
    usage_last: Usage,
}

/// Frames of `size` arrive at a constant rate and are read by the process. An error if the machine has no Linux 2.4 or 2.6,
/// its host no cost of copying, or a frame is nowhere.
pub fn netreceive(
    setup: &Setup,
    size: Size,
    offered_pps: f64,
    (warmup_ms, duration_ms): (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Received, TrialError> {
    let StackParams::Linux24(params) = setup.stack_params.clone() else {
        return Err(TrialError::Testbed(format!("{} is no Linux 2.4 or 2.6", setup.stack)));
    };
    if setup.host_params.copy_byte_ps == 0 {
        return Err(TrialError::Testbed(format!("host {}: what copying costs is not known", setup.host)));
    }
    let line_pps = rate::line_rate_pps(rate::GIGABIT, size);
    if !(offered_pps > 0.0 && offered_pps <= line_pps) || duration_ms == 0 {
        return Err(TrialError::Load(format!("a load of {offered_pps} pps cannot be offered")));
    }
    let setup = setup.clone().for_frames(size);
    let socket: Socket<Frame> = params.udp_socket(setup.config.rx_buffer_bytes.into());
    let (room, bound) = Room::with_spare(&setup, setup.cpus, socket.room(), Box::<Count>::default())?;
    let machine = &room.0;
    let signs = bound.signs();
    let attach = Attach { service: bound.service(), device: bound, slot: 0, cpu: 0 };
    let stack = Rc::new(Stack::start(machine, params, vec![attach], socket.clone()));
    let device = Rc::clone(&stack);
    socket.read_from_process(machine, machine.cpus() - 1, move |_, frame| {
        device.device(0).free(frame.into_buffer());
    });

    let flow = Flow { to_mac: CARD, ..Flow::default() };
    let frame = udp_test(&flow, size).map_err(|e| TrialError::Load(e.to_string()))?;
    let begin = machine.now_ps() + MS;
    let source = ConstantRate::new(frame, offered_pps, begin, u64::MAX - 1, Rc::default());
    machine.with_world(|world| world.set_traffic(0, Box::new(source)));
    let read = || Reading {
        stack: stack.tally(0),
        socket: socket.tally(),
        counters: machine.counters(),
        usage: machine.usage_of(0),
        usage_last: machine.usage_of(machine.cpus() - 1),
    };
    room.run(begin + u64::from(warmup_ms) * MS, go_on)?;
    let from = read();
    let began_ps = machine.now_ps();
    room.run(began_ps + u64::from(duration_ms) * MS, go_on)?;
    let (to, elapsed_ps) = (read(), machine.now_ps() - began_ps);
    if let Some(error) = signs.error.take() {
        return Err(TrialError::Testbed(format!("the driver gave up: {error}")));
    }
    let Reading { stack: tally, socket: of_socket, .. } = &to;
    let elsewhere = tally.dropped_backlog + tally.in_backlog + tally.in_hand + tally.ended;
    // A datagram is the socket's a little before the stack is done with it.
    let astray = of_socket.arrived.saturating_sub(tally.ended) > tally.in_hand;
    if tally.from_driver != elsewhere || !of_socket.closes() || astray {
        let books = (tally, of_socket);
        return Err(TrialError::Testbed(format!("the books of stack and socket do not close: {books:?}")));
    }
    let per_second = |from: u64, to: u64| (to - from) as f64 * 1e12 / elapsed_ps as f64;
    Ok(Received {
        offered_pps,
        taken_pps: per_second(from.stack.from_driver, to.stack.from_driver),
        dropped_backlog_pps: per_second(from.stack.dropped_backlog, to.stack.dropped_backlog),
        dropped_socket_pps: per_second(from.socket.dropped, to.socket.dropped),
        pps: per_second(from.socket.read, to.socket.read),
        interrupts_per_s: per_second(from.counters.interrupts, to.counters.interrupts),
        cpu: cpu_time(&from.usage, &to.usage, elapsed_ps),
        cpu_last: cpu_time(&from.usage_last, &to.usage_last, elapsed_ps),
    })
}
