//! The interrupt loop: all work in the interrupt handler, as in drivers before NAPI.

use super::{Handled, Meter};
use crate::{Control, Error, Received, RxQueue, TxQueue, config::Again};
use kpps_platform::{BufferSource, Platform};

/// Serves both rings inside the interrupt handler, in several turns.
#[derive(Clone, Debug)]
pub struct InterruptLoop {
    max_loops: u16,
    mask: bool,
    again: Again,
    meter: Meter,
}

impl InterruptLoop {
    /// See [`Service::InterruptLoop`](crate::config::Service::InterruptLoop).
    pub fn new(max_loops: u16, mask: bool, again: Again) -> Self {
        Self { max_loops, mask, again, meter: Meter::default() }
    }

    /// Handles an interrupt: reads ICR, masks, takes turns of {receive at most a ring, reclaim all}, unmasks.
    /// With [`Again::Cause`] it reads ICR again after each turn but the last.
    ///
    /// With no [`Handled::causes`], the interrupt was another device's.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
    pub fn interrupt<P: Platform, S: BufferSource>(
        &mut self,
        control: &mut Control<P>,
        rx: &mut RxQueue<P, S>,
        tx: &mut TxQueue<P, S>,
        mut sink: impl FnMut(Received<S::Buf>) -> Option<S::Buf>,
    ) -> Result<Handled, Error> {
        let mut handled = Handled { causes: control.causes()?, ..Handled::default() };
        if !handled.causes.any() {
            return Ok(handled);
        }
        if self.mask {
            control.mask();
        }
        let budget = usize::from(control.config().rx_ring);
        for turns_left in (0..self.max_loops).rev() {
            let received = rx.receive(budget, &mut sink);
            let reclaimed = tx.reclaim(usize::MAX);
            handled.received += received;
            handled.reclaimed += reclaimed;
            handled.turns += 1;
            let again = match self.again {
                Again::Work => received + reclaimed > 0,
                Again::Cause if turns_left == 0 => false,
                Again::Cause => {
                    let causes = control.causes()?;
                    handled.causes.0 |= causes.0;
                    causes.any()
                }
            };
            if !again {
                break;
            }
        }
        self.meter.report(control, rx, tx);
        if self.mask {
            control.unmask();
        }
        Ok(handled)
    }
}
