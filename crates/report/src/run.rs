//! Runs of ports on the screen: what a port received and sent, and what it lost.

use kpps_results::run::{ProcessorTime, Run};
use std::fmt::Write;

/// The text for the screen; `more` is what the command adds between the counters and the CPU time.
pub fn screen(run: &Run, more: &str) -> String {
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
            "{:width$}  {:>8}  {:>8}  {:>12}  {:>9.1}  {:>12}  {:>9.1}",
            port.port,
            port.chip.as_deref().unwrap_or("-"),
            port.service.as_deref().unwrap_or("-"),
            port.received,
            port.received_pps / 1e3,
            port.sent,
            port.sent_pps / 1e3
        );
    }
    text.push('\n');
    for port in &run.ports {
        let lost: Vec<_> = port
            .drops
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(place, count)| format!("{count} {}", place_in_words(place)))
            .collect();
        if !lost.is_empty() {
            let _ = writeln!(text, "{}: {}", port.port, lost.join(", "));
        }
    }
    text += more;
    for port in &run.ports {
        let frames = (port.received + port.sent).max(1) as f64;
        if let (Some(reads), Some(writes), Some(interrupts)) =
            (port.register_reads, port.register_writes, port.interrupts)
        {
            let _ = writeln!(
                text,
                "{}: {:.4} register accesses per frame ({} reads, {} writes), {} interrupts",
                port.port,
                (reads + writes) as f64 / frames,
                reads,
                writes,
                interrupts
            );
        }
        if let Some(resets @ 1..) = port.resets {
            let _ = writeln!(text, "{}: hung, and was reset {resets} times", port.port);
        }
    }
    let _ = write!(text, "{:.3} s", run.seconds);
    if let Some(ProcessorTime { user_s, system_s }) = run.cpu {
        let busy = 100.0 * (user_s + system_s) / run.seconds.max(1e-9);
        let _ = write!(text, "; CPU {busy:.0} %: {user_s:.3} s in user space, {system_s:.3} s in the kernel");
    }
    text.push('\n');
    text
}

/// A place where frames were lost, in words.
fn place_in_words(place: &str) -> &str {
    match place {
        "missed" => "missed (receive ring full)",
        "full" => "not sent (transmit ring full)",
        "errors" => "damaged",
        "unsent" => "not sent (cut off or refused)",
        other => other,
    }
}

/// A sentence if a sender waited for a CPU for more than a thousandth of its time.
pub fn waited(waited_ns: Option<u64>, seconds: f64) -> String {
    match waited_ns {
        Some(ns) if ns as f64 / 1e9 > seconds / 1e3 => format!(
            "the sender waited {:.1} ms for a CPU that other processes used: that explains late frames and shortfall\n",
            ns as f64 / 1e6
        ),
        _ => String::new(),
    }
}
