//! Counters of the guest's kernel, read at one moment: time, CPU time, interrupts of cards.

use crate::lab::{Error, Guest, Result};
use kpps_documents::Cpu;

/// Prints what [`Snapshot::parse`] reads, by one program: the less it takes, the less it disturbs.
const COMMAND: &str = "awk '/^now at/{print} /idle_sleeptime/{idle+=$3} /^cpu /{cpu=$0} \
    FILENAME~/interrupts/&&/eth|uio|vfio|virtio[0-9]+-(in|out)put\\./{lines=lines $0 \"\\n\"} \
    END{printf \"idle %.0f\\n%s\\n%s\\n\",idle,cpu,lines}' /proc/timer_list /proc/stat /proc/interrupts 2>&1";
/// The separator of two snapshots of a series.
const NEXT: &str = "\u{2}";

/// The guest's counters at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The guest's clock in nanoseconds.
    pub at_ns: u64,
    /// The time in nanoseconds that its CPUs were idle, without interrupts meanwhile.
    pub idle_ns: u64,
    /// CPU time in hundredths of a second: user and nice, system, idle and waiting, hard interrupts, soft
    /// ones.
    pub cpu: [u64; 5],
    /// Interrupts of all cards so far.
    pub interrupts: u64,
    /// The output of the workload's own counter.
    pub text: String,
}

impl Snapshot {
    /// The counters now, and the output of `command`, which runs right afterwards.
    ///
    /// # Errors
    /// If the guest does not answer.
    pub fn take(guest: &mut Guest, command: &str) -> Result<Self> {
        let answer = guest.at_once(&format!("{COMMAND}; {command}"))?;
        Self::parse(&answer)
            .ok_or_else(|| Error::Protocol { what: "the guest's counters".into(), answer: answer.clone() })
    }

    /// `count` snapshots by one command, so that nothing of the host's comes in between. From one to the next
    /// the guest runs `between`.
    ///
    /// # Errors
    /// If the guest does not answer.
    pub fn series(guest: &mut Guest, command: &str, between: &str, count: usize) -> Result<Vec<Self>> {
        let one = format!("{COMMAND}; {command}");
        let next = format!("; printf '{NEXT}'; {between}; {one}");
        let answer = guest.at_once(&(one + &next.repeat(count.saturating_sub(1))))?;
        let parse = |part| {
            Self::parse(part).ok_or_else(|| Error::Protocol {
                what: "the guest's counters".into(),
                answer: answer.clone(),
            })
        };
        answer.split(NEXT).map(parse).collect()
    }

    pub(crate) fn parse(answer: &str) -> Option<Self> {
        let mut lines = answer.lines();
        let at_ns = lines.next()?.strip_prefix("now at ")?.split(' ').next()?.parse().ok()?;
        let idle_ns = lines.next()?.strip_prefix("idle ")?.parse().ok()?;
        let ticks: Vec<u64> =
            lines.next()?.strip_prefix("cpu ")?.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let [user, nice, system, idle, waiting, hard, soft, ..] = ticks[..] else { return None };
        let mut interrupts = 0;
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            // "24: 17 0 PCI-MSI …": a number for each CPU.
            let numbers = line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
            interrupts = numbers.fold(interrupts, u64::saturating_add);
        }
        let text = lines.collect::<Vec<_>>().join("\n");
        let cpu = [user.saturating_add(nice), system, idle.saturating_add(waiting), hard, soft];
        Some(Self { at_ns, idle_ns, cpu, interrupts, text })
    }

    /// Seconds from `before` to now.
    pub fn seconds_since(&self, before: &Self) -> f64 {
        self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9
    }

    /// The share of CPU time since `before` that was spent in `self.cpu[part]`; `None` if none was counted.
    fn cpu_share(&self, before: &Self, part: usize) -> Option<f64> {
        let spent = |part: usize| self.cpu[part].saturating_sub(before.cpu[part]) as f64;
        let all: f64 = (0..self.cpu.len()).map(spent).sum();
        (all > 0.0).then(|| spent(part) / all)
    }

    /// The time of the guest's only CPU since `before`, by kind. At each tick the kernel samples its CPU's
    /// work; `exact` is the share in which it was busy, where that is known, and the kinds add up to it.
    /// `None` if nothing was counted, or if no tick found the CPU busy although it was: then its kinds are
    /// not known.
    pub fn cpu_since(&self, before: &Self, exact: Option<f64>) -> Option<Cpu> {
        let share = |part| self.cpu_share(before, part);
        // To a guest's kernel a poll that finds nothing is work like any other.
        let (user, system, hardirq, softirq) = (share(0)?, share(1)?, share(3)?, share(4)?);
        let seen = user + system + hardirq + softirq;
        let scale = match exact {
            Some(busy) if seen > 0.0 => busy / seen,
            Some(busy) if busy > 0.0 => return None,
            _ => 1.0,
        };
        Some(Cpu {
            hardirq: hardirq * scale,
            softirq: softirq * scale,
            thread: (user + system) * scale,
            idle_polls: None,
        })
    }

    /// Nanoseconds since `before` in which the guest's only CPU was not idle.
    pub fn busy_ns_since(&self, before: &Self) -> f64 {
        let idle_ns = self.idle_ns.saturating_sub(before.idle_ns);
        self.at_ns.saturating_sub(before.at_ns).saturating_sub(idle_ns) as f64
    }

    /// The share of the time since `before` in which the guest's only CPU was not idle; `None` if no time has
    /// passed.
    pub fn busy_since(&self, before: &Self) -> Option<f64> {
        let seconds = self.seconds_since(before);
        (seconds > 0.0).then(|| self.busy_ns_since(before) / 1e9 / seconds)
    }
}

/// Register accesses of e1000, e1000e and igb cards in a trace of QEMU's: reads and writes. Those count that
/// are between the first and the last access to the address `mark`.
pub fn accesses(trace: &[u8], mark: &str) -> (u64, u64) {
    let mark = format!(" addr {mark} ");
    let (mut seen, mut reads, mut writes) = (None, 0, 0);
    for line in trace.split(|byte| *byte == b'\n') {
        let has = |wanted: &[u8]| line.windows(wanted.len()).any(|window| window == wanted);
        if !line.ends_with(b"-mmio'") || !(has(b"'e1000") || has(b"'igb")) {
            continue;
        }
        if has(mark.as_bytes()) {
            seen = seen.or(Some((0, 0))).map(|_| (reads, writes));
        } else if seen.is_some() && has(b"ops_read ") {
            reads += 1;
        } else if seen.is_some() && has(b"ops_write ") {
            writes += 1;
        }
    }
    seen.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn kinds_add_up_to_what_is_known_and_are_unknown_if_no_tick_saw_them() {
        let at = |cpu: [u64; 5]| Snapshot { at_ns: 0, idle_ns: 0, cpu, interrupts: 0, text: String::new() };
        let before = at([0; 5]);
        let cpu = |ticks, exact| at(ticks).cpu_since(&before, exact).map(|cpu| (cpu.hardirq, cpu.busy()));
        assert_eq!(cpu([1, 1, 6, 1, 1], None), Some((0.1, 0.4)));
        assert_eq!(cpu([1, 1, 6, 1, 1], Some(0.8)), Some((0.2, 0.8)));
        assert_eq!(cpu([0, 0, 10, 0, 0], Some(0.2)), None, "it was busy between the ticks");
        assert_eq!(cpu([0, 0, 10, 0, 0], Some(0.0)), Some((0.0, 0.0)));
        assert_eq!(cpu([0, 0, 10, 0, 0], None), Some((0.0, 0.0)));
        assert_eq!(cpu([0; 5], Some(0.2)), None);
    }

    #[test]
    fn counters_are_read_as_the_kernel_prints_them() {
        let text = "now at 3409400738 nsecs\nidle 2500000000\ncpu  288 1 212 195 4 5 6 0 0 0\n \
             20:        114          3   IO-APIC  20-fasteoi   uio_pci_generic, eth0\n \
             25:         25          0   PCI-MSI 131073-edge      eth1\n\nmine 1\nmine 2\n";
        let snapshot = Snapshot::parse(text).unwrap();
        assert_eq!((snapshot.at_ns, snapshot.interrupts), (3_409_400_738, 142));
        assert_eq!(snapshot.cpu, [289, 212, 199, 5, 6]);
        assert_eq!(snapshot.text, "mine 1\nmine 2");
        let before =
            Snapshot { at_ns: 3_409_400_738 - 500_000_000, idle_ns: 2_250_000_000, ..snapshot.clone() };
        assert_eq!((snapshot.seconds_since(&before), snapshot.busy_since(&before)), (0.5, Some(0.5)));
        assert_eq!(snapshot.busy_since(&snapshot), None, "no time has passed");
        for cut in 0..text.find("\n\n").unwrap() {
            let _ = Snapshot::parse(&text[..cut]);
        }
    }

    #[test]
    fn only_accesses_of_cards_count() {
        let trace = b"7@1.4:memory_region_ops_write cpu 0 mr 0x5 addr 0xfeb83818 value 0x5 size 4 name 'e1000-mmio'\n\
            7@1.4:memory_region_ops_read cpu 0 mr 0x5 addr 0xfeb81000 value 0x5 size 4 name 'e1000-mmio'\n\
            7@1.5:memory_region_ops_write cpu 0 mr 0x5 addr 0xfeb83818 value 0x5 size 4 name 'e1000-mmio'\n\
            7@1.5:memory_region_ops_read cpu 0 mr 0x5 addr 0xfeb83818 value 0x5 size 4 name 'e1000e-mmio'\n\
            7@1.5:memory_region_ops_read cpu 0 mr 0x5 addr 0x1f0 value 0x5 size 4 name 'kvm-pic'\n\
            7@1.6:memory_region_ops_read cpu 0 mr 0x5 addr 0xfeb81000 value 0x5 size 4 name 'e1000-mmio'\n\
            7@1.7:memory_region_ops_read cpu 0 mr 0x5 addr 0xfeb83818 value 0x5 size 4 name 'e1000-mmio'\nmemory_region_ops_r";
        assert_eq!(accesses(trace, "0xfeb81000"), (1, 1));
        assert_eq!(accesses(trace, "0xfeb82000"), (0, 0), "nothing marks it");
    }
}
