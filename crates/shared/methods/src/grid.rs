//! Grids: a trial for each combination of parameters, on all cores, on one testbed or on an engine of many
//! machines, resumed from an earlier run.

use crate::error::Error;
use crate::finished::digest;
use crate::observer::{Observer, in_words};
use crate::points::{Points, of_frames};
use crate::resume::Resume;
use crate::trial::{Load, Testbed, TrialError};
use crate::units::RateSpec;
use crate::workers::on_all_cpus;
use kpps_documents::grid::{Axis, Cell, Setting};
use kpps_documents::{Environment, Trial};
use std::cell::{OnceCell, RefCell};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most cells that a grid may have.
const MOST_CELLS: usize = 1_000_000;

/// The search for a measurable cell ends after this number of cells.
const MOST_TRIED: usize = 1000;

/// The number of values that do not fit the first cell for which another cell is searched.
const MOST_SEARCHES: usize = 10;

/// The number of cells that such a search tries.
const MOST_SEARCHED: usize = 100;

/// The cells of a grid: every combination of the values of its axes. The last axis varies fastest.
pub struct Combinations<'a> {
    axes: &'a [Axis],
    count: usize,
}

impl<'a> Combinations<'a> {
    /// The combinations of these axes.
    ///
    /// # Errors
    /// More than a million, in one line.
    pub fn of(axes: &'a [Axis]) -> Result<Self, String> {
        let mut lengths = axes.iter().map(|axis| axis.values.len());
        match lengths.try_fold(1_usize, |product, length| product.checked_mul(length)) {
            Some(count) if count <= MOST_CELLS => Ok(Self { axes, count }),
            _ => Err(format!("the grid has more than {MOST_CELLS} cells: give fewer values")),
        }
    }

    /// The axes.
    pub fn axes(&self) -> &'a [Axis] {
        self.axes
    }

    /// The numbers of the cells.
    pub fn numbers(&self) -> std::ops::Range<usize> {
        0..self.count
    }

    /// The cell with this number: the place of its value on each axis.
    pub fn at(&self, number: usize) -> Vec<usize> {
        let mut rest = number;
        let place = |axis: &Axis| {
            let place = rest % axis.values.len();
            rest /= axis.values.len();
            place
        };
        let mut at: Vec<usize> = self.axes.iter().rev().map(place).collect();
        at.reverse();
        at
    }

    /// The values of the cell with this number.
    pub fn values(&self, number: usize) -> impl Iterator<Item = &'a Setting> {
        self.axes.iter().zip(self.at(number)).filter_map(|(axis, at)| axis.values.get(at))
    }

    /// The settings of a cell on the axes.
    fn settings(&self, cell: usize) -> String {
        let values = self.axes.iter().zip(self.values(cell));
        values.map(|(axis, value)| format!("{}={value} ", axis.parameter)).collect()
    }

    /// The first cell that can be measured among the first `most` of those that `tries` chooses, and its job.
    fn measurable<'j>(
        &self,
        job: &impl Fn(&[usize]) -> Result<Job<'j>, String>,
        most: usize,
        tries: impl Fn(&[usize]) -> bool,
    ) -> Result<(Vec<usize>, Job<'j>), String> {
        let mut problem = None;
        let cells = self.numbers().map(|number| self.at(number)).filter(|at| tries(at)).take(most);
        for at in cells {
            match job(&at) {
                Ok(job) => return Ok((at, job)),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        Err(problem.unwrap_or_else(|| "there are no values".into()))
    }

    /// The environment of the grid: what the environments of its cells have in common. One cell is compared
    /// for each of the first values of each axis. `job` is as in [`Cells::on_all_cores`].
    ///
    /// # Errors
    /// The problem of the first cell, if none can be measured.
    pub fn environment<'j>(
        &self,
        job: impl Fn(&[usize]) -> Result<Job<'j>, String>,
    ) -> Result<Environment, String> {
        let (first, Job { mut environment, .. }) = self.measurable(&job, usize::MAX, |_| true)?;
        let mut searches = MOST_SEARCHES;
        for (axis, values) in self.axes.iter().enumerate() {
            for value in 0..values.values.len().min(MOST_TRIED) {
                let mut at = first.clone();
                if at.get(axis).is_none_or(|&of_first| of_first == value) {
                    continue;
                }
                at[axis] = value;
                // A value that does not fit the first cell may fit other values of the other axes.
                let other = job(&at).or_else(|problem| {
                    searches = searches.checked_sub(1).ok_or(problem)?;
                    let has_value = |at: &[usize]| at.get(axis) == Some(&value);
                    self.measurable(&job, MOST_SEARCHED, has_value).map(|(_, job)| job)
                });
                if let Ok(job) = other {
                    environment = environment.in_common(&job.environment);
                }
            }
        }
        Ok(environment)
    }

    /// The key of the first cell that can be measured: it has the settings that all cells share.
    fn first_key<'j>(&self, job: &impl Fn(&[usize]) -> Result<Job<'j>, String>) -> Option<String> {
        self.measurable(job, MOST_TRIED, |_| true).ok().map(|(_, job)| job.key)
    }

    /// The key of a cell that cannot be measured: its settings after [`first_key`](Self::first_key).
    fn failed_key(&self, first: Option<&str>, cell: usize) -> String {
        format!("{} but {}", first.unwrap_or_default(), self.settings(cell))
    }

    /// The name of a cell: a hash of its key, which has all that its result depends on.
    pub fn name(&self, outcome: &Outcome) -> String {
        digest(outcome.key.clone().unwrap_or_else(|| self.settings(outcome.cell)).as_bytes())
    }
}

/// A share of the cells, for one of several runs: `2/8` is every eighth cell from the second on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&number).then_some(Self { number, of })
        });
        parsed.ok_or_else(|| format!("'{text}' is no share like 2/8: the second of eight"))
    }
}

impl Shard {
    /// The subset of these cells that belongs to the shard.
    pub fn of(self, cells: impl Iterator<Item = usize>) -> Vec<usize> {
        cells.skip(self.number - 1).step_by(self.of).collect()
    }
}

/// How one cell is measured.
pub struct Job<'j> {
    /// The cell's name among kept results: all settings that its result depends on.
    pub key: String,
    /// The testbed, the sizes and the load.
    pub environment: Environment,
    /// Measures it.
    pub measure: Box<dyn FnMut() -> Result<Trial, TrialError> + 'j>,
}

impl<'j> Job<'j> {
    /// The job to offer `load` at the rate `offered`, on a wire that carries `line_pps` of these frames.
    /// `testbed` is the environment without the fields that sizes and times determine, and `set` are changed
    /// constants. `measure` offers the load.
    pub fn new(
        (offered, load): (RateSpec, Load),
        line_pps: f64,
        testbed: Environment,
        set: &[String],
        mut measure: impl FnMut(&Load) -> Result<Trial, TrialError> + 'j,
    ) -> Self {
        let offered_pps = offered.pps(line_pps, load.sizes.mean_bytes_with_fcs());
        let load = load.at(offered_pps);
        let environment = of_frames(testbed, &load);
        let mut set = set.to_vec();
        set.sort_unstable();
        let described = serde_json::to_string(&environment).unwrap_or_default();
        let key = format!("{described} {offered_pps} {}", set.join(" ")).trim_end().to_owned();
        Self { key, environment, measure: Box::new(move || measure(&load)) }
    }
}

/// A testbed that all cells share.
pub struct Shared {
    points: RefCell<Points>,
    environment: Environment,
}

impl Shared {
    /// A testbed with the environment of its results, without what frames and load determine.
    pub fn new(testbed: Box<dyn Testbed>, environment: Environment) -> Self {
        Self { points: RefCell::new(Points::new(testbed)), environment }
    }

    /// The job of a cell, as [`Job::new`] has it.
    ///
    /// # Errors
    /// The testbed cannot send these sizes.
    pub fn job<'j>(
        &'j self,
        offer: (RateSpec, Load),
        go_on: &'j dyn Fn() -> bool,
        observer: &'j dyn Observer,
    ) -> Result<Job<'j>, String> {
        let sizes = &offer.1.sizes;
        let rates = |points: &Points| Ok((points.line_rate_pps(sizes)?, points.known_line_rate_pps(sizes)?));
        let (line_pps, known_pps) =
            rates(&self.points.borrow()).map_err(|error: TrialError| error.to_string())?;
        let environment = self.environment.clone().with_line_rate(known_pps);
        Ok(Job::new(offer, line_pps, environment, &[], move |load| {
            observer.begins(&in_words(load), load.rate.pps());
            self.points.borrow_mut().measure(load, go_on)
        }))
    }
}

/// A cell that was measured somewhere else, or that an earlier run has measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The cell's number.
    pub cell: usize,
    /// Its name among kept results, that of its [`Job`]. A cell without a job, whose settings fit no testbed,
    /// is not kept; it has a name of its own, or `None` if its worker was lost.
    pub key: Option<String>,
    /// The result, or the reason why there is none.
    pub result: Result<Trial, String>,
}

/// Machines that measure cells.
pub trait Engine: Send + Sync {
    /// Measures the cells with these numbers and hands over the results of each worker together, until all
    /// are measured or the work is to end. `kept` are the cells that an earlier run has measured.
    ///
    /// # Errors
    /// Why the engine cannot go on, in one line.
    fn measure(
        &self,
        all: &Combinations<'_>,
        kept: &[Outcome],
        cells: &[usize],
        take: &mut dyn FnMut(Vec<Outcome>),
    ) -> Result<(), String>;
}

/// Measures the cells with these numbers one after the other, on this thread, as far as they are not
/// interrupted. `job` is as in [`Cells::on_all_cores`].
pub fn outcomes<'j>(
    all: &Combinations<'_>,
    cells: &[usize],
    job: impl Fn(&[usize]) -> Result<Job<'j>, String>,
) -> Vec<Outcome> {
    let first = OnceCell::new();
    let outcome = |&cell: &usize| match job(&all.at(cell)) {
        Err(problem) => {
            let first = first.get_or_init(|| all.first_key(&job));
            Some(Outcome { cell, key: Some(all.failed_key(first.as_deref(), cell)), result: Err(problem) })
        }
        Ok(mut job) => match (job.measure)() {
            Err(TrialError::Interrupted) => None,
            result => {
                let result = result.map_err(|error| error.to_string());
                Some(Outcome { cell, key: Some(job.key), result })
            }
        },
    };
    cells.iter().filter(|cell| all.numbers().contains(cell)).map_while(outcome).collect()
}

/// Every change leaves a valid state, so that of a thread that panicked is usable.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cells, sorted into kept and missing cells.
#[derive(Default)]
struct Sorted {
    kept: Vec<Outcome>,
    missing: Vec<usize>,
}

/// The cells of a grid while they are measured.
pub struct Cells<'c> {
    all: &'c Combinations<'c>,
    /// The numbers of the cells to measure.
    wanted: Vec<usize>,
    resume: Mutex<Option<Resume>>,
    go_on: &'c (dyn Fn() -> bool + Sync),
    observer: &'c dyn Observer,
    /// Whether all cells share one testbed: its failure ends the grid.
    shared: bool,
    next: AtomicUsize,
    measured: AtomicUsize,
    done: Mutex<Vec<Cell>>,
    failed: Mutex<Option<Error>>,
}

/// The results of the cells.
pub struct CellResults {
    /// The cells that were measured or failed, in any order.
    pub cells: Vec<Cell>,
    /// The number of cells that were measured now and not resumed.
    pub measured: usize,
    /// The reason why the grid ended early, or why cells are not in the journal; `None` for an interruption.
    pub failed: Option<Error>,
}

impl<'c> Cells<'c> {
    /// The cells with the numbers `wanted`. `shared`: all are measured on one testbed.
    pub fn new(
        all: &'c Combinations<'c>,
        wanted: Vec<usize>,
        resume: Option<Resume>,
        shared: bool,
        go_on: &'c (dyn Fn() -> bool + Sync),
        observer: &'c dyn Observer,
    ) -> Self {
        observer.trials(wanted.len());
        Self {
            all,
            wanted,
            resume: Mutex::new(resume),
            go_on,
            observer,
            shared,
            next: AtomicUsize::new(0),
            measured: AtomicUsize::new(0),
            done: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Measures the cells on all cores. `job` returns the measurement of a cell, or the reason why there is
    /// none.
    #[must_use]
    pub fn on_all_cores<'j>(self, job: impl Fn(&[usize]) -> Result<Job<'j>, String> + Sync) -> CellResults {
        self.in_threads(&job, None);
        self.end()
    }

    /// Measures the cells on an engine. Kept cells are found in this process, which measures one of them
    /// again before the others are used. `job` is as in [`on_all_cores`](Self::on_all_cores).
    #[must_use]
    pub fn on_engine<'j>(
        self,
        engine: &dyn Engine,
        job: impl Fn(&[usize]) -> Result<Job<'j>, String> + Sync,
    ) -> CellResults {
        let nothing_is_kept = self.resume().as_ref().is_none_or(Resume::is_empty);
        let Sorted { kept, missing } = match nothing_is_kept {
            true => Sorted { kept: Vec::new(), missing: self.wanted.clone() },
            false => {
                let sorted = Mutex::default();
                self.in_threads(&job, Some(&sorted));
                let mut sorted = sorted.into_inner().unwrap_or_else(PoisonError::into_inner);
                sorted.missing.sort_unstable();
                let first = self.all.first_key(&job);
                for failed in sorted.kept.iter_mut().filter(|outcome| outcome.key.is_none()) {
                    failed.key = Some(self.all.failed_key(first.as_deref(), failed.cell));
                }
                sorted
            }
        };
        let mut take = |outcomes: Vec<Outcome>| {
            // Workers may be anywhere. The first cell stands for the others, because the job of each takes a
            // millisecond to make.
            let known =
                outcomes.iter().find_map(|it| Some((it.key.as_ref()?, job(&self.all.at(it.cell)).ok()?)));
            if known.is_some_and(|(key, job)| *key != job.key) {
                let why = "a worker has another version of kpps, or other profiles, so its cells are left out: install the same version everywhere";
                return self.fail(Error::Failed(why.into()));
            }
            for outcome in outcomes {
                if let (Some(key), Ok(point)) = (&outcome.key, &outcome.result) {
                    self.measured.fetch_add(1, Ordering::Relaxed);
                    self.resume().as_mut().map(|resume| resume.add(key, None, point, self.observer));
                }
                self.done(outcome.cell, outcome.result);
            }
        };
        if let Err(why) = engine.measure(self.all, &kept, &missing, &mut take) {
            self.fail(Error::Failed(why));
        }
        self.end()
    }

    /// Measures one cell after the other. First it measures the kept cells with the highest loads again
    /// ([`Resume::to_check`]).
    #[must_use]
    pub fn one_by_one<'j>(self, job: impl Fn(&[usize]) -> Result<Job<'j>, String>) -> CellResults {
        let jobs: Vec<_> = self.wanted.iter().filter_map(|&cell| job(&self.all.at(cell)).ok()).collect();
        let cells = jobs.iter().map(|job| (job.key.as_str(), job.environment.bytes_with_fcs()));
        let to_check = self.resume().as_mut().map_or_else(Vec::new, |resume| resume.to_check(cells));
        for (at, job) in jobs.into_iter().enumerate() {
            if to_check.contains(&at) && matches!(self.cell(job), Ok(None)) {
                return self.end();
            }
        }
        self.work(job, None);
        self.end()
    }

    fn in_threads<'j>(
        &self,
        job: &(impl Fn(&[usize]) -> Result<Job<'j>, String> + Sync),
        sorted: Option<&Mutex<Sorted>>,
    ) {
        on_all_cpus(self.wanted.len(), || self.work(job, sorted));
    }

    /// Takes cells until none is left. With `sorted`, cells that are not kept are only noted there.
    fn work<'j>(&self, job: impl Fn(&[usize]) -> Result<Job<'j>, String>, sorted: Option<&Mutex<Sorted>>) {
        while (self.go_on)() {
            let Some(&cell) = self.wanted.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
            let job = job(&self.all.at(cell));
            let key = sorted.and_then(|_| Some(job.as_ref().ok()?.key.clone()));
            if let (Some(sorted), Some(key)) = (sorted, &key)
                && !self.resume().as_ref().is_some_and(|resume| resume.has(key))
            {
                locked(sorted).missing.push(cell);
                continue;
            }
            let Some(result) = job.and_then(|job| self.cell(job)).transpose() else { break };
            if let Some(sorted) = sorted {
                locked(sorted).kept.push(Outcome { cell, key, result: result.clone() });
            }
            self.done(cell, result);
        }
    }

    /// A cell has been measured, or could not be.
    fn done(&self, cell: usize, result: Result<Trial, String>) {
        let (point, problem) =
            result.map_or_else(|problem| (None, Some(problem)), |point| (Some(point), None));
        match &point {
            Some(point) => self.observer.ended(point),
            None => self.observer.done(),
        }
        let cell = Cell { at: self.all.at(cell), point, problem };
        locked(&self.done).push(cell);
    }

    /// The point of a cell, of an earlier run if there is one; `None` if the grid ends here.
    fn cell(&self, mut job: Job<'_>) -> Result<Option<Trial>, String> {
        let resume = self.resume();
        if let Some(point) = resume.as_ref().and_then(|resume| resume.find(&job.key, None)) {
            return Ok(Some(point));
        }
        // While a kept cell is measured again, other cells wait to learn whether kept ones may be used.
        let waits = resume.as_ref().is_some_and(|resume| resume.is_to_check(&job.key));
        let mut held = waits.then_some(resume);
        loop {
            let point = match (job.measure)() {
                Ok(point) => point,
                Err(TrialError::Interrupted) => return Ok(None),
                // A testbed that has failed would fail for every other cell, too.
                Err(error @ TrialError::Testbed(_)) if self.shared => {
                    self.fail(error.into());
                    return Ok(None);
                }
                Err(error) => return Err(error.to_string()),
            };
            let mut resume = held.take().unwrap_or_else(|| self.resume());
            if resume.as_mut().is_some_and(|it| !it.add(&job.key, None, &point, self.observer)) {
                held = Some(resume);
                continue;
            }
            let kept = resume.as_ref().and_then(|resume| resume.find(&job.key, None));
            self.measured.fetch_add(usize::from(kept.is_none()), Ordering::Relaxed);
            return Ok(Some(kept.unwrap_or(point)));
        }
    }

    fn resume(&self) -> MutexGuard<'_, Option<Resume>> {
        locked(&self.resume)
    }

    fn fail(&self, error: Error) {
        *locked(&self.failed) = Some(error);
    }

    fn end(self) -> CellResults {
        let resume = self.resume.into_inner().unwrap_or_else(PoisonError::into_inner);
        let kept = resume.map_or(Ok(()), Resume::close);
        CellResults {
            cells: self.done.into_inner().unwrap_or_else(PoisonError::into_inner),
            measured: self.measured.into_inner(),
            failed: self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).or(kept.err()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::journal::{Journal, Merged, merge};
    use crate::search::Known;
    use kpps_documents::grid::Setting;
    use std::path::Path;

    fn axes() -> [Axis; 2] {
        let axis = |parameter: &str, values: &[i64]| Axis {
            parameter: parameter.into(),
            values: values.iter().copied().map(Setting::Whole).collect(),
        };
        [axis("x", &[1, 2, 3]), axis("load", &[100, 200])]
    }

    /// The job of a cell: a system that delivers 250 frames per second and cannot have x = 3.
    fn job<'j>(at: &[usize]) -> Result<Job<'j>, String> {
        let (x, load) = (at[0] + 1, (at[1] + 1) as f64 * 100.0);
        if x == 3 {
            return Err("there is no such x".into());
        }
        let offer = (RateSpec::Pps(load * x as f64), Load::of(0.0, kpps_frames::Size::MIN));
        let mut known = Points::new(Box::new(Known::quiet(250.0)));
        let measure = move |load: &Load| known.measure(load, &|| true);
        Ok(Job::new(offer, 1e6, Environment::default(), &[format!("x={x}")], measure))
    }

    /// Measures in its own place, and loses the last cell that it is given.
    #[derive(Default)]
    struct Elsewhere {
        loses_one: bool,
        got: Mutex<(usize, Vec<usize>)>,
    }

    impl Engine for Elsewhere {
        fn measure(
            &self,
            all: &Combinations<'_>,
            kept: &[Outcome],
            cells: &[usize],
            take: &mut dyn FnMut(Vec<Outcome>),
        ) -> Result<(), String> {
            *self.got.lock().unwrap() = (kept.len(), cells.to_vec());
            let count = cells.len() - usize::from(self.loses_one);
            take(outcomes(all, &cells[..count], job));
            if self.loses_one { Err("a worker was lost".into()) } else { Ok(()) }
        }
    }

    fn on_engine(path: Option<&Path>, engine: &Elsewhere) -> CellResults {
        let axes = axes();
        let all = Combinations::of(&axes).unwrap();
        let resume = path.map(|path| Resume::new(Journal::open(path).unwrap(), true));
        let cells = Cells::new(&all, all.numbers().collect(), resume, false, &|| true, &());
        cells.on_engine(engine, job)
    }

    fn sorted(measured: CellResults) -> Vec<Cell> {
        let mut cells = measured.cells;
        cells.sort_by(|a, b| a.at.cmp(&b.at));
        cells
    }

    #[test]
    fn every_combination_has_a_number_and_the_last_axis_varies_fastest() {
        let axes = axes();
        let all = Combinations::of(&axes).unwrap();
        let at: Vec<_> = all.numbers().map(|number| all.at(number)).collect();
        assert_eq!(at, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]);
        let shard = |text: &str| text.parse::<Shard>().map(|shard| shard.of(all.numbers()));
        assert_eq!(shard("1/4").unwrap(), [0, 4]);
        let mut together: Vec<_> = ["1/4", "2/4", "3/4", "4/4"].map(|it| shard(it).unwrap()).concat();
        together.sort_unstable();
        assert_eq!(together, [0, 1, 2, 3, 4, 5]);
        for wrong in ["0/4", "5/4", "1/0", "1", "a/b", ""] {
            assert!(shard(wrong).unwrap_err().contains("no share like 2/8"), "{wrong}");
        }
    }

    #[test]
    fn an_engine_has_the_same_results_as_all_cores() {
        let axes = axes();
        let all = Combinations::of(&axes).unwrap();
        let cells = Cells::new(&all, all.numbers().collect(), None, false, &|| true, &());
        let here = sorted(cells.on_all_cores(job));
        assert_eq!(here.iter().filter(|cell| cell.problem.is_some()).count(), 2);
        assert_eq!(sorted(on_engine(None, &Elsewhere::default())), here);
    }

    #[test]
    fn what_a_lost_engine_has_measured_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let failed = on_engine(Some(&path), &Elsewhere { loses_one: true, ..Elsewhere::default() });
        assert!(failed.failed.unwrap().to_string().contains("a worker was lost"));
        assert_eq!((failed.cells.len(), failed.measured), (5, 4));
        let again = Elsewhere::default();
        let resumed = on_engine(Some(&path), &again);
        // One kept cell is measured again here. Cells that cannot be measured are not kept.
        assert_eq!(*again.got.lock().unwrap(), (6, vec![]));
        assert_eq!(sorted(resumed), sorted(on_engine(None, &Elsewhere::default())));
    }

    #[test]
    fn shares_are_merged_into_one_journal_without_doubles() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, both] = ["1", "2", "both"].map(|name| folder.path().join(name));
        let axes = axes();
        let all = Combinations::of(&axes).unwrap();
        for (path, shard) in [(&one, "1/2"), (&two, "2/2")] {
            let resume = Some(Resume::new(Journal::open(path).unwrap(), true));
            let wanted = shard.parse::<Shard>().unwrap().of(all.numbers());
            let _ = Cells::new(&all, wanted, resume, false, &|| true, &()).on_all_cores(job);
        }
        let merged = |others: &[std::path::PathBuf]| {
            let Merged { results, added, .. } = merge(&both, others).unwrap();
            (results, added)
        };
        assert_eq!(merged(&[one.clone(), two.clone()]), (4, 4));
        assert_eq!(merged(&[two, one]), (4, 0));
        let again = Elsewhere::default();
        let _ = on_engine(Some(&both), &again);
        assert!(again.got.lock().unwrap().1.is_empty());
    }

    #[test]
    fn a_cell_has_one_name_in_every_grid_with_it() {
        let axes = axes();
        let all = Combinations::of(&axes).unwrap();
        let names: Vec<_> = outcomes(&all, &[0, 1, 4, 5], job).iter().map(|it| all.name(it)).collect();
        assert!(names.iter().all(|name| name.len() == 32), "{names:?}");
        let turned = [axes[1].clone(), axes[0].clone()];
        let turned = Combinations::of(&turned).unwrap();
        let first = outcomes(&turned, &[0], |at| job(&[at[1], at[0]]));
        assert_eq!(turned.name(&first[0]), names[0]);
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }
    #[test]
    fn a_cell_that_cannot_be_measured_has_another_name_in_another_grid() {
        let axes = axes();
        let all = Combinations::of(&axes).unwrap();
        let names = |version: &'static str| -> Vec<String> {
            let job = |at: &[usize]| {
                let job = job(at)?;
                Ok(Job { key: format!("{version} {}", job.key), ..job })
            };
            let failed = |it: &Outcome| it.result.is_err().then(|| all.name(it));
            outcomes(&all, &[0, 1, 2, 3, 4, 5], job).iter().filter_map(failed).collect()
        };
        let [first, second] = ["1", "2"].map(names);
        assert_eq!((first.len(), second.len()), (2, 2));
        assert_eq!(first.iter().chain(&second).collect::<std::collections::BTreeSet<_>>().len(), 4);
        assert_eq!(names("1"), first);
    }

    /// As a worker with another version of kpps.
    struct Other;

    impl Engine for Other {
        fn measure(
            &self,
            all: &Combinations<'_>,
            _: &[Outcome],
            cells: &[usize],
            take: &mut dyn FnMut(Vec<Outcome>),
        ) -> Result<(), String> {
            let theirs = |mut outcome: Outcome| {
                outcome.key = outcome.key.map(|key| format!("0.0.9 {key}"));
                outcome
            };
            take(outcomes(all, cells, job).into_iter().map(theirs).collect());
            Ok(())
        }
    }

    #[test]
    fn cells_of_another_version_are_left_out_and_told() {
        let axes = axes();
        let all = Combinations::of(&axes).unwrap();
        let cells = Cells::new(&all, all.numbers().collect(), None, false, &|| true, &());
        let measured = cells.on_engine(&Other, job);
        assert!(measured.failed.unwrap().to_string().contains("another version of kpps"));
        assert!(measured.cells.iter().all(|cell| cell.point.is_none()));
    }
}
