//! The receive engine: frames from the FIFO to host memory, descriptors fetched and written back (SDM
//! 3.2.2–3.2.7).

use crate::checksum;
use crate::deadlines::Source;
use crate::filter::vlan_tag;
use crate::frame::{ADDRESSES_BYTES, FCS_BYTES, VLAN_BYTES};
use crate::host::{BurstKind, Purpose};
use crate::params::Moderation;
use crate::queue::FetchRule;
use crate::receiver::{Receive, Transfer, tag};
use crate::{Host, Nic};
use kpps_datasheet::bit::{cause, ctrl, rctl};
use kpps_datasheet::desc::{RxWriteback, rx_error, rx_status};

impl Nic {
    /// Runs the engine as far as possible now.
    pub(crate) fn rx_engine<H: Host>(&mut self, now: u64, host: &mut H) {
        loop {
            if self.deadlines.pending(Source::RxData) || self.rx.control & rctl::EN == 0 {
                return;
            }
            if self.rx.transfer.is_none() {
                if self.rx.fifo.is_empty() {
                    break;
                }
                if now < self.rx.engine_free_ps {
                    self.deadlines.set(Source::RxEngine, self.rx.engine_free_ps);
                    return;
                }
            }
            let Some([buffer, word]) = self.rx.queue.peek() else {
                self.rx_fetch(now, host);
                break;
            };
            self.rx.queue.take();
            if !self.rx.queue.has_untaken() {
                self.note_dry(now);
            }
            if buffer == 0 {
                // A null descriptor stores nothing (SDM 3.2.5.2).
                let done = self.rx.null_done(word);
                self.rx_finish_descriptor(now, (None, done));
                continue;
            }
            if self.rx.transfer.is_none() {
                self.rx.engine_free_ps = now + self.params.rx_engine_ps;
                self.rx_begin();
            }
            let Some(transfer) = &mut self.rx.transfer else { return };
            transfer.addr = buffer;
            transfer.chunk = (transfer.total - transfer.stored).min(self.rx.buffer_bytes as usize);
            let bytes = transfer.chunk.max(1).next_multiple_of(8) as u32;
            let end = host.burst(now, BurstKind::Write, Purpose::RxData, buffer, bytes).max(now);
            self.deadlines.set(Source::RxData, end);
            if self.rx.queue.cached() == 0 {
                self.rx_fetch(now, host);
            }
            return;
        }
        self.rx_write_back(now, host);
    }

    /// Starts the transfer of the first frame in the FIFO.
    fn rx_begin(&mut self) {
        let Some(entry) = self.rx.fifo.front().copied() else { return };
        let control = self.rx.control;
        let chip = self.params.chip;
        let size = entry.len + FCS_BYTES as u32;
        let mut status = rx_status::EOP;
        let mut errors = 0;
        let mut special = 0;
        if entry.tag & tag::INEXACT != 0 {
            status |= rx_status::PIF;
        }
        if entry.tag & tag::BAD_FCS != 0 {
            errors |= rx_error::CE;
        }
        let mut start = entry.range().start;
        let mut total = entry.len as usize;
        let vet = self.vet;
        let checksum_control = self.rx.checksum;
        let Receive { fifo, fcs, .. } = &mut self.rx;
        let bytes = fifo.front_bytes_mut();
        let mut fcs_bytes = 0;
        if control & rctl::SECRC == 0 || !chip.has_fcs_strip() {
            let mut fcs = fcs.clone();
            fcs.update(&bytes[..total]);
            let mut fcs = fcs.finalize();
            if entry.tag & tag::BAD_FCS != 0 {
                fcs = !fcs;
            }
            bytes[total..total + FCS_BYTES].copy_from_slice(&fcs.to_le_bytes());
            fcs_bytes = FCS_BYTES;
            total += FCS_BYTES;
        }
        let mut frame = &mut bytes[..total];
        if self.ctrl & ctrl::VME != 0
            && chip.has_vlan()
            && let Some(vlan) = vlan_tag(frame, vet)
        {
            // Strip: move the addresses up over the tag (SDM 9.2.2).
            frame.copy_within(..ADDRESSES_BYTES, VLAN_BYTES);
            frame = &mut frame[VLAN_BYTES..];
            start += VLAN_BYTES;
            total -= VLAN_BYTES;
            status |= rx_status::VP;
            special = vlan;
        }
        let mut sum = 0;
        if chip.has_checksum_offload() {
            let verdict = checksum::receive(frame, fcs_bytes, checksum_control, vet, chip);
            sum = verdict.packet;
            status |= verdict.status;
            errors |= verdict.errors;
        } else {
            status |= rx_status::IXSM;
        }
        self.rx.transfer = Some(Transfer {
            start,
            total,
            stored: 0,
            addr: 0,
            chunk: 0,
            size: if status & rx_status::VP != 0 { size - VLAN_BYTES as u32 } else { size },
            status,
            errors,
            checksum: sum,
            special,
            ok: true,
            orphan: false,
        });
    }

    /// A data burst has ended.
    pub(crate) fn rx_data_done<H: Host>(&mut self, now: u64, host: &mut H) {
        let Some(t) = &mut self.rx.transfer else { return };
        let from = t.start + t.stored;
        let ok = host.store(t.addr, self.rx.fifo.bytes(from..from + t.chunk));
        if !ok {
            self.tally.master_aborts += 1;
        }
        t.ok &= ok;
        let first = t.stored == 0;
        t.stored += t.chunk;
        if t.orphan {
            self.drop_transfer();
            self.rx_engine(now, host);
            return;
        }
        let last = t.stored >= t.total;
        let mut d = RxWriteback { length: t.chunk as u16, status: rx_status::DD, ..RxWriteback::default() };
        if first {
            d.checksum = t.checksum;
        }
        if last {
            d.status |= t.status;
            d.errors = t.errors;
            d.special = t.special;
        }
        let small = self.rx.small != 0 && t.size <= self.rx.small;
        if last {
            if t.ok {
                self.tally.to_host += 1;
            } else {
                self.tally.dropped.no_memory += 1;
            }
            self.rx.transfer = None;
            self.rx.fifo.pop();
            self.tally.in_fifo -= 1;
        }
        let done = self.rx.done(d);
        self.rx_finish_descriptor(now, done);
        if last {
            self.flow_low_mark(now, host);
            if small {
                self.deadlines.clear(Source::Rdtr);
                self.deadlines.clear(Source::Radv);
                self.rx_flush(now, cause::SRPD | cause::RXT0, host);
            } else if self.waits_for_rdtr() {
                self.start_rdtr_radv(now);
            } else if self.params.rx_idle_report_ps != 0 {
                self.deadlines.set(Source::Rdtr, now + self.params.rx_idle_report_ps);
            }
        }
        // Data first, then its descriptors, then the fetch of more.
        self.rx_engine(now, host);
        self.rx_write_back(now, host);
        self.prefetch(now, host);
    }

    /// Ends the transfer of a frame whose ring was replaced.
    pub(crate) fn drop_transfer(&mut self) {
        self.rx.transfer = None;
        self.rx.fifo.pop();
        self.tally.in_fifo -= 1;
        self.tally.dropped.reset += 1;
    }

    /// A descriptor is done: its first word if that changes, and its second.
    fn rx_finish_descriptor(&mut self, now: u64, (first, second): (Option<u64>, u64)) {
        let queue = &mut self.rx.queue;
        if let Some(first) = first {
            queue.set_first(first);
        }
        queue.finish(second);
        // SDM 3.2.7.3: when the number of free descriptors becomes equal to the threshold.
        let threshold = queue.count() >> (1 + (self.rx.control >> 8 & 3));
        if queue.untaken() == threshold {
            self.raise(now, cause::RXDMT0);
        }
    }

    /// Writes back all that is done, then sets `causes`.
    pub(crate) fn rx_flush<H: Host>(&mut self, now: u64, causes: u32, host: &mut H) {
        self.rx.flush_causes |= causes;
        self.rx.flush_mark = self.rx.queue.done_mark();
        self.rx_write_back(now, host);
    }

    /// Starts a write-back if one is due (SDM 3.2.5).
    pub(crate) fn rx_write_back<H: Host>(&mut self, now: u64, host: &mut H) {
        let rx = &mut self.rx;
        if rx.queue.is_writing() {
            return;
        }
        let owed = rx.flush_mark.saturating_sub(rx.queue.written_mark()) as u32;
        if owed == 0 && rx.flush_causes != 0 {
            let causes = core::mem::take(&mut rx.flush_causes);
            self.raise(now, causes);
        }
        let rx = &mut self.rx;
        let unwritten = rx.queue.unwritten();
        if unwritten == 0 {
            return;
        }
        let line = self.params.cache_line_bytes / 16;
        let wanted = if owed != 0 {
            owed
        } else {
            match rx.write_at {
                _ if self.params.moderation == Moderation::Qemu => unwritten,
                0 => unwritten,
                // SDM 13.4.46: 1 means as soon as one cache line is available. With RDTR 0 a packet is
                // reported at once (SDM 3.2.7.1) if no other follows.
                1 => {
                    if rx.rdtr == 0 && rx.is_idle() && self.params.rx_idle_report_ps == 0 {
                        unwritten
                    } else {
                        rx.queue.whole_lines(line)
                    }
                }
                threshold if unwritten >= threshold => unwritten,
                _ => 0,
            }
        };
        if wanted == 0 {
            return;
        }
        let (addr, n) = rx.queue.start_write_back(wanted);
        let end = host.burst(now, BurstKind::Write, Purpose::RxWriteBack, addr, n * 16).max(now);
        self.tally.rx_write_backs += 1;
        self.deadlines.set(Source::RxWriteBack, end.saturating_add(self.write_back_delay_ps));
    }

    /// A write-back has ended: the driver can see it.
    pub(crate) fn rx_written<H: Host>(&mut self, now: u64, host: &mut H) {
        let mut packets = false;
        let end = self.rx.end_of_frame();
        let each = |word: &mut u64| packets |= *word & end != 0;
        if !self.rx.queue.wrote(each, |addr, bytes| host.store(addr, bytes)) {
            self.tally.master_aborts += 1;
        }
        if packets && !self.waits_for_rdtr() {
            self.raise(now, cause::RXT0);
        }
        self.rx_write_back(now, host);
        self.rx_fetch(now, host);
        self.prefetch(now, host);
    }

    /// Fetches receive descriptors if there are none on chip, or if the thresholds say so.
    #[inline]
    pub(crate) fn rx_fetch<H: Host>(&mut self, now: u64, host: &mut H) {
        if self.rx.queue.cached() < self.rx.fetch_below.max(1) {
            self.rx_fetch_by_rule(now, host);
        }
    }

    fn rx_fetch_by_rule<H: Host>(&mut self, now: u64, host: &mut H) {
        let rule = FetchRule {
            goes_on: self.rx.filling != 0,
            prefetch: self.rx.fetch_below,
            host: self.rx.fetch_least,
            bus_wanted: self.rx.fetch_below != 0 && self.bus_wanted(),
            max: self.params.fetch_max_descriptors.min(self.params.rx_burst_descriptors),
            line: self.params.cache_line_bytes / 16,
            whole_lines: self.params.fetch_whole_lines,
        };
        if let Some(f) = self.rx.queue.plan_fetch(&rule) {
            let end = host.burst(now, BurstKind::Read, Purpose::RxDescriptorFetch, f.addr, f.bytes).max(now);
            self.tally.rx_fetches += 1;
            self.rx.filling += f.count;
            self.deadlines.set(Source::RxFetch, end);
        }
    }

    /// Receive descriptors have arrived.
    pub(crate) fn rx_fetched<H: Host>(&mut self, now: u64, host: &mut H) {
        if !self.rx.queue.fetched(|addr, into| host.load(addr, into)) {
            self.tally.master_aborts += 1;
        }
        self.rx_fill_on(now, host);
        self.rx_engine(now, host);
        self.prefetch(now, host);
    }

    /// The next burst of a fetch that takes several, or its end.
    fn rx_fill_on<H: Host>(&mut self, now: u64, host: &mut H) {
        let on_chip = crate::queue::ON_CHIP;
        if self.params.rx_burst_descriptors < on_chip && self.rx.filling < on_chip {
            self.rx_fetch_by_rule(now, host);
            if self.deadlines.pending(Source::RxFetch) {
                return;
            }
        }
        self.tally.rx_fetches_cut += u64::from(self.rx.filling < on_chip && self.rx.queue.fetched_all());
        self.rx.filling = 0;
    }
}
