//! Address resolution (RFC 826) and neighbour discovery (RFC 4861) of the tester's stations: the device under
//! test must learn where they are.

use kpps_frames::build;
use kpps_frames::encap::Tags;
use kpps_frames::ethernet::{Frame, TYPE_ARP, TYPE_IPV6};
use kpps_frames::flows::Addresses;
use kpps_frames::headers::payload_type;
use kpps_frames::{Mac, arp, nd};
use std::net::IpAddr;

/// One end of the tester as a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its Ethernet address.
    pub mac: Mac,
    /// The VLAN tags of its messages.
    pub tags: Tags,
    /// Its IP addresses.
    pub ips: Addresses,
}

impl Station {
    /// A frame of this station. No message is longer than a frame.
    fn frame(&self, to: Mac, kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = build::frame(to, self.mac, None, kind, payload).unwrap_or_default();
        self.tags.put(&mut frame);
        frame
    }
}

/// A message of either protocol.
enum Message {
    Arp(arp::Message),
    Discovery(nd::Message),
}

impl Message {
    fn read(frame: &[u8]) -> Option<Self> {
        let (kind, at) = payload_type(frame)?;
        match kind {
            TYPE_ARP => arp::Message::parse(&frame[at..]).ok().map(Self::Arp),
            TYPE_IPV6 => {
                let mut message = nd::Message::parse(&frame[at..]).ok()?;
                // Without the option it is the sender of the frame.
                message.mac = message.mac.or(Some(Frame::new_checked(frame).ok()?.source()));
                Some(Self::Discovery(message))
            }
            _ => None,
        }
    }
}

/// Whether this frame is a message of either protocol.
pub fn is_message(frame: &[u8]) -> bool {
    Message::read(frame).is_some()
}

/// The frame by which `from` asks for the station address of `whom`. If that is its own first address, the
/// station announces itself.
pub fn question(from: &Station, whom: IpAddr) -> Vec<u8> {
    match (from.ips.first(), whom) {
        (IpAddr::V6(ip), IpAddr::V6(whom)) => {
            let message = if ip == whom {
                nd::Message::announcement(from.mac, ip)
            } else {
                nd::Message::solicitation(from.mac, ip, whom)
            };
            from.frame(nd::group_mac(message.destination), TYPE_IPV6, &message.to_bytes())
        }
        (IpAddr::V4(ip), IpAddr::V4(whom)) => {
            let message = arp::Message::request(from.mac, ip, whom);
            from.frame(Mac::BROADCAST, TYPE_ARP, &message.to_bytes())
        }
        // A station of the other version cannot be asked.
        _ => from.frame(Mac::BROADCAST, TYPE_ARP, &[]),
    }
}

/// The answer of this station to a question about one of its addresses, in the VLAN of the question. The host
/// that asks may have no address yet, and may probe whether this address is free (RFC 5227, RFC 4862).
pub fn answer(me: &Station, frame: &[u8]) -> Option<Vec<u8>> {
    let me = &Station { tags: Tags::of(frame), ..*me };
    match Message::read(frame)? {
        Message::Arp(message) => {
            let is_for_us = message.is_request()
                && me.ips.contains(message.target.into())
                && message.sender != message.target
                && !message.sender_mac.is_multicast();
            is_for_us.then(|| me.frame(message.sender_mac, TYPE_ARP, &message.reply(me.mac).to_bytes()))
        }
        Message::Discovery(message) => {
            let answer = message.answer(me.mac)?;
            let is_for_us = me.ips.contains(message.target.into()) && message.source != message.target;
            let to = if answer.destination.is_multicast() {
                nd::group_mac(answer.destination)
            } else {
                message.mac.unwrap_or_default()
            };
            is_for_us.then(|| me.frame(to, TYPE_IPV6, &answer.to_bytes()))
        }
    }
}

/// The station address of `whom`, if a message has it: the address of its sender, or of the target of an
/// advertisement.
pub fn announced_mac(frame: &[u8], whom: IpAddr) -> Option<Mac> {
    let (ip, mac): (IpAddr, _) = match Message::read(frame)? {
        Message::Arp(message) => (message.sender.into(), message.sender_mac),
        Message::Discovery(message) => match message.kind {
            nd::Kind::Solicitation => (message.source.into(), message.mac?),
            nd::Kind::Advertisement { .. } => (message.target.into(), message.mac?),
        },
    };
    (ip == whom).then_some(mac)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Encap;

    #[test]
    fn who_is_asked_answers() {
        for encap in ["none", "vlan:7", "qinq:100+vlan:7"] {
            let tags = encap.parse::<Encap>().unwrap().tags();
            for (one, other) in [("10.0.0.1", "10.0.0.2-10.0.0.9"), ("2001:2::1", "2001:2::2-2001:2::9")] {
                let station = |last, ips: &str| Station {
                    mac: Mac([2, 0, 0, 0, 0, last]),
                    tags,
                    ips: ips.parse().unwrap(),
                };
                let (a, b) = (station(1, one), station(2, other));
                for whom in [b.ips.first(), b.ips.nth(7)] {
                    let request = question(&a, whom);
                    let answered = answer(&b, &request).unwrap();
                    assert_eq!(announced_mac(&answered, whom), Some(b.mac));
                    assert_eq!(
                        announced_mac(&request, a.ips.first()),
                        Some(a.mac),
                        "a question names its sender"
                    );
                    assert_eq!(answered[..6], a.mac.0);
                    let kind = |frame: &[u8]| (payload_type(frame), Tags::of(frame));
                    assert_eq!(kind(&answered), kind(&request));
                    assert_eq!(answer(&a, &request), None, "it is not asked");
                    assert_eq!(answer(&b, &answered), None, "an answer is no question");
                    for cut in 0..42 {
                        assert_eq!(
                            (answer(&b, &request[..cut]), announced_mac(&request[..cut], whom)),
                            (None, None)
                        );
                    }
                }
                let announced = question(&b, b.ips.first());
                assert_eq!(
                    (answer(&b, &announced), announced_mac(&announced, b.ips.first())),
                    (None, Some(b.mac))
                );
                assert_eq!(announced.get(12..14) == Some(&[0x81, 0]), encap == "vlan:7");
                assert_eq!(Tags::of(&announced), tags);
            }
        }
    }

    #[test]
    fn a_solicitation_is_as_the_rfc_has_it() {
        let ips = "2001:2::1".parse().unwrap();
        let a = Station { mac: Mac([2, 0, 0, 0, 0, 1]), tags: Tags::default(), ips };
        let request = question(&a, "2001:2::12:3456".parse().unwrap());
        assert_eq!(request[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(request[38..54], [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x12, 0x34, 0x56]);
        let sum = kpps_frames::checksum::Sum::new()
            .with(&request[22..54])
            .with(&[0, 0, 0, 32, 0, 0, 0, 58])
            .with(&request[54..]);
        assert_eq!(sum.checksum(), 0);
    }

    /// A host that probes for an address of the station, and has none yet, gets an answer, and is not learned
    /// as a station.
    #[test]
    fn probes_are_answered() {
        let me = Mac([2, 0, 0, 0, 0, 2]);
        let asker = Mac([2, 0, 0, 0, 0, 1]);
        for (wanted, nobody) in [("10.0.0.9", "0.0.0.0"), ("2001:2::9", "::")] {
            let ip = |text: &str| text.parse::<IpAddr>().unwrap();
            let tags = "vlan:7".parse::<Encap>().unwrap().tags();
            let unsure = Station { mac: asker, tags, ips: nobody.parse().unwrap() };
            let mut probe = question(&unsure, ip(wanted));
            if ip(wanted).is_ipv6() {
                // Without the option of a station.
                probe.truncate(probe.len() - 8);
                probe[22..24].copy_from_slice(&24_u16.to_be_bytes());
            }
            let station = |ips: &str| Station { mac: me, tags: Tags::default(), ips: ips.parse().unwrap() };
            assert_eq!(answer(&station("10.0.0.8"), &probe), None, "it has another address");
            let answered = answer(&station(wanted), &probe).unwrap();
            assert_eq!(announced_mac(&answered, ip(wanted)), Some(me));
            let to = if ip(wanted).is_ipv6() { Mac([0x33, 0x33, 0, 0, 0, 1]) } else { asker };
            assert_eq!((&answered[..6], Tags::of(&answered)), (&to.0[..], tags));
            assert_eq!(announced_mac(&probe, ip(wanted)), None);
            // A station that is a group gets no answer.
            let group = Station { mac: Mac([3, 0, 0, 0, 0, 1]), ..unsure };
            assert!(
                ip(wanted).is_ipv6() || answer(&station(wanted), &question(&group, ip(wanted))).is_none()
            );
        }
    }
}
