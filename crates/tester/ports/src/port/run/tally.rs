//! Counts the frames of each stream, by their tags. Frames of trials are other frames.

use kpps_frames::ethernet::{self, TYPE_IPV4, TYPE_IPV6};
use kpps_frames::tag::{self, TagFormat};
use kpps_frames::{Tag, ipv6, udp};
use std::collections::{BTreeMap, HashMap};

/// The window in which a late frame is distinguished from a duplicate, in frames of its stream.
const WINDOW: u64 = 4096;
/// The words of its bits.
const WORDS: usize = WINDOW as usize / 64;

/// The counts of one stream.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Frames with a good tag, duplicates included.
    pub received: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames that arrived after a frame that was sent later.
    pub reordered: u64,
    /// The lowest sequence number, and the one after the highest.
    first: u64,
    next: u64,
    /// Which of the last `WINDOW` numbers have arrived, by their low bits.
    seen: Box<[u64; WORDS]>,
}

impl Tally {
    fn new(sequence: u64) -> Self {
        Self {
            received: 0,
            duplicated: 0,
            reordered: 0,
            first: sequence,
            next: sequence,
            seen: Box::new([0; WORDS]),
        }
    }

    /// Frames missing between the first and the last one that arrived.
    pub fn lost(&self) -> u64 {
        (self.next - self.first).saturating_sub(self.received - self.duplicated)
    }

    #[inline]
    fn bit(sequence: u64) -> (usize, u64) {
        let place = sequence % WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }

    /// Counts a frame if it is the next of its stream. Returns whether it is.
    #[inline]
    fn take_next(&mut self, sequence: u64) -> bool {
        if sequence != self.next {
            return false;
        }
        self.received += 1;
        let (word, bit) = Self::bit(sequence);
        self.seen[word] |= bit;
        self.next = sequence + 1;
        true
    }

    /// Counts a frame, but not its order. Returns whether it arrives after a frame that was sent later.
    fn take(&mut self, sequence: u64) -> bool {
        if self.take_next(sequence) {
            return false;
        }
        self.received += 1;
        let (word, bit) = Self::bit(sequence);
        if sequence < self.next {
            // A number before the window cannot be checked: the frame counts as late.
            let known = self.next - sequence <= WINDOW;
            if known && self.seen[word] & bit != 0 {
                self.duplicated += 1;
                return false;
            }
            if known {
                self.seen[word] |= bit;
            }
            self.first = self.first.min(sequence);
            return true;
        }
        // The numbers in between have not arrived. Their bits are cleared, because numbers that left the
        // window used the same bits.
        for missing in self.next..self.next + (sequence - self.next).min(WINDOW) {
            let (word, bit) = Self::bit(missing);
            self.seen[word] &= !bit;
        }
        self.seen[word] |= bit;
        self.next = sequence + 1;
        false
    }
}

/// The latest frame of each flow: stream, addresses and ports.
#[derive(Clone, Debug, Default)]
struct Flows(HashMap<(u16, [u8; 36]), u64>);

impl Flows {
    /// Whether a tagged frame arrives after a frame of its flow that was sent later.
    fn is_late(&mut self, frame: &[u8], stream: u16, sequence: u64) -> bool {
        let ports = tag::offset(frame) - udp::HEADER_BYTES;
        // Addresses end where ports begin. Only an IPv6 header is long enough for IPv6 addresses.
        let is_ipv6 = ports >= ethernet::HEADER_BYTES + ipv6::HEADER_BYTES;
        let from = ports - if is_ipv6 { 32 } else { 8 };
        let mut key = [0; 36];
        key.iter_mut().zip(&frame[from..ports + 4]).for_each(|(to, byte)| *to = *byte);
        let latest = self.0.entry((stream, key)).or_insert(sequence);
        let late = sequence < *latest;
        if !late {
            *latest = sequence;
        }
        late
    }
}

/// The counts of all streams.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    streams: BTreeMap<u16, Tally>,
    /// The stream of the last frame.
    current: Option<(u16, Box<Tally>)>,
    /// Test frames with a damaged tag or payload.
    pub corrupted: u64,
    /// Other frames.
    pub others: u64,
    /// The latest frames, if order is judged for each flow.
    flows: Option<Flows>,
}

/// The UDP port of test frames, and its distance before the tag.
const DISCARD: [u8; 2] = [0, 9];
const TO_PORT: usize = 6;
const PROTOCOL_UDP: u8 = 17;
/// The first byte of an IP header, its distance before that port, and the offset of the protocol in the
/// header.
const IPV4: (u8, usize, usize) = (0x45, 22, 9);
const IPV6: (u8, usize, usize) = (0x60, 42, 6);

impl Streams {
    /// Judges the order of each flow, not of the whole stream: for a path on which flows may overtake each
    /// other.
    #[must_use]
    pub fn by_flow() -> Self {
        Self { flows: Some(Flows::default()), ..Self::default() }
    }

    /// Counts a frame, without FCS.
    #[inline]
    pub fn take(&mut self, frame: &[u8]) {
        // The path of most frames: all offsets are constants, and a frame without a tag saves no registers.
        let head = frame.first_chunk::<{ tag::OFFSET + tag::BYTES }>();
        let Some(head) = head.filter(|head| [head[12], head[13]] == TYPE_IPV4.to_be_bytes()) else {
            return self.take_elsewhere(frame);
        };
        const PORT: usize = tag::OFFSET - TO_PORT;
        let (version, before, protocol) = IPV4;
        let tag = head.last_chunk().and_then(tag::from_bytes);
        let tag = tag.map(|(trial, tag)| (trial, tag, tag::OFFSET));
        let ip = &head[PORT - before..];
        self.take_read(frame, tag, |_| {
            ip[0] == version && ip[protocol] == PROTOCOL_UDP && [head[PORT], head[PORT + 1]] == DISCARD
        });
    }

    /// [`take`](Self::take) for a frame with a VLAN tag, of another type, or a short one.
    #[inline(never)]
    fn take_elsewhere(&mut self, frame: &[u8]) {
        self.take_read(frame, TagFormat::default().read_any(frame), is_ours);
    }

    /// Counts a frame whose trial, tag and position of the tag were read.
    #[inline(always)]
    fn take_read(&mut self, frame: &[u8], tag: Option<(u32, Tag, usize)>, is_ours: impl Fn(&[u8]) -> bool) {
        match tag {
            Some((0, tag, at)) if is_clean(frame, at) => self.take_tagged(frame, tag),
            Some((0, ..)) => self.corrupted += 1,
            // The frame belongs to another tester.
            Some(_) => self.others += 1,
            // A damaged tag follows good headers. Anything else is another frame.
            None if is_ours(frame) => self.corrupted += 1,
            None => self.others += 1,
        }
    }

    #[inline]
    fn take_tagged(&mut self, frame: &[u8], tag: Tag) {
        let current = self.current.as_mut().filter(|(current, _)| *current == tag.stream);
        let next = |(_, tally): &mut (_, Box<Tally>)| tag.can_be(tally.next) && tally.take_next(tally.next);
        let is_next = self.flows.is_none() && current.is_some_and(next);
        if !is_next {
            self.take_unusual(frame, tag);
        }
    }

    /// Counts a tagged frame that does not follow the last frame of the same stream, or whose flow is
    /// recorded. This is a separate function, so that the common path need not save the registers that it
    /// uses.
    #[inline(never)]
    fn take_unusual(&mut self, frame: &[u8], tag: Tag) {
        let stream = tag.stream;
        if self.current.as_ref().is_none_or(|(current, _)| *current != stream) {
            self.change_to(stream);
        }
        let new = || (stream, Box::new(Tally::new(tag.sequence)));
        let (_, tally) = self.current.get_or_insert_with(new);
        let sequence = tag.sequence_near(tally.next);
        let of_flow = self.flows.as_mut().map(|flows| flows.is_late(frame, stream, sequence));
        let late = tally.take(sequence);
        tally.reordered += u64::from(late && of_flow.unwrap_or(true));
    }

    #[cold]
    fn change_to(&mut self, to: u16) {
        if let Some((stream, tally)) = self.current.take() {
            self.streams.insert(stream, *tally);
        }
        self.current = self.streams.remove(&to).map(|tally| (to, Box::new(tally)));
    }

    /// The streams by number.
    pub fn all(&self) -> BTreeMap<u16, &Tally> {
        let current = self.current.iter().map(|(stream, tally)| (*stream, &**tally));
        self.streams.iter().map(|(stream, tally)| (*stream, tally)).chain(current).collect()
    }

    /// Frames with good tags, of all streams, without duplicates.
    pub fn unique(&self) -> u64 {
        self.all().values().map(|tally| tally.received - tally.duplicated).sum()
    }
}

/// Whether a frame's headers are those of a test frame.
fn is_ours(frame: &[u8]) -> bool {
    let port = tag::offset(frame) - TO_PORT;
    let header = |kind: [u8; 2], (version, before, protocol): (u8, usize, usize)| {
        let Some(at) = port.checked_sub(before) else { return false };
        frame.get(at - 2..at) == Some(&kind)
            && frame.get(at) == Some(&version)
            && frame.get(at + protocol) == Some(&PROTOCOL_UDP)
    };
    let ip = header(TYPE_IPV4.to_be_bytes(), IPV4) || header(TYPE_IPV6.to_be_bytes(), IPV6);
    ip && frame.get(port..port + 2) == Some(&DISCARD)
}

/// Whether the bytes behind a tag at `at` are zero, as in test frames.
#[inline]
fn is_clean(frame: &[u8], at: usize) -> bool {
    // Most frames end behind the tag.
    frame.len() <= at + tag::BYTES
        || frame.get(at + tag::BYTES..).is_none_or(|rest| rest.iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::{Mac, Size};
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];

    fn frame(stream: u16, sequence: u64) -> Vec<u8> {
        let mut frame = udp_test(&Flow::default(), Size::with_fcs(100)).unwrap();
        tag::write(&mut frame, Tag { stream, sequence, sent_ps: 0 }).unwrap();
        frame
    }

    fn one(sequences: &[u64]) -> (u64, u64, u64, u64) {
        let mut streams = Streams::default();
        for &sequence in sequences {
            streams.take(&frame(1, sequence));
        }
        let all = streams.all();
        let tally = all[&1];
        (tally.received, tally.lost(), tally.duplicated, tally.reordered)
    }

    #[test]
    fn each_mishap_has_its_name() {
        assert_eq!(one(&[0, 1, 2, 3]), (4, 0, 0, 0));
        assert_eq!(one(&[7, 9]), (2, 1, 0, 0));
        assert_eq!(one(&[0, 1, 1, 2]), (4, 0, 1, 0));
        assert_eq!(one(&[0, 2, 1, 3]), (4, 0, 0, 1));
        assert_eq!(one(&[5, 4, 6]), (3, 0, 0, 1));
        let wide = u64::from(u32::MAX);
        assert_eq!(one(&[wide, wide + 1, wide + 2, wide + 1]), (4, 0, 1, 0), "beyond 32 bits");
        assert_eq!(one(&[0, 1_000_000, 999_999]), (3, 999_998, 0, 1));
        assert_eq!(one(&[0, 4094, 0]), (3, 4093, 1, 0));
    }

    /// A frame of a flow.
    fn of_flow(flow: u16, sequence: u64, ipv6: bool, vlan: Option<u16>) -> Vec<u8> {
        let size = Size::with_fcs(100);
        let mut frame = if ipv6 {
            let [from, to] = [1, 2].map(|n| Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, n));
            let flow = Flow { from_mac: MACS[0], to_mac: MACS[1], vlan, from: (from, 1 + flow), to: (to, 9) };
            udp_test(&flow, size).unwrap()
        } else {
            udp_test(&Flow { from: ([10, 0, 0, 1].into(), 1 + flow), vlan, ..Flow::default() }, size).unwrap()
        };
        tag::write(&mut frame, Tag { stream: 1, sequence, sent_ps: 0 }).unwrap();
        frame
    }

    #[test]
    fn flows_may_overtake_each_other_where_it_is_said_that_they_may() {
        for (ipv6, vlan) in [(false, None), (false, Some(7)), (true, None), (true, Some(7))] {
            for (mut streams, reordered) in [(Streams::default(), 3), (Streams::by_flow(), 1)] {
                // The second flow is late, and its 3 comes after its 5.
                for (flow, sequence) in [(0, 0), (0, 2), (1, 1), (1, 5), (0, 4), (1, 3), (1, 3), (0, 6)] {
                    streams.take(&of_flow(flow, sequence, ipv6, vlan));
                }
                let all = streams.all();
                let tally = all[&1];
                assert_eq!((tally.received, tally.lost(), tally.duplicated), (8, 0, 1), "{ipv6} {vlan:?}");
                assert_eq!(tally.reordered, reordered, "{ipv6} {vlan:?}");
            }
        }
    }

    #[test]
    fn damage_is_told_from_other_traffic() {
        let mut streams = Streams::default();
        let good = frame(3, 0);
        for at in [45, 59, 60, 95] {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            streams.take(&bad);
        }
        assert_eq!((streams.corrupted, streams.others), (4, 0));
        let mut other = good.clone();
        other[12] = 0x86;
        other[45] = 1;
        streams.take(&other);
        streams.take(&[0; 10]);
        streams.take(&good);
        assert_eq!((streams.corrupted, streams.others, streams.unique()), (4, 2, 1));
        // Frames that end before the end of the tag, and frames with other headers.
        for cut in [good[..59].to_vec(), good[..38].to_vec(), good[..37].to_vec(), good[..17].to_vec()] {
            streams.take(&cut);
        }
        assert_eq!((streams.corrupted, streams.others, streams.unique()), (6, 4, 1));
        for (ipv6, vlan) in [(false, Some(7)), (true, None), (true, Some(7))] {
            let mut bad = of_flow(0, 1, ipv6, vlan);
            bad[tag::offset(&of_flow(0, 1, ipv6, vlan))] ^= 1;
            streams.take(&bad);
        }
        assert_eq!((streams.corrupted, streams.others, streams.unique()), (9, 4, 1));
    }

    proptest! {
        /// Loss, duplication and reordering of a few hundred frames of two streams are counted right.
        #[test]
        fn counts_agree_with_sets(
            start in 100_000u64..1 << 35,
            moves in prop::collection::vec((any::<bool>(), 0i64..60), 1..400),
        ) {
            let mut streams = Streams::default();
            let mut models = [(Vec::<i64>::new(), 0u64, 0u64), (Vec::new(), 0, 0)];
            let mut position = [0i64, 0];
            for (which, step) in moves {
                let which = usize::from(which);
                // Mostly the next number, sometimes a leap or a step back.
                position[which] += match step { 0..=4 => -step, 5..=9 => step, 10..=12 => 0, _ => 1 };
                let at = position[which];
                let (seen, duplicated, reordered) = &mut models[which];
                if seen.contains(&at) {
                    *duplicated += 1;
                } else {
                    *reordered += u64::from(seen.iter().any(|&s| s > at));
                    seen.push(at);
                }
                streams.take(&frame(which as u16, start.wrapping_add_signed(at)));
            }
            for (stream, tally) in streams.all() {
                let (seen, duplicated, reordered) = &models[usize::from(stream)];
                let span = seen.iter().max().unwrap() - seen.iter().min().unwrap() + 1;
                prop_assert_eq!(tally.duplicated, *duplicated);
                prop_assert_eq!(tally.reordered, *reordered);
                prop_assert_eq!(tally.lost(), span as u64 - seen.len() as u64);
                prop_assert_eq!(tally.received, seen.len() as u64 + duplicated);
            }
        }
    }
}
