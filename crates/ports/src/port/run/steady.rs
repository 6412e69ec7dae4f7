//! A thread that keeps a pace: it has a CPU of its own and priority over other programs, as far as the system
//! allows.
//!
//! A sender that waits behind other programs is late by whole time slices, 3 ms each. The remedy is the
//! highest priority of ordinary programs (setpriority(2), which takes `CAP_SYS_NICE`), on a CPU that the
//! receiving thread does not use: the kernel likes to wake that next to the sender. A real-time policy would
//! be worse: a sender never sleeps, and the kernel takes 50 ms of each second from such a thread
//! (`sched_rt_runtime_us`, sched(7)). At least one CPU stays with the other threads. With one CPU, or without
//! the right, nothing changes. [`waited`] tells how long the thread waited for a CPU nevertheless.

use crate::sys::{Policy, schedule};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Mutex;
use std::time::Duration;

/// This thread, as rustix names it.
const SELF: Option<rustix::process::Pid> = None;
/// The lowest real-time priority: before all ordinary programs.
const PRIORITY: i32 = 1;

/// The highest priority of ordinary programs (nice(1)).
const PREFERRED: i32 = -20;

/// CPUs that senders of this process have.
static TAKEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// While it lives, this thread has a CPU of its own.
#[derive(Debug)]
pub struct Steady {
    given: Option<Given>,
}

#[derive(Debug)]
struct Given {
    cpu: usize,
    /// The CPUs that the thread could use before.
    before: CpuSet,
}

/// The CPUs of a set, the last one first: on the first one the system does most of its own work.
fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).rev().filter(|&cpu| set.is_set(cpu)).collect()
}

fn only(cpus: impl IntoIterator<Item = usize>) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(cpu);
    }
    set
}

impl Steady {
    /// Takes a CPU, if one is free.
    pub fn now() -> Self {
        Self { given: Self::give() }
    }

    fn give() -> Option<Given> {
        let before = sched_getaffinity(SELF).ok()?;
        let mut taken = TAKEN.lock().ok()?;
        let free: Vec<_> = members(&before).into_iter().filter(|cpu| !taken.contains(cpu)).collect();
        // The receiver and the handler of Ctrl-C need a CPU, too.
        let [cpu, _, ..] = free[..] else { return None };
        sched_setaffinity(SELF, &only([cpu])).ok()?;
        // Without the right to, its priority stays.
        let _ = setpriority_process(SELF, PREFERRED);
        taken.push(cpu);
        Some(Given { cpu, before })
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        let Some(Given { cpu, before }) = &self.given else { return };
        let _ = setpriority_process(SELF, 0);
        let _ = sched_setaffinity(SELF, before);
        if let Ok(mut taken) = TAKEN.lock() {
            taken.retain(|taken| taken != cpu);
        }
    }
}

/// While it lives, this thread does not use the CPU that a sender takes first, if there is another.
#[derive(Debug)]
pub struct Aside {
    before: Option<CpuSet>,
}

impl Aside {
    /// Leaves that CPU. So do threads that this one starts meanwhile.
    pub fn now() -> Self {
        let aside = |before: &CpuSet| match &members(before)[..] {
            [_, rest @ ..] if !rest.is_empty() => {
                sched_setaffinity(SELF, &only(rest.iter().copied())).is_ok()
            }
            _ => false,
        };
        Self { before: sched_getaffinity(SELF).ok().filter(aside) }
    }

    /// As [`now`](Self::now), for a receiver, with real-time priority: a late receiver loses frames, and it
    /// sleeps when nothing comes.
    pub fn receiving() -> Self {
        let aside = Self::now();
        if aside.before.is_some() {
            schedule(Policy::RealTime(PRIORITY));
        }
        aside
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            schedule(Policy::Ordinary);
            let _ = sched_setaffinity(SELF, before);
        }
    }
}

/// How long this thread has been ready to run without a CPU, since it began. `None` if the system does not
/// tell.
pub fn waited() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// All cases are in one test: they share the list.
    #[test]
    fn a_processor_stays_with_the_others_and_all_is_as_before() {
        let before = members(&sched_getaffinity(SELF).unwrap());
        let mine = || members(&sched_getaffinity(SELF).unwrap());
        let senders: Vec<_> = (0..before.len() + 1)
            .map(|number| {
                std::thread::spawn(move || {
                    let steady = Steady::now();
                    let mine = members(&sched_getaffinity(SELF).unwrap());
                    // The others start before this one ends.
                    std::thread::sleep(Duration::from_millis(200));
                    drop(steady);
                    (number, mine, members(&sched_getaffinity(SELF).unwrap()))
                })
            })
            .collect();
        let all: Vec<_> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        let mut own: Vec<_> =
            all.iter().filter(|(_, mine, _)| mine.len() == 1).map(|(_, mine, _)| mine[0]).collect();
        if before.len() > 1 {
            own.sort_unstable();
            own.dedup();
            assert_eq!(own.len(), before.len() - 1, "{all:?}");
            assert!(!own.contains(before.last().unwrap()), "the first one stays");
        }
        assert!(all.iter().all(|(.., after)| *after == before), "{all:?}");
        assert!(TAKEN.lock().unwrap().is_empty());
        let beside = std::thread::spawn(move || {
            let aside = Aside::now();
            let meanwhile = mine();
            drop(aside);
            (meanwhile, mine())
        });
        let rest = if before.len() > 1 { before[1..].to_vec() } else { before.clone() };
        assert_eq!(beside.join().unwrap(), (rest, before));
    }

    #[test]
    fn waiting_is_told() {
        let Some(before) = waited() else {
            return kpps_namespaces::skip::lacks("statistics of the scheduler");
        };
        std::thread::yield_now();
        assert!(waited().unwrap() >= before);
    }
}
