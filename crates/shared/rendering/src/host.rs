//! The costs of a frame and an interrupt on a measured machine.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::host::{CalibratedPoint, HostCalibration};
use std::fmt::Write;

impl Forms for HostCalibration {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.points)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("What a frame and an interrupt cost", self))
    }
    fn is_empty(&self) -> bool {
        self.constants.is_empty()
    }
}

/// A line for each constant and each point, and how far off the points are.
fn screen(document: &HostCalibration) -> String {
    let mut text = format!("{:<24} {:>9} {:>9}\n", "constant", "before", "found");
    for row in &document.constants {
        let untold = if row.told { "" } else { "   not determined by these curves: unchanged" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<24} {:>9} {:>9}{untold}", row.constant, row.before, row.value);
    }
    if let Some(background) = document.background {
        let _ = writeln!(
            text,
            "\nBusy with something other than frames: {:.1} % of the time",
            background * 100.0
        );
    }
    let (checks, found): (Vec<_>, Vec<_>) = document.points.iter().partition(|point| point.checks);
    points(&mut text, "CPU time for a delivered frame:", &found);
    if let (Some(median), Some(largest)) = (document.median_error, document.largest_error) {
        errors(&mut text, found.len(), median, largest);
    }
    points(&mut text, "The same, where it had no part in finding the constants:", &checks);
    if !checks.is_empty() && checks.iter().all(|point| point.tester_ns.is_some()) {
        text += "\nFrame sizes make no difference in the simulator here: the errors show how much they make on the host.\n";
    }
    if let Some(check) = &document.check {
        errors(&mut text, check.points, check.median_error, check.largest_error);
        let _ = writeln!(
            text,
            "Without a simulator, the median time of the points above for every frame: median error {:.1} %",
            check.null_median_error * 100.0
        );
    }
    text
}

/// A table of points.
fn points(text: &mut String, title: &str, points: &[&CalibratedPoint]) {
    if points.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    let _ = writeln!(
        text,
        "{:>12} {:>12} {:>12} {:>8}  curve",
        "offered kpps", "measured ns", "simulated ns", "error"
    );
    for row in points {
        let _ = writeln!(
            text,
            "{:>12.1} {:>12.0} {:>12.0} {:>+7.1}%  {}{}",
            row.offered_pps / 1e3,
            row.measured_ns,
            row.simulated_ns,
            row.error * 100.0,
            row.curve,
            measured(row)
        );
    }
}

/// How far apart the rounds of a measured point were, and the time that was the tester's.
fn measured(row: &CalibratedPoint) -> String {
    let range = row.measured_range_ns.map(|[from, to]| format!(", {from:.0} to {to:.0} ns"));
    let tester = row.tester_ns.map(|ns| format!(", without {ns:.0} ns of the tester"));
    [range, tester].into_iter().flatten().collect()
}

/// The errors of a table of points.
fn errors(text: &mut String, points: usize, median: f64, largest: f64) {
    let _ = writeln!(
        text,
        "\n{points} points, median error {:.1} %, largest {:.1} %",
        median * 100.0,
        largest * 100.0
    );
}
