//! What a CPU was busy with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a processor was busy with, as shares of its time, 0 to 1 each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// In interrupt handlers.
    pub hardirq: f64,
    /// In softirqs and bottom halves.
    pub softirq: f64,
    /// In threads, without polls that found nothing.
    pub thread: f64,
    /// Polling that found nothing: busy, but free for other work.
    pub empty_polls: f64,
}

impl Cpu {
    /// Share of time that the processor was not idle.
    pub fn busy(&self) -> f64 {
        self.hardirq + self.softirq + self.thread + self.empty_polls
    }
}
