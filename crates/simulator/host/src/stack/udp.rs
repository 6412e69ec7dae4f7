//! A socket and the process that reads it: of UDP, as netreceive and ttcp have, or a packet socket, which
//! gets whole frames.
//!
//! The protocol puts frames into the socket's buffer, and drops them while it is full. The process takes
//! one with each system call, and sleeps in it while there is none.

use super::handler::{Handler, Interface, Work};
use super::netdev::{IntoBuffer, Netdev};
use crate::cpu::{ContextId, Function, Level, Line, Machine};
use crate::host::Steps;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Ethernet, IPv4 and UDP headers, which no process gets to see.
pub const HEADER_BYTES: usize = 42;

/// The capacity of a socket, and the work for a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Datagrams that fit its buffer.
    pub capacity: usize,
    /// Bytes before a frame's data, which are not copied to the process.
    pub header_bytes: usize,
    /// The protocol, as far as the stack has not charged it before, until it is known whether there is space.
    pub check: Steps,
    /// The rest of it, for a frame that there is space for.
    pub queue: Steps,
    /// Waking the process.
    pub wake: Steps,
    /// Switching to it.
    pub switch: Steps,
    /// The system call that takes a datagram, beside copying it.
    pub call: Steps,
    /// The program's own work on a datagram.
    pub program: Steps,
    /// Cache lines of the socket that protocol and process both change.
    pub lines: u32,
}

/// Where a socket's datagrams are: `arrived = dropped + held + read`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams that came to the socket.
    pub arrived: u64,
    /// Dropped: its buffer was full.
    pub dropped: u64,
    /// In the buffer, or in the process's hands.
    pub held: u64,
    /// The process has them.
    pub read: u64,
}

impl Tally {
    /// Whether every datagram is somewhere.
    pub fn closes(&self) -> bool {
        self.arrived == self.dropped + self.held + self.read
    }
}

struct Shared<F> {
    costs: Costs,
    buffer: RefCell<VecDeque<F>>,
    tally: Cell<Tally>,
    /// The process, while it sleeps.
    asleep: Cell<Option<ContextId>>,
    line: Line,
}

/// A socket. A handle.
pub struct Socket<F>(Rc<Shared<F>>);

impl<F> Clone for Socket<F> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<F> Shared<F> {
    fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }
}

impl<F: AsRef<[u8]> + 'static> Socket<F> {
    /// A socket without a reading process.
    pub fn new(costs: Costs) -> Self {
        Self(Rc::new(Shared {
            buffer: RefCell::new(VecDeque::with_capacity(costs.capacity)),
            costs,
            tally: Cell::default(),
            asleep: Cell::new(None),
            line: Line::new(),
        }))
    }

    /// Datagrams that fit its buffer.
    pub fn capacity(&self) -> usize {
        self.0.costs.capacity
    }

    /// The fate of its datagrams.
    pub fn tally(&self) -> Tally {
        self.0.tally.get()
    }

    /// Starts the process that reads it, on `cpu`; `free` takes frames that have been read.
    pub fn read_from_process(&self, machine: &Machine, cpu: usize, free: impl Fn(&Machine, F) + 'static) {
        let (shared, me) = (Rc::clone(&self.0), Rc::new(Cell::new(None)));
        let id = Rc::clone(&me);
        let process = machine.spawn_on(cpu, Level::Thread, move |machine| {
            let costs = shared.costs;
            loop {
                machine.spend_steps(Function::SystemCall, costs.call);
                machine.own(&shared.line, costs.lines);
                let frame = loop {
                    if let Some(frame) = shared.buffer.borrow_mut().pop_front() {
                        break frame;
                    }
                    shared.asleep.set(id.get());
                    machine.wait();
                    machine.spend_steps(Function::Schedule, costs.switch);
                };
                let bytes = frame.as_ref().len().saturating_sub(costs.header_bytes) as u64;
                machine.spend_on(Function::Copy, bytes * machine.host().copy_byte_ps);
                free(machine, frame);
                shared.count(|t| (t.held, t.read) = (t.held - 1, t.read + 1));
                machine.spend_steps(Function::Element, costs.program);
                machine.yield_cpu();
            }
        });
        me.set(Some(process));
    }
}

impl<N: Netdev> Handler<N> for Socket<N::Frame> {
    fn work(&self) -> Work {
        Work::Protocol
    }

    fn receive(&self, machine: &Machine, _: &Interface<N>, frame: N::Frame) -> Option<N::Buffer> {
        let shared = &self.0;
        machine.spend_steps(Function::Receive, shared.costs.check);
        machine.own(&shared.line, shared.costs.lines);
        if shared.buffer.borrow().len() >= shared.costs.capacity {
            shared.count(|t| (t.arrived, t.dropped) = (t.arrived + 1, t.dropped + 1));
            return Some(frame.into_buffer());
        }
        machine.spend_steps(Function::Receive, shared.costs.queue);
        shared.buffer.borrow_mut().push_back(frame);
        shared.count(|t| (t.arrived, t.held) = (t.arrived + 1, t.held + 1));
        if let Some(process) = shared.asleep.take() {
            machine.spend_steps(Function::Schedule, shared.costs.wake);
            machine.wake(process);
        }
        None
    }

    fn handle(
        &mut self,
        _: u64,
        _: usize,
        frame: N::Frame,
        _: &mut Vec<(usize, N::Frame)>,
    ) -> Option<N::Buffer> {
        Some(frame.into_buffer())
    }
}
