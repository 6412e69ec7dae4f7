//! An interface of the kernel as a port, through a packet socket.
//!
//! Frames are received into the pool's buffers and sent from them, a batch with each system call: one copy, which
//! the kernel makes. VLAN tags, which the kernel takes out of frames, are put back. Checksums and segments that the
//! kernel leaves to hardware stay undone: switch that off for an interface whose own traffic is to pass
//! (`ethtool -K IFACE tx off tso off gso off gro off`).

mod socket;

use super::{Counters, Frame, Link, Next, Port, Trouble, Wake};
use kpps_dma::{BufferPool, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use socket::{Arrived, Socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Frames for each system call.
pub(super) const BATCH: usize = 64;
/// Bytes of a VLAN tag.
const VLAN: usize = 4;

/// An interface of the kernel.
#[derive(Debug)]
pub struct PacketPort {
    socket: Socket,
    pool: BufferPool,
    /// Buffers to receive into.
    slots: Vec<PoolBuffer>,
    /// Those of them that were filled, while their frames are passed on.
    filled: Vec<PoolBuffer>,
    arrived: Vec<Arrived>,
    /// Frames taken for sending.
    waiting: Vec<Frame>,
    /// How many of them the kernel has taken.
    gone_out: usize,
    next: Next,
    link: Link,
    epoch: Instant,
    counters: Counters,
}

impl PacketPort {
    /// Opens an interface: from now on all its frames come here too (and to the kernel still).
    ///
    /// # Errors
    /// Those of the system: no such interface, no right to open packet sockets (`CAP_NET_RAW`).
    pub fn open(interface: &str, pool: BufferPool) -> io::Result<Self> {
        let socket = Socket::open(interface)?;
        let link = socket.link()?;
        Ok(Self {
            socket,
            pool,
            slots: Vec::with_capacity(BATCH),
            filled: Vec::with_capacity(BATCH),
            arrived: vec![Arrived::default(); BATCH],
            waiting: Vec::with_capacity(BATCH),
            gone_out: 0,
            next: Next::Now,
            link,
            epoch: Instant::now(),
            counters: Counters::default(),
        })
    }

    /// Has frames come in as they are on the wire from now on: the interface neither puts them together
    /// (GRO) nor takes out VLAN tags, of which some drivers keep only the identifier. It stays so.
    ///
    /// # Errors
    /// If the system refuses: it needs `CAP_NET_ADMIN`.
    pub fn as_on_the_wire(&self) -> io::Result<()> {
        self.socket.as_on_the_wire()
    }

    /// The interface's station address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        self.socket.address()
    }

    /// Puts the tag back that the kernel has taken out of the frame; false if there is no room.
    fn restore_tag(frame: &mut Frame, tag: [u8; VLAN]) -> bool {
        let end = usize::from(frame.bytes);
        let bytes = frame.buffer.bytes_mut();
        if end < 12 || end + VLAN > bytes.len() {
            return false;
        }
        bytes.copy_within(12..end, 12 + VLAN);
        bytes[12..12 + VLAN].copy_from_slice(&tag);
        frame.bytes += VLAN as u16;
        true
    }
}

impl Wake for PacketPort {
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
        !self.waiting.is_empty()
    }
}

impl Port for PacketPort {
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let limit = budget.min(BATCH);
        while self.slots.len() < limit {
            let Some(buffer) = self.pool.take() else { break };
            self.slots.push(buffer);
        }
        let limit = limit.min(self.slots.len());
        self.counters.system_calls += 1;
        let count = match self.socket.receive(&mut self.slots[..limit], &mut self.arrived) {
            Ok(count) => count,
            // An interface that goes down says so once; `look_after` finds out whether it is gone.
            Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => 0,
            Err(error) => return Err(Trouble::system("cannot receive")(error)),
        };
        self.next = if count < limit { Next::Asleep } else { Next::Now };
        let mut taken = 0;
        let Self { slots, filled, arrived, counters, .. } = self;
        filled.extend(slots.drain(..count));
        for (buffer, arrived) in filled.drain(..).zip(arrived.iter()) {
            let mut frame = Frame { buffer, bytes: arrived.bytes };
            let whole =
                !arrived.truncated && arrived.tag.is_none_or(|tag| Self::restore_tag(&mut frame, tag));
            if !whole {
                counters.errors += 1;
                slots.push(frame.buffer);
                continue;
            }
            taken += 1;
            counters.received += 1;
            counters.received_bytes += u64::from(frame.bytes);
            slots.extend(sink(frame));
        }
        Ok(taken)
    }

    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.waiting.len() == BATCH {
            self.counters.full += 1;
            return Err(frame);
        }
        self.waiting.push(frame);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        while self.gone_out < self.waiting.len() {
            self.counters.system_calls += 1;
            match self.socket.send(&self.waiting[self.gone_out..]) {
                Ok(count) => {
                    for frame in &self.waiting[self.gone_out..self.gone_out + count] {
                        self.counters.sent += 1;
                        self.counters.sent_bytes += u64::from(frame.bytes);
                    }
                    self.gone_out += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => match error.raw_os_error() {
                    // No room in the interface's queue: later.
                    Some(libc::ENOBUFS) => break,
                    // Too long or too short for the interface, or it is down: this frame is lost.
                    Some(libc::EMSGSIZE | libc::EINVAL | libc::ENETDOWN) => {
                        self.counters.unsent += 1;
                        self.gone_out += 1;
                    }
                    Some(libc::ENXIO | libc::ENODEV) => return Err(Trouble::Gone),
                    _ => return Err(Trouble::system("cannot send")(error)),
                },
            }
        }
        for frame in self.waiting.drain(..self.gone_out) {
            self.pool.give(frame.buffer);
        }
        self.gone_out = 0;
        Ok(())
    }

    #[inline]
    fn room(&mut self) -> usize {
        BATCH - self.waiting.len()
    }

    fn in_flight(&mut self) -> usize {
        self.waiting.len()
    }

    fn woken(&mut self) -> Result<(), Trouble> {
        self.next = Next::Now;
        Ok(())
    }

    fn look_after(&mut self) -> Result<(), Trouble> {
        self.link = match self.socket.link() {
            Ok(link) => link,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => {
                return Err(Trouble::Gone);
            }
            Err(error) => return Err(Trouble::system("cannot ask for the link")(error)),
        };
        Ok(())
    }

    fn counters(&mut self) -> Result<Counters, Trouble> {
        self.counters.missed += self.socket.dropped().map_err(Trouble::system("cannot read statistics"))?;
        Ok(self.counters)
    }

    fn frames(&self) -> (u64, u64) {
        (self.counters.received, self.counters.sent)
    }

    fn refresh_link(&mut self) -> Result<(), Trouble> {
        self.look_after()
    }

    fn link(&self) -> Link {
        self.link
    }

    fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }
}
