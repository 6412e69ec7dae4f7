//! Address resolution (RFC 826), as far as a tester needs it: what is between its ports must learn where they are.

use kpps_frames::Mac;
use std::net::Ipv4Addr;

const BYTES: usize = 60;
/// Ethernet and IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const TYPE: [u8; 2] = [0x08, 0x06];

/// One end of the tester as a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its IP address.
    pub ip: Ipv4Addr,
}

fn message(to: Mac, operation: u8, sender: Station, target: Station) -> [u8; BYTES] {
    let mut frame = [0; BYTES];
    let parts: [&[u8]; 9] = [
        &to.0,
        &sender.mac.0,
        &TYPE,
        &KIND,
        &[0, operation],
        &sender.mac.0,
        &sender.ip.octets(),
        &target.mac.0,
        &target.ip.octets(),
    ];
    let mut at = 0;
    for part in parts {
        frame[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    frame
}

/// A question of `from`: who is `whom`? Asked for its own address, it announces itself.
pub fn question(from: Station, whom: Ipv4Addr) -> [u8; BYTES] {
    message(Mac([0xff; 6]), 1, from, Station { mac: Mac([0; 6]), ip: whom })
}

/// What an ARP message says: its operation, and who says it of whom.
fn read(frame: &[u8]) -> Option<(u8, Station, Ipv4Addr)> {
    if frame.get(12..14)? != TYPE || frame.get(14..20)? != KIND || *frame.get(20)? != 0 {
        return None;
    }
    let mac = Mac(frame.get(22..28)?.try_into().ok()?);
    let ip = |at: usize| -> Option<Ipv4Addr> {
        let octets: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
        Some(octets.into())
    };
    Some((frame[21], Station { mac, ip: ip(28)? }, ip(38)?))
}

/// The answer to a question that is meant for this station.
pub fn answer(me: Station, frame: &[u8]) -> Option<[u8; BYTES]> {
    match read(frame)? {
        (1, asker, whom) if whom == me.ip && asker.ip != me.ip => Some(message(asker.mac, 2, me, asker)),
        _ => None,
    }
}

/// Who an answer, or an announcement, says has this address.
pub fn said(frame: &[u8], whom: Ipv4Addr) -> Option<Mac> {
    let (_, sender, _) = read(frame)?;
    (sender.ip == whom).then_some(sender.mac)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn who_is_asked_answers() {
        let a = Station { mac: Mac([2, 0, 0, 0, 0, 1]), ip: [10, 0, 0, 1].into() };
        let b = Station { mac: Mac([2, 0, 0, 0, 0, 2]), ip: [10, 0, 0, 2].into() };
        let asked = question(a, b.ip);
        let answered = answer(b, &asked).unwrap();
        assert_eq!(said(&answered, b.ip), Some(b.mac));
        assert_eq!(answered[..6], a.mac.0);
        assert_eq!(answer(a, &asked), None, "it is not asked");
        assert_eq!(answer(b, &answered), None, "an answer is no question");
        assert_eq!(answer(b, &question(b, b.ip)), None, "nor is an announcement");
        for cut in 0..42 {
            assert_eq!((answer(b, &asked[..cut]), said(&asked[..cut], a.ip)), (None, None));
        }
    }
}
