//! BAR 0 of a card: its registers, mapped into this process.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{Ordering, fence};

/// BAR 0 of a card in this process's address space.
#[derive(Debug)]
pub(crate) struct Bar {
    map: MmapRaw,
    /// `offset & mask` is the byte offset of a whole register within the mapping.
    mask: usize,
}

impl Bar {
    /// Maps `bytes` of `file` from `offset` on; `bytes` must be a power of two, as BARs are.
    pub(crate) fn map(file: &File, offset: u64, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two() && *bytes >= 4096);
        let bytes = bytes.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the size of BAR 0 is no power of two")
        })?;
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(file)?;
        Ok(Self { map, mask: bytes - 4 })
    }

    #[inline]
    fn at(&self, offset: u32) -> *mut u32 {
        debug_assert_eq!(offset as usize & self.mask, offset as usize, "no such register");
        // SAFETY: the mapping has `mask + 4` bytes, a power of two, and starts on a page. So `& mask` gives
        // an offset within it, aligned to 4, with 4 bytes of room.
        unsafe { self.map.as_mut_ptr().add(offset as usize & self.mask).cast() }
    }

    #[inline]
    pub(crate) fn read(&self, offset: u32) -> u32 {
        // SAFETY: `at` is within the mapping and aligned. The device changes the registers: the access is
        // volatile, and no reference to them is ever formed.
        u32::from_le(unsafe { self.at(offset).read_volatile() })
    }

    #[inline]
    pub(crate) fn write(&self, offset: u32, value: u32) {
        // Descriptors first: no earlier store may become visible after that of the register. On x86 the fence
        // costs no instruction.
        fence(Ordering::Release);
        // SAFETY: as in `read`.
        unsafe { self.at(offset).write_volatile(value.to_le()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn registers_are_little_endian_words_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 << 12).unwrap();
        let bar = Bar::map(&file, 1 << 12, 1 << 13).unwrap();
        bar.write(0x1ffc, 0x0403_0201);
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, (3 << 12) - 4).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4]);
        file.write_all_at(&[9, 0, 0, 0], 1 << 12).unwrap();
        assert_eq!(bar.read(0), 9);
        assert!(Bar::map(&file, 0, 3 << 12).is_err());
        assert!(Bar::map(&file, 0, 0).is_err());
    }
}
