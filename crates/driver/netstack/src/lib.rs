#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! Small stacks ask for one frame, answer it, and ask for the next. An [`Endpoint`] reaps received frames in
//! bursts and hands them out one by one. It lends buffers of the driver to write frames into, and announces
//! all of them with one tail write ([`Endpoint::flush`]), the doorbell.
//!
//! The card computes checksums where it can ([`Offload`]). A received frame that the card did not check, or
//! calls bad, is checked in software. A stack that leaves checking to the card never sees an unchecked frame.
//!
//! Nothing on the packet path allocates, waits or reads a register.
//!
//! # Features
//! - `smoltcp`: cards as devices of [smoltcp](https://docs.rs/smoltcp), in module `smoltcp`.
//! - `segmentation`: the same, and the card cuts large TCP segments.
//! - `embassy`: cards as drivers of [embassy-net](https://docs.embassy.dev/embassy-net), in module `embassy`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod checksum;
#[cfg(feature = "embassy")]
pub mod embassy;
mod endpoint;
#[cfg(any(feature = "fuzzing", test))]
pub mod fuzzing;
mod layout;
mod receiver;
mod sender;
#[cfg(feature = "smoltcp")]
pub mod smoltcp;

pub use endpoint::{Endpoint, buffers_needed};
pub use receiver::{ReceiveCounters, Received};
pub use sender::{Slot, TransmitCounters};

/// Which checksums the card computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// IPv4, TCP and UDP checksums of received frames are checked before the stack gets them, by the card,
    /// otherwise in software. Frames with a wrong checksum are dropped and counted.
    ///
    /// Fragments of TCP and UDP are dropped too, because they can be checked only after reassembly. Turn this
    /// off for a stack that reassembles.
    pub receive: bool,
    /// The card inserts IPv4, TCP and UDP checksums.
    pub transmit: bool,
}

impl Offload {
    /// Everything that the card supports.
    pub const ALL: Self = Self { receive: true, transmit: true };
    /// The stack computes everything itself.
    pub const NONE: Self = Self { receive: false, transmit: false };
}

impl Default for Offload {
    fn default() -> Self {
        Self::ALL
    }
}
