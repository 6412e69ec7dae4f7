//! Reads capture files: classic pcap as tcpdump does, pcapng as Wireshark does, compressed or not. Frames
//! come one by one, and one at a time is in memory.
//!
//! A packet of another link layer becomes an Ethernet frame where that is possible: IP packets alone (`RAW`),
//! those of loopback interfaces (`NULL`, `LOOP`), and cooked captures of all interfaces (`SLL`, `SLL2`).
//! Their new addresses are those of test frames.

mod blocks;
mod classic;
mod compression;
mod link;
mod record;

use blocks::Blocks;
use classic::Classic;
use record::{Fault, Input, Record};
use std::io::{self, Read};
use std::string::{String, ToString};
use std::vec::Vec;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its number in the capture, from 1.
    pub number: u64,
    /// Its time in ns since 1970; `None` if the capture has none. Times may decrease.
    pub at_ns: Option<i128>,
    /// Its captured bytes, without FCS.
    pub bytes: Vec<u8>,
    /// Its original length in bytes, without FCS.
    pub length: usize,
    /// Its Ethernet header is not in the capture.
    pub made: bool,
}

/// Why a capture cannot be used.
#[derive(Debug)]
pub enum CaptureError {
    /// It is no capture.
    NoCapture,
    /// It ends within the frame of this number, from 1.
    Ends(u64),
    /// It cannot be read at the frame of this number.
    Unreadable(u64, io::Error),
    /// The data at the frame of this number make no sense.
    Broken(u64, String),
    /// The frame of this number cannot be made an Ethernet frame.
    NotEthernet(u64, String),
}

impl core::fmt::Display for CaptureError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoCapture => {
                f.write_str("is no capture: neither pcap nor pcapng, nor one of them in gzip, zstd or lz4")
            }
            Self::Ends(number) => {
                write!(f, "ends within frame {number}: `editcap` (of Wireshark) keeps the complete frames")
            }
            Self::Unreadable(number, error) => write!(f, "cannot be read at frame {number}: {error}"),
            Self::Broken(number, why) => write!(f, "is broken at frame {number}: {why}"),
            Self::NotEthernet(number, why) => write!(f, "cannot be sent: frame {number} {why}"),
        }
    }
}

impl core::error::Error for CaptureError {}

#[derive(Debug)]
enum Format {
    Classic(Classic),
    Blocks(Blocks),
}

/// The frames of a capture, in the order of the file. An error is the last item.
pub struct Capture<'i> {
    input: Input<'i>,
    format: Format,
    /// The frames so far.
    number: u64,
    ended: bool,
}

impl<'i> Capture<'i> {
    /// Reads the beginning of a capture.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn new(input: impl Read + 'i) -> Result<Self, CaptureError> {
        let (plain, compressed) = compression::plain(input).map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => CaptureError::NoCapture,
            _ => CaptureError::Unreadable(1, error),
        })?;
        let mut input = Input::new(plain);
        let format = Self::format(&mut input).map_err(|fault| match fault {
            // Decoders hold the last bytes back until more follow.
            Fault::Ends if compressed => CaptureError::Ends(1),
            Fault::Ends => CaptureError::NoCapture,
            Fault::Unreadable(error) => CaptureError::Unreadable(1, error),
            Fault::Broken(why) => CaptureError::Broken(1, why),
        })?;
        Ok(Self { input, format: format.ok_or(CaptureError::NoCapture)?, number: 0, ended: false })
    }

    fn format(input: &mut Input<'_>) -> Result<Option<Format>, Fault> {
        Ok(match input.array()? {
            blocks::SECTION => Some(Format::Blocks(Blocks::open(input)?)),
            magic => Classic::open(magic, input)?.map(Format::Classic),
        })
    }

    fn record(&mut self) -> Result<Option<Record>, Fault> {
        match &mut self.format {
            Format::Classic(classic) => classic.next(&mut self.input),
            Format::Blocks(blocks) => blocks.next(&mut self.input),
        }
    }
}

impl Iterator for Capture<'_> {
    type Item = Result<Captured, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let number = self.number + 1;
        let frame = match self.record() {
            Ok(None) => None,
            Ok(Some(mut record)) => Some(match link::to_ethernet(&mut record) {
                Ok(made) => Ok(Captured {
                    number,
                    at_ns: record.at_ns,
                    length: record.bytes.len().max(record.length as usize),
                    bytes: record.bytes,
                    made,
                }),
                Err(why) => Err(CaptureError::NotEthernet(number, why.to_string())),
            }),
            Err(Fault::Ends) => Some(Err(CaptureError::Ends(number))),
            Err(Fault::Unreadable(error)) => Some(Err(CaptureError::Unreadable(number, error))),
            Err(Fault::Broken(why)) => Some(Err(CaptureError::Broken(number, why))),
        };
        self.number = number;
        self.ended = !matches!(frame, Some(Ok(_)));
        frame
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::pcap::Writer;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec;

    fn capture(file: &[u8]) -> Result<Vec<Captured>, CaptureError> {
        Capture::new(file)?.collect()
    }

    /// A pcapng file of one interface with this resolution, and frames at these times in its units.
    fn pcapng_of(resolution: Option<u8>, times: &[u64]) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let length = (body.len() as u32 + 12).to_le_bytes();
            [&kind.to_le_bytes()[..], &length, body, &length].concat()
        };
        let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        let mut interface = vec![1, 0, 0, 0, 0, 0, 0, 0];
        if let Some(resolution) = resolution {
            interface.extend([9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0]);
        }
        let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
        for at in times {
            let [low, high] = [*at as u32, (at >> 32) as u32];
            let words: Vec<u8> =
                [0, high, low, 60, 100].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
            file.extend(block(6, &[&words[..], &[7; 60]].concat()));
        }
        file
    }

    #[test]
    fn captures_of_both_formats_and_any_resolution() {
        for (resolution, second) in
            [(None, 1_000_000), (Some(9), 1_000_000_000), (Some(6), 1_000_000), (Some(0x94), 1 << 20)]
        {
            let begin = 1_700_000_000 * second;
            // The third has an earlier time than the second.
            let file =
                pcapng_of(resolution, &[begin, begin + second, begin + second / 2, begin + 2 * second]);
            let frames = capture(&file).unwrap();
            let times: Vec<_> = frames.iter().map(|frame| frame.at_ns.unwrap() / 500_000_000).collect();
            let begin = 2 * 1_700_000_000;
            assert_eq!(times, [begin, begin + 2, begin + 1, begin + 4], "{resolution:?}");
            assert_eq!((frames[0].bytes.len(), frames[0].length), (60, 100), "cut off");
        }
        let mut writer = Writer::new(vec![]).unwrap();
        writer.write(5, &[1; 60]).unwrap();
        writer.write(1_000_000_005, &[2; 61]).unwrap();
        let frames = capture(&writer.into_inner()).unwrap();
        assert_eq!((frames[1].at_ns, frames[1].bytes.len(), frames[1].length), (Some(1_000_000_005), 61, 61));
    }

    #[test]
    fn invalid_captures_name_the_reason() {
        let good = pcapng_of(None, &[1, 2]);
        let mut serial = good.clone();
        // The interface's link type: PPP.
        serial[28 + 8] = 9;
        let mut other = Writer::new(vec![]).unwrap();
        other.write(1, &[7; 60]).unwrap();
        let classic = other.into_inner();
        for (file, says) in [
            (&b"hello, world"[..], "neither pcap nor pcapng"),
            (&[][..], "neither pcap nor pcapng"),
            (&good[..good.len() - 7], "ends within frame 2"),
            (&classic[..classic.len() - 7], "ends within frame 1"),
            (&serial[..], "another link layer"),
        ] {
            let error = capture(file).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains('\n'), "{error}");
        }
    }

    proptest! {
        /// A damaged file is read or refused, and no frame is longer than one can be.
        #[test]
        fn damaged_files_do_no_harm(
            resolution: Option<u8>,
            times in proptest::collection::vec(any::<u64>(), 0..5),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut: prop::sample::Index,
            classic: bool,
        ) {
            let mut file = pcapng_of(resolution, &times);
            if classic {
                let mut writer = Writer::new(vec![]).unwrap();
                for at in &times {
                    writer.write(*at >> 4, &[3; 70]).unwrap();
                }
                file = writer.into_inner();
            }
            for (at, byte) in changes {
                let at = at.index(file.len());
                file[at] = byte;
            }
            file.truncate(cut.index(file.len()) + file.len() / 2);
            if let Ok(frames) = capture(&file) {
                prop_assert!(frames.iter().all(|frame| frame.bytes.len() <= frame.length.min(262_200)));
            }
        }
    }
}
