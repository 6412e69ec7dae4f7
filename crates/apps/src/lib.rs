//! What stands on a driver, composed of small elements with the names and semantics of the Click modular
//! router (Kohler et al., TOCS 2000): frames are *pushed* towards a sink or *pulled* from a source.
//!
//! The elements know neither where a frame comes from nor what a step costs, they do no input or output and
//! ask for no time: the caller says what time it is. A frame is anything with bytes; its buffer belongs to
//! whoever pushed it, so a push gives back what ended here.
//!
//! - One way: [`InfiniteSource`], [`Counter`], [`Discard`].
//! - Several ports: the learning bridge [`EtherSwitch`] and the [`Router`] for IPv4, between ports and
//!   VLANs, with address translation if wanted ([`Nat`]). They are [`App`]s, and what
//!   becomes of each frame is counted: `received + made = sent + ended + held` ([`Ledger`]).
#![forbid(unsafe_code)]

mod app;
mod basic;
mod route;
mod switch;

pub use app::{App, Ledger, Outputs, Reason, Resize};
pub use basic::{Counter, Discard, InfiniteSource};
pub use ipnet::Ipv4Net;
pub use route::{Interface, Misconfigured, Nat, Route, Router, Timeouts};
pub use switch::EtherSwitch;

/// An element that frames are pushed into.
pub trait Push<F> {
    /// Takes `frame`. Gives it back if its way ended here, so that the caller can reuse its buffer.
    fn push(&mut self, frame: F) -> Option<F>;
    /// How many elements a frame passes from here on, this one included.
    fn elements(&self) -> u32;
}

/// An element that frames are pulled out of.
pub trait Pull {
    /// Writes the next frame into `buffer` and returns its length in bytes without FCS; `None` if there is
    /// none now or `buffer` is too small.
    fn pull(&mut self, buffer: &mut [u8]) -> Option<usize>;
    /// How many elements a frame has passed up to here, this one included.
    fn elements(&self) -> u32;
}
