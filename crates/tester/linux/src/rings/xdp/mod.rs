//! `AF_XDP` sockets with rings: af_xdp.rst.
//!
//! A ring names buffers by their addresses in the memory of its socket. Who puts an address into a ring must
//! own the buffer there, and must leave it alone until the kernel has returned the address.

mod ring;
mod socket;

pub use ring::{Consumer, Producer};
pub use socket::{KERNEL_HEADROOM, Outlet, SENDING, Socket};
