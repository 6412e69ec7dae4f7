//! `kpps forward`: frames from one port to the other, in both directions.

use super::KINDS;
use super::options::{Job, RunOptions, finish};
use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::Args;
use kpps_frames::Size;
use kpps_methods::units;
use kpps_ports::Spec;
use kpps_ports::port::run::{forward_any, prime};
use std::time::Duration;

/// Arguments of `kpps forward`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps forward uio:0000:00:10.0 uio:0000:00:11.0                 until Ctrl-C
  kpps forward uio:0000:00:10.0 uio:0000:00:11.0 --prime 32 --duration 5s
                        32 frames circle between two cards on one wire

Frames are forwarded unchanged; between two cards nothing is copied. A frame that finds the other port's
transmit ring full is dropped and counted there as `full`.

{}", KINDS))]
pub struct Arguments {
    /// The first port
    a: Spec,
    /// The second port
    b: Spec,
    /// Number of frames of --size that the first port sends before forwarding begins
    #[arg(long, default_value_t = 0, value_name = "FRAMES")]
    prime: u32,
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size, help_heading = heading::TRAFFIC)]
    size: Size,
    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    #[command(flatten)]
    run: RunOptions,
}

/// Runs `kpps forward`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let specs = [arguments.a.clone(), arguments.b.clone()];
    let mut files = arguments.run.outputs.open(session, "forward")?;
    let mut ports = arguments.run.ports.open(session, &specs, true)?;
    let job = Job { command: "forward", specs: &specs, offered_pps: None, duration: arguments.duration };
    let (primed, run) = arguments.run.run(session, &job, &mut ports, |ports, watch| match ports {
        [first, second] => {
            watch.tell(&specs);
            let primed = prime(first, arguments.prime, arguments.size)?;
            Ok((primed, forward_any(first, second, watch)?))
        }
        _ => Ok((0, Duration::ZERO)),
    })?;
    let primed = primed.filter(|_| arguments.prime > 0);
    let notes = primed.map(|primed| format!("{primed} frames sent at the start\n")).unwrap_or_default();
    finish(&run, &mut files, &notes, arguments.duration.is_none())
}
