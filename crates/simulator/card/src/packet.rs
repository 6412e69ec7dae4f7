//! Builds frames from the data of transmit descriptors: checksums, segments, tags, padding (SDM 3.3–3.6).

use crate::checksum;
use crate::fifo::FrameFifo;
use crate::frame::{ADDRESSES_BYTES, FCS_BYTES, VLAN_BYTES};
use crate::segment::Segmentation;
use crate::transmitter::{Data, LONGEST_BYTES, Options};
use crate::wire;
use crate::{Host, Nic};
use kpps_datasheet::bit::{ctrl, tctl};
use kpps_datasheet::desc::{TxContext, popts, tx_cmd};
use kpps_datasheet::stat;

impl Nic {
    /// The first descriptor of a packet.
    pub(crate) fn tx_begin_packet(&mut self, data: &Data, mut options: Options) {
        self.tx.in_packet = true;
        self.tx.discard = false;
        self.tx.packet.clear();
        self.tx.segmentation = None;
        let segment = !options.legacy && data.cmd & tx_cmd::TSE != 0 && self.params.chip.has_tso();
        if segment {
            // VLE, IFCS and the tag come with the first descriptor (SDM 3.3.7.1).
            options.vlan = self.wanted_vlan(data);
            options.ifcs = data.cmd & tx_cmd::IFCS != 0;
            let longest = (self.tx.capacity as usize).min(LONGEST_BYTES);
            self.tx.segmentation = Segmentation::new(self.tx.segment_context, longest);
            if self.tx.segmentation.is_none() {
                self.tx_give_up();
                self.stats.bump(stat::TSCTFC);
            }
        }
        self.tx.options = options;
    }

    /// The tag that a descriptor requests.
    fn wanted_vlan(&self, data: &Data) -> Option<u16> {
        let wanted = data.cmd & tx_cmd::VLE != 0 && self.ctrl & ctrl::VME != 0 && self.params.chip.has_vlan();
        wanted.then_some(data.special)
    }

    /// Sends a segment if it is complete and not the last; the last waits for the end of the packet.
    pub(crate) fn tx_segment<H: Host>(&mut self, now: u64, host: &mut H) {
        let Some(mut s) = self.tx.segmentation else { return };
        if s.take_header(&self.tx.packet) && s.complete(self.tx.packet.len()) && !s.is_last() {
            self.tx_send_segment(now, &mut s, false, host);
        }
        self.tx.segmentation = Some(s);
    }

    fn tx_send_segment<H: Host>(&mut self, now: u64, s: &mut Segmentation, last: bool, host: &mut H) {
        let sum = self.tx.options.popts & popts::TXSM != 0;
        s.update_headers(&mut self.tx.packet, last, sum);
        let context = s.context;
        self.tx_checksums(&context);
        self.tx_build(now, self.tx.options.vlan, self.tx.options.ifcs, host);
        s.next(&mut self.tx.packet);
    }

    /// The last descriptor of a packet is read.
    pub(crate) fn tx_end_packet<H: Host>(&mut self, now: u64, data: &Data, host: &mut H) {
        let insert = self.tx.insert.take();
        let given_up = self.tx.discard;
        self.tx.in_packet = false;
        self.tx.discard = false;
        if let Some(mut s) = self.tx.segmentation.take() {
            if given_up {
                self.stats.bump(stat::TSCTFC);
                return;
            }
            let whole = s.complete(self.tx.packet.len());
            if s.has_payload(self.tx.packet.len()) {
                self.tx_send_segment(now, &mut s, true, host);
            }
            // SDM 13.7.53, 13.7.54.
            self.stats.bump(if whole { stat::TSCTC } else { stat::TSCTFC });
            if s.sent() == 0 {
                self.tally.tx_discarded += 1;
            }
            return;
        }
        if given_up || self.tx.packet.is_empty() {
            return;
        }
        let options = self.tx.options;
        if options.legacy {
            if let Some(offset) = insert {
                checksum::insert_legacy(&mut self.tx.packet, options.css, offset);
            }
        } else {
            let context = self.tx.checksum_context;
            self.tx_checksums(&context);
        }
        let vlan = self.wanted_vlan(data);
        self.tx_build(now, vlan, data.cmd & tx_cmd::IFCS != 0, host);
    }

    /// Inserts the checksums that the packet's first descriptor asks for (SDM 3.6).
    fn tx_checksums(&mut self, c: &TxContext) {
        if self.tx.options.popts & popts::IXSM != 0 {
            checksum::insert_ip(&mut self.tx.packet, c.ipcss, c.ipcso, c.ipcse);
        }
        if self.tx.options.popts & popts::TXSM != 0 {
            checksum::insert_transport(&mut self.tx.packet, c.tucss, c.tucso, c.tucse);
        }
    }

    /// Puts the packet into the FIFO as a frame.
    fn tx_build<H: Host>(&mut self, now: u64, vlan: Option<u16>, insert_fcs: bool, host: &mut H) {
        let packet = &mut self.tx.packet;
        let mut remember = 0;
        if let Some(vlan) = vlan
            && packet.len() >= ADDRESSES_BYTES
        {
            let mut tag = [0; VLAN_BYTES];
            tag[..2].copy_from_slice(&(self.vet as u16).to_be_bytes());
            tag[2..].copy_from_slice(&vlan.to_be_bytes());
            packet.splice(ADDRESSES_BYTES..ADDRESSES_BYTES, tag);
        } else if !insert_fcs {
            // The last four bytes are the FCS from software.
            let data = packet.len().saturating_sub(FCS_BYTES);
            if crc32fast::hash(&packet[..data]).to_le_bytes() != packet[data..] {
                remember |= wire::tag::BAD_FCS;
            }
            packet.truncate(data);
        }
        if self.tx.control & tctl::PSP != 0 && packet.len() < wire::LEAST_BYTES as usize {
            packet.resize(wire::LEAST_BYTES as usize, 0);
        }
        let cost = FrameFifo::cost(packet.len() + FCS_BYTES, self.params.tx_fifo_overhead_bytes);
        self.tx.engine_free_ps = now + self.params.tx_engine_ps;
        if self.tx.fifo.push(packet, remember, cost, self.tx.capacity) {
            self.tx.built += 1;
            self.tally.tx_in_flight += 1;
            self.wire_start(now, host);
        } else {
            self.tally.tx_discarded += 1;
        }
    }

    /// Discards the packet; its other descriptors are consumed without effect.
    pub(crate) fn tx_give_up(&mut self) {
        if !self.tx.discard {
            self.tx.discard = true;
            self.tally.tx_discarded += 1;
        }
    }
}
