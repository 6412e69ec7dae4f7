//! The receiving end: the kernel's TCP in the receive softirq, and processes that read.

use super::clients::{FIRST_BYTE, FIRST_PORT};
use super::{Checksums, TcpBulk};
use crate::device::e1000::{E1000, Frame};
use kpps_frames::build::{self, Flow};
use kpps_frames::{ethernet, ipv4, tcp};
use kpps_machine::cpu::{ContextId, Function, Level, Line};
use kpps_machine::platform::Buf;
use kpps_machine::stack::linux24::{Params, Stack};
use kpps_machine::stack::tcp::{Ack, Connection, Tally};
use kpps_machine::stack::{Handler, IntoBuffer, Netdev, Work};
use kpps_machine::{MS, Machine};
use kpps_platform::Buffer;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// How long an acknowledgement may wait for another segment (Linux 2.6 TCP_DELACK_MIN).
const LATER_PS: u64 = 40 * MS;
/// How long a process runs before others of its level (Linux 2.6 DEF_TIMESLICE).
const SLICE_PS: u64 = 100 * MS;
/// Bytes that a process reads at a time.
const READ_BYTES: u32 = 65_536;
/// Bytes of the headers before the part of a frame that the segment's checksum covers.
const HEADERS: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;

/// A socket, with what its process does.
struct Socket {
    connection: RefCell<Connection<Buf>>,
    /// When a delayed acknowledgement is sent.
    due_ps: Cell<Option<u64>>,
    /// Its process sleeps.
    asleep: Cell<bool>,
    /// Its lock, queue and state, which softirq and process share.
    line: Line,
}

/// All sockets: a handle.
#[derive(Clone)]
pub(super) struct Endpoints(Rc<Shared>);

struct Shared {
    sockets: Vec<Socket>,
    ready: RefCell<VecDeque<usize>>,
    processes: Cell<Option<ContextId>>,
    flow: Flow,
    params: Params,
    checksums: Checksums,
    /// Until when the chipset's engine is copying, if there is one.
    engine_ps: Option<Cell<u64>>,
    read_bytes: Cell<u64>,
    reads: Cell<u64>,
    unsent_acks: Cell<u64>,
    /// Segments of no connection.
    strangers: Cell<u64>,
}

/// A segment, and the socket that it is for.
struct Segment {
    socket: usize,
    sequence: u32,
    bytes: u32,
}

fn segment(frame: &[u8]) -> Option<Segment> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let packet = ipv4::Packet::new_checked(frame.payload()).ok()?;
    let segment = tcp::Segment::new_checked(packet.payload()).ok()?;
    let socket = segment.source().checked_sub(FIRST_PORT)?.into();
    Some(Segment { socket, sequence: segment.fields().sequence, bytes: segment.payload().len() as u32 })
}

impl Endpoints {
    /// Connections that receive `flow`, whose client ports differ.
    pub fn new(flow: Flow, params: Params, what: &TcpBulk) -> Self {
        let socket = |_| Socket {
            connection: RefCell::new(Connection::new(FIRST_BYTE)),
            due_ps: Cell::new(None),
            asleep: Cell::new(true),
            line: Line::new(),
        };
        Self(Rc::new(Shared {
            sockets: (0..what.connections).map(socket).collect(),
            ready: RefCell::default(),
            processes: Cell::new(None),
            flow,
            params,
            checksums: what.checksums,
            engine_ps: what.dma_copy.then(Cell::default),
            read_bytes: Cell::new(0),
            reads: Cell::new(0),
            unsent_acks: Cell::new(0),
            strangers: Cell::new(0),
        }))
    }

    /// The window that each connection offers at first.
    pub fn offered(&self) -> u32 {
        self.0.sockets.first().map_or(0, |socket| socket.connection.borrow().offered())
    }

    /// Starts the kernel's timers on the first CPU, and the processes on the last.
    pub fn start(&self, machine: &Machine, stack: &Rc<Stack<E1000, Self>>) {
        let (shared, device) = (Rc::clone(&self.0), Rc::clone(stack));
        let processes = machine.spawn_on(machine.cpus() - 1, Level::Thread, move |machine| {
            loop {
                machine.wait();
                let mut slice_ends = machine.now_ps() + SLICE_PS;
                loop {
                    let Some(socket) = shared.ready.borrow_mut().pop_front() else { break };
                    shared.run_process(machine, device.device(0), socket);
                    if machine.now_ps() >= slice_ends {
                        machine.yield_cpu();
                        slice_ends = machine.now_ps() + SLICE_PS;
                    }
                }
            }
        });
        self.0.processes.set(Some(processes));
        let (shared, device) = (Rc::clone(&self.0), Rc::clone(stack));
        machine.spawn(Level::Softirq, move |machine| {
            let tick_ps = shared.params.tick_ps;
            loop {
                machine.wait_until((machine.now_ps() / tick_ps + 1) * tick_ps);
                shared.spend(machine, Function::Timer, shared.params.tick_cycles);
                for socket in 0..shared.sockets.len() {
                    if shared.sockets[socket].due_ps.get().is_some_and(|due| due <= machine.now_ps()) {
                        shared.acknowledge(machine, device.device(0), socket);
                    }
                }
            }
        });
    }

    /// Bytes that processes have read.
    pub fn read_bytes(&self) -> u64 {
        self.0.read_bytes.get()
    }

    /// Calls of `recv`.
    pub fn reads(&self) -> u64 {
        self.0.reads.get()
    }

    /// Segments of no connection.
    pub fn strangers(&self) -> u64 {
        self.0.strangers.get()
    }

    /// Acknowledgements that were not sent because the transmit ring was full.
    pub fn unsent_acks(&self) -> u64 {
        self.0.unsent_acks.get()
    }

    /// Where segments ended.
    pub fn tally(&self) -> Tally {
        let tallies = self.0.sockets.iter().map(|socket| socket.connection.borrow().tally());
        tallies.fold(Tally::default(), |a, b| Tally {
            kept: a.kept + b.kept,
            early: a.early + b.early,
            repeated: a.repeated + b.repeated,
            dropped: a.dropped + b.dropped,
        })
    }
}

impl Handler<E1000> for Endpoints {
    fn work(&self) -> Work {
        Work::Protocol
    }

    fn receive(&self, machine: &Machine, device: &E1000, frame: Frame) -> Option<Buf> {
        self.0.receive(machine, device, frame)
    }

    fn handle(&mut self, _: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        Some(frame.into_buffer())
    }
}

impl Shared {
    fn spend(&self, machine: &Machine, function: Function, cycles: u64) {
        machine.spend_on(function, cycles * machine.host().cycle_ps);
    }

    /// The cost of copying a byte to the process. After the kernel has summed a segment on the same CPU, it
    /// is in the cache.
    fn copy_byte_ps(&self, machine: &Machine) -> u64 {
        let host = machine.host();
        if self.checksums.tcp || machine.cpus() > 1 { host.copy_byte_ps } else { host.copy_cached_byte_ps }
    }

    /// Copies a segment's data to the process: by the CPU, or by the engine meanwhile.
    fn copy(&self, machine: &Machine, bytes: u64) {
        let Some(engine_ps) = &self.engine_ps else {
            return machine.spend_on(Function::Copy, bytes * self.copy_byte_ps(machine));
        };
        let host = machine.host();
        machine.spend_on(Function::Copy, host.dma_copy_ps);
        engine_ps.set(engine_ps.get().max(machine.now_ps()) + bytes * host.dma_copy_byte_ps);
    }

    /// Waits until the engine has copied everything: a call does not return before.
    fn await_engine(&self, machine: &Machine) {
        let until_ps = self.engine_ps.as_ref().map_or(0, Cell::get);
        while machine.now_ps() < until_ps {
            machine.wait_until(until_ps);
        }
    }

    /// One packet, in the softirq.
    fn receive(&self, machine: &Machine, device: &E1000, frame: Frame) -> Option<Buf> {
        let params = &self.params;
        self.spend(machine, Function::Ip, params.ip_cycles);
        if !self.checksums.ip {
            // The driver has read the frame's first line.
            let cached_ps = machine.host().copy_cached_byte_ps;
            machine.spend_on(Function::Copy, ipv4::HEADER_BYTES as u64 * cached_ps);
        }
        let Some(Segment { socket, sequence, bytes }) = segment(frame.as_ref()) else {
            self.strangers.set(self.strangers.get() + 1);
            return Some(frame.into_buffer());
        };
        let Some(this) = self.sockets.get(socket) else {
            self.strangers.set(self.strangers.get() + 1);
            return Some(frame.into_buffer());
        };
        self.spend(machine, Function::Tcp, params.tcp_cycles);
        machine.own(&this.line, params.socket_lines);
        if !self.checksums.tcp {
            let summed = frame.as_ref().len().saturating_sub(HEADERS) as u64;
            machine.spend_on(Function::Copy, summed * machine.host().copy_byte_ps);
        }
        let buffer = frame.into_buffer();
        let memory = buffer.capacity() as u32 + params.buffer_overhead_bytes;
        let (ack, back) = this.connection.borrow_mut().segment(sequence, bytes, memory, buffer);
        if this.connection.borrow().readable() && this.asleep.replace(false) {
            self.spend(machine, Function::Schedule, params.wake_cycles);
            self.ready.borrow_mut().push_back(socket);
            if let Some(processes) = self.processes.get() {
                machine.wake(processes);
            }
        }
        match ack {
            Ack::None => {}
            Ack::Now => self.acknowledge(machine, device, socket),
            Ack::Later => {
                let due_ps = machine.now_ps() + LATER_PS;
                this.due_ps.set(this.due_ps.get().or(Some(due_ps)));
            }
        }
        back
    }

    fn acknowledge(&self, machine: &Machine, device: &E1000, socket: usize) {
        let (params, this) = (&self.params, &self.sockets[socket]);
        machine.own(&this.line, params.socket_lines);
        self.spend(machine, Function::TcpAck, params.tcp_ack_cycles);
        self.spend(machine, Function::Enqueue, params.enqueue_cycles);
        self.spend(machine, Function::Transmit, params.transmit_cycles);
        this.due_ps.set(None);
        let (acknowledgement, window) = this.connection.borrow_mut().acknowledge();
        let to = (self.flow.from.0, FIRST_PORT + socket as u16);
        let flow = Flow {
            from_mac: self.flow.to_mac,
            to_mac: self.flow.from_mac,
            from: self.flow.to,
            to,
            ..self.flow
        };
        let fields = tcp::Fields { sequence: 1, acknowledgement, flags: tcp::ACK, window };
        let Ok(frame) = build::tcp(&flow, fields, &[]) else { return };
        let sent = device.send(&mut |buffer| {
            buffer.get_mut(..frame.len()).map_or(0, |room| {
                room.copy_from_slice(&frame);
                frame.len()
            })
        });
        if !sent {
            // The next acknowledgement replaces it.
            self.unsent_acks.set(self.unsent_acks.get() + 1);
            this.due_ps.set(Some(machine.now_ps() + LATER_PS));
        }
    }

    /// A process runs until it has read everything, and sleeps.
    fn run_process(&self, machine: &Machine, device: &E1000, socket: usize) {
        let (params, this) = (&self.params, &self.sockets[socket]);
        self.spend(machine, Function::Schedule, params.switch_cycles);
        while this.connection.borrow().readable() {
            self.spend(machine, Function::SystemCall, params.receive_call_cycles);
            machine.own(&this.line, params.socket_lines);
            self.reads.set(self.reads.get() + 1);
            let mut read = 0;
            while read < READ_BYTES {
                let Some((bytes, buffer)) = this.connection.borrow_mut().read() else { break };
                self.spend(machine, Function::SystemCall, params.receive_segment_cycles);
                self.copy(machine, bytes.into());
                device.free(buffer);
                read += bytes;
            }
            self.await_engine(machine);
            self.read_bytes.set(self.read_bytes.get() + u64::from(read));
            if this.connection.borrow().read_calls_for_ack() {
                self.acknowledge(machine, device, socket);
            }
        }
        this.asleep.set(true);
        // A softirq may have queued a segment since the last check, and would not wake the process.
        if this.connection.borrow().readable() && this.asleep.replace(false) {
            self.ready.borrow_mut().push_back(socket);
        }
    }
}
