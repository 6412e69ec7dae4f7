//! The interrupt schedules a poll; the poll has a budget and decides when interrupts come back.

use super::{Exclusive, Meter, Polled};
use crate::{
    Control, Error, Received, RxQueue, TxQueue,
    config::{Itr, NapiExit},
};
use kpps_platform::{BufferSource, Platform};

/// NAPI, as Linux drivers have it.
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

    /// Handles an interrupt: reads ICR, masks. True: schedule [`poll`](Self::poll). False: not
    /// ours, or a poll is scheduled already. [`Error::Gone`] if the device has vanished.
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

    /// One poll: reclaims what was sent, receives at most `budget` and at most the weight, and ends
    /// polling (unmasks) if its exit rule says so. Call again later unless
    /// [`done`](Polled::done).
    ///
    /// The control half and the transmit queue are only held while they are used, not while frames are received: an
    /// interrupt handler may read ICR meanwhile, and other CPUs (or `sink`) may send.
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
            tx.attend(true);
            tx.reclaim(usize::MAX)
        };
        let (received, reclaimed, done);
        match self.exit {
            NapiExit::BothIdle => {
                reclaimed = tx.with(reclaim);
                received = rx.receive(limit, sink);
                done = reclaimed == 0 && received < limit;
            }
            NapiExit::EitherIdle => {
                reclaimed = tx.with(reclaim);
                received = rx.receive(limit, sink);
                done = reclaimed == 0 || received < limit;
            }
            NapiExit::ReceiveFirst => {
                tx.with(|tx| tx.attend(true));
                received = rx.receive(limit, sink);
                reclaimed = if received == 0 { tx.with(reclaim) } else { 0 };
                done = received == 0 && reclaimed == 0;
            }
        }
        if done {
            self.scheduled = false;
            let Self { meter, mask, .. } = self;
            tx.with(|tx| {
                tx.settle_if_idle();
                tx.attend(false);
                tx.settle();
                control.with(|control| {
                    meter.report(control, rx, tx);
                    if *mask {
                        control.unmask();
                    }
                });
            });
        } else {
            tx.with(|tx| {
                tx.settle_if_idle();
                control.with(|control| {
                    // A ratio over two seconds wants all traffic, also that of polling without an end.
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
