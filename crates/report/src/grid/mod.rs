//! A grid: a trial for each combination of the values of some parameters.

mod page;
mod screen;

pub use page::page;
pub use screen::screen;

use crate::csv::{Columns, line};
use crate::{Environment, Point, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a [`Grid`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GridKind {
    /// A grid.
    #[default]
    Grid,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    /// On or off.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// One of several choices.
    Word(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => on.fmt(f),
            Self::Whole(whole) => whole.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// A parameter and its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// A constant's path, as `driver.rx_ring`; or `load` in frames per second, `size` in bytes with FCS, `driver`, `chip` or
    /// `machine`.
    pub parameter: String,
    /// Its values, in the order in which they were asked for.
    pub values: Vec<Setting>,
}

/// What was measured with one combination of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Which value of each axis.
    pub at: Vec<usize>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Point>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A trial for each combination of the values of some parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grid {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: GridKind,
    /// What was measured, and where, but for what varies.
    pub environment: Environment,
    /// What varies.
    pub axes: Vec<Axis>,
    /// The cells that were measured; the last axis varies fastest.
    pub cells: Vec<Cell>,
    /// Whether every cell is there; false after an interruption.
    pub complete: bool,
}

impl Grid {
    /// A document: sorts the cells and rounds every value.
    pub fn new(environment: Environment, axes: Vec<Axis>, mut cells: Vec<Cell>) -> Self {
        cells.sort_by(|a, b| a.at.cmp(&b.at));
        for cell in &mut cells {
            cell.point = cell.point.take().map(Point::rounded);
        }
        let complete = cells.len() == axes.iter().map(|axis| axis.values.len()).product::<usize>();
        Self { schema: Schema::Kpps1, kind: GridKind::Grid, environment, axes, cells, complete }
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// Those of the serializer; no document that [`new`](Self::new) made has any.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }

    /// One line for each cell: the values of the axes, and what [`csv`](crate::csv()) says of a point. A cell that could not
    /// be measured has its reason in the last column only.
    pub fn csv(&self) -> String {
        let columns = Columns::of(self.cells.iter().filter_map(|cell| cell.point.as_ref()));
        let mut header: Vec<String> = self.axes.iter().map(|axis| axis.parameter.clone()).collect();
        header.extend(columns.header());
        header.push("problem".into());
        let width = header.len() - self.axes.len() - 1;
        let mut text = line(&header);
        for cell in &self.cells {
            let mut row: Vec<String> = self.values(cell).map(ToString::to_string).collect();
            match &cell.point {
                Some(point) => row.extend(columns.row(point)),
                None => row.extend(std::iter::repeat_n(String::new(), width)),
            }
            row.push(cell.problem.clone().unwrap_or_default());
            text += &line(&row);
        }
        text
    }

    /// A cell's values, one of each axis.
    pub fn values<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Setting> {
        self.axes.iter().zip(&cell.at).filter_map(|(axis, &at)| axis.values.get(at))
    }

    /// The cell with the highest rate, and that with the lowest; `None` if nothing was measured.
    fn extremes(&self) -> Option<[(&Cell, f64); 2]> {
        let rates = self.cells.iter().filter_map(|cell| Some((cell, cell.point.as_ref()?.delivered_pps)));
        // Of equals the first.
        let most = rates.clone().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        let least = rates.reduce(|best, next| if next.1 < best.1 { next } else { best })?;
        Some([most, least])
    }

    /// A cell's values with their names.
    fn name(&self, cell: &Cell) -> String {
        let each = self.axes.iter().zip(self.values(cell));
        each.map(|(axis, value)| format!("{} {value}", axis.parameter)).collect::<Vec<_>>().join(", ")
    }

    /// The grid as maps: the last axis goes to the right, the one before it down; each combination of the others has a map
    /// of its own, with its name.
    fn maps(&self) -> Vec<Map<'_>> {
        let across = self.axes.len().saturating_sub(1);
        let down = across.checked_sub(1);
        let mut maps: Vec<Map> = Vec::new();
        for cell in &self.cells {
            let others = &cell.at[..down.unwrap_or(0)];
            if maps.last().is_none_or(|map| map.others != others) {
                let name = self.axes.iter().zip(self.values(cell)).take(others.len());
                let name =
                    name.map(|(axis, value)| format!("{} {value}", axis.parameter)).collect::<Vec<_>>();
                let columns = self.axes.get(across).map_or(0, |axis| axis.values.len());
                let rows = down.map_or(1, |down| self.axes[down].values.len());
                maps.push(Map { others, name: name.join(", "), rows: vec![vec![None; columns]; rows] });
            }
            let row = down.map_or(0, |down| cell.at[down]);
            if let (Some(map), Some(&column)) = (maps.last_mut(), cell.at.get(across))
                && let Some(place) = map.rows.get_mut(row).and_then(|row| row.get_mut(column))
            {
                *place = Some(cell);
            }
        }
        maps
    }
}

/// Cells in rows and columns.
struct Map<'a> {
    others: &'a [usize],
    name: String,
    rows: Vec<Vec<Option<&'a Cell>>>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(super) fn grid() -> Grid {
        let axis = |parameter: &str, values: Vec<Setting>| Axis { parameter: parameter.into(), values };
        let axes = vec![
            axis("driver", vec![Setting::Word("kpps".into()), Setting::Word("a, b".into())]),
            axis("driver.rx_ring", vec![Setting::Whole(16), Setting::Whole(32)]),
            axis("load", vec![Setting::Number(1e5), Setting::Number(2e5), Setting::Number(4e5)]),
        ];
        let mut cells = Vec::new();
        for n in (0..11).rev() {
            let at = vec![n / 6, n / 3 % 2, n % 3];
            let delivered_pps = 1000.0 * (n as f64 + 0.333);
            let point = Point { offered_pps: 1e5, delivered_pps, ..Point::default() };
            cells.push(match n {
                4 => Cell { at, point: None, problem: Some("no such ring".into()) },
                _ => Cell { at, point: Some(point), problem: None },
            });
        }
        Grid::new(Environment::default(), axes, cells)
    }

    #[test]
    fn cells_are_sorted_rounded_and_counted() {
        let grid = grid();
        assert!(!grid.complete, "one is missing");
        assert_eq!(grid.cells[1].at, [0, 0, 1]);
        assert_eq!(grid.cells[0].point.as_ref().unwrap().delivered_pps, 333.0);
        let [most, least] = grid.extremes().unwrap();
        assert_eq!((&most.0.at[..], &least.0.at[..]), (&[1, 1, 1][..], &[0, 0, 0][..]));
        let back: Grid = serde_json::from_str(&grid.to_json().unwrap()).unwrap();
        assert_eq!(back, grid);
    }

    #[test]
    fn csv_has_a_column_for_each_axis_and_a_line_for_each_cell() {
        let text = grid().csv();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 12);
        assert!(lines[0].starts_with("driver,driver.rx_ring,load,offered_pps,"));
        assert!(lines[2].starts_with("kpps,16,200000,100000,"));
        assert!(lines[5].starts_with("kpps,32,200000,,") && lines[5].ends_with(",no such ring"));
        assert!(lines[7].starts_with("\"a, b\",16,100000,"));
        let commas = |line: &str| line.matches(',').count();
        assert!(lines[1..7].iter().all(|line| commas(line) == commas(lines[0])));
    }

    #[test]
    fn maps_have_the_last_axis_to_the_right() {
        let grid = grid();
        let maps = grid.maps();
        assert_eq!(maps.iter().map(|map| &map.name[..]).collect::<Vec<_>>(), ["driver kpps", "driver a, b"]);
        assert_eq!(maps[0].rows[1][1].unwrap().at, [0, 1, 1]);
        assert!(maps[1].rows[1][2].is_none());
    }
}
