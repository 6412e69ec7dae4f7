//! The use of a CPU.

use kpps_documents::detail::CpuTimes;

/// Parts of a whole, by name.
pub type Parts = Vec<(&'static str, f64)>;

/// The use of a CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveCpu {
    /// Its busy time by kind. A [`Source`](super::Source) gives seconds since any moment, a
    /// [`Snapshot`](super::Snapshot) shares of its time.
    pub busy: Parts,
    /// Its idle time, in the same unit.
    pub idle: f64,
}

impl From<CpuTimes> for LiveCpu {
    fn from(times: CpuTimes) -> Self {
        let CpuTimes { user_s, system_s, irq_s, softirq_s, idle_s, steal_s, cycles: _ } = times;
        let busy = vec![
            ("interrupts", irq_s),
            ("softirqs", softirq_s),
            ("kernel", system_s),
            ("programs", user_s),
            ("host", steal_s),
        ];
        Self { busy, idle: idle_s }
    }
}
