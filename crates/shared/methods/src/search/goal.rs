//! Search goals, and the classification of a load by its trials (RFC 9971, "Load Classification Code").

use kpps_documents::{Limit, Trial};

/// A search goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The loss ratio up to which a trial is one of low loss.
    pub loss_ratio: f64,
    /// The exceed ratio: the share of the time at a load that may be trials of high loss.
    pub exceed_ratio: f64,
    /// The largest distance of the bounds, relative to the upper one.
    pub width: f64,
    /// The length of a full-length trial in s.
    pub trial_s: f64,
    /// The total duration of trials that decides a load, in s.
    pub sum_s: f64,
    /// The length in s of the trials that [confirm](Goal::confirmed) a lower bound; 0 if none do.
    pub confirm_s: f64,
}

impl Goal {
    /// No loss: CSIT's NDR.
    pub const NDR: Self =
        Self { loss_ratio: 0.0, exceed_ratio: 0.5, width: 0.005, trial_s: 1.0, sum_s: 21.0, confirm_s: 0.0 };
    /// At most half a per cent of loss: CSIT's PDR.
    pub const PDR: Self = Self { loss_ratio: 0.005, ..Self::NDR };

    /// The goal with its durations scaled so that a full-length trial takes `trial_s`.
    #[must_use]
    pub fn with_trials_of(self, trial_s: f64) -> Self {
        let scale = trial_s / self.trial_s;
        Self { trial_s, sum_s: self.sum_s * scale, confirm_s: self.confirm_s * scale, ..self }
    }

    /// The goal with each lower bound confirmed by a trial of the longest length. A goal whose usual trial is
    /// as long stays as it is.
    ///
    /// The burst that the bucket of a shaper allows when a trial begins passes at any rate, and so do the
    /// frames that fit into a buffer. That hides a load that is too high from trials of the usual length,
    /// less the longer they are. But a long trial also meets more of the events that lose frames now and
    /// then, and a single event must not decide. So the best of three such trials counts; one is enough if it
    /// had no loss and was not disturbed.
    #[must_use]
    pub fn confirmed(self) -> Self {
        let longest_s = self.longest_s();
        // Trials last whole milliseconds.
        let confirm_s = (longest_s * 1e3 * (1.0 + SLACK)).floor() / 1e3;
        Self { confirm_s: if confirm_s > self.trial_s { confirm_s } else { 0.0 }, ..self }
    }

    /// The goal with the duration sum of a single trial: the trials so far decide, by their majority.
    pub(super) fn by_majority(self) -> Self {
        Self { sum_s: self.trial_s, ..self }
    }

    /// The goal with a duration sum halfway between a trial and all of them, as a ratio.
    pub(super) fn halfway(self) -> Self {
        Self { sum_s: (self.trial_s * self.sum_s).sqrt(), ..self }
    }

    /// Whether these bounds are farther apart than the goal allows.
    pub(super) fn is_wide(&self, lower_pps: Option<f64>, upper_pps: f64) -> bool {
        // Rounding may have moved a bound.
        lower_pps.is_none_or(|lower_pps| (upper_pps - lower_pps) / upper_pps > self.width * (1.0 + SLACK))
    }

    /// Whether a trial is one of low loss; `None` if it does not say.
    ///
    /// Lost frames among the sent ones are the device's loss, whatever the generator shortfall. The reverse
    /// does not hold: without loss a load that the tester did not sustain is not shown to be carried, unless
    /// something else [disturbed](Trial::is_disturbed) it: then the rate that was really sent is.
    ///
    /// Frames by which queues grew are lost in the long run. If only they exceed the goal, by less than its
    /// bounds may be apart, a trial says nothing until it is as long as trials get.
    pub fn is_low(&self, trial: &Trial) -> Option<bool> {
        let is_low = |loss_ratio: f64| loss_ratio <= self.loss_ratio;
        match is_low(trial.exact_loss_ratio()) {
            // It may be the tester's own.
            false if trial.limit() == Some(Limit::Receiver) && trial.overflow_unknown => None,
            false => Some(false),
            true if is_low(trial.sustained_loss_ratio()) => trial.limit().is_none().then_some(true),
            true => {
                let grew = trial.sustained_loss_ratio() - trial.exact_loss_ratio();
                let decides = grew > self.width || trial.seconds >= self.longest_s() * (1.0 - SLACK);
                decides.then_some(false)
            }
        }
    }

    /// The longest trial, in s: long enough to decide a load by itself. Its loss does not, if such trials
    /// [confirm](Self::confirmed) bounds.
    pub fn longest_s(&self) -> f64 {
        let exceeds = (self.sum_s * self.exceed_ratio / self.trial_s).floor() + 1.0;
        self.enough_s().max(exceeds * self.trial_s)
    }

    /// How long trials of low loss take, in s, that make a load a lower bound.
    fn enough_s(&self) -> f64 {
        self.sum_s * (1.0 - self.exceed_ratio)
    }

    /// Whether these trials of a load leave open if it is sustained, as queues grew in the longest of them.
    pub fn wants_longer<'t>(&self, trials: impl IntoIterator<Item = &'t Trial>) -> bool {
        let longest = trials.into_iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        longest.is_some_and(|trial| !trial.is_steady() && self.is_low(trial).is_none())
    }

    /// The outcome of the [confirming](Self::confirmed) trials of a load: of the trial that carried most. A
    /// loss beyond the goal in all of them, by more than bounds may be apart, refutes the load.
    ///
    /// If the tester limits all of them, the load that they really carried is known all the same.
    fn confirmed_by<'t>(&self, trials: impl IntoIterator<Item = &'t Trial>) -> Confirmation {
        let long: Vec<_> = trials.into_iter().filter(|trial| self.is_confirming(trial)).collect();
        let beyond = |trial: &Trial| (trial.exact_loss_ratio() - self.loss_ratio).max(0.0);
        // At this share of the load, the frames that arrived are all but the loss that the goal allows.
        let met = |trial: &Trial| ((1.0 - trial.exact_loss_ratio()) / (1.0 - self.loss_ratio)).min(1.0);
        let carried = |trial: &Trial| trial.sent_share() * met(trial);
        let of_the_device = || long.iter().filter(|trial| self.is_low(trial).is_some());
        let share = long.iter().map(|trial| carried(trial)).fold(0.0, f64::max);
        let is_clean =
            of_the_device().any(|trial| beyond(trial) == 0.0 && carried(trial) >= 1.0 - self.width);
        match of_the_device().map(|trial| beyond(trial)).reduce(f64::min) {
            _ if is_clean => Confirmation::Sustained { share },
            _ if long.len() < CONFIRMING => Confirmation::Open,
            Some(beyond) if beyond > self.width => Confirmation::Refuted { share },
            _ => Confirmation::Sustained { share },
        }
    }

    /// Whether a trial confirms a lower bound.
    fn is_confirming(&self, trial: &Trial) -> bool {
        self.confirm_s > 0.0 && trial.seconds >= self.confirm_s * (1.0 - SLACK)
    }

    /// Whether these trials make a load a lower bound that lacks only a confirming trial.
    pub(super) fn wants_confirmation<'t>(&self, trials: impl Iterator<Item = &'t Trial> + Clone) -> bool {
        self.needs_confirmation()
            && self.confirmed_by(trials.clone()) == Confirmation::Open
            && self.halfway().judge(trials) == Bound::Lower
    }

    /// Whether this is a last target, whose lower bounds are confirmed.
    fn needs_confirmation(&self) -> bool {
        self.confirm_s > 0.0 && self.longest_s() >= self.confirm_s * (1.0 - SLACK)
    }

    /// The share of a load that its confirming trials carried, if it has been confirmed; otherwise 1.
    pub fn sustained_share<'t>(&self, trials: impl IntoIterator<Item = &'t Trial>) -> f64 {
        match self.confirmed_by(trials) {
            Confirmation::Sustained { share } | Confirmation::Refuted { share } => share,
            Confirmation::Open => 1.0,
        }
    }

    /// Whether long trials refute the load of these trials.
    pub(super) fn is_refuted<'t>(&self, trials: impl IntoIterator<Item = &'t Trial>) -> bool {
        matches!(self.confirmed_by(trials), Confirmation::Refuted { .. })
    }

    /// The class of a load with these trials.
    pub fn judge<'t>(&self, trials: impl IntoIterator<Item = &'t Trial> + Clone) -> Bound {
        match self.is_refuted(trials.clone()) {
            true => Bound::Upper,
            false => self.judge_unrefuted(trials),
        }
    }

    /// The same, if long trials refute no load: the device loses frames for another reason.
    pub(super) fn judge_unrefuted<'t>(&self, trials: impl IntoIterator<Item = &'t Trial> + Clone) -> Bound {
        let confirmation = self.confirmed_by(trials.clone());
        match self.judge_by_sums(trials) {
            Bound::Lower if confirmation == Confirmation::Open && self.needs_confirmation() => {
                Bound::Undecided
            }
            bound => bound,
        }
    }

    /// The class of a load by the total durations of its trials of low and of high loss.
    fn judge_by_sums<'t>(&self, trials: impl IntoIterator<Item = &'t Trial>) -> Bound {
        // Sums of durations: full-length and short ones, of low and of high loss.
        let (mut fl, mut fh, mut sl, mut sh) = (0.0, 0.0, 0.0, 0.0);
        let mut judged_elsewhere = 0;
        for trial in trials {
            let full = trial.seconds >= self.trial_s * (1.0 - SLACK);
            let Some(low) = self.is_low(trial) else { continue };
            // Their losses are judged together, unless queues grew: that is no noise.
            let is_lossy = self.is_confirming(trial) && trial.exact_loss_ratio() > self.loss_ratio;
            if is_lossy && trial.is_steady() && judged_elsewhere < CONFIRMING {
                judged_elsewhere += 1;
                continue;
            }
            *match (full, low) {
                (true, true) => &mut fl,
                (true, false) => &mut fh,
                (false, true) => &mut sl,
                (false, false) => &mut sh,
            } += trial.seconds;
        }
        let e = self.exceed_ratio;
        let high = fh + f64::max(0.0, sh - sl * e / (1.0 - e));
        let whole = f64::max(fl + high, self.sum_s);
        let slack = whole * SLACK;
        if whole - fl <= whole * e + slack {
            Bound::Lower
        } else if high > whole * e + slack {
            Bound::Upper
        } else {
            Bound::Undecided
        }
    }

    /// The share of a load that was really sent in these trials. Of the trials with low loss, the best count,
    /// as many as make the load a lower bound. The share is below 1 only if something disturbed them.
    pub fn sent_share<'t>(&self, trials: impl IntoIterator<Item = &'t Trial>) -> f64 {
        let low = trials.into_iter().filter(|trial| self.is_low(trial) == Some(true));
        let mut low: Vec<_> = low.map(|trial| (trial.sent_share(), trial.seconds)).collect();
        low.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut left = self.enough_s();
        let needed = low.into_iter().take_while(|(_, seconds)| {
            let is_needed = left > self.sum_s * SLACK;
            left -= seconds;
            is_needed
        });
        needed.map(|(share, _)| share).fold(1.0, f64::min)
    }

    /// The conditional throughput at a load with these trials: the rate delivered in all trials but the
    /// worst ones that the exceed ratio allows.
    pub fn conditional_pps<'t>(&self, load_pps: f64, trials: impl IntoIterator<Item = &'t Trial>) -> f64 {
        let full =
            |trial: &&Trial| trial.seconds >= self.trial_s * (1.0 - SLACK) && self.is_low(trial).is_some();
        let mut trials: Vec<_> = trials.into_iter().filter(full).collect();
        trials.sort_by(|a, b| a.sustained_loss_ratio().total_cmp(&b.sustained_loss_ratio()));
        let whole = f64::max(self.sum_s, trials.iter().map(|trial| trial.seconds).sum());
        let mut left = (1.0 - self.exceed_ratio) * whole;
        let mut worst = 0.0;
        for trial in &trials {
            if left <= whole * SLACK {
                break;
            }
            left -= trial.seconds;
            worst = trial.sustained_loss_ratio();
        }
        if left > whole * SLACK {
            worst = 1.0;
        }
        load_pps * (1.0 - worst)
    }
}

/// The most trials that confirm a lower bound.
const CONFIRMING: usize = 3;

/// The outcome of the longest trials of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Confirmation {
    /// Too few trials.
    Open,
    /// This share of the load is sustained.
    Sustained { share: f64 },
    /// The load is not sustained, but this share of it.
    Refuted { share: f64 },
}

/// The tolerance of sums of durations: 21 times 0.1 is not exactly 2.1.
const SLACK: f64 = 1e-9;

/// The class of a load for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A lower bound: the goal is met.
    Lower,
    /// An upper bound: the goal is not met.
    Upper,
    /// Undecided: more trials are needed.
    Undecided,
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::Disturbance;

    /// Trials by number, length and loss ratio, at 1 Gpps, so that ratios are exact.
    fn trials(of: &[(u32, f64, f64)]) -> Vec<Trial> {
        let each = |&(count, seconds, loss_ratio): &(u32, f64, f64)| {
            let sent = (1e9 * seconds).round();
            let delivered = (sent * (1.0 - loss_ratio)).round() as u64;
            (0..count).map(move |_| Trial { seconds, sent: sent as u64, delivered, ..Trial::default() })
        };
        of.iter().flat_map(each).collect()
    }

    #[test]
    fn half_of_21_seconds_decide() {
        for (of, expected) in [
            (&[(10, 1.0, 0.0)][..], Bound::Undecided),
            (&[(11, 1.0, 0.0)], Bound::Lower),
            (&[(10, 1.0, 0.0), (10, 1.0, 0.1)], Bound::Undecided),
            (&[(11, 1.0, 0.0), (10, 1.0, 0.1)], Bound::Lower),
            (&[(10, 1.0, 0.0), (11, 1.0, 0.1)], Bound::Upper),
            (&[(11, 1.0, 0.1)], Bound::Upper),
            (&[(10, 1.0, 0.1)], Bound::Undecided),
            // Short trials of low loss offset short ones of high loss, and decide nothing by themselves.
            (&[(22, 0.5, 0.1)], Bound::Upper),
            (&[(22, 0.5, 0.1), (22, 0.5, 0.0)], Bound::Undecided),
            (&[(100, 0.5, 0.0)], Bound::Undecided),
            (&[], Bound::Undecided),
        ] {
            assert_eq!(Goal::NDR.judge(&trials(of)), expected, "{of:?}");
        }
        let strict = Goal { exceed_ratio: 0.0, sum_s: 1.0, ..Goal::NDR };
        assert_eq!(strict.judge(&trials(&[(1, 1.0, 0.0)])), Bound::Lower);
        assert_eq!(strict.judge(&trials(&[(9, 1.0, 0.0), (1, 1.0, 1e-9)])), Bound::Upper);
        let tenth = Goal::NDR.with_trials_of(0.1);
        assert_eq!(tenth.judge(&trials(&[(11, 0.1, 0.0), (10, 0.1, 0.1)])), Bound::Lower);
    }

    /// A trial's verdict on its load: by the loss, by the generator shortfall and its reason, and by queues
    /// that grew.
    #[test]
    fn what_was_lost_of_what_was_sent_counts_whatever_was_not_sent() {
        let of = |shortfall, disturbed: Option<u64>, lost, queue_growth| {
            let sent = 20_000 - shortfall;
            let trial = Trial { seconds: 1.0, sent, shortfall, delivered: sent - lost, ..Trial::default() };
            let disturbance = disturbed.map(|frames| Disturbance { frames, ..Disturbance::default() });
            trial.with_disturbance(disturbance, None).with_queue_growth(Some(queue_growth))
        };
        for (trial, ndr, pdr) in [
            (of(0, None, 0, 0), Some(true), Some(true)),
            (of(0, None, 50, 0), Some(false), Some(true)),
            // The generator's limit: only a loss is the device's.
            (of(2000, None, 0, 0), None, None),
            (of(2000, None, 50, 0), Some(false), None),
            (of(2000, None, 5000, 0), Some(false), Some(false)),
            // A disturbance: the sent frames were carried.
            (of(80, Some(80), 0, 0), Some(true), Some(true)),
            (of(80, Some(80), 5000, 0), Some(false), Some(false)),
            // Queues that grew: by more than the bounds may be apart, or by little.
            (of(0, None, 0, 5000), Some(false), Some(false)),
            (of(0, None, 0, 60), None, Some(true)),
            (of(0, None, 60, 60), Some(false), None),
        ] {
            let says = (Goal::NDR.is_low(&trial), Goal::PDR.is_low(&trial));
            assert_eq!(says, (ndr, pdr), "{trial:?}");
        }
        // A trial that is as long as trials get decides.
        let longest = Trial { seconds: Goal::NDR.longest_s(), ..of(0, None, 0, 60) };
        assert_eq!((Goal::NDR.longest_s(), Goal::NDR.is_low(&longest)), (11.0, Some(false)));
        assert_eq!(
            (Goal::NDR.judge([&longest]), Goal::NDR.judge([&of(0, None, 0, 0)])),
            (Bound::Upper, Bound::Undecided)
        );
        assert!(Goal::NDR.wants_longer([&of(0, None, 0, 60)]) && !Goal::NDR.wants_longer([&longest]));
        // Of an overflow that is not known, a loss may be the tester's own.
        assert_eq!(Goal::NDR.is_low(&of(0, None, 5000, 0).with_overflow(None)), None);
    }

    /// Three seconds without loss want a long trial; its loss decides only if two more have it, too.
    #[test]
    fn a_long_trial_confirms_a_lower_bound() {
        let goal = Goal::NDR.confirmed();
        assert_eq!(
            (goal.confirm_s, Goal { sum_s: 1.0, exceed_ratio: 0.0, ..goal }.confirmed().confirm_s),
            (11.0, 0.0)
        );
        let short = (3, 1.0, 0.0);
        for (of, judged, wants, share) in [
            (&[(2, 1.0, 0.0)][..], Bound::Undecided, false, 1.0),
            (&[short], Bound::Undecided, true, 1.0),
            (&[(11, 1.0, 0.0)], Bound::Undecided, true, 1.0),
            (&[short, (1, 11.0, 0.0)], Bound::Lower, false, 1.0),
            (&[short, (1, 11.0, 0.02)], Bound::Undecided, true, 1.0),
            (&[short, (2, 11.0, 0.02)], Bound::Undecided, true, 1.0),
            (&[short, (3, 11.0, 0.02)], Bound::Upper, false, 0.98),
            (&[short, (1, 11.0, 0.02), (1, 11.0, 0.0)], Bound::Lower, false, 1.0),
            (&[short, (2, 11.0, 0.02), (1, 11.0, 0.001)], Bound::Undecided, false, 0.999),
            (&[(11, 1.0, 0.0), (3, 11.0, 0.001)], Bound::Lower, false, 0.999),
            (&[(11, 1.0, 0.1), (1, 11.0, 0.0)], Bound::Lower, false, 1.0),
            (&[(12, 1.0, 0.1)], Bound::Upper, false, 1.0),
        ] {
            let trials = trials(of);
            let found =
                (goal.judge(&trials), goal.wants_confirmation(trials.iter()), goal.sustained_share(&trials));
            assert_eq!(found, (judged, wants, share), "{of:?}");
        }
        // Frames that were not sent were not carried. A trial that the tester limits decides nothing, and is
        // not repeated for ever.
        let long = |shortfall, disturbed| {
            let sent = 11_000 - shortfall;
            let trial = Trial { seconds: 11.0, sent, shortfall, delivered: sent, ..Trial::default() };
            trial.with_disturbance(Some(Disturbance { frames: disturbed, ..Disturbance::default() }), None)
        };
        let disturbed = [long(110, 110), long(220, 220), long(330, 330)];
        assert_eq!(goal.confirmed_by(&disturbed[..2]), Confirmation::Open);
        assert_eq!(goal.confirmed_by(&disturbed), Confirmation::Sustained { share: 0.99 });
        assert_eq!(goal.sustained_share([&long(22, 22)]), 0.998);
        let limited = [long(110, 0), long(110, 0), long(110, 0)];
        assert_eq!(goal.confirmed_by(&limited[..2]), Confirmation::Open);
        assert_eq!(goal.confirmed_by(&limited), Confirmation::Sustained { share: 0.99 });
        // Their loss is the device's, whatever was not sent.
        let lossy = Trial { delivered: 10_000, ..long(110, 0) };
        assert!(matches!(goal.confirmed_by([&lossy; 3]), Confirmation::Refuted { .. }));
        // All that arrived is a load at which the goal just allows the loss.
        let half = Goal { loss_ratio: 0.5, ..goal };
        assert_eq!(half.sustained_share(&trials(&[(3, 11.0, 0.75)])), 0.5);
        assert_eq!(Goal::NDR.with_trials_of(0.05075).confirmed().confirm_s, 0.558);
    }

    #[test]
    fn three_of_five_are_halfway() {
        let halfway = Goal::NDR.halfway();
        assert_eq!((halfway.sum_s * 100.0).round() / 100.0, 4.58);
        assert_eq!(halfway.judge(&trials(&[(3, 1.0, 0.0), (2, 1.0, 0.1)])), Bound::Lower);
        assert_eq!(halfway.judge(&trials(&[(2, 1.0, 0.0), (2, 1.0, 0.1)])), Bound::Undecided);
        let majority = Goal::NDR.by_majority();
        assert_eq!(majority.judge(&trials(&[(1, 1.0, 0.1)])), Bound::Upper);
        assert_eq!(majority.judge(&trials(&[(2, 1.0, 0.0), (3, 1.0, 0.1)])), Bound::Upper);
    }

    #[test]
    fn the_conditional_throughput_leaves_out_the_worst() {
        let of = |of| Goal::NDR.conditional_pps(1000.0, &trials(of));
        assert_eq!(of(&[(11, 1.0, 0.0), (10, 1.0, 0.5)]), 1000.0);
        assert_eq!(of(&[(10, 1.0, 0.0), (11, 1.0, 0.5)]), 500.0);
        assert_eq!(of(&[(10, 1.0, 0.0)]), 0.0, "too few trials decide nothing");
    }
}
