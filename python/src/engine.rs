//! Engines of Python that measure the cells of grids: processes, clusters.
//!
//! The command plans the cells, finds the cells that an earlier run has kept, writes the journal and makes
//! the document. Python only hands cells to its workers and brings the outcomes.

use crate::rows::Batch;
use kpps::Session;
use kpps_documents::Trial;
use kpps_methods::grid::{Combinations, Engine, Outcome};
use kpps_rendering::grid::outcomes;
use pyo3::prelude::*;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A function of Python that measures cells: it is called with the batch of kept cells, the numbers of the
/// others, and a [`Run`].
pub struct InPython(pub Py<PyAny>);

/// An engine's view of the run.
#[pyclass(frozen, module = "kpps._kpps")]
pub struct Run {
    outcomes: Mutex<Sender<Option<Vec<Told>>>>,
    goes_on: Py<PyAny>,
}

/// A cell's number, key, result in JSON, and problem.
type Told = (usize, Option<String>, Option<String>, Option<String>);

#[pymethods]
impl Run {
    /// Takes measured cells: their numbers, and the columns `key`, `trial` and `problem` of their batch.
    fn take(
        &self,
        cells: Vec<usize>,
        keys: Vec<Option<String>>,
        trials: Vec<Option<String>>,
        problems: Vec<Option<String>>,
    ) {
        let outcomes = cells.into_iter().zip(keys).zip(trials).zip(problems);
        let outcomes = outcomes.map(|(((cell, key), trial), problem)| (cell, key, trial, problem)).collect();
        // If no receiver takes them, the run is over.
        let _ = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).send(Some(outcomes));
    }

    /// Whether the run may go on.
    fn goes_on(&self, py: Python<'_>) -> PyResult<bool> {
        self.goes_on.call0(py)?.extract(py)
    }
}

/// A flag as a function of Python.
#[pyclass(frozen, module = "kpps._kpps")]
struct GoesOn(Session);

#[pymethods]
impl GoesOn {
    fn __call__(&self) -> bool {
        self.0.goes_on()
    }
}

fn outcome((cell, key, trial, problem): Told) -> Outcome {
    let read = |text: String| serde_json::from_str::<Trial>(&text).map_err(|error| error.to_string());
    let missing = || Err(problem.unwrap_or_else(|| "its worker brought no result".into()));
    Outcome { cell, key, result: trial.map_or_else(missing, read) }
}

impl InPython {
    /// This function with the session that it runs in.
    pub fn engine(self, session: &Session) -> Arc<dyn Engine> {
        Arc::new(Bound { engine: self.0, session: session.clone() })
    }
}

/// An engine and its session.
struct Bound {
    engine: Py<PyAny>,
    session: Session,
}

impl Engine for Bound {
    fn measure(
        &self,
        all: &Combinations<'_>,
        kept: &[Outcome],
        cells: &[usize],
        take: &mut dyn FnMut(Vec<Outcome>),
    ) -> Result<(), String> {
        let kept = Batch::of(&outcomes(all, kept)).map_err(|error| error.to_string())?;
        let (sender, brought) = channel();
        std::thread::scope(|scope| {
            let work = move || {
                let end = sender.clone();
                let done = Python::attach(|py| {
                    let goes_on = Py::new(py, GoesOn(self.session.clone()))?.into_any();
                    let run = Run { outcomes: Mutex::new(sender), goes_on };
                    self.engine.call1(py, (kept, cells.to_vec(), run)).map(drop)
                });
                // Python may keep the run for ever, and with it a sender.
                let _ = end.send(None);
                done.map_err(|error| Python::attach(|py| error.value(py).to_string()))
            };
            let engine = std::thread::Builder::new().name("engine".into()).spawn_scoped(scope, work);
            let engine = engine.map_err(|error| format!("no thread for the engine: {error}"))?;
            while let Ok(Some(outcomes)) = brought.recv() {
                take(outcomes.into_iter().map(outcome).collect());
            }
            engine.join().unwrap_or_else(|_| Err("the engine has a defect".into()))
        })
    }
}
