//! The end and the progress of a run on several cores.

use crate::watching::live::RunWatch;
use kpps_ports::port::run::{Glance, Watch};
use kpps_rendering::live::{Counts, Meter};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
