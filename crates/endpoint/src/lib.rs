//! The driver's queues as the network stack of an end station wants them: one frame at a time,
//! with bursts behind.
//!
//! Small stacks (smoltcp, embassy-net) ask for one frame, answer it, and ask for the next. An
//! [`Endpoint`] takes received frames out of the ring in bursts and hands them out one by one,
//! where the card has put them; it lends driver buffers to write frames into, and tells the
//! card of all of them with one tail write ([`Endpoint::flush`]).
//!
//! Checksums are the card's work where it can do it ([`Offload`]). What the card did not look at,
//! or calls bad, is checked here, so that a stack that leaves checking to the card never sees a
//! frame that nobody has checked.
//!
//! Nothing on the packet path allocates, waits or reads a register. `no_std`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod checksum;
mod endpoint;
mod layout;
mod receiver;
mod sender;

pub use endpoint::{Endpoint, buffers_needed};
pub use receiver::{ReceiveCounters, Received};
pub use sender::{Slot, TransmitCounters};

/// Who computes checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// IPv4, TCP and UDP checksums of received frames are checked before the stack gets them: by
    /// the card, or here where it did not. Wrong ones are dropped and counted.
    ///
    /// Fragments of TCP and UDP are dropped too: they can be checked only when they are put
    /// together again, and the stack would not. Turn this off for a stack that shall reassemble.
    pub receive: bool,
    /// The card inserts IPv4, TCP and UDP checksums.
    pub transmit: bool,
}

impl Offload {
    /// All that the card can do.
    pub const ALL: Self = Self { receive: true, transmit: true };
    /// The stack computes everything itself.
    pub const NONE: Self = Self { receive: false, transmit: false };
}

impl Default for Offload {
    fn default() -> Self {
        Self::ALL
    }
}
