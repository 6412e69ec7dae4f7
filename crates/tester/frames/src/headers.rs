//! Where the headers of any frame are, and how their fields are changed without harm to checksums.
//!
//! Unlike the views of single protocols, this looks past any number of VLAN tags and MPLS labels, at both
//! versions of IP. It is for frames of others: captures, templates, a device's frames.

use crate::build::Flow;
use crate::checksum::{Sum, checksum, updated};
use crate::ethernet::{HEADER_BYTES, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN, VLAN_BYTES};
use crate::{Mac, field, ipv4, ipv6, tcp, udp};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

/// The type of a service VLAN's tag (IEEE 802.1ad).
pub const TYPE_SERVICE_VLAN: u16 = 0x88a8;
/// The type of a packet with MPLS labels (RFC 3032).
pub const TYPE_MPLS: u16 = 0x8847;
/// Bytes of an MPLS label.
pub const LABEL_BYTES: usize = 4;
/// The bit that marks the last label.
const BOTTOM: u32 = 1 << 8;
/// Protocol numbers of ICMP for both versions of IP.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Extension headers of IPv6: options for each hop, a route, a fragment, options for the destination.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const FRAGMENT: u8 = 44;
/// Places in an IPv4 header.
const TOS: usize = 1;
const IDENTIFICATION: usize = 4;
const FLAGS: usize = 6;
/// The flag of a packet that may not be cut into fragments.
pub(crate) const NO_FRAGMENTS: u16 = 0x4000;
const TTL: usize = 8;
const IP_CHECKSUM: usize = 10;
/// Places in an IPv6 header.
const HOPS: usize = 7;

/// Where the headers of a frame's IP packet are, in bytes from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The IP header.
    pub ip: usize,
    /// Whether it is of IPv6.
    pub is_ipv6: bool,
    /// The protocol behind it.
    pub protocol: u8,
    /// The header of that protocol.
    pub transport: usize,
    /// The end of the packet. Padding may follow.
    pub end: usize,
    /// Whether the frame has the transport header: it has no later fragment.
    pub first: bool,
    /// Whether the packet is whole: no fragment at all.
    pub whole: bool,
}

/// The type of a frame's payload behind VLAN tags, and where the payload is.
pub fn payload_type(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = HEADER_BYTES;
    loop {
        let kind = frame.get(at - 2..at).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))?;
        match kind {
            TYPE_VLAN | TYPE_SERVICE_VLAN => at += VLAN_BYTES,
            _ => return Some((kind, at)),
        }
    }
}

/// The IP packet of a frame behind VLAN tags and labels: whether it is IPv6, and where it is.
fn packet(frame: &[u8]) -> Option<(bool, usize)> {
    let (kind, mut at) = payload_type(frame)?;
    if kind == TYPE_MPLS {
        loop {
            let label = field::u32(frame.get(at..at + LABEL_BYTES)?, 0);
            at += LABEL_BYTES;
            if label & BOTTOM != 0 {
                break;
            }
        }
    }
    let version = frame.get(at)? >> 4;
    match (kind, version) {
        (TYPE_IPV4 | TYPE_MPLS, 4) => Some((false, at)),
        (TYPE_IPV6 | TYPE_MPLS, 6) => Some((true, at)),
        _ => None,
    }
}

impl Headers {
    /// The headers of a frame; `None` if it has no complete IP packet.
    pub fn of(frame: &[u8]) -> Option<Self> {
        Self::of_part(frame, frame.len())
    }

    /// The headers of a frame of `bytes` bytes; `beginning` holds at least the headers.
    pub(crate) fn of_part(beginning: &[u8], bytes: usize) -> Option<Self> {
        let (is_ipv6, ip) = packet(beginning)?;
        let packet = beginning.get(ip..)?;
        let headers = if is_ipv6 { Self::of_ipv6(packet, ip)? } else { Self::of_ipv4(packet, ip)? };
        let transport_end = headers.transport + headers.transport_bytes();
        let fits = transport_end <= headers.end.min(beginning.len()) && headers.end <= bytes;
        fits.then_some(headers)
    }

    fn of_ipv4(bytes: &[u8], ip: usize) -> Option<Self> {
        let fixed = bytes.get(..ipv4::HEADER_BYTES)?;
        let header = usize::from(fixed[0] & 0xf) * 4;
        let flags = field::u16(fixed, FLAGS);
        (header >= ipv4::HEADER_BYTES).then(|| Self {
            ip,
            is_ipv6: false,
            protocol: fixed[9],
            transport: ip + header,
            end: ip + usize::from(field::u16(fixed, 2)),
            first: flags & 0x1fff == 0,
            whole: flags & 0x3fff == 0,
        })
    }

    fn of_ipv6(bytes: &[u8], ip: usize) -> Option<Self> {
        let fixed = bytes.get(..ipv6::HEADER_BYTES)?;
        let (mut protocol, mut at) = (fixed[6], ipv6::HEADER_BYTES);
        let (mut first, mut whole) = (true, true);
        loop {
            let length = match protocol {
                FRAGMENT => {
                    let offset = field::u16(bytes.get(at..at + 4)?, 2);
                    (first, whole) = (offset >> 3 == 0, false);
                    8
                }
                _ if EXTENSIONS.contains(&protocol) => (usize::from(*bytes.get(at + 1)?) + 1) * 8,
                _ => break,
            };
            protocol = *bytes.get(at)?;
            at += length;
            if !first {
                break;
            }
        }
        Some(Self {
            ip,
            is_ipv6: true,
            protocol,
            transport: ip + at,
            end: ip + ipv6::HEADER_BYTES + usize::from(field::u16(fixed, 4)),
            first,
            whole,
        })
    }

    /// Bytes of the transport header as far as it is fixed; 0 of a later fragment, or of another protocol.
    fn transport_bytes(&self) -> usize {
        match self.protocol {
            _ if !self.first => 0,
            ipv4::PROTOCOL_UDP => udp::HEADER_BYTES,
            ipv4::PROTOCOL_TCP => tcp::HEADER_BYTES,
            ICMP | ICMPV6 => 8,
            _ => 0,
        }
    }

    /// Where IPv4's checksum is.
    pub fn ip_checksum(&self) -> Option<usize> {
        (!self.is_ipv6).then_some(self.ip + IP_CHECKSUM)
    }

    /// Where IPv4's identification is.
    pub fn identification(&self) -> Option<usize> {
        (!self.is_ipv6).then_some(self.ip + IDENTIFICATION)
    }

    /// Where the checksum of the transport header is, if there is one.
    pub fn checksum(&self) -> Option<usize> {
        let at = match self.protocol {
            _ if !self.first => return None,
            ipv4::PROTOCOL_UDP => 6,
            ipv4::PROTOCOL_TCP => 16,
            ICMP | ICMPV6 => 2,
            _ => return None,
        };
        Some(self.transport + at)
    }

    /// Where the numbers are by which a NAT knows flows: both ports, or the identifier of ICMP's echoes.
    /// Empty in other protocols and in later fragments.
    pub fn flow_numbers(&self) -> Range<usize> {
        match (self.ports(), self.protocol) {
            (Some(at), _) => at..at + 4,
            (None, ICMP | ICMPV6) if self.first => self.transport + 4..self.transport + 6,
            _ => 0..0,
        }
    }

    /// Where the two ports are, if there are any.
    fn ports(&self) -> Option<usize> {
        let has = self.first && matches!(self.protocol, ipv4::PROTOCOL_UDP | ipv4::PROTOCOL_TCP);
        has.then_some(self.transport)
    }

    /// Where the payload of the packet begins: behind the transport header with its options.
    pub fn payload(&self, frame: &[u8]) -> usize {
        let bytes = match self.protocol {
            ipv4::PROTOCOL_TCP if self.first => {
                usize::from(frame.get(self.transport + 12).map_or(5, |byte| byte >> 4)).max(5) * 4
            }
            _ => self.transport_bytes(),
        };
        (self.transport + bytes).min(self.end)
    }

    /// Where both addresses are, the source's first. Both are as long.
    pub fn addresses(&self) -> Range<usize> {
        if self.is_ipv6 { self.ip + 8..self.ip + 40 } else { self.ip + 12..self.ip + 20 }
    }

    /// The sum of the pseudo-header, of a transport header whose checksum has one.
    pub fn pseudo_header(&self, frame: &[u8]) -> Sum {
        if self.protocol == ICMP {
            return Sum::new();
        }
        let length = ((self.end - self.transport) as u32).to_be_bytes();
        let addresses = frame.get(self.addresses()).unwrap_or_default();
        Sum::new().with(addresses).with(&length).with(&[0, 0, 0, self.protocol])
    }

    /// Computes both checksums anew. UDP over IPv4 without one keeps none, and so does a fragment.
    pub fn put_checksums(&self, frame: &mut [u8]) {
        if !self.is_ipv6
            && let Some(header) = frame.get_mut(self.ip..self.transport)
        {
            field::put_u16(header, IP_CHECKSUM, 0);
            let sum = checksum(header);
            field::put_u16(header, IP_CHECKSUM, sum);
        }
        let Some(at) = self.checksum().filter(|_| self.whole && self.end <= frame.len()) else { return };
        let is_udp = self.protocol == ipv4::PROTOCOL_UDP;
        if is_udp && !self.is_ipv6 && field::u16(frame, at) == 0 {
            return;
        }
        field::put_u16(frame, at, 0);
        let sum = self.pseudo_header(frame).with(&frame[self.transport..self.end]).checksum();
        field::put_u16(frame, at, if is_udp && sum == 0 { 0xffff } else { sum });
    }
}

/// The addresses and ports of a frame with TCP or UDP, its stations, and its first VLAN tag.
pub fn flow(frame: &[u8]) -> Option<Flow<IpAddr>> {
    let headers = Headers::of(frame)?;
    let ports = headers.ports()?;
    let [from, to] = addresses(frame)?;
    let mac = |at: usize| frame.get(at..at + 6).and_then(|mac| mac.try_into().ok()).map(Mac);
    Some(Flow {
        from_mac: mac(6)?,
        to_mac: mac(0)?,
        vlan: (field::u16(frame, 12) == TYPE_VLAN).then(|| field::u16(frame, 14)),
        from: (from, field::u16(frame, ports)),
        to: (to, field::u16(frame, ports + 2)),
    })
}

/// The addresses of a frame's IP packet.
pub fn addresses(frame: &[u8]) -> Option<[IpAddr; 2]> {
    let both = Headers::of(frame)?.addresses();
    let (at, bytes) = (both.start, both.len() / 2);
    let address = |at: usize| -> Option<IpAddr> {
        let octets = frame.get(at..at + bytes)?;
        match <[u8; 4]>::try_from(octets) {
            Ok(octets) => Some(Ipv4Addr::from(octets).into()),
            Err(_) => Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into()),
        }
    };
    Some([address(at)?, address(at + bytes)?])
}

/// Fields to set in a frame. A field that is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Source station.
    pub from_mac: Option<Mac>,
    /// Destination station.
    pub to_mac: Option<Mac>,
    /// Source address.
    pub from: Option<IpAddr>,
    /// Destination address.
    pub to: Option<IpAddr>,
    /// Source port of TCP or UDP.
    pub sport: Option<u16>,
    /// Destination port of TCP or UDP.
    pub dport: Option<u16>,
    /// The differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: Option<u8>,
    /// TTL or hop limit.
    pub hops: Option<u8>,
}

impl Fields {
    /// Writes the fields into a frame, as far as it has them, and updates its checksums incrementally, so
    /// that a wrong checksum stays wrong. An address of the other version of IP is not written.
    pub fn write(&self, frame: &mut [u8]) {
        for (mac, at) in [(self.to_mac, 0), (self.from_mac, 6)] {
            if let (Some(mac), Some(place)) = (mac, frame.get_mut(at..at + 6)) {
                place.copy_from_slice(&mac.0);
            }
        }
        let Some(headers) = Headers::of(frame) else { return };
        let sums = Sums {
            ip: headers.ip_checksum(),
            transport: headers.checksum(),
            may_lack: headers.protocol == ipv4::PROTOCOL_UDP && !headers.is_ipv6,
        };
        // ICMP has no pseudo-header.
        let pseudo = Sums { transport: sums.transport.filter(|_| headers.protocol != ICMP), ..sums };
        let both = headers.addresses();
        for (address, at) in [(self.from, both.start), (self.to, both.start + both.len() / 2)] {
            match address {
                Some(IpAddr::V4(address)) if !headers.is_ipv6 => pseudo.change(frame, at, &address.octets()),
                Some(IpAddr::V6(address)) if headers.is_ipv6 => pseudo.change(frame, at, &address.octets()),
                _ => {}
            }
        }
        if let Some(at) = headers.ports() {
            let only = Sums { ip: None, ..sums };
            for (port, at) in [(self.sport, at), (self.dport, at + 2)] {
                if let Some(port) = port {
                    only.change(frame, at, &port.to_be_bytes());
                }
            }
        }
        let header = Sums { transport: None, ..sums };
        let ip = headers.ip;
        if let Some(dscp) = self.dscp {
            if headers.is_ipv6 {
                // Four bits each are in the first two bytes.
                let word = field::u16(frame, ip) & !0x0fc0 | u16::from(dscp & 0x3f) << 6;
                header.change(frame, ip, &word.to_be_bytes());
            } else {
                let tos = frame[ip + TOS] & 0x3 | dscp << 2;
                header.change(frame, ip, &[frame[ip], tos]);
            }
        }
        if let Some(hops) = self.hops {
            let at = if headers.is_ipv6 { ip + HOPS - 1 } else { ip + TTL };
            let word = if headers.is_ipv6 { [frame[at], hops] } else { [hops, frame[at + 1]] };
            header.change(frame, at, &word);
        }
    }
}

/// The checksums that a field is part of.
#[derive(Clone, Copy)]
struct Sums {
    ip: Option<usize>,
    transport: Option<usize>,
    /// Whether a checksum of 0 means that there is none (UDP).
    may_lack: bool,
}

impl Sums {
    /// Writes whole words at `at` and updates the checksums.
    fn change(self, frame: &mut [u8], at: usize, new: &[u8]) {
        for (at, new) in (at..).step_by(2).zip(new.chunks_exact(2)) {
            let (old, new) = (field::u16(frame, at), field::u16(new, 0));
            if old == new {
                continue;
            }
            field::put_u16(frame, at, new);
            if let Some(at) = self.ip {
                let sum = updated(field::u16(frame, at), old, new);
                field::put_u16(frame, at, sum);
            }
            let known = self.transport.map(|at| (at, field::u16(frame, at)));
            if let Some((at, sum)) = known.filter(|(_, sum)| !self.may_lack || *sum != 0) {
                let sum = updated(sum, old, new);
                field::put_u16(frame, at, if self.may_lack && sum == 0 { 0xffff } else { sum });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::build::{tcp as tcp_frame, udp_test};
    use crate::{Size, ethernet};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// UDP over both versions of IP with a checksum, and TCP, behind `tags` VLAN tags.
    fn frames(tags: usize) -> Vec<Vec<u8>> {
        let flow = Flow::default();
        let six = |last| Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last);
        let Flow { from_mac, to_mac, vlan, .. } = flow;
        let ipv6 = Flow { from_mac, to_mac, vlan, from: (six(1), 7), to: (six(2), 8) };
        let fields = tcp::Fields { sequence: 1, acknowledgement: 2, flags: 0x18, window: 3 };
        let mut udp = udp_test(&flow, Size::with_fcs(90)).unwrap();
        udp[40] = 1;
        let mut all =
            [udp, udp_test(&ipv6, Size::with_fcs(90)).unwrap(), tcp_frame(&flow, fields, b"hello").unwrap()];
        for frame in &mut all {
            for _ in 0..tags {
                frame.splice(12..12, [0x88, 0xa8, 0, 7]);
            }
            Headers::of(frame).unwrap().put_checksums(frame);
        }
        all.into()
    }

    /// Whether all checksums are right, by definition.
    fn is_right(frame: &[u8]) -> bool {
        let headers = Headers::of(frame).unwrap();
        let ip = headers.is_ipv6 || checksum(&frame[headers.ip..headers.transport]) == 0;
        ip && headers.pseudo_header(frame).with(&frame[headers.transport..headers.end]).checksum() == 0
    }

    fn fields() -> impl Strategy<Value = Fields> {
        let mac = || proptest::option::of(any::<[u8; 6]>().prop_map(Mac));
        let port = || proptest::option::of(any::<u16>());
        let address = || proptest::option::of(any::<IpAddr>());
        let small = || proptest::option::of(0..64_u8);
        (mac(), mac(), address(), address(), port(), port(), small(), small()).prop_map(
            |(from_mac, to_mac, from, to, sport, dport, dscp, hops)| Fields {
                from_mac,
                to_mac,
                from,
                to,
                sport,
                dport,
                dscp,
                hops,
            },
        )
    }

    proptest! {
        #[test]
        fn fields_are_written_and_sums_stay_right(fields in fields(), tags in 0..3_usize) {
            for mut frame in frames(tags) {
                prop_assert!(is_right(&frame));
                let before = flow(&frame).unwrap();
                fields.write(&mut frame);
                prop_assert!(is_right(&frame), "{fields:?}");
                let after = flow(&frame).unwrap();
                let same_version = |address: &IpAddr| address.is_ipv4() == before.to.0.is_ipv4();
                prop_assert_eq!(after.from.0, fields.from.filter(same_version).unwrap_or(before.from.0));
                prop_assert_eq!(after.to.0, fields.to.filter(same_version).unwrap_or(before.to.0));
                prop_assert_eq!(after.from.1, fields.sport.unwrap_or(before.from.1));
                prop_assert_eq!(after.to.1, fields.dport.unwrap_or(before.to.1));
                prop_assert_eq!(after.to_mac, fields.to_mac.unwrap_or(before.to_mac));
                let ip = Headers::of(&frame).unwrap().ip;
                let class = u16::from_be_bytes([frame[ip], frame[ip + 1]]) >> 6 & 0x3f;
                let dscp = if frame[ip] >> 4 == 6 { class } else { u16::from(frame[ip + 1] >> 2) };
                prop_assert_eq!(dscp, fields.dscp.map_or(0, u16::from));
            }
        }

        #[test]
        fn no_bytes_are_too_strange(mut bytes: Vec<u8>, fields in fields(), kind in 0..4_usize) {
            let kinds = [TYPE_IPV4, TYPE_IPV6, TYPE_MPLS, TYPE_VLAN];
            if let Some(place) = bytes.get_mut(12..14) {
                place.copy_from_slice(&kinds[kind].to_be_bytes());
            }
            let length = bytes.len();
            let _ = flow(&bytes);
            fields.write(&mut bytes);
            if let Some(headers) = Headers::of(&bytes) {
                prop_assert!(headers.payload(&bytes) <= headers.end && headers.end <= bytes.len());
                headers.put_checksums(&mut bytes);
            }
            prop_assert_eq!(bytes.len(), length);
        }
    }

    #[test]
    fn labels_and_fragments_are_looked_past() {
        let mut frame = frames(1).remove(0);
        let at = Headers::of(&frame).unwrap();
        assert_eq!((at.ip, at.transport, at.payload(&frame)), (18, 38, 46));
        assert_eq!(ethernet::Frame::new_checked(&frame).unwrap().ethertype(), TYPE_SERVICE_VLAN);
        frame[16..18].copy_from_slice(&TYPE_MPLS.to_be_bytes());
        frame.splice(18..18, [0, 1, 0, 64, 0, 2, 1, 64]);
        assert_eq!(Headers::of(&frame).map(|at| (at.ip, at.is_ipv6)), Some((26, false)));
        // A later fragment has no ports.
        let mut fragment = frames(0).remove(0);
        fragment[21] = 9;
        let at = Headers::of(&fragment).unwrap();
        assert_eq!((at.first, at.whole, at.checksum(), flow(&fragment)), (false, false, None, None));
    }
}
