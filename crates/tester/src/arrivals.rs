//! What arrives of one stream, frame by frame.
//!
//! Every sequence number has a bit of its own, so that a duplicate is told from a late frame however late it is. A frame
//! is whole if its tag is, if the zeros behind the tag are, and if all that lies before the tag is as in most frames of
//! the stream: a router may rewrite addresses and TTL, but of all frames alike.

use kpps_bench::Latency;
use kpps_frames::tag;
use std::time::{Duration, Instant};

/// Different headers that are kept apart; a frame with a rarer one is damaged in any case.
const HEADERS: usize = 256;
/// Bytes of a header that may differ in a frame that is still taken for a damaged one of ours.
const DAMAGED_BYTES: usize = 4;
/// Where the Ethernet addresses end.
const ADDRESSES: usize = 12;
/// Where the UDP ports begin in a frame without VLAN tag.
const PORTS: usize = 34;

/// A header, and how many frames had it.
struct Header {
    bytes: Vec<u8>,
    frames: u64,
}

/// The frames of one stream that arrived.
pub struct Arrivals {
    stream: u16,
    /// A frame as it is sent, without its tag.
    template: Vec<u8>,
    epoch: Instant,
    /// The time of the burst that is being taken in.
    now: Option<Duration>,
    seen: Vec<u64>,
    highest: Option<u32>,
    /// When the first frame was sent, and the one behind the last gap, in ps of the tags.
    first_ps: Option<u64>,
    behind_gap_ps: Option<u64>,
    distinct: u64,
    duplicated: u64,
    reordered: u64,
    headers: Vec<Header>,
    /// Frames with a whole tag and something else damaged.
    damaged: u64,
    /// Frames whose tag is damaged: which ones they were is not known.
    nameless: u64,
    foreign: u64,
    /// Kept apart by when frames came, if they are to be.
    latency: Vec<Latency>,
    part_ns: u64,
}

/// What has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Frames of the stream, each counted once, damaged ones among them.
    pub received: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames that came after one sent later.
    pub reordered: u64,
    /// Damaged frames, duplicates among them.
    pub corrupted: u64,
    /// Frames that are not of this stream.
    pub foreign: u64,
}

impl Arrivals {
    /// For a stream of frames like `template`, whose tags count from `epoch`; room for about `expected` of them.
    pub fn new(stream: u16, template: Vec<u8>, epoch: Instant, expected: u64) -> Self {
        let words = usize::try_from(expected / 64 + 1).unwrap_or(usize::MAX).min(1 << 24);
        Self {
            stream,
            template,
            epoch,
            now: None,
            seen: vec![0; words],
            highest: None,
            first_ps: None,
            behind_gap_ps: None,
            distinct: 0,
            duplicated: 0,
            reordered: 0,
            headers: Vec::new(),
            damaged: 0,
            nameless: 0,
            foreign: 0,
            latency: vec![Latency::default()],
            part_ns: u64::MAX,
        }
    }

    /// Latencies are kept apart in so many parts of a trial of this length.
    #[must_use]
    pub fn in_parts(mut self, parts: usize, length: Duration) -> Self {
        let parts = parts.max(1);
        self.latency.resize_with(parts, Latency::default);
        self.part_ns = (length.as_nanos() as u64 / parts as u64).max(1);
        self
    }

    /// A new burst begins: the next frame tells when.
    #[inline]
    pub fn burst(&mut self) {
        self.now = None;
    }

    /// Takes a frame, without FCS, into account; false if it is not of this stream.
    #[inline]
    pub fn take(&mut self, frame: &[u8]) -> bool {
        let Some(tag) = tag::read(frame) else { return self.take_untagged(frame) };
        if tag.stream != self.stream {
            self.foreign += 1;
            return false;
        }
        let first = self.mark(tag.sequence, tag.sent_ps);
        let (header, rest) = frame.split_at(tag::offset(frame));
        // `tag::read` has found all of the tag there.
        let rest = &rest[tag::BYTES..];
        let whole = frame.len() == self.template.len() && rest.iter().all(|&byte| byte == 0);
        if !whole {
            self.damaged += 1;
        } else {
            self.note(header);
        }
        if first && whole {
            let epoch = self.epoch;
            let now = *self.now.get_or_insert_with(|| epoch.elapsed());
            let (now_ns, last) = (now.as_nanos() as u64, self.latency.len() - 1);
            let part = if last == 0 { 0 } else { ((now_ns / self.part_ns) as usize).min(last) };
            self.latency[part].record(now_ns.saturating_sub(tag.sent_ps / 1000));
        }
        true
    }

    /// Marks a sequence number; true if it had not come yet.
    #[inline]
    fn mark(&mut self, sequence: u32, sent_ps: u64) -> bool {
        let (word, bit) = (sequence as usize / 64, 1 << (sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize((word + 1).next_power_of_two(), 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicated += 1;
            return false;
        }
        self.seen[word] |= bit;
        self.distinct += 1;
        match self.highest {
            Some(highest) if sequence < highest => self.reordered += 1,
            highest => {
                if sequence > highest.map_or(0, |highest| highest + 1) {
                    self.behind_gap_ps = Some(sent_ps);
                }
                self.first_ps.get_or_insert(sent_ps);
                self.highest = Some(sequence);
            }
        }
        true
    }

    /// Counts a header. The most frequent one is looked at first.
    #[inline]
    fn note(&mut self, header: &[u8]) {
        match self.headers.first_mut() {
            Some(most) if most.bytes == header => most.frames += 1,
            _ => self.note_another(header),
        }
    }

    #[cold]
    fn note_another(&mut self, header: &[u8]) {
        let Some(at) = self.headers.iter().position(|known| known.bytes == header) else {
            if self.headers.len() < HEADERS {
                self.headers.push(Header { bytes: header.to_vec(), frames: 1 });
            } else {
                self.damaged += 1;
            }
            return;
        };
        self.headers[at].frames += 1;
        if self.headers[at].frames > self.headers[0].frames {
            self.headers.swap(0, at);
        }
    }

    /// A frame without a whole tag: damaged, if what is before the tag is ours but for a few bytes.
    #[cold]
    fn take_untagged(&mut self, frame: &[u8]) -> bool {
        let end = tag::OFFSET.min(frame.len());
        let differ = |known: &[u8], from: usize| {
            let pairs = known.iter().zip(frame).take(end).skip(from);
            pairs.filter(|(a, b)| a != b).count()
        };
        let ours = frame.len() > PORTS
            && match self.headers.first() {
                Some(known) => differ(&known.bytes, 0) <= DAMAGED_BYTES,
                // No frame has come whole: addresses, TTL and checksum may have been rewritten.
                None => differ(&self.template, ADDRESSES) <= DAMAGED_BYTES,
            };
        *(if ours { &mut self.nameless } else { &mut self.foreign }) += 1;
        ours
    }

    /// Frames of the stream, each counted once.
    #[inline]
    pub fn received(&self) -> u64 {
        self.distinct + self.nameless
    }

    /// What has arrived so far.
    pub fn arrived(&self) -> Arrived {
        let rare: u64 = self.headers.iter().skip(1).map(|header| header.frames).sum();
        Arrived {
            received: self.received(),
            duplicated: self.duplicated,
            reordered: self.reordered,
            corrupted: self.damaged + self.nameless + rare,
            foreign: self.foreign,
        }
    }

    /// How long after the first frame that came one was sent that closed the last gap: nothing was lost after that, late
    /// frames aside. `None` if there was no gap; the end of time if the last of `sent` frames are missing.
    pub fn last_gap(&self, sent: u64) -> Option<Duration> {
        if self.highest.map_or(0, |highest| u64::from(highest) + 1) < sent {
            return Some(Duration::MAX);
        }
        let since_ps = self.behind_gap_ps?.saturating_sub(self.first_ps?);
        Some(Duration::from_nanos(since_ps / 1000))
    }

    /// Times from sending to receiving, of whole frames that came for the first time.
    pub fn into_latency(self) -> Vec<Latency> {
        self.latency
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::{Size, Tag};

    fn template() -> Vec<u8> {
        udp_test(&Flow::default(), Size::with_fcs(80)).unwrap()
    }

    fn frame(sequence: u32) -> Vec<u8> {
        let mut frame = template();
        tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps: 1 }).unwrap();
        frame
    }

    fn arrivals() -> Arrivals {
        Arrivals::new(7, template(), Instant::now(), 10)
    }

    #[test]
    fn each_mishap_has_its_name() {
        let mut all = arrivals();
        for sequence in [0, 1, 3, 2, 2, 100_000, 1, 4] {
            assert!(all.take(&frame(sequence)));
        }
        let expected = Arrived { received: 6, duplicated: 2, reordered: 2, ..Arrived::default() };
        assert_eq!(all.arrived(), expected);
        assert_eq!(all.into_latency()[0].frames(), 6);
    }

    #[test]
    fn any_flipped_bit_is_damage_and_no_loss() {
        let bits = template().len() * 8;
        // Not in the first frames: what is usual must be seen first, as damage is rare.
        for early in [false, true] {
            let mut all = arrivals();
            let mut sequence = 0;
            for bit in 0..bits {
                for damaged in [early, !early] {
                    let mut frame = frame(sequence);
                    sequence += 1;
                    if damaged {
                        frame[bit / 8] ^= 1 << (bit % 8);
                    }
                    all.take(&frame);
                }
            }
            let arrived = all.arrived();
            assert_eq!((arrived.received, arrived.corrupted), (2 * bits as u64, bits as u64));
            assert_eq!((arrived.foreign, arrived.duplicated), (0, 0));
        }
    }

    #[test]
    fn a_router_rewrites_all_frames_alike() {
        let mut all = arrivals();
        for sequence in 0..100 {
            let mut frame = frame(sequence);
            frame[..6].copy_from_slice(&[9; 6]);
            frame[22] -= 1;
            frame[24] += 1;
            all.take(&frame);
        }
        assert_eq!(all.arrived(), Arrived { received: 100, ..Arrived::default() });
    }

    #[test]
    fn the_last_gap_is_where_frames_were_lost_last() {
        let mut all = arrivals();
        let mut send = |sequence: u32| {
            let mut frame = template();
            tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps: u64::from(sequence) * 1_000_000 })
                .unwrap();
            all.take(&frame);
        };
        for sequence in [0, 1, 4, 5, 9, 10, 11] {
            send(sequence);
        }
        assert_eq!(all.last_gap(12), Some(Duration::from_micros(9)));
        assert_eq!(all.last_gap(13), Some(Duration::MAX), "the last one has not come");
        assert_eq!(arrivals().last_gap(1), Some(Duration::MAX));
        assert_eq!(arrivals().last_gap(0), None);
    }

    #[test]
    fn other_traffic_is_foreign() {
        let mut all = arrivals();
        all.take(&frame(0));
        assert!(!all.take(&[0xff; 60]) && !all.take(&[]));
        let mut other = frame(1);
        tag::write(&mut other, Tag { stream: 8, sequence: 1, sent_ps: 0 }).unwrap();
        assert!(!all.take(&other), "of an earlier trial, or of another tester");
        let cut = &frame(2)[..50];
        assert!(all.take(cut), "a frame that was cut off");
        let expected = Arrived { received: 2, corrupted: 1, foreign: 3, ..Arrived::default() };
        assert_eq!(all.arrived(), expected);
    }
}
