//! Reports of transmit descriptors (SDM 3.4.2, 3.4.3). `interrupt_delay.rs` has the timers.

use crate::deadlines::Source;
use crate::host::{BurstKind, Purpose};
use crate::params::Moderation;
use crate::queue::ON_CHIP;
use crate::{Host, Nic};
use kpps_datasheet::bit::cause;
use kpps_datasheet::desc::{TX_DD, TX_EOP, TX_IDE, TX_RS, tx_cmd};

/// The status byte of a descriptor.
const STATUS_BYTE: u64 = 12;

impl Nic {
    /// The bits that request a report after the frame has left; 0 if the chip has no RPS.
    #[inline]
    fn rps_bits(&self) -> u64 {
        if self.params.report_packet_sent { u64::from(tx_cmd::RPS) << 24 | TX_EOP } else { 0 }
    }

    /// Whether a descriptor is reported only after its frame has left.
    #[inline]
    pub(crate) fn reports_sent(&self, word: u64) -> bool {
        let bits = self.rps_bits();
        bits != 0 && word & bits == bits
    }

    /// Starts a write-back if one is due.
    pub(crate) fn tx_write_back<H: Host>(&mut self, now: u64, host: &mut H) {
        loop {
            if self.tx.queue.is_writing() {
                return;
            }
            let owed = self.tx.flush_mark.saturating_sub(self.tx.queue.written_mark()) as u32;
            if owed == 0 && self.tx.flush_causes != 0 {
                let causes = core::mem::take(&mut self.tx.flush_causes);
                self.raise(now, causes);
            }
            let Some(oldest) = self.tx.queue.oldest_unwritten() else { return };
            let slot = (self.tx.queue.written_mark() % u64::from(ON_CHIP)) as usize;
            if oldest & TX_RS == 0 && !self.reports_sent(oldest) {
                // No report was requested: descriptors accumulate from the first with RS on (SDM 13.4.43).
                self.tx.queue.retire();
                continue;
            }
            if self.tx.report_after[slot] > self.wire.left {
                self.tx.reports_wait = true;
                return;
            }
            let unwritten = self.tx.queue.unwritten();
            let threshold = self.tx.write_at;
            let (wanted, bytes) = match threshold {
                0 => (1, self.params.tx_status_bytes),
                t if unwritten >= t => (self.sent_before_report(unwritten), 0),
                _ if owed != 0 => (self.sent_before_report(owed), 0),
                _ => {
                    self.start_tidv_tadv(now, true);
                    return;
                }
            };
            let (addr, n) = self.tx.queue.start_write_back(wanted);
            let (addr, bytes) = if threshold == 0 { (addr + STATUS_BYTE, bytes) } else { (addr, n * 16) };
            let end = host.burst(now, BurstKind::Write, Purpose::TxWriteBack, addr, bytes).max(now);
            self.tally.tx_write_backs += 1;
            let end = end.max(self.reports_from_ps).saturating_add(self.write_back_delay_ps);
            self.deadlines.set(Source::TxWriteBack, end);
            return;
        }
    }

    /// The number of the oldest `n` descriptors before the first that waits for its frame to leave.
    fn sent_before_report(&self, n: u32) -> u32 {
        let first = self.tx.queue.written_mark();
        let waits = |i: &u32| {
            let slot = ((first + u64::from(*i)) % u64::from(ON_CHIP)) as usize;
            self.tx.report_after[slot] > self.wire.left
        };
        (1..n).find(waits).unwrap_or(n)
    }

    /// A write-back has ended: the driver can see it.
    pub(crate) fn tx_written<H: Host>(&mut self, now: u64, host: &mut H) {
        let mut at_once = false;
        let mut delayed = false;
        let rps = self.rps_bits();
        let each = |word: &mut u64| {
            *word |= TX_DD;
            if *word & TX_RS != 0 || (rps != 0 && *word & rps == rps) {
                if *word & TX_IDE != 0 { delayed = true } else { at_once = true }
            }
        };
        let whole = self.tx.write_at != 0;
        let stored = self.tx.queue.wrote(each, |addr, bytes| {
            if whole {
                host.store(addr, bytes)
            } else {
                let status = STATUS_BYTE as usize;
                host.store(addr + STATUS_BYTE, &bytes[status..=status])
            }
        });
        if !stored {
            self.tally.master_aborts += 1;
        }
        self.tx.delayed |= delayed;
        let delays = self.params.moderation == Moderation::Manual && self.tx.tidv != 0;
        if at_once || (delayed && !delays) {
            // SDM 3.3.3.1: an immediate interrupt clears the delay timer.
            self.stop_tidv_tadv();
            self.raise(now, cause::TXDW);
        } else if delayed {
            self.start_tidv_tadv(now, false);
        }
        self.tx_write_back(now, host);
        self.tx_engine(now, host);
        self.prefetch(now, host);
    }
}
