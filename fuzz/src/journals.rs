//! Journals of kept results with arbitrary contents: results that are kept afterwards, or merged from others,
//! exist when the journal is opened again.

use kpps_methods::journal::{Journal, merge};
use serde::de::IgnoredAny;
use std::path::{Path, PathBuf};

/// The separator of two journals. No journal has it, as it is no UTF-8.
const BETWEEN: u8 = 0xff;

/// Opens, extends and merges journals with these contents: the first as it is, the others with a right
/// checksum before each line.
pub fn run(bytes: &[u8]) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let mut parts = bytes.split(|&byte| byte == BETWEEN);
    let first = folder.path().join("0");
    std::fs::write(&first, parts.next().unwrap_or_default()).expect("room in memory");
    extend(&first);
    let others: Vec<PathBuf> =
        parts.enumerate().map(|(at, part)| with_checksums(folder.path(), at + 1, part)).collect();
    others.iter().for_each(|other| extend(other));
    if let Ok(merged) = merge(&first, &others) {
        assert!(Journal::<IgnoredAny>::open(&first).is_ok(), "what was merged can be opened");
        assert!(merged.results >= merged.added);
        let again = merge(&first, &others).expect("the same again");
        assert_eq!((again.results, again.added), (merged.results, 0));
    }
}

/// Keeps a result in the journal, if it is one.
fn extend(path: &Path) {
    let Ok(mut journal) = Journal::<u32>::open(path) else { return };
    let before = journal.of("fuzz").len();
    journal.keep("fuzz", &7).expect("room in memory");
    drop(journal);
    let again = Journal::<u32>::open(path).expect("what was opened once");
    assert_eq!(again.of("fuzz").len(), before + 1);
}

/// A file with this number, of these lines with their checksums.
fn with_checksums(folder: &Path, number: usize, lines: &[u8]) -> PathBuf {
    let path = folder.join(number.to_string());
    let line = |rest| [format!("[\"{:08x}\",", crc32fast::hash(rest)).as_bytes(), rest, b"\n"].concat();
    let text: Vec<u8> = lines.split(|&byte| byte == b'\n').flat_map(line).collect();
    std::fs::write(&path, text).expect("room in memory");
    path
}
