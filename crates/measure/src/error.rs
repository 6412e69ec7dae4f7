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
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The message to publish; `None` for an interruption.
    pub fn published(&self) -> Option<String> {
        match self {
            Self::Interrupted => None,
            Self::Input(_) | Self::Failed(_) => Some(self.to_string()),
        }
    }
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
