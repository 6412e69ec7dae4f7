//! The transmit engine: fetches descriptors and reads their data (SDM 3.3, 3.4.1).

use crate::deadlines::Source;
use crate::fifo::FrameFifo;
use crate::frame::{FCS_BYTES, VLAN_BYTES};
use crate::host::{BurstKind, Purpose};
use crate::queue::{FetchRule, Queue};
use crate::transmitter::{Data, LONGEST_BYTES, Options};
use crate::{Host, Nic};
use kpps_datasheet::bit::{cause, dctl, tctl};
use kpps_datasheet::desc::{DATA_MAX_BYTES, Tx, TxContext, TxLegacy, tx_cmd};

impl Nic {
    /// Runs the engine as far as possible now.
    pub(crate) fn tx_engine<H: Host>(&mut self, now: u64, host: &mut H) {
        self.tx_engine_steps(now, host);
        self.note_work(now);
    }

    fn tx_engine_steps<H: Host>(&mut self, now: u64, host: &mut H) {
        // Bounded: each turn consumes a descriptor on chip, or returns.
        loop {
            if self.tx.control & tctl::EN == 0 || self.deadlines.pending(Source::TxData) {
                return;
            }
            if now < self.tx.engine_free_ps {
                self.deadlines.set(Source::TxEngine, self.tx.engine_free_ps);
                return;
            }
            if self.tx.data.is_none() && !self.tx_take(now, host) {
                return;
            }
            if self.tx.data.is_some() && !self.tx_read(now, host) {
                return;
            }
        }
    }

    /// Takes the next descriptor. `false`: there is none.
    fn tx_take<H: Host>(&mut self, now: u64, host: &mut H) -> bool {
        let Some(words) = self.tx.queue.peek() else {
            self.tx_fetch(now, host);
            return false;
        };
        self.tx.queue.take();
        if self.tx.queue.cached() == 0 {
            self.tx_fetch(now, host);
        }
        let kind = if self.params.chip.has_checksum_offload() {
            Tx::unpack(words)
        } else {
            // The 82542 has only this format.
            Ok(Tx::Legacy(TxLegacy::unpack(words)))
        };
        let (data, options) = match kind {
            Ok(Tx::Context(context)) => {
                self.tx_context(now, context);
                self.tx_finish_descriptor(now, host);
                return true;
            }
            Ok(Tx::Data(d)) => {
                let data = Data {
                    buffer: d.buffer,
                    length: d.length & DATA_MAX_BYTES,
                    read: 0,
                    cmd: d.cmd,
                    special: d.special,
                    burst: 0,
                };
                (data, Options { popts: d.popts, ..Options::default() })
            }
            Ok(Tx::Legacy(d)) => {
                let data = Data {
                    buffer: d.buffer,
                    length: u32::from(d.length),
                    read: 0,
                    cmd: d.cmd,
                    special: d.special,
                    burst: 0,
                };
                if d.cmd & tx_cmd::EOP != 0 {
                    self.tx.insert = (d.cmd & tx_cmd::IC != 0).then_some(d.cso);
                }
                (data, Options { css: d.css, legacy: true, ..Options::default() })
            }
            // A reserved type is consumed without effect.
            Err(_) => {
                self.tx_finish_descriptor(now, host);
                return true;
            }
        };
        if !self.tx.in_packet {
            self.tx_begin_packet(&data, options);
        }
        self.tx.data = Some(data);
        true
    }

    fn tx_context(&mut self, now: u64, context: TxContext) {
        if context.cmd & tx_cmd::TSE != 0 {
            self.tx.segment_context = context;
        } else {
            self.tx.checksum_context = context;
        }
        self.tx.engine_free_ps = now + self.params.tx_context_ps;
    }

    /// Processes the current descriptor: starts a burst, or ends the descriptor. `false`: the engine has to
    /// wait.
    fn tx_read<H: Host>(&mut self, now: u64, host: &mut H) -> bool {
        let Some(mut data) = self.tx.data else { return false };
        let left = data.length - data.read;
        // No address or no length: no data (SDM 3.3.3).
        if left == 0 || data.buffer == 0 || self.tx.discard {
            self.tx_end_descriptor(now, data, host);
            return true;
        }
        let held = self.tx.packet.len();
        let n = match &self.tx.segmentation {
            None => left,
            Some(s) => match s.wants(held) {
                // The whole payload is sent; further data is ignored.
                0 => {
                    self.tx_end_descriptor(now, data, host);
                    return true;
                }
                wants => left.min(wants),
            },
        };
        let length = held + n as usize;
        let cost = FrameFifo::cost(length + VLAN_BYTES + FCS_BYTES, self.params.tx_fifo_overhead_bytes);
        if length > LONGEST_BYTES || cost > self.tx.capacity {
            self.tx_give_up();
            return true;
        }
        if cost > self.tx.capacity - self.tx.fifo.used().min(self.tx.capacity) {
            // A frame that leaves makes room (SDM 13.4.45).
            return false;
        }
        data.burst = n;
        let addr = data.buffer.wrapping_add(u64::from(data.read));
        self.tx.data = Some(data);
        let end = host.burst(now, BurstKind::Read, Purpose::TxData, addr, n).max(now);
        self.tally.tx_data_bursts += 1;
        self.deadlines.set(Source::TxData, end);
        false
    }

    /// A data burst has ended.
    pub(crate) fn tx_data_done<H: Host>(&mut self, now: u64, host: &mut H) {
        let Some(mut data) = self.tx.data else { return };
        let held = self.tx.packet.len();
        let n = core::mem::take(&mut data.burst);
        let addr = data.buffer.wrapping_add(u64::from(data.read));
        self.tx.packet.resize(held + n as usize, 0);
        if !host.load(addr, &mut self.tx.packet[held..]) {
            self.tally.master_aborts += 1;
            self.tx_give_up();
        }
        data.read += n;
        self.tx.data = Some(data);
        if !self.tx.discard {
            self.tx_segment(now, host);
        }
        if data.read >= data.length {
            self.tx_end_descriptor(now, data, host);
        }
        self.tx_engine(now, host);
        self.prefetch(now, host);
    }

    /// The data of the descriptor is read, or not needed.
    fn tx_end_descriptor<H: Host>(&mut self, now: u64, data: Data, host: &mut H) {
        self.tx.data = None;
        if data.cmd & tx_cmd::EOP != 0 {
            self.tx_end_packet(now, &data, host);
        }
        self.tx_finish_descriptor(now, host);
    }

    /// Ends a descriptor: head advances, and a report may be due.
    fn tx_finish_descriptor<H: Host>(&mut self, now: u64, host: &mut H) {
        let word = self.tx.queue.in_work();
        let slot = (self.tx.queue.done_mark() % u64::from(crate::queue::ON_CHIP)) as usize;
        self.tx.report_after[slot] = if self.reports_sent(word) { self.tx.built } else { 0 };
        self.tx.queue.finish(word);
        let left = self.tx.queue.untaken();
        if left == 0 {
            self.raise(now, cause::TXQE);
        }
        if self.params.chip.has_txd_low() && left == (self.tx.thresholds >> dctl::LWTHRESH_SHIFT) * 8 {
            self.raise(now, cause::TXD_LOW);
        }
        self.tx_write_back(now, host);
    }

    /// Fetches transmit descriptors if there are none on chip, or if the thresholds say so.
    pub(crate) fn tx_fetch<H: Host>(&mut self, now: u64, host: &mut H) {
        let rule = FetchRule {
            goes_on: false,
            prefetch: self.tx.fetch_below,
            host: self.tx.fetch_least,
            bus_wanted: self.tx.fetch_below != 0 && self.bus_wanted(),
            max: self.params.fetch_max_descriptors,
            line: self.params.cache_line_bytes / 16,
            whole_lines: self.params.fetch_whole_lines,
        };
        if let Some(f) = self.tx.queue.plan_fetch(&rule) {
            let end = host.burst(now, BurstKind::Read, Purpose::TxDescriptorFetch, f.addr, f.bytes).max(now);
            self.tally.tx_fetches += 1;
            self.deadlines.set(Source::TxFetch, end);
        }
    }

    /// Transmit descriptors have arrived.
    pub(crate) fn tx_fetched<H: Host>(&mut self, now: u64, host: &mut H) {
        if !self.tx.queue.fetched(|addr, into| host.load(addr, into)) {
            self.tally.master_aborts += 1;
        }
        self.tx_engine(now, host);
        self.prefetch(now, host);
    }

    /// TCTL.
    pub(crate) fn set_transmit_control<H: Host>(&mut self, now: u64, value: u32, host: &mut H) {
        self.count_idle(now);
        self.tx.control = value & !tctl::SWXOFF;
        if value & tctl::SWXOFF != 0 {
            self.send_pause(now, self.flow.timer as u16, host);
        }
        self.wire_start(now, host);
        self.tx_engine(now, host);
    }

    /// TXDCTL.
    pub(crate) fn set_transmit_thresholds(&mut self, value: u32) {
        let (prefetch, least, write) = dctl::thresholds(value, self.params.cache_line_bytes);
        self.tx.thresholds = value;
        self.tx.fetch_below = prefetch;
        self.tx.fetch_least = least;
        self.tx.write_at = if value & dctl::GRAN == 0 { write.min(31) } else { write };
    }

    /// TDT.
    pub(crate) fn set_transmit_tail<H: Host>(&mut self, now: u64, value: u32, host: &mut H) {
        self.count_idle(now);
        self.tx.queue.set_tail(value);
        if self.tx.control & tctl::EN != 0 {
            self.tx_fetch(now, host);
            self.tx_engine(now, host);
        }
    }

    /// Sets up the transmit ring; drops descriptors on chip and transfers in progress.
    pub(crate) fn set_transmit_ring(&mut self, now: u64, set: impl FnOnce(&mut Queue)) {
        set(&mut self.tx.queue);
        for source in [Source::TxFetch, Source::TxWriteBack, Source::TxData] {
            self.deadlines.clear(source);
        }
        self.tx.flush_causes = 0;
        self.tx.flush_mark = 0;
        self.tx.reports_wait = false;
        if self.tx.in_packet && !self.tx.discard {
            self.tally.tx_discarded += 1;
        }
        self.tx.data = None;
        self.tx.in_packet = false;
        self.tx.discard = false;
        self.tx.segmentation = None;
        self.note_work(now);
    }
}
