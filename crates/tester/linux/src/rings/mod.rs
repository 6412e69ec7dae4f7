//! Sockets for frames whose rings are shared with the kernel: packet sockets and `AF_XDP` sockets.

pub mod packet;
mod raw;
pub mod xdp;

pub(crate) use raw::raw_socket;
pub use raw::{kick, wake_receiver};
