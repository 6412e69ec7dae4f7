//! The transmit engine: descriptors fetched, data read, frames built (SDM 3.3, 3.4.1).

use crate::deadlines::Source;
use crate::fifo::FrameFifo;
use crate::host::{BurstKind, Purpose};
use crate::packet::Options;
use crate::queue::{FetchRule, Queue};
use crate::receive::FCS_BYTES;
use crate::segment::Segmentation;
use crate::{Host, Nic};
use kpps_datasheet::bit::{cause, dctl, tctl};
use kpps_datasheet::desc::{DATA_MAX_BYTES, Tx, TxContext, TxLegacy, tx_cmd};

/// An 802.1Q tag, in bytes.
pub(crate) const VLAN_BYTES: usize = 4;
/// The longest frame that is built, without FCS: what the manual lets a descriptor hold (SDM
/// 3.3.3), and no more than the receiving end takes.
pub(crate) const LONGEST_BYTES: usize = 16288;

/// A data descriptor in work: legacy or extended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    buffer: u64,
    length: u32,
    /// Bytes of it already read.
    read: u32,
    pub(crate) cmd: u8,
    pub(crate) special: u16,
    /// Bytes of the burst under way; 0 = none.
    burst: u32,
}

/// The transmitter.
#[derive(Clone, Debug)]
pub(crate) struct Transmit {
    /// TCTL, TIPG, TIDV, TADV, TXDCTL.
    pub(crate) control: u32,
    pub(crate) gap: u32,
    pub(crate) delay: u32,
    pub(crate) absolute_delay: u32,
    pub(crate) thresholds: u32,
    pub(crate) fetch_below: u32,
    pub(crate) fetch_least: u32,
    pub(crate) write_at: u32,
    pub(crate) queue: Queue,
    pub(crate) fifo: FrameFifo,
    /// The size of the FIFO in bytes (PBA).
    pub(crate) capacity: u32,
    /// The engine may not start a descriptor before this.
    pub(crate) engine_free_ps: u64,
    data: Option<Data>,
    /// The packet being put together.
    pub(crate) packet: Vec<u8>,
    pub(crate) in_packet: bool,
    pub(crate) options: Options,
    /// The packet is given up; its descriptors are used up without reading.
    pub(crate) discard: bool,
    /// The contexts of SDM 3.3.5.
    pub(crate) checksum_context: TxContext,
    pub(crate) segment_context: TxContext,
    pub(crate) segmentation: Option<Segmentation>,
    /// The legacy checksum of the descriptor that ends the packet.
    pub(crate) insert: Option<u8>,
    /// For each on-chip descriptor, how many frames must have left before it may be reported (RPS).
    pub(crate) report_after: [u64; crate::queue::ON_CHIP as usize],
    /// A report waits for a frame to leave.
    pub(crate) reports_wait: bool,
    /// Frames that have gone into the FIFO, since power-up.
    pub(crate) built: u64,
    /// Expiry of TIDV or TADV: write back all, then TXDW.
    pub(crate) flush_mark: u64,
    pub(crate) flush_causes: u32,
}

impl Transmit {
    pub(crate) fn new(capacity: u32, gap: u32) -> Self {
        Self::with_memory(FrameFifo::new(), Vec::with_capacity(LONGEST_BYTES + VLAN_BYTES), capacity, gap)
    }

    fn with_memory(fifo: FrameFifo, packet: Vec<u8>, capacity: u32, gap: u32) -> Self {
        Self {
            control: 0,
            gap,
            delay: 0,
            absolute_delay: 0,
            thresholds: 0,
            fetch_below: 0,
            fetch_least: 0,
            write_at: 0,
            queue: Queue::new(),
            fifo,
            capacity,
            engine_free_ps: 0,
            data: None,
            packet,
            in_packet: false,
            options: Options::default(),
            discard: false,
            checksum_context: TxContext::default(),
            segment_context: TxContext::default(),
            segmentation: None,
            insert: None,
            report_after: [0; crate::queue::ON_CHIP as usize],
            reports_wait: false,
            built: 0,
            flush_mark: 0,
            flush_causes: 0,
        }
    }

    /// Back to the state after power-up; returns how many frames were lost.
    pub(crate) fn reset(&mut self, capacity: u32, gap: u32, left: u64) -> u64 {
        let lost = self.fifo.clear();
        let fifo = core::mem::replace(&mut self.fifo, FrameFifo::empty());
        let mut packet = core::mem::take(&mut self.packet);
        packet.clear();
        *self = Self { built: left, ..Self::with_memory(fifo, packet, capacity, gap) };
        lost
    }

    /// A descriptor is in work.
    pub(crate) fn mid_descriptor(&self) -> bool {
        self.data.is_some()
    }
}

impl Nic {
    /// Lets the engine do what it can now.
    pub(crate) fn tx_engine<H: Host>(&mut self, now: u64, host: &mut H) {
        self.tx_engine_steps(now, host);
        self.note_work(now);
    }

    fn tx_engine_steps<H: Host>(&mut self, now: u64, host: &mut H) {
        // Bounded: every turn uses up a descriptor that is on chip, or returns.
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
            // The 82542 knows one format.
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
            // A type that is reserved: used up without effect.
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

    /// Works on the descriptor in hand: starts a burst, or ends the descriptor. `false`: the
    /// engine has to wait.
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
                // All of the payload is sent; what more there is goes nowhere.
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
            // Room comes when a frame leaves (SDM 13.4.45).
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

    /// The descriptor's data is all read, or not wanted.
    fn tx_end_descriptor<H: Host>(&mut self, now: u64, data: Data, host: &mut H) {
        self.tx.data = None;
        if data.cmd & tx_cmd::EOP != 0 {
            self.tx_end_packet(now, &data, host);
        }
        self.tx_finish_descriptor(now, host);
    }

    /// A descriptor is processed: head moves on, a report may be due.
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

    /// Transmit ring set-up: forgets what is on chip and under way.
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
