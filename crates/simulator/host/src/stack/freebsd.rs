//! FreeBSD 4 to 6: interrupt handlers or threads, the network interrupt, transmit queues, polling(4),
//! processes.
//!
//! A device's interrupt handler puts frames into the IP input queue. The software network interrupt
//! (`netisr`) takes them from there to the [`Handler`]. Frames that leave go through the device's transmit
//! queue, which drops them while it is full; the driver moves frames from there into its ring when one is
//! queued and when its card has sent some. A process that sends into a full queue gets `ENOBUFS`, and no
//! wake-up when there is space again (`process`). With `polling` the clock serves the device instead of
//! its interrupt.

mod polling;
mod process;

pub use polling::Polling;
pub use process::{Calls, OnFull, Program, Sender};

use super::handler::{Handler, Interface, Work, supply};
use super::netdev::{IntoBuffer, Netdev, NextPoll, Raised, Service, timer};
use super::udp::{self, Socket};
use crate::cpu::{ContextId, Function, Level, Machine};
use crate::host::Steps;
use crate::limits::{QUEUE, check};
use crate::platform::Arrays;
use polling::State;
use serde::Deserialize;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The constants of the stack: limits, and costs in cycles of a Pentium III.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// How the kernel keeps free packet buffers.
    pub buffers: Arrays,
    /// Bytes of an mbuf's own that allocating and freeing touch (`m_hdr`, `pkthdr`), in place of
    /// [`Work::structure_bytes`]; there is no count of references unless data are shared.
    ///
    /// [`Work::structure_bytes`]: crate::host::Work::structure_bytes
    pub mbuf_bytes: u32,
    /// Clock interrupts in a second.
    pub hz: u64,
    /// Frames in a device's transmit queue (`ifq_maxlen`), beside those in its ring.
    pub transmit_queue: usize,
    /// Frames in the IP input queue.
    pub input_queue: usize,
    /// Datagrams in the buffer of a socket.
    pub socket_queue: usize,
    /// The rules of polling(4), for devices that are polled.
    pub polling: Polling,
    /// Switching to an interrupt thread and back; 0 where handlers run on the stack of the interrupted code.
    pub interrupt_thread_cycles: u64,
    /// A clock interrupt with its time-outs.
    pub clock_cycles: u64,
    /// Switching to a process that was woken.
    pub switch_cycles: u64,
    /// `ether_input`: one frame into the IP input queue.
    pub input_cycles: u64,
    /// Starting the software network interrupt.
    pub netisr_cycles: u64,
    /// One frame from the input queue to its end: `ip_input` and the protocol.
    pub receive_cycles: u64,
    /// One frame from the input queue to the transmit queue: `ip_input`, `ip_forward`, `ip_output`,
    /// `ether_output`.
    pub forward_cycles: u64,
    /// The same through the bridge.
    pub bridge_cycles: u64,
    /// Translating a packet of a connection that is known, beside that.
    pub nat_cycles: u64,
    /// Into the kernel and back.
    pub system_call_cycles: u64,
    /// `recvfrom`: into the kernel and back with one datagram, beside copying it.
    pub receive_call_cycles: u64,
    /// One datagram from its socket to the transmit queue: `sosend`, `udp_output`, `ip_output`,
    /// `ether_output`.
    pub output_cycles: u64,
    /// The driver takes one frame from the transmit queue: `if_start` beside the descriptor.
    pub start_cycles: u64,
    /// Calling a driver to poll.
    pub poll_cycles: u64,
    /// An element of an application, for one frame, and a program's own work on one.
    pub element_cycles: u64,
}

impl Params {
    /// Checks the constants; the error names the one out of range.
    pub fn check(&self) -> Result<(), String> {
        self.buffers.check()?;
        const CYCLES: std::ops::RangeInclusive<u64> = 0..=1_000_000;
        check(&[
            ("transmit_queue", self.transmit_queue, QUEUE),
            ("input_queue", self.input_queue, QUEUE),
            ("socket_queue", self.socket_queue, QUEUE),
        ])?;
        check(&[
            ("mbuf_bytes", self.mbuf_bytes.into(), 16..=256),
            ("hz", self.hz, 10..=100_000),
            ("interrupt_thread_cycles", self.interrupt_thread_cycles, CYCLES),
            ("clock_cycles", self.clock_cycles, CYCLES),
            ("switch_cycles", self.switch_cycles, CYCLES),
            ("input_cycles", self.input_cycles, CYCLES),
            ("netisr_cycles", self.netisr_cycles, CYCLES),
            ("receive_cycles", self.receive_cycles, CYCLES),
            ("forward_cycles", self.forward_cycles, CYCLES),
            ("bridge_cycles", self.bridge_cycles, CYCLES),
            ("nat_cycles", self.nat_cycles, CYCLES),
            // A call or a poll that costs nothing would be made for ever in the same instant.
            ("system_call_cycles", self.system_call_cycles, 1..=1_000_000),
            ("receive_call_cycles", self.receive_call_cycles, 1..=1_000_000),
            ("output_cycles", self.output_cycles, CYCLES),
            ("start_cycles", self.start_cycles, CYCLES),
            ("poll_cycles", self.poll_cycles, 1..=1_000_000),
            ("element_cycles", self.element_cycles, CYCLES),
        ])?;
        self.polling.check()
    }

    fn tick_ps(&self) -> u64 {
        crate::S / self.hz
    }

    /// The most frames that its queues can hold.
    pub fn most_frames(&self) -> usize {
        self.input_queue + self.transmit_queue + self.socket_queue
    }

    /// A socket of this system: `ip_input` and the protocol put a datagram into it within `receive_cycles`.
    pub fn socket<F: AsRef<[u8]> + 'static>(&self) -> Socket<F> {
        Socket::new(udp::Costs {
            capacity: self.socket_queue,
            header_bytes: udp::HEADER_BYTES,
            check: Steps::default(),
            queue: Steps::default(),
            wake: Steps::default(),
            switch: self.switch_cycles.into(),
            call: self.receive_call_cycles.into(),
            program: self.element_cycles.into(),
            lines: 0,
        })
    }
}

/// Where frames are, and where they were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames the driver handed up.
    pub from_driver: u64,
    /// Dropped: the IP input queue was full.
    pub dropped_input: u64,
    /// In the input queue now.
    pub in_input: u64,
    /// In the handler, or between it and the transmit queue, now.
    pub in_hand: u64,
    /// Ended in the handler.
    pub ended: u64,
    /// Received frames that found the transmit queue full.
    pub dropped_transmit: u64,
    /// Frames that went into the transmit queue.
    pub queued: u64,
    /// Of these, frames that the driver took.
    pub to_card: u64,
}

impl Tally {
    /// Whether every received frame is somewhere, if none of them leaves again.
    pub fn ends_here(&self) -> bool {
        self.from_driver == self.dropped_input + self.in_input + self.in_hand + self.ended
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
}

/// A device with its transmit queue.
struct Port<N: Netdev> {
    device: N,
    slot: usize,
    /// Frames to send.
    transmit: RefCell<VecDeque<N::Frame>>,
    tally: Cell<Tally>,
    /// A process that waits for space in the transmit queue.
    waiting: Cell<Option<ContextId>>,
}

impl<N: Netdev> Port<N> {
    fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }
}

struct Shared<N: Netdev, H> {
    ports: Vec<Port<N>>,
    params: Params,
    handler: RefCell<H>,
    /// Received frames for IP, with their ports.
    input: RefCell<VecDeque<(usize, N::Frame)>>,
    /// The software network interrupt.
    netisr: Cell<Option<ContextId>>,
    polling: State,
    /// System calls check the clock for the driver's timers.
    soft_timers: bool,
}

/// Reading the clock at the end of a system call, in cycles: RDTSC takes 80 on a Pentium 4 (Fog, Instruction
/// tables), and the comparison some 20 more. An estimate with a spread of 2: with 50 and with 200 no verdict
/// of W5 and W6 (`beyond`) changes.
const CLOCK_CYCLES: u64 = 100;

/// A running stack: a handle.
pub struct Stack<N: Netdev, H> {
    shared: Rc<Shared<N, H>>,
}

impl<N: Netdev, H: Handler<N>> Stack<N, H> {
    /// Starts the stack for these devices, which become ports 0, 1 …. A driver without interrupts is polled
    /// by the rules of polling(4). A driver that wants to be polled after its interrupt has a thread for
    /// that, with [soft timers](Machine::sleep_until). System calls check the clock for these.
    pub fn start(machine: &Machine, params: Params, devices: Vec<Attach<N>>, handler: H) -> Self {
        let services: Vec<Service> = devices.iter().map(|attach| attach.service).collect();
        let polled = services.iter().any(|service| matches!(service, Service::Polling { .. }));
        let port = |Attach { device, slot, .. }| Port {
            device,
            slot,
            transmit: RefCell::new(VecDeque::with_capacity(params.transmit_queue)),
            tally: Cell::default(),
            waiting: Cell::new(None),
        };
        let shared = Rc::new(Shared {
            ports: devices.into_iter().map(port).collect(),
            handler: RefCell::new(handler),
            input: RefCell::new(VecDeque::with_capacity(params.input_queue)),
            netisr: Cell::new(None),
            polling: State::new(&params.polling),
            soft_timers: services.iter().any(|service| matches!(service, Service::Paced { .. })),
            params,
        });
        spawn_netisr(machine, &shared);
        spawn_clock(machine, &shared, polled);
        if polled {
            if shared.params.polling.idle_poll {
                polling::spawn_idle_poll(machine, &shared);
            }
        } else {
            for (index, service) in services.into_iter().enumerate() {
                let thread = match service {
                    Service::Paced { burst } => Some(spawn_taskqueue(machine, &shared, index, burst)),
                    _ => None,
                };
                spawn_handler(machine, &shared, index, thread);
            }
        }
        Self { shared }
    }

    /// Starts the drivers' timers: each ticks at `first_ps`, and every two seconds from then on.
    pub fn start_timers(&self, machine: &Machine, first_ps: u64) {
        for index in 0..self.shared.ports.len() {
            let shared = Rc::clone(&self.shared);
            let tick =
                move |machine: &Machine| machine.without_interrupts(|| shared.ports[index].device.tick());
            machine.spawn(Level::Softirq, timer(first_ps, tick));
        }
    }

    /// The fate of the frames that were received, or were to be sent, by `port`.
    pub fn tally(&self, port: usize) -> Tally {
        self.shared.ports[port].tally.get()
    }

    /// Frames in the transmit queue of `port` now, those in the device's ring not counted; `None` while one
    /// is put there.
    pub fn queued(&self, port: usize) -> Option<usize> {
        self.shared.ports[port].transmit.try_borrow().ok().map(|queue| queue.len())
    }

    /// Reads the application in the kernel.
    pub fn with_handler<R>(&self, read: impl FnOnce(&H) -> R) -> R {
        read(&self.shared.handler.borrow())
    }

    /// Starts a process that reads `socket`, which receives datagrams if it is the handler. `read` gets each
    /// frame that the process has read.
    pub fn read_from_process(
        &self,
        machine: &Machine,
        socket: &Socket<N::Frame>,
        read: impl Fn(&Machine, &N::Frame) + 'static,
    ) where
        N::Frame: AsRef<[u8]>,
    {
        let shared = Rc::clone(&self.shared);
        socket.read_from_process(machine, 0, move |machine, frame| {
            read(machine, &frame);
            machine.without_interrupts(|| shared.ports[0].device.free(frame.into_buffer()));
        });
    }

    /// A device.
    pub fn device(&self, port: usize) -> &N {
        &self.shared.ports[port].device
    }
}

impl<N: Netdev, H: Handler<N>> Shared<N, H> {
    /// `ether_input`: puts a frame into the IP input queue, or gives its buffer back.
    fn input(&self, machine: &Machine, port: usize, frame: N::Frame) -> Option<N::Buffer> {
        machine.spend_steps(Function::NetifRx, self.params.input_cycles);
        let mut input = self.input.borrow_mut();
        let of = &self.ports[port];
        if input.len() >= self.params.input_queue {
            of.count(|t| (t.from_driver, t.dropped_input) = (t.from_driver + 1, t.dropped_input + 1));
            return Some(frame.into_buffer());
        }
        input.push_back((port, frame));
        of.count(|t| (t.from_driver, t.in_input) = (t.from_driver + 1, t.in_input + 1));
        None
    }

    /// Schedules the software network interrupt.
    fn schedule_netisr(&self, machine: &Machine) {
        if let Some(netisr) = self.netisr.get() {
            machine.wake(netisr);
        }
    }

    /// Puts a frame into the transmit queue of `port` and starts the driver. `Err` gives the frame back: the
    /// queue was full (`ENOBUFS`). Interrupts must be off.
    fn output(&self, machine: &Machine, port: usize, frame: N::Frame) -> Result<(), N::Frame> {
        let port = &self.ports[port];
        {
            let mut transmit = port.transmit.borrow_mut();
            if !port.device.admits(transmit.len(), self.params.transmit_queue) {
                return Err(frame);
            }
            transmit.push_back(frame);
        }
        port.count(|t| t.queued += 1);
        self.start_output(machine, port);
        Ok(())
    }

    /// `if_start`: moves frames from the transmit queue into the ring, as many as fit.
    fn start_output(&self, machine: &Machine, port: &Port<N>) {
        let mut moved = false;
        while port.device.has_tx_space() {
            let Some(frame) = port.transmit.borrow_mut().pop_front() else { break };
            machine.spend_steps(Function::Transmit, self.params.start_cycles);
            if let Err(frame) = port.device.forward(frame) {
                port.transmit.borrow_mut().push_front(frame);
                break;
            }
            port.count(|t| t.to_card += 1);
            moved = true;
        }
        if moved {
            port.device.flush();
        }
    }

    /// Goes on after the card of `port` has sent or received: sends more, schedules the protocols, wakes a
    /// waiting sender.
    fn go_on(&self, machine: &Machine, port: usize) {
        let port = &self.ports[port];
        self.start_output(machine, port);
        if !self.input.borrow().is_empty() {
            self.schedule_netisr(machine);
        }
        if port.device.readmits(port.transmit.borrow().len(), self.params.transmit_queue)
            && let Some(process) = port.waiting.take()
        {
            machine.wake(process);
        }
    }

    /// Takes every frame out of the input queue.
    fn run_input(&self, machine: &Machine) {
        let mut out = Vec::new();
        loop {
            let Some((port, frame)) = self.input.borrow_mut().pop_front() else { return };
            let of = &self.ports[port];
            of.count(|t| (t.in_input, t.in_hand) = (t.in_input - 1, t.in_hand + 1));
            let work = self.handler.borrow().work();
            let elements = match work {
                // Each frame that is sent costs `forward_cycles`.
                Work::Bridge | Work::Route { .. } => 0,
                Work::Elements(elements) => elements,
                Work::Protocol => {
                    machine.spend_steps(Function::Receive, self.params.receive_cycles);
                    let transmit = |frame| self.transmit(machine, port, frame);
                    let interface = Interface { device: &of.device, transmit: &transmit };
                    let buffer = self.handler.borrow().receive(machine, &interface, frame);
                    of.count(|t| (t.in_hand, t.ended) = (t.in_hand - 1, t.ended + 1));
                    if let Some(buffer) = buffer {
                        machine.without_interrupts(|| of.device.free(buffer));
                    }
                    continue;
                }
            };
            machine.spend_steps(Function::Element, u64::from(elements) * self.params.element_cycles);
            let ended = self.handler.borrow_mut().handle(machine.now_ps(), port, frame, &mut out);
            let ended_here = u64::from(ended.is_some());
            of.count(|t| {
                (t.in_hand, t.ended) = (t.in_hand - 1 + out.len() as u64, t.ended + ended_here);
            });
            if out.is_empty() {
                machine.spend_steps(Function::Receive, self.params.receive_cycles);
            }
            let released = self.handler.borrow_mut().released();
            of.count(|t| t.ended += released.len() as u64);
            machine.without_interrupts(|| {
                ended.into_iter().chain(released).for_each(|buffer| of.device.free(buffer));
                supply(&self.handler, &of.device);
            });
            for (to, frame) in out.drain(..) {
                let (function, cycles) = match work {
                    Work::Bridge => (Function::Forward, self.params.bridge_cycles),
                    Work::Route { translates: true, .. } => {
                        (Function::Route, self.params.forward_cycles + self.params.nat_cycles)
                    }
                    _ => (Function::Forward, self.params.forward_cycles),
                };
                machine.spend_steps(function, cycles);
                machine.without_interrupts(|| {
                    of.count(|t| t.in_hand -= 1);
                    self.transmit(machine, to, frame);
                });
            }
        }
    }

    /// A frame leaves by port `to`, or is dropped if the transmit queue is full: false.
    fn transmit(&self, machine: &Machine, to: usize, frame: N::Frame) -> bool {
        machine.without_interrupts(|| {
            let Err(frame) = self.output(machine, to, frame) else { return true };
            self.ports[to].count(|t| t.dropped_transmit += 1);
            self.ports[to].device.free(frame.into_buffer());
            false
        })
    }
}

/// The thread of a driver that wants to be polled, at the level of the software network interrupt.
fn spawn_taskqueue<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, H>>,
    index: usize,
    burst: usize,
) -> ContextId {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Softirq, move |machine| {
        machine.wait();
        machine.spend_steps(Function::Task, shared.params.switch_cycles);
        loop {
            machine.spend_steps(Function::Softirq, shared.params.poll_cycles);
            let polled = machine.without_interrupts(|| {
                let device = &shared.ports[index].device;
                let polled = device.poll(burst, &mut |frame| shared.input(machine, index, frame));
                shared.go_on(machine, index);
                polled
            });
            let switched = match polled.next {
                NextPoll::Interrupt => {
                    machine.wait();
                    true
                }
                NextPoll::At(until_ps) => machine.sleep_until(until_ps),
                NextPoll::Yield(until_ps) => machine.yield_until(until_ps),
                NextPoll::Now => false,
            };
            if switched {
                machine.spend_steps(Function::Task, shared.params.switch_cycles);
            }
            machine.yield_cpu();
        }
    })
}

/// The interrupt handler, or the thread that its interrupt wakes: either way above everything else here. It
/// wakes `poller` if the driver wants to be polled.
fn spawn_handler<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, H>>,
    index: usize,
    poller: Option<ContextId>,
) {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Hardirq, move |machine| {
        let port = &shared.ports[index];
        loop {
            machine.wait_for_interrupt(port.slot);
            machine.enter_interrupt();
            machine.spend_steps(Function::InterruptEntry, shared.params.interrupt_thread_cycles);
            let raised = port.device.interrupt(&mut |frame| shared.input(machine, index, frame));
            match (raised, poller) {
                (Raised::Poll, Some(poller)) => machine.wake(poller),
                _ => shared.go_on(machine, index),
            }
            machine.leave_interrupt();
        }
    });
}

/// The clock: its interrupts are at whole multiples of a tick.
fn spawn_clock<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Rc<Shared<N, H>>, polled: bool) {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Hardirq, move |machine| {
        let tick_ps = shared.params.tick_ps();
        loop {
            machine.wait_until((machine.now_ps() / tick_ps + 1) * tick_ps);
            machine.enter_interrupt();
            machine.spend(machine.host().pentium_iii_ps(shared.params.clock_cycles));
            if polled {
                machine.spend(shared.params.polling.clock_read_ps);
                if shared.polling.clock() {
                    shared.schedule_netisr(machine);
                }
            }
            machine.leave_interrupt();
        }
    });
}

/// The software network interrupt: polling, then IP, then the end of the poll, which measures the time that
/// took.
fn spawn_netisr<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Rc<Shared<N, H>>) {
    let stack = Rc::clone(shared);
    let id = machine.spawn(Level::Softirq, move |machine| {
        loop {
            if !stack.polling.is_scheduled() && stack.input.borrow().is_empty() {
                machine.wait();
                machine.spend_steps(Function::Softirq, stack.params.netisr_cycles);
            }
            let read_clock = || {
                if stack.polling.is_between_ticks() {
                    machine.spend_on(Function::Softirq, stack.params.polling.clock_read_ps);
                }
            };
            if stack.polling.is_scheduled() {
                read_clock();
            }
            let poll = stack.polling.begin(machine.now_ps(), &stack.params.polling);
            if let Some(poll) = &poll {
                stack.poll(machine, poll.frames, poll.check_status);
            }
            stack.run_input(machine);
            if poll.is_some() {
                read_clock();
                stack.polling.end(machine.now_ps(), &stack.params.polling, stack.params.tick_ps());
            }
        }
    });
    shared.netisr.set(Some(id));
}
