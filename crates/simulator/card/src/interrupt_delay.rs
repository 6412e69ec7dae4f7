//! The timers that delay an interrupt: RDTR and RADV after a received packet, TIDV and TADV after a sent one.
//!
//! - RDTR (SDM 13.4.30) starts when a packet is in memory. On most chips each packet starts it again; on the
//!   82542 and 82544 it runs from the first ([`DelayTimer`]). At 0 every write-back of a packet interrupts at
//!   once.
//! - RADV (SDM 13.4.31) starts with the first packet and bounds how long packets can restart RDTR.
//! - TIDV (SDM 13.4.41) and TADV (SDM 13.4.44) are the same for descriptors that ask for a delayed report
//!   (IDE).
//!
//! All four count in units of 1.024 µs. Either timer of a pair writes back what is done, interrupts, and
//! cancels the other one.

use crate::deadlines::Source;
use crate::params::Moderation;
use crate::{Host, Nic};
use kpps_datasheet::bit::cause;
use kpps_datasheet::chip::DelayTimer;

/// The unit of RDTR, RADV, TIDV and TADV in ps (SDM 13.4.30).
const TICK_PS: u64 = 1_024_000;

impl Nic {
    /// Whether a received packet interrupts only when RDTR or RADV has expired.
    #[inline]
    pub(crate) fn waits_for_rdtr(&self) -> bool {
        self.rx.rdtr != 0 && self.params.moderation == Moderation::Manual
    }

    /// A packet is in memory: RDTR and RADV start (SDM 3.2.7.1).
    #[inline]
    pub(crate) fn start_rdtr_radv(&mut self, now: u64) {
        let at = now + u64::from(self.rx.rdtr) * TICK_PS;
        match self.params.rdtr_from {
            DelayTimer::EachPacket => self.deadlines.set(Source::Rdtr, at),
            DelayTimer::FirstPacket => {
                if !self.deadlines.pending(Source::Rdtr) {
                    self.deadlines.set(Source::Rdtr, at);
                }
            }
        }
        if self.rx.radv != 0 && !self.deadlines.pending(Source::Radv) {
            let at = now + u64::from(self.rx.radv) * TICK_PS;
            self.deadlines.set(Source::Radv, at);
        }
    }

    /// RDTR or RADV has expired: each cancels the other (SDM 13.4.30, 13.4.31).
    pub(crate) fn rdtr_radv_expired<H: Host>(&mut self, now: u64, host: &mut H) {
        if self.rx.rdtr == 0 {
            // The time after which an incomplete cache line is written back if no frame follows. A frame that
            // waits in the FIFO for the bus does follow, and starts the time again when it is in memory. Each
            // write-back of a packet interrupts; the timer itself does not.
            if self.rx.is_idle() {
                self.expire_rdtr_radv(now, 0, host);
            }
            return;
        }
        self.expire_rdtr_radv(now, cause::RXT0, host);
    }

    /// Expires both timers, also for RDTR.FPD (SDM 3.2.7.1.1): writes back all that is done, then sets
    /// `causes`.
    pub(crate) fn expire_rdtr_radv<H: Host>(&mut self, now: u64, causes: u32, host: &mut H) {
        self.stop_rdtr_radv();
        self.rx_flush(now, causes, host);
    }

    /// Stops RDTR and RADV.
    pub(crate) fn stop_rdtr_radv(&mut self) {
        self.deadlines.clear(Source::Rdtr);
        self.deadlines.clear(Source::Radv);
    }

    /// Starts TIDV, and TADV if it does not run. `packing`: the timer only bounds how long descriptors
    /// accumulate, so a running one is not restarted.
    pub(crate) fn start_tidv_tadv(&mut self, now: u64, packing: bool) {
        let at = now + u64::from(self.tx.tidv) * TICK_PS;
        let runs = self.deadlines.pending(Source::Tidv);
        if !runs || (!packing && self.params.tidv_from == DelayTimer::EachPacket) {
            self.deadlines.set(Source::Tidv, at);
        }
        if self.tx.tadv != 0 && !self.deadlines.pending(Source::Tadv) {
            let at = now + u64::from(self.tx.tadv) * TICK_PS;
            self.deadlines.set(Source::Tadv, at);
        }
    }

    /// Stops TIDV and TADV.
    pub(crate) fn stop_tidv_tadv(&mut self) {
        self.deadlines.clear(Source::Tidv);
        self.deadlines.clear(Source::Tadv);
    }

    /// TIDV or TADV has expired: writes back all that is done, then sets TXDW.
    pub(crate) fn tidv_tadv_expired<H: Host>(&mut self, now: u64, host: &mut H) {
        self.stop_tidv_tadv();
        self.tx.flush_causes |= cause::TXDW;
        self.tx.flush_mark = self.tx.queue.done_mark();
        self.tx_write_back(now, host);
    }
}
