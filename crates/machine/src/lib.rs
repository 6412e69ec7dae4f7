//! The machine room: a deterministic machine in which the real driver code runs in virtual time.
//!
//! Time is an integer number of picoseconds. Everything is one thread: the [`World`] (bus,
//! memory, network cards, wires) advances lazily, only as far as somebody looks, and code on the
//! simulated CPU is ordinary straight-line code in a coroutine ([`cpu`]) whose every
//! costly step goes through [`Machine::spend`].
//!
//! What is here knows nothing of which driver or application runs: drivers see the
//! [`kpps_platform`] traits ([`platform`]), operating-system stacks ([`stack`]) see the
//! [`stack::Netdev`] trait.
//!
//! `unsafe` is in two files: [`memory`] (bytes that CPU and card share) and [`cpu`] (the
//! way back out of a coroutine).

pub mod bus;
pub mod cpu;
pub mod host;
pub mod limits;
pub mod memory;
pub mod platform;
pub mod stack;
pub mod wire;
pub mod world;

pub use cpu::{Level, Machine};
pub use world::World;

/// Picoseconds in a nanosecond.
pub const NS: u64 = 1_000;
/// Picoseconds in a microsecond.
pub const US: u64 = 1_000_000;
/// Picoseconds in a millisecond.
pub const MS: u64 = 1_000_000_000;
/// Picoseconds in a second.
pub const S: u64 = 1_000_000_000_000;
