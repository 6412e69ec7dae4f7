//! What a CPU does.

/// Parts of a whole, by name.
pub type Parts = Vec<(&'static str, f64)>;

/// A CPU, and what it does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processor {
    /// What it was busy with. A [`Source`](super::Source) gives seconds since any moment, a
    /// [`Snapshot`](super::Snapshot) shares of its time.
    pub busy: Parts,
    /// Its idle time, in the same unit.
    pub idle: f64,
}
