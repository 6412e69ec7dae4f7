//! Processes that send: what ttcp, netblast and netsend do.

use super::{CLOCK_CYCLES, Handler, IntoBuffer, Netdev, Shared, Stack};
use crate::cpu::{Function, Level, Machine};
use crate::stack::Producer;
use std::cell::Cell;
use std::rc::Rc;

/// A program's reaction to a full transmit queue (`ENOBUFS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// It sleeps for this number of microseconds, as the old ttcp. The kernel rounds that up to ticks, and
    /// adds one for the tick that has begun.
    Sleep(u64),
    /// It tries again at once, as the new ttcp and netblast.
    Retry,
    /// It calls `select` first, which checks the socket's own buffer. A datagram never stays there, so
    /// `select` returns at once, and a turn takes two system calls instead of one.
    Select,
    /// It sleeps until it is woken when the queue is half empty. No FreeBSD of the time could do this.
    Wait,
}

/// A program that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its reaction to a refused datagram.
    pub on_full: OnFull,
    /// From one datagram to the next, in picoseconds. It reads the clock in a loop until then, as netsend: a
    /// datagram that was refused is lost, and the next is sent at its own time. `None`: as fast as it can.
    pub every_ps: Option<u64>,
}

impl Program {
    /// The old ttcp: it sleeps for `sleep_us` microseconds when the queue is full.
    pub const fn ttcp_old(sleep_us: u64) -> Self {
        Self { on_full: OnFull::Sleep(sleep_us), every_ps: None }
    }

    /// ttcp as Evans changed it: it tries again at once.
    pub const TTCP_NEW: Self = Self { on_full: OnFull::Retry, every_ps: None };

    /// netblast of netrate: it sends the next datagram, whether or not the last one was refused.
    pub const NETBLAST: Self = Self { on_full: OnFull::Retry, every_ps: None };

    /// netsend of netrate: `pps` datagrams a second, by the clock.
    pub fn netsend(pps: f64) -> Self {
        Self { on_full: OnFull::Retry, every_ps: Some((crate::S as f64 / pps.max(1e-3)) as u64) }
    }

    /// A program that believes `select`.
    pub const SELECTING: Self = Self { on_full: OnFull::Select, every_ps: None };

    /// A program that waits until it is woken for space in the queue. No FreeBSD of the time could do this.
    pub const WAITING: Self = Self { on_full: OnFull::Wait, every_ps: None };
}

/// The results of a program's system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Datagrams taken.
    pub sent: u64,
    /// Refused with `ENOBUFS`.
    pub refused: u64,
}

/// A process that sends: a handle.
#[derive(Clone, Debug)]
pub struct Sender {
    calls: Rc<Cell<Calls>>,
    stopped: Rc<Cell<bool>>,
}

impl Sender {
    /// The results of its system calls so far.
    pub fn calls(&self) -> Calls {
        self.calls.get()
    }

    /// Makes its next system call its last.
    pub fn stop(&self) {
        self.stopped.set(true);
    }
}

impl<N: Netdev, H: Handler<N>> Stack<N, H> {
    /// Starts a process that sends one datagram of `bytes` by port 0 with each system call.
    pub fn send_from_process(
        &self,
        machine: &Machine,
        program: Program,
        bytes: usize,
        mut producer: impl Producer + 'static,
    ) -> Sender {
        let calls = Rc::new(Cell::new(Calls::default()));
        let (shared, counted) = (Rc::clone(&self.shared), Rc::clone(&calls));
        let stopped = Rc::new(Cell::new(false));
        let stop = Rc::clone(&stopped);
        let me = Rc::new(Cell::new(None));
        let id = Rc::clone(&me);
        let process = machine.spawn(Level::Thread, move |machine| {
            let mut due_ps = machine.now_ps();
            while !stop.get() {
                if let Some(every_ps) = program.every_ps {
                    due_ps += every_ps;
                    // The clock is the kernel's: each reading is a system call.
                    while machine.now_ps() < due_ps && !stop.get() {
                        machine.spend_steps(Function::SystemCall, shared.params.system_call_cycles);
                        machine.yield_cpu();
                    }
                }
                let elements = u64::from(producer.elements());
                machine.spend_steps(Function::Element, elements * shared.params.element_cycles);
                let mut calls = counted.get();
                if shared.send(machine, bytes, &mut producer) {
                    calls.sent += 1;
                    counted.set(calls);
                    machine.yield_cpu();
                    continue;
                }
                calls.refused += 1;
                counted.set(calls);
                match program.on_full {
                    OnFull::Retry => machine.yield_cpu(),
                    OnFull::Select => {
                        machine.spend_steps(Function::SystemCall, shared.params.system_call_cycles);
                        machine.yield_cpu();
                    }
                    OnFull::Sleep(us) => {
                        let tick_ps = shared.params.tick_ps();
                        let ticks = (us * crate::US).div_ceil(tick_ps) + 1;
                        machine.wait_until((machine.now_ps() / tick_ps + ticks) * tick_ps);
                        machine.spend_steps(Function::Task, shared.params.switch_cycles);
                    }
                    OnFull::Wait => {
                        shared.ports[0].waiting.set(id.get());
                        machine.wait();
                        machine.spend_steps(Function::Task, shared.params.switch_cycles);
                    }
                }
            }
        });
        me.set(Some(process));
        Sender { calls, stopped }
    }
}

impl<N: Netdev, H: Handler<N>> Shared<N, H> {
    /// The system call: `false` is `ENOBUFS`. A fragment takes all steps of a whole datagram from its socket
    /// to the transmit queue, which is more than it takes a kernel.
    fn send(&self, machine: &Machine, bytes: usize, producer: &mut impl Producer) -> bool {
        let clock_cycles = if self.soft_timers { CLOCK_CYCLES } else { 0 };
        machine.spend_steps(Function::SystemCall, self.params.system_call_cycles + clock_cycles);
        let device = &self.ports[0].device;
        let frames = producer.frames();
        let mut make = || {
            machine
                .without_interrupts(|| device.make(&mut |buffer| producer.produce(machine.now_ps(), buffer)))
        };
        let Some(first) = make() else { return false };
        let rest: Vec<_> = (1..frames).map_while(|_| make()).collect();
        for _ in rest.len() + 1..frames {
            // There was no buffer: the next packet begins with its first frame.
            producer.produce(machine.now_ps(), &mut []);
        }
        machine.spend_on(Function::SystemCall, bytes as u64 * machine.host().copy_byte_ps);
        machine.spend_steps(Function::Enqueue, frames as u64 * self.params.output_cycles);
        machine.without_interrupts(|| {
            // `ip_output`: it refuses a datagram if the queue has no space for all fragments.
            let queued = self.ports[0].transmit.borrow().len() + rest.len();
            let is_refused = !rest.is_empty() && queued >= self.params.transmit_queue;
            let mut sent = rest.len() + 1 == frames && !is_refused;
            for frame in std::iter::once(first).chain(rest) {
                let back = if sent { self.output(machine, 0, frame).err() } else { Some(frame) };
                if let Some(frame) = back {
                    device.free(frame.into_buffer());
                    sent = false;
                }
            }
            sent
        })
    }
}
