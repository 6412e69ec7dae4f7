//! A comparison on a terminal.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};
use kpps_documents::comparison::{Comparison, Finding, Side};
use std::fmt::Write;

impl Forms for Comparison {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Comparison of results of kind {}", self.of), self))
    }
}

/// Each quantity of each side beside that of the first, with the verdict.
fn screen(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (number, side) in comparison.sides.iter().enumerate() {
        let Side { name, documents } = side;
        let _ = writeln!(text, "{number}: {name}, {documents} of kind {}", comparison.of);
    }
    text.push('\n');
    let several = comparison.sides.len() > 2;
    let other = if several { "other" } else { "1" };
    let style = TableStyle::new()
        .header_lines(ContentLineStyle::none())
        .header_separator(LineStyle::none().fill('─').junction('─'))
        .content_lines(ContentLineStyle::none());
    let mut table = Table::new();
    table.load_style(style);
    table.set_header(["", "", "0", "values", other, "values", "change", "95 % interval", "p-value", ""]);
    let mut last = "";
    for row in &comparison.rows {
        let number = |value: f64| short(value);
        let percent = |share: f64| format!("{:+.2} %", share * 100.0);
        let side = if several { format!("{}: ", row.side) } else { String::new() };
        table.add_row(vec![
            if row.what == last { String::new() } else { row.what.clone() },
            format!("{}, {}", row.quantity, row.unit),
            number(row.first.median),
            row.first.count.to_string(),
            format!("{side}{}", number(row.other.median)),
            row.other.count.to_string(),
            row.change.map_or("–".into(), percent),
            row.interval.map_or("–".into(), |[low, high]| format!("{} to {}", percent(low), percent(high))),
            match row.p_adjusted {
                None => "–".into(),
                Some(p) if p < 0.0001 => "<0.0001".into(),
                Some(p) => format!("{p:.4}"),
            },
            row.finding.to_string(),
        ]);
        last = &row.what;
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        if (2..9).contains(&number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column.set_padding((0, 2));
    }
    text = table.lines().fold(text, |text, line| text + line.trim_end() + "\n");
    if !comparison.left_out.is_empty() {
        text.push('\n');
    }
    for what in &comparison.left_out {
        let _ = writeln!(text, "not compared: {what}");
    }
    let count = |finding| comparison.rows.iter().filter(|row| row.finding == finding).count();
    let _ = writeln!(
        text,
        "\n{} worse, {} better, {} without a significant difference (significance level {} %, for all comparisons together); medians, exact rank-sum test, Holm's correction",
        count(Finding::Worse),
        count(Finding::Better),
        count(Finding::NoDifference) + count(Finding::Within),
        comparison.significance * 100.0
    );
    if count(Finding::TooFew) > 0 {
        let _ = writeln!(
            text,
            "{} cannot be judged: too few values to show a difference. Repeat the measurement of each side, in turns",
            count(Finding::TooFew)
        );
    }
    text
}

/// A number with four significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
