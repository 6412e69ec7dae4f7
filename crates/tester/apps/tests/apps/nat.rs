//! The NAT byte by byte: packets before and after it, as etherparse reads them.

use crate::network::{HERE, HOST, OURS, S, THERE, interfaces};
use crate::router::arp;
use crate::wires::{Frame, push, tick};
use etherparse::{
    Icmpv4Type, IpFragOffset, Ipv4Header, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, icmpv4,
};
use kpps_apps::{App, Nat, Reason, Router, Timeouts};
use kpps_frames::Mac;
use proptest::prelude::*;
use std::net::Ipv4Addr;

/// Another inside host, in network 0, at the same station.
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

fn nat_with(plan: Nat) -> Router<Frame> {
    let mut router = Router::new(interfaces(), &[]).unwrap().with_nat(plan).unwrap();
    introduce(&mut router, 0);
    router
}

fn nat() -> Router<Frame> {
    nat_with(Nat::new(1))
}

/// All hosts announce themselves.
fn introduce(router: &mut Router<Frame>, now_ns: u64) {
    for (port, host) in [(0, THERE[0]), (0, SECOND), (1, THERE[1])] {
        push(router, port, arp(1, (HOST[port], host), (Mac::BROADCAST, HERE[port])), now_ns);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proto {
    Udp,
    Tcp {
        syn: bool,
        fin: bool,
        rst: bool,
    },
    /// Whether it is a request; its ports are its identifier.
    Echo(bool),
}

const SYN: Proto = Proto::Tcp { syn: true, fin: false, rst: false };
const DATA: Proto = Proto::Tcp { syn: false, fin: false, rst: false };
const FIN: Proto = Proto::Tcp { syn: false, fin: true, rst: false };
const RST: Proto = Proto::Tcp { syn: false, fin: false, rst: true };

type End = (Ipv4Addr, u16);

/// A packet that arrives at a port from the station behind it.
fn packet(port: usize, proto: Proto, from: End, to: End, ttl: u8, payload: &[u8]) -> Frame {
    let mut frame = Vec::new();
    let start = PacketBuilder::ethernet2(HOST[port].0, OURS[port].0);
    let start = start.ipv4(from.0.octets(), to.0.octets(), ttl);
    match proto {
        Proto::Udp => start.udp(from.1, to.1).write(&mut frame, payload),
        Proto::Tcp { syn, fin, rst } => {
            let mut tcp = start.tcp(from.1, to.1, 1000, 500).ack(7);
            if syn {
                tcp = tcp.syn();
            }
            if fin {
                tcp = tcp.fin();
            }
            if rst {
                tcp = tcp.rst();
            }
            tcp.write(&mut frame, payload)
        }
        Proto::Echo(true) => start.icmpv4_echo_request(from.1, 3).write(&mut frame, payload),
        Proto::Echo(false) => start.icmpv4_echo_reply(from.1, 3).write(&mut frame, payload),
    }
    .unwrap();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The fields of a packet, read by etherparse, which checks all checksums.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    from: End,
    to: End,
    ttl: u8,
    payload: Vec<u8>,
}

fn read(frame: &[u8]) -> Read {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let (from, to, payload) = match packet.transport.unwrap() {
        TransportSlice::Udp(udp) => {
            let right = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
            assert!(udp.checksum() == right || udp.checksum() == 0, "UDP checksum");
            (udp.source_port(), udp.destination_port(), udp.payload().to_vec())
        }
        TransportSlice::Tcp(tcp) => {
            let right = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
            assert_eq!(tcp.checksum(), right, "TCP checksum");
            assert_eq!((tcp.sequence_number(), tcp.acknowledgment_number()), (1000, 7));
            (tcp.source_port(), tcp.destination_port(), tcp.payload().to_vec())
        }
        TransportSlice::Icmpv4(icmp) => {
            assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()), "ICMP checksum");
            let id = match icmp.icmp_type() {
                Icmpv4Type::EchoRequest(echo) | Icmpv4Type::EchoReply(echo) => echo.id,
                _ => 0,
            };
            (id, id, icmp.payload().to_vec())
        }
        other => panic!("{other:?}"),
    };
    let (source, destination) = (header.source.into(), header.destination.into());
    Read { from: (source, from), to: (destination, to), ttl: header.time_to_live, payload }
}

/// Sends a packet of an inside host, and returns its outside port.
fn ask(router: &mut Router<Frame>, proto: Proto, from: End, to: u16, now_ns: u64) -> u16 {
    let out = push(router, 0, packet(0, proto, from, (THERE[1], to), 64, b"question"), now_ns);
    assert_eq!((out.len(), out[0].0), (1, 1));
    assert_eq!((&out[0].1[..6], &out[0].1[6..12]), (&HOST[1].0[..], &OURS[1].0[..]));
    let seen = read(&out[0].1);
    assert_eq!((seen.from.0, seen.to.0, seen.ttl), (HERE[1], THERE[1], 63));
    assert_eq!(seen.payload, b"question");
    seen.from.1
}

/// The inside endpoint that a reply from outside reaches.
fn answer(router: &mut Router<Frame>, proto: Proto, from: u16, to: u16, now_ns: u64) -> Option<End> {
    let from = if matches!(proto, Proto::Echo(_)) { to } else { from };
    let out = push(router, 1, packet(1, proto, (THERE[1], from), (HERE[1], to), 64, b"answer"), now_ns);
    let (port, frame) = out.first()?;
    let seen = read(frame);
    assert_eq!((*port, seen.from.0, seen.ttl, &seen.payload[..]), (0, THERE[1], 63, &b"answer"[..]));
    Some(seen.to)
}

#[test]
fn hosts_share_an_address_and_get_their_own_replies() {
    for (proto, reply) in [(Proto::Udp, Proto::Udp), (SYN, DATA), (Proto::Echo(true), Proto::Echo(false))] {
        let mut router = nat();
        let first = ask(&mut router, proto, (THERE[0], 4001), 53, S);
        let second = ask(&mut router, proto, (SECOND, 4001), 53, S);
        assert_eq!(first, 4001, "a free port is kept");
        assert_eq!((second != first, second % 2), (true, 1), "parity is kept");
        assert_eq!(router.mappings(), 2);
        assert_eq!(ask(&mut router, proto, (THERE[0], 4001), 99, S), first, "for any destination");
        assert_eq!(answer(&mut router, reply, 53, second, S), Some((SECOND, 4001)));
        assert_eq!(answer(&mut router, reply, 53, first, S), Some((THERE[0], 4001)));
    }
}

#[test]
fn a_datagram_without_checksum_stays_without() {
    let mut router = nat();
    let mut frame = packet(0, Proto::Udp, (THERE[0], 5000), (THERE[1], 53), 64, b"x");
    frame[40..42].fill(0);
    let out = push(&mut router, 0, frame, S);
    assert_eq!(out[0].1[40..42], [0, 0]);
    assert_eq!(read(&out[0].1).from, (HERE[1], 5000));
}

#[test]
fn unsolicited_packets_are_dropped() {
    let mut router = nat();
    ask(&mut router, Proto::Udp, (THERE[0], 4000), 53, S);
    let outside = |proto, to, port| packet(1, proto, (THERE[1], 53), (to, port), 64, b"?");
    for frame in [
        outside(Proto::Udp, HERE[1], 4001),
        outside(DATA, HERE[1], 4000),
        outside(Proto::Echo(false), HERE[1], 4000),
        outside(Proto::Udp, THERE[0], 4000),
        outside(Proto::Udp, HERE[0], 4000),
        // A protocol without ports. The router drops it without an ICMP error: outside, it looks like a
        // single host.
        with_protocol(outside(Proto::Udp, HERE[1], 4000), 47),
    ] {
        let before = router.ledger().ended(Reason::NoMapping);
        assert_eq!(push(&mut router, 1, frame, S), []);
        assert_eq!(router.ledger().ended(Reason::NoMapping), before + 1);
    }
    // From inside: a reply without a request, and a protocol without ports.
    let reply = packet(0, Proto::Echo(false), (THERE[0], 9), (THERE[1], 9), 64, b"");
    assert_eq!(push(&mut router, 0, reply, S), []);
    let gre = with_protocol(packet(0, Proto::Udp, (THERE[0], 9), (THERE[1], 9), 64, b""), 47);
    assert_eq!(push(&mut router, 0, gre, S), []);
    assert_eq!(router.ledger().ended(Reason::NoMapping), 8);
    let local = router.ledger().ended(Reason::Local);
    // The router's own address answers pings from both sides.
    for port in [0, 1] {
        let ping = packet(port, Proto::Echo(true), (THERE[port], 5), (HERE[1], 5), 64, b"!");
        let out = push(&mut router, port, ping, S);
        assert_eq!((out[0].0, read(&out[0].1).to.0), (port, THERE[port]));
    }
    // A message that is neither a query nor an error is for the router, too: here a router solicitation.
    let mut solicitation = outside(Proto::Echo(true), HERE[1], 5);
    solicitation[34] = 10;
    assert_eq!(push(&mut router, 1, solicitation, S), []);
    assert_eq!(router.ledger().ended(Reason::Local), local + 1);
}

fn with_protocol(mut frame: Frame, protocol: u8) -> Frame {
    frame[23] = protocol;
    resummed(frame)
}

fn resummed(mut frame: Frame) -> Frame {
    let sum = Ipv4Header::from_slice(&frame[14..]).unwrap().0.calc_header_checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// An ICMP error about a packet one hop on, with its first `quoted` bytes.
fn error(port: usize, from: Ipv4Addr, to: Ipv4Addr, about: &[u8], quoted: usize) -> Frame {
    let mut about = about.to_vec();
    about[22] -= 1;
    let about = resummed(about);
    let total = usize::from(u16::from_be_bytes([about[16], about[17]]));
    let kind = Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST[port].0, OURS[port].0)
        .ipv4(from.octets(), to.octets(), 64)
        .icmpv4(kind)
        .write(&mut frame, &about[14..14 + total.min(quoted)])
        .unwrap();
    frame
}

/// The quotation in an ICMP error: an IPv4 header with a good checksum, and the rest.
fn quote(frame: &[u8]) -> (Ipv4Header, Vec<u8>) {
    let payload = read(frame).payload;
    let (header, rest) = Ipv4Header::from_slice(&payload).unwrap();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    (header, rest.to_vec())
}

#[test]
fn errors_reach_the_host_and_quote_its_packet() {
    let echo = Proto::Echo(true);
    for (proto, quoted) in [(Proto::Udp, 1500), (Proto::Udp, 28), (SYN, 1500), (SYN, 28), (echo, 1500)] {
        let mut router = nat();
        ask(&mut router, proto, (THERE[0], 4000), 53, S);
        // The second host's packet leaves by another port; a router further out reports it.
        let sent = packet(0, proto, (SECOND, 4000), (THERE[1], 53), 64, b"question");
        let left = push(&mut router, 0, sent.clone(), S).remove(0).1;
        let hop = Ipv4Addr::new(10, 0, 1, 99);
        let out = push(&mut router, 1, error(1, hop, HERE[1], &left, quoted), S);
        assert_eq!((out.len(), out[0].0), (1, 0));
        let seen = read(&out[0].1);
        assert_eq!((seen.from.0, seen.to.0), (hop, SECOND));
        let (header, rest) = quote(&out[0].1);
        assert_eq!((header.source, header.destination), (SECOND.octets(), THERE[1].octets()));
        let total = usize::from(u16::from_be_bytes([sent[16], sent[17]])).min(quoted);
        assert_eq!(rest, sent[34..14 + total], "as the host sent it, with its checksum");

        // In the other direction: the host refuses a packet.
        let port = read(&left).from.1;
        let (reply, source) = if proto == echo { (Proto::Echo(false), port) } else { (proto, 53) };
        let came = packet(1, reply, (THERE[1], source), (HERE[1], port), 64, b"answer");
        let inside = push(&mut router, 1, came.clone(), S).remove(0).1;
        let out = push(&mut router, 0, error(0, SECOND, THERE[1], &inside, quoted), S);
        assert_eq!((out.len(), out[0].0), (1, 1));
        assert_eq!(read(&out[0].1).from.0, HERE[1]);
        let (header, rest) = quote(&out[0].1);
        assert_eq!((header.source, header.destination), (THERE[1].octets(), HERE[1].octets()));
        let total = usize::from(u16::from_be_bytes([came[16], came[17]])).min(quoted);
        assert_eq!(rest, came[34..14 + total]);
    }
}

#[test]
fn errors_about_unknown_packets_are_dropped() {
    let mut router = nat();
    let sent = packet(0, Proto::Udp, (THERE[0], 4000), (THERE[1], 53), 64, b"question");
    let left = push(&mut router, 0, sent, S).remove(0).1;
    let mut damaged = error(1, THERE[1], HERE[1], &left, 1500);
    damaged[36] ^= 1;
    let about = |from| packet(0, Proto::Udp, from, (THERE[1], 53), 9, b"");

    for (frame, reason) in [
        (damaged, Reason::BadChecksum),
        (error(1, THERE[1], HERE[1], &left, 27), Reason::Malformed),
        (error(1, THERE[1], HERE[1], &about((HERE[1], 4002)), 99), Reason::NoMapping),
        (error(1, THERE[1], HERE[1], &about((THERE[0], 4000)), 99), Reason::NoMapping),
    ] {
        let before = router.ledger().ended(reason);
        assert_eq!(push(&mut router, 1, frame, S), []);
        assert_eq!(router.ledger().ended(reason), before + 1, "{reason:?}");
    }
}

#[test]
fn the_routers_own_errors_quote_the_senders_packet() {
    let mut router = nat();
    let port = ask(&mut router, Proto::Udp, (THERE[0], 4000), 53, S);
    // The last hop of an answer, and of a question.
    let last = packet(1, Proto::Udp, (THERE[1], 53), (HERE[1], port), 1, b"answer");
    let out = push(&mut router, 1, last.clone(), S);
    assert_eq!((out[0].0, read(&out[0].1).payload), (1, last[14..14 + 34].to_vec()));
    let last = packet(0, Proto::Udp, (THERE[0], 4000), (THERE[1], 53), 1, b"question");
    let out = push(&mut router, 0, last.clone(), S);
    assert_eq!((out[0].0, read(&out[0].1).payload), (0, last[14..14 + 36].to_vec()));
}

/// The packet was translated while it waited for a neighbour that does not answer.
#[test]
fn errors_about_neighbours_that_do_not_answer_quote_the_senders_packet() {
    let mut router = nat();
    ask(&mut router, Proto::Udp, (THERE[0], 4444), 53, S);
    let server = ask(&mut router, Proto::Udp, (SECOND, 4444), 53, S);
    assert_ne!(server, 4444);
    // A minute later one host of each side is still there.
    for (port, host) in [(0, THERE[0]), (1, THERE[1])] {
        push(&mut router, port, arp(1, (HOST[port], host), (Mac::BROADCAST, HERE[port])), 61 * S);
    }
    let nobody = (Ipv4Addr::new(10, 0, 1, 77), 53);
    for (begin_s, from, sender, to) in [
        (61, 0, (THERE[0], 4444), nobody),
        // From outside, and from inside by the outside address.
        (71, 1, (THERE[1], 53), (HERE[1], server)),
        (81, 0, (THERE[0], 4444), (HERE[1], server)),
    ] {
        let lost = packet(from, Proto::Udp, sender, to, 64, b"hello");
        push(&mut router, from, lost.clone(), begin_s * S);
        let told = (begin_s + 1..begin_s + 5).flat_map(|n| tick(&mut router, n * S));
        let told: Vec<_> = told.filter(|(_, frame)| frame[12..14] == [8, 0]).collect();
        let [(port, told)] = &told[..] else { panic!("not told: {told:?}") };
        assert_eq!((*port, read(told).to.0), (from, sender.0));
        let (header, rest) = quote(told);
        assert_eq!((header.source, header.destination), (sender.0.octets(), to.0.octets()));
        assert_eq!(rest, lost[34..34 + 13], "with its ports and its checksum");
    }
}

#[test]
fn mappings_expire_unless_the_inside_renews_them() {
    let mut router = nat();
    let port = ask(&mut router, Proto::Udp, (THERE[0], 4000), 53, 0);
    introduce(&mut router, 299 * S);
    assert_eq!(answer(&mut router, Proto::Udp, 53, port, 299 * S), Some((THERE[0], 4000)));
    tick(&mut router, 299 * S + S / 2);
    assert_eq!(answer(&mut router, Proto::Udp, 53, port, 300 * S), None, "a reply renews nothing");
    // The table is swept once a second.
    for (now_ns, mappings) in [(300 * S, 1), (300 * S + S / 2, 0)] {
        tick(&mut router, now_ns);
        assert_eq!(router.mappings(), mappings, "{now_ns}");
    }
    for (now, id) in [(400, 1), (460, 2), (510, 3)] {
        introduce(&mut router, now * S);
        tick(&mut router, now * S);
        ask(&mut router, Proto::Echo(true), (THERE[0], id), 0, now * S);
    }
    assert_eq!(router.mappings(), 2, "a query's are gone after a minute");
}

#[test]
fn an_established_connection_lasts_longer() {
    let timeouts = Timeouts { established_ns: 20 * S, transitory_ns: 5 * S, ..Timeouts::default() };
    let mut router = nat_with(Nat { timeouts, ..Nat::new(1) });
    let reaches = |router: &mut Router<Frame>, at: u64| answer(router, DATA, 80, 4000, at * S).is_some();
    // Never answered.
    ask(&mut router, SYN, (THERE[0], 4000), 80, 0);
    assert!(!reaches(&mut router, 6));
    // Established.
    ask(&mut router, SYN, (THERE[0], 4000), 80, 10 * S);
    assert!(reaches(&mut router, 11));
    ask(&mut router, DATA, (THERE[0], 4000), 80, 12 * S);
    introduce(&mut router, 29 * S);
    assert!(reaches(&mut router, 29));
    // Reset by the other side, and begun anew.
    assert!(answer(&mut router, RST, 80, 4000, 29 * S).is_some());
    assert!(!reaches(&mut router, 35));
    ask(&mut router, SYN, (THERE[0], 4000), 80, 36 * S);
    assert_eq!(router.mappings(), 1);
    // Ended from inside. Later packets do not establish it again.
    for (end, start) in [(FIN, 36), (RST, 50)] {
        introduce(&mut router, start * S);
        ask(&mut router, SYN, (THERE[0], 4000), 80, start * S);
        assert!(reaches(&mut router, start + 1));
        ask(&mut router, end, (THERE[0], 4000), 80, (start + 2) * S);
        ask(&mut router, DATA, (THERE[0], 4000), 80, (start + 3) * S);
        assert!(reaches(&mut router, start + 7));
        assert!(!reaches(&mut router, start + 8));
    }
    // Nothing but its end was seen.
    introduce(&mut router, 60 * S);
    ask(&mut router, FIN, (THERE[0], 4000), 80, 60 * S);
    assert!(reaches(&mut router, 61));
    ask(&mut router, DATA, (THERE[0], 4000), 80, 62 * S);
    assert!(!reaches(&mut router, 67));
    // Begun anew before the end of the last one is forgotten.
    introduce(&mut router, 70 * S);
    ask(&mut router, RST, (THERE[0], 4000), 80, 70 * S);
    ask(&mut router, SYN, (THERE[0], 4000), 80, 71 * S);
    assert!(reaches(&mut router, 72));
    ask(&mut router, DATA, (THERE[0], 4000), 80, 73 * S);
    assert!(reaches(&mut router, 92));
}

#[test]
fn a_full_table_refuses_with_an_error() {
    let mut router = nat_with(Nat { mappings: 2, ..Nat::new(1) });
    ask(&mut router, Proto::Udp, (THERE[0], 1), 53, S);
    ask(&mut router, Proto::Udp, (THERE[0], 2), 53, S);
    let third = packet(0, Proto::Udp, (THERE[0], 3), (THERE[1], 53), 64, b"no room");
    let out = push(&mut router, 0, third.clone(), S);
    assert_eq!((out.len(), out[0].0, router.ledger().ended(Reason::TableFull)), (1, 0, 1));
    assert_eq!(read(&out[0].1).payload, third[14..14 + 35], "the packet as it arrived");
    ask(&mut router, Proto::Udp, (THERE[0], 2), 53, 2 * S);
    // The first has aged, the second was kept.
    tick(&mut router, 301 * S);
    introduce(&mut router, 301 * S);
    ask(&mut router, Proto::Udp, (THERE[0], 3), 53, 301 * S);
    assert_eq!(router.mappings(), 2);
}

#[test]
fn one_host_cannot_take_all_mappings() {
    let mut router = nat_with(Nat { mappings: 8, per_host: 3, ..Nat::new(1) });
    for (port, now_ns) in [(1, S), (2, 101 * S), (3, 201 * S)] {
        introduce(&mut router, now_ns);
        ask(&mut router, Proto::Udp, (THERE[0], port), 53, now_ns);
    }
    let flood = |router: &mut Router<Frame>, now_ns| {
        for port in 4..100 {
            let packet = packet(0, Proto::Udp, (THERE[0], port), (THERE[1], 53), 64, b"flood");
            push(router, 0, packet, now_ns);
        }
        router.mappings()
    };
    assert_eq!((flood(&mut router, 202 * S), router.ledger().ended(Reason::HostFull)), (3, 96));
    assert_eq!(router.ledger().ended(Reason::TableFull), 0);
    // Another host has its own, TCP and ICMP among them.
    for (proto, port) in [(Proto::Udp, 1), (SYN, 1), (Proto::Echo(true), 1)] {
        ask(&mut router, proto, (SECOND, port), 53, 202 * S);
    }
    assert_eq!(router.mappings(), 6);
    // An expired mapping no longer counts: the first of the host's three, after 300 s.
    tick(&mut router, 302 * S);
    introduce(&mut router, 302 * S);
    ask(&mut router, Proto::Udp, (THERE[0], 4), 53, 302 * S);
    assert_eq!(router.ledger().ended(Reason::HostFull), 96);
    // The other two still count.
    push(&mut router, 0, packet(0, Proto::Udp, (THERE[0], 5), (THERE[1], 53), 64, b"?"), 302 * S);
    assert_eq!(router.ledger().ended(Reason::HostFull), 97);
}

#[test]
fn when_all_ports_are_taken_packets_are_refused() {
    let mut router = nat_with(Nat { mappings: usize::MAX, per_host: usize::MAX, ..Nat::new(1) });
    let mut ports = std::collections::HashSet::new();
    for n in 0..65536u32 - 1024 {
        let from = (Ipv4Addr::from(0x0a00_0002 + n / 60_000), 1024 + (n % 60_000) as u16);
        ports.insert(ask(&mut router, Proto::Udp, from, 53, S));
    }
    assert_eq!(ports.len(), 65536 - 1024);
    push(&mut router, 0, packet(0, Proto::Udp, (SECOND, 65000), (THERE[1], 53), 64, b"?"), S);
    assert_eq!(router.ledger().ended(Reason::TableFull), 1);
    // TCP has its own.
    assert_eq!(ask(&mut router, SYN, (SECOND, 65000), 53, S), 65000);
}

#[test]
fn hosts_inside_reach_each_other_by_the_outside_address() {
    let mut router = nat();
    let server = ask(&mut router, Proto::Udp, (SECOND, 7000), 53, S);
    let out = push(&mut router, 0, packet(0, Proto::Udp, (THERE[0], 7000), (HERE[1], server), 64, b"hi"), S);
    let seen = read(&out[0].1);
    assert_eq!((out[0].0, seen.to, seen.from.0, seen.ttl), (0, (SECOND, 7000), HERE[1], 63));
    assert_ne!(seen.from.1, server);
    let out = push(&mut router, 0, packet(0, Proto::Udp, (SECOND, 7000), seen.from, 64, b"hello"), S);
    let back = read(&out[0].1);
    assert_eq!((back.to, back.from), ((THERE[0], 7000), (HERE[1], server)));
}

/// A packet in two fragments. The first has `first` bytes of its payload.
fn fragments(frame: &[u8], first: usize) -> [Frame; 2] {
    let (mut header, rest) = Ipv4Header::from_slice(&frame[14..]).unwrap();
    let rest = &rest[..usize::from(header.payload_len().unwrap())];
    header.dont_fragment = false;
    header.identification = 77;
    [(&rest[..first], 0, true), (&rest[first..], first / 8, false)].map(|(bytes, offset, more)| {
        header.set_payload_len(bytes.len()).unwrap();
        header.fragment_offset = IpFragOffset::try_new(offset as u16).unwrap();
        header.more_fragments = more;
        header.header_checksum = header.calc_header_checksum();
        let mut fragment = frame[..14].to_vec();
        header.write(&mut fragment).unwrap();
        fragment.extend(bytes);
        fragment
    })
}

/// The packet of two fragments.
fn joined(fragments: &[(usize, Frame)]) -> Frame {
    let parts: Vec<_> = fragments.iter().map(|(_, f)| Ipv4Header::from_slice(&f[14..]).unwrap()).collect();
    let mut header = parts[0].0.clone();
    for (header, _) in &parts {
        assert_eq!(header.header_checksum, header.calc_header_checksum());
    }
    assert_eq!((parts[1].0.source, parts[1].0.destination), (header.source, header.destination));
    let rest = [parts[0].1, parts[1].1].concat();
    (header.more_fragments, header.fragment_offset) = (false, IpFragOffset::ZERO);
    header.set_payload_len(rest.len()).unwrap();
    header.header_checksum = header.calc_header_checksum();
    let mut frame = fragments[0].1[..14].to_vec();
    header.write(&mut frame).unwrap();
    frame.extend(rest);
    frame
}

#[test]
fn fragments_follow_the_first_in_any_order() {
    let mut router = nat();
    let long: Vec<u8> = (0..200).collect();
    let question = packet(0, Proto::Udp, (THERE[0], 4000), (THERE[1], 53), 64, &long);
    let [first, second] = fragments(&question, 96);
    let mut out = push(&mut router, 0, first, S);
    out.extend(push(&mut router, 0, second, S));
    let seen = read(&joined(&out));
    assert_eq!((seen.from, &seen.payload), ((HERE[1], 4000), &long));
    let reply = packet(1, Proto::Udp, (THERE[1], 53), (HERE[1], 4000), 64, &long);
    for in_order in [true, false] {
        let mut router = nat();
        ask(&mut router, Proto::Udp, (THERE[0], 4000), 53, S);
        let [first, second] = fragments(&reply, 8);
        let out = if in_order {
            [push(&mut router, 1, first, S), push(&mut router, 1, second, S)].concat()
        } else {
            assert_eq!(push(&mut router, 1, second, S), []);
            assert_eq!(router.ledger().held, 1);
            push(&mut router, 1, first, S)
        };
        assert_eq!(router.ledger().held, 0);
        let seen = read(&joined(&out));
        assert_eq!((seen.to, &seen.payload), ((THERE[0], 4000), &long));
    }
    // Whole packets have no fragments to wait for: however many there are, they take no place of others.
    let mut router = nat();
    ask(&mut router, Proto::Udp, (THERE[0], 4000), 53, S);
    for identification in 0..1000u16 {
        let mut whole = reply.clone();
        whole[18..20].copy_from_slice(&identification.to_be_bytes());
        assert_eq!(push(&mut router, 1, resummed(whole), S).len(), 1);
    }
    let [first, second] = fragments(&reply, 8);
    push(&mut router, 1, second, S);
    assert_eq!(push(&mut router, 1, first, S).len(), 2);
    // The first never comes.
    let mut router = nat();
    for _ in 0..5 {
        push(&mut router, 1, fragments(&reply, 8)[1].clone(), S);
    }
    assert_eq!((router.ledger().held, router.ledger().ended(Reason::QueueFull)), (4, 1));
    tick(&mut router, 31 * S);
    assert_eq!((router.ledger().held, router.ledger().ended(Reason::NoFirstFragment)), (0, 4));
}

#[test]
fn what_is_malformed_is_counted() {
    let mut router = nat();
    let udp = packet(0, Proto::Udp, (THERE[0], 4000), (THERE[1], 53), 64, &[7; 40]);
    let tcp = packet(0, SYN, (THERE[0], 4000), (THERE[1], 53), 64, &[7; 40]);
    let short = |mut frame: Frame, total: u16| {
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        resummed(frame)
    };
    let with = |mut frame: Frame, at: usize, byte: u8| {
        frame[at] = byte;
        frame
    };
    for frame in [
        short(udp.clone(), 27),
        with(udp.clone(), 38, 9),
        with(udp.clone(), 39, 7),
        short(tcp.clone(), 39),
        with(tcp.clone(), 46, 0x40),
        short(with(tcp.clone(), 46, 0xf0), 60),
        // A first fragment too short for its checksum.
        fragments(&tcp, 16)[0].clone(),
    ] {
        let before = router.ledger().ended(Reason::Malformed);
        assert_eq!(push(&mut router, 0, frame.clone(), S), [], "{frame:02x?}");
        assert_eq!(router.ledger().ended(Reason::Malformed), before + 1, "{frame:02x?}");
    }
}

/// The packet with its endpoints exchanged.
fn reversed(frame: &[u8]) -> Frame {
    let mut frame = frame.to_vec();
    frame[26..34].rotate_left(4);
    if frame[23] != 1 {
        frame[34..38].rotate_left(2);
    }
    frame
}

proptest! {
    /// For any frames from both sides, valid or damaged: every frame is accounted for, sent frames have good
    /// headers, and no frame to the outside names an inside host.
    #[test]
    fn frames_are_conserved(
        events in prop::collection::vec(
            (
                0usize..2,
                prop::sample::select(vec![Proto::Udp, SYN, DATA, RST, Proto::Echo(true), Proto::Echo(false)]),
                (0usize..3, 0u16..4, 0u16..3),
                prop::option::of((0usize..60, any::<u8>())),
                0u8..4,
                0u64..40,
            ),
            1..80,
        ),
    ) {
        let mut router = nat_with(Nat { mappings: 4, ..Nat::new(1) });
        let (start, mut came, mut left, mut now) = (router.ledger(), 0, 0, S);
        for (port, proto, (host, near, far), spoilt, shape, later) in events {
            now += later * S;
            let (near, far) = (4000 + near, (THERE[1], 53 + far));
            let whole = match port {
                0 => packet(0, proto, ([THERE[0], SECOND, HERE[1]][host], near), far, 2, &[9; 30]),
                _ => packet(1, proto, far, ([HERE[1], HERE[1], THERE[0]][host], near), 2, &[9; 30]),
            };
            let mut frames = match shape {
                0 => fragments(&whole, 24).to_vec(),
                1 => {
                    let ends = Ipv4Header::from_slice(&whole[14..]).unwrap().0;
                    vec![error(port, ends.source.into(), ends.destination.into(), &reversed(&whole), 60)]
                }
                _ => vec![whole],
            };
            if let Some((at, byte)) = spoilt {
                let frame = &mut frames[0];
                let at = at % frame.len();
                frame[at] = byte;
                // Otherwise most frames fail at the header checksum.
                if byte % 2 == 0 && Ipv4Header::from_slice(&frame[14..]).is_ok() {
                    *frame = resummed(frame.clone());
                }
            }
            for frame in frames {
                came += 1;
                let mut out = push(&mut router, port, frame, now);
                out.extend(tick(&mut router, now));
                left += out.len() as u64;
                for (port, frame) in out.iter().filter(|(_, frame)| frame[12..14] == [8, 0]) {
                    let (header, _) = Ipv4Header::from_slice(&frame[14..]).unwrap();
                    prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
                    let hidden = *port == 0 || header.source == HERE[1].octets();
                    prop_assert!(hidden, "{:?} outside", header.source);
                }
            }
        }
        prop_assert!(router.mappings() <= 4);
        let end = router.ledger();
        prop_assert_eq!(end.received - start.received, came);
        prop_assert_eq!(end.sent - start.sent, left);
    }
}
