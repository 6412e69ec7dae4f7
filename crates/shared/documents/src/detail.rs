//! One trial in detail: its directions, and the counters of hosts and interfaces.

use crate::calibration::{Gaps, Sender};
use crate::json::to_json;
use crate::queues::Queues;
use crate::round::rounded_to;
use crate::run::Lateness;
use crate::{Doubt, Environment, FlowLatency, Latency, Schema, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a [`DetailedTrial`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialKind {
    /// One trial.
    #[default]
    Trial,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// One trial with all counters around it, between two ports or on a testbed without ports.
///
/// [`result`](Self::result) is the result of the load, with the fields of a [`Trial`] in the same JSON
/// object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DetailedTrial {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: TrialKind,
    /// The environment. `shape` is the shape of the requested load.
    pub environment: Environment,
    /// The capture whose frames were sent, if the load is a capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<TrialReplay>,
    /// The requested load in frames per second, in each direction; null for as many as possible. Of streams,
    /// it is the sum of those from the first port (from the second, if there are none) while all of them
    /// send. If the load was changed while frames were sent, `rate_changes` of each direction has the
    /// changes, and `offered_pps` is the mean. A ramp ends at `load_pps`, and `offered_pps` is its mean.
    pub load_pps: Option<f64>,
    /// False if it was interrupted, or a port failed.
    pub complete: bool,
    /// The failure, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Reasons to doubt that this is a measurement of the device under test. `unexplained`, `unbelievable`,
    /// `either`, `queues-grew`, `other-station` and `fragments` are remarks; each other one makes it invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// The number of repetitions. A trial is repeated if something disturbed its generator.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Whether learning frames arrived in each direction before the trial; null where none were sent.
    pub learned: Option<bool>,
    /// The result of the load.
    #[serde(flatten)]
    pub result: Trial,
    /// How the frames of all directions fared, beside the counts of the result.
    #[serde(flatten)]
    pub fate: Fate,
    /// Frames received, per second of sending.
    pub received_pps: f64,
    /// Bits sent per second.
    pub sent_bps: BitRates,
    /// The clocks of the ports, if each port has its own; null if there is one clock.
    #[serde(default)]
    pub clocks: Option<Clocks>,
    /// The limits of the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// The file of frames with anomalies, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Capture>,
    /// The file of all frames that the ports sent and received, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture_all: Option<FullCapture>,
    /// The length of the intervals of each direction's series, in s, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// Each direction by itself. Empty where there are no ports. Then the counts are those of the measured
    /// time, and the ledger covers the whole trial, with its warm-up and its end.
    pub directions: Vec<Direction>,
    /// The counters of each observed interface, as changes from before the trial to after it, without zeros.
    pub interfaces: BTreeMap<String, BTreeMap<String, u64>>,
    /// Packets dropped by IP in each other observed network namespace.
    pub ip: BTreeMap<String, BTreeMap<String, u64>>,
    /// The time of each CPU by kind, all programs together; empty if it is not counted.
    pub cpus: Vec<CpuTimes>,
    /// The hosts of these CPUs in order, if there are hosts besides the tester's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<TrialHost>,
    /// Frames that the backlogs and polls of all CPUs processed and dropped, and polls that ended early.
    pub softnet: BTreeMap<String, u64>,
    /// Interrupts of the whole host, by their line in `/proc/interrupts`.
    pub interrupts: BTreeMap<String, u64>,
    /// Softirqs of the whole host, by kind.
    pub softirqs: BTreeMap<String, u64>,
}

/// The clocks of two ports on two hosts. Latencies between the two ports are corrected by the measured
/// offset, and have its uncertainty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clocks {
    /// How far the second port's clock was ahead of the first one's before the trial, in ns. The absolute
    /// value has no meaning.
    pub offset_ns: i64,
    /// The error of the offset, up or down, in ns: half the shortest round trip of a question and its answer,
    /// for each clock that is not this host's.
    pub error_ns: u64,
    /// How fast the second clock gained on the first during the trial, in ns per s; null if it could not be
    /// read afterwards.
    pub drift_ns_per_s: Option<f64>,
    /// The number of questions: before the trial, after it, and once a second during a trial of more than
    /// some seconds.
    pub pings: u64,
    /// How the questions were sent: `udp`, or `grpc` where datagrams do not get through.
    pub over: String,
}

/// The source of arrival times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalBy {
    /// The receiving program, which reads the clock when it takes the frame, after its wake-up.
    #[default]
    Program,
    /// The kernel, which reads the clock when it takes the frame from the interface.
    Kernel,
}

/// The arrival times that latencies use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrival {
    /// Their source.
    pub by: ArrivalBy,
    /// The time by which the clock of these times was set forward during the trial, in ns; below 0 if it was
    /// set back. If the clock was set, there are no latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_set_ns: Option<i64>,
}

/// A capture that was sent unchanged. Its frames carry no tags and are recognised by their bytes: equal
/// frames are counted together, damaged ones are other traffic, and there are no latencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialReplay {
    /// The file.
    pub file: String,
    /// The number of its frames.
    pub frames: u64,
    /// The number of frames that equal another frame of the capture. Their order is not judged.
    pub with_equals: u64,
    /// How the sent frames differ from the capture, in words.
    pub departures: Vec<String>,
}

/// A file with the frames that were duplicated, reordered, corrupted or other traffic, each with the reason
/// as its comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// Its path (pcapng).
    pub file: String,
    /// The number of frames in it.
    pub frames: u64,
    /// Further frames that were not kept: the file has the first 1000 of each kind and direction.
    pub not_kept: u64,
}

/// A file with the frames that both ports sent and received, from the learning frames before the trial to its
/// end, each with the verdict on it as its comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FullCapture {
    /// Its path (pcapng).
    pub file: String,
    /// The number of frames in it.
    pub frames: u64,
    /// The memory for the frames of each port, in bytes. When it is full, a new frame overwrites the oldest
    /// ones.
    pub ring_bytes: u64,
    /// The most bytes of a frame that are in the file; null: all bytes are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u64>,
    /// The two ports.
    pub ports: Vec<CapturedPort>,
}

/// The captured frames of a port. `received` and `sent` are its own counts. They are the frames in the file
/// and the overwritten ones, unless the kernel refused frames that the port gave to it: these are in the
/// file, and are not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapturedPort {
    /// Its name.
    pub port: String,
    /// Frames that it received.
    pub received: u64,
    /// Frames that it sent.
    pub sent: u64,
    /// Older frames that were overwritten, and are not in the file.
    pub overwritten: u64,
}

/// A host that takes part in a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialHost {
    /// Its agent's address; null for the tester's own host.
    pub agent: Option<String>,
    /// How many CPUs it has.
    pub cpus: usize,
}

/// Bits per second, by layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BitRates {
    /// On layer 1: frames with FCS, preamble and the least gap.
    pub l1: f64,
    /// On layer 2: frames with FCS.
    pub l2: f64,
}

/// Frames of one flow or one size. A frame whose tag was damaged has an unknown flow and size: it is not
/// counted as received here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Carried {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that arrived, each counted once.
    pub received: u64,
    /// Frames that were sent and did not arrive.
    pub lost: u64,
}

impl Carried {
    /// The counts, if this many were sent and arrived.
    pub fn of(sent: u64, received: u64) -> Self {
        Self { sent, received, lost: sent.saturating_sub(received) }
    }
}

/// How frames fared, of one direction or of all together: the counts beside those of a [`Trial`], which are
/// `sent`, `shortfall` and `delivered`. A count that the testbed does not have is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fate {
    /// Frames that were due: sent, or shortfall of the generator.
    pub intended: u64,
    /// Frames that arrived, each counted once; damaged ones are among them.
    pub received: u64,
    /// Frames that were sent and did not arrive.
    pub lost: u64,
    /// Frames that arrived again.
    pub duplicated: Option<u64>,
    /// Frames that arrived after a frame of the same flow that was sent later (RFC 4737).
    pub reordered: Option<u64>,
    /// Frames that arrived only as damaged copies. Null also for a capture: its damaged frames are not
    /// recognised, and count as other traffic.
    pub corrupted: Option<u64>,
    /// Other traffic: frames that arrived and do not belong to this trial.
    pub other_traffic: Option<u64>,
}

impl std::iter::Sum for Fate {
    /// The counts of several directions together. A count that one direction does not have is unknown.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let both = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        all.reduce(|sum, it| Self {
            intended: sum.intended + it.intended,
            received: sum.received + it.received,
            lost: sum.lost + it.lost,
            duplicated: both(sum.duplicated, it.duplicated),
            reordered: both(sum.reordered, it.reordered),
            corrupted: both(sum.corrupted, it.corrupted),
            other_traffic: both(sum.other_traffic, it.other_traffic),
        })
        .unwrap_or_default()
    }
}

/// The results of the flows of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// The number of flows.
    pub count: u32,
    /// Flows that lost frames.
    pub lossy: u32,
    /// Flows that lost all frames.
    pub silent: u32,
    /// Up to 16 flows, the worst flow first: those that lost the most frames, then those with frames out of
    /// order, then those with the longest mean latency.
    pub worst: Vec<FlowCount>,
}

/// The result of one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowCount {
    /// Its addresses and ports, as they were sent.
    pub flow: String,
    /// Its frames.
    #[serde(flatten)]
    pub frames: Carried,
    /// Frames that arrived after a frame of the flow that was sent later.
    pub reordered: u64,
    /// Time from sending to receiving; absent if nothing arrived, if the drift of two clocks is not followed,
    /// or if a clock was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<FlowLatency>,
}

/// When frames of a direction were lost. A frame's number gives the time when it was sent: between two frames
/// that arrived, the missing ones are taken to be sent at equal distances. A pause of the sender between them
/// is part of these times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossTimes {
    /// When the first lost frame was sent, in s since the first frame was due.
    pub first_s: f64,
    /// The most frames in a row that were lost: the longest loss period (RFC 3357).
    pub longest_frames: u64,
    /// When the first of these was sent, in s since the first frame was due.
    pub longest_at_s: f64,
    /// For how long frames were sent that are all lost, in s: from the first of these frames to the next one
    /// that arrived, or to the end of sending.
    pub longest_s: f64,
}

/// The result of the frames of one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeCount {
    /// The size in bytes with FCS.
    pub frame_bytes_with_fcs: u32,
    /// Its frames.
    #[serde(flatten)]
    pub frames: Carried,
}

/// The result of one of several streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamCount {
    /// The name of the stream.
    pub stream: String,
    /// The load in frames per second while it sends; absent if frames were sent as fast as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_pps: Option<f64>,
    /// Its frames. `sent` counts frames that were given to the sending port; the port may have refused some,
    /// which then count as lost here.
    #[serde(flatten)]
    pub frames: Carried,
    /// Its generator shortfall: frames that were not given to the port, because it was too late for them;
    /// absent if frames were sent as fast as possible, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<u64>,
    /// Frames that arrived again.
    pub duplicated: u64,
    /// Frames that arrived after a frame of the same flow that was sent later. Each combination of the
    /// values of its header fields is a flow, if there are at most 1024; otherwise the whole stream is one.
    pub reordered: u64,
    /// Frames that arrived only as damaged copies.
    pub corrupted: u64,
    /// Time from sending to receiving; absent if nothing arrived, or if a clock was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<FlowLatency>,
    /// The percentiles of this time, if a direction has at most 64 streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles_ns: Option<Latency>,
    /// When frames of the stream were lost, as for a direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossTimes>,
}

/// The work of one of several cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreCount {
    /// The CPU that the sending core had for itself; absent if it shared one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Frames that the core of the sending port sent.
    pub sent: u64,
    /// Its shortfall: frames that it could not send at their time.
    pub shortfall: u64,
    /// Frames that came to the core of the receiving port, without duplicates. The kernel or the card chooses
    /// the core of a flow, so the sending core with this number sent other frames.
    pub received: u64,
    /// Its receive overflow: frames that found its queue full; null if its port does not count them.
    pub overflow: Option<u64>,
    /// The gaps between the frames that it sent; absent if they were not paced. The gaps of the direction are
    /// those of the whole schedule, which all cores send together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Gaps>,
}

/// One direction of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Direction {
    /// The port that sends.
    pub from: String,
    /// The port that receives.
    pub to: String,
    /// Frames that were sent.
    pub sent: u64,
    /// Generator shortfall: frames that could not be sent at their time.
    pub shortfall: u64,
    /// Frames that arrived undamaged.
    pub delivered: u64,
    /// How its frames fared, beside these counts.
    #[serde(flatten)]
    pub fate: Fate,
    /// Time from sending to receiving.
    pub latency_ns: Latency,
    /// The number of frames in each range of latencies, shortest latencies first: at most ten ranges for each
    /// power of ten. Ranges without frames are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_histogram: Vec<LatencyRange>,
    /// When frames were lost; absent if none was, and if other frames may be missing, too: the sender's
    /// kernel refused some, the receiver missed some (`overflow`) or does not count them, some arrived with a
    /// damaged tag, or a port failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossTimes>,
    /// The source of arrival times.
    #[serde(default)]
    pub arrival: Arrival,
    /// The gaps between frames, if they were paced; with several cores those of the whole schedule. Of a port
    /// that sends in several directions, the first direction has the gaps and the lateness of all its frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Gaps>,
    /// How late frames were sent; only where late frames are sent, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// The results of the flows, if there are several and no file describes streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
    /// The results of the streams, if a file describes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamCount>,
    /// The results of the sizes of a mix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizeCount>,
    /// The work of each core, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreCount>,
    /// The receive queues of the port that receives, if each of its cores reads one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues>,
    /// The changes of the load while frames were sent. Before the first change, the load was the requested
    /// one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_changes: Vec<RateChange>,
    /// The results of each interval in turn, if they were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Interval>,
}

/// A change of the load of a running trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateChange {
    /// The time of the change, in s since the first frame was due.
    pub at_s: f64,
    /// The load from then on, in frames per second.
    pub offered_pps: f64,
}

/// The results of an interval. Its frames are those that were due, or sent, in the interval; they may arrive
/// later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Its beginning, in s since the first frame was due.
    pub from_s: f64,
    /// Its length in s: that of all intervals, but the first and the last one may differ.
    pub seconds: f64,
    /// The load: frames that were due, per second.
    pub offered_pps: f64,
    /// Frames received, per second.
    pub received_pps: f64,
    /// Frames that were due.
    pub intended: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// Generator shortfall: frames that could not be sent at their time.
    pub shortfall: u64,
    /// Frames that arrived, each counted once.
    pub received: u64,
    /// Receive overflow of the tester: frames that reached the tester and that it could not receive; null if
    /// it is not counted.
    pub overflow: Option<u64>,
    /// Frames that were sent and did not reach the tester.
    pub lost: u64,
    /// Time from sending to receiving, at most 1.6 % too long; null if nothing arrived, or if sender and
    /// receiver have two clocks.
    pub latency_ns: Latency,
}

/// The frames whose latency is in one range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRange {
    /// The upper end of the range in ns, included. The lower end is about a fifth less.
    pub up_to_ns: u64,
    /// Frames.
    pub frames: u64,
}

/// The time of a CPU by kind, in s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTimes {
    /// In programs.
    pub user_s: f64,
    /// In the kernel on behalf of programs.
    pub system_s: f64,
    /// In interrupt handlers.
    pub irq_s: f64,
    /// In softirqs.
    pub softirq_s: f64,
    /// Idle.
    pub idle_s: f64,
    /// Taken by the host of a virtual machine.
    pub steal_s: f64,
    /// Cycles of its clock in which it was not idle; absent if they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
}

impl CpuTimes {
    /// The time since an earlier observation.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
            irq_s: self.irq_s - before.irq_s,
            softirq_s: self.softirq_s - before.softirq_s,
            idle_s: self.idle_s - before.idle_s,
            steal_s: self.steal_s - before.steal_s,
            cycles: self.cycles.zip(before.cycles).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

impl DetailedTrial {
    /// The CPUs' names: their numbers, after the agent's address if there are agents.
    pub fn cpu_names(&self) -> Vec<String> {
        let of = |host: &TrialHost| {
            let agent = host.agent.as_ref().map(|agent| format!("{agent} ")).unwrap_or_default();
            (0..host.cpus).map(move |number| format!("{agent}{number}")).collect::<Vec<_>>()
        };
        match &self.hosts[..] {
            [] => (0..self.cpus.len()).map(|number| number.to_string()).collect(),
            hosts => hosts.iter().flat_map(of).collect(),
        }
    }

    /// Cycles of all CPUs together for each frame that arrived, other work included. `None` if a CPU does not
    /// count them, or if nothing arrived.
    pub fn cycles_per_frame(&self) -> Option<f64> {
        // A document may have any numbers: a sum of integers could overflow.
        let cycles = self.cpus.iter().map(|cpu| Some(cpu.cycles? as f64)).sum::<Option<f64>>()?;
        let received = self.fate.received;
        (received > 0 && !self.cpus.is_empty()).then(|| cycles / received as f64)
    }

    /// The document with rates rounded to 0.1 per second, and times to a millionth of a second or less.
    #[must_use]
    pub fn rounded(mut self) -> Self {
        let BitRates { l1, l2 } = &mut self.sent_bps;
        for rate in [&mut self.received_pps, l1, l2] {
            *rate = rounded_to(*rate, 10.0);
        }
        self.load_pps = self.load_pps.map(|pps| rounded_to(pps, 10.0));
        self.interval_s = self.interval_s.map(|interval| rounded_to(interval, 1e6));
        for change in self.directions.iter_mut().flat_map(|direction| &mut direction.rate_changes) {
            change.at_s = rounded_to(change.at_s, 1e6);
            change.offered_pps = rounded_to(change.offered_pps, 10.0);
        }
        for it in self.directions.iter_mut().flat_map(|direction| &mut direction.loss) {
            // To the ns: a few frames are lost in less than a millionth of a second.
            for time in [&mut it.first_s, &mut it.longest_at_s, &mut it.longest_s] {
                *time = rounded_to(*time, 1e9);
            }
        }
        for it in self.directions.iter_mut().flat_map(|direction| &mut direction.series) {
            (it.from_s, it.seconds) = (rounded_to(it.from_s, 1e6), rounded_to(it.seconds, 1e6));
            (it.offered_pps, it.received_pps) =
                (rounded_to(it.offered_pps, 10.0), rounded_to(it.received_pps, 10.0));
        }
        for cpu in &mut self.cpus {
            let CpuTimes { user_s, system_s, irq_s, softirq_s, idle_s, steal_s, cycles: _ } = cpu;
            for time in [user_s, system_s, irq_s, softirq_s, idle_s, steal_s] {
                *time = rounded_to(*time, 1e6);
            }
        }
        Self { environment: self.environment.rounded(), result: self.result.rounded(), ..self }
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

    #[test]
    fn cycles_are_those_of_all_cpus_or_none() {
        let cpu = |cycles| CpuTimes { cycles, ..CpuTimes::default() };
        let fate = Fate { received: 100, ..Fate::default() };
        let trial = |cpus| DetailedTrial { fate, cpus, ..DetailedTrial::default() };
        let all = trial(vec![cpu(Some(3000)), cpu(Some(1000))]);
        assert_eq!(all.cycles_per_frame(), Some(40.0));
        assert_eq!(DetailedTrial { fate: Fate::default(), ..all }.cycles_per_frame(), None);
        assert_eq!(trial(vec![cpu(Some(3000)), cpu(None)]).cycles_per_frame(), None);
        assert_eq!(trial(Vec::new()).cycles_per_frame(), None);
        let most = trial(vec![cpu(Some(u64::MAX)), cpu(Some(u64::MAX))]).cycles_per_frame();
        assert!(most.is_some_and(|cycles| cycles.is_finite()));
        assert_eq!(cpu(Some(5)).since(&cpu(Some(2))).cycles, Some(3));
        assert_eq!(cpu(Some(5)).since(&cpu(None)).cycles, None);
    }
}
