//! Drawings of pages: figures of lines and of layers, bars, and bands. They are markup without script.

use crate::study::value::value;
use kpps_results::study::{Figure, Stated};
use maud::{Markup, html as markup};

/// The style sheet of drawings.
pub(crate) const CSS: &str = include_str!("../assets/drawing.css");

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 40.0;
const BAND: f64 = 26.0;

/// A step of 1, 2 or 5 times a power of ten that goes into `most` two to five times.
fn round_step(most: f64) -> f64 {
    let power = 10f64.powf((most / 2.0).log10().floor());
    let steps = [5.0, 2.0, 1.0].into_iter().map(|digit| digit * power);
    steps.into_iter().find(|step| most / step >= 2.0).unwrap_or(power)
}

/// A round number without zeros at its end.
fn round(tick: f64) -> String {
    let text = value(tick);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The axes of a figure: from 0 to the highest value in each direction.
struct Axes {
    most_x: f64,
    most_y: f64,
}

impl Axes {
    fn new(most_x: f64, most_y: f64) -> Self {
        Self { most_x: most_x.max(f64::MIN_POSITIVE), most_y: most_y.max(f64::MIN_POSITIVE) * 1.05 }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + value / self.most_x * (WIDTH - LEFT - 16.0)
    }

    fn y(&self, value: f64) -> f64 {
        (HEIGHT - BOTTOM) - value / self.most_y * (HEIGHT - BOTTOM - 12.0)
    }

    /// `M` for the first point, `L` for the others.
    fn path<'p>(&self, points: impl IntoIterator<Item = &'p (f64, f64)>) -> String {
        let step = |(i, &(a, b)): (usize, &(f64, f64))| {
            format!("{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, self.x(a), self.y(b))
        };
        points.into_iter().enumerate().map(step).collect()
    }

    /// Numbers along both, and lines to follow them.
    fn drawn(&self) -> Markup {
        let ticks = |most: f64| {
            let step = round_step(most);
            (0..).map(move |n| step * f64::from(n)).take_while(move |tick| *tick <= most)
        };
        markup! {
            @for tick in ticks(self.most_y / 1.05) {
                path.grid d={ "M" (LEFT) " " (format!("{:.1}", self.y(tick))) "H" (WIDTH - 16.0) } {}
                text x=(LEFT - 8.0) y=(format!("{:.1}", self.y(tick) + 4.0)) text-anchor="end" { (round(tick)) }
            }
            @for tick in ticks(self.most_x) {
                // The last number ends where the drawing does.
                @let (x, anchor) = if self.x(tick) > WIDTH - 40.0 { (WIDTH - 2.0, "end") } else { (self.x(tick), "middle") };
                text x=(format!("{x:.1}")) y=(HEIGHT - BOTTOM + 20.0) text-anchor=(anchor) { (round(tick)) }
            }
        }
    }
}

fn frame(figure: &Figure, drawing: Markup, names: Markup) -> Markup {
    markup! {
        h2 { (figure.title) }
        p.hint { (figure.y) " over " (figure.x) }
        svg.figure viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (figure.title) ". The values are in the table below." } {
            (drawing)
        }
        (names)
        details {
            summary { "The values" }
            div.scroll { table {
                thead { tr { th { "Line" } th { (figure.x) } th { (figure.y) } } }
                tbody {
                    @for line in &figure.lines { @for &(a, b) in &line.points {
                        tr { td { (line.name) } td { (value(a)) } td { (value(b)) } }
                    } }
                    @for stated in &figure.stated { @let cell = |at: Option<f64>| at.map_or("–".into(), value);
                        @if stated.line.is_empty() {
                            tr { td { (in_document(stated)) } td { (cell(stated.x)) } td { (cell(stated.y)) } }
                        }
                        @for &(a, b) in &stated.line {
                            tr { td { (in_document(stated)) } td { (value(a)) } td { (value(b)) } }
                        }
                    }
                }
            } }
        }
    }
}

fn named<'n>(names: impl Iterator<Item = (&'n str, String)>) -> Markup {
    markup! { ul.lines { @for (name, colour) in names { li { (dot(&colour)) (name) } } } }
}

fn dot(colour: &str) -> Markup {
    markup! { svg.dot viewBox="0 0 10 10" aria-hidden="true" { circle cx="5" cy="5" r="4" fill={ "var(--" (colour) ")" } {} } }
}

fn in_document(stated: &Stated) -> String {
    format!("in the document: {}", stated.name)
}

/// The highest values of a figure, along x and up.
pub(crate) fn highest(figure: &Figure) -> (f64, f64) {
    let points = figure.lines.iter().flat_map(|line| line.points.iter().copied());
    let stated = figure.stated.iter().flat_map(|stated| stated.points(0.0, 0.0));
    points.chain(stated).fold((0.0f64, 0.0f64), |(x, y), p| (x.max(p.0), y.max(p.1)))
}

/// A figure as a drawing, with a list of its lines, and its points in a table for those who cannot see it.
/// What the document states is dashed, with its number.
pub(crate) fn lines(figure: &Figure) -> Markup {
    let (most_x, most_y) = highest(figure);
    let axes = Axes::new(most_x, most_y);
    let drawing = markup! {
        (axes.drawn())
        @for (index, line) in figure.lines.iter().enumerate() {
            path.line d=(axes.path(&line.points)) stroke={ "var(--s" (index % 8) ")" } {}
            @for &(a, b) in line.points.iter().filter(|_| line.points.len() <= 40) {
                circle cx=(format!("{:.1}", axes.x(a))) cy=(format!("{:.1}", axes.y(b))) r="2.6" fill={ "var(--s" (index % 8) ")" } {}
            }
        }
        @for (index, stated) in figure.stated.iter().enumerate() {
            @let points = stated.points(most_x, most_y);
            @match &points[..] {
                [(a, b)] => circle.stated cx=(format!("{:.1}", axes.x(*a))) cy=(format!("{:.1}", axes.y(*b))) r="4" {},
                many => path.stated d=(axes.path(many)) {},
            }
            // The number stands at the line's end, or beside a level's beginning.
            @if let Some(&(a, b)) = if stated.x.is_none() && stated.y.is_some() { points.first() } else { points.last() } {
                text.stated x=(format!("{:.1}", axes.x(a).min(WIDTH - 30.0) + 6.0)) y=(format!("{:.1}", axes.y(b).max(18.0) - 5.0)) { (index + 1) }
            }
        }
    };
    let names = figure.lines.iter().enumerate().map(|(i, line)| (&*line.name, format!("s{}", i % 8)));
    let names = markup! {
        (named(names))
        @if !figure.stated.is_empty() {
            ol.stated { @for stated in &figure.stated { li { (in_document(stated)) } } }
        }
    };
    frame(figure, drawing, names)
}

/// A stacked area figure. All lines have the same x values. The colours are names of the style sheet; `most`
/// is the highest y value, if it is not that of the highest stack.
pub(crate) fn layers(figure: &Figure, colours: &[String], most: Option<f64>) -> Markup {
    let first = figure.lines.first().map_or(&[][..], |line| &line.points[..]);
    let xs: Vec<f64> = first.iter().map(|point| point.0).collect();
    let mut tops = vec![vec![0.0; xs.len()]];
    for (index, line) in figure.lines.iter().enumerate() {
        let top = tops[index].iter().zip(&line.points).map(|(below, point)| below + point.1).collect();
        tops.push(top);
    }
    let highest = tops.last().into_iter().flatten().copied().fold(0.0, f64::max);
    let axes = Axes::new(xs.iter().copied().fold(0.0, f64::max), most.unwrap_or(highest));
    let edge = |top: &[f64]| xs.iter().copied().zip(top.iter().copied()).collect::<Vec<_>>();
    let area = |below: &[f64], top: &[f64]| {
        let (below, top) = (edge(below), edge(top));
        axes.path(top.iter().chain(below.iter().rev())) + "Z"
    };
    let drawing = markup! {
        (axes.drawn())
        @for (pair, colour) in tops.windows(2).zip(colours) {
            path d=(area(&pair[0], &pair[1])) fill={ "var(--" (colour) ")" } {}
        }
    };
    let names = figure.lines.iter().zip(colours).map(|(line, colour)| (&*line.name, colour.clone()));
    frame(figure, drawing, named(names))
}

/// A bar: its name, its length from 0 to 1, its colour, and its label.
pub(crate) struct Bar {
    pub name: String,
    pub share: f64,
    pub colour: &'static str,
    pub says: String,
}

/// Bars below each other, in groups with a name.
pub(crate) fn bars(groups: &[(String, Vec<Bar>)]) -> Markup {
    markup! {
        div.bars { @for (name, bars) in groups {
            div.group[!name.is_empty()] {
                @if !name.is_empty() { b { (name) } }
                div { @for bar in bars {
                    div.bar {
                        span { (bar.name) }
                        div.track { i style={ "width:" (format!("{:.2}", bar.share.clamp(0.0, 1.0) * 100.0)) "%;background:var(--" (bar.colour) ")" } {} }
                        span.value { (bar.says) }
                    }
                } }
            }
        } }
    }
}

/// A part: its name, its size, its colour.
pub(crate) type Part = (String, f64, String);

/// Parts of a whole side by side, with widths in proportion to their sizes.
pub(crate) fn band(parts: &[Part], whole: f64) -> Markup {
    let mut at = 0.0;
    let mut placed = Vec::new();
    for (name, much, colour) in parts.iter().filter(|part| part.1 > 0.0) {
        let width = much / whole.max(f64::MIN_POSITIVE) * WIDTH;
        placed.push((name, much, colour, at, width));
        at += width;
    }
    markup! {
        svg.figure.band viewBox={ "0 0 " (WIDTH) " " (BAND) } preserveAspectRatio="none" role="img" aria-label="The parts are listed below." {
            @for (name, much, colour, x, width) in placed {
                rect x=(format!("{x:.2}")) y="0" width=(format!("{width:.2}")) height=(BAND) fill={ "var(--" (colour) ")" } {
                    title { (name) ": " (much) }
                }
            }
        }
    }
}

/// The legend of a band.
pub(crate) fn legend(parts: &[Part], unit: &str) -> Markup {
    markup! {
        ul.lines {
            @for (name, much, colour) in parts.iter().filter(|part| part.1 != 0.0) {
                li { (dot(colour)) (name) " " b { (round(*much)) } (unit) }
            }
        }
    }
}

/// Percentiles of a latency as bars, on a logarithmic axis from a microsecond up to `most_ns`.
pub(crate) fn percentiles(latency: &kpps_results::Latency, most_ns: u64) -> Vec<Bar> {
    let most = (most_ns.max(10_000) as f64 / 1e3).ln();
    let all = [("p50", latency.p50), ("p99", latency.p99), ("p99.9", latency.p999), ("max", latency.max)];
    let bar = |(name, ns): (&str, Option<u64>)| Bar {
        name: name.into(),
        // Even the shortest time is visible.
        share: ns.map_or(0.0, |ns| ((ns as f64 / 1e3).max(1.0).ln() / most).max(0.003)),
        colour: "s0",
        says: ns.map_or("–".into(), |ns| format!("{:.1} µs", ns as f64 / 1e3)),
    };
    all.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_results::study::Line;

    #[test]
    fn layers_lie_on_each_other() {
        let line = |name: &str, at: f64| Line { name: name.into(), points: vec![(0.0, at), (10.0, at)] };
        let figure = Figure {
            title: "t".into(),
            x: "x".into(),
            y: "y".into(),
            stated: Vec::new(),
            lines: vec![line("low", 10.0), line("high", 30.0)],
        };
        let text = layers(&figure, &["p0".into(), "p1".into()], Some(100.0)).into_string();
        let axes = Axes::new(10.0, 100.0);
        let (zero, ten, forty) = (axes.y(0.0), axes.y(10.0), axes.y(40.0));
        let (left, right) = (axes.x(0.0), axes.x(10.0));
        for (below, top, colour) in [(zero, ten, "p0"), (ten, forty, "p1")] {
            let area = format!(
                "M{left:.1} {top:.1}L{right:.1} {top:.1}L{right:.1} {below:.1}L{left:.1} {below:.1}Z\" fill=\"var(--{colour})\""
            );
            assert!(text.contains(&area), "{area} in {text}");
        }
    }

    #[test]
    fn bars_are_as_long_as_they_say() {
        let latency = kpps_results::Latency {
            p50: Some(1_000),
            p99: Some(31_623),
            p999: None,
            max: Some(1_000_000),
            error_ns: None,
        };
        let bars = percentiles(&latency, 1_000_000);
        let shares: Vec<_> = bars.iter().map(|bar| (bar.share * 1000.0).round()).collect();
        assert_eq!(shares, [3.0, 500.0, 0.0, 1000.0]);
        let text = super::bars(&[("64 B".into(), bars)]).into_string();
        assert!(text.contains("width:50.00%") && text.contains("31.6 µs") && text.contains("64 B"));
    }
}
