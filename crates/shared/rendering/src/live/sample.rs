//! Samples of a running measurement.

use super::cpu::{LiveCpu, Parts};
use super::progress::{Ended, Progress};
use crate::files::tell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long rates are kept, a value each second.
pub(crate) const MINUTE: usize = 60;
/// The window of a rate.
const WINDOW: Duration = Duration::from_secs(1);
/// How often CPU times and losses are read: reading them is expensive, and CPU clocks are coarse.
const SLOW: Duration = Duration::from_secs(1);

/// The most streams of a snapshot: more than a screen has rows.
const MOST_STREAMS: usize = 100;

/// Counters of the trial under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// How long frames have been sent.
    pub elapsed: Duration,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
}

/// Counters that one thread writes and others read, without locks. A reader may see values of two moments.
#[derive(Debug, Default)]
pub struct Meter {
    elapsed_ns: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    /// How often they are printed, if they are, and when they were last.
    every: Option<Duration>,
    printed_ns: AtomicU64,
}

impl Meter {
    /// One whose counters are also printed this often, as lines of JSON on standard error.
    pub fn printed(every: Option<Duration>) -> Self {
        Self { every, ..Self::default() }
    }

    /// Sets the counters.
    pub fn show(&self, counts: Counts) {
        let Counts { elapsed, sent, received } = counts;
        let printed = Duration::from_nanos(self.printed_ns.load(Ordering::Relaxed));
        if self.every.is_some_and(|every| elapsed.saturating_sub(printed) >= every) {
            let seconds = elapsed.as_secs_f64();
            tell(&format!("{{\"seconds\":{seconds:.6},\"received\":{received},\"sent\":{sent}}}"));
            self.printed_ns.store(elapsed.as_nanos() as u64, Ordering::Relaxed);
        }
        self.elapsed_ns.store(counts.elapsed.as_nanos() as u64, Ordering::Relaxed);
        self.sent.store(counts.sent, Ordering::Relaxed);
        self.received.store(counts.received, Ordering::Relaxed);
    }

    /// The latest counters.
    pub fn counts(&self) -> Counts {
        Counts {
            elapsed: Duration::from_nanos(self.elapsed_ns.load(Ordering::Relaxed)),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }
}

/// The counters of a stream of the trial under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCount {
    /// Its name.
    pub name: String,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
}

impl StreamCount {
    /// Frames that have not arrived.
    pub fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// A change of the load, as a user asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateKey {
    /// 10 % more.
    Up,
    /// As much less as takes an `Up` back.
    Down,
    /// To this rate, as it is typed.
    To(String),
}

/// The counters of a trial under way. Only the thread of the view reads them.
pub trait Source: Send {
    /// The load of the trial under way, of all directions together, in frames per second. Without it the
    /// load is shown that was asked for when the trial began.
    fn offered_pps(&mut self) -> Option<f64> {
        None
    }
    /// Whether the load of the trial under way can be changed.
    fn can_change_rate(&mut self) -> bool {
        false
    }
    /// Changes the load of the trial under way. Returns what came of it, in a few words.
    fn change_rate(&mut self, key: &RateKey) -> String {
        let _ = key;
        "the load of this run cannot be changed".into()
    }
    /// The counters so far; `None` if there are none before a trial ends.
    fn counts(&mut self) -> Option<Counts> {
        None
    }
    /// Frames lost so far, by place.
    fn dropped(&mut self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
    /// The streams of the trial under way; none if it has none, or if their counts are not known yet.
    fn streams(&mut self) -> Vec<StreamCount> {
        Vec::new()
    }
    /// The time of this machine's CPUs by kind, in s.
    fn cpus(&mut self) -> Vec<LiveCpu> {
        Vec::new()
    }
}

/// Has no counters.
impl Source for () {}

/// Frames per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// The offered load; `None` for as many as possible.
    pub offered_pps: Option<f64>,
    /// Sent.
    pub sent_pps: f64,
    /// Received.
    pub received_pps: f64,
}

/// Frames that did not arrive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lost {
    /// Whether the trial is under way: frames in flight are included.
    pub so_far: bool,
    /// Frames that were due.
    pub due: u64,
    /// Frames that have not arrived.
    pub frames: u64,
    /// By place, most first. The rest was counted nowhere.
    pub places: Vec<(String, u64)>,
}

/// The state of a run at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The title.
    pub title: String,
    /// The trial under way.
    pub doing: String,
    /// The time since the start.
    pub elapsed: Duration,
    /// Trials done.
    pub done: usize,
    /// The number of trials of the run, if it is known.
    pub wanted: Option<usize>,
    /// Rates of the last second, or of the last trial if there are no counters during a trial; `None` at
    /// first.
    pub rates: Option<Rates>,
    /// The rates of the last minute, for each second, the latest last.
    pub minute: Vec<Rates>,
    /// Frames lost.
    pub lost: Lost,
    /// The streams of the trial under way with the most missing frames, these first, and the number of all.
    pub streams: (Vec<StreamCount>, usize),
    /// The CPUs.
    pub cpus: Vec<LiveCpu>,
    /// The last trials, the latest first.
    pub trials: Vec<Ended>,
    /// The last row.
    pub footer: Footer,
}

/// The last row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Footer {
    /// Which key ends the run.
    #[default]
    Ends,
    /// The keys that change the load, too.
    ChangesRate,
    /// A rate is being typed.
    Typing(String),
    /// The effect of a key.
    Says(String),
    /// The user has ended the run.
    Ending,
}

/// Samples a run at intervals.
pub(crate) struct Sampler {
    progress: Progress,
    source: Box<dyn Source>,
    began: Instant,
    /// The counters within the last window.
    window: VecDeque<Counts>,
    slow: Option<Instant>,
    dropped: BTreeMap<String, u64>,
    streams: (Vec<StreamCount>, usize),
    spent: Vec<LiveCpu>,
    cpus: Vec<LiveCpu>,
    minute: VecDeque<Rates>,
}

impl Sampler {
    pub fn new(progress: Progress, source: Box<dyn Source>, now: Instant) -> Self {
        Self {
            progress,
            source,
            began: now,
            window: VecDeque::new(),
            slow: None,
            dropped: BTreeMap::new(),
            streams: (Vec::new(), 0),
            spent: Vec::new(),
            cpus: Vec::new(),
            minute: VecDeque::new(),
        }
    }

    pub fn sample(&mut self, now: Instant) -> Snapshot {
        let state = self.progress.state().clone();
        let counts = self.source.counts();
        if let Some(counts) = counts {
            self.count(counts);
        }
        let last = state.trials.front();
        let rates = match (self.rates(), last) {
            (Some((sent_pps, received_pps)), _) => {
                let offered_pps = self.source.offered_pps().or(state.offered_pps);
                Some(Rates { offered_pps, sent_pps, received_pps })
            }
            (None, Some(last)) => Some(Rates {
                offered_pps: last.offered_pps,
                sent_pps: last.sent_pps,
                received_pps: last.received_pps,
            }),
            (None, None) => None,
        };
        if self.slow.is_none_or(|slow| now - slow >= SLOW) {
            self.slow = Some(now);
            if state.running {
                self.dropped = self.source.dropped();
                let mut streams = self.source.streams();
                let count = streams.len();
                streams.sort_by_key(|stream| Reverse(stream.missing()));
                streams.truncate(MOST_STREAMS);
                self.streams = (streams, count);
            }
            self.sample_cpus();
            self.minute.push_back(rates.unwrap_or_default());
            if self.minute.len() > MINUTE {
                self.minute.pop_front();
            }
        }
        let lost = match (counts.filter(|_| state.running), last) {
            (Some(counts), _) => lost(true, counts.sent, counts.received, &self.dropped),
            (None, Some(last)) => lost(false, last.due, last.arrived, &last.dropped),
            (None, None) => Lost::default(),
        };
        let cpus = match last {
            Some(last) if self.cpus.is_empty() => last.cpus.clone(),
            _ => self.cpus.clone(),
        };
        Snapshot {
            elapsed: now - self.began,
            rates,
            minute: self.minute.iter().copied().collect(),
            lost,
            streams: if state.running { self.streams.clone() } else { (Vec::new(), 0) },
            cpus,
            title: state.title,
            doing: state.doing,
            done: state.done,
            wanted: state.wanted,
            trials: state.trials.into(),
            footer: Footer::default(),
        }
    }

    /// The trial's counters, and what changes its load.
    #[cfg(feature = "live")]
    pub fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    /// Adds counters to the window. A new trial begins a new window.
    fn count(&mut self, counts: Counts) {
        let goes_back = |before: &Counts| counts.elapsed < before.elapsed || counts.sent < before.sent;
        if self.window.back().is_none_or(goes_back) {
            self.window.clear();
            self.window.push_back(Counts::default());
        }
        self.window.push_back(counts);
        while self.window.get(1).is_some_and(|second| counts.elapsed.saturating_sub(second.elapsed) >= WINDOW)
        {
            self.window.pop_front();
        }
    }

    /// Sent and received within the window, per second.
    fn rates(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.window.front()?, self.window.back()?);
        let seconds = (last.elapsed.saturating_sub(first.elapsed)).as_secs_f64();
        let rate = |to: u64, from: u64| to.saturating_sub(from) as f64 / seconds;
        (seconds > 0.0).then(|| (rate(last.sent, first.sent), rate(last.received, first.received)))
    }

    /// Shares of the time since the last sample.
    fn sample_cpus(&mut self) {
        let now = self.source.cpus();
        let shares = now.iter().zip(&self.spent).map(|(to, from)| {
            let since = |to: f64, from: f64| (to - from).max(0.0);
            let busy: Parts =
                to.busy.iter().zip(&from.busy).map(|(to, from)| (to.0, since(to.1, from.1))).collect();
            let idle = since(to.idle, from.idle);
            let whole = idle + busy.iter().map(|part| part.1).sum::<f64>();
            let share = |part: f64| if whole > 0.0 { part / whole } else { 0.0 };
            let busy = busy.into_iter().map(|(name, part)| (name, share(part))).collect();
            LiveCpu { busy, idle: share(idle) }
        });
        self.cpus = shares.collect();
        self.spent = now;
    }
}

/// The losses by place, most first.
fn lost(so_far: bool, due: u64, arrived: u64, dropped: &BTreeMap<String, u64>) -> Lost {
    let mut places: Vec<_> = dropped.iter().filter(|(_, frames)| **frames > 0).collect();
    places.sort_by_key(|(_, frames)| Reverse(**frames));
    Lost {
        so_far,
        due,
        frames: due.saturating_sub(arrived),
        places: places.into_iter().map(|(place, frames)| (place.clone(), *frames)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Counters that the test sets.
    #[derive(Clone, Default)]
    struct Given(Arc<Mutex<(Counts, f64)>>);

    impl Source for Given {
        fn counts(&mut self) -> Option<Counts> {
            self.0.lock().ok().map(|given| given.0)
        }
        fn dropped(&mut self) -> BTreeMap<String, u64> {
            [("queue".to_owned(), 3), ("nowhere".to_owned(), 0), ("backlog".to_owned(), 30)].into()
        }
        fn streams(&mut self) -> Vec<StreamCount> {
            let stream = |(name, received): (&str, u64)| StreamCount { name: name.into(), sent: 9, received };
            [("whole", 9), ("half", 5)].map(stream).into()
        }
        fn cpus(&mut self) -> Vec<LiveCpu> {
            let busy = self.0.lock().map_or(0.0, |given| given.1);
            vec![LiveCpu { busy: vec![("kernel", 3.0 * busy)], idle: busy }]
        }
    }

    #[test]
    fn rates_are_those_of_the_last_second_and_of_one_trial() {
        let (given, progress, began) = (Given::default(), Progress::of("test"), Instant::now());
        let mut sampler = Sampler::new(progress.clone(), Box::new(given.clone()), began);
        let mut sample = |ms: u64, trial_ms: u64, sent: u64, received: u64| {
            if let Ok(mut given) = given.0.lock() {
                let elapsed = Duration::from_millis(trial_ms);
                *given = (Counts { elapsed, sent, received }, ms as f64 / 1e3);
            }
            sampler.sample(began + Duration::from_millis(ms))
        };
        progress.begins("first", Some(1000.0));
        let rates = |offered_pps: f64, sent_pps, received_pps| {
            Some(Rates { offered_pps: Some(offered_pps), sent_pps, received_pps })
        };
        assert_eq!(sample(0, 0, 0, 0).rates, None);
        assert_eq!(sample(500, 500, 500, 400).rates, rates(1000.0, 1000.0, 800.0));
        sample(1000, 1000, 1000, 800);
        let snapshot = sample(1500, 1500, 1250, 900);
        assert_eq!(snapshot.rates, rates(1000.0, 750.0, 500.0));
        let kinds = [("backlog".to_owned(), 30), ("queue".to_owned(), 3)];
        let expected = Lost { so_far: true, due: 1250, frames: 350, places: kinds.into() };
        assert_eq!(snapshot.lost, expected);
        let (streams, count) = &snapshot.streams;
        assert_eq!((&*streams[0].name, streams[0].missing(), *count), ("half", 4, 2));
        assert_eq!(snapshot.cpus[0].busy, [("kernel", 0.75)]);
        assert_eq!(snapshot.minute.iter().map(|it| it.received_pps).collect::<Vec<_>>(), [0.0, 800.0]);
        // The next trial's counters begin at 0: nothing of the last one is in its rate.
        progress.ended(Ended { due: 1250, arrived: 900, ..Ended::default() });
        progress.begins("second", Some(10.0));
        let snapshot = sample(2000, 200, 2, 1);
        assert_eq!(snapshot.rates, rates(10.0, 10.0, 5.0));
        assert_eq!((snapshot.done, snapshot.trials.len(), &*snapshot.doing), (1, 1, "second"));
    }

    #[test]
    fn without_counters_the_last_trial_is_shown() {
        let (progress, began) = (Progress::of("test"), Instant::now());
        let mut sampler = Sampler::new(progress.clone(), Box::new(()), began);
        progress.begins("first", Some(2000.0));
        assert_eq!(sampler.sample(began).lost, Lost::default());
        let cpus = vec![LiveCpu { busy: vec![("threads", 0.5)], idle: 0.5 }];
        progress.ended(Ended {
            offered_pps: Some(2000.0),
            sent_pps: 1800.0,
            received_pps: 1600.0,
            loss_ratio: 0.2,
            due: 1000,
            arrived: 800,
            dropped: [("fifo".to_owned(), 100)].into(),
            cpus: cpus.clone(),
        });
        let snapshot = sampler.sample(began + Duration::from_secs(5));
        let rates = Rates { offered_pps: Some(2000.0), sent_pps: 1800.0, received_pps: 1600.0 };
        assert_eq!((snapshot.rates, snapshot.cpus), (Some(rates), cpus));
        let expected = Lost { so_far: false, due: 1000, frames: 200, places: vec![("fifo".to_owned(), 100)] };
        assert_eq!(snapshot.lost, expected);
    }
}
