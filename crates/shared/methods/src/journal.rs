//! Journals: files that keep each result at once, so that an interrupted run can be resumed.
//!
//! A journal has a line of JSON for each result: a checksum of the rest of the line, the name of the
//! measurement, the result, and when it was kept (Unix time in s). The first line says that it is a journal,
//! so no other file is mistaken for a torn journal. Lines are only ever added, by one process at a time,
//! which locks the file. An incomplete line of a killed process is dropped before the next line is added:
//! only the trial under way is lost. A power failure may lose the last second.

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Errors of journals.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened or read.
    #[error("cannot use {}: {_1}; give another path", _0.display())]
    Open(PathBuf, io::Error),
    /// The file is not a journal of this command.
    #[error("{} is not a journal of this command: give another path", _0.display())]
    Other(PathBuf),
    /// Another process adds lines to the file. The text describes that process, if it is known.
    #[error("{} is in use by {_1}: wait for its end, or give another path", _0.display())]
    InUse(PathBuf, String),
    /// The line with this number, counted from 1, is not as it was written.
    #[error(
        "line {_1} of {} was changed, its checksum is wrong: delete the line, and its result is measured again",
        _0.display()
    )]
    Changed(PathBuf, usize),
    /// The file cannot be written.
    #[error("cannot write {}: {_1}; make room, or give another path", _0.display())]
    Write(PathBuf, io::Error),
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

/// The rest of the first line.
const FIRST: &[u8] = b"\"journal of kpps\"]";
/// The rest of the line before which all results are discarded.
const DISCARDED: &str = "\"discarded\"]";
/// A result that comes sooner after another one is not written through to the disk: that takes longer than a
/// simulated trial. A power failure may lose it; a process that is killed loses none.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// A line with this rest, with its checksum and its end.
fn line(rest: &[u8]) -> Vec<u8> {
    [start(rest).as_bytes(), rest, b"\n"].concat()
}

/// The start of the line with this rest: its checksum.
fn start(rest: &[u8]) -> String {
    format!("[\"{:08x}\",", crc32fast::hash(rest))
}

/// The rest of a line; `None` if the line is not as it was written.
fn rest(line: &[u8]) -> Option<&[u8]> {
    let (checksum, rest) = line.split_at_checked(start(b"").len())?;
    (checksum == start(rest).as_bytes()).then_some(rest)
}

/// A file of results by name. There may be several of a name, in the order in which they came.
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    lines: HashMap<String, Vec<Kept<T>>>,
    /// The length of its whole lines in bytes.
    whole: u64,
    /// Whether part of a line follows them.
    is_torn: bool,
    /// When the file was last written through to the disk.
    synced: Option<Instant>,
}

/// The rests of the lines of a journal whose results are not discarded, and the length of its whole lines in
/// bytes.
fn rests<'t>(path: &Path, text: &'t [u8]) -> Result<(Vec<&'t [u8]>, usize), JournalError> {
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let lines =
        text[..whole].split_inclusive(|&byte| byte == b'\n').map(|line| rest(&line[..line.len() - 1]));
    let is_ours = match lines.clone().next() {
        Some(first) => first.is_some(),
        // Its first line was never finished.
        None => line(FIRST).starts_with(text),
    };
    if !is_ours {
        return Err(JournalError::Other(path.to_owned()));
    }
    let mut rests = Vec::new();
    for (at, line) in lines.enumerate() {
        match line.ok_or_else(|| JournalError::Changed(path.to_owned(), at + 1))? {
            rest if rest == DISCARDED.as_bytes() => rests.clear(),
            FIRST => {}
            rest => rests.push(rest),
        }
    }
    Ok((rests, whole))
}

/// The results in the rests of lines: name, result, and Unix time in s.
fn results<T: DeserializeOwned>(
    path: &Path,
    rests: Vec<&[u8]>,
) -> Result<Vec<(String, T, u64)>, JournalError> {
    let result = |rest: &[u8]| serde_json::from_slice(&[b"[", rest].concat());
    rests.into_iter().map(result).collect::<Result<_, _>>().map_err(|_| JournalError::Other(path.to_owned()))
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Results that the journal has now.
    pub results: usize,
    /// How many of them were added.
    pub added: usize,
    /// The journals that end in the middle of a line: that line is left out.
    pub torn: Vec<PathBuf>,
}

impl Merged {
    /// Notes for the user, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let note =
            |path: &PathBuf| format!("{} ends in the middle of a line, which is left out", path.display());
        self.torn.iter().map(note).collect()
    }
}

impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} results, {} added", self.results, self.added)
    }
}

/// Adds to the journal `into` those results of other journals that it does not have. Creates the file if it
/// does not exist. Returns the counts of the merge.
///
/// # Errors
/// A journal cannot be read, or the results cannot be written. Nothing is written if one of `others` is no
/// journal.
pub fn merge(into: &Path, others: &[PathBuf]) -> Result<Merged, JournalError> {
    let read = |path: &Path| {
        check_kind(path)?;
        std::fs::read(path).map_err(|error| JournalError::Open(path.to_owned(), error))
    };
    let mut torn = Vec::new();
    for other in others {
        let text = read(other)?;
        let (rests, whole) = rests(other, &text)?;
        results::<IgnoredAny>(other, rests)?;
        torn.extend((whole < text.len()).then(|| other.clone()));
    }
    let mut journal = Journal::<IgnoredAny>::open(into)?;
    let text = read(into)?;
    let mut known: HashSet<Vec<u8>> = rests(into, &text)?.0.into_iter().map(<[u8]>::to_vec).collect();
    let had = known.len();
    for other in others {
        let text = read(other)?;
        for rest in rests(other, &text)?.0 {
            if known.insert(rest.to_vec()) {
                let written = journal.write(rest);
                written.map_err(|error| JournalError::Write(into.to_owned(), error))?;
            }
        }
    }
    Ok(Merged { results: known.len(), added: known.len() - had, torn })
}

/// An error if the path is something that keeps nothing: a device, a folder.
fn check_kind(path: &Path) -> Result<(), JournalError> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let error = io::Error::other("it is not a regular file");
        return Err(JournalError::Open(path.to_owned(), error));
    }
    Ok(())
}

impl<T: DeserializeOwned> Journal<T> {
    /// Opens a file, or makes one, and locks it until the journal is dropped.
    ///
    /// # Errors
    /// All but [`JournalError::Write`].
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |error| JournalError::Open(path.to_owned(), error);
        check_kind(path)?;
        let mut file = File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&file).unwrap_or_else(|| "another kpps".into());
                return Err(JournalError::InUse(path.to_owned(), holder));
            }
            // Some network file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => (),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let (rests, whole) = rests(path, &text)?;
        let mut lines = HashMap::<_, Vec<Kept<T>>>::new();
        for (name, result, at_s) in results(path, rests)? {
            lines.entry(name).or_default().push(Kept { result, at_s });
        }
        let is_torn = whole < text.len();
        Ok(Self { path: path.to_owned(), file, lines, whole: whole as u64, is_torn, synced: None })
    }
}

impl<T> Journal<T> {
    /// The results of this name that were in the file when it was opened.
    pub fn of(&self, name: &str) -> &[Kept<T>] {
        self.lines.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether it had no results when it was opened.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file ends in the middle of a line, in a sentence for the user. That part is dropped.
    pub fn torn(&self) -> Option<String> {
        let path = self.path.display();
        self.is_torn.then(|| {
            format!("{path} ends in the middle of a line, because its last run was killed: this result is measured again")
        })
    }

    /// Writes a result to the file.
    ///
    /// # Errors
    /// [`JournalError::Write`]. Later results may be written nevertheless.
    pub fn keep(&mut self, name: &str, result: &T) -> Result<(), JournalError>
    where
        T: Serialize,
    {
        let rest = serde_json::to_string(&(name, result, now_s()));
        // It is an array, and the checksum is to be its first element.
        let written = rest.map_err(io::Error::from).and_then(|rest| self.write(&rest.as_bytes()[1..]));
        written.map_err(|error| JournalError::Write(self.path.clone(), error))
    }

    /// Discards all results so far. They stay in the file, and are not found again.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn discard(&mut self) -> Result<(), JournalError> {
        self.lines.clear();
        self.write(DISCARDED.as_bytes()).map_err(|error| JournalError::Write(self.path.clone(), error))
    }

    fn write(&mut self, rest: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.whole)?;
        }
        if !is_at(&self.file, &self.path) {
            return Err(io::Error::other("it was removed or replaced meanwhile"));
        }
        let first = if self.whole == 0 { line(FIRST) } else { Vec::new() };
        let line = [first, line(rest)].concat();
        // Until all of it is known to be there.
        self.is_torn = true;
        self.file.write_all(&line)?;
        if self.synced.is_none_or(|synced| synced.elapsed() >= SYNC_EVERY) {
            self.file.sync_data()?;
            self.synced = Some(Instant::now());
        }
        self.is_torn = false;
        self.whole += line.len() as u64;
        Ok(())
    }
}

impl<T> Drop for Journal<T> {
    fn drop(&mut self) {
        // Ignored: such a disk has already failed a write, or will fail the next one.
        let _ = self.file.sync_data();
    }
}

/// Whether the open file is the one at this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |found: std::fs::Metadata| (found.dev(), found.ino());
    file.metadata().map(id).is_ok_and(|open| path.metadata().map(id).is_ok_and(|there| there == open))
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// The process that holds the lock of a file, if this process may see it.
#[cfg(target_os = "linux")]
fn holder(file: &File) -> Option<String> {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let wanted = id(file.metadata().ok()?);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let has_open = |process: &&str| {
        let mut open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        open.any(|link| fs::metadata(link.path()).is_ok_and(|found| id(found) == wanted))
    };
    // Number, kind, whether it is advisory, whether it is for writing, process.
    let mut processes = locks.lines().filter_map(|lock| lock.split_whitespace().nth(4));
    Some(format!("process {}", processes.find(has_open)?))
}

#[cfg(not(target_os = "linux"))]
fn holder(_: &File) -> Option<String> {
    None
}

#[cfg(test)]
impl<T> Journal<T> {
    /// A journal whose file refuses further writes.
    #[allow(clippy::unwrap_used)]
    pub(crate) fn on_a_full_disk(mut self) -> Self {
        self.file = File::open(&self.path).unwrap();
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::Trial;
    use std::fs;

    fn trial(sent: u64) -> Trial {
        Trial { offered_pps: 33_333.333_333_3, sent, ..Trial::default() }
    }

    fn of(journal: &Journal<Trial>, name: &str) -> Vec<u64> {
        journal.of(name).iter().map(|kept| kept.result.sent).collect()
    }

    fn append(path: &Path, bytes: &[u8]) {
        File::options().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    #[test]
    fn a_merge_takes_only_results() {
        let folder = tempfile::tempdir().unwrap();
        let [into, other, wrong] = ["into", "other", "wrong"].map(|name| folder.path().join(name));
        Journal::open(&other).unwrap().keep("one", &trial(1)).unwrap();
        // A right checksum, and no result.
        fs::write(&wrong, line(b"\"one\",7]")).unwrap();
        let refused = merge(&into, &[other.clone(), wrong]);
        assert!(matches!(refused, Err(JournalError::Other(path)) if path.ends_with("wrong")));
        assert!(!into.exists());
        append(&other, b"[\"half");
        let merged = merge(&into, &[other.clone(), other.clone()]).unwrap();
        assert_eq!(merged, Merged { results: 1, added: 1, torn: vec![other.clone(), other] });
        assert_eq!(of(&Journal::open(&into).unwrap(), "one"), [1]);
    }

    #[test]
    fn results_are_found_again_after_a_run_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let open = || Journal::<Trial>::open(&path).unwrap();
        let mut journal = open();
        for sent in [1, 2] {
            journal.keep("one", &trial(sent)).unwrap();
        }
        drop(journal);
        // Killed in the middle of a line.
        let text = fs::read(&path).unwrap();
        let half = &text[text.len() - 40..text.len() - 20];
        append(&path, half);
        let mut journal = open();
        assert_eq!((of(&journal, "one"), of(&journal, "two")), (vec![1, 2], vec![]));
        assert!(journal.of("one")[0].age_s() < 60 && journal.torn().is_some());
        for sent in [3, 4] {
            journal.keep("two", &trial(sent)).unwrap();
        }
        drop(journal);
        let mut journal = open();
        assert_eq!((of(&journal, "one"), of(&journal, "two")), (vec![1, 2], vec![3, 4]));
        assert_eq!(journal.torn(), None, "half of a line is dropped");

        journal.discard().unwrap();
        journal.keep("two", &trial(5)).unwrap();
        drop(journal);
        let journal = open();
        let found = (of(&journal, "one"), of(&journal, "two"));
        assert_eq!(found, (vec![], vec![5]), "the discarded are not found");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 7, "and stay in the file");
    }

    #[test]
    fn another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis");
        let hashes = "[\"deadbeef\",\"cafebabe\"]";
        for text in ["years of work", "years\nof work\n", "[\"a\",\"b\"]", "[\"name\",{},17]\n", hashes] {
            fs::write(&path, text).unwrap();
            let error = Journal::<Trial>::open(&path).err().unwrap();
            assert!(matches!(error, JournalError::Other(_)), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::remove_file(&path).unwrap();
        Journal::open(&path).unwrap().keep("a study's", &1.5).unwrap();
        assert!(matches!(Journal::<Trial>::open(&path), Err(JournalError::Other(_))));
    }

    /// Whichever byte of a line is another one, the line is refused by its number.
    #[test]
    fn a_changed_line_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let mut journal = Journal::open(&path).unwrap();
        for sent in [1, 2, 3] {
            journal.keep("one", &trial(sent)).unwrap();
        }
        drop(journal);
        let good = fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = good.split_inclusive(|&byte| byte == b'\n').collect();
        let [first, second] = [lines[0].len(), lines[1].len()];
        let (second, third) = (first + second, first + second + lines[2].len());
        for at in second..third - 1 {
            let mut changed = good.clone();
            changed[at] = if changed[at] == b'7' { b'8' } else { b'7' };
            fs::write(&path, &changed).unwrap();
            let error = Journal::<Trial>::open(&path).err().unwrap();
            assert!(matches!(error, JournalError::Changed(_, 3)), "{at}: {error}");
            assert!(error.to_string().starts_with("line 3 of "), "{error}");
            assert_eq!(fs::read(&path).unwrap(), changed);
        }
        // The remedy in the message helps.
        fs::write(&path, [lines[0], lines[1], lines[3]].concat()).unwrap();
        assert_eq!(of(&Journal::open(&path).unwrap(), "one"), [1, 3]);
    }

    #[test]
    fn a_second_writer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let first = Journal::<Trial>::open(&path).unwrap();
        let error = Journal::<Trial>::open(&path).err().unwrap().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("in use"), "{error}");
        if cfg!(target_os = "linux") {
            assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        }
        drop(first);
        Journal::<Trial>::open(&path).unwrap();
    }

    #[test]
    fn a_write_that_fails_leaves_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let mut journal = Journal::open(&path).unwrap();
        journal.keep("one", &trial(1)).unwrap();
        let writable = journal.file.try_clone().unwrap();
        let mut journal = journal.on_a_full_disk();
        assert!(matches!(journal.keep("one", &trial(2)), Err(JournalError::Write(..))));
        append(&path, b"what the disk still took of it");
        journal.file = writable;
        journal.keep("one", &trial(3)).unwrap();
        drop(journal);
        assert_eq!(of(&Journal::open(&path).unwrap(), "one"), [1, 3]);
    }

    /// Wherever a process is killed while it writes the first lines, the rest is a journal.
    #[test]
    fn each_beginning_of_a_journal_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        Journal::open(&path).unwrap().keep("one", &trial(1)).unwrap();
        let text = fs::read(&path).unwrap();
        for bytes in 0..=text.len() {
            fs::write(&path, &text[..bytes]).unwrap();
            let mut journal = Journal::<Trial>::open(&path).unwrap();
            assert_eq!(of(&journal, "one").len(), usize::from(bytes == text.len()));
            journal.keep("two", &trial(2)).unwrap();
            drop(journal);
            assert_eq!(of(&Journal::open(&path).unwrap(), "two"), [2]);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_journal_that_was_removed_or_replaced_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let mut journal = Journal::open(&path).unwrap();
        journal.keep("one", &trial(1)).unwrap();
        fs::remove_file(&path).unwrap();
        let told = |journal: &mut Journal<Trial>| journal.keep("one", &trial(2)).unwrap_err().to_string();
        assert!(told(&mut journal).contains("it was removed or replaced meanwhile"));
        let other = Journal::<Trial>::open(&path).unwrap();
        assert!(told(&mut journal).contains("it was removed or replaced meanwhile"));
        assert!(other.is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_keeps_nothing() {
        for path in ["/dev/null", "/dev/full", "/dev/zero"] {
            assert!(matches!(Journal::<Trial>::open(Path::new(path)), Err(JournalError::Open(..))), "{path}");
        }
    }
}
