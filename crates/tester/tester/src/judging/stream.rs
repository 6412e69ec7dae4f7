//! The arrivals of one stream: which of its frames came, how often, in which order, and how they had changed.
//!
//! Each sequence number has a bit ([`Seen`]), which distinguishes a duplicate from a late frame. The number
//! also gives the frame's flow and size, and so its headers as they were sent ([`Templates`]).

mod merged;

use crate::judging::header::{Change, LONGEST, Outline};
use crate::judging::kept::{Anomalies, Judge};
use crate::judging::losses::{Losses, Lost, SequenceGap, SequenceGaps};
use crate::judging::received::{Arrived, Findings, OfFlow, OfStream};
use crate::judging::seen::Seen;
use crate::judging::send_times::SendTimes;
use crate::watching::control::StreamReceived;
use kpps_documents::FlowLatency;
use kpps_frames::Templates;
use kpps_frames::ethernet::{HEADER_BYTES, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN};
use kpps_frames::headers::{Headers, TYPE_SERVICE_VLAN};
use kpps_frames::rss::HashedPacket;
use kpps_frames::tag::{self, Tag, TagFormat};
use kpps_methods::{Latency, LatestOfFlow, Variation};
use kpps_ports::port::run::SentNumbers;
use std::collections::BTreeMap;
use std::sync::Arc;

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

    /// Both flows together.
    fn and(mut self, other: &Self) -> Self {
        if other.timed > 0 {
            self.min_ns = if self.timed == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
            self.max_ns = self.max_ns.max(other.max_ns);
            self.timed += other.timed;
            self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        }
        self.variation.add(&other.variation);
        self
    }

    /// The latencies, less a margin; `None` without any.
    fn latency(&self, margin_ns: u64) -> Option<FlowLatency> {
        let mean = self.sum_ns.checked_div(self.timed)?;
        let [min, mean, max] = [self.min_ns, mean, self.max_ns].map(|ns| ns.saturating_sub(margin_ns));
        Some(FlowLatency { min, mean, max, jitter: self.variation.mean_ns() })
    }
}

/// The arrivals of one stream.
pub(crate) struct StreamArrivals {
    stream: u16,
    /// The frames as they should arrive, without their tags.
    templates: Arc<Templates>,
    /// Where the tags are, and the headers.
    format: TagFormat,
    outline: Outline,
    /// Bytes of headers that differ between frames.
    varies: [bool; LONGEST],
    /// The headers of the frame that is judged, if fields change from frame to frame.
    sent: Vec<u8>,
    /// The sequence numbers that have arrived.
    pub(super) seen: Seen,
    /// When the first frame was sent, and the frame with the highest number, in ps of the tags.
    first_ps: Option<u64>,
    highest_ps: u64,
    /// When the first and the last frame arrived, in ns since the epoch of arrivals.
    arrivals_ns: Option<[u64; 2]>,
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
    /// Frames with other VLAN tags than they should have, and the tags of the last one.
    retagged: (u64, Vec<u16>),
    /// Fragments with a whole tag.
    fragments: u64,
    /// The last frame that had anomalies: its number, the anomalies, and the change of its headers unless
    /// that is damage in any case.
    anomalous: (u64, Anomalies, Option<Change>),
    /// The stream's own latencies, if it is one of several.
    latency: Option<Box<Latency>>,
    /// If several cores judge the stream: the knowledge that replaces the gaps.
    shared: Option<Box<Shared>>,
}

/// The knowledge about a stream that several cores judge.
struct Shared {
    /// When the frames around gaps were sent.
    times: SendTimes,
    /// Whether bits of sequence numbers were used again, so that the records of the cores do not add up.
    is_unknown: bool,
    /// The numbers that were sent, in the end.
    sent: SentNumbers,
    /// Numbers before the last one that arrived that were not sent.
    unsent: u64,
    /// The lost frames, and when the frame after the last of them was sent.
    losses: Option<Losses>,
    last_gap_ps: Option<u64>,
}

/// The judgement of a frame with a whole tag.
pub(crate) struct Judged {
    /// Whether it is the first copy.
    pub is_first: bool,
    /// Whether its bytes are those that were sent, but for its headers.
    pub is_whole: bool,
    /// Whether its latency counts.
    pub is_timed: bool,
    /// Whether it has [anomalies](StreamArrivals::anomalous).
    pub has_anomalies: bool,
}

/// The resemblance of a frame without a whole tag to the frames of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resemblance {
    /// It has the headers of the stream, and its tag with damage.
    Nameless,
    /// It has the headers of the stream, and nothing like its tag.
    Tagless,
}

impl StreamArrivals {
    /// For a stream of these frames, with room for about `expected` of them.
    pub fn new(stream: u16, templates: Arc<Templates>, expected: u64) -> Self {
        let outline = outline(&templates);
        Self {
            stream,
            format: templates.tag(),
            varies: varies(&templates, &outline),
            outline,
            sent: Vec::new(),
            flows: vec![FlowTally::default(); templates.flows() as usize],
            sizes: vec![0; templates.sizes()],
            templates,
            seen: Seen::new(expected),
            first_ps: None,
            highest_ps: 0,
            arrivals_ns: None,
            gaps: SequenceGaps::default(),
            distinct: 0,
            duplicated: 0,
            doubtful: BTreeMap::new(),
            changes: Vec::new(),
            usual: [0; LONGEST],
            damaged: 0,
            unread: Vec::new(),
            retagged: (0, Vec::new()),
            fragments: 0,
            anomalous: (0, Anomalies::default(), None),
            latency: None,
            shared: None,
        }
    }

    /// The same stream, which also records its own latencies.
    pub fn timed(mut self) -> Self {
        self.latency = Some(Box::default());
        self
    }

    /// Frames with a whole tag, without duplicates.
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    /// The number of the stream.
    #[inline]
    pub fn number(&self) -> u16 {
        self.stream
    }

    /// Where its frames have their tags.
    #[inline]
    pub fn format(&self) -> TagFormat {
        self.format
    }

    /// Counts a frame with a whole tag of this stream at byte `at`, which arrived at this time, was sent at
    /// this time and has this latency.
    #[inline]
    pub fn judge(
        &mut self,
        frame: &[u8],
        (tag, at): (Tag, usize),
        (now_ns, sent_ps, latency_ns): (u64, u64, u64),
    ) -> Option<Judged> {
        let sequence = tag.sequence_near(self.seen.highest().unwrap_or(0));
        let template = self.templates.at(sequence)?;
        let (flow, size, length) = (template.flow, template.size, usize::from(template.bytes));
        let edits = self.templates.edits();
        let sent = if edits.is_empty() {
            template.head
        } else {
            self.sent.clear();
            self.sent.extend_from_slice(template.head);
            edits.write(sequence, &mut self.sent);
            &self.sent[..]
        };
        let (header, rest) = frame.split_at(at);
        // A whole tag has been found there.
        let zeros = &rest[self.format.bytes()..];
        let is_whole = frame.len() == length
            && header.len() == sent.len()
            && header.get(LONGEST..) == sent.get(LONGEST..)
            && zeros.iter().all(|&byte| byte == 0);
        let odd = if is_whole { Odd::No } else { oddity(header, zeros, sent) };
        let change = is_whole.then(|| self.outline.change(frame, at..at + self.format.bytes(), sent));
        match odd {
            Odd::No => {}
            Odd::Retagged => self.retagged = (self.retagged.0 + 1, vlans(header)),
            Odd::Fragment => self.fragments += 1,
        }
        let (is_first, late) = self.mark(sequence, sent_ps, flow, size);
        if is_first {
            self.arrivals_ns = Some([self.arrivals_ns.map_or(now_ns, |[first, _]| first), now_ns]);
        }
        let verdict = match &change {
            Some(change) if is_first => self.note(change, header),
            None if odd == Odd::Retagged => Verdict::Usual,
            _ => Verdict::Damaged,
        };
        let is_timed = match (is_first, verdict) {
            (true, Verdict::Usual) => true,
            (true, _) => {
                let change = change.filter(|_| verdict == Verdict::Unusual);
                self.doubt(sequence, change);
                change.is_some()
            }
            (false, _) => self.restore(sequence, change.as_ref()),
        };
        let has_anomalies = !is_first || late || verdict != Verdict::Usual;
        if has_anomalies {
            let usual = self.changes.first().map(|(most, _)| most);
            let corrupted = if is_first { verdict != Verdict::Usual } else { change.as_ref() != usual };
            let found =
                Anomalies { duplicated: !is_first, reordered: late, corrupted, ..Anomalies::default() };
            let change = change.filter(|_| is_first && verdict != Verdict::Damaged);
            self.anomalous = (sequence, found, change);
        }
        if is_timed {
            self.time(sequence, flow, is_first, latency_ns);
        }
        Some(Judged { is_first, is_whole, is_timed, has_anomalies })
    }

    /// The frame that was judged just now, if it has anomalies: its number, the anomalies, and the change of
    /// its headers unless that is damage in any case.
    pub fn anomalous(&self) -> (u64, Anomalies, Option<Change>) {
        self.anomalous
    }

    /// The number of the frame with this tag.
    pub fn sequence_of(&self, tag: Tag) -> u64 {
        tag.sequence_near(self.seen.highest().unwrap_or(0))
    }

    /// The flow of a frame, if there are several, and the highest number of its flow that has arrived.
    pub fn flow_of(&self, sequence: u64) -> (Option<u32>, Option<u64>) {
        let flow = self.templates.at(sequence).map(|frame| frame.flow);
        let tally = flow.and_then(|flow| self.flows.get(flow as usize));
        (flow.filter(|_| self.flows.len() > 1), tally.and_then(|tally| tally.next.checked_sub(1)))
    }

    /// Counts the latency of a frame, which is the first copy or not.
    #[inline]
    fn time(&mut self, sequence: u64, flow: u32, is_first: bool, latency_ns: u64) {
        // Flows take turns.
        let turns = self.flows.len() as u64;
        if let Some(flow) = self.flows.get_mut(flow as usize) {
            flow.time(latency_ns);
            if is_first {
                flow.latest.take(sequence, turns, latency_ns, &mut flow.variation);
            }
        }
        if self.latency.is_some() {
            self.record(latency_ns);
        }
    }

    /// Records a latency of its own. Of a single stream, all latencies are those of the direction.
    #[inline(never)]
    fn record(&mut self, latency_ns: u64) {
        if let Some(latency) = &mut self.latency {
            latency.record(latency_ns);
        }
    }

    /// The resemblance of a frame without a whole tag of this stream, and how many of the compared bytes
    /// differ; `None` if it is not of the stream.
    #[cold]
    pub fn resembles(&self, frame: &[u8]) -> Option<(Resemblance, usize)> {
        let sent = self.templates.at(0).map_or(&[][..], |template| template.head);
        // If no whole frame has arrived, TTL and checksum may have been rewritten.
        let usual = if self.changes.is_empty() { sent } else { &self.usual[..] };
        let bytes = usual.iter().zip(&self.varies).zip(frame).take(sent.len()).skip(ADDRESSES);
        let differ = bytes.filter(|((usual, varies), byte)| !**varies && usual != byte);
        // More make no difference.
        let differ = differ.take(DAMAGED_BYTES + 1).count();
        let rest = frame.get(sent.len()..).unwrap_or_default();
        // A whole tag of other frames with such headers, balanced or not.
        let whole = rest.first_chunk().and_then(tag::from_bytes);
        let own = (self.format.trial(), self.stream);
        let is_other = whole.is_some_and(|(trial, tag)| (trial, tag.stream) != own);
        if is_other || frame.len() <= PORTS {
            return None;
        }
        match tag::damage(rest, self.format.trial(), self.stream) {
            Some(damage) if differ <= DAMAGED_BYTES => Some((Resemblance::Nameless, differ + damage)),
            _ => (differ == 0).then_some((Resemblance::Tagless, 0)),
        }
    }

    /// Counts a frame without a whole tag that may be of the stream. Returns false if there is no room for
    /// its Ethernet addresses.
    #[cold]
    pub fn take_unread(&mut self, frame: &[u8], what: Resemblance) -> bool {
        let Some(unread) = frame.first_chunk().and_then(|addresses| self.unread_of(*addresses)) else {
            return false;
        };
        match what {
            Resemblance::Nameless => unread.nameless += 1,
            Resemblance::Tagless => unread.tagless += 1,
        }
        true
    }

    /// Counts the first fragment of a packet of the stream whose tag is in a later one.
    pub fn take_fragment(&mut self) {
        self.fragments += 1;
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
                match &mut self.shared {
                    None => self.gaps.open(gap, &self.seen),
                    Some(shared) => shared.times.note_around(&gap),
                }
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

    /// Whether a frame is the first fragment of an IPv4 packet of the stream whose tag is in a later one.
    #[cold]
    pub fn is_first_fragment(&self, frame: &[u8]) -> bool {
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

    /// Frames with a damaged tag of the stream so far.
    #[inline]
    pub fn nameless(&self) -> u64 {
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
    pub fn missing(&self) -> u64 {
        self.seen.end() - self.distinct - self.unsent()
    }

    /// Frames so far, without duplicates. A frame with a damaged tag counts if one is missing.
    pub fn received(&self) -> u64 {
        self.distinct + self.nameless().min(self.missing())
    }

    /// The arrivals so far. Frames with a damaged tag are not settled. Frames that look like those of the
    /// stream between other stations are other traffic.
    pub fn arrived(&self) -> Arrived {
        let rare: u64 = self.changes.iter().skip(1).map(|(_, frames)| frames).sum();
        let (nameless, tagless) = (self.nameless(), self.tagless());
        let unread: u64 = self.unread.iter().map(|unread| unread.nameless + unread.tagless).sum();
        Arrived {
            received: self.distinct,
            duplicated: self.duplicated,
            reordered: self.flows.iter().map(|flow| flow.reordered).sum(),
            corrupted: self.damaged + rare,
            other_traffic: unread - nameless - tagless,
            nameless,
            tagless,
        }
    }

    /// When the first frame was sent that arrived, in ps of the tags.
    pub fn first_ps(&self) -> Option<u64> {
        self.first_ps
    }

    /// When the frame was sent that closed the last gap, in ps of the tags: nothing was lost after it. `None`
    /// without a gap; the end of time if the last of `sent` frames are missing.
    pub fn last_gap_ps(&self, sent: u64) -> Option<u64> {
        if let Some(shared) = &self.shared {
            return shared.last_gap_ps;
        }
        if self.seen.end() < sent {
            return Some(u64::MAX);
        }
        self.gaps.last(&self.seen)?.behind_ps
    }

    /// When frames of `sent` sent ones were lost. `None` if all arrived, or if some arrived whose numbers are
    /// unknown.
    pub fn losses(&self, sent: u64) -> Option<Losses> {
        let are_known = self.nameless() + self.tagless() == 0;
        let losses = match &self.shared {
            None => self.gaps.losses(&self.seen, sent, self.highest_ps),
            Some(shared) => shared.losses,
        };
        losses.filter(|_| are_known)
    }

    /// The pairs of frames of all flows.
    pub fn variation(&self) -> Variation {
        let mut all = Variation::default();
        self.flows.iter().for_each(|flow| all.add(&flow.variation));
        all
    }

    /// All of its flows together.
    fn all_flows(&self) -> FlowTally {
        self.flows.iter().fold(FlowTally::default(), FlowTally::and)
    }

    /// The arrivals so far. `margin_ns` is taken off latencies, if these are known. `epoch_ns`: the epoch of
    /// arrivals, in ns since 1970.
    pub fn so_far(&self, margin_ns: Option<u64>, epoch_ns: u64) -> StreamReceived {
        StreamReceived {
            frames: self.received(),
            sizes: self.sizes.clone(),
            arrivals_ns: self.arrivals_ns.map(|both| both.map(|ns| ns + epoch_ns)),
            latency: margin_ns.and_then(|margin_ns| self.all_flows().latency(margin_ns)),
        }
    }

    /// The fate of the stream, if `sent` of its frames were sent. `margin_ns` is taken off latencies, if
    /// these are known.
    pub fn of_stream(&mut self, sent: u64, margin_ns: Option<u64>) -> OfStream {
        let all = self.all_flows();
        OfStream {
            stream: self.stream,
            sent,
            arrived: self.arrived(),
            sizes: self.by_size(sent),
            losses: self.losses(sent),
            latency: margin_ns.and_then(|margin_ns| all.latency(margin_ns)),
            times: self.latency.take().filter(|_| margin_ns == Some(0)).map(|mut times| {
                // Times with a margin are not those of the frames.
                times.variation = all.variation;
                times
            }),
        }
    }

    /// The frames of a flow that were sent, of `sent` frames of the stream.
    fn sent_of_flow(&self, flow: u32, sent: u64) -> u64 {
        match &self.shared {
            None => self.templates.of_flow(flow, sent),
            Some(shared) => shared.sent.of_flow(flow),
        }
    }

    /// The frames of each flow that were sent, of `sent` frames of the stream.
    pub fn sent_of_flows(&self, sent: u64) -> Vec<u64> {
        let flows = (0..).zip(&self.flows);
        flows.map(|(flow, tally)| self.sent_of_flow(flow, sent).max(tally.received)).collect()
    }

    /// The frames of each flow that arrived, without duplicates.
    pub fn came_of_flows(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.received).collect()
    }

    /// Whether most frames arrive with other addresses or ports than any frame of the stream was sent with.
    pub fn is_rewritten(&self) -> bool {
        // The usual header may be that of a frame of another size.
        let ends = |head: &[u8]| {
            let packet = HashedPacket::of(head, usize::MAX)?;
            Some([packet.addresses.to_vec(), packet.ports.to_vec()])
        };
        let sent = || (0..self.templates.flows().into()).filter_map(|n| self.templates.at(n));
        let Some(first) = sent().next() else { return false };
        let came = self.usual.get(..first.head.len()).and_then(ends);
        // Of streams whose fields change, a template has one of many values.
        let is_known = !self.changes.is_empty() && self.templates.edits().is_empty() && came.is_some();
        is_known && sent().all(|frame| ends(frame.head) != came)
    }

    /// The fate of each flow if `sent` frames were sent, and if there are several flows. `margin_ns` is
    /// taken off latencies, if these are known.
    pub fn by_flow(&self, sent: u64, margin_ns: Option<u64>) -> Vec<OfFlow> {
        let several = self.flows.len() > 1;
        let each = |(flow, tally): (usize, &FlowTally)| {
            let flow = flow as u32;
            let FlowTally { received, reordered, .. } = *tally;
            let sent = self.sent_of_flow(flow, sent).max(received);
            let latency = margin_ns.and_then(|margin_ns| tally.latency(margin_ns));
            OfFlow { flow, sent, received, reordered, latency }
        };
        self.flows.iter().enumerate().filter(|_| several).map(each).collect()
    }

    /// For each size, in the order of the mix, the frames sent and the frames with whole tags that arrived,
    /// without duplicates; if there are several sizes.
    pub fn by_size(&self, sent: u64) -> Vec<(u64, u64)> {
        let several = self.sizes.len() > 1;
        let sent = self.sent_of_sizes(sent);
        let each = |(sent, received): (u64, &u64)| (sent.max(*received), *received);
        sent.into_iter().zip(&self.sizes).filter(|_| several).map(each).collect()
    }
}

impl Judge for StreamArrivals {
    fn changes(&self) -> &[(Change, u64)] {
        &self.changes
    }

    /// Whether a frame with these Ethernet addresses may belong to the stream. In a frame with a damaged tag
    /// some bytes may differ. If no whole frame has arrived, any frame may belong to it.
    fn has_stations(&self, addresses: &[u8], nameless: bool) -> bool {
        let differ =
            addresses.iter().zip(&self.usual[..ADDRESSES]).filter(|(one, other)| one != other).count();
        self.changes.is_empty() || differ <= if nameless { DAMAGED_BYTES } else { 0 }
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
    for place in templates.edits().places() {
        if let Some(varies) = varies.get_mut(place.start.min(LONGEST)..place.end.min(LONGEST)) {
            varies.fill(true);
        }
    }
    for at in outline.always_differ() {
        if let Some(varies) = varies.get_mut(at..at + 2) {
            varies.fill(true);
        }
    }
    varies
}
