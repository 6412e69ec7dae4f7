//! A thread that keeps a pace: a processor of its own, and ahead of other programs there, as far as the system allows.
//!
//! A sender that waits for its turn behind other programs is late by whole turns of theirs, 3 ms each. What helps is the
//! highest priority of ordinary programs (setpriority(2); it takes `CAP_SYS_NICE`), on a processor that the receiving thread, which
//! the kernel likes to wake next to the sender, does not share. A real-time policy would be worse: a sender never sleeps,
//! and of such a thread the kernel takes 50 ms in each second (`sched_rt_runtime_us`, sched(7)). One processor at least stays with the others; without a second one,
//! or without the right, nothing changes. How long the sender nevertheless waited for a processor is told ([`waited`]).

use crate::sys::{Policy, schedule};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Mutex;
use std::time::Duration;

/// This thread, as rustix names it.
const SELF: Option<rustix::process::Pid> = None;
/// Above all ordinary programs, below everything else in real time.
const PRIORITY: i32 = 1;

/// The highest priority of ordinary programs, as nice(1) counts.
const PREFERRED: i32 = -20;

/// Processors that senders of this process have.
static TAKEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// While it lives, this thread has a processor of its own.
#[derive(Debug)]
pub struct Steady {
    given: Option<Given>,
}

#[derive(Debug)]
struct Given {
    cpu: usize,
    /// Where the thread might run before.
    before: CpuSet,
}

/// The processors of a set, the last one first: the first one is where the system does most of its own work.
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
    /// From now on.
    pub fn now() -> Self {
        Self { given: Self::give() }
    }

    fn give() -> Option<Given> {
        let before = sched_getaffinity(SELF).ok()?;
        let mut taken = TAKEN.lock().ok()?;
        let free: Vec<_> = members(&before).into_iter().filter(|cpu| !taken.contains(cpu)).collect();
        // Somebody must receive, and heed Ctrl-C.
        let [cpu, _, ..] = free[..] else { return None };
        sched_setaffinity(SELF, &only([cpu])).ok()?;
        // Without the right to, it stays among the others.
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

/// While it lives, this thread is off the processor that a sender gets first, if there is another.
#[derive(Debug)]
pub struct Aside {
    before: Option<CpuSet>,
}

impl Aside {
    /// From now on. Threads that it starts meanwhile are, too.
    pub fn now() -> Self {
        let aside = |before: &CpuSet| match &members(before)[..] {
            [_, rest @ ..] if !rest.is_empty() => {
                sched_setaffinity(SELF, &only(rest.iter().copied())).is_ok()
            }
            _ => false,
        };
        Self { before: sched_getaffinity(SELF).ok().filter(aside) }
    }

    /// The same for a receiver, which has the right of way, too: what it is late for is lost, and it sleeps when nothing comes.
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

/// How long this thread has been ready to run and had no processor, since it began; `None` where the system does not tell.
pub fn waited() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// One at a time: all share the list.
    #[test]
    fn a_processor_stays_with_the_others_and_all_is_as_before() {
        let before = members(&sched_getaffinity(SELF).unwrap());
        let mine = || members(&sched_getaffinity(SELF).unwrap());
        let senders: Vec<_> = (0..before.len() + 1)
            .map(|number| {
                std::thread::spawn(move || {
                    let steady = Steady::now();
                    let mine = members(&sched_getaffinity(SELF).unwrap());
                    // Others come before it has gone.
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
        let Some(before) = waited() else { return };
        std::thread::yield_now();
        assert!(waited().unwrap() >= before);
    }
}
