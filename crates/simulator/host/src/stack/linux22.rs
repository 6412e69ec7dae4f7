//! Linux 2.2.16 with the Click modular router in the kernel.
//!
//! An interrupt handler hands frames to `netif_rx`, which puts them on the *backlog*, or drops them if that
//! is full. The bottom half `net_bh`, which runs when no interrupt handler is active, takes them to Click's
//! `FromDevice`, which queues them again for the Click thread. A polling driver is called by the Click thread
//! itself, and a frame runs through the whole configuration before the next is taken.
//!
//! Frames to send wait in a Click `Queue` of their port. The Click thread's `ToDevice` gives them to the
//! driver.
//!
//! NAPI came later than 2.2. Here its poll runs where `net_bh` would, with the budget and the fallback to a
//! thread of the kernels that had it.

use super::handler::{Handler, Work, supply};
use super::netdev::{IntoBuffer, Netdev, NextPoll, Polled, Producer, Raised, Service, timer};
use crate::cpu::{ContextId, Function, Level, Machine};
use crate::host;
use crate::limits::{QUEUE, STEP_PS, check};
use crate::platform::Arrays;
use serde::Deserialize;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The constants of the stack: queue limits, and costs in cycles of a Pentium III.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// How the kernel keeps free packet buffers.
    pub buffers: Arrays,
    /// Frames on the backlog before `netif_rx` drops.
    pub backlog: usize,
    /// Frames in Click's `FromDevice` queue before it drops.
    pub from_device_queue: usize,
    /// Frames a `FromDevice` task takes in one turn.
    pub from_device_burst: usize,
    /// Frames a `ToDevice` task sends in one turn.
    pub to_device_burst: usize,
    /// Frames in the Click `Queue` before a `ToDevice` before it drops.
    pub to_device_queue: usize,
    /// Frames one softirq run may receive before it starts over.
    pub softirq_budget: usize,
    /// How often a softirq starts over before it leaves the rest to a thread.
    pub softirq_restarts: usize,
    /// How long that thread runs before others of its level, in picoseconds.
    pub thread_slice_ps: u64,
    /// `netif_rx`: one frame onto the backlog.
    pub netif_rx_cycles: u64,
    /// Dispatching the bottom half once.
    pub bottom_half_cycles: u64,
    /// `net_bh`: one frame from the backlog to Click.
    pub net_bh_cycles: u64,
    /// Scheduling one Click task, or one poll.
    pub task_cycles: u64,
    /// One Click element, for one frame.
    pub element_cycles: u64,
    /// The same as a time, whatever the host.
    pub element_ps: Option<u64>,
    /// A frame into a Click `Queue` and out of it.
    pub queue_cycles: u64,
    /// Click's elements of an IP router, for one frame.
    pub route_cycles: u64,
    /// `EtherSwitch`, for one frame.
    pub bridge_cycles: u64,
    /// The elements that take a frame out of its VLAN and into another.
    pub vlan_cycles: u64,
    /// `IPRewriter`, for one frame of a connection that is known.
    pub nat_cycles: u64,
}

impl Params {
    /// Checks the constants; the error names the one out of range.
    pub fn check(&self) -> Result<(), String> {
        const CYCLES: std::ops::RangeInclusive<u64> = 0..=1_000_000;
        self.buffers.check()?;
        check(&[
            ("backlog", self.backlog, QUEUE),
            ("from_device_queue", self.from_device_queue, QUEUE),
            ("from_device_burst", self.from_device_burst, QUEUE),
            ("to_device_burst", self.to_device_burst, QUEUE),
            ("to_device_queue", self.to_device_queue, QUEUE),
            ("softirq_budget", self.softirq_budget, QUEUE),
            ("softirq_restarts", self.softirq_restarts, 0..=1000),
        ])?;
        check(&[
            ("thread_slice_ps", self.thread_slice_ps, crate::US..=crate::S),
            ("netif_rx_cycles", self.netif_rx_cycles, CYCLES),
            ("bottom_half_cycles", self.bottom_half_cycles, CYCLES),
            ("net_bh_cycles", self.net_bh_cycles, CYCLES),
            // A poll that costs nothing would be made for ever in the same instant.
            ("task_cycles", self.task_cycles, 1..=1_000_000),
            ("element_cycles", self.element_cycles, CYCLES),
            ("element_ps", self.element_ps.unwrap_or(0), STEP_PS),
            ("queue_cycles", self.queue_cycles, CYCLES),
            ("route_cycles", self.route_cycles, CYCLES),
            ("bridge_cycles", self.bridge_cycles, CYCLES),
            ("vlan_cycles", self.vlan_cycles, CYCLES),
            ("nat_cycles", self.nat_cycles, CYCLES),
        ])
    }
}

/// The times that the stack's work takes on a host.
struct Costs {
    netif_rx_ps: u64,
    bottom_half_ps: u64,
    net_bh_ps: u64,
    task_ps: u64,
    element_ps: u64,
    queue_ps: u64,
    route_ps: u64,
    bridge_ps: u64,
    vlan_ps: u64,
    nat_ps: u64,
}

impl Costs {
    fn new(params: &Params, host: &host::Params) -> Self {
        Self {
            netif_rx_ps: host.pentium_iii_ps(params.netif_rx_cycles),
            bottom_half_ps: host.pentium_iii_ps(params.bottom_half_cycles),
            net_bh_ps: host.pentium_iii_ps(params.net_bh_cycles),
            task_ps: host.pentium_iii_ps(params.task_cycles).max(crate::NS),
            element_ps: params.element_ps.unwrap_or(host.pentium_iii_ps(params.element_cycles)),
            queue_ps: host.pentium_iii_ps(params.queue_cycles),
            route_ps: host.pentium_iii_ps(params.route_cycles),
            bridge_ps: host.pentium_iii_ps(params.bridge_cycles),
            vlan_ps: host.pentium_iii_ps(params.vlan_cycles),
            nat_ps: host.pentium_iii_ps(params.nat_cycles),
        }
    }
}

/// Where the frames of a port are, and where they were lost. For received frames: `from_driver =
/// dropped_backlog + in_backlog + dropped_queue + in_queue + in_hand + consumed` + frames that were sent on.
/// For sent frames: `to_device = dropped_device + in_device + to_card`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames the driver handed up.
    pub from_driver: u64,
    /// Dropped by `netif_rx`: the backlog was full.
    pub dropped_backlog: u64,
    /// Dropped by `FromDevice`: its queue was full.
    pub dropped_queue: u64,
    /// On the backlog now.
    pub in_backlog: u64,
    /// In `FromDevice`'s queue now.
    pub in_queue: u64,
    /// Taken out of a queue, and in `net_bh` or Click now.
    pub in_hand: u64,
    /// Consumed by the application.
    pub consumed: u64,
    /// Frames to leave by this port.
    pub to_device: u64,
    /// Dropped: the queue before `ToDevice` was full.
    pub dropped_device: u64,
    /// In that queue now.
    pub in_device: u64,
    /// Given to the driver, which took them.
    pub to_card: u64,
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

/// A device, and Click's elements at it.
struct Port<N: Netdev> {
    device: N,
    slot: usize,
    service: Service,
    /// `FromDevice`'s queue.
    queue: RefCell<VecDeque<N::Frame>>,
    /// The queue before `ToDevice`.
    output: RefCell<VecDeque<N::Frame>>,
    tally: Cell<Tally>,
}

impl<N: Netdev> Port<N> {
    #[inline]
    fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }
}

struct Shared<N: Netdev, H> {
    ports: Vec<Port<N>>,
    handler: RefCell<H>,
    /// Frames of all ports, with their ports.
    backlog: RefCell<VecDeque<(usize, N::Frame)>>,
    /// Frames that leave: empty but while one is being handled.
    out: RefCell<Vec<(usize, N::Frame)>>,
    /// The bottom half, and the Click thread.
    bottom_half: Cell<Option<ContextId>>,
    thread: Cell<Option<ContextId>>,
    params: Params,
    costs: Costs,
}

impl<N: Netdev, H: Handler<N>> Shared<N, H> {
    /// `netif_rx`.
    fn backlog(&self, machine: &Machine, port: usize, frame: N::Frame) -> Option<N::Frame> {
        machine.spend_on(Function::NetifRx, self.costs.netif_rx_ps);
        let mut backlog = self.backlog.borrow_mut();
        let of = &self.ports[port];
        if backlog.len() >= self.params.backlog {
            of.count(|t| (t.from_driver, t.dropped_backlog) = (t.from_driver + 1, t.dropped_backlog + 1));
            return Some(frame);
        }
        backlog.push_back((port, frame));
        of.count(|t| (t.from_driver, t.in_backlog) = (t.from_driver + 1, t.in_backlog + 1));
        None
    }

    /// `FromDevice`: into the queue of the Click thread.
    fn enqueue(&self, port: usize, frame: N::Frame) -> Option<N::Frame> {
        let port = &self.ports[port];
        let mut queue = port.queue.borrow_mut();
        if queue.len() >= self.params.from_device_queue {
            port.count(|t| t.dropped_queue += 1);
            return Some(frame);
        }
        queue.push_back(frame);
        port.count(|t| t.in_queue += 1);
        None
    }

    /// A frame runs through the Click configuration, to its end or into the queue of a `ToDevice`.
    fn consume(&self, machine: &Machine, port: usize, frame: N::Frame) -> Option<N::Buffer> {
        let of = &self.ports[port];
        of.count(|t| t.in_hand += 1);
        let costs = &self.costs;
        let work = self.handler.borrow().work();
        let (function, work_ps) = match work {
            Work::Elements(elements) => (Function::Element, u64::from(elements) * costs.element_ps),
            Work::Bridge => (Function::Forward, costs.bridge_ps),
            Work::Route { vlans, translates } => {
                let vlan_ps = if vlans { costs.vlan_ps } else { 0 };
                (Function::Route, costs.route_ps + vlan_ps + if translates { costs.nat_ps } else { 0 })
            }
            Work::Protocol => (Function::Element, costs.element_ps),
        };
        machine.spend_on(function, work_ps);
        let mut out = self.out.take();
        let buffer = self.handler.borrow_mut().handle(machine.now_ps(), port, frame, &mut out);
        let (ended, leave) = (u64::from(buffer.is_some()), out.len() as u64);
        of.count(|t| (t.in_hand, t.consumed) = (t.in_hand - 1 + leave, t.consumed + ended));
        if !matches!(work, Work::Elements(_)) {
            let released = self.handler.borrow_mut().released();
            of.count(|t| t.consumed += released.len() as u64);
            released.into_iter().for_each(|buffer| of.device.free(buffer));
            supply(&self.handler, &of.device);
        }
        for (to, frame) in out.drain(..) {
            machine.spend_on(Function::Enqueue, costs.queue_ps);
            of.count(|t| t.in_hand -= 1);
            let to = &self.ports[to];
            let mut output = to.output.borrow_mut();
            if output.len() >= self.params.to_device_queue {
                to.count(|t| (t.to_device, t.dropped_device) = (t.to_device + 1, t.dropped_device + 1));
                drop(output);
                to.device.free(frame.into_buffer());
                continue;
            }
            output.push_back(frame);
            to.count(|t| (t.to_device, t.in_device) = (t.to_device + 1, t.in_device + 1));
        }
        self.out.replace(out);
        buffer
    }

    /// The `ToDevice` task of each port: a burst of what waits, as far as the driver takes it. Interrupts
    /// must be off.
    fn to_devices(&self, machine: &Machine) {
        for port in &self.ports {
            let mut sent = 0;
            while sent < self.params.to_device_burst && port.device.has_tx_space() {
                let Some(frame) = port.output.borrow_mut().pop_front() else { break };
                if let Err(frame) = port.device.forward(frame) {
                    port.output.borrow_mut().push_front(frame);
                    break;
                }
                port.count(|t| (t.in_device, t.to_card) = (t.in_device - 1, t.to_card + 1));
                sent += 1;
            }
            if sent > 0 {
                machine.spend_on(Function::Task, self.costs.task_ps);
                port.device.flush();
            }
        }
    }

    /// Whether a frame waits that a driver would take.
    fn may_send(&self) -> bool {
        self.ports.iter().any(|port| !port.output.borrow().is_empty() && port.device.has_tx_space())
    }

    /// A buffer goes back to the allocator that the driver shares: not while a handler is in it.
    fn free(&self, machine: &Machine, port: usize, buffer: N::Buffer) {
        machine.without_interrupts(|| self.ports[port].device.free(buffer));
    }

    fn wake(&self, machine: &Machine, context: &Cell<Option<ContextId>>) {
        if let Some(context) = context.get() {
            machine.wake(context);
        }
    }
}

/// A running stack: a handle.
pub struct Stack<N: Netdev, H> {
    shared: Rc<Shared<N, H>>,
}

impl<N: Netdev, H: Handler<N>> Stack<N, H> {
    /// Starts the stack for these devices, which become ports 0, 1 …: their interrupt handlers, the bottom
    /// half, the Click thread.
    pub fn start(machine: &Machine, params: Params, devices: Vec<Attach<N>>, handler: H) -> Self {
        let port = |attach: Attach<N>| Port {
            device: attach.device,
            slot: attach.slot,
            service: attach.service,
            queue: RefCell::new(VecDeque::with_capacity(params.from_device_queue)),
            output: RefCell::new(VecDeque::with_capacity(params.to_device_queue)),
            tally: Cell::default(),
        };
        let shared = Rc::new(Shared {
            ports: devices.into_iter().map(port).collect(),
            handler: RefCell::new(handler),
            backlog: RefCell::new(VecDeque::with_capacity(params.backlog)),
            out: RefCell::default(),
            bottom_half: Cell::new(None),
            thread: Cell::new(None),
            costs: Costs::new(&params, machine.host()),
            params,
        });
        let is_polled =
            |port: &Port<N>| matches!(port.service, Service::Polling { .. } | Service::Paced { .. });
        if !shared.ports.iter().all(is_polled) {
            shared.thread.set(Some(spawn_click(machine, &shared)));
            shared.bottom_half.set(Some(spawn_net_bh(machine, &shared)));
        }
        for index in 0..shared.ports.len() {
            match shared.ports[index].service {
                Service::Interrupt => spawn_handler(machine, &shared, index),
                Service::Softirq { weight } => {
                    let softirq = spawn_softirq(machine, &shared, index, weight);
                    spawn_poll_handler(machine, &shared, index, softirq);
                }
                Service::Polling { burst } => drop(spawn_poller(machine, &shared, index, burst, false)),
                Service::Paced { burst } => {
                    let thread = spawn_poller(machine, &shared, index, burst, true);
                    spawn_poll_handler(machine, &shared, index, thread);
                }
            }
        }
        Self { shared }
    }

    /// Starts a Click thread that sends by `port` as fast as the device takes frames (`InfiniteSource ->
    /// ToDevice`).
    pub fn send_forever(&self, machine: &Machine, port: usize, mut producer: impl Producer + 'static) {
        let shared = Rc::clone(&self.shared);
        machine.spawn(Level::Thread, move |machine| {
            loop {
                let began = machine.now_ps();
                machine.spend_on(Function::Task, shared.costs.task_ps);
                let sent = machine.without_interrupts(|| {
                    let device = &shared.ports[port].device;
                    let mut sent = 0;
                    while sent < shared.params.to_device_burst && device.has_tx_space() {
                        machine.spend_on(
                            Function::Element,
                            u64::from(producer.elements()) * shared.costs.element_ps,
                        );
                        if !device.send(&mut |buffer| producer.produce(machine.now_ps(), buffer)) {
                            break;
                        }
                        sent += 1;
                    }
                    device.flush();
                    sent
                });
                if sent == 0 {
                    machine.count_idle_poll(began);
                }
                machine.yield_cpu();
            }
        });
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

    /// Reads the application.
    pub fn with_handler<R>(&self, read: impl FnOnce(&H) -> R) -> R {
        read(&self.shared.handler.borrow())
    }

    /// A device.
    pub fn device(&self, port: usize) -> &N {
        &self.shared.ports[port].device
    }
}

/// The interrupt handler of a driver that does its work there.
fn spawn_handler<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Rc<Shared<N, H>>, index: usize) {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Hardirq, move |machine| {
        let port = &shared.ports[index];
        loop {
            machine.wait_for_interrupt(port.slot);
            machine.enter_interrupt();
            port.device
                .interrupt(&mut |frame| shared.backlog(machine, index, frame).map(IntoBuffer::into_buffer));
            if !shared.backlog.borrow().is_empty() {
                shared.wake(machine, &shared.bottom_half);
            }
            if shared.may_send() {
                shared.wake(machine, &shared.thread);
            }
            machine.leave_interrupt();
        }
    });
}

/// `net_bh`.
fn spawn_net_bh<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Rc<Shared<N, H>>) -> ContextId {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Softirq, move |machine| {
        loop {
            machine.wait();
            machine.spend_on(Function::Softirq, shared.costs.bottom_half_ps);
            loop {
                let Some((port, frame)) = shared.backlog.borrow_mut().pop_front() else { break };
                let of = &shared.ports[port];
                of.count(|t| (t.in_backlog, t.in_hand) = (t.in_backlog - 1, t.in_hand + 1));
                machine.spend_on(Function::Receive, shared.costs.net_bh_ps);
                of.count(|t| t.in_hand -= 1);
                let dropped = shared.enqueue(port, frame);
                if let Some(frame) = dropped {
                    shared.free(machine, port, frame.into_buffer());
                }
                shared.wake(machine, &shared.thread);
            }
        }
    })
}

/// The Click thread: `FromDevice -> … -> Queue -> ToDevice`.
fn spawn_click<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Rc<Shared<N, H>>) -> ContextId {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Thread, move |machine| {
        let pending = || shared.ports.iter().any(|port| !port.queue.borrow().is_empty()) || shared.may_send();
        loop {
            while !pending() {
                machine.wait();
            }
            // A kernel thread keeps the CPU until there is nothing to do or its time slice is over.
            let slice_ends = machine.now_ps() + shared.params.thread_slice_ps;
            while machine.now_ps() < slice_ends && pending() {
                for index in 0..shared.ports.len() {
                    from_device(machine, &shared, index);
                }
                if shared.may_send() {
                    machine.without_interrupts(|| shared.to_devices(machine));
                }
            }
            machine.yield_cpu();
        }
    })
}

/// One turn of a `FromDevice` task.
fn from_device<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Shared<N, H>, index: usize) {
    let port = &shared.ports[index];
    if port.queue.borrow().is_empty() {
        return;
    }
    machine.spend_on(Function::Task, shared.costs.task_ps);
    for _ in 0..shared.params.from_device_burst {
        let Some(frame) = port.queue.borrow_mut().pop_front() else { break };
        port.count(|t| t.in_queue -= 1);
        if let Some(buffer) = shared.consume(machine, index, frame) {
            shared.free(machine, index, buffer);
        }
    }
}

/// The interrupt handler of a driver that only wants to be polled.
fn spawn_poll_handler<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, H>>,
    index: usize,
    poller: ContextId,
) {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Hardirq, move |machine| {
        let port = &shared.ports[index];
        loop {
            machine.wait_for_interrupt(port.slot);
            machine.enter_interrupt();
            let mut up = |frame: N::Frame| Some(frame.into_buffer());
            if port.device.interrupt(&mut up) == Raised::Poll {
                machine.wake(poller);
            }
            machine.leave_interrupt();
        }
    });
}

/// The receive softirq, polling one device.
fn spawn_softirq<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, H>>,
    index: usize,
    weight: usize,
) -> ContextId {
    // Held while the softirq has left its work to a thread.
    let deferred = Rc::new(Cell::new(false));
    let softirq = {
        let (shared, deferred) = (Rc::clone(shared), Rc::clone(&deferred));
        move |machine: &Machine, deputy: ContextId| loop {
            machine.wait();
            if deferred.get() {
                continue;
            }
            machine.spend_on(Function::Softirq, shared.costs.bottom_half_ps);
            let done = (0..=shared.params.softirq_restarts)
                .any(|_| poll_with_budget(machine, &shared, index, weight) == Progress::Done);
            if !done {
                deferred.set(true);
                machine.wake(deputy);
            }
        }
    };
    let deputy = {
        let shared = Rc::clone(shared);
        machine.spawn(Level::Thread, move |machine| {
            loop {
                machine.wait();
                while deferred.get() {
                    let slice_ends = machine.now_ps() + shared.params.thread_slice_ps;
                    while machine.now_ps() < slice_ends {
                        if poll_with_budget(machine, &shared, index, weight) == Progress::Done {
                            deferred.set(false);
                            break;
                        }
                    }
                    machine.yield_cpu();
                }
            }
        })
    };
    machine.spawn(Level::Softirq, move |machine| softirq(machine, deputy))
}

#[derive(PartialEq, Eq)]
enum Progress {
    Done,
    More,
}

/// One run of the receive softirq: polls of `weight` frames until the device is done or the budget is used.
fn poll_with_budget<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Shared<N, H>,
    index: usize,
    weight: usize,
) -> Progress {
    let port = &shared.ports[index];
    let mut budget = shared.params.softirq_budget;
    while budget > 0 {
        machine.spend_on(Function::Softirq, shared.costs.task_ps);
        // The card's own interrupt is masked while it is polled. With the CPU's off too, an interrupt that
        // the unmask at the end raises waits until the poll has returned: nothing else changes.
        let Polled { frames, completed, next } = machine.without_interrupts(|| {
            port.device.poll(weight.min(budget), &mut |frame| {
                port.count(|t| (t.from_driver, t.in_hand) = (t.from_driver + 1, t.in_hand + 1));
                machine.spend_on(Function::Receive, shared.costs.net_bh_ps);
                port.count(|t| t.in_hand -= 1);
                shared.enqueue(index, frame).map(IntoBuffer::into_buffer)
            })
        });
        if frames > 0 || completed > 0 && shared.may_send() {
            shared.wake(machine, &shared.thread);
        }
        if next == NextPoll::Interrupt {
            return Progress::Done;
        }
        budget = budget.saturating_sub(frames.max(1));
    }
    Progress::More
}

/// The Click thread of a polling driver: `PollDevice -> …`, a frame at a time through everything.
fn spawn_poller<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, H>>,
    index: usize,
    burst: usize,
    sleeps: bool,
) -> ContextId {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Thread, move |machine| {
        if sleeps {
            machine.wait();
        }
        let port = &shared.ports[index];
        loop {
            let began = machine.now_ps();
            machine.spend_on(Function::Task, shared.costs.task_ps);
            let polled = machine.without_interrupts(|| {
                let polled = port.device.poll(burst, &mut |frame| {
                    port.count(|t| t.from_driver += 1);
                    shared.consume(machine, index, frame)
                });
                shared.to_devices(machine);
                polled
            });
            match polled.next {
                NextPoll::Interrupt => machine.wait(),
                NextPoll::At(until_ps) => {
                    machine.sleep_until(until_ps);
                }
                NextPoll::Yield(until_ps) => {
                    machine.yield_until(until_ps);
                }
                NextPoll::Now if polled.frames == 0 && polled.completed == 0 => {
                    machine.count_idle_poll(began)
                }
                NextPoll::Now => {}
            }
            machine.yield_cpu();
        }
    })
}
