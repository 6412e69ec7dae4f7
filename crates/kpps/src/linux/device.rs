//! `kpps device`: the cards of this host and their drivers.

use crate::error::{Failure, print};
use crate::output::{Forms, Outputs};
use clap::{Args, Subcommand};
use kpps_ports::devices::{self, Device};
use kpps_ports::{Backend, pci::Address};
use kpps_report::rows_csv;
use kpps_results::inventory;
use std::fmt::Write;
use std::net::IpAddr;

/// Arguments of `kpps device`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps device list
  kpps device bind 0000:00:10.0                 to vfio if there is an IOMMU, otherwise to uio
  kpps device bind 0000:00:10.0 --backend uio   its use needs huge pages and root
  kpps device release 0000:00:10.0              back to the kernel's driver

kpps does not take a card from the kernel whose interface is up and has addresses, carries others (VLANs, a bridge) or is in
another network namespace: you may be connected through it. --force takes it anyway.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the network cards
    List {
        #[command(flatten)]
        outputs: Outputs,
    },
    /// Take a card from the kernel's driver, to use it as a uio: or vfio: port
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
        Command::List { outputs } => {
            let devices = devices::list();
            let document = document(&devices);
            outputs.open()?.publish(
                &document,
                &Forms {
                    screen: &|| table(&devices),
                    csv: &|| rows_csv(&document.devices),
                    page: &|_| String::new(),
                },
            )
        }
        Command::Bind { address, backend, force } => {
            let has_group = || {
                devices::list()
                    .iter()
                    .any(|device| device.address == *address && device.iommu_group.is_some())
            };
            let backend = backend.unwrap_or_else(|| if has_group() { Backend::Vfio } else { Backend::Uio });
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
