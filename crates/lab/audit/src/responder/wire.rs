//! Frames between the responder and the guest: read with every checksum, and written in the simplest form.
//!
//! Written packets have no IP options, are no fragments and may be fragmented (DF is clear). All frames are
//! without FCS and have at least [`LEAST_BYTES`].

use kpps_frames::checksum::{Sum, checksum};
use kpps_frames::{Mac, arp, ethernet, icmp, ipv4, udp};
use std::net::Ipv4Addr;

/// The shortest frame of Ethernet without FCS, in bytes (IEEE 802.3, 3.2.8).
pub const LEAST_BYTES: usize = 60;
/// The longest frame of Ethernet without tag and FCS, in bytes (IEEE 802.3, 3.2.7).
pub const MOST_BYTES: usize = 1514;
/// The most data of an echo or a UDP datagram that fits into one frame, in bytes.
pub const MOST_DATA_BYTES: usize = MOST_BYTES - DATA;

/// Where the IPv4 header starts, the header of ICMP or UDP, and its data: in bytes.
const IP: usize = ethernet::HEADER_BYTES;
const TRANSPORT: usize = IP + ipv4::HEADER_BYTES;
const DATA: usize = TRANSPORT + 8;
/// The time to live (RFC 1700).
const TTL: u8 = 64;

/// An end of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its station address.
    pub mac: Mac,
    /// Its IPv4 address.
    pub ip: Ipv4Addr,
}

impl End {
    /// All stations (RFC 919).
    pub const BROADCAST: Self = Self { mac: Mac::BROADCAST, ip: Ipv4Addr::BROADCAST };
}

/// A datagram to another end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its destination.
    pub to: End,
    /// The ports of source and destination.
    pub ports: [u16; 2],
    /// Its data.
    pub data: Vec<u8>,
}

/// The fault of a malformed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Malformed {
    /// The source is a group address (IEEE 802.3, 3.2.3).
    Source,
    /// An ARP message that is cut off, or not for Ethernet and IPv4 (RFC 826).
    Arp,
    /// An IPv4 header with a wrong version, length or checksum (RFC 791).
    Ipv4,
    /// An ICMP message that is cut off or has a wrong checksum (RFC 792).
    Icmp,
    /// A UDP datagram with a wrong length or checksum (RFC 768).
    Udp,
    /// A TCP segment that is cut off or has a wrong checksum (RFC 9293).
    Tcp,
}

/// The contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents<'a> {
    /// An ARP message.
    Arp(arp::Message),
    /// An ICMP echo request.
    Echo {
        /// Identifier and sequence number.
        id: [u16; 2],
        /// Its data.
        data: &'a [u8],
    },
    /// An ICMP echo reply.
    EchoReply {
        /// Identifier and sequence number.
        id: [u16; 2],
        /// Its data.
        data: &'a [u8],
    },
    /// Another ICMP message.
    Icmp,
    /// A UDP datagram.
    Udp {
        /// The ports of source and destination.
        ports: [u16; 2],
        /// Its data.
        data: &'a [u8],
    },
    /// A TCP segment.
    Tcp,
    /// A fragment of an IPv4 packet.
    Fragment,
    /// IPv4 with another protocol.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Another type of frame, or a VLAN tag.
    Other,
    /// A malformed frame.
    Malformed(Malformed),
}

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The station that sent it.
    pub from: Mac,
    /// The station to which it was sent.
    pub to: Mac,
    /// Source and destination of an intact IPv4 header.
    pub ip: Option<[Ipv4Addr; 2]>,
    /// Its contents.
    pub contents: Contents<'a>,
}

impl<'a> Received<'a> {
    /// Reads a frame; `None` if it has no whole Ethernet header.
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        let header = ethernet::Frame::new_checked(frame).ok()?;
        let mut received =
            Self { from: header.source(), to: header.destination(), ip: None, contents: Contents::Other };
        let payload = frame.get(header.header_bytes()..)?;
        received.contents = match header.ethertype() {
            _ if received.from.is_multicast() => Contents::Malformed(Malformed::Source),
            _ if header.vlan().is_some() => Contents::Other,
            ethernet::TYPE_ARP => {
                arp::Message::parse(payload).map_or(Contents::Malformed(Malformed::Arp), Contents::Arp)
            }
            ethernet::TYPE_IPV4 => received.packet(payload),
            ethernet::TYPE_IPV6 => Contents::Ipv6,
            _ => Contents::Other,
        };
        Some(received)
    }

    /// Reads an IPv4 packet.
    fn packet(&mut self, bytes: &'a [u8]) -> Contents<'a> {
        let packet = ipv4::Packet::new_checked(bytes).ok().filter(|packet| packet.checksum_ok());
        let payload = packet.and_then(|it| bytes.get(it.header_bytes()..it.total_bytes()));
        let (Some(packet), Some(payload)) = (packet, payload) else {
            return Contents::Malformed(Malformed::Ipv4);
        };
        let [from, to] = [packet.source(), packet.destination()];
        self.ip = Some([from, to]);
        match packet.protocol() {
            _ if packet.is_fragment() => Contents::Fragment,
            ipv4::PROTOCOL_ICMP => message(payload).unwrap_or(Contents::Malformed(Malformed::Icmp)),
            ipv4::PROTOCOL_UDP => match udp::Datagram::new_checked(payload) {
                Ok(datagram) if datagram.checksum_ok(from, to) => Contents::Udp {
                    ports: [datagram.source(), datagram.destination()],
                    data: &payload[udp::HEADER_BYTES..datagram.length()],
                },
                _ => Contents::Malformed(Malformed::Udp),
            },
            ipv4::PROTOCOL_TCP => {
                // A payload of IPv4 is shorter than 65,536 bytes.
                let seed = Sum::pseudo_header(from, to, ipv4::PROTOCOL_TCP, payload.len() as u16);
                match payload.len() >= 20 && seed.with(payload).checksum() == 0 {
                    true => Contents::Tcp,
                    false => Contents::Malformed(Malformed::Tcp),
                }
            }
            _ => Contents::Ipv4,
        }
    }
}

/// Reads an ICMP message.
fn message(bytes: &[u8]) -> Option<Contents<'_>> {
    let (header, data) = bytes.split_first_chunk::<{ icmp::HEADER_BYTES }>()?;
    if checksum(bytes) != 0 {
        return None;
    }
    let id = [u16::from_be_bytes([header[4], header[5]]), u16::from_be_bytes([header[6], header[7]])];
    Some(match [header[0], header[1]] {
        [icmp::ECHO, 0] => Contents::Echo { id, data },
        [icmp::ECHO_REPLY, 0] => Contents::EchoReply { id, data },
        _ => Contents::Icmp,
    })
}

/// A frame with an IPv4 packet whose payload is a header of 8 bytes and `data`; `None` if it is too long.
fn packet(from: End, to: End, protocol: u8, header: [u8; 8], data: &[u8]) -> Option<Vec<u8>> {
    (data.len() <= MOST_DATA_BYTES).then(|| long_packet(from, to, protocol, header, data)).flatten()
}

/// As [`packet`], also longer than a frame may be; `None` if it is longer than a packet may be.
fn long_packet(from: End, to: End, protocol: u8, header: [u8; 8], data: &[u8]) -> Option<Vec<u8>> {
    let total = u16::try_from(DATA - IP + data.len()).ok()?;
    let mut frame = vec![0; (DATA + data.len()).max(LEAST_BYTES)];
    frame[..6].copy_from_slice(&to.mac.0);
    frame[6..12].copy_from_slice(&from.mac.0);
    frame[12..IP].copy_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
    let ip = &mut frame[IP..TRANSPORT];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[8] = TTL;
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&from.ip.octets());
    ip[16..20].copy_from_slice(&to.ip.octets());
    frame[TRANSPORT..DATA].copy_from_slice(&header);
    frame[DATA..DATA + data.len()].copy_from_slice(data);
    identify(&mut frame, 0);
    Some(frame)
}

/// Gives an IPv4 packet an identification and clears DF; other frames stay as they are. A packet that may
/// be fragmented needs an identification of its own (RFC 6864).
pub fn identify(frame: &mut [u8], identification: u16) {
    if frame.get(12..14) != Some(&ethernet::TYPE_IPV4.to_be_bytes()[..]) {
        return;
    }
    let Some(ip) = frame.get_mut(IP..TRANSPORT) else { return };
    if ip[0] != 0x45 {
        return;
    }
    ip[4..6].copy_from_slice(&identification.to_be_bytes());
    ip[6..8].fill(0);
    ip[10..12].fill(0);
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// A frame with an ARP message; `None` never occurs for a message of its fixed size.
pub fn arp(to: Mac, message: &arp::Message) -> Option<Vec<u8>> {
    kpps_frames::build::frame(to, message.sender_mac, None, ethernet::TYPE_ARP, &message.to_bytes()).ok()
}

/// A frame with an echo request or reply; `None` if it is too long. `id`: identifier and sequence number.
pub fn echo(from: End, to: End, kind: u8, id: [u16; 2], data: &[u8]) -> Option<Vec<u8>> {
    packet(from, to, ipv4::PROTOCOL_ICMP, echo_header(kind, id, data), data)
}

/// As [`echo`], also longer than a frame may be.
pub fn long_echo(from: End, to: End, kind: u8, id: [u16; 2], data: &[u8]) -> Option<Vec<u8>> {
    long_packet(from, to, ipv4::PROTOCOL_ICMP, echo_header(kind, id, data), data)
}

/// The header of an echo request or reply.
fn echo_header(kind: u8, id: [u16; 2], data: &[u8]) -> [u8; 8] {
    let mut header = [kind, 0, 0, 0, 0, 0, 0, 0];
    header[4..6].copy_from_slice(&id[0].to_be_bytes());
    header[6..8].copy_from_slice(&id[1].to_be_bytes());
    let sum = Sum::new().with(&header).with(data).checksum();
    header[2..4].copy_from_slice(&sum.to_be_bytes());
    header
}

/// A frame with a UDP datagram; `None` if it is too long.
pub fn udp(from: End, datagram: &Datagram) -> Option<Vec<u8>> {
    let Datagram { to, ports, data } = datagram;
    let length = u16::try_from(udp::HEADER_BYTES + data.len()).ok()?;
    let mut header = [0; 8];
    header[..2].copy_from_slice(&ports[0].to_be_bytes());
    header[2..4].copy_from_slice(&ports[1].to_be_bytes());
    header[4..6].copy_from_slice(&length.to_be_bytes());
    let seed = Sum::pseudo_header(from.ip, to.ip, ipv4::PROTOCOL_UDP, length);
    let sum = match seed.with(&header).with(data).checksum() {
        // 0 means that there is none (RFC 768).
        0 => 0xffff,
        sum => sum,
    };
    header[6..8].copy_from_slice(&sum.to_be_bytes());
    packet(from, *to, ipv4::PROTOCOL_UDP, header, data)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const HERE: End = End { mac: Mac([2, 0, 0, 0, 0, 1]), ip: Ipv4Addr::new(10, 0, 2, 2) };
    const THERE: End = End { mac: Mac([2, 0, 0, 0, 0, 2]), ip: Ipv4Addr::new(10, 0, 2, 15) };

    proptest! {
        #[test]
        fn echoes_and_datagrams_are_read_as_written(
            data in prop::collection::vec(any::<u8>(), 0..=MOST_DATA_BYTES), id: [u16; 2], number: u16
        ) {
            let mut frame = echo(HERE, THERE, icmp::ECHO, id, &data).unwrap();
            identify(&mut frame, number);
            let read = Received::read(&frame).unwrap();
            prop_assert_eq!((read.from, read.to, read.ip), (HERE.mac, THERE.mac, Some([HERE.ip, THERE.ip])));
            prop_assert_eq!(read.contents, Contents::Echo { id, data: &data });
            let datagram = Datagram { to: THERE, ports: id, data: data.clone() };
            let mut frame = udp(HERE, &datagram).unwrap();
            prop_assert!((LEAST_BYTES..=MOST_BYTES).contains(&frame.len()));
            prop_assert_eq!(frame[20] & 0x40, 0, "DF is clear");
            let read = Received::read(&frame).unwrap();
            prop_assert_eq!(read.contents, Contents::Udp { ports: id, data: &data });
            frame[22] ^= 1;
            let read = Received::read(&frame).unwrap();
            prop_assert_eq!(read.contents, Contents::Malformed(Malformed::Ipv4));
        }
    }

    #[test]
    fn changed_and_long_frames_are_noticed() {
        assert_eq!(udp(HERE, &Datagram { to: THERE, ports: [1, 2], data: vec![0; 1473] }), None);
        let mut frame = echo(HERE, THERE, icmp::ECHO_REPLY, [1, 2], &[5; 30]).unwrap();
        frame[50] ^= 4;
        assert_eq!(Received::read(&frame).unwrap().contents, Contents::Malformed(Malformed::Icmp));
        let mut frame = udp(HERE, &Datagram { to: THERE, ports: [1, 2], data: vec![5; 30] }).unwrap();
        frame[50] ^= 4;
        assert_eq!(Received::read(&frame).unwrap().contents, Contents::Malformed(Malformed::Udp));
        frame[6] = 1;
        assert_eq!(Received::read(&frame).unwrap().contents, Contents::Malformed(Malformed::Source));
    }
}
