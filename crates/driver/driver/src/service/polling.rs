//! Polling without interrupts: the caller decides when.

use super::Polled;
use crate::{Received, RxQueue, TxQueue};
use kpps_platform::{BufferSource, Platform};

/// Polling in bursts.
#[derive(Clone, Debug)]
pub struct Polling {
    burst: u16,
}

impl Polling {
    /// See [`Service::Polling`](crate::config::Service::Polling). Interrupts are masked after
    /// [`probe`](crate::probe) and stay masked.
    pub fn new(burst: u16) -> Self {
        Self { burst }
    }

    /// One poll: reclaims sent frames, and receives at most a burst and at most `budget`. Never
    /// [`done`](Polled::done).
    #[inline]
    pub fn poll<P: Platform, S: BufferSource>(
        &mut self,
        rx: &mut RxQueue<P, S>,
        tx: &mut TxQueue<P, S>,
        budget: usize,
        sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Polled {
        tx.set_polled(true);
        let reclaimed = tx.reclaim(usize::MAX);
        let received = rx.receive(budget.min(self.burst.into()), sink);
        tx.request_report_if_idle();
        Polled { received, reclaimed, done: false }
    }
}
