//! A platform without hardware, for unit tests and examples of a driver.
//!
//! A [`Fake`] has a register window that is an array, ordinary memory as DMA memory, and a clock that only
//! [`Fake::advance`] and [`Platform::wait_ns`] move. The device behind the window is a function: it is called
//! for each register access and returns the value of the register. It reaches rings and buffers through
//! [`Memory::device_read`] and [`Memory::device_write`], as a real device does over the bus.
//!
//! Packet buffers come from a pool of the same memory: [`Memory::pool`].
//!
//! ```
//! use kpps_platform::fake::Fake;
//! use kpps_platform::wrap::Access;
//! use kpps_platform::{Platform, Registers};
//!
//! const COMMAND: u32 = 0x10;
//! const DONE: u32 = 1 << 31;
//!
//! // A device that completes each command at once.
//! let fake = Fake::with_device(|_, access| match access {
//!     Access::Write { offset: COMMAND, value } => value | DONE,
//!     Access::Read { value, .. } | Access::Write { value, .. } => value,
//! })?;
//! let registers = fake.registers();
//! registers.write(COMMAND, 7);
//! assert_eq!(registers.read(COMMAND), 7 | DONE);
//!
//! fake.wait_ns(1_500);
//! assert_eq!(fake.now_ns(), 1_500);
//! # Ok::<(), std::io::Error>(())
//! ```

use crate::memory::{Memory, RingMemory};
use crate::wrap::Access;
use crate::{DmaSpec, OutOfMemory, Platform, Registers};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// The size of the register window in bytes, as BAR 0 of an 8254x.
const WINDOW_BYTES: usize = 128 << 10;
/// The size of the memory in bytes. A page of it takes space once it is written.
const MEMORY_BYTES: usize = 16 << 20;

/// The device: it gets a register access and returns the value that the register is read as, or holds after
/// the write. [`Access::Read`] has the value that the register holds.
type Device = dyn Fn(&Fake, Access) -> u32;

/// A platform without hardware. Clones are handles of the same platform, for one thread.
#[derive(Clone)]
pub struct Fake(Rc<Inner>);

struct Inner {
    registers: RefCell<Box<[u32]>>,
    device: Box<Device>,
    memory: Memory,
    now_ns: Cell<u64>,
}

impl Fake {
    /// A platform whose registers keep the values that are written, and are 0 before.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub fn new() -> io::Result<Self> {
        Self::with_device(|_, (Access::Read { value, .. } | Access::Write { value, .. })| value)
    }

    /// A platform with this device. The device must not access the registers through [`Registers`], which
    /// would call it again: it has [`register`](Self::register) and [`set_register`](Self::set_register).
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub fn with_device(device: impl Fn(&Self, Access) -> u32 + 'static) -> io::Result<Self> {
        Ok(Self(Rc::new(Inner {
            registers: RefCell::new(vec![0; WINDOW_BYTES / 4].into()),
            device: Box::new(device),
            memory: Memory::private(MEMORY_BYTES)?,
            now_ns: Cell::new(0),
        })))
    }

    /// The memory that CPU and device share.
    pub fn memory(&self) -> &Memory {
        &self.0.memory
    }

    /// The value that the register at byte `offset` holds, without a call of the device. All ones outside the
    /// window.
    pub fn register(&self, offset: u32) -> u32 {
        self.0.registers.borrow().get(offset as usize / 4).copied().unwrap_or(u32::MAX)
    }

    /// Sets the register at byte `offset`, without a call of the device. Ignored outside the window.
    pub fn set_register(&self, offset: u32, value: u32) {
        if let Some(register) = self.0.registers.borrow_mut().get_mut(offset as usize / 4) {
            *register = value;
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, ns: u64) {
        self.0.now_ns.set(self.0.now_ns.get() + ns);
    }
}

impl Platform for Fake {
    type Regs = Self;
    type Mem = RingMemory;
    fn registers(&self) -> Self {
        self.clone()
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.0.memory.ring(spec)
    }
    fn now_ns(&self) -> u64 {
        self.0.now_ns.get()
    }
    fn wait_ns(&self, ns: u64) {
        self.advance(ns);
    }
}

impl Registers for Fake {
    fn read(&self, offset: u32) -> u32 {
        (self.0.device)(self, Access::Read { offset, value: self.register(offset) })
    }
    fn write(&self, offset: u32, value: u32) {
        let value = (self.0.device)(self, Access::Write { offset, value });
        self.set_register(offset, value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Buffer, BufferSource, DmaMemory};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn registers_keep_what_is_written() {
        let fake = Fake::new().unwrap();
        assert_eq!(fake.read(8), 0);
        fake.write(8, 7);
        assert_eq!((fake.read(8), fake.read(12), fake.read(WINDOW_BYTES as u32)), (7, 0, u32::MAX));
        fake.write(u32::MAX, 1);
    }

    /// The device copies eight bytes from the bus address in register 0 to the one in register 4.
    #[test]
    fn a_device_reaches_rings_and_buffers() {
        let fake = Fake::with_device(|fake, access| {
            let (Access::Read { offset, value } | Access::Write { offset, value }) = access;
            if matches!(access, Access::Write { offset: 4, .. }) {
                let mut bytes = [0; 8];
                assert!(fake.memory().device_read(fake.register(0).into(), &mut bytes));
                assert!(fake.memory().device_write(value.into(), &bytes));
                fake.advance(10);
            }
            if offset == 8 { 42 } else { value }
        })
        .unwrap();
        let spec = DmaSpec { bytes: 64, align: 16, boundary: None, max_address: u32::MAX.into() };
        let ring = fake.allocate(spec).unwrap();
        let mut pool = fake.memory().pool(1, 2048, None).unwrap();
        let buffer = pool.take().unwrap();
        ring.words()[1].store(u64::from_le_bytes(*b"a frame."), Relaxed);
        fake.write(0, ring.bus() as u32 + 8);
        fake.write(4, buffer.bus() as u32);
        assert_eq!(&buffer.bytes()[..8], b"a frame.");
        assert_eq!((fake.read(8), fake.register(8)), (42, 0));
        assert_eq!(fake.clone().now_ns(), 10, "one clock");
    }
}
