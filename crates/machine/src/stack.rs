//! Operating-system stacks: what runs at which level when a card has something to say.
//!
//! A stack sees a card only through [`Netdev`], which a driver implements with whatever service policy it
//! was given. There are three: Linux 2.2.16 with Click in the kernel ([`linux22`]), Linux 2.4 and 2.6 with NAPI, several
//! cards and several CPUs ([`linux24`]), and FreeBSD 4 to 6 with polling(4) and processes that send ([`freebsd`]). On both of the
//! latter a process may receive ([`udp`], [`tcp`]).

pub mod freebsd;
pub mod linux22;
pub mod linux24;
pub mod tcp;
pub mod udp;

/// A network device as a stack sees it: a driver bound to its card. An interrupt, or another CPU, may call it while it is
/// being called.
pub trait Netdev: 'static {
    /// A received frame as the driver hands it up.
    type Frame: IntoBuffer<Self::Buffer> + 'static;
    /// A packet buffer.
    type Buffer;

    /// Serves the card's interrupt, at interrupt level. Received frames go `up`, which gives the
    /// buffer back if it is done with it.
    fn interrupt(&self, up: &mut impl FnMut(Self::Frame) -> Option<Self::Buffer>) -> Raised;

    /// Serves the card without an interrupt: at most `budget` received frames, and whatever transmit
    /// completion there is.
    fn poll(&self, budget: usize, up: &mut impl FnMut(Self::Frame) -> Option<Self::Buffer>) -> Polled;

    /// Whether a frame could be sent now.
    fn has_room(&self) -> bool;

    /// Whether a frame may join `queued` others that wait before the device, where a system keeps at most `most`: a driver may find
    /// fewer enough.
    fn admits(&self, queued: usize, most: usize) -> bool {
        queued < most
    }

    /// Whether who was not admitted is to be told that it may come back.
    fn readmits(&self, queued: usize, most: usize) -> bool {
        queued <= most / 2
    }

    /// Sends a frame that `fill` writes into a fresh buffer (returning its length in bytes without FCS). `false`
    /// if there was no room or no buffer.
    fn send(&self, fill: &mut impl FnMut(&mut [u8]) -> usize) -> bool;

    /// Sends a frame that was received, here or on another device. `Err`: there was no room. A driver that a thread polls
    /// waits for [`Netdev::flush`] before it tells its card; others tell at once.
    fn forward(&self, frame: Self::Frame) -> Result<(), Self::Frame>;

    /// A frame that `fill` writes into a fresh buffer (returning its length in bytes without FCS), to be sent with
    /// [`Netdev::forward`]. `None`: there was no buffer.
    fn make(&self, fill: &mut impl FnMut(&mut [u8]) -> usize) -> Option<Self::Frame>;

    /// Looks at the card's status, as polling does now and then in place of the interrupt that would tell.
    fn check_status(&self);

    /// Ends a burst of [`Netdev::send`].
    fn flush(&self);

    /// What its driver does every two seconds.
    fn tick(&self);

    /// Takes back a buffer whose frame has been consumed.
    fn free(&self, buffer: Self::Buffer);

    /// Which of its card's interrupts is its own: a card with several has a device for each of its queues.
    fn vector(&self) -> usize {
        0
    }
}

/// How a frame that is dropped gives its buffer back: the stack does not know what a frame is made of.
pub trait IntoBuffer<B> {
    /// The buffer, the frame being forgotten.
    fn into_buffer(self) -> B;
}

/// What an interrupt handler wants done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// Everything is done.
    Nothing,
    /// The card's interrupts are masked; somebody has to poll.
    Poll,
}

/// When a device wants to be polled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// As soon as others have had their turn.
    Now,
    /// Not before this time, in picoseconds.
    At(u64),
    /// As soon as nobody else wants the CPU, and at this time, in picoseconds, in any case.
    Yield(u64),
    /// After its next interrupt.
    Interrupt,
}

/// What a poll did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Frames received.
    pub frames: usize,
    /// Transmit descriptors completed.
    pub completed: usize,
    /// When to poll again.
    pub next: Next,
}

/// Who serves the card, and at which level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The interrupt handler does everything; the stack goes on in a bottom half.
    Interrupt,
    /// The interrupt handler schedules a poll at softirq level (NAPI).
    Softirq {
        /// Frames a poll may receive before other work of its level has a turn.
        weight: usize,
    },
    /// The application's thread polls and no interrupt is enabled.
    Polling {
        /// Frames of one poll.
        burst: usize,
    },
    /// The application's thread polls when the driver asks for it, and sleeps until an interrupt otherwise.
    Paced {
        /// Frames of one poll.
        burst: usize,
    },
}

/// The application that sends as fast as the device takes frames.
pub trait Producer {
    /// How many elements a frame passes.
    fn elements(&self) -> u32;
    /// Writes the next frame and returns its length in bytes without FCS.
    fn produce(&mut self, now_ps: u64, buffer: &mut [u8]) -> usize;
}
