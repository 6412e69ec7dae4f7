//! Memory of this process that a device modelled in it reads and writes as a file.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::ptr::null_mut;

/// Linux maps below 2 GiB. Other processors have no such flag.
#[cfg(target_arch = "x86_64")]
const LOW: MapFlags = MapFlags::from_bits_retain(libc::MAP_32BIT as u32);
#[cfg(not(target_arch = "x86_64"))]
const LOW: MapFlags = MapFlags::empty();

/// A file of `bytes` zeros in memory. It has no name in any folder.
///
/// # Errors
/// Errors of memfd_create(2) and ftruncate(2).
pub fn memory_file(bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create(c"kpps", MemfdFlags::CLOEXEC)?);
    file.set_len(bytes)?;
    Ok(file)
}

/// A file in memory that this process has mapped. On x86-64 its address is below 2 GiB, so that it fits into
/// a register of 32 bits. It is unmapped when this is dropped.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    address: usize,
    bytes: usize,
}

impl SharedMemory {
    /// `bytes` of zeros, more than 0.
    ///
    /// # Errors
    /// Errors of memfd_create(2), ftruncate(2) and mmap(2): there is no room.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let file = memory_file(bytes as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address and MAP_FIXED the kernel chooses addresses that nothing else has. Only
        // raw pointers lead there.
        let at = unsafe { mmap(null_mut(), bytes, protection, MapFlags::SHARED | LOW, &file, 0) }?;
        Ok(Self { file, address: at.expose_provenance(), bytes })
    }

    /// The address of its first byte in this process, a multiple of 4096. Its provenance is exposed.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let at = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the mapping is this object's own, and no reference leads there.
        let _ = unsafe { munmap(at, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn file_and_memory_are_the_same() {
        let memory = SharedMemory::new(8192).unwrap();
        assert!(memory.address() < 1 << 31 || cfg!(not(target_arch = "x86_64")), "{:#x}", memory.address());
        let at: *mut u32 = std::ptr::with_exposed_provenance_mut(memory.address() + 4096);
        memory.file().write_all_at(&7u32.to_ne_bytes(), 4096).unwrap();
        // SAFETY: within the mapping, which lives.
        assert_eq!(unsafe { at.read_volatile() }, 7);
        // SAFETY: as above.
        unsafe { at.write_volatile(8) };
        let mut bytes = [0; 4];
        memory.file().read_exact_at(&mut bytes, 4096).unwrap();
        assert_eq!((u32::from_ne_bytes(bytes), memory.bytes()), (8, 8192));
        assert!(SharedMemory::new(0).is_err());
    }
}
