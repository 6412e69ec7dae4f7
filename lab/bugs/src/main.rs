//! A guest for the audit: it brings an e1000 card up with the driver of kpps, and answers ARP, pings and UDP
//! echoes at 10.0.2.15, with a planted bug if one is named.
//!
//! The console has these commands:
//!
//! - `list` prints the bugs, `list reports` the public reports that they stand for.
//! - `run` starts without a bug, `run NAME` with one, and `run plain` without a bug on the queues in which
//!   most bugs are planted.
//! - `off` turns the machine off, also while it runs.
#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod bugs;
mod memory;
mod net;
mod ours;
mod pci;
mod plain;
mod platform;
mod run;
mod serial;
mod shim;

use bugs::{BUGS, Mode};
use serial::Input;

/// Reads commands. The code of the machine calls it once.
fn main() -> ! {
    serial::start();
    println!("\nkpps-bugs: an e1000 guest with {} planted bugs", BUGS.len());
    let mut input = Input::default();
    loop {
        print!("bugs> ");
        let line = loop {
            match input.poll() {
                Some(line) => break line,
                None => arch::idle(),
            }
        };
        let mut words = line.split_whitespace();
        match (words.next(), words.next().unwrap_or_default()) {
            (None, _) => {}
            (Some("list"), "reports") => {
                for bug in &BUGS {
                    println!("{}: {}", bug.name, bug.report);
                }
            }
            (Some("list"), _) => {
                for bug in &BUGS {
                    println!("{}: {}", bug.name, bug.mistake);
                }
            }
            (Some("run"), name) => match Mode::parse(name) {
                Some(mode) => run::run(mode),
                None => println!("no bug is called {name}"),
            },
            (Some("off"), _) => arch::power_off(),
            (Some(_), _) => println!("commands: list, list reports, run, run NAME, run plain, off"),
        }
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    println!("\n{info}");
    arch::power_off()
}
