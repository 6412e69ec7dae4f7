//! Address resolution (RFC 826) and neighbour discovery (RFC 4861), as far as a tester needs them: what is between its
//! ports must learn where they are.

use kpps_frames::ethernet::{TYPE_ARP, TYPE_IPV6, TYPE_VLAN};
use kpps_frames::flows::Addresses;
use kpps_frames::{Mac, ipv6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The least frame, without FCS.
const LEAST: usize = 60;
/// Where the type of a frame is, behind the addresses.
const TYPE: usize = 12;
/// Ethernet and IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// ICMPv6 (RFC 4861, 4.3 and 4.4).
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
/// Type, code, checksum, flags, target; an option with a link-layer address.
const MESSAGE: usize = 24;
const OPTION: usize = 8;

/// One end of the tester as a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its Ethernet address.
    pub mac: Mac,
    /// The VLAN of its frames.
    pub vlan: Option<u16>,
    /// Its IP addresses.
    pub ips: Addresses,
}

/// What a message says: that it is a question, who says it, and of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    question: bool,
    mac: Mac,
    ip: IpAddr,
    of: IpAddr,
}

fn frame(to: Mac, from: &Station, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [to.0, from.mac.0].concat();
    if let Some(vlan) = from.vlan {
        frame.extend([TYPE_VLAN.to_be_bytes(), vlan.to_be_bytes()].concat());
    }
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame.resize(frame.len().max(LEAST), 0);
    frame
}

fn arp(to: Mac, operation: u8, from: &Station, ip: Ipv4Addr, (mac, of): (Mac, Ipv4Addr)) -> Vec<u8> {
    let parts: [&[u8]; 6] = [&KIND, &[0, operation], &from.mac.0, &ip.octets(), &mac.0, &of.octets()];
    frame(to, from, TYPE_ARP, &parts.concat())
}

fn discovery(
    to: (Mac, Ipv6Addr),
    from: &Station,
    ip: Ipv6Addr,
    (kind, flags, target): (u8, u8, Ipv6Addr),
) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_BYTES];
    let bytes = (MESSAGE + OPTION) as u16;
    // Who has come over a router is not heard: all hops must be left (RFC 4861, 7.1).
    ipv6::write_header(&mut packet, ip, to.1, ICMPV6, 255, bytes);
    packet.extend([kind, 0, 0, 0, flags, 0, 0, 0]);
    packet.extend(target.octets());
    packet.extend([if kind == SOLICITATION { SOURCE_LINK } else { TARGET_LINK }, 1]);
    packet.extend(from.mac.0);
    let sum = ipv6::pseudo_header(ip, to.1, ICMPV6, bytes).with(&packet[ipv6::HEADER_BYTES..]).checksum();
    packet[ipv6::HEADER_BYTES + 2..][..2].copy_from_slice(&sum.to_be_bytes());
    frame(to.0, from, TYPE_IPV6, &packet)
}

/// The Ethernet address of a group (RFC 2464, 7).
fn of_group(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// A question of `from`: who is `whom`? Asked for its own first address, it announces itself.
pub fn question(from: &Station, whom: IpAddr) -> Vec<u8> {
    match (from.ips.first(), whom) {
        (IpAddr::V6(ip), IpAddr::V6(whom)) if ip == whom => {
            let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            discovery((of_group(all), all), from, ip, (ADVERTISEMENT, OVERRIDE, ip))
        }
        (IpAddr::V6(ip), IpAddr::V6(whom)) => {
            let [.., a, b, c] = whom.octets();
            let group =
                Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
            discovery((of_group(group), group), from, ip, (SOLICITATION, 0, whom))
        }
        (IpAddr::V4(ip), IpAddr::V4(whom)) => arp(Mac::BROADCAST, 1, from, ip, (Mac::default(), whom)),
        // Nobody of the other version can be asked.
        _ => frame(Mac::BROADCAST, from, TYPE_ARP, &[]),
    }
}

/// The type of a frame and what is behind it, without a VLAN tag.
fn payload(frame: &[u8]) -> Option<(u16, &[u8])> {
    let two = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let at = if two(TYPE)? == TYPE_VLAN { TYPE + 4 } else { TYPE };
    Some((two(at)?, frame.get(at + 2..)?))
}

fn read(frame: &[u8]) -> Option<Said> {
    fn octets<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
        bytes.get(at..at + N)?.try_into().ok()
    }
    match payload(frame)? {
        (TYPE_ARP, arp) if arp.get(..6)? == KIND && *arp.get(6)? == 0 => Some(Said {
            question: *arp.get(7)? == 1,
            mac: Mac(octets(arp, 8)?),
            ip: octets::<4>(arp, 14)?.into(),
            of: octets::<4>(arp, 24)?.into(),
        }),
        (TYPE_IPV6, packet) if *packet.get(6)? == ICMPV6 && *packet.get(7)? == 255 => {
            let (ip, message) = (octets::<16>(packet, 8)?, packet.get(ipv6::HEADER_BYTES..)?);
            let kind = *message.first()?;
            let question = kind == SOLICITATION;
            if !question && kind != ADVERTISEMENT {
                return None;
            }
            // Without an option it is the sender of the frame.
            let option = message.get(MESSAGE..).filter(|option| option.get(1) == Some(&1));
            let mac = option.and_then(|option| octets(option, 2)).or_else(|| octets(frame, 6))?;
            let of: IpAddr = octets::<16>(message, 8)?.into();
            // An advertisement is said of its target.
            Some(Said { question, mac: Mac(mac), ip: if question { ip.into() } else { of }, of })
        }
        _ => None,
    }
}

/// The answer to a question that is meant for this station.
pub fn answer(me: &Station, frame: &[u8]) -> Option<Vec<u8>> {
    let said = read(frame).filter(|said| said.question && me.ips.contains(said.of) && said.ip != said.of)?;
    match (said.of, said.ip) {
        (IpAddr::V4(of), IpAddr::V4(asker)) => Some(arp(said.mac, 2, me, of, (said.mac, asker))),
        (IpAddr::V6(of), IpAddr::V6(asker)) if !asker.is_unspecified() => {
            Some(discovery((said.mac, asker), me, of, (ADVERTISEMENT, SOLICITED | OVERRIDE, of)))
        }
        _ => None,
    }
}

/// Who an answer, or an announcement, says has this address.
pub fn said(frame: &[u8], whom: IpAddr) -> Option<Mac> {
    read(frame).filter(|said| said.ip == whom).map(|said| said.mac)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn who_is_asked_answers() {
        for vlan in [None, Some(7)] {
            for (one, other) in [("10.0.0.1", "10.0.0.2-10.0.0.9"), ("2001:2::1", "2001:2::2-2001:2::9")] {
                let station = |last, ips: &str| Station {
                    mac: Mac([2, 0, 0, 0, 0, last]),
                    vlan,
                    ips: ips.parse().unwrap(),
                };
                let (a, b) = (station(1, one), station(2, other));
                for whom in [b.ips.first(), b.ips.nth(7)] {
                    let asked = question(&a, whom);
                    let answered = answer(&b, &asked).unwrap();
                    assert_eq!(said(&answered, whom), Some(b.mac));
                    assert_eq!(said(&asked, a.ips.first()), Some(a.mac), "who asks tells who it is");
                    assert_eq!(answered[..6], a.mac.0);
                    assert_eq!(payload(&answered).unwrap().0, payload(&asked).unwrap().0);
                    assert_eq!(answer(&a, &asked), None, "it is not asked");
                    assert_eq!(answer(&b, &answered), None, "an answer is no question");
                    for cut in 0..42 {
                        assert_eq!((answer(&b, &asked[..cut]), said(&asked[..cut], whom)), (None, None));
                    }
                }
                let announced = question(&b, b.ips.first());
                assert_eq!((answer(&b, &announced), said(&announced, b.ips.first())), (None, Some(b.mac)));
                assert_eq!(announced.get(12..14) == Some(&[0x81, 0]), vlan.is_some());
            }
        }
    }

    #[test]
    fn a_solicitation_is_as_the_rfc_has_it() {
        let ips = "2001:2::1".parse().unwrap();
        let a = Station { mac: Mac([2, 0, 0, 0, 0, 1]), vlan: None, ips };
        let asked = question(&a, "2001:2::12:3456".parse().unwrap());
        assert_eq!(asked[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(asked[38..54], [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x12, 0x34, 0x56]);
        let sum = kpps_frames::checksum::Sum::new()
            .with(&asked[22..54])
            .with(&[0, 0, 0, 32, 0, 0, 0, 58])
            .with(&asked[54..]);
        assert_eq!(sum.checksum(), 0);
        // Who is not sure of his address yet is not answered.
        let mut unsure = asked.clone();
        unsure[22..38].fill(0);
        let b = Station { ips: "2001:2::12:3456".parse().unwrap(), ..a };
        assert!(answer(&b, &asked).is_some() && answer(&b, &unsure).is_none());
    }
}
