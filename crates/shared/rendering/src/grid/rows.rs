//! The cells as rows.

use crate::csv::observed;
use crate::{Column, Field, Kind, Rows};
use kpps_documents::Trial;
use kpps_documents::grid::{Axis, Cell, Grid};
use kpps_methods::grid::{Combinations, Outcome};

/// A row for each cell: the values of the axes, and the columns of its trial, which are the columns of a
/// point in [`csv`](crate::csv()). A cell that could not be measured has its reason in the last column only.
pub fn rows(grid: &Grid) -> Rows {
    let points = || grid.cells.iter().filter_map(|cell| cell.point.as_ref());
    let mut points = Rows::like(&observed(), points());
    let mut header: Vec<Column> = grid.axes.iter().map(of_axis).collect();
    let nothing = vec![Field::Empty; points.columns.len()];
    header.append(&mut points.columns);
    header.push(text("problem"));
    let mut measured = points.rows.into_iter();
    let row = |cell: &Cell| {
        let mut row: Vec<Field> = grid.values(cell).cloned().map(Field::from).collect();
        let point = cell.point.as_ref().and_then(|_| measured.next());
        row.extend(point.unwrap_or_else(|| nothing.clone()));
        row.push(cell.problem.clone().into());
        row
    };
    Rows { rows: grid.cells.iter().map(row).collect(), columns: header }
}

/// The column of an axis.
fn of_axis(axis: &Axis) -> Column {
    let values: Vec<Field> = axis.values.iter().cloned().map(Field::from).collect();
    Column { name: axis.parameter.clone(), kind: Kind::of(&values) }
}

/// A column of texts.
fn text(name: &str) -> Column {
    Column { name: name.into(), kind: Some(Kind::Text) }
}

/// A row for each of these cells, with columns that do not depend on the results: its name `cell`, the values
/// of the axes, the columns that every trial has, the `problem` of a cell that could not be measured, the
/// `key` that it has in journals, and the whole result in JSON, `trial`.
pub fn outcomes(all: &Combinations<'_>, outcomes: &[Outcome]) -> Rows {
    let header = Rows::like::<Trial>(&observed(), []).columns;
    let points = Rows::like(&observed(), outcomes.iter().filter_map(|it| it.result.as_ref().ok()));
    let at: Vec<_> = header.iter().map(|column| points.columns.iter().position(|it| it == column)).collect();
    let mut measured = points.rows.into_iter();
    let row = |outcome: &Outcome| {
        let point = outcome.result.as_ref().ok();
        let fields = point.and_then(|_| measured.next()).unwrap_or_default();
        let mut row = vec![all.name(outcome).into()];
        row.extend(all.values(outcome.cell).cloned().map(Field::from));
        row.extend(at.iter().map(|at| at.and_then(|at| fields.get(at)).cloned().unwrap_or_default()));
        row.push(outcome.result.as_ref().err().cloned().into());
        row.push(outcome.key.clone().into());
        row.push(point.and_then(|point| serde_json::to_string(point).ok()).into());
        row
    };
    let rows = outcomes.iter().map(row).collect();
    let mut columns = vec![text("cell")];
    columns.extend(all.axes().iter().map(of_axis));
    columns.extend(header);
    columns.extend(["problem", "key", "trial"].map(text));
    Rows { columns, rows }
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
