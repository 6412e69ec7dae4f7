//! `kpps forward`: frames from one port to the other, in both directions.

use crate::error::Failure;
use crate::output::Outputs;
use crate::ports;
use crate::run::{self, PortOptions, Start};
use clap::Args;
use kpps_frames::Size;
use kpps_measure::units;
use kpps_ports::Spec;
use kpps_ports::port::run::{forward, prime};
use std::time::Duration;

/// Arguments of `kpps forward`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps forward uio:0000:00:10.0 uio:0000:00:11.0                 until Ctrl-C
  kpps forward uio:0000:00:10.0 uio:0000:00:11.0 --prime 32 --duration 5s
                        32 frames circle between two cards on one wire

Frames are forwarded unchanged; between two cards nothing is copied. A frame that finds the other port's
transmit ring full is dropped and counted there as `full`.

{}", ports::KINDS))]
pub struct Arguments {
    /// The first port
    a: Spec,
    /// The second port
    b: Spec,
    /// Send this many frames from the first port before forwarding begins
    #[arg(long, default_value_t = 0, value_name = "FRAMES")]
    prime: u32,
    /// Size of the frames of --prime, in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size)]
    size: Size,
    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    options: PortOptions,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps forward`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let specs = [arguments.a.clone(), arguments.b.clone()];
    let mut files = arguments.outputs.open()?;
    let mut ports = arguments.options.open(&specs, true)?;
    let start = Start::now(&mut ports)?;
    let title = format!("kpps forward {} {}", arguments.a, arguments.b);
    let (meter, view) = arguments.options.show(title, None, arguments.outputs.for_machines())?;
    let mut ends = arguments.options.ends(arguments.duration, &meter);
    let mut primed = 0;
    let elapsed = match &mut ports[..] {
        [first, second] => {
            primed = prime(first, arguments.prime, arguments.size).map_err(run::broken)?;
            match (first, second) {
                #[cfg(target_os = "linux")]
                (kpps_ports::port::AnyPort::Card(a), kpps_ports::port::AnyPort::Card(b)) => {
                    forward(&mut **a, &mut **b, &mut ends)
                }
                (a, b) => forward(a, b, &mut ends),
            }
        }
        _ => Ok(Duration::ZERO),
    };
    drop(view);
    let elapsed = elapsed.map_err(run::broken)?;
    let results = start.results("forward", &arguments.options, &specs, &mut ports, elapsed)?;
    let words =
        if arguments.prime > 0 { format!("{primed} frames sent at the start\n") } else { String::new() };
    run::finish(&results, &mut files, &words, arguments.duration.is_none())
}
