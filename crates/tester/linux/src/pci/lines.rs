//! The interrupt sources of a card: its line, MSI or MSI-X, through UIO or VFIO.

use super::vfio::ioctl;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use vfio_bindings::bindings::vfio as abi;

/// The interrupts that a card has.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) source: Source,
    /// Whether they have a user.
    pub(crate) taken: AtomicBool,
    /// MSI-X vectors that are enabled.
    pub(crate) vectors: AtomicU8,
}

#[derive(Debug)]
pub(crate) enum Source {
    Uio {
        /// `/dev/uioN`. It must stay open: when it is closed, the kernel ends the card's bus mastering.
        events: File,
        /// The interrupts that it had counted when it was last read.
        seen: AtomicU32,
        /// Whether the card has an interrupt line.
        has_line: bool,
    },
    Vfio(File),
}

impl Lines {
    pub(crate) fn uio(events: File, seen: u32, has_line: bool) -> Self {
        Self::new(Source::Uio { events, seen: AtomicU32::new(seen), has_line })
    }

    pub(crate) fn vfio(device: File) -> Self {
        Self::new(Source::Vfio(device))
    }

    fn new(source: Source) -> Self {
        Self { source, taken: AtomicBool::new(false), vectors: AtomicU8::new(0) }
    }

    /// The device's file, through VFIO.
    pub(crate) fn vfio_device(&self) -> Option<&File> {
        match &self.source {
            Source::Vfio(device) => Some(device),
            Source::Uio { .. } => None,
        }
    }

    /// MSI-X vectors that are enabled.
    pub(crate) fn vectors(&self) -> u8 {
        self.vectors.load(Ordering::Relaxed)
    }

    /// MSI-X vectors that the card has.
    pub(crate) fn vector_count(&self) -> usize {
        self.vfio_device().map_or(0, |device| irqs(device, abi::VFIO_PCI_MSIX_IRQ_INDEX))
    }
}

/// The device's interrupts of a kind.
pub(crate) fn irqs(device: &File, kind: u32) -> usize {
    ioctl::irqs(device, kind).map_or(0, |count| count as usize)
}
