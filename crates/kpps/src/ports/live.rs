//! What the live view reads of ports and of this host.

use kpps_report::live::{Counts, LiveCpu, Meter, RateKey, Source};
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
        observe::cpus().into_iter().map(LiveCpu::from).collect()
    }
}

/// Trials between two ports.
pub struct Trials {
    pub gauges: Arc<Gauges>,
    /// Whether the user may change their load: not that of a search.
    pub can_change: bool,
}

impl Source for Trials {
    fn counts(&mut self) -> Option<Counts> {
        self.gauges.so_far().map(|(elapsed, sent, received)| Counts { elapsed, sent, received })
    }
    fn offered_pps(&mut self) -> Option<f64> {
        self.gauges.offered_pps()
    }
    fn can_change_rate(&mut self) -> bool {
        self.can_change && self.gauges.can_change_rate()
    }
    fn change_rate(&mut self, key: &RateKey) -> String {
        let changed = match key {
            RateKey::Up => self.gauges.scale_rate(1.1),
            RateKey::Down => self.gauges.scale_rate(1.0 / 1.1),
            RateKey::To(rate) => rate.parse().and_then(|rate| self.gauges.change_rate(rate)),
        };
        changed.map_or_else(|why| why, |new| new.to_string())
    }
    fn dropped(&mut self) -> BTreeMap<String, u64> {
        self.gauges.dropped()
    }
    fn cpus(&mut self) -> Vec<LiveCpu> {
        observe::cpus().into_iter().map(LiveCpu::from).collect()
    }
}
