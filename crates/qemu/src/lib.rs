//! QEMU as a testbed of the driver.
//!
//! - [`qtest`]: one of QEMU's e1000 cards behind [`kpps_platform`], without a guest.
//! - [`lab`] (feature `lab`): guests with stock Debian kernels on the same cards.

#[cfg(feature = "lab")]
pub mod lab;
pub mod qtest;
