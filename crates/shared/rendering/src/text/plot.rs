//! Delivered against offered load, drawn in characters.

use super::TextStyle;
use kpps_documents::words::kpps;
use kpps_documents::{Curve, Series};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::widgets::Widget;
use ratatui_widgets::canvas::{Canvas, Line};
use std::collections::{BTreeMap, BTreeSet};
use unicode_width::UnicodeWidthStr;

/// Columns left of the axis: a label and its tick.
const GUTTER: u16 = 7;

/// Delivered against offered load, all series in one plot with a mark of their own at each
/// trial, and the line on which everything offered would be delivered. Where series lie on top
/// of each other their marks stand side by side.
pub fn plot(curve: &Curve, style: TextStyle) -> String {
    let points = || curve.series.iter().flat_map(|s| &s.points);
    let most_offered = points().map(|p| p.offered_pps).fold(0.0, f64::max);
    let most_delivered = points().map(|p| p.delivered_pps).fold(0.0, f64::max);
    if most_offered <= 0.0 {
        return "Nothing to draw: no point was measured.\n".to_owned();
    }
    let width = u16::try_from(style.width.clamp(40, 200)).unwrap_or(200);
    let area = Rect::new(GUTTER, 1, width - GUTTER - 2, (width / 4).clamp(12, 25));
    let scale = Scale {
        area,
        x: most_offered,
        y: ceiling(most_delivered.max(most_offered / 20.0) * 1.04, f64::from(area.height / 4)),
    };
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, area.bottom() + 3));
    axes(&mut buffer, &scale, style);
    curves(&mut buffer, curve, &scale, style);
    let mut text = to_text(&buffer, style);
    text.push('\n');
    text += &legend(curve, style);
    text
}

/// From frame rates to cells.
struct Scale {
    area: Rect,
    /// Offered load at the right edge.
    x: f64,
    /// Delivered load at the upper edge.
    y: f64,
}

impl Scale {
    fn column(&self, offered_pps: f64) -> u16 {
        let cells = f64::from(self.area.width - 1);
        self.area.left() + (offered_pps / self.x * cells).round().clamp(0.0, cells) as u16
    }

    fn row(&self, delivered_pps: f64) -> u16 {
        let cells = f64::from(self.area.height - 1);
        self.area.bottom() - 1 - (delivered_pps / self.y * cells).round().clamp(0.0, cells) as u16
    }
}

/// A step of 1, 2 or 5 times a power of ten, so that about `count` of them make `range`.
fn step(range: f64, count: f64) -> f64 {
    let rough = range / count;
    // Powers and logarithms differ between machines in their last bit; these products do not.
    let mut power = 1.0;
    while power > rough && power > f64::MIN_POSITIVE {
        power /= 10.0;
    }
    while power * 10.0 <= rough {
        power *= 10.0;
    }
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|&s| s >= rough).unwrap_or(rough)
}

/// The next whole number of steps above `range`.
fn ceiling(range: f64, count: f64) -> f64 {
    let step = step(range, count);
    (range / step).ceil() * step
}

fn axes(buffer: &mut Buffer, scale: &Scale, style: TextStyle) {
    let area = scale.area;
    let [upright, tick_left, level, tick_down, corner] =
        if style.ascii { ["|", "+", "-", "+", "+"] } else { ["│", "┤", "─", "┬", "└"] };
    let plain = Style::new();
    buffer.set_string(0, 0, "delivered, kpps", plain);
    for y in area.top()..area.bottom() {
        buffer.set_string(GUTTER - 1, y, upright, plain);
    }
    let each = step(scale.y, f64::from(area.height / 4));
    for n in 0..=(scale.y / each).round() as u32 {
        let y = scale.row(f64::from(n) * each);
        let label = kpps(f64::from(n) * each);
        buffer.set_string(0, y, format!("{label:>5}"), plain);
        buffer.set_string(GUTTER - 1, y, tick_left, plain);
    }
    let base = area.bottom();
    buffer.set_string(GUTTER - 1, base, corner, plain);
    for x in area.left()..area.right() {
        buffer.set_string(x, base, level, plain);
    }
    // Round numbers, and the highest load unless a label is in its way.
    let each = step(scale.x, f64::from(area.width / 12));
    let mut ticks: Vec<f64> = (0..).map(|n| f64::from(n) * each).take_while(|&t| t < scale.x).collect();
    let last = scale.column(scale.x);
    ticks.retain(|&t| scale.column(t) + 6 <= last);
    ticks.push(scale.x);
    for tick in ticks {
        let (x, label) = (scale.column(tick), kpps(tick));
        let half = label.len() as u16 / 2;
        buffer.set_string(x, base, tick_down, plain);
        buffer.set_string(
            x.saturating_sub(half).min(buffer.area.width.saturating_sub(label.len() as u16)),
            base + 1,
            label,
            plain,
        );
    }
    let name = "offered, kpps";
    buffer.set_string(area.right() - name.len() as u16, base + 2, name, plain);
}

fn curves(buffer: &mut Buffer, curve: &Curve, scale: &Scale, style: TextStyle) {
    // The line without loss: a dot in every other column.
    let ideal = if style.ascii { "." } else { "·" };
    let mut top = (scale.area.left(), scale.area.bottom());
    for x in scale.area.left()..scale.area.right() {
        let offered = f64::from(x - scale.area.left()) / f64::from(scale.area.width - 1) * scale.x;
        if offered <= scale.y && x % 2 == 0 {
            top = (x, scale.row(offered));
            buffer.set_string(top.0, top.1, ideal, Style::new());
        }
    }
    let label = "all delivered";
    if usize::from(top.0) + 2 + label.len() < usize::from(scale.area.right()) {
        buffer.set_string(top.0 + 2, top.1, label, Style::new());
    }

    for (index, series) in curve.series.iter().enumerate() {
        let color = Color::Indexed(TextStyle::hue(index));
        Canvas::default()
            .x_bounds([0.0, scale.x])
            .y_bounds([0.0, scale.y])
            .marker(if style.ascii { Marker::Custom('.') } else { Marker::Braille })
            .paint(|context| {
                for pair in series.points.windows(2) {
                    let [(x1, y1), (x2, y2)] = [0, 1].map(|i| (pair[i].offered_pps, pair[i].delivered_pps));
                    context.draw(&Line { x1, y1, x2, y2, color });
                }
            })
            .render(scale.area, buffer);
    }

    marks(buffer, curve, scale, style);
}

/// The mark of each series at each of its trials. Where series lie on top of each other their marks stand
/// side by side, each on its own line, as many as leave the lines visible; the others take turns.
fn marks(buffer: &mut Buffer, curve: &Curve, scale: &Scale, style: TextStyle) {
    let mut cells: BTreeMap<(u16, u16), Vec<(usize, f64)>> = BTreeMap::new();
    for (index, series) in curve.series.iter().enumerate() {
        for p in &series.points {
            let here = cells.entry((scale.column(p.offered_pps), scale.row(p.delivered_pps))).or_default();
            if here.last().is_none_or(|&(last, _)| last != index) {
                here.push((index, p.offered_pps));
            }
        }
    }
    let columns: BTreeSet<u16> = cells.keys().map(|&(x, _)| x).collect();
    let nearest = columns.iter().zip(columns.iter().skip(1)).map(|(a, b)| b - a).min().unwrap_or(1);
    let room = usize::from(nearest / 2).max(1);
    let mut turn = 0;
    for ((x, y), mut here) in cells {
        let shown = here.len().min(room);
        let turns = here.len() > shown;
        let first = turn % here.len().max(1);
        here.rotate_left(first);
        turn += if turns { shown } else { 0 };
        // A peak comes before its turn.
        here.sort_by_key(|&(index, offered_pps)| {
            curve.series[index].peak().is_none_or(|p| p.offered_pps != offered_pps)
        });
        let left = (x - (shown as u16 - 1) / 2).clamp(scale.area.left(), scale.area.right() - shown as u16);
        for (to, &(index, offered_pps)) in (left..).zip(&here[..shown]) {
            // One row of difference does not count as separate.
            let row = row_at(&curve.series[index], scale, offered_pps, to).unwrap_or(y);
            let row = if row.abs_diff(y) <= 1 { y } else { row };
            let colour = Style::new().fg(Color::Indexed(TextStyle::hue(index)));
            buffer.set_string(to, row, style.mark(index).to_string(), colour);
        }
    }
}

/// The row of a series' line in a column beside one of its trials.
fn row_at(series: &Series, scale: &Scale, offered_pps: f64, column: u16) -> Option<u16> {
    let cells = f64::from(scale.area.width - 1);
    let at_pps = f64::from(column - scale.area.left()) / cells * scale.x;
    let pair = series.points.windows(2).find(|pair| {
        let [from, to] = [pair[0].offered_pps, pair[1].offered_pps];
        (from == offered_pps || to == offered_pps) && from <= at_pps && at_pps <= to && from < to
    })?;
    let share = (at_pps - pair[0].offered_pps) / (pair[1].offered_pps - pair[0].offered_pps);
    Some(scale.row(pair[0].delivered_pps + share * (pair[1].delivered_pps - pair[0].delivered_pps)))
}

/// The mark of each series with its peak, the load of the peak, and the rate at the highest load.
fn legend(curve: &Curve, style: TextStyle) -> String {
    let rows: Vec<[String; 4]> =
        curve.series.iter().map(|s| facts(s, curve.environment.line_rate_pps)).collect();
    let widest = |column: usize| rows.iter().map(|t| t[column].len()).max().unwrap_or(0);
    let [peak, at, left] = [0, 1, 2].map(widest);
    let name = curve.series.iter().map(|s| s.name.width()).max().unwrap_or(0);
    let mut text = String::new();
    for ((index, series), rows) in curve.series.iter().enumerate().zip(&rows) {
        let pad = " ".repeat(name - series.name.width());
        text += &format!("  {}", style.paint(index, &format!("{} {}", style.mark(index), series.name)));
        if !series.points.is_empty() {
            let [p, a, l, load] = rows;
            text += &format!("{pad}   peak {p:>peak$} at {a:>at$}, {l:>left$} at {load}");
        }
        text.push('\n');
    }
    text
}

/// The peak, its load, the rate at the highest load, and that load, in kpps; rates are sustained rates.
fn facts(series: &Series, line_rate_pps: Option<f64>) -> [String; 4] {
    let (Some(peak), Some(last)) = (series.peak(), series.points.last()) else { return Default::default() };
    let is_line_rate = |line_pps: f64| (last.offered_pps / line_pps - 1.0).abs() < 0.001;
    let load = match line_rate_pps.is_some_and(is_line_rate) {
        true => "line rate".to_owned(),
        false => kpps(last.offered_pps),
    };
    [kpps(peak.sustained_pps()), kpps(peak.offered_pps), kpps(last.sustained_pps()), load]
}

/// The drawing as text, with its colours.
pub(crate) fn to_text(buffer: &Buffer, style: TextStyle) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            match cell.fg {
                Color::Indexed(hue) if style.colour => {
                    line += &format!("\x1b[38;5;{hue}m{}\x1b[0m", cell.symbol());
                }
                _ => line += cell.symbol(),
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
