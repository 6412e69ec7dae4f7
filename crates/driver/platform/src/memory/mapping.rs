//! Memory of this process, before it has bus addresses.

use super::HUGE_PAGE;
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use std::fs::File;
use std::io;

/// log2 of [`HUGE_PAGE`], as `mmap` wants it.
const HUGE_PAGE_BITS: u8 = HUGE_PAGE.trailing_zeros() as u8;

/// Memory mapped into this process, writable, unmapped when dropped.
///
/// Child processes do not inherit anonymous memory. Otherwise a fork would make it copy on write, and the
/// next write would move it to another page, which the device does not see.
#[derive(Debug)]
pub struct Mapping(pub(crate) MmapRaw);

impl Mapping {
    /// The whole `file`, shared with other processes that map it.
    ///
    /// # Errors
    /// Errors of `mmap`.
    pub fn file(file: &File) -> io::Result<Self> {
        MmapRaw::map_raw(file).map(Self)
    }

    /// At least `bytes` of ordinary pages.
    ///
    /// # Errors
    /// Errors of `mmap`.
    pub fn ordinary(bytes: usize) -> io::Result<Self> {
        Self::anonymous(MmapOptions::new().len(bytes))
    }

    /// At least `bytes` in huge pages of [`HUGE_PAGE`], which are allocated when this returns.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the system has too few free huge pages.
    pub fn huge(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.checked_next_multiple_of(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        Self::anonymous(MmapOptions::new().len(bytes).huge(Some(HUGE_PAGE_BITS)).populate())
    }

    fn anonymous(options: &MmapOptions) -> io::Result<Self> {
        let map: MmapMut = options.map_anon()?;
        // Miri supports neither this call nor forks.
        #[cfg(all(target_os = "linux", not(miri)))]
        map.advise(memmap2::Advice::DontFork)?;
        Ok(Self(map.into()))
    }

    /// The address of the first byte, in this process.
    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}
