//! A ring NIC: a card known only by its pace, its rings and how it moderates interrupts.
//!
//! For cards whose manual is not at hand but whose behaviour is on record: it has as few registers as a driver
//! can do with, one descriptor format, and works on one frame at a time in each direction:
//! descriptor, data, its own work, status. A sent frame interrupts if its descriptor asks for that.

use crate::{BurstKind, Host, Purpose};
use std::collections::VecDeque;

/// Registers, 32 bits each.
pub mod reg {
    /// What has happened since it was last read ([`cause`](super::cause)); reading clears it.
    pub const CAUSE: u32 = 0x00;
    /// The causes that assert the interrupt line.
    pub const MASK: u32 = 0x04;
    /// Transmit ring: bus address of the first descriptor.
    pub const TX_BASE: u32 = 0x10;
    /// Transmit ring: descriptors. Writing it empties the ring.
    pub const TX_SIZE: u32 = 0x14;
    /// Transmit ring: the first descriptor that is not the card's.
    pub const TX_TAIL: u32 = 0x18;
    /// How long a transmit interrupt is held back, in ticks; 0: not at all.
    pub const TX_DELAY: u32 = 0x1c;
    /// How many frames end that wait; 0: none do.
    pub const TX_FRAMES: u32 = 0x20;
    /// Receive ring, as the transmit ring's.
    pub const RX_BASE: u32 = 0x30;
    /// Receive ring.
    pub const RX_SIZE: u32 = 0x34;
    /// Receive ring.
    pub const RX_TAIL: u32 = 0x38;
    /// As [`TX_DELAY`].
    pub const RX_DELAY: u32 = 0x3c;
    /// As [`TX_FRAMES`].
    pub const RX_FRAMES: u32 = 0x40;
}

/// Bits of [`reg::CAUSE`] and [`reg::MASK`].
pub mod cause {
    /// Frames have been sent.
    pub const SENT: u32 = 1 << 0;
    /// Frames have been received.
    pub const RECEIVED: u32 = 1 << 1;
}

/// A descriptor: the address of the buffer in its first word; these bits in its second.
pub mod descriptor {
    /// Its size in bytes.
    pub const BYTES: usize = 16;
    /// Bytes of the frame without FCS.
    pub const LENGTH: u64 = 0xffff;
    /// Transmit: interrupt when this frame has been sent.
    pub const INTERRUPT: u64 = 1 << 16;
    /// The card has done with it.
    pub const DONE: u64 = 1 << 17;
}

/// What the timer that holds interrupts back counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Timer {
    /// It never stops: whatever has happened is told when it next expires.
    FreeRunning,
    /// The first frame that has not been told of starts it.
    FirstFrame,
}

/// What distinguishes one such card from another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub struct Params {
    /// The card's own work on a frame that it sends, beside its use of the bus, in ps.
    pub tx_engine_ps: u64,
    /// The same for one that it receives.
    pub rx_engine_ps: u64,
    /// Bytes of its receive FIFO.
    pub rx_fifo_bytes: u32,
    /// A tick of the timer that holds interrupts back, in ps.
    pub tick_ps: u64,
    /// What that timer counts from.
    pub timer: Timer,
    /// The time of a byte on the wire, in ps: 8000 at a gigabit a second.
    pub wire_byte_ps: u64,
}

/// Where frames went, and what the transmitter did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that left.
    pub transmitted: u64,
    /// Descriptors that could not be sent.
    pub tx_discarded: u64,
    /// Time in which the card had nothing to send and nothing on its wire, up to its last frame, in ps.
    pub tx_idle_ps: u64,
    /// Frames that arrived.
    pub arrived: u64,
    /// Of these, stored in memory.
    pub to_host: u64,
    /// Dropped while there were descriptors: the card or the bus was too slow.
    pub dropped_engine: u64,
    /// Dropped while there were none: the driver was too slow.
    pub dropped_no_descriptor: u64,
    /// Dropped because it fitted no buffer, or lay where no memory is.
    pub dropped_other: u64,
    /// In the FIFO now.
    pub in_fifo: u64,
}

impl Tally {
    /// Whether every frame that arrived is in exactly one place.
    pub fn closes(&self) -> bool {
        let dropped = self.dropped_engine + self.dropped_no_descriptor + self.dropped_other;
        self.arrived == self.to_host + dropped + self.in_fifo
    }
}

/// No event.
const NEVER: u64 = u64::MAX;
/// The longest frame that it takes, without FCS.
const FRAME_BYTES: usize = 9018;
/// Preamble, FCS and gap.
const AROUND_BYTES: u64 = 24;
/// The shortest frame without FCS.
const LEAST_BYTES: u64 = 60;

/// A ring: what the driver has given, and how far the card is.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    base: u64,
    size: u32,
    head: u32,
    tail: u32,
}

impl Ring {
    fn is_empty(&self) -> bool {
        self.head == self.tail
    }
    fn descriptor(&self) -> u64 {
        self.base + u64::from(self.head) * descriptor::BYTES as u64
    }
    fn advance(&mut self) {
        self.head = if self.head + 1 == self.size { 0 } else { self.head + 1 };
    }
    fn set_size(&mut self, size: u32) {
        *self = Self { base: self.base, size, head: 0, tail: 0 };
    }
    fn set_tail(&mut self, tail: u32) {
        self.tail = if tail < self.size { tail } else { self.head };
    }
}

/// What one direction is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    /// Takes the next frame up.
    Start,
    /// Is done with the frame whose descriptor's second word this is.
    Finish {
        word: u64,
        good: bool,
    },
}

/// Interrupts of one direction on their way to the driver.
#[derive(Clone, Copy, Debug)]
struct Held {
    delay: u32,
    frames: u32,
    count: u32,
    due_ps: u64,
}

impl Held {
    const NONE: Self = Self { delay: 0, frames: 0, count: 0, due_ps: NEVER };

    /// A frame to be told of, at `now`: whether at once.
    fn note(&mut self, now: u64, params: &Params) -> bool {
        self.count += 1;
        if self.delay == 0 || (self.frames > 0 && self.count >= self.frames) {
            return true;
        }
        if self.due_ps == NEVER {
            let period = u64::from(self.delay) * params.tick_ps.max(1);
            self.due_ps = match params.timer {
                Timer::FreeRunning => (now / period + 1) * period,
                Timer::FirstFrame => now + period,
            };
        }
        false
    }
}

/// One port of such a card.
#[derive(Clone, Debug)]
pub struct RingNic {
    params: Params,
    cause: u32,
    mask: u32,
    tx: Ring,
    tx_step: Step,
    tx_at_ps: u64,
    tx_held: Held,
    tx_frame: Vec<u8>,
    /// When the wire has carried all that was sent.
    wire_free_ps: u64,
    rx: Ring,
    rx_step: Step,
    rx_at_ps: u64,
    rx_held: Held,
    fifo: VecDeque<Vec<u8>>,
    fifo_bytes: u32,
    spare: Vec<Vec<u8>>,
    tally: Tally,
}

impl RingNic {
    /// A card as after a reset.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            cause: 0,
            mask: 0,
            tx: Ring::default(),
            tx_step: Step::Idle,
            tx_at_ps: NEVER,
            tx_held: Held::NONE,
            tx_frame: Vec::with_capacity(FRAME_BYTES),
            wire_free_ps: 0,
            rx: Ring::default(),
            rx_step: Step::Idle,
            rx_at_ps: NEVER,
            rx_held: Held::NONE,
            fifo: VecDeque::new(),
            fifo_bytes: 0,
            spare: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// What became of frames.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// [`Tally::tx_idle_ps`] up to `now`.
    pub fn tx_idle_ps(&self, now: u64) -> u64 {
        let since = if self.tx_step == Step::Idle { now.saturating_sub(self.wire_free_ps) } else { 0 };
        self.tally.tx_idle_ps + since
    }

    /// When it does something by itself next.
    pub fn next_event_ps(&self) -> u64 {
        self.tx_at_ps.min(self.rx_at_ps).min(self.tx_held.due_ps).min(self.rx_held.due_ps)
    }

    /// When it writes a descriptor next.
    pub fn next_write_back_ps(&self) -> u64 {
        let finish = |step, at| if matches!(step, Step::Finish { .. }) { at } else { NEVER };
        finish(self.tx_step, self.tx_at_ps).min(finish(self.rx_step, self.rx_at_ps))
    }

    /// Whether it asserts its interrupt line.
    pub fn interrupt_line(&self) -> bool {
        self.cause & self.mask != 0
    }

    /// Whether it could without another register write.
    pub fn interrupts_enabled(&self) -> bool {
        self.mask != 0
    }

    /// Whether `offset` is a ring's tail.
    pub fn is_tail(&self, offset: u32) -> bool {
        matches!(offset, reg::TX_TAIL | reg::RX_TAIL)
    }

    /// The CPU reads a register.
    pub fn read(&mut self, offset: u32) -> u32 {
        match offset {
            reg::CAUSE => std::mem::take(&mut self.cause),
            reg::MASK => self.mask,
            reg::TX_TAIL => self.tx.tail,
            reg::RX_TAIL => self.rx.tail,
            _ => 0,
        }
    }

    /// The CPU writes a register at `now`.
    pub fn write(&mut self, now: u64, offset: u32, value: u32) {
        match offset {
            reg::MASK => self.mask = value,
            reg::TX_BASE => self.tx.base = value.into(),
            reg::TX_SIZE => self.tx.set_size(value),
            reg::TX_DELAY => self.tx_held.delay = value,
            reg::TX_FRAMES => self.tx_held.frames = value,
            reg::RX_BASE => self.rx.base = value.into(),
            reg::RX_SIZE => self.rx.set_size(value),
            reg::RX_DELAY => self.rx_held.delay = value,
            reg::RX_FRAMES => self.rx_held.frames = value,
            reg::TX_TAIL => {
                self.tx.set_tail(value);
                if self.tx_step == Step::Idle && !self.tx.is_empty() {
                    self.tally.tx_idle_ps += now.saturating_sub(self.wire_free_ps);
                    (self.tx_step, self.tx_at_ps) = (Step::Start, now);
                }
            }
            reg::RX_TAIL => {
                self.rx.set_tail(value);
                self.take_up(now);
            }
            _ => {}
        }
    }

    /// A frame's last bit arrives.
    pub fn frame_arrives(&mut self, now: u64, frame: &[u8]) {
        self.tally.arrived += 1;
        let bytes = frame.len() as u32;
        if frame.len() > FRAME_BYTES {
            self.tally.dropped_other += 1;
        } else if self.fifo_bytes + bytes > self.params.rx_fifo_bytes {
            let without = self.rx.is_empty() && self.rx_step == Step::Idle;
            *(if without {
                &mut self.tally.dropped_no_descriptor
            } else {
                &mut self.tally.dropped_engine
            }) += 1;
        } else {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(frame);
            self.fifo.push_back(copy);
            self.fifo_bytes += bytes;
            self.tally.in_fifo += 1;
            self.take_up(now);
        }
    }

    /// The receiver begins if it waits and there are a frame and a descriptor.
    fn take_up(&mut self, now: u64) {
        if self.rx_step == Step::Idle && !self.fifo.is_empty() && !self.rx.is_empty() {
            (self.rx_step, self.rx_at_ps) = (Step::Start, now);
        }
    }

    /// Everything happens that happens until `until_ps`.
    pub fn run<H: Host>(&mut self, until_ps: u64, host: &mut H) {
        loop {
            let next = self.next_event_ps();
            if next > until_ps {
                return;
            }
            if self.tx_held.due_ps == next {
                self.tell(cause::SENT);
            } else if self.rx_held.due_ps == next {
                self.tell(cause::RECEIVED);
            } else if self.tx_at_ps == next {
                self.transmit(next, host);
            } else {
                self.receive(next, host);
            }
        }
    }

    fn tell(&mut self, cause: u32) {
        let held = if cause == cause::SENT { &mut self.tx_held } else { &mut self.rx_held };
        (held.count, held.due_ps) = (0, NEVER);
        self.cause |= cause;
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
                self.tell(cause::SENT);
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
        if let Step::Finish { good, .. } = self.rx_step {
            if let Some(frame) = self.fifo.pop_front() {
                let at = self.rx.descriptor() + 8;
                let word = frame.len() as u64 | descriptor::DONE;
                let after = host.burst(now, BurstKind::Write, Purpose::RxWriteBack, at, 8);
                self.fifo_bytes -= frame.len() as u32;
                self.spare.push(frame);
                self.tally.in_fifo -= 1;
                if good {
                    host.store(at, &word.to_le_bytes());
                    self.rx.advance();
                    self.tally.to_host += 1;
                    if self.rx_held.note(now, &self.params) {
                        self.tell(cause::RECEIVED);
                    }
                } else {
                    self.tally.dropped_other += 1;
                }
                (self.rx_step, self.rx_at_ps) = (Step::Idle, NEVER);
                self.take_up(after);
            }
            return;
        }
        let Some(frame) = self.fifo.front() else { return };
        let mut words = [0; descriptor::BYTES];
        let at = self.rx.descriptor();
        let fetched =
            host.burst(now, BurstKind::Read, Purpose::RxDescriptorFetch, at, descriptor::BYTES as u32);
        let known = host.load(at, &mut words);
        let (address, word) = split(&words);
        let fits = known && frame.len() as u64 <= word & descriptor::LENGTH;
        let mut ready = fetched;
        let mut good = fits;
        if fits {
            ready = host.burst(fetched, BurstKind::Write, Purpose::RxData, address, frame.len() as u32);
            good = host.store(address, frame);
        }
        (self.rx_step, self.rx_at_ps) = (Step::Finish { word, good }, ready + self.params.rx_engine_ps);
    }
}

/// The two words of a descriptor.
fn split(bytes: &[u8; descriptor::BYTES]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*bytes);
    (whole as u64, (whole >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bus on which a burst takes 100 ns, and a little memory.
    struct Room {
        memory: Vec<u8>,
        sent: Vec<(u64, Vec<u8>)>,
    }

    impl Host for Room {
        fn burst(&mut self, now_ps: u64, _: BurstKind, _: Purpose, _: u64, _: u32) -> u64 {
            now_ps + 100_000
        }
        fn load(&mut self, address: u64, into: &mut [u8]) -> bool {
            let at = address as usize;
            self.memory.get(at..at + into.len()).map(|from| into.copy_from_slice(from)).is_some()
        }
        fn store(&mut self, address: u64, from: &[u8]) -> bool {
            let at = address as usize;
            self.memory.get_mut(at..at + from.len()).map(|to| to.copy_from_slice(from)).is_some()
        }
        fn transmitted(&mut self, now_ps: u64, frame: &[u8]) {
            self.sent.push((now_ps, frame.to_vec()));
        }
    }

    impl Room {
        fn new() -> Self {
            Self { memory: vec![0; 65_536], sent: Vec::new() }
        }
        fn word(&mut self, at: usize, word: u64) {
            self.memory[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        fn done(&self, ring: usize, index: usize) -> bool {
            let at = ring + index * 16 + 8;
            self.memory[at + 2] & 2 != 0
        }
    }

    const TX: usize = 0x1000;
    const RX: usize = 0x2000;

    fn nic(timer: Timer) -> RingNic {
        RingNic::new(Params {
            tx_engine_ps: 1_700_000,
            rx_engine_ps: 1_000_000,
            rx_fifo_bytes: 128,
            tick_ps: 1_000_000,
            timer,
            wire_byte_ps: 8_000,
        })
    }

    fn give(room: &mut Room, nic: &mut RingNic, now: u64, frames: u32, interrupt: u64) {
        for index in 0..frames as usize {
            room.word(TX + index * 16, 0x4000);
            room.word(TX + index * 16 + 8, 60 | interrupt);
        }
        nic.write(now, reg::TX_BASE, TX as u32);
        nic.write(now, reg::TX_SIZE, 8);
        nic.write(now, reg::TX_TAIL, frames);
    }

    #[test]
    fn frames_leave_at_the_cards_pace_and_their_descriptors_are_done() {
        let (mut room, mut nic) = (Room::new(), nic(Timer::FirstFrame));
        room.memory[0x4000..0x403c].fill(7);
        give(&mut room, &mut nic, 1_000_000, 3, 0);
        nic.run(20_000_000, &mut room);
        // Two reads, its own work, the report of the one before: 2 us a frame.
        let times: Vec<_> = room.sent.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [2_900_000, 4_900_000, 6_900_000]);
        assert!(room.sent.iter().all(|(_, frame)| frame[..] == [7; 60]));
        assert!((0..3).all(|index| room.done(TX, index)) && !room.done(TX, 3));
        // It was idle for the first microsecond, and is again when the wire has carried the last.
        assert_eq!(nic.tally().tx_idle_ps, 1_000_000);
        nic.write(10_000_000, reg::TX_TAIL, 4);
        assert_eq!(nic.tally().tx_idle_ps, 1_000_000 + 10_000_000 - 6_900_000 - 672_000);
        assert_eq!(nic.read(reg::CAUSE), 0, "nobody asked for an interrupt");
    }

    #[test]
    fn interrupts_wait_for_the_timer() {
        for (timer, told) in [(Timer::FreeRunning, 5_000_000), (Timer::FirstFrame, 7_900_000)] {
            let (mut room, mut nic) = (Room::new(), nic(timer));
            nic.write(0, reg::TX_DELAY, 5);
            nic.write(0, reg::MASK, cause::SENT);
            give(&mut room, &mut nic, 1_000_000, 3, descriptor::INTERRUPT);
            nic.run(told - 1, &mut room);
            assert!(!nic.interrupt_line(), "{timer:?}");
            nic.run(told, &mut room);
            assert!(nic.interrupt_line(), "{timer:?}");
            assert_eq!(nic.read(reg::CAUSE), cause::SENT);
            assert!(!nic.interrupt_line());
        }
        let (mut room, mut nic) = (Room::new(), nic(Timer::FirstFrame));
        nic.write(0, reg::TX_DELAY, 1000);
        nic.write(0, reg::TX_FRAMES, 2);
        give(&mut room, &mut nic, 1_000_000, 3, descriptor::INTERRUPT);
        nic.run(4_899_999, &mut room);
        assert_eq!(nic.read(reg::CAUSE), 0);
        nic.run(4_900_000, &mut room);
        assert_eq!(nic.read(reg::CAUSE), cause::SENT, "two frames end the wait");
    }

    #[test]
    fn received_frames_are_stored_or_counted_where_they_end() {
        let (mut room, mut nic) = (Room::new(), nic(Timer::FirstFrame));
        room.word(RX, 0x5000);
        room.word(RX + 8, 2048);
        nic.write(0, reg::RX_BASE, RX as u32);
        nic.write(0, reg::RX_SIZE, 8);
        nic.write(0, reg::RX_TAIL, 1);
        for (at, byte) in [(10, 1), (20, 2), (30, 3)] {
            nic.run(at, &mut room);
            nic.frame_arrives(at, &[byte; 60]);
        }
        nic.run(5_000_000, &mut room);
        nic.frame_arrives(5_000_000, &[4; 60]);
        nic.frame_arrives(5_000_001, &[5; 60]);
        // Two fit the FIFO; the third came too soon, the fifth found no descriptor and a full FIFO.
        let tally = *nic.tally();
        assert_eq!((tally.to_host, tally.in_fifo), (1, 2));
        assert_eq!((tally.dropped_engine, tally.dropped_no_descriptor), (1, 1));
        assert!(tally.closes());
        assert_eq!(room.memory[0x5000..0x503c], [1; 60]);
        assert!(room.done(RX, 0));
        assert_eq!(nic.read(reg::CAUSE), cause::RECEIVED);
    }

    #[test]
    fn nonsense_is_counted_and_ends() {
        let (mut room, mut nic) = (Room::new(), nic(Timer::FreeRunning));
        room.word(TX, 1 << 40);
        room.word(TX + 8, 60);
        room.word(TX + 16, 0x4000);
        room.word(TX + 24, 0);
        nic.write(0, reg::TX_BASE, TX as u32);
        nic.write(0, reg::TX_SIZE, 8);
        nic.write(0, reg::TX_TAIL, 2);
        nic.write(0, reg::TX_TAIL, 99);
        nic.write(0, reg::TX_TAIL, 2);
        nic.run(1_000_000_000, &mut room);
        assert_eq!((nic.tally().tx_discarded, nic.tally().transmitted), (2, 0));
        nic.write(0, reg::RX_SIZE, 0);
        nic.write(0, reg::RX_TAIL, 5);
        nic.frame_arrives(2_000_000_000, &[0; 60]);
        nic.run(3_000_000_000, &mut room);
        assert!(nic.tally().closes());
    }
}
