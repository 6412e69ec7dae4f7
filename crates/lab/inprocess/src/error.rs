//! Errors of a card in process.

use kpps_datasheet::Chip;
use std::io;

/// Why there is no card, no window or no memory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no card in process with this chip.
    #[error("the {0} has no model in process: choose one of the PCI chips from the 82543GC on")]
    Chip(Chip),
    /// The bus is not known.
    #[error(transparent)]
    Bus(#[from] kpps_profiles::Error),
    /// The bus cannot be simulated.
    #[error("the bus: {0}")]
    BadBus(String),
    /// Windows need Linux on x86-64.
    #[error("registers that trap need Linux on x86-64; here a driver reaches the card by calls only")]
    NoWindow,
    /// The system refuses memory or a window.
    #[error("{what}: {error}")]
    System {
        /// The failed action.
        what: &'static str,
        /// The reason.
        #[source]
        error: io::Error,
    },
    /// The size or the alignment of memory is not possible.
    #[error(
        "memory of {bytes} bytes, aligned to {align}: the alignment must be a power of two, and the size above 0"
    )]
    Memory {
        /// The size in bytes.
        bytes: usize,
        /// The alignment in bytes.
        align: usize,
    },
    /// The card has other memory at these addresses.
    #[error("the card has other memory at {device:#x}")]
    Overlap {
        /// The first address.
        device: u64,
    },
}

impl Error {
    /// For an error of the system.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}
