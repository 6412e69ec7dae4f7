//! The register window: what each offset does (SDM 13.2–13.8).

use crate::deadlines::Source;
use crate::stats::Statistics;
use crate::{Host, Nic, express};
use kpps_datasheet::bit::{cause, ctrl, ctrl_ext, rctl, rdtr};
use kpps_datasheet::express::rfctl;
use kpps_datasheet::{Chip, reg, stat};

/// All bits of the interrupt registers (SDM 13.4.17).
const CAUSES: u32 = 0x0001_FFFF;

/// Registers that only keep their value, on every chip.
const COMMON: [u32; 8] =
    [reg::CTRL_EXT, reg::LEDCTL, reg::TXDMAC, reg::TSPMT, reg::WUC, reg::WUFC, reg::WUS, reg::MANC];
/// EITR of the last vector.
const EITR_LAST: u32 = reg::eitr(crate::vector::COUNT as u8 - 1);
/// And those of [`express`].
const PLAIN: usize = COMMON.len() + express::PLAIN.len();

/// Their values.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    values: [u32; PLAIN],
    /// How many of them the chip has.
    count: usize,
}

impl Plain {
    pub(crate) fn new(chip: Chip) -> Self {
        let mut values = [0; PLAIN];
        for (value, offset) in values.iter_mut().zip(COMMON) {
            *value = match offset {
                reg::TSPMT => 0x0100_0400,
                reg::LEDCTL => 0x0706_8302,
                reg::TXDMAC => 1,
                _ => 0,
            };
        }
        Self { values, count: if chip.is_pci_express() { PLAIN } else { COMMON.len() } }
    }

    /// The value of a register; 0 if the chip does not have it.
    pub(crate) fn value(&self, offset: u32) -> u32 {
        let mut offsets = COMMON.iter().chain(&express::PLAIN).take(self.count);
        offsets.position(|&o| o == offset).map_or(0, |i| self.values[i])
    }

    fn at(&mut self, offset: u32) -> Option<&mut u32> {
        let mut offsets = COMMON.iter().chain(&express::PLAIN).take(self.count);
        offsets.position(|&o| o == offset).map(|i| &mut self.values[i])
    }
}

/// The vector of EITR at `offset`.
const fn vector(offset: u32) -> usize {
    ((offset - reg::EITR0) / 4) as usize
}

/// The canonical offset of an offset in the window, `None` if this chip has nothing there.
#[inline]
fn canonical(chip: Chip, offset: u32) -> Option<u32> {
    if chip != Chip::I82542 {
        return Some(offset);
    }
    Some(match offset {
        0x108 => reg::RDTR,
        0x110 => reg::RDBAL,
        0x114 => reg::RDBAH,
        0x118 => reg::RDLEN,
        0x120 => reg::RDH,
        0x128 => reg::RDT,
        0x160 => reg::FCRTL,
        0x168 => reg::FCRTH,
        0x420 => reg::TDBAL,
        0x424 => reg::TDBAH,
        0x428 => reg::TDLEN,
        0x430 => reg::TDH,
        0x438 => reg::TDT,
        0x440 => reg::TIDV,
        0x040..0x0C0 => offset - 0x040 + reg::RAL0,
        0x200..0x400 => offset - 0x200 + reg::MTA,
        0x600..0x800 => offset - 0x600 + reg::VFTA,
        // The offsets that later chips have for these registers are empty.
        _ if chip.offset(offset) != offset => return None,
        _ => offset,
    })
}

impl Nic {
    /// Whether a write to `offset` moves a ring's tail.
    pub fn is_tail(&self, offset: u32) -> bool {
        matches!(canonical(self.params.chip, offset & !3), Some(reg::RDT | reg::TDT))
    }

    /// Reads the register at byte `offset` of BAR 0. An offset without a register reads 0.
    pub fn read<H: Host>(&mut self, now_ps: u64, offset: u32, host: &mut H) -> u32 {
        let now = self.catch_up(now_ps, host);
        let chip = self.params.chip;
        let Some(offset) = canonical(chip, offset & !3) else { return 0 };
        if Statistics::holds(offset) {
            let unknown =
                chip == Chip::I82542 && stat::ALL.iter().any(|s| s.offset == offset && s.since_82543);
            return if unknown { 0 } else { self.stats.read(offset) };
        }
        let late = chip.has_radv_tadv_itr();
        let control = chip.has_descriptor_control();
        match offset {
            reg::CTRL | reg::CTRL_COPY => self.read_control(),
            reg::STATUS => self.read_status(),
            reg::EECD => self.read_eecd(),
            reg::EERD if chip.has_eerd() => self.read_eerd(now),
            reg::MDIC => self.read_mdi(),
            reg::FCAL => self.flow.address_low,
            reg::FCAH => self.flow.address_high,
            reg::FCT => self.flow.ethertype,
            reg::FCTTV => self.flow.timer,
            reg::FCRTL => self.flow.low_mark,
            reg::FCRTH => self.flow.high_mark,
            reg::VET => self.vet,
            reg::ICR => self.read_causes(now),
            reg::ITR if late => self.irq.throttle,
            reg::IMS => self.irq.mask,
            reg::EITR0..=EITR_LAST if chip.vectors() > 0 => self.irq.vectors.throttle(vector(offset)),
            reg::RCTL => self.rx.control,
            reg::TXCW => self.link.word,
            reg::RXCW => self.read_receive_word(),
            reg::TCTL => self.tx.control,
            reg::TIPG => self.tx.gap,
            reg::AIFS => self.tx.throttle.into(),
            reg::PBA => self.packet_buffer,
            reg::RDBAL => self.rx.queue.base_low(),
            reg::RDBAH => self.rx.queue.base_high(),
            reg::RDLEN => self.rx.queue.len(),
            reg::RDH if self.write_back_delay_ps != 0 => self.rx.queue.writing_index(),
            reg::RDH => self.rx.queue.written_index(),
            reg::RDT => self.rx.queue.tail(),
            reg::RDTR => self.rx.rdtr,
            reg::RADV if late => self.rx.radv,
            reg::RSRPD if late => self.rx.small,
            reg::RXDCTL if control => self.rx.thresholds,
            reg::RXCSUM if chip.has_checksum_offload() => self.rx.checksum,
            reg::RFCTL if chip.has_extended_rx() => self.rx.filter_control,
            reg::TDBAL => self.tx.queue.base_low(),
            reg::TDBAH => self.tx.queue.base_high(),
            reg::TDLEN => self.tx.queue.len(),
            // While a report waits for its frame to leave, head waits, too (SDM 3.3.3.1).
            reg::TDH if self.tx.reports_wait => self.tx.queue.written_index(),
            reg::TDH => self.tx.queue.taken_index(),
            reg::TDT => self.tx.queue.tail(),
            reg::TIDV => self.tx.tidv,
            reg::TADV if late => self.tx.tadv,
            reg::TXDCTL if control => self.tx.thresholds,
            reg::RDFPC => self.rx.fifo.len() as u32,
            reg::TDFPC => self.tx.fifo.len() as u32,
            reg::SWSM if self.params.swsm => self.semaphore.read(),
            _ => match self.filter.read(offset) {
                Some(value) => value,
                None => self.plain.at(offset).map_or(0, |v| *v),
            },
        }
    }

    /// Writes the register at byte `offset` of BAR 0. A write to an offset without a register,
    /// or to a read-only one, does nothing.
    pub fn write<H: Host>(&mut self, now_ps: u64, offset: u32, value: u32, host: &mut H) {
        let now = self.catch_up(now_ps, host);
        let chip = self.params.chip;
        let Some(offset) = canonical(chip, offset & !3) else { return };
        let late = chip.has_radv_tadv_itr();
        let control = chip.has_descriptor_control();
        match offset {
            reg::RDT => self.set_receive_tail(now, value, host),
            reg::TDT => self.set_transmit_tail(now, value, host),
            reg::CTRL | reg::CTRL_COPY => self.set_control(now, value, host),
            reg::EECD => self.write_eecd(value),
            reg::EERD => self.write_eerd(now, value),
            reg::MDIC => self.start_mdi(now, value),
            reg::FCAL => self.flow.address_low = value,
            reg::FCAH => self.flow.address_high = value & 0xFFFF,
            reg::FCT => self.flow.ethertype = value & 0xFFFF,
            reg::FCTTV => self.flow.timer = value & 0xFFFF,
            reg::FCRTL => self.flow.low_mark = value,
            reg::FCRTH => self.flow.high_mark = value,
            reg::VET => self.vet = value & 0xFFFF,
            // SDM 13.4.17: writing ones clears them.
            reg::ICR => {
                let pending = self.irq.causes & self.irq.mask != 0;
                self.irq.causes &= !value;
                self.acknowledge(pending);
                self.update_line(now);
            }
            reg::ITR if late => self.set_throttle(now, value),
            reg::EITR0..=EITR_LAST if chip.vectors() > 0 => {
                self.irq.vectors.set_throttle(vector(offset), value);
                self.update_line(now);
            }
            reg::ICS => self.raise(now, value & self.known_causes()),
            reg::IMS => {
                self.irq.mask |= value & self.known_causes();
                self.update_line(now);
            }
            reg::IMC => {
                self.irq.mask &= !value;
                self.update_line(now);
            }
            reg::RCTL => {
                if chip == Chip::I82542 && value & rctl::RST != 0 {
                    self.reset_receiver();
                }
                self.set_receive_control(now, value, host);
            }
            reg::TXCW => self.set_transmit_word(now, value),
            reg::TCTL => self.set_transmit_control(now, value, host),
            reg::TIPG => self.tx.gap = value & 0x3FFF_FFFF,
            reg::AIFS => self.tx.throttle = value as u16,
            reg::PBA => self.set_packet_buffer(value),
            reg::RDBAL => self.set_receive_ring(|q| q.set_base_low(value)),
            reg::RDBAH => self.set_receive_ring(|q| q.set_base_high(value)),
            reg::RDLEN => self.set_receive_ring(|q| q.set_len(value)),
            reg::RDH => self.set_receive_ring(|q| q.set_head(value)),
            reg::RDTR => {
                self.rx.rdtr = value & rdtr::DELAY_MASK;
                if value & rdtr::FPD != 0 {
                    self.expire_rdtr_radv(now, cause::RXT0, host);
                } else if self.rx.rdtr == 0 {
                    // SDM 3.2.7.1.1: disables both timers; frames that wait for them then wait for the next
                    // frame.
                    self.stop_rdtr_radv();
                }
            }
            reg::RADV if late => self.rx.radv = value & 0xFFFF,
            reg::RSRPD if late => self.rx.small = value & 0xFFF,
            reg::RXDCTL if control => self.set_receive_thresholds(value),
            reg::RXCSUM if chip.has_checksum_offload() => {
                self.rx.checksum = value & express::checksum_bits(chip);
            }
            reg::RFCTL if chip.has_extended_rx() => {
                self.rx.filter_control = value;
                self.rx.extended = value & rfctl::EXSTEN != 0;
            }
            reg::TDBAL => self.set_transmit_ring(now, |q| q.set_base_low(value)),
            reg::TDBAH => self.set_transmit_ring(now, |q| q.set_base_high(value)),
            reg::TDLEN => self.set_transmit_ring(now, |q| q.set_len(value)),
            reg::TDH => self.set_transmit_ring(now, |q| q.set_head(value)),
            reg::TIDV => self.tx.tidv = value & 0xFFFF,
            reg::TADV if late => self.tx.tadv = value & 0xFFFF,
            reg::TXDCTL if control => self.set_transmit_thresholds(value),
            reg::SWSM if self.params.swsm => self.semaphore.write(value),
            // The EEPROM is not loaded again, because its contents cannot have changed.
            reg::CTRL_EXT => {
                if let Some(slot) = self.plain.at(offset) {
                    *slot = value & !ctrl_ext::EE_RST;
                }
            }
            _ => {
                if !self.filter.write(offset, value)
                    && let Some(slot) = self.plain.at(offset)
                {
                    *slot = value;
                }
            }
        }
    }

    /// The causes that this chip has (SDM 13.4.17).
    fn known_causes(&self) -> u32 {
        let chip = self.params.chip;
        if chip.is_pci_express() {
            // RXSEQ does not occur without fibre (82574 data sheet 10.2.4.1), but the public Linux driver
            // sets it through ICS, to test whether messages arrive.
            return CAUSES | express::CAUSES;
        }
        let late = if chip.has_txd_low() { 0 } else { cause::TXD_LOW | cause::SRPD };
        CAUSES & !late
    }

    /// PBA: the transmit part follows from the receive part (SDM 13.4.16).
    fn set_packet_buffer(&mut self, value: u32) {
        let whole = self.params.chip.packet_buffer_bytes() / 1024;
        // In units of 8 KB, on the 82574 of 1 KB (its reset value is 20).
        let units = if self.params.chip.is_pci_express() { 0x3F } else { 0x78 };
        let receive = (value & units).min(whole);
        self.packet_buffer = (whole - receive) << 16 | receive;
        self.rx.capacity = receive * 1024;
        self.tx.capacity = (whole - receive) * 1024;
    }

    /// CTRL.
    fn set_control<H: Host>(&mut self, now: u64, value: u32, host: &mut H) {
        if value & ctrl::RST != 0 {
            self.reset(now);
            return;
        }
        let before = self.carrier();
        let was = self.ctrl;
        self.ctrl = value & !(ctrl::RST | ctrl::PHY_RST);
        if value & ctrl::PHY_RST != 0 {
            self.reset_phy(now);
        }
        self.move_mdio_pins(now, was, self.ctrl);
        self.set_mac_mode();
        self.link_evaluate(now, was & ctrl::LRST != 0 && value & ctrl::LRST == 0);
        self.carrier_changed(now, before);
        self.wire_start(now, host);
    }

    /// RCTL.RST of the 82542: resets the receiver; the filters keep their contents.
    fn reset_receiver(&mut self) {
        let lost = self.rx.fifo.clear();
        self.tally.dropped.reset += lost;
        self.tally.in_fifo -= lost;
        self.rx.transfer = None;
        self.deadlines.clear(Source::RxData);
        self.deadlines.clear(Source::RxEngine);
        self.set_receive_ring(|q| q.set_head(q.written_index()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_82542_has_every_register_at_its_own_place() {
        for offset in (0..0x1_0000).step_by(4) {
            let there = Chip::I82542.offset(offset);
            if there != offset {
                assert_eq!(canonical(Chip::I82542, there), Some(offset), "{offset:#x}");
                assert_eq!(canonical(Chip::I82542, offset), None, "{offset:#x}");
            }
            assert_eq!(canonical(Chip::I82546eb, offset), Some(offset));
        }
    }
}
