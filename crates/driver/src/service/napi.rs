//! The interrupt schedules a poll; the poll has a budget and decides when interrupts come back.

use super::{Meter, Polled};
use crate::{Control, Error, Received, RxQueue, TxQueue, config::NapiExit};
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
    pub fn poll<P: Platform, S: BufferSource>(
        &mut self,
        control: &mut Control<P>,
        rx: &mut RxQueue<P, S>,
        tx: &mut TxQueue<P, S>,
        budget: usize,
        sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Polled {
        let limit = budget.min(self.weight.into());
        tx.attend(true);
        let (received, reclaimed, done);
        match self.exit {
            NapiExit::BothIdle => {
                reclaimed = tx.reclaim(usize::MAX);
                received = rx.receive(limit, sink);
                done = reclaimed == 0 && received < limit;
            }
            NapiExit::EitherIdle => {
                reclaimed = tx.reclaim(usize::MAX);
                received = rx.receive(limit, sink);
                done = reclaimed == 0 || received < limit;
            }
            NapiExit::ReceiveFirst => {
                received = rx.receive(limit, sink);
                reclaimed = if received == 0 { tx.reclaim(usize::MAX) } else { 0 };
                done = received == 0 && reclaimed == 0;
            }
        }
        tx.settle_if_idle();
        if done {
            self.scheduled = false;
            tx.attend(false);
            tx.settle();
            self.meter.report(control, rx, tx);
            if self.mask {
                control.unmask();
            }
        }
        Polled { received, reclaimed, done }
    }

    /// Whether a poll is scheduled.
    pub fn is_scheduled(&self) -> bool {
        self.scheduled
    }
}
