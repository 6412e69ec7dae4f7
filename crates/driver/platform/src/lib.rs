#![cfg_attr(any(feature = "std", not(doctest)), doc = include_str!("../README.md"))]
//!
//! # Why five traits
//!
//! The crate `virtio-drivers` has two: `Hal` for memory, whose functions have no object, and `Transport` for
//! registers. With `Hal` a program has one platform, and the driver needs `unsafe` to reach memory. Here a
//! program may have many platforms, each with a state of its own (a simulation, a test), and the driver has
//! no `unsafe`. So each of the five is an object with an owner:
//!
//! - [`Registers`] is cloned by control and queues, which take it to other cores. Wrappers ([`wrap`]) need
//!   only this trait, and work on every platform.
//! - [`DmaMemory`] is words that the device may write at any time (atomics); a [`Buffer`] is bytes that
//!   either the device or the CPU has (slices). A ring is freed when its queue is dropped, and nobody reaches
//!   a buffer while the device has it.
//! - [`BufferSource`] is apart from [`Platform`], because the consumer of frames chooses it, not the author
//!   of the platform: a kernel's allocator, or a pool. Each queue has a handle of its own, so it takes a
//!   buffer without a lock. A queue with header split has two sources.
//!
//! A single trait would have the other four as associated types, with the same methods.
//!
//! # Costs and promises
//!
//! The driver does not know its environment: *cost follows the interface*. On real hardware
//! [`Registers::read`] is a load from BAR 0, and `sync_for_cpu` does nothing. On QEMU's test socket a read is
//! a message. In the simulator a read costs bus time, and `sync_for_cpu` charges cache misses.
//!
//! Only `memory` uses `unsafe`. One promise is the implementor's: [`DmaMemory::words`] is memory that the
//! device sees at [`DmaMemory::bus`]. Breaking it makes the *device* misbehave, not Rust, because the words
//! are atomics.
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

#[cfg(feature = "std")]
pub mod fake;
#[cfg(feature = "std")]
#[allow(unsafe_code)]
pub mod memory;
pub mod wrap;

use core::ops::Range;
use core::sync::atomic::AtomicU64;

/// The register window of one device (BAR 0 of an 8254x): 32-bit little-endian registers by
/// byte offset.
///
/// A *write* is posted: it returns before the device has seen it. A *read* returns the device's answer after
/// all earlier writes, as on PCI. A vanished device reads as all ones.
///
/// Handles are cheap to clone: control and queues of a driver each hold one.
pub trait Registers {
    /// Reads the register at byte `offset`.
    fn read(&self, offset: u32) -> u32;
    /// Writes the register at byte `offset`. The device sees all earlier stores to DMA memory first: the
    /// driver issues the Release fence, the platform keeps the order.
    fn write(&self, offset: u32, value: u32);
}

/// A piece of memory that CPU and device share: a descriptor ring.
///
/// Its contents are 64-bit little-endian words. They are atomics, because the device writes them at any time.
pub trait DmaMemory {
    /// The address at which the device sees the first word.
    fn bus(&self) -> u64;
    /// The memory, zeroed when allocated.
    fn words(&self) -> &[AtomicU64];
    /// Makes the device's writes to `bytes` visible to the CPU. Nothing on x86. Called once for each
    /// descriptor that the driver is about to examine.
    #[inline]
    fn sync_for_cpu(&self, bytes: Range<usize>) {
        let _ = bytes;
    }
    /// Makes the CPU's writes to `bytes` visible to the device. Nothing on x86.
    #[inline]
    fn sync_for_device(&self, bytes: Range<usize>) {
        let _ = bytes;
    }
}

/// The requirements on a piece of [`DmaMemory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaSpec {
    /// Size in bytes, a multiple of 8.
    pub bytes: usize,
    /// Alignment of the bus address in bytes, a power of two.
    pub align: usize,
    /// The memory must not cross a multiple of this many bytes (a power of two), if given.
    pub boundary: Option<u64>,
    /// The highest bus address that the device can reach.
    pub max_address: u64,
}

/// There is no memory that meets a [`DmaSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl core::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no suitable memory is left")
    }
}

impl core::error::Error for OutOfMemory {}

/// The environment of a driver.
pub trait Platform {
    /// The device's registers.
    type Regs: Registers + Clone;
    /// Ring memory.
    type Mem: DmaMemory;

    /// A handle to the registers.
    fn registers(&self) -> Self::Regs;
    /// Allocates zeroed ring memory.
    fn allocate(&self, spec: DmaSpec) -> Result<Self::Mem, OutOfMemory>;
    /// Nanoseconds since a fixed moment; never decreases.
    fn now_ns(&self) -> u64;
    /// The number of MSI-X vectors enabled for the device. 0: one interrupt (a line, or MSI), as with most
    /// platforms and chips.
    fn vectors(&self) -> u8 {
        0
    }
    /// Waits at least `ns` nanoseconds. Used while resetting and probing, never on a packet path.
    fn wait_ns(&self, ns: u64);
}

/// A packet buffer: memory for (a part of) one frame, at a fixed bus address.
///
/// The driver passes buffers to the device and to the consumer of frames. It accesses the bytes only to pad a
/// short frame.
pub trait Buffer {
    /// The address at which the device sees the first byte.
    fn bus(&self) -> u64;
    /// Its size in bytes.
    fn capacity(&self) -> usize;
    /// The bytes. The device must not be writing them: the driver lends a buffer only before it passes it to
    /// the device, or after the device has returned it.
    fn bytes(&self) -> &[u8];
    /// The bytes, to write a frame into.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Makes the device's writes to the first `len` bytes visible to the CPU.
    #[inline]
    fn sync_for_cpu(&self, len: usize) {
        let _ = len;
    }
    /// Makes the CPU's writes to the first `len` bytes visible to the device.
    #[inline]
    fn sync_for_device(&self, len: usize) {
        let _ = len;
    }
    /// Copies the first `len` bytes of another buffer into this one; `false`, with nothing changed, if either
    /// is shorter.
    fn copy_from(&mut self, other: &Self, len: usize) -> bool
    where
        Self: Sized,
    {
        match (self.bytes_mut().get_mut(..len), other.bytes().get(..len)) {
            (Some(to), Some(from)) => to.copy_from_slice(from),
            _ => return false,
        }
        true
    }
}

/// A source of packet buffers: a kernel's allocator, or a pool.
pub trait BufferSource {
    /// The kind of buffer.
    type Buf: Buffer;
    /// Takes a buffer; `None` if there is none now.
    fn take(&mut self) -> Option<Self::Buf>;
    /// Takes a buffer for a copy of `bytes` bytes: a small one, if the source has small ones.
    fn take_small(&mut self, bytes: usize) -> Option<Self::Buf> {
        let _ = bytes;
        self.take()
    }
    /// Gives a buffer back.
    fn give(&mut self, buffer: Self::Buf);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Implements what has no default, and nothing else.
    struct Least;
    impl Registers for Least {
        fn read(&self, _: u32) -> u32 {
            0
        }
        fn write(&self, _: u32, _: u32) {}
    }
    impl Clone for Least {
        fn clone(&self) -> Self {
            Self
        }
    }
    impl DmaMemory for Least {
        fn bus(&self) -> u64 {
            0
        }
        fn words(&self) -> &[AtomicU64] {
            &[]
        }
    }
    impl Platform for Least {
        type Regs = Self;
        type Mem = Self;
        fn registers(&self) -> Self {
            Self
        }
        fn allocate(&self, _: DmaSpec) -> Result<Self, OutOfMemory> {
            Err(OutOfMemory)
        }
        fn now_ns(&self) -> u64 {
            0
        }
        fn wait_ns(&self, _: u64) {}
    }

    /// A buffer of four bytes; the source has one.
    #[derive(Debug, PartialEq)]
    struct Four([u8; 4]);
    impl Buffer for Four {
        fn bus(&self) -> u64 {
            0
        }
        fn capacity(&self) -> usize {
            4
        }
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }
    impl BufferSource for Option<Four> {
        type Buf = Four;
        fn take(&mut self) -> Option<Four> {
            Option::take(self)
        }
        fn give(&mut self, buffer: Four) {
            *self = Some(buffer);
        }
    }

    #[test]
    fn what_a_platform_need_not_say() {
        assert_eq!(Least.vectors(), 0, "one interrupt");
        assert_eq!(Some(Four([7; 4])).take_small(2), Some(Four([7; 4])), "any buffer will do");
    }

    #[test]
    fn buffers_are_copied_if_both_are_long_enough() {
        for (bytes, copied, result) in
            [(0, true, [1, 2, 3, 4]), (3, true, [9, 9, 9, 4]), (4, true, [9; 4]), (5, false, [1, 2, 3, 4])]
        {
            let mut buffer = Four([1, 2, 3, 4]);
            assert_eq!(buffer.copy_from(&Four([9; 4]), bytes), copied, "{bytes} bytes");
            assert_eq!(buffer.0, result, "{bytes} bytes");
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn out_of_memory_says_so() {
        assert_eq!(std::string::ToString::to_string(&OutOfMemory), "no suitable memory is left");
    }
}
