//! A run on ports of a real system: received, sent and lost frames.

use crate::json::to_json;
use crate::round::rounded_to;
use crate::{Environment, Schema};
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
    /// The environment: the ports; for `send` also how frames followed each other.
    pub environment: Environment,
    /// The command.
    pub command: String,
    /// How long it ran, in s.
    pub seconds: f64,
    /// False if it was interrupted before its end, or failed.
    pub complete: bool,
    /// The failure, if any. The counts end there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The load; only for a `send` that did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Offered>,
    /// The ports, in the order in which they were given.
    pub ports: Vec<PortRun>,
    /// Time that the CPUs spent for this process; absent if the system does not report it.
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
    /// The size, or the mix of sizes, of frames, in bytes with FCS; or the capture that contains the frames.
    pub size: String,
    /// The requested load in frames per second; null for as many as possible.
    pub offered_pps: Option<f64>,
    /// Frames that were due.
    pub intended: u64,
    /// Frames that were due and could not be sent in time.
    pub shortfall: u64,
    /// How late frames were sent; only where late frames are sent, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// The gaps between sent frames, if they were paced; of several cores those of the whole schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<crate::calibration::Gaps>,
    /// How exact the gaps are, if fillers were sent between the frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<Filled>,
    /// The differences between the sent frames and those of the capture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departures: Vec<String>,
    /// The streams, if a file describes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<SentStream>,
    /// The work of each core, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<SentCore>,
}

/// The frames of one of several streams of `send`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentStream {
    /// The name of the stream.
    pub stream: String,
    /// Its frames that were given to the port.
    pub sent: u64,
    /// Its frames that were due and too late to be given to the port; absent if frames were sent as fast as
    /// possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<u64>,
}

/// The work of one of several cores of `send`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SentCore {
    /// The CPU that the core had for itself; absent if it shared one, or if frames were not paced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames that it could not send in time.
    pub shortfall: u64,
    /// The gaps between the frames that it sent; absent if they were not paced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<crate::calibration::Gaps>,
}

/// How frames were sent with fillers between them: frames with a wrong FCS, which keep the wire busy, so that
/// gaps are exact to a byte time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Filled {
    /// Fillers that the card was given.
    pub fillers: u64,
    /// Frames that no filler could bring to their exact time.
    pub rounded: u64,
    /// The longest distance of a frame's place on the wire from its time, in ns.
    pub most_rounded_ns: u64,
    /// How often more frames came too late, and the card had nothing to send. Gaps there were not exact.
    #[serde(default)]
    pub underruns: u64,
    /// The longest time that the card had nothing to send, in ns.
    #[serde(default)]
    pub longest_underrun_ns: u64,
    /// Whether the card sent as slowly as its link; null if sending took too short a time to tell.
    #[serde(default)]
    pub keeps_speed: Option<bool>,
    /// How long all frames and fillers take on the wire, in s.
    pub planned_s: f64,
    /// How long sending took, until the card's ring was empty, in s. If it is longer, the card was idle
    /// meanwhile, and gaps were not exact.
    pub took_s: f64,
}

/// How late the frames of a paced load were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Frames that the port got more than 1 ms after they were due.
    pub frames: u64,
    /// The longest time from when a frame was due until the port got it, in ns.
    pub longest_ns: u64,
}

/// The counters of one port since the port was opened. A counter that the port does not have is null.
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
    /// Descriptors written only to request a report of sent frames.
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
    /// Frames missing between the first and the last arrived frame, or among the expected frames.
    pub lost: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames that arrived after a frame that was sent later.
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

impl Offered {
    /// Frames that were sent.
    pub fn sent(&self) -> u64 {
        self.intended.saturating_sub(self.shortfall)
    }

    /// The time that frames of this shape took, in s, if the last frame was sent `seconds` after the first.
    /// It ends when a next frame would have been due; otherwise the rate of a few frames would be too high.
    /// `complete`: all requested frames were sent.
    pub fn took_s(&self, shape: Option<&str>, seconds: f64, complete: bool) -> f64 {
        let Some(pps) = self.offered_pps.filter(|pps| *pps > 0.0) else { return seconds };
        let even = self.gaps.is_some_and(|gaps| gaps.intended_ns.is_some());
        // The number of frames that were sent together with the last frame: the time until the next frame is
        // theirs.
        let last = match shape.map(|shape| shape.split_once(':').unwrap_or((shape, ""))) {
            None if even && complete => 1,
            Some(("poisson", _)) if complete => 1,
            Some(("bursts", size)) if complete => {
                let size = size.parse::<u64>().unwrap_or(1).max(1);
                self.intended.saturating_sub(1) % size + 1
            }
            // The rate changes.
            Some(("ramp" | "then", _)) => return seconds,
            // The frames of a capture have times of their own, or the run ended between two frames.
            _ => return seconds.max(self.intended as f64 / pps),
        };
        seconds + last as f64 / pps
    }
}

impl Run {
    /// The document with this load of its first port, and the rate that this port sent.
    #[must_use]
    pub fn with_load(mut self, load: Option<Offered>) -> Self {
        if let (Some(load), Some(port)) = (&load, self.ports.first_mut()) {
            let took_s = load.took_s(self.environment.shape.as_deref(), self.seconds, self.complete);
            if load.offered_pps.is_some() && took_s > 0.0 {
                port.sent_pps = rounded_to(port.sent as f64 / took_s, 10.0);
            }
        }
        Self { load, ..self }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Gaps;

    /// Twenty frames at 1 kpps have 19 gaps between them, and take 20 ms.
    #[test]
    fn the_rate_of_a_few_frames_is_that_of_many() {
        let offered = |intended_ns| Offered {
            offered_pps: Some(1000.0),
            intended: 20,
            gaps: Some(Gaps { intended_ns, ..Gaps::default() }),
            ..Offered::default()
        };
        let took_ms = |load: &Offered, shape, ms: f64, complete| 1e3 * load.took_s(shape, ms / 1e3, complete);
        let (even, uneven) = (offered(Some(1e6)), offered(None));
        for (ms, complete, took) in [(19.0, true, 20.0), (21.0, true, 22.0), (19.5, false, 20.0)] {
            assert!((took_ms(&even, None, ms, complete) - took).abs() < 1e-9, "{ms}");
        }
        for (shape, ms) in [("bursts:10", 10.0), ("bursts:8", 16.0), ("poisson:1", 19.0)] {
            assert!((took_ms(&uneven, Some(shape), ms, true) - 20.0).abs() < 1e-9, "{shape}");
        }
        assert!((took_ms(&uneven, Some("ramp:1/1s"), 30.0, true) - 30.0).abs() < 1e-9);
        // A capture of five frames, twice.
        assert!((took_ms(&uneven, None, 17.0, true) - 20.0).abs() < 1e-9);
        let port = PortRun { sent: 20, ..PortRun::default() };
        let run = Run { seconds: 0.019, complete: true, ports: vec![port], ..Run::default() };
        assert_eq!(run.with_load(Some(even)).ports[0].sent_pps, 1000.0);
    }
}
