//! The command `kpps`.
//!
//! Exit codes: 0 done; 1 a check failed (a selftest case, a trial that does not account for its frames); 2 bad input;
//! 130 interrupted, with what was measured kept.

mod curve;
mod error;
mod interrupt;
mod list;
mod output;
mod selftest;
mod study;
mod transmit;
mod units;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use error::Failure;
use std::process::ExitCode;

/// How many small packets a network card, its driver and the machine around it can handle, and why the rest are lost.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  kpps curve                               the receive-livelock curve of Morris 2000
  kpps curve --driver kpps --load 50%..100%/10%
  kpps curve --json | jq '.series[].name'
  kpps transmit --chip 82542               the other direction
  kpps study morris2000                    what a paper claimed, checked claim by claim
  kpps selftest --on qemu --chip 82540em   the driver against QEMU's card
  kpps list drivers                        the presets
  kpps list chip 82542                     a chip's constants and their sources

Sizes are frame sizes with FCS (64 is the 60-byte buffer of a minimum frame); rates are frames per second.
Nothing here needs hardware or root."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Delivered against offered packets per second, for several drivers on one machine
    Curve(curve::Arguments),
    /// How many frames each driver sends when its application always has another
    Transmit(transmit::Arguments),
    /// What documents claim, and what the machine room says to it
    Study(study::Arguments),
    /// One functional suite for the driver, on the model's cards or on QEMU's
    Selftest(selftest::Arguments),
    /// The machines, chips, buses, hosts, stacks and drivers there are; with a name, its constants and their sources
    List(list::Arguments),
    /// The JSON Schema of the results
    Schema,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version are asked for; a command line without a command is taught.
        Err(asked)
            if !asked.use_stderr() || asked.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            asked.exit()
        }
        Err(error) => {
            eprintln!("kpps: {}", in_one_line(&error.to_string()));
            return ExitCode::from(2);
        }
    };
    let result = match arguments.command {
        Command::Curve(arguments) => curve::run(&arguments),
        Command::Transmit(arguments) => transmit::run(&arguments),
        Command::Study(arguments) => study::run(&arguments),
        Command::Selftest(arguments) => selftest::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Schema => error::print(&kpps_report::schema()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("kpps: {failure}");
            failure.code()
        }
    }
}

/// What is wrong and what is possible, without the usage that clap prints behind it.
fn in_one_line(message: &str) -> String {
    let lines: Vec<_> = message.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}
