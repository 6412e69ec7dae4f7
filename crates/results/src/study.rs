//! The document of kind `study`: claims and verdicts.

use crate::Schema;
use crate::json::to_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not hold.
    Miss,
    /// A prediction without a published figure to compare it with.
    Predicted,
    /// It could not be measured or judged.
    Failed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Miss => "miss",
            Self::Predicted => "predicted",
            Self::Failed => "failed",
        })
    }
}

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The study.
    pub study: String,
    /// The claim's id within all studies.
    pub id: String,
    /// The claim, in our words.
    pub says: String,
    /// "fit": constants may be fitted on it; "exact": arithmetic; "order": a shape or an ordering; "setup": a
    /// fact about the configuration; "kept-back": a prediction.
    pub kind: String,
    /// The expected result.
    pub expected: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Measured values, by name.
    pub values: BTreeMap<String, f64>,
    /// The mechanism behind a miss, or the reason of a failure; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A line of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points, x and y in the figure's units.
    pub points: Vec<(f64, f64)>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Its title.
    pub title: String,
    /// The quantity of the x axis, with its unit.
    pub x: String,
    /// The quantity of the y axis, with its unit.
    pub y: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A map: one value of every cell of a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Map {
    /// Its title.
    pub title: String,
    /// The quantity of a cell, and the meaning of 1.
    pub cell: String,
    /// The quantity of the columns, with its unit.
    pub columns_of: String,
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows, with their names.
    pub rows: Vec<Row>,
}

/// A row of a map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// One value for each column; `null` where it was not observed.
    pub cells: Vec<Option<f64>>,
}

/// A study in words and figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Article {
    /// The study.
    pub name: String,
    /// Title, author, year.
    pub title: String,
    /// The question.
    pub question: String,
    /// The subject: system and method.
    pub setting: String,
    /// Our measurements, drawn as the figures of the study.
    pub figures: Vec<Figure>,
    /// Maps over grids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<Map>,
}

/// The kind of a [`Study`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Claims and verdicts.
    #[default]
    Study,
}

/// Claims of studies and their verdicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Study {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: Kind,
    /// The version of kpps.
    pub kpps_version: String,
    /// Hash of the profiles, with all their constants, that were in force.
    pub profiles_hash: String,
    /// The claims.
    pub claims: Vec<Claim>,
    /// The studies they are from.
    pub articles: Vec<Article>,
    /// Whether all requested claims are there; false after an interruption.
    pub complete: bool,
}

impl Study {
    /// The claims of one study.
    pub fn of<'a>(&'a self, study: &'a str) -> impl Iterator<Item = &'a Claim> {
        self.claims.iter().filter(move |claim| claim.study == study)
    }

    /// How many claims have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}
