//! The lab's results as a page.

use super::screen::{driver, losses};
use crate::drawing::{self, Bar, bars};
use crate::{flame, page};
use kpps_documents::lab::{Clock, Lab, Row, median};
use maud::{Markup, html as markup};
use std::collections::BTreeMap;

/// The lab as one self-contained HTML page without script: the drivers at each workload as bars, kpps over
/// the others, every row, and where the instructions go. Light and dark follow the reader's system.
pub fn page(lab: &Lab) -> String {
    let counts = lab.clock == Clock::Instructions;
    let title = format!("Drivers compared on {} in QEMU {}", lab.kernel, lab.qemu);
    let body = markup! {
        header { div {
            h1 { (title) }
            p.setting { (lab.kernel_version) ", one CPU, frames of 64 B with FCS; clock: " (lab.clock.name())
                "; rings: kpps " (lab.kpps_ring) ", DPDK " (lab.dpdk_ring) @for setting in &lab.settings { "; " (setting) } }
        } }
        main {
            @if let Some(lead) = lead(lab) { div.lead { p { (lead) } } }
            @if !lab.complete { p.notice role="status" { "This run was interrupted: some rows are missing." } }
            @if lab.resumed > 0 { p.notice role="status" { "Some rows are of earlier boots." } }
            @for failure in &lab.failures { p.notice role="status" { "Not measured: " (failure) } }
            @if counts { (chart(lab, "Instructions for each frame", "The median of the windows, with the least and the most: shorter is better. Each instruction counts as a nanosecond, and caches cost nothing: these are no rates of any machine.", instructions)) }
            (chart(lab, "Thousands of frames per second", if counts { "Frames per second of the guest's time." } else { "The median of the windows, with the least and the most. QEMU's cards have no wire limit: rates above 1488 kpps are those of the emulation." }, rates))
            @if !lab.ratios.is_empty() { section {
                h2 { "kpps and the others" }
                p.hint { @if counts { "Instructions of the other drivers for each instruction of kpps: the median, and least to most." }
                    @else { "Frames per second of kpps, divided by those of the other drivers: the median of the rounds, and least to most." } }
                div.scroll { table {
                    thead { tr { @for name in ["card", "workload", "kpps by", "over", "ratio", "least", "most"] { th scope="col" { (name) } } } }
                    tbody { @for it in &lab.ratios { tr {
                        td { (it.device) } td { (it.workload) } td { (it.backend) } th scope="row" { (it.over) }
                        @for ratio in [it.ratio, it.min, it.max] { td { (format!("{ratio:.2}")) } }
                    } } }
                } }
            } }
            section { h2 { "Every row" } div.scroll { (rows(lab)) } }
            @for profile in &lab.profiles { (flame::graph(profile)) }
        }
        footer { p { "Made by kpps " (lab.kpps_version) "; " (lab.rounds) " rounds of " (lab.window_ms) " ms." } }
    };
    page::page(&title, &[page::CSS, drawing::CSS, flame::CSS], &body)
}

/// The range of kpps over the others, in a sentence.
fn lead(lab: &Lab) -> Option<String> {
    let ratios = || lab.ratios.iter().map(|it| it.ratio);
    let least = ratios().min_by(f64::total_cmp)?;
    let most = ratios().max_by(f64::total_cmp)?;
    let range = if least == most { format!("{least:.2}") } else { format!("{least:.2} to {most:.2}") };
    Some(match lab.clock {
        Clock::Instructions => format!("For each instruction of kpps the other drivers take {range}."),
        Clock::Wall => format!("For each frame of the other drivers kpps has {range}."),
    })
}

/// A row's median, and all of its values.
type Values = (f64, Vec<f64>);
/// A row with its values.
type Valued<'a> = (&'a Row, Values);

fn instructions(row: &Row) -> Option<Values> {
    Some((median(row.instructions_per_frame.iter().copied())?, row.instructions_per_frame.clone()))
}

fn rates(row: &Row) -> Option<Values> {
    Some((row.median_pps? / 1e3, row.pps.iter().map(|pps| pps / 1e3).collect()))
}

/// The drivers at each workload as bars; nothing if no row has the quantity.
fn chart(lab: &Lab, title: &str, hint: &str, of: fn(&Row) -> Option<Values>) -> Markup {
    let mut groups: BTreeMap<(&str, &str), Vec<Valued>> = BTreeMap::new();
    for row in &lab.rows {
        if let Some(values) = of(row) {
            groups.entry((&row.workload, &row.device)).or_default().push((row, values));
        }
    }
    let group = |((workload, device), rows): ((&str, &str), Vec<Valued>)| {
        let most = rows.iter().map(|(_, (value, _))| *value).fold(f64::MIN_POSITIVE, f64::max);
        let bar = |(row, (value, all)): &Valued| {
            let least = all.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = all.iter().copied().fold(0.0, f64::max);
            let range = if all.len() > 1 { format!(" ({least:.1}–{highest:.1})") } else { String::new() };
            let colour = if row.driver == "kpps" { "s0" } else { "flight" };
            Bar { name: driver(row), share: value / most, colour, says: format!("{value:.1}{range}") }
        };
        (format!("{workload}, {device}"), rows.iter().map(bar).collect())
    };
    let groups: Vec<(String, Vec<Bar>)> = groups.into_iter().map(group).collect();
    markup! { @if !groups.is_empty() { section { h2 { (title) } p.hint { (hint) } (bars(&groups)) } } }
}

fn rows(lab: &Lab) -> Markup {
    let names = [
        "card",
        "workload",
        "driver",
        "kpps",
        "instructions per frame",
        "offered, kpps",
        "interrupts/s",
        "CPU, %",
        "registers per frame",
        "lost",
    ];
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let kpps = |pps: f64| format!("{:.1}", pps / 1e3);
    markup! {
        table {
            thead { tr { @for name in names { th scope="col" { (name) } } } }
            tbody { @for row in &lab.rows { tr {
                td { (row.device) } td { (row.workload) } th scope="row" { (driver(row)) }
                td { (or_dash(row.median_pps.map(kpps))) }
                td { (or_dash(instructions(row).map(|it| format!("{:.1}", it.0)))) }
                td { (or_dash(row.sent_pps.map(kpps))) }
                td { (or_dash(row.interrupts_per_s.map(|each| format!("{each:.0}")))) }
                td { (or_dash(row.cpu_busy.map(|busy| format!("{:.0}", busy * 100.0)))) }
                td { (or_dash(row.registers_per_frame.map(|each| format!("{:.3}", each.read + each.write)))) }
                td { (losses(row)) }
            } } }
        }
    }
}
