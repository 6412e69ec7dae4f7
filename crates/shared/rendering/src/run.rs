//! Runs of ports on the screen: received, sent and lost frames of each port.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use crate::worst::worst;
use kpps_documents::calibration::{Gaps, SenderPriority};
use kpps_documents::run::{Filled, Lateness, Offered, PortRun, ProcessCpu, Run, SentCore, SentStream};
use kpps_documents::words::{bits, in_kpps, rate};
use std::fmt::Write;

impl Forms for Run {
    /// The notes stand before the costs of the run.
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self, notes)
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.ports)
    }
    fn page(&self, _: usize) -> Option<String> {
        let ports: Vec<_> = self.ports.iter().map(|port| port.port.as_str()).collect();
        Some(plain(&format!("kpps {} {}", self.command, ports.join(" ")), self))
    }
}

/// The text for the screen; `notes` are lines of the command, between the counters and the CPU time.
fn screen(run: &Run, notes: &str) -> String {
    let width = run.ports.iter().map(|port| port.port.len()).max().unwrap_or(0).max(4);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:width$}  {:>8}  {:>8}  {:>12}  {:>9}  {:>12}  {:>9}",
        "port", "chip", "service", "received", "kpps", "sent", "kpps"
    );
    for port in &run.ports {
        let _ = writeln!(
            text,
            "{:width$}  {:>8}  {:>8}  {:>12}  {:>9}  {:>12}  {:>9}",
            port.port,
            port.chip.as_deref().unwrap_or("-"),
            port.service.as_deref().unwrap_or("-"),
            port.received,
            in_kpps(port.received_pps),
            port.sent,
            // One frame has no rate.
            if run.load.is_some() && port.sent == 1 { "-".into() } else { in_kpps(port.sent_pps) }
        );
    }
    text.push('\n');
    for port in &run.ports {
        let lost: Vec<_> = port
            .drops
            .iter()
            .filter(|(_, count)| **count != Some(0))
            .map(|(place, count)| match count {
                Some(count) => format!("{count} {}", place_in_words(place)),
                None => format!("– {}: this port does not count them", place_in_words(place)),
            })
            .collect();
        if !lost.is_empty() {
            let _ = writeln!(text, "{}: {}", port.port, lost.join(", "));
        }
    }
    if let (Some(load), Some(port)) = (&run.load, run.ports.first()) {
        text += &sent(load, port, run);
    }
    text += &received(run);
    text += notes;
    let reasons = run.app.iter().flat_map(|app| &app.dropped);
    let reasons: Vec<_> = reasons.map(|(reason, count)| format!("{count} {reason}")).collect();
    if !reasons.is_empty() {
        let _ = writeln!(text, "dropped here: {}", reasons.join(", "));
    }
    for port in &run.ports {
        if let (Some(reads), Some(writes), Some(interrupts)) =
            (port.register_reads, port.register_writes, port.interrupts)
        {
            let frames = port.received + port.sent;
            let per_frame = match frames {
                0 => String::new(),
                _ => format!("{:.4} register accesses per frame: ", (reads + writes) as f64 / frames as f64),
            };
            let _ = writeln!(
                text,
                "{}: {per_frame}{reads} register reads, {writes} writes, {interrupts} interrupts",
                port.port
            );
        }
        if let Some(resets @ 1..) = port.resets {
            let _ = writeln!(text, "{}: hung, and was reset {resets} times", port.port);
        }
    }
    if let Some(trouble) = &run.trouble {
        let _ = writeln!(text, "The run failed: {trouble}.");
    }
    let _ = write!(text, "{:.3} s", run.seconds);
    if let Some(ProcessCpu { user_s, system_s }) = run.cpu {
        let busy = 100.0 * (user_s + system_s) / run.seconds.max(1e-9);
        let _ = write!(text, "; CPU {busy:.0} %: {user_s:.3} s in user space, {system_s:.3} s in the kernel");
    }
    text.push('\n');
    text
}

/// The load to send, the frames sent of it, and the gaps.
fn sent(load: &Offered, port: &PortRun, run: &Run) -> String {
    let mut text = load.departures.iter().map(|departure| format!("{departure}\n")).collect::<String>();
    let is_number = |byte: u8| byte.is_ascii_digit() || byte == b':' || byte == b',';
    let unit = if load.size.bytes().all(is_number) { " B with FCS" } else { "" };
    let offered = match load.offered_pps {
        Some(pps) => format!("{} offered", rate(pps)),
        None => "as fast as the port takes them".into(),
    };
    let frames = load.sent();
    let seconds = load.took_s(run.environment.shape.as_deref(), run.seconds, run.complete).max(1e-9);
    // A frame has 4 bytes of FCS, and 20 of preamble and gap.
    let bits = |more: u64| bits((port.sent_bytes + more * port.sent) as f64 * 8.0 / seconds);
    // One frame has no rate.
    let bits = match port.sent {
        1 => String::new(),
        _ => format!("; {} on layer 1, {} on layer 2", bits(24), bits(4)),
    };
    let _ = writeln!(
        text,
        "frames of {}{unit}, {offered}: {} due, {frames} sent, generator shortfall {}{bits}",
        load.size, load.intended, load.shortfall
    );
    if let (Some(offered_pps), Some(gaps)) = (load.offered_pps, load.gaps.as_ref().filter(|_| frames != 1)) {
        let us = |ns: u64| ns as f64 / 1e3;
        let within = match (gaps.share_within(), gaps.intended_ns) {
            (Some(share), Some(intended_ns)) => {
                format!("{:.2} % within 10 us of {:.3} us; ", 100.0 * share, intended_ns / 1e3)
            }
            (Some(share), None) => format!("{:.2} % within 10 us of what was due; ", 100.0 * share),
            _ => String::new(),
        };
        let pps = frames as f64 / seconds;
        // Streams need not send all the time.
        let deviation = match load.streams.is_empty() {
            true => format!(" ({:+.3} %)", 100.0 * (pps / offered_pps - 1.0)),
            false => String::new(),
        };
        let _ = writeln!(
            text,
            "{} sent{deviation}; gaps: {within}p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, max {:.1} us",
            rate(pps),
            us(gaps.p50_ns),
            us(gaps.p99_ns),
            us(gaps.p999_ns),
            us(gaps.max_ns)
        );
        text += &waited(gaps.waited_ns, run.seconds, load.shortfall);
    }
    text += &lateness(load.lateness);
    text += &load.filled.map(|filled| exact(&filled, frames)).unwrap_or_default();
    text += &cores(&load.cores);
    text += &streams(&load.streams);
    if load.shortfall > 0 && load.offered_pps.is_some() {
        let _ = writeln!(
            text,
            "the generator fell short of the load: `kpps calibrate {}` measures what this port can send",
            port.port
        );
    }
    text
}

/// The longest time for which a card may seem idle: the program has to notice that the last frame has left.
const NOTICED_S: f64 = 0.001;

/// How exact the gaps are, with fillers between the frames.
fn exact(filled: &Filled, frames: u64) -> String {
    let late_s = filled.took_s - filled.planned_s;
    let verdict = if filled.underruns > 0 {
        format!(
            "the card had nothing to send {} times, for {:.1} ms at most: the gaps there are not exact",
            filled.underruns,
            filled.longest_underrun_ns as f64 / 1e6
        )
    } else if late_s > NOTICED_S {
        format!(
            "sending took {:.1} ms longer than frames and fillers take on the wire: the card was idle meanwhile, \
             and the gaps are not exact",
            late_s * 1e3
        )
    } else {
        match filled.keeps_speed {
            Some(false) => format!(
                "sending took {:.1} ms less than frames and fillers take on the wire: this card does not keep the \
                 speed of its link, as emulated cards do not, and the gaps are not exact",
                -late_s * 1e3
            ),
            None => "the run was too short to show whether the card keeps the speed of its link".into(),
            Some(true) if filled.rounded == 0 => "gaps are exact to a byte time of the wire".into(),
            Some(true) => format!(
                "gaps are exact to a byte time of the wire, but for {:.2} % of the frames, which are off by at most {} ns",
                100.0 * filled.rounded as f64 / frames.max(1) as f64,
                filled.most_rounded_ns
            ),
        }
    };
    format!("{} fillers were sent; {verdict}\n", filled.fillers)
}

/// The work of each core, if there are several.
fn cores(cores: &[SentCore]) -> String {
    let mut text = String::new();
    if !cores.is_empty() {
        let _ = writeln!(text, "{} cores:", cores.len());
    }
    for (core, SentCore { cpu, sent, shortfall, gaps }) in cores.iter().enumerate() {
        let cpu = cpu.map_or_else(String::new, |cpu| format!(" (CPU {cpu})"));
        let within = gaps.and_then(|gaps| gaps.share_within());
        let within =
            within.map_or_else(String::new, |share| format!(", {:.2} % of gaps within 10 us", 100.0 * share));
        let _ = writeln!(text, "  core {core}{cpu}  {sent} sent, {shortfall} not sent in time{within}");
    }
    text
}

/// The frames of each stream: the ones that fell short most first, if there are more than are shown.
fn streams(all: &[SentStream]) -> String {
    let (shown, left_out) = worst(all, |stream| stream.shortfall);
    let mut text = String::new();
    if !all.is_empty() {
        let streams = if all.len() == 1 { "stream" } else { "streams" };
        let short = all.iter().filter(|stream| stream.shortfall > Some(0)).count();
        let _ = writeln!(text, "{} {streams}: {short} had frames that were not sent in time", all.len());
    }
    let width = shown.iter().map(|stream| stream.stream.chars().count()).max().unwrap_or(0);
    for SentStream { stream, sent, shortfall } in &shown {
        let late = shortfall.map_or_else(String::new, |frames| format!(", {frames} not sent in time"));
        let _ = writeln!(text, "  {stream:<width$}  {sent} sent{late}");
    }
    if left_out > 0 {
        let _ =
            writeln!(text, "  and {left_out} more, whose shortfall is no greater; the JSON document has all");
    }
    text
}

/// The arrivals of each stream of test frames.
fn received(run: &Run) -> String {
    let mut text = String::new();
    for stream in run.streams.iter().flatten() {
        let _ = writeln!(
            text,
            "stream {}: {} received, {} lost, {} duplicated, {} reordered",
            stream.stream, stream.received, stream.lost, stream.duplicated, stream.reordered
        );
    }
    if let (Some(corrupted), Some(others)) = (run.corrupted, run.others) {
        let _ = writeln!(text, "{corrupted} corrupted, {others} frames of other traffic");
    }
    text
}

/// A place where frames were lost, in words.
fn place_in_words(place: &str) -> &str {
    match place {
        "missed" => "missed (receive ring full)",
        "full" => "not sent (transmit ring full)",
        "errors" => "damaged",
        "tx_dropped" => "not sent (refused, or dropped by a reset)",
        other => other,
    }
}

/// A sentence on the CPU of a paced sender, if that is known.
pub fn sender(gaps: &Gaps) -> String {
    let Some(priority) = gaps.priority else { return String::new() };
    let cpu = match gaps.cpu {
        Some(cpu) => format!("the sender was bound to CPU {cpu}"),
        None => "the sender shared its CPU with the receiver and other threads of kpps".to_owned(),
    };
    let rank = match priority {
        SenderPriority::All => "ran before other programs",
        SenderPriority::Session => "ran before other programs of its session only",
        SenderPriority::Ordinary => "ran like any program (CAP_SYS_NICE is missing)",
    };
    format!("{cpu}, and {rank}\n")
}

/// How late frames were sent, if late ones were sent.
pub fn lateness(lateness: Option<Lateness>) -> String {
    lateness.map_or_else(String::new, |late| {
        format!(
            "sent late, more than 1 ms after their times: {}; the longest delay was {:.1} ms\n",
            late.frames,
            late.longest_ns as f64 / 1e6
        )
    })
}

/// A sentence if a sender waited for a CPU for more than a thousandth of its time.
pub fn waited(waited_ns: Option<u64>, seconds: f64, shortfall: u64) -> String {
    let what = if shortfall > 0 { "late frames and shortfall" } else { "late frames" };
    match waited_ns {
        Some(ns) if ns as f64 / 1e9 > seconds / 1e3 => format!(
            "the sender waited {:.1} ms for a CPU that other processes used: that explains {what}\n",
            ns as f64 / 1e6
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that sent these frames of 60 bytes, one each 50 ms, in `seconds`.
    fn sending(sent: u64, seconds: f64) -> Run {
        let gaps =
            Gaps { intended_ns: Some(5e7), count: sent - 1, waited_ns: Some(1_900_000), ..Gaps::default() };
        let load = Offered {
            size: "64".into(),
            offered_pps: Some(20.0),
            intended: sent,
            gaps: Some(gaps),
            ..Offered::default()
        };
        let port = PortRun { port: "p".into(), sent, sent_bytes: 60 * sent, ..PortRun::default() };
        let run =
            Run { command: "send".into(), seconds, complete: true, ports: vec![port], ..Run::default() };
        run.with_load(Some(load))
    }

    #[test]
    fn gaps_are_exact_only_if_the_card_was_as_fast_as_its_wire() {
        let some = Filled {
            fillers: 7,
            rounded: 5,
            most_rounded_ns: 336,
            keeps_speed: Some(true),
            planned_s: 1.0,
            took_s: 1.0004,
            ..Filled::default()
        };
        for (filled, words) in [
            (
                some,
                "gaps are exact to a byte time of the wire, but for 25.00 % of the frames, which are off by",
            ),
            (Filled { rounded: 0, ..some }, "gaps are exact to a byte time of the wire\n"),
            (
                Filled { took_s: 1.0123, ..some },
                "12.3 ms longer than frames and fillers take on the wire: the card was",
            ),
            (
                Filled { took_s: 0.5, keeps_speed: Some(false), ..some },
                "500.0 ms less than frames and fillers take",
            ),
            (Filled { keeps_speed: None, ..some }, "the run was too short to show whether"),
            (
                Filled { underruns: 2, longest_underrun_ns: 1_500_000, ..some },
                "the card had nothing to send 2 times, for 1.5 ms at most: the gaps there are not exact",
            ),
        ] {
            let text = exact(&filled, 20);
            assert!(text.starts_with("7 fillers were sent; ") && text.contains(words), "{text}");
        }
    }

    #[test]
    fn the_work_of_cores_and_streams_is_shown_whatever_the_load() {
        for offered_pps in [None, Some(1000.0)] {
            let mut run = sending(20, 1.0);
            run.load = run.load.map(|load| Offered {
                offered_pps,
                cores: vec![SentCore { sent: 20, ..SentCore::default() }],
                streams: vec![SentStream { stream: "voice".into(), sent: 20, shortfall: None }],
                ..load
            });
            let text = screen(&run, "");
            for words in ["1 cores:\n  core 0  20 sent", "1 stream: ", "  voice  20 sent\n"] {
                assert!(text.contains(words), "{words}: {text}");
            }
        }
    }

    #[test]
    fn a_few_slow_frames_have_the_rate_of_their_gaps() {
        let text = screen(&sending(20, 0.95), "");
        for words in [
            "            20       0.02\n",
            "64 B with FCS, 20 pps offered: 20 due, 20 sent, generator shortfall 0; 13.4 kb/s on layer 1, 10.2 kb/s on layer 2\n",
            "\n20 pps sent (+0.000 %); gaps: ",
            "the sender waited 1.9 ms for a CPU that other processes used: that explains late frames\n",
            "\n0.950 s\n",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn one_frame_has_no_rate() {
        let text = screen(&sending(1, 0.0), "");
        assert!(text.contains("             1          -\n"), "{text}");
        assert!(text.contains("generator shortfall 0\n") && !text.contains("b/s"), "{text}");
        assert!(!text.contains("pps sent"), "{text}");
    }
}
