//! Worlds with faults on a terminal.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::faults::{FaultCount, Faults};
use std::fmt::Write;

/// The most faults that are named because they never happened under a policy.
const MOST_NAMED: usize = 10;

impl Forms for Faults {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.faults)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Faults in simulated worlds", self))
    }
}

/// The table of faults by service policy, the places reached, and the failures.
fn screen(faults: &Faults) -> String {
    let Faults { seeds: [first, last], worlds, frames, virtual_s, failures, .. } = faults;
    let frames = match frames {
        0..1_000_000 => frames.to_string(),
        more => format!("{:.1} million", *more as f64 / 1e6),
    };
    let time = match virtual_s {
        ..3600.0 => format!("{virtual_s:.1} s"),
        more => format!("{:.1} h", more / 3600.0),
    };
    // Of one world only what happened says something.
    let is_one = *worlds == 1;
    let which = if is_one {
        format!("1 world (seed {first})")
    } else {
        format!("{worlds} worlds (seeds {first}..{last})")
    };
    let mut text = format!(
        "{which}: {frames} frames, {time} of virtual time, {}\n\n",
        match faults.failed() {
            0 => "no failure".to_owned(),
            1 => "1 failure".to_owned(),
            more => format!("{more} failures"),
        }
    );
    let _ = write!(text, "{:<24} {:<9}", "times that it happened", "where");
    for (policy, _) in FaultCount::default().columns() {
        let _ = write!(text, " {policy:>14}");
    }
    text.push('\n');
    for row in faults.faults.iter().filter(|row| !is_one || row.total() > 0) {
        let _ = write!(text, "{:<24} {:<9}", row.fault, row.place);
        for (_, times) in row.columns() {
            let _ = write!(text, " {times:>14}");
        }
        text.push('\n');
    }
    text.push('\n');
    for (what, times) in faults.reached.iter().filter(|(_, times)| !is_one || **times > 0) {
        let _ = writeln!(text, "{what:<52} {times:>10}");
    }
    let never: Vec<_> = faults
        .faults
        .iter()
        .filter(|row| !is_one && row.columns().iter().any(|(_, times)| *times == 0))
        .map(|row| match row.total() {
            0 => row.fault.clone(),
            _ => {
                let without = row.columns().into_iter().filter(|(_, times)| *times == 0);
                format!(
                    "{} ({})",
                    row.fault,
                    without.map(|(policy, _)| policy).collect::<Vec<_>>().join(", ")
                )
            }
        })
        .collect();
    if never.len() > MOST_NAMED {
        let (count, all) = (never.len(), faults.faults.len());
        let _ = writeln!(
            text,
            "\n{count} of {all} faults did not happen under every service policy (0 in the table): more worlds \
             would have them"
        );
    } else if !never.is_empty() {
        let _ = writeln!(text, "\nnever happened: {}; more worlds would have them", never.join(", "));
    }
    for failure in failures {
        let what = failure.what.as_deref().unwrap_or("nothing failed");
        let at = failure.at_ms.map_or_else(String::new, |ms| format!(", at {ms:.3} ms"));
        let _ = writeln!(text, "\nseed {}{at}: {what}", failure.seed);
        let _ = writeln!(text, "  the world:    {}", failure.world);
        if let Some(smallest) = &failure.smallest {
            let _ = writeln!(text, "  the smallest: {smallest}");
        }
        if failure.events.is_empty() {
            let _ = writeln!(text, "  the events:   kpps simulate-faults --seed {} --trace", failure.seed);
        }
    }
    for event in failures.iter().flat_map(|failure| &failure.events) {
        let _ = writeln!(text, "{event}");
    }
    text
}
