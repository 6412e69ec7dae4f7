//! The machine's end of all connections: the kernel's TCP in the receive softirq, and processes that read or
//! write.

use super::clients::{FIRST_BYTE, FIRST_PORT, FIRST_SINK};
use super::outgoing::{Outgoing, lock};
use super::{Checksums, LATER_PS, Parsed, Processes, TcpBulk, back_to, parsed};
use crate::device::e1000::{E1000, Frame};
use kpps_frames::build::{self, Flow};
use kpps_frames::{Error, ipv4, tcp};
use kpps_host::cpu::{ContextId, Function, Level, Line};
use kpps_host::platform::Buf;
use kpps_host::stack::linux24::{Params, Stack};
use kpps_host::stack::tcp::{Ack, Connection, Sent, Tally};
use kpps_host::stack::{Handler, Interface, IntoBuffer, Netdev, Work};
use kpps_host::{MS, Machine};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes that a process reads at a time.
const READ_BYTES: u32 = 65_536;

/// A socket whose process reads, with what that does. The process is in `recv` all the time.
struct Socket {
    connection: RefCell<Connection<Buf>>,
    /// Segments that the softirq has left to the process: the prequeue, and the backlog of a locked socket.
    prequeue: RefCell<VecDeque<Segment>>,
    /// When a delayed acknowledgement is sent.
    due_ps: Cell<Option<u64>>,
    /// Its process sleeps.
    asleep: Cell<bool>,
    /// The socket is locked: by its process, or by a softirq that does the work of the process.
    locked: Cell<bool>,
    /// Its lock, queue and state, which softirq and process share.
    line: Line,
}

/// A process that may run.
#[derive(Clone, Copy)]
enum Ready {
    /// It reads from this socket.
    Reader(usize),
    /// It writes to this one.
    Writer(usize),
}

/// All sockets: a handle.
#[derive(Clone)]
pub(super) struct Endpoints(Rc<Shared>);

struct Shared {
    sockets: Vec<Socket>,
    outgoing: Vec<Outgoing>,
    ready: RefCell<VecDeque<Ready>>,
    processes: Cell<Option<ContextId>>,
    runs_on: Processes,
    flow: Flow,
    params: Params,
    /// The bytes of a socket's memory that a segment takes.
    each_bytes: u32,
    checksums: Checksums,
    /// Until when the chipset's engine is copying, if there is one.
    engine_ps: Option<Cell<u64>>,
    read_bytes: Cell<u64>,
    reads: Cell<u64>,
    /// Segments of no connection.
    strangers: Cell<u64>,
}

/// A segment that came in.
struct Segment {
    sequence: u32,
    bytes: u32,
    buffer: Buf,
}

impl Endpoints {
    /// Connections of `flow`, whose client ports differ. Their segments carry `segment_bytes`, and take
    /// `each_bytes` of a socket's memory.
    ///
    /// # Errors
    /// There are no such segments.
    pub fn new(
        flow: Flow,
        params: Params,
        what: &TcpBulk,
        (segment_bytes, each_bytes): (u64, u32),
    ) -> Result<Self, Error> {
        let socket = |_| Socket {
            connection: RefCell::new(Connection::new(FIRST_BYTE, params.stream_bytes)),
            prequeue: RefCell::default(),
            due_ps: Cell::new(None),
            asleep: Cell::new(true),
            locked: Cell::new(false),
            line: Line::new(),
        };
        let outgoing = (0..what.sending).map(|index| {
            Outgoing::new(&flow, index, (segment_bytes, each_bytes), what.most_together(segment_bytes))
        });
        Ok(Self(Rc::new(Shared {
            sockets: (0..what.connections).map(socket).collect(),
            outgoing: outgoing.collect::<Result<_, _>>()?,
            ready: RefCell::default(),
            processes: Cell::new(None),
            runs_on: what.processes,
            flow,
            params,
            each_bytes,
            checksums: what.checksums,
            engine_ps: what.dma_copy.then(Cell::default),
            read_bytes: Cell::new(0),
            reads: Cell::new(0),
            strangers: Cell::new(0),
        })))
    }

    /// The window that each connection offers at first.
    pub fn offered(&self) -> u32 {
        self.0.sockets.first().map_or(0, |socket| socket.connection.borrow().offered())
    }

    /// Starts the kernel's timers on the first CPU, and the processes on theirs. Writing processes begin at
    /// once.
    pub fn start(&self, machine: &Machine, stack: &Rc<Stack<E1000, Self>>) {
        let writers = (0..self.0.outgoing.len()).map(Ready::Writer);
        self.0.ready.borrow_mut().extend(writers);
        let cpu = match self.0.runs_on {
            Processes::FirstCpu => 0,
            Processes::LastCpu => machine.cpus() - 1,
        };
        let (shared, of) = (Rc::clone(&self.0), Rc::clone(stack));
        let slice_ps = shared.params.time_slice_ms * MS;
        let processes = machine.spawn_on(cpu, Level::Thread, move |machine| {
            let transmit = |frame| of.transmit(machine, 0, frame);
            let interface = Interface { device: of.device(0), transmit: &transmit };
            loop {
                let mut slice_ends = machine.now_ps() + slice_ps;
                loop {
                    let Some(process) = shared.ready.borrow_mut().pop_front() else { break };
                    machine.spend_steps(Function::Schedule, shared.params.switch_cycles);
                    let goes_on = match process {
                        Ready::Reader(socket) => shared.run_reader(machine, &interface, socket, slice_ends),
                        Ready::Writer(index) => {
                            shared.outgoing[index].run(machine, &interface, &shared.params, slice_ends)
                        }
                    };
                    if goes_on {
                        shared.ready.borrow_mut().push_back(process);
                    }
                    if machine.now_ps() >= slice_ends {
                        machine.yield_cpu();
                        slice_ends = machine.now_ps() + slice_ps;
                    }
                }
                machine.wait();
            }
        });
        self.0.processes.set(Some(processes));
        let (shared, of) = (Rc::clone(&self.0), Rc::clone(stack));
        machine.spawn(Level::Softirq, move |machine| {
            let transmit = |frame| of.transmit(machine, 0, frame);
            let interface = Interface { device: of.device(0), transmit: &transmit };
            let tick_ps = shared.params.tick_ps;
            loop {
                machine.wait_until((machine.now_ps() / tick_ps + 1) * tick_ps);
                machine.spend_steps(Function::Timer, shared.params.tick_cycles);
                for (index, socket) in shared.sockets.iter().enumerate() {
                    let now_ps = machine.now_ps();
                    if socket.due_ps.get().is_none_or(|due| due > now_ps) {
                        continue;
                    }
                    if socket.locked.get() {
                        // `tcp_delack_timer`: later, its process has the socket.
                        socket.due_ps.set(Some(now_ps + LATER_PS));
                    } else {
                        socket.locked.set(true);
                        shared.acknowledge(machine, &interface, index);
                        socket.locked.set(false);
                    }
                }
                for (index, writer) in shared.outgoing.iter().enumerate() {
                    if writer.tick(machine, &interface, &shared.params) {
                        shared.wake(machine, Ready::Writer(index));
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

    /// The machine's segments, retransmissions, and expired timers.
    pub fn sent(&self) -> Sent {
        let sent = self.0.outgoing.iter().map(Outgoing::sent);
        sent.fold(Sent::default(), Sent::plus)
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

    fn receive(&self, machine: &Machine, interface: &Interface<E1000>, frame: Frame) -> Option<Buf> {
        self.0.receive(machine, interface, frame)
    }

    fn handle(&mut self, _: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        Some(frame.into_buffer())
    }
}

impl Shared {
    /// The cost of copying a byte to the process. After the kernel has summed a segment on the same CPU, it
    /// is in the cache.
    fn copy_byte_ps(&self, machine: &Machine) -> u64 {
        let host = machine.host();
        let elsewhere = self.runs_on == Processes::LastCpu && machine.cpus() > 1;
        if self.checksums.tcp || elsewhere { host.copy_byte_ps } else { host.copy_cached_byte_ps }
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
    fn receive(&self, machine: &Machine, interface: &Interface<E1000>, frame: Frame) -> Option<Buf> {
        let params = &self.params;
        machine.spend_steps(Function::Ip, params.ip_cycles);
        if !self.checksums.ip {
            // The driver has read the frame's first line.
            let cached_ps = machine.host().copy_cached_byte_ps;
            machine.spend_on(Function::Copy, ipv4::HEADER_BYTES as u64 * cached_ps);
        }
        let Some(Parsed { from_port: port, fields, bytes, .. }) = parsed(frame.as_ref()) else {
            self.strangers.set(self.strangers.get() + 1);
            return Some(frame.into_buffer());
        };
        let writer = port
            .checked_sub(FIRST_SINK)
            .and_then(|index| Some((index, self.outgoing.get(usize::from(index))?)));
        if let Some((index, writer)) = writer {
            machine.spend_steps(Function::Tcp, params.tcp());
            if writer.acknowledged(machine, interface, params, fields) {
                self.wake(machine, Ready::Writer(index.into()));
            }
            return Some(frame.into_buffer());
        }
        let index = port.checked_sub(FIRST_PORT).map(usize::from);
        let Some((socket, this)) = index.and_then(|index| Some((index, self.sockets.get(index)?))) else {
            self.strangers.set(self.strangers.get() + 1);
            return Some(frame.into_buffer());
        };
        machine.own(&this.line, params.socket_lines);
        let segment = Segment { sequence: fields.sequence, bytes, buffer: frame.into_buffer() };
        if let Some(prequeue) = params.prequeue() {
            machine.spend_steps(Function::Tcp, prequeue);
            this.prequeue.borrow_mut().push_back(segment);
            let held = this.prequeue.borrow().len() as u32;
            if this.asleep.replace(false) {
                self.wake(machine, Ready::Reader(socket));
            } else if !this.locked.get() && held * self.each_bytes > params.stream_bytes {
                // As much as the socket may hold waits for a process that does not run (`tcp_prequeue`).
                this.locked.set(true);
                self.run_prequeue(machine, interface, socket);
                this.locked.set(false);
            }
            return None;
        }
        machine.spend_steps(Function::Tcp, params.tcp());
        let back = self.process(machine, interface, socket, segment);
        if this.connection.borrow().readable() && this.asleep.replace(false) {
            self.wake(machine, Ready::Reader(socket));
        }
        back
    }

    /// Makes a sleeping process ready.
    fn wake(&self, machine: &Machine, process: Ready) {
        machine.spend_steps(Function::Schedule, self.params.wake());
        self.ready.borrow_mut().push_back(process);
        if let Some(processes) = self.processes.get() {
            machine.wake(processes);
        }
    }

    /// TCP takes a segment. Returns the buffer of a segment that it does not keep.
    fn process(
        &self,
        machine: &Machine,
        interface: &Interface<E1000>,
        socket: usize,
        segment: Segment,
    ) -> Option<Buf> {
        let this = &self.sockets[socket];
        let Segment { sequence, bytes, buffer } = segment;
        if !self.checksums.tcp {
            let summed = u64::from(bytes) + tcp::HEADER_BYTES as u64;
            machine.spend_on(Function::Copy, summed * machine.host().copy_byte_ps);
        }
        let memory = self.each_bytes;
        let (ack, back) = this.connection.borrow_mut().segment(sequence, bytes, memory, buffer);
        match ack {
            Ack::None => {}
            Ack::Now => self.acknowledge(machine, interface, socket),
            Ack::Later => {
                let due_ps = machine.now_ps() + LATER_PS;
                this.due_ps.set(this.due_ps.get().or(Some(due_ps)));
            }
        }
        back
    }

    /// TCP takes the segments that the softirq has left (`tcp_prequeue_process`, `__release_sock`).
    fn run_prequeue(&self, machine: &Machine, interface: &Interface<E1000>, socket: usize) {
        let (params, this) = (&self.params, &self.sockets[socket]);
        loop {
            let Some(segment) = this.prequeue.borrow_mut().pop_front() else { return };
            let left = params.tcp().without(params.prequeue().unwrap_or_default());
            machine.spend_steps(Function::Tcp, left);
            machine.own(&this.line, params.socket_lines);
            if let Some(back) = self.process(machine, interface, socket, segment) {
                interface.device.free(back);
            }
        }
    }

    fn acknowledge(&self, machine: &Machine, interface: &Interface<E1000>, socket: usize) {
        let (params, this) = (&self.params, &self.sockets[socket]);
        machine.own(&this.line, params.socket_lines);
        machine.spend_steps(Function::TcpAck, params.tcp_ack_cycles);
        this.due_ps.set(None);
        let (acknowledgement, window) = this.connection.borrow_mut().acknowledge();
        let to = (self.flow.from.0, FIRST_PORT + socket as u16);
        let fields = tcp::Fields { sequence: FIRST_BYTE, acknowledgement, flags: tcp::ACK, window };
        let Ok(frame) = build::tcp(&back_to(&self.flow, to), fields, &[]) else { return };
        let made = interface.device.make(&mut |buffer| {
            buffer.get_mut(..frame.len()).map_or(0, |room| {
                room.copy_from_slice(&frame);
                frame.len()
            })
        });
        match made {
            // If the queue drops it, the next acknowledgement replaces it.
            Some(frame) => drop((interface.transmit)(frame)),
            // There was no buffer.
            None => this.due_ps.set(Some(machine.now_ps() + LATER_PS)),
        }
    }

    /// A process runs until it has read everything, and sleeps; or its time is over at `until_ps`. True: it
    /// would go on.
    fn run_reader(
        &self,
        machine: &Machine,
        interface: &Interface<E1000>,
        socket: usize,
        until_ps: u64,
    ) -> bool {
        let (params, this) = (&self.params, &self.sockets[socket]);
        let waits = || this.connection.borrow().readable() || !this.prequeue.borrow().is_empty();
        while waits() {
            if machine.now_ps() >= until_ps {
                return true;
            }
            lock(machine, &this.locked);
            machine.spend_steps(Function::SystemCall, params.receive_call());
            machine.own(&this.line, params.socket_lines);
            self.run_prequeue(machine, interface, socket);
            self.reads.set(self.reads.get() + 1);
            let mut read = 0;
            while read < READ_BYTES {
                let Some((bytes, buffer)) = this.connection.borrow_mut().read() else { break };
                machine.spend_steps(Function::SystemCall, params.receive_segment_cycles);
                self.copy(machine, bytes.into());
                interface.device.free(buffer);
                read += bytes;
            }
            self.await_engine(machine);
            self.read_bytes.set(self.read_bytes.get() + u64::from(read));
            if this.connection.borrow().read_calls_for_ack() {
                self.acknowledge(machine, interface, socket);
            }
            this.locked.set(false);
        }
        this.asleep.set(true);
        // A softirq may have queued a segment since the last check, and would not wake the process.
        waits() && this.asleep.replace(false)
    }
}
