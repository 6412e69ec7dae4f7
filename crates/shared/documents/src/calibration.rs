//! The calibration of a port: its highest rate, and the regularity of its gaps below that.

use crate::json::to_json;
use crate::{Environment, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a [`Calibration`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CalibrationKind {
    /// The calibration of a port.
    #[default]
    Calibration,
}

/// The highest rate of a port, and how regularly it sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: CalibrationKind,
    /// The environment: the port is its only testbed.
    pub environment: Environment,
    /// The highest rate, in frames per second: the lowest of `rounds_pps`.
    pub ceiling_pps: f64,
    /// The rate of each round, in frames per second. In a round the port gets as many frames as it accepts.
    pub rounds_pps: Vec<f64>,
    /// Loads below the ceiling.
    pub paced: Vec<Paced>,
}

/// How one load was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paced {
    /// The requested rate in frames per second.
    pub offered_pps: f64,
    /// Frames per second that were sent.
    pub sent_pps: f64,
    /// Frames that could not be sent at their time.
    pub shortfall: u64,
    /// The gaps between frames.
    pub gaps: Option<Gaps>,
}

/// The distribution of the gaps between frames of a paced load. A gap lies between the times at which the
/// device or the kernel got two frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gaps {
    /// The intended gap in ns; null for gaps that differ by intention.
    pub intended_ns: Option<f64>,
    /// The number of gaps. If several cores send a long load, those in some parts of its time are measured,
    /// evenly spread.
    pub count: u64,
    /// Gaps that differ from the intended one by at most 10 us. Frames of streams have an intended gap each;
    /// null for other gaps that differ by intention.
    pub within_10us: Option<u64>,
    /// The median, in ns.
    pub p50_ns: u64,
    /// 99 % of the gaps are at most this long, in ns.
    pub p99_ns: u64,
    /// 99.9 % of the gaps are at most this long, in ns.
    pub p999_ns: u64,
    /// The longest gap, in ns.
    pub max_ns: u64,
    /// The total time for which the sending thread was ready but waited for a CPU, in ns. The generator is
    /// not the cause of that delay. Time that a virtual machine's host takes is only partly included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
    /// The CPU that the sending thread had for itself; absent if it shared one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Whether the sending thread ran before ordinary programs, of its session and of others; absent if that
    /// was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<SenderPriority>,
}

/// The priority of a sending thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SenderPriority {
    /// Before all ordinary programs (nice -20, the session's too).
    All,
    /// Before the ordinary programs of its own session: the session's priority could not be raised, or the
    /// kernel does not schedule by session.
    Session,
    /// The same as any program: the right to a higher priority (`CAP_SYS_NICE`) is missing.
    Ordinary,
}

/// The limit of a trial's generator, by earlier calibrations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sender {
    /// The highest rate of each direction, in frames per second.
    pub ceilings_pps: Vec<f64>,
    /// The files of `kpps calibrate` that have them, one for each direction.
    pub source: String,
    /// The load is above a ceiling: the shortfall says nothing about the device under test.
    pub exceeded: bool,
}

impl Calibration {
    /// The port.
    pub fn port(&self) -> String {
        self.environment.testbed_name()
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}

impl Sender {
    /// Why a load of this many frames per second is too much for the generator, in words; `None` if it is
    /// not.
    pub fn too_slow(&self, offered_pps: f64) -> Option<String> {
        let lowest_pps = self.ceilings_pps.iter().copied().fold(f64::INFINITY, f64::min);
        let [offered, lowest] = [offered_pps, lowest_pps].map(|pps| format!("{:.1} kpps", pps / 1e3));
        let source = &self.source;
        self.exceeded.then(|| {
            format!("the load of {offered} is above the generator's calibrated limit of {lowest} ({source})")
        })
    }
}

impl Gaps {
    /// The share of gaps within 10 us of the intended one; `None` for gaps that differ by intention.
    pub fn share_within(&self) -> Option<f64> {
        Some(self.within_10us? as f64 / self.count.max(1) as f64)
    }
}
