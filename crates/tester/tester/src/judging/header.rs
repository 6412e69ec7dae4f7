//! How a received header differs from the sent one.
//!
//! A field that a router or NAT rewrites is no difference if the checksum over it is right: whoever rewrites
//! it updates the checksum, and damage leaves a checksum right only by chance. Two more things do not count,
//! although no checksum covers them: traffic class, flow label and hop limit of IPv6, which are rewritten on
//! the way (RFC 4302, 3.3.3.1.2.1); and the ports of UDP without a checksum if an address was rewritten, as a
//! NAT rewrites both.

use kpps_frames::checksum::checksum;
use kpps_frames::headers::Headers;
use kpps_frames::ipv4;
use std::ops::Range;

/// Bytes at the beginning of a frame that may differ in all frames alike: the headers. Plain ones have at
/// most 66, with a VLAN tag and IPv6. Bytes behind the headers must be as they were sent.
pub(crate) const LONGEST: usize = 128;
/// Fields of an IPv6 header that are rewritten on the way, beside the addresses: places, and the bits that
/// stay. The first byte has the version and a part of the traffic class.
const REWRITTEN_IPV6: [(usize, u8); 5] = [(0, 0xf0), (1, 0), (2, 0), (3, 0), (7, 0)];

/// How headers differ from what was sent, bit by bit.
pub(crate) type Change = [u8; LONGEST];

/// Removes fields that are rewritten on the way from the change of an IPv4 header: type of service,
/// identification, TTL, checksum and addresses. Returns whether the addresses differed.
#[inline]
fn forget_rewritten(header: &mut [u8; ipv4::HEADER_BYTES]) -> bool {
    let is_nat = header[12..] != [0; 8];
    for places in [1..2, 4..6, 8..9, 10..20] {
        header[places].fill(0);
    }
    is_nat
}

/// Fills places of a change, as far as it goes.
#[inline]
fn fill(change: &mut [u8], places: Range<usize>, with: u8) {
    let to = places.end.min(change.len());
    if let Some(places) = change.get_mut(places.start..to) {
        places.fill(with);
    }
}

/// Where the headers of frames are, of all frames of a load alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline {
    /// The beginning of the innermost frame; outer headers belong to the tunnel's sender.
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

    /// How the header of a frame differs from the sent one. The header ends where the tag begins; behind the
    /// tag are zeros. A wrong checksum differs in all bits. The identification never differs: if it was
    /// damaged, the checksum is wrong. A header that came as it was sent has right checksums: they were right
    /// then, and the tag and the zeros are known to be whole.
    #[inline]
    pub(crate) fn change(&self, frame: &[u8], tag: Range<usize>, sent: &[u8]) -> Change {
        let mut all = [0; LONGEST];
        let (Some(inner), Some(came), Some(sent), Some(change)) = (
            frame.get(self.inner..),
            frame.get(self.inner..tag.start),
            sent.get(self.inner..),
            all.get_mut(self.inner..),
        ) else {
            return all;
        };
        if came == sent {
            return all;
        }
        for ((change, came), sent) in change.iter_mut().zip(came).zip(sent) {
            *change = came ^ sent;
        }
        let Some(headers) = self.headers else { return all };
        let Some(end) = inner.len().checked_sub(self.padding) else { return all };
        let headers = Headers { end, ..headers };
        let ip = headers.ip;
        let mut nat = false;
        if let Some(at) = headers.ip_checksum() {
            if inner.get(ip..headers.transport).is_some_and(|header| checksum(header) == 0) {
                if let Some(header) = change.get_mut(ip..).and_then(|it| it.first_chunk_mut()) {
                    nat = forget_rewritten(header);
                }
            } else {
                fill(change, at..at + 2, 0xff);
                headers.identification().into_iter().for_each(|at| fill(change, at..at + 2, 0));
            }
        }
        // The zeros behind the tag add nothing to a sum.
        let summed = headers.transport..end.min(tag.end.saturating_sub(self.inner));
        if let Some(at) = headers.checksum()
            && let Some(bytes) = inner.get(summed)
        {
            let is_udp_over_ipv4 = headers.protocol == ipv4::PROTOCOL_UDP && !headers.is_ipv6;
            if is_udp_over_ipv4 && inner.get(at..at + 2) == Some(&[0; 2]) {
                fill(change, at..at + 2, 0);
                if nat {
                    fill(change, headers.flow_numbers(), 0);
                }
            } else if headers.pseudo_header(inner).with(bytes).checksum() == 0 {
                fill(change, at..at + 2, 0);
                fill(change, headers.flow_numbers(), 0);
                if headers.is_ipv6 {
                    fill(change, headers.addresses(), 0);
                }
            } else {
                fill(change, at..at + 2, 0xff);
            }
        }
        if headers.is_ipv6 {
            for (at, stays) in REWRITTEN_IPV6 {
                change.get_mut(ip + at).into_iter().for_each(|bits| *bits &= stays);
            }
        }
        all
    }
}
