//! Ctrl-C: the trial under way ends; results so far are published.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C (or SIGTERM) ask the work to end; a second one ends the process.
pub fn watch() {
    // If the handler cannot be set, Ctrl-C ends the process as it does by default.
    let _ = ctrlc::set_handler(ask);
}

/// Asks the work to end; the second time ends the process.
pub fn ask() {
    if INTERRUPTED.swap(true, Ordering::Relaxed) {
        kpps_report::live::restore();
        std::process::exit(130);
    }
}

/// Whether the work may go on.
pub fn goes_on() -> bool {
    !is_requested()
}

/// Whether the user has asked it to end.
pub fn is_requested() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
