//! When to look at the device: state machines over the three halves.
//!
//! Each takes the halves by `&mut`; locking is the caller's. None of them waits, and none but
//! [`SelfPacing`] looks at the clock. The machine for a [`Service`](crate::config::Service) is made by its
//! `new`; the caller calls `interrupt` in its interrupt handler and `poll` where it polls.
//!
//! Link changes are only noted here ([`Control::take_link_event`]): handling them takes PHY
//! accesses, which no interrupt handler should wait for.

mod interrupt_loop;
mod napi;
mod polling;
mod self_pacing;

pub use interrupt_loop::InterruptLoop;
pub use napi::Napi;
pub use polling::Polling;
pub use self_pacing::{Next, SelfPacing, Spent};

use crate::{Causes, Control, RxQueue, TxQueue};
use kpps_platform::{BufferSource, Platform};

/// A part of a device that others use too, one at a time: a plain `&mut`, or a lock.
pub trait Exclusive<T> {
    /// Looks at it, or changes it, while nobody else does.
    fn with<R>(&mut self, look: impl FnOnce(&mut T) -> R) -> R;
}

impl<T> Exclusive<T> for &mut T {
    #[inline]
    fn with<R>(&mut self, look: impl FnOnce(&mut T) -> R) -> R {
        look(self)
    }
}

/// What an interrupt handler did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// All causes seen; none: the interrupt was another device's.
    pub causes: Causes,
    /// Descriptors received.
    pub received: usize,
    /// Buffers of sent frames given back.
    pub reclaimed: usize,
    /// Turns of the loop.
    pub turns: usize,
}

/// What a poll did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Descriptors received.
    pub received: usize,
    /// Buffers of sent frames given back.
    pub reclaimed: usize,
    /// Polling is over until the next interrupt.
    pub done: bool,
}

/// Watches the queues' counters for dynamic interrupt throttling.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    rx: (u64, u64),
    tx: (u64, u64),
}

impl Meter {
    /// Tells the control half what has passed since the last call.
    #[inline]
    fn report<P: Platform, S: BufferSource>(
        &mut self,
        control: &mut Control<P>,
        rx: &RxQueue<P, S>,
        tx: &TxQueue<P, S>,
    ) {
        let (r, t) = (rx.counters(), tx.counters());
        let now = Self { rx: (r.frames, r.bytes), tx: (t.frames, t.bytes) };
        let since = |now: (u64, u64), last: (u64, u64)| ((now.0 - last.0) as u32, (now.1 - last.1) as u32);
        control.note_traffic(since(now.rx, self.rx), since(now.tx, self.tx));
        *self = now;
    }
}
