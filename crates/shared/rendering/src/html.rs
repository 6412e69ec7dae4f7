//! A curve as a page with plots.

use crate::environment::{FCS_BYTES, frames, is_usual, section};
use crate::error_bars::error_bars;
use crate::{page, remarks};
use kpps_documents::places;
use kpps_documents::words::{in_kpps, in_us};
use kpps_documents::{Curve, Series, Trial};
use maud::{Markup, PreEscaped, html as markup};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

const PLOTS_JS: &str = include_str!("../assets/uplot-1.6.32.min.js");
const PLOTS_CSS: &str = include_str!("../assets/uplot-1.6.32.min.css");
const PLOTS_LICENCE: &str = include_str!("../assets/uplot-LICENSE");
const PAGE_JS: &str = include_str!("../assets/page.js");

/// The document as one self-contained HTML page: the two sentences, plots to be explored with
/// mouse, finger or arrow keys, a table of every point, and the environment. Light and dark.
///
/// The page holds the document itself, and gives it back as JSON.
pub fn html(curve: &Curve) -> String {
    let environment = &curve.environment;
    let bytes = environment.bytes_with_fcs();
    let setting = [
        environment.machine_name(),
        environment.chip.clone(),
        match is_usual(environment) {
            true => format!("{bytes}-byte frames ({} without FCS)", bytes.saturating_sub(FCS_BYTES)),
            false => format!("frames of {}", frames(environment)),
        },
        format!("{} ms for each point", environment.duration_ms()),
    ];
    let setting: Vec<_> = setting.into_iter().filter(|part| !part.is_empty()).collect();
    let title = format!("{}, delivered against offered load", environment.machine_name());
    let body = markup! {
        header {
            div {
                h1 { "Delivered against offered load" }
                p.setting { (setting.join(" · ")) }
            }
            button.plain #theme type="button" aria-label="Switch between light and dark" { "Dark" }
        }
        main {
            div.lead { @for sentence in &curve.summary { p { (sentence.replace(" %", "\u{a0}%")) } } }
            @if !curve.complete {
                p.notice role="status" { "This run was interrupted: some points are missing." }
            }
            @for remark in remarks(curve.series.iter().flat_map(|series| &series.points)) {
                p.notice role="status" { (remark) }
            }
            noscript { p.notice { "The plots need JavaScript. Every number is in the tables below." } }
            (legend(curve))
            (plots(curve))
            (points(curve))
            (section(environment))
        }
        footer {
            p {
                "Made by kpps " (environment.kpps_version) ". "
                button.plain #save type="button" { "Save the data (JSON)" }
            }
        }
        script type="application/json" #data { (PreEscaped(in_script(curve))) }
        script type="application/json" #words { (PreEscaped(words(curve))) }
        script { (PreEscaped(format!("/*\n{PLOTS_LICENCE}*/\n{PLOTS_JS}"))) }
        script { (PreEscaped(PAGE_JS)) }
    };
    page::page(&title, &[PLOTS_CSS, page::CSS], &body)
}

/// JSON that cannot end its own script element: `<` occurs only inside strings, where `\u003c` means the
/// same.
fn in_script(value: &impl Serialize) -> String {
    // Serialising cannot fail: names are strings, and numbers are finite.
    serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned()).replace('<', "\\u003c")
}

/// The places that lost frames with their explanations, as JSON for the script.
fn words(curve: &Curve) -> String {
    let words: BTreeMap<&str, String> = places::all(&curve.series)
        .into_iter()
        .filter_map(|name| Some((name, places::explained(name)?)))
        .collect();
    in_script(&words)
}

/// The line, dash and mark of the `index`-th series; the script draws with the same ones.
fn swatch(index: usize) -> Markup {
    const DASHES: [&str; 8] = ["", "9 4", "3 3", "12 3 3 3", "6 3", "2 5", "12 5", "5 2 2 2"];
    let round = "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z";
    let triangle = "M0-4.8L4.6 3.4L-4.6 3.4Z";
    let square = "M-3.6-3.6h7.2v7.2h-7.2Z";
    let diamond = "M0-5L5 0L0 5L-5 0Z";
    let mark = [round, triangle, square, diamond][index % 4];
    let hollow = index % 8 >= 4;
    let colour = format!("var(--s{})", index % 8);
    let dash = DASHES[index % DASHES.len()];
    markup! {
        svg.swatch viewBox="-17 -7 34 14" aria-hidden="true" {
            path d="M-17 0H17" stroke=(colour) stroke-width="2" stroke-dasharray=[(!dash.is_empty()).then_some(dash)] {}
            path d=(mark) data-hollow=[hollow.then_some("")] stroke=(colour) stroke-width="1.6"
                fill=(if hollow { "var(--card)" } else { &colour }) {}
        }
    }
}

fn legend(curve: &Curve) -> Markup {
    markup! {
        div.legend role="group" aria-label="Series shown in the plots" {
            @for (index, series) in curve.series.iter().enumerate() {
                button type="button" data-series=(index) aria-pressed="true"
                    title=[curve.environment.presets.get(&series.name)] { (swatch(index)) (series.name) }
            }
        }
    }
}

/// A titled plot; the script draws into it.
fn plot(id: &str, tall: bool, title: &str, hint: &str, choice: Markup) -> Markup {
    markup! {
        section {
            h2 { (title) }
            p.hint { (hint) }
            (choice)
            div #(id) .plot .tall[tall] role="img" tabindex="0" aria-label={ (title) ". " (hint) " The values are in the tables below." } {}
        }
    }
}

/// A stacked plot, with a list of its layers, which the script fills.
fn layers(id: &str, title: &str, hint: &str, choice: Markup) -> Markup {
    markup! {
        div {
            div.titled { div { h3 { (title) } p.hint { (hint) } } (choice) }
            div #(id) .plot .mid role="img" tabindex="0" aria-label={ (title) ". " (hint) " The values are in the tables below." } {}
            ul.places #{ (id) "-layers" } {}
        }
    }
}

/// Alternative options: (value, label).
fn choice<'a>(name: &str, legend: &str, options: impl IntoIterator<Item = (String, &'a str)>) -> Markup {
    markup! {
        fieldset.choice {
            legend { (legend) }
            @for (index, (value, label)) in options.into_iter().enumerate() {
                label { input type="radio" name=(name) value=(value) checked[index == 0]; (label) }
            }
        }
    }
}

fn plots(curve: &Curve) -> Markup {
    let presets = curve.series.iter().enumerate().map(|(i, s)| (i.to_string(), s.name.as_str()));
    let percentiles = [("p50", "median"), ("p99", "99 %"), ("p999", "99.9 %"), ("max", "slowest")];
    let units = [("kpps", "kpps"), ("%", "% of offered")];
    let owned = |(value, label): (&str, &'static str)| (value.to_owned(), label);
    let cpu = observed(curve, |point| point.cpu);
    let bars = error_bars(curve.environment.draws).into_iter().flatten();
    let delivered: Vec<_> =
        ["Delivered load for each offered load.".to_owned()].into_iter().chain(bars).collect();
    let delivered = delivered.join(" ");
    markup! {
        (plot("delivered", true, "Delivered, kpps", &delivered, markup! {}))
        section {
            h2 { "One preset in detail" }
            (choice("preset", "Preset", presets))
            div.halves {
                (layers("ledger", "Where frames end", "All offered frames, by the place where they ended.",
                    choice("unit", "Unit", units.map(owned))))
                @if cpu {
                    (layers("kinds", "CPU time", "In % of the time; the rest is idle.", markup! {}))
                }
            }
        }
        div.pair {
            @if cpu { (plot("cpu", false, "CPU, % busy", "Idle polls included: a poller is always busy.", markup! {})) }
            @if observed(curve, |point| point.interrupts_per_s) {
                (plot("interrupts", false, "Interrupts, thousands per second", "As taken by the CPU.", markup! {}))
            }
        }
        @if observed(curve, |point| point.latency_ns.p50) {
            (plot("latency", true, "Latency, µs", "From sending to delivery, on a logarithmic axis; none where nothing was delivered.", markup! {
                (choice("percentile", "Percentile", percentiles.map(owned)))
            }))
        }
        @if observed(curve, |point| point.registers_per_frame) { div.pair {
            (plot("reads", false, "Register reads per frame", "For each frame that the driver took; the CPU waits for each read.", markup! {}))
            (plot("writes", false, "Register writes per frame", "Writes are posted: they cost bus time, not CPU time.", markup! {}))
        } }
        div.pair {
            @if observed(curve, |point| point.bus_busy) {
                (plot("bus", false, "Bus, % busy", "Data, descriptors and register accesses.", markup! {}))
            }
            @if observed(curve, |point| point.allocations_per_frame) {
                (plot("allocations", false, "Allocations per frame", "Buffers, per frame that the driver took; 0 where they are recycled.", markup! {}))
            }
        }
    }
}

/// Whether any trial observed this quantity.
fn observed<T>(curve: &Curve, of: impl Fn(&Trial) -> Option<T>) -> bool {
    curve.series.iter().flat_map(|series| &series.points).any(|point| of(point).is_some())
}

fn points(curve: &Curve) -> Markup {
    let all = || curve.series.iter().flat_map(|s| &s.points);
    let (trials, open) = (all().count(), all().filter(|p| !p.ledger.closes()).count());
    markup! {
        section {
            h2 { "Every point" }
            @if open == 0 {
                p.hint { "Every frame of all " (trials) " trials is accounted for." }
            } @else {
                p.notice { "In " (open) " of " (trials) " trials the ledger does not close." }
            }
            @let explained: Vec<_> =
                places::all(&curve.series).into_iter().filter_map(|name| Some((name, places::explained(name)?))).collect();
            @if !explained.is_empty() {
                ul.places { @for (name, words) in &explained { li { b { (name) } span { (words) } } } }
            }
            @for (index, series) in curve.series.iter().enumerate() {
                details {
                    summary {
                        (swatch(index)) b { (series.name) } " "
                        @if let Some(stands_for) = curve.environment.presets.get(&series.name) { span { (stands_for) } }
                    }
                    div.scroll tabindex="0" role="region" aria-label={ "Points of " (series.name) } { (grid(series)) }
                    (probes(series))
                }
            }
        }
    }
}

/// The latencies of probes at each load, if there are probes.
fn probes(series: &Series) -> Markup {
    let rows = series.points.iter().flat_map(|point| point.probes.iter().map(move |probe| (point, probe)));
    markup! {
        @if series.points.iter().any(|point| !point.probes.is_empty()) {
            p.hint { "Latency of probes beside the load; in the first line without it:" }
            div.scroll tabindex="0" role="region" aria-label={ "Probes of " (series.name) } { table {
                thead { tr {
                    @for name in ["offered, kpps", "probe", "from port", "sent", "shortfall", "lost"] { th scope="col" { (name) } }
                    @for name in ["min, µs", "p50, µs", "p99, µs", "max, µs", "jitter, µs"] {
                        th scope="col" { (name) }
                    }
                } }
                tbody { @for (point, probe) in rows { tr {
                    td { (in_kpps(point.offered_pps)) }
                    td { (probe.stream) }
                    td { (probe.from.map_or_else(|| "–".into(), |port| port.to_string())) }
                    @for frames in [Some(probe.sent), probe.shortfall, Some(probe.lost)] {
                        td { (frames.map_or_else(|| "–".into(), |frames| frames.to_string())) }
                    }
                    @let times = &probe.latency_ns;
                    @for ns in [times.min, times.p50, times.p99, times.max, times.jitter] {
                        td { (in_us(ns)) }
                    }
                } } }
            } }
        }
    }
}

fn grid(series: &Series) -> Markup {
    let losses: BTreeSet<&str> = series.points.iter().flat_map(|p| p.ledger.losses()).map(|l| l.0).collect();
    markup! {
        table {
            thead {
                tr {
                    th.group colspan="3" scope="colgroup" { "load, kpps" }
                    th.group colspan=(losses.len() + 4) scope="colgroup" { "frames" }
                    th.group colspan="3" scope="colgroup" { "CPU" }
                    th.group scope="colgroup" { "bus" }
                    th.group colspan="4" scope="colgroup" { "latency, µs" }
                    th.group colspan="3" scope="colgroup" { "per frame taken" }
                }
                tr {
                    @for name in ["offered", "sent", "delivered", "sent", "delivered"] { th scope="col" { (name) } }
                    @for place in &losses { th scope="col" title=[places::explained(place)] { (place) } }
                    @for name in ["in flight", "loss, %", "busy, %", "idle polls, %", "interrupts/s", "busy, %", "p50", "p99", "p99.9", "max", "reg. reads", "reg. writes", "allocations"] {
                        th scope="col" { (name) }
                    }
                }
            }
            tbody { @for point in &series.points { (row(point, &losses)) } }
        }
    }
}

fn row(point: &Trial, places: &BTreeSet<&str>) -> Markup {
    let ledger = &point.ledger;
    let lost = ledger.losses();
    let kpps = in_kpps;
    let times = point.latency_ns;
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let percent = |share: Option<f64>| or_dash(share.map(|share| format!("{:.1}", share * 100.0)));
    let registers = point.registers_per_frame;
    markup! {
        tr {
            th scope="row" { (kpps(point.offered_pps)) }
            td { (kpps(point.sent_pps)) }
            td { (kpps(point.delivered_pps)) }
            td { (ledger.sent) }
            td { (ledger.delivered) }
            @for place in places {
                td { (lost.iter().find(|l| l.0 == *place).map_or(0, |l| l.1)) }
            }
            td { (ledger.in_flight) }
            td { (format!("{:.4}", point.loss_ratio * 100.0)) }
            td { (percent(point.cpu_busy)) }
            td { (percent(point.cpu.and_then(|cpu| cpu.idle_polls))) }
            td { (or_dash(point.interrupts_per_s.map(|each| format!("{each:.0}")))) }
            td { (percent(point.bus_busy)) }
            @for time in [times.p50, times.p99, times.p999, times.max] { td { (in_us(time)) } }
            @for times in [registers.map(|it| it.read), registers.map(|it| it.write), point.allocations_per_frame] {
                td { (or_dash(times.map(|times| times.to_string()))) }
            }
        }
    }
}
