//! Chips whose frames are not all in one legacy descriptor: by an erratum that needs more, or with advanced
//! descriptors.

use kpps_datasheet::{Chip, Erratum, desc};

/// The errata of a chip that split fragments; and whether its descriptors are advanced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quirks {
    /// Any erratum that concerns frames without segmentation.
    split: bool,
    /// Such an erratum, or advanced descriptors.
    any: bool,
    pub(crate) no_64k_crossing: bool,
    pub(crate) first_2015: bool,
    pub(crate) dword_end: bool,
    pub(crate) sentinel: bool,
}

impl Quirks {
    pub(crate) fn of(chip: Chip, pcix: bool) -> Self {
        let mut quirks = Self {
            split: false,
            any: false,
            no_64k_crossing: chip.has(Erratum::No64KCrossing),
            first_2015: pcix && chip.has(Erratum::FirstDescriptor2015),
            dword_end: pcix && chip.has(Erratum::DwordEndPcix),
            sentinel: chip.has(Erratum::SegmentationSentinel),
        };
        quirks.split = quirks.no_64k_crossing || quirks.first_2015 || quirks.dword_end;
        quirks.any = quirks.split || chip.has_advanced();
        quirks
    }

    /// Whether any frame of one buffer may need more than one descriptor.
    #[inline]
    pub(super) fn split(&self) -> bool {
        self.split
    }

    /// Whether a frame of one buffer is something else than one legacy descriptor.
    #[inline]
    pub(super) fn differs(&self, bus: u64, bytes: u32) -> bool {
        self.any && (!self.split || self.piece(bus, bytes, true, desc::LEGACY_MAX_BYTES) < bytes)
    }

    /// How many of `bytes` bytes at `bus` the next descriptor may cover.
    #[inline]
    pub(super) fn piece(&self, bus: u64, bytes: u32, first: bool, limit: u32) -> u32 {
        let mut piece = bytes.min(limit);
        if self.first_2015 && first {
            piece = piece.min(2015);
        }
        if self.no_64k_crossing {
            piece = piece.min(0x1_0000 - (bus as u32 & 0xFFFF));
        }
        if self.dword_end && piece > 4 && bus.wrapping_add(u64::from(piece) - 1) & 4 == 0 {
            piece -= 4;
        }
        piece
    }

    /// The most descriptors that a frame of `fragments` fragments can need, without its context.
    pub(super) fn need(&self, fragments: usize, payload_bytes: u32, limit: u32) -> usize {
        let crossing = if self.no_64k_crossing { 2 } else { 1 };
        let ends = if self.dword_end { 2 } else { 1 };
        let by_limit = (payload_bytes / limit) as usize;
        (fragments * crossing + by_limit + usize::from(self.first_2015)) * ends
    }
}
