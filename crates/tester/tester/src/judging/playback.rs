//! The frames of a capture, to be sent again.

use crate::judging::recognised::Classes;
use crate::running::trial::{Offer, Replay};
use kpps_frames::build::Flow;
use kpps_frames::capture::{Capture, CaptureError, Captured};
use kpps_frames::flows::Mapping;
use kpps_frames::headers::{self, Fields};
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size, Templates};
use kpps_methods::units;
use kpps_ports::port::run::Times;
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
    /// The gap that is long enough to be a mistake, if frames are sent at the times of the capture: the frame
    /// behind the gap, and its length.
    pub pause: Option<(u64, Duration)>,
    /// How the frames differ from the capture, in words.
    pub departures: Vec<String>,
}

/// The most memory that the frames of a capture take.
const MOST_BYTES: usize = 1 << 30;
/// The memory of a frame beside its bytes: its place, its time, its class.
const BESIDE: usize = 64;
/// A longer gap looks like a clock that was set.
const LONG: Duration = Duration::from_secs(86_400);

/// How many frames are changed in some way, and the number of the first one.
#[derive(Clone, Copy, Debug, Default)]
struct Changed(Option<(u64, u64)>);

impl Changed {
    fn add(&mut self, number: u64) {
        let (frames, first) = self.0.unwrap_or((0, number));
        self.0 = Some((frames + 1, first));
    }

    /// The departure of these frames, in words.
    fn say(self, what: &str) -> Option<String> {
        self.0.map(|(frames, first)| match frames {
            1 => format!("{what}: frame {first}"),
            _ => format!("{what}: {frames} frames, the first is frame {first}"),
        })
    }
}

/// The changes of a capture's frames for sending.
#[derive(Debug, Default)]
struct Changes {
    cut: Changed,
    padded: Changed,
    made: Changed,
    earlier: Changed,
    /// The frame within which the capture ends.
    ends: Option<u64>,
    /// The times since the first frame, in order.
    at_ns: Vec<u64>,
    first_ns: i128,
    bytes: usize,
}

impl Changes {
    /// The bytes of a frame as they are sent, which is due at its time if they go at their `own_times`.
    fn take(&mut self, frame: Captured, own_times: bool) -> Result<Vec<u8>, String> {
        let Captured { number, at_ns, mut bytes, length, made } = frame;
        let least = usize::from(Size::MIN.bytes_without_fcs());
        let most = usize::from(Size::MAX.bytes_without_fcs()) + 4;
        if length > most {
            return Err(format!(
                "cannot be sent: frame {number} has {length} bytes; capture again without segmentation offloads"
            ));
        }
        if bytes.len() < 14 {
            let bytes = bytes.len();
            return Err(format!(
                "cannot be sent: frame {number} has {bytes} bytes, less than an Ethernet header: capture whole headers, or leave it out with `editcap IN OUT {number}`"
            ));
        }
        if made {
            self.made.add(number);
        }
        if bytes.len() < length {
            self.cut.add(number);
        }
        if length < least {
            self.padded.add(number);
        }
        bytes.resize(length.max(least), 0);
        self.bytes += bytes.len() + BESIDE;
        if self.bytes > MOST_BYTES {
            return Err(format!(
                "takes more than {} MiB of memory from frame {number} on: cut it into parts (`editcap -c {}`)",
                MOST_BYTES >> 20,
                number.saturating_sub(1)
            ));
        }
        if own_times {
            let at_ns = at_ns.ok_or(format!("has no time for frame {number}: give a load"))?;
            if self.at_ns.is_empty() {
                self.first_ns = at_ns;
            }
            let since = at_ns.saturating_sub(self.first_ns);
            let latest = self.at_ns.last().copied().unwrap_or(0);
            if since < i128::from(latest) {
                self.earlier.add(number);
            }
            self.at_ns.push(u64::try_from(since.max(0)).unwrap_or(u64::MAX).max(latest));
        }
        Ok(bytes)
    }

    /// The longest gap, `speed` times as fast, if it is long.
    fn pause(&self, speed: f64) -> Option<(u64, Duration)> {
        let gaps = self.at_ns.windows(2).zip(2..).map(|(pair, number)| (number, pair[1] - pair[0]));
        let (number, gap_ns) = gaps.max_by_key(|(_, gap)| *gap)?;
        let gap = Duration::try_from_secs_f64(gap_ns as f64 / 1e9 / speed).unwrap_or(Duration::MAX);
        (gap > LONG).then_some((number, gap))
    }

    fn departures(&self) -> Vec<String> {
        let to = Flow::default().to_mac;
        let ends = |number| format!("the capture ends within frame {number}, which is not sent");
        [
            self.made.say(&format!("without Ethernet addresses in the capture, sent to {to}")),
            self.cut.say("cut off in the capture, filled with zeros"),
            self.padded.say("shorter than 60 B without FCS, padded"),
            self.earlier.say("earlier than a frame before it, due at the time of that one"),
            self.ends.map(ends),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Playback {
    /// Reads a capture. With `speed` the frames are sent at the times of the capture, faster by this factor.
    /// Source and destination addresses are mapped, each by the first mapping that has it.
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
        let mut mapped = 0_u64;
        let frames = Capture::new(file).map_err(|e| unusable(&e))?.map(|frame| {
            frame.map(|mut frame| {
                mapped += u64::from(map(&mut frame.bytes, mappings).is_some());
                frame
            })
        });
        let playback = Self::of(path, frames, speed).map_err(|why| unusable(&why))?;
        let mut playback = Self { times_over, ..playback };
        let frames = playback.count * u64::from(times_over.unwrap_or(1));
        playback.lasts(frames).map_err(|why| unusable(&format!("cannot be sent: {why}")))?;
        if !mappings.is_empty() {
            let all: Vec<_> = mappings.iter().map(ToString::to_string).collect();
            playback.departures.push(format!("{mapped} frames have other addresses: {}", all.join(", ")));
        }
        Ok(playback)
    }

    /// Takes frames one by one. Only the frames to send stay in memory.
    fn of(
        path: &Path,
        mut captured: impl Iterator<Item = Result<Captured, CaptureError>>,
        speed: Option<f64>,
    ) -> Result<Self, String> {
        let mut changes = Changes::default();
        let mut failed = None;
        let each = std::iter::from_fn(|| {
            let usable = match captured.next()? {
                Ok(frame) => changes.take(frame, speed.is_some()),
                // As tcpdump and Wireshark do: a writer that was killed leaves such a file.
                Err(CaptureError::Ends(number)) if number > 1 => {
                    changes.ends = Some(number);
                    return None;
                }
                Err(error) => Err(error.to_string()),
            };
            usable.map_err(|why| failed = Some(why)).ok()
        });
        let frames = Templates::each(each);
        if let Some(why) = failed {
            return Err(why);
        }
        let count = frames.len() as u64;
        let sizes = (0..count).filter_map(|n| Some(Size::without_fcs(frames.at(n)?.bytes)));
        let sizes = Mix::of_frames(path.display().to_string(), sizes).ok_or("has no frames")?;
        let times = match speed {
            Some(speed) => {
                let none = || match changes.earlier.0.is_none() {
                    true => "has no two frames at different times: give a load",
                    false => "has no frame that is later than the first one: give a load",
                };
                Some(Arc::new(Times::new(&changes.at_ns, speed).ok_or_else(none)?))
            }
            None => None,
        };
        let mut playback = Self {
            file: path.to_owned(),
            frames: Arc::new(frames),
            sizes,
            times,
            count,
            times_over: None,
            pause: speed.and_then(|speed| changes.pause(speed)),
            departures: changes.departures(),
        };
        playback.departures.extend(playback.paused());
        Ok(playback)
    }

    /// The replay as an offer, for `duration` if that is given; `offer` is of test frames.
    ///
    /// # Errors
    /// Nothing says when it ends; in one line.
    pub fn offer(&self, offer: Offer, duration: Option<Duration>) -> Result<Offer, String> {
        let (count, whole) = self.extent(duration, None)?;
        let load = self.times.as_ref().map_or(offer.load.rate, |times| Rate::Pps(times.mean_pps()));
        let rated = match (load, count) {
            (Rate::Pps(pps), Some(count)) => Some(units::seconds(count as f64 / pps)),
            _ => None,
        };
        let rated = rated.transpose()?;
        let duration = duration.or(whole).or(rated).ok_or("a replay as fast as possible needs a duration")?;
        let classes = Arc::new(Classes::new(&self.frames, self.count));
        let replay = Replay { frames: self.frames.clone(), times: self.times.clone(), classes };
        Ok(Offer { count, replay: Some(replay), ..offer }.at(load).lasting(duration))
    }

    /// How many frames are sent, and how long that takes at most; `None` if this duration or count ends it.
    ///
    /// # Errors
    /// Nothing ends it before a gap that looks like a mistake; in one line.
    pub fn extent(
        &self,
        duration: Option<Duration>,
        count: Option<u64>,
    ) -> Result<(Option<u64>, Option<Duration>), String> {
        if let (None, Some((number, _))) = (duration, self.pause)
            && count.is_none_or(|count| count >= number)
        {
            return Err(format!(
                "{}: {}: end the replay before it, or give a load or a speed",
                self.file.display(),
                self.paused().unwrap_or_default()
            ));
        }
        let times = match (self.times_over, duration.is_some() || count.is_some()) {
            (Some(times), _) => times,
            (None, true) => return Ok((None, None)),
            (None, false) => 1,
        };
        let count = self.count * u64::from(times);
        // No frame is sent after the end: the first one of another round would be due then.
        let whole = self.lasts(count).ok().flatten();
        Ok((Some(count), whole.map(|whole| whole.saturating_sub(Duration::from_nanos(100)))))
    }

    /// The longest gap in words, if it looks like a mistake.
    fn paused(&self) -> Option<String> {
        const DAY: f64 = 86_400.0;
        let (number, gap) = self.pause?;
        let days = gap.as_secs_f64() / DAY;
        let long =
            if days < 366.0 { format!("{days:.1} days") } else { format!("{:.1} years", days / 365.25) };
        Some(format!("frame {number} is due {long} after the frame before it"))
    }

    /// How long `frames` frames take at their times, if they have times.
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

    fn seen(number: u64, at_ns: Option<i128>, bytes: usize, length: usize) -> Captured {
        Captured { number, at_ns, bytes: vec![7; bytes], length, made: false }
    }

    fn of(frames: Vec<Captured>, speed: Option<f64>) -> Result<Playback, String> {
        Playback::of(Path::new("x.pcap"), frames.into_iter().map(Ok), speed)
    }

    const DAY_NS: i128 = 86_400_000_000_000;

    #[test]
    fn frames_are_as_they_were_or_it_is_said() {
        let frames = [(60, 60), (40, 40), (96, 1514)];
        let frames = (1..)
            .zip(frames)
            .map(|(n, (bytes, length))| seen(n, Some(i128::from(n) * 1_000_000), bytes, length));
        let replay = of(frames.collect(), Some(2.0)).unwrap();
        assert_eq!(replay.departures.len(), 2, "{:?}", replay.departures);
        assert!((replay.sizes.mean_bytes_with_fcs() - (64.0 + 64.0 + 1518.0) / 3.0).abs() < 1e-9);
        let (count, whole) = replay.extent(None, None).unwrap();
        assert_eq!(count, Some(3));
        assert!((whole.unwrap().as_secs_f64() - 1.5e-3).abs() < 1e-6);
        assert_eq!(replay.extent(Some(Duration::ZERO), None), Ok((None, None)));
        let crawling = Times::new(&[0, 1_000_000, 2_000_000], 1e-300).map(Arc::new);
        let crawling = Playback { times: crawling, ..replay };
        assert!(crawling.lasts(3).unwrap_err().contains("higher load"));
        assert_eq!(crawling.extent(None, None), Ok((Some(3), None)));
        let replay = crawling;
        let mut bytes = [1; 2000];
        assert_eq!(replay.frames.at(4).unwrap().write(&mut bytes), Some(60));
        assert_eq!((&bytes[..40], &bytes[40..60]), (&[7; 40][..], &[0; 20][..]));
        let whole = || seen(1, Some(0), 60, 60);
        for (bad, says) in [
            (vec![], "has no frames"),
            (vec![whole(), seen(2, Some(1), 9100, 9100)], "frame 2 has 9100 bytes"),
            (vec![whole(), seen(2, Some(1), 96, 65_000)], "frame 2 has 65000 bytes"),
            (vec![seen(1, Some(0), 10, 60)], "frame 1 has 10 bytes"),
        ] {
            assert!(of(bad, None).unwrap_err().contains(says), "{says}");
        }
    }

    #[test]
    fn strange_times_are_said() {
        let times = |all: &[Option<i128>], speed| {
            of((1..).zip(all).map(|(n, at)| seen(n, *at, 60, 60)).collect(), speed)
        };
        let at = |all: &[i128]| all.iter().map(|at| Some(*at)).collect::<Vec<_>>();
        // The clock was set back, twice, also before the first frame.
        let back = times(&at(&[5, 9, 7, 12, -3, 20]), Some(1.0)).unwrap();
        assert_eq!(back.departures.len(), 1, "{:?}", back.departures);
        assert!(
            back.departures[0].starts_with("earlier than a frame before it")
                && back.departures[0].ends_with(": 2 frames, the first is frame 3")
        );
        assert_eq!(back.times, Times::new(&[0, 4, 4, 7, 7, 15], 1.0).map(Arc::new));
        assert!(times(&at(&[9, 5, 7]), None).unwrap().departures.is_empty(), "not at these times");
        // From 1970 into 2024.
        let late = at(&[0, 10, 54 * 365 * DAY_NS, 54 * 365 * DAY_NS + 1]);
        let late = times(&late, Some(1.0)).unwrap();
        let says = "frame 3 is due 54.0 years after the frame before it";
        assert_eq!(late.departures, [says]);
        assert!(late.extent(None, None).unwrap_err().contains(says));
        assert!(late.extent(None, Some(3)).unwrap_err().contains("end the replay before it"));
        assert_eq!(late.extent(None, Some(2)), Ok((None, None)), "it ends before");
        assert_eq!(late.extent(Some(Duration::ZERO), None), Ok((None, None)));
        // A day is passed in less than a second.
        assert_eq!(times(&at(&[0, 3 * DAY_NS]), Some(1e6)).unwrap().pause, None);
        let none = times(&[Some(0), None], Some(1.0)).unwrap_err();
        assert!(none.contains("has no time for frame 2: give a load"), "{none}");
        assert!(times(&[Some(0), None], None).is_ok());
    }

    #[test]
    fn a_capture_that_ends_within_a_frame_is_sent_up_to_it() {
        let ends = |whole: u64| {
            let frames = (1..=whole).map(|n| Ok(seen(n, None, 60, 60)));
            let end = [Err(CaptureError::Ends(whole + 1))];
            Playback::of(Path::new("x.pcap"), frames.chain(end), None)
        };
        let replay = ends(2).unwrap();
        assert_eq!(replay.count, 2);
        assert_eq!(replay.departures, ["the capture ends within frame 3, which is not sent"]);
        assert!(ends(0).unwrap_err().contains("ends within frame 1"));
    }

    /// More than fits into memory: a file with holes is read as frames without bytes, or with zeros.
    #[test]
    fn a_capture_without_end_is_refused() {
        let endless = |bytes: usize| {
            // Of zeros at the end of a frame only the number is kept, so the test takes no memory.
            let zeros = |n: u64| Captured { bytes: vec![0; bytes], ..seen(n, Some(n.into()), 0, bytes) };
            let frames = (1..).map(|n| Ok(zeros(n)));
            Playback::of(Path::new("x.pcap"), frames, None).unwrap_err()
        };
        assert!(endless(0).contains("frame 1 has 0 bytes"));
        let long = endless(9000);
        assert!(long.contains("takes more than 1024 MiB") && long.contains("editcap -c 118"), "{long}");
    }
}
