//! A search for the highest load that is delivered, with all of its trials.

use crate::json::to_json;
use crate::{Environment, Limit, Schema, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of an [`Ndr`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NdrKind {
    /// A search for several loss ratios.
    #[default]
    Ndr,
}

/// The result of a search. Loads are frames per second in each direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ndr {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: NdrKind,
    /// The environment.
    pub environment: Environment,
    /// The lowest load to try, in frames per second.
    pub min_pps: f64,
    /// The highest load to try, in frames per second.
    pub max_pps: f64,
    /// The highest load in each direction that the tester itself could send and receive, in frames per
    /// second; absent if no trial of the search was above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_pps: Option<f64>,
    /// The port whose operator allows no load above `max_pps`, if a higher one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_allowed_by: Option<String>,
    /// The goals and their results.
    pub goals: Vec<SearchGoal>,
    /// The rate delivered at the highest load that was measured (MRR), in frames per second: the mean of its
    /// trials.
    pub mrr_pps: Option<f64>,
    /// The result of plain bisection, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bisection: Option<PlainBisection>,
    /// Every trial of the search, in order, those of an earlier run first.
    pub trials: Vec<Trial>,
    /// How long all trials took together, in s.
    pub measured_s: f64,
    /// Every goal is reached; false after an interruption or at the time limit.
    pub complete: bool,
    /// The failure, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A goal and its result (RFC 9971).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchGoal {
    /// `NDR` or `PDR`.
    pub name: String,
    /// The loss ratio up to which a trial is of low loss.
    pub loss_ratio: f64,
    /// The share of the time at a load that trials of high loss may take.
    pub exceed_ratio: f64,
    /// Largest distance of the loads of both bounds, relative to the upper one.
    pub width: f64,
    /// Length of a trial, in s.
    pub trial_s: f64,
    /// Time after which a load is decided, in s.
    pub sum_s: f64,
    /// The largest load at which the goal is met, below the upper bound, in frames per second. It is the rate
    /// that was really sent, and that was sustained in the longest trials.
    pub lower_pps: Option<f64>,
    /// The requested load of the lower bound, if less was sent because something disturbed the trials there,
    /// or if less was sustained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_load_pps: Option<f64>,
    /// The smallest load at which the goal is not met; null if the goal is met at the highest load.
    pub upper_pps: Option<f64>,
    /// The conditional throughput at the lower bound, in frames per second.
    pub conditional_pps: Option<f64>,
    /// The part of the tester that is the limit, or the operator of a port, if it is not the device under
    /// test: the goal is met at the highest load that the tester could measure, and the device may do better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limit>,
    /// The bounds are as close as requested.
    pub done: bool,
}

/// The result of plain bisection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlainBisection {
    /// The highest load that was seen without loss, in frames per second; null if there was none.
    pub lower_pps: Option<f64>,
    /// The part of the tester that is the limit, if the upper load was too high for the tester rather than
    /// for the device under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limit>,
    /// Its trials, in order.
    pub trials: Vec<Trial>,
}

impl Ndr {
    /// The load of a trial of this search in each direction, in frames per second.
    pub fn load_pps(&self, trial: &Trial) -> f64 {
        trial.offered_pps / self.environment.directions()
    }

    /// The part of the tester that limits the strictest goal, if it is not the device under test.
    pub fn limited_by(&self) -> Option<Limit> {
        self.goals.first()?.limited_by
    }

    /// The largest load at which a goal is met.
    pub fn lower_pps(&self, goal: &str) -> Option<f64> {
        self.goals.iter().find(|it| it.name == goal)?.lower_pps
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}
