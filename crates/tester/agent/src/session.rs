//! The agent's side of a session: it opens a port, executes the tester's calls, and closes it.

use crate::clients::LOGIN_TIMEOUT;
use crate::convert;
use crate::loads::{InUse, Loads};
use crate::parts::{Memory, Parts};
use crate::patience::within;
use crate::pings::{Known, Responder};
use crate::proto::answer::Answer as AnswerKind;
use crate::proto::question::Question as QuestionKind;
use crate::proto::{self, Answer, Question};
use crate::rules::Rules;
use kpps_frames::tag::TagFormat;
use kpps_ports::Spec;
use kpps_ports::port::run::{Shape, prefer};
use kpps_ports::port::{AnyPort, Options, ready};
use kpps_tester::clock::{Clock, Gain};
use kpps_tester::{Host as _, LocalHost, LocalPort, Reported, Task, TestPort, TrialState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tonic::{Status, Streaming};

/// A tester that sends nothing, or takes no answer, for this long during a trial is gone. The same holds for
/// an agent. A connection may be cut off for three seconds: TCP then waits for about as long as it has waited
/// already until it tries again, because its timer doubles each time (RFC 6298, 5.5).
pub(crate) const LEASE: Duration = Duration::from_secs(7);
/// The longest time between the request for a trial and its start. Until then its port stays reserved.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// The most received frames in one answer.
pub(crate) const RELAYED: usize = 4096;
/// How often a port is looked after while its tester learns, and until how long after its last question about
/// frames. Other traffic fills a queue within a round trip to the tester.
const LOOK: Duration = Duration::from_millis(5);
const LEARNS: Duration = Duration::from_secs(1);

/// The state that all sessions of an agent share.
pub(crate) struct Shared {
    pub rules: Rules,
    pub clock: Clock,
    pub responder: Responder,
    pub loads: Arc<Loads>,
    pub memory: Memory,
    /// Where events are reported, in lines.
    pub log: fn(&str),
}

/// A port that a tester uses until it is dropped.
struct OpenPort {
    shared: Arc<Shared>,
    used: InUse,
    port: LocalPort,
    host: LocalHost,
    /// The interfaces in use here, this port's and others'.
    around: Vec<String>,
    known: Known,
    parts: Parts,
    /// While its tester learns: the time of its last request for frames, the format of their tags, and the
    /// frames received since.
    learns: Option<(Instant, TagFormat)>,
    heard: Vec<Vec<u8>>,
}

impl OpenPort {
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
        let opened = shared.rules.admit(&spec)?;
        if let Some(other) = ask.others.iter().find(|name| !shared.rules.may_be_seen(name)) {
            return Err(format!("{other} is not an interface of an allowed port"));
        }
        let ring = ask
            .ring
            .map(u16::try_from)
            .transpose()
            .map_err(|_| "a ring has at most 65535 descriptors".to_owned())?;
        let options =
            Options { service: ask.service.parse().unwrap_or_default(), ring, ..Options::default() };
        let name = spec.to_string();
        let used = shared.loads.take(&name).ok_or(format!("{name} is in use by another tester"))?;
        let log = |line: &str| (shared.log)(line);
        let mut ports = ready(std::slice::from_ref(&opened), &options, &log).map_err(|e| e.to_string())?;
        let mut port = ports.pop().ok_or("no port was opened")?;
        if let (AnyPort::Udp(udp), Spec::Udp { host, .. }) = (&mut port, &opened)
            && host.is_empty()
        {
            udp.meets_only(shared.rules.destinations.iter().map(|network| network.0).collect());
        }
        let port = LocalPort::new(&spec, port).map_err(|e| e.to_string())?.with_clock(shared.clock.clone());
        let own = spec.interface().map(str::to_owned);
        let around: Vec<String> = own.into_iter().chain(ask.others.iter().cloned()).collect();
        let host = LocalHost::around(&around, &[]).map_err(|e| e.to_string())?;
        let known = shared.responder.cookie().ok_or("this system provides no random numbers")?;
        let (parts, heard) = (Parts::default(), Vec::new());
        Ok(Self { shared: shared.clone(), used, port, host, around, known, parts, learns: None, heard })
    }

    fn about(&self) -> proto::OpenedPort {
        let allowed = self.shared.rules.allowed;
        proto::OpenedPort {
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
    fn answer(&mut self, asks: QuestionKind) -> Result<AnswerKind, String> {
        Ok(match asks {
            QuestionKind::Open(_) => return Err("this session already has a port".into()),
            QuestionKind::ReadClock(proto::ReadClock {}) => {
                let came_ns = self.shared.clock.now_ns();
                AnswerKind::Clock(proto::Clock { came_ns, left_ns: self.shared.clock.now_ns() })
            }
            QuestionKind::Relay(relay) => AnswerKind::Relayed(self.relay(relay)?),
            QuestionKind::Before(proto::Before { trial }) => {
                self.host.before(trial).map_err(|e| e.to_string())?;
                AnswerKind::Observed(proto::Observed {})
            }
            QuestionKind::After(after) => {
                let ports: Vec<_> = after.ports.into_iter().map(convert::counted_port).collect();
                AnswerKind::Counted(convert::counted(self.host.after(&ports).map_err(|e| e.to_string())?))
            }
            QuestionKind::Describe(proto::Describe { interfaces }) => {
                // Only counters of interfaces in use.
                let ports = interfaces.iter().filter(|(_, interface)| self.around.contains(interface));
                let ports: Vec<_> =
                    ports.map(|(port, interface)| (port.as_str(), Some(interface.as_str()))).collect();
                AnswerKind::Described(proto::Described { environment: self.host.environment(&ports) })
            }
            // The reply to the last report has crossed this message.
            QuestionKind::Update(_) | QuestionKind::Begin(_) | QuestionKind::Part(_) => {
                return Err("no trial is under way".into());
            }
        })
    }

    fn relay(&mut self, relay: proto::Relay) -> Result<proto::Relayed, String> {
        let mut relayed = proto::Relayed::default();
        if relay.send.is_empty() {
            self.learns = Some((Instant::now(), convert::tag_format(relay.balanced_at, relay.trial)?));
            self.hear()?;
            if relay.trial == 0 {
                // The other port may send in the trial before its tester asks this port to begin.
                self.learns = None;
            }
            return Ok(proto::Relayed { received: std::mem::take(&mut self.heard), ..relayed });
        }
        let frames = relay.send.into_iter().map(convert::frame).collect::<Result<Vec<_>, _>>()?;
        let allowed = frames.iter().take_while(|_| self.shared.loads.may_relay()).count();
        relayed.taken = self.port.send_now(&frames[..allowed]).map_err(|e| e.to_string())? as u32;
        Ok(relayed)
    }

    /// Receives what its tester may learn from.
    fn hear(&mut self) -> Result<(), String> {
        let Some((_, format)) = self.learns else { return Ok(()) };
        let heard = &mut self.heard;
        let mut sink = |frame: &[u8]| {
            if heard.len() < RELAYED {
                heard.push(frame.to_vec());
            }
        };
        self.port.receive(format, &mut sink).map_err(|e| e.to_string())
    }

    /// The tester's next question; `None` if it has gone. Between trials it may be silent for as long as it
    /// is connected.
    fn next(&mut self, tester: &mut Tester<'_>) -> Option<Question> {
        while self.learns.is_some_and(|(since, _)| since.elapsed() < LEARNS) {
            if let Some(message) = within(LOOK, tester.questions.message()) {
                return message.ok()?;
            }
            // The next question reports a failure.
            let _ = self.hear();
        }
        (self.learns, self.heard) = (None, Vec::new());
        tester.asks(Duration::MAX)
    }

    /// The task of a trial, and its state for the number of its senders, if the rules allow it. From then on
    /// its load is the port's.
    fn accept(&self, work: proto::Work) -> Result<(Task, TrialState), String> {
        let (task, senders) = convert::task(work)?;
        let from_now = self.shared.clock.now_ns().abs_diff(task.epoch_ns);
        if Duration::from_nanos(from_now) > BEGINS_WITHIN {
            return Err(format!(
                "the trial begins {} s from now by this host's clock",
                from_now / 1_000_000_000
            ));
        }
        if let Some(plan) = &task.plan {
            // The tester knows the rules, but may ignore them.
            self.used.sends(plan.rate(), plan.shape(), task.duration)?;
        }
        Ok((task, TrialState::new(senders)))
    }

    /// Does the port's part of a trial. Each report of the tester is answered with the port's progress, and
    /// at the end come the results. Returns false if the tester is gone.
    fn work(&mut self, tester: &mut Tester<'_>) -> bool {
        // The frames take their share of the memory until the end.
        let taken = self.parts.take(&self.shared.memory);
        let accepted = taken.and_then(|(work, share)| Ok((self.accept(work)?, share)));
        let says = match accepted {
            Ok(((task, state), _share)) => {
                let says = self.run(&task, &state, tester);
                // Until its tester uses the port again, routers keep its station.
                self.port.attend(&task.station, &[]);
                says
            }
            Err(why) => Some(AnswerKind::Refused(why)),
        };
        // Done before clients learn of the end, because they rely on it.
        self.used.rests();
        says.is_some_and(|says| tester.hears(says))
    }

    /// Runs a trial. Returns the last message to its tester; `None` if the tester is gone.
    fn run(&mut self, task: &Task, state: &TrialState, tester: &mut Tester<'_>) -> Option<AnswerKind> {
        let progress = || {
            let (sent, received, sent_all) = state.progress(task.at);
            let Reported { shortfall, missed, absent, p50_ns, p99_ns } = state.reported(task.at);
            let counts = proto::Progress { sent, received, sent_all, ..proto::Progress::default() };
            AnswerKind::Progress(proto::Progress { shortfall, missed, absent, p50_ns, p99_ns, ..counts })
        };
        let no_thread =
            |error| Some(AnswerKind::Refused(format!("cannot start a thread for the trial: {error}")));
        std::thread::scope(|scope| {
            let (renew, lease) = sync_channel(1);
            let watchdog = Builder::new().name("lease".into());
            if let Err(error) = watchdog.spawn_scoped(scope, move || watch(&lease, state)) {
                return no_thread(error);
            }
            let (port, used) = (&mut self.port, &self.used);
            let worker = Builder::new().name("port".into());
            let work = || {
                // As in a trial without agents: a sender takes what it needs itself.
                prefer(false);
                port.work(task, state)
            };
            let thread = match worker.spawn_scoped(scope, work) {
                Ok(thread) => thread,
                Err(error) => return no_thread(error),
            };
            let end = talk(task, state, used, tester, &progress, renew, &|| thread.is_finished());
            let done = thread.join();
            match end {
                Talk::Gone => None,
                Talk::Refused(why) => Some(AnswerKind::Refused(why)),
                Talk::Over => Some(match done {
                    Ok(done) => AnswerKind::Done(convert::done(done)),
                    Err(_) => AnswerKind::Refused("the thread of this port panicked".into()),
                }),
            }
        })
    }
}

/// How the talk during a trial ends.
enum Talk {
    /// The port has done its part.
    Over,
    /// The tester is gone.
    Gone,
    /// The tester asks for something that is not allowed.
    Refused(String),
}

/// Receives the tester's messages and reports the progress to it until the trial is over. The trial ends when
/// `renew` is dropped.
fn talk(
    task: &Task,
    state: &TrialState,
    used: &InUse,
    tester: &mut Tester<'_>,
    progress: &dyn Fn() -> AnswerKind,
    renew: SyncSender<()>,
    is_over: &dyn Fn() -> bool,
) -> Talk {
    let mut says = progress();
    while tester.hears(says) {
        let Some(question) = tester.asks(LEASE) else { break };
        let Some(QuestionKind::Update(update)) = question.question else {
            says = AnswerKind::Refused("a trial is under way".into());
            continue;
        };
        // Where one waits already, that is enough.
        let _ = renew.try_send(());
        if let Some(pps) = update.rate_pps {
            let load = convert::load(pps);
            if let Err(why) = load.and_then(|load| used.sends(load, Shape::Constant, task.duration)) {
                return Talk::Refused(why);
            }
            if !state.change_rate(pps) {
                return Talk::Refused("the load has been changed too often".into());
            }
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
        if is_over() {
            return Talk::Over;
        }
        says = progress();
    }
    Talk::Gone
}

/// Ends a trial that is not renewed in time, whatever the thread that talks to the tester waits for.
fn watch(lease: &Receiver<()>, state: &TrialState) {
    while lease.recv_timeout(LEASE).is_ok() {}
    state.close();
}

/// The other end of a session.
pub(crate) struct Tester<'c> {
    pub questions: Streaming<Question>,
    pub answers: &'c Sender<Result<Answer, Status>>,
}

impl Tester<'_> {
    /// The tester's next question; `None` if the tester has gone or asks nothing within `patience`.
    fn asks(&mut self, patience: Duration) -> Option<Question> {
        within(patience, self.questions.message())?.ok()?
    }

    /// Answers it. Returns false if it has gone or does not take the answer.
    fn hears(&self, says: AnswerKind) -> bool {
        within(LEASE, self.answers.send(Ok(Answer { answer: Some(says) }))).is_some_and(|sent| sent.is_ok())
    }
}

/// Serves a tester until it ends the session or is gone.
pub(crate) fn run(shared: &Arc<Shared>, peer: &str, mut tester: Tester<'_>) {
    let Some(Question { question: Some(QuestionKind::Open(ask)) }) = tester.asks(LOGIN_TIMEOUT) else {
        return;
    };
    let mut port = match OpenPort::open(shared, &ask) {
        Ok(port) => port,
        Err(why) => {
            (shared.log)(&format!("{peer}: {} is refused: {why}", ask.port));
            tester.hears(AnswerKind::Refused(why));
            return;
        }
    };
    (shared.log)(&format!("{peer}: {} is open", port.used.name()));
    let mut there = tester.hears(AnswerKind::Port(port.about()));
    let mut gone = false;
    while there && let Some(question) = port.next(&mut tester) {
        there = match question.question {
            Some(QuestionKind::Part(part)) => {
                port.parts.add(&part, &shared.memory);
                true
            }
            Some(QuestionKind::Begin(_)) => {
                (port.learns, port.heard) = (None, Vec::new());
                gone = !port.work(&mut tester);
                !gone
            }
            Some(asks) => tester.hears(port.answer(asks).unwrap_or_else(AnswerKind::Refused)),
            None => tester.hears(AnswerKind::Refused(
                "unknown question: install the same version of kpps on both hosts".into(),
            )),
        };
    }
    let how = if gone { ", and it sends no longer: the tester disconnected during a trial" } else { "" };
    (shared.log)(&format!("{peer}: {} is closed{how}", port.used.name()));
}
