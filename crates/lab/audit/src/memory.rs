//! The guest's memory: the files that QEMU maps for the cards.
//!
//! It is read and written with system calls, which see what the guest's CPU stored, and need no `unsafe`.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A part of the guest's memory.
#[derive(Debug)]
struct Part {
    address: u64,
    bytes: u64,
    file: File,
    /// Where the part begins in the file.
    offset: u64,
}

/// The parts of the guest's memory that a card may use.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    parts: Vec<Part>,
}

impl Memory {
    /// Adds `bytes` of `file` from `offset` on, which the guest has at `address`.
    pub(crate) fn map(&mut self, address: u64, bytes: u64, file: File, offset: u64) {
        self.parts.push(Part { address, bytes, file, offset });
    }

    /// Takes all parts away that begin within these `bytes` at `address`.
    pub(crate) fn unmap(&mut self, address: u64, bytes: u64) {
        self.parts.retain(|part| part.address < address || part.address - address >= bytes);
    }

    /// Takes all parts away.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }

    /// The file that holds `bytes` at `address`, and where.
    fn at(&self, address: u64, bytes: usize) -> Option<(&File, u64)> {
        self.parts.iter().find_map(|part| {
            let within = address.checked_sub(part.address)?;
            let end = within.checked_add(bytes as u64)?;
            (end <= part.bytes).then_some(())?;
            Some((&part.file, part.offset.checked_add(within)?))
        })
    }

    /// Reads at `address`; false if there is no such memory.
    pub(crate) fn load(&self, address: u64, into: &mut [u8]) -> bool {
        self.at(address, into.len()).is_some_and(|(file, at)| file.read_exact_at(into, at).is_ok())
    }

    /// Writes at `address`; false if there is no such memory.
    pub(crate) fn store(&self, address: u64, from: &[u8]) -> bool {
        self.at(address, from.len()).is_some_and(|(file, at)| file.write_all_at(from, at).is_ok())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_is_mapped_is_there() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x3000).unwrap();
        let mut memory = Memory::default();
        memory.map(0x10_0000, 0x2000, file.try_clone().unwrap(), 0x1000);
        assert!(memory.store(0x10_1FFE, &[7, 8]) && !memory.store(0x10_1FFF, &[7, 8]));
        assert!(!memory.store(0xF_FFFF, &[7]) && !memory.store(u64::MAX, &[7, 8]));
        let mut bytes = [0; 2];
        file.read_exact_at(&mut bytes, 0x2FFE).unwrap();
        assert_eq!(bytes, [7, 8]);
        assert!(memory.load(0x10_1FFE, &mut bytes));
        memory.unmap(0x10_0000, 0x2000);
        assert!(!memory.load(0x10_1FFE, &mut bytes));
    }
}
