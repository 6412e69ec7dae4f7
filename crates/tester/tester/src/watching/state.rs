//! The state that the ends of a trial share while it runs.

use crate::clock::Gain;
use crate::watching::control::StreamControl;
use crate::watching::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Once, Ordering};
use std::array::from_fn;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// A receiver that misses nothing waits only this long for duplicates.
const QUIET: Duration = Duration::from_millis(50);

/// Changes of the load in a trial at most: each one is kept, and memory is limited.
pub(crate) const MOST_CHANGES: usize = 1000;

/// The state of a trial, shared by all of its threads. An end on another host has a copy, which receives the
/// updates of this one ([`has_sent`](Self::has_sent), [`abandon`](Self::abandon)).
#[derive(Debug)]
pub struct TrialState {
    /// The ends to which the streams of each end go, in the order of its plan; one end, if all go there.
    routes: Vec<Vec<usize>>,
    /// The number of ends that send.
    senders: usize,
    /// Ends that still send.
    sending: AtomicUsize,
    /// When the last of them had sent all.
    ended: Once<Instant>,
    /// Frames that each end has sent, once it has sent all.
    sent: Vec<AtomicU64>,
    /// Frames that were sent to each end by the ends that have sent all.
    owed: Vec<AtomicU64>,
    /// The frames of each stream that each end has sent, once it has sent all; of a single stream none.
    of_streams: Mutex<Vec<Vec<u64>>>,
    /// If several cores of an end have sent a stream: the frames of each core.
    of_cores: Mutex<Vec<Vec<u64>>>,
    /// Frames that each end has sent and received so far.
    so_far: Vec<[AtomicU64; 2]>,
    /// Other reports of each end while it works.
    live: Vec<LiveEnd>,
    /// The load of each direction since it was changed, as the bits of a number of frames per second; 0 if it
    /// was not. And how often it was changed.
    rate: AtomicU64,
    changes: AtomicUsize,
    /// Of two ends: the gains of the clock of each on the clock of this process, and on the clock of the
    /// other end in its own time, if it is followed; and how often they have changed. More ends have one
    /// clock.
    gains: Mutex<[[Option<Gain>; 2]; 2]>,
    gains_changed: AtomicUsize,
    /// The user interrupted the trial, or something failed.
    abandoned: AtomicBool,
    /// Nobody waits for frames still under way.
    closed: AtomicBool,
    /// The control of single streams.
    control: Option<Arc<StreamControl>>,
}

/// A port's report while it works, besides the frames that it has sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The generator's shortfall so far, if it sends at a rate.
    pub shortfall: Option<u64>,
    /// Its receive overflow so far, if its port counts it.
    pub missed: Option<u64>,
    /// Frames that were sent to it before an arrived frame, and have not arrived so far.
    pub absent: Option<u64>,
    /// Latencies of the last whole interval in ns, if frames came in it.
    pub p50_ns: Option<u64>,
    /// See `p50_ns`.
    pub p99_ns: Option<u64>,
}

/// The frames that one end has sent so far, and the frames that are absent at the other: see
/// [`Reported::absent`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoFar {
    sent: u64,
    absent: u64,
}

/// [`Reported`], for other threads; `u64::MAX` means none.
#[derive(Debug)]
struct LiveEnd {
    /// Frames that it sent and that had not come through a second later.
    lost: AtomicU64,
    shortfall: AtomicU64,
    missed: AtomicU64,
    absent: AtomicU64,
    p50_ns: AtomicU64,
    p99_ns: AtomicU64,
}

impl LiveEnd {
    fn new() -> Self {
        let [shortfall, missed, absent, p50_ns, p99_ns] = from_fn(|_| AtomicU64::new(u64::MAX));
        Self { lost: AtomicU64::new(0), shortfall, missed, absent, p50_ns, p99_ns }
    }
}

impl TrialState {
    /// For a trial between two ends, of which `senders` send.
    pub fn new(senders: usize) -> Self {
        Self::between(vec![vec![1], vec![0]], senders)
    }

    /// For a trial between ends. `routes`: the ends to which the streams of each end go, in the order of its
    /// plan; one end, if all go there.
    pub fn among(routes: Vec<Vec<usize>>) -> Self {
        let senders = routes.iter().filter(|routes| !routes.is_empty()).count();
        Self::between(routes, senders)
    }

    fn between(routes: Vec<Vec<usize>>, senders: usize) -> Self {
        let ends = routes.len();
        Self {
            routes,
            senders,
            sending: AtomicUsize::new(senders),
            ended: Once::default(),
            sent: (0..ends).map(|_| AtomicU64::new(u64::MAX)).collect(),
            owed: (0..ends).map(|_| AtomicU64::new(0)).collect(),
            of_streams: Mutex::new(vec![Vec::new(); ends]),
            of_cores: Mutex::new(vec![Vec::new(); ends]),
            so_far: (0..ends).map(|_| from_fn(|_| AtomicU64::new(0))).collect(),
            live: (0..ends).map(|_| LiveEnd::new()).collect(),
            rate: AtomicU64::new(0),
            changes: AtomicUsize::new(0),
            gains: Mutex::new([[None; 2]; 2]),
            gains_changed: AtomicUsize::new(0),
            abandoned: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            control: None,
        }
    }

    /// The same trial, whose streams are controlled.
    #[must_use]
    pub fn with_control(self, control: Option<Arc<StreamControl>>) -> Self {
        // Each end may send a stream that is added.
        let senders = if control.is_some() { self.routes.len() } else { self.senders };
        Self { control, senders, sending: AtomicUsize::new(senders), ..self }
    }

    /// The same trial, the counts of whose streams can be read while it runs.
    #[must_use]
    pub fn with_watch(self, watch: Option<Arc<StreamControl>>) -> Self {
        Self { control: watch.or(self.control), ..self }
    }

    /// The ends to which the streams of an end go, also those that were added.
    fn routes(&self, from: usize) -> Vec<usize> {
        match &self.control {
            Some(control) => control.receivers(from),
            None => self.routes.get(from).cloned().unwrap_or_default(),
        }
    }

    /// The control of single streams, if there is one.
    #[inline]
    pub(crate) fn control(&self) -> Option<&StreamControl> {
        self.control.as_deref()
    }

    /// The number of ends that send.
    pub fn senders(&self) -> usize {
        self.senders
    }

    /// Records that an end has sent all its frames. A second call for the same end has no effect.
    pub fn has_sent(&self, at: usize, frames: u64) {
        // The highest number means that it still sends.
        let frames = frames.min(u64::MAX - 1);
        let news = self.sent[at].compare_exchange(u64::MAX, frames, Ordering::Relaxed, Ordering::Relaxed);
        if news.is_err() {
            return;
        }
        match self.only_receiver(at) {
            Some(to) => self.owes(to, frames),
            None => {
                let known = self.known_of(at).unwrap_or_default();
                self.routes(at).into_iter().zip(known).for_each(|(to, frames)| self.owes(to, frames))
            }
        }
        if self.sending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.set(Instant::now());
        }
    }

    /// Adds frames that were sent to an end.
    fn owes(&self, to: usize, frames: u64) {
        self.owed[to].fetch_add(frames, Ordering::Relaxed);
    }

    /// The end to which an end sends all its frames, if there is only one.
    fn only_receiver(&self, from: usize) -> Option<usize> {
        let routes = self.routes(from);
        let (first, others) = routes.split_first()?;
        others.iter().all(|to| to == first).then_some(*first)
    }

    /// When the last end had sent all.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.ended.get()
    }

    /// Frames that an end has sent, once it has sent all.
    pub fn sent(&self, at: usize) -> Option<u64> {
        Some(self.sent[at].load(Ordering::Relaxed)).filter(|&frames| frames != u64::MAX)
    }

    /// Records the frames of each stream that an end has sent, before it reports that it
    /// [has sent](Self::has_sent) all.
    pub fn has_sent_of(&self, at: usize, streams: Vec<u64>) {
        let mut all = self.of_streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = all.get_mut(at) {
            *place = streams;
        }
    }

    /// The frames of each stream that an end has sent, once it has sent all.
    pub fn sent_of(&self, at: usize) -> Vec<u64> {
        self.known_of(at).unwrap_or_else(|| vec![self.sent(at).unwrap_or(0)])
    }

    /// The frames of each stream that an end has sent; `None` if it has not reported them. An end that failed
    /// never does.
    fn known_of(&self, at: usize) -> Option<Vec<u64>> {
        let all = self.of_streams.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(at).filter(|streams| !streams.is_empty()).cloned()
    }

    /// The frames of each stream that an end has sent to another one, once it has sent all. Nothing if it is
    /// not known to which of several ends they went.
    pub(crate) fn sent_to(&self, from: usize, to: usize) -> Vec<u64> {
        if self.only_receiver(from).is_some() {
            return self.sent_of(from);
        }
        let known = self.known_of(from).unwrap_or_default();
        self.routes(from).into_iter().zip(known).filter(|it| it.0 == to).map(|it| it.1).collect()
    }

    /// Records the frames that each core of an end has sent of its only stream, before the end reports that
    /// it [has sent](Self::has_sent) all.
    pub fn has_sent_on_cores(&self, at: usize, cores: Vec<u64>) {
        let mut all = self.of_cores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = all.get_mut(at) {
            *place = cores;
        }
    }

    /// The frames that each core of an end has sent of its only stream, if there are several.
    pub fn sent_on_cores(&self, at: usize) -> Vec<u64> {
        let all = self.of_cores.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(at).cloned().unwrap_or_default()
    }

    /// Records the frames that an end has sent so far.
    pub fn sends(&self, at: usize, frames: u64) {
        self.so_far[at][0].store(frames, Ordering::Relaxed);
    }

    /// Records the frames that an end has received so far.
    pub fn receives(&self, at: usize, frames: u64) {
        self.so_far[at][1].store(frames, Ordering::Relaxed);
    }

    /// Frames that an end has sent and received so far.
    pub fn so_far(&self, at: usize) -> (u64, u64) {
        let [sent, received] = &self.so_far[at];
        (sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed))
    }

    /// Frames that one end has sent and another has received so far, if it sends to no other and the other
    /// receives from no other. The ends count by themselves, and each records its count some moments
    /// later: a frame that was received was sent, whatever the sender has recorded.
    pub fn crossed(&self, from: usize, to: usize) -> (u64, u64) {
        // The received frames are read first: the sent frames only grow until they are read, too.
        let received = self.so_far[to][1].load(Ordering::Acquire);
        (self.so_far(from).0.max(received), received)
    }

    /// Frames that all ends together have sent and received so far; see [`crossed`](Self::crossed).
    pub fn all_crossed(&self) -> (u64, u64) {
        let received = self.so_far.iter().map(|[_, received]| received.load(Ordering::Acquire)).sum();
        let sent: u64 = self.so_far.iter().map(|[sent, _]| sent.load(Ordering::Relaxed)).sum();
        (sent.max(received), received)
    }

    /// Frames that an end has sent and received so far, and whether it has sent all: then that is their
    /// number, whenever it was last recorded.
    pub fn progress(&self, at: usize) -> (u64, u64, bool) {
        let ((so_far, received), all) = (self.so_far(at), self.sent(at));
        (all.unwrap_or(so_far), received, all.is_some())
    }

    /// Records the shortfall of an end so far.
    pub fn falls_short(&self, at: usize, frames: u64) {
        self.live[at].shortfall.store(frames, Ordering::Relaxed);
    }

    /// Records an end's receive overflow so far, and p50 and p99 of the last whole interval in ns.
    pub fn overflows(&self, at: usize, missed: Option<u64>, quantiles: Option<(u64, u64)>) {
        let LiveEnd { missed: count, p50_ns, p99_ns, .. } = &self.live[at];
        let (p50, p99) = quantiles.unzip();
        for (cell, value) in [(count, missed), (p50_ns, p50), (p99_ns, p99)] {
            cell.store(value.unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Records the frames that were sent to an end before an arrived frame, and have not arrived so far.
    pub fn lacks(&self, at: usize, frames: u64) {
        self.live[at].absent.store(frames, Ordering::Relaxed);
    }

    /// The other reports of a port.
    pub fn reported(&self, at: usize) -> Reported {
        let LiveEnd { shortfall, missed, absent, p50_ns, p99_ns, .. } = &self.live[at];
        let [shortfall, missed, absent, p50_ns, p99_ns] = [shortfall, missed, absent, p50_ns, p99_ns]
            .map(|cell| Some(cell.load(Ordering::Relaxed)).filter(|&value| value != u64::MAX));
        Reported { shortfall, missed, absent, p50_ns, p99_ns }
    }

    /// Records the losses so far among the frames that each end had sent a while ago. Frames that came since
    /// then hide some losses in the sums of sent and received frames, but not in the frames that were
    /// `absent` then.
    pub(crate) fn note_lost(&self, before: &[SoFar]) {
        for (from, before) in before.iter().enumerate() {
            let Some(to) = self.only_receiver(from) else { continue };
            let now = self.reported(to);
            let overflow = now.missed.unwrap_or(0);
            let by_sums = before.sent.saturating_sub(self.so_far(to).1.saturating_add(overflow));
            // Frames that were late then may have arrived meanwhile.
            let absent = before.absent.min(now.absent.unwrap_or(0)).saturating_sub(overflow);
            self.live[from].lost.fetch_max(by_sums.max(absent), Ordering::Relaxed);
        }
    }

    /// Of two ends, the frames that each has sent so far, and the frames that are absent at the other end. Of
    /// more ends it is unknown which frames are absent.
    pub(crate) fn of_senders(&self) -> Vec<SoFar> {
        let of = |from: usize| {
            let absent = self.only_receiver(from).and_then(|to| self.reported(to).absent);
            SoFar { sent: self.so_far(from).0, absent: absent.unwrap_or(0) }
        };
        let ends = if self.routes.len() > 2 { 0 } else { self.routes.len() };
        (0..ends).map(of).collect()
    }

    /// Frames that an end sent and that had not come through a while later.
    pub(crate) fn lost(&self, from: usize) -> u64 {
        self.live[from].lost.load(Ordering::Relaxed)
    }

    /// Changes the load of each direction to this rate in frames per second, which is above 0. Senders take
    /// notice some moments later. Returns false, and changes nothing, after `MOST_CHANGES`.
    pub fn change_rate(&self, pps: f64) -> bool {
        if self.rate_pps() == Some(pps) {
            return true;
        }
        let may = self.changes.fetch_add(1, Ordering::Relaxed) < MOST_CHANGES;
        if may {
            self.rate.store(pps.to_bits(), Ordering::Relaxed);
        }
        may
    }

    /// The load of each direction in frames per second, if it was changed.
    #[inline]
    pub fn rate_pps(&self) -> Option<f64> {
        Some(f64::from_bits(self.rate.load(Ordering::Relaxed))).filter(|&pps| pps > 0.0)
    }

    /// Records the gain of the clock of an end on the clock of this process.
    pub fn reads_clock(&self, at: usize, gain: Gain) {
        let mut gains = self.gains.lock().unwrap_or_else(PoisonError::into_inner);
        gains[0][at] = Some(gain);
        let [a, b] = gains[0].map(Option::unwrap_or_default);
        gains[1] = [Some(Gain::between(a, b)), Some(Gain::between(b, a))];
        drop(gains);
        self.gains_changed.fetch_add(1, Ordering::Release);
    }

    /// Records the gain of the clock of an end on the clock of the other end, in its own time.
    pub fn gains(&self, at: usize, gain: Gain) {
        self.gains.lock().unwrap_or_else(PoisonError::into_inner)[1][at] = Some(gain);
        self.gains_changed.fetch_add(1, Ordering::Release);
    }

    /// The gain of the clock of an end on the clock of the other end, in its own time, if it has changed
    /// since `seen`.
    #[inline]
    pub fn gain(&self, at: usize, seen: &mut usize) -> Option<Gain> {
        let changed = self.gains_changed.load(Ordering::Acquire);
        if changed == *seen {
            return None;
        }
        *seen = changed;
        self.gains.lock().unwrap_or_else(PoisonError::into_inner)[1].get(at).copied().flatten()
    }

    /// Ends the trial now.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Ends the trial now, without waiting for frames still under way.
    pub fn close(&self) {
        self.abandon();
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether the trial ends before its time.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Whether the receiver at this end need not wait any longer. It has received `received` frames, the last
    /// one `quiet` ago.
    pub(crate) fn is_over(&self, at: usize, received: u64, quiet: Duration, drain: Duration) -> bool {
        if self.closed.load(Ordering::Relaxed) {
            return true;
        }
        let Some(ended) = self.ended.get() else { return false };
        let nothing_missing = received >= self.owed[at].load(Ordering::Relaxed);
        ended.elapsed() >= drain || nothing_missing && quiet >= QUIET
    }
}

#[cfg(all(test, not(kpps_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_an_end_has_sent_in_all_is_never_an_earlier_number() {
        let state = TrialState::new(1);
        state.sends(0, 900);
        assert_eq!(state.progress(0), (900, 0, false));
        state.has_sent(0, 1000);
        assert_eq!(state.progress(0), (1000, 0, true));
    }

    /// Whatever number another host gives, it is one.
    #[test]
    fn who_has_sent_the_most_has_sent_all() {
        let state = TrialState::new(2);
        state.has_sent(0, u64::MAX);
        state.has_sent(0, u64::MAX);
        assert!(state.ended().is_none() && state.sent(0).is_some());
        state.has_sent(1, 5);
        assert!(state.ended().is_some());
    }

    /// A receiver may record its count before the sender does.
    #[test]
    fn no_more_is_received_than_sent() {
        let state = TrialState::new(1);
        state.sends(0, 900);
        state.receives(1, 932);
        assert_eq!((state.crossed(0, 1), state.crossed(1, 0)), ((932, 932), (0, 0)));
        assert_eq!(state.all_crossed(), (932, 932));
        state.sends(0, 1000);
        assert_eq!(state.crossed(0, 1), (1000, 932));
        // Whatever the order in which two threads come to record.
        std::thread::scope(|scope| {
            let counts =
                scope.spawn(|| (1001..100_000).for_each(|n| (state.receives(1, n), state.sends(0, n)).1));
            while !counts.is_finished() {
                let (sent, received) = state.crossed(0, 1);
                assert!(sent >= received, "{sent} {received}");
            }
        });
    }

    /// Frames of several senders to one end are owed together, and those of one sender to several ends apart.
    #[test]
    fn an_end_waits_for_the_frames_that_were_sent_to_it() {
        let state = TrialState::among(vec![vec![1, 2], vec![2], Vec::new()]);
        let (quiet, drain) = (Duration::from_secs(1), Duration::from_secs(99));
        state.has_sent_of(0, vec![5, 7]);
        state.has_sent(0, 12);
        assert!(state.senders() == 2 && !state.is_over(1, 5, quiet, drain), "another one still sends");
        state.has_sent(1, 4);
        assert_eq!(
            (state.sent_to(0, 1), state.sent_to(0, 2), state.sent_to(1, 2)),
            (vec![5], vec![7], vec![4])
        );
        let over = |at, received| state.is_over(at, received, quiet, drain);
        assert!(over(0, 0) && over(1, 5) && over(2, 11) && !over(1, 4) && !over(2, 10));
    }

    /// Frames that arrived since then do not hide frames that were lost before.
    #[test]
    fn a_running_trial_tells_part_losses() {
        let state = TrialState::new(1);
        let counts = |sent, received, absent| {
            state.sends(0, sent);
            state.receives(1, received);
            state.lacks(1, absent);
            state.of_senders()
        };
        // One of ten is lost, at 5000 a second.
        let then = counts(40_000, 36_000, 4000);
        counts(45_000, 40_500, 4500);
        state.note_lost(&then);
        assert_eq!((state.lost(0), state.lost(1)), (4000, 0));
        // Ten of the first ones were only late.
        let then = counts(50_000, 45_010, 4990);
        state.note_lost(&then);
        assert_eq!(state.lost(0), 4990);
        // No more frames arrive: no later frame shows which frames are absent.
        let then = counts(60_000, 45_010, 4990);
        state.note_lost(&then);
        assert_eq!(state.lost(0), 14_990);
        // A tester's own overflow is not lost.
        state.overflows(1, Some(20_000), None);
        state.note_lost(&counts(80_000, 60_000, 20_000));
        assert_eq!(state.lost(0), 14_990);
    }
}

/// All orders in which threads may see each other's writes: `make loom`.
#[cfg(all(test, kpps_loom))]
mod orders {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Runs the threads in each order, and `look` beside them.
    fn in_each_order(senders: usize, acts: &[fn(&TrialState)], look: fn(&TrialState)) {
        let acts = acts.to_vec();
        loom::model(move || {
            let state = Arc::new(TrialState::new(senders));
            let threads = acts.iter().map(|&act| {
                let state = state.clone();
                thread::spawn(move || act(&state))
            });
            let threads: Vec<_> = threads.collect();
            look(&state);
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            look(&state);
        });
    }

    /// A receiver that sees the end of sending compares its frames with the sent frames of both ends.
    #[test]
    fn who_sees_the_end_sees_what_was_sent() {
        in_each_order(2, &[|state| state.has_sent(0, 10), |state| state.has_sent(1, 20)], |state| {
            if state.ended().is_some() {
                assert_eq!([0, 1].map(|at| state.sent(at)), [Some(10), Some(20)]);
            }
        });
    }

    /// It ends once, whoever says so.
    #[test]
    fn an_end_that_is_told_twice_counts_once() {
        in_each_order(2, &[|state| state.has_sent(0, 10), |state| state.has_sent(0, 10)], |state| {
            assert_eq!(state.ended(), None);
        });
    }

    #[test]
    fn the_number_of_an_end_that_has_sent_all_is_the_last() {
        let send = |state: &TrialState| {
            state.sends(0, 9);
            state.has_sent(0, 10);
        };
        in_each_order(1, &[send], |state| {
            let (sent, _, all) = state.progress(0);
            assert!(if all { sent == 10 } else { [0, 9].contains(&sent) });
        });
    }

    /// A sender that has noticed a change has it, and the last one is not missed.
    #[test]
    fn no_gain_of_a_clock_is_missed() {
        loom::model(|| {
            let state = Arc::new(TrialState::new(1));
            let gain = |gained_ns| Gain { at_ns: 1.0, gained_ns, pace: 0.0 };
            let there = state.clone();
            let thread = thread::spawn(move || [1.0, 2.0].map(|ns| there.gains(0, gain(ns))));
            let mut seen = 0;
            let mut last = [(); 2].iter().fold(None, |last, ()| state.gain(0, &mut seen).or(last));
            thread.join().expect("no panic");
            last = state.gain(0, &mut seen).or(last);
            assert_eq!(last.map(|gain| gain.gained_ns), Some(2.0));
        });
    }

    /// The memory of changes is limited, however many threads change the load at once.
    #[test]
    fn the_load_is_not_changed_too_often() {
        loom::model(|| {
            let state = Arc::new(TrialState::new(1));
            state.changes.store(MOST_CHANGES - 1, Ordering::Relaxed);
            let there = state.clone();
            let thread = thread::spawn(move || there.change_rate(5.0));
            let here = state.change_rate(7.0);
            let there = thread.join().expect("no panic");
            assert_eq!(usize::from(here) + usize::from(there), 1);
            assert_eq!(state.rate_pps(), Some(if here { 7.0 } else { 5.0 }));
        });
    }
}
