//! Options of guests in QEMU as testbeds.

use crate::heading;
use clap::Args;
use kpps_documents::lab::Clock;
use std::path::PathBuf;

/// Options of guests.
#[derive(Args)]
pub struct GuestArguments {
    /// With --testbed lab:…: the clock of the guest. `instructions`: each executed instruction takes one
    /// nanosecond of the guest's time; `wall`: real time [default: instructions]
    #[arg(long, value_name = "CLOCK", help_heading = heading::TESTBED)]
    pub clock: Option<Clock>,
    /// With --testbed lab:…: load this kernel module in place of the kernel's own driver of the card
    #[arg(long, value_name = "FILE.ko", help_heading = heading::TESTBED)]
    pub driver_module: Option<PathBuf>,
}
