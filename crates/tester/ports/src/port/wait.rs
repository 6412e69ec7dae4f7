//! Waiting until a port has something to do.

use super::{NextPoll, Wake};
use std::io;
use std::time::Duration;

/// The longest busy wait; a longer wait sleeps. A sleep of a Linux process ends 50 µs or more after its time:
/// timers have a slack of 50 µs (prctl(2), `PR_SET_TIMERSLACK`), and then the scheduler has to act; in a
/// virtual machine the delay is up to twice that. The pauses of our service are shorter than this limit. The
/// gaps of a source below 5 kpps are longer.
const SPIN_NS: u64 = 200_000;

/// Waits until one of the ports must be polled, or for `at_most`.
///
/// A long wait is a sleep that an interrupt or a frame ends. If a port must be polled very soon, the wait is
/// busy. Call [`Port::woken`](super::Port::woken) of every port afterwards.
///
/// # Errors
/// Errors of poll(2).
pub fn wait(ports: &[&dyn Wake], at_most: Duration) -> io::Result<()> {
    let mut left_ns = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
    for port in ports {
        match port.next_poll() {
            NextPoll::Now => return Ok(()),
            NextPoll::At(ns) => left_ns = left_ns.min(ns.saturating_sub(port.now_ns())),
            NextPoll::Asleep => {}
        }
    }
    if left_ns <= SPIN_NS {
        let Some(clock) = ports.first() else { return Ok(()) };
        let until_ns = clock.now_ns().saturating_add(left_ns);
        while clock.now_ns() < until_ns {
            std::hint::spin_loop();
        }
        return Ok(());
    }
    // The requested sleep is shorter than the wait, because it ends late. The caller calls again for the
    // rest, which is a busy wait.
    sleep(ports, Duration::from_nanos(left_ns - SPIN_NS / 2))
}

/// Sleeps until a port has received something, or can send its remaining frames, or for `at_most`.
#[cfg(target_os = "linux")]
fn sleep(ports: &[&dyn Wake], at_most: Duration) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    let mut fds = Vec::with_capacity(ports.len());
    for port in ports {
        if let Some(fd) = port.fd() {
            let send = if port.wants_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            let receive =
                if port.next_poll() == NextPoll::Asleep { PollFlags::IN } else { PollFlags::empty() };
            fds.push(PollFd::from_borrowed_fd(fd, send | receive));
        }
    }
    // A time that is too long for the system is treated as no limit.
    let at_most = Timespec::try_from(at_most).ok();
    match poll(&mut fds, at_most.as_ref()) {
        Ok(_) => {
            // An error that stays, such as that of a link that went down (packet(7)), would end each wait.
            for fd in fds.iter().filter(|fd| fd.revents().contains(PollFlags::ERR)) {
                let _ = rustix::net::sockopt::socket_error(fd);
            }
            Ok(())
        }
        // A signal, for example from Ctrl-C, also ends the wait.
        Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps for at most 1 ms, because the standard library cannot wait for a socket.
#[cfg(not(target_os = "linux"))]
fn sleep(_: &[&dyn Wake], at_most: Duration) -> io::Result<()> {
    const LITTLE: Duration = Duration::from_millis(1);
    std::thread::sleep(at_most.min(LITTLE));
    Ok(())
}
