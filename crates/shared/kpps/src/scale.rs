//! `kpps scale`: packets per second against CPUs, and what limits them.

use crate::error::Failure;
use crate::heading;
use crate::output::{Outputs, Resume};
use crate::session::Session;
use crate::simulator::Constants;
use clap::Args;
use kpps_frames::{Size, rate};
use kpps_methods::Load;
use kpps_methods::parameter::{self, Counts};
use kpps_methods::units::{self, RateSpec};
use kpps_sim::workload::rss::{Scaling, scale};
use kpps_sim::{Activity, RateLimitedSetup, documents};
use std::time::Duration;

/// Arguments of `kpps scale`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps scale                                         a gigabit card: the wire is the limit
  kpps scale --nic 82598                             10 gigabit
  kpps scale --nic 82598 --set machine.bus.82598=pcie-x1
  kpps scale --nic 82598 --shared-lines 4            all flows end in one socket
  kpps scale --set nic.header_bytes=64               headers in a buffer of their own

Each CPU has its own receive queue with its own interrupt (receive side scaling). The limit is the part that
is busy all the time; each column shows how busy a part was.")]
pub struct Arguments {
    /// The machine: a name (`kpps list machines`) or a .toml file
    #[arg(long, default_value = "rss", help_heading = heading::MACHINE)]
    machine: String,
    /// Another rate-limited NIC for the machine: a name (`kpps list nics`) or a .toml file
    #[arg(long, help_heading = heading::MACHINE)]
    nic: Option<String>,
    /// Numbers of CPUs to simulate, each in its own trial: a list as 1,2,4 or a range as 1..8 [default: from
    /// 1 to the number of CPUs of the machine]
    #[arg(long, value_name = "COUNTS", value_parser = parameter::counts, help_heading = heading::MACHINE)]
    cpu_counts: Option<Counts>,
    /// Number of UDP flows in the load
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..), help_heading = heading::TRAFFIC)]
    flows: u16,
    /// Simulate one socket that all flows share: for each frame, a CPU takes the socket's lock and writes
    /// this number of cache lines. 0: no such socket
    #[arg(long, value_name = "LINES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000), help_heading = heading::MACHINE)]
    shared_lines: u32,
    #[command(flatten)]
    constants: Constants,
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size, help_heading = heading::TRAFFIC)]
    size: Size,
    /// The offered load
    #[arg(long, default_value = "100%", help_heading = heading::LOAD)]
    load: RateSpec,
    /// How long each trial is measured, after a warm-up of the same length, in virtual time
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Duration,
    /// Seed of all random numbers. The same seed gives the same results
    #[arg(long, default_value_t = 1, value_parser = units::seed, help_heading = heading::TESTBED)]
    seed: u64,
    #[command(flatten)]
    resume: Resume,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps scale`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let changes = arguments.constants.changes()?;
    let setup = RateLimitedSetup::changed(&arguments.machine, arguments.nic.as_deref(), &changes)?;
    setup.check_effects(&changes, Activity::ReceiveOnAll)?;
    let millis = units::millis(arguments.duration);
    let line_pps = rate::line_rate_pps(setup.link_bits_per_s(), arguments.size);
    let offered_pps = arguments.load.pps(line_pps, arguments.size.bytes_with_fcs().into());
    let load = Load::of(offered_pps, arguments.size).lasting_ms(millis, millis).with_seed(arguments.seed);
    let mut files = arguments.outputs.open(session, "scale")?;
    session.watch();
    let (flows, shared_lines) = (arguments.flows, arguments.shared_lines);
    let with = |&cpus: &usize| (&setup, Scaling { load: load.clone(), flows, cpus, shared_lines });
    let counts = arguments.cpu_counts.as_ref().map_or_else(|| (1..=setup.cpus).collect(), |it| it.0.clone());
    let trials: Vec<_> = counts.iter().map(with).collect();
    let finished = arguments.resume.finished(session)?;
    let rows = finished.each(&trials, |(setup, what)| scale(setup, what, &|| session.goes_on()))?;
    files.publish(&documents::scale(&trials, &rows), "")?;
    arguments.resume.end(finished, session, &format!("{} of {} trials measured", rows.len(), trials.len()))
}
