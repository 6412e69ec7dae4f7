//! The assignment of causes to interrupts: one for all causes, or MSI-X vectors (82574 data sheet 7.4).

use crate::{Error, config::Config, moderation, regs::Regs};
use kpps_datasheet::{
    Chip,
    bit::cause as line,
    express::{cause, ivar},
    reg,
};
use kpps_platform::Registers;

/// The assignment of causes to vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routing {
    /// MSI-X vectors in use; 0 without MSI-X.
    vectors: u8,
    queues: u8,
    /// The configured causes of a device with one interrupt.
    wanted: u32,
}

impl Routing {
    pub(crate) fn new(chip: Chip, available: u8, config: &Config) -> Self {
        // One vector for each pair of queues, and one for the other causes.
        let useful = chip.vectors().min(config.queues + 1);
        // RXSEQ exists only on fibre, and TXQE not on the 82576 (public driver igb).
        let empty = if chip.has_advanced() { line::TXQE } else { 0 };
        let absent = if chip.is_pci_express() { line::RXSEQ | empty } else { 0 };
        let wanted = config.interrupts.mask() & !absent;
        Self { vectors: available.min(useful), queues: config.queues, wanted }
    }

    pub(crate) fn is_msix(&self) -> bool {
        self.vectors > 0
    }

    pub(crate) fn vectors(&self) -> u8 {
        self.vectors
    }

    /// The vector of a pair of queues. With too few vectors, the last pairs share one.
    fn of_queue(&self, queue: u8) -> Option<u8> {
        self.is_msix().then(|| queue.min(self.vectors - 1))
    }

    /// The vector of all other causes: its own, or that of the first pair.
    pub(crate) fn other(&self) -> Option<u8> {
        self.is_msix().then_some(if self.vectors > self.queues { self.queues } else { 0 })
    }

    /// The causes of a pair of queues.
    pub(crate) fn queue_causes(&self, queue: u8) -> u32 {
        if !self.is_msix() {
            return self.wanted;
        }
        let select = |on: bool, bit: u32| if on { bit } else { 0 };
        select(self.wanted & line::RXT0 != 0, cause::receive(queue))
            | select(self.wanted & line::TXDW != 0, cause::transmit(queue))
    }

    /// The causes that belong to no queue.
    pub(crate) fn others(&self) -> u32 {
        let rest = self.wanted & !(line::RXT0 | line::TXDW | line::TXQE);
        if self.is_msix() { rest | cause::OTHER } else { rest }
    }

    /// All configured causes.
    pub(crate) fn all(&self) -> u32 {
        if !self.is_msix() {
            return self.wanted;
        }
        (0..self.queues).fold(self.others(), |all, queue| all | self.queue_causes(queue))
    }

    /// IVAR.
    pub(crate) fn ivar(&self) -> u32 {
        let field = |vector: Option<u8>, shift: u32| vector.map_or(0, |vector| ivar::field(vector) << shift);
        (0..self.queues).fold(field(self.other(), ivar::OTHER_SHIFT), |all, queue| {
            let (vector, step) = (self.of_queue(queue), 4 * u32::from(queue));
            all | field(vector, ivar::RX_SHIFT + step) | field(vector, ivar::TX_SHIFT + step)
        })
    }

    /// The causes that clear when their vector fires. With one pair of queues there are none, because the
    /// [services](crate::service) read ICR.
    pub(crate) fn auto_clear(&self) -> u32 {
        if !self.is_msix() || self.queues == 1 {
            return 0;
        }
        (0..self.queues).fold(0, |all, queue| all | cause::receive(queue) | cause::transmit(queue))
    }
}

/// The interrupt of a pair of queues, for the core that serves them. It shares no state with other vectors.
///
/// The device clears its causes when it fires. Without MSI-X all pairs share one interrupt;
/// [`Control::causes`](crate::Control::causes) reads its causes.
pub struct Vector<R> {
    regs: Regs<R>,
    number: Option<u8>,
    causes: u32,
}

impl<R: Registers> Vector<R> {
    pub(crate) fn new(regs: Regs<R>, routing: &Routing, queue: u8) -> Self {
        Self { regs, number: routing.of_queue(queue), causes: routing.queue_causes(queue) }
    }

    /// Its MSI-X vector; `None` without MSI-X.
    pub fn number(&self) -> Option<u8> {
        self.number
    }

    /// Masks the pair's causes: one register write.
    #[inline]
    pub fn mask(&self) {
        self.regs.write(reg::IMC, self.causes);
    }

    /// Unmasks them: one register write.
    #[inline]
    pub fn unmask(&self) {
        self.regs.write(reg::IMS, self.causes);
    }

    /// Limits the interrupts to this many a second; 0: no limit. One register write.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without MSI-X.
    pub fn throttle(&self, rate: u32) -> Result<(), Error> {
        let vector = self.number.ok_or(Error::Unsupported)?;
        let interval = if rate == 0 { 0 } else { moderation::interval(rate) };
        self.regs.write(reg::eitr(vector), interval);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(available: u8, queues: u8) -> Routing {
        Routing::new(Chip::I82574l, available, &Config { queues, ..Config::kpps() })
    }

    #[test]
    fn vectors_as_there_are() {
        let fields = |r: Routing| (r.vectors(), r.of_queue(0), r.of_queue(1), r.other());
        assert_eq!(fields(routing(0, 2)), (0, None, None, None));
        assert_eq!(fields(routing(1, 2)), (1, Some(0), Some(0), Some(0)));
        assert_eq!(fields(routing(2, 2)), (2, Some(0), Some(1), Some(0)));
        assert_eq!(fields(routing(5, 2)), (3, Some(0), Some(1), Some(2)));
        assert_eq!(fields(routing(5, 1)), (2, Some(0), Some(1), Some(1)));
        assert_eq!(routing(5, 2).ivar(), 0xA_9898);
        assert_eq!(routing(5, 1).ivar(), 0x9_0808);
        assert_eq!(routing(0, 2).ivar(), 0);
    }

    #[test]
    fn causes_of_one_interrupt_and_of_several() {
        assert_eq!(routing(0, 1).all(), Config::kpps().interrupts.mask() & !line::RXSEQ);
        let three = routing(3, 2);
        assert_eq!(three.queue_causes(1), cause::RXQ1 | cause::TXQ1);
        assert_eq!(three.all() & !three.others(), 0xF << 20);
        assert_eq!(three.others() & (line::LSC | cause::OTHER), line::LSC | cause::OTHER);
        assert_eq!((three.auto_clear(), routing(3, 1).auto_clear()), (0xF << 20, 0));
        let of = |config: &Config| Routing::new(Chip::I82574l, 3, config);
        let mut only = Config { queues: 2, ..Config::kpps() };
        (only.interrupts.rx_timer, only.interrupts.tx_empty) = (false, true);
        assert_eq!(of(&only).queue_causes(0), cause::TXQ0, "no interrupts of received frames");
        (only.interrupts.rx_timer, only.interrupts.tx_done) = (true, false);
        assert_eq!(of(&only).queue_causes(0), cause::RXQ0, "no interrupts of sent frames");
        only.interrupts.tx_done = true;
        assert_eq!(of(&only).others() & (line::RXT0 | line::TXDW | line::TXQE), 0, "those of queues");
        let older = Routing::new(Chip::I82546eb, 5, &Config::kpps());
        assert!(!older.is_msix());
    }
}
