//! Inventories: profiles with their constants, cards of this system, and results of the conformance suite.

use crate::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a [`Profiles`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfilesKind {
    /// Profiles and their constants.
    #[default]
    Profiles,
}

/// Machines, chips, buses and the like, each constant with its source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profiles {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: ProfilesKind,
    /// Hash of all profiles with all their constants.
    pub profiles_hash: String,
    /// The profiles.
    pub profiles: Vec<ProfileEntry>,
}

/// A profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileEntry {
    /// Its kind: "chip", "bus" and the like.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// A description in a sentence.
    pub description: String,
    /// Its constants.
    pub constants: Vec<Constant>,
}

/// A constant of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Constant {
    /// Its name, with dots for nesting.
    pub name: String,
    /// Its value: a number, a word, a switch, a table.
    pub value: serde_json::Value,
    /// Its source.
    pub source: String,
    /// The claims that it was fitted on; empty for one with a citable value.
    pub fitted: Vec<String>,
    /// How well it is known, as a factor: nine of ten true values are between the value over it and the value
    /// times it. Absent for facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// The constant that it is a part of, and with which it is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
}

/// The kind of a [`Devices`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DevicesKind {
    /// Network cards.
    #[default]
    Devices,
}

/// The network cards of this system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Devices {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: DevicesKind,
    /// The cards, by address.
    pub devices: Vec<DeviceEntry>,
}

/// A network card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceEntry {
    /// Its PCI address.
    pub address: String,
    /// Its PCI vendor, four hexadecimal digits.
    pub vendor: String,
    /// Its PCI device, four hexadecimal digits.
    pub device: String,
    /// The chip, if kpps drives it; null otherwise.
    pub chip: Option<String>,
    /// The kernel's driver for it; null if there is none.
    pub driver: Option<String>,
    /// Its network interface; null while there is none.
    pub interface: Option<DeviceInterface>,
    /// Whether its interface is in another network namespace.
    pub in_other_namespace: bool,
    /// Its IOMMU group; null without an IOMMU.
    pub iommu_group: Option<u32>,
    /// The name of its port; null while it cannot be used.
    pub port: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInterface {
    /// Its name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// The bridge or bond that has this interface as a port; null without one.
    pub master: Option<String>,
    /// Interfaces on top of it, such as VLANs.
    pub carries: Vec<String>,
    /// Its addresses; null if they are not known.
    pub addresses: Option<Vec<String>>,
}

/// The kind of a [`Dpdk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DpdkKind {
    /// The needs of ports that DPDK drives.
    #[default]
    Dpdk,
}

/// The needs of `dpdk:` ports, as far as this host has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dpdk {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: DpdkKind,
    /// The version of DPDK's headers, for which the adapter is compiled; null if they are missing.
    pub headers: Option<String>,
    /// Why the headers cannot be used, and what to do; absent if they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_missing: Option<String>,
    /// The adapter, which can be loaded; null if it cannot.
    pub adapter: Option<DpdkAdapter>,
    /// Why the adapter cannot be loaded, and what to do; absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_missing: Option<String>,
}

/// The adapter to DPDK.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DpdkAdapter {
    /// Its file.
    pub file: String,
    /// The version of DPDK that it loads.
    pub dpdk: String,
    /// The version of the adapter's interface.
    pub interface: u32,
}

/// The kind of a [`Conformance`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConformanceKind {
    /// The functional suite.
    #[default]
    Conformance,
}

/// The functional suite on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conformance {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: ConformanceKind,
    /// The device.
    pub device: String,
    /// The chip.
    pub chip: String,
    /// The cases, in the order in which they ran.
    pub cases: Vec<ConformanceCase>,
}

/// One case and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConformanceCase {
    /// Its name: the area, then the test.
    pub name: String,
    /// The result.
    pub result: ConformanceResult,
    /// How the device differs from the manual; only for a departure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// The reason of the result, unless the case passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The section of the manual; only for a departure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<String>,
    /// Its duration in wall time, in ms, of all attempts.
    pub millis: u64,
    /// The reason why an earlier attempt failed. A failed case is tried up to three times on a device whose
    /// events the host may delay, which is every device but the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_before: Option<String>,
}

/// The result of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConformanceResult {
    /// As in the manual.
    #[default]
    Pass,
    /// Wrong behaviour.
    Fail,
    /// Differs from the manual in a way known of this device.
    Departure,
    /// The chip does not have this feature.
    NotApplicable,
}
