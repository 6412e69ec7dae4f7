//! Sentences about a trial, for page and screen.

use kpps_documents::detail::{
    ArrivalBy, Capture, Clocks, DetailedTrial, Direction, FullCapture, LossTimes, RateChange,
};
use kpps_documents::queues::{ElsewhereReason, Queues};
use kpps_documents::words::rate;
use kpps_documents::{Doubt, FlowLatency};

/// Changes of the load that are shown in a sentence: the first ones.
const CHANGES: usize = 8;

/// The load of each direction; `highest` where it is as many frames as possible.
pub(super) fn load(trial: &DetailedTrial, highest: &str) -> String {
    let asked = match trial.load_pps {
        // Streams begin and end at different times.
        Some(_) if trial.directions.iter().any(|way| !way.streams.is_empty()) => {
            format!("{} on average", rate(trial.result.offered_pps))
        }
        Some(pps) => rate(pps),
        None => highest.to_owned(),
    };
    let times = match trial.directions.iter().map(|way| way.rate_changes.len()).max().unwrap_or(0) {
        0 => return asked,
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let mean = rate(trial.result.offered_pps / trial.directions.len() as f64);
    format!("{asked} at first, changed {times} while it ran, {mean} on average")
}

/// How the load of each direction was changed.
pub(super) fn rate_changes(trial: &DetailedTrial) -> Vec<String> {
    let of = |way: &Direction| {
        let all = &way.rate_changes;
        let each = |change: &RateChange| format!("{} from {:.3} s", rate(change.offered_pps), change.at_s);
        let mut said: Vec<_> = all.iter().take(CHANGES).map(each).collect();
        said.extend(all.len().checked_sub(CHANGES + 1).map(|more| format!("{} more changes", more + 1)));
        (!all.is_empty()).then(|| format!("load from {}: {}", way.from, said.join(", ")))
    };
    trial.directions.iter().filter_map(of).collect()
}

/// The name of a direction: its sender, and between more than two ports also its receiver.
pub(super) fn from(trial: &DetailedTrial, direction: &Direction) -> String {
    match trial.environment.testbed.len() {
        0..=2 => direction.from.clone(),
        _ => format!("{} to {}", direction.from, direction.to),
    }
}

/// When the frames of a direction were lost, if that is known.
pub(super) fn loss(trial: &DetailedTrial, direction: &Direction) -> Option<String> {
    let LossTimes { first_s, longest_frames, longest_at_s, longest_s } = direction.loss?;
    let longest = match longest_frames {
        1 => "never two in a row".to_owned(),
        frames => format!("at most {frames} in a row ({}), at {longest_at_s:.3} s", duration(longest_s)),
    };
    Some(format!("lost from {}: first at {first_s:.3} s; {longest}", from(trial, direction)))
}

/// A time with a unit that fits it.
fn duration(seconds: f64) -> String {
    match seconds {
        ..1e-3 => format!("{:.1} µs", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}

/// The latencies of a flow, behind its counts.
pub(super) fn flow_latency(latency: &FlowLatency) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    let jitter = latency.jitter.map(|ns| format!(", jitter {:.1} µs", us(ns))).unwrap_or_default();
    let FlowLatency { min, mean, max, .. } = *latency;
    format!("; {:.1} to {:.1} µs, mean {:.1} µs{jitter}", us(min), us(max), us(mean))
}

/// The clocks of two hosts.
pub(super) fn clocks(clocks: &Clocks) -> String {
    let us = |ns: f64| ns / 1e3;
    let drift = clocks
        .drift_ns_per_s
        .map_or("its drift is unknown".into(), |drift| format!("it gained {:.3} µs a second", us(drift)));
    format!(
        "two clocks: the second port's is {:.1} µs ahead, within ±{:.1} µs, and {drift} ({} questions over \
         {}); latencies between the hosts are corrected by this offset and have the same uncertainty",
        us(clocks.offset_ns as f64),
        us(clocks.error_ns as f64),
        clocks.pings,
        clocks.over
    )
}

/// The sentence about the capture of anomalous frames.
pub(super) fn capture(capture: &Capture) -> String {
    let more = match capture.not_kept {
        0 => String::new(),
        more => format!("; {more} more were not kept"),
    };
    format!("{} has the {} anomalous frames, each with its anomaly{more}", capture.file, capture.frames)
}

/// The sentence about the capture of all frames.
pub(super) fn capture_all(capture: &FullCapture) -> String {
    let overwritten: u64 = capture.ports.iter().map(|port| port.overwritten).sum();
    let more = match overwritten {
        0 => String::new(),
        more => format!(
            "; {more} older ones were overwritten, because the ring of a port holds {:.0} MB",
            capture.ring_bytes as f64 / 1e6
        ),
    };
    format!("{} has {} frames of both ports, each with its verdict{more}", capture.file, capture.frames)
}

/// The origin of the latencies' times of arrival, and whether all ports have one clock. `None` without
/// ports: virtual time has one clock.
pub(super) fn arrival(trial: &DetailedTrial) -> Option<String> {
    let clock = match (&trial.clocks, trial.environment.testbed.len()) {
        (Some(_), _) => "",
        (None, 0..=2) => ", one clock at both ports",
        (None, _) => ", one clock at all ports",
    };
    let by = |by| match by {
        ArrivalBy::Program => "by the program",
        ArrivalBy::Kernel => "by the kernel",
    };
    let mut all: Vec<_> = trial.directions.iter().map(|it| (by(it.arrival.by), it.to.as_str())).collect();
    match &all[..] {
        [(first, _), rest @ ..] if rest.iter().any(|(by, _)| by != first) => {
            all.sort_unstable();
            all.dedup();
            let each = all.iter().map(|(by, port)| format!("{by} at {port}"));
            Some(format!("arrival {}{clock}", each.collect::<Vec<_>>().join(", ")))
        }
        [(by, _), ..] => Some(format!("arrival {by}{clock}")),
        [] => None,
    }
}

/// Why latencies are missing: clocks that were set.
pub(super) fn clocks_set(trial: &DetailedTrial) -> Vec<String> {
    let set = |direction: &Direction| {
        let us = direction.arrival.clock_set_ns? as f64 / 1e3;
        Some(format!(
            "no latency at {}: the clock of the kernel's times was set by {us:+.1} µs during the trial",
            direction.to
        ))
    };
    let mut all: Vec<String> = trial.directions.iter().filter_map(set).collect();
    // A port that receives in several directions has one clock.
    all.sort_unstable();
    all.dedup();
    all
}

/// The frames of a trial: their size, or the capture that they are of.
pub(super) fn frames(trial: &DetailedTrial) -> String {
    match &trial.replay {
        Some(replay) if replay.departures.is_empty() => format!("{}, unchanged", replay.file),
        Some(replay) => replay.file.clone(),
        None => format!("{} B with FCS", trial.environment.sizes_name()),
    }
}

/// A hint if no frame arrived in the trial, none was seen to arrive before it, and nothing else explains why.
pub(super) fn silent(trial: &DetailedTrial) -> Option<&'static str> {
    let is_cause = |doubt: &Doubt| matches!(doubt, Doubt::OtherStation { .. } | Doubt::LinkChanged { .. });
    let is_silent = trial.fate.received == 0;
    let says = match trial.learned {
        Some(false) => {
            "No frame arrived before the trial: check that the device under test is on and connected to these ports"
        }
        None if trial.environment.is_between_ports() => {
            "No frame arrived: check that the device under test is on and connected to these ports"
        }
        _ => return None,
    };
    (is_silent && !trial.doubts.iter().any(is_cause)).then_some(says)
}

/// Sentences on flows whose queue is unknown, and on flows in other queues than the expected one.
pub(super) fn queues(queues: &Queues) -> Vec<String> {
    let flows = |count: u32| if count == 1 { "1 flow".to_owned() } else { format!("{count} flows") };
    let mut all = Vec::new();
    if queues.flows_elsewhere > 0 {
        let why = queues.reason.map_or("it is unknown why", ElsewhereReason::words);
        all.push(format!(
            "Frames of {} came to other queues than the expected one: {why}.",
            flows(queues.flows_elsewhere)
        ));
    }
    if queues.unknown_flows > 0 {
        let why = queues.unknown.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        all.push(format!("The queue of {} cannot be predicted{why}.", flows(queues.unknown_flows)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::detail::{Fate, TrialReplay};

    #[test]
    fn frames_that_were_changed_are_not_called_unchanged() {
        let replay = |departures: &[&str]| TrialReplay {
            file: "a.pcap".into(),
            departures: departures.iter().map(ToString::to_string).collect(),
            ..TrialReplay::default()
        };
        let of =
            |departures| frames(&DetailedTrial { replay: Some(replay(departures)), ..Default::default() });
        assert_eq!(of(&[]), "a.pcap, unchanged");
        assert_eq!(of(&["2 frames were cut when they were captured"]), "a.pcap");
    }

    #[test]
    fn flows_in_other_queues_have_their_reason() {
        assert_eq!(queues(&Queues::default()), Vec::<String>::new());
        let of = |reason| queues(&Queues { flows_elsewhere: 2, reason, ..Queues::default() });
        assert_eq!(
            of(Some(ElsewhereReason::Rewritten)),
            ["Frames of 2 flows came to other queues than the expected one: \
              their addresses or ports were rewritten on the way."]
        );
        assert!(of(None)[0].ends_with(": it is unknown why."));
        let unknown = Queues { unknown_flows: 1, unknown: Some("no table".into()), ..Queues::default() };
        assert_eq!(queues(&unknown), ["The queue of 1 flow cannot be predicted: no table."]);
    }

    #[test]
    fn overwritten_frames_are_mentioned() {
        use kpps_documents::detail::CapturedPort;
        let port = |overwritten| CapturedPort { overwritten, ..CapturedPort::default() };
        let mut capture = FullCapture {
            file: "all.pcapng".into(),
            frames: 7,
            ring_bytes: 64_000_000,
            ports: vec![port(0), port(0)],
            ..FullCapture::default()
        };
        assert_eq!(capture_all(&capture), "all.pcapng has 7 frames of both ports, each with its verdict");
        capture.ports = vec![port(2), port(3)];
        assert!(
            capture_all(&capture)
                .ends_with("; 5 older ones were overwritten, because the ring of a port holds 64 MB")
        );
    }

    #[test]
    fn a_silent_path_is_a_riddle_only_if_nothing_explains_it() {
        let silent = |received, doubts| {
            silent(&DetailedTrial {
                learned: Some(false),
                fate: Fate { received, ..Fate::default() },
                doubts,
                ..Default::default()
            })
            .is_some()
        };
        assert!(silent(0, vec![Doubt::Unexplained { frames: 9 }]));
        assert!(!silent(1, vec![]), "something arrived");
        assert!(!silent(0, vec![Doubt::OtherStation { place: "r0".into(), frames: 9 }]));
        let untried = |testbed: &[&str]| {
            let environment = kpps_documents::Environment::on(testbed.iter().copied());
            super::silent(&DetailedTrial { environment, ..Default::default() })
        };
        assert!(untried(&["packet:a", "packet:b"]).is_some_and(|hint| hint.starts_with("No frame arrived:")));
        assert_eq!(untried(&["known:1Mpps"]), None, "no ports, no cable");
    }
}
