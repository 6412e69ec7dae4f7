//! `kpps count`: counts the frames that a port receives.

use super::KINDS;
use super::options::{Job, RunOptions, finish};
use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::Args;
use kpps_documents::run::Run;
use kpps_methods::units;
use kpps_ports::Spec;
use kpps_ports::port::AnyPort;
use kpps_ports::port::run::{Streams, count_any};
use std::time::Duration;

/// Arguments of `kpps count`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps count uio:0000:00:11.0 --duration 10s
  kpps count packet:veth1 --expect 1000 --duration 5s     exit code 1 if a frame is missing

Frames of `kpps send` carry a tag. For each stream, kpps counts lost, duplicated, reordered and corrupted frames,
and it counts other traffic separately. The command ends as soon as --expect frames have arrived. A frame counts
as reordered if a later frame of its stream arrived earlier. On an xdp: port with several queues, and where the
kernel merges packets (GRO), kpps compares only frames of the same flow.

{}", KINDS))]
pub struct Arguments {
    /// The port that receives
    port: Spec,
    /// Stop after this time
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Duration,
    /// Number of test frames that must arrive, each once, in order, unchanged; otherwise the exit code is 1
    #[arg(long, value_name = "FRAMES", help_heading = heading::BOUNDS)]
    expect: Option<u64>,
    #[command(flatten)]
    run: RunOptions,
}

/// Runs `kpps count`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let specs = std::slice::from_ref(&arguments.port);
    let mut files = arguments.run.outputs.open(session, "count")?;
    let mut ports = arguments.run.ports.open(session, specs, true)?;
    let mixes_flows = ports.first().is_some_and(AnyPort::mixes_flows);
    let mut streams = if mixes_flows { Streams::by_flow() } else { Streams::default() };
    let job = Job { command: "count", specs, offered_pps: None, duration: Some(arguments.duration) };
    let (_, run) = arguments.run.run(session, &job, &mut ports, |ports, watch| {
        let count = |port| count_any(port, &mut streams, arguments.expect, watch);
        Ok(((), ports.first_mut().map_or(Ok(Duration::ZERO), count)?))
    })?;
    let rows = kpps_tester::streams(&streams, arguments.expect);
    let verdict = arguments.expect.map(|expect| kpps_tester::all_arrived(&streams, &rows, expect));
    let (corrupted, others) = (Some(streams.corrupted), Some(streams.others));
    finish(&Run { corrupted, others, streams: Some(rows), ..run }, &mut files, "", false)?;
    verdict.unwrap_or(Ok(())).map_err(Failure::Check)
}
