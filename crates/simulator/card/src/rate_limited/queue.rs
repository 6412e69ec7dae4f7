//! A descriptor ring, and the delay of interrupts.

use super::{Params, Timer, descriptor};

/// No event.
pub(super) const NEVER: u64 = u64::MAX;

/// A ring: the driver's descriptors, and the card's position.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ring {
    pub(super) base: u64,
    size: u32,
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Ring {
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }
    pub(super) fn descriptor(&self) -> u64 {
        self.base + u64::from(self.head) * descriptor::BYTES as u64
    }
    pub(super) fn advance(&mut self) {
        self.head = if self.head + 1 == self.size { 0 } else { self.head + 1 };
    }
    pub(super) fn set_size(&mut self, size: u32) {
        *self = Self { base: self.base, size, head: 0, tail: 0 };
    }
    pub(super) fn set_tail(&mut self, tail: u32) {
        self.tail = if tail < self.size { tail } else { self.head };
    }
    /// The card's descriptors up to the end of the ring.
    pub(super) fn in_a_row(&self) -> u32 {
        if self.tail < self.head { self.size - self.head } else { self.tail - self.head }
    }
}

/// The delayed interrupts of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) delay: u32,
    pub(super) frames: u32,
    pub(super) count: u32,
    pub(super) due_ps: u64,
}

impl Held {
    pub(super) const NONE: Self = Self { delay: 0, frames: 0, count: 0, due_ps: NEVER };

    /// Notes a frame to report at `now`. Returns whether to interrupt at once.
    pub(super) fn note(&mut self, now: u64, params: &Params) -> bool {
        self.count += 1;
        if self.delay == 0 || (self.frames > 0 && self.count >= self.frames) {
            return true;
        }
        if self.due_ps == NEVER {
            let period = u64::from(self.delay) * params.tick_ps.max(1);
            self.due_ps = match params.timer {
                Timer::FreeRunning => (now / period + 1) * period,
                Timer::FirstFrame => now + period,
            };
        }
        false
    }
}

/// A receive queue, and its interrupt.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) cause: u32,
    pub(super) mask: u32,
    pub(super) auto: bool,
    pub(super) held: Held,
    pub(super) ring: Ring,
    /// Descriptors fetched and not used.
    pub(super) fetched: u32,
    pub(super) headers: u64,
    pub(super) header_bytes: u32,
}

impl Queue {
    pub(super) const NEW: Self = Self {
        cause: 0,
        mask: 0,
        auto: false,
        held: Held::NONE,
        ring: Ring { base: 0, size: 0, head: 0, tail: 0 },
        fetched: 0,
        headers: 0,
        header_bytes: 0,
    };
}
