//! All frames that a port sends and receives in a trial, in memory, and the capture file of them.

pub(crate) mod file;
pub(crate) mod ring;
pub(crate) mod tap;
pub(crate) mod words;

pub use file::{capture_all, pcapng_of_all, received_of};
pub use ring::{Captured, RingForm};
