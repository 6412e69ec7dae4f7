//! Interfaces of the kernel: their attributes, what their drivers report, and requests to the kernel.

pub mod ethtool;
mod netdevice;
pub mod netlink;

pub(crate) use netdevice::name_of;
pub use netdevice::{Interface, OtherLink};
