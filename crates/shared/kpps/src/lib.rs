//! The command `kpps`, for a process of its own ([`process`]) and for a program that calls it ([`call`]).
//!
//! ```
//! let words = ["kpps", "curve", "--load", "100kpps", "--duration", "1ms"];
//! assert_eq!(kpps::process(words.map(Into::into), &kpps::Session::default()), 0);
//! ```

mod calibrate_host;
mod compare;
mod complete;
mod completions;
mod curve;
mod error;
#[cfg(feature = "faults")]
mod faults;
mod grid;
mod guests;
mod heading;
mod help;
mod list;
mod live;
mod man;
mod merge;
mod ndr;
mod output;
mod package;
#[cfg_attr(not(feature = "ports"), path = "no_ports.rs")]
mod ports;
mod profile;
mod rfc2544;
mod scale;
mod search;
mod session;
mod simulator;
mod sizes;
#[cfg(feature = "study")]
mod study;
mod testbed;
mod trace;
mod transmit;
mod typed;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::io::IsTerminal as _;

pub use complete::answer as answer_shell;
pub use error::Failure;
pub use session::Session;

/// How many small packets a network card, its driver and its host can handle, and where the rest are lost.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  kpps curve                               a livelock curve (Morris 2000) in the simulator
  kpps curve --driver kpps --load 50%..100%/10% --report curve.html
  kpps curve --app nat                     a NAT between two cards; also bridge, route, vlan-route
  kpps trial --ports packet:a,packet:b --load 50kpps      a device between two ports
  kpps ndr --ports packet:a,packet:b       the highest load that it forwards without loss
  kpps study morris2000                    the claims of a paper, checked one by one
  kpps list chip 82542                     the constants of a chip and their sources

`kpps COMMAND --help` has more. Sizes are frame sizes with FCS (64 is the 60-byte buffer of a minimum
frame); rates are frames per second. Only ports of real interfaces and cards need root (packet:, xdp:,
auto:, uio:, vfio:); nothing else does.

Exit codes: 0 done; 1 a check failed, such as a claim or a bound; 2 bad input; 3 a trial is no valid measurement
of the device under test; 130 interrupted, and the results so far are kept."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure delivered against offered packets per second, for several drivers or between two ports
    Curve(curve::Arguments),
    /// Measure each combination of parameters over ranges
    Grid(typed::Typed<grid::Arguments>),
    /// Measure the highest transmit rate of each driver
    Transmit(transmit::Arguments),
    /// Measure packets per second for several numbers of CPUs, with receive side scaling, and find the limit
    Scale(scale::Arguments),
    /// Show where the CPU time of driver and kernel goes, by function and level
    Profile(profile::Arguments),
    /// Trace transactions on the bus, frames on the wire and register accesses under load
    Trace(trace::Arguments),
    /// Find the highest load without loss (NDR) and with little loss (PDR)
    Ndr(ndr::Arguments),
    /// Find NDR and PDR at each frame size of RFC 2544
    Sizes(sizes::Arguments),
    /// Run the tests of RFC 2544: throughput, latency, frame loss, back-to-back frames, recovery, reset
    Rfc2544(rfc2544::Arguments),
    /// Compare results by a statistical test; exit code 1 if something is worse
    Compare(compare::Arguments),
    /// Merge --resume files into one, such as the shares of a grid that several machines measured
    Merge(merge::Arguments),
    /// Find what a frame and an interrupt cost on a real machine, for the simulator
    CalibrateHost(calibrate_host::Arguments),
    #[cfg(feature = "ports")]
    #[command(flatten)]
    Ports(ports::command::Command),
    /// Check the claims of papers in the simulator
    #[cfg(feature = "study")]
    Study(study::Arguments),
    /// Test the driver in the simulator under random faults of card, bus, host and wire
    #[cfg(feature = "faults")]
    SimulateFaults(faults::Arguments),
    /// List machines, chips, NICs, buses, hosts, stacks and drivers, and the constants of one with their
    /// sources
    List(list::Arguments),
    /// Print the JSON Schema of the results
    #[command(after_help = "Examples:\n  kpps schema > kpps.json      for validators and generators of code")]
    Schema,
    /// Print the manual page, or write the pages of all commands into a folder
    Man(man::Arguments),
    /// Print the completions for a shell
    Completions(completions::Arguments),
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    help::grouped(Arguments::command())
}

/// The command, and whether it would overwrite a file that it reads.
type Parsed = (Command, Result<(), Failure>);

fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Parsed, clap::Error> {
    let matches = command().try_get_matches_from(words)?;
    Ok((Arguments::from_arg_matches(&matches)?.command, output::refuse_overwriting(&matches)))
}

/// Runs the command with these words in the program that calls it. The first word is the command's name. Its
/// output goes to the caller.
///
/// # Errors
/// The reason why it failed. Earlier results have gone to the caller.
pub fn call(words: impl IntoIterator<Item = OsString>, session: &Session) -> Result<(), Failure> {
    let words: Vec<OsString> = words.into_iter().collect();
    #[cfg(feature = "ports")]
    kpps_tester::provenance::begin_command(&words);
    let (command, refused) = parse(words).map_err(|error| Failure::Input(in_one_line(&error)))?;
    refused?;
    run(command, session)
}

/// Measures some cells of a grid for a program that called kpps: those with these numbers, on this thread.
/// The words are those of `kpps grid` for the whole grid.
///
/// # Errors
/// Words that make no sense, or of another command.
pub fn cells(
    words: impl IntoIterator<Item = OsString>,
    cells: &[usize],
    session: &Session,
) -> Result<grid::Outcomes, Failure> {
    match parse(words).map_err(|error| Failure::Input(in_one_line(&error)))? {
        (Command::Grid(arguments), _) => grid::cells(arguments, cells, session),
        _ => Err(Failure::Input("only a grid has cells".into())),
    }
}

/// A session that has the process for itself.
pub fn session_of_process() -> Session {
    Session {
        #[cfg(feature = "ports")]
        at_exit: Some(kpps_ports::port::run::restore_priority),
        ..Session::default()
    }
}

/// Runs the command with these words as a process of its own does. The first word is the command's name.
/// Returns its exit code.
pub fn process(words: impl IntoIterator<Item = OsString>, session: &Session) -> u8 {
    let result = match parse(words) {
        Ok((command, refused)) => refused.and_then(|()| run(command, session)),
        // --help and --version.
        Err(help) if !help.use_stderr() => {
            let text = help.render();
            let is_terminal = std::io::stdout().is_terminal();
            session
                .print(&if is_terminal { text.ansi().to_string() } else { text.to_string() })
                .map_err(Into::into)
        }
        // A command line without a command gets the help, too.
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => help.exit(),
        Err(error) => Err(Failure::Input(in_one_line(&error))),
    };
    match result {
        // Or the reader of standard output has closed it (`| head`).
        Ok(()) | Err(Failure::OutputClosed) => 0,
        Err(failure) => {
            session.tell(&format!("kpps: {failure}"));
            failure.code()
        }
    }
}

fn run(command: Command, session: &Session) -> Result<(), Failure> {
    match command {
        Command::Curve(arguments) => curve::run(arguments, session),
        Command::Grid(arguments) => grid::run(arguments, session),
        Command::Transmit(arguments) => transmit::run(&arguments, session),
        Command::Scale(arguments) => scale::run(&arguments, session),
        Command::Profile(arguments) => profile::run(&arguments, session),
        Command::Trace(arguments) => trace::run(&arguments, session),
        Command::Ndr(arguments) => ndr::run(arguments, session),
        Command::Sizes(arguments) => sizes::run(arguments, session),
        Command::Rfc2544(arguments) => rfc2544::run(arguments, session),
        Command::Compare(arguments) => compare::run(&arguments, session),
        Command::Merge(arguments) => merge::run(&arguments, session),
        Command::CalibrateHost(arguments) => calibrate_host::run(arguments, session),
        #[cfg(feature = "ports")]
        Command::Ports(command) => command.run(session),
        #[cfg(feature = "study")]
        Command::Study(arguments) => study::run(&arguments, session),
        #[cfg(feature = "faults")]
        Command::SimulateFaults(arguments) => faults::run(&arguments, session),
        Command::List(arguments) => list::run(&arguments, session),
        Command::Schema => Ok(session.print(&kpps_documents::schema())?),
        Command::Man(arguments) => man::run(self::command(), &arguments, session),
        Command::Completions(arguments) => completions::run(&arguments, session),
    }
}

/// The message of a build without `kpps simulate-faults`, which names the build that has it.
const WITHOUT_FAULTS: &str = "`kpps simulate-faults` is not in this build; from the sources, \
    `cargo install --locked --path crates/shared/kpps --features faults` installs one that has it";

/// clap's message in one line.
fn in_one_line(error: &clap::Error) -> String {
    let list = "`kpps --help` lists the commands";
    let remedy = (error.kind() == ErrorKind::InvalidSubcommand).then_some(list);
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if name == "simulate-faults" => WITHOUT_FAULTS.into(),
        _ => kpps_rendering::text::complaint(&error.to_string(), remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_simulated_faults_names_the_one_that_has_them() {
        let without = || clap::Command::new("kpps").subcommand(clap::Command::new("curve"));
        let complaint =
            |words: [&str; 3]| without().try_get_matches_from(words).map_err(|it| in_one_line(&it)).err();
        assert_eq!(complaint(["kpps", "simulate-faults", "--trace"]).as_deref(), Some(WITHOUT_FAULTS));
        assert_eq!(complaint(["kpps", "help", "simulate-faults"]).as_deref(), Some(WITHOUT_FAULTS));
        let other = complaint(["kpps", "simulate", "faults"]);
        assert!(other.is_some_and(|it| it.starts_with("unrecognized subcommand 'simulate'")));
    }
}
