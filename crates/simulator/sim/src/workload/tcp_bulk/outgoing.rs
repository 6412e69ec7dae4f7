//! A connection by which the machine sends: its socket, the kernel's TCP below it, and a process that always
//! writes more.

use super::back_to;
use super::clients::{FIRST_BYTE, FIRST_SINK, HOST_MEMORY, Template};
use crate::device::e1000::E1000;
use kpps_frames::build::Flow;
use kpps_frames::{Error, tcp};
use kpps_host::cpu::{Function, Line};
use kpps_host::platform::Buf;
use kpps_host::stack::linux24::Params;
use kpps_host::stack::tcp::{Connection, Sending, Sent};
use kpps_host::stack::{Interface, IntoBuffer, Netdev};
use kpps_host::{Machine, NS};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The most memory of a socket for data that is written and not acknowledged (`tcp_wmem`), in bytes.
const MEMORY: u32 = 131_072;
/// Bytes that a process writes at a time.
const WRITE_BYTES: u64 = 65_536;

/// One attempt at a lock that another CPU holds: as the simulator's own locks, a choice.
const SPIN_PS: u64 = 50 * NS;

/// The state of the process whose data are to be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// It is writing: a packet that is not full waits for more.
    More,
    /// It has written all that it writes for now.
    All,
}

/// The socket.
pub(super) struct Outgoing {
    segment: RefCell<Template>,
    /// Superpackets of two segments, of three and so on; none without TSO.
    superpackets: RefCell<Vec<Template>>,
    /// The packets that are written and were never sent: the segments of each.
    packets: RefCell<VecDeque<u64>>,
    segment_bytes: u64,
    /// The bytes of the socket's memory that a segment takes.
    each_bytes: u32,
    connection: RefCell<Sending>,
    /// The segments that are written and not acknowledged: the end of each segment, and its buffer.
    kept: RefCell<VecDeque<(u64, Buf)>>,
    /// The end of the written bytes.
    written: Cell<u64>,
    /// The memory that it takes.
    memory: Cell<u32>,
    /// Its process waits for memory.
    asleep: Cell<bool>,
    /// The socket is locked. Segments that the softirq gets meanwhile wait in the backlog.
    locked: Cell<bool>,
    backlog: RefCell<VecDeque<tcp::Fields>>,
    line: Line,
}

impl Outgoing {
    /// Connection `index` of the connections that send against `flow`. Its data is sent in segments of
    /// `segment_bytes`. Each takes `each_bytes` of the socket's memory. Up to `most_together` leave as one
    /// superpacket.
    ///
    /// # Errors
    /// There is no such segment.
    pub fn new(
        flow: &Flow,
        index: u16,
        (segment_bytes, each_bytes): (u64, u32),
        most_together: u16,
    ) -> Result<Self, Error> {
        let offered = Connection::<()>::new(FIRST_BYTE, HOST_MEMORY).offered();
        let out = back_to(flow, (flow.from.0, FIRST_SINK + index));
        let superpackets = (2..=u64::from(most_together))
            .map(|segments| Template::superpacket(&out, segments * segment_bytes));
        Ok(Self {
            segment: RefCell::new(Template::new(&out, segment_bytes)?),
            superpackets: RefCell::new(superpackets.collect::<Result<_, _>>()?),
            packets: RefCell::default(),
            segment_bytes,
            each_bytes,
            connection: RefCell::new(Sending::new(FIRST_BYTE, segment_bytes, offered)),
            kept: RefCell::default(),
            written: Cell::new(FIRST_BYTE.into()),
            memory: Cell::new(0),
            asleep: Cell::new(false),
            locked: Cell::new(false),
            backlog: RefCell::default(),
            line: Line::new(),
        })
    }

    /// The segments that were sent.
    pub fn sent(&self) -> Sent {
        self.connection.borrow().sent()
    }

    /// The process runs: it writes until the socket's memory is full, or its time is over at `until_ps`.
    /// True: it would go on.
    pub fn run(&self, machine: &Machine, to: &Interface<E1000>, params: &Params, until_ps: u64) -> bool {
        self.asleep.set(false);
        loop {
            machine.spend_steps(Function::SystemCall, params.receive_call());
            self.lock(machine, params);
            for _ in 0..(WRITE_BYTES / self.segment_bytes).max(1) {
                if self.memory.get() + self.each_bytes > MEMORY || !self.write(machine, to, params) {
                    // Set before the lock is released: an acknowledgement from the backlog wakes the process.
                    self.asleep.set(true);
                    self.push(machine, to, params, Written::All);
                    return self.release(machine, to, params);
                }
                self.push(machine, to, params, Written::More);
            }
            self.push(machine, to, params, Written::All);
            self.release(machine, to, params);
            if machine.now_ps() >= until_ps {
                return true;
            }
        }
    }

    /// One segment from the process into a buffer (`tcp_sendmsg`). False: there was none.
    fn write(&self, machine: &Machine, to: &Interface<E1000>, params: &Params) -> bool {
        let Some(frame) = to.device.make(&mut |_| 0) else { return false };
        machine.spend_steps(Function::SystemCall, params.receive_segment_cycles);
        machine.spend_on(Function::Copy, self.segment_bytes * machine.host().copy_byte_ps);
        self.written.set(self.written.get() + self.segment_bytes);
        self.kept.borrow_mut().push_back((self.written.get(), frame.into_buffer()));
        self.memory.set(self.memory.get() + self.each_bytes);
        self.connection.borrow_mut().write();
        let most = self.most_together();
        let mut packets = self.packets.borrow_mut();
        match packets.back_mut().filter(|segments| **segments < most) {
            Some(segments) => *segments += 1,
            None => packets.push_back(1),
        }
        true
    }

    /// The segments that one packet may have now.
    fn most_together(&self) -> u64 {
        let longest = self.superpackets.borrow().len() as u64 + 1;
        self.connection.borrow().most_together().min(longest)
    }

    /// The segments of the packet that may leave now; `None` if none may. A superpacket waits until the
    /// windows have space for all of it (`tcp_snd_test`), unless nothing would ever make that space. The last
    /// one waits for more to be written.
    fn next_packet(&self, written: Written) -> Option<u64> {
        let connection = self.connection.borrow();
        let may_send = connection.may_send();
        if may_send == 0 || connection.repeats() {
            return (may_send > 0).then_some(1);
        }
        let packets = self.packets.borrow();
        let most = self.most_together();
        let segments = packets.front().copied().unwrap_or(1).min(most);
        if written == Written::More && packets.len() == 1 && segments < most {
            return None;
        }
        match segments <= may_send {
            true => Some(segments),
            false => connection.is_idle().then_some(may_send),
        }
    }

    /// Sends the packets that the windows allow (`tcp_write_xmit`).
    fn push(&self, machine: &Machine, to: &Interface<E1000>, params: &Params, written: Written) {
        while let Some(segments) = self.next_packet(written) {
            machine.spend_steps(Function::TcpAck, params.tcp_ack_cycles);
            let (at_ps, first) = (machine.now_ps(), self.connection.borrow().first());
            let mut superpackets = self.superpackets.borrow_mut();
            let superpacket = (segments as usize).checked_sub(2).and_then(|at| superpackets.get_mut(at));
            let clone = match superpacket {
                Some(superpacket) => to.device.clone_of(superpacket.with(first as u32)),
                None => to.device.clone_of(self.segment.borrow_mut().with(first as u32)),
            };
            drop(superpackets);
            let is_congested = clone.is_some();
            if !clone.is_some_and(|frame| (to.transmit)(frame)) {
                return self.connection.borrow_mut().stay(at_ps, is_congested);
            }
            let mut connection = self.connection.borrow_mut();
            if !connection.repeats() {
                self.sent_from_front(segments);
            }
            connection.send_together(at_ps, segments);
        }
    }

    /// Takes segments that have left from the first packet.
    fn sent_from_front(&self, segments: u64) {
        let mut packets = self.packets.borrow_mut();
        if let Some(left) = packets.front_mut() {
            *left = left.saturating_sub(segments);
        }
        let _ = packets.pop_front_if(|left| *left == 0);
    }

    /// An acknowledgement has come in. True: it has woken the process.
    pub fn acknowledged(
        &self,
        machine: &Machine,
        to: &Interface<E1000>,
        params: &Params,
        fields: tcp::Fields,
    ) -> bool {
        self.backlog.borrow_mut().push_back(fields);
        if self.locked.get() {
            return false;
        }
        self.lock(machine, params);
        self.release(machine, to, params)
    }

    /// Takes the socket's lock. A process waits until a softirq on another CPU has given it back.
    fn lock(&self, machine: &Machine, params: &Params) {
        lock(machine, &self.locked);
        machine.own(&self.line, params.socket_lines);
    }

    /// Takes the segments that have come meanwhile (`release_sock`), and releases the lock. True: a process
    /// that waited for memory can go on.
    fn release(&self, machine: &Machine, to: &Interface<E1000>, params: &Params) -> bool {
        loop {
            let Some(fields) = self.backlog.borrow_mut().pop_front() else { break };
            let (number, window) = (fields.acknowledgement, fields.window);
            self.connection.borrow_mut().acknowledged(machine.now_ps(), number, window);
            let acked = self.connection.borrow().acked();
            loop {
                let Some((_, buffer)) = self.kept.borrow_mut().pop_front_if(|(end, _)| *end <= acked) else {
                    break;
                };
                self.memory.set(self.memory.get().saturating_sub(self.each_bytes));
                to.device.free(buffer);
            }
            self.push(machine, to, params, Written::All);
        }
        self.locked.set(false);
        // `sk_stream_write_space`: half as much as is in use must be free.
        3 * self.memory.get() <= 2 * MEMORY && self.asleep.replace(false)
    }

    /// A tick of the kernel's clock: a timer may have expired. True: the process that waited can go on.
    pub fn tick(&self, machine: &Machine, to: &Interface<E1000>, params: &Params) -> bool {
        let expired = self.connection.borrow().expires_ps().is_some_and(|at_ps| at_ps <= machine.now_ps());
        if !expired || self.locked.get() {
            return false;
        }
        self.lock(machine, params);
        self.connection.borrow_mut().expire();
        self.push(machine, to, params, Written::All);
        self.release(machine, to, params)
    }
}

/// Takes the lock of a socket, which another CPU may hold.
pub(super) fn lock(machine: &Machine, locked: &Cell<bool>) {
    while locked.replace(true) {
        machine.spend_on(Function::Spin, SPIN_PS);
    }
}
