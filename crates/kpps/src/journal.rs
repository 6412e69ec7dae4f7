//! Results on disk while they come: a line of JSON each, with the name of what was measured, written when it is there, so
//! that nothing but what is under way is lost whenever a run ends.

use crate::error::Failure;
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Where measurements are kept while they come.
#[derive(Args, Clone, Default)]
pub struct Resume {
    /// Keep every measurement in this file, and do not repeat those that it has of the same command; made if missing
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

impl Resume {
    /// Opens the file, if one is given.
    pub fn open<T: Serialize + DeserializeOwned>(&self) -> Result<Option<Journal<T>>, Failure> {
        self.resume.as_deref().map(Journal::open).transpose()
    }

    /// The file in a sentence about an interrupted run.
    pub fn kept(&self) -> String {
        self.resume
            .as_ref()
            .map_or_else(String::new, |path| format!("; the same command resumes from {}", path.display()))
    }
}

/// A file of results by name. There may be several of a name, in the order in which they came.
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    lines: HashMap<String, Vec<T>>,
    /// The file ends in the middle of a line, as that of a run that was killed.
    torn: bool,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens a file, or makes one. Lines that say nothing are passed over.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |e| Failure::Input(format!("cannot use {}: {e}; give another path", path.display()));
        let mut file = File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let mut lines = HashMap::<_, Vec<T>>::new();
        for (name, result) in text.lines().filter_map(|line| serde_json::from_str::<(String, T)>(line).ok()) {
            lines.entry(name).or_default().push(result);
        }
        if lines.is_empty() && !text.trim().is_empty() && !text.starts_with("[\"") {
            return Err(Failure::Input(format!(
                "{} holds something else than results of this command: give another path",
                path.display()
            )));
        }
        let torn = !text.is_empty() && !text.ends_with('\n');
        Ok(Self { path: path.to_owned(), file, lines, torn })
    }

    /// The results of this name that were in the file when it was opened.
    pub fn of(&self, name: &str) -> &[T] {
        self.lines.get(name).map_or(&[], Vec::as_slice)
    }

    /// Keeps a result.
    pub fn keep(&mut self, name: &str, result: &T) -> Result<(), Failure> {
        let line = serde_json::to_string(&(name, result)).map_err(|e| Failure::Check(e.to_string()))?;
        let line = format!("{}{line}\n", if self.torn { "\n" } else { "" });
        self.torn = false;
        self.file
            .write_all(line.as_bytes())
            .map_err(|e| Failure::Check(format!("cannot write {}: {e}", self.path.display())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_results::ndr::SearchTrial;

    #[test]
    fn results_are_found_again_after_a_run_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let trial = |sent| SearchTrial { load_pps: 33_333.333_333_3, sent, ..SearchTrial::default() };
        let mut journal = Journal::open(&path).unwrap();
        for sent in [1, 2] {
            journal.keep("one", &trial(sent)).unwrap();
        }
        // Killed in the middle of a line.
        let half = &std::fs::read(&path).unwrap()[..20];
        File::options().append(true).open(&path).unwrap().write_all(half).unwrap();
        let mut journal = Journal::<SearchTrial>::open(&path).unwrap();
        assert_eq!((journal.of("one"), journal.of("two")), (&[trial(1), trial(2)][..], &[][..]));
        for sent in [3, 4] {
            journal.keep("two", &trial(sent)).unwrap();
        }
        let journal = Journal::<SearchTrial>::open(&path).unwrap();
        assert_eq!(journal.of("one"), [trial(1), trial(2)]);
        assert_eq!(journal.of("two"), [trial(3), trial(4)]);
    }

    #[test]
    fn another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis");
        std::fs::write(&path, "years of work").unwrap();
        assert!(Journal::<SearchTrial>::open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "years of work");
    }
}
