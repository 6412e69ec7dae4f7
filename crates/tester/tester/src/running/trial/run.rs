//! A trial under way: counters before, a thread for each port, counters after.

use super::Tester;
use super::offer::Offer;
use super::prepare::{Basis, Prepared};
use crate::accounting::counted::Counted;
use crate::accounting::ledger::PortCount;
use crate::error::Error;
use crate::running::learn;
use crate::running::local::SLOW;
use crate::running::test_port::{Done, Task, TestPort};
use crate::watching::control::StreamControl;
use crate::watching::state::TrialState;
use kpps_ports::port::Trouble;
use kpps_ports::port::run::Aside;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The reports of a running trial count a frame as lost if it takes longer than this.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// The time in which senders become ready, with a margin. The intervals of a series begin after it.
const LEAD: Duration = Duration::from_millis(200);

/// A trial that has been started.
pub(super) struct Started {
    basis: Basis,
    tasks: [Task; 2],
    /// The counts of the ports, before their threads begin.
    counts: [PortCount; 2],
    state: Arc<TrialState>,
}

/// A trial that has ended: the work of its ports, and the counts of their systems.
pub(super) struct Ended {
    /// The facts that were known before the trial.
    pub basis: Basis,
    /// The results of each port's work.
    pub done: [Done; 2],
    /// Whether each port failed, so that its last report is old.
    pub lost: [bool; 2],
    /// The counts of the systems.
    pub counted: Counted,
    /// Whether the trial ran to its end.
    pub complete: bool,
    /// The first failure, if any.
    pub trouble: Option<Trouble>,
}

impl Tester {
    /// Reads the counters of all systems, and starts the clock of a trial.
    pub(super) fn start(&mut self, offer: &Offer, prepared: Prepared) -> Result<Started, Error> {
        let Prepared { parts: [first, second], mut basis } = prepared;
        // In a user's own packet, the tag is at another position than the BPF program expects.
        let are_plain = offer.streams.iter().all(|stream| stream.stack.is_plain());
        let known = offer.replay.is_none() && self.flows.packet.is_none() && are_plain;
        for site in &mut self.sites {
            site.host.before(known.then_some(basis.trial))?;
        }
        let counts = [(0, &first), (1, &second)].map(|(at, part)| PortCount {
            port: self.ports[at].name().to_owned(),
            interface: self.ports[at].interface().map(ToOwned::to_owned),
            sent: part.plan.as_ref().map(|_| 0),
            receives: part.expect.is_some(),
            ..PortCount::default()
        });
        learn::clear(&mut self.ports, &self.ends)?;
        let state = TrialState::new(offer.directions().len()).with_control(offer.control.clone());
        let state = Arc::new(state);
        let wait = offer.every.map_or(Duration::ZERO, |_| LEAD);
        basis.clocks.begin(wait);
        let tasks = [(0, first), (1, second)].map(|(at, part)| Task {
            at,
            station: self.ends[at].station,
            others: self.ends[at].others.clone(),
            plan: part.plan,
            expect: part.expect,
            duration: offer.load.duration,
            drain: offer.drain,
            epoch_ns: basis.clocks.epoch_ns(at),
            every: offer.every,
            follower: basis.clocks.follower(at, offer.length()),
        });
        self.gauges.begin(self.running(Instant::now() + wait, offer, &state, &counts));
        Ok(Started { basis, tasks, counts, state })
    }

    /// Reads the counters of all systems again, and the clocks.
    pub(super) fn end(&mut self, started: Started, mut done: [Done; 2]) -> Result<Ended, Error> {
        let Started { mut basis, counts, state, .. } = started;
        state.control().into_iter().for_each(StreamControl::close);
        let lost = [0, 1].map(|at| done[at].trouble.is_some());
        let counts = [0, 1].map(|at| PortCount {
            sent: counts[at].sent.map(|_| done[at].sent.frames),
            missed: done[at].missed,
            errors: done[at].errors,
            taken: done[at].taken.filter(|_| !lost[at]),
            ..counts[at].clone()
        });
        let [first, second] = &mut done;
        let mut trouble = first.trouble.take().or(second.trouble.take());
        let mut counted = Counted::default();
        for site in &mut self.sites {
            let there: Vec<_> = site.ports.iter().map(|&at| counts[at].clone()).collect();
            match site.host.after(&there) {
                Ok(more) => counted.add(site.name.as_deref(), more),
                // If an agent has failed, its counts are missing, but the other measurements are kept.
                Err(Error::Trouble(lost)) => trouble = trouble.or(Some(lost)),
                Err(error) => return Err(error),
            }
        }
        for (at, done) in done.iter_mut().enumerate() {
            let values = done.unbelievable.drain(..).map(|what| format!("{}: {what}", self.ports[at].name()));
            counted.unbelievable.extend(values);
            basis.clocks.followed(at, done.follower.take());
        }
        if trouble.is_none() {
            match self.read_clocks() {
                Ok(after) => basis.clocks.after(after),
                Err(lost) => trouble = Some(lost),
            }
        }
        let complete = !state.is_abandoned() && trouble.is_none();
        Ok(Ended { basis, done, lost, counted, complete, trouble })
    }
}

impl Started {
    /// Runs a thread for each port, until all is sent and received.
    pub(super) fn run(&self, ports: &mut [Box<dyn TestPort>; 2], go_on: &dyn Fn() -> bool) -> [Done; 2] {
        let state = &*self.state;
        let mut results = [Done::default(), Done::default()];
        let near = ports.iter().find_map(|port| port.near()).cloned().unwrap_or_default();
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (at, (port, task)) in ports.iter_mut().zip(&self.tasks).enumerate() {
                let work = move || port.work(task, state);
                match std::thread::Builder::new().name("port".into()).spawn_scoped(scope, work) {
                    Ok(thread) => threads.push((at, thread)),
                    Err(source) => {
                        let trouble = Trouble::System { what: "cannot start a thread for a port", source };
                        results[at] = Done::failed(task, state, trouble);
                    }
                }
            }
            let _aside = Aside::now(&near);
            let mut sent = VecDeque::new();
            while !threads.iter().all(|(_, thread)| thread.is_finished()) {
                if !go_on() {
                    state.abandon();
                }
                let now = Instant::now();
                if sent.back().is_none_or(|(then, _)| now - *then >= UNDER_WAY / 8) {
                    sent.push_back((now, [0, 1].map(|from| state.of_sender(from))));
                }
                while let Some(&(then, sent_then)) = sent.front()
                    && now - then >= UNDER_WAY
                {
                    state.note_lost(sent_then);
                    sent.pop_front();
                }
                std::thread::sleep(SLOW / 4);
            }
            for (at, thread) in threads {
                match thread.join() {
                    Ok(done) => results[at] = done,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        results
    }
}
