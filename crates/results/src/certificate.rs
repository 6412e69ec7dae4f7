//! What a port can send: its ceiling, and how evenly it sends below that.

use crate::Schema;
use crate::json::to_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a [`Certificate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateKind {
    /// Of a port.
    #[default]
    Certificate,
}

/// What one port of one machine can send.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: CertificateKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// The port.
    pub port: String,
    /// Size of each frame in bytes with FCS.
    pub frame_bytes_with_fcs: u32,
    /// How long each rate was sent, in s.
    pub duration_s: f64,
    /// The highest rate, in frames per second: the lowest of `rounds_pps`.
    pub ceiling_pps: f64,
    /// Frames per second, each time that the port was given as many frames as it took.
    pub rounds_pps: Vec<f64>,
    /// Loads below the ceiling.
    pub paced: Vec<Paced>,
}

/// How one load was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paced {
    /// Frames per second that were asked for.
    pub asked_pps: f64,
    /// Frames per second that were sent.
    pub sent_pps: f64,
    /// Frames that could not be sent at their time.
    pub shortfall: u64,
    /// How far apart frames were.
    pub gaps: Option<Gaps>,
}

/// The distribution of the gaps between frames of a paced load. A gap lies between the times at which the
/// device or the kernel got two frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gaps {
    /// The gap that was asked for, in ns; null if gaps were to differ.
    pub asked_ns: Option<f64>,
    /// Gaps.
    pub count: u64,
    /// Those that differ from the one asked for by at most 10 us; null if gaps were to differ.
    pub within_10us: Option<u64>,
    /// Half are no longer, in ns.
    pub p50_ns: u64,
    /// 99 % are no longer, in ns.
    pub p99_ns: u64,
    /// 99.9 % are no longer, in ns.
    pub p999_ns: u64,
    /// The longest, in ns.
    pub longest_ns: u64,
    /// How long the sending thread was ready but waited for a CPU, in ns, in all. That delay is not the
    /// generator's. Time that a virtual machine's host takes is only partly in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
}

/// What a generator can send, beside the result of what it sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sender {
    /// The highest rate of each direction, in frames per second. A measured one is raised to what the trial
    /// itself sent, if that was more.
    pub ceilings_pps: Vec<f64>,
    /// Where that is from: "measured" just before, through the device under test, or the name of a file.
    pub source: String,
    /// The load is above a ceiling: the shortfall says nothing about the device under test.
    pub exceeded: bool,
}

impl Certificate {
    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}

impl Gaps {
    /// The share of gaps that were as asked for; `None` if they were to differ.
    pub fn share_within(&self) -> Option<f64> {
        Some(self.within_10us? as f64 / self.count.max(1) as f64)
    }
}
