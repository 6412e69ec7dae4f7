//! Doing nothing until there is something to do.

use super::{Next, Wake};
use std::io;
use std::time::Duration;

/// Up to this far ahead one waits spinning. To sleep and be woken by a timer takes a Linux kernel 50 µs and more (its
/// timers have a slack of that much, prctl(2) `PR_SET_TIMERSLACK`, and then the scheduler has its turn), in a virtual machine up to twice that; whoever
/// slept for less would come late. The pauses of our service are below it, those of a source of less than 5 kpps above.
const SPIN_NS: u64 = 200_000;

/// Waits until one of the ports wants to be looked at, or for `at_most`.
///
/// It sleeps, and wakes up with an interrupt or a frame, unless a port wants to be looked at very soon or one polls.
/// [`Port::woken`](super::Port::woken) is to be called afterwards, of every port.
///
/// # Errors
/// Those of the system.
pub fn rest(ports: &[&dyn Wake], at_most: Duration) -> io::Result<()> {
    let mut left_ns = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
    for port in ports {
        match port.next() {
            Next::Now => return Ok(()),
            Next::At(ns) => left_ns = left_ns.min(ns.saturating_sub(port.now_ns())),
            Next::Asleep => {}
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
    // Early by the slack, and the rest spinning: a timed port is due then.
    sleep(ports, Duration::from_nanos(left_ns - SPIN_NS / 2))
}

/// Sleeps until something has come to one of the ports, or there is room for what one has left to send.
#[cfg(target_os = "linux")]
fn sleep(ports: &[&dyn Wake], at_most: Duration) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    let mut fds = Vec::with_capacity(ports.len());
    for port in ports {
        if let Some(fd) = port.fd() {
            let send = if port.wants_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            let receive = if port.next() == Next::Asleep { PollFlags::IN } else { PollFlags::empty() };
            fds.push(PollFd::from_borrowed_fd(fd, send | receive));
        }
    }
    // A time that the system cannot express is as good as none.
    let at_most = Timespec::try_from(at_most).ok();
    match poll(&mut fds, at_most.as_ref()) {
        // A signal, for one Ctrl-C, ends a rest too.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps a little: the standard library waits for no socket.
#[cfg(not(target_os = "linux"))]
fn sleep(_: &[&dyn Wake], at_most: Duration) -> io::Result<()> {
    const LITTLE: Duration = Duration::from_millis(1);
    std::thread::sleep(at_most.min(LITTLE));
    Ok(())
}
