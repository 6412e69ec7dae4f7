//! Ports: where a program receives and sends frames.
//!
//! - [`CardPort`] is our driver on a card: its receive and transmit halves, a service that schedules polls,
//!   and interrupts.
//! - [`XdpPort`] is an interface of the kernel, or a queue of it, through `AF_XDP`.
//! - [`PacketPort`] is an interface of the kernel, through `AF_PACKET`.
//! - [`DpdkPort`] is a device that DPDK drives, or a queue of it.
//! - [`CoresPort`] is one of the last three on several cores, with a port of its kind for each core.
//! - [`UdpPort`] is a UDP socket, which needs no privilege.
//! - [`AnyPort`] is any of them; [`open`] makes them from their names.
//!
//! Frames move in bursts, in buffers of one pool per process: between two cards nothing is copied. No code
//! here locks, allocates or reads the clock for a frame; a burst costs a card one tail write in each
//! direction. A port never blocks: an idle caller calls [`wait`](wait()), which sleeps until a port must be
//! polled.

mod any;
#[cfg(target_os = "linux")]
mod any_of;
#[cfg(target_os = "linux")]
mod attached;
#[cfg(target_os = "linux")]
mod card;
#[cfg(target_os = "linux")]
mod choice;
#[cfg(target_os = "linux")]
mod cores;
#[cfg(target_os = "linux")]
mod counted;
#[cfg(target_os = "linux")]
mod dpdk;
mod memory;
#[cfg(target_os = "linux")]
mod missed;
#[cfg(target_os = "linux")]
mod open;
#[cfg(target_os = "linux")]
mod packet;
mod ready;
pub mod run;
mod udp;
#[cfg(not(target_os = "linux"))]
mod udp_only;
mod wait;
#[cfg(target_os = "linux")]
mod xdp;

pub use any::{AnyPort, Options, RING, ServiceKind};
#[cfg(target_os = "linux")]
pub use card::{CardPort, Line};
#[cfg(target_os = "linux")]
pub use choice::choose;
#[cfg(target_os = "linux")]
pub use cores::CoresPort;
#[cfg(target_os = "linux")]
pub use dpdk::DpdkPort;
pub use memory::MemoryPort;
#[cfg(target_os = "linux")]
pub use open::open;
#[cfg(target_os = "linux")]
pub use packet::PacketPort;
pub use ready::{NotReady, ready};
pub use udp::UdpPort;
#[cfg(not(target_os = "linux"))]
pub use udp_only::{choose, open};
pub use wait::wait;
#[cfg(target_os = "linux")]
pub use xdp::XdpPort;

use kpps_platform::Buffer;
use kpps_platform::memory::{BufferPool, PoolBuffer};

/// Bytes of a buffer for frames of up to 9018 bytes with FCS, with tags and labels before the packet.
const JUMBO_BUFFER_BYTES: usize = 9216 + 64;

/// The system's type of what becomes readable when a port has received something.
#[cfg(unix)]
pub type Descriptor<'p> = std::os::fd::BorrowedFd<'p>;
/// The system's type of what becomes readable when a port has received something.
#[cfg(windows)]
pub type Descriptor<'p> = std::os::windows::io::BorrowedSocket<'p>;

/// A frame in its buffer.
#[derive(Debug)]
pub struct Frame {
    /// The buffer.
    pub buffer: PoolBuffer,
    /// Length in bytes, without FCS. Never more than the buffer holds.
    pub bytes: u16,
}

impl AsRef<[u8]> for Frame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let bytes = self.buffer.bytes();
        bytes.get(..self.bytes.into()).unwrap_or(bytes)
    }
}

impl AsMut<[u8]> for Frame {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        let bytes = self.buffer.bytes_mut();
        let end = bytes.len().min(self.bytes.into());
        &mut bytes[..end]
    }
}

impl kpps_apps::Resize for Frame {
    fn resize(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.buffer.bytes().len();
        if let (true, Ok(bytes)) = (fits, u16::try_from(bytes)) {
            self.bytes = bytes;
        }
        fits
    }
}

/// When a port must be polled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextPoll {
    /// Now.
    Now,
    /// At this time, in ns of the port's clock.
    At(u64),
    /// When its file descriptor is readable.
    Asleep,
}

/// Counters of a port since it was opened. `None` is a counter that this port or its system does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub received: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Frames sent: a card has them in its ring, a kernel has taken them.
    pub sent: u64,
    /// Their bytes, without FCS.
    pub sent_bytes: u64,
    /// Times that a frame was refused because the transmit queue was full.
    pub full: u64,
    /// Received frames lost in a full queue, before any software saw them: MPC of a card, `tp_drops` of a
    /// packet socket, dropped frames and a full ring of an XDP socket. A UDP socket counts them on Linux
    /// only.
    pub missed: Option<u64>,
    /// Of what is counted as missed, superpackets whose numbers of frames are not known.
    pub uncounted: u64,
    /// Times that a frame found no receive descriptor: RNBC of a card, an empty fill ring of an XDP socket
    /// since Linux 5.9. A card's frame waits in its FIFO and is not lost yet; QEMU's e1000 drops it at once
    /// and counts it as missed, too.
    pub no_buffer: Option<u64>,
    /// Received frames dropped because they were damaged or had an impossible length.
    pub errors: u64,
    /// Frames accepted for sending that the device or the kernel did not send.
    pub tx_dropped: u64,
    /// Interrupts handled.
    pub interrupts: u64,
    /// Register reads.
    pub register_reads: u64,
    /// Register writes.
    pub register_writes: u64,
    /// Tail writes in both directions.
    pub doorbells: u64,
    /// Descriptors written only to get a status report.
    pub report_requests: u64,
    /// System calls for frames.
    pub system_calls: u64,
    /// Resets because the device hung.
    pub resets: u64,
}

impl Counters {
    /// These and those of another port together. A counter that one of them does not have is unknown.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        let both = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Self {
            received: self.received + other.received,
            received_bytes: self.received_bytes + other.received_bytes,
            sent: self.sent + other.sent,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            full: self.full + other.full,
            missed: both(self.missed, other.missed),
            uncounted: self.uncounted + other.uncounted,
            no_buffer: both(self.no_buffer, other.no_buffer),
            errors: self.errors + other.errors,
            tx_dropped: self.tx_dropped + other.tx_dropped,
            interrupts: self.interrupts + other.interrupts,
            register_reads: self.register_reads + other.register_reads,
            register_writes: self.register_writes + other.register_writes,
            doorbells: self.doorbells + other.doorbells,
            report_requests: self.report_requests + other.report_requests,
            system_calls: self.system_calls + other.system_calls,
            resets: self.resets + other.resets,
        }
    }

    /// Received frames lost in a full queue since an earlier reading; `None` if their number is not known.
    pub fn missed_since(&self, before: &Self) -> Option<u64> {
        let missed = self.missed?.saturating_sub(before.missed?);
        (self.uncounted == before.uncounted).then_some(missed)
    }
}

/// The state of a port's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Frames can pass.
    pub up: bool,
    /// Mb/s, if known.
    pub speed_mbps: Option<u32>,
}

/// An error from which a port cannot recover.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The device has left the bus, or the interface is gone.
    #[error("the device has gone: it no longer answers")]
    Gone,
    /// The driver gave up.
    #[error("the driver gave up: {0}")]
    Driver(kpps_driver::Error),
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// The failed action.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// An error of one port of several.
    #[error("{port}: {trouble}")]
    At {
        /// The port's name.
        port: String,
        /// The error.
        trouble: Box<Trouble>,
    },
}

impl Trouble {
    /// The same, with the name of the port.
    pub fn at(self, port: &str) -> Self {
        Self::At { port: port.to_owned(), trouble: Box::new(self) }
    }
}

impl From<kpps_driver::Error> for Trouble {
    fn from(error: kpps_driver::Error) -> Self {
        match error {
            kpps_driver::Error::Gone => Self::Gone,
            other => Self::Driver(other),
        }
    }
}

impl Trouble {
    fn system(what: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// A port, as [`wait`](wait()) uses it.
pub trait Wake {
    /// When the port must be polled.
    fn next_poll(&self) -> NextPoll;
    /// The port's clock, in ns.
    fn now_ns(&self) -> u64;
    /// The descriptor that becomes readable when a port with [`NextPoll::Asleep`] must be polled, if it has
    /// one.
    fn fd(&self) -> Option<Descriptor<'_>>;
    /// Whether the port waits for its descriptor to become writable: it has frames left to send.
    fn wants_to_send(&self) -> bool {
        false
    }
    /// Whether a full transmit queue wakes the port when it has space again.
    fn signals_tx_space(&self) -> bool {
        true
    }
}

/// Where frames are received and sent.
pub trait Port: Wake {
    /// Receives at most `budget` frames, and returns their number. `sink` consumes each frame and returns a
    /// buffer for the next one: that of this frame, another, or `None`.
    ///
    /// # Errors
    /// [`Trouble`]. Frames may have been received nevertheless.
    fn receive(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble>;

    /// As [`receive`](Self::receive), with the time when the kernel received each frame, in ns since 1970,
    /// where the port has it. That time does not contain the delay until this program runs.
    ///
    /// # Errors
    /// Errors of [`receive`](Self::receive).
    fn receive_stamped(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        self.receive(budget, |frame| sink(frame, None))
    }

    /// Queues a frame, which is sent with the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// The frame, if the queue is full.
    fn send(&mut self, frame: Frame) -> Result<(), Frame>;

    /// Queues frames until the queue is full or there are no more, and returns their number. A frame is taken
    /// from the iterator only if there is space for it. A frame that the port can never send is dropped and
    /// not counted.
    fn send_burst(&mut self, frames: &mut impl Iterator<Item = Frame>) -> usize {
        let mut count = 0;
        while self.tx_space() > 0
            && let Some(frame) = frames.next()
        {
            count += usize::from(self.send(frame).is_ok());
        }
        count
    }

    /// Queues at most `most` frames that `write` writes into buffers of frames already sent, and returns
    /// their number; 0 if the port keeps no such buffers. `write` returns the length in bytes without FCS. It
    /// may write only what differs from frame to frame, if all buffers of the pool have the rest.
    fn send_again(&mut self, most: usize, write: impl FnMut(&mut [u8]) -> u16) -> usize {
        let _ = (most, write);
        0
    }

    /// Whether it can queue [fillers](kpps_frames::fillers).
    fn sends_fillers(&self) -> bool {
        false
    }

    /// Queues a filler of this length in bytes with FCS. It is no frame of any counter. Returns false if the
    /// queue is full, or if the port [sends no fillers](Self::sends_fillers).
    fn send_filler(&mut self, bytes: u16) -> bool {
        let _ = bytes;
        false
    }

    /// Sends the queued frames.
    ///
    /// # Errors
    /// [`Trouble`].
    fn flush(&mut self) -> Result<(), Trouble>;

    /// Frames that can be queued now. Takes buffers of sent frames back.
    fn tx_space(&mut self) -> usize;

    /// Queued frames that are not known to be sent yet. Takes buffers of sent frames back.
    fn in_flight(&mut self) -> usize;

    /// Handles a wake-up, if there was one. Call it after [`wait`](wait()).
    ///
    /// # Errors
    /// [`Trouble`].
    fn woken(&mut self) -> Result<(), Trouble>;

    /// Does periodic work: link state, hang detection. Call it some times a second.
    ///
    /// # Errors
    /// [`Trouble`].
    fn maintain(&mut self) -> Result<(), Trouble>;

    /// The counters. Reads statistics of the device or the kernel.
    ///
    /// # Errors
    /// [`Trouble`].
    fn counters(&mut self) -> Result<Counters, Trouble>;

    /// Frames received and sent so far. Reads no register.
    fn frames(&self) -> (u64, u64);

    /// The link's last known state.
    fn link(&self) -> Link;

    /// Reads the link's state.
    ///
    /// # Errors
    /// [`Trouble`].
    fn refresh_link(&mut self) -> Result<(), Trouble>;

    /// The pool to which buffers of sent frames return.
    fn pool(&mut self) -> &mut BufferPool;
}
