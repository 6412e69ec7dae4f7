//! Segments in their frames: TCP (RFC 9293) over IPv4 and Ethernet.

use crate::content::Content;
use crate::sequence::Sequence;
use kpps_frames::checksum::{Sum, checksum};
use kpps_frames::{Mac, Size, ethernet, ipv4, tcp};
use std::net::Ipv4Addr;

/// The longest headers that [`Sending::write`] makes, in bytes: with the option of a SYN.
pub const MOST_HEADER_BYTES: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES + tcp::HEADER_BYTES + 4;
/// The TTL of our packets.
const TTL: u8 = 64;
/// The option with the largest segment that an end takes (RFC 9293, 3.2: kind and length), the options of one
/// byte, and the flag that forbids fragments in IPv4's header.
const MAXIMUM_SEGMENT: [u8; 2] = [2, 4];
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// The MSS of an end that does not say it (RFC 9293, 3.7.1).
pub const DEFAULT_MSS: u16 = 536;

/// An address and a port.
pub type Socket = (Ipv4Addr, u16);

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// This end.
    pub own: Socket,
    /// The other end.
    pub peer: Socket,
}

/// A received segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'f> {
    /// Its ends, from the receiver's side.
    pub tuple: Tuple,
    /// The station that sent the frame: the next hop of the answers.
    pub station: Mac,
    /// Its sequence number.
    pub sequence: Sequence,
    /// Its acknowledgement number, if it has one.
    pub acknowledgement: Option<Sequence>,
    /// Its flags: [`tcp::SYN`] and so on.
    pub flags: u8,
    /// The window of its sender in bytes.
    pub window: u16,
    /// The MSS of its sender: [`DEFAULT_MSS`] without an option.
    pub mss: u16,
    /// Its data.
    pub payload: &'f [u8],
}

/// Why a frame is no segment that an end may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is of another protocol, or a fragment.
    Other,
    /// A length in a header contradicts the frame, or a checksum is wrong.
    Damaged,
}

impl<'f> Segment<'f> {
    /// The segment in this frame, whose checksums are verified.
    ///
    /// # Errors
    /// [`Refused`].
    #[inline]
    pub fn read(frame: &'f [u8]) -> Result<Self, Refused> {
        let ethernet = ethernet::Frame::new_checked(frame).map_err(|_| Refused::Other)?;
        if ethernet.ethertype() != ethernet::TYPE_IPV4 {
            return Err(Refused::Other);
        }
        let bytes = frame.get(ethernet.header_bytes()..).ok_or(Refused::Other)?;
        let packet = ipv4::Packet::new_checked(bytes).map_err(|_| Refused::Damaged)?;
        if packet.protocol() != ipv4::PROTOCOL_TCP || packet.is_fragment() {
            return Err(Refused::Other);
        }
        let whole = bytes.get(packet.header_bytes()..packet.total_bytes()).ok_or(Refused::Damaged)?;
        let segment = tcp::Segment::new_checked(whole).map_err(|_| Refused::Damaged)?;
        let (source, destination) = (packet.source(), packet.destination());
        if !packet.checksum_ok() || !segment.checksum_ok(source, destination) {
            return Err(Refused::Damaged);
        }
        let fields = segment.fields();
        let (options, payload) = (
            whole.get(tcp::HEADER_BYTES..segment.header_bytes()).unwrap_or_default(),
            whole.get(segment.header_bytes()..).unwrap_or_default(),
        );
        Ok(Self {
            tuple: Tuple { own: (destination, segment.destination()), peer: (source, segment.source()) },
            station: ethernet.source(),
            sequence: Sequence(fields.sequence),
            acknowledgement: (fields.flags & tcp::ACK != 0).then_some(Sequence(fields.acknowledgement)),
            flags: fields.flags,
            window: fields.window,
            mss: mss(options).unwrap_or(DEFAULT_MSS),
            payload,
        })
    }

    /// Whether it has this flag.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The sequence numbers that it takes: its data, a SYN and a FIN.
    #[inline]
    pub fn length(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.has(tcp::SYN)) + u32::from(self.has(tcp::FIN))
    }
}

/// The MSS among these options, if there is one above 0.
fn mss(mut options: &[u8]) -> Option<u16> {
    loop {
        options = match options {
            [] | [END_OF_OPTIONS, ..] => return None,
            [NO_OPERATION, rest @ ..] => rest,
            [kind, length, high, low, ..] if [*kind, *length] == MAXIMUM_SEGMENT => {
                return Some(u16::from_be_bytes([*high, *low])).filter(|mss| *mss > 0);
            }
            [_, length, ..] if *length >= 2 => options.get(usize::from(*length)..)?,
            _ => return None,
        };
    }
}

/// A segment to send.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'c> {
    /// Its ends, from the sender's side.
    pub tuple: Tuple,
    /// The next hop.
    pub station: Mac,
    /// Its sequence number.
    pub sequence: Sequence,
    /// Its acknowledgement number, which is sent with [`tcp::ACK`] only.
    pub acknowledgement: Sequence,
    /// Its flags.
    pub flags: u8,
    /// The window in bytes.
    pub window: u16,
    /// The MSS of this end, in a SYN.
    pub mss: Option<u16>,
    /// Its data: part of a message from a place on, and its length in bytes.
    pub data: Option<(&'c Content, u64, usize)>,
}

impl Sending<'_> {
    /// Bytes of its data.
    #[inline]
    pub fn data_bytes(&self) -> usize {
        self.data.map_or(0, |(_, _, bytes)| bytes)
    }

    /// Writes its frame from the station `from`, padded to the shortest frame. Returns its length in bytes
    /// without FCS; `None` if `frame` is too short for it.
    #[inline]
    pub fn write(&self, from: Mac, frame: &mut [u8]) -> Option<usize> {
        let options = if self.mss.is_some() { 4 } else { 0 };
        let tcp_bytes = tcp::HEADER_BYTES + options + self.data_bytes();
        let bytes = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES + tcp_bytes;
        let total = u16::try_from(ipv4::HEADER_BYTES + tcp_bytes).ok()?;
        let length = bytes.max(Size::MIN.bytes_without_fcs().into());
        let frame = frame.get_mut(..length)?;
        frame[bytes..].fill(0);
        let (header, rest) = frame.split_at_mut(ethernet::HEADER_BYTES);
        header[..6].copy_from_slice(&self.station.0);
        header[6..12].copy_from_slice(&from.0);
        header[12..].copy_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
        let ((own, own_port), (peer, peer_port)) = (self.tuple.own, self.tuple.peer);
        let (ip, rest) = rest.split_at_mut(ipv4::HEADER_BYTES);
        // The identification of a packet that is never fragmented may be 0 (RFC 6864, 4.1).
        ip[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, TTL, ipv4::PROTOCOL_TCP, 0, 0]);
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[6..8].copy_from_slice(&DO_NOT_FRAGMENT.to_be_bytes());
        ip[12..16].copy_from_slice(&own.octets());
        ip[16..20].copy_from_slice(&peer.octets());
        let sum = checksum(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let (segment, _) = rest.split_at_mut(tcp_bytes);
        let has_ack = self.flags & tcp::ACK != 0;
        let acknowledgement = if has_ack { self.acknowledgement.0 } else { 0 };
        segment[..2].copy_from_slice(&own_port.to_be_bytes());
        segment[2..4].copy_from_slice(&peer_port.to_be_bytes());
        segment[4..8].copy_from_slice(&self.sequence.0.to_be_bytes());
        segment[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
        segment[12] = ((tcp::HEADER_BYTES + options) as u8 / 4) << 4;
        segment[13] = self.flags;
        segment[14..16].copy_from_slice(&self.window.to_be_bytes());
        segment[16..20].fill(0);
        if let Some(mss) = self.mss {
            segment[20..22].copy_from_slice(&MAXIMUM_SEGMENT);
            segment[22..24].copy_from_slice(&mss.to_be_bytes());
        }
        if let Some((content, place, _)) = self.data {
            content.write(place, &mut segment[tcp::HEADER_BYTES + options..]);
        }
        let seed = Sum::pseudo_header(own, peer, ipv4::PROTOCOL_TCP, tcp_bytes as u16);
        let sum = seed.with(segment).checksum();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const TUPLE: Tuple =
        Tuple { own: (Ipv4Addr::new(10, 0, 0, 1), 1024), peer: (Ipv4Addr::new(10, 0, 0, 2), 80) };

    fn sending(content: &Content) -> Sending<'_> {
        Sending {
            tuple: TUPLE,
            station: Mac([2, 0, 0, 0, 0, 2]),
            sequence: Sequence(7),
            acknowledgement: Sequence(9),
            flags: tcp::ACK,
            window: 1000,
            mss: None,
            data: Some((content, 0, content.bytes() as usize)),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in 0_u64..1460, mss: Option<u16>, flags in 0_u8..32) {
            let content = Content::of_bytes(bytes);
            let sent = Sending { flags, mss, ..sending(&content) };
            let mut frame = [0xaa; 1514];
            let length = sent.write(Mac([2, 0, 0, 0, 0, 1]), &mut frame);
            let fits = MOST_HEADER_BYTES - if mss.is_some() { 0 } else { 4 } + bytes as usize <= 1514;
            prop_assert_eq!(length.is_some(), fits);
            let Some(length) = length else { return Ok(()) };
            let read = Segment::read(&frame[..length]).unwrap();
            prop_assert_eq!(read.tuple, Tuple { own: TUPLE.peer, peer: TUPLE.own });
            prop_assert_eq!((read.sequence, read.flags, read.window), (Sequence(7), flags, 1000));
            prop_assert_eq!(read.acknowledgement, (flags & tcp::ACK != 0).then_some(Sequence(9)));
            prop_assert_eq!(read.mss, mss.filter(|mss| *mss > 0).unwrap_or(DEFAULT_MSS));
            prop_assert_eq!(read.station, Mac([2, 0, 0, 0, 0, 1]));
            prop_assert_eq!(read.payload.len() as u64, bytes);
            prop_assert!(content.is_at(0, read.payload));
            // A changed byte is noticed, but not that of the padding or of the destination's station.
            for at in 12..(14 + 40 + bytes as usize) {
                frame[at] ^= 1;
                prop_assert!(Segment::read(&frame[..length]).is_err(), "byte {at}");
                frame[at] ^= 1;
            }
        }

        #[test]
        fn any_options_are_read(options: Vec<u8>) {
            let _ = mss(&options);
        }
    }

    #[test]
    fn the_mss_is_found_among_other_options() {
        // As Linux sends them: MSS, SACK permitted, timestamps, no operation, window scale.
        let linux = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        assert_eq!(mss(&linux), Some(1460));
        assert_eq!(mss(&[1, 1, 4, 2, 2, 4, 2, 0]), Some(512));
        for none in [&[][..], &[0, 2, 4, 5, 0xb4], &[8, 1, 2, 4, 5, 6], &[8, 10, 2, 4], &[2, 4, 0, 0], &[2]] {
            assert_eq!(mss(none), None, "{none:?}");
        }
    }
}
