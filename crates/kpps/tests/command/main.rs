//! The command as its users meet it.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod agents;
mod cli;
mod compare;
mod documents;
mod grid;
#[cfg(target_os = "linux")]
mod guide;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod pages;
#[cfg(target_os = "linux")]
mod ports;
mod rfc2544;
mod scale;
mod study;
mod trace;
