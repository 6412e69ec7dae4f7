//! Whole frames: UDP test frames over IPv4 and IPv6, and TCP segments over IPv4.

use crate::checksum::Sum;
use crate::ethernet::{HEADER_BYTES, TYPE_IPV4, TYPE_IPV6, VLAN_BYTES};
use crate::{Error, Mac, Size, ethernet, ipv4, ipv6, tag, tcp, udp};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The TTL or hop limit of a test frame.
const HOPS: u8 = 64;

/// An IPv4 or IPv6 address, or either.
pub trait Ip: Copy {
    /// The address as [`IpAddr`].
    fn either(self) -> IpAddr;
}

impl Ip for Ipv4Addr {
    fn either(self) -> IpAddr {
        self.into()
    }
}

impl Ip for Ipv6Addr {
    fn either(self) -> IpAddr {
        self.into()
    }
}

impl Ip for IpAddr {
    fn either(self) -> IpAddr {
        self
    }
}

/// The source and destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow<A = Ipv4Addr> {
    /// Source station.
    pub from_mac: Mac,
    /// Destination station.
    pub to_mac: Mac,
    /// The VLAN tag's control field, for a tagged frame.
    pub vlan: Option<u16>,
    /// Source address and port.
    pub from: (A, u16),
    /// Destination address and port.
    pub to: (A, u16),
}

impl Default for Flow {
    /// Between two locally administered stations in the benchmark network (198.18.0.0/15, RFC 2544 C.2.2), to
    /// the discard port.
    fn default() -> Self {
        Self {
            from_mac: Mac([2, 0, 0, 0, 0, 1]),
            to_mac: Mac([2, 0, 0, 0, 0, 2]),
            vlan: None,
            from: (Ipv4Addr::new(198, 18, 0, 1), 49152),
            to: (Ipv4Addr::new(198, 19, 0, 2), 9),
        }
    }
}

impl<A: Ip> Flow<A> {
    fn ethernet_bytes(&self) -> usize {
        HEADER_BYTES + if self.vlan.is_some() { VLAN_BYTES } else { 0 }
    }

    /// The smallest UDP test frame of this flow, with headers and tag: 64 bytes with FCS over IPv4, 84 over
    /// IPv6; 4 more with a VLAN tag.
    pub fn least_test_size(&self) -> Size {
        let ip = if self.to.0.either().is_ipv4() { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
        Size::without_fcs((self.ethernet_bytes() + ip + udp::HEADER_BYTES + tag::BYTES) as u16)
    }
}

/// A UDP test frame of `size` with a zero payload. [`tag::write`] adds the tag. Over IPv4 the UDP checksum is
/// 0 (none), because the tag changes with every frame. IPv6 requires one, and writing a tag updates it.
///
/// ```
/// use kpps_frames::{Size, Tag, build, tag};
/// let mut frame = build::udp_test(&build::Flow::default(), Size::without_fcs(60))?;
/// tag::write(&mut frame, Tag { stream: 1, sequence: 0, sent_ps: 0 })?;
/// assert_eq!(frame.len(), 60);
/// # Ok::<(), kpps_frames::Error>(())
/// ```
///
/// # Errors
/// [`Error::Size`] outside 60 to 9014 bytes without FCS (4 more with a VLAN tag), or without room for the
/// tag; [`Error::Protocol`] if one address is IPv4 and the other IPv6.
pub fn udp_test<A: Ip>(flow: &Flow<A>, size: Size) -> Result<Vec<u8>, Error> {
    let ethernet = flow.ethernet_bytes();
    let most = usize::from(Size::MAX.bytes_without_fcs()) - HEADER_BYTES + ethernet;
    if size < flow.least_test_size() || usize::from(size.bytes_without_fcs()) > most {
        return Err(Error::Size);
    }
    let mut frame = vec![0; usize::from(size.bytes_without_fcs())];
    let ip_bytes = frame.len() - ethernet;
    let (header, kind) = match flow.to.0.either() {
        IpAddr::V4(_) => (ipv4::HEADER_BYTES, TYPE_IPV4),
        IpAddr::V6(_) => (ipv6::HEADER_BYTES, TYPE_IPV6),
    };
    let udp_bytes = (ip_bytes - header) as u16;
    ethernet::write_header(&mut frame, flow.to_mac, flow.from_mac, flow.vlan, kind);
    let (ip, datagram) = frame[ethernet..].split_at_mut(header);
    udp::write_header(datagram, flow.from.1, flow.to.1, udp_bytes);
    match (flow.from.0.either(), flow.to.0.either()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            ipv4::write_header(ip, 0, from, to, ipv4::PROTOCOL_UDP, ip_bytes as u16);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            ipv6::write_header(ip, from, to, ipv4::PROTOCOL_UDP, HOPS, udp_bytes);
            let pseudo: Sum = ipv6::pseudo_header(from, to, ipv4::PROTOCOL_UDP, udp_bytes);
            udp::put_checksum(datagram, pseudo.with(datagram).checksum());
        }
        _ => return Err(Error::Protocol),
    }
    Ok(frame)
}

/// A frame with any payload, padded to 60 bytes.
///
/// # Errors
/// [`Error::Size`] beyond 9014 bytes without FCS (4 more with a VLAN tag).
pub fn frame(to: Mac, from: Mac, vlan: Option<u16>, kind: u16, payload: &[u8]) -> Result<Vec<u8>, Error> {
    let header = HEADER_BYTES + if vlan.is_some() { VLAN_BYTES } else { 0 };
    let most = usize::from(Size::MAX.bytes_without_fcs()) - HEADER_BYTES;
    if payload.len() > most {
        return Err(Error::Size);
    }
    let least = usize::from(Size::MIN.bytes_without_fcs());
    let mut frame = vec![0; (header + payload.len()).max(least)];
    ethernet::write_header(&mut frame, to, from, vlan, kind);
    frame[header..header + payload.len()].copy_from_slice(payload);
    Ok(frame)
}

/// A TCP segment with `payload` and good checksums, padded to 60 bytes. It may be as large as IPv4 allows,
/// for segmentation offload.
///
/// # Errors
/// [`Error::Size`] if header and payload exceed the 65,535 bytes of an IPv4 packet.
pub fn tcp(flow: &Flow, fields: tcp::Fields, payload: &[u8]) -> Result<Vec<u8>, Error> {
    let ethernet = flow.ethernet_bytes();
    let headers = ipv4::HEADER_BYTES + tcp::HEADER_BYTES;
    let ip_bytes = u16::try_from(headers + payload.len()).map_err(|_| Error::Size)?;
    let end = ethernet + usize::from(ip_bytes);
    let mut frame = vec![0; end.max(usize::from(Size::MIN.bytes_without_fcs()))];
    ethernet::write_header(&mut frame, flow.to_mac, flow.from_mac, flow.vlan, TYPE_IPV4);
    let ip = &mut frame[ethernet..end];
    ipv4::write_header(ip, 0, flow.from.0, flow.to.0, ipv4::PROTOCOL_TCP, ip_bytes);
    ip[headers..].copy_from_slice(payload);
    tcp::write_header(&mut ip[ipv4::HEADER_BYTES..], flow.from, flow.to, fields);
    Ok(frame)
}
