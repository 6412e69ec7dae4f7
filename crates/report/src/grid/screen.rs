//! A grid on a terminal.

use super::maps::{extremes, maps, name};
use crate::format::kpps;
use crate::remarks;
use kpps_results::grid::{Grid, Setting};
use std::fmt::Write;

/// Shades from nothing delivered to the highest rate.
const SHADES: [&str; 5] = ["··", "░░", "▒▒", "▓▓", "██"];

/// The maps in shades, their legend, and the best and the worst cell.
pub fn screen(grid: &Grid) -> String {
    let Some([(most, most_pps), (least, least_pps)]) = extremes(grid) else {
        return "nothing was measured\n".into();
    };
    let mut text = String::from("delivered, from 0 (··) to the highest of all cells (██)\n\n");
    let down = grid.axes.len().checked_sub(2).map(|down| &grid.axes[down]);
    let names: Vec<String> =
        down.map_or(vec![String::new()], |axis| axis.values.iter().map(ToString::to_string).collect());
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for map in maps(grid) {
        if !map.name.is_empty() {
            let _ = writeln!(text, "{}", map.name);
        }
        if let Some(axis) = down {
            let _ = writeln!(text, "{}", axis.parameter);
        }
        for (name, row) in names.iter().zip(&map.rows) {
            let _ = write!(text, "{name:>width$} ");
            for cell in row {
                text += match cell.map(|cell| &cell.point) {
                    Some(Some(point)) => {
                        let share = point.delivered_pps / most_pps.max(1.0);
                        SHADES[((share * 4.0).ceil() as usize).min(4)]
                    }
                    Some(None) => " ×",
                    None => "  ",
                };
            }
            text.push('\n');
        }
        if let Some(axis) = grid.axes.last() {
            let value = |at: Option<&Setting>| at.map_or_else(String::new, ToString::to_string);
            let (first, last) = (value(axis.values.first()), value(axis.values.last()));
            let _ = writeln!(text, "{:>width$} {}: {first} to {last}\n", "", axis.parameter);
        }
    }
    let _ = writeln!(text, "most:  {} kpps at {}", kpps(most_pps), name(grid, most));
    let _ = writeln!(text, "least: {} kpps at {}", kpps(least_pps), name(grid, least));
    for remark in remarks(grid.cells.iter().filter_map(|cell| cell.point.as_ref())) {
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
    fn shades_say_how_much() {
        let text = screen(&super::super::maps::tests::grid());
        assert!(text.contains("16 ░░░░░░\n32 ▒▒ ×▓▓\n"), "{text}");
        assert!(text.contains("16 ▓▓▓▓██\n32 ████  \n"), "{text}");
        assert!(text.contains("most:  10.3 kpps at driver a, b, driver.rx_ring 32, load 200000"), "{text}");
        assert!(
            text.contains(
                "1 cells (×) could not be measured; driver kpps, driver.rx_ring 32, load 200000: no such ring"
            ),
            "{text}"
        );
    }
}
