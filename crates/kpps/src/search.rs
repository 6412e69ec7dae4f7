//! Searches on a testbed, with every trial kept.

use crate::error::Failure;
use crate::interrupt;
use crate::journal::{Journal, Resume};
use crate::live;
use crate::points::use_sizes;
use crate::testbed::{Opened, Target};
use crate::units::{self, Rate};
use clap::Args;
use kpps_frames::{Mix, Size};
use kpps_live::{Progress, View};
use kpps_measure::rfc2544::Ask;
use kpps_measure::search::{Found, Goal, Measured, Search};
use kpps_measure::{Load, Testbed, Trial, point};
use kpps_results::ndr::{Ndr, SearchGoal, SearchTrial};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The range of a search.
#[derive(Args)]
pub struct Range {
    /// The lowest load to try
    #[arg(long, value_name = "LOAD", default_value = "1kpps")]
    min: Rate,
    /// The highest load to try
    #[arg(long, value_name = "LOAD", default_value = "100%")]
    max: Rate,
    /// Distance of the two bounds at which the search ends, as a share of the upper bound
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = units::share)]
    pub precision: f64,
    /// End a search after this much time under load
    #[arg(long, value_name = "TIME", default_value = "20min", value_parser = units::duration)]
    max_time: Duration,
    #[command(flatten)]
    pub resume: Resume,
}

impl Range {
    /// The lowest and the highest load, in frames per second.
    fn pps(&self, line_pps: f64, sizes: &Mix) -> Result<(f64, f64), Failure> {
        let pps = |rate: Rate| rate.pps(line_pps, sizes.mean_bytes_with_fcs());
        let (min_pps, max_pps) = (pps(self.min), pps(self.max).min(line_pps));
        if min_pps >= max_pps {
            return Err(Failure::Input(format!(
                "from {min_pps:.0} to {max_pps:.0} pps there is nothing to search"
            )));
        }
        Ok((min_pps, max_pps))
    }
}

/// A testbed whose trials are kept. What a file holds of an earlier run is not measured again: the same questions in the
/// same order get the same answers.
pub struct Bench {
    testbed: Box<dyn Testbed>,
    name: Vec<String>,
    environment: BTreeMap<String, String>,
    both_ways: bool,
    /// How frames differ from the usual ones.
    traffic: Option<String>,
    seed: u64,
    journal: Option<Journal<SearchTrial>>,
    /// What resets the system: a command for the shell.
    pub reset: Option<String>,
    /// How many trials of each name were asked for.
    asked: HashMap<String, usize>,
    progress: Progress,
    /// Shows the progress; gone with the bench.
    _view: View,
}

impl Bench {
    /// Sets a testbed up, opens the file, and shows from now on how it goes.
    pub fn open(command: &str, target: &Target, range: &Range, for_machines: bool) -> Result<Self, Failure> {
        let Opened { testbed, source, environment } = target.open()?;
        let journal = range.resume.open()?;
        let progress = Progress::of(format!("kpps {command}: {}", target.name().join(" and ")));
        Ok(Self {
            testbed,
            name: target.name(),
            environment,
            both_ways: target.pair.bidirectional,
            traffic: target.pair.unusual(),
            seed: target.seed,
            journal,
            reset: None,
            asked: HashMap::new(),
            _view: target.options.live.view(progress.clone(), source, for_machines)?,
            progress,
        })
    }

    /// Frames are of these sizes from now on. Returns the highest load in frames per second that the wire carries, and
    /// the size to ask for.
    pub fn sizes(&mut self, sizes: &Mix) -> Result<(f64, Size), Failure> {
        Ok(use_sizes(&mut *self.testbed, sizes)?)
    }

    /// One trial of a measurement of this name, of an earlier run if there is one.
    pub fn trial(&mut self, name: &str, sizes: &Mix, ask: Ask) -> Result<SearchTrial, Failure> {
        let traffic = self.traffic.as_ref().map(|traffic| format!(", {traffic}")).unwrap_or_default();
        // Another kernel, driver or setting is another system.
        let name = format!(
            "{:?} {sizes} B both ways: {}{traffic}, {name}, on {:?}",
            self.name, self.both_ways, self.environment
        );
        let number = self.asked.entry(name.clone()).or_default();
        let known = self.journal.as_ref().and_then(|journal| journal.of(&name).get(*number).cloned());
        *number += 1;
        if let Some(known) = known {
            return Ok(known);
        }
        let trial = self.measure(sizes, ask)?;
        if let Some(journal) = &mut self.journal {
            journal.keep(&name, &trial)?;
        }
        Ok(trial)
    }

    fn measure(&mut self, sizes: &Mix, ask: Ask) -> Result<SearchTrial, Failure> {
        let (_, size) = self.sizes(sizes)?;
        let load = |offered_pps: f64, seconds: f64| Load {
            offered_pps,
            size,
            warmup_ms: 50,
            duration_ms: (seconds * 1e3).round() as u32,
            seed: self.seed,
        };
        let go_on = || !interrupt::asked();
        let (load, words) = match ask {
            Ask::Rate(pps, seconds) => (load(pps, seconds), String::new()),
            Ask::Burst(pps, frames) => (load(pps, frames as f64 / pps), format!(", a burst of {frames}")),
            Ask::Recovery(pps, then_pps, seconds) => {
                (load(pps, seconds), format!(", then {:.1} kpps", then_pps / 1e3))
            }
            Ask::Reset(pps, seconds) => (load(pps, seconds), ", with a reset".into()),
        };
        let (pps, seconds) = (load.offered_pps, f64::from(load.duration_ms) / 1e3);
        self.progress.begins(in_words(sizes, Some(pps), seconds) + &*words, Some(pps));
        let mut recovered = None;
        let trial = match ask {
            Ask::Rate(..) => self.testbed.trial_while(&load, &go_on)?,
            Ask::Burst(_, frames) => self.testbed.burst_while(&load, frames, &go_on)?,
            Ask::Recovery(_, then_pps, _) => {
                let (trial, recovery_s) = self.testbed.recovery_while(&load, then_pps, &go_on)?;
                recovered = Some(recovery_s);
                trial
            }
            Ask::Reset(..) => {
                let command = self.reset.clone().unwrap_or_default();
                reset(&mut *self.testbed, &load, &command)?
            }
        };
        let point = point(&load, &trial).rounded();
        self.progress.ended(live::ended(&point));
        Ok(SearchTrial { recovery_s: recovered, ledger: point.ledger, cpu: point.cpu, ..kept(pps, &trial) })
    }

    /// Searches for goals by trials of a length. Returns what was found, whatever the end.
    pub fn search(
        &mut self,
        sizes: &Mix,
        goals: &[(&str, Goal)],
        range: &Range,
    ) -> Result<(Ndr, Result<(), Failure>), Failure> {
        let (line_pps, size) = self.sizes(sizes)?;
        let (min_pps, max_pps) = range.pps(line_pps, sizes)?;
        let trial_s = goals.iter().map(|(_, goal)| goal.trial_s).fold(0.0, f64::max);
        let name = format!("{min_pps} to {max_pps} pps, {} ms", (trial_s * 1e3).round());
        let mut search = Search::new(goals.iter().map(|(_, goal)| *goal).collect(), min_pps, max_pps);
        let mut trials: Vec<SearchTrial> = Vec::new();
        let time = |trials: &[SearchTrial]| trials.iter().map(|trial| trial.seconds).sum::<f64>();
        self.progress.begins("measuring what the generator can send", None);
        let ceiling_pps = self.testbed.ceiling_pps(size, &|| !interrupt::asked())?;
        let mut end = Ok(());
        while end.is_ok()
            && let Some(load_pps) = search.next()
        {
            if time(&trials) >= range.max_time.as_secs_f64() {
                end = Err(Failure::Check(format!("not found within {:.0} s of trials", time(&trials))));
                break;
            }
            end = self.trial(&name, sizes, Ask::Rate(load_pps, trial_s)).map(|trial| {
                search.add(measured(&trial));
                trials.push(trial);
            });
        }
        let at_most: Vec<_> = trials.iter().filter(|trial| trial.load_pps == search.max_pps()).collect();
        let delivered: f64 = at_most.iter().map(|trial| measured(trial).forwarding_pps()).sum();
        let goals = goals.iter().map(|(name, goal)| {
            let found = search.found(goal);
            SearchGoal {
                limited_by_sender: is_senders(&found, &trials),
                name: (*name).into(),
                loss_ratio: goal.loss_ratio,
                exceed_ratio: goal.exceed_ratio,
                width: goal.width,
                trial_s: goal.trial_s,
                sum_s: goal.sum_s,
                lower_pps: found.lower_pps.map(tenths),
                upper_pps: found.upper_pps.map(tenths),
                conditional_pps: found.conditional_pps.map(tenths),
                done: found.done,
            }
        });
        let goals: Vec<_> = goals.collect();
        let complete = goals.iter().all(|goal| goal.done);
        if end.is_ok() && !complete {
            let low = format!("the lowest load, {min_pps:.0} pps, is above what a goal allows");
            end = Err(Failure::Check(low));
        }
        if let Err(Failure::Interrupted(why)) = &mut end {
            *why = format!("interrupted: {} trials measured{}", trials.len(), range.resume.kept());
        }
        let found = Ndr {
            kpps_version: env!("CARGO_PKG_VERSION").into(),
            testbed: self.name.clone(),
            frame_bytes_with_fcs: sizes.mean_bytes_with_fcs().round() as u32,
            mix: kpps_measure::mix(sizes),
            traffic: self.traffic.clone(),
            both_ways: self.both_ways,
            min_pps: tenths(min_pps),
            max_pps: tenths(max_pps),
            ceiling_pps: ceiling_pps.map(tenths),
            environment: self.environment.clone(),
            goals,
            mrr_pps: (!at_most.is_empty()).then(|| tenths(delivered / at_most.len() as f64)),
            measured_s: (time(&trials) * 1e3).round() / 1e3,
            complete,
            trouble: trouble(&end),
            trials,
            ..Ndr::default()
        };
        Ok((found, end))
    }
}

/// Whether at least half of the frames that were missing between the bounds, and at the upper one, had not been sent.
fn is_senders(found: &Found, trials: &[SearchTrial]) -> bool {
    let above_lower = |pps: f64| found.lower_pps.is_none_or(|lower| pps > lower);
    let up_to_upper = |pps: f64| found.upper_pps.is_some_and(|upper| pps <= upper);
    let there = trials.iter().filter(|trial| above_lower(trial.load_pps) && up_to_upper(trial.load_pps));
    let (missing, unsent) = there.fold((0, 0), |(missing, unsent), trial| {
        let due = trial.sent + trial.unsent;
        (missing + due.saturating_sub(trial.delivered), unsent + trial.unsent)
    });
    unsent > 0 && 2 * unsent >= missing
}

/// A trial in the middle of which a command resets the system.
fn reset(testbed: &mut dyn Testbed, load: &Load, command: &str) -> Result<Trial, Failure> {
    let begin = Instant::now();
    let half = Duration::from_millis(load.duration_ms.into()) / 2;
    let running: RefCell<Option<std::io::Result<Child>>> = RefCell::default();
    let go_on = || {
        if begin.elapsed() >= half {
            let start = || Command::new("sh").args(["-c", command]).stdin(Stdio::null()).spawn();
            running.borrow_mut().get_or_insert_with(start);
        }
        !interrupt::asked()
    };
    let trial = testbed.trial_while(load, &go_on)?;
    let cannot = |why: &dyn std::fmt::Display| Failure::Check(format!("cannot reset by '{command}': {why}"));
    match running.into_inner().map(|child| child.and_then(|mut child| child.wait())) {
        Some(Ok(status)) if status.success() => Ok(trial),
        Some(Ok(status)) => Err(cannot(&status)),
        Some(Err(error)) => Err(cannot(&error)),
        None => Err(cannot(&"the trial was over before it could begin")),
    }
}

/// What failed; an interruption is no failure.
pub fn trouble(end: &Result<(), Failure>) -> Option<String> {
    end.as_ref().err().filter(|end| !matches!(end, Failure::Interrupted(_))).map(ToString::to_string)
}

/// What is kept of a trial, but for its ledger and the processors.
fn kept(load_pps: f64, trial: &Trial) -> SearchTrial {
    SearchTrial {
        load_pps,
        seconds: trial.seconds,
        sent: trial.sent,
        unsent: trial.unsent,
        delivered: trial.delivered,
        loss_ratio: trial.loss_ratio(),
        latency_ns: trial.latency.quantiles(),
        ..SearchTrial::default()
    }
}

/// A trial as a search sees it.
pub fn measured(trial: &SearchTrial) -> Measured {
    Measured { load_pps: trial.load_pps, seconds: trial.seconds, loss_ratio: trial.loss_ratio }
}

/// A rate as it is published.
pub fn tenths(pps: f64) -> f64 {
    (pps * 10.0).round() / 10.0
}

/// A trial in words, before it has begun.
pub fn in_words(sizes: &Mix, offered_pps: Option<f64>, seconds: f64) -> String {
    let load = offered_pps.map_or("the highest load".into(), |pps| format!("{:.1} kpps", pps / 1e3));
    format!("{sizes} B: {load} for {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_the_senders_if_most_of_what_is_missing_there_was_never_sent() {
        let found =
            Found { lower_pps: Some(100.0), upper_pps: Some(110.0), conditional_pps: None, done: true };
        // What was due is 1000 frames each time.
        let trial = |load_pps, unsent, lost| SearchTrial {
            load_pps,
            sent: 1000 - unsent,
            unsent,
            delivered: 1000 - unsent - lost,
            ..SearchTrial::default()
        };
        let far = [trial(200.0, 500, 0), trial(90.0, 5, 0)];
        let senders = |near: &[SearchTrial]| is_senders(&found, &[&far[..], near].concat());
        assert!(!senders(&[]), "neither above the bound nor below it");
        assert!(senders(&[trial(110.0, 30, 0)]));
        assert!(senders(&[trial(110.0, 30, 30)]));
        assert!(!senders(&[trial(110.0, 30, 31)]));
        assert!(!senders(&[trial(105.0, 0, 9)]));
    }
}
