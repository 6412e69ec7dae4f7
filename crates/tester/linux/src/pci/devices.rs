//! Network cards, and the drivers that they are bound to.
//!
//! All calls can be repeated, and leave a card with its old driver if the new one does not take it.

use super::system::{self, System};
use super::{Address, vfio};
use crate::{Backend, Error};
use kpps_datasheet::Chip;
use std::net::IpAddr;

/// Intel's PCI vendor id (SDM 4.1).
const INTEL: u16 = 0x8086;
/// PCI class of network controllers (the top byte of three).
const CLASS_NETWORK: u32 = 0x02;
/// The kernel's IFF_UP.
const IFF_UP: u32 = 1;
/// The value that clears `driver_override`.
const NONE: &str = "\n";

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its PCI address.
    pub address: Address,
    /// PCI vendor id.
    pub vendor: u16,
    /// PCI device id.
    pub device_id: u16,
    /// The chip, if our driver knows it.
    pub chip: Option<Chip>,
    /// The kernel driver it is bound to.
    pub driver: Option<String>,
    /// Its network interface, if a network driver has it.
    pub interface: Option<Interface>,
    /// Whether its network interface is in another network namespace, which cannot be seen from here.
    pub in_other_namespace: bool,
    /// Its IOMMU group, if there is an IOMMU.
    pub iommu_group: Option<u32>,
}

impl Device {
    /// The chip.
    ///
    /// # Errors
    /// [`Error::NotE1000`] if our driver does not know it.
    pub fn e1000(&self) -> Result<Chip, Error> {
        let &Self { address, vendor, device_id, chip, .. } = self;
        chip.ok_or(Error::NotE1000 { address, vendor, device_id })
    }

    /// The backend that it is bound to.
    pub fn backend(&self) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| Some(backend.driver()) == self.driver.as_deref())
    }
}

/// A network interface of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// Its addresses, without those of IPv6 that every interface gives itself (link-local); `None` if the
    /// system does not report them.
    pub addresses: Option<Vec<IpAddr>>,
    /// The bridge or bond that it is a port of.
    pub master: Option<String>,
    /// Other interfaces on top of it, as VLANs: they may have addresses.
    pub carries: Vec<String>,
}

impl Interface {
    /// Its use, if it is in use.
    fn used_for(&self) -> Option<String> {
        if !self.up {
            return None;
        }
        if let Some(master) = &self.master {
            return Some(format!("a port of {master}"));
        }
        if !self.carries.is_empty() {
            return Some(format!("carries {}", self.carries.join(", ")));
        }
        let Some(addresses) = &self.addresses else {
            return Some("perhaps has addresses, which cannot be listed".into());
        };
        let addresses: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
        (!addresses.is_empty()).then(|| format!("has addresses ({})", addresses.join(", ")))
    }
}

/// All network cards, in order of address.
pub fn list() -> Vec<Device> {
    list_in(&System::host())
}

/// The usual way to a card from user space: VFIO if an IOMMU isolates it, otherwise UIO.
pub fn usual_backend(address: Address) -> Backend {
    let is_isolated = list().iter().any(|it| it.address == address && it.iommu_group.is_some());
    if is_isolated { Backend::Vfio } else { Backend::Uio }
}

/// Binds a card to `backend`. `force` does so even if its interface is in use.
///
/// # Errors
/// [`Error::NoDevice`], [`Error::NotE1000`], [`Error::ModuleMissing`], [`Error::NoIommuGroup`],
/// [`Error::IommuInTheWay`], [`Error::InterfaceInUse`], [`Error::InterfaceElsewhere`], [`Error::InUse`],
/// [`Error::Permission`], [`Error::NotTaken`].
pub fn bind(address: Address, backend: Backend, force: bool) -> Result<Device, Error> {
    bind_in(&System::host(), address, backend, force)
}

/// Binds a card to the kernel's own driver for it again, if there is one.
///
/// # Errors
/// [`Error::NoDevice`], [`Error::NotE1000`], [`Error::InUse`], [`Error::Permission`].
pub fn release(address: Address) -> Result<Device, Error> {
    release_in(&System::host(), address)
}

fn list_in(system: &System) -> Vec<Device> {
    let addresses = system::names(&system.path("sys/bus/pci/devices"));
    let devices = addresses.iter().filter_map(|name| device(system, name.parse().ok()?).ok());
    devices.filter(|device| device.chip.is_some() || is_network(system, device.address)).collect()
}

fn is_network(system: &System, address: Address) -> bool {
    system::hex(&system.device(address, "class")).is_some_and(|class| class >> 16 == CLASS_NETWORK)
}

/// The device at `address`, whatever it is.
pub(crate) fn device(system: &System, address: Address) -> Result<Device, Error> {
    let number = |name| system::hex(&system.device(address, name)).map(|id| id as u16);
    let (Some(vendor), Some(device_id)) = (number("vendor"), number("device")) else {
        return Err(Error::NoDevice(address));
    };
    let group = system::link(&system.device(address, "iommu_group"));
    let interface = interface(system, address);
    // The kernel creates this folder with the first interface, and shows in it those of one namespace.
    let in_other_namespace = interface.is_none() && system.device(address, "net").exists();
    Ok(Device {
        address,
        vendor,
        device_id,
        chip: if vendor == INTEL { Chip::from_device_id(device_id) } else { None },
        driver: system::link(&system.device(address, "driver")),
        interface,
        in_other_namespace,
        iommu_group: group.and_then(|number| number.parse().ok()),
    })
}

fn interface(system: &System, address: Address) -> Option<Interface> {
    let name = system::names(&system.device(address, "net")).into_iter().next()?;
    let folder = system.device(address, "net").join(&name);
    let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let mut addresses = system.addresses(&name).ok();
    if let Some(addresses) = &mut addresses {
        addresses.retain(|address| !link_local(address));
    }
    let up = system::hex(&folder.join("flags")).is_some_and(|flags| flags & IFF_UP != 0);
    let master = system::link(&folder.join("master"));
    // The `upper_*` links name all interfaces on top, the master included.
    let upper =
        system::names(&folder).into_iter().filter_map(|link| Some(link.strip_prefix("upper_")?.to_owned()));
    let carries = upper.filter(|name| Some(name) != master.as_ref()).collect();
    Some(Interface { name, up, addresses, master, carries })
}

/// Whether an IOMMU translates the device's addresses.
pub(crate) fn is_translated(system: &System, device: &Device) -> bool {
    let Some(group) = device.iommu_group else { return false };
    // "DMA", "DMA-FQ": the kernel's own translation; "identity": none.
    let kind = system::text(&system.path(format!("sys/kernel/iommu_groups/{group}/type")));
    kind.is_some_and(|kind| kind.starts_with("DMA"))
}

fn bind_in(system: &System, address: Address, backend: Backend, force: bool) -> Result<Device, Error> {
    let found = device(system, address)?;
    found.e1000()?;
    if found.backend() == Some(backend) {
        return Ok(found);
    }
    if !system.path("sys/bus/pci/drivers").join(backend.driver()).exists() {
        return Err(Error::ModuleMissing(backend.driver()));
    }
    if backend == Backend::Vfio && found.iommu_group.is_none() && !vfio::is_unsafe(system) {
        return Err(Error::NoIommuGroup(address));
    }
    if backend == Backend::Uio && is_translated(system, &found) {
        return Err(Error::IommuInTheWay(address));
    }
    if let Some(interface) = found.interface.as_ref().filter(|_| !force)
        && let Some(why) = interface.used_for()
    {
        return Err(Error::InterfaceInUse { address, name: interface.name.clone(), why });
    }
    if found.in_other_namespace && !force {
        return Err(Error::InterfaceElsewhere(address));
    }
    let _lock = idle(system, &found)?;
    system.write(&system.device(address, "driver_override"), backend.driver())?;
    let given = change(system, &found);
    let now = device(system, address)?;
    if given.is_ok() && now.backend() == Some(backend) {
        return Ok(now);
    }
    // Restore the old driver, as far as possible.
    let _ = system.write(&system.device(address, "driver_override"), NONE);
    let _ = probe(system, address);
    given?;
    Err(Error::NotTaken { address, driver: backend.driver(), now: device(system, address)?.driver })
}

fn release_in(system: &System, address: Address) -> Result<Device, Error> {
    let found = device(system, address)?;
    found.e1000()?;
    let _lock = if found.backend().is_some() { Some(idle(system, &found)?) } else { None };
    system.write(&system.device(address, "driver_override"), NONE)?;
    if found.backend().is_some() {
        change(system, &found)?;
    } else if found.driver.is_none() {
        probe(system, address)?;
    }
    device(system, address)
}

/// Checks that no process has the card open, and keeps others from opening it.
fn idle(system: &System, device: &Device) -> Result<impl Sized + use<>, Error> {
    let lock = system.lock(device.address)?;
    // Programs other than this one do not know the lock. Unbinding a card of an open group would wait until
    // the group is closed.
    match (device.backend(), device.iommu_group) {
        (Some(Backend::Vfio), Some(group)) if vfio::is_busy(system, group) => {
            Err(Error::InUse(device.address))
        }
        _ => Ok(lock),
    }
}

/// Unbinds the device and offers it to matching drivers.
fn change(system: &System, device: &Device) -> Result<(), Error> {
    if device.driver.is_some() {
        let path = system.device(device.address, "driver").join("unbind");
        system.write(&path, &device.address.to_string())?;
    }
    probe(system, device.address)
}

fn probe(system: &System, address: Address) -> Result<(), Error> {
    let path = system.path("sys/bus/pci/drivers_probe");
    match system.write(&path, &address.to_string()) {
        // Some kernels report a driver's refusal here; the driver that has the card tells.
        Err(Error::Io { .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
