//! Grids by the command: cells for a worker, kept results, and a whole run with an engine.

use crate::call::{Host, in_python as failed};
use crate::engine::InPython;
use crate::rows::{Batch, in_python};
use kpps::Session;
use kpps_documents::Trial;
use kpps_methods::grid::Combinations;
use kpps_methods::journal::Journal;
use kpps_rendering::grid::outcomes;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Measures some cells of a grid on this thread: those with these numbers. `words` are the command line of
/// the whole grid.
#[pyfunction]
pub fn cells(py: Python<'_>, words: Vec<String>, numbers: Vec<usize>) -> PyResult<Batch> {
    let session = Session { caller: Some(Arc::new(Host::default())), ..Session::default() };
    let measured = py.detach(|| {
        let (axes, measured) = kpps::cells(words.into_iter().map(OsString::from), &numbers, &session)?;
        let all = Combinations::of(&axes).map_err(kpps::Failure::Input)?;
        Ok::<_, kpps::Failure>(Batch::of(&outcomes(&all, &measured)))
    });
    measured.map_err(failed)?.map_err(|error| in_python(&error))
}

/// Adds results to a journal of grids: those whose key it does not have. Creates the journal if it does not
/// exist. Returns how many were added.
#[pyfunction]
pub fn keep(py: Python<'_>, journal: PathBuf, keys: Vec<String>, trials: Vec<String>) -> PyResult<usize> {
    py.detach(|| {
        let mut journal = Journal::<Trial>::open(&journal).map_err(|error| error.to_string())?;
        let mut added = 0;
        for (key, trial) in keys.iter().zip(&trials) {
            if journal.of(key).is_empty() {
                let trial = serde_json::from_str(trial).map_err(|error| error.to_string())?;
                journal.keep(key, &trial).map_err(|error| error.to_string())?;
                added += 1;
            }
        }
        Ok(added)
    })
    .map_err(PyRuntimeError::new_err::<String>)
}

/// Runs the command with these words as a process of its own does, and returns its exit code. An engine
/// measures the cells of its grid.
#[pyfunction]
#[pyo3(signature = (words, engine = None))]
pub fn main(py: Python<'_>, words: Vec<String>, engine: Option<Py<PyAny>>) -> u8 {
    py.detach(|| {
        let mut session = kpps::session_of_process();
        if let Some(engine) = engine {
            session.engine = Some(InPython(engine).engine(&session));
        }
        kpps::process(words.into_iter().map(OsString::from), &session)
    })
}
