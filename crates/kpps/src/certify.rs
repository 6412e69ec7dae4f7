//! `kpps certify`: what a port can send at most here, and how well it keeps a rate below that.

use crate::error::{Failure, print};
use crate::run::{self, Common};
use crate::units;
use clap::Args;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size};
use kpps_ports::Spec;
use kpps_ports::port::AnyPort;
use kpps_ports::port::run::{Load, Plan, Sent, Shape, TOLERANCE, send};
use std::fmt::Write;
use std::time::Duration;

/// Times that the ceiling is measured; the lowest counts.
const ROUNDS: usize = 3;
/// Paced loads, as shares of the ceiling.
const SHARES: [f64; 4] = [0.1, 0.5, 0.8, 0.95];

/// Arguments of `kpps certify`.
#[derive(Args)]
#[command(after_help = "Example:
  kpps certify xdp:eth1 --size 64

The ceiling is the lowest of three rates at which this machine gave frames to the port as fast as it took them. A load
above it cannot be sent as asked for; one near it may not be sent evenly: the table tells.")]
pub struct Arguments {
    /// The port, as of `kpps send`
    port: Spec,
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size)]
    size: Size,
    /// How long each rate is sent
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    duration: Duration,
    #[command(flatten)]
    common: Common,
}

/// Runs `kpps certify`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.common.json {
        return Err(Failure::Input("a certificate is for people so far: leave --json away".into()));
    }
    let mut ports = arguments.common.open(std::slice::from_ref(&arguments.port), false)?;
    let Some(port) = ports.first_mut() else { return Ok(()) };
    let from_mac = Mac(port.address().map_err(|e| Failure::Check(e.to_string()))?);
    let frame = udp_test(&Flow { from_mac, ..Flow::default() }, arguments.size)
        .map_err(|e| Failure::Input(e.to_string()))?;
    let mut measure = |load| -> Result<(Sent, f64), Failure> {
        let plan = Plan {
            load,
            shape: Shape::Constant,
            frames: vec![frame.clone()],
            rewrite: false,
            count: None,
            stream: 0,
            epoch: None,
        };
        let mut ends = arguments.common.ends(Some(arguments.duration));
        let sent = match &mut *port {
            AnyPort::Card(card) => send(&mut **card, &plan, &mut ends),
            port => send(port, &plan, &mut ends),
        };
        ends.clear();
        let sent = sent.map_err(run::broken)?;
        Ok((sent, sent.sent as f64 / sent.elapsed.as_secs_f64().max(1e-9)))
    };
    let mut ceiling = f64::INFINITY;
    for _ in 0..ROUNDS {
        ceiling = ceiling.min(measure(Load::Max)?.1);
    }
    let mut text = format!(
        "{} sends {:.1} kpps of {} B frames (with FCS) at most\n\n{:>12} {:>12} {:>10} {:>9} {:>14} {:>10} {:>10}\n",
        arguments.port,
        ceiling / 1e3,
        arguments.size.bytes_with_fcs(),
        "asked, kpps",
        "sent, kpps",
        "off by, %",
        "unsent",
        format!("within {} us", TOLERANCE.as_micros()),
        "99 %, us",
        "most, us"
    );
    for share in SHARES {
        let pps = ceiling * share;
        let (sent, really) = measure(Load::Pps(pps))?;
        let Some(gaps) = sent.gaps else { continue };
        let _ = writeln!(
            text,
            "{:>12.1} {:>12.1} {:>10.3} {:>9} {:>12.2} % {:>10.1} {:>10.1}",
            pps / 1e3,
            really / 1e3,
            100.0 * (really / pps - 1.0),
            sent.unsent,
            100.0 * gaps.within as f64 / gaps.count as f64,
            gaps.p99_ns as f64 / 1e3,
            gaps.longest_ns as f64 / 1e3
        );
    }
    print(&text)
}
