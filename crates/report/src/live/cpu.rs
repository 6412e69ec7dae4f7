//! The use of a CPU.

/// Parts of a whole, by name.
pub type Parts = Vec<(&'static str, f64)>;

/// The use of a CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveCpu {
    /// Its busy time by kind. A [`Source`](super::Source) gives seconds since any moment, a
    /// [`Snapshot`](super::Snapshot) shares of its time.
    pub busy: Parts,
    /// Its idle time, in the same unit.
    pub idle: f64,
}
