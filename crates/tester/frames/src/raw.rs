//! A test frame made from a user's packet: a frame of a capture, or bytes in hexadecimal.

use crate::headers::{Headers, payload_type};
use crate::{Size, field, ipv4, tag};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// A packet with room for a balanced tag at the end of its payload, and right checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPacket {
    /// The frame without FCS; zeros where the tag comes.
    pub bytes: Vec<u8>,
    /// Where the tag begins.
    pub tag: u16,
    /// Bytes by which the payload became longer, so that it has room.
    pub extended: u16,
}

/// Why a frame cannot carry a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoom(&'static str);

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for NoRoom {}

impl RawPacket {
    /// The packet of a frame without FCS. The last 20 bytes of the payload become the tag's; a shorter one is
    /// extended. Lengths and checksums are corrected.
    ///
    /// # Errors
    /// It is no frame, a fragment, or too long.
    pub fn of(frame: &[u8]) -> Result<Self, NoRoom> {
        let mut bytes = frame.to_vec();
        let (_, payload) = payload_type(&bytes).ok_or(NoRoom("is no Ethernet frame"))?;
        let headers = Headers::of(&bytes);
        let least = usize::from(Size::MIN.bytes_without_fcs());
        if headers.is_none() {
            // Nothing says where the payload ends: padding is part of it.
            bytes.resize(bytes.len().max(least), 0);
        }
        if headers.is_some_and(|headers| !headers.whole) {
            return Err(NoRoom("is a fragment, whose checksum is in another frame"));
        }
        let (payload, end) = headers.map_or((payload, bytes.len()), |it| (it.payload(&bytes), it.end));
        let extended = (payload + tag::BALANCED_BYTES).saturating_sub(end);
        let end = end + extended;
        // Padding behind the packet is zeros, and as much as the smallest frame needs.
        bytes.truncate(end - extended);
        bytes.resize(end.max(least), 0);
        if bytes.len() > usize::from(Size::MAX.bytes_without_fcs()) {
            return Err(NoRoom("is longer than 9018 bytes with FCS"));
        }
        let tag = end - tag::BALANCED_BYTES;
        bytes[tag..end].fill(0);
        if let Some(headers) = headers {
            let more = extended as u16;
            let lengths = [
                Some(headers.ip + if headers.is_ipv6 { 4 } else { 2 }),
                (headers.protocol == ipv4::PROTOCOL_UDP).then_some(headers.transport + 4),
            ];
            for at in lengths.into_iter().flatten() {
                let length = field::u16(&bytes, at).saturating_add(more);
                field::put_u16(&mut bytes, at, length);
            }
            if let Some(headers) = Headers::of(&bytes) {
                headers.put_checksums(&mut bytes);
            }
        }
        Ok(Self { bytes, tag: tag as u16, extended: extended as u16 })
    }
}

/// The bytes of a text in hexadecimal: digits with or without spaces, as `bytes(p).hex()` prints them, or
/// lines with an offset before and characters behind, as Scapy's `hexdump(p)` or `xxd` print them. `None` if
/// it is neither.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_dump = lines.iter().all(|line| {
        let first = line.split([' ', ':']).next().unwrap_or_default();
        first.len() >= 4 && first.len() <= 8 && usize::from_str_radix(first, 16).is_ok_and(|at| at % 16 == 0)
    });
    let digits: String = if is_dump && lines.len() == lines.iter().filter(|it| it.contains("  ")).count() {
        let columns = |line: &&str| -> String {
            let (_, rest) = line.split_at(line.find([' ', ':']).unwrap_or(0));
            let rest = rest.trim_start_matches(':').trim_start();
            // Two spaces are before the characters.
            rest.split("  ").next().unwrap_or_default().to_string()
        };
        lines.iter().map(columns).collect()
    } else {
        text.to_string()
    };
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let whole = pairs.remainder().is_empty() && !digits.is_empty();
    whole.then(|| pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::build::{self, Flow};
    use crate::checksum::checksum;
    use crate::{Tag, tcp};
    use proptest::prelude::*;

    #[test]
    fn scapys_outputs_are_read() {
        let bytes: Vec<u8> = (0..40).collect();
        let hex: String = bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect();
        assert_eq!(from_hex(&hex), Some(bytes.clone()));
        let dump = "0000  00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F  ................\n\
                    0010  10 11 12 13 14 15 16 17 18 19 1A 1B 1C 1D 1E 1F  ................\n\
                    0020  20 21 22 23 24 25 26 27                           !\"#$%&'\n";
        assert_eq!(from_hex(dump), Some(bytes.clone()));
        let xxd = "00000000: 0001 0203 0405 0607 0809 0a0b 0c0d 0e0f  ................\n\
                   00000010: 1011 1213 1415 1617 1819 1a1b 1c1d 1e1f  ................\n\
                   00000020: 2021 2223 2425 2627                       !\"#$%&'\n";
        assert_eq!(from_hex(xxd), Some(bytes));
        assert!(["", "0", "xyz", "00 0"].iter().all(|bad| from_hex(bad).is_none()));
    }

    /// The sums of a TCP packet are right whatever the tag.
    #[test]
    fn a_segment_without_payload_gets_room_and_stays_right() {
        let fields = tcp::Fields { sequence: 1, acknowledgement: 2, flags: tcp::SYN, window: 3 };
        let mut frame = build::tcp(&Flow::default(), fields, &[]).unwrap();
        frame[50] ^= 0xff;
        let mut raw = RawPacket::of(&frame).unwrap();
        assert_eq!((raw.bytes.len(), raw.tag, raw.extended), (74, 54, 20));
        for sequence in [0, 1, 1 << 35] {
            let tag = Tag { stream: 3, sequence, sent_ps: sequence * 77 };
            tag::TagFormat::balanced(raw.tag).write(&mut raw.bytes, tag).unwrap();
            assert_eq!(tag::TagFormat::balanced(raw.tag).read(&raw.bytes), Some((tag, raw.tag.into())));
            let headers = Headers::of(&raw.bytes).unwrap();
            assert_eq!(checksum(&raw.bytes[14..34]), 0);
            assert_eq!(headers.pseudo_header(&raw.bytes).with(&raw.bytes[34..74]).checksum(), 0);
        }
        raw.bytes[70] ^= 4;
        assert_eq!(tag::TagFormat::balanced(raw.tag).read(&raw.bytes), None);
    }

    proptest! {
        #[test]
        fn no_frame_is_too_strange(mut bytes: Vec<u8>, kind in 0..4_usize) {
            let kinds = [0x0800_u16, 0x86dd, 0x8100, 0x8847];
            if let Some(place) = bytes.get_mut(12..14) {
                place.copy_from_slice(&kinds[kind].to_be_bytes());
            }
            if let Ok(mut raw) = RawPacket::of(&bytes) {
                prop_assert!(raw.bytes.len() >= 60);
                let tag = Tag { stream: 3, sequence: 9, sent_ps: 77 };
                tag::TagFormat::balanced(raw.tag).write(&mut raw.bytes, tag).unwrap();
                prop_assert_eq!(tag::TagFormat::balanced(raw.tag).read(&raw.bytes), Some((tag, raw.tag.into())));
                // Another packet's tag has the same room.
                let again = RawPacket::of(&raw.bytes).unwrap();
                prop_assert_eq!((again.tag, again.extended), (raw.tag, 0));
            }
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9a-fA-F :.\n]{0,90}") {
            let _ = from_hex(&text);
        }
    }
}
