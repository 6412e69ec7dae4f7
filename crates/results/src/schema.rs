//! The version of the documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the document. Fields may be added within a version; none changes its meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Schema {
    /// The third version: one name has one meaning in JSON, CSV and a data frame.
    #[default]
    #[serde(rename = "kpps/3")]
    Kpps3,
}
