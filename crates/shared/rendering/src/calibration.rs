//! A calibration on a terminal.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::calibration::Calibration;
use std::fmt::Write;

impl Forms for Calibration {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.paced)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Calibration of {}", self.port()), self))
    }
}

/// The ceiling, and a line for each load below it.
fn screen(calibration: &Calibration) -> String {
    let mut text = format!(
        "{} sends {:.1} kpps of {} B frames (with FCS) at most\n\n{:>12} {:>12} {:>10} {:>9} {:>14} {:>10} {:>10}\n",
        calibration.port(),
        calibration.ceiling_pps / 1e3,
        calibration.environment.bytes_with_fcs(),
        "offered, kpps",
        "sent, kpps",
        "off by, %",
        "shortfall",
        "within 10 us",
        "p99, us",
        "max, us"
    );
    for paced in &calibration.paced {
        let Some(gaps) = paced.gaps else { continue };
        let _ = writeln!(
            text,
            "{:>12.1} {:>12.1} {:>10.3} {:>9} {:>14} {:>10.1} {:>10.1}",
            paced.offered_pps / 1e3,
            paced.sent_pps / 1e3,
            100.0 * (paced.sent_pps / paced.offered_pps - 1.0),
            paced.shortfall,
            gaps.share_within().map_or_else(|| "–".into(), |share| format!("{:.2} %", 100.0 * share)),
            gaps.p99_ns as f64 / 1e3,
            gaps.max_ns as f64 / 1e3
        );
    }
    text
}
