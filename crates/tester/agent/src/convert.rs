//! The tester's types as messages, and back. Messages are checked before they are used.

use crate::proto;
use kpps_documents::detail::{ArrivalBy, CpuTimes, RateChange};
use kpps_documents::{Disturbance, FlowLatency, Pause, PausedBy};
use kpps_frames::encap::Tags;
use kpps_frames::rate::Rate;
use kpps_frames::tag::TagFormat;
use kpps_frames::templates::Parts;
use kpps_frames::{Mac, Size, Templates};
use kpps_methods::{Latency, Variation};
use kpps_ports::port::run::{Got, SendPlan, Shape, StreamPlan};
use kpps_tester::ledger::PortCount;
use kpps_tester::neighbours::Station;
use kpps_tester::timeline::Point;
use kpps_tester::{
    AnomalousFrame, Arrived, Counted, Done, Expect, ExpectedStream, Findings, Losses, Lost, OfFlow, OfSender,
    SequenceGap, Task,
};
use std::sync::Arc;
use std::time::Duration;

/// More parts of latencies than a trial ever has.
const PARTS: u32 = 64;

/// The slowest and the fastest load of a trial, in frames per second: one frame in eleven days, and more than
/// any card sends. And the fastest of a Poisson process, whose gaps are drawn one by one.
const SLOWEST_PPS: f64 = 1e-6;
pub(crate) const FASTEST_PPS: f64 = 1e9;
const FASTEST_DRAWN_PPS: f64 = 2e7;
/// More frames than are sent at once.
const BURST: u64 = 1_000_000;
/// More frames than a load has, by flow and size.
const FRAMES: usize = 1 << 21;

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn mac(bytes: &[u8]) -> Result<Mac, String> {
    bytes.try_into().map(Mac).map_err(|_| "an Ethernet address has 6 bytes".to_owned())
}

/// A frame that a port can send.
pub(crate) fn frame(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    match bytes.len() <= Size::MAX.bytes_without_fcs().into() {
        true => Ok(bytes),
        false => Err(format!("a frame of {} bytes is too long", bytes.len())),
    }
}

/// Where test frames have their tags.
pub(crate) fn tag_format(balanced_at: Option<u32>, trial: u32) -> Result<TagFormat, String> {
    let balanced_at = balanced_at.map(|at| number("place", at)).transpose()?;
    Ok(balanced_at.map_or_else(TagFormat::default, TagFormat::balanced).of_trial(trial))
}

fn number<T: TryFrom<u32>>(what: &str, number: u32) -> Result<T, String> {
    number.try_into().map_err(|_| format!("{what} {number} is too large"))
}

pub(crate) fn work(task: &Task, senders: usize) -> proto::Work {
    proto::Work {
        at: task.at as u32,
        senders: senders as u32,
        mac: task.station.mac.0.to_vec(),
        ips: task.station.ips.to_string(),
        tags: task
            .station
            .tags
            .0
            .iter()
            .flatten()
            .map(|(kind, id)| u32::from(*kind) << 16 | u32::from(*id))
            .collect(),
        plan: task.plan.as_ref().and_then(plan),
        expect: task.expect.first().and_then(expected),
        duration_ns: ns(task.duration),
        drain_ns: ns(task.drain),
        epoch_ns: task.epoch_ns,
        every_ns: task.every.map(ns),
    }
}

/// VLAN tags. Tags beyond the largest number that a frame may have are left out.
fn tags(words: &[u32]) -> Tags {
    let mut tags = Tags::default();
    for (tag, word) in tags.0.iter_mut().zip(words) {
        *tag = Some(((word >> 16) as u16, *word as u16));
    }
    tags
}

fn frames(templates: &Templates) -> proto::Frames {
    let Parts { heads, bytes, order, flows, balanced_at, trial, inner } = templates.parts();
    let bytes = bytes.into_iter().map(u32::from).collect();
    let head_bytes = heads.iter().map(|head| head.len() as u32).collect();
    let (heads, balanced_at, inner) = (heads.concat(), balanced_at.into(), inner.into());
    proto::Frames { heads, head_bytes, bytes, order, flows, balanced_at, inner, trial }
}

/// Cuts joined bytes into pieces of these lengths.
fn split(mut all: &[u8], lengths: &[u32]) -> Result<Vec<Vec<u8>>, String> {
    if lengths.len() > FRAMES {
        return Err(format!("{} different frames are too many", lengths.len()));
    }
    let next = |length: &u32| {
        let (piece, rest) = all.split_at_checked(*length as usize)?;
        all = rest;
        Some(piece.to_vec())
    };
    let pieces: Option<_> = lengths.iter().map(next).collect();
    pieces
        .filter(|_| all.is_empty())
        .ok_or_else(|| "the lengths of the frames do not match their bytes".into())
}

/// Frames that a port can send.
fn templates(frames: Option<proto::Frames>) -> Result<Arc<Templates>, String> {
    let frames = frames.unwrap_or_default();
    let heads = split(&frames.heads, &frames.head_bytes)?;
    let proto::Frames { bytes, order, flows, balanced_at, inner, trial, .. } = frames;
    let (balanced_at, inner) = (number("place", balanced_at)?, number("place", inner)?);
    let length = |bytes: u32| match bytes <= Size::MAX.bytes_without_fcs().into() {
        true => Ok(bytes as u16),
        false => Err(format!("a frame of {bytes} bytes is too long")),
    };
    let bytes = bytes.into_iter().map(length).collect::<Result<_, _>>()?;
    let templates = Templates::from_parts(&Parts { heads, bytes, order, flows, balanced_at, trial, inner });
    templates.map(Arc::new).ok_or_else(|| "the numbers of frames, flows and sizes do not match".into())
}

/// The expectations of a port with one stream; testers send an agent no others.
fn expected(expect: &Expect) -> Option<proto::Expect> {
    let stream = expect.streams.first()?;
    Some(proto::Expect {
        stream: stream.stream.into(),
        frames: Some(frames(&stream.frames)),
        count: stream.count,
        margin_ns: expect.margin_ns,
        parts: expect.parts as u32,
        keep: expect.keep,
    })
}

/// A plan with one stream; testers send an agent no others.
fn plan(plan: &SendPlan) -> Option<proto::SendPlan> {
    use proto::shape::Shape as Kind;
    let stream = plan.streams.first()?;
    let shape = match stream.shape {
        Shape::Constant => None,
        Shape::Poisson { seed } => Some(Kind::PoissonSeed(seed)),
        // Only streams have gaps within bursts, and agents send none.
        Shape::Bursts(frames) | Shape::SpacedBursts(frames, _) => Some(Kind::BurstFrames(frames)),
        Shape::Ramp(from_pps, over) => Some(Kind::Ramp(proto::Ramp { from_pps, over_ns: ns(over) })),
        Shape::Then(after, pps) => Some(Kind::Then(proto::Then { after_ns: ns(after), pps })),
    };
    Some(proto::SendPlan {
        pps: plan.rate().pps(),
        shape: shape.map(|shape| proto::Shape { shape: Some(shape) }),
        frames: Some(frames(&stream.frames)),
        rewrite: plan.rewrite,
        count: stream.count,
        stream: stream.stream.into(),
    })
}

/// A port's part in a trial, and the number of ports that send.
pub(crate) fn task(work: proto::Work) -> Result<(Task, usize), String> {
    let at = match work.at {
        at @ (0 | 1) => at as usize,
        other => return Err(format!("a testbed has the ports 0 and 1, not {other}")),
    };
    let expect = work.expect.map(|expect| {
        let stream = ExpectedStream {
            stream: number("stream", expect.stream)?,
            frames: templates(expect.frames)?,
            count: expect.count,
        };
        Ok::<_, String>(Expect {
            from: 1 - at,
            streams: vec![stream],
            by_stream: false,
            margin_ns: expect.margin_ns,
            parts: expect.parts.clamp(1, PARTS) as usize,
            keep: expect.keep,
            // Never requested here.
            recognise: None,
        })
    });
    let task = Task {
        at,
        station: Station {
            mac: mac(&work.mac)?,
            tags: tags(&work.tags),
            ips: work.ips.parse().map_err(|e| format!("{e}"))?,
        },
        others: Arc::default(),
        plan: work.plan.map(planned).transpose()?,
        expect: expect.transpose()?.into_iter().collect(),
        duration: Duration::from_nanos(work.duration_ns),
        drain: Duration::from_nanos(work.drain_ns),
        epoch_ns: work.epoch_ns,
        every: work.every_ns.map(Duration::from_nanos),
        follower: None,
    };
    Ok((task, work.senders.clamp(1, 2) as usize))
}

/// A load of `pps` frames per second.
pub(crate) fn load(pps: f64) -> Result<Rate, String> {
    match (SLOWEST_PPS..=FASTEST_PPS).contains(&pps) {
        true => Ok(Rate::Pps(pps)),
        false => Err(not_a_rate(pps)),
    }
}

fn not_a_rate(pps: f64) -> String {
    format!("{pps} is not a rate in frames per second: a load has {SLOWEST_PPS} to {FASTEST_PPS}")
}

fn planned(plan: proto::SendPlan) -> Result<SendPlan, String> {
    use proto::shape::Shape as Kind;
    // A load may begin or end with nothing.
    let rate = |pps: f64| if pps == 0.0 { Ok(pps) } else { load(pps).map(|_| pps) };
    let load = plan.pps.map_or(Ok(Rate::Max), load)?;
    let shape = match plan.shape.and_then(|shape| shape.shape) {
        None => Shape::Constant,
        Some(Kind::PoissonSeed(_)) if Shape::Constant.peak_pps(load) > FASTEST_DRAWN_PPS => {
            return Err(format!("a Poisson process has at most {FASTEST_DRAWN_PPS} frames per second"));
        }
        Some(Kind::PoissonSeed(seed)) => Shape::Poisson { seed },
        Some(Kind::BurstFrames(frames @ 1..=BURST)) => Shape::Bursts(frames),
        Some(Kind::BurstFrames(frames)) => {
            return Err(format!("bursts have 1 to {BURST} frames, not {frames}"));
        }
        Some(Kind::Ramp(ramp)) => Shape::Ramp(rate(ramp.from_pps)?, Duration::from_nanos(ramp.over_ns)),
        Some(Kind::Then(then)) => Shape::Then(Duration::from_nanos(then.after_ns), rate(then.pps)?),
    };
    let stream = StreamPlan {
        stream: number("stream", plan.stream)?,
        shape,
        count: plan.count,
        ..StreamPlan::of(templates(plan.frames)?)
    };
    Ok(SendPlan { rewrite: plan.rewrite, ..SendPlan::one(load, stream) })
}

pub(crate) fn done(mut done: Done) -> proto::Done {
    // Two ports: there is one sender.
    let OfSender { received: came, latency: times, .. } = done.of_senders.pop().unwrap_or_default();
    let Arrived { received, duplicated, reordered, corrupted, other_traffic, nameless, tagless } =
        came.arrived;
    proto::Done {
        intended: done.sent.intended,
        sent: done.sent.frames,
        given: done.sent.given,
        elapsed_ns: ns(done.sent.elapsed),
        gaps: done.sent.gaps.map(|gaps| proto::Gaps {
            intended_ns: gaps.intended_ns,
            count: gaps.count,
            within: gaps.within.unwrap_or(0),
            p50_ns: gaps.p50_ns,
            p99_ns: gaps.p99_ns,
            p999_ns: gaps.p999_ns,
            max_ns: gaps.max_ns,
            waited_ns: gaps.waited_ns,
            sender: gaps.got.map(|Got { cpu, first, session_first }| proto::Sender {
                cpu,
                first,
                session_first,
            }),
        }),
        arrived: Some(proto::Arrived {
            received,
            duplicated,
            reordered,
            corrupted,
            other_traffic,
            nameless,
            tagless,
        }),
        last_gap_ns: came.last_gap.filter(|gap| *gap != Duration::MAX).map(ns),
        cut_off: came.last_gap == Some(Duration::MAX),
        variation: variation(&times),
        latency: times.iter().map(latency).collect(),
        losses: came.losses.as_ref().map(losses),
        missed: done.missed,
        errors: done.errors,
        taken: done.taken,
        trouble: done.trouble.map(|trouble| trouble.to_string()),
        flows: came.flows.iter().map(flow).collect(),
        sizes: came.sizes.iter().map(|&(sent, received)| proto::OfSize { sent, received }).collect(),
        kept: came.kept.frames.into_iter().map(anomalous_frame).collect(),
        not_kept: came.kept.not_kept,
        by_kernel: came.arrival.by == ArrivalBy::Kernel,
        clock_set_ns: came.arrival.clock_set_ns,
        begun_ns: ns(done.sent.begun),
        line: done.line.map(|line| proto::Timeline {
            interval_ns: line.interval_ns(),
            points: line.points().iter().map(point).collect(),
        }),
        queue_growth: came.queue_growth,
        disturbance: done.sent.disturbance.map(disturbance),
        rate_changes: done.sent.rate_changes.iter().map(rate_change).collect(),
        findings: Some(findings(&came.findings)),
    }
}

fn findings(found: &Findings) -> proto::Findings {
    let ids = |ids: &[u16]| ids.iter().map(|id| u32::from(*id)).collect();
    proto::Findings {
        retagged: found.retagged,
        came: ids(&found.came),
        expected: ids(&found.expected),
        fragments: found.fragments,
    }
}

fn disturbance(Disturbance { frames, pauses, longest }: Disturbance) -> proto::Disturbance {
    let pause = |Pause { at_ns, lasted_ns, cpu, by }: Pause| {
        let hypervisor = by == PausedBy::Hypervisor;
        let group = match by {
            PausedBy::Quota { group } => Some(group),
            PausedBy::Programs | PausedBy::Hypervisor => None,
        };
        proto::Pause { at_ns, lasted_ns, cpu, hypervisor, group }
    };
    proto::Disturbance { frames, pauses, longest: longest.map(pause) }
}

fn rate_change(&RateChange { at_s, offered_pps }: &RateChange) -> proto::RateChange {
    proto::RateChange { at_s, offered_pps }
}

fn point(point: &Point) -> proto::Point {
    let (ns, frames) = point.latency.recorded().unzip();
    proto::Point {
        due: point.due,
        given: point.given,
        refused: point.refused,
        received: point.received,
        missed: point.missed,
        latency: Some(proto::Latency { ns, frames }),
    }
}

fn flow(of: &OfFlow) -> proto::Flow {
    let latency = of.latency.map(|FlowLatency { min, mean, max, jitter }| proto::FlowLatency {
        min_ns: min,
        mean_ns: mean,
        max_ns: max,
        jitter_ns: jitter,
    });
    proto::Flow { sent: of.sent, received: of.received, reordered: of.reordered, latency }
}

/// The variation of all parts; `None` without a pair.
fn variation(parts: &[Latency]) -> Option<proto::Variation> {
    let mut all = Variation::default();
    parts.iter().for_each(|part| all.add(&part.variation));
    let Variation { pairs, sum_ns } = all;
    (pairs > 0).then_some(proto::Variation { pairs, sum_ns })
}

fn losses(&Losses { first, longest, frames }: &Losses) -> proto::Losses {
    proto::Losses { first: Some(lost(&first)), longest: Some(lost(&longest)), frames }
}

fn lost(&Lost { first, frames, gap }: &Lost) -> proto::Lost {
    let SequenceGap { first: gap_first, end: gap_end, before_ps, behind_ps } = gap;
    proto::Lost { first, frames, gap_first, gap_end, before_ps, behind_ps }
}

fn anomalous_frame(AnomalousFrame { at_ns, frame, why }: AnomalousFrame) -> proto::AnomalousFrame {
    proto::AnomalousFrame { at_ns, frame, why }
}

fn latency(latency: &Latency) -> proto::Latency {
    let (ns, frames) = latency.recorded().unzip();
    proto::Latency { ns, frames }
}

pub(crate) fn port_count(count: &PortCount) -> proto::PortCount {
    proto::PortCount {
        port: count.port.clone(),
        interface: count.interface.clone(),
        sent: count.sent,
        receives: count.receives,
        missed: count.missed,
        errors: count.errors,
        taken: count.taken,
    }
}

pub(crate) fn counted_port(count: proto::PortCount) -> PortCount {
    PortCount {
        port: count.port,
        interface: count.interface,
        sent: count.sent,
        receives: count.receives,
        missed: count.missed,
        errors: count.errors,
        taken: count.taken,
    }
}

pub(crate) fn counted(counted: Counted) -> proto::Counted {
    let cpu = |cpu: &CpuTimes| proto::CpuTimes {
        user_s: cpu.user_s,
        system_s: cpu.system_s,
        irq_s: cpu.irq_s,
        softirq_s: cpu.softirq_s,
        idle_s: cpu.idle_s,
        steal_s: cpu.steal_s,
        cycles: cpu.cycles,
    };
    proto::Counted {
        dropped: counted.accounts.dropped,
        in_flight_at: counted.accounts.in_flight_at,
        excess: counted.accounts.excess,
        copies: counted.accounts.copies,
        possible: counted
            .accounts
            .possible
            .into_iter()
            .map(|(place, frames)| proto::Possible { place, frames })
            .collect(),
        interfaces: counted
            .interfaces
            .into_iter()
            .map(|(name, counts)| (name, proto::Counts { counts }))
            .collect(),
        ip: counted.ip.into_iter().map(|(name, counts)| (name, proto::Counts { counts })).collect(),
        cpus: counted.cpus.iter().map(cpu).collect(),
        softnet: counted.softnet,
        interrupts: counted.interrupts,
        softirqs: counted.softirqs,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::believe::{self, Limits};
    use kpps_documents::detail::Arrival;
    use kpps_frames::Encap;
    use kpps_tester::timeline::{Latencies, Timeline};
    use kpps_tester::{Kept, Received, SentFrames};

    fn a_duty(shape: Shape) -> Task {
        let frames = Arc::new(Templates::each([&[1; 60][..], &[2; 1514]]));
        let stream = StreamPlan { stream: 65_535, shape, count: Some(77), ..StreamPlan::of(frames) };
        Task {
            at: 1,
            station: Station {
                mac: Mac([2, 0, 0, 0, 0, 7]),
                tags: Encap::vlan(7).tags(),
                ips: "2001:2::1-2001:2::9".parse().unwrap(),
            },
            others: Arc::default(),
            plan: Some(SendPlan { rewrite: true, ..SendPlan::one(Rate::Pps(50_000.0), stream) }),
            expect: vec![Expect {
                from: 0,
                streams: vec![ExpectedStream {
                    stream: 4,
                    frames: Arc::new(Templates::one(&[3; 60])),
                    count: 9,
                }],
                by_stream: false,
                margin_ns: 8,
                parts: 16,
                keep: true,
                recognise: None,
            }],
            duration: Duration::from_millis(250),
            drain: Duration::from_secs(1),
            epoch_ns: u64::MAX / 3,
            follower: None,
            every: Some(Duration::from_secs(60)),
        }
    }

    #[test]
    fn a_duty_arrives_as_it_was() {
        for shape in [
            Shape::Constant,
            Shape::Poisson { seed: 3 },
            Shape::Bursts(50),
            Shape::Ramp(10.5, Duration::from_secs(2)),
            Shape::Then(Duration::from_millis(125), 7.0),
        ] {
            let sent = a_duty(shape);
            let (came, senders) = task(work(&sent, 2)).unwrap();
            assert_eq!((format!("{came:?}"), senders), (format!("{sent:?}"), 2));
        }
    }

    fn frames_of(work: &mut proto::Work) -> &mut proto::Frames {
        work.plan.as_mut().unwrap().frames.as_mut().unwrap()
    }

    #[test]
    fn nonsense_is_refused() {
        let bad = |change: fn(&mut proto::Work)| {
            let mut work = work(&a_duty(Shape::Constant), 1);
            change(&mut work);
            task(work).unwrap_err()
        };
        assert!(bad(|work| work.at = 2).contains("not 2"));
        assert!(bad(|work| work.mac.clear()).contains("6 bytes"));
        assert!(bad(|work| work.plan.as_mut().unwrap().stream = 70_000).contains("70000"));
        assert!(bad(|work| frames_of(work).bytes[0] = 1 << 17).contains("too long"));
        assert!(bad(|work| frames_of(work).flows = 3).contains("do not match"));
        assert!(bad(|work| frames_of(work).head_bytes[0] += 1).contains("do not match their bytes"));
        assert!(bad(|work| frames_of(work).head_bytes[0] -= 1).contains("do not match their bytes"));
        assert!(bad(|work| frames_of(work).head_bytes[0] = u32::MAX).contains("do not match their bytes"));
        assert!(bad(|work| frames_of(work).head_bytes = vec![0; FRAMES + 1]).contains("too many"));
        assert!(bad(|work| work.ips.clear()).contains("range of addresses"));
        for pps in [f64::NAN, f64::INFINITY, -1.0, 0.0, -0.0, 1e-300, f64::MIN_POSITIVE, 1e-7, 1e10, f64::MAX]
        {
            let mut work = work(&a_duty(Shape::Constant), 1);
            work.plan.as_mut().unwrap().pps = Some(pps);
            assert!(task(work).unwrap_err().contains("not a rate"));
        }
        let shaped = |shape: proto::shape::Shape, pps: f64| {
            let mut work = work(&a_duty(Shape::Constant), 1);
            let plan = work.plan.as_mut().unwrap();
            (plan.pps, plan.shape) = (Some(pps), Some(proto::Shape { shape: Some(shape) }));
            task(work).map(drop)
        };
        use proto::shape::Shape as Kind;
        for from_pps in [f64::NAN, -1.0, 1e-300, 1e300, f64::NEG_INFINITY] {
            let said = shaped(Kind::Ramp(proto::Ramp { from_pps, over_ns: 1 }), 1e3).unwrap_err();
            assert!(said.contains("not a rate"), "{said}");
            let then = proto::Then { after_ns: u64::MAX, pps: from_pps };
            assert!(shaped(Kind::Then(then), 1e3).unwrap_err().contains("not a rate"));
        }
        assert!(shaped(Kind::Ramp(proto::Ramp { from_pps: 0.0, over_ns: 0 }), 1e3).is_ok());
        assert!(shaped(Kind::PoissonSeed(1), 1e8).unwrap_err().contains("Poisson"));
        for frames in [0, u64::MAX] {
            assert!(shaped(Kind::BurstFrames(frames), 1e3).unwrap_err().contains("1 to 1000000"));
        }
    }

    #[test]
    fn results_arrive_as_they_were() {
        let mut latency = Latency::default();
        for ns in [1, 900, 1_000_000, 2_000_003, 70_000_000_000] {
            latency.record_times(ns, ns % 7 + 1);
        }
        latency.variation = Variation { pairs: 4, sum_ns: 4_000 };
        let quantiles = latency.quantiles();
        let gap = SequenceGap { first: 2, end: 6, before_ps: None, behind_ps: Some(7_000) };
        let first = Lost { first: 2, frames: 1, gap };
        let losses = Losses { first, longest: Lost { first: 4, frames: 2, gap }, frames: 3 };
        let arrived = Arrived {
            received: 20,
            duplicated: 1,
            reordered: 2,
            corrupted: 3,
            other_traffic: 4,
            nameless: 5,
            tagless: 6,
        };
        let times = FlowLatency { min: 3, mean: 4, max: 5, jitter: Some(1) };
        let latency_of_flow = [Some(times), None];
        let flows: Vec<_> = (0..2)
            .zip(latency_of_flow)
            .map(|(flow, latency)| OfFlow { flow, sent: 6, received: 5, reordered: flow.into(), latency })
            .collect();
        let anomalous_frame =
            AnomalousFrame { at_ns: 1 << 60, frame: vec![9; 60], why: "other_traffic".into() };
        let kept = Kept { frames: vec![anomalous_frame], not_kept: 5, ..Kept::default() };
        let found = Findings { retagged: 3, came: vec![10], expected: vec![20, 4095], fragments: 2 };
        let arrival = Arrival { by: ArrivalBy::Kernel, clock_set_ns: Some(-7) };
        let mut task = a_duty(Shape::Constant);
        // Two flows of two sizes.
        let heads = vec![vec![3; 60]; 4];
        let (bytes, order) = (vec![60; 4], vec![0, 1]);
        let parts = Parts { heads, bytes, order, flows: 2, balanced_at: 0, trial: 0, inner: 0 };
        let frames = Arc::new(Templates::from_parts(&parts).unwrap());
        let expected = task.expect.iter_mut().flat_map(|expect| &mut expect.streams);
        expected.for_each(|stream| stream.frames = frames.clone());
        task.every = Some(Duration::from_secs(1));
        let mut line = Timeline::new(Duration::from_secs(1));
        let latency_of = Latencies::of([(1, 3), (70_000, 2), (u64::MAX, 1)]);
        *line.at(2_500_000_000) =
            Point { due: 9, given: 8, refused: 1, received: 6, missed: 2, latency: latency_of };
        let by = PausedBy::Quota { group: "/ci".into() };
        let pause = Pause { at_ns: 5, lasted_ns: 6_000_000, cpu: Some(1), by };
        let disturbance = Disturbance { frames: 1, pauses: 1, longest: Some(pause) };
        let sent = Done {
            sent: SentFrames {
                intended: 12,
                frames: 11,
                given: 12,
                begun: Duration::from_nanos(3),
                disturbance: Some(disturbance.clone()),
                rate_changes: vec![RateChange { at_s: 0.5, offered_pps: 1e5 }],
                ..SentFrames::default()
            },
            of_senders: vec![OfSender {
                from: 0,
                queues: None,
                received: Received {
                    arrived,
                    last_gap: Some(Duration::MAX),
                    losses: Some(losses),
                    queue_growth: Some(4),
                    arrival,
                    flows: flows.clone(),
                    streams: Vec::new(),
                    sizes: vec![(6, 5), (5, 5)],
                    kept: kept.clone(),
                    findings: found.clone(),
                },
                latency: vec![latency],
            }],
            missed: Some(5),
            line: Some(line.clone()),
            ..Done::default()
        };
        let limits = Limits::of(&task, false);
        let (mut came, trouble) = believe::done(done(sent), &task, &limits, (0, 0));
        let OfSender { received, latency, .. } = came.of_senders.pop().unwrap();
        assert_eq!((trouble, came.unbelievable), (None, Vec::new()));
        assert_eq!((came.sent.intended, came.sent.frames, came.sent.given), (12, 11, 12));
        assert_eq!((came.sent.disturbance, received.queue_growth), (Some(disturbance), Some(4)));
        assert_eq!((came.sent.begun, came.line), (Duration::from_nanos(3), Some(line)));
        assert_eq!(came.sent.rate_changes, [RateChange { at_s: 0.5, offered_pps: 1e5 }]);
        assert_eq!(
            (came.missed, came.errors, came.taken),
            (Some(5), None, None),
            "what is not known stays so"
        );
        assert_eq!((received.arrived, received.last_gap), (arrived, Some(Duration::MAX)));
        assert_eq!((latency[0].quantiles(), received.losses), (quantiles, Some(losses)));
        assert_eq!((received.kept, received.arrival), (kept, arrival));
        assert_eq!(received.findings, found);
        assert_eq!((received.flows, received.sizes), (flows, vec![(6, 5), (5, 5)]));

        let mut all = Counted::default();
        all.accounts.dropped = [("a netem".to_owned(), 3)].into();
        all.accounts.copies = [("a IP InAddrErrors".to_owned(), 4)].into();
        all.accounts.possible = vec![("a netfilter drop".to_owned(), 2), ("a dropped".to_owned(), 5)];
        all.interfaces = [("a".to_owned(), [("rx_packets".to_owned(), 9)].into())].into();
        all.cpus = vec![CpuTimes { user_s: 0.5, steal_s: 0.25, cycles: Some(7), ..CpuTimes::default() }];
        assert_eq!(believe::counted(counted(all.clone())), all);
        let count =
            PortCount { port: "packet:a".into(), sent: Some(4), missed: Some(0), ..PortCount::default() };
        assert_eq!(counted_port(port_count(&count)), count);
    }
}
