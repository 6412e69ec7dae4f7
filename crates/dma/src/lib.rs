//! Memory that a device sees: descriptor rings and packet buffers at known bus addresses, behind
//! the interfaces of [`kpps_platform`].
//!
//! - [`Mapping`] is memory of this process: huge or ordinary pages, or a file shared with
//!   somebody (a QEMU).
//! - [`Memory`] is a mapping of whose [`Piece`]s the bus addresses are known. It hands out rings
//!   ([`Memory::ring`]) and pools of buffers ([`Memory::pool`]).
//! - [`BufferPool`] is a handle to a pool. Each has a small stack of its own, which trades with
//!   the pool in batches, so that taking and giving a buffer costs a few instructions.
//!
//! Knows nothing of devices, drivers or where bus addresses come from. A wrong bus address makes
//! a device misbehave, not Rust: the memory handed out always lies within the mapping.
//!
//! `unsafe` is in `memory.rs` (spans of the mapping) and in `pool.rs` (buffers are pointers to
//! their pool's slots).

mod mapping;
mod memory;
mod pool;
mod span;

pub use mapping::Mapping;
pub use memory::{Memory, Piece, RingMemory};
pub use pool::{BufferPool, PoolBuffer};

/// A huge page of x86-64 and its usual size elsewhere, in bytes.
pub const HUGE_PAGE: usize = 2 << 20;
