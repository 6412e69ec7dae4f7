//! What can be seen of a trial while it goes on. The threads of the trial write, some times a second, and wait for nobody.

use crate::counted::Counted;
use crate::ledger::PortCount;
use crate::stage::Stage;
use crate::test_port::Peek;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A system with ports of the trial.
pub(crate) struct Seen {
    /// Its name, if it is not the one that this process runs on.
    pub name: Option<String>,
    pub peek: Peek,
    /// Which of both ports are there.
    pub ports: Vec<usize>,
}

/// A trial under way.
pub(crate) struct Running {
    pub begun: Instant,
    pub stage: Arc<Stage>,
    /// Who takes part, without counts.
    pub ports: [PortCount; 2],
    pub systems: Vec<Seen>,
}

/// The counters of the trial under way.
#[derive(Default)]
pub struct Gauges(Mutex<Option<Arc<Running>>>);

impl Gauges {
    /// How long frames have been sent, and how many were sent and received by both ports together. Nothing before the first
    /// trial.
    pub fn so_far(&self) -> Option<(Duration, u64, u64)> {
        let running = self.running()?;
        let elapsed = running.stage.ended().unwrap_or_else(Instant::now) - running.begun;
        let [(sent_a, received_a), (sent_b, received_b)] = [0, 1].map(|at| running.stage.so_far(at));
        Some((elapsed, sent_a + sent_b, received_a + received_b))
    }

    /// Frames lost so far, by place, as the systems around the ports count them: dearer than [`so_far`](Self::so_far), for it
    /// asks for all of that. What the ports themselves count is not among it before the end.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let mut counted = Counted::default();
        // Looking takes its time, and nothing waits for it: the trial is kept as long as it is looked at.
        let Some(running) = self.running() else { return BTreeMap::new() };
        for Seen { name, peek, ports } in &running.systems {
            let there: Vec<_> = ports
                .iter()
                .map(|&at| {
                    let port = running.ports[at].clone();
                    PortCount { sent: port.sent.map(|_| running.stage.so_far(at).0), ..port }
                })
                .collect();
            counted.add(name.as_deref(), peek(&there));
        }
        counted.accounts.dropped
    }

    pub(crate) fn begin(&self, running: Running) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(running));
    }

    fn running(&self) -> Option<Arc<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
