//! ARP for IPv4 on Ethernet (RFC 826).

use crate::{Error, Mac};
use core::net::Ipv4Addr;

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 28;
/// Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
const PREAMBLE: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It asks for the station address of its target.
    Request,
    /// It answers a request, or announces its sender.
    Reply,
}

/// A message.
///
/// ```
/// use kpps_frames::{Mac, arp::Message};
///
/// let (asker, asked) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
/// let request = Message::request(asker, [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
/// let reply = Message::parse(&request.to_bytes())?.reply(asked);
/// assert_eq!((reply.sender_mac, reply.target_mac), (asked, asker));
/// # Ok::<(), kpps_frames::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's station address.
    pub sender_mac: Mac,
    /// The sender's IP address.
    pub sender: Ipv4Addr,
    /// The target's station address; zeros in a request.
    pub target_mac: Mac,
    /// The target's IP address.
    pub target: Ipv4Addr,
}

impl Message {
    /// The request of a sender for the station address of `target`.
    pub const fn request(sender_mac: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self { operation: Operation::Request, sender_mac, sender, target_mac: Mac([0; 6]), target }
    }

    /// The reply to this request: its target has the station address `mac`.
    pub const fn reply(&self, mac: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender: self.target,
            target_mac: self.sender_mac,
            target: self.sender,
        }
    }

    /// Whether it is a request.
    pub fn is_request(&self) -> bool {
        self.operation == Operation::Request
    }

    /// Reads the message in a frame's payload. Padding behind it is ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Protocol`] for other addresses than those of Ethernet and IPv4, or
    /// another operation.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let m: &[u8; MESSAGE_BYTES] = payload.first_chunk().ok_or(Error::Truncated)?;
        let operation = match [m[6], m[7]] {
            [0, 1] => Operation::Request,
            [0, 2] => Operation::Reply,
            _ => return Err(Error::Protocol),
        };
        if m[..6] != PREAMBLE {
            return Err(Error::Protocol);
        }
        let mac = |at: usize| Mac([m[at], m[at + 1], m[at + 2], m[at + 3], m[at + 4], m[at + 5]]);
        let ip = |at: usize| Ipv4Addr::new(m[at], m[at + 1], m[at + 2], m[at + 3]);
        Ok(Self { operation, sender_mac: mac(8), sender: ip(14), target_mac: mac(18), target: ip(24) })
    }

    /// The message's bytes: a frame's payload, without padding.
    pub fn to_bytes(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..6].copy_from_slice(&PREAMBLE);
        bytes[7] = if self.is_request() { 1 } else { 2 };
        bytes[8..14].copy_from_slice(&self.sender_mac.0);
        bytes[14..18].copy_from_slice(&self.sender.octets());
        bytes[18..24].copy_from_slice(&self.target_mac.0);
        bytes[24..].copy_from_slice(&self.target.octets());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(asks: bool, mac: [[u8; 6]; 2], ip: [[u8; 4]; 2]) {
            let operation = if asks { Operation::Request } else { Operation::Reply };
            let [sender_mac, target_mac] = mac.map(Mac);
            let [sender, target] = ip.map(Ipv4Addr::from);
            let message = Message { operation, sender_mac, sender, target_mac, target };
            prop_assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
        }
    }

    #[test]
    fn other_messages_are_refused() {
        let good = Message::request(Mac::BROADCAST, [1, 2, 3, 4].into(), [5, 6, 7, 8].into()).to_bytes();
        assert_eq!(Message::parse(&good[..27]), Err(Error::Truncated));
        for at in 0..8 {
            let mut bad = good;
            bad[at] ^= 4;
            assert_eq!(Message::parse(&bad), Err(Error::Protocol), "byte {at}");
        }
    }
}
