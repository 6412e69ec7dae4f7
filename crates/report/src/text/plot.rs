//! Delivered against offered load, drawn in characters.

use super::Look;
use crate::Curve;
use crate::format::kpps;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::widgets::Widget;
use ratatui_widgets::canvas::{Canvas, Line};
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

/// Columns left of the axis: a label and its tick.
const GUTTER: u16 = 7;

/// Delivered against offered load, all series in one plot with a mark of their own at each
/// trial, and the line on which everything offered would be delivered. Where series lie on top
/// of each other their marks take turns.
pub fn plot(curve: &Curve, look: Look) -> String {
    let points = || curve.series.iter().flat_map(|s| &s.points);
    let most_offered = points().map(|p| p.offered_pps).fold(0.0, f64::max);
    let most_delivered = points().map(|p| p.delivered_pps).fold(0.0, f64::max);
    if most_offered <= 0.0 {
        return "Nothing to draw: no load was offered.\n".to_owned();
    }
    let width = u16::try_from(look.width.clamp(40, 200)).unwrap_or(200);
    let area = Rect::new(GUTTER, 1, width - GUTTER - 2, (width / 4).clamp(12, 25));
    let scale = Scale {
        area,
        x: most_offered,
        y: ceiling(most_delivered.max(most_offered / 20.0) * 1.04, f64::from(area.height / 4)),
    };
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, area.bottom() + 3));
    axes(&mut buffer, &scale, look);
    curves(&mut buffer, curve, &scale, look);
    let mut text = to_text(&buffer, look);
    text.push('\n');
    text += &legend(curve, look);
    text
}

/// From packet rates to cells.
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

fn axes(buffer: &mut Buffer, scale: &Scale, look: Look) {
    let area = scale.area;
    let [upright, tick_left, level, tick_down, corner] =
        if look.ascii { ["|", "+", "-", "+", "+"] } else { ["│", "┤", "─", "┬", "└"] };
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

fn curves(buffer: &mut Buffer, curve: &Curve, scale: &Scale, look: Look) {
    // Nothing lost: a dot in every other column as long as it is inside.
    let ideal = if look.ascii { "." } else { "·" };
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
        let color = Color::Indexed(Look::hue(index));
        Canvas::default()
            .x_bounds([0.0, scale.x])
            .y_bounds([0.0, scale.y])
            .marker(if look.ascii { Marker::Custom('.') } else { Marker::Braille })
            .paint(|context| {
                for pair in series.points.windows(2) {
                    let [(x1, y1), (x2, y2)] = [0, 1].map(|i| (pair[i].offered_pps, pair[i].delivered_pps));
                    context.draw(&Line { x1, y1, x2, y2, color });
                }
            })
            .render(scale.area, buffer);
    }

    // All marks of a cell, so that those of equal series can take turns.
    let mut cells: BTreeMap<(u16, u16), Vec<usize>> = BTreeMap::new();
    for (index, series) in curve.series.iter().enumerate() {
        for point in &series.points {
            let here =
                cells.entry((scale.column(point.offered_pps), scale.row(point.delivered_pps))).or_default();
            if here.last() != Some(&index) {
                here.push(index);
            }
        }
    }
    let mut turn = 0;
    for ((x, y), here) in cells {
        let index = here[turn % here.len()];
        turn += usize::from(here.len() > 1);
        let style = Style::new().fg(Color::Indexed(Look::hue(index)));
        buffer.set_string(x, y, look.mark(index).to_string(), style);
    }
}

/// The mark of each series with its peak and what is left of it at its highest load.
fn legend(curve: &Curve, look: Look) -> String {
    let widest = curve.series.iter().map(|s| s.name.width()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, series) in curve.series.iter().enumerate() {
        let pad = " ".repeat(widest - series.name.width());
        text += &format!("  {}{pad}", look.paint(index, &format!("{} {}", look.mark(index), series.name)));
        if let Some(last) = series.points.last() {
            let peak = series.points.iter().map(|p| p.delivered_pps).fold(0.0, f64::max);
            let (at, left) = (kpps(last.offered_pps), kpps(last.delivered_pps));
            text += &format!("   peak {:>5}   {left:>5} of {at} kpps", kpps(peak));
        }
        text.push('\n');
    }
    text
}

fn to_text(buffer: &Buffer, look: Look) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            match cell.fg {
                Color::Indexed(hue) if look.colour => {
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
