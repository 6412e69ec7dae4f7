//! The file of the frames that were duplicated, reordered, corrupted or other traffic in a trial.

use crate::judging::kept::AnomalousFrame;
use crate::running::trial::DirectionOutcome;
use kpps_frames::pcap::PcapError;
use kpps_frames::pcapng::Writer;
use std::time::Duration;

/// The frames that were kept of a trial of these ports as a pcapng file, in the order of time, each with
/// a comment.
///
/// # Errors
/// A frame that is too long for the format.
pub fn pcapng(ports: &[&str], ways: &[DirectionOutcome]) -> Result<Vec<u8>, PcapError> {
    let of = |direction| -> Vec<(u32, &AnomalousFrame)> {
        let direction: &DirectionOutcome = direction;
        direction.received.kept.frames.iter().map(|frame| (direction.to as u32, frame)).collect()
    };
    let mut frames: Vec<(u32, &AnomalousFrame)> = ways.iter().flat_map(of).collect();
    frames.sort_by_key(|(_, frame)| frame.at_ns);
    let mut writer = Writer::new(Vec::new(), ports)?;
    for (port, AnomalousFrame { at_ns, frame, why }) in frames {
        writer.write(port, Duration::from_nanos(*at_ns), frame, why)?;
    }
    Ok(writer.into_inner())
}
