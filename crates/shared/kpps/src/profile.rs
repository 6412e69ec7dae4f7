//! `kpps profile`: where CPU time goes, by function and level, and the cost of each frame.

use crate::error::Failure;
use crate::heading;
use crate::output::Outputs;
use crate::session::Session;
use crate::simulator::{Machine, OnTop};
use clap::Args;
use kpps_frames::Size;
use kpps_methods::Load;
use kpps_methods::units::{self, RateSpec};
use kpps_sim::documents;
use std::time::Duration;

/// Time under load before measuring begins.
const WARMUP_MS: u32 = 20;

/// Arguments of `kpps profile`.
#[derive(Args)]
#[command(
    mut_arg("machine", |machine| machine.default_value("rdr2007")),
    mut_arg("driver", |driver| driver.help("The driver preset: a name (`kpps list drivers`) or a .toml file [default: \
        the first driver in the machine's profile]")),
    after_help = "Examples:
  kpps profile                                       the time of Linux 2.6.12's driver at line rate
  kpps profile --driver rdr --load 300kpps           recycled buffers: no time for the allocator
  kpps profile --app bridge --machine lunz2003 --load 100kpps --csv bridge.csv"
)]
pub struct Arguments {
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    top: OnTop,
    /// Frame size in bytes with FCS
    #[arg(long, value_parser = units::size, help_heading = heading::TRAFFIC)]
    size: Option<Size>,
    /// The offered load
    #[arg(long, default_value = "100%", help_heading = heading::LOAD)]
    load: RateSpec,
    /// How long to measure, in virtual time
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Duration,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps profile`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    session.watch();
    let choice = arguments.machine.with_one_driver(arguments.top)?.with_machines_driver()?;
    let setup = choice.setup()?;
    let mut files = arguments.outputs.open(session, "profile")?;
    let size = arguments.size.unwrap_or(choice.default_size());
    let offered_pps = arguments.load.pps(choice.line_rate_pps(size), size.bytes_with_fcs().into());
    let load = Load::of(offered_pps, size).lasting_ms(WARMUP_MS, units::millis(arguments.duration));
    let profile = choice.profiled(setup, &load, &|| session.goes_on())?;
    Ok(files.publish(&documents::profile(&profile), "")?)
}
