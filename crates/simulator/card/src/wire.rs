//! Transmission from the FIFO to the wire (SDM 8.7.1, 13.4.33, 13.4.34, 13.4.35).

use crate::deadlines::Source;
use crate::filter::{Cast, cast};
use crate::frame::FCS_BYTES;
use crate::{Host, Nic};
use kpps_datasheet::bit::tctl;
use kpps_datasheet::{Chip, stat};

/// Preamble and start-of-frame delimiter, in bytes.
const PREAMBLE_BYTES: u64 = 8;
/// The shortest frame on the wire, in bytes without FCS. A shorter one is followed by symbols up to the
/// collision distance (SDM 13.4.33, COLD).
pub(crate) const LEAST_BYTES: u64 = 60;

/// Flags of a frame in the transmit FIFO.
pub(crate) mod tag {
    /// Software supplied a wrong FCS.
    pub(crate) const BAD_FCS: u32 = 1 << 0;
}

/// The frame on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Nothing,
    /// The frame at the head of the transmit FIFO.
    Frame,
    /// A PAUSE frame with this timer value.
    Pause(u16),
}

/// The transmit side of the wire.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    sending: Sending,
    /// The earliest start of the next frame, after the gap, in ps.
    free_ps: u64,
    /// Busy and idle time have been counted up to here, in ps.
    counted_ps: u64,
    /// Whether the transmitter has had something to do since then.
    work: bool,
    /// Frames from the FIFO that have left, since power-up.
    pub(crate) left: u64,
}

impl Wire {
    pub(crate) fn new() -> Self {
        Self { sending: Sending::Nothing, free_ps: 0, counted_ps: 0, work: false, left: 0 }
    }

    /// Cuts off the frame on the wire.
    pub(crate) fn cut(&mut self) {
        self.sending = Sending::Nothing;
    }
}

impl Nic {
    /// The gap between frames sent back to back, in byte times: the larger of TIPG's and AIFS (SDM 8.7.1); on
    /// the 82544 their sum (SDM table 13-78). AIFS counts transmit clocks, which are byte times at each speed
    /// (SDM 8.7.1; the table has 8 ns for all of them). The manual does not mention PAUSE frames; they keep
    /// the same gap.
    fn gap_bytes(&self) -> u64 {
        let chip = self.params.chip;
        let gap = u64::from(chip.gap_bytes(self.params.media, (self.tx.gap & 0x3FF) as u16));
        let throttle = u64::from(self.tx.throttle);
        if chip == Chip::I82544 { gap + throttle } else { gap.max(throttle) }
    }

    /// Starts the next frame if the wire is free and there is one.
    #[inline]
    pub(crate) fn wire_start<H: Host>(&mut self, now: u64, _host: &mut H) {
        if self.wire.sending != Sending::Nothing
            || self.tx.control & tctl::EN == 0
            || !(self.carrier() || self.loopback())
        {
            return;
        }
        let len;
        if let Some(slots) = self.flow.to_send {
            self.flow.to_send = None;
            self.wire.sending = Sending::Pause(slots);
            len = LEAST_BYTES;
        } else if now < self.flow.paused_until_ps {
            return;
        } else {
            let Some(entry) = self.tx.fifo.front() else { return };
            len = u64::from(entry.len);
            self.wire.sending = Sending::Frame;
        }
        let start = now.max(self.wire.free_ps);
        let byte_ps = self.byte_ps();
        let end = start + (PREAMBLE_BYTES + len.max(LEAST_BYTES) + FCS_BYTES as u64) * byte_ps;
        let free = end + self.gap_bytes() * byte_ps;
        self.count_idle(start);
        self.tally.wire_busy_ps += free - start;
        self.wire.counted_ps = free;
        self.wire.free_ps = free;
        self.deadlines.set(Source::Wire, end);
    }

    /// The last bit of the frame on the wire has left.
    pub(crate) fn wire_done<H: Host>(&mut self, now: u64, host: &mut H) {
        match core::mem::replace(&mut self.wire.sending, Sending::Nothing) {
            Sending::Nothing => return,
            Sending::Pause(slots) => {
                let frame = self.pause_frame(slots);
                let total = (frame.len() + FCS_BYTES) as u64;
                self.stats.bump(if slots == 0 { stat::XONTXC } else { stat::XOFFTXC });
                self.stats.bump(stat::TPT);
                self.stats.add(stat::TOT, total);
                if self.loopback() {
                    self.tally.transmitted += 1;
                    self.loop_back(now, &frame, true, host);
                } else if self.link.speeds_agree {
                    self.tally.transmitted += 1;
                    host.transmitted(now, &frame);
                }
            }
            Sending::Frame => self.frame_left(now, host),
        }
        self.wire_start(now, host);
        // The FIFO has room again.
        self.tx_engine(now, host);
    }

    fn frame_left<H: Host>(&mut self, now: u64, host: &mut H) {
        let Some(entry) = self.tx.fifo.front().copied() else { return };
        let good = entry.tag & tag::BAD_FCS == 0;
        let frame = self.tx.fifo.bytes(entry.range());
        let total = (frame.len() + FCS_BYTES) as u64;
        self.stats.bump(stat::TPT);
        self.stats.add(stat::TOT, total);
        if total >= LEAST_BYTES + FCS_BYTES as u64 {
            self.stats.bump(stat::GPTC);
            self.stats.add(stat::GOTC, total);
            self.stats.bump_size(stat::PTC64, total);
        }
        match cast(frame) {
            Cast::Uni => {}
            Cast::Multi => self.stats.bump(stat::MPTC),
            Cast::Broad => self.stats.bump(stat::BPTC),
        }
        let arrives = self.link.speeds_agree || self.loopback();
        self.tally.transmitted += u64::from(arrives);
        self.tally.tx_discarded += u64::from(!arrives);
        if !arrives {
            // The MAC has sent it, and the PHY has no use for it at its speed.
        } else if self.loopback() {
            // The receiver borrows the whole card; the FIFO is moved out meanwhile.
            let fifo = core::mem::replace(&mut self.tx.fifo, crate::fifo::FrameFifo::empty());
            self.loop_back(now, fifo.bytes(entry.range()), good, host);
            self.tx.fifo = fifo;
        } else if good {
            host.transmitted(now, frame);
        } else {
            host.transmitted_bad(now, frame);
        }
        self.tx.fifo.pop();
        self.tally.tx_in_flight -= 1;
        self.wire.left += 1;
        if self.tx.reports_wait {
            self.tx.reports_wait = false;
            self.tx_write_back(now, host);
        }
    }

    /// Counts idle time up to `now`.
    #[inline]
    pub(crate) fn count_idle(&mut self, now: u64) {
        if now <= self.wire.counted_ps {
            return;
        }
        let idle = now - self.wire.counted_ps;
        self.wire.counted_ps = now;
        if self.tx.control & tctl::EN != 0 {
            if self.wire.work {
                self.tally.wire_idle_with_work_ps += idle;
            } else {
                self.tally.wire_idle_without_work_ps += idle;
            }
        }
    }

    /// Notes whether the transmitter has something to do from now on.
    #[inline]
    pub(crate) fn note_work(&mut self, now: u64) {
        let work = self.tx.queue.has_untaken() || self.tx.mid_descriptor() || !self.tx.fifo.is_empty();
        if work != self.wire.work {
            self.count_idle(now);
            self.wire.work = work;
        }
    }
}
