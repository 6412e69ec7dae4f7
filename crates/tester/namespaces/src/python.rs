//! The Python of tests (`make install-python`).

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The Python of tests, if it has this module. `KPPS_PYTHON` names another one.
pub fn python(module: &str) -> Option<PathBuf> {
    // A test is in `deps` of the folder where cargo builds.
    let built = env::current_exe().ok()?.ancestors().nth(3)?.to_owned();
    let python = env::var_os("KPPS_PYTHON").map_or_else(|| built.join("python/bin/python"), PathBuf::from);
    let import = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    import.is_ok_and(|done| done.status.success()).then_some(python)
}
