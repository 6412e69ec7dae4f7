//! The forms of four documents of studies: fitted constants that were moved, fitted constants that were found
//! again, claims that were predicted from the others, and constants that were drawn at random.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::study::{ChangedVerdict, CrossValidation, Drawn, Fit, MovedConstant, Perturbation};
use std::fmt::Write;

impl Forms for Perturbation {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        perturbation(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Fitted constants, moved by {} %", (self.share * 1e5).round() / 1e3), self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for Fit {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        fit(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Fitted constants, found again", self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for CrossValidation {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        cross_validation(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Claims, each predicted from the others", self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for Drawn {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        drawn(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Constants of the machine of seed {}", self.seed), self))
    }
}

/// The verdicts that change with a constant, in one line.
fn changed(row: &MovedConstant) -> String {
    let one = |it: &ChangedVerdict| format!("{} {} -> {}", it.claim, it.from, it.to);
    row.changed.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A share in per cent, with a sign.
fn percent(share: f64) -> String {
    format!("{:+} %", (share * 1e5).round() / 1e3)
}

/// A line for each change, and the number of verdicts that changed.
fn perturbation(document: &Perturbation) -> String {
    let mut text = String::new();
    for row in &document.rows {
        // Writing to a String cannot fail.
        let what = match (row.is_moved, changed(row)) {
            (false, _) => "not changed: a small whole number, to which the new value rounds".to_owned(),
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

/// A line for each measurement, as arguments of `kpps grid`.
fn drawn(document: &Drawn) -> String {
    let line =
        |row: &kpps_documents::study::DrawnConstants| format!("{}: {}\n", row.measurement, row.arguments);
    document.rows.iter().map(line).collect()
}

/// A line for each constant, and the number of constants whose value differs from the profiles.
fn fit(document: &Fit) -> String {
    let mut text = String::new();
    for row in &document.rows {
        let other = row.value != row.committed;
        let committed = if other { format!(" (profile: {})", row.committed) } else { String::new() };
        let (name, value, on) = (&row.constant, row.value, row.claims.join(", "));
        let _ = writeln!(
            text,
            "{name:<72} {value:>10}{committed}  bounds {} to {}, fitted to {on}",
            row.least, row.most
        );
    }
    let other = document.rows.iter().filter(|row| row.value != row.committed).count();
    let _ = writeln!(
        text,
        "\n{} constants found, {other} of them with another value than in the profiles",
        document.rows.len()
    );
    text
}

/// A line for each claim, and the median error of the predictions.
fn cross_validation(document: &CrossValidation) -> String {
    let mut text = String::new();
    for row in &document.rows {
        let without: Vec<_> = row.without.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let untold = match row.untold {
            0 => String::new(),
            count => format!(", {count} constants not determined: the middle of their bounds"),
        };
        let (claim, error) = (&row.claim, row.error * 100.0);
        let _ = writeln!(text, "{claim:<4} {error:>6.1} %  {}{untold}", without.join(", "));
    }
    let _ = match document.median_error {
        Some(error) => {
            writeln!(text, "\n{} claims predicted, median error {:.1} %", document.rows.len(), error * 100.0)
        }
        None => writeln!(text, "no claim could be predicted"),
    };
    text
}
