//! A grid as a page: heat maps, and every cell in a table.

use super::maps::{Map, delivered, extremes, grew, idle, loss, maps as cells_in_maps, mark, name};
use crate::environment::{frames, parts, section};
use crate::{page, remarks};
use kpps_documents::grid::{Axis, Cell, Grid};
use kpps_documents::words::{kpps, percent};
use kpps_documents::{Environment, Trial};
use maud::{Markup, html as markup};

const GRID_CSS: &str = include_str!("../../assets/grid.css");

/// The most cells that are listed beside the maps; the rest is in the maps, and in JSON and CSV.
const LISTED: usize = 2000;

/// The grid as one self-contained HTML page without script: maps of delivered and lost frames, of latency,
/// CPU time and interrupts as far as they were observed, where each cell says its numbers, and a table.
pub fn page(grid: &Grid) -> String {
    let e = &grid.environment;
    let names: Vec<_> = grid.axes.iter().map(|axis| axis.parameter.as_str()).collect();
    let title = format!("{}: {} cells over {}", e.machine_name(), grid.cells.len(), names.join(", "));
    let body = markup! {
        header { div {
            h1 { (title) }
            p.setting { (setting(e)) }
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
            @if let Some(idle) = idle(grid) { p.notice role="status" { (idle) } }
            @for remark in remarks::with(grid.cells.iter().filter_map(|cell| cell.point.as_ref()), grew(grid)) {
                p.notice role="status" { (remark) }
            }
            div.quantities style={ "--map-width:" (Frame::of(grid).width) "px" } { @for quantity in &QUANTITIES { (maps(grid, quantity)) } }
            (section(e))
            section { h2 { "Every cell" } (table(grid)) }
        }
        footer { p { "Made by kpps " (e.kpps_version)
            @if !e.profiles_hash.is_empty() { " with profiles " code { (e.profiles_hash) } } "; " (e.duration_ms()) " ms measured" @if let Some(seed) = e.seed { ", seed " (seed) } "." } }
    };
    page::page(&title, &[page::CSS, GRID_CSS], &body)
}

/// Machine, line rate and frames, as far as no axis varies them.
fn setting(e: &Environment) -> String {
    let line = e.line_rate_pps.map(|pps| format!("line rate {} kpps", kpps(pps)));
    let size = e.frame_bytes_with_fcs.map(|_| format!("frames of {}", frames(e)));
    let traffic = [line, size].into_iter().flatten().collect::<Vec<_>>().join(" with ");
    [parts(e), traffic].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// A quantity that has maps.
struct Quantity {
    title: &'static str,
    /// The colour of its highest value, by its name in the style sheet.
    colour: &'static str,
    /// The value; `None` where it was not observed.
    of: fn(&Trial) -> Option<f64>,
    /// The value in a cell.
    words: fn(f64) -> String,
    /// Whether it is that of the long run, and marked where queues grew.
    is_sustained: bool,
}

const QUANTITIES: [Quantity; 5] = [
    Quantity {
        title: "Delivered, kpps",
        colour: "s0",
        of: |it| Some(it.sustained_pps()),
        words: kpps,
        is_sustained: true,
    },
    Quantity {
        title: "Loss, % of the frames sent",
        colour: "s6",
        of: |it| Some(loss(it)),
        words: share,
        is_sustained: true,
    },
    Quantity {
        title: "Latency, p99 in µs",
        colour: "s3",
        of: |it| it.latency_ns.p99.map(|ns| ns as f64),
        words: |ns| short(ns / 1e3),
        is_sustained: false,
    },
    Quantity { title: "CPU, % busy", colour: "s4", of: |it| it.cpu_busy, words: share, is_sustained: false },
    Quantity {
        title: "Interrupts, thousands per second",
        colour: "s2",
        of: |it| it.interrupts_per_s,
        words: |each| short(each / 1e3),
        is_sustained: false,
    },
];

/// A share in per cent, without its sign.
fn share(share: f64) -> String {
    percent(share).replace("under ", "<").replace("over ", ">").replace(" %", "")
}

/// A number in at most four letters, as far as there is room.
fn short(number: f64) -> String {
    match number {
        small if small > 0.0 && small < 10.0 => format!("{small:.1}"),
        large if large >= 10_000.0 => format!("{:.0}k", large / 1e3),
        other => format!("{other:.0}"),
    }
}

/// The height of a cell, and its width: with a number, and without.
const SIDE: usize = 26;
const WIDE: usize = 40;
const NARROW: usize = 13;
/// The most columns with numbers in their cells.
const NUMBERED: usize = 20;
/// A letter of a name, as wide as it can be expected to be.
const LETTER: usize = 7;

/// The maps of a quantity beside each other; nothing if no cell has it.
fn maps(grid: &Grid, quantity: &Quantity) -> Markup {
    let values = grid.cells.iter().filter_map(|cell| (quantity.of)(cell.point.as_ref()?));
    let Some(most) = values.reduce(f64::max) else { return Markup::default() };
    markup! {
        section {
            h2 { (quantity.title) }
            p.hint { "Point at a cell for all that it has."
                @if grid.cells.iter().any(|cell| cell.point.is_none()) { " × could not be measured." } }
            div.maps {
                @for map in cells_in_maps(grid) {
                    figure {
                        @if !map.name.is_empty() { figcaption { (map.name) } }
                        div.scroll { (drawn(grid, &map, quantity, most)) }
                    }
                }
            }
        }
    }
}

/// The measures of the maps of a grid, in px: all of them have the same.
struct Frame {
    /// The width of a cell.
    side: usize,
    /// Where cells begin.
    left: usize,
    top: usize,
    /// The room for names along the lower edge, and whether they stand upright.
    names: usize,
    is_turned: bool,
    /// One of every `every` names is shown.
    every: usize,
    width: usize,
}

impl Frame {
    fn of(grid: &Grid) -> Self {
        let longest = |axis: &Axis| {
            axis.values.iter().map(|value| value.to_string().chars().count()).max().unwrap_or(0) * LETTER
        };
        let wide = |axis: &Axis| axis.parameter.chars().count() * LETTER;
        let (across, down) = (grid.axes.last(), grid.axes.iter().rev().nth(1));
        let columns = across.map_or(0, |axis| axis.values.len());
        let side = if columns <= NUMBERED { WIDE } else { NARROW };
        let below = across.map_or(0, longest);
        let is_turned = below > side;
        let left = down.map_or(0, |axis| longest(axis).max(wide(axis))) + 10;
        Self {
            side,
            left,
            top: if down.is_some() { 20 } else { 4 },
            names: if is_turned { below } else { 14 },
            is_turned,
            every: if is_turned { (2 * LETTER).div_ceil(side) } else { 1 },
            width: (left + columns * side).max(left + across.map_or(0, wide)) + 4,
        }
    }
}

fn drawn(grid: &Grid, map: &Map, quantity: &Quantity, most: f64) -> Markup {
    let Some(across) = grid.axes.last() else { return Markup::default() };
    let down = grid.axes.len().checked_sub(2).map(|down| &grid.axes[down]);
    let numbers = across.values.len() <= NUMBERED;
    let Frame { side, left, top, names, is_turned, every, width } = Frame::of(grid);
    let (low, height) = (top + map.rows.len() * SIDE, top + map.rows.len() * SIDE + names + 30);
    markup! {
        svg.heat width=(width) height=(height) viewBox={"0 0 " (width) " " (height)} role="img" aria-label={ (quantity.title) " " (map.name) } {
            @if let Some(axis) = down { text x=(left - 8) y="13" text-anchor="end" { (axis.parameter) } }
            @for (y, row) in map.rows.iter().enumerate() {
                @if let Some(axis) = down {
                    text x=(left - 8) y=(top + y * SIDE + 17) text-anchor="end" { (axis.values[y]) }
                }
                @for (x, cell) in row.iter().enumerate() {
                    @if let Some(cell) = cell {
                        (square(grid, cell, (left + x * side, top + y * SIDE, side), quantity, most, numbers))
                    }
                }
            }
            @for (x, name) in across.values.iter().enumerate().filter(|(x, _)| x % every == 0) {
                @let (x, y) = (left + x * side + side / 2, low + 14);
                @if is_turned {
                    @let (x, y) = (x + 4, low + 6);
                    text x=(x) y=(y) text-anchor="end" transform={"rotate(-90 " (x) " " (y) ")"} { (name) }
                } @else {
                    text x=(x) y=(y) text-anchor="middle" { (name) }
                }
            }
            text x=(left) y=(height - 5) { (across.parameter) }
        }
    }
}

fn square(
    grid: &Grid,
    cell: &Cell,
    (x, y, side): (usize, usize, usize),
    quantity: &Quantity,
    most: f64,
    numbers: bool,
) -> Markup {
    let value = cell.point.as_ref().map(|point| (quantity.of)(point));
    let share = value.flatten().map_or(0.0, |value| if most > 0.0 { value / most } else { 0.0 });
    let fill = match value {
        Some(Some(_)) => format!(
            "fill:color-mix(in srgb, var(--{}) {:.0}%, var(--card))",
            quantity.colour,
            6.0 + 94.0 * share
        ),
        _ => "fill:none".into(),
    };
    let words = match value {
        Some(Some(value)) => {
            let mark = cell.point.as_ref().filter(|_| quantity.is_sustained).map_or("", mark);
            (quantity.words)(value) + mark
        }
        Some(None) => "–".to_owned(),
        None => "×".to_owned(),
    };
    markup! {
        g {
            title { (name(grid, cell)) ": " @match (&cell.point, &cell.problem) {
                (Some(point), _) => {
                    (delivered(point)) " kpps of " (kpps(point.offered_pps)) ", "
                    (percent(loss(point))) (mark(point)) " lost"
                    @if let Some(ns) = point.latency_ns.p99 { ", p99 " (short(ns as f64 / 1e3)) " µs" }
                    @if let Some(each) = point.interrupts_per_s { ", " (format!("{each:.0}")) " interrupts/s" }
                }
                (None, Some(problem)) => (problem),
                (None, None) => "not measured",
            } }
            rect x=(x) y=(y) width=(side - 1) height=(SIDE - 1) style=(fill) {}
            @if numbers {
                text.number x=(x + side / 2) y=(y + 17) text-anchor="middle" data-high[share > 0.65] { (words) }
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
                @for name in ["offered, kpps", "delivered, kpps", "lost", "CPU", "interrupts/s", "p50, µs", "p99, µs", "most lost at"] { th scope="col" { (name) } }
            } }
            tbody { @for cell in grid.cells.iter().take(LISTED) {
                tr {
                    @for value in grid.values(cell) { td { (value) } }
                    @match &cell.point {
                        Some(point) => {
                            td { (kpps(point.offered_pps)) } td { (delivered(point)) }
                            td { (percent(loss(point))) (mark(point)) } td { (point.cpu_busy.map_or("–".into(), percent)) }
                            td { (point.interrupts_per_s.map_or("–".into(), |each| format!("{each:.0}"))) }
                            @for ns in [point.latency_ns.p50, point.latency_ns.p99] {
                                td { (ns.map_or("–".into(), |ns| format!("{:.1}", ns as f64 / 1e3))) }
                            }
                            td { (worst(point)) }
                        }
                        None => td colspan="8" { (cell.problem.as_deref().unwrap_or("")) },
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
        // Eleven cells in two maps; the missing cell is not drawn.
        assert_eq!(text.matches("<rect").count(), 22);
        assert!(text.contains("driver kpps, driver.rx_ring 32, load 200000: no such ring"));
        assert!(text.contains("This run was interrupted"));
        assert!(!text.contains("<script"));
    }

    #[test]
    fn a_cell_in_which_queues_grew_shows_what_is_sustained() {
        let text = page(&super::super::maps::tests::growing(&[1]));
        let at = "driver kpps, driver.rx_ring 16, load 200000";
        assert!(text.contains(&format!("Most is delivered with {at}: 100 kpps.")), "{text}");
        // In both of its maps, and in the table.
        for (what, times) in
            [(">100*<", 2), (">50*<", 1), ("100* kpps of 100, 50 %* lost", 2), (">50 %*<", 1)]
        {
            assert_eq!(text.matches(what).count(), times, "{what}");
        }
        assert!(text.contains(&format!("At {at} queues grew")), "{text}");
    }

    #[test]
    fn a_parameter_that_changes_nothing_is_named() {
        let text = page(&super::super::maps::tests::idle_ring());
        assert!(text.contains("driver.rx_ring has no effect: cells that"), "{text}");
    }
}
