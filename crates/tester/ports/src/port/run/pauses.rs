//! Pauses: the reasons that kept a sender from its CPU when it could not send in time.
//!
//! The scheduler counts how long each thread was ready to run without a CPU (`/proc/thread-self/schedstat`,
//! Documentation/scheduler/sched-stats.rst). A control group counts for how long its quota was used up
//! (`cpu.stat`, Documentation/admin-guide/cgroup-v2.rst), and a virtual machine the time that its host took
//! (`steal`, proc_stat(5)). They are read only after frames were given up, and at most once a millisecond:
//! what they say then of the time since the last reading is what happened meanwhile.

use super::steady::waited;
use kpps_documents::{Disturbance, Pause, PausedBy};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The least time between two readings.
const EVERY: Duration = Duration::from_millis(1);
/// A tick of `/proc/stat`: `USER_HZ` is 100 on all architectures that have it.
const TICK: Duration = Duration::from_millis(10);

/// Looks for pauses while a sender runs.
#[derive(Debug)]
pub struct Pauses {
    system: System,
    before: Times,
    /// When that was, since sending began.
    read_at: Duration,
    /// Frames that were given up since, and before.
    given_up: u64,
    given_up_before: u64,
    cpu: Option<u32>,
    found: Disturbance,
}

/// Where the times are read.
#[derive(Debug)]
struct System {
    quotas: Vec<Quota>,
    cpu: Option<u32>,
}

/// A control group with a quota of CPU time, by its `cpu.stat`.
#[derive(Debug)]
struct Quota {
    group: String,
    stat: PathBuf,
}

/// The times at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Times {
    /// How long the thread was ready to run without a CPU.
    waited: Duration,
    /// How long each control group's quota was used up.
    throttled: Vec<Duration>,
    /// The time of the thread's CPU that the host of a virtual machine took.
    stolen: Duration,
}

impl System {
    fn now(cpu: Option<u32>) -> Self {
        let groups = std::fs::read_to_string("/proc/thread-self/cgroup").unwrap_or_default();
        Self { quotas: quotas(&groups, Path::new("/sys/fs/cgroup")), cpu }
    }

    /// `None` if the scheduler does not report it.
    fn times(&self) -> Option<Times> {
        let throttled = |quota: &Quota| {
            let text = std::fs::read_to_string(&quota.stat).unwrap_or_default();
            throttled(&text).unwrap_or_default()
        };
        let stat = self.cpu.and_then(|_| std::fs::read_to_string("/proc/stat").ok()).unwrap_or_default();
        Some(Times {
            waited: waited()?,
            throttled: self.quotas.iter().map(throttled).collect(),
            stolen: self.cpu.and_then(|cpu| stolen(&stat, cpu)).unwrap_or_default(),
        })
    }
}

/// The groups with a quota among the groups that `/proc/PID/cgroup` names, and among the groups above them.
fn quotas(groups: &str, root: &Path) -> Vec<Quota> {
    let mut all = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        // Version 2 has no list of controllers, and may be mounted below version 1.
        let mounts: &[&str] = match controllers {
            "" => &["", "unified"],
            list if list.split(',').any(|name| name == "cpu") => &["cpu", "cpu,cpuacct"],
            _ => continue,
        };
        for mount in mounts {
            for group in Path::new(path).ancestors() {
                let inside = group.strip_prefix("/").unwrap_or(group);
                let stat = root.join(mount).join(inside).join("cpu.stat");
                let text = std::fs::read_to_string(&stat).unwrap_or_default();
                if throttled(&text).is_some() {
                    all.push(Quota { group: group.display().to_string(), stat });
                }
            }
        }
    }
    all
}

/// How long a group's quota was used up, of a `cpu.stat` of either version; `None` of a group without a
/// quota's counters.
fn throttled(stat: &str) -> Option<Duration> {
    stat.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value = value.trim().parse().ok()?;
        match name {
            "throttled_usec" => Some(Duration::from_micros(value)),
            "throttled_time" => Some(Duration::from_nanos(value)),
            _ => None,
        }
    })
}

/// The time of a CPU that the host took, of `/proc/stat`.
fn stolen(stat: &str, cpu: u32) -> Option<Duration> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '))?;
    let ticks: u32 = line.split_whitespace().nth(7)?.parse().ok()?;
    Some(TICK * ticks)
}

impl Times {
    /// How long the thread was kept from its CPU since an earlier moment, and by what: the longest of the
    /// three. A quota that is used up makes the thread wait, too.
    fn since(&self, before: &Self, quotas: &[Quota]) -> (Duration, PausedBy) {
        let waited = self.waited.saturating_sub(before.waited);
        let stolen = self.stolen.saturating_sub(before.stolen);
        let throttled = self.throttled.iter().zip(&before.throttled).zip(quotas);
        let throttled = throttled.map(|((now, then), quota)| (now.saturating_sub(*then), quota));
        match throttled.max_by_key(|(time, _)| *time) {
            // Another thread of the group may have used it up, and this one waits to the end.
            Some((time, quota)) if time * 2 > waited.max(stolen) => {
                (time.max(waited), PausedBy::Quota { group: quota.group.clone() })
            }
            _ if stolen > waited => (stolen, PausedBy::Hypervisor),
            _ => (waited, PausedBy::Programs),
        }
    }
}

impl Pauses {
    /// Watches this thread from now on; `None` if the system has no counters for it. `cpu`: the CPU that the
    /// thread is bound to.
    pub fn begin(cpu: Option<u32>) -> Option<Self> {
        let system = System::now(cpu);
        let before = system.times()?;
        let found = Disturbance::default();
        Some(Self { system, before, read_at: Duration::ZERO, given_up: 0, given_up_before: 0, cpu, found })
    }

    /// Frames were given up now, since sending began, as they could not be sent in time.
    #[cold]
    pub fn give_up(&mut self, now: Duration, frames: u64) {
        self.given_up += frames;
        if now.saturating_sub(self.read_at) >= EVERY {
            self.read(now);
        }
    }

    /// Finds out what happened since the last reading.
    fn read(&mut self, now: Duration) {
        let Some(times) = self.system.times() else { return };
        let (lasted, by) = times.since(&self.before, &self.system.quotas);
        self.note(now, lasted, by);
        self.before = times;
    }

    /// Something kept the thread from its CPU for `lasted` since the last reading.
    fn note(&mut self, now: Duration, lasted: Duration, by: PausedBy) {
        let given_up = std::mem::take(&mut self.given_up);
        self.given_up_before += given_up;
        // At most since the last reading: a tick is long.
        let lasted = lasted.min(now.saturating_sub(self.read_at));
        self.read_at = now;
        // The sender makes up for a shorter wait.
        if given_up == 0 || lasted < EVERY {
            return;
        }
        self.found.frames += given_up;
        self.found.pauses += 1;
        let pause = Pause {
            at_ns: now.saturating_sub(lasted).as_nanos() as u64,
            lasted_ns: lasted.as_nanos() as u64,
            cpu: self.cpu,
            by,
        };
        if self.found.longest.as_ref().is_none_or(|longest| pause.lasted_ns > longest.lasted_ns) {
            self.found.longest = Some(pause);
        }
    }

    /// The disturbance of the sender, which has ended now. `never_sent`: all frames that were due and not
    /// sent, including frames that became due in a last pause.
    pub fn end(mut self, now: Duration, never_sent: u64) -> Disturbance {
        self.given_up = never_sent.saturating_sub(self.given_up_before);
        if self.given_up > 0 {
            self.read(now);
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pauses() -> Pauses {
        Pauses {
            system: System { quotas: Vec::new(), cpu: None },
            before: Times::default(),
            read_at: Duration::ZERO,
            given_up: 0,
            given_up_before: 0,
            cpu: Some(0),
            found: Disturbance::default(),
        }
    }

    #[test]
    fn what_was_given_up_in_a_wait_is_a_disturbance_and_anything_else_is_not() {
        let mut pauses = pauses();
        // 4.3 ms of waiting at 0.61 s: 54 frames of 20 kpps.
        pauses.given_up = 54;
        pauses.note(614 * MS, Duration::from_micros(4300), PausedBy::Programs);
        // A generator that cannot send more gives frames up all the time, and waits for nothing.
        for ms in 700..800 {
            pauses.given_up = 10;
            pauses.note(ms * MS, Duration::from_micros(20), PausedBy::Programs);
        }
        // A wait that the sender made up for.
        pauses.note(900 * MS, 2 * MS, PausedBy::Programs);
        let found = pauses.end(1000 * MS, 54 + 100 * 10);
        assert_eq!((found.frames, found.pauses), (54, 1));
        assert_eq!(found.words(), "other programs had CPU 0 for 4.3 ms at 0.61 s");
    }

    #[test]
    fn a_pause_is_no_longer_than_the_time_since_the_last_one() {
        let mut pauses = pauses();
        pauses.given_up = 1;
        pauses.note(5 * MS, TICK, PausedBy::Hypervisor);
        let longest = pauses.found.longest.unwrap();
        assert_eq!((longest.at_ns, longest.lasted_ns), (0, 5_000_000));
    }

    #[test]
    fn the_quota_of_a_group_is_told_from_other_programs() {
        let quotas = ["/a/b", "/a"].map(|group| Quota { group: group.into(), stat: PathBuf::new() });
        let times = |waited, throttled: [u32; 2], stolen| Times {
            waited: waited * MS,
            throttled: throttled.map(|ms| ms * MS).to_vec(),
            stolen: stolen * MS,
        };
        let before = times(100, [50, 50], 10);
        let since = |now: Times| now.since(&before, &quotas);
        assert_eq!(since(times(104, [50, 50], 10)), (4 * MS, PausedBy::Programs));
        let group = |name: &str| PausedBy::Quota { group: name.into() };
        assert_eq!(since(times(180, [50, 130], 10)), (80 * MS, group("/a")));
        assert_eq!(since(times(100, [70, 50], 10)), (20 * MS, group("/a/b")));
        assert_eq!(since(times(103, [50, 50], 20)), (10 * MS, PausedBy::Hypervisor));
    }

    /// Files as Linux 6.1 has them, of both versions.
    #[test]
    fn groups_with_a_quota_are_found_up_to_the_root() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        put("cpu.stat", "usage_usec 5\nuser_usec 3\nsystem_usec 2\n");
        put("ci/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 240000\n");
        put("ci/job/cpu.stat", "usage_usec 5\n");
        put("cpu,cpuacct/box/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 7000000\n");
        let found = quotas("4:memory:/x\n2:cpu,cpuacct:/box\n0::/ci/job\n", root.path());
        let groups: Vec<_> = found.iter().map(|quota| quota.group.as_str()).collect();
        assert_eq!(groups, ["/box", "/ci"]);
        let of = |quota: &Quota| throttled(&std::fs::read_to_string(&quota.stat).unwrap());
        assert_eq!(of(&found[0]), Some(7 * MS));
        assert_eq!(of(&found[1]), Some(240 * MS));
        let stat = "cpu  1 2 3 4 5 6 7 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu01 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!((stolen(stat, 0), stolen(stat, 7)), (Some(80 * MS), None));
    }
}
