//! Errors: one line each, with the command that helps.

#[cfg(target_os = "linux")]
use crate::interface::OtherLink;
use crate::{Backend, Spec, pci::Address};
use kpps_datasheet::Chip;
use kpps_frames::Size;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a card, its memory or a port cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a PCI address.
    #[error("`{0}` is not a PCI address like 0000:00:10.0: `kpps device list` shows them")]
    BadAddress(String),
    /// Not a port.
    #[error(
        "`{0}` is not a port: give vfio:ADDRESS, uio:ADDRESS, auto:INTERFACE, xdp:INTERFACE[:QUEUE], packet:INTERFACE or udp:HOST:PORT"
    )]
    BadSpec(String),
    /// An interface without Ethernet headers.
    #[cfg(target_os = "linux")]
    #[error("{port} cannot be a port: {link}")]
    NotEthernet {
        /// The port.
        port: String,
        /// The link layer of the interface.
        link: OtherLink,
    },
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
    /// Frames are longer than a port sends.
    #[error("{} {port}, which sends at most {longest} B: {}", too_long(*frame, *asked), shorter(port, *asked))]
    TooLong {
        /// The number of the first such frame of a capture, from 1.
        frame: Option<u64>,
        /// The port by its name, with its host if that is another one.
        port: String,
        /// Bytes that were asked for, with FCS.
        asked: usize,
        /// Bytes of the longest frame, with FCS.
        longest: usize,
    },
    /// This process may not lock the memory that it needs.
    #[error("this process may not lock {} MiB of memory: {}{UNLOCK}", bytes >> 20,
        smaller.map_or(String::new(), |ring| format!("a ring of {ring} descriptors needs less, or ")))]
    LockedMemory {
        /// Bytes needed.
        bytes: usize,
        /// A ring size that needs less, if larger rings were asked for.
        smaller: Option<u16>,
    },
    /// None of these ports has rings whose size can be chosen.
    #[error(
        "rings of a chosen size are of cards that our driver drives, as vfio:ADDRESS and uio:ADDRESS: {0} is none"
    )]
    NoRing(String),
    /// The card does not support this ring size.
    #[error("a ring of {ring} descriptors: give a multiple of 8 from {least} to {most} for the {}", chip.name())]
    Ring {
        /// Descriptors asked for.
        ring: u16,
        /// The card's chip.
        chip: Chip,
        /// The fewest.
        least: u16,
        /// The most.
        most: u16,
    },
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
    /// This system does not have ports of this kind.
    #[error("{0}: this kind of port needs Linux; on this system use udp:HOST:PORT")]
    OnlyOnLinux(Spec),
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
pub(crate) const UNLOCK: &str = "`sudo prlimit --memlock=unlimited --pid $$`, \
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
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
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

impl Error {
    /// Checks that frames of `bytes` bytes are no longer than `longest`, the longest frame of `port`, if that
    /// is known. Both lengths are without FCS and VLAN tag.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn check_longest(port: &dyn fmt::Display, longest: Option<usize>, bytes: usize) -> Result<(), Self> {
        let fcs = usize::from(Size::FCS_BYTES);
        match longest.filter(|longest| bytes > *longest) {
            None => Ok(()),
            Some(longest) => Err(Self::TooLong {
                frame: None,
                port: port.to_string(),
                asked: bytes + fcs,
                longest: longest + fcs,
            }),
        }
    }

    /// As [`check_longest`](Self::check_longest), for each frame of a capture.
    ///
    /// # Errors
    /// [`Error::TooLong`], with the number of the first such frame.
    pub fn check_each(
        port: &dyn fmt::Display,
        longest: Option<usize>,
        lengths: impl IntoIterator<Item = usize>,
    ) -> Result<(), Self> {
        let checked = (1..).zip(lengths).map(|(n, bytes)| (n, Self::check_longest(port, longest, bytes)));
        for (number, result) in checked {
            result.map_err(|error| match error {
                Self::TooLong { port, asked, longest, .. } => {
                    Self::TooLong { frame: Some(number), port, asked, longest }
                }
                other => other,
            })?;
        }
        Ok(())
    }
}

/// The frame that is too long, in words.
fn too_long(frame: Option<u64>, asked: usize) -> String {
    match frame {
        Some(number) => {
            format!("frame {number} of the capture has {asked} B with FCS and does not fit")
        }
        None => format!("frames of {asked} B with FCS do not fit"),
    }
}

/// The remedy for frames that are too long for a port.
fn shorter(port: &str, asked: usize) -> String {
    let mtu = asked.saturating_sub(ETHERNET_AND_FCS);
    let port = port.rsplit('/').next().unwrap_or(port);
    let raise = |interface: &str| {
        format!("`ip link set dev {interface} mtu {mtu}`, and the same for each interface on the path")
    };
    match port.parse() {
        Ok(Spec::Xdp { interface, .. }) if asked > XDP_LONGEST => {
            format!("AF_XDP takes {XDP_LONGEST} B in one buffer; packet:{interface} takes 9018 B")
        }
        Ok(Spec::Packet(interface) | Spec::Auto(interface) | Spec::Xdp { interface, .. }) => {
            raise(&interface)
        }
        Ok(Spec::Card(..)) => {
            "kpps' driver takes no longer ones; the kernel's may, by packet:INTERFACE".into()
        }
        Ok(Spec::Udp { .. }) | Err(_) => {
            format!(
                "raise the MTU of all interfaces on the path to {mtu} (`ip link set dev INTERFACE mtu {mtu}`)"
            )
        }
    }
}

/// Bytes of an Ethernet header and the FCS.
const ETHERNET_AND_FCS: usize = 14 + 4;
/// Bytes of the longest frame with FCS that a chunk of AF_XDP's memory holds.
const XDP_LONGEST: usize = 2048 - 256 + 4;

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
                Error::LockedMemory { bytes: 64 << 20, smaller: None },
                "lock 64 MiB of memory: `sudo prlimit --memlock=unlimited --pid $$`",
            ),
            (
                Error::LockedMemory { bytes: 14 << 20, smaller: Some(256) },
                ": a ring of 256 descriptors needs less, or `sudo ",
            ),
            (
                Error::Ring { ring: 8, chip: Chip::I82540em, least: 64, most: 4096 },
                "a ring of 8 descriptors: give a multiple of 8 from 64 to 4096 for the 82540em",
            ),
            (
                Error::TooLong { frame: None, port: "packet:t0".into(), asked: 9018, longest: 1518 },
                "frames of 9018 B with FCS do not fit packet:t0, which sends at most 1518 B: `ip link set dev t0 mtu 9000`",
            ),
            (
                Error::TooLong { frame: None, port: "h2/xdp:t0".into(), asked: 9018, longest: 1796 },
                "packet:t0 takes 9018 B",
            ),
            (
                Error::TooLong { frame: None, port: "xdp:t0".into(), asked: 1600, longest: 1518 },
                "`ip link set dev t0 mtu 1582`",
            ),
            (
                Error::TooLong { frame: Some(7), port: "packet:t0".into(), asked: 3018, longest: 1518 },
                "frame 7 of the capture has 3018 B with FCS and does not fit packet:t0, which sends at most 1518 B: `ip link set dev t0 mtu 3000`",
            ),
            (
                Error::TooLong { frame: None, port: "udp:h:9".into(), asked: 9018, longest: 1514 },
                "INTERFACE mtu 9000",
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
