//! All tests of RFC 2544 on a testbed.

use super::procedures::{corrected_buffer_s, frame_loss, longest_burst, mean};
use crate::error::Error;
use crate::ndr::{Range, of_the_device, search, tenths};
use crate::runner::{Pattern, Runner};
use crate::search::Goal;
use kpps_documents::Latency;
use kpps_documents::Trial;
use kpps_documents::rfc2544::{BackToBack, LatencyAt, Rfc2544, SizeTests, Times};
use kpps_frames::Mix;
use std::str::FromStr;

/// Loads at which latency is measured, over the throughput.
const SHARES: [f64; 4] = [0.1, 0.5, 0.9, 1.0];
/// The longest burst, in s (RFC 2544, 26.4: at least 2 s).
const BURST_S: f64 = 2.0;
/// How often a burst is repeated that the generator could not send completely, as other programs may have
/// used its CPU: long bursts, which take time, and short ones.
const BURST_TRIES: (u64, u64) = (3, 30);
/// Overload over the throughput, and the lowered load over the overload (26.5).
const OVERLOAD: f64 = 1.1;
const AFTER_OVERLOAD: f64 = 0.5;

/// A test of RFC 2544.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The highest load without loss (26.1).
    Throughput,
    /// Latency at shares of the throughput (26.2).
    Latency,
    /// Loss at shares of the highest load (26.3).
    FrameLoss,
    /// The longest burst without loss (26.4).
    BackToBack,
    /// Recovery from overload (26.5).
    Recovery,
    /// Reset of the device under test (26.6).
    Reset,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Throughput, Self::Latency, Self::FrameLoss, Self::BackToBack, Self::Recovery, Self::Reset];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::FrameLoss => "frame-loss",
            Self::BackToBack => "back-to-back",
            Self::Recovery => "recovery",
            Self::Reset => "reset",
        }
    }
}

impl FromStr for Test {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|test| test.name() == text);
        known.ok_or_else(|| {
            format!("RFC 2544 has no test '{text}': its tests are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// The measurements, and how long and how often each is made.
#[derive(Clone, Debug)]
pub struct Rfc2544Plan {
    /// The frame sizes.
    pub sizes: Vec<Mix>,
    /// The tests; all if there are none. Throughput is always measured.
    pub tests: Vec<Test>,
    /// Where the throughput is searched.
    pub range: Range,
    /// Length of a trial, in s.
    pub trial_s: f64,
    /// Length of a trial of latency, in s.
    pub latency_s: f64,
    /// Repetitions of each trial of latency, recovery and reset.
    pub repeat: u32,
    /// Repetitions of the longest burst.
    pub bursts: u32,
    /// The testbed can be reset.
    pub can_reset: bool,
}

impl Rfc2544Plan {
    /// Differences from RFC 2544.
    fn departures(&self) -> Vec<String> {
        let mut departures = Vec::new();
        if self.trial_s < 60.0 {
            departures
                .push(format!("trials of {} s: RFC 2544 asks for 60 s (120 s for latency)", self.trial_s));
        }
        if self.repeat < 20 || self.bursts < 50 {
            departures.push(format!(
                "{} trials of a latency and {} bursts: RFC 2544 asks for 20 and 50",
                self.repeat, self.bursts
            ));
        }
        departures
    }
}

/// Runs the tests of a plan. Returns the results, and the error that ended it early, if any.
///
/// # Errors
/// [`Error::Input`] if the testbed cannot send one of the sizes, or the range is empty at one.
pub fn run(runner: &mut Runner<'_>, plan: &Rfc2544Plan) -> Result<(Rfc2544, Result<(), Error>), Error> {
    plan.range.check(runner, &plan.sizes)?;
    let mut document = Rfc2544 {
        environment: runner.environment.clone(),
        departures: plan.departures(),
        ..Rfc2544::default()
    };
    let mut end = Ok(());
    for sizes in &plan.sizes {
        let mut found = SizeTests {
            frame_bytes_with_fcs: sizes.mean_bytes_with_fcs().round() as u32,
            max_pps: tenths(runner.line_rate_pps(sizes)?),
            ..SizeTests::default()
        };
        let mut at = AtSize { plan, runner: &mut *runner, sizes, found: &mut found };
        let ended = at.run(&mut document.departures);
        document.sizes.push(found);
        if ended.is_err() {
            end = ended;
            break;
        }
    }
    // Without its throughput a size has no result.
    let found = |it: &&SizeTests| {
        it.throughput.as_ref().is_some_and(|search| search.lower_pps("throughput").is_some())
    };
    let finished = document.sizes.iter().filter(found).count();
    if end.is_ok() && finished < plan.sizes.len() {
        let why =
            document.sizes.iter().find_map(|it| it.throughput.as_ref()?.trouble.clone()).unwrap_or_default();
        end = Err(Error::Failed(format!(
            "only {finished} of {} sizes have a throughput: {why}",
            plan.sizes.len()
        )));
    }
    document.complete = end.is_ok();
    document.trouble = end.as_ref().err().and_then(Error::published);
    Ok((document, end))
}

/// All tests at one size.
struct AtSize<'t, 'r> {
    plan: &'t Rfc2544Plan,
    runner: &'t mut Runner<'r>,
    sizes: &'t Mix,
    found: &'t mut SizeTests,
}

impl AtSize<'_, '_> {
    fn wants(&self, test: Test) -> bool {
        self.plan.tests.is_empty() || self.plan.tests.contains(&test)
    }

    fn trial(&mut self, name: &str, pattern: Pattern) -> Result<Trial, Error> {
        self.runner.trial(name, self.sizes, pattern)
    }

    /// A trial whose lost frames give times of the device under test: the tester must not be its limit.
    /// Frames that a port missed and did not count may be the device's loss.
    fn trial_of_the_device(&mut self, name: &str, pattern: Pattern) -> Result<Trial, Error> {
        let trial = of_the_device(|| self.trial(name, pattern))?;
        match trial.limit() {
            Some(_) if trial.overflow_unknown => Ok(trial),
            None => Ok(trial),
            Some(limit) => Err(Error::Input(format!(
                "the tester could not keep up ({}): give a lower highest load",
                limit.words()
            ))),
        }
    }

    fn run(&mut self, departures: &mut Vec<String>) -> Result<(), Error> {
        let trial_s = self.plan.trial_s;
        let goal = Goal {
            width: self.plan.range.precision,
            trial_s,
            sum_s: trial_s,
            exceed_ratio: 0.0,
            ..Goal::NDR
        };
        let (search, ended) = search(self.runner, self.sizes, &[("throughput", goal)], &self.plan.range)?;
        let throughput = search.lower_pps("throughput");
        // The published load is rounded, and may be more than the wire carries. Above the tester's limit
        // nothing of the device under test can be measured.
        let max_pps =
            search.ceiling_pps.unwrap_or(search.max_pps).min(self.runner.line_rate_pps(self.sizes)?);
        let met_at_most = search.goals.iter().all(|goal| goal.done && goal.upper_pps.is_none());
        self.found.max_pps = search.max_pps;
        self.found.throughput = Some(search);
        let sizes = self.sizes;
        let mut leave_out = |why: String| departures.push(format!("{sizes} B: {why}"));
        match (ended, throughput) {
            (Ok(()), _) => {}
            (Err(Error::Failed(why)), None) => {
                leave_out(format!("no throughput was found, so the tests that need it were left out: {why}"));
            }
            (Err(failure), _) => return Err(failure),
        }
        if self.wants(Test::FrameLoss) {
            self.frame_loss(max_pps)?;
        }
        let Some(throughput) = throughput.map(|pps| pps.min(max_pps)) else { return Ok(()) };
        if self.wants(Test::Latency) {
            self.latency(throughput)?;
        }
        // If the testbed cannot do one test, the others still run.
        let mut done_or_left_out = |what: &str, done: Result<(), Error>| match done {
            Err(Error::Input(why)) => {
                leave_out(format!("no {what}: {why}"));
                Ok(())
            }
            other => other,
        };
        let never_lost = || Err(Error::Input("nothing is lost at the highest load".into()));
        if self.wants(Test::BackToBack) {
            let done = if met_at_most { never_lost() } else { self.back_to_back(max_pps, throughput) };
            done_or_left_out("back-to-back frames", done)?;
        }
        if self.wants(Test::Recovery) {
            let done = if met_at_most { never_lost() } else { self.recovery(max_pps, throughput) };
            done_or_left_out("recovery", done)?;
        }
        if self.wants(Test::Reset) {
            let done = self.reset(throughput);
            done_or_left_out("reset", done)?;
        }
        Ok(())
    }

    fn frame_loss(&mut self, max_pps: f64) -> Result<(), Error> {
        let mut trials = Vec::new();
        let seconds = self.plan.trial_s;
        let name = format!("frame loss, {max_pps} pps, {seconds} s");
        let done = frame_loss(max_pps, seconds, &mut trials, |pattern| self.trial(&name, pattern));
        self.found.frame_loss = trials;
        done
    }

    fn latency(&mut self, throughput: f64) -> Result<(), Error> {
        let (seconds, repeat) = (self.plan.latency_s, self.plan.repeat);
        for share in SHARES {
            self.found.latency.push(LatencyAt { share, ..LatencyAt::default() });
            let load_pps = throughput * share;
            let name = format!("latency, {load_pps} pps, {seconds} s");
            for _ in 0..repeat {
                let trial = self.trial(&name, Pattern::Rate(load_pps, seconds))?;
                if let Some(at) = self.found.latency.last_mut() {
                    at.trials.push(trial);
                    at.latency_ns = mean_latency(&at.trials);
                }
            }
        }
        Ok(())
    }

    fn back_to_back(&mut self, pps: f64, throughput: f64) -> Result<(), Error> {
        let most_frames = (pps * BURST_S) as u64;
        let name = format!("burst, {pps} pps");
        let mut found = BackToBack { pps, most_frames, ..BackToBack::default() };
        for _ in 0..self.plan.bursts {
            let burst = longest_burst(pps, most_frames, |pattern| {
                let Pattern::Burst(_, frames) = pattern else { return self.trial(&name, pattern) };
                let tries = (most_frames / frames.max(1)).clamp(BURST_TRIES.0, BURST_TRIES.1);
                // A burst that the generator could not send does not measure the buffer.
                for _ in 0..tries {
                    let trial = self.trial(&name, pattern)?;
                    if trial.shortfall == 0 || trial.came_through() < trial.sent {
                        return Ok(trial);
                    }
                }
                Err(Error::Input(format!(
                    "the generator cannot sustain {:.1} kpps: give a lower highest load",
                    pps / 1e3
                )))
            })?;
            found.frames.push(burst);
            found.mean_frames = mean(found.frames.iter().map(|&frames| frames as f64)).unwrap_or(0.0);
            found.implied_s = found.mean_frames / pps;
            found.corrected_s = corrected_buffer_s(found.mean_frames, pps, throughput);
            self.found.back_to_back = Some(found.clone());
        }
        Ok(())
    }

    fn recovery(&mut self, max_pps: f64, throughput: f64) -> Result<(), Error> {
        let overload = (throughput * OVERLOAD).min(max_pps);
        let seconds = self.plan.trial_s;
        let pattern = Pattern::Recovery(overload, overload * AFTER_OVERLOAD, seconds);
        let name = format!("recovery, {overload} pps, {seconds} s");
        let mut times = Times { load_pps: tenths(overload), ..Times::default() };
        for _ in 0..self.plan.repeat {
            let trial = self.trial_of_the_device(&name, pattern)?;
            times.seconds.extend(trial.recovery_s);
            // A testbed that observes no recovery has no time of it.
            if let Some(mean_s) = mean(times.seconds.iter().copied()) {
                times.mean_s = mean_s;
                self.found.recovery = Some(times.clone());
            }
        }
        Ok(())
    }

    fn reset(&mut self, throughput: f64) -> Result<(), Error> {
        if !self.plan.can_reset {
            return Err(Error::Input("the simulator cannot be reset".into()));
        }
        let Some(command) = self.runner.reset.clone() else {
            return Err(Error::Input("no command was given that resets the device under test".into()));
        };
        let seconds = self.plan.trial_s;
        let name = format!("reset by {command}, {throughput} pps, {seconds} s");
        // The tester keeps up without a reset. Frames that it cannot send during a reset count as lost by the
        // reset, too: a device that restarts may take the link down.
        self.trial_of_the_device(&format!("before {name}"), Pattern::Rate(throughput, seconds))?;
        let mut times = Times { load_pps: throughput, ..Times::default() };
        for _ in 0..self.plan.repeat {
            let trial = self.trial(&name, Pattern::Reset(throughput, seconds))?;
            let directions = self.runner.environment.directions();
            let lost = trial.due().saturating_sub(trial.came_through());
            times.seconds.push(lost as f64 / throughput / directions);
            times.mean_s = mean(times.seconds.iter().copied()).unwrap_or(0.0);
            self.found.reset = Some(times.clone());
        }
        Ok(())
    }
}

/// The mean of each percentile over all trials in which something arrived.
fn mean_latency(trials: &[Trial]) -> Latency {
    let of = |percentile: fn(&Latency) -> Option<u64>| {
        mean(trials.iter().filter_map(|trial| percentile(&trial.latency_ns)).map(|ns| ns as f64))
            .map(|ns| ns.round() as u64)
    };
    Latency {
        min: of(|it| it.min),
        mean: of(|it| it.mean),
        p50: of(|it| it.p50),
        p99: of(|it| it.p99),
        p999: of(|it| it.p999),
        max: of(|it| it.max),
        jitter: of(|it| it.jitter),
        error_ns: trials.iter().filter_map(|trial| trial.latency_ns.error_ns).max(),
    }
}
