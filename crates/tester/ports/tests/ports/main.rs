//! Ports on a card and on interfaces of the kernel.
#![allow(clippy::unwrap_used)]

mod card;
#[cfg(target_os = "linux")]
mod dpdk;
#[cfg(target_os = "linux")]
mod kernel;
