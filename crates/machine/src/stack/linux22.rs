//! Linux 2.2.16 with the Click modular router in the kernel.
//!
//! An interrupt handler hands frames to `netif_rx`, which puts them on the *backlog*, or drops them if that
//! is full. The bottom half `net_bh`, which runs when no interrupt handler is active, takes them to Click's
//! `FromDevice`, which queues them again for the Click thread. A polling driver is called by the Click thread
//! itself, and a frame runs through the whole configuration before the next is taken.
//!
//! NAPI came later than 2.2. Here its poll runs where `net_bh` would, with the budget and the fallback to a
//! thread of the kernels that had it.

use super::netdev::{IntoBuffer, Netdev, NextPoll, Polled, Producer, Raised, Service};
use crate::cpu::{ContextId, Function, Level, Machine};
use crate::limits::{QUEUE, STEP_PS, check};
use serde::Deserialize;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The constants of the stack: queue limits, and costs in picoseconds of this host's CPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Frames on the backlog before `netif_rx` drops.
    pub backlog: usize,
    /// Frames in Click's `FromDevice` queue before it drops.
    pub from_device_queue: usize,
    /// Frames a `FromDevice` task takes in one turn.
    pub from_device_burst: usize,
    /// Frames a `ToDevice` task sends in one turn.
    pub to_device_burst: usize,
    /// Frames one softirq run may receive before it starts over.
    pub softirq_budget: usize,
    /// How often a softirq starts over before it leaves the rest to a thread.
    pub softirq_restarts: usize,
    /// How long that thread runs before others of its level, in picoseconds.
    pub thread_slice_ps: u64,
    /// `netif_rx`: one frame onto the backlog.
    pub netif_rx_ps: u64,
    /// Dispatching the bottom half once.
    pub bottom_half_ps: u64,
    /// `net_bh`: one frame from the backlog to Click.
    pub net_bh_ps: u64,
    /// Scheduling one Click task, or one poll.
    pub task_ps: u64,
    /// One Click element, for one frame.
    pub element_ps: u64,
}

impl Params {
    /// Whether a stack can be like this; the error names what is out of range.
    pub fn check(&self) -> Result<(), String> {
        check(&[
            ("backlog", self.backlog, QUEUE),
            ("from_device_queue", self.from_device_queue, QUEUE),
            ("from_device_burst", self.from_device_burst, QUEUE),
            ("to_device_burst", self.to_device_burst, QUEUE),
            ("softirq_budget", self.softirq_budget, QUEUE),
            ("softirq_restarts", self.softirq_restarts, 0..=1000),
        ])?;
        check(&[
            ("thread_slice_ps", self.thread_slice_ps, crate::US..=crate::S),
            ("netif_rx_ps", self.netif_rx_ps, STEP_PS),
            ("bottom_half_ps", self.bottom_half_ps, STEP_PS),
            ("net_bh_ps", self.net_bh_ps, STEP_PS),
            // A poll that costs nothing would be made for ever in the same instant.
            ("task_ps", self.task_ps, crate::NS..=crate::MS),
            ("element_ps", self.element_ps, STEP_PS),
        ])
    }
}

/// Where frames are on their way up, and where they were lost.
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
}

/// The application at the end of the path: consumes a frame and gives its buffer back.
pub trait Consumer<N: Netdev>: 'static {
    /// How many Click elements a frame passes.
    fn elements(&self) -> u32;
    /// Consumes `frame` at `now_ps`, and gives back its buffer unless it keeps that.
    fn consume(&mut self, now_ps: u64, frame: N::Frame) -> Option<N::Buffer>;
}

struct Shared<N: Netdev, C> {
    device: N,
    consumer: RefCell<C>,
    backlog: RefCell<VecDeque<N::Frame>>,
    queue: RefCell<VecDeque<N::Frame>>,
    tally: Cell<Tally>,
    params: Params,
    slot: usize,
}

impl<N: Netdev, C: Consumer<N>> Shared<N, C> {
    fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// `netif_rx`.
    fn backlog(&self, machine: &Machine, frame: N::Frame) -> Option<N::Frame> {
        machine.spend_on(Function::NetifRx, self.params.netif_rx_ps);
        let mut backlog = self.backlog.borrow_mut();
        if backlog.len() >= self.params.backlog {
            self.count(|t| (t.from_driver, t.dropped_backlog) = (t.from_driver + 1, t.dropped_backlog + 1));
            return Some(frame);
        }
        backlog.push_back(frame);
        self.count(|t| (t.from_driver, t.in_backlog) = (t.from_driver + 1, t.in_backlog + 1));
        None
    }

    /// `FromDevice`: into the queue of the Click thread.
    fn enqueue(&self, frame: N::Frame) -> Option<N::Frame> {
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= self.params.from_device_queue {
            self.count(|t| t.dropped_queue += 1);
            return Some(frame);
        }
        queue.push_back(frame);
        self.count(|t| t.in_queue += 1);
        None
    }

    /// A frame runs through the Click configuration.
    fn consume(&self, machine: &Machine, frame: N::Frame) -> Option<N::Buffer> {
        self.count(|t| t.in_hand += 1);
        let mut consumer = self.consumer.borrow_mut();
        machine.spend_on(Function::Element, u64::from(consumer.elements()) * self.params.element_ps);
        let buffer = consumer.consume(machine.now_ps(), frame);
        self.count(|t| (t.in_hand, t.consumed) = (t.in_hand - 1, t.consumed + 1));
        buffer
    }

    /// A buffer goes back to the allocator that the driver shares: not while a handler is in it.
    fn free(&self, machine: &Machine, buffer: N::Buffer) {
        machine.without_interrupts(|| self.device.free(buffer));
    }
}

/// A running stack: a handle.
pub struct Stack<N: Netdev, C> {
    shared: Rc<Shared<N, C>>,
}

impl<N: Netdev, C: Consumer<N>> Stack<N, C> {
    /// Starts the stack for the card in `slot`: its interrupt handler, its bottom half, its Click thread.
    pub fn start(
        machine: &Machine,
        slot: usize,
        params: Params,
        service: Service,
        device: N,
        consumer: C,
    ) -> Self {
        let shared = Rc::new(Shared {
            device,
            consumer: RefCell::new(consumer),
            backlog: RefCell::new(VecDeque::with_capacity(params.backlog)),
            queue: RefCell::new(VecDeque::with_capacity(params.from_device_queue)),
            tally: Cell::default(),
            params,
            slot,
        });
        match service {
            Service::Interrupt => {
                let thread = spawn_from_device(machine, &shared);
                let bottom_half = spawn_net_bh(machine, &shared, thread);
                spawn_handler(machine, &shared, bottom_half);
            }
            Service::Softirq { weight } => {
                let thread = spawn_from_device(machine, &shared);
                let softirq = spawn_softirq(machine, &shared, weight, thread);
                spawn_poll_handler(machine, &shared, softirq);
            }
            Service::Polling { burst } => {
                spawn_poller(machine, &shared, burst, false);
            }
            Service::Paced { burst } => {
                let thread = spawn_poller(machine, &shared, burst, true);
                spawn_poll_handler(machine, &shared, thread);
            }
        }
        Self { shared }
    }

    /// Starts a Click thread that sends as fast as the device takes frames (`InfiniteSource -> ToDevice`).
    pub fn send_forever(&self, machine: &Machine, mut producer: impl Producer + 'static) {
        let shared = Rc::clone(&self.shared);
        machine.spawn(Level::Thread, move |machine| {
            loop {
                let began = machine.now_ps();
                machine.spend_on(Function::Task, shared.params.task_ps);
                let sent = machine.without_interrupts(|| {
                    let device = &shared.device;
                    let mut sent = 0;
                    while sent < shared.params.to_device_burst && device.has_tx_space() {
                        machine.spend_on(
                            Function::Element,
                            u64::from(producer.elements()) * shared.params.element_ps,
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

    /// What has become of the frames.
    pub fn tally(&self) -> Tally {
        self.shared.tally.get()
    }

    /// Reads the application.
    pub fn with_consumer<R>(&self, read: impl FnOnce(&C) -> R) -> R {
        read(&self.shared.consumer.borrow())
    }

    /// The device.
    pub fn device(&self) -> &N {
        &self.shared.device
    }
}

/// The interrupt handler of a driver that does its work there.
fn spawn_handler<N: Netdev, C: Consumer<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, C>>,
    bottom_half: ContextId,
) {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Hardirq, move |machine| {
        loop {
            machine.wait_for_interrupt(shared.slot);
            machine.spend_on(Function::InterruptEntry, machine.host().interrupt_entry_ps);
            shared.device.interrupt(&mut |frame| shared.backlog(machine, frame).map(IntoBuffer::into_buffer));
            if shared.tally.get().in_backlog > 0 {
                machine.wake(bottom_half);
            }
            machine.spend_on(Function::InterruptExit, machine.host().interrupt_exit_ps);
        }
    });
}

/// `net_bh`.
fn spawn_net_bh<N: Netdev, C: Consumer<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, C>>,
    thread: ContextId,
) -> ContextId {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Softirq, move |machine| {
        loop {
            machine.wait();
            machine.spend_on(Function::Softirq, shared.params.bottom_half_ps);
            loop {
                let Some(frame) = shared.backlog.borrow_mut().pop_front() else { break };
                shared.count(|t| (t.in_backlog, t.in_hand) = (t.in_backlog - 1, t.in_hand + 1));
                machine.spend_on(Function::Receive, shared.params.net_bh_ps);
                shared.count(|t| t.in_hand -= 1);
                let dropped = shared.enqueue(frame);
                if let Some(frame) = dropped {
                    shared.free(machine, frame.into_buffer());
                }
                machine.wake(thread);
            }
        }
    })
}

/// The Click thread: `FromDevice -> …`.
fn spawn_from_device<N: Netdev, C: Consumer<N>>(machine: &Machine, shared: &Rc<Shared<N, C>>) -> ContextId {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Thread, move |machine| {
        loop {
            while shared.queue.borrow().is_empty() {
                machine.wait();
            }
            // A kernel thread keeps the CPU until there is nothing to do or its time slice is over.
            let slice_ends = machine.now_ps() + shared.params.thread_slice_ps;
            while machine.now_ps() < slice_ends && !shared.queue.borrow().is_empty() {
                from_device(machine, &shared);
            }
            machine.yield_cpu();
        }
    })
}

/// One turn of the `FromDevice` task.
fn from_device<N: Netdev, C: Consumer<N>>(machine: &Machine, shared: &Shared<N, C>) {
    machine.spend_on(Function::Task, shared.params.task_ps);
    for _ in 0..shared.params.from_device_burst {
        let Some(frame) = shared.queue.borrow_mut().pop_front() else { break };
        shared.count(|t| t.in_queue -= 1);
        if let Some(buffer) = shared.consume(machine, frame) {
            shared.free(machine, buffer);
        }
    }
}

/// The interrupt handler of a driver that only wants to be polled.
fn spawn_poll_handler<N: Netdev, C: Consumer<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, C>>,
    poller: ContextId,
) {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Hardirq, move |machine| {
        loop {
            machine.wait_for_interrupt(shared.slot);
            machine.spend_on(Function::InterruptEntry, machine.host().interrupt_entry_ps);
            let mut up = |frame: N::Frame| Some(frame.into_buffer());
            if shared.device.interrupt(&mut up) == Raised::Poll {
                machine.wake(poller);
            }
            machine.spend_on(Function::InterruptExit, machine.host().interrupt_exit_ps);
        }
    });
}

/// The receive softirq, polling one device.
fn spawn_softirq<N: Netdev, C: Consumer<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, C>>,
    weight: usize,
    thread: ContextId,
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
            machine.spend_on(Function::Softirq, shared.params.bottom_half_ps);
            let done = (0..=shared.params.softirq_restarts)
                .any(|_| poll_with_budget(machine, &shared, weight, thread) == Progress::Done);
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
                        if poll_with_budget(machine, &shared, weight, thread) == Progress::Done {
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
fn poll_with_budget<N: Netdev, C: Consumer<N>>(
    machine: &Machine,
    shared: &Shared<N, C>,
    weight: usize,
    thread: ContextId,
) -> Progress {
    let mut budget = shared.params.softirq_budget;
    while budget > 0 {
        machine.spend_on(Function::Softirq, shared.params.task_ps);
        // The card's own interrupt is masked while it is polled. With the CPU's off too, an interrupt that
        // the unmask at the end raises waits until the poll has returned: nothing else changes.
        let Polled { frames, next, .. } = machine.without_interrupts(|| {
            shared.device.poll(weight.min(budget), &mut |frame| {
                shared.count(|t| (t.from_driver, t.in_hand) = (t.from_driver + 1, t.in_hand + 1));
                machine.spend_on(Function::Receive, shared.params.net_bh_ps);
                shared.count(|t| t.in_hand -= 1);
                shared.enqueue(frame).map(IntoBuffer::into_buffer)
            })
        });
        if frames > 0 {
            machine.wake(thread);
        }
        if next == NextPoll::Interrupt {
            return Progress::Done;
        }
        budget = budget.saturating_sub(frames.max(1));
    }
    Progress::More
}

/// The Click thread of a polling driver: `PollDevice -> …`, a frame at a time through everything.
fn spawn_poller<N: Netdev, C: Consumer<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, C>>,
    burst: usize,
    sleeps: bool,
) -> ContextId {
    let shared = Rc::clone(shared);
    machine.spawn(Level::Thread, move |machine| {
        if sleeps {
            machine.wait();
        }
        loop {
            let began = machine.now_ps();
            machine.spend_on(Function::Task, shared.params.task_ps);
            let polled = machine.without_interrupts(|| {
                shared.device.poll(burst, &mut |frame| {
                    shared.count(|t| t.from_driver += 1);
                    shared.consume(machine, frame)
                })
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
