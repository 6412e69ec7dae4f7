//! What a driver needs from the place it runs in, and nothing more: device registers, memory
//! that the device can reach, a clock, and packet buffers.
//!
//! The driver is generic over these traits and never asks where it runs; *cost follows the
//! interface*. On a real machine [`Registers::read`] is a load from BAR 0 and `sync_for_cpu`
//! is nothing; on QEMU's test socket a read is a message; in the machine room a read costs
//! the bus time of a read, and `sync_for_cpu` is where a cache miss is charged.
//!
//! The wrappers in [`wrap`] stand around any implementation: one counts, one records, one
//! injects faults.
//!
//! No `unsafe` is used here. The one promise that a compiler cannot check, that
//! [`DmaMemory::words`] is memory which the device really sees at [`DmaMemory::bus`], is the
//! implementor's; breaking it makes the *device* misbehave, not Rust: the words are atomics.
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

#[cfg(feature = "std")]
#[allow(unsafe_code)]
pub mod memory;
pub mod wrap;

use core::ops::Range;
use core::sync::atomic::AtomicU64;

/// The register window of one device (BAR 0 of an 8254x): 32-bit little-endian registers by
/// byte offset.
///
/// A *write* is posted: it returns before the device has seen it. A *read* returns the
/// device's answer and pushes earlier writes before it, as PCI does. A device that has
/// vanished reads as all ones.
///
/// Handles are cheap to clone: the halves of a driver (interrupt control, queues) each hold one.
pub trait Registers {
    /// Reads the register at byte `offset`.
    fn read(&self, offset: u32) -> u32;
    /// Writes the register at byte `offset`. All earlier stores to DMA memory are visible to
    /// the device before the write is (the driver issues the Release fence, the platform
    /// keeps the order).
    fn write(&self, offset: u32, value: u32);
}

/// A piece of memory that CPU and device share: a descriptor ring.
///
/// Its contents are 64-bit little-endian words, atomics because the device writes them
/// at any time.
pub trait DmaMemory {
    /// The address at which the device sees the first word.
    fn bus(&self) -> u64;
    /// The memory, zeroed when allocated.
    fn words(&self) -> &[AtomicU64];
    /// Makes what the device wrote in `bytes` visible to the CPU. Nothing on x86.
    /// Called once for each descriptor that the driver is about to examine.
    #[inline]
    fn sync_for_cpu(&self, bytes: Range<usize>) {
        let _ = bytes;
    }
    /// Makes what the CPU wrote in `bytes` visible to the device. Nothing on x86.
    #[inline]
    fn sync_for_device(&self, bytes: Range<usize>) {
        let _ = bytes;
    }
}

/// What a piece of [`DmaMemory`] must be like.
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

/// No memory of the wanted kind could be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl core::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no suitable memory is left")
    }
}

impl core::error::Error for OutOfMemory {}

/// A place where a driver can run.
pub trait Platform {
    /// The device's registers.
    type Regs: Registers + Clone;
    /// Ring memory.
    type Mem: DmaMemory;

    /// A handle to the registers.
    fn registers(&self) -> Self::Regs;
    /// Allocates zeroed ring memory.
    fn allocate(&self, spec: DmaSpec) -> Result<Self::Mem, OutOfMemory>;
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;
    /// MSI-X vectors that the platform has enabled for the device; 0: it has one interrupt (a line,
    /// or MSI), which is all that most places and chips have.
    fn vectors(&self) -> u8 {
        0
    }
    /// Waits at least `ns` nanoseconds. Used while resetting and probing, never on a packet path.
    fn wait_ns(&self, ns: u64);
}

/// A packet buffer: memory for (a part of) one frame, at a fixed bus address.
///
/// The driver hands buffers to the device and back to whoever consumes frames; it looks into
/// one only to pad a short frame.
pub trait Buffer {
    /// The address at which the device sees the first byte.
    fn bus(&self) -> u64;
    /// How many bytes fit.
    fn capacity(&self) -> usize;
    /// The bytes. The device may not be writing them: the driver lends a buffer out only
    /// before it gives it to the device or after the device has given it back.
    fn bytes(&self) -> &[u8];
    /// The bytes, to write a frame into.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Makes the first `len` bytes, written by the device, visible to the CPU.
    #[inline]
    fn sync_for_cpu(&self, len: usize) {
        let _ = len;
    }
    /// Makes the first `len` bytes, written by the CPU, visible to the device.
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

/// Where packet buffers come from and go to: a kernel's allocator, or a pool.
pub trait BufferSource {
    /// The kind of buffer.
    type Buf: Buffer;
    /// Takes a buffer; `None` when there is none left just now.
    fn take(&mut self) -> Option<Self::Buf>;
    /// Takes a buffer for a copy of `bytes` bytes: a small one, where the source has any.
    fn take_small(&mut self, bytes: usize) -> Option<Self::Buf> {
        let _ = bytes;
        self.take()
    }
    /// Gives a buffer back.
    fn give(&mut self, buffer: Self::Buf);
}
