//! Documents as JSON.

use crate::finite;
use serde::Serialize;

/// A document as JSON, ending in a newline. Equal documents give equal bytes.
///
/// # Errors
/// A number that is not finite: JSON has none.
pub fn to_json(document: &impl Serialize) -> serde_json::Result<String> {
    finite::check(document)?;
    serde_json::to_string_pretty(document).map(|json| json + "\n")
}
