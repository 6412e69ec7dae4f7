//! The lab: stock Debian kernels in QEMU, with one or several e1000 cards, to measure the drivers of
//! kpps, Linux and DPDK on the same device in the same run.
//!
//! - [`Cache`], [`Kernel`], [`Userland`]: the files to boot, fetched through apt once and kept.
//! - [`Guest`]: a PC with [`Card`]s. It runs commands; its cables end at hubs or at the host
//!   ([`Wire`]).
//!
//! QEMU emulates the CPU (TCG) and has no line rate: rates above 1.488 Mpps are those of the emulation.

mod apt;
mod arch;
mod cache;
mod compressed;
pub(crate) mod console;
pub mod counters;
mod cpio;
pub(crate) mod elf;
mod error;
mod feed;
pub mod firmware;
pub mod foreign;
pub mod guest;
pub mod initrd;
mod kernel;
pub mod load;
mod measure;
pub mod newer;
mod options;
mod plan;
mod profile;
mod qemu;
mod source;
mod testbed;
mod userland;
pub mod workload;

pub use crate::Wire;
pub use arch::Arch;
pub use cache::Cache;
pub use console::Output;
pub use error::{Error, Result};
pub use guest::Guest;
pub use kernel::{Kernel, Known, Module, known};
pub use kpps_documents::lab::{Clock, Lab, Ratio, Row};
pub use measure::{Job, Measured, Sample};
pub use options::{Cable, Card, Machine, Model, Options, Paced, address, mac};
pub use plan::{LabPlan, failure};
pub use testbed::{GuestSpec, GuestTestbed, GuestTestbeds, PREFIX, open};
pub use userland::Userland;

use std::path::PathBuf;

/// The program that guests run as kpps: this one, or that of `KPPS_LAB_BINARY`.
///
/// # Errors
/// If the system does not say where this program is.
pub fn program() -> Result<PathBuf> {
    match std::env::var_os("KPPS_LAB_BINARY") {
        Some(path) => Ok(path.into()),
        None => std::env::current_exe()
            .map_err(|e| Error::Input(format!("cannot find the file of this program: {e}"))),
    }
}
