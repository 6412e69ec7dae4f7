//! Replaces the full-screen view without the feature `live`: shows nothing.

use super::sample::Sampler;
use std::io;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The assumed columns of a terminal.
pub(super) fn columns() -> usize {
    80
}

/// Does nothing: the terminal was not changed.
pub fn restore() {}

/// Does nothing.
pub(super) fn watch(_: Sampler, _: &Receiver<()>, _: Duration, _: bool, _: &dyn Fn()) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
