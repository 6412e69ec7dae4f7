//! Documents of the simulator beside curves and grids: transmit rates, CPU profiles, scaling over CPUs, bus
//! traces.

use crate::{Environment, Latency, Ledger, Registers, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a [`Transmit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransmitKind {
    /// Transmit rates of drivers.
    #[default]
    Transmit,
}

/// The transmit rates of drivers: the kernel always has another frame for them, or a process sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transmit {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: TransmitKind,
    /// The environment.
    pub environment: Environment,
    /// The drivers.
    pub rows: Vec<TransmitRow>,
    /// Whether every driver has a result; false after an interruption.
    pub complete: bool,
}

/// The transmit rate of one driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransmitRow {
    /// The driver preset, or the rate-limited NIC.
    pub name: String,
    /// Frames on the wire in a second.
    pub sent_pps: f64,
    /// Share of the time in which the card had nothing to send, 0 to 1.
    pub card_idle: f64,
    /// Share of the time in which the wire carried nothing, 0 to 1; null if it is not known, as with a
    /// rate-limited NIC.
    pub wire_idle: Option<f64>,
    /// Share of the time in which the CPU was not idle, 0 to 1.
    pub cpu_busy: f64,
    /// The same without idle polls.
    pub cpu_used: f64,
    /// Share of the time in which the bus was occupied, 0 to 1.
    pub bus_busy: f64,
    /// Bursts in which the card read data, for each frame; null if none was sent, or with a rate-limited NIC.
    pub data_bursts_per_frame: Option<f64>,
    /// Interrupts in a second.
    pub interrupts_per_s: f64,
    /// Register accesses for each frame; null if none was sent, or with a rate-limited NIC.
    pub registers_per_frame: Option<Registers>,
    /// The process that sent, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<SendingProcess>,
    /// How exact the gaps between frames were, if fillers kept the wire busy between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<ExactGaps>,
}

/// How exact the gaps between frames were, with fillers between them: since the first frame, also during the
/// warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExactGaps {
    /// Fillers for each frame.
    pub fillers_per_frame: f64,
    /// Share of the frames that no filler could bring to their exact time, 0 to 1.
    pub rounded: f64,
    /// The longest distance between the planned start of a frame and its time in the schedule, in ns.
    pub most_rounded_ns: f64,
    /// The longest distance between the start of a frame on the wire and the planned one, in ns; 0 if the
    /// card always had something to send.
    pub most_deviation_ns: f64,
}

/// A process that sends, and where the CPU's time went: shares of it, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendingProcess {
    /// System calls that the full transmit queue refused, for each datagram that was sent; null if none was.
    pub refused_per_sent: Option<f64>,
    /// Time of refused calls, of idle polls, and of switches to processes that were woken.
    pub wasted: f64,
    /// Time of interrupts and the clock.
    pub interrupt_load: f64,
    /// Time of system calls.
    pub system_load: f64,
    /// Time of the program itself.
    pub user_load: f64,
}

/// The kind of a [`Profile`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfileKind {
    /// CPU time by function.
    #[default]
    Profile,
}

/// CPU time by function, and counts for each frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: ProfileKind,
    /// The environment.
    pub environment: Environment,
    /// The offered load in frames per second.
    pub offered_pps: f64,
    /// Frames delivered per second.
    pub delivered_pps: f64,
    /// Share of the time in which CPUs were not idle: with two, up to 2.
    pub cpu_busy: f64,
    /// Counts for each frame that the driver took, by name: interrupts, register accesses, bus
    /// transactions …; null if it took none.
    pub per_frame: BTreeMap<String, Option<f64>>,
    /// CPU time by function.
    pub functions: Vec<ProfileRow>,
    /// CPU time by function and level.
    pub rows: Vec<ProfileRow>,
}

/// The CPU time of one function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileRow {
    /// The function.
    pub function: String,
    /// Its level; null for all together.
    pub level: Option<String>,
    /// Its share of the CPU time that was used, 0 to 1.
    pub share: f64,
    /// Its time for each frame that the driver took, in ns; null if it took none.
    pub ns_per_frame: Option<f64>,
}

/// The kind of a [`Scale`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScaleKind {
    /// Frames against CPUs.
    #[default]
    Scale,
}

/// Frames per second against CPUs, and their limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scale {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: ScaleKind,
    /// The environment.
    pub environment: Environment,
    /// One for each number of CPUs.
    pub rows: Vec<ScaleRow>,
    /// The number of CPUs beyond which more add nothing; null if the rate still rises.
    pub stops_at_cpus: Option<usize>,
    /// The limit and its reason, in a sentence.
    pub summary: String,
    /// Whether every number of CPUs has a result; false after an interruption.
    pub complete: bool,
}

/// The result with a number of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleRow {
    /// Receive queues, each with a CPU of its own.
    pub cpus: usize,
    /// The offered load in frames per second.
    pub offered_pps: f64,
    /// Frames delivered per second.
    pub delivered_pps: f64,
    /// The limiting part.
    pub stopped_by: String,
    /// Time from sending to delivery; null if nothing was delivered.
    pub latency_ns: Latency,
    /// How busy each part was.
    pub busy: ScaleBusy,
    /// Share of the CPUs' time that they waited for each other, 0 to 1.
    pub cpus_waiting: f64,
    /// Cache misses on headers for each frame that the driver took; null if it took none.
    pub header_misses_per_frame: Option<f64>,
    /// Cache misses for each frame, likewise.
    pub cache_misses_per_frame: Option<f64>,
    /// Bursts on the bus for each frame, likewise.
    pub bus_transactions_per_frame: Option<f64>,
    /// Where each frame ended.
    pub ledger: Ledger,
}

/// How busy each part was, as shares of the time, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleBusy {
    /// The wire.
    pub wire: f64,
    /// The card: its engine, or waiting for the bus.
    pub card: f64,
    /// The card's engine.
    pub card_engine: f64,
    /// The bus.
    pub bus: f64,
    /// The memory channel; null if the host's has no limit.
    pub memory: Option<f64>,
    /// Each CPU.
    pub cpus: Vec<f64>,
}

/// The kind of a [`BusTrace`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceKind {
    /// A bus trace.
    #[default]
    Trace,
}

/// The transactions of a machine's bus under load, with their times. Clocks are bus clocks since the trace
/// began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusTrace {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: TraceKind,
    /// The environment.
    pub environment: Environment,
    /// The load offered to each card, in frames per second.
    pub offered_pps: f64,
    /// Length of the trace, in s.
    pub seconds: f64,
    /// One bus clock, in ps.
    pub clock_ps: u64,
    /// Share of the time in which the bus was occupied, 0 to 1.
    pub bus_busy: f64,
    /// Bytes per second that crossed the bus.
    pub bus_bytes_per_s: f64,
    /// The cards.
    pub cards: Vec<TracedCard>,
    /// The first card's reception while it had enough descriptors.
    pub enough_descriptors: EnoughDescriptors,
    /// Its reception afterwards, when frames waited for descriptors; null if they never did.
    pub short_of_descriptors: Option<ShortOfDescriptors>,
    /// The transactions on the bus, in order.
    pub transactions: Vec<BusTransaction>,
    /// Interrupts and register accesses, in order.
    pub events: Vec<BusEvent>,
    /// The number of earlier transactions and events, which were not kept.
    pub not_kept: u64,
}

/// The frames of one card during a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedCard {
    /// Frames sent to it.
    pub sent: u64,
    /// Frames that reached the kernel's protocol demultiplexer.
    pub delivered: u64,
    /// The card's register of missed frames.
    pub missed: u64,
    /// Descriptor fetches that a tail update cut short.
    pub fetches_cut: u64,
}

/// A card's reception while frames cross the bus as they arrive. A value that the trace does not show is
/// null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnoughDescriptors {
    /// The length of that time in clocks, from the first frame on.
    pub clocks: Option<f64>,
    /// Frames in that time.
    pub frames: u64,
    /// Frames per microsecond.
    pub frames_per_us: Option<f64>,
    /// Idle clocks between frames, in the mean.
    pub frame_gap_clocks: Option<f64>,
    /// Idle clocks between frames that no write-back and no fetch separates, the median.
    pub group_gap_clocks: Option<f64>,
    /// Frames from one write-back to the next, the most frequent number.
    pub frames_per_write_back: Option<f64>,
    /// Clocks from the start of the last frame to the start of a write-back, the median.
    pub write_back_after_clocks: Option<f64>,
    /// Clocks from its end to the start of a write-back, the median.
    pub write_back_gap_clocks: Option<f64>,
    /// Descriptors in a write-back, the most frequent number.
    pub write_back_descriptors: Option<f64>,
    /// Frames from one descriptor fetch to the next, the most frequent number.
    pub frames_per_fetch: Option<f64>,
    /// Bursts in a fetch, the most frequent number.
    pub fetch_bursts: Option<f64>,
    /// Descriptors in a burst, the most frequent number.
    pub burst_descriptors: Option<f64>,
    /// Tail updates in a row.
    pub tail_updates: Option<f64>,
    /// Descriptors that a tail update hands over, the most frequent number.
    pub tail_descriptors: Option<f64>,
}

/// A card's reception while frames wait for descriptors, then cross the bus in bursts. A value that the
/// trace does not show is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShortOfDescriptors {
    /// Frames per microsecond.
    pub frames_per_us: Option<f64>,
    /// Clocks without a frame: the longest time among 64 frames, in the mean.
    pub longest_gap_clocks: Option<f64>,
    /// The shortest time between two frames, in clocks.
    pub shortest_gap_clocks: Option<f64>,
    /// The median of the times between frames of a burst, in clocks.
    pub median_gap_clocks: Option<f64>,
}

/// A transaction on the bus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusTransaction {
    /// The clock at which it began, with two decimals.
    pub clock: f64,
    /// How many clocks it took, begun ones included.
    pub clocks: u64,
    /// The master of the bus: `cpu`, `card0` and so on, `background`.
    pub master: String,
    /// Its purpose: `rx-data`, `tail-write` and so on.
    pub what: String,
    /// The memory address, or the register's offset, in hexadecimal.
    pub address: String,
    /// Bytes that crossed.
    pub bytes: u32,
    /// The target disconnected before all bytes had crossed; the rest follows as another transaction.
    pub cut: bool,
}

/// An interrupt or a register access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BusEvent {
    /// The clock at which it happened.
    pub clock: u64,
    /// The time since the trace began, in ns.
    pub ns: u64,
    /// The number of the card.
    pub card: u8,
    /// Its kind: `interrupt`, `read` or `write`.
    pub event: String,
    /// The register's offset in hexadecimal; null for an interrupt.
    pub register: Option<String>,
    /// The register's value in hexadecimal; null for an interrupt.
    pub value: Option<String>,
}
