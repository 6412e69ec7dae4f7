//! The frames of a direction that arrive, one by one. A frame's tag has its stream and its number there
//! ([`StreamArrivals`]).
//!
//! A frame is whole if its tag is intact, if zeros follow the tag, and if its headers differ from the sent
//! ones as those of most frames do: a router rewrites the stations of all frames alike. Copies of a frame
//! that has arrived do not decide what is usual. The first intact copy counts as the frame; damaged copies
//! are duplicates. A changed copy sent back by someone else therefore cannot damage a good frame. Fields
//! that a right checksum covers may differ ([`header`](super::header)). The identification may differ in any
//! case: it means nothing in packets that are not fragments (RFC 6864, 4.1), and the kernel numbers the
//! frames of a message that it cuts.
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
use crate::judging::header::Change;
use crate::judging::kept::{Anomalies, Judge, Keeper, Kept, Noted};
use crate::judging::losses::Losses;
use crate::judging::queues::FramesOfFlows;
use crate::judging::received::{Arrived, Findings, OfFlow, OfStream, Received};
use crate::judging::send_times::CELLS;
use crate::judging::stream::{Resemblance, StreamArrivals};
use crate::judging::timeline::{ArrivalLine, Timeline};
use crate::watching::control::StreamReceived;
use kpps_documents::detail::{Arrival, ArrivalBy};
use kpps_frames::Templates;
use kpps_frames::tag::{self, Tag, TagFormat};
use kpps_methods::{Latency, StandingQueue};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most streams whose distributions of latencies are recorded: each takes a quarter of a megabyte.
const TIMED_STREAMS: usize = 64;

/// The frames of a direction that arrived.
pub struct Arrivals {
    /// In the order of their numbers. The numbers of the first ones follow each other, those of streams that
    /// were added need not.
    streams: Vec<StreamArrivals>,
    /// The number of the first one.
    first: u16,
    by_stream: bool,
    /// Where the streams' frames have their tags: each place once, the place of the last frame first.
    formats: Vec<TagFormat>,
    trial: u32,
    epoch: Instant,
    /// The epoch by the clock with which kernels stamp frames.
    epoch_of_day: TimeOfDay,
    /// Frames have arrived with the kernel's time.
    stamped: bool,
    /// The time of the current burst.
    now: Option<Duration>,
    /// Frames with a whole tag, without duplicates.
    distinct: u64,
    /// Whether frames without a whole tag have arrived that may be of a stream.
    has_unread: bool,
    other_traffic: u64,
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
        Self::of([(stream, templates, expected)], false, epoch)
    }

    /// For streams of these frames, each with its number and about this many frames. The numbers follow each
    /// other. `by_stream`: whether the fate of each stream is of interest.
    pub fn of(
        streams: impl IntoIterator<Item = (u16, Arc<Templates>, u64)>,
        by_stream: bool,
        epoch: Instant,
    ) -> Self {
        let streams = streams
            .into_iter()
            .map(|(number, templates, expected)| StreamArrivals::new(number, templates, expected));
        let mut streams: Vec<_> = streams.collect();
        if by_stream && streams.len() <= TIMED_STREAMS {
            streams = streams.into_iter().map(StreamArrivals::timed).collect();
        }
        let mut formats = Vec::new();
        for stream in &streams {
            if !formats.contains(&stream.format()) {
                formats.push(stream.format());
            }
        }
        Self {
            trial: formats.first().map_or(0, |format| format.trial()),
            formats,
            first: streams.first().map_or(0, StreamArrivals::number),
            streams,
            by_stream,
            epoch,
            epoch_of_day: TimeOfDay::at(epoch),
            stamped: false,
            now: None,
            distinct: 0,
            has_unread: false,
            other_traffic: 0,
            latency: vec![Latency::default()],
            part_ns: u64::MAX,
            line: None,
            queue: None,
            margin_ns: 0,
            gain: None,
            keeper: None,
        }
    }

    /// Expects another stream from now on, with a higher number.
    pub(crate) fn expect(&mut self, number: u16, frames: Arc<Templates>, expected: u64) {
        let stream = StreamArrivals::new(number, frames, expected);
        let is_timed = self.by_stream && self.streams.len() < TIMED_STREAMS;
        if !self.formats.contains(&stream.format()) {
            self.formats.push(stream.format());
        }
        self.streams.push(if is_timed { stream.timed() } else { stream });
    }

    /// One of several judges of these streams, each on a core of its own. Each takes the frames that come to
    /// its core, and [`add`](Self::add) puts their records together.
    #[must_use]
    pub fn beside_others(mut self) -> Self {
        let times = CELLS / self.streams.len().max(1);
        self.streams = self.streams.into_iter().map(|stream| stream.beside_others(times)).collect();
        self
    }

    /// Adds the record of another core for the same streams. The intervals of both are
    /// [taken](Self::take_line) before.
    pub fn add(&mut self, other: Self) {
        for (stream, more) in self.streams.iter_mut().zip(other.streams) {
            stream.add(more);
        }
        self.distinct = self.streams.iter().map(StreamArrivals::distinct).sum();
        self.stamped |= other.stamped;
        self.has_unread |= other.has_unread;
        self.other_traffic += other.other_traffic;
        for (part, more) in self.latency.iter_mut().zip(&other.latency) {
            part.add(more);
        }
        if let (Some(queue), Some(more)) = (&mut self.queue, &other.queue) {
            queue.add(more);
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
    pub(crate) fn judged(&mut self, frame: &[u8]) -> Noted {
        let noted = self.keeper.as_mut().and_then(Keeper::take_noted);
        let tag = self.read(frame);
        let stream = tag.and_then(|(_, tag, _)| self.stream_of(tag.stream));
        let mut judged = noted.unwrap_or_else(|| {
            let sequence = tag.zip(stream).map(|((_, tag, _), stream)| stream.sequence_of(tag));
            Noted { sequence, change: self.usual_change().copied(), ..Noted::default() }
        });
        if let (Some(sequence), Some(stream)) = (judged.sequence, stream) {
            (judged.flow, judged.latest) = stream.flow_of(sequence);
        }
        judged.at_ns = self.now.map(|since| self.epoch_of_day.ns + since.as_nanos() as u64);
        judged
    }

    /// The change that most headers of the only stream have, if frames have arrived.
    pub(crate) fn usual_change(&self) -> Option<&Change> {
        self.streams.first()?.changes().first().map(|(usual, _)| usual)
    }

    /// Whether a frame with these Ethernet addresses may belong to a stream. In a frame with a damaged tag
    /// some bytes may differ.
    pub(crate) fn has_stations(&self, addresses: &[u8], nameless: bool) -> bool {
        self.streams.iter().any(|stream| stream.has_stations(addresses, nameless))
    }

    /// Begins a new burst, whose time is read with the next frame.
    #[inline]
    pub fn burst(&mut self) {
        self.now = None;
    }

    /// The tag of a frame, and its position.
    #[inline]
    fn read(&mut self, frame: &[u8]) -> Option<(u32, Tag, usize)> {
        let found = self.formats.first()?.read_any(frame);
        found.or_else(|| self.read_elsewhere(frame))
    }

    /// The tag of a frame that has it at another place than the frame before, or at the place of no stream.
    #[inline(never)]
    fn read_elsewhere(&mut self, frame: &[u8]) -> Option<(u32, Tag, usize)> {
        let others = self.formats.iter().enumerate().skip(1);
        let found = others.filter_map(|(n, format)| Some((n, format.read_any(frame)?))).next();
        match found {
            Some((place, found)) => {
                self.formats.swap(0, place);
                Some(found)
            }
            None => self.read_shifted(frame),
        }
    }

    /// The index of the stream with this number, unless it was added; or any index.
    #[inline]
    fn index_of(&self, number: u16) -> usize {
        if self.streams.len() == 1 { 0 } else { usize::from(number.wrapping_sub(self.first)) }
    }

    /// The index of a stream with this number that was added.
    fn index_of_added(&self, number: u16) -> Option<usize> {
        self.streams.binary_search_by_key(&number, StreamArrivals::number).ok()
    }

    /// Whether the stream with this number is one of these.
    pub(crate) fn has_stream(&self, number: u16) -> bool {
        self.stream_of(number).is_some()
    }

    /// The number of the stream in the tag of a frame, if it has a tag.
    pub(crate) fn stream_in(&mut self, frame: &[u8]) -> Option<u16> {
        self.read(frame).map(|(_, tag, _)| tag.stream)
    }

    /// How much a frame without a whole tag resembles the frames of a stream, the least value the most.
    /// `None` if it does not.
    pub(crate) fn claim(&self, frame: &[u8]) -> Option<impl Ord + use<>> {
        let is_fragment = || self.streams.iter().any(|stream| stream.is_first_fragment(frame));
        let best = self.streams.iter().filter_map(|stream| stream.resembles(frame)).min();
        (best.is_some() || is_fragment()).then_some((best.is_none(), best))
    }

    /// The stream with this number.
    fn stream_of(&self, number: u16) -> Option<&StreamArrivals> {
        let of = |index: usize| self.streams.get(index).filter(|stream| stream.number() == number);
        of(self.index_of(number)).or_else(|| of(self.index_of_added(number)?))
    }

    /// Counts a frame, without FCS, with the time when the kernel received it, in ns since 1970, if that is
    /// known. Returns false if it is not of these streams.
    #[inline]
    pub fn take(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        let Some((trial, tag, at)) = self.read(frame) else {
            return self.take_untagged(frame, stamp);
        };
        let index = self.index_of(tag.stream);
        let is_ours = self.streams.get(index).is_some_and(|stream| stream.number() == tag.stream);
        if !is_ours || trial != self.trial {
            return self.take_added((frame, stamp), trial, (tag, at));
        }
        self.take_of(index, (frame, stamp), (tag, at))
    }

    /// Counts a frame of a stream that was added, or of none.
    #[cold]
    #[inline(never)]
    fn take_added(&mut self, (frame, stamp): (&[u8], Option<u64>), trial: u32, tag: (Tag, usize)) -> bool {
        match self.index_of_added(tag.0.stream).filter(|_| trial == self.trial) {
            Some(index) => self.take_of(index, (frame, stamp), tag),
            None => self.take_other(frame, stamp),
        }
    }

    /// Counts a frame of the stream with this index.
    #[inline(always)]
    fn take_of(
        &mut self,
        index: usize,
        (frame, stamp): (&[u8], Option<u64>),
        (tag, at): (Tag, usize),
    ) -> bool {
        let now_ns = self.now_ns(stamp);
        let sent_ps = tag.sent_ps_near(now_ns.saturating_sub(self.margin_ns) * 1000);
        let latency_ns = self.latency_ns(now_ns, sent_ps);
        let Some(stream) = self.streams.get_mut(index) else { return false };
        let Some(judged) = stream.judge(frame, (tag, at), (now_ns, sent_ps, latency_ns)) else {
            return false;
        };
        self.distinct += u64::from(judged.is_first);
        if judged.has_anomalies {
            self.keep_judged((frame, stamp), index);
        }
        if judged.is_first
            && let Some(line) = &mut self.line
        {
            let is_known = judged.is_whole && (self.margin_ns == 0 || self.gain.is_some());
            line.take(sent_ps / 1000, is_known.then(|| latency_ns.saturating_sub(self.margin_ns)));
        }
        if judged.is_timed {
            if let Some(queue) = &mut self.queue {
                queue.record(sent_ps / 1000, latency_ns);
            }
            let last = self.latency.len() - 1;
            let part = if last == 0 { 0 } else { ((now_ns / self.part_ns) as usize).min(last) };
            self.latency[part].record(latency_ns);
        }
        true
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

    /// Keeps the frame of a stream that was judged just now, if frames with anomalies are kept.
    #[cold]
    fn keep_judged(&mut self, frame: (&[u8], Option<u64>), index: usize) {
        if let Some((sequence, anomalies, change)) = self.streams.get(index).map(StreamArrivals::anomalous) {
            self.keep(frame, (index, Some(sequence)), anomalies, change);
        }
    }

    /// Keeps a frame with anomalies, if such frames are kept.
    #[cold]
    fn keep(
        &mut self,
        frame: (&[u8], Option<u64>),
        number: (usize, Option<u64>),
        anomalies: Anomalies,
        change: Option<Change>,
    ) {
        if let Some(keeper) = &mut self.keeper {
            keeper.keep(frame, number, anomalies, change);
        }
    }

    /// Reads the tag of a frame that has one layer of VLAN tags more or less than it should, or two, or the
    /// header of fragments of IPv6.
    #[cold]
    fn read_shifted(&self, frame: &[u8]) -> Option<(u32, Tag, usize)> {
        self.formats.iter().find_map(|format| {
            let place = format.offset(frame);
            let at = [place + 4, place + 8, place.wrapping_sub(4), place.wrapping_sub(8)];
            at.into_iter().find_map(|at| {
                let (trial, tag) = frame.get(at..)?.first_chunk().and_then(tag::from_bytes)?;
                (trial == self.trial && self.stream_of(tag.stream).is_some()).then_some((trial, tag, at))
            })
        })
    }

    /// A frame of others.
    #[cold]
    fn take_other(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        self.other_traffic += 1;
        let anomalies = Anomalies { other_traffic: true, ..Anomalies::default() };
        self.keep((frame, stamp), (0, None), anomalies, None);
        false
    }

    /// A frame without a whole tag of this load. Returns whether it may be one of a stream.
    #[cold]
    fn take_untagged(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.is_first_fragment(frame)) {
            stream.take_fragment();
        }
        // A tag with damage says more than headers without one, and the least damage is the most probable.
        let all = self.streams.iter().enumerate().filter_map(|(at, it)| Some((it.resembles(frame)?, at)));
        let Some(((what, _), index)) = all.min() else { return self.take_other(frame, stamp) };
        if !self.streams.get_mut(index).is_some_and(|stream| stream.take_unread(frame, what)) {
            return self.take_other(frame, stamp);
        }
        self.has_unread = true;
        let nameless = what == Resemblance::Nameless;
        if nameless && self.line.is_some() && self.nameless() <= self.missing() {
            // When it was sent is not known: about now.
            let now_ns = self.now_ns(stamp).saturating_sub(self.margin_ns);
            self.line.iter_mut().for_each(|line| line.take(now_ns, None));
        }
        let anomalies = Anomalies { nameless, tagless: !nameless, ..Anomalies::default() };
        self.keep((frame, stamp), (index, None), anomalies, None);
        true
    }

    /// The arrivals of each stream so far.
    pub(crate) fn of_streams(&self) -> Vec<StreamReceived> {
        let since = self.epoch_of_day.ns;
        self.streams.iter().map(|stream| stream.so_far(self.known_margin_ns(), since)).collect()
    }

    /// Frames with a damaged tag of the streams so far.
    fn nameless(&self) -> u64 {
        self.streams.iter().map(StreamArrivals::nameless).sum()
    }

    /// Frames that were sent before an arrived frame, and not received with an intact tag.
    fn missing(&self) -> u64 {
        self.streams.iter().map(StreamArrivals::missing).sum()
    }

    /// Frames that were sent before an arrived frame, and not received so far. A frame with a damaged tag may
    /// be one of them, and is received then.
    pub fn absent(&self) -> u64 {
        self.missing().saturating_sub(self.nameless())
    }

    /// Frames of the streams so far, without duplicates. A frame with a damaged tag counts if one is missing.
    #[inline]
    pub fn received(&self) -> u64 {
        match self.has_unread {
            true => self.streams.iter().map(StreamArrivals::received).sum(),
            false => self.distinct,
        }
    }

    /// The arrivals so far. Frames with a damaged tag are not settled.
    pub fn arrived(&self) -> Arrived {
        let mut all = Arrived { other_traffic: self.other_traffic, ..Arrived::default() };
        self.streams.iter().for_each(|stream| all += stream.arrived());
        all
    }

    /// Why frames arrive in another way than they should, as far as their headers show.
    pub fn findings(&self) -> Findings {
        self.streams.iter().map(StreamArrivals::findings).reduce(Findings::and).unwrap_or_default()
    }

    /// The only stream, if there is one and its fate is that of the direction.
    fn only(&self) -> Option<&StreamArrivals> {
        if let ([only], false) = (&self.streams[..], self.by_stream) { Some(only) } else { None }
    }

    /// The fate of each flow if `sent` frames were sent, and if there is one stream with several flows.
    pub fn by_flow(&self, sent: u64) -> Vec<OfFlow> {
        self.only().map(|stream| stream.by_flow(sent, self.known_margin_ns())).unwrap_or_default()
    }

    /// For each size, in the order of the mix, the frames sent and the frames with whole tags that arrived,
    /// without duplicates; if there is one stream with several sizes.
    pub fn by_size(&self, sent: u64) -> Vec<(u64, u64)> {
        self.only().map(|stream| stream.by_size(sent)).unwrap_or_default()
    }

    /// When the frame was sent that closed the last gap of a stream, counted from the first frame that
    /// arrived: nothing was lost after it. `None` without a gap; the end of time if the last of a stream's
    /// sent frames are missing. `sent`: the sent frames of each stream.
    pub fn last_gap(&self, sent: &[u64]) -> Option<Duration> {
        let of = |(stream, sent): (&StreamArrivals, &u64)| stream.last_gap_ps(*sent);
        match self.streams.iter().zip(sent).filter_map(of).max()? {
            u64::MAX => Some(Duration::MAX),
            last_ps => {
                let first_ps = self.streams.iter().filter_map(StreamArrivals::first_ps).min()?;
                Some(Duration::from_nanos(last_ps.saturating_sub(first_ps) / 1000))
            }
        }
    }

    /// When frames of `sent` sent ones were lost. `None` if all arrived, if some arrived whose numbers are
    /// unknown, or if there are several streams.
    fn losses(&self, sent: u64) -> Option<Losses> {
        self.only()?.losses(sent)
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

    /// The margin of latencies, if these are known.
    fn known_margin_ns(&self) -> Option<u64> {
        self.knows_latencies().then_some(self.margin_ns)
    }

    /// By how much the clock of arrivals was set meanwhile, if it was.
    fn clock_set_ns(&self) -> Option<i64> {
        self.stamped.then(|| TimeOfDay::at(self.epoch).set_since(&self.epoch_of_day))?
    }

    /// The kept frames with anomalies.
    pub fn take_kept(&mut self) -> Kept {
        self.keeper.take().map(|keeper| keeper.finish(&self.streams)).unwrap_or_default()
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
            self.streams.iter().for_each(|stream| first.variation.add(&stream.variation()));
        }
        (std::mem::take(&mut self.latency), arrival)
    }

    /// Notes the frames that were sent of each stream, once the records of all cores are put together.
    /// `by_cores`: the frames that each core of the sender has sent, if it has divided the only stream by its
    /// flows.
    pub fn settle_sent(&mut self, sent: &[u64], by_cores: &[u64]) {
        for (stream, sent) in self.streams.iter_mut().zip(sent) {
            stream.settle_sent(*sent, by_cores);
        }
    }

    /// The frames of each flow of each stream that arrived, without duplicates.
    pub(crate) fn came_of_flows(&self) -> FramesOfFlows {
        self.streams.iter().map(StreamArrivals::came_of_flows).collect()
    }

    /// The frames of each flow of each stream that were sent, if `sent` are the frames of each stream, which
    /// are [noted](Self::settle_sent) before.
    pub(crate) fn sent_of_flows(&self, sent: &[u64]) -> FramesOfFlows {
        self.streams.iter().zip(sent).map(|(stream, sent)| stream.sent_of_flows(*sent)).collect()
    }

    /// Whether the frames of a stream arrive with other addresses or ports than any of its frames was sent
    /// with.
    pub(crate) fn are_rewritten(&self) -> bool {
        self.streams.iter().any(StreamArrivals::is_rewritten)
    }

    /// The frames that arrived of those that were sent of each stream, and their latencies in parts.
    pub fn finish(mut self, sent: &[u64]) -> (Received, Vec<Latency>) {
        let (latency, arrival) = self.take_latency();
        let all = sent.iter().sum();
        let margin_ns = self.known_margin_ns();
        let mut received = Received {
            arrived: self.arrived(),
            last_gap: self.last_gap(sent),
            losses: self.losses(all),
            queue_growth: self.queue_growth(),
            arrival,
            flows: self.by_flow(all),
            streams: Vec::new(),
            sizes: self.by_size(all),
            kept: self.take_kept(),
            findings: self.findings(),
        };
        if self.by_stream {
            let streams = self.streams.iter_mut().zip(sent);
            let of = |(stream, sent): (&mut StreamArrivals, &u64)| -> OfStream {
                stream.of_stream(*sent, margin_ns)
            };
            received.streams = streams.map(of).collect();
        }
        (received, latency)
    }
}

#[cfg(test)]
mod shared_tests;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::judging::seen::Seen;
    use kpps_documents::FlowLatency;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::checksum::{Sum, checksum};
    use kpps_frames::flows::{Addresses, Flows, PortNumbers};
    use kpps_frames::{Mac, Mix, Size, Tag};
    use kpps_frames::{RawPacket, TemplateOptions, ipv4, tag, tcp, udp};
    use kpps_methods::Variation;
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

    /// Streams of a trial, with different headers.
    fn streams() -> Vec<(u16, Arc<Templates>)> {
        let between =
            kpps_frames::stack::Between { macs: MACS, ips: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()] };
        let stream = |(n, words): (usize, &[&str])| {
            let mut stack = kpps_frames::Stack::read(words[0]).unwrap();
            words[1..].chunks(2).for_each(|field| stack.set_text(field[0], field[1]).unwrap());
            let frames = stack.templates(&between, &"100:2,130:1".parse().unwrap()).unwrap();
            (n as u16 | tag::BACK, Arc::new(frames.of_trial(5)))
        };
        let all: [&[&str]; 4] = [
            &["ethernet/ipv4/udp", "udp.sport", "1-9"],
            &["ethernet/vlan/ipv4/tcp", "vlan.id", "7-9", "ipv4.src", "random:10.0.0.1-10.9.9.9"],
            &["ethernet/ipv4/udp", "udp.dport", "77"],
            &["ethernet/ipv6/udp", "ipv6.label", "0-99999"],
        ];
        all.into_iter().enumerate().map(stream).collect()
    }

    fn frame_of((stream, templates): &(u16, Arc<Templates>), sequence: u64) -> Vec<u8> {
        let mut frame = vec![0; 200];
        let bytes = templates.write(sequence, &mut frame).unwrap();
        frame.truncate(bytes.into());
        templates.tag().write(&mut frame, Tag { stream: *stream, sequence, sent_ps: 1 }).unwrap();
        frame
    }

    proptest::proptest! {
        /// Each of several streams has the counts that it has alone, whatever happens to its frames and to
        /// those of the others.
        #[test]
        fn streams_do_not_mix(all in proptest::collection::vec((0usize..4, 0u64..60, 0..9, 0usize..100), 0..300)) {
            let streams = streams();
            let arrivals = |streams: &[(u16, Arc<Templates>)]| {
                let streams = streams.iter().map(|(number, frames)| (*number, frames.clone(), 60));
                Arrivals::of(streams, true, Instant::now())
            };
            let mut together = arrivals(&streams);
            let mut alone: Vec<_> = streams.iter().map(|stream| arrivals(std::slice::from_ref(stream))).collect();
            for (at, sequence, kind, byte) in all {
                let mut frame = frame_of(&streams[at], sequence);
                match kind {
                    // Damage behind the headers, or in the tag.
                    0 => *frame.last_mut().unwrap() ^= 1,
                    1 => {
                        let place = streams[at].1.tag().offset(&frame) + 4;
                        frame[place + byte % 10] ^= 0x10;
                    }
                    // A router.
                    2 => frame[..12].fill(7),
                    _ => {}
                }
                proptest::prop_assert_eq!(together.take(&frame, None), alone[at].take(&frame, None));
            }
            let sent = [60; 4];
            let received = together.received();
            proptest::prop_assert_eq!(received, alone.iter().map(Arrivals::received).sum::<u64>());
            let (together, latency) = together.finish(&sent);
            let (mut sum, mut frames) = (Arrived::default(), 0);
            for (of, alone) in together.streams.iter().zip(alone) {
                let (alone, latency) = alone.finish(&sent[..1]);
                let own = &alone.streams[0];
                proptest::prop_assert_eq!(of.arrived, own.arrived);
                proptest::prop_assert_eq!(&of.losses, &own.losses);
                let times = |of: &OfStream| of.times.as_ref().map(|times| times.frames());
                proptest::prop_assert_eq!(times(of), times(own));
                sum += alone.arrived;
                frames += latency[0].frames();
            }
            proptest::prop_assert_eq!((together.arrived, latency[0].frames()), (sum, frames));
        }
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
        all.streams[0].seen.skip_to(limit - 101);
        for sequence in (limit - 100..limit + 100).filter(|sequence| *sequence != limit + 7) {
            all.take(&frame(sequence), None);
        }
        for sequence in [limit - 1, limit, limit + 99, limit + 7] {
            all.take(&frame(sequence), None);
        }
        let expected = Arrived { received: 200, duplicated: 3, reordered: 1, ..Arrived::default() };
        assert_eq!(all.arrived(), expected);
        assert!(all.streams[0].seen.words() <= (crate::judging::seen::WINDOW / 64) as usize);
    }

    #[test]
    fn memory_is_constant_and_duplicates_are_found_within_the_window() {
        let mut all = arrivals();
        all.streams[0].seen = Seen::remembering(256);
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
        assert_eq!(all.streams[0].seen.words(), 4);
        // Whether this frame has arrived before is no longer known.
        all.take(&frame(97 * 40 + 5), None);
        assert_eq!(all.arrived().duplicated, duplicated + 1);
        assert_eq!(all.last_gap(&[6000]), Some(Duration::MAX));
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
        assert_eq!(all.last_gap(&[12]), Some(Duration::from_micros(10)));
        send(&mut all, 7);
        assert_eq!(all.last_gap(&[12]), Some(Duration::from_micros(10)), "8 is missing");
        send(&mut all, 8);
        assert_eq!(all.last_gap(&[12]), None);
        let mut all = arrivals();
        for sequence in [0, 1, 4, 5, 9, 10, 11] {
            send(&mut all, sequence);
        }
        assert_eq!(all.last_gap(&[12]), Some(Duration::from_micros(9)));
        assert_eq!(all.last_gap(&[13]), Some(Duration::MAX), "the last one has not come");
        assert_eq!(arrivals().last_gap(&[1]), Some(Duration::MAX));
        assert_eq!(arrivals().last_gap(&[0]), None);
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
        all.streams[0].seen.skip_to(limit - 101);
        for sequence in (limit - 100..limit + 100).filter(|sequence| *sequence != limit + 7) {
            all.take(&frame(sequence), None);
        }
        for sequence in [limit - 1, limit, limit + 99, limit + 7] {
            all.take(&frame(sequence), None);
        }
        let expected = Arrived { received: 200, duplicated: 3, reordered: 1, ..Arrived::default() };
        assert_eq!((all.arrived(), all.streams[0].seen.highest()), (expected, Some(limit + 99)));
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
