//! CPUs and priorities on systems other than Linux: threads run where the system puts them.

use std::time::Duration;

/// Not known here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Near;

impl Near {
    /// Nothing is known.
    pub fn interface(_: &str) -> Self {
        Self
    }
}

/// Does nothing.
pub fn use_cpus(_: Vec<usize>) {}

/// No CPU is known here.
pub fn list(_: &str) -> Vec<usize> {
    Vec::new()
}

/// What a sending thread got from the system: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// None.
    pub cpu: Option<u32>,
    /// False.
    pub first: bool,
    /// False.
    pub session_first: bool,
}

/// No effect here.
#[derive(Debug)]
pub struct Steady;

impl Steady {
    /// Does nothing.
    pub fn now(_: &Near) -> Self {
        Self
    }

    /// Nothing.
    pub fn got(&self) -> Got {
        Got::default()
    }
}

/// No effect here.
#[derive(Debug)]
pub struct Aside;

impl Aside {
    /// Does nothing.
    pub fn now(_: &Near) -> Self {
        Self
    }

    /// Does nothing.
    pub fn receiving(_: &Near) -> Self {
        Self
    }
}

/// Not known here.
pub fn waited() -> Option<Duration> {
    None
}
