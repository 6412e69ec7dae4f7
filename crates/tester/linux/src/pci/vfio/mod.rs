//! VFIO: groups of devices in a container with one address space.

pub(crate) mod ioctl;

use super::system::{self, System};
use super::{Address, physical};
use crate::{Backend, Error};
use kpps_platform::memory::{HUGE_PAGE, Mapping, Memory, Piece};
use rustix::io::Errno;
use std::collections::{BTreeMap, btree_map::Entry};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use vfio_bindings::bindings::vfio as abi;

/// Bus address of the memory: above a PC's low memory, below firmware and interrupt messages (fee0_0000h),
/// and within 32 bits, so that every card reaches it.
const IOVA: u64 = 16 << 20;
/// The end of the space below 32 bits.
const IOVA_END: u64 = 0xe000_0000;
/// Bus address of memory that is too large for that.
const IOVA_HIGH: u64 = 1 << 32;

/// Memory for at least `bytes`, in huge pages if there are any, with its bus addresses.
pub(crate) fn memory(system: &System, bytes: usize) -> Result<Memory, Error> {
    if is_unsafe(system) {
        // Physical addresses are right with and without an IOMMU.
        let (mapping, pieces) = physical::huge_pages(system, bytes)?;
        return Memory::new(mapping, &pieces).map_err(Error::io("using huge pages"));
    }
    let bytes = bytes.next_multiple_of(HUGE_PAGE);
    let mapping = Mapping::huge(bytes).or_else(|_| Mapping::ordinary(bytes));
    let mapping = mapping.map_err(Error::io("allocating memory"))?;
    let bus = if bytes as u64 <= IOVA_END - IOVA { IOVA } else { IOVA_HIGH };
    let piece = Piece { offset: 0, bytes: mapping.bytes(), bus };
    Memory::new(mapping, &[piece]).map_err(Error::io("allocating memory"))
}

/// Whether the administrator has allowed devices without an IOMMU: no-IOMMU mode.
pub(crate) fn is_unsafe(system: &System) -> bool {
    let allowed = system::text(&system.path("sys/module/vfio/parameters/enable_unsafe_noiommu_mode"));
    allowed.is_some_and(|allowed| allowed == "Y")
}

/// The file of a group, and whether the group is in no-IOMMU mode.
fn group_file(system: &System, group: u32) -> (PathBuf, bool) {
    let name = system::text(&system.path(format!("sys/kernel/iommu_groups/{group}/name")));
    match name.as_deref() == Some("vfio-noiommu") {
        true => (system.path(format!("dev/vfio/noiommu-{group}")), true),
        false => (system.path(format!("dev/vfio/{group}")), false),
    }
}

/// An address space, and the groups whose devices are in it.
#[derive(Debug)]
pub(crate) struct Container {
    file: File,
    groups: Mutex<Groups>,
}

#[derive(Debug, Default)]
struct Groups {
    /// A group can be opened only once, so it stays open for its next device.
    open: BTreeMap<u32, File>,
    /// Whether the container has its IOMMU and memory. It needs a group first.
    ready: bool,
}

impl Container {
    pub(crate) fn new(system: &System) -> Result<Self, Error> {
        let path = system.path("dev/vfio/vfio");
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::ModuleMissing("vfio-pci"),
            _ => match Errno::from_io_error(&error) {
                // The file exists, but not its driver.
                Some(Errno::NODEV | Errno::NXIO) => Error::ModuleMissing("vfio-pci"),
                _ => Error::file(&path)(error),
            },
        })?;
        Ok(Self { file, groups: Mutex::default() })
    }

    /// Opens a device of `group`. The first one maps all of `memory`.
    pub(crate) fn open(
        &self,
        system: &System,
        address: Address,
        group: u32,
        memory: &Memory,
    ) -> Result<File, Error> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let Groups { open, ready } = &mut *groups;
        let file = match open.entry(group) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let file = open_group(system, address, group)?;
                ioctl::set_container(&file, &self.file).map_err(Error::io("VFIO: adding a group"))?;
                entry.insert(file)
            }
        };
        if !*ready {
            match group_file(system, group).1 {
                true => ioctl::set_iommu(&self.file, abi::VFIO_NOIOMMU_IOMMU)
                    .map_err(Error::io("VFIO: selecting no-IOMMU mode"))?,
                false => self.prepare(memory)?,
            }
            *ready = true;
        }
        ioctl::open_device(file, &address.to_string()).map_err(Error::io(format!("VFIO: opening {address}")))
    }

    /// Takes the IOMMU and maps `memory`.
    fn prepare(&self, memory: &Memory) -> Result<(), Error> {
        let kinds = [abi::VFIO_TYPE1v2_IOMMU, abi::VFIO_TYPE1_IOMMU];
        let kind = kinds.into_iter().find(|kind| ioctl::has_extension(&self.file, *kind));
        let kind = kind.ok_or(Error::ModuleMissing("vfio_iommu_type1"))?;
        ioctl::set_iommu(&self.file, kind).map_err(Error::io(
            "VFIO: selecting the IOMMU (without interrupt remapping: `modprobe vfio_iommu_type1 allow_unsafe_interrupts=1`)",
        ))?;
        for piece in memory.pieces() {
            ioctl::map_dma(&self.file, memory, &piece).map_err(|error| match error.kind() {
                io::ErrorKind::OutOfMemory => Error::LockedMemory(piece.bytes),
                _ => Error::io("VFIO: mapping memory for devices")(error),
            })?;
        }
        Ok(())
    }
}

/// Opens a group whose devices are all left to VFIO.
fn open_group(system: &System, address: Address, group: u32) -> Result<File, Error> {
    let (path, _) = group_file(system, group);
    let file = File::options().read(true).write(true).open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => Error::InUse(address),
        _ => Error::file(&path)(error),
    })?;
    if ioctl::is_viable(&file).map_err(Error::io("VFIO: reading the status of a group"))? {
        return Ok(file);
    }
    let others = others_in_group(system, address);
    Err(Error::GroupNotViable { address, group, others })
}

/// The other devices in the IOMMU group of `address` that have a driver which is not VFIO's.
pub(crate) fn others_in_group(system: &System, address: Address) -> Vec<String> {
    let mut names = system::names(&system.device(address, "iommu_group/devices"));
    names.retain(|name| {
        let driver = name.parse().ok().and_then(|other| system::link(&system.device(other, "driver")));
        driver.is_some_and(|driver| driver != Backend::Vfio.driver() && driver != "pcieport")
    });
    names
}

/// Whether another process has the group open, as far as can be seen.
pub(crate) fn is_busy(system: &System, group: u32) -> bool {
    let opened = File::options().read(true).write(true).open(group_file(system, group).0);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}
