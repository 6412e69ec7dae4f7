//! The streams of the flows between two ports.

use crate::rules::{Refusal, Rules};
use crate::translation::{Configuration, Placed, seconds, sorted};
use kpps_frames::rate::GIGABIT;
use kpps_ports::Error;
use kpps_tester::Stream;
use std::time::Duration;

/// The limits of two ports.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The speed of the slower link in Mb/s, if it is known.
    pub speed_mbps: Option<u32>,
    /// The longest frame that both ports take, in bytes without FCS, if it is known.
    pub longest: Option<usize>,
}

impl Limits {
    /// The flows that a configuration has between two ports, by their indices, with their streams.
    ///
    /// # Errors
    /// The flows ask for too much.
    pub fn planned(
        &self,
        ports: [usize; 2],
        all: &Configuration,
        rules: &Rules,
    ) -> Result<Vec<(usize, Stream)>, Refusal> {
        let bits_per_s = self.speed_mbps.map_or(GIGABIT, |mbps| u64::from(mbps) * 1_000_000);
        let from = |placed: &Placed| usize::from(placed.ports[0] != ports[0]);
        let flows = all.flows.iter().enumerate().filter(|(_, placed)| sorted(placed.ports) == ports);
        let stream = |(at, placed): (usize, &Placed)| (at, placed.flow.stream(from(placed), bits_per_s));
        let mut streams: Vec<(usize, Stream)> = flows.map(stream).collect();
        [0, 1].into_iter().for_each(|side| stagger(&mut streams, side));
        let name = |port: usize| all.ports.get(port).map_or("", |port| port.name.as_str());
        for (at, stream) in &streams {
            if seconds(stream).is_some_and(|s| s > rules.max_duration.as_secs_f64()) {
                return Err(Refusal::wrong(format!(
                    "flows[{at}].duration: the flow lasts longer than {} s, the limit of this server",
                    rules.max_duration.as_secs_f64()
                )));
            }
            let ends = format!("one of the ports {} and {}", name(ports[0]), name(ports[1]));
            Error::check_longest(&ends, self.longest, stream.longest())
                .map_err(|why| Refusal::wrong(format!("flows[{at}].size: {why}")))?;
        }
        for (side, port) in ports.into_iter().enumerate() {
            let of_side = || streams.iter().map(|(_, stream)| stream).filter(|stream| stream.from == side);
            let pps: f64 = of_side().map(Stream::pps).sum();
            let name = name(port);
            if pps > rules.max_pps {
                return Err(Refusal::wrong(format!(
                    "ports[{port}]: the flows from {name} send {pps:.0} frames per second together, and this server allows {:.0}",
                    rules.max_pps
                )));
            }
            let bits: f64 = of_side().map(|it| it.sizes.l1_bits_per_s(it.pps())).sum();
            if let Some(mbps) = self.speed_mbps
                && bits > f64::from(mbps) * 1e6 * (1.0 + 1e-9)
            {
                return Err(Refusal::wrong(format!(
                    "ports[{port}]: the flows from {name} need {:.3} Mb/s together with preambles and gaps, and the link has {mbps} Mb/s",
                    bits / 1e6
                )));
            }
        }
        Ok(streams)
    }
}

/// The time in which the flows of a port begin, if they are started together.
const BEGINNING: Duration = Duration::from_millis(50);

/// The streams from a port begin one after the other, in the order of the flows: streams of one rate are no
/// burst then.
fn stagger(streams: &mut [(usize, Stream)], side: usize) {
    let mut all: Vec<&mut Stream> =
        streams.iter_mut().map(|(_, stream)| stream).filter(|stream| stream.from == side).collect();
    let pps: f64 = all.iter().map(|stream| stream.pps()).sum();
    let step_s = (1.0 / pps.max(f64::MIN_POSITIVE)).min(BEGINNING.as_secs_f64() / all.len().max(1) as f64);
    for (place, stream) in all.iter_mut().enumerate() {
        stream.start = stream.start.saturating_add(Duration::from_secs_f64(step_s * place as f64));
    }
}
