//! Reception from the wire to the FIFO: checks, filters, statistics (SDM 3.2.1, 13.7).

use crate::deadlines::Source;
use crate::fifo::FrameFifo;
use crate::filter::{Cast, Pass, cast, vlan_tag};
use crate::flow::FlowControl;
use crate::frame::FCS_BYTES;
use crate::queue::Queue;
use crate::receiver::tag;
use crate::{Host, Nic};
use kpps_datasheet::bit::{cause, ctrl, dctl, rctl};
use kpps_datasheet::stat;

/// The shortest legal frame, with FCS.
const LEAST_BYTES: usize = 64;
/// The longest frame without RCTL.LPE, with FCS (SDM 13.4.22).
const LONGEST_BYTES: usize = 1522;
/// The longest frame with RCTL.LPE, with FCS (SDM 13.4.22).
const LONGEST_JUMBO_BYTES: usize = 16384;

impl Nic {
    /// A frame with a good FCS arrives; `now_ps` is the time of its last bit. `frame` has neither preamble
    /// nor FCS; a legal one has at least 60 bytes.
    #[inline]
    pub fn frame_arrives<H: Host>(&mut self, now_ps: u64, frame: &[u8], host: &mut H) {
        let now = self.catch_up(now_ps, host);
        self.arrive(now, frame, true, false, host);
    }

    /// As [`frame_arrives`](Self::frame_arrives), with a bad FCS.
    pub fn bad_frame_arrives<H: Host>(&mut self, now_ps: u64, frame: &[u8], host: &mut H) {
        let now = self.catch_up(now_ps, host);
        self.arrive(now, frame, false, false, host);
    }

    /// A frame that this card sent arrives by loopback.
    pub(crate) fn loop_back<H: Host>(&mut self, now: u64, frame: &[u8], good_fcs: bool, host: &mut H) {
        self.arrive(now, frame, good_fcs, true, host);
    }

    /// A frame at the receiver, from the wire or looped back. Inlined into each caller, which knows the
    /// flags.
    #[inline(always)]
    fn arrive<H: Host>(&mut self, now: u64, frame: &[u8], good_fcs: bool, looped: bool, host: &mut H) {
        self.tally.arrived += 1;
        self.tally.looped += u64::from(looped);
        let control = self.rx.control;
        // Loopback needs no cable, link partner or autonegotiation.
        let connected = looped || self.carrier() && self.link.speeds_agree;
        if control & rctl::EN == 0 || !connected || self.loopback() != looped {
            self.tally.dropped.disabled += 1;
            return;
        }
        let Some((pass, flow)) = self.pass(now, frame, good_fcs, host) else { return };

        let total = frame.len() + FCS_BYTES;
        self.stats.bump(stat::TPR);
        self.stats.add(stat::TOR, total as u64);

        let longest = if control & rctl::LPE != 0 { LONGEST_JUMBO_BYTES } else { LONGEST_BYTES };
        let good = good_fcs && (LEAST_BYTES..=longest).contains(&total);
        if !good && !self.keep_bad(total, longest, good_fcs) {
            return;
        }

        if !self.rx.queue.has_untaken() {
            self.stats.bump(stat::RNBC);
            self.tally.rx_no_buffer += 1;
        }
        let mut remember = 0;
        if !good_fcs {
            remember |= tag::BAD_FCS;
        }
        if pass == Pass::Inexact {
            remember |= tag::INEXACT;
        }
        if good {
            remember |= tag::GOOD;
        }
        let cost = FrameFifo::cost(total, self.params.rx_fifo_overhead_bytes);
        if !self.rx.fifo.push(frame, remember, cost, self.rx.capacity) {
            self.miss(now);
            return;
        }
        self.tally.in_fifo += 1;
        self.tally.fifo_peak_bytes = self.tally.fifo_peak_bytes.max(self.rx.fifo.used());
        if good && !flow {
            self.stats.bump(stat::GPRC);
            self.stats.add(stat::GORC, total as u64);
            self.stats.bump_size(stat::PRC64, total as u64);
            match cast(frame) {
                Cast::Uni => {}
                Cast::Multi => self.stats.bump(stat::MPRC),
                Cast::Broad => self.stats.bump(stat::BPRC),
            }
        }
        self.flow_high_mark(now, host);
        // A busy engine, or one with a deadline, continues by itself.
        if self.rx.transfer.is_none() && !self.deadlines.pending(Source::RxEngine) {
            self.rx_engine(now, host);
        }
    }

    /// Applies the filters; a frame that does not pass is counted as dropped. The flag says whether it is a
    /// flow control frame, which counts as received but not as good (SDM 13.7.27).
    #[inline(always)]
    fn pass<H: Host>(
        &mut self,
        now: u64,
        frame: &[u8],
        good_fcs: bool,
        host: &mut H,
    ) -> Option<(Pass, bool)> {
        if self.ctrl & ctrl::RFCE != 0 && good_fcs {
            return self.pass_flow_control(now, frame, host);
        }
        let pass = self.pass_filters(frame);
        self.tally.dropped.filtered += u64::from(pass.is_none());
        pass.map(|pass| (pass, false))
    }

    /// As [`pass`](Self::pass), for a good frame with RFCE on.
    #[inline(never)]
    fn pass_flow_control<H: Host>(&mut self, now: u64, frame: &[u8], host: &mut H) -> Option<(Pass, bool)> {
        let flow = match self.flow_control_frame(now, frame, host) {
            FlowControl::No => false,
            FlowControl::Filter => true,
            FlowControl::Pass => return Some((Pass::Exact, true)),
            FlowControl::Keep => {
                self.count_flow_control(frame.len());
                return None;
            }
        };
        let pass = self.pass_filters(frame);
        match pass {
            Some(_) => {}
            None if flow => self.count_flow_control(frame.len()),
            None => self.tally.dropped.filtered += 1,
        }
        pass.map(|pass| (pass, flow))
    }

    /// The address and VLAN filters.
    #[inline(always)]
    fn pass_filters(&self, frame: &[u8]) -> Option<Pass> {
        let pass = self.filter.address(self.rx.control, frame)?;
        (self.rx.control & rctl::VFE == 0 || self.pass_vlan(frame)).then_some(pass)
    }

    #[inline(never)]
    fn pass_vlan(&self, frame: &[u8]) -> bool {
        !self.params.chip.has_vlan()
            || vlan_tag(frame, self.vet).is_none_or(|vlan| self.filter.vlan(self.rx.control, vlan))
    }

    /// Counts a flow control frame that the card discards.
    fn count_flow_control(&mut self, len: usize) {
        self.tally.dropped.flow_control += 1;
        self.stats.bump(stat::TPR);
        self.stats.add(stat::TOR, (len + FCS_BYTES) as u64);
    }

    /// Counts a bad frame. Returns whether it is stored nevertheless (RCTL.SBP).
    fn keep_bad(&mut self, total: usize, longest: usize, good_fcs: bool) -> bool {
        let keep = self.rx.control & rctl::SBP != 0 && total <= LONGEST_JUMBO_BYTES;
        let dropped = &mut self.tally.dropped;
        let place;
        if total < LEAST_BYTES {
            self.stats.bump(stat::RLEC);
            self.stats.bump(if good_fcs { stat::RUC } else { stat::RFC });
            place = &mut dropped.too_short;
        } else if total > longest {
            self.stats.bump(stat::RLEC);
            self.stats.bump(if good_fcs { stat::ROC } else { stat::RJC });
            place = &mut dropped.too_long;
        } else {
            place = &mut dropped.bad_fcs;
        }
        if !good_fcs && total >= LEAST_BYTES {
            self.stats.bump(stat::CRCERRS);
        }
        if !keep {
            *place += 1;
        }
        keep
    }

    /// The FIFO is full: a missed packet (SDM 13.7.5).
    fn miss(&mut self, now: u64) {
        if self.rx.waits_for_descriptors() {
            self.tally.dropped.fifo_no_descriptor += 1;
        } else {
            self.tally.dropped.fifo_engine += 1;
        }
        self.stats.bump(stat::MPC);
        self.raise(now, cause::RXO);
    }

    /// RCTL.
    pub(crate) fn set_receive_control<H: Host>(&mut self, now: u64, value: u32, host: &mut H) {
        self.rx.control = value & !rctl::RST;
        self.rx.buffer_bytes = rctl::buffer_bytes(value).unwrap_or(2048);
        self.note_dry(now);
        if value & rctl::EN != 0 {
            self.rx_fetch(now, host);
            self.rx_engine(now, host);
        }
    }

    /// RXDCTL.
    pub(crate) fn set_receive_thresholds(&mut self, value: u32) {
        let (prefetch, least, write) = dctl::thresholds(value, self.params.cache_line_bytes);
        self.rx.thresholds = value;
        self.rx.fetch_below = prefetch;
        self.rx.fetch_least = least;
        // In units of cache lines it must not exceed 31 descriptors (SDM 13.4.46); more than 64 on chip are
        // impossible.
        self.rx.write_at = if value & dctl::GRAN == 0 { write.min(31) } else { write };
    }

    /// RDT.
    pub(crate) fn set_receive_tail<H: Host>(&mut self, now: u64, value: u32, host: &mut H) {
        self.rx.queue.set_tail(value);
        self.rx.armed |= self.rx.queue.has_untaken();
        self.note_dry(now);
        if self.rx.control & rctl::EN != 0 {
            self.rx_fetch(now, host);
        }
    }

    /// Starts or stops the clock of [`Tally::rx_dry_ps`](crate::Tally::rx_dry_ps): receiver, link or tail
    /// have changed, or the last descriptor was taken.
    pub(crate) fn note_dry(&mut self, now: u64) {
        let receives = self.rx.control & rctl::EN != 0 && (self.carrier() || self.loopback());
        let dry = receives && self.rx.armed && !self.rx.queue.has_untaken();
        match self.rx.dry_since {
            None if dry => self.rx.dry_since = Some(now),
            Some(since) if !dry => {
                self.rx.dry_since = None;
                let dry_ps = now.saturating_sub(since);
                self.tally.rx_dry_ps += dry_ps;
                self.tally.rx_dry_longest_ps = self.tally.rx_dry_longest_ps.max(dry_ps);
            }
            _ => {}
        }
    }

    /// Sets up the receive ring; drops descriptors on chip and transfers in progress.
    pub(crate) fn set_receive_ring(&mut self, set: impl FnOnce(&mut Queue)) {
        set(&mut self.rx.queue);
        self.rx.armed = false;
        self.rx.dry_since = None;
        self.deadlines.clear(Source::RxFetch);
        self.rx.filling = 0;
        self.deadlines.clear(Source::RxWriteBack);
        self.rx.flush_causes = 0;
        self.rx.flush_mark = 0;
        if let Some(transfer) = &mut self.rx.transfer {
            transfer.orphan = true;
            if !self.deadlines.pending(Source::RxData) {
                // It was waiting for a descriptor of the old ring.
                self.drop_transfer();
            }
        }
    }
}
