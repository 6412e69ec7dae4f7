//! The control of single streams while their trial runs, and their counts meanwhile.

use crate::error::Error;
use crate::running::building::{BuiltStream, StreamBuilder};
use crate::running::streams::{MOST_STREAMS, Stream};
use crate::watching::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use kpps_documents::FlowLatency;
use kpps_ports::port::run::Change;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long a [snapshot](StreamControl::snapshot) waits for the ports at most. They answer within 20 ms, if
/// they run.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts, stops and changes the streams of a running trial, and asks for their counts. It belongs to one
/// trial. Its user has one end, and the threads of the trial have the other.
#[derive(Debug)]
pub struct StreamControl {
    /// For each stream: the port that sends it, and its index among the streams of that port.
    places: Mutex<Vec<(usize, usize)>>,
    /// How streams of each port are built that are added, once the trial has begun.
    builders: Mutex<[Option<StreamBuilder>; 2]>,
    /// The streams that were added.
    added: Mutex<Vec<Stream>>,
    /// Of the streams that each port sends, the added ones that their receiver does not expect yet.
    expected: Mutex<[Vec<BuiltStream>; 2]>,
    are_added: [AtomicBool; 2],
    /// Whether streams wait until they are started.
    waits: bool,
    /// The changes that each port has not made yet, and whether there are any.
    changes: Mutex<[Vec<Change>; 2]>,
    has_news: [AtomicBool; 2],
    ends: AtomicBool,
    /// How often counts were asked for, and for each direction the last question that its receiver and its
    /// sender have answered.
    asked: AtomicU64,
    answered: [[AtomicU64; 2]; 2],
    /// The last counts of each direction's streams.
    counts: Mutex<[Counts; 2]>,
    /// The trial is over: counts no longer change.
    is_over: AtomicBool,
}

/// The counts of the streams of a direction.
#[derive(Debug, Default)]
struct Counts {
    sent: Vec<u64>,
    are_sending: Vec<bool>,
    received: Vec<StreamReceived>,
}

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
    /// For streams from these ports: 0 or 1 for each. `waits`: whether each waits until it is
    /// [started](Self::start).
    pub fn new(from: impl IntoIterator<Item = usize>, waits: bool) -> Self {
        let mut counts = [0; 2];
        let mut place = |from: usize| {
            let count = &mut counts[from.min(1)];
            *count += 1;
            (from.min(1), *count - 1)
        };
        Self {
            places: Mutex::new(from.into_iter().map(&mut place).collect()),
            builders: Mutex::default(),
            added: Mutex::default(),
            expected: Mutex::default(),
            are_added: Default::default(),
            waits,
            changes: Mutex::default(),
            has_news: Default::default(),
            ends: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            answered: Default::default(),
            counts: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
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

    /// The trial has begun: streams of a port can be added.
    pub(crate) fn begin(&self, builder: StreamBuilder) {
        let mut builders = self.builders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = builders.get_mut(builder.from) {
            *place = Some(builder);
        }
    }

    /// Adds a stream behind the others, which waits to be [started](Self::start). Returns its index. A
    /// [snapshot](Self::snapshot) before the start waits until the receiver expects the stream.
    ///
    /// # Errors
    /// [`Error::NoSuchPorts`]; [`Error::NoMoreStreams`] if its port sends no stream from the beginning on, or
    /// too many, or if the trial has not begun or has ended; [`Error::Stream`].
    pub fn add(&self, stream: &Stream) -> Result<usize, Error> {
        stream.check_ports(2)?;
        let from = stream.from;
        let has_ended = self.ends() || self.is_over.load(Ordering::Acquire);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let builders = self.builders.lock().unwrap_or_else(PoisonError::into_inner);
        let index = places.iter().filter(|place| place.0 == from).count();
        let builder = builders[from].as_ref().filter(|_| index < MOST_STREAMS && !has_ended);
        let builder = builder.ok_or_else(|| Error::NoMoreStreams(stream.name.clone()))?;
        let built = builder.another(index, stream)?;
        let plan = Arc::new(built.plan.clone());
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)[from].push(built);
        self.are_added[from].store(true, Ordering::Release);
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)[from].push(Change::Add(plan));
        self.has_news[from].store(true, Ordering::Release);
        self.added.lock().unwrap_or_else(PoisonError::into_inner).push(stream.clone());
        places.push((from, index));
        Ok(places.len() - 1)
    }

    /// The streams that were added.
    pub fn added(&self) -> Vec<Stream> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The streams that a port sends, were added, and are not expected yet by their receiver.
    #[inline]
    pub(crate) fn new_streams(&self, from: usize) -> Vec<BuiltStream> {
        if !self.are_added[from].load(Ordering::Relaxed)
            || !self.are_added[from].swap(false, Ordering::AcqRel)
        {
            return Vec::new();
        }
        std::mem::take(&mut self.expected.lock().unwrap_or_else(PoisonError::into_inner)[from])
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
        for (from, index) in streams.iter().filter_map(|stream| places.get(*stream)) {
            changes[*from].push(change(*index));
        }
        drop((changes, places));
        self.has_news.iter().for_each(|news| news.store(true, Ordering::Release));
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
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let senders = [0, 1].map(|from| places.iter().any(|place| place.0 == from));
        let is_answered = |from: usize| {
            !senders[from] || self.answered[from].iter().all(|last| last.load(Ordering::Acquire) >= asked)
        };
        let is_ready = || self.is_over.load(Ordering::Acquire) || is_answered(0) && is_answered(1);
        while !is_ready() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = |&(from, index): &(usize, usize)| {
            let counts = &counts[from];
            let received = counts.received.get(index).cloned().unwrap_or_default();
            let sent = counts.sent.get(index).copied().unwrap_or(0);
            StreamNow {
                sent: sent.max(received.frames),
                received: received.frames,
                received_sizes: received.sizes,
                arrivals_ns: received.arrivals_ns,
                latency: received.latency,
                is_sending: counts.are_sending.get(index).copied().unwrap_or(!self.waits),
            }
        };
        places.iter().map(now).collect()
    }

    /// The question of this direction that its receiver has not answered yet.
    #[inline]
    pub(crate) fn asks_receiver(&self, from: usize) -> Option<u64> {
        let asked = self.asked.load(Ordering::Acquire);
        (self.answered[from][0].load(Ordering::Relaxed) < asked).then_some(asked)
    }

    /// The same for the sender, once the receiver has answered.
    #[inline]
    pub(crate) fn asks_sender(&self, from: usize) -> Option<u64> {
        let [received, sent] = &self.answered[from];
        let answered = received.load(Ordering::Acquire);
        (sent.load(Ordering::Relaxed) < answered).then_some(answered)
    }

    /// The receiver of a direction answers a question.
    pub(crate) fn received(&self, from: usize, question: u64, streams: Vec<StreamReceived>) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)[from].received = streams;
        self.answered[from][0].store(question, Ordering::Release);
    }

    /// The sender of a direction answers a question.
    pub(crate) fn sent(&self, from: usize, question: u64, sent: &[u64], are_sending: &[bool]) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        (counts[from].sent, counts[from].are_sending) = (sent.to_vec(), are_sending.to_vec());
        drop(counts);
        self.answered[from][1].store(question, Ordering::Release);
    }

    /// The sender of a direction sends no more. `sent`: the frames of each stream.
    pub(crate) fn has_sent(&self, from: usize, sent: &[u64]) {
        self.sent(from, u64::MAX, sent, &vec![false; sent.len()]);
    }

    /// The receiver of a direction receives no more.
    pub(crate) fn has_received(&self, from: usize, streams: Vec<StreamReceived>) {
        self.received(from, u64::MAX, streams);
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

    #[test]
    fn changes_reach_the_port_that_sends_the_stream() {
        let control = StreamControl::new([1, 0, 1], true);
        assert!(control.changes(0).is_empty() && control.changes(1).is_empty());
        control.start(&[0, 1, 2, 99]);
        control.set_pps(2, 7.0);
        control.set_pps(2, f64::NAN);
        assert_eq!(control.changes(0), [Change::Start(0)]);
        assert_eq!(control.changes(1), [Change::Start(0), Change::Start(1), Change::Rate(1, 7.0)]);
        control.stop(&[0]);
        assert_eq!(control.changes(1), [Change::Stop(0)]);
        assert!(control.changes(1).is_empty() && !control.ends());
        control.end();
        assert!(control.ends());
    }

    /// A stream that is added reaches its receiver and its sender, and is the last of its port.
    #[test]
    fn streams_are_added_behind_the_others() {
        let stream = |from| {
            let text = "[[stream]]\nload = \"1kpps\"\nheaders = \"ethernet/ipv4/udp\"";
            Stream {
                from,
                to: 1 - from,
                ..crate::running::streams::parse_streams(text, 2).unwrap().remove(0)
            }
        };
        let control = StreamControl::new([0, 1, 0], true);
        assert!(control.add(&stream(0)).unwrap_err().to_string().contains("no stream can be added"));
        control.begin(StreamBuilder {
            between: kpps_frames::stack::Between {
                macs: [kpps_frames::Mac::default(); 2],
                ips: [[198, 18, 0, 1].into(), [198, 19, 0, 2].into()],
            },
            from: 0,
            first: 0,
            trial: 7,
            length: Duration::from_secs(9),
            is_controlled: true,
            waits: true,
        });
        assert!(control.new_streams(0).is_empty() && control.add(&stream(1)).is_err());
        assert_eq!(control.add(&stream(0)).unwrap(), 3);
        assert_eq!(control.added().len(), 1);
        let [BuiltStream { plan, .. }] = &control.new_streams(0)[..] else { panic!("one stream") };
        assert_eq!((plan.stream, plan.waits, plan.pps), (2, true, 1000.0));
        control.pause(&[3]);
        assert_eq!(control.changes(0), [Change::Add(plan.clone().into()), Change::Pause(2)]);
        assert!(control.new_streams(0).is_empty() && control.changes(1).is_empty());
        for (from, to) in [(0, 0), (0, 2), (3, 1)] {
            let said = control.add(&Stream { to, ..Stream { from, ..stream(0) } }).unwrap_err().to_string();
            assert!(said.contains("give two different ones"), "{said}");
        }
        control.end();
        assert!(control.add(&stream(0)).unwrap_err().to_string().contains("has ended"));
    }

    /// The sender is asked after the receiver has answered, and the last counts stay.
    #[test]
    fn no_more_frames_are_received_than_sent() {
        let control = StreamControl::new([0, 0], false);
        let received = |frames| StreamReceived { frames, sizes: vec![frames], ..Default::default() };
        std::thread::scope(|scope| {
            let snapshot = scope.spawn(|| control.snapshot());
            while control.asks_receiver(0).is_none() {
                std::thread::yield_now();
            }
            assert_eq!(control.asks_sender(0), None);
            control.received(0, control.asks_receiver(0).unwrap(), vec![received(5), received(8)]);
            assert_eq!(control.asks_receiver(0), None);
            control.sent(0, control.asks_sender(0).unwrap(), &[6, 8], &[true, false]);
            assert_eq!(control.asks_sender(0), None);
            let [first, second] = &snapshot.join().unwrap()[..] else { panic!("two streams") };
            assert_eq!((first.sent, first.received, first.is_sending), (6, 5, true));
            assert_eq!((second.sent, second.received, second.is_sending), (8, 8, false));
        });
        control.has_sent(0, &[9, 8]);
        control.received(0, u64::MAX, vec![received(9), received(8)]);
        control.close();
        let last = control.snapshot();
        assert_eq!((last[0].sent, last[0].received, last[0].is_sending), (9, 9, false));
    }
}
