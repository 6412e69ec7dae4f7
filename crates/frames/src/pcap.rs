//! Capture files, with the `pcap-file` crate: writes pcap in nanoseconds; reads pcap and pcapng of any
//! resolution.

pub use pcap_file::PcapError;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, Endianness, TsResolution};
use std::format;
use std::io::{self, Read, Write};
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

/// The most bytes kept of one frame.
const SNAP_BYTES: u32 = 65_535;

/// Writes a capture. Times are ns since the start of the run, shown as if that was 1970.
pub struct Writer<W: Write>(PcapWriter<W>);

impl<W: Write> Writer<W> {
    /// Starts a capture: writes its header. The bytes are the same on every machine.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W) -> Result<Self, PcapError> {
        let header = PcapHeader {
            snaplen: SNAP_BYTES,
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        PcapWriter::with_header(out, header).map(Self)
    }

    /// Adds a frame (without FCS), captured `at_ns` after the start.
    ///
    /// # Errors
    /// Those of the output, or a frame above 65,535 bytes.
    pub fn write(&mut self, at_ns: u64, frame: &[u8]) -> Result<(), PcapError> {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.0.write_packet(&PcapPacket::new(Duration::from_nanos(at_ns), length, frame)).map(drop)
    }

    /// Ends the capture and gives the output back.
    pub fn into_inner(self) -> W {
        self.0.into_writer()
    }
}

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The time since the first frame, in ns.
    pub at_ns: u64,
    /// Its captured bytes, without FCS.
    pub bytes: Vec<u8>,
    /// Its original length in bytes.
    pub length: usize,
}

/// Why a capture cannot be used.
#[derive(Debug)]
pub enum CaptureError {
    /// It is no capture.
    NoCapture,
    /// It cannot be read beyond the frame of this number, from 1.
    Broken(usize, PcapError),
    /// It has frames of another link layer.
    NoEthernet(String),
    /// It is too large for memory.
    TooLarge,
}

impl core::fmt::Display for CaptureError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoCapture => f.write_str("is no capture: neither pcap nor pcapng"),
            Self::Broken(number, error) => match error {
                PcapError::IoError(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
                    write!(
                        f,
                        "ends within frame {number}: `editcap` (of Wireshark) keeps those that are whole"
                    )
                }
                PcapError::IoError(source) => write!(f, "cannot be read at frame {number}: {source}"),
                _ => write!(f, "is broken at frame {number}: {error}"),
            },
            Self::NoEthernet(link) => write!(f, "has frames of another link layer ({link}), not of Ethernet"),
            Self::TooLarge => write!(f, "holds more than {} MiB of frames", MOST_BYTES >> 20),
        }
    }
}

impl core::error::Error for CaptureError {}

/// The most bytes of all frames of a capture.
const MOST_BYTES: usize = 1 << 30;
/// The first bytes of a pcapng file.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The default units of time per second of a pcapng interface.
const MICROSECONDS: u128 = 1_000_000;

/// Reads a whole Ethernet capture, pcap or pcapng. Frames are in the order of the file. A frame with an
/// earlier time than the one before it, as several queues may write them, gets that one's time.
///
/// # Errors
/// [`CaptureError`].
pub fn capture(mut input: impl Read) -> Result<Vec<Captured>, CaptureError> {
    let mut magic = [0; 4];
    input.read_exact(&mut magic).map_err(|_| CaptureError::NoCapture)?;
    let input = (&magic[..]).chain(input);
    let mut frames = Vec::new();
    match magic {
        PCAPNG => pcapng(input, &mut frames)?,
        _ => classic(input, &mut frames)?,
    }
    Ok(frames)
}

/// Adds a frame; `at_ns` is absolute, and `first_ns` is the time of the first frame.
fn keep(
    frames: &mut Vec<Captured>,
    (first_ns, total): &mut (Option<u128>, usize),
    at_ns: u128,
    bytes: &[u8],
    length: u32,
) -> Result<(), CaptureError> {
    *total += bytes.len();
    if *total > MOST_BYTES {
        return Err(CaptureError::TooLarge);
    }
    let since = at_ns.saturating_sub(*first_ns.get_or_insert(at_ns));
    let at_ns = u64::try_from(since).unwrap_or(u64::MAX).max(frames.last().map_or(0, |last| last.at_ns));
    frames.push(Captured { at_ns, bytes: bytes.to_vec(), length: bytes.len().max(length as usize) });
    Ok(())
}

fn classic(input: impl Read, frames: &mut Vec<Captured>) -> Result<(), CaptureError> {
    let mut reader = PcapReader::new(input).map_err(|_| CaptureError::NoCapture)?;
    ethernet(reader.header().datalink)?;
    let mut so_far = (None, 0);
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|error| CaptureError::Broken(frames.len() + 1, error))?;
        keep(frames, &mut so_far, packet.timestamp.as_nanos(), &packet.data, packet.orig_len)?;
    }
    Ok(())
}

fn pcapng(input: impl Read, frames: &mut Vec<Captured>) -> Result<(), CaptureError> {
    let mut reader = PcapNgReader::new(input).map_err(|_| CaptureError::NoCapture)?;
    // The units per second of each interface of the section.
    let mut interfaces: Vec<u128> = Vec::new();
    let mut so_far = (None, 0);
    loop {
        let number = frames.len() + 1;
        let broken = |error| CaptureError::Broken(number, error);
        let Some(block) = reader.next_block() else { return Ok(()) };
        match block.map_err(broken)? {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(interface) => {
                ethernet(interface.linktype)?;
                interfaces.push(units_per_s(&interface));
            }
            Block::EnhancedPacket(packet) => {
                let units = *interfaces
                    .get(packet.interface_id as usize)
                    .ok_or(broken(PcapError::InvalidInterfaceId(packet.interface_id)))?;
                // The crate reads units as nanoseconds.
                let at_ns = packet.timestamp.as_nanos() * 1_000_000_000 / units;
                keep(frames, &mut so_far, at_ns, &packet.data, packet.original_len)?;
            }
            Block::SimplePacket(_) | Block::Packet(_) => {
                return Err(broken(PcapError::InvalidField(
                    "packet blocks without times, or of the obsolete kind",
                )));
            }
            _ => {}
        }
    }
}

fn ethernet(link: DataLink) -> Result<(), CaptureError> {
    match link {
        DataLink::ETHERNET => Ok(()),
        other => Err(CaptureError::NoEthernet(format!("{other:?}"))),
    }
}

/// The units of time per second of an interface.
fn units_per_s(interface: &InterfaceDescriptionBlock<'_>) -> u128 {
    let declared = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(code) => Some(u32::from(*code)),
        _ => None,
    });
    match declared {
        None => MICROSECONDS,
        // A power of two or ten, limited to what a `u128` holds.
        Some(code) if code & 0x80 != 0 => 1 << (code & 0x7f).min(96),
        Some(code) => 10_u128.pow(code.min(28)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Size;
    use crate::build::{Flow, udp_test};
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec;

    #[test]
    fn what_is_written_is_read() {
        let frames: Vec<_> = [60, 1514]
            .map(|bytes| udp_test(&Flow::default(), Size::without_fcs(bytes)).unwrap())
            .into_iter()
            .zip([672, 5_000_000_123])
            .collect();
        let mut writer = Writer::new(vec![]).unwrap();
        for (frame, at_ns) in &frames {
            writer.write(*at_ns, frame).unwrap();
        }
        let file = writer.into_inner();
        assert_eq!(file[..4], [0x4d, 0x3c, 0xb2, 0xa1], "nanoseconds, little-endian");
        let back: Vec<_> =
            capture(&file[..]).unwrap().into_iter().map(|it| (it.bytes, it.at_ns + 672)).collect();
        assert_eq!(back, frames);
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
            // The third has an earlier time than the second, and gets that one's.
            let file =
                pcapng_of(resolution, &[begin, begin + second, begin + second / 2, begin + 2 * second]);
            let frames = capture(&file[..]).unwrap();
            let times: Vec<_> = frames.iter().map(|frame| frame.at_ns).collect();
            assert_eq!(times, [0, 1_000_000_000, 1_000_000_000, 2_000_000_000], "{resolution:?}");
            assert_eq!((frames[0].bytes.len(), frames[0].length), (60, 100), "cut off");
        }
        let mut writer = Writer::new(vec![]).unwrap();
        writer.write(5, &[1; 60]).unwrap();
        writer.write(1_000_000_005, &[2; 61]).unwrap();
        let frames = capture(&writer.into_inner()[..]).unwrap();
        assert_eq!((frames[1].at_ns, frames[1].bytes.len(), frames[1].length), (1_000_000_000, 61, 61));
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
        /// A damaged file is read or refused, and times never decrease.
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
            if let Ok(frames) = capture(&file[..]) {
                prop_assert!(frames.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
            }
        }
    }
}
