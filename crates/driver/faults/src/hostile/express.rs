//! A stand-in for the 82574L: registers that answer as during a start, and rings in all three descriptor
//! formats that are served at once. The model has neither the third format nor two queues. This is no model:
//! it has no timing, no filters, no interrupts.

use kpps_card::Host;
use kpps_datasheet::bit::{ctrl, eecd, eerd, mdic, rctl, status, tctl};
use kpps_datasheet::desc::{self, RxWriteback, extended, rx_status};
use kpps_datasheet::{eeprom, express, mii, reg, stat};
use std::collections::BTreeMap;

/// The queues of the chip.
const QUEUES: usize = 2;

/// The card.
pub(super) struct Express {
    registers: BTreeMap<u32, u32>,
    eeprom: [u16; eeprom::SUMMED_WORDS],
    /// The number of frames that arrived from the wire, modulo 2³²: it chooses the queue.
    arrived: u32,
}

impl Express {
    pub(super) fn new(address: [u8; 6]) -> Self {
        Self { registers: BTreeMap::new(), eeprom: eeprom::image(address), arrived: 0 }
    }

    fn get(&self, offset: u32) -> u32 {
        self.registers.get(&offset).copied().unwrap_or(0)
    }

    fn set(&mut self, offset: u32, value: u32) {
        self.registers.insert(offset, value);
    }

    pub(super) fn read(&mut self, offset: u32) -> u32 {
        let value = self.get(offset);
        match offset {
            reg::STATUS => {
                let allowed = self.get(reg::CTRL) & express::ctrl::MASTER_DISABLE == 0;
                let master = if allowed { express::status::MASTER_ENABLE } else { 0 };
                status::FD | status::LU | status::SPEED_1000 | master
            }
            reg::EECD => value & !eecd::DO | express::eecd::AUTO_RD,
            reg::ICR => std::mem::take(self.registers.entry(offset).or_default()),
            _ if stat::index(offset).is_some() => std::mem::take(self.registers.entry(offset).or_default()),
            _ => value,
        }
    }

    pub(super) fn write(&mut self, offset: u32, value: u32, host: &mut impl Host) {
        let value = match offset {
            reg::CTRL if value & ctrl::RST != 0 => {
                self.registers.clear();
                0
            }
            reg::EERD => {
                let word = self.eeprom[(value >> express::eerd::ADDR_SHIFT) as usize % self.eeprom.len()];
                u32::from(word) << eerd::DATA_SHIFT | value & 0xFFFC | express::eerd::DONE
            }
            reg::MDIC => {
                // A PHY that always has the same to say.
                let answer = match value >> mdic::REG_SHIFT & 31 {
                    mii::ID1 => 0x0141,
                    mii::ID2 => 0x0CB1,
                    _ => value & 0xFFFF,
                };
                value & 0xFFFF_0000 | answer | mdic::READY
            }
            reg::ICR => self.get(offset) & !value,
            reg::ICS => {
                self.set(reg::ICR, self.get(reg::ICR) | value);
                value
            }
            reg::IMS => self.get(offset) | value,
            reg::IMC => {
                self.set(reg::IMS, self.get(reg::IMS) & !value);
                value
            }
            _ => value,
        };
        self.set(offset, value);
        for queue in 0..QUEUES as u8 {
            if offset == reg::of_queue(reg::TDT, queue) || offset == reg::TCTL {
                self.send(queue, host);
            }
        }
    }

    /// Base, size in units of 16 bytes, head and tail of a ring; `None` without one.
    fn ring(&self, [low, high, length, head, tail]: [u32; 5], queue: u8) -> Option<(u64, u32, u32, u32)> {
        let get = |register| self.get(reg::of_queue(register, queue));
        let base = u64::from(get(low)) | u64::from(get(high)) << 32;
        let size = (get(length) & 0xF_FF80) / desc::BYTES as u32;
        let (head, tail) = (get(head), get(tail));
        (head != tail && head < size && tail < size).then_some((base, size, head, tail))
    }

    /// Reports every descriptor up to the tail that asks for it.
    fn send(&mut self, queue: u8, host: &mut impl Host) {
        let registers = [reg::TDBAL, reg::TDBAH, reg::TDLEN, reg::TDH, reg::TDT];
        if self.get(reg::TCTL) & tctl::EN == 0 {
            return;
        }
        while let Some((base, size, head, _)) = self.ring(registers, queue) {
            let (at, mut word) = (base.wrapping_add(16 * u64::from(head) + 8), [0; 8]);
            if host.load(at, &mut word) {
                let word = u64::from_le_bytes(word);
                if word & desc::TX_RS != 0 {
                    host.store(at, &(word | desc::TX_DD).to_le_bytes());
                }
            }
            self.set(reg::of_queue(reg::TDH, queue), (head + 1) % size);
            self.set(reg::ICR, self.get(reg::ICR) | express::cause::transmit(queue));
        }
    }

    /// A frame comes in. It fills as many buffers as it needs, in the format that the driver chose.
    pub(super) fn frame_arrives(&mut self, frame: &[u8], host: &mut impl Host) {
        let registers = [reg::RDBAL, reg::RDBAH, reg::RDLEN, reg::RDH, reg::RDT];
        self.arrived = self.arrived.wrapping_add(1);
        let several = self.get(reg::MRQC) & express::mrqc::RSS != 0;
        let queue = if several { (self.arrived & 1) as u8 } else { 0 };
        let receive = self.get(reg::RCTL);
        if receive & rctl::EN == 0 {
            return;
        }
        let extended = self.get(reg::RFCTL) & express::rfctl::EXSTEN != 0;
        let split = extended && receive & express::rctl::DTYP_SPLIT != 0;
        let sizes = if split {
            let sizes = self.get(reg::PSRCTL);
            [(sizes & 0x7F) * express::psrctl::HEADER_UNIT, (sizes >> 8 & 0x3F) * express::psrctl::DATA_UNIT]
        } else {
            [rctl::buffer_bytes(receive).unwrap_or(0), 0]
        };
        let (mut left, mut first) = (frame, true);
        while !left.is_empty() || first {
            let Some((base, size, head, _)) = self.ring(registers, queue) else { return };
            let at = base.wrapping_add(16 * u64::from(head));
            let mut words = [0; 16];
            host.load(at, &mut words);
            let mut lengths = [0; 2];
            for ((length, most), word) in lengths.iter_mut().zip(sizes).zip(words.as_chunks::<8>().0) {
                let bytes = left.len().min(most as usize);
                host.store(u64::from_le_bytes(*word), &left[..bytes]);
                (*length, left) = (bytes as u16, &left[bytes..]);
            }
            first = false;
            let end = if left.is_empty() { rx_status::EOP } else { 0 };
            let (status, length) = (rx_status::DD | end, lengths[0]);
            let units = if split { 2 } else { 1 };
            if split {
                let third = extended::SplitStatus { header: None, lengths: [lengths[1], 0, 0] };
                host.store(at.wrapping_add(16), &third.pack().to_le_bytes());
            }
            if extended {
                let wb = extended::Writeback { status: status.into(), length, ..Default::default() };
                let [first, second] = wb.pack();
                host.store(at, &first.to_le_bytes());
                host.store(at.wrapping_add(8), &second.to_le_bytes());
            } else {
                let wb = RxWriteback { status, length, ..Default::default() };
                host.store(at.wrapping_add(8), &wb.pack().to_le_bytes());
            }
            self.set(reg::of_queue(reg::RDH, queue), (head + units) % size);
            self.set(reg::ICR, self.get(reg::ICR) | express::cause::receive(queue));
            if sizes == [0, 0] {
                return;
            }
        }
    }
}
