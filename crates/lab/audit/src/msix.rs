//! The MSI-X table and the pending bits of a card (BAR 3), as PCI 3.0, 6.8.2 lays them out.
//!
//! QEMU has a table of its own for the guest, and passes neither its contents nor its masks on: the files
//! that it connects say which vectors it wants. So this table only keeps the bytes that are written to it.

use kpps_datasheet::Chip;

/// The size of BAR 3 (QEMU's e1000e).
pub(crate) const BYTES: u32 = 0x4000;
/// Where the pending bits are in BAR 3 (QEMU's e1000e).
pub(crate) const PENDING: u32 = 0x2000;
/// The most vectors of a chip.
pub(crate) const MOST: usize = Chip::I82574l.vectors() as usize;
/// Bytes of an entry: address, upper address, data, control.
const ENTRY: usize = 16;
/// The control word's offset in an entry. Its bit 0 masks the vector, and is set after a reset.
const CONTROL: usize = 12;

/// An offset within BAR 3.
fn within(offset: u64) -> Option<usize> {
    usize::try_from(offset).ok().filter(|offset| *offset < BYTES as usize)
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Table([u8; MOST * ENTRY]);

impl Table {
    /// After a reset: all vectors are masked.
    pub(crate) fn new() -> Self {
        let mut bytes = [0; MOST * ENTRY];
        bytes.iter_mut().skip(CONTROL).step_by(ENTRY).for_each(|control| *control = 1);
        Self(bytes)
    }

    /// Reads BAR 3 at `offset`; `pending` has a bit for each vector.
    pub(crate) fn read(&self, offset: u64, pending: u8, into: &mut [u8]) {
        into.fill(0);
        let Some(start) = within(offset) else { return };
        for (byte, at) in into.iter_mut().zip(start..) {
            *byte = match self.0.get(at) {
                Some(kept) => *kept,
                None if at == PENDING as usize => pending,
                None => 0,
            };
        }
    }

    /// Writes BAR 3 at `offset`.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        let Some(start) = within(offset) else { return };
        for (byte, at) in from.iter().zip(start..) {
            let Some(kept) = self.0.get_mut(at) else { break };
            // A message has 32 bits at a multiple of four. The control word has only the mask.
            *kept = match at % ENTRY {
                0 => byte & !3,
                CONTROL => byte & 1,
                within if within > CONTROL => 0,
                _ => *byte,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_keeps_what_may_be_written() {
        let mut table = Table::new();
        table.write(16, &[0xFF; 16]);
        let mut entry = [0; 16];
        table.read(16, 0, &mut entry);
        assert_eq!(entry, [0xFC, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0, 0]);
        table.write(28, &[0]);
        table.read(16, 0, &mut entry);
        assert_eq!(entry[CONTROL], 0);
        table.read(0, 0, &mut entry);
        assert_eq!(entry, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], "masked after a reset");
    }

    #[test]
    fn pending_bits_are_read_only_and_elsewhere_is_nothing() {
        let mut table = Table::new();
        for at in [PENDING.into(), 80, 0x3FFC, u64::from(BYTES), u64::MAX, u64::MAX - 3] {
            table.write(at, &[0xFF; 8]);
        }
        let mut bytes = [9; 8];
        table.read(PENDING.into(), 0b10101, &mut bytes);
        assert_eq!(bytes, [0b10101, 0, 0, 0, 0, 0, 0, 0]);
        table.read(78, 3, &mut bytes);
        assert_eq!(bytes, [0; 8]);
        table.read(u64::MAX - 1, 3, &mut bytes);
        assert_eq!(bytes[..2], [0; 2]);
    }
}
