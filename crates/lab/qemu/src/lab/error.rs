//! Errors of the lab.

use std::io;
use std::path::{Path, PathBuf};

/// A failure in the lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument names something that does not exist. The text lists the existing names.
    #[error("{0}")]
    Input(String),
    /// A program that the lab needs is missing.
    #[error("{program} is not installed: apt-get install --no-install-recommends {package}")]
    NotInstalled {
        /// The program.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A package could not be fetched or unpacked.
    #[error("{0}")]
    Package(String),
    /// A file is missing or not valid.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// QEMU, or a connection to it, failed.
    #[error(transparent)]
    Qemu(crate::Error),
    /// The guest did not answer in time.
    #[error("no answer within {seconds} s: {waiting_for}{tail}")]
    Silent {
        /// The time limit.
        seconds: u64,
        /// The missing answer.
        waiting_for: String,
        /// The end of the guest's output, if there is any.
        tail: String,
    },
    /// A command in the guest failed.
    #[error("in the guest, `{command}` ended with {code}: {output}")]
    Command {
        /// The command.
        command: String,
        /// Its exit code.
        code: i32,
        /// The output of the program.
        output: String,
    },
    /// An answer that is not valid.
    #[error("{what}: {answer:?}")]
    Protocol {
        /// The question.
        what: String,
        /// The answer.
        answer: String,
    },
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
    /// A file or socket on our side failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::NotInstalled { program } => {
                Self::NotInstalled { program, package: "qemu-system-x86" }
            }
            crate::Error::Io(error) => Self::Io(error),
            other => Self::Qemu(other),
        }
    }
}

/// The lab's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The fault `what` of the file at `path`.
    pub(crate) fn file(path: &Path, what: impl ToString) -> Self {
        Self::File { path: path.to_owned(), what: what.to_string() }
    }
}
