//! CPUs and priorities on systems other than Linux: threads run where the system puts them.

use std::time::Duration;

/// No effect here.
#[derive(Debug)]
pub struct Steady;

impl Steady {
    /// Does nothing.
    pub fn now() -> Self {
        Self
    }
}

/// No effect here.
#[derive(Debug)]
pub struct Aside;

impl Aside {
    /// Does nothing.
    pub fn now() -> Self {
        Self
    }

    /// Does nothing.
    pub fn receiving() -> Self {
        Self
    }
}

/// Not known here.
pub fn waited() -> Option<Duration> {
    None
}
