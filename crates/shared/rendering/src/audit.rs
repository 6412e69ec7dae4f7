//! The accesses of unmodified drivers to a model of their card, on a terminal.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::audit::{Audit, Row, Violation};
use std::fmt::Write;

/// Registers that are accessed less often for a frame are only counted.
const SHOWN_PER_FRAME: f64 = 0.01;

impl Forms for Audit {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Drivers of {} on a model of the {}", self.kernel, self.chip), self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// A line for each driver at each workload, the registers, and the breaches of the manual.
pub fn screen(audit: &Audit) -> String {
    let mut text = format!(
        "{} ({}) in QEMU {} (TCG, one cpu), cards: our model of the {} on {}{}\n\
         Guest and card do not share a clock: the load only shows how fast this host emulated. Counts for each frame\n\
         are valid at this load, and interrupts for each frame depend on it.\n\n",
        audit.kernel,
        audit.kernel_version,
        audit.qemu,
        audit.chip,
        audit.bus,
        audit.settings.iter().map(|setting| format!("; {setting}")).collect::<String>()
    );
    let _ = writeln!(
        text,
        "{:<8} {:<6} {:<7} {:>8} {:>8}  {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7}  numbered frames",
        "workload",
        "driver",
        "backend",
        "frames",
        "load",
        "reads",
        "writes",
        "tails",
        "IRQs",
        "fetch",
        "back",
        "data",
        "bus µs"
    );
    for row in &audit.rows {
        let _ = writeln!(text, "{}", line(row));
    }
    for row in &audit.rows {
        let _ = write!(text, "\n{}, reads + writes for each frame:", name(row));
        let mut registers: Vec<_> = row.registers.iter().collect();
        registers.sort_by(|a, b| (b.1.reads + b.1.writes).total_cmp(&(a.1.reads + a.1.writes)));
        let (shown, rest): (Vec<_>, Vec<_>) =
            registers.into_iter().partition(|(_, each)| each.reads + each.writes >= SHOWN_PER_FRAME);
        for (register, each) in shown {
            let _ = write!(text, " {register} {:.3}+{:.3}", each.reads, each.writes);
        }
        let (reads, writes) =
            rest.iter().fold((0.0, 0.0), |sum, (_, it)| (sum.0 + it.reads, sum.1 + it.writes));
        if !rest.is_empty() {
            let _ = write!(text, " ({} others {reads:.3}+{writes:.3})", rest.len());
        }
    }
    text +=
        "\n\nAgainst the manual (8254x Software Developer's Manual), from the driver's start to its end:\n";
    for row in &audit.rows {
        let _ = writeln!(text, "{}: {}", name(row), violations(&row.violations));
    }
    for failure in &audit.failures {
        let _ = writeln!(text, "\nNot measured: {failure}");
    }
    text
}

fn name(row: &Row) -> String {
    format!("{} {} {}", row.workload, row.driver, row.backend)
}

/// The line of one driver at one workload.
fn line(row: &Row) -> String {
    let each = [
        row.reads_per_frame,
        row.writes_per_frame,
        row.tails_per_frame,
        row.interrupts_per_frame,
        row.fetches_per_frame,
        row.write_backs_per_frame,
        row.data_bursts_per_frame,
    ];
    let each: Vec<_> = each.iter().map(|value| format!("{value:>6.3}")).collect();
    let fate = match (row.lost, row.changed) {
        (Some(0), Some(0)) => "all came back unchanged".to_owned(),
        (Some(lost), Some(changed)) => format!("{lost} lost, {changed} changed"),
        _ => "–".to_owned(),
    };
    format!(
        "{:<8} {:<6} {:<7} {:>8} {:>8}  {} {:>7.3}  {fate}",
        row.workload,
        row.driver,
        row.backend,
        row.frames,
        format!("{:.1}k", row.load_pps / 1e3),
        each.join(" "),
        row.bus_us_per_frame,
    )
}

fn violations(all: &[Violation]) -> String {
    if all.is_empty() {
        return "nothing".into();
    }
    let each = all.iter().map(|it| {
        let value = it.value.map(|value| format!(" = {value:#x}")).unwrap_or_default();
        format!("{}{value} {} ({}), {} times", it.register, it.what, it.section, it.count)
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::audit::Accesses;

    #[test]
    fn the_table_tells_counts_registers_and_violations() {
        let row = Row {
            workload: "bridge".into(),
            driver: "linux".into(),
            backend: "kernel".into(),
            frames: 1000,
            load_pps: 1500.0,
            reads_per_frame: 2.96,
            registers: [
                ("ICR".to_owned(), Accesses { reads: 0.98, writes: 0.0 }),
                ("CTRL".to_owned(), Accesses { reads: 0.0001, writes: 0.0 }),
            ]
            .into(),
            lost: Some(1),
            changed: Some(0),
            violations: vec![Violation {
                what: "reserved bits written as 1".into(),
                register: "RCTL".into(),
                section: "13.4.22".into(),
                count: 2,
                value: Some(1),
            }],
            ..Row::default()
        };
        let other = Row { lost: Some(0), changed: Some(0), ..Row::default() };
        let audit = Audit { rows: vec![row, other], failures: vec!["x: y".into()], ..Audit::default() };
        let text = screen(&audit);
        for part in [
            "do not share a clock",
            "1.5k   2.960",
            "1 lost, 0 changed",
            "all came back unchanged",
            "ICR 0.980+0.000 (1 others 0.000+0.000)\n",
            "RCTL = 0x1 reserved bits written as 1 (13.4.22), 2 times",
            ": nothing",
            "Not measured: x: y",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("CTRL 0.000"), "{text}");
    }
}
