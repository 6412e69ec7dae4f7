//! `kpps dpdk`: the adapter to DPDK.

use crate::error::Failure;
use crate::session::Session;
use clap::{Args, Subcommand};

/// Arguments of `kpps dpdk`.
#[derive(Args)]
#[command(after_help = "Examples:
  apt-get install libdpdk-dev pkg-config gcc
  kpps dpdk build                      once, and after each new version of DPDK or kpps
  kpps dpdk
  kpps send dpdk:0000:3b:00.0          a card that is bound to vfio-pci, or whose driver DPDK shares

kpps uses DPDK by an adapter in C, which is compiled for the DPDK that is installed and kept in
~/.cache/kpps/dpdk (or $XDG_CACHE_HOME/kpps/dpdk). kpps itself needs no DPDK.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Compile the adapter for the DPDK that is installed
    #[command(after_help = "Examples:\n  kpps dpdk build\n  CC=clang kpps dpdk build")]
    Build,
}

/// Runs `kpps dpdk`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    match &arguments.command {
        None => Ok(session.print(&kpps_dpdk::status().to_string())?),
        Some(Command::Build) => {
            let path = kpps_dpdk::build().map_err(|why| Failure::Input(why.to_string()))?;
            Ok(session.print(&path.display().to_string())?)
        }
    }
}
