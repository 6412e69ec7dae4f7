//! Machines with FreeBSD: processes that send or receive, the kernel that receives, a router between VLANs.
//!
//! The card is a ring NIC or one of Intel's with the project's driver. Either way the stack is the same.

mod vlans;

pub use vlans::route_vlans;

use crate::forwarder::STOCK;
use crate::netdev::{Bound, Frame, set_aside};
use crate::ring_device::RingDevice;
use crate::setup::{RingSetup, Setup, StackParams};
use crate::simulated::{CARD, Room, share};
use crate::traffic::ConstantRate;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, rate};
use kpps_machine::cpu::{Counters, Function, Level, Profile, Usage};
use kpps_machine::memory::Memory;
use kpps_machine::platform::{Allocator, Buf, Card, memory_bytes};
use kpps_machine::stack::freebsd::{Calls, Params, Sender, Stack, Tally};
use kpps_machine::stack::linux24::{Handler, Work};
use kpps_machine::stack::udp::{self, Socket};
use kpps_machine::stack::{IntoBuffer, Netdev, Producer, Service};
use kpps_machine::wire::{Receiver, Silence};
use kpps_machine::{MS, Machine, NS, World};
use kpps_measure::TrialError;
use kpps_model::ring::RingNic;
use std::cell::Cell;
use std::rc::Rc;

pub use kpps_machine::stack::freebsd::Program;

/// A machine with FreeBSD and its card.
#[derive(Clone, Debug)]
pub enum Place {
    /// With a ring NIC.
    Ring(Box<RingSetup>),
    /// With one of Intel's cards.
    Intel(Box<Setup>),
}

/// How long after the last frame everything should have been taken back.
const SETTLED_PS: u64 = MS;
/// Bytes of a packet buffer: a cluster.
const CLUSTER_BYTES: usize = 2048;
/// Ethernet, IPv4 and UDP headers.
const HEADER_BYTES: u16 = 42;

/// Where the CPU's time went, as shares of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Interrupt handlers or threads, the clock and the software network interrupt.
    pub interrupt: f64,
    /// Of the handlers' time, that which is not entering and leaving them.
    pub useful: f64,
    /// System calls.
    pub system: f64,
    /// Programs' own work.
    pub user: f64,
    /// Polls of an idle CPU that found nothing.
    pub empty_polls: f64,
}

impl Load {
    /// All that was not idle, empty polls among it.
    pub fn busy(&self) -> f64 {
        self.interrupt + self.system + self.user + self.empty_polls
    }
}

/// What a process sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Frames on the wire in a second.
    pub pps: f64,
    /// Share of the time in which the card had nothing to send and its wire carried nothing.
    pub idle: f64,
    /// Interrupts of the card in a second.
    pub interrupts_per_s: f64,
    /// System calls that were refused for each that was not.
    pub refused: f64,
    /// Share of the CPU that went into refused calls, polls that found nothing by the driver's own books, and switching to what was woken.
    pub wasted: f64,
    /// Frames that the transmit queue may hold, that of the driver, and what was not taken back a millisecond after the last; of one of
    /// Intel's cards.
    pub queue: Option<(usize, usize)>,
    /// Where the CPU's time went.
    pub load: Load,
}

/// What a machine received, or passed on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Received {
    /// Offered in a second.
    pub offered_pps: f64,
    /// Of these, that the driver handed to the kernel.
    pub taken_pps: f64,
    /// Of these, that reached their end.
    pub pps: f64,
    /// In a second, those that the IP input queue had no room for.
    pub dropped_input_pps: f64,
    /// In a second, those that the socket had no room for.
    pub dropped_socket_pps: f64,
    /// The same in bits of frames with their FCS, in millions.
    pub mbps: f64,
    /// Interrupts of the card in a second.
    pub interrupts_per_s: f64,
    /// Where the CPU's time went.
    pub load: Load,
}

/// Counts whole frames at the far end.
#[derive(Clone, Default)]
struct FarEnd {
    frames: Rc<Cell<u64>>,
    bytes: Rc<Cell<u64>>,
    wrong: Rc<Cell<u64>>,
    check: Option<fn(&[u8]) -> bool>,
}

impl Receiver for FarEnd {
    fn receive(&mut self, _now_ps: u64, frame: &[u8]) {
        if self.check.is_none_or(|check| check(frame)) {
            self.frames.set(self.frames.get() + 1);
            self.bytes.set(self.bytes.get() + frame.len() as u64 + 4);
        } else {
            self.wrong.set(self.wrong.get() + 1);
        }
    }
}

struct Datagrams(Vec<u8>);

impl Producer for Datagrams {
    fn elements(&self) -> u32 {
        1
    }
    fn produce(&mut self, _now_ps: u64, buffer: &mut [u8]) -> usize {
        match buffer.get_mut(..self.0.len()) {
            Some(room) => {
                room.copy_from_slice(&self.0);
                self.0.len()
            }
            None => 0,
        }
    }
}

/// Frames end in the kernel.
struct Kernel;

impl<N: Netdev<Frame = Frame, Buffer = Buf>> Handler<N> for Kernel {
    fn work(&self) -> Work {
        Work::Elements(0)
    }
    fn handle(&mut self, _: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        Some(frame.into_buffer())
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

/// A running stack on either card.
enum Running<H> {
    Ring(Stack<RingDevice, H>),
    Intel(Stack<Bound, H>),
}

impl<H: Handler<Bound> + Handler<RingDevice>> Running<H> {
    fn send(&self, machine: &Machine, program: Program, bytes: usize, datagrams: Datagrams) -> Sender {
        match self {
            Self::Ring(stack) => stack.send_from_process(machine, program, bytes, datagrams),
            Self::Intel(stack) => stack.send_from_process(machine, program, bytes, datagrams),
        }
    }

    fn read(&self, machine: &Machine, socket: &Socket<Frame>) {
        match self {
            Self::Ring(stack) => stack.read_from_process(machine, socket),
            Self::Intel(stack) => stack.read_from_process(machine, socket),
        }
    }

    fn tally(&self) -> Tally {
        match self {
            Self::Ring(stack) => stack.tally(),
            Self::Intel(stack) => stack.tally(),
        }
    }
}

struct Bench<H> {
    room: Room,
    running: Running<H>,
    far_end: FarEnd,
    /// The one that a process reads.
    socket: Option<Socket<Frame>>,
}

/// All counters at one instant.
struct Reading {
    at_ps: u64,
    frames: u64,
    bytes: u64,
    tally: Tally,
    socket: udp::Tally,
    idle_ps: u64,
    usage: Usage,
    profile: Profile,
    counters: Counters,
    /// Polls that found nothing, by the driver's own books.
    vain_ps: u64,
}

impl Place {
    /// The constants of its system.
    fn system(&self) -> Result<&Params, TrialError> {
        let (stack, machine) = match self {
            Self::Ring(setup) => (&setup.stack_params, &setup.machine),
            Self::Intel(setup) => (&setup.stack_params, &setup.machine),
        };
        match stack {
            StackParams::FreeBsd(params) => Ok(params),
            StackParams::Linux22(_) | StackParams::Linux24(_) => {
                Err(TrialError::Testbed(format!("{machine} has no FreeBSD")))
            }
        }
    }
}

impl<H: Handler<Bound> + Handler<RingDevice>> Bench<H> {
    /// `handler` is given buffers to say something with. Senders that wait to be `told` of room are told by our own driver, whose queue
    /// finds its length.
    fn build(
        place: &Place,
        size: Size,
        far_end: FarEnd,
        handler: impl FnOnce(Vec<Frame>) -> H,
        told: bool,
    ) -> Result<Self, TrialError> {
        let receiver = Box::new(far_end.clone());
        let stack_params = place.system()?;
        let (room, running) = match place {
            Place::Ring(setup) => {
                let RingSetup { config, host_params, .. } = &**setup;
                let rings = config.tx_ring + config.rx_ring;
                let buffers = rings as usize + stack_params.most_frames() + 64;
                let bytes = memory_bytes(2, buffers, CLUSTER_BYTES);
                let memory = Memory::new(bytes, host_params.cache_line_bytes);
                let mut world = World::new(memory, setup.bus_params.clone());
                let slot = world.plug_ring(RingNic::new(setup.card.clone()), Box::new(Silence), receiver);
                let room = Room(Machine::new(host_params.clone(), world));
                let allocator = Allocator::new(&room.0, buffers, CLUSTER_BYTES);
                let handler = handler(set_aside(&allocator, STOCK));
                let device = RingDevice::attach(Card::new(&room.0, slot), config, allocator)
                    .map_err(|_| TrialError::Testbed("no memory for the rings".into()))?;
                let service = device.service();
                let stack = Stack::start(&room.0, slot, stack_params.clone(), service, device, handler);
                (room, Running::Ring(stack))
            }
            Place::Intel(setup) => {
                let (room, bound) = Room::build(&(**setup).clone().for_frames(size), receiver)?;
                let handler = handler(bound.set_aside(STOCK));
                let service = bound.service();
                let bound = match service {
                    Service::Paced { .. } if told => bound.self_sizing(stack_params.transmit_queue),
                    _ => bound,
                };
                let stack = Stack::start(&room.0, 0, stack_params.clone(), service, bound, handler);
                (room, Running::Intel(stack))
            }
        };
        Ok(Self { room, running, far_end, socket: None })
    }

    fn machine(&self) -> &Machine {
        &self.room.0
    }

    fn read(&self) -> Reading {
        let machine = self.machine();
        let at_ps = machine.now_ps();
        let idle_ps = machine.with_world(|world| match self.running {
            Running::Ring(_) => world.ring_nic(0).tx_idle_ps(at_ps),
            Running::Intel(_) => world.nic(0).tally().wire_idle_without_work_ps,
        });
        Reading {
            at_ps,
            frames: self.far_end.frames.get(),
            bytes: self.far_end.bytes.get(),
            tally: self.running.tally(),
            socket: self.socket.as_ref().map(Socket::tally).unwrap_or_default(),
            idle_ps,
            usage: machine.usage(),
            profile: machine.profile(),
            counters: machine.counters(),
            vain_ps: match &self.running {
                Running::Ring(_) => 0,
                Running::Intel(stack) => stack.device().signs().spent.get().idle_ns * NS,
            },
        }
    }

    /// Puts frames of `size` on the wire, and measures.
    fn arrivals(
        &self,
        size: Size,
        offered_pps: f64,
        times_ms: (u32, u32),
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Reading, Reading), TrialError> {
        let flow = Flow { to_mac: CARD, ..Flow::default() };
        let frame = udp_test(&flow, size).map_err(|e| TrialError::Load(e.to_string()))?;
        let first = self.machine().now_ps() + FIRST_PS;
        let source = ConstantRate::new(frame, offered_pps, first, u64::MAX - 1, Rc::default());
        self.machine().with_world(|world| world.set_traffic(0, Box::new(source)));
        self.measure(times_ms, go_on)
    }

    /// Warms up, then measures: what the counters stood at before and after.
    fn measure(
        &self,
        times_ms: (u32, u32),
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Reading, Reading), TrialError> {
        let (warmup_ps, duration_ps) = (u64::from(times_ms.0) * MS, u64::from(times_ms.1) * MS);
        self.room.run(self.machine().now_ps() + warmup_ps, go_on)?;
        let from = self.read();
        self.room.run(from.at_ps + duration_ps, go_on)?;
        let to = self.read();
        if self.far_end.wrong.get() > 0 {
            let wrong = self.far_end.wrong.get();
            return Err(TrialError::Testbed(format!("{wrong} frames left the card that are wrong")));
        }
        let closes = self.machine().with_world(|world| match self.running {
            Running::Ring(_) => world.ring_nic(0).tally().closes(),
            Running::Intel(_) => world.nic(0).tally().closes(),
        });
        if !closes {
            return Err(TrialError::Testbed("the card's ledger does not close".into()));
        }
        Ok((from, to))
    }
}

fn load(from: &Reading, to: &Reading) -> Load {
    let elapsed = to.at_ps - from.at_ps;
    let profile = to.profile.since(&from.profile);
    let at = |level, function| profile.at(level, function) as f64 / elapsed as f64;
    let hardirq = share(from.usage.hardirq_ps, to.usage.hardirq_ps, elapsed);
    let softirq = share(from.usage.softirq_ps, to.usage.softirq_ps, elapsed);
    let thread = share(from.usage.thread_ps, to.usage.thread_ps, elapsed);
    let empty_polls = share(from.usage.empty_poll_ps, to.usage.empty_poll_ps, elapsed);
    let around = at(Level::Hardirq, Function::InterruptEntry) + at(Level::Hardirq, Function::InterruptExit);
    let user = at(Level::Thread, Function::Element);
    Load {
        interrupt: hardirq + softirq,
        useful: if hardirq > 0.0 { (hardirq - around) / hardirq } else { 0.0 },
        system: thread - user - empty_polls,
        user,
        empty_polls,
    }
}

fn per_second(from: u64, to: u64, elapsed_ps: u64) -> f64 {
    (to - from) as f64 * 1e12 / elapsed_ps as f64
}

/// A program sends datagrams of `payload` bytes.
pub fn send(
    place: &Place,
    payload: u16,
    program: Program,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Sent, TrialError> {
    let size = Size::without_fcs((payload + HEADER_BYTES).max(Size::MIN.bytes_without_fcs()));
    let frame = udp_test(&Flow::default(), size).map_err(|e| TrialError::Load(e.to_string()))?;
    let told = matches!(program.on_full, kpps_machine::stack::freebsd::OnFull::Wait);
    let bench = Bench::build(place, size, FarEnd::default(), |_| Kernel, told)?;
    let sender = bench.running.send(bench.machine(), program, payload.into(), Datagrams(frame));
    let (from, to) = bench.measure(times_ms, go_on)?;
    let Calls { sent, refused } = sender.calls();
    let elapsed = to.at_ps - from.at_ps;
    sender.stop();
    // What still waits in queue and ring is sent.
    let (mut frames, mut last_ps) = (to.frames, to.at_ps);
    while bench.machine().now_ps() < last_ps + SETTLED_PS {
        bench.room.run(bench.machine().now_ps() + SETTLED_PS / 20, go_on)?;
        if bench.far_end.frames.get() != frames {
            (frames, last_ps) = (bench.far_end.frames.get(), bench.machine().now_ps());
        }
    }
    let queue = match &bench.running {
        Running::Ring(_) => None,
        Running::Intel(stack) => Some(stack.device().transmit_queue()),
    };
    let profile = to.profile.since(&from.profile);
    let of_cpu = |ps: u64| ps as f64 / elapsed as f64;
    let calls =
        [Function::SystemCall, Function::Enqueue, Function::Allocate, Function::Free, Function::Element];
    let calls: u64 = calls.into_iter().map(|function| profile.at(Level::Thread, function)).sum();
    Ok(Sent {
        wasted: of_cpu(calls) * refused as f64 / (sent + refused).max(1) as f64
            + of_cpu(profile.of(Function::Task))
            + share(from.vain_ps, to.vain_ps, elapsed),
        queue,
        pps: per_second(from.frames, to.frames, elapsed),
        idle: share(from.idle_ps, to.idle_ps, elapsed),
        interrupts_per_s: per_second(from.counters.interrupts, to.counters.interrupts, elapsed),
        refused: refused as f64 / sent.max(1) as f64,
        load: load(&from, &to),
    })
}

/// The first frame comes so long after the machine is set up.
const FIRST_PS: u64 = MS;

/// Frames of `size` arrive at a constant rate.
pub fn receive(
    place: &Place,
    until: Until,
    size: Size,
    offered_pps: f64,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Received, TrialError> {
    let line_pps = rate::line_rate_pps(rate::GIGABIT, size);
    if !(offered_pps > 0.0 && offered_pps <= line_pps) {
        return Err(TrialError::Load(format!("a load of {offered_pps} pps cannot be offered")));
    }
    let (from, to) = match until {
        Until::Kernel => {
            let bench = Bench::build(place, size, FarEnd::default(), |_| Kernel, false)?;
            bench.arrivals(size, offered_pps, times_ms, go_on)?
        }
        Until::Process => {
            let socket = place.system()?.socket();
            let bench = Bench::build(place, size, FarEnd::default(), |_| socket.clone(), false)?;
            if bench.machine().host().copy_byte_ps == 0 {
                return Err(TrialError::Testbed("what copying costs on this host is not known".into()));
            }
            bench.running.read(bench.machine(), &socket);
            let bench = Bench { socket: Some(socket), ..bench };
            bench.arrivals(size, offered_pps, times_ms, go_on)?
        }
    };
    let ended = |reading: &Reading| match until {
        Until::Kernel => reading.tally.ended,
        Until::Process => reading.socket.read,
    };
    // A datagram is the socket's a little before the stack is done with it.
    let astray = to.socket.arrived.saturating_sub(to.tally.ended) > to.tally.in_hand;
    if !to.tally.ends_here() || !to.socket.closes() || astray {
        let books = (to.tally, to.socket);
        return Err(TrialError::Testbed(format!("the books of stack and socket do not close: {books:?}")));
    }
    let elapsed = to.at_ps - from.at_ps;
    let pps = per_second(ended(&from), ended(&to), elapsed);
    Ok(Received {
        offered_pps,
        taken_pps: per_second(from.tally.from_driver, to.tally.from_driver, elapsed),
        pps,
        dropped_input_pps: per_second(from.tally.dropped_input, to.tally.dropped_input, elapsed),
        dropped_socket_pps: per_second(from.socket.dropped, to.socket.dropped, elapsed),
        mbps: pps * f64::from(size.bytes_with_fcs()) * 8e-6,
        interrupts_per_s: per_second(from.counters.interrupts, to.counters.interrupts, elapsed),
        load: load(&from, &to),
    })
}
