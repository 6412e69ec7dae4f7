//! Measurements that need not be repeated, kept in a journal: simulations, which are the same each time, and
//! guests on the clock of instructions, which are nearly so. Measurements that may change between two runs
//! are in [`resume`](crate::resume) instead.

use crate::error::Error;
use crate::journal::{Journal, JournalError};
use crate::trial::TrialError;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

/// Finished measurements, found again by a name that contains all that their results depend on.
pub struct Finished<T> {
    journal: Option<Mutex<Journal<T>>>,
    /// The version that all measurements depend on: this program and its profiles.
    program: String,
    /// Why the last of the results that are not in the journal could not be written.
    failed: Mutex<Option<JournalError>>,
}

impl<T> Default for Finished<T> {
    fn default() -> Self {
        Self { journal: None, program: String::new(), failed: Mutex::default() }
    }
}

impl<T: Clone + Serialize> Finished<T> {
    /// The measurements of a journal, if there is one; otherwise nothing is found or kept. All measurements
    /// depend on `program`, besides the build of this program.
    pub fn new(journal: Option<Journal<T>>, program: &str) -> Self {
        let program = match journal {
            Some(_) => format!("{program} {}", build()),
            None => String::new(),
        };
        Self { journal: journal.map(Mutex::new), program, failed: Mutex::default() }
    }

    /// Whether there is a journal.
    pub fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// The kept result of this name.
    pub fn find(&self, name: &str) -> Option<T> {
        let journal = self.journal.as_ref()?.lock().ok()?;
        journal.of(&format!("{} {name}", self.program)).last().map(|kept| kept.result.clone())
    }

    /// Keeps a result. [`close`](Self::close) reports it if the journal could not take the result: the
    /// measurement is worth more than its copy.
    pub fn keep(&self, name: &str, result: &T) {
        let Some(Ok(mut journal)) = self.journal.as_ref().map(Mutex::lock) else { return };
        if let Err(error) = journal.keep(&format!("{} {name}", self.program), result)
            && let Ok(mut failed) = self.failed.lock()
        {
            *failed = Some(error);
        }
    }

    /// The result with each of these settings, found or measured and kept, in their order. An interruption
    /// ends it, and those so far are returned.
    ///
    /// # Errors
    /// A measurement that failed.
    pub fn each<S: Debug>(
        &self,
        settings: &[S],
        mut measure: impl FnMut(&S) -> Result<T, TrialError>,
    ) -> Result<Vec<T>, TrialError> {
        let mut results = Vec::with_capacity(settings.len());
        for one in settings {
            let name = name(one);
            let result = match self.find(&name) {
                Some(found) => found,
                None => match measure(one) {
                    Err(TrialError::Interrupted) => break,
                    measured => measured.inspect(|result| self.keep(&name, result))?,
                },
            };
            results.push(result);
        }
        Ok(results)
    }

    /// Ends the use of the journal.
    ///
    /// # Errors
    /// A result could not be written.
    pub fn close(self) -> Result<(), Error> {
        match self.failed.into_inner() {
            Ok(Some(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The name of a measurement with these settings: a hash, as they are long.
pub fn name(settings: &impl Debug) -> String {
    digest(format!("{settings:?}").as_bytes())
}

/// A hash of these bytes: 32 hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The build of this program: a checksum of the file that this function is in, be it an executable or a
/// library.
fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let file = mapped(build as fn() -> &'static str as usize).or_else(|| std::env::current_exe().ok());
        // A program that cannot be read has no name, and finds only results that other such programs have
        // kept.
        let bytes = file.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        format!("{:08x}-{}", crc32fast::hash(&bytes), bytes.len())
    })
}

/// The file that is mapped at an address (proc_pid_maps(5)).
fn mapped(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (first, end) = range.split_once('-')?;
        let file = rest.find('/').map(|at| PathBuf::from(&rest[at..]))?;
        (number(first)?..number(end)?).contains(&address).then_some(file)
    })
}

/// Bytes of a name.
const NAME_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The results of settings 1 to 4, if the third measurement is interrupted or fails.
    fn run(finished: &Finished<u32>, third: impl Fn() -> Result<u32, TrialError>) -> (Vec<u32>, Vec<u32>) {
        let mut measured = Vec::new();
        let results = finished.each(&[1_u32, 2, 3, 4], |&setting| {
            let result = if setting == 3 { third() } else { Ok(10 * setting) };
            result.inspect(|_| measured.push(setting))
        });
        (results.unwrap(), measured)
    }

    #[test]
    fn an_interrupted_run_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let open = |program: &str| Finished::new(Some(Journal::open(&path).unwrap()), program);
        let interrupted = run(&open("kpps 1"), || Err(TrialError::Interrupted));
        assert_eq!(interrupted, (vec![10, 20], vec![1, 2]));
        assert_eq!(run(&open("kpps 1"), || Ok(30)), (vec![10, 20, 30, 40], vec![3, 4]));
        assert_eq!(run(&open("kpps 1"), || Ok(31)), (vec![10, 20, 30, 40], vec![]), "all are found");
        let other = run(&open("kpps 2"), || Ok(30));
        assert_eq!(other.1, [1, 2, 3, 4], "another program has other results");
        assert_eq!(run(&Finished::default(), || Ok(30)).1, [1, 2, 3, 4], "without a journal none is found");
    }

    #[test]
    fn a_result_that_the_journal_cannot_take_is_returned_all_the_same_and_told_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(&folder.path().join("kept")).unwrap().on_a_full_disk();
        let finished = Finished::new(Some(journal), "kpps");
        assert_eq!(run(&finished, || Ok(30)).0, [10, 20, 30, 40]);
        assert!(finished.close().unwrap_err().to_string().contains("cannot write"));
    }

    #[test]
    fn a_build_is_known_by_the_file_that_it_runs_from() {
        let own = std::env::current_exe().unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(mapped(build as fn() -> &'static str as usize), Some(own.clone()));
        }
        let bytes = std::fs::read(own).unwrap();
        assert_eq!(build(), format!("{:08x}-{}", crc32fast::hash(&bytes), bytes.len()));
        assert_eq!(mapped(0), None);
    }

    #[test]
    fn a_failed_measurement_is_no_result() {
        let finished = Finished::<u32>::default();
        let failed = finished.each(&[1, 2], |_| Err(TrialError::Testbed("no".into())));
        assert!(matches!(failed, Err(TrialError::Testbed(_))));
    }
}
