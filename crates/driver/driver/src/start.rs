//! Writing every register after a reset.

use crate::{Control, Error, RxQueue, TxQueue, ring::Ring};
use kpps_datasheet::{
    Erratum,
    bit::{self, ctrl, dctl, rctl, rxcsum, tctl},
    express, igb, reg,
};
use kpps_platform::{BufferSource, Platform};

/// A receive and a transmit queue of the same number.
pub(crate) type PairOf<'a, P, S> = (&'a mut RxQueue<P, S>, &'a mut TxQueue<P, S>);

impl<P: Platform> Control<P> {
    /// Writes every register and starts both directions. Interrupts stay masked.
    pub(crate) fn start<S: BufferSource>(&mut self, pairs: &mut [PairOf<'_, P, S>]) -> Result<(), Error> {
        let receiver_reset = self.chip.has(Erratum::ReceiverResetForFilters);
        if receiver_reset {
            self.regs.write(reg::RCTL, rctl::RST);
            self.regs.get(reg::STATUS)?;
            self.platform.wait_ns(5_000_000);
        }
        self.write_filters();
        if receiver_reset {
            self.regs.write(reg::RCTL, 0);
            self.regs.get(reg::STATUS)?;
            self.platform.wait_ns(5_000_000);
        }
        self.clear_stats();
        self.start_flow_control();
        self.start_vlan()?;
        if let Some(kb) = self.config.rx_fifo_kb {
            self.regs.write(if self.chip.has_advanced() { igb::RXPBS } else { reg::PBA }, kb.into());
        }
        self.start_link()?;
        match (self.chip.has_advanced(), self.chip.is_pci_express()) {
            (true, _) => self.start_igb(),
            (false, true) => self.start_express()?,
            (false, false) => {}
        }
        for (queue, (rx, tx)) in (0..).zip(&mut *pairs) {
            rx.restart();
            tx.restart();
            self.set_transmit_ring(queue, tx.ring())?;
            self.set_receive_ring(queue, rx.ring())?;
        }
        self.start_transmit();
        self.start_receive();
        for (rx, _) in pairs {
            rx.flush();
        }
        self.progress = None;
        self.link_event = true;
        self.regs.get(reg::STATUS).map(drop)
    }

    fn start_flow_control(&self) {
        let regs = &self.regs;
        regs.write(reg::FCAL, bit::flow::ADDRESS_LOW);
        regs.write(reg::FCAH, bit::flow::ADDRESS_HIGH);
        regs.write(reg::FCT, bit::flow::TYPE);
        let (high, low) = if self.config.flow_control.transmits() {
            // XOFF when two long frames still fit, XON at half the FIFO.
            let fifo =
                self.config.rx_fifo_kb.map_or(self.chip.default_rx_buffer_bytes(), |kb| u32::from(kb) * 1024);
            let high =
                fifo.saturating_sub(2 * u32::from(self.config.max_frame_bytes).max(1522)).max(fifo / 4);
            let xone = if self.chip.has_xone() { bit::flow::XONE } else { 0 };
            (high & !7, (high / 2) & !7 | xone)
        } else {
            (0, 0)
        };
        regs.write(reg::FCTTV, 0x100);
        regs.write(reg::FCRTL, low);
        regs.write(reg::FCRTH, high);
    }

    fn start_vlan(&self) -> Result<(), Error> {
        if !self.chip.has_vlan() {
            return Ok(());
        }
        self.regs.write(reg::VET, bit::VLAN_ETHERTYPE);
        self.regs.modify(reg::CTRL, ctrl::VME, self.vlan_bits()).map(drop)
    }

    /// The bits of CTRL by which the card takes VLAN tags out, if it shall.
    pub(crate) fn vlan_bits(&self) -> u32 {
        if self.config.vlan { ctrl::VME } else { 0 }
    }

    fn set_transmit_ring(&self, queue: u8, ring: &Ring<P::Mem>) -> Result<(), Error> {
        let of = |register| reg::of_queue(register, queue);
        let (regs, config) = (&self.regs, &self.config);
        regs.write(of(reg::TDBAL), ring.bus() as u32);
        regs.write(of(reg::TDBAH), (ring.bus() >> 32) as u32);
        regs.write(of(reg::TDLEN), ring.bytes());
        regs.write(of(reg::TDH), 0);
        regs.write(of(reg::TDT), 0);
        if self.chip.has_advanced() {
            self.enable_ring(of(reg::TXDCTL), config.tx_thresholds);
            return Ok(());
        }
        if let (true, Some(t)) = (self.chip.has_descriptor_control(), config.tx_thresholds) {
            let wthresh = if self.chip.has(Erratum::TransmitWriteBackThreshold) { 0 } else { t.wthresh };
            regs.write(of(reg::TXDCTL), dctl::descriptors(t.pthresh, t.hthresh, wthresh));
        }
        if self.chip.is_pci_express() {
            regs.modify(of(reg::TXDCTL), 0, express::TXDCTL_SET)?;
            let (clear, set) = if queue == 0 { (express::tarc::CLEAR, express::tarc::SET) } else { (0, 0) };
            regs.modify(of(reg::TARC0), clear, set | express::tarc::ENABLE)?;
        }
        Ok(())
    }

    fn set_receive_ring(&self, queue: u8, ring: &Ring<P::Mem>) -> Result<(), Error> {
        let of = |register| reg::of_queue(register, queue);
        let (regs, config) = (&self.regs, &self.config);
        regs.write(of(reg::RDBAL), ring.bus() as u32);
        regs.write(of(reg::RDBAH), (ring.bus() >> 32) as u32);
        regs.write(of(reg::RDLEN), ring.bytes());
        regs.write(of(reg::RDH), 0);
        regs.write(of(reg::RDT), 0);
        if self.chip.has_advanced() {
            self.write_srrctl();
            self.enable_ring(of(reg::RXDCTL), config.rx_thresholds);
            return Ok(());
        }
        if let (true, Some(t)) = (self.chip.has_descriptor_control(), config.rx_thresholds) {
            regs.write(of(reg::RXDCTL), dctl::descriptors(t.pthresh, t.hthresh, t.wthresh));
        }
        Ok(())
    }

    fn start_transmit(&self) {
        let (regs, config) = (&self.regs, &self.config);
        let mut gap = self.chip.tipg(self.media);
        gap.ipgt += config.tx_gap_bytes.saturating_sub(crate::config::LEAST_GAP_BYTES);
        regs.write(reg::TIPG, gap.pack());
        // 0 after reset.
        if config.tx_throttle_bytes > 0 {
            regs.write(reg::AIFS, config.tx_throttle_bytes.into());
        }
        if self.chip.has_delays() {
            // 0 is not allowed (SDM 13.4.41), even if no report is delayed.
            regs.write(reg::TIDV, config.moderation.tidv.max(1).into());
        }
        if self.chip.has_radv_tadv_itr() {
            regs.write(reg::TADV, config.moderation.tadv.into());
        }
        let control =
            tctl::EN | tctl::PSP | tctl::CT_DEFAULT << tctl::CT_SHIFT | tctl::COLD_FULL << tctl::COLD_SHIFT;
        regs.write(reg::TCTL, control);
    }

    fn start_receive(&mut self) {
        let (regs, config) = (&self.regs, &self.config);
        if self.chip.has_delays() {
            regs.write(reg::RDTR, config.moderation.rdtr.into());
        }
        if self.chip.has_radv_tadv_itr() {
            regs.write(reg::RADV, config.moderation.radv.into());
        }
        if self.chip.has_throttle() {
            self.write_throttle(self.throttle.register());
        }
        if self.chip.has_checksum_offload() {
            let on = if config.rx_checksum { rxcsum::IPOFLD | rxcsum::TUOFLD } else { 0 };
            // The hash takes the place of the packet checksum.
            let hash = if self.rss().is_some() { express::rxcsum::PCSD } else { 0 };
            regs.write(reg::RXCSUM, on | hash);
        }
        self.receiving = true;
        self.write_rctl();
    }
}
