//! `kpps profile`: where CPU time goes, by function and level, and what each frame costs.

use crate::error::Failure;
use crate::interrupt;
use crate::output::{Forms, Outputs};
use crate::simulator::{Constants, OnTop};
use clap::Args;
use kpps_frames::{Size, rate};
use kpps_measure::Load;
use kpps_measure::units::{self, Rate};
use kpps_report::{rows_csv, simulation};
use kpps_sim::documents::{self, Profiling};
use kpps_sim::{Forwarding, Receiving, Setup};
use std::time::Duration;

/// Time under load before measuring begins.
const WARMUP_MS: u32 = 20;

/// Arguments of `kpps profile`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps profile                                       the time of Intel's driver at line rate
  kpps profile --driver rdr --load 300kpps           recycled buffers: no time for the allocator
  kpps profile --app bridge --machine lunz2003 --load 100kpps --csv bridge.csv")]
pub struct Arguments {
    /// The machine: a name (`kpps list machines`) or a .toml file
    #[arg(long, default_value = "rdr2007")]
    machine: String,
    /// The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
    #[arg(long)]
    chip: Option<String>,
    /// The driver preset: a name (`kpps list drivers`) or a .toml file
    #[arg(long, default_value = "intel-5.7.6")]
    driver: String,
    #[command(flatten)]
    constants: Constants,
    #[command(flatten)]
    top: OnTop,
    /// Frame size in bytes with FCS [default: 64; with --app vlan-route: 68]
    #[arg(long, value_parser = units::size)]
    size: Option<Size>,
    /// The offered load
    #[arg(long, default_value = "100%")]
    load: Rate,
    /// How long to measure, in virtual time
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = units::duration)]
    duration: Duration,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps profile`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    interrupt::watch();
    let changes = arguments.constants.changes()?;
    let setup = Setup::changed(&arguments.machine, arguments.chip.as_deref(), &arguments.driver, &changes)?;
    let duration_ms = u32::try_from(arguments.duration.as_millis()).unwrap_or(u32::MAX);
    let mut files = arguments.outputs.open()?;
    let top = arguments.top;
    let size = top.size(arguments.size);
    let offered_pps = arguments.load.pps(top.line_rate_pps(size), size.bytes_with_fcs().into());
    let load = Load { offered_pps, size, warmup_ms: WARMUP_MS, duration_ms, seed: 1 };
    let (trial, profile, per_frame) = match top.app {
        Some(app) => {
            let forwarded = Forwarding::new(setup.clone(), app).forwarded(&load, &interrupt::goes_on)?;
            (forwarded.trial, forwarded.profile, forwarded.per_frame)
        }
        None => {
            let profiled = Receiving::new(setup.clone()).profiled(&load, &interrupt::goes_on)?;
            (profiled.trial, profiled.profile, profiled.per_frame)
        }
    };
    let delivered_pps = trial.delivered as f64 / trial.seconds;
    let (frames, seconds) = (trial.taken.unwrap_or(0), trial.seconds);
    let outcome = Profiling { setup, app: top.app, load, delivered_pps, frames, seconds, profile, per_frame };
    let document = documents::profile(&outcome);
    files.publish(
        &document,
        &Forms::table(&|| simulation::profile(&document, rate::line_rate_pps(rate::GIGABIT, size)), &|| {
            rows_csv(&document.rows)
        }),
    )
}
