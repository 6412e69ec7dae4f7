//! A file to write at the end of a long job.

use crate::error::Failure;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file that will be written. It is opened before anything is measured, so that no result is lost to a bad path;
/// an old file keeps its contents until there are new ones, and a file that was made for nothing is removed.
pub struct Output {
    path: PathBuf,
    file: File,
    superfluous: bool,
}

impl Output {
    /// Opens `path` for writing.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let superfluous = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        file.map(|file| Self { path: path.to_owned(), file, superfluous })
            .map_err(|e| Failure::Input(format!("cannot write {}: {e}; give another path", path.display())))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents by `text`.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.write_bytes(text.as_bytes())
    }

    /// Replaces the contents by `bytes`.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.superfluous = false;
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all(bytes))
            .map_err(|e| Failure::Check(format!("cannot write {}: {e}", self.path.display())))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.superfluous {
            // What cannot be removed is an empty file; nobody is helped by hearing of it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
