//! The streams of the flows of a configuration.

use crate::rules::{Refusal, Rules};
use crate::translation::{Configuration, Leg, Placed, seconds};
use kpps_frames::Mix;
use kpps_frames::rate::GIGABIT;
use kpps_frames::stack::Stack;
use kpps_ports::Error;
use kpps_tester::Stream;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The limits of ports, in their order.
#[derive(Clone, Debug, Default)]
pub struct Limits(pub Vec<PortLimits>);

/// The limits of a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortLimits {
    /// The speed of its link in Mb/s, if it is known.
    pub speed_mbps: Option<u32>,
    /// Its longest frame, in bytes without FCS, if it is known.
    pub longest: Option<usize>,
}

/// A stream of a flow.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The index of the flow in the configuration.
    pub flow: usize,
    /// The index of its leg.
    pub leg: usize,
    /// The stream.
    pub stream: Stream,
}

impl Limits {
    /// The limits of a port.
    pub fn of(&self, port: usize) -> PortLimits {
        self.0.get(port).copied().unwrap_or_default()
    }

    /// The speed of the slowest link of these ports in Mb/s, if one is known.
    fn slowest_mbps(&self, ports: &[usize]) -> Option<u32> {
        ports.iter().filter_map(|port| self.of(*port).speed_mbps).min()
    }

    /// The streams of the flows of a configuration.
    ///
    /// # Errors
    /// The flows ask for too much.
    pub fn planned(&self, all: &Configuration, rules: &Rules) -> Result<Vec<Planned>, Refusal> {
        let name = |port: usize| all.ports.get(port).map_or("", |port| port.name.as_str());
        let stream = |placed: &Placed, leg: &Leg, part: &(Stack, Mix)| {
            let bits_per_s =
                self.slowest_mbps(&leg.ports).map_or(GIGABIT, |mbps| u64::from(mbps) * 1_000_000);
            placed.flow.stream(name_of_leg(placed, leg, &name), leg, part, bits_per_s)
        };
        let mut streams = Vec::new();
        for (flow, placed) in all.flows.iter().enumerate() {
            for (leg, (its, part)) in placed.legs.iter().zip(&placed.parts).enumerate() {
                streams.extend(stream(placed, its, part).map(|stream| Planned { flow, leg, stream }));
            }
        }
        let mut names = BTreeSet::new();
        if let Some(Planned { flow: at, stream, .. }) =
            streams.iter().find(|planned| !names.insert(planned.stream.name.as_str()))
        {
            let why = format!("its frames between two ports are '{}', the name of another flow", stream.name);
            return Err(Refusal::wrong(format!("flows[{at}].name: {why}")));
        }
        (0..all.ports.len()).for_each(|port| stagger(&mut streams, port));
        for Planned { flow: at, stream, .. } in &streams {
            if seconds(stream).is_some_and(|s| s > rules.max_duration.as_secs_f64()) {
                return Err(Refusal::wrong(format!(
                    "flows[{at}].duration: the flow lasts longer than {} s, the limit of this server",
                    rules.max_duration.as_secs_f64()
                )));
            }
            let longest = [stream.from, stream.to].into_iter().filter_map(|port| self.of(port).longest).min();
            let ends = format!("one of the ports {} and {}", name(stream.from), name(stream.to));
            Error::check_longest(&ends, longest, stream.longest())
                .map_err(|why| Refusal::wrong(format!("flows[{at}].size: {why}")))?;
        }
        let directions: BTreeSet<_> = streams.iter().map(|it| (it.stream.from, it.stream.to)).collect();
        for port in directions.iter().map(|direction| direction.0).collect::<BTreeSet<_>>() {
            let of_port: Vec<&Stream> =
                streams.iter().map(|it| &it.stream).filter(|stream| stream.from == port).collect();
            let pps: f64 = of_port.iter().map(|stream| stream.pps()).sum();
            let name = name(port);
            if pps > rules.max_pps {
                return Err(Refusal::wrong(format!(
                    "ports[{port}]: the flows from {name} send {pps:.0} frames per second together, and this server allows {:.0}",
                    rules.max_pps
                )));
            }
            check_speed((port, name), "", &of_port, self.of(port).speed_mbps)?;
        }
        for (from, to) in directions {
            let is_its = |stream: &&Stream| (stream.from, stream.to) == (from, to);
            let of_direction: Vec<&Stream> = streams.iter().map(|it| &it.stream).filter(is_its).collect();
            let end = format!(" to {}", name(to));
            check_speed((from, name(from)), &end, &of_direction, self.slowest_mbps(&[from, to]))?;
        }
        Ok(streams)
    }
}

/// The name of the stream of a leg: that of the flow, with the names of both ports if the flow has several,
/// and with the number of its tag if it has several of these.
fn name_of_leg<'n>(placed: &Placed, leg: &Leg, port: &impl Fn(usize) -> &'n str) -> String {
    let (name, tags, [from, to]) = (&placed.flow.name, placed.flow.tags.values.len(), leg.ports.map(port));
    let mut parts = Vec::new();
    if leg.is_back {
        parts.push("back".to_owned());
    }
    if placed.legs.iter().any(|other| (other.ports, other.is_back) != (leg.ports, leg.is_back)) {
        parts.push(format!("{from} to {to}"));
    }
    if tags > 1 {
        parts.push(format!("{} of {tags}", leg.tag + 1));
    }
    match parts.is_empty() {
        true => name.clone(),
        false => format!("{name} ({})", parts.join(", ")),
    }
}

/// Refuses streams from a port, or those of them `to` another one, that need more than a link has.
fn check_speed(
    (port, name): (usize, &str),
    to: &str,
    streams: &[&Stream],
    speed_mbps: Option<u32>,
) -> Result<(), Refusal> {
    let bits: f64 = streams.iter().map(|it| it.sizes.l1_bits_per_s(it.pps())).sum();
    match speed_mbps {
        Some(mbps) if bits > f64::from(mbps) * 1e6 * (1.0 + 1e-9) => Err(Refusal::wrong(format!(
            "ports[{port}]: the flows from {name}{to} need {:.3} Mb/s together with preambles and gaps, and the link has {mbps} Mb/s",
            bits / 1e6
        ))),
        _ => Ok(()),
    }
}

/// The time in which the flows of a port begin, if they are started together.
const BEGINNING: Duration = Duration::from_millis(50);

/// The flows from a port begin one after the other, in their order: flows of one rate are no burst then. The
/// streams of a flow keep their places among each other.
fn stagger(streams: &mut [Planned], port: usize) {
    let mut all: Vec<&mut Planned> = streams.iter_mut().filter(|it| it.stream.from == port).collect();
    let pps: f64 = all.iter().map(|it| it.stream.pps()).sum();
    let flows: BTreeSet<usize> = all.iter().map(|it| it.flow).collect();
    let step_s = (1.0 / pps.max(f64::MIN_POSITIVE)).min(BEGINNING.as_secs_f64() / flows.len().max(1) as f64);
    let places: BTreeMap<usize, usize> = flows.into_iter().zip(0..).collect();
    for Planned { flow, stream, .. } in &mut all {
        let place = places.get(flow).copied().unwrap_or(0);
        stream.start = stream.start.saturating_add(Duration::from_secs_f64(step_s * place as f64));
    }
}
