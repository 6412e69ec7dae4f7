//! Calls of the command in this process.
//!
//! The command runs on a thread of its own, without the interpreter's lock. The thread that called waits for
//! it, and looks several times a second whether Python was interrupted.

use crate::engine::InPython;
use crate::policy;
use crate::rows::{self, Batch};
use kpps::{Failure, Session};
use kpps_rendering::live::Progress;
use kpps_rendering::{Caller, Document};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the calling thread looks after signals and progress.
const LOOKS: Duration = Duration::from_millis(50);
/// Pages of documents with more rows are not made: they would be larger than anybody reads.
const ROWS_OF_PAGES: usize = 3000;

/// A document in its forms.
struct Taken {
    json: Result<String, String>,
    screen: String,
    rows: kpps_rendering::Rows,
    page: Option<String>,
}

/// The messages of the command while it runs.
#[derive(Default)]
struct State {
    taken: Option<Taken>,
    text: String,
    messages: Vec<String>,
    progress: Option<Progress>,
}

/// Python as the caller of the command.
#[derive(Default)]
pub struct Host {
    stops: AtomicBool,
    state: Mutex<State>,
}

impl Host {
    /// Every change leaves a valid state, so the state of a thread that panicked is usable.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller for Host {
    fn takes(&self, document: &dyn Document) {
        let rows = document.rows();
        let page = (rows.rows.len() <= ROWS_OF_PAGES).then(|| document.page(0)).flatten();
        let taken = Taken { json: document.json(), screen: document.screen(), rows, page };
        self.state().taken = Some(taken);
    }
    fn prints(&self, text: &str) {
        self.state().text += &format!("{}\n", text.trim_end());
    }
    fn is_told(&self, line: &str) {
        self.state().messages.push(line.to_owned());
    }
    fn follows(&self, progress: &Progress) {
        self.state().progress = Some(progress.clone());
    }
    fn goes_on(&self) -> bool {
        !self.stops.load(Ordering::Relaxed)
    }
}

/// The result of a call.
#[derive(Default)]
#[pyclass(frozen, get_all, module = "kpps._kpps")]
pub struct Called {
    /// The document as JSON, if there is one.
    json: Option<String>,
    /// Its text for the screen.
    screen: Option<String>,
    /// Its rows.
    rows: Option<Py<Batch>>,
    /// Its first page, if it is not too long.
    page: Option<String>,
    /// The text that was printed beside documents.
    text: String,
    /// Lines that users must know.
    messages: Vec<String>,
    /// The kind of the failure and its line, if the command failed.
    failure: Option<(&'static str, String)>,
}

/// The kind of a failure, as the package names its errors, and its line.
fn named(failure: Failure) -> Option<(&'static str, String)> {
    Some(match failure {
        Failure::Input(line) => ("InputError", line),
        Failure::Check(line) => ("CheckFailed", line),
        Failure::Failed(line) => ("Error", line),
        Failure::Invalid(line) => ("InvalidMeasurement", line),
        Failure::Interrupted(line) => ("Interrupted", line),
        Failure::OutputClosed => return None,
    })
}

/// A failure as an error of Python, whose text is its line.
pub fn in_python(failure: Failure) -> PyErr {
    PyRuntimeError::new_err(failure.to_string())
}

/// The message of a panic.
fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("kpps has a defect: {}", text.unwrap_or("it panicked"))
}

/// Runs the command with these words. The first is its name. `progress(done, of, doing)` is called while it
/// runs, with the number of trials that have ended, the number of all trials, and the present measurement; an
/// error that it raises ends the run, as does Ctrl-C. `engine` measures the cells of a grid.
#[pyfunction]
#[pyo3(signature = (words, progress = None, engine = None))]
pub fn call(
    py: Python<'_>,
    words: Vec<String>,
    progress: Option<Bound<'_, PyAny>>,
    engine: Option<Py<PyAny>>,
) -> PyResult<Called> {
    if policy::answers_here() {
        // It would wait for itself where the policy is the driver of this run, too.
        let line = "a policy cannot call kpps: the simulator waits for its answer".to_owned();
        return Ok(Called { failure: Some(("InputError", line)), ..Called::default() });
    }
    let host = Arc::new(Host::default());
    let mut session = Session { caller: Some(host.clone()), ..Session::default() };
    session.engine = engine.map(|engine| InPython(engine).engine(&session));
    let (over, is_over) = channel();
    let run = move || {
        let words = words.into_iter().map(OsString::from);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| kpps::call(words, &session)));
        // After a second Ctrl-C no thread receives it.
        let _ = over.send(result);
    };
    std::thread::Builder::new().name("kpps".into()).stack_size(8 << 20).spawn(run)?;
    let is_over = Mutex::new(is_over);
    let (mut raised, mut interrupted) = (None, false);
    let result = loop {
        let waited = py.detach(|| is_over.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOKS));
        match waited {
            Ok(result) => break result,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err(Box::new("its thread has gone")),
        }
        let mut failed = py.check_signals().err();
        if let Some(error) = failed.take_if(|_| !host.goes_on()) {
            return Err(error);
        }
        if let (None, Some(progress), true) = (&failed, &progress, host.goes_on())
            && let Some(so_far) = host.state().progress.as_ref().map(Progress::so_far)
        {
            failed = progress.call1((so_far.done, so_far.of, so_far.doing)).err();
        }
        if let Some(error) = failed {
            host.stops.store(true, Ordering::Relaxed);
            if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                interrupted = true;
                policy::interrupt_all(py)?;
            }
            // After Ctrl-C, wherever it came, the run's own end says so, and brings the measurements.
            raised = Some(error).filter(|error| !error.is_instance_of::<PyKeyboardInterrupt>(py));
        }
    };
    if let Some(error) = raised {
        return Err(error);
    }
    let mut state = std::mem::take(&mut *host.state());
    let mut failure = match result {
        Ok(Ok(())) => None,
        Ok(Err(Failure::Failed(line))) if interrupted => Some(("Interrupted", line)),
        Ok(Err(failure)) => named(failure),
        Err(panic) => Some(("Error", panicked(&*panic))),
    };
    if let (Some(progress), Some(so_far), true) =
        (&progress, state.progress.as_ref().map(Progress::so_far), host.goes_on())
        && let Err(error) = progress.call1((so_far.done, so_far.of, so_far.doing))
    {
        if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
            return Err(error);
        }
        failure = failure.or(Some(("Interrupted", "interrupted: all was measured".into())));
    }
    let (mut json, mut screen, mut rows, mut page) = (None, None, None, None);
    if let Some(taken) = state.taken.take() {
        rows = Some(Py::new(py, Batch::of(&taken.rows).map_err(|error| rows::in_python(&error))?)?);
        screen = Some(taken.screen);
        page = taken.page;
        match taken.json {
            Ok(text) => json = Some(text),
            Err(line) => failure = failure.or(Some(("Error", line))),
        }
    }
    Ok(Called { json, screen, rows, page, text: state.text, messages: state.messages, failure })
}
