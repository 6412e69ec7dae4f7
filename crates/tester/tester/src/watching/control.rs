//! The control of single streams while their trial runs, and their counts meanwhile.

use crate::error::Error;
use crate::running::building::{BuiltStream, StreamBuilder};
use crate::running::streams::{MOST_STREAMS, Stream};
use crate::watching::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use kpps_documents::FlowLatency;
use kpps_ports::port::run::Change;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long a [snapshot](StreamControl::snapshot) waits for the ports at most. They answer within 20 ms, if
/// they run.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts, stops and changes the streams of a running trial, adds streams, and asks for their counts. It
/// belongs to one trial. Its user has one end, and the threads of the ports have the other.
#[derive(Debug)]
pub struct StreamControl {
    places: Mutex<Places>,
    /// How streams are built that are added, once the trial has begun.
    builder: Mutex<Option<StreamBuilder>>,
    /// The streams that were added.
    added: Mutex<Vec<Stream>>,
    /// For each port, the added streams that it does not expect yet, with their senders; and whether there
    /// are any.
    expected: Mutex<Vec<Vec<(usize, BuiltStream)>>>,
    are_added: Vec<AtomicBool>,
    /// Whether streams wait until they are started.
    waits: bool,
    /// The changes that each port has not made yet, and whether there are any.
    changes: Mutex<Vec<Vec<Change>>>,
    has_news: Vec<AtomicBool>,
    ends: AtomicBool,
    /// How often counts were asked for, and the last question that each port has answered as a receiver and
    /// as a sender.
    asked: AtomicU64,
    answered: Vec<[AtomicU64; 2]>,
    /// The last counts of each port.
    counts: Mutex<Vec<Counts>>,
    /// The trial is over: counts no longer change.
    is_over: AtomicBool,
}

/// The ports of a stream.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: usize,
    to: usize,
    /// Its index among the streams that its port sends.
    of_sender: usize,
    /// Its index among the streams from its sender to its receiver.
    of_direction: usize,
}

/// The places of all streams, in their order.
#[derive(Debug, Default)]
struct Places {
    all: Vec<Place>,
    /// The number of streams from each port, and from it to each other one.
    counts: BTreeMap<(usize, Option<usize>), usize>,
}

impl Places {
    /// The place of another stream from one port to another, behind the others.
    fn next(&self, (from, to): (usize, usize)) -> Place {
        let count = |of| self.counts.get(&of).copied().unwrap_or(0);
        Place { from, to, of_sender: count((from, None)), of_direction: count((from, Some(to))) }
    }

    /// Adds a stream in its [place](Self::next).
    fn push(&mut self, place: Place) {
        for of in [(place.from, None), (place.from, Some(place.to))] {
            *self.counts.entry(of).or_default() += 1;
        }
        self.all.push(place);
    }
}

/// The counts of the streams that a port sends, and of those that it receives.
#[derive(Debug, Default)]
struct Counts {
    sent: Vec<u64>,
    are_sending: Vec<bool>,
    received: Received,
}

/// The counts of the streams from each sender that a port receives.
pub(crate) type Received = BTreeMap<usize, Vec<StreamReceived>>;

/// Frames of a stream that have arrived so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamReceived {
    /// Without duplicates.
    pub frames: u64,
    /// For each size of the mix, frames with whole tags without duplicates.
    pub sizes: Vec<u64>,
    /// When the first and the last of them arrived, in ns since 1970.
    pub arrivals_ns: Option<[u64; 2]>,
    pub latency: Option<FlowLatency>,
}

/// The counts of a stream while its trial runs.
#[derive(Clone, Debug, Default)]
pub struct StreamNow {
    /// Frames that were given to the sending port.
    pub sent: u64,
    /// Frames that have arrived, without duplicates; not more than were sent.
    pub received: u64,
    /// Of these, the frames of each size of its mix, in the order of the mix. Frames whose number cannot be
    /// read are missing here.
    pub received_sizes: Vec<u64>,
    /// When the first and the last frame with a whole tag arrived, in ns since 1970, if any has.
    pub arrivals_ns: Option<[u64; 2]>,
    /// Their times from sending to receiving, if any have come and these are known.
    pub latency: Option<FlowLatency>,
    /// Whether it has frames that were not sent.
    pub is_sending: bool,
}

impl StreamControl {
    /// For these streams between this number of ports. `waits`: whether each waits until it is
    /// [started](Self::start).
    pub fn new(ports: usize, streams: &[Stream], waits: bool) -> Self {
        Self::between(ports, streams.iter().map(|stream| (stream.from, stream.to)), waits)
    }

    /// To read the counts of these streams only, which nobody controls.
    pub(crate) fn watching(ports: usize, streams: &[Stream]) -> Self {
        let control = Self::new(ports, streams, false);
        for (at, [_, as_sender]) in control.answered.iter().enumerate() {
            if streams.iter().all(|stream| stream.from != at) {
                // Nothing sends here that could answer.
                as_sender.store(u64::MAX, Ordering::Relaxed);
            }
        }
        control
    }

    fn between(ports: usize, streams: impl Iterator<Item = (usize, usize)>, waits: bool) -> Self {
        let mut places = Places::default();
        streams.for_each(|ends| places.push(places.next(ends)));
        let flags = || (0..ports).map(|_| AtomicBool::new(false)).collect();
        Self {
            places: Mutex::new(places),
            builder: Mutex::default(),
            added: Mutex::default(),
            expected: Mutex::new(vec![Vec::new(); ports]),
            are_added: flags(),
            waits,
            changes: Mutex::new(vec![Vec::new(); ports]),
            has_news: flags(),
            ends: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            answered: (0..ports).map(|_| Default::default()).collect(),
            counts: Mutex::new((0..ports).map(|_| Counts::default()).collect()),
            is_over: AtomicBool::new(false),
        }
    }

    /// The number of its ports.
    pub(crate) fn ports(&self) -> usize {
        self.answered.len()
    }

    /// Whether streams wait until they are started.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Starts streams, by their indices in the tester: each begins anew, with its delay, duration and number
    /// of frames, unless it sends already. Streams of one port that are started together have one beginning.
    pub fn start(&self, streams: &[usize]) {
        self.change(streams, Change::Start);
    }

    /// Stops streams. Frames that are due and not late are still sent.
    pub fn stop(&self, streams: &[usize]) {
        self.change(streams, Change::Stop);
    }

    /// Gives a stream another rate in frames per second, which is above 0.
    pub fn set_pps(&self, stream: usize, pps: f64) {
        if pps > 0.0 && pps.is_finite() {
            self.change(&[stream], |stream| Change::Rate(stream, pps));
        }
    }

    /// Pauses streams. Frames that are due are still sent.
    pub fn pause(&self, streams: &[usize]) {
        self.change(streams, Change::Pause);
    }

    /// Streams that are paused go on: the times of their frames are later by the pause.
    pub fn resume(&self, streams: &[usize]) {
        self.change(streams, Change::Resume);
    }

    /// The trial has begun: streams can be added.
    pub(crate) fn begin(&self, builder: StreamBuilder) {
        *self.builder.lock().unwrap_or_else(PoisonError::into_inner) = Some(builder);
    }

    /// Adds a stream behind the others, which waits to be [started](Self::start). Returns its index. A
    /// [snapshot](Self::snapshot) before the start waits until the receiver expects the stream.
    ///
    /// # Errors
    /// [`Error::NoSuchPorts`]; [`Error::NoMoreStreams`] if its port sends too many, or if the trial has not
    /// begun or has ended; [`Error::Stream`].
    pub fn add(&self, stream: &Stream) -> Result<usize, Error> {
        stream.check_ports(self.ports())?;
        let Stream { from, to, .. } = *stream;
        let has_ended = self.ends() || self.is_over.load(Ordering::Acquire);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.next((from, to));
        let builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        // The numbers of streams are unique in a trial.
        let number =
            u16::try_from(places.all.len()).ok().filter(|_| place.of_sender < MOST_STREAMS && !has_ended);
        let possible = builder.as_ref().zip(number);
        let (builder, number) = possible.ok_or_else(|| Error::NoMoreStreams(stream.name.clone()))?;
        let built = builder.another(number, stream)?;
        let plan = Arc::new(built.plan.clone());
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)[to].push((from, built));
        self.are_added[to].store(true, Ordering::Release);
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)[from].push(Change::Add(plan));
        self.has_news[from].store(true, Ordering::Release);
        self.added.lock().unwrap_or_else(PoisonError::into_inner).push(stream.clone());
        places.push(place);
        Ok(places.all.len() - 1)
    }

    /// The receiver of each stream that a port sends, in their order.
    pub(crate) fn receivers(&self, from: usize) -> Vec<usize> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.all.iter().filter(|place| place.from == from).map(|place| place.to).collect()
    }

    /// The streams that were added.
    pub fn added(&self) -> Vec<Stream> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The streams that were added and that a port does not expect yet, with their senders.
    #[inline]
    pub(crate) fn new_streams(&self, to: usize) -> Vec<(usize, BuiltStream)> {
        if !self.are_added[to].load(Ordering::Relaxed) || !self.are_added[to].swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.expected.lock().unwrap_or_else(PoisonError::into_inner)[to])
    }

    /// Ends the trial as if its time were over: the ports send no more frames and receive what is under way,
    /// and the counters are read.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Release);
    }

    /// Whether the trial is to end.
    pub(crate) fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    fn change(&self, streams: &[usize], change: impl Fn(usize) -> Change) {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen: Vec<Place> =
            streams.iter().filter_map(|stream| places.all.get(*stream).copied()).collect();
        for place in &chosen {
            changes[place.from].push(change(place.of_sender));
        }
        drop((changes, places));
        chosen.iter().for_each(|place| self.has_news[place.from].store(true, Ordering::Release));
    }

    /// Whether a port has changes to make.
    pub(crate) fn has_changes(&self, from: usize) -> bool {
        self.has_news[from].load(Ordering::Acquire)
    }

    /// The changes that a port has not made yet.
    #[inline]
    pub(crate) fn changes(&self, from: usize) -> Vec<Change> {
        if !self.has_news[from].load(Ordering::Relaxed) || !self.has_news[from].swap(false, Ordering::AcqRel)
        {
            return Vec::new();
        }
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut changes[from])
    }

    /// The counts of all streams, in the order of the tester. Each stream's received frames are counted
    /// before its sent frames, so that no more are received than sent. Waits a moment for the ports; a port
    /// that does not answer within a second, or whose trial is over, has its last counts.
    pub fn snapshot(&self) -> Vec<StreamNow> {
        let asked = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let begun = Instant::now();
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner).all.clone();
        let is_answered = |last: &AtomicU64| last.load(Ordering::Acquire) >= asked;
        let is_ready =
            || self.is_over.load(Ordering::Acquire) || self.answered.iter().flatten().all(is_answered);
        while !is_ready() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = |place: &Place| {
            let sender = &counts[place.from];
            let there = counts[place.to].received.get(&place.from);
            let received = there.and_then(|all| all.get(place.of_direction)).cloned().unwrap_or_default();
            let sent = sender.sent.get(place.of_sender).copied().unwrap_or(0);
            StreamNow {
                sent: sent.max(received.frames),
                received: received.frames,
                received_sizes: received.sizes,
                arrivals_ns: received.arrivals_ns,
                latency: received.latency,
                is_sending: sender.are_sending.get(place.of_sender).copied().unwrap_or(!self.waits),
            }
        };
        places.iter().map(now).collect()
    }

    /// The question that a port has not answered yet as a receiver.
    #[inline]
    pub(crate) fn asks_receiver(&self, to: usize) -> Option<u64> {
        let asked = self.asked.load(Ordering::Acquire);
        (self.answered[to][0].load(Ordering::Relaxed) < asked).then_some(asked)
    }

    /// The question that a port has not answered yet as a sender, once all receivers have answered it.
    #[inline]
    pub(crate) fn asks_sender(&self, from: usize) -> Option<u64> {
        let last = self.answered[from][1].load(Ordering::Relaxed);
        if last >= self.asked.load(Ordering::Acquire) {
            return None;
        }
        let answered = self.answered.iter().map(|[received, _]| received.load(Ordering::Acquire)).min()?;
        (last < answered).then_some(answered)
    }

    /// A port answers a question as a receiver.
    pub(crate) fn received(&self, to: usize, question: u64, received: Received) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)[to].received = received;
        self.answered[to][0].store(question, Ordering::Release);
    }

    /// A port answers a question as a sender: the frames of each of its streams, and whether it is sending.
    pub(crate) fn sent(&self, from: usize, question: u64, sent: &[u64], are_sending: &[bool]) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        (counts[from].sent, counts[from].are_sending) = (sent.to_vec(), are_sending.to_vec());
        drop(counts);
        self.answered[from][1].store(question, Ordering::Release);
    }

    /// A port sends no more. `sent`: the frames of each of its streams.
    pub(crate) fn has_sent(&self, from: usize, sent: &[u64]) {
        self.sent(from, u64::MAX, sent, &vec![false; sent.len()]);
    }

    /// A port receives no more.
    pub(crate) fn has_received(&self, to: usize, received: Received) {
        self.received(to, u64::MAX, received);
    }

    /// The trial is over.
    pub(crate) fn close(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

#[cfg(all(test, not(kpps_loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::running::building::StreamEnd;

    fn control<const N: usize>(ports: usize, streams: [(usize, usize); N], waits: bool) -> StreamControl {
        StreamControl::between(ports, streams.into_iter(), waits)
    }

    #[test]
    fn changes_reach_the_port_that_sends_the_stream() {
        let control = control(3, [(1, 0), (0, 1), (1, 2)], true);
        assert!(control.changes(0).is_empty() && control.changes(1).is_empty());
        control.start(&[0, 1, 2, 99]);
        control.set_pps(2, 7.0);
        control.set_pps(2, f64::NAN);
        assert!(control.has_changes(0) && control.has_changes(1) && !control.has_changes(2));
        assert_eq!(control.changes(0), [Change::Start(0)]);
        assert_eq!(control.changes(1), [Change::Start(0), Change::Start(1), Change::Rate(1, 7.0)]);
        control.stop(&[0]);
        assert_eq!(control.changes(1), [Change::Stop(0)]);
        assert!(control.changes(1).is_empty() && !control.ends());
        control.end();
        assert!(control.ends());
    }

    /// A stream that is added reaches its receiver and its sender, in a direction that had none, too, and is
    /// the last of its port.
    #[test]
    fn streams_are_added_behind_the_others() {
        let stream = |from, to| {
            let text = "[[stream]]\nload = \"1kpps\"\nheaders = \"ethernet/ipv4/udp\"";
            Stream { from, to, ..crate::running::streams::parse_streams(text, 2).unwrap().remove(0) }
        };
        let control = control(3, [(0, 1), (1, 0), (0, 2)], true);
        assert!(control.add(&stream(0, 1)).unwrap_err().to_string().contains("no stream can be added"));
        let end = |n: u8| StreamEnd { mac: kpps_frames::Mac([n; 6]), hop: None, ip: [198, 18, 0, n].into() };
        control.begin(StreamBuilder {
            ends: (1..=3).map(end).collect(),
            trial: 7,
            length: Duration::from_secs(9),
            is_controlled: true,
            waits: true,
        });
        assert!(control.new_streams(1).is_empty());
        assert_eq!(control.add(&stream(0, 1)).unwrap(), 3);
        assert_eq!(control.add(&stream(2, 1)).unwrap(), 4);
        assert_eq!(control.added().len(), 2);
        assert_eq!([0, 1, 2].map(|from| control.receivers(from)), [vec![1, 2, 1], vec![0], vec![1]]);
        let [(0, BuiltStream { plan, .. }), (2, other)] = &control.new_streams(1)[..] else {
            panic!("two streams")
        };
        assert_eq!((plan.stream, plan.waits, plan.pps, other.plan.stream), (3, true, 1000.0, 4));
        control.pause(&[3]);
        assert_eq!(control.changes(0), [Change::Add(plan.clone().into()), Change::Pause(2)]);
        assert_eq!(control.changes(2).len(), 1);
        assert!([0, 1, 2].into_iter().all(|to| control.new_streams(to).is_empty()));
        assert!(control.changes(1).is_empty());
        for (from, to) in [(0, 0), (0, 3), (3, 1)] {
            let said = control.add(&stream(from, to)).unwrap_err().to_string();
            assert!(said.contains("give two different ones"), "{said}");
        }
        control.end();
        assert!(control.add(&stream(0, 1)).unwrap_err().to_string().contains("has ended"));
    }

    /// The senders are asked after all receivers have answered, and the last counts stay.
    #[test]
    fn no_more_frames_are_received_than_sent() {
        let control = control(3, [(0, 1), (0, 2), (0, 1)], false);
        let received = |frames| StreamReceived { frames, sizes: vec![frames], ..Default::default() };
        let of_first = |all: &[u64]| Received::from([(0, all.iter().map(|it| received(*it)).collect())]);
        std::thread::scope(|scope| {
            let snapshot = scope.spawn(|| control.snapshot());
            while control.asks_receiver(1).is_none() {
                std::thread::yield_now();
            }
            for (to, all) in [(0, Received::new()), (1, of_first(&[5, 8]))] {
                assert_eq!(control.asks_sender(0), None);
                control.received(to, control.asks_receiver(to).unwrap(), all);
                assert_eq!(control.asks_receiver(to), None);
            }
            assert_eq!(control.asks_sender(0), None);
            control.received(2, control.asks_receiver(2).unwrap(), of_first(&[7]));
            control.sent(0, control.asks_sender(0).unwrap(), &[6, 9, 8], &[true, true, false]);
            assert_eq!(control.asks_sender(0), None);
            for idle in [1, 2] {
                control.sent(idle, control.asks_sender(idle).unwrap(), &[], &[]);
            }
            let all = snapshot.join().unwrap();
            let all: Vec<_> = all.iter().map(|it| (it.sent, it.received, it.is_sending)).collect();
            assert_eq!(all, [(6, 5, true), (9, 7, true), (8, 8, false)]);
        });
        control.has_sent(0, &[9, 9, 8]);
        control.received(1, u64::MAX, of_first(&[9, 8]));
        control.close();
        let last = control.snapshot();
        assert_eq!((last[0].sent, last[0].received, last[0].is_sending), (9, 9, false));
    }
}
