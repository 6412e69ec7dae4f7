//! A trial under way: counters before, a thread for each port, counters after.

use super::Tester;
use super::offer::Offer;
use super::prepare::{Basis, Part, Prepared};
use crate::accounting::counted::Counted;
use crate::accounting::ledger::PortCount;
use crate::error::Error;
use crate::running::learn;
use crate::running::local::SLOW;
use crate::running::test_port::{Done, Task, TestPort};
use crate::watching::control::StreamControl;
use crate::watching::state::TrialState;
use kpps_ports::port::Trouble;
use kpps_ports::port::run::{Aside, SendPlan};
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
    tasks: Vec<Task>,
    state: Arc<TrialState>,
}

/// A trial that has ended: the work of its ports, and the counts of their systems.
pub(super) struct Ended {
    /// The facts that were known before the trial.
    pub basis: Basis,
    /// The results of each port's work.
    pub done: Vec<Done>,
    /// The frames that each port was to send.
    pub plans: Vec<Option<SendPlan>>,
    /// Whether each port failed, so that its last report is old.
    pub lost: Vec<bool>,
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
        let Prepared { parts, mut basis } = prepared;
        // In a user's own packet, the tag is at another position than the BPF program expects.
        let are_plain = offer.streams.iter().all(|stream| stream.stack.is_plain());
        let known = offer.replay.is_none() && self.flows.packet.is_none() && are_plain;
        for (port, part) in self.ports.iter_mut().zip(&parts) {
            port.spread(&part.expect, self.steer)?;
        }
        for site in &mut self.sites {
            site.host.before(known.then_some(basis.trial))?;
        }
        let counts = self.port_counts(offer);
        learn::clear(&mut self.ports, &self.ends)?;
        let routes = |from: usize| match offer.streams.is_empty() {
            true => offer.directions().iter().filter(|it| it.0 == from).map(|it| it.1).collect(),
            false => offer.streams_from(from).map(|(stream, _)| stream.to).collect(),
        };
        let state = TrialState::among((0..self.ports.len()).map(routes).collect());
        let state = state.with_control(offer.control.clone()).with_watch(self.watch(offer));
        let state = Arc::new(state);
        let wait = offer.every.map_or(Duration::ZERO, |_| LEAD);
        basis.clocks.begin(wait);
        let task = |(at, part): (usize, Part)| Task {
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
        };
        let tasks = parts.into_iter().enumerate().map(task).collect();
        self.gauges.begin(self.running(Instant::now() + wait, offer, &state, &counts));
        Ok(Started { basis, tasks, state })
    }

    /// The counts of the ports, before any of them has sent.
    fn port_counts(&self, offer: &Offer) -> Vec<PortCount> {
        let (senders, directions) = (offer.senders(), offer.directions());
        let all = self.ports.iter().enumerate().map(|(at, port)| PortCount {
            port: port.name().to_owned(),
            interface: port.interface().map(ToOwned::to_owned),
            sent: senders.contains(&at).then_some(0),
            receives: directions.iter().any(|direction| direction.1 == at),
            ..PortCount::default()
        });
        all.collect()
    }

    /// Reads the counters of all systems again, and the clocks.
    pub(super) fn end(
        &mut self,
        offer: &Offer,
        started: Started,
        mut done: Vec<Done>,
    ) -> Result<Ended, Error> {
        let Started { mut basis, state, tasks } = started;
        state.control().into_iter().for_each(StreamControl::close);
        let lost: Vec<_> = done.iter().map(|done| done.trouble.is_some()).collect();
        let count = |(count, done): (PortCount, &Done)| PortCount {
            sent: count.sent.map(|_| done.sent.frames),
            missed: done.missed,
            errors: done.errors,
            taken: done.taken.filter(|_| done.trouble.is_none()),
            ..count
        };
        let counts: Vec<_> = self.port_counts(offer).into_iter().zip(&done).map(count).collect();
        let troubles = done.iter_mut().map(|done| done.trouble.take());
        let mut trouble = troubles.fold(None, Option::or);
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
        let plans = tasks.into_iter().map(|task| task.plan).collect();
        Ok(Ended { basis, done, plans, lost, counted, complete, trouble })
    }
}

impl Started {
    /// Runs a thread for each port, until all is sent and received.
    pub(super) fn run(&self, ports: &mut [Box<dyn TestPort>], go_on: &dyn Fn() -> bool) -> Vec<Done> {
        let state = &*self.state;
        let mut results: Vec<_> = ports.iter().map(|_| Done::default()).collect();
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
                    sent.push_back((now, state.of_senders()));
                }
                while let Some((_, sent_then)) = sent.pop_front_if(|(then, _)| now - *then >= UNDER_WAY) {
                    state.note_lost(&sent_then);
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
