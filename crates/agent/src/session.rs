//! The agent's side of a session: it opens a port, executes the tester's calls, and closes it.

use crate::convert;
use crate::pings::{Known, Responder};
use crate::proto::answer::Answer as Says;
use crate::proto::question::Question as Asks;
use crate::proto::{self, Answer, Question};
use crate::rules::Rules;
use kpps_ports::Spec;
use kpps_ports::port::run::Shape;
use kpps_ports::port::{Options, ready};
use kpps_tester::clock::{Clock, Gain};
use kpps_tester::{Host as _, LocalHost, LocalPort, Reported, TestPort, TrialState, interface};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tonic::Status;

/// A tester that was silent for this long during a trial is gone.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// Limits of frames relayed before a trial: at once, and per second, unless the rules are stricter.
const RELAYED: f64 = 64.0;
const RELAYED_PPS: f64 = 1000.0;

/// The state that all sessions of an agent share.
pub(crate) struct Shared {
    pub rules: Rules,
    pub clock: Clock,
    pub responder: Responder,
    pub in_use: Mutex<BTreeSet<String>>,
    /// Where events are reported, in lines.
    pub log: fn(&str),
}

impl Shared {
    fn in_use(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port that a tester uses until it is dropped.
struct Lent {
    shared: Arc<Shared>,
    name: String,
    port: LocalPort,
    host: LocalHost,
    /// The interfaces in use here, this port's and others'.
    around: Vec<String>,
    known: Known,
    opened: Instant,
    relayed: f64,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.shared.in_use().remove(&self.name);
    }
}

impl Lent {
    /// Opens a port, if the rules allow it.
    fn open(shared: &Arc<Shared>, ask: &proto::Open) -> Result<Self, String> {
        let ours = env!("CARGO_PKG_VERSION");
        if ask.version != ours {
            return Err(format!(
                "the agent is kpps {ours}, the tester {}: install the same version on both hosts",
                ask.version
            ));
        }
        let spec: Spec = ask.port.parse().map_err(|e: kpps_ports::Error| e.to_string())?;
        shared.rules.check(&spec)?;
        let ring =
            ask.ring.map(u16::try_from).transpose().map_err(|_| "such a ring is too large".to_owned())?;
        let options = Options { service: ask.service.parse().unwrap_or_default(), ring, promiscuous: true };
        let name = spec.to_string();
        if !shared.in_use().insert(name.clone()) {
            return Err(format!("{name} is in use by another tester"));
        }
        // From here on the name is released in any case.
        let name = InUse { shared, name };
        let log = |line: &str| (shared.log)(line);
        let mut ports = ready(std::slice::from_ref(&spec), &options, &log).map_err(|e| e.to_string())?;
        let port = ports.pop().ok_or("no port was opened")?;
        let port = LocalPort::new(&spec, port).map_err(|e| e.to_string())?.with_clock(shared.clock.clone());
        let around: Vec<String> = interface(&spec).into_iter().chain(ask.others.iter().cloned()).collect();
        let host = LocalHost::around(&around, &[]).map_err(|e| e.to_string())?;
        let known = shared.responder.cookie().ok_or("this system has no random numbers")?;
        let shared = shared.clone();
        let name = name.keep();
        Ok(Self { shared, name, port, host, around, known, opened: Instant::now(), relayed: 0.0 })
    }

    fn about(&self) -> proto::LentPort {
        let allowed = self.shared.rules.allowed;
        proto::LentPort {
            mac: self.port.mac().0.to_vec(),
            interface: self.port.interface().map(ToOwned::to_owned),
            speed_mbps: self.port.speed_mbps(),
            longest_bytes: self.port.longest().and_then(|bytes| u32::try_from(bytes).ok()),
            max_load_pps: allowed.load_pps,
            max_duration_ns: u64::try_from(allowed.duration.as_nanos()).unwrap_or(u64::MAX),
            clock_id: self.shared.clock.id().into(),
            udp_port: self.shared.responder.port.into(),
            cookie: self.known.cookie.to_vec(),
        }
    }

    /// Executes a call outside a trial.
    fn answer(&mut self, asks: Asks) -> Result<Says, String> {
        Ok(match asks {
            Asks::Open(_) => return Err("a session has one port".into()),
            Asks::ReadClock(proto::ReadClock {}) => {
                let came_ns = self.shared.clock.now_ns();
                Says::Clock(proto::Clock { came_ns, left_ns: self.shared.clock.now_ns() })
            }
            Asks::Relay(relay) => Says::Relayed(self.relay(relay.send)?),
            Asks::Before(proto::Before { stream }) => {
                self.host.before(stream.map(|stream| stream as u16)).map_err(|e| e.to_string())?;
                Says::Observed(proto::Observed {})
            }
            Asks::After(after) => {
                let ports: Vec<_> = after.ports.into_iter().map(convert::counted_port).collect();
                Says::Counted(convert::counted(self.host.after(&ports).map_err(|e| e.to_string())?))
            }
            Asks::Describe(proto::Describe { interfaces }) => {
                // Only counters of interfaces in use.
                let ports = interfaces.iter().filter(|(_, interface)| self.around.contains(interface));
                let ports: Vec<_> =
                    ports.map(|(port, interface)| (port.as_str(), Some(interface.as_str()))).collect();
                Says::Described(proto::Described { environment: self.host.environment(&ports) })
            }
            // The reply to the last report has crossed this message.
            Asks::Update(_) | Asks::Work(_) => return Err("no trial is under way".into()),
        })
    }

    fn relay(&mut self, send: Vec<Vec<u8>>) -> Result<proto::Relayed, String> {
        let mut relayed = proto::Relayed::default();
        let a_second = self.shared.rules.allowed.load_pps.min(RELAYED_PPS);
        for frame in send {
            let frame = convert::frame(frame)?;
            if self.relayed < RELAYED + a_second * self.opened.elapsed().as_secs_f64() {
                self.relayed += 1.0;
                relayed.taken += u32::from(self.port.send_one(&frame).map_err(|e| e.to_string())?);
            }
        }
        let mut sink = |frame: &[u8]| relayed.received.push(frame.to_vec());
        self.port.receive(&mut sink).map_err(|e| e.to_string())?;
        Ok(relayed)
    }

    /// Runs a trial. Each report of the tester is answered with the port's progress, and at the end come the
    /// results. Returns false if the tester is gone.
    fn work(
        &mut self,
        work: proto::Work,
        questions: &Receiver<Question>,
        say: &dyn Fn(Says) -> bool,
    ) -> bool {
        let (task, senders) = match convert::task(work) {
            Ok(known) => known,
            Err(why) => return say(Says::Refused(why)),
        };
        if let Some(plan) = &task.plan {
            // The tester knows the rules, but may ignore them.
            if let Err(what) = self.shared.rules.allowed.check(plan.load, plan.shape, task.duration) {
                return say(Says::Refused(format!("the operator of {} does not allow {what}", self.name)));
            }
        }
        let state = TrialState::new(senders);
        let port = &mut self.port;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| port.work(&task, &state));
            let progress = || {
                let (sent, received) = state.so_far(task.at);
                let sent_all = state.sent(task.at).is_some();
                let Reported { shortfall, missed, p50_ns, p99_ns } = state.reported(task.at);
                Says::Progress(proto::Progress {
                    sent,
                    received,
                    sent_all,
                    shortfall,
                    missed,
                    p50_ns,
                    p99_ns,
                })
            };
            let mut there = say(progress());
            while there {
                let question = match questions.recv_timeout(LEASE) {
                    Ok(question) => question.question,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                };
                let Some(Asks::Update(update)) = question else {
                    there = say(Says::Refused("a trial is under way".into()));
                    continue;
                };
                if let Some(pps) = update.rate_pps {
                    let allowed = &self.shared.rules.allowed;
                    let checked = convert::load(pps)
                        .and_then(|load| allowed.check(load, Shape::Constant, task.duration));
                    if let Err(what) = checked {
                        state.close();
                        let why = format!("the operator of {} does not allow {what}", self.name);
                        return say(Says::Refused(why));
                    }
                    state.change_rate(pps);
                }
                if let Some(proto::Gain { at_ns, gained_ns, pace }) = update.gain {
                    state.gains(task.at, Gain { at_ns, gained_ns, pace });
                }
                if let Some(sent) = update.other_sent {
                    state.has_sent(1 - task.at, sent);
                }
                if update.abandoned {
                    state.abandon();
                }
                if thread.is_finished() {
                    let done = thread.join().map(convert::done);
                    return match done {
                        Ok(done) => say(Says::Done(done)),
                        Err(_) => say(Says::Refused("the thread of this port panicked".into())),
                    };
                }
                there = say(progress());
            }
            state.close();
            false
        })
    }
}

/// A name in use, until it is kept or dropped.
struct InUse<'s> {
    shared: &'s Shared,
    name: String,
}

impl InUse<'_> {
    fn keep(mut self) -> String {
        std::mem::take(&mut self.name)
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.shared.in_use().remove(&self.name);
    }
}

/// Serves a tester until it ends the session or is gone.
pub(crate) fn run(
    shared: &Arc<Shared>,
    peer: &str,
    questions: &Receiver<Question>,
    answers: &Sender<Result<Answer, Status>>,
) {
    let say = |says: Says| answers.blocking_send(Ok(Answer { answer: Some(says) })).is_ok();
    let Ok(Question { question: Some(Asks::Open(ask)) }) = questions.recv() else { return };
    let mut lent = match Lent::open(shared, &ask) {
        Ok(lent) => lent,
        Err(why) => {
            (shared.log)(&format!("{peer}: {} is refused: {why}", ask.port));
            say(Says::Refused(why));
            return;
        }
    };
    (shared.log)(&format!("{peer}: {} is open", lent.name));
    let mut there = say(Says::Port(lent.about()));
    let mut gone = false;
    while there && let Ok(question) = questions.recv() {
        there = match question.question {
            Some(Asks::Work(work)) => {
                gone = !lent.work(work, questions, &say);
                !gone
            }
            Some(asks) => say(lent.answer(asks).unwrap_or_else(Says::Refused)),
            None => {
                say(Says::Refused("unknown question: install the same version of kpps on both hosts".into()))
            }
        };
    }
    let how =
        if gone { ", and what it sent has ended: the tester is gone in the middle of a trial" } else { "" };
    (shared.log)(&format!("{peer}: {} is closed{how}", lent.name));
}
