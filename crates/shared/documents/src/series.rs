//! Curves, and where they were measured.

use crate::{Mix, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The environment of a measurement, as needed to repeat it. It has no times and no host names, so equal
/// runs give equal documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The version of kpps.
    pub kpps_version: String,
    /// The testbed: "sim" for the simulator.
    pub testbed: String,
    /// The machine by name: chip, bus, host and stack together. For other testbeds this is their name, and
    /// the fields chip, bus, host and stack are absent if they are unknown.
    pub machine: String,
    /// The network controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chip: String,
    /// The bus between host and controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bus: String,
    /// CPU, memory and chip set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The operating-system stack on top of the driver.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stack: String,
    /// The app between two cards, if there is one; loads are then those of both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The system by name, if it is not a machine of profiles: kernel, CPUs, ports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured_on: BTreeMap<String, String>,
    /// Frames were offered in both directions; loads are then those of both together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bidirectional: bool,
    /// How frames differ from the usual ones: addresses, flows, VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The mix of sizes, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// Size of each frame in bytes without FCS; of a mix the mean, rounded.
    pub size_bytes_without_fcs: u16,
    /// Size of each frame in bytes with FCS; of a mix the mean, rounded.
    pub frame_bytes_with_fcs: u32,
    /// Frames of this size per second on a full link.
    pub line_rate_pps: f64,
    /// The layer on which bits were counted, if loads were given in bits: 1 with preamble and gap, 2
    /// without. The points have frames per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_layer: Option<u8>,
    /// Length of the measured part of each trial, in ms.
    pub duration_ms: u64,
    /// Length of the part before it that is not measured, in ms, if the load had such a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_ms: Option<u64>,
    /// Seed of everything random, if the testbed draws anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Hash of the profiles, with all their constants, that were in force; absent if none were.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profiles_hash: String,
    /// The description of each preset, by the name of its series.
    pub presets: BTreeMap<String, String>,
}

/// One curve: a preset under rising load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// The name of the preset.
    pub name: String,
    /// The trials, by rising offered load.
    pub points: Vec<Trial>,
}

impl Series {
    /// The point with the highest rate that is sustained; of nearly equal ones that with the lowest load.
    pub fn peak(&self) -> Option<&Trial> {
        let most = self.points.iter().map(Trial::sustained_pps).fold(0.0, f64::max);
        self.points.iter().find(|p| p.sustained_pps() >= 0.999 * most)
    }
}
