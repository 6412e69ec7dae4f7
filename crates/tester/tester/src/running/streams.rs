//! The streams of a trial, as a file describes them.

use crate::error::Error;
use crate::running::shape::shape;
use kpps_frames::edits::Combine;
use kpps_frames::ethernet::VLAN_BYTES;
use kpps_frames::pattern::{MOST_VALUES, Pattern};
use kpps_frames::rate::Rate;
use kpps_frames::stack::{BadStack, Stack};
use kpps_frames::{Mix, Size, rate};
use kpps_methods::units::{self, RateSpec};
use kpps_ports::port::run::{PRIORITIES, Shape};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// The most streams from a port. All ports together have twice as many at most.
pub const MOST_STREAMS: usize = 10_000;
/// The most streams of a trial, with those that are added: their numbers in the tags have 16 bits.
pub const MOST_STREAMS_OF_TRIAL: usize = 1 << 16;
/// The most ports of a trial.
pub const MOST_PORTS: usize = 16;

/// A stream of a trial: frames with their own headers, at their own rate and time.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its name in results.
    pub name: String,
    /// The index of the port that sends it.
    pub from: usize,
    /// The index of the port that receives it.
    pub to: usize,
    /// Its headers.
    pub stack: Stack,
    /// The sizes of its frames.
    pub sizes: Mix,
    /// Its rate.
    pub load: RateSpec,
    /// The distribution of its gaps.
    pub shape: Shape,
    /// When it begins, since the beginning of the trial.
    pub start: Duration,
    /// The part of a gap by which it begins later, 0 to 1.
    pub phase: f64,
    /// How long it sends; `None`: until the trial ends.
    pub duration: Option<Duration>,
    /// The most frames.
    pub count: Option<u64>,
    /// Whether its rate is no part of the load: it is the same whatever the load is.
    pub probe: bool,
    /// Of the frames of a port that are due at the same time, those of streams with a higher priority are
    /// sent first, and left out last; 0 to 7.
    pub priority: u8,
}

impl Stream {
    /// Checks that it goes from one of this number of ports to another.
    ///
    /// # Errors
    /// [`Error::NoSuchPorts`].
    pub(crate) fn check_ports(&self, ports: usize) -> Result<(), Error> {
        let (name, from, to) = (&self.name, self.from, self.to);
        match from.max(to) >= ports || from == to {
            true => Err(Error::NoSuchPorts { name: name.clone(), from: from + 1, to: to + 1, ports }),
            false => Ok(()),
        }
    }

    /// Its rate in frames per second, with a gigabit link if the load is a share of one
    /// ([`on_link`](Self::on_link)).
    pub fn pps(&self) -> f64 {
        let line_pps = self.sizes.line_rate_pps(rate::GIGABIT);
        self.load.pps(line_pps, self.sizes.mean_bytes_with_fcs())
    }

    /// The length of its longest frame as the MTU of an interface counts it: bytes without FCS, and without a
    /// VLAN tag behind the stations.
    pub fn longest(&self) -> usize {
        let sizes = self.sizes.parts().iter();
        let longest = sizes.map(|part| usize::from(part.0.bytes_without_fcs())).max();
        longest.unwrap_or(0).saturating_sub(if self.stack.begins_with_vlan() { VLAN_BYTES } else { 0 })
    }

    /// The same stream with a rate in frames per second, on a link of this speed in bit/s.
    #[must_use]
    pub fn on_link(mut self, bits_per_s: u64) -> Self {
        let line_pps = self.sizes.line_rate_pps(bits_per_s);
        self.load = RateSpec::Pps(self.load.pps(line_pps, self.sizes.mean_bytes_with_fcs()));
        self
    }
}

/// The streams whose rates add up to the load: those from the first port that sends any. Probes are no part
/// of it.
fn of_load(streams: &[Stream]) -> impl Iterator<Item = &Stream> {
    let parts = streams.iter().filter(|stream| !stream.probe);
    let from = parts.clone().map(|stream| stream.from).min();
    parts.filter(move |stream| Some(stream.from) == from)
}

/// The load of streams in frames per second: the sum of the rates of those from the first port that sends
/// any.
pub fn streams_pps(streams: &[Stream]) -> f64 {
    of_load(streams).map(Stream::pps).sum()
}

/// Each stream with its rate in frames per second, where all together have this load.
pub(crate) fn at_load(streams: &[Stream], load: Rate) -> impl Iterator<Item = (&Stream, f64)> {
    let factor = match (load, streams_pps(streams)) {
        (Rate::Pps(pps), all) if all > 0.0 => pps / all,
        _ => 1.0,
    };
    streams.iter().map(move |stream| (stream, stream.pps() * if stream.probe { 1.0 } else { factor }))
}

/// Refuses probes beside as many frames as possible.
///
/// # Errors
/// [`Error::NoProbes`].
pub(crate) fn check_probes(streams: &[Stream], load: Rate) -> Result<(), Error> {
    match load == Rate::Max && streams.iter().any(|stream| stream.probe) {
        true => Err(Error::NoProbes),
        false => Ok(()),
    }
}

/// The load at which the streams from one port fill a link of this speed in bit/s, in frames per second.
pub(crate) fn streams_line_pps(streams: &[Stream], bits_per_s: u64) -> f64 {
    let bits = |from: usize, probe: bool| -> f64 {
        let of = streams.iter().filter(|stream| stream.from == from && stream.probe == probe);
        of.map(|stream| stream.sizes.l1_bits_per_s(stream.pps())).sum()
    };
    // Probes leave the rest of the link to the load.
    let most = |from: usize| {
        (bits_per_s as f64 - bits(from, true)).max(0.0) / bits(from, false).max(f64::MIN_POSITIVE)
    };
    let senders: BTreeSet<_> = streams.iter().map(|stream| stream.from).collect();
    streams_pps(streams) * senders.into_iter().map(most).fold(f64::INFINITY, f64::min)
}

/// The sizes of the frames of the streams whose rates add up to the load. `None` without streams.
pub fn sizes_of_streams(streams: &[Stream]) -> Option<Mix> {
    sizes_of(of_load(streams).map(|stream| (stream, stream.pps())))
}

/// The streams of a full mesh of ports (RFC 2889, 5.1): each sends frames of these sizes to all others in
/// turn, the first to the next port. All have the same rate.
pub fn full_mesh(ports: usize, sizes: &Mix, is_ipv4: bool) -> Vec<Stream> {
    let names = ["ethernet", if is_ipv4 { "ipv4" } else { "ipv6" }, "udp"];
    let Ok(stack) = Stack::read(&names.join("/")) else { return Vec::new() };
    let others = ports.saturating_sub(1);
    let stream = |from: usize, turn: usize| {
        let to = (from + 1 + turn) % ports;
        Stream {
            name: format!("port {} to port {}", from + 1, to + 1),
            from,
            to,
            stack: stack.clone(),
            sizes: sizes.clone(),
            load: RateSpec::Pps(1.0),
            shape: Shape::Constant,
            start: Duration::ZERO,
            phase: turn as f64 / others as f64,
            duration: None,
            count: None,
            probe: false,
            priority: 0,
        }
    };
    (0..ports)
        .flat_map(|from| (0..others).map(move |turn| (from, turn)))
        .map(|(from, turn)| stream(from, turn))
        .collect()
}

/// A file of streams.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    stream: Vec<Described>,
}

/// A stream in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: Option<String>,
    from: Option<u8>,
    to: Option<u8>,
    headers: Option<String>,
    size: Option<toml::Value>,
    load: String,
    shape: Option<String>,
    start: Option<String>,
    duration: Option<String>,
    count: Option<u64>,
    #[serde(default)]
    probe: bool,
    #[serde(default)]
    priority: i64,
    combine: Option<String>,
    #[serde(default)]
    fields: toml::Table,
    copies: Option<u32>,
    #[serde(default)]
    each: toml::Table,
}

/// Reads a file of streams between this number of ports.
///
/// # Errors
/// The mistake and its place, in one line.
pub fn read_streams(path: &Path, ports: usize) -> Result<Vec<Stream>, String> {
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|why| format!("cannot read {place}: {why}"))?;
    parse_streams(&text, ports).map_err(|why| format!("{place}: {why}"))
}

/// The streams between this number of ports that a text describes.
///
/// # Errors
/// The mistake and its place, in one line.
pub fn parse_streams(text: &str, ports: usize) -> Result<Vec<Stream>, String> {
    let file: File = toml::from_str(text).map_err(|why| in_one_line(&why, text))?;
    let (mut all, mut counts) = (Vec::new(), vec![0; ports]);
    for (n, described) in file.stream.iter().enumerate() {
        let name = described.name.clone().unwrap_or_else(|| format!("stream {}", n + 1));
        let copies = described.copies.unwrap_or(1);
        let wrong = |what: String| format!("stream {} ({name}): {what}", n + 1);
        if copies == 0 || copies as usize > MOST_STREAMS {
            return Err(wrong(format!("copies = {copies}: give 1 to {MOST_STREAMS}")));
        }
        let stack = described.stack().map_err(wrong)?;
        for copy in 0..copies {
            let mut stream = described.stream(&stack, copy, ports).map_err(wrong)?;
            // Copies begin one after the other within a gap, and chance is another one for each stream.
            stream.phase = f64::from(copy) / f64::from(copies);
            if let Shape::Poisson { seed } = &mut stream.shape {
                *seed = seed.wrapping_add(all.len() as u64);
            }
            stream.name =
                if described.copies.is_some() { format!("{name} {}", copy + 1) } else { name.clone() };
            counts[stream.from] += 1;
            if counts[stream.from] > MOST_STREAMS {
                return Err(format!(
                    "there are more than {MOST_STREAMS} streams from port {}",
                    stream.from + 1
                ));
            }
            all.push(stream);
            if all.len() > 2 * MOST_STREAMS {
                return Err(format!("there are more than {} streams", 2 * MOST_STREAMS));
            }
        }
    }
    if all.is_empty() {
        return Err("there is no stream: begin each with [[stream]]".into());
    }
    if all.iter().all(|stream| stream.probe) {
        return Err(
            "all streams are probes: give at least one without probe = true, which has the load".into()
        );
    }
    Ok(all)
}

/// An error of TOML with its line.
fn in_one_line(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or_else(String::new, |text| format!("line {}: ", text.matches('\n').count() + 1));
    format!("{line}{}", error.message().lines().collect::<Vec<_>>().join(" "))
}

impl Described {
    /// The headers, as they are in all copies.
    fn stack(&self) -> Result<Stack, String> {
        let headers = self.headers.as_deref().unwrap_or("ethernet/ipv4/udp");
        let mut stack = Stack::read(headers).map_err(|why| format!("headers: {why}"))?;
        for (name, value) in &self.fields {
            let pattern = pattern(&stack, name, value).map_err(|why| format!("fields: {why}"))?;
            stack.set(name, pattern).map_err(|why| format!("fields: {why}"))?;
        }
        Ok(stack)
    }

    /// The ports that send and receive it.
    fn direction(&self, ports: usize) -> Result<(usize, usize), String> {
        let numbers = if ports == 2 { "1 or 2".to_owned() } else { format!("1 to {ports}") };
        let port = |name: &str, number: u8, does: &str| match usize::from(number) {
            number if (1..=ports).contains(&number) => Ok(number - 1),
            other => Err(format!("{name}: {other}: give {numbers}, the port that {does}")),
        };
        let from = port("from", self.from.unwrap_or(1), "sends")?;
        let to = match self.to {
            Some(to) => port("to", to, "receives")?,
            None if ports == 2 => 1 - from,
            None => return Err(format!("to: give {numbers}, the port that receives")),
        };
        match from == to {
            true => Err(format!("to: {}: it is the port that sends: give another one", to + 1)),
            false => Ok((from, to)),
        }
    }

    /// The stream, or a copy of it.
    fn stream(&self, stack: &Stack, copy: u32, ports: usize) -> Result<Stream, String> {
        let key = |name: &str| {
            let name = name.to_owned();
            move |why: String| format!("{name}: {why}")
        };
        let mut stack = stack.clone();
        for (name, value) in &self.each {
            let value = pattern(&stack, name, value).map_err(key("each"))?.value(copy.into());
            stack.set(name, Pattern::one(value)).map_err(|why| format!("each: {why}"))?;
        }
        if self.copies.is_none() && !self.each.is_empty() {
            return Err("each has a value for each of several copies: give copies".into());
        }
        let combine = match self.combine.as_deref() {
            None | Some("lockstep") => Combine::Lockstep,
            Some("product") => Combine::Product,
            Some(other) => return Err(format!("combine: '{other}': give lockstep or product")),
        };
        let (from, to) = self.direction(ports)?;
        let sizes = match &self.size {
            None => Mix::fixed(stack.least().max(Size::MIN)),
            Some(toml::Value::Integer(bytes)) => units::sizes(&bytes.to_string()).map_err(key("size"))?,
            Some(toml::Value::String(text)) => units::sizes(text).map_err(key("size"))?,
            Some(_) => return Err("size: give bytes with FCS or a mix, as 64 or \"imix-csit\"".into()),
        };
        if let Some(small) = sizes.parts().iter().map(|part| part.0).find(|size| *size < stack.least()) {
            let (size, least) = (small.bytes_with_fcs(), stack.least().bytes_with_fcs());
            return Err(format!("size: {}", BadStack::Small(size, least)));
        }
        let load: RateSpec = self.load.parse().map_err(key("load"))?;
        if self.count == Some(0) {
            return Err("count: give at least 1 frame, or leave it out".into());
        }
        let time = |name: &str, text: &Option<String>| {
            text.as_deref().map(units::duration).transpose().map_err(key(name))
        };
        Ok(Stream {
            name: String::new(),
            from,
            to,
            stack: stack.combined(combine),
            sizes,
            load,
            shape: self.shape.as_deref().map_or(Ok(Shape::Constant), shape).map_err(key("shape"))?,
            start: time("start", &self.start)?.unwrap_or_default(),
            phase: 0.0,
            duration: time("duration", &self.duration)?,
            count: self.count,
            probe: self.probe,
            priority: match self.priority {
                priority if (0..PRIORITIES.into()).contains(&priority) => priority as u8,
                other => {
                    return Err(format!(
                        "priority: {other}: give 0 to {}, the most urgent one",
                        PRIORITIES - 1
                    ));
                }
            },
        })
    }
}

/// The pattern of a field: a text or number, a list of these, a table of steps (`first`, `step`, `count`),
/// or a table of random values (`random`, `seed`, `count`).
fn pattern(stack: &Stack, name: &str, value: &toml::Value) -> Result<Pattern, String> {
    let format = stack.format(name).map_err(|why| why.to_string())?;
    let text = |value: &toml::Value| match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        other => Err(format!("{name}: {other} is neither a number nor a text")),
    };
    let read = |text: &str| Pattern::read(text, format).map_err(|why| format!("{name}: {why}"));
    let one = |value: &toml::Value| {
        let text = text(value)?;
        format.read(&text).ok_or_else(|| format!("{name}: '{text}' is no value of this field"))
    };
    let count = |table: &toml::Table| match table.get("count") {
        None => Ok(None),
        Some(toml::Value::Integer(count)) if (1..=i64::from(MOST_VALUES)).contains(count) => {
            Ok(Some(*count as u32))
        }
        Some(other) => Err(format!("{name}: count = {other}: give 1 to {MOST_VALUES}")),
    };
    let whole = |table: &toml::Table, key: &str| match table.get(key) {
        None => Ok(None),
        Some(toml::Value::Integer(number)) => Ok(Some(*number)),
        Some(other) => Err(format!("{name}: {key} = {other}: give a whole number")),
    };
    let only =
        |table: &toml::Table, known: &[&str]| match table.keys().find(|it| !known.contains(&it.as_str())) {
            None => Ok(()),
            Some(other) => Err(format!("{name}: there is no '{other}' here: give {}", known.join(", "))),
        };
    match value {
        toml::Value::Array(values) if values.is_empty() => Err(format!("{name}: the list is empty")),
        toml::Value::Array(values) => Ok(Pattern::List(values.iter().map(one).collect::<Result<_, _>>()?)),
        toml::Value::Table(table) => match (table.get("random"), table.get("first")) {
            (Some(range), None) => {
                only(table, &["random", "seed", "count"])?;
                let range = format!("random:{}", text(range)?);
                let (given, turns) = (whole(table, "seed")?.map(|seed| seed as u64), count(table)?);
                match read(&range)? {
                    Pattern::Random { least, most, seed, .. } => {
                        Ok(Pattern::Random { least, most, seed: given.unwrap_or(seed), count: turns })
                    }
                    other => Ok(other),
                }
            }
            (None, Some(first)) => {
                only(table, &["first", "step", "count"])?;
                let count =
                    count(table)?.ok_or_else(|| format!("{name}: give count, the number of values"))?;
                let step = i128::from(whole(table, "step")?.unwrap_or(1)) as u128;
                Ok(Pattern::Steps { first: one(first)?, step, count })
            }
            _ => Err(format!("{name}: give first, step and count, or random, seed and count")),
        },
        other => read(&text(other)?),
    }
}

/// The sizes of streams together, each weighted by its part of the frames; for rates on the wire. `None`
/// without streams.
pub(crate) fn sizes_of<'s>(streams: impl Iterator<Item = (&'s Stream, f64)>) -> Option<Mix> {
    /// Frames of the mix that stands for all.
    const FRAMES: f64 = 1000.0;
    let streams: Vec<_> = streams.collect();
    let all: f64 = streams.iter().map(|(_, pps)| pps).sum();
    let mut counts: BTreeMap<Size, f64> = BTreeMap::new();
    for (stream, pps) in streams {
        let whole: u32 = stream.sizes.parts().iter().map(|part| part.1).sum();
        for (size, weight) in stream.sizes.parts() {
            let part = pps / all * f64::from(*weight) / f64::from(whole);
            *counts.entry(*size).or_default() += part * FRAMES;
        }
    }
    if let (1, Some(size)) = (counts.len(), counts.keys().next()) {
        return Some(Mix::fixed(*size));
    }
    let [least, most] = [counts.keys().next(), counts.keys().next_back()]
        .map(|size| size.map_or(0, |it| it.bytes_with_fcs()));
    let each = counts.into_iter().flat_map(|(size, count)| vec![size; (count.round() as usize).max(1)]);
    Mix::of_frames(format!("{least} to {most}"), each)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_describes_streams() {
        let all = parse_streams(
            r#"
            [[stream]]
            load = "10kpps"

            [[stream]]
            name = "voice"
            from = 2
            headers = "ethernet/vlan/ipv4/udp"
            size = 218
            load = "1MbpsL2"
            shape = "poisson:3"
            start = "100ms"
            duration = "1s"
            count = 500
            combine = "product"
            [stream.fields]
            "vlan.id" = [5, 7, 9]
            "ipv4.dst" = "10.0.0.1-10.0.0.9"
            "udp.sport" = { first = 1000, step = -3, count = 10 }
            "ipv4.id" = { random = "1-100", seed = 7, count = 50 }

            [[stream]]
            name = "user"
            copies = 3
            load = "1%"
            size = "imix-csit"
            each = { "ipv4.src" = "10.1.0.1-10.1.0.3" }
            "#,
            2,
        )
        .unwrap();
        let names: Vec<_> = all.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!(names, ["stream 1", "voice", "user 1", "user 2", "user 3"]);
        assert_eq!((all[0].from, all[1].from, all[1].count), (0, 1, Some(500)));
        assert_eq!(all[1].start + all[1].duration.unwrap(), Duration::from_millis(1100));
        assert_ne!(all[2].stack, all[3].stack);
        let mix = sizes_of(all[..1].iter().map(|it| (it, 1.0))).unwrap();
        assert_eq!(mix.only(), Some(Size::MIN));
        let mix = sizes_of(all.iter().map(|it| (it, 1.0))).unwrap();
        let mean = (64.0 + 218.0 + 3.0 * all[2].sizes.mean_bytes_with_fcs()) / 5.0;
        assert!((mix.mean_bytes_with_fcs() / mean - 1.0).abs() < 0.01);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, said) in [
            ("", "missing field `stream`"),
            ("stream = []", "there is no stream"),
            ("[[stream]]\nload = \"1kpps\"\nlaod = 3", "line 3"),
            ("[[stream]]", "missing field `load`"),
            ("[[stream]]\nload = \"fast\"", "stream 1 (stream 1): load: "),
            ("[[stream]]\nload = \"max\"", "load: "),
            (
                "[[stream]]\nname = \"x\"\nload = \"1kpps\"\nheaders = \"ip\"",
                "stream 1 (x): headers: 'ip' is no header",
            ),
            ("[[stream]]\nload = \"1kpps\"\nsize = 40", "size: "),
            ("[[stream]]\nload = \"1kpps\"\nsize = 64\nheaders=\"ethernet/ipv6/udp\"", "at least 84 B"),
            ("[[stream]]\nload = \"1kpps\"\nfrom = 3", "from: 3: give 1 or 2"),
            ("[[stream]]\nload = \"1kpps\"\ncopies = 0", "copies = 0"),
            ("[[stream]]\nload = \"1kpps\"\ncount = 0", "count: "),
            ("[[stream]]\nload = \"1kpps\"\nprobe = true", "all streams are probes"),
            ("[[stream]]\nload = \"1kpps\"\npriority = 8", "priority: 8: give 0 to 7, the most urgent one"),
            ("[[stream]]\nload = \"1kpps\"\nstart = \"soon\"", "start: "),
            ("[[stream]]\nload = \"1kpps\"\ncombine = \"both\"", "combine: 'both'"),
            ("[[stream]]\nload = \"1kpps\"\neach = {\"ipv4.id\" = \"1-9\"}", "give copies"),
            ("[[stream]]\nload = \"1kpps\"\nfields = {\"ipv4.id\" = []}", "the list is empty"),
            ("[[stream]]\nload = \"1kpps\"\nfields = {\"ipv4.id\" = 1.5}", "neither a number nor a text"),
            ("[[stream]]\nload = \"1kpps\"\nfields = {\"ipv4.id\" = 65536}", "16 bits"),
            ("[[stream]]\nload = \"1kpps\"\nfields = {\"ipv4.id\" = -1}", "ipv4.id"),
            ("[[stream]]\nload = \"1kpps\"\nfields = {\"ipv4.id\" = {first = 1}}", "give count"),
            ("[[stream]]\nload = \"1kpps\"\nfields = {\"ipv4.id\" = {random = \"1-9\", step = 2}}", "'step'"),
            ("[[stream]]\nload = \"1kpps\"\nfields = {\"tcp.sport\" = 1}", "the stack is ethernet/ipv4/udp"),
        ] {
            let Err(why) = parse_streams(text, 2) else { panic!("{text} has no mistake") };
            assert!(why.contains(said) && !why.contains('\n'), "{text:?}: {why}");
        }
        assert!(
            read_streams(Path::new("/nowhere.toml"), 2).unwrap_err().contains("cannot read /nowhere.toml")
        );
    }

    /// Between more than two ports each stream says where it goes.
    #[test]
    fn streams_have_a_receiver() {
        let text = |rest: &str| format!("[[stream]]\nload = \"1kpps\"\n{rest}");
        let ports = |text: &str, count| {
            let all = parse_streams(text, count).unwrap();
            (all[0].from, all[0].to)
        };
        assert_eq!((ports(&text(""), 2), ports(&text("from = 2"), 2)), ((0, 1), (1, 0)));
        assert_eq!(ports(&text("from = 2\nto = 1"), 2), (1, 0));
        assert_eq!((ports(&text("to = 3"), 3), ports(&text("from = 4\nto = 2"), 4)), ((0, 2), (3, 1)));
        for (rest, count, said) in [
            ("", 3, "to: give 1 to 3, the port that receives"),
            ("to = 4", 3, "to: 4: give 1 to 3"),
            ("from = 0\nto = 2", 3, "from: 0: give 1 to 3, the port that sends"),
            ("from = 2\nto = 2", 3, "to: 2: it is the port that sends"),
            ("to = 1", 2, "to: 1: it is the port that sends"),
            ("to = 3", 2, "to: 3: give 1 or 2"),
        ] {
            let Err(why) = parse_streams(&text(rest), count) else { panic!("{rest} has no mistake") };
            assert!(why.starts_with("stream 1 (stream 1): ") && why.contains(said), "{rest}: {why}");
        }
    }

    /// In a full mesh no two ports send to the same one at the same time, and each load is divided evenly.
    #[test]
    fn a_full_mesh_is_sent_in_turn() {
        let all = full_mesh(4, &Mix::fixed(Size::MIN), true);
        let turns: Vec<_> = all.iter().map(|it| (it.from, it.to, it.phase)).collect();
        assert_eq!(turns[..4], [(0, 1, 0.0), (0, 2, 1.0 / 3.0), (0, 3, 2.0 / 3.0), (1, 2, 0.0)]);
        for phase in [0.0, 1.0 / 3.0, 2.0 / 3.0] {
            let to: BTreeSet<_> = turns.iter().filter(|it| it.2 == phase).map(|it| it.1).collect();
            assert_eq!(to.len(), 4);
        }
        assert!(all.len() == 12 && all.iter().all(|it| it.from != it.to));
        assert_eq!(streams_pps(&all), 3.0);
    }
}
