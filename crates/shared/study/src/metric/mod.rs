//! The metrics. A metric takes a configuration, which is a table of a study's file, and gives named values.

mod facts;
mod forward;
mod fragments;
mod freebsd;
mod limits;
mod machine;
mod netreceive;
mod offered;
mod predictions;
mod random;
mod receive;
mod rss;
mod setting;
mod tcp_bulk;
mod trace;
mod transmit;
mod versus;

use crate::Measurement;
use kpps_profiles::{Change, To};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

impl Measurement {
    /// The constants that follow from a seed, as `driver.rx_ring=256`: those of every driver, and those of
    /// the setting's driver alone. `None` if there are none.
    ///
    /// # Errors
    /// If it does not say what to draw from.
    pub fn drawn(&self, seed: i64) -> Result<Option<Vec<String>>, String> {
        let tables: Vec<_> =
            ["random", "own"].iter().filter_map(|name| self.of.get(*name)?.as_table()).collect();
        let changes = tables.iter().map(|table| constants(table, seed.unsigned_abs()));
        let changes = changes.collect::<Result<Vec<_>, _>>()?.concat();
        Ok((!tables.is_empty()).then_some(changes))
    }
}

/// The constants that a table of possible values gives for a seed, as `driver.rx_ring=256`.
fn constants(of: &toml::Table, seed: u64) -> Result<Vec<String>, String> {
    let changes = random::changes(of, seed)?.into_iter();
    let text = |change: Change| match &change.to {
        To::Set(value) if !value.is_str() => {
            format!("{}.{}={value}", change.kind.word(), change.constant)
        }
        _ => change.to_string(),
    };
    Ok(changes.map(text).collect())
}

/// The changed constants of a measurement: those of its `set`, some `more`, and last those of the context.
///
/// # Errors
/// A path names no constant.
fn changes(set: &toml::Table, more: &[Change], context: &Context) -> Result<Vec<Change>, String> {
    let own = set.iter().map(|(path, value)| Change::set(path, value.clone()));
    let rest = more.iter().chain(&context.changes).cloned().map(Ok);
    own.chain(rest).collect()
}

/// A measured value. `None` stands for a value that was not observed, as the latency where no frame arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// One number.
    Number(Option<f64>),
    /// One for each load, ring or whatever the metric varies.
    List(Vec<Option<f64>>),
}

impl Value {
    /// Whether no value is missing.
    pub fn is_observed(&self) -> bool {
        match self {
            Self::Number(number) => number.is_some(),
            Self::List(list) => list.iter().all(Option::is_some),
        }
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        Self::Number(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Some(number).into()
    }
}

impl From<Vec<f64>> for Value {
    fn from(list: Vec<f64>) -> Self {
        Self::List(list.into_iter().map(Some).collect())
    }
}

/// Measured values by name.
pub type Values = BTreeMap<String, Value>;

/// The context of all measurements.
pub struct Context<'a> {
    /// Changed constants of profiles.
    pub changes: Vec<Change>,
    /// Whether to go on.
    pub go_on: &'a (dyn Fn() -> bool + Sync),
}

/// A metric.
pub struct Metric {
    /// The name by which claims ask for it.
    pub name: &'static str,
    /// Its values, in a sentence.
    pub about: &'static str,
    /// The keys of its configuration besides machine, chip, driver, set and size.
    pub takes: &'static [&'static str],
    take: fn(toml::Table, &Context) -> Result<Values, String>,
}

/// All metrics.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "forward",
        about: "a bridge, or another app, between two ports, both ways or one, at one load and size or at many: \
                forwarded rate, costs of a frame, ledger",
        takes: &["app", "one_way", "offered", "sizes", "warmup_ms", "duration_ms"],
        take: forward::run,
    },
    Metric {
        name: "tcp-bulk",
        about: "bulk TCP between several hosts and processes of the machine, in one direction or both: \
                throughput, drops, what descriptors do, CPU",
        takes: &[
            "weights",
            "connections",
            "sending",
            "processes",
            "host_segment_ns",
            "host_delay_ns",
            "ip_checksum",
            "tcp_checksum",
            "dma_copy",
            "tso",
            "warmup_ms",
            "duration_ms",
        ],
        take: tcp_bulk::run,
    },
    Metric {
        name: "crossings",
        about: "frames that have crossed the bus of a traced machine, over the bus's clock",
        takes: &[
            "offered",
            "groups",
            "background",
            "packet_socket",
            "ports",
            "warmup_us",
            "duration_us",
            "every_clocks",
        ],
        take: trace::crossings,
    },
    Metric {
        name: "predictions",
        about: "what was predicted of a real system before it was measured, and what came out: shares of \
                right predictions, errors",
        takes: &["of", "app", "setting", "frame_bytes", "least_cpu_busy", "calibrated_on", "tolerance"],
        take: predictions::run,
    },
    Metric {
        name: "fragments",
        about: "a UDP datagram in fragments, of one payload or of many: frames whose packet checksum spares \
                the stack its own sum, bytes that the stack sums, damage that is found",
        takes: &["payload", "udp_checksum"],
        take: fragments::run,
    },
    Metric {
        name: "freebsd-receive",
        about: "FreeBSD's kernel, or a process, receives at one load or at many: rate, drops, interrupts, \
                where the CPU's time went",
        takes: &["nic", "payload", "program", "offered", "warmup_ms", "duration_ms"],
        take: freebsd::run_receive,
    },
    Metric {
        name: "freebsd-route-vlans",
        about: "FreeBSD routes a mix of frames between two VLANs on one wire, at one load or at many",
        takes: &["nic", "offered", "warmup_ms", "duration_ms"],
        take: freebsd::run_route,
    },
    Metric {
        name: "freebsd-send",
        about: "a program under FreeBSD sends datagrams: rate, idle card, interrupts, CPU",
        takes: &["nic", "payload", "program", "sleep_us", "pps", "warmup_ms", "duration_ms"],
        take: freebsd::run_send,
    },
    Metric {
        name: "freebsd-timeline",
        about: "a program under FreeBSD that sends, from moment to moment: its queue, its card",
        takes: &["nic", "payload", "program", "sleep_us", "pps", "every_us", "warmup_ms", "duration_ms"],
        take: freebsd::run_timeline,
    },
    Metric {
        name: "machine",
        about: "a machine drawn at random, at loads up to line rate: rate under overload, CPU left to a \
                process, interrupts, latency, comparison with other drivers",
        takes: &[
            "seed",
            "random",
            "own",
            "offered",
            "around",
            "computing",
            "bursts",
            "against",
            "warmup_ms",
            "duration_ms",
        ],
        take: machine::run,
    },
    Metric {
        name: "mix",
        about: "a mix of frame sizes: its mean, and the frame rate that fills a link",
        takes: &["mix"],
        take: facts::mix,
    },
    Metric {
        name: "netreceive",
        about: "a process under Linux 2.4 or 2.6 reads a UDP socket, at one load or at many: rate, drops, \
                CPUs",
        takes: &["offered", "warmup_ms", "duration_ms"],
        take: netreceive::run,
    },
    Metric {
        name: "nic-transmit",
        about: "the transmit rate of a rate-limited NIC, always with another frame to send",
        takes: &["nic", "warmup_ms", "duration_ms"],
        take: transmit::nic,
    },
    Metric {
        name: "profile",
        about: "the numbers of a profile",
        takes: &["kind", "name"],
        take: facts::profile,
    },
    Metric {
        name: "receive",
        about: "trials at one load or at many: delivered rate, loss by place, CPU, interrupts, register \
                accesses",
        takes: &["offered", "warmup_ms", "duration_ms"],
        take: receive::receive,
    },
    Metric {
        name: "receive-grid",
        about: "peak and rate at line rate over a grid of two constants",
        takes: &["offered", "vary", "decline", "warmup_ms", "duration_ms"],
        take: receive::grid,
    },
    Metric {
        name: "scale",
        about: "a card with several receive queues, each with a CPU of its own: packets against CPUs, and \
                what stops them",
        takes: &["nic", "offered", "flows", "cpus", "shared_lines", "warmup_ms", "duration_ms"],
        take: rss::run,
    },
    Metric {
        name: "sender",
        about: "a process under FreeBSD on a machine drawn at random, woken when it may send again: rate, \
                waste, interrupts, length of the queue",
        takes: &["seed", "random", "payload", "warmup_ms", "duration_ms"],
        take: freebsd::run_sender,
    },
    Metric {
        name: "transmit",
        about: "the transmit rate of the driver, always with another frame to send",
        takes: &["fragments", "coalesce", "warmup_ms", "duration_ms"],
        take: transmit::transmit,
    },
    Metric {
        name: "versus",
        about: "two drivers against each other over a grid of constants and loads: frames delivered, CPU \
                time, latency",
        takes: &["against", "offered", "vary", "fewer", "dearer", "warmup_ms", "duration_ms"],
        take: versus::run,
    },
    Metric {
        name: "trace",
        about: "several ports at once, their bus and its regimes, the CPU by function",
        takes: &[
            "offered",
            "payload",
            "groups",
            "background",
            "packet_socket",
            "ports",
            "warmup_us",
            "duration_us",
        ],
        take: trace::run,
    },
    Metric {
        name: "watchdogs",
        about: "transmit queues of a bridge that stop for longer than the kernel allows",
        takes: &["offered", "sizes"],
        take: forward::watchdog,
    },
];

/// A time in milliseconds: the default of an optional entry.
fn ms<const N: u32>() -> u32 {
    N
}

/// `amount` over `of`; `None` if `of` is 0.
fn per(amount: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| amount / of)
}

/// Rows with the same names as values: numbers if there is one row, or else lists.
fn columns<V: Copy + Into<Option<f64>>>(rows: Vec<Vec<(&str, V)>>) -> Result<Values, String> {
    let Some(first) = rows.first() else { return Err("'offered' names no load".into()) };
    let value = |column: usize| match &rows[..] {
        [row] => Value::Number(row[column].1.into()),
        many => Value::List(many.iter().map(|row| row[column].1.into()).collect()),
    };
    Ok(first.iter().enumerate().map(|(column, (name, _))| ((*name).to_owned(), value(column))).collect())
}

/// Takes a measurement.
pub(crate) fn take(measurement: &Measurement, context: &Context) -> Result<Values, String> {
    let Some(metric) = METRICS.iter().find(|metric| metric.name == measurement.metric) else {
        let known = METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no metric '{}': known are {known}", measurement.metric));
    };
    let known = |key: &str| setting::KEYS.contains(&key) || metric.takes.contains(&key);
    if let Some(key) = measurement.of.keys().find(|key| !known(key)) {
        let takes = setting::KEYS.iter().chain(metric.takes).copied().collect::<Vec<_>>().join(", ");
        return Err(format!("the metric has no key '{key}': it accepts {takes}"));
    }
    limits::check(metric.name, &measurement.of)?;
    (metric.take)(measurement.of.clone(), context)
}

/// Whether a measurement may depend on a changed constant: whether it uses a profile that has it.
pub(crate) fn depends(measurement: &Measurement, change: &Change) -> bool {
    let setting = setting::configuration::<setting::Setting>(measurement.of.clone());
    setting.and_then(|setting| setting.uses(change)).unwrap_or(true)
}
