//! The version of the documents.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The version of the document. Fields may be added within a version; none changes its meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Schema {
    /// The third version: one name has one meaning in JSON, CSV and a data frame.
    #[default]
    #[serde(rename = "kpps/3")]
    Kpps3,
}

/// The number of this version.
const NUMBER: u32 = 3;

/// A document of another version has other fields: it is refused, with what to do.
impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.strip_prefix("kpps/").and_then(|number| number.parse::<u32>().ok());
        let (which, what) = match number {
            Some(NUMBER) => return Ok(Self::Kpps3),
            Some(..NUMBER) => ("an earlier", "measure again, or use that version for it"),
            Some(_) => ("a later", "use that version for it"),
            None => {
                return Err(D::Error::custom(format!("\"schema\" is {text:?}: expected \"kpps/{NUMBER}\"")));
            }
        };
        Err(D::Error::custom(format!(
            "{which} version of kpps wrote it (schema {text}, this version reads kpps/{NUMBER}): {what}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_with_what_to_do() {
        let read = |text: &str| serde_json::from_str::<Schema>(&format!("\"{text}\""));
        assert!(read("kpps/3").is_ok_and(|schema| schema == Schema::default()));
        for (text, says) in [
            (
                "kpps/2",
                "an earlier version of kpps wrote it (schema kpps/2, this version reads kpps/3): measure",
            ),
            ("kpps/1", "an earlier version"),
            ("kpps/4", "a later version of kpps wrote it (schema kpps/4"),
            ("kpps/x", "expected \"kpps/3\""),
            ("", "expected"),
        ] {
            let error = read(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
