//! The receive queues of a port: the flows that each should receive, and the frames that came to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The choice of a flow's receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueChoice {
    /// The card's hash of addresses and ports (receive side scaling).
    #[default]
    Hash,
    /// A rule for each flow, which steers it.
    Rules,
}

/// Why frames came to another queue than the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElsewhereReason {
    /// Their addresses or ports were rewritten on the way.
    Rewritten,
    /// The interface's key, table, hashed fields, rules or number of queues changed during the trial.
    Changed,
    /// The interface has other rules, which choose queues before its hash does.
    OtherRules,
}

impl ElsewhereReason {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Rewritten => "their addresses or ports were rewritten on the way",
            Self::Changed => {
                "the interface's key, table, hashed fields, rules or number of queues changed during the trial"
            }
            Self::OtherRules => "the interface has other rules, which choose queues before its hash does",
        }
    }
}

/// The receive queues of the port of a direction that receives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Queues {
    /// The choice of the queue of each flow.
    pub by: QueueChoice,
    /// Whether the key of the hash is the kernel's, because the driver does not report its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system_key: bool,
    /// All queues of the interface.
    pub each: Vec<QueueCount>,
    /// Flows whose queue is unknown.
    pub unknown_flows: u32,
    /// Why their queue is unknown; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Flows of which frames came to other queues than the expected one.
    pub flows_elsewhere: u32,
    /// Why; absent if there are none, or if the reason is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ElsewhereReason>,
    /// The first of these flows, those with most such frames first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<FlowElsewhere>,
}

/// A receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCount {
    /// Its number.
    pub queue: u32,
    /// Whether the port reads it. Frames in other queues are the kernel's.
    pub read: bool,
    /// Flows that should come to it.
    pub flows: u32,
    /// Frames of these flows that were sent.
    pub sent: u64,
    /// Frames of these flows that came to it, without duplicates.
    pub received: u64,
    /// Frames of these flows that came to other queues.
    pub elsewhere: u64,
    /// Frames of these flows that came to no queue that the port reads: lost on the way, or the receive
    /// overflow of the queue.
    pub lost: u64,
    /// Frames that came to it of flows that should come to others.
    pub of_others: u64,
    /// Frames that came to it of flows whose queue is unknown.
    pub of_unknown: u64,
    /// Its receive overflow: frames that found it full; null if it is not counted.
    pub overflow: Option<u64>,
}

/// A flow of which frames came to other queues than the expected one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowElsewhere {
    /// Its addresses and ports, or its stream.
    pub flow: String,
    /// The expected queue.
    pub queue: u32,
    /// The queues to which its frames came.
    pub came: Vec<QueueFrames>,
}

/// Frames of a flow in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueFrames {
    /// The queue.
    pub queue: u32,
    /// The frames.
    pub frames: u64,
}
