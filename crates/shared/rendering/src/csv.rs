//! The rows of trials: points of curves, cells of grids.

use crate::Rows;
use kpps_documents::detail::{DetailedTrial, Fate};
use kpps_documents::{Cpu, Curve, Latency, Registers, Trial};
use serde::Serialize;

/// One line for each point of each series, under a header. Columns have the names that their values have in
/// the JSON, as `latency_ns.p50` and `ledger.dropped.ring`. An empty field means that there is no such value:
/// the testbed does not observe it, no frame was delivered, or no frame ended at that place.
pub fn csv(curve: &Curve) -> String {
    rows(curve).csv()
}

/// A row: a point of a series.
#[derive(Serialize)]
struct Point<'c> {
    #[serde(rename = "series.name")]
    series: &'c str,
    #[serde(flatten)]
    point: &'c Trial,
}

/// A row for each point of each series.
pub(crate) fn rows(curve: &Curve) -> Rows {
    let of = |(series, point)| Point { series, point };
    let points = curve.series.iter().flat_map(|it| it.points.iter().map(|point| (it.name.as_str(), point)));
    Rows::like(&of(("", &observed())), &points.map(of).collect::<Vec<_>>())
}

/// The row of a trial that has no directions: its measurements, and the columns that a direction has, too.
#[derive(Serialize)]
struct TrialRow<'t> {
    #[serde(flatten)]
    result: &'t Trial,
    intended: u64,
    received: u64,
    lost: u64,
    received_pps: f64,
}

/// The row of one trial.
pub(crate) fn row(trial: &DetailedTrial) -> Rows {
    let of = |result| {
        let DetailedTrial { fate: Fate { intended, received, lost, .. }, received_pps, .. } = *trial;
        TrialRow { result, intended, received, lost, received_pps }
    };
    Rows::like(&of(&observed()), &[of(&trial.result)])
}

/// A trial in which everything was observed that any document of trials has: its columns are those of all.
pub(crate) fn observed() -> Trial {
    let some = Some(0);
    let latency_ns = Latency {
        min: some,
        mean: some,
        p50: some,
        p99: some,
        p999: some,
        max: some,
        jitter: some,
        error_ns: None,
    };
    Trial {
        taken: Some(0),
        bus_busy: Some(0.0),
        interrupts_per_s: Some(0.0),
        latency_ns,
        registers_per_frame: Some(Registers { read: 0.0, write: 0.0 }),
        allocations_per_frame: Some(0.0),
        ..Trial::default().with_cpu(Cpu { idle_polls: Some(0.0), ..Cpu::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_that_all_trials_have_is_of_a_kind() {
        let rows = Rows::like(&observed(), &[Trial::default()]);
        let without: Vec<_> = rows.columns.iter().filter(|column| column.kind.is_none()).collect();
        assert!(without.is_empty(), "{without:?}");
        let names: Vec<_> = rows.columns.iter().map(|column| column.name.as_str()).collect();
        for name in ["cpu.idle_polls", "latency_ns.p999", "registers_per_frame.write", "ledger.sent"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        assert!(!names.contains(&"overflow"), "where there is none: {names:?}");
    }
}
