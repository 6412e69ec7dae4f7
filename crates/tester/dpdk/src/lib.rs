//! Devices that DPDK drives, without DPDK in this program.
//!
//! DPDK receives and sends by inline functions of its C headers, and its structures change from release to
//! release. So an adapter in C (`shim/kpps_dpdk.c`) with an interface of our own is compiled against the
//! headers of the DPDK that is installed ([`build`]), and loaded when the first port is opened. A program
//! without DPDK builds and starts as any other.
//!
//! DPDK has its memory, so frames are copied: from a buffer of the caller into one of DPDK before they are
//! sent, and back after they were received.
//!
//! DPDK is initialised once in a process, and stays. A [`Device`] has [queues](Queue), each in both
//! directions. A queue belongs to one thread at a time. All `unsafe` is in `adapter.rs`, `start.rs`,
//! `device.rs` and `queue.rs`: the calls of the adapter's functions, and accesses to the buffers that it
//! lends.
#![cfg(target_os = "linux")]

mod adapter;
mod compile;
mod device;
mod error;
mod place;
mod queue;
mod start;

pub use compile::{Status, build, status};
pub use device::{Device, Info, Link, Statistics};
pub use error::Error;
pub use place::ABI;
pub use queue::{Queue, open};
pub use start::use_arguments;
