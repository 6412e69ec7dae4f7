//! Journals: files that keep each result at once, so that an interrupted run can be resumed.
//!
//! A journal has a line of JSON for each result, with the name of the measurement. An interruption loses only
//! the trial under way.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

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

/// A file of results by name. There may be several of a name, in the order in which they came.
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    lines: HashMap<String, Vec<T>>,
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
        let mut lines = HashMap::<_, Vec<T>>::new();
        for (name, result) in text.lines().filter_map(|line| serde_json::from_str::<(String, T)>(line).ok()) {
            lines.entry(name).or_default().push(result);
        }
        if lines.is_empty() && !text.trim().is_empty() && !text.starts_with("[\"") {
            return Err(JournalError::Other(path.to_owned()));
        }
        let torn = !text.is_empty() && !text.ends_with('\n');
        Ok(Self { path: path.to_owned(), file, lines, torn })
    }

    /// The results of this name that were in the file when it was opened.
    pub fn of(&self, name: &str) -> &[T] {
        self.lines.get(name).map_or(&[], Vec::as_slice)
    }

    /// Writes a result to the file.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn keep(&mut self, name: &str, result: &T) -> Result<(), JournalError> {
        let failed = |error| JournalError::Write(self.path.clone(), error);
        let line = serde_json::to_string(&(name, result)).map_err(|e| failed(e.into()))?;
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
        assert_eq!((journal.of("one"), journal.of("two")), (&[trial(1), trial(2)][..], &[][..]));
        for sent in [3, 4] {
            journal.keep("two", &trial(sent)).unwrap();
        }
        let journal = Journal::<Trial>::open(&path).unwrap();
        assert_eq!(journal.of("one"), [trial(1), trial(2)]);
        assert_eq!(journal.of("two"), [trial(3), trial(4)]);
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
