//! Frames of several sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Frames of several sizes that take turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mix {
    /// Its name, or its sizes in bytes with FCS with their weights.
    pub name: String,
    /// The mean size in bytes with FCS.
    pub mean_bytes_with_fcs: f64,
}
