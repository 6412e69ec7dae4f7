//! Latencies: their percentiles, and how much they vary.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time from sending to delivery, in ns; each null when nothing was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The fastest frame, in ns.
    pub min: Option<u64>,
    /// The mean, in ns.
    pub mean: Option<u64>,
    /// Half of the frames took no longer, in ns.
    pub p50: Option<u64>,
    /// 99 % took no longer, in ns.
    pub p99: Option<u64>,
    /// 99.9 % took no longer, in ns.
    pub p999: Option<u64>,
    /// The slowest frame, in ns.
    pub max: Option<u64>,
    /// The jitter in ns: the mean absolute difference between the latencies of two frames of a flow that were
    /// sent one after the other (IPDV of RFC 3393 and RFC 5481, 4.1). Pairs of which a frame is missing, or
    /// overtook the other, do not count; null without a pair, and between two clocks whose drift is not
    /// followed. The other common measure of RFC 5481, PDV, is a percentile less `min`.
    pub jitter: Option<u64>,
    /// The error of these times, up or down, in ns; absent unless sender and receiver have clocks of their
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<u64>,
}

/// The latencies of one flow, in ns. Its whole frames count, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowLatency {
    /// The fastest frame, in ns.
    pub min: u64,
    /// The mean, in ns.
    pub mean: u64,
    /// The slowest frame, in ns.
    pub max: u64,
    /// The jitter in ns, as that of [`Latency`]; null without two frames in a row.
    pub jitter: Option<u64>,
}
