//! The thread of the live view.

use super::line::line;
use super::progress::Progress;
use super::sample::{Sampler, Source};
use super::screen::{columns, restore, watch};
use crate::Caller;
use crate::files::tell_caller;
use std::io::{Write, stderr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a line is written.
const LINE: Duration = Duration::from_secs(1);

/// The form of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// No view.
    Nothing,
    /// A line on standard error, once a second.
    Line,
    /// The whole screen, on standard error.
    Screen {
        /// Shorter runs are not shown.
        after: Duration,
        /// With colours.
        colour: bool,
    },
}

/// A thread that shows the progress of a run. Dropping it ends the thread and restores the terminal.
pub struct View {
    progress: Progress,
    caller: Option<Arc<dyn Caller>>,
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Shows nothing.
    pub fn none() -> Self {
        Self { progress: Progress::default(), caller: None, over: None, thread: None }
    }

    /// Has the program that called kpps show a run.
    pub fn by(caller: Arc<dyn Caller>, progress: Progress) -> Self {
        caller.follows(&progress);
        Self { progress, caller: Some(caller), over: None, thread: None }
    }

    /// Shows a run. Calls `end` when the user ends the run by a key: on the whole screen Ctrl-C is a key.
    pub fn start(
        progress: Progress,
        source: Box<dyn Source>,
        show: Show,
        end: impl Fn() + Send + 'static,
    ) -> Self {
        if show == Show::Nothing {
            return Self { progress, caller: None, over: None, thread: None };
        }
        let notices = progress.clone();
        let (over, is_over) = channel();
        let sampler = Sampler::new(progress, source, Instant::now());
        let run = move || {
            give_way();
            match show {
                Show::Nothing => {}
                Show::Line => tell_each_second(sampler, &is_over),
                Show::Screen { after, colour } => {
                    // Without a screen there is no view; the run goes on.
                    let _ = watch(sampler, &is_over, after, colour, &end);
                    restore();
                }
            }
        };
        // Without a thread there is no view either.
        let thread = std::thread::Builder::new().name("live view".into()).spawn(run).ok();
        Self { progress: notices, caller: None, over: Some(over), thread }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the view was printed already, and must not lose results.
            let _ = thread.join();
        }
        for notice in self.progress.state().notices.drain(..) {
            tell_caller(self.caller.as_deref(), &notice);
        }
    }
}

/// Lowers the priority of this thread below that of the measurement.
fn give_way() {
    // On Linux a thread has a nice value of its own; elsewhere this would slow the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

/// Waits. Returns true when the run is over.
fn is_over_within(is_over: &Receiver<()>, time: Duration) -> bool {
    is_over.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
}

/// Prints a line at intervals.
fn tell_each_second(mut sampler: Sampler, is_over: &Receiver<()>) {
    let mut shown = false;
    while !is_over_within(is_over, LINE) {
        let width = columns().max(20);
        let text: String = line(&sampler.sample(Instant::now())).chars().take(width - 1).collect();
        // A closed terminal shows nothing.
        let _ = write!(stderr(), "\r{text}\x1b[K");
        shown = true;
    }
    if shown {
        let _ = write!(stderr(), "\r\x1b[K");
    }
}
