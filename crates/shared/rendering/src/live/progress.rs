//! The progress of a run: the trial under way, and the results of earlier ones.

use super::cpu::LiveCpu;
use kpps_documents::Trial;
use kpps_methods::Observer;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of trials kept.
const TRIALS: usize = 32;

/// The result of a trial. Rates and loss ratio are of the measured time; frame counts are of the whole trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// The offered load in frames per second; `None` for as many as possible.
    pub offered_pps: Option<f64>,
    /// Frames per second that were sent.
    pub sent_pps: f64,
    /// Frames per second that arrived.
    pub received_pps: f64,
    /// Frames that were due and did not arrive, over all due frames: 0 to 1.
    pub loss_ratio: f64,
    /// Frames that were due.
    pub due: u64,
    /// Frames that arrived.
    pub arrived: u64,
    /// Frames that did not arrive, by place.
    pub dropped: BTreeMap<String, u64>,
    /// The use of the testbed's CPUs, if they are not this machine's.
    pub cpus: Vec<LiveCpu>,
}

impl From<&Trial> for Ended {
    fn from(trial: &Trial) -> Self {
        let ledger = &trial.ledger;
        let cpu = trial.cpu.map(|cpu| LiveCpu {
            busy: vec![
                ("interrupts", cpu.hardirq),
                ("softirqs", cpu.softirq),
                ("threads", cpu.thread),
                ("idle polls", cpu.idle_polls.unwrap_or(0.0)),
            ],
            idle: 1.0 - cpu.busy(),
        });
        Self {
            offered_pps: Some(trial.offered_pps),
            sent_pps: trial.sent_pps,
            received_pps: trial.delivered_pps,
            loss_ratio: trial.loss_ratio,
            due: ledger.sent + ledger.shortfall,
            arrived: ledger.delivered + ledger.in_flight,
            dropped: ledger.losses().into_iter().map(|(place, frames)| (place.to_owned(), frames)).collect(),
            cpus: cpu.into_iter().collect(),
        }
    }
}

/// The state of a run between its trials.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub title: String,
    pub doing: String,
    pub offered_pps: Option<f64>,
    /// A trial is under way.
    pub running: bool,
    pub done: usize,
    pub wanted: Option<usize>,
    /// The last trials, the latest first.
    pub trials: VecDeque<Ended>,
    /// Lines to print when the view ends.
    pub notices: Vec<String>,
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// The number of trials that have ended.
    pub done: usize,
    /// The number of trials of the run, if it is known.
    pub of: Option<usize>,
    /// The present measurement.
    pub doing: String,
}

/// Receives reports of a run between its trials. Within a trial there are counters ([`super::Source`]).
#[derive(Clone, Default)]
pub struct Progress(Arc<Mutex<State>>);

impl Progress {
    /// For a run with this title.
    pub fn of(title: impl Into<String>) -> Self {
        let progress = Self::default();
        progress.state().title = title.into();
        progress
    }

    /// Every change leaves a valid state, so the state of a thread that panicked is usable.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the run is.
    pub fn so_far(&self) -> SoFar {
        let state = self.state();
        SoFar { done: state.done, of: state.wanted, doing: state.doing.clone() }
    }

    /// The number of trials of the run.
    pub fn wants(&self, trials: usize) {
        self.state().wanted = Some(trials);
    }

    /// The offered load in frames per second of a run that is not a trial.
    pub fn offers(&self, pps: Option<f64>) {
        self.state().offered_pps = pps;
    }

    /// A trial begins: its description, and its offered load in frames per second, if it is known.
    pub fn begins(&self, doing: impl Into<String>, offered_pps: Option<f64>) {
        let mut state = self.state();
        state.doing = doing.into();
        state.offered_pps = offered_pps;
        state.running = true;
    }

    /// A trial has ended with this result.
    pub fn ended(&self, trial: Ended) {
        let mut state = self.state();
        state.running = false;
        state.done += 1;
        state.trials.push_front(trial);
        state.trials.truncate(TRIALS);
    }

    /// A trial has ended without a result.
    pub fn done(&self) {
        let mut state = self.state();
        state.running = false;
        state.done += 1;
    }

    /// Something that users must know happened, in a sentence: printed when the view ends.
    pub fn notice(&self, what: impl Into<String>) {
        self.state().notices.push(what.into());
    }

    /// The number of trials done, of how many. Threads may report in any order.
    pub fn stands_at(&self, done: usize, of: usize) {
        let mut state = self.state();
        state.wanted = Some(of);
        state.done = state.done.max(done);
    }
}

impl Observer for Progress {
    fn trials(&self, count: usize) {
        self.wants(count);
    }
    fn begins(&self, what: &str, offered_pps: Option<f64>) {
        self.begins(what, offered_pps);
    }
    fn ended(&self, point: &Trial) {
        self.ended(point.into());
    }
    fn done(&self) {
        self.done();
    }
    fn notice(&self, what: &str) {
        self.notice(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_trial_closes_as_its_ledger_does() {
        let ledger = kpps_documents::Ledger {
            sent: 900,
            shortfall: 100,
            delivered: 600,
            dropped: [("fifo".to_owned(), 200)].into(),
            in_flight: 60,
            ..kpps_documents::Ledger::default()
        };
        let ended = Ended::from(&Trial { ledger, ..Trial::default() });
        assert_eq!((ended.due, ended.arrived, ended.cpus.len()), (1000, 660, 0));
        assert_eq!(ended.dropped.values().sum::<u64>(), ended.due - ended.arrived);
    }
}
