//! The document of kind `curve`.

use crate::json::to_json;
use crate::summary::two_sentences;
use crate::{Environment, Schema, Series};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a [`Curve`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Delivered against offered load, for one or more series.
    #[default]
    Curve,
}

/// Delivered against offered load: one series for each preset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: Kind,
    /// The environment.
    pub environment: Environment,
    /// The curves, in the order in which they were given.
    pub series: Vec<Series>,
    /// A summary of the series in two sentences.
    pub summary: [String; 2],
    /// Whether every requested point exists; false after an interruption.
    pub complete: bool,
}

impl Curve {
    /// A document with its summary: sorts each series by offered load and rounds every value (see
    /// [`Trial::rounded`](crate::Trial::rounded)).
    pub fn new(environment: Environment, series: Vec<Series>, complete: bool) -> Self {
        let mut curve = Self {
            schema: Schema::default(),
            kind: Kind::Curve,
            environment: environment.rounded(),
            series,
            summary: Default::default(),
            complete,
        };
        for series in &mut curve.series {
            for point in &mut series.points {
                *point = std::mem::take(point).rounded();
            }
            series.points.sort_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps));
        }
        curve.summary = two_sentences(&curve.environment, &curve.series, curve.complete);
        curve
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The error and its place: not JSON, another schema, a missing field.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpu, Registers, Trial};

    #[test]
    fn values_are_rounded_and_points_sorted() {
        let point = |offered_pps| Trial {
            offered_pps,
            loss_ratio: 0.123_456_789,
            cpu_busy: Some(f64::NAN),
            delivered_pps: -0.0,
            cpu: Some(Cpu { idle_polls: Some(1.0 / 3.0), ..Cpu::default() }),
            bus_busy: Some(2.0 / 3.0),
            allocations_per_frame: Some(1.0 / 3.0),
            registers_per_frame: Some(Registers { read: 1.0 / 3.0, write: 2.0 / 3.0 }),
            ..Trial::default()
        };
        let series = Series { name: "a".into(), points: vec![point(1_488_095.238), point(10.04)] };
        let environment = Environment { line_rate_pps: Some(1_488_095.238_095), ..Environment::default() };
        let curve = Curve::new(environment, vec![series], true);
        assert_eq!(curve.environment.line_rate_pps, Some(1_488_095.2));
        let [first, second] = &curve.series[0].points[..] else { panic!("two points") };
        assert_eq!((first.offered_pps, second.offered_pps), (10.0, 1_488_095.2));
        assert_eq!((first.loss_ratio, first.cpu_busy), (0.123_457, None), "no number is unknown, not 0");
        assert_eq!(first.cpu.and_then(|cpu| cpu.idle_polls), Some(0.333_333));
        assert_eq!(first.bus_busy, Some(0.666_667));
        assert_eq!(first.registers_per_frame, Some(Registers { read: 0.3333, write: 0.6667 }));
        assert_eq!(first.allocations_per_frame, Some(0.3333));
        assert!(first.delivered_pps.is_sign_positive());
    }

    #[test]
    fn another_schema_is_refused() {
        let curve = Curve::new(Environment::default(), vec![], true);
        let json = curve.to_json().unwrap_or_default();
        assert!(Curve::from_json(&json).is_ok_and(|back| back == curve));
        assert!(Curve::from_json(&json.replace("kpps/3", "kpps/1")).is_err());
    }
}
