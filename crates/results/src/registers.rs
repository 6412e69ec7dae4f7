//! Register accesses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Register accesses for each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Registers {
    /// Reads, which the processor waits for.
    pub read: f64,
    /// Writes, which are posted.
    pub write: f64,
}
