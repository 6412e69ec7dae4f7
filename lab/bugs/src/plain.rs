//! Queues written for this guest, as a hobby kernel has them: one buffer for each descriptor, and frames are
//! copied. Most bugs are planted here. Without one, they do what the manual says.

use crate::bugs::{Mode, Plant};
use crate::memory::Shared;
use crate::run::Queues;
use crate::shim::Shim;
use core::sync::atomic::{Ordering, fence};
use kpps_datasheet::{
    bit::{rctl, tctl},
    desc::{self, RxWriteback, TxLegacy, rx_error, rx_status, tx_cmd},
    reg,
};
use kpps_driver::Progress;
use kpps_platform::{DmaMemory, Registers};

/// Descriptors of a ring.
const DESCRIPTORS: usize = 64;
/// Bytes of a buffer: the size that RCTL.BSIZE has after a reset.
const BUFFER_BYTES: usize = 2048;
/// The most transmit descriptors that an answer takes.
const ANSWER_DESCRIPTORS: usize = 2;
/// The shortest frame without FCS.
const SHORTEST: usize = 60;
/// A length that no descriptor may have.
const TOO_LONG: u16 = 16_384;
/// The longest frame without a VLAN tag, without FCS.
const LONGEST: usize = 1514;

/// Where things are in the shared memory: two rings, two more for a second initialisation, buffers.
const RX_RING: usize = 0;
const TX_RING: usize = 0x1000;
const SECOND: usize = 0x2000;
const RX_BUFFERS: usize = 0x4000;
const TX_BUFFERS: usize = RX_BUFFERS + DESCRIPTORS * BUFFER_BYTES;
/// Behind the last buffer lies memory as long as the longest descriptor.
const BYTES: usize = TX_BUFFERS + DESCRIPTORS * BUFFER_BYTES + TOO_LONG as usize;

/// The two queues.
pub struct Plain {
    regs: Shim,
    mode: Mode,
    memory: Shared,
    /// Where the rings begin, and the number of their descriptors.
    rx_ring: usize,
    rx_size: usize,
    tx_ring: usize,
    tx_size: usize,
    /// The receive descriptor to take next.
    rx_next: usize,
    /// The transmit descriptor to write next, the oldest that is not known to be done, and TDT.
    tx_next: usize,
    tx_oldest: usize,
    tx_tail: usize,
    /// Frames that the card has reported.
    reported: u32,
    /// The rest of a frame that began in another descriptor is passed over.
    passing_over: bool,
    /// A copy has overwritten the state of the queues.
    destroyed: bool,
    frame: [u8; BUFFER_BYTES],
}

impl Plain {
    /// The queues, on the card that the driver of kpps has started without rings.
    pub fn start(regs: Shim, mode: Mode) -> Self {
        let mut this = Self {
            regs,
            mode,
            memory: Shared::allocate(BYTES, 4096),
            rx_ring: RX_RING + if mode.has(Plant::RingUnaligned) { 8 } else { 0 },
            rx_size: match mode.plant {
                Some(Plant::RingOfOne) => 1,
                Some(Plant::RingOfFour) => 4,
                _ => DESCRIPTORS,
            },
            tx_ring: TX_RING,
            tx_size: match mode.plant {
                Some(Plant::RingOfFour) => 4,
                // So short that bursts of answers run over it.
                Some(Plant::TailPassesHead) => 8,
                _ => DESCRIPTORS,
            },
            rx_next: 0,
            tx_next: 0,
            tx_oldest: 0,
            tx_tail: 0,
            reported: 0,
            passing_over: false,
            destroyed: false,
            frame: [0; BUFFER_BYTES],
        };
        this.begin();
        this
    }

    /// Begins with empty queues, on a card that the driver of kpps has reset.
    pub fn begin(&mut self) {
        self.regs.release();
        self.empty();
        self.set_rings();
        self.regs.modify(reg::TCTL, 0, tctl::EN);
        self.regs.modify(reg::RCTL, 0, rctl::EN);
        self.give_all();
    }

    /// A second initialisation, without a reset.
    pub fn restart(&mut self) {
        (self.rx_ring, self.tx_ring) = (RX_RING + SECOND, TX_RING + SECOND);
        self.empty();
        self.set_rings();
        self.give_all();
    }

    fn empty(&mut self) {
        (self.rx_next, self.tx_next, self.tx_oldest, self.tx_tail) = (0, 0, 0, 0);
        self.passing_over = false;
    }

    /// How far the card has come with the frames to be sent, for a watchdog.
    pub fn progress(&mut self) -> Progress {
        self.room();
        Progress { reported: self.reported, waiting: self.tx_oldest != self.tx_next }
    }

    fn set_rings(&mut self) {
        for slot in 0..self.rx_size {
            self.write_rx(slot, desc::rx_read(self.rx_address(slot)));
        }
        let base = self.memory.bus();
        let (rx, tx) = (base + self.rx_ring as u64, base + self.tx_ring as u64);
        let bytes = |size: usize| (size * desc::BYTES) as u32;
        for (register, value) in [
            (reg::RDBAL, rx as u32),
            (reg::RDBAH, (rx >> 32) as u32),
            (reg::RDLEN, bytes(self.rx_size)),
            (reg::RDH, 0),
            (reg::RDT, 0),
            (reg::TDBAL, tx as u32),
            (reg::TDBAH, (tx >> 32) as u32),
            (reg::TDLEN, bytes(self.tx_size)),
            (reg::TDH, 0),
            (reg::TDT, 0),
        ] {
            self.regs.write(register, value);
        }
    }

    /// Gives the card all receive descriptors but the last, because RDT = RDH means none.
    fn give_all(&self) {
        let tail = match self.mode.plant {
            Some(Plant::TailEqualsHead) => 0,
            Some(Plant::TailBeyondRing | Plant::RingOfOne) => self.rx_size,
            _ => self.rx_size - 1,
        };
        fence(Ordering::Release);
        self.regs.write(reg::RDT, tail as u32);
    }

    /// Where the buffer of a receive descriptor is.
    fn rx_buffer(&self, slot: usize) -> usize {
        match self.mode.plant {
            Some(Plant::OneBuffer) => RX_BUFFERS,
            Some(Plant::BufferOverRing) if slot == 5 => self.rx_ring + self.rx_size * desc::BYTES / 2,
            Some(Plant::BufferTooShort) => RX_BUFFERS + slot * 1024,
            Some(Plant::EopIgnored) => RX_BUFFERS + slot * 256,
            _ => RX_BUFFERS + slot * BUFFER_BYTES,
        }
    }

    /// The address of that buffer, as the card gets it.
    fn rx_address(&self, slot: usize) -> u64 {
        let address = self.memory.bus() + self.rx_buffer(slot) as u64;
        if self.mode.has(Plant::DmaToNowhere) { address | 0xFFFF_8000_0000_0000 } else { address }
    }

    fn write_rx(&self, slot: usize, [first, second]: [u64; 2]) {
        let at = self.rx_ring + slot * desc::BYTES;
        self.memory.store(at, first);
        self.memory.store(at + 8, second);
    }

    fn rx_status(&self, slot: usize) -> RxWriteback {
        RxWriteback::unpack(self.memory.load(self.rx_ring + slot * desc::BYTES + 8))
    }

    /// Whether the card is done with the transmit descriptor `slot`.
    fn is_sent(&self, slot: usize) -> bool {
        self.memory.load(self.tx_ring + slot * desc::BYTES + 8) & desc::TX_DD != 0
    }

    /// Free transmit descriptors. One is left unused, because TDT = TDH means none to send.
    fn room(&mut self) -> usize {
        while self.tx_oldest != self.tx_next && self.is_sent(self.tx_oldest) {
            self.tx_oldest = (self.tx_oldest + 1) % self.tx_size;
            self.reported = self.reported.wrapping_add(1);
        }
        (self.tx_oldest + self.tx_size - self.tx_next - 1) % self.tx_size
    }

    /// Writes a transmit descriptor of `length` bytes from `buffer`; `false` if none is free.
    fn write_tx(&mut self, buffer: usize, length: u16) -> bool {
        if !self.mode.has(Plant::TailPassesHead) && self.room() == 0 {
            return false;
        }
        let next = (self.tx_next + 1) % self.tx_size;
        let command = |plant: Plant, bit: u8| if self.mode.has(plant) { 0 } else { bit };
        let words = TxLegacy {
            buffer: self.memory.bus() + buffer as u64,
            length,
            cmd: command(Plant::EopMissing, tx_cmd::EOP)
                | command(Plant::IfcsMissing, tx_cmd::IFCS)
                | command(Plant::NoRs, tx_cmd::RS),
            ..TxLegacy::default()
        }
        .pack();
        let at = self.tx_ring + self.tx_next * desc::BYTES;
        self.memory.store(at, words[0]);
        self.memory.store(at + 8, words[1]);
        self.tx_next = next;
        true
    }

    /// Puts a frame into the ring. Without room it is dropped.
    fn queue(&mut self, bytes: usize) {
        let padded = if self.mode.has(Plant::PspMissing) { bytes } else { bytes.max(SHORTEST) };
        if let Some(padding) = self.frame.get_mut(bytes..padded) {
            padding.fill(0);
        }
        if self.mode.has(Plant::LengthZero) && !self.write_tx(TX_BUFFERS, 0) {
            return;
        }
        let slot = if self.mode.has(Plant::BufferReused) { 0 } else { self.tx_next };
        let buffer = TX_BUFFERS + slot * BUFFER_BYTES;
        let length = if self.mode.has(Plant::LengthTooLong) { TOO_LONG } else { padded as u16 };
        let last = self.tx_next;
        // The buffer belongs to its descriptor, so it is free if the descriptor is.
        if self.write_tx(buffer, length) {
            self.memory.write(buffer, &self.frame[..padded]);
        }
        if self.mode.has(Plant::WaitWithoutEnd) {
            self.flush();
            while !self.is_sent(last) {
                core::hint::spin_loop();
            }
        }
    }

    /// Hands queued frames to the card.
    fn flush(&mut self) {
        if self.tx_tail != self.tx_next {
            self.tx_tail = self.tx_next;
            fence(Ordering::Release);
            self.regs.write(reg::TDT, self.tx_tail as u32);
        }
    }

    /// Copies the frame of receive descriptor `slot`; its length, if it is good.
    fn take(&mut self, slot: usize, status: RxWriteback) -> Option<usize> {
        // Pairs with the card's write of DD: the frame is in memory.
        fence(Ordering::Acquire);
        let bytes = usize::from(status.length).min(BUFFER_BYTES);
        let ends = status.status & rx_status::EOP != 0;
        if !self.mode.has(Plant::EopIgnored) && (core::mem::replace(&mut self.passing_over, !ends) || !ends) {
            return None;
        }
        if status.errors & rx_error::FRAME != 0 && !self.mode.has(Plant::BadFramesTaken) {
            return None;
        }
        self.destroyed |= self.mode.has(Plant::CopyTooLong) && bytes > LONGEST;
        let buffer = self.rx_buffer(slot);
        self.memory.read(buffer, &mut self.frame[..bytes]);
        Some(bytes)
    }
}

impl Queues for Plain {
    fn send(&mut self, frame: &[u8]) {
        self.frame[..frame.len()].copy_from_slice(frame);
        self.queue(frame.len());
        self.flush();
    }

    fn poll(
        &mut self,
        most: usize,
        interrupted: bool,
        answer: &mut dyn FnMut(&mut [u8], usize) -> Option<usize>,
    ) -> usize {
        let most = match self.mode.plant {
            Some(Plant::DdNotChecked) => usize::from(interrupted),
            _ => most,
        };
        let head = match self.mode.plant {
            Some(Plant::HeadForDd) => Some(self.regs.read(reg::RDH) as usize),
            _ => None,
        };
        let mut taken = 0;
        while taken < most && !self.destroyed {
            // A received frame waits until its answer has room.
            let waits = !matches!(self.mode.plant, Some(Plant::NoRs | Plant::TailPassesHead));
            if waits && self.room() < ANSWER_DESCRIPTORS {
                break;
            }
            let slot = self.rx_next;
            let status = self.rx_status(slot);
            let done = match head {
                _ if self.mode.has(Plant::DdNotChecked) => true,
                Some(head) => slot != head,
                None => status.status & rx_status::DD != 0,
            };
            if !done {
                break;
            }
            taken += 1;
            if let Some(bytes) = self.take(slot, status)
                && let Some(length) = answer(&mut self.frame, bytes)
            {
                self.queue(length);
            }
            if !self.mode.has(Plant::DdNotCleared) {
                self.write_rx(slot, desc::rx_read(self.rx_address(slot)));
            }
            self.rx_next = (slot + 1) % self.rx_size;
        }
        if taken > 0 && !self.mode.has(Plant::TailNeverMoved) {
            let tail = match self.mode.plant {
                Some(Plant::RingOfOne) => self.rx_size,
                _ => (self.rx_next + self.rx_size - 1) % self.rx_size,
            };
            fence(Ordering::Release);
            self.regs.write(reg::RDT, tail as u32);
        }
        self.flush();
        taken
    }
}
