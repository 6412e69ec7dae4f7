//! Results over frame sizes as pages.

use super::rates::mbps;
use crate::drawing::{self, Axis, Bar, bars, percentiles};
use crate::environment::section;
use crate::ndr::{at_least, drawings, found, goals, kpps, notices, trials};
use crate::{clock_error, page};
use kpps_documents::Trial;
use kpps_documents::ndr::Ndr;
use kpps_documents::rfc2544::{Rfc2544, SizeTests, Sizes, Times};
use kpps_documents::study::{Figure, Line};
use maud::{Markup, html as markup};

/// The searches at all frame sizes as one self-contained HTML page without script: the results at each size,
/// as rates and over line rate, latency, and the curves and trials behind it. Light and dark follow the
/// reader's system.
pub fn sizes(sizes: &Sizes) -> String {
    let on = &sizes.environment;
    let testbed = on.testbed_name();
    let body = markup! {
        header { div {
            h1 { (testbed) }
            p.setting { "Throughput at each frame size" @if on.bidirectional { ", per direction" } }
        } }
        main {
            div.lead { @for words in lead(&sizes.sizes) { p { (words) } } }
            @if !sizes.complete { p.notice role="status" { "Not every size has a result." } }
            section {
                h2 { "Throughput by frame size, over line rate" }
                p.hint { "A full bar is the highest load that was tried: line rate, unless a lower one was set. MRR is the rate delivered at that load." }
                (bars(&sizes.sizes.iter().map(rates).collect::<Vec<_>>()))
            }
            section {
                h2 { "Megabits per second by frame size" }
                p.hint { (LAYERS) " A full bar is the highest rate of all sizes." }
                (bars(&megabits(sizes.sizes.iter().map(|it| (it.environment.bytes_with_fcs(), best(it))))))
            }
            @let timed: Vec<_> = sizes.sizes.iter().filter_map(|it| Some((it, latency_near(it)?))).collect();
            @if !timed.is_empty() {
                section {
                    h2 { "Latency by frame size" }
                    p.hint { "At the highest load without loss, on a logarithmic axis." }
                    @if let Some(clocks) = clock_error(timed.iter().map(|(_, trial)| trial.latency_ns)) {
                        p.notice { (clocks) }
                    }
                    (latencies(timed.iter().map(|(it, trial)| (format!("{} B", it.environment.sizes_name()), trial.latency_ns))))
                }
            }
            (section(on))
            @for search in &sizes.sizes { (behind(search)) }
        }
        footer { p { "Made by kpps " (on.kpps_version) "; sizes in bytes with FCS." } }
    };
    page::page(&format!("{testbed}: frame sizes"), &[page::CSS, drawing::CSS], &body)
}

/// The tests of RFC 2544 as one self-contained HTML page without script: each test over all frame sizes,
/// where the tests depart from it, and every trial. Light and dark follow the reader's system.
pub fn rfc2544(document: &Rfc2544) -> String {
    let testbed = document.environment.testbed_name();
    let searches: Vec<_> = document.sizes.iter().filter_map(|tests| tests.throughput.as_ref()).collect();
    let body = markup! {
        header { div {
            h1 { (testbed) }
            p.setting { "The tests of RFC 2544" @if document.environment.bidirectional { ", per direction" } }
        } }
        main {
            div.lead { @for words in lead(searches.iter().copied()) { p { (words) } } }
            @if let Some(trouble) = &document.trouble { p.notice role="status" { (trouble) } }
            @else if !document.complete { p.notice role="status" { "The tests are not finished." } }
            section {
                h2 { "Throughput (26.1), over line rate" }
                p.hint { "The highest load at which one trial loses nothing. A full bar is the highest load that was tried." }
                (bars(&searches.iter().map(|search| rates(search)).collect::<Vec<_>>()))
                h3 { "The same in megabits per second" }
                p.hint { (LAYERS) }
                (bars(&megabits(searches.iter().map(|it| (it.environment.bytes_with_fcs(), best(it))))))
            }
            (latency(document))
            (frame_loss(document))
            (back_to_back(document))
            (times("Recovery from overload (26.5)", "Time from lowering the overload by half until the last lost frame.", document, |tests| tests.recovery.as_ref()))
            (times("Reset (26.6)", "Time of the outage, from the number of lost frames.", document, |tests| tests.reset.as_ref()))
            @if !document.departures.is_empty() {
                section {
                    h2 { "Differences from RFC 2544" }
                    ul { @for departure in &document.departures { li { (departure) } } }
                }
            }
            (section(&document.environment))
            @for tests in &document.sizes { (all_trials(tests)) }
        }
        footer { p { "Made by kpps " (document.environment.kpps_version) "; sizes in bytes with FCS." } }
    };
    page::page(&format!("{testbed}: RFC 2544"), &[page::CSS, drawing::CSS], &body)
}

/// The meaning of the layers of bit rates.
const LAYERS: &str = "Layer 1 is with preamble and gaps, layer 2 the frames with FCS.";

/// The highest load at which a search's strictest goal is met.
fn best(search: &Ndr) -> Option<f64> {
    search.goals.first()?.lower_pps
}

/// The results of the smallest and of the largest frames.
fn lead<'s>(searches: impl IntoIterator<Item = &'s Ndr>) -> Vec<String> {
    let mut found: Vec<_> = searches.into_iter().filter_map(|it| Some((it, best(it)?))).collect();
    found.sort_by_key(|(search, _)| search.environment.bytes_with_fcs());
    let words = |(search, pps): &(&Ndr, f64)| {
        let size = search.environment.bytes_with_fcs();
        // A share of a load that the tester cannot send says nothing of the device under test.
        match search.limited_by() {
            Some(limit) => format!("{size} B: no loss, {}.", at_least(*pps, Some(limit))),
            None => {
                let share = kpps_documents::words::percent(pps / search.max_pps.max(f64::MIN_POSITIVE));
                format!(
                    "{size} B: {} kpps without loss, {share} of the highest load that was tried.",
                    kpps(*pps)
                )
            }
        }
    };
    match &found[..] {
        [] => vec!["No load without loss was found.".into()],
        [only] => vec![words(only)],
        [first, .., last] => vec![words(first), words(last)],
    }
}

/// The goals of a search and its MRR, over the highest load.
fn rates(search: &Ndr) -> (String, Vec<Bar>) {
    let bar = |name: &str, pps: Option<f64>, colour| Bar {
        name: name.into(),
        share: pps.unwrap_or(0.0) / search.max_pps.max(f64::MIN_POSITIVE),
        colour,
        says: pps
            .map_or("–".into(), |pps| format!("{} kpps, {:.1} %", kpps(pps), 100.0 * pps / search.max_pps)),
    };
    let colours = ["s0", "s2", "s3"].into_iter().cycle();
    let goals =
        search.goals.iter().zip(colours).map(|(goal, colour)| bar(&goal.name, goal.lower_pps, colour));
    let mrr = bar("MRR", search.mrr_pps, "flight");
    (format!("{} B", search.environment.sizes_name()), goals.chain([mrr]).collect())
}

/// Rates by frame size in bits per second, as bars.
fn megabits(rates: impl Iterator<Item = (u32, Option<f64>)>) -> Vec<(String, Vec<Bar>)> {
    let bits: Vec<_> = rates.map(|(size, pps)| (size, mbps(pps, size.into()))).collect();
    let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
    let most = bits.iter().map(|(_, [_, l1])| number(l1)).fold(f64::MIN_POSITIVE, f64::max);
    let bar = |(size, [l2, l1]): (u32, [String; 2])| {
        let bar = Bar {
            name: "layer 1".into(),
            share: number(&l1) / most,
            colour: "s0",
            says: format!("{l1} Mb/s"),
        };
        let inner = Bar {
            name: "layer 2".into(),
            share: number(&l2) / most,
            colour: "s5",
            says: format!("{l2} Mb/s"),
        };
        (format!("{size} B"), vec![bar, inner])
    };
    bits.into_iter().map(bar).collect()
}

/// Of the trials of the device under test without loss, the one with the highest load in which frames
/// arrived.
fn latency_near(search: &Ndr) -> Option<&Trial> {
    let clean = search
        .trials
        .iter()
        .filter(|it| it.is_of_the_device() && it.loss_ratio == 0.0 && it.latency_ns.p50.is_some());
    clean.max_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps))
}

/// Latencies with names, on one axis.
fn latencies(all: impl Iterator<Item = (String, kpps_documents::Latency)>) -> Markup {
    let all: Vec<_> = all.collect();
    let most = all.iter().filter_map(|(_, it)| it.max).max().unwrap_or(0);
    bars(&all.into_iter().map(|(name, it)| (name, percentiles(&it, most))).collect::<Vec<_>>())
}

/// A search with its curves and trials, folded up.
fn behind(search: &Ndr) -> Markup {
    markup! {
        section { details {
            summary { b { (search.environment.sizes_name()) " B" } " " span { (found(search)) "; " (search.trials.len()) " trials" } }
            @for notice in notices(search) { p.notice { (notice) } }
            div.scroll { (goals(search)) }
            @for drawing in drawings(search) { (drawing) }
            h2 { "Every trial" }
            div.scroll { (trials(&search.trials)) }
        } }
    }
}

fn latency(document: &Rfc2544) -> Markup {
    let measured = || document.sizes.iter().filter(|tests| !tests.latency.is_empty());
    let line = |tests: &SizeTests| Line {
        name: format!("{} B", tests.sizes_name()),
        points: tests
            .latency
            .iter()
            .filter_map(|at| Some((at.share * 100.0, at.latency_ns.p50? as f64 / 1e3)))
            .collect(),
    };
    let figure = Figure {
        title: "Latency (26.2)".into(),
        x: "load, % of the throughput".into(),
        y: "p50, µs".into(),
        stated: Vec::new(),
        lines: measured().map(line).collect(),
    };
    markup! {
        @if measured().next().is_some() {
            section {
                @let up = Axis::logarithmic(figure.lines.iter().flat_map(|line| &line.points).map(|point| point.1));
                (drawing::lines_on(&figure, "On a logarithmic axis.", Axis::up_to(100.0), up))
                @if let Some(clocks) = clock_error(measured().flat_map(|it| &it.latency).map(|at| at.latency_ns)) {
                    p.notice { (clocks) }
                }
                @for tests in measured() { details {
                    summary { b { (tests.sizes_name()) " B" } " " span { "all percentiles, on a logarithmic axis" } }
                    (latencies(tests.latency.iter().map(|at| (format!("{:.0} %", at.share * 100.0), at.latency_ns))))
                } }
            }
        }
    }
}

fn frame_loss(document: &Rfc2544) -> Markup {
    let measured: Vec<_> = document.sizes.iter().filter(|tests| !tests.frame_loss.is_empty()).collect();
    let line = |tests: &&SizeTests| {
        let directions = document.environment.directions();
        let of_most = |load_pps: f64| 100.0 * load_pps / tests.max_pps.max(f64::MIN_POSITIVE);
        let points = tests
            .frame_loss
            .iter()
            .rev()
            .map(|it| (of_most(it.offered_pps / directions), it.loss_ratio * 100.0));
        Line { name: format!("{} B", tests.sizes_name()), points: points.collect() }
    };
    let figure = Figure {
        title: "Frame loss rate (26.3)".into(),
        x: "offered, % of the highest load that was tried".into(),
        y: "lost, %".into(),
        stated: Vec::new(),
        lines: measured.iter().map(line).collect(),
    };
    let most = figure.lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    let note = if most > 0.0 { "" } else { "Nothing was lost at any load." };
    markup! {
        @if !measured.is_empty() {
            section { (drawing::lines_on(&figure, note, Axis::up_to(100.0), Axis::up_to(most * 1.05))) }
        }
    }
}

fn back_to_back(document: &Rfc2544) -> Markup {
    let found: Vec<_> = document
        .sizes
        .iter()
        .filter_map(|it| Some((it.frame_bytes_with_fcs, it.back_to_back.as_ref()?)))
        .collect();
    let most = found.iter().map(|(_, it)| it.implied_s).fold(f64::MIN_POSITIVE, f64::max);
    let groups = found.iter().map(|(size, it)| {
        let bar = |name: &str, seconds: f64, colour| Bar {
            name: name.into(),
            share: seconds / most,
            colour,
            says: format!("{:.3} ms", seconds * 1e3),
        };
        let bars = vec![bar("implied", it.implied_s, "flight"), bar("corrected", it.corrected_s, "s0")];
        (format!("{size} B"), bars)
    });
    markup! {
        @if !found.is_empty() {
            section {
                h2 { "Back-to-back frames (26.4)" }
                p.hint { "Buffer time: implied by the longest burst, and corrected by the frames forwarded meanwhile (RFC 9004)." }
                (bars(&groups.collect::<Vec<_>>()))
                div.scroll { table {
                    thead { tr { @for name in ["size, B", "at, kpps", "longest burst, frames", "from", "to", "bursts"] { th scope="col" { (name) } } } }
                    tbody { @for (size, it) in &found { tr {
                        th scope="row" { (size) } td { (kpps(it.pps)) } td { (format!("{:.0}", it.mean_frames)) }
                        td { (it.frames.iter().min().copied().unwrap_or(0)) } td { (it.frames.iter().max().copied().unwrap_or(0)) }
                        td { (it.frames.len()) }
                    } } }
                } }
            }
        }
    }
}

fn times(title: &str, hint: &str, document: &Rfc2544, of: fn(&SizeTests) -> Option<&Times>) -> Markup {
    let found: Vec<_> =
        document.sizes.iter().filter_map(|it| Some((it.frame_bytes_with_fcs, of(it)?))).collect();
    let most = found.iter().map(|(_, it)| it.mean_s).fold(f64::MIN_POSITIVE, f64::max);
    let groups = found.iter().map(|(size, it)| {
        let says = format!("{:.3} ms", it.mean_s * 1e3);
        let name = format!("{} times", it.seconds.len());
        (format!("{size} B"), vec![Bar { name, share: it.mean_s / most, colour: "s0", says }])
    });
    markup! {
        @if !found.is_empty() {
            section { h2 { (title) } p.hint { (hint) } (bars(&groups.collect::<Vec<_>>())) }
        }
    }
}

/// Every trial of a frame size, by test, folded up.
fn all_trials(tests: &SizeTests) -> Markup {
    markup! {
        @if let Some(search) = &tests.throughput { (behind(search)) }
        @if !tests.frame_loss.is_empty() || !tests.latency.is_empty() {
            section { details {
                summary { b { (tests.sizes_name()) " B" } " " span { "trials of frame loss rate and latency" } }
                h3 { "Frame loss rate" }
                div.scroll { (trials(&tests.frame_loss)) }
                h3 { "Latency" }
                div.scroll { (trials(tests.latency.iter().flat_map(|at| &at.trials))) }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::ndr::SearchGoal;
    use kpps_documents::rfc2544::{BackToBack, LatencyAt};
    use kpps_documents::{Environment, Latency};

    fn on() -> Environment {
        Environment::on(["packet:<a>", "packet:b"])
    }

    fn search(size: u32, ndr: f64, most: f64) -> Ndr {
        let goal =
            |name: &str, pps| SearchGoal { name: name.into(), lower_pps: Some(pps), ..SearchGoal::default() };
        let trial = |offered_pps: f64, loss_ratio, us: u64| Trial {
            offered_pps,
            loss_ratio,
            latency_ns: Latency { p50: Some(us * 1000), max: Some(us * 4000), ..Latency::default() },
            ..Trial::default()
        };
        Ndr {
            environment: Environment { frame_bytes_with_fcs: Some(size), ..on() },
            max_pps: most,
            goals: vec![goal("NDR", ndr), goal("PDR", ndr * 1.1)],
            mrr_pps: Some(ndr / 2.0),
            trials: vec![trial(ndr / 2.0, 0.0, 7), trial(ndr, 0.0, 11), trial(most, 0.5, 900)],
            complete: true,
            ..Ndr::default()
        }
    }

    #[test]
    fn sizes_lie_beside_each_other() {
        let document = Sizes {
            environment: on(),
            sizes: vec![search(64, 400e3, 1.6e6), search(1518, 80e3, 80e3)],
            ..Sizes::default()
        };
        let text = sizes(&document);
        for words in [
            "64 B: 400.0 kpps without loss, 25 % of the highest load that was tried.",
            "1518 B: 80.0 kpps without loss, 100 %",
            // NDR, PDR, MRR of 64 B over line rate; and 984 of 984 Mb/s on layer 1 of the largest frames.
            "width:25.00%",
            "width:27.50%",
            "width:12.50%",
            "984.3 Mb/s",
            "268.8 Mb/s",
            "Not every size has a result",
            "11.0 µs",
        ] {
            assert!(text.contains(words), "{words}");
        }
        assert!(text.contains("packet:&lt;a&gt;") && !text.contains("<script"));
        let bars =
            text.split("Latency by frame size").nth(1).and_then(|text| text.split("</section>").next());
        assert!(bars.is_some_and(|text| !text.contains("900.0")), "of what lost nothing");
    }

    #[test]
    fn every_test_of_rfc_2544_is_on_its_page() {
        let loss = |offered_pps: f64, loss_ratio| Trial { offered_pps, loss_ratio, ..Trial::default() };
        let at = |share, us: u64| LatencyAt {
            share,
            latency_ns: Latency { p50: Some(us * 1000), ..Latency::default() },
            trials: vec![Trial::default()],
        };
        let times = Times { load_pps: 1e5, seconds: vec![0.25, 0.75], mean_s: 0.5 };
        let tests = SizeTests {
            frame_bytes_with_fcs: 64,
            max_pps: 1e6,
            throughput: Some(search(64, 400e3, 1e6)),
            latency: vec![at(0.1, 10), at(1.0, 90)],
            frame_loss: vec![loss(1e6, 0.6), loss(9e5, 0.5)],
            back_to_back: Some(BackToBack {
                pps: 1e6,
                frames: vec![900, 1100],
                mean_frames: 1000.0,
                most_frames: 5000,
                implied_s: 1e-3,
                corrected_s: 6e-4,
            }),
            recovery: Some(times.clone()),
            reset: Some(times),
        };
        let document =
            Rfc2544 { sizes: vec![tests], departures: vec!["trials of 1 s".into()], ..Rfc2544::default() };
        let text = rfc2544(&document);
        for words in [
            "26.1",
            "26.2",
            "26.3",
            "26.4",
            "26.5",
            "26.6",
            "trials of 1 s",
            "0.600 ms",
            "width:60.00%",
            "1100",
            "500.000 ms",
            "not finished",
            "40 % of the highest load",
        ] {
            assert!(text.contains(words), "{words}");
        }
        let empty = rfc2544(&Rfc2544 { complete: true, ..Rfc2544::default() });
        assert!(empty.contains("No load without loss was found") && !empty.contains("26.3"));
    }
}
