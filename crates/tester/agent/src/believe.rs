//! Checks the values from an agent before a tester uses them. An impossible value is left out and named, and
//! the rest stays.
//!
//! No sum of values that are let in is too large to be a number, and none of them means anything else than
//! itself.

use crate::convert::FASTEST_PPS;
use crate::proto;
use kpps_documents::detail::{Arrival, ArrivalBy, CpuTimes, RateChange};
use kpps_documents::{Disturbance, FlowLatency, Pause, PausedBy};
use kpps_frames::Size;
use kpps_methods::{Latency, Variation};
use kpps_ports::port::run::{Gaps, Got};
use kpps_tester::ledger::Accounts;
use kpps_tester::timeline::{self, Latencies, Point, Timeline};
use kpps_tester::{
    AnomalousFrame, Arrived, Counted, Done, ExpectedStream, Findings, Kept, Losses, Lost, OfFlow, OfSender,
    Received, SentFrames, SequenceGap, Task,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// More frames than a host counts in a trial, and more than any of its counters changes by.
const FRAMES: u64 = 1 << 48;
const CHANGE: u64 = 1 << 56;
/// A trial may take this much longer than its time: an agent may be busy, or cut off for a while.
const LONGER: Duration = Duration::from_secs(60);
/// The factor by which a load may exceed its rate: frames are sent at random times, and learning frames may
/// be among them.
const MORE: f64 = 1.5;
const FEW: u64 = 4096;
/// More VLAN tags than a frame has.
const TAGS: usize = 32;
/// More names in a list, characters in a text, CPUs of a host, and values that are named.
const NAMES: usize = 1 << 14;
const TEXT: usize = 500;
const CPUS: usize = 1 << 13;
const NAMED: usize = 8;
/// More frames than an agent keeps with anomalies, and more distinct latencies than it distinguishes.
const KEPT: usize = 10_000;
const LATENCIES: usize = 1 << 17;

/// A text on one line, without what controls a terminal, and not too long.
pub(crate) fn text(said: &str) -> String {
    said.chars().map(|it| if it.is_control() { ' ' } else { it }).take(TEXT).collect()
}

/// The values that cannot be, by name.
#[derive(Default)]
struct Judge {
    unbelievable: Vec<String>,
}

impl Judge {
    /// Notes a value that is left out.
    fn leave_out(&mut self, what: impl Into<String>) {
        match self.unbelievable.len() {
            0..NAMED => self.unbelievable.push(what.into()),
            NAMED => self.unbelievable.push("others".into()),
            _ => {}
        }
    }

    /// A value, if it can be.
    fn keep<T>(&mut self, what: &str, value: Option<T>, can_be: impl FnOnce(&T) -> bool) -> Option<T> {
        let value = value?;
        if can_be(&value) {
            return Some(value);
        }
        self.leave_out(what);
        None
    }

    /// A list that is empty if it cannot be.
    fn list<T>(&mut self, what: &str, values: Vec<T>, can_be: impl FnOnce(&Vec<T>) -> bool) -> Vec<T> {
        self.keep(what, Some(values), can_be).unwrap_or_default()
    }

    /// Counts by name.
    fn counts(&mut self, what: &str, said: BTreeMap<String, u64>, most: u64) -> BTreeMap<String, u64> {
        let mut kept = BTreeMap::new();
        for (name, count) in said {
            let name = text(&name);
            match count <= most && kept.len() < NAMES {
                true => _ = kept.insert(name, count),
                false => self.leave_out(format!("{what} {name}")),
            }
        }
        kept
    }

    /// The same of several interfaces or namespaces.
    fn counts_of(
        &mut self,
        said: BTreeMap<String, proto::Counts>,
    ) -> BTreeMap<String, BTreeMap<String, u64>> {
        let each = said.into_iter().take(NAMES);
        each.map(|(name, it)| (text(&name), self.counts(&text(&name), it.counts, CHANGE))).collect()
    }
}

/// Up to where the counts and times of a trial can be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Frames that the port sends, and frames that reach it.
    sent: u64,
    came: u64,
    /// A time since the beginning.
    ns: u64,
}

impl Limits {
    /// The limits for a port's part in a trial. The load may have been `changed` under way.
    pub fn of(task: &Task, changed: bool) -> Self {
        let length = task.duration.saturating_add(task.drain).saturating_add(LONGER);
        let came = (FASTEST_PPS * length.as_secs_f64()) as u64;
        let sent = task.plan.as_ref().map_or(0, |plan| {
            let peak_pps =
                if changed { FASTEST_PPS } else { plan.shape().peak_pps(plan.rate()).min(FASTEST_PPS) };
            let due = (MORE * peak_pps * task.duration.as_secs_f64()) as u64;
            let most = if changed { u64::MAX } else { plan.most().unwrap_or(u64::MAX) };
            due.min(most).saturating_add(FEW)
        });
        let ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Self { sent: sent.min(FRAMES), came: came.min(FRAMES), ns }
    }
}

/// A report. Of frames that cannot be it has those of the last one.
pub(crate) fn progress(said: proto::Progress, limits: &Limits, last: (u64, u64)) -> proto::Progress {
    let is_sent = said.sent <= limits.sent;
    let frames = |count: Option<u64>| count.filter(|count| *count <= limits.came.max(limits.sent));
    let ns = |ns: Option<u64>| ns.filter(|ns| *ns <= limits.ns);
    proto::Progress {
        sent: if is_sent { said.sent } else { last.0 },
        received: if said.received <= limits.came { said.received } else { last.1 },
        sent_all: said.sent_all && is_sent,
        shortfall: frames(said.shortfall),
        missed: frames(said.missed),
        absent: frames(said.absent),
        p50_ns: ns(said.p50_ns),
        p99_ns: ns(said.p99_ns),
    }
}

/// A port's results. If they do not cover a whole trial, the reason: the port failed, or the number of frames
/// is impossible. Then the `last` report has the numbers of sent and received frames.
pub(crate) fn done(
    said: proto::Done,
    task: &Task,
    limits: &Limits,
    last: (u64, u64),
) -> (Done, Option<String>) {
    let mut judge = Judge::default();
    let mut trouble = said.trouble.as_deref().map(text);
    let mut nonsense = |what: &str| {
        trouble.get_or_insert_with(|| format!("the agent reports an impossible number of {what} frames"));
    };
    let (mut intended, mut frames) = (said.intended, said.sent);
    if frames > limits.sent || intended > limits.sent {
        nonsense("sent");
        (intended, frames) = (last.0, last.0);
    }
    let arrived = arrived(&said.arrived.unwrap_or_default(), limits).unwrap_or_else(|| {
        nonsense("received");
        Arrived { received: last.1, ..Arrived::default() }
    });
    let all = arrived.received.saturating_add(arrived.duplicated);
    // In the order in which impossible values are named.
    let elapsed_ns = judge.keep("the time of sending", Some(said.elapsed_ns), |ns| *ns <= limits.ns);
    let begun_ns = judge.keep("the time when sending began", Some(said.begun_ns), |ns| *ns <= limits.ns);
    let gaps = judge.keep("gaps between frames", said.gaps, |gaps| are_gaps(gaps, frames, limits));
    let last_gap = last_gap(&mut judge, said.cut_off, said.last_gap_ns, limits);
    let mut latency = latency(&mut judge, said.latency, task, all);
    let variation = judge.keep("the jitter", said.variation, |it| {
        it.pairs <= all && u128::from(it.sum_ns) <= u128::from(it.pairs) * u128::from(limits.ns)
    });
    if let Some((first, proto::Variation { pairs, sum_ns })) = latency.first_mut().zip(variation) {
        first.variation = Variation { pairs, sum_ns };
    }
    let given = judge.keep("the frames given to the port", Some(said.given), |it| *it <= limits.sent);
    let losses = said.losses.and_then(|it| losses(&mut judge, &it, limits));
    let flows = flows(&mut judge, said.flows, task, limits);
    let sizes = sizes(&mut judge, said.sizes, task, limits);
    let findings = findings(&mut judge, said.findings.unwrap_or_default(), limits.came);
    let kept = kept(&mut judge, said.kept, task);
    let mut count = |what, count| judge.keep(what, count, |count| *count <= limits.came.max(limits.sent));
    let (missed, errors) = (count("missed frames", said.missed), count("truncated frames", said.errors));
    let taken = count("frames taken in", said.taken);
    let not_kept = count("frames that were not kept", Some(said.not_kept)).unwrap_or_default();
    let queue_growth = count("frames in queues that grew", said.queue_growth);
    let disturbance =
        judge.keep("what disturbed the sender", said.disturbance, |it| is_disturbance(it, intended, limits));
    let line = said.line.filter(|_| begun_ns.is_some());
    let line = judge.keep("the time series", line, |line| is_line(line, task, limits));
    let rate_changes = rate_changes(&mut judge, said.rate_changes, task);
    let done = Done {
        sent: SentFrames {
            intended,
            frames,
            given: given.unwrap_or(frames),
            of_streams: Vec::new(),
            due_of_streams: Vec::new(),
            skipped: Vec::new(),
            begun: Duration::from_nanos(begun_ns.unwrap_or_default()),
            elapsed: elapsed_ns.map_or(task.duration, Duration::from_nanos),
            gaps: gaps.map(gaps_of),
            send_log: None,
            disturbance: disturbance.map(disturbance_of),
            rate_changes,
            lateness: None,
            filled: None,
        },
        of_senders: vec![OfSender {
            from: 1 - task.at,
            queues: None,
            received: Received {
                arrived,
                last_gap,
                losses,
                queue_growth,
                arrival: Arrival {
                    by: if said.by_kernel { ArrivalBy::Kernel } else { ArrivalBy::Program },
                    clock_set_ns: said.clock_set_ns,
                },
                flows,
                streams: Vec::new(),
                sizes,
                kept: Kept { frames: kept, not_kept, ..Kept::default() },
                findings,
            },
            latency,
        }],
        captured: None,
        classes: Vec::new(),
        missed,
        errors,
        taken,
        line: line.map(|line| Timeline::of(line.interval_ns, line.points.into_iter().map(point).collect())),
        follower: None,
        cores: Vec::new(),
        trouble: None,
        unbelievable: judge.unbelievable,
    };
    (done, trouble)
}

/// Counts of frames that arrived; `None` if they are impossible.
fn arrived(said: &proto::Arrived, limits: &Limits) -> Option<Arrived> {
    let &proto::Arrived { received, duplicated, reordered, corrupted, other_traffic, nameless, tagless } =
        said;
    let counts = [received, duplicated, corrupted, other_traffic, nameless, tagless];
    let can_be =
        reordered <= received && corrupted <= received && counts.iter().all(|count| *count <= limits.came);
    can_be.then_some(Arrived { received, duplicated, reordered, corrupted, other_traffic, nameless, tagless })
}

/// When frames were lost last; the end of time if none arrived after that.
fn last_gap(judge: &mut Judge, cut_off: bool, ns: Option<u64>, limits: &Limits) -> Option<Duration> {
    if cut_off {
        return Some(Duration::MAX);
    }
    judge.keep("the time of the last loss", ns, |ns| *ns <= limits.ns).map(Duration::from_nanos)
}

/// The frames that were lost.
fn losses(judge: &mut Judge, said: &proto::Losses, limits: &Limits) -> Option<Losses> {
    let (first, longest) = said.first.zip(said.longest)?;
    let can_be = |it: &Losses| {
        is_lost(&first, limits)
            && is_lost(&longest, limits)
            && it.first.first <= it.longest.first
            && (1..=it.longest.frames).contains(&it.first.frames)
            && (it.longest.frames..=limits.came).contains(&it.frames)
    };
    let losses = Losses { first: lost(first), longest: lost(longest), frames: said.frames };
    judge.keep("the lost frames in a row", Some(losses), can_be)
}

/// Whether frames in a row can have been lost like this.
fn is_lost(said: &proto::Lost, limits: &Limits) -> bool {
    let end = said.first.checked_add(said.frames);
    let most_ps = limits.ns.saturating_mul(1000);
    said.gap_first <= said.first
        && end.is_some_and(|end| end <= said.gap_end)
        && said.gap_end <= limits.came
        && said.before_ps.is_none_or(|before| before <= said.behind_ps.unwrap_or(most_ps))
        && said.behind_ps.is_none_or(|behind| behind <= most_ps)
}

fn lost(said: proto::Lost) -> Lost {
    let proto::Lost { first, frames, gap_first, gap_end, before_ps, behind_ps } = said;
    Lost { first, frames, gap: SequenceGap { first: gap_first, end: gap_end, before_ps, behind_ps } }
}

/// Latencies in parts, of at most `all` frames.
fn latency(judge: &mut Judge, said: Vec<proto::Latency>, task: &Task, all: u64) -> Vec<Latency> {
    let parts = task.expect.first().map_or(0, |expect| expect.parts);
    let latency = judge.list("latencies", said, |each| {
        each.len() <= parts
            && each.iter().try_fold(0, |sum, it| frames_of(it, sum)).is_some_and(|it| it <= all)
    });
    latency.iter().map(recorded).collect()
}

/// The fate of each flow.
fn flows(judge: &mut Judge, said: Vec<proto::Flow>, task: &Task, limits: &Limits) -> Vec<OfFlow> {
    let flows = expected(task).map_or(0, |stream| stream.frames.flows() as usize);
    let said = judge.list("flows", said, |each| {
        let can_be = |it: &proto::Flow| {
            let is_latency = |it: &proto::FlowLatency| {
                it.min_ns <= it.mean_ns
                    && it.mean_ns <= it.max_ns
                    && it.max_ns.max(it.jitter_ns.unwrap_or(0)) <= limits.ns
            };
            it.sent <= limits.came
                && it.reordered <= limits.came
                && it.latency.as_ref().is_none_or(is_latency)
        };
        each.len() <= flows && each.iter().all(can_be)
    });
    let of = |(flow, of): (u32, proto::Flow)| {
        let proto::Flow { sent, received, reordered, latency } = of;
        let latency = latency.map(|it| FlowLatency {
            min: it.min_ns,
            mean: it.mean_ns,
            max: it.max_ns,
            jitter: it.jitter_ns,
        });
        // No count may exceed the frames sent.
        OfFlow { flow, sent, received: received.min(sent), reordered, latency }
    };
    (0..).zip(said).map(of).collect()
}

/// For each size, frames sent and frames that arrived.
fn sizes(judge: &mut Judge, said: Vec<proto::OfSize>, task: &Task, limits: &Limits) -> Vec<(u64, u64)> {
    let sizes = expected(task).map_or(0, |stream| stream.frames.sizes());
    let said =
        judge.list("sizes", said, |each| each.len() <= sizes && each.iter().all(|it| it.sent <= limits.came));
    said.iter().map(|of| (of.sent, of.received.min(of.sent))).collect()
}

/// Frames with anomalies.
fn kept(judge: &mut Judge, said: Vec<proto::AnomalousFrame>, task: &Task) -> Vec<AnomalousFrame> {
    let most = if task.expect.first().is_some_and(|expect| expect.keep) { KEPT } else { 0 };
    let longest = usize::from(Size::MAX.bytes_without_fcs()) + 64;
    let said = judge.list("frames with anomalies", said, |each| {
        each.len() <= most && each.iter().all(|it| it.frame.len() <= longest)
    });
    said.into_iter().map(anomalous_frame).collect()
}

/// The changes of the load.
fn rate_changes(judge: &mut Judge, said: Vec<proto::RateChange>, task: &Task) -> Vec<RateChange> {
    let most = task.duration.as_secs_f64() + LONGER.as_secs_f64();
    let said = judge.list("changes of the load", said, |changes| {
        changes.len() <= NAMES
            && changes.iter().all(|it| (0.0..=most).contains(&it.at_s))
            && changes.iter().all(|it| (0.0..=FASTEST_PPS).contains(&it.offered_pps))
    });
    said.iter().map(|&proto::RateChange { at_s, offered_pps }| RateChange { at_s, offered_pps }).collect()
}

/// Whether a sender with `intended` frames due can have been disturbed like this.
fn is_disturbance(said: &proto::Disturbance, intended: u64, limits: &Limits) -> bool {
    let can_be = |pause: &proto::Pause| {
        pause.at_ns <= limits.ns
            && pause.lasted_ns <= limits.ns
            && pause.cpu.is_none_or(|cpu| (cpu as usize) < CPUS)
            && pause.group.as_ref().is_none_or(|group| group.len() <= TEXT)
    };
    said.frames <= intended && said.pauses <= said.frames && said.longest.as_ref().is_none_or(can_be)
}

fn disturbance_of(said: proto::Disturbance) -> Disturbance {
    let proto::Disturbance { frames, pauses, longest } = said;
    Disturbance { frames, pauses, longest: longest.map(pause) }
}

fn pause(said: proto::Pause) -> Pause {
    let by = match said.group {
        Some(group) => PausedBy::Quota { group },
        None if said.hypervisor => PausedBy::Hypervisor,
        None => PausedBy::Programs,
    };
    Pause { at_ns: said.at_ns, lasted_ns: said.lasted_ns, cpu: said.cpu, by }
}

/// Why frames arrived in another way than they should.
fn findings(judge: &mut Judge, said: proto::Findings, most: u64) -> Findings {
    let ids = |ids: &[u32]| ids.iter().map(|&id| u16::try_from(id).ok().filter(|id| *id < 4096)).collect();
    let can_be =
        said.retagged <= most && said.fragments <= most && said.came.len().max(said.expected.len()) <= TAGS;
    match (ids(&said.came), ids(&said.expected)) {
        (Some(came), Some(expected)) if can_be => {
            Findings { retagged: said.retagged, came, expected, fragments: said.fragments }
        }
        _ => {
            judge.leave_out("why frames arrived in another way");
            Findings::default()
        }
    }
}

/// The stream that a port receives.
fn expected(task: &Task) -> Option<&ExpectedStream> {
    task.expect.first()?.streams.first()
}

fn gaps_of(said: proto::Gaps) -> Gaps {
    Gaps {
        intended_ns: said.intended_ns,
        count: said.count,
        within: said.intended_ns.map(|_| said.within),
        p50_ns: said.p50_ns,
        p99_ns: said.p99_ns,
        p999_ns: said.p999_ns,
        max_ns: said.max_ns,
        waited_ns: said.waited_ns,
        got: said.sender.map(|proto::Sender { cpu, first, session_first }| Got { cpu, first, session_first }),
    }
}

/// Whether a sender of `sent` frames can have seen these gaps.
fn are_gaps(gaps: &proto::Gaps, sent: u64, limits: &Limits) -> bool {
    let times = [gaps.p50_ns, gaps.p99_ns, gaps.p999_ns, gaps.max_ns];
    gaps.intended_ns.is_none_or(|ns| ns > 0.0 && ns <= limits.ns as f64)
        && gaps.count <= sent
        && gaps.within <= gaps.count
        && times.is_sorted()
        && gaps.max_ns <= limits.ns
        && gaps.waited_ns.is_none_or(|ns| ns <= limits.ns)
        && gaps.sender.is_none_or(|sender| sender.cpu.is_none_or(|cpu| (cpu as usize) < CPUS))
}

/// The frames of a distribution and `others`; `None` if it is none.
fn frames_of(said: &proto::Latency, others: u64) -> Option<u64> {
    let is_one = said.ns.len() == said.frames.len() && said.ns.len() <= LATENCIES;
    is_one.then(|| said.frames.iter().try_fold(others, |sum, frames| sum.checked_add(*frames)))?
}

/// Whether a time series can be one of this trial.
fn is_line(line: &proto::Timeline, task: &Task, limits: &Limits) -> bool {
    let Some(every) = task.every else { return false };
    let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
    let all = |count: fn(&proto::Point) -> u64, most: u64| {
        let sum = line.points.iter().try_fold(0_u64, |sum, point| sum.checked_add(count(point)));
        sum.is_some_and(|sum| sum <= most)
    };
    line.points.len() <= timeline::MOST_INTERVALS
        && line.interval_ns.is_multiple_of(every_ns)
        && (line.interval_ns / every_ns).is_power_of_two()
        && all(|it| it.due, limits.sent)
        && all(|it| it.given, limits.sent)
        && all(|it| it.refused, limits.sent)
        && all(|it| it.received, limits.came)
        && all(|it| it.missed, limits.came)
        && line.points.iter().all(|it| {
            let frames = it.latency.as_ref().map_or(Some(0), |latency| frames_of(latency, 0));
            frames.is_some_and(|frames| frames <= it.received)
        })
}

fn point(said: proto::Point) -> Point {
    let proto::Latency { ns, frames } = said.latency.unwrap_or_default();
    Point {
        due: said.due,
        given: said.given,
        refused: said.refused,
        received: said.received,
        missed: said.missed,
        latency: Latencies::of(ns.into_iter().zip(frames)),
    }
}

fn anomalous_frame(said: proto::AnomalousFrame) -> AnomalousFrame {
    AnomalousFrame { at_ns: said.at_ns, frame: said.frame, why: text(&said.why) }
}

fn recorded(said: &proto::Latency) -> Latency {
    let mut latency = Latency::default();
    for (&ns, &frames) in said.ns.iter().zip(&said.frames) {
        latency.record_times(ns, frames);
    }
    latency
}

/// The counters of a host.
pub(crate) fn counted(said: proto::Counted) -> Counted {
    let mut judge = Judge::default();
    let accounts = Accounts {
        dropped: judge.counts("frames dropped at", said.dropped, FRAMES),
        in_flight_at: judge.counts("frames in flight at", said.in_flight_at, FRAMES),
        excess: judge.counts("frames dropped at", said.excess, FRAMES),
        copies: judge.counts("frames dropped at", said.copies, FRAMES),
        possible: judge
            .list("places of dropped frames", said.possible, |each| {
                each.len() <= NAMES && each.iter().all(|it| it.frames <= FRAMES)
            })
            .into_iter()
            .map(|it| (text(&it.place), it.frames))
            .collect(),
    };
    let cpus = judge.list("CPU times", said.cpus, |each| each.len() <= CPUS && each.iter().all(is_cpu));
    let cycles = |cpu: &proto::CpuTimes| cpu.cycles.filter(|cycles| *cycles <= CHANGE);
    if cpus.iter().any(|cpu| cycles(cpu) != cpu.cycles) {
        judge.leave_out("cycles of CPUs");
    }
    Counted {
        accounts,
        interfaces: judge.counts_of(said.interfaces),
        ip: judge.counts_of(said.ip),
        cpus: cpus
            .iter()
            .map(|cpu| CpuTimes {
                user_s: cpu.user_s,
                system_s: cpu.system_s,
                irq_s: cpu.irq_s,
                softirq_s: cpu.softirq_s,
                idle_s: cpu.idle_s,
                steal_s: cpu.steal_s,
                cycles: cycles(cpu),
            })
            .collect(),
        hosts: Vec::new(),
        softnet: judge.counts("softnet", said.softnet, CHANGE),
        interrupts: judge.counts("interrupts", said.interrupts, CHANGE),
        softirqs: judge.counts("softirqs", said.softirqs, CHANGE),
        unbelievable: judge.unbelievable,
    }
}

/// Whether a CPU can have spent its time so. Linux's idle time may go back a little.
fn is_cpu(cpu: &proto::CpuTimes) -> bool {
    let times = [cpu.user_s, cpu.system_s, cpu.irq_s, cpu.softirq_s, cpu.idle_s, cpu.steal_s];
    times.iter().all(|time| (-1.0..=1e9).contains(time))
}

/// A port that is open.
///
/// # Errors
/// A value that is impossible and needed, in words.
pub(crate) fn opened(said: proto::OpenedPort) -> Result<proto::OpenedPort, String> {
    let max_load_pps = said.max_load_pps;
    if max_load_pps.is_nan() || max_load_pps <= 0.0 {
        return Err(format!("it reports an impossible highest load: {max_load_pps} frames per second"));
    }
    let shortest = u32::from(Size::MIN.bytes_without_fcs());
    Ok(proto::OpenedPort {
        interface: said.interface.as_deref().map(text),
        clock_id: text(&said.clock_id),
        // As where they are not known.
        speed_mbps: said.speed_mbps.filter(|mbps| (1..=100_000_000).contains(mbps)),
        longest_bytes: said.longest_bytes.filter(|bytes| *bytes >= shortest),
        ..said
    })
}

/// An environment.
pub(crate) fn environment(said: BTreeMap<String, String>) -> BTreeMap<String, String> {
    said.into_iter().take(NAMES).map(|(name, what)| (text(&name), text(&what))).collect()
}
