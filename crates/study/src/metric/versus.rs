//! Two drivers against each other, over a grid of constants and loads.

use super::offered::Offered;
use super::receive::{Times, cells, trials};
use super::setting::{Setting, configuration};
use super::{Context, Value, Values};
use kpps_results::Trial;
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    /// The driver preset to compare with.
    against: String,
    offered: Offered,
    /// Constants and their values.
    vary: toml::Table,
    /// Below this share of the other's frames it counts as delivering fewer, above the inverse as delivering
    /// more.
    fewer: f64,
    /// If it delivers as many: above this share of the other's CPU time it counts as dearer.
    dearer: f64,
    #[serde(flatten)]
    times: Times,
}

/// One cell for each combination of the varied constants' values and each load.
///
/// Lists: `delivered_ratio`, `cpu_ratio` (CPU time for each frame) and `latency_ratio`, each the driver's
/// value over that of the other; `delivered_pps` and `cpu_busy`. Numbers: `cells`, `cells_fewer`,
/// `cells_more`, `cells_dearer`, and `cells_worse`, which have fewer frames or are dearer.
pub(super) fn run(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let other = of.setting.with_driver(&of.against);
    let mut columns: [(&str, Vec<f64>); 5] =
        ["delivered_ratio", "cpu_ratio", "latency_ratio", "delivered_pps", "cpu_busy"]
            .map(|name| (name, Vec::new()));
    for cell in cells(&of.vary)? {
        let setup = of.setting.setup_with(context, &cell)?;
        let ours = trials(&setup, &of.setting, &of.offered, of.times, context)?;
        let theirs = trials(&other.setup_with(context, &cell)?, &other, &of.offered, of.times, context)?;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let latency = |trial: &Trial| trial.latency_ns.p50.unwrap_or(0) as f64;
            let each = |trial: &Trial| trial.cpu_busy.unwrap_or(0.0) / trial.delivered_pps.max(1.0);
            let row = [
                ours.delivered_pps / theirs.delivered_pps.max(1.0),
                each(ours) / each(theirs).max(1e-15),
                latency(ours) / latency(theirs).max(1.0),
                ours.delivered_pps,
                ours.cpu_busy.unwrap_or(0.0),
            ];
            for ((_, column), value) in columns.iter_mut().zip(row) {
                column.push(value);
            }
        }
    }
    let [(_, delivered), (_, cpu), ..] = &columns;
    let fewer = delivered.iter().filter(|ratio| **ratio < of.fewer).count() as f64;
    let more = delivered.iter().filter(|ratio| **ratio * of.fewer > 1.0).count() as f64;
    let dearer =
        delivered.iter().zip(cpu).filter(|(frames, cpu)| **frames >= of.fewer && **cpu > of.dearer).count()
            as f64;
    let mut values: Values = [
        ("cells", delivered.len() as f64),
        ("cells_fewer", fewer),
        ("cells_more", more),
        ("cells_dearer", dearer),
        ("cells_worse", fewer + dearer),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.into()))
    .collect();
    values.extend(columns.into_iter().map(|(name, list)| (name.to_owned(), Value::List(list))));
    Ok(values)
}
