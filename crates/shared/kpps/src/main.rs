//! The command `kpps`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    kpps::answer_shell();
    kpps::process(std::env::args_os(), &kpps::session_of_process()).into()
}

/// Keeps the error of a standard output that is closed (`>&-`). Before `main` Rust's runtime opens /dev/null
/// in its place, and each write succeeds. This runs before that, and opens it for reading only: each write
/// fails, as it does for other programs.
#[cfg(target_os = "linux")]
mod closed_output {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use rustix::stdio::{dup2_stdout, stdout};

    extern "C" fn keep() {
        if rustix::io::fcntl_getfd(stdout()).is_err()
            && let Ok(null) = openat(CWD, "/dev/null", OFlags::RDONLY, Mode::empty())
        {
            let _ = dup2_stdout(&null);
            if std::os::fd::AsRawFd::as_raw_fd(&null) == 1 {
                // This is the descriptor that stays open.
                std::mem::forget(null);
            }
        }
    }

    // SAFETY: the C library calls what this section has, once and before `main`, with arguments that a
    // function without parameters ignores. `keep` makes system calls only.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static KEEP: extern "C" fn() = keep;
}
