//! `kpps simulate-faults`: driver, card and applications under faults, in virtual time.

use crate::error::Failure;
use crate::output::Outputs;
use crate::{interrupt, live};
use clap::Args;
use kpps_faults::{campaign, traced};
use kpps_measure::units;
use kpps_report::live::Progress;
use std::time::{Duration, Instant};

/// Arguments of `kpps simulate-faults`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps simulate-faults                        200 worlds
  kpps simulate-faults --duration 60s --seed 5000    as many as a minute allows
  kpps simulate-faults --seed 7 --trace       the last thousand events of one world

A world is a driver with one policy on the model of one chip, an application, traffic, and faults of device,
bus, host, cable and operator: all drawn from its seed. Each world must keep its accounts, lose no buffer, let
the card touch nothing that it does not own, and after its last fault carry all frames again within 10 s of
virtual time. A failure is made as small as possible. Exit code 1 if a world fails.")]
pub struct Arguments {
    /// The seed of the first world
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of worlds
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    worlds: u64,
    /// As many worlds as end within this time, instead of a number
    #[arg(long, value_name = "TIME", value_parser = units::duration, conflicts_with = "worlds")]
    duration: Option<Duration>,
    /// One world, with its last thousand events; of a world that fails, those of the smallest that does so
    #[arg(long, conflicts_with_all = ["worlds", "duration"])]
    trace: bool,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps simulate-faults`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut files = arguments.outputs.open("faults")?;
    interrupt::watch();
    let first = arguments.seed;
    // A world that panics says so in its outcome.
    std::panic::set_hook(Box::new(|_| ()));
    let begun = Instant::now();
    let in_time = || arguments.duration.is_none_or(|most| begun.elapsed() < most);
    let worlds = if arguments.duration.is_some() { u64::MAX } else { arguments.worlds };
    let last = first.saturating_add(worlds - 1);
    let document = if arguments.trace {
        traced(first)
    } else {
        let progress = Progress::default();
        let _view = live::line(progress.clone());
        progress.wants(worlds.try_into().unwrap_or(usize::MAX));
        let ended = |worlds: u64| progress.stands_at(worlds.try_into().unwrap_or(usize::MAX));
        campaign(first..=last, &|| interrupt::goes_on() && in_time(), &ended)
    };
    let _ = std::panic::take_hook();
    files.publish(&document, "")?;
    let failed = document.failures.iter().filter(|failure| failure.at_ms > 0.0).count();
    match (failed, interrupt::is_requested()) {
        (1.., _) => Err(Failure::Check(format!("{failed} of {} worlds failed", document.worlds))),
        (0, true) => Err(Failure::Interrupted(format!("interrupted after {} worlds", document.worlds))),
        (0, false) => Ok(()),
    }
}
