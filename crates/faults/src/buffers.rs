//! Packet buffers of which each use is checked: who has one, and what the card may do with it. The pool under
//! them is the one that real cards have.

use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use kpps_machine::MS;
use kpps_platform::memory::{BufferPool, Memory, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use std::cell::Cell;
use std::rc::Rc;

/// How buffers lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// None crosses 64 KiB.
    Apart,
    /// They are the ends of chunks.
    Chunks,
    /// Some cross 64 KiB.
    Anywhere,
}

/// Bytes of a buffer; or 64 more, so that some cross 64 KiB.
pub(crate) const BUFFER_BYTES: usize = 2048;
/// The other kind of buffers: the end of chunks of this size, behind so many bytes of headroom.
const CHUNK_BYTES: usize = 4096;
const HEADROOM_BYTES: usize = 1024;

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
    /// Bytes from one buffer to the next.
    apart: usize,
    rights: Box<[Cell<Right>]>,
}

impl Rights {
    /// The buffer at `address`, if it is one's, and the offset in it.
    fn at(&self, address: u64) -> Option<(&Cell<Right>, usize)> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        Some((self.rights.get(offset / self.apart)?, offset % self.apart))
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
    /// `None` only while it is given back or dropped.
    inner: Option<PoolBuffer>,
    /// It is about to be sent: what the card gets is a right to read.
    pub(crate) sends: bool,
    /// So many bytes of it are visible to the CPU.
    visible: Cell<usize>,
    shared: Rc<Shared>,
}

impl Buf {
    /// Whether the driver has made so many bytes visible to the CPU.
    pub(crate) fn shows(&self, bytes: usize) -> bool {
        self.right() == Some(Right::Taken) && bytes <= self.visible.get()
    }

    fn right(&self) -> Option<Right> {
        self.shared.rights.at(self.bus()).map(|(right, _)| right.get())
    }

    fn set_right(&self, right: Right) {
        self.shared.set_right(self.bus(), right);
    }
}

impl Buffer for Buf {
    fn bus(&self) -> u64 {
        self.inner.as_ref().map_or(0, PoolBuffer::bus)
    }
    fn capacity(&self) -> usize {
        self.inner.as_ref().map_or(0, PoolBuffer::capacity)
    }
    fn bytes(&self) -> &[u8] {
        self.inner.as_ref().map_or(&[], PoolBuffer::bytes)
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.inner.as_mut().map_or(&mut [], PoolBuffer::bytes_mut)
    }
    fn sync_for_cpu(&self, len: usize) {
        self.visible.set(len);
        self.set_right(Right::Taken);
    }
    fn sync_for_device(&self, len: usize) {
        self.visible.set(0);
        let len = len.min(self.capacity()) as u16;
        self.set_right(if self.sends { Right::Read(len) } else { Right::Write(len) });
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.shared.comes_back(&inner);
        }
    }
}

struct Shared {
    rights: Rc<Rights>,
    /// Buffers that somebody has.
    outside: Cell<usize>,
    dice: Rc<Dice>,
    check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
    /// No buffer is given out before this time.
    none_until_ps: Cell<u64>,
}

impl Shared {
    /// Sets the right to the buffer at `address`; returns the one before, if there is such a buffer.
    fn set_right(&self, address: u64, right: Right) -> Option<Right> {
        self.rights.at(address).map(|(place, _)| place.replace(right))
    }

    fn comes_back(&self, buffer: &PoolBuffer) {
        self.outside.set(self.outside.get().wrapping_sub(1));
        if matches!(self.set_right(buffer.bus(), Right::Free), None | Some(Right::Free)) {
            self.check.breach(Breach::BufferTwice);
        }
    }
}

/// A handle to a pool of buffers.
#[derive(Clone)]
pub(crate) struct Pool {
    handle: BufferPool,
    shared: Rc<Shared>,
}

impl Pool {
    /// As many pools as there are ports, of `count` buffers each; `None` if `memory` is too small. Buffers of
    /// any of them may come back to any.
    pub(crate) fn new(
        memory: &Memory,
        (ports, count): (usize, usize),
        layout: Layout,
        dice: &Rc<Dice>,
        check: &Rc<Check>,
        now_ps: &Rc<Cell<u64>>,
    ) -> Option<Vec<Self>> {
        let apart = match layout {
            Layout::Apart => BUFFER_BYTES,
            Layout::Chunks => CHUNK_BYTES,
            Layout::Anywhere => BUFFER_BYTES + 64,
        };
        let pool = |_| match layout {
            Layout::Apart => memory.pool(count, apart, Some(1 << 16)),
            Layout::Chunks => memory.chunks(count, apart, HEADROOM_BYTES),
            Layout::Anywhere => memory.pool(count, apart, None),
        };
        let mut handles = (0..ports).map(pool).collect::<Result<Vec<_>, _>>().ok()?;
        // The first buffer is that with the lowest address.
        let base = handles.first_mut()?.take()?.bus();
        let rights = Rc::new(Rights {
            base,
            apart,
            rights: (0..ports * count).map(|_| Cell::new(Right::Free)).collect(),
        });
        let shared = Rc::new(Shared {
            rights,
            outside: Cell::new(0),
            dice: dice.clone(),
            check: check.clone(),
            now_ps: now_ps.clone(),
            none_until_ps: Cell::new(0),
        });
        Some(handles.into_iter().map(|handle| Self { handle, shared: shared.clone() }).collect())
    }

    /// The rights of all buffers.
    pub(crate) fn rights(&self) -> Rc<Rights> {
        self.shared.rights.clone()
    }

    /// Buffers outside of all pools.
    pub(crate) fn outside(&self) -> usize {
        self.shared.outside.get()
    }

    /// Gives the buffers of this handle's stack, which may be of other pools, to their pools.
    pub(crate) fn empty_stack(&mut self) {
        self.handle = self.handle.clone();
    }

    /// Buffers that are missing from the pool although nobody holds them.
    pub(crate) fn missing(&self) -> usize {
        self.handle.count().abs_diff(self.handle.available())
    }

    /// An opportunity for [`Fault::NoBuffers`].
    pub(crate) fn tick(&self) {
        let shared = &self.shared;
        if shared.dice.throws(Fault::NoBuffers) {
            let ps = shared.dice.below(Fault::NoBuffers, MS);
            shared.none_until_ps.set(shared.now_ps.get() + ps);
        }
    }
}

impl BufferSource for Pool {
    type Buf = Buf;

    fn take(&mut self) -> Option<Buf> {
        let shared = &self.shared;
        if shared.now_ps.get() < shared.none_until_ps.get() && shared.dice.is_active() {
            return None;
        }
        let inner = self.handle.take()?;
        shared.outside.set(shared.outside.get() + 1);
        if shared.set_right(inner.bus(), Right::Taken) != Some(Right::Free) {
            shared.check.breach(Breach::BufferTwice);
        }
        let visible = Cell::new(usize::MAX);
        Some(Buf { inner: Some(inner), sends: false, visible, shared: shared.clone() })
    }

    fn give(&mut self, mut buffer: Buf) {
        if let Some(inner) = buffer.inner.take() {
            self.shared.comes_back(&inner);
            self.handle.give(inner);
        }
    }
}
