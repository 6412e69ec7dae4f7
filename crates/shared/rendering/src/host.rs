//! The costs of a frame and an interrupt on a measured machine.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::host::HostCalibration;
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
    if !document.points.is_empty() {
        let _ = writeln!(text, "\nCPU time for a delivered frame:");
        let _ = writeln!(
            text,
            "{:>12} {:>12} {:>12} {:>8}  curve",
            "offered kpps", "measured ns", "simulated ns", "error"
        );
    }
    for row in &document.points {
        let _ = writeln!(
            text,
            "{:>12.1} {:>12.0} {:>12.0} {:>+7.1}%  {}",
            row.offered_pps / 1e3,
            row.measured_ns,
            row.simulated_ns,
            row.error * 100.0,
            row.curve
        );
    }
    if let (Some(median), Some(largest)) = (document.median_error, document.largest_error) {
        let points = document.points.len();
        let _ = writeln!(
            text,
            "\n{points} points, median error {:.1} %, largest {:.1} %",
            median * 100.0,
            largest * 100.0
        );
    }
    text
}
