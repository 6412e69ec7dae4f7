//! The version of the documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the document. Fields may be added within a version; none changes its meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Schema {
    /// The second version: what a testbed cannot observe is null.
    #[default]
    #[serde(rename = "kpps/2")]
    Kpps2,
}
