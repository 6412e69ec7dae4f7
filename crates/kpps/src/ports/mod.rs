//! Everything on ports of real systems: the tester's commands, agents, apps, cards, guests.

mod agent;
mod apps;
mod calibrate;
mod count;
mod forward;
#[cfg(target_os = "linux")]
mod linux;
mod live;
mod options;
mod pair;
mod replay;
mod send;
mod traffic;
mod trial;

#[cfg(target_os = "linux")]
pub use linux::guests;
pub use options::PortOptions;
pub use pair::PortPair;

use crate::error::Failure;
use clap::Subcommand;
use kpps_ports::Spec;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Offer one load and account for every frame: between two ports, or on another testbed
    Trial(Box<trial::Arguments>),
    /// Measure the highest rate that a port can send here, and how evenly it sends below that
    Calibrate(calibrate::Arguments),
    /// Send tagged test frames from a port, at an exact rate or as fast as possible
    Send(send::Arguments),
    /// Count received test frames: lost, duplicated, reordered and corrupted ones
    Count(count::Arguments),
    /// Lend ports of this host to a tester on another host
    Agent(agent::Arguments),
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Linux(linux::Command),
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

/// What the kinds of ports are, for the end of a command's help.
pub const KINDS: &str = "Ports:
  uio:ADDRESS, vfio:ADDRESS    a card with kpps' own driver (`kpps device list` shows the cards)
  xdp:INTERFACE[:QUEUE]        AF_XDP; the kernel does not see the frames
  packet:INTERFACE             packet sockets; the kernel sees the frames too: turn its offloads off
                               (ethtool -K INTERFACE tx off tso off gso off gro off)
  auto:INTERFACE               xdp: or packet:, whichever is better here; kpps says which and why
  udp:HOST:PORT, udp::PORT     a UDP socket, the second one listens; needs no privilege";

/// The ports with these names.
pub fn specs(names: &[String]) -> Result<Vec<Spec>, Failure> {
    Ok(names.iter().map(|name| name.parse()).collect::<Result<_, kpps_ports::Error>>()?)
}

/// Refuses names that are not those of ports.
pub fn check(names: &[String]) -> Result<(), Failure> {
    specs(names).map(drop)
}

impl From<kpps_ports::Error> for Failure {
    fn from(error: kpps_ports::Error) -> Self {
        Self::Input(error.to_string())
    }
}

/// A system call on an open port failed.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Check(error.to_string())
    }
}

impl From<kpps_ports::port::Trouble> for Failure {
    fn from(trouble: kpps_ports::port::Trouble) -> Self {
        Self::Check(trouble.to_string())
    }
}

impl From<kpps_tester::Error> for Failure {
    fn from(error: kpps_tester::Error) -> Self {
        match error {
            kpps_tester::Error::Trouble(_) => Self::Check(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}
