//! `kpps certify`: what a port can send at most here, and how well it keeps a rate below that.

use crate::error::{Failure, print};
use crate::run::{self, Common};
use crate::search::tenths;
use crate::units;
use clap::Args;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size, Templates};
use kpps_ports::Spec;
use kpps_ports::port::run::{Load, Plan, Sent, Shape, send};
use kpps_report::certificate::{Certificate, Paced};
use kpps_tester::gaps;
use std::sync::Arc;
use std::time::Duration;

/// Times that the ceiling is measured; the lowest counts.
const ROUNDS: usize = 3;
/// Paced loads, as shares of the ceiling.
const SHARES: [f64; 4] = [0.1, 0.5, 0.8, 0.95];

/// Arguments of `kpps certify`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps certify xdp:eth1 --size 64
  kpps certify packet:a --json > a.json        for kpps trial --certificate a.json

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
    let mut ports = arguments.common.open(std::slice::from_ref(&arguments.port), false)?;
    let Some(port) = ports.first_mut() else { return Ok(()) };
    let from_mac = Mac(port.address().map_err(|e| Failure::Check(e.to_string()))?);
    let frame = udp_test(&Flow { from_mac, ..Flow::default() }, arguments.size)
        .map_err(|e| Failure::Input(e.to_string()))?;
    let (meter, view) = arguments.common.show(format!("kpps certify {}", arguments.port), None)?;
    let frames = Arc::new(Templates::one(&frame));
    let mut measure = |load| -> Result<(Sent, f64), Failure> {
        let plan = Plan {
            load,
            shape: Shape::Constant,
            times: None,
            as_they_are: false,
            frames: frames.clone(),
            rewrite: false,
            count: None,
            stream: 0,
            epoch: None,
        };
        let mut ends = arguments.common.ends(Some(arguments.duration), &meter);
        let sent = match &mut *port {
            #[cfg(target_os = "linux")]
            kpps_ports::port::AnyPort::Card(card) => send(&mut **card, &plan, &mut ends),
            port => send(port, &plan, &mut ends),
        };
        let sent = sent.map_err(run::broken)?;
        let pps = sent.sent as f64 / sent.elapsed.as_secs_f64().max(1e-9);
        Ok((sent, pps))
    };
    let mut rounds_pps = Vec::new();
    for _ in 0..ROUNDS {
        rounds_pps.push(tenths(measure(Load::Max)?.1));
    }
    let ceiling_pps = rounds_pps.iter().copied().fold(f64::INFINITY, f64::min);
    let mut paced = Vec::new();
    for share in SHARES {
        let (sent, sent_pps) = measure(Load::Pps(ceiling_pps * share))?;
        paced.push(Paced {
            asked_pps: tenths(ceiling_pps * share),
            sent_pps: tenths(sent_pps),
            unsent: sent.unsent,
            gaps: sent.gaps.as_ref().map(gaps),
        });
    }
    drop(view);
    let certificate = Certificate {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        port: arguments.port.to_string(),
        frame_bytes_with_fcs: arguments.size.bytes_with_fcs(),
        duration_s: arguments.duration.as_secs_f64(),
        ceiling_pps,
        rounds_pps,
        paced,
        ..Certificate::default()
    };
    if arguments.common.json {
        let json =
            certificate.to_json().map_err(|e| Failure::Check(format!("no JSON of the results: {e}")))?;
        return print(&json);
    }
    print(&certificate.screen())
}
