//! The network cards of this host, as a document.

use kpps_documents::inventory::{DeviceEntry, DeviceInterface, Devices};
use kpps_linux::devices::{self, Device};

/// The network cards of this host.
pub fn devices() -> Devices {
    let entry = |device: &Device| DeviceEntry {
        address: device.address.to_string(),
        vendor: format!("{:04x}", device.vendor),
        device: format!("{:04x}", device.device_id),
        chip: device.chip.map(|chip| chip.name().into()),
        driver: device.driver.clone(),
        interface: device.interface.as_ref().map(|interface| DeviceInterface {
            name: interface.name.clone(),
            up: interface.up,
            master: interface.master.clone(),
            carries: interface.carries.clone(),
            addresses: interface.addresses.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
        }),
        in_other_namespace: device.in_other_namespace,
        iommu_group: device.iommu_group,
        port: device.backend().map(|backend| format!("{backend}:{}", device.address)),
    };
    Devices { devices: devices::list().iter().map(entry).collect(), ..Devices::default() }
}
