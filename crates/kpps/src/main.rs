//! The command `kpps`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    kpps::answer_shell();
    kpps::process(std::env::args_os(), &kpps::session_of_process()).into()
}
