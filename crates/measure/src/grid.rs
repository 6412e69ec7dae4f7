//! Grids: a trial for each combination of parameters, on all cores or on one testbed, resumed from an earlier
//! run.

use crate::error::Error;
use crate::observer::{Observer, in_words};
use crate::points::{Points, of_frames};
use crate::resume::Resume;
use crate::trial::{Load, Testbed, TrialError};
use crate::units::Rate;
use kpps_frames::{Mix, Size};
use kpps_results::grid::{Axis, Cell};
use kpps_results::{Environment, Trial};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most cells that a grid may have.
const MOST: usize = 1_000_000;

/// Every combination of values, by their places on the axes; the last axis varies fastest.
///
/// # Errors
/// More than a million combinations, in one line.
pub fn combinations(axes: &[Axis]) -> Result<Vec<Vec<usize>>, String> {
    let lengths = || axes.iter().map(|axis| axis.values.len());
    let count = lengths().try_fold(1_usize, |product, length| product.checked_mul(length));
    if count.is_none_or(|count| count > MOST) {
        return Err(format!("the grid has more than {MOST} cells: give fewer values"));
    }
    Ok(lengths().fold(vec![Vec::new()], |all, length| {
        let longer =
            |at: &Vec<usize>| (0..length).map(|next| [&at[..], &[next]].concat()).collect::<Vec<_>>();
        all.iter().flat_map(longer).collect()
    }))
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
    /// The job to offer `offered` in frames of these sizes, of which the wire carries `line_pps`. Duration
    /// and seed are those of `load`, its rate and size are not used. `testbed` is the environment without
    /// the fields that frames and load determine, and `set` are changed constants. `measure` offers the load.
    pub fn new(
        (sizes, offered, load): (Mix, Rate, Load),
        line_pps: f64,
        testbed: Environment,
        set: &[String],
        mut measure: impl FnMut(&Mix, &Load) -> Result<Trial, TrialError> + 'j,
    ) -> Self {
        let offered_pps = offered.pps(line_pps, sizes.mean_bytes_with_fcs());
        let load = Load { offered_pps, size: sizes.only().unwrap_or(Size::MIN), ..load };
        let environment = of_frames(testbed, &sizes, &load, line_pps);
        let mut set = set.to_vec();
        set.sort_unstable();
        let described = serde_json::to_string(&environment).unwrap_or_default();
        let key = format!("{described} {offered_pps} {}", set.join(" ")).trim_end().to_owned();
        Self { key, environment, measure: Box::new(move || measure(&sizes, &load)) }
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
        offer: (Mix, Rate, Load),
        go_on: &'j dyn Fn() -> bool,
        observer: &'j dyn Observer,
    ) -> Result<Job<'j>, String> {
        let line_pps = self.points.borrow_mut().line_rate_pps(&offer.0).map_err(|error| error.to_string())?;
        Ok(Job::new(offer, line_pps, self.environment.clone(), &[], move |sizes, load| {
            let seconds = f64::from(load.duration_ms) / 1e3;
            observer.begins(&in_words(sizes, Some(load.offered_pps), seconds), Some(load.offered_pps));
            self.points.borrow_mut().measure(sizes, load, go_on)
        }))
    }
}

/// The cells of a grid while they are measured.
pub struct Cells<'c> {
    all: &'c [Vec<usize>],
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
pub struct Measured {
    /// The cells that were measured or failed, in any order.
    pub cells: Vec<Cell>,
    /// The number of cells that were measured now and not resumed.
    pub measured: usize,
    /// The reason why the grid ended early, or why cells are not in the journal; `None` for an interruption.
    pub failed: Option<Error>,
}

impl<'c> Cells<'c> {
    /// The cells at these combinations. `shared`: all are measured on one testbed.
    pub fn new(
        all: &'c [Vec<usize>],
        resume: Option<Resume>,
        shared: bool,
        go_on: &'c (dyn Fn() -> bool + Sync),
        observer: &'c dyn Observer,
    ) -> Self {
        observer.trials(all.len());
        Self {
            all,
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
    pub fn on_all_cores<'j>(self, job: impl Fn(&[usize]) -> Result<Job<'j>, String> + Sync) -> Measured {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(self.all.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| self.work(&job));
            }
        });
        self.end()
    }

    /// Measures one cell after the other. Of those that are kept, the ones with the highest loads are measured
    /// again first ([`Resume::to_check`]).
    #[must_use]
    pub fn one_by_one<'j>(self, job: impl Fn(&[usize]) -> Result<Job<'j>, String>) -> Measured {
        let jobs: Vec<_> = self.all.iter().filter_map(|at| job(at).ok()).collect();
        let cells = jobs.iter().map(|job| (job.key.as_str(), job.environment.frame_bytes_with_fcs));
        let to_check = self.resume().as_mut().map_or_else(Vec::new, |resume| resume.to_check(cells));
        for (at, job) in jobs.into_iter().enumerate() {
            if to_check.contains(&at) && matches!(self.cell(job), Ok(None)) {
                return self.end();
            }
        }
        self.work(job);
        self.end()
    }

    /// Takes cells until none is left.
    fn work<'j>(&self, job: impl Fn(&[usize]) -> Result<Job<'j>, String>) {
        while (self.go_on)() {
            let Some(at) = self.all.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
            let cell = match job(at).and_then(|job| self.cell(job)) {
                Ok(None) => break,
                Ok(point) => Cell { at: at.clone(), point, problem: None },
                Err(problem) => Cell { at: at.clone(), point: None, problem: Some(problem) },
            };
            match &cell.point {
                Some(point) => self.observer.ended(point),
                None => self.observer.done(),
            }
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(cell);
        }
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
        self.resume.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn end(self) -> Measured {
        let resume = self.resume.into_inner().unwrap_or_else(PoisonError::into_inner);
        let kept = resume.map_or(Ok(()), Resume::close);
        Measured {
            cells: self.done.into_inner().unwrap_or_else(PoisonError::into_inner),
            measured: self.measured.into_inner(),
            failed: self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).or(kept.err()),
        }
    }
}
