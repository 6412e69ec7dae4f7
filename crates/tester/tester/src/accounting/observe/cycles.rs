//! CPU cycles, by the kernel's performance counters (perf_event_open(2)).

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A counter of each CPU's cycles, in all programs and in the kernel. An idle CPU counts none.
#[derive(Clone)]
pub(super) struct Cycles(Arc<Mutex<Vec<Counter>>>);

impl Cycles {
    /// Starts to count on these CPUs, if the host has such counters and this user may read them (cap_perfmon,
    /// or `kernel.perf_event_paranoid` of 0 at most).
    pub fn start(cpus: &[usize]) -> Option<Self> {
        Self::of(&Hardware::CPU_CYCLES, cpus).ok()
    }

    fn of(event: &(impl Event + Clone), cpus: &[usize]) -> io::Result<Self> {
        let count = |&cpu: &usize| {
            let mut counter = Builder::new(event.clone()).any_pid().one_cpu(cpu).include_kernel().build()?;
            counter.enable()?;
            Ok(counter)
        };
        cpus.iter().map(count).collect::<io::Result<_>>().map(|counters| Self(Arc::new(Mutex::new(counters))))
    }

    /// The cycles so far, for each CPU. A counter that shared the hardware is scaled up.
    pub fn read(&self) -> io::Result<Vec<u64>> {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |counter: &mut Counter| {
            let now = counter.read_full()?;
            Ok(scaled(now.count(), now.time_enabled().zip(now.time_running())))
        };
        counters.iter_mut().map(read).collect()
    }
}

/// A count, scaled up if it was only counted for a part of the time: how long it was enabled, and how long it
/// counted.
pub(super) fn scaled(count: u64, times: Option<(Duration, Duration)>) -> u64 {
    match times {
        Some((enabled, running)) if !running.is_zero() && running < enabled => {
            (count as f64 * enabled.as_secs_f64() / running.as_secs_f64()) as u64
        }
        _ => count,
    }
}

impl fmt::Debug for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cycles")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use perf_event::events::Software;
    use std::time::Instant;

    #[test]
    fn whatever_the_kernel_counts_is_scaled() {
        let ns = Duration::from_nanos;
        assert_eq!(scaled(10, Some((ns(4), ns(2)))), 20);
        assert_eq!(scaled(10, Some((ns(4), ns(0)))), 10);
        assert_eq!((scaled(10, Some((ns(2), ns(4)))), scaled(10, None)), (10, 10));
        assert_eq!(scaled(u64::MAX, Some((ns(u64::MAX), ns(1)))), u64::MAX);
    }

    #[test]
    fn counters_of_cpus_go_on() {
        // Every host has a clock, in ns.
        let Ok(clock) = Cycles::of(&Software::CPU_CLOCK, &[0]) else {
            kpps_namespaces::skip::needs("the right to count CPU events");
            return;
        };
        let (begun, before) = (Instant::now(), clock.read().unwrap()[0]);
        std::thread::sleep(Duration::from_millis(50));
        let passed = clock.read().unwrap()[0] - before;
        let at_most = begun.elapsed().as_nanos() as u64 + 1_000_000;
        assert!((50_000_000..at_most).contains(&passed), "{passed} of {at_most} ns");
    }

    #[test]
    fn there_are_cycles_of_all_cpus_or_of_none() {
        let Some(cycles) = Cycles::start(&[0]) else {
            return kpps_namespaces::skip::lacks("a cycle counter");
        };
        let before = cycles.read().unwrap()[0];
        let end = Instant::now() + Duration::from_millis(20);
        while Instant::now() < end {}
        assert_eq!(cycles.read().unwrap().len(), 1);
        assert!(Cycles::start(&[100_000]).is_none() && cycles.read().unwrap()[0] >= before);
    }
}
