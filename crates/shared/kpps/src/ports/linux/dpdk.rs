//! `kpps dpdk`: the adapter to DPDK.

use crate::error::Failure;
use crate::output::Outputs;
use crate::session::Session;
use clap::{Args, Subcommand};
use kpps_documents::inventory::{Dpdk, DpdkAdapter};

/// Arguments of `kpps dpdk`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  apt-get install libdpdk-dev pkg-config gcc
  kpps dpdk build                      once, and after each new version of DPDK or kpps
  kpps dpdk --json
  kpps send dpdk:0000:3b:00.0          a card that is bound to vfio-pci, or whose driver DPDK shares

kpps uses DPDK by an adapter in C, which is compiled for the DPDK that is installed and kept in
~/.cache/kpps/dpdk (or $XDG_CACHE_HOME/kpps/dpdk). kpps itself needs no DPDK."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    outputs: Outputs,
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
        None => {
            kpps_tester::provenance::begin();
            Ok(arguments.outputs.open(session, "dpdk")?.publish(&found(), "")?)
        }
        Some(Command::Build) => {
            let path = kpps_dpdk::build().map_err(|why| Failure::Input(why.to_string()))?;
            Ok(session.print(&path.display().to_string())?)
        }
    }
}

/// DPDK's headers and the adapter, as far as they are there.
fn found() -> Dpdk {
    let kpps_dpdk::Status { headers, file, adapter } = kpps_dpdk::status();
    let loaded = file.and_then(|file| Ok((file, adapter?)));
    Dpdk {
        headers_missing: headers.as_ref().err().map(ToString::to_string),
        headers: headers.ok(),
        adapter_missing: loaded.as_ref().err().map(ToString::to_string),
        adapter: loaded.ok().map(|(file, dpdk)| DpdkAdapter {
            file: file.display().to_string(),
            dpdk: dpdk.trim_start_matches("DPDK ").to_owned(),
            interface: kpps_dpdk::ABI,
        }),
        ..Dpdk::default()
    }
}
