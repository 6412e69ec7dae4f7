//! An interface, or one queue of it, as a port, through `AF_XDP` sockets: one for each queue, all with the
//! same memory.
//!
//! The sockets use the pool's memory. Where the driver can, the card reads and writes the buffers themselves,
//! and a frame moves from one such port to another, or to a card that kpps drives, without a copy. Otherwise
//! the kernel copies it once. The kernel no longer gets the frames of these queues.
//!
//! With several queues the card distributes flows (`ethtool -X`, `ethtool -N`). The queues are polled in
//! turn: frames are in order within a queue, but not between queues. Only the first queue sends: so frames
//! stay in order, one system call sends them all, and a core does not send faster by two queues.

use super::any_of::AnyOf;
use super::attached::Attached;
use super::{Counters, Frame, Link, NextPoll, Port, Trouble, Wake};
use kpps_linux::rings::xdp::{KERNEL_HEADROOM, Outlet, SENDING, Socket};
use kpps_linux::rings::{kick, wake_receiver};
use kpps_linux::{Interface, Redirect, ethtool};
use kpps_platform::memory::{BufferPool, Memory, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions, XdpStatistics};
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Headroom of the pool's chunks: the first bytes are the kernel's.
pub(super) const HEADROOM: usize = KERNEL_HEADROOM;
/// Entries of a queue's receive rings: 2 ms at a million frames a second.
const RECEIVING: u32 = 2048;
/// Entries of the receive rings of all queues. There is a buffer for each. With more queues each receives
/// less.
const RECEIVING_IN_ALL: u32 = 4 * RECEIVING;
/// Entries of a queue's receive rings at least: as many as a driver takes at once.
const RECEIVING_LEAST: u32 = 64;
/// How long a frame may wait in a receive ring, and how long the program may take for a burst, in ns.
const LONGEST_WAIT_NS: u64 = 10_000_000_000;
const BURST_NS: u64 = 1_000_000_000;
/// How long a closed socket may still occupy its queue.
const LET_GO: Duration = Duration::from_secs(2);
/// System calls that send a whole ring, with 32 frames each.
const CALLS: u32 = SENDING / 32;

/// Entries of the receive ring of each of `queues` queues: a power of two.
fn receiving(queues: u32) -> u32 {
    let share = RECEIVING_IN_ALL / queues.clamp(1, RECEIVING_IN_ALL / RECEIVING_LEAST);
    (1 << share.ilog2()).min(RECEIVING)
}

/// This queue, or all of the interface.
fn queues_of(interface: &str, queue: Option<u32>) -> io::Result<Range<u32>> {
    Ok(match queue {
        Some(queue) => queue..queue.checked_add(1).ok_or(io::ErrorKind::InvalidInput)?,
        None => 0..ethtool::receive_queues(interface)?,
    })
}

/// Buffers that a port keeps, to receive into and to send from; with several cores, the ports of all.
pub(super) fn buffers(interface: &str, queue: Option<u32>, cores: usize) -> usize {
    if cores > 1 {
        return cores * (receiving(1) + SENDING) as usize;
    }
    // Opening the port reports the error.
    let queues = queues_of(interface, queue).map_or(1, |queues| queues.len() as u32);
    (queues * receiving(queues) + SENDING) as usize
}

/// The buffers that the kernel has, each at its chunk.
#[derive(Debug)]
struct KernelOwned {
    memory: Memory,
    chunk: usize,
    buffers: Vec<Option<PoolBuffer>>,
}

impl KernelOwned {
    /// Records a buffer and returns its address for the kernel. Returns the buffer if it is not one of the
    /// memory's chunks.
    #[inline]
    fn give(&mut self, buffer: PoolBuffer) -> Result<u64, PoolBuffer> {
        let address = (buffer.bytes().as_ptr() as usize).wrapping_sub(self.memory.mapping().address());
        match self.buffers.get_mut(address / self.chunk) {
            Some(place @ None) if address % self.chunk == HEADROOM => {
                *place = Some(buffer);
                Ok(address as u64)
            }
            _ => Err(buffer),
        }
    }

    /// The buffer at an address that the kernel returns; `None` if the kernel has none there.
    #[inline]
    fn take_back(&mut self, address: u64) -> Option<PoolBuffer> {
        let address = usize::try_from(address).ok()?;
        self.buffers.get_mut(address / self.chunk)?.take()
    }
}

/// A queue: its number and socket.
#[derive(Debug)]
struct Queue {
    number: u32,
    socket: Socket,
    /// Receive buffers that the kernel lacks. It has at most one for each entry, whether a frame is in it or
    /// not: more would be missing for sending, and the queue could not hold more frames.
    wanted: u32,
}

/// An interface, or a queue of it.
#[derive(Debug)]
pub struct XdpPort {
    /// At least one; the first one sends.
    queues: Box<[Queue]>,
    outlet: Outlet,
    /// The queue that is polled next.
    turn: usize,
    /// One descriptor for several queues.
    any: Option<AnyOf>,
    program: Arc<Redirect>,
    attached: Attached,
    zero_copy: bool,
    kernel_owned: KernelOwned,
    pool: BufferPool,
    /// Receive buffers that the kernel does not have.
    slots: Vec<PoolBuffer>,
    /// Frames not known to be sent yet.
    pending: usize,
    next_poll: NextPoll,
    epoch: Instant,
    /// The offset of International Atomic Time from the time of day, in s: XDP programs know only the former.
    tai_ahead_s: u64,
    counters: Counters,
}

impl XdpPort {
    /// Opens an interface with all its receive queues, or with one. `pool` consists of `memory`'s chunks of
    /// `chunk` bytes ([`Memory::chunks`]) with a headroom of 256.
    ///
    /// # Errors
    /// Errors of the system: no such interface or queue; no right (`CAP_NET_RAW` for the socket, `CAP_BPF`
    /// and `CAP_NET_ADMIN` for the program, `CAP_IPC_LOCK` or `ulimit -l` for the memory); `EBUSY` if another
    /// program has the interface, or another socket one of the queues; `Unsupported` if the kernel merges
    /// packets before the sockets get them.
    pub fn open(
        name: &str,
        queue: Option<u32>,
        memory: &Memory,
        chunk: usize,
        pool: BufferPool,
    ) -> io::Result<Self> {
        let mut numbers = queues_of(name, queue)?;
        let interface = Interface::find(name)?;
        let entries = receiving(numbers.len() as u32);
        let (socket, outlet) = Socket::new(memory.mapping(), chunk, HEADROOM, entries)?;
        let program = Redirect::on(&interface)?;
        if !program.is_in_driver() && ethtool::features(name).is_ok_and(|all| ethtool::merges_datagrams(&all))
        {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "its driver does not support XDP, so the kernel merges packets (GRO) before AF_XDP gets them: \
                    `ethtool -K {name} gro off`, or use packet:{name}, which cuts them apart"
                ),
            ));
        }
        let first = numbers.next().unwrap_or(0);
        patiently(|| socket.bind(&interface, first))?;
        let mut queues = vec![Queue { number: first, socket, wanted: entries }];
        for number in numbers {
            let socket = Socket::receiver(entries)?;
            patiently(|| socket.bind_beside(&queues[0].socket, &interface, number))?;
            queues.push(Queue { number, socket, wanted: entries });
        }
        let chunks = memory.mapping().bytes() / chunk;
        let kernel_owned =
            KernelOwned { memory: memory.clone(), chunk, buffers: (0..chunks).map(|_| None).collect() };
        let mut port = Self {
            zero_copy: queues[0].socket.is_zero_copy()?,
            any: if queues.len() > 1 {
                Some(AnyOf::of(queues.iter().map(|queue| queue.socket.as_fd()))?)
            } else {
                None
            },
            queues: queues.into(),
            outlet,
            turn: 0,
            program,
            attached: Attached::to(interface, chunk - HEADROOM)?,
            kernel_owned,
            pool,
            slots: Vec::with_capacity(RECEIVING as usize),
            pending: 0,
            next_poll: NextPoll::Now,
            epoch: Instant::now(),
            tai_ahead_s: tai_ahead_s(),
            counters: Counters::default(),
        };
        for queue in 0..port.queues.len() {
            port.refill(queue);
        }
        for Queue { number, socket, .. } in &port.queues {
            port.program.give(*number, socket.as_fd())?;
        }
        Ok(port)
    }

    /// Opens an interface once for each of `cores` cores: port k has queue k, to receive and to send.
    ///
    /// # Errors
    /// Errors of [`open`](Self::open), and `InvalidInput` if the interface does not have one receive queue
    /// for each core.
    pub fn open_shared(
        name: &str,
        cores: usize,
        memory: &Memory,
        chunk: usize,
        pool: &BufferPool,
    ) -> io::Result<Vec<Self>> {
        let queues = ethtool::receive_queues(name)?;
        if queues as usize != cores {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{cores} cores need {cores} receive queues, and {name} has {queues}: give {queues} cores, \
                    or set the queues with `ethtool -L {name}`"
                ),
            ));
        }
        (0..queues).map(|queue| Self::open(name, Some(queue), memory, chunk, pool.clone())).collect()
    }

    /// The number of receive queues. Frames of different ones may have overtaken each other.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The number of its receive queue, if it is only one.
    pub fn only_queue(&self) -> Option<u32> {
        if let [only] = &self.queues[..] { Some(only.number) } else { None }
    }

    /// Whether the driver uses the buffers themselves (zero copy). All queues share them, so it is true for
    /// all or for none.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Whether the driver passes frames on before the kernel's stack sees them.
    pub fn is_in_driver(&self) -> bool {
        self.program.is_in_driver()
    }

    /// The longest frame that it sends, in bytes without FCS and VLAN tag.
    pub fn longest(&self) -> usize {
        self.attached.longest()
    }

    /// The interface's station address.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        self.attached.interface().address()
    }

    /// Gives the kernel the receive buffers that it lacks at a queue, as far as there are any.
    #[inline]
    fn refill(&mut self, queue: usize) {
        let Queue { socket: Socket { fill, .. }, wanted, .. } = &mut self.queues[queue];
        let before = *wanted;
        for _ in 0..before {
            let Some(buffer) = self.slots.pop().or_else(|| self.pool.take()) else { break };
            match self.kernel_owned.give(buffer) {
                // There is space: the ring has an entry for each.
                Ok(address) => *wanted -= u32::from(fill.put(address)),
                // It is another pool's and returns there.
                Err(buffer) => drop(buffer),
            }
        }
        if *wanted < before {
            fill.publish();
        }
    }

    /// Receives at most `budget` frames, with the times of their arrival if these are wanted (`STAMPED`).
    #[inline]
    fn receive_all<const STAMPED: bool>(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> usize {
        let mut taken = 0;
        self.next_poll = NextPoll::Now;
        // The queue polled last is the last of the next round, and has used no more than the budget: a flood
        // on one queue does not starve the others.
        for _ in 0..self.queues.len() {
            let queue = self.turn;
            self.turn = if queue + 1 < self.queues.len() { queue + 1 } else { 0 };
            let (frames, emptied) = self.receive_by::<STAMPED>(queue, budget - taken, &mut sink);
            taken += frames;
            if !emptied {
                return taken;
            }
        }
        self.next_poll = NextPoll::Asleep;
        taken
    }

    /// Receives at most `budget` frames from a queue. Returns their number, and whether none is left.
    #[inline]
    fn receive_by<const STAMPED: bool>(
        &mut self,
        queue: usize,
        budget: usize,
        sink: &mut impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> (usize, bool) {
        let (mut taken, mut damaged, mut emptied, mut now_ns) = (0, 0, false, None);
        let Queue { socket, wanted, .. } = &mut self.queues[queue];
        for _ in 0..budget {
            let Some(descriptor) = socket.received.take() else {
                emptied = true;
                break;
            };
            let Some(mut buffer) = self.kernel_owned.take_back(descriptor.addr) else {
                damaged += 1;
                continue;
            };
            let bytes = descriptor.len as usize;
            // In one piece, and at the expected place.
            let whole = descriptor.addr as usize % self.kernel_owned.chunk == HEADROOM
                && bytes <= buffer.capacity()
                && !descriptor.options.contains(XdpDescOptions::XDP_PKT_CONTD);
            if !whole {
                damaged += 1;
                self.slots.push(buffer);
                continue;
            }
            taken += 1;
            self.counters.received += 1;
            self.counters.received_bytes += bytes as u64;
            let stamp = if STAMPED {
                let now = *now_ns.get_or_insert_with(|| in_ns(clock_gettime(ClockId::Realtime)));
                stamp(buffer.take_word_before(), self.tai_ahead_s, now)
            } else {
                None
            };
            self.slots.extend(sink(Frame { buffer, bytes: bytes as u16 }, stamp));
        }
        if taken + damaged > 0 {
            self.counters.errors += damaged as u64;
            *wanted += (taken + damaged) as u32;
            socket.received.release();
            self.refill(queue);
        }
        let socket = &self.queues[queue].socket;
        if emptied && socket.fill.needs_wakeup() {
            // A driver that has run out of buffers waits until a wake-up reports new ones.
            self.counters.system_calls += 1;
            wake_receiver(socket.as_fd());
        }
        (taken, emptied)
    }

    /// Takes buffers of sent frames back.
    #[inline]
    fn reclaim(&mut self) {
        let before = self.pending;
        while let Some(address) = self.outlet.sent.take() {
            self.pending = self.pending.saturating_sub(1);
            if let Some(buffer) = self.kernel_owned.take_back(address) {
                self.pool.give(buffer);
            }
        }
        if self.pending < before {
            self.outlet.sent.release();
        }
    }

    /// Adds a frame to the transmit ring.
    #[inline]
    fn put(&mut self, frame: Frame) -> Result<(), Frame> {
        let Frame { buffer, bytes } = frame;
        match self.kernel_owned.give(buffer) {
            Ok(addr)
                if self.outlet.send.put(XdpDesc {
                    addr,
                    len: bytes.into(),
                    options: XdpDescOptions::empty(),
                }) =>
            {
                self.pending += 1;
                self.counters.sent += 1;
                self.counters.sent_bytes += u64::from(bytes);
                Ok(())
            }
            Ok(addr) => match self.kernel_owned.take_back(addr) {
                Some(buffer) => Err(Frame { buffer, bytes }),
                None => Ok(()),
            },
            Err(buffer) => Err(Frame { buffer, bytes }),
        }
    }
}

/// A time in ns.
fn in_ns(time: Timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The offset of International Atomic Time from the time of day, in whole s: 37 since 2017, and 0 where the
/// kernel has not been set to it (clock_gettime(2)).
fn tai_ahead_s() -> u64 {
    let Ok(tai) = clock_gettime_dynamic(DynamicClockId::Tai) else { return 0 };
    let ahead_ns = in_ns(tai).saturating_sub(in_ns(clock_gettime(ClockId::Realtime)));
    (ahead_ns + 500_000_000) / 1_000_000_000
}

/// The time of day of a frame's arrival, in ns since 1970, by the word before it; `now_ns` is the time of day
/// of the program. `None` if it is no time of the last seconds: the driver leaves no room for metadata, and
/// whatever is in the word was not written for this frame.
#[inline]
fn stamp(tai_ns: u64, tai_ahead_s: u64, now_ns: u64) -> Option<u64> {
    let came_ns = tai_ns.wrapping_sub(tai_ahead_s.wrapping_mul(1_000_000_000));
    // A burst goes on to arrive while it is taken.
    let age_ns = (now_ns + BURST_NS).wrapping_sub(came_ns);
    (age_ns <= BURST_NS + LONGEST_WAIT_NS).then_some(came_ns)
}

/// Binds a socket. The kernel takes some time to release the queue of a closed socket.
fn patiently(bind: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let end = Instant::now() + LET_GO;
    loop {
        match bind() {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) && Instant::now() < end => {
                std::thread::sleep(LET_GO / 200);
            }
            other => return other,
        }
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        for queue in &self.queues {
            self.program.take_back(queue.number);
        }
    }
}

impl Wake for XdpPort {
    #[inline]
    fn next_poll(&self) -> NextPoll {
        self.next_poll
    }
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(match &self.any {
            None => self.queues[0].socket.as_fd(),
            Some(any) => any.fd(self.wants_to_send()),
        })
    }
    fn wants_to_send(&self) -> bool {
        !self.outlet.send.is_empty()
    }
    /// The kernel does not signal that frames which it has taken were sent.
    fn signals_tx_space(&self) -> bool {
        self.wants_to_send()
    }
}

impl Port for XdpPort {
    #[inline]
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        Ok(self.receive_all::<false>(budget, |frame, _| sink(frame)))
    }

    #[inline]
    fn receive_stamped(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        Ok(self.receive_all::<true>(budget, sink))
    }

    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if !self.attached.fits(frame.as_ref()) {
            self.counters.tx_dropped += 1;
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
    fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut [u8]) -> u16) -> usize {
        let most = most.min(self.tx_space());
        for count in 0..most {
            let Some(mut buffer) = self.pool.take() else { return count };
            let bytes = write(buffer.bytes_mut());
            if let Err(refused) = self.send(Frame { buffer, bytes }) {
                self.pool.give(refused.buffer);
                return count;
            }
        }
        most
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        self.outlet.send.publish();
        // Where the kernel copies, it sends only a limited number of frames in one call.
        for _ in 0..CALLS {
            if self.outlet.send.is_empty() || !self.outlet.send.needs_wakeup() {
                break;
            }
            self.counters.system_calls += 1;
            match kick(self.queues[0].socket.as_fd()) {
                Ok(()) => break,
                // There is more to send than one call does.
                Err(Errno::AGAIN | Errno::INTR) => self.reclaim(),
                // The interface's queue is full, or it is down: later, if at all.
                Err(Errno::BUSY | Errno::NOBUFS | Errno::NETDOWN) => break,
                Err(Errno::NXIO | Errno::NODEV) => return Err(Trouble::Gone),
                Err(error) => return Err(Trouble::system("cannot send")(error.into())),
            }
        }
        Ok(())
    }

    #[inline]
    fn tx_space(&mut self) -> usize {
        self.reclaim();
        SENDING as usize - self.pending
    }

    fn in_flight(&mut self) -> usize {
        self.reclaim();
        self.pending
    }

    fn woken(&mut self) -> Result<(), Trouble> {
        self.next_poll = NextPoll::Now;
        Ok(())
    }

    fn maintain(&mut self) -> Result<(), Trouble> {
        self.attached.maintain()
    }

    fn counters(&mut self) -> Result<Counters, Trouble> {
        let mut counters = Counters { missed: Some(0), no_buffer: Some(0), ..self.counters };
        for queue in &self.queues {
            let statistics = queue.socket.statistics().map_err(Trouble::system("cannot read statistics"))?;
            add_received(&mut counters, &statistics);
            // Invalid descriptors in the transmit ring were not sent.
            counters.tx_dropped += statistics.tx_invalid_descs;
            counters.sent = counters.sent.saturating_sub(statistics.tx_invalid_descs);
        }
        Ok(counters)
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

/// Adds what the kernel has counted on reception of a queue. Kernels before 5.9 count a full ring among the
/// dropped frames, and do not count an empty fill ring.
fn add_received(counters: &mut Counters, statistics: &XdpStatistics) {
    let missed = statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0);
    counters.missed = counters.missed.map(|sum| sum + missed);
    let no_buffer = counters.no_buffer.zip(statistics.rx_fill_ring_empty_descs);
    counters.no_buffer = no_buffer.map(|(sum, times)| sum + times);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_does_not_say_how_often_the_fill_ring_was_empty() {
        let statistics = |ring_full, fill_ring_empty| {
            let mut counters = Counters { missed: Some(1), no_buffer: Some(2), ..Counters::default() };
            let statistics = XdpStatistics {
                rx_dropped: 10,
                rx_invalid_descs: 0,
                tx_invalid_descs: 0,
                rx_ring_full: ring_full,
                rx_fill_ring_empty_descs: fill_ring_empty,
                tx_ring_empty_descs: fill_ring_empty,
            };
            add_received(&mut counters, &statistics);
            (counters.missed, counters.no_buffer)
        };
        assert_eq!(statistics(Some(20), Some(30)), (Some(31), Some(32)));
        assert_eq!(statistics(None, None), (Some(11), None));
    }

    #[test]
    fn a_word_that_is_no_recent_time_is_none_of_the_frame() {
        const S: u64 = 1_000_000_000;
        let now = 1_700_000_000 * S;
        for ahead in [0, 37] {
            let of = |came: u64| stamp(came.wrapping_add(ahead * S), ahead, now);
            assert_eq!(of(now - 5_000), Some(now - 5_000));
            assert_eq!(of(now + 5_000), Some(now + 5_000), "it came after the burst was begun");
            for other in [0, 1, now - 11 * S, now + 2 * S, u64::MAX, 0u64.wrapping_sub(ahead * S)] {
                assert_eq!(of(other), None, "{other}");
            }
        }
        assert!(tai_ahead_s() < 100);
    }

    #[test]
    fn many_queues_share_the_buffers() {
        for (queues, entries) in
            [(1, 2048), (4, 2048), (5, 1024), (8, 1024), (9, 512), (64, 128), (128, 64), (1000, 64)]
        {
            assert_eq!(receiving(queues), entries, "{queues}");
        }
        assert_eq!(buffers("no-such", None, 1), (RECEIVING + SENDING) as usize);
        assert_eq!(queues_of("no-such", Some(3)).ok(), Some(3..4), "binding reports the error");
        assert!(queues_of("no-such", None).is_err() && queues_of("lo", Some(u32::MAX)).is_err());
    }
}
