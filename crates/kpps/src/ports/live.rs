//! What the live view reads of ports and of this host.

use kpps_report::live::{Counts, LiveCpu, Meter, Source};
use kpps_tester::{Gauges, observe};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A run on ports of its own.
pub struct Metered(pub Arc<Meter>);

impl Source for Metered {
    fn counts(&mut self) -> Option<Counts> {
        Some(self.0.counts())
    }
    fn cpus(&mut self) -> Vec<LiveCpu> {
        cpus()
    }
}

/// Trials between two ports.
pub struct Trials(pub Arc<Gauges>);

impl Source for Trials {
    fn counts(&mut self) -> Option<Counts> {
        self.0.so_far().map(|(elapsed, sent, received)| Counts { elapsed, sent, received })
    }
    fn dropped(&mut self) -> BTreeMap<String, u64> {
        self.0.dropped()
    }
    fn cpus(&mut self) -> Vec<LiveCpu> {
        cpus()
    }
}

/// This machine's CPUs.
fn cpus() -> Vec<LiveCpu> {
    let all = observe::cpus().into_iter().map(|it| LiveCpu {
        busy: vec![
            ("interrupts", it.irq_s),
            ("softirqs", it.softirq_s),
            ("kernel", it.system_s),
            ("programs", it.user_s),
            ("host", it.steal_s),
        ],
        idle: it.idle_s,
    });
    all.collect()
}
