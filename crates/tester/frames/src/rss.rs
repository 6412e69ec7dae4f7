//! Receive side scaling (RSS): a card chooses the receive queue of a frame by a hash of its addresses and
//! ports. So all frames of a flow come to one queue, in order, and flows are spread over the queues.
//!
//! The hash is Toeplitz's (Microsoft, "RSS Hashing Functions"). Its low bits are the index of an entry of a
//! table, and the entry is the queue.

use crate::ethernet::{HEADER_BYTES, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN, VLAN_BYTES};
use crate::headers::Headers;
use crate::{ipv4, ipv6};

/// Bytes of the key that Microsoft's definition has. Some cards have longer ones.
pub const KEY_BYTES: usize = 40;
/// Bytes of the longest input: two addresses of IPv6, and two ports.
const MOST_INPUT_BYTES: usize = 36;

/// The key of Microsoft's "Verifying the RSS Hash Calculation".
pub const VERIFICATION_KEY: [u8; KEY_BYTES] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];
/// The flows of the same: source with port, destination with port, and the hash of the addresses alone and
/// with the ports, for tests of what parses frames.
pub const VERIFICATION_FLOWS: [(&str, u16, &str, u16, u32, u32); 8] = [
    ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e_8fc2, 0x51cc_c178),
    ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718_262a, 0xc626_b0ea),
    ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0_a5de, 0x5c2b_394a),
    ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x8298_9176, 0xafc7_327f),
    ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d18_09c5, 0x10e8_28a2),
    ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc1_8cd5, 0x4020_7d3d),
    ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c_461c, 0xdde5_1bbf),
    (
        "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
        44251,
        "fe80::200:f8ff:fe21:67cf",
        38024,
        0x4b61_e985,
        0x02d1_feef,
    ),
];

/// The Toeplitz hash of `input` under `key`: the exclusive or, over all set bits of the input from the left,
/// of the 32 bits of the key that begin at the same place. Behind its end a key has zeros.
pub fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let mut key = key.iter().copied().chain(core::iter::repeat(0));
    // The upper 32 bits are those of the key at the current bit of the input.
    let mut window = key.by_ref().take(8).fold(0, |word, byte| word << 8 | u64::from(byte));
    let mut hash = 0;
    for (byte, next) in input.iter().zip(key) {
        for bit in (0..8).rev() {
            hash ^= (window >> 32) as u32 * u32::from(byte >> bit & 1);
            window <<= 1;
        }
        window |= u64::from(next);
    }
    hash
}

/// A kind of packets that a card hashes in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// TCP over IPv4.
    TcpV4,
    /// UDP over IPv4.
    UdpV4,
    /// Other packets of IPv4, fragments among them.
    Ipv4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over IPv6.
    UdpV6,
    /// Other packets of IPv6.
    Ipv6,
}

impl PacketKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [Self::TcpV4, Self::UdpV4, Self::Ipv4, Self::TcpV6, Self::UdpV6, Self::Ipv6];
}

/// The fields that a hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashed {
    /// Both addresses.
    Addresses,
    /// Both addresses, and both ports.
    Ports,
}

/// Protocols that some cards hash by their own ports or by inner headers: IP in IP, IPv6 in IP, GRE, ESP, AH
/// and SCTP.
const OWN_HASHES: [u8; 6] = [4, 41, 47, 50, 51, 132];
/// UDP ports of tunnels whose inner headers some cards hash: VXLAN, its older port in Linux, VXLAN-GPE and
/// Geneve.
const TUNNEL_PORTS: [u16; 4] = [4789, 8472, 4790, 6081];

/// A frame as a card with RSS parses it: an IP packet without extension headers, in a frame with at most one
/// VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedPacket<'f> {
    /// Its kind.
    pub kind: PacketKind,
    /// Both addresses, the source's first.
    pub addresses: &'f [u8],
    /// Both ports, the source's first; empty if there are none.
    pub ports: &'f [u8],
    /// The protocol behind the IP header.
    pub protocol: u8,
}

impl<'f> HashedPacket<'f> {
    /// Parses a frame of `bytes` bytes, of which `beginning` holds at least the headers. `None` if cards do
    /// not agree about its kind.
    pub fn of(beginning: &'f [u8], bytes: usize) -> Option<Self> {
        let headers = Headers::of_part(beginning, bytes)?;
        let header_bytes = if headers.is_ipv6 { ipv6::HEADER_BYTES } else { ipv4::HEADER_BYTES };
        let has_extensions = headers.is_ipv6 && headers.transport != headers.ip + header_bytes;
        let type_at = |at: usize| Some(u16::from_be_bytes(*beginning.get(at..)?.first_chunk()?));
        let behind = if type_at(HEADER_BYTES - 2)? == TYPE_VLAN { VLAN_BYTES } else { 0 };
        let is_plain =
            headers.ip == HEADER_BYTES + behind && matches!(type_at(headers.ip - 2)?, TYPE_IPV4 | TYPE_IPV6);
        if has_extensions || !is_plain {
            return None;
        }
        let kind = match (headers.is_ipv6, headers.protocol) {
            (false, ipv4::PROTOCOL_TCP) if headers.whole => PacketKind::TcpV4,
            (false, ipv4::PROTOCOL_UDP) if headers.whole => PacketKind::UdpV4,
            (false, _) => PacketKind::Ipv4,
            (true, ipv4::PROTOCOL_TCP) => PacketKind::TcpV6,
            (true, ipv4::PROTOCOL_UDP) => PacketKind::UdpV6,
            (true, _) => PacketKind::Ipv6,
        };
        let has_ports = !matches!(kind, PacketKind::Ipv4 | PacketKind::Ipv6);
        let ports = if has_ports { headers.flow_numbers() } else { 0..0 };
        let (addresses, ports) = (beginning.get(headers.addresses())?, beginning.get(ports)?);
        Some(Self { kind, addresses, ports, protocol: headers.protocol })
    }

    /// Whether all cards hash it by these fields: it is no tunnel, and has no ports of another protocol.
    pub fn is_usual(&self) -> bool {
        let to = self.ports.get(2..).and_then(|port| Some(u16::from_be_bytes(*port.first_chunk()?)));
        let is_tunnel = matches!(self.kind, PacketKind::UdpV4 | PacketKind::UdpV6)
            && to.is_some_and(|port| TUNNEL_PORTS.contains(&port));
        !is_tunnel && !OWN_HASHES.contains(&self.protocol)
    }

    /// Its hash over these fields. Packets without ports have none to cover.
    pub fn hash(&self, key: &[u8], over: Hashed) -> u32 {
        let ports = if over == Hashed::Ports { self.ports } else { &[] };
        let mut input = [0; MOST_INPUT_BYTES];
        let mut bytes = 0;
        for (place, byte) in input.iter_mut().zip(self.addresses.iter().chain(ports)) {
            *place = *byte;
            bytes += 1;
        }
        toeplitz(key, &input[..bytes])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::build::{Flow, udp_test};
    use crate::{Encap, Mac, Size, TemplateOptions};
    use alloc::vec::Vec;
    use core::net::IpAddr;
    use proptest::prelude::*;

    fn flow((from, from_port, to, to_port): (&str, u16, &str, u16), vlan: Option<u16>) -> Flow<IpAddr> {
        Flow {
            from_mac: Mac([2; 6]),
            to_mac: Mac([4; 6]),
            vlan,
            from: (from.parse().unwrap(), from_port),
            to: (to.parse().unwrap(), to_port),
        }
    }

    /// The place of the protocol's number in a frame without a tag.
    fn protocol_at(frame: &[u8]) -> usize {
        if frame[14] >> 4 == 6 { 20 } else { 23 }
    }

    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        for (from, from_port, to, to_port, addresses, ports) in VERIFICATION_FLOWS {
            let flow = |vlan| flow((from, from_port, to, to_port), vlan);
            for vlan in [None, Some(7)] {
                let frame = udp_test(&flow(vlan), Size::with_fcs(128)).unwrap();
                let packet = HashedPacket::of(&frame, frame.len()).unwrap();
                let hashes =
                    [Hashed::Addresses, Hashed::Ports].map(|over| packet.hash(&VERIFICATION_KEY, over));
                assert_eq!(hashes, [addresses, ports], "{from} {vlan:?}");
                let udp = if flow(None).from.0.is_ipv6() { PacketKind::UdpV6 } else { PacketKind::UdpV4 };
                assert_eq!(packet.kind, udp, "{from}");
            }
            // The same packet as TCP, and as a protocol without ports.
            let mut frame = udp_test(&flow(None), Size::with_fcs(128)).unwrap();
            let protocol = protocol_at(&frame);
            frame[protocol] = ipv4::PROTOCOL_TCP;
            let tcp = HashedPacket::of(&frame, frame.len()).unwrap();
            assert!(matches!(tcp.kind, PacketKind::TcpV4 | PacketKind::TcpV6), "{:?}", tcp.kind);
            assert!(tcp.hash(&VERIFICATION_KEY, Hashed::Ports) == ports && tcp.is_usual(), "{from}");
            frame[protocol] = 132;
            let other = HashedPacket::of(&frame, frame.len()).unwrap();
            assert!(matches!(other.kind, PacketKind::Ipv4 | PacketKind::Ipv6), "{:?}", other.kind);
            assert_eq!(other.hash(&VERIFICATION_KEY, Hashed::Ports), addresses, "{from}");
            assert!(!other.is_usual(), "{from}");
            let vxlan =
                udp_test(&Flow { to: (to.parse().unwrap(), 4789), ..flow(None) }, Size::with_fcs(128));
            assert!(!HashedPacket::of(&vxlan.unwrap(), 124).unwrap().is_usual(), "{from}");
        }
    }

    #[test]
    fn fragments_are_hashed_by_addresses() {
        let flow = flow(("66.9.149.187", 2794, "161.142.100.80", 1766), None);
        let mut frame = udp_test(&flow, Size::MIN).unwrap();
        frame[20] = 0x20;
        let packet = HashedPacket::of(&frame, frame.len()).unwrap();
        assert_eq!(
            (packet.kind, packet.hash(&VERIFICATION_KEY, Hashed::Ports)),
            (PacketKind::Ipv4, 0x323e_8fc2)
        );
    }

    #[test]
    fn frames_about_which_cards_do_not_agree_have_no_hash() {
        let flow = flow(("66.9.149.187", 2794, "161.142.100.80", 1766), None);
        for encap in ["vlan:7+vlan:8", "qinq:7", "mpls:16"] {
            let encap: Encap = encap.parse().unwrap();
            let options = TemplateOptions { encap, ..TemplateOptions::default() };
            let frame =
                options.frame(&flow, 0, (1, crate::Tag { stream: 0, sequence: 0, sent_ps: 0 })).unwrap();
            assert_eq!(HashedPacket::of(&frame, frame.len()), None, "{encap:?}");
        }
        assert_eq!(HashedPacket::of(&[0; 64], 64), None);
    }

    #[test]
    fn a_key_may_be_longer_or_shorter() {
        let input = [66, 9, 149, 187, 161, 142, 100, 80];
        let longer: Vec<u8> = VERIFICATION_KEY.iter().copied().chain([0xa5; 12]).collect();
        assert_eq!(toeplitz(&longer, &input), toeplitz(&VERIFICATION_KEY, &input));
        assert_eq!(
            toeplitz(&VERIFICATION_KEY[..12], &input),
            toeplitz(&VERIFICATION_KEY, &input),
            "as long as it covers the input"
        );
        assert_eq!(toeplitz(&[], &input), 0);
    }

    proptest! {
        /// By the definition, bit by bit.
        #[test]
        fn the_hash_is_the_defined_one(
            key in proptest::collection::vec(any::<u8>(), 0..60),
            input in proptest::collection::vec(any::<u8>(), 0..37),
        ) {
            let bit = |bytes: &[u8], at: usize| {
                u32::from(bytes.get(at / 8).is_some_and(|byte| byte << (at % 8) & 0x80 != 0))
            };
            let window = |at: usize| (at..at + 32).fold(0, |window, at| window << 1 | bit(&key, at));
            let set = (0..input.len() * 8).filter(|&at| bit(&input, at) != 0);
            prop_assert_eq!(toeplitz(&key, &input), set.fold(0, |hash, at| hash ^ window(at)));
        }

        #[test]
        fn no_frame_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let mut frame = bytes;
            for kind in [[8, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0x47]] {
                if let Some(place) = frame.get_mut(12..14) {
                    place.copy_from_slice(&kind);
                }
                let packet = HashedPacket::of(&frame, frame.len());
                let _ = packet.map(|packet| packet.hash(&VERIFICATION_KEY, Hashed::Ports));
            }
        }
    }
}
