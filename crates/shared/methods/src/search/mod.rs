//! Searches for the highest load that is delivered: multiple loss ratios at once, and plain bisection.
//!
//! A search is a function of the trials so far: it returns the next load, and the bounds found. It depends on
//! no testbed and no clock, and continues from trials of an earlier run.
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
mod goal;
mod known;

pub use bisection::Bisection;
pub use goal::{Bound, Goal};
pub use known::Known;

use goal::LEVELS;
use kpps_documents::{Limit, Trial};

/// A search for several goals, with trials of one length and longer ones that confirm.
#[derive(Clone, Debug)]
pub struct Search {
    goals: Vec<Goal>,
    min_pps: f64,
    max_pps: f64,
    /// The trials, each with its load in frames per second in each direction.
    trials: Vec<(f64, Trial)>,
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
        Self { goals, min_pps, max_pps, trials: Vec::new() }
    }

    /// Takes a trial at this load into account.
    pub fn add(&mut self, load_pps: f64, trial: Trial) {
        self.trials.push((load_pps, trial));
    }

    /// The highest load that the tester can measure, in frames per second, and the part that limits it;
    /// `None` if no load was beyond it.
    pub fn tester_limit(&self) -> Option<(f64, Limit)> {
        let reached = |load: f64| {
            let here = self.trials.iter().filter(|(at, _)| *at == load);
            let limits = here.filter_map(|(_, trial)| Some((1.0 - trial.tester_ratio(), trial.limit()?)));
            let (share, limit) = limits.max_by(|a, b| a.0.total_cmp(&b.0))?;
            Some((grid(load * share * BELOW_LIMIT, f64::floor).max(self.min_pps), limit))
        };
        let beyond = self.loads().into_iter().filter(|load| self.is_beyond(*load));
        beyond.filter_map(reached).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Whether the tester cannot measure at this load.
    fn is_beyond(&self, load_pps: f64) -> bool {
        let here = self.trials.iter().filter(|(load, _)| *load == load_pps).map(|(_, trial)| trial);
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
        let mut loads: Vec<f64> = self.trials.iter().map(|(load, _)| *load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        loads
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
    /// All goals reach a level before the next one begins; of several candidates the smallest is first.
    pub fn next(&self) -> Option<f64> {
        let top_pps = self.top_pps();
        if self.is_beyond(self.min_pps) {
            return None;
        }
        if self.delivered_at(top_pps).is_none() {
            return Some(top_pps);
        }
        (0..LEVELS).find_map(|level| {
            let candidates = self.goals.iter().filter_map(|goal| self.candidate(goal, level));
            candidates.min_by(f64::total_cmp).map(|load| load.min(top_pps))
        })
    }

    /// The length of the next trial at a load, in s.
    pub fn trial_s(&self, load_pps: f64) -> f64 {
        let usual_s = self.goals.iter().map(|goal| goal.trial_s).fold(0.0, f64::max);
        let confirms = self.goals.iter().filter(|goal| goal.wants_confirmation(self.all_at(load_pps)));
        let usual_s = confirms.map(|goal| goal.confirm_s).fold(usual_s, f64::max);
        let here = || self.all_at(load_pps).filter(|trial| !trial.is_steady());
        let longest_s = here().map(|trial| trial.seconds).fold(usual_s, f64::max);
        let targets = self.goals.iter().flat_map(|goal| (0..LEVELS).map(|level| goal.target(level)));
        let most_s = targets.filter(|target| target.wants_longer(here())).map(|target| target.longest_s());
        most_s.map(|most_s| most_s.min(longest_s * LONGER)).fold(longest_s, f64::max)
    }

    /// The bounds of a goal of this search.
    pub fn found(&self, goal: &Goal) -> Found {
        let (lower_pps, upper_pps) = self.bounds(goal);
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
            done: lower_pps.is_some() && self.candidate(goal, LEVELS - 1).is_none(),
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

    /// All trials at a load.
    fn all_at(&self, load_pps: f64) -> impl Iterator<Item = &Trial> + Clone {
        self.trials.iter().filter(move |(load, _)| *load == load_pps).map(|(_, trial)| trial)
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

    fn bounds(&self, target: &Goal) -> (Option<f64>, Option<f64>) {
        let judged = self.judged(target);
        let upper = judged.iter().find(|(_, bound)| *bound == Bound::Upper).map(|(load, _)| *load);
        let below = judged.iter().rev().filter(|(load, _)| upper.is_none_or(|upper| *load < upper));
        let lower = below.clone().find(|(_, bound)| *bound == Bound::Lower).map(|(load, _)| *load);
        (lower, upper)
    }

    /// The bounds of an earlier level, where this level begins.
    fn hints(&self, goal: &Goal, level: u32) -> (Option<f64>, Option<f64>) {
        if level > 0 {
            return self.bounds(&goal.target(level - 1));
        }
        let top_pps = self.top_pps();
        let Some(forwarding_pps) = self.delivered_at(top_pps) else { return (None, None) };
        let upper = (forwarding_pps / (1.0 - goal.loss_ratio)).clamp(self.min_pps, top_pps);
        let lower = (upper * (1.0 - goal.target(0).width)).max(self.min_pps);
        (Some(grid(lower, f64::round)), Some(grid(upper, f64::round)))
    }

    /// The next load for a goal at this level.
    fn candidate(&self, goal: &Goal, level: u32) -> Option<f64> {
        let target = goal.target(level);
        let (lower, upper) = self.bounds(&target);
        let (low_hint, high_hint) = self.hints(goal, level);
        let top_pps = self.top_pps();
        match (lower, upper) {
            // The goal is met at all loads, or at none.
            (Some(lower), _) if lower >= top_pps => None,
            (_, Some(upper)) if upper <= self.min_pps => None,
            (Some(lower), Some(upper)) => {
                // Rounding may have moved a bound.
                let near = (upper - lower) / upper <= target.width * (1.0 + 1e-9);
                (!near).then(|| self.between(&target, lower, upper))
            }
            (None, Some(upper)) => match low_hint {
                Some(hint) if hint < upper => Some(hint),
                _ => Some(self.below(&target, upper)),
            },
            (Some(lower), None) => match high_hint {
                Some(hint) if hint > lower => Some(hint),
                _ => Some(self.above(&target, lower)),
            },
            (None, None) => Some(high_hint.or(low_hint).unwrap_or(top_pps)),
        }
    }

    /// A load that halves the distance of the bounds, as a ratio; a load that was measured already if that is
    /// near.
    fn between(&self, target: &Goal, lower: f64, upper: f64) -> f64 {
        let middle = grid((lower * upper).sqrt(), f64::round);
        let far = |load: f64| (load / middle).ln().abs();
        let near = (upper / lower).ln() / 4.0;
        let undecided = self.judged(target).into_iter().filter(|(load, bound)| {
            *bound == Bound::Undecided && *load > lower && *load < upper && far(*load) < near
        });
        undecided.map(|(load, _)| load).min_by(|a, b| far(*a).total_cmp(&far(*b))).unwrap_or(middle)
    }

    /// A load below all upper bounds, twice as far from the smallest as that is from the next.
    fn below(&self, target: &Goal, upper: f64) -> f64 {
        let judged = self.judged(target);
        let next = judged.iter().find(|(load, bound)| *bound == Bound::Upper && *load > upper);
        let step = next.map_or(1.0, |(load, _)| load / upper).max(1.0 / (1.0 - target.width));
        grid(upper / (step * step), f64::round).max(self.min_pps)
    }

    /// The same above all lower bounds.
    fn above(&self, target: &Goal, lower: f64) -> f64 {
        let judged = self.judged(target);
        let next = judged.iter().rev().find(|(load, bound)| *bound == Bound::Lower && *load < lower);
        let step = next.map_or(1.0, |(load, _)| lower / load).max(1.0 / (1.0 - target.width));
        grid(lower * step * step, f64::round).min(self.top_pps())
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

/// Rounds a load to 12 digits, so that writing and reading it does not change it.
fn grid(pps: f64, to_whole: fn(f64) -> f64) -> f64 {
    let scale = 10_f64.powi(11 - pps.max(1e-9).log10().floor() as i32);
    to_whole(pps * scale) / scale
}

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
        assert_eq!(
            [1e7 / 3.0, 0.1, 1e9 + 0.01].map(|x| grid(x, f64::floor)),
            [3_333_333.333_33, 0.1, 1e9 + 0.01]
        );
        let none = search(&[Goal::NDR], &mut Known::quiet(100.0)).found(&Goal::NDR);
        assert_eq!((none.lower_pps, none.done), (None, false));
        assert_eq!(none.upper_pps, Some(10_000.0));
    }
}
