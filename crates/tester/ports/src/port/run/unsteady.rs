//! CPUs and priorities on systems other than Linux: threads run where the system puts them.

use super::{CpuList, Got};
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

/// Not possible here.
///
/// # Errors
/// If any are given, in one line.
pub fn use_cpus(cpus: Option<&CpuList>) -> Result<(), String> {
    cpus.map_or(Ok(()), |_| Err("choosing CPUs works on Linux only".into()))
}

/// Not possible here.
///
/// # Errors
/// If any are given, in one line.
pub fn use_cores(cpus: Option<&CpuList>) -> Result<(), String> {
    use_cpus(cpus)
}

/// No effect here.
#[derive(Debug)]
pub struct Pinned;

/// Does nothing.
pub fn pin_core(_: usize) -> Pinned {
    Pinned
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

/// Does nothing.
pub fn prefer(_: bool) {}

/// Does nothing.
pub fn use_priority(_: bool) {}

/// Sessions have no priority here.
pub fn left_raised() -> Option<String> {
    None
}

/// Nothing was changed here.
pub fn restore_priority() {}

/// Not known here.
pub fn waited() -> Option<Duration> {
    None
}
