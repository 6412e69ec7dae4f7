//! A trial on the screen: its frames, and where the missing ones ended.

use super::sentences;
use crate::run::{lateness, sender, waited};
use crate::worst::worst;
use kpps_documents::detail::{
    Carried, CoreCount, DetailedTrial, Direction, FlowCount, Flows, SizeCount, StreamCount,
};
use kpps_documents::queues::{FlowElsewhere, QueueChoice, QueueCount, Queues};
use kpps_documents::words::{bits, in_kpps, rate};
use kpps_documents::{Doubt, Latency, Trial};
use std::fmt::Write;

/// The directions between more than two ports: the worst ones first, if there are more than are shown.
fn directions(trial: &DetailedTrial) -> String {
    let all = &trial.directions;
    let mut text = String::new();
    if trial.environment.testbed.len() <= 2 {
        return text;
    }
    let lossy = all.iter().filter(|direction| direction.fate.lost > 0).count();
    let directions = if all.len() == 1 { "direction" } else { "directions" };
    let _ = writeln!(text, "{} {directions}: {lossy} lost frames", all.len());
    let (shown, left_out) = worst(all, |direction| (direction.fate.lost, direction.fate.reordered));
    let names: Vec<_> = shown.iter().map(|it| format!("{} to {}", it.from, it.to)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, direction) in names.iter().zip(&shown) {
        let Direction { sent, fate, latency_ns, .. } = direction;
        let _ = write!(text, "  {name:<width$}  {sent} sent, {} received, {} lost", fate.received, fate.lost);
        for (count, what) in
            [(fate.duplicated, "duplicated"), (fate.reordered, "out of order"), (fate.corrupted, "corrupted")]
        {
            if let Some(count @ 1..) = count {
                let _ = write!(text, ", {count} {what}");
            }
        }
        let latency = latency_ns.p50.map(|ns| format!("; p50 {:.1} µs", ns as f64 / 1e3));
        let _ = writeln!(text, "{}", latency.unwrap_or_default());
    }
    if left_out > 0 {
        let _ = writeln!(text, "  and {left_out} more, which lost no more frames; the JSON document has all");
    }
    text
}

/// Sizes and flows of a direction.
fn parts(trial: &DetailedTrial, direction: &Direction) -> String {
    let mut text = String::new();
    for size in &direction.sizes {
        let SizeCount { frame_bytes_with_fcs, frames: Carried { sent, received, lost } } = size;
        let _ = writeln!(text, "{frame_bytes_with_fcs:>6} B: {sent} sent, {received} received, {lost} lost");
    }
    text += &cores(direction);
    text += &queues(direction);
    // The only stream of a direction between more than two ports is the direction.
    if trial.environment.testbed.len() <= 2 || direction.streams.len() > 1 {
        text += &streams(trial, direction);
    }
    if let Some(flows) = &direction.flows {
        let Flows { count, lossy, silent, worst } = flows;
        let _ = writeln!(
            text,
            "{count} flows from {}: {lossy} lost frames, {silent} lost all frames",
            direction.from
        );
        for flow in worst.iter().take(SHOWN) {
            let FlowCount { flow, frames: Carried { sent, lost, .. }, reordered, latency_ns } = flow;
            let latency = latency_ns.map(|it| sentences::flow_latency(&it)).unwrap_or_default();
            let _ = writeln!(text, "  {flow}: {lost} of {sent} lost, {reordered} out of order{latency}");
        }
    }
    text
}

/// The cores of a direction, if there are several.
fn cores(direction: &Direction) -> String {
    let mut text = String::new();
    if direction.cores.is_empty() {
        return text;
    }
    let _ = writeln!(text, "{} cores from {} to {}:", direction.cores.len(), direction.from, direction.to);
    for (core, count) in direction.cores.iter().enumerate() {
        let CoreCount { cpu, sent, shortfall, received, overflow, gaps } = count;
        let cpu = cpu.map_or_else(String::new, |cpu| format!(" (CPU {cpu})"));
        let _ = write!(text, "  core {core}{cpu}  {sent} sent, {shortfall} shortfall, {received} received");
        if let Some(overflow) = overflow.filter(|frames| *frames > 0) {
            let _ = write!(text, ", {overflow} receive overflow");
        }
        if let Some(within) = gaps.and_then(|gaps| gaps.share_within()) {
            let _ = write!(text, ", {:.2} % of gaps within 10 µs", 100.0 * within);
        }
        text.push('\n');
    }
    text
}

/// The receive queues of a direction, if each core reads one.
fn queues(direction: &Direction) -> String {
    let mut text = String::new();
    let Some(queues) = &direction.queues else { return text };
    let Queues { by, system_key, each, elsewhere, .. } = queues;
    let by = match (by, system_key) {
        (QueueChoice::Rules, _) => "flows steered by rules",
        (QueueChoice::Hash, false) => "flows by the card's hash",
        (QueueChoice::Hash, true) => "flows by the card's hash with the kernel's key",
    };
    let _ = writeln!(text, "{} receive queues of {}, {by}:", each.len(), direction.to);
    for row in each {
        let QueueCount { queue, flows, sent, received, elsewhere, lost, .. } = row;
        let _ = write!(text, "  queue {queue}  {flows} flows, {sent} sent, {received} received, {lost} lost");
        for (count, what) in [
            (*elsewhere, "came to other queues"),
            (row.of_others, "of other queues' flows"),
            (row.of_unknown, "of flows that are not predicted"),
            (row.overflow.unwrap_or(0), "receive overflow"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        let _ = writeln!(text, "{}", if row.read { "" } else { " (not read by this port)" });
    }
    for sentence in sentences::queues(queues) {
        let _ = writeln!(text, "  {sentence}");
    }
    for FlowElsewhere { flow, queue, came } in elsewhere.iter().take(SHOWN) {
        let came: Vec<_> =
            came.iter().map(|it| format!("{} came to queue {}", it.frames, it.queue)).collect();
        let _ = writeln!(text, "  {flow}: expected in queue {queue}, and {}", came.join(", "));
    }
    text
}

/// The streams of a direction: the worst ones first, if there are more than are shown.
fn streams(trial: &DetailedTrial, direction: &Direction) -> String {
    let all = &direction.streams;
    let mut text = String::new();
    if all.is_empty() {
        return text;
    }
    let lossy = all.iter().filter(|stream| stream.frames.lost > 0).count();
    let streams = if all.len() == 1 { "stream" } else { "streams" };
    let from = sentences::from(trial, direction);
    let _ = writeln!(text, "{} {streams} from {from}: {lossy} lost frames", all.len());
    let (shown, left_out) = worst(all, |stream| (stream.frames.lost, stream.reordered));
    let width = shown.iter().map(|stream| stream.stream.chars().count()).max().unwrap_or(0);
    for it in &shown {
        let StreamCount { stream, frames: Carried { sent, received, lost }, .. } = it;
        let _ = write!(text, "  {stream:<width$}  {sent} sent, {received} received, {lost} lost");
        for (count, what) in [
            (it.shortfall.unwrap_or(0), "not sent in time"),
            (it.duplicated, "duplicated"),
            (it.reordered, "out of order"),
            (it.corrupted, "corrupted"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        let latency = it.latency_ns.map(|it| sentences::flow_latency(&it)).unwrap_or_default();
        let _ = writeln!(text, "{latency}");
    }
    if left_out > 0 {
        let _ = writeln!(text, "  and {left_out} more, which lost no more frames; the JSON document has all");
    }
    text
}

/// A sentence on a trial that is no measurement of the device under test.
pub(crate) fn tester_limit(trial: &Trial) -> Option<String> {
    let limit = trial.limit()?;
    let percent = |frames: u64| format!("{:.1} %", 100.0 * frames as f64 / trial.due().max(1) as f64);
    let shortfall = percent(trial.shortfall);
    let (overflow, show) = match trial.overflow_unknown {
        false => {
            let overflow = percent(trial.overflow.unwrap_or(0));
            (format!("{overflow} arrived and could not be received (receive overflow of the tester)"), "show")
        }
        true => {
            let lost = percent(trial.sent.saturating_sub(trial.came_through()));
            (
                format!("{lost} did not arrive, and the tester's port did not count its receive overflow"),
                "may show",
            )
        }
    };
    Some(format!(
        "This is no measurement of the device under test: {shortfall} of the frames were not sent in time (generator shortfall), {overflow}. The results {show} {}.",
        limit.words()
    ))
}

/// Sentences on what else makes a trial doubtful, or an invalid measurement of the device under test.
pub(crate) fn doubts(trial: &DetailedTrial) -> impl Iterator<Item = String> {
    // The tester's limit and the ledger report these.
    let is_told_elsewhere =
        |doubt: &&Doubt| matches!(doubt, Doubt::Generator | Doubt::Receiver | Doubt::Unexplained { .. });
    let doubts = trial.doubts.iter().filter(move |doubt| !is_told_elsewhere(doubt));
    doubts.map(|doubt| match doubt.is_invalid() {
        true => format!("This is no measurement of the device under test: {}.", doubt.words()),
        false => format!("In doubt: {}.", doubt.words()),
    })
}

/// A sentence on how often a trial was repeated.
pub(crate) fn retries(trial: &DetailedTrial) -> Option<String> {
    let why = match trial.retries {
        0 => return None,
        1 => "Repeated once, because the first trial was disturbed".to_owned(),
        times => format!("Repeated {times} times, because the trials before were disturbed"),
    };
    // The result has only the disturbance of the trial that is shown. If that trial has a doubt about it, the
    // doubt is enough.
    let is_told = trial.doubts.iter().any(|doubt| matches!(doubt, Doubt::Disturbed { .. }));
    let shown = trial.result.disturbance.as_ref().filter(|it| it.longest.is_some() && !is_told);
    let shown = shown.map_or(String::new(), |it| format!("; in the trial that is shown, {}", it.words()));
    Some(format!("{why}{shown}."))
}

/// The number of flows shown: the worst ones.
const SHOWN: usize = 4;

/// The text for the screen.
pub fn screen(trial: &DetailedTrial) -> String {
    [
        warnings(trial),
        offer(trial),
        counts(trial),
        rates(trial),
        trial.directions.iter().map(|direction| loss(trial, direction)).collect(),
        directions(trial),
        trial.directions.iter().map(|direction| parts(trial, direction)).collect(),
        generator(trial),
        trial.directions.iter().map(|direction| gaps(trial, direction)).collect(),
        latency(trial),
        remarks(trial),
        places(trial),
        host(trial),
        cpus(trial),
    ]
    .concat()
}

/// The reasons for doubt about the result.
fn warnings(trial: &DetailedTrial) -> String {
    let all = tester_limit(&trial.result).into_iter().chain(doubts(trial)).chain(retries(trial));
    all.map(|sentence| format!("{sentence}\n\n")).collect()
}

/// The load that was offered, and how it differed from a constant one.
fn offer(trial: &DetailedTrial) -> String {
    let load = sentences::load(trial, "the highest load");
    let mut text = format!(
        "{}: frames of {}{}, {load} for {:.3} s\n\n",
        trial.environment.testbed_name(),
        sentences::frames(trial),
        trial.environment.traffic.as_ref().map(|traffic| format!(", {traffic}")).unwrap_or_default(),
        trial.result.seconds
    );
    for changes in sentences::rate_changes(trial) {
        let _ = writeln!(text, "{changes}\n");
    }
    for departure in trial.replay.iter().flat_map(|replay| &replay.departures) {
        let _ = writeln!(text, "{departure}\n");
    }
    if let Some(silent) = sentences::silent(trial) {
        let _ = writeln!(text, "{silent}.\n");
    }
    text
}

/// The frames by their fate, a line each.
fn counts(trial: &DetailedTrial) -> String {
    let rows = [
        ("intended", Some(trial.fate.intended), ""),
        ("sent", Some(trial.result.sent), ""),
        (
            "shortfall",
            Some(trial.result.shortfall),
            "generator shortfall: frames that could not be sent in time",
        ),
        ("received", Some(trial.fate.received), ""),
        (
            "overflow",
            trial.result.overflow,
            "receive overflow (tester): frames that arrived and could not be received",
        ),
        ("lost", Some(trial.fate.lost), ""),
        ("duplicated", trial.fate.duplicated, ""),
        ("reordered", trial.fate.reordered, ""),
        ("corrupted", trial.fate.corrupted, ""),
        ("other", trial.fate.other_traffic, "other traffic: frames that are not of this trial"),
    ];
    let line = |(name, count, what): (&str, Option<u64>, &str)| {
        // A dash for a count that was not observed.
        let count = count.map_or("–".into(), |count| count.to_string());
        format!("{}\n", format!("{name:<12}{count:>12}  {what}").trim_end())
    };
    rows.into_iter().map(line).collect()
}

/// The rates of sent and received frames, and the loss.
fn rates(trial: &DetailedTrial) -> String {
    format!(
        "\n{} sent ({} on layer 1, {} on layer 2), {} received; loss {:.4} %{}\n",
        rate(trial.result.sent_pps),
        bits(trial.sent_bps.l1),
        bits(trial.sent_bps.l2),
        rate(trial.received_pps),
        trial.result.loss_ratio * 100.0,
        if trial.fate.corrupted.is_some() { " (with corrupted frames)" } else { "" }
    )
}

/// The limit of the generator, if it is known.
fn generator(trial: &DetailedTrial) -> String {
    let Some(sender) = &trial.sender else { return String::new() };
    let ceilings: Vec<_> = sender.ceilings_pps.iter().map(|pps| in_kpps(*pps)).collect();
    let above =
        if sender.exceeded { ": the load is above that, so a shortfall is the generator's" } else { "" };
    format!("generator: sends at most {} kpps here ({}){above}\n", ceilings.join(" and "), sender.source)
}

/// The gaps between the frames of a direction, if they were paced, and the waiting of its sender.
fn gaps(trial: &DetailedTrial, direction: &Direction) -> String {
    let known = direction.gaps.and_then(|gaps| Some((gaps, gaps.share_within()?)));
    let Some((gaps, within)) = known else { return String::new() };
    let intended = gaps.intended_ns.map(|ns| format!("{:.3} µs", ns / 1e3));
    let several = !direction.cores.is_empty();
    let line = format!(
        "gaps of {}{}: {:.2} % within 10 µs of {}, p99 {:.1} µs, max {:.1} µs\n",
        if several { "all cores of " } else { "" },
        direction.from,
        100.0 * within,
        intended.as_deref().unwrap_or("their own lengths"),
        gaps.p99_ns as f64 / 1e3,
        gaps.max_ns as f64 / 1e3
    );
    line + &lateness(direction.lateness)
        + &if several { String::new() } else { sender(&gaps) }
        + &waited(gaps.waited_ns, trial.result.seconds, direction.shortfall)
}

/// The latency and the jitter, if they are known.
fn latency(trial: &DetailedTrial) -> String {
    let Latency { min, mean, p50, p99, p999, max, jitter, .. } = trial.result.latency_ns;
    let us = |name: &str, ns: Option<u64>| Some(format!("{name} {:.1} µs", ns? as f64 / 1e3));
    let times = [("min", min), ("mean", mean), ("p50", p50), ("p99", p99), ("p99.9", p999), ("max", max)];
    let times: Vec<_> = times.into_iter().filter_map(|(name, ns)| us(name, ns)).collect();
    if times.is_empty() {
        return String::new();
    }
    let arrival = sentences::arrival(trial).map(|arrival| format!(" ({arrival})")).unwrap_or_default();
    let jitter = us("jitter", jitter).map(|jitter| format!("; {jitter}")).unwrap_or_default();
    format!("latency{arrival}: {}{jitter}\n", times.join(", "))
}

/// When frames of a direction were lost, if that is known.
fn loss(trial: &DetailedTrial, direction: &Direction) -> String {
    let sentence = sentences::loss(trial, direction).map(|loss| format!("{loss}\n"));
    sentence.unwrap_or_default()
}

/// Sentences on the time series, the clocks and the captured frames.
fn remarks(trial: &DetailedTrial) -> String {
    let mut text = String::new();
    for sentence in super::series::sentences(trial) {
        let _ = writeln!(text, "{sentence}");
    }
    for missing in sentences::clocks_set(trial) {
        let _ = writeln!(text, "{missing}");
    }
    if let Some(capture) = &trial.capture {
        let _ = writeln!(text, "{}", sentences::capture(capture));
    }
    if let Some(capture) = &trial.capture_all {
        let _ = writeln!(text, "{}", sentences::capture_all(capture));
    }
    if let Some(clocks) = &trial.clocks {
        let _ = writeln!(text, "{}", sentences::clocks(clocks));
    }
    text
}

/// The places where the missing frames ended.
fn places(trial: &DetailedTrial) -> String {
    let ledger = &trial.result.ledger;
    let missing = ledger.sent.saturating_sub(ledger.delivered);
    let whole = if trial.directions.is_empty() { ", with its warm-up and its end" } else { "" };
    // All of them arrived, and no place counts any.
    let is_whole = ledger.sent > 0 && missing == 0 && ledger.in_flight == 0 && ledger.unexplained == 0;
    let is_whole = is_whole && ledger.dropped.values().all(|frames| *frames == 0);
    let mut text = match is_whole {
        true => format!("\nall {} sent frames arrived{whole}\n", ledger.sent),
        false => format!("\nwhere {missing} of {} sent frames ended{whole}:\n", ledger.sent),
    };
    for (place, frames) in &ledger.dropped {
        let _ = writeln!(text, "{frames:>12}  {place}");
    }
    for (place, frames) in &ledger.in_flight_at {
        let _ = writeln!(text, "{frames:>12}  still queued at {place}");
    }
    if !is_whole {
        let _ = writeln!(text, "{:>12}  unexplained", ledger.unexplained);
    }
    text
}

/// The effort of the host: interrupts, and the CPU time of all CPUs together.
fn host(trial: &DetailedTrial) -> String {
    let mut text = String::new();
    if let Some(interrupts) = trial.result.interrupts_per_s {
        let _ = writeln!(text, "{interrupts:.1} interrupts per second");
    }
    if let Some(cpu) = trial.result.cpu
        && trial.cpus.is_empty()
    {
        let _ = writeln!(
            text,
            "CPU {:.1} % busy: interrupts {:.1} %, softirqs {:.1} %, threads {:.1} %{}",
            cpu.busy() * 100.0,
            cpu.hardirq * 100.0,
            cpu.softirq * 100.0,
            cpu.thread * 100.0,
            cpu.idle_polls.map(|share| format!(", idle polls {:.1} %", share * 100.0)).unwrap_or_default()
        );
    }
    text
}

/// The table of the CPUs, if each was counted.
fn cpus(trial: &DetailedTrial) -> String {
    let names = trial.cpu_names();
    let Some(longest) = names.iter().map(String::len).max() else { return String::new() };
    let width = longest.max(4);
    let mut text = format!(
        "\n{:>width$} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
        "CPU", "user", "system", "irq", "softirq", "idle"
    );
    for (name, cpu) in names.iter().zip(&trial.cpus) {
        let _ = writeln!(
            text,
            "{name:>width$} {:>6.3} s {:>6.3} s {:>6.3} s {:>6.3} s {:>6.3} s",
            cpu.user_s, cpu.system_s, cpu.irq_s, cpu.softirq_s, cpu.idle_s
        );
    }
    if let Some(cycles) = trial.cycles_per_frame() {
        let _ = writeln!(text, "{cycles:.0} cycles for each frame that arrived, of all CPUs together");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::queues::QueueFrames;

    #[test]
    fn each_queue_has_a_row() {
        assert_eq!(queues(&Direction::default()), "");
        let row = |queue, lost| QueueCount {
            queue,
            read: queue != 1,
            flows: 5,
            sent: 50,
            received: 50 - lost,
            lost,
            overflow: Some(lost),
            ..QueueCount::default()
        };
        let came = vec![QueueFrames { queue: 0, frames: 3 }, QueueFrames { queue: 2, frames: 4 }];
        let all = Queues {
            each: vec![row(0, 0), row(1, 50), QueueCount { of_others: 4, ..row(2, 7) }],
            flows_elsewhere: 1,
            elsewhere: vec![FlowElsewhere { flow: "voice".into(), queue: 0, came }],
            ..Queues::default()
        };
        let direction = Direction { to: "xdp:b".into(), queues: Some(all), ..Direction::default() };
        let lines: Vec<_> = queues(&direction).lines().map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "3 receive queues of xdp:b, flows by the card's hash:",
                "  queue 0  5 flows, 50 sent, 50 received, 0 lost",
                "  queue 1  5 flows, 50 sent, 0 received, 50 lost, 50 receive overflow (not read by this port)",
                "  queue 2  5 flows, 50 sent, 43 received, 7 lost, 4 of other queues' flows, 7 receive overflow",
                "  Frames of 1 flow came to other queues than the expected one: it is unknown why.",
                "  voice: expected in queue 0, and 3 came to queue 0, 4 came to queue 2",
            ]
        );
    }
}
