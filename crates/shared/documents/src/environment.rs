//! The environment of a measurement.

use crate::Mix;
use crate::round::{MILLIONTHS, TENTHS, rounded_to};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The environment of a measurement, as needed to repeat it. It has no times and no host names, so equal
/// runs give equal documents. A field that does not apply, or is not known, is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The version of kpps.
    pub kpps_version: String,
    /// The names of the testbed: two ports, or one name of a testbed without ports, such as `known:1Mpps`.
    /// `sim` stands for the simulator and `lab` for guests in QEMU in results that can compare several; the
    /// only machine or guest of other results has its full name. Commands without a testbed list their ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub testbed: Vec<String>,
    /// The machine by name: card, bus, host and stack together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// The network controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chip: String,
    /// The rate-limited NIC, in place of a controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nic: String,
    /// The bus between host and controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bus: String,
    /// CPU, memory and chip set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The operating-system stack on top of the driver; for a guest, its kernel by the name in the lab.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stack: String,
    /// The driver, if all results have the same: a preset, or that of a guest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// The app between two cards, if there is one; loads are then those of both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The program that sends or receives, if a process does: loads end there, and not in the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Facts by name: kernel, QEMU, CPUs, ports and settings of a system that no profile describes; for the
    /// simulator `set`, the constants with other values than the profiles have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub system: BTreeMap<String, String>,
    /// Frames were offered in both directions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bidirectional: bool,
    /// How frames differ from the usual ones: addresses, flows, VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The mix of sizes, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// How frames followed each other, if not evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// The number of flows in the load, if it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u16>,
    /// The number of cache lines that every frame changes under one lock, if it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_lines: Option<u32>,
    /// Size of each frame in bytes with FCS; for a mix, the rounded mean. Absent if there are several sizes,
    /// each with results of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes_with_fcs: Option<u32>,
    /// Frames of this size per second on full links, all directions of the load together. Between two ports,
    /// the slower link counts. Absent if the speed of a link is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_rate_pps: Option<f64>,
    /// The layer on which bits were counted, if loads were given in bits: 1 with preamble and gap, 2
    /// without. The points have frames per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_layer: Option<u8>,
    /// Length of the measured part of each trial, in s; absent if trials have different lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Length of the part before it that is not measured, in s, if the load had such a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_s: Option<f64>,
    /// Seed of everything random, if the testbed draws anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How often the uncertain constants of the simulated machine were drawn at random, for the error bars,
    /// if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<usize>,
    /// Hash of the profiles that were used, with all their constants; absent without profiles.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profiles_hash: String,
    /// The description of each preset, by the name of its series.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub presets: BTreeMap<String, String>,
}

impl Environment {
    /// The environment of a testbed of this name, or between these two ports, with this version of kpps.
    pub fn on(testbed: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let testbed = testbed.into_iter().map(Into::into).collect();
        Self { kpps_version: env!("CARGO_PKG_VERSION").into(), testbed, ..Self::default() }
    }

    /// The testbed in one name.
    pub fn testbed_name(&self) -> String {
        self.testbed.join(" and ")
    }

    /// The name of the machine; for a system that no profile describes, the testbed's name.
    pub fn machine_name(&self) -> String {
        if self.machine.is_empty() { self.testbed_name() } else { self.machine.clone() }
    }

    /// A fact about the system; empty if it is unknown.
    pub fn system(&self, name: &str) -> &str {
        self.system.get(name).map_or("", String::as_str)
    }

    /// Whether the testbed is two ports.
    pub fn is_between_ports(&self) -> bool {
        self.testbed.len() > 1
    }

    /// Whether it is the simulator: only simulations have profiles.
    pub fn is_simulated(&self) -> bool {
        !self.profiles_hash.is_empty()
    }

    /// The number of ports that send the load of a curve or a search: between more than two ports, all.
    pub fn directions(&self) -> f64 {
        match self.testbed.len() {
            0..=2 if self.bidirectional => 2.0,
            0..=2 => 1.0,
            ports => ports as f64,
        }
    }

    /// Whose load a rate of a search is, in words behind it; nothing if only one port sends.
    pub fn load_of(&self) -> &'static str {
        match self.testbed.len() {
            0..=2 if self.bidirectional => " per direction",
            0..=2 => "",
            _ => " from each port",
        }
    }

    /// The card: the chip, or the rate-limited NIC; empty if it is not known.
    pub fn card(&self) -> &str {
        if self.chip.is_empty() { &self.nic } else { &self.chip }
    }

    /// The size in bytes with FCS, or the mix, as it is typed.
    pub fn sizes_name(&self) -> String {
        match &self.mix {
            Some(mix) => mix.name.clone(),
            None => self.frame_bytes_with_fcs.map_or_else(String::new, |bytes| bytes.to_string()),
        }
    }

    /// The size in bytes with FCS, for a mix the rounded mean; 0 without a size.
    pub fn bytes_with_fcs(&self) -> u32 {
        self.frame_bytes_with_fcs.unwrap_or(0)
    }

    /// The mean size in bytes with FCS; 0 without a size.
    pub fn mean_bytes_with_fcs(&self) -> f64 {
        self.mix.as_ref().map_or(self.bytes_with_fcs().into(), |mix| mix.mean_bytes_with_fcs)
    }

    /// Length of the measured part of each trial in ms, to a microsecond; 0 if trials have different lengths.
    pub fn duration_ms(&self) -> f64 {
        rounded_to(self.duration_s.unwrap_or(0.0) * 1e3, 1e3)
    }

    /// The fields that are equal in both environments; the others are absent. The presets are those of both.
    #[must_use]
    pub fn in_common(self, other: &Self) -> Self {
        let mut system = self.system;
        system.retain(|name, value| other.system.get(name) == Some(value));
        let others_presets = other.presets.iter().map(|(name, words)| (name.clone(), words.clone()));
        Self {
            kpps_version: same(self.kpps_version, &other.kpps_version),
            testbed: same(self.testbed, &other.testbed),
            machine: same(self.machine, &other.machine),
            chip: same(self.chip, &other.chip),
            nic: same(self.nic, &other.nic),
            bus: same(self.bus, &other.bus),
            host: same(self.host, &other.host),
            stack: same(self.stack, &other.stack),
            driver: same(self.driver, &other.driver),
            app: same(self.app, &other.app),
            program: same(self.program, &other.program),
            system,
            bidirectional: same(self.bidirectional, &other.bidirectional),
            traffic: same(self.traffic, &other.traffic),
            mix: same(self.mix, &other.mix),
            shape: same(self.shape, &other.shape),
            flows: same(self.flows, &other.flows),
            shared_lines: same(self.shared_lines, &other.shared_lines),
            frame_bytes_with_fcs: same(self.frame_bytes_with_fcs, &other.frame_bytes_with_fcs),
            line_rate_pps: same(self.line_rate_pps, &other.line_rate_pps),
            load_layer: same(self.load_layer, &other.load_layer),
            duration_s: same(self.duration_s, &other.duration_s),
            warmup_s: same(self.warmup_s, &other.warmup_s),
            seed: same(self.seed, &other.seed),
            draws: same(self.draws, &other.draws),
            profiles_hash: same(self.profiles_hash, &other.profiles_hash),
            presets: self.presets.into_iter().chain(others_presets).collect(),
        }
    }

    /// The environment with this line rate of each direction, if it is known.
    #[must_use]
    pub fn with_line_rate(self, pps: Option<f64>) -> Self {
        Self { line_rate_pps: pps.map(|pps| pps * self.directions()), ..self }
    }

    /// The environment with rates rounded to 0.1 per second, and times to a millionth of a second.
    #[must_use]
    pub fn rounded(self) -> Self {
        Self {
            line_rate_pps: self.line_rate_pps.map(|pps| rounded_to(pps, TENTHS)),
            duration_s: self.duration_s.map(|time| rounded_to(time, MILLIONTHS)),
            warmup_s: self.warmup_s.map(|time| rounded_to(time, MILLIONTHS)),
            ..self
        }
    }
}

/// The value, if the other is equal; otherwise none.
fn same<T: PartialEq + Default>(value: T, other: &T) -> T {
    if value == *other { value } else { T::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_does_not_apply_is_absent() {
        let environment = Environment { kpps_version: "1".into(), ..Environment::default() };
        let json = serde_json::to_string(&environment).unwrap();
        assert_eq!(json, r#"{"kpps_version":"1"}"#);
        assert_eq!(serde_json::from_str::<Environment>(&json).unwrap(), environment);
    }

    #[test]
    fn a_testbed_is_one_name_or_two() {
        let ports = Environment::on(["packet:a", "packet:b"]);
        assert!(ports.is_between_ports() && !ports.is_simulated());
        assert_eq!(
            (ports.testbed_name(), ports.machine_name()),
            ("packet:a and packet:b".into(), ports.testbed_name())
        );
        let simulated = Environment {
            machine: "morris2000".into(),
            profiles_hash: "0".into(),
            frame_bytes_with_fcs: Some(64),
            ..Environment::on(["sim"])
        };
        assert!(simulated.is_simulated() && !simulated.is_between_ports());
        let of = |driver: &str, bytes| Environment {
            driver: driver.into(),
            frame_bytes_with_fcs: Some(bytes),
            presets: [(driver.into(), format!("driver {driver}"))].into(),
            system: [("kernel".into(), "6.1".into()), ("irq".into(), driver.into())].into(),
            ..simulated.clone()
        };
        let common = of("kpps", 64).in_common(&of("rdr", 64));
        assert_eq!(
            (&common.driver[..], common.frame_bytes_with_fcs, common.presets.len()),
            ("", Some(64), 2)
        );
        assert_eq!((common.system.len(), common.system("kernel"), common.seed), (1, "6.1", None));
        assert_eq!(of("kpps", 64).in_common(&of("kpps", 128)).frame_bytes_with_fcs, None);
        assert_eq!((simulated.machine_name(), simulated.sizes_name()), ("morris2000".into(), "64".into()));
    }
}
