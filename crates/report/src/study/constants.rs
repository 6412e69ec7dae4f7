//! Fitted constants that were moved, and constants that were drawn.

use crate::rows::{Column, Field, Rows};
use kpps_results::study::{ChangedVerdict, Drawn, MovedConstant, Perturbation};
use std::fmt::Write;

/// The verdicts that change with a constant.
fn changed(row: &MovedConstant) -> String {
    let one = |it: &ChangedVerdict| format!("{} {} -> {}", it.claim, it.from, it.to);
    row.changed.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A share in per cent, with a sign.
fn percent(share: f64) -> String {
    format!("{:+} %", (share * 1e5).round() / 1e3)
}

/// A line for each change, and how many verdicts changed.
pub fn perturbation(document: &Perturbation) -> String {
    let mut text = String::new();
    for row in &document.rows {
        // Writing to a String cannot fail.
        let what = match (row.is_moved, changed(row)) {
            (false, _) => "a small whole number: the change rounds to nothing".to_owned(),
            (true, none) if none.is_empty() => "no verdict changes".to_owned(),
            (true, changed) => changed,
        };
        let _ = writeln!(text, "{:<48} {:>7}  {what}", row.constant, percent(row.change));
    }
    let verdicts: usize = document.rows.iter().map(|row| row.changed.len()).sum();
    let _ = writeln!(
        text,
        "\n{} of {} changes tried, {verdicts} verdicts changed",
        document.rows.len(),
        document.requested
    );
    text
}

/// A row for each change.
pub fn perturbation_rows(document: &Perturbation) -> Rows {
    let row = |row: &MovedConstant| {
        vec![
            Field::Text(row.constant.clone()),
            Field::Number(row.change),
            Field::Switch(row.is_moved),
            Field::Whole(row.changed.len() as i64),
            Field::Text(changed(row)),
        ]
    };
    let columns = ["constant", "change", "is_moved", "verdicts_changed", "changed"];
    Rows { columns: columns.map(Column::from).into(), rows: document.rows.iter().map(row).collect() }
}

/// A line for each measurement, as arguments of `kpps grid`.
pub fn drawn(document: &Drawn) -> String {
    let line =
        |row: &kpps_results::study::DrawnConstants| format!("{}: {}\n", row.measurement, row.arguments);
    document.rows.iter().map(line).collect()
}
