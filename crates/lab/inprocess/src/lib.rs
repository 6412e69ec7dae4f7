//! The 8254x model for a driver in the same process: a `cargo test` of a driver needs no QEMU.
//!
//! A [`Card`] is the model of the audit (`kpps-audit`) with the manual's rules. A driver reaches it in one of
//! three ways:
//!
//! - [`Card::window`] is the address of its registers, for drivers with `read_volatile` and `write_volatile`.
//!   Each access traps and goes to the model. Linux on x86-64 only.
//! - [`Card::read32`] and [`Card::write32`], for drivers with a trait of their own for registers.
//! - [`Card::platform`], for drivers on the traits of `kpps-platform`.
//!
//! The test is the rest of the machine: it gives memory ([`Card::memory`]), lets time pass
//! ([`Card::advance`]), calls the interrupt handler ([`Card::serve`]), sends frames and takes those of the
//! driver ([`Card::send`], [`Card::received`]), and reads which rules were broken
//! ([`Card::assert_no_must`]).
//!
//! **Time is that of the card.** It stands still unless the driver accesses a register, which takes 1 µs, or
//! the test lets time pass. So a test is deterministic, and five seconds take no time. A driver that waits
//! for a status in memory without any access needs [`Clock::Host`].
//!
//! ```
//! use kpps_inprocess::{Card, Options};
//!
//! let card = Card::new(Options::default())?;
//! let status = card.read32(8);
//! assert_eq!(status & 2, 0, "no link yet: CTRL.SLU is not set");
//! card.write32(0, card.read32(0) | 1 << 6);
//! card.advance(std::time::Duration::from_millis(10));
//! assert_eq!(card.read32(8) & 2, 2);
//! card.assert_no_must();
//! # Ok::<(), kpps_inprocess::Error>(())
//! ```
//!
//! A window and memory are valid as long as a handle of their card lives: a driver must not outlive the last
//! one.
#![forbid(unsafe_code)]

mod card;
mod error;
mod findings;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod instruction;
mod line;
mod options;
mod platform;
mod state;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod window;

pub use card::{Card, Dma};
pub use error::Error;
pub use findings::{Findings, PerFrame};
pub use options::{Clock, Options, Reach};
pub use platform::CardPlatform;

pub use kpps_audit::{Breach, Cards, Counts, Partner, Quirk, Rule, Severity, responder};
pub use kpps_datasheet::Chip;
