//! A rate-limited NIC model: rings, interrupt moderation, and a fixed time per frame.
//!
//! It is for cards without a public manual whose behaviour is documented. It has the few registers that a
//! driver needs, one descriptor format, and works on one frame at a time in each direction: descriptor, data,
//! its own work, status. A sent frame interrupts if its descriptor requests it.
//!
//! It may have several receive queues, each with its own interrupt. It distributes frames over them by the
//! hash of their flow (receive side scaling, [`rss`]), and may store headers in separate buffers.

mod queue;
pub mod rss;

use crate::{BurstKind, Host, Purpose};
use queue::{Held, NEVER, Queue, Ring};
use std::collections::VecDeque;

/// The most receive queues of a card.
pub const QUEUES: u32 = 16;

/// Registers, 32 bits each.
pub mod reg {
    /// The distance between the registers of two receive queues. Each queue has a cause, a mask and the
    /// registers `RX_…`; only the first has the others.
    pub const QUEUE: u32 = 0x400;
    /// The causes since the last read ([`cause`](super::cause)); reading clears them.
    pub const CAUSE: u32 = 0x00;
    /// The causes that assert the interrupt line.
    pub const MASK: u32 = 0x04;
    /// Not 0: a taken interrupt clears its cause and its mask, as MSI-X does.
    pub const AUTO: u32 = 0x08;
    /// Transmit ring: bus address of the first descriptor.
    pub const TX_BASE: u32 = 0x10;
    /// Transmit ring: its size in descriptors. Writing it empties the ring.
    pub const TX_SIZE: u32 = 0x14;
    /// Transmit ring: the first descriptor that the card does not own.
    pub const TX_TAIL: u32 = 0x18;
    /// The delay of a transmit interrupt, in ticks; 0: none.
    pub const TX_DELAY: u32 = 0x1c;
    /// The number of frames that end this delay; 0: no number does.
    pub const TX_FRAMES: u32 = 0x20;
    /// Receive ring, as [`TX_BASE`].
    pub const RX_BASE: u32 = 0x30;
    /// Receive ring, as [`TX_SIZE`].
    pub const RX_SIZE: u32 = 0x34;
    /// Receive ring, as [`TX_TAIL`].
    pub const RX_TAIL: u32 = 0x38;
    /// As [`TX_DELAY`].
    pub const RX_DELAY: u32 = 0x3c;
    /// As [`TX_FRAMES`].
    pub const RX_FRAMES: u32 = 0x40;
    /// The bus address of the header buffers, which lie one after another, one for each descriptor of the
    /// receive ring.
    pub const RX_HEADERS: u32 = 0x44;
    /// Bytes of a header buffer; 0: headers are not split off.
    pub const RX_HEADER_BYTES: u32 = 0x48;
    /// Not 0: frames are distributed over the receive queues. 0: all go to the first.
    pub const RSS: u32 = 0x80;
    /// The key of the hash, ten words; the first byte is the lowest of the first word.
    pub const RSS_KEY: u32 = 0x100;
    /// The queue for each value of the hash's low seven bits: four in a word, the first in the lowest byte.
    pub const RSS_TABLE: u32 = 0x180;
}

/// Bits of [`reg::CAUSE`] and [`reg::MASK`].
pub mod cause {
    /// Frames have been sent.
    pub const SENT: u32 = 1 << 0;
    /// Frames have been received.
    pub const RECEIVED: u32 = 1 << 1;
}

/// A descriptor: the address of the buffer in the first word, these bits in the second.
pub mod descriptor {
    /// Its size in bytes.
    pub const BYTES: usize = 16;
    /// Bytes of the frame without FCS.
    pub const LENGTH: u64 = 0xffff;
    /// Transmit: interrupt when this frame has been sent.
    pub const INTERRUPT: u64 = 1 << 16;
    /// The card is done with it.
    pub const DONE: u64 = 1 << 17;
    /// Receive: the position of the 16-bit length of a split header; the length is 0 if the header is not
    /// split off.
    pub const HEADER_SHIFT: u32 = 32;
}

/// How the timer that delays interrupts runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Timer {
    /// It runs all the time; events are reported when it next expires.
    FreeRunning,
    /// The first unreported frame starts it.
    FirstFrame,
}

/// The parameters of such a card.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub struct Params {
    /// The card's own work on a sent frame, without bus time, in ps.
    pub tx_engine_ps: u64,
    /// The card's own work on a received frame, without bus time, in ps.
    pub rx_engine_ps: u64,
    /// The size of the receive FIFO, in bytes.
    pub rx_fifo_bytes: u32,
    /// Receive queues, 1 to [`QUEUES`]. With several, a frame whose queue has no descriptor is dropped when
    /// its turn comes, because it would block the others.
    pub rx_queues: u32,
    /// The most receive descriptors in one fetch.
    pub rx_fetch: u32,
    /// A tick of the timer that delays interrupts, in ps.
    pub tick_ps: u64,
    /// How that timer runs.
    pub timer: Timer,
    /// The time of a byte on the wire, in ps: 8000 at 1 Gb/s.
    pub wire_byte_ps: u64,
}

/// The account of frames, and the transmitter's idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that left.
    pub transmitted: u64,
    /// Descriptors that could not be sent.
    pub tx_discarded: u64,
    /// Time with nothing to send and nothing on the wire, up to the last frame, in ps.
    pub tx_idle_ps: u64,
    /// Frames that arrived.
    pub arrived: u64,
    /// Of these, stored in memory.
    pub to_host: u64,
    /// Dropped although there were descriptors: the card or the bus was too slow.
    pub dropped_engine: u64,
    /// Dropped without descriptors: the driver was too slow.
    pub dropped_no_descriptor: u64,
    /// Dropped because the frame did not fit its buffer, or the buffer was outside memory.
    pub dropped_other: u64,
    /// In the FIFO now.
    pub in_fifo: u64,
    /// Time spent on received frames, waits for the bus included, in ps.
    pub rx_busy_ps: u64,
}

impl Tally {
    /// Whether every frame that arrived is in exactly one place.
    pub fn closes(&self) -> bool {
        let dropped = self.dropped_engine + self.dropped_no_descriptor + self.dropped_other;
        self.arrived == self.to_host + dropped + self.in_fifo
    }
}

/// The longest frame in bytes, without FCS.
const FRAME_BYTES: usize = 9018;
/// Preamble, FCS and gap.
const AROUND_BYTES: u64 = 24;
/// The shortest frame without FCS.
const LEAST_BYTES: u64 = 60;

/// The state of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    /// Starts the next frame.
    Start,
    /// Finishes the frame with this second descriptor word.
    Finish {
        word: u64,
        good: bool,
    },
}

/// A frame in the FIFO.
#[derive(Clone, Debug)]
struct Waiting {
    queue: usize,
    frame: Vec<u8>,
}

/// One port of such a card.
#[derive(Clone, Debug)]
pub struct RateLimitedNic {
    params: Params,
    tx: Ring,
    tx_step: Step,
    tx_at_ps: u64,
    tx_held: Held,
    tx_frame: Vec<u8>,
    /// When the wire is free, in ps.
    wire_free_ps: u64,
    queues: Vec<Queue>,
    /// The distribution of frames over the queues.
    spread: rss::Spread,
    rx_step: Step,
    rx_at_ps: u64,
    rx_began_ps: u64,
    fifo: VecDeque<Waiting>,
    fifo_bytes: u32,
    spare: Vec<Vec<u8>>,
    tally: Tally,
}

impl RateLimitedNic {
    /// A card in its state after reset.
    pub fn new(params: Params) -> Self {
        let queues = params.rx_queues.clamp(1, QUEUES) as usize;
        Self {
            params,
            tx: Ring::default(),
            tx_step: Step::Idle,
            tx_at_ps: NEVER,
            tx_held: Held::NONE,
            tx_frame: Vec::with_capacity(FRAME_BYTES),
            wire_free_ps: 0,
            queues: vec![Queue::NEW; queues],
            spread: rss::Spread::default(),
            rx_step: Step::Idle,
            rx_at_ps: NEVER,
            rx_began_ps: 0,
            fifo: VecDeque::new(),
            fifo_bytes: 0,
            spare: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// The account of frames.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// [`Tally::tx_idle_ps`] up to `now`.
    pub fn tx_idle_ps(&self, now: u64) -> u64 {
        let since = if self.tx_step == Step::Idle { now.saturating_sub(self.wire_free_ps) } else { 0 };
        self.tally.tx_idle_ps + since
    }

    /// The time of the next event, in ps.
    pub fn next_event_ps(&self) -> u64 {
        self.tx_at_ps.min(self.rx_at_ps).min(self.tx_held.due_ps).min(self.rx_held_due_ps())
    }

    /// When the next delayed interrupt of a receive queue is due, in ps.
    fn rx_held_due_ps(&self) -> u64 {
        self.queues.iter().map(|queue| queue.held.due_ps).min().unwrap_or(NEVER)
    }

    /// The time of the next descriptor write, in ps.
    pub fn next_write_back_ps(&self) -> u64 {
        let finish = |step, at| if matches!(step, Step::Finish { .. }) { at } else { NEVER };
        finish(self.tx_step, self.tx_at_ps).min(finish(self.rx_step, self.rx_at_ps))
    }

    /// Whether the interrupt of receive queue `number` is asserted; the first is also that of transmit.
    pub fn interrupt_line(&self, number: usize) -> bool {
        self.queues.get(number).is_some_and(|queue| queue.cause & queue.mask != 0)
    }

    /// Whether the interrupt of receive queue `number` can be asserted without another register write.
    pub fn interrupt_enabled(&self, number: usize) -> bool {
        self.queues.get(number).is_some_and(|queue| queue.mask != 0)
    }

    /// Whether any interrupt can be asserted without another register write.
    pub fn interrupts_enabled(&self) -> bool {
        self.queues.iter().any(|queue| queue.mask != 0)
    }

    /// The CPU takes the interrupt of the receive queue `number`.
    pub fn interrupt_taken(&mut self, number: usize) {
        if let Some(queue) = self.queues.get_mut(number).filter(|queue| queue.auto) {
            (queue.cause, queue.mask) = (0, 0);
        }
    }

    /// Whether `offset` is a ring's tail.
    pub fn is_tail(&self, offset: u32) -> bool {
        offset == reg::TX_TAIL || offset % reg::QUEUE == reg::RX_TAIL
    }

    /// The queue of a register, and the offset of that register in the first queue.
    fn queue_of(&mut self, offset: u32) -> Option<(&mut Queue, u32)> {
        Some((self.queues.get_mut((offset / reg::QUEUE) as usize)?, offset % reg::QUEUE))
    }

    /// The CPU reads a register.
    pub fn read(&mut self, offset: u32) -> u32 {
        if offset == reg::TX_TAIL {
            return self.tx.tail;
        }
        let Some((queue, register)) = self.queue_of(offset) else { return 0 };
        match register {
            reg::CAUSE => std::mem::take(&mut queue.cause),
            reg::MASK => queue.mask,
            reg::RX_TAIL => queue.ring.tail,
            _ => 0,
        }
    }

    /// The CPU writes a register at `now`.
    pub fn write(&mut self, now: u64, offset: u32, value: u32) {
        match offset {
            reg::TX_BASE => return self.tx.base = value.into(),
            reg::TX_SIZE => return self.tx.set_size(value),
            reg::TX_DELAY => return self.tx_held.delay = value,
            reg::TX_FRAMES => return self.tx_held.frames = value,
            reg::TX_TAIL => {
                self.tx.set_tail(value);
                if self.tx_step == Step::Idle && !self.tx.is_empty() {
                    self.tally.tx_idle_ps += now.saturating_sub(self.wire_free_ps);
                    (self.tx_step, self.tx_at_ps) = (Step::Start, now);
                }
                return;
            }
            reg::RSS => return self.spread.set(value != 0),
            _ if self.spread.write(offset, value) => return,
            _ => {}
        }
        let Some((queue, register)) = self.queue_of(offset) else { return };
        match register {
            reg::MASK => queue.mask = value,
            reg::AUTO => queue.auto = value != 0,
            reg::RX_BASE => queue.ring.base = value.into(),
            reg::RX_SIZE => {
                queue.ring.set_size(value);
                queue.fetched = 0;
            }
            reg::RX_DELAY => queue.held.delay = value,
            reg::RX_FRAMES => queue.held.frames = value,
            reg::RX_HEADERS => queue.headers = value.into(),
            reg::RX_HEADER_BYTES => queue.header_bytes = value,
            reg::RX_TAIL => {
                queue.ring.set_tail(value);
                self.take_up(now);
            }
            _ => {}
        }
    }

    /// A frame's last bit arrives.
    pub fn frame_arrives(&mut self, now: u64, frame: &[u8]) {
        self.tally.arrived += 1;
        let bytes = frame.len() as u32;
        let queue = self.spread.queue(frame) % self.queues.len();
        if frame.len() > FRAME_BYTES {
            self.tally.dropped_other += 1;
        } else if self.fifo_bytes + bytes > self.params.rx_fifo_bytes {
            let without = self.queues[queue].ring.is_empty() && self.rx_step == Step::Idle;
            *(if without {
                &mut self.tally.dropped_no_descriptor
            } else {
                &mut self.tally.dropped_engine
            }) += 1;
        } else {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(frame);
            self.fifo.push_back(Waiting { queue, frame: copy });
            self.fifo_bytes += bytes;
            self.tally.in_fifo += 1;
            self.take_up(now);
        }
    }

    /// Starts an idle receiver if there are a frame and a descriptor.
    fn take_up(&mut self, now: u64) {
        if self.rx_step != Step::Idle {
            return;
        }
        while let Some(Waiting { queue, .. }) = self.fifo.front() {
            if !self.queues[*queue].ring.is_empty() {
                (self.rx_step, self.rx_at_ps, self.rx_began_ps) = (Step::Start, now, now);
                return;
            }
            if self.queues.len() == 1 {
                return;
            }
            self.tally.dropped_no_descriptor += 1;
            self.forget_first();
        }
    }

    /// Removes the first frame from the FIFO.
    fn forget_first(&mut self) {
        if let Some(Waiting { frame, .. }) = self.fifo.pop_front() {
            self.fifo_bytes -= frame.len() as u32;
            self.tally.in_fifo -= 1;
            self.spare.push(frame);
        }
    }

    /// Runs all events until `until_ps`.
    pub fn run<H: Host>(&mut self, until_ps: u64, host: &mut H) {
        loop {
            let next = self.next_event_ps();
            if next > until_ps {
                return;
            }
            if self.tx_held.due_ps == next {
                self.tell(0, cause::SENT);
            } else if let Some(queue) = self.queues.iter().position(|queue| queue.held.due_ps == next) {
                self.tell(queue, cause::RECEIVED);
            } else if self.tx_at_ps == next {
                self.transmit(next, host);
            } else {
                self.receive(next, host);
            }
        }
    }

    fn tell(&mut self, queue: usize, cause: u32) {
        let held = if cause == cause::SENT { &mut self.tx_held } else { &mut self.queues[queue].held };
        (held.count, held.due_ps) = (0, NEVER);
        self.queues[queue].cause |= cause;
    }

    fn transmit<H: Host>(&mut self, now: u64, host: &mut H) {
        if let Step::Finish { word, good } = self.tx_step {
            let at = self.tx.descriptor() + 8;
            let after = host.burst(now, BurstKind::Write, Purpose::TxWriteBack, at, 4);
            host.store(at, &(word | descriptor::DONE).to_le_bytes());
            self.tx.advance();
            if good {
                self.wire_free_ps = now
                    + (self.tx_frame.len() as u64).max(LEAST_BYTES) * self.params.wire_byte_ps
                    + AROUND_BYTES * self.params.wire_byte_ps;
                self.tally.transmitted += 1;
                host.transmitted(now, &self.tx_frame);
            } else {
                self.tally.tx_discarded += 1;
            }
            if word & descriptor::INTERRUPT != 0 && self.tx_held.note(now, &self.params) {
                self.tell(0, cause::SENT);
            }
            (self.tx_step, self.tx_at_ps) =
                if self.tx.is_empty() { (Step::Idle, NEVER) } else { (Step::Start, after) };
            return;
        }
        let mut words = [0; descriptor::BYTES];
        let fetched = host.burst(
            now,
            BurstKind::Read,
            Purpose::TxDescriptorFetch,
            self.tx.descriptor(),
            descriptor::BYTES as u32,
        );
        let known = host.load(self.tx.descriptor(), &mut words);
        let (address, word) = split(&words);
        let bytes = (word & descriptor::LENGTH) as usize;
        let mut good = known && (1..=FRAME_BYTES).contains(&bytes);
        let mut ready = fetched;
        if good {
            ready = host.burst(fetched, BurstKind::Read, Purpose::TxData, address, bytes as u32);
            self.tx_frame.resize(bytes, 0);
            good = host.load(address, &mut self.tx_frame);
        }
        ready = (ready + self.params.tx_engine_ps).max(self.wire_free_ps);
        (self.tx_step, self.tx_at_ps) = (Step::Finish { word, good }, ready);
    }

    fn receive<H: Host>(&mut self, now: u64, host: &mut H) {
        let Some(Waiting { queue: number, frame }) = self.fifo.front() else { return };
        let number = *number;
        let queue = &mut self.queues[number];
        if let Step::Finish { word, good } = self.rx_step {
            let at = queue.ring.descriptor() + 8;
            let after = host.burst(now, BurstKind::Write, Purpose::RxWriteBack, at, 8);
            if good {
                host.store(at, &(word | descriptor::DONE).to_le_bytes());
                queue.ring.advance();
                self.tally.to_host += 1;
                if queue.held.note(now, &self.params) {
                    self.tell(number, cause::RECEIVED);
                }
            } else {
                self.tally.dropped_other += 1;
            }
            self.forget_first();
            self.tally.rx_busy_ps += after - self.rx_began_ps;
            (self.rx_step, self.rx_at_ps) = (Step::Idle, NEVER);
            self.take_up(after);
            return;
        }
        let (at, mut ready) = (queue.ring.descriptor(), now);
        if queue.fetched == 0 {
            queue.fetched = queue.ring.in_a_row().clamp(1, self.params.rx_fetch.max(1));
            let bytes = queue.fetched * descriptor::BYTES as u32;
            ready = host.burst(now, BurstKind::Read, Purpose::RxDescriptorFetch, at, bytes);
        }
        queue.fetched -= 1;
        let mut words = [0; descriptor::BYTES];
        let known = host.load(at, &mut words);
        let (address, word) = split(&words);
        let header = match queue.header_bytes {
            0 => 0,
            most => rss::header_bytes(frame).filter(|&bytes| bytes <= most as usize).unwrap_or(0),
        };
        let (before, rest) = frame.split_at(header);
        let mut good = known && rest.len() as u64 <= word & descriptor::LENGTH;
        if good && header > 0 {
            let to = queue.headers + u64::from(queue.ring.head) * u64::from(queue.header_bytes);
            ready = host.burst(ready, BurstKind::Write, Purpose::RxData, to, header as u32);
            good = host.store(to, before);
        }
        if good && !rest.is_empty() {
            ready = host.burst(ready, BurstKind::Write, Purpose::RxData, address, rest.len() as u32);
            good = host.store(address, rest);
        }
        let word = frame.len() as u64 | (header as u64) << descriptor::HEADER_SHIFT;
        (self.rx_step, self.rx_at_ps) = (Step::Finish { word, good }, ready + self.params.rx_engine_ps);
    }
}

/// The two words of a descriptor.
fn split(bytes: &[u8; descriptor::BYTES]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*bytes);
    (whole as u64, (whole >> 64) as u64)
}

#[cfg(test)]
mod tests;
