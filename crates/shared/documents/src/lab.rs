//! Drivers that took turns on one card in a guest.

use crate::json::to_json;
use crate::{Environment, Registers, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a [`Lab`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LabKind {
    /// Drivers on one card.
    #[default]
    Lab,
}

/// The clock of a guest. Rates are measured with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Real time.
    #[default]
    Wall,
    /// A nanosecond for each instruction that the guest executes. Neither caches nor register accesses take
    /// time beyond their instruction.
    Instructions,
}

impl Clock {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Instructions => "instructions",
        }
    }
}

impl std::str::FromStr for Clock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Wall, Self::Instructions].into_iter().find(|clock| clock.name() == text);
        known.ok_or_else(|| format!("there is no clock called '{text}': known are instructions and wall"))
    }
}

/// Drivers on the same cards, and the driver of kpps against the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lab {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: LabKind,
    /// The environment: `stack` is the kernel by its name in the lab, `system` has its package and version
    /// (`kernel`) and QEMU's version (`QEMU`), and `duration_s` is the length of a window.
    pub environment: Environment,
    /// The clock of the guests. All rates are measured with it.
    #[serde(default)]
    pub clock: Clock,
    /// The number of rounds: in each, all drivers are started anew.
    pub rounds: u32,
    /// The load that was offered, in frames per second; null for as many frames as possible.
    pub load_pps: Option<f64>,
    /// Descriptors in each ring of kpps.
    pub kpps_ring: u16,
    /// Descriptors in each ring of testpmd.
    pub dpdk_ring: u16,
    /// Other settings. Without any, Linux's drivers have their defaults: rings of
    /// 256.
    pub settings: Vec<String>,
    /// Whether all requested rows exist.
    pub complete: bool,
    /// The number of measurements that an earlier run kept. Their guests were booted in that run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumed: u32,
    /// The measurements.
    pub rows: Vec<Row>,
    /// kpps against the others.
    pub ratios: Vec<Ratio>,
    /// The profile of each row's instructions, if it was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// Failed measurements, with reasons.
    pub failures: Vec<String>,
}

// serde wants a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// One driver at one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The driver.
    pub driver: String,
    /// The backend by which it accessed the card.
    pub backend: String,
    /// The card.
    pub device: String,
    /// Whether the machine has an IOMMU.
    pub iommu: bool,
    /// The guest's CPUs.
    pub vcpus: u8,
    /// Frames per second in each window: sent, received or forwarded, both directions together.
    pub pps: Vec<f64>,
    /// Their median; null without a window.
    pub median_pps: Option<f64>,
    /// Instructions of the guest's CPU for each frame, in each window. Idle instructions are not counted, and
    /// neither are those of the frames' source. Empty on the wall clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions_per_frame: Vec<f64>,
    /// Instructions of the frames' source for each frame. The source runs on the same CPU, but
    /// `instructions_per_frame` does not include it. They were measured with the source alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_per_frame: Option<SourceCost>,
    /// Frames per second that were offered, if any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_pps: Option<f64>,
    /// Interrupts of cards per second; null if they were not observed.
    pub interrupts_per_s: Option<f64>,
    /// Share of time in which the guest's CPU was not idle; null if it was not observed. With a driver that
    /// polls, the CPU is never idle.
    pub cpu_busy: Option<f64>,
    /// Register reads and writes for each frame, traced in QEMU after the windows.
    pub registers_per_frame: Option<Registers>,
    /// Frames that were offered in all.
    pub sent: u64,
    /// Frames that were due and that could not be sent.
    pub shortfall: u64,
    /// Frames lost, by place.
    pub drops: BTreeMap<String, u64>,
    /// The number of frames that were counted beyond the sent ones, because counters overlap or count other
    /// traffic.
    pub surplus: u64,
}

/// The cost of the source of frames for the guest's CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceCost {
    /// Instructions for each frame.
    pub instructions: f64,
    /// The uncertainty of this number: the difference between two ways to measure it.
    pub error: f64,
}

/// The functions that execute the guest's instructions while a driver works. All instructions in some
/// stretches of time are recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// The workload.
    pub workload: String,
    /// The driver.
    pub driver: String,
    /// The backend by which it accessed the card.
    pub backend: String,
    /// The card.
    pub device: String,
    /// Whether the machine has an IOMMU.
    pub iommu: bool,
    /// The instructions that were recorded, including those of the frames' source.
    pub instructions: u64,
    /// The number of stretches of time in which they were recorded.
    pub stretches: u32,
    /// Functions, with the most instructions first.
    pub functions: Vec<Function>,
    /// Functions with their callers, without rare ones. Calls are reconstructed from the order of addresses.
    pub stacks: Vec<Stack>,
}

/// A function in a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Its name; in parts of a file without symbols the file's.
    pub name: String,
    /// The kernel, a module, a program or a library; null if there is no file at its addresses.
    pub of: Option<String>,
    /// Its share of the instructions, without its callees.
    pub share: f64,
    /// The error of the share with a confidence of 95 %: twice the standard error of the mean of the
    /// stretches.
    pub error: Option<f64>,
    /// The function's instructions for each frame: its share of the row's.
    pub instructions_per_frame: Option<f64>,
}

/// A function with its callers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Functions, outermost first.
    pub functions: Vec<String>,
    /// The share of the last function, without its callees.
    pub share: f64,
}

/// kpps against another driver, in the same boot unless measurements were resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The workload.
    pub workload: String,
    /// The other driver.
    pub over: String,
    /// The backend by which kpps accessed the card.
    pub backend: String,
    /// The card.
    pub device: String,
    /// The median of the rounds' ratios.
    pub ratio: f64,
    /// The smallest of them.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Ratio {
    /// The ratio of `row`, a row of kpps, to the driver `over`: the median of `ratios`; `None` without
    /// ratios.
    pub fn of(row: &Row, over: &str, ratios: &[f64]) -> Option<Self> {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        Some(Self {
            workload: row.workload.clone(),
            over: over.into(),
            backend: row.backend.clone(),
            device: row.device.clone(),
            ratio: round(median(ratios.iter().copied())?),
            min: round(ratios.iter().copied().fold(f64::INFINITY, f64::min)),
            max: round(ratios.iter().copied().fold(0.0, f64::max)),
        })
    }
}

/// The median.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => None,
        1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

impl Lab {
    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}
