//! Throughput over frame sizes, and the other tests of RFC 2544.

mod page;

pub use page::{rfc2544 as page, sizes as sizes_page};

use crate::ndr::{Ndr, SearchTrial};
use crate::{Latency, Schema, clock_error};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The kind of [`Sizes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SizesKind {
    /// A search for each frame size.
    #[default]
    Sizes,
}

/// What was found at each frame size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: SizesKind,
    /// The version of kpps.
    pub kpps_version: String,
    /// A search for each size, in the order in which they were asked for.
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
    /// The version of kpps.
    pub kpps_version: String,
    /// What was measured.
    pub testbed: Vec<String>,
    /// Frames were offered in both directions.
    pub both_ways: bool,
    /// What was found at each size.
    pub sizes: Vec<SizeTests>,
    /// Tests that were not made, and why; and where trials were shorter or fewer than RFC 2544 asks for.
    pub departures: Vec<String>,
    /// Every test that was asked for is there.
    pub complete: bool,
    /// What failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What was found at one frame size. A test that was not made is null, or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeTests {
    /// Size of each frame in bytes with FCS.
    pub frame_bytes_with_fcs: u32,
    /// The highest load that was tried, in frames per second: line rate, if it was not asked for less.
    pub max_pps: f64,
    /// Throughput (26.1): the search for the highest load without loss.
    pub throughput: Option<Ndr>,
    /// Latency (26.2), at shares of the throughput.
    pub latency: Vec<LatencyAt>,
    /// Frame loss rate (26.3), from the highest load down.
    pub frame_loss: Vec<SearchTrial>,
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
    pub trials: Vec<SearchTrial>,
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
    /// The longest burst that was tried, in frames: nothing is known beyond.
    pub most_frames: u64,
    /// How long the mean burst lasts, in s: the implied buffer time.
    pub implied_s: f64,
    /// Less what was forwarded meanwhile (RFC 9004): the corrected buffer time, in s.
    pub corrected_s: f64,
}

/// Times that a system took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// The load from which it had to recover, or that was on when it was reset, in frames per second.
    pub load_pps: f64,
    /// How long it took each time, in s.
    pub seconds: Vec<f64>,
    /// Their mean, in s.
    pub mean_s: f64,
}

/// Frames per second in thousands.
fn kpps(pps: Option<f64>) -> String {
    pps.map_or("-".into(), |pps| format!("{:.1}", pps / 1e3))
}

/// Megabits per second of frames: on layer 2, and with preamble and gap.
fn mbps(pps: Option<f64>, frame_bytes_with_fcs: f64) -> [String; 2] {
    /// Preamble, start of frame, gap between frames.
    const BETWEEN: f64 = 20.0;
    [frame_bytes_with_fcs, frame_bytes_with_fcs + BETWEEN]
        .map(|bytes| pps.map_or("-".into(), |pps| format!("{:.1}", pps * bytes * 8.0 / 1e6)))
}

impl Ndr {
    /// The size in bytes with FCS, or the mix, as it is typed.
    pub fn sizes_name(&self) -> String {
        self.mix.as_ref().map_or_else(|| self.frame_bytes_with_fcs.to_string(), |mix| mix.name.clone())
    }

    /// The mean size in bytes with FCS.
    pub fn mean_bytes_with_fcs(&self) -> f64 {
        self.mix.as_ref().map_or(self.frame_bytes_with_fcs.into(), |mix| mix.mean_bytes_with_fcs)
    }

    /// The largest load at which a goal is met.
    pub fn lower_pps(&self, goal: &str) -> Option<f64> {
        self.goals.iter().find(|it| it.name == goal)?.lower_pps
    }
}

impl Sizes {
    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// None for numbers that are finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }

    /// What a person at a terminal sees.
    pub fn screen(&self) -> String {
        let mut text = String::new();
        let Some(first) = self.sizes.first() else { return "nothing was measured\n".into() };
        let _ = writeln!(text, "{}\n", first.testbed.join(" and "));
        let _ = writeln!(
            text,
            "{:>9} {:>22} {:>22} {:>10} {:>10} {:>10} {:>10}",
            "size", "NDR, kpps", "PDR, kpps", "MRR, kpps", "of most, %", "L2, Mb/s", "L1, Mb/s"
        );
        for search in &self.sizes {
            let bounds = |name: &str| {
                let goal = search.goals.iter().find(|goal| goal.name == name);
                let (lower, upper) = goal.map_or((None, None), |goal| (goal.lower_pps, goal.upper_pps));
                match upper {
                    Some(_) => format!("{} to {}", kpps(lower), kpps(upper)),
                    None => kpps(lower),
                }
            };
            let ndr = search.lower_pps("NDR");
            let [l2, l1] = mbps(ndr, search.mean_bytes_with_fcs());
            let _ = writeln!(
                text,
                "{:>9} {:>22} {:>22} {:>10} {:>10} {l2:>10} {l1:>10}{}",
                search.sizes_name(),
                bounds("NDR"),
                bounds("PDR"),
                kpps(search.mrr_pps),
                ndr.map_or("-".into(), |ndr| format!("{:.1}", 100.0 * ndr / search.max_pps)),
                if search.complete { "" } else { "  not finished" }
            );
        }
        let trials: usize = self.sizes.iter().map(|search| search.trials.len()).sum();
        let seconds: f64 = self.sizes.iter().map(|search| search.measured_s).sum();
        let _ = writeln!(
            text,
            "\nsizes in bytes with FCS; Mb/s at the NDR; {trials} trials, {seconds:.1} s of load{}",
            if first.both_ways { ", each way" } else { "" }
        );
        let timed = self.sizes.iter().flat_map(|search| &search.trials);
        if let Some(clocks) = clock_error(timed.map(|trial| trial.latency_ns)) {
            let _ = writeln!(text, "{clocks}");
        }
        text
    }
}

impl SizeTests {
    /// The size in bytes with FCS, or the mix, as it is typed.
    pub fn sizes_name(&self) -> String {
        let size = self.frame_bytes_with_fcs;
        self.throughput.as_ref().map_or_else(|| size.to_string(), Ndr::sizes_name)
    }
}

impl Rfc2544 {
    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// None for numbers that are finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }

    /// What a person at a terminal sees.
    pub fn screen(&self) -> String {
        let mut text = format!("{}\n", self.testbed.join(" and "));
        for tests in &self.sizes {
            let size = tests.sizes_name();
            let _ =
                writeln!(text, "\nframes of {size} B with FCS, at most {} kpps", kpps(Some(tests.max_pps)));
            if let Some(search) = &tests.throughput {
                let found = search.lower_pps("throughput");
                let [l2, l1] = mbps(found, search.mean_bytes_with_fcs());
                let _ = writeln!(
                    text,
                    "  throughput    {} kpps; {l2} Mb/s on layer 2, {l1} with preamble and gap",
                    kpps(found)
                );
            }
            for at in &tests.latency {
                let us = |ns: Option<u64>| ns.map_or("-".into(), |ns| format!("{:.1}", ns as f64 / 1e3));
                let Latency { p50, p99, p999, max, .. } = at.latency_ns;
                let _ = writeln!(
                    text,
                    "  latency       at {:>3.0} %: median {} us, 99 % {}, 99.9 % {}, longest {}; mean of {} trials",
                    at.share * 100.0,
                    us(p50),
                    us(p99),
                    us(p999),
                    us(max),
                    at.trials.len()
                );
            }
            for trial in &tests.frame_loss {
                let _ = writeln!(
                    text,
                    "  frame loss    {:>8.1} kpps: {} of {} lost, {:.4} %{}",
                    trial.load_pps / 1e3,
                    trial.sent + trial.unsent - trial.delivered.min(trial.sent),
                    trial.sent + trial.unsent,
                    trial.loss_ratio * 100.0,
                    match trial.unsent {
                        0 => String::new(),
                        unsent => format!(", {unsent} of them never sent"),
                    }
                );
            }
            if let Some(found) = &tests.back_to_back {
                let (least, most) = (found.frames.iter().min(), found.frames.iter().max());
                let bound = if most == Some(&found.most_frames) { " (the longest tried)" } else { "" };
                let _ = writeln!(
                    text,
                    "  back-to-back  {:.0} frames at {} kpps{bound}, {} to {} in {} tests; buffer {:.3} ms, corrected {:.3} ms",
                    found.mean_frames,
                    kpps(Some(found.pps)),
                    least.copied().unwrap_or(0),
                    most.copied().unwrap_or(0),
                    found.frames.len(),
                    found.implied_s * 1e3,
                    found.corrected_s * 1e3
                );
            }
            for (name, times) in [("recovery", &tests.recovery), ("reset", &tests.reset)] {
                if let Some(times) = times {
                    let _ = writeln!(
                        text,
                        "  {name:<12}  {:.3} ms from {} kpps, mean of {}",
                        times.mean_s * 1e3,
                        kpps(Some(times.load_pps)),
                        times.seconds.len()
                    );
                }
            }
        }
        let timed = self.sizes.iter().flat_map(|tests| &tests.latency);
        if let Some(clocks) = clock_error(timed.map(|at| at.latency_ns)) {
            let _ = write!(text, "\n{clocks}\n");
        }
        for departure in &self.departures {
            let _ = write!(text, "\n{departure}");
        }
        if !self.departures.is_empty() {
            text.push('\n');
        }
        text
    }
}
