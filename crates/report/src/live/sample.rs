//! What is seen of a run at one time.

use super::processor::{Parts, Processor};
use super::progress::{Ended, Progress};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much of the past is kept, a value each second.
pub(crate) const MINUTE: usize = 60;
/// Over how long a rate is taken.
const WINDOW: Duration = Duration::from_secs(1);
/// What is dear to ask for, or has coarse clocks, is asked for this often.
const SLOW: Duration = Duration::from_secs(1);

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

/// Counters that one thread writes, some times a second, and others read. Nobody waits; numbers of two times
/// may be seen together.
#[derive(Debug, Default)]
pub struct Meter {
    elapsed_ns: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Meter {
    /// Shows this from now on.
    pub fn show(&self, counts: Counts) {
        self.elapsed_ns.store(counts.elapsed.as_nanos() as u64, Ordering::Relaxed);
        self.sent.store(counts.sent, Ordering::Relaxed);
        self.received.store(counts.received, Ordering::Relaxed);
    }

    /// What was shown last.
    pub fn counts(&self) -> Counts {
        Counts {
            elapsed: Duration::from_nanos(self.elapsed_ns.load(Ordering::Relaxed)),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }
}

/// What can be asked while a trial goes on. Only the thread that shows it asks.
pub trait Source: Send {
    /// What was counted so far; `None` where nothing is counted before a trial ends.
    fn counts(&mut self) -> Option<Counts> {
        None
    }
    /// Frames lost so far, by the place that has counted them.
    fn dropped(&mut self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
    /// What the machine's processors spent their time on, in s.
    fn processors(&mut self) -> Vec<Processor> {
        Vec::new()
    }
}

/// Nothing can be asked.
impl Source for () {}

/// Frames per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Asked for; none for as many as possible.
    pub offered_pps: Option<f64>,
    /// Sent.
    pub sent_pps: f64,
    /// Received.
    pub received_pps: f64,
}

/// Frames that did not arrive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lost {
    /// Of a trial under way: what is on its way is among them.
    pub so_far: bool,
    /// Frames that were due.
    pub due: u64,
    /// Those that have not arrived.
    pub frames: u64,
    /// By place, most first. What no place has counted is the rest.
    pub places: Vec<(String, u64)>,
}

/// A run at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// What is run.
    pub title: String,
    /// Which trial is under way.
    pub doing: String,
    /// Since the start.
    pub elapsed: Duration,
    /// Trials done.
    pub done: usize,
    /// Trials that will be all, if that is known.
    pub wanted: Option<usize>,
    /// Rates of the last second; those of the last trial where nothing is counted before its end. None before
    /// anything is known.
    pub rates: Option<Rates>,
    /// Frames received per second in the last minute, a value for each second, the latest last.
    pub minute: Vec<f64>,
    /// Frames lost.
    pub lost: Lost,
    /// The processors.
    pub processors: Vec<Processor>,
    /// The last trials, the latest first.
    pub trials: Vec<Ended>,
    /// Someone asked for the end.
    pub ending: bool,
}

/// Looks at a run again and again.
pub(crate) struct Sampler {
    progress: Progress,
    source: Box<dyn Source>,
    began: Instant,
    /// What was counted within the last window.
    window: VecDeque<Counts>,
    slow: Option<Instant>,
    dropped: BTreeMap<String, u64>,
    spent: Vec<Processor>,
    processors: Vec<Processor>,
    minute: VecDeque<f64>,
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
            spent: Vec::new(),
            processors: Vec::new(),
            minute: VecDeque::new(),
        }
    }

    pub fn look(&mut self, now: Instant) -> Snapshot {
        let state = self.progress.state().clone();
        let counts = self.source.counts();
        if let Some(counts) = counts {
            self.count(counts);
        }
        let last = state.trials.front();
        let rates = match (self.rates(), last) {
            (Some((sent_pps, received_pps)), _) => {
                Some(Rates { offered_pps: state.offered_pps, sent_pps, received_pps })
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
            }
            self.look_at_processors();
            self.minute.push_back(rates.map_or(0.0, |rates| rates.received_pps));
            if self.minute.len() > MINUTE {
                self.minute.pop_front();
            }
        }
        let lost = match (counts.filter(|_| state.running), last) {
            (Some(counts), _) => lost(true, counts.sent, counts.received, &self.dropped),
            (None, Some(last)) => lost(false, last.due, last.arrived, &last.dropped),
            (None, None) => Lost::default(),
        };
        let processors = match last {
            Some(last) if self.processors.is_empty() => last.processors.clone(),
            _ => self.processors.clone(),
        };
        Snapshot {
            elapsed: now - self.began,
            rates,
            minute: self.minute.iter().copied().collect(),
            lost,
            processors,
            title: state.title,
            doing: state.doing,
            done: state.done,
            wanted: state.wanted,
            trials: state.trials.into(),
            ending: false,
        }
    }

    /// Takes counters into the window; those of another trial begin a new one.
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

    /// Shares of the time since the last look.
    fn look_at_processors(&mut self) {
        let now = self.source.processors();
        let shares = now.iter().zip(&self.spent).map(|(to, from)| {
            let since = |to: f64, from: f64| (to - from).max(0.0);
            let busy: Parts =
                to.busy.iter().zip(&from.busy).map(|(to, from)| (to.0, since(to.1, from.1))).collect();
            let idle = since(to.idle, from.idle);
            let whole = idle + busy.iter().map(|part| part.1).sum::<f64>();
            let share = |part: f64| if whole > 0.0 { part / whole } else { 0.0 };
            let busy = busy.into_iter().map(|(name, part)| (name, share(part))).collect();
            Processor { busy, idle: share(idle) }
        });
        self.processors = shares.collect();
        self.spent = now;
    }
}

/// What is lost, by place, most first.
fn lost(so_far: bool, due: u64, arrived: u64, dropped: &BTreeMap<String, u64>) -> Lost {
    let mut places: Vec<_> = dropped.iter().filter(|(_, frames)| **frames > 0).collect();
    places.sort_by_key(|(_, frames)| std::cmp::Reverse(**frames));
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
        fn processors(&mut self) -> Vec<Processor> {
            let busy = self.0.lock().map_or(0.0, |given| given.1);
            vec![Processor { busy: vec![("kernel", 3.0 * busy)], idle: busy }]
        }
    }

    #[test]
    fn rates_are_those_of_the_last_second_and_of_one_trial() {
        let (given, progress, began) = (Given::default(), Progress::of("test"), Instant::now());
        let mut sampler = Sampler::new(progress.clone(), Box::new(given.clone()), began);
        let mut look = |ms: u64, trial_ms: u64, sent: u64, received: u64| {
            if let Ok(mut given) = given.0.lock() {
                let elapsed = Duration::from_millis(trial_ms);
                *given = (Counts { elapsed, sent, received }, ms as f64 / 1e3);
            }
            sampler.look(began + Duration::from_millis(ms))
        };
        progress.begins("first", Some(1000.0));
        let rates = |offered_pps: f64, sent_pps, received_pps| {
            Some(Rates { offered_pps: Some(offered_pps), sent_pps, received_pps })
        };
        assert_eq!(look(0, 0, 0, 0).rates, None);
        assert_eq!(look(500, 500, 500, 400).rates, rates(1000.0, 1000.0, 800.0));
        look(1000, 1000, 1000, 800);
        let snapshot = look(1500, 1500, 1250, 900);
        assert_eq!(snapshot.rates, rates(1000.0, 750.0, 500.0));
        let kinds = [("backlog".to_owned(), 30), ("queue".to_owned(), 3)];
        let expected = Lost { so_far: true, due: 1250, frames: 350, places: kinds.into() };
        assert_eq!(snapshot.lost, expected);
        assert_eq!(snapshot.processors[0].busy, [("kernel", 0.75)]);
        assert_eq!(snapshot.minute, [0.0, 800.0]);
        // The next trial's counters begin at 0: nothing of the last one is in its rate.
        progress.ended(Ended { due: 1250, arrived: 900, ..Ended::default() });
        progress.begins("second", Some(10.0));
        let snapshot = look(2000, 200, 2, 1);
        assert_eq!(snapshot.rates, rates(10.0, 10.0, 5.0));
        assert_eq!((snapshot.done, snapshot.trials.len(), &*snapshot.doing), (1, 1, "second"));
    }

    #[test]
    fn without_counters_the_last_trial_is_shown() {
        let (progress, began) = (Progress::of("test"), Instant::now());
        let mut sampler = Sampler::new(progress.clone(), Box::new(()), began);
        progress.begins("first", Some(2000.0));
        assert_eq!(sampler.look(began).lost, Lost::default());
        let processors = vec![Processor { busy: vec![("threads", 0.5)], idle: 0.5 }];
        progress.ended(Ended {
            offered_pps: Some(2000.0),
            sent_pps: 1800.0,
            received_pps: 1600.0,
            loss_ratio: 0.2,
            due: 1000,
            arrived: 800,
            dropped: [("fifo".to_owned(), 100)].into(),
            processors: processors.clone(),
        });
        let snapshot = sampler.look(began + Duration::from_secs(5));
        let rates = Rates { offered_pps: Some(2000.0), sent_pps: 1800.0, received_pps: 1600.0 };
        assert_eq!((snapshot.rates, snapshot.processors), (Some(rates), processors));
        let expected = Lost { so_far: false, due: 1000, frames: 200, places: vec![("fifo".to_owned(), 100)] };
        assert_eq!(snapshot.lost, expected);
    }
}
