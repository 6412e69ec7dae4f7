//! The file of finished cells: a line of JSON each, written when it is finished, so that nothing but the cells under way
//! is lost whenever a run ends.

use crate::error::Failure;
use kpps_report::Point;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Finished cells by their keys.
pub struct Cells {
    path: PathBuf,
    file: File,
    points: HashMap<String, Point>,
}

impl Cells {
    /// Opens a file, or makes one. Lines that say nothing, as the last of a run that was killed, are passed over.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let failed =
            |e| Failure::Input(format!("cannot use {}: {e}; give another path with --cells", path.display()));
        let mut file = File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let points: HashMap<_, _> =
            text.lines().filter_map(|line| serde_json::from_str::<(String, Point)>(line).ok()).collect();
        if points.is_empty() && !text.trim().is_empty() && !text.starts_with("[\"") {
            return Err(Failure::Input(format!(
                "{} holds something else than cells: give another path with --cells",
                path.display()
            )));
        }
        let mut cells = Self { path: path.to_owned(), file, points };
        if !text.is_empty() && !text.ends_with('\n') {
            cells.append(b"\n")?;
        }
        Ok(cells)
    }

    /// The result of a cell that was finished.
    pub fn find(&self, key: &str) -> Option<Point> {
        self.points.get(key).cloned()
    }

    /// Keeps a result.
    pub fn keep(&mut self, key: &str, point: &Point) -> Result<(), Failure> {
        let line = serde_json::to_string(&(key, point)).map_err(|e| Failure::Check(e.to_string()))?;
        self.append(format!("{line}\n").as_bytes())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file
            .write_all(bytes)
            .map_err(|e| Failure::Check(format!("cannot write {}: {e}", self.path.display())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn cells_are_found_again_after_a_run_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells");
        let point = Point { delivered_pps: 5.5, ..Point::default() };
        Cells::open(&path).unwrap().keep("one", &point).unwrap();
        // Killed in the middle of a line.
        let half = &std::fs::read(&path).unwrap()[..20];
        File::options().append(true).open(&path).unwrap().write_all(half).unwrap();
        let mut cells = Cells::open(&path).unwrap();
        assert_eq!((cells.find("one"), cells.find("two")), (Some(point.clone()), None));
        cells.keep("two", &point).unwrap();
        let cells = Cells::open(&path).unwrap();
        assert_eq!((cells.find("one"), cells.find("two")), (Some(point.clone()), Some(point)));
    }

    #[test]
    fn another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis");
        std::fs::write(&path, "years of work").unwrap();
        assert!(Cells::open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "years of work");
    }
}
