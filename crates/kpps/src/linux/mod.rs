//! What is for Linux only: the cards of this machine, and those of QEMU.

mod device;
pub mod guests;
mod lab;
mod selftest;

use crate::error::Failure;
use clap::Subcommand;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Our driver, Linux's and DPDK's on the same card: stock kernels in QEMU
    Lab(lab::Arguments),
    /// One functional suite for the driver, on the model's cards or on QEMU's
    Selftest(selftest::Arguments),
    /// The network cards of this machine: list them, take them from the kernel, give them back
    Device(device::Arguments),
}

impl Command {
    /// Runs it.
    pub fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Lab(arguments) => lab::run(arguments),
            Self::Selftest(arguments) => selftest::run(arguments),
            Self::Device(arguments) => device::run(arguments),
        }
    }
}
