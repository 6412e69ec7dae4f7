//! A grid's cells in rows and columns.

use kpps_documents::Trial;
use kpps_documents::grid::{Cell, Grid};
use kpps_documents::words::{kpps, list};

/// The mark of a rate or loss of the long run, where queues grew during the measurement.
pub(super) const GREW: &str = "*";
/// The most cells that a sentence names.
const NAMED: usize = 3;

/// Cells in rows and columns.
pub(super) struct Map<'a> {
    pub(super) others: &'a [usize],
    pub(super) name: String,
    pub(super) rows: Vec<Vec<Option<&'a Cell>>>,
}

/// The cell with the highest rate that is sustained, and that with the lowest; `None` if nothing was
/// measured.
pub(super) fn extremes(grid: &Grid) -> Option<[(&Cell, f64); 2]> {
    let rates = grid.cells.iter().filter_map(|cell| Some((cell, cell.point.as_ref()?.sustained_pps())));
    // Of equals the first.
    let most = rates.clone().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let least = rates.reduce(|best, next| if next.1 < best.1 { next } else { best })?;
    Some([most, least])
}

/// The rate that is delivered in the long run, in kpps; marked if it is below the rate during the
/// measurement.
pub(super) fn delivered(point: &Trial) -> String {
    kpps(point.sustained_pps()) + mark(point)
}

/// The share that is lost in the long run.
pub(super) fn loss(point: &Trial) -> f64 {
    if point.is_steady() { point.loss_ratio } else { point.sustained_loss_ratio() }
}

pub(super) fn mark(point: &Trial) -> &'static str {
    if point.is_steady() { "" } else { GREW }
}

/// The sentence about cells in which queues grew.
pub(super) fn grew(grid: &Grid) -> Option<String> {
    let has_grown = |cell: &&Cell| cell.point.as_ref().is_some_and(|point| !point.is_steady());
    let cells: Vec<String> = grid.cells.iter().filter(has_grown).map(|cell| name(grid, cell)).collect();
    let at = match &cells[..] {
        [] => return None,
        few if few.len() <= NAMED => format!("At {}", list(few)),
        [first, ..] => format!("In {} cells, first at {first},", cells.len()),
    };
    Some(format!(
        "{at} queues grew during the measurement: cells marked with {GREW} show the sustained rate. Measure longer."
    ))
}

/// A cell's values with their names.
pub(super) fn name(grid: &Grid, cell: &Cell) -> String {
    let each = grid.axes.iter().zip(grid.values(cell));
    each.map(|(axis, value)| format!("{} {value}", axis.parameter)).collect::<Vec<_>>().join(", ")
}

/// The grid as maps: the last axis goes to the right, the one before it down; each combination of the others
/// has a map of its own, with its name.
pub(super) fn maps(grid: &Grid) -> Vec<Map<'_>> {
    let across = grid.axes.len().saturating_sub(1);
    let down = across.checked_sub(1);
    let mut maps: Vec<Map> = Vec::new();
    for cell in &grid.cells {
        let others = &cell.at[..down.unwrap_or(0)];
        if maps.last().is_none_or(|map| map.others != others) {
            let name = grid.axes.iter().zip(grid.values(cell)).take(others.len());
            let name = name.map(|(axis, value)| format!("{} {value}", axis.parameter)).collect::<Vec<_>>();
            let columns = grid.axes.get(across).map_or(0, |axis| axis.values.len());
            let rows = down.map_or(1, |down| grid.axes[down].values.len());
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

/// The sentence about parameters that change nothing.
pub(super) fn idle(grid: &Grid) -> Option<String> {
    let idle = grid.idle_parameters();
    let have = if idle.len() == 1 { "has" } else { "have" };
    (!idle.is_empty()).then(|| {
        format!("{} {have} no effect: cells that differ in nothing else are the same.", idle.join(" and "))
    })
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::Environment;
    use kpps_documents::grid::{Axis, Setting};

    pub(in super::super) fn grid() -> Grid {
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
            let point = Trial { offered_pps: 1e5, delivered_pps, ..Trial::default() };
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
        let [most, least] = extremes(&grid).unwrap();
        assert_eq!((&most.0.at[..], &least.0.at[..]), (&[1, 1, 1][..], &[0, 0, 0][..]));
        let back: Grid = serde_json::from_str(&grid.to_json().unwrap()).unwrap();
        assert_eq!(back, grid);
    }

    /// The grid, where queues grew in these cells, by 100 of 200 frames a second.
    pub(in super::super) fn growing(cells: &[usize]) -> Grid {
        let mut grid = grid();
        for &cell in cells {
            let point = grid.cells[cell].point.as_mut().unwrap();
            *point = Trial {
                delivered_pps: 200e3,
                sent: 200,
                delivered: 200,
                seconds: 1e-3,
                queue_growth: Some(100),
                ..point.clone()
            };
        }
        grid
    }

    #[test]
    fn cells_in_which_queues_grew_are_named() {
        assert_eq!(grew(&grid()), None);
        let one = grew(&growing(&[1])).unwrap();
        let (at, rest) =
            ("driver kpps, driver.rx_ring 16, load 200000", "queues grew during the measurement");
        assert!(one.starts_with(&format!("At {at} {rest}")), "{one}");
        let several = grew(&growing(&[1, 2, 3, 5])).unwrap();
        assert!(several.starts_with(&format!("In 4 cells, first at {at}, {rest}")), "{several}");
        let point = growing(&[1]).cells[1].point.clone().unwrap();
        assert_eq!((delivered(&point), loss(&point)), ("100*".to_owned(), 0.5));
    }

    /// The grid, with rates that the ring does not change.
    pub(in super::super) fn idle_ring() -> Grid {
        let mut grid = grid();
        for cell in &mut grid.cells {
            if let Some(point) = &mut cell.point {
                point.delivered_pps = 1000.0 * (1 + cell.at[0] + 7 * cell.at[2]) as f64;
            }
        }
        grid
    }

    #[test]
    fn a_parameter_that_changes_nothing_is_named() {
        assert_eq!(idle(&grid()), None, "each cell has another rate");
        // The same for both rings; the cells of one ring alone say nothing.
        let mut grid = idle_ring();
        let said = "driver.rx_ring has no effect: cells that differ in nothing else are the same.";
        assert_eq!(idle(&grid).as_deref(), Some(said));
        grid.cells.retain(|cell| cell.at[1] == 0);
        assert_eq!(idle(&grid), None, "nothing to compare");
    }

    #[test]
    fn maps_have_the_last_axis_to_the_right() {
        let grid = grid();
        let maps = maps(&grid);
        assert_eq!(maps.iter().map(|map| &map.name[..]).collect::<Vec<_>>(), ["driver kpps", "driver a, b"]);
        assert_eq!(maps[0].rows[1][1].unwrap().at, [0, 1, 1]);
        assert!(maps[1].rows[1][2].is_none());
    }
}
