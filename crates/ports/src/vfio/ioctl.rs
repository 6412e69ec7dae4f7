//! The system calls of VFIO (kernel documentation, driver-api/vfio), each with a safe face.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use vfio_bindings::bindings::vfio as abi;

/// Interrupt vectors at most: the 82574 has five.
pub(crate) const MAX_VECTORS: usize = 8;

const fn request(number: u32) -> nix::libc::c_ulong {
    nix::request_code_none!(abi::VFIO_TYPE, abi::VFIO_BASE + number) as nix::libc::c_ulong
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

mod raw {
    use super::{IrqSet, abi, request};
    nix::ioctl_write_int_bad!(check_extension, request(1));
    nix::ioctl_write_int_bad!(set_iommu, request(2));
    nix::ioctl_read_bad!(group_status, request(3), abi::vfio_group_status);
    nix::ioctl_write_ptr_bad!(group_set_container, request(4), i32);
    nix::ioctl_write_ptr_bad!(group_device, request(6), std::ffi::c_char);
    nix::ioctl_read_bad!(device_info, request(7), abi::vfio_device_info);
    nix::ioctl_read_bad!(region_info, request(8), abi::vfio_region_info);
    nix::ioctl_read_bad!(irq_info, request(9), abi::vfio_irq_info);
    nix::ioctl_write_ptr_bad!(set_irqs, request(10), IrqSet);
    nix::ioctl_none_bad!(reset, request(11));
    nix::ioctl_write_ptr_bad!(map_dma, request(13), abi::vfio_iommu_type1_dma_map);
}

/// A part of a device's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) mappable: bool,
}

/// Whether the container offers this kind of IOMMU.
pub(crate) fn has_extension(container: &File, kind: u32) -> bool {
    // SAFETY: takes a number and touches no memory of ours.
    unsafe { raw::check_extension(container.as_raw_fd(), kind as i32) }.is_ok_and(|answer| answer > 0)
}

/// Gives a container with a group in it this kind of IOMMU.
pub(crate) fn set_iommu(container: &File, kind: u32) -> io::Result<()> {
    // SAFETY: takes a number and touches no memory of ours.
    unsafe { raw::set_iommu(container.as_raw_fd(), kind as i32) }?;
    Ok(())
}

/// Whether all devices of a group have been left to VFIO.
pub(crate) fn is_viable(group: &File) -> io::Result<bool> {
    let mut status = abi::vfio_group_status { argsz: size_of::<abi::vfio_group_status>() as u32, flags: 0 };
    // SAFETY: the kernel writes at most `argsz` bytes, which are `status`.
    unsafe { raw::group_status(group.as_raw_fd(), &mut status) }?;
    Ok(status.flags & abi::VFIO_GROUP_FLAGS_VIABLE != 0)
}

/// Puts a group into a container.
pub(crate) fn set_container(group: &File, container: &File) -> io::Result<()> {
    // SAFETY: the kernel reads one `int`.
    unsafe { raw::group_set_container(group.as_raw_fd(), &container.as_raw_fd()) }?;
    Ok(())
}

/// Opens the device of this name ("0000:00:10.0") in a group.
pub(crate) fn open_device(group: &File, name: &str) -> io::Result<File> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the kernel reads a string that ends in 0, which a `CString` does.
    let descriptor = unsafe { raw::group_device(group.as_raw_fd(), name.as_ptr()) }?;
    // SAFETY: the kernel has made this descriptor for us, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Whether the device can be reset.
pub(crate) fn can_reset(device: &File) -> io::Result<bool> {
    let argsz = size_of::<abi::vfio_device_info>() as u32;
    let mut info = abi::vfio_device_info { argsz, ..Default::default() };
    // SAFETY: the kernel writes at most `argsz` bytes, which are `info`.
    unsafe { raw::device_info(device.as_raw_fd(), &mut info) }?;
    Ok(info.flags & abi::VFIO_DEVICE_FLAGS_RESET != 0)
}

/// Resets the device; its configuration space is as it was afterwards.
pub(crate) fn reset(device: &File) -> io::Result<()> {
    // SAFETY: touches no memory of ours; the mapping of the BAR stays.
    unsafe { raw::reset(device.as_raw_fd()) }?;
    Ok(())
}

/// Where in the device's file a region is.
pub(crate) fn region(device: &File, index: u32) -> io::Result<Region> {
    let argsz = size_of::<abi::vfio_region_info>() as u32;
    let mut info = abi::vfio_region_info { argsz, index, ..Default::default() };
    // SAFETY: the kernel writes at most `argsz` bytes, which are `info`.
    unsafe { raw::region_info(device.as_raw_fd(), &mut info) }?;
    let mappable = info.flags & abi::VFIO_REGION_INFO_FLAG_MMAP != 0;
    Ok(Region { offset: info.offset, bytes: info.size, mappable })
}

/// How many interrupts of a kind the device has.
pub(crate) fn irqs(device: &File, index: u32) -> io::Result<u32> {
    let argsz = size_of::<abi::vfio_irq_info>() as u32;
    let mut info = abi::vfio_irq_info { argsz, index, ..Default::default() };
    // SAFETY: the kernel writes at most `argsz` bytes, which are `info`.
    unsafe { raw::irq_info(device.as_raw_fd(), &mut info) }?;
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
    let argsz = (IRQ_SET_HEADER + size_of_val(events)) as u32;
    let set = IrqSet { argsz, flags, index, start: 0, count, data };
    // SAFETY: the kernel reads `argsz` bytes, which `set` has.
    unsafe { raw::set_irqs(device.as_raw_fd(), &set) }?;
    Ok(())
}

/// Lets interrupts of this kind signal `events`, one each.
pub(crate) fn signal(device: &File, index: u32, events: &[BorrowedFd<'_>]) -> io::Result<()> {
    let flags = abi::VFIO_IRQ_SET_DATA_EVENTFD | abi::VFIO_IRQ_SET_ACTION_TRIGGER;
    set(device, index, flags, events.len() as u32, events)
}

/// Turns interrupts of this kind off.
pub(crate) fn silence(device: &File, index: u32) -> io::Result<()> {
    set(device, index, abi::VFIO_IRQ_SET_DATA_NONE | abi::VFIO_IRQ_SET_ACTION_TRIGGER, 0, &[])
}

/// Lets the interrupt line signal again.
pub(crate) fn unmask(device: &File, index: u32) -> io::Result<()> {
    set(device, index, abi::VFIO_IRQ_SET_DATA_NONE | abi::VFIO_IRQ_SET_ACTION_UNMASK, 1, &[])
}

/// Lets the container's devices reach `bytes` of this process's memory at `address`, under the
/// bus address `iova`. The pages stay in memory until the container is closed.
///
/// The caller sees to it that devices are given only what may change under the program's hands,
/// as [`kpps_platform::memory::Memory`] does.
pub(crate) fn map_dma(container: &File, address: usize, bytes: usize, iova: u64) -> io::Result<()> {
    let map = abi::vfio_iommu_type1_dma_map {
        argsz: size_of::<abi::vfio_iommu_type1_dma_map>() as u32,
        flags: abi::VFIO_DMA_MAP_FLAG_READ | abi::VFIO_DMA_MAP_FLAG_WRITE,
        vaddr: address as u64,
        iova,
        size: bytes as u64,
    };
    // SAFETY: the kernel reads `argsz` bytes, which are `map`.
    unsafe { raw::map_dma(container.as_raw_fd(), &map) }?;
    Ok(())
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
        let Ok(file) = File::open("/dev/null") else { return };
        assert!(!has_extension(&file, abi::VFIO_TYPE1v2_IOMMU));
        assert!(set_iommu(&file, abi::VFIO_TYPE1v2_IOMMU).is_err());
        assert!(is_viable(&file).is_err() && set_container(&file, &file).is_err());
        assert!(open_device(&file, "0000:00:10.0").is_err() && open_device(&file, "\0").is_err());
        assert!(can_reset(&file).is_err() && reset(&file).is_err());
        assert!(region(&file, 0).is_err() && irqs(&file, 0).is_err());
        assert!(signal(&file, 0, &[]).is_err() && silence(&file, 0).is_err() && unmask(&file, 0).is_err());
        assert!(map_dma(&file, 0, 4096, 0).is_err());
    }
}
