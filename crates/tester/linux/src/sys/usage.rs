//! The CPU time of this process: getrusage(2).

use std::time::Duration;

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

/// The CPU time of all threads of this process so far. `None` if the system does not report it.
pub fn cpu_time() -> Option<CpuTime> {
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage`, which lives.
    super::check(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }).ok()?;
    let time = |time: libc::timeval| {
        let (seconds, us) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_usec).ok()?);
        Some(Duration::from_secs(seconds) + Duration::from_micros(us))
    };
    Some(CpuTime { user: time(usage.ru_utime)?, system: time(usage.ru_stime)? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_takes_cpu_time() {
        let (before, since) = (cpu_time().unwrap(), Instant::now());
        let total = |time: CpuTime| time.user + time.system;
        while total(cpu_time().unwrap()) < total(before) + Duration::from_millis(5) {
            assert!(since.elapsed() < Duration::from_secs(60));
        }
    }
}
