//! The test tag: 18 bytes at the start of the UDP payload with the stream, the sequence number and the time
//! of sending. From tags a receiver finds loss, duplicates, reordering, corruption and latency. A minimum
//! frame has exactly this room: 14 + 20 + 8 + 18 = 60 bytes without FCS.
//!
//! ```text
//!  0        2                    8                    14            18
//!  | stream |      sequence      |      sent_ps       |    check    |    big-endian
//! ```
//!
//! The sequence number has 48 bits: at 14.88 million frames a second it wraps after 218 days. The time has
//! the lower 48 bits of its picoseconds, which wrap after 281 s. A receiver knows the rest, because no frame
//! is on its way for that long ([`Tag::sent_ps_near`]).
//!
//! The tag follows Ethernet, an IP header without options, and UDP: at byte 42 of an IPv4 frame, at byte 62
//! of an IPv6 frame, 4 bytes later with a VLAN tag. Reading and writing check only the types in these
//! headers, so a routed or translated frame keeps its tag.
//!
//! The check word is a multiply-and-fold mix of the other fields and a key, neither cryptography nor a CRC.
//! Random or damaged bytes pass with probability 2⁻³², and so do the tags of other keys. Each trial of a
//! tester has a key of its own ([`Place::keyed`]), so that no other traffic looks like its frames; elsewhere
//! the key is 0. The check covers only the tag; the FCS covers the frame. Zeros are no tag.
//!
//! Tags change from frame to frame, so test frames have no UDP checksum over IPv4 (0, RFC 768). Over IPv6,
//! where it is mandatory (RFC 8200, 8.1), writing a tag updates it.

use crate::checksum::Sum;
use crate::ethernet::{HEADER_BYTES, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN, VLAN_BYTES};
use crate::{Error, field, ipv4, ipv6, udp};

/// Bytes of a tag.
pub const BYTES: usize = 18;
/// Where the tag starts in a frame without VLAN tag.
pub const OFFSET: usize = HEADER_BYTES + ipv4::HEADER_BYTES + udp::HEADER_BYTES;
/// Where the tag starts behind a VLAN tag.
pub const OFFSET_VLAN: usize = OFFSET + VLAN_BYTES;
/// Where the tag starts in an IPv6 frame without VLAN tag.
pub const OFFSET_IPV6: usize = HEADER_BYTES + ipv6::HEADER_BYTES + udp::HEADER_BYTES;
/// The distance of the UDP checksum before the tag, in bytes.
const CHECKSUM_BEFORE: usize = 2;

/// The contents of a test tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The stream; each has its own sequence.
    pub stream: u16,
    /// The frame's place in its stream, from 0. The lower 48 bits are written.
    pub sequence: u64,
    /// When the frame was sent, in ps since the tester's epoch (the start of its clock). The lower 48 bits
    /// are written: of a tag that was read, [`sent_ps_near`](Self::sent_ps_near) tells the whole time.
    pub sent_ps: u64,
}

/// The bits of a sequence number and of a time that a tag has.
const BITS: u32 = 48;
const MASK: u64 = (1 << BITS) - 1;

impl Tag {
    /// When the frame was sent, in ps: the time nearest to `now_ps` of those that the tag may mean. It is
    /// right if the frame was sent less than 140 s before or after `now_ps`.
    #[inline]
    pub const fn sent_ps_near(self, now_ps: u64) -> u64 {
        let ahead = self.sent_ps.wrapping_sub(now_ps) << (u64::BITS - BITS);
        // The sign of the difference is in bit 47.
        now_ps.wrapping_add_signed(ahead as i64 >> (u64::BITS - BITS))
    }

    /// Stream and sequence number: the first eight bytes.
    #[inline]
    const fn place(self) -> u64 {
        (self.stream as u64) << BITS | self.sequence & MASK
    }

    /// The upper half, which is better mixed, of the 64-bit finaliser of MurmurHash3 (public domain, A.
    /// Appleby) over both words.
    #[inline]
    const fn check(self, key: u64) -> u32 {
        let mut mix = (self.place() ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (self.sent_ps & MASK)
            ^ 0x6b70_7073_5f74_6167;
        mix = (mix ^ mix >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mix = (mix ^ mix >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (mix >> 32) as u32
    }

    /// Writes whole words: a CPU waits when it reads a word that was written in pieces.
    #[inline]
    fn put(self, key: u64, bytes: &mut [u8; BYTES]) {
        let check = self.check(key);
        let time = self.sent_ps << (u64::BITS - BITS) | u64::from(check >> 16);
        // Arrays are stored in an instruction each. Copies of slices are calls, which took half of the
        // instructions of a sent frame.
        let Some((place, rest)) = bytes.split_first_chunk_mut() else { return };
        *place = self.place().to_be_bytes();
        let Some((word, rest)) = rest.split_first_chunk_mut() else { return };
        *word = time.to_be_bytes();
        let Some(last) = rest.first_chunk_mut() else { return };
        *last = (check as u16).to_be_bytes();
    }

    #[inline]
    fn from_bytes(key: u64, b: &[u8; BYTES]) -> Option<Self> {
        let place = u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
        let time = u64::from_be_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]);
        let check = (time as u32) << 16 | u32::from(u16::from_be_bytes([b[16], b[17]]));
        let tag = Self {
            stream: (place >> BITS) as u16,
            sequence: place & MASK,
            sent_ps: time >> (u64::BITS - BITS),
        };
        (tag.check(key) == check).then_some(tag)
    }
}

/// The position of the tag in this frame.
#[inline]
pub fn offset(frame: &[u8]) -> usize {
    // A shorter frame has no room for a tag.
    let Some(head) = frame.first_chunk::<{ HEADER_BYTES + VLAN_BYTES }>() else { return OFFSET };
    let is = |at: usize, kind: u16| [head[at], head[at + 1]] == kind.to_be_bytes();
    if is(12, TYPE_IPV4) {
        return OFFSET; // Most frames, for which one comparison is enough.
    }
    let vlan = if is(12, TYPE_VLAN) { VLAN_BYTES } else { 0 };
    vlan + if is(12 + vlan, TYPE_IPV6) { OFFSET_IPV6 } else { OFFSET }
}

/// Writes a tag into a test frame made by [`build`](crate::build).
///
/// # Errors
/// [`Error::Truncated`] if the frame has no room; nothing is written.
#[inline]
pub fn write(frame: &mut [u8], tag: Tag) -> Result<(), Error> {
    write_at(frame, offset(frame), tag)
}

/// Writes a tag at byte `at`, from [`offset`] of a frame of the same kind.
///
/// # Errors
/// As [`write()`].
#[inline]
pub fn write_at(frame: &mut [u8], at: usize, tag: Tag) -> Result<(), Error> {
    Place::default().write_at(frame, at, tag)
}

/// Updates the UDP checksum of an IPv6 frame whose tag at `at` was `old` (RFC 1624, equation 3).
#[inline(never)]
fn update_checksum(frame: &mut [u8], at: usize, old: &[u8; BYTES]) {
    let sum = !field::u16(frame, at - CHECKSUM_BEFORE);
    let sum = Sum::new().with(&sum.to_be_bytes()).with(&old.map(|byte| !byte)).with(&frame[at..at + BYTES]);
    udp::put_checksum(&mut frame[at - udp::HEADER_BYTES..], sum.checksum());
}

/// Bytes of a balanced tag: the tag, and a word with which the sum of all its words is that of zeros. So a
/// checksum over it is the same whatever the tag says, and whatever the protocol.
pub const BALANCED_BYTES: usize = BYTES + 2;

/// Where the frames of a load have their tags, and the key of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Where balanced tags are. Plain ones are behind the headers of a plain test frame, which tell where
    /// that is ([`offset`]).
    balanced_at: Option<u16>,
    key: u64,
}

impl Place {
    /// Balanced tags at this byte.
    #[inline]
    pub const fn balanced(at: u16) -> Self {
        Self { balanced_at: Some(at), key: 0 }
    }

    /// The same place, for tags with this key. Tags with another key are not recognised.
    #[must_use]
    #[inline]
    pub const fn keyed(self, key: u64) -> Self {
        Self { key, ..self }
    }

    /// Where balanced tags are; `None` of plain ones.
    #[inline]
    pub const fn balanced_at(self) -> Option<u16> {
        self.balanced_at
    }

    /// The key of the tags.
    #[inline]
    pub const fn key(self) -> u64 {
        self.key
    }

    /// The position of the tag in this frame, of which the headers are enough.
    #[inline]
    pub fn offset(self, frame: &[u8]) -> usize {
        self.balanced_at.map_or_else(|| offset(frame), usize::from)
    }

    /// Writes a tag into a frame.
    ///
    /// # Errors
    /// As [`write()`].
    #[inline]
    pub fn write(self, frame: &mut [u8], tag: Tag) -> Result<(), Error> {
        self.write_at(frame, self.offset(frame), tag)
    }

    /// Writes a tag at byte `at`, from [`offset`](Self::offset) of a frame of the same kind.
    ///
    /// # Errors
    /// As [`write()`].
    #[inline]
    pub fn write_at(self, frame: &mut [u8], at: usize, tag: Tag) -> Result<(), Error> {
        let rest = frame.get_mut(at..).ok_or(Error::Truncated)?;
        if self.balanced_at.is_some() {
            let place: &mut [u8; BALANCED_BYTES] = rest.first_chunk_mut().ok_or(Error::Truncated)?;
            let (first, balance) = place.split_at_mut(BYTES);
            if let Some(first) = first.first_chunk_mut() {
                tag.put(self.key, first);
            }
            balance.copy_from_slice(&Sum::new().with(first).checksum().to_be_bytes());
            return Ok(());
        }
        let place: &mut [u8; BYTES] = rest.first_chunk_mut().ok_or(Error::Truncated)?;
        if at < OFFSET_IPV6 {
            tag.put(self.key, place);
        } else {
            let old = *place;
            tag.put(self.key, place);
            update_checksum(frame, at, &old);
        }
        Ok(())
    }

    /// Reads the tag of a received frame, and where it begins; `None` without a valid one.
    #[inline]
    pub fn read(self, frame: &[u8]) -> Option<(Tag, usize)> {
        let at = self.offset(frame);
        let rest = frame.get(at..)?;
        let tag = Tag::from_bytes(self.key, rest.first_chunk()?)?;
        if self.balanced_at.is_some() {
            let place: &[u8; BALANCED_BYTES] = rest.first_chunk()?;
            return (Sum::new().with(place).checksum() == 0).then_some((tag, at));
        }
        Some((tag, at))
    }

    /// Bytes of the tag.
    #[inline]
    pub const fn bytes(self) -> usize {
        if self.balanced_at.is_some() { BALANCED_BYTES } else { BYTES }
    }
}

/// Reads a tag from its bytes, if it is valid.
#[inline]
pub fn from_bytes(bytes: &[u8; BYTES]) -> Option<Tag> {
    Tag::from_bytes(0, bytes)
}

/// Reads the tag of a received frame; `None` without a valid one.
#[inline]
pub fn read(frame: &[u8]) -> Option<Tag> {
    Some(Place::default().read(frame)?.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Size;
    use crate::build::{Flow, udp_test};
    use proptest::prelude::*;

    fn tags() -> impl Strategy<Value = Tag> {
        (any::<u16>(), 0..=MASK, 0..=MASK).prop_map(|(stream, sequence, sent_ps)| Tag {
            stream,
            sequence,
            sent_ps,
        })
    }

    #[test]
    fn the_first_tag_of_all_is_one_and_zeroes_are_none() {
        let mut frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        assert_eq!(read(&frame), None);
        let tag = Tag { stream: 0, sequence: 0, sent_ps: 0 };
        write(&mut frame, tag).unwrap();
        assert_eq!(read(&frame), Some(tag));
    }

    #[test]
    fn bytes_are_where_the_format_says() {
        let mut frame = [0; 60];
        let tag = Tag { stream: 0x0102, sequence: 0x0304_0506_0708, sent_ps: 0x090a_0b0c_0d0e };
        write(&mut frame, tag).unwrap();
        assert_eq!(frame[42..56], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(frame[56..], tag.check(0).to_be_bytes());
        assert_eq!(tag.check(0), 0x6171_54b9, "the format must not change by accident");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(tag in tags(), vlan: bool, extra in 0u16..200) {
            let flow = Flow { vlan: vlan.then_some(5), ..Flow::default() };
            let mut frame = udp_test(&flow, Size::without_fcs(64 + extra)).unwrap();
            write(&mut frame, tag).unwrap();
            prop_assert_eq!(read(&frame), Some(tag));
        }

        /// After any number of writes, the checksum is right for the whole datagram.
        #[test]
        fn ipv6_frames_have_good_checksums(
            all in proptest::collection::vec(tags(), 1..4),
            vlan: bool,
            extra in 0u16..200,
        ) {
            let address = |last| core::net::Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last);
            let Flow { from_mac, to_mac, .. } = Flow::default();
            let (from, to) = ((address(1), 49152), (address(2), 9));
            let flow = Flow { from_mac, to_mac, vlan: vlan.then_some(5), from, to };
            let mut frame = udp_test(&flow, Size::without_fcs(84 + extra)).unwrap();
            let least = udp_test(&flow, flow.least_test_size()).unwrap().len();
            prop_assert_eq!(least, 80 + if vlan { 4 } else { 0 });
            for tag in all {
                write(&mut frame, tag).unwrap();
                prop_assert_eq!(read(&frame), Some(tag));
                let datagram = &frame[offset(&frame) - udp::HEADER_BYTES..];
                let bytes = datagram.len() as u16;
                let sum = ipv6::pseudo_header(address(1), address(2), 17, bytes).with(datagram);
                prop_assert_eq!(sum.checksum(), 0);
            }
        }

        #[test]
        fn a_tag_of_another_key_is_none(tag in tags(), keys: [u64; 2], balanced: bool) {
            let place = if balanced { Place::balanced(OFFSET as u16) } else { Place::default() };
            let [place, other] = keys.map(|key| place.keyed(key));
            let mut frame = udp_test(&Flow::default(), Size::with_fcs(70)).unwrap();
            place.write(&mut frame, tag).unwrap();
            prop_assert_eq!(place.read(&frame), Some((tag, OFFSET)));
            prop_assume!(keys[0] != keys[1]);
            prop_assert_eq!(other.read(&frame), None);
        }

        #[test]
        fn a_flipped_bit_is_noticed(tag in tags(), bit in 0usize..BYTES * 8) {
            let mut frame = udp_test(&Flow::default(), Size::MIN).unwrap();
            write(&mut frame, tag).unwrap();
            frame[OFFSET + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(read(&frame), None);
        }

        #[test]
        fn short_and_random_frames_do_no_harm(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..70),
            tag in tags(),
        ) {
            let _ = read(&bytes);
            let before = bytes.clone();
            if write(&mut bytes, tag).is_err() {
                prop_assert_eq!(bytes, before);
            } else {
                prop_assert_eq!(read(&bytes), Some(tag));
            }
        }
    }

    #[test]
    fn sequence_numbers_go_on_beyond_32_bits_and_times_beyond_48() {
        let mut frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        let sent_ps = (7 << BITS) - 5;
        for (sequence, sent_ps) in
            [(u64::from(u32::MAX), sent_ps), (1 << 32, sent_ps + 5), (MASK, sent_ps + 10)]
        {
            write(&mut frame, Tag { stream: 1, sequence, sent_ps }).unwrap();
            let tag = read(&frame).unwrap();
            assert_eq!(tag.sequence, sequence);
            // 139 s before and after, on both sides of the wrap.
            for away in [0, 1, 100, 139 * 1_000_000_000_000] {
                assert_eq!(tag.sent_ps_near(sent_ps + away), sent_ps);
                assert_eq!(tag.sent_ps_near(sent_ps - away), sent_ps);
            }
        }
        // Before the epoch of the receiver: a clock that is behind.
        write(&mut frame, Tag { stream: 1, sequence: 0, sent_ps: 10 }).unwrap();
        assert_eq!(read(&frame).unwrap().sent_ps_near(3), 10);
    }

    #[test]
    fn cut_frames_have_no_tag() {
        let mut frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        write(&mut frame, Tag { stream: 1, sequence: 2, sent_ps: 3 }).unwrap();
        for len in 0..60 {
            assert_eq!(read(&frame[..len]), None);
        }
    }
}
