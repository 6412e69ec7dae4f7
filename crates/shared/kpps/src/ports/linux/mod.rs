//! Commands that need Linux: the cards of this host, and those of QEMU.

mod audit;
mod conformance;
mod device;
mod dpdk;
pub mod guests;
mod lab;

use crate::error::Failure;
use crate::session::Session;
use clap::Subcommand;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Compare the drivers of kpps, Linux and DPDK on the same card, in QEMU guests with stock kernels
    Lab(lab::Arguments),
    /// Report what a driver does against the manual, and count its register accesses, bus bursts and
    /// interrupts, on a model card in QEMU: the driver of any operating system, or Linux's, ours and DPDK's
    Audit(Box<audit::Arguments>),
    /// Run the functional suite of the driver on the model, on QEMU's cards or on a real card
    #[command(visible_alias = "selftest")]
    Conformance(conformance::Arguments),
    /// List the network cards of this host, take them from the kernel, give them back
    Device(device::Arguments),
    /// Show what dpdk: ports need and what is there, or compile the adapter to the DPDK of this host
    Dpdk(dpdk::Arguments),
}

impl Command {
    /// Runs it.
    pub fn run(&self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Lab(arguments) => lab::run(arguments, session),
            Self::Audit(arguments) => audit::run(arguments, session),
            Self::Conformance(arguments) => conformance::run(arguments, session),
            Self::Device(arguments) => device::run(arguments, session),
            Self::Dpdk(arguments) => dpdk::run(arguments, session),
        }
    }
}
