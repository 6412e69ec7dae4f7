//! Flows: their frames, rates and times.

use super::headers::{stack, with_udp_checksum};
use super::legs::Leg;
use super::node::{Bad, Node};
use super::tags::Tags;
use kpps_frames::arithmetic::{common_divisor, common_multiple};
use kpps_frames::stack::{BadStack, Stack};
use kpps_frames::{Mix, Size, rate};
use kpps_methods::units::RateSpec;
use kpps_ports::port::run::Shape;
use kpps_tester::Stream;
use std::time::Duration;

/// Bytes between two frames on a wire: the models' smallest gap, and the only supported one.
const GAP_BYTES: u64 = 12;
/// The scale of the weights of sizes, which may be fractions.
const WEIGHT_SCALE: f64 = 100.0;
/// The most frames after which the sizes of a flow repeat.
const MOST_SIZES: u64 = 200_000;
/// The most sizes of the streams of a flow that has several.
const MOST_DIVIDED_SIZES: u64 = 1 << 18;
/// The longest delay or duration.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// The frames and times of a flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Its metric tags.
    pub tags: Tags,
    stack: Stack,
    sizes: Mix,
    load: RateSpec,
    length: Length,
    start: Pause,
    /// The metrics that it has.
    pub metrics: Metrics,
}

/// The metrics of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Whether it has any.
    pub is_enabled: bool,
    /// The share of lost frames.
    pub has_loss: bool,
    /// Frames that should arrive for each frame that is sent.
    pub expected_ratio: f64,
    /// When the first and the last frame arrived.
    pub has_timestamps: bool,
    /// Times from sending to receiving.
    pub has_latency: bool,
}

/// How long a flow is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    Frames(u64),
    Time(Duration),
    /// Bursts of this many frames with this pause between them, and their number if it is limited.
    Bursts(u64, Pause, Option<u64>),
    Endless,
}

/// A time, or the time that bytes take on the link.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pause {
    Bytes(f64),
    Ns(f64),
}

impl Pause {
    fn seconds(self, bits_per_s: u64) -> f64 {
        match self {
            Self::Bytes(bytes) => bytes * 8.0 / bits_per_s as f64,
            Self::Ns(ns) => ns / 1e9,
        }
    }
}

impl Flow {
    /// Reads a flow, without its ends.
    ///
    /// # Errors
    /// The place and what is wrong.
    pub fn read(node: &Node<'_>, warn: &mut dyn FnMut(Bad)) -> Result<Self, Bad> {
        let mut stack = stack(node)?;
        let summed = with_udp_checksum(node, &stack);
        // Without a size it is the smallest one for all that the flow asks for.
        let (sizes, smallest) = match &summed {
            Some(summed) if !node.child("size").is_present() => sizes_for(node, summed)?,
            _ => sizes_for(node, &stack)?,
        };
        match summed {
            Some(other) if other.least() <= smallest => stack = other,
            Some(other) => warn(node.bad_at(
                "size",
                format!(
                    "the frames have no UDP checksum: give at least {} bytes for one",
                    other.least().bytes_with_fcs()
                ),
            )),
            None => {}
        }
        let (length, start) = length(&node.child("duration"))?;
        let metrics = node.child("metrics");
        let tags = Tags::read(node)?;
        Ok(Self {
            name: node.needed("name")?.to_owned(),
            tags,
            stack,
            sizes,
            load: load(&node.child("rate"))?,
            length,
            start,
            metrics: Metrics {
                is_enabled: metrics.flag("enable"),
                has_loss: metrics.flag("loss"),
                expected_ratio: expected_ratio(&metrics.child("rx_tx_ratio"))?,
                has_timestamps: metrics.flag("timestamps"),
                has_latency: metrics.child("latency").flag("enable"),
            },
        })
    }

    /// The number of values of header fields, and of sizes, that it keeps in memory.
    pub fn listed(&self) -> usize {
        self.stack.listed() + self.sizes.parts().len()
    }

    /// Its sizes.
    pub fn sizes(&self) -> &Mix {
        &self.sizes
    }

    /// The same flow with the rate of another, or its sizes.
    ///
    /// # Errors
    /// The place and what is wrong.
    pub fn updated(mut self, node: &Node<'_>, property: &str) -> Result<Self, Bad> {
        match property {
            "rate" => self.load = load(&node.child("rate"))?,
            _ => (self.sizes, _) = sizes_for(node, &self.stack)?,
        }
        Ok(self)
    }

    /// The frames of each of its legs.
    ///
    /// # Errors
    /// The place and what is wrong.
    pub fn parts(&self, node: &Node<'_>, legs: &[Leg]) -> Result<Vec<(Stack, Mix)>, Bad> {
        if let Length::Bursts(frames, ..) = self.length
            && !legs.iter().all(|leg| leg.divides(frames))
        {
            return Err(node.child("duration").child("burst").bad_at(
                "packets",
                format!("{frames} cannot be divided evenly among its pairs of stations and metric tags"),
            ));
        }
        let period: u64 = self.sizes.parts().iter().map(|part| u64::from(part.1)).sum();
        let turns = legs.first().map_or(1, Leg::all_turns);
        let divided = common_multiple(period, turns);
        if legs.len() > 1 && self.sizes.only().is_none() && divided > MOST_DIVIDED_SIZES {
            let why = "its sizes repeat after too many frames for its metric tags and pairs of stations";
            return Err(node.bad_at("size", why));
        }
        let period = self.sizes.period();
        let part = |leg: &Leg| {
            let part = leg.part(&self.stack, (&self.sizes, &period));
            let why = "its fields have too many values for its metric tags and pairs of stations";
            part.ok_or_else(|| node.bad_at("packet", why))
        };
        legs.iter().map(part).collect()
    }

    /// Its stream of this name on a leg, on a link of this speed in bit/s. The rate of a flow, its frames and
    /// its bursts are those of all legs of a direction together. `part`: the leg's [frames](Self::parts).
    /// `None`: the leg has no frame.
    pub fn stream(&self, name: String, leg: &Leg, part: &(Stack, Mix), bits_per_s: u64) -> Option<Stream> {
        let [from, to] = leg.ports;
        let line_pps = self.sizes.line_rate_pps(bits_per_s);
        let all_pps = self.load.pps(line_pps, self.sizes.mean_bytes_with_fcs());
        let pps = all_pps * leg.share();
        let (mut shape, mut load_pps, mut duration, mut count) = (Shape::Constant, pps, None, None);
        match self.length {
            Length::Frames(frames) => count = Some(leg.frames(frames)),
            Length::Time(time) => duration = Some(time),
            Length::Bursts(frames, pause, bursts) => {
                let frames = leg.frames(frames);
                let gap = Duration::try_from_secs_f64(1.0 / pps).unwrap_or(LONGEST);
                shape = Shape::SpacedBursts(frames, gap);
                // The mean rate of bursts that take their time at the flow's rate, and the pauses.
                load_pps = frames as f64 / (frames as f64 / pps + pause.seconds(bits_per_s));
                count = bursts.map(|bursts| bursts.saturating_mul(frames));
            }
            Length::Endless => {}
        }
        let turn_s = leg.first_turn() as f64 / all_pps;
        let start_s = self.start.seconds(bits_per_s) + turn_s;
        let (stack, sizes) = part;
        let stream = Stream {
            name,
            from,
            to,
            stack: stack.clone(),
            sizes: sizes.clone(),
            load: RateSpec::Pps(load_pps),
            shape,
            start: Duration::try_from_secs_f64(start_s).unwrap_or(LONGEST),
            phase: 0.0,
            probe: false,
            priority: 0,
            duration,
            count,
        };
        (count != Some(0)).then_some(stream)
    }
}

/// Bytes of the first `frames` frames of these sizes, with FCS.
pub fn bytes_of(sizes: &Mix, frames: u64) -> u64 {
    if let Some(size) = sizes.only() {
        return frames.saturating_mul(size.bytes_with_fcs().into());
    }
    let period = sizes.period();
    let sum = |sizes: &[Size]| sizes.iter().map(|size| u64::from(size.bytes_with_fcs())).sum::<u64>();
    let count = period.len() as u64;
    let rest = period.get(..(frames % count.max(1)) as usize).unwrap_or_default();
    (frames / count.max(1)).saturating_mul(sum(&period)).saturating_add(sum(rest))
}

/// Frames that should arrive for each frame that is sent. A flow has one receiving port.
fn expected_ratio(node: &Node<'_>) -> Result<f64, Bad> {
    if node.choice("value")? == "rx_count" {
        return Ok(1.0);
    }
    let ratio = node.float("value").unwrap_or(1.0);
    match ratio > 0.0 && ratio <= 1e6 {
        true => Ok(ratio),
        false => Err(node.bad_at("value", format!("{ratio}: give a number above 0, at most 1000000"))),
    }
}

/// How long a stream lasts from its trial's beginning, in s; `None` without an end.
pub fn seconds(stream: &Stream) -> Option<f64> {
    let of_count = stream.count.map(|count| count as f64 / stream.pps());
    let of_time = stream.duration.map(|time| time.as_secs_f64());
    let length = match (of_count, of_time) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    Some(length? + stream.start.as_secs_f64())
}

/// These sizes once each, in an order in which large and small ones alternate: any number of frames in a row
/// has about the mean of all.
fn mixed(sizes: &[Size]) -> Vec<Size> {
    let count = sizes.len();
    // Steps of the golden section reach each place once if step and count have no common divisor.
    let divides = |step: usize| (2..=step).any(|it| step.is_multiple_of(it) && count.is_multiple_of(it));
    let golden = (count as f64 * 0.618) as usize;
    let step = (1..=golden.max(1)).rev().find(|step| !divides(*step)).unwrap_or(1);
    (0..count).filter_map(|n| sizes.get(n * step % count).copied()).collect()
}

/// The sizes of a flow with these headers, and the smallest one.
fn sizes_for(flow: &Node<'_>, stack: &Stack) -> Result<(Mix, Size), Bad> {
    let sizes = sizes(flow, stack.least())?;
    let smallest = sizes.parts().iter().map(|part| part.0).min().unwrap_or(Size::MIN);
    match smallest < stack.least() {
        true => {
            let (size, least) = (smallest.bytes_with_fcs(), stack.least().bytes_with_fcs());
            Err(flow.bad_at("size", BadStack::Small(size, least)))
        }
        false => Ok((sizes, smallest)),
    }
}

/// The sizes of a flow. Without a size they are those that the models give, or the smallest for its headers.
fn sizes(flow: &Node<'_>, least: Size) -> Result<Mix, Bad> {
    let node = flow.child("size");
    let size = |bytes: u64, node: &Node<'_>, field: &str| {
        let (smallest, largest) = (Size::MIN.bytes_with_fcs(), Size::MAX.bytes_with_fcs());
        match u32::try_from(bytes).ok().filter(|bytes| (smallest..=largest).contains(bytes)) {
            Some(bytes) => Ok(Size::with_fcs(bytes as u16)),
            None => Err(node.bad_at(field, format!("{bytes} bytes: give {smallest} to {largest}, with FCS"))),
        }
    };
    let range = |node: &Node<'_>, [first, last]: [&str; 2], step: u64, is_mixed: bool| {
        let [low, high] = [(first, 64), (last, 1518)].map(|(field, usual)| {
            let bytes = node.uint(field).unwrap_or(usual);
            size(bytes, node, field).map(|size| u64::from(size.bytes_with_fcs()))
        });
        let (low, high) = (low?, high?);
        if low > high || step == 0 {
            return Err(node.bad(format!("{first} is larger than {last}, or the step is 0")));
        }
        let all: Vec<_> =
            (low..=high).step_by(step as usize).map(|bytes| Size::with_fcs(bytes as u16)).collect();
        let all = if is_mixed { mixed(&all) } else { all };
        Mix::in_order(format!("{low} to {high}"), all).ok_or_else(|| node.bad("there is no size"))
    };
    match node.choice("fixed")? {
        "fixed" => match node.uint("fixed") {
            Some(bytes) => Ok(Mix::fixed(size(bytes, &node, "fixed")?)),
            None => Ok(Mix::fixed(least.max(Size::MIN))),
        },
        "increment" => {
            let node = node.child("increment");
            range(&node, ["start", "end"], node.uint("step").unwrap_or(1), false)
        }
        "random" => range(&node.child("random"), ["min", "max"], 1, true),
        _ => weighted(&node.child("weight_pairs"), &size),
    }
}

/// Sizes with weights, which may be fractions. Sizes of the models that are below the smallest are sent as
/// the smallest.
fn weighted(node: &Node<'_>, size: &dyn Fn(u64, &Node<'_>, &str) -> Result<Size, Bad>) -> Result<Mix, Bad> {
    let mut pairs: Vec<(Size, f64)> = Vec::new();
    let name = match node.choice("predefined")? {
        "predefined" => {
            let name = node.text("predefined").unwrap_or("imix");
            let known: &[(u16, f64)] = match name {
                "ipsec_imix" => &[(90, 58.67), (92, 2.0), (594, 23.66), (1418, 15.67)],
                "ipv6_imix" => &[(64, 58.67), (496, 2.0), (594, 23.66), (1518, 15.67)],
                "standard_imix" => &[(64, 60.67), (594, 23.66), (1518, 15.67)],
                "tcp_imix" => &[(90, 58.67), (92, 2.0), (594, 23.66), (1518, 15.67)],
                _ => &[(64, 7.0), (570, 4.0), (1518, 1.0)],
            };
            pairs.extend(known.iter().map(|(bytes, weight)| (Size::with_fcs(*bytes), *weight)));
            name.to_owned()
        }
        _ => {
            for pair in node.children("custom") {
                let weight = pair.float("weight").unwrap_or(1.0);
                if !(weight > 0.0 && weight <= 1e6) {
                    return Err(
                        pair.bad_at("weight", format!("{weight}: give a number above 0, at most 1000000"))
                    );
                }
                pairs.push((size(pair.uint("size").unwrap_or(64), &pair, "size")?, weight));
            }
            "custom".to_owned()
        }
    };
    let weights: Vec<u64> =
        pairs.iter().map(|(_, weight)| ((weight * WEIGHT_SCALE).round() as u64).max(1)).collect();
    let divisor = weights.iter().fold(0, |a, b| common_divisor(a, *b)).max(1);
    let total: u64 = weights.iter().map(|weight| weight / divisor).sum();
    if total > MOST_SIZES {
        return Err(node.bad(format!("the weights together are above {MOST_SIZES} hundredths")));
    }
    let frames = pairs
        .iter()
        .zip(&weights)
        .flat_map(|((size, _), weight)| std::iter::repeat_n(*size, (weight / divisor) as usize));
    Mix::of_frames(name, frames).ok_or_else(|| node.bad("there is no size"))
}

/// The rate of a flow. Bits are those of layer 1: the models' least rate of 672 bit/s is one smallest frame
/// with preamble and gap.
fn load(node: &Node<'_>) -> Result<RateSpec, Bad> {
    let choice = node.choice("pps")?;
    let number = |usual: f64| node.float(choice).unwrap_or(usual);
    let (load, most) = match choice {
        "pps" => (RateSpec::Pps(number(1000.0)), 1e12),
        "bps" => (RateSpec::L1(number(1e9)), 1e12),
        "kbps" => (RateSpec::L1(number(1e6) * 1e3), 1e9),
        "mbps" => (RateSpec::L1(number(1e3) * 1e6), 1e6),
        "gbps" => (RateSpec::L1(number(1.0) * 1e9), 1e3),
        _ => (RateSpec::Percent(number(100.0)), 100.0),
    };
    let rate = number(1.0);
    match rate > 0.0 && rate <= most {
        true => Ok(load),
        false => Err(node.bad_at(choice, format!("{rate}: give a number above 0, at most {most}"))),
    }
}

/// How long a flow is sent, and when it begins.
fn length(node: &Node<'_>) -> Result<(Length, Pause), Bad> {
    let choice = node.choice("continuous")?;
    let of = node.child(choice);
    if let Some(gap) = of.uint("gap").filter(|gap| *gap != GAP_BYTES) {
        return Err(of.bad_at("gap", format!("{gap}: only {GAP_BYTES} bytes between frames are supported")));
    }
    let pause = |node: Node<'_>, usual: f64| {
        let choice = node.choice("bytes")?;
        let number = node.float(choice).unwrap_or(usual);
        let pause = match choice {
            "nanoseconds" => Pause::Ns(number),
            "microseconds" => Pause::Ns(number * 1e3),
            _ => Pause::Bytes(number),
        };
        match number >= 0.0 && pause.seconds(rate::GIGABIT) <= LONGEST.as_secs_f64() {
            true => Ok(pause),
            false => Err(node.bad_at(choice, format!("{number}: give a number from 0 on, at most 30 days"))),
        }
    };
    let packets = |field: &str| match of.uint(field).unwrap_or(1) {
        0 => Err(of.bad_at(field, "0: give at least 1")),
        packets => Ok(packets),
    };
    let length = match choice {
        "fixed_packets" => Length::Frames(packets("packets")?),
        "fixed_seconds" => {
            let seconds = of.float("seconds").unwrap_or(1.0);
            let time = Duration::try_from_secs_f64(seconds).ok();
            let time = time.filter(|time| !time.is_zero() && *time <= LONGEST);
            Length::Time(time.ok_or_else(|| {
                of.bad_at("seconds", format!("{seconds}: give a number above 0, at most 30 days"))
            })?)
        }
        "burst" => {
            let gap = pause(of.child("inter_burst_gap"), GAP_BYTES as f64)?;
            Length::Bursts(packets("packets")?, gap, of.uint("bursts").filter(|bursts| *bursts > 0))
        }
        _ => Length::Endless,
    };
    Ok((length, pause(of.child("delay"), 0.0)?))
}
