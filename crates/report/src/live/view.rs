//! The thread that looks and shows, and the terminal that it leaves as it was.

use super::line::line;
use super::progress::Progress;
use super::sample::{Sampler, Source};
use super::screen::{columns, restore, watch};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a line is written.
const LINE: Duration = Duration::from_secs(1);

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Nothing: nobody looks.
    Nothing,
    /// A line on standard error, once a second.
    Line,
    /// The whole screen, by standard error.
    Screen {
        /// Runs that are shorter than this are not worth it.
        after: Duration,
        /// With colours.
        colour: bool,
    },
}

/// A thread that shows how a run goes. It ends, and the terminal is as it was, when this is dropped.
pub struct View {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Shows nothing.
    pub fn none() -> Self {
        Self { over: None, thread: None }
    }

    /// Shows a run. Calls `end` when a key asks for the end of the run: on the whole screen Ctrl-C is a key.
    pub fn start(
        progress: Progress,
        source: Box<dyn Source>,
        show: Show,
        end: impl Fn() + Send + 'static,
    ) -> Self {
        if show == Show::Nothing {
            return Self::none();
        }
        let (over, is_over) = channel();
        let sampler = Sampler::new(progress, source, Instant::now());
        let run = move || {
            give_way();
            match show {
                Show::Nothing => {}
                Show::Line => tell(sampler, &is_over),
                Show::Screen { after, colour } => {
                    // Without a screen there is no view; the run goes on.
                    let _ = watch(sampler, &is_over, after, colour, &end);
                    restore();
                }
            }
        };
        // Without a thread there is no view either.
        let thread = std::thread::Builder::new().name("live view".into()).spawn(run).ok();
        Self { over: Some(over), thread }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            // A view that has panicked has said so, and is no reason to lose results.
            let _ = thread.join();
        }
    }
}

/// Whatever measures comes first.
fn give_way() {
    // On Linux a thread has a nice value of its own; elsewhere this would slow the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

/// Waits; true when the run is over.
fn is_over_within(is_over: &Receiver<()>, time: Duration) -> bool {
    is_over.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
}

/// A line, again and again.
fn tell(mut sampler: Sampler, is_over: &Receiver<()>) {
    let mut shown = false;
    while !is_over_within(is_over, LINE) {
        let width = columns().max(20);
        let text: String = line(&sampler.look(Instant::now())).chars().take(width - 1).collect();
        eprint!("\r{text}\x1b[K");
        shown = true;
    }
    if shown {
        eprint!("\r\x1b[K");
    }
}
