//! What can be measured. A metric takes a configuration, a table of a study's file, and gives named values.

mod receive;
mod setting;
mod transmit;
mod watch;

use crate::Measurement;
use kpps_profiles::Change;
use std::collections::BTreeMap;

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One number.
    Number(f64),
    /// One for each load, ring or whatever the metric goes through.
    List(Vec<f64>),
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// Measured values by name.
pub type Values = BTreeMap<String, Value>;

/// Circumstances of all measurements.
pub struct Context<'a> {
    /// Constants of the profiles that are different.
    pub changes: Vec<Change>,
    /// Whether to go on.
    pub go_on: &'a (dyn Fn() -> bool + Sync),
}

/// A metric.
pub struct Metric {
    /// The name by which claims ask for it.
    pub name: &'static str,
    /// What it gives, in a sentence.
    pub about: &'static str,
    take: fn(toml::Table, &Context) -> Result<Values, String>,
}

/// All metrics.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "receive",
        about: "trials at one load or at many: delivered rate, loss by place, CPU, interrupts, register accesses",
        take: receive::receive,
    },
    Metric {
        name: "receive-grid",
        about: "peak and rate at line rate over a grid of two constants",
        take: receive::grid,
    },
    Metric {
        name: "transmit",
        about: "what the driver sends when there is always another frame",
        take: transmit::transmit,
    },
    Metric {
        name: "watch",
        about: "several ports at once, their bus and its regimes, the CPU by function",
        take: watch::run,
    },
];

/// Takes a measurement.
pub(crate) fn take(measurement: &Measurement, context: &Context) -> Result<Values, String> {
    let Some(metric) = METRICS.iter().find(|metric| metric.name == measurement.metric) else {
        let known = METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no metric '{}': known are {known}", measurement.metric));
    };
    (metric.take)(measurement.of.clone(), context)
}
