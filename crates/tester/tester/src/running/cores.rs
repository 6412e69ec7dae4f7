//! The work of the cores of a port in a trial, put together.

use crate::capturing::ring::Captured;
use crate::judging::arrivals::Arrivals;
use crate::judging::queues::{ExpectedQueues, FramesOfFlows};
use crate::judging::received::Received;
use crate::judging::timeline::Timeline;
use crate::running::test_port::{Done, OfCore, OfSender, SentFrames, Task};
use crate::watching::state::TrialState;
use kpps_documents::queues::ElsewhereReason;
use kpps_ports::port::run::{Gaps, Got, PlanPart};
use kpps_ports::port::{Counters, Trouble};
use std::collections::BTreeMap;
use std::time::Duration;

/// The frames that have come to a core.
#[derive(Default)]
pub(crate) enum Came {
    /// None were expected.
    #[default]
    Nothing,
    /// Frames with tags of each sender, whose fate is not settled, with the sender's index.
    Tagged(Vec<(usize, Arrivals)>),
    /// Frames of a capture, and how many of each class came.
    Recognised(Box<Received>, Vec<u64>),
}

/// The work of a core.
#[derive(Default)]
pub(crate) struct CoreWork {
    /// The frames that it sent. The frames of its streams are in the order of its part of the plan.
    pub sent: SentFrames,
    /// The frames that came.
    pub came: Came,
    /// Its work in each interval.
    pub line: Option<Timeline>,
    /// Its port's counters at the beginning and at the end.
    pub counters: Option<[Counters; 2]>,
    /// All frames, if they are captured.
    pub captured: Option<Captured>,
    /// The failure, if any.
    pub trouble: Option<Trouble>,
}

impl CoreWork {
    /// The work of a core that does nothing: the trial ends.
    pub fn failed(state: &TrialState, trouble: Trouble) -> Self {
        state.abandon();
        Self { trouble: Some(trouble), ..Self::default() }
    }

    /// The frames of each flow that came to this core, by their sender.
    fn came_of_flows(&self) -> BTreeMap<usize, FramesOfFlows> {
        match &self.came {
            Came::Tagged(all) => all.iter().map(|(from, judge)| (*from, judge.came_of_flows())).collect(),
            _ => BTreeMap::new(),
        }
    }

    /// The work of this core, with this part of the plan.
    pub fn row(&self, part: Option<&PlanPart>) -> OfCore {
        // A frame that is due at the very end is not.
        let most = part.and_then(PlanPart::most).unwrap_or(u64::MAX);
        OfCore {
            cpu: self.sent.gaps.and_then(|gaps| gaps.got?.cpu),
            intended: self.sent.intended.min(most),
            sent: self.sent.frames,
            received: match &self.came {
                Came::Tagged(all) => all.iter().map(|(_, judge)| judge.received()).sum(),
                _ => 0,
            },
            missed: self.counters.and_then(|[before, after]| after.missed_since(&before)),
            gaps: self.sent.gaps,
        }
    }
}

/// Does the work of each core on a thread of its own; the first core has this thread. `ports`: the port of
/// each core. `failed`: the work of a core that has no thread. Ports of several cores exist on Linux only.
#[cfg(target_os = "linux")]
pub(crate) fn on_threads<P: Send>(
    ports: impl IntoIterator<Item = P>,
    failed: impl Fn(Trouble) -> CoreWork,
    work: impl Fn(usize, P) -> CoreWork + Sync,
) -> Vec<CoreWork> {
    let work = |core, port| {
        let _pinned = kpps_ports::port::run::pin_core(core);
        work(core, port)
    };
    let work = &work;
    std::thread::scope(|scope| {
        let mut ports = (0..).zip(ports);
        let first = ports.next();
        let start = |(core, port)| {
            let name = std::thread::Builder::new().name("port".into());
            name.spawn_scoped(scope, move || work(core, port))
        };
        let others: Vec<_> = ports.map(start).collect();
        let first = first.map(|(core, port)| work(core, port));
        let joined = others.into_iter().map(|thread| match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(source) => failed(Trouble::System { what: "cannot start a thread for a core", source }),
        });
        first.into_iter().chain(joined).collect()
    })
}

/// Puts the work of all cores together. `parts`: the part of each core in the plan, if it has one. `name`:
/// that of the port. `expected`: the queues of its flows, if each core reads a receive queue.
pub(crate) fn together(
    mut works: Vec<CoreWork>,
    parts: &[Option<PlanPart>],
    (task, state): (&Task, &TrialState),
    (name, expected): (&str, Option<&ExpectedQueues>),
) -> Done {
    let rows = works.iter().zip(parts).map(|(work, part)| work.row(part.as_ref()));
    let rows: Vec<_> = rows.collect();
    let mut trouble = works.iter_mut().find_map(|work| work.trouble.take());
    trouble = trouble.map(|trouble| trouble.at(name));
    let counters = |count: fn(&Counters, &Counters) -> Option<u64>| -> Option<u64> {
        works.iter().map(|work| work.counters.and_then(|[before, after]| count(&before, &after))).sum()
    };
    let missed = counters(|before, after| after.missed_since(before));
    let errors = counters(|before, after| Some(after.errors - before.errors));
    let taken = counters(|before, after| Some(after.received - before.received));
    let mut line: Option<Timeline> = None;
    for more in works.iter_mut().filter_map(|work| work.line.take()) {
        match &mut line {
            Some(line) => line.merge(more),
            None => line = Some(more),
        }
    }
    let captured = works.iter_mut().find_map(|work| work.captured.take());
    let came_to: Vec<_> = works.iter().filter(|_| expected.is_some()).map(CoreWork::came_of_flows).collect();
    let overflows: Vec<_> = rows.iter().map(|row| row.missed).collect();
    let came = works.iter_mut().map(|work| std::mem::take(&mut work.came)).reduce(both).unwrap_or_default();
    let (of_senders, classes) = match came {
        Came::Tagged(all) => {
            let of = |(from, mut arrivals): (usize, Arrivals)| {
                let sent = state.sent_to(from, task.at);
                arrivals.settle_sent(&sent, &state.sent_on_cores(from));
                let queues = expected.and_then(|expected| {
                    let came_to: Vec<_> =
                        came_to.iter().map(|of| of.get(&from).cloned().unwrap_or_default()).collect();
                    let sent_of_flows = arrivals.sent_of_flows(&sent);
                    let mut queues = expected.settle(from, &sent_of_flows, &came_to, &overflows)?;
                    if !queues.elsewhere.is_empty() && arrivals.are_rewritten() {
                        queues.reason = Some(ElsewhereReason::Rewritten);
                    }
                    Some(queues)
                });
                let (received, latency) = arrivals.finish(&sent);
                OfSender { from, received, latency, queues }
            };
            (all.into_iter().map(of).collect(), Vec::new())
        }
        Came::Recognised(received, classes) => {
            let of = |(from, received): (usize, Box<Received>)| OfSender {
                from,
                received: *received,
                latency: Vec::new(),
                queues: None,
            };
            let senders = task.expect.iter().map(|expect| expect.from);
            (senders.zip([received]).map(of).collect(), classes)
        }
        Came::Nothing => Default::default(),
    };
    let streams = task.plan.as_ref().map_or(0, |plan| plan.streams.len());
    Done {
        sent: all_sent(works, parts, streams),
        of_senders,
        classes,
        missed,
        errors,
        taken,
        line,
        follower: None,
        captured,
        cores: if rows.len() > 1 { rows } else { Vec::new() },
        trouble,
        unbelievable: Vec::new(),
    }
}

/// The frames of two cores.
fn both(one: Came, other: Came) -> Came {
    match (one, other) {
        (Came::Tagged(mut all), Came::Tagged(others)) => {
            all.iter_mut().zip(others).for_each(|((_, one), (_, other))| one.add(other));
            Came::Tagged(all)
        }
        (Came::Nothing, other) => other,
        (one, _) => one,
    }
}

/// The frames that all cores have sent, of a plan with this number of streams.
pub(crate) fn all_sent(works: Vec<CoreWork>, parts: &[Option<PlanPart>], streams: usize) -> SentFrames {
    let several = works.len() > 1 && streams > 1;
    let mut of_streams = vec![0; if several { streams } else { 0 }];
    let mut due_of_streams = of_streams.clone();
    let mut all: Option<SentFrames> = None;
    let (mut disturbances, mut waits_ns, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for (work, part) in works.into_iter().zip(parts) {
        let Some(part) = part else { continue };
        let mut sent = work.sent;
        if several {
            part.add_to(&mut of_streams, &std::mem::take(&mut sent.of_streams), sent.given);
            let due = std::mem::take(&mut sent.due_of_streams);
            if part.plan.is_paced {
                part.add_to(&mut due_of_streams, &due, sent.intended);
            }
        } else if part.is_divided() {
            // The frames of the only stream are all frames.
            sent.of_streams.clear();
            sent.due_of_streams.clear();
        }
        disturbances.push(sent.disturbance.take());
        waits_ns.push(sent.gaps.and_then(|gaps| gaps.waited_ns));
        logs.extend(sent.send_log.take());
        all = Some(match all {
            None => sent,
            Some(all) => SentFrames {
                intended: all.intended + sent.intended,
                frames: all.frames + sent.frames,
                given: all.given + sent.given,
                begun: all.begun.min(sent.begun),
                elapsed: all.elapsed.max(sent.elapsed),
                gaps: all.gaps.or(sent.gaps),
                lateness: match (all.lateness, sent.lateness) {
                    (Some(one), Some(other)) => Some(one.and(&other)),
                    (one, other) => one.or(other),
                },
                ..all
            },
        });
    }
    let mut all = all.unwrap_or(SentFrames { elapsed: Duration::ZERO, ..SentFrames::default() });
    if let Some(of_all) = Gaps::of_cores(logs) {
        // Which CPU each core had is in its row.
        let got = all.gaps.and_then(|gaps| gaps.got).map(|got| Got { cpu: None, ..got });
        all.gaps = Some(Gaps { waited_ns: waits_ns.into_iter().sum(), got, ..of_all });
    }
    let disturbance = disturbances.into_iter().reduce(|all, next| Some(all?.and(next?))).flatten();
    match several {
        true => SentFrames { of_streams, due_of_streams, disturbance, ..all },
        false => SentFrames { disturbance, ..all },
    }
}
