//! Common parts of `kpps ndr`, `sizes` and `rfc2544`: the range, the journal, the runner of trials.

use crate::error::Failure;
use crate::heading;
use crate::live::OpenTestbed;
use crate::output::Resume;
use crate::session::Session;
use crate::testbed::Target;
use clap::Args;
use kpps_methods::ndr::Range;
use kpps_methods::units::{self, RateSpec};
use kpps_methods::{Error, Runner, Subject};
use kpps_rendering::live::Progress;
use std::time::Duration;

/// The range of a search, and where its trials are kept.
#[derive(Args)]
pub struct SearchArguments {
    /// The lowest load to try
    #[arg(long, value_name = "LOAD", default_value = "1kpps", help_heading = heading::SEARCH)]
    min: RateSpec,
    /// The highest load to try
    #[arg(long, value_name = "LOAD", default_value = "100%", help_heading = heading::SEARCH)]
    max: RateSpec,
    /// End the search when the lower and the upper bound are this close, as a share of the upper bound
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = units::share, help_heading = heading::SEARCH)]
    precision: f64,
    /// Start no further trial of a search after this time, and print the bounds found so far. The limit
    /// applies to each frame size, and separately to --bisection
    #[arg(long, value_name = "TIME", default_value = "20min", value_parser = units::duration, help_heading = heading::SEARCH)]
    max_time: Duration,
    #[command(flatten)]
    resume: Resume,
}

impl SearchArguments {
    /// The range.
    pub fn range(&self) -> Range {
        Range { min: self.min, max: self.max, precision: self.precision, max_time: self.max_time }
    }

    /// Opens the testbed, and measures on it with the live view on. Returns a document, and the error that
    /// ended it early or kept trials from the journal, if any.
    pub fn run<T>(
        &self,
        session: &Session,
        command: &str,
        target: &Target,
        reset: Option<&str>,
        for_machines: bool,
        measure: impl FnOnce(&mut Runner<'_>) -> Result<(T, Result<(), Error>), Error>,
    ) -> Result<(T, Result<(), Error>), Failure> {
        let OpenTestbed { testbed, source, environment } = target.open(session)?;
        let resume = self.resume.trials(session, target.is_simulated())?;
        let progress = Progress::of(format!("kpps {command}: {}", target.name().join(" and ")));
        let _view = target.live.view(session, progress.clone(), source, for_machines)?;
        session.watch();
        let subject = Subject {
            name: target.name(),
            environment,
            bidirectional: target.is_bidirectional(),
            traffic: target.traffic(),
            seed: target.seed(),
            reset: reset.map(str::to_owned),
        };
        let go_on = || session.goes_on();
        let mut runner = Runner::new(testbed, subject, resume, &go_on, &progress);
        let (document, end) = measure(&mut runner)?;
        Ok((document, end.and(runner.close())))
    }

    /// The reason why a measurement ended early, as the command's end; `so_far` names the results of an
    /// interrupted one.
    pub fn ended(&self, error: Error, so_far: &str) -> Failure {
        match error {
            Error::Interrupted => {
                Failure::Interrupted(format!("interrupted: {so_far}{}", self.resume.kept()))
            }
            other => other.into(),
        }
    }
}
