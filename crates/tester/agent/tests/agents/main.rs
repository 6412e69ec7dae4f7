//! Agents and a tester: in one process, and in network namespaces.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod distance;
#[cfg(target_os = "linux")]
mod namespaces;
mod protocol;
mod session;
