//! A trial as a page.

mod screen;
mod sentences;
mod series;

use crate::Rows;
use crate::csv;
use crate::drawing::{self, Axis, Part, band, bars, legend, percentiles};
use crate::environment::section;
use crate::forms::Forms;
use crate::page;
use crate::text::TextStyle;
use kpps_documents::detail::{CoreCount, DetailedTrial, Direction, Fate};
use kpps_documents::study::{Figure, Line};
use kpps_documents::words::{in_kpps as kpps, in_us, rate};
use kpps_documents::{Cpu, FlowLatency};
use maud::{Markup, html as markup};
use screen::screen;
use std::collections::BTreeMap;

impl Forms for DetailedTrial {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        match self.interval_s {
            Some(_) => series::rows(self),
            // Only ports have directions.
            None if self.directions.is_empty() => csv::row(self),
            None => Rows::of(&self.directions),
        }
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(page(self))
    }
}

/// The trial as one self-contained HTML page without script: where its frames ended, latency, CPU time, the
/// limits of the generator, each direction, and all counters. Light and dark follow the reader's
/// system.
fn page(trial: &DetailedTrial) -> String {
    let load = sentences::load(trial, "as many as possible");
    let on = &trial.environment;
    let title = format!("{}: {load}, frames of {}", on.testbed_name(), sentences::frames(trial));
    let body = markup! {
        header { div {
            h1 { (on.testbed_name()) }
            p.setting { "Frames of " (sentences::frames(trial)) @if let Some(traffic) = &on.traffic { ", " (traffic) } ", " (load) " for " (on.duration_s.unwrap_or(0.0)) " s"
                @if trial.directions.len() > 1 && on.testbed.len() == 2 { ", per direction" } }
        } }
        main {
            div.lead { p {
                (trial.fate.received) " of " (trial.fate.intended) " frames arrived, " (rate(trial.received_pps)) "; lost "
                (trial.fate.lost) ", generator shortfall " (trial.result.shortfall) "."
            } }
            @for changes in sentences::rate_changes(trial) { p.notice role="status" { (changes) "." } }
            @for notice in notices(trial) { p.notice role="status" { (notice) } }
            section { h2 { "Where frames ended" } (ended(trial)) }
            section { h2 { "Latency" } (latency(trial)) }
            @if trial.directions.iter().any(|way| way.flows.is_some()) { section { h2 { "Flows" } (flows(trial)) } }
            @if trial.directions.iter().any(|way| !way.cores.is_empty()) { section { h2 { "Cores" } (cores(trial)) } }
            @if trial.directions.iter().any(|way| way.queues.is_some()) { section { h2 { "Receive queues" } (queues(trial)) } }
            @if trial.directions.iter().any(|way| !way.streams.is_empty()) { section { h2 { "Streams" } (streams(trial)) } }
            (series::section(trial))
            @if !trial.cpus.is_empty() { section { h2 { "CPU time" } (cpus(trial)) } }
            @if let Some(cpu) = &trial.result.cpu && trial.cpus.is_empty() {
                section { h2 { "CPU time" } (shares(cpu)) }
            }
            @if !trial.directions.is_empty() { section { h2 { "The sender" } (sender(trial)) } }
            (section(on))
            @if !trial.directions.is_empty() {
                section { h2 { "Each direction" } div.scroll { (directions(&trial.directions)) } }
            }
            section { h2 { "All counters" } (counted(trial)) }
        }
        footer { p { "Made by kpps " (on.kpps_version) "." } }
    };
    page::page(&title, &[page::CSS, drawing::CSS], &body)
}

/// Notices that come before the results.
fn notices(trial: &DetailedTrial) -> Vec<String> {
    let mut notices: Vec<_> = screen::tester_limit(&trial.result)
        .into_iter()
        .chain(screen::doubts(trial))
        .chain(screen::retries(trial))
        .collect();
    if let Some(trouble) = &trial.trouble {
        notices.push(format!("The trial failed: {trouble}."));
    } else if !trial.complete {
        notices.push("The trial was interrupted.".into());
    }
    let departures = trial.replay.iter().flat_map(|replay| &replay.departures);
    notices.extend(departures.map(|departure| format!("{departure}.")));
    notices.extend(sentences::silent(trial).map(|silent| format!("{silent}.")));
    if trial.sender.as_ref().is_some_and(|sender| sender.exceeded) {
        notices.push(
            "The load is above the limit of the generator: the frames that it could not send are its shortfall.".into(),
        );
    }
    if trial.result.ledger.unexplained > 0 {
        notices.push(format!("No place accounts for {} frames.", trial.result.ledger.unexplained));
    }
    notices.extend(sentences::clocks_set(trial));
    notices
}

fn ended(trial: &DetailedTrial) -> Markup {
    let ledger = &trial.result.ledger;
    let due = ledger.sent + ledger.shortfall;
    let mut parts: Vec<Part> = vec![("arrived".into(), ledger.delivered as f64, "ok".into())];
    let dropped = ledger.dropped.iter().enumerate();
    parts.extend(
        dropped.map(|(index, (place, &frames))| (place.clone(), frames as f64, format!("p{}", index % 8))),
    );
    parts.push(("still queued".into(), ledger.in_flight as f64, "flight".into()));
    parts.push(("unexplained".into(), ledger.unexplained.max(0) as f64, "warn".into()));
    parts.push(("generator shortfall".into(), ledger.shortfall as f64, "line".into()));
    markup! {
        p.hint { "All " (due) " frames that were due, by the place that lost them." }
        (band(&parts, due as f64))
        (legend(&parts, ""))
        @let losses: Vec<Part> = parts.into_iter().skip(1).collect();
        @let lost: f64 = losses.iter().map(|part| part.1).sum();
        @if lost > 0.0 {
            p.hint { "The " (lost) " of them that did not arrive:" }
            (band(&losses, lost))
        }
        @for loss in trial.directions.iter().filter_map(|way| sentences::loss(trial, way)) { p { (loss) "." } }
        @if let Some(capture) = &trial.capture { p { (sentences::capture(capture)) "." } }
        @if let Some(capture) = &trial.capture_all { p { (sentences::capture_all(capture)) "." } }
    }
}

/// The listed flows of all directions.
fn flows(trial: &DetailedTrial) -> Markup {
    let names =
        ["flow", "sent", "received", "lost", "reordered", "min, µs", "mean, µs", "max, µs", "jitter, µs"];
    markup! {
        @for (way, flows) in trial.directions.iter().filter_map(|way| Some((way, way.flows.as_ref()?))) {
            p.hint {
                (flows.count) " flows from " (way.from) ", " (flows.lossy) " of which lost frames. The worst ones:"
            }
            div.scroll { table {
                thead { tr { @for name in names { th scope="col" { (name) } } } }
                tbody { @for it in &flows.worst {
                    tr {
                        th scope="row" { (it.flow) }
                        @for count in [it.frames.sent, it.frames.received, it.frames.lost, it.reordered] { td { (count) } }
                        @let of = |time: fn(&FlowLatency) -> Option<u64>| it.latency_ns.as_ref().and_then(time);
                        @for ns in [of(|it| Some(it.min)), of(|it| Some(it.mean)), of(|it| Some(it.max)), of(|it| it.jitter)] { td { (in_us(ns)) } }
                    }
                } }
            } }
        }
    }
}

/// The cores of all directions.
fn cores(trial: &DetailedTrial) -> Markup {
    let within = |core: &CoreCount| {
        let share = core.gaps.and_then(|gaps| gaps.share_within());
        share.map_or_else(|| "–".into(), |share| format!("{:.2} %", 100.0 * share))
    };
    markup! {
        @for way in trial.directions.iter().filter(|way| !way.cores.is_empty()) {
            p.hint { "From " (way.from) " to " (way.to) ":" }
            div.scroll { table {
                thead { tr { @for name in ["core", "CPU", "sent", "shortfall", "gaps within 10 µs", "received", "receive overflow"] { th scope="col" { (name) } } } }
                tbody { @for (core, it) in way.cores.iter().enumerate() {
                    tr {
                        th scope="row" { (core) }
                        td { (it.cpu.map_or_else(|| "–".into(), |cpu| cpu.to_string())) }
                        @for count in [it.sent, it.shortfall] { td { (count) } }
                        td { (within(it)) }
                        td { (it.received) }
                        td { (it.overflow.map_or_else(|| "–".into(), |frames| frames.to_string())) }
                    }
                } }
            } }
        }
    }
}

/// The receive queues of all directions.
fn queues(trial: &DetailedTrial) -> Markup {
    let names = [
        "queue",
        "flows",
        "sent",
        "received",
        "elsewhere",
        "lost",
        "of others",
        "not predicted",
        "receive overflow",
    ];
    markup! {
        @for (way, queues) in trial.directions.iter().filter_map(|way| Some((way, way.queues.as_ref()?))) {
            p.hint { "Of " (way.to) ", from " (way.from) ":" }
            div.scroll { table {
                thead { tr { @for name in names { th scope="col" { (name) } } } }
                tbody { @for it in &queues.each {
                    tr {
                        th scope="row" { (it.queue) @if !it.read { " (not read)" } }
                        td { (it.flows) }
                        @for count in [it.sent, it.received, it.elsewhere, it.lost, it.of_others, it.of_unknown] { td { (count) } }
                        td { (it.overflow.map_or_else(|| "–".into(), |frames| frames.to_string())) }
                    }
                } }
            } }
            @for sentence in sentences::queues(queues) { p { (sentence) } }
        }
    }
}

/// The streams of all directions.
fn streams(trial: &DetailedTrial) -> Markup {
    let names = [
        "stream",
        "load, kpps",
        "sent",
        "received",
        "lost",
        "shortfall",
        "duplicated",
        "reordered",
        "corrupted",
        "min, µs",
        "mean, µs",
        "max, µs",
        "jitter, µs",
    ];
    markup! {
        @for way in trial.directions.iter().filter(|way| !way.streams.is_empty()) {
            p.hint { "From " (sentences::from(trial, way)) ":" }
            div.scroll { table {
                thead { tr { @for name in names { th scope="col" { (name) } } } }
                tbody { @for it in &way.streams {
                    tr {
                        th scope="row" { (it.stream) }
                        td { (it.load_pps.map_or_else(|| "–".into(), |pps| format!("{:.3}", pps / 1e3))) }
                        @let frames = [it.frames.sent, it.frames.received, it.frames.lost];
                        @for count in frames { td { (count) } }
                        td { (it.shortfall.map_or_else(|| "–".into(), |frames| frames.to_string())) }
                        @for count in [it.duplicated, it.reordered, it.corrupted] { td { (count) } }
                        @let of = |time: fn(&FlowLatency) -> Option<u64>| it.latency_ns.as_ref().and_then(time);
                        @for ns in [of(|it| Some(it.min)), of(|it| Some(it.mean)), of(|it| Some(it.max)), of(|it| it.jitter)] { td { (in_us(ns)) } }
                    }
                } }
            } }
        }
    }
}

fn latency(trial: &DetailedTrial) -> Markup {
    let most_ns = trial.result.latency_ns.max.unwrap_or(0);
    markup! {
        p.hint {
            @match sentences::arrival(trial) {
                Some(arrival) => { "From giving a frame to the port until its arrival (" (arrival) ")" },
                None => "From a frame's last bit on the wire to its consumption",
            }
            ", on a logarithmic axis."
        }
        @if let Some(clocks) = &trial.clocks { p { (sentences::clocks(clocks)) "." } }
        (bars(&[(String::new(), percentiles(&trial.result.latency_ns, most_ns))]))
        @if let Some(jitter) = trial.result.latency_ns.jitter {
            p {
                "Jitter: " (format!("{:.1}", jitter as f64 / 1e3))
                " µs, the mean absolute difference between the latencies of two frames of a flow that were sent one after the other (RFC 3393)."
            }
        }
        @if trial.directions.iter().any(|way| !way.latency_histogram.is_empty()) {
            (histogram(trial))
        }
    }
}

/// The frames of each direction by their latency.
fn histogram(trial: &DetailedTrial) -> Markup {
    let line = |way: &Direction| Line {
        name: format!("{} to {}", way.from, way.to),
        points: way.latency_histogram.iter().map(|it| (it.up_to_ns as f64 / 1e3, it.frames as f64)).collect(),
    };
    let figure = Figure {
        title: "Frames by latency".into(),
        x: "latency up to, µs".into(),
        y: "frames".into(),
        stated: Vec::new(),
        lines: trial.directions.iter().map(line).collect(),
    };
    let points = || figure.lines.iter().flat_map(|line| &line.points);
    let across = Axis::logarithmic(points().map(|point| point.0));
    let up = Axis::logarithmic(points().map(|point| point.1));
    let note =
        "Each point is a range of latencies, a tenth of a power of ten wide. Both axes are logarithmic.";
    drawing::lines_on(&figure, note, across, up)
}

fn cpus(trial: &DetailedTrial) -> Markup {
    markup! {
        p.hint { "The whole host, all programs together, in s." }
        @if let Some(cycles) = trial.cycles_per_frame() {
            p { (format!("{cycles:.0}")) " cycles for each frame that arrived, of all CPUs together." }
        }
        @for (name, cpu) in trial.cpu_names().iter().zip(&trial.cpus) {
            @let parts: Vec<Part> = [
                ("interrupts", cpu.irq_s, "k0"),
                ("softirqs", cpu.softirq_s, "k1"),
                ("kernel", cpu.system_s, "k2"),
                ("programs", cpu.user_s, "p2"),
                ("taken by a host", cpu.steal_s, "flight"),
                ("idle", cpu.idle_s, "k3"),
            ].map(|(name, s, colour)| (name.to_owned(), s, colour.to_owned())).into();
            h3 { "CPU " (name) }
            (band(&parts, parts.iter().map(|part| part.1).sum()))
            (legend(&parts, " s"))
        }
    }
}

/// The CPU time of a testbed without separate CPUs, as shares.
fn shares(cpu: &Cpu) -> Markup {
    let mut parts: Vec<Part> = vec![
        ("interrupts".into(), cpu.hardirq * 100.0, "k0".into()),
        ("softirqs".into(), cpu.softirq * 100.0, "k1".into()),
        ("threads".into(), cpu.thread * 100.0, "k2".into()),
    ];
    parts.extend(cpu.idle_polls.map(|share| ("idle polls".into(), share * 100.0, "p2".into())));
    parts.push(("idle".into(), (1.0 - cpu.busy()).max(0.0) * 100.0, "k3".into()));
    markup! { (band(&parts, 100.0)) (legend(&parts, " %")) }
}

fn sender(trial: &DetailedTrial) -> Markup {
    markup! {
        @match &trial.sender {
            Some(sender) => p {
                "At most " (sender.ceilings_pps.iter().map(|pps| kpps(*pps)).collect::<Vec<_>>().join(" and "))
                " kpps (" (sender.source) ")."
            },
            None if trial.load_pps.is_none() && trial.replay.is_none() => p { "As many frames as the ports took." },
            None => {},
        }
        @if trial.directions.iter().any(|it| it.gaps.is_some()) { div.scroll { table {
            thead { tr { @for name in ["port", "gaps", "intended, µs", "within 10 µs", "p50, µs", "p99, µs", "p99.9, µs", "max, µs"] { th scope="col" { (name) } } } }
            tbody { @for (direction, gaps) in trial.directions.iter().filter_map(|it| Some((it, it.gaps?))) {
                tr {
                    th scope="row" { (direction.from) } td { (gaps.count) }
                    td { (gaps.intended_ns.map_or("–".into(), |ns| format!("{:.3}", ns / 1e3))) }
                    td { (gaps.share_within().map_or("–".into(), |share| format!("{:.2} %", share * 100.0))) }
                    @for ns in [gaps.p50_ns, gaps.p99_ns, gaps.p999_ns, gaps.max_ns] { td { (format!("{:.1}", ns as f64 / 1e3)) } }
                }
            } } }
        } }
    }
}

fn directions(directions: &[Direction]) -> Markup {
    let counts = |it: &Direction| {
        let Fate { intended, received, lost, duplicated, reordered, corrupted, other_traffic } = it.fate;
        let [intended, sent, shortfall, received, lost] =
            [intended, it.sent, it.shortfall, received, lost].map(Some);
        [intended, sent, shortfall, received, lost, duplicated, reordered, corrupted, other_traffic]
    };
    let names = [
        "",
        "intended",
        "sent",
        "shortfall",
        "received",
        "lost",
        "duplicated",
        "reordered",
        "corrupted",
        "other traffic",
    ];
    markup! {
        table {
            thead { tr { @for name in names { th scope="col" { (name) } } } }
            tbody { @for it in directions {
                tr {
                    th scope="row" { (it.from) " → " (it.to) }
                    @for count in counts(it) {
                        td { (count.map_or("–".into(), |count| count.to_string())) }
                    }
                }
            } }
        }
    }
}

fn counted(trial: &DetailedTrial) -> Markup {
    let list = |counters: &BTreeMap<String, u64>| {
        markup! { dl { @for (name, count) in counters { dt { (name) } dd { (count) } } } }
    };
    markup! {
        @for (name, counters) in trial.interfaces.iter().chain(&trial.ip) {
            details { summary { b { (name) } } (list(counters)) }
        }
        @for (name, counters) in [("backlogs", &trial.softnet), ("interrupts", &trial.interrupts), ("softirqs", &trial.softirqs)] {
            details { summary { b { (name) } } (list(counters)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::Latency;
    use kpps_documents::calibration::{Gaps, Sender};
    use kpps_documents::detail::LatencyRange;
    use kpps_documents::detail::{CpuTimes, RateChange};
    use kpps_documents::{Ledger, Trial};

    /// A load that was changed: the first load, each change, and the mean.
    #[test]
    fn a_changed_load_is_said() {
        let way = |from: &str, count: usize| {
            let change = |n: usize| RateChange { at_s: 1.5 * n as f64, offered_pps: 80e3 };
            let rate_changes = (1..=count).map(change).collect();
            Direction { from: from.into(), rate_changes, ..Direction::default() }
        };
        let trial = DetailedTrial {
            load_pps: Some(50e3),
            directions: vec![way("a", 1), way("b", 11)],
            result: Trial { offered_pps: 120e3, ..Trial::default() },
            ..DetailedTrial::default()
        };
        let load = "50.0 kpps at first, changed 11 times while it ran, 60.0 kpps on average";
        let once = "load from a: 80.0 kpps from 1.500 s";
        for text in [page(&trial), screen(&trial)] {
            assert!(text.contains(load) && text.contains(once), "{text}");
            assert!(text.contains("80.0 kpps from 12.000 s, 3 more changes") && !text.contains("13.500"));
        }
        let csv = crate::Rows::of(&trial.directions).csv();
        assert!(csv.contains(r#"{""at_s"":1.5,""offered_pps"":80000.0}"#), "{csv}");
        let plain = DetailedTrial { directions: vec![way("a", 0)], ..trial };
        assert!(page(&plain).contains("50.0 kpps") && !page(&plain).contains("at first"));
        let csv = crate::Rows::of(&plain.directions).csv();
        assert!(!csv.contains("rate_changes"), "{csv}");
    }

    #[test]
    fn a_slow_trial_without_loss_has_rates_with_digits_and_no_places() {
        let ledger = Ledger { sent: 20, delivered: 20, ..Ledger::default() }.closed();
        let result = Trial { sent: 20, delivered: 20, sent_pps: 20.0, ledger, ..Trial::default() };
        let sent_bps = kpps_documents::detail::BitRates { l1: 13_440.0, l2: 10_240.0 };
        let mut trial = DetailedTrial {
            load_pps: Some(20.0),
            received_pps: 20.0,
            sent_bps,
            result,
            retries: 1,
            ..DetailedTrial::default()
        };
        let text = screen(&trial);
        let rates = "20 pps sent (13.4 kb/s on layer 1, 10.2 kb/s on layer 2), 20 pps received;";
        assert!(text.contains(rates) && text.contains(", 20 pps for"), "{text}");
        assert!(text.contains("all 20 sent frames arrived") && !text.contains("unexplained"), "{text}");
        assert!(text.contains("the first trial was disturbed.\n"), "{text}");
        assert!(page(&trial).contains("20 pps; lost"), "{text}");
        let pause = kpps_documents::Pause { lasted_ns: 4_300_000, cpu: Some(0), ..Default::default() };
        trial.result.disturbance =
            Some(kpps_documents::Disturbance { frames: 1, pauses: 1, longest: Some(pause) });
        let shown = "disturbed; in the trial that is shown, other programs had CPU 0 for 4.3 ms at 0.00 s.";
        assert!(screen(&trial).contains(shown), "{}", screen(&trial));
    }

    #[test]
    fn the_page_of_a_replay_tells_how_its_frames_differ() {
        let departures = vec!["2 frames were cut".to_owned()];
        let replay = kpps_documents::detail::TrialReplay {
            file: "a.pcap".into(),
            departures,
            ..kpps_documents::detail::TrialReplay::default()
        };
        let text = page(&DetailedTrial { replay: Some(replay), ..DetailedTrial::default() });
        assert!(text.contains("2 frames were cut.") && !text.contains("unchanged"), "{text}");
    }

    #[test]
    fn every_frame_has_its_place_on_the_page() {
        let dropped = [("a netem".to_owned(), 150), ("pb backlog".to_owned(), 50)];
        let ledger = Ledger {
            sent: 900,
            shortfall: 100,
            delivered: 690,
            dropped: dropped.into(),
            ..Ledger::default()
        };
        let gaps =
            Gaps { intended_ns: Some(20_000.0), count: 899, within_10us: Some(880), ..Gaps::default() };
        let trial = DetailedTrial {
            environment: kpps_documents::Environment::on(["packet:<a>", "packet:b"]),
            load_pps: Some(50e3),
            complete: true,
            learned: Some(true),
            result: Trial {
                latency_ns: Latency {
                    p50: Some(12_500),
                    p99: Some(80_000),
                    max: Some(2_000_000),
                    jitter: Some(1_300),
                    ..Latency::default()
                },
                ledger: ledger.closed(),
                ..Trial::default()
            },
            cpus: vec![CpuTimes { user_s: 0.5, idle_s: 1.5, cycles: Some(7_000_000), ..CpuTimes::default() }],
            sender: Some(Sender { ceilings_pps: vec![40e3], source: "a.json".into(), exceeded: true }),
            directions: vec![Direction {
                gaps: Some(gaps),
                latency_histogram: [(12_500, 30), (16_000, 120)]
                    .map(|(up_to_ns, frames)| LatencyRange { up_to_ns, frames })
                    .to_vec(),
                ..Direction::default()
            }],
            interfaces: [("pb".to_owned(), [("rx_dropped".to_owned(), 50)].into())].into(),
            ..DetailedTrial::default()
        };
        let text = page(&trial);
        // The shares of the first band are those of all frames: 690, 150, 50, 10 and 100 of 1000.
        for width in ["496.80", "108.00", "36.00", "7.20", "72.00"] {
            assert!(text.contains(&format!("width=\"{width}\"")), "{width}");
        }
        assert!(
            text.contains("<td>12.50</td><td>30.00</td>") && text.contains("<td>16.00</td><td>120.0</td>")
        );
        for words in [
            "a netem",
            "pb backlog",
            "unexplained",
            "12.5 µs",
            "97.89 %",
            "the frames that it could not send are its shortfall",
            "No place accounts for 10 frames",
        ] {
            assert!(text.contains(words), "{words}");
        }
        assert!(text.contains("packet:&lt;a&gt;") && !text.contains("<script"));
    }
}
