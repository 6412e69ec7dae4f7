//! Options of the replay of a capture.

use crate::error::Failure;
use crate::heading;
use clap::Args;
use kpps_frames::flows::Mapping;
use kpps_methods::units;
use kpps_tester::Playback;
use std::path::PathBuf;

/// Which capture is sent, and how fast.
#[derive(Args)]
pub struct ReplayArguments {
    /// Send the frames of this capture (pcap or pcapng, also in gzip, zstd or lz4) unchanged and without
    /// tags, at the times of the capture, or with --load at that rate. With --dst-mac, or with --gateway in
    /// trials, kpps replaces the Ethernet addresses: the source by the address of the port, the destination
    /// by the given or resolved address
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "shape", "sport", "dport", "flows"], help_heading = heading::REPLAY)]
    replay: Option<PathBuf>,
    /// Multiply the speed of the capture by this factor: 2x, 0.5x
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = units::factor, requires = "replay", conflicts_with = "load", help_heading = heading::REPLAY)]
    speed: f64,
    /// How often the capture is sent, one time after the other [default: 1; with --duration or --count: until
    /// this limit is reached]
    #[arg(long = "loop", value_name = "TIMES", requires = "replay", value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::REPLAY)]
    times: Option<u32>,
    /// Replace addresses of a capture, source and destination: 10.0.0.5=198.18.0.1, or two ranges of the same
    /// length. kpps corrects the checksums
    #[arg(long, value_name = "OLD=NEW,…", value_delimiter = ',', requires = "replay", help_heading = heading::REPLAY)]
    map: Vec<Mapping>,
}

impl ReplayArguments {
    /// Whether a capture is to be sent.
    pub fn is_given(&self) -> bool {
        self.replay.is_some()
    }

    /// Reads the capture, if there is one to be sent; `own_times`: at the times of the capture.
    pub fn read(&self, own_times: bool) -> Result<Option<Playback>, Failure> {
        let read =
            |path: &PathBuf| Playback::read(path, own_times.then_some(self.speed), self.times, &self.map);
        self.replay.as_ref().map(read).transpose().map_err(Failure::Input)
    }
}
