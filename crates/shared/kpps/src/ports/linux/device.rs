//! `kpps device`: the cards of this host and their drivers.

use crate::error::Failure;
use crate::output::Outputs;
use crate::session::Session;
use clap::{Args, Subcommand};
use kpps_linux::{Backend, devices, paced, pci::Address};
use std::time::Duration;

/// Arguments of `kpps device`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps device list
  kpps device bind 0000:00:10.0                 to vfio if there is an IOMMU, otherwise to uio
  kpps device bind 0000:00:10.0 --backend uio   a uio: port needs huge pages, root
  kpps device release 0000:00:10.0              back to the kernel's driver

kpps does not take a card from the kernel if its interface is in another network namespace, or if the interface
is up and has addresses, carries other interfaces (VLANs) or is a port of a bridge: your own connection may use
it. --force takes the card anyway.")]
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

/// Runs a source of paced frames until the session ends. The words are those of [`Command::Pace`].
fn pace(words: &[String], session: &Session) -> Result<paced::Sent, Failure> {
    let bad = || kpps_ports::Error::BadSpec(words.join(" "));
    let [frame, apart, refill, addresses @ ..] = words else { return Err(bad().into()) };
    let frame = kpps_frames::raw::from_hex(frame).ok_or_else(bad)?;
    let (apart, refill) = (apart.parse().map_err(|_| bad())?, refill.parse().map_err(|_| bad())?);
    let addresses = addresses.iter().map(|word| word.parse()).collect::<Result<Vec<_>, _>>()?;
    let (apart, refill) = (Duration::from_nanos(apart), Duration::from_micros(refill));
    Ok(paced::Source::open(&addresses, &frame)?.run(apart, refill, || session.goes_on())?)
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
            Ok(session.print(&pace(words, session)?.to_string())?)
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
