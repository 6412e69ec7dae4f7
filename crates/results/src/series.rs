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
    /// the fields chip, bus, host and stack may be empty.
    pub machine: String,
    /// The network controller.
    pub chip: String,
    /// The bus between host and controller.
    pub bus: String,
    /// CPU, memory and chip set.
    pub host: String,
    /// The operating-system stack on top of the driver.
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
    /// Length of the measured part of each trial, in ms.
    pub duration_ms: u64,
    /// Length of the part before it that is not measured, in ms.
    pub warmup_ms: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// Hash of the profiles, with all their constants, that were in force.
    pub profiles_hash: String,
    /// The description of each preset, by the name of its series.
    pub presets: BTreeMap<String, String>,
}

impl Environment {
    /// The parts of the machine, in words; empty if they are unknown.
    pub fn parts(&self) -> String {
        let Self { chip, bus, host, stack, .. } = self;
        let card = if bus.is_empty() { chip.clone() } else { format!("{chip} on {bus}") };
        let app = self.app.as_ref().map(|app| format!("{app} between two cards")).unwrap_or_default();
        let parts = [card, host.clone(), stack.clone(), app];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Whether frames are of one size, all of one flow, and go in one direction.
    pub fn is_usual(&self) -> bool {
        self.mix.is_none() && self.traffic.is_none() && !self.bidirectional
    }

    /// The frames, in words.
    pub fn frames(&self) -> String {
        let sizes = match &self.mix {
            Some(mix) => format!("{} B with FCS ({:.1} B in the mean)", mix.name, mix.mean_bytes_with_fcs),
            None => {
                format!("{} B ({} B without FCS)", self.frame_bytes_with_fcs, self.size_bytes_without_fcs)
            }
        };
        let traffic = self.traffic.as_ref().map(|traffic| format!(", {traffic}")).unwrap_or_default();
        format!("{sizes}{traffic}{}", if self.bidirectional { ", bidirectional" } else { "" })
    }
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
    /// The point with the highest delivered rate; of nearly equal ones that with the lowest load.
    pub fn peak(&self) -> Option<&Trial> {
        let most = self.points.iter().map(|p| p.delivered_pps).fold(0.0, f64::max);
        self.points.iter().find(|p| p.delivered_pps >= 0.999 * most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_says_what_it_knows() {
        let of = |words: [&str; 4]| {
            let [chip, bus, host, stack] = words.map(str::to_owned);
            Environment { chip, bus, host, stack, ..Environment::default() }.parts()
        };
        assert_eq!(of(["82543", "PCI", "PIII", "Linux"]), "82543 on PCI, PIII, Linux");
        assert_eq!((of(["", "", "", "Linux"]), of([""; 4])), ("Linux".to_owned(), String::new()));
        let usual =
            Environment { size_bytes_without_fcs: 60, frame_bytes_with_fcs: 64, ..Environment::default() };
        assert_eq!(usual.frames(), "64 B (60 B without FCS)");
        let mix = Some(Mix { name: "64:1,128:1".into(), mean_bytes_with_fcs: 96.0 });
        let mixed = Environment { mix, traffic: Some("5 flows".into()), bidirectional: true, ..usual };
        assert_eq!(mixed.frames(), "64:1,128:1 B with FCS (96.0 B in the mean), 5 flows, bidirectional");
    }
}
