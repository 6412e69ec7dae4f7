//! The outcome of worlds with faults.

use crate::Schema;
use crate::json::to_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a [`Faults`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaultsKind {
    /// A simulation of faults.
    #[default]
    Faults,
}

/// Worlds in virtual time, each with a driver, a card and faults drawn from its seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Faults {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: FaultsKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// The seeds of the first and of the last world.
    pub seeds: [u64; 2],
    /// The number of worlds.
    pub worlds: u64,
    /// Whether all requested worlds ran.
    pub complete: bool,
    /// Frames that were offered to ports, or by a sender.
    pub frames: u64,
    /// Frames that arrived where they should.
    pub arrived: u64,
    /// Frames that arrived twice, changed or without having been sent, and the card's accesses to memory that
    /// it did not own. The cause is false information that the card wrote into memory, which no driver can
    /// detect. They are allowed until the faults have ended and the driver has had its time to recover.
    pub harmed: u64,
    /// Virtual time of all worlds, in s.
    pub virtual_s: f64,
    /// How often each kind of fault happened.
    pub faults: Vec<FaultCount>,
    /// Places reached in the driver, and actions of its watchdog and the operator, by name.
    pub reached: BTreeMap<String, u64>,
    /// Worlds that failed, and the world whose events were requested.
    pub failures: Vec<FaultFailure>,
}

/// How often a kind of fault happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultCount {
    /// The fault.
    pub fault: String,
    /// The place of the fault: device, bus, host, wire, operator.
    pub place: String,
    /// The number of times with drivers of the policy `interrupt-loop`.
    pub interrupt_loop: u64,
    /// The same of drivers with this policy.
    pub napi: u64,
    /// The same of drivers with this policy.
    pub polling: u64,
    /// The same of drivers with this policy.
    pub self_pacing: u64,
    /// The number of times with end stations, whose TCP/IP stack serves the driver in its own way.
    #[serde(default)]
    pub station: u64,
}

impl FaultCount {
    /// How often with any policy.
    pub fn total(&self) -> u64 {
        self.columns().iter().map(|(_, times)| times).sum()
    }

    /// The policies with their names, and how often with each.
    pub fn columns(&self) -> [(&'static str, u64); 5] {
        [
            ("interrupt-loop", self.interrupt_loop),
            ("napi", self.napi),
            ("polling", self.polling),
            ("self-pacing", self.self_pacing),
            ("station", self.station),
        ]
    }
}

/// A world that failed: something happened in it that must not happen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultFailure {
    /// Its seed.
    pub seed: u64,
    /// A description of the failure; null for a world that did not fail and whose events were requested.
    pub what: Option<String>,
    /// The time of the failure, in virtual ms.
    pub at_ms: Option<f64>,
    /// The world in words.
    pub world: String,
    /// The smallest world found in which the same happens, in words; absent if no smaller world was searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest: Option<String>,
    /// The last events of that world.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
}

impl Faults {
    /// How many worlds failed.
    pub fn failed(&self) -> usize {
        self.failures.iter().filter(|failure| failure.what.is_some()).count()
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}
