//! Formats of written-back receive descriptors.
//!
//! A good frame in one buffer is recognised in the format's own layout. The rest of the queue knows only the
//! legacy layout, to which [`Written`] converts. The code is generic over the format, so that no format pays
//! for another.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{self, Relaxed},
    fence,
};
use kpps_datasheet::desc::{extended, rx_error, rx_status};

/// A written-back descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// The second word, in the device's layout.
    pub(super) second: u64,
    /// The first word of an extended descriptor and [`EXTENDED`]; 0 in the legacy format, where the device
    /// does not write it.
    first: u64,
}

/// Marks an extended descriptor in [`Written::first`]. The device leaves the bit 0 (MRQ, reserved).
const EXTENDED: u64 = 1 << 31;

impl Written {
    /// The value for a frame that no device has written.
    pub(super) const NOTHING: Self = Self { second: 0, first: 0 };

    /// Length, status, errors and tag: the second word of a legacy descriptor.
    #[inline]
    pub(super) fn word(&self) -> u64 {
        if self.first & EXTENDED == 0 { self.second } else { extended::to_legacy(self.second) }
    }

    /// The word that has type and value of the RSS hash; 0 in the legacy format.
    pub(super) fn hash(&self) -> u64 {
        self.first
    }
}

/// The length of a frame in one buffer.
#[derive(Clone, Copy)]
pub(super) struct SingleBufferLength {
    /// Bytes in the buffer.
    pub(super) length: u16,
    /// Bytes without FCS.
    pub(super) without_fcs: u16,
}

/// The limits of a good frame that lies in one buffer.
#[derive(Clone, Copy)]
pub(super) struct SingleBufferLimits {
    /// Bytes of FCS in the buffer.
    pub(super) fcs: u16,
    /// The shortest length in bytes, FCS in the buffer included.
    pub(super) least: u32,
    /// How many lengths from there on are valid.
    pub(super) lengths: u32,
}

impl SingleBufferLimits {
    /// The length of a frame; `None` unless it `is_whole`, good and in one buffer, and has a valid length.
    #[inline]
    fn check(self, is_whole: bool, length: u16) -> Option<SingleBufferLength> {
        let good = is_whole && u32::from(length).wrapping_sub(self.least) < self.lengths;
        good.then_some(SingleBufferLength { length, without_fcs: length.wrapping_sub(self.fcs) })
    }
}

/// A descriptor format with one buffer: where its second word has what.
pub(super) trait Format {
    /// Where [`rx_status`] begins.
    const STATUS: u32;
    /// Where [`rx_error`] begins.
    const ERRORS: u32;
    /// Where the length begins, which has 16 bits.
    const LENGTH: u32;

    /// The descriptor with this second word, which the device has written back.
    fn taken(pair: &[AtomicU64; 2], second: u64) -> Written;

    /// The descriptor, if the device has written it back (DD).
    #[inline]
    fn written(pair: &[AtomicU64; 2]) -> Option<Written> {
        let second = u64::from_le(pair[1].load(Relaxed));
        if second & u64::from(rx_status::DD) << Self::STATUS == 0 {
            return None;
        }
        // Pairs with the order of the device's writes: data, then descriptor.
        fence(Ordering::Acquire);
        Some(Self::taken(pair, second))
    }

    /// The descriptor and the length of its frame, if the device has written back a good frame in one buffer.
    /// This is one test of the word, in place of one for DD and one for the rest.
    #[inline]
    fn single_buffer(
        pair: &[AtomicU64; 2],
        limits: SingleBufferLimits,
    ) -> Option<(Written, SingleBufferLength)> {
        let second = u64::from_le(pair[1].load(Relaxed));
        let length = Self::single_buffer_length(second, limits)?;
        // As above.
        fence(Ordering::Acquire);
        Some((Self::taken(pair, second), length))
    }

    /// The length in a second word; `None` unless the device has written it back for a good frame in one
    /// buffer.
    #[inline]
    fn single_buffer_length(second: u64, limits: SingleBufferLimits) -> Option<SingleBufferLength> {
        let whole = u64::from(rx_status::DD | rx_status::EOP) << Self::STATUS;
        let errors = u64::from(rx_error::FRAME) << Self::ERRORS;
        limits.check(second & (whole | errors) == whole, (second >> Self::LENGTH) as u16)
    }
}

/// The legacy format of the 8254x.
pub(super) struct Legacy;

impl Format for Legacy {
    const STATUS: u32 = 32;
    const ERRORS: u32 = 40;
    const LENGTH: u32 = 0;

    #[inline]
    fn taken(_: &[AtomicU64; 2], second: u64) -> Written {
        Written { second, first: 0 }
    }
}

/// The extended format (RFCTL.EXSTEN).
pub(super) struct Extended;

impl Format for Extended {
    const STATUS: u32 = 0;
    const ERRORS: u32 = 24;
    const LENGTH: u32 = 32;

    #[inline]
    fn taken(pair: &[AtomicU64; 2], second: u64) -> Written {
        Written { second, first: u64::from_le(pair[0].load(Relaxed)) | EXTENDED }
    }
}
