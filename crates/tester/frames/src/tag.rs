//! The test tag: 18 bytes at the start of the UDP payload, with the trial, the stream, the sequence number
//! and the time of sending. From tags a receiver finds loss, duplicates, reordering, corruption and latency.
//! A minimum frame has exactly this room: 14 + 20 + 8 + 18 = 60 bytes without FCS.
//!
//! ```text
//!  0       20       36         72        120     144 bits
//!  | trial | stream | sequence | sent_ps | check |    big-endian
//! ```
//!
//! The trial is a random number, 0 outside of trials. It distinguishes the frames of two testers on one
//! network. It also distinguishes the frames of a tester's previous trial, which may still arrive. The
//! highest bit of the stream is the direction ([`BACK`]).
//!
//! The sequence number has 36 bits, which wrap after 77 minutes at 14.88 million frames a second, and the
//! time has the lower 48 bits of its picoseconds, which wrap after 281 s. A receiver finds the upper bits
//! itself. Of the possible sequence numbers it takes the one nearest to earlier frames
//! ([`Tag::sequence_near`]). The time is unambiguous, because no frame is under way until the time wraps
//! ([`Tag::sent_ps_near`]).
//!
//! The tag follows Ethernet, an IP header without options, and UDP: at byte 42 of an IPv4 frame, at byte 62
//! of an IPv6 frame, 4 bytes later with a VLAN tag. Reading and writing check only the types in these
//! headers, so a routed or translated frame keeps its tag.
//!
//! The check word is a multiply-and-fold mix of the other fields, neither cryptography nor a CRC. A receiver
//! can check it without knowing the trial, so a tag of another trial is not mistaken for a damaged tag
//! ([`TagFormat::read_any`]). Random or damaged bytes pass with probability 2⁻²⁴. The check covers only the
//! tag; the FCS covers the frame. Zeros are no tag.
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

/// The bit of a stream whose frames go from the second port to the first.
pub const BACK: u16 = 1 << 15;

/// The contents of a test tag without the trial, which all frames of a [`TagFormat`] share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The stream; each stream has its own sequence. Streams of the direction back have the bit [`BACK`].
    pub stream: u16,
    /// The frame's number in its stream, from 0. A tag contains the lower 36 bits;
    /// [`sequence_near`](Self::sequence_near) restores the full number.
    pub sequence: u64,
    /// When the frame was sent, in ps since the tester's epoch (the start of its clock). A tag contains the
    /// lower 48 bits; [`sent_ps_near`](Self::sent_ps_near) restores the full time.
    pub sent_ps: u64,
}

/// The bits of a trial's number, of a sequence number and of a time that a tag has.
const TRIAL_BITS: u32 = 20;
const SEQUENCE_BITS: u32 = 36;
const TIME_BITS: u32 = 48;
const SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// Of the numbers with these lowest bits, the one nearest to `to`.
#[inline]
const fn near(value: u64, bits: u32, to: u64) -> u64 {
    let unused = u64::BITS - bits;
    // The sign of the difference is in its highest bit.
    let ahead = (value.wrapping_sub(to) << unused) as i64 >> unused;
    match to.checked_add_signed(ahead) {
        Some(near) => near,
        None => value,
    }
}

impl Tag {
    /// The time at which the frame was sent, in ps: of the possible times, the one nearest to `now_ps`. It is
    /// correct if the frame was sent less than 140 s before or after `now_ps`.
    #[inline]
    pub const fn sent_ps_near(self, now_ps: u64) -> u64 {
        near(self.sent_ps, TIME_BITS, now_ps)
    }

    /// Whether this can be the frame with this number in its stream.
    #[inline]
    pub const fn can_be(self, number: u64) -> bool {
        (self.sequence ^ number) & SEQUENCE == 0
    }

    /// The frame's number in its stream: of the possible numbers, the one nearest to `known`. It is correct
    /// if fewer than 2³⁵ frames are between the two.
    #[inline]
    pub const fn sequence_near(self, known: u64) -> u64 {
        near(self.sequence, SEQUENCE_BITS, known)
    }

    /// Two words. The first has the first eight bytes of the tag: trial, stream, and the sequence number
    /// without its lowest byte. The second has the next seven bytes (the rest of the sequence number, and the
    /// time) and an empty byte.
    #[inline]
    const fn words(self, trial: u32) -> (u64, u64) {
        let sequence = self.sequence & SEQUENCE;
        let stream = (trial as u64) << (64 - TRIAL_BITS) | (self.stream as u64) << 28;
        (stream | sequence >> 8, sequence << 56 | (self.sent_ps & TIME) << 8)
    }

    /// The upper bits, which are better mixed, of the 64-bit finaliser of MurmurHash3 (public domain, A.
    /// Appleby) over both words.
    #[inline]
    const fn check((first, second): (u64, u64)) -> u32 {
        let mut mix = first.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ second ^ 0x6b70_7073_5f74_6167;
        mix = (mix ^ mix >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mix = (mix ^ mix >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (mix >> 40) as u32
    }

    /// Writes whole words: a CPU waits when it reads a word that was written in pieces.
    #[inline]
    fn put(self, trial: u32, bytes: &mut [u8; BYTES]) {
        let (first, second) = self.words(trial);
        let check = Self::check((first, second));
        // Arrays are stored in an instruction each. Copies of slices are calls, which took half of the
        // instructions of a sent frame.
        let Some((word, rest)) = bytes.split_first_chunk_mut() else { return };
        *word = first.to_be_bytes();
        let Some((word, rest)) = rest.split_first_chunk_mut() else { return };
        *word = (second | u64::from(check >> 16)).to_be_bytes();
        let Some(last) = rest.first_chunk_mut() else { return };
        *last = (check as u16).to_be_bytes();
    }

    /// A tag and its trial.
    #[inline]
    fn from_bytes(bytes: &[u8; BYTES]) -> Option<(u32, Self)> {
        // Whole words, as in `put`: a load each.
        let (first, rest) = bytes.split_first_chunk()?;
        let (second, last) = rest.split_first_chunk()?;
        let (first, second) = (u64::from_be_bytes(*first), u64::from_be_bytes(*second));
        let check = (second as u32 & 0xff) << 16 | u32::from(u16::from_be_bytes(*last.first_chunk()?));
        let second = second & !0xff;
        let tag = Self {
            stream: (first >> 28) as u16,
            sequence: first << 8 & SEQUENCE | second >> 56,
            sent_ps: second >> 8 & TIME,
        };
        (Self::check((first, second)) == check).then_some(((first >> (64 - TRIAL_BITS)) as u32, tag))
    }
}

/// A random trial's number, from any random bits.
pub const fn trial(random: u64) -> u32 {
    // 0 is no trial.
    (random % ((1 << TRIAL_BITS) - 1)) as u32 + 1
}

/// How many bytes differ from a tag of this trial and stream, of the bytes that have these numbers; `None` if
/// these bytes do not begin with such a tag, damaged or cut off. At most one of them may differ, and at least
/// three of them must be present.
pub fn damage(bytes: &[u8], trial: u32, stream: u16) -> Option<usize> {
    // Whole bytes: the sequence number of the first frames ends with zeros in the last one.
    let (first, _) = Tag { stream, sequence: 0, sent_ps: 0 }.words(trial);
    let told = (TRIAL_BITS + 16) / 8;
    let told = first.to_be_bytes().into_iter().take(told as usize);
    let pairs = bytes.iter().zip(told);
    let differ = pairs.filter(|(byte, told)| *byte != told).count();
    (bytes.len() >= 3 && differ <= 1).then_some(differ)
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
    TagFormat::default().write_at(frame, at, tag)
}

/// Updates the UDP checksum of an IPv6 frame whose tag at `at` was `old` (RFC 1624, equation 3).
#[inline(never)]
fn update_checksum(frame: &mut [u8], at: usize, old: &[u8; BYTES]) {
    let sum = !field::u16(frame, at - CHECKSUM_BEFORE);
    let sum = Sum::new().with(&sum.to_be_bytes()).with(&old.map(|byte| !byte)).with(&frame[at..at + BYTES]);
    udp::put_checksum(&mut frame[at - udp::HEADER_BYTES..], sum.checksum());
}

/// Bytes of a balanced tag: the tag, and a word that makes the sum of all words the same as for zeros. So a
/// checksum over these bytes does not depend on the contents of the tag, in any protocol.
pub const BALANCED_BYTES: usize = BYTES + 2;

/// The format of the tags of a load: plain or balanced, where a frame has its tag, and its trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagFormat {
    /// The position of balanced tags. Plain tags are behind the headers of a plain test frame, which
    /// determine the position ([`offset`]).
    balanced_at: Option<u16>,
    trial: u32,
}

impl TagFormat {
    /// Balanced tags at this byte.
    #[inline]
    pub const fn balanced(at: u16) -> Self {
        Self { balanced_at: Some(at), trial: 0 }
    }

    /// The same format, for tags of this trial: its number has 20 bits.
    #[must_use]
    #[inline]
    pub const fn of_trial(self, trial: u32) -> Self {
        Self { trial: trial % (1 << TRIAL_BITS), ..self }
    }

    /// The position of balanced tags; `None` for plain tags.
    #[inline]
    pub const fn balanced_at(self) -> Option<u16> {
        self.balanced_at
    }

    /// The trial of the tags.
    #[inline]
    pub const fn trial(self) -> u32 {
        self.trial
    }

    /// The position of the tag in this frame. `frame` needs to hold only the headers.
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
                tag.put(self.trial, first);
            }
            balance.copy_from_slice(&Sum::new().with(first).checksum().to_be_bytes());
            return Ok(());
        }
        let place: &mut [u8; BYTES] = rest.first_chunk_mut().ok_or(Error::Truncated)?;
        if at < OFFSET_IPV6 {
            tag.put(self.trial, place);
        } else {
            let old = *place;
            tag.put(self.trial, place);
            update_checksum(frame, at, &old);
        }
        Ok(())
    }

    /// Reads the tag of a received frame and its position; `None` without a valid tag of this trial.
    #[inline]
    pub fn read(self, frame: &[u8]) -> Option<(Tag, usize)> {
        let (trial, tag, at) = self.read_any(frame)?;
        (trial == self.trial).then_some((tag, at))
    }

    /// Reads the tag of a received frame of any trial. Returns the trial's number, the tag and its position;
    /// `None` without a valid tag.
    #[inline]
    pub fn read_any(self, frame: &[u8]) -> Option<(u32, Tag, usize)> {
        let at = self.offset(frame);
        let rest = frame.get(at..)?;
        let (trial, tag) = Tag::from_bytes(rest.first_chunk()?)?;
        if self.balanced_at.is_some() {
            let place: &[u8; BALANCED_BYTES] = rest.first_chunk()?;
            return (Sum::new().with(place).checksum() == 0).then_some((trial, tag, at));
        }
        Some((trial, tag, at))
    }

    /// Bytes of the tag.
    #[inline]
    pub const fn bytes(self) -> usize {
        if self.balanced_at.is_some() { BALANCED_BYTES } else { BYTES }
    }
}

/// Reads a trial and its tag from the bytes of the tag, if it is valid.
#[inline]
pub fn from_bytes(bytes: &[u8; BYTES]) -> Option<(u32, Tag)> {
    Tag::from_bytes(bytes)
}

/// Reads the tag of a received plain frame, and its trial; `None` without a valid tag.
#[inline]
pub fn read_any(frame: &[u8]) -> Option<(u32, Tag)> {
    let (trial, tag, _) = TagFormat::default().read_any(frame)?;
    Some((trial, tag))
}

/// Reads the tag of a received frame outside of trials; `None` without a valid tag.
#[inline]
pub fn read(frame: &[u8]) -> Option<Tag> {
    Some(TagFormat::default().read(frame)?.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Size;
    use crate::build::{Flow, udp_test};
    use proptest::prelude::*;

    fn tags() -> impl Strategy<Value = Tag> {
        (any::<u16>(), 0..=SEQUENCE, 0..=TIME).prop_map(|(stream, sequence, sent_ps)| Tag {
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
        let tag = Tag { stream: 0x3040, sequence: 0x5_0607_0809, sent_ps: 0x0a0b_0c0d_0e0f };
        TagFormat::default().of_trial(0x01020).write(&mut frame, tag).unwrap();
        assert_eq!(frame[42..57], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(frame[57..], [0x55, 0x1b, 0x82], "the format must not change by accident");
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
        fn a_tag_of_another_trial_is_one_but_not_ours(tag in tags(), random: [u64; 2], balanced: bool) {
            let format = if balanced { TagFormat::balanced(OFFSET as u16) } else { TagFormat::default() };
            let trials = random.map(trial);
            let [format, other] = trials.map(|trial| format.of_trial(trial));
            let mut frame = udp_test(&Flow::default(), Size::with_fcs(70)).unwrap();
            format.write(&mut frame, tag).unwrap();
            prop_assert_eq!(format.read(&frame), Some((tag, OFFSET)));
            prop_assert!(damage(&frame[OFFSET..], trials[0], tag.stream).is_some());
            prop_assume!(trials[0] != trials[1]);
            prop_assert_eq!(other.read(&frame), None);
            prop_assert_eq!(other.read_any(&frame), Some((trials[0], tag, OFFSET)));
        }

        /// One byte of the tag may be damaged, or its end may be missing.
        #[test]
        fn a_damaged_tag_resembles_what_it_was(
            tag in tags(), random: u64, at in 0usize..BYTES, byte: u8, left in 3usize..BYTES,
        ) {
            let trial = trial(random);
            let mut bytes = [0; BYTES];
            tag.put(trial, &mut bytes);
            bytes[at] = byte;
            prop_assert!(damage(&bytes[..left], trial, tag.stream).is_some());
            prop_assert_eq!(damage(&[0; BYTES], 0x12345, tag.stream), None);
            prop_assert_eq!(damage(&bytes[..2], trial, tag.stream), None);
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
    fn sequence_numbers_go_on_beyond_36_bits_and_times_beyond_48() {
        let mut frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        let sent_ps = (7 << TIME_BITS) - 5;
        for (sequence, sent_ps) in
            [(u64::from(u32::MAX), sent_ps), (1 << 36, sent_ps + 5), ((9 << 36) - 1, sent_ps + 10)]
        {
            write(&mut frame, Tag { stream: 1, sequence, sent_ps }).unwrap();
            let tag = read(&frame).unwrap();
            for away in [0, 1, 100, (1 << 35) - 1] {
                assert_eq!(tag.sequence_near(sequence + away), sequence);
                assert_eq!(tag.sequence_near(sequence.saturating_sub(away)), sequence);
            }
            // 139 s before and after, on both sides of the wrap.
            for away in [0, 1, 100, 139 * 1_000_000_000_000] {
                assert_eq!(tag.sent_ps_near(sent_ps + away), sent_ps);
                assert_eq!(tag.sent_ps_near(sent_ps - away), sent_ps);
            }
        }
        // Before the epoch of the receiver: a clock that is behind.
        write(&mut frame, Tag { stream: 1, sequence: 0, sent_ps: 10 }).unwrap();
        assert_eq!(read(&frame).unwrap().sent_ps_near(3), 10);
        // A number far ahead of the first frame, without an earlier frame.
        write(&mut frame, Tag { stream: 1, sequence: SEQUENCE, sent_ps: 0 }).unwrap();
        assert_eq!(read(&frame).unwrap().sequence_near(0), SEQUENCE);
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
