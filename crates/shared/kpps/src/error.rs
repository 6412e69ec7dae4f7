//! Why a command fails.

use kpps_rendering::files::PublishError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The input makes no sense, or names something that does not exist.
    #[error("{0}")]
    Input(String),
    /// A check did not hold.
    #[error("{0}")]
    Check(String),
    /// A resource of the command failed: a system call, a device, an engine.
    #[error("{0}")]
    Failed(String),
    /// The result is no valid measurement.
    #[error("{0}")]
    Invalid(String),
    /// The user interrupted the command.
    #[error("{0}")]
    Interrupted(String),
    /// Standard output was closed by its reader.
    #[error("standard output was closed")]
    OutputClosed,
}

impl Failure {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Check(_) | Self::Failed(_) => 1,
            Self::Invalid(_) => 3,
            Self::Interrupted(_) => 130,
            Self::OutputClosed => 0,
        }
    }
}

/// Errors that are failures of this kind, in their own words.
macro_rules! failures {
    ($($kind:ident: $($error:ty),*);*) => {$($(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$kind(error.to_string())
            }
        }
    )*)*};
}
failures!(Input: kpps_sim::SetupError, kpps_profiles::Error);
#[cfg(feature = "ports")]
failures!(Input: kpps_linux::Error, kpps_ports::Error, kpps_agent::Error; Failed: std::io::Error, kpps_ports::port::Trouble);

impl From<kpps_methods::TrialError> for Failure {
    fn from(error: kpps_methods::TrialError) -> Self {
        kpps_methods::Error::from(error).into()
    }
}

impl From<kpps_methods::Error> for Failure {
    fn from(error: kpps_methods::Error) -> Self {
        match error {
            kpps_methods::Error::Input(what) => Self::Input(what),
            kpps_methods::Error::Broken(what) => Self::Check(what),
            kpps_methods::Error::Failed(what) => Self::Failed(what),
            invalid @ kpps_methods::Error::Invalid(_) => Self::Invalid(invalid.to_string()),
            kpps_methods::Error::Interrupted => Self::Interrupted("interrupted".into()),
        }
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::PrintedTwice => Self::Input(format!("{error} (--results, --csv)")),
            PublishError::OnePage { .. } => Self::Input(format!("{error} (--report)")),
            PublishError::Destination(what) => Self::Input(what),
            PublishError::Write(what) => Self::Failed(what),
            PublishError::OutputClosed => Self::OutputClosed,
        }
    }
}
