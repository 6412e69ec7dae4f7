//! The accesses of unmodified drivers to a model of their card.

use crate::{Environment, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of an [`Audit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditKind {
    /// Drivers on a model of their card.
    #[default]
    Audit,
}

/// Drivers of a guest on a model of an 8254x card. The guest and the card have clocks of their own. So counts
/// for each frame are meaningful, but rates and losses are not those of a real card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: AuditKind,
    /// The environment: `stack` is the kernel by its name in the lab, `system` has its package and version
    /// (`kernel`) and QEMU's version (`QEMU`), `chip` is the modelled card, and `bus` is the bus whose
    /// occupancy is reported.
    pub environment: Environment,
    /// The requested load of workloads that receive, in frames per second; null for as many frames as the
    /// guest takes.
    pub load_pps: Option<f64>,
    /// Settings of drivers, and other departures from the defaults.
    pub settings: Vec<String>,
    /// Whether all requested rows exist.
    pub complete: bool,
    /// The drivers.
    pub rows: Vec<Row>,
    /// Failed measurements, with reasons.
    pub failures: Vec<String>,
}

/// One driver at one workload. Values for each frame refer to the frames that the driver sent, received or
/// forwarded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The driver.
    pub driver: String,
    /// The backend by which it accessed the card.
    pub backend: String,
    /// Frames that were counted.
    pub frames: u64,
    /// The load while frames were counted, in frames per second of the host's time. It shows the guest's
    /// speed, not the speed of a card.
    pub load_pps: f64,
    /// Register reads for each frame.
    pub reads_per_frame: f64,
    /// Register writes for each frame, tails included.
    pub writes_per_frame: f64,
    /// Writes of tails for each frame.
    pub tails_per_frame: f64,
    /// How often the interrupt line rose for each frame.
    pub interrupts_per_frame: f64,
    /// Bursts that fetched descriptors for each frame.
    pub fetches_per_frame: f64,
    /// Bursts that wrote descriptors back for each frame.
    pub write_backs_per_frame: f64,
    /// Bursts with data for each frame.
    pub data_bursts_per_frame: f64,
    /// Time in µs for which the bus was occupied for each frame, register accesses included.
    pub bus_us_per_frame: f64,
    /// Accesses of single registers for each frame.
    pub registers: BTreeMap<String, Accesses>,
    /// Numbered frames that the bridge received and did not send back; null for other workloads.
    pub lost: Option<u64>,
    /// Numbered frames that came back with other contents, in another order, or twice.
    pub changed: Option<u64>,
    /// Breaches of the manual, from the driver's start to its end.
    pub violations: Vec<Violation>,
}

/// Accesses of a register for each frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Accesses {
    /// Reads.
    pub reads: f64,
    /// Writes.
    pub writes: f64,
}

/// Something that the manual forbids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// A description of the breach.
    pub what: String,
    /// The register by its name, or by its offset.
    pub register: String,
    /// The section of the manual (8254x Software Developer's Manual).
    pub section: String,
    /// The number of times.
    pub count: u64,
    /// The value of the first such write; null if the breach is no write.
    pub value: Option<u32>,
}
