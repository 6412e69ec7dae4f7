//! Where there is no Linux, threads run where the system puts them.

use std::time::Duration;

/// Nothing here: a thread keeps its place.
#[derive(Debug)]
pub struct Steady;

impl Steady {
    /// From now on.
    pub fn now() -> Self {
        Self
    }
}

/// Nothing here: a thread keeps its place.
#[derive(Debug)]
pub struct Aside;

impl Aside {
    /// From now on.
    pub fn now() -> Self {
        Self
    }

    /// The same for a receiver.
    pub fn receiving() -> Self {
        Self
    }
}

/// Not known here.
pub fn waited() -> Option<Duration> {
    None
}
