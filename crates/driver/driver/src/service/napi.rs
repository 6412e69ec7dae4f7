//! NAPI: the interrupt masks and schedules a poll. The poll has a budget, and its exit rule ([`NapiExit`])
//! says when polling ends and interrupts are unmasked.

use super::{Exclusive, Meter, Polled};
use crate::{
    Control, Error, Received, RxQueue, TxQueue,
    config::{Itr, NapiExit},
};
use kpps_platform::{BufferSource, Platform};

/// NAPI, as in Linux drivers.
#[derive(Clone, Debug)]
pub struct Napi {
    weight: u16,
    exit: NapiExit,
    mask: bool,
    scheduled: bool,
    meter: Meter,
}

impl Napi {
    /// See [`Service::Napi`](crate::config::Service::Napi).
    pub fn new(weight: u16, exit: NapiExit, mask: bool) -> Self {
        Self { weight, exit, mask, scheduled: false, meter: Meter::default() }
    }

    /// Handles an interrupt: reads ICR and masks. True: schedule [`poll`](Self::poll). False: the interrupt
    /// was another device's, or a poll is scheduled already.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
    pub fn interrupt<P: Platform>(&mut self, control: &mut Control<P>) -> Result<bool, Error> {
        if !control.causes()?.any() || self.scheduled {
            return Ok(false);
        }
        if self.mask {
            control.mask();
        }
        self.scheduled = true;
        Ok(true)
    }

    /// One poll: reclaims sent frames, receives at most `budget` and at most the weight, and ends polling
    /// (unmasks) if the exit rule says so. Call again later unless [`done`](Polled::done).
    ///
    /// The control half and the transmit queue are locked only while they are used, not while frames are
    /// received. Meanwhile an interrupt handler may read ICR, and other CPUs (or `sink`) may send.
    pub fn poll<P: Platform, S: BufferSource>(
        &mut self,
        mut control: impl Exclusive<Control<P>>,
        rx: &mut RxQueue<P, S>,
        mut tx: impl Exclusive<TxQueue<P, S>>,
        budget: usize,
        sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Polled {
        let limit = budget.min(self.weight.into());
        let reclaim = |tx: &mut TxQueue<P, S>| {
            tx.set_polled(true);
            tx.reclaim(usize::MAX)
        };
        let (received, reclaimed);
        if self.exit == NapiExit::ReceiveFirst {
            tx.with(|tx| tx.set_polled(true));
            received = rx.receive(limit, sink);
            reclaimed = if received == 0 { tx.with(reclaim) } else { 0 };
        } else {
            reclaimed = tx.with(reclaim);
            received = rx.receive(limit, sink);
        }
        let done = match self.exit {
            NapiExit::BothIdle => reclaimed == 0 && received < limit,
            NapiExit::EitherIdle => reclaimed == 0 || received < limit,
            NapiExit::ReceiveIdle => received < limit,
            NapiExit::ReceiveFirst => reclaimed == 0 && received == 0,
        };
        if done {
            self.scheduled = false;
            let Self { meter, mask, .. } = self;
            tx.with(|tx| {
                tx.request_report_if_idle();
                tx.set_polled(false);
                tx.request_report();
                control.with(|control| {
                    meter.report(control, rx, tx);
                    if *mask {
                        control.unmask();
                    }
                });
            });
        } else {
            tx.with(|tx| {
                tx.request_report_if_idle();
                control.with(|control| {
                    // A ratio over two seconds needs all traffic, that of endless polling included.
                    if control.config().moderation.itr == Itr::Ratio {
                        self.meter.report(control, rx, tx);
                    }
                });
            });
        }
        Polled { received, reclaimed, done }
    }

    /// Whether a poll is scheduled.
    pub fn is_scheduled(&self) -> bool {
        self.scheduled
    }
}
