//! The capture of all frames of both ports of a trial.

use super::Ports;
use crate::error::Failure;
use crate::heading;
use clap::Args;
use kpps_tester::RingForm;
use std::path::{Path, PathBuf};

/// The memory for the frames of each port that is used by default.
const USUAL_BYTES: usize = 64_000_000;
/// The least and the most memory. The file is made in memory, too, and is larger than the rings.
const LEAST_BYTES: usize = 2_000_000;
const MOST_BYTES: usize = 2_000_000_000;
/// The least number of bytes that are kept of a frame: headers and tag are among them, except in a tunnel
/// over IPv6.
const LEAST_FRAME_BYTES: i64 = 128;

/// Options of the capture of all frames.
#[derive(Args)]
pub struct CaptureAll {
    /// Write all frames that both ports sent and received to this file (pcapng), each with its time in ns,
    /// its direction and the verdict of kpps in a comment. Learning frames, ARP and neighbour discovery are
    /// among them
    #[arg(long, value_name = "FILE", help_heading = heading::RESULTS)]
    capture_all: Option<PathBuf>,
    /// With --capture-all: memory for the frames of each port. When it is full, a new frame overwrites the
    /// oldest ones [default: 64MB]
    #[arg(long, value_name = "SIZE", requires = "capture_all", value_parser = memory_bytes, help_heading = heading::RESULTS)]
    capture_ring: Option<usize>,
    /// With --capture-all: keep at most this many bytes of each frame, 128 or more [default: all bytes]
    #[arg(long, value_name = "BYTES", requires = "capture_all", value_parser = clap::value_parser!(u32).range(LEAST_FRAME_BYTES..), help_heading = heading::RESULTS)]
    capture_bytes: Option<u32>,
}

/// Reads an amount of memory, as 64MB, in bytes.
fn memory_bytes(text: &str) -> Result<usize, String> {
    let units = [("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
    let of = |(unit, bytes): (&str, usize)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * bytes as f64)
    };
    let bytes = units.into_iter().find_map(of);
    match bytes {
        Some(bytes) if (LEAST_BYTES as f64..=MOST_BYTES as f64).contains(&bytes) => Ok(bytes as usize),
        _ => Err(format!("'{text}' is no size of a ring: give 2MB to 2GB")),
    }
}

impl CaptureAll {
    /// Refuses ports that cannot capture all frames.
    pub fn check(&self, ports: &Ports) -> Result<(), Failure> {
        if self.capture_all.is_some() && ports.has_streams() {
            return Err(Failure::Input(
                "--capture-all and --streams exclude each other: the verdicts are those of one stream; --capture has the frames with anomalies of all streams".into(),
            ));
        }
        match (&self.capture_all, ports.first_elsewhere()) {
            (Some(_), Some(port)) => Err(Failure::Input(format!(
                "--capture-all is for ports of this host, and {port} is on another host: leave it out, or run `kpps trial` there"
            ))),
            _ => Ok(()),
        }
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.capture_all.as_deref()
    }

    /// The rings, if frames are captured.
    pub fn form(&self) -> Option<RingForm> {
        self.capture_all.as_ref()?;
        Some(RingForm {
            ring_bytes: self.capture_ring.unwrap_or(USUAL_BYTES),
            frame_bytes: self.capture_bytes.map(|bytes| bytes as usize),
        })
    }
}
