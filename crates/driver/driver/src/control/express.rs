//! Features that came with PCI Express: the reset sequence; on the 82574 alone reserved bits, RSS, MSI-X.

use crate::{
    Control, Error,
    config::{Rss, RxFormat},
    phy,
    regs::Regs,
};
use kpps_datasheet::{
    Chip, Erratum,
    bit::cause as causes,
    express::{RETA_QUEUE_SHIFT, cause},
    express::{ctrl, ctrl_ext, eecd, gcr, mrqc, psrctl, rfctl, status},
    reg,
};
use kpps_platform::Platform;

/// How long pending bus requests may take, in ns (public drivers: 80 ms).
const MASTER_LIMIT_NS: u64 = 80_000_000;
/// How long the chip may load its settings from the NVM after a reset, in ns.
const LOAD_LIMIT_NS: u64 = 100_000_000;
/// How long the firmware then configures the PHY, in ns (public drivers).
const PHY_CONFIGURATION_NS: u64 = 25_000_000;

/// Before a reset: ends bus requests, and takes the PHY from the firmware.
pub(crate) fn before_reset<P: Platform>(platform: &P, regs: &Regs<P::Regs>, chip: Chip) -> Result<(), Error> {
    if !chip.is_pci_express() {
        return Ok(());
    }
    regs.modify(reg::CTRL, 0, ctrl::MASTER_DISABLE)?;
    let quiet = (status::MASTER_ENABLE, 0);
    let ended = regs.wait(platform, reg::STATUS, quiet, (100_000, MASTER_LIMIT_NS), "end of bus requests");
    // If bus requests do not end in that time, the reset ends them.
    if let Err(Error::Gone) = ended {
        return Err(Error::Gone);
    }
    if chip.has_advanced() {
        return Ok(());
    }
    phy::own_mdio(platform, regs, chip)
}

/// After a reset: waits for the NVM to be loaded and the PHY to be configured.
pub(crate) fn after_reset<P: Platform>(platform: &P, regs: &Regs<P::Regs>, chip: Chip) -> Result<(), Error> {
    if !chip.is_pci_express() {
        return Ok(());
    }
    let loaded = (eecd::AUTO_RD, eecd::AUTO_RD);
    let load = regs.wait(platform, reg::EECD, loaded, (1_000_000, LOAD_LIMIT_NS), "NVM load after reset");
    if chip.has_advanced() {
        // The 82576 has no such report if it has no NVM (public driver igb).
        if let Err(Error::Gone) = load {
            return Err(Error::Gone);
        }
    } else {
        load?;
        phy::disown_mdio(platform, regs, chip)?;
    }
    platform.wait_ns(PHY_CONFIGURATION_NS);
    Ok(())
}

impl<P: Platform> Control<P> {
    /// How frames are distributed over queues, if a hash is configured.
    pub(crate) fn rss(&self) -> Option<Rss> {
        match self.config.rx_format.on(self.chip) {
            RxFormat::Legacy => None,
            _ if self.config.queues > 1 => Some(self.config.rss.unwrap_or(Rss::DEFAULT)),
            _ => self.config.rss,
        }
    }

    /// Writes the registers that only this chip has, except those of the rings.
    pub(crate) fn start_express(&self) -> Result<(), Error> {
        let regs = &self.regs;
        regs.modify(reg::CTRL, ctrl::CLEAR_29, 0)?;
        let msix = if self.routing.is_msix() { ctrl_ext::PBA_CLR } else { 0 };
        let set = ctrl_ext::SET_22 | ctrl_ext::DRV_LOAD | msix;
        regs.modify(reg::CTRL_EXT, ctrl_ext::CLEAR_23 | ctrl_ext::IAME | ctrl_ext::EIAME, set)?;
        if self.chip.has(Erratum::CompletionTimeout) {
            regs.modify(reg::GCR, 0, gcr::SET_22)?;
            regs.modify(reg::GCR2, 0, gcr::GCR2_SET)?;
        }
        let format = self.config.rx_format.on(self.chip);
        // The delays apply to all frames, ACKs included.
        let extended = if format == RxFormat::Legacy { 0 } else { rfctl::EXSTEN };
        // Its cause is part of OTHER, which no service waits for.
        regs.write(reg::RSRPD, 0);
        regs.write(reg::RFCTL, rfctl::ACK_DIS | extended);
        if let RxFormat::Split { header_bytes } = format {
            let data = [self.config.rx_buffer_bytes.into(), 0, 0];
            regs.write(reg::PSRCTL, psrctl::sizes(header_bytes.into(), data));
        }
        self.start_rss();
        regs.write(reg::IVAR, self.routing.ivar());
        regs.write(reg::EIAC, self.routing.auto_clear());
        regs.write(reg::IAM, 0);
        regs.write(reg::IMC, causes::ALL);
        Ok(())
    }

    fn start_rss(&self) {
        let Some(Rss { key, table }) = self.rss() else {
            self.regs.write(reg::MRQC, 0);
            return;
        };
        for (offset, bytes) in (0..).step_by(4).zip(key.as_chunks().0) {
            self.regs.write(reg::RSSRK + offset, u32::from_le_bytes(*bytes));
        }
        let queues = self.config.queues;
        for (offset, entries) in (0..).step_by(4).zip(table.as_chunks::<4>().0) {
            let entries = entries.map(|queue| (queue % queues) << RETA_QUEUE_SHIFT);
            self.regs.write(reg::RETA + offset, u32::from_le_bytes(entries));
        }
        let fields = mrqc::TCP_IPV4 | mrqc::IPV4 | mrqc::TCP_IPV6 | mrqc::IPV6_EX | mrqc::IPV6;
        self.regs.write(reg::MRQC, mrqc::RSS | fields);
    }

    /// Writes the interval between interrupts, of the single interrupt or of all vectors.
    pub(crate) fn write_throttle(&self, value: u32) {
        match self.routing.vectors() {
            0 if self.chip.has_advanced() => self.write_eitr(value),
            0 => self.regs.write(reg::ITR, value),
            vectors => (0..vectors).for_each(|vector| self.regs.write(reg::eitr(vector), value)),
        }
    }

    /// MSI-X vectors in use. 0: one interrupt for everything.
    pub fn vectors(&self) -> u8 {
        self.routing.vectors()
    }

    /// The MSI-X vector of causes that belong to no queue: link, missed frames.
    pub fn other_vector(&self) -> Option<u8> {
        self.routing.other()
    }

    /// Unmasks the causes that belong to no queue, for callers whose queues have a [`Vector`](crate::Vector)
    /// each: one register write. Call it after each interrupt of that vector, too, because the interrupt
    /// masks its causes.
    pub fn unmask_other(&self) {
        self.regs.write(reg::IMS, self.routing.others());
    }

    /// Masks the causes that belong to no queue: one register write.
    pub fn mask_other(&self) {
        self.regs.write(reg::IMC, self.routing.others() | cause::OTHER);
    }
}
