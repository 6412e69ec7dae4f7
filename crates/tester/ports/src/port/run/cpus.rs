//! The order in which threads take CPUs. First come CPUs with little other work, CPUs near the card, and CPUs
//! that do not handle its interrupts.

use super::cpu_list::CpuList;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long CPUs are observed to find the busy ones. Idle times are counted in steps of 10 ms.
const OBSERVED: Duration = Duration::from_millis(60);
/// Busy shares are rounded down to multiples of this: one step of 10 ms does not make a CPU busy.
const STEP: f64 = 0.25;

/// The CPUs that a user gave for this program, in their order; empty if none were given.
static GIVEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn refused(error: rustix::io::Errno) -> String {
    format!("cannot choose CPUs: {error}")
}

/// Checks that this program may use CPUs.
fn may_use(cpus: &[usize]) -> Result<(), String> {
    let allowed = members(&sched_getaffinity(None).map_err(refused)?);
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => {
            let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            let allowed = allowed.join(", ");
            Err(format!("CPU {cpu} may not be used by this program, only {allowed}"))
        }
    }
}

/// Restricts this thread, and the threads that it starts, to these CPUs, if any are given. Senders take the
/// first of them.
///
/// # Errors
/// A CPU that this program may not use, in one line.
pub fn use_cpus(cpus: Option<&CpuList>) -> Result<(), String> {
    let Some(cpus) = cpus else {
        GIVEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
        return Ok(());
    };
    may_use(cpus.numbers())?;
    sched_setaffinity(None, &only(cpus.numbers().iter().copied())).map_err(refused)?;
    *GIVEN.lock().unwrap_or_else(PoisonError::into_inner) = cpus.numbers().to_vec();
    Ok(())
}

/// The CPUs that a user gave for the cores of ports, in their order; empty if none were given.
static OF_CORES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// From now on the cores of ports have these CPUs, core k the kth one.
///
/// # Errors
/// A CPU that this program may not use, in one line.
pub fn use_cores(cpus: Option<&CpuList>) -> Result<(), String> {
    let cpus = cpus.map_or(&[][..], CpuList::numbers);
    may_use(cpus)?;
    *OF_CORES.lock().unwrap_or_else(PoisonError::into_inner) = cpus.to_vec();
    Ok(())
}

/// While it lives, this thread runs on the CPU of a core.
#[derive(Debug)]
pub struct Pinned(Option<CpuSet>);

/// Gives this thread the CPU of a core, if a user gave one.
pub fn pin_core(core: usize) -> Pinned {
    let cpu = OF_CORES.lock().unwrap_or_else(PoisonError::into_inner).get(core).copied();
    let before = cpu.and_then(|_| sched_getaffinity(None).ok());
    // The CPU may have gone since it was chosen: then the thread stays where it is.
    let is_pinned = cpu.is_some_and(|cpu| sched_setaffinity(None, &only([cpu])).is_ok());
    Pinned(before.filter(|_| is_pinned))
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// The CPUs of a set.
pub(super) fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// The set of these CPUs.
pub(super) fn only(cpus: impl IntoIterator<Item = usize>) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(cpu);
    }
    set
}

/// The CPUs around an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Near {
    /// CPUs of the card's memory node; empty if that is not known.
    local: BTreeSet<usize>,
    /// CPUs that handle its interrupts.
    interrupts: BTreeSet<usize>,
}

impl Near {
    /// The CPUs around an interface; none are known of a virtual one.
    pub fn interface(name: &str) -> Self {
        let device = Path::new("/sys/class/net").join(name).join("device");
        let read = |path: &Path| -> Vec<usize> {
            let list = std::fs::read_to_string(path).ok().and_then(|text| text.parse::<CpuList>().ok());
            list.map(|list| list.numbers().to_vec()).unwrap_or_default()
        };
        let irqs = std::fs::read_dir(device.join("msi_irqs")).into_iter().flatten().flatten();
        let handled = irqs.flat_map(|irq| {
            let folder = Path::new("/proc/irq").join(irq.file_name());
            read(&folder.join("effective_affinity_list"))
        });
        Self {
            local: read(&device.join("local_cpulist")).into_iter().collect(),
            interrupts: handled.collect(),
        }
    }
}

/// The CPUs in the order in which senders take them.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) cpus: Vec<usize>,
    /// The CPUs without other work.
    pub(super) idle: Vec<usize>,
}

impl Order {
    pub(super) const NONE: Self = Self { cpus: Vec::new(), idle: Vec::new() };

    /// The order of the CPUs in `allowed`.
    pub(super) fn of(allowed: &[usize], near: &Near) -> Self {
        if allowed.len() < 2 {
            return Self { cpus: allowed.to_vec(), idle: Vec::new() };
        }
        let before = spent(&read_stat());
        std::thread::sleep(OBSERVED);
        let after = spent(&read_stat());
        let load = |cpu: usize| load(busy(&before, &after, cpu));
        let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cpus = match given.is_empty() {
            true => ranked(allowed, near, load),
            false => given.into_iter().filter(|cpu| allowed.contains(cpu)).collect(),
        };
        Self { idle: cpus.iter().copied().filter(|&cpu| load(cpu) == 0).collect(), cpus }
    }
}

fn read_stat() -> String {
    std::fs::read_to_string("/proc/stat").unwrap_or_default()
}

/// A busy share, rounded down.
fn load(busy: f64) -> u32 {
    (busy / STEP) as u32
}

/// Orders CPUs. Of equal CPUs the one with the highest number is first: the system does most of its own work
/// on the lowest.
fn ranked(allowed: &[usize], near: &Near, load: impl Fn(usize) -> u32) -> Vec<usize> {
    let rank = |cpu: usize| {
        let far = !near.local.is_empty() && !near.local.contains(&cpu);
        (load(cpu), far, near.interrupts.contains(&cpu), std::cmp::Reverse(cpu))
    };
    let mut all: Vec<_> = allowed.iter().map(|&cpu| (rank(cpu), cpu)).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, cpu)| cpu).collect()
}

/// The time of each CPU in ticks (`/proc/stat`): idle, and in all.
fn spent(stat: &str) -> Vec<(usize, u64, u64)> {
    let cpu = |line: &str| {
        // The first line, of all CPUs together, has no number.
        let mut words = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?.split_whitespace();
        let number = words.next()?.parse().ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guest times are in the first two.
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        Some((number, ticks.get(3)? + ticks.get(4)?, ticks.iter().sum()))
    };
    stat.lines().filter_map(cpu).collect()
}

/// The share of the time between two observations in which a CPU was not idle; 0 if it is unknown.
fn busy(before: &[(usize, u64, u64)], after: &[(usize, u64, u64)], cpu: usize) -> f64 {
    let of = |all: &[(usize, u64, u64)]| all.iter().find(|it| it.0 == cpu).copied();
    let (Some((_, idle, all)), Some((_, idle_then, all_then))) = (of(before), of(after)) else { return 0.0 };
    let passed = all_then.saturating_sub(all);
    if passed == 0 { 0.0 } else { 1.0 - idle_then.saturating_sub(idle) as f64 / passed as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_cpu_near_the_card_without_its_interrupts_is_first() {
        let all = [0, 1, 2, 3];
        let near = Near { local: [0, 1].into(), interrupts: [1].into() };
        assert_eq!(ranked(&all, &Near::default(), |_| load(0.0)), [3, 2, 1, 0]);
        assert_eq!(ranked(&all, &near, |_| load(0.05)), [0, 1, 3, 2]);
        let one_tick = |cpu| load(if cpu == 3 { 1.0 - 4.0 / 5.0 } else { 0.0 });
        assert_eq!(ranked(&all, &Near::default(), one_tick), [3, 2, 1, 0]);
        let busy = |cpu: usize| load([1.0, 0.0, 0.05, 1.0][cpu]);
        assert_eq!(ranked(&all, &Near::default(), busy), [2, 1, 3, 0]);
        assert_eq!(ranked(&all, &near, busy), [1, 2, 0, 3], "an idle CPU far away is before a busy one");
    }

    #[test]
    fn busy_shares_are_read_from_ticks() {
        let before = spent(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 10 100 0 0 0 0 0 0\ncpu3 0 0 0 50 0 0 0 0 5 0\nintr 7\n",
        );
        let after = spent("cpu0 12 0 11 101 0 0 0 0 0 0\ncpu3 0 0 0 55 1 0 0 0 5 0\n");
        assert_eq!(before.len(), 2);
        let all: Vec<_> = [0, 3, 7].map(|cpu| busy(&before, &after, cpu)).into();
        assert_eq!(all, [0.75, 0.0, 0.0]);
    }
}
