#![allow(clippy::unwrap_used)]

use super::super::schedule::{Many, One};
use super::super::shape::Shape;
use super::*;
use crate::port::run::{Late, StreamPlan};
use kpps_frames::build::Flow;
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size, Templates};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Frames of this number of flows.
fn frames(flows: u16) -> Arc<Templates> {
    let ip = |last| IpAddr::from(Ipv4Addr::new(198, 18, 0, last));
    let Flow { from_mac, to_mac, vlan, .. } = Flow::default();
    let flow = |n: u16| Flow { from_mac, to_mac, vlan, from: (ip(1), 1024 + n), to: (ip(2), 9) };
    let flows: Vec<_> = (0..flows).map(flow).collect();
    Arc::new(Templates::of_flows(flows.into_iter(), &Mix::fixed(Size::MIN)).unwrap())
}

/// The frames of a schedule until a time in ms, by stream and number, with their times in µs. The times are
/// read in steps, as a sender does.
fn frames_of(
    plan: &SendPlan,
    part: &PlanPart,
    mut all: impl Schedule,
    until_ms: u64,
) -> Vec<(usize, u64, u64)> {
    let mut sequences = vec![0; plan.streams.len()];
    let mut found = Vec::new();
    for step in 0..=until_ms * 1000 / STEP_US {
        let now = Duration::from_micros(step * STEP_US);
        let (waiting, _) = all.waiting(now);
        for _ in 0..waiting {
            let stream = part.streams[all.next()];
            let number = all.number(sequences[stream]);
            sequences[stream] += 1;
            found.push((stream, number, step));
        }
        all.sent(waiting as usize, now, now, Some(&mut Recorder::new(None)));
    }
    found
}

/// The step of the time that a test reads, in µs.
const STEP_US: u64 = 50;

fn schedule_of(part: &PlanPart, until_ms: u64) -> Vec<(usize, u64, u64)> {
    let plan = &part.plan;
    let whole = SendPlan { streams: vec![StreamPlan::of(frames(1)); 9], ..plan.clone() };
    match (part.numbers, One::of(plan, false)) {
        (Some(numbers), _) => frames_of(&whole, part, OnePart::of(plan, numbers).unwrap(), until_ms),
        (None, Some(one)) => frames_of(&whole, part, one, until_ms),
        (None, None) => frames_of(&whole, part, Many::of(plan), until_ms),
    }
}

fn shape(kind: usize) -> Shape {
    let ms = Duration::from_millis;
    [
        Shape::Constant,
        Shape::Poisson { seed: 3 },
        Shape::Bursts(5),
        Shape::Ramp(500.0, ms(20)),
        Shape::Then(ms(10), 9000.0),
    ][kind]
}

fn plan(streams: Vec<StreamPlan>) -> SendPlan {
    let pps = streams.iter().map(|stream| stream.pps).sum();
    let one = SendPlan::one(Rate::Pps(pps), streams[0].clone());
    SendPlan { streams, late: Late::Skip, ..one }
}

proptest! {
    /// The parts have the frames of the whole plan, each once and at its time; of one stream with several
    /// flows, and of several streams.
    #[test]
    fn the_parts_are_the_whole(
        rates in prop::collection::vec((100.0..40_000.0_f64, 0..5_usize, 0..300_u64, 1..12_u16), 1..6),
        cores in 1..5_usize,
    ) {
        let stream = |(n, &(pps, kind, count, flows)): (usize, &(f64, usize, u64, u16))| StreamPlan {
            stream: n as u16,
            pps,
            shape: shape(kind),
            count: (count > 100).then_some(count),
            ..StreamPlan::of(frames(flows))
        };
        let plan = plan(rates.iter().enumerate().map(stream).collect());
        let whole = schedule_of(&PlanPart::whole(plan.clone()), 40);
        let of = |core| PlanPart::of(&plan, core, cores);
        let parts: Vec<_> = (0..cores).map_while(of).collect();
        prop_assert_eq!(parts.len(), PlanPart::possible(&plan, cores));
        prop_assert!(of(parts.len()).is_none());
        let mut together: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        for part in &parts {
            for (stream, number, step) in schedule_of(part, 40) {
                prop_assert_eq!(together.insert((stream, number), step), None);
            }
        }
        let expected: BTreeMap<_, _> = whole.iter().map(|&(stream, number, step)| ((stream, number), step)).collect();
        prop_assert_eq!(together.len(), whole.len());
        // Sums of floats decide at the edge of a step.
        prop_assert!(together.iter().zip(&expected).all(|(a, b)| a.0 == b.0 && a.1.abs_diff(*b.1) <= 1));
        let most: Option<u64> = parts.iter().map(PlanPart::most).sum();
        prop_assert_eq!(most, plan.most());
    }

    /// The frames that are due before a time, and in all, add up; also when the rate changes at one time on
    /// all cores.
    #[test]
    fn due_frames_add_up(pps in 1000.0..40_000.0_f64, kind in 0..5_usize, cores in 1..5_usize, at in 0.01..0.04_f64) {
        let plan = plan(vec![StreamPlan { pps, shape: shape(kind), ..StreamPlan::of(frames(7)) }]);
        let parts: Vec<_> = (0..cores).map_while(|core| PlanPart::of(&plan, core, cores)).collect();
        let mut whole = plan.timetables().unwrap();
        let mut tables: Vec<_> = parts.iter().map(|part| part.timetables().unwrap()).collect();
        let all: f64 = tables.iter_mut().map(|table| table.before(at)).sum();
        prop_assert_eq!(all.round(), whole.before(at).round());
        whole.change(at, Change::Load(2.0 * pps));
        tables.iter_mut().for_each(|table| table.change(at, Change::Load(2.0 * pps)));
        prop_assert_eq!(tables.iter().map(|table| table.until(0.1)).sum::<Option<u64>>(), whole.until(0.1));
        let all: f64 = tables.iter_mut().map(|table| table.before(0.09)).sum();
        prop_assert_eq!(all.round(), whole.before(0.09).round());
    }
}

#[test]
fn one_flow_a_capture_and_a_live_plan_cannot_be_divided() {
    let one = plan(vec![StreamPlan { pps: 1000.0, ..StreamPlan::of(frames(1)) }]);
    let capture = SendPlan { as_they_are: true, ..plan(vec![StreamPlan::of(frames(8))]) };
    let live = SendPlan { live: true, ..plan(vec![StreamPlan::of(frames(8)), StreamPlan::of(frames(8))]) };
    for plan in [&one, &capture, &live] {
        assert_eq!(PlanPart::possible(plan, 4), 1);
        assert!(PlanPart::of(plan, 0, 4).is_some_and(|part| part.numbers.is_none()));
        assert!(PlanPart::of(plan, 1, 4).is_none());
    }
    let eight = plan(vec![StreamPlan::of(frames(8))]);
    assert_eq!([1, 3, 9].map(|cores| PlanPart::possible(&eight, cores)), [1, 3, 8]);
}
