//! Ports: where a program takes frames in and sends them out, whatever is behind.
//!
//! - [`CardPort`] is our driver on a card: the driver's halves, a service that says when to look, and interrupts.
//! - [`XdpPort`] is an interface of the kernel, or a queue of it, through `AF_XDP`.
//! - [`PacketPort`] is an interface of the kernel, through `AF_PACKET`.
//! - [`UdpPort`] is a UDP socket, which needs no privilege.
//! - [`AnyPort`] is any of them; [`open`] makes them from their names.
//!
//! Frames go in bursts and lie in buffers of one pool per process, so that between two cards nothing is copied.
//! Nothing here locks, allocates or asks for the time for each frame; a burst costs a card one tail write each way.
//! A port never waits by itself: who has nothing to do calls [`rest`], which sleeps until a port wants attention.

mod any;
#[cfg(target_os = "linux")]
mod attached;
#[cfg(target_os = "linux")]
mod card;
#[cfg(target_os = "linux")]
mod choice;
#[cfg(target_os = "linux")]
mod counted;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod missed;
#[cfg(target_os = "linux")]
mod open;
#[cfg(target_os = "linux")]
mod packet;
mod rest;
pub mod run;
mod udp;
#[cfg(target_os = "linux")]
mod xdp;

pub use any::{AnyPort, Options, RING, ServiceKind};
#[cfg(target_os = "linux")]
pub use card::{CardPort, Line};
#[cfg(target_os = "linux")]
pub use choice::choose;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{choose, open};
#[cfg(target_os = "linux")]
pub use open::open;
#[cfg(target_os = "linux")]
pub use packet::PacketPort;
pub use rest::rest;
pub use udp::UdpPort;
#[cfg(target_os = "linux")]
pub use xdp::XdpPort;

use kpps_platform::Buffer;
use kpps_platform::memory::{BufferPool, PoolBuffer};

/// What becomes readable when something has come, as the system has it.
#[cfg(unix)]
pub type Descriptor<'p> = std::os::fd::BorrowedFd<'p>;
/// What becomes readable when something has come, as the system has it.
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

/// When a port wants to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// At once.
    Now,
    /// At this time, in ns of the port's clock.
    At(u64),
    /// When its file descriptor is readable.
    Asleep,
}

/// What a port has counted since it was opened.
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
    /// Times that a frame was not taken because there was no room.
    pub full: u64,
    /// Frames that came but were lost for lack of room, before any software saw them: MPC of a card, `tp_drops`
    /// of a packet socket, dropped frames and a full ring of an XDP socket.
    pub missed: u64,
    /// Times that a frame found no receive descriptor (RNBC). It then waits in the card's FIFO, so it is not lost by
    /// that; QEMU's e1000 drops it at once and counts it as missed too.
    pub no_buffer: u64,
    /// Received frames dropped because they were damaged, or made no sense.
    pub errors: u64,
    /// Frames taken for sending that the device or the kernel then did not send.
    pub unsent: u64,
    /// Interrupts that were taken.
    pub interrupts: u64,
    /// Register reads.
    pub register_reads: u64,
    /// Register writes.
    pub register_writes: u64,
    /// Tail writes, of both directions.
    pub doorbells: u64,
    /// Descriptors written only to get a report.
    pub nudges: u64,
    /// System calls for frames.
    pub system_calls: u64,
    /// Resets because the device hung.
    pub resets: u64,
}

/// The state of a port's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Frames can pass.
    pub up: bool,
    /// Mb/s, if known.
    pub speed_mbps: Option<u32>,
}

/// What a port cannot recover from.
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
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// One of these at one port of several.
    #[error("{port}: {trouble}")]
    At {
        /// The port's name.
        port: String,
        /// What is the matter.
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

/// What [`rest`] needs of a port.
pub trait Wake {
    /// When the port wants to be looked at.
    fn next(&self) -> Next;
    /// The port's clock, in ns.
    fn now_ns(&self) -> u64;
    /// What becomes readable when a port that is [`Next::Asleep`] wants to be looked at; `None` if nothing does.
    fn fd(&self) -> Option<Descriptor<'_>>;
    /// Whether to be woken as well when the descriptor becomes writable: there is something left to send.
    fn wants_to_send(&self) -> bool {
        false
    }
    /// Whether a port that has no room to send is woken when there is some again.
    fn hears_of_room(&self) -> bool {
        true
    }
}

/// Where frames come in and go out.
pub trait Port: Wake {
    /// Takes frames in, at most `budget`, the room that their consumers have; returns how many. `sink` returns a
    /// buffer for the next frame: that of this one if it is done with it, another if it has one, or `None`.
    ///
    /// # Errors
    /// [`Trouble`]; frames may have been taken nevertheless.
    fn receive(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble>;

    /// The same, and with each frame when the kernel took it in, in ns since 1970, where a port knows: before whoever reads it
    /// was woken, or had time.
    ///
    /// # Errors
    /// As of [`receive`](Self::receive).
    fn receive_stamped(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        self.receive(budget, |frame| sink(frame, None))
    }

    /// Takes a frame to send; it goes out at the next [`flush`](Self::flush). Given back if there is no room.
    ///
    /// # Errors
    /// The frame, if it was not taken.
    fn send(&mut self, frame: Frame) -> Result<(), Frame>;

    /// Takes frames to send until there is no more room or no more frame; returns how many. A frame is drawn from
    /// the iterator only when there is room for it; one that the port cannot send at all is dropped and not counted.
    fn send_burst(&mut self, frames: &mut impl Iterator<Item = Frame>) -> usize {
        let mut count = 0;
        while self.room() > 0
            && let Some(frame) = frames.next()
        {
            count += usize::from(self.send(frame).is_ok());
        }
        count
    }

    /// Takes at most `most` frames that `write` puts into buffers of frames already sent, and returns how many; 0 where
    /// a port keeps no such buffers. `write` returns the length in bytes without FCS.
    fn send_again(&mut self, most: usize, write: impl FnMut(&mut PoolBuffer) -> u16) -> usize {
        let _ = (most, write);
        0
    }

    /// Sends what was taken.
    ///
    /// # Errors
    /// [`Trouble`].
    fn flush(&mut self) -> Result<(), Trouble>;

    /// How many frames could be taken for sending now. Takes buffers of sent frames back.
    fn room(&mut self) -> usize;

    /// Frames taken that are not known to be sent yet. Takes buffers of sent frames back.
    fn in_flight(&mut self) -> usize;

    /// Takes a wake-up in, if there was one: to be called after [`rest`].
    ///
    /// # Errors
    /// [`Trouble`].
    fn woken(&mut self) -> Result<(), Trouble>;

    /// Looks after link and device; to be called some times a second, it does what is due.
    ///
    /// # Errors
    /// [`Trouble`].
    fn look_after(&mut self) -> Result<(), Trouble>;

    /// What was counted so far. Reads statistics of the device or the kernel.
    ///
    /// # Errors
    /// [`Trouble`].
    fn counters(&mut self) -> Result<Counters, Trouble>;

    /// Frames received and sent so far, as cheaply as it goes.
    fn frames(&self) -> (u64, u64);

    /// The link as last seen.
    fn link(&self) -> Link;

    /// Looks at the link.
    ///
    /// # Errors
    /// [`Trouble`].
    fn refresh_link(&mut self) -> Result<(), Trouble>;

    /// The port's handle to the pool: buffers of sent frames come back here.
    fn pool(&mut self) -> &mut BufferPool;
}
