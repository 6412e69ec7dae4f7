//! The cache of downloads and of files made from them.
//!
//! It is `$KPPS_LAB_CACHE`, or `kpps/lab` in `$XDG_CACHE_HOME` or `~/.cache`. Finished entries have their
//! final name, unfinished ones a temporary name, so that an interrupted run leaves nothing that looks
//! finished. One process at a time fills it.

use crate::lab::{Error, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The lab's cache.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The user's cache.
    ///
    /// # Errors
    /// If it has no place.
    pub fn open() -> Result<Self> {
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = from("KPPS_LAB_CACHE")
            .or_else(|| from("XDG_CACHE_HOME").map(|at| at.join("kpps/lab")))
            .or_else(|| from("HOME").map(|at| at.join(".cache/kpps/lab")))
            .ok_or_else(|| Error::Input("no home directory: set KPPS_LAB_CACHE to a directory".into()))?;
        Self::at(&root)
    }

    /// A cache in the directory `root`, which is created if it is missing.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn at(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).map_err(|e| Error::file(root, e))?;
        let root = fs::canonicalize(root).map_err(|e| Error::file(root, e))?;
        Ok(Self { root })
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Waits for other processes, then keeps them from filling the cache until the result is dropped.
    ///
    /// # Errors
    /// If the cache cannot be written.
    pub fn lock(&self) -> Result<File> {
        let path = self.path("lock");
        let lock = File::create(&path).map_err(|e| Error::file(&path, e))?;
        lock.lock()?;
        Ok(lock)
    }

    /// The directory `name`. If it is missing, `fill` makes it. Hold the [lock](Self::lock).
    ///
    /// # Errors
    /// Errors of `fill`, which then leaves nothing behind.
    pub fn directory(&self, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let finished = self.path(name);
        if finished.is_dir() {
            return Ok(finished);
        }
        let parent = finished.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)?;
        let unfinished = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(parent)?;
        fill(unfinished.path())?;
        fs::rename(unfinished.keep(), &finished)?;
        Ok(finished)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_is_finished_has_a_name() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::at(&place.path().join("a/b")).unwrap();
        let failed = cache.directory("x/1", |at| {
            fs::write(at.join("half"), "").unwrap();
            Err(Error::Interrupted)
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(cache.path("x")).unwrap().count(), 0);
        let made = cache.directory("x/1", |at| Ok(fs::write(at.join("all"), "")?)).unwrap();
        assert!(made.join("all").is_file());
        cache.directory("x/1", |_| panic!("it is there")).unwrap();
    }
}
