//! A table for each series.

use super::TextStyle;
use crate::error_bars::error_bars;
use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};
use kpps_documents::places;
use kpps_documents::words::in_kpps as kpps;
use kpps_documents::{Curve, Latency, Series, Trial};
use std::collections::BTreeSet;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Each series as a table: its mark, its name, its description, and a line for each offered load. Loss is
/// given in per cent of the frames that were due, by place.
pub fn table(curve: &Curve, style: TextStyle) -> String {
    let mut text = String::new();
    for (index, series) in curve.series.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let heading = format!("{} {}", style.mark(index), series.name);
        text += &style.paint(index, &heading);
        if let Some(stands_for) = curve.environment.presets.get(&series.name) {
            let _ = write!(text, ": {stands_for}");
        }
        text.push('\n');
        text += &one(series, style);
        text += &probes(series, style);
    }
    text += &footnote(curve);
    if let Some([shows, lacks]) = error_bars(curve.environment.draws) {
        let _ = write!(text, "\n{shows}\n{lacks}\n");
    }
    if !curve.complete {
        text += "\nNot finished: some points are missing.\n";
    }
    text
}

/// The latencies of probes at each load, if there are probes.
fn probes(series: &Series, style: TextStyle) -> String {
    if series.points.iter().all(|point| point.probes.is_empty()) {
        return String::new();
    }
    let micro = if style.ascii { "us" } else { "µs" };
    let us = |ns: Option<u64>| ns.map_or_else(|| nothing(style), |ns| format!("{:.1}", ns as f64 / 1e3));
    let mut header: Vec<String> =
        ["offered\nkpps", "\nprobe", "from\nport", "not sent\n%", "lost\n%"].map(String::from).into();
    header.extend(["min", "p50", "p99", "max", "jitter"].map(|name| format!("{name}\n{micro}")));
    let rows = series.points.iter().flat_map(|point| {
        point.probes.iter().map(move |probe| {
            let Latency { min, p50, p99, max, jitter, .. } = probe.latency_ns;
            let lost = per_cent(probe.lost as f64 / probe.sent.max(1) as f64);
            let from = probe.from.map_or_else(|| nothing(style), |port| port.to_string());
            let late = |frames: u64| per_cent(frames as f64 / (probe.sent + frames).max(1) as f64);
            let late = probe.shortfall.map_or_else(|| nothing(style), late);
            let first = [kpps(point.offered_pps), probe.stream.clone(), from, late, lost];
            first.into_iter().chain([min, p50, p99, max, jitter].map(us)).collect::<Vec<_>>()
        })
    });
    format!(
        "\nLatency of probes beside the load; in the first line without it:\n{}",
        lines(header, rows, style)
    )
}

/// The legend of the columns of places.
fn footnote(curve: &Curve) -> String {
    let places: Vec<_> = places::all(&curve.series)
        .into_iter()
        .filter_map(|name| Some((name, places::explained(name)?)))
        .collect();
    let widest = places.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let mut text = String::new();
    if !places.is_empty() {
        text += "\nLost, in % of all frames of a trial, warm-up included:\n";
    }
    for (name, explained) in places {
        let _ = writeln!(text, "  {name:widest$}  {explained}");
    }
    text
}

/// The table of one series, with a column for each place that lost frames; on a terminal too
/// narrow for that, with the one place that lost most, and without the median latency.
fn one(series: &Series, style: TextStyle) -> String {
    let places: BTreeSet<&str> =
        series.points.iter().flat_map(|p| p.ledger.losses()).map(|(place, _)| place).collect();
    let wide = grid(series, Some(&places), style);
    if wide.lines().all(|line| line.width() <= style.width) { wide } else { grid(series, None, style) }
}

fn grid(series: &Series, places: Option<&BTreeSet<&str>>, style: TextStyle) -> String {
    let micro = if style.ascii { "us" } else { "µs" };
    let mut header: Vec<String> = ["offered\nkpps", "delivered\nkpps"].map(String::from).into();
    if has_error_bars(series) {
        header.push("p5 to p95\nkpps".to_owned());
    }
    header.push("loss\n%".to_owned());
    match places {
        // One word on a line keeps these columns narrow.
        Some(places) => header.extend(places.iter().map(|p| p.replace(' ', "\n") + "\n%")),
        None => header.push("most at\n%".to_owned()),
    }
    header.push("CPU\n%".to_owned());
    if polls_idly(series) {
        header.push("idle\npolls %".to_owned());
    }
    header.push("IRQs\nk/s".to_owned());
    let percentiles = if places.is_some() { &["p50", "p99"][..] } else { &["p99"] };
    header.extend(percentiles.iter().map(|p| format!("{p}\n{micro}")));
    // Units side by side on the last line.
    let tallest = header.iter().map(|h| h.lines().count()).max().unwrap_or(0);
    let header = header.into_iter().map(|h| "\n".repeat(tallest - h.lines().count()) + &h);

    let rows = series.points.iter().map(|point| row(point, places, series, style));
    lines(header.collect(), rows, style)
}

/// A table of these rows, whose columns are aligned to the right.
fn lines(header: Vec<String>, rows: impl Iterator<Item = Vec<String>>, style: TextStyle) -> String {
    let rule = if style.ascii { '-' } else { '─' };
    let table_style = TableStyle::new()
        .header_lines(ContentLineStyle::none())
        .header_separator(LineStyle::none().fill(rule).junction(rule))
        .content_lines(ContentLineStyle::none());
    let mut table = Table::new();
    table.load_style(table_style).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_padding((0, 1));
    }
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// Whether a series has idle polls: only then they have a column.
fn polls_idly(series: &Series) -> bool {
    series.points.iter().any(|point| idle_poll_share(point).is_some_and(|share| share > 0.0))
}

fn idle_poll_share(point: &Trial) -> Option<f64> {
    point.cpu.and_then(|cpu| cpu.idle_polls)
}

/// Whether a series has error bars: only then they have a column.
fn has_error_bars(series: &Series) -> bool {
    series.points.iter().any(|point| point.delivered_pps_p5.is_some())
}

fn row(point: &Trial, places: Option<&BTreeSet<&str>>, series: &Series, style: TextStyle) -> Vec<String> {
    let due = point.ledger.sent.saturating_add(point.ledger.shortfall);
    let losses = point.ledger.losses();
    let share = |n: u64| per_cent(n as f64 / due as f64);
    let mut row = vec![kpps(point.offered_pps), kpps(point.delivered_pps)];
    if has_error_bars(series) {
        let range = point.delivered_pps_p5.zip(point.delivered_pps_p95);
        row.push(
            range.map_or_else(|| nothing(style), |(low, high)| format!("{} to {}", kpps(low), kpps(high))),
        );
    }
    row.push(per_cent(point.loss_ratio));
    match places {
        Some(places) => row.extend(places.iter().map(|place| {
            losses.iter().find(|(p, _)| p == place).map_or_else(String::new, |&(_, n)| share(n))
        })),
        None => {
            let most = losses.iter().max_by_key(|&&(_, n)| n);
            row.push(most.map_or_else(String::new, |&(place, n)| format!("{place} {}", share(n))));
        }
    }
    let or_dash = |value: Option<f64>, shown: fn(f64) -> String| value.map_or_else(|| nothing(style), shown);
    let share_of_time = |share: f64| format!("{:.1}", share * 100.0);
    row.push(or_dash(point.cpu_busy, share_of_time));
    if polls_idly(series) {
        row.push(or_dash(idle_poll_share(point), share_of_time));
    }
    row.push(or_dash(point.interrupts_per_s, kpps));
    let latencies = latencies(point, style);
    row.extend_from_slice(if places.is_some() { &latencies } else { &latencies[1..] });
    row
}

/// A share in per cent with two decimals; a small share is not shown as 0.
fn per_cent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        p if p < 0.005 => "<0.01".to_owned(),
        p => format!("{p:.2}"),
    }
}

/// The sign of a quantity that was not observed.
fn nothing(style: TextStyle) -> String {
    if style.ascii { "-" } else { "–" }.to_owned()
}

/// p50 and p99 in µs; a dash where nothing arrived.
fn latencies(point: &Trial, style: TextStyle) -> [String; 2] {
    [point.latency_ns.p50, point.latency_ns.p99]
        .map(|ns| ns.map_or_else(|| nothing(style), |ns| format!("{:.1}", ns as f64 / 1e3)))
}
