//! Reading what the device wrote about a descriptor.
//!
//! The rest of the queue knows the legacy layout only: other formats are brought into it here,
//! by code that is compiled once for each, so that none costs the others anything.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{self, Relaxed},
    fence,
};
use kpps_datasheet::desc::{self, extended};

/// What the device wrote about a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Length, status, errors and tag: the second word of a legacy descriptor.
    pub(super) word: u64,
    /// The first word of an extended descriptor: type and value of the RSS hash. 0 in others.
    pub(super) hash: u64,
}

/// A format of descriptors with one buffer.
pub(super) trait Format {
    /// What stands in a descriptor that the device is done with.
    fn written(pair: &[AtomicU64; 2]) -> Option<Written>;
}

/// The 8254x's.
pub(super) struct Legacy;

impl Format for Legacy {
    #[inline]
    fn written(pair: &[AtomicU64; 2]) -> Option<Written> {
        let word = u64::from_le(pair[1].load(Relaxed));
        if word & desc::RX_DD == 0 {
            return None;
        }
        // Pairs with the device's order of writes: data, then descriptor.
        fence(Ordering::Acquire);
        Some(Written { word, hash: 0 })
    }
}

/// With RFCTL.EXSTEN.
pub(super) struct Extended;

impl Format for Extended {
    #[inline]
    fn written(pair: &[AtomicU64; 2]) -> Option<Written> {
        let second = u64::from_le(pair[1].load(Relaxed));
        if second & extended::DD == 0 {
            return None;
        }
        // As above; the first word is read behind it.
        fence(Ordering::Acquire);
        let hash = u64::from_le(pair[0].load(Relaxed));
        Some(Written { word: extended::to_legacy(second), hash })
    }
}
