//! The files of the system. Tests replace the root folder, and the [`Kernel`] that executes writes.

use super::Address;
use crate::{Error, netlink};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use rustix::net::{AddressFamily, SocketType, netdevice};
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A program that this process starts holds a copy of each lock until it runs: that is awaited.
const FORK: Duration = Duration::from_secs(1);
/// The pause before a lock is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// The kernel's services other than files.
pub(crate) trait Kernel: Send + Sync {
    /// A write to an attribute in sysfs.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// The addresses of a network interface.
    fn addresses(&self, interface: &str) -> io::Result<Vec<IpAddr>>;
}

/// The real kernel.
struct Linux;

impl Kernel for Linux {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // An attribute is never created.
        io::Write::write_all(&mut File::options().write(true).open(path)?, text.as_bytes())
    }

    fn addresses(&self, interface: &str) -> io::Result<Vec<IpAddr>> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let index = netdevice::name_to_index(socket, interface)?;
        let all = netlink::dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        let of_this = all.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewAddress(address) if address.header.index == index => {
                Some(address.attributes)
            }
            _ => None,
        });
        // The interface's own address: `Address` is the other end's on a point-to-point link.
        Ok(of_this
            .filter_map(|attributes| {
                let local = attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Local(address) => Some(*address),
                    _ => None,
                });
                local.or_else(|| {
                    attributes.iter().find_map(|attribute| match attribute {
                        AddressAttribute::Address(address) => Some(*address),
                        _ => None,
                    })
                })
            })
            .collect())
    }
}

/// The running system, or a test's.
pub(crate) struct System {
    root: PathBuf,
    kernel: Box<dyn Kernel>,
}

impl System {
    /// The running system.
    pub(crate) fn host() -> Self {
        Self { root: PathBuf::from("/"), kernel: Box::new(Linux) }
    }

    #[cfg(test)]
    pub(crate) fn fake(root: &Path, kernel: impl Kernel + 'static) -> Self {
        Self { root: root.to_owned(), kernel: Box::new(kernel) }
    }

    /// The file with this absolute path, given without its leading slash.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// A file or folder of a PCI device.
    pub(crate) fn device(&self, address: Address, name: &str) -> PathBuf {
        self.path(format!("sys/bus/pci/devices/{address}")).join(name)
    }

    /// Writes an attribute.
    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), Error> {
        self.kernel.write(path, text).map_err(Error::file(path))
    }

    /// The addresses of a network interface.
    pub(crate) fn addresses(&self, interface: &str) -> io::Result<Vec<IpAddr>> {
        self.kernel.addresses(interface)
    }

    /// Locks a card for this process, until the result is dropped or the process ends. The lock is on the
    /// card's configuration space, which every user may open.
    pub(crate) fn lock(&self, address: Address) -> Result<File, Error> {
        let path = self.device(address, "config");
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoDevice(address),
            _ => Error::file(&path)(error),
        })?;
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if begin.elapsed() < FORK => std::thread::sleep(RETRY),
                Err(TryLockError::WouldBlock) => return Err(Error::InUse(address)),
                Err(TryLockError::Error(error)) => return Err(Error::io("flock")(error)),
            }
        }
    }
}

/// The text of an attribute, trimmed.
pub(crate) fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// A hexadecimal number with 0x before it, as in attributes.
pub(crate) fn hex(path: &Path) -> Option<u32> {
    u32::from_str_radix(text(path)?.strip_prefix("0x")?, 16).ok()
}

/// The file name of a symbolic link's target.
pub(crate) fn link(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned())
}

/// The names in a folder, sorted; none if there is no such folder.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}
