//! Neighbour discovery for IPv6 (RFC 4861): solicitations and advertisements, with the sender's station
//! address.

use crate::{Error, Mac, checksum::Sum, field, ipv6};
use core::net::Ipv6Addr;

/// ICMPv6 as a next header.
pub const PROTOCOL: u8 = 58;
/// Bytes of a packet with a message, from its IPv6 header on.
pub const PACKET_BYTES: usize = ipv6::HEADER_BYTES + MESSAGE_BYTES + OPTION_BYTES;
/// The group of all nodes on a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
/// Type, code, checksum, flags, target.
const MESSAGE_BYTES: usize = 24;
/// An option with an Ethernet address.
const OPTION_BYTES: usize = 8;
/// A message that passed a router is not valid: it must have all hops left (RFC 4861, 7.1).
const HOPS: u8 = 255;

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It asks for the station address of its target.
    Solicitation,
    /// It has the station address of its target, which replaces a known address.
    Advertisement {
        /// Whether it answers a solicitation.
        solicited: bool,
    },
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Solicitation or advertisement.
    pub kind: Kind,
    /// The packet's source.
    pub source: Ipv6Addr,
    /// The packet's destination.
    pub destination: Ipv6Addr,
    /// The address whose station address the message is about.
    pub target: Ipv6Addr,
    /// The sender's station address, of a solicitation; the target's, of an advertisement.
    pub mac: Option<Mac>,
}

/// The group that a node with this address listens to (RFC 4291, 2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a as u16, u16::from_be_bytes([b, c]))
}

/// The Ethernet address of a group (RFC 2464, 7).
pub const fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// The Ethernet address in the first option of this type. Others may stand before it, as a nonce (RFC 7527).
fn link_layer_address(mut options: &[u8], wanted: u8) -> Option<Mac> {
    while let [kind, units, ..] = *options {
        let (option, rest) = options.split_at_checked(usize::from(units) * OPTION_BYTES)?;
        if let (true, Ok(option)) = (kind == wanted, <&[u8; OPTION_BYTES]>::try_from(option)) {
            let [_, _, mac @ ..] = *option;
            return Some(Mac(mac));
        }
        if units == 0 {
            return None;
        }
        options = rest;
    }
    None
}

impl Message {
    /// The request of a node for the station address of `target`.
    pub const fn solicitation(mac: Mac, source: Ipv6Addr, target: Ipv6Addr) -> Self {
        let destination = solicited_node(target);
        Self { kind: Kind::Solicitation, source, destination, target, mac: Some(mac) }
    }

    /// The announcement of a node to all on its link.
    pub const fn announcement(mac: Mac, source: Ipv6Addr) -> Self {
        let kind = Kind::Advertisement { solicited: false };
        Self { kind, source, destination: ALL_NODES, target: source, mac: Some(mac) }
    }

    /// The answer to this solicitation: its target has the station address `mac`. `None` for an
    /// advertisement. A node that asks whether its address is a duplicate has none yet: all nodes get the
    /// answer (RFC 4861, 7.2.4; RFC 4862, 5.4).
    pub fn answer(&self, mac: Mac) -> Option<Self> {
        let is_probe = self.source.is_unspecified();
        let kind = Kind::Advertisement { solicited: !is_probe };
        let destination = if is_probe { ALL_NODES } else { self.source };
        let answer = Self { kind, source: self.target, destination, target: self.target, mac: Some(mac) };
        (self.kind == Kind::Solicitation).then_some(answer)
    }

    /// Reads the message in a frame's payload. The checksum is not verified.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Protocol`] for any other packet.
    pub fn parse(packet: &[u8]) -> Result<Self, Error> {
        let (header, message) =
            packet.split_first_chunk::<{ ipv6::HEADER_BYTES }>().ok_or(Error::Truncated)?;
        if header[0] >> 4 != 6 || header[6] != PROTOCOL || header[7] != HOPS {
            return Err(Error::Protocol);
        }
        let (message, options) = message.split_first_chunk::<MESSAGE_BYTES>().ok_or(Error::Truncated)?;
        let kind = match message[0] {
            SOLICITATION => Kind::Solicitation,
            ADVERTISEMENT => Kind::Advertisement { solicited: message[4] & SOLICITED != 0 },
            _ => return Err(Error::Protocol),
        };
        let address = |bytes: &[u8], at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[at..at + 16]);
            Ipv6Addr::from(octets)
        };
        let (source, destination, target) = (address(header, 8), address(header, 24), address(message, 8));
        let mac = match kind {
            Kind::Solicitation => link_layer_address(options, SOURCE_LINK_LAYER),
            Kind::Advertisement { .. } => link_layer_address(options, TARGET_LINK_LAYER),
        };
        // A probe goes to the group of its target, and names no station (RFC 4861, 7.1.1).
        let is_probe = kind == Kind::Solicitation && source.is_unspecified();
        if is_probe && (destination != solicited_node(target) || mac.is_some()) {
            return Err(Error::Protocol);
        }
        Ok(Self { kind, source, destination, target, mac })
    }

    /// The packet, from its IPv6 header on. Without a station address the option holds zeros.
    pub fn to_bytes(&self) -> [u8; PACKET_BYTES] {
        let mut packet = [0; PACKET_BYTES];
        let bytes = (MESSAGE_BYTES + OPTION_BYTES) as u16;
        ipv6::write_header(&mut packet, self.source, self.destination, PROTOCOL, HOPS, bytes);
        let message = &mut packet[ipv6::HEADER_BYTES..];
        (message[0], message[4], message[MESSAGE_BYTES]) = match self.kind {
            Kind::Solicitation => (SOLICITATION, 0, SOURCE_LINK_LAYER),
            Kind::Advertisement { solicited } => {
                (ADVERTISEMENT, OVERRIDE | if solicited { SOLICITED } else { 0 }, TARGET_LINK_LAYER)
            }
        };
        message[8..MESSAGE_BYTES].copy_from_slice(&self.target.octets());
        message[MESSAGE_BYTES + 1] = 1;
        message[MESSAGE_BYTES + 2..].copy_from_slice(&self.mac.unwrap_or_default().0);
        let pseudo: Sum = ipv6::pseudo_header(self.source, self.destination, PROTOCOL, bytes);
        let sum = pseudo.with(message).checksum();
        field::put_u16(message, 2, sum);
        packet
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_solicitation_is_read_and_answered() {
        let (asker, asked) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let (one, other): (Ipv6Addr, Ipv6Addr) =
            ("2001:2::1".parse().unwrap(), "2001:2::12:3456".parse().unwrap());
        let solicitation = Message::solicitation(asker, one, other);
        assert_eq!(solicitation.destination, "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap());
        assert_eq!(group_mac(solicitation.destination), Mac([0x33, 0x33, 0xff, 0x12, 0x34, 0x56]));
        let read = Message::parse(&solicitation.to_bytes()).unwrap();
        assert_eq!(read, solicitation);
        let answer = read.answer(asked).unwrap();
        assert_eq!((answer.destination, answer.target, answer.mac), (one, other, Some(asked)));
        assert_eq!(Message::parse(&answer.to_bytes()), Ok(answer));
        assert_eq!(answer.answer(asker), None, "an advertisement is not answered");
    }

    /// Linux sends such a probe before it uses an address, with the nonce of RFC 7527.
    #[test]
    fn a_probe_for_a_duplicate_address_is_answered_to_all() {
        let (asked, other): (_, Ipv6Addr) = (Mac([2, 0, 0, 0, 0, 2]), "2001:2::12:3456".parse().unwrap());
        let group = solicited_node(other);
        let question = Message::solicitation(Mac::default(), Ipv6Addr::UNSPECIFIED, other);
        let mut probe = question.to_bytes();
        let option = ipv6::HEADER_BYTES + MESSAGE_BYTES;
        assert_eq!(Message::parse(&probe), Err(Error::Protocol), "a probe with a station address");
        probe[option..].copy_from_slice(&[14, 1, 1, 2, 3, 4, 5, 6]);
        for bytes in [&probe[..], &probe[..option]] {
            let read = Message::parse(bytes).unwrap();
            assert_eq!((read.mac, read.source, read.destination), (None, Ipv6Addr::UNSPECIFIED, group));
            let answer = read.answer(asked).unwrap();
            assert_eq!((answer.kind, answer.source), (Kind::Advertisement { solicited: false }, other));
            assert_eq!((answer.destination, answer.target, answer.mac), (ALL_NODES, other, Some(asked)));
        }
        // To the node itself, not to its group.
        probe[24..40].copy_from_slice(&other.octets());
        assert_eq!(Message::parse(&probe), Err(Error::Protocol));
    }

    #[test]
    fn the_option_of_a_station_may_stand_behind_others() {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let solicitation = Message::solicitation(mac, Ipv6Addr::LOCALHOST, "2001:2::2".parse().unwrap());
        let bytes = solicitation.to_bytes();
        let at = ipv6::HEADER_BYTES + MESSAGE_BYTES;
        // A nonce; a longer option; the other direction's, which means nothing here.
        let others: [&[u8]; 3] = [
            &[14, 1, 9, 9, 9, 9, 9, 9],
            &[200, 2, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
            &[2, 1, 9, 9, 9, 9, 9, 9],
        ];
        for other in others {
            let packet = [&bytes[..at], other, &bytes[at..]].concat();
            assert_eq!(Message::parse(&packet), Ok(solicitation));
            let without = Message { mac: None, ..solicitation };
            assert_eq!(Message::parse(&packet[..at + other.len()]), Ok(without));
        }
        for broken in [[1, 0], [1, 9], [14, 0]] {
            let packet = [&bytes[..at], &broken, &[0; 6]].concat();
            assert_eq!(Message::parse(&packet).unwrap().mac, None);
        }
    }

    #[test]
    fn other_packets_are_refused() {
        let good = Message::announcement(Mac::BROADCAST, Ipv6Addr::LOCALHOST).to_bytes();
        for length in 0..ipv6::HEADER_BYTES + MESSAGE_BYTES {
            assert_eq!(Message::parse(&good[..length]), Err(Error::Truncated));
        }
        for at in [0, 6, 7, ipv6::HEADER_BYTES] {
            let mut bad = good;
            bad[at] ^= 0x10;
            assert_eq!(Message::parse(&bad), Err(Error::Protocol), "byte {at}");
        }
        let without = Message::parse(&good[..ipv6::HEADER_BYTES + MESSAGE_BYTES]).unwrap();
        assert_eq!(without.mac, None);
    }
}
