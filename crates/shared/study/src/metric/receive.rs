//! Receiving: trials at one load or many.

use super::offered::Offered;
use super::setting::{Setting, configuration};
use super::{Context, Value, Values, ms};
use crate::data::MOST_VALUES;
use kpps_documents::Trial;
use kpps_frames::rate;
use kpps_methods::Load;
use kpps_profiles::Change;
use kpps_sim::{PerFrame, Profiled, Receiving, Setup};
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    offered: Offered,
    #[serde(flatten)]
    times: Times,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Times {
    #[serde(default = "ms::<10>")]
    pub warmup_ms: u32,
    #[serde(default = "ms::<30>")]
    pub duration_ms: u32,
}

pub(super) fn trials(
    setup: &Setup,
    setting: &Setting,
    offered: &Offered,
    times: Times,
    context: &Context,
) -> Result<Vec<Trial>, String> {
    let profiled = profiled(setup, setting, offered, times, context)?;
    Ok(profiled.into_iter().map(|at| at.trial).collect())
}

/// The trials, with the cost of a frame.
fn profiled(
    setup: &Setup,
    setting: &Setting,
    offered: &Offered,
    times: Times,
    context: &Context,
) -> Result<Vec<Profiled>, String> {
    let mut testbed = Receiving::new(setup.clone());
    let size = setting.size();
    let line = rate::line_rate_pps(rate::GIGABIT, size);
    let trial = |offered_pps| {
        let load = Load::of(offered_pps, size).lasting_ms(times.warmup_ms, times.duration_ms);
        testbed.profiled(&load, context.go_on).map_err(|error| error.to_string())
    };
    offered.pps(line).into_iter().map(trial).collect()
}

/// The share of `total` for each packet; `None` without packets.
fn per(total: f64, packets: u64) -> Option<f64> {
    (packets > 0).then(|| total / packets as f64)
}

/// One value for each load, as a number if there is one load.
fn column(trials: &[Profiled], of: impl Fn(&Profiled) -> Option<f64>) -> Value {
    match trials {
        [trial] => Value::Number(of(trial)),
        many => Value::List(many.iter().map(of).collect()),
    }
}

/// For each load: `offered_pps`, `sent_pps`, `delivered_pps`, `seconds`, `cpu_busy`, `cpu_left`,
/// `idle_polls`, `bus_busy`, `interrupts_per_s`, `interrupts_per_frame` (of those delivered),
/// `reads_per_frame`, `writes_per_frame`, `allocations_per_frame`, `cache_misses_per_frame` (lines fetched
/// from memory), `bursts_per_frame` (of the bus; these five refer to frames that the driver took), `dropped`
/// and `dropped_PLACE` as shares of what was sent, `latency_p50_ns`, `latency_p99_ns`; and over all of them
/// `peak_pps` and `peak_at_pps`. Values for each packet are absent where there was none.
pub(super) fn receive(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let setup = of.setting.setup(context)?;
    let profiled = profiled(&setup, &of.setting, &of.offered, of.times, context)?;
    type OfTrial = fn(&Trial) -> Option<f64>;
    let columns: [(&str, OfTrial); 16] = [
        ("offered_pps", |trial| Some(trial.offered_pps)),
        ("sent_pps", |trial| Some(trial.sent_pps)),
        ("delivered_pps", |trial| Some(trial.delivered_pps)),
        ("seconds", |trial| Some(trial.seconds)),
        ("cpu_busy", |trial| trial.cpu_busy),
        ("cpu_left", |trial| trial.cpu_left()),
        ("idle_polls", |trial| trial.cpu?.idle_polls),
        ("bus_busy", |trial| trial.bus_busy),
        ("interrupts_per_s", |trial| trial.interrupts_per_s),
        ("interrupts_per_frame", |trial| per(trial.interrupts()? as f64, trial.delivered)),
        ("reads_per_frame", |trial| Some(trial.registers_per_frame?.read)),
        ("writes_per_frame", |trial| Some(trial.registers_per_frame?.write)),
        ("allocations_per_frame", |trial| trial.allocations_per_frame),
        ("dropped", |trial| per(trial.ledger.dropped.values().sum::<u64>() as f64, trial.ledger.sent)),
        ("latency_p50_ns", |trial| Some(trial.latency_ns.p50? as f64)),
        ("latency_p99_ns", |trial| Some(trial.latency_ns.p99? as f64)),
    ];
    let mut values: Values =
        columns.map(|(name, of)| (name.to_owned(), column(&profiled, |at| of(&at.trial)))).into();
    type OfFrame = fn(&PerFrame) -> f64;
    let counts: [(&str, OfFrame); 2] =
        [("cache_misses_per_frame", |of| of.cache_misses), ("bursts_per_frame", |of| of.bus_transactions)];
    for (name, of) in counts {
        values.insert(name.to_owned(), column(&profiled, |at| at.per_frame.as_ref().map(of)));
    }
    for place in profiled.iter().flat_map(|at| at.trial.ledger.dropped.keys()) {
        let share = |at: &Profiled| {
            let ledger = &at.trial.ledger;
            per(*ledger.dropped.get(place).unwrap_or(&0) as f64, ledger.sent)
        };
        values.entry(format!("dropped_{place}")).or_insert_with(|| column(&profiled, share));
    }
    let (peak_pps, at) = peak(profiled.iter().map(|at| &at.trial));
    values.insert("peak_pps".into(), peak_pps.into());
    values.insert("peak_at_pps".into(), at.into());
    Ok(values)
}

/// The highest delivered rate, and the lowest load at which it is reached.
fn peak<'a>(trials: impl Iterator<Item = &'a Trial>) -> (f64, f64) {
    trials.fold((0.0, 0.0), |best, trial| {
        if trial.delivered_pps > best.0 { (trial.delivered_pps, trial.offered_pps) } else { best }
    })
}

#[derive(Deserialize)]
struct Grid {
    #[serde(flatten)]
    setting: Setting,
    offered: Offered,
    /// Two constants and their values.
    vary: toml::map::Map<String, toml::Value>,
    /// The share of the peak: a rate at the highest load below it counts as a decline.
    decline: f64,
    #[serde(flatten)]
    times: Times,
}

/// All combinations of the values that the constants of `vary` are given.
pub(super) fn cells(vary: &toml::Table) -> Result<Vec<Vec<Change>>, String> {
    let axes: Vec<(String, Vec<toml::Value>)> = vary
        .iter()
        .map(|(path, values)| match values {
            toml::Value::Array(list) if !list.is_empty() => Ok((path.clone(), list.clone())),
            _ => Err(format!("'{path}' has no values to vary: give a list")),
        })
        .collect::<Result<_, String>>()?;
    let count = axes.iter().fold(1_usize, |count, (_, values)| count.saturating_mul(values.len()));
    if count > MOST_VALUES {
        return Err(format!("'vary' has {count} combinations: give at most {MOST_VALUES}"));
    }
    let mut cells: Vec<Vec<Change>> = vec![Vec::new()];
    for (path, values) in &axes {
        let mut longer = Vec::with_capacity(cells.len() * values.len());
        for cell in &cells {
            for value in values {
                let change = Change::set(path, value.clone())?;
                longer.push(cell.iter().cloned().chain([change]).collect());
            }
        }
        cells = longer;
    }
    Ok(cells)
}

/// Over all combinations of the varied constants' values: `cells`, `cells_declining` (delivered at the last
/// load is less than the share `decline` of the peak), `cells_not_declining`, and of the best cell its
/// `best_peak_pps`; for each constant the list `best_CONSTANT` of one value; lists `peak_pps` and `last_pps`
/// with one entry a cell.
pub(super) fn grid(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Grid = configuration(of)?;
    let cells = cells(&of.vary)?;
    let (mut peaks, mut lasts, mut best) = (Vec::new(), Vec::new(), (0.0, 0));
    for (index, cell) in cells.iter().enumerate() {
        let setup = of.setting.setup_with(context, cell)?;
        let trials = trials(&setup, &of.setting, &of.offered, of.times, context)?;
        let peak = peak(trials.iter()).0;
        let last = trials.last().map_or(0.0, |trial| trial.delivered_pps);
        if last > best.0 {
            best = (last, index);
        }
        peaks.push(peak);
        lasts.push(last);
    }
    let declining =
        peaks.iter().zip(&lasts).filter(|(peak, last)| **last < of.decline * **peak).count() as f64;
    let mut values: Values = [
        ("cells", Value::from(cells.len() as f64)),
        ("cells_declining", declining.into()),
        ("cells_not_declining", (cells.len() as f64 - declining).into()),
        ("best_last_pps", best.0.into()),
        ("peak_pps", peaks.into()),
        ("last_pps", lasts.into()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    for change in &cells[best.1] {
        let kpps_profiles::To::Set(value) = &change.to else { continue };
        let number = value.as_integer().map(|whole| whole as f64).or(value.as_float());
        if let Some(number) = number {
            values.insert(format!("best_{}", change.constant.replace('.', "_")), number.into());
        }
    }
    Ok(values)
}
