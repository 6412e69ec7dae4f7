//! Operating-system stacks: what runs at which level when a card has received or sent something.
//!
//! A stack sees a card only through [`Netdev`], which a driver implements with whatever service policy it
//! has. There are three stacks: Linux 2.2.16 with Click in the kernel ([`linux22`]); Linux 2.4 and 2.6 with
//! NAPI, several cards and several CPUs ([`linux24`]); FreeBSD 4 to 6 with polling(4) and processes that send
//! ([`freebsd`]). On the latter two a process may receive ([`udp`], [`tcp`]).

pub mod freebsd;
mod handler;
pub mod linux22;
pub mod linux24;
mod netdev;
pub mod tcp;
pub mod udp;

pub use handler::{Handler, Interface, Work};
pub use netdev::{IntoBuffer, Netdev, NextPoll, Polled, Producer, Raised, Service};
