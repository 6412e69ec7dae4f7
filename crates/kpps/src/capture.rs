//! The file of the frames to which something happened in a trial.

use crate::error::Failure;
use crate::output::Output;
use kpps_frames::pcap::PcapError;
use kpps_frames::pcapng::Writer;
use kpps_results::detail::Capture;
use kpps_tester::{Offender, Way};
use std::time::Duration;

/// Writes the frames that were kept of a trial between these ports, in the order of time.
pub fn write(output: &mut Output, ports: &[&str; 2], ways: &[Way]) -> Result<Capture, Failure> {
    let of = |way: &'_ Way| 1 - way.from as u32;
    let mut frames: Vec<(u32, &Offender)> =
        ways.iter().flat_map(|way| way.kept.frames.iter().map(move |frame| (of(way), frame))).collect();
    frames.sort_by_key(|(_, frame)| frame.at_ns);
    let bytes = pcapng(ports, &frames);
    let bytes = bytes.map_err(|e| Failure::Check(format!("no capture of the frames: {e}")))?;
    output.write_bytes(&bytes)?;
    Ok(Capture {
        file: output.path().display().to_string(),
        frames: frames.len() as u64,
        not_kept: ways.iter().map(|way| way.kept.not_kept).sum(),
    })
}

fn pcapng(ports: &[&str; 2], frames: &[(u32, &Offender)]) -> Result<Vec<u8>, PcapError> {
    let mut writer = Writer::new(Vec::new(), ports)?;
    for (port, Offender { at_ns, frame, why }) in frames {
        writer.write(*port, Duration::from_nanos(*at_ns), frame, why)?;
    }
    Ok(writer.into_inner())
}
