//! A card without hardware, for examples and for unit tests of software on the driver (feature `fake`).
//!
//! A [`Card`] has the parts of an 82540EM that [`probe`](crate::probe) and the two rings need: reset, EEPROM,
//! PHY, interrupt causes, descriptors. It has no timing, filters, offloads, errors or statistics. The crate
//! `kpps-card` is a model of the whole card.
//!
//! ```
//! use kpps_driver::fake::Card;
//! use kpps_driver::{Config, probe};
//! use kpps_platform::{Buffer, BufferSource};
//!
//! let card = Card::new()?;
//! let mut pool = card.memory().pool(600, 2048, None)?;
//! let mut device = probe(card.platform(), Card::CHIP, Config::kpps(), pool.clone())?;
//!
//! let mut buffer = pool.take().ok_or("no buffer is left")?;
//! buffer.bytes_mut()[..60].fill(0xff);
//! device.tx.send(buffer, 60).map_err(|refused| format!("{:?}", refused.reason))?;
//! device.tx.flush();
//! assert_eq!(card.collect(), Some(vec![0xff; 60]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::Chip;
use alloc::vec;
use alloc::vec::Vec;
use kpps_datasheet::{
    bit::{cause, ctrl, eerd, mdic, rctl, status},
    desc::{self, RxWriteback, Tx, rx_status, tx_cmd},
    eeprom, mii, reg,
};
use kpps_platform::{fake::Fake, memory::Memory, wrap::Access};
use std::io;

/// The identifier of the PHY, which the driver only compares with 0 and with all ones (registers 2 and 3).
const PHY_ID: [u16; 2] = [0x0141, 0x0C30];
/// The longest received frame in bytes without FCS: a tagged one. It fits into each size of buffer from 2048
/// bytes on.
const LONGEST_BYTES: usize = 1518;

/// A card without hardware. Clones are handles of the same card, for one thread.
#[derive(Clone)]
pub struct Card(Fake);

impl Card {
    /// The chip.
    pub const CHIP: Chip = Chip::I82540em;
    /// The station address in the EEPROM.
    pub const ADDRESS: [u8; 6] = [0x02, 0, 0, 0, 0, 1];

    /// A card whose link is up.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub fn new() -> io::Result<Self> {
        let fake = Fake::with_device(device)?;
        fake.set_register(reg::STATUS, status::FD | status::LU | status::SPEED_1000);
        Ok(Self(fake))
    }

    /// The platform for the driver.
    pub fn platform(&self) -> Fake {
        self.0.clone()
    }

    /// The memory that the card sees, from which packet buffers come.
    pub fn memory(&self) -> &Memory {
        self.0.memory()
    }

    /// Receives `frame`, without FCS, into the next buffer of the receive ring, which must have 2048 bytes or
    /// more. Returns `false` if the card owns no descriptor (a receive overflow), or if the frame has more
    /// than 1518 bytes. The card has stored the frame when this returns.
    pub fn inject(&self, frame: &[u8]) -> bool {
        let Some((at, [buffer, _])) = self.next(Ring::RECEIVE) else { return false };
        if frame.len() > LONGEST_BYTES {
            return false;
        }
        let strips = self.0.register(reg::RCTL) & rctl::SECRC != 0;
        let fcs: &[u8] = if strips { &[] } else { &[0; 4] };
        let stored = [frame, fcs].concat();
        let written = RxWriteback {
            length: stored.len() as u16,
            status: rx_status::DD | rx_status::EOP,
            ..RxWriteback::default()
        };
        let is_written = self.memory().device_write(buffer, &stored)
            && self.memory().device_write(at + 8, &written.pack().to_le_bytes());
        self.advance(Ring::RECEIVE, cause::RXT0);
        is_written
    }

    /// The next frame that the driver sent, without FCS, once its doorbell has been rung.
    pub fn collect(&self) -> Option<Vec<u8>> {
        let mut frame = Vec::new();
        loop {
            let (at, words) = self.next(Ring::TRANSMIT)?;
            let (buffer, bytes, command) = match Tx::unpack(words).ok()? {
                Tx::Legacy(it) => (it.buffer, it.length.into(), it.cmd),
                Tx::Data(it) => (it.buffer, it.length as usize, it.cmd),
                Tx::Context(it) => (0, 0, it.cmd & !tx_cmd::EOP),
            };
            let mut part = vec![0; bytes];
            self.memory().device_read(buffer, &mut part);
            frame.append(&mut part);
            if words[1] & desc::TX_RS != 0 {
                self.memory().device_write(at + 8, &(words[1] | desc::TX_DD).to_le_bytes());
            }
            self.advance(Ring::TRANSMIT, cause::TXDW);
            if command & tx_cmd::EOP != 0 {
                return Some(frame);
            }
        }
    }

    /// The descriptor at the ring's head, if the card owns it: its bus address and its words.
    fn next(&self, ring: Ring) -> Option<(u64, [u64; 2])> {
        let head = self.0.register(ring.head);
        if head == self.0.register(ring.tail) {
            return None;
        }
        let base = u64::from(self.0.register(ring.base + 4)) << 32 | u64::from(self.0.register(ring.base));
        let at = base + u64::from(head) * desc::BYTES as u64;
        let word = |at| {
            let mut bytes = [0; 8];
            self.memory().device_read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
        };
        Some((at, [word(at)?, word(at + 8)?]))
    }

    /// Moves the ring's head by one descriptor, and notes why there is an interrupt.
    fn advance(&self, ring: Ring, cause: u32) {
        let descriptors = self.0.register(ring.bytes) / desc::BYTES as u32;
        self.0.set_register(ring.head, (self.0.register(ring.head) + 1) % descriptors.max(1));
        self.0.set_register(reg::ICR, self.0.register(reg::ICR) | cause);
    }
}

/// The registers of a ring.
#[derive(Clone, Copy)]
struct Ring {
    base: u32,
    bytes: u32,
    head: u32,
    tail: u32,
}

impl Ring {
    const RECEIVE: Self = Self { base: reg::RDBAL, bytes: reg::RDLEN, head: reg::RDH, tail: reg::RDT };
    const TRANSMIT: Self = Self { base: reg::TDBAL, bytes: reg::TDLEN, head: reg::TDH, tail: reg::TDT };
}

/// The action of the card at a register access.
fn device(fake: &Fake, access: Access) -> u32 {
    match access {
        // A reset ends at once (SDM 13.4.1).
        Access::Write { offset: reg::CTRL, value } => value & !ctrl::RST,
        Access::Write { offset: reg::EERD, value } => {
            let image = eeprom::image(Card::ADDRESS);
            let word = image[(value >> eerd::ADDR_SHIFT) as usize % image.len()];
            u32::from(word) << eerd::DATA_SHIFT | value & 0xFF00 | eerd::DONE
        }
        Access::Write { offset: reg::MDIC, value } => {
            let data = match value >> mdic::REG_SHIFT & 31 {
                mii::ID1 => PHY_ID[0],
                mii::ID2 => PHY_ID[1],
                _ => 0,
            };
            value & 0xFFFF_0000 | u32::from(data) | mdic::READY
        }
        // A read clears it (SDM 13.4.17).
        Access::Read { offset: reg::ICR, value } => {
            fake.set_register(reg::ICR, 0);
            value
        }
        Access::Read { value, .. } | Access::Write { value, .. } => value,
    }
}
