//! Waiting until a port has something to do.

use super::{NextPoll, Wake};
use std::io;
use std::time::Duration;

/// Waits up to this long are busy. A sleep until a timer fires takes a Linux kernel 50 µs and more: timers
/// have a slack of 50 µs (prctl(2), `PR_SET_TIMERSLACK`), then the scheduler has to act; in a virtual machine
/// it takes up to twice that. A shorter sleep would end late. The pauses of our service are shorter than
/// this, those of a source of less than 5 kpps are longer.
const SPIN_NS: u64 = 200_000;

/// Waits until one of the ports must be polled, or for `at_most`.
///
/// It sleeps until an interrupt or a frame comes. It does not sleep if a port must be polled very soon. Call
/// [`Port::woken`](super::Port::woken) of every port afterwards.
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
    // The sleep ends early by the slack. The caller comes back and waits busily for the rest.
    sleep(ports, Duration::from_nanos(left_ns - SPIN_NS / 2))
}

/// Sleeps until a port has received something, or can send what it has left to send.
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
    // A time too long for the system is as good as none.
    let at_most = Timespec::try_from(at_most).ok();
    match poll(&mut fds, at_most.as_ref()) {
        // A signal, as of Ctrl-C, ends the wait, too.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps a little: the standard library cannot wait for a socket.
#[cfg(not(target_os = "linux"))]
fn sleep(_: &[&dyn Wake], at_most: Duration) -> io::Result<()> {
    const LITTLE: Duration = Duration::from_millis(1);
    std::thread::sleep(at_most.min(LITTLE));
    Ok(())
}
