//! Formats of written-back receive descriptors.
//!
//! The rest of the queue knows only the legacy layout. Other formats are converted here. The code is generic
//! over the format, so that no format pays for another.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{self, Relaxed},
    fence,
};
use kpps_datasheet::desc::{self, extended};

/// A written-back descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Length, status, errors and tag: the second word of a legacy descriptor.
    pub(super) word: u64,
    /// The first word of an extended descriptor: type and value of the RSS hash. 0 in other formats.
    pub(super) hash: u64,
}

/// The length of a frame in one buffer.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// Bytes in the buffer.
    pub(super) length: u16,
    /// Bytes without FCS.
    pub(super) without_fcs: u16,
}

/// A descriptor format with one buffer.
pub(super) trait Format {
    /// The descriptor, if the device has written it back (DD).
    fn written(pair: &[AtomicU64; 2]) -> Option<Written>;

    /// The descriptor with what `check` makes of its second word, if the device has written it back and
    /// `check` accepts it. `check` refuses a word without DD.
    #[inline]
    fn accepted<T>(pair: &[AtomicU64; 2], check: impl FnOnce(u64) -> Option<T>) -> Option<(Written, T)> {
        let written = Self::written(pair)?;
        Some((written, check(written.word)?))
    }
}

/// The legacy format of the 8254x.
pub(super) struct Legacy;

impl Format for Legacy {
    #[inline]
    fn written(pair: &[AtomicU64; 2]) -> Option<Written> {
        let word = u64::from_le(pair[1].load(Relaxed));
        if word & desc::RX_DD == 0 {
            return None;
        }
        // Pairs with the order of the device's writes: data, then descriptor.
        fence(Ordering::Acquire);
        Some(Written { word, hash: 0 })
    }

    /// One test of the word, in place of one for DD and one for the rest.
    #[inline]
    fn accepted<T>(pair: &[AtomicU64; 2], check: impl FnOnce(u64) -> Option<T>) -> Option<(Written, T)> {
        let word = u64::from_le(pair[1].load(Relaxed));
        let checked = check(word)?;
        // As above.
        fence(Ordering::Acquire);
        Some((Written { word, hash: 0 }, checked))
    }
}

/// The extended format (RFCTL.EXSTEN).
pub(super) struct Extended;

impl Format for Extended {
    #[inline]
    fn written(pair: &[AtomicU64; 2]) -> Option<Written> {
        let second = u64::from_le(pair[1].load(Relaxed));
        if second & extended::DD == 0 {
            return None;
        }
        // As above; the first word is read after the fence.
        fence(Ordering::Acquire);
        let hash = u64::from_le(pair[0].load(Relaxed));
        Some(Written { word: extended::to_legacy(second), hash })
    }
}
