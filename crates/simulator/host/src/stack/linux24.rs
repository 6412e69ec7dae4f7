//! Linux 2.4 and 2.6: NAPI, the receive softirq, transmit queues; several cards, several CPUs.
//!
//! A NAPI driver's interrupt puts its device on the poll list of the CPU that took it. The receive softirq
//! polls the devices of the list in turn: each for its weight, all together for a budget; the rest then goes
//! to a thread (`ksoftirqd`). Other drivers hand frames to `netif_rx`, whose backlog is polled like a device.
//! The softirq gives a frame to the [`Handler`], which consumes it or names the device by which it leaves. A
//! device's transmit queue stops when the driver refuses a frame, and goes on when the driver has completed
//! some.

mod port;
mod softirq;

use super::handler::{Handler, Interface, Work, supply};
use super::netdev::{IntoBuffer, Netdev, NextPoll, Polled, Producer, Raised, Service, timer};
use super::udp::{self, Socket};
use crate::cpu::{Function, Level, Line, Machine};
use crate::host::Steps;
use crate::limits::{QUEUE, STEP_PS, check};
use crate::platform::Arrays;
use port::Port;
pub use port::{Stall, Tally};
use serde::Deserialize;
use softirq::PerCpu;
use std::cell::RefCell;
use std::rc::Rc;

/// The constants of the stack: limits, and costs in cycles of a Pentium III, with
/// locked operations counted by themselves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// How the kernel keeps free packet buffers.
    pub buffers: Arrays,
    /// Frames on the backlog before `netif_rx` drops.
    pub backlog: usize,
    /// Frames that one poll of the backlog takes.
    pub backlog_weight: usize,
    /// Frames one softirq run may receive before it ends.
    pub softirq_budget: usize,
    /// How often a softirq starts over before it leaves the rest to a thread.
    pub softirq_restarts: usize,
    /// How long one softirq run may poll, in picoseconds.
    pub softirq_time_ps: u64,
    /// How long a thread runs before others of its level, in picoseconds.
    pub thread_slice_ps: u64,
    /// Frames in a device's transmit queue before it drops.
    pub transmit_queue: usize,
    /// How long a transmit queue may be stopped, with nothing sent, before it is reported and its device is
    /// reset, in picoseconds.
    pub watchdog_ps: u64,
    /// `netif_rx`: one frame onto the backlog.
    pub netif_rx_cycles: u64,
    /// Starting the softirq once.
    pub softirq_cycles: u64,
    /// One poll of a device, beside what its driver does.
    pub poll_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub poll_locks: u16,
    /// `netif_receive_skb`: one frame to the protocol that wants it.
    pub receive_cycles: u64,
    /// One frame through the bridge, with both lookups in its table.
    pub bridge_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub bridge_locks: u16,
    /// `dev_queue_xmit`: one frame into and out of a transmit queue.
    pub enqueue_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub enqueue_locks: u16,
    /// `hard_start_xmit`, beside the descriptor: one frame to the driver.
    pub transmit_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub transmit_locks: u16,
    /// An element of an application, for one frame.
    pub element_cycles: u64,
    /// One turn of a thread.
    pub task_cycles: u64,
    /// A tick of the clock, in picoseconds: the grain of the kernel's timers.
    pub tick_ps: u64,
    /// The timer softirq, at each tick.
    pub tick_cycles: u64,
    /// `ip_rcv` and the routing cache: one packet to its protocol, or to its way on.
    pub ip_cycles: u64,
    /// `ip_forward` to the neighbour's station address: one packet on its way.
    pub forward_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub forward_locks: u16,
    /// A VLAN's device: one frame out of its VLAN and into another.
    pub vlan_cycles: u64,
    /// Connection tracking and translation: one packet of a connection that is known.
    pub nat_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub nat_locks: u16,
    /// A packet socket examines a frame: the list of protocols that want all frames, the filter, the socket's
    /// memory.
    pub packet_check_cycles: u64,
    /// A packet socket queues a frame: its clone, its source address, the socket's queue.
    pub packet_queue_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub packet_queue_locks: u16,
    /// `udp_rcv` to the socket's queue: one datagram.
    pub udp_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub udp_locks: u16,
    /// `tcp_v4_rcv` to the socket's queue: one segment that was expected.
    pub tcp_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub tcp_locks: u16,
    /// The part of these for a segment that the softirq leaves to a process in `recv`: the prequeue. Without
    /// it the softirq does all. `None`: the kernel has no prequeue.
    #[serde(default)]
    pub prequeue_cycles: Option<u64>,
    /// Locked operations of it.
    #[serde(default)]
    pub prequeue_locks: u16,
    /// Making a segment or an acknowledgement and sending it as far as the transmit queue.
    pub tcp_ack_cycles: u64,
    /// Waking a process.
    pub wake_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub wake_locks: u16,
    /// From one process to another, including its cold cache lines.
    pub switch_cycles: u64,
    /// `recv`: into the kernel, to the socket, and back.
    pub receive_call_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub receive_call_locks: u16,
    /// One segment in it, beside its bytes and its buffer.
    pub receive_segment_cycles: u64,
    /// Bytes that a packet buffer counts against a socket's memory beside its own.
    pub buffer_overhead_bytes: u32,
    /// Bytes that the datagrams of a socket may take, each with its buffer.
    pub datagram_bytes: u32,
    /// Memory of a TCP socket for received segments, in bytes.
    pub stream_bytes: u32,
    /// How long processes run, all together, before ksoftirqd gets its turn, in milliseconds.
    pub time_slice_ms: u64,
    /// Cache lines of a socket that softirq and process both change.
    pub socket_lines: u32,
    /// The same of a packet socket.
    pub packet_lines: u32,
    /// The system call with which a process takes a frame from a packet socket.
    pub packet_call_cycles: u64,
    /// Locked operations of it.
    #[serde(default)]
    pub packet_call_locks: u16,
    /// Cache lines of a transmit queue and its locks.
    pub queue_lines: u32,
    /// Cache lines of the bridge's table and locks that each frame changes.
    pub bridge_lines: u32,
    /// Cache lines of routes and neighbours that each packet changes.
    pub route_lines: u32,
    /// Cache lines of the connections' table, its locks and the connection that each packet changes.
    pub nat_lines: u32,
}

impl Params {
    /// Checks the constants; the error names the one out of range.
    pub fn check(&self) -> Result<(), String> {
        self.buffers.check()?;
        check(&[
            ("backlog", self.backlog, QUEUE),
            ("backlog_weight", self.backlog_weight, QUEUE),
            ("softirq_budget", self.softirq_budget, QUEUE),
            ("softirq_restarts", self.softirq_restarts, 0..=1000),
            ("transmit_queue", self.transmit_queue, QUEUE),
            ("queue_lines", self.queue_lines as usize, 0..=1000),
            ("socket_lines", self.socket_lines as usize, 0..=1000),
            ("packet_lines", self.packet_lines as usize, 0..=1000),
            ("bridge_lines", self.bridge_lines as usize, 0..=1000),
            ("route_lines", self.route_lines as usize, 0..=1000),
            ("nat_lines", self.nat_lines as usize, 0..=1000),
        ])?;
        const CYCLES: std::ops::RangeInclusive<u64> = 0..=1_000_000;
        const LOCKS: std::ops::RangeInclusive<u64> = 0..=1000;
        check(&[
            ("softirq_time_ps", self.softirq_time_ps, crate::US..=crate::S),
            ("thread_slice_ps", self.thread_slice_ps, crate::US..=crate::S),
            ("watchdog_ps", self.watchdog_ps, *STEP_PS.end()..=100 * crate::S),
            ("netif_rx_cycles", self.netif_rx_cycles, CYCLES),
            ("softirq_cycles", self.softirq_cycles, CYCLES),
            // A poll that costs nothing would be made for ever in the same instant.
            ("poll_cycles", self.poll_cycles, 1..=1_000_000),
            ("receive_cycles", self.receive_cycles, CYCLES),
            ("bridge_cycles", self.bridge_cycles, CYCLES),
            ("enqueue_cycles", self.enqueue_cycles, CYCLES),
            ("transmit_cycles", self.transmit_cycles, CYCLES),
            ("element_cycles", self.element_cycles, CYCLES),
            ("task_cycles", self.task_cycles, 1..=1_000_000),
            ("tick_ps", self.tick_ps, 100 * crate::US..=crate::S),
            ("tick_cycles", self.tick_cycles, CYCLES),
            ("ip_cycles", self.ip_cycles, CYCLES),
            ("forward_cycles", self.forward_cycles, CYCLES),
            ("vlan_cycles", self.vlan_cycles, CYCLES),
            ("nat_cycles", self.nat_cycles, CYCLES),
            ("packet_check_cycles", self.packet_check_cycles, CYCLES),
            ("packet_queue_cycles", self.packet_queue_cycles, CYCLES),
            ("packet_call_cycles", self.packet_call_cycles, CYCLES),
            ("udp_cycles", self.udp_cycles, CYCLES),
            ("tcp_cycles", self.tcp_cycles, CYCLES),
            ("prequeue_cycles", self.prequeue_cycles.unwrap_or(0), 0..=self.tcp_cycles),
            ("tcp_ack_cycles", self.tcp_ack_cycles, CYCLES),
            ("wake_cycles", self.wake_cycles, CYCLES),
            ("switch_cycles", self.switch_cycles, CYCLES),
            ("receive_call_cycles", self.receive_call_cycles, 1..=1_000_000),
            ("receive_segment_cycles", self.receive_segment_cycles, CYCLES),
            ("poll_locks", self.poll_locks.into(), LOCKS),
            ("bridge_locks", self.bridge_locks.into(), LOCKS),
            ("forward_locks", self.forward_locks.into(), LOCKS),
            ("enqueue_locks", self.enqueue_locks.into(), LOCKS),
            ("transmit_locks", self.transmit_locks.into(), LOCKS),
            ("nat_locks", self.nat_locks.into(), LOCKS),
            ("packet_queue_locks", self.packet_queue_locks.into(), LOCKS),
            ("packet_call_locks", self.packet_call_locks.into(), LOCKS),
            ("udp_locks", self.udp_locks.into(), LOCKS),
            ("tcp_locks", self.tcp_locks.into(), LOCKS),
            ("wake_locks", self.wake_locks.into(), LOCKS),
            ("receive_call_locks", self.receive_call_locks.into(), LOCKS),
            ("prequeue_locks", self.prequeue_locks.into(), 0..=self.tcp_locks.into()),
            ("buffer_overhead_bytes", self.buffer_overhead_bytes.into(), 0..=65_536),
            ("datagram_bytes", self.datagram_bytes.into(), 0..=1 << 24),
            ("stream_bytes", self.stream_bytes.into(), 4096..=1 << 24),
            ("time_slice_ms", self.time_slice_ms, 1..=10_000),
        ])
    }

    /// One poll of a device.
    pub const fn poll(&self) -> Steps {
        Steps::new(self.poll_cycles, self.poll_locks)
    }

    /// One frame through the bridge.
    pub const fn bridge(&self) -> Steps {
        Steps::new(self.bridge_cycles, self.bridge_locks)
    }

    /// `ip_forward` to the neighbour's station address.
    pub const fn forward(&self) -> Steps {
        Steps::new(self.forward_cycles, self.forward_locks)
    }

    /// `dev_queue_xmit`.
    pub const fn enqueue(&self) -> Steps {
        Steps::new(self.enqueue_cycles, self.enqueue_locks)
    }

    /// `hard_start_xmit`.
    pub const fn transmit(&self) -> Steps {
        Steps::new(self.transmit_cycles, self.transmit_locks)
    }

    /// Connection tracking and translation.
    pub const fn nat(&self) -> Steps {
        Steps::new(self.nat_cycles, self.nat_locks)
    }

    /// `tcp_v4_rcv`.
    pub const fn tcp(&self) -> Steps {
        Steps::new(self.tcp_cycles, self.tcp_locks)
    }

    /// Waking a process.
    pub const fn wake(&self) -> Steps {
        Steps::new(self.wake_cycles, self.wake_locks)
    }

    /// `recv`.
    pub const fn receive_call(&self) -> Steps {
        Steps::new(self.receive_call_cycles, self.receive_call_locks)
    }

    /// The part of [`tcp`](Self::tcp) before the prequeue, if the kernel has one.
    pub fn prequeue(&self) -> Option<Steps> {
        self.prequeue_cycles.map(|cycles| Steps::new(cycles, self.prequeue_locks))
    }

    /// A UDP socket of this system, for datagrams in buffers of `buffer_bytes`.
    pub fn udp_socket<F: AsRef<[u8]> + 'static>(&self, buffer_bytes: u32) -> Socket<F> {
        let each = (buffer_bytes + self.buffer_overhead_bytes).max(1);
        Socket::new(udp::Costs {
            // The last one may exceed the limit.
            capacity: self.datagram_bytes as usize / each as usize + 1,
            header_bytes: udp::HEADER_BYTES,
            check: Steps::new(self.ip_cycles + self.udp_cycles, self.udp_locks),
            queue: Steps::default(),
            wake: self.wake(),
            switch: self.switch_cycles.into(),
            call: self.receive_call().and(self.receive_segment_cycles.into()),
            program: self.element_cycles.into(),
            lines: self.socket_lines,
        })
    }

    /// A packet socket of this system, which takes every frame, in buffers of `buffer_bytes`.
    pub fn packet_socket<F: AsRef<[u8]> + 'static>(&self, buffer_bytes: u32) -> Socket<F> {
        let each = (buffer_bytes + self.buffer_overhead_bytes).max(1);
        Socket::new(udp::Costs {
            header_bytes: 0,
            // Unlike a UDP socket's, none may exceed the limit (`packet_rcv`).
            capacity: (self.datagram_bytes as usize / each as usize).max(1),
            check: self.packet_check_cycles.into(),
            queue: Steps::new(self.packet_queue_cycles, self.packet_queue_locks),
            wake: self.wake(),
            switch: self.switch_cycles.into(),
            call: Steps::new(self.packet_call_cycles, self.packet_call_locks),
            program: self.element_cycles.into(),
            lines: self.packet_lines,
        })
    }
}

/// A device to start a stack with.
pub struct Attach<N> {
    /// The driver bound to its card.
    pub device: N,
    /// The card's slot.
    pub slot: usize,
    /// Where it is served.
    pub service: Service,
    /// The CPU that takes its interrupts.
    pub cpu: usize,
}

struct Shared<N: Netdev, H> {
    ports: Vec<Port<N>>,
    cpus: Vec<PerCpu<N::Frame>>,
    handler: RefCell<H>,
    handler_line: Line,
    params: Params,
}

/// A running stack: a handle.
pub struct Stack<N: Netdev, H> {
    shared: Rc<Shared<N, H>>,
}

impl<N: Netdev, H: Handler<N>> Stack<N, H> {
    /// Starts the stack for these devices, which become ports 0, 1 ….
    pub fn start(machine: &Machine, params: Params, devices: Vec<Attach<N>>, handler: H) -> Self {
        let shared = Rc::new(Shared {
            ports: devices.into_iter().map(|attach| Port::new(attach, &params)).collect(),
            cpus: (0..machine.cpus()).map(|_| PerCpu::new(params.backlog)).collect(),
            handler: RefCell::new(handler),
            handler_line: Line::new(),
            params,
        });
        for cpu in 0..machine.cpus() {
            softirq::spawn(machine, &shared, cpu);
        }
        for (index, port) in shared.ports.iter().enumerate() {
            match port.service {
                Service::Interrupt | Service::Softirq { .. } => {
                    softirq::spawn_handler(machine, &shared, index);
                }
                Service::Polling { burst } => drop(spawn_poller(machine, &shared, index, burst, false)),
                Service::Paced { burst } => {
                    let thread = spawn_poller(machine, &shared, index, burst, true);
                    softirq::spawn_waking_handler(machine, &shared, index, thread);
                }
            }
        }
        Self { shared }
    }

    /// Starts a kernel thread that sends by `port` as fast as the device takes frames, as pktgen does.
    pub fn send_forever(&self, machine: &Machine, port: usize, mut producer: impl Producer + 'static) {
        let shared = Rc::clone(&self.shared);
        machine.spawn(Level::Thread, move |machine| {
            let (port, params) = (&shared.ports[port], &shared.params);
            loop {
                let began = machine.now_ps();
                machine.spend_steps(Function::Task, params.task_cycles);
                let mut sent = 0;
                let slice_ends = began + params.thread_slice_ps;
                while machine.now_ps() < slice_ends && port.device.has_tx_space() {
                    let elements = u64::from(producer.elements());
                    machine.spend_steps(Function::Element, elements * params.element_cycles);
                    machine.spend_steps(Function::Transmit, params.transmit());
                    if !port.device.send(&mut |buffer| producer.produce(machine.now_ps(), buffer)) {
                        break;
                    }
                    port.sent(machine.now_ps());
                    sent += 1;
                }
                port.device.flush();
                if sent == 0 {
                    // An interrupt may have made space since the poll found none.
                    match port.device.has_tx_space() {
                        true => machine.count_one_idle_poll(began),
                        false => machine.count_idle_poll(began),
                    }
                }
                machine.yield_cpu();
            }
        });
    }

    /// A protocol sends a frame by `port`: into its transmit queue, from where it goes as soon as the driver
    /// takes it. It is dropped if the queue is full: false.
    pub fn transmit(&self, machine: &Machine, port: usize, frame: N::Frame) -> bool {
        let is_queued = self.shared.transmit(machine, port, frame);
        self.shared.ports[port].device.flush();
        is_queued
    }

    /// Starts the drivers' timers: each ticks at `first_ps`, and every two seconds from then on.
    pub fn start_timers(&self, machine: &Machine, first_ps: u64) {
        for index in 0..self.shared.ports.len() {
            let shared = Rc::clone(&self.shared);
            let cpu = shared.ports[index].cpu;
            let tick = move |_: &Machine| shared.ports[index].device.tick();
            machine.spawn_on(cpu, Level::Softirq, timer(first_ps, tick));
        }
    }

    /// The fate of the frames that were received, or were to be sent, by `port`.
    pub fn tally(&self, port: usize) -> Tally {
        self.shared.ports[port].tally()
    }

    /// The state of `port`'s transmit queue.
    pub fn stall(&self, port: usize) -> Stall {
        self.shared.ports[port].stall()
    }

    /// Reads the application.
    pub fn with_handler<R>(&self, read: impl FnOnce(&H) -> R) -> R {
        read(&self.shared.handler.borrow())
    }

    /// A device.
    pub fn device(&self, port: usize) -> &N {
        &self.shared.ports[port].device
    }
}

impl<N: Netdev, H: Handler<N>> Shared<N, H> {
    /// A frame that has come in by `port` goes to the handler, and on from there.
    fn deliver(&self, machine: &Machine, port: usize, frame: N::Frame) -> Option<N::Buffer> {
        let params = &self.params;
        self.ports[port].count(|t| t.in_hand += 1);
        machine.spend_steps(Function::Receive, params.receive_cycles);
        let work = self.handler.borrow().work();
        match work {
            Work::Bridge => {
                machine.spend_steps(Function::Forward, params.bridge());
                machine.own(&self.handler_line, params.bridge_lines);
            }
            Work::Route { vlans, translates } => {
                machine.spend_steps(Function::Ip, params.ip_cycles);
                machine.spend_steps(Function::Route, params.forward());
                if vlans {
                    machine.spend_steps(Function::Vlan, params.vlan_cycles);
                }
                if translates {
                    machine.spend_steps(Function::Translate, params.nat());
                }
                let lines = params.route_lines + if translates { params.nat_lines } else { 0 };
                machine.own(&self.handler_line, lines);
            }
            Work::Protocol => {
                let transmit = |frame| self.transmit(machine, port, frame);
                let interface = Interface { device: &self.ports[port].device, transmit: &transmit };
                let buffer = self.handler.borrow().receive(machine, &interface, frame);
                self.ports[port].count(|t| (t.in_hand, t.ended) = (t.in_hand - 1, t.ended + 1));
                return buffer;
            }
            Work::Elements(elements) => {
                machine.spend_steps(Function::Element, u64::from(elements) * params.element_cycles);
            }
        }
        let mut out = self.cpus[machine.cpu()].out.take();
        let buffer = self.handler.borrow_mut().handle(machine.now_ps(), port, frame, &mut out);
        let (ended, leave) = (u64::from(buffer.is_some()), out.len() as u64);
        self.ports[port].count(|t| (t.in_hand, t.ended) = (t.in_hand - 1 + leave, t.ended + ended));
        let released = self.handler.borrow_mut().released();
        self.ports[port].count(|t| t.ended += released.len() as u64);
        released.into_iter().for_each(|buffer| self.ports[port].device.free(buffer));
        supply(&self.handler, &self.ports[port].device);
        for (to, frame) in out.drain(..) {
            self.send(machine, port, to, frame);
        }
        self.cpus[machine.cpu()].out.replace(out);
        buffer
    }

    /// `dev_queue_xmit`, for a frame that came in by port `from`.
    fn send(&self, machine: &Machine, from: usize, to: usize, frame: N::Frame) {
        let refused = self.enqueue(machine, to, frame);
        self.ports[from].count(|t| t.in_hand -= 1);
        self.run_queue(machine, to, refused);
    }

    /// `dev_queue_xmit`, for a frame that was made here. False: it was dropped.
    fn transmit(&self, machine: &Machine, to: usize, frame: N::Frame) -> bool {
        let refused = self.enqueue(machine, to, frame);
        let is_queued = refused.is_none();
        self.run_queue(machine, to, refused);
        is_queued
    }

    /// The first half of `dev_queue_xmit`: into the transmit queue, or back if that is full.
    fn enqueue(&self, machine: &Machine, to: usize, frame: N::Frame) -> Option<N::Frame> {
        machine.spend_steps(Function::Enqueue, self.params.enqueue());
        self.ports[to].enqueue(machine, frame, self.params.transmit_queue)
    }

    /// The second half: a refused frame is freed, and what waits goes to the driver.
    fn run_queue(&self, machine: &Machine, to: usize, refused: Option<N::Frame>) {
        let port = &self.ports[to];
        if let Some(frame) = refused {
            port.device.free(frame.into_buffer());
        }
        port.run_queue(machine, self.params.transmit());
    }
}

/// The thread of a driver that is polled by one.
fn spawn_poller<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, H>>,
    index: usize,
    burst: usize,
    sleeps: bool,
) -> crate::cpu::ContextId {
    let shared = Rc::clone(shared);
    // On the CPU of the card's interrupts and the driver's timer: all three share the driver's state without
    // a lock.
    machine.spawn_on(shared.ports[index].cpu, Level::Thread, move |machine| {
        if sleeps {
            machine.wait();
        }
        let port = &shared.ports[index];
        loop {
            let began = machine.now_ps();
            machine.spend_steps(Function::Task, shared.params.task_cycles);
            let Polled { frames, completed, next } = machine.without_interrupts(|| {
                port.device.poll(burst, &mut |frame| {
                    port.count(|t| t.from_driver += 1);
                    shared.deliver(machine, index, frame)
                })
            });
            if port.wakes(machine.now_ps()) {
                port.run_queue(machine, shared.params.transmit());
            }
            shared.ports.iter().for_each(|port| port.device.flush());
            match next {
                NextPoll::Interrupt => machine.wait(),
                NextPoll::At(until_ps) => {
                    machine.sleep_until(until_ps);
                }
                NextPoll::Yield(until_ps) => {
                    machine.yield_until(until_ps);
                }
                NextPoll::Now if frames == 0 && completed == 0 => machine.count_idle_poll(began),
                NextPoll::Now => {}
            }
            machine.yield_cpu();
        }
    })
}
