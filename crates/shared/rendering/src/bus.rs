//! The bus as a text plot: a row for each kind of transaction, along an axis of bus clocks.

use kpps_documents::simulation::{BusTrace, BusTransaction};
use std::collections::BTreeMap;
use std::fmt::Write;

/// From an empty to a full column.
const SHADES: &[u8] = b" .:-=+*#%@";

/// Plots of a trace from one bus clock to another, `columns` wide; by default of three windows: the whole
/// trace, its first frames, and a stretch short of descriptors, if there is one.
pub fn plots(document: &BusTrace, window: Option<(u64, u64)>, columns: usize) -> String {
    let end = (document.seconds * 1e12 / document.clock_ps.max(1) as f64).round() as u64;
    let windows = match window {
        Some((from, to)) => vec![("", from, to)],
        None => {
            let mut windows = vec![("\nthe whole trace", 0, end), ("\nthe first frames", 0, end.min(800))];
            let smooth = document.enough_descriptors.clocks;
            if let Some(smooth) = smooth.filter(|_| document.short_of_descriptors.is_some()) {
                let from = (smooth as u64).saturating_add(20_000).min(end.saturating_sub(12_000));
                windows.push(("\nshort of descriptors", from, from + 12_000));
            }
            windows
        }
    };
    let each = windows
        .into_iter()
        .map(|(title, from, to)| format!("{title}\n{}", plot(document, from, to, columns)));
    each.collect()
}

/// Plots the bus from one clock (since the trace began) to another in `columns` columns. A column is darker
/// the more of its time the transactions of the row occupied. A row without any is left out. Interrupts are
/// marked with `!`.
fn plot(document: &BusTrace, from: u64, to: u64, columns: usize) -> String {
    let columns = columns.clamp(10, 500);
    let width = (to.saturating_sub(from).max(1) as f64 / columns as f64).max(f64::MIN_POSITIVE);
    let column = |clock: f64| ((clock - from as f64) / width).clamp(0.0, columns as f64);
    let mut rows: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for BusTransaction { clock, clocks, what, .. } in &document.transactions {
        let (mut at, end) = (column(*clock), column(clock + *clocks as f64));
        while at < end {
            let next = (at.floor() + 1.0).min(end);
            let busy = rows.entry(what).or_insert_with(|| vec![0.0; columns]);
            busy[(at as usize).min(columns - 1)] += next - at;
            at = next;
        }
    }
    let mut text = String::new();
    for (what, busy) in rows {
        let shade = |&share: &f64| {
            let dark = (share * (SHADES.len() - 1) as f64).ceil() as usize;
            char::from(SHADES[dark.min(SHADES.len() - 1)])
        };
        let _ = writeln!(text, "{what:>14} |{}|", busy.iter().map(shade).collect::<String>());
    }
    let mut marks = vec![' '; columns];
    for event in document.events.iter().filter(|event| event.event == "interrupt" && event.clock >= from) {
        if let Some(mark) = marks.get_mut(((event.clock - from) as f64 / width) as usize) {
            *mark = '!';
        }
    }
    if marks.contains(&'!') {
        let _ = writeln!(text, "{:>14} |{}|", "interrupt", marks.iter().collect::<String>());
    }
    let middle = columns.saturating_sub(from.to_string().len() + to.to_string().len());
    let _ = writeln!(text, "{:>14}  {from}{:middle$}{to}", "clock", "");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::simulation::{BusEvent, EnoughDescriptors, ShortOfDescriptors};

    #[test]
    fn a_column_is_as_dark_as_it_is_busy() {
        let on = |what: &str, clock: f64, clocks: u64| BusTransaction {
            what: what.into(),
            clock,
            clocks,
            ..BusTransaction::default()
        };
        let interrupt = BusEvent { clock: 95, event: "interrupt".into(), ..BusEvent::default() };
        let document = BusTrace {
            seconds: 3e-6,
            clock_ps: 30_000,
            transactions: vec![on("rx-data", 10.0, 25), on("tail-write", 200.0, 9)],
            events: vec![interrupt],
            ..BusTrace::default()
        };
        let expected =
            "\n       rx-data | @@+      |\n     interrupt |         !|\n         clock  0      100\n";
        assert_eq!(plots(&document, Some((0, 100)), 10), expected);
        assert_eq!(plots(&document, None, 10).matches("clock").count(), 2);
        let stumbled = BusTrace {
            enough_descriptors: EnoughDescriptors { clocks: Some(10.0), ..EnoughDescriptors::default() },
            short_of_descriptors: Some(ShortOfDescriptors::default()),
            ..document
        };
        assert!(plots(&stumbled, None, 10).contains("short of descriptors"));
    }
}
