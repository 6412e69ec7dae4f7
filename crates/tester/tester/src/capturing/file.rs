//! The file of all frames that the ports sent and received in a trial.

use crate::capturing::ring::Captured;
use crate::capturing::words::Words;
use crate::running::trial::Outcome;
use kpps_documents::detail::{CapturedPort, FullCapture};
use kpps_frames::pcap;
use kpps_frames::pcap::PcapError;
use kpps_frames::pcapng::{Way, Writer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The captured frames of a trial between these ports as a pcapng file, in the order of time, each with the
/// verdict as its comment. Test frames that were sent have the times in their tags.
///
/// # Errors
/// A frame that is too long for the format.
pub fn pcapng_of_all(ports: &[&str], outcome: &Outcome) -> Result<Vec<u8>, PcapError> {
    let all: BTreeMap<usize, (Words<'_>, &Captured)> = outcome
        .captured
        .iter()
        .map(|(at, captured)| (*at, (words(*at, captured, outcome), captured)))
        .collect();
    let mut frames = Vec::new();
    for (port, (words, captured)) in &all {
        frames.extend(captured.frames().map(|(record, frame)| {
            let epoch_ns = captured.epoch_ns;
            // Before the trial, the origin of the times in tags is not known yet.
            let tag = words.sent_tag(frame).filter(|_| record.is_sent && !record.is_before);
            let sent = tag.map(|tag| {
                let given_ps = record.at_ns.saturating_sub(epoch_ns).saturating_mul(1000);
                epoch_ns + tag.sent_ps_near(given_ps) / 1000
            });
            (sent.unwrap_or(record.at_ns), *port, record, frame)
        }));
    }
    // Frames of one time stay in their order.
    frames.sort_by_key(|(at_ns, port, ..)| (*at_ns, *port));
    let mut writer = Writer::new(Vec::new(), ports)?;
    for (at_ns, port, record, frame) in frames {
        let way = if record.is_sent { Way::Out } else { Way::In };
        let Some((words, _)) = all.get(&port) else { continue };
        let why = words.of(&record, frame);
        writer.write_part((port as u32, way), Duration::from_nanos(at_ns), (frame, record.length), &why)?;
    }
    Ok(writer.into_inner())
}

/// The frames that the port with this name received in a trial, without those before it, in a file of pcap or
/// pcapng.
///
/// # Errors
/// A frame that is too long for the format.
pub fn received_of(port: &str, captured: &Captured, is_pcapng: bool) -> Result<Vec<u8>, PcapError> {
    let frames = captured.frames().filter(|(record, _)| !record.is_sent && !record.is_before);
    if !is_pcapng {
        let mut writer = pcap::Writer::new(Vec::new())?;
        for (record, frame) in frames {
            writer.write(record.at_ns, frame)?;
        }
        return Ok(writer.into_inner());
    }
    let mut writer = Writer::new(Vec::new(), &[port])?;
    for (record, frame) in frames {
        let at = Duration::from_nanos(record.at_ns);
        writer.write_part((0, Way::In), at, (frame, record.length), "")?;
    }
    Ok(writer.into_inner())
}

/// The facts from which the words on the frames of a port are made.
fn words<'c>(at: usize, captured: &'c Captured, outcome: &Outcome) -> Words<'c> {
    let into = outcome.directions.iter().find(|direction| direction.to == at);
    Words {
        directions: if at == 0 { [1, 2] } else { [2, 1] },
        leaving: captured.leaving.as_deref(),
        arriving: captured.arriving.as_deref(),
        is_replay: captured.is_replay,
        settled: into.map(|direction| direction.received.kept.settled).unwrap_or_default(),
    }
}

/// The capture of a trial between these ports, in `file`, as published; `None` if frames were not captured.
pub fn capture_all(file: String, ports: &[&str], outcome: &Outcome) -> Option<FullCapture> {
    let form = outcome.captured.values().next()?.form();
    let of = |(at, captured): (&usize, &Captured)| {
        Some(CapturedPort {
            port: (*ports.get(*at)?).into(),
            received: captured.received,
            sent: captured.sent,
            overwritten: captured.overwritten(),
        })
    };
    Some(FullCapture {
        file,
        frames: outcome.captured.values().map(Captured::len).sum(),
        ring_bytes: form.ring_bytes as u64,
        frame_bytes: form.frame_bytes.map(|bytes| bytes as u64),
        ports: outcome.captured.iter().filter_map(of).collect(),
    })
}
