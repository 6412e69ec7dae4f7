//! `kpps calibrate`: the highest rate of a port here, and how evenly it sends below that.

use super::KINDS;
use super::options::RunOptions;
use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::Args;
use kpps_documents::Environment;
use kpps_documents::calibration::Calibration;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size};
use kpps_methods::units;
use kpps_ports::Spec;
use std::time::Duration;

/// Arguments of `kpps calibrate`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps calibrate xdp:eth1 --size 64
  kpps calibrate packet:a --results a.json     for kpps trial --calibration a.json

The port is flooded three times; the ceiling is the lowest rate of the three. A load above the ceiling cannot
be sent. A load near it may be sent unevenly: the table shows the gaps at several loads.

{}", KINDS))]
pub struct Arguments {
    /// The port that sends, as in `kpps send`
    port: Spec,
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size, help_heading = heading::TRAFFIC)]
    size: Size,
    /// How long each rate is sent
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Duration,
    #[command(flatten)]
    run: RunOptions,
}

/// Runs `kpps calibrate`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let mut files = arguments.run.outputs.open(session, "calibrate")?;
    let mut ports = arguments.run.ports.open(session, std::slice::from_ref(&arguments.port), false)?;
    let Some(port) = ports.first_mut() else { return Ok(()) };
    let from_mac = Mac(port.address()?);
    let frame = udp_test(&Flow { from_mac, ..Flow::default() }, arguments.size)
        .map_err(|e| Failure::Input(e.to_string()))?;
    port.check(&arguments.port, frame.len())?;
    let title = format!("kpps calibrate {}", arguments.port);
    let (meter, view) = arguments.run.show(session, title, None)?;
    let watch = || arguments.run.watch(session, Some(arguments.duration), &meter);
    let measured = kpps_tester::calibrate(port, &frame, watch);
    drop(view);
    let calibration = Calibration {
        environment: Environment {
            frame_bytes_with_fcs: Some(arguments.size.bytes_with_fcs()),
            duration_s: Some(arguments.duration.as_secs_f64()),
            ..Environment::on([arguments.port.to_string()])
        },
        ..measured?
    };
    Ok(files.publish(&calibration, "")?)
}
