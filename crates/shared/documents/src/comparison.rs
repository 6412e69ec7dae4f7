//! Comparisons: each quantity of each result beside that of the first.

use crate::Schema;
use crate::json::to_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a [`Comparison`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComparisonKind {
    /// Results side by side.
    #[default]
    Comparison,
}

/// Results side by side, and whether they differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: ComparisonKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// The kind of the documents that were compared.
    pub of: String,
    /// The significance level: the probability of finding any difference although there is none (family-wise
    /// error rate).
    pub significance: f64,
    /// Differences up to this share of the first side's median are no regression.
    pub threshold: f64,
    /// The sides. The first is the reference.
    pub sides: Vec<Side>,
    /// The comparisons.
    pub rows: Vec<Compared>,
    /// Quantities that only some of the sides have. They were not compared.
    pub left_out: Vec<String>,
}

/// One side: results of one system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// The number of its documents.
    pub documents: usize,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher values are better.
    #[default]
    Higher,
    /// Lower values are better.
    Lower,
}

/// The verdict on a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Significantly better.
    Better,
    /// Significantly worse.
    Worse,
    /// Significantly different, but by no more than the threshold.
    Within,
    /// No significant difference.
    #[default]
    NoDifference,
    /// There are too few values to show any difference.
    TooFew,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Within => "within threshold",
            Self::NoDifference => "no difference",
            Self::TooFew => "too few values",
        })
    }
}

/// One quantity of one side, compared with the first side's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// The measurement: sizes and loads, and the system, if there are several.
    pub what: String,
    /// The quantity.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// The index of the side in `sides`, 1 or more.
    pub side: usize,
    /// The first side.
    pub first: Sample,
    /// This side.
    pub other: Sample,
    /// The median of all differences between a value of this side and one of the first, over the first side's
    /// median; null if that is 0.
    pub change: Option<f64>,
    /// The 95 % confidence interval of the change; null if there are too few values.
    pub interval: Option<[f64; 2]>,
    /// The p-value: the probability of values as far apart as these if nothing differed. Null for counts on
    /// the instruction clock: they repeat exactly, and the threshold alone judges them.
    pub p: Option<f64>,
    /// The p-value, corrected for the number of comparisons.
    pub p_adjusted: Option<f64>,
    /// The verdict.
    pub finding: Finding,
}

/// The values of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The number of values.
    pub count: usize,
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Comparison {
    /// Quantities that are worse.
    pub fn regressions(&self) -> usize {
        self.rows.iter().filter(|row| row.finding == Finding::Worse).count()
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}
