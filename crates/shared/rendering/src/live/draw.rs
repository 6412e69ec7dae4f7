//! A snapshot on a whole screen.
//!
//! On a small screen the last parts are left out. The order is: rates, losses, CPUs, streams, the last
//! trials.

use super::cpu::LiveCpu;
use super::line::{done, duration, share};
use super::sample::{Footer, Lost, MINUTE, Rates, Snapshot, StreamCount};
use kpps_documents::words::{in_kpps, rate};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, Widget};

/// The symbols of the parts of a bar, which differ without colours, too.
const PARTS: [(&str, Color); 5] = [
    ("█", Color::Red),
    ("▓", Color::Yellow),
    ("▒", Color::Blue),
    ("░", Color::Magenta),
    ("·", Color::DarkGray),
];
/// Columns of names and numbers before a bar.
const LABEL: u16 = 24;
/// With fewer rows there are no empty ones.
const ROOMY: u16 = 18;

/// Draws into an area; without colours where they are not wanted.
pub fn draw(snapshot: &Snapshot, area: Rect, buffer: &mut Buffer, colour: bool) {
    let styles = Styles { colour };
    let mut rows = Rows { area, next: area.top() };
    let roomy = area.height >= ROOMY;
    let gap = u16::from(roomy);
    let (title, doing) = (Span::styled(&*snapshot.title, styles.strong()), Span::raw(&*snapshot.doing));
    rows.two_ends(buffer, title, Span::raw(duration(snapshot.elapsed)));
    rows.two_ends(buffer, doing, Span::styled(done(snapshot), styles.soft()));
    rows.skip(gap);
    rates(snapshot, rows.take(3), buffer, styles);
    rows.skip(gap);
    // The last row says how it ends.
    let Some(mut left) = (area.bottom().saturating_sub(rows.next)).checked_sub(1) else { return };
    // On a small screen the CPUs get at most half of the rows that are left: one for each, and a legend.
    let cores = match snapshot.cpus.len() as u16 {
        0 => 0,
        cores => cores.saturating_add(1),
    };
    let for_cores = cores.min((left / 2).max(1));
    left = left.saturating_sub(for_cores + 2 * gap);
    // Without sent frames there is no loss.
    let places = match &snapshot.lost {
        Lost { due: 0, .. } => 0,
        lost => lost.places.len() as u16 + 1 + u16::from(unexplained(lost) > 0),
    };
    let for_places = places.min(if roomy { left.saturating_sub(4).max(2) } else { left });
    lost(&snapshot.lost, rows.take(for_places), buffer, styles);
    rows.skip(gap.min(places));
    cpus(&snapshot.cpus, rows.take(for_cores), buffer, styles);
    rows.skip(gap);
    let end = Rect { y: area.bottom() - 1, height: 1, ..area };
    let rest = end.y.saturating_sub(rows.next);
    let for_streams = match snapshot.streams.0.len() as u16 {
        0 => 0,
        all => all.saturating_add(1).min(rest),
    };
    streams(&snapshot.streams, rows.take(for_streams), buffer, styles);
    trials(snapshot, Rect { y: rows.next, height: end.y.saturating_sub(rows.next), ..area }, buffer, styles);
    let words = match &snapshot.footer {
        Footer::Ends => "q ends the run; results so far are kept".to_owned(),
        Footer::ChangesRate => "q ends the run; + and - change the load, or type one".to_owned(),
        Footer::Typing(rate) => format!("load: {rate}▏ Enter sets it, Esc does not"),
        Footer::Says(what) => what.clone(),
        Footer::Ending => "ending …; Ctrl-C again ends at once".to_owned(),
    };
    Line::styled(words, styles.soft()).render(end, buffer);
}

#[derive(Clone, Copy)]
struct Styles {
    colour: bool,
}

impl Styles {
    fn strong(self) -> Style {
        Style::default().add_modifier(Modifier::BOLD)
    }
    fn soft(self) -> Style {
        Style::default().add_modifier(Modifier::DIM)
    }
    fn in_colour(self, colour: Color) -> Style {
        if self.colour { Style::default().fg(colour) } else { Style::default() }
    }
}

/// Rows from the top of an area down.
struct Rows {
    area: Rect,
    next: u16,
}

impl Rows {
    fn take(&mut self, rows: u16) -> Rect {
        let rows = rows.min(self.area.bottom().saturating_sub(self.next));
        let taken = Rect { y: self.next, height: rows, ..self.area };
        self.next += rows;
        taken
    }

    fn skip(&mut self, rows: u16) {
        self.take(rows);
    }

    /// A row with words at both ends. The right ones stay whole.
    fn two_ends(&mut self, buffer: &mut Buffer, left: Span<'_>, right: Span<'_>) {
        let row = self.take(1);
        let width = (right.width() as u16).min(row.width);
        let place = Rect { width: row.width.saturating_sub(width + 1), ..row };
        left.render(place, buffer);
        right.render(Rect { x: row.right() - width, width, ..row }, buffer);
    }
}

/// The rates, each with a sparkline of its last minute. All three have one scale.
fn rates(snapshot: &Snapshot, area: Rect, buffer: &mut Buffer, styles: Styles) {
    let kpps = |pps: Option<f64>| format!("{:>15}", pps.map_or("-".into(), rate));
    type Of = fn(&Rates) -> Option<f64>;
    let rates: [(&str, Of); 3] = [
        ("offered", |rates| rates.offered_pps),
        ("sent", |rates| Some(rates.sent_pps)),
        ("received", |rates| Some(rates.received_pps)),
    ];
    let width = area.width.saturating_sub(LABEL + 1).min(MINUTE as u16);
    let minute = |of: Of| {
        let seconds: Vec<f64> = snapshot.minute.iter().map(|rates| of(rates).unwrap_or(0.0)).collect();
        if width == 0 { Vec::new() } else { last_minute(&seconds, width.into()) }
    };
    let lines = rates.map(|(_, of)| minute(of));
    let most = lines.iter().flatten().copied().max().unwrap_or(0);
    for (((name, of), bars), y) in rates.into_iter().zip(&lines).zip(area.top()..area.bottom()) {
        let rate = kpps(snapshot.rates.as_ref().and_then(of));
        let words = Line::from(vec![Span::raw(format!("{name:<8}")), Span::styled(rate, styles.strong())]);
        words.render(Rect { y, height: 1, width: LABEL.min(area.width), ..area }, buffer);
        let place = Rect { x: area.x + LABEL + 1, y, width, height: 1 };
        if bars.iter().any(|bar| *bar > 0) {
            let line = Sparkline::default().data(bars).max(most);
            line.style(styles.in_colour(Color::Cyan)).render(place.intersection(area), buffer);
        }
    }
}

/// The last minute in `columns` columns, the latest at the right. A column is the mean of its seconds.
fn last_minute(minute: &[f64], columns: usize) -> Vec<u64> {
    let columns = columns.min(MINUTE);
    let mut seconds = vec![None; MINUTE - minute.len().min(MINUTE)];
    seconds.extend(minute.iter().rev().take(MINUTE).rev().map(|pps| Some(*pps)));
    let of = |column: usize| {
        let range = column * MINUTE / columns..(column + 1) * MINUTE / columns;
        let known: Vec<f64> = seconds[range].iter().copied().flatten().collect();
        (known.iter().sum::<f64>() / known.len().max(1) as f64).round() as u64
    };
    (0..columns).map(of).collect()
}

/// Lost frames that no place has counted.
fn unexplained(lost: &Lost) -> u64 {
    lost.frames.saturating_sub(lost.places.iter().map(|place| place.1).sum())
}

fn lost(lost: &Lost, area: Rect, buffer: &mut Buffer, styles: Styles) {
    if area.height == 0 {
        return;
    }
    let mut rows = Rows { area, next: area.top() };
    let when = if lost.so_far { "missing so far" } else { "lost" };
    let Lost { frames, due, .. } = lost;
    let words = format!("{when}: {frames} of {due}, {:.4} %", share(*frames, *due) * 100.0);
    rows.two_ends(buffer, Span::styled(words, styles.strong()), Span::raw(""));
    let rest = if lost.so_far { "in flight, or not counted yet" } else { "unexplained" };
    let unexplained = Some((rest.to_owned(), unexplained(lost))).filter(|(_, frames)| *frames > 0);
    let all: Vec<_> = lost.places.iter().chain(&unexplained).collect();
    let most = all.iter().map(|(_, frames)| *frames).max().unwrap_or(0);
    let fit = usize::from(area.bottom().saturating_sub(rows.next));
    let name_width = usize::from(area.width).saturating_sub(14).clamp(10, 30);
    // The smallest losses are last; places that do not fit are not shown.
    for (place, frames) in all.into_iter().take(fit) {
        let row = rows.take(1);
        let label = Span::raw(format!("  {:<name_width$} {frames:>10}  ", cut(place, name_width)));
        let from = (label.width() as u16).min(row.width);
        label.render(row, buffer);
        let length = (share(*frames, most) * f64::from(row.width - from)).round() as usize;
        let bar = Span::styled("█".repeat(length), styles.in_colour(Color::LightRed));
        bar.render(Rect { x: row.x + from, width: row.width - from, ..row }, buffer);
    }
}

/// The beginning of a text, with a limited number of characters.
fn cut(text: &str, columns: usize) -> String {
    match text.chars().count() <= columns {
        true => text.to_owned(),
        false => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A bar for each CPU, and a legend; with more CPUs than rows only how busy each is.
fn cpus(cpus: &[LiveCpu], area: Rect, buffer: &mut Buffer, styles: Styles) {
    let row = |y: u16| Rect { y: area.y + y, height: 1, ..area }.intersection(area);
    if cpus.len() >= usize::from(area.height) {
        return crowd(cpus, area, buffer);
    }
    let parts = || cpus.iter().flat_map(|cpu| &cpu.busy);
    let width = area.width.saturating_sub(14).min(64);
    for (number, (cpu, y)) in cpus.iter().zip(0..).enumerate() {
        let mut spans = vec![Span::raw(format!("CPU {number:<3}{:>3.0} % ", busy(cpu) * 100.0))];
        let (mut drawn, mut reached) = (0, 0.0);
        for ((_, part), (symbol, colour)) in cpu.busy.iter().zip(PARTS) {
            reached += part;
            let to = (reached * f64::from(width)).round() as usize;
            spans.push(Span::styled(symbol.repeat(to.saturating_sub(drawn)), styles.in_colour(colour)));
            drawn = drawn.max(to);
        }
        Line::from(spans).render(row(y), buffer);
    }
    // Only the parts that occur.
    let mut spans = Vec::new();
    if let Some(first) = cpus.first() {
        for ((name, _), (symbol, colour)) in first.busy.iter().zip(PARTS) {
            if parts().any(|(other, part)| other == name && *part >= 0.005) {
                spans.push(Span::styled(symbol, styles.in_colour(colour)));
                spans.push(Span::styled(format!("{name} "), styles.soft()));
            }
        }
    }
    Line::from(spans).render(row(cpus.len() as u16), buffer);
}

/// Many CPUs: a summary in a line, then as many as fit.
fn crowd(cpus: &[LiveCpu], area: Rect, buffer: &mut Buffer) {
    let most = cpus.iter().map(busy).fold(0.0, f64::max);
    let mean = cpus.iter().map(busy).sum::<f64>() / cpus.len().max(1) as f64;
    let words = format!("{} CPUs: mean {:.0} %, most {:.0} %", cpus.len(), mean * 100.0, most * 100.0);
    if area.height > 0 {
        Span::raw(words).render(Rect { height: 1, ..area }, buffer);
    }
    let column = 9;
    let columns = (area.width / column).max(1);
    for (number, cpu) in cpus.iter().enumerate() {
        let (row, at) = (1 + number as u16 / columns, number as u16 % columns);
        let place = Rect { x: area.x + at * column, y: area.y + row, width: column, height: 1 };
        let words = format!("{number:>3}{:>4.0}%", busy(cpu) * 100.0);
        Span::raw(words).render(place.intersection(area), buffer);
    }
}

fn busy(cpu: &LiveCpu) -> f64 {
    cpu.busy.iter().map(|part| part.1).sum()
}

/// The streams that fit, and in the heading how many there are.
fn streams((all, count): &(Vec<StreamCount>, usize), area: Rect, buffer: &mut Buffer, styles: Styles) {
    if all.is_empty() || area.height < 2 {
        return;
    }
    let fit = usize::from(area.height - 1).min(all.len());
    let name = if fit < *count { format!("{fit} of {count} streams") } else { "stream".into() };
    let width = usize::from(area.width).saturating_sub(40).clamp(16, 40);
    let heading = format!("{name:<width$} {:>12} {:>12} {:>12}", "sent", "received", "missing");
    Line::styled(heading, styles.soft()).render(Rect { height: 1, ..area }, buffer);
    for (stream, y) in all.iter().zip(area.top() + 1..area.bottom()) {
        let StreamCount { name, sent, received } = stream;
        let words =
            format!("{:<width$} {sent:>12} {received:>12} {:>12}", cut(name, width), stream.missing());
        Span::raw(words).render(Rect { y, height: 1, ..area }, buffer);
    }
}

fn trials(snapshot: &Snapshot, area: Rect, buffer: &mut Buffer, styles: Styles) {
    // No heading without rows.
    if snapshot.trials.is_empty() || area.height < 2 {
        return;
    }
    let heading = format!("{:>14} {:>14} {:>10}", "offered, kpps", "received, kpps", "lost, %");
    Line::styled(heading, styles.soft()).render(Rect { height: 1, ..area }, buffer);
    for (trial, y) in snapshot.trials.iter().zip(area.top() + 1..area.bottom()) {
        let offered = trial.offered_pps.map_or("-".into(), in_kpps);
        let (received, lost) = (in_kpps(trial.received_pps), trial.loss_ratio * 100.0);
        let words = format!("{offered:>14} {received:>14} {lost:>10.4}");
        Span::raw(words).render(Rect { y, height: 1, ..area }, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::last_minute;

    #[test]
    fn a_minute_has_its_columns() {
        let minute: Vec<f64> = (1..=30).map(f64::from).collect();
        let wide = last_minute(&minute, 60);
        assert_eq!((wide.len(), wide[29], wide[30], wide[59]), (60, 0, 1, 30));
        let narrow = last_minute(&minute, 15);
        // Four seconds each: the mean of 27, 28, 29 and 30 is 28.5.
        assert_eq!((narrow.len(), narrow[6], narrow[14]), (15, 0, 29));
        assert_eq!(last_minute(&minute, 100).len(), 60);
        let longer: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(last_minute(&longer, 60)[0], 41);
    }
}
