//! Capture files with a resolution of nanoseconds, through the `pcap-file` crate.

pub use pcap_file::PcapError;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use std::io::{Read, Write};
use std::time::Duration;
use std::vec::Vec;

/// The most bytes of one frame that are kept.
const SNAP_BYTES: u32 = 65_535;

/// Writes a capture. Times are ns since the start of the run, which appear as seconds since 1970.
pub struct Writer<W: Write>(PcapWriter<W>);

impl<W: Write> Writer<W> {
    /// Starts a capture: writes its header. The bytes are the same on every machine.
    ///
    /// # Errors
    /// What `out` says.
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

    /// Adds a frame (without FCS), seen `at_ns` after the start.
    ///
    /// # Errors
    /// What the output says; a frame above 65,535 bytes.
    pub fn write(&mut self, at_ns: u64, frame: &[u8]) -> Result<(), PcapError> {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.0.write_packet(&PcapPacket::new(Duration::from_nanos(at_ns), length, frame)).map(drop)
    }

    /// Ends the capture and gives the output back.
    pub fn into_inner(self) -> W {
        self.0.into_writer()
    }
}

/// Reads a capture's frames: the time in ns and the bytes that were kept.
///
/// # Errors
/// The iterator ends with the first error of the input or the format.
pub fn read<R: Read>(input: R) -> Result<impl Iterator<Item = Result<(u64, Vec<u8>), PcapError>>, PcapError> {
    let mut reader = PcapReader::new(input)?;
    let mut failed = false;
    Ok(core::iter::from_fn(move || {
        if failed {
            return None;
        }
        let packet = reader.next_packet()?;
        failed = packet.is_err();
        Some(packet.map(|p| (u64::try_from(p.timestamp.as_nanos()).unwrap_or(u64::MAX), p.data.into_owned())))
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Size;
    use crate::build::{Flow, udp_test};
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
        let back: Vec<_> = read(&file[..]).unwrap().map(Result::unwrap).collect();
        assert_eq!(back, frames.into_iter().map(|(f, t)| (t, f)).collect::<Vec<_>>());
    }

    #[test]
    fn a_broken_file_ends_with_an_error() {
        assert!(read(&[1u8, 2, 3][..]).is_err());
        let mut writer = Writer::new(vec![]).unwrap();
        writer.write(1, &[7; 60]).unwrap();
        let file = writer.into_inner();
        let cut: Vec<_> = read(&file[..file.len() - 5]).unwrap().collect();
        assert_eq!(cut.len(), 1);
        assert!(cut[0].is_err());
    }
}
