//! Throughput over frame sizes, and the other tests of RFC 2544.

use crate::json::to_json;
use crate::ndr::Ndr;
use crate::{Environment, Latency, Schema, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of [`Sizes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SizesKind {
    /// A search for each frame size.
    #[default]
    Sizes,
}

/// The searches at all frame sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: SizesKind,
    /// The environment of all searches.
    pub environment: Environment,
    /// A search for each size, in the order in which they were given.
    pub sizes: Vec<Ndr>,
    /// Every search reached its goals.
    pub complete: bool,
}

/// The kind of an [`Rfc2544`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rfc2544Kind {
    /// The tests of RFC 2544.
    #[default]
    Rfc2544,
}

/// The tests of RFC 2544, for each frame size. Loads are frames per second in each direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rfc2544 {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: Rfc2544Kind,
    /// The environment of all tests.
    pub environment: Environment,
    /// The results at each size.
    pub sizes: Vec<SizeTests>,
    /// Tests that were left out, with reasons; and where trials were shorter or fewer than RFC 2544 asks for.
    pub departures: Vec<String>,
    /// Whether all requested tests exist.
    pub complete: bool,
    /// The failure, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The results at one frame size. A test that was left out is null, or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeTests {
    /// Size of each frame in bytes with FCS.
    pub frame_bytes_with_fcs: u32,
    /// The highest load that was tried, in frames per second: line rate, or a lower limit of the user.
    pub max_pps: f64,
    /// Throughput (26.1): the search for the highest load without loss.
    pub throughput: Option<Ndr>,
    /// Latency (26.2), at shares of the throughput.
    pub latency: Vec<LatencyAt>,
    /// Frame loss rate (26.3), from the highest load down.
    pub frame_loss: Vec<Trial>,
    /// Back-to-back frames (26.4, RFC 9004).
    pub back_to_back: Option<BackToBack>,
    /// Recovery from overload (26.5).
    pub recovery: Option<Times>,
    /// Reset (26.6, RFC 6201).
    pub reset: Option<Times>,
}

/// Latency at a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyAt {
    /// The load over the throughput.
    pub share: f64,
    /// The mean of each percentile over all trials.
    pub latency_ns: Latency,
    /// The trials.
    pub trials: Vec<Trial>,
}

/// The longest bursts that lost nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackToBack {
    /// The rate within a burst, in frames per second.
    pub pps: f64,
    /// The longest burst of each repetition, in frames.
    pub frames: Vec<u64>,
    /// Their mean.
    pub mean_frames: f64,
    /// The longest burst that was tried, in frames.
    pub most_frames: u64,
    /// How long the mean burst lasts, in s: the implied buffer time.
    pub implied_s: f64,
    /// The corrected buffer time, in s: without the frames forwarded meanwhile (RFC 9004).
    pub corrected_s: f64,
}

/// Recovery times of a system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// The load from which it had to recover, or that was on when it was reset, in frames per second.
    pub load_pps: f64,
    /// How long it took each time, in s.
    pub seconds: Vec<f64>,
    /// Their mean, in s.
    pub mean_s: f64,
}

impl Sizes {
    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}

impl SizeTests {
    /// The size in bytes with FCS, or the mix, as it is typed.
    pub fn sizes_name(&self) -> String {
        let size = self.frame_bytes_with_fcs;
        self.throughput.as_ref().map_or_else(|| size.to_string(), |search| search.environment.sizes_name())
    }
}

impl Rfc2544 {
    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}
