//! Capture files with a comment on each frame (pcapng), with the `pcap-file` crate.

use alloc::borrow::Cow;
use core::time::Duration;
pub use pcap_file::PcapError;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness};
use std::io::Write;
use std::vec;

/// Timestamps are in units of 10⁻⁹ s (`if_tsresol`).
const NANOSECONDS: u8 = 9;

/// The direction of a frame at its interface: `epb_flags`, bits 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It was received.
    In = 1,
    /// It was sent.
    Out = 2,
}

/// Writes a capture of frames from some interfaces.
pub struct Writer<W: Write>(PcapNgWriter<W>);

impl<W: Write> Writer<W> {
    /// Starts a capture: writes its header, and the interfaces by name.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(out: W, interfaces: &[&str]) -> Result<Self, PcapError> {
        let mut writer = PcapNgWriter::with_endianness(out, Endianness::Little)?;
        for name in interfaces {
            let name = InterfaceDescriptionOption::IfName(Cow::Borrowed(name));
            let block = InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options: vec![name, InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
            };
            writer.write_block(&block.into_block())?;
        }
        Ok(Self(writer))
    }

    /// Adds a frame (without FCS) of the `interface`-th interface with its time since 1970 and a comment.
    ///
    /// # Errors
    /// Errors of the output, or an unknown interface.
    pub fn write(&mut self, interface: u32, at: Duration, frame: &[u8], why: &str) -> Result<(), PcapError> {
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: at,
            original_len: u32::try_from(frame.len()).unwrap_or(u32::MAX),
            data: Cow::Borrowed(frame),
            options: vec![EnhancedPacketOption::Comment(Cow::Borrowed(why))],
        };
        self.0.write_block(&block.into_block()).map(drop)
    }

    /// As [`write`](Self::write), with the direction of the frame at its interface. The frame may be cut off:
    /// it had `length` bytes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_part(
        &mut self,
        (interface, way): (u32, Way),
        at: Duration,
        (frame, length): (&[u8], u32),
        why: &str,
    ) -> Result<(), PcapError> {
        let why = EnhancedPacketOption::Comment(Cow::Borrowed(why));
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: at,
            original_len: length,
            data: Cow::Borrowed(frame),
            options: vec![why, EnhancedPacketOption::Flags(way as u32)],
        };
        self.0.write_block(&block.into_block()).map(drop)
    }

    /// Ends the capture and gives the output back.
    pub fn into_inner(self) -> W {
        self.0.into_inner()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::string::String;
    use std::vec::Vec;

    #[test]
    fn frames_are_read_back_with_their_reasons() {
        let mut writer = Writer::new(vec![], &["a", "b"]).unwrap();
        let at = Duration::new(1_700_000_000, 123_456_789);
        writer.write(1, at, &[7; 61], "arrived twice").unwrap();
        writer.write(0, at + Duration::from_nanos(1), &[8; 60], "damaged").unwrap();
        assert!(writer.write(2, at, &[9; 60], "no such interface").is_err());

        let file = writer.into_inner();
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        let (mut names, mut frames) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => {
                    names.extend(interface.options.iter().filter_map(|option| match option {
                        InterfaceDescriptionOption::IfName(name) => Some(String::from(name.as_ref())),
                        _ => None,
                    }));
                    let resolution = InterfaceDescriptionOption::IfTsResol(9);
                    assert!(interface.options.contains(&resolution), "{interface:?}");
                }
                Block::EnhancedPacket(packet) => {
                    let EnhancedPacketBlock { interface_id, timestamp, data, options, .. } = packet;
                    let [EnhancedPacketOption::Comment(why)] = &options[..] else { panic!("{options:?}") };
                    frames.push((interface_id, timestamp, data.into_owned(), String::from(why.as_ref())));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(names, ["a", "b"]);
        let next = at + Duration::from_nanos(1);
        assert_eq!(
            frames,
            [(1, at, vec![7; 61], "arrived twice".into()), (0, next, vec![8; 60], "damaged".into())]
        );
    }

    #[test]
    fn a_part_of_a_frame_has_its_length_and_its_direction() {
        let mut writer = Writer::new(vec![], &["a"]).unwrap();
        for way in [Way::In, Way::Out] {
            writer.write_part((0, way), Duration::from_secs(1), (&[7; 64], 1514), "in order").unwrap();
        }
        let file = writer.into_inner();
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        let mut flags = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                assert_eq!((packet.data.len(), packet.original_len), (64, 1514));
                let EnhancedPacketOption::Flags(flag) = packet.options[1] else { panic!("{packet:?}") };
                flags.push(flag);
            }
        }
        assert_eq!(flags, [1, 2]);
    }
}
