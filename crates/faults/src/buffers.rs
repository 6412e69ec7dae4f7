//! Packet buffers of which each use is checked: who has one, and what the card may do with it.

use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use kpps_machine::MS;
use kpps_machine::memory::{Bytes, Memory};
use kpps_platform::{Buffer, BufferSource};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Bytes of a buffer. Each begins at a multiple of this, so none crosses 64 KiB.
pub(crate) const BUFFER_BYTES: usize = 2048;

/// What the card may do with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// Nothing: it is in the pool.
    Free,
    /// Nothing: the driver or an application has it.
    Taken,
    /// Write a received frame of at most this many bytes.
    Write(u16),
    /// Read a frame of at most this many bytes, to send it.
    Read(u16),
}

/// The rights of all buffers, by number.
pub(crate) struct Rights {
    base: u64,
    rights: Box<[Cell<Right>]>,
}

impl Rights {
    /// The buffer at `address`, if it is one's, and the offset in it.
    fn at(&self, address: u64) -> Option<(&Cell<Right>, usize)> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        Some((self.rights.get(offset / BUFFER_BYTES)?, offset % BUFFER_BYTES))
    }

    /// Whether `address` is within a buffer.
    pub(crate) fn holds(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// Whether the card may write so many bytes there.
    pub(crate) fn may_write(&self, address: u64, bytes: usize) -> bool {
        let Some((right, offset)) = self.at(address) else { return false };
        matches!(right.get(), Right::Write(most) if offset + bytes <= most.into())
    }

    /// Whether the card may read so many bytes there.
    pub(crate) fn may_read(&self, address: u64, bytes: usize) -> bool {
        let Some((right, offset)) = self.at(address) else { return false };
        matches!(right.get(), Right::Read(most) if offset + bytes <= most.into())
    }
}

/// A packet buffer.
pub(crate) struct Buf {
    bytes: Bytes,
    number: usize,
    /// It is about to be sent: what the card gets is a right to read.
    pub(crate) sends: bool,
    shared: Rc<Shared>,
}

impl Buf {
    fn right(&self) -> &Cell<Right> {
        &self.shared.rights.rights[self.number]
    }
}

impl Buffer for Buf {
    fn bus(&self) -> u64 {
        self.bytes.address()
    }
    fn capacity(&self) -> usize {
        BUFFER_BYTES
    }
    fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_mut_slice()
    }
    fn sync_for_cpu(&self, _: usize) {
        self.right().set(Right::Taken);
    }
    fn sync_for_device(&self, len: usize) {
        let len = len.min(BUFFER_BYTES) as u16;
        self.right().set(if self.sends { Right::Read(len) } else { Right::Write(len) });
    }
}

struct Shared {
    free: RefCell<Vec<Buf>>,
    count: usize,
    rights: Rc<Rights>,
    dice: Rc<Dice>,
    check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
    /// No buffer is given out before this time.
    none_until_ps: Cell<u64>,
}

/// A pool of buffers. Clones are the same pool.
#[derive(Clone)]
pub(crate) struct Pool(Rc<Shared>);

impl Pool {
    /// A pool of `count` buffers, or as many as `memory` has room for.
    pub(crate) fn new(
        memory: &Rc<Memory>,
        count: usize,
        dice: &Rc<Dice>,
        check: &Rc<Check>,
        now_ps: &Rc<Cell<u64>>,
    ) -> Self {
        let all = (0..count).map_while(|_| Bytes::allocate(memory, BUFFER_BYTES, BUFFER_BYTES));
        let all: Vec<_> = all.collect();
        let count = all.len();
        let rights = Rc::new(Rights {
            base: all.first().map_or(0, Bytes::address),
            rights: (0..count).map(|_| Cell::new(Right::Free)).collect(),
        });
        let shared = Rc::new(Shared {
            free: RefCell::new(Vec::with_capacity(count)),
            count,
            rights,
            dice: dice.clone(),
            check: check.clone(),
            now_ps: now_ps.clone(),
            none_until_ps: Cell::new(0),
        });
        for (number, bytes) in all.into_iter().enumerate() {
            let buffer = Buf { bytes, number, sends: false, shared: shared.clone() };
            shared.free.borrow_mut().push(buffer);
        }
        Self(shared)
    }

    /// The rights of all buffers.
    pub(crate) fn rights(&self) -> Rc<Rights> {
        self.0.rights.clone()
    }

    /// Buffers outside of the pool.
    pub(crate) fn outside(&self) -> usize {
        self.0.count - self.0.free.borrow().len()
    }

    /// An opportunity for [`Fault::NoBuffers`].
    pub(crate) fn tick(&self) {
        if self.0.dice.throws(Fault::NoBuffers) {
            let ps = self.0.dice.below(Fault::NoBuffers, MS);
            self.0.none_until_ps.set(self.0.now_ps.get() + ps);
        }
    }

    /// Forgets the buffers, which refer to the pool.
    pub(crate) fn close(&self) {
        drop(std::mem::take(&mut *self.0.free.borrow_mut()));
    }
}

impl BufferSource for Pool {
    type Buf = Buf;

    fn take(&mut self) -> Option<Buf> {
        if self.0.now_ps.get() < self.0.none_until_ps.get() && self.0.dice.is_active() {
            return None;
        }
        let mut buffer = self.0.free.borrow_mut().pop()?;
        buffer.sends = false;
        if buffer.right().replace(Right::Taken) != Right::Free {
            self.0.check.breach(Breach::BufferTwice);
        }
        Some(buffer)
    }

    fn give(&mut self, buffer: Buf) {
        if buffer.right().replace(Right::Free) == Right::Free {
            self.0.check.breach(Breach::BufferTwice);
        }
        self.0.free.borrow_mut().push(buffer);
    }
}
