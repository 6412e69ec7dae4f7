//! Fitted constants that were moved, and constants that were drawn.

use crate::rows::{Column, Field, Rows};
use kpps_results::study::{Drawn, MovedConstant, Perturbation};
use std::fmt::Write;

/// The verdicts that change with a constant, in words.
fn turned(row: &MovedConstant) -> String {
    let list: Vec<_> = row.turns.iter().map(|it| format!("{} {} -> {}", it.claim, it.from, it.to)).collect();
    match (row.moves, list.is_empty()) {
        (false, _) => "a small whole number: the change rounds to nothing".to_owned(),
        (true, true) => "no verdict changes".to_owned(),
        (true, false) => list.join(", "),
    }
}

/// A line for each change, and how many verdicts changed.
pub fn perturbation(document: &Perturbation) -> String {
    let mut text = String::new();
    for row in &document.rows {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<48} {:>+5.0} %  {}", row.constant, row.change * 100.0, turned(row));
    }
    let verdicts: usize = document.rows.iter().map(|row| row.turns.len()).sum();
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
            Field::Switch(row.moves),
            Field::Whole(row.turns.len() as i64),
            Field::Text(turned(row)),
        ]
    };
    let columns = ["constant", "change", "moves", "verdicts_changed", "verdicts"];
    Rows { columns: columns.map(Column::from).into(), rows: document.rows.iter().map(row).collect() }
}

/// A line for each measurement, as arguments of `kpps grid`.
pub fn drawn(document: &Drawn) -> String {
    let line =
        |row: &kpps_results::study::DrawnConstants| format!("{}: {}\n", row.measurement, row.arguments);
    document.rows.iter().map(line).collect()
}
