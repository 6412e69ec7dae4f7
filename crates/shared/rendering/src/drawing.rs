//! Drawings of pages: figures of lines and of layers, bars, and bands. They are markup without script.

use crate::study::value::value;
use kpps_documents::study::{Figure, Stated};
use maud::{Markup, html as markup};

/// The style sheet of drawings.
pub(crate) const CSS: &str = include_str!("../assets/drawing.css");

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 336.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
/// Above the drawing is the name of the upward axis, below it numbers and the name of the other one.
const TOP: f64 = 48.0;
const BOTTOM: f64 = 58.0;
const BAND: f64 = 26.0;
/// Numbers along the lower axis are at least this far from each other, in the largest type: that of a
/// telephone.
const BETWEEN: f64 = 84.0;

/// A step of 1, 2 or 5 times a power of ten that goes into `most` two to five times.
fn round_step(most: f64) -> f64 {
    let power = 10f64.powf((most / 2.0).log10().floor());
    let steps = [5.0, 2.0, 1.0].into_iter().map(|digit| digit * power);
    steps.into_iter().find(|step| most / step >= 2.0).unwrap_or(power)
}

/// A round number without zeros at its end.
fn round(tick: f64) -> String {
    let text = value(tick);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// One axis: the values at its ends, and whether it is logarithmic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    /// From 0 to this value; to 1 if there is nothing above 0.
    pub(crate) fn up_to(most: f64) -> Self {
        let to = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        Self { from: 0.0, to, logarithmic: false }
    }

    /// From one value to a higher one.
    pub(crate) fn between(from: f64, to: f64) -> Self {
        if from < to { Self { from, to, logarithmic: false } } else { Self::up_to(to) }
    }

    /// A logarithmic axis that has all of these values which are above 0; one up to 1 if there are none.
    pub(crate) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().filter(|value| *value > 0.0 && value.is_finite());
        let (from, to) = values.fold((f64::INFINITY, 0.0f64), |(a, b), it| (a.min(it), b.max(it)));
        match from <= to {
            // The least value is not on the edge, and one value alone has a place.
            true => Self { from: from / 1.25, to: to * 1.25, logarithmic: true },
            false => Self::up_to(1.0),
        }
    }

    /// The position of a value on the axis, 0 to 1; `None` for a value outside of the axis.
    fn within(&self, value: f64) -> Option<f64> {
        let place = match self.logarithmic {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        (-1e-9..=1.0 + 1e-9).contains(&place).then_some(place)
    }

    /// Round values along it, at most about ten.
    fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            let step = round_step(self.to - self.from);
            let first = (self.from / step).ceil();
            return (0..).map(|n| step * (first + f64::from(n))).take_while(|it| *it <= self.to).collect();
        }
        let decades = (self.to / self.from).log10();
        let digits: &[f64] = match decades {
            few if few < 0.4 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            few if few < 0.8 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            few if few < 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let all = (self.from.log10().floor() as i32..=self.to.log10().ceil() as i32)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
        all.filter(|tick| (self.from..=self.to).contains(tick)).collect()
    }
}

/// The axes of a figure.
struct Axes<'f> {
    across: Axis,
    up: Axis,
    figure: &'f Figure,
}

impl Axes<'_> {
    fn x(&self, value: f64) -> Option<f64> {
        Some(LEFT + self.across.within(value)? * (WIDTH - LEFT - RIGHT))
    }

    fn y(&self, value: f64) -> Option<f64> {
        Some((HEIGHT - BOTTOM) - self.up.within(value)? * (HEIGHT - BOTTOM - TOP))
    }

    /// The place of a point, if the axes have it.
    fn at(&self, &(a, b): &(f64, f64)) -> Option<(f64, f64)> {
        Some((self.x(a)?, self.y(b)?))
    }

    /// `M` for the first point, `L` for the others.
    fn path<'p>(&self, points: impl IntoIterator<Item = &'p (f64, f64)>) -> String {
        let step =
            |(i, (x, y)): (usize, (f64, f64))| format!("{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
        points.into_iter().filter_map(|point| self.at(point)).enumerate().map(step).collect()
    }

    /// Numbers along both with lines to follow them, and their labels.
    fn drawn(&self) -> Markup {
        let low = HEIGHT - BOTTOM;
        let mut across: Vec<(f64, f64)> =
            self.across.ticks().into_iter().filter_map(|tick| Some((tick, self.x(tick)?))).collect();
        // Where numbers are close to each other, some are left out.
        let mut end = f64::NEG_INFINITY;
        across.retain(|&(_, x)| {
            let fits = x >= end;
            end = if fits { x + BETWEEN } else { end };
            fits
        });
        markup! {
            text x="0" y="20" { (self.figure.y) }
            @for (tick, y) in self.up.ticks().into_iter().filter_map(|tick| Some((tick, self.y(tick)?))) {
                path.grid d={ "M" (LEFT) " " (format!("{y:.1}")) "H" (WIDTH - RIGHT) } {}
                text x=(LEFT - 8.0) y=(format!("{:.1}", y + 4.0)) text-anchor="end" { (round(tick)) }
            }
            @for (tick, x) in across {
                path.grid d={ "M" (format!("{x:.1}")) " " (low) "v5" } {}
                // The last number ends where the drawing does.
                @let (x, anchor) = if x > WIDTH - 40.0 { (WIDTH - 2.0, "end") } else { (x, "middle") };
                text x=(format!("{x:.1}")) y=(low + 22.0) text-anchor=(anchor) { (round(tick)) }
            }
            text x=(WIDTH - 2.0) y=(HEIGHT - 8.0) text-anchor="end" { (self.figure.x) }
        }
    }
}

/// A figure with its title, drawing and list of names, and its values in a table. Its note is for the reader
/// before the figure.
fn frame(figure: &Figure, note: &str, drawing: &Markup, names: &Markup) -> Markup {
    markup! {
        h2 { (figure.title) }
        @if !note.is_empty() { p.hint { (note) } }
        svg.figure viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (figure.title) ": " (figure.y) " over " (figure.x) ". The values are in the table below." } {
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
/// Values that the document states are dashed, with their numbers.
pub(crate) fn lines(figure: &Figure) -> Markup {
    let (most_x, most_y) = highest(figure);
    lines_on(figure, "", Axis::up_to(most_x), Axis::up_to(most_y * 1.05))
}

/// The same on these axes, with a note. Points beside an axis are in the table only.
pub(crate) fn lines_on(figure: &Figure, note: &str, across: Axis, up: Axis) -> Markup {
    let axes = Axes { across, up, figure };
    let stated: Vec<_> = figure.stated.iter().map(|it| it.points(across.to, up.to)).collect();
    let drawing = markup! {
        (axes.drawn())
        @for (index, line) in figure.lines.iter().enumerate() {
            path.line d=(axes.path(&line.points)) stroke={ "var(--s" (index % 8) ")" } {}
            @for (x, y) in line.points.iter().filter(|_| line.points.len() <= 40).filter_map(|it| axes.at(it)) {
                circle cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="2.6" fill={ "var(--s" (index % 8) ")" } {}
            }
        }
        @for points in &stated {
            @match (&points[..], points.first().and_then(|it| axes.at(it))) {
                ([_], Some((x, y))) => circle.stated cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="4" {},
                _ => path.stated d=(axes.path(points)) {},
            }
        }
        @for (number, (x, y)) in numbers(&axes, figure, &stated) {
            text.stated x=(format!("{x:.1}")) y=(format!("{y:.1}")) { (number) }
        }
    };
    let names = figure.lines.iter().enumerate().map(|(i, line)| (&*line.name, format!("s{}", i % 8)));
    let names = markup! {
        (named(names))
        @if !figure.stated.is_empty() {
            ol.stated { @for stated in &figure.stated { li { (in_document(stated)) } } }
        }
    };
    frame(figure, note, &drawing, &names)
}

/// The size of a number beside a document's statement, in the largest type.
const NUMBER: (f64, f64) = (26.0, 24.0);

/// The numbers of a document's statements, with their places: at a line's end, or beside a level's beginning,
/// and where none of the others stands.
fn numbers(axes: &Axes<'_>, figure: &Figure, stated: &[Vec<(f64, f64)>]) -> Vec<(usize, (f64, f64))> {
    let mut placed: Vec<(usize, (f64, f64))> = Vec::new();
    for (index, (what, points)) in figure.stated.iter().zip(stated).enumerate() {
        let is_level = what.x.is_none() && what.y.is_some();
        let Some((x, y)) = (if is_level { points.first() } else { points.last() }).and_then(|it| axes.at(it))
        else {
            continue;
        };
        let beside = [(6.0, -5.0), (6.0, 22.0), (-28.0, -5.0), (-28.0, 22.0)];
        // Farther away, if all of these are taken.
        let around = (1..6).flat_map(|far| beside.map(|(right, down)| (right, down * f64::from(far))));
        let places = around.map(|(right, down)| {
            ((x + right).clamp(LEFT, WIDTH - NUMBER.0), (y + down).clamp(TOP + 18.0, HEIGHT - BOTTOM - 4.0))
        });
        let is_free = |&(x, y): &(f64, f64)| {
            placed.iter().all(|(_, (a, b))| (x - a).abs() >= NUMBER.0 || (y - b).abs() >= NUMBER.1)
        };
        let mut places = places.peekable();
        let nearest = places.peek().copied();
        if let Some(place) = places.find(is_free).or(nearest) {
            placed.push((index + 1, place));
        }
    }
    placed
}

/// A stacked area figure. All lines have the same x values. The colours are names of the style sheet; `up` is
/// the upward axis, if it is not that of the highest stack.
pub(crate) fn layers(
    figure: &Figure,
    note: &str,
    colours: &[String],
    across: Axis,
    up: Option<Axis>,
) -> Markup {
    let first = figure.lines.first().map_or(&[][..], |line| &line.points[..]);
    let xs: Vec<f64> = first.iter().map(|point| point.0).collect();
    let mut tops = vec![vec![0.0; xs.len()]];
    for (index, line) in figure.lines.iter().enumerate() {
        let top = tops[index].iter().zip(&line.points).map(|(below, point)| below + point.1).collect();
        tops.push(top);
    }
    let within = |(x, top): (&f64, &f64)| across.within(*x).map(|_| *top);
    let highest =
        tops.last().into_iter().flat_map(|tops| xs.iter().zip(tops).filter_map(within)).fold(0.0, f64::max);
    let axes = Axes { across, up: up.unwrap_or_else(|| Axis::up_to(highest * 1.05)), figure };
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
    frame(figure, note, &drawing, &named(names))
}

/// A bar: its name, its length from 0 to 1, its colour, and its label.
pub(crate) struct Bar {
    pub name: String,
    pub share: f64,
    pub colour: &'static str,
    pub says: String,
}

/// The most letters of a group's name that stand beside its bars.
const BESIDE: usize = 8;

/// The letters of a bar's name that the style sheet has room for.
const LETTERS: usize = 10;

/// Bars below each other, in groups with a name: beside the bars, or above them if one of the names is long.
pub(crate) fn bars(groups: &[(String, Vec<Bar>)]) -> Markup {
    let is_long = groups.iter().any(|(name, _)| name.chars().count() > BESIDE);
    let letters =
        groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    let style = (letters > LETTERS).then(|| format!("--name:{}ch", letters + 1));
    markup! {
        div.bars style=[&style] data-long[style.is_some()] { @for (name, bars) in groups {
            div.group[!name.is_empty() && !is_long] {
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

/// Latencies as bars, on a logarithmic axis from a microsecond up to `most_ns`.
pub(crate) fn percentiles(latency: &kpps_documents::Latency, most_ns: u64) -> Vec<Bar> {
    let most = (most_ns.max(10_000) as f64 / 1e3).ln();
    let kpps_documents::Latency { min, mean, p50, p99, p999, max, .. } = *latency;
    let all = [("min", min), ("mean", mean), ("p50", p50), ("p99", p99), ("p99.9", p999), ("max", max)];
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
    use kpps_documents::study::Line;

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
        let (across, up) = (Axis::up_to(10.0), Axis::up_to(100.0));
        let text = layers(&figure, "", &["p0".into(), "p1".into()], across, Some(up)).into_string();
        let axes = Axes { across, up, figure: &figure };
        let y = |value| axes.y(value).unwrap_or_default();
        let (zero, ten, forty) = (y(0.0), y(10.0), y(40.0));
        let [left, right] = [0.0, 10.0].map(|value| axes.x(value).unwrap_or_default());
        for (below, top, colour) in [(zero, ten, "p0"), (ten, forty, "p1")] {
            let area = format!(
                "M{left:.1} {top:.1}L{right:.1} {top:.1}L{right:.1} {below:.1}L{left:.1} {below:.1}Z\" fill=\"var(--{colour})\""
            );
            assert!(text.contains(&area), "{area} in {text}");
        }
    }

    #[test]
    fn an_axis_has_round_numbers_whatever_its_values_are() {
        let numbers = |axis: Axis| axis.ticks().into_iter().map(round).collect::<Vec<_>>();
        assert_eq!(numbers(Axis::up_to(0.0)), ["0", "0.5", "1"], "nothing was lost");
        assert_eq!(numbers(Axis::up_to(f64::NAN)), ["0", "0.5", "1"]);
        assert_eq!(numbers(Axis::between(560.0, 910.0)), ["600", "700", "800", "900"]);
        assert_eq!(numbers(Axis::logarithmic([0.0, 3.0, 80.0])), ["5", "10", "20", "50", "100"]);
        assert_eq!(
            numbers(Axis::logarithmic([2e-3, 5e4])),
            ["0.01", "0.1", "1", "10", "100", "1000", "10000"]
        );
        assert_eq!(numbers(Axis::logarithmic([])), ["0", "0.5", "1"]);
        for value in [1.0, 1.2, 2.3, 5.9, 6.3, 8.9, 1e-9, 14_881_000.0] {
            let ticks = Axis::logarithmic([value]).ticks();
            assert!((2..6).contains(&ticks.len()), "{value}: {ticks:?}");
        }
        let axis = Axis::logarithmic([1.0, 100.0]);
        assert_eq!((axis.within(10.0), axis.within(0.0), axis.within(1e9)), (Some(0.5), None, None));
    }

    #[test]
    fn numbers_of_a_document_do_not_lie_on_each_other() {
        let stated = |name: &str, x, y| Stated { name: name.into(), x, y, line: Vec::new() };
        let points = [(50.0, 9.0), (50.0, 9.1), (50.5, 9.0), (100.0, 10.0), (99.0, 10.0)];
        let stated: Vec<_> = points.iter().map(|&(x, y)| stated("s", Some(x), Some(y))).collect();
        let figure = Figure {
            title: "t".into(),
            x: "x".into(),
            y: "y".into(),
            stated,
            lines: vec![Line { name: "l".into(), points: vec![(0.0, 0.0), (100.0, 10.0)] }],
        };
        let axes = Axes { across: Axis::up_to(100.0), up: Axis::up_to(10.5), figure: &figure };
        let stated: Vec<_> = figure.stated.iter().map(|it| it.points(100.0, 10.5)).collect();
        let placed = numbers(&axes, &figure, &stated);
        assert_eq!(placed.len(), points.len());
        for (at, (one, (x, y))) in placed.iter().enumerate() {
            for (other, (a, b)) in &placed[at + 1..] {
                let apart = (x - a).abs() >= NUMBER.0 || (y - b).abs() >= NUMBER.1;
                assert!(apart, "{one} at {x} {y}, {other} at {a} {b}");
            }
        }
    }

    #[test]
    fn bars_are_as_long_as_they_say() {
        let latency = kpps_documents::Latency {
            p50: Some(1_000),
            p99: Some(31_623),
            max: Some(1_000_000),
            ..kpps_documents::Latency::default()
        };
        let bars = percentiles(&latency, 1_000_000);
        let shares: Vec<_> = bars.iter().map(|bar| (bar.share * 1000.0).round()).collect();
        assert_eq!(shares, [0.0, 0.0, 3.0, 500.0, 0.0, 1000.0]);
        let text = super::bars(&[("64 B".into(), bars)]).into_string();
        assert!(text.contains("width:50.00%") && text.contains("31.6 µs") && text.contains("64 B"));
    }
}
