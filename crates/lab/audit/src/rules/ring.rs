//! A descriptor ring as it can be followed from outside: its registers, and the descriptors that the card has
//! fetched and is not done with.
//!
//! The card fetches descriptors in order, and only up to the tail (SDM 3.2.4, 3.4.1). It writes receive
//! descriptors back in order. Transmit descriptors without RS are never written back, so they are followed by
//! the reads of their data. Where that leaves a doubt, a descriptor counts as done.

use super::rule::Side;
use std::collections::VecDeque;

/// Bytes in a descriptor.
pub(super) const BYTES: u64 = kpps_datasheet::desc::BYTES as u64;
/// The most descriptors on chip (SDM 3.2.4, 3.4.1).
const ON_CHIP: usize = 64;

/// A descriptor that the card has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) index: u32,
    /// Its words when it was fetched.
    pub(super) words: [u64; 2],
    /// The address and length of its data.
    pub(super) data: u64,
    pub(super) bytes: u64,
    /// The bytes that the card has read.
    read: u64,
    /// The card is certainly not done with it before it has read all bytes.
    certain: bool,
    /// It asks for a report, and the card has not written one.
    awaits_report: bool,
}

/// The effect of a new tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// It adds descriptors, or none.
    Fine,
    /// The card takes the ring for empty, although it got descriptors.
    LooksEmpty,
    /// It passes this number of descriptors that the card is not done with.
    Passes(u32),
}

/// A ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    side: Side,
    low: u32,
    high: u32,
    len: u32,
    tail: u32,
    /// Address and length were written. The address survives a reset (SDM 14.7).
    has_address: bool,
    has_high: bool,
    has_length: bool,
    /// The next descriptor to be fetched. It is unknown after the ring was replaced while the card had some.
    next: u32,
    knows_next: bool,
    /// RCTL.EN or TCTL.EN.
    pub(super) enabled: bool,
    /// It was enabled with a tail since the last reset or change of the ring.
    pub(super) used: bool,
    /// The descriptors that were fetched, the oldest first.
    held: VecDeque<Held>,
    /// The last transmit descriptors that the card was done with.
    done: VecDeque<Held>,
}

impl Ring {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            low: 0,
            high: 0,
            len: 0,
            tail: 0,
            has_address: false,
            has_high: false,
            has_length: false,
            next: 0,
            knows_next: true,
            enabled: false,
            used: false,
            held: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    /// The card is reset.
    pub(super) fn reset(&mut self) {
        let Self { low, high, has_address, has_high, .. } = *self;
        *self = Self { low, high, has_address, has_high, ..Self::new(self.side) };
    }

    // ---- Registers ----

    /// Descriptors, as the card counts them.
    pub(super) fn count(&self) -> u32 {
        (self.len & 0xF_FF80) / BYTES as u32
    }

    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// Address and length were written.
    pub(super) fn is_set_up(&self) -> bool {
        self.has_address && self.has_length
    }

    /// The ring is used, and the upper half of its address was never written.
    pub(super) fn lacks_high(&self) -> bool {
        self.used && self.has_address && !self.has_high
    }

    /// The card has something to fetch, as far as is known.
    pub(super) fn has_work(&self) -> bool {
        !self.knows_next || self.tail != self.next
    }

    /// The card got no descriptor and has none left.
    pub(super) fn is_dry(&self) -> bool {
        self.knows_next && self.tail == self.next && self.held.is_empty()
    }

    fn base(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low & !0xF)
    }

    pub(super) fn set_low(&mut self, value: u32) {
        self.low = value;
        self.has_address = true;
        self.replaced();
    }

    pub(super) fn set_high(&mut self, value: u32) {
        self.high = value;
        self.has_high = true;
        self.replaced();
    }

    pub(super) fn set_length(&mut self, value: u32) {
        self.len = value;
        self.has_length = true;
        self.replaced();
    }

    pub(super) fn set_head(&mut self, value: u32) {
        self.replaced();
        self.next = value & 0xFFFF;
        self.knows_next = true;
    }

    fn replaced(&mut self) {
        self.knows_next &= self.held.is_empty();
        self.held.clear();
        self.done.clear();
        self.used = false;
    }

    /// The first descriptor that the card is not done with.
    fn head(&self) -> u32 {
        self.held.iter().find(|it| it.certain && it.read < it.bytes).map_or(self.next, |it| it.index)
    }

    /// Sets the tail of an enabled ring.
    pub(super) fn set_tail(&mut self, value: u32) -> Move {
        let old = std::mem::replace(&mut self.tail, value & 0xFFFF);
        let (count, head) = (self.count(), self.head());
        let is_inside = [old, self.tail, head].iter().all(|index| *index < count);
        if !self.enabled || !self.knows_next || !is_inside || value > 0xFFFF {
            return Move::Fine;
        }
        let distance = |from: u32, to: u32| if to >= from { to - from } else { to + count - from };
        let all = distance(head, old) + distance(old, self.tail);
        match all.cmp(&count) {
            std::cmp::Ordering::Less => Move::Fine,
            std::cmp::Ordering::Equal => Move::LooksEmpty,
            std::cmp::Ordering::Greater => Move::Passes(all - count),
        }
    }

    // ---- Memory ----

    /// Whether `bytes` at `address` overlap the ring.
    pub(super) fn overlaps(&self, address: u64, bytes: u64) -> bool {
        let length = u64::from(self.count()) * BYTES;
        self.is_set_up()
            && length > 0
            && address < self.base().saturating_add(length)
            && self.base() < address.saturating_add(bytes)
    }

    /// The index of the descriptor that begins at `address`.
    fn index(&self, address: u64) -> Option<u32> {
        let within = address.checked_sub(self.base())?;
        let index = u32::try_from(within / BYTES).ok()?;
        (within.is_multiple_of(BYTES) && index < self.count()).then_some(index)
    }

    /// Whether a read of `bytes` at `address` is the card's next fetch of descriptors.
    pub(super) fn is_fetch(&self, address: u64, bytes: usize) -> bool {
        let is_whole = bytes > 0 && (bytes as u64).is_multiple_of(BYTES);
        is_whole && self.index(address).is_some_and(|index| !self.knows_next || index == self.next)
    }

    /// The index of the descriptor of which a write of `bytes` at `address` is the write-back. A transmit
    /// descriptor may be reported by its status byte alone (SDM 3.4.2).
    pub(super) fn written_back(&self, address: u64, bytes: usize) -> Option<u32> {
        if bytes > 0 && (bytes as u64).is_multiple_of(BYTES) {
            return self.index(address);
        }
        let start = address & !(BYTES - 1);
        let status = bytes < BYTES as usize && address - start == 12;
        (self.side == Side::Transmit && status).then(|| self.index(start)).flatten()
    }

    /// Whether `bytes` at `address` are the write-back of a descriptor that the card has.
    pub(super) fn is_write_back(&self, address: u64, bytes: usize) -> bool {
        let known = |index: u32| self.held.iter().chain(&self.done).any(|it| it.index == index);
        self.written_back(address, bytes).is_some_and(known)
    }

    /// The index of the fetched descriptor at `address`; the next fetch begins behind it.
    pub(super) fn fetch(&mut self, address: u64) -> Option<u32> {
        let index = self.index(address)?;
        self.next = if index + 1 >= self.count() { 0 } else { index + 1 };
        self.knows_next = true;
        Some(index)
    }

    /// The card has this descriptor, which asks for a report if `reports`. `certain`: it is not done with it
    /// before it has read `bytes` at `data`, or before it writes it back, if it is a receive descriptor.
    /// Returns whether the card was still to report the one that was in its place.
    pub(super) fn hold(
        &mut self,
        index: u32,
        words: [u64; 2],
        data: [u64; 2],
        certain: bool,
        reports: bool,
    ) -> bool {
        if self.held.len() >= ON_CHIP {
            self.held.pop_front();
        }
        let awaited = self.done.iter().any(|it| it.index == index && it.awaits_report);
        self.done.retain(|it| it.index != index);
        let [data, bytes] = data;
        self.held.push_back(Held { index, words, data, bytes, read: 0, certain, awaits_report: reports });
        awaited
    }

    pub(super) fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.iter()
    }

    fn pop(&mut self) {
        if let Some(it) = self.held.pop_front()
            && self.side == Side::Transmit
        {
            if self.done.len() >= ON_CHIP {
                self.done.pop_front();
            }
            self.done.push_back(it);
        }
    }

    /// The card read `bytes` of data at `address`.
    pub(super) fn data_read(&mut self, address: u64, bytes: u64) {
        let next = |it: &Held| it.read < it.bytes && it.data.wrapping_add(it.read) == address;
        let Some(place) = self.held.iter().position(next) else { return };
        (0..place).for_each(|_| self.pop());
        if let Some(it) = self.held.front_mut() {
            it.read = it.read.saturating_add(bytes);
            if it.read >= it.bytes {
                self.pop();
            }
        }
    }

    /// The card gave a frame up: it may be done with all its descriptors.
    pub(super) fn gave_up(&mut self) {
        self.held.iter_mut().for_each(|it| it.certain = false);
    }

    /// The descriptor as it was fetched, if the card is writing it back.
    pub(super) fn fetched(&self, index: u32) -> Option<[u64; 2]> {
        self.held.iter().chain(&self.done).find(|it| it.index == index).map(|it| it.words)
    }

    /// The card wrote descriptor `index` back.
    pub(super) fn wrote_back(&mut self, index: u32) {
        if let Some(place) = self.held.iter().position(|it| it.index == index) {
            (0..=place).for_each(|_| self.pop());
        }
        // A report is about all descriptors before it, too (SDM 3.3.3.2).
        if let Some(place) = self.done.iter().position(|it| it.index == index) {
            self.done.iter_mut().take(place).for_each(|it| it.awaits_report = false);
        }
        self.done.retain(|it| it.index != index);
    }
}
