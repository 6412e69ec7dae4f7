//! The commands on ports, cards and guests.

use super::{agent, apps, calibrate, connections, count, forward, otg, send, trial};
use crate::error::Failure;
use crate::session::Session;
use clap::Subcommand;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Offer one load and account for every frame: between two ports, or on another testbed
    Trial(Box<trial::Arguments>),
    /// Measure the highest rate that a port of this host can send, and the gaps at lower rates
    Calibrate(calibrate::Arguments),
    /// Send tagged test frames from a port, at an exact rate or as fast as possible
    Send(Box<send::Arguments>),
    /// Count received test frames: lost, duplicated, reordered and corrupted ones
    Count(count::Arguments),
    /// Open, use and close TCP connections through a device: how many a second, how many at a time
    Connections(Box<connections::Arguments>),
    /// Lend ports of this host to a tester on another host
    Agent(agent::Arguments),
    /// Serve clients of the Open Traffic Generator interface (snappi): flows between ports of this host
    Otg(Box<otg::Arguments>),
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
    pub fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Trial(arguments) => trial::run(*arguments, session),
            Self::Calibrate(arguments) => calibrate::run(&arguments, session),
            Self::Send(arguments) => send::run(&arguments, session),
            Self::Count(arguments) => count::run(&arguments, session),
            Self::Connections(arguments) => connections::run(&arguments, session),
            Self::Agent(arguments) => agent::run(&arguments, session),
            Self::Otg(arguments) => otg::run(*arguments, session),
            #[cfg(target_os = "linux")]
            Self::Linux(command) => command.run(session),
            Self::Forward(arguments) => forward::run(&arguments, session),
            Self::Bridge(arguments) => apps::bridge(&arguments, session),
            Self::Route(arguments) => apps::route(&arguments, session),
            Self::Nat(arguments) => apps::nat(&arguments, session),
        }
    }
}
