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
    /// A prediction whose result is not known yet.
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
    /// fact about the configuration; "wish": a feature that the document asks for; "kept-back": the result
    /// was not known when it was first predicted.
    pub kind: String,
    /// The expected result.
    pub expected: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Measured values, by name.
    pub values: BTreeMap<String, f64>,
    /// The 5th and the 95th percentile of measured values when all uncertain constants are drawn at random,
    /// by the same names, if that was requested; only of claims that test the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values_p5_p95: BTreeMap<String, [f64; 2]>,
    /// The values that the document states, by the same names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub value_document: BTreeMap<String, f64>,
    /// The values that were predicted before the document's values were known. They never change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values_blind: BTreeMap<String, f64>,
    /// Results of the document that were predicted, and whether the predictions hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Foretold>,
    /// The mechanism behind a miss, or the reason of a failure; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Claim {
    /// Whether the claim tests the model: no constant was fitted on it, and it is no arithmetic, no fact
    /// about the set-up and no wish.
    pub fn is_evidence(&self) -> bool {
        ["order", "kept-back"].contains(&self.kind.as_str())
    }
}

/// A result of a document that was predicted before it was known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Foretold {
    /// The result, in a few words.
    pub name: String,
    /// The condition on the predicted and the document's values under which the prediction holds.
    pub holds: String,
    /// Whether the condition holds for the values that were predicted before the result was known.
    pub blind: bool,
    /// Whether the condition holds for today's values. The model was revised in knowledge of the result.
    pub revised: bool,
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
    /// The document's statements about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<Stated>,
}

/// A document's statement about a figure: a point, a level (`y` alone), a place on the x axis (`x` alone), or
/// a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stated {
    /// The statement, in a few words.
    pub name: String,
    /// Its place on the x axis, in the figure's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Its place on the y axis, in the figure's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// The points of a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line: Vec<(f64, f64)>,
}

impl Stated {
    /// Its points in a figure whose axes end at `most_x` and `most_y`: a point has one, a line at least two.
    pub fn points(&self, most_x: f64, most_y: f64) -> Vec<(f64, f64)> {
        match (self.x, self.y) {
            (Some(x), Some(y)) => vec![(x, y)],
            (Some(x), None) => vec![(x, 0.0), (x, most_y)],
            (None, Some(y)) => vec![(0.0, y), (most_x, y)],
            (None, None) => self.line.clone(),
        }
    }
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
    /// Hash of the profiles that were used, with all their constants.
    pub profiles_hash: String,
    /// How often the uncertain constants were drawn at random, for the error bars, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<usize>,
    /// The claims.
    pub claims: Vec<Claim>,
    /// The studies they are from.
    pub articles: Vec<Article>,
    /// Whether all requested claims exist; false after an interruption.
    pub complete: bool,
}

impl Study {
    /// The claims of one study.
    pub fn of<'a>(&'a self, study: &'a str) -> impl Iterator<Item = &'a Claim> {
        self.claims.iter().filter(move |claim| claim.study == study)
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}

/// The kind of a [`Perturbation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PerturbationKind {
    /// Verdicts that change with fitted constants.
    #[default]
    Perturbation,
}

/// How much verdicts depend on fitted constants: each constant is moved down and up, one at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Perturbation {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: PerturbationKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// Hash of the profiles that were used, with all their constants.
    pub profiles_hash: String,
    /// The share by which each constant is moved.
    pub share: f64,
    /// The changes.
    pub rows: Vec<MovedConstant>,
    /// Changes that were requested.
    pub requested: usize,
    /// Whether all of them exist; false after an interruption.
    pub complete: bool,
}

/// A fitted constant, moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovedConstant {
    /// The constant: its profile's kind and name, and its own name, with dots between them.
    pub constant: String,
    /// Its change, as a share of its value.
    pub change: f64,
    /// Whether the change moves the constant: a small whole number may be rounded to its old value.
    pub is_moved: bool,
    /// The claims that it was fitted on.
    pub fitted: Vec<String>,
    /// The claims whose verdict changes.
    pub changed: Vec<ChangedVerdict>,
}

/// A claim whose verdict changes with a constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedVerdict {
    /// The study.
    pub study: String,
    /// The claim, by id.
    pub claim: String,
    /// Its verdict without the change.
    pub from: Verdict,
    /// Its verdict with the constant moved.
    pub to: Verdict,
}

/// The kind of a [`Drawn`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrawnKind {
    /// Constants of random machines.
    #[default]
    Drawn,
}

/// The constants that a seed draws for random machines; nothing is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drawn {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: DrawnKind,
    /// The seed.
    pub seed: u32,
    /// A row for each measurement whose machine the seed changes.
    pub rows: Vec<DrawnConstants>,
}

/// The constants that are drawn for a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrawnConstants {
    /// The measurement.
    pub measurement: String,
    /// Arguments of `kpps grid` that give a machine these constants.
    pub arguments: String,
}

/// The kind of a [`Fit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FitKind {
    /// Fitted constants.
    #[default]
    Fit,
}

/// The fitted constants, found anew from the claims of kind *fit*.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: FitKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// Hash of the profiles that were used, with all their constants.
    pub profiles_hash: String,
    /// The constants.
    pub rows: Vec<FittedConstant>,
    /// Whether all of them exist; false after an interruption.
    pub complete: bool,
}

/// A constant that a fit found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FittedConstant {
    /// The constant, in all profiles that have it.
    pub constant: String,
    /// The value that was found.
    pub value: f64,
    /// The value that the profiles hold.
    pub committed: f64,
    /// The least value that literature and hardware allow.
    pub least: f64,
    /// The greatest value that they allow.
    pub most: f64,
    /// The claims that it was fitted on.
    pub claims: Vec<String>,
}

/// The kind of a [`CrossValidation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CrossValidationKind {
    /// Claims, each predicted from the others.
    #[default]
    CrossValidation,
}

/// How well each claim of kind *fit* is predicted by constants that were fitted on the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossValidation {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: CrossValidationKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// Hash of the profiles that were used, with all their constants.
    pub profiles_hash: String,
    /// The claims.
    pub rows: Vec<PredictedClaim>,
    /// The median of their errors; null without a claim.
    pub median_error: Option<f64>,
    /// Whether all of them exist; false after an interruption.
    pub complete: bool,
}

/// A claim that was predicted from the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictedClaim {
    /// The claim, by id.
    pub claim: String,
    /// The greatest relative error of its figures.
    pub error: f64,
    /// The constants that were found without it, with their values.
    pub without: BTreeMap<String, f64>,
    /// The number of these constants that no other claim determines: they are in the middle of their bounds.
    pub untold: usize,
}
