//! A run on ports of a real system: received, sent and lost frames.

use crate::Schema;
use crate::json::to_json;
use crate::round::rounded_to;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a [`Run`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Traffic on ports.
    #[default]
    Run,
}

/// The result of one of the commands `send`, `count`, `forward`, `bridge`, `route` and `nat`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: RunKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// The command.
    pub command: String,
    /// How long it ran, in s.
    pub seconds: f64,
    /// False if it was interrupted before its end, or failed.
    pub complete: bool,
    /// Why it failed; the counts are those until then. Absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The load; only for `send`, if that did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Offered>,
    /// The ports, in the order in which they were given.
    pub ports: Vec<PortRun>,
    /// Time that the CPUs spent for this process; absent if the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<ProcessCpu>,
    /// Streams of test frames that arrived; only for `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<Stream>>,
    /// Frames that look like test frames but are damaged; only for `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupted: Option<u64>,
    /// Frames that are no test frames; only for `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<u64>,
    /// The counters of the app; only for `bridge` and `route`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppRun>,
}

/// The load of `send`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Offered {
    /// The size, or the mix of sizes, of frames, in bytes with FCS; or the capture that they are of.
    pub size: String,
    /// The requested load in frames per second; null for as many as possible.
    pub offered_pps: Option<f64>,
    /// Frames that were due.
    pub intended: u64,
    /// Frames that were due and could not be sent in time.
    pub shortfall: u64,
    /// How frames followed each other, if not evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// The gaps between sent frames, if they were paced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<crate::calibration::Gaps>,
    /// Where frames of a capture were not sent as they had been seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departures: Vec<String>,
}

/// The counters of one port. Counts are since the port was opened; null are those that it does not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortRun {
    /// The port's name.
    pub port: String,
    /// The chip, if it is a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chip: Option<String>,
    /// How the card is served, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Frames received.
    pub received: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Frames received, per second.
    pub received_pps: f64,
    /// Frames sent.
    pub sent: u64,
    /// Their bytes, without FCS.
    pub sent_bytes: u64,
    /// Frames sent, per second.
    pub sent_pps: f64,
    /// Frames lost here, by place: `missed` (the card or the kernel had no space), `full` (no space to send
    /// it), `errors` (damaged, or of an impossible length), `tx_dropped` (accepted, then refused or dropped
    /// by a reset). Null is a place that this port does not count.
    pub drops: BTreeMap<String, Option<u64>>,
    /// Times that a frame found no receive descriptor: it had to wait in the card (RNBC), or found the fill
    /// ring of an XDP socket empty. No loss by itself.
    pub no_buffer: Option<u64>,
    /// Interrupts that were taken.
    pub interrupts: Option<u64>,
    /// Register reads.
    pub register_reads: Option<u64>,
    /// Register writes.
    pub register_writes: Option<u64>,
    /// Tail writes, which are among the register writes.
    pub doorbells: Option<u64>,
    /// Descriptors written only to learn what has been sent.
    pub report_requests: Option<u64>,
    /// System calls for frames.
    pub system_calls: u64,
    /// Resets because the card hung.
    pub resets: Option<u64>,
}

/// Time that the CPUs spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessCpu {
    /// In the program, in s.
    pub user_s: f64,
    /// In the kernel on its behalf, in s.
    pub system_s: f64,
}

/// The frames of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// The stream's number.
    pub stream: u16,
    /// Frames that arrived, duplicates among them.
    pub received: u64,
    /// Frames missing between the first and the last that arrived, or of those that were expected.
    pub lost: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames that came after one sent later.
    pub reordered: u64,
    /// Damaged frames: known only for all streams together, and listed with the first.
    pub corrupted: u64,
}

/// The counters of an app: `received + made = sent + dropped + held`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppRun {
    /// Frames that came in.
    pub received: u64,
    /// Frames that it made: copies, ARP or ND messages, ICMP messages.
    pub made: u64,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames that it held at the end.
    pub held: u64,
    /// Frames that ended there, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl Run {
    /// The document with rates rounded to 0.1 and times to microseconds.
    #[must_use]
    pub fn rounded(mut self) -> Self {
        self.seconds = rounded_to(self.seconds, 1e6);
        if let Some(ProcessCpu { user_s, system_s }) = &mut self.cpu {
            (*user_s, *system_s) = (rounded_to(*user_s, 1e6), rounded_to(*system_s, 1e6));
        }
        for port in &mut self.ports {
            port.received_pps = rounded_to(port.received_pps, 10.0);
            port.sent_pps = rounded_to(port.sent_pps, 10.0);
        }
        self
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }
}
