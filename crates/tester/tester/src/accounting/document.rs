//! A trial as it is published.

use crate::judging::losses::{Losses, Lost};
use crate::judging::playback::Playback;
use crate::judging::queues::Elsewhere;
use crate::judging::received::{Findings, OfFlow, OfStream};
use crate::running::streams::Stream;
use crate::running::test_port::OfCore;
use crate::running::trial::{DirectionOutcome, Offer, Outcome, Tester};
use kpps_documents::calibration::{Gaps, SenderPriority};
use kpps_documents::detail::{
    BitRates, Capture, Carried, CoreCount, CpuTimes, DetailedTrial, Direction, Fate, FlowCount, Flows,
    LossTimes, SizeCount, StreamCount, TrialReplay,
};
use kpps_documents::queues::{FlowElsewhere, Queues};
use kpps_documents::run::Lateness;
use kpps_documents::{Cpu, Doubt, Environment, FlowLatency, Ledger, Probe, TESTER_RATIO, Trial};
use kpps_frames::Mix;
use kpps_frames::rate::Rate;
use kpps_methods::Latency;
use kpps_ports::port::run::{self, FEW, Late, Shape};
use std::time::Duration;

/// The result of a load; `None` if no frame was due. Damaged frames count as lost in the result and as
/// delivered in the ledger. Driver and bus are not observed.
pub fn result(offer: &Offer, outcome: &Outcome) -> Option<Trial> {
    let sum = |count: fn(&DirectionOutcome) -> u64| outcome.directions.iter().map(count).sum::<u64>();
    let (sent, shortfall, received) = (
        sum(|direction| direction.sent.frames),
        sum(|direction| direction.sent.shortfall()),
        sum(|direction| direction.received.arrived.received),
    );
    let whole = received.saturating_sub(sum(|direction| direction.received.arrived.corrupted));
    let elapsed =
        outcome.directions.iter().map(|direction| direction.sent.elapsed.as_secs_f64()).fold(0.0, f64::max);
    // A trial that went on to its end has offered its frames in its time. The frames of a replay may be due
    // in less.
    let whole_s = offer.load.duration.as_secs_f64();
    let seconds = match (outcome.complete, &offer.replay, offer.load.rate) {
        (false, ..) | (true, Some(_), Rate::Max) => elapsed,
        // It ended when its user wanted.
        (true, None, _) if offer.control.is_some() => elapsed,
        // Late frames may have been sent after the end.
        (true, None, _) if offer.late == Late::Send => whole_s.max(elapsed),
        (true, None, _) => whole_s,
        (true, Some(_), Rate::Pps(pps)) => {
            let due = sum(|direction| direction.sent.intended) as f64;
            whole_s.min(due / pps / outcome.directions.len() as f64)
        }
    };
    let is_changed = outcome.directions.iter().any(|direction| !direction.sent.rate_changes.is_empty());
    let is_steady = !is_changed && !matches!(offer.shape, Shape::Ramp(..) | Shape::Then(..));
    let offered_pps = match offer.load.rate {
        Rate::Pps(pps) if is_steady && offer.streams.is_empty() => pps * outcome.directions.len() as f64,
        // Late frames were due before the end.
        _ if offer.late == Late::Send && outcome.complete && offer.control.is_none() => {
            sum(|direction| direction.sent.intended) as f64 / whole_s.min(seconds)
        }
        _ => sum(|direction| direction.sent.intended) as f64 / seconds,
    };
    let (dropped, in_flight_at) = outcome.counted.accounts.explaining(sent.saturating_sub(received));
    let ledger = Ledger { sent, shortfall, delivered: received, dropped, in_flight_at, ..Ledger::default() };
    let mut latency = Latency::default();
    for direction in &outcome.directions {
        latency.add(&direction.latency);
    }
    let trial = Trial::new(offered_pps, seconds, [sent, shortfall, whole], ledger)?;
    let trial = trial.with_overflow(outcome.overflow);
    let probes = outcome.directions.iter().flat_map(|direction| probes(offer, direction)).collect();
    let trial = Trial { latency_ns: latency.quantiles(), probes, ..trial };
    // For a load that changes, or for as many frames as the port takes, the growth of queues says nothing.
    let is_sustained = is_steady && outcome.complete && offer.load.rate != Rate::Max;
    let growth = outcome.directions.iter().map(|direction| direction.received.queue_growth).sum();
    let trial = trial
        .with_disturbance(outcome.disturbance(), outcome.max_shortfall)
        .with_queue_growth(is_sustained.then_some(growth).flatten());
    Some(match cpu(&outcome.counted.cpus) {
        Some(cpu) => trial.with_cpu(cpu),
        None => trial,
    })
}

/// The CPU time of all CPUs together; `None` if it was not counted. Idle polls cannot be distinguished from
/// work.
fn cpu(cpus: &[CpuTimes]) -> Option<Cpu> {
    let total = |of: fn(&CpuTimes) -> f64| cpus.iter().map(of).sum::<f64>();
    let (hardirq, softirq) = (total(|it| it.irq_s), total(|it| it.softirq_s));
    let thread = total(|it| it.user_s + it.system_s);
    let whole = hardirq + softirq + thread + total(|it| it.idle_s + it.steal_s);
    let share = |part: f64| part / whole;
    (whole > 0.0).then(|| Cpu {
        hardirq: share(hardirq),
        softirq: share(softirq),
        thread: share(thread),
        idle_polls: None,
    })
}

/// The document of a trial; `None` if no frame was due.
pub fn document(tester: &Tester, offer: &Offer, outcome: &Outcome) -> Option<DetailedTrial> {
    let result = result(offer, outcome)?;
    let fate = |direction: &DirectionOutcome| {
        let arrived = &direction.received.arrived;
        Fate {
            intended: direction.sent.intended,
            received: arrived.received,
            lost: direction.lost(),
            duplicated: Some(arrived.duplicated),
            reordered: Some(arrived.reordered),
            // A damaged frame of a capture is not recognised: it counts as other traffic, and as lost.
            corrupted: offer.replay.is_none().then_some(arrived.corrupted),
            other_traffic: Some(arrived.other_traffic),
        }
    };
    let mut all: Fate = outcome.directions.iter().map(fate).sum();
    // An overflow of no known direction came through, too.
    let known: u64 = outcome.directions.iter().filter_map(|direction| direction.overflow).sum();
    all.lost = all.lost.saturating_sub(outcome.overflow.unwrap_or(0).saturating_sub(known));
    let is_pair = tester.names().len() == 2;
    let line_pps = tester.line_rate_pps(&offer.load.sizes);
    // Of two ports, the environment knows the number of directions.
    let line_pps = line_pps.map(|pps| if is_pair { pps } else { pps * offer.senders().len() as f64 });
    let environment = Environment {
        bidirectional: is_pair && offer.directions().len() == 2,
        shape: offer.shape.name_unless_default(),
        ..kpps_methods::of_frames(tester.environment(), &offer.load)
    };
    let published = |direction: &DirectionOutcome| {
        let DirectionOutcome { from, to, sent, received, latency, series, .. } = direction;
        let arrived = &received.arrived;
        Direction {
            from: tester.names()[*from].to_owned(),
            to: tester.names()[*to].to_owned(),
            sent: sent.frames,
            shortfall: sent.shortfall(),
            delivered: arrived.received.saturating_sub(arrived.corrupted),
            fate: fate(direction),
            latency_ns: latency.quantiles(),
            latency_histogram: latency.ranges(),
            loss: loss_times(direction),
            arrival: received.arrival,
            gaps: sent.gaps.as_ref().map(gaps),
            lateness: sent.lateness.map(lateness),
            flows: flows(tester, (*from, *to), &received.flows),
            streams: streams(offer, direction),
            sizes: sizes(offer, &received.sizes),
            cores: cores(direction),
            queues: queues(tester, offer, direction),
            rate_changes: sent.rate_changes.clone(),
            series: series.as_ref().map(|(_, series)| series.clone()).unwrap_or_default(),
        }
    };
    let document = DetailedTrial {
        environment: environment.with_line_rate(line_pps),
        load_pps: offer.load.rate.pps(),
        complete: outcome.complete,
        trouble: outcome.trouble.as_ref().map(ToString::to_string),
        doubts: doubts(&result, outcome),
        retries: outcome.retries,
        learned: outcome.learned,
        fate: all,
        received_pps: all.received as f64 / result.seconds,
        sent_bps: sent_bps(offer, outcome, &result),
        clocks: outcome.clocks.clone(),
        interval_s: outcome.directions.iter().find_map(|it| Some(it.series.as_ref()?.0)),
        directions: outcome.directions.iter().map(published).collect(),
        interfaces: outcome.counted.interfaces.clone(),
        ip: outcome.counted.ip.clone(),
        cpus: outcome.counted.cpus.clone(),
        hosts: if outcome.counted.hosts.iter().all(|host| host.agent.is_none()) {
            Vec::new()
        } else {
            outcome.counted.hosts.clone()
        },
        softnet: outcome.counted.softnet.clone(),
        interrupts: outcome.counted.interrupts.clone(),
        softirqs: outcome.counted.softirqs.clone(),
        result,
        ..DetailedTrial::default()
    };
    Some(document.rounded())
}

/// The bits that were sent in a second.
fn sent_bps(offer: &Offer, outcome: &Outcome, result: &Trial) -> BitRates {
    let mut all = BitRates::default();
    let mut add = |sizes: &Mix, pps: f64| {
        all.l1 += sizes.l1_bits_per_s(pps);
        all.l2 += sizes.l2_bits_per_s(pps);
    };
    if offer.streams.is_empty() {
        add(&offer.load.sizes, result.sent_pps);
    }
    for direction in &outcome.directions {
        let streams = offer.streams_of(direction.ends()).zip(&direction.sent.of_streams);
        streams.for_each(|((stream, _), sent)| add(&stream.sizes, *sent as f64 / result.seconds));
    }
    all
}

/// When frames of a direction were lost. `None` if none were, or if other frames are missing, too: it is
/// unknown which of them the kernel refused to send, or the port could not receive.
fn loss_times(direction: &DirectionOutcome) -> Option<LossTimes> {
    let is_known = direction.sent.given == direction.sent.frames && direction.overflow == Some(0);
    let losses = direction.received.losses.filter(|it| is_known && it.frames == direction.lost())?;
    let begun_ps = ps(direction.sent.begun);
    Some(times_of(&losses, begun_ps, (Duration::ZERO, direction.sent.elapsed)))
}

fn ps(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() * 1000).unwrap_or(u64::MAX)
}

/// The times of losses, of frames that were sent from `from` to `to` after `begun_ps`.
fn times_of(losses: &Losses, begun_ps: u64, (from, to): (Duration, Duration)) -> LossTimes {
    let [from_ps, to_ps] = [from, to].map(|time| begun_ps.saturating_add(ps(time)));
    let times_s = |lost: &Lost| {
        let (at_ps, lasted_ps) = lost.times_ps(from_ps, to_ps);
        (at_ps.saturating_sub(begun_ps) as f64 / 1e12, lasted_ps as f64 / 1e12)
    };
    let (longest_at_s, longest_s) = times_s(&losses.longest);
    let (first_s, _) = times_s(&losses.first);
    LossTimes { first_s, longest_frames: losses.longest.frames, longest_at_s, longest_s }
}

/// The doubts about the result.
fn doubts(result: &Trial, outcome: &Outcome) -> Vec<Doubt> {
    let mut doubts = Doubt::about(result, outcome.link_changes());
    doubts.extend(late(result, outcome));
    let frames = outcome.directions.iter().map(|direction| direction.either).sum();
    doubts.extend((frames > 0).then_some(Doubt::Either { frames }));
    let findings = outcome.directions.iter().map(|direction| &direction.received.findings);
    match outcome.directions.len() {
        0..=2 => doubts.extend(findings.flat_map(Findings::doubts)),
        // Not one for each pair of many ports.
        _ => doubts.extend(findings.cloned().reduce(Findings::and).iter().flat_map(Findings::doubts)),
    }
    let misses = |(place, frames): (&String, &u64)| {
        // As the kernel names its counter and its reason.
        let place = place.split_once(" rx_otherhost").or_else(|| place.split_once(" otherhost"))?.0;
        Some(Doubt::OtherStation { place: place.to_owned(), frames: *frames })
    };
    doubts.extend(result.ledger.dropped.iter().filter_map(misses));
    let unbelievable = outcome.counted.unbelievable.iter().cloned();
    doubts.extend(unbelievable.map(|values| Doubt::Unbelievable { values }));
    doubts
}

/// The doubt about a trial of which too many frames were sent late.
fn late(result: &Trial, outcome: &Outcome) -> Option<Doubt> {
    let all = outcome.directions.iter().filter_map(|direction| direction.sent.lateness);
    let all = all.reduce(|one, other| one.and(&other)).map(lateness)?;
    let most = result.max_shortfall.unwrap_or(TESTER_RATIO) * result.sent as f64;
    // As where late frames are left out, a few may be late.
    (all.frames > FEW && all.frames as f64 > most)
        .then_some(Doubt::Late { frames: all.frames, longest_ns: all.longest_ns })
}

/// The frames that were kept of a trial, in this file.
pub fn capture(file: String, directions: &[DirectionOutcome]) -> Capture {
    Capture {
        file,
        frames: directions.iter().map(|direction| direction.received.kept.frames.len() as u64).sum(),
        not_kept: directions.iter().map(|direction| direction.received.kept.not_kept).sum(),
    }
}

impl Playback {
    /// The replay as published, of the trial with this offer.
    pub fn document(&self, offer: &Offer) -> TrialReplay {
        TrialReplay {
            file: self.file.display().to_string(),
            frames: self.count,
            with_equals: offer.replay.as_ref().map_or(0, |replay| replay.classes.with_equals()),
            departures: self.departures.clone(),
        }
    }
}

/// The number of flows that are listed: the worst ones.
const WORST: usize = 16;

/// The results of the flows of this direction, if there are several.
fn flows(tester: &Tester, direction: (usize, usize), flows: &[OfFlow]) -> Option<Flows> {
    let lost = |flow: &OfFlow| flow.sent - flow.received;
    let mean_ns = |flow: &OfFlow| flow.latency.map_or(0, |latency| latency.mean);
    let has_any = |flow: &&OfFlow| lost(flow) + flow.reordered + mean_ns(flow) > 0;
    let mut by_fate: Vec<_> = flows.iter().filter(has_any).copied().collect();
    by_fate.sort_by_key(|flow| (std::cmp::Reverse((lost(flow), flow.reordered, mean_ns(flow))), flow.flow));
    let published = |flow: &OfFlow| FlowCount {
        flow: tester.flow_name(direction, flow.flow),
        frames: Carried::of(flow.sent, flow.received),
        reordered: flow.reordered,
        latency_ns: flow.latency,
    };
    (!flows.is_empty()).then(|| Flows {
        count: flows.len() as u32,
        lossy: flows.iter().filter(|flow| lost(flow) > 0).count() as u32,
        silent: flows.iter().filter(|flow| flow.sent > 0 && flow.received == 0).count() as u32,
        worst: by_fate.iter().take(WORST).map(published).collect(),
    })
}

/// The results of the streams of a direction, if a file describes them.
fn streams(offer: &Offer, direction: &DirectionOutcome) -> Vec<StreamCount> {
    let sent = &direction.sent;
    let begun_ps = ps(sent.begun);
    let published = |(((stream, pps), of), shortfall): OfNamed<'_>| {
        // The last frame of a stream is sent when the stream ends, or all.
        let begin = stream.start.min(sent.elapsed);
        let end = stream.duration.map_or(sent.elapsed, |it| (stream.start + it).min(sent.elapsed));
        let losses = of.losses.filter(|losses| {
            let is_known = sent.given == sent.frames && direction.overflow == Some(0);
            is_known && losses.frames == of.missing()
        });
        StreamCount {
            stream: stream.name.clone(),
            load_pps: offer.load.rate.pps().map(|_| pps),
            frames: Carried::of(of.sent, of.arrived.received),
            shortfall,
            duplicated: of.arrived.duplicated,
            reordered: of.arrived.reordered,
            corrupted: of.arrived.corrupted,
            latency_ns: of.latency,
            percentiles_ns: of.times.as_ref().map(|times| times.quantiles()),
            loss: losses.map(|losses| times_of(&losses, begun_ps, (begin, end))),
        }
    };
    of_streams(offer, direction).map(published).collect()
}

/// A stream with its rate, its fate, and its shortfall.
type OfNamed<'a> = (((&'a Stream, f64), &'a OfStream), Option<u64>);

/// The streams of a direction, if a file describes them.
fn of_streams<'a>(offer: &'a Offer, direction: &'a DirectionOutcome) -> impl Iterator<Item = OfNamed<'a>> {
    let is_paced = offer.load.rate != Rate::Max;
    let count = offer.streams_of(direction.ends()).count();
    let shortfall = move |n: usize| direction.sent.shortfall_of(n, count).filter(|_| is_paced);
    let streams = offer.streams_of(direction.ends()).zip(&direction.received.streams);
    streams.enumerate().map(move |(n, of)| (of, shortfall(n)))
}

/// The work of each core, if there are several.
fn cores(direction: &DirectionOutcome) -> Vec<CoreCount> {
    let [senders, receivers] = &direction.cores;
    let published = |(sender, receiver): (&OfCore, &OfCore)| CoreCount {
        cpu: sender.cpu,
        sent: sender.sent,
        shortfall: sender.intended.saturating_sub(sender.sent),
        received: receiver.received,
        overflow: receiver.missed,
        gaps: sender.gaps.as_ref().map(gaps),
    };
    senders.iter().zip(receivers).map(published).collect()
}

/// The receive queues of a direction, if each core of the receiving port reads one.
fn queues(tester: &Tester, offer: &Offer, direction: &DirectionOutcome) -> Option<Queues> {
    let of = direction.queues.as_ref()?;
    // A stream of several flows has a number for each.
    let is_only = |stream: usize| of.elsewhere.iter().all(|it| it.stream != stream || it.flow == 0);
    let name = |stream: usize, flow: u32| match offer.streams_of(direction.ends()).nth(stream) {
        Some((it, _)) if is_only(stream) => it.name.clone(),
        Some((it, _)) => format!("{}, flow {}", it.name, flow + 1),
        None => tester.flow_name(direction.ends(), flow),
    };
    let published = |it: &Elsewhere| FlowElsewhere {
        flow: name(it.stream, it.flow),
        queue: it.queue,
        came: it.came.clone(),
    };
    Some(Queues {
        by: of.by,
        system_key: of.system_key,
        each: of.each.clone(),
        unknown_flows: of.unknown_flows,
        unknown: of.unknown.clone(),
        flows_elsewhere: of.elsewhere.len() as u32,
        reason: of.reason,
        elsewhere: of.elsewhere.iter().take(WORST).map(published).collect(),
    })
}

/// The results of the probes of a direction.
fn probes(offer: &Offer, direction: &DirectionOutcome) -> Vec<Probe> {
    let latency = |of: &OfStream| match (&of.times, of.latency) {
        (Some(times), _) => times.quantiles(),
        (None, Some(FlowLatency { min, mean, max, jitter })) => kpps_documents::Latency {
            min: Some(min),
            mean: Some(mean),
            max: Some(max),
            jitter,
            ..kpps_documents::Latency::default()
        },
        (None, None) => kpps_documents::Latency::default(),
    };
    let published = |(((stream, _), of), shortfall): OfNamed<'_>| Probe {
        stream: stream.name.clone(),
        from: u8::try_from(direction.from + 1).ok(),
        sent: of.sent,
        lost: of.missing(),
        shortfall,
        latency_ns: latency(of),
    };
    of_streams(offer, direction).filter(|(((stream, _), _), _)| stream.probe).map(published).collect()
}

/// The results of the sizes of a mix: frames sent and received of each.
fn sizes(offer: &Offer, counts: &[(u64, u64)]) -> Vec<SizeCount> {
    let published = |(&(size, _), &(sent, received)): (&(kpps_frames::Size, u32), &(u64, u64))| SizeCount {
        frame_bytes_with_fcs: size.bytes_with_fcs(),
        frames: Carried::of(sent, received),
    };
    offer.load.sizes.parts().iter().zip(counts).map(published).collect()
}

/// Delays as they are published.
pub(crate) fn lateness(lateness: run::Lateness) -> Lateness {
    Lateness {
        frames: lateness.frames,
        longest_ns: u64::try_from(lateness.longest.as_nanos()).unwrap_or(u64::MAX),
    }
}

/// Gaps with fillers as they are published.
pub(crate) fn filled(filled: run::Filled) -> kpps_documents::run::Filled {
    kpps_documents::run::Filled {
        fillers: filled.fillers,
        rounded: filled.rounded,
        most_rounded_ns: u64::try_from(filled.most_rounded.as_nanos()).unwrap_or(u64::MAX),
        underruns: filled.underruns,
        longest_underrun_ns: u64::try_from(filled.longest_underrun.as_nanos()).unwrap_or(u64::MAX),
        keeps_speed: filled.keeps_speed,
        planned_s: filled.planned.as_secs_f64(),
        took_s: filled.took.as_secs_f64(),
    }
}

/// Gaps as they are published.
pub fn gaps(gaps: &run::Gaps) -> Gaps {
    Gaps {
        intended_ns: gaps.intended_ns.map(|ns| (ns * 10.0).round() / 10.0),
        count: gaps.count,
        within_10us: gaps.within,
        p50_ns: gaps.p50_ns,
        p99_ns: gaps.p99_ns,
        p999_ns: gaps.p999_ns,
        max_ns: gaps.max_ns,
        waited_ns: gaps.waited_ns,
        cpu: gaps.got.and_then(|got| got.cpu),
        priority: gaps.got.map(|got| match (got.first, got.session_first) {
            (true, true) => SenderPriority::All,
            (true, false) => SenderPriority::Session,
            (false, _) => SenderPriority::Ordinary,
        }),
    }
}
