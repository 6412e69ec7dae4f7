//! A grid on a terminal.

use super::maps::{delivered, extremes, grew, idle, maps, name};
use crate::remarks;
use kpps_documents::grid::{Grid, Setting};
use kpps_documents::words::kpps;
use std::fmt::Write;

/// The most columns of a map on a terminal; a wider one leaves some out.
const COLUMNS: usize = 12;

/// The maps as tables of delivered kpps, and the best and the worst cell.
pub fn screen(grid: &Grid) -> String {
    let Some([(most, most_pps), (least, least_pps)]) = extremes(grid) else {
        return "nothing was measured\n".into();
    };
    let mut text = String::from("delivered, kpps; × could not be measured\n\n");
    let down = grid.axes.len().checked_sub(2).map(|down| &grid.axes[down]);
    let names = |values: &[Setting]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
    let rows = down.map_or(vec![String::new()], |axis| names(&axis.values));
    let across = grid.axes.last().map(|axis| names(&axis.values)).unwrap_or_default();
    let heading = down.map_or("", |axis| axis.parameter.as_str());
    let longest = |names: &[String]| names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let left = longest(&rows).max(heading.chars().count());
    let grew = grew(grid);
    let mark = usize::from(grew.is_some());
    let width = longest(&across).max(kpps(most_pps).len() + mark).max(1) + 2;
    let every = across.len().div_ceil(COLUMNS).max(1);
    for map in maps(grid) {
        if !map.name.is_empty() {
            let _ = writeln!(text, "{}", map.name);
        }
        if let Some(axis) = grid.axes.last() {
            let _ = writeln!(text, "{:left$}  {}", "", axis.parameter);
        }
        let shown = |at: &usize| at.is_multiple_of(every);
        let columns = across.iter().enumerate().filter(|(at, _)| shown(at));
        let line: String = columns.map(|(_, name)| format!("{name:>width$}")).collect();
        let _ = writeln!(text, "{heading:>left$}{line}");
        for (name, row) in rows.iter().zip(&map.rows) {
            let _ = write!(text, "{name:>left$}");
            for (_, cell) in row.iter().enumerate().filter(|(at, _)| shown(at)) {
                let words = match cell.map(|cell| &cell.point) {
                    Some(Some(point)) => delivered(point),
                    Some(None) => "×".to_owned(),
                    None => String::new(),
                };
                let _ = write!(text, "{words:>width$}");
            }
            text.push('\n');
        }
        text.push('\n');
    }
    if every > 1 {
        let _ = writeln!(
            text,
            "one of {every} columns is shown; the page and the comma-separated values have all\n"
        );
    }
    let _ = writeln!(text, "most:  {} kpps at {}", kpps(most_pps), name(grid, most));
    let _ = writeln!(text, "least: {} kpps at {}", kpps(least_pps), name(grid, least));
    if let Some(idle) = idle(grid) {
        let _ = writeln!(text, "{idle}");
    }
    for remark in remarks::with(grid.cells.iter().filter_map(|cell| cell.point.as_ref()), grew) {
        let _ = writeln!(text, "{remark}");
    }
    let problems = grid.cells.iter().filter_map(|cell| Some((cell, cell.problem.as_ref()?)));
    let count = problems.clone().count();
    if let Some((cell, problem)) = problems.clone().next() {
        let _ = writeln!(text, "{count} cells (×) could not be measured; {}: {problem}", name(grid, cell));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbers_under_the_values_of_their_axes() {
        let text = screen(&super::super::maps::tests::grid());
        let kpps = "driver kpps
                load
driver.rx_ring  100000  200000  400000
            16    0.33    1.33    2.33
            32    3.33       ×    5.33
";
        assert!(text.contains(kpps), "{text}");
        let other = "
            16    6.33    7.33    8.33
            32    9.33    10.3        
";
        assert!(text.contains(other), "{text}");
        assert!(text.contains("most:  10.3 kpps at driver a, b, driver.rx_ring 32, load 200000"), "{text}");
        assert!(
            text.contains(
                "1 cells (×) could not be measured; driver kpps, driver.rx_ring 32, load 200000: no such ring"
            ),
            "{text}"
        );
    }

    /// The map, the best cell and the remark say the same of a cell in which queues grew.
    #[test]
    fn a_cell_in_which_queues_grew_shows_what_is_sustained() {
        let text = screen(&super::super::maps::tests::growing(&[1]));
        assert!(text.contains("            16    0.33    100*    2.33\n"), "{text}");
        let at = "driver kpps, driver.rx_ring 16, load 200000";
        assert!(text.contains(&format!("most:  100 kpps at {at}\n")), "{text}");
        assert!(text.contains(&format!("At {at} queues grew")) && !text.contains("At 100.0 kpps"), "{text}");
    }

    #[test]
    fn a_parameter_that_changes_nothing_is_named() {
        let text = screen(&super::super::maps::tests::idle_ring());
        assert!(text.contains("driver.rx_ring has no effect: cells that"), "{text}");
    }
}
