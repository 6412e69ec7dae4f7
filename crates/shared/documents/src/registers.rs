//! Register accesses.

use crate::round::{TEN_THOUSANDTHS, finite};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Register accesses for each frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Registers {
    /// Reads, which the CPU waits for.
    pub read: f64,
    /// Writes, which are posted.
    pub write: f64,
}

impl Registers {
    /// The accesses to 4 decimals; `None` if one of them is not a finite number.
    #[must_use]
    pub fn rounded(self) -> Option<Self> {
        let each = |value| finite(value, TEN_THOUSANDTHS);
        Some(Self { read: each(self.read)?, write: each(self.write)? })
    }
}
