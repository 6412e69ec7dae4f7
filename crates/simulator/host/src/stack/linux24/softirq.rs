//! Interrupt handlers, the network softirqs of each CPU, and their thread.

use super::{Function, Handler, Level, Netdev, NextPoll, Polled, Raised, Service, Shared};
use crate::cpu::{ContextId, Machine};
use crate::stack::IntoBuffer;
use crate::world::Vector;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// An entry in the poll list of the receive softirq.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Poll {
    Device(usize),
    Backlog,
}

/// The networking of one CPU.
pub(super) struct PerCpu<F> {
    /// The poll list.
    list: RefCell<VecDeque<Poll>>,
    backlog: RefCell<VecDeque<(usize, F)>>,
    /// Ports whose transmit queue may go on.
    output: RefCell<VecDeque<usize>>,
    /// A softirq run is under way.
    active: Cell<bool>,
    /// The softirq has left its work to the thread.
    deferred: Cell<bool>,
    softirq: Cell<Option<ContextId>>,
    /// Frames that leave: empty but while one is being handled.
    pub(super) out: RefCell<Vec<(usize, F)>>,
}

impl<F> PerCpu<F> {
    pub(super) fn new(backlog: usize) -> Self {
        Self {
            list: RefCell::default(),
            backlog: RefCell::new(VecDeque::with_capacity(backlog)),
            output: RefCell::default(),
            active: Cell::new(false),
            deferred: Cell::new(false),
            softirq: Cell::new(None),
            out: RefCell::default(),
        }
    }

    fn pending(&self) -> bool {
        !self.list.borrow().is_empty() || !self.output.borrow().is_empty()
    }

    /// Makes sure that pending work will be done.
    fn raise(&self, machine: &Machine) {
        if let (false, Some(softirq)) = (self.active.get() || self.deferred.get(), self.softirq.get()) {
            machine.wake(softirq);
        }
    }
}

/// Starts the softirqs of `cpu` and their thread.
pub(super) fn spawn<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Rc<Shared<N, H>>, cpu: usize) {
    let thread = {
        let shared = Rc::clone(shared);
        machine.spawn_on(cpu, Level::Thread, move |machine| {
            let per_cpu = &shared.cpus[cpu];
            loop {
                machine.wait();
                while per_cpu.deferred.get() {
                    let slice_ends = machine.now_ps() + shared.params.thread_slice_ps;
                    while per_cpu.pending() && machine.now_ps() < slice_ends {
                        run(machine, &shared, cpu);
                    }
                    per_cpu.deferred.set(per_cpu.pending());
                    machine.yield_cpu();
                }
            }
        })
    };
    let softirq = {
        let shared = Rc::clone(shared);
        machine.spawn_on(cpu, Level::Softirq, move |machine| {
            let per_cpu = &shared.cpus[cpu];
            loop {
                machine.wait();
                if per_cpu.deferred.get() {
                    continue;
                }
                machine.spend_steps(Function::Softirq, shared.params.softirq_cycles);
                run(machine, &shared, cpu);
                if per_cpu.pending() {
                    per_cpu.deferred.set(true);
                    machine.wake(thread);
                }
            }
        })
    };
    shared.cpus[cpu].softirq.set(Some(softirq));
}

/// `do_softirq`: transmit queues that may go on, then polls, and again if there is more.
fn run<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Shared<N, H>, cpu: usize) {
    let per_cpu = &shared.cpus[cpu];
    per_cpu.active.set(true);
    for _ in 0..=shared.params.softirq_restarts {
        run_queues(machine, shared, cpu);
        poll_list(machine, shared, cpu);
        // Queues that the polls woke: this run has not had its transmit softirq since.
        run_queues(machine, shared, cpu);
        if !per_cpu.pending() {
            break;
        }
    }
    per_cpu.active.set(false);
}

/// `net_tx_action`.
fn run_queues<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Shared<N, H>, cpu: usize) {
    loop {
        let Some(port) = shared.cpus[cpu].output.borrow_mut().pop_front() else { return };
        machine.spend_steps(Function::Softirq, shared.params.poll());
        shared.ports[port].run_queue(machine, shared.params.transmit());
        shared.ports[port].device.flush();
    }
}

/// `net_rx_action`.
fn poll_list<N: Netdev, H: Handler<N>>(machine: &Machine, shared: &Shared<N, H>, cpu: usize) {
    let (per_cpu, params) = (&shared.cpus[cpu], &shared.params);
    let mut budget = params.softirq_budget;
    let ends_ps = machine.now_ps() + params.softirq_time_ps;
    while budget > 0 && machine.now_ps() < ends_ps {
        let Some(what) = per_cpu.list.borrow_mut().pop_front() else { return };
        machine.spend_steps(Function::Softirq, params.poll());
        let limit = weight(shared, what).min(budget);
        let (frames, done) = match what {
            Poll::Device(port) => poll_device(machine, shared, port, limit),
            Poll::Backlog => poll_backlog(machine, shared, cpu, limit),
        };
        shared.ports.iter().for_each(|port| port.device.flush());
        budget -= frames.min(budget);
        if !done {
            per_cpu.list.borrow_mut().push_back(what);
        }
    }
}

/// Frames that a turn may receive.
fn weight<N: Netdev, H>(shared: &Shared<N, H>, what: Poll) -> usize {
    match what {
        Poll::Device(port) => match shared.ports[port].service {
            Service::Softirq { weight } => weight,
            _ => shared.params.backlog_weight,
        },
        Poll::Backlog => shared.params.backlog_weight,
    }
}

/// Polls a device. Returns the frames received, and whether it is off the list.
fn poll_device<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Shared<N, H>,
    index: usize,
    limit: usize,
) -> (usize, bool) {
    let port = &shared.ports[index];
    let Polled { frames, next, .. } = port.device.poll(limit, &mut |frame| {
        port.count(|t| t.from_driver += 1);
        shared.deliver(machine, index, frame)
    });
    if port.wakes(machine.now_ps()) {
        shared.cpus[machine.cpu()].output.borrow_mut().push_back(index);
    }
    (frames, next == NextPoll::Interrupt)
}

/// `process_backlog`.
fn poll_backlog<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Shared<N, H>,
    cpu: usize,
    limit: usize,
) -> (usize, bool) {
    let mut frames = 0;
    while frames < limit {
        let Some((index, frame)) = shared.cpus[cpu].backlog.borrow_mut().pop_front() else {
            return (frames, true);
        };
        let port = &shared.ports[index];
        port.count(|t| t.in_backlog -= 1);
        if let Some(buffer) = shared.deliver(machine, index, frame) {
            port.device.free(buffer);
        }
        frames += 1;
    }
    (frames, false)
}

/// `netif_rx`, in an interrupt handler.
fn netif_rx<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Shared<N, H>,
    index: usize,
    frame: N::Frame,
) -> Option<N::Frame> {
    machine.spend_steps(Function::NetifRx, shared.params.netif_rx_cycles);
    let per_cpu = &shared.cpus[machine.cpu()];
    let port = &shared.ports[index];
    let mut backlog = per_cpu.backlog.borrow_mut();
    if backlog.len() >= shared.params.backlog {
        port.count(|t| (t.from_driver, t.dropped_backlog) = (t.from_driver + 1, t.dropped_backlog + 1));
        return Some(frame);
    }
    backlog.push_back((index, frame));
    port.count(|t| (t.from_driver, t.in_backlog) = (t.from_driver + 1, t.in_backlog + 1));
    None
}

/// The interrupt handler of the device at port `index`.
pub(super) fn spawn_handler<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, H>>,
    index: usize,
) {
    let shared = Rc::clone(shared);
    let cpu = shared.ports[index].cpu;
    machine.spawn_on(cpu, Level::Hardirq, move |machine| {
        let (port, per_cpu) = (&shared.ports[index], &shared.cpus[cpu]);
        let from = Vector { slot: port.slot, number: port.device.vector() };
        loop {
            machine.wait_for_interrupt(from);
            machine.enter_interrupt();
            let raised = port.device.interrupt(&mut |frame| {
                netif_rx(machine, &shared, index, frame).map(IntoBuffer::into_buffer)
            });
            if port.wakes(machine.now_ps()) {
                per_cpu.output.borrow_mut().push_back(index);
            }
            let schedule = |what| {
                let mut list = per_cpu.list.borrow_mut();
                if !list.contains(&what) {
                    list.push_back(what);
                }
            };
            if raised == Raised::Poll {
                schedule(Poll::Device(index));
            }
            if !per_cpu.backlog.borrow().is_empty() {
                schedule(Poll::Backlog);
            }
            if per_cpu.pending() {
                per_cpu.raise(machine);
            }
            machine.leave_interrupt();
        }
    });
}

/// The interrupt handler of a driver that a thread polls.
pub(super) fn spawn_waking_handler<N: Netdev, H: Handler<N>>(
    machine: &Machine,
    shared: &Rc<Shared<N, H>>,
    index: usize,
    poller: ContextId,
) {
    let shared = Rc::clone(shared);
    machine.spawn_on(shared.ports[index].cpu, Level::Hardirq, move |machine| {
        let port = &shared.ports[index];
        loop {
            machine.wait_for_interrupt(port.slot);
            machine.enter_interrupt();
            if port.device.interrupt(&mut |frame: N::Frame| Some(frame.into_buffer())) == Raised::Poll {
                machine.wake(poller);
            }
            machine.leave_interrupt();
        }
    });
}
