//! Receive side scaling: packets against CPUs ([`kpps_sim::workload::rss`]).

use super::offered::{Offered, OneOrMany};
use super::setting::configuration;
use super::{Context, Value, Values, columns, ms};
use kpps_frames::{Size, rate};
use kpps_methods::Load;
use kpps_sim::workload::rss::{Limit, Scaling, scale, stop};
use kpps_sim::{PerFrame, RateLimitedSetup};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    machine: String,
    nic: Option<String>,
    #[serde(default)]
    set: toml::Table,
    #[serde(default = "size")]
    size: u16,
    /// One load.
    offered: Offered,
    #[serde(default = "flows")]
    flows: u16,
    /// CPUs; several give lists.
    cpus: OneOrMany<usize>,
    #[serde(default)]
    shared_lines: u32,
    #[serde(default = "ms::<10>")]
    warmup_ms: u32,
    #[serde(default = "ms::<10>")]
    duration_ms: u32,
}

fn size() -> u16 {
    Size::MIN.bytes_with_fcs() as u16
}

fn flows() -> u16 {
    256
}

/// For each number of CPUs:
///
/// - `cpus`, `offered_pps`, `delivered_pps`; `latency_p50_ns`;
/// - for each frame `header_misses` (cache lines fetched to read headers), `cache_misses`,
///   `bus_transactions`, `interrupts`;
/// - shares of the time in use `wire`, `card`, `bus`, `memory`, `cpu_least` and `cpu_most`; of the CPUs' time
///   `shared`;
/// - 1 for the part that stops packets: `by_wire`, `by_card`, `by_bus`, `by_memory`, `by_shared`, `by_cpus`,
///   `by_some_cpus`.
///
/// And `stops_at`: the CPUs from which more bring nothing; 0 if the last still do.
pub(super) fn run(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let changes = super::changes(&of.set, &[], context)?;
    let setup = RateLimitedSetup::changed(&of.machine, of.nic.as_deref(), &changes)
        .map_err(|error| error.to_string())?;
    let size = Size::with_fcs(of.size);
    let line_pps = rate::line_rate_pps(setup.link_bits_per_s(), size);
    let [offered_pps] = of.offered.pps(line_pps)[..] else {
        return Err("'offered' must be one load for this metric".into());
    };
    let load = Load::of(offered_pps, size).lasting_ms(of.warmup_ms, of.duration_ms);
    let trial = |cpus| {
        let what = Scaling { load: load.clone(), flows: of.flows, cpus, shared_lines: of.shared_lines };
        scale(&setup, &what, context.go_on).map_err(|error| error.to_string())
    };
    let trials = of.cpus.list().into_iter().map(trial).collect::<Result<Vec<_>, _>>()?;
    let rows = trials.iter().map(|it| {
        let by = |limit| f64::from(u8::from(it.limit == limit));
        let busy = &it.busy;
        let each = |of: fn(&PerFrame) -> f64| it.per_frame.as_ref().map(of);
        vec![
            ("cpus", Some(it.cpus as f64)),
            ("offered_pps", Some(it.offered_pps)),
            ("delivered_pps", Some(it.delivered_pps)),
            ("latency_p50_ns", it.latency_ns.p50.map(|ns| ns as f64)),
            ("header_misses", it.header_misses),
            ("cache_misses", each(|frame| frame.cache_misses)),
            ("bus_transactions", each(|frame| frame.bus_transactions)),
            ("interrupts", each(|frame| frame.interrupts)),
            ("wire", Some(busy.wire)),
            ("card", Some(busy.card)),
            ("bus", Some(busy.bus)),
            ("memory", busy.memory),
            ("cpu_least", Some(busy.cpus.iter().copied().fold(f64::INFINITY, f64::min))),
            ("cpu_most", Some(busy.cpus.iter().copied().fold(0.0, f64::max))),
            ("shared", Some(busy.shared)),
            ("by_wire", Some(by(Limit::Wire))),
            ("by_card", Some(by(Limit::Card))),
            ("by_bus", Some(by(Limit::Bus))),
            ("by_memory", Some(by(Limit::Memory))),
            ("by_shared", Some(by(Limit::Shared))),
            ("by_cpus", Some(by(Limit::Cpus))),
            ("by_some_cpus", Some(by(Limit::SomeCpus))),
        ]
    });
    let mut values = columns(rows.collect())?;
    let stops_at = stop(&trials).map_or(0, |(cpus, _)| cpus);
    values.insert("stops_at".into(), Value::from(stops_at as f64));
    Ok(values)
}
