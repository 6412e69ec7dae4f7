//! A receive queue of a rate-limited NIC as a device of its own, so that each queue is polled on its own CPU:
//! this is how Linux 2.6 drives a card with several queues. It sends nothing.

use crate::device::e1000::Frame;
use crate::device::rate_limited::{Config, Queue};
use kpps_card::rate_limited::{cause, descriptor, reg, rss};
use kpps_driver::config::Rss;
use kpps_host::cpu::Function;
use kpps_host::platform::{Allocator, Buf, Card, Ring};
use kpps_host::stack::{Netdev, NextPoll, Polled, Raised, Service};
use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, OutOfMemory, Platform, Registers};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Sets up receive side scaling over `queues`: the driver's own key, and all queues in turn.
pub(crate) fn spread(card: &Card, queues: usize) {
    let words = |first: u32, bytes: &[u8]| {
        for (offset, word) in (first..).step_by(4).zip(bytes.chunks_exact(4)) {
            card.write(offset, u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        }
    };
    words(reg::RSS_KEY, &Rss::DEFAULT.key);
    let table: [u8; rss::ENTRIES] = std::array::from_fn(|entry| (entry % queues.max(1)) as u8);
    words(reg::RSS_TABLE, &table);
    card.write(reg::RSS, u32::from(queues > 1));
}

/// Buffers for headers, one for each descriptor, side by side.
struct Headers {
    memory: Ring,
    each: usize,
}

impl Headers {
    /// Joins a frame's header with the rest in its buffer, in no simulated time. On a real machine the two
    /// stay apart, and a packet structure points to both; here the sink reads the frame in one piece.
    fn join(&self, index: usize, header: usize, buffer: &mut Buf, bytes: usize) {
        let words = &self.memory.words()[index * self.each / 8..];
        let from =
            words.iter().flat_map(|word| word.load(std::sync::atomic::Ordering::Relaxed).to_le_bytes());
        let whole = buffer.bytes_mut();
        if bytes <= whole.len() {
            whole.copy_within(..bytes - header, header);
            whole[..header].iter_mut().zip(from).for_each(|(to, from)| *to = from);
        }
    }
}

/// A receive queue and its driver.
pub(crate) struct QueueDevice {
    card: Card,
    number: usize,
    /// The offset of its registers.
    registers: u32,
    weight: usize,
    refill_every: usize,
    rx: RefCell<Queue>,
    headers: Option<Headers>,
    source: Allocator,
    /// Cache lines fetched to read headers.
    header_misses: Rc<Cell<u64>>,
}

impl QueueDevice {
    /// Sets the queue `number` of the card up.
    pub fn attach(
        card: Card,
        number: usize,
        config: &Config,
        source: Allocator,
    ) -> Result<Self, OutOfMemory> {
        let registers = number as u32 * reg::QUEUE;
        let rx = Queue::new(&card, config.rx_ring, registers + reg::RX_BASE, registers + reg::RX_SIZE)?;
        let headers = match config.header_bytes.next_multiple_of(8) as usize {
            0 => None,
            each => {
                let bytes = each * config.rx_ring as usize;
                let spec = DmaSpec { bytes, align: 128, boundary: None, max_address: u32::MAX.into() };
                let memory = card.allocate(spec)?;
                card.write(registers + reg::RX_HEADERS, memory.bus() as u32);
                card.write(registers + reg::RX_HEADER_BYTES, each as u32);
                Some(Headers { memory, each })
            }
        };
        card.write(registers + reg::RX_DELAY, config.moderation_us * config.ticks_per_us);
        card.write(registers + reg::RX_FRAMES, config.moderation_frames[1]);
        card.write(registers + reg::AUTO, 1);
        let weight = config.weight as usize;
        let refill_every = if config.refill_every == 0 { usize::MAX } else { config.refill_every as usize };
        let device = Self {
            card,
            number,
            registers,
            weight,
            refill_every,
            rx: RefCell::new(rx),
            headers,
            source,
            header_misses: Rc::default(),
        };
        device.refill();
        device.unmask();
        Ok(device)
    }

    /// Where it is to be served.
    pub fn service(&self) -> Service {
        Service::Softirq { weight: self.weight }
    }

    /// The count of cache lines fetched to read headers: a handle.
    pub fn header_misses(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.header_misses)
    }

    fn refill(&self) {
        self.rx.borrow_mut().refill(&self.source, &self.card, self.registers + reg::RX_TAIL);
    }

    fn unmask(&self) {
        self.card.write(self.registers + reg::MASK, cause::RECEIVED);
    }

    /// The next frame. Its headers have been read.
    fn take(&self) -> Option<Frame> {
        let index = self.rx.borrow().oldest();
        let (mut buffer, word) = self.rx.borrow_mut().take()?;
        let bytes = (word & descriptor::LENGTH) as usize;
        let header = usize::from((word >> descriptor::HEADER_SHIFT) as u16).min(bytes);
        let machine = self.card.machine();
        let line = machine.memory().line_bytes();
        let (at, length) = match &self.headers {
            Some(headers) if header > 0 => {
                headers.join(index, header, &mut buffer, bytes);
                (headers.memory.bus() + (index * headers.each) as u64, header)
            }
            _ => (buffer.bus(), bytes),
        };
        // As with any driver, the headers are in the first line.
        machine.spend_on(Function::Frame, machine.host().frame_ps);
        let misses = machine.touch(Function::Frame, at, length.min(line));
        self.header_misses.set(self.header_misses.get() + u64::from(misses));
        Some(Frame::made(buffer, bytes as u16))
    }
}

impl Netdev for QueueDevice {
    type Frame = Frame;
    type Buffer = Buf;

    /// The interrupt masks itself.
    fn interrupt(&self, _up: &mut dyn FnMut(Frame) -> Option<Buf>) -> Raised {
        Raised::Poll
    }

    fn poll(&self, budget: usize, up: &mut dyn FnMut(Frame) -> Option<Buf>) -> Polled {
        // `taken`: since the ring was refilled.
        let (mut frames, mut taken) = (0, 0);
        while frames < budget {
            let Some(frame) = self.take() else { break };
            if let Some(buffer) = up(frame) {
                self.free(buffer);
            }
            frames += 1;
            taken += 1;
            if taken >= self.refill_every {
                self.refill();
                taken = 0;
            }
        }
        if taken > 0 {
            self.refill();
        }
        let next = if frames < budget {
            self.unmask();
            NextPoll::Interrupt
        } else {
            NextPoll::Now
        };
        Polled { frames, completed: 0, next }
    }

    fn has_tx_space(&self) -> bool {
        false
    }

    fn send(&self, _fill: &mut dyn FnMut(&mut [u8]) -> usize) -> bool {
        false
    }

    fn forward(&self, frame: Frame) -> Result<(), Frame> {
        Err(frame)
    }

    fn make(&self, _fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<Frame> {
        None
    }

    fn check_status(&self) {}

    fn flush(&self) {}

    fn tick(&self) {}

    fn free(&self, buffer: Buf) {
        self.source.clone().give(buffer);
    }

    fn vector(&self) -> usize {
        self.number
    }
}
