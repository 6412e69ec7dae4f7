//! How a received header differs from the sent one.

use kpps_frames::checksum::{Sum, checksum};
use kpps_frames::headers::Headers;
use kpps_frames::{ipv4, tag, udp};

/// Bytes at the beginning of a frame that may differ in all frames alike: the headers. Plain ones have at
/// most 66, with a VLAN tag and IPv6. What is behind must be as it was sent.
pub(crate) const LONGEST: usize = 128;
/// Where the checksums are: so far before the tag.
pub(crate) const IP_CHECKSUM: usize = udp::HEADER_BYTES + 10;
pub(crate) const UDP_CHECKSUM: usize = 2;
/// Where the identification of IPv4 is: so far before the tag.
pub(crate) const IDENTIFICATION: usize = udp::HEADER_BYTES + 16;

/// How headers differ from what was sent, bit by bit; in TTL or hop limit by how much it is lower.
pub(crate) type Change = [u8; LONGEST];

/// How a header differs from the sent one. A right checksum does not differ; a wrong one differs in all bits.
/// The identification never differs: if it was damaged, the checksum is wrong.
#[inline]
pub(crate) fn change(frame: &[u8], header: &[u8], sent: &[u8]) -> Change {
    let mut change = [0; LONGEST];
    for ((change, came), sent) in change.iter_mut().zip(header).zip(sent) {
        *change = came ^ sent;
    }
    let end = header.len();
    let set = |change: &mut Change, before: usize, right: bool| {
        change[end - before..][..2].fill(if right { 0 } else { 0xff });
    };
    // IPv6 has no header checksum, but UDP over it must have one. Each tag has another.
    if end >= tag::OFFSET_IPV6 {
        set(&mut change, UDP_CHECKSUM, udp_checksum_is_right(frame, end));
        return change;
    }
    let ip = end - udp::HEADER_BYTES - ipv4::HEADER_BYTES..end - udp::HEADER_BYTES;
    if change[ip].iter().any(|&bits| bits != 0) {
        set(&mut change, IP_CHECKSUM, ip_checksum_is_right(header));
        set(&mut change, IDENTIFICATION, true);
    }
    if change[end - UDP_CHECKSUM..end] != [0; 2] {
        set(&mut change, UDP_CHECKSUM, udp_checksum_is_right(frame, end));
    }
    change
}

/// Where the headers of frames are that are not plain, of all frames of a load alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline {
    /// The beginning of the innermost frame. A tunnel's headers before it are those of who sends through it.
    inner: usize,
    /// The headers of that frame, if it has an IP packet, from its beginning.
    headers: Option<Headers>,
}

impl Outline {
    /// Of frames like this one.
    pub(crate) fn of(frame: &[u8], inner: usize) -> Self {
        Self { inner, headers: frame.get(inner..).and_then(Headers::of) }
    }

    /// The place of TTL or hop limit, if there is an IP packet.
    pub(crate) fn hops(&self) -> Option<usize> {
        self.headers.map(|headers| self.inner + headers.hops())
    }

    /// The places of checksums and identifications, from the beginning of the frame.
    pub(crate) fn always_differ(&self) -> impl Iterator<Item = usize> {
        let of = |it: Headers| [it.ip_checksum(), it.identification(), it.checksum()];
        let inner = self.inner;
        self.headers.map(of).into_iter().flatten().flatten().map(move |at| inner + at)
    }

    /// As [`change`], of a frame whose bytes before the tag are `header`.
    pub(crate) fn change(&self, frame: &[u8], header: &[u8], sent: &[u8]) -> Change {
        let mut change = [0; LONGEST];
        let both = header.iter().zip(sent).skip(self.inner);
        for (change, (came, sent)) in change.iter_mut().skip(self.inner).zip(both) {
            *change = came ^ sent;
        }
        let (Some(headers), Some(inner)) = (self.headers, frame.get(self.inner..)) else { return change };
        let mut judge = |at: usize, right: bool| {
            if let Some(place) = change.get_mut(self.inner + at..self.inner + at + 2) {
                place.fill(if right { 0 } else { 0xff });
            }
        };
        if let Some(at) = headers.ip_checksum() {
            judge(at, checksum(&inner[headers.ip..headers.transport]) == 0);
        }
        if let Some(at) = headers.identification() {
            judge(at, true);
        }
        if let Some(at) = headers.checksum()
            && let Some(bytes) = inner.get(headers.transport..headers.end)
        {
            let lacks = bytes[at - headers.transport..][..2] == [0; 2];
            let none = headers.protocol == ipv4::PROTOCOL_UDP && !headers.is_ipv6 && lacks;
            let right = || headers.pseudo_header(inner).with(bytes).checksum() == 0;
            judge(at, none || right());
        }
        change
    }
}

fn ip_checksum_is_right(header: &[u8]) -> bool {
    let end = header.len() - udp::HEADER_BYTES;
    checksum(&header[end - ipv4::HEADER_BYTES..end]) == 0
}

/// Whether the UDP checksum is right, of a frame with a tag at `at` and zeros behind the tag. The
/// pseudo-header has the received addresses.
fn udp_checksum_is_right(frame: &[u8], at: usize) -> bool {
    let (ip, datagram) = frame.split_at(at - udp::HEADER_BYTES);
    let addresses = if at >= tag::OFFSET_IPV6 { 2 * 16 } else { 2 * 4 };
    let length = (datagram.len() as u32).to_be_bytes();
    let pseudo_header =
        Sum::new().with(&ip[ip.len() - addresses..]).with(&length).with(&[0, 0, 0, ipv4::PROTOCOL_UDP]);
    pseudo_header.with(&datagram[..udp::HEADER_BYTES + tag::BYTES]).checksum() == 0
}
