//! The counters of a running trial. Its threads write them some times a second and never wait.

use crate::counted::Counted;
use crate::ledger::PortCount;
use crate::state::{Told, TrialState};
use crate::test_port::LiveCounts;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A system with ports of the trial.
pub(crate) struct LiveSystem {
    /// Its name, if it is not this host.
    pub name: Option<String>,
    pub live_counts: LiveCounts,
    /// The indices of its ports.
    pub ports: Vec<usize>,
}

/// A running trial.
pub(crate) struct Running {
    pub begun: Instant,
    pub stage: Arc<TrialState>,
    /// The systems that take part, without counts.
    pub ports: [PortCount; 2],
    pub systems: Vec<LiveSystem>,
    /// The load of each direction in frames per second, if it has one.
    pub offered_pps: Option<f64>,
}

/// One direction of a running trial.
#[derive(Clone, Debug)]
pub(crate) struct LiveDirection {
    /// The ports that send and receive.
    pub from: String,
    pub to: String,
    pub sent: u64,
    pub received: u64,
    /// Frames that had not come through a second after they were sent.
    pub lost: u64,
    pub shortfall: Option<u64>,
    pub offered_pps: Option<f64>,
    /// What the receiving end tells.
    pub told: Told,
}

/// The counters of the running trial.
#[derive(Default)]
pub struct Gauges(Mutex<Option<Arc<Running>>>);

impl Gauges {
    /// The time of sending so far, and the frames sent and received by both ports together. Zeros before the
    /// first trial.
    pub fn so_far(&self) -> Option<(Duration, u64, u64)> {
        let running = self.running()?;
        let elapsed = running.stage.ended().unwrap_or_else(Instant::now) - running.begun;
        let [(sent_a, received_a), (sent_b, received_b)] = [0, 1].map(|at| running.stage.so_far(at));
        Some((elapsed, sent_a + sent_b, received_a + received_b))
    }

    /// Each direction; none before the first trial.
    pub(crate) fn directions(&self) -> Vec<LiveDirection> {
        let Some(running) = self.running() else { return Vec::new() };
        let stage = &running.stage;
        let directions = [(0, 1), (1, 0)].into_iter().filter(|(from, _)| running.ports[*from].sent.is_some());
        let live = |(from, to): (usize, usize)| LiveDirection {
            from: running.ports[from].port.clone(),
            to: running.ports[to].port.clone(),
            sent: stage.so_far(from).0,
            received: stage.so_far(to).1,
            lost: stage.lost(from),
            shortfall: stage.told(from).shortfall,
            offered_pps: running.offered_pps,
            told: stage.told(to),
        };
        directions.map(live).collect()
    }

    /// Frames lost so far, by place, as the systems count them. It costs more than [`so_far`](Self::so_far),
    /// since it observes the systems. The ports' own losses are added only at the end.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let mut counted = Counted::default();
        // Observing takes time, which nothing waits for: the trial's data live until then.
        let Some(running) = self.running() else { return BTreeMap::new() };
        for LiveSystem { name, live_counts, ports } in &running.systems {
            let there: Vec<_> = ports
                .iter()
                .map(|&at| {
                    let port = running.ports[at].clone();
                    PortCount { sent: port.sent.map(|_| running.stage.so_far(at).0), ..port }
                })
                .collect();
            counted.add(name.as_deref(), live_counts(&there));
        }
        let sum = |at: usize| running.stage.so_far(at);
        let [(sent_a, received_a), (sent_b, received_b)] = [sum(0), sum(1)];
        counted.accounts.explaining((sent_a + sent_b).saturating_sub(received_a + received_b)).0
    }

    pub(crate) fn begin(&self, running: Running) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(running));
    }

    fn running(&self) -> Option<Arc<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
