//! The frames of a port in memory of a fixed size: the newest frame overwrites the oldest ones.
//!
//! The thread that has a frame copies it into the ring, with its time and its verdict in front of it. The
//! memory was written to before, so that each of its pages exists. Nothing is allocated, and nobody else uses
//! the ring meanwhile.

use crate::clock::TimeOfDay;
use crate::judging::header::Change;
use crate::judging::kept::{Anomalies, Noted};
use kpps_frames::Templates;
use std::collections::TryReserveError;
use std::sync::Arc;
use std::time::Instant;

/// The least memory of a ring in bytes: some of the longest frames fit in it.
const LEAST_BYTES: usize = 1 << 20;
/// The most changes of headers that are kept: as many as are counted, with some to spare.
const MOST_CHANGES: usize = 1024;
/// A number that is not known.
const UNKNOWN: u64 = u64::MAX;
const NO_FLOW: u32 = u32::MAX;
const NO_CHANGE: u16 = u16::MAX;
/// The contents of memory that has no frame yet. Zeros would get no pages before they are used.
const UNUSED: u8 = 0xa5;

/// The form of the rings for the frames of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingForm {
    /// Memory for each port, in bytes.
    pub ring_bytes: usize,
    /// The most bytes that are kept of a frame, without FCS; `None`: all of them.
    pub frame_bytes: Option<usize>,
}

/// The facts on a frame in the ring, beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// When it was sent or received, in ns since 1970.
    pub at_ns: u64,
    /// Its length in bytes, without FCS.
    pub length: u32,
    /// The port sent it.
    pub is_sent: bool,
    /// It was sent or received before the trial: while paths were learned.
    pub is_before: bool,
    /// The port answered it.
    pub is_answered: bool,
    /// A receiver judged it. `None` for a sent frame, and for a port that expects no frames.
    pub verdict: Option<Verdict>,
}

/// The judgement of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Its number, if it has a whole tag of the stream.
    pub sequence: Option<u64>,
    /// Its flow.
    pub flow: Option<u32>,
    /// The highest number of its flow that had arrived.
    pub latest: Option<u64>,
    /// Its anomalies.
    pub anomalies: Anomalies,
    /// The place of the change of its headers among all changes, until the verdicts are
    /// [settled](Ring::settle).
    change: Option<u16>,
}

/// Bits of a record's flags.
const SENT: u8 = 1;
const BEFORE: u8 = 2;
const ANSWERED: u8 = 4;
const JUDGED: u8 = 8;
/// Bytes of a record in the ring, and where its anomalies are, and the number of bytes that follow it.
const HEADER: usize = 40;
const ANOMALIES_AT: usize = 35;
const KEPT_AT: usize = 36;

/// Writes bytes at a place of an array that has room for them.
fn put<const N: usize>(bytes: &mut [u8; HEADER], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// The bytes at a place of a record.
fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

impl Record {
    /// As bytes, with the number of the frame's bytes that are kept.
    fn to_bytes(self, kept: usize) -> [u8; HEADER] {
        let verdict = self.verdict.unwrap_or_default();
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.is_sent, SENT)
            | flag(self.is_before, BEFORE)
            | flag(self.is_answered, ANSWERED)
            | flag(self.verdict.is_some(), JUDGED);
        let mut bytes = [0; HEADER];
        put(&mut bytes, 0, self.at_ns.to_le_bytes());
        put(&mut bytes, 8, verdict.sequence.unwrap_or(UNKNOWN).to_le_bytes());
        put(&mut bytes, 16, verdict.latest.unwrap_or(UNKNOWN).to_le_bytes());
        put(&mut bytes, 24, verdict.flow.unwrap_or(NO_FLOW).to_le_bytes());
        put(&mut bytes, 28, self.length.to_le_bytes());
        put(&mut bytes, 32, verdict.change.unwrap_or(NO_CHANGE).to_le_bytes());
        put(&mut bytes, 34, [flags, verdict.anomalies.bits()]);
        put(&mut bytes, KEPT_AT, (kept as u32).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let known = |value: u64| (value != UNKNOWN).then_some(value);
        let (flow, change) = (u32::from_le_bytes(get(bytes, 24)), u16::from_le_bytes(get(bytes, 32)));
        let [flags, anomalies] = get(bytes, 34);
        let verdict = Verdict {
            sequence: known(u64::from_le_bytes(get(bytes, 8))),
            latest: known(u64::from_le_bytes(get(bytes, 16))),
            flow: (flow != NO_FLOW).then_some(flow),
            change: (change != NO_CHANGE).then_some(change),
            anomalies: Anomalies::from_bits(anomalies),
        };
        Self {
            at_ns: u64::from_le_bytes(get(bytes, 0)),
            length: u32::from_le_bytes(get(bytes, 28)),
            is_sent: flags & SENT != 0,
            is_before: flags & BEFORE != 0,
            is_answered: flags & ANSWERED != 0,
            verdict: (flags & JUDGED != 0).then_some(verdict),
        }
    }
}

/// The ring of a port.
pub(crate) struct Ring {
    form: RingForm,
    bytes: Vec<u8>,
    /// Where the next frame will be, the oldest one, and the newest one.
    head: usize,
    tail: usize,
    newest: usize,
    /// Where the frames before the end of the memory end: the next ones are at its beginning.
    end: usize,
    /// Frames in the ring, and frames that newer ones have overwritten.
    frames: u64,
    overwritten: u64,
    /// Different changes of headers.
    changes: Vec<Change>,
    /// A moment, and its time in ns since 1970.
    clock: (Instant, u64),
    /// Frames come before the trial.
    is_before: bool,
}

impl Ring {
    /// A ring of this form, empty.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(form: RingForm) -> Result<Self, TryReserveError> {
        let length = form.ring_bytes.max(LEAST_BYTES);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length)?;
        bytes.resize(length, UNUSED);
        let now = Instant::now();
        Ok(Self {
            form,
            end: length,
            bytes,
            head: 0,
            tail: 0,
            newest: 0,
            frames: 0,
            overwritten: 0,
            changes: Vec::with_capacity(MOST_CHANGES),
            clock: (now, TimeOfDay::at(now).ns),
            is_before: true,
        })
    }

    /// The trial begins.
    pub fn begin(&mut self) {
        self.is_before = false;
    }

    fn now_ns(&self) -> u64 {
        self.clock.1 + self.clock.0.elapsed().as_nanos() as u64
    }

    /// A moment in ns since 1970.
    pub fn time_of(&self, moment: Instant) -> u64 {
        let (then, then_ns) = self.clock;
        match moment.checked_duration_since(then) {
            Some(since) => then_ns + since.as_nanos() as u64,
            None => then_ns.saturating_sub((then - moment).as_nanos() as u64),
        }
    }

    /// Adds a frame that the port sends now.
    pub fn sent(&mut self, frame: &[u8]) {
        let at_ns = self.now_ns();
        let length = frame.len() as u32;
        let is_before = self.is_before;
        let record = Record { at_ns, length, is_sent: true, is_before, is_answered: false, verdict: None };
        self.add(record, frame);
    }

    /// Removes the newest frame: the port has not taken it. Older frames may be lost nevertheless.
    pub fn forget_newest(&mut self) {
        if self.frames > 0 && self.head != self.newest {
            self.head = self.newest;
            self.frames -= 1;
            self.begin_anew_if_empty();
        }
    }

    /// An empty ring has no frames before the end of the memory.
    fn begin_anew_if_empty(&mut self) {
        if self.frames == 0 {
            (self.tail, self.end) = (self.head, self.bytes.len());
        }
    }

    /// Adds a frame that the port has received, with its time in ns since 1970, or now, and its judgement.
    pub fn received(&mut self, frame: &[u8], at_ns: Option<u64>, judged: Option<Noted>, is_answered: bool) {
        let at_ns = judged.and_then(|judged| judged.at_ns).or(at_ns);
        let verdict = judged.map(|judged| Verdict {
            sequence: judged.sequence,
            flow: judged.flow,
            latest: judged.latest,
            anomalies: judged.anomalies,
            change: judged.change.and_then(|change| self.place_of(&change)),
        });
        let at_ns = at_ns.unwrap_or_else(|| self.now_ns());
        let (length, is_before) = (frame.len() as u32, self.is_before);
        self.add(Record { at_ns, length, is_sent: false, is_before, is_answered, verdict }, frame);
    }

    /// The place of a change of headers among all of them, if there is room.
    fn place_of(&mut self, change: &Change) -> Option<u16> {
        let known = self.changes.iter().position(|known| known == change);
        let at = known.or_else(|| {
            let is_room = self.changes.len() < MOST_CHANGES;
            is_room.then(|| self.changes.push(*change)).map(|()| self.changes.len() - 1)
        });
        at.and_then(|at| u16::try_from(at).ok())
    }

    fn add(&mut self, record: Record, frame: &[u8]) {
        let most = self.form.frame_bytes.unwrap_or(usize::MAX);
        let kept = frame.get(..frame.len().min(most)).unwrap_or_default();
        let need = HEADER + kept.len();
        if need > self.bytes.len() {
            // No frame is as long as the smallest ring.
            self.overwritten += 1;
            return;
        }
        if self.head + need > self.bytes.len() {
            // The frame does not fit behind the newest one: it goes to the beginning.
            while self.frames > 0 && self.tail >= self.head {
                self.drop_oldest();
            }
            (self.end, self.head) = (self.head, 0);
        }
        while self.frames > 0 && (self.head..self.head + need).contains(&self.tail) {
            self.drop_oldest();
        }
        self.begin_anew_if_empty();
        let Some(place) = self.bytes.get_mut(self.head..self.head + need) else { return };
        let (header, bytes) = place.split_at_mut(HEADER);
        header.copy_from_slice(&record.to_bytes(kept.len()));
        bytes.copy_from_slice(kept);
        self.newest = self.head;
        self.head += need;
        self.frames += 1;
    }

    fn drop_oldest(&mut self) {
        self.tail = self.behind(self.tail);
        if self.tail == 0 {
            // The other frames are one behind the other.
            self.end = self.bytes.len();
        }
        self.frames -= 1;
        self.overwritten += 1;
    }

    /// Where the record at `at` ends, and where the next one begins.
    fn behind(&self, at: usize) -> usize {
        let kept = u32::from_le_bytes(get(&self.bytes[at..], KEPT_AT)) as usize;
        match at + HEADER + kept {
            end if end == self.end => 0,
            end => end,
        }
    }

    /// The places of all records, the oldest first.
    fn places(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(self.tail), |at| Some(self.behind(*at))).take(self.frames as usize)
    }

    /// Settles the verdicts on the received frames when all have come: a change of headers is damage unless
    /// most frames of a sender have it (`usual`). `may_be_ours`: whether a frame without a whole tag has
    /// Ethernet addresses of a stream, which may be damaged if it has a damaged tag.
    pub fn settle(&mut self, usual: &[&Change], may_be_ours: impl Fn(&[u8], bool) -> bool) {
        let is_usual: Vec<bool> = self.changes.iter().map(|change| usual.contains(&change)).collect();
        let places: Vec<usize> = self.places().collect();
        for at in places {
            let (record, frame) = self.at(at);
            let Some(Verdict { mut anomalies, change, .. }) = record.verdict else { continue };
            if let Some(change) = change {
                anomalies.corrupted = is_usual.get(usize::from(change)) != Some(&true);
            }
            if (anomalies.nameless || anomalies.tagless) && !may_be_ours(frame, anomalies.nameless) {
                anomalies = Anomalies { other_traffic: true, ..Anomalies::default() };
            }
            self.bytes[at + ANOMALIES_AT] = anomalies.bits();
        }
    }

    fn at(&self, at: usize) -> (Record, &[u8]) {
        let rest = &self.bytes[at..];
        let kept = u32::from_le_bytes(get(rest, KEPT_AT)) as usize;
        (Record::from_bytes(rest), rest.get(HEADER..HEADER + kept).unwrap_or_default())
    }

    /// All frames, the oldest first.
    pub fn frames(&self) -> impl Iterator<Item = (Record, &[u8])> {
        self.places().map(|at| self.at(at))
    }
}

/// All frames that a port sent and received in a trial, as far as they are kept.
pub struct Captured {
    pub(crate) ring: Ring,
    /// When the trial began, in ns since 1970: the origin of the times in tags.
    pub(crate) epoch_ns: u64,
    /// The frames that the port sent, as they left, and those that it expected, as they should arrive. Both
    /// without their tags.
    pub(crate) leaving: Option<Arc<Templates>>,
    /// See `leaving`.
    pub(crate) arriving: Option<Arc<Templates>>,
    /// Whether frames have no tags.
    pub(crate) is_replay: bool,
    /// Frames that the port received and sent meanwhile, by its own counters.
    pub received: u64,
    /// See `received`.
    pub sent: u64,
}

impl Captured {
    /// The form of the ring.
    pub fn form(&self) -> RingForm {
        RingForm { ring_bytes: self.ring.bytes.len(), ..self.ring.form }
    }

    /// The number of frames in it.
    pub fn len(&self) -> u64 {
        self.ring.frames
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ring.frames == 0
    }

    /// The number of older frames that were overwritten.
    pub fn overwritten(&self) -> u64 {
        self.ring.overwritten
    }

    /// All frames with their records, the oldest first.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (Record, &[u8])> {
        self.ring.frames()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A ring of this memory, which is less than a user can ask for.
    fn ring(bytes: usize, frame_bytes: Option<usize>) -> Ring {
        let form = RingForm { ring_bytes: 0, frame_bytes };
        let mut ring = Ring::new(form).unwrap();
        ring.bytes.truncate(bytes);
        ring.end = bytes;
        ring
    }

    fn judged(sequence: u64, change: Option<Change>) -> Noted {
        Noted { sequence: Some(sequence), flow: Some(3), change, ..Noted::default() }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let anomalies = Anomalies { duplicated: true, tagless: true, ..Anomalies::default() };
        let verdict = Verdict { sequence: Some(7), flow: None, latest: Some(9), anomalies, change: Some(2) };
        for verdict in [None, Some(verdict), Some(Verdict { flow: Some(0), ..Verdict::default() })] {
            for bits in 0..8 {
                let [is_sent, is_before, is_answered] = [1, 2, 4].map(|bit| bits & bit != 0);
                let record = Record { at_ns: 5, length: 60, is_sent, is_before, is_answered, verdict };
                assert_eq!(Record::from_bytes(&record.to_bytes(60)), record);
            }
        }
    }

    /// The change of most frames is no damage, whichever came first.
    #[test]
    fn verdicts_are_settled_at_the_end() {
        let mut ring = ring(1 << 12, None);
        let [rare, usual] = [[1; 128], [2; 128]];
        for (sequence, change) in [(0, Some(rare)), (1, Some(usual)), (2, Some(usual)), (3, None)] {
            let mut judged = judged(sequence, change);
            judged.anomalies.corrupted = sequence == 1;
            ring.received(&[7; 60], Some(sequence), Some(judged), false);
        }
        for (from, nameless) in [(8, true), (9, true), (8, false)] {
            let anomalies = Anomalies { nameless, tagless: !nameless, ..Anomalies::default() };
            ring.received(&[from; 60], Some(9), Some(Noted { anomalies, ..Noted::default() }), false);
        }
        ring.sent(&[7; 61]);
        ring.settle(&[&usual], |frame, _| frame[0] == 8);
        let all: Vec<_> = ring.frames().map(|(record, _)| record.verdict.map(|it| it.anomalies)).collect();
        let is = |change: fn(&mut Anomalies)| {
            let mut anomalies = Anomalies::default();
            change(&mut anomalies);
            Some(anomalies)
        };
        assert_eq!(all[..4], [is(|it| it.corrupted = true), is(|_| ()), is(|_| ()), is(|_| ())]);
        let others =
            [is(|it| it.nameless = true), is(|it| it.other_traffic = true), is(|it| it.tagless = true)];
        assert_eq!((&all[4..7], all[7]), (&others[..], None));
    }

    #[test]
    fn a_frame_that_was_not_taken_is_forgotten() {
        let mut ring = ring(700, None);
        for round in 0..50 {
            ring.sent(&[round; 60]);
            ring.sent(&[99; 70]);
            ring.forget_newest();
            let newest = ring.frames().last().unwrap();
            assert_eq!((newest.1, newest.0.length), (&[round; 60][..], 60), "{round}");
        }
        ring.frames = 0;
        ring.forget_newest();
        assert_eq!(ring.frames().count(), 0);
    }

    proptest! {
        /// The ring has the newest frames, all in order and whole, and counts the others.
        #[test]
        fn the_newest_frames_are_kept(
            memory in 200usize..2000,
            lengths in prop::collection::vec(0usize..160, 0..200),
            most in prop::option::of(64usize..200),
        ) {
            let mut ring = ring(memory, most);
            let mut model = VecDeque::new();
            for (n, length) in lengths.iter().enumerate() {
                let frame = vec![n as u8; *length];
                ring.received(&frame, Some(n as u64), Some(judged(n as u64, None)), false);
                model.push_back((n as u64, *length, frame[..(*length).min(most.unwrap_or(*length))].to_vec()));
            }
            prop_assert_eq!(ring.frames + ring.overwritten, lengths.len() as u64);
            let kept: Vec<_> =
                ring.frames().map(|(record, bytes)| (record.at_ns, record.length as usize, bytes.to_vec())).collect();
            model.drain(..ring.overwritten as usize);
            prop_assert_eq!(&kept, &Vec::from(model));
            // Memory is unused in two places: before its end, and before the oldest frame.
            let used: usize = kept.iter().map(|(.., bytes)| HEADER + bytes.len()).sum();
            prop_assert!(ring.overwritten == 0 || used + 2 * (HEADER + 200) >= memory, "{} of {}", used, memory);
        }
    }
}
