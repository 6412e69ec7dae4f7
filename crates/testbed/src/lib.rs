//! Testbeds: a driver, a machine and an application put together so that the bench can load them.
//!
//! So far there is one, the [`Simulated`] machine room, set up from profiles.
#![forbid(unsafe_code)]

mod netdev;
mod setup;
mod simulated;
pub mod traffic;
mod transmit;

pub use setup::{Setup, SetupError};
pub use simulated::Simulated;
pub use transmit::{Transmit, transmit};
