//! A rate-limited NIC with its driver, as an operating-system stack sees it: the plain BSD driver of its
//! time.
//!
//! The model knows such a card by its rates only: the time that it takes for each frame.

use crate::device::e1000::{Frame, set_aside};
use kpps_card::rate_limited::{cause, descriptor, reg};
use kpps_host::cpu::Lock;
use kpps_host::platform::{Allocator, Buf, Card, Ring};
use kpps_host::stack::{IntoBuffer, Netdev, NextPoll, Polled, Raised, Service};
use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use std::cell::RefCell;
use std::sync::atomic::Ordering;

/// The driver's choices.
#[derive(Clone, Debug)]
pub struct Config {
    /// Descriptors in the transmit ring; all but one can be in use.
    pub tx_ring: u32,
    /// Descriptors in the receive ring; all but one are the card's.
    pub rx_ring: u32,
    /// One frame of this number requests an interrupt when it has been sent. 0: as many as leave
    /// `tx_watermark` frames in a full ring.
    pub tx_interrupt_every: u32,
    /// Frames left in a full transmit ring when its interrupt comes, if `tx_interrupt_every` is 0.
    pub tx_watermark: u32,
    /// The delay of interrupts, in the driver's unit of microseconds, which may be off; 0: none.
    pub moderation_us: u32,
    /// Ticks of the card's timer that the driver takes for one microsecond.
    pub ticks_per_us: u32,
    /// Frames, sent and received, after which a delayed interrupt comes early; 0: never.
    pub moderation_frames: [u32; 2],
    /// No interrupts: polling(4) serves the card.
    pub polling: bool,
    /// Frames that a poll takes from a queue (NAPI).
    pub weight: u32,
    /// Frames of a poll after which the ring is refilled (NAPI); 0: when the poll ends.
    pub refill_every: u32,
    /// Bytes of a separate buffer for headers; 0: they stay with the rest of the frame. With NAPI only.
    pub header_bytes: u32,
}

impl Config {
    /// Checks the constants; the error names the one out of range.
    pub fn check(&self) -> Result<(), String> {
        kpps_host::limits::check(&[
            ("tx_ring", self.tx_ring, 2..=4096),
            ("rx_ring", self.rx_ring, 2..=4096),
            ("tx_interrupt_every", self.tx_interrupt_every, 0..=self.tx_ring - 1),
            ("tx_watermark", self.tx_watermark, 0..=self.tx_ring - 2),
            ("moderation_us", self.moderation_us, 0..=100_000),
            ("ticks_per_us", self.ticks_per_us, 1..=1000),
            ("weight", self.weight, 1..=4096),
            ("refill_every", self.refill_every, 0..=4096),
            ("header_bytes", self.header_bytes, 0..=1024),
        ])
    }

    fn interrupt_every(&self) -> u32 {
        if self.tx_interrupt_every > 0 {
            self.tx_interrupt_every
        } else {
            self.tx_ring - 1 - self.tx_watermark
        }
    }
}

/// A ring as its driver keeps it.
pub(crate) struct Queue {
    memory: Ring,
    /// The buffer of each descriptor.
    buffers: Vec<Option<Buf>>,
    /// The next descriptor to fill, and the oldest descriptor that the card owns.
    next: usize,
    oldest: usize,
    filled: usize,
}

impl Queue {
    /// A ring of `size` descriptors, whose address and size go into these registers of the card.
    pub fn new(card: &Card, size: u32, base: u32, size_register: u32) -> Result<Self, OutOfMemory> {
        let bytes = size as usize * descriptor::BYTES;
        let spec = DmaSpec { bytes, align: 128, boundary: None, max_address: u32::MAX.into() };
        let memory = card.allocate(spec)?;
        card.write(base, memory.bus() as u32);
        card.write(size_register, size);
        let buffers = (0..size).map(|_| None).collect();
        Ok(Self { memory, buffers, next: 0, oldest: 0, filled: 0 })
    }

    fn free(&self) -> usize {
        self.buffers.len() - 1 - self.filled
    }

    fn after(&self, index: usize) -> usize {
        if index + 1 == self.buffers.len() { 0 } else { index + 1 }
    }

    /// Gives the card a buffer.
    pub fn fill(&mut self, buffer: Buf, word: u64) {
        let words = self.memory.words();
        words[2 * self.next].store(buffer.bus(), Ordering::Relaxed);
        words[2 * self.next + 1].store(word, Ordering::Release);
        let at = self.next * descriptor::BYTES;
        self.memory.sync_for_device(at..at + descriptor::BYTES);
        self.buffers[self.next] = Some(buffer);
        self.next = self.after(self.next);
        self.filled += 1;
    }

    /// Fills a receive ring, and writes its `tail` if there was anything to fill.
    pub fn refill(&mut self, source: &Allocator, card: &Card, tail: u32) {
        let mut filled = false;
        while self.free() > 0 {
            let Some(buffer) = source.clone().take() else { break };
            let length = (buffer.capacity() as u64).min(descriptor::LENGTH);
            self.fill(buffer, length);
            filled = true;
        }
        if filled {
            card.write(tail, self.next as u32);
        }
    }

    /// The descriptor that is to be taken next.
    pub fn oldest(&self) -> usize {
        self.oldest
    }

    /// The oldest buffer if the card is done with it, and its descriptor's second word.
    pub fn take(&mut self) -> Option<(Buf, u64)> {
        if self.filled == 0 {
            return None;
        }
        let at = self.oldest * descriptor::BYTES;
        self.memory.sync_for_cpu(at..at + descriptor::BYTES);
        let word = self.memory.words()[2 * self.oldest + 1].load(Ordering::Acquire);
        if word & descriptor::DONE == 0 {
            return None;
        }
        let buffer = self.buffers[self.oldest].take()?;
        self.oldest = self.after(self.oldest);
        self.filled -= 1;
        Some((buffer, word))
    }
}

struct Transmit {
    queue: Queue,
    /// Frames since one requested an interrupt.
    since_interrupt: u32,
    /// The tail is still to be written.
    unflushed: bool,
}

/// Driver and card.
pub(crate) struct RateLimitedDevice {
    card: Card,
    config: Config,
    /// Its user holds it with interrupts off: their handler takes frames back.
    tx: Lock<Transmit>,
    rx: RefCell<Queue>,
    source: Allocator,
}

impl RateLimitedDevice {
    /// Sets the card up.
    pub fn attach(card: Card, config: &Config, source: Allocator) -> Result<Self, OutOfMemory> {
        let tx = Queue::new(&card, config.tx_ring, reg::TX_BASE, reg::TX_SIZE)?;
        let rx = Queue::new(&card, config.rx_ring, reg::RX_BASE, reg::RX_SIZE)?;
        let ring_lines = card.machine().host().ring_lines;
        let ticks = config.moderation_us * config.ticks_per_us;
        for (register, value) in [
            (reg::TX_DELAY, ticks),
            (reg::RX_DELAY, ticks),
            (reg::TX_FRAMES, config.moderation_frames[0]),
            (reg::RX_FRAMES, config.moderation_frames[1]),
        ] {
            card.write(register, value);
        }
        let device = Self {
            config: config.clone(),
            tx: Lock::new(Transmit { queue: tx, since_interrupt: 0, unflushed: false }, ring_lines),
            rx: RefCell::new(rx),
            source,
            card,
        };
        device.refill();
        if !config.polling {
            device.card.write(reg::MASK, cause::SENT | cause::RECEIVED);
        }
        Ok(device)
    }

    /// Where it is to be served.
    pub fn service(&self) -> Service {
        let burst = self.config.rx_ring as usize;
        if self.config.polling { Service::Polling { burst } } else { Service::Interrupt }
    }

    /// Takes empty frames at no cost, before the machine is started.
    pub fn set_aside(&self, frames: usize) -> Vec<Frame> {
        set_aside(&self.source, frames)
    }

    /// Transmit descriptors in use; `None` while the driver is at them.
    pub fn pending(&self) -> Option<usize> {
        self.tx.peek(|tx| tx.queue.filled)
    }

    /// Fills the receive ring and writes its tail.
    fn refill(&self) {
        self.rx.borrow_mut().refill(&self.source, &self.card, reg::RX_TAIL);
    }

    /// Takes back the buffers of frames that have been sent.
    fn reclaim(&self) -> usize {
        let mut count = 0;
        while let Some((buffer, _)) = self.tx.with(self.card.machine(), |tx| tx.queue.take()) {
            self.source.clone().give(buffer);
            count += 1;
        }
        count
    }

    fn receive(&self, budget: usize, up: &mut dyn FnMut(Frame) -> Option<Buf>) -> usize {
        let mut count = 0;
        while count < budget {
            let Some((buffer, word)) = self.rx.borrow_mut().take() else { break };
            let bytes = (word & descriptor::LENGTH) as u16;
            buffer.sync_for_cpu(bytes.into());
            if let Some(buffer) = up(Frame::made(buffer, bytes)) {
                self.source.clone().give(buffer);
            }
            count += 1;
        }
        if count > 0 {
            self.refill();
        }
        count
    }
}

impl Netdev for RateLimitedDevice {
    type Frame = Frame;
    type Buffer = Buf;

    fn interrupt(&self, up: &mut dyn FnMut(Frame) -> Option<Buf>) -> Raised {
        let causes = self.card.read(reg::CAUSE);
        if causes & cause::RECEIVED != 0 {
            self.receive(usize::MAX, up);
        }
        if causes & cause::SENT != 0 {
            self.reclaim();
        }
        Raised::Nothing
    }

    fn poll(&self, budget: usize, up: &mut dyn FnMut(Frame) -> Option<Buf>) -> Polled {
        let frames = self.receive(budget, up);
        Polled { frames, completed: self.reclaim(), next: NextPoll::Now }
    }

    fn has_tx_space(&self) -> bool {
        self.tx.peek(|tx| tx.queue.free()).unwrap_or_default() > 0
    }

    fn send(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> bool {
        let Some(frame) = self.make(fill) else { return false };
        match self.forward(frame) {
            Ok(()) => true,
            Err(frame) => {
                self.free(frame.into_buffer());
                false
            }
        }
    }

    fn forward(&self, frame: Frame) -> Result<(), Frame> {
        self.tx.with(self.card.machine(), |tx| {
            if tx.queue.free() == 0 {
                return Err(frame);
            }
            let (buffer, bytes) = frame.into_parts();
            tx.since_interrupt += 1;
            let interrupts = tx.since_interrupt >= self.config.interrupt_every();
            if interrupts {
                tx.since_interrupt = 0;
            }
            tx.queue.fill(buffer, u64::from(bytes) | if interrupts { descriptor::INTERRUPT } else { 0 });
            tx.unflushed = true;
            Ok(())
        })
    }

    fn make(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<Frame> {
        let mut buffer = self.source.clone().take()?;
        let bytes = fill(buffer.bytes_mut());
        Some(Frame::made(buffer, bytes as u16))
    }

    fn check_status(&self) {
        self.card.read(reg::CAUSE);
    }

    fn flush(&self) {
        self.tx.with(self.card.machine(), |tx| {
            if std::mem::take(&mut tx.unflushed) {
                self.card.write(reg::TX_TAIL, tx.queue.next as u32);
            }
        });
    }

    fn tick(&self) {}

    fn free(&self, buffer: Buf) {
        self.source.clone().give(buffer);
    }
}
