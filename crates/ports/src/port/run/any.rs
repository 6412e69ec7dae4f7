//! The loops on ports of any kind. A card has a loop of its own, without a dispatch for each frame; other
//! ports pay for a system call anyway.

use super::{Plan, Sent, Streams, Watch, count, forward, send};
use crate::port::{AnyPort, Trouble};
use std::time::Duration;

/// [`send`] from a port of any kind.
///
/// # Errors
/// [`Trouble`].
pub fn send_any(port: &mut AnyPort, plan: &Plan, watch: &mut impl Watch) -> Result<Sent, Trouble> {
    match port {
        #[cfg(target_os = "linux")]
        AnyPort::Card(card) => send(&mut **card, plan, watch),
        port => send(port, plan, watch),
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
    watch: &mut impl Watch,
) -> Result<Duration, Trouble> {
    match port {
        #[cfg(target_os = "linux")]
        AnyPort::Card(card) => count(&mut **card, streams, expect, watch),
        port => count(port, streams, expect, watch),
    }
}

/// [`forward`] between ports of any kind.
///
/// # Errors
/// [`Trouble`].
pub fn forward_any(a: &mut AnyPort, b: &mut AnyPort, watch: &mut impl Watch) -> Result<Duration, Trouble> {
    match (a, b) {
        #[cfg(target_os = "linux")]
        (AnyPort::Card(a), AnyPort::Card(b)) => forward(&mut **a, &mut **b, watch),
        (a, b) => forward(a, b, watch),
    }
}
