//! Address resolution (RFC 826) and neighbour discovery (RFC 4861) of the tester's stations: the device under
//! test must learn where they are, and must not forget it. They answer pings, too (RFC 792, RFC 4443).

use kpps_frames::build;
use kpps_frames::encap::Tags;
use kpps_frames::ethernet::{Frame, TYPE_ARP, TYPE_IPV4, TYPE_IPV6};
use kpps_frames::flows::Addresses;
use kpps_frames::headers::{self, Headers, payload_type};
use kpps_frames::{Mac, arp, checksum, icmp, ipv4, ipv6, nd};
use std::net::IpAddr;

/// The TTL or hop limit of answers to pings, and where both are in their headers.
const HOPS: u8 = 64;
const TTL_AT: usize = 8;
const HOP_LIMIT_AT: usize = 7;

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

/// Whether stations must see this frame: a message of either protocol, or a ping.
pub fn is_message(frame: &[u8]) -> bool {
    Message::read(frame).is_some() || ping(frame).is_some()
}

/// The headers of a ping: an echo request in a whole packet without options, and right.
pub(crate) fn ping(frame: &[u8]) -> Option<Headers> {
    let (kind, _) = payload_type(frame)?;
    let headers = Headers::of(frame).filter(|it| it.whole && [TYPE_IPV4, TYPE_IPV6].contains(&kind))?;
    let (plain_bytes, protocol, request) = match headers.is_ipv6 {
        false => (ipv4::HEADER_BYTES, ipv4::PROTOCOL_ICMP, icmp::ECHO),
        true => (ipv6::HEADER_BYTES, nd::PROTOCOL, icmp::ECHO_V6),
    };
    let message = frame.get(headers.transport..headers.end)?;
    let is_request = message.starts_with(&[request, 0])
        && headers.protocol == protocol
        && headers.transport == headers.ip + plain_bytes;
    (is_request && headers.pseudo_header(frame).with(message).checksum() == 0).then_some(headers)
}

/// The answer of this station to a ping to one of its addresses.
fn pong(me: &Station, frame: &[u8]) -> Option<Vec<u8>> {
    let whole = ping(frame)?;
    let [from, to] = headers::addresses(frame)?;
    let (to_mac, from_mac): (&[u8; 6], &[u8; 6]) = (frame.first_chunk()?, frame.get(6..)?.first_chunk()?);
    let is_for_us = *to_mac == me.mac.0 && me.ips.contains(to);
    if !is_for_us || Mac(*from_mac).is_multicast() || from.is_multicast() || from.is_unspecified() {
        return None;
    }
    let mut answer = frame.to_vec();
    let (stations, rest) = answer.split_at_mut_checked(2 * from_mac.len())?;
    stations.copy_from_slice(&[*from_mac, *to_mac].concat());
    // Where places are in the rest of the frame.
    let at = |place: usize| place - stations.len();
    let (addresses, message) = (whole.addresses(), whole.transport);
    let addresses = rest.get_mut(at(addresses.start)..at(addresses.end))?;
    addresses.rotate_left(addresses.len() / 2);
    let message = rest.get_mut(at(message)..at(whole.end))?;
    if whole.is_ipv6 {
        icmp::reply_to_echo_v6(message).ok()?;
        *answer.get_mut(whole.ip + HOP_LIMIT_AT)? = HOPS;
    } else {
        icmp::reply_to_echo(message).ok()?;
        *answer.get_mut(whole.ip + TTL_AT)? = HOPS;
        let sum = whole.ip_checksum()?;
        answer.get_mut(sum..sum + 2)?.fill(0);
        let right = checksum::checksum(answer.get(whole.ip..whole.transport)?);
        answer.get_mut(sum..sum + 2)?.copy_from_slice(&right.to_be_bytes());
    }
    Some(answer)
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

/// The answer of this station to a question about one of its addresses, or to a ping, in the VLAN of the
/// question. The host that asks may have no address yet, and may probe whether this address is free (RFC
/// 5227, RFC 4862).
pub fn answer(me: &Station, frame: &[u8]) -> Option<Vec<u8>> {
    let me = &Station { tags: Tags::of(frame), ..*me };
    let Some(message) = Message::read(frame) else { return pong(me, frame) };
    match message {
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

/// The answer of a port to a question: that of its own station, in any VLAN, or of the first of other
/// stations in place of it that has one, each in its own VLANs.
pub fn answer_at(own: &Station, others: &[Station], frame: &[u8]) -> Option<Vec<u8>> {
    if others.is_empty() {
        return answer(own, frame);
    }
    if !is_message(frame) {
        return None;
    }
    let tags = Tags::of(frame);
    let others = others.iter().filter(|other| other.tags.ids().eq(tags.ids()));
    others.filter_map(|other| answer(other, frame)).next()
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

    /// Pings to an address of a station come back, and nothing else does.
    #[test]
    fn pings_are_answered() {
        let [me, asker] = [2, 1].map(|last| Mac([2, 0, 0, 0, 0, last]));
        let with_ips = |ips: &str| Station { mac: me, tags: Tags::default(), ips: ips.parse().unwrap() };
        // The headers of IP have both addresses at their ends.
        let v4 = |total: usize| {
            let [high, low] = (total as u16).to_be_bytes();
            let mut packet = vec![0x45, 0, high, low, 0, 7, 0, 0, 3, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9];
            let sum = checksum::checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet.resize(total, 5);
            packet[20..28].copy_from_slice(&[icmp::ECHO, 0, 0, 0, 1, 2, 3, 4]);
            icmp::put_checksum(&mut packet[20..]);
            packet
        };
        let v6 = || {
            let ends =
                ["2001:2::1", "2001:2::9"].map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap().octets());
            let mut packet =
                [&[0x60, 0, 0, 0, 0, 16, nd::PROTOCOL, 3][..], &ends.concat(), &[5; 16]].concat();
            packet[40..48].copy_from_slice(&[icmp::ECHO_V6, 0, 0, 0, 1, 2, 3, 4]);
            let sum = checksum::Sum::new().with(&ends.concat()).with(&[0, 0, 0, 16, 0, 0, 0, 58]);
            let sum = sum.with(&packet[40..]).checksum();
            packet[42..44].copy_from_slice(&sum.to_be_bytes());
            packet
        };
        for (kind, packet, ips) in [
            (TYPE_IPV4, v4(28), "10.0.0.2-10.0.0.9"),
            (TYPE_IPV4, v4(1400), "10.0.0.9"),
            (TYPE_IPV6, v6(), "2001:2::2-2001:2::9"),
        ] {
            for encap in ["none", "vlan:7", "qinq:100+vlan:7"] {
                let mut ping = build::frame(me, asker, None, kind, &packet).unwrap();
                encap.parse::<Encap>().unwrap().tags().put(&mut ping);
                assert!(is_message(&ping));
                let pong = answer(&with_ips(ips), &ping).unwrap();
                assert_eq!((pong.len(), &pong[..6], &pong[6..12]), (ping.len(), &asker.0[..], &me.0[..]));
                assert_eq!(Tags::of(&pong), Tags::of(&ping));
                let of = |frame: &[u8]| headers::addresses(frame).unwrap();
                assert_eq!(of(&pong), [of(&ping)[1], of(&ping)[0]]);
                let headers = Headers::of(&pong).unwrap();
                let mut right = pong.clone();
                headers.put_checksums(&mut right);
                assert_eq!(pong, right, "its checksums are right");
                let reply = if headers.is_ipv6 { icmp::ECHO_REPLY_V6 } else { icmp::ECHO_REPLY };
                assert_eq!(pong[headers.transport..][..2], [reply, 0]);
                assert_eq!(pong[headers.transport + 4..], ping[headers.transport + 4..]);
                // A reply is not answered, and a ping to another address or station is not.
                assert_eq!((answer(&with_ips(ips), &pong), is_message(&pong)), (None, false));
                assert_eq!(answer(&with_ips("10.0.0.1"), &ping), None);
                assert_eq!(answer(&Station { mac: asker, ..with_ips(ips) }, &ping), None);
                let mut damaged = ping.clone();
                damaged[headers.transport + 5] ^= 1;
                assert_eq!(answer(&with_ips(ips), &damaged), None);
                let mut group = ping.clone();
                group[6] |= 1;
                assert_eq!(answer(&with_ips(ips), &group), None, "no station sends so");
                for cut in 0..headers.transport + 8 {
                    assert_eq!(answer(&with_ips(ips), &ping[..cut]), None);
                }
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
