//! No interrupts: whoever calls decides when.

use super::Polled;
use crate::{Received, RxQueue, TxQueue};
use kpps_platform::{BufferSource, Platform};

/// Polling, with a burst.
#[derive(Clone, Debug)]
pub struct Polling {
    burst: u16,
}

impl Polling {
    /// See [`Service::Polling`](crate::config::Service::Polling). Interrupts are masked after
    /// [`probe`](crate::probe) and stay so.
    pub fn new(burst: u16) -> Self {
        Self { burst }
    }

    /// One poll: reclaims what was sent, receives at most a burst, or `budget` if that is less. Never done.
    #[inline]
    pub fn poll<P: Platform, S: BufferSource>(
        &mut self,
        rx: &mut RxQueue<P, S>,
        tx: &mut TxQueue<P, S>,
        budget: usize,
        sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Polled {
        tx.attend(true);
        let reclaimed = tx.reclaim(usize::MAX);
        let received = rx.receive(budget.min(self.burst.into()), sink);
        tx.settle_if_idle();
        Polled { received, reclaimed, done: false }
    }
}
