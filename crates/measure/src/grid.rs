//! Grids: a trial for each combination of parameters, on all cores or on one testbed, resumed from a journal.

use crate::error::Error;
use crate::journal::Journal;
use crate::observer::Observer;
use crate::points::of_frames;
use crate::trial::{Load, TrialError};
use crate::units::Rate;
use kpps_frames::{Mix, Size};
use kpps_results::grid::{Axis, Cell};
use kpps_results::{Environment, Trial};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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

/// What one cell offers.
pub struct Plan {
    /// Sizes of the frames.
    pub sizes: Mix,
    /// The load.
    pub load: Load,
    /// The testbed, the sizes and the load.
    pub environment: Environment,
}

impl Plan {
    /// Offers `offered` in frames of these sizes on a wire that carries `line_pps` of them, as `load`
    /// otherwise. `testbed` is the environment without what frames and load determine.
    pub fn new(sizes: Mix, offered: Rate, line_pps: f64, load: Load, testbed: Environment) -> Self {
        let offered_pps = offered.pps(line_pps, sizes.mean_bytes_with_fcs());
        let load = Load { offered_pps, size: sizes.only().unwrap_or(Size::MIN), ..load };
        Self { environment: of_frames(testbed, &sizes, &load, line_pps), sizes, load }
    }

    /// The cell's name in the journal: everything that its result depends on. `set` are changed constants.
    pub fn key(&self, set: &[String]) -> String {
        let environment = serde_json::to_string(&self.environment).unwrap_or_default();
        let mut set = set.to_vec();
        set.sort_unstable();
        format!("{environment} {} {}", self.load.offered_pps, set.join(" ")).trim_end().to_owned()
    }
}

/// How one cell is measured.
pub struct Job<'j> {
    /// The cell's name in the journal: all settings that its result depends on.
    pub key: String,
    /// Measures it.
    pub measure: Box<dyn FnOnce() -> Result<Trial, TrialError> + 'j>,
}

/// The cells of a grid while they are measured.
pub struct Cells<'c> {
    all: &'c [Vec<usize>],
    journal: Mutex<Option<Journal<Trial>>>,
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
    /// The reason why the grid ended early; `None` for an interruption.
    pub failed: Option<Error>,
}

impl<'c> Cells<'c> {
    /// The cells at these combinations. `shared`: all are measured on one testbed.
    pub fn new(
        all: &'c [Vec<usize>],
        journal: Option<Journal<Trial>>,
        shared: bool,
        go_on: &'c (dyn Fn() -> bool + Sync),
        observer: &'c dyn Observer,
    ) -> Self {
        observer.trials(all.len());
        Self {
            all,
            journal: Mutex::new(journal),
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

    /// Measures one cell after the other.
    #[must_use]
    pub fn one_by_one<'j>(self, job: impl Fn(&[usize]) -> Result<Job<'j>, String>) -> Measured {
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
                None => self.observer.failed(),
            }
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(cell);
        }
    }

    /// The point of a cell, from the journal if it has one; `None` if the grid ends here.
    fn cell(&self, job: Job<'_>) -> Result<Option<Trial>, String> {
        let journal = || self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(point) = journal().as_ref().and_then(|journal| journal.of(&job.key).last().cloned()) {
            return Ok(Some(point));
        }
        match (job.measure)() {
            Ok(point) => {
                self.measured.fetch_add(1, Ordering::Relaxed);
                if let Some(Err(error)) = journal().as_mut().map(|journal| journal.keep(&job.key, &point)) {
                    self.fail(error.into());
                }
                Ok(Some(point))
            }
            Err(TrialError::Interrupted) => Ok(None),
            // A testbed that has failed would fail for every other cell, too.
            Err(error @ TrialError::Testbed(_)) if self.shared => {
                self.fail(error.into());
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn fail(&self, error: Error) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn end(self) -> Measured {
        Measured {
            cells: self.done.into_inner().unwrap_or_else(PoisonError::into_inner),
            measured: self.measured.into_inner(),
            failed: self.failed.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }
}
