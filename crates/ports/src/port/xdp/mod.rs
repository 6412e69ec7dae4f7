//! A queue of an interface as a port, through an `AF_XDP` socket.
//!
//! The pool's memory is the socket's: where the driver can, the card reads and writes the buffers themselves, and a frame
//! goes from one such port to another, or to a card of ours, without a copy. Elsewhere the kernel copies once. The
//! queue's frames come here and not to the kernel any more; with several queues it is the card that spreads them (`ethtool
//! -X`, `ethtool -N`), and each needs a port of its own to be seen.

mod bpf;
mod ring;
mod socket;

use super::attached::Attached;
use super::{Counters, Frame, Link, Next, Port, Trouble, Wake};
use crate::interface::Interface;
use crate::socket::{kick, wake_receiver};
use bpf::Program;
use kpps_dma::{BufferPool, Memory, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use socket::{RECEIVING, SENDING, Socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a pool for such ports is made of: the first bytes of each chunk are the kernel's.
pub(super) const HEADROOM: usize = socket::KERNEL_HEADROOM;
/// Buffers that a port keeps to receive into and to send from.
pub(super) const BUFFERS: usize = (RECEIVING + SENDING) as usize;
/// How long a queue may still be in use by a socket that was closed.
const LET_GO: Duration = Duration::from_millis(500);
/// System calls that send all of a ring, at 32 frames each.
const CALLS: u32 = SENDING / 32;

/// The buffers that the kernel has, each at its chunk.
#[derive(Debug)]
struct Lent {
    memory: Memory,
    chunk: usize,
    buffers: Vec<Option<PoolBuffer>>,
}

impl Lent {
    /// Notes a buffer down; its address for the kernel, or the buffer back if it is none of the memory's chunks.
    #[inline]
    fn lend(&mut self, buffer: PoolBuffer) -> Result<u64, PoolBuffer> {
        let address = (buffer.bytes().as_ptr() as usize).wrapping_sub(self.memory.mapping().address());
        match self.buffers.get_mut(address / self.chunk) {
            Some(place @ None) if address % self.chunk == HEADROOM => {
                *place = Some(buffer);
                Ok(address as u64)
            }
            _ => Err(buffer),
        }
    }

    /// The buffer at an address that the kernel gives back; `None` if it has none there.
    #[inline]
    fn take_back(&mut self, address: u64) -> Option<PoolBuffer> {
        let address = usize::try_from(address).ok()?;
        self.buffers.get_mut(address / self.chunk)?.take()
    }
}

/// A queue of an interface.
#[derive(Debug)]
pub struct XdpPort {
    socket: Socket,
    program: Arc<Program>,
    queue: u32,
    attached: Attached,
    zero_copy: bool,
    lent: Lent,
    pool: BufferPool,
    /// Buffers to receive into that the kernel does not have.
    slots: Vec<PoolBuffer>,
    /// Frames that were not sent yet, as far as is known.
    pending: usize,
    next: Next,
    epoch: Instant,
    counters: Counters,
}

impl XdpPort {
    /// Opens a queue of an interface. `pool` is made of `memory`'s chunks of `chunk` bytes ([`Memory::chunks`]) with
    /// a headroom of 256.
    ///
    /// # Errors
    /// Those of the system: no such interface or queue; no right (`CAP_NET_RAW` for the socket, `CAP_BPF` and
    /// `CAP_NET_ADMIN` for the program, `CAP_IPC_LOCK` or `ulimit -l` for the memory); `EBUSY` if another program has
    /// the interface.
    pub fn open(
        interface: &str,
        queue: u32,
        memory: &Memory,
        chunk: usize,
        pool: BufferPool,
    ) -> io::Result<Self> {
        let interface = Interface::find(interface)?;
        let socket = Socket::new(memory.mapping(), chunk, HEADROOM)?;
        let program = Program::on(&interface)?;
        let chunks = memory.mapping().bytes() / chunk;
        let lent = Lent { memory: memory.clone(), chunk, buffers: (0..chunks).map(|_| None).collect() };
        let mut port = Self {
            zero_copy: bind(&socket, &interface, queue)?,
            socket,
            program,
            queue,
            attached: Attached::to(interface, chunk - HEADROOM)?,
            lent,
            pool,
            slots: Vec::with_capacity(RECEIVING as usize),
            pending: 0,
            next: Next::Now,
            epoch: Instant::now(),
            counters: Counters::default(),
        };
        port.refill();
        port.program.give(queue, port.socket.as_fd())?;
        Ok(port)
    }

    /// Whether the driver uses the buffers themselves.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Whether the driver hands the frames over, before the kernel's stack sees them.
    pub fn is_in_driver(&self) -> bool {
        self.program.is_in_driver()
    }

    /// The interface's station address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        self.attached.interface().address()
    }

    /// Gives the kernel buffers to receive into, as many as it has places for.
    #[inline]
    fn refill(&mut self) {
        let room = self.socket.fill.room() as usize;
        let mut added = false;
        for _ in 0..room {
            let Some(buffer) = self.slots.pop().or_else(|| self.pool.take()) else { break };
            match self.lent.lend(buffer) {
                // There was room.
                Ok(address) => added |= self.socket.fill.put(address),
                // Another pool's: it goes home.
                Err(buffer) => drop(buffer),
            }
        }
        if added {
            self.socket.fill.publish();
        }
    }

    /// Takes buffers of sent frames back.
    #[inline]
    fn reclaim(&mut self) {
        let before = self.pending;
        while let Some(address) = self.socket.sent.take() {
            self.pending = self.pending.saturating_sub(1);
            if let Some(buffer) = self.lent.take_back(address) {
                self.pool.give(buffer);
            }
        }
        if self.pending < before {
            self.socket.sent.release();
        }
    }

    /// Adds a frame to the transmit ring.
    #[inline]
    fn put(&mut self, frame: Frame) -> Result<(), Frame> {
        let Frame { buffer, bytes } = frame;
        match self.lent.lend(buffer) {
            Ok(addr) if self.socket.send.put(libc::xdp_desc { addr, len: bytes.into(), options: 0 }) => {
                self.pending += 1;
                self.counters.sent += 1;
                self.counters.sent_bytes += u64::from(bytes);
                Ok(())
            }
            Ok(addr) => match self.lent.take_back(addr) {
                Some(buffer) => Err(Frame { buffer, bytes }),
                None => Ok(()),
            },
            Err(buffer) => Err(Frame { buffer, bytes }),
        }
    }
}

/// Binds the socket. The kernel takes its time to let go of a queue whose socket has been closed.
fn bind(socket: &Socket, interface: &Interface, queue: u32) -> io::Result<bool> {
    let end = Instant::now() + LET_GO;
    loop {
        match socket.bind(interface, queue) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                std::thread::sleep(LET_GO / 50);
            }
            other => return other,
        }
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        self.program.take_back(self.queue);
    }
}

impl Wake for XdpPort {
    #[inline]
    fn next(&self) -> Next {
        self.next
    }
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
    fn wants_to_send(&self) -> bool {
        !self.socket.send.is_empty()
    }
}

impl Port for XdpPort {
    #[inline]
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let mut taken = 0;
        self.next = Next::Now;
        for _ in 0..budget {
            let Some(descriptor) = self.socket.received.take() else {
                self.next = Next::Asleep;
                break;
            };
            let Some(buffer) = self.lent.take_back(descriptor.addr) else {
                self.counters.errors += 1;
                continue;
            };
            let bytes = descriptor.len as usize;
            // In one piece, and where a frame begins.
            let whole = descriptor.addr as usize % self.lent.chunk == HEADROOM
                && bytes <= buffer.capacity()
                && descriptor.options & libc::XDP_PKT_CONTD == 0;
            if !whole {
                self.counters.errors += 1;
                self.slots.push(buffer);
                continue;
            }
            taken += 1;
            self.counters.received += 1;
            self.counters.received_bytes += bytes as u64;
            self.slots.extend(sink(Frame { buffer, bytes: bytes as u16 }));
        }
        if taken > 0 {
            self.socket.received.release();
            self.refill();
        }
        if self.socket.fill.needs_wakeup() && self.next == Next::Asleep {
            // A driver that has run out of buffers waits to be told that there are some.
            self.counters.system_calls += 1;
            wake_receiver(self.socket.as_fd());
        }
        Ok(taken)
    }

    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if !self.attached.fits(frame.as_ref()) {
            self.counters.unsent += 1;
            self.pool.give(frame.buffer);
            return Ok(());
        }
        if self.pending >= SENDING as usize {
            self.reclaim();
        }
        let result = if self.pending < SENDING as usize { self.put(frame) } else { Err(frame) };
        if result.is_err() {
            self.counters.full += 1;
        }
        result
    }

    #[inline]
    fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut PoolBuffer) -> u16) -> usize {
        let most = most.min(self.room());
        for count in 0..most {
            let Some(mut buffer) = self.pool.take() else { return count };
            let bytes = write(&mut buffer);
            if let Err(refused) = self.send(Frame { buffer, bytes }) {
                self.pool.give(refused.buffer);
                return count;
            }
        }
        most
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        self.socket.send.publish();
        // Where it copies, the kernel sends only so many frames in one call.
        for _ in 0..CALLS {
            if self.socket.send.is_empty() || !self.socket.send.needs_wakeup() {
                break;
            }
            self.counters.system_calls += 1;
            match kick(self.socket.as_fd()) {
                Ok(()) => break,
                Err(error) => match error.raw_os_error() {
                    // More to send than it does at once.
                    Some(libc::EAGAIN | libc::EINTR) => self.reclaim(),
                    // No room in the interface's queue, or it is down: later, if at all.
                    Some(libc::EBUSY | libc::ENOBUFS | libc::ENETDOWN) => break,
                    Some(libc::ENXIO | libc::ENODEV) => return Err(Trouble::Gone),
                    _ => return Err(Trouble::system("cannot send")(error)),
                },
            }
        }
        Ok(())
    }

    #[inline]
    fn room(&mut self) -> usize {
        self.reclaim();
        SENDING as usize - self.pending
    }

    fn in_flight(&mut self) -> usize {
        self.reclaim();
        self.pending
    }

    fn woken(&mut self) -> Result<(), Trouble> {
        self.next = Next::Now;
        Ok(())
    }

    fn look_after(&mut self) -> Result<(), Trouble> {
        self.attached.look_after()
    }

    fn counters(&mut self) -> Result<Counters, Trouble> {
        let statistics = self.socket.statistics().map_err(Trouble::system("cannot read statistics"))?;
        self.counters.missed = statistics.rx_dropped + statistics.rx_ring_full;
        self.counters.no_buffer = statistics.rx_fill_ring_empty_descs;
        let mut counters = self.counters;
        // What is in the transmit ring is not sent, nor what the kernel found wrong there.
        counters.unsent += statistics.tx_invalid_descs;
        counters.sent = counters.sent.saturating_sub(statistics.tx_invalid_descs);
        Ok(counters)
    }

    fn frames(&self) -> (u64, u64) {
        (self.counters.received, self.counters.sent)
    }

    fn refresh_link(&mut self) -> Result<(), Trouble> {
        self.attached.look_after()
    }

    fn link(&self) -> Link {
        self.attached.link()
    }

    fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }
}
