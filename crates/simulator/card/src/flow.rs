//! Flow control: PAUSE frames obeyed and sent (SDM 8.7.2–8.7.6).

use crate::deadlines::Source;
use crate::{Host, Nic};
use kpps_datasheet::bit::{ctrl, flow, rctl};
use kpps_datasheet::stat;

/// The opcode of PAUSE (SDM 8.7.3).
const OPCODE_PAUSE: u16 = 1;
/// A pause slot, in byte times (SDM 8.7.3).
const SLOT_BYTES: u64 = 64;
/// A PAUSE frame, without FCS.
pub(crate) const PAUSE_BYTES: usize = 60;

/// The decision of receive flow control about a frame (SDM 8.7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowControl {
    /// Nothing: it is no flow control frame.
    No,
    /// It is a flow control frame, and goes through the address filters.
    Filter,
    /// It passes without filters (PMCF).
    Pass,
    /// The card discards it (DPF).
    Keep,
}

/// The flow control registers and state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// FCAL, FCAH, FCT, FCTTV, FCRTL, FCRTH.
    pub(crate) address_low: u32,
    pub(crate) address_high: u32,
    pub(crate) ethertype: u32,
    pub(crate) timer: u32,
    pub(crate) low_mark: u32,
    pub(crate) high_mark: u32,
    /// The link partner paused the transmitter until this time, in ps.
    pub(crate) paused_until_ps: u64,
    /// The FIFO has been above the high mark, and not yet below the low one.
    above: bool,
    /// A pending PAUSE frame with this timer value; it goes before all other frames.
    pub(crate) to_send: Option<u16>,
}

impl Nic {
    /// Checks a good frame with RFCE on, and obeys a PAUSE.
    pub(crate) fn flow_control_frame<H: Host>(
        &mut self,
        now: u64,
        frame: &[u8],
        host: &mut H,
    ) -> FlowControl {
        let Some(head) = frame.first_chunk::<18>() else { return FlowControl::No };
        let to = u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], 0, 0]);
        let multicast = u64::from(self.flow.address_low) | u64::from(self.flow.address_high & 0xFFFF) << 32;
        let for_station = to == self.filter.station();
        let ethertype = u32::from(u16::from_be_bytes([head[12], head[13]]));
        if (to != multicast && !for_station) || ethertype != self.flow.ethertype & 0xFFFF {
            return FlowControl::No;
        }
        if u16::from_be_bytes([head[14], head[15]]) != OPCODE_PAUSE {
            self.stats.bump(stat::FCRUC);
            return if self.rx.control & rctl::PMCF != 0 { FlowControl::Pass } else { FlowControl::Filter };
        }
        let slots = u16::from_be_bytes([head[16], head[17]]);
        self.stats.bump(if slots == 0 { stat::XONRXC } else { stat::XOFFRXC });
        let until = now + u64::from(slots) * SLOT_BYTES * self.byte_ps();
        self.flow.paused_until_ps = until;
        if slots == 0 {
            self.deadlines.clear(Source::Pause);
            self.wire_start(now, host);
        } else {
            self.deadlines.set(Source::Pause, until);
        }
        if for_station && self.rx.control & rctl::DPF != 0 { FlowControl::Keep } else { FlowControl::Filter }
    }

    /// The FIFO has grown: XOFF when it reaches the high mark (SDM 13.4.24).
    #[inline]
    pub(crate) fn flow_high_mark<H: Host>(&mut self, now: u64, host: &mut H) {
        if self.ctrl & ctrl::TFCE == 0 || self.flow.above {
            return;
        }
        let mark = self.flow.high_mark & 0xFFF8;
        if mark != 0 && self.rx.fifo.used() >= mark {
            self.flow.above = true;
            self.send_pause(now, self.flow.timer as u16, host);
        }
    }

    /// The FIFO has shrunk: XON when it falls to the low mark (SDM 13.4.23).
    #[inline]
    pub(crate) fn flow_low_mark<H: Host>(&mut self, now: u64, host: &mut H) {
        if !self.flow.above || self.rx.fifo.used() > self.flow.low_mark & 0xFFF8 {
            return;
        }
        self.flow.above = false;
        let wanted = !self.params.chip.has_xone() || self.flow.low_mark & flow::XONE != 0;
        if self.ctrl & ctrl::TFCE != 0 && wanted {
            self.send_pause(now, 0, host);
        }
    }

    /// Sends a PAUSE frame before all other frames.
    pub(crate) fn send_pause<H: Host>(&mut self, now: u64, slots: u16, host: &mut H) {
        self.flow.to_send = Some(slots);
        self.wire_start(now, host);
    }

    /// The PAUSE frame with this timer value, without FCS.
    pub(crate) fn pause_frame(&self, slots: u16) -> [u8; PAUSE_BYTES] {
        let mut frame = [0; PAUSE_BYTES];
        frame[..4].copy_from_slice(&self.flow.address_low.to_le_bytes());
        frame[4..6].copy_from_slice(&(self.flow.address_high as u16).to_le_bytes());
        frame[6..12].copy_from_slice(&self.filter.station().to_le_bytes()[..6]);
        frame[12..14].copy_from_slice(&(self.flow.ethertype as u16).to_be_bytes());
        frame[14..16].copy_from_slice(&OPCODE_PAUSE.to_be_bytes());
        frame[16..18].copy_from_slice(&slots.to_be_bytes());
        frame
    }
}
