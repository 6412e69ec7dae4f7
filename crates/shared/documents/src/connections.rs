//! TCP connections through a device: how many a second, how many at a time, and the times of their phases.

use crate::json::to_json;
use crate::round::rounded_to;
use crate::run::{PortRun, ProcessCpu};
use crate::{Environment, Latency, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a [`Connections`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionsKind {
    /// TCP connections.
    #[default]
    Connections,
}

/// Trials with TCP connections, or a search of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: ConnectionsKind,
    /// The environment: the ports are its testbed.
    pub environment: Environment,
    /// No interrupt ended it early.
    pub complete: bool,
    /// The error that ended it early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The server, as ADDRESS:PORT.
    pub server: String,
    /// Bytes of a request; those of HTTP include its head.
    pub request_bytes: u64,
    /// Bytes of an answer; null if the server decides.
    pub answer_bytes: Option<u64>,
    /// The path that requests of HTTP ask for; null for plain bytes.
    pub http_path: Option<String>,
    /// The search, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<ConnectionSearch>,
    /// The trials, in order.
    pub trials: Vec<ConnectionTrial>,
    /// The counters of the ports over all trials.
    pub ports: Vec<PortRun>,
    /// CPU time of this process over all trials.
    pub cpu: Option<ProcessCpu>,
}

/// The result of a search. A quantity that was not searched is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionSearch {
    /// TCP connections per second (RFC 9411, 7.2): the highest tried rate at which each connection was
    /// opened, used and closed without a segment sent again.
    pub connections_per_second: Option<u64>,
    /// Concurrent TCP connections (RFC 9411, 7.5): the largest tried number of connections that were held
    /// open together, and then used and closed.
    pub concurrent_connections: Option<u64>,
    /// The smallest tried number that failed; null if none did.
    pub failed_at: Option<u64>,
    /// The tester, and not the device, failed there.
    pub limited_by_tester: bool,
}

/// One trial. Each opened connection of an end is in one place: `closed`, or one of the failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionTrial {
    /// Connections per second to open; null for a server alone.
    pub offered_cps: Option<f64>,
    /// Connections to hold open together; null if each is used at once.
    pub concurrent: Option<u64>,
    /// The time in which connections were opened, in s.
    pub opening_s: f64,
    /// The time of the whole trial, in s.
    pub seconds: f64,
    /// Connections that were due.
    pub due: u64,
    /// Connections that were due and were not opened, because the tester was late or had no free port.
    pub shortfall: u64,
    /// Connections of the shortfall for which the client had no free port.
    pub no_free_port: u64,
    /// Too large a share was not opened in time: this is no measurement of the device.
    pub beyond_tester: bool,
    /// Of a search: the device kept fewer connections than in an earlier trial, so it still had those of
    /// earlier trials. The trial does not count, and was repeated after a longer pause.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub too_early: bool,
    /// Connections per second that were established, while connections were opened.
    pub established_cps: f64,
    /// The client's end; null if there was none here.
    pub client: Option<ConnectionEnd>,
    /// The server's end; null if there was none here.
    pub server: Option<ConnectionEnd>,
    /// From a client's first SYN to the server's, in ns.
    pub connect_ns: Latency,
    /// From a request to the first byte of its answer, in ns.
    pub first_byte_ns: Latency,
    /// From a request to the last byte of its answer, in ns.
    pub last_byte_ns: Latency,
    /// From the first FIN to the end of the connection, in ns; TIME-WAIT does not count.
    pub close_ns: Latency,
}

/// The counters of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionEnd {
    /// Connections opened: a client's with a SYN sent, a server's with a SYN taken.
    pub opened: u64,
    /// Connections that were established.
    pub established: u64,
    /// The most connections that were established at a time.
    pub most_established: u64,
    /// Connections that were closed by both ends, after the whole message of the peer.
    pub closed: u64,
    /// Failed: the peer closed before its message was complete.
    pub incomplete: u64,
    /// Failed: no answer while connecting.
    pub connect_timeouts: u64,
    /// Failed: no answer to the request or to its answer.
    pub use_timeouts: u64,
    /// Failed: no answer to the FIN.
    pub close_timeouts: u64,
    /// Failed: reset by the peer while connecting.
    pub connect_resets: u64,
    /// Failed: reset by the peer in use.
    pub use_resets: u64,
    /// Failed: reset by the peer while closing.
    pub close_resets: u64,
    /// Failed: still open at the end of the trial, and reset by this end.
    pub aborted: u64,
    /// SYNs sent again; a server's are SYNs with ACK.
    pub retransmitted_syns: u64,
    /// Segments with data sent again.
    pub retransmitted_data: u64,
    /// FINs without data sent again.
    pub retransmitted_fins: u64,
    /// Segments sent.
    pub sent_segments: u64,
    /// Bytes of data sent, each time.
    pub sent_bytes: u64,
    /// Segments received.
    pub received_segments: u64,
    /// Bytes of data received, each once.
    pub received_bytes: u64,
    /// Segments received before missing ones, and dropped.
    pub out_of_order: u64,
    /// Segments received again.
    pub repeated: u64,
    /// Segments received that belong to no connection, or do not fit its state.
    pub unexpected: u64,
    /// Segments received with other data than the peer's message has.
    pub wrong_data: u64,
    /// Segments received with a wrong checksum or length.
    pub damaged: u64,
    /// SYNs that a full server dropped.
    pub refused: u64,
    /// Resets sent.
    pub resets_sent: u64,
    /// Segments that the port had no space to send.
    pub unsent: u64,
    /// Received frames that this port lost in its full queue; null if it does not count them.
    pub missed: Option<u64>,
}

impl ConnectionEnd {
    /// The failures with their names, in the order of a connection's life.
    pub fn failures(&self) -> [(&'static str, u64); 8] {
        [
            ("no answer to the SYN", self.connect_timeouts),
            ("reset while connecting", self.connect_resets),
            ("no answer in use", self.use_timeouts),
            ("reset in use", self.use_resets),
            ("closed before the whole message", self.incomplete),
            ("no answer to the FIN", self.close_timeouts),
            ("reset while closing", self.close_resets),
            ("open at the end, and reset by kpps", self.aborted),
        ]
    }

    /// Connections that failed.
    pub fn failed(&self) -> u64 {
        self.failures().iter().map(|(_, count)| count).sum()
    }

    /// Segments sent again.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted_syns + self.retransmitted_data + self.retransmitted_fins
    }
}

impl Connections {
    /// The document with rates rounded to 0.1 and times to microseconds.
    #[must_use]
    pub fn rounded(mut self) -> Self {
        for trial in &mut self.trials {
            trial.offered_cps = trial.offered_cps.map(|rate| rounded_to(rate, 10.0));
            trial.established_cps = rounded_to(trial.established_cps, 10.0);
            trial.opening_s = rounded_to(trial.opening_s, 1e6);
            trial.seconds = rounded_to(trial.seconds, 1e6);
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
