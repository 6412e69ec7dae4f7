//! The frames of a capture, to be sent again.

use crate::recognised::Classes;
use crate::trial::{Offer, Replay};
use kpps_frames::flows::Mapping;
use kpps_frames::headers::{self, Fields};
use kpps_frames::pcap::{Captured, capture};
use kpps_frames::{Mix, Size, Templates};
use kpps_measure::units;
use kpps_ports::port::run::{Load, Times};
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The frames of a capture, to be sent again.
#[derive(Debug)]
pub struct Playback {
    /// The capture.
    pub file: PathBuf,
    /// The frames.
    pub frames: Arc<Templates>,
    /// Their sizes.
    pub sizes: Mix,
    /// When each is due, if they go at the times of the capture.
    pub times: Option<Arc<Times>>,
    /// How many there are.
    pub count: u64,
    /// How often they are sent; `None` if something else ends the sending.
    pub times_over: Option<u32>,
    /// How the frames differ from the capture, in words.
    pub departures: Vec<String>,
}

impl Playback {
    /// Reads a capture. With `speed` the frames go at the times of the capture, that much faster. Source and
    /// destination addresses are mapped, each by the first mapping that has it.
    ///
    /// # Errors
    /// Why the capture cannot be sent, in one line.
    pub fn read(
        path: &Path,
        speed: Option<f64>,
        times_over: Option<u32>,
        mappings: &[Mapping],
    ) -> Result<Self, String> {
        let unusable = |why: &dyn std::fmt::Display| format!("{} {why}", path.display());
        let file = File::open(path).map_err(|e| unusable(&format!("cannot be opened: {e}")))?;
        let mut captured = capture(file).map_err(|e| unusable(&e))?;
        let mapped = captured.iter_mut().filter_map(|frame| map(&mut frame.bytes, mappings)).count();
        let times = match speed {
            Some(speed) => {
                let at_ns: Vec<_> = captured.iter().map(|frame| frame.at_ns).collect();
                let times = Times::new(&at_ns, speed);
                let none = || {
                    unusable(&"has no usable times (two frames at different times, in order): give --load")
                };
                Some(Arc::new(times.ok_or_else(none)?))
            }
            None => None,
        };
        let playback = Self::of(path, captured, times).map_err(|why| unusable(&why))?;
        let mut playback = Self { times_over, ..playback };
        let frames = playback.count * u64::from(times_over.unwrap_or(1));
        playback.lasts(frames).map_err(|why| unusable(&format!("cannot be sent: {why}")))?;
        if !mappings.is_empty() {
            let all: Vec<_> = mappings.iter().map(ToString::to_string).collect();
            playback.departures.push(format!("{mapped} frames have other addresses: {}", all.join(", ")));
        }
        Ok(playback)
    }

    fn of(path: &Path, mut captured: Vec<Captured>, times: Option<Arc<Times>>) -> Result<Self, String> {
        let least = usize::from(Size::MIN.bytes_without_fcs());
        let most = usize::from(Size::MAX.bytes_without_fcs()) + 4;
        let (mut cut, mut padded) = (0, 0);
        for (number, frame) in (1..).zip(&mut captured) {
            if frame.length > most || frame.bytes.len() < 14 {
                return Err(format!(
                    "cannot be sent: frame {number} has {} bytes; capture again without segmentation offloads and with whole headers",
                    frame.length
                ));
            }
            cut += u64::from(frame.bytes.len() < frame.length);
            padded += u64::from(frame.length < least);
            frame.bytes.resize(frame.length.max(least), 0);
        }
        let mut departures = Vec::new();
        if cut > 0 {
            departures.push(format!("{cut} frames are incomplete in the capture, and end in zeros"));
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
            times_over: None,
            departures,
        })
    }

    /// The replay as an offer, for `duration` if that is given; `offer` is of test frames.
    ///
    /// # Errors
    /// Nothing says when it ends; in one line.
    pub fn offer(&self, offer: Offer, duration: Option<Duration>) -> Result<Offer, String> {
        let (count, whole) = self.extent(duration.is_some());
        let load = self.times.as_ref().map_or(offer.load, |times| Load::Pps(times.mean_pps()));
        let rated = match (load, count) {
            (Load::Pps(pps), Some(count)) => Some(units::seconds(count as f64 / pps)),
            _ => None,
        };
        let rated = rated.transpose()?;
        let duration = duration.or(whole).or(rated).ok_or("--replay with --load max needs --duration")?;
        let classes = Arc::new(Classes::new(&self.frames, self.count));
        let replay = Replay { frames: self.frames.clone(), times: self.times.clone(), classes };
        Ok(Offer { load, duration, count, replay: Some(replay), ..offer })
    }

    /// How many frames are sent, and how long that takes at most; `None` if something else ends the sending.
    pub fn extent(&self, said_otherwise: bool) -> (Option<u64>, Option<Duration>) {
        let times = match (self.times_over, said_otherwise) {
            (Some(times), _) => times,
            (None, true) => return (None, None),
            (None, false) => 1,
        };
        let count = self.count * u64::from(times);
        // No frame is sent after the end: the first one of another round would be due then.
        let whole = self.lasts(count).ok().flatten();
        (Some(count), whole.map(|whole| whole.saturating_sub(Duration::from_nanos(100))))
    }

    /// How long so many frames take at their times, if they have times.
    ///
    /// # Errors
    /// Far too long.
    fn lasts(&self, frames: u64) -> Result<Option<Duration>, String> {
        let times = self.times.as_ref();
        times.map(|times| units::seconds(frames as f64 / times.mean_pps())).transpose()
    }
}

/// Maps the addresses of a frame; `None` if none of them is mapped.
fn map(frame: &mut [u8], mappings: &[Mapping]) -> Option<()> {
    let to = |address: IpAddr| mappings.iter().find_map(|mapping| mapping.map(address));
    let [from, to] = headers::addresses(frame)?.map(to);
    from.or(to)?;
    Fields { from, to, ..Fields::default() }.write(frame);
    Some(())
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
        let replay = Playback::of(Path::new("x.pcap"), frames, times).unwrap();
        assert_eq!(replay.departures.len(), 2, "{:?}", replay.departures);
        assert!((replay.sizes.mean_bytes_with_fcs() - (64.0 + 64.0 + 1518.0) / 3.0).abs() < 1e-9);
        let (count, whole) = replay.extent(false);
        assert_eq!(count, Some(3));
        assert!((whole.unwrap().as_secs_f64() - 1.5e-3).abs() < 1e-6);
        assert_eq!(replay.extent(true), (None, None));
        let crawling = Times::new(&[0, 1_000_000, 2_000_000], 1e-300).map(Arc::new);
        let crawling = Playback { times: crawling, ..replay };
        assert!(crawling.lasts(3).unwrap_err().contains("higher load"));
        assert_eq!(crawling.extent(false), (Some(3), None));
        let replay = crawling;
        let mut bytes = [1; 2000];
        assert_eq!(replay.frames.at(4).unwrap().write(&mut bytes), Some(60));
        assert_eq!((&bytes[..40], &bytes[40..60]), (&[7; 40][..], &[0; 20][..]));
        for bad in [vec![], vec![seen(0, 60, 60), seen(1, 9100, 9100)], vec![seen(0, 10, 60)]] {
            assert!(Playback::of(Path::new("x.pcap"), bad, None).is_err());
        }
    }
}
