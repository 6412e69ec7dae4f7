//! Sending from a port without a trial, on each of its cores.

use crate::error::Error;
use crate::running::building::{StreamBuilder, frames_between};
#[cfg(target_os = "linux")]
use crate::running::cores::on_threads;
#[cfg(target_os = "linux")]
use crate::running::cores::{CoreWork, all_sent};
use crate::running::streams::{Stream, at_load, check_probes};
use crate::running::test_port::{OfCore, SentFrames};
use crate::watching::live::RunWatch;
use kpps_frames::rate::Rate;
use kpps_frames::stack::Between;
#[cfg(target_os = "linux")]
use kpps_ports::port::run::{BUDGET, Beginning, PlanPart, send_part_and_listen};
use kpps_ports::port::run::{SendPlan, StreamPlan, send_any};
use kpps_ports::port::{AnyPort, Trouble};
#[cfg(target_os = "linux")]
use kpps_ports::port::{CoresPort, Port};
use std::time::Duration;

/// The frames that a port has sent.
#[derive(Clone, Debug, Default)]
pub struct PortSent {
    /// The frames of all cores.
    pub frames: SentFrames,
    /// The frames of each core, if there are several.
    pub cores: Vec<OfCore>,
}

/// The plan of streams that one port sends at this rate in sum, for this time at most.
///
/// # Errors
/// A stream has no room for its headers, or probes have no load beside them.
pub fn streams_plan(
    streams: &[Stream],
    between: Between,
    rate: Rate,
    length: Duration,
) -> Result<SendPlan, Error> {
    check_probes(streams, rate)?;
    let builder = StreamBuilder { ends: Vec::new(), trial: 0, length, is_controlled: false, waits: false };
    let planned = |(n, (stream, pps)): (usize, (&Stream, f64))| -> Result<StreamPlan, Error> {
        Ok(builder.build(n as u16, stream, pps, frames_between(&between, stream)?).plan)
    };
    let planned = at_load(streams, rate).enumerate().map(planned).collect::<Result<Vec<_>, _>>()?;
    let is_paced = rate != Rate::Max;
    Ok(SendPlan { streams: planned, is_paced, rewrite: true, ..SendPlan::nothing() })
}

/// Sends from a port until the watch ends it, or all frames are sent. Received frames are discarded.
///
/// # Errors
/// [`Trouble`], that of a core.
pub fn send(port: &mut AnyPort, plan: &SendPlan, watch: &mut RunWatch) -> Result<PortSent, Trouble> {
    #[cfg(target_os = "linux")]
    if port.cores() > 1 {
        return kpps_ports::by_cores!(port, all => on_cores(all, plan, watch), _ => Ok(PortSent::default()));
    }
    let sent = send_any(port, plan, watch)?;
    Ok(PortSent { frames: SentFrames::from(sent), cores: Vec::new() })
}

/// As [`send`], on several cores.
#[cfg(target_os = "linux")]
fn on_cores<P: Port + Send>(
    all: &mut CoresPort<P>,
    plan: &SendPlan,
    watch: &RunWatch,
) -> Result<PortSent, Trouble> {
    let cores = all.cores();
    let parts = PlanPart::of_all(plan, cores);
    let senders = parts.iter().flatten().count();
    let beginning = Beginning::of(senders);
    let watches = watch.of_cores(cores);
    let failed = |trouble| CoreWork { trouble: Some(trouble), ..CoreWork::default() };
    let ports = all.parts().zip(beginning.starters(&parts));
    let mut works = on_threads(ports, failed, |core, (port, starter): (&mut P, _)| {
        let Some(part) = parts.get(core).and_then(Option::as_ref) else { return CoreWork::default() };
        let mut discard = |port: &mut P| port.receive(BUDGET, |frame| Some(frame.buffer));
        match send_part_and_listen(port, part, starter, &mut watches.of(core), &mut discard) {
            Ok(sent) => CoreWork { sent: sent.into(), ..CoreWork::default() },
            Err(trouble) => failed(trouble),
        }
    });
    if let Some(trouble) = works.iter_mut().find_map(|work| work.trouble.take()) {
        return Err(trouble);
    }
    let rows = works.iter().zip(&parts).map(|(work, part)| work.row(part.as_ref())).collect();
    Ok(PortSent { frames: all_sent(works, &parts, plan.streams.len()), cores: rows })
}
