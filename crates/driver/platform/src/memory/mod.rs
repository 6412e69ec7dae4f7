//! Memory that a device sees: descriptor rings and packet buffers at known bus addresses.
//!
//! - [`Mapping`] is memory of this process: huge pages, ordinary pages, or a file that is shared with another
//!   process (QEMU).
//! - [`Memory`] is a mapping in [`Piece`]s with known bus addresses. It allocates rings ([`Memory::ring`])
//!   and pools of buffers ([`Memory::pool`], [`Memory::chunks`]).
//! - [`BufferPool`] is a handle to a pool. Each handle has a small stack of its own and trades with the pool
//!   in batches, so taking or giving a buffer costs a few instructions.
//!
//! This module knows nothing of devices, drivers, or the source of bus addresses. A wrong bus address makes a
//! device misbehave, not Rust: the memory handed out always lies within the mapping.
//!
//! All `unsafe` of this crate is here: in `regions.rs` (spans of the mapping) and in `pool.rs` (buffers are
//! pointers to slots of their pool).

mod free_ranges;
mod mapping;
mod pool;
mod regions;
/// Locks. Under `--cfg kpps_loom` the tests try all orders in which threads may see each other's writes.
mod sync {
    #[cfg(all(test, kpps_loom))]
    pub(super) use loom::sync::{Mutex, MutexGuard};
    #[cfg(not(all(test, kpps_loom)))]
    pub(super) use std::sync::{Mutex, MutexGuard};
}

pub use mapping::Mapping;
pub use pool::{BufferPool, PoolBuffer};
pub use regions::{Memory, Piece, RingMemory};

/// The size of a huge page in bytes: that of x86-64, and the usual one elsewhere.
pub const HUGE_PAGE: usize = 2 << 20;
