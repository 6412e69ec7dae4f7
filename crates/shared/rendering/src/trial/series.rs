//! The series of a trial: how rates, losses and latencies were over its time.

use crate::Rows;
use crate::drawing::{self, Axis};
use kpps_documents::detail::{DetailedTrial, Direction, Interval};
use kpps_documents::study::{Figure, Line};
use kpps_documents::words::in_kpps;
use maud::{Markup, html as markup};
use serde::Serialize;

/// A row: an interval of a direction.
#[derive(Serialize)]
struct Row<'t> {
    #[serde(rename = "directions.from")]
    from: &'t str,
    #[serde(rename = "directions.to")]
    to: &'t str,
    #[serde(flatten)]
    interval: &'t Interval,
}

fn row<'t>(way: &'t Direction, interval: &'t Interval) -> Row<'t> {
    Row { from: &way.from, to: &way.to, interval }
}

/// A row for each interval of each direction.
pub(super) fn rows(trial: &DetailedTrial) -> Rows {
    let ways = trial.directions.iter();
    let all = ways.flat_map(|way| way.series.iter().map(move |interval| (way, interval)));
    let row = |(way, interval)| row(way, interval);
    Rows::of(&all.map(row).collect::<Vec<_>>())
}

/// A sentence on each direction's series.
pub(super) fn sentences(trial: &DetailedTrial) -> Vec<String> {
    let Some(interval_s) = trial.interval_s else { return Vec::new() };
    trial.directions.iter().filter_map(|way| sentence(way, interval_s)).collect()
}

fn sentence(way: &Direction, interval_s: f64) -> Option<String> {
    let all = &way.series;
    let range = |of: fn(&Interval) -> f64| {
        let least = all.iter().map(of).min_by(f64::total_cmp)?;
        let most = all.iter().map(of).max_by(f64::total_cmp)?;
        Some((least, most))
    };
    let (least, most) = range(|it| it.received_pps)?;
    let mut text = format!(
        "{} intervals of {interval_s} s from {}: received {} to {} kpps",
        all.len(),
        way.from,
        in_kpps(least),
        in_kpps(most)
    );
    let p99 = || all.iter().filter_map(|it| it.latency_ns.p99);
    if let (Some(least), Some(most)) = (p99().min(), p99().max()) {
        text += &format!(", p99 {:.1} to {:.1} µs", least as f64 / 1e3, most as f64 / 1e3);
    }
    for (name, of) in [
        ("loss", (|it| it.lost) as fn(&Interval) -> u64),
        ("shortfall", |it| it.shortfall),
        ("overflow", |it| it.overflow.unwrap_or(0)),
    ] {
        let some = all.iter().filter(|it| of(it) > 0).count();
        let worst = all.iter().max_by_key(|it| of(it)).filter(|_| some > 0);
        text += &match worst {
            Some(worst) => format!("; {name} in {some}, most at {:.0} s: {} frames", worst.from_s, of(worst)),
            None if name == "loss" => "; no loss".to_owned(),
            None => String::new(),
        };
    }
    Some(text)
}

/// The series as drawings.
pub(super) fn section(trial: &DetailedTrial) -> Markup {
    let figure = |title: &str, y: &str, values: &[(&str, Value)]| {
        let lines = trial.directions.iter().flat_map(|way| values.iter().map(|it| line(trial, way, it)));
        Figure { title: title.into(), x: "s".into(), y: y.into(), lines: lines.collect(), stated: Vec::new() }
    };
    let rates: [(&str, Value); 2] =
        [("offered", |it| Some(it.offered_pps / 1e3)), ("received", |it| Some(it.received_pps / 1e3))];
    let frames: [(&str, Value); 3] = [
        ("lost", |it| Some(it.lost as f64)),
        ("generator shortfall", |it| Some(it.shortfall as f64)),
        ("receive overflow", |it| it.overflow.map(|frames| frames as f64)),
    ];
    let latency: [(&str, Value); 2] = [
        ("p50", |it| it.latency_ns.p50.map(|ns| ns as f64 / 1e3)),
        ("p99", |it| it.latency_ns.p99.map(|ns| ns as f64 / 1e3)),
    ];
    markup! {
        @if let Some(interval_s) = trial.interval_s {
            section {
                (drawn(&figure("Rates over time", "kpps", &rates), &format!("Each point is an interval of {interval_s} s."), false))
            }
            section { (drawn(&figure("Frames that did not arrive over time", "frames", &frames), "", false)) }
            @if trial.directions.iter().flat_map(|way| &way.series).any(|it| it.latency_ns.p50.is_some()) {
                section { (drawn(&figure("Latency over time", "µs", &latency), "On a logarithmic axis.", true)) }
            }
        }
    }
}

/// A figure over the time of the trial.
fn drawn(figure: &Figure, note: &str, is_logarithmic: bool) -> Markup {
    let (most_s, most) = drawing::highest(figure);
    let up = match is_logarithmic {
        true => Axis::logarithmic(figure.lines.iter().flat_map(|line| &line.points).map(|point| point.1)),
        false => Axis::up_to(most * 1.05),
    };
    drawing::lines_on(figure, note, Axis::up_to(most_s), up)
}

/// A value of an interval, if it is known.
type Value = fn(&Interval) -> Option<f64>;

/// A line with a point in the middle of each interval.
fn line(trial: &DetailedTrial, way: &Direction, (name, of): &(&str, Value)) -> Line {
    let point = |it: &Interval| Some((it.from_s + it.seconds / 2.0, of(it)?));
    let whose = if trial.directions.len() > 1 { format!(", from {}", way.from) } else { String::new() };
    Line { name: format!("{name}{whose}"), points: way.series.iter().filter_map(point).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::Latency;

    fn trial() -> DetailedTrial {
        let interval = |second: u32, lost, ns| Interval {
            from_s: second.into(),
            seconds: 1.0,
            offered_pps: 50e3,
            received_pps: 50e3 - lost as f64,
            lost,
            latency_ns: Latency { p50: ns, p99: ns, ..Latency::default() },
            ..Interval::default()
        };
        let series = vec![interval(0, 0, Some(9000)), interval(1, 2500, None), interval(2, 10, Some(80_000))];
        let way =
            Direction { from: "packet:a".into(), to: "packet:b".into(), series, ..Direction::default() };
        DetailedTrial { interval_s: Some(1.0), directions: vec![way], ..DetailedTrial::default() }
    }

    #[test]
    fn a_series_in_a_sentence() {
        assert_eq!(
            sentences(&trial()),
            [
                "3 intervals of 1 s from packet:a: received 47.5 to 50.0 kpps, p99 9.0 to 80.0 µs; loss in 2, most at 1 s: 2500 frames"
            ]
        );
        assert!(sentences(&DetailedTrial::default()).is_empty());
    }

    /// An interval without latency has no point, and an empty field.
    #[test]
    fn what_was_not_seen_is_neither_drawn_nor_0() {
        let page = section(&trial()).into_string();
        assert!(
            page.contains("Latency over time") && page.contains("<td>p99</td><td>2.50</td><td>80.00</td>")
        );
        assert!(!page.contains("<td>p99</td><td>1.50</td>") && !page.contains("receive overflow</td>"));
        let csv = rows(&trial()).csv();
        let second = csv.lines().nth(2).unwrap_or_default();
        assert!(
            csv.starts_with("directions.from,directions.to,from_s,seconds,offered_pps,")
                && second.ends_with(",2500,,,,,,,"),
            "{csv}"
        );
    }
}
