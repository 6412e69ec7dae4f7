//! sched_setscheduler(2).

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As all ordinary threads.
    Ordinary,
    /// Before all ordinary threads, at this real-time priority (1 is the lowest). Child processes are
    /// ordinary.
    RealTime(i32),
}

/// Gives this thread a policy. Returns false if the system refuses.
pub fn schedule(policy: Policy) -> bool {
    let (policy, sched_priority) = match policy {
        Policy::Ordinary => (libc::SCHED_OTHER, 0),
        Policy::RealTime(priority) => (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority),
    };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the kernel reads one `sched_param`, which lives. 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}
