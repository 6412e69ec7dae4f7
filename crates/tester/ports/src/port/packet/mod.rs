//! An interface as a port, through packet sockets with rings that are shared with the kernel
//! (packet_mmap.rst).
//!
//! A frame is copied once in each direction, between its buffer and a ring. A batch is sent with one system
//! call, past the interface's default queue (but not past netem or a shaper). Receiving takes no system call.
//! Where the kernel cuts UDP messages before an interface without a queue, and completes their checksums
//! (`ethtool -K IFACE tx off`, from Linux 6.2 on), equal test frames pass the kernel as one message, which
//! halves the cost.
//!
//! Received frames are as they are on the wire: VLAN tags, which the kernel takes out of frames, are put
//! back; packets that it has merged (GRO), or leaves to hardware to be cut (TSO), are cut ([`merged`]); and
//! checksums that it leaves to hardware are completed.

mod merged;
mod message;

use super::attached::{ADDRESSES, Attached, HEADER, VLAN};
use super::{Counters, Frame, JUMBO_BUFFER_BYTES, Link, NextPoll, Port, Trouble, Wake};
use kpps_linux::rings::kick;
use kpps_linux::rings::packet::{self, Arrivals, Arrived, DEPARTURES, Departures, Socket};
use kpps_linux::{Interface, ethtool};
use kpps_platform::memory::{BufferPool, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use merged::Merged;
use message::Message;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Frames that wait for a flush at most.
const BATCH: usize = DEPARTURES / 2;

/// An interface of the kernel.
#[derive(Debug)]
pub struct PacketPort {
    attached: Attached,
    arrivals: Socket<Arrivals>,
    departures: Socket<Departures>,
    /// Frames for the next slot, where the kernel cuts messages.
    message: Option<Message>,
    /// Received frames that the kernel has merged.
    merged: Merged,
    merges_datagrams: bool,
    pool: BufferPool,
    /// The buffer for the next received frame.
    slot: Option<PoolBuffer>,
    next_poll: NextPoll,
    epoch: Instant,
    counters: Counters,
}

impl PacketPort {
    /// Opens an interface. From now on this port gets a copy of all its frames.
    ///
    /// # Errors
    /// Errors of the system: no such interface, no right to open packet sockets (`CAP_NET_RAW`).
    pub fn open(name: &str, pool: BufferPool) -> io::Result<Self> {
        let interface = Interface::find(name)?;
        // Later changes of MTU, features and queueing discipline are not followed.
        let longest = interface.mtu()? + HEADER + VLAN;
        let discipline = interface.discipline()?;
        let cuts = packet::cuts(name, &discipline);
        let departures = Socket::sending(&interface, &discipline, longest, cuts)?;
        Ok(Self {
            message: cuts.then(|| Message::new(departures.ring.longest())),
            arrivals: Socket::receiving(&interface, longest)?,
            attached: Attached::to(interface, departures.ring.longest() - VLAN)?,
            departures,
            merged: Merged::new(),
            merges_datagrams: ethtool::features(name).is_ok_and(|all| ethtool::merges_datagrams(&all)),
            pool,
            slot: None,
            next_poll: NextPoll::Now,
            epoch: Instant::now(),
            counters: Counters { missed: Some(0), ..Counters::default() },
        })
    }

    /// Opens an interface once for each of `cores` cores. The ports share its received frames: all frames of
    /// a flow come to one port, by the kernel's hash of their addresses and ports (`PACKET_FANOUT`).
    ///
    /// # Errors
    /// Errors of [`open`](Self::open), and `Unsupported` before Linux 5.18.
    pub fn open_shared(name: &str, cores: usize, pool: &BufferPool) -> io::Result<Vec<Self>> {
        let old = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::INVAL) => io::Error::new(
                io::ErrorKind::Unsupported,
                "several cores need Linux 5.18 or later for packet sockets: use one core",
            ),
            _ => error,
        };
        let (mut ports, mut group) = (Vec::with_capacity(cores), None);
        for _ in 0..cores {
            let port = Self::open(name, pool.clone())?;
            group = Some(port.arrivals.join(group).map_err(old)?);
            ports.push(port);
        }
        Ok(ports)
    }

    /// Receives frames as they are on the wire: the interface neither merges them (GRO) nor takes out VLAN
    /// tags. Some drivers keep only the identifier of a tag that was taken out. The setting stays.
    ///
    /// # Errors
    /// If the system refuses: it needs `CAP_NET_ADMIN`.
    pub fn as_on_the_wire(&self) -> io::Result<()> {
        self.attached.interface().as_on_the_wire()
    }

    /// Whether the kernel merges UDP packets of a flow that it receives: those of others may overtake them.
    pub fn merges_datagrams(&self) -> bool {
        self.merges_datagrams
    }

    /// The interface's station address.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        self.attached.interface().address()
    }

    /// The longest frame that it sends, in bytes without FCS and VLAN tag.
    pub fn longest(&self) -> usize {
        self.attached.longest().min(JUMBO_BUFFER_BYTES - VLAN)
    }

    /// Takes the next received frame into a buffer. Returns its length and the time when the kernel
    /// received it; `Some(None)` if it, or its superpacket, was no use, which is counted; `None` if there
    /// is no frame.
    #[inline]
    fn take(&mut self, into: &mut [u8]) -> Option<Option<(u16, u64)>> {
        let Self { merged, counters, .. } = self;
        let Socket { ring, fd } = &mut self.arrivals;
        let whole = |frame: Option<(u16, u64)>, counters: &mut Counters| {
            counters.errors += u64::from(frame.is_none());
            frame
        };
        if let Some(frame) = merged.take(into) {
            return Some(whole(frame, counters));
        }
        ring.take(|arrived| {
            if arrived.cut.is_merged() {
                return match merged.load(&arrived, fd.as_fd()) {
                    Ok(()) => merged.take(into).and_then(|frame| whole(frame, counters)),
                    Err(frames) => {
                        counters.missed = counters.missed.map(|sum| sum + frames.unwrap_or(1));
                        counters.uncounted += u64::from(frames.is_none());
                        None
                    }
                };
            }
            if arrived.queued {
                // It is longer than the interface's frames are.
                merged.fetch(fd.as_fd());
            }
            whole(copy(&arrived, into).map(|bytes| (bytes, arrived.stamp)), counters)
        })
    }

    /// Counts the frames that the kernel has taken.
    fn reclaim(&mut self) -> Result<(), Trouble> {
        let taken = self.departures.ring.reclaim().map_err(Trouble::system("the kernel refused a frame"))?;
        self.counters.sent += taken.frames;
        self.counters.sent_bytes += taken.bytes;
        Ok(())
    }
}

/// Moves a message into a slot and empties it. Returns the number of frames that had no slot.
#[inline]
fn put(message: &mut Message, ring: &mut Departures) -> u64 {
    let contents = message.contents();
    let cut = message.close();
    let taken = contents.frames == 0 || ring.put_message(message.bytes(), cut, contents);
    message.clear();
    if taken { 0 } else { contents.frames }
}

/// Copies a frame out of its slot, with its VLAN tag and its checksum. Returns its length, or `None` if it is
/// truncated.
#[inline]
fn copy(arrived: &Arrived<'_>, into: &mut [u8]) -> Option<u16> {
    let Arrived { bytes, whole, tag, cut, .. } = *arrived;
    let (head, tail) = match tag {
        Some(_) => bytes.split_at_checked(ADDRESSES)?,
        None => (&[][..], bytes),
    };
    let tag = tag.as_ref().map_or(&[][..], |tag| &tag[..]);
    let length = bytes.len() + tag.len();
    let into = into.get_mut(..length).filter(|_| whole)?;
    let (first, rest) = into.split_at_mut(head.len());
    let (second, third) = rest.split_at_mut(tag.len());
    first.copy_from_slice(head);
    second.copy_from_slice(tag);
    third.copy_from_slice(tail);
    cut.complete(into, tag.len());
    u16::try_from(length).ok()
}

impl Wake for PacketPort {
    #[inline]
    fn next_poll(&self) -> NextPoll {
        self.next_poll
    }
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.arrivals.as_fd())
    }
    fn wants_to_send(&self) -> bool {
        self.departures.ring.waiting() > 0
    }
    /// The kernel does not signal that a slot is free again.
    fn signals_tx_space(&self) -> bool {
        false
    }
}

impl Port for PacketPort {
    #[inline]
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        self.receive_stamped(budget, |frame, _| sink(frame))
    }

    #[inline]
    fn receive_stamped(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let mut taken = 0;
        self.next_poll = NextPoll::Now;
        for _ in 0..budget {
            let Some(mut buffer) = self.slot.take().or_else(|| self.pool.take()) else { break };
            match self.take(buffer.bytes_mut()) {
                None => {
                    self.slot = Some(buffer);
                    self.next_poll = NextPoll::Asleep;
                    break;
                }
                Some(None) => self.slot = Some(buffer),
                Some(Some((bytes, stamp))) => {
                    taken += 1;
                    self.counters.received += 1;
                    self.counters.received_bytes += u64::from(bytes);
                    self.slot = sink(Frame { buffer, bytes }, Some(stamp));
                }
            }
        }
        Ok(taken)
    }

    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if !self.attached.fits(frame.as_ref()) {
            self.counters.tx_dropped += 1;
        } else if self.departures.ring.waiting() >= BATCH || !self.departures.ring.put(frame.as_ref()) {
            self.counters.full += 1;
            return Err(frame);
        }
        self.pool.give(frame.buffer);
        Ok(())
    }

    #[inline]
    fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut [u8]) -> u16) -> usize {
        let most = self.departures.ring.free(most.min(BATCH - self.departures.ring.waiting().min(BATCH)));
        // A frame in the ring has left its buffer: one buffer is enough.
        let Some(buffer) = self.pool.take() else { return 0 };
        let mut frame = Frame { buffer, bytes: 0 };
        let (ring, tx_dropped) = (&mut self.departures.ring, &mut self.counters.tx_dropped);
        for _ in 0..most {
            frame.bytes = write(frame.buffer.bytes_mut());
            let bytes = frame.as_ref();
            match &mut self.message {
                _ if !self.attached.fits(bytes) => *tx_dropped += 1,
                None => *tx_dropped += u64::from(!ring.put(bytes)),
                Some(message) => {
                    if !message.add(bytes) {
                        *tx_dropped += put(message, ring);
                        // The first one always fits.
                        message.add(bytes);
                    }
                }
            }
        }
        if let Some(message) = &mut self.message {
            *tx_dropped += put(message, ring);
        }
        self.pool.give(frame.buffer);
        most
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        if self.departures.ring.waiting() == 0 {
            return Ok(());
        }
        self.counters.system_calls += 1;
        match kick(self.departures.as_fd()) {
            Ok(()) => {}
            // The interface's queue is full, or it is down: later, if at all.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR | Errno::NETDOWN) => {}
            Err(Errno::NXIO | Errno::NODEV) => return Err(Trouble::Gone),
            Err(error) => return Err(Trouble::system("cannot send")(error.into())),
        }
        self.reclaim()
    }

    #[inline]
    fn tx_space(&mut self) -> usize {
        self.departures.ring.free(BATCH - self.departures.ring.waiting().min(BATCH))
    }

    fn in_flight(&mut self) -> usize {
        self.departures.ring.waiting()
    }

    fn woken(&mut self) -> Result<(), Trouble> {
        self.next_poll = NextPoll::Now;
        Ok(())
    }

    fn maintain(&mut self) -> Result<(), Trouble> {
        self.attached.maintain()
    }

    fn counters(&mut self) -> Result<Counters, Trouble> {
        let dropped = self.arrivals.dropped().map_err(Trouble::system("cannot read statistics"))?;
        self.counters.missed = self.counters.missed.map(|sum| sum + dropped);
        if self.merged.seen {
            self.counters.uncounted += dropped;
        }
        Ok(self.counters)
    }

    fn frames(&self) -> (u64, u64) {
        (self.counters.received, self.counters.sent)
    }

    fn refresh_link(&mut self) -> Result<(), Trouble> {
        self.attached.maintain()
    }

    fn link(&self) -> Link {
        self.attached.link()
    }

    fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }
}
