//! Capture files with times in nanoseconds (pcap), written with the `pcap-file` crate.

pub use pcap_file::PcapError;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use std::io::Write;
use std::time::Duration;

/// The most bytes kept of one frame.
const SNAP_BYTES: u32 = 65_535;

/// Writes a capture. Times are ns since the start of the run, shown as if that was 1970.
pub struct Writer<W: Write>(PcapWriter<W>);

impl<W: Write> Writer<W> {
    /// Starts a capture: writes its header. The bytes are the same on every machine.
    ///
    /// # Errors
    /// Errors of `out`.
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
    /// Errors of the output, or a frame above 65,535 bytes.
    pub fn write(&mut self, at_ns: u64, frame: &[u8]) -> Result<(), PcapError> {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.0.write_packet(&PcapPacket::new(Duration::from_nanos(at_ns), length, frame)).map(drop)
    }

    /// Ends the capture and gives the output back.
    pub fn into_inner(self) -> W {
        self.0.into_writer()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Size;
    use crate::build::{Flow, udp_test};
    use pcap_file::pcap::PcapReader;
    use std::vec;
    use std::vec::Vec;

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
        // An independent reader.
        let mut reader = PcapReader::new(&file[..]).unwrap();
        let mut back = vec![];
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            back.push((packet.data.into_owned(), packet.timestamp.as_nanos() as u64));
        }
        assert_eq!(back, frames);
    }
}
