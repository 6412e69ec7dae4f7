//! `kpps device`: the cards of this host and their drivers.

use crate::error::Failure;
use crate::output::Outputs;
use crate::session::Session;
use clap::{Args, Subcommand};
use kpps_ports::{Backend, devices, paced, pci::Address};

/// Arguments of `kpps device`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps device list
  kpps device bind 0000:00:10.0                 to vfio if there is an IOMMU, otherwise to uio
  kpps device bind 0000:00:10.0 --backend uio   its use needs huge pages and root
  kpps device release 0000:00:10.0              back to the kernel's driver

kpps does not take a card from the kernel whose interface is up and has addresses, carries others (VLANs, a
bridge) or is in another network namespace: you may be connected through it. --force takes it anyway.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the network cards
    #[command(after_help = "Examples:\n  kpps device list --json")]
    List {
        #[command(flatten)]
        outputs: Outputs,
    },
    /// Take a card from the kernel's driver, to use it as a uio: or vfio: port
    #[command(after_help = "Examples:\n  kpps device bind 0000:00:10.0 --backend uio")]
    Bind {
        /// Its PCI address: 0000:00:10.0
        address: Address,
        /// Kind of port: vfio or uio [default: vfio if the card has an IOMMU group, otherwise uio]
        #[arg(long)]
        backend: Option<Backend>,
        /// Take it even if its interface is in use
        #[arg(long)]
        force: bool,
    },
    /// Send copies of a frame from virtio cards that pace themselves: the source of `kpps lab`
    #[command(hide = true)]
    Pace {
        /// The frame in hexadecimal without FCS, ns between two cards, us between two refills, PCI addresses
        words: Vec<String>,
    },
    /// Give a card back to the kernel's driver
    #[command(after_help = "Examples:\n  kpps device release 0000:00:10.0")]
    Release {
        /// Its PCI address: 0000:00:10.0
        address: Address,
    },
}

/// Runs `kpps device`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    match &arguments.command {
        Command::List { outputs } => {
            kpps_tester::provenance::begin();
            Ok(outputs.open(session, "devices")?.publish(&kpps_tester::devices(), "")?)
        }
        Command::Bind { address, backend, force } => {
            let backend = backend.unwrap_or_else(|| devices::usual_backend(*address));
            let at = devices::bind(*address, backend, *force)?.address;
            Ok(session.print(&format!("{at} is bound to {}: use {backend}:{at}", backend.driver()))?)
        }
        Command::Pace { words } => {
            session.watch();
            Ok(session.print(&paced::run(words, || session.goes_on())?.to_string())?)
        }
        Command::Release { address } => {
            let device = devices::release(*address)?;
            let driver = device.driver.as_deref().unwrap_or("no driver");
            let interface =
                device.interface.map_or(String::new(), |interface| format!(": interface {}", interface.name));
            Ok(session.print(&format!("{} is bound to {driver}{interface}", device.address))?)
        }
    }
}
