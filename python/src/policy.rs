//! Service policies as Python classes, in the simulator.
//!
//! Each card's policy has a thread of its own: simulated CPUs run on stacks that are too small for an
//! interpreter, and switch between them. The simulator waits for each answer.

use kpps_sim::{Next, OwnPolicy, ServicePolicy};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How often one who waits for an answer looks whether the run was interrupted.
const LOOKS: Duration = Duration::from_millis(50);

thread_local! {
    /// This thread answers for a policy.
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread answers for a policy: the simulator waits for it.
pub fn answers_here() -> bool {
    ANSWERS.get()
}

/// How a policy's thread is interrupted.
#[derive(Default)]
struct Interrupt {
    /// Python's number of the thread while its policy computes an answer; otherwise 0.
    computes: AtomicU64,
    came: AtomicBool,
}

impl Interrupt {
    /// Calls Python, which can be interrupted meanwhile.
    fn during<T>(&self, py: Python<'_>, call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let thread = py.import("threading")?.call_method0("get_ident")?.extract()?;
        self.computes.store(thread, Ordering::Relaxed);
        let result = call();
        self.computes.store(0, Ordering::Relaxed);
        result
    }
}

/// The interrupts of all policies.
static INTERRUPTS: Mutex<Vec<Weak<Interrupt>>> = Mutex::new(Vec::new());

/// After Ctrl-C: the run no longer waits for a policy, and a policy that computes is interrupted as a main
/// program is.
pub fn interrupt_all(py: Python<'_>) -> PyResult<()> {
    let all: Vec<_> = {
        let all = INTERRUPTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    };
    for interrupt in all {
        interrupt.came.store(true, Ordering::Relaxed);
        let thread = interrupt.computes.load(Ordering::Relaxed);
        if thread != 0 {
            let ctypes = py.import("ctypes")?;
            let error = ctypes.call_method1("py_object", (py.get_type::<PyKeyboardInterrupt>(),))?;
            let thread = ctypes.call_method1("c_ulong", (thread,))?;
            ctypes.getattr("pythonapi")?.call_method1("PyThreadState_SetAsyncExc", (thread, error))?;
        }
    }
    Ok(())
}

/// A question to a policy.
enum Ask {
    Interrupt { now_ns: u64 },
    Poll { received: usize, reclaimed: usize, now_ns: u64 },
}

/// The policy's answer.
enum Answer {
    Polls(bool),
    Next(Next),
}

/// A policy in its thread, which ends with this.
struct InPython {
    name: String,
    asks: Sender<Ask>,
    answers: Receiver<Result<Answer, String>>,
    interrupt: Arc<Interrupt>,
}

impl InPython {
    /// Makes an object of the class.
    fn start(name: String, class: Arc<Py<PyAny>>) -> Self {
        let ((asks, asked), (answer, answers)) = (channel(), channel());
        let of_class = name.clone();
        let interrupt = Arc::new(Interrupt::default());
        let mut all = INTERRUPTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|interrupt| interrupt.strong_count() > 0);
        all.push(Arc::downgrade(&interrupt));
        drop(all);
        let ours = interrupt.clone();
        let serve = move || {
            ANSWERS.set(true);
            let policy = Python::attach(|py| ours.during(py, || class.call0(py)));
            while let Ok(ask) = asked.recv() {
                let line =
                    |error: PyErr| format!("policy {of_class}: {}", error.to_string().replace('\n', " "));
                let result = Python::attach(|py| match &policy {
                    Ok(policy) => ours.during(py, || answer_of(policy.bind(py), &ask)).map_err(line),
                    Err(error) => Err(line(error.clone_ref(py))),
                });
                if answer.send(result).is_err() {
                    return;
                }
            }
        };
        // Without a thread there is no answer, and the first question reports that.
        let _ = std::thread::Builder::new().name("policy".into()).spawn(serve);
        Self { name, asks, answers, interrupt }
    }

    fn ask(&self, ask: Ask) -> Result<Answer, String> {
        let gone = || format!("policy {}: its thread has ended", self.name);
        let is_interrupted = || self.interrupt.came.load(Ordering::Relaxed);
        let interrupted = || Err(format!("policy {}: interrupted", self.name));
        // The simulation asks on until it looks whether it is to end.
        if is_interrupted() {
            return interrupted();
        }
        self.asks.send(ask).map_err(|_| gone())?;
        loop {
            match self.answers.recv_timeout(LOOKS) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if is_interrupted() => return interrupted(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }
}

/// Microseconds of the simulated clock, from nanoseconds.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Asks the object.
fn answer_of(policy: &Bound<'_, PyAny>, ask: &Ask) -> PyResult<Answer> {
    match *ask {
        Ask::Interrupt { now_ns } => {
            policy.call_method1("on_interrupt", (us(now_ns),))?.is_truthy().map(Answer::Polls)
        }
        Ask::Poll { received, reclaimed, now_ns } => {
            let said = policy.call_method1("on_poll", (received, reclaimed, us(now_ns)))?;
            if said.is_none() {
                return Ok(Answer::Next(Next::Interrupt));
            }
            match said.extract::<f64>() {
                Ok(after_us) if (0.0..=1e9).contains(&after_us) => {
                    Ok(Answer::Next(Next::PollIn((after_us * 1e3) as u64)))
                }
                _ => Err(PyValueError::new_err(format!(
                    "on_poll returned {}: give None for interrupts, or the time to the next poll in us",
                    said.repr()?
                ))),
            }
        }
    }
}

impl ServicePolicy for InPython {
    fn on_interrupt(&mut self, now_ns: u64) -> Result<bool, String> {
        Ok(matches!(self.ask(Ask::Interrupt { now_ns })?, Answer::Polls(true)))
    }
    fn on_poll(&mut self, received: usize, reclaimed: usize, now_ns: u64) -> Result<Next, String> {
        match self.ask(Ask::Poll { received, reclaimed, now_ns })? {
            Answer::Next(next) => Ok(next),
            Answer::Polls(_) => Ok(Next::Interrupt),
        }
    }
}

/// Makes a class known as a driver of this name: the preset `base` with the class's policy. A poll takes
/// `budget` frames at most. Returns false if the name is a preset's.
#[pyfunction]
pub fn register_policy(
    name: String,
    description: String,
    text: String,
    base: String,
    budget: u16,
    class: Py<PyAny>,
) -> bool {
    let class = Arc::new(class);
    let of_class = name.clone();
    let make =
        move || -> Box<dyn ServicePolicy> { Box::new(InPython::start(of_class.clone(), class.clone())) };
    OwnPolicy { name, description, text, base, budget, make: Arc::new(make) }.register()
}
