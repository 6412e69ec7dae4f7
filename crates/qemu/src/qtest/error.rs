//! What can go wrong between us and QEMU.

use std::io;

/// QEMU could not be started, or no longer does what it is told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program was not found.
    #[error(
        "{program} is not installed; install qemu-system-x86: \
         apt-get install --no-install-recommends qemu-system-x86"
    )]
    NotInstalled {
        /// The program that was looked for.
        program: String,
    },
    /// QEMU ended by itself.
    #[error("QEMU ended ({status}): {stderr}")]
    Ended {
        /// Its exit status.
        status: String,
        /// What it printed.
        stderr: String,
    },
    /// QEMU is there but silent.
    #[error("QEMU did not answer within {seconds} s ({waiting_for})")]
    Silent {
        /// How long we waited.
        seconds: u64,
        /// For what.
        waiting_for: String,
    },
    /// An answer that is not part of the protocol.
    #[error("QEMU answered {answer:?} to {command:?}")]
    Protocol {
        /// What was asked.
        command: String,
        /// What came back.
        answer: String,
    },
    /// No network card with the expected device id is on the bus.
    #[error("no card {vendor:04x}:{device:04x} on QEMU's PCI bus")]
    NoCard {
        /// PCI vendor id.
        vendor: u16,
        /// PCI device id.
        device: u16,
    },
    /// The card has no MSI-X.
    #[error("the card has no MSI-X")]
    NoMessages,
    /// A socket or file of ours failed.
    #[error("talking to QEMU: {0}")]
    Io(#[from] io::Error),
}
