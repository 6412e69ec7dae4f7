//! A search as a page and on the screen.

use crate::Rows;
use crate::drawing::{self, Axis};
use crate::environment::section;
use crate::forms::Forms;
use crate::text::TextStyle;
use crate::{page, remarks};
use kpps_documents::ndr::{Ndr, SearchGoal};
use kpps_documents::study::{Figure, Line};
use kpps_documents::words::{in_kpps, in_us, rate};
use kpps_documents::{Cpu, Limit, Trial, UNEXPLAINED};
use maud::{Markup, html as markup};
use std::collections::BTreeSet;
use std::fmt::Write as _;

impl Forms for Ndr {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.goals)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(page(self))
    }
    fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }
}

/// The search as one self-contained HTML page without script: the result, delivered against offered load,
/// loss by place, latency and CPU time over the load, the environment, and every trial. Light and dark follow
/// the reader's system.
fn page(search: &Ndr) -> String {
    let on = &search.environment;
    let title = format!("{}: {} B", on.testbed_name(), on.sizes_name());
    let body = markup! {
        header { div {
            h1 { (on.testbed_name()) }
            p.setting { "Frames of " (on.sizes_name()) " B with FCS" @if let Some(traffic) = &on.traffic { ", " (traffic) } ", " (kpps(search.min_pps)) " to "
                (kpps(search.max_pps)) " kpps" (on.load_of()) }
        } }
        main {
            div.lead { p { (found(search)) "." @if !tester_limits(search).is_empty() { " The device under test may do better." } } }
            @for notice in notices(search) { p.notice role="status" { (notice) } }
            section { h2 { "Results" } div.scroll { (goals(search)) } }
            @for drawing in drawings(search) { section { (drawing) } }
            (section(on))
            section { h2 { "Every trial" } div.scroll { (trials(&search.trials)) } }
        }
        footer { p { "Made by kpps " (on.kpps_version) "; " (search.trials.len()) " trials, " (search.measured_s) " s of load." } }
    };
    page::page(&title, &[page::CSS, drawing::CSS], &body)
}

pub(crate) fn kpps(pps: f64) -> String {
    in_kpps(pps)
}

/// The result, in one line.
pub(crate) fn found(search: &Ndr) -> String {
    let goals = search.goals.iter().map(|goal| match goal.lower_pps {
        Some(pps) if goal.upper_pps.is_none() && !goal.done => {
            format!("{} at least {}: no upper bound was found", goal.name, rate(pps))
        }
        Some(pps) => format!("{} {}", goal.name, at_least(pps, goal.limited_by)),
        None => format!("{} not found", goal.name),
    });
    goals.collect::<Vec<_>>().join(", ")
}

/// A rate that was found, and whether the tester was its limit.
pub(crate) fn at_least(pps: f64, limited_by: Option<Limit>) -> String {
    match limited_by {
        Some(limit) => format!("at least {}: {}", rate(pps), limit.words()),
        None => rate(pps),
    }
}

/// Notices that come before the results.
pub(crate) fn notices(search: &Ndr) -> Vec<String> {
    let mut notices = Vec::new();
    match &search.trouble {
        Some(trouble) => notices.push(trouble.clone()),
        None if !search.complete => {
            notices.push("The search is not finished.".into());
        }
        None => {}
    }
    notices.extend(search.goals.iter().filter_map(|goal| held(search, goal)));
    notices.extend(remarks::disturbed(search.trials.iter()));
    notices.extend(carried_less(search));
    notices.extend(remarks::resumed(search.trials.iter()));
    notices.extend(clock_error(search));
    let unexplained = || search.trials.iter().map(|trial| trial.ledger.unexplained);
    let (missing, twice): (i64, i64) =
        (unexplained().map(|n| n.max(0)).sum(), unexplained().map(|n| n.min(0)).sum());
    if missing > 0 {
        notices.push(format!("No place accounts for {missing} frames."));
    }
    if twice < 0 {
        notices.push(format!("{} frames are counted at several places.", -twice));
    }
    notices
}

/// The state of a goal that was not reached: the highest load above its lower bound at which no trial had
/// more loss than it allows, and for how long.
fn held(search: &Ndr, goal: &SearchGoal) -> Option<String> {
    if goal.done {
        return None;
    }
    let is_low = |trial: &&Trial| {
        let is_of_the_device = trial.limit().is_none() && !trial.is_disturbed();
        is_of_the_device && trial.sustained_loss_ratio() <= goal.loss_ratio
    };
    let is_open = |load: f64| {
        goal.lower_pps.is_none_or(|lower| load > lower) && goal.upper_pps.is_none_or(|upper| load < upper)
    };
    let at = |load: f64| search.trials.iter().filter(move |trial| search.load_pps(trial) == load);
    let loads = search.trials.iter().map(|trial| search.load_pps(trial));
    let load = loads
        .filter(|load| is_open(*load) && at(*load).all(|trial| is_low(&trial)))
        .max_by(f64::total_cmp)?;
    // Shorter trials do not make a load a lower bound.
    let is_full = |trial: &&Trial| trial.seconds >= goal.trial_s * (1.0 - 1e-9);
    let full_s: f64 = at(load).filter(is_full).map(|trial| trial.seconds).sum();
    let trials = match at(load).count() {
        1 => "one trial".to_owned(),
        several => format!("{several} trials"),
    };
    let hundredths = |s: f64| (100.0 * s).round() / 100.0;
    Some(format!(
        "{}: {} held in {trials}, {} s of the {} s that the goal asks for.",
        goal.name,
        rate(load),
        hundredths(full_s),
        hundredths(goal.sum_s * (1.0 - goal.exceed_ratio))
    ))
}

/// A notice for each goal whose limit is the tester's.
pub(crate) fn tester_limits(search: &Ndr) -> Vec<String> {
    let of_port = |limit| search.max_allowed_by.as_ref().filter(|_| limit == Limit::Operator);
    let limited = search.goals.iter().filter_map(|goal| Some((goal, goal.limited_by?, goal.lower_pps?)));
    let notice = |(goal, limit, pps): (&SearchGoal, Limit, f64)| {
        let port = of_port(limit).map_or(String::new(), |port| format!(" ({port})"));
        let found = at_least(pps, Some(limit));
        format!("{}: {found}{port}. The device under test may do better.", goal.name)
    };
    limited.map(notice).collect()
}

/// A notice for each goal whose lower bound was asked for as a load that is higher by as much as is shown.
fn carried_less(search: &Ndr) -> impl Iterator<Item = String> {
    search.goals.iter().filter_map(|goal| {
        let (carried, load) = (rate(goal.lower_pps?), rate(goal.lower_load_pps?));
        let differs = carried != load;
        differs
            .then(|| format!("{}: of a load of {load}, {carried} were sent and carried for long.", goal.name))
    })
}

/// The error of its latencies, if they are by two clocks.
pub fn clock_error(search: &Ndr) -> Option<String> {
    remarks::clock_error(search.trials.iter().map(|trial| trial.latency_ns))
}

/// Quantities over the load.
pub(crate) fn drawings(search: &Ndr) -> Vec<Markup> {
    let (across, beyond) = across(search);
    let mut drawings = vec![delivered(search, across, &beyond), lost(search, across)];
    if search.trials.iter().any(|trial| trial.latency_ns.p50.is_some()) {
        drawings.push(latency(search, across));
    }
    if search.trials.iter().any(|trial| trial.cpu.is_some()) {
        drawings.push(cpus(search, across));
    }
    drawings
}

pub(crate) fn goals(search: &Ndr) -> Markup {
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
                    tr {
                        th scope="row" { "bisection" } td {} td {}
                        td { @if plain.limited_by.is_some() { "at least " } (or_dash(plain.lower_pps)) } td {} td {}
                    }
                }
                @if let Some(ceiling) = search.ceiling_pps {
                    tr { th scope="row" { "limit of the tester" } td {} td {} td { (kpps(ceiling)) } td {} td {} }
                }
            }
        }
    }
}

/// The axis of the loads, and a note on loads outside of the axis. A search begins at the highest load, which
/// may be far above the system's rate: loads up to twice that are drawn.
fn across(search: &Ndr) -> (Axis, String) {
    let directions = search.environment.directions();
    let best = search.trials.iter().map(|trial| trial.delivered_pps / directions).fold(0.0, f64::max);
    let loads = || search.trials.iter().map(|trial| search.load_pps(trial));
    let most = loads().filter(|load| *load <= 2.0 * best).fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { loads().fold(0.0, f64::max) };
    let least = loads().fold(most, f64::min);
    let margin = 0.05 * (most - least);
    let axis = match most / least.max(f64::MIN_POSITIVE) {
        wide if wide > 20.0 => Axis::logarithmic([least / 1e3, most / 1e3]),
        _ => Axis::between((least - margin) / 1e3, (most + margin) / 1e3),
    };
    let note = match loads().filter(|load| *load > most).count() {
        0 => String::new(),
        1 => format!(" A trial at {} kpps is in the table only.", kpps(loads().fold(0.0, f64::max))),
        many => format!(
            " {many} trials at up to {} kpps are in the table only.",
            kpps(loads().fold(0.0, f64::max))
        ),
    };
    (axis, note)
}

/// The mean of a quantity at each load.
fn over_load(search: &Ndr, name: &str, of: impl Fn(&Trial) -> Option<f64>) -> Line {
    let all: Vec<_> =
        search.trials.iter().filter_map(|trial| Some((search.load_pps(trial), of(trial)?))).collect();
    Line { name: name.into(), points: piled(&all, |value| *value) }
}

fn delivered(search: &Ndr, across: Axis, beyond: &str) -> Markup {
    let directions = search.environment.directions();
    let rate = |trial: &Trial| Some(trial.delivered_pps / directions / 1e3);
    let all = |trial: &Trial| Some(search.load_pps(trial) / 1e3);
    let figure = Figure {
        title: "Delivered against offered load".into(),
        x: "offered, kpps".into(),
        y: "delivered, kpps".into(),
        stated: Vec::new(),
        lines: vec![over_load(search, "delivered", rate), over_load(search, "offered", all)],
    };
    let most = search.trials.iter().filter_map(rate).fold(0.0, f64::max);
    let note = format!("The mean of all trials at each load.{beyond}");
    drawing::lines_on(&figure, &note, across, Axis::up_to(1.2 * most))
}

/// The losses at each load, by place.
fn lost(search: &Ndr, across: Axis) -> Markup {
    let ledgers: Vec<_> = search.trials.iter().map(|trial| (search.load_pps(trial), &trial.ledger)).collect();
    let places: BTreeSet<String> =
        ledgers.iter().flat_map(|(_, it)| it.losses()).map(|(place, _)| place.to_owned()).collect();
    let share = |place: &str| {
        piled(&ledgers, |it| {
            let frames = it.losses().iter().find(|loss| loss.0 == place).map_or(0, |loss| loss.1);
            100.0 * frames as f64 / (it.sent + it.shortfall).max(1) as f64
        })
    };
    let figure = Figure {
        title: "Lost, by place".into(),
        x: "offered, kpps".into(),
        y: "% of the frames that were due".into(),
        stated: Vec::new(),
        lines: places.iter().map(|place| Line { points: share(place), name: place.clone() }).collect(),
    };
    let colours: Vec<_> = places.iter().enumerate().map(|(index, place)| colour(index, place)).collect();
    markup! {
        @if places.is_empty() { h2 { (figure.title) } p.hint { "Nothing was lost at any load." } }
        @else { (drawing::layers(&figure, "", &colours, across, None)) }
    }
}

/// The colour of a place, by its number.
pub(crate) fn colour(index: usize, place: &str) -> String {
    if place == UNEXPLAINED { "warn".into() } else { format!("p{}", index % 8) }
}

/// The mean of a quantity at each load, by load in kpps.
fn piled<T>(all: &[(f64, T)], of: impl Fn(&T) -> f64) -> Vec<(f64, f64)> {
    let mut loads: Vec<f64> = all.iter().map(|(load, _)| *load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let mean = |load: f64| {
        let at: Vec<f64> = all.iter().filter(|(it, _)| *it == load).map(|(_, it)| of(it)).collect();
        at.iter().sum::<f64>() / at.len().max(1) as f64
    };
    loads.into_iter().map(|load| (load / 1e3, mean(load))).collect()
}

/// CPU time at each load, by kind.
fn cpus(search: &Ndr, across: Axis) -> Markup {
    type Kind = (&'static str, &'static str, fn(&Cpu) -> f64);
    let kinds: [Kind; 4] = [
        ("interrupts", "k0", |cpu| cpu.hardirq),
        ("softirqs", "k1", |cpu| cpu.softirq),
        ("threads", "k2", |cpu| cpu.thread),
        ("idle polls", "k3", |cpu| cpu.idle_polls.unwrap_or(0.0)),
    ];
    let all: Vec<_> =
        search.trials.iter().filter_map(|trial| Some((search.load_pps(trial), trial.cpu?))).collect();
    let kinds = kinds.iter().filter(|(.., of)| all.iter().any(|(_, cpu)| of(cpu) > 0.0));
    let line =
        |(name, _, of): &Kind| Line { name: (*name).into(), points: piled(&all, |cpu| 100.0 * of(cpu)) };
    let figure = Figure {
        title: "CPU time".into(),
        x: "offered, kpps".into(),
        y: "% of their time".into(),
        stated: Vec::new(),
        lines: kinds.clone().map(line).collect(),
    };
    let colours: Vec<_> = kinds.map(|(_, colour, _)| (*colour).to_owned()).collect();
    drawing::layers(&figure, "", &colours, across, Some(Axis::up_to(100.0)))
}

fn latency(search: &Ndr, across: Axis) -> Markup {
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    let lines = vec![
        over_load(search, "p50", |trial| us(trial.latency_ns.p50)),
        over_load(search, "p99", |trial| us(trial.latency_ns.p99)),
    ];
    let up = Axis::logarithmic(lines.iter().flat_map(|line| &line.points).map(|point| point.1));
    let figure = Figure {
        title: "Latency".into(),
        x: "offered, kpps".into(),
        y: "µs".into(),
        stated: Vec::new(),
        lines,
    };
    drawing::lines_on(&figure, "On a logarithmic axis; none where nothing was delivered.", across, up)
}

pub(crate) fn trials<'t>(trials: impl IntoIterator<Item = &'t Trial>) -> Markup {
    let names = ["offered, kpps", "s", "sent", "shortfall", "delivered", "loss, %", "p50, µs", "p99, µs"];
    markup! {
        table {
            thead { tr { @for name in names { th scope="col" { (name) } } } }
            tbody { @for trial in trials {
                tr {
                    th scope="row" { (kpps(trial.offered_pps)) } td { (trial.seconds) }
                    @for frames in [trial.sent, trial.shortfall, trial.delivered] { td { (frames) } }
                    td { (format!("{:.4}", trial.loss_ratio * 100.0)) }
                    @for ns in [trial.latency_ns.p50, trial.latency_ns.p99] { td { (in_us(ns)) } }
                }
            } }
        }
    }
}

/// The text for the screen.
fn screen(document: &Ndr) -> String {
    let mut text = String::new();
    let kpps = |pps: Option<f64>| pps.map_or("–".into(), in_kpps);
    let _ = writeln!(
        text,
        "{}: frames of {} B with FCS, {} to {} kpps{}\n",
        document.environment.testbed_name(),
        document.environment.sizes_name(),
        in_kpps(document.min_pps),
        in_kpps(document.max_pps),
        document.environment.load_of()
    );
    for limit in tester_limits(document) {
        let _ = writeln!(text, "{limit}\n");
    }
    let _ = writeln!(
        text,
        "{:>12} {:>10} {:>12} {:>12} {:>12}",
        "", "loss", "lower kpps", "upper kpps", "conditional"
    );
    for goal in &document.goals {
        let _ = writeln!(
            text,
            "{:>12} {:>8.3} % {:>12} {:>12} {:>12}{}",
            goal.name,
            goal.loss_ratio * 100.0,
            kpps(goal.lower_pps),
            kpps(goal.upper_pps),
            kpps(goal.conditional_pps),
            if goal.done { "" } else { "  not finished" }
        );
    }
    if let Some(plain) = &document.bisection {
        let limit = plain.limited_by.map_or(String::new(), |limit| format!("  at least: {}", limit.words()));
        let _ = writeln!(text, "{:>12} {:>10} {:>12}{limit}", "bisection", "", kpps(plain.lower_pps));
    }
    let _ = writeln!(
        text,
        "{:>12} {:>10} {:>12}\n\n{} trials, {:.1} s of load; up to {:.0} % of the time at a load may have high loss",
        "MRR",
        "",
        kpps(document.mrr_pps),
        document.trials.len(),
        document.measured_s,
        document.goals.first().map_or(0.0, |goal| goal.exceed_ratio * 100.0)
    );
    for notice in notices(document) {
        let _ = writeln!(text, "{notice}");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::{Ledger, SHORTFALL};

    /// A search that ended early reports its results so far.
    #[test]
    fn the_highest_load_without_loss_is_told_if_a_goal_is_not_reached() {
        let trial = |kpps: u64, lost: u64| {
            let sent = 300 * kpps;
            let ledger = Ledger { sent, delivered: sent - lost, ..Ledger::default() };
            Trial::new(kpps as f64 * 1e3, 0.3, [sent, 0, sent - lost], ledger.closed()).unwrap()
        };
        let goal = SearchGoal {
            name: "NDR".into(),
            exceed_ratio: 0.5,
            trial_s: 0.3,
            sum_s: 6.3,
            upper_pps: Some(5e3),
            ..SearchGoal::default()
        };
        let mut trials = vec![trial(1, 0), trial(3, 0), trial(3, 1), trial(9, 0)];
        trials.extend((0..9).map(|_| trial(2, 0)));
        let mut search = Ndr { goals: vec![goal], trials, ..Ndr::default() };
        let said = "NDR: 2.0 kpps held in 9 trials, 2.7 s of the 3.15 s that the goal asks for.";
        assert!(screen(&search).contains(said) && page(&search).contains(said), "{}", screen(&search));
        search.goals[0].lower_pps = Some(2e3);
        assert!(!screen(&search).contains("held in"), "there is no higher one");
        search.goals[0] = SearchGoal { lower_pps: None, done: true, ..search.goals[0].clone() };
        assert!(!screen(&search).contains("held in"), "the goal is reached");
    }

    /// A bound below the load that was asked for is explained, if the two look different.
    #[test]
    fn a_bound_that_was_not_asked_for_is_explained() {
        let said = |lower_pps, lower_load_pps| {
            let of = SearchGoal { name: "NDR".into(), done: true, ..SearchGoal::default() };
            let goal = SearchGoal { lower_pps: Some(lower_pps), lower_load_pps, ..of };
            screen(&Ndr { goals: vec![goal], complete: true, ..Ndr::default() })
        };
        let less = said(20_790.0, Some(20_990.0));
        assert!(less.contains("NDR: of a load of 21.0 kpps, 20.8 kpps were sent and carried"), "{less}");
        for (lower_pps, load) in [(20_790.0, Some(20_795.0)), (20_790.0, None)] {
            assert!(!said(lower_pps, load).contains("of a load of"), "{load:?}");
        }
    }

    #[test]
    fn each_trial_is_drawn_and_listed() {
        let trial = |kpps: u64, lost: u64, shortfall: u64| {
            let (sent, delivered) = (1000 - shortfall, 1000 - shortfall - lost);
            let dropped = [("between the ports".to_owned(), lost)].into();
            let ledger = Ledger { sent, shortfall, delivered, dropped, ..Ledger::default() };
            // A thousand frames are due.
            let seconds = 1.0 / kpps as f64;
            Trial::new(kpps as f64 * 1e3, seconds, [sent, shortfall, delivered], ledger).unwrap()
        };
        let goal = SearchGoal {
            name: "NDR".into(),
            lower_pps: Some(200e3),
            upper_pps: Some(300e3),
            ..SearchGoal::default()
        };
        let mut search = Ndr {
            environment: kpps_documents::Environment::on(["packet:a", "packet:b"]),
            goals: vec![goal],
            trials: vec![trial(400, 100, 50), trial(200, 0, 0), trial(300, 10, 0)],
            ceiling_pps: Some(410e3),
            ..Ndr::default()
        };
        let text = page(&search);
        for words in ["NDR 200.0 kpps", SHORTFALL, "10.5263", "410.0", "not finished", "between the ports"] {
            assert!(text.contains(words), "{words}");
        }
        // Three points on each of two lines, and none without latency.
        assert_eq!(text.matches("r=\"2.6\"").count(), 6);
        assert!(!text.contains("<script") && !text.contains("CPU time"));
        // With the losses by place and the CPU time.
        let ledger = Ledger { sent: 950, shortfall: 50, delivered: 850, ..Ledger::default() };
        search.trials[0].ledger =
            Ledger { dropped: [("pb backlog".to_owned(), 70)].into(), ..ledger }.closed();
        search.trials[0].cpu = Some(Cpu { softirq: 0.25, ..Cpu::default() });
        let text = page(&search);
        for words in ["pb backlog", UNEXPLAINED, "No place accounts for 30 frames", "CPU time"] {
            assert!(text.contains(words), "{words}");
        }
    }
}
