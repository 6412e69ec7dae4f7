//! Memory of this process, before it has bus addresses.

use super::HUGE_PAGE;
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use std::fs::File;
use std::io;

/// log2 of [`HUGE_PAGE`], as `mmap` wants it.
const HUGE_PAGE_BITS: u8 = HUGE_PAGE.trailing_zeros() as u8;

/// Memory mapped into this process, writable, unmapped when dropped.
///
/// Anonymous memory does not go to child processes: a fork would make it copy on write, and the
/// first write afterwards would move it away from under the device.
#[derive(Debug)]
pub struct Mapping(pub(crate) MmapRaw);

impl Mapping {
    /// All of `file`, shared with whoever else maps it.
    ///
    /// # Errors
    /// Those of `mmap`.
    pub fn file(file: &File) -> io::Result<Self> {
        MmapRaw::map_raw(file).map(Self)
    }

    /// At least `bytes` of ordinary pages.
    ///
    /// # Errors
    /// Those of `mmap`.
    pub fn ordinary(bytes: usize) -> io::Result<Self> {
        Self::anonymous(MmapOptions::new().len(bytes))
    }

    /// At least `bytes` in huge pages of [`HUGE_PAGE`], which are there (not merely promised)
    /// when this returns.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the system has too few free huge pages.
    pub fn huge(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.checked_next_multiple_of(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        Self::anonymous(MmapOptions::new().len(bytes).huge(Some(HUGE_PAGE_BITS)).populate())
    }

    fn anonymous(options: &MmapOptions) -> io::Result<Self> {
        let map: MmapMut = options.map_anon()?;
        // Miri knows neither this call nor forks.
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
