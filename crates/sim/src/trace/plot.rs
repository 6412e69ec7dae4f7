//! The bus as a text plot: a row for each kind of transaction, along an axis of bus clocks.

use super::Trace;
use kpps_machine::bus::{EventKind, What};
use std::fmt::Write;

/// From an empty to a full column.
const SHADES: &[u8] = b" .:-=+*#%@";

/// Plots the bus from one clock (since the trace began) to another in `columns` columns. A column is darker
/// the more of its time the transactions of the row occupied. A row without any is left out. Interrupts are
/// marked with `!`.
pub fn plot(trace: &Trace, from_clock: u64, to_clock: u64, columns: usize) -> String {
    let columns = columns.clamp(10, 500);
    let span = (to_clock.saturating_sub(from_clock)).max(1) * trace.clock_ps;
    let from_ps = trace.began_ps + from_clock * trace.clock_ps;
    let column_ps = (span as f64 / columns as f64).max(1.0);
    let column = |ps: u64| ps.saturating_sub(from_ps) as f64 / column_ps;
    let mut text = String::new();
    for what in What::ALL {
        let mut busy = vec![0.0; columns];
        let mut any = false;
        let inside = |t: &&kpps_machine::bus::Transaction| {
            t.what == what && t.end_ps > from_ps && t.start_ps < from_ps + span
        };
        for t in trace.log.transactions().filter(inside) {
            any = true;
            let (start, end) = (column(t.start_ps), column(t.end_ps).min(columns as f64));
            let mut at = start;
            while at < end {
                let next = (at.floor() + 1.0).min(end);
                if let Some(cell) = busy.get_mut(at as usize) {
                    *cell += next - at;
                }
                at = next;
            }
        }
        if any {
            let shade = |&share: &f64| {
                let dark = (share * (SHADES.len() - 1) as f64).ceil() as usize;
                char::from(SHADES[dark.min(SHADES.len() - 1)])
            };
            let line: String = busy.iter().map(shade).collect();
            let _ = writeln!(text, "{:>14} |{line}|", what.name());
        }
    }
    let mut marks = vec![b' '; columns];
    for event in trace.log.events().filter(|e| e.kind == EventKind::Interrupt && e.at_ps >= from_ps) {
        if let Some(cell) = marks.get_mut(column(event.at_ps) as usize) {
            *cell = b'!';
        }
    }
    if marks.contains(&b'!') {
        let _ = writeln!(text, "{:>14} |{}|", "interrupt", String::from_utf8_lossy(&marks));
    }
    let middle = columns.saturating_sub(from_clock.to_string().len() + to_clock.to_string().len());
    let _ = writeln!(text, "{:>14}  {from_clock}{:middle$}{to_clock}", "clock", "");
    text
}
