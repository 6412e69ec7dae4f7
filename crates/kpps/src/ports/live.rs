//! What the live view reads of ports and of this host.

use kpps_report::live::{Counts, Meter, Processor, Source};
use kpps_tester::{Gauges, look};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A run on ports of its own.
pub struct Metered(pub Arc<Meter>);

impl Source for Metered {
    fn counts(&mut self) -> Option<Counts> {
        Some(self.0.counts())
    }
    fn processors(&mut self) -> Vec<Processor> {
        processors()
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
    fn processors(&mut self) -> Vec<Processor> {
        processors()
    }
}

/// This machine's processors.
fn processors() -> Vec<Processor> {
    let all = look::processors().into_iter().map(|it| Processor {
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
