//! Searches for NDR and PDR on a testbed, at one frame size or at several.

use crate::error::Error;
use crate::points::mix;
use crate::runner::{Pattern, Runner};
use crate::search::{Bisection, Goal, Search};
use crate::trial::AllowedLoad;
use crate::units::{self, RateSpec};
use kpps_documents::ndr::{Ndr, PlainBisection, SearchGoal};
use kpps_documents::rfc2544::Sizes;
use kpps_documents::{Limit, Trial};
use kpps_frames::Mix;
use std::time::{Duration, Instant};

/// The range of a search, and its end conditions.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The lowest load to try.
    pub min: RateSpec,
    /// The highest load to try.
    pub max: RateSpec,
    /// Distance of the two bounds at which the search ends, as a share of the upper one.
    pub precision: f64,
    /// The longest time that a search may take, on the clock of this host.
    pub max_time: Duration,
}

impl Range {
    /// The lowest and the highest load in frames per second.
    fn pps(&self, line_pps: f64, sizes: &Mix) -> Result<(f64, f64), Error> {
        units::between(self.min, self.max, line_pps, sizes.mean_bytes_with_fcs()).map_err(Error::Input)
    }

    /// The same as far as operators allow it, and the port whose limit is lower than the highest load.
    fn allowed(
        &self,
        allowed: Option<AllowedLoad>,
        line_pps: f64,
        sizes: &Mix,
    ) -> Result<(f64, f64, Option<String>), Error> {
        let (min_pps, max_pps) = self.pps(line_pps, sizes)?;
        match allowed.filter(|allowed| allowed.pps < max_pps) {
            Some(AllowedLoad { pps, port }) if pps < min_pps => Err(Error::Input(format!(
                "the search begins at {:.1} kpps, and the operator of {port} allows {:.1} kpps: begin at a lower load",
                min_pps / 1e3,
                pps / 1e3
            ))),
            Some(AllowedLoad { pps, port }) => Ok((min_pps, pps, Some(port))),
            None => Ok((min_pps, max_pps, None)),
        }
    }

    /// Refuses sizes that the testbed cannot send, and those at which the range is empty: before the first
    /// trial, so that no result is lost.
    ///
    /// # Errors
    /// [`Error::Input`].
    pub(crate) fn check(&self, runner: &mut Runner<'_>, all: &[Mix]) -> Result<(), Error> {
        all.iter().try_for_each(|sizes| {
            let line_pps = runner.line_rate_pps(sizes)?;
            self.allowed(runner.allowed(), line_pps, sizes).map(drop)
        })
    }

    /// The goals NDR and PDR, with trials of this length; a PDR allows this loss ratio.
    pub fn goals(&self, trial: Duration, pdr_loss: f64) -> [(&'static str, Goal); 2] {
        // Trials last whole milliseconds.
        let trial_s = (trial.as_secs_f64() * 1e3).round().max(1.0) / 1e3;
        let goal = Goal { width: self.precision, ..Goal::NDR }.with_trials_of(trial_s);
        [("NDR", goal), ("PDR", Goal { loss_ratio: pdr_loss, ..goal })]
    }
}

/// Searches for goals. Returns the result, and the error that ended the search early, if any.
///
/// # Errors
/// [`Error::Input`] if the search cannot begin.
pub fn search(
    runner: &mut Runner<'_>,
    sizes: &Mix,
    goals: &[(&str, Goal)],
    range: &Range,
) -> Result<(Ndr, Result<(), Error>), Error> {
    let line_pps = runner.line_rate_pps(sizes)?;
    let (min_pps, max_pps, allowed_by) = range.allowed(runner.allowed(), line_pps, sizes)?;
    let trial_s = goals.iter().map(|(_, goal)| goal.trial_s).fold(0.0, f64::max);
    let name = format!("{min_pps} to {max_pps} pps, {} ms", (trial_s * 1e3).round());
    // No bound can be confirmed if an operator does not allow so long a trial.
    let confirmed = |goal: Goal| match goal.confirmed() {
        confirmed if !runner.shows_all_queues() && runner.allows(confirmed.confirm_s) => confirmed,
        _ => goal,
    };
    let goals: Vec<_> = goals.iter().map(|(name, goal)| (*name, confirmed(*goal))).collect();
    let mut search = Search::new(goals.iter().map(|(_, goal)| *goal).collect(), min_pps, max_pps);
    let time = |search: &Search| search.trials().iter().map(|(_, trial)| trial.seconds).sum::<f64>();
    let begun = Instant::now();
    let mut end = Ok(());
    while end.is_ok()
        && let Some(load_pps) = search.next()
    {
        if begun.elapsed() >= range.max_time {
            let why = disturbed(&search).map_or(String::new(), |why| format!("; {why}"));
            end = Err(too_short(&format!("not all goals were reached{why}"), range.max_time));
            break;
        }
        end = runner
            .trial(&name, sizes, Pattern::Rate(load_pps, search.trial_s(load_pps)))
            .map(|trial| search.add(load_pps, trial));
    }
    let goals = goals.into_iter().map(|(name, goal)| {
        let found = search.found(&goal);
        // All that is allowed was measured, and met the goal.
        let is_met = found.done && found.upper_pps.is_none();
        let operator = allowed_by.as_ref().filter(|_| is_met).map(|_| Limit::Operator);
        SearchGoal {
            limited_by: found.limited_by.or(operator),
            name: name.into(),
            loss_ratio: goal.loss_ratio,
            exceed_ratio: goal.exceed_ratio,
            width: goal.width,
            trial_s: goal.trial_s,
            sum_s: goal.sum_s,
            lower_pps: found.lower_pps.map(tenths),
            lower_load_pps: found.load_pps.filter(|load| found.lower_pps != Some(*load)).map(tenths),
            upper_pps: found.upper_pps.map(tenths),
            conditional_pps: found.conditional_pps.map(tenths),
            done: found.done,
        }
    });
    let goals: Vec<_> = goals.collect();
    let complete = goals.iter().all(|goal| goal.done);
    if end.is_ok() && !complete {
        let why = match search.tester_limit() {
            Some((_, limit))
                if goals.iter().all(|goal| goal.lower_pps.is_none() && goal.upper_pps.is_none()) =>
            {
                format!(
                    "the tester cannot measure at the lowest load, {min_pps:.0} pps ({}): begin at a lower load",
                    limit.words()
                )
            }
            _ => {
                format!(
                    "the loss at the lowest load, {min_pps:.0} pps, is above a goal: begin at a lower load"
                )
            }
        };
        end = Err(Error::Failed(why));
    }
    let subject = &runner.subject;
    let found = Ndr {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        testbed: subject.name.clone(),
        frame_bytes_with_fcs: sizes.mean_bytes_with_fcs().round() as u32,
        mix: mix(sizes),
        traffic: subject.traffic.clone(),
        bidirectional: subject.bidirectional,
        min_pps: tenths(min_pps),
        max_pps: tenths(max_pps),
        max_allowed_by: allowed_by.clone(),
        ceiling_pps: search.tester_limit().map(|(pps, _)| tenths(pps)),
        environment: subject.environment.clone(),
        goals,
        mrr_pps: search.mrr_pps().map(tenths),
        // Adding 0.0 turns -0.0, the sum of nothing, into 0.0.
        measured_s: (time(&search) * 1e3).round() / 1e3 + 0.0,
        complete,
        trouble: end.as_ref().err().and_then(Error::published),
        trials: search.into_trials(),
        ..Ndr::default()
    };
    Ok((found, end))
}

/// How many trials something disturbed, if it was most of them, in words.
fn disturbed(search: &Search) -> Option<String> {
    let all = search.trials();
    let disturbed = all.iter().filter(|(_, trial)| trial.is_disturbed()).count();
    (2 * disturbed > all.len())
        .then(|| format!("the generator lost its CPU in {disturbed} of {} trials", all.len()))
}

/// A plain bisection over the range of a search, for one goal, for at most this time; `document` gets it.
///
/// # Errors
/// Errors of a trial, or the time was too short. The document has the results so far.
pub fn bisect(
    runner: &mut Runner<'_>,
    sizes: &Mix,
    goal: &Goal,
    max_time: Duration,
    document: &mut Ndr,
) -> Result<(), Error> {
    let begun = Instant::now();
    let (min_pps, max_pps) = (document.min_pps, document.ceiling_pps.unwrap_or(document.max_pps));
    let mut bisection = Bisection::new(goal, min_pps, max_pps, document.limited_by());
    let name = format!("bisection, {min_pps} to {max_pps} pps, {} ms", goal.trial_s * 1e3);
    let mut end = Ok(());
    while end.is_ok()
        && let Some(load_pps) = bisection.next()
    {
        if begun.elapsed() >= max_time {
            end = Err(too_short("the bisection did not end", max_time));
            break;
        }
        let trial = of_the_device(|| runner.trial(&name, sizes, Pattern::Rate(load_pps, goal.trial_s)));
        end = trial.map(|trial| bisection.add(load_pps, trial));
    }
    let (lower_pps, limited_by) = (bisection.lower_pps().map(tenths), bisection.limited_by());
    document.bisection = Some(PlainBisection { lower_pps, limited_by, trials: bisection.into_trials() });
    document.trouble = end.as_ref().err().and_then(Error::published);
    end
}

fn too_short(what: &str, max_time: Duration) -> Error {
    Error::Failed(format!("{what}: allow the search more than {:.0} s", max_time.as_secs_f64()))
}

/// Trials of a load that are tried until one is limited by the device and not by the tester.
const TRIES: usize = 3;

/// The first of some trials in which the tester was not the limit; otherwise the last.
pub(crate) fn of_the_device(mut trial: impl FnMut() -> Result<Trial, Error>) -> Result<Trial, Error> {
    for _ in 1..TRIES {
        let trial = trial()?;
        if trial.is_of_the_device() {
            return Ok(trial);
        }
    }
    trial()
}

/// The same search at each of several sizes. A size at which no goal is met is a result, and the next one
/// follows.
///
/// # Errors
/// [`Error::Input`] if a search cannot begin.
pub fn sizes(
    runner: &mut Runner<'_>,
    all: &[Mix],
    goals: &[(&str, Goal)],
    range: &Range,
) -> Result<(Sizes, Result<(), Error>), Error> {
    range.check(runner, all)?;
    let mut document = Sizes { kpps_version: env!("CARGO_PKG_VERSION").into(), ..Sizes::default() };
    let mut end = Ok(());
    for sizes in all {
        let (found, ended) = search(runner, sizes, goals, range)?;
        document.sizes.push(found);
        match ended {
            Err(Error::Failed(_)) | Ok(()) if runner.goes_on() => {}
            stopped => {
                end = stopped;
                break;
            }
        }
    }
    let finished = document.sizes.iter().filter(|search| search.complete).count();
    document.complete = finished == all.len();
    let first = document.sizes.iter().find_map(|search| search.trouble.clone());
    if let (Ok(()), Some(why)) = (&end, first) {
        end = Err(Error::Failed(format!("only {finished} of {} sizes have a result: {why}", all.len())));
    }
    Ok((document, end))
}

/// A rate as it is published, to 0.1 frames per second.
pub fn tenths(pps: f64) -> f64 {
    (pps * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::runner::Subject;
    use crate::trial::{Load, Testbed, TrialError};
    use kpps_documents::Ledger;
    use kpps_frames::Size;

    /// A generator that sends up to 200 kpps, before a device that loses nothing.
    #[derive(Default)]
    struct Weak {
        allowed_pps: Option<f64>,
        longest: Option<Duration>,
    }

    impl Testbed for Weak {
        fn allowed(&self) -> Option<AllowedLoad> {
            Some(AllowedLoad { pps: self.allowed_pps?, port: "h1/packet:eth1".into() })
        }
        fn longest_trial(&self) -> Option<Duration> {
            self.longest
        }
        fn line_rate_pps(&self, _: &Mix) -> Result<f64, TrialError> {
            Ok(1.4e6)
        }
        fn trial_while(&mut self, load: &Load, _: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
            let (offered_pps, seconds) = (load.rate.pps_of(1.4e6), load.seconds());
            assert!(self.allowed_pps.is_none_or(|pps| offered_pps <= pps), "not allowed");
            let is_allowed = |longest: Duration| load.duration <= longest;
            assert!(self.longest.is_none_or(is_allowed), "{seconds} s are not allowed");
            let of = |pps: f64| (pps * seconds) as u64;
            let (due, sent) = (of(offered_pps), of(offered_pps.min(2e5)));
            let trial = Trial::new(offered_pps, seconds, [sent, due - sent, sent], Ledger::default());
            Ok(trial.unwrap())
        }
    }

    fn runner_of(testbed: Weak) -> Runner<'static> {
        Runner::new(Box::new(testbed), Subject::default(), None, &|| true, &())
    }

    fn runner() -> Runner<'static> {
        runner_of(Weak::default())
    }

    const RANGE: Range = Range {
        min: RateSpec::Pps(1e4),
        max: RateSpec::Pps(1e6),
        precision: 0.01,
        max_time: Duration::from_secs(60),
    };

    /// A long trial confirms a bound only where the operator allows one.
    #[test]
    fn an_operators_limit_on_the_duration_is_kept() {
        for (longest_s, long_trials) in [(5, 0), (60, 1)] {
            let weak = Weak { allowed_pps: Some(5e4), longest: Some(Duration::from_secs(longest_s)) };
            let mut runner = runner_of(weak);
            let goals = [("NDR", Goal::NDR)];
            let (found, end) = search(&mut runner, &Mix::fixed(Size::MIN), &goals, &RANGE).unwrap();
            assert!(end.is_ok() && found.complete, "{end:?}");
            let long = found.trials.iter().filter(|trial| trial.seconds > 1.0).count();
            assert_eq!(long, long_trials, "up to {longest_s} s");
        }
    }

    /// The search goes up to the permitted load, and says whose limit that is.
    #[test]
    fn an_operators_limit_is_the_highest_load() {
        let of = |allowed_pps| {
            let mut runner = runner_of(Weak { allowed_pps: Some(allowed_pps), longest: None });
            search(&mut runner, &Mix::fixed(Size::MIN), &[("NDR", Goal::NDR)], &RANGE)
        };
        let (document, end) = of(5e4).unwrap();
        assert!(end.is_ok() && document.complete, "{document:?}");
        let goal = &document.goals[0];
        assert_eq!((goal.lower_pps, goal.upper_pps), (Some(5e4), None));
        assert_eq!((goal.limited_by, document.max_pps), (Some(Limit::Operator), 5e4));
        assert_eq!(document.max_allowed_by.as_deref(), Some("h1/packet:eth1"));
        // A limit above the generator's, and above the requested load, is none.
        let (document, _) = of(5e5).unwrap();
        assert_eq!(document.goals[0].limited_by, Some(Limit::Generator));
        let (document, _) = of(2e6).unwrap();
        assert_eq!((document.max_allowed_by, document.max_pps), (None, 1e6));
        // One below the lowest load is an error, before anything is sent.
        let said = of(5e3).err().unwrap().to_string();
        assert!(said.contains("operator of h1/packet:eth1 allows 5.0 kpps"), "{said}");
    }

    fn found(min: f64) -> (Ndr, Result<(), Error>) {
        let max_time = Duration::from_secs(60);
        let range = Range { min: RateSpec::Pps(min), max: RateSpec::Pps(1e6), precision: 0.01, max_time };
        search(&mut runner(), &Mix::fixed(Size::MIN), &[("NDR", Goal::NDR)], &range).unwrap()
    }

    fn bisected(document: &mut Ndr, max_time: Duration) -> Result<(), Error> {
        bisect(&mut runner(), &Mix::fixed(Size::MIN), &Goal::NDR, max_time, document)
    }

    #[test]
    fn a_bisection_ends_at_its_time() {
        let mut document = Ndr { min_pps: 1e4, max_pps: 1e6, ..Ndr::default() };
        let end = bisected(&mut document, Duration::ZERO);
        assert!(end.unwrap_err().to_string().contains("did not end: allow the search more than 0 s"));
        assert!(document.bisection.is_some_and(|plain| plain.trials.is_empty()));
    }

    #[test]
    fn a_generator_that_cannot_send_the_lowest_load_is_named() {
        let (document, end) = found(5e5);
        let said = end.unwrap_err().to_string();
        assert!(
            said.starts_with("the tester cannot measure at the lowest load, 500000 pps (the gen"),
            "{said}"
        );
        assert!(!document.complete);
    }

    #[test]
    fn a_bisection_that_ends_at_the_tester_says_so() {
        let (mut document, end) = found(1e4);
        assert!(end.is_ok() && document.goals[0].limited_by == Some(Limit::Generator), "{document:?}");
        bisected(&mut document, Duration::from_secs(60)).unwrap();
        let plain = document.bisection.unwrap();
        assert_eq!((plain.lower_pps, plain.limited_by), (document.ceiling_pps, Some(Limit::Generator)));
        // The same without a search before it, which knows the ceiling.
        let mut document = Ndr { min_pps: 1e4, max_pps: 1e6, ..Ndr::default() };
        bisected(&mut document, Duration::from_secs(60)).unwrap();
        let plain = document.bisection.unwrap();
        assert_eq!(plain.limited_by, Some(Limit::Generator));
        assert!((1.9e5..=2.01e5).contains(&plain.lower_pps.unwrap()));
    }
}
