//! Errors: one line each, with the command that helps.

use crate::{Backend, pci::Address};
use std::io;
use std::path::{Path, PathBuf};

/// Why a card, its memory or a service of the system cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a PCI address.
    #[error("`{0}` is not a PCI address like 0000:00:10.0: `kpps device list` shows them")]
    BadAddress(String),
    /// Not a backend.
    #[error("`{0}` is no backend: give vfio or uio")]
    BadBackend(String),
    /// There is no device at this address.
    #[error("there is no PCI device {0}: `kpps device list` shows all cards")]
    NoDevice(Address),
    /// The device at this address is not one of our cards.
    #[error(
        "{address} (PCI id {vendor:04x}:{device_id:04x}) is not an e1000 that kpps drives: `kpps device list` shows which are"
    )]
    NotE1000 {
        /// Its address.
        address: Address,
        /// PCI vendor id.
        vendor: u16,
        /// PCI device id.
        device_id: u16,
    },
    /// The card is bound to another driver than the one needed, or to none.
    #[error("{address} is bound to {}, not to {}: `kpps device bind {address} --backend {backend}`",
        driver.as_deref().unwrap_or("no driver"), backend.driver())]
    NotBound {
        /// The card.
        address: Address,
        /// Its driver.
        driver: Option<String>,
        /// The backend that was asked for.
        backend: Backend,
    },
    /// The card was offered to a driver, which did not take it.
    #[error("{driver} did not take {address} (it is bound to {} now): `dmesg | tail` shows the reason",
        now.as_deref().unwrap_or("no driver"))]
    NotTaken {
        /// The card.
        address: Address,
        /// The driver that did not take it.
        driver: &'static str,
        /// The driver it is bound to.
        now: Option<String>,
    },
    /// The card's network interface is in use.
    #[error("{name} ({address}) is in use: it is up and {why}: `ip link set {name} down` first, or force it")]
    InterfaceInUse {
        /// The card.
        address: Address,
        /// Its interface.
        name: String,
        /// Its use.
        why: String,
    },
    /// The card's network interface is in another network namespace, so its use is unknown.
    #[error(
        "the interface of {0} is in another network namespace and may be in use: \
        `ip -n NAMESPACE link set INTERFACE netns $$` gets it back, or force it"
    )]
    InterfaceElsewhere(Address),
    /// Another process, or another part of this one, has the card open.
    #[error(
        "{0} is in use by another process: `fuser -v /sys/bus/pci/devices/{0}/config /dev/vfio/* /dev/uio*` shows which"
    )]
    InUse(Address),
    /// Too few free huge pages.
    #[error("{wanted} huge pages of 2 MiB are needed and {free} are free: \
        `echo {} > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`", (*wanted).max(64))]
    NoHugePages {
        /// Pages needed.
        wanted: usize,
        /// Pages that are free.
        free: usize,
    },
    /// This user may not open a file.
    #[error("no permission for {}: run as root{}", .0.display(), chown(.0))]
    Permission(PathBuf),
    /// Only privileged users may read physical addresses.
    #[error(
        "no permission to read physical addresses, which UIO needs (cap_sys_admin): run as root, or use VFIO (`kpps device bind ADDRESS --backend vfio`)"
    )]
    NoPhysicalAddresses,
    /// The kernel lacks a driver.
    #[error("the kernel driver {0} is not loaded: `modprobe {0}`")]
    ModuleMissing(&'static str),
    /// The card is behind no IOMMU.
    #[error(
        "{0} is in no IOMMU group: boot with `intel_iommu=on` (or the like), load vfio with `enable_unsafe_noiommu_mode=1`, or use UIO (`kpps device bind {0} --backend uio`)"
    )]
    NoIommuGroup(Address),
    /// An IOMMU would translate the physical addresses that UIO gives the card.
    #[error(
        "{0} is behind an IOMMU, which UIO cannot program: use VFIO (`kpps device bind {0} --backend vfio`) or boot with `iommu=pt`"
    )]
    IommuInTheWay(Address),
    /// Other devices of the group are bound to kernel drivers.
    #[error("IOMMU group {group} of {address} has devices with other drivers ({}): `kpps device bind {} --backend vfio` each of them",
        others.join(", "), others.first().map_or("ADDRESS", String::as_str))]
    GroupNotViable {
        /// The card.
        address: Address,
        /// Its group.
        group: u32,
        /// Addresses of the others.
        others: Vec<String>,
    },
    /// This process may not lock the memory that it needs, in bytes.
    #[error("this process may not lock {} MiB of memory: {UNLOCK}", .0 >> 20)]
    LockedMemory(usize),
    /// The card's registers read as all ones.
    #[error(
        "{0} does not answer, its registers read as all ones: reset it by `echo 1 > /sys/bus/pci/devices/{0}/remove; echo 1 > /sys/bus/pci/rescan`"
    )]
    Gone(Address),
    /// The card or its backend cannot do this.
    #[error("{address}: {what}")]
    Unsupported {
        /// The card.
        address: Address,
        /// The missing ability.
        what: &'static str,
    },
    /// Any other refusal of the system.
    #[error("{what}: {source}")]
    Io {
        /// The failed action.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

/// How a user may lock more memory than the default. The user cannot raise the limit without root.
pub const UNLOCK: &str = "`sudo prlimit --memlock=unlimited --pid $$`, \
    or for good a line `USER - memlock unlimited` in /etc/security/limits.d/kpps.conf";

/// A device file can be given to a user; files in sysfs cannot.
fn chown(path: &Path) -> String {
    if path.starts_with("/dev") {
        format!(", or `sudo chown $USER {}`", path.display())
    } else {
        String::new()
    }
}

impl Error {
    /// The system refused `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    #[cfg(target_os = "linux")]
    /// The system refused an operation on the file at `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission(path.to_owned()),
            _ => Self::Io { what: path.display().to_string(), source },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_line_with_the_command_that_helps() {
        let address: Address = "00:10.0".parse().unwrap();
        let file = || Error::file(Path::new("/dev/uio0"));
        for (error, command) in [
            (Error::BadAddress("x".into()), "kpps device list"),
            (Error::NoDevice(address), "kpps device list"),
            (
                Error::NotBound { address, driver: Some("e1000".into()), backend: Backend::Uio },
                "bound to e1000, not to uio_pci_generic: `kpps device bind 0000:00:10.0 --backend uio`",
            ),
            (
                Error::NoHugePages { wanted: 8, free: 1 },
                "echo 64 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            ),
            (Error::NoHugePages { wanted: 80, free: 1 }, "echo 80 > "),
            (file()(io::ErrorKind::PermissionDenied.into()), "sudo chown $USER /dev/uio0"),
            (
                Error::file(Path::new("/sys/x"))(io::ErrorKind::PermissionDenied.into()),
                "for /sys/x: run as root",
            ),
            (Error::NoPhysicalAddresses, "cap_sys_admin"),
            (Error::IommuInTheWay(address), "--backend vfio"),
            (Error::ModuleMissing("uio_pci_generic"), "modprobe uio_pci_generic"),
            (Error::NoIommuGroup(address), "--backend uio"),
            (Error::InterfaceElsewhere(address), "link set INTERFACE netns $$"),
            (Error::InUse(address), "fuser -v"),
            (
                Error::LockedMemory(64 << 20),
                "lock 64 MiB of memory: `sudo prlimit --memlock=unlimited --pid $$`",
            ),
            (
                Error::GroupNotViable { address, group: 7, others: vec!["0000:00:11.0".into()] },
                "kpps device bind 0000:00:11.0 --backend vfio",
            ),
        ] {
            let line = error.to_string();
            assert!(line.contains(command) && !line.contains('\n') && !line.contains("  "), "{line}");
        }
        assert!(matches!(file()(io::ErrorKind::NotFound.into()), Error::Io { .. }));
    }
}
