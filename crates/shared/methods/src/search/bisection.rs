//! Plain bisection, as RFC 2544 suggests it: a single trial decides a load.

use super::Goal;
use kpps_documents::{Limit, Trial};

/// A bisection for the highest load without loss.
#[derive(Clone, Debug)]
pub struct Bisection {
    goal: Goal,
    lower: f64,
    upper: f64,
    max_pps: f64,
    met: bool,
    /// The tester's limit that makes loads from `upper` on too high, if there is one.
    limited_by: Option<Limit>,
    trials: Vec<Trial>,
}

impl Bisection {
    /// For the loss ratio and the width of a goal, between two loads in frames per second. `limited_by`: the
    /// part of the tester that cannot do more than the higher one.
    pub fn new(goal: &Goal, min_pps: f64, max_pps: f64, limited_by: Option<Limit>) -> Self {
        let (lower, upper, trials) = (min_pps, max_pps, Vec::new());
        Self { goal: *goal, lower, upper, max_pps, met: false, limited_by, trials }
    }

    /// The load to measure next; `None` at the end.
    pub fn next(&self) -> Option<f64> {
        if self.trials.is_empty() {
            return Some(self.max_pps);
        }
        let near = (self.upper - self.lower) / self.upper <= self.goal.width;
        (!near).then_some((self.lower + self.upper) / 2.0)
    }

    /// Takes a trial at this load into account. A load that the tester itself could not sustain is too high,
    /// and so is one at which queues grew.
    pub fn add(&mut self, load_pps: f64, trial: Trial) {
        let is_low = self.goal.is_low(&trial);
        if is_low == Some(true) {
            self.lower = load_pps * trial.sent_share();
            self.met = true;
        } else {
            self.upper = load_pps;
            self.limited_by = trial.limit().filter(|_| is_low.is_none());
        }
        self.trials.push(trial);
    }

    /// The highest load at which a trial met the goal.
    pub fn lower_pps(&self) -> Option<f64> {
        self.met.then_some(self.lower)
    }

    /// The part of the tester that is the limit, if the device under test may do better than
    /// [`lower_pps`](Self::lower_pps).
    pub fn limited_by(&self) -> Option<Limit> {
        self.limited_by.filter(|_| self.met)
    }

    /// All trials, in order.
    pub fn into_trials(self) -> Vec<Trial> {
        self.trials
    }
}
