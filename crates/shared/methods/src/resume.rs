//! Resuming: which results of an earlier run a run may use.
//!
//! The key of a result describes the system under test as far as it is known, but the system may have
//! changed. So one kept result is measured again before any is used: up to three times, because a single
//! trial may be an outlier. If all differ from it, none is used.

use crate::error::Error;
use crate::journal::{Journal, JournalError, Kept};
use crate::observer::Observer;
use kpps_documents::{Limit, Trial};
use std::collections::BTreeSet;

/// The largest difference of the delivered share of one system, as a share of the higher one. Rates of
/// repeated trials on a quiet host are within 3 %. Frames that were not sent are the generator's shortfall,
/// and are not compared.
const SAME_DELIVERY: f64 = 0.05;
/// The largest difference of two loss ratios of one system, and its largest share of the higher one. Below a
/// thousandth of the frames no difference counts: hosts drop a few frames now and then.
const SAME_LOSS: f64 = 0.02;
const SAME_LOSS_SHARE: f64 = 0.5;
const FEW_LOST: f64 = 0.001;
/// The largest ratio of the median latencies of one system, and the smallest difference that counts: queues
/// of this host sometimes add tens of microseconds.
const SAME_LATENCY: u64 = 2;
const SAME_LATENCY_NS: u64 = 100_000;
/// How often a kept result is measured again before it is that of another system.
const TRIES: u32 = 3;

/// The results of an earlier run, and those of this one.
pub struct Resume {
    journal: Journal<Trial>,
    /// Whether equal trials have equal results: in the simulator. Results then have no age.
    exact: bool,
    /// Whether kept trials were measured again and did not differ: all of `to_confirm`, or any if there are
    /// none.
    trusted: bool,
    /// The names of kept trials that have to be measured again before any is used.
    to_confirm: BTreeSet<String>,
    /// How often one was measured again and differed.
    differed: u32,
    /// Why the first of the results that are not in the journal could not be written.
    failed: Option<JournalError>,
}

impl Resume {
    /// Resumes from a journal. `exact`: equal trials have equal results, as in the simulator.
    pub fn new(journal: Journal<Trial>, exact: bool) -> Self {
        Self { journal, exact, trusted: false, to_confirm: BTreeSet::new(), differed: 0, failed: None }
    }

    /// The kept result with this name, with its age; of several, the one at `place`, or the last one. `None`
    /// if it has to be measured, and then given to [`add`](Self::add).
    pub fn find(&self, name: &str, place: Option<usize>) -> Option<Trial> {
        let kept = self.trusted.then(|| self.kept(name, place))??;
        let age_s = (!self.exact).then(|| kept.age_s());
        Some(Trial { age_s, ..kept.result.clone() })
    }

    fn kept(&self, name: &str, place: Option<usize>) -> Option<&Kept<Trial>> {
        let kept = self.journal.of(name);
        place.map_or(kept.last(), |place| kept.get(place))
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.journal.is_empty()
    }

    /// Whether a result with this name is kept.
    pub fn has(&self, name: &str) -> bool {
        !self.journal.of(name).is_empty()
    }

    /// Whether a result with this name is kept, and no kept result was measured again yet.
    pub fn is_to_check(&self, name: &str) -> bool {
        !self.trusted && self.has(name)
    }

    /// Which of the results with these names and frame sizes in bytes to measure again before any kept result
    /// is used: the kept result with the most frames per second, and the kept result with the most bits per
    /// second. Some systems are limited by frames, others by bits.
    pub fn to_check<'n>(&mut self, cells: impl IntoIterator<Item = (&'n str, u32)>) -> Vec<usize> {
        let mut most: [Option<(f64, usize, &str)>; 2] = [None; 2];
        for (at, (name, bytes)) in cells.into_iter().enumerate() {
            let Some(kept) = self.journal.of(name).last().filter(|_| !self.trusted) else { continue };
            let pps = kept.result.offered_pps;
            for (most, load) in most.iter_mut().zip([pps, pps * f64::from(bytes)]) {
                if most.is_none_or(|(other, ..)| other < load) {
                    *most = Some((load, at, name));
                }
            }
        }
        self.to_confirm = most.iter().flatten().map(|(_, _, name)| (*name).to_owned()).collect();
        let mut indices: Vec<_> = most.into_iter().flatten().map(|(_, at, _)| at).collect();
        indices.dedup();
        indices
    }

    /// Adds a result that was measured now, with a name and a place as [`find`](Self::find) has them. The
    /// first new result that also has a kept one is compared with it, and so are those of
    /// [`to_check`](Self::to_check). If they agree, kept results are used from now on; after three
    /// disagreements none is, and the observer gets a message. Returns false if another measurement is needed
    /// to decide. A result that the journal cannot take is reported once, and again at the end by
    /// [`close`](Self::close): the measurement is worth more than its copy.
    pub fn add(&mut self, name: &str, place: Option<usize>, new: &Trial, observer: &dyn Observer) -> bool {
        let kept = self.kept(name, place).filter(|_| !self.trusted).map(|kept| kept.result.clone());
        if let Some(kept) = kept {
            if self.is_same(&kept, new) {
                self.to_confirm.remove(name);
                self.trusted = self.to_confirm.is_empty();
                return true;
            }
            self.differed += 1;
            if self.differed < TRIES && !self.exact {
                return false;
            }
            let (path, load) = (self.journal.path().display(), new.offered_pps / 1e3);
            observer.notice(&match disturbed_by(&kept, new) {
                Some(what) => format!(
                    "no result of {path} is used, because none could be confirmed: the new trial at {load:.1} kpps shows {what}"
                ),
                None => format!(
                    "no result of {path} is used, because it is of another system: at {load:.1} kpps the new trial delivered {}, the kept trial {}",
                    delivered(new),
                    delivered(&kept),
                ),
            });
            self.to_confirm.clear();
            let discarded = self.journal.discard();
            self.note(discarded, observer);
        }
        let kept = self.journal.keep(name, new);
        self.note(kept, observer);
        true
    }

    fn note(&mut self, written: Result<(), JournalError>, observer: &dyn Observer) {
        if let (Err(error), None) = (written, &self.failed) {
            observer.notice(&format!(
                "{error}; results that are not in the file are shown at the end all the same"
            ));
            self.failed = Some(error);
        }
    }

    /// Ends the use of the journal.
    ///
    /// # Errors
    /// Results are missing in it.
    pub fn close(self) -> Result<(), Error> {
        self.failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn is_same(&self, old: &Trial, new: &Trial) -> bool {
        if self.exact {
            return old == new;
        }
        if disturbed_by(old, new).is_some() {
            return false;
        }
        if let Some((old_ns, new_ns)) = old.latency_ns.p50.zip(new.latency_ns.p50) {
            let error_ns = old.latency_ns.error_ns.unwrap_or(0) + new.latency_ns.error_ns.unwrap_or(0);
            let (less, more) = (old_ns.min(new_ns), old_ns.max(new_ns));
            if more > SAME_LATENCY * less && more - less > SAME_LATENCY_NS + error_ns {
                return false;
            }
        }
        let difference = (old.loss_ratio - new.loss_ratio).abs();
        let most_delivered = 1.0 - old.loss_ratio.min(new.loss_ratio);
        let same_share = difference <= FEW_LOST.max(SAME_LOSS_SHARE * old.loss_ratio.max(new.loss_ratio));
        same_share && difference <= SAME_LOSS && difference <= SAME_DELIVERY * most_delivered
    }
}

/// The limit or disturbance of the new trial that the old trial did not have. Such a trial confirms no result
/// of the device under test.
fn disturbed_by(old: &Trial, new: &Trial) -> Option<&'static str> {
    let what = new.limit().map_or("a disturbance", Limit::words);
    (old.is_of_the_device() && !new.is_of_the_device()).then_some(what)
}

/// The delivered frames of a trial, in words.
fn delivered(trial: &Trial) -> String {
    let p50 = trial.latency_ns.p50.map(|ns| format!(", p50 {:.1} µs", ns as f64 / 1e3)).unwrap_or_default();
    format!("{:.1} kpps with {:.2} % loss{p50}", trial.delivered_pps / 1e3, trial.loss_ratio * 100.0)
}

/// The result with this name: of an earlier run, or what the closure `measure` returns. Of several with one
/// name, the one at `place`.
///
/// # Errors
/// Errors of `measure`.
pub(crate) fn measured(
    resume: &mut Option<Resume>,
    name: &str,
    place: Option<usize>,
    observer: &dyn Observer,
    mut measure: impl FnMut() -> Result<Trial, Error>,
) -> Result<Trial, Error> {
    let Some(resume) = resume else { return measure() };
    if let Some(trial) = resume.find(name, place) {
        return Ok(trial);
    }
    loop {
        let trial = measure()?;
        if resume.add(name, place, &trial, observer) {
            return Ok(resume.find(name, place).unwrap_or(trial));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::cell::Cell;
    use std::path::Path;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Notices(Mutex<Vec<String>>);

    impl Observer for Notices {
        fn notice(&self, what: &str) {
            self.0.lock().unwrap().push(what.to_owned());
        }
    }

    /// A system that delivers up to a rate, measured at these loads; the number of trials and the results.
    fn run(path: &Path, exact: bool, rate_pps: u64, loads: &[u64], notices: &Notices) -> (u32, Vec<Trial>) {
        let mut resume = Some(Resume::new(Journal::open(path).unwrap(), exact));
        let trials = Cell::new(0);
        let mut one = |load: u64| {
            measured(&mut resume, &format!("{load} pps"), None, notices, || {
                trials.set(trials.get() + 1);
                let ledger = kpps_documents::Ledger::default();
                Ok(Trial::new(load as f64, 1.0, [load, 0, load.min(rate_pps)], ledger).unwrap())
            })
        };
        let trials_of = loads.iter().map(|&load| one(load).unwrap()).collect();
        (trials.get(), trials_of)
    }

    #[test]
    fn one_kept_result_is_measured_again_before_the_others_are_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let notices = Notices::default();
        assert_eq!(run(&path, false, 700, &[1000, 500], &notices).0, 2);
        let (trials, resumed) = run(&path, false, 710, &[1000, 500, 200], &notices);
        assert_eq!(trials, 2, "the first again, and the missing one");
        let ages: Vec<_> = resumed.iter().map(|trial| trial.age_s.is_some()).collect();
        assert_eq!(ages, [true, true, false]);
        assert_eq!((resumed[0].delivered, notices.0.lock().unwrap().len()), (700, 0));
    }

    #[test]
    fn another_latency_is_another_system_and_a_disturbed_trial_confirms_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let resume = Resume::new(Journal::open(&folder.path().join("kept")).unwrap(), false);
        let trial = |shortfall, p50| {
            let ledger = kpps_documents::Ledger::default();
            let trial =
                Trial::new(1e3, 1.0, [1000 - shortfall, shortfall, 1000 - shortfall], ledger).unwrap();
            Trial { latency_ns: kpps_documents::Latency { p50, ..Default::default() }, ..trial }
        };
        let old = trial(0, Some(20_000));
        for (new, same) in [
            (trial(0, Some(110_000)), true),
            (trial(0, Some(1_020_000)), false),
            (trial(0, None), true),
            (trial(600, Some(20_000)), false),
        ] {
            assert_eq!(resume.is_same(&old, &new), same, "{new:?}");
        }
        assert!(!resume.is_same(&trial(0, Some(1_020_000)), &old));
        assert!(resume.is_same(&trial(600, None), &trial(700, None)), "beyond the tester both times");
    }

    #[test]
    fn nothing_is_used_if_the_system_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let notices = Notices::default();
        run(&path, false, 700, &[1000, 500], &notices);
        let (trials, results) = run(&path, false, 100, &[1000, 500], &notices);
        assert_eq!((trials, results[1].delivered), (4, 100), "one three times");
        let said = notices.0.lock().unwrap().clone();
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains("is used, because it is of another system")
                && said[0].contains("0.7 kpps with 30.00 %"),
            "{said:?}"
        );
        assert_eq!(run(&path, false, 100, &[1000, 500], &notices).0, 1, "the new ones are kept");
    }

    #[test]
    fn in_the_simulator_results_must_be_equal_and_have_no_age() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let notices = Notices::default();
        let first = run(&path, true, 700, &[1000, 500], &notices).1;
        assert_eq!(run(&path, true, 700, &[1000, 500], &notices), (1, first));
        assert_eq!(run(&path, true, 699, &[1000, 500], &notices).0, 2);
    }

    #[test]
    fn what_the_journal_cannot_take_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let notices = Notices::default();
        let mut resume = Some(Resume::new(Journal::open(&path).unwrap().on_a_full_disk(), false));
        for sent in [1, 2] {
            let trial = || Ok(Trial { sent, ..Trial::default() });
            assert_eq!(measured(&mut resume, "one", None, &notices, trial).unwrap().sent, sent);
        }
        let said = notices.0.lock().unwrap().clone();
        assert_eq!(said.len(), 1, "once: {said:?}");
        assert!(said[0].starts_with("cannot write "), "{said:?}");
        assert!(matches!(resume.unwrap().close(), Err(Error::Failed(_))));
    }

    #[test]
    fn of_several_with_one_name_each_is_compared_with_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let run = || {
            let mut resume = Some(Resume::new(Journal::open(&path).unwrap(), false));
            let trial = |sent| Trial { sent, loss_ratio: 1.0 / sent as f64 * 100.0, ..Trial::default() };
            let one = |(place, sent)| {
                measured(&mut resume, "search", Some(place), &(), || Ok(trial(sent))).unwrap()
            };
            [1000, 500]
                .into_iter()
                .enumerate()
                .map(one)
                .map(|trial| trial.age_s.is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!((run(), run()), (vec![false, false], vec![true, true]));
    }

    #[test]
    fn the_highest_kept_loads_are_checked_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        run(&path, false, 700, &[100, 1000, 500], &Notices::default());
        let mut resume = Resume::new(Journal::open(&path).unwrap(), false);
        let names = [50, 100, 1000, 500, 2000].map(|load| format!("{load} pps"));
        let cells = |bytes: [u32; 5]| names.iter().map(String::as_str).zip(bytes).collect::<Vec<_>>();
        assert_eq!(resume.to_check(cells([64; 5])), [2]);
        assert_eq!(resume.to_check(cells([1518, 64, 64, 1518, 64])), [2, 3], "most frames, most bits");
        assert_eq!(resume.to_check([("50 pps", 64)]), [0; 0]);
    }

    /// A system that is limited in bits differs at its long frames only. A system that drops a few frames
    /// differs from a system that drops none.
    #[test]
    fn bits_are_confirmed_too_and_no_loss_is_not_some_loss() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let trial = |pps: f64, lost: u64| {
            let sent = pps as u64;
            Trial::new(pps, 1.0, [sent, 0, sent - lost], kpps_documents::Ledger::default()).unwrap()
        };
        let cells = [("64 B", 64), ("1518 B", 1518)];
        let mut resume = Resume::new(Journal::open(&path).unwrap(), false);
        cells.iter().for_each(|(name, _)| assert!(resume.add(name, None, &trial(2000.0, 0), &())));
        drop(resume);
        let mut resume = Resume::new(Journal::open(&path).unwrap(), false);
        assert_eq!(resume.to_check(cells), [0, 1]);
        assert!(resume.add("64 B", None, &trial(2000.0, 0), &()));
        assert!(resume.find("64 B", None).is_none(), "the other is to be confirmed, too");
        let again = [(); 3].map(|()| resume.add("1518 B", None, &trial(2000.0, 1200), &()));
        assert_eq!(again, [false, false, true]);
        assert!(resume.find("64 B", None).is_none(), "of another system");
        for (old, new, same) in
            [(0, 33, false), (0, 1, true), (1, 2, true), (20, 60, false), (400, 420, true)]
        {
            assert_eq!(resume.is_same(&trial(2000.0, old), &trial(2000.0, new)), same, "{old} and {new}");
        }
    }
}
