//! Claims and figures on a terminal.

use super::evidence::{parts, sentences};
use super::value::{columns, figure as measured, hit, side, value};
use crate::text::TextStyle;
use kpps_documents::study::{Claim, Figure, Map, Study, Verdict};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::widgets::Widget;
use ratatui_widgets::canvas::{Canvas, Line};

/// The indentation of claims.
const INDENT: &str = "                 ";

/// The claims of each study with their verdicts, and a count at the end.
pub fn screen(study: &Study, style: TextStyle) -> String {
    let mut text = String::new();
    for article in &study.articles {
        text += &format!("{}: {}\n\n", article.name, article.title);
        for drawn in &article.figures {
            text += &figure(drawn, style);
            text.push('\n');
        }
        for map in &article.maps {
            text += &grid(map);
            text.push('\n');
        }
        let claims: Vec<&Claim> = study.of(&article.name).collect();
        let headings =
            ["Claims that are evidence", "Claims that are no evidence: fitted, arithmetic, set-up, wishes"];
        for (heading, claims) in headings.into_iter().zip(parts(&claims)) {
            if !claims.is_empty() {
                text += &format!("{heading}\n");
            }
            for claim in claims {
                text += &one(claim, style);
            }
            text.push('\n');
        }
    }
    let claims: Vec<&Claim> = study.claims.iter().collect();
    for sentence in sentences(&claims) {
        text += &lines(&sentence, style.width, 0);
    }
    text
}

/// A claim with its verdict and figures.
fn one(claim: &Claim, style: TextStyle) -> String {
    let mut text = format!("{:<5} {} ", claim.id, coloured(claim.verdict, style));
    text += &wrapped(&claim.says, style.width, 0);
    if !claim.expected.is_empty() {
        text += &format!("{INDENT}expected  {}", wrapped(&claim.expected, style.width, 10));
    }
    text += &figures(claim, style);
    for result in &claim.results {
        let judged = format!("blind {}, revised {}", hit(result.blind), hit(result.revised));
        let says = format!("{}: {judged} ({})", result.name, result.holds);
        text += &format!("{INDENT}predicted {}", wrapped(&says, style.width, 10));
    }
    if !claim.why.is_empty() {
        text += &format!("{INDENT}why       {}", wrapped(&claim.why, style.width, 10));
    }
    text
}

/// The figures of a claim: in a row if the document states none of them, or else in columns with the
/// document's.
fn figures(claim: &Claim, style: TextStyle) -> String {
    let (with_blind, rows) = columns(claim);
    if rows.is_empty() {
        let figures: Vec<_> =
            claim.values.iter().map(|(name, v)| format!("{name} {}", measured(claim, name, *v))).collect();
        let figures = wrapped(&figures.join(", "), style.width, 10);
        return if claim.values.is_empty() { String::new() } else { format!("{INDENT}measured  {figures}") };
    }
    let names = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
    let line = |word: &str, [name, blind, document, now]: &[String; 4]| {
        let blind = if with_blind { format!(" {blind:>11}") } else { String::new() };
        format!("{INDENT}{word:<9} {name:<names$}{blind} {document:>11} {now:>11}\n")
    };
    let now = if with_blind { "revised" } else { "model" };
    let header = line("measured", &["", "blind", "document", now].map(str::to_owned));
    header + &rows.iter().map(|row| line("", row)).collect::<String>()
}

/// A map as a table: `+` before a cell that is worse, `-` before one that is better.
fn grid(map: &Map) -> String {
    let names = map.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("{}\n{}\n", map.title, map.cell);
    let line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>8}")).collect();
        format!("  {name:<names$}{cells}\n")
    };
    text += &line(&map.columns_of, &map.columns);
    for row in &map.rows {
        let sign = |cell: f64| match side(cell) {
            "worse" => "+",
            "better" => "-",
            _ => "",
        };
        let shown = |cell: f64| format!("{}{cell:.2}", sign(cell));
        let cells: Vec<_> = row.cells.iter().map(|cell| cell.map_or("–".into(), shown)).collect();
        text += &line(&row.name, &cells);
    }
    text
}

fn coloured(verdict: Verdict, style: TextStyle) -> String {
    let hue = match verdict {
        Verdict::Pass => 36,
        Verdict::Predicted => 33,
        Verdict::Miss => 208,
        Verdict::Failed => 160,
    };
    if style.colour { format!("\x1b[38;5;{hue}m{verdict:<10}\x1b[0m") } else { format!("{verdict:<10}") }
}

/// `text` beside a claim, in lines that end before `width`, the second and later ones indented, the first
/// beginning where it stands.
fn wrapped(text: &str, width: usize, hang: usize) -> String {
    lines(text, width, INDENT.len() + hang)
}

/// `text` in lines that end before `width`, the second and later ones behind a margin.
fn lines(text: &str, width: usize, margin: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && margin + line + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{}", " ".repeat(margin))) + "\n"
}

/// A figure in characters: its lines, their names, and the ends of the axes.
fn figure(figure: &Figure, style: TextStyle) -> String {
    let points = || figure.lines.iter().flat_map(|line| &line.points);
    let (most_x, most_y) = crate::drawing::highest(figure);
    let mut text = format!("{}\n", figure.title);
    if most_x <= 0.0 || most_y <= 0.0 {
        return text + "  nothing was measured\n";
    }
    let least_x = points().map(|p| p.0).fold(f64::INFINITY, f64::min).min(most_x / 4.0);
    let least_x = if least_x < most_x / 4.0 { 0.0 } else { least_x };
    let width = u16::try_from(style.width.clamp(40, 160)).unwrap_or(160);
    let area = Rect::new(9, 0, width - 11, 14);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, area.height + 2));
    let plain = Style::new();
    let [upright, level, corner, dash] =
        if style.ascii { ["|", "-", "+", "'"] } else { ["│", "─", "└", "╌"] };
    for row in 0..area.height {
        buffer.set_string(8, row, upright, plain);
    }
    for part in 0..=2u16 {
        let row = (area.height - 1) - part * (area.height - 1) / 2;
        let label = value(most_y * 1.04 * f64::from(part) / 2.0);
        buffer.set_string(0, row, format!("{label:>7}"), plain);
    }
    buffer.set_string(8, area.height, corner, plain);
    for column in area.left()..area.right() {
        buffer.set_string(column, area.height, level, plain);
    }
    buffer.set_string(9, area.height + 1, value(least_x), plain);
    let right = value(most_x);
    buffer.set_string(area.right() - right.len() as u16, area.height + 1, &right, plain);
    let place = |(x, y): (f64, f64)| {
        let share = |at: f64, from: f64, to: f64| ((at - from) / (to - from)).clamp(0.0, 1.0);
        let column = area.left() + (share(x, least_x, most_x) * f64::from(area.width - 1)).round() as u16;
        let up = (share(y, 0.0, most_y * 1.04) * f64::from(area.height - 1)).round() as u16;
        (column, area.height - 1 - up)
    };
    for (index, stated) in figure.stated.iter().enumerate() {
        let points = stated.points(most_x, most_y);
        for pair in points.windows(2) {
            // As many steps as the screen has columns. Every other step is drawn.
            for step in (0..=width).step_by(2) {
                let share = f64::from(step) / f64::from(width);
                let between = |from: f64, to: f64| from + (to - from) * share;
                let at = (between(pair[0].0, pair[1].0), between(pair[0].1, pair[1].1));
                let (column, row) = place(at);
                buffer.set_string(column, row, dash, plain);
            }
        }
        if let Some(&last) = points.last() {
            let (column, row) = place(last);
            buffer.set_string(column.min(area.right() - 2), row, (index + 1).to_string(), plain);
        }
    }
    for (index, line) in figure.lines.iter().enumerate() {
        let color = Color::Indexed(TextStyle::hue(index));
        Canvas::default()
            .x_bounds([least_x, most_x])
            .y_bounds([0.0, most_y * 1.04])
            .marker(if style.ascii { Marker::Custom('.') } else { Marker::Braille })
            .paint(|context| {
                for pair in line.points.windows(2) {
                    let [(x1, y1), (x2, y2)] = [pair[0], pair[1]];
                    context.draw(&Line { x1, y1, x2, y2, color });
                }
            })
            .render(area, &mut buffer);
        for &point in &line.points {
            let (column, row) = place(point);
            buffer.set_string(column, row, style.mark(index).to_string(), Style::new().fg(color));
        }
    }
    text += &format!("{}\n{}", figure.y, crate::text::painted(&buffer, style));
    text += &format!("{:>width$}\n", figure.x, width = usize::from(area.right()));
    for (index, line) in figure.lines.iter().enumerate() {
        text += &format!("  {}\n", style.paint(index, &format!("{} {}", style.mark(index), line.name)));
    }
    for (index, stated) in figure.stated.iter().enumerate() {
        text += &format!("  {} in the document: {}\n", index + 1, stated.name);
    }
    text
}
