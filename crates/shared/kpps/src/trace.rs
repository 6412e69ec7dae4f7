//! `kpps trace`: transactions on the bus, frames on the wire and register accesses of a machine under load.

use crate::error::Failure;
use crate::heading;
use crate::output::Outputs;
use crate::session::Session;
use crate::simulator::Machine;
use clap::{Args, value_parser};
use kpps_frames::{Size, rate};
use kpps_methods::units::{self, RateSpec};
use kpps_rendering::{Rows, bus};
use kpps_sim::workload::trace::{Groups, Tracing, trace};
use kpps_sim::{Activity, Choice, documents};
use std::path::PathBuf;
use std::time::Duration;

/// Frames of the wire that a capture holds.
const CAPTURE: usize = 1 << 20;
/// Transactions that are kept.
const LOG: usize = 1 << 20;

/// Arguments of `kpps trace`.
#[derive(Args)]
#[command(
    mut_arg("machine", |machine| machine.default_value("rdr2007-pci")),
    mut_arg("driver", |driver| driver
        .help("The driver preset, which must use interrupts: a name (`kpps list drivers`) or a .toml file")
        .default_value("linux-2.6.12-e1000")),
    after_help = "Examples:
  kpps trace                                 an overload: smooth at first, then short of descriptors
  kpps trace --driver rdr --load 100%        the same with recycled descriptors
  kpps trace --window 30000..40000           plot these bus clocks
  kpps trace --csv bus.csv --timeline registers.csv --pcap wire.pcap"
)]
pub struct Arguments {
    #[command(flatten)]
    machine: Machine,
    /// The load offered to each card: frames per second, or a share of the line rate
    #[arg(long, default_value = "1Mpps", help_heading = heading::LOAD)]
    load: RateSpec,
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size, help_heading = heading::TRAFFIC)]
    size: Size,
    /// Number of frames in a group; the frames of a group are --spacing apart
    #[arg(long, default_value_t = 1, value_name = "FRAMES", value_parser = value_parser!(u32).range(1..))]
    group: u32,
    /// Time between two frames of a group
    #[arg(long, default_value = "915ns", value_name = "TIME", requires = "group", value_parser = units::short_time_ps)]
    spacing: u64,
    /// Number of cards under load. Their interrupts go to the machine's CPUs in turn
    #[arg(long, value_name = "CARDS", default_value_t = 1)]
    cards: usize,
    /// How long to trace, in virtual time, from the first frame on; at most 10s
    #[arg(long, value_name = "TIME", default_value = "3ms", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Duration,
    /// Plot this range of bus clocks [default: three plots: the whole trace, its beginning, and a time in
    /// which the card lacks descriptors]
    #[arg(long, value_name = "FROM..TO", value_parser = units::range)]
    window: Option<(u32, u32)>,
    /// Width of a plot in columns
    #[arg(long, default_value_t = 100)]
    columns: usize,
    /// Write interrupts and register accesses as comma-separated values to this file
    #[arg(long, value_name = "FILE", help_heading = heading::RESULTS)]
    timeline: Option<PathBuf>,
    /// Write the frames on the first card's wire to this file (pcap)
    #[arg(long, value_name = "FILE", help_heading = heading::RESULTS)]
    pcap: Option<PathBuf>,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps trace`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let choice = arguments.machine.with_one_driver(Default::default())?;
    // The interrupts of one card go to one CPU.
    let activity = (arguments.cards > 1).then_some(Activity::ReceiveOnAll);
    let setup = Choice { activity, ..choice }.setup()?;
    let mut files = arguments.outputs.open(session, "trace")?;
    let timeline = files.open(arguments.timeline.as_deref())?;
    let wire = files.open(arguments.pcap.as_deref())?;
    let line_pps = rate::line_rate_pps(rate::GIGABIT, arguments.size);
    let what = Tracing {
        groups: Groups { frames: arguments.group, spacing_ps: arguments.spacing },
        ports: arguments.cards,
        log: LOG,
        capture: if wire.is_some() { CAPTURE } else { 0 },
        ..Tracing::new(
            arguments.size,
            arguments.load.pps(line_pps, arguments.size.bytes_with_fcs().into()),
            u64::try_from(arguments.duration.as_micros()).unwrap_or(u64::MAX),
        )
    };
    session.watch();
    let seen = trace(&setup, &what, &|| session.goes_on())?;
    let document = documents::trace(&setup, &what, &seen);
    if let Some(output) = timeline {
        files.attach(output, Ok(Rows::of(&document.events).csv().into_bytes()));
    }
    if let Some(output) = wire {
        files.attach(output, seen.pcap().map_err(|why| format!("the capture cannot be made: {why}")));
    }
    let window = arguments.window.map(|(from, to)| (from.into(), to.into()));
    Ok(files.publish(&document, &bus::plots(&document, window, arguments.columns))?)
}
