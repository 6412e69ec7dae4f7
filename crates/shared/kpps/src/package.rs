//! The Python package in the place of this process: it knows engines that measure cells.

use std::process::Command;

/// Python code that runs the same command with the package.
const RUN: &str = "import sys
try: from kpps.__main__ import main
except ImportError as error: sys.exit(f'kpps: --on needs the Python package of kpps, which cannot be imported ({error}): pip install kpps')
main()";

/// Has the Python package run the command line of this process on an engine, in the place of this process.
/// Returns only if it cannot, and then why, in one line. `KPPS_PYTHON` names another interpreter than
/// python3.
pub fn hand_over(engine: &str) -> String {
    let python = std::env::var_os("KPPS_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(&python);
    command.args(["-c", RUN]).args(std::env::args_os().skip(1));
    #[cfg(unix)]
    let failed = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let failed = match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    };
    format!(
        "--on {engine} needs Python, and {} cannot be run: {failed}; KPPS_PYTHON may name another interpreter",
        python.to_string_lossy()
    )
}
