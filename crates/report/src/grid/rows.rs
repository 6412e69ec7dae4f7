//! The cells as rows.

use crate::Rows;
use crate::csv::Columns;
use kpps_results::grid::{Cell, Grid};

/// A row for each cell: the values of the axes, and the columns that [`csv`](crate::csv()) has of a point. A
/// cell that could not be measured has its reason in the last column only.
pub fn rows(grid: &Grid) -> Rows {
    let columns = Columns::of(grid.cells.iter().filter_map(|cell| cell.point.as_ref()));
    let mut header: Vec<String> = grid.axes.iter().map(|axis| axis.parameter.clone()).collect();
    header.extend(columns.header());
    header.push("problem".into());
    let width = header.len() - grid.axes.len() - 1;
    let row = |cell: &Cell| {
        let mut row: Vec<String> = grid.values(cell).map(ToString::to_string).collect();
        match &cell.point {
            Some(point) => row.extend(columns.row(point)),
            None => row.extend(std::iter::repeat_n(String::new(), width)),
        }
        row.push(cell.problem.clone().unwrap_or_default());
        row
    };
    Rows { rows: grid.cells.iter().map(row).collect(), columns: header }
}

#[cfg(test)]
mod tests {
    use super::super::maps::tests::grid;
    use super::*;

    #[test]
    fn csv_has_a_column_for_each_axis_and_a_line_for_each_cell() {
        let text = rows(&grid()).csv();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 12);
        assert!(lines[0].starts_with("driver,driver.rx_ring,load,offered_pps,"));
        assert!(lines[2].starts_with("kpps,16,200000,100000,"));
        assert!(lines[5].starts_with("kpps,32,200000,,") && lines[5].ends_with(",no such ring"));
        assert!(lines[7].starts_with("\"a, b\",16,100000,"));
        let commas = |line: &str| line.matches(',').count();
        assert!(lines[1..7].iter().all(|line| commas(line) == commas(lines[0])));
    }
}
