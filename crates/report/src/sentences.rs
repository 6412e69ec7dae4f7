//! What one sees in a curve, in two sentences.

use crate::format::{kpps, list, percent};
use crate::{Curve, Point, Series};
use std::collections::BTreeMap;

/// A series that loses no more than this keeps up with its load: a last packet may be late.
const KEEPS_UP_LOSS: f64 = 0.001;
/// Below this share of its peak, a series does not level off: it falls.
const FALLS: f64 = 0.9;
/// At or below this share of its peak, with a processor that has no time left, it is livelock.
const LIVELOCK: f64 = 0.5;
/// Above this a processor has no time left.
const BUSY: f64 = 0.95;
/// A place is worth its mention when it takes this share of what a series loses.
const WORTH_A_WORD: f64 = 0.1;

/// How a series takes rising load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    KeepsUp,
    LevelsOff,
    Falls,
    Livelock,
}

/// A series with the points that matter. Only series with points have one.
struct Seen<'a> {
    name: &'a str,
    peak: &'a Point,
    last: &'a Point,
    shape: Shape,
}

fn look(series: &Series) -> Option<Seen<'_>> {
    let last = series.points.last()?;
    let peak = series
        .points
        .iter()
        .fold(last, |best, p| if p.delivered_pps > best.delivered_pps { p } else { best });
    let keeps_up = |p: &Point| p.loss_ratio <= KEEPS_UP_LOSS && p.delivered_pps >= FALLS * p.offered_pps;
    let left = last.delivered_pps;
    let shape = if series.points.iter().all(keeps_up) {
        Shape::KeepsUp
    } else if left >= FALLS * peak.delivered_pps {
        Shape::LevelsOff
    } else if left <= LIVELOCK * peak.delivered_pps && last.cpu_busy >= BUSY {
        Shape::Livelock
    } else {
        Shape::Falls
    };
    Some(Seen { name: &series.name, peak, last, shape })
}

/// Exactly two sentences: who keeps up with the load, who levels off and who falls; and where
/// the rest is lost. Nothing in them but what the points say.
pub fn two_sentences(curve: &Curve) -> [String; 2] {
    let mut seen: Vec<Seen> = curve.series.iter().filter_map(look).collect();
    if seen.is_empty() {
        return ["Nothing was measured.".to_owned(), "There is nothing to explain.".to_owned()];
    }
    seen.sort_by(|a, b| {
        let best_first = |s: &Seen| -s.peak.delivered_pps;
        a.shape.cmp(&b.shape).then(best_first(a).total_cmp(&best_first(b)))
    });
    [carried(curve, &seen), lost(&seen)]
}

/// The first sentence.
fn carried(curve: &Curve, seen: &[Seen]) -> String {
    let environment = &curve.environment;
    let highest = seen.iter().map(|s| s.last.offered_pps).fold(0.0, f64::max);
    let of_line_rate = highest / environment.line_rate_pps;
    let load = if (0.999..1.001).contains(&of_line_rate) {
        format!("line rate ({} kpps)", kpps(highest))
    } else if of_line_rate.is_finite() {
        format!("{} kpps ({} of line rate)", kpps(highest), percent(of_line_rate))
    } else {
        format!("{} kpps", kpps(highest))
    };

    let of = |shape| seen.iter().filter(move |s| s.shape == shape).collect::<Vec<_>>();
    let names = |these: &[&Seen]| list(&these.iter().map(|s| s.name).collect::<Vec<_>>());
    let mut clauses = vec![];
    let up = of(Shape::KeepsUp);
    if !up.is_empty() {
        clauses.push(format!("{} {} up", names(&up), if up.len() == 1 { "keeps" } else { "keep" }));
    }
    let level = of(Shape::LevelsOff);
    if !level.is_empty() {
        let verb = if level.len() == 1 { "levels" } else { "level" };
        let rates: Vec<_> = level.iter().map(|s| kpps(s.peak.delivered_pps)).collect();
        clauses.push(format!("{} {verb} off at {} kpps", names(&level), list(&rates)));
    }
    for s in of(Shape::Falls).into_iter().chain(of(Shape::Livelock)) {
        clauses.push(format!(
            "{} peaks at {} kpps (of {} offered) and falls to {}{}",
            s.name,
            kpps(s.peak.delivered_pps),
            kpps(s.peak.offered_pps),
            kpps(s.last.delivered_pps),
            if s.shape == Shape::Livelock { ", which is receive livelock" } else { "" }
        ));
    }
    format!(
        "{} {}-byte frames offered at up to {load}, {}.",
        if curve.complete { "With" } else { "As far as the run got before it was interrupted, with" },
        environment.frame_bytes_with_fcs,
        clauses.join("; ")
    )
}

/// The second sentence.
fn lost(seen: &[Seen]) -> String {
    let mut places: BTreeMap<&str, Vec<(f64, &str)>> = BTreeMap::new();
    let mut without = vec![];
    for s in seen {
        let losses = s.last.ledger.losses();
        let all: u64 = losses.iter().map(|&(_, n)| n).sum();
        if all == 0 {
            without.push(s.name);
        }
        for (place, n) in losses {
            let share = n as f64 / all as f64;
            if share >= WORTH_A_WORD {
                places.entry(place).or_default().push((share, s.name));
            }
        }
    }
    if places.is_empty() {
        let who = if let [one] = without[..] { one } else { "none of them" };
        let negated = if without.len() == 1 { "loses no packet" } else { "loses a packet" };
        return format!("At the highest load {who} {negated}.");
    }
    // The place that most of the series lose most at comes first.
    let mut places: Vec<_> = places.into_iter().collect();
    let weight = |shares: &[(f64, &str)]| shares.iter().map(|s| s.0).sum::<f64>();
    places.sort_by(|a, b| weight(&b.1).total_cmp(&weight(&a.1)));
    let wheres: Vec<String> = places
        .into_iter()
        .map(|(place, shares)| {
            let whose: Vec<_> =
                shares.iter().map(|(share, name)| format!("{} with {name}", percent(*share))).collect();
            format!("at \u{201c}{place}\u{201d} ({})", whose.join(", "))
        })
        .collect();
    let mut sentence = format!("At the highest load, what is missing was lost {}", list(&wheres));
    if !without.is_empty() {
        let verb = if without.len() == 1 { "loses" } else { "lose" };
        sentence += &format!("; {} {verb} nothing", list(&without));
    }
    let idle: Vec<String> = seen
        .iter()
        .filter(|s| s.shape != Shape::KeepsUp && s.last.loss_ratio > KEEPS_UP_LOSS && s.last.cpu_busy < BUSY)
        .map(|s| format!("{} of the time with {}", percent(1.0 - s.last.cpu_busy), s.name))
        .collect();
    if !idle.is_empty() {
        sentence += &format!("; the processor was idle {} all the same", list(&idle));
    }
    sentence + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Ledger};

    /// A series of (offered kpps, delivered kpps), losing the rest at `place`.
    fn series(name: &str, place: &str, cpu_busy: f64, points: &[(u64, u64)]) -> Series {
        let point = |&(offered, delivered): &(u64, u64)| Point {
            offered_pps: offered as f64 * 1e3,
            sent_pps: offered as f64 * 1e3,
            delivered_pps: delivered as f64 * 1e3,
            loss_ratio: (offered - delivered) as f64 / offered as f64,
            cpu_busy,
            ledger: Ledger {
                sent: offered,
                delivered,
                dropped: [(place.to_owned(), offered - delivered)].into(),
                ..Ledger::default()
            },
            ..Point::default()
        };
        Series { name: name.to_owned(), points: points.iter().map(point).collect() }
    }

    fn sentences(series: Vec<Series>, complete: bool) -> [String; 2] {
        let environment =
            Environment { frame_bytes_with_fcs: 64, line_rate_pps: 1488e3, ..Environment::default() };
        Curve::new(environment, series, complete).summary
    }

    #[test]
    fn one_that_keeps_up() {
        let [first, second] = sentences(vec![series("a", "ring", 1.0, &[(100, 100), (1488, 1488)])], true);
        assert_eq!(first, "With 64-byte frames offered at up to line rate (1488 kpps), a keeps up.");
        assert_eq!(second, "At the highest load a loses no packet.");
    }

    #[test]
    fn two_that_keep_up_below_line_rate() {
        let up = [(100, 100), (744, 744)];
        let [first, second] = sentences(vec![series("a", "x", 1.0, &up), series("b", "x", 1.0, &up)], true);
        assert_eq!(
            first,
            "With 64-byte frames offered at up to 744 kpps (50 % of line rate), a and b keep up."
        );
        assert_eq!(second, "At the highest load none of them loses a packet.");
    }

    #[test]
    fn livelock_is_named_only_when_the_processor_is_busy() {
        let falling = [(100, 100), (300, 300), (1488, 10)];
        let busy = sentences(vec![series("a", "queue", 1.0, &falling)], true);
        assert_eq!(
            busy[0],
            "With 64-byte frames offered at up to line rate (1488 kpps), a peaks at 300 kpps (of 300 offered) \
             and falls to 10.0, which is receive livelock."
        );
        assert_eq!(busy[1], "At the highest load, what is missing was lost at “queue” (100 % with a).");
        let idle = sentences(vec![series("a", "queue", 0.4, &falling)], true);
        assert!(!idle[0].contains("livelock"), "{}", idle[0]);
        assert!(idle[1].ends_with("; the processor was idle 60 % of the time with a all the same."));
    }

    #[test]
    fn every_kind_together() {
        let all = vec![
            series("stock", "queue", 1.0, &[(300, 300), (1488, 0)]),
            series("tuned", "ring", 1.0, &[(400, 400), (1488, 290)]),
            series("napi", "ring", 1.0, &[(500, 500), (1488, 490)]),
            series("polling", "fifo", 1.0, &[(680, 680), (1488, 680)]),
            series("best", "fifo", 1.0, &[(680, 680), (1488, 1488)]),
            Series { name: "nothing".to_owned(), points: vec![] },
        ];
        let [first, second] = sentences(all, false);
        assert_eq!(
            first,
            "As far as the run got before it was interrupted, with 64-byte frames offered at up to line rate \
             (1488 kpps), best keeps up; polling and napi level off at 680 and 500 kpps; tuned peaks at 400 kpps \
             (of 400 offered) and falls to 290; stock peaks at 300 kpps (of 300 offered) and falls to 0, which \
             is receive livelock."
        );
        assert_eq!(
            second,
            "At the highest load, what is missing was lost at “ring” (100 % with napi, 100 % with tuned), at \
             “fifo” (100 % with polling) and at “queue” (100 % with stock); best loses nothing."
        );
    }

    #[test]
    fn nothing_measured() {
        let [first, second] = sentences(vec![], true);
        assert_eq!((&first[..], &second[..]), ("Nothing was measured.", "There is nothing to explain."));
    }

    #[test]
    fn what_was_never_sent_or_explained_is_told() {
        let mut it = series("a", "ring", 1.0, &[(1000, 500)]);
        it.points[0].ledger = Ledger { sent: 700, unsent: 300, delivered: 500, ..Ledger::default() };
        let [_, second] = sentences(vec![it], true);
        assert!(
            second.contains("“not sent” (60 % with a)") && second.contains("“unexplained” (40 % with a)")
        );
    }
}
