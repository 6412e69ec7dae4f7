//! What can go wrong in the lab.

use std::io;
use std::path::{Path, PathBuf};

/// Why the lab cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for does not exist; the text says what does.
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
    /// A package could not be had.
    #[error("{0}")]
    Package(String),
    /// A file is not what it should be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// QEMU ended by itself.
    #[error("QEMU ended ({status}): {stderr}")]
    Ended {
        /// Its exit status.
        status: String,
        /// What it printed.
        stderr: String,
    },
    /// The guest did not say what it was waited for.
    #[error("no answer within {seconds} s: {waiting_for}{tail}")]
    Silent {
        /// How long we waited.
        seconds: u64,
        /// For what.
        waiting_for: String,
        /// The last that was heard, if anything.
        tail: String,
    },
    /// A command in the guest failed.
    #[error("in the guest, `{command}` ended with {code}: {output}")]
    Command {
        /// The command.
        command: String,
        /// Its exit code.
        code: i32,
        /// What it printed.
        output: String,
    },
    /// An answer that cannot be understood.
    #[error("{what}: {answer:?}")]
    Protocol {
        /// What was asked.
        what: String,
        /// What came back.
        answer: String,
    },
    /// The user had enough.
    #[error("interrupted")]
    Interrupted,
    /// A file or socket of ours failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The lab's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// `what` is wrong with the file at `path`.
    pub(crate) fn file(path: &Path, what: impl ToString) -> Self {
        Self::File { path: path.to_owned(), what: what.to_string() }
    }
}
