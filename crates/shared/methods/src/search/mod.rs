//! Searches for the highest load that is delivered: multiple loss ratios at once, and plain bisection.
//!
//! A search is a function of the trials so far: it returns the next load, and the bounds found. It depends on
//! no testbed and no clock, and continues from trials of an earlier run.
//!
//! RFC 9971 says when trials decide a load, and which bounds count. It leaves to a search which load is next.
//! This one takes the load with the fewest trials that any goal wants, and a goal wants:
//!
//! - First the highest load. Its forwarding rate (FRMOL) is the first guess, and the lossy loads after it
//!   give better ones.
//! - As long as its bounds, by the majority of the trials so far, are too far apart: a load between them. A
//!   single trial decides at first. A wrong one costs little, as it is repeated when its load is a bound.
//! - When they are near: the bounds, until enough trials decide them.
//!
//! Loads are on a [ladder](Ladder), whose steps are just within the width. So no bound is closer than asked,
//! and goals share their trials. Each of these rules saves trials: `tests/mlrsearch` counts them beside the
//! library of the RFC's authors.
//!
//! [`Goal::is_low`] has a trial's verdict on its load. A trial whose load the tester itself could not
//! sustain, without a loss, decides nothing. Two of them at a load, and more of them than others, mean that
//! the load is beyond the tester; five, if it has reached clearly more elsewhere. The search goes on below
//! what the tester reached there. A trial that something disturbed is no such limit: it counts for the rate
//! that was really sent.
//!
//! A load at which queues grew without a loss is tried for longer ([`Search::trial_s`]), until they are full
//! or the load is seen to be sustained. Where buffers may be that no trial shows, the last trials of a lower
//! bound are one long one, which they hide less from ([`Goal::confirmed`]).

mod bisection;
mod capacity;
mod goal;
mod known;
mod ladder;

pub use bisection::Bisection;
pub use capacity::{Capacity, Verdict};
pub use goal::{Bound, Goal};
pub use known::Known;

use kpps_documents::{Limit, Trial};
use ladder::{Ladder, grid};
use std::collections::BTreeMap;

/// A search for several goals, with trials of one length and longer ones that confirm.
#[derive(Clone, Debug)]
pub struct Search {
    goals: Vec<Goal>,
    min_pps: f64,
    max_pps: f64,
    /// The trials, each with its load in frames per second in each direction.
    trials: Vec<(f64, Trial)>,
    /// Where in them the trials of each load are, by the load's bits: loads are positive, so these are
    /// ordered as the loads are.
    at: BTreeMap<u64, Vec<usize>>,
}

/// The bounds of a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// The relevant lower bound: the largest load at which the goal is met below the upper bound, as far as
    /// it was really sent, and sustained in the longest trials.
    pub lower_pps: Option<f64>,
    /// That load, as it was asked for.
    pub load_pps: Option<f64>,
    /// The relevant upper bound: the smallest load at which it is not met, as it was really sent while the
    /// generator ran. `None` if the goal is met at the largest load.
    pub upper_pps: Option<f64>,
    /// The conditional throughput.
    pub conditional_pps: Option<f64>,
    /// The bounds are as close as the goal asks, or the largest load is a lower one.
    pub done: bool,
    /// The part of the tester that is the limit, if the goal is met at the highest load that it can measure.
    pub limited_by: Option<Limit>,
}

impl Search {
    /// A search for these goals between two loads, in frames per second.
    pub fn new(goals: Vec<Goal>, min_pps: f64, max_pps: f64) -> Self {
        let (min_pps, max_pps) = (grid(min_pps.min(max_pps), f64::floor), grid(max_pps, f64::floor));
        Self { goals, min_pps, max_pps, trials: Vec::new(), at: BTreeMap::new() }
    }

    /// Takes a trial at this load into account.
    pub fn add(&mut self, load_pps: f64, trial: Trial) {
        self.at.entry(load_pps.to_bits()).or_default().push(self.trials.len());
        self.trials.push((load_pps, trial));
    }

    /// The highest load that the tester can measure, in frames per second, and the part that limits it;
    /// `None` if no load was beyond it.
    pub fn tester_limit(&self) -> Option<(f64, Limit)> {
        let reached = |load: f64| {
            let limits =
                self.all_at(load).filter_map(|trial| Some((1.0 - trial.tester_ratio(), trial.limit()?)));
            let (share, limit) = limits.max_by(|a, b| a.0.total_cmp(&b.0))?;
            Some((grid(load * share * BELOW_LIMIT, f64::floor).max(self.min_pps), limit))
        };
        let beyond = self.loads().into_iter().filter(|load| self.is_beyond(*load));
        beyond.filter_map(reached).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Whether the tester cannot measure at this load.
    fn is_beyond(&self, load_pps: f64) -> bool {
        let here = self.all_at(load_pps);
        let (limited, measured): (Vec<_>, Vec<_>) = here.partition(|trial| self.is_limited(trial));
        let Some(last) = limited.last() else { return false };
        let enough = if self.has_reached(load_pps, last.limit()) { DISTURBED } else { LIMITED };
        limited.len() >= enough && limited.len() > measured.len()
    }

    /// Whether the tester was the limit, and the loss is not above all goals even so.
    fn is_limited(&self, trial: &Trial) -> bool {
        trial.limit().is_some() && self.goals.iter().any(|goal| goal.is_low(trial).is_none())
    }

    /// Whether the part of the tester that limits has done clearly more at another load.
    fn has_reached(&self, load_pps: f64, limit: Option<Limit>) -> bool {
        self.trials.iter().any(|(load, trial)| {
            let done = if limit == Some(Limit::Receiver) { trial.delivered } else { trial.sent };
            load * done as f64 / trial.due().max(1) as f64 > load_pps * CLEARLY
        })
    }

    /// The highest load that is measured: the one asked for, on the grid, or the tester's limit.
    fn top_pps(&self) -> f64 {
        self.tester_limit().map_or(self.max_pps, |(pps, _)| pps.min(self.max_pps))
    }

    /// The loads so far, ascending.
    fn loads(&self) -> Vec<f64> {
        self.at.keys().map(|bits| f64::from_bits(*bits)).collect()
    }

    /// All trials so far, each with its load in frames per second in each direction.
    pub fn trials(&self) -> &[(f64, Trial)] {
        &self.trials
    }

    /// All trials, in order.
    pub fn into_trials(self) -> Vec<Trial> {
        self.trials.into_iter().map(|(_, trial)| trial).collect()
    }

    /// The rate delivered at the highest load that was measured (MRR), in frames per second: the mean of its
    /// trials.
    pub fn mrr_pps(&self) -> Option<f64> {
        let top_pps = self.top_pps();
        let delivered = |load: f64| -> Vec<f64> {
            self.at(load).map(|trial| load * (1.0 - trial.sustained_loss_ratio())).collect()
        };
        let loads = self.loads().into_iter().rev().filter(|load| *load <= top_pps);
        let delivered = loads.map(delivered).find(|delivered| !delivered.is_empty())?;
        Some(delivered.iter().sum::<f64>() / delivered.len() as f64)
    }

    /// The load to measure next, in frames per second; `None` at the end.
    ///
    /// Of the candidates of all goals the one with the fewest trials, and of several the smallest: a bound at
    /// a smaller load may end the search at the larger ones.
    pub fn next(&self) -> Option<f64> {
        if self.is_beyond(self.min_pps) {
            return None;
        }
        let top_pps = self.top_pps();
        if self.delivered_at(top_pps).is_none() {
            return Some(top_pps);
        }
        self.with_fewest_trials(self.goals.iter().filter_map(|goal| self.candidate(goal)))
    }

    fn with_fewest_trials(&self, loads: impl Iterator<Item = f64>) -> Option<f64> {
        let counted = loads.map(|load| (self.count(load), load));
        counted.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, load)| load)
    }

    /// The length of the next trial at a load, in s.
    pub fn trial_s(&self, load_pps: f64) -> f64 {
        let usual_s = self.goals.iter().map(|goal| goal.trial_s).fold(0.0, f64::max);
        let confirms = self.goals.iter().filter(|goal| goal.wants_confirmation(self.all_at(load_pps)));
        let usual_s = confirms.map(|goal| goal.confirm_s).fold(usual_s, f64::max);
        let here = || self.all_at(load_pps).filter(|trial| !trial.is_steady());
        let longest_s = here().map(|trial| trial.seconds).fold(usual_s, f64::max);
        let targets = self.goals.iter().flat_map(|goal| [goal.by_majority(), goal.halfway(), *goal]);
        let most_s = targets.filter(|target| target.wants_longer(here())).map(|target| target.longest_s());
        most_s.map(|most_s| most_s.min(longest_s * LONGER)).fold(longest_s, f64::max)
    }

    /// The bounds of a goal of this search.
    pub fn found(&self, goal: &Goal) -> Found {
        let (lower_pps, upper_pps) = self.bounds(goal, f64::INFINITY);
        let upper_pps = upper_pps.map(|load| load * self.running_share(goal, load));
        let at_most = |pps: f64| pps.min(upper_pps.unwrap_or(f64::INFINITY));
        let sent = |load: f64| load * goal.sent_share(self.all_at(load));
        let sustained = |load: f64| load * goal.sustained_share(self.all_at(load));
        let conditional = |load: f64| at_most(goal.conditional_pps(sent(load), self.all_at(load)));
        Found {
            lower_pps: lower_pps.map(|load| at_most(sent(load).min(sustained(load)))),
            load_pps: lower_pps,
            upper_pps,
            conditional_pps: lower_pps.map(conditional),
            done: lower_pps.is_some() && self.candidate(goal).is_none(),
            limited_by: self
                .tester_limit()
                .filter(|(top_pps, _)| lower_pps.is_some_and(|load| load >= *top_pps) && upper_pps.is_none())
                .map(|(_, limit)| limit),
        }
    }

    /// The share of a load at which trials of high loss were really sent while the generator ran: the
    /// largest.
    fn running_share(&self, goal: &Goal, load_pps: f64) -> f64 {
        let high = self.all_at(load_pps).filter(|trial| goal.is_low(trial) == Some(false));
        high.map(Trial::running_share).reduce(f64::max).unwrap_or(1.0)
    }

    /// The rate that the device under test delivers in the long run at a load, in frames per second, as far
    /// as the tester sent the load; `None` if no trial there shows it.
    fn delivered_at(&self, load_pps: f64) -> Option<f64> {
        let trial = self.all_at(load_pps).find(|trial| !self.is_limited(trial))?;
        let carried = trial.sent as f64 * (1.0 - trial.sustained_loss_ratio());
        Some(load_pps * carried / trial.due().max(1) as f64)
    }

    /// The number of trials at a load.
    fn count(&self, load_pps: f64) -> usize {
        self.at.get(&load_pps.to_bits()).map_or(0, Vec::len)
    }

    /// All trials at a load.
    fn all_at(&self, load_pps: f64) -> impl Iterator<Item = &Trial> + Clone {
        let at = self.at.get(&load_pps.to_bits()).into_iter().flatten();
        at.filter_map(|at| self.trials.get(*at)).map(|(_, trial)| trial)
    }

    /// The measurements of the device under test at a load.
    fn at(&self, load_pps: f64) -> impl Iterator<Item = &Trial> {
        self.all_at(load_pps).filter(|trial| trial.is_of_the_device())
    }

    /// The measured loads, ascending, with their classes for this target.
    fn judged(&self, target: &Goal) -> Vec<(f64, Bound)> {
        let may_refute = !self.loses_at_any_load(target);
        let judge = |load: f64| match may_refute {
            true => target.judge(self.all_at(load)),
            false => target.judge_unrefuted(self.all_at(load)),
        };
        self.loads().into_iter().map(|load| (load, judge(load))).collect()
    }

    /// Whether long trials lost too much at a load, and also at a lower load that was carried for long then.
    /// So the loss is not that of a load which is too high: long trials refute no load.
    fn loses_at_any_load(&self, target: &Goal) -> bool {
        let refuted = self.loads().into_iter().filter(|load| target.is_refuted(self.all_at(*load)));
        let refuted: Vec<f64> = refuted.collect();
        let carried = refuted.iter().map(|load| load * target.sustained_share(self.all_at(*load)));
        let most = carried.fold(0.0, f64::max);
        refuted.first().is_some_and(|lowest| *lowest <= most)
    }

    /// The relevant bounds for this target, of the loads up to one.
    fn bounds(&self, target: &Goal, up_to_pps: f64) -> (Option<f64>, Option<f64>) {
        let mut judged = self.judged(target);
        judged.retain(|(load, _)| *load <= up_to_pps);
        let upper = judged.iter().find(|(_, bound)| *bound == Bound::Upper).map(|(load, _)| *load);
        let below = judged.iter().rev().filter(|(load, _)| upper.is_none_or(|upper| *load < upper));
        let lower = below.clone().find(|(_, bound)| *bound == Bound::Lower).map(|(load, _)| *load);
        (lower, upper)
    }

    /// The next load for a goal; `None` if its bounds are decided, and as near as it asks.
    fn candidate(&self, goal: &Goal) -> Option<f64> {
        if let Some(begun) = self.begun(goal) {
            return Some(begun);
        }
        let top_pps = self.top_pps();
        match self.bounds(&goal.by_majority(), top_pps) {
            (lower, None) if lower.is_none_or(|lower| lower < top_pps) => Some(top_pps),
            (lower, Some(upper)) if upper > self.min_pps && goal.is_wide(lower, upper) => {
                Some(self.between(goal, lower, upper))
            }
            (lower, upper) => {
                let undecided = self.undecided(goal);
                let bounds = [lower, upper].into_iter().flatten().filter(|load| undecided.contains(load));
                self.with_fewest_trials(bounds)
            }
        }
    }

    /// A load with many trials, mostly of high loss, that do not decide it yet. It is decided first: the
    /// smallest upper bound counts, so the search must not go past one that chance hides.
    fn begun(&self, goal: &Goal) -> Option<f64> {
        let top_pps = self.top_pps();
        let (lower, upper) = self.bounds(goal, top_pps);
        let is_between = |load: f64| {
            load <= top_pps
                && lower.is_none_or(|lower| load > lower)
                && upper.is_none_or(|upper| load < upper)
        };
        let is_begun = |load: f64| {
            let tried_s: f64 = self.all_at(load).map(|trial| trial.seconds).sum();
            tried_s >= goal.halfway().sum_s && goal.by_majority().judge(self.all_at(load)) == Bound::Upper
        };
        let mut loads = self.undecided(goal);
        loads.retain(|load| is_between(*load) && is_begun(*load));
        loads.into_iter().max_by_key(|load| self.count(*load))
    }

    /// The loads that the trials so far do not decide for a goal, ascending.
    fn undecided(&self, goal: &Goal) -> Vec<f64> {
        let judged = self.judged(goal).into_iter().filter(|(_, bound)| *bound == Bound::Undecided);
        judged.map(|(load, _)| load).collect()
    }

    /// A load between two bounds that are too far apart: the neighbour of a bound that had to be tried
    /// several times, as the limit is near there; otherwise what the device seems to carry; otherwise the
    /// middle.
    fn between(&self, goal: &Goal, lower: Option<f64>, upper: f64) -> f64 {
        let width = self.goals.iter().map(|goal| goal.width).fold(MAX_WIDTH, f64::min);
        let delivered_pps = self.delivered_at(self.top_pps()).unwrap_or(0.0);
        let ladder = Ladder::new(delivered_pps.max(self.min_pps), width);
        let (bottom, top) = (ladder.rung(lower.unwrap_or(self.min_pps)), ladder.rung(upper));
        let middle = ((bottom + top) / 2.0).round();
        let tried = [lower.map_or(0, |lower| self.count(lower)), self.count(upper)];
        let rung = match self.guess(goal, upper).map(|(pps, most)| (ladder.rung(pps).floor(), most)) {
            _ if tried[0] > 1 && tried[0] >= tried[1] => (bottom + 1.0).floor(),
            _ if tried[1] > 1 => (top - 1.0).ceil(),
            Some((rung, _)) if lower.is_some() && rung == bottom => bottom + 1.0,
            Some((rung, drop)) if rung.min(top - drop) > bottom => rung.min((top - drop).floor()),
            _ => middle,
        };
        let is_inside = |load: &f64| lower.unwrap_or(self.min_pps) < *load && *load < upper;
        let mut loads = [rung, middle].into_iter().map(|rung| ladder.load_pps(rung));
        loads.find(is_inside).unwrap_or(self.min_pps)
    }

    /// The largest load at which a goal is met, if the device carries what it carried at the lowest upper
    /// bound (the forwarding rate there), or what is on the straight line through the lowest two. And how far
    /// down the next load is at least, in rungs: twice as far each time, for a device with no such line.
    fn guess(&self, goal: &Goal, upper: f64) -> Option<(f64, f64)> {
        let judged = self.judged(&goal.by_majority());
        let uppers = judged.iter().filter(|(load, bound)| *bound == Bound::Upper && *load >= upper);
        let carried = |load: f64| Some((load, self.delivered_at(load)?));
        let carried: Vec<_> = uppers.filter_map(|(load, _)| carried(*load)).collect();
        let (load, pps) = *carried.first()?;
        let slope = carried.get(1).map_or(0.0, |next| (next.1 - pps) / (next.0 - load));
        let guess = (pps - slope * load) / (1.0 - goal.loss_ratio - slope);
        let meets = slope < 1.0 - goal.loss_ratio && guess > 0.0 && guess < upper;
        meets.then(|| (guess, 2_f64.powi(carried.len() as i32 - 2)))
    }
}

/// The number of trials limited by the tester which show that a load is beyond the tester.
const LIMITED: usize = 2;
/// The same where the tester has done clearly more at another load: then something else disturbs it, as a
/// rule.
const DISTURBED: usize = 5;
/// How many times as long a trial is as the one before it at its load, in which queues grew.
const LONGER: f64 = 4.0;
/// The factor from which on a rate is clearly higher.
const CLEARLY: f64 = 1.25;
/// How far below the rate that the tester reached it is asked for the next time, as a share: it must not be
/// at its limit again.
const BELOW_LIMIT: f64 = 0.99;

/// The largest width of the steps of a search.
const MAX_WIDTH: f64 = 0.5;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Load, Testbed};
    use kpps_frames::Size;

    const LINE: f64 = 1_488_095.2;

    fn measure(system: &mut Known, offered_pps: f64) -> Trial {
        measure_for(system, offered_pps, 1.0)
    }

    fn measure_for(system: &mut Known, offered_pps: f64, seconds: f64) -> Trial {
        let duration_ms = (seconds * 1e3) as u32;
        let load = Load::of(offered_pps, Size::MIN).lasting_ms(0, duration_ms).with_seed(0);
        system.trial(&load).unwrap()
    }

    fn search(goals: &[Goal], system: &mut Known) -> Search {
        let mut search = Search::new(goals.to_vec(), 10_000.0, LINE);
        while let Some(load) = search.next() {
            search.add(load, measure_for(system, load, search.trial_s(load)));
            assert!(search.trials().len() < 1200, "it ends");
        }
        search
    }

    fn bisection(system: &mut Known) -> Bisection {
        let mut bisection = Bisection::new(&Goal::NDR, 10_000.0, LINE, None);
        while let Some(load) = bisection.next() {
            bisection.add(load, measure(system, load));
        }
        bisection
    }

    /// Both bounds are around `pps` and close.
    fn has_found(found: &Found, pps: f64, width: f64) -> bool {
        let (Some(lower), Some(upper)) = (found.lower_pps, found.upper_pps) else { return false };
        let near = (upper - lower) / upper <= width * 1.000_001;
        // Frames are whole: an excess of less than one frame loses none.
        lower <= pps + 1.0 && pps <= upper && near && found.done
    }

    #[test]
    fn a_quiet_system_is_found_by_both() {
        for ndr in [12_345.6, 700_000.0, 1_480_000.0] {
            let mut system = Known::quiet(ndr);
            let search = search(&[Goal::NDR, Goal::PDR], &mut system);
            assert!(
                has_found(&search.found(&Goal::NDR), ndr, 0.005),
                "{ndr}: {:?}",
                search.found(&Goal::NDR)
            );
            let pdr = ndr / 0.995;
            assert!(pdr > LINE || has_found(&search.found(&Goal::PDR), pdr, 0.005), "{ndr}");
            let lower = bisection(&mut system).lower_pps().unwrap();
            assert!(lower <= ndr + 1.0 && lower >= ndr * 0.99, "{ndr}: {lower}");
        }
    }

    #[test]
    fn noise_does_not_mislead_it_with_any_of_50_seeds_but_does_mislead_bisection() {
        let ndr = 700_000.0;
        let mut misled = 0;
        for seed in 0..50 {
            let search = search(&[Goal::NDR, Goal::PDR], &mut Known::noisy(ndr, seed));
            let found = search.found(&Goal::NDR);
            assert!(has_found(&found, ndr, 0.005), "seed {seed}: {found:?}");
            assert_eq!(found.conditional_pps, found.lower_pps);
            let partial = search.found(&Goal::PDR);
            assert!(partial.done && partial.lower_pps >= found.lower_pps, "seed {seed}: {partial:?}");
            let lower = bisection(&mut Known::noisy(ndr, seed)).lower_pps().unwrap_or(0.0);
            misled += u32::from(lower < ndr * (1.0 - 0.005));
        }
        // One of twenty trials is disturbed, and bisection never repeats a load.
        assert!((5..=35).contains(&misled), "{misled} of 50");
    }

    #[test]
    fn it_goes_on_from_the_trials_it_had() {
        let whole = search(&[Goal::NDR, Goal::PDR], &mut Known::noisy(5e5, 3));
        for cut in [0, 1, 7, whole.trials().len() / 2, whole.trials().len() - 1] {
            let mut again = Search::new(vec![Goal::NDR, Goal::PDR], 10_000.0, LINE);
            for (load, trial) in &whole.trials()[..cut] {
                again.add(*load, trial.clone().rounded());
            }
            assert_eq!(again.next(), Some(whole.trials()[cut].0), "also from trials as they are published");
        }
    }

    /// A tester before a system: it sends up to `sends_pps`, and takes in up to `takes_pps`.
    fn limited(system: &mut Known, load_pps: f64, sends_pps: f64, takes_pps: f64) -> Trial {
        let sent_pps = load_pps.min(sends_pps);
        let trial = measure(system, sent_pps);
        let shortfall = (load_pps - sent_pps) as u64;
        let overflow = trial.delivered.saturating_sub(takes_pps as u64);
        let counts = [trial.sent, shortfall, trial.delivered - overflow];
        Trial::new(load_pps, 1.0, counts, trial.ledger).unwrap().with_overflow(Some(overflow))
    }

    #[test]
    fn the_testers_limits_are_found_and_said_and_are_not_the_devices() {
        for (device_pps, sends_pps, takes_pps, limited_by) in [
            (700e3, 200e3, LINE, Some(Limit::Generator)),
            (700e3, LINE, 300e3, Some(Limit::Receiver)),
            (150e3, 200e3, LINE, None),
            (150e3, LINE, 300e3, None),
        ] {
            let mut system = Known::quiet(device_pps);
            let mut search = Search::new(vec![Goal::NDR], 1000.0, LINE);
            while let Some(load) = search.next() {
                search.add(load, limited(&mut system, load, sends_pps, takes_pps));
                assert!(search.trials().len() < 300, "it ends");
            }
            let found = search.found(&Goal::NDR);
            assert_eq!((found.limited_by, found.done), (limited_by, true), "{found:?}");
            let lower = found.lower_pps.unwrap();
            let truth = device_pps.min(sends_pps).min(takes_pps);
            assert!((0.97 * truth..=truth + 1.0).contains(&lower), "{lower} of {truth}");
        }
        // A generator that reaches nothing measures nothing, and the search ends.
        let mut search = Search::new(vec![Goal::NDR], 1000.0, LINE);
        while let Some(load) = search.next() {
            search.add(load, limited(&mut Known::quiet(7e5), load, 500.0, LINE));
            assert!(search.trials().len() < 30, "it ends");
        }
        assert_eq!(search.found(&Goal::NDR).lower_pps, None);
    }

    #[test]
    fn a_bisection_does_not_believe_what_was_never_sent() {
        let mut system = Known::quiet(7e5);
        let mut bisection = Bisection::new(&Goal::NDR, 1000.0, LINE, None);
        while let Some(load) = bisection.next() {
            bisection.add(load, limited(&mut system, load, 200e3, LINE));
        }
        let lower = bisection.lower_pps().unwrap();
        assert!((190e3..=201e3).contains(&lower), "{lower}");
    }

    /// The limit of a busy machine's generator varies, and no load near it is measured. The search finds the
    /// rate of a device that delivers a tenth of that all the same, and of a device that delivers less when
    /// it is overloaded.
    #[test]
    fn a_generator_whose_limit_varies_does_not_hide_a_slow_device() {
        for overloaded_share in [1.0, 0.1] {
            let mut system = Known::quiet(20e3);
            let mut search = Search::new(vec![Goal::NDR, Goal::PDR], 1000.0, LINE);
            let (mut sends_pps, mut beyond) = (250e3, 0);
            while let Some(load) = search.next() {
                sends_pps *= if load > 100e3 { 0.97 } else { 1.0 };
                beyond += u32::from(load > 100e3);
                let mut trial = limited(&mut system, load, sends_pps, LINE);
                if load > 30e3 {
                    trial.delivered = (trial.delivered as f64 * overloaded_share) as u64;
                }
                search.add(load, trial);
                assert!(beyond <= 4 && search.trials().len() < 200, "{beyond} trials beyond the generator");
            }
            let found = search.found(&Goal::NDR);
            assert!(has_found(&found, 20e3, 0.005) && found.limited_by.is_none(), "{found:?}");
            // Its loss of sent frames bounds it from above, so the search may pass loads between the two.
            let mrr_pps = search.mrr_pps().unwrap();
            let least = if overloaded_share < 1.0 { 1.9e3 } else { 19e3 };
            assert!((least..=20_001.0).contains(&mrr_pps), "{mrr_pps}");
        }
    }

    #[test]
    fn one_disturbed_trial_is_no_limit() {
        let mut system = Known::quiet(7e5);
        let mut search = Search::new(vec![Goal::NDR], 1000.0, LINE);
        let mut trials = 0;
        while let Some(load) = search.next() {
            trials += 1;
            // Every fifth time another program has the generator's CPU.
            let sends_pps = if trials % 5 == 0 { load * 0.8 } else { LINE };
            search.add(load, limited(&mut system, load, sends_pps, LINE));
            assert!(trials < 300, "it ends");
        }
        let found = search.found(&Goal::NDR);
        assert!(has_found(&found, 7e5, 0.005) && found.limited_by.is_none(), "{found:?}");
    }

    /// Another program that comes and goes is not taken for the generator's limit, if it sent more elsewhere.
    #[test]
    fn two_disturbed_trials_are_no_limit_below_what_the_generator_has_sent() {
        let mut system = Known::quiet(20e3);
        let mut search = Search::new(vec![Goal::NDR], 1000.0, LINE);
        while let Some(load) = search.next() {
            // The first two trials at each load.
            let disturbed = search.trials().iter().filter(|(at, _)| *at == load).count() < 2;
            let sends_pps = if disturbed { load * 0.99 } else { LINE };
            search.add(load, limited(&mut system, load, sends_pps.min(250e3), LINE));
            assert!(search.trials().len() < 300, "it ends");
        }
        let found = search.found(&Goal::NDR);
        assert!(has_found(&found, 20e3, 0.005) && found.limited_by.is_none(), "{found:?}");
    }

    /// Two long trials confirm a bound; the noise of one of them does not lower it by more than was lost.
    #[test]
    fn noise_does_not_mislead_a_search_that_confirms_its_bounds() {
        let ndr = 700_000.0;
        for seed in 0..50 {
            let goals = [Goal::NDR, Goal::PDR].map(Goal::confirmed);
            let search = search(&goals, &mut Known::noisy(ndr, seed));
            let found = search.found(&goals[0]);
            let load = Found { lower_pps: found.load_pps, ..found };
            assert!(has_found(&load, ndr, 0.005), "seed {seed}: {found:?}");
            assert!(found.lower_pps.unwrap() > found.load_pps.unwrap() * 0.9995, "seed {seed}: {found:?}");
            assert!(search.found(&goals[1]).done, "seed {seed}");
        }
    }

    /// Every long trial of a slow device meets outages that cost more than bounds may be apart, at any load.
    /// The search does not go down for that: what was carried for long bounds from below.
    #[test]
    fn outages_at_any_load_do_not_drive_a_search_down() {
        for pps in [5e3, 20e3, 200e3] {
            let goals = [Goal::NDR, Goal::PDR].map(Goal::confirmed);
            let mut search = Search::new(goals.to_vec(), 1000.0, LINE);
            // Every 5 s an outage of 200 ms, on the clock of the trials.
            let mut now = 0.0;
            while let Some(load) = search.next() {
                let seconds = search.trial_s(load);
                let outages = ((now + seconds) / 5.0_f64).floor() - (now / 5.0_f64).floor();
                now += seconds;
                let sent = (load * seconds).round();
                let carried = sent.min((pps * seconds).round()) - outages * 0.2 * load.min(pps);
                let counts = [sent as u64, 0, carried as u64];
                search
                    .add(load, Trial::new(load, seconds, counts, kpps_documents::Ledger::default()).unwrap());
                assert!(search.trials().len() < 300, "{pps}: it ends: {:?}", search.found(&goals[0]));
            }
            let found = search.found(&goals[0]);
            let (lower, upper) = (found.lower_pps.unwrap(), found.upper_pps.unwrap());
            assert!(found.done && lower <= pps + 1.0 && pps <= upper + 1.0, "{pps}: {found:?}");
            assert!(lower > 0.93 * pps && upper < 1.02 * pps, "{pps}: {found:?}");
        }
    }

    /// A bucket behind a tester with limits of its own: its long trials fall short, or it cannot count what
    /// its port missed.
    #[test]
    fn a_bucket_is_no_capacity_for_a_tester_with_limits() {
        for (short, unknown) in [(0.002, false), (0.0, true)] {
            let goal = Goal::NDR.confirmed();
            let mut search = Search::new(vec![goal], 1000.0, LINE);
            while let Some(load) = search.next() {
                let seconds = search.trial_s(load);
                let due = (load * seconds).round() as u64;
                let shortfall = if seconds > 2.0 { (due as f64 * short) as u64 } else { 0 };
                let sent = due - shortfall;
                let carried = sent.min((10_000.0 * seconds) as u64 + 600);
                let counts = [sent, shortfall, carried];
                let trial = Trial::new(load, seconds, counts, kpps_documents::Ledger::default()).unwrap();
                search.add(load, if unknown { trial.with_overflow(None) } else { trial });
                assert!(search.trials().len() < 300, "it ends");
            }
            let found = search.found(&goal);
            let lower = found.lower_pps.unwrap();
            assert!((9_500.0..=10_060.0).contains(&lower), "{short} {unknown}: {found:?}");
            assert!(found.upper_pps.is_none_or(|upper| upper >= 10_000.0), "{found:?}");
            assert!(found.conditional_pps <= found.upper_pps.or(Some(f64::INFINITY)), "{found:?}");
        }
    }

    /// A duration that is no whole number of milliseconds has trials that are.
    #[test]
    fn trials_of_odd_lengths_confirm() {
        for trial_s in [0.05, 0.05075, 0.01055, 0.3, 1.0] {
            let goal = Goal::NDR.with_trials_of((trial_s * 1e3_f64).round() / 1e3).confirmed();
            let mut search = Search::new(vec![goal], 1000.0, LINE);
            while let Some(load) = search.next() {
                let ms = (search.trial_s(load) * 1e3).round();
                search.add(load, measure_for(&mut Known::quiet(20e3), load, ms / 1e3));
                assert!(search.trials().len() < 100, "{trial_s}: it ends");
            }
            assert!(search.found(&goal).done, "{trial_s}");
        }
    }

    proptest::proptest! {
        /// The initial burst of a bucket passes at any rate and shows in no trial of a second. The search
        /// finds the sustained rate, plus the bucket's share of a long trial.
        #[test]
        fn a_bucket_is_no_capacity(pps in 2e3..200e3, holds in 0.0..0.03, paused in 0.0..0.02) {
            let bucket = (pps * holds) as u64;
            let goals = [Goal::NDR, Goal::PDR].map(Goal::confirmed);
            let mut search = Search::new(goals.to_vec(), 1000.0, LINE);
            while let Some(load) = search.next() {
                let seconds = search.trial_s(load);
                let due = (load * seconds).round() as u64;
                // In every other trial something else has the generator's CPU for a while.
                let paused = if search.trials().len().is_multiple_of(2) { paused } else { 0.0 };
                let not_sent = (due as f64 * paused) as u64;
                let sent = due - not_sent;
                let carried = sent.min((pps * seconds) as u64 + bucket);
                let trial = Trial::new(load, seconds, [sent, not_sent, carried], kpps_documents::Ledger::default());
                let disturbance = kpps_documents::Disturbance { frames: not_sent, pauses: 1, longest: None };
                search.add(load, trial.unwrap().with_disturbance(Some(disturbance), None));
                proptest::prop_assert!(search.trials().len() < 300, "it ends");
            }
            for goal in goals {
                let found = search.found(&goal);
                let truth = pps / (1.0 - goal.loss_ratio);
                // A long trial is within the goal up to here. A generator may send a thousandth too little.
                let passed = bucket as f64 / goal.longest_s() / (1.0 - goal.loss_ratio);
                let hidden = (truth + passed) / (1.0 - 0.001) - truth + 1.0;
                let (lower, upper) = (found.lower_pps.unwrap(), found.upper_pps.unwrap());
                proptest::prop_assert!(lower <= truth + hidden && truth <= upper + 1.0, "{truth}: {found:?}");
                proptest::prop_assert!(lower >= truth * 0.97 && upper <= truth * 1.03 + hidden, "{truth}: {found:?}");
                proptest::prop_assert!(found.done && found.limited_by.is_none(), "{found:?}");
            }
        }
    }

    /// A system that carries a rate, behind a queue that is empty at first.
    struct Buffered {
        pps: f64,
        room: u64,
    }

    impl Buffered {
        fn trial(&self, load_pps: f64, seconds: f64) -> Trial {
            let sent = (load_pps * seconds).round() as u64;
            let above = sent.saturating_sub((self.pps * seconds) as u64);
            let lost = above.saturating_sub(self.room);
            let trial =
                Trial::new(load_pps, seconds, [sent, 0, sent - lost], kpps_documents::Ledger::default());
            trial.unwrap().with_queue_growth(Some(above - lost))
        }
    }

    /// A long trial that lost little, and filled a queue, has found a load that is too high.
    #[test]
    fn a_long_trial_that_filled_a_queue_decides() {
        let system = Buffered { pps: 1e6 / 480.0, room: 150 };
        let goal = Goal { width: 0.05, ..Goal::NDR }.with_trials_of(0.3).confirmed();
        let mut search = Search::new(vec![goal], 1000.0, 30_000.0);
        while let Some(load) = search.next() {
            search.add(load, system.trial(load, search.trial_s(load)));
            assert!(search.trials().len() < 100, "it ends");
        }
        assert!(search.trials().iter().any(|(_, trial)| trial.seconds > 3.2 && trial.delivered < trial.sent));
        assert!(has_found(&search.found(&goal), system.pps, goal.width), "{:?}", search.found(&goal));
    }

    proptest::proptest! {
        /// Trials of 50 ms end long before such a queue is full. The search finds the sustained rate all the
        /// same.
        #[test]
        fn a_queue_is_no_capacity(
            pps in 20e3..1.4e6, room in 0_u64..1_000_000, width in 0.005..0.05, confirmed: bool,
        ) {
            let system = Buffered { pps, room };
            let goal = |goal: Goal| {
                let goal = Goal { width, ..goal }.with_trials_of(0.05);
                if confirmed { goal.confirmed() } else { goal }
            };
            let goals = [goal(Goal::NDR), goal(Goal::PDR)];
            let mut search = Search::new(goals.to_vec(), 10_000.0, LINE);
            while let Some(load) = search.next() {
                search.add(load, system.trial(load, search.trial_s(load)));
                let last = search.trials().last();
                proptest::prop_assert!(search.trials().len() < 300, "it ends: {last:?}");
            }
            for goal in goals {
                let found = search.found(&goal);
                let truth = pps / (1.0 - goal.loss_ratio);
                // Frames are whole: one in 50 ms are 20 in a second.
                let (lower, upper) = (found.lower_pps.unwrap(), found.upper_pps.unwrap_or(f64::INFINITY));
                proptest::prop_assert!(lower <= truth + 20.0 && truth <= upper + 20.0, "{truth}: {found:?}");
                // A long trial with a small loss lowers the bound below its load.
                let lower = if confirmed { found.load_pps.unwrap() } else { lower };
                let near = upper.is_infinite() || (upper - lower) / upper <= goal.width + 1e-6;
                proptest::prop_assert!(near && found.done, "{truth}: {found:?}");
            }
        }

        /// On a busy host almost every trial is disturbed: pauses cost frames, and around them the load is as
        /// requested. A device loses the frames above its rate then. Both bounds are true, and as close as
        /// the pauses allow.
        #[test]
        fn a_busy_host_does_not_hide_the_device(pps in 2e3..200e3, seed in 0_u64..1000) {
            let mut search = Search::new(vec![Goal::NDR, Goal::PDR], 1000.0, LINE);
            let mut random = seed;
            let mut most = 0.0_f64;
            while let Some(load) = search.next() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let paused = if random >> 61 == 0 { 0.0 } else { (random >> 40 & 0xff) as f64 / 255.0 * 0.02 };
                let due = load as u64;
                // The most that the generator sends, and the rest of it beside the others.
                let ran_pps = load.min(300e3);
                let sent = (ran_pps * (1.0 - paused)) as u64;
                let carried = sent.min((pps * (1.0 - paused)) as u64);
                let disturbed = ((due - sent) as f64 * if load > 300e3 { 0.1 } else { 1.0 }) as u64;
                let trial = Trial::new(load, 1.0, [sent, due - sent, carried], kpps_documents::Ledger::default());
                let disturbance = kpps_documents::Disturbance { frames: disturbed, pauses: 1, longest: None };
                search.add(load, trial.unwrap().with_disturbance(Some(disturbance), None));
                most = most.max(paused);
                proptest::prop_assert!(search.trials().len() < 300, "it ends");
            }
            let found = search.found(&Goal::NDR);
            let (lower, upper) = (found.lower_pps.unwrap(), found.upper_pps.unwrap());
            proptest::prop_assert!(lower <= pps + 1.0 && pps <= upper + 1.0, "{pps}: {found:?}");
            proptest::prop_assert!(lower >= pps * 0.97 && upper <= pps * 1.01, "{pps}: {found:?}");
            proptest::prop_assert!(found.done && found.limited_by.is_none());
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let whole = search(&[Goal::NDR], &mut Known::quiet(2e6));
        let found = whole.found(&Goal::NDR);
        assert_eq!((found.lower_pps, found.upper_pps, found.done), (Some(LINE), None, true));
        let none = search(&[Goal::NDR], &mut Known::quiet(100.0)).found(&Goal::NDR);
        assert_eq!((none.lower_pps, none.done), (None, false));
        assert_eq!(none.upper_pps, Some(10_000.0));
    }
}
