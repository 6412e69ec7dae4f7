//! The receiving half of a TCP connection: which segments the kernel keeps, the window that it offers, and
//! when it acknowledges.
//!
//! The rules are those of Linux 2.6.11's public source, which follow RFC 793 and RFC 5681 (section 4.2): one
//! acknowledgement for two segments, and at once for a segment that is out of order or fills a gap. The
//! window depends on the socket's memory, which is counted in whole packet buffers, so a connection with
//! small segments gets a small window. Left out: urgent data, SACK, window scaling, collapsing of queued
//! segments. The caller charges all costs.
//!
//! The sending half is [`Sending`].

mod sending;

pub use sending::{Sending, Sent};
use std::collections::{BTreeMap, VecDeque};

/// The largest window without scaling.
const WINDOW_MOST: u32 = 65_535;
/// The window that `memory` bytes allow: a quarter is for packets' overhead (`tcp_adv_win_scale` = 2).
const fn space(memory: u32) -> u32 {
    memory - memory / 4
}
/// Segments shorter than this do not make the window grow (`tcp_grow_window`).
const LEAST_TELLING: u32 = 128;
/// The largest segment that Ethernet carries, which the window opens by before anything is known.
const ETHERNET_SEGMENT: u32 = 1460;

/// The segment that is taken for the peer's before any has come.
const LEAST_SEGMENT: u32 = 536;

/// When an acknowledgement is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Not at all.
    None,
    /// With the next, or when the timer for that expires.
    Later,
    /// At once.
    Now,
}

/// A segment that is kept: its bytes, the memory it takes, and its buffer.
struct Kept<B> {
    bytes: u32,
    memory: u32,
    buffer: B,
}

/// The fate of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Segments kept.
    pub kept: u64,
    /// Of these, segments that came before their turn.
    pub early: u64,
    /// Segments that had come before, or lay outside the window.
    pub repeated: u64,
    /// Segments dropped for lack of memory.
    pub dropped: u64,
}

/// The receiving half of a connection.
pub struct Connection<B> {
    /// The byte expected next.
    next: u64,
    /// The last acknowledged number, and the window with it.
    acknowledged: u64,
    window: u32,
    /// The present limit of the window (`rcv_ssthresh`).
    threshold: u32,
    /// The peer's segments, as they are seen to be (`rcv_mss`).
    segment: u32,
    /// Acknowledgements that are sent at once: at first, so that a new connection's window grows, and after a
    /// segment that had come before or lay outside the window (`tcp_enter_quickack_mode`).
    quick: u32,
    /// The most memory that it may hold, and the memory that it holds, in bytes.
    most: u32,
    memory: u32,
    queue: VecDeque<Kept<B>>,
    early: BTreeMap<u64, Kept<B>>,
    tally: Tally,
}

impl<B> Connection<B> {
    /// A connection whose first byte has the sequence number `first`, on a socket that holds `most` bytes of
    /// memory. It has offered the peer [`Connection::offered`].
    pub fn new(first: u32, most: u32) -> Self {
        let threshold = WINDOW_MOST.min(4 * ETHERNET_SEGMENT);
        Self {
            next: first.into(),
            acknowledged: first.into(),
            window: threshold,
            threshold,
            segment: LEAST_SEGMENT,
            quick: 0,
            most,
            memory: 0,
            queue: VecDeque::new(),
            early: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// Takes a segment of `bytes` from `sequence` on, in a buffer that takes `memory`. Gives back the buffer
    /// of a segment that is not kept.
    pub fn segment(&mut self, sequence: u32, bytes: u32, memory: u32, buffer: B) -> (Ack, Option<B>) {
        let at = self.place(sequence);
        if bytes == 0 {
            return (Ack::None, Some(buffer));
        }
        if at < self.next || at + u64::from(bytes) > self.edge() || self.early.contains_key(&at) {
            self.tally.repeated += 1;
            self.acknowledge_quickly();
            return (Ack::Now, Some(buffer));
        }
        if self.memory > self.most {
            self.tally.dropped += 1;
            return (Ack::None, Some(buffer));
        }
        self.memory += memory;
        self.tally.kept += 1;
        if self.tally.kept == 1 {
            self.segment = bytes;
            self.acknowledge_quickly();
        }
        self.segment = self.segment.max(bytes);
        let kept = Kept { bytes, memory, buffer };
        if at > self.next {
            self.tally.early += 1;
            self.early.insert(at, kept);
            return (Ack::Now, None);
        }
        let gap = !self.early.is_empty();
        self.next += u64::from(bytes);
        self.queue.push_back(kept);
        while let Some(kept) = self.early.remove(&self.next) {
            self.next += u64::from(kept.bytes);
            self.queue.push_back(kept);
        }
        self.grow(bytes, memory);
        // `__tcp_ack_snd_check`.
        let due = self.next - self.acknowledged > self.segment.into() && self.select() >= self.window;
        (if gap || due || self.quick > 0 { Ack::Now } else { Ack::Later }, None)
    }

    /// The next bytes for the process, and the buffer to free.
    pub fn read(&mut self) -> Option<(u32, B)> {
        let kept = self.queue.pop_front()?;
        self.memory -= kept.memory;
        Some((kept.bytes, kept.buffer))
    }

    /// Whether there is something to read.
    pub fn readable(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether to acknowledge after the process has read (`tcp_cleanup_rbuf`): two segments are
    /// unacknowledged, or the window can be twice as large.
    pub fn read_calls_for_ack(&self) -> bool {
        let now = (self.edge() - self.next) as u32;
        self.next - self.acknowledged > self.segment.into()
            || (2 * now <= WINDOW_MOST && self.select() >= (2 * now).max(1))
    }

    /// Acknowledges: the sequence number expected next, and the window. A window is never taken back.
    pub fn acknowledge(&mut self) -> (u32, u16) {
        self.window = self.select().max((self.edge() - self.next) as u32);
        self.acknowledged = self.next;
        self.quick = self.quick.saturating_sub(1);
        (self.next as u32, self.window as u16)
    }

    /// The window that the peer knows of.
    pub fn offered(&self) -> u32 {
        self.window
    }

    /// The fate of segments.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// `tcp_incr_quickack`: one acknowledgement for two segments of the window, 2 to 16.
    fn acknowledge_quickly(&mut self) {
        self.quick = self.quick.max((self.window / (2 * self.segment)).clamp(2, 16));
    }

    /// The position of a sequence number in the whole stream: nearest to the expected one.
    fn place(&self, sequence: u32) -> u64 {
        self.next.wrapping_add_signed((sequence.wrapping_sub(self.next as u32) as i32).into())
    }

    /// The end of the window that was offered.
    fn edge(&self) -> u64 {
        (self.acknowledged + u64::from(self.window)).max(self.next)
    }

    /// The window to offer (`__tcp_select_window`).
    fn select(&self) -> u32 {
        let free = space(self.most.saturating_sub(self.memory)).min(self.threshold);
        if free < self.segment {
            0
        } else if self.window + self.segment <= free || self.window > free {
            free / self.segment * self.segment
        } else {
            self.window
        }
    }

    /// Lets the window grow as far as the memory of such segments allows (`tcp_grow_window`).
    fn grow(&mut self, bytes: u32, memory: u32) {
        let free = space(self.most.saturating_sub(self.memory));
        if bytes < LEAST_TELLING || self.threshold >= free.min(WINDOW_MOST) {
            return;
        }
        let by = if space(memory) <= bytes {
            2 * ETHERNET_SEGMENT
        } else {
            let (mut memory, mut window) = (space(memory) / 2, space(self.most) / 2);
            while self.threshold <= window && memory > bytes {
                (memory, window) = (memory / 2, window / 2);
            }
            if self.threshold <= window { 2 * self.segment } else { 0 }
        };
        self.threshold = (self.threshold + by).min(WINDOW_MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer of 2 KiB with its structures.
    const MEMORY_EACH: u32 = 2304;
    const MEMORY: u32 = 174_760;

    fn connection(bytes: u32, segments: u32) -> Connection<u32> {
        with_memory(MEMORY, bytes, segments)
    }

    fn with_memory(most: u32, bytes: u32, segments: u32) -> Connection<u32> {
        let mut c = Connection::new(1000, most);
        for index in 0..segments {
            let (ack, back) = c.segment(1000 + index * bytes, bytes, MEMORY_EACH, index);
            assert_eq!(back, None);
            if ack == Ack::Now {
                c.acknowledge();
            }
            assert_eq!(c.read(), Some((bytes, index)));
        }
        c
    }

    #[test]
    fn every_second_segment_is_acknowledged() {
        let mut c = connection(1460, 6);
        assert_eq!(c.segment(1000 + 6 * 1460, 1460, MEMORY_EACH, 6), (Ack::Later, None));
        assert_eq!(c.segment(1000 + 7 * 1460, 1460, MEMORY_EACH, 7), (Ack::Now, None));
        assert_eq!(c.acknowledge().0, 1000 + 8 * 1460);
    }

    #[test]
    fn the_first_segments_are_acknowledged_one_by_one() {
        let mut c = Connection::new(1000, MEMORY);
        let at_once = (0..10).take_while(|index| {
            let (ack, _) = c.segment(1000 + index * 1460, 1460, MEMORY_EACH, *index);
            c.read();
            ack == Ack::Now && c.acknowledge().1 > 0
        });
        assert_eq!(at_once.count(), 2);
        // Again after a segment that comes twice.
        let mut c = connection(1460, 5);
        assert_eq!(c.segment(1000, 1460, MEMORY_EACH, 9), (Ack::Now, Some(9)));
        c.acknowledge();
        assert_eq!(c.segment(1000 + 5 * 1460, 1460, MEMORY_EACH, 5), (Ack::Now, None));
    }

    #[test]
    fn a_gap_is_told_at_once_and_filled() {
        let mut c = connection(1000, 4);
        let next = 1000 + 4 * 1000;
        assert_eq!(c.segment(next + 1000, 1000, MEMORY_EACH, 1), (Ack::Now, None));
        assert_eq!(c.acknowledge().0, next);
        assert!(!c.readable());
        assert_eq!(c.segment(next, 1000, MEMORY_EACH, 0), (Ack::Now, None));
        assert_eq!(c.acknowledge().0, next + 2000);
        assert_eq!((c.read(), c.read(), c.read()), (Some((1000, 0)), Some((1000, 1)), None));
        // Once more is once too often.
        assert_eq!(c.segment(next, 1000, MEMORY_EACH, 7), (Ack::Now, Some(7)));
        assert_eq!(c.tally(), Tally { kept: 6, early: 1, repeated: 1, dropped: 0 });
    }

    #[test]
    fn small_segments_are_offered_a_small_window() {
        // Full segments fill most of their buffers and get the whole window. Segments of 198 bytes in 2 KiB
        // get 8 KiB and the bytes in flight.
        assert!(connection(1460, 100).offered() > 60_000);
        // Half the memory, half the window.
        assert!((30_000..=36_000).contains(&with_memory(MEMORY / 2, 1460, 100).offered()));
        assert!((7_000..=9_000).contains(&connection(198, 1000).offered()));
    }

    #[test]
    fn memory_bounds_what_is_kept() {
        let mut c = connection(1460, 100);
        let (mut at, mut taken) = (1000 + 100 * 1460, 0);
        loop {
            let (ack, back) = c.segment(at, 1460, MEMORY_EACH, taken);
            if back.is_some() {
                break;
            }
            if ack == Ack::Now {
                c.acknowledge();
            }
            (at, taken) = (at + 1460, taken + 1);
        }
        assert!(taken * MEMORY_EACH <= MEMORY + MEMORY_EACH, "{taken}");
        assert!(!c.read_calls_for_ack() || c.offered() > 0);
        while c.read().is_some() {}
        assert!(c.read_calls_for_ack());
        assert!(c.acknowledge().1 > 50_000);
    }

    #[test]
    fn sequence_numbers_come_round() {
        let mut c = Connection::new(u32::MAX - 99, MEMORY);
        assert_eq!(c.segment(u32::MAX - 99, 200, MEMORY_EACH, ()), (Ack::Now, None));
        assert_eq!(c.segment(100, 200, MEMORY_EACH, ()), (Ack::Now, None));
        assert_eq!(c.acknowledge().0, 300);
    }
}
