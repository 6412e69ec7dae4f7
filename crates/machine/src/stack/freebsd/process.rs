//! Processes that send: what ttcp and netblast do.

use super::{Handler, IntoBuffer, Netdev, Shared, Stack, spend};
use crate::cpu::{Function, Level, Machine};
use crate::stack::Producer;
use std::cell::Cell;
use std::rc::Rc;

/// What a program does when the transmit queue is full (`ENOBUFS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// It sleeps so many microseconds, as the old ttcp. The kernel rounds that up to ticks, and adds one for the tick that
    /// has begun; `select` could not tell it when there is room.
    Sleep(u64),
    /// It tries again at once, as the new ttcp and netblast.
    Retry,
    /// It sleeps until the queue is half empty and it is told so. No FreeBSD of the time could.
    Wait,
}

/// What came of a program's system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Datagrams taken.
    pub sent: u64,
    /// Refused with `ENOBUFS`.
    pub refused: u64,
}

/// A process that sends. A handle to look at.
#[derive(Clone, Debug)]
pub struct Sender {
    calls: Rc<Cell<Calls>>,
    stopped: Rc<Cell<bool>>,
}

impl Sender {
    /// What came of its system calls so far.
    pub fn calls(&self) -> Calls {
        self.calls.get()
    }

    /// Makes its next system call its last.
    pub fn stop(&self) {
        self.stopped.set(true);
    }
}

impl<N: Netdev, H: Handler<N>> Stack<N, H> {
    /// Starts a process that sends one datagram of `bytes` with each system call, as fast as it can.
    pub fn send_from_process(
        &self,
        machine: &Machine,
        on_full: OnFull,
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
            while !stop.get() {
                let elements = u64::from(producer.elements());
                spend(machine, Function::Element, elements * shared.params.element_cycles);
                let mut calls = counted.get();
                if shared.send(machine, bytes, &mut producer) {
                    calls.sent += 1;
                    counted.set(calls);
                    machine.give_way();
                    continue;
                }
                calls.refused += 1;
                counted.set(calls);
                match on_full {
                    OnFull::Retry => machine.give_way(),
                    OnFull::Sleep(us) => {
                        let tick_ps = shared.params.tick_ps();
                        let ticks = (us * crate::US).div_ceil(tick_ps) + 1;
                        machine.wait_until((machine.now_ps() / tick_ps + ticks) * tick_ps);
                        spend(machine, Function::Task, shared.params.switch_cycles);
                    }
                    OnFull::Wait => {
                        shared.waiting.set(id.get());
                        machine.wait();
                        spend(machine, Function::Task, shared.params.switch_cycles);
                    }
                }
            }
        });
        me.set(Some(process));
        Sender { calls, stopped }
    }
}

impl<N: Netdev, H: Handler<N>> Shared<N, H> {
    /// The system call: `false` is `ENOBUFS`.
    fn send(&self, machine: &Machine, bytes: usize, producer: &mut impl Producer) -> bool {
        spend(machine, Function::SystemCall, self.params.system_call_cycles);
        let made = machine.without_interrupts(|| {
            self.device.make(&mut |buffer| producer.produce(machine.now_ps(), buffer))
        });
        let Some(frame) = made else { return false };
        machine.spend_on(Function::SystemCall, bytes as u64 * machine.host().copy_byte_ps);
        spend(machine, Function::Enqueue, self.params.output_cycles);
        machine.without_interrupts(|| match self.output(machine, frame) {
            Ok(()) => true,
            Err(frame) => {
                self.device.free(frame.into_buffer());
                false
            }
        })
    }
}
