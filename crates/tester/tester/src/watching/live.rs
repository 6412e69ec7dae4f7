//! Runs as people watch them: the live view's readings of ports and of this host, and the end of a run.

use crate::watching::gauges::LiveStream;
use crate::{Gauges, observe};
use kpps_ports::Spec;
#[cfg(target_os = "linux")]
use kpps_ports::port::Counters;
use kpps_ports::port::run::{Glance, Watch};
use kpps_rendering::live::{Counts, LiveCpu, Meter, RateKey, Source, StreamCount};
use std::collections::BTreeMap;
use std::sync::Arc;
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
    fn streams(&mut self) -> Vec<StreamCount> {
        let count =
            |LiveStream { name, sent, received, .. }: LiveStream| StreamCount { name, sent, received };
        self.gauges.streams().into_iter().map(count).collect()
    }
    fn cpus(&mut self) -> Vec<LiveCpu> {
        observe::cpus().into_iter().map(LiveCpu::from).collect()
    }
}

/// Ends a run at its time or when the user interrupts it, and shows its progress.
pub struct RunWatch {
    pub(super) goes_on: Box<dyn Fn() -> bool + Send + Sync>,
    pub(super) at_most: Option<Duration>,
    pub(super) meter: Arc<Meter>,
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
