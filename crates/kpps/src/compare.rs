//! `kpps compare`: whether results differ, by a statistical test.

mod read;

use crate::error::Failure;
use crate::output::{Forms, Outputs};
use crate::units;
use clap::Args;
use kpps_measure::compare::{holm, least_p, median, shift};
use kpps_report::rows_csv;
use kpps_results::comparison::{Better, Compared, Comparison, Finding, Sample, Side};
use read::{Measured, Results};
use std::collections::BTreeSet;

/// How sure an interval is: it misses the truth in this share of all cases.
const INTERVAL_ERROR: f64 = 0.05;

/// Arguments of `kpps compare`.
#[derive(Args)]
#[command(after_help = "Examples:
  for i in 1 2 3 4 5 6 7 8; do                 take turns, because a system drifts
      kpps trial --ports packet:a,packet:b --load 200kpps --json >> before.json
      kpps trial --ports packet:a,packet:c --load 200kpps --json >> after.json
  done
  kpps compare before.json after.json --threshold 2%   exit code 1 if something is worse by more

Each side is a file, several files with commas between them, or a folder of .json files. A file may hold several documents, one
after the other. kpps compares trials, curves, grids, searches (ndr, sizes) and rows of the lab that have the same sizes, loads and
durations on all sides. If each side has measured one system only, their names may differ.

Quantities: delivered frames per second, latency (p50 and p99), CPU time per delivered frame (without empty polls), NDR, PDR and MRR.
The test is the exact rank-sum test (Wilcoxon, Mann and Whitney) with Holm's correction for all comparisons made: the more
quantities are compared, the more repetitions it takes. A single value never decides.")]
pub struct Arguments {
    /// The results to compare: the first side is the reference
    #[arg(required = true, num_args = 2.., value_name = "RESULTS")]
    sides: Vec<String>,
    /// Ignore a change of at most this share of the first side's median [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    threshold: Option<f64>,
    /// Probability of any false finding (significance level, family-wise)
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = units::share)]
    error: f64,
    /// Compare only quantities whose name contains this: fewer comparisons need fewer repetitions
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    quantity: Vec<String>,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps compare`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let sides = arguments.sides.iter().map(|side| Results::read(side)).collect::<Result<Vec<_>, _>>()?;
    let comparison = compare(&sides, arguments)?;
    arguments.outputs.open()?.publish(
        &comparison,
        &Forms {
            screen: &|| kpps_report::comparison::screen(&comparison),
            csv: &|| rows_csv(&comparison.rows),
            page: &|_| String::new(),
        },
    )?;
    match comparison.regressions() {
        0 => Ok(()),
        count => Err(Failure::Check(format!("{count} of {} quantities are worse", comparison.rows.len()))),
    }
}

fn compare(sides: &[Results], arguments: &Arguments) -> Result<Comparison, Failure> {
    let Some((first, others)) = sides.split_first() else {
        return Err(Failure::Input("there is nothing to compare".into()));
    };
    if let Some(other) = others.iter().find(|other| other.kind != first.kind) {
        return Err(Failure::Input(format!(
            "{} holds documents of kind {}, {} of kind {}: only the same can be compared",
            first.name, first.kind, other.name, other.kind
        )));
    }
    // Where each side measured one thing only, that is what is compared, whatever its name.
    let named = sides.iter().any(|side| side.of().len() > 1);
    let wanted = |it: &&Measured| {
        arguments.quantity.is_empty() || arguments.quantity.iter().any(|name| it.quantity.contains(name))
    };
    let mut rows = Vec::new();
    let mut left_out = BTreeSet::new();
    let only_in = |side: &Results, it: &Measured| format!("{}, only in {}", it.title(named), side.name);
    for (number, other) in others.iter().enumerate() {
        for here in first.measured().filter(wanted) {
            match other.measured().find(|there| there.is_like(here, named)) {
                Some(there) => rows.push(row(here, there, number + 1, named)),
                None => drop(left_out.insert(only_in(first, here))),
            }
        }
        for there in other.measured().filter(wanted) {
            if !first.measured().any(|here| here.is_like(there, named)) {
                left_out.insert(only_in(other, there));
            }
        }
    }
    if rows.is_empty() {
        let some: Vec<_> = left_out.iter().take(2).cloned().collect();
        return Err(Failure::Input(format!("these results have nothing in common: {}", some.join("; "))));
    }
    judge(&mut rows, arguments.error, arguments.threshold.unwrap_or(0.0));
    Ok(Comparison {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        of: first.kind.clone(),
        error: arguments.error,
        threshold: arguments.threshold.unwrap_or(0.0),
        sides: sides.iter().map(|it| Side { name: it.name.clone(), documents: it.documents }).collect(),
        rows,
        left_out: left_out.into_iter().collect(),
        ..Comparison::default()
    })
}

fn sample(values: &[f64]) -> Sample {
    Sample {
        count: values.len(),
        median: median(values).unwrap_or(0.0),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// A quantity of two sides, not judged yet.
fn row(here: &Measured, there: &Measured, side: usize, named: bool) -> Compared {
    let first = sample(&here.values);
    let found = shift(&here.values, &there.values, INTERVAL_ERROR);
    let share = |by: f64| by / first.median.abs();
    let relative = first.median != 0.0;
    Compared {
        what: if named { format!("{}, {}", here.of, here.what) } else { here.what.clone() },
        quantity: here.quantity.clone(),
        unit: here.unit.into(),
        better: here.better,
        side,
        first,
        other: sample(&there.values),
        change: found.filter(|_| relative).map(|found| share(found.by)),
        interval: found
            .filter(|_| relative)
            .and_then(|found| found.interval)
            .map(|(low, high)| [share(low), share(high)]),
        p: found.map_or(1.0, |found| found.p),
        p_adjusted: 1.0,
        finding: Finding::TooFew,
    }
}

/// Says of each row what it is worth among all.
fn judge(rows: &mut [Compared], error: f64, threshold: f64) {
    let least = |row: &Compared| least_p(row.first.count, row.other.count);
    // What could show nothing even by itself is no comparison, and costs the others nothing.
    let tested: Vec<usize> = (0..rows.len()).filter(|&at| least(&rows[at]) <= error).collect();
    let chances: Vec<f64> = tested.iter().map(|&at| rows[at].p).collect();
    for (&at, adjusted) in tested.iter().zip(holm(&chances)) {
        rows[at].p_adjusted = adjusted;
    }
    for row in rows {
        let up = row.other.median > row.first.median || row.change.is_some_and(|change| change > 0.0);
        row.finding = if row.p_adjusted <= error {
            match (row.change, up == (row.better == Better::Higher)) {
                (Some(change), _) if change.abs() <= threshold => Finding::Within,
                (_, true) => Finding::Better,
                (_, false) => Finding::Worse,
            }
        } else if least(row) * tested.len() as f64 > error || least(row) > error {
            Finding::TooFew
        } else {
            Finding::NoDifference
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(samples: &[(&[f64], &[f64])]) -> Vec<Compared> {
        let measured = |values: &[f64]| Measured {
            of: String::new(),
            what: String::new(),
            quantity: "delivered".into(),
            unit: "kpps",
            better: Better::Higher,
            values: values.to_vec(),
        };
        samples.iter().map(|(a, b)| row(&measured(a), &measured(b), 1, false)).collect()
    }

    #[test]
    fn a_verdict_takes_enough_values_for_all_that_is_compared() {
        let low: Vec<f64> = (0..6).map(f64::from).map(|k| 90.0 + k).collect();
        let high: Vec<f64> = low.iter().map(|value| value + 20.0).collect();
        let finding = |samples: &[(&[f64], &[f64])], threshold| -> Vec<Finding> {
            let mut rows = rows(samples);
            judge(&mut rows, 0.05, threshold);
            rows.iter().map(|row| row.finding).collect()
        };
        let pair = (&low[..], &high[..]);
        assert_eq!(finding(&[pair], 0.0), [Finding::Better]);
        assert_eq!(finding(&[(&high, &low)], 0.0), [Finding::Worse]);
        assert_eq!(finding(&[(&high, &low)], 0.3), [Finding::Within]);
        assert_eq!(finding(&[(&low, &low)], 0.0), [Finding::NoDifference]);
        // A value each, however far apart, is none; nor does it cost the other anything.
        assert_eq!(finding(&[(&low[..1], &high[..1]), pair], 0.0), [Finding::TooFew, Finding::Better]);
        // Forty of them cannot all be found with six values: 2 of 924 each.
        assert_eq!(finding(&[(&low[..], &low[..]); 40], 0.0), [Finding::TooFew; 40]);
    }
}
