//! A network device as an operating-system stack sees it.

use crate::cpu::Machine;

/// How often a driver's timer ticks, in ps.
const TICK_PS: u64 = 2 * crate::S;

/// A driver's timer: it calls `tick` at `first_ps`, and every two seconds from then on.
pub(super) fn timer(first_ps: u64, tick: impl Fn(&Machine)) -> impl FnOnce(&Machine) {
    move |machine| {
        let mut next_ps = first_ps;
        loop {
            machine.wait_until(next_ps);
            tick(machine);
            next_ps += TICK_PS;
        }
    }
}

/// A driver bound to its card. An interrupt, or another CPU, may call it while it is being called.
///
/// Callers pass closures as `dyn`, so that a driver is compiled once and not for each of its callers.
pub trait Netdev: 'static {
    /// A received frame as the driver hands it up.
    type Frame: IntoBuffer<Self::Buffer> + 'static;
    /// A packet buffer.
    type Buffer;

    /// Serves the card's interrupt, at interrupt level. Received frames go `up`, which gives the
    /// buffer back if it is done with it.
    fn interrupt(&self, up: &mut dyn FnMut(Self::Frame) -> Option<Self::Buffer>) -> Raised;

    /// Serves the card without an interrupt: at most `budget` received frames, and all transmit completions.
    fn poll(&self, budget: usize, up: &mut dyn FnMut(Self::Frame) -> Option<Self::Buffer>) -> Polled;

    /// Whether a frame could be sent now.
    fn has_tx_space(&self) -> bool;

    /// Whether a frame may join `queued` others that wait before the device. The system's own limit is
    /// `most`; a driver may set a lower one.
    fn admits(&self, queued: usize, most: usize) -> bool {
        queued < most
    }

    /// Whether to wake a sender that was not admitted.
    fn readmits(&self, queued: usize, most: usize) -> bool {
        queued <= most / 2
    }

    /// Sends a frame that `fill` writes into a fresh buffer; `fill` returns its length in bytes without FCS.
    /// `false` if the transmit ring was full or there was no buffer.
    fn send(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> bool;

    /// Sends a frame that was received, here or on another device. `Err` gives it back: the transmit ring was
    /// full. Some drivers write their tail at once. Drivers that a thread polls, and drivers that write it
    /// once a poll, do so at the next [`Netdev::flush`].
    fn forward(&self, frame: Self::Frame) -> Result<(), Self::Frame>;

    /// Makes a frame for [`Netdev::forward`]: `fill` writes it into a fresh buffer and returns its length in
    /// bytes without FCS. `None` if there was no buffer.
    fn make(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<Self::Frame>;

    /// Reads the card's status. Polling does this now and then in place of the interrupt.
    fn check_status(&self);

    /// Ends a burst of [`Netdev::send`] or [`Netdev::forward`].
    fn flush(&self);

    /// Runs the driver's timer, which is due every two seconds.
    fn tick(&self);

    /// Takes back a buffer whose frame has been consumed.
    fn free(&self, buffer: Self::Buffer);

    /// The number of the device's interrupt on its card: a card with several queues has a device for each.
    fn vector(&self) -> usize {
        0
    }
}

/// A frame that gives its buffer back when it is dropped: the stack does not know the type of a frame.
pub trait IntoBuffer<B> {
    /// The buffer.
    fn into_buffer(self) -> B;
}

/// The work that an interrupt handler has raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// Nothing.
    Nothing,
    /// A poll: the card's interrupts are masked.
    Poll,
}

/// When a device wants to be polled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPoll {
    /// As soon as others have had their turn.
    Now,
    /// Not before this time, in picoseconds.
    At(u64),
    /// When the CPU is idle otherwise, and at this time, in picoseconds, in any case.
    Yield(u64),
    /// After its next interrupt.
    Interrupt,
}

/// The work of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Frames received.
    pub frames: usize,
    /// Transmit descriptors completed.
    pub completed: usize,
    /// When to poll again.
    pub next: NextPoll,
}

/// Where the card is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// In the interrupt handler; the stack goes on in a bottom half.
    Interrupt,
    /// In a poll at softirq level, which the interrupt handler schedules (NAPI).
    Softirq {
        /// Frames that a poll may receive before other work of its level has a turn.
        weight: usize,
    },
    /// In a thread that polls all the time; no interrupt is enabled.
    Polling {
        /// Frames of one poll.
        burst: usize,
    },
    /// In a thread that polls when the driver says so, and otherwise sleeps until an interrupt.
    Paced {
        /// Frames of one poll.
        burst: usize,
    },
}

/// An application that sends as fast as the device takes frames.
pub trait Producer {
    /// How many elements a frame passes.
    fn elements(&self) -> u32;
    /// The frames of a packet: several if it is sent in fragments.
    fn frames(&self) -> usize {
        1
    }
    /// Writes the next frame and returns its length in bytes without FCS.
    fn produce(&mut self, now_ps: u64, buffer: &mut [u8]) -> usize;
}
