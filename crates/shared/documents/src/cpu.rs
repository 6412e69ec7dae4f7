//! CPU time by kind.

use crate::round::{MILLIONTHS, finite};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time of a CPU by kind, as shares, 0 to 1 each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// In interrupt handlers.
    pub hardirq: f64,
    /// In softirqs and bottom halves.
    pub softirq: f64,
    /// In threads: programs and the kernel on their behalf. Without `idle_polls` where those are known.
    pub thread: f64,
    /// Idle polls: busy, but free for other work. Null where they cannot be distinguished from work.
    pub idle_polls: Option<f64>,
}

impl Cpu {
    /// Share of time that the CPU was not idle.
    pub fn busy(&self) -> f64 {
        self.hardirq + self.softirq + self.thread + self.idle_polls.unwrap_or(0.0)
    }

    /// Share of time that the CPU worked: busy, without idle polls as far as they are known.
    pub fn used(&self) -> f64 {
        self.busy() - self.idle_polls.unwrap_or(0.0)
    }

    /// Share of time that was left for other work, 0 to 1: idle, or known to be spent on idle
    /// polls.
    pub fn left(&self) -> f64 {
        (1.0 - self.busy() + self.idle_polls.unwrap_or(0.0)).clamp(0.0, 1.0)
    }

    /// The shares to 6 decimals; `None` if one of them is not a finite number.
    #[must_use]
    pub fn rounded(self) -> Option<Self> {
        let share = |value| finite(value, MILLIONTHS);
        Some(Self {
            hardirq: share(self.hardirq)?,
            softirq: share(self.softirq)?,
            thread: share(self.thread)?,
            idle_polls: self.idle_polls.and_then(share),
        })
    }
}
