//! Where a command runs: in a process of its own, or in a program that called it. It says where text and
//! documents go, and what asks the work to end.

use kpps_methods::grid::Engine;
use kpps_rendering::Caller;
use kpps_rendering::files::{self, PublishError};
use kpps_rendering::live::{self, Progress, Show, Source, View};
use std::io::IsTerminal;
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

/// When the work of this process was first asked to end.
static SINCE: OnceLock<Instant> = OnceLock::new();
/// Requests within this time are one: whoever started the command may pass on a Ctrl-C that it got, too.
const AT_ONCE: Duration = Duration::from_millis(300);

/// Where a command runs.
#[derive(Clone, Default)]
pub struct Session {
    /// The program that called it. Without one the command has the process for itself: standard output,
    /// standard error, signals.
    pub caller: Option<Arc<dyn Caller>>,
    /// The machines that measure the cells of its grids, if not this one.
    pub engine: Option<Arc<dyn Engine>>,
    /// The function to call before a second Ctrl-C ends the process.
    pub at_exit: Option<fn()>,
}

impl Session {
    /// Makes Ctrl-C, SIGQUIT, SIGTERM, SIGHUP of a closed terminal and SIGXCPU of a limit on CPU time ask
    /// the work to end. A later Ctrl-C, SIGQUIT or SIGTERM ends the process. SIGHUP has no effect under
    /// `nohup`. A caller asks by itself.
    pub fn watch(&self) {
        static WATCHED: Once = Once::new();
        if self.caller.is_none() {
            // If handlers cannot be set, signals end the process as they do by default.
            WATCHED.call_once(|| watch_signals(self.at_exit));
        }
    }

    /// Whether the work may go on.
    pub fn goes_on(&self) -> bool {
        self.caller.as_ref().map_or_else(|| SINCE.get().is_none(), |caller| caller.goes_on())
    }

    /// Whether the user has asked the work to end.
    pub fn is_interrupted(&self) -> bool {
        !self.goes_on()
    }

    /// Prints text that is no document.
    ///
    /// # Errors
    /// Standard output cannot be written, or its reader has gone.
    pub fn print(&self, text: &str) -> Result<(), PublishError> {
        match &self.caller {
            Some(caller) => caller.prints(text),
            None => files::print(text)?,
        }
        Ok(())
    }

    /// Prints a line for the user.
    pub fn tell(&self, line: &str) {
        files::tell_caller(self.caller.as_deref(), line);
    }

    /// Shows a run until the returned value is dropped: in this form, or by the caller.
    pub fn view(&self, progress: Progress, source: Box<dyn Source>, show: Show) -> View {
        let at_exit = self.at_exit;
        match &self.caller {
            Some(caller) => View::by(caller.clone(), progress),
            None => View::start(progress, source, show, move || ask(at_exit)),
        }
    }

    /// Shows a run in one line, if standard error is a terminal: for commands without a live view.
    pub fn line(&self, progress: Progress) -> View {
        let show = if std::io::stderr().is_terminal() { Show::Line } else { Show::Nothing };
        self.view(progress, Box::new(()), show)
    }
}

/// Calls [`ask`] at each signal that ends processes. Of a closed terminal both the shell and the kernel may
/// tell, at any distance: SIGHUP only asks. So does SIGXCPU, which comes every second.
#[cfg(unix)]
fn watch_signals(at_exit: Option<fn()>) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU};
    let hang_up = (!hang_up_is_ignored()).then_some(SIGHUP);
    let all = [SIGINT, SIGQUIT, SIGTERM, SIGXCPU].into_iter().chain(hang_up);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let watch = move || {
        // Here, so that without a thread signals do what they do to any process.
        let signals = signal_hook::iterator::Signals::new(all);
        drop(ready);
        let Ok(mut signals) = signals else { return };
        for signal in signals.forever() {
            match signal {
                SIGHUP | SIGXCPU => drop(SINCE.get_or_init(Instant::now)),
                _ => ask(at_exit),
            }
        }
    };
    if std::thread::Builder::new().name("signals".into()).spawn(watch).is_ok() {
        let _: Result<(), _> = is_ready.recv();
    }
}

/// Whether the command was started to outlive its terminal, as by `nohup`. Only Linux tells.
#[cfg(unix)]
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

#[cfg(not(unix))]
fn watch_signals(at_exit: Option<fn()>) {
    let _ = ctrlc::set_handler(move || ask(at_exit));
}

/// Asks the work of this process to end; a later time ends the process.
fn ask(at_exit: Option<fn()>) {
    if SINCE.get_or_init(Instant::now).elapsed() > AT_ONCE {
        live::restore();
        at_exit.iter().for_each(|at_exit| at_exit());
        std::process::exit(130);
    }
}
