//! How a received header differs from the sent one.
//!
//! What a right checksum covers does not differ: who rewrites it, as a router, a NAT or a congested queue
//! does, updates the checksum, and damage does not. Two more things do not differ, although no checksum
//! covers them: traffic class and hop limit of IPv6, which are rewritten on the way (RFC 4302, 3.3.3.1.2.1);
//! and the ports of UDP without a checksum if an address was rewritten, as a NAT rewrites both.

use kpps_frames::checksum::{Sum, checksum};
use kpps_frames::headers::Headers;
use kpps_frames::{ipv4, ipv6, tag, udp};
use std::ops::Range;

/// Bytes at the beginning of a frame that may differ in all frames alike: the headers. Plain ones have at
/// most 66, with a VLAN tag and IPv6. What is behind must be as it was sent.
pub(crate) const LONGEST: usize = 128;
/// Where the checksums are: so far before the tag.
pub(crate) const IP_CHECKSUM: usize = udp::HEADER_BYTES + 10;
pub(crate) const UDP_CHECKSUM: usize = 2;
/// Where the identification of IPv4 is: so far before the tag.
pub(crate) const IDENTIFICATION: usize = udp::HEADER_BYTES + 16;
/// Bytes of both addresses, at the end of either IP header.
const ADDRESSES: usize = 8;
const ADDRESSES_IPV6: usize = 32;
/// Bytes of both ports, at the beginning of the UDP header.
const PORTS: usize = 4;

/// How headers differ from what was sent, bit by bit.
pub(crate) type Change = [u8; LONGEST];

/// How a header differs from the sent one. A wrong checksum differs in all bits. The identification never
/// differs: if it was damaged, the checksum is wrong.
#[inline]
pub(crate) fn change(frame: &[u8], header: &[u8], sent: &[u8]) -> Change {
    let mut change = [0; LONGEST];
    for ((change, came), sent) in change.iter_mut().zip(header).zip(sent) {
        *change = came ^ sent;
    }
    let end = header.len();
    let udp = end - udp::HEADER_BYTES;
    // IPv6 has no header checksum, but UDP over it must have one. Each tag has another.
    if end >= tag::OFFSET_IPV6 {
        forget_marks(&mut change[udp - ipv6::HEADER_BYTES..]);
        match udp_checksum_is_right(frame, end) {
            true => change[udp - ADDRESSES_IPV6..end].fill(0),
            false => change[end - UDP_CHECKSUM..end].fill(0xff),
        }
        return change;
    }
    // The addresses are covered by both checksums.
    let addresses_differ = change[udp - ADDRESSES..udp].iter().any(|&bits| bits != 0);
    let udp_differs = addresses_differ || change[udp..end].iter().any(|&bits| bits != 0);
    let ip = udp - ipv4::HEADER_BYTES..udp;
    let ip_is_right = change[ip.clone()].iter().all(|&bits| bits == 0) || ip_checksum_is_right(header);
    if ip_is_right {
        change[ip].fill(0);
    } else {
        change[end - IP_CHECKSUM..][..2].fill(0xff);
        change[end - IDENTIFICATION..][..2].fill(0);
    }
    if udp_differs {
        match header[end - UDP_CHECKSUM..end] {
            [0, 0] if addresses_differ && ip_is_right => change[udp..udp + PORTS].fill(0),
            [0, 0] => {}
            _ if udp_checksum_is_right(frame, end) => change[udp..end].fill(0),
            _ => change[end - UDP_CHECKSUM..end].fill(0xff),
        }
    }
    change
}

/// Forgets how traffic class and hop limit differ, in the change of a header of IPv6.
#[inline]
fn forget_marks(ip: &mut [u8]) {
    for (at, keep) in [(0, 0xf0), (1, 0x0f), (7, 0)] {
        if let Some(bits) = ip.get_mut(at) {
            *bits &= keep;
        }
    }
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
        let mut fill = |places: Range<usize>, with: u8| {
            let to = (self.inner + places.end).min(LONGEST);
            if let Some(places) = change.get_mut(self.inner + places.start..to) {
                places.fill(with);
            }
        };
        let (ip, transport) = (headers.ip, headers.transport);
        let mut nat = false;
        if let Some(at) = headers.ip_checksum() {
            if checksum(&inner[ip..transport]) == 0 {
                let address = |at: usize| header.get(self.inner + at) != sent.get(self.inner + at);
                nat = (ip + ipv4::HEADER_BYTES - ADDRESSES..ip + ipv4::HEADER_BYTES).any(address);
                fill(ip..transport, 0);
            } else {
                fill(at..at + 2, 0xff);
            }
        }
        if let Some(at) = headers.identification() {
            fill(at..at + 2, 0);
        }
        if let Some(at) = headers.checksum()
            && let Some(bytes) = inner.get(transport..headers.end)
        {
            let is_udp_over_ipv4 = headers.protocol == ipv4::PROTOCOL_UDP && !headers.is_ipv6;
            if is_udp_over_ipv4 && bytes[at - transport..][..2] == [0; 2] {
                fill(at..at + 2, 0);
                if nat {
                    fill(transport..transport + PORTS, 0);
                }
            } else if headers.pseudo_header(inner).with(bytes).checksum() == 0 {
                fill(transport..headers.end, 0);
                if headers.is_ipv6 {
                    let end = ip + ipv6::HEADER_BYTES;
                    fill(end - ADDRESSES_IPV6..end, 0);
                }
            } else {
                fill(at..at + 2, 0xff);
            }
        }
        if headers.is_ipv6
            && let Some(ip) = change.get_mut(self.inner + headers.ip..)
        {
            forget_marks(ip);
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
    let addresses = if at >= tag::OFFSET_IPV6 { ADDRESSES_IPV6 } else { ADDRESSES };
    let length = (datagram.len() as u32).to_be_bytes();
    let pseudo_header =
        Sum::new().with(&ip[ip.len() - addresses..]).with(&length).with(&[0, 0, 0, ipv4::PROTOCOL_UDP]);
    pseudo_header.with(&datagram[..udp::HEADER_BYTES + tag::BYTES]).checksum() == 0
}
