//! The ioctls of VFIO (linux/vfio.h), each as a safe function.

use crate::sys;
use kpps_platform::memory::{Memory, Piece};
use rustix::ioctl::{Opcode, opcode};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use vfio_bindings::bindings::vfio as abi;

/// Interrupt vectors at most: the 82574 has five.
pub(crate) const MAX_VECTORS: usize = 8;

/// The ioctls that are used here, by their numbers in linux/vfio.h.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Call {
    CheckExtension = 1,
    SetIommu = 2,
    GroupStatus = 3,
    GroupSetContainer = 4,
    GroupDevice = 6,
    DeviceInfo = 7,
    RegionInfo = 8,
    IrqInfo = 9,
    SetIrqs = 10,
    Reset = 11,
    MapDma = 13,
}

const fn request(number: u8) -> Opcode {
    opcode::none(abi::VFIO_TYPE, abi::VFIO_BASE as u8 + number)
}

impl Call {
    /// Calls it with the address of `argument`.
    ///
    /// # Safety
    /// `T` is what the kernel reads and writes for this call, and an address in it is valid.
    unsafe fn with<T>(self, file: &File, argument: &mut T) -> io::Result<i32> {
        // SAFETY: `argument` lives; the caller vouches for its type.
        unsafe { sys::ioctl(file, request(self as u8), &raw mut *argument) }
    }

    /// Calls it with a number.
    ///
    /// # Safety
    /// The kernel takes the argument of this call as a number.
    unsafe fn with_number(self, file: &File, number: u32) -> io::Result<i32> {
        // SAFETY: the caller's promise.
        unsafe {
            sys::ioctl(file, request(self as u8), std::ptr::without_provenance_mut::<()>(number as usize))
        }
    }
}

/// `vfio_irq_set` with room for eventfds.
#[repr(C)]
struct IrqSet {
    argsz: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    data: [i32; MAX_VECTORS],
}

/// Size of `vfio_irq_set` without data, in bytes.
const IRQ_SET_HEADER: usize = 20;

/// A part of a device's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) mappable: bool,
}

/// Whether the container offers this kind of IOMMU.
pub(crate) fn has_extension(container: &File, kind: u32) -> bool {
    // SAFETY: takes a number.
    unsafe { Call::CheckExtension.with_number(container, kind) }.is_ok_and(|answer| answer > 0)
}

/// Gives a container that has a group this kind of IOMMU.
pub(crate) fn set_iommu(container: &File, kind: u32) -> io::Result<()> {
    // SAFETY: takes a number.
    unsafe { Call::SetIommu.with_number(container, kind) }.map(drop)
}

/// Whether all devices of a group are bound to VFIO or to no driver.
pub(crate) fn is_viable(group: &File) -> io::Result<bool> {
    let mut status = abi::vfio_group_status { argsz: size_of::<abi::vfio_group_status>() as u32, flags: 0 };
    // SAFETY: the kernel writes at most `argsz` bytes, which are `status`.
    unsafe { Call::GroupStatus.with(group, &mut status) }?;
    Ok(status.flags & abi::VFIO_GROUP_FLAGS_VIABLE != 0)
}

/// Puts a group into a container.
pub(crate) fn set_container(group: &File, container: &File) -> io::Result<()> {
    // SAFETY: the kernel reads one `int`.
    unsafe { Call::GroupSetContainer.with(group, &mut container.as_raw_fd()) }.map(drop)
}

/// Opens the device of this name ("0000:00:10.0") in a group.
pub(crate) fn open_device(group: &File, name: &str) -> io::Result<File> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the kernel reads a string that ends in 0, which a `CString` does, and writes nothing.
    let descriptor =
        unsafe { sys::ioctl(group, request(Call::GroupDevice as u8), name.as_ptr().cast_mut()) }?;
    // SAFETY: a new descriptor, which nothing else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Whether the device can be reset.
pub(crate) fn can_reset(device: &File) -> io::Result<bool> {
    let argsz = size_of::<abi::vfio_device_info>() as u32;
    let mut info = abi::vfio_device_info { argsz, ..Default::default() };
    // SAFETY: the kernel writes at most `argsz` bytes, which are `info`.
    unsafe { Call::DeviceInfo.with(device, &mut info) }?;
    Ok(info.flags & abi::VFIO_DEVICE_FLAGS_RESET != 0)
}

/// Resets the device. The kernel restores its configuration space.
pub(crate) fn reset(device: &File) -> io::Result<()> {
    // SAFETY: has no argument, and touches no memory of ours; the mapping of the BAR stays.
    unsafe { Call::Reset.with_number(device, 0) }.map(drop)
}

/// Where in the device's file a region is.
pub(crate) fn region(device: &File, index: u32) -> io::Result<Region> {
    let argsz = size_of::<abi::vfio_region_info>() as u32;
    let mut info = abi::vfio_region_info { argsz, index, ..Default::default() };
    // SAFETY: the kernel writes at most `argsz` bytes, which are `info`.
    unsafe { Call::RegionInfo.with(device, &mut info) }?;
    let mappable = info.flags & abi::VFIO_REGION_INFO_FLAG_MMAP != 0;
    Ok(Region { offset: info.offset, bytes: info.size, mappable })
}

/// How many interrupts of a kind the device has.
pub(crate) fn irqs(device: &File, index: u32) -> io::Result<u32> {
    let argsz = size_of::<abi::vfio_irq_info>() as u32;
    let mut info = abi::vfio_irq_info { argsz, index, ..Default::default() };
    // SAFETY: the kernel writes at most `argsz` bytes, which are `info`.
    unsafe { Call::IrqInfo.with(device, &mut info) }?;
    Ok(info.count)
}

fn set(device: &File, index: u32, flags: u32, count: u32, events: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut data = [-1; MAX_VECTORS];
    if events.len() > data.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (slot, event) in data.iter_mut().zip(events) {
        *slot = event.as_raw_fd();
    }
    let argsz = (IRQ_SET_HEADER + events.len() * size_of::<i32>()) as u32;
    let mut set = IrqSet { argsz, flags, index, start: 0, count, data };
    // SAFETY: the kernel reads `argsz` bytes, which `set` has.
    unsafe { Call::SetIrqs.with(device, &mut set) }.map(drop)
}

/// Signals interrupts of this kind through `events`, one each.
pub(crate) fn signal(device: &File, index: u32, events: &[BorrowedFd<'_>]) -> io::Result<()> {
    let flags = abi::VFIO_IRQ_SET_DATA_EVENTFD | abi::VFIO_IRQ_SET_ACTION_TRIGGER;
    set(device, index, flags, events.len() as u32, events)
}

/// Disables interrupts of this kind.
pub(crate) fn silence(device: &File, index: u32) -> io::Result<()> {
    set(device, index, abi::VFIO_IRQ_SET_DATA_NONE | abi::VFIO_IRQ_SET_ACTION_TRIGGER, 0, &[])
}

/// Unmasks the interrupt line.
pub(crate) fn unmask(device: &File, index: u32) -> io::Result<()> {
    set(device, index, abi::VFIO_IRQ_SET_DATA_NONE | abi::VFIO_IRQ_SET_ACTION_UNMASK, 1, &[])
}

/// Maps `memory` for the container's devices: they reach `bytes` from `offset` on under the bus address
/// `iova`. The pages stay in memory until the container is closed.
///
/// Devices may write there at any time. That is sound: a [`Memory`] is only accessed as such.
pub(crate) fn map_dma(container: &File, memory: &Memory, piece: &Piece) -> io::Result<()> {
    map(container, memory.mapping().address() + piece.offset, piece.bytes, piece.bus)
}

fn map(container: &File, address: usize, bytes: usize, iova: u64) -> io::Result<()> {
    let mut map = abi::vfio_iommu_type1_dma_map {
        argsz: size_of::<abi::vfio_iommu_type1_dma_map>() as u32,
        flags: abi::VFIO_DMA_MAP_FLAG_READ | abi::VFIO_DMA_MAP_FLAG_WRITE,
        vaddr: address as u64,
        iova,
        size: bytes as u64,
    };
    // SAFETY: the kernel reads `argsz` bytes, which are `map`.
    unsafe { Call::MapDma.with(container, &mut map) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the kernel's header, `_IO(';', 100 + n)`.
    #[test]
    fn layout_is_the_kernels() {
        assert_eq!((request(0), request(13)), (0x3b64, 0x3b71));
        assert_eq!(std::mem::offset_of!(IrqSet, data), IRQ_SET_HEADER);
        assert_eq!(IRQ_SET_HEADER, size_of::<abi::vfio_irq_set>());
    }

    /// On a file that is no VFIO device each call is an error, not an accident.
    #[test]
    fn other_files_are_refused() {
        let file = File::open("/dev/null").expect("every Linux has it");
        assert!(!has_extension(&file, abi::VFIO_TYPE1v2_IOMMU));
        assert!(set_iommu(&file, abi::VFIO_TYPE1v2_IOMMU).is_err());
        assert!(is_viable(&file).is_err() && set_container(&file, &file).is_err());
        assert!(open_device(&file, "0000:00:10.0").is_err() && open_device(&file, "\0").is_err());
        assert!(can_reset(&file).is_err() && reset(&file).is_err());
        assert!(region(&file, 0).is_err() && irqs(&file, 0).is_err());
        assert!(signal(&file, 0, &[]).is_err() && silence(&file, 0).is_err() && unmask(&file, 0).is_err());
        assert!(map(&file, 0, 4096, 0).is_err());
    }
}
