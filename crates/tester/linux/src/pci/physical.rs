//! Physical addresses of huge pages, from `/proc/self/pagemap`.
//!
//! A mapped huge page never moves, so its address is valid for DMA.

use super::system;
use crate::Error;
use kpps_platform::memory::{HUGE_PAGE, Mapping, Piece};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The page size of `pagemap`. Other sizes exist, but not together with huge pages of 2 MiB.
const PAGE: usize = 4096;
/// Bits 0–54 of an entry are the page's number (kernel documentation, admin-guide/mm/pagemap).
const NUMBER: u64 = (1 << 55) - 1;
/// Bit 63: the page is present.
const PRESENT: u64 = 1 << 63;

/// Huge pages for at least `bytes`, and their bus addresses.
pub(crate) fn huge_pages(system: &system::System, bytes: usize) -> Result<(Mapping, Vec<Piece>), Error> {
    let mapping = Mapping::huge(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => {
            let file = system.path("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
            let free = system::text(&file).and_then(|text| text.parse().ok()).unwrap_or(0);
            Error::NoHugePages { wanted: bytes.div_ceil(HUGE_PAGE), free }
        }
        _ => Error::io("mapping huge pages")(error),
    })?;
    let path = system.path("proc/self/pagemap");
    let pagemap = File::open(&path).map_err(Error::file(&path))?;
    let pieces = pieces(&pagemap, &path, mapping.address(), mapping.bytes())?;
    Ok((mapping, pieces))
}

/// The pieces of huge pages at `address`: pages that are adjacent on the bus make one piece.
fn pieces(pagemap: &File, path: &Path, address: usize, bytes: usize) -> Result<Vec<Piece>, Error> {
    let mut pieces: Vec<Piece> = Vec::new();
    for offset in (0..bytes).step_by(HUGE_PAGE) {
        let mut entry = [0; 8];
        let at = ((address + offset) / PAGE * 8) as u64;
        pagemap.read_exact_at(&mut entry, at).map_err(Error::file(path))?;
        let entry = u64::from_ne_bytes(entry);
        let bus = (entry & NUMBER) * PAGE as u64;
        // The kernel shows zeros to unprivileged users.
        if entry & PRESENT == 0 || bus == 0 {
            return Err(Error::NoPhysicalAddresses);
        }
        match pieces.last_mut() {
            Some(last) if last.bus + last.bytes as u64 == bus => last.bytes += HUGE_PAGE,
            _ => pieces.push(Piece { offset, bytes: HUGE_PAGE, bus }),
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ADDRESS: usize = 0x7f00_0000_0000;

    fn pagemap(entries: &[u64]) -> File {
        let file = tempfile::tempfile().unwrap();
        for (index, entry) in entries.iter().enumerate() {
            let page = (ADDRESS + index * HUGE_PAGE) / PAGE;
            file.write_all_at(&entry.to_ne_bytes(), page as u64 * 8).unwrap();
        }
        file
    }

    fn of(entries: &[u64]) -> Result<Vec<Piece>, Error> {
        pieces(&pagemap(entries), Path::new("pagemap"), ADDRESS, entries.len() * HUGE_PAGE)
    }

    #[test]
    fn neighbours_make_one_piece() {
        // Bits above the number (soft-dirty, exclusive) are not part of it.
        let entry = |bus: u64| PRESENT | 3 << 55 | bus >> 12;
        let found = of(&[entry(0x4000_0000), entry(0x4020_0000), entry(0x1_0000_0000), entry(0x3fe0_0000)]);
        let expected = [(0, 2, 0x4000_0000), (2, 1, 0x1_0000_0000), (3, 1, 0x3fe0_0000)]
            .map(|(offset, pages, bus)| Piece { offset: offset * HUGE_PAGE, bytes: pages * HUGE_PAGE, bus });
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn hidden_and_absent_pages_are_refused() {
        assert!(matches!(of(&[PRESENT]), Err(Error::NoPhysicalAddresses)));
        assert!(matches!(of(&[0x4000_0000 >> 12]), Err(Error::NoPhysicalAddresses)));
    }
}
