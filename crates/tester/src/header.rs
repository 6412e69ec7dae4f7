//! How a received header differs from the sent one.
//!
//! What routers and NATs rewrite does not count as a difference where the checksum over it is right: who
//! rewrites it updates the checksum, and damage does so by chance only. Two more things do not count,
//! although no checksum covers them: traffic class, flow label and hop limit of IPv6, which are rewritten on
//! the way (RFC 4302, 3.3.3.1.2.1); and the ports of UDP without a checksum if an address was rewritten, as a
//! NAT rewrites both.

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
/// What is rewritten on the way in headers of IPv4: type of service, identification, TTL, checksum and
/// addresses.
const REWRITTEN_IPV4: [Range<usize>; 4] = [1..2, 4..6, 8..9, 10..20];

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
        if udp_checksum_is_right(frame, end) {
            change[udp - ADDRESSES_IPV6..udp + PORTS].fill(0);
            change[end - UDP_CHECKSUM..end].fill(0);
        } else {
            change[end - UDP_CHECKSUM..end].fill(0xff);
        }
        return change;
    }
    // The addresses are covered by both checksums.
    let addresses_differ = change[udp - ADDRESSES..udp].iter().any(|&bits| bits != 0);
    let udp_differs = addresses_differ || change[udp..end].iter().any(|&bits| bits != 0);
    let ip = udp - ipv4::HEADER_BYTES..udp;
    let ip_is_right = change[ip.clone()].iter().all(|&bits| bits == 0) || ip_checksum_is_right(header);
    if ip_is_right {
        REWRITTEN_IPV4.into_iter().for_each(|at| change[ip.start + at.start..ip.start + at.end].fill(0));
    } else {
        change[end - IP_CHECKSUM..][..2].fill(0xff);
        change[end - IDENTIFICATION..][..2].fill(0);
    }
    if udp_differs {
        match header[end - UDP_CHECKSUM..end] {
            [0, 0] if addresses_differ && ip_is_right => change[udp..udp + PORTS].fill(0),
            [0, 0] => {}
            _ if udp_checksum_is_right(frame, end) => {
                change[udp..udp + PORTS].fill(0);
                change[end - UDP_CHECKSUM..end].fill(0);
            }
            _ => change[end - UDP_CHECKSUM..end].fill(0xff),
        }
    }
    change
}

/// Forgets how traffic class, flow label and hop limit differ, in the change of a header of IPv6.
#[inline]
fn forget_marks(ip: &mut [u8]) {
    for (at, keep) in [(0, 0xf0), (1, 0), (2, 0), (3, 0), (7, 0)] {
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
    /// Bytes of the frame behind that packet. Frames of other sizes have packets of other lengths.
    padding: usize,
}

impl Outline {
    /// Of frames like this one.
    pub(crate) fn of(frame: &[u8], inner: usize) -> Self {
        let headers = frame.get(inner..).and_then(Headers::of);
        Self { inner, headers, padding: headers.map_or(0, |headers| frame.len() - inner - headers.end) }
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
        let Some(end) = inner.len().checked_sub(self.padding) else { return change };
        let headers = Headers { end, ..headers };
        let (ip, transport) = (headers.ip, headers.transport);
        let mut nat = false;
        if let Some(at) = headers.ip_checksum() {
            if inner.get(ip..transport).is_some_and(|header| checksum(header) == 0) {
                let address = |at: usize| header.get(self.inner + at) != sent.get(self.inner + at);
                nat = (ip + ipv4::HEADER_BYTES - ADDRESSES..ip + ipv4::HEADER_BYTES).any(address);
                REWRITTEN_IPV4.into_iter().for_each(|at| fill(ip + at.start..ip + at.end, 0));
            } else {
                fill(at..at + 2, 0xff);
            }
        }
        if let Some(at) = headers.identification() {
            fill(at..at + 2, 0);
        }
        if let Some(at) = headers.checksum()
            && let Some(bytes) = inner.get(transport..end)
        {
            let is_udp_over_ipv4 = headers.protocol == ipv4::PROTOCOL_UDP && !headers.is_ipv6;
            if is_udp_over_ipv4 && inner.get(at..at + 2) == Some(&[0; 2]) {
                fill(at..at + 2, 0);
                if nat {
                    fill(transport..transport + PORTS, 0);
                }
            } else if headers.pseudo_header(inner).with(bytes).checksum() == 0 {
                fill(at..at + 2, 0);
                fill(headers.flow_numbers(), 0);
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
