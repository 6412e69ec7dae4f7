//! Latencies by percentile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time from sending to delivery, in ns, by percentile; each null when nothing was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Half of the frames took no longer, in ns.
    pub p50: Option<u64>,
    /// 99 % took no longer, in ns.
    pub p99: Option<u64>,
    /// 99.9 % took no longer, in ns.
    pub p999: Option<u64>,
    /// The slowest frame, in ns.
    pub max: Option<u64>,
    /// The error of these times, up or down, in ns; absent unless sender and receiver have clocks of their
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<u64>,
}
