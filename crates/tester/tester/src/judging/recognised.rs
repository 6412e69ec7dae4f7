//! The frames of a replayed capture that arrive. They carry no tags, so each is recognised by a hash of its
//! bytes from the network layer on, without what routers change (hops left, IPv4's checksum) and switches
//! change (Ethernet addresses, VLAN tags).
//!
//! A kernel that merges frames (GRO) does not keep all of IPv4's identifications. So a frame with an unknown
//! one and a right header checksum is recognised without it.
//!
//! Equal frames are counted together: if as many arrive as were sent, none is missing; additional ones are
//! duplicates. So a loss and a duplicate of equal frames cancel out, as do those of one frame in two passes
//! of the capture. When a frame was sent is unknown: there are no latencies. A frame that was damaged, or
//! rewritten in another way, counts as other traffic and as missing. Order is judged by frames that the
//! capture has once, each by its place in the nearest pass. That is right for gaps and delays of less than
//! half of the capture.

use crate::judging::kept::{Anomalies, Keeper, Kept, Noted};
use crate::judging::received::{Arrived, Received};
use crate::judging::stream::StreamArrivals;
use kpps_frames::Templates;
use kpps_frames::checksum::checksum;
use kpps_frames::ethernet::{TYPE_IPV4, TYPE_IPV6, TYPE_VLAN};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Protocols whose headers begin with two ports: TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// A frame's network packet, with its type before it and without VLAN tags.
fn packet(frame: &[u8]) -> &[u8] {
    let mut at = 12;
    while number(frame, at) == Some(TYPE_VLAN) {
        at += 4;
    }
    frame.get(at..).unwrap_or_default()
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The bytes of a frame that stay the same on its path.
fn fingerprint(frame: &[u8]) -> u64 {
    const HOPS_AND_CHECKSUM: [usize; 3] = [2 + 8, 2 + 10, 2 + 11];
    hashed(packet(frame), &HOPS_AND_CHECKSUM)
}

/// The same of an IPv4 packet without its identification.
fn unnumbered(frame: &[u8]) -> Option<u64> {
    const AND_IDENTIFICATION: [usize; 5] = [2 + 4, 2 + 5, 2 + 8, 2 + 10, 2 + 11];
    let packet = packet(frame);
    (number(packet, 0) == Some(TYPE_IPV4)).then(|| hashed(packet, &AND_IDENTIFICATION))
}

/// Whether the header of an IPv4 packet is undamaged.
fn has_right_sum(frame: &[u8]) -> bool {
    let ip = packet(frame).get(2..).unwrap_or_default();
    let bytes = 4 * usize::from(ip.first().map_or(0, |byte| byte & 0xf));
    bytes >= 20 && ip.get(..bytes).is_some_and(|header| checksum(header) == 0)
}

/// A hash of a packet without its hops left, its checksum, and what else is not in `of_ipv4`.
fn hashed(packet: &[u8], of_ipv4: &[usize]) -> u64 {
    // Type and packet, without the padding behind its length.
    let (changes, length): (&[usize], _) = match number(packet, 0) {
        Some(TYPE_IPV4) => (of_ipv4, number(packet, 4).map(|bytes| 2 + usize::from(bytes))),
        Some(TYPE_IPV6) => (&[2 + 7], number(packet, 6).map(|bytes| 2 + 40 + usize::from(bytes))),
        _ => (&[], None),
    };
    let length = length.filter(|length| (22..packet.len()).contains(length)).unwrap_or(packet.len());
    let packet = &packet[..length];
    let mut hash = DefaultHasher::new();
    let mut from = 0;
    for &change in changes {
        hash.write(packet.get(from..change).unwrap_or_default());
        from = change + 1;
    }
    hash.write(packet.get(from..).unwrap_or_default());
    hash.finish()
}

/// The key of a frame's flow: addresses, protocol and ports; the type of frames that are not IP.
fn flow(frame: &[u8]) -> u64 {
    let packet = packet(frame);
    let kind = number(packet, 0);
    let ip = packet.get(2..).unwrap_or_default();
    let (protocol, addresses, ports) = match kind {
        Some(TYPE_IPV4) => {
            let whole = number(ip, 6).is_some_and(|fragment| fragment & 0x3fff == 0);
            let header = 4 * usize::from(ip.first().map_or(0, |byte| byte & 0xf));
            (ip.get(9), ip.get(12..20), ip.get(header..header + 4).filter(|_| whole))
        }
        Some(TYPE_IPV6) => (ip.get(6), ip.get(8..40), ip.get(40..44)),
        _ => (None, None, None),
    };
    let ports = ports.filter(|_| protocol.is_some_and(|protocol| WITH_PORTS.contains(protocol)));
    let mut hash = DefaultHasher::new();
    (kind, protocol, addresses, ports).hash(&mut hash);
    hash.finish()
}

/// Equal frames of a capture.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// Their number in a pass.
    in_a_pass: u64,
    /// The place of the first one.
    at: u64,
    /// Their flow.
    flow: usize,
}

/// The frames of a capture, by their hashes.
#[derive(Debug, Default)]
pub struct Classes {
    known: HashMap<u64, u32>,
    /// The classes of IPv4 packets by their hashes without identification.
    unnumbered: HashMap<u64, Vec<u32>>,
    classes: Vec<Class>,
    /// The class of each frame, in order.
    order: Vec<u32>,
    flows: usize,
}

/// Skipped frames of a plan: the number of the first, and how many.
pub type Skipped = (u64, u64);

impl Classes {
    /// For `count` frames, which are sent one after the other, and then again from the first.
    pub fn new(frames: &Templates, count: u64) -> Self {
        let mut all = Self::default();
        let mut flows = HashMap::new();
        let mut bytes = vec![0; usize::from(u16::MAX)];
        for n in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            let Some(length) = frames.at(n.into()).and_then(|frame| frame.write(&mut bytes)) else { break };
            let frame = &bytes[..length.into()];
            let next = all.classes.len() as u32;
            let class = *all.known.entry(fingerprint(frame)).or_insert(next);
            if class == next {
                let next = flows.len();
                let flow = *flows.entry(flow(frame)).or_insert(next);
                all.classes.push(Class { in_a_pass: 0, at: n.into(), flow });
                if let Some(hash) = unnumbered(frame) {
                    all.unnumbered.entry(hash).or_default().push(class);
                }
            }
            all.classes[class as usize].in_a_pass += 1;
            all.order.push(class);
        }
        all.flows = flows.len();
        all
    }

    /// Frames of one pass.
    fn pass(&self) -> u64 {
        (self.order.len() as u64).max(1)
    }

    /// Frames of a pass that have equals in it, so that their order is not judged.
    pub fn with_equals(&self) -> u64 {
        self.classes.iter().map(|class| class.in_a_pass).filter(|frames| *frames > 1).sum()
    }

    /// Frames without duplicates, and duplicates, from the number of arrived frames of each class. `given`
    /// frames were sent, without the skipped ones.
    pub fn tally(&self, arrived: &[u64], given: u64, skipped: &[Skipped]) -> (u64, u64) {
        let all = given + skipped.iter().map(|(_, frames)| frames).sum::<u64>();
        let mut of_each: Vec<u64> =
            self.classes.iter().map(|class| class.in_a_pass * (all / self.pass())).collect();
        for class in &self.order[..(all % self.pass()) as usize] {
            of_each[*class as usize] += 1;
        }
        for &(first, frames) in skipped {
            for n in first..first + frames {
                if let Some(class) = self.order.get((n % self.pass()) as usize) {
                    of_each[*class as usize] = of_each[*class as usize].saturating_sub(1);
                }
            }
        }
        let each = || arrived.iter().zip(&of_each);
        (
            each().map(|(came, sent)| *came.min(sent)).sum(),
            each().map(|(came, sent)| came.saturating_sub(*sent)).sum(),
        )
    }
}

/// The frames that arrive.
pub struct Recognised {
    classes: Arc<Classes>,
    /// Frames of each class, and the pass after which the last one was assumed to be.
    arrived: Vec<u64>,
    passes: Vec<u64>,
    /// The last pass.
    most_passes: u64,
    /// The number of the latest frame; and of each flow, one more than its latest.
    latest: u64,
    next: Vec<u64>,
    known: u64,
    reordered: u64,
    other_traffic: u64,
    keeper: Option<Keeper>,
}

impl Recognised {
    /// A receiver of `count` sent frames of these classes.
    pub fn new(classes: Arc<Classes>, count: u64) -> Self {
        Self {
            arrived: vec![0; classes.classes.len()],
            passes: vec![0; classes.classes.len()],
            most_passes: count.div_ceil(classes.pass()).max(1),
            latest: 0,
            next: vec![0; classes.flows],
            classes,
            known: 0,
            reordered: 0,
            other_traffic: 0,
            keeper: None,
        }
    }

    /// Keeps frames of other traffic, late frames and duplicates, up to a limit.
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.keeper = Some(Keeper::new());
        self
    }

    /// Notes the judgement of each frame, so that it can be [asked for](Self::judged).
    #[must_use]
    pub(crate) fn noting(mut self) -> Self {
        self.keeper.get_or_insert_with(Keeper::noting);
        self
    }

    /// How the last frame was judged. Judgements are to be [noted](Self::noting).
    pub(crate) fn judged(&mut self) -> Noted {
        self.keeper.as_mut().and_then(Keeper::take_noted).unwrap_or_default()
    }

    /// Counts a frame, without FCS, with the time when the kernel received it, in ns since 1970, if that is
    /// known. Returns false if it is not of the capture.
    pub fn take(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        let class = self.class(frame);
        let mut anomalies = Anomalies { other_traffic: class.is_none(), ..Anomalies::default() };
        match class {
            None => self.other_traffic += 1,
            Some(class) => {
                self.known += 1;
                self.arrived[class] += 1;
                let of = self.classes.classes[class];
                anomalies.duplicated = self.arrived[class] > of.in_a_pass * self.most_passes;
                anomalies.reordered = of.in_a_pass == 1 && self.is_late(class, of);
                self.reordered += u64::from(anomalies.reordered);
            }
        }
        if anomalies != Anomalies::default()
            && let Some(keeper) = &mut self.keeper
        {
            keeper.keep((frame, stamp), (0, None), anomalies, None);
        }
        class.is_some()
    }

    /// The class of a frame, if it is of the capture.
    fn class(&self, frame: &[u8]) -> Option<usize> {
        let Classes { known, unnumbered: without, classes, .. } = &*self.classes;
        if let Some(class) = known.get(&fingerprint(frame)) {
            return Some(*class as usize);
        }
        let alike = without.get(&unnumbered(frame)?).filter(|_| has_right_sum(frame))?;
        // Of several classes, the class with the most missing frames.
        let passes = |class: usize| self.arrived[class] / classes[class].in_a_pass.max(1);
        alike.iter().map(|class| *class as usize).min_by_key(|class| passes(*class))
    }

    /// Whether a frame arrived after a later frame of its flow. A frame that has arrived before in the
    /// nearest pass is a duplicate, or belongs to another pass: its order is unknown.
    fn is_late(&mut self, class: usize, of: Class) -> bool {
        let pass = self.classes.pass();
        let nearest = ((self.latest + pass / 2).saturating_sub(of.at) / pass).min(self.most_passes - 1);
        if self.passes[class] > nearest {
            return false;
        }
        self.passes[class] = nearest + 1;
        let number = of.at + nearest * pass;
        self.latest = self.latest.max(number);
        let next = &mut self.next[of.flow];
        let late = number < *next;
        *next = (*next).max(number + 1);
        late
    }

    /// Frames of the capture so far, duplicates included.
    pub fn received(&self) -> u64 {
        self.known
    }

    /// The arrivals so far, as far as they are known while frames are sent.
    pub fn arrived(&self) -> Arrived {
        let Self { known, reordered, other_traffic, .. } = *self;
        Arrived { received: known, reordered, other_traffic, ..Arrived::default() }
    }

    /// The kept frames with anomalies.
    pub fn take_kept(&mut self) -> Kept {
        self.keeper.take().map(|keeper| keeper.finish::<StreamArrivals>(&[])).unwrap_or_default()
    }

    /// The frames that arrived, and how many of each class, for [`Classes::tally`].
    pub fn finish(mut self) -> (Received, Vec<u64>) {
        let (arrived, kept) = (self.arrived(), self.take_kept());
        (Received { arrived, kept, ..Received::default() }, self.arrived)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::{Size, checksum};
    use proptest::prelude::*;

    fn frame(port: u16, sequence: u8) -> Vec<u8> {
        let flow = Flow { from: ([10, 0, 0, 1].into(), port), ..Flow::default() };
        let mut frame = udp_test(&flow, Size::with_fcs(80)).unwrap();
        frame[70] = sequence;
        frame
    }

    fn classes(frames: &[Vec<u8>]) -> Arc<Classes> {
        let templates = Templates::each(frames.iter().map(Vec::as_slice));
        Arc::new(Classes::new(&templates, frames.len() as u64))
    }

    #[test]
    fn frames_are_known_behind_a_router_and_counted_each_once() {
        let frames = [frame(1, 0), frame(2, 0), frame(1, 0), vec![9; 60]];
        let classes = classes(&frames);
        let mut all = Recognised::new(classes.clone(), 6).keeping();
        let mut routed = frame(1, 0);
        routed[..12].fill(3);
        routed[22] -= 1;
        routed[24..26].fill(0);
        let sum = checksum::checksum(&routed[14..34]);
        routed[24..26].copy_from_slice(&sum.to_be_bytes());
        // Sent tagged, and padded on the way.
        let tagged = [&frames[1][..12], &[0x81, 0, 0, 7], &frames[1][12..], &[0; 4]].concat();
        for frame in [&routed, &frames[0], &tagged, &frames[3]] {
            assert!(all.take(frame, None));
        }
        assert_eq!(classes.tally(&all.arrived, 4, &[]), (4, 0));
        let mut damaged = frame(1, 0);
        damaged[50] ^= 1;
        assert!(!all.take(&damaged, Some(7)) && !all.take(&[], None) && !all.take(&frame(3, 0), None));
        assert!(all.take(&frames[1], None));
        assert_eq!(classes.tally(&all.arrived, 4, &[]), (4, 1));
        assert_eq!(classes.tally(&all.arrived, 6, &[]), (5, 0));
        assert_eq!(
            classes.tally(&all.arrived, 5, &[(1, 1)]),
            (4, 1),
            "the second one was not sent in the first pass"
        );
        assert_eq!((all.arrived().received, all.arrived().other_traffic, classes.with_equals()), (5, 3, 2));
        let kept = all.take_kept();
        assert_eq!((kept.frames.len(), kept.frames[0].at_ns, &kept.frames[0].frame), (3, 7, &damaged));
    }

    /// The identifications of merged frames, as a port cuts them: they count up from the first one.
    #[test]
    fn frames_that_were_merged_are_known_whatever_their_identifications() {
        let with = |mut frame: Vec<u8>, identification: u16| {
            frame[18..20].copy_from_slice(&identification.to_be_bytes());
            frame[24..26].fill(0);
            let sum = checksum::checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame
        };
        // Different frames of one identification, and equal frames that differ in it alone.
        let sent: Vec<_> =
            (0..9).map(|n| with(frame(1, n.min(4)), 0x1234 + u16::from(n.saturating_sub(4)))).collect();
        let classes = classes(&sent);
        let mut all = Recognised::new(classes.clone(), 9).keeping();
        for (n, frame) in sent.iter().enumerate() {
            assert!(all.take(&with(frame.clone(), 0x4321 + n as u16), None));
        }
        assert_eq!(classes.tally(&all.arrived, 9, &[]), (9, 0));
        assert_eq!((all.arrived().reordered, all.arrived().other_traffic), (0, 0));
        let mut damaged = sent[0].clone();
        damaged[19] ^= 1;
        assert!(!all.take(&damaged, None), "its checksum is wrong");
    }

    #[test]
    fn headers_that_make_no_sense_are_frames_like_others() {
        let mut short = frame(1, 0);
        short[16..18].fill(0);
        let mut other = short.clone();
        other[70] = 9;
        assert_ne!(fingerprint(&short), fingerprint(&other), "a length of 0 leaves nothing out");
        for length in 0..short.len() {
            fingerprint(&short[..length]);
            flow(&short[..length]);
        }
    }

    #[test]
    fn order_is_that_of_each_flow() {
        // Two flows in turns, three passes.
        let frames: Vec<_> = (0..20).map(|n| frame(1 + n % 2, n as u8)).collect();
        let mut all = Recognised::new(classes(&frames), 60);
        let sent: Vec<usize> = (0..60).map(|n| n % 20).collect();
        let mut came = sent.clone();
        // Neighbours are of different flows and may overtake each other; 25 arrives after 27 and is late; 33
        // is lost, 36 arrives twice, and from 41 to 48 all are lost.
        came.swap(2, 3);
        came.swap(25, 27);
        came.drain(41..49);
        came.insert(37, 36 % 20);
        came.remove(33);
        for n in came {
            assert!(all.take(&frames[n], None));
        }
        assert_eq!(all.arrived().reordered, 1);
    }

    proptest! {
        /// Losses and duplicates of different frames are all counted, and those of equal frames as far as
        /// possible.
        #[test]
        fn losses_and_duplicates_are_counted(
            kinds in prop::collection::vec(0u8..6, 1..30),
            fate in prop::collection::vec(0u8..3, 1..90),
            skip in 0u64..20,
        ) {
            let frames: Vec<_> = kinds.iter().map(|kind| frame(1, *kind)).collect();
            let classes = classes(&frames);
            let mut all = Recognised::new(classes.clone(), fate.len() as u64);
            let skipped = [(skip, 3)];
            let mut of_each = [(0u64, 0u64); 6];
            let mut sent = 0;
            for (n, fate) in (0u64..).zip(&fate) {
                if (skip..skip + 3).contains(&n) {
                    continue;
                }
                let kind = (n % frames.len() as u64) as usize;
                sent += 1;
                of_each[usize::from(kinds[kind])].0 += 1;
                for _ in 0..*fate {
                    of_each[usize::from(kinds[kind])].1 += 1;
                    prop_assert!(all.take(&frames[kind], None));
                }
            }
            prop_assume!(fate.len() as u64 >= skip + 3);
            let received = of_each.iter().map(|(sent, came)| came.min(sent)).sum::<u64>();
            let doubled = of_each.iter().map(|(sent, came)| came.saturating_sub(*sent)).sum::<u64>();
            prop_assert_eq!(classes.tally(&all.finish().1, sent, &skipped), (received, doubled));
        }

        /// In one pass of different frames, exactly the frames after a later one are late.
        #[test]
        fn order_in_one_pass_is_exact(came in prop::collection::vec(0usize..20, 0..40)) {
            let frames: Vec<_> = (0..20).map(|n| frame(1, n)).collect();
            let mut all = Recognised::new(classes(&frames), 20);
            let (mut seen, mut highest, mut late) = ([false; 20], 0, 0);
            for n in came {
                all.take(&frames[n], None);
                if !seen[n] {
                    seen[n] = true;
                    late += u64::from(n < highest);
                    highest = highest.max(n);
                }
            }
            prop_assert_eq!(all.arrived().reordered, late);
        }
    }
}
