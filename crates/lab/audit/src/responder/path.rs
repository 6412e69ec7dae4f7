//! The way from a stimulus to the guest, and the guest's answers.

use super::wire::{self, Datagram, End};
use kpps_frames::{Mac, arp, icmp};
use std::net::Ipv4Addr;

/// A second in ps.
pub const SECOND_PS: u64 = 1_000_000_000_000;

/// Both ends of the cable as far as they are known.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The responder.
    pub own: End,
    /// The guest's IPv4 address.
    pub guest: Ipv4Addr,
    /// The guest's station address; `None` before its first frame.
    pub mac: Option<Mac>,
}

impl Path {
    /// The guest, if its station address is known.
    pub fn end(&self) -> Option<End> {
        self.mac.map(|mac| End { mac, ip: self.guest })
    }

    /// A broadcast ARP request for `target`.
    pub fn arp_request(&self, target: Ipv4Addr) -> Option<Vec<u8>> {
        wire::arp(Mac::BROADCAST, &arp::Message::request(self.own.mac, self.own.ip, target))
    }

    /// An echo request to the guest, if its station address is known. `id`: identifier and sequence number.
    pub fn echo_request(&self, id: [u16; 2], data: &[u8]) -> Option<Vec<u8>> {
        wire::echo(self.own, self.end()?, icmp::ECHO, id, data)
    }

    /// A UDP datagram to the guest, if its station address is known.
    pub fn udp(&self, ports: [u16; 2], data: Vec<u8>) -> Option<Vec<u8>> {
        wire::udp(self.own, &Datagram { to: self.end()?, ports, data })
    }
}

/// An answer of the guest to a stimulus.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// An ARP reply of the guest's address, from this station.
    Arp(Mac),
    /// An echo reply of the guest.
    Echo {
        /// Identifier and sequence number.
        id: [u16; 2],
        /// Its data.
        data: &'a [u8],
    },
    /// A UDP datagram of the guest to the responder.
    Udp {
        /// The ports of source and destination.
        ports: [u16; 2],
        /// Its data.
        data: &'a [u8],
    },
}

/// The data of an echo. Its first four bytes are its number, big-endian. The rest are big-endian words that
/// differ from one place to the next, and from one number to the next.
pub fn pattern(number: u32, bytes: usize) -> Vec<u8> {
    let seed = number.wrapping_mul(0x9E37_79B1);
    let mut data = vec![0; bytes];
    let mut word = number;
    for (at, part) in (1u32..).zip(data.chunks_mut(4)) {
        part.copy_from_slice(&word.to_be_bytes()[..part.len()]);
        word = seed.wrapping_add(at.wrapping_mul(0x85EB_CA77));
    }
    data
}
