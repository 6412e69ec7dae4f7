//! The results document `kpps/1`.

use crate::two_sentences;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the document. Fields may be added within a version; none changes its meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Schema {
    /// The first version.
    #[default]
    #[serde(rename = "kpps/1")]
    Kpps1,
}

/// What kind of result a document holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Delivered against offered load, for one or more series.
    #[default]
    Curve,
}

/// Delivered against offered load: one series for each preset that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: Kind,
    /// What was measured, and where.
    pub environment: Environment,
    /// The curves, in the order in which they were asked for.
    pub series: Vec<Series>,
    /// What one sees, in two sentences derived from the series.
    pub summary: [String; 2],
    /// Whether every point that was asked for is there; false after an interruption.
    pub complete: bool,
}

impl Curve {
    /// A document: sorts each series by offered load, rounds every value (see [`Point::rounded`])
    /// and sums up what one sees.
    pub fn new(environment: Environment, series: Vec<Series>, complete: bool) -> Self {
        let mut curve = Self {
            schema: Schema::Kpps1,
            kind: Kind::Curve,
            environment: Environment {
                line_rate_pps: rounded_to(environment.line_rate_pps, TENTHS),
                ..environment
            },
            series,
            summary: Default::default(),
            complete,
        };
        for series in &mut curve.series {
            for point in &mut series.points {
                *point = std::mem::take(point).rounded();
            }
            series.points.sort_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps));
        }
        curve.summary = two_sentences(&curve);
        curve
    }

    /// The document as JSON, ending in a newline. The same document gives the same bytes.
    ///
    /// # Errors
    /// None for documents made by [`Curve::new`].
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }

    /// Reads a document.
    ///
    /// # Errors
    /// What is wrong with the text, and where: not JSON, another schema, a missing field.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// What was measured, and where: what it takes to measure it again. It holds no times and no
/// names of machines, so that equal runs give equal documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The version of kpps.
    pub kpps_version: String,
    /// What carried the load: "sim" for the machine room.
    pub testbed: String,
    /// The machine by name: chip, bus, host and stack together. Of another testbed its name, and then chip, bus, host and stack
    /// may be empty.
    pub machine: String,
    /// The network controller.
    pub chip: String,
    /// The bus between host and controller.
    pub bus: String,
    /// Processor, memory and chip set.
    pub host: String,
    /// The operating-system stack on top of the driver.
    pub stack: String,
    /// The app between two cards, if there is one; loads are then those of both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// What it was measured on, by name, where that is not a machine of profiles: kernel, processors, ports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured_on: BTreeMap<String, String>,
    /// Frames were offered in both directions; loads are then those of both together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both_ways: bool,
    /// How frames differ from the usual ones: addresses, flows, VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The mix of sizes, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<crate::trial::Mix>,
    /// Size of each frame in a buffer, in bytes without FCS; of a mix the mean, rounded.
    pub size_bytes_without_fcs: u16,
    /// Size of each frame as standards count it, in bytes with FCS; of a mix the mean, rounded.
    pub frame_bytes_with_fcs: u32,
    /// Frames of this size per second on a full link.
    pub line_rate_pps: f64,
    /// Length of the measured part of each trial, in ms.
    pub duration_ms: u64,
    /// Length of the part before it that is not measured, in ms.
    pub warmup_ms: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// Hash of the profiles, with all their constants, that were in force.
    pub profiles_hash: String,
    /// What each preset, named as its series is, stands for.
    pub presets: BTreeMap<String, String>,
}

impl Environment {
    /// What the machine consists of, in words; empty if nothing is known of that.
    pub fn parts(&self) -> String {
        let Self { chip, bus, host, stack, .. } = self;
        let card = if bus.is_empty() { chip.clone() } else { format!("{chip} on {bus}") };
        let app = self.app.as_ref().map(|app| format!("{app} between two cards")).unwrap_or_default();
        let parts = [card, host.clone(), stack.clone(), app];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Whether frames are of one size, all of one flow, and go one way.
    pub(crate) fn is_usual(&self) -> bool {
        self.mix.is_none() && self.traffic.is_none() && !self.both_ways
    }

    /// The frames, in words.
    pub fn frames(&self) -> String {
        let sizes = match &self.mix {
            Some(mix) => format!("{} B with FCS ({:.1} B in the mean)", mix.name, mix.mean_bytes_with_fcs),
            None => {
                format!("{} B ({} B without FCS)", self.frame_bytes_with_fcs, self.size_bytes_without_fcs)
            }
        };
        let traffic = self.traffic.as_ref().map(|traffic| format!(", {traffic}")).unwrap_or_default();
        format!("{sizes}{traffic}{}", if self.both_ways { ", both ways" } else { "" })
    }
}

/// What a reader of points must know: loads that the sender could not send, clocks that differ.
pub fn remarks<'p>(points: impl Iterator<Item = &'p Point> + Clone) -> Vec<String> {
    let clocks = clock_error(points.clone().map(|point| point.latency_ns));
    above_ceiling(points).into_iter().chain(clocks).collect()
}

fn above_ceiling<'p>(points: impl Iterator<Item = &'p Point>) -> Option<String> {
    let above = points.filter_map(|point| Some((point.offered_pps, point.ceiling_pps?)));
    let above: Vec<_> = above.filter(|(offered, ceiling)| offered > ceiling).map(|(_, pps)| pps).collect();
    let least = above.iter().copied().reduce(f64::min)?;
    Some(format!(
        "The sender can send {:.1} kpps here: of {} loads that are above, part of the loss is the sender's.",
        least / 1e3,
        above.len()
    ))
}

/// One curve: a preset under rising load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// The name of the preset.
    pub name: String,
    /// The trials, by rising offered load.
    pub points: Vec<Point>,
}

impl Series {
    /// Where most is delivered: the lowest load of those at which it is, as a level rate wavers by a packet
    /// or two.
    pub fn peak(&self) -> Option<&Point> {
        let most = self.points.iter().map(|p| p.delivered_pps).fold(0.0, f64::max);
        self.points.iter().find(|p| p.delivered_pps >= 0.999 * most)
    }
}

/// One trial: what became of one offered load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The load that was asked for, in packets per second.
    pub offered_pps: f64,
    /// The load that the source really put on the wire, in packets per second.
    pub sent_pps: f64,
    /// The highest that it can send here, in packets per second, measured before; not there if the wire alone limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_pps: Option<f64>,
    /// What arrived at the consumer, in packets per second.
    pub delivered_pps: f64,
    /// Lost packets, those that the source could not send among them, over packets asked for: 0 to 1.
    pub loss_ratio: f64,
    /// Share of time that the processor was not idle, 0 to 1: the sum of `cpu`, to rounding.
    pub cpu_busy: f64,
    /// What the processor was busy with.
    pub cpu: Cpu,
    /// Share of time that the bus was occupied, 0 to 1.
    pub bus_busy: f64,
    /// Interrupts that were taken, per second.
    pub interrupts_per_s: f64,
    /// Time from sending to delivery.
    pub latency_ns: Latency,
    /// Register accesses of the driver for each packet that it took from the device.
    pub registers_per_packet: Registers,
    /// Packet buffers allocated for each packet that the driver took from the device.
    pub allocations_per_packet: f64,
    /// Where each packet ended.
    pub ledger: Ledger,
}

impl Point {
    /// The point with every value rounded as it is published: rates to 0.1 per second, ratios
    /// to 6 decimals, accesses per packet to 4. What is not a finite number becomes 0: JSON
    /// has no other.
    #[must_use]
    pub fn rounded(self) -> Self {
        Self {
            offered_pps: rounded_to(self.offered_pps, TENTHS),
            sent_pps: rounded_to(self.sent_pps, TENTHS),
            ceiling_pps: self.ceiling_pps.map(|pps| rounded_to(pps, TENTHS)),
            delivered_pps: rounded_to(self.delivered_pps, TENTHS),
            loss_ratio: rounded_to(self.loss_ratio, MILLIONTHS),
            cpu_busy: rounded_to(self.cpu_busy, MILLIONTHS),
            cpu: Cpu {
                hardirq: rounded_to(self.cpu.hardirq, MILLIONTHS),
                softirq: rounded_to(self.cpu.softirq, MILLIONTHS),
                thread: rounded_to(self.cpu.thread, MILLIONTHS),
                empty_polls: rounded_to(self.cpu.empty_polls, MILLIONTHS),
            },
            bus_busy: rounded_to(self.bus_busy, MILLIONTHS),
            interrupts_per_s: rounded_to(self.interrupts_per_s, TENTHS),
            registers_per_packet: Registers {
                read: rounded_to(self.registers_per_packet.read, TEN_THOUSANDTHS),
                write: rounded_to(self.registers_per_packet.write, TEN_THOUSANDTHS),
            },
            allocations_per_packet: rounded_to(self.allocations_per_packet, TEN_THOUSANDTHS),
            ..self
        }
    }

    /// Share of time that the processor had left for other work, 0 to 1: idle, or polling in vain.
    pub fn cpu_left(&self) -> f64 {
        (1.0 - self.cpu_busy + self.cpu.empty_polls).clamp(0.0, 1.0)
    }
}

const TENTHS: f64 = 1e1;
const TEN_THOUSANDTHS: f64 = 1e4;
const MILLIONTHS: f64 = 1e6;

/// Rounds to one part in `scale`, half away from zero. Only correctly rounded operations are used,
/// so every machine gets the same.
fn rounded_to(value: f64, scale: f64) -> f64 {
    let rounded = (value * scale).round() / scale;
    // Adding 0.0 turns -0.0, which prints with its sign, into 0.0.
    if rounded.is_finite() { rounded + 0.0 } else { 0.0 }
}

/// The value to 6 decimals; 0 if it is not finite.
pub fn rounded(value: f64) -> f64 {
    rounded_to(value, MILLIONTHS)
}

/// A document as JSON, ending in a newline.
///
/// # Errors
/// None for documents whose values are finite.
pub fn to_json(document: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(document).map(|json| json + "\n")
}

/// What a processor was busy with, as shares of its time, 0 to 1 each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// In interrupt handlers.
    pub hardirq: f64,
    /// In softirqs and bottom halves.
    pub softirq: f64,
    /// In threads, without polls that found nothing.
    pub thread: f64,
    /// Polling that found nothing: busy, but free for other work.
    pub empty_polls: f64,
}

impl Cpu {
    /// Share of time that the processor was not idle.
    pub fn busy(&self) -> f64 {
        self.hardirq + self.softirq + self.thread + self.empty_polls
    }
}

/// Time from sending to delivery, in ns, by percentile; each null when nothing was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Half of the packets took no longer, in ns.
    pub p50: Option<u64>,
    /// 99 % took no longer, in ns.
    pub p99: Option<u64>,
    /// 99.9 % took no longer, in ns.
    pub p999: Option<u64>,
    /// The slowest packet, in ns.
    pub max: Option<u64>,
    /// How wrong they may be, up or down, in ns, where sender and receiver have clocks of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<u64>,
}

/// What is to be said of latencies by two clocks; of several the worst.
pub fn clock_error(latencies: impl Iterator<Item = Latency>) -> Option<String> {
    let worst = latencies.filter_map(|latency| latency.error_ns).max()?;
    Some(format!(
        "Latencies are by the clocks of two hosts, compared before and after each trial: within ±{:.1} µs.",
        worst as f64 / 1e3
    ))
}

/// Register accesses for each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Registers {
    /// Reads, which the processor waits for.
    pub read: f64,
    /// Writes, which are posted.
    pub write: f64,
}

/// The name under which [`Ledger::losses`] lists packets that the source could not send.
pub const NOT_SENT: &str = "not sent";
/// The name under which [`Ledger::losses`] lists packets that ended nobody knows where.
pub const UNEXPLAINED: &str = "unexplained";

/// Where each packet of a trial ended. Every packet is in exactly one place, so that
/// `sent = delivered + dropped + in flight`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Packets put on the wire.
    pub sent: u64,
    /// Packets that were due but that the source could not send. They count as loss.
    #[serde(default)]
    pub unsent: u64,
    /// Packets that arrived at the consumer.
    pub delivered: u64,
    /// Packets lost, by the place that lost them.
    pub dropped: BTreeMap<String, u64>,
    /// Packets that were still under way when the trial ended. They do not count as loss.
    pub in_flight: u64,
    /// The same packets by place.
    pub in_flight_at: BTreeMap<String, u64>,
}

impl Ledger {
    /// Packets dropped in all places together.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Everything that counts as loss, by place: what was dropped, then what the source could not
    /// send ([`NOT_SENT`]) and what nobody can explain ([`UNEXPLAINED`]), if there is any.
    pub fn losses(&self) -> Vec<(&str, u64)> {
        let dropped = self.dropped.iter().map(|(place, &n)| (place.as_str(), n));
        let unexplained = u64::try_from(self.unexplained()).unwrap_or(0);
        let others = [(NOT_SENT, self.unsent), (UNEXPLAINED, unexplained)];
        dropped.chain(others).filter(|&(_, n)| n > 0).collect()
    }

    /// Packets of which the ledger does not know where they ended; below 0 if more ended than
    /// were sent.
    pub fn unexplained(&self) -> i128 {
        let total = |places: &BTreeMap<String, u64>| places.values().map(|&n| i128::from(n)).sum::<i128>();
        i128::from(self.sent) - i128::from(self.delivered) - total(&self.dropped) - i128::from(self.in_flight)
    }

    /// Whether every packet is accounted for, and those in flight also by place.
    pub fn closes(&self) -> bool {
        let places: i128 = self.in_flight_at.values().map(|&n| i128::from(n)).sum();
        self.unexplained() == 0 && places == i128::from(self.in_flight)
    }
}

/// A document of any kind.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "its schema is what it is for")]
enum Document {
    Curve(Curve),
    Run(crate::Run),
    Study(crate::study::Study),
    Grid(crate::grid::Grid),
    Trial(Box<crate::trial::Trial>),
    Ndr(crate::ndr::Ndr),
    Certificate(crate::certificate::Certificate),
    Comparison(crate::comparison::Comparison),
    Sizes(crate::rfc2544::Sizes),
    Rfc2544(crate::rfc2544::Rfc2544),
    Lab(crate::lab::Lab),
    Transmit(crate::room::Transmit),
    Profile(crate::room::Profile),
    Scale(crate::room::Scale),
    Profiles(crate::inventory::Profiles),
    Devices(crate::inventory::Devices),
    Selftest(crate::inventory::Selftest),
}

/// The JSON Schema of all kinds of documents (draft 2020-12), ending in a newline; `schema/kpps-1.json`
/// is this text.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("$id".to_owned(), "urn:kpps:schema:1".into());
    schema.insert("title".to_owned(), "kpps results, version 1".into());
    format!("{:#}\n", schema.as_value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn readers_are_told_what_limits_points() {
        let point = |offered_pps, ceiling_pps, error_ns| Point {
            offered_pps,
            ceiling_pps,
            latency_ns: Latency { error_ns, ..Latency::default() },
            ..Point::default()
        };
        let points = [point(1e5, Some(2e5), None), point(1e5, None, None)];
        assert_eq!(remarks(points.iter()), [""; 0]);
        let points =
            [point(3e5, Some(2e5), Some(1500)), point(4e5, Some(1.9e5), Some(9000)), points[0].clone()];
        let [sender, clocks] = &remarks(points.iter())[..] else { panic!("two remarks") };
        assert!(sender.contains("190.0 kpps") && sender.contains("2 loads"), "{sender}");
        assert!(clocks.contains("±9.0 µs"), "{clocks}");
    }

    #[test]
    fn an_environment_says_what_it_knows() {
        let of = |words: [&str; 4]| {
            let [chip, bus, host, stack] = words.map(str::to_owned);
            Environment { chip, bus, host, stack, ..Environment::default() }.parts()
        };
        assert_eq!(of(["82543", "PCI", "PIII", "Linux"]), "82543 on PCI, PIII, Linux");
        assert_eq!((of(["", "", "", "Linux"]), of([""; 4])), ("Linux".to_owned(), String::new()));
        let usual =
            Environment { size_bytes_without_fcs: 60, frame_bytes_with_fcs: 64, ..Environment::default() };
        assert_eq!(usual.frames(), "64 B (60 B without FCS)");
        let mix = Some(crate::trial::Mix { name: "64:1,128:1".into(), mean_bytes_with_fcs: 96.0 });
        let mixed = Environment { mix, traffic: Some("5 flows".into()), both_ways: true, ..usual };
        assert_eq!(mixed.frames(), "64:1,128:1 B with FCS (96.0 B in the mean), 5 flows, both ways");
    }

    #[test]
    fn a_ledger_closes_when_each_packet_is_somewhere() {
        let mut ledger = Ledger {
            sent: 100,
            unsent: 7,
            delivered: 60,
            dropped: [("ring".to_owned(), 20), ("fifo".to_owned(), 15)].into(),
            in_flight: 5,
            in_flight_at: [("wire".to_owned(), 5)].into(),
        };
        assert!(ledger.closes());
        assert_eq!(ledger.dropped_total(), 35);
        assert_eq!(ledger.losses(), [("fifo", 15), ("ring", 20), (NOT_SENT, 7)]);
        ledger.delivered = 61;
        assert!(!ledger.closes());
        assert_eq!(ledger.unexplained(), -1);
        ledger.delivered = 58;
        assert_eq!(ledger.losses().last(), Some(&(UNEXPLAINED, 2)));
        ledger.delivered = 60;
        ledger.in_flight_at.clear();
        assert!(!ledger.closes(), "those in flight must be somewhere too");
    }

    #[test]
    fn values_are_rounded_and_points_sorted() {
        let point = |offered_pps| Point {
            offered_pps,
            loss_ratio: 0.123_456_789,
            cpu_busy: f64::NAN,
            delivered_pps: -0.0,
            cpu: Cpu { empty_polls: 1.0 / 3.0, ..Cpu::default() },
            bus_busy: 2.0 / 3.0,
            allocations_per_packet: 1.0 / 3.0,
            registers_per_packet: Registers { read: 1.0 / 3.0, write: 2.0 / 3.0 },
            ..Point::default()
        };
        let series = Series { name: "a".into(), points: vec![point(1_488_095.238), point(10.04)] };
        let environment = Environment { line_rate_pps: 1_488_095.238_095, ..Environment::default() };
        let curve = Curve::new(environment, vec![series], true);
        assert_eq!(curve.environment.line_rate_pps, 1_488_095.2);
        let [first, second] = &curve.series[0].points[..] else { panic!("two points") };
        assert_eq!((first.offered_pps, second.offered_pps), (10.0, 1_488_095.2));
        assert_eq!((first.loss_ratio, first.cpu_busy), (0.123_457, 0.0));
        assert_eq!((first.cpu.empty_polls, first.bus_busy), (0.333_333, 0.666_667));
        assert_eq!(first.registers_per_packet, Registers { read: 0.3333, write: 0.6667 });
        assert_eq!(first.allocations_per_packet, 0.3333);
        assert!(first.delivered_pps.is_sign_positive());
    }

    proptest! {
        #[test]
        fn rounding_twice_changes_nothing(value in -1e7f64..1e7, scale in prop::sample::select(&[TENTHS, TEN_THOUSANDTHS, MILLIONTHS])) {
            let once = rounded_to(value, scale);
            prop_assert_eq!(rounded_to(once, scale), once);
            prop_assert!((once - value).abs() <= 0.51 / scale);
        }
    }

    #[test]
    fn another_schema_is_refused() {
        let curve = Curve::new(Environment::default(), vec![], true);
        let json = curve.to_json().unwrap_or_default();
        assert!(Curve::from_json(&json).is_ok_and(|back| back == curve));
        assert!(Curve::from_json(&json.replace("kpps/1", "kpps/2")).is_err());
    }
}
