//! `kpps calibrate`: what a port can send at most here, and how evenly it sends below that.

use crate::error::Failure;
use crate::output::{Forms, Outputs};
use crate::run::{self, PortOptions};
use clap::Args;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size, Templates};
use kpps_measure::ndr::tenths;
use kpps_measure::units;
use kpps_ports::Spec;
use kpps_ports::port::run::{Load, Plan, Sent, Shape, send};
use kpps_report::rows_csv;
use kpps_results::certificate::{Certificate, Paced};
use kpps_tester::gaps;
use std::sync::Arc;
use std::time::Duration;

/// Times that the ceiling is measured; the lowest counts.
const ROUNDS: usize = 3;
/// Paced loads, as shares of the ceiling.
const SHARES: [f64; 4] = [0.1, 0.5, 0.8, 0.95];

/// Arguments of `kpps calibrate`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps calibrate xdp:eth1 --size 64
  kpps calibrate packet:a --results a.json     for kpps trial --calibration a.json

The ceiling is the lowest of three rates at which the port took frames as fast as this host could offer them. A load above the
ceiling cannot be sent. A load near it may be sent unevenly: the table shows the gaps at several loads.")]
pub struct Arguments {
    /// The port that sends, as in `kpps send`
    port: Spec,
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size)]
    size: Size,
    /// How long each rate is sent
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    duration: Duration,
    #[command(flatten)]
    options: PortOptions,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps calibrate`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut files = arguments.outputs.open()?;
    let mut ports = arguments.options.open(std::slice::from_ref(&arguments.port), false)?;
    let Some(port) = ports.first_mut() else { return Ok(()) };
    let from_mac = Mac(port.address().map_err(|e| Failure::Check(e.to_string()))?);
    let frame = udp_test(&Flow { from_mac, ..Flow::default() }, arguments.size)
        .map_err(|e| Failure::Input(e.to_string()))?;
    let title = format!("kpps calibrate {}", arguments.port);
    let (meter, view) = arguments.options.show(title, None, arguments.outputs.for_machines())?;
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
        let mut ends = arguments.options.ends(Some(arguments.duration), &meter);
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
            shortfall: sent.unsent,
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
    files.publish(
        &certificate,
        &Forms::table(&|| kpps_report::certificate::screen(&certificate), &|| rows_csv(&certificate.paced)),
    )
}
