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
    /// The profiles that were asked for.
    pub profiles: Vec<ProfileEntry>,
}

/// A profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileEntry {
    /// What it describes: "chip", "bus" and the like.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
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
    /// Where it is from.
    pub source: String,
    /// The claims that it was fitted on; empty for one with a citable value.
    pub fitted: Vec<String>,
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
    /// Which chip of ours it is; null if it is none.
    pub chip: Option<String>,
    /// The kernel's driver for it; null if there is none.
    pub driver: Option<String>,
    /// Its network interface; null while there is none.
    pub interface: Option<DeviceInterface>,
    /// Whether its interface is in another network namespace.
    pub elsewhere: bool,
    /// Its IOMMU group; null without an IOMMU.
    pub iommu_group: Option<u32>,
    /// The port as which it can be used; null while it cannot.
    pub port: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInterface {
    /// Its name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// What it is a part of, as a bridge; null if of nothing.
    pub master: Option<String>,
    /// What it carries, as VLANs.
    pub carries: Vec<String>,
    /// Its addresses; null if they are not known.
    pub addresses: Option<Vec<String>>,
}

/// The kind of a [`Selftest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SelftestKind {
    /// The functional suite.
    #[default]
    Selftest,
}

/// The functional suite on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Selftest {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: SelftestKind,
    /// The device.
    pub device: String,
    /// The chip.
    pub chip: String,
    /// The cases, in the order in which they ran.
    pub cases: Vec<SelftestCase>,
}

/// One case and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelftestCase {
    /// Its name: area, then what was tried.
    pub name: String,
    /// How it ended.
    pub result: SelftestResult,
    /// What the device does differently; of a departure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// Why it ended so, unless it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the manual says otherwise; of a departure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<String>,
    /// How long it took on the wall, in ms.
    pub millis: u64,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SelftestResult {
    /// As the manual says.
    #[default]
    Pass,
    /// Not as it should be.
    Fail,
    /// Not as the manual says, but as this device is known to do.
    Departure,
    /// The chip has no such thing.
    NotApplicable,
}
