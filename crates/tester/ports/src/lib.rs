//! Where frames enter and leave a real system: Linux's interfaces, UDP sockets, and e1000 cards driven from
//! user space.
//!
//! [`port`] has the ports, and the loops that send, count and forward. A [`Spec`] is the name of a port. With
//! [`told`] an app reports its losses to testers.
//!
//! The sockets, rings and cards under the ports are in [`kpps_linux`], and with them all `unsafe`. A port
//! keeps one rule of theirs that no compiler checks: a buffer whose address it puts into an `AF_XDP` ring is
//! its own, and nobody gets it before the kernel has returned it (`KernelOwned` in `port/xdp`).
//!
//! Other systems than Linux have [`UdpPort`](port::UdpPort)s only.

#![forbid(unsafe_code)]

mod error;
mod parse;
pub mod port;
mod routed;
mod spec;
#[cfg(target_os = "linux")]
pub mod told;

pub use error::Error;
pub use parse::join_arguments;
pub use routed::RoutedSpec;
pub use spec::Spec;
