//! Trials one after the other on one testbed, resumed from a journal.

use crate::error::Error;
use crate::kind::WARMUP_MS;
use crate::observer::{Observer, in_words};
use crate::points::of_sizes;
use crate::resume::{Resume, measured};
use crate::trial::{AllowedLoad, Load, Testbed};
use crate::units;
use kpps_documents::{Environment, Trial};
use kpps_frames::Mix;
use std::cell::RefCell;
use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The load of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// A constant rate in frames per second, for a time in s.
    Rate(f64, f64),
    /// A burst of this many frames at this rate.
    Burst(f64, u64),
    /// An overload in frames per second for a time in s, then a lower rate for the same time. The result has
    /// the time of the last loss.
    Recovery(f64, f64, f64),
    /// A constant rate for a time in s, with a reset of the system in the middle.
    Reset(f64, f64),
}

/// Runs trials on a testbed. Results that [`Resume`] accepts are not measured again: the same trials in the
/// same order have the same results.
pub struct Runner<'r> {
    /// The environment of the testbed, without what frames determine.
    pub environment: Environment,
    /// A command for the shell that resets the system.
    pub reset: Option<String>,
    testbed: Box<dyn Testbed>,
    resume: Option<Resume>,
    /// The number of trials so far by name.
    occurrences: HashMap<String, usize>,
    go_on: &'r dyn Fn() -> bool,
    observer: &'r dyn Observer,
}

impl<'r> Runner<'r> {
    /// A runner of trials on `testbed`. They end when `go_on` returns false.
    pub fn new(
        testbed: Box<dyn Testbed>,
        environment: Environment,
        resume: Option<Resume>,
        go_on: &'r dyn Fn() -> bool,
        observer: &'r dyn Observer,
    ) -> Self {
        let occurrences = HashMap::new();
        Self { environment, reset: None, testbed, resume, occurrences, go_on, observer }
    }

    /// Whether the user has not interrupted it.
    pub fn goes_on(&self) -> bool {
        (self.go_on)()
    }

    /// Ends the trials.
    ///
    /// # Errors
    /// Some of them are not in the journal.
    pub fn close(self) -> Result<(), Error> {
        self.resume.map_or(Ok(()), Resume::close)
    }

    /// The highest load in frames per second that the wire carries of these sizes, in each direction.
    ///
    /// # Errors
    /// [`Error::Input`] if the testbed cannot send these sizes.
    pub fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, Error> {
        Ok(self.testbed.line_rate_pps(sizes)?)
    }

    /// The environment of a search with frames of these sizes.
    ///
    /// # Errors
    /// [`Error::Input`] if the testbed cannot send these sizes.
    pub(crate) fn environment_of(&self, sizes: &Mix) -> Result<Environment, Error> {
        let line_pps = self.testbed.known_line_rate_pps(sizes)?;
        Ok(of_sizes(self.environment.clone(), sizes).with_line_rate(line_pps).rounded())
    }

    /// The highest load that operators allow in each direction, if they limit it.
    pub(crate) fn allowed(&self) -> Option<AllowedLoad> {
        self.testbed.allowed()
    }

    /// Whether trials report for every queue of the device under test by how much it filled.
    pub(crate) fn shows_all_queues(&self) -> bool {
        self.testbed.shows_all_queues()
    }

    /// Whether operators allow a trial of this length, in s.
    pub(crate) fn allows(&self, seconds: f64) -> bool {
        self.testbed.longest_trial().is_none_or(|longest| seconds <= longest.as_secs_f64())
    }

    /// One trial of the measurement with this name; of an earlier run if there is one.
    ///
    /// # Errors
    /// Errors of a trial.
    pub fn trial(&mut self, name: &str, sizes: &Mix, pattern: Pattern) -> Result<Trial, Error> {
        // Another kernel, driver or setting is another system.
        let name = serde_json::to_string(&(&self.environment, sizes.to_string(), name))
            .map_err(|error| Error::Failed(error.to_string()))?;
        let number = self.occurrences.entry(name.clone()).or_default();
        let place = *number;
        *number += 1;
        let mut resume = self.resume.take();
        let trial = measured(&mut resume, &name, Some(place), self.observer, || self.measure(sizes, pattern));
        self.resume = resume;
        trial
    }

    fn measure(&mut self, sizes: &Mix, pattern: Pattern) -> Result<Trial, Error> {
        let load = |offered_pps: f64, seconds: f64| {
            // In whole milliseconds, as the trials of other commands.
            let duration = units::seconds((seconds * 1e3).round() / 1e3).map_err(Error::Input)?;
            let load = Load::of(offered_pps, sizes.clone()).lasting_ms(WARMUP_MS, 0);
            Ok::<_, Error>(Load { duration, ..load.with_seed(self.environment.seed.unwrap_or(1)) })
        };
        let (load, words) = match pattern {
            Pattern::Rate(pps, seconds) => (load(pps, seconds)?, String::new()),
            Pattern::Burst(pps, frames) => {
                (load(pps, frames as f64 / pps)?, format!(", a burst of {frames}"))
            }
            Pattern::Recovery(pps, then_pps, seconds) => {
                (load(pps, seconds)?, format!(", then {:.1} kpps", then_pps / 1e3))
            }
            Pattern::Reset(pps, seconds) => (load(pps, seconds)?, ", with a reset".into()),
        };
        self.observer.begins(&(in_words(&load) + &*words), load.rate.pps());
        let mut recovery_s = None;
        let trial = match pattern {
            Pattern::Rate(..) => self.testbed.trial_while(&load, self.go_on)?,
            Pattern::Burst(_, frames) => self.testbed.burst_while(&load, frames, self.go_on)?,
            Pattern::Recovery(_, then_pps, _) => {
                let (trial, recovered_s) = self.testbed.recovery_while(&load, then_pps, self.go_on)?;
                recovery_s = Some(recovered_s);
                trial
            }
            Pattern::Reset(..) => {
                let command = self.reset.clone().unwrap_or_default();
                reset(&mut *self.testbed, &load, &command, self.go_on)?
            }
        };
        let trial = Trial { recovery_s, ..trial }.rounded();
        self.observer.ended(&trial);
        Ok(trial)
    }
}

/// A trial with a reset command in the middle.
fn reset(
    testbed: &mut dyn Testbed,
    load: &Load,
    command: &str,
    go_on: &dyn Fn() -> bool,
) -> Result<Trial, Error> {
    let begin = Instant::now();
    let half = load.duration / 2;
    let running: RefCell<Option<std::io::Result<Child>>> = RefCell::default();
    let go_on = || {
        if begin.elapsed() >= half {
            let start = || Command::new("sh").args(["-c", command]).stdin(Stdio::null()).spawn();
            running.borrow_mut().get_or_insert_with(start);
        }
        go_on()
    };
    let trial = testbed.trial_while(load, &go_on)?;
    let cannot = |why: &dyn std::fmt::Display| Error::Failed(format!("cannot reset by '{command}': {why}"));
    match running.into_inner().map(|child| child.and_then(|mut child| child.wait())) {
        Some(Ok(status)) if status.success() => Ok(trial),
        Some(Ok(status)) => Err(cannot(&status)),
        Some(Err(error)) => Err(cannot(&error)),
        None => Err(cannot(&"the trial ended before the command could begin")),
    }
}
