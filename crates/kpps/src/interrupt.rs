//! Ctrl-C: the trial under way ends; results so far are published.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// When the work was first asked to end.
static SINCE: OnceLock<Instant> = OnceLock::new();
/// Requests within this time are one: of a closed terminal both the shell and the kernel tell.
const AT_ONCE: Duration = Duration::from_millis(300);

/// Makes Ctrl-C, SIGTERM, and SIGHUP of a closed terminal ask the work to end; a later one ends the process.
pub fn watch() {
    // If the handler cannot be set, Ctrl-C ends the process as it does by default.
    let _ = ctrlc::set_handler(ask);
}

/// Asks the work to end; a later time ends the process.
pub fn ask() {
    if SINCE.get_or_init(Instant::now).elapsed() > AT_ONCE {
        kpps_report::live::restore();
        #[cfg(feature = "ports")]
        kpps_ports::port::run::restore_priority();
        std::process::exit(130);
    }
}

/// Whether the work may go on.
pub fn goes_on() -> bool {
    !is_requested()
}

/// Whether the user has asked it to end.
pub fn is_requested() -> bool {
    SINCE.get().is_some()
}
