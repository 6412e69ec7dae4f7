//! The loops on ports of any kind. A card and a device of DPDK have loops of their own, without a dispatch
//! for each frame; other ports pay for a system call anyway.
//!
//! The watch is not generic here, so that the loops are compiled with this crate, whose profile is that of
//! packet paths, and not with whoever watches. It is asked once for a burst at most.

use super::{SendPlan, Sent, Streams, Watch, count, forward, send};
use crate::port::{AnyPort, Trouble};
use std::time::Duration;

/// [`send`] from a port of any kind.
///
/// # Errors
/// [`Trouble`].
pub fn send_any(port: &mut AnyPort, plan: &SendPlan, mut watch: &mut dyn Watch) -> Result<Sent, Trouble> {
    match port {
        #[cfg(target_os = "linux")]
        AnyPort::Card(card) => send(&mut **card, plan, &mut watch),
        #[cfg(target_os = "linux")]
        AnyPort::Dpdk(dpdk) => send(&mut **dpdk, plan, &mut watch),
        port => send(port, plan, &mut watch),
    }
}

/// [`count`] at a port of any kind.
///
/// # Errors
/// [`Trouble`].
pub fn count_any(
    port: &mut AnyPort,
    streams: &mut Streams,
    expect: Option<u64>,
    mut watch: &mut dyn Watch,
) -> Result<Duration, Trouble> {
    match port {
        #[cfg(target_os = "linux")]
        AnyPort::Card(card) => count(&mut **card, streams, expect, &mut watch),
        #[cfg(target_os = "linux")]
        AnyPort::Dpdk(dpdk) => count(&mut **dpdk, streams, expect, &mut watch),
        port => count(port, streams, expect, &mut watch),
    }
}

/// [`forward`] between ports of any kind.
///
/// # Errors
/// [`Trouble`].
pub fn forward_any(a: &mut AnyPort, b: &mut AnyPort, mut watch: &mut dyn Watch) -> Result<Duration, Trouble> {
    match (a, b) {
        #[cfg(target_os = "linux")]
        (AnyPort::Card(a), AnyPort::Card(b)) => forward(&mut **a, &mut **b, &mut watch),
        (a, b) => forward(a, b, &mut watch),
    }
}
