//! A deterministic machine in virtual time: clock, bus, memory, CPUs, operating-system stacks. Real driver
//! code runs on it.
//!
//! Time is an integer number of picoseconds. Everything runs in one thread: the [`World`] (bus, memory,
//! network cards, wires) advances lazily, only when it is observed. Code on a simulated CPU is ordinary
//! straight-line code in a coroutine ([`cpu`]), and each step that costs time goes through
//! [`Machine::spend`].
//!
//! The machine does not know which driver or application runs on it. Drivers use the [`kpps_platform`] traits
//! ([`platform`], where a driver's register reads and cache misses are charged); operating-system stacks
//! ([`stack`]) use the [`stack::Netdev`] trait.
//!
//! `unsafe` is in two files: [`memory`] (bytes that CPU and card share) and [`cpu`] (leaving a coroutine).
//!
//! How long a burst takes on the bus:
//!
//! ```
//! use kpps_host::bus::{Bus, Params};
//!
//! // PCI, 64 bits at 66 MHz.
//! let bus = Bus::new(Params {
//!     clock_ps: 15_000,
//!     width_bytes: 8,
//!     overhead_clocks: 4,
//!     gap_clocks: 0,
//!     read_latency_ps: 250_000,
//!     split_reads: false,
//!     duplex: false,
//!     write_disconnect_bytes: 0,
//!     read_disconnect_bytes: 0,
//!     register_read_ps: 380_000,
//!     register_write_ps: 130_000,
//!     posted_writes: 0,
//! });
//! // 64 bytes: 4 clocks of overhead and 8 of data.
//! assert_eq!(bus.burst_ps(64), 12 * 15_000);
//! ```

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
