//! Comparisons of results: documents are read, their quantities matched and tested.

mod read;

pub use read::Results;

use crate::statistics::{holm, least_p, median, shift};
use kpps_documents::comparison::{Better, Compared, Comparison, Finding, Sample, Side};
use read::Values;
use std::collections::BTreeSet;

/// The probability that a confidence interval misses the true value.
const INTERVAL_ERROR: f64 = 0.05;
/// Counts that repeat do so within this share.
const REPEATS_WITHIN: f64 = 0.02;

/// The criteria of a difference.
#[derive(Clone, Debug)]
pub struct Criteria {
    /// A change of at most this share of the first side's median is ignored.
    pub threshold: f64,
    /// The significance level: the probability that any of the differences found is by chance (family-wise
    /// error rate).
    pub significance: f64,
    /// Only quantities whose name contains one of these; all if there are none.
    pub quantities: Vec<String>,
}

/// Compares each side with the first one.
///
/// # Errors
/// Sides with documents of different kinds, or without common quantities.
pub fn compare(sides: &[Results], criteria: &Criteria) -> Result<Comparison, String> {
    let Some((first, others)) = sides.split_first() else {
        return Err("there is nothing to compare".into());
    };
    if let Some(other) = others.iter().find(|other| other.kind != first.kind) {
        return Err(format!(
            "{} has documents of kind {}, {} of kind {}: only documents of one kind can be compared",
            first.name, first.kind, other.name, other.kind
        ));
    }
    // If each side has measured one system only, these are compared, whatever their names.
    let named = sides.iter().any(|side| side.of().len() > 1);
    let wanted = |it: &&Values| {
        criteria.quantities.is_empty() || criteria.quantities.iter().any(|name| it.quantity.contains(name))
    };
    let mut rows = Vec::new();
    let mut left_out = BTreeSet::new();
    let only_in = |side: &Results, it: &Values| format!("{}, only in {}", it.title(named), side.name);
    for (number, other) in others.iter().enumerate() {
        for here in first.measured().filter(wanted) {
            match other.measured().find(|there| there.is_like(here, named)) {
                Some(there) => rows.push(row(here, there, number + 1, named, criteria.threshold)),
                None => drop(left_out.insert(only_in(first, here))),
            }
        }
        for there in other.measured().filter(wanted) {
            if !first.measured().any(|here| here.is_like(there, named)) {
                left_out.insert(only_in(other, there));
            }
        }
    }
    if rows.is_empty() && left_out.is_empty() {
        return Err(format!(
            "no quantity is called '{}': see `kpps compare --help`",
            criteria.quantities.join(",")
        ));
    }
    if rows.is_empty() {
        let some: Vec<_> = left_out.iter().take(2).cloned().collect();
        return Err(format!("these results have no common quantity: {}", some.join("; ")));
    }
    judge(&mut rows, criteria.significance, criteria.threshold);
    Ok(Comparison {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        of: first.kind.clone(),
        significance: criteria.significance,
        threshold: criteria.threshold,
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

/// A quantity of two sides, before the verdict.
fn row(here: &Values, there: &Values, side: usize, named: bool, threshold: f64) -> Compared {
    let first = sample(&here.values);
    let found = shift(&here.values, &there.values, INTERVAL_ERROR);
    let share = |by: f64| by / first.median.abs();
    let relative = first.median != 0.0;
    if let Some(few) = here.repeats {
        let other = sample(&there.values);
        let by = other.median - first.median;
        return Compared {
            what: if named { format!("{}, {}", here.of, here.what) } else { here.what.clone() },
            quantity: here.quantity.clone(),
            unit: here.unit.into(),
            better: here.better,
            side,
            first,
            other,
            change: relative.then(|| share(by)),
            finding: match () {
                () if by.abs() <= few || by.abs() <= REPEATS_WITHIN * first.median.abs() => {
                    Finding::NoDifference
                }
                () if by.abs() <= threshold * first.median.abs() => Finding::Within,
                () if (by > 0.0) == (here.better == Better::Higher) => Finding::Better,
                () => Finding::Worse,
            },
            ..Compared::default()
        };
    }
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
        p: Some(found.map_or(1.0, |found| found.p)),
        p_adjusted: Some(1.0),
        finding: Finding::TooFew,
    }
}

/// Decides on each row, with the correction for all of them.
fn judge(rows: &mut [Compared], significance: f64, threshold: f64) {
    let least = |row: &Compared| least_p(row.first.count, row.other.count);
    // A quantity with too few values for any finding is not tested: the others keep their significance.
    let tested: Vec<(usize, f64)> = (0..rows.len())
        .filter(|&at| least(&rows[at]) <= significance)
        .filter_map(|at| Some((at, rows[at].p?)))
        .collect();
    let chances: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    for (&(at, _), adjusted) in tested.iter().zip(holm(&chances)) {
        rows[at].p_adjusted = Some(adjusted);
    }
    for row in rows {
        // Rows that repeat are judged already.
        let Some(p_adjusted) = row.p_adjusted else { continue };
        let up = row.other.median > row.first.median || row.change.is_some_and(|change| change > 0.0);
        row.finding = if p_adjusted <= significance {
            match (row.change, up == (row.better == Better::Higher)) {
                (Some(change), _) if change.abs() <= threshold => Finding::Within,
                (_, true) => Finding::Better,
                (_, false) => Finding::Worse,
            }
        } else if least(row) * tested.len() as f64 > significance || least(row) > significance {
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
        let measured = |values: &[f64]| Values {
            of: String::new(),
            what: String::new(),
            quantity: "delivered".into(),
            unit: "kpps",
            better: Better::Higher,
            values: values.to_vec(),
            repeats: None,
        };
        samples.iter().map(|(a, b)| row(&measured(a), &measured(b), 1, false, 0.0)).collect()
    }

    #[test]
    fn counts_that_repeat_need_no_second_value() {
        let finding = |few, from: f64, to: f64, threshold| {
            let measured = |value| Values {
                of: String::new(),
                what: String::new(),
                quantity: "instructions".into(),
                unit: "a frame",
                better: Better::Lower,
                values: vec![value],
                repeats: Some(few),
            };
            let mut rows = vec![row(&measured(from), &measured(to), 1, false, threshold)];
            judge(&mut rows, 0.05, threshold);
            (rows[0].finding, rows[0].p)
        };
        assert_eq!(finding(1.0, 125.0, 128.0, 0.0), (Finding::Worse, None));
        assert_eq!(finding(1.0, 125.0, 127.0, 0.0), (Finding::NoDifference, None), "less than 2 %");
        assert_eq!(finding(1.0, 40.0, 40.9, 0.0).0, Finding::NoDifference, "not one instruction");
        assert_eq!(finding(1.0, 125.0, 135.0, 0.1).0, Finding::Within);
        assert_eq!(finding(1.0, 125.0, 100.0, 0.0).0, Finding::Better);
        // A register read for each burst of 32 where there was none.
        assert_eq!(finding(0.005, 0.0, 1.0 / 32.0, 0.02).0, Finding::Worse);
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
        // One value on each side never decides, and does not cost the other comparison anything.
        assert_eq!(finding(&[(&low[..1], &high[..1]), pair], 0.0), [Finding::TooFew, Finding::Better]);
        // Forty of them cannot all be found with six values: 2 of 924 each.
        assert_eq!(finding(&[(&low[..], &low[..]); 40], 0.0), [Finding::TooFew; 40]);
    }
}
