//! Ports of this process, and the system around them.

use crate::accounting::counted::{Counted, counted};
use crate::accounting::ledger::PortCount;
use crate::accounting::observe::{Observation, ObservedScopes, Scope};
use crate::capturing::ring::{Captured, Ring, RingForm};
use crate::capturing::tap::{Tape, Tapped};
use crate::clock::Clock;
use crate::error::Error;
use crate::judging::arrivals::Arrivals;
use crate::judging::kept::Noted;
use crate::judging::queues::ExpectedQueues;
use crate::judging::recognised::Recognised;
use crate::judging::senders::Judges;
use crate::judging::timeline::Timeline;
use crate::running::attend::{Attended, send_one};
use crate::running::building::BuiltStream;
#[cfg(target_os = "linux")]
use crate::running::cores::on_threads;
use crate::running::cores::{Came, CoreWork, together};
use crate::running::neighbours::{self, Station};
#[cfg(target_os = "linux")]
use crate::running::spreading::Spreading;
#[cfg(target_os = "linux")]
use crate::running::test_port::ONLY_XDP;
use crate::running::test_port::{Done, Expect, ExpectedStream, Host, LiveCounts, SentFrames, Task, TestPort};
use crate::watching::control::{self, StreamControl};
use crate::watching::cores::{CoreSent, PortCores, Report};
use crate::watching::state::TrialState;
use kpps_documents::detail::RateChange;
use kpps_frames::Mac;
use kpps_frames::tag::TagFormat;
use kpps_ports::Spec;
use kpps_ports::by_cores;
#[cfg(target_os = "linux")]
use kpps_ports::port::run::Beginning;
use kpps_ports::port::run::{
    self, Aside, BUDGET, Change, Glance, Near, PartTimetables, PlanPart, SendPlan, Starter, Steady, Watch,
    send_part_and_listen,
};
use kpps_ports::port::{AnyPort, Counters, Port, Trouble, wait};
use std::cell::{Cell, RefCell};
#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often a receiver maintains its port, and how long it waits at most.
pub(crate) const SLOW: Duration = Duration::from_millis(20);

/// A port of this process.
pub struct LocalPort {
    name: String,
    interface: Option<String>,
    /// The CPUs around the interface.
    near: Near,
    /// Its flows at its receive queues, if each core reads one.
    #[cfg(target_os = "linux")]
    spreading: Option<Spreading>,
    mac: Mac,
    port: Attended,
    clock: Clock,
    /// The counters of the port of each core when learning ended: a trial's frames may come before these
    /// threads run. Empty before that.
    before: Vec<Counters>,
    /// All frames since it was asked to capture them, and the frames that it had received and sent then.
    ring: Option<(Ring, [u64; 2])>,
}

impl LocalPort {
    /// For an open port.
    ///
    /// # Errors
    /// Errors of the system: its address is unknown.
    pub fn new(spec: &Spec, port: AnyPort) -> Result<Self, Error> {
        let mac = Mac(port.address()?);
        Ok(Self {
            name: spec.to_string(),
            near: spec.interface().map(Near::interface).unwrap_or_default(),
            #[cfg(target_os = "linux")]
            spreading: Spreading::of(&port, spec.interface()),
            interface: spec.interface().map(str::to_owned),
            mac,
            port: Attended::new(port),
            clock: Clock::here().clone(),
            before: Vec::new(),
            ring: None,
        })
    }

    /// The expected receive queues of the flows of a trial, if each core reads one.
    fn expected_queues(&self) -> Option<&ExpectedQueues> {
        #[cfg(target_os = "linux")]
        return self.spreading.as_ref().map(Spreading::expected);
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// Finds out why flows came to other queues.
    fn explain_queues(&self, done: &mut Done) {
        #[cfg(target_os = "linux")]
        self.spreading.iter().for_each(|spreading| spreading.explain(done));
        #[cfg(not(target_os = "linux"))]
        let _ = done;
    }

    /// Uses another clock than the shared clock of this process.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }
}

impl TestPort for LocalPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn near(&self) -> Option<&Near> {
        Some(&self.near)
    }

    fn speed_mbps(&self) -> Option<u32> {
        self.port.speed_mbps().or_else(|| link_speed_mbps(self.interface.as_deref()?))
    }

    fn longest(&self) -> Option<usize> {
        self.port.longest()
    }

    fn cores(&self) -> usize {
        self.port.cores()
    }

    #[cfg(target_os = "linux")]
    fn spread(&mut self, expect: &[Expect], steers: bool) -> Result<(), Error> {
        match &mut self.spreading {
            Some(spreading) => spreading.prepare(&self.name, expect, steers),
            None if steers && !expect.is_empty() => {
                Err(Error::NoSteering { port: self.name.clone(), why: ONLY_XDP.into() })
            }
            None => Ok(()),
        }
    }

    fn attend(&mut self, own: &Station, others: &[Station]) {
        self.port.attend(*own, others);
    }

    fn capture(&mut self, form: Option<RingForm>) -> Result<(), Error> {
        let port = self.port.here().map_err(|trouble| trouble.at(&self.name))?;
        if form.is_some() && port.cores() > 1 {
            return Err(Error::NoCapture(self.name.clone()));
        }
        self.ring = match form.map(Ring::new).transpose() {
            Ok(ring) => ring.map(|ring| (ring, port.frames().into())),
            Err(_) => return Err(Error::NoMemory { port: self.name.clone() }),
        };
        Ok(())
    }

    fn send_now(&mut self, frames: &[Vec<u8>]) -> Result<usize, Trouble> {
        let port = self.port.here().map_err(|trouble| trouble.at(&self.name))?;
        for (sent, frame) in frames.iter().enumerate() {
            let mut ring = self.ring.as_mut().map(|(ring, _)| ring);
            ring.iter_mut().for_each(|ring| ring.sent(frame));
            if !send_one(port, frame).map_err(|trouble| trouble.at(&self.name))? {
                ring.iter_mut().for_each(|ring| ring.forget_newest());
                return Ok(sent);
            }
        }
        Ok(frames.len())
    }

    fn receive(&mut self, format: TagFormat, sink: &mut dyn FnMut(&[u8])) -> Result<(), Trouble> {
        let mut take = || {
            let port = self.port.here()?;
            port.woken()?;
            let end = Instant::now() + SLOW;
            // Frames have times from now on. Some kernels need a moment before.
            while port.receive_stamped(BUDGET, |frame, stamp| {
                let bytes = frame.as_ref();
                let is_ours = format.read(bytes).is_some();
                if is_ours || neighbours::is_message(bytes) {
                    sink(bytes);
                }
                if let Some((ring, _)) = &mut self.ring {
                    ring.received(bytes, stamp, is_ours.then(Noted::default), false);
                }
                Some(frame.buffer)
            })? > 0
                && Instant::now() < end
            {}
            self.before = counters_of_cores(port)?;
            Ok(())
        };
        take().map_err(|trouble: Trouble| trouble.at(&self.name))
    }

    fn work(&mut self, task: &Task, state: &TrialState) -> Done {
        let before = std::mem::take(&mut self.before);
        let port = match self.port.here() {
            Ok(port) => port,
            Err(trouble) => return Done::failed(task, state, trouble.at(&self.name)),
        };
        let (cores, epoch) = (port.cores(), self.clock.when(task.epoch_ns));
        let plan = task.plan.as_ref().map(|plan| SendPlan { epoch: Some(epoch), ..plan.clone() });
        let parts = plan.as_ref().map_or_else(|| vec![None; cores], |plan| PlanPart::of_all(plan, cores));
        let senders = parts.iter().flatten().count();
        let reports = PortCores::new(state, task.at, cores, senders);
        let of_core = |core: usize| CoreTask {
            task,
            epoch,
            part: parts.get(core).and_then(Option::as_ref),
            near: &self.near,
            report: reports.core(core),
            is_alone: cores == 1,
            before: before.get(core).copied(),
        };
        let works = by_cores!(
            port,
            all => {
                let beginning = Beginning::of(senders);
                // If a core fails, or has no thread, the others begin without it.
                let ports = all.parts().zip(beginning.starters(&parts));
                let failed = |trouble| CoreWork::failed(state, trouble);
                on_threads(ports, failed, |core, (port, starter)| {
                    core_work(port, &of_core(core), starter, None)
                })
            },
            port => vec![core_work(port, &of_core(0), None, self.ring.take())]
        );
        let mut done = together(works, &parts, (task, state), (&self.name, self.expected_queues()));
        self.explain_queues(&mut done);
        done
    }
}

/// The part of a core in a trial.
struct CoreTask<'t> {
    task: &'t Task,
    epoch: Instant,
    /// The frames that it sends.
    part: Option<&'t PlanPart>,
    near: &'t Near,
    report: Report<'t>,
    /// Whether the port has only this core.
    is_alone: bool,
    /// The counters of its port when learning ended.
    before: Option<Counters>,
}

/// Does the part of a core in a trial. `ring` keeps all its frames.
fn core_work<P: Port>(
    port: &mut P,
    core: &CoreTask<'_>,
    starter: Option<Starter<'_>>,
    ring: Option<(Ring, [u64; 2])>,
) -> CoreWork {
    let CoreTask { task, epoch, report, .. } = *core;
    let before = match core.before.map_or_else(|| port.counters(), Ok) {
        Ok(before) => before,
        Err(trouble) => {
            if core.part.is_some() {
                report.has_sent(CoreSent::default());
            }
            return CoreWork::failed(report.state(), trouble);
        }
    };
    let mut incoming = Incoming::of(task, epoch, core.is_alone);
    let mut counting = Counting::new(task, epoch, before);
    let ring = ring.map(|(mut ring, before)| {
        ring.begin();
        incoming = incoming.take().map(Incoming::noting);
        (RefCell::new(ring), before)
    });
    let (sent, mut line, mut trouble) = match &ring {
        None => work(port, (), (core, starter), &mut counting, &mut incoming),
        Some((ring, _)) => {
            work(&mut Tapped::new(port, ring), ring, (core, starter), &mut counting, &mut incoming)
        }
    };
    let captured = ring.map(|(ring, before)| {
        let (received, sent) = port.frames();
        let frames = [received - before[0], sent - before[1]];
        captured(ring.into_inner(), (task, incoming.as_ref()), epoch, frames)
    });
    counting.arrive(incoming.as_ref());
    let mut merge = |other: Option<Timeline>| {
        if let (Some(line), Some(other)) = (&mut line, other) {
            line.merge(other);
        }
    };
    let came = match incoming {
        Some(Incoming::Tagged(from, mut arrivals)) => {
            merge(arrivals.take_line());
            Came::Tagged(vec![(from, arrivals)])
        }
        // Their intervals are not counted.
        Some(Incoming::OfSeveral(judges)) => Came::Tagged(judges.into_all()),
        Some(Incoming::Recognised(recognised)) => {
            let (received, classes) = recognised.finish();
            Came::Recognised(Box::new(received), classes)
        }
        None => Came::Nothing,
    };
    let counters = match port.counters() {
        Ok(after) => {
            merge(counting.finish(&after));
            Some([before, after])
        }
        Err(lost) => {
            trouble = trouble.or(Some(lost));
            None
        }
    };
    CoreWork { sent, came, line, counters, captured, trouble }
}

/// The captured frames of a port that had this part in a trial, with the port's own counts of received and
/// sent frames.
fn captured(
    mut ring: Ring,
    (task, incoming): (&Task, Option<&Incoming>),
    epoch: Instant,
    [received, sent]: [u64; 2],
) -> Captured {
    let judges: Vec<&Arrivals> = incoming.into_iter().flat_map(Incoming::judges).map(|(_, it)| it).collect();
    let usual: Vec<_> = judges.iter().filter_map(|judge| judge.usual_change()).collect();
    ring.settle(&usual, |frame, nameless| judges.iter().any(|judge| judge.has_stations(frame, nameless)));
    Captured {
        epoch_ns: ring.time_of(epoch),
        ring,
        leaving: task.plan.as_ref().and_then(|plan| Some(plan.streams.first()?.frames.clone())),
        arriving: task.expect.first().and_then(|expect| Some(expect.streams.first()?.frames.clone())),
        is_replay: task.plan.as_ref().is_some_and(|plan| plan.as_they_are)
            || task.expect.iter().any(|expect| expect.recognise.is_some()),
        received,
        sent,
    }
}

/// The counters of the port of each core.
fn counters_of_cores(port: &mut AnyPort) -> Result<Vec<Counters>, Trouble> {
    by_cores!(port, all => all.parts().map(Port::counters).collect(), port => Ok(vec![port.counters()?]))
}

/// Whether frames can pass the link of a port's interface now; `None` if the kernel does not know.
pub fn is_link_up(spec: &Spec) -> Option<bool> {
    is_running(spec.interface()?)
}

#[cfg(target_os = "linux")]
fn is_running(interface: &str) -> Option<bool> {
    kpps_linux::Interface::find(interface).and_then(|device| device.is_running()).ok()
}

#[cfg(not(target_os = "linux"))]
fn is_running(_: &str) -> Option<bool> {
    None
}

/// The speed of an interface's link in Mb/s, from its driver.
#[cfg(target_os = "linux")]
fn link_speed_mbps(interface: &str) -> Option<u32> {
    kpps_linux::ethtool::speed_mbps(interface).ok().flatten()
}

#[cfg(not(target_os = "linux"))]
fn link_speed_mbps(_: &str) -> Option<u32> {
    None
}

/// A sender's watch.
struct Until<'s> {
    report: Report<'s>,
    duration: Duration,
    /// Frames that the port had sent before.
    before: u64,
    /// When frames are due, if they have their times; and the same table, read a little later.
    timetable: Option<PartTimetables>,
    behind: Option<PartTimetables>,
    /// The changes of the load of all streams.
    rates: Vec<RateChange>,
    /// How many are sent at most.
    most: u64,
    /// The frames that were due so far, and the frames given to the port.
    due: u64,
    given: u64,
    /// The highest shortfall so far.
    shortfall: u64,
    /// When sending began, since the epoch.
    begun: Duration,
    line: Option<Timeline>,
    /// The end of the interval under way, in ns since the epoch.
    next_ns: u64,
    /// The question for counts of streams that is not answered.
    question: Option<u64>,
}

impl<'s> Until<'s> {
    fn new(report: Report<'s>, task: &Task, part: &PlanPart, before: u64) -> Self {
        let timetable = part.timetables();
        Self {
            report,
            duration: task.duration,
            before,
            behind: timetable.clone().filter(|_| task.every.is_some()),
            timetable,
            rates: Vec::new(),
            most: part.most().unwrap_or(u64::MAX),
            due: 0,
            given: 0,
            shortfall: 0,
            begun: Duration::ZERO,
            line: task.every.map(Timeline::new),
            next_ns: 0,
            question: None,
        }
    }

    /// Frames that were due before a time that does not decrease; `None` if they have no times.
    fn due_before(&mut self, elapsed: Duration) -> Option<u64> {
        self.timetable.as_mut().map(|table| table.before(elapsed.as_secs_f64()) as u64)
    }

    /// Changes the load.
    #[cold]
    fn change(&mut self, elapsed: Duration, changes: &[Change]) {
        let at_s = elapsed.as_secs_f64();
        for table in [&mut self.timetable, &mut self.behind].into_iter().flatten() {
            changes.iter().for_each(|change| table.change(at_s, change.clone()));
        }
        for change in changes {
            if let Change::Load(offered_pps) = *change {
                let whole =
                    self.timetable.as_ref().and_then(|table| table.until(self.duration.as_secs_f64()));
                self.most = whole.unwrap_or(u64::MAX);
                self.rates.push(RateChange { at_s, offered_pps });
            }
        }
    }

    /// Counts what became due in the intervals that have ended.
    #[cold]
    fn end_intervals(&mut self, now_ns: u64) {
        let Some(line) = &mut self.line else { return };
        while self.next_ns <= now_ns {
            if let (Some(timetable), Some(ended_ns)) = (&mut self.timetable, self.next_ns.checked_sub(1)) {
                let elapsed = Duration::from_nanos(self.next_ns).saturating_sub(self.begun);
                let due = timetable.before(elapsed.as_secs_f64()).round() as u64;
                let due = due.min(self.most).max(self.due);
                line.at(ended_ns).due += due - self.due;
                self.due = due;
            }
            self.next_ns = line.end_ns(self.next_ns);
        }
    }
}

impl Watch for Until<'_> {
    fn at_most(&self) -> Option<Duration> {
        Some(self.duration)
    }
    fn go_on(&mut self, glance: &Glance) -> bool {
        self.report.sends(glance.sent - self.before);
        if let Some(behind) = &mut self.behind {
            // Frames that are still unsent a moment after they were due are skipped.
            let then = glance.elapsed.saturating_sub(SLOW);
            let due = (behind.before(then.as_secs_f64()) as u64).min(self.most);
            self.shortfall = self.shortfall.max(due.saturating_sub(self.given));
            self.report.falls_short(self.shortfall);
        }
        !self.report.state().is_abandoned() && !self.report.state().control().is_some_and(StreamControl::ends)
    }
    fn begins(&mut self, since_epoch: Duration) {
        self.begun = since_epoch;
    }
    #[inline]
    fn changes(&mut self, elapsed: Duration) -> Vec<Change> {
        let mut changes =
            self.report.state().control().map_or_else(Vec::new, |control| control.changes(self.report.at()));
        let rate = self.report.state().rate_pps();
        let is_new = |pps: &f64| self.rates.last().is_none_or(|last| last.offered_pps != *pps);
        changes.extend(rate.filter(is_new).map(Change::Load));
        if !changes.is_empty() {
            self.change(elapsed, &changes);
        }
        changes
    }
    #[inline]
    fn wants_streams(&mut self) -> bool {
        self.question =
            self.report.state().control().and_then(|control| control.asks_sender(self.report.at()));
        self.question.is_some()
    }
    fn streams(&mut self, frames: &[u64], are_sending: &[bool]) {
        if let (Some(control), Some(question)) = (self.report.state().control(), self.question) {
            control.sent(self.report.at(), question, frames, are_sending);
        }
    }
    #[inline]
    fn sent(&mut self, elapsed: Duration, frames: usize) {
        self.given += frames as u64;
        if self.line.is_none() {
            return;
        }
        let now_ns = (self.begun + elapsed).as_nanos() as u64;
        if now_ns >= self.next_ns {
            self.end_intervals(now_ns);
        }
        let behind_s = elapsed.saturating_sub(SLOW).as_secs_f64();
        self.timetable.iter_mut().for_each(|table| table.draw_until(elapsed.as_secs_f64()));
        self.behind.iter_mut().for_each(|table| table.draw_until(behind_s));
        if let Some(line) = &mut self.line
            && frames > 0
        {
            let point = line.at(now_ns);
            point.given += frames as u64;
            // As many as possible: the due frames are the sent frames.
            point.due += if self.timetable.is_none() { frames as u64 } else { 0 };
        }
    }
}

/// Reads a port's counters some times in each interval, and at least once a second: some have 32 bits.
struct Counting {
    epoch: Instant,
    before: Counters,
    last: Counters,
    line: Option<Timeline>,
    /// Frames without tags that had arrived when the counters were read.
    arrived: u64,
    pause: Duration,
    next: Instant,
}

impl Counting {
    fn new(task: &Task, epoch: Instant, before: Counters) -> Self {
        let pause = task.every.map_or(Duration::from_secs(1), |every| every / 4);
        let pause = pause.clamp(SLOW, Duration::from_secs(1));
        let line = task.every.map(Timeline::new);
        Self { epoch, before, last: before, line, arrived: 0, pause, next: Instant::now() + pause }
    }

    /// Reads the counters, if it is time.
    fn look<P: Port>(
        &mut self,
        port: &mut P,
        incoming: Option<&Incoming>,
        report: &Report<'_>,
    ) -> Result<(), Trouble> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + self.pause;
        let counters = port.counters()?;
        self.note(&counters);
        let missed = counters.missed_since(&self.before);
        self.arrive(incoming);
        let quantiles = match incoming {
            Some(Incoming::Tagged(_, arrivals)) => {
                report.lacks(arrivals.absent());
                arrivals.last_quantiles()
            }
            _ => None,
        };
        report.overflows(missed, quantiles);
        Ok(())
    }

    /// Counts frames that have arrived without tags. Tags have the times of sending.
    fn arrive(&mut self, incoming: Option<&Incoming>) {
        if let (Some(line), Some(Incoming::Recognised(recognised))) = (&mut self.line, incoming) {
            let arrived = recognised.received();
            line.at(self.epoch.elapsed().as_nanos() as u64).received += arrived - self.arrived;
            self.arrived = arrived;
        }
    }

    fn note(&mut self, counters: &Counters) {
        if let Some(line) = &mut self.line {
            let point = line.at(self.epoch.elapsed().as_nanos() as u64);
            let missed = |counters: &Counters| counters.missed.unwrap_or(0);
            // Some devices take back a count: theirs of frames on their way may be early.
            point.missed += missed(counters).saturating_sub(missed(&self.last));
            point.refused += counters.tx_dropped.saturating_sub(self.last.tx_dropped);
        }
        self.last = *counters;
    }

    /// The port's counts in each interval.
    fn finish(mut self, after: &Counters) -> Option<Timeline> {
        self.note(after);
        self.line
    }
}

/// The counting of received frames.
#[expect(clippy::large_enum_variant, reason = "a port has one")]
enum Incoming {
    /// Frames of one sender, with its index.
    Tagged(usize, Arrivals),
    /// Frames of several senders.
    OfSeveral(Judges),
    Recognised(Recognised),
}

impl Incoming {
    /// For the frames that a port receives in a trial; `None` if it receives none.
    fn of(task: &Task, epoch: Instant, is_alone: bool) -> Option<Self> {
        match &task.expect[..] {
            [] => None,
            [only] => Some(Self::new(task, only, epoch, is_alone)),
            all => {
                let judges = all.iter().map(|expect| (expect.from, arrivals(task, expect, epoch)));
                Some(Self::OfSeveral(Judges::new(judges.collect())))
            }
        }
    }

    fn new(task: &Task, expect: &Expect, epoch: Instant, is_alone: bool) -> Self {
        if let Some(classes) = &expect.recognise {
            let count = expect.streams.iter().map(|stream| stream.count).sum();
            let recognised = Recognised::new(classes.clone(), count);
            return Self::Recognised(if expect.keep { recognised.keeping() } else { recognised });
        }
        let arrivals = arrivals(task, expect, epoch);
        let arrivals = if is_alone { arrivals } else { arrivals.beside_others() };
        Self::Tagged(expect.from, if expect.keep { arrivals.keeping() } else { arrivals })
    }

    /// Expects another stream from now on, perhaps of a sender without one before. `notes`: whether it is
    /// noted how each frame is judged.
    #[cold]
    fn expect(
        incoming: &mut Option<Self>,
        (task, epoch, notes): (&Task, Instant, bool),
        (from, BuiltStream { plan, room }): (usize, BuiltStream),
    ) {
        let known = match incoming {
            Some(Self::Tagged(sender, arrivals)) if *sender == from => Some(arrivals),
            Some(Self::OfSeveral(judges)) => judges.of(from),
            _ => None,
        };
        if let Some(arrivals) = known {
            return arrivals.expect(plan.stream, plan.frames, room);
        }
        // Streams are controlled between ports of this process, which have one clock.
        let first = ExpectedStream { stream: plan.stream, frames: plan.frames, count: room };
        let streams = vec![first];
        let expect =
            Expect { from, streams, by_stream: true, margin_ns: 0, parts: 1, keep: false, recognise: None };
        let judge = arrivals(task, &expect, epoch);
        let judge = if notes { judge.noting() } else { judge };
        *incoming = Some(match incoming.take() {
            None => Self::Tagged(from, judge),
            Some(Self::Tagged(other, first)) => {
                Self::OfSeveral(Judges::new(vec![(other, first), (from, judge)]))
            }
            Some(Self::OfSeveral(mut judges)) => {
                judges.add(from, judge);
                Self::OfSeveral(judges)
            }
            // A replay is not controlled.
            Some(recognised) => recognised,
        });
    }

    /// The judges of tagged frames, with their senders.
    fn judges(&self) -> Vec<(usize, &Arrivals)> {
        match self {
            Self::Tagged(from, arrivals) => vec![(*from, arrivals)],
            Self::OfSeveral(judges) => judges.all().iter().map(|(from, judge)| (*from, judge)).collect(),
            Self::Recognised(_) => Vec::new(),
        }
    }

    /// Notes how each frame is judged.
    fn noting(self) -> Self {
        match self {
            Self::Tagged(from, arrivals) => Self::Tagged(from, arrivals.noting()),
            Self::OfSeveral(judges) => Self::OfSeveral(judges.noting()),
            Self::Recognised(recognised) => Self::Recognised(recognised.noting()),
        }
    }

    /// How the last frame was judged, which is this one.
    fn judged(&mut self, frame: &[u8]) -> Noted {
        match self {
            Self::Tagged(_, arrivals) => arrivals.judged(frame),
            Self::OfSeveral(judges) => judges.judged(frame),
            Self::Recognised(recognised) => recognised.judged(),
        }
    }

    fn burst(&mut self) {
        match self {
            Self::Tagged(_, arrivals) => arrivals.burst(),
            Self::OfSeveral(judges) => judges.burst(),
            Self::Recognised(_) => {}
        }
    }

    #[inline]
    fn take(&mut self, frame: &[u8], stamp: Option<u64>) -> bool {
        match self {
            Self::Tagged(_, arrivals) => arrivals.take(frame, stamp),
            Self::OfSeveral(judges) => judges.take(frame, stamp),
            Self::Recognised(recognised) => recognised.take(frame, stamp),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::Tagged(_, arrivals) => arrivals.received(),
            Self::OfSeveral(judges) => judges.received(),
            Self::Recognised(recognised) => recognised.received(),
        }
    }
}

/// The counts of the streams that have arrived so far, by their senders.
fn so_far(incoming: Option<&Incoming>) -> control::Received {
    let judges = incoming.into_iter().flat_map(Incoming::judges);
    judges.map(|(from, judge)| (from, judge.of_streams())).collect()
}

/// The judge of the frames of one sender.
fn arrivals(task: &Task, expect: &Expect, epoch: Instant) -> Arrivals {
    let margin = Duration::from_nanos(expect.margin_ns);
    let from = epoch.checked_sub(margin).unwrap_or(epoch);
    let streams = expect.streams.iter().map(|it| (it.stream, it.frames.clone(), it.count));
    Arrivals::of(streams, expect.by_stream, from)
        .in_parts(expect.parts, task.duration)
        .in_intervals(task.every, expect.margin_ns)
}

/// The number of received frames at a port that expects none: more than can be missing.
const NONE_EXPECTED: u64 = u64::MAX;

/// The frames that a port has sent, its work in each interval, and its failure.
type Worked = (SentFrames, Option<Timeline>, Option<Trouble>);

/// Sends, if there is something to send, and receives until nothing more can arrive.
fn work<P: Port, T: Tape>(
    port: &mut P,
    tape: T,
    (core, starter): (&CoreTask<'_>, Option<Starter<'_>>),
    counting: &mut Counting,
    incoming: &mut Option<Incoming>,
) -> Worked {
    let CoreTask { task, epoch, part, near, report, .. } = *core;
    let state = report.state();
    let (answered, stamped) = (Cell::new(0), Cell::new(false));
    let (mut calls, mut seen) = (0_u32, 0);
    let mut listen = |port: &mut P| {
        let mut answers = Vec::new();
        if let Some(incoming) = incoming {
            incoming.burst();
        }
        let taken = port.receive_stamped(BUDGET, |frame, stamp| {
            stamped.set(stamp.is_some());
            let bytes = frame.as_ref();
            let ours = incoming.as_mut().is_some_and(|incoming| incoming.take(bytes, stamp));
            let unanswered = answers.len();
            if !ours {
                answers.extend(neighbours::answer_at(&task.station, &task.others, bytes));
            }
            if T::KEEPS {
                let judged = incoming.as_mut().map(|incoming| incoming.judged(bytes));
                tape.received(bytes, stamp, judged, answers.len() > unanswered);
            }
            Some(frame.buffer)
        })?;
        for answer in answers {
            answered.set(answered.get() + u64::from(send_one(port, &answer)?));
        }
        calls = calls.wrapping_add(1);
        if let (Some(gain), Some(Incoming::Tagged(_, arrivals))) =
            (state.gain(task.at, &mut seen), &mut *incoming)
        {
            arrivals.follow(gain);
        }
        if let Some(control) = state.control() {
            let question = control.asks_receiver(task.at);
            // An answer contains all streams that were added before the question.
            for stream in control.new_streams(task.at) {
                Incoming::expect(incoming, (task, epoch, T::KEEPS), stream);
            }
            if let Some(question) = question {
                control.received(task.at, question, so_far(incoming.as_ref()));
            }
        }
        if taken == 0 || calls.is_multiple_of(32) {
            counting.look(port, incoming.as_ref(), &report)?;
        }
        let received = match incoming {
            Some(incoming) => {
                report.receives(incoming.count());
                incoming.count()
            }
            None => NONE_EXPECTED,
        };
        Ok((taken, received))
    };
    let rested = match (part, state.control()) {
        (Some(part), Some(control)) if part.plan.streams.iter().all(|stream| stream.waits) => {
            let _aside = Aside::receiving(near);
            rest(port, (task, epoch), (&mut listen, &stamped), (control, state))
        }
        _ => Ok(()),
    };
    let (_steady, _aside) = match part {
        Some(_) => (Some(Steady::now(near)), None),
        None => (None, Some(Aside::receiving(near))),
    };
    let (sent, line, mut trouble) = match (part, rested) {
        (Some(part), Ok(())) => {
            transmit(port, (task, epoch), (part, starter), (&mut listen, &answered), report)
        }
        (Some(_), Err(lost)) => {
            state.abandon();
            state.control().into_iter().for_each(|control| control.has_sent(task.at, &[]));
            report.has_sent(CoreSent::default());
            (SentFrames::default(), None, Some(lost))
        }
        (None, _) => (SentFrames::default(), task.every.map(Timeline::new), None),
    };
    let is_over = |received: u64, quiet: Duration| report.is_over(received, quiet, task.drain);
    if trouble.is_none()
        && let Err(lost) = receive(port, &mut listen, &stamped, is_over)
    {
        trouble = Some(lost);
        state.abandon();
    }
    if let Some(control) = state.control() {
        control.has_received(task.at, so_far(incoming.as_ref()));
    }
    (sent, line, trouble)
}

/// Only receives while all streams of a port wait: until one of them is started, one is added, or the trial
/// ends. A thread that sends takes a CPU for itself.
fn rest<P: Port>(
    port: &mut P,
    (task, epoch): (&Task, Instant),
    (listen, stamped): (&mut impl FnMut(&mut P) -> Result<(usize, u64), Trouble>, &Cell<bool>),
    (control, state): (&StreamControl, &TrialState),
) -> Result<(), Trouble> {
    let is_over = |_: u64, _: Duration| {
        if let Some(question) = control.asks_sender(task.at) {
            control.sent(task.at, question, &[], &[]);
        }
        let has_ended = control.ends() || state.is_abandoned() || epoch.elapsed() >= task.duration;
        has_ended || control.has_changes(task.at)
    };
    receive(port, listen, stamped, is_over)
}

/// The frames that a core has sent, in the order of the whole plan.
fn core_sent(task: &Task, part: &PlanPart, frames: u64, sent: &run::Sent) -> CoreSent {
    let streams = task.plan.as_ref().map_or(0, |plan| plan.streams.len());
    if part.is_divided() {
        return CoreSent { frames, of_streams: Vec::new(), of_core: Some(sent.given) };
    }
    let mut of_streams = sent.of_streams.clone();
    if part.plan.streams.len() < streams {
        of_streams = vec![0; streams];
        part.add_to(&mut of_streams, &sent.of_streams, sent.given);
    }
    CoreSent { frames, of_streams, of_core: None }
}

/// Sends the frames of a part of a plan. Listens meanwhile, and answers questions.
fn transmit<P: Port>(
    port: &mut P,
    (task, epoch): (&Task, Instant),
    (part, starter): (&PlanPart, Option<Starter<'_>>),
    (listen, answered): (&mut impl FnMut(&mut P) -> Result<(usize, u64), Trouble>, &Cell<u64>),
    report: Report<'_>,
) -> Worked {
    let begin = Instant::now();
    let before = port.frames().1;
    let mut until = Until::new(report, task, part, before);
    if part.plan.live {
        // The port may have rested until now.
        until.duration = task.duration.saturating_sub(epoch.elapsed());
    }
    let mut listen_only = |port: &mut P| listen(port).map(|(taken, _)| taken);
    let sent = send_part_and_listen(port, part, starter, &mut until, &mut listen_only);
    // Answers to questions are no frames of the trial.
    let frames = (port.frames().1 - before).saturating_sub(answered.get());
    let (sent, trouble) = match sent {
        Ok(sent) => (sent, None),
        Err(trouble) => {
            let elapsed = begin.elapsed().min(task.duration);
            let intended = until.due_before(elapsed).unwrap_or(frames);
            report.state().abandon();
            (run::Sent { intended, elapsed, given: frames, ..run::Sent::default() }, Some(trouble))
        }
    };
    report.sends(frames);
    report.state().control().into_iter().for_each(|control| control.has_sent(task.at, &sent.of_streams));
    report.has_sent(core_sent(task, part, frames, &sent));
    let Until { begun, rates: rate_changes, line, .. } = until;
    let sent = SentFrames { frames, begun, rate_changes, ..SentFrames::from(sent) };
    (sent, line, trouble)
}

/// How long a receiver sleeps while frames arrive in succession. A receiver that waits for the next frame is
/// woken by the sender, on another CPU. That takes a virtual machine 4 µs, the time in which a sender over a
/// veth sends three frames, and it adds to the latency of the next frame. Such a sleep ends by itself.
/// Meanwhile the port's queue must hold what arrives: at two million frames a second a packet socket's ring
/// holds 2 ms, and the smallest buffer of a UDP socket a quarter of that.
const NAP: Duration = Duration::from_micros(100);

/// Frames arrive in succession if the last one came less than this ago. Whether a receiver naps must not
/// depend on how many frames it happened to find: two runs at one rate would have different latencies.
const SUCCESSION: Duration = Duration::from_millis(2);

/// Frames that a port's queue holds at most.
const AT_END: usize = 1 << 16;

/// Receives until it `is_over`, by the number of frames so far and the time since the last one. If the kernel
/// stamps frames (`stamped`), they need not be taken at once.
fn receive<P: Port>(
    port: &mut P,
    listen: &mut impl FnMut(&mut P) -> Result<(usize, u64), Trouble>,
    stamped: &Cell<bool>,
    is_over: impl Fn(u64, Duration) -> bool,
) -> Result<(), Trouble> {
    let mut last = Instant::now();
    let mut looked_after = last;
    let (mut loops, mut since_rest) = (0_u32, 0);
    loop {
        let (taken, received) = listen(port)?;
        loops += 1;
        since_rest += taken;
        if taken > 0 && !loops.is_multiple_of(32) {
            continue;
        }
        let now = Instant::now();
        if since_rest > 0 {
            last = now;
        }
        if is_over(received, now - last) {
            break;
        }
        if now - looked_after > SLOW {
            looked_after = now;
            port.maintain()?;
        }
        if taken == 0 {
            if received == NONE_EXPECTED {
                // Frames of others can wait: a bridge may flood many to a port that has no part in a trial.
                std::thread::sleep(SLOW / 4);
            } else if stamped.get() && now - last < SUCCESSION {
                std::thread::sleep(NAP);
            } else {
                wait(&[&*port], SLOW / 4)
                    .map_err(|source| Trouble::System { what: "cannot wait", source })?;
            }
            since_rest = 0;
            port.woken()?;
        }
    }
    // Frames that came in time and wait in the port's queue, if this thread has not run for a while.
    let mut waiting = AT_END;
    while waiting > 0 {
        let (taken, _) = listen(port)?;
        if taken == 0 {
            break;
        }
        waiting = waiting.saturating_sub(taken);
    }
    Ok(())
}

/// The system of this process.
pub struct LocalHost {
    observed: ObservedScopes,
    before: Observation,
}

impl LocalHost {
    /// Observes these interfaces, their surroundings, and these scopes.
    ///
    /// # Errors
    /// [`Error::Observe`].
    pub fn around(own: &[String], scopes: &[Scope]) -> Result<Self, Error> {
        Ok(Self { observed: ObservedScopes::around(own, scopes)?, before: Observation::default() })
    }
}

impl Host for LocalHost {
    fn before(&mut self, trial: Option<u32>) -> Result<(), Error> {
        self.observed.begin(trial)?;
        self.before = self.observed.observe()?;
        Ok(())
    }

    fn after(&mut self, ports: &[PortCount]) -> Result<Counted, Error> {
        // If a system can no longer be observed, only the counts of its ports are known.
        let after = self.observed.observe().unwrap_or_default();
        Ok(counted(&self.before, &after, ports))
    }

    #[cfg(target_os = "linux")]
    fn leave_out(&mut self, interfaces: &[String]) {
        self.observed.leave_out(interfaces);
    }

    fn live_counts(&self) -> Option<LiveCounts> {
        let (observed, before) = (self.observed.clone(), self.before.clone());
        Some(Box::new(move |ports| {
            observed.observe().map_or_else(|_| Counted::default(), |now| counted(&before, &now, ports))
        }))
    }

    #[cfg(target_os = "linux")]
    fn environment(&self, ports: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
        let mut environment = crate::accounting::host::environment(ports);
        if let Some(why) = self.observed.lacks_kernel_drops() {
            environment.insert("drop reasons".into(), format!("not available: {why}"));
        }
        let around = self.observed.described().iter();
        environment.extend(around.map(|(place, what)| (format!("observed {place}"), what.clone())));
        environment
    }
}
