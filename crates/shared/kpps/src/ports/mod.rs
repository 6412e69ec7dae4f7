//! Everything on ports of real systems: the tester's commands, agents, apps, cards, guests.

mod agent;
mod apps;
mod calibrate;
mod capture;
pub mod command;
mod connections;
mod cores;
mod count;
mod forward;
mod late;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
#[path = "../no_guests.rs"]
mod no_guests;
mod options;
mod otg;
mod pair;
mod replay;
mod send;
mod traffic;
mod trial;

pub use kpps_tester::provenance::provenance;
#[cfg(target_os = "linux")]
pub use linux::guests::Guests;
#[cfg(not(target_os = "linux"))]
pub use no_guests::Guests;
pub use options::PortOptions;
pub use pair::{PortPair, Ports};

use crate::error::Failure;
use kpps_ports::Spec;

/// The kinds of ports, for the end of a command's help.
pub const KINDS: &str = "Ports:
  uio:ADDRESS, vfio:ADDRESS    a card with kpps' own driver (`kpps device list` shows the cards)
  xdp:INTERFACE[:QUEUE]        AF_XDP; the kernel does not see the frames
  packet:INTERFACE             packet sockets; the kernel sees the frames too: turn its offloads off
                               (ethtool -K INTERFACE tx off tso off gso off gro off)
  auto:INTERFACE               xdp: or packet:, whichever is better here; kpps says which and why
  dpdk:DEVICE[,ARGUMENT=VALUE] a device that DPDK drives, as dpdk:0000:3b:00.0 (see `kpps dpdk`)
  udp:HOST:PORT, udp::PORT     a UDP socket, the second one listens; needs no privilege";

/// The ports with these names.
pub fn specs(names: &[String]) -> Result<Vec<Spec>, Failure> {
    Ok(names.iter().map(|name| name.parse()).collect::<Result<_, kpps_ports::Error>>()?)
}

impl From<kpps_tester::Error> for Failure {
    fn from(error: kpps_tester::Error) -> Self {
        match error {
            kpps_tester::Error::Trouble(_) => Self::Check(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}
