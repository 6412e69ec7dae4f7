//! The commands on ports, cards and guests.

use super::{agent, apps, calibrate, count, forward, send, trial};
use crate::error::Failure;
use clap::Subcommand;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Offer one load and account for every frame: between two ports, or on another testbed
    Trial(Box<trial::Arguments>),
    /// Measure the highest rate that a port can send here, and how evenly it sends below that
    Calibrate(calibrate::Arguments),
    /// Send tagged test frames from a port, at an exact rate or as fast as possible
    Send(Box<send::Arguments>),
    /// Count received test frames: lost, duplicated, reordered and corrupted ones
    Count(count::Arguments),
    /// Lend ports of this host to a tester on another host
    Agent(agent::Arguments),
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Linux(super::linux::Command),
    /// Forward frames between two ports, in both directions
    Forward(forward::Arguments),
    /// Run a learning bridge on ports
    Bridge(apps::BridgeArguments),
    /// Run an IPv4 router on ports and on their VLANs
    Route(apps::RouteArguments),
    /// Run the router with network address and port translation
    Nat(apps::NatArguments),
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Trial(arguments) => trial::run(*arguments),
            Self::Calibrate(arguments) => calibrate::run(&arguments),
            Self::Send(arguments) => send::run(&arguments),
            Self::Count(arguments) => count::run(&arguments),
            Self::Agent(arguments) => agent::run(&arguments),
            #[cfg(target_os = "linux")]
            Self::Linux(command) => command.run(),
            Self::Forward(arguments) => forward::run(&arguments),
            Self::Bridge(arguments) => apps::bridge(&arguments),
            Self::Route(arguments) => apps::route(&arguments),
            Self::Nat(arguments) => apps::nat(&arguments),
        }
    }
}
