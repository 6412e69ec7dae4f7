//! A grid as a page: heat maps, and every cell in a table.

use super::maps::{Map, extremes, maps as cells_in_maps, name};
use crate::environment::{frames, parts};
use crate::format::{kpps, percent};
use crate::ndr::environment;
use crate::{page, remarks};
use kpps_results::Trial;
use kpps_results::grid::{Cell, Grid};
use maud::{Markup, html as markup};

const GRID_CSS: &str = include_str!("../../assets/grid.css");

/// The most cells that are listed beside the maps; the rest is in the maps, and in JSON and CSV.
const LISTED: usize = 2000;

/// The grid as one self-contained HTML page without script: maps of what was delivered and of what was lost,
/// where each cell says its numbers, and a table.
pub fn page(grid: &Grid) -> String {
    let e = &grid.environment;
    let names: Vec<_> = grid.axes.iter().map(|axis| axis.parameter.as_str()).collect();
    let title = format!("{}: {} cells over {}", e.machine, grid.cells.len(), names.join(", "));
    let body = markup! {
        header { div {
            h1 { (title) }
            p.setting { @if !parts(e).is_empty() { (parts(e)) "; " } "line rate " (kpps(e.line_rate_pps)) " kpps with frames of " (frames(e)) }
        } }
        main {
            div.lead { p {
                @match extremes(grid) {
                    Some([(most, high), (least, low)]) => {
                        "Most is delivered with " (name(grid, most)) ": " (kpps(high)) " kpps. Least with "
                        (name(grid, least)) ": " (kpps(low)) " kpps."
                    }
                    None => "Nothing was measured.",
                }
            } }
            @if !grid.complete {
                p.notice role="status" { "This run was interrupted: some cells are missing." }
            }
            @for remark in remarks(grid.cells.iter().filter_map(|cell| cell.point.as_ref())) {
                p.notice role="status" { (remark) }
            }
            (maps(grid, "Delivered, kpps", 210, |point| (point.delivered_pps, kpps(point.delivered_pps))))
            (maps(grid, "Loss, % of the frames sent", 10, |point| (point.loss_ratio, percent(point.loss_ratio))))
            (environment(&e.measured_on))
            section { h2 { "Every cell" } (table(grid)) }
        }
        footer { p { "Made by kpps " (e.kpps_version)
            @if !e.profiles_hash.is_empty() { " with profiles " code { (e.profiles_hash) } } "; " (e.duration_ms) " ms measured" @if let Some(seed) = e.seed { ", seed " (seed) } "." } }
    };
    page::page(&title, &[page::CSS, GRID_CSS], &body)
}

/// The side of a cell, and the margins for labels.
const SIDE: usize = 26;
const LEFT: usize = 120;
const BOTTOM: usize = 64;
/// Wide enough for a number in a cell.
const WIDE: usize = 40;

fn maps(grid: &Grid, title: &str, hue: u16, value: impl Fn(&Trial) -> (f64, String) + Copy) -> Markup {
    let points = grid.cells.iter().filter_map(|cell| cell.point.as_ref());
    let most = points.map(|point| value(point).0).fold(0.0, f64::max);
    markup! {
        section {
            h2 { (title) }
            @for map in cells_in_maps(grid) {
                figure {
                    @if !map.name.is_empty() { figcaption { (map.name) } }
                    div.scroll { (drawn(grid, &map, hue, most, value)) }
                }
            }
        }
    }
}

fn drawn(grid: &Grid, map: &Map, hue: u16, most: f64, value: impl Fn(&Trial) -> (f64, String)) -> Markup {
    let Some(across) = grid.axes.last() else { return Markup::default() };
    let down = grid.axes.len().checked_sub(2).map(|down| &grid.axes[down]);
    let columns = across.values.len();
    let side = if columns <= 20 { WIDE } else { SIDE / 2 };
    let numbers = columns <= 20;
    let (width, height) = (LEFT + columns * side + 20, map.rows.len() * SIDE + BOTTOM);
    // Not every name fits.
    let every = columns.div_ceil(24).max(1);
    markup! {
        svg.heat width=(width) height=(height) viewBox={"0 0 " (width) " " (height)} role="img" {
            @for (y, row) in map.rows.iter().enumerate() {
                @if let Some(axis) = down {
                    text x=(LEFT - 6) y=(y * SIDE + 17) text-anchor="end" { (axis.values[y]) }
                }
                @for (x, cell) in row.iter().enumerate() {
                    @if let Some(cell) = cell {
                        (square(grid, cell, (LEFT + x * side, y * SIDE, side), hue, most, &value, numbers))
                    }
                }
            }
            @for (x, name) in across.values.iter().enumerate().filter(|(x, _)| x % every == 0) {
                @let (x, y) = (LEFT + x * side + side / 2, map.rows.len() * SIDE + 8);
                text x=(x) y=(y) text-anchor="end" transform={"rotate(-40 " (x) " " (y) ")"} { (name) }
            }
            text x=(LEFT) y=(height - 4) { (across.parameter) " →"
                @if let Some(axis) = down { "   ↓ " (axis.parameter) } }
        }
    }
}

fn square(
    grid: &Grid,
    cell: &Cell,
    (x, y, side): (usize, usize, usize),
    hue: u16,
    most: f64,
    value: &impl Fn(&Trial) -> (f64, String),
    numbers: bool,
) -> Markup {
    let shown = cell.point.as_ref().map(value);
    let share = shown.as_ref().map_or(0.0, |(number, _)| if most > 0.0 { number / most } else { 0.0 });
    let fill = match shown {
        Some(_) => format!("hsl({hue} 70% {:.0}%)", 94.0 - 56.0 * share),
        None => "none".into(),
    };
    let words = shown.as_ref().map_or_else(|| "×".to_owned(), |(_, words)| words.replace(" %", ""));
    markup! {
        g {
            title { (name(grid, cell)) ": " @match (&cell.point, &cell.problem) {
                (Some(point), _) => {
                    (kpps(point.delivered_pps)) " kpps of " (kpps(point.offered_pps)) ", "
                    (percent(point.loss_ratio)) " lost"
                }
                (None, Some(problem)) => (problem),
                (None, None) => "not measured",
            } }
            rect x=(x) y=(y) width=(side - 1) height=(SIDE - 1) fill=(fill) {}
            @if numbers {
                text.number x=(x + side / 2) y=(y + 17) text-anchor="middle" data-dark[share > 0.55] { (words) }
            }
        }
    }
}

fn table(grid: &Grid) -> Markup {
    markup! {
        @if grid.cells.len() > LISTED {
            p { "The first " (LISTED) " of " (grid.cells.len()) "; the JSON document and CSV have all." }
        }
        div.scroll { table {
            thead { tr {
                @for axis in &grid.axes { th scope="col" { (axis.parameter) } }
                @for name in ["offered, kpps", "delivered, kpps", "lost", "CPU", "most lost at"] { th scope="col" { (name) } }
            } }
            tbody { @for cell in grid.cells.iter().take(LISTED) {
                tr {
                    @for value in grid.values(cell) { td { (value) } }
                    @match &cell.point {
                        Some(point) => {
                            td { (kpps(point.offered_pps)) } td { (kpps(point.delivered_pps)) }
                            td { (percent(point.loss_ratio)) } td { (point.cpu_busy.map_or("–".into(), percent)) }
                            td { (worst(point)) }
                        }
                        None => td colspan="5" { (cell.problem.as_deref().unwrap_or("")) },
                    }
                }
            } }
        } }
    }
}

/// The place with the most losses.
fn worst(point: &Trial) -> &str {
    let losses = point.ledger.losses();
    losses.into_iter().max_by_key(|&(_, count)| count).map_or("", |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_is_drawn_and_says_its_numbers() {
        let text = page(&super::super::maps::tests::grid());
        // Eleven cells in two maps; the one that is missing is not drawn.
        assert_eq!(text.matches("<rect").count(), 22);
        assert!(text.contains("driver kpps, driver.rx_ring 32, load 200000: no such ring"));
        assert!(text.contains("This run was interrupted"));
        assert!(!text.contains("<script"));
    }
}
