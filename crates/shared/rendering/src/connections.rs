//! TCP connections on the screen: a line for each trial, and the ends and times of one of them.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::Latency;
use kpps_documents::connections::{ConnectionEnd, ConnectionSearch, ConnectionTrial, Connections};
use kpps_documents::words::{in_us, list};
use std::fmt::Write;

impl Forms for Connections {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.trials)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("TCP connections to {}", self.server), self))
    }
    fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }
}

fn screen(connections: &Connections) -> String {
    let mut text = messages(connections);
    if let Some(search) = &connections.search {
        text += &found(search);
    }
    text.push('\n');
    text += &table(&connections.trials);
    // Of a search, the trial whose number was found, if there is one.
    let search = connections.search.as_ref();
    let number = search.and_then(|it| it.connections_per_second.or(it.concurrent_connections));
    let of_number =
        connections.trials.iter().rev().find(|trial| number.is_some() && tried(trial, search) == number);
    if let Some(trial) = of_number.or(connections.trials.last()) {
        text += &details(trial, connections.trials.len() > 1);
    }
    for port in &connections.ports {
        let lost: Vec<_> = port
            .drops
            .iter()
            .filter(|(_, count)| count.is_some_and(|count| count > 0))
            .map(|(place, count)| format!("{} frames {place}", count.unwrap_or(0)))
            .collect();
        if !lost.is_empty() {
            let _ = writeln!(text, "lost at {}, by the tester itself: {}", port.port, list(&lost));
        }
    }
    if let Some(trouble) = &connections.trouble {
        let _ = writeln!(text, "The run failed: {trouble}.");
    }
    text
}

/// The number that a search tried in this trial.
fn tried(trial: &ConnectionTrial, search: Option<&ConnectionSearch>) -> Option<u64> {
    match search?.concurrent_connections {
        Some(_) => trial.concurrent,
        None => trial.offered_cps.map(|rate| rate as u64),
    }
}

fn messages(connections: &Connections) -> String {
    let answer = connections.answer_bytes.map_or("as the server has it".into(), |bytes| format!("{bytes} B"));
    let what = match &connections.http_path {
        Some(path) => format!("HTTP GET {path}, answer {answer}"),
        None => format!("request {} B, answer {answer}", connections.request_bytes),
    };
    format!("TCP connections to {}: {what}\n", connections.server)
}

fn found(search: &ConnectionSearch) -> String {
    let (name, number) = match (search.connections_per_second, search.concurrent_connections) {
        (Some(number), _) => ("TCP connections per second", number),
        (_, Some(number)) => ("concurrent TCP connections", number),
        _ => return String::new(),
    };
    let failed = match (search.failed_at, search.limited_by_tester) {
        (Some(at), false) => format!("; the device failed at {at}"),
        (Some(at), true) => format!("; at {at} the tester itself is the limit, and the device may do more"),
        (None, _) => "; no higher number was tried".into(),
    };
    format!("{name} (RFC 9411): {number}{failed}\n")
}

fn table(trials: &[ConnectionTrial]) -> String {
    let mut text = format!(
        "{:>10} {:>10} {:>9} {:>9} {:>9} {:>14} {:>14} {:>9} {:>9} {:>10}\n",
        "offered/s",
        "at a time",
        "due",
        "shortfall",
        "opened",
        "established/s",
        "most at a time",
        "closed",
        "failed",
        "sent again"
    );
    let dash = || "–".to_owned();
    for trial in trials {
        let Some(end) = trial.client.or(trial.server) else { continue };
        let again: u64 =
            [trial.client, trial.server].iter().flatten().map(ConnectionEnd::retransmitted).sum();
        let _ = writeln!(
            text,
            "{:>10} {:>10} {:>9} {:>9} {:>9} {:>14} {:>14} {:>9} {:>9} {:>10}{}",
            trial.offered_cps.map_or_else(dash, |rate| format!("{rate:.0}")),
            trial.concurrent.map_or_else(dash, |number| number.to_string()),
            trial.client.map_or_else(dash, |_| trial.due.to_string()),
            trial.client.map_or_else(dash, |_| trial.shortfall.to_string()),
            end.opened,
            trial.client.map_or_else(dash, |_| format!("{:.1}", trial.established_cps)),
            end.most_established,
            end.closed,
            end.failed(),
            again,
            match (trial.beyond_tester, trial.too_early) {
                (true, _) => "  beyond the tester",
                (false, true) => "  too early: repeated",
                (false, false) => "",
            }
        );
    }
    text
}

fn details(trial: &ConnectionTrial, is_one_of_several: bool) -> String {
    let mut text = String::from("\n");
    if let (true, Some(rate)) = (is_one_of_several, trial.offered_cps) {
        let number =
            trial.concurrent.map_or(format!("{rate:.0} a second"), |number| format!("{number} at a time"));
        let _ = writeln!(text, "The trial with {number}:");
    }
    for (name, end) in [("client", trial.client), ("server", trial.server)] {
        if let Some(end) = end {
            text += &end_in_words(name, &end);
        }
    }
    if trial.no_free_port > 0 {
        let _ =
            writeln!(text, "no free port: {} connections; give more source addresses", trial.no_free_port);
    }
    if trial.client.is_some_and(|end| end.established > 0) {
        let _ = writeln!(
            text,
            "\n{:>14} {:>11} {:>11} {:>11} {:>11} {:>11}",
            "times, us", "min", "p50", "p99", "p99.9", "max"
        );
        let phases = [
            ("connect", trial.connect_ns),
            ("first byte", trial.first_byte_ns),
            ("last byte", trial.last_byte_ns),
            ("close", trial.close_ns),
        ];
        for (name, Latency { min, p50, p99, p999, max, .. }) in phases {
            let [min, p50, p99, p999, max] = [min, p50, p99, p999, max].map(in_us);
            let _ = writeln!(text, "{name:>14} {min:>11} {p50:>11} {p99:>11} {p999:>11} {max:>11}");
        }
    }
    let _ = writeln!(text, "\n{:.3} s", trial.seconds);
    text
}

fn end_in_words(name: &str, end: &ConnectionEnd) -> String {
    let mut text = format!(
        "{name}: {} opened, {} established, {} closed; sent {} segments with {} B, received {} with {} B\n",
        end.opened,
        end.established,
        end.closed,
        end.sent_segments,
        end.sent_bytes,
        end.received_segments,
        end.received_bytes
    );
    let counted = |counts: &[(&str, u64)]| {
        let counts: Vec<_> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        (!counts.is_empty()).then(|| counts.join(", "))
    };
    let lines = [
        ("failed", counted(&end.failures())),
        (
            "sent again",
            counted(&[
                ("SYNs", end.retransmitted_syns),
                ("segments with data", end.retransmitted_data),
                ("FINs", end.retransmitted_fins),
            ]),
        ),
        (
            "received",
            counted(&[
                ("out of order", end.out_of_order),
                ("again", end.repeated),
                ("of no connection or state", end.unexpected),
                ("with wrong data", end.wrong_data),
                ("damaged", end.damaged),
            ]),
        ),
        ("resets sent", counted(&[("", end.resets_sent)])),
        (
            "lost by the tester itself",
            counted(&[
                ("SYNs at a full server", end.refused),
                ("not sent", end.unsent),
                ("not received", end.missed.unwrap_or(0)),
            ]),
        ),
    ];
    for (what, counts) in lines {
        if let Some(counts) = counts {
            let _ = writeln!(text, "  {what}: {}", counts.trim_end());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_names_its_result_and_why_it_ended() {
        let client =
            ConnectionEnd { opened: 1000, closed: 1000, most_established: 1000, ..ConnectionEnd::default() };
        let trial = ConnectionTrial {
            offered_cps: Some(500.0),
            concurrent: Some(1000),
            client: Some(client),
            ..ConnectionTrial::default()
        };
        let failed = ConnectionEnd { closed: 1000, connect_timeouts: 1, opened: 1001, ..client };
        let over = ConnectionTrial { concurrent: Some(1001), client: Some(failed), ..trial.clone() };
        let search = ConnectionSearch {
            concurrent_connections: Some(1000),
            failed_at: Some(1001),
            ..ConnectionSearch::default()
        };
        let document = Connections {
            server: "198.19.0.2:80".into(),
            request_bytes: 128,
            answer_bytes: Some(1024),
            search: Some(search.clone()),
            trials: vec![trial, over.clone()],
            ..Connections::default()
        };
        let text = screen(&document);
        for words in [
            "TCP connections to 198.19.0.2:80: request 128 B, answer 1024 B\n",
            "concurrent TCP connections (RFC 9411): 1000; the device failed at 1001\n",
            "The trial with 1000 at a time:\nclient: 1000 opened",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let limited = Connections {
            search: Some(ConnectionSearch { limited_by_tester: true, ..search }),
            trials: vec![over],
            ..document
        };
        let text = screen(&limited);
        assert!(text.contains("at 1001 the tester itself is the limit"), "{text}");
        assert!(text.contains("  failed: 1 no answer to the SYN\n"), "{text}");
    }
}
