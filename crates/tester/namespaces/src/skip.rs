//! Tests that cannot run here: each is counted, and none passes unseen.
//!
//! A test that lacks something calls one of these functions and returns. The function writes a line to
//! standard error, past the capture of test output, and appends it to the file that `KPPS_SKIPPED` names.
//! `make test` prints that file at the end.

use std::fs::OpenOptions;
use std::io::Write;

/// The running test needs something that a user can provide: root, a program, a download.
///
/// # Panics
/// If `KPPS_REQUIRE_ALL` is set, as in CI: there everything is provided, and a skipped test is a fault.
pub fn needs(what: &str) {
    assert!(std::env::var_os("KPPS_REQUIRE_ALL").is_none(), "skipped under KPPS_REQUIRE_ALL: needs {what}");
    record(&format!("needs {what}"));
}

/// Features that CI's machines lack: their kernel has no VLAN interfaces, their processor shows no cycle
/// counter.
const LACKED_IN_CI: [&str; 2] = ["VLAN interfaces", "a cycle counter"];

/// The running test needs something that this kernel or this hardware does not have.
///
/// # Panics
/// If `KPPS_REQUIRE_ALL` is set, as in CI, whose machines have it: then our own code fails to use it.
pub fn lacks(what: &str) {
    let is_known = LACKED_IN_CI.iter().any(|known| what.starts_with(known));
    assert!(
        is_known || std::env::var_os("KPPS_REQUIRE_ALL").is_none(),
        "skipped under KPPS_REQUIRE_ALL: this machine lacks {what}"
    );
    record(&format!("this machine lacks {what}"));
}

fn record(why: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("unnamed"));
    // `eprint!` would be captured, and a test that passes shows nothing of it.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("KPPS_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("KPPS_SKIPPED names a file");
    }
}
