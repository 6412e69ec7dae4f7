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

/// What a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It asks for the station address of its target.
    Solicitation,
    /// It tells the station address of its target, which replaces one that is known.
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
    /// Whose station address it is about.
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
    /// advertisement, and if the asking node has no address yet.
    pub fn answer(&self, mac: Mac) -> Option<Self> {
        let kind = Kind::Advertisement { solicited: true };
        let (source, destination) = (self.target, self.source);
        let can = self.kind == Kind::Solicitation && !self.source.is_unspecified();
        can.then_some(Self { kind, source, destination, target: self.target, mac: Some(mac) })
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
        // The first option, if it is 8 bytes long.
        let mac = options.first_chunk::<OPTION_BYTES>().filter(|option| option[1] == 1);
        Ok(Self {
            kind,
            source: address(header, 8),
            destination: address(header, 24),
            target: address(message, 8),
            mac: mac.map(|option| Mac([option[2], option[3], option[4], option[5], option[6], option[7]])),
        })
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
        let unsure = Message { source: Ipv6Addr::UNSPECIFIED, ..solicitation };
        assert_eq!(unsure.answer(asked), None, "it has no address yet");
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
