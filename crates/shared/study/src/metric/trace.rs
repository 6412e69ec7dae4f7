//! A bus trace: its regimes, its ports, the CPU's functions ([`kpps_sim::trace`]).

use super::offered::{Offered, OneOrMany};
use super::setting::{Setting, configuration};
use super::{Context, Value, Values, columns};
use kpps_frames::{Size, rate};
use kpps_sim::trace::{crossed, values};
use kpps_sim::workload::trace::{Background, Consumer, Groups, Tracing, trace};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfGroups {
    frames: u32,
    spacing_ns: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfBackground {
    period_ns: u64,
    bytes: u32,
}

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    /// Loads of each port; several give lists.
    offered: Offered,
    /// Bytes after the Ethernet header, instead of the size; several give lists.
    payload: Option<OneOrMany<u16>>,
    groups: Option<OfGroups>,
    background: Option<OfBackground>,
    /// A packet socket takes the frames, and a process reads it.
    #[serde(default)]
    packet_socket: bool,
    #[serde(default = "one")]
    ports: usize,
    #[serde(default)]
    warmup_us: u64,
    #[serde(default = "duration_us")]
    duration_us: u64,
    /// Bus clocks from one point of the crossings to the next.
    #[serde(default = "every_clocks")]
    every_clocks: u64,
}

impl Of {
    fn sizes(&self) -> Vec<Size> {
        match &self.payload {
            None => vec![self.setting.size()],
            Some(payloads) => payloads
                .list()
                .into_iter()
                .map(|payload| Size::with_fcs(payload.max(46) + AROUND_BYTES))
                .collect(),
        }
    }

    fn tracing(&self, size: Size, offered_pps: f64) -> Tracing {
        Tracing {
            groups: self.groups.as_ref().map_or(Groups::EVEN, |groups| Groups {
                frames: groups.frames.max(1),
                spacing_ps: groups.spacing_ns.saturating_mul(1000),
            }),
            ports: self.ports,
            warmup_us: self.warmup_us,
            log: LOG,
            background: self.background.as_ref().map(|background| Background {
                period_ps: background.period_ns.saturating_mul(1000),
                bytes: background.bytes,
            }),
            consumer: if self.packet_socket { Consumer::PacketSocket } else { Consumer::Nobody },
            ..Tracing::new(size, offered_pps, self.duration_us)
        }
    }
}

fn one() -> usize {
    1
}

fn duration_us() -> u64 {
    5_000
}

fn every_clocks() -> u64 {
    500
}

/// Ethernet header and FCS.
const AROUND_BYTES: u16 = 18;
/// The longest log that is kept: some 100 ms of small frames.
const LOG: usize = 1 << 18;

/// For each load (and payload) the values of [`values`]: rates of the first and the last port and of all,
/// loss, bus, functions of the CPU, and the regimes of the first card's reception.
pub(super) fn run(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let setup = of.setting.setup(context)?;
    let mut rows = Vec::new();
    for size in of.sizes() {
        for offered_pps in of.offered.pps(rate::line_rate_pps(rate::GIGABIT, size)) {
            let seen = trace(&setup, &of.tracing(size, offered_pps), context.go_on)
                .map_err(|error| error.to_string())?;
            let mut row = values(&seen, size);
            row.push(("offered_pps", Some(offered_pps)));
            rows.push(row);
        }
    }
    columns(rows)
}

/// For one load: `clock`, bus clocks since the trace began, and `frames`, those to the first port that have
/// crossed the bus by then.
pub(super) fn crossings(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let setup = of.setting.setup(context)?;
    let size = of.setting.size();
    let [offered_pps] = of.offered.pps(rate::line_rate_pps(rate::GIGABIT, size))[..] else {
        return Err("'offered' must be one load for this metric".into());
    };
    let seen =
        trace(&setup, &of.tracing(size, offered_pps), context.go_on).map_err(|error| error.to_string())?;
    let (clock, frames): (Vec<f64>, Vec<f64>) = crossed(&seen, 0, of.every_clocks.max(1)).into_iter().unzip();
    Ok([("clock".to_owned(), Value::from(clock)), ("frames".to_owned(), Value::from(frames))].into())
}
