//! Options of guests in QEMU as testbeds.

use crate::heading;
use clap::Args;
use kpps_documents::lab::Clock;
use std::path::PathBuf;

/// Options of guests.
#[derive(Args)]
pub struct GuestArguments {
    /// With lab: the guest's clock: instructions, a nanosecond for each one that it executes, or wall
    /// [default: instructions]
    #[arg(long, value_name = "CLOCK", help_heading = heading::TESTBED)]
    pub clock: Option<Clock>,
    /// With lab: load this module in place of the kernel's own driver
    #[arg(long, value_name = "FILE.ko", help_heading = heading::TESTBED)]
    pub driver_module: Option<PathBuf>,
}
