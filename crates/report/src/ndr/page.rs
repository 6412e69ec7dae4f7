//! A search as a page to look at.

use super::{Ndr, SearchTrial};
use crate::page;
use crate::study::{Figure, Line, drawn};
use maud::{Markup, html as markup};

const CSS: &str = include_str!("../../assets/study.css");

/// The search as one self-contained HTML page without script: what was found, delivered against offered load, loss and
/// latency over the load, and every trial. Light and dark follow the reader's system.
pub fn page(search: &Ndr) -> String {
    let title = format!("{}: {} B", search.testbed.join(" and "), search.frame_bytes_with_fcs);
    let found: Vec<_> = search
        .goals
        .iter()
        .map(|goal| {
            format!(
                "{} {}",
                goal.name,
                goal.lower_pps.map_or("not found".into(), |pps| format!("{} kpps", kpps(pps)))
            )
        })
        .collect();
    let body = markup! {
        header { div {
            h1 { (search.testbed.join(" and ")) }
            p.setting { "Frames of " (search.frame_bytes_with_fcs) " B with FCS, " (kpps(search.min_pps)) " to "
                (kpps(search.max_pps)) " kpps" @if search.both_ways { " each way" } }
        } }
        main {
            div.lead { p { (found.join(", ")) "." } }
            @if !search.complete { p.notice role="status" { "The search is not finished: the same command goes on." } }
            @if let Some(trouble) = &search.trouble { p.notice role="status" { (trouble) } }
            @if let Some(ceiling) = search.ceiling_pps { p { "The sender can send " (kpps(ceiling)) " kpps here." } }
            section { h2 { "What was found" } div.scroll { (goals(search)) } }
            section { (drawn(&delivered(search))) }
            section { (drawn(&lost(search))) }
            @if search.trials.iter().any(|trial| trial.latency_ns.p50.is_some()) {
                section { (drawn(&latency(search))) }
            }
            section { h2 { "Every trial" } div.scroll { (trials(&search.trials)) } }
        }
        footer { p { "Made by kpps " (search.kpps_version) "; " (search.trials.len()) " trials, " (search.measured_s) " s of load." } }
    };
    page::page(&title, &[page::CSS, CSS], &body)
}

fn kpps(pps: f64) -> String {
    format!("{:.1}", pps / 1e3)
}

fn goals(search: &Ndr) -> Markup {
    let names = ["goal", "loss up to", "exceed ratio", "lower, kpps", "upper, kpps", "conditional, kpps"];
    let or_dash = |pps: Option<f64>| pps.map_or("–".into(), kpps);
    markup! {
        table {
            thead { tr { @for name in names { th scope="col" { (name) } } } }
            tbody {
                @for goal in &search.goals {
                    tr {
                        th scope="row" { (goal.name) }
                        td { (goal.loss_ratio * 100.0) " %" } td { (goal.exceed_ratio * 100.0) " %" }
                        td { (or_dash(goal.lower_pps)) } td { (or_dash(goal.upper_pps)) } td { (or_dash(goal.conditional_pps)) }
                    }
                }
                tr { th scope="row" { "MRR" } td {} td {} td { (or_dash(search.mrr_pps)) } td {} td {} }
                @if let Some(plain) = &search.bisection {
                    tr { th scope="row" { "bisection" } td {} td {} td { (or_dash(plain.lower_pps)) } td {} td {} }
                }
            }
        }
    }
}

/// A quantity of each trial over its load.
fn over_load(search: &Ndr, name: &str, of: impl Fn(&SearchTrial) -> Option<f64>) -> Line {
    let mut points: Vec<_> =
        search.trials.iter().filter_map(|trial| Some((trial.load_pps / 1e3, of(trial)?))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    Line { name: name.into(), points }
}

fn delivered(search: &Ndr) -> Figure {
    let rate = |trial: &SearchTrial| Some(trial.load_pps * (1.0 - trial.loss_ratio) / 1e3);
    let all = |trial: &SearchTrial| Some(trial.load_pps / 1e3);
    Figure {
        title: "Delivered against offered load".into(),
        x: "offered, kpps".into(),
        y: "delivered, kpps".into(),
        lines: vec![over_load(search, "delivered", rate), over_load(search, "all of it", all)],
    }
}

fn lost(search: &Ndr) -> Figure {
    let share = |frames: u64, trial: &SearchTrial| {
        let due = trial.sent + trial.unsent;
        Some(100.0 * frames as f64 / due.max(1) as f64)
    };
    Figure {
        title: "Lost, by where".into(),
        x: "offered, kpps".into(),
        y: "%".into(),
        lines: vec![
            over_load(search, "between the ports", |it| share(it.sent.saturating_sub(it.delivered), it)),
            over_load(search, "not sent in time", |it| share(it.unsent, it)),
        ],
    }
}

fn latency(search: &Ndr) -> Figure {
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    Figure {
        title: "Latency".into(),
        x: "offered, kpps".into(),
        y: "µs".into(),
        lines: vec![
            over_load(search, "half within", |trial| us(trial.latency_ns.p50)),
            over_load(search, "99 % within", |trial| us(trial.latency_ns.p99)),
        ],
    }
}

fn trials(trials: &[SearchTrial]) -> Markup {
    let names = ["load, kpps", "s", "sent", "unsent", "delivered", "loss, %", "p50, µs", "p99, µs"];
    let us = |ns: Option<u64>| ns.map_or("–".into(), |ns| format!("{:.1}", ns as f64 / 1e3));
    markup! {
        table {
            thead { tr { @for name in names { th scope="col" { (name) } } } }
            tbody { @for trial in trials {
                tr {
                    th scope="row" { (kpps(trial.load_pps)) } td { (trial.seconds) }
                    @for frames in [trial.sent, trial.unsent, trial.delivered] { td { (frames) } }
                    td { (format!("{:.4}", trial.loss_ratio * 100.0)) }
                    @for ns in [trial.latency_ns.p50, trial.latency_ns.p99] { td { (us(ns)) } }
                }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ndr::SearchGoal;

    #[test]
    fn each_trial_is_drawn_and_listed() {
        let trial = |kpps: u64, lost: u64, unsent: u64| SearchTrial {
            load_pps: kpps as f64 * 1e3,
            seconds: 1.0,
            sent: 1000 - unsent,
            unsent,
            delivered: 1000 - unsent - lost,
            loss_ratio: (lost + unsent) as f64 / 1000.0,
            ..SearchTrial::default()
        };
        let goal = SearchGoal {
            name: "NDR".into(),
            lower_pps: Some(200e3),
            upper_pps: Some(300e3),
            ..SearchGoal::default()
        };
        let search = Ndr {
            testbed: vec!["packet:a".into(), "packet:b".into()],
            goals: vec![goal],
            trials: vec![trial(400, 100, 50), trial(200, 0, 0), trial(300, 10, 0)],
            ceiling_pps: Some(410e3),
            ..Ndr::default()
        };
        let text = page(&search);
        for words in ["NDR 200.0 kpps", "not sent in time", "15.0000", "410.0 kpps here", "not finished"] {
            assert!(text.contains(words), "{words}");
        }
        // Three points on each of four lines, and none without latency.
        assert_eq!(text.matches("r=\"2.6\"").count(), 12);
        assert!(!text.contains("<script"));
    }
}
