//! Why a command fails, and how it prints.

use kpps_report::files::PublishError;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The input makes no sense, or names something that does not exist.
    #[error("{0}")]
    Input(String),
    /// A check did not hold.
    #[error("{0}")]
    Check(String),
    /// The user interrupted the command.
    #[error("{0}")]
    Interrupted(String),
    /// Standard output was closed by its reader.
    #[error("standard output was closed")]
    OutputClosed,
}

impl Failure {
    /// The exit code.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Input(_) => 2,
            Self::Check(_) => 1,
            Self::Interrupted(_) => 130,
            Self::OutputClosed => 0,
        })
    }
}

impl From<kpps_sim::SetupError> for Failure {
    fn from(error: kpps_sim::SetupError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<kpps_profiles::Error> for Failure {
    fn from(error: kpps_profiles::Error) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<kpps_measure::TrialError> for Failure {
    fn from(error: kpps_measure::TrialError) -> Self {
        kpps_measure::Error::from(error).into()
    }
}

impl From<kpps_measure::Error> for Failure {
    fn from(error: kpps_measure::Error) -> Self {
        match error {
            kpps_measure::Error::Input(what) => Self::Input(what),
            kpps_measure::Error::Failed(what) => Self::Check(what),
            kpps_measure::Error::Interrupted => Self::Interrupted("interrupted".into()),
        }
    }
}

impl From<kpps_measure::journal::JournalError> for Failure {
    fn from(error: kpps_measure::journal::JournalError) -> Self {
        kpps_measure::Error::from(error).into()
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Destination(what) => Self::Input(what),
            PublishError::Write(what) => Self::Check(what),
            PublishError::OutputClosed => Self::OutputClosed,
        }
    }
}

/// Prints to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    Ok(kpps_report::files::print(text)?)
}

/// Refuses a name that is given twice: results go by name.
pub fn refuse_twice<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Failure::Input(format!(
                "'{name}' is given twice: results go by name, so rename one"
            )));
        }
    }
    Ok(())
}
