//! Interfaces of the kernel: their attributes, what their drivers report, and requests to the kernel.

mod cable;
pub mod ethtool;
mod netdevice;
pub mod netlink;
mod rules;
pub(crate) mod spread;

pub use cable::Cable;
pub(crate) use netdevice::name_of;
pub use netdevice::{Interface, OtherLink};
pub use rules::{Rule, Rules};
pub use spread::{Spread, Unknown};
