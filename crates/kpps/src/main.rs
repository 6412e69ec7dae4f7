//! The command `kpps`.
//!
//! Exit codes: 0 done; 1 a check failed (a selftest case, a trial that does not account for its frames); 2 bad input;
//! 130 interrupted, with what was measured kept.

mod agent;
mod apps;
mod capture;
mod certify;
mod compare;
mod count;
mod curve;
mod error;
mod forward;
mod grid;
mod interrupt;
mod journal;
#[cfg(target_os = "linux")]
mod linux;
mod list;
mod live;
mod ndr;
mod output;
mod points;
mod profile;
mod replay;
mod rfc2544;
mod room;
mod run;
mod scale;
mod search;
mod send;
mod sizes;
mod study;
mod testbed;
mod trace;
mod traffic;
mod transmit;
mod trial;
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
  kpps curve --app nat                     a NAT between two cards: also bridge, route, vlan-route
  kpps curve --json | jq '.series[].name'
  kpps grid --vary driver.rx_ring=16..1024*2 --vary load=10%..100%/10%
  kpps transmit --chip 82542               the other direction
  kpps scale --cpus 1..8                   one card, several queues and CPUs: where it stops
  kpps study morris2000                    what a paper claimed, checked claim by claim
  kpps selftest --on qemu --chip 82540em   the driver against QEMU's card
  kpps trace                               the bus under a flood: smooth, then stumbling
  kpps list drivers                        the presets
  kpps list chip 82542                     a chip's constants and their sources

  kpps device list                         real cards, and who drives them
  kpps send packet:veth0 --load 10kpps     tagged test frames by a real port …
  kpps count packet:veth1                  … and what became of them
  kpps trial --testbed packet:veth0,packet:veth1 --load 50kpps    a device between two ports; also ndr, curve, grid …
  kpps bridge uio:0000:00:10.0 uio:0000:00:11.0

Sizes are frame sizes with FCS (64 is the 60-byte buffer of a minimum frame); rates are frames per second.
Only ports need hardware or root (packet:, xdp:, auto:, uio:, vfio:): udp: and everything else do without."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Delivered against offered packets per second: several drivers on one machine, or a device between two ports
    Curve(curve::Arguments),
    /// Any parameters over ranges: a trial for each combination, continued where it was left
    Grid(grid::Arguments),
    /// How many frames each driver sends when its application always has another
    Transmit(transmit::Arguments),
    /// Packets per second against CPUs, with receive side scaling, and what stops them
    Scale(scale::Arguments),
    /// Where a driver's and a kernel's CPU time goes, by function and level, as a profiler shows it
    Profile(profile::Arguments),
    /// What documents claim, and what the machine room says to it
    Study(study::Arguments),
    /// What crosses the bus, the wire and the registers of a machine under load, and when
    Trace(trace::Arguments),
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Linux(linux::Command),
    /// The machines, chips, ring NICs, buses, hosts, stacks and drivers there are; with a name, its constants and their sources
    List(list::Arguments),
    /// Send tagged test frames by a port, at an exact rate or as fast as it goes
    Send(send::Arguments),
    /// What a port can send at most here, and how well it keeps a rate below that
    Certify(certify::Arguments),
    /// Count what a port receives: lost, duplicated, reordered and corrupted test frames
    Count(count::Arguments),
    /// One load between two ports with a device under test between them, and where every frame went
    Trial(trial::Arguments),
    /// The highest load without loss (NDR), and with little (PDR): between two ports, or in the machine room
    Ndr(ndr::Arguments),
    /// The same at each frame size of RFC 2544
    Sizes(sizes::Arguments),
    /// The tests of RFC 2544: throughput, latency, frame loss, back-to-back frames, recovery, reset
    Rfc2544(rfc2544::Arguments),
    /// Lend ports of this host to a tester elsewhere
    Agent(agent::Arguments),
    /// Whether results differ, by statistics; ends with 1 if something is worse
    Compare(compare::Arguments),
    /// Pass frames between two ports, both ways
    Forward(forward::Arguments),
    /// A learning bridge on ports
    Bridge(apps::BridgeArguments),
    /// An IPv4 router on ports, and on VLANs of them
    Route(apps::RouteArguments),
    /// The same router with network address and port translation
    Nat(apps::NatArguments),
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
        Command::Curve(arguments) => curve::run(arguments),
        Command::Grid(arguments) => grid::run(arguments),
        Command::Transmit(arguments) => transmit::run(&arguments),
        Command::Scale(arguments) => scale::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Study(arguments) => study::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Linux(command) => command.run(),
        Command::Send(arguments) => send::run(&arguments),
        Command::Certify(arguments) => certify::run(&arguments),
        Command::Count(arguments) => count::run(&arguments),
        Command::Trial(arguments) => trial::run(&arguments),
        Command::Ndr(arguments) => ndr::run(arguments),
        Command::Sizes(arguments) => sizes::run(arguments),
        Command::Rfc2544(arguments) => rfc2544::run(arguments),
        Command::Agent(arguments) => agent::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Forward(arguments) => forward::run(&arguments),
        Command::Bridge(arguments) => apps::bridge(&arguments),
        Command::Route(arguments) => apps::route(&arguments),
        Command::Nat(arguments) => apps::nat(&arguments),
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
