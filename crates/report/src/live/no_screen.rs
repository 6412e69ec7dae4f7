//! In place of the view of the whole screen where the feature `live` is off: nothing is shown.

use super::sample::Sampler;
use std::io;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Columns of a terminal of which nothing is known.
pub(super) fn columns() -> usize {
    80
}

/// The terminal was never taken.
pub fn restore() {}

/// There is no screen.
pub(super) fn watch(_: Sampler, _: &Receiver<()>, _: Duration, _: bool, _: &dyn Fn()) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
