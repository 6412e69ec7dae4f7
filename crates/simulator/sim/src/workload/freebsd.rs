//! Machines with FreeBSD: processes that send or receive, the kernel that receives, a router between VLANs.
//!
//! The card is a rate-limited NIC, or an e1000 with the project's driver. Either way the stack is the same.

mod route_vlans;

pub use route_vlans::route_vlans;

use super::fragments;
use super::transmit::{Transmit, nic_idle_ps};
use crate::any_setup::AnySetup;
use crate::app::STOCK;
use crate::device::any::AnyDevice;
use crate::device::e1000::Frame;
use crate::experiment::{Interval, Phases, check_load};
use crate::ledger::check_socket;
use crate::setup::cannot_copy;
use crate::simulation::Simulation;
use crate::sink::Checked;
use crate::source::{ConstantRate, frame_to_card};
use crate::stack::Discard;
use crate::stack_params::StackParams;
use kpps_driver::service::Spent;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, rate};
use kpps_host::cpu::{Function, Level};
use kpps_host::stack::freebsd::{Attach, Calls, OnFull, Params, Stack, Tally};
use kpps_host::stack::udp::{self, Socket};
use kpps_host::stack::{Handler, Producer};
use kpps_host::wire::FrameSource;
use kpps_host::{MS, Machine, NS};
use kpps_methods::TrialError;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

pub use kpps_host::stack::freebsd::Program;

/// The time after the last frame until a card and its driver are drained.
const DRAINED_PS: u64 = MS;
/// Ethernet, IPv4 and UDP headers.
const HEADER_BYTES: u16 = 42;

/// Where the CPU's time went, as shares of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Interrupt handlers or threads, the clock and the software network interrupt.
    pub interrupt: f64,
    /// The share of the handlers' time that is not spent on entering and leaving them.
    pub useful: f64,
    /// System calls.
    pub system: f64,
    /// Programs' own work.
    pub user: f64,
    /// Idle polls of a CPU without other work.
    pub idle_polls: f64,
}

impl Load {
    /// All time that was not idle, idle polls included.
    pub fn busy(&self) -> f64 {
        self.interrupt + self.system + self.user + self.idle_polls
    }
}

/// The calls of a process that sends, and its share of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Refused system calls for each successful one.
    pub refused: f64,
    /// Share of the CPU that went into refused calls, idle polls (as the driver reports them), and switching
    /// to woken threads.
    pub wasted: f64,
    /// The limit of the driver's transmit queue in frames, and the frames that it still held a millisecond
    /// after the last one was sent. `None` for a rate-limited NIC.
    pub queue: Option<(usize, usize)>,
    /// Where the CPU's time went.
    pub load: Load,
}

/// The datagrams of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Frames on the wire.
    pub frames: Transmit,
    /// The process.
    pub process: Process,
}

/// The result of a machine that receives or forwards. Rates are per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Received {
    /// Frames offered.
    pub offered_pps: f64,
    /// Of these, frames that the driver handed to the kernel.
    pub taken_pps: f64,
    /// Of these, frames that reached their end.
    pub pps: f64,
    /// Frames dropped because the IP input queue was full.
    pub dropped_input_pps: f64,
    /// Datagrams dropped because the socket was full.
    pub dropped_socket_pps: f64,
    /// The rate at their end in megabits, frames with FCS.
    pub mbps: f64,
    /// Interrupts of the card per second.
    pub interrupts_per_s: f64,
    /// Where the CPU's time went.
    pub load: Load,
}

/// The longest payload of a datagram that one frame carries.
const LONGEST_WHOLE: u16 = 1500 - 28;

/// One datagram again and again: its frames, of which a long datagram has several.
struct Datagrams {
    frames: Vec<Vec<u8>>,
    next: usize,
}

impl Datagrams {
    /// Datagrams of `payload` bytes, and the size of their longest frame.
    fn of(payload: u16) -> Result<(Self, Size), TrialError> {
        let longest = payload.min(LONGEST_WHOLE) + HEADER_BYTES;
        let size = Size::without_fcs(longest.max(Size::MIN.bytes_without_fcs()));
        let frames = if payload > LONGEST_WHOLE {
            fragments::frames(&fragments::datagram(payload.into(), true))
        } else {
            vec![udp_test(&Flow::default(), size).map_err(|e| TrialError::Load(e.to_string()))?]
        };
        Ok((Self { frames, next: 0 }, size))
    }
}

impl Producer for Datagrams {
    fn elements(&self) -> u32 {
        1
    }
    fn frames(&self) -> usize {
        self.frames.len()
    }
    fn produce(&mut self, _now_ps: u64, buffer: &mut [u8]) -> usize {
        let frame = &self.frames[self.next];
        self.next = (self.next + 1) % self.frames.len();
        match buffer.get_mut(..frame.len()) {
            Some(start) => {
                start.copy_from_slice(frame);
                frame.len()
            }
            None => 0,
        }
    }
}

/// Where received datagrams end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// In the kernel.
    Kernel,
    /// In a process, as netreceive: it takes one with each system call.
    Process,
}

/// A running machine: its card, its stack and what leaves it.
struct Rig<H> {
    simulation: Simulation,
    stack: Stack<AnyDevice, H>,
    /// Whether the card is a rate-limited NIC.
    is_nic: bool,
    left: Checked,
    /// The socket that a process reads.
    socket: Option<Socket<Frame>>,
}

/// The readings besides the machine's counters.
struct Reading {
    /// Frames that left the card, and their bytes with FCS.
    frames: u64,
    bytes: u64,
    tally: Tally,
    socket: udp::Tally,
    /// Time for which the card had nothing to send and its wire carried nothing.
    idle_ps: u64,
}

/// The constants of a machine's FreeBSD.
fn system(machine: &AnySetup) -> Result<&Params, TrialError> {
    match machine.stack_params() {
        StackParams::FreeBsd(params) => Ok(params),
        StackParams::Linux22(_) | StackParams::Linux24(_) => {
            Err(TrialError::Testbed(format!("{} is no FreeBSD", machine.stack())))
        }
    }
}

impl<H: Handler<AnyDevice>> Rig<H> {
    /// Builds it for frames of `size`. `is_right` checks the frames that leave. `handler` gets empty frames
    /// for its own messages. `senders_wait`: whether senders wait for space in the transmit queue.
    fn build(
        machine: &AnySetup,
        size: Size,
        is_right: impl Fn(&[u8]) -> bool + 'static,
        handler: impl FnOnce(Vec<Frame>) -> H,
        senders_wait: bool,
    ) -> Result<Self, TrialError> {
        let left = Checked::default();
        let receiver = left.receiver(is_right);
        let params = system(machine)?.clone();
        let (simulation, mut device) = Simulation::with_any_card(machine, size, (1, 0), receiver)?;
        let handler = handler(device.set_aside(STOCK));
        if senders_wait {
            device = device.with_waiting_senders(params.transmit_queue);
        }
        let service = device.service();
        let attach = Attach { device, slot: 0, service };
        let stack = Stack::start(simulation.machine(), params, vec![attach], handler);
        let is_nic = matches!(machine, AnySetup::RateLimited(_));
        Ok(Self { simulation, stack, is_nic, left, socket: None })
    }

    fn machine(&self) -> &Machine {
        self.simulation.machine()
    }

    fn read(&self, machine: &Machine) -> Reading {
        Reading {
            frames: self.left.frames(),
            bytes: self.left.bytes(),
            tally: self.stack.tally(0),
            socket: self.socket.as_ref().map(Socket::tally).unwrap_or_default(),
            idle_ps: match self.is_nic {
                true => nic_idle_ps(machine),
                false => machine.with_world(|world| world.nic(0).tally().wire_idle_without_work_ps),
            },
        }
    }

    /// Puts traffic on the wire, whose first frame comes after [`FIRST_PS`], and measures.
    fn receive<T: FrameSource + 'static>(
        &self,
        traffic: impl FnOnce(u64) -> T,
        times_ms: (u32, u32),
        go_on: &dyn Fn() -> bool,
    ) -> Result<Interval<Reading>, TrialError> {
        let traffic = Box::new(traffic(self.machine().now_ps() + FIRST_PS));
        self.machine().with_world(|world| world.set_traffic(0, traffic));
        self.measure(times_ms, go_on)
    }

    /// Frames before the ring, and descriptors of the ring in use; `None` while the driver is at them.
    fn waiting(&self) -> Option<(usize, usize)> {
        Some((self.stack.queued(0)?, self.stack.device(0).in_ring()?))
    }

    /// Warms up and measures. Fails if a wrong frame has left, or the card lost track of one.
    fn measure(
        &self,
        times_ms: (u32, u32),
        go_on: &dyn Fn() -> bool,
    ) -> Result<Interval<Reading>, TrialError> {
        let phases = Phases::of_ms(self.machine().now_ps(), times_ms)?;
        let interval = self.simulation.measure(&phases, go_on, |machine| self.read(machine))?;
        self.left.check()?;
        if self.is_nic && !self.machine().with_world(|world| world.rate_limited_nic(0).tally().closes()) {
            return Err(TrialError::Testbed("the card's ledger does not close".into()));
        }
        Ok(interval)
    }
}

fn load(interval: &Interval<Reading>) -> Load {
    let profile = interval.profile();
    let at = |level, function| profile.at(level, function) as f64 / interval.elapsed_ps() as f64;
    let hardirq = interval.share(|s| s.usage.hardirq_ps);
    let softirq = interval.share(|s| s.usage.softirq_ps);
    let thread = interval.share(|s| s.usage.thread_ps);
    let idle_polls = interval.share(|s| s.usage.empty_poll_ps);
    let around = at(Level::Hardirq, Function::InterruptEntry) + at(Level::Hardirq, Function::InterruptExit);
    let user = at(Level::Thread, Function::Element);
    Load {
        interrupt: hardirq + softirq,
        useful: if hardirq > 0.0 { (hardirq - around) / hardirq } else { 0.0 },
        system: thread - user - idle_polls,
        user,
        idle_polls,
    }
}

/// A program sends datagrams of `payload` bytes. Longer ones than 1472 leave in fragments.
pub fn send(
    machine: &AnySetup,
    payload: u16,
    program: Program,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Sent, TrialError> {
    let (datagrams, size) = Datagrams::of(payload)?;
    let senders_wait = program.on_full == OnFull::Wait;
    let rig = Rig::build(machine, size, |_| true, |_| Discard, senders_wait)?;
    let (simulation, machine) = (&rig.simulation, rig.machine());
    let sender = rig.stack.send_from_process(machine, program, payload.into(), datagrams);
    let interval = rig.measure(times_ms, go_on)?;
    let Calls { sent, refused } = sender.calls();
    sender.stop();
    // Frames that still wait in queue and ring are sent.
    let (mut frames, mut last_ps) = (interval.to.own.frames, interval.to.at_ps);
    while machine.now_ps() < last_ps + DRAINED_PS {
        simulation.run(machine.now_ps() + DRAINED_PS / 20, go_on)?;
        if rig.left.frames() != frames {
            (frames, last_ps) = (rig.left.frames(), machine.now_ps());
        }
    }
    let queue = rig.stack.device(0).transmit_queue();
    let profile = interval.profile();
    let of_cpu = |ps: u64| ps as f64 / interval.elapsed_ps() as f64;
    let calls =
        [Function::SystemCall, Function::Enqueue, Function::Allocate, Function::Free, Function::Element];
    let calls: u64 = calls.into_iter().map(|function| profile.at(Level::Thread, function)).sum();
    let idle_polls = |spent: Spent| spent.idle_ns * NS;
    let frames = match rig.is_nic {
        true => Transmit::of_nic(&interval, |s| s.own.frames, |s| s.own.idle_ps),
        false => Transmit::of_e1000(&interval, |s| s.own.frames),
    };
    let process = Process {
        refused: refused as f64 / sent.max(1) as f64,
        wasted: of_cpu(calls) * refused as f64 / (sent + refused).max(1) as f64
            + of_cpu(profile.of(Function::Task))
            + interval.share(|s| s.drivers.iter().map(|driver| idle_polls(driver.spent)).sum()),
        queue,
        load: load(&interval),
    };
    Ok(Sent { frames, process })
}

/// A machine with a sending program at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Time since the first one.
    pub at_ps: u64,
    /// Frames in the transmit queue before the ring.
    pub queued: usize,
    /// Descriptors of the ring that the driver has not taken back.
    pub in_ring: usize,
    /// Time up to now in which the card had nothing to send and its wire carried nothing.
    pub idle_ps: u64,
    /// System calls up to now that found the queue full.
    pub refused: u64,
}

/// A program sends datagrams of `payload` bytes, and is observed every `every_ps`.
pub fn timeline(
    machine: &AnySetup,
    payload: u16,
    program: Program,
    times_ms: (u32, u32),
    every_ps: u64,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Moment>, TrialError> {
    let (datagrams, size) = Datagrams::of(payload)?;
    let rig = Rig::build(machine, size, |_| true, |_| Discard, program.on_full == OnFull::Wait)?;
    let machine = rig.machine();
    let sender = rig.stack.send_from_process(machine, program, payload.into(), datagrams);
    let phases = Phases::of_ms(machine.now_ps(), times_ms)?;
    rig.simulation.run(phases.measure_ps, go_on)?;
    let mut moments = Vec::new();
    let mut next_ps = phases.measure_ps;
    let (mut queued, mut in_ring) = (0, 0);
    while next_ps <= phases.end_ps {
        rig.simulation.run(next_ps, go_on)?;
        let reading = rig.read(machine);
        (queued, in_ring) = rig.waiting().unwrap_or((queued, in_ring));
        moments.push(Moment {
            at_ps: next_ps - phases.measure_ps,
            queued,
            in_ring,
            idle_ps: reading.idle_ps,
            refused: sender.calls().refused,
        });
        next_ps += every_ps.max(NS);
    }
    Ok(moments)
}

/// The time from the setup of the machine to the first frame.
const FIRST_PS: u64 = MS;

/// A running machine whose process reads frames of `size` from the socket; `read` gets each that it has read.
fn reading(
    machine: &AnySetup,
    size: Size,
    read: impl Fn(&Machine, &Frame) + 'static,
) -> Result<(Rig<Socket<Frame>>, Socket<Frame>), TrialError> {
    let socket = system(machine)?.socket();
    let rig = Rig::build(machine, size, |_| true, |_| socket.clone(), false)?;
    if rig.machine().host().copy_byte_ps == 0 {
        return Err(TrialError::Testbed(cannot_copy(machine.host())));
    }
    rig.stack.read_from_process(rig.machine(), &socket, read);
    Ok((rig, socket))
}

/// A running machine whose process reads.
pub(super) struct Reads {
    pub simulation: Simulation,
    pub stack: Stack<AnyDevice, Socket<Frame>>,
    pub socket: Socket<Frame>,
}

impl Reads {
    /// Builds a machine for frames of `size`, and starts the process. `read` gets each frame that the process
    /// has read.
    pub fn build(
        machine: &AnySetup,
        size: Size,
        read: impl Fn(&Machine, &Frame) + 'static,
    ) -> Result<Self, TrialError> {
        let (rig, socket) = reading(machine, size, read)?;
        Ok(Self { simulation: rig.simulation, stack: rig.stack, socket })
    }
}

/// Frames of `size` arrive at a constant rate.
pub fn receive(
    machine: &AnySetup,
    until: Until,
    size: Size,
    offered_pps: f64,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Received, TrialError> {
    check_load(offered_pps, rate::line_rate_pps(rate::GIGABIT, size), "line rate")?;
    let frame = frame_to_card(size, 0)?;
    let source = |first_ps| ConstantRate::new(frame, offered_pps, first_ps, u64::MAX - 1, Rc::default());
    let interval = match until {
        Until::Kernel => {
            let rig = Rig::build(machine, size, |_| true, |_| Discard, false)?;
            rig.receive(source, times_ms, go_on)?
        }
        Until::Process => {
            let (rig, socket) = reading(machine, size, |_, _| ())?;
            let rig = Rig { socket: Some(socket), ..rig };
            rig.receive(source, times_ms, go_on)?
        }
    };
    let Reading { tally, socket, .. } = &interval.to.own;
    check_socket(tally.ends_here(), (tally.ended, tally.in_hand), socket)?;
    let pps = interval.per_second(|s| match until {
        Until::Kernel => s.own.tally.ended,
        Until::Process => s.own.socket.read,
    });
    let mbps = pps * f64::from(size.bytes_with_fcs()) * 8e-6;
    Ok(Received::new(offered_pps, pps, mbps, &interval))
}

impl Received {
    fn new(offered_pps: f64, pps: f64, mbps: f64, interval: &Interval<Reading>) -> Self {
        Self {
            offered_pps,
            taken_pps: interval.per_second(|s| s.own.tally.from_driver),
            pps,
            dropped_input_pps: interval.per_second(|s| s.own.tally.dropped_input),
            dropped_socket_pps: interval.per_second(|s| s.own.socket.dropped),
            mbps,
            interrupts_per_s: interval.per_second(|s| s.counters.interrupts),
            load: load(interval),
        }
    }
}
