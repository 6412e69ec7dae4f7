//! A curve on the screen.

use crate::Rows;
use crate::csv;
use crate::environment::{frames, parts};
use crate::forms::Forms;
use crate::remarks::remarks;
use crate::text::{TextStyle, plot, table};
use kpps_documents::Curve;

impl Forms for Curve {
    fn screen(&self, style: TextStyle, notes: &str) -> String {
        screen(self, style) + notes
    }
    fn rows(&self) -> Rows {
        csv::rows(self)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(crate::html(self))
    }
    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }
}

/// The text for the screen: plot, table, summary and remarks.
fn screen(results: &Curve, style: TextStyle) -> String {
    let environment = &results.environment;
    let [first, second] = &results.summary;
    let parts = parts(environment);
    let remarks = remarks(results.series.iter().flat_map(|series| &series.points));
    format!(
        "{machine}{parts}\n\
         frames of {frames}{line}\n\n\
         {plot}\n{table}\n{first}\n{second}\n{remarks}\n",
        machine = environment.machine_name(),
        parts = if parts.is_empty() { parts } else { format!(": {parts}") },
        frames = frames(environment),
        line = environment
            .line_rate_pps
            .map_or(String::new(), |pps| format!(", line rate {:.0} pps", pps.floor())),
        plot = plot(results, style),
        table = table(results, style),
        remarks = remarks.iter().map(|remark| format!("{remark}\n")).collect::<String>(),
    )
}
