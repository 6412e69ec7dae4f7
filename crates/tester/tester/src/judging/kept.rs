//! Frames with anomalies, kept for inspection.

use crate::judging::header::Change;
use std::collections::HashMap;
use std::time::SystemTime;

/// Frames that are kept of each anomaly: a flood of one kind leaves room for the others.
const MOST_PER_ANOMALY: u32 = 1000;
/// Bytes that are reserved: enough for a thousand of the longest frames that ports send.
const ROOM: usize = 1 << 21;
/// The reasons of frames with headers of the stream and a damaged tag, or nothing like its tag, until they
/// are settled.
const NAMELESS: &str = "damaged tag";
const TAGLESS: &str = "no tag";

/// The anomalies of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Anomalies {
    /// It had arrived before.
    pub duplicated: bool,
    /// One of its flow that was sent later arrived before.
    pub reordered: bool,
    /// It is damaged.
    pub corrupted: bool,
    /// Its tag is damaged: of the stream, or other traffic.
    pub nameless: bool,
    /// It has headers of the stream and nothing like its tag: of the stream, or other traffic.
    pub tagless: bool,
    /// It is other traffic: not of this trial.
    pub other_traffic: bool,
}

impl Anomalies {
    const NAMES: [&str; 6] = ["duplicated", "reordered", "corrupted", NAMELESS, TAGLESS, "other traffic"];

    fn each(self) -> [bool; 6] {
        [self.duplicated, self.reordered, self.corrupted, self.nameless, self.tagless, self.other_traffic]
    }

    /// A bit for each.
    pub fn bits(self) -> u8 {
        self.each().into_iter().rev().fold(0, |bits, it| bits << 1 | u8::from(it))
    }

    /// The anomalies with these bits.
    pub fn from_bits(bits: u8) -> Self {
        let [duplicated, reordered, corrupted, nameless, tagless, other_traffic] =
            [0, 1, 2, 3, 4, 5].map(|at| bits >> at & 1 != 0);
        Self { duplicated, reordered, corrupted, nameless, tagless, other_traffic }
    }
}

/// The judgement of a frame when it arrives, as a capture of all frames needs it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    /// When it arrived, in ns since 1970, if that was read for its burst.
    pub at_ns: Option<u64>,
    /// Its number and its flow, if it has a whole tag of the stream.
    pub sequence: Option<u64>,
    /// See `sequence`.
    pub flow: Option<u32>,
    /// The highest number of its flow that had arrived.
    pub latest: Option<u64>,
    /// Its anomalies.
    pub anomalies: Anomalies,
    /// How its header differs from the sent one, if that is damage unless most frames turn out to have it.
    pub change: Option<Change>,
}

/// A frame with anomalies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnomalousFrame {
    /// When it arrived, in ns since 1970.
    pub at_ns: u64,
    /// Its bytes, without FCS.
    pub frame: Vec<u8>,
    /// Its anomalies, in words.
    pub why: String,
}

/// Frames with anomalies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// In the order of their arrival.
    pub frames: Vec<AnomalousFrame>,
    /// The number of frames that were not kept: the first thousand of each anomaly are.
    pub not_kept: u64,
    /// The words on frames with a damaged tag, and on frames without anything like a tag, once known.
    pub settled: [&'static str; 2],
}

impl Kept {
    /// Records what frames with a damaged tag count as: `ours` of `all` are corrupted frames of the stream,
    /// the others are other traffic. If there are both kinds, the kind of a single frame is unknown.
    pub fn settle(&mut self, ours: u64, all: u64) {
        self.settled[0] = match ours {
            0 => "other traffic with a damaged tag",
            _ if ours >= all => "corrupted",
            _ => "corrupted, or other traffic with a damaged tag",
        };
        self.call(NAMELESS, self.settled[0]);
    }

    /// Records that frames without anything like a tag may be damaged frames of the stream, if `either` is
    /// above 0.
    pub fn settle_tagless(&mut self, either: u64) {
        self.settled[1] = if either > 0 { "corrupted, or other traffic" } else { "other traffic" };
        self.call(TAGLESS, self.settled[1]);
    }

    fn call(&mut self, unsettled: &str, why: &str) {
        for frame in self.frames.iter_mut().filter(|frame| frame.why == unsettled) {
            frame.why = why.into();
        }
    }
}

/// A frame, and all that is known of it when it arrives.
struct Suspect {
    at_ns: u64,
    /// Where its bytes begin, and their number.
    bytes: (usize, usize),
    /// The stream, by its index, and its number in the stream. Of a frame without a whole tag, the stream
    /// that it resembles.
    stream: usize,
    sequence: Option<u64>,
    anomalies: Anomalies,
    change: Option<Change>,
}

/// Keeps frames while they arrive.
pub(crate) struct Keeper {
    bytes: Vec<u8>,
    suspects: Vec<Suspect>,
    /// Frames kept for each anomaly.
    kept: [u32; 6],
    not_kept: u64,
    /// For each change of headers in a stream, how many frames are among the kept ones, or counted as not
    /// kept.
    counts: HashMap<(usize, Change), u64>,
    /// Frames are kept, and not only noted.
    keeps: bool,
    /// The judgement of the last frame, if it has anomalies, until it is [taken](Self::take_noted).
    noted: Option<Noted>,
}

impl Keeper {
    pub fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(ROOM),
            suspects: Vec::with_capacity(MOST_PER_ANOMALY as usize),
            kept: [0; 6],
            not_kept: 0,
            counts: HashMap::new(),
            keeps: true,
            noted: None,
        }
    }

    /// Keeps no frames: only the judgement of the last one is noted.
    pub fn noting() -> Self {
        Self { bytes: Vec::new(), suspects: Vec::new(), keeps: false, ..Self::new() }
    }

    /// The judgement of the last frame, if it has anomalies and was not asked for before.
    pub fn take_noted(&mut self) -> Option<Noted> {
        self.noted.take()
    }

    /// Keeps a frame while there is room, with its time of arrival, or now. If the change of its header is
    /// known, that is damage unless most frames turn out to have it.
    pub fn keep(
        &mut self,
        (frame, at_ns): (&[u8], Option<u64>),
        (stream, sequence): (usize, Option<u64>),
        anomalies: Anomalies,
        change: Option<Change>,
    ) {
        self.noted = Some(Noted { sequence, anomalies, change, ..Noted::default() });
        if !self.keeps {
            return;
        }
        let each = anomalies.each();
        let room = each.iter().zip(&self.kept).any(|(it, kept)| *it && *kept < MOST_PER_ANOMALY);
        let undecided =
            Anomalies { corrupted: true, ..Anomalies::default() } == anomalies && change.is_some();
        if !room && undecided {
            return;
        }
        if let Some(change) = change {
            *self.counts.entry((stream, change)).or_default() += 1;
        }
        if !room {
            self.not_kept += 1;
            return;
        }
        for (it, kept) in each.into_iter().zip(&mut self.kept) {
            *kept += u32::from(it);
        }
        let now = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
        let at_ns = at_ns.unwrap_or_else(now);
        let bytes = (self.bytes.len(), frame.len());
        self.bytes.extend_from_slice(frame);
        self.suspects.push(Suspect { at_ns, bytes, stream, sequence, anomalies, change });
    }

    /// The kept frames of these streams; of none if frames have no tags.
    pub fn finish<S: Judge>(self, streams: &[S]) -> Kept {
        let several = streams.len() > 1;
        let anomalous = |suspect: &Suspect| {
            let Suspect { at_ns, bytes: (from, length), stream: at, sequence, mut anomalies, change } =
                *suspect;
            let stream = streams.get(at);
            if change.is_some() {
                let usual = stream.and_then(|stream| stream.changes().first()).map(|(change, _)| change);
                anomalies.corrupted = change.as_ref() != usual;
            }
            let frame = self.bytes.get(from..from + length)?.to_vec();
            let has_stations = stream.is_some_and(|stream| stream.has_stations(&frame, anomalies.nameless));
            if (anomalies.nameless || anomalies.tagless) && !has_stations {
                anomalies = Anomalies { other_traffic: true, ..Anomalies::default() };
            }
            let names = anomalies.each().into_iter().zip(Anomalies::NAMES).filter(|(it, _)| *it);
            let names = names.map(|(_, name)| name).collect::<Vec<_>>().join(", ");
            let number = match sequence {
                Some(sequence) if several => format!("stream {}, number {sequence}: ", at + 1),
                Some(sequence) => format!("number {sequence}: "),
                None => String::new(),
            };
            (anomalies != Anomalies::default()).then(|| AnomalousFrame { at_ns, frame, why: number + &names })
        };
        let damaged = |(at, stream): (usize, &S)| {
            let counts = |change: &Change| self.counts.get(&(at, *change)).copied().unwrap_or(0);
            let rare = stream.changes().iter().skip(1);
            rare.map(|(change, frames)| frames.saturating_sub(counts(change))).sum::<u64>()
        };
        if !self.keeps {
            return Kept::default();
        }
        Kept {
            frames: self.suspects.iter().filter_map(anomalous).collect(),
            not_kept: self.not_kept + streams.iter().enumerate().map(damaged).sum::<u64>(),
            ..Kept::default()
        }
    }
}

/// The knowledge of a stream about its frames at the end of a trial.
pub(crate) trait Judge {
    /// How often each change of headers occurred, the most frequent first.
    fn changes(&self) -> &[(Change, u64)];
    /// Whether a frame without a whole tag has Ethernet addresses of the stream, which may be damaged if it
    /// has a damaged tag.
    fn has_stations(&self, frame: &[u8], nameless: bool) -> bool;
}
