//! `kpps device`: the cards, and who drives them.

use crate::error::{Failure, print, print_json};
use clap::{Args, Subcommand};
use kpps_ports::devices::{self, Device};
use kpps_ports::{Backend, pci::Address};
use kpps_report::inventory;
use std::fmt::Write;
use std::net::IpAddr;

/// Arguments of `kpps device`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps device list
  kpps device bind 0000:00:10.0                 to vfio if there is an IOMMU, else to uio
  kpps device bind 0000:00:10.0 --to uio        needs huge pages and root to use
  kpps device release 0000:00:10.0              back to the kernel's driver

A card whose interface is up and has addresses, or carries others (VLANs, a bridge), or is in another network
namespace, is not taken away from the kernel unless --force is given: it may be the one that you are
connected by.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The network cards there are
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a card from the kernel's driver, for `kpps send uio:…` and the like
    Bind {
        /// Its PCI address: 0000:00:10.0
        address: Address,
        /// For which kind of port: vfio or uio [default: vfio if the card has an IOMMU group, else uio]
        #[arg(long)]
        to: Option<Backend>,
        /// Even if its interface is in use
        #[arg(long)]
        force: bool,
    },
    /// Give a card back to the kernel's driver
    Release {
        /// Its PCI address: 0000:00:10.0
        address: Address,
    },
}

/// Runs `kpps device`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let input = |e: kpps_ports::Error| Failure::Input(e.to_string());
    match &arguments.command {
        Command::List { json: true } => print_json(&document(&devices::list())),
        Command::List { json: false } => print(&table(&devices::list())),
        Command::Bind { address, to, force } => {
            let has_group = || {
                devices::list()
                    .iter()
                    .any(|device| device.address == *address && device.iommu_group.is_some())
            };
            let backend = to.unwrap_or_else(|| if has_group() { Backend::Vfio } else { Backend::Uio });
            let device = devices::bind(*address, backend, *force).map_err(input)?;
            print(&format!(
                "{} is bound to {}: use {backend}:{}",
                device.address,
                backend.driver(),
                device.address
            ))
        }
        Command::Release { address } => {
            let device = devices::release(*address).map_err(input)?;
            let driver = device.driver.as_deref().unwrap_or("no driver");
            let interface =
                device.interface.map_or(String::new(), |interface| format!(": interface {}", interface.name));
            print(&format!("{} is bound to {driver}{interface}", device.address))
        }
    }
}

fn table(devices: &[Device]) -> String {
    if devices.is_empty() {
        return "no network cards on the PCI bus".into();
    }
    let mut text = format!(
        "{:<12}  {:<9}  {:<9}  {:<16}  {:<12}  {:<5}  {}\n",
        "address", "PCI id", "chip", "driver", "interface", "IOMMU", "state"
    );
    for device in devices {
        let name = device.interface.as_ref().map_or("-", |interface| &interface.name);
        let _ = writeln!(
            text,
            "{:<12}  {:04x}:{:04x}  {:<9}  {:<16}  {:<12}  {:<5}  {}",
            device.address.to_string(),
            device.vendor,
            device.device_id,
            device.chip.map_or("-", |chip| chip.name()),
            device.driver.as_deref().unwrap_or("-"),
            name,
            device.iommu_group.map_or("-".into(), |group| group.to_string()),
            state(device)
        );
    }
    text
}

/// What can be done with the card now.
fn state(device: &Device) -> String {
    match (&device.interface, device.backend(), device.chip) {
        (_, Some(backend), Some(_)) => format!("ready: {backend}:{}", device.address),
        (_, _, None) => "not an e1000".into(),
        _ if device.elsewhere => "in another network namespace".into(),
        (Some(interface), ..) if interface.up => {
            let addresses = interface.addresses.as_deref().map_or(vec!["addresses unknown".into()], texts);
            let master = interface.master.iter().map(|master| format!("part of {master}"));
            let carries = interface.carries.iter().map(|name| format!("carries {name}"));
            let uses: Vec<_> = addresses.into_iter().chain(master).chain(carries).collect();
            if uses.is_empty() { "up, unused".into() } else { format!("up: {}", uses.join(", ")) }
        }
        _ => "unused".into(),
    }
}

fn texts(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

fn document(devices: &[Device]) -> inventory::Devices {
    let entry = |device: &Device| inventory::DeviceEntry {
        address: device.address.to_string(),
        vendor: format!("{:04x}", device.vendor),
        device: format!("{:04x}", device.device_id),
        chip: device.chip.map(|chip| chip.name().into()),
        driver: device.driver.clone(),
        interface: device.interface.as_ref().map(|interface| inventory::DeviceInterface {
            name: interface.name.clone(),
            up: interface.up,
            master: interface.master.clone(),
            carries: interface.carries.clone(),
            addresses: interface.addresses.as_deref().map(texts),
        }),
        elsewhere: device.elsewhere,
        iommu_group: device.iommu_group,
        port: device.backend().map(|backend| format!("{backend}:{}", device.address)),
    };
    inventory::Devices { devices: devices.iter().map(entry).collect(), ..inventory::Devices::default() }
}
