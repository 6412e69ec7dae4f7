//! Frames of a capture, to be sent again.

use crate::error::Failure;
use clap::Args;
use kpps_frames::pcap::{Captured, capture};
use kpps_frames::{Mix, Size, Templates};
use kpps_measure::units::number;
use kpps_ports::port::run::Times;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What is sent again, and how fast.
#[derive(Args)]
pub struct ReplayArguments {
    /// Send the frames of this capture (pcap or pcapng) unchanged and without tags, at the times of the capture, or with --load at
    /// that rate
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "shape", "dst_mac", "sport", "dport", "flows"])]
    replay: Option<PathBuf>,
    /// Replay this much faster: 2x, 0.5x
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = speed, requires = "replay", conflicts_with = "load")]
    speed: f64,
    /// Send the capture this many times, one after the other [default: 1; with --duration or --count: until that ends it]
    #[arg(long = "loop", value_name = "TIMES", requires = "replay", value_parser = clap::value_parser!(u32).range(1..))]
    times: Option<u32>,
}

/// How much faster or slower: `2x`, `0.5x`.
fn speed(text: &str) -> Result<f64, String> {
    match number(text) {
        Some((times, "x" | "")) if times.is_finite() && times > 0.0 => Ok(times),
        _ => Err(format!("'{text}' is no speed: give 2x, 0.5x")),
    }
}

/// Frames to be sent again.
#[derive(Debug)]
pub struct Replay {
    /// The file that they are from.
    pub file: PathBuf,
    /// The frames.
    pub frames: Arc<Templates>,
    /// Their sizes.
    pub sizes: Mix,
    /// When each is due, if they go at their own times.
    pub times: Option<Arc<Times>>,
    /// How many there are.
    pub count: u64,
    /// How often they are to be sent; `None` if something else says how long.
    repeat: Option<u32>,
    /// What is not as it was seen, in words.
    pub departures: Vec<String>,
}

impl ReplayArguments {
    /// Reads the capture, if there is one to be sent; with its own times, or not.
    pub fn read(&self, own_times: bool) -> Result<Option<Replay>, Failure> {
        let Some(path) = &self.replay else { return Ok(None) };
        let unusable = |why: &dyn std::fmt::Display| Failure::Input(format!("{} {why}", path.display()));
        let file = File::open(path).map_err(|e| unusable(&format!("cannot be opened: {e}")))?;
        let captured = capture(file).map_err(|e| unusable(&e))?;
        let times = match own_times {
            true => {
                let at_ns: Vec<_> = captured.iter().map(|frame| frame.at_ns).collect();
                let times = Times::new(&at_ns, self.speed);
                Some(times.ok_or_else(|| {
                    unusable(
                        &"has no frames, or not two at different times, one after the other: give --load",
                    )
                })?)
            }
            false => None,
        };
        let replay = Replay::of(path, captured, times.map(Arc::new)).map_err(|why| unusable(&why))?;
        Ok(Some(Replay { repeat: self.times, ..replay }))
    }
}

impl Replay {
    fn of(path: &Path, mut captured: Vec<Captured>, times: Option<Arc<Times>>) -> Result<Self, String> {
        let least = usize::from(Size::MIN.bytes_without_fcs());
        let most = usize::from(Size::MAX_STANDARD.bytes_without_fcs()) + 4;
        let (mut cut, mut padded) = (0, 0);
        for (number, frame) in (1..).zip(&mut captured) {
            if frame.length > most || frame.bytes.len() < 14 {
                return Err(format!(
                    "has a frame that no port sends, number {number} of {} bytes: captured with segmentation offloads on, or cut off within its header",
                    frame.length
                ));
            }
            cut += u64::from(frame.bytes.len() < frame.length);
            padded += u64::from(frame.length < least);
            frame.bytes.resize(frame.length.max(least), 0);
        }
        let mut departures = Vec::new();
        if cut > 0 {
            departures
                .push(format!("{cut} frames were cut off when they were captured, and end in zeros now"));
        }
        if padded > 0 {
            departures.push(format!("{padded} frames were shorter than 60 B without FCS, and are padded"));
        }
        let sizes = captured.iter().map(|frame| Size::without_fcs(frame.bytes.len() as u16));
        let sizes = Mix::of_frames(path.display().to_string(), sizes).ok_or("has no frames")?;
        let frames = Arc::new(Templates::each(captured.iter().map(|frame| &frame.bytes[..])));
        Ok(Self {
            file: path.to_owned(),
            frames,
            sizes,
            times,
            count: captured.len() as u64,
            repeat: None,
            departures,
        })
    }

    /// How many frames are sent, and how long that may take at most, if it is said in no other way.
    pub fn extent(&self, said_otherwise: bool) -> (Option<u64>, Option<Duration>) {
        let repeat = match (self.repeat, said_otherwise) {
            (Some(repeat), _) => repeat,
            (None, true) => return (None, None),
            (None, false) => 1,
        };
        let count = self.count * u64::from(repeat);
        // A frame that is late to its own time is not sent after the end in place of a next one.
        let whole = self.times.as_ref().map(|times| {
            let seconds = count as f64 / times.mean_pps();
            Duration::from_secs_f64(seconds).saturating_sub(Duration::from_nanos(100))
        });
        (Some(count), whole)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn seen(at_ns: u64, bytes: usize, length: usize) -> Captured {
        Captured { at_ns, bytes: vec![7; bytes], length }
    }

    #[test]
    fn frames_are_as_they_were_or_it_is_said() {
        let frames = vec![seen(0, 60, 60), seen(1_000_000, 40, 40), seen(2_000_000, 96, 1514)];
        let times = Times::new(&[0, 1_000_000, 2_000_000], 2.0).map(Arc::new);
        let replay = Replay::of(Path::new("x.pcap"), frames, times).unwrap();
        assert_eq!(replay.departures.len(), 2, "{:?}", replay.departures);
        assert!((replay.sizes.mean_bytes_with_fcs() - (64.0 + 64.0 + 1518.0) / 3.0).abs() < 1e-9);
        let (count, whole) = replay.extent(false);
        assert_eq!(count, Some(3));
        assert!((whole.unwrap().as_secs_f64() - 1.5e-3).abs() < 1e-6);
        assert_eq!(replay.extent(true), (None, None));
        let mut bytes = [1; 2000];
        assert_eq!(replay.frames.at(4).unwrap().write(&mut bytes), Some(60));
        assert_eq!((&bytes[..40], &bytes[40..60]), (&[7; 40][..], &[0; 20][..]));
        for bad in [vec![], vec![seen(0, 60, 60), seen(1, 2000, 2000)], vec![seen(0, 10, 60)]] {
            assert!(Replay::of(Path::new("x.pcap"), bad, None).is_err());
        }
    }

    #[test]
    fn speeds_as_people_type_them() {
        assert_eq!((speed("2x"), speed("0.5x"), speed("3")), (Ok(2.0), Ok(0.5), Ok(3.0)));
        assert!(["", "0x", "fast", "-1x", "2y"].iter().all(|text| speed(text).is_err()));
    }
}
