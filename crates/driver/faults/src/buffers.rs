//! Packet buffers with a check of each use: who owns a buffer, and what the card may do with it. The pool
//! under them is the pool that real cards use.

use crate::check::{Breach, Check};
use crate::fault::{Dice, Fault};
use crate::host::{HEADROOM_BYTES, Layout};
use crate::plan::WorldPlan;
use fastrand::Rng;
use kpps_host::MS;
use kpps_platform::memory::{BufferPool, Memory, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Whether a buffer crosses 64 KiB.
fn crosses(buffer: &PoolBuffer, bytes: usize) -> bool {
    buffer.bus() >> 16 != (buffer.bus() + bytes as u64 - 1) >> 16
}

/// Handles of pools with fewer buffers keep none.
const SMALL_POOL: usize = 512;

/// The card's right to access a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// The card may do nothing: the buffer is in the pool.
    Free,
    /// The card may do nothing: the driver or an application has the buffer.
    Taken,
    /// The card may do nothing yet: a receive ring has the buffer, for a frame of at most this number of
    /// bytes.
    ToWrite(u16),
    /// The card may write such a frame: a descriptor of the receive ring with this buffer has been handed
    /// over.
    Write(u16),
    /// The card may do nothing yet: a transmit ring has the buffer, with this number of bytes of a frame.
    ToRead(u16),
    /// The card may read these bytes: the descriptors of a frame with this buffer have been handed over.
    Read(u16),
}

impl Right {
    /// A receive ring has the buffer, and a transmit ring has it.
    fn rings(self) -> [bool; 2] {
        [matches!(self, Self::ToWrite(_) | Self::Write(_)), matches!(self, Self::ToRead(_) | Self::Read(_))]
    }
}

/// The rights of all buffers, by number.
pub(crate) struct Rights {
    base: u64,
    /// Bytes from one buffer to the next.
    apart: usize,
    rights: Box<[Cell<Right>]>,
    /// Buffers that receive rings have, and that transmit rings have.
    in_rings: [Cell<usize>; 2],
}

impl Rights {
    /// The buffer that contains `address`, if there is one, and the offset in the buffer.
    fn at(&self, address: u64) -> Option<(&Cell<Right>, usize)> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        Some((self.rights.get(offset / self.apart)?, offset % self.apart))
    }

    /// Whether `address` is within a buffer.
    pub(crate) fn holds(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// Whether the card may write `bytes` bytes at `address`.
    pub(crate) fn may_write(&self, address: u64, bytes: usize) -> bool {
        let Some((right, offset)) = self.at(address) else { return false };
        matches!(right.get(), Right::Write(most) if offset + bytes <= most.into())
    }

    /// Whether the card may read `bytes` bytes at `address`.
    pub(crate) fn may_read(&self, address: u64, bytes: usize) -> bool {
        let Some((right, offset)) = self.at(address) else { return false };
        matches!(right.get(), Right::Read(most) if offset + bytes <= most.into())
    }

    /// Records that a receive descriptor is handed over. Returns whether the ring has this buffer, and no
    /// other descriptor has it.
    pub(crate) fn hand_over_to_write(&self, address: u64, bytes: usize) -> bool {
        let Some((right, offset)) = self.at(address) else { return false };
        let Right::ToWrite(most) = right.get() else { return false };
        right.set(Right::Write(most));
        offset + bytes <= most.into()
    }

    /// Records that a transmit descriptor is handed over. Returns whether the ring has these bytes of a
    /// buffer, and no other frame has them.
    pub(crate) fn hand_over_to_read(&self, address: u64, bytes: usize) -> bool {
        let Some((right, offset)) = self.at(address) else { return false };
        let Right::ToRead(most) = right.get() else { return false };
        if offset + bytes == usize::from(most) {
            right.set(Right::Read(most));
        }
        offset + bytes <= most.into()
    }

    /// Buffers that receive rings have, and that transmit rings have.
    pub(crate) fn in_rings(&self) -> [usize; 2] {
        self.in_rings.each_ref().map(Cell::get)
    }

    /// Sets the right to the buffer at `address`; returns the one before, if there is such a buffer.
    fn set(&self, address: u64, right: Right) -> Option<Right> {
        let before = self.at(address)?.0.replace(right);
        for (count, (was, is)) in self.in_rings.iter().zip(before.rings().into_iter().zip(right.rings())) {
            count.set(count.get() + usize::from(is) - usize::from(was));
        }
        Some(before)
    }
}

/// A packet buffer.
pub(crate) struct Buf {
    /// `None` only while it is given back or dropped.
    inner: Option<PoolBuffer>,
    /// Whether the buffer is about to be sent: then the card gets a right to read.
    pub(crate) sends: bool,
    /// The VLAN tag that its frame came with, or should leave with.
    pub(crate) tag: Option<u16>,
    /// The bytes of the buffer that are visible to the CPU.
    visible: Cell<usize>,
    shared: Rc<Shared>,
}

impl Buf {
    /// Whether the driver has made `bytes` bytes visible to the CPU.
    pub(crate) fn shows(&self, bytes: usize) -> bool {
        self.right() == Some(Right::Taken) && bytes <= self.visible.get()
    }

    /// Whether the driver has handed the buffer to the card since it was taken from the pool.
    pub(crate) fn was_given(&self) -> bool {
        self.visible.get() != usize::MAX
    }

    fn right(&self) -> Option<Right> {
        self.shared.rights.at(self.bus()).map(|(right, _)| right.get())
    }

    fn set_right(&self, right: Right) {
        self.shared.rights.set(self.bus(), right);
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
        self.set_right(if self.sends { Right::ToRead(len) } else { Right::ToWrite(len) });
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.shared.comes_back(&inner);
            self.shared.dropped.set(self.shared.dropped.get() + 1);
        }
    }
}

struct Shared {
    rights: Rc<Rights>,
    /// Buffers that are outside of the pool.
    outside: Cell<usize>,
    dice: Rc<Dice>,
    check: Rc<Check>,
    now_ps: Rc<Cell<u64>>,
    /// The pool gives out no buffer before `none_until_ps`, or while `most_outside` buffers are outside.
    none_until_ps: Cell<u64>,
    most_outside: Cell<usize>,
    layout: Layout,
    /// Bytes of a receive buffer that may not cross 64 KiB. Most buffers that cross it are set aside.
    uncrossed_bytes: Option<usize>,
    aside: RefCell<Vec<PoolBuffer>>,
    random: RefCell<Rng>,
    /// The number of requests for a buffer that found none.
    refused: Cell<u64>,
    /// Buffers that were dropped, not given back.
    dropped: Cell<u64>,
}

impl Shared {
    fn comes_back(&self, buffer: &PoolBuffer) {
        self.outside.set(self.outside.get().wrapping_sub(1));
        if matches!(self.rights.set(buffer.bus(), Right::Free), None | Some(Right::Free)) {
            self.check.breach(Breach::BufferTwice);
        }
    }
}

/// A handle to a pool of buffers.
pub(crate) struct Pool {
    handle: BufferPool,
    shared: Rc<Shared>,
    /// The number of buffers across 64 KiB that this handle has given out for other uses than reception.
    unfit: Cell<u64>,
    /// Whether the buffers of this handle are for frames to send.
    sends: bool,
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), shared: self.shared.clone(), unfit: Cell::new(0), sends: false }
    }
}

impl Pool {
    /// A pool of `count` buffers for each port; `None` if `memory` is too small. A buffer may come back to
    /// any of the pools.
    pub(crate) fn new(
        memory: &Memory,
        plan: &WorldPlan,
        dice: &Rc<Dice>,
        check: &Rc<Check>,
        now_ps: &Rc<Cell<u64>>,
    ) -> Option<Vec<Self>> {
        let (layout, ports, count) = (plan.layout, plan.usage.ports(), plan.buffers);
        let apart = layout.apart();
        let pool = |_| match layout {
            Layout::Apart => memory.pool(count, apart, Some(1 << 16)),
            Layout::Chunks => memory.chunks(count, apart, HEADROOM_BYTES),
            Layout::Anywhere | Layout::Large => memory.pool(count, apart, None),
        };
        let mut handles = (0..ports).map(pool).collect::<Result<Vec<_>, _>>().ok()?;
        // The first buffer has the lowest address.
        let base = handles.first_mut()?.take()?.bus();
        let rights = Rc::new(Rights {
            base,
            apart,
            rights: (0..ports * count).map(|_| Cell::new(Right::Free)).collect(),
            in_rings: Default::default(),
        });
        let shared = Rc::new(Shared {
            rights,
            outside: Cell::new(0),
            dice: dice.clone(),
            check: check.clone(),
            now_ps: now_ps.clone(),
            none_until_ps: Cell::new(0),
            most_outside: Cell::new(usize::MAX),
            layout,
            uncrossed_bytes: plan.uncrossed_bytes(),
            aside: RefCell::default(),
            random: RefCell::new(Rng::with_seed(plan.seed)),
            refused: Cell::new(0),
            dropped: Cell::new(0),
        });
        let pool = |handle| Self { handle, shared: shared.clone(), unfit: Cell::new(0), sends: false };
        Some(handles.into_iter().map(pool).collect())
    }

    /// Buffers of this handle are for frames to send, and not to receive into.
    pub(crate) fn set_sends(&mut self) {
        self.sends = true;
    }

    /// All pools give out a buffer only while fewer than `most` are outside.
    pub(crate) fn set_most_outside(&self, most: usize) {
        self.shared.most_outside.set(most);
    }

    /// Bytes of a buffer.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.shared.layout.bytes()
    }

    /// The number of requests for a buffer that found none.
    pub(crate) fn refused(&self) -> u64 {
        self.shared.refused.get()
    }

    /// The number of buffers that were dropped. A dropped buffer also returns to the pool.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.get()
    }

    /// Whether the buffer that was returned last is given out first, and whether handles of a small pool keep
    /// no buffers.
    pub(crate) fn is_in_order(&mut self) -> bool {
        let Some(last) = self.handle.take() else { return true };
        let at = last.bus();
        self.handle.give(last);
        let Some(first) = self.handle.take() else { return false };
        let in_order = first.bus() == at;
        self.handle.give(first);
        let mut other = self.handle.clone();
        let before = self.handle.available();
        if let Some(buffer) = other.take() {
            other.give(buffer);
        }
        in_order && (self.handle.count() >= SMALL_POOL || self.handle.available() == before)
    }

    /// The number of buffers that this handle has given out and that this chip cannot receive into.
    pub(crate) fn unfit(&self) -> u64 {
        self.unfit.get()
    }

    /// The rights of all buffers.
    pub(crate) fn rights(&self) -> Rc<Rights> {
        self.shared.rights.clone()
    }

    /// Buffers outside of all pools.
    pub(crate) fn outside(&self) -> usize {
        self.shared.outside.get()
    }

    /// Whether the device cannot use some buffers of the pool, because they cross 64 KiB.
    pub(crate) fn has_unfit(&self) -> bool {
        self.shared.uncrossed_bytes.is_some()
    }

    /// Gives the buffers of this handle's stack, which may be of other pools, to their pools.
    pub(crate) fn empty_stack(&mut self) {
        self.shared.aside.borrow_mut().clear();
        self.handle = self.handle.clone();
    }

    /// Buffers that are missing from the pool although no party holds them.
    pub(crate) fn missing(&self) -> usize {
        self.handle.count().abs_diff(self.handle.available())
    }

    /// The next buffer.
    fn inner(&mut self, to_receive: bool) -> Option<PoolBuffer> {
        let shared = &self.shared;
        let now = shared.now_ps.get();
        let none = now < shared.none_until_ps.get() && shared.dice.is_active()
            || shared.outside.get() >= shared.most_outside.get();
        let mut inner = if none { None } else { self.handle.take() };
        if to_receive && let Some(bytes) = shared.uncrossed_bytes {
            while let Some(unfit) = inner.take_if(|buffer| crosses(buffer, bytes)) {
                if shared.random.borrow_mut().u8(..8) == 0 {
                    inner = Some(unfit);
                    break;
                }
                shared.aside.borrow_mut().push(unfit);
                inner = self.handle.take();
            }
        }
        let inner = inner.or_else(|| if none { None } else { shared.aside.borrow_mut().pop() });
        shared.refused.set(shared.refused.get() + u64::from(inner.is_none()));
        inner
    }

    fn given_out(&self, inner: PoolBuffer) -> Buf {
        let shared = &self.shared;
        shared.outside.set(shared.outside.get() + 1);
        if shared.rights.set(inner.bus(), Right::Taken) != Some(Right::Free) {
            shared.check.breach(Breach::BufferTwice);
        }
        Buf {
            inner: Some(inner),
            sends: self.sends,
            tag: None,
            visible: Cell::new(usize::MAX),
            shared: shared.clone(),
        }
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
        let inner = self.inner(true)?;
        if let Some(bytes) = self.shared.uncrossed_bytes {
            self.unfit.set(self.unfit.get() + u64::from(crosses(&inner, bytes)));
        }
        Some(self.given_out(inner))
    }

    fn take_small(&mut self, _: usize) -> Option<Buf> {
        let inner = self.inner(false)?;
        Some(self.given_out(inner))
    }

    fn give(&mut self, mut buffer: Buf) {
        if let Some(inner) = buffer.inner.take() {
            self.shared.comes_back(&inner);
            self.handle.give(inner);
        }
    }
}
