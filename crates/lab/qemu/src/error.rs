//! Errors of QEMU and of the connections to it.

use std::io;

/// QEMU did not start, ended, or broke a protocol.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program was not found.
    #[error("{program} is not installed: apt-get install --no-install-recommends qemu-system-x86")]
    NotInstalled {
        /// The program that was not found.
        program: String,
    },
    /// QEMU ended by itself.
    #[error("QEMU ended ({status}): {stderr}")]
    Ended {
        /// Its exit status.
        status: String,
        /// The output of QEMU.
        stderr: String,
    },
    /// QEMU runs, but did not answer in time.
    #[error("QEMU did not answer within {seconds} s ({waiting_for})")]
    Silent {
        /// The time limit.
        seconds: u64,
        /// The missing answer.
        waiting_for: String,
    },
    /// An answer that is not part of the protocol.
    #[error("QEMU answered {answer:?} to {command:?}")]
    Protocol {
        /// The command.
        command: String,
        /// QEMU's answer.
        answer: String,
    },
    /// No network card with the expected device id is on QEMU's PCI bus.
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
    /// A socket or file on our side failed.
    #[error("talking to QEMU: {0}")]
    Io(#[from] io::Error),
}

/// Results of the calls to QEMU.
pub type Result<T> = std::result::Result<T, Error>;
