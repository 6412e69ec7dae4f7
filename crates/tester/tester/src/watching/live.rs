//! Runs as people watch them: the live view's readings of ports and of this host, and the end of a run.

use crate::{Gauges, observe};
use kpps_ports::Spec;
#[cfg(target_os = "linux")]
use kpps_ports::port::Counters;
use kpps_ports::port::run::{Glance, Watch};
use kpps_rendering::live::{Counts, LiveCpu, Meter, RateKey, Source};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
    /// Their gauges.
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

/// Ends a run at its time or when the user interrupts it, and shows its progress.
pub struct RunWatch {
    goes_on: Box<dyn Fn() -> bool + Send + Sync>,
    at_most: Option<Duration>,
    meter: Arc<Meter>,
    /// The first glance: the ports may have been used before.
    begun: Option<Glance>,
    /// Reports the losses of the ports to testers, if that was asked for.
    #[cfg(target_os = "linux")]
    teller: Option<kpps_ports::told::Teller>,
}

impl RunWatch {
    /// Ends a run after `at_most`, if that is given, and when `goes_on` returns false.
    pub fn new(
        goes_on: impl Fn() -> bool + Send + Sync + 'static,
        at_most: Option<Duration>,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            goes_on: Box::new(goes_on),
            at_most,
            meter,
            begun: None,
            #[cfg(target_os = "linux")]
            teller: None,
        }
    }

    /// From now on testers on this host can ask for the losses of these ports of an app, if the system
    /// permits it.
    pub fn tell(&mut self, ports: &[Spec]) {
        #[cfg(target_os = "linux")]
        {
            let interfaces = ports.iter().map(|port| port.interface().unwrap_or_default().to_owned());
            self.teller = kpps_ports::told::Teller::start(interfaces).ok();
        }
        #[cfg(not(target_os = "linux"))]
        let _ = ports;
    }
}

/// The watches of the cores of a port: one end for all, and one progress.
pub(crate) struct CoreWatches<'w> {
    goes_on: &'w (dyn Fn() -> bool + Send + Sync),
    at_most: Option<Duration>,
    meter: &'w Meter,
    /// The frames that each has sent and received.
    counts: Vec<[AtomicU64; 2]>,
    shows: Mutex<()>,
}

/// The watch of one core.
pub(crate) struct CoreWatch<'w> {
    all: &'w CoreWatches<'w>,
    core: usize,
    begun: Option<Glance>,
}

impl RunWatch {
    /// The watches of this number of cores.
    pub(crate) fn of_cores(&self, cores: usize) -> CoreWatches<'_> {
        let counts = (0..cores).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        let shows = Mutex::new(());
        CoreWatches { goes_on: &*self.goes_on, at_most: self.at_most, meter: &self.meter, counts, shows }
    }
}

impl CoreWatches<'_> {
    /// The watch of a core.
    pub fn of(&self, core: usize) -> CoreWatch<'_> {
        CoreWatch { all: self, core, begun: None }
    }
}

impl Watch for CoreWatch<'_> {
    fn at_most(&self) -> Option<Duration> {
        self.all.at_most
    }

    fn go_on(&mut self, glance: &Glance) -> bool {
        let CoreWatches { goes_on, meter, counts, shows, .. } = self.all;
        let begun = self.begun.get_or_insert(*glance);
        let so_far = [glance.sent - begun.sent, glance.received - begun.received];
        for (count, frames) in counts.get(self.core).into_iter().flatten().zip(so_far) {
            count.store(frames, Ordering::Relaxed);
        }
        // One core at a time shows the progress of all.
        if let Ok(_shows) = shows.try_lock() {
            let sum = |of: fn(&[AtomicU64; 2]) -> &AtomicU64| {
                counts.iter().map(|core| of(core).load(Ordering::Relaxed)).sum()
            };
            let (sent, received) = (sum(|[sent, _]| sent), sum(|[_, received]| received));
            meter.show(Counts { elapsed: glance.elapsed, sent, received });
        }
        goes_on()
    }
}

impl Watch for RunWatch {
    fn at_most(&self) -> Option<Duration> {
        self.at_most
    }

    #[cfg(target_os = "linux")]
    fn wants_counters(&self) -> bool {
        self.teller.is_some()
    }

    #[cfg(target_os = "linux")]
    fn counted(&mut self, port: usize, counters: &Counters) {
        self.teller.iter().for_each(|teller| teller.update(port, counters));
    }

    fn go_on(&mut self, glance: &Glance) -> bool {
        let Glance { elapsed, received, sent, .. } = *glance;
        let begun = self.begun.get_or_insert(*glance);
        let (so_far, came) = (sent - begun.sent, received - begun.received);
        self.meter.show(Counts { elapsed, sent: so_far, received: came });
        (self.goes_on)()
    }
}
