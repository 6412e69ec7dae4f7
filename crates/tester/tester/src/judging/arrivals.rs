//! The frames of one stream that arrive, one by one.
//!
//! Each sequence number has a bit ([`Seen`]), which distinguishes a duplicate from a late frame. The number
//! also gives the frame's flow and size, and so its headers as they were sent ([`Templates`]). A frame is
//! whole if its tag is intact, if zeros follow the tag, and if its headers differ from the sent ones as
//! those of most frames do: a router rewrites the stations of all frames alike. Copies of a frame that has
//! arrived do not decide what is usual. The first intact copy counts as the frame; damaged copies are
//! duplicates. A changed copy sent back by someone else therefore cannot damage a good frame. Fields that a
//! right checksum covers may differ ([`header`](super::header)). The identification may differ in any case:
//! it means nothing in packets that are not fragments (RFC 6864, 4.1), and the kernel numbers the frames of
//! a message that it cuts.
//!
//! A frame with a whole tag of another trial or stream is other traffic. Frames without a whole tag are
//! judged at the end, when it is known which Ethernet addresses the stream's frames arrive with, and how many
//! are missing that no place has dropped. Frames whose headers and rest of the tag are the stream's, but for
//! a few bytes, are frames of the stream or copies ([`Arrived::settle`]). Frames with its headers and nothing
//! like its tag may also be frames of others ([`Arrived::settle_tagless`]).
//!
//! Frames with other VLAN tags than they should arrive with are not damaged: the device under test, or the
//! trial, is configured in another way. These and fragments are [reported](Arrivals::findings).

use crate::clock::{Gain, TimeOfDay};
use crate::judging::header::{Change, LONGEST, Outline};
use crate::judging::kept::{Anomalies, Judged, Keeper, Kept};
use crate::judging::losses::{Losses, SequenceGap, SequenceGaps};
use crate::judging::received::{Arrived, Findings, OfFlow, Received};
use crate::judging::seen::Seen;
use crate::judging::timeline::{ArrivalLine, Timeline};
use kpps_documents::FlowLatency;
use kpps_documents::detail::{Arrival, ArrivalBy};
use kpps_frames::Templates;
use kpps_frames::ethernet::{HEADER_BYTES, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN};
use kpps_frames::headers::{Headers, TYPE_SERVICE_VLAN};
use kpps_frames::tag::{self, TagFormat};
use kpps_methods::{Latency, LatestOfFlow, StandingQueue, Variation};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Different changes of headers that are counted. A frame with a rarer change is damaged in any case.
const CHANGES: usize = 256;
/// Bytes of a header that may differ in a damaged frame of this stream.
const DAMAGED_BYTES: usize = 4;
/// Different Ethernet addresses of frames without a whole tag that are remembered.
const STATIONS: usize = 64;
/// Where the Ethernet addresses end.
const ADDRESSES: usize = 12;
/// Where the UDP ports begin in a frame without VLAN tag.
const PORTS: usize = 34;
/// The judgement of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is as in most frames so far.
    Usual,
    /// It differs; the end of the trial shows whether that is damage.
    Unusual,
    Damaged,
}

/// The most frames that are remembered of those with only damaged copies so far: a whole copy may come yet.
const DOUBTFUL: usize = 1 << 16;

/// Frames without a whole tag whose headers behind these Ethernet addresses are the stream's.
#[derive(Clone, Copy, Debug, Default)]
struct Unread {
    addresses: [u8; ADDRESSES],
    /// Frames with a damaged tag of the stream, and frames with nothing like a tag.
    nameless: u64,
    tagless: u64,
}

/// The arrivals of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct FlowTally {
    /// One more than the highest sequence number.
    next: u64,
    received: u64,
    reordered: u64,
    /// Frames whose latency counts, the sum of their latencies, and the shortest and the longest, in ns.
    timed: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    latest: LatestOfFlow,
    variation: Variation,
}

impl FlowTally {
    /// Counts a latency.
    #[inline]
    fn time(&mut self, ns: u64) {
        self.min_ns = if self.timed == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.timed += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// The latencies, less a margin; `None` without any.
    fn latency(&self, margin_ns: u64) -> Option<FlowLatency> {
        let mean = self.sum_ns.checked_div(self.timed)?;
        let [min, mean, max] = [self.min_ns, mean, self.max_ns].map(|ns| ns.saturating_sub(margin_ns));
        Some(FlowLatency { min, mean, max, jitter: self.variation.mean_ns() })
    }
}

/// The frames of one stream that arrived.
pub struct Arrivals {
    stream: u16,
    /// The frames as they should arrive, without their tags.
    templates: Arc<Templates>,
    /// Where the tags are, and the headers.
    format: TagFormat,
    outline: Outline,
    /// Bytes of headers that differ between frames.
    varies: [bool; LONGEST],
    epoch: Instant,
    /// The epoch by the clock with which kernels stamp frames.
    epoch_of_day: TimeOfDay,
    /// Frames have arrived with the kernel's time.
    stamped: bool,
    /// The time of the current burst.
    now: Option<Duration>,
    /// The sequence numbers that have arrived.
    seen: Seen,
    /// When the first frame was sent, and the frame with the highest number, in ps of the tags.
    first_ps: Option<u64>,
    highest_ps: u64,
    /// The frames that had not arrived when a later one did.
    gaps: SequenceGaps,
    distinct: u64,
    duplicated: u64,
    flows: Vec<FlowTally>,
    /// Frames of each size, without duplicates.
    sizes: Vec<u64>,
    /// Frames without a copy that looks like most frames, by sequence number, with the header's change unless
    /// other damage was found. The latest [`DOUBTFUL`].
    doubtful: BTreeMap<u64, Option<Change>>,
    /// Changes of headers, the most frequent first, without duplicates.
    changes: Vec<(Change, u64)>,
    /// The headers of a frame with the most frequent change, as they came.
    usual: [u8; LONGEST],
    /// Frames with a whole tag and other damage, without duplicates.
    damaged: u64,
    /// Frames that may be damaged ones of the stream: their numbers are unknown.
    unread: Vec<Unread>,
    other_traffic: u64,
    /// Frames with other VLAN tags than they should have, and the tags of the last one.
    retagged: (u64, Vec<u16>),
    /// Fragments with a whole tag.
    fragments: u64,
    /// Latencies, in parts of the trial if that was asked for.
    latency: Vec<Latency>,
    part_ns: u64,
    /// The arrivals of each interval, if they were asked for.
    line: Option<ArrivalLine>,
    /// Whether queues grew meanwhile, if the length of the trial is known.
    queue: Option<StandingQueue>,
    /// How long before the epoch of the tags `epoch` is, in ns.
    margin_ns: u64,
    /// The gain of this clock on the sender's, if that is followed.
    gain: Option<Gain>,
    /// Keeps frames with anomalies, if that was asked for.
    keeper: Option<Keeper>,
}

impl Arrivals {
    /// For a stream of these frames, whose tags count from `epoch`, with room for about `expected` of them.
    pub fn new(stream: u16, templates: Arc<Templates>, epoch: Instant, expected: u64) -> Self {
        let outline = outline(&templates);
        Self {
            stream,
            format: templates.tag(),
            varies: varies(&templates, &outline),
            outline,
            flows: vec![FlowTally::default(); templates.flows() as usize],
            sizes: vec![0; templates.sizes()],
            templates,
            epoch,
            epoch_of_day: TimeOfDay::at(epoch),
            stamped: false,
            now: None,
            seen: Seen::new(expected),
            first_ps: None,
            highest_ps: 0,
            gaps: SequenceGaps::default(),
            distinct: 0,
            duplicated: 0,
            doubtful: BTreeMap::new(),
            changes: Vec::new(),
            usual: [0; LONGEST],
            damaged: 0,
            unread: Vec::new(),
            other_traffic: 0,
            retagged: (0, Vec::new()),
            fragments: 0,
            latency: vec![Latency::default()],
            part_ns: u64::MAX,
            line: None,
            queue: None,
            margin_ns: 0,
            gain: None,
            keeper: None,
        }
    }

    /// Separates latencies into `parts` parts of a trial of this length.
    #[must_use]
    pub fn in_parts(mut self, parts: usize, length: Duration) -> Self {
        let parts = parts.max(1);
        self.latency.resize_with(parts, Latency::default);
        self.part_ns = (length.as_nanos() as u64 / parts as u64).max(1);
        self.queue = Some(StandingQueue::over(length.as_nanos() as u64));
        self
    }

    /// Counts also what arrives of each interval. `margin_ns`: how long before the epoch of the tags the
    /// epoch of arrivals is. If there is a margin, it is that of two clocks, and intervals have latencies
    /// only where these are [followed](Self::follow).
    #[must_use]
    pub fn in_intervals(mut self, every: Option<Duration>, margin_ns: u64) -> Self {
        (self.line, self.margin_ns) = (every.map(ArrivalLine::new), margin_ns);
        self
    }

    /// From now on what this clock gains on the sender's is taken off latencies.
    pub fn follow(&mut self, gain: Gain) {
        self.gain = Some(gain);
    }

    /// The latency of a frame in ns, with the margin.
    #[inline]
    fn latency_ns(&self, now_ns: u64, sent_ps: u64) -> u64 {
        let ns = now_ns.saturating_sub(sent_ps / 1000);
        match &self.gain {
            // Rounded to ns, not below 0.
            Some(gain) => (ns as f64 - gain.at(now_ns as f64 - self.margin_ns as f64)).round() as u64,
            None => ns,
        }
    }

    /// Keeps frames with anomalies, up to a limit.
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

    /// How the last frame was judged, which is this one. Judgements are to be [noted](Self::noting).
    pub(crate) fn judged(&mut self, frame: &[u8]) -> Judged {
        let noted = self.keeper.as_mut().and_then(Keeper::take_noted);
        let mut judged = noted.unwrap_or_else(|| {
            let tag = self.format.read_any(frame).or_else(|| self.read_shifted(frame));
            let sequence = tag.map(|(_, tag, _)| tag.sequence_near(self.seen.highest().unwrap_or(0)));
            let change = self.changes.first().map(|(usual, _)| *usual);
            Judged { sequence, change, ..Judged::default() }
        });
        let flow = judged.sequence.and_then(|sequence| self.templates.at(sequence)).map(|frame| frame.flow);
        let tally = flow.and_then(|flow| self.flows.get(flow as usize));
        judged.flow = flow.filter(|_| self.flows.len() > 1);
        judged.latest = tally.and_then(|tally| tally.next.checked_sub(1));
        judged.at_ns = self.now.map(|since| self.epoch_of_day.ns + since.as_nanos() as u64);
        judged
    }

    /// The change that most headers have, if frames have arrived.
    pub(crate) fn usual_change(&self) -> Option<&Change> {
        self.changes.first().map(|(usual, _)| usual)
    }

    /// Begins a new burst, whose time is read with the next frame.
    #[inline]
    pub fn burst(&mut self) {
        self.now = None;
    }

    /// Counts a frame, without FCS, with the time when the kernel received it, in ns since 1970, if that is
    /// known. Returns false if it is not of this stream.
    #[inline]
    pub fn take(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        let Some((trial, tag, at)) = self.format.read_any(frame).or_else(|| self.read_shifted(frame)) else {
            return self.take_untagged(frame, stamp);
        };
        if trial != self.format.trial() || tag.stream != self.stream {
            return self.take_other(frame, stamp);
        }
        let sequence = tag.sequence_near(self.seen.highest().unwrap_or(0));
        let Some(template) = self.templates.at(sequence) else { return false };
        let (header, rest) = frame.split_at(at);
        // A whole tag has been found there.
        let zeros = &rest[self.format.bytes()..];
        let whole = frame.len() == usize::from(template.bytes)
            && header.len() == template.head.len()
            && header.get(LONGEST..) == template.head.get(LONGEST..)
            && zeros.iter().all(|&byte| byte == 0);
        let odd = if whole { Odd::No } else { oddity(header, zeros, template.head) };
        let change = whole.then(|| self.outline.change(frame, at..at + self.format.bytes(), template.head));
        let (flow, size) = (template.flow, template.size);
        match odd {
            Odd::No => {}
            Odd::Retagged => self.retagged = (self.retagged.0 + 1, vlans(header)),
            Odd::Fragment => self.fragments += 1,
        }
        let now_ns = self.now_ns(stamp);
        let sent_ps = tag.sent_ps_near(now_ns.saturating_sub(self.margin_ns) * 1000);
        let (first, late) = self.mark(sequence, sent_ps, flow, size);
        let verdict = match change {
            Some(change) if first => self.note(&change, header),
            None if odd == Odd::Retagged => Verdict::Usual,
            _ => Verdict::Damaged,
        };
        let timed = match (first, verdict) {
            (true, Verdict::Usual) => true,
            (true, _) => {
                let change = change.filter(|_| verdict == Verdict::Unusual);
                self.doubt(sequence, change);
                change.is_some()
            }
            (false, _) => self.restore(sequence, change.as_ref()),
        };
        if !first || late || verdict != Verdict::Usual {
            let usual = self.changes.first().map(|(most, _)| most);
            let corrupted = if first { verdict != Verdict::Usual } else { change.as_ref() != usual };
            let anomalies =
                Anomalies { duplicated: !first, reordered: late, corrupted, ..Anomalies::default() };
            let change = change.filter(|_| first && verdict != Verdict::Damaged);
            self.keep((frame, stamp), Some(sequence), anomalies, change);
        }
        let latency_ns = self.latency_ns(now_ns, sent_ps);
        if first && let Some(line) = &mut self.line {
            let is_known = whole && (self.margin_ns == 0 || self.gain.is_some());
            line.take(sent_ps / 1000, is_known.then(|| latency_ns.saturating_sub(self.margin_ns)));
        }
        if timed {
            if let Some(queue) = &mut self.queue {
                queue.record(sent_ps / 1000, latency_ns);
            }
            let last = self.latency.len() - 1;
            let part = if last == 0 { 0 } else { ((now_ns / self.part_ns) as usize).min(last) };
            self.latency[part].record(latency_ns);
            // Flows take turns.
            let turns = self.flows.len() as u64;
            if let Some(flow) = self.flows.get_mut(flow as usize) {
                flow.time(latency_ns);
                if first {
                    flow.latest.take(sequence, turns, latency_ns, &mut flow.variation);
                }
            }
        }
        true
    }

    /// Counts a frame whose first copy differs from most frames, and remembers it.
    #[cold]
    fn doubt(&mut self, sequence: u64, change: Option<Change>) {
        self.damaged += u64::from(change.is_none());
        if self.doubtful.len() == DOUBTFUL {
            self.doubtful.pop_first();
        }
        self.doubtful.insert(sequence, change);
    }

    /// Counts a frame as intact if this copy is intact and only damaged copies had arrived before. Returns
    /// whether this is the first copy whose latency counts.
    #[cold]
    fn restore(&mut self, sequence: u64, change: Option<&Change>) -> bool {
        let Some((most, frames)) = self.changes.first_mut().filter(|(most, _)| Some(most) == change) else {
            return false;
        };
        let Some(before) = self.doubtful.get(&sequence).filter(|before| before.as_ref() != Some(most)) else {
            return false;
        };
        *frames += 1;
        let before = *before;
        match before.and_then(|before| self.changes.iter_mut().find(|(change, _)| *change == before)) {
            Some((_, frames)) => *frames -= 1,
            None => self.damaged -= 1,
        }
        self.doubtful.remove(&sequence);
        before.is_none()
    }

    /// When a frame arrived, in ns since the epoch: by the kernel's stamp, or by the time of the burst.
    #[inline]
    fn now_ns(&mut self, stamp: Option<u64>) -> u64 {
        match stamp {
            Some(stamp) => {
                self.stamped = true;
                stamp.saturating_sub(self.epoch_of_day.ns)
            }
            None => {
                let epoch = self.epoch;
                self.now.get_or_insert_with(|| epoch.elapsed()).as_nanos() as u64
            }
        }
    }

    /// Keeps a frame with anomalies, if such frames are kept.
    #[cold]
    fn keep(
        &mut self,
        frame: (&[u8], Option<u64>),
        sequence: Option<u64>,
        anomalies: Anomalies,
        change: Option<Change>,
    ) {
        if let Some(keeper) = &mut self.keeper {
            keeper.keep(frame, sequence, anomalies, change);
        }
    }

    /// Marks a sequence number. Returns whether it is new, and whether a later one of its flow had arrived.
    #[inline]
    fn mark(&mut self, sequence: u64, sent_ps: u64, flow: u32, size: usize) -> (bool, bool) {
        if self.seen.needs_room(sequence) {
            self.gaps.close_before(self.seen.first_kept(sequence), &self.seen);
            self.seen.make_room(sequence);
        }
        let highest = self.seen.highest();
        if !self.seen.mark(sequence) {
            self.duplicated += 1;
            return (false, false);
        }
        self.distinct += 1;
        if let Some(size) = self.sizes.get_mut(size) {
            *size += 1;
        }
        let mut late = false;
        if let Some(flow) = self.flows.get_mut(flow as usize) {
            let next = sequence + 1;
            late = next < flow.next;
            flow.received += 1;
            flow.reordered += u64::from(late);
            flow.next = flow.next.max(next);
        }
        if highest.is_none_or(|highest| sequence > highest) {
            let first = highest.map_or(0, |highest| highest + 1);
            if sequence > first {
                let before_ps = highest.map(|_| self.highest_ps);
                let gap = SequenceGap { first, end: sequence, before_ps, behind_ps: Some(sent_ps) };
                self.gaps.open(gap, &self.seen);
            }
            self.first_ps.get_or_insert(sent_ps);
            self.highest_ps = sent_ps;
        } else {
            self.gaps.take_late(sequence);
        }
        (true, late)
    }

    /// Counts the change of a header. The most frequent one is compared first.
    #[inline]
    fn note(&mut self, change: &Change, header: &[u8]) -> Verdict {
        match self.changes.first_mut() {
            Some((most, frames)) if most == change => {
                *frames += 1;
                Verdict::Usual
            }
            _ => self.note_another(change, header),
        }
    }

    #[cold]
    fn note_another(&mut self, change: &Change, header: &[u8]) -> Verdict {
        let known = self.changes.iter().position(|(known, _)| known == change);
        if known.is_none() && self.changes.len() == CHANGES {
            return Verdict::Damaged;
        }
        let at = known.unwrap_or_else(|| {
            self.changes.push((*change, 0));
            self.changes.len() - 1
        });
        self.changes[at].1 += 1;
        if at == 0 || self.changes[at].1 > self.changes[0].1 {
            self.changes.swap(0, at);
            self.usual = [0; LONGEST];
            self.usual.iter_mut().zip(header).for_each(|(usual, came)| *usual = *came);
        }
        Verdict::Unusual
    }

    /// Reads the tag of a frame that has one layer of VLAN tags more or less than it should, or two, or the
    /// header of fragments of IPv6.
    #[cold]
    fn read_shifted(&self, frame: &[u8]) -> Option<(u32, tag::Tag, usize)> {
        let place = self.format.offset(frame);
        let at = [place + 4, place + 8, place.wrapping_sub(4), place.wrapping_sub(8)];
        at.into_iter().find_map(|at| {
            let (trial, tag) = frame.get(at..)?.first_chunk().and_then(tag::from_bytes)?;
            ((trial, tag.stream) == (self.format.trial(), self.stream)).then_some((trial, tag, at))
        })
    }

    /// Why frames arrive in another way than they should, as far as their headers show.
    pub fn findings(&self) -> Findings {
        let sent = self.templates.at(0).map_or(&[][..], |template| template.head);
        let expected = vlans(sent);
        let tags = HEADER_BYTES - 2..HEADER_BYTES + 4 * expected.len();
        let all_alike = self.varies.get(tags).is_some_and(|varies| !varies.contains(&true));
        let usual = vlans(self.usual.get(..sent.len()).unwrap_or_default());
        let (mut frames, mut came) = self.retagged.clone();
        if let Some((_, most)) = self.changes.first().filter(|_| all_alike && usual != expected) {
            (frames, came) = (frames + most, usual);
        }
        Findings { retagged: frames, came, expected, fragments: self.fragments }
    }

    /// A frame of others.
    #[cold]
    fn take_other(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        self.other_traffic += 1;
        self.keep((frame, stamp), None, Anomalies { other_traffic: true, ..Anomalies::default() }, None);
        false
    }

    /// A frame without a whole tag of this load. Returns whether it may be one of the stream.
    #[cold]
    fn take_untagged(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        self.fragments += u64::from(self.is_first_fragment(frame));
        let sent = self.templates.at(0).map_or(&[][..], |template| template.head);
        // If no whole frame has arrived, TTL and checksum may have been rewritten.
        let usual = if self.changes.is_empty() { sent } else { &self.usual[..] };
        let bytes = usual.iter().zip(&self.varies).zip(frame).take(sent.len()).skip(ADDRESSES);
        let differ = bytes.filter(|((usual, varies), byte)| !**varies && usual != byte).count();
        let rest = frame.get(sent.len()..).unwrap_or_default();
        // A whole tag of other frames with such headers, balanced or not.
        let whole = rest.first_chunk().and_then(tag::from_bytes);
        let own = (self.format.trial(), self.stream);
        let is_other = whole.is_some_and(|(trial, tag)| (trial, tag.stream) != own);
        let nameless = differ <= DAMAGED_BYTES && tag::resembles(rest, self.format.trial(), self.stream);
        let tagless = differ == 0 && !nameless;
        if is_other || frame.len() <= PORTS || !(nameless || tagless) {
            return self.take_other(frame, stamp);
        }
        let Some(unread) = frame.first_chunk().and_then(|addresses| self.unread_of(*addresses)) else {
            return self.take_other(frame, stamp);
        };
        *(if nameless { &mut unread.nameless } else { &mut unread.tagless }) += 1;
        if nameless && self.line.is_some() && self.nameless() <= self.missing() {
            // When it was sent is not known: about now.
            let now_ns = self.now_ns(stamp).saturating_sub(self.margin_ns);
            self.line.iter_mut().for_each(|line| line.take(now_ns, None));
        }
        self.keep((frame, stamp), None, Anomalies { nameless, tagless, ..Anomalies::default() }, None);
        true
    }

    /// Whether a frame is the first fragment of an IPv4 packet of the stream whose tag is in a later one.
    fn is_first_fragment(&self, frame: &[u8]) -> bool {
        let Some(Headers { ip, transport, first: true, whole: false, is_ipv6: false, .. }) =
            Headers::of(frame)
        else {
            return false;
        };
        let sent = self.templates.at(0).map_or(&[][..], |template| template.head);
        let same = |at: usize| {
            let varies = self.varies.get(at).is_some_and(|varies| *varies);
            varies || frame.get(at).is_some_and(|byte| sent.get(at) == Some(byte))
        };
        let mut steady = [ip, ip + 9].into_iter().chain(ip + 12..ip + 20).chain(transport..transport + 4);
        vlans(frame) == vlans(sent) && steady.all(same)
    }

    /// The entry of these Ethernet addresses, if there is room for another.
    fn unread_of(&mut self, addresses: [u8; ADDRESSES]) -> Option<&mut Unread> {
        let at = match self.unread.iter().position(|unread| unread.addresses == addresses) {
            Some(at) => at,
            None if self.unread.len() < STATIONS => {
                self.unread.push(Unread { addresses, ..Unread::default() });
                self.unread.len() - 1
            }
            None => return None,
        };
        self.unread.get_mut(at)
    }

    /// Whether a frame with these Ethernet addresses may belong to the stream. In a frame with a damaged tag
    /// some bytes may differ. If no whole frame has arrived, any frame may belong to it.
    pub(crate) fn has_stations(&self, addresses: &[u8], nameless: bool) -> bool {
        let differ =
            addresses.iter().zip(&self.usual[..ADDRESSES]).filter(|(one, other)| one != other).count();
        self.changes.is_empty() || differ <= if nameless { DAMAGED_BYTES } else { 0 }
    }

    /// Frames with a damaged tag of the stream so far.
    #[inline]
    fn nameless(&self) -> u64 {
        let ours = self.unread.iter().filter(|unread| self.has_stations(&unread.addresses, true));
        ours.map(|unread| unread.nameless).sum()
    }

    /// Frames with headers of the stream and nothing like its tag so far.
    fn tagless(&self) -> u64 {
        let ours = self.unread.iter().filter(|unread| self.has_stations(&unread.addresses, false));
        ours.map(|unread| unread.tagless).sum()
    }

    /// Frames that were sent before an arrived frame, and not received with an intact tag.
    #[inline]
    fn missing(&self) -> u64 {
        self.seen.end() - self.distinct
    }

    /// Frames that were sent before an arrived frame, and not received so far. A frame with a damaged tag may
    /// be one of them, and is received then.
    pub fn absent(&self) -> u64 {
        self.missing().saturating_sub(self.nameless())
    }

    /// Frames of the stream so far, without duplicates. A frame with a damaged tag counts if one is missing.
    #[inline]
    pub fn received(&self) -> u64 {
        self.distinct + self.nameless().min(self.missing())
    }

    /// The arrivals so far. Frames with a damaged tag are not settled.
    pub fn arrived(&self) -> Arrived {
        let rare: u64 = self.changes.iter().skip(1).map(|(_, frames)| frames).sum();
        let (nameless, tagless) = (self.nameless(), self.tagless());
        let unread: u64 = self.unread.iter().map(|unread| unread.nameless + unread.tagless).sum();
        Arrived {
            received: self.distinct,
            duplicated: self.duplicated,
            reordered: self.flows.iter().map(|flow| flow.reordered).sum(),
            corrupted: self.damaged + rare,
            other_traffic: self.other_traffic + unread - nameless - tagless,
            nameless,
            tagless,
        }
    }

    /// The fate of each flow if `sent` frames were sent, and if there are several flows.
    pub fn by_flow(&self, sent: u64) -> Vec<OfFlow> {
        let several = self.flows.len() > 1;
        let are_timed = several && self.knows_latencies();
        let each = |(flow, tally): (usize, &FlowTally)| {
            let flow = flow as u32;
            let FlowTally { received, reordered, .. } = *tally;
            let sent = self.templates.of_flow(flow, sent).max(received);
            let latency = tally.latency(self.margin_ns).filter(|_| are_timed);
            OfFlow { flow, sent, received, reordered, latency }
        };
        self.flows.iter().enumerate().filter(|_| several).map(each).collect()
    }

    /// For each size, in the order of the mix, the frames sent and the frames with whole tags that arrived,
    /// without duplicates; if there are several sizes.
    pub fn by_size(&self, sent: u64) -> Vec<(u64, u64)> {
        let several = self.sizes.len() > 1;
        let sent = self.templates.of_sizes(sent);
        let each = |(sent, received): (u64, &u64)| (sent.max(*received), *received);
        sent.into_iter().zip(&self.sizes).filter(|_| several).map(each).collect()
    }

    /// When the frame was sent that closed the last gap, counted from the first frame that arrived: nothing
    /// was lost after it. `None` without a gap; the end of time if the last of `sent` frames are missing.
    pub fn last_gap(&self, sent: u64) -> Option<Duration> {
        if self.seen.end() < sent {
            return Some(Duration::MAX);
        }
        let since_ps = self.gaps.last(&self.seen)?.behind_ps?.saturating_sub(self.first_ps?);
        Some(Duration::from_nanos(since_ps / 1000))
    }

    /// When frames of `sent` sent ones were lost. `None` if all arrived, or if some arrived whose numbers are
    /// unknown.
    fn losses(&self, sent: u64) -> Option<Losses> {
        let are_known = self.nameless() + self.tagless() == 0;
        self.gaps.losses(&self.seen, sent, self.highest_ps).filter(|_| are_known)
    }

    /// p50 and p99 of the last whole interval in ns, if frames came in it.
    pub fn last_quantiles(&self) -> Option<(u64, u64)> {
        self.line.as_ref()?.last(self.epoch.elapsed().as_nanos() as u64)
    }

    /// The arrivals of each interval. There are no latencies if the clock of arrivals was set meanwhile.
    pub fn take_line(&mut self) -> Option<Timeline> {
        let mut line = self.line.take()?.finish();
        if self.clock_set_ns().is_some() {
            line.forget_latencies();
        }
        Some(line)
    }

    /// By how many frames queues grew while these were sent; `None` if too few arrived for an estimate, if
    /// the latencies are of two clocks that drift, or if a clock was set.
    pub fn queue_growth(&self) -> Option<u64> {
        self.queue.filter(|_| self.knows_latencies())?.growth(self.distinct)
    }

    /// Whether each frame's latency is known when it arrives: it is that of one clock, which was not set, or
    /// of two clocks whose drift is followed.
    fn knows_latencies(&self) -> bool {
        (self.margin_ns == 0 || self.gain.is_some()) && self.clock_set_ns().is_none()
    }

    /// By how much the clock of arrivals was set meanwhile, if it was.
    fn clock_set_ns(&self) -> Option<i64> {
        self.stamped.then(|| TimeOfDay::at(self.epoch).set_since(&self.epoch_of_day))?
    }

    /// The kept frames with anomalies.
    pub fn take_kept(&mut self) -> Kept {
        let keeper = self.keeper.take();
        let has_stations = |frame: &[u8], nameless| self.has_stations(frame, nameless);
        keeper.map(|keeper| keeper.finish(&self.changes, has_stations)).unwrap_or_default()
    }

    /// Latencies of whole frames without duplicates, with their variation in the first part, and the clock of
    /// their arrival. There are none if that clock was set meanwhile.
    pub fn take_latency(&mut self) -> (Vec<Latency>, Arrival) {
        let arrival = match self.stamped {
            true => Arrival { by: ArrivalBy::Kernel, clock_set_ns: self.clock_set_ns() },
            false => Arrival::default(),
        };
        if arrival.clock_set_ns.is_some() {
            self.latency.fill_with(Latency::default);
        } else if let Some(first) = self.latency.first_mut() {
            self.flows.iter().for_each(|flow| first.variation.add(&flow.variation));
        }
        (std::mem::take(&mut self.latency), arrival)
    }

    /// The frames that arrived of `sent` sent frames, and their latencies in parts.
    pub fn finish(mut self, sent: u64) -> (Received, Vec<Latency>) {
        let (latency, arrival) = self.take_latency();
        let received = Received {
            arrived: self.arrived(),
            last_gap: self.last_gap(sent),
            losses: self.losses(sent),
            queue_growth: self.queue_growth(),
            arrival,
            flows: self.by_flow(sent),
            sizes: self.by_size(sent),
            kept: self.take_kept(),
            findings: self.findings(),
        };
        (received, latency)
    }
}

/// The anomaly of a frame of the stream that does not have its length or its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    No,
    /// It has other VLAN tags.
    Retagged,
    Fragment,
}

/// The anomaly of a frame with the header `header` and the bytes `behind` its tag, which was sent with the
/// header `sent`.
#[cold]
fn oddity(header: &[u8], behind: &[u8], sent: &[u8]) -> Odd {
    let (came, expected) = (vlans(header), vlans(sent));
    let type_at = 12 + 4 * came.len();
    let kind = header.get(type_at..type_at + 2).unwrap_or_default();
    let ip = header.get(type_at + 2..).unwrap_or_default();
    let is_fragment = match kind {
        kind if *kind == TYPE_IPV4.to_be_bytes() => ip.get(6).is_some_and(|flags| flags & 0x3f != 0),
        // The header of fragments (RFC 8200, 4.5).
        kind if *kind == TYPE_IPV6.to_be_bytes() => ip.get(6) == Some(&44),
        _ => false,
    };
    let is_retagged = came != expected
        && header.len() + 4 * expected.len() == sent.len() + 4 * came.len()
        && behind.iter().all(|&byte| byte == 0);
    match (is_fragment, is_retagged) {
        (true, _) => Odd::Fragment,
        (_, true) => Odd::Retagged,
        _ => Odd::No,
    }
}

/// The numbers in the VLAN tags of a frame, from outside in.
fn vlans(header: &[u8]) -> Vec<u16> {
    let tags = header.get(12..).unwrap_or_default().chunks_exact(4);
    let tag = |tag: &[u8]| [TYPE_VLAN, TYPE_SERVICE_VLAN].contains(&u16::from_be_bytes([tag[0], tag[1]]));
    tags.take_while(|it| tag(it)).map(|it| u16::from_be_bytes([it[2], it[3]]) & 0xfff).collect()
}

/// Where the headers of frames are.
fn outline(templates: &Templates) -> Outline {
    let mut frame = vec![0; templates.at(0).map_or(0, |template| template.bytes.into())];
    if let Some(template) = templates.at(0) {
        template.write(&mut frame);
    }
    Outline::of(&frame, templates.inner())
}

/// Where the headers of frames differ. Checksums and identifications always do.
fn varies(templates: &Templates, outline: &Outline) -> [bool; LONGEST] {
    let mut varies = [false; LONGEST];
    let Some(first) = templates.at(0) else { return varies };
    for head in templates.heads() {
        for ((varies, one), other) in varies.iter_mut().zip(head).zip(first.head) {
            *varies |= one != other;
        }
    }
    for at in outline.always_differ() {
        if let Some(varies) = varies.get_mut(at..at + 2) {
            varies.fill(true);
        }
    }
    varies
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::checksum::{Sum, checksum};
    use kpps_frames::flows::{Addresses, Flows, PortNumbers};
    use kpps_frames::{Mac, Mix, Size, Tag};
    use kpps_frames::{RawPacket, TemplateOptions, ipv4, tag, tcp, udp};
    use std::net::IpAddr;

    fn template() -> Vec<u8> {
        udp_test(&Flow::default(), Size::with_fcs(80)).unwrap()
    }

    /// Ten flows of an own mix, tagged frames by number.
    fn many(from: &str, to: &str) -> (Arc<Templates>, impl Fn(u64) -> Vec<u8>) {
        let addresses = [from, to].map(|text| text.parse::<Addresses>().unwrap());
        let flows =
            Flows::new(Some(10), addresses, [PortNumbers::from(49152, 2), PortNumbers::from(9, 1)]).unwrap();
        let mix: Mix = "100:2,120:1".parse().unwrap();
        let all = Arc::new(Templates::tests(&flows, [Mac([2; 6]), Mac([4; 6])], Some(7), &mix).unwrap());
        let templates = all.clone();
        let frame = move |sequence| {
            let mut frame = vec![0; 200];
            let bytes = templates.at(sequence).unwrap().write(&mut frame).unwrap();
            frame.truncate(bytes.into());
            tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps: 1 }).unwrap();
            frame
        };
        (all, frame)
    }

    fn frame(sequence: u64) -> Vec<u8> {
        let mut frame = template();
        tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps: 1 }).unwrap();
        frame
    }

    const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];

    /// The default flow.
    fn flow() -> Flows {
        let addresses = ["198.18.0.1", "198.19.0.2"].map(|text| text.parse::<Addresses>().unwrap());
        Flows::new(None, addresses, [PortNumbers::from(49152, 1), PortNumbers::from(9, 1)]).unwrap()
    }

    fn arrivals() -> Arrivals {
        Arrivals::new(
            7,
            Arc::new(Templates::tests(&flow(), MACS, None, &Mix::fixed(Size::with_fcs(80))).unwrap()),
            Instant::now(),
            10,
        )
    }

    #[test]
    fn each_mishap_has_its_name() {
        let mut all = arrivals();
        for sequence in [0, 1, 3, 2, 2, 100_000, 1, 4] {
            assert!(all.take(&frame(sequence), None));
        }
        let expected = Arrived { received: 6, duplicated: 2, reordered: 2, ..Arrived::default() };
        assert_eq!(all.arrived(), expected);
        let (latency, arrival) = all.take_latency();
        assert_eq!((latency[0].frames(), arrival), (6, Arrival::default()));
    }

    /// Frames that are not plain: a segment of TCP, and layers before a packet. A router's rewriting is no
    /// damage, and everything else is.
    #[test]
    fn frames_that_are_not_plain_are_judged_bit_by_bit() {
        let fields = tcp::Fields { sequence: 1, acknowledgement: 2, flags: tcp::ACK, window: 3 };
        let packet =
            RawPacket::of(&kpps_frames::build::tcp(&Flow::default(), fields, &[7; 200]).unwrap()).unwrap();
        let flows: Vec<Flow<IpAddr>> = (0..10)
            .map(|_| flow().nth(0, MACS, None))
            .zip(0..)
            .map(|(flow, n)| Flow { from: (flow.from.0, 1000 + n), ..flow })
            .collect();
        for (packet, encap, mix) in [
            (Some(&packet), "none", ""),
            (None, "qinq:5+vlan:7", "200:2,230:1"),
            (None, "vxlan:5/10.0.0.1/10.0.0.2", "230:2,200:1"),
            (Some(&packet), "mpls:16+mpls:17", ""),
        ] {
            let options =
                TemplateOptions { packet, encap: encap.parse().unwrap(), ..TemplateOptions::default() };
            let mix = packet.map_or_else(
                || mix.parse().unwrap(),
                |packet| Mix::fixed(Size::with_fcs((packet.bytes.len() + 4 + options.encap.bytes()) as u16)),
            );
            let templates = Arc::new(options.templates(flows.iter().copied(), &mix, 0).unwrap());
            let mut all = Arrivals::new(7, templates.clone(), Instant::now(), 100);
            let frame = |sequence: u64| {
                let template = templates.at(sequence).unwrap();
                let mut frame = vec![0; template.bytes.into()];
                template.write(&mut frame).unwrap();
                templates.tag().write(&mut frame, Tag { stream: 7, sequence, sent_ps: 1 }).unwrap();
                let inner = options.encap.outer_bytes();
                // As by a NAT with several addresses.
                kpps_frames::headers::Fields {
                    hops: Some(63),
                    to_mac: Some(Mac([6; 6])),
                    from: Some([192, 0, 2, (sequence % 10) as u8].into()),
                    sport: Some(1024 + 7 * (sequence % 10) as u16),
                    ..Default::default()
                }
                .write(&mut frame[inner..]);
                frame
            };
            for sequence in 0..40 {
                assert!(all.take(&frame(sequence), None));
            }
            assert_eq!(all.arrived(), Arrived { received: 40, ..Arrived::default() }, "{encap}");
            // A bit of the payload before the tag or behind it, or of the headers.
            let at = |place: usize| options.encap.outer_bytes() + place;
            for (sequence, bit) in [(40, at(20)), (41, at(9)), (42, frame(42).len() - 30)] {
                let mut frame = frame(sequence);
                frame[bit] ^= 1;
                all.take(&frame, None);
            }
            assert_eq!(all.arrived().corrupted, 3, "{encap}");
        }
    }

    /// More than 2³² frames. The test examines frames around the old limit and a few others.
    #[test]
    fn numbers_beyond_32_bits_are_counted_like_any_other() {
        let mut all = arrivals();
        let limit = 1 << 32;
        // This test assumes that all frames before its first one have arrived.
        all.seen.skip_to(limit - 101);
        for sequence in (limit - 100..limit + 100).filter(|sequence| *sequence != limit + 7) {
            all.take(&frame(sequence), None);
        }
        for sequence in [limit - 1, limit, limit + 99, limit + 7] {
            all.take(&frame(sequence), None);
        }
        let expected = Arrived { received: 200, duplicated: 3, reordered: 1, ..Arrived::default() };
        assert_eq!(all.arrived(), expected);
        assert!(all.seen.words() <= (crate::judging::seen::WINDOW / 64) as usize);
    }

    #[test]
    fn memory_is_constant_and_duplicates_are_found_within_the_window() {
        let mut all = arrivals();
        all.seen = Seen::remembering(256);
        let (mut duplicated, mut received) = (0, 0);
        for sequence in 0..5000 {
            if sequence % 97 != 0 {
                all.take(&frame(sequence), None);
                received += 1;
            }
            // The ones 100 and 150 before come a second time, the one 194 before for the first time.
            for before in [100, 150] {
                if sequence % 13 == 0 && sequence > before && (sequence - before) % 97 != 0 {
                    all.take(&frame(sequence - before), None);
                    duplicated += 1;
                }
            }
            if sequence % 97 == 5 && sequence > 190 {
                all.take(&frame(sequence - 5 - 97), None);
                received += 1;
            }
        }
        let arrived = all.arrived();
        assert_eq!((arrived.received, arrived.duplicated), (received, duplicated));
        assert_eq!(all.seen.words(), 4);
        // Whether this frame has arrived before is no longer known.
        all.take(&frame(97 * 40 + 5), None);
        assert_eq!(all.arrived().duplicated, duplicated + 1);
        assert_eq!(all.last_gap(6000), Some(Duration::MAX));
    }

    #[test]
    fn latency_is_by_the_kernels_time_unless_its_clock_was_set() {
        let stamped = || {
            let mut all = arrivals();
            for sequence in 0..100 {
                let mut frame = template();
                let sent_ps = sequence * 1_000_000_000;
                tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps }).unwrap();
                // The program receives it much later.
                let stamp = all.epoch_of_day.ns + sent_ps / 1000 + 7_000;
                all.take(&frame, Some(stamp));
            }
            all
        };
        let (latency, arrival) = stamped().take_latency();
        assert_eq!(arrival, Arrival { by: ArrivalBy::Kernel, clock_set_ns: None });
        for share in [0.0, 1.0] {
            assert!(latency[0].quantile_ns(share).abs_diff(7_000) < 10, "within what a histogram keeps");
        }
        let mut set = stamped();
        set.epoch_of_day.ns -= 2_000_000;
        let (latency, arrival) = set.take_latency();
        let noticed = arrival.clock_set_ns.unwrap();
        assert!(noticed.abs_diff(2_000_000) < 100_000, "{noticed}");
        assert_eq!((latency.len(), latency[0].frames()), (1, 0));
    }

    /// A clock that gains 100 µs a second: frames take as long after a second as at first, in each interval,
    /// too.
    #[test]
    fn what_a_clock_gains_is_taken_off() {
        let margin_ns = 10_000;
        let mut all = arrivals().in_intervals(Some(Duration::from_millis(100)), margin_ns);
        // In its own time, in which a second is longer by as much.
        all.follow(Gain { at_ns: 0.0, gained_ns: 0.0, pace: 1e-4 / 1.0001 });
        for sequence in 0..1000 {
            let mut frame = template();
            let sent_ns = sequence * 1_000_000;
            tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps: sent_ns * 1000 }).unwrap();
            let gained_ns = sent_ns / 10_000;
            all.take(&frame, Some(all.epoch_of_day.ns + margin_ns + sent_ns + 7_000 + gained_ns));
        }
        let line = all.take_line().unwrap();
        assert_eq!(line.points().len(), 10);
        for point in line.points() {
            let p50 = point.latency.quantile_ns(0.5).unwrap();
            assert!((6_990..7_130).contains(&p50), "{p50}");
        }
        let (latency, _) = all.take_latency();
        for share in [0.0, 1.0] {
            let ns = latency[0].quantile_ns(share);
            assert!(ns.abs_diff(17_000) < 20, "{ns}, with the margin");
        }
    }

    /// The arrivals if `sent` frames were sent, and none was lost elsewhere.
    fn settled(all: &Arrivals, sent: u64) -> Arrived {
        let mut arrived = all.arrived();
        arrived.settle(sent.saturating_sub(arrived.received));
        arrived.settle_tagless(sent.saturating_sub(arrived.received));
        arrived
    }

    /// The reasons why each frame was kept, and its length.
    fn reasons(kept: &Kept) -> Vec<(&str, usize)> {
        kept.frames.iter().map(|it| (it.why.as_str(), it.frame.len())).collect()
    }

    #[test]
    fn frames_that_something_happened_to_are_kept_with_why() {
        let mut all = arrivals().keeping();
        // The first one is damaged, which is known only when others have arrived.
        let mut damaged = frame(0);
        damaged[20] ^= 1;
        let odd = frame(4);
        for frame in [&damaged, &frame(1), &frame(3), &frame(2), &frame(2), &odd] {
            all.take(frame, None);
        }
        damaged = frame(5);
        damaged[15] ^= 1;
        all.take(&damaged, None);
        all.take(&damaged, None);
        all.take(&frame(6)[..50], None);
        all.take(&[0xff; 60], None);
        let mut kept = all.take_kept();
        kept.settle(1, 1);
        assert_eq!(
            reasons(&kept),
            [
                ("number 0: corrupted", 76),
                ("number 2: reordered", 76),
                ("number 2: duplicated", 76),
                ("number 5: corrupted", 76),
                ("number 5: duplicated, corrupted", 76),
                ("corrupted", 50),
                ("other traffic", 60),
            ]
        );
        assert_eq!(kept.frames[3].frame, damaged);
        let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        assert!(kept.frames.iter().all(|it| since_1970 - it.at_ns < 60_000_000_000));
        assert_eq!((kept.not_kept, all.take_kept()), (0, Kept::default()));
        let mut all = arrivals();
        all.take(&[0xff; 60], None);
        assert_eq!(all.take_kept(), Kept::default(), "only on demand");
    }

    #[test]
    fn a_kept_frame_with_a_damaged_tag_is_called_what_it_counts_as() {
        let cut = |room| {
            let mut all = arrivals().keeping();
            for frame in [&frame(0)[..], &frame(1)[..50], &frame(2)[..50]] {
                all.take(frame, None);
            }
            let (mut kept, mut arrived) = (all.take_kept(), all.arrived());
            assert_eq!((arrived.nameless, kept.frames.len()), (2, 2));
            kept.settle(room, arrived.nameless);
            arrived.settle(room);
            assert_eq!(arrived.corrupted + arrived.other_traffic, 2);
            (arrived.corrupted, kept.frames.into_iter().next().unwrap().why)
        };
        assert_eq!(cut(0), (0, "other traffic with a damaged tag".into()));
        assert_eq!(cut(1), (1, "corrupted, or other traffic with a damaged tag".into()));
        assert_eq!(cut(2), (2, "corrupted".into()));
    }

    #[test]
    fn a_flood_of_one_mishap_leaves_room_for_others() {
        let mut all = arrivals().keeping();
        for _ in 0..3000 {
            all.take(&[0xff; 60], None);
        }
        // The usual header is known at the end. At first it is one, then another; frames of both are damaged
        // in truth.
        let mut sequence = 0;
        for (station, frames) in [(7, 700), (8, 600), (9, 1200), (7, 200)] {
            for _ in 0..frames {
                let mut frame = frame(sequence);
                frame[..6].fill(station);
                all.take(&frame, None);
                sequence += 1;
            }
        }
        // The last one again.
        let mut last = frame(sequence - 1);
        last[..6].fill(7);
        all.take(&last, None);
        let kept = all.take_kept();
        let count = |why: &str| kept.frames.iter().filter(|it| it.why.contains(why)).count() as u64;
        assert_eq!((count("other traffic"), count("duplicated")), (1000, 1));
        assert_eq!(all.arrived().corrupted, 700 + 600 + 200);
        assert!((601..=1000).contains(&count("corrupted")), "{}", count("corrupted"));
        assert_eq!(kept.not_kept, 2000 + 1501 - count("corrupted"));
    }

    #[test]
    fn any_flipped_bit_is_damage_and_no_loss() {
        let bits = template().len() * 8;
        // Not in the first frames: the usual header must come first, as damage is rare.
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
                    all.take(&frame, None);
                }
            }
            let arrived = settled(&all, 2 * bits as u64);
            assert_eq!((arrived.received, arrived.corrupted), (2 * bits as u64, bits as u64));
            assert_eq!((arrived.other_traffic, arrived.duplicated), (0, 0));
        }
    }

    /// Where checksums and IPv4's identification are in plain frames: so far before the tag.
    const UDP_CHECKSUM: usize = 2;
    const IP_CHECKSUM: usize = udp::HEADER_BYTES + 10;
    const IDENTIFICATION: usize = udp::HEADER_BYTES + 16;

    /// A frame of a message that was cut apart.
    fn cut(sequence: u64) -> Vec<u8> {
        let mut frame = frame(sequence);
        let at = tag::OFFSET;
        frame[at - IDENTIFICATION..][..2].copy_from_slice(&(sequence as u16 % 40).to_be_bytes());
        let header = at - udp::HEADER_BYTES - ipv4::HEADER_BYTES..at - udp::HEADER_BYTES;
        frame[at - IP_CHECKSUM..][..2].fill(0);
        let sum = checksum(&frame[header]);
        frame[at - IP_CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
        let addresses = |from: usize| <[u8; 4]>::try_from(&frame[from..from + 4]).unwrap().into();
        let datagram = &frame[at - udp::HEADER_BYTES..];
        let sum = Sum::pseudo_header(addresses(26), addresses(30), ipv4::PROTOCOL_UDP, datagram.len() as u16);
        let sum = sum.with(datagram).checksum();
        frame[at - UDP_CHECKSUM..at].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn frames_of_messages_that_were_cut_are_whole_and_any_flipped_bit_is_damage() {
        let mut all = arrivals();
        let bits = template().len() * 8;
        for bit in 0..bits {
            all.take(&cut(2 * bit as u64), None);
            let mut damaged = cut(2 * bit as u64 + 1);
            damaged[bit / 8] ^= 1 << (bit % 8);
            all.take(&damaged, None);
        }
        let arrived = settled(&all, 2 * bits as u64);
        assert_eq!((arrived.received, arrived.corrupted), (2 * bits as u64, bits as u64));
        assert_eq!((arrived.other_traffic, arrived.duplicated), (0, 0));
    }

    #[test]
    fn flows_and_sizes_are_told_apart_and_any_flipped_bit_is_damage() {
        for (from, to) in [("10.0.0.1-10.0.0.9", "10.1.0.1"), ("2001:2::1-2001:2::9", "2001:2:0:1::2")] {
            let (templates, frame) = many(from, to);
            let mut all = Arrivals::new(7, templates, Instant::now(), 10);
            // As after a router: other stations, a hop less, the checksum of IPv4 updated.
            let routed = |sequence| {
                let mut frame = frame(sequence);
                frame[..12].fill(6);
                if from.contains(':') {
                    frame[18 + 7] -= 1;
                } else {
                    frame[18 + 8] -= 1;
                    let sum = kpps_frames::checksum::updated(
                        u16::from_be_bytes([frame[28], frame[29]]),
                        u16::from_be_bytes([64, 17]),
                        u16::from_be_bytes([63, 17]),
                    );
                    frame[28..30].copy_from_slice(&sum.to_be_bytes());
                }
                frame
            };
            let bits = routed(0).len() * 8;
            for bit in 0..bits as u64 {
                all.take(&routed(2 * bit), None);
                let mut damaged = routed(2 * bit + 1);
                damaged[bit as usize / 8] ^= 1 << (7 - bit % 8);
                all.take(&damaged, None);
            }
            let marks =
                if from.contains(':') { (0..bits).filter(|bit| is_a_mark(*bit, 18)).count() } else { 0 };
            let sent = 2 * bits as u64;
            let arrived = settled(&all, sent);
            assert_eq!((arrived.received, arrived.corrupted), (sent, (bits - marks) as u64), "{from}");
            assert_eq!((arrived.other_traffic, arrived.duplicated, arrived.reordered), (0, 0, 0));
            // A frame with a damaged tag has no known flow.
            let flows = all.by_flow(sent);
            assert_eq!((flows.len(), flows.iter().map(|flow| flow.sent).sum()), (10, sent));
            let known: u64 = flows.iter().map(|flow| flow.received).sum();
            let sizes = all.by_size(sent);
            assert_eq!((sizes.len(), sizes[0].0 + sizes[1].0, sizes[0].1 + sizes[1].1), (2, sent, known));
            assert_eq!(known, sent - all.nameless());
        }
    }

    #[test]
    fn flows_may_overtake_each_other_but_frames_of_one_may_not() {
        let (templates, frame) = many("10.0.0.1-10.0.0.9", "10.1.0.1");
        let mut all = Arrivals::new(7, templates, Instant::now(), 10);
        // 0 and 10 are of one flow.
        for sequence in [1, 0, 3, 2, 11, 10, 21, 20, 30, 40, 31, 29, 19] {
            all.take(&frame(sequence), None);
        }
        assert_eq!((all.arrived().received, all.arrived().reordered), (13, 1));
        let OfFlow { sent, received, reordered, .. } = all.by_flow(41)[9];
        assert_eq!((sent, received, reordered), (4, 2, 1));
    }

    /// Ten flows, each with its own latency, 100 ns more for every other frame. One frame is lost, and one
    /// arrives behind the next frame of its flow.
    #[test]
    fn jitter_is_of_two_frames_of_a_flow_in_a_row() {
        let (templates, frame) = many("10.0.0.1-10.0.0.9", "10.1.0.1");
        let mut all = Arrivals::new(7, templates, Instant::now(), 10);
        let mut order: Vec<u64> = (0..200).filter(|sequence| *sequence != 50).collect();
        order.swap(31, 41);
        for sequence in order {
            let sent_ps = sequence * 1_000_000_000;
            let mut frame = frame(sequence);
            tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps }).unwrap();
            let latency_ns = 1000 * (sequence % 10 + 1) + 100 * (sequence / 10 % 2);
            all.take(&frame, Some(all.epoch_of_day.ns + sent_ps / 1000 + latency_ns));
        }
        let flows = all.by_flow(200);
        let latency = FlowLatency { min: 3000, mean: 3050, max: 3100, jitter: Some(100) };
        assert_eq!((flows[2].latency, flows[2].received), (Some(latency), 20));
        assert_eq!((flows[0].latency.unwrap().jitter, flows[1].reordered), (Some(100), 1));
        let lost = all.losses(200).unwrap();
        assert_eq!((lost.first, lost.first.first, lost.first.frames), (lost.longest, 50, 1));
        // Eight flows of 20 frames, and two whose row is broken.
        let (latency, _) = all.take_latency();
        assert_eq!(latency[0].variation, Variation { pairs: 8 * 19 + 2 * 17, sum_ns: 18_600 });
        // A frame with a damaged tag may be any of the missing ones.
        let (_, frame) = many("10.0.0.1-10.0.0.9", "10.1.0.1");
        let mut damaged = frame(50);
        damaged[60] ^= 1;
        all.take(&damaged, None);
        assert_eq!(all.losses(200), None);
    }

    #[test]
    fn a_router_rewrites_all_frames_alike() {
        let mut all = arrivals();
        for sequence in 0..100 {
            let mut frame = frame(sequence);
            frame[..6].copy_from_slice(&[9; 6]);
            frame[22] -= 1;
            frame[24] += 1;
            all.take(&frame, None);
        }
        assert_eq!(all.arrived(), Arrived { received: 100, ..Arrived::default() });
    }

    /// Whether a bit is of the traffic class, the flow label or the hop limit of IPv6, which are in no
    /// checksum. Bits of bytes are counted from the highest.
    fn is_a_mark(bit: usize, ip: usize) -> bool {
        (8 * ip + 4..8 * ip + 32).contains(&bit) || bit / 8 == ip + 7
    }

    /// A NAT gives each flow another address and port, and a router with several ways and a congested queue
    /// gives each frame another hop limit and mark.
    #[test]
    fn what_is_rewritten_together_with_its_checksum_is_no_damage_and_any_flipped_bit_is() {
        let ends = [("10.0.0.1", "10.1.0.1", "192.0.2.1"), ("2001:2::1", "2001:2:0:1::2", "2001:db8::1")];
        for ((from, to, outside), encap) in
            ends.into_iter().flat_map(|ends| [(ends, "none"), (ends, "qinq:5+vlan:6")])
        {
            let addresses = [from, to].map(|text| text.parse::<Addresses>().unwrap());
            let flows =
                Flows::new(Some(100), addresses, [PortNumbers::from(2000, 100), PortNumbers::from(9, 1)])
                    .unwrap();
            let flows = (0..100).map(|n| flows.nth(n, MACS, None));
            let encap = encap.parse().unwrap();
            let options =
                TemplateOptions { hops: Some("2-64".parse().unwrap()), encap, ..TemplateOptions::default() };
            let templates = Arc::new(options.templates(flows, &Mix::fixed(Size::with_fcs(110)), 0).unwrap());
            let mut all = Arrivals::new(7, templates.clone(), Instant::now(), 100);
            let rewritten = |sequence: u64| {
                let mut frame = vec![0; 106];
                templates.at(sequence).unwrap().write(&mut frame).unwrap();
                templates.tag().write(&mut frame, Tag { stream: 7, sequence, sent_ps: 1 }).unwrap();
                let fields = kpps_frames::headers::Fields {
                    to_mac: Some(Mac([6; 6])),
                    from: Some(outside.parse().unwrap()),
                    sport: Some(1024 + 7 * (sequence % 100) as u16),
                    dscp: Some((sequence % 64) as u8),
                    hops: Some(1 + (sequence % 250) as u8),
                    ..Default::default()
                };
                fields.write(&mut frame);
                frame
            };
            let headers = kpps_frames::headers::Headers::of(&rewritten(0)).unwrap();
            let sum = headers.checksum().unwrap();
            let has_sum = rewritten(0)[sum..sum + 2] != [0; 2];
            let ports = headers.transport..headers.transport + 4;
            let is_checked = |bit: usize| match headers.is_ipv6 {
                true => !is_a_mark(bit, headers.ip),
                false => has_sum || !ports.contains(&(bit / 8)),
            };
            let mut damaged = 0;
            for bit in 0..106 * 8 {
                assert!(all.take(&rewritten(2 * bit as u64), None));
                let mut frame = rewritten(2 * bit as u64 + 1);
                frame[bit / 8] ^= 1 << (7 - bit % 8);
                damaged += u64::from(is_checked(bit));
                all.take(&frame, None);
            }
            let expected = Arrived { received: 2 * 106 * 8, corrupted: damaged, ..Arrived::default() };
            assert_eq!(settled(&all, 2 * 106 * 8), expected, "{from} {encap:?}");
        }
    }

    #[test]
    fn the_last_gap_is_where_frames_were_lost_last() {
        let mut all = arrivals();
        let send = |all: &mut Arrivals, sequence: u64| {
            let mut frame = template();
            tag::write(&mut frame, Tag { stream: 7, sequence, sent_ps: sequence * 1_000_000 }).unwrap();
            all.take(&frame, None);
        };
        // Two queues that are polled in turn: 7 and 8 are missing.
        for sequence in [0, 2, 4, 6, 1, 3, 5, 10, 9, 11] {
            send(&mut all, sequence);
        }
        assert_eq!(all.last_gap(12), Some(Duration::from_micros(10)));
        send(&mut all, 7);
        assert_eq!(all.last_gap(12), Some(Duration::from_micros(10)), "8 is missing");
        send(&mut all, 8);
        assert_eq!(all.last_gap(12), None);
        let mut all = arrivals();
        for sequence in [0, 1, 4, 5, 9, 10, 11] {
            send(&mut all, sequence);
        }
        assert_eq!(all.last_gap(12), Some(Duration::from_micros(9)));
        assert_eq!(all.last_gap(13), Some(Duration::MAX), "the last one has not come");
        assert_eq!(arrivals().last_gap(1), Some(Duration::MAX));
        assert_eq!(arrivals().last_gap(0), None);
    }

    #[test]
    fn frames_of_others_are_other_traffic() {
        let mut all = arrivals();
        all.take(&frame(0), None);
        assert!(!all.take(&[0xff; 60], None) && !all.take(&[], None));
        let mut other = frame(1);
        tag::write(&mut other, Tag { stream: 8, sequence: 1, sent_ps: 0 }).unwrap();
        assert!(!all.take(&other, None), "of an earlier trial, or of another tester");
        let cut = &frame(2)[..50];
        assert!(all.take(cut, None), "a frame that was cut off");
        let expected = Arrived { received: 2, corrupted: 1, other_traffic: 3, ..Arrived::default() };
        assert_eq!(settled(&all, 3), expected);
        let expected = Arrived { received: 1, other_traffic: 4, ..Arrived::default() };
        assert_eq!(settled(&all, 1), expected, "if none is missing it is a copy");
    }

    /// Frames of others, before the first frame of the trial and between: whatever they look like, they take
    /// the place of no lost frame without a doubt.
    #[test]
    fn frames_of_others_are_judged_when_the_addresses_are_known() {
        let whole = |trial, stream, from: &[u8]| {
            let mut frame = template();
            frame[6..12].copy_from_slice(from);
            let tag = Tag { stream, sequence: 5, sent_ps: 6 };
            TagFormat::default().of_trial(trial).write(&mut frame, tag).unwrap();
            frame
        };
        let foreign = |from: &[u8]| {
            let mut frame = whole(0, 7, from);
            frame[tag::OFFSET..].fill(0x99);
            frame
        };
        let own = template()[6..12].to_vec();
        for (other, tagless) in [
            (whole(3, 7, &own), 0),
            (whole(0, 8, &own), 0),
            (whole(0, 7 | tag::BACK, &own), 0),
            (foreign(&[9; 6]), 0),
            (foreign(&own), 20),
        ] {
            let mut all = arrivals().keeping();
            for sequence in 0..20 {
                all.take(&other, None);
                if sequence > 5 && sequence % 3 > 0 {
                    all.take(&frame(sequence), None);
                }
            }
            let arrived = all.arrived();
            assert_eq!((arrived.received, arrived.nameless, arrived.tagless), (9, 0, tagless));
            assert_eq!(arrived.other_traffic, 20 - tagless);
            // Eleven are missing. Places have dropped three of them.
            let mut settled = arrived;
            assert_eq!(settled.settle_tagless(8), tagless.min(8));
            let expected = Arrived { received: 9, other_traffic: 20, ..Arrived::default() };
            assert_eq!(settled, expected, "more came than are missing: others send them");
            let mut kept = all.take_kept();
            kept.settle_tagless(0);
            assert!(kept.frames.iter().all(|it| it.why == "other traffic" && it.frame == other), "{kept:?}");
        }
    }

    /// A device that overwrites the frames that it forwards: they cannot be distinguished from other frames.
    #[test]
    fn frames_with_nothing_left_of_their_tag_may_be_either() {
        let mut all = arrivals();
        for sequence in 0..20 {
            let mut frame = frame(sequence);
            if sequence % 4 == 0 {
                frame[tag::OFFSET..].fill(0x5a);
            }
            all.take(&frame, None);
        }
        let mut arrived = all.arrived();
        assert_eq!((arrived.received, arrived.tagless), (15, 5));
        assert_eq!(arrived.settle_tagless(5), 5);
        assert_eq!(arrived, Arrived { received: 20, corrupted: 5, ..Arrived::default() });
    }

    /// VLAN tags that a device or the trial adds, leaves, removes or changes.
    #[test]
    fn frames_with_other_vlan_tags_are_whole_and_told() {
        let tagged = |vlan: Option<u16>| {
            let mix = Mix::fixed(Size::with_fcs(80 + if vlan.is_some() { 4 } else { 0 }));
            Arc::new(Templates::tests(&flow(), MACS, vlan, &mix).unwrap())
        };
        let written = |templates: &Templates, sequence| {
            let template = templates.at(sequence).unwrap();
            let mut frame = vec![0; template.bytes.into()];
            template.write(&mut frame).unwrap();
            templates.tag().write(&mut frame, Tag { stream: 7, sequence, sent_ps: 1 }).unwrap();
            frame
        };
        for (expected, came) in [(Some(20), Some(10)), (None, Some(10)), (Some(10), None), (Some(5), Some(5))]
        {
            let mut all = Arrivals::new(7, tagged(expected), Instant::now(), 10);
            for sequence in 0..10 {
                assert!(all.take(&written(&tagged(came), sequence), None));
            }
            assert_eq!(
                all.arrived(),
                Arrived { received: 10, ..Arrived::default() },
                "{expected:?} {came:?}"
            );
            let retagged = if expected == came { 0 } else { 10 };
            let found = all.findings();
            assert_eq!((found.retagged, found.fragments), (retagged, 0), "{expected:?} {came:?}");
            let ids = |id: Option<u16>| id.into_iter().collect::<Vec<_>>();
            assert!(retagged == 0 || (found.came, found.expected) == (ids(came), ids(expected)));
        }
        // Some of them, and behind a second tag.
        let mut all = arrivals();
        for sequence in 0..10 {
            let mut frame = frame(sequence);
            if sequence % 5 == 4 {
                frame.splice(12..12, [0x88, 0xa8, 0, 3, 0x81, 0, 0x20, 9]);
            }
            all.take(&frame, None);
        }
        let found = Findings { retagged: 2, came: vec![3, 9], ..Findings::default() };
        assert_eq!((all.findings(), all.arrived().corrupted), (found, 0));
    }

    #[test]
    fn fragments_are_told() {
        let mut all = arrivals();
        for sequence in 0..10 {
            let mut frame = frame(sequence);
            if sequence % 2 == 1 {
                frame.truncate(70);
                frame[17] = 56;
                frame[20] = 0x20;
                frame[24..26].fill(0);
                let sum = checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            all.take(&frame, None);
        }
        assert_eq!(all.findings(), Findings { fragments: 5, ..Findings::default() });
        assert_eq!(all.arrived().corrupted, 5);
    }

    /// As of packets of a user's own, whose tags are at their ends.
    #[test]
    fn first_fragments_without_a_tag_are_told_and_those_of_others_are_not() {
        let mut all = arrivals();
        // Stations, a part of the payload; another address, a later fragment.
        for (byte, value) in [(0, 9), (50, 3), (43, 7), (30, 1), (21, 7)] {
            let mut first = frame(3);
            first[42..].fill(8);
            first[20..22].copy_from_slice(&[0x20, 0]);
            first[byte] = value;
            all.take(&first, None);
        }
        assert_eq!(all.findings(), Findings { fragments: 3, ..Findings::default() });
        assert_eq!(all.arrived().other_traffic, 5);
    }

    /// Numbers of more bits than a tag has.
    #[test]
    fn numbers_beyond_those_of_a_tag_are_counted_like_any_other() {
        let mut all = arrivals();
        let limit = 1 << 36;
        all.seen.skip_to(limit - 101);
        for sequence in (limit - 100..limit + 100).filter(|sequence| *sequence != limit + 7) {
            all.take(&frame(sequence), None);
        }
        for sequence in [limit - 1, limit, limit + 99, limit + 7] {
            all.take(&frame(sequence), None);
        }
        let expected = Arrived { received: 200, duplicated: 3, reordered: 1, ..Arrived::default() };
        assert_eq!((all.arrived(), all.seen.highest()), (expected, Some(limit + 99)));
    }

    /// A good copy of each frame arrives. Whatever else does, before or after it, takes nothing away.
    #[test]
    fn copies_changed_or_not_make_no_good_frame_a_bad_one() {
        let mut random = fastrand::Rng::with_seed(7);
        for before_its_frame in [0, 50, 100] {
            let mut all = arrivals().in_parts(1, Duration::from_secs(1));
            let sent = 2000;
            for sequence in 0..sent {
                let good = frame(sequence);
                let mut copies: Vec<_> = (0..4)
                    .map(|_| {
                        let mut copy = good.clone();
                        for _ in 0..random.usize(0..3) {
                            let bit = random.usize(0..copy.len() * 8);
                            copy[bit / 8] ^= 1 << (bit % 8);
                        }
                        copy.truncate(if random.u8(0..5) == 0 { random.usize(0..76) } else { 76 });
                        copy
                    })
                    .collect();
                // Headers are learned from the first frames.
                let early = if sequence > 10 && random.u8(0..100) < before_its_frame { 2 } else { 0 };
                for copy in copies.drain(..early) {
                    all.take(&copy, None);
                }
                all.take(&good, None);
                for copy in copies {
                    all.take(&copy, None);
                }
                assert!(all.received() <= sequence + 1);
            }
            let arrived = settled(&all, sent);
            assert_eq!((arrived.received, arrived.corrupted), (sent, 0), "{before_its_frame}");
            assert_eq!(arrived.duplicated + arrived.other_traffic, 4 * sent, "{before_its_frame}");
            let (latency, _) = all.take_latency();
            assert_eq!(latency[0].frames(), sent);
        }
    }
}
