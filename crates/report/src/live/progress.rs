//! What a run tells of itself: which trial begins, and what became of it.

use super::processor::Processor;
use kpps_results::Trial;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Trials that are remembered.
const TRIALS: usize = 32;

/// What became of a trial. Rates and ratio are of the measured time; frames of all of the trial, from its
/// first one on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Frames per second that were asked for; none for as many as possible.
    pub offered_pps: Option<f64>,
    /// Frames per second that were sent.
    pub sent_pps: f64,
    /// Frames per second that arrived.
    pub received_pps: f64,
    /// Frames that were due and did not arrive, over those that were due: 0 to 1.
    pub loss_ratio: f64,
    /// Frames that were due.
    pub due: u64,
    /// Those that arrived.
    pub arrived: u64,
    /// Those that did not, by place.
    pub dropped: BTreeMap<String, u64>,
    /// What the testbed's own processors did, where they are not this machine's.
    pub processors: Vec<Processor>,
}

impl From<&Trial> for Ended {
    fn from(trial: &Trial) -> Self {
        let ledger = &trial.ledger;
        let processor = trial.cpu.map(|cpu| Processor {
            busy: vec![
                ("interrupts", cpu.hardirq),
                ("softirqs", cpu.softirq),
                ("threads", cpu.thread),
                ("empty polls", cpu.empty_polls.unwrap_or(0.0)),
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
            processors: processor.into_iter().collect(),
        }
    }
}

/// What is known of a run between its trials.
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
}

/// Where a run tells how it goes. Told between trials only: within one there are counters
/// ([`super::Source`]).
#[derive(Clone, Default)]
pub struct Progress(Arc<Mutex<State>>);

impl Progress {
    /// Of a run with this title.
    pub fn of(title: impl Into<String>) -> Self {
        let progress = Self::default();
        progress.state().title = title.into();
        progress
    }

    /// A state is whole after each of the lines below, so one whose writer died is as good as any.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many trials will be all.
    pub fn wants(&self, trials: usize) {
        self.state().wanted = Some(trials);
    }

    /// So many frames per second are asked for, in a run that is no trial.
    pub fn offers(&self, pps: Option<f64>) {
        self.state().offered_pps = pps;
    }

    /// A trial begins: what it is, and how many frames per second it offers, if that is known.
    pub fn begins(&self, doing: impl Into<String>, offered_pps: Option<f64>) {
        let mut state = self.state();
        state.doing = doing.into();
        state.offered_pps = offered_pps;
        state.running = true;
    }

    /// A trial has ended so.
    pub fn ended(&self, trial: Ended) {
        let mut state = self.state();
        state.running = false;
        state.done += 1;
        state.trials.push_front(trial);
        state.trials.truncate(TRIALS);
    }

    /// A trial is done; nothing else is told of it.
    pub fn done(&self) {
        let mut state = self.state();
        state.running = false;
        state.done += 1;
    }

    /// So many trials are done; nothing else is told of them. Threads may tell in any order.
    pub fn stands_at(&self, done: usize) {
        let mut state = self.state();
        state.done = state.done.max(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_trial_closes_as_its_ledger_does() {
        let ledger = kpps_results::Ledger {
            sent: 900,
            shortfall: 100,
            delivered: 600,
            dropped: [("fifo".to_owned(), 200)].into(),
            in_flight: 60,
            ..kpps_results::Ledger::default()
        };
        let ended = Ended::from(&Trial { ledger, ..Trial::default() });
        assert_eq!((ended.due, ended.arrived, ended.processors.len()), (1000, 660, 0));
        assert_eq!(ended.dropped.values().sum::<u64>(), ended.due - ended.arrived);
    }
}
