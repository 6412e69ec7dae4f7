//! Services: when to examine the device. State machines over [`Control`], [`RxQueue`] and [`TxQueue`].
//!
//! Each service takes its parts of the device by `&mut`; the caller does the locking. No service waits, and
//! only [`SelfPacing`] reads the clock. `new` makes the machine for a [`Service`](crate::config::Service).
//! The caller calls `interrupt` in its interrupt handler and `poll` where it polls.
//!
//! Services only note link changes ([`Control::take_link_event`]). Handling one takes PHY accesses, which are
//! too slow for an interrupt handler.

mod interrupt_loop;
mod napi;
mod polling;
mod self_pacing;

pub use interrupt_loop::InterruptLoop;
pub use napi::Napi;
pub use polling::Polling;
pub use self_pacing::{NextPoll, SelfPacing, Spent};

use crate::{Causes, Control, RxQueue, TxQueue};
use kpps_platform::{BufferSource, Platform};

/// Exclusive access to a shared part of a device: a plain `&mut`, or a lock.
pub trait Exclusive<T> {
    /// Calls `f` with exclusive access.
    fn with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R;
}

impl<T> Exclusive<T> for &mut T {
    #[inline]
    fn with<R>(&mut self, observe: impl FnOnce(&mut T) -> R) -> R {
        observe(self)
    }
}

/// The work of an interrupt handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// All causes found. None: the interrupt was another device's.
    pub causes: Causes,
    /// Descriptors received.
    pub received: usize,
    /// Buffers of sent frames given back.
    pub reclaimed: usize,
    /// Turns of the loop.
    pub turns: usize,
}

/// The work of a poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Descriptors received.
    pub received: usize,
    /// Buffers of sent frames given back.
    pub reclaimed: usize,
    /// Polling has ended until the next interrupt.
    pub done: bool,
}

/// Follows the queues' counters for dynamic interrupt throttling.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    rx: (u64, u64),
    tx: (u64, u64),
}

impl Meter {
    /// Passes the traffic since the last call to [`Control::note_traffic`].
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
