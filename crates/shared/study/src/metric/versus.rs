//! Two drivers against each other, over a grid of constants and loads.

use super::offered::Offered;
use super::receive::{Times, cells, trials};
use super::setting::{Setting, configuration};
use super::{Context, Value, Values};
use kpps_documents::Trial;
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
    /// A driver that delivers as many frames counts as dearer above this share of the other's CPU time.
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
    let mut columns: [(&str, Vec<Option<f64>>); 5] =
        ["delivered_ratio", "cpu_ratio", "latency_ratio", "delivered_pps", "cpu_busy"]
            .map(|name| (name, Vec::new()));
    for cell in cells(&of.vary)? {
        let setup = of.setting.setup_with(context, &cell)?;
        let ours = trials(&setup, &of.setting, &of.offered, of.times, context)?;
        let theirs = trials(&other.setup_with(context, &cell)?, &other, &of.offered, of.times, context)?;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let latency = |trial: &Trial| Some(trial.latency_ns.p50? as f64);
            let each = |trial: &Trial| Some(trial.cpu_busy? / trial.delivered_pps.max(1.0));
            let ratio =
                |of: &dyn Fn(&Trial) -> Option<f64>, least: f64| Some(of(ours)? / of(theirs)?.max(least));
            let row = [
                Some(ours.delivered_pps / theirs.delivered_pps.max(1.0)),
                ratio(&each, 1e-15),
                ratio(&latency, 1.0),
                Some(ours.delivered_pps),
                ours.cpu_busy,
            ];
            for ((_, column), value) in columns.iter_mut().zip(row) {
                column.push(value);
            }
        }
    }
    let [(_, delivered), (_, cpu), ..] = &columns;
    let count = |of: &dyn Fn(f64, Option<f64>) -> bool| {
        let cells = delivered.iter().zip(cpu).filter_map(|(frames, cpu)| Some(((*frames)?, *cpu)));
        cells.filter(|(frames, cpu)| of(*frames, *cpu)).count() as f64
    };
    let fewer = count(&|frames, _| frames < of.fewer);
    let more = count(&|frames, _| frames * of.fewer > 1.0);
    let dearer = count(&|frames, cpu| frames >= of.fewer && cpu.is_some_and(|cpu| cpu > of.dearer));
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
