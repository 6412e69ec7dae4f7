//! `kpps simulate-faults`: driver, card and applications under faults, in virtual time.

use crate::heading;
use crate::session::Session;
use crate::{error::Failure, output::Outputs};
use clap::Args;
use kpps_methods::units;
use kpps_rendering::live::Progress;
use std::time::{Duration, Instant};

/// Arguments of `kpps simulate-faults`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps simulate-faults                        200 worlds
  kpps simulate-faults --seed 7 --trace       the last thousand events of one world

A world is one random run. Every frame and buffer must be accounted for. 15 s after the last fault (50 s on a
link of 10 Mb/s) all frames must arrive, and under full load half as many as after a fresh start, at least.
If not, the exit code is 1, and kpps looks for the smallest world with the same failure.")]
pub struct Arguments {
    /// The seed of the first world
    #[arg(long, default_value_t = 1, value_parser = units::seed, help_heading = heading::TESTBED)]
    seed: u64,
    /// Number of random worlds
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    worlds: u64,
    /// Run worlds for this long (60s) instead of a fixed number
    #[arg(long, value_name = "TIME", value_parser = units::duration, conflicts_with = "worlds", help_heading = heading::TIME)]
    duration: Option<Duration>,
    /// Print the last thousand events of the world of --seed. If it fails, kpps searches for the smallest
    /// world that fails in the same way, and prints its events
    #[arg(long, conflicts_with_all = ["worlds", "duration"])]
    trace: bool,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps simulate-faults`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let mut files = arguments.outputs.open(session, "faults")?;
    session.watch();
    let begun = Instant::now();
    let go_on = || session.goes_on() && arguments.duration.is_none_or(|most| begun.elapsed() < most);
    let worlds = arguments.duration.map_or(arguments.worlds, |_| u64::MAX);
    let document = if arguments.trace {
        kpps_faults::traced(arguments.seed)
    } else {
        let progress = Progress::default();
        let _view = session.line(progress.clone());
        let show = |ended| progress.stands_at(ended, worlds as usize);
        kpps_faults::campaign(arguments.seed, worlds, &go_on, &|| session.goes_on(), &show)
    };
    files.publish(&document, "")?;
    match (document.failed(), session.is_interrupted()) {
        (0, true) => Err(Failure::Interrupted(format!("interrupted after {} worlds", document.worlds))),
        (0, false) => Ok(()),
        (failed, _) => Err(Failure::Check(format!("{failed} of {} worlds failed", document.worlds))),
    }
}
