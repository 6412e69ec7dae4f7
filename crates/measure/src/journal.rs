//! Journals: files that keep each result at once, so that an interrupted run can be resumed.
//!
//! A journal has a line of JSON for each result: the name of the measurement, the result, and when it was
//! kept (Unix time in s). An interruption loses only the trial under way.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Errors of journals.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened or read.
    #[error("cannot use {}: {_1}; give another path", _0.display())]
    Open(PathBuf, std::io::Error),
    /// The file is not a journal of this command.
    #[error("{} is not a journal of this command: give another path", _0.display())]
    Other(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {}: {_1}", _0.display())]
    Write(PathBuf, std::io::Error),
}

/// A result in a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept<T> {
    /// The result.
    pub result: T,
    /// When it was kept: Unix time in s.
    pub at_s: u64,
}

impl<T> Kept<T> {
    /// How long ago it was kept, in s.
    pub fn age_s(&self) -> u64 {
        now_s().saturating_sub(self.at_s)
    }
}

/// Unix time in s.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The line before which all results are discarded.
const DISCARDED: &str = "[\"discarded\"]";

/// A file of results by name. There may be several of a name, in the order in which they came.
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    lines: HashMap<String, Vec<Kept<T>>>,
    /// Whether the file ends in the middle of a line: its last run was killed.
    torn: bool,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens a file, or makes one. Lines that cannot be read are ignored.
    ///
    /// # Errors
    /// [`JournalError::Open`], and [`JournalError::Other`] if the file is not a journal.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |error| JournalError::Open(path.to_owned(), error);
        let mut file = File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let mut lines = HashMap::<_, Vec<Kept<T>>>::new();
        for line in text.lines() {
            if line == DISCARDED {
                lines.clear();
            } else if let Ok((name, result, at_s)) = serde_json::from_str::<(String, T, u64)>(line) {
                lines.entry(name).or_default().push(Kept { result, at_s });
            }
        }
        if lines.is_empty() && !text.trim().is_empty() && !text.starts_with("[\"") {
            return Err(JournalError::Other(path.to_owned()));
        }
        let torn = !text.is_empty() && !text.ends_with('\n');
        Ok(Self { path: path.to_owned(), file, lines, torn })
    }

    /// The results of this name that were in the file when it was opened.
    pub fn of(&self, name: &str) -> &[Kept<T>] {
        self.lines.get(name).map_or(&[], Vec::as_slice)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a result to the file.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn keep(&mut self, name: &str, result: &T) -> Result<(), JournalError> {
        let line = serde_json::to_string(&(name, result, now_s()));
        self.write(&line.map_err(|error| JournalError::Write(self.path.clone(), error.into()))?)
    }

    /// Discards all results so far. They stay in the file, and are not found again.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn discard(&mut self) -> Result<(), JournalError> {
        self.lines.clear();
        self.write(DISCARDED)
    }

    fn write(&mut self, line: &str) -> Result<(), JournalError> {
        let line = format!("{}{line}\n", if self.torn { "\n" } else { "" });
        self.torn = false;
        self.file.write_all(line.as_bytes()).map_err(|error| JournalError::Write(self.path.clone(), error))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_results::Trial;

    #[test]
    fn results_are_found_again_after_a_run_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let trial = |sent| Trial { offered_pps: 33_333.333_333_3, sent, ..Trial::default() };
        let mut journal = Journal::open(&path).unwrap();
        for sent in [1, 2] {
            journal.keep("one", &trial(sent)).unwrap();
        }
        // Killed in the middle of a line.
        let half = &std::fs::read(&path).unwrap()[..20];
        File::options().append(true).open(&path).unwrap().write_all(half).unwrap();
        let mut journal = Journal::<Trial>::open(&path).unwrap();
        let of = |journal: &Journal<Trial>, name| {
            journal.of(name).iter().map(|kept| kept.result.sent).collect::<Vec<_>>()
        };
        assert_eq!((of(&journal, "one"), of(&journal, "two")), (vec![1, 2], vec![]));
        assert!(journal.of("one")[0].age_s() < 60);
        for sent in [3, 4] {
            journal.keep("two", &trial(sent)).unwrap();
        }
        let mut journal = Journal::<Trial>::open(&path).unwrap();
        assert_eq!((of(&journal, "one"), of(&journal, "two")), (vec![1, 2], vec![3, 4]));

        journal.discard().unwrap();
        journal.keep("two", &trial(5)).unwrap();
        let journal = Journal::<Trial>::open(&path).unwrap();
        assert_eq!(
            (of(&journal, "one"), of(&journal, "two")),
            (vec![], vec![5]),
            "the discarded are not found"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 7, "and stay in the file");
    }

    #[test]
    fn another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis");
        std::fs::write(&path, "years of work").unwrap();
        assert!(Journal::<Trial>::open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "years of work");
    }
}
