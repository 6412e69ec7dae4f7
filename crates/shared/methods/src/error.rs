//! Errors of measurements.

use crate::journal::JournalError;
use crate::trial::TrialError;

/// The reason why a measurement ended early. Results so far are kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The testbed cannot do this, or there is nothing to measure.
    #[error("{0}")]
    Input(String),
    /// The testbed failed, or a search found nothing.
    #[error("{0}")]
    Failed(String),
    /// A bound that was asked for is broken.
    #[error("{0}")]
    Broken(String),
    /// The result is no valid measurement of the device under test.
    #[error("no valid measurement of the device under test: {0}")]
    Invalid(String),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The same kind of error, with the measurements so far.
    #[must_use]
    pub fn with(self, measured: &str) -> Self {
        let more = |what: String| format!("{what}; {measured}");
        match self {
            Self::Interrupted => Self::Interrupted,
            Self::Input(what) => Self::Input(more(what)),
            Self::Failed(what) => Self::Failed(more(what)),
            Self::Broken(what) => Self::Broken(more(what)),
            Self::Invalid(what) => Self::Invalid(more(what)),
        }
    }

    /// The message to publish; `None` for an interruption.
    pub fn published(&self) -> Option<String> {
        match self {
            Self::Interrupted => None,
            Self::Input(_) | Self::Failed(_) | Self::Broken(_) | Self::Invalid(_) => Some(self.to_string()),
        }
    }
}

/// Refuses a name that is given twice: results go by name.
///
/// # Errors
/// [`Error::Input`] with the name.
pub fn refuse_twice<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = std::collections::BTreeSet::new();
    names.find(|name| !seen.insert(*name)).map_or(Ok(()), |name| {
        Err(Error::Input(format!(
            "'{name}' is given twice, and results are stored by name: leave out or rename one"
        )))
    })
}

impl From<TrialError> for Error {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Load(what) => Self::Input(what),
            TrialError::Interrupted => Self::Interrupted,
            failed @ TrialError::Testbed(_) => Self::Failed(failed.to_string()),
        }
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Write(..) => Self::Failed(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}
