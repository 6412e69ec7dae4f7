//! A thread that keeps a pace: it has a CPU of its own and priority over other programs, as far as the system
//! allows.
//!
//! A sender that waits behind other programs is late by whole time slices, 3 ms each. The remedy has three
//! parts. It runs on a CPU on which little else runs ([`cpus`](super::cpus)) and that the receiving thread
//! does not use: the kernel likes to wake that next to the sender. It has the highest priority of ordinary
//! programs (setpriority(2), which takes `CAP_SYS_NICE`). And if that CPU is not idle its session has that
//! priority, too, because the kernel compares sessions first and programs within them only then
//! (`sched_autogroup_enabled`, sched(7)). A real-time policy would be worse: a sender never sleeps, and the
//! kernel takes 50 ms of each second from such a thread (`sched_rt_runtime_us`, sched(7)). At least one CPU
//! stays with the other threads. A sender without a CPU of its own shares theirs: it has a priority above
//! other programs there, and below the receiver. Without the right, priorities stay. [`Got`] records what a
//! sender got, and [`waited`] how long the thread waited for a CPU nevertheless.

pub use super::cpus::{Near, Pinned, pin_core, use_cores, use_cpus};
use super::cpus::{Order, members, only};
use super::gaps::Got;
use super::session::Raised;
pub use super::session::left_raised;
use kpps_linux::{Policy, schedule};
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// This thread, as rustix names it.
const SELF: Option<rustix::process::Pid> = None;
/// The lowest real-time priority: before all ordinary programs.
const PRIORITY: i32 = 1;

/// The highest priority of ordinary programs (nice(1)).
const PREFERRED: i32 = -20;
/// The priority of a sender that shares its CPU with threads of this program, such as the one that watches
/// for Ctrl-C: these get a tenth of it.
const SHARING: i32 = -10;

/// How long the order of the CPUs is kept for the next trials: to find it takes a while.
const KEPT: Duration = Duration::from_secs(3);
/// Whether threads may take priority over other programs.
static MAY_BE_FIRST: AtomicBool = AtomicBool::new(true);

/// The threads of this process that keep to their CPUs.
static SHARED: Mutex<Shared> =
    Mutex::new(Shared { order: Order::NONE, ordered: None, threads: 0, taken: Vec::new(), session: None });

thread_local! {
    /// The CPU and priority of this thread, if it keeps a pace.
    static HELD: Cell<Option<Got>> = const { Cell::new(None) };
}

/// The state that all steady threads share while there is one.
#[derive(Debug)]
struct Shared {
    /// The CPUs in the order in which senders take them.
    order: Order,
    /// When that was found.
    ordered: Option<Instant>,
    threads: usize,
    /// CPUs that senders have.
    taken: Vec<usize>,
    /// The session's priority, while it is raised.
    session: Option<Raised>,
}

impl Shared {
    /// A thread joins: the first one finds the order of the CPUs.
    fn join(&mut self, allowed: &CpuSet, near: &Near) {
        if self.threads == 0 && self.ordered.is_none_or(|then| then.elapsed() > KEPT) {
            self.order = Order::of(&members(allowed), near);
            self.ordered = Some(Instant::now());
        }
        self.threads += 1;
    }

    /// A thread leaves: the last one puts the session's priority back.
    fn leave(&mut self) {
        self.threads -= 1;
        if self.threads == 0 {
            self.session = None;
        }
    }

    /// Raises the priority of the session, if that is permitted. Returns whether it is raised.
    fn raise_session(&mut self) -> bool {
        self.session = self.session.take().or_else(Raised::now);
        self.session.is_some()
    }
}

fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on threads take priority over other programs where that is permitted, or none does.
pub fn use_priority(is_used: bool) {
    MAY_BE_FIRST.store(is_used, Ordering::Relaxed);
}

/// Gives this thread, and the threads that it starts, the highest priority of ordinary programs, if that is
/// permitted; or takes it back. It is for threads that do little and whose lateness ends a trial.
pub fn prefer(is_preferred: bool) {
    /// The priority of threads that are not preferred.
    static ORDINARY: AtomicI32 = AtomicI32::new(0);
    match getpriority_process(SELF) {
        Ok(nice) if is_preferred && nice != PREFERRED => ORDINARY.store(nice, Ordering::Relaxed),
        _ => {}
    }
    if is_preferred && !MAY_BE_FIRST.load(Ordering::Relaxed) {
        return;
    }
    let nice = if is_preferred { PREFERRED } else { ORDINARY.load(Ordering::Relaxed) };
    let _ = setpriority_process(SELF, nice);
}

/// Puts the session's priority back, before the process ends while senders still run.
pub fn restore_priority() {
    shared().session = None;
}

/// While it lives, this thread has a CPU of its own, as far as possible.
#[derive(Debug)]
pub struct Steady {
    got: Got,
    /// Whether this value is the first of its thread: it sets the pace, and restores the previous settings.
    is_first: bool,
    /// The CPUs that the thread could use before; `None` if it still can.
    before: Option<CpuSet>,
    /// The priority that it had before.
    nice: i32,
}

impl Steady {
    /// Takes a CPU, if one is free, and priority. A thread that has them keeps them.
    pub fn now(near: &Near) -> Self {
        if let Some(got) = HELD.get() {
            return Self { got, is_first: false, before: None, nice: 0 };
        }
        let Ok(before) = sched_getaffinity(SELF) else {
            return Self { got: Got::default(), is_first: false, before: None, nice: 0 };
        };
        let mut shared = shared();
        shared.join(&before, near);
        let free: Vec<_> =
            shared.order.cpus.iter().copied().filter(|cpu| !shared.taken.contains(cpu)).collect();
        // The receiver and the handler of Ctrl-C need a CPU, too.
        let cpu = match free[..] {
            [cpu, _, ..] => sched_setaffinity(SELF, &only([cpu])).is_ok().then_some(cpu),
            _ => None,
        };
        shared.taken.extend(cpu);
        let nice = getpriority_process(SELF).unwrap_or(0);
        // Without the right to, its priority stays.
        let first = MAY_BE_FIRST.load(Ordering::Relaxed)
            && setpriority_process(SELF, if cpu.is_some() { PREFERRED } else { SHARING }).is_ok();
        // On an idle CPU there is no other program to be preferred to.
        let is_idle = cpu.is_some_and(|cpu| shared.order.idle.contains(&cpu));
        let session_first = first && !is_idle && shared.raise_session();
        let got = Got { cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()), first, session_first };
        HELD.set(Some(got));
        Self { got, is_first: true, before: cpu.map(|_| before), nice }
    }

    /// The CPU and priority that this thread got.
    pub fn got(&self) -> Got {
        self.got
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        if !self.is_first {
            return;
        }
        HELD.set(None);
        let _ = setpriority_process(SELF, self.nice);
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(SELF, before);
        }
        let mut shared = shared();
        shared.taken.retain(|taken| Some(*taken) != self.got.cpu.map(|cpu| cpu as usize));
        shared.leave();
    }
}

/// While it lives, this thread does not use the CPU that a sender takes first, if there is another.
#[derive(Debug)]
pub struct Aside {
    before: Option<CpuSet>,
    has_priority: bool,
}

impl Aside {
    /// Leaves that CPU. So do threads that this one starts meanwhile.
    pub fn now(near: &Near) -> Self {
        let Ok(before) = sched_getaffinity(SELF) else { return Self { before: None, has_priority: false } };
        let mut shared = shared();
        shared.join(&before, near);
        let is_aside = match &shared.order.cpus[..] {
            [_, rest @ ..] if !rest.is_empty() => {
                sched_setaffinity(SELF, &only(rest.iter().copied())).is_ok()
            }
            _ => false,
        };
        if !is_aside {
            shared.leave();
        }
        Self { before: is_aside.then_some(before), has_priority: false }
    }

    /// As [`now`](Self::now), for a receiver, with real-time priority: a late receiver loses frames, and it
    /// sleeps when nothing comes.
    pub fn receiving(near: &Near) -> Self {
        let has_priority = MAY_BE_FIRST.load(Ordering::Relaxed) && schedule(Policy::RealTime(PRIORITY));
        let mut aside = Self::now(near);
        aside.has_priority = has_priority;
        aside
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.has_priority {
            schedule(Policy::Ordinary);
        }
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(SELF, before);
            shared().leave();
        }
    }
}

/// How long this thread has been ready to run without a CPU, since it began. `None` if the system does not
/// report it.
pub fn waited() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn session() -> String {
        std::fs::read_to_string("/proc/self/autogroup").unwrap_or_default()
    }

    /// In a process and a session of its own: other tests send, too, take CPUs, and raise their session.
    #[test]
    fn a_cpu_stays_with_the_others_and_all_is_as_before() {
        let mut alone = std::process::Command::new("setsid");
        alone.arg("--wait").arg(std::env::current_exe().unwrap());
        alone.args(["--exact", "port::run::steady::tests::threads_agree_on_cpus", "--ignored"]);
        let output = alone.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    /// All cases are in one test: they share the list.
    #[test]
    #[ignore = "another test starts it"]
    fn threads_agree_on_cpus() {
        let (before, session_before) = (members(&sched_getaffinity(SELF).unwrap()), session());
        let mine = || members(&sched_getaffinity(SELF).unwrap());
        let threads = before.len() + 1;
        let all_started = std::sync::Arc::new(std::sync::Barrier::new(threads));
        let senders: Vec<_> = (0..threads)
            .map(|_| {
                let all_started = all_started.clone();
                std::thread::spawn(move || {
                    let steady = Steady::now(&Near::default());
                    let again = Steady::now(&Near::default());
                    assert_eq!(again.got(), steady.got(), "a thread has one CPU");
                    let mine = members(&sched_getaffinity(SELF).unwrap());
                    let (got, raised) = (steady.got(), session());
                    all_started.wait();
                    drop((again, steady));
                    (got, raised, mine, members(&sched_getaffinity(SELF).unwrap()))
                })
            })
            .collect();
        let all: Vec<_> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        let mut own: Vec<_> = all.iter().filter_map(|(got, ..)| got.cpu).collect();
        if before.len() > 1 {
            own.sort_unstable();
            own.dedup();
            assert_eq!(own.len(), before.len() - 1, "one stays: {all:?}");
        }
        for (got, raised, mine, after) in &all {
            assert!(got.cpu.is_none_or(|cpu| *mine == [cpu as usize]), "{all:?}");
            assert!(!got.session_first || raised.contains("-20"), "{all:?}");
            assert_eq!(*after, before, "{all:?}");
        }
        let left = {
            let shared = shared();
            (shared.taken.len(), shared.threads)
        };
        assert_eq!((left, session()), ((0, 0), session_before));
        let (first, others) = {
            let order = shared().order.cpus.clone();
            let mut others = order.get(1..).unwrap_or_default().to_vec();
            others.sort_unstable();
            (order.first().copied(), others)
        };
        let beside = std::thread::spawn(move || {
            let aside = Aside::now(&Near::default());
            let meanwhile = mine();
            drop(aside);
            (meanwhile, mine())
        });
        let (meanwhile, after) = beside.join().unwrap();
        assert_eq!(after, before);
        assert!(
            before.len() < 2 || meanwhile == others && !meanwhile.contains(&first.unwrap()),
            "{meanwhile:?}"
        );
        // A user's choice counts, in its order. The last one stays: this process ends here.
        if let [one, .., other] = before[..] {
            let chosen = |list: String| {
                let thread = std::thread::spawn(move || {
                    use_cpus(Some(&list.parse().unwrap())).unwrap();
                    shared().ordered = None;
                    let all = mine();
                    let steady = Steady::now(&Near::default());
                    (all, steady.got().cpu, mine())
                });
                thread.join().unwrap()
            };
            let own = u32::try_from(one).ok();
            assert_eq!(chosen(format!("{one},{other}")), (vec![one, other], own, vec![one]));
            assert_eq!(
                chosen(other.to_string()),
                (vec![other], None, vec![other]),
                "shared with the receiver"
            );
        }
        let missing = use_cpus(Some(&"4095".parse().unwrap())).unwrap_err();
        assert!(missing.contains("CPU 4095 may not be used by this program"), "{missing}");
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
